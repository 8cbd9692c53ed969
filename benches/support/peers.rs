//! The servers that redouble is measured beside: those on the PATH, and those that the command line names.

use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::Outcome;
use super::options::redouble;

#[derive(Clone)]
pub struct Peer {
    pub name: String,
    /// The program and its arguments; `{port}` stands for the port.
    pub command: Vec<String>,
}

const KNOWN: [&str; 2] = ["valkey-server", "redis-server"];
/// What one of them saved in the working directory, the other one would load, or not be able to.
const WITHOUT_FILES: [&str; 4] = ["--save", "", "--appendonly", "no"];

impl Peer {
    pub fn redouble(name: &str, settings: &[&str]) -> Self {
        let command = [redouble(), "--port", "{port}"].into_iter().chain(settings.iter().copied());
        Self { name: name.to_owned(), command: command.map(str::to_owned).collect() }
    }
}

/// The peers that the command line names as `NAME=COMMAND`, then those on the PATH.
pub fn others() -> Outcome<Vec<Peer>> {
    let mut peers = Vec::new();
    for argument in std::env::args().skip(1).filter(|argument| !argument.starts_with("--")) {
        let (name, command) =
            argument.split_once('=').ok_or_else(|| format!("expected NAME=COMMAND, not {argument}"))?;
        let mut command: Vec<String> =
            command.split_whitespace().map(|word| word.trim_matches('"').to_owned()).collect();
        if KNOWN.contains(&name) && !command.iter().any(|word| word == "--save") {
            command.extend(WITHOUT_FILES.map(str::to_owned));
        }
        peers.push(Peer { name: name.to_owned(), command });
    }
    for name in KNOWN {
        let known = peers.iter().any(|peer| peer.name == name);
        if !known && Command::new(name).arg("--version").stdout(Stdio::null()).status().is_ok() {
            let command = [name, "--port", "{port}"].into_iter().chain(WITHOUT_FILES);
            peers.push(Peer { name: name.to_owned(), command: command.map(str::to_owned).collect() });
        } else if !known {
            println!("Without {name}: it is not on the PATH, and PEERS has no {name}=\"COMMAND --port {{port}}\".");
        }
    }
    Ok(peers)
}

/// Whether servers and load can be kept on processors of their own. Asked once: a process that is kept on one processor sees no other.
pub fn can_pin() -> bool {
    static CAN_PIN: OnceLock<bool> = OnceLock::new();
    *CAN_PIN.get_or_init(|| {
        let several = std::thread::available_parallelism().is_ok_and(|count| count.get() > 1);
        several && Command::new("taskset").arg("--version").stdout(Stdio::null()).status().is_ok()
    })
}

/// Keeps all threads of this process on some processors.
pub fn pin_this_process(processors: &str) {
    let _ = Command::new("taskset")
        .args(["-apc", processors, &std::process::id().to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}
