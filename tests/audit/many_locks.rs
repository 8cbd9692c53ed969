//! What is remembered of a lock does not depend on how many others there are.

use std::collections::BTreeMap;
use std::fmt::Write;

use redouble::Server;

use super::story::{Played, play, token};
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

/// Everything that is told of the first locks, without the numbers of lines.
fn told(played: &Played) -> Vec<String> {
    let findings = played.findings().into_iter().filter(|finding| finding.key.starts_with(b"lock:"));
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
fn auditors_of_many_spaces_know_no_more_together_than_they_may_and_say_what_they_forgot() {
    const MOST: i64 = 4 << 20;
    const SPACES: usize = 3;
    const LOCKS: usize = 5000;
    const RELEASE: &str =
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
    let info = |wire: &mut Wire| -> BTreeMap<String, Frame> {
        let reply = wire.ask("REDOUBLE AUDIT INFO");
        reply.items().chunks(2).map(|pair| (pair[0].text(), pair[1].clone())).collect()
    };
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
