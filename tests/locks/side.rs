//! The two servers that are compared, and the programs that are run against them. `tests/redis_suite` uses it, too.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use super::support::CHECKED_PROFILE;
use super::support::process::ServerProcess;
use super::support::wire::{Frame, Wire};

/// One of the two servers that are compared, and how to start it.
pub struct Side {
    pub name: String,
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// Whether it keeps a journal.
    pub journal: bool,
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

    pub fn start(&self, directives: &[&str]) -> Result<ServerProcess, String> {
        let mut arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        arguments.extend(["--bind", "127.0.0.1", "--save", ""]);
        if self.journal {
            arguments.extend(["--journal", "yes", "--journal-size", "1gb", "--enable-paths-outside-dir", "yes"]);
        }
        arguments.extend(directives);
        let program = self.program.to_str().ok_or("a server's path that is no text")?;
        ServerProcess::program(program, &arguments).map_err(|error| format!("{program}: {error}"))
    }

    /// Makes a folder in which the program `redis-server` starts this side's server.
    pub fn wrapper(&self, shelf: &Path) -> Result<PathBuf, String> {
        let script = shelf.join("redis-server");
        let words: Vec<String> = self.arguments.iter().map(|word| format!(" '{word}'")).collect();
        // A server tells its version with no other words but the release that it imitates.
        let release = if self.arguments.first().is_some_and(|word| word == "--compat") {
            words[..2].concat()
        } else {
            String::new()
        };
        let (program, words) = (self.program.display(), words.concat());
        // A configuration file stands before everything else.
        let text = format!(
            "#!/bin/sh\ncase \"$1\" in\n  -v|--version) exec '{program}'{release} \"$@\" ;;\n  \
             ''|-*) exec '{program}'{words} \"$@\" ;;\n  \
             *) file=$1; shift; exec '{program}' \"$file\"{words} \"$@\" ;;\nesac\n"
        );
        fs::create_dir_all(shelf)
            .and_then(|()| fs::write(&script, text))
            .and_then(|()| fs::set_permissions(&script, fs::Permissions::from_mode(0o755)))
            .map_err(|error| format!("{}: {error}", script.display()))?;
        Ok(shelf.to_owned())
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

/// Runs a command until it exits or its time is over, then kills its process group.
pub fn finish(mut command: Command, log: &Path, limit: Duration) -> Result<(), String> {
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

/// Finds a program; a bare name is looked up in `PATH`.
pub fn on_path(program: &str) -> Result<PathBuf, String> {
    if program.contains('/') {
        return std::path::absolute(program).map_err(|error| format!("{program}: {error}"));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|candidate| candidate.is_file());
    found.ok_or_else(|| format!("no {program} here: `make redis` installs redis-server"))
}
