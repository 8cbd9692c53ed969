//! Servers in their own processes: the real `redis-server`, and this project's binary.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use super::wire::PATIENCE;

/// A server that runs until this is dropped.
pub struct ServerProcess {
    child: Child,
    address: SocketAddr,
}

impl ServerProcess {
    /// The real `redis-server`.
    pub fn redis(arguments: &[&str]) -> Self {
        let directory = std::env::temp_dir();
        let directory = directory.to_str().expect("a path that is text");
        // A file of its own: the server would load what another one has saved.
        let file = format!("redouble-tests-{}-{}.rdb", std::process::id(), free_port());
        let mut all = vec!["--bind", "127.0.0.1", "--dir", directory, "--dbfilename", &file];
        all.extend(arguments);
        Self::program("redis-server", &all).unwrap_or_else(|error| {
            panic!(
                "redis-server cannot be started ({error}). These tests compare with the real one: `make test` installs \
                 it, or on Debian 12 `apt-get install redis-server`."
            )
        })
    }

    /// This project's binary.
    pub fn redouble(arguments: &[&str]) -> Self {
        let binary = env!("CARGO_BIN_EXE_redouble");
        Self::program(binary, arguments).unwrap_or_else(|error| panic!("{binary}: {error}"))
    }

    /// Any program that takes a server's directives and says when it is ready.
    pub fn program(program: &str, arguments: &[&str]) -> std::io::Result<Self> {
        // Another process may take the port between `free_port` and the start of the server.
        let mut attempts = 0;
        loop {
            attempts += 1;
            let port = free_port();
            let mut child = Command::new(program)
                .arg("--port")
                .arg(port.to_string())
                .args(arguments)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
            match until_ready(&mut child) {
                Ok(()) => return Ok(Self { child, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)) }),
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

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory, in bytes.
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
    }
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// Waits for the line that says that the server is ready. The error is its output without that line.
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
    // Reads on after the awaited line, so that the server never blocks on a full pipe.
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
