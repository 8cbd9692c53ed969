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

#[test]
fn tokens_that_are_counted_can_be_guessed() {
    let story = |second: &str| {
        let take = |client: &str, token: &str| format!("{client}: SET lock {token} NX PX 10000\n{client}: DEL lock\n");
        take("A", "7136498235123456789") + &take("B", second)
    };
    assert!(found(Code::TokenGuessable, &story("7136498235123456790")).is_some());
    assert!(found(Code::TokenGuessable, &story("4820193847561029384")).is_none());
}
