//! The lock auditor while servers run: who holds what, what was found, and how a test hears of it.
//!
//! Nobody here waits for time to pass: findings are waited for with REDOUBLE AUDIT AWAIT, or come as messages.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use redouble::internals::{Auditor, Scope, audit, auditor, command_table, journal_of};
use redouble::{Builder, Code, Finding, Server, Severity};

use crate::support::process::ServerProcess;
use crate::support::wire::{Frame, Wire, request};
use crate::support::{address, spawn, start};

pub type Told = BTreeMap<String, Frame>;

pub fn told(map: &Frame) -> Told {
    map.items().chunks(2).map(|pair| (pair[0].text(), pair[1].clone())).collect()
}

pub fn audited() -> (Server, Wire) {
    let server = start(Server::builder().audit());
    let driver = Wire::connect(address(&server));
    (server, driver)
}

pub fn named(address: SocketAddr, name: &str) -> Wire {
    let mut wire = Wire::connect(address);
    assert_eq!(wire.ask(&format!("CLIENT SETNAME {name}")), Frame::status("OK"));
    wire
}

pub fn list(driver: &mut Wire, question: &str) -> Vec<Told> {
    let reply = driver.ask(&format!("REDOUBLE AUDIT LIST {question}"));
    assert!(!reply.is_error(), "{reply:?}");
    reply.items().iter().map(told).collect()
}

fn locks(driver: &mut Wire, question: &str) -> Vec<Told> {
    let reply = driver.ask(&format!("REDOUBLE LOCKS {question}"));
    assert!(!reply.is_error(), "{reply:?}");
    reply.items().iter().map(told).collect()
}

pub fn count(driver: &mut Wire, question: &str) -> i64 {
    driver.ask(&format!("REDOUBLE AUDIT COUNT {question}")).integer()
}

pub fn info(driver: &mut Wire) -> Told {
    told(&driver.ask("REDOUBLE AUDIT INFO"))
}

const TWO: &str = "code two-holders";
const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// Two clients who both believe to hold a lock, because one of them has deleted it.
pub struct Rivals {
    one: Wire,
    other: Wire,
}

impl Rivals {
    pub fn new(address: SocketAddr) -> Self {
        Self { one: named(address, "one"), other: named(address, "other") }
    }

    pub fn race(&mut self, key: &str) {
        self.begin(key);
        self.end(key);
    }

    pub fn begin(&mut self, key: &str) {
        assert_eq!(self.one.ask(&format!("SET {key} 5f0c9a83b1d24e67 NX PX 600000")), Frame::status("OK"));
        assert_eq!(self.other.ask(&format!("SET {key} 91e7c2d40a8b36f5 NX PX 600000")), Frame::NullBulk);
    }

    pub fn end(&mut self, key: &str) {
        assert_eq!(self.other.ask(&format!("DEL {key}")), Frame::Integer(1));
        assert_eq!(self.other.ask(&format!("SET {key} 91e7c2d40a8b36f5 NX PX 600000")), Frame::status("OK"));
    }
}

/// So many commands that have nothing to do with locks.
fn flood(address: SocketAddr, commands: usize) {
    let mut client = Wire::connect(address);
    let trip = request(&["INCR", "n"]).repeat(100);
    for _ in 0..commands / 100 {
        client.send(&trip);
        (0..100).for_each(|_| drop(client.expect()));
    }
}

#[test]
fn a_question_about_the_end_of_many_locks_leaves_all_of_them_as_they_were() {
    const LOCKS: usize = 700;
    let (server, mut driver) = audited();
    let (mut holder, mut other) = (named(address(&server), "holder"), named(address(&server), "other"));
    for lock in 0..LOCKS {
        holder.ask(&format!("SET lock:{lock} 7f3c9e0152ab4d66 NX"));
        other.ask(&format!("SET lock:{lock} 91d05be877c24f13 NX"));
    }
    let mut counted = |question: &str| usize::try_from(count(&mut driver, question)).unwrap();
    let (so_far, at_end) = (counted(""), counted("final"));
    assert!(at_end >= so_far + LOCKS, "{so_far}, {at_end}");
    assert_eq!((counted("final"), counted("")), (at_end, so_far));
    assert_eq!(list(&mut driver, "final limit 10000").len(), at_end);
    assert_eq!(locks(&mut driver, "").len(), LOCKS);
    for lock in 0..LOCKS {
        holder.ask(&format!("DEL lock:{lock}"));
    }
    assert!(locks(&mut driver, "").iter().all(|lock| lock["state"].text() != "held"));
}

#[test]
fn a_finding_says_what_is_wrong_and_proves_it() {
    let (server, mut driver) = audited();
    Rivals::new(address(&server)).race("lock:a");
    let found = list(&mut driver, TWO);
    assert_eq!(found.len(), 1, "{found:?}");
    let finding = &found[0];
    assert_eq!(finding["code"].text(), "two-holders");
    assert_eq!(finding["severity"].text(), "error");
    assert_eq!(finding["key"].text(), "lock:a");
    assert_eq!((finding["db"].integer(), finding["server"].integer(), finding["times"].integer()), (0, 1, 1));
    assert!(finding["sentence"].text().contains("both held `lock:a`"), "{finding:?}");
    assert!(finding["instead"].text().starts_with("Delete a lock only while it has your token"), "{finding:?}");
    assert_eq!(finding["docs"].text(), "redouble explain two-holders");
    assert!(finding["time-us"].integer() > 0 && finding["seq"].integer() > 0);
    assert_eq!(finding["seq"], finding["last-seq"]);
    assert_eq!(finding["allowed"], Frame::NullBulk);
    let evidence: Vec<Told> = finding["evidence"].items().iter().map(told).collect();
    let commands: Vec<String> = evidence.iter().map(|shown| shown["command"].text()).collect();
    assert_eq!(commands.len(), 3, "{commands:?}");
    assert_eq!(commands[1], "DEL lock:a");
    assert_eq!(evidence[1]["name"].text(), "other");
    assert_eq!(evidence[2]["seq"], finding["seq"]);
    // The word LIST may be left out.
    assert_eq!(driver.ask("REDOUBLE AUDIT code two-holders"), driver.ask("REDOUBLE AUDIT LIST code two-holders"));
}

#[test]
fn a_question_before_the_audit_was_ever_on_is_answered_with_an_error() {
    let server = spawn();
    let mut driver = Wire::connect(address(&server));
    let never = Frame::error("ERR the audit was never on; REDOUBLE AUDIT ON begins it");
    for line in [
        "AUDIT",
        "AUDIT LIST",
        "AUDIT COUNT",
        "AUDIT COUNT final",
        "AUDIT AWAIT 1",
        "AUDIT CLEAR",
        "LOCKS",
        "LOCKS key a",
    ] {
        assert_eq!(driver.ask(&format!("REDOUBLE {line}")), never, "{line}");
    }
    assert_eq!(info(&mut driver)["state"].text(), "off");
    assert_eq!(driver.ask("REDOUBLE AUDIT ON"), Frame::status("OK"));
    assert_eq!(driver.ask("REDOUBLE AUDIT"), Frame::Array(vec![]));
    // The journal is on, too.
    assert_eq!(driver.ask("REDOUBLE JOURNAL COUNT"), Frame::Integer(0));
}

#[test]
fn what_the_journal_has_when_the_audit_begins_counts() {
    let server = start(Server::builder().journal(64 << 20));
    let mut driver = Wire::connect(address(&server));
    Rivals::new(address(&server)).race("lock:a");
    driver.ask("REDOUBLE AUDIT ON");
    assert_eq!(count(&mut driver, TWO), 1);
}

#[test]
fn what_happens_while_the_audit_is_off_is_not_judged_and_nobody_is_blamed_for_it_later() {
    let (server, mut driver) = audited();
    let mut rivals = Rivals::new(address(&server));
    rivals.begin("lock:a");
    driver.ask("REDOUBLE AUDIT OFF");
    // It gives its lock back, and others race.
    rivals.one.call(&["EVAL", RELEASE, "1", "lock:a", "5f0c9a83b1d24e67"]);
    rivals.race("lock:b");
    driver.ask("REDOUBLE AUDIT ON");
    assert_eq!(rivals.other.ask("SET lock:a 91e7c2d40a8b36f5 NX PX 600000"), Frame::status("OK"));
    assert_eq!(list(&mut driver, TWO), [], "nobody holds it twice");
    rivals.race("lock:c");
    assert_eq!(count(&mut driver, TWO), 1);
}

#[test]
fn the_same_with_a_journal_that_was_off_for_a_while() {
    let (server, mut driver) = audited();
    let mut rivals = Rivals::new(address(&server));
    rivals.begin("lock:a");
    driver.ask("REDOUBLE JOURNAL OFF");
    rivals.one.call(&["EVAL", RELEASE, "1", "lock:a", "5f0c9a83b1d24e67"]);
    driver.ask("REDOUBLE JOURNAL ON");
    assert_eq!(rivals.other.ask("SET lock:a 91e7c2d40a8b36f5 NX PX 600000"), Frame::status("OK"));
    assert_eq!(list(&mut driver, TWO), []);
}

#[test]
fn a_test_waits_for_a_finding_instead_of_asking_again_and_again() {
    let (server, mut driver) = audited();
    driver.send(&request(&["REDOUBLE", "AUDIT", "AWAIT", "key", "order:*", "code", "two-holders", "2", "60s"]));
    let mut rivals = Rivals::new(address(&server));
    rivals.race("other:1");
    rivals.race("order:1");
    rivals.begin("order:2");
    assert!(!driver.has_reply());
    rivals.end("order:2");
    assert_eq!(driver.expect(), Frame::Integer(2));
}

#[test]
fn waiting_in_vain_says_what_was_found_instead() {
    let (server, mut driver) = audited();
    let none = driver.ask("REDOUBLE AUDIT AWAIT 1 2ms");
    assert_eq!(none, Frame::error("TIMEOUT 0 of 1 findings after 2ms; nothing was found"));
    Rivals::new(address(&server)).race("lock:a");
    let reply = driver.ask("REDOUBLE AUDIT AWAIT key lock:b 1 2ms").text();
    assert!(reply.starts_with("TIMEOUT 0 of 1 findings after 2ms; found: "), "{reply}");
    assert!(reply.contains("two-holders of lock:a"), "{reply}");
}

#[test]
fn waiting_ends_when_the_audit_does() {
    let (server, mut driver) = audited();
    driver.send(&request(&["REDOUBLE", "AUDIT", "AWAIT", "1", "60s"]));
    let mut other = Wire::connect(address(&server));
    other.ask("REDOUBLE AUDIT OFF");
    assert_eq!(driver.expect(), Frame::error("ERR 0 of 1 findings, and the audit is off; nothing was found"));
}

#[test]
fn questions_can_be_about_a_part_of_the_findings() {
    let (server, mut driver) = audited();
    let mut rivals = Rivals::new(address(&server));
    rivals.race("a:1");
    rivals.race("b:1");
    let since = list(&mut driver, TWO)[0]["last-seq"].integer();
    rivals.race("a:2");
    for (question, found) in [
        ("", 3),
        ("key a:*", 2),
        ("key c:*", 0),
        ("severity error", 3),
        ("severity note", 3),
        (&format!("since {since}"), 2),
        (&format!("since {since} key a:?"), 1),
    ] {
        assert_eq!(count(&mut driver, &format!("{question} {TWO}")), found, "{question}");
    }
    let key = |found: &[Told]| found.iter().map(|finding| finding["key"].text()).collect::<Vec<_>>();
    // The last ones, or the first ones behind a place.
    assert_eq!(key(&list(&mut driver, &format!("{TWO} limit 2"))), ["b:1", "a:2"]);
    assert_eq!(key(&list(&mut driver, &format!("{TWO} since {since} limit 1"))), ["b:1"]);
}

#[test]
fn what_makes_no_sense_is_refused_with_what_was_expected() {
    let (_server, mut driver) = audited();
    for (line, error) in [
        ("AUDIT NOPE", "REDOUBLE AUDIT takes ON, OFF, INFO, LIST, COUNT, AWAIT, ALLOW, CLEAR; received 'NOPE'"),
        ("AUDIT ON now", "nothing more was expected; received 'now'"),
        ("AUDIT LIST code nope", "the code of a finding such as two-holders was expected; received 'nope'"),
        ("AUDIT LIST code", "the code of a finding such as two-holders was expected; received nothing"),
        ("AUDIT severity bad", "error, warning or note was expected; received 'bad'"),
        ("AUDIT LIST x", "key, code, severity, since, mark, allowed, final, run or limit was expected; received 'x'"),
        (
            "AUDIT COUNT limit 1",
            "key, code, severity, since, mark, allowed, final or run was expected; received 'limit'",
        ),
        ("AUDIT since -1", "a place in the order is a whole number of at least 0; received '-1'"),
        ("AUDIT AWAIT", "the count is a whole number of at least 1; received nothing"),
        ("AUDIT AWAIT final 1", "the count is a whole number of at least 1; received 'final'"),
        ("AUDIT ALLOW two-holders", "a glob for keys was expected; received nothing"),
        ("AUDIT ALLOW two-holders a", "a reason of 1 to 1024 bytes was expected; received nothing"),
        ("LOCKS lock:a", "REDOUBLE LOCKS takes LIST, WHY; received 'lock:a'"),
        ("LOCKS LIST lock:a", "key was expected; received 'lock:a'"),
        ("LOCKS key", "a glob for keys was expected; received nothing"),
        ("LOCKS key a b", "nothing more was expected; received 'b'"),
    ] {
        assert_eq!(driver.ask(&format!("REDOUBLE {line}")), Frame::error(&format!("ERR {error}")), "{line}");
    }
}

#[test]
fn what_is_known_can_be_allowed_with_a_reason() {
    let (server, mut driver) = audited();
    let mut rivals = Rivals::new(address(&server));
    rivals.race("lock:a");
    let allow = driver.ask("REDOUBLE AUDIT ALLOW two-holders lock:* known since the last release");
    assert_eq!(allow, Frame::status("OK"));
    rivals.race("lock:b");
    rivals.race("other");
    assert_eq!(count(&mut driver, TWO), 1);
    let all = list(&mut driver, &format!("{TWO} allowed"));
    let allowed: Vec<Frame> = all.iter().map(|finding| finding["allowed"].clone()).collect();
    let reason = Frame::bulk("known since the last release");
    assert_eq!(allowed, [reason.clone(), reason, Frame::NullBulk]);
    let allowances = info(&mut driver)["allowances"].clone();
    assert_eq!(told(&allowances.items()[0])["keys"].text(), "lock:*");
    driver.ask("REDOUBLE RESET");
    assert_eq!(info(&mut driver)["allowances"], Frame::Array(vec![]));
}

#[test]
fn whoever_listens_hears_of_findings_as_they_come() {
    let (server, mut driver) = audited();
    let mut rivals = Rivals::new(address(&server));
    rivals.race("lock:before");
    let mut resp2 = Wire::connect(address(&server));
    let mut resp3 = Wire::connect(address(&server));
    let mut pattern = Wire::connect(address(&server));
    resp3.ask("HELLO 3");
    resp2.ask("SUBSCRIBE __redouble__:findings");
    resp3.ask("SUBSCRIBE __redouble__:findings");
    pattern.ask("PSUBSCRIBE __redouble__:*");
    rivals.race("lock:after");
    // What was found before is no news, and the same is not told twice.
    rivals.end("lock:after");
    rivals.race("lock:end");
    let heard = |wire: &mut Wire, place: usize| {
        let mut keys = Vec::new();
        loop {
            let message = wire.expect();
            let json: serde_json::Value = serde_json::from_str(&message.items()[place].text()).expect("JSON");
            if json["code"] == "two-holders" {
                keys.push(json["key"].as_str().expect("a key").to_owned());
                if json["key"] == "lock:end" {
                    break (message, json, keys);
                }
            }
        }
    };
    let (message, json, keys) = heard(&mut resp2, 2);
    assert!(matches!(message, Frame::Array(_)), "{message:?}");
    assert_eq!(keys, ["lock:after", "lock:end"]);
    assert_eq!(json["severity"], "error");
    assert_eq!(json["evidence"][1]["command"], "DEL lock:end");
    let place = &list(&mut driver, "key lock:end code two-holders")[0]["seq"];
    assert_eq!(json["seq"], place.integer());
    let (message, same, keys) = heard(&mut resp3, 2);
    assert!(matches!(message, Frame::Push(_)), "{message:?}");
    assert_eq!((keys, same), (vec!["lock:after".to_owned(), "lock:end".to_owned()], json));
    assert_eq!(heard(&mut pattern, 3).2, ["lock:after", "lock:end"]);
}

#[test]
fn somebody_who_listened_before_the_audit_began_hears_what_comes_then() {
    let server = spawn();
    let mut driver = Wire::connect(address(&server));
    let mut listener = Wire::connect(address(&server));
    listener.ask("SUBSCRIBE __redouble__:findings");
    driver.ask("REDOUBLE AUDIT ON");
    Rivals::new(address(&server)).race("lock:a");
    assert!(listener.expect().items()[2].text().contains("lock:a"));
}

#[test]
fn findings_stay_when_the_journal_is_much_too_small() {
    let server = start(Server::builder().journal(256 << 10).audit());
    let mut driver = Wire::connect(address(&server));
    let mut rivals = Rivals::new(address(&server));
    rivals.race("lock:early");
    rivals.begin("lock:long");
    flood(address(&server), 20_000);
    rivals.end("lock:long");
    let found = list(&mut driver, TWO);
    let keys: Vec<String> = found.iter().map(|finding| finding["key"].text()).collect();
    assert_eq!(keys, ["lock:early", "lock:long"]);
    assert_eq!(told(&found[1]["evidence"].items()[0])["name"].text(), "one");
    assert_eq!(info(&mut driver)["missed"], Frame::Integer(0));
    // They did fall out of the journal.
    assert_eq!(driver.ask("REDOUBLE JOURNAL COUNT on DEL"), Frame::Integer(1));
}

#[test]
fn a_question_is_about_all_that_came_before_it_however_far_the_auditor_is_behind() {
    const BURST: usize = 9_000;
    let (server, mut driver) = audited();
    let mut rivals = Rivals::new(address(&server));
    let mut client = named(address(&server), "client");
    let mut trips = Vec::new();
    for lock in 0..BURST {
        trips.extend(request(&["SET", &format!("lock:{}", lock % 500), "91d05be877c24f13", "NX", "PX", "600000"]));
    }
    for round in 1..=4 {
        client.send(&trips);
        (0..BURST).for_each(|_| drop(client.expect()));
        rivals.race(&format!("lock:raced:{round}"));
        let before = driver.ask("REDOUBLE JOURNAL COUNT").integer();
        let processed = info(&mut driver)["entries"].integer();
        assert!(processed >= before, "{processed} of {before}");
        assert_eq!(count(&mut driver, TWO), round);
        assert_eq!(locks(&mut driver, &format!("key lock:raced:{round}")).len(), 1);
        assert_eq!(driver.ask(&format!("REDOUBLE AUDIT AWAIT code two-holders {round}")), Frame::Integer(round));
    }
    // What was found is forgotten, also what the auditor had not come to yet.
    client.send(&trips);
    (0..BURST).for_each(|_| drop(client.expect()));
    rivals.race("lock:raced:last");
    assert_eq!(driver.ask("REDOUBLE AUDIT CLEAR"), Frame::status("OK"));
    assert_eq!(count(&mut driver, TWO), 0);
    client.send(&trips);
    (0..BURST).for_each(|_| drop(client.expect()));
    rivals.race("lock:raced:off");
    assert_eq!(driver.ask("REDOUBLE AUDIT OFF"), Frame::status("OK"));
    assert_eq!(count(&mut driver, TWO), 1);
}

#[test]
fn findings_stay_when_the_journal_is_emptied_or_made_smaller() {
    let (server, mut driver) = audited();
    let mut rivals = Rivals::new(address(&server));
    rivals.race("lock:a");
    rivals.begin("lock:b");
    driver.ask("REDOUBLE JOURNAL CLEAR");
    rivals.end("lock:b");
    assert_eq!(count(&mut driver, TWO), 2);
    rivals.begin("lock:c");
    driver.ask("REDOUBLE JOURNAL ON 256kb");
    flood(address(&server), 8_000);
    rivals.end("lock:c");
    assert_eq!(count(&mut driver, TWO), 3);
    assert_eq!(info(&mut driver)["missed"], Frame::Integer(0));
}

#[test]
fn findings_can_be_forgotten_while_who_holds_what_stays_known() {
    let (server, mut driver) = audited();
    let mut rivals = Rivals::new(address(&server));
    rivals.race("lock:a");
    rivals.begin("lock:b");
    driver.ask("REDOUBLE AUDIT CLEAR");
    assert_eq!(count(&mut driver, ""), 0);
    rivals.end("lock:b");
    assert_eq!(count(&mut driver, TWO), 1);
}

#[test]
fn a_reset_puts_the_audit_back_to_what_it_was_at_the_start() {
    let (server, mut driver) = audited();
    let mut rivals = Rivals::new(address(&server));
    rivals.race("lock:a");
    driver.ask("REDOUBLE AUDIT OFF");
    driver.ask("REDOUBLE RESET");
    assert_eq!(info(&mut driver)["state"].text(), "on");
    assert_eq!(count(&mut driver, ""), 0);
    assert_eq!(locks(&mut driver, ""), []);
    rivals.race("lock:a");
    assert_eq!(count(&mut driver, TWO), 1);

    let server = spawn();
    let mut driver = Wire::connect(address(&server));
    driver.ask("REDOUBLE AUDIT ON");
    driver.ask("REDOUBLE RESET");
    assert!(driver.ask("REDOUBLE AUDIT").is_error());
}

#[test]
fn spaces_are_audited_apart() {
    let (server, mut driver) = audited();
    let space = server.space("mine").expect("a space");
    let mut inside = Wire::connect(address(&server));
    inside.ask("REDOUBLE SPACE mine");
    let mut rivals = Rivals::new(address(&server));
    rivals.one.ask("REDOUBLE SPACE mine");
    rivals.other.ask("REDOUBLE SPACE mine");
    rivals.race("lock:a");
    assert_eq!(count(&mut driver, ""), 0);
    assert_eq!(count(&mut inside, TWO), 1);
    assert_eq!(space.audit().findings_at_end().iter().filter(|finding| finding.code == Code::TwoHolders).count(), 1);
    inside.ask("REDOUBLE RESET");
    let mut outside = Rivals::new(address(&server));
    outside.race("lock:a");
    assert_eq!(count(&mut inside, ""), 0);
    assert_eq!(count(&mut driver, TWO), 1);
}

#[test]
fn whoever_has_left_is_not_seen_to_wait_whenever_that_was() {
    for before in 0..4 {
        let (server, mut driver) = audited();
        let [mut holder, mut first, mut second] =
            ["holder", "first", "second"].map(|name| named(address(&server), name));
        for client in [&mut holder, &mut first, &mut second] {
            client.ask("SET lock:met 5f0c9a83b1d24e67 NX PX 600000");
        }
        for _ in 0..before {
            holder.ask("PING");
        }
        holder.ask("SET lock:a 5f0c9a83b1d24e67 NX PX 600000");
        first.ask("SET lock:a 91e7c2d40a8b36f5 NX PX 600000");
        drop(first);
        driver.ask_until("INFO clients", |info| info.contains("connected_clients:3\r"));
        second.ask("SET lock:a 0b7d5c3f1a9e8642 NX PX 600000");
        let waiters = |driver: &mut Wire| {
            let waiters = locks(driver, "key lock:a")[0]["waiters"].items().to_vec();
            waiters.iter().map(|waiter| told(waiter)["name"].text()).collect::<Vec<_>>()
        };
        assert_eq!(waiters(&mut driver), ["second"]);
        drop(second);
        driver.ask_until("INFO clients", |info| info.contains("connected_clients:2\r"));
        assert_eq!(waiters(&mut driver), Vec::<String>::new());
        drop(holder);
        driver.ask_until("INFO clients", |info| info.contains("connected_clients:1\r"));
        assert!(locks(&mut driver, "key lock:a").is_empty());
    }
}

#[test]
fn one_sees_who_holds_a_lock_and_who_waits_for_it() {
    let server = start(Server::builder().audit());
    server.freeze();
    let mut driver = Wire::connect(address(&server));
    let mut rivals = Rivals::new(address(&server));
    rivals.begin("lock:a");
    server.advance(Duration::from_secs(1));
    rivals.other.ask("SET lock:a x NX PX 1000");
    assert_eq!(locks(&mut driver, "key other:*"), []);
    let found = locks(&mut driver, "key lock:*");
    let lock = &found[0];
    assert_eq!(lock["key"].text(), "lock:a");
    assert_eq!((lock["state"].text(), lock["shape"].text()), ("held".to_owned(), "value".to_owned()));
    assert_eq!(lock["value"].text(), "5f0c9a83b1d24e67");
    assert_eq!(lock["reasons"], Frame::Array(vec![Frame::bulk("contended")]));
    let holder = told(&lock["holders"].items()[0]);
    assert_eq!((holder["name"].text(), holder["certain"].text()), ("one".to_owned(), "yes".to_owned()));
    assert_eq!(holder["token"].text(), "5f0c9a83b1d24e67");
    assert_eq!(holder["address"].text(), rivals.one.tcp().local_addr().expect("an address").to_string());
    assert_eq!(holder["until-us"].integer() / 1000 - holder["since-us"].integer() / 1000, 600_001);
    assert_eq!(lock["deadline-ms"].integer(), holder["until-us"].integer() / 1000 - 1);
    let waiter = told(&lock["waiters"].items()[0]);
    assert_eq!((waiter["name"].text(), waiter["attempts"].integer()), ("other".to_owned(), 2));
    assert_eq!(waiter["last-us"].integer() - waiter["since-us"].integer(), 1_000_000);

    // It is over when the clock says so, although nobody has sent anything.
    server.advance(Duration::from_secs(600));
    let lock = &locks(&mut driver, "")[0];
    assert_eq!(lock["state"].text(), "free");
    assert_eq!(lock["holders"], Frame::Array(vec![]));
    assert_eq!(told(&lock["ended"].items()[0])["how"].text(), "expired");
}

#[test]
fn of_whoever_has_not_got_the_reply_it_is_said_that_it_may_hold_the_lock() {
    let (server, mut driver) = audited();
    driver.ask("REDOUBLE FAULT ADD cut on SET times 1 close-after");
    let mut client = named(address(&server), "unlucky");
    client.send(&request(&["SET", "lock:a", "5f0c9a83b1d24e67", "NX", "PX", "60000"]));
    let mut other = named(address(&server), "other");
    client.read_to_end();
    other.ask("SET lock:a 91e7c2d40a8b36f5 NX PX 60000");
    // Its connection is gone, and with it the belief; the key is there.
    let lock = &locks(&mut driver, "")[0];
    let held = lock["holders"].items().first().map(|holder| told(holder)["certain"].text());
    assert!(held.is_none_or(|certain| certain == "may-hold"), "{lock:?}");
}

#[test]
fn a_library_whose_script_is_not_known_yet_does_nothing_wrong() {
    let server = spawn();
    let audit = server.audit();
    let mut client = named(address(&server), "worker");
    let sha = client.call(&["SCRIPT", "LOAD", RELEASE]).text();
    client.ask("SCRIPT FLUSH");
    assert_eq!(client.ask("SET lock:a 5f0c9a83b1d24e67 NX PX 60000"), Frame::status("OK"));
    assert!(client.call(&["EVALSHA", &sha, "1", "lock:a", "5f0c9a83b1d24e67"]).text().starts_with("NOSCRIPT"));
    assert_eq!(client.call(&["EVAL", RELEASE, "1", "lock:a", "5f0c9a83b1d24e67"]), Frame::Integer(1));
    assert_eq!(client.ask("SET lock:a 0b7d3e5f91c2a486 NX PX 60000"), Frame::status("OK"));
    assert_eq!(client.call(&["EVALSHA", &sha, "1", "lock:a", "0b7d3e5f91c2a486"]), Frame::Integer(1));
    audit.expect_clean();
}

#[test]
fn what_is_said_to_be_a_lock_or_none_counts() {
    let server = start(Server::builder().audit().locks("said:*").not_locks("cache:*"));
    let mut driver = Wire::connect(address(&server));
    let mut rivals = Rivals::new(address(&server));
    rivals.one.ask("SET said:a 5f0c9a83b1d24e67 NX PX 60000");
    rivals.race("cache:a");
    assert_eq!(count(&mut driver, TWO), 0);
    let found = locks(&mut driver, "");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["reasons"], Frame::Array(vec![Frame::bulk("said")]));
}

#[test]
fn a_test_in_rust_fails_with_a_story() {
    let server = spawn();
    let audit = server.audit();
    let mut rivals = Rivals::new(address(&server));
    rivals.begin("lock:a");
    rivals.end("lock:a");
    assert!(audit.wait_for(Code::TwoHolders, 1).expect("it was found") >= 1);
    let failed = catch_unwind(AssertUnwindSafe(|| audit.expect_clean())).expect_err("it is not clean");
    let story = failed.downcast_ref::<String>().expect("a text");
    assert!(story.contains("error two-holders: one (client "), "{story}");
    assert!(story.contains(": DEL lock:a -- deleted it while it was held"), "{story}");
    assert!(story.contains("instead: Delete a lock only while it has your token"), "{story}");
    assert!(story.find("two-holders") < story.find("blind-delete"), "{story}");
    let mistakes = audit.clean().expect_err("it is not clean");
    assert_eq!(mistakes.to_string(), *story);
    assert!(mistakes.findings.iter().all(|finding| finding.severity >= Severity::Warning));

    let none = audit.wait_for_within(Code::StaleDeleteRace, 1, Duration::ZERO).expect_err("there is none");
    assert!(none.to_string().starts_with("TIMEOUT 0 of 1 findings after 0ms; found: "), "{none}");
    audit.allow(None, "lock:*", " ").expect_err("a reason is missing");
    audit.allow(None, "lock:*", "on purpose").expect("there is room");
    audit.expect_clean();
    audit.clear();
    assert_eq!(audit.findings(), []);
    assert_eq!(audit.missed(), 0);

    drop(audit);
    rivals.race("lock:b");
    let mut driver = Wire::connect(address(&server));
    assert_eq!(info(&mut driver)["state"].text(), "off");
    assert_eq!(count(&mut driver, "key lock:b"), 0);
}

#[test]
fn several_servers_are_audited_together() {
    let servers = Server::builder().port(0).instances(3).spawn_all().expect("three servers");
    let audit = servers.audit();
    let mut driver = Wire::connect(address(&servers[0]));
    let mut rivals: Vec<Rivals> = servers.iter().map(|server| Rivals::new(address(server))).collect();
    for (number, rivals) in (1..).zip(&mut rivals) {
        rivals.race(&format!("lock:{number}"));
    }
    let found = list(&mut driver, TWO);
    let seen: Vec<(i64, String)> =
        found.iter().map(|finding| (finding["server"].integer(), finding["key"].text())).collect();
    assert_eq!(seen, [(1, "lock:1".to_owned()), (2, "lock:2".to_owned()), (3, "lock:3".to_owned())]);
    assert_eq!(audit.locks().iter().map(|lock| lock.server).collect::<Vec<_>>(), [1, 2, 3]);

    // Only what is about the second is forgotten.
    servers[1].reset();
    drop(audit);
    let audit = servers.audit();
    let servers_with: Vec<u16> = audit
        .findings()
        .iter()
        .filter(|finding| finding.code == Code::TwoHolders)
        .map(|finding| finding.server)
        .collect();
    assert_eq!(servers_with, [1, 3]);
}

#[test]
fn wrong_flags_are_refused_and_right_ones_begin_the_audit() {
    for (flags, error) in [
        (&["--audit", "maybe"][..], "argument must be 'yes' or 'no'"),
        (&["--locks", ""], "a glob for keys is missing"),
        (&["--audit-allow", "nope lock:* because"], "there is no finding 'nope'"),
        (&["--audit-allow", "no-expiry lock:*"], "has no reason; CODE GLOB REASON was expected"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_redouble")).args(["--port", "0"]).args(flags).output();
        let output = output.expect("the program");
        assert!(!output.status.success());
        let output = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.contains(error), "{flags:?}: {output}");
    }
    let flags = [
        "--audit",
        "yes",
        "--locks",
        "a:*",
        "--locks",
        "b c",
        "--not-locks",
        "x",
        "--audit-allow",
        "no-expiry leader:* it's one",
        "--audit-allow",
        "*",
        "test:*",
        "on",
        "purpose",
    ];
    let server = ServerProcess::redouble(&flags);
    let mut driver = Wire::connect(server.address());
    let info = info(&mut driver);
    assert_eq!(info["state"].text(), "on");
    assert_eq!(info["locks"], Frame::Array(vec![Frame::bulk("a:*"), Frame::bulk("b c")]));
    assert_eq!(info["not-locks"], Frame::Array(vec![Frame::bulk("x")]));
    let reasons: Vec<String> =
        info["allowances"].items().iter().map(|allowance| told(allowance)["reason"].text()).collect();
    assert_eq!(reasons, ["it's one", "on purpose"]);
}

/// Numbers that look random and are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// What a client does that knows nothing of how to use locks.
fn anything(random: &mut Random) -> Vec<u8> {
    let key = format!("lock:{}", random.below(12));
    let token = format!("{:016x}", random.below(6).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let (key, token) = (key.as_str(), token.as_str());
    match random.below(14) {
        0..=3 => request(&["SET", key, token, "NX", "PX", "30000"]),
        4 => request(&["SETNX", key, token]),
        5 => request(&["DEL", key]),
        6 => request(&["EVAL", RELEASE, "1", key, token]),
        7 => request(&["GET", key]),
        8 => request(&["PEXPIRE", key, "40000"]),
        9 => request(&["SET", key, token]),
        10 => request(&["GETSET", key, token]),
        11 => request(&["SET", &format!("data:{token}"), key]),
        12 => request(&["INCR", "n"]),
        _ => request(&["SET", key, token, "NX", "PX", "1"]),
    }
}

/// The audit of a journal that was written to the end.
fn later(server: &Server) -> Auditor {
    audit(vec![(1, journal_of(server))], auditor(Scope::default(), command_table()))
}

/// The audit of running servers finds what that of their journals does afterwards.
fn live_and_later(builder: Builder, before: usize, clients: usize, trips: usize) {
    let server = start(builder);
    let address = address(&server);
    flood(address, before);
    thread::scope(|scope| {
        for client in 0..clients {
            scope.spawn(move || {
                let mut random = Random(0x1234_5678_9abc + client as u64);
                let mut wire = named(address, &format!("worker-{client}"));
                for _ in 0..trips {
                    let batch: Vec<u8> = (0..16).flat_map(|_| anything(&mut random)).collect();
                    wire.send(&batch);
                    (0..16).for_each(|_| drop(wire.expect()));
                }
                wire.ask("PING");
            });
        }
    });
    let mut driver = Wire::connect(address);
    // Until the server has noticed that they are gone.
    driver.ask_until("INFO clients", |info| info.contains("connected_clients:1\r"));
    let guard = server.audit();
    let later = later(&server);
    assert!(journal_of(&server).len() > clients * trips * 16);
    assert!(!guard.findings().is_empty());
    assert_eq!(guard.missed(), 0);
    assert_same(&guard.findings_at_end(), later.findings());
    // The same again, now that it was asked before.
    driver.ask("SET lock:0 x NX");
    assert_same(&guard.findings_at_end(), self::later(&server).findings());
}

#[track_caller]
fn assert_same(live: &[Arc<Finding>], later: &[Arc<Finding>]) {
    for (one, other) in live.iter().zip(later) {
        assert_eq!(one, other);
    }
    assert_eq!(live.len(), later.len());
}

#[test]
fn the_audit_of_a_running_server_finds_what_that_of_its_journal_does() {
    live_and_later(Server::builder().audit(), 0, 2, 400);
    live_and_later(Server::builder().audit(), 0, 4, 250);
}

#[test]
fn the_same_with_several_threads_although_records_come_late() {
    live_and_later(Server::builder().threads(4).audit(), 0, 8, 150);
}

#[test]
fn the_same_if_it_begins_when_the_journal_is_long_already() {
    live_and_later(Server::builder().threads(2).journal(64 << 20), 45_000, 4, 100);
}

#[test]
fn a_reply_that_turns_out_to_be_lost_takes_back_what_was_concluded_from_it() {
    let (server, mut driver) = audited();
    driver.call(&["SET".to_owned(), "big".to_owned(), "x".repeat(1 << 20)]);
    let mut slow = named(address(&server), "slow");
    let id = slow.ask("CLIENT ID").integer();
    // It does not read, so that the last reply cannot be written.
    let mut trip = request(&["GET", "big"]).repeat(20);
    trip.extend(request(&["SET", "lock:a", "5f0c9a83b1d24e67", "NX", "PX", "60000"]));
    slow.send(&trip);
    assert_eq!(driver.ask("REDOUBLE JOURNAL AWAIT on SET key lock:a 1"), Frame::Integer(1));
    let mut other = named(address(&server), "other");
    other.ask("SET lock:a 91e7c2d40a8b36f5 NX PX 60000");
    other.ask("DEL lock:a");
    other.ask("SET lock:a 91e7c2d40a8b36f5 NX PX 60000");
    let guard = server.audit();
    let before = guard.findings();
    assert!(before.iter().any(|finding| finding.code == Code::TwoHolders));
    driver.ask(&format!("CLIENT KILL ID {id}"));
    assert!(!driver.ask("REDOUBLE JOURNAL AWAIT on SET key lock:a outcome lost 1").is_error());
    driver.ask_until("INFO clients", |info| info.contains("connected_clients:2\r"));
    let after = guard.findings_at_end();
    assert_eq!(after, later(&server).findings());
    assert!(after.iter().all(|finding| finding.code != Code::TwoHolders), "{after:?}");
}

#[test]
fn a_running_server_says_why_a_key_is_a_lock_as_its_journal_does() {
    let (server, mut driver) = audited();
    let mut rivals = Rivals::new(address(&server));
    rivals.race("orders:1");
    driver.ask("SETNX orders:2 1");
    driver.ask("INCR orders:2");
    let items = journal_of(&server);
    let offline = audit(vec![(1, items)], auditor(Scope::default(), command_table()));
    for key in ["orders:1", "orders:2", "orders:3"] {
        let live = server.audit().why(key);
        let told: Vec<String> = live.iter().map(ToString::to_string).collect();
        let offline: Vec<String> = offline.explain_key(key.as_bytes()).iter().map(ToString::to_string).collect();
        // The end of the journal adds findings alone.
        let without_findings = |texts: Vec<String>| -> Vec<String> {
            texts
                .iter()
                .flat_map(|text| text.lines())
                .filter(|line| !line.contains("found:"))
                .map(str::to_owned)
                .collect()
        };
        assert_eq!(without_findings(told), without_findings(offline), "{key}");
        let reply = driver.ask(&format!("REDOUBLE LOCKS WHY {key}"));
        assert_eq!(self::told(&reply.items()[0])["verdict"].text(), live[0].verdict);
    }
    let why = server.audit().why("orders:1");
    assert!(why[0].signs.iter().any(|sign| sign.name == "contended" && sign.source.is_some()), "{why:?}");
    assert_eq!(server.audit().why("orders:2")[0].against.as_ref().map(|by| &*by.line), Some("INCR orders:2"));
}
