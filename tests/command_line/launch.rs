//! The binary as harnesses, scripts and people start `redis-server`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{wait_for, wait_until};

const BINARY: &str = env!("CARGO_BIN_EXE_redouble");

/// The time-out of every wait.
const PATIENCE: Duration = Duration::from_secs(20);

/// A temporary directory for one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("redouble-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running server whose output the test reads.
struct Running {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn start(arguments: &[&str]) -> Running {
    Running::of(command(arguments).spawn().unwrap())
}

impl Running {
    fn of(mut child: Child) -> Self {
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, lines, seen: Vec::new() }
    }

    /// Reads from the beginning of the output up to the first line that contains a text.
    fn line(&mut self, text: &str) -> String {
        if let Some(line) = self.seen.iter().find(|line| line.contains(text)) {
            return line.clone();
        }
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if line.contains(text) {
                        return line;
                    }
                }
                Err(_) => panic!("no line with {text:?}, only:\n{}", self.seen.join("\n")),
            }
        }
    }

    /// Reads all output until the process exits.
    fn all_lines(&mut self) -> String {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => self.seen.push(line),
                Err(RecvTimeoutError::Disconnected) => return self.seen.join("\n"),
                Err(RecvTimeoutError::Timeout) => panic!("it goes on running:\n{}", self.seen.join("\n")),
            }
        }
    }

    fn port(&mut self) -> u16 {
        let line = self.line("Running mode=standalone");
        self.line("eady to accept connections");
        line.split("port=").nth(1).unwrap().trim_end_matches('.').parse().unwrap()
    }

    fn connect(&mut self) -> Talk<TcpStream> {
        let port = self.port();
        Talk::new(TcpStream::connect(("127.0.0.1", port)).unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn end(&mut self) -> ExitStatus {
        self.all_lines();
        self.child.wait().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that sends inline commands and returns each reply as one line of text.
struct Talk<S>(BufReader<S>);

impl<S: Read + Write> Talk<S> {
    fn new(stream: S) -> Self {
        Self(BufReader::new(stream))
    }

    fn ask(&mut self, line: &str) -> String {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
        self.reply().join(" ")
    }

    fn reply(&mut self) -> Vec<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let line = line.trim_end();
        let number = || line[1..].parse::<i64>().unwrap();
        match line.chars().next() {
            Some('*') => (0..number()).flat_map(|_| self.reply()).collect(),
            Some('$') if number() < 0 => vec!["nil".to_owned()],
            Some('$') => {
                let mut bytes = vec![0; usize::try_from(number()).unwrap() + 2];
                self.0.read_exact(&mut bytes).unwrap();
                vec![String::from_utf8_lossy(&bytes[..bytes.len() - 2]).into_owned()]
            }
            _ => vec![line.to_owned()],
        }
    }
}

fn on_socket(path: &Path) -> Talk<UnixStream> {
    Talk::new(UnixStream::connect(path).unwrap())
}

/// Runs a program that exits by itself and returns its output.
fn run(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn errors(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn log(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

// ---- ready

#[test]
fn port_0_alone_takes_a_free_port_and_names_it() {
    let mut server = start(&["--port", "0"]);
    let listening = server.line("Listening on 127.0.0.1:");
    let port = server.port();
    assert!(listening.ends_with(&format!(":{port}")), "{listening}");
    let mut talk = server.connect();
    assert_eq!(talk.ask("PING"), "+PONG");
    assert_eq!(talk.ask("CONFIG GET port"), format!("port {port}"));
}

#[test]
fn the_lines_that_harnesses_wait_for_are_written_as_redis_writes_them() {
    let mut server = start(&["--port", "0", "--compat", "redis-7.0"]);
    let pid = server.child.id();
    server.line("oO0OoO0OoO0Oo Redis is starting oO0OoO0OoO0Oo");
    server.line("Redis version=7.0.15, bits=64");
    let ready = server.line("Ready to accept connections");
    let words: Vec<&str> = ready.split(' ').collect();
    assert_eq!(words[0], format!("{pid}:M"));
    assert_eq!(words.len(), 10, "{ready}");
    assert!(ready.ends_with(" * Ready to accept connections"), "{ready}");
    assert_eq!((words[3].len(), words[4].len()), (4, "21:22:25.454".len()), "{ready}");
}

#[test]
fn a_newer_profile_says_which_kind_of_connections_it_accepts() {
    let folder = Folder::new("kinds");
    let mut server = start(&["--port", "0", "--unixsocket", &folder.text("s"), "--compat", "valkey-8.1"]);
    server.line("oO0OoO0OoO0Oo Valkey is starting oO0OoO0OoO0Oo");
    server.line("* Ready to accept connections unix");
    server.line(&format!("The server is now ready to accept connections at {}", folder.text("s")));
}

#[test]
fn the_port_file_holds_the_port_once_the_server_can_be_connected_to() {
    let folder = Folder::new("port-file");
    let mut server = start(&["--port", "0", "--port-file", &folder.text("port"), "--logfile", &folder.text("log")]);
    // The file appears with its whole content: the server writes a temporary file and renames it.
    let port = wait_for("the port file", || {
        let text = fs::read_to_string(folder.path("port"));
        assert!(text.is_ok() || server.child.try_wait().unwrap().is_none(), "it ended");
        text
    });
    let port: u16 = port.trim_end().parse().unwrap();
    let mut talk = Talk::new(TcpStream::connect(("127.0.0.1", port)).unwrap());
    assert_eq!(talk.ask("PING"), "+PONG");
    assert!(server.lines.try_recv().is_err(), "the log went to the file");
    assert!(fs::read_to_string(folder.path("log")).unwrap().contains("Ready to accept connections"));
}

#[test]
fn a_value_may_stand_behind_an_equals_sign_and_directories_of_files_are_made() {
    let folder = Folder::new("equals");
    let files = ["port", "pid", "log"].map(|name| folder.path("made").join(name).join(name));
    let [port, pid, log] = files.each_ref().map(|path| path.display().to_string());
    let arguments =
        ["--port=0", "--databases=3", "--save=", &format!("--port-file={port}"), &format!("--pidfile={pid}")];
    let mut server = start(&[&arguments[..], &["--requirepass=a=b", &format!("--logfile={log}")]].concat());
    wait_for_file(&files[0], &mut server);
    let port: u16 = fs::read_to_string(&port).unwrap().trim_end().parse().unwrap();
    let mut talk = Talk::new(TcpStream::connect(("127.0.0.1", port)).unwrap());
    assert_eq!(talk.ask("AUTH a=b"), "+OK");
    assert_eq!(talk.ask("CONFIG GET databases save"), "databases 3 save ");
    assert!(files[1].exists() && files[2].exists());
}

// ---- what harnesses pass

#[test]
fn pytest_redis_starts_it_unchanged() {
    let folder = Folder::new("pytest-redis");
    let at = |name: &str| folder.text(name);
    let (pid, socket, log, dir) = (at("p"), at("s"), at("l"), at(""));
    let arguments = [
        ["--daemonize", "no"],
        ["--rdbcompression", "yes"],
        ["--rdbchecksum", "no"],
        ["--appendonly", "no"],
        ["--databases", "8"],
        ["--timeout", "10"],
        ["--pidfile", &pid],
        ["--unixsocket", &socket],
        ["--dbfilename", "dump.rdb"],
        ["--logfile", &log],
        ["--loglevel", "notice"],
        ["--syslog-enabled", "no"],
        ["--bind", "127.0.0.1"],
        ["--port", "0"],
        ["--dir", &dir],
        ["--requirepass", "X"],
    ];
    let mut arguments: Vec<&str> = arguments.concat();
    arguments.push("--save 900 1");
    let mut server = start(&arguments);
    wait_for_file(&folder.path("p"), &mut server);
    let mut talk = on_socket(&folder.path("s"));
    assert_eq!(talk.ask("GET x"), "-NOAUTH Authentication required.");
    assert_eq!(talk.ask("AUTH X"), "+OK");
    assert_eq!(talk.ask("CONFIG GET save"), "save 900 1");
    assert_eq!(talk.ask("CONFIG GET databases"), "databases 8");
    assert_eq!(talk.ask("CONFIG GET rdbchecksum"), "rdbchecksum no");
    assert_eq!(talk.ask("SELECT 8"), "-ERR DB index is out of range");
}

/// Waits for a file that the server writes when it listens.
fn wait_for_file(path: &Path, server: &mut Running) {
    wait_until(path.display(), || {
        path.exists() || {
            assert!(server.child.try_wait().unwrap().is_none(), "it ended:\n{}", server.all_lines());
            false
        }
    });
}

#[test]
fn redis_rs_starts_it_without_tcp_on_a_unix_socket() {
    let folder = Folder::new("redis-rs");
    let mut server =
        start(&["--save", "", "--enable-debug-command", "yes", "--port", "0", "--unixsocket", &folder.text("s")]);
    server.line("The server is now ready to accept connections at");
    let mut talk = on_socket(&folder.path("s"));
    assert_eq!(talk.ask("CONFIG GET port"), "port 0");
    assert_eq!(talk.ask("CONFIG GET save"), "save ");
    assert!(server.line("Running mode=standalone").ends_with("port=0."));
}

#[test]
fn a_configuration_is_read_from_standard_input() {
    let folder = Folder::new("stdin");
    let mut child = command(&["-"]).stdin(Stdio::piped()).spawn().unwrap();
    let socket = folder.text("s");
    let text = format!("port 0\nunixsocket {socket}\nsave \"\"\nrequirepass \"two words\"");
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let mut server = Running::of(child);
    server.line("The server is now ready to accept connections at");
    assert_eq!(on_socket(&folder.path("s")).ask("AUTH \"two words\""), "+OK");
}

#[test]
fn flags_override_the_file_and_the_file_includes_others() {
    let folder = Folder::new("file");
    fs::write(folder.path("other.conf"), "timeout 5\ndatabases 3\n").unwrap();
    let include = folder.text("oth*.conf");
    fs::write(folder.path("main.conf"), format!("# comment\nport 1\ninclude {include}\nTIMEOUT '7'\n")).unwrap();
    let mut server = start(&[&folder.text("main.conf"), "--port", "0", "--save", "1", "2", "--save", "3", "4"]);
    let mut talk = server.connect();
    assert_eq!(talk.ask("CONFIG GET timeout"), "timeout 7");
    assert_eq!(talk.ask("CONFIG GET databases"), "databases 3");
    assert_eq!(talk.ask("CONFIG GET save"), "save 1 2 3 4");
}

#[test]
fn the_name_it_is_started_under_decides_between_redis_and_valkey() {
    let version = |name: &str| {
        let output = command(&["-v"]).arg0(name).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(version("/usr/bin/redis-server").starts_with("Redis server v=7.2.5 sha=00000000:0 malloc="));
    assert!(version("/usr/bin/valkey-server").starts_with("Valkey server v=9.1.2 sha="));
    let output = run(&["--compat", "redis-7.0", "--version"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains(" v=7.0.15 "));
}

#[test]
fn under_its_own_name_it_tells_its_own_version_too_and_under_a_servers_name_one_line() {
    let version = |name: &str| {
        let output = command(&["--compat", "redis-7.0", "--version"]).arg0(name).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let (own, servers) = (version("target/release/redouble"), version("/opt/redis-server-7"));
    let second = own.strip_prefix(&servers).expect("the same first line");
    assert_eq!(servers.lines().count(), 1, "{servers}");
    assert!(second.starts_with(concat!("redouble ", env!("CARGO_PKG_VERSION"), " ")), "{second}");
    assert!(second.ends_with(", profile redis-7.0\n") && second.lines().count() == 1, "{second}");
}

#[test]
fn help_names_every_profile() {
    let output = run(&["--help"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for name in ["redis-6.2", "redis-7.0", "redis-7.2", "redis-7.4", "redis-8.4", "valkey-8.1", "valkey-9.1"] {
        assert!(text.contains(name), "{text}");
    }
    assert!(text.lines().all(|line| line.len() <= 90), "{text}");
}

// ---- refusals

#[test]
fn a_bad_directive_is_named_with_its_line_on_standard_error() {
    let expected = "*** FATAL CONFIG FILE ERROR (Redis 7.2.5) ***\nReading the configuration file, at line 2\n>>> 'bogus \
                    \"1\"'\nBad directive or wrong number of arguments\n";
    assert_eq!(errors(&run(&["--bogus", "1"])).trim_start(), expected);
    let valkey = errors(&run(&["--compat", "valkey-9.1", "--port", "x"]));
    assert!(valkey.contains("(Version 9.1.2)"), "{valkey}");
    assert!(valkey.contains("argument couldn't be parsed into an integer"), "{valkey}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let said = log(&run(&["/nowhere/at/all.conf"]));
    assert!(said.contains("Fatal error, can't open config file '/nowhere/at/all.conf': No such file or directory"));
}

#[test]
fn what_it_cannot_do_is_refused_and_not_ignored() {
    for (arguments, reason) in [
        (&["--cluster-enabled", "yes"][..], "this server does not run as a cluster"),
        (&["--replicaof", "localhost", "1"], "this server follows no other"),
        (&["--tls-cluster", "yes"], "this server has no cluster bus and no replication"),
        (&["--loadmodule", "x.so"], "this server loads no modules"),
        (&["--test-memory", "1"], "redouble does not test memory"),
        (&["--sentinel", "10"], "argument must be between 0 and 9"),
        (&["--compat", "redis-1.0"], "redis-7.0"),
    ] {
        let said = errors(&run(arguments));
        assert!(said.contains(reason), "{arguments:?}: {said}");
    }
}

#[test]
fn a_busy_port_is_told_in_the_words_of_redis() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let said = log(&run(&["--port", &port.to_string(), "--compat", "redis-7.0"]));
    let first = format!(
        "# Warning: Could not create server TCP listening socket 127.0.0.1:{port}: bind: Address already in use\n"
    );
    assert!(said.contains(&first), "{said}");
    assert!(said.contains(&format!("# Failed listening on port {port} (TCP), aborting.\n")), "{said}");
}

#[test]
fn a_unix_socket_that_cannot_be_made_is_told_once() {
    let said = log(&run(&["--port", "0", "--unixsocket", "/nowhere/at/all"]));
    assert_eq!(said.matches("/nowhere/at/all").count(), 1, "{said}");
    assert!(said.contains("Failed opening Unix socket: bind: No such file or directory"), "{said}");
}

// ---- sockets

#[test]
fn a_socket_that_a_dead_server_left_is_replaced_but_no_other_file() {
    let folder = Folder::new("stale");
    drop(UnixListener::bind(folder.path("stale")).unwrap());
    let mut server = start(&["--port", "0", "--unixsocket", &folder.text("stale"), "--unixsocketperm", "700"]);
    server.line("The server is now ready to accept connections at");
    assert_eq!(on_socket(&folder.path("stale")).ask("PING"), "+PONG");
    assert_eq!(fs::metadata(folder.path("stale")).unwrap().permissions().mode() & 0o777, 0o700);

    fs::write(folder.path("precious"), "data").unwrap();
    let said = log(&run(&["--port", "0", "--unixsocket", &folder.text("precious")]));
    assert!(said.contains("Failed opening Unix socket"), "{said}");
    assert_eq!(fs::read_to_string(folder.path("precious")).unwrap(), "data");
}

#[test]
fn an_address_that_may_be_missing_does_not_stop_it() {
    let mut server = start(&["--port", "0", "--bind", "127.0.0.1", "-192.0.2.1"]);
    assert_eq!(server.connect().ask("CONFIG GET bind"), "bind 127.0.0.1 -192.0.2.1");
    let said = log(&run(&["--port", "0", "--bind", "192.0.2.1"]));
    assert!(said.contains("Could not create server TCP listening socket 192.0.2.1:0: bind: "), "{said}");
}

#[test]
fn it_listens_everywhere_only_when_asked() {
    let mut server = start(&["--port", "0", "--bind", "*", "-::*", "--protected-mode", "no"]);
    assert!(server.line("Listening on").contains("0.0.0.0:"));
    assert_eq!(server.connect().ask("PING"), "+PONG");
}

// ---- the end

#[test]
fn sigterm_sigint_and_shutdown_end_it_with_status_0_and_leave_no_file() {
    for how in ["SIGTERM", "SIGINT", "SHUTDOWN"] {
        let folder = Folder::new(how);
        let (socket, pid) = (folder.text("s"), folder.text("pid"));
        let mut server = start(&["--port", "0", "--unixsocket", &socket, "--pidfile", &pid, "--compat", "redis-7.0"]);
        server.line("The server is now ready to accept connections at");
        let written = fs::read_to_string(folder.path("pid")).unwrap();
        assert_eq!(written.trim_end(), server.child.id().to_string());
        match how {
            "SIGTERM" => server.signal(Signal::TERM),
            "SIGINT" => server.signal(Signal::INT),
            _ => on_socket(&folder.path("s")).0.get_mut().write_all(b"SHUTDOWN NOSAVE\r\n").unwrap(),
        }
        let said = server.all_lines();
        assert_eq!(server.end().code(), Some(0), "{said}");
        if how != "SHUTDOWN" {
            assert!(said.contains(&format!("Received {how} scheduling shutdown...")), "{said}");
        }
        assert!(said.contains("# User requested shutdown..."), "{said}");
        assert!(said.ends_with("# Redis is now ready to exit, bye bye..."), "{said}");
        assert!(!folder.path("s").exists() && !folder.path("pid").exists());
    }
}

#[test]
fn it_ends_at_once_with_clients_that_hang_and_tells_which_faults_have_never_fired() {
    for how in ["SIGTERM", "SHUTDOWN"] {
        let mut server = start(&["--port", "0"]);
        let mut driver = server.connect();
        for rule in ["stuck on SET hang", "slow on PING drip 1 every 1h", "unused on DEL hang", "typo key look:* hang"]
        {
            assert_eq!(driver.ask(&format!("REDOUBLE FAULT ADD {rule}")), "+OK");
        }
        assert_eq!(driver.ask("REDOUBLE FAULT REMOVE typo"), ":0");
        let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
        for (client, line) in clients.iter_mut().zip(["SET k v", "PING"].iter().cycle()) {
            client.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
        }
        // The clients become blocked without any further command.
        wait_until("four clients that hang", || {
            driver.ask("INFO clients").lines().any(|line| line == "blocked_clients:4")
        });
        match how {
            "SIGTERM" => server.signal(Signal::TERM),
            _ => driver.0.get_mut().write_all(b"SHUTDOWN NOSAVE\r\n").unwrap(),
        }
        let said = server.all_lines();
        assert_eq!(server.end().code(), Some(0), "{said}");
        for name in ["unused", "typo"] {
            assert!(said.contains(&format!("* The fault '{name}' has never fired.")), "{said}");
        }
        assert!(!said.contains("'stuck' has never fired") && !said.contains("'slow' has never fired"), "{said}");
    }
}

#[test]
fn commands_that_are_not_supported_are_listed_at_the_end() {
    let mut server = start(&["--port", "0"]);
    let mut talk = server.connect();
    for line in ["NOSUCH a", "nosuch", "CLIENT NOSUCH", "GET a", "GET"] {
        talk.ask(line);
    }
    server.signal(Signal::TERM);
    let said = server.all_lines();
    assert!(
        said.contains("Commands that were asked for and are not supported: CLIENT NOSUCH (1), NOSUCH (2)"),
        "{said}"
    );
}

#[test]
fn sighup_changes_nothing() {
    let mut server = start(&["--port", "0"]);
    let mut talk = server.connect();
    server.signal(Signal::HUP);
    assert_eq!(talk.ask("PING"), "+PONG");
    server.signal(Signal::TERM);
    assert_eq!(server.end().code(), Some(0));
}

#[test]
fn in_the_background_it_writes_its_pid_and_outlives_the_program_that_was_started() {
    let folder = Folder::new("daemon");
    let (socket, pid) = (folder.text("s"), folder.text("pid"));
    // `--daemonize` must not change what relative paths refer to.
    fs::create_dir(folder.path("data")).unwrap();
    fs::write(folder.path("a.conf"), "daemonize yes\nport 0\ndir data\n").unwrap();
    let arguments = ["a.conf", "--unixsocket", &socket, "--pidfile", &pid];
    let output = command(&arguments).current_dir(&folder.0).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    wait_until("the pid file", || folder.path("pid").exists());
    let mut talk = on_socket(&folder.path("s"));
    let info = talk.ask("INFO server");
    let shown = info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap().trim().to_owned();
    assert_eq!(fs::read_to_string(folder.path("pid")).unwrap().trim_end(), shown);
    assert_eq!(talk.ask("CONFIG GET dir"), format!("dir {}", folder.text("data")));
    talk.0.get_mut().write_all(b"SHUTDOWN NOSAVE\r\n").unwrap();
    // The server closes the connection when it exits.
    let _ = talk.0.read_to_end(&mut Vec::new());
}

#[test]
fn it_ends_together_with_its_parent() {
    let folder = Folder::new("parent");
    let script = format!("{BINARY} --port 0 --exit-with-parent yes --pidfile {} & wait", folder.text("pid"));
    let parent = Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut server = Running::of(parent.unwrap());
    server.line("Ready to accept connections");
    server.signal(Signal::KILL);
    // The pipe closes when the last process that holds it exits, which is the server.
    let said = server.all_lines();
    assert!(said.contains("is now ready to exit, bye bye..."), "{said}");
    assert!(!folder.path("pid").exists());
}

// ---- CONFIG

#[test]
fn config_set_changes_all_or_nothing() {
    let mut server = start(&["--port", "0", "--compat", "redis-7.0"]);
    let mut talk = server.connect();
    let failed = talk.ask("CONFIG SET timeout 5 hz abc");
    assert_eq!(
        failed,
        "-ERR CONFIG SET failed (possibly related to argument 'hz') - argument couldn't be parsed into an integer"
    );
    assert_eq!(talk.ask("CONFIG GET timeout"), "timeout 0");
    assert_eq!(talk.ask("CONFIG SET timeout 5 hz 20"), "+OK");
    assert_eq!(talk.ask("CONFIG GET timeout hz"), "timeout 5 hz 20");
}

#[test]
fn config_rewrite_needs_a_file_and_keeps_its_comments() {
    let mut server = start(&["--port", "0"]);
    assert_eq!(server.connect().ask("CONFIG REWRITE"), "-ERR The server is running without a config file");

    let folder = Folder::new("rewrite");
    fs::write(folder.path("a.conf"), "# mine\ntimeout 1\nrequirepass x\n").unwrap();
    let mut server = start(&[&folder.text("a.conf"), "--port", "0", "--unixsocket", &folder.text("s")]);
    server.line("The server is now ready to accept connections at");
    let mut talk = on_socket(&folder.path("s"));
    assert_eq!(talk.ask("AUTH x"), "+OK");
    assert_eq!(talk.ask("CONFIG SET timeout 9 maxmemory 100mb"), "+OK");
    assert_eq!(talk.ask("CONFIG REWRITE"), "+OK");
    let text = fs::read_to_string(folder.path("a.conf")).unwrap();
    assert!(text.starts_with("# mine\ntimeout 9\nrequirepass \"x\"\n# Generated by CONFIG REWRITE\n"), "{text}");
    assert!(text.contains("\nmaxmemory 100mb\n"), "{text}");
}
