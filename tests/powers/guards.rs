//! Faults and gates from Rust: what a guard holds, and what is left when it is gone.

use crate::support::wire::{Frame, Wire};
use crate::support::{address, spawn};
use redouble::{Error, Fault, Outcome, Pattern, Query, Verdict};

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
    assert_eq!(client.ask("REDOUBLE FAULT REMOVE f"), Frame::Integer(1), "it has fired once");
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

#[test]
fn the_journal_says_in_which_order_two_clients_took_effect() {
    let server = spawn();
    let (mut one, mut other) = (Wire::connect(address(&server)), Wire::connect(address(&server)));
    let journal = server.journal();
    assert_eq!(one.ask("SETNX lock 1").integer() + other.ask("SETNX lock 2").integer(), 1);
    assert_eq!(journal.wait_for(Pattern::on("SETNX").key("lock"), 2).unwrap(), 2);
    let entries = journal.entries(Query::from(Pattern::on("SETNX")));
    let shown: Vec<_> = entries.iter().map(|entry| (entry.seq, entry.words[2].clone(), entry.reply.clone())).collect();
    assert_eq!(shown, [(1, b"1".to_vec(), b":1\r\n".to_vec()), (2, b"2".to_vec(), b":0\r\n".to_vec())]);
}

#[test]
fn the_journal_tells_a_lost_reply_from_a_command_that_never_ran() {
    let server = spawn();
    let journal = server.journal();
    for (verdict, outcome) in [(Verdict::CloseBefore, Outcome::NeverRan), (Verdict::CloseAfter, Outcome::Lost)] {
        let _fault = server.fault(Fault::new("f", verdict).of(Pattern::on("SET"))).unwrap();
        Wire::connect(address(&server)).send(b"SET lock token\r\n");
        journal.wait_for(Query::from(Pattern::on("SET")).outcome(outcome).fault("f"), 1).unwrap();
    }
    assert_eq!(journal.count(Pattern::on("SET")), 2);
}

#[test]
fn a_command_that_does_not_come_is_told_with_what_came_instead() {
    let server = spawn();
    let journal = server.journal();
    Wire::connect(address(&server)).ask("SET lok:a 1");
    let wanted = Pattern::on("SET").key("lock:*");
    let error = journal.wait_for_within(wanted, 1, std::time::Duration::ZERO).err().map(text).unwrap();
    assert_eq!(error, "TIMEOUT 0 of 1 commands after 0ms; nearest: SET lok:a 1");
}

#[test]
fn a_journal_that_was_begun_for_a_test_ends_with_it() {
    let server = spawn();
    let mut client = Wire::connect(address(&server));
    drop(server.journal());
    client.ask("SET k v");
    let journal = server.journal();
    assert_eq!(journal.count(Pattern::any()), 0);
    client.ask("GET k");
    assert_eq!(journal.count(Pattern::any()), 1);
}
