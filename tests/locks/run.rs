//! Runs a suite against a server.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use super::findings;
use super::install::{Installed, cargo_test};
use super::packages::folder;
use super::suites::{Servers, Source, Suite};
use super::support::CHECKED_PROFILE;
use super::support::process::ServerProcess;
use super::support::wire::{Frame, Wire};
use super::verdicts::Verdicts;

/// One of the two servers that are compared, and how to start it.
pub struct Side {
    pub name: String,
    program: PathBuf,
    arguments: Vec<String>,
    /// Whether it keeps a journal.
    journal: bool,
}

/// The result of a suite's run.
pub struct Run {
    pub verdicts: Verdicts,
    /// The file with all its output.
    pub log: PathBuf,
    /// The commands that its servers received, as far as they report them.
    pub sent: Vec<String>,
    /// The journals of its servers, if they keep any.
    pub journals: Option<Vec<PathBuf>>,
}

impl Side {
    pub fn redis() -> Result<Self, String> {
        let program = on_path("redis-server")?;
        let said = Command::new(&program).arg("--version").output().map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let version = said.split(" v=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or("?");
        Ok(Self { name: format!("redis-server {version}"), program, arguments: Vec::new(), journal: false })
    }

    pub fn redouble() -> Self {
        // Suites skip tests by the server's version, so both servers must report the same one.
        let arguments = ["--compat", CHECKED_PROFILE, "--exit-with-parent", "yes"].map(str::to_owned).to_vec();
        Self { name: "redouble".to_owned(), program: env!("CARGO_BIN_EXE_redouble").into(), arguments, journal: true }
    }

    /// Parses `NAME=PROGRAM ARGUMENTS`; a server's directives follow the arguments.
    pub fn named(described: &str) -> Result<Self, String> {
        let (name, command) = described.split_once('=').ok_or("--server NAME=COMMAND")?;
        let mut words = command.split_whitespace();
        let program = on_path(words.next().ok_or("--server NAME=COMMAND")?)?;
        Ok(Self { name: name.to_owned(), program, arguments: words.map(str::to_owned).collect(), journal: false })
    }

    fn start(&self, directives: &[&str]) -> Result<ServerProcess, String> {
        let mut arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        arguments.extend(["--bind", "127.0.0.1", "--save", ""]);
        if self.journal {
            arguments.extend(["--journal", "yes", "--journal-size", "1gb", "--enable-paths-outside-dir", "yes"]);
        }
        arguments.extend(directives);
        let program = self.program.to_str().ok_or("a server's path that is no text")?;
        ServerProcess::program(program, &arguments).map_err(|error| format!("{program}: {error}"))
    }

    /// Returns those of the commands that the server does not know.
    pub fn lacks(&self, commands: &[&str]) -> Result<Vec<String>, String> {
        let server = self.start(&[])?;
        let words = [&["COMMAND", "INFO"], commands].concat();
        let reply = Wire::connect(server.address()).call(&words);
        let unknown = commands.iter().zip(reply.items()).filter(|(_, row)| !matches!(row, Frame::Array(_)));
        Ok(unknown.map(|(name, _)| (*name).to_owned()).collect())
    }
}

/// Runs a suite against fresh servers. All its processes have ended when this returns.
pub fn run(suite: &Suite, installed: &Installed, side: &Side) -> Result<Run, String> {
    let name = format!("{}-{}", suite.library, side.name.split(' ').next().unwrap_or_default());
    let mut command = command(suite, installed);
    let mut servers = Vec::new();
    match suite.servers {
        Servers::Given { count, directives } => {
            for _ in 0..count {
                servers.push(side.start(directives)?);
            }
            let urls: Vec<String> = servers.iter().map(ServerProcess::url).collect();
            command.env("LOCKS_PORT", servers[0].address().port().to_string());
            command.env("ADDRESSES", urls.join(","));
        }
        Servers::Own => {
            let shelf = redis_server_wrapper(side, &name)?;
            let path = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{}:{path}", shelf.display()));
        }
    }
    let logs = folder().join("logs");
    fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    let log = logs.join(format!("{name}.log"));
    finish(command, &log, Duration::from_secs(60 + 3 * suite.seconds))?;
    let output = fs::read(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    let output = String::from_utf8_lossy(&output);
    let verdicts = match suite.source {
        Source::Python { .. } => Verdicts::of_pytest(&output),
        Source::Node { .. } => Verdicts::of_tap(&output),
        Source::Rust { .. } => Verdicts::of_libtest(&output),
    };
    if verdicts.count() == 0 {
        return Err(format!("it ran no test\n{}", tail(&log)));
    }
    let sent = servers.first().map(commands_seen).unwrap_or_default();
    let journals = match side.journal && !servers.is_empty() {
        true => Some(findings::export(suite.library, &servers)?),
        false => None,
    };
    Ok(Run { verdicts, log, sent, journals })
}

fn command(suite: &Suite, installed: &Installed) -> Command {
    let redirect = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/locks/redirect");
    match &suite.source {
        Source::Python { pytest, environment, .. } => {
            let mut command = Command::new(&installed.program);
            command.args(["-m", "pytest", "-q", "-rA", "--tb=short", "--timeout=60", "-p", "no:cacheprovider"]);
            command.args(*pytest).current_dir(&installed.directory);
            // Both sides share the folder, so neither leaves compiled files there.
            command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONPATH", redirect).envs(environment.iter().copied());
            command
        }
        Source::Node { test } => {
            let mut command = Command::new(&installed.program);
            command.arg("--require").arg(redirect.join("redirect.js"));
            command.args(["mocha/bin/_mocha", "--exit", "--reporter", "tap", test]).current_dir(&installed.directory);
            command
        }
        Source::Rust { features, .. } => cargo_test(&installed.directory, features, &["--offline"]),
    }
}

/// Makes a folder in which the program `redis-server` starts this side's server.
fn redis_server_wrapper(side: &Side, name: &str) -> Result<PathBuf, String> {
    let shelf = folder().join("disguised").join(name);
    let script = shelf.join("redis-server");
    let words: Vec<String> = side.arguments.iter().map(|word| format!(" '{word}'")).collect();
    let text = format!("#!/bin/sh\nexec '{}'{} \"$@\"\n", side.program.display(), words.concat());
    fs::create_dir_all(&shelf)
        .and_then(|()| fs::write(&script, text))
        .and_then(|()| fs::set_permissions(&script, fs::Permissions::from_mode(0o755)))
        .map_err(|error| format!("{}: {error}", script.display()))?;
    Ok(shelf)
}

/// Runs a command until it exits or its time is over, then kills its process group.
fn finish(mut command: Command, log: &Path, limit: Duration) -> Result<(), String> {
    let file = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
    let errors = file.try_clone().map_err(|error| format!("{}: {error}", log.display()))?;
    command.stdin(Stdio::null()).stdout(file).stderr(errors).process_group(0);
    let mut child = command.spawn().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    let group = rustix::process::Pid::from_child(&child);
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait()));
    let in_time = receiver.recv_timeout(limit).is_ok();
    // Kills what the command left behind, or the command itself. Usually there is no such process any more.
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    if in_time { Ok(()) } else { Err(format!("it took longer than {} s\n{}", limit.as_secs(), tail(log))) }
}

/// Returns the end of a suite's output.
pub fn tail(log: &Path) -> String {
    let output = fs::read(log).unwrap_or_default();
    let output = String::from_utf8_lossy(&output);
    // Some lines are very long.
    let lines: Vec<String> = output.lines().map(|line| line.chars().take(200).collect()).collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

/// Returns the names of the commands that the server has run, from `cmdstat_set:calls=3,…`.
fn commands_seen(server: &ServerProcess) -> Vec<String> {
    let statistics = Wire::connect(server.address()).ask("INFO commandstats").text();
    let names = statistics.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split([':', '|']).next());
    names.map(str::to_uppercase).collect()
}

/// Finds a program; a bare name is looked up in `PATH`.
fn on_path(program: &str) -> Result<PathBuf, String> {
    if program.contains('/') {
        return std::path::absolute(program).map_err(|error| format!("{program}: {error}"));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|candidate| candidate.is_file());
    found.ok_or_else(|| format!("no {program} here: `make redis` installs redis-server"))
}
