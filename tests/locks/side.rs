//! The servers that are compared, and the programs that are run against them. `tests/clients` and `tests/redis_suite` use
//! it, too.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use super::support::CHECKED_PROFILE;
use super::support::no_harness::{Options, unknown};
use super::support::process::ServerProcess;
use super::support::wire::{Frame, Wire};

/// The sides that `--side` names, beside the real server.
const SIDES: [&str; 2] = ["redouble", "upstream"];

/// One of the servers that are compared, and how to start it.
pub struct Side {
    pub name: String,
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// Whether it keeps a journal.
    pub journal: bool,
    /// The real server that it stands in front of.
    pub upstream: Option<Box<Side>>,
}

impl Side {
    /// The real server, and then the sides that are compared with it: those that are wanted, or else both, or the one that
    /// `--server` replaces. `redouble` is the embedded server.
    pub fn wanted(options: &Options, redouble: Self) -> Result<Vec<Self>, String> {
        let names: Vec<&str> = match (&options.sides[..], &options.server) {
            ([], Some(_)) => vec!["redouble"],
            ([], None) => SIDES.to_vec(),
            (wanted, _) => wanted.iter().map(String::as_str).collect(),
        };
        if let Some(name) = names.iter().find(|name| !SIDES.contains(name)) {
            return Err(unknown("side", name, &SIDES));
        }
        let mut sides = vec![Self::real(options)?];
        if names.contains(&"redouble") {
            sides.push(options.server.as_deref().map_or(Ok(redouble), Self::named)?);
        }
        if names.contains(&"upstream") {
            sides.push(Self::upstream(Self::real(options)?));
        }
        Ok(sides)
    }

    /// The server that the others are compared with: `redis-server`, or the program that `--real` names.
    fn real(options: &Options) -> Result<Self, String> {
        let program = on_path(options.real.as_deref().unwrap_or("redis-server"))?;
        let said = Command::new(&program).arg("--version").output().map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let version = said.split(" v=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or("?");
        let name = program.file_name().unwrap_or_default().display().to_string();
        Ok(Self { name: format!("{name} {version}"), program, arguments: Vec::new(), journal: false, upstream: None })
    }

    /// The embedded server.
    pub fn redouble() -> Self {
        // Suites skip tests by the server's version, so both servers must report the same one.
        let arguments = ["--compat", CHECKED_PROFILE, "--exit-with-parent", "yes"].map(str::to_owned).to_vec();
        let program = env!("CARGO_BIN_EXE_redouble").into();
        Self { name: "redouble".to_owned(), program, arguments, journal: true, upstream: None }
    }

    /// redouble in front of a real server.
    fn upstream(real: Self) -> Self {
        let arguments = ["--upstream-disposable", "yes", "--exit-with-parent", "yes"].map(str::to_owned).to_vec();
        let (program, name) = (env!("CARGO_BIN_EXE_redouble").into(), format!("upstream {}", real.name));
        Self { name, program, arguments, journal: true, upstream: Some(Box::new(real)) }
    }

    /// The name in those of files.
    pub fn short_name(&self) -> &str {
        self.name.split(' ').next().unwrap_or_default()
    }

    /// Parses `NAME=PROGRAM ARGUMENTS`; a server's directives follow the arguments.
    fn named(described: &str) -> Result<Self, String> {
        let (name, command) = described.split_once('=').ok_or("--server NAME=COMMAND")?;
        let mut words = command.split_whitespace();
        let program = on_path(words.next().ok_or("--server NAME=COMMAND")?)?;
        let arguments = words.map(str::to_owned).collect();
        Ok(Self { name: name.to_owned(), program, arguments, journal: false, upstream: None })
    }

    pub fn start(&self, directives: &[&str]) -> Result<ServerProcess, String> {
        let mut arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        arguments.extend(["--bind", "127.0.0.1"]);
        if self.journal {
            arguments.extend(["--journal", "yes", "--journal-size", "1gb", "--enable-paths-outside-dir", "yes"]);
        }
        let program = self.program.to_str().ok_or("a server's path that is no text")?;
        let started = |arguments: &[&str]| {
            ServerProcess::program(program, arguments).map_err(|error| format!("{program}: {error}"))
        };
        let Some(upstream) = &self.upstream else {
            arguments.extend(["--save", ""]);
            arguments.extend(directives);
            return started(&arguments);
        };
        // Where clients connect is the front's, everything else the real server's.
        let (ours, theirs): (Vec<_>, Vec<_>) = directives.chunks(2).partition(|pair| pair[0] == "--unixsocket");
        let upstream = upstream.start(&theirs.concat())?;
        let url = upstream.url();
        arguments.extend(["--upstream", &url]);
        arguments.extend(ours.concat());
        Ok(started(&arguments)?.in_front_of(upstream))
    }

    /// Makes a folder in which the program `redis-server` starts this side's server.
    pub fn wrapper(&self, shelf: &Path) -> Result<PathBuf, String> {
        let script = shelf.join("redis-server");
        if let Some(upstream) = &self.upstream {
            let front = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/locks/in_front.sh");
            let (program, upstream) = (self.program.display(), upstream.program.display());
            let text = format!("#!/bin/sh\nexec '{}' '{program}' '{upstream}' \"$@\"\n", front.display());
            return write_program(shelf, &script, &text);
        }
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
        write_program(shelf, &script, &text)
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

fn write_program(shelf: &Path, script: &Path, text: &str) -> Result<PathBuf, String> {
    fs::create_dir_all(shelf)
        .and_then(|()| fs::write(script, text))
        .and_then(|()| fs::set_permissions(script, fs::Permissions::from_mode(0o755)))
        .map_err(|error| format!("{}: {error}", script.display()))?;
    Ok(shelf.to_owned())
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
