//! What looks like misuse, and is none: who comes to no harm is not told that somebody else did wrong.

use redouble::internals::Scope;
use redouble::{Code, Severity};

use super::story::{found, nothing_is_found, play};

const TAKE: &str =
    "if redis.call('zcard',KEYS[1])<2 then redis.call('zadd',KEYS[1],ARGV[2],ARGV[1]) return 1 end return 0";

#[test]
fn who_empties_a_semaphore_may_know_that_its_permits_are_over() {
    let story = format!(
        r#"
            a: EVAL "{TAKE}" 1 permits {{a}} {{ms+60}}
            b: EVAL "{TAKE}" 1 permits {{b}} {{ms+60}}
            a: ZREM permits {{a}}
            a: EVAL "{TAKE}" 1 permits {{a2}} {{ms+60}}
            d: DEL permits
            c: EVAL "{TAKE}" 1 permits {{c}} {{ms+60}}
            a: ZREM permits {{a2}}
            b: ZREM permits {{b}}
            c: ZREM permits {{c}}
        "#
    );
    let worst = play(&story).findings().iter().map(|finding| finding.severity).max();
    assert!(worst <= Some(Severity::Warning), "{worst:?}");
}

#[test]
fn who_keeps_for_longer_what_another_one_made_takes_nothing_from_it() {
    let scope = || Scope { locks: vec![b"user:*".to_vec()], ..Scope::default() };
    let worst = |story: &str| {
        let findings = play(story).findings_in(scope());
        let extensions = findings.iter().filter(|finding| finding.code == Code::ForeignExtension);
        extensions.map(|finding| finding.severity).max()
    };
    let session = "A: SET user:7 {a} NX EX 1800\nB: SET user:7 {b} NX EX 1800\nB: EXPIRE user:7 ";
    assert_eq!(worst(&format!("{session}1800")), Some(Severity::Warning));
    assert_eq!(worst(&format!("{session}5")), Some(Severity::Error), "the holder has it for less time than it knows");
    let lost = "A: SET user:7 {a} NX EX 10\n+11s\nB: SET user:7 {b} NX EX 10\nA: EXPIRE user:7 20";
    assert_eq!(worst(lost), Some(Severity::Error), "it believes that it still has it");
}

#[test]
fn who_writes_in_place_of_its_token_that_the_work_is_done_has_given_the_lock_up() {
    let mark =
        "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('set',KEYS[1],'done','EX',ARGV[2]) end return 0";
    nothing_is_found(&format!(
        r#"
            A: SET job {{a}} NX PX 10000
            B: SET job {{b}} NX PX 10000
            A: EVAL "{mark}" 1 job {{a}} 60
            B: SET job {{b}} NX PX 10000
            close A
        "#
    ));
}

/// A loses the lock to its expiry, and comes back with this.
fn comes_back_with(write: &str) -> String {
    let release = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0";
    format!(
        r#"
            B: SET lock {{b1}} NX PX 1000
            B: EVAL "{release}" 1 lock {{b1}}
            A: SET lock {{a}} NX PX 1000
            A: GET balance
            +2s
            B: SET lock {{b}} NX PX 1000
            B: SET balance 7
            {write}
            B: EVAL "{release}" 1 lock {{b}}
        "#
    )
}

#[test]
fn who_writes_late_on_a_condition_loses_nobodys_update() {
    let fence = "if tonumber(redis.call('get',KEYS[2]) or '0') > tonumber(ARGV[1]) then return 0 end \
        redis.call('set',KEYS[1],ARGV[2]) return 1";
    let worked = |write: &str| found(Code::WorkAfterExpiry, &comes_back_with(write)).map(|finding| finding.severity);
    assert_eq!(worked("A: SET balance 5"), Some(Severity::Error));
    assert_eq!(worked("A: MULTI\nA: SET balance 5\nA: EXEC"), Some(Severity::Error));
    assert_eq!(worked("A: EVAL \"redis.call('set',KEYS[1],ARGV[1]) return 1\" 1 balance 5"), Some(Severity::Error));
    assert_eq!(worked("A: WATCH other\nA: MULTI\nA: SET balance 5\nA: EXEC"), Some(Severity::Error));
    assert_eq!(worked("A: WATCH balance\nA: GET balance\nA: MULTI\nA: SET balance 8\nA: EXEC"), None);
    assert_eq!(worked("A: WATCH lock\nA: GET lock\nA: MULTI\nA: SET balance 8\nA: EXEC"), None);
    assert_eq!(worked(&format!("A: EVAL \"{fence}\" 2 balance fence 1 8")), None);
}

#[test]
fn tokens_that_are_counted_can_be_guessed() {
    let story = |second: &str| {
        let take = |client: &str, token: &str| format!("{client}: SET lock {token} NX PX 10000\n{client}: DEL lock\n");
        take("A", "7136498235123456789") + &take("B", second)
    };
    assert!(found(Code::TokenGuessable, &story("7136498235123456790")).is_some());
    assert!(found(Code::TokenGuessable, &story("4820193847561029384")).is_none());
}
