//! The binary alone: what is downloaded, unpacked and copied to machines that have nothing else.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use super::Story;
use super::environment::{Environment, run};
use super::support::wait_for;
use super::support::wire::Wire;

pub const STORIES: &[(&str, Story)] = &[
    ("the sums beside the files are true", sums_are_true),
    ("the archive holds the program and the licences in a folder of its name", archive_holds_what_is_expected),
    ("the program tells its version, how it was built, and its profile", tells_its_version),
];

/// In a root that has the binary and nothing else: no C library, no /etc, no /proc, no /dev, no shell.
pub const IN_AN_EMPTY_ROOT: &[(&str, Story)] = &[
    ("in an empty root: a server on localhost runs commands and scripts, and ends with status 0", serves_on_localhost),
    ("in an empty root: a server listens on a unix socket alone", serves_on_a_unix_socket),
    ("in an empty root: a name is refused by name, with what is possible instead", refuses_names),
    ("in an empty root: names of /etc/hosts are addresses", knows_names_of_the_hosts_file),
    ("in an empty root: the client says that it cannot find a host", client_finds_no_host),
    ("in an empty root: `run` gives a command its server and passes its status on", runs_a_command),
    ("in an empty root: a server goes into the background and writes its log", goes_into_the_background),
];

fn sums_are_true(environment: &Environment) -> Result<(), String> {
    let mut check = Command::new("sha256sum");
    run(check.args(["--check", "--strict", "--quiet", "SHA256SUMS"]).current_dir(environment.files()))?;
    let listed = fs::read_to_string(environment.files().join("SHA256SUMS")).map_err(said)?;
    let files = fs::read_dir(environment.files()).map_err(said)?;
    for name in files.filter_map(|file| file.ok()?.file_name().into_string().ok()) {
        let is_listed = listed.lines().any(|line| line.ends_with(&format!("  {name}")));
        if !is_listed && name != "SHA256SUMS" && !name.starts_with('.') {
            return Err(format!("{name} has no sum"));
        }
    }
    Ok(())
}

fn archive_holds_what_is_expected(environment: &Environment) -> Result<(), String> {
    let binary = environment.binary()?;
    let folder = binary.parent().ok_or("no folder")?;
    let mode = fs::metadata(&binary).map_err(said)?.permissions().mode();
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    check(name.starts_with("redouble-") && mode & 0o111 == 0o111, || format!("{name}, mode {mode:o}"))?;
    ["LICENSE-MIT", "LICENSE-APACHE", "README.md"]
        .iter()
        .try_for_each(|name| check(folder.join(name).is_file(), || format!("there is no {name}")))
}

fn tells_its_version(environment: &Environment) -> Result<(), String> {
    let said = run(Command::new(environment.binary()?).args(["--compat", "redis-7.0", "--version"]))?;
    let version = env!("CARGO_PKG_VERSION");
    let lines: Vec<&str> = said.lines().collect();
    let linked = if cfg!(target_os = "linux") { " static" } else { "" };
    let is_right = matches!(lines[..], [first, second]
        if first.starts_with("Redis server v=7.0.15 ") && first.ends_with(&format!(" build=redouble-{version}"))
            && second.starts_with(&format!("redouble {version} {}-", std::env::consts::ARCH))
            && second.contains(linked) && second.ends_with(", profile redis-7.0"));
    check(is_right, || said.clone())
}

fn said(error: impl ToString) -> String {
    error.to_string()
}

fn check(holds: bool, complaint: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(complaint()) }
}

/// A folder that is the root of all programs in it.
struct Root {
    folder: PathBuf,
    servers: Vec<Child>,
}

impl Root {
    fn new(environment: &Environment, name: &str) -> Result<Self, String> {
        let folder = environment.empty(name)?;
        fs::copy(environment.binary()?, folder.join("redouble")).map_err(said)?;
        Ok(Self { folder, servers: Vec::new() })
    }

    /// A command of the binary in this root.
    fn redouble(&self, arguments: &[&str]) -> Command {
        let mut command = Environment::as_root("chroot");
        command.arg(&self.folder).arg("/redouble").args(arguments).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).stdin(Stdio::null());
        command
    }

    fn output(&self, arguments: &[&str]) -> Result<Output, String> {
        self.redouble(arguments).output().map_err(|error| format!("chroot: {error}"))
    }

    /// Starts a server in this root, which is killed at the end.
    fn serve(&mut self, arguments: &[&str]) -> Result<(), String> {
        let server = self.redouble(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.servers.push(server.map_err(|error| format!("chroot: {error}"))?);
        Ok(())
    }

    /// The server that wrote its port into `/port`.
    fn connect(&self) -> Wire {
        let port = wait_for("the port file", || read(&self.folder.join("port"))?.trim().parse::<u16>().map_err(said));
        Wire::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn serves_on_localhost(environment: &Environment) -> Result<(), String> {
    let mut root = Root::new(environment, "localhost")?;
    root.serve(&["--bind", "localhost", "--port", "0", "--port-file", "/port"])?;
    let mut client = root.connect();
    for (line, reply) in [
        ("SET lock token NX PX 30000", "OK"),
        ("EVAL return(redis.call('GET',KEYS[1])..cjson.encode({1})) 1 lock", "token[1]"),
    ] {
        let told = client.ask(line).text();
        check(told == reply, || format!("{line}: {told}"))?;
    }
    check(client.ask("INFO").text().contains("tcp_port:"), || "INFO".to_owned())?;
    client.send(b"SHUTDOWN NOSAVE\r\n");
    let status = root.servers.remove(0).wait().map_err(said)?;
    check(status.success(), || format!("the server ended with {status}"))
}

fn serves_on_a_unix_socket(environment: &Environment) -> Result<(), String> {
    let mut root = Root::new(environment, "unix-socket")?;
    root.serve(&["--port", "0", "--unixsocket", "/redis.sock"])?;
    let socket = root.folder.join("redis.sock");
    wait_for("the socket", || std::os::unix::net::UnixStream::connect(&socket));
    let told = Wire::connect_unix(&socket).ask("PING").text();
    check(told == "PONG", || told)
}

fn refuses_names(environment: &Environment) -> Result<(), String> {
    let root = Root::new(environment, "names")?;
    let output = root.output(&["--bind", "db.example", "--port", "0"])?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_told = text.contains("db.example is neither an IP address nor localhost nor a name in /etc/hosts");
    check(output.status.code() == Some(1) && is_told, || format!("{}\n{text}", output.status))
}

fn knows_names_of_the_hosts_file(environment: &Environment) -> Result<(), String> {
    let mut root = Root::new(environment, "hosts")?;
    fs::create_dir(root.folder.join("etc")).map_err(said)?;
    fs::write(root.folder.join("etc/hosts"), "::1 db.example\n127.0.0.1 db.example db\n").map_err(said)?;
    root.serve(&["--bind", "db.example", "--port", "0", "--port-file", "/port"])?;
    let told = root.connect().ask("PING").text();
    check(told == "PONG", || told)
}

fn client_finds_no_host(environment: &Environment) -> Result<(), String> {
    let root = Root::new(environment, "client")?;
    let output = root.output(&["cli", "-h", "db.example", "PING"])?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let is_told = text.starts_with("Could not connect to Redis at db.example:6379: ");
    check(output.status.code() == Some(1) && is_told, || format!("{}\n{text}", output.status))
}

fn runs_a_command(environment: &Environment) -> Result<(), String> {
    let root = Root::new(environment, "run")?;
    let output = root.output(&["run", "--", "/redouble", "--version"])?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    check(output.status.success() && text.contains("redouble "), || format!("{output:?}"))?;
    let output = root.output(&["run", "--", "/redouble", "--bind", "db.example", "--port", "0"])?;
    check(output.status.code() == Some(1), || format!("{output:?}"))?;
    let output = root.output(&["run", "--", "/nothing"])?;
    check(output.status.code() == Some(127), || format!("{output:?}"))
}

fn goes_into_the_background(environment: &Environment) -> Result<(), String> {
    let root = Root::new(environment, "background")?;
    let arguments = ["--daemonize", "yes", "--port", "0", "--port-file", "/port", "--logfile", "/log"];
    let output = root.output(&arguments)?;
    check(output.status.success(), || format!("{output:?}"))?;
    let mut client = root.connect();
    client.send(b"SHUTDOWN NOSAVE\r\n");
    check(client.is_closed(), || "it goes on".to_owned())?;
    wait_for("the end of the log", || {
        let log = read(&root.folder.join("log"))?;
        if log.contains("Ready to accept connections") && log.contains("bye") { Ok(()) } else { Err(log) }
    });
    Ok(())
}
