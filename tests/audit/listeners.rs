//! Those who listen to findings or wait for them behind many locks, where the auditor tells them beside the other clients.
//!
//! Nobody here waits for time to pass: each message that is due is waited for, and the last one is known.

use std::net::SocketAddr;

use redouble::Server;

use crate::live::{Rivals, audited, count, info, named};
use crate::support::address;
use crate::support::wire::{Frame, Wire, request};

/// More locks than others wait for.
const MANY: usize = 700;

const TWO: &str = "code two-holders";

/// A client holds so many locks, and asks for them again.
fn hold(address: SocketAddr, locks: usize) -> Wire {
    let mut holder = named(address, "holder");
    burst(&mut holder, locks, locks);
    holder
}

/// So many commands in one go about so many locks.
fn burst(client: &mut Wire, commands: usize, locks: usize) {
    let mut trips = Vec::new();
    for lock in 0..commands {
        trips.extend(request(&["SET", &format!("lock:{}", lock % locks), "91d05be877c24f13", "NX", "PX", "600000"]));
    }
    client.send(&trips);
    (0..commands).for_each(|_| drop(client.expect()));
}

fn listen(server: &Server) -> Wire {
    let mut listener = Wire::connect(address(server));
    listener.ask("SUBSCRIBE __redouble__:findings");
    listener
}

/// The locks that had two holders, as a listener hears of them, up to this one.
fn heard(listener: &mut Wire, last: &str) -> Vec<String> {
    let mut keys = Vec::new();
    loop {
        let message = listener.expect();
        let json: serde_json::Value = serde_json::from_str(&message.items()[2].text()).expect("JSON");
        if json["code"] == "two-holders" {
            keys.push(json["key"].as_str().expect("a key").to_owned());
            if json["key"] == last {
                return keys;
            }
        }
    }
}

#[test]
fn whoever_listens_behind_many_locks_hears_of_each_finding_once_and_of_none_from_before() {
    let (server, _driver) = audited();
    let _holder = hold(address(&server), MANY);
    let mut rivals = Rivals::new(address(&server));
    rivals.race("lock:before");
    let mut listener = listen(&server);
    rivals.race("lock:after");
    rivals.end("lock:after");
    rivals.race("lock:end");
    assert_eq!(heard(&mut listener, "lock:end"), ["lock:after", "lock:end"]);
    // Somebody who comes later hears from then on, and the first one goes on.
    let mut second = listen(&server);
    rivals.race("lock:last");
    assert_eq!(heard(&mut listener, "lock:last"), ["lock:last"]);
    assert_eq!(heard(&mut second, "lock:last"), ["lock:last"]);
}

#[test]
fn whoever_begins_to_listen_while_the_auditor_is_behind_hears_of_nothing_that_came_before() {
    let (server, _driver) = audited();
    let mut holder = hold(address(&server), MANY);
    let mut rivals = Rivals::new(address(&server));
    for round in 0..8 {
        burst(&mut holder, 9_000, MANY);
        rivals.race(&format!("lock:before:{round}"));
        let mut listener = listen(&server);
        burst(&mut holder, 9_000, MANY);
        rivals.race(&format!("lock:after:{round}"));
        assert_eq!(heard(&mut listener, &format!("lock:after:{round}")), [format!("lock:after:{round}")]);
        listener.ask("UNSUBSCRIBE __redouble__:findings");
    }
}

#[test]
fn a_listener_hears_of_each_finding_once_however_the_number_of_locks_grows_and_shrinks() {
    let (server, mut driver) = audited();
    let mut listener = listen(&server);
    let mut rivals = Rivals::new(address(&server));
    for round in 0..4 {
        rivals.race(&format!("lock:few:{round}"));
        let holder = hold(address(&server), MANY);
        rivals.race(&format!("lock:many:{round}"));
        rivals.end(&format!("lock:few:{round}"));
        rivals.race(&format!("lock:end:{round}"));
        let due = ["few", "many", "end"].map(|which| format!("lock:{which}:{round}"));
        assert_eq!(heard(&mut listener, &due[2]), due);
        drop(holder);
        assert_eq!(driver.ask("REDOUBLE RESET"), Frame::status("OK"));
    }
}

#[test]
fn whoever_waits_for_a_finding_behind_many_locks_is_told_when_it_comes() {
    let (server, mut driver) = audited();
    let mut holder = hold(address(&server), MANY);
    let mut rivals = Rivals::new(address(&server));
    let mut waiter = Wire::connect(address(&server));
    for round in 1..=4 {
        waiter.send(&request(&["REDOUBLE", "AUDIT", "AWAIT", "CODE", "two-holders", &round.to_string(), "60s"]));
        burst(&mut holder, 9_000, MANY);
        rivals.race(&format!("lock:raced:{round}"));
        assert_eq!(waiter.expect(), Frame::Integer(round));
        assert_eq!(driver.ask(&format!("REDOUBLE AUDIT AWAIT {TWO} {round}")), Frame::Integer(round));
    }
}

#[test]
fn waiting_in_vain_behind_many_locks_says_what_was_found_and_ends_when_the_audit_does() {
    let (server, mut driver) = audited();
    let mut holder = hold(address(&server), MANY);
    Rivals::new(address(&server)).race("lock:a");
    burst(&mut holder, 9_000, MANY);
    let error = driver.ask(&format!("REDOUBLE AUDIT AWAIT {TWO} 2 1ms")).text();
    assert!(error.starts_with("TIMEOUT 1 of 2 findings after 1ms; found: "), "{error}");
    assert!(error.contains("lock:a"), "{error}");
    let mut waiter = Wire::connect(address(&server));
    waiter.send(&request(&["REDOUBLE", "AUDIT", "AWAIT", "CODE", "two-holders", "2", "600s"]));
    assert_eq!(driver.ask("REDOUBLE AUDIT OFF"), Frame::status("OK"));
    let error = waiter.expect().text();
    assert!(error.starts_with("ERR 1 of 2 findings, and the audit is off"), "{error}");
}

#[test]
fn what_comes_behind_a_reset_of_many_locks_is_judged_as_if_the_server_had_just_begun() {
    let (server, mut driver) = audited();
    for round in 0..3 {
        let mut holder = hold(address(&server), MANY);
        burst(&mut holder, 9_000, MANY);
        Rivals::new(address(&server)).race("lock:a");
        assert_eq!(count(&mut driver, TWO), 1, "{round}");
        assert_eq!(driver.ask("REDOUBLE RESET"), Frame::status("OK"));
        assert_eq!(count(&mut driver, TWO), 0);
        assert_eq!(info(&mut driver)["missed"], Frame::Integer(0));
    }
}

#[test]
fn an_answer_beside_other_clients_has_the_form_that_its_client_speaks() {
    let (server, mut resp2) = audited();
    let _holder = hold(address(&server), MANY);
    let mut other = named(address(&server), "other");
    burst(&mut other, MANY, MANY);
    let mut resp3 = Wire::connect(address(&server));
    resp3.ask("HELLO 3");
    let (flat, map) = (resp2.ask("REDOUBLE LOCKS"), resp3.ask("REDOUBLE LOCKS"));
    assert_eq!((flat.items().len(), map.items().len()), (MANY, MANY));
    assert!(matches!((&flat.items()[0], &map.items()[0]), (Frame::Array(_), Frame::Map(_))), "{map:?}");
    // What is asked for behind it comes behind it, and what nobody wants to hear is not sent.
    resp2.send(&[request(&["PING"]), request(&["REDOUBLE", "LOCKS"]), request(&["PING"])].concat());
    assert_eq!((resp2.expect(), resp2.expect(), resp2.expect()), (Frame::status("PONG"), flat, Frame::status("PONG")));
    resp2.send(&[request(&["CLIENT", "REPLY", "SKIP"]), request(&["REDOUBLE", "LOCKS"]), request(&["PING"])].concat());
    assert_eq!(resp2.expect(), Frame::status("PONG"));
    let error = resp3.ask("REDOUBLE AUDIT AWAIT 1000000 1ms");
    assert!(error.is_error(), "{error:?}");
}

#[test]
fn findings_stay_when_the_journal_is_made_smaller_emptied_or_switched_off_behind_many_locks() {
    let (server, mut driver) = audited();
    let mut holder = hold(address(&server), MANY);
    let mut rivals = Rivals::new(address(&server));
    for (round, change) in (1..).zip(["ON 256kb", "CLEAR", "OFF", "ON 1mb", "ON 256kb", "ON"]) {
        burst(&mut holder, 9_000, MANY);
        rivals.race(&format!("lock:raced:{round}"));
        assert_eq!(driver.ask(&format!("REDOUBLE JOURNAL {change}")), Frame::status("OK"));
        // What happens while the journal is off is not known, so it goes on at once.
        assert_eq!(driver.ask("REDOUBLE JOURNAL ON 256kb"), Frame::status("OK"));
        assert_eq!(count(&mut driver, TWO), round);
        assert_eq!(info(&mut driver)["missed"], Frame::Integer(0));
    }
    let journal = driver.ask("REDOUBLE JOURNAL INFO");
    assert!(journal.items().contains(&Frame::Integer(256 << 10)), "{journal:?}");
}
