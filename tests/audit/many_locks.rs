//! What is remembered of a lock does not depend on how many others there are.

use std::collections::BTreeMap;
use std::fmt::Write;

use redouble::{Code, Server};

use super::story::{Played, found, play, token, until_closed};
use crate::support::wire::{Frame, Wire, request};
use crate::support::{address, start};

const TAKE_ALL: &str =
    "for at, key in ipairs(KEYS) do redis.call('set', key, ARGV[1] .. at, 'NX', 'PX', 7200000) end return 'OK'";
/// How many locks the script takes.
const AT_ONCE: usize = 50;

/// Some locks are taken, then so many others; then something happens to the first ones.
fn played(others: usize) -> Played {
    let mut story = String::from(
        "
        C: SET lock:deleted {a} NX PX 3600000
        D: SET lock:overwritten {b} NX PX 3600000
        E: SET lock:refused {c} NX PX 3600000
        F: SET lock:released {d} NX PX 3600000
        G: SET lock:extended {e} NX PX 3600000
        H: SETNX lock:endless {l}
        I: SET lock:token 1 NX PX 3600000
        K: SET lock:held {g} NX PX 3600000
        ",
    );
    for first in (0..others).step_by(AT_ONCE) {
        let keys: Vec<String> = (first..first + AT_ONCE).map(|other| format!("other:{other}")).collect();
        let (count, keys, token) = (keys.len(), keys.join(" "), token(&keys[0]));
        writeln!(story, "O: EVAL \"{TAKE_ALL}\" {count} {keys} {token}").expect("a string takes all");
    }
    story.push_str(
        "
        B: DEL lock:deleted
        B: SET lock:deleted {h} NX PX 3600000
        B: SET lock:overwritten {i} PX 3600000
        B: SET lock:refused {j} NX PX 3600000
        B: SET lock:token 1 NX PX 3600000
        F: RELEASE lock:released {d}
        G: EXTEND lock:extended {e} 1800000
        +40m
        G: SET data 1
        G: RELEASE lock:extended {e}
        B: SETNX lock:endless {m}
        E: RELEASE lock:refused {c}
        close H
        ",
    );
    play(&story)
}

/// Two clients lose an update around a lock, with so many others taken and given back at every step.
fn played_around(others: usize) -> Played {
    let mut many = String::new();
    for first in (0..others).step_by(AT_ONCE) {
        let keys: Vec<String> = (first..first + AT_ONCE).map(|other| format!("other:{other}")).collect();
        let (count, keys, token) = (keys.len(), keys.join(" "), token(&keys[0]));
        writeln!(many, "O: EVAL \"{TAKE_ALL}\" {count} {keys} {token}").expect("a string takes all");
        for key in (first..first + AT_ONCE).step_by(2) {
            writeln!(many, "P: SET other:{key} {token} NX PX 3600000\nO: DEL other:{key}").expect("a string takes all");
        }
    }
    play(&format!(
        "
        Setup: MSET fund 1000 stock 7 sum 3
        A: SET lock:fund {{a}} NX PX 3600000
        A: GET fund
        C: SET lock:stock {{c}} NX PX 3600000
        C: GET stock
        D: GET stock
        {many}
        X: DEL lock:fund
        B: SET lock:fund {{b}} NX PX 3600000
        B: GET fund
        B: SET fund 1045
        B: RELEASE lock:fund {{b}}
        {many}
        A: SET fund 1300
        D: SET lock:stock {{d}} NX PX 3600000
        D: SET stock 6
        C: SET stock 5
        E: SET lock:sum {{e}} NX PX 3600000
        E: GET sum
        F: GET sum
        E: SET sum 4
        E: RELEASE lock:sum {{e}}
        {many}
        close E
        {many}
        F: SET sum 5
        "
    ))
}

/// Everything that is told of the first locks, without the numbers of lines.
fn told(played: &Played) -> Vec<String> {
    let findings = played.findings().into_iter().filter(|finding| !finding.key.starts_with(b"other:"));
    let told = findings.map(|finding| {
        let evidence = finding.evidence.iter().map(|evidence| format!("{}: {}", evidence.source.line, evidence.what));
        format!(
            "{} {} {}\n{}",
            finding.code.name(),
            finding.times,
            finding.sentence,
            evidence.collect::<Vec<_>>().join("\n")
        )
    });
    let mut told: Vec<String> = told.collect();
    told.push(played.why("lock:held"));
    told
}

#[test]
fn a_lock_that_rests_behind_five_thousand_others_is_told_of_as_if_it_were_the_only_one() {
    let few = told(&played(AT_ONCE));
    assert!(few.len() > 4, "{few:#?}");
    assert_eq!(told(&played(5000)), few);
}

#[test]
fn which_lock_was_around_a_lost_update_is_told_behind_hundreds_of_others_as_if_it_were_the_only_one() {
    let few = told(&played_around(AT_ONCE));
    let lost = few.iter().filter(|told| told.starts_with("lost-update"));
    let expected = ["although both had `lock:fund`", "was refused by `lock:stock`, and went on", "had `lock:sum`"];
    assert_eq!(lost.clone().count(), expected.len(), "{few:#?}");
    for expected in expected {
        assert!(lost.clone().any(|told| told.contains(expected)), "{few:#?}");
    }
    assert_eq!(told(&played_around(600)), few);
}

#[test]
fn auditors_of_many_spaces_know_no_more_together_than_they_may_and_say_what_they_forgot() {
    const MOST: i64 = 4 << 20;
    const SPACES: usize = 3;
    const LOCKS: usize = 5000;
    const RELEASE: &str =
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
    let server = start(Server::builder().audit().audit_memory(MOST as usize));
    let mut quiet = Wire::connect(address(&server));
    let mut refused = Wire::connect(address(&server));
    assert_eq!(quiet.ask("SET lock:quiet 5f0c9a83b1d24e67 NX PX 600000"), Frame::status("OK"));
    assert_eq!(refused.ask("SET lock:quiet 91e7c2d40a8b36f5 NX PX 600000"), Frame::NullBulk);
    assert_eq!(quiet.ask("REDOUBLE LOCKS").items().len(), 1);
    for space in 0..SPACES {
        let mut busy = Wire::connect(address(&server));
        assert_eq!(busy.ask(&format!("REDOUBLE SPACE busy{space}")), Frame::status("OK"));
        let token = |lock: usize| format!("91e7c2d40a8b36f5-{space}-{lock}");
        let take = |lock: usize| {
            request(&["SET", &format!("lock:{lock}"), &token(lock), "NX", "PX", "600000"].map(str::to_owned))
        };
        busy.send(&(0..LOCKS).flat_map(take).collect::<Vec<u8>>());
        (0..LOCKS).for_each(|_| assert_eq!(busy.expect(), Frame::status("OK")));
        // Whoever gives back what was forgotten is blamed for nothing.
        for lock in 0..20 {
            let words = ["EVAL", RELEASE, "1", &format!("lock:{lock}"), &token(lock)].map(str::to_owned);
            busy.send(&request(&words));
            assert_eq!(busy.expect(), Frame::Integer(1));
        }
        let info = info(&mut busy);
        assert!((1..=MOST).contains(&info["bytes-together"].integer()), "{info:?}");
        assert_eq!((info["most-bytes-together"].integer(), info["missed"].integer()), (MOST, 0), "{info:?}");
        assert_eq!(busy.ask("REDOUBLE AUDIT COUNT"), Frame::Integer(0), "{:?}", busy.ask("REDOUBLE AUDIT LIST"));
    }
    let mut driver = Wire::connect(address(&server));
    let all: i64 = (0..SPACES)
        .map(|space| {
            assert_eq!(driver.ask(&format!("REDOUBLE SPACE busy{space}")), Frame::status("OK"));
            info(&mut driver)["forgotten"].integer()
        })
        .sum();
    assert!(all > 1000, "{all} locks were forgotten");
    // Who knows little keeps it.
    assert_eq!(info(&mut quiet)["forgotten"].integer(), 0);
    assert_eq!(quiet.ask("REDOUBLE LOCKS").items().len(), 1);
}

#[test]
fn findings_of_many_spaces_take_no_more_than_they_may_together_and_those_that_are_not_listed_are_counted() {
    const MOST: i64 = 2 << 20;
    const SPACES: usize = 4;
    const LOCKS: i64 = 1500;
    let server = start(Server::builder().audit().audit_memory(MOST as usize).locks("lock:*"));
    let mut listed = 0;
    for space in 0..SPACES {
        let [mut holder, mut thief] = [(); 2].map(|()| {
            let mut wire = Wire::connect(address(&server));
            assert_eq!(wire.ask(&format!("REDOUBLE SPACE busy{space}")), Frame::status("OK"));
            wire
        });
        for lock in 0..LOCKS {
            let take = format!("SET lock:{lock} {} NX PX 600000", token(&lock.to_string()));
            assert_eq!(holder.ask(&take), Frame::status("OK"));
            assert_eq!(thief.ask(&format!("DEL lock:{lock}")), Frame::Integer(1));
        }
        let found = thief.ask("REDOUBLE AUDIT COUNT").integer();
        let info = info(&mut thief);
        // Provisional findings come on top until the next entries are committed, which makes room for them.
        assert!(info["bytes-together"].integer() <= MOST + MOST / 2, "{info:?}");
        assert!(found >= 16, "each lists some: {info:?}");
        assert_eq!(found + info["unlisted"].integer(), LOCKS, "{info:?}");
        listed += found;
    }
    assert!(listed < LOCKS, "{listed} are listed, although there is room for much less");
}

#[test]
fn what_others_crowd_out_of_a_journal_before_the_auditor_first_reads_it_is_counted_as_missed() {
    const SPACES: usize = 100;
    const SENT: usize = 300;
    let server = start(Server::builder().audit().journal_memory(4 << 20));
    let value = "v".repeat(200);
    let fill = |space: &str| {
        let mut wire = Wire::connect(address(&server));
        assert_eq!(wire.ask(&format!("REDOUBLE SPACE {space}")), Frame::status("OK"));
        wire.send(&(0..SENT).flat_map(|n| request(&["SET", &format!("key:{n}"), &value])).collect::<Vec<u8>>());
        (0..SENT).for_each(|_| assert_eq!(wire.expect(), Frame::status("OK")));
        wire
    };
    let mut quiet = fill("quiet");
    let _others: Vec<Wire> = (0..SPACES).map(|space| fill(&format!("busy{space}"))).collect();
    let journal = quiet.ask("REDOUBLE JOURNAL INFO");
    let forgotten = journal.items().chunks(2).find(|pair| pair[0].text() == "forgotten").map(|pair| pair[1].integer());
    assert!(forgotten.is_some_and(|forgotten| forgotten > 0), "{journal:?}");
    assert_eq!(Some(info(&mut quiet)["missed"].integer()), forgotten);
}

#[test]
fn what_an_auditor_knows_of_long_keys_is_bounded_as_well() {
    const MOST: i64 = 16 << 20;
    const LOCKS: usize = 5000;
    let server = start(Server::builder().audit().audit_memory(MOST as usize));
    let mut wire = Wire::connect(address(&server));
    let long = "k".repeat(10_000);
    let take = |lock: usize| {
        let (key, token) = (format!("lock:{long}:{lock}"), token(&lock.to_string()));
        request(&["SET", &key, &token, "NX", "PX", "600000"].map(str::to_owned))
    };
    wire.send(&(0..LOCKS).flat_map(take).collect::<Vec<u8>>());
    (0..LOCKS).for_each(|_| assert_eq!(wire.expect(), Frame::status("OK")));
    let info = info(&mut wire);
    assert!(info["forgotten"].integer() > 0 && info["bytes-together"].integer() <= MOST, "{info:?}");
}

#[test]
fn a_lock_that_is_kept_takes_hundreds_of_bytes_and_not_thousands_whatever_its_value_is_and_its_holder_does() {
    /// More than are awake, and than are judged provisionally.
    const LOCKS: i64 = 8_000;
    const MOST_OF_ONE: i64 = 700;
    const EXTEND: &str = "EVAL \"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], 3600000) end \
        return 0\" 1 lock:# token-of-#-0123456789abcdef";
    let long = "t".repeat(200);
    for (take, work) in [
        ("SETNX lock:# END".to_owned(), None),
        (format!("SET lock:# {long}# NX PX 3600000"), None),
        (format!("SET lock:#:{long} token-of-#-0123456789abcdef NX PX 3600000"), None),
        ("SET lock:# token-of-#-0123456789abcdef NX PX 3600000".to_owned(), Some("SET data:# 1")),
        ("SET lock:# token-of-#-0123456789abcdef NX PX 30000".to_owned(), Some(EXTEND)),
    ] {
        let server = start(Server::builder().audit());
        let mut wire = Wire::connect(address(&server));
        let mut other = Wire::connect(address(&server));
        let now: i64 = wire.ask("TIME").items()[0].text().parse().expect("seconds");
        for number in 0..LOCKS {
            let ask = |wire: &mut Wire, line: &str| {
                wire.ask(&line.replace('#', &number.to_string()).replace("END", &(now + 3600).to_string()))
            };
            ask(&mut wire, &take);
            work.iter().for_each(|work| drop(ask(&mut wire, work)));
        }
        other.ask("REDOUBLE AUDIT COUNT");
        let known = info(&mut other)["bytes-together"].integer();
        assert!(known / LOCKS <= MOST_OF_ONE, "{take}: {known} bytes");
    }
}

fn info(wire: &mut Wire) -> BTreeMap<String, Frame> {
    let reply = wire.ask("REDOUBLE AUDIT INFO");
    reply.items().chunks(2).map(|pair| (pair[0].text(), pair[1].clone())).collect()
}

#[test]
fn whose_connection_has_ended_holds_and_awaits_none_of_a_thousand_locks() {
    const LOCKS: usize = 1000;
    let server = start(Server::builder().audit());
    // Each client asks for all locks with a token of its own; the first one gets them.
    let mut clients: Vec<(i64, Wire)> = (0..6)
        .map(|number| {
            let mut wire = Wire::connect(address(&server));
            let id = wire.ask("CLIENT ID").integer();
            let take = |lock| format!("SET lock:{lock} {} NX PX 600000", token(&format!("{number}-{lock}")));
            let takes: Vec<u8> =
                (0..LOCKS).flat_map(|lock| take(lock).into_bytes().into_iter().chain(*b"\r\n")).collect();
            wire.send(&takes);
            let expected = if number == 0 { Frame::status("OK") } else { Frame::NullBulk };
            (0..LOCKS).for_each(|_| assert_eq!(wire.expect(), expected));
            (id, wire)
        })
        .collect();
    let mut driver = Wire::connect(address(&server));
    // The clients that the locks have in a list, if all have the same.
    let mut listed = |list: &str| -> Vec<i64> {
        let locks = driver.ask("REDOUBLE LOCKS");
        let field = |map: &Frame, name: &str| {
            let found = map.items().chunks(2).find(|pair| pair[0].text() == name);
            found.unwrap_or_else(|| panic!("{map:?} has no {name}"))[1].clone()
        };
        let clients = |lock: &Frame| -> Vec<i64> {
            field(lock, list).items().iter().map(|client| field(client, "client").integer()).collect()
        };
        let all: Vec<_> = locks.items().iter().map(clients).collect();
        assert_eq!(all.len(), LOCKS);
        all.iter().for_each(|one| assert_eq!(*one, all[0], "{list}"));
        all[0].clone()
    };
    let ids: Vec<i64> = clients.iter().map(|(id, _)| *id).collect();
    assert_eq!((listed("holders"), listed("waiters")), (vec![ids[0]], ids[1..].to_vec()));
    // The second client stays.
    for left in [&ids[3..], &ids[4..], &ids[5..], &[]] {
        let (id, wire) = clients.remove(2);
        drop(wire);
        until_closed(&server, id);
        let waiting: Vec<i64> = [&ids[1..2], left].concat();
        assert_eq!((listed("holders"), listed("waiters")), (vec![ids[0]], waiting));
    }
    let (id, holder) = clients.remove(0);
    drop(holder);
    until_closed(&server, id);
    assert_eq!((listed("holders"), listed("waiters"), listed("ended")), (vec![], vec![ids[1]], vec![ids[0]]));
    let (id, waiting) = clients.remove(0);
    drop(waiting);
    until_closed(&server, id);
    assert_eq!(driver.ask("REDOUBLE LOCKS").items().len(), 0);
}

// ---- what is told by the header of a record alone, as half of the lines are in a debug build: every story is played with both halves

/// All clients have to do with locks already.
pub const MET: &str = "
    a: SET lock:a {x} NX PX 1000
    b: SET lock:b {y} NX PX 1000
    A: SET lock:c {z} NX PX 1000
    B: SET lock:d {w} NX PX 1000
    C: SET lock:e {v} NX PX 1000
";

#[test]
fn a_lock_that_has_just_begun_knows_another_connection_of_the_same_attempt_by_a_token_with_a_time() {
    let story = format!("{MET} a: SET lock:job w1-{{ms+0}} NX PX 30000\n b: SET lock:job w1-{{ms+0}} NX PX 30000");
    assert!(found(Code::OneServer, &story).is_some());
}

#[test]
fn a_longer_token_that_begins_with_that_of_the_holder_is_the_same_to_the_rules() {
    let token = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0";
    let story = format!("{MET} A: SET lock:job {token} NX PX 30000\n B: SET lock:job {token}b NX PX 30000");
    assert!(found(Code::TokenReused, &story).is_some());
}

#[test]
fn a_job_that_is_put_back_as_something_else_is_not_taken_twice() {
    let story = |between: &str| {
        format!(
            "{MET}
            A: ZADD jobs 1 job17
            A: ZREM jobs job17
            B: ZREM jobs job17
            {between}
            A: INCR runs:job17
            B: INCR runs:job17
            A: GET runs:job17
            B: GET runs:job17"
        )
    };
    assert_eq!(found(Code::CheckedThenTaken, &story("C: SET jobs {j} NX PX 1000")), None);
    play(&story("C: SETNX other {j}"));
}

#[test]
fn a_client_that_holds_a_lock_and_asks_for_it_again_is_told_of_at_its_end() {
    let again = "A: SET lock:job {b} NX PX 30000\n".repeat(3);
    let story =
        format!("{MET} A: SET lock:job {{a}} NX PX 30000\n B: SET lock:job {{c}} NX PX 30000\n {again} +31s\n B: PING");
    assert!(found(Code::SelfDeadlock, &story).is_some());
    assert_eq!(found(Code::SelfDeadlock, &story.replacen("A: SET lock:job {b}", "A: PING {b}", 1)), None);
}
