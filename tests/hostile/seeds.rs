//! Seed files with everything that does not belong into one: the server starts, or says which line is wrong, and never
//! hangs, panics or starts with half of a file.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use redouble::Server;
use redouble::internals::all_commands;

use crate::support::wire::{Frame, Wire};
use crate::support::{Dice, address, profile};

struct SeedFile(PathBuf);

impl SeedFile {
    fn new(name: &str, content: impl AsRef<[u8]>) -> Self {
        let path = std::env::temp_dir().join(format!("redouble-hostile-seed-{}-{name}", std::process::id()));
        fs::write(&path, content).unwrap();
        Self(path)
    }
}

impl Drop for SeedFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Longer than the limit for one script.
const LONGEST: Duration = Duration::from_secs(40);

/// Starts a server with a seed file; the error without the path. Fails if the start takes too long.
#[track_caller]
fn started(name: &str, content: impl AsRef<[u8]>) -> Result<Server, String> {
    let file = SeedFile::new(name, content);
    let path = file.0.clone();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let server = Server::builder().port(0).compat(profile("redis-8.4")).load(&path).spawn();
        let _ = sender.send(server.map_err(|error| error.to_string()));
    });
    let outcome = receiver.recv_timeout(LONGEST).unwrap_or_else(|_| panic!("the start with {name} hangs, or panics"));
    outcome.map_err(|error| {
        let place = format!("cannot load {}", file.0.display());
        error.strip_prefix(&place).unwrap_or_else(|| panic!("{error}")).to_owned()
    })
}

#[track_caller]
fn refused(name: &str, content: impl AsRef<[u8]>) -> String {
    match started(name, content) {
        Ok(_) => panic!("{name} was loaded"),
        Err(error) => error,
    }
}

/// The names of all commands and subcommands.
fn names() -> Vec<String> {
    let mut names = Vec::new();
    for row in all_commands() {
        names.push(row.spec.name.to_owned());
        names.extend(row.subcommands.iter().map(|sub| format!("{} {}", row.spec.name, sub.spec.name)));
    }
    names
}

#[test]
fn every_command_in_a_seed_file_runs_or_is_an_error_with_its_line() {
    let arguments = ["", "1", "key 0", "START", "key value 1", "1 key value 0 0 0", "ADVANCE 1s"];
    let names = names();
    assert!(names.len() > 250, "{}", names.len());
    for name in names {
        for arguments in arguments {
            // What comes before must be in force, what comes behind must run, too.
            let seed = format!("SET before 1\n\n{name} {arguments}\nPING\nSET after 1\n");
            match started("command", seed) {
                Ok(server) => {
                    let info = Wire::connect(address(&server)).ask("INFO redouble").text();
                    assert!(info.contains("handler_panics:0\r\n"), "{name} {arguments}: {info}");
                }
                Err(error) => {
                    let is_told = error.starts_with(", line 3: ") || error.starts_with(", line 4: ");
                    assert!(is_told || error.starts_with(", line 5: "), "{name} {arguments}: {error}");
                    assert!(!error.contains("panic"), "{name} {arguments}: {error}");
                }
            }
        }
    }
}

#[test]
fn what_needs_a_client_is_refused_by_name() {
    for command in [
        "AUTH x",
        "HELLO 3",
        "QUIT",
        "RESET",
        "CLIENT PAUSE 100000",
        "CLIENT REPLY OFF",
        "CLIENT TRACKING ON",
        "MONITOR",
        "SUBSCRIBE a",
        "PSUBSCRIBE a*",
        "SSUBSCRIBE a",
        "UNSUBSCRIBE",
        "SHUTDOWN NOSAVE",
        "DEBUG SLEEP 1000",
        "REDOUBLE EXPLORE START",
        "REDOUBLE EXPLORE NEXT",
        "REDOUBLE SPACE a",
        "REDOUBLE SPACES LIST",
        "REDOUBLE INSTANCE LIST",
        "REDOUBLE SAVE a.txt",
    ] {
        let name = command.split(' ').take(if command.starts_with(['C', 'R']) { 2 } else { 1 });
        let name = name.collect::<Vec<_>>().join("|").to_ascii_lowercase();
        let name = if command == "RESET" { "reset".to_owned() } else { name };
        let error = refused("client", format!("SET a 1\n{command}\n"));
        let expected = format!(", line 2: '{name}' is for clients of a running server, and not for a file");
        assert_eq!(error, expected, "{command}");
    }
}

#[test]
fn what_waits_or_leaves_something_open_is_refused() {
    for (seed, reason) in [
        ("BLPOP nothing 0\n", ", line 1: the command would wait, and nobody is there to end that"),
        ("SET a 1\nMULTI\nSET b 2\n", ", line 3: the file ends after MULTI, without EXEC"),
        ("MULTI\nMULTI\n", ", line 2: ERR MULTI calls can not be nested"),
        ("EXEC\n", ", line 1: ERR EXEC without MULTI"),
        ("REDOUBLE JOURNAL ON\nREDOUBLE JOURNAL AWAIT on SET 1\n", ", line 2: the command would wait"),
        ("REDOUBLE FAULT ADD f on SET HANG\nSET a 1\n", ", line 2: the command would wait"),
        ("REDOUBLE FAULT ADD f on SET DELAY 1s\nSET a 1\n", ", line 2: the command would wait"),
        ("REDOUBLE FAULT ADD f on SET CLOSE-BEFORE\nSET a 1\n", ", line 2: the command ends the connection"),
        ("REDOUBLE GATE ADD g on SET\nSET a 1\n", ", line 2: the command would wait"),
        ("SET a \"b\n", ", line 1: unbalanced quotes"),
        ("SET a 1\n*3\r\n$3\r\nSET\r\n$99999999999\r\nx", ", line 2: the file ends in the middle of a command"),
        ("*99999999999\r\n", ", line 1: ERR Protocol error: invalid multibulk length"),
        ("*1\r\n$-5\r\nPING\r\n", ", line 1: ERR Protocol error: invalid bulk length"),
        ("*2147483647\r\n$1\r\na\r\n", ", line 1:"),
    ] {
        let error = refused("waits", seed);
        assert!(error.starts_with(reason), "{seed:?}: {error}");
    }
}

#[test]
fn a_script_without_an_end_is_ended() {
    for (script, line) in [("while true do end", 1), ("while true do pcall(function() while true do end end) end", 1)] {
        let error = refused("endless", format!("EVAL \"{script}\" 0\nSET a 1\n"));
        assert!(error.starts_with(&format!(", line {line}: ERR The script takes too long")), "{error}");
    }
    let seed = "CONFIG SET busy-reply-threshold 0\nSET a 1\nEVAL \"redis.call('SET', 'b', 1) while true do end\" 0\n";
    let error = refused("endless-busy", seed);
    assert!(error.starts_with(", line 3: ERR The script takes too long"), "{error}");
}

#[test]
fn junk_is_refused_or_loaded_and_never_kills_the_server() {
    let mut dice = Dice::new(14);
    for round in 0..300 {
        let length = dice.below(200) + 1;
        let start: &[u8] = [&b"*3\r\n$3\r\nSET\r\n"[..], b"REDIS0011", b"SET a 1\n", b""][round % 4];
        let junk = [start, &dice.bytes(length)].concat();
        if let Err(error) = started("junk", &junk) {
            assert!(error.starts_with(", line ") || error.starts_with(": "), "{junk:?}: {error}");
        }
    }
}

#[test]
fn a_pipe_that_nobody_writes_to_and_a_folder_are_errors() {
    let folder = std::env::temp_dir();
    let error = Server::builder().port(0).load(&folder).spawn().err().unwrap().to_string();
    assert!(error.ends_with("Is a directory"), "{error}");
    let path = SeedFile::new("pipe", "");
    fs::remove_file(&path.0).unwrap();
    assert!(Command::new("mkfifo").arg(&path.0).status().unwrap().success());
    let (sender, receiver) = mpsc::channel();
    let pipe = path.0.clone();
    thread::spawn(move || sender.send(Server::builder().port(0).load(pipe).spawn().map(drop)));
    let error = receiver.recv_timeout(LONGEST).expect("it does not hang").unwrap_err().to_string();
    assert!(error.ends_with(": nothing came for 10s"), "{error}");
}

#[test]
fn what_a_seed_file_may_hold_still_works() {
    let seed = "SELECT 2\nMULTI\nINCR n\nEXEC\nEVAL \"return redis.call('INCR', 'n')\" 0\nACL SETUSER bob on >pw ~* +@all\n\
                REDOUBLE CLOCK FREEZE\nREDOUBLE FAULT ADD f on SET ERROR \"ERR no\"\nPUBLISH a b\nPING\nECHO a\n";
    let server = started("works", seed).unwrap();
    let mut wire = Wire::connect(address(&server));
    wire.ask("SELECT 2");
    assert_eq!(wire.ask("GET n"), Frame::bulk("2"));
    assert_eq!(wire.ask("AUTH bob pw"), Frame::status("OK"));
}
