//! Clients of a space against the process: a space has users of its own, who say nothing about the server's.

use std::fs;

use crate::support::process::ServerProcess;
use crate::support::wire::{Frame, Wire};

/// Commands that reach the process or its files.
const OF_THE_PROCESS: &[&str] = &[
    "SHUTDOWN NOSAVE",
    "SHUTDOWN",
    "REDOUBLE SAVE stolen.txt",
    "REDOUBLE JOURNAL EXPORT stolen.jsonl",
    "REDOUBLE INSTANCE PAUSE 1",
    "REDOUBLE INSTANCE STOP 1",
    "REDOUBLE INSTANCE SKEW 2 1s",
    "REDOUBLE SPACES DROP other",
    "CONFIG SET dir /",
    "CONFIG SET dbfilename x",
    "CONFIG SET maxclients 5",
    "CONFIG SET loglevel debug",
    "CONFIG REWRITE",
    "DEBUG SLEEP 0",
    "DEBUG DIGEST",
];

/// A server with a space of before, and what an operator does afterwards: nobody may touch the process.
fn server() -> (ServerProcess, std::path::PathBuf) {
    let folder = std::env::temp_dir().join(format!(
        "redouble-worlds-{}-{}",
        std::process::id(),
        crate::support::process::free_port()
    ));
    fs::create_dir_all(&folder).unwrap();
    let flags =
        ["--dir", folder.to_str().unwrap(), "--enable-debug-command", "yes", "--enable-protected-configs", "yes"];
    (ServerProcess::redouble(&[&flags[..], &["--instances", "2", "--journal", "yes"]].concat()), folder)
}

const RESTRICTION: &str = "ACL SETUSER default -shutdown -config -debug -redouble +redouble|space";

fn refuses_all(wire: &mut Wire, code: &str) {
    for line in OF_THE_PROCESS {
        let reply = wire.ask(line);
        assert!(reply.is_error() && reply.text().starts_with(code), "{line}: {reply:?}");
    }
    assert_eq!(wire.ask("PING"), Frame::status("PONG"));
}

#[test]
fn a_space_from_before_does_not_keep_the_rights_of_before() {
    let (server, folder) = server();
    let connect = || Wire::connect(server.address());
    let (mut early, mut other) = (connect(), connect());
    assert_eq!(early.ask("REDOUBLE SPACE old"), Frame::status("OK"));
    assert_eq!(other.ask("REDOUBLE SPACE other"), Frame::status("OK"));
    assert_eq!(connect().ask(RESTRICTION), Frame::status("OK"));
    // Whether a client was in the space already, enters it by a command or by its name.
    let mut later = connect();
    assert_eq!(later.ask("REDOUBLE SPACE old"), Frame::status("OK"));
    let mut named = connect();
    assert_eq!(named.ask("AUTH space.old any"), Frame::status("OK"));
    for wire in [&mut early, &mut later, &mut named] {
        refuses_all(wire, "NOPERM");
        // The space itself is theirs.
        assert_eq!(wire.ask("SET a 1"), Frame::status("OK"));
        assert_eq!(wire.ask("REDOUBLE CLOCK FREEZE"), Frame::status("OK"));
        assert_eq!(wire.ask("REDOUBLE JOURNAL CLEAR"), Frame::status("OK"));
        assert_eq!(wire.ask("CONFIG SET maxmemory 100mb"), Frame::status("OK"));
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_user_that_a_client_makes_in_a_space_is_nobody_outside() {
    let (server, folder) = server();
    let mut admin = Wire::connect(server.address());
    assert_eq!(admin.ask("ACL SETUSER admin on >secret ~* &* +@all"), Frame::status("OK"));
    let mut wire = Wire::connect(server.address());
    assert_eq!(wire.ask("REDOUBLE SPACE old"), Frame::status("OK"));
    assert_eq!(admin.ask(RESTRICTION), Frame::status("OK"));
    // The space has no password for this name, and so everybody can be that user there.
    assert_eq!(wire.ask("ACL SETUSER admin on nopass ~* &* +@all"), Frame::status("OK"));
    assert_eq!(wire.ask("AUTH admin wrong"), Frame::status("OK"));
    refuses_all(&mut wire, "NOPERM");
    let reply = wire.ask("REDOUBLE SPACE \"\"").text();
    assert!(reply.contains("no user '\"\"'") || reply.starts_with("OK"), "{reply}");
    let reply = wire.call(&["REDOUBLE", "SPACE", ""]).text();
    assert!(reply.starts_with("NOPERM this connection's user is one of the space"), "{reply}");
    assert_eq!(wire.call(&["REDOUBLE", "SPACE"]).text(), "\"\"");
    // With the password of the server's own user, it is that one.
    assert_eq!(wire.call(&["REDOUBLE", "SPACE", "old"]), Frame::status("OK"));
    assert_eq!(wire.ask("AUTH admin secret"), Frame::status("OK"));
    assert_eq!(wire.ask("REDOUBLE SAVE mine.txt"), Frame::status("OK"));
    assert_eq!(wire.call(&["REDOUBLE", "SPACE", ""]), Frame::status("OK"));
    assert_eq!(wire.ask("ACL WHOAMI"), Frame::bulk("admin"));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn who_logs_out_in_a_space_is_logged_out() {
    let (server, folder) = server();
    let mut admin = Wire::connect(server.address());
    let mut wire = Wire::connect(server.address());
    assert_eq!(wire.ask("REDOUBLE SPACE old"), Frame::status("OK"));
    assert_eq!(admin.ask("CONFIG SET requirepass secret"), Frame::status("OK"));
    assert_eq!(wire.ask("REDOUBLE SAVE before.txt"), Frame::status("OK"));
    assert_eq!(wire.ask("RESET"), Frame::status("RESET"));
    refuses_all(&mut wire, "NOAUTH");
    assert_eq!(wire.ask("AUTH space.old secret"), Frame::status("OK"));
    assert_eq!(wire.ask("REDOUBLE SAVE after.txt"), Frame::status("OK"));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn whoever_may_use_the_process_outside_may_do_so_from_a_space() {
    let (server, folder) = server();
    let mut wire = Wire::connect(server.address());
    assert_eq!(wire.ask("REDOUBLE SPACE mine"), Frame::status("OK"));
    assert_eq!(wire.ask("REDOUBLE SAVE mine.txt"), Frame::status("OK"));
    assert_eq!(wire.ask("CONFIG SET loglevel warning"), Frame::status("OK"));
    assert_eq!(wire.ask("DEBUG SLEEP 0"), Frame::status("OK"));
    assert!(folder.join("mine.txt").exists());
    wire.send(b"SHUTDOWN NOSAVE\r\n");
    assert!(wire.read().is_err());
    fs::remove_dir_all(folder).unwrap();
}
