//! What findings advise, and that it fits the mistake as it was made.

use std::sync::Arc;

use redouble::{Code, Finding, describe_findings};

use super::story::found;

fn told(code: Code, story: &str) -> Arc<Finding> {
    found(code, story).unwrap_or_else(|| panic!("{} is not found", code.name()))
}

fn last_line(code: Code, story: &str) -> String {
    told(code, story).evidence.last().expect("the release").source.line.to_string()
}

#[track_caller]
fn advises(code: Code, story: &str, what: &str) {
    let finding = told(code, story);
    assert!(finding.instead().contains(what), "{}: {}", code.name(), finding.instead());
}

#[test]
fn who_releases_by_a_script_is_not_told_to_use_one() {
    let by = |token: &str, release: &str| {
        format!(
            "
            A: SET lock {{a}} NX PX 1000
            +2s
            B: SET lock {token} NX PX 30000
            C: SET lock {{c}} NX PX 30000
            A: {release}
            "
        )
    };
    advises(Code::ForeignRelease, &by("{b}", "DEL lock"), "Release with a script");
    // The script compares, and both have the same token.
    advises(Code::ForeignRelease, &by("{a}", "RELEASE lock {a}"), "Make a new token for each attempt");
}

#[test]
fn a_release_in_a_transaction_is_told_to_watch() {
    let story = "
        A: SET lock {a} NX PX 30000
        B: SET lock {b} NX PX 30000
        A: MULTI
        A: DEL lock
        A: EXEC
    ";
    advises(Code::UncheckedRelease, story, "WATCH the key");
}

#[test]
fn who_renews_is_not_told_to_renew() {
    let story = |renewal: &str| {
        format!(
            "
            A: SET lock {{a}} NX PX 1000
            B: SET lock {{b}} NX PX 1000
            +500ms
            {renewal}
            +2s
            A: RELEASE lock {{a}}
            "
        )
    };
    advises(Code::LateRelease, &story("A: PING"), "extend it in time");
    advises(Code::LateRelease, &story("A: EXTEND lock {a} 1000"), "Renew well before the end");
}

#[test]
fn two_holders_are_told_what_let_the_second_one_in() {
    let story = |what: &str| {
        format!(
            "
            A: SET lock {{a}} NX PX 30000
            B: SET lock {{b}} NX PX 30000
            {what}
            A: RELEASE lock {{a}}
            "
        )
    };
    let taken = "B: SET lock {b} NX PX 30000";
    advises(Code::TwoHolders, &story(&format!("B: DEL lock\n{taken}")), "only while it has your token");
    advises(Code::TwoHolders, &story(&format!("B: FLUSHALL\n{taken}")), "Keep locks apart from what is flushed");
}

#[test]
fn who_deletes_a_lock_whose_time_is_over_is_told_to_take_it_over() {
    let story = "
        C3: SETNX lock.foo {s+10}
        close C3
        +20s
        C1: GET lock.foo
        C2: GET lock.foo
        C1: DEL lock.foo
        C1: SETNX lock.foo {s+10}
        C2: DEL lock.foo
        C2: SETNX lock.foo {s+10}
    ";
    advises(Code::TwoHolders, story, "with GETSET");
}

#[test]
fn a_lost_update_is_told_what_the_lock_lacked() {
    let read_before = "
        Setup: SET sum 10
        A: GET sum
        B: SET lock {b} NX PX 30000
        B: GET sum
        B: SET sum 11
        A: SET lock {a} NX PX 30000
        B: RELEASE lock {b}
        A: SET lock {a} NX PX 30000
        A: SET sum 12
        A: RELEASE lock {a}
    ";
    advises(Code::LostUpdate, read_before, "Read the value again after you have taken the lock");
    let no_lock = "
        Setup: SET sum 10
        A: GET sum
        B: GET sum
        B: SET sum 11
        A: SET sum 12
    ";
    advises(Code::LostUpdate, no_lock, "Hold one lock from the read to the write");
    let unwatched = "
        Setup: SET sum 10
        A: GET sum
        B: GET sum
        B: SET sum 11
        A: MULTI
        A: SET sum 12
        A: EXEC
    ";
    advises(Code::LostUpdate, unwatched, "WATCH the key before you read it");
}

#[test]
fn evidence_shows_what_a_script_and_a_transaction_ran() {
    let story = "
        A: SET lock {a} NX PX 1000
        B: SET lock {b} NX PX 1000
        +2s
        A: RELEASE lock {a}
    ";
    let last = last_line(Code::LateRelease, story);
    assert!(last.starts_with("EVAL") && last.ends_with("(ran get lock)"), "{last}");
    let story = "
        A: SET lock {a} NX PX 30000
        B: SET lock {b} NX PX 30000
        A: MULTI
        A: DEL lock
        A: EXEC
    ";
    assert_eq!(last_line(Code::UncheckedRelease, story), "EXEC (ran DEL lock)");
}

#[test]
fn a_finding_says_how_to_ask_about_its_key() {
    let finding = told(
        Code::TwoHolders,
        "
        A: SET lock:order:8f3a9c21 {a} NX PX 30000
        B: DEL lock:order:8f3a9c21
        B: SET lock:order:8f3a9c21 {b} NX PX 30000
        A: RELEASE lock:order:8f3a9c21 {a}
    ",
    );
    assert_eq!(finding.why(), "REDOUBLE LOCKS WHY lock:order:8f3a9c21");
    let text = describe_findings(&[finding]);
    assert!(
        text.contains("no lock? --not-locks 'lock:order:*'; why: redouble explain --key lock:order:8f3a9c21"),
        "{text}"
    );
}
