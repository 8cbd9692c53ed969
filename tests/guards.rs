//! Faults and gates from Rust: what a guard holds, and what is left when it is gone.

mod support;

use redouble::{Error, Fault, Pattern, Verdict};
use support::wire::{Frame, Wire};
use support::{address, spawn};

fn text(error: Error) -> String {
    error.to_string()
}

#[test]
fn a_dropped_guard_lets_whoever_hangs_go_on() {
    let server = spawn();
    let mut client = Wire::connect(address(&server));
    let hang = server.fault(Fault::new("hang", Verdict::Hang).of(Pattern::on("SET"))).unwrap();
    let gate = server.gate("arrival", Pattern::on("SET")).unwrap();
    client.send(b"SET lock token\r\n");
    gate.wait_for(1).unwrap();
    gate.step().unwrap();
    assert_eq!((hang.fired(), hang.hanging()), (1, 1));
    drop(hang);
    // Complete when the guard is gone: the reply was written.
    assert!(client.has_reply());
    assert_eq!(client.expect(), Frame::status("OK"));
}

#[test]
fn a_dropped_gate_lets_whoever_is_held_go_on() {
    let server = spawn();
    let (mut client, mut other) = (Wire::connect(address(&server)), Wire::connect(address(&server)));
    let gate = server.gate_after("told-late", Pattern::on("SET")).unwrap();
    client.send(b"SET lock token\r\n");
    gate.wait_for(1).unwrap();
    assert_eq!(other.ask("GET lock"), Frame::bulk("token"));
    assert!(!client.has_reply());
    drop(gate);
    assert!(client.has_reply());
    assert!(server.unreached_gates().is_empty());
}

#[test]
fn a_guard_whose_fault_was_removed_by_command_leaves_the_next_of_that_name_alone() {
    let server = spawn();
    let mut client = Wire::connect(address(&server));
    let guard = server.fault(Fault::new("f", Verdict::Error(b"ERR first".to_vec())).of(Pattern::on("GET"))).unwrap();
    assert_eq!(client.ask("GET k"), Frame::error("ERR first"));
    assert_eq!(client.ask("REDOUBLE FAULT REMOVE f"), Frame::Integer(1));
    let again = ["REDOUBLE", "FAULT", "ADD", "f", "on", "GET", "error", "ERR second"];
    assert_eq!(client.call(&again), Frame::status("OK"));
    drop(guard);
    assert_eq!(client.ask("GET k"), Frame::error("ERR second"));
}

#[test]
fn a_typing_error_is_told_at_once_and_not_by_a_rule_that_never_fires() {
    let server = spawn();
    let refused = |pattern| server.fault(Fault::new("typo", Verdict::Hang).of(pattern)).err().map(text);
    let known = |name: &str| format!("there is no command '{name}' that a pattern can mean");
    assert_eq!(refused(Pattern::on("SETXN")), Some(known("SETXN")));
    assert_eq!(refused(Pattern::on("CLIENT|KIL")), Some(known("CLIENT|KIL")));
    assert_eq!(refused(Pattern::on("REDOUBLE")), Some(known("REDOUBLE")));
    assert!(server.unfired_faults().is_empty());
}

#[test]
fn two_rules_of_one_name_are_refused() {
    let server = spawn();
    let _first = server.gate("door", Pattern::any()).unwrap();
    let second = server.gate("door", Pattern::any()).err().map(text);
    assert_eq!(second.as_deref(), Some("there is a gate 'door' already"));
}

#[test]
fn a_gate_that_nobody_comes_to_says_who_is_there_instead() {
    let server = spawn();
    let mut client = Wire::connect(address(&server));
    client.ask("CLIENT SETNAME worker-1");
    let gate = server.gate("door", Pattern::on("DEL")).unwrap();
    client.send(b"DEL lock:a\r\n");
    gate.wait_for(1).unwrap();
    let error = gate.wait_for_within(2, std::time::Duration::ZERO).err().map(text).unwrap();
    assert!(error.starts_with("gate 'door' holds 1 of 2 after 0ms: client "), "{error}");
    assert!(error.ends_with(" (worker-1) DEL lock:a"), "{error}");
    assert_eq!(gate.open(), 1);
    let nobody = gate.step().err().map(text);
    assert_eq!(nobody.as_deref(), Some("nobody is held at gate 'door'"));
}

#[test]
fn what_never_fired_is_known() {
    let server = spawn();
    let fault = server.fault(Fault::new("unused", Verdict::Reset).of(Pattern::on("SET").key("lock:*"))).unwrap();
    assert_eq!(Wire::connect(address(&server)).ask("SET other 1"), Frame::status("OK"));
    assert_eq!((fault.matched(), fault.fired()), (0, 0));
    assert_eq!(server.unfired_faults(), ["unused"]);
}

#[test]
fn a_fault_of_one_space_is_none_of_the_others() {
    let server = spawn();
    let space = server.space("worker-1").unwrap();
    let _fault = space.fault(Fault::new("f", Verdict::Error(b"ERR here".to_vec())).of(Pattern::on("GET"))).unwrap();
    let mut client = Wire::connect(address(&server));
    assert_eq!(client.ask("GET k"), Frame::NullBulk);
    client.ask("REDOUBLE SPACE worker-1");
    assert_eq!(client.ask("GET k"), Frame::error("ERR here"));
}
