//! Servers in separate processes: the real `redis-server`, and this project's binary.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use super::wire::PATIENCE;
use super::{Dice, wait_until};

/// A server process that is killed on drop.
pub struct ServerProcess {
    child: Child,
    address: SocketAddr,
    /// The server that it stands in front of. It ends with it.
    upstream: Option<Box<ServerProcess>>,
    /// Where it saves its data. The folder ends with it.
    folder: Option<PathBuf>,
}

impl ServerProcess {
    /// Starts the real `redis-server`.
    pub fn redis(arguments: &[&str]) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        // A folder of its own, because the server would load what another one has saved.
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("redouble-redis-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut all = vec!["--bind", "127.0.0.1", "--dir", folder.to_str().expect("a path that is text")];
        all.extend(arguments);
        let mut server = Self::program("redis-server", &all).unwrap_or_else(|error| {
            panic!(
                "redis-server cannot be started ({error}). These tests compare with the real one: `make test` installs \
                 it, or on Debian 12 `apt-get install redis-server`."
            )
        });
        server.folder = Some(folder);
        server
    }

    /// Starts this project's binary.
    pub fn redouble(arguments: &[&str]) -> Self {
        let binary = env!("CARGO_BIN_EXE_redouble");
        Self::program(binary, arguments).unwrap_or_else(|error| panic!("{binary}: {error}"))
    }

    /// Starts this project's binary with its log in a file.
    pub fn redouble_logging_to(log: &Path, arguments: &[&str]) -> Self {
        let port = free_port();
        let child = Command::new(env!("CARGO_BIN_EXE_redouble"))
            .args(["--port", &port.to_string(), "--logfile", log.to_str().expect("a path that is text")])
            .args(arguments)
            .stdin(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let server = Self::new(child, port);
        wait_until("the server to be ready", || {
            std::fs::read_to_string(log).is_ok_and(|text| text.contains("Ready to accept connections"))
        });
        server
    }

    /// Starts any program that takes a server's directives and prints when it is ready.
    pub fn program(program: &str, arguments: &[&str]) -> std::io::Result<Self> {
        // Instances take ports in a row, unless the arguments choose the port themselves.
        let instances = arguments.iter().skip_while(|argument| **argument != "--instances").nth(1);
        let instances = instances.filter(|_| !arguments.contains(&"--port"));
        let count = instances.and_then(|count| count.parse().ok()).unwrap_or(1);
        // Another program may take a port between `free_ports` and the start of the server.
        let mut attempts = 0;
        loop {
            attempts += 1;
            let port = free_ports(count);
            let mut child = Command::new(program)
                .arg("--port")
                .arg(port.to_string())
                .args(arguments)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
            match until_ready(&mut child) {
                Ok(()) => return Ok(Self::new(child, port)),
                Err(said) => {
                    let _ = child.kill();
                    let status = child.wait()?;
                    if attempts == 5 || !said.contains("Address already in use") {
                        panic!("{program} {arguments:?} ended with {status} and said:\n{said}");
                    }
                }
            }
        }
    }

    fn new(child: Child, port: u16) -> Self {
        Self { child, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), upstream: None, folder: None }
    }

    /// Keeps the server behind it until it ends.
    pub fn in_front_of(mut self, upstream: Self) -> Self {
        self.upstream = Some(Box::new(upstream));
        self
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the processor time that the server has taken, in steps of ten milliseconds.
    pub fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("the server runs");
        // The name in front may hold blanks.
        let (_, fields) = stat.rsplit_once(')').expect("a name in parentheses");
        let ticks = fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().expect("a number"));
        Duration::from_millis(ticks.sum::<u64>() * 10)
    }

    /// Returns the resident memory in bytes.
    pub fn resident(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("the server runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
        line.trim().trim_end_matches("kB").trim().parse::<usize>().expect("a number") * 1024
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Returns a port that was free a moment ago.
pub fn free_port() -> u16 {
    free_ports(1)
}

/// Returns the first of so many ports in a row that were free a moment ago.
///
/// They are below the range from which the system gives ports to clients, because a client of another test may get one of that range
/// before the server does. No two tests of a process get the same ports, and each process begins at a place of its own.
fn free_ports(count: u16) -> u16 {
    /// Where the range of clients begins on Linux, unless that is set otherwise.
    const CLIENTS: u16 = 32_768;
    const FIRST: u16 = CLIENTS / 2;
    static GIVEN: AtomicUsize = AtomicUsize::new(0);
    let places = usize::from(CLIENTS - FIRST - count);
    let begin = Dice::new(std::process::id().into()).below(places);
    for _ in 0..1000 {
        let place = (begin + GIVEN.fetch_add(count.into(), Ordering::Relaxed)) % places;
        let first = FIRST + u16::try_from(place).expect("below the range of clients");
        let row = (first..first + count).map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok());
        if row.collect::<Option<Vec<_>>>().is_some() {
            return first;
        }
    }
    panic!("there are no {count} free ports in a row");
}

/// Waits for the line that says that the server is ready. The error is the output without that line.
fn until_ready(child: &mut Child) -> Result<(), String> {
    let stdout = child.stdout.take().expect("piped");
    let mut stderr = child.stderr.take().expect("piped");
    let (sender, receiver) = mpsc::channel();
    let errors = sender.clone();
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        let _ = errors.send(text);
    });
    // Keeps reading after the awaited line, so that the server never blocks on a full pipe.
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = sender.send(line + "\n");
        }
    });
    let mut said = String::new();
    loop {
        match receiver.recv_timeout(PATIENCE) {
            Ok(line) if line.contains("Ready to accept connections") => return Ok(()),
            Ok(line) => said.push_str(&line),
            Err(mpsc::RecvTimeoutError::Disconnected) => return Err(said),
            Err(mpsc::RecvTimeoutError::Timeout) => return Err(said + "(and then nothing)"),
        }
    }
}
