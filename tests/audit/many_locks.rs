//! What is remembered of a lock does not depend on how many others there are.

use std::fmt::Write;

use super::story::{Played, play, token};

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
