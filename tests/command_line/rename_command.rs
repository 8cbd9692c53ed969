//! `rename-command`: what clients see of it is what a real server shows them.

use std::process::Command;

use redouble::Server;

use crate::support::process::ServerProcess;
use crate::support::wire::Wire;
use crate::support::{address, start};

const RENAMES: [&str; 15] = [
    "--rename-command",
    "GET",
    "fetch",
    "--rename-command",
    "set",
    "Put",
    "--rename-command",
    "CONFIG",
    "",
    "--rename-command",
    "client",
    "people",
    "--rename-command",
    "eval",
    "run-script",
];

/// What clients of a server with these names can find out about them.
const QUESTIONS: [&str; 30] = [
    "PUT a 1",
    "put a 2",
    "SET a 3",
    "GET a",
    "FETCH a",
    "fetch",
    "CONFIG GET save",
    "PEOPLE NOSUCH",
    "CLIENT ID",
    "PEOPLE",
    "COMMAND INFO get",
    "COMMAND INFO config people|id client|id",
    "COMMAND GETKEYS fetch a",
    "COMMAND GETKEYS get a",
    "ACL SETUSER u reset +get",
    "ACL SETUSER u +fetch",
    "ACL SETUSER u +people|id",
    "ACL SETUSER u +config|get",
    "ACL LIST",
    "ACL DRYRUN u get a",
    "ACL DRYRUN u fetch a",
    "ACL DRYRUN u config get save",
    "RUN-SCRIPT return{redis.pcall('get','a'),redis.call('fetch','a'),redis.pcall('config','get','x')} 0",
    "MULTI",
    "fetch a",
    "put a 4",
    "EXEC",
    "MULTI",
    "get a",
    "EXEC",
];

#[test]
fn a_renamed_command_is_known_by_its_new_name_to_clients_and_by_its_old_one_to_rules() {
    let redis = ServerProcess::redis(&RENAMES);
    let redouble = ServerProcess::redouble(&[&["--compat", "redis-7.0"], &RENAMES[..]].concat());
    let (mut redis, mut redouble) = (Wire::connect(redis.address()), Wire::connect(redouble.address()));
    for question in QUESTIONS {
        assert_eq!(redouble.ask(question), redis.ask(question), "{question}");
    }
}

#[test]
fn servers_in_one_process_have_each_their_own_names() {
    let plain = start(Server::builder());
    let renamed = ServerProcess::redouble(&["--rename-command", "PING", "ring"]);
    assert_eq!(Wire::connect(renamed.address()).ask("RING").text(), "PONG");
    assert!(Wire::connect(renamed.address()).ask("PING").is_error());
    assert_eq!(Wire::connect(address(&plain)).ask("PING").text(), "PONG");
}

#[test]
fn a_fault_and_a_journal_know_a_renamed_command() {
    let server = ServerProcess::redouble(&["--rename-command", "GET", "fetch", "--journal", "yes"]);
    let mut wire = Wire::connect(server.address());
    let rule = ["REDOUBLE", "FAULT", "ADD", "broken", "on", "GET", "times", "1", "error", "ERR broken"];
    assert!(!wire.call(&rule).is_error());
    assert_eq!(wire.ask("FETCH a").text(), "ERR broken");
    assert!(!wire.ask("FETCH a").is_error());
    assert_eq!(wire.ask("REDOUBLE JOURNAL COUNT on GET").integer(), 2);
}

#[test]
fn a_wrong_rename_ends_the_start_with_the_line_as_in_redis() {
    for (words, reason) in [
        (["nosuch", "x"], "No such command in rename-command"),
        (["client|id", "x"], "No such command in rename-command"),
        (["get", "SET"], "Target command name already exists"),
    ] {
        let command = Command::new(env!("CARGO_BIN_EXE_redouble"))
            .args(["--port", "0", "--rename-command", words[0], words[1]])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&command.stderr);
        assert!(said.contains("FATAL CONFIG FILE ERROR") && said.contains(reason), "{said}");
        assert_eq!(command.status.code(), Some(1));
    }
    // A command may be given the name that it has.
    drop(ServerProcess::redouble(&["--rename-command", "get", "GET"]));
}
