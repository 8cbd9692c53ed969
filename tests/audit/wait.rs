//! Locks that are trusted although WAIT has answered that too few replicas have them.

use redouble::{Code, Severity};

use super::story::{Pair, found, judge, nothing_is_found};

/// What is found of a kind in a story, and nothing else.
#[track_caller]
fn told(code: Code, story: &str) -> String {
    let found = found(code, story).unwrap_or_else(|| panic!("no {} in\n{story}", code.name()));
    assert_eq!(found.severity, code.severity());
    found.sentence.clone()
}

#[test]
fn a_client_works_on_although_no_replica_has_its_lock() {
    judge(&Pair {
        code: Code::WaitIgnored,
        wrong: "
            replicas
            hold
            ! A: SET lock {a} NX PX 10000
            ! A: WAIT 1 100
            ! A: SET data 1
            A: RELEASE lock {a}
        ",
        right: "
            replicas
            hold
            A: SET lock {a} NX PX 10000
            A: WAIT 1 100
            A: RELEASE lock {a}
        ",
    });
}

#[test]
fn it_is_said_how_many_had_it_and_how_many_were_asked_for() {
    let story = "
        replicas 2
        hold 2
        A: SET lock {a} NX PX 10000
        A: WAIT 2 100
        A: GET data
        A: RELEASE lock {a}
    ";
    let sentence = told(Code::WaitIgnored, story);
    assert!(
        sentence.ends_with(" went on with `lock` although WAIT had told it that only 1 of 2 replicas had it"),
        "{sentence}"
    );
    let nobody = "
        replicas
        cut
        A: SET lock {a} NX PX 10000
        A: WAIT 1 100
        A: EXTEND lock {a} 10000
        A: RELEASE lock {a}
    ";
    let sentence = told(Code::WaitIgnored, nobody);
    assert!(sentence.ends_with(" although WAIT had told it that no replica had it"), "{sentence}");
}

#[test]
fn a_client_keeps_the_lock_for_work_that_nobody_sees_although_no_replica_has_it() {
    let kept = |time: &str| {
        format!(
            "replicas
             hold
             A: SET lock {{a}} NX PX 10000
             A: WAIT 1 100
             {time}
             A: RELEASE lock {{a}}"
        )
    };
    let found = found(Code::WaitIgnored, &kept("+4s")).expect("it was kept");
    assert!(found.evidence.iter().any(|shown| shown.what == "kept the lock for another 4s"), "{found:?}");
    nothing_is_found(&kept("+900ms"));
}

#[test]
fn another_connection_of_the_program_does_the_work() {
    let story = "
        replicas
        hold
        A: SET lock {a} NX PX 10000
        B: SET lock {b} NX PX 10000
        A: WAIT 1 100
        A@2: GET data
        A: SET data 1
        A: RELEASE lock {a}
    ";
    assert!(found(Code::WaitIgnored, story).is_some());
}

#[test]
fn a_lock_that_a_script_has_taken_is_a_lock_as_well() {
    let story = "
        replicas
        hold
        A: EVAL \"return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', 10000)\" 1 lock {a}
        A: WAIT 1 100
        A: SET data 1
        A: RELEASE lock {a}
    ";
    assert!(found(Code::WaitIgnored, story).is_some());
}

#[test]
fn it_is_told_once_for_each_time_the_lock_was_taken() {
    let story = "
        replicas
        hold
        3 times A: SET lock {a} NX PX 10000 | A: WAIT 1 100 | A: SET data 1 | A: SET data 2 | A: RELEASE lock {a}
    ";
    assert_eq!(found(Code::WaitIgnored, story).expect("it is found").times, 3);
}

#[test]
fn a_lock_on_a_server_without_any_replica_is_not_what_wait_promises() {
    let story = "
        A: SET lock {a} NX PX 10000
        A: WAIT 1 100
        A: SET data 1
        A: RELEASE lock {a}
    ";
    let found = found(Code::WaitIgnored, story).expect("no replica has it");
    assert_eq!(found.severity, Severity::Warning);
}

#[test]
fn whoever_asks_until_enough_replicas_have_the_lock_may_go_on() {
    nothing_is_found(
        "replicas
         hold
         A: SET lock {a} NX PX 10000
         A: WAIT 1 100
         A: WAIT 1 100
         heal
         A: WAIT 1 100
         A: SET data 1
         A: RELEASE lock {a}",
    );
    // A question how many there are answers it, too.
    nothing_is_found(
        "replicas
         hold
         A: SET lock {a} NX PX 10000
         A: WAIT 1 100
         heal
         A: WAIT 0 100
         A: SET data 1
         A: RELEASE lock {a}",
    );
}

#[test]
fn whoever_gives_the_lock_back_and_tries_again_does_right() {
    nothing_is_found(
        "replicas
         hold
         A: SET lock {a} NX PX 10000
         A: WAIT 1 100
         A: RELEASE lock {a}
         heal
         +100ms
         A: SET lock {c} NX PX 10000
         A: WAIT 1 100
         A: SET data 1
         A: RELEASE lock {c}",
    );
    nothing_is_found(
        "replicas
         hold
         A: SET lock {a} NX PX 10000
         A: WAIT 1 100
         A: DELEX lock IFEQ {a}
         A: SET data 1",
    );
}

#[test]
fn wait_0_is_only_a_question() {
    nothing_is_found(
        "replicas
         hold
         A: SET lock {a} NX PX 10000
         A: WAIT 0 100
         A: SET data 1
         A: RELEASE lock {a}",
    );
}

#[test]
fn a_master_that_refuses_writes_without_replicas_gives_no_lock_to_trust() {
    nothing_is_found(
        "replicas
         D: CONFIG SET min-replicas-to-write 1
         cut
         A: SET lock {a} NX PX 10000
         A: WAIT 1 100
         A: GET data",
    );
}

#[test]
fn a_wait_behind_data_says_nothing_of_the_lock() {
    nothing_is_found(
        "replicas
         A: SET lock {a} NX PX 10000
         A: WAIT 1 100
         hold
         A: SET data 1
         A: WAIT 1 100
         A: SET data 2
         A: RELEASE lock {a}",
    );
    nothing_is_found(
        "replicas
         hold
         A: SET data 1
         A: WAIT 1 100
         A: GET data",
    );
}

#[test]
fn the_wait_of_another_connection_says_nothing_of_the_lock() {
    nothing_is_found(
        "replicas
         hold
         A: SET lock {a} NX PX 10000
         C: WAIT 1 100
         A: SET data 1
         A: RELEASE lock {a}",
    );
    nothing_is_found(
        "replicas
         hold
         A: WAIT 1 100
         A: SET lock {a} NX PX 10000
         A: SET data 1
         A: RELEASE lock {a}",
    );
}

#[test]
fn a_lock_on_three_masters_does_not_need_a_replica_of_each() {
    nothing_is_found(
        "replicas
         hold
         A: SET lock {a} NX PX 10000
         A@3: SET lock {a} NX PX 10000
         A@4: SET lock {a} NX PX 10000
         A: WAIT 1 100
         A: SET data 1
         A: RELEASE lock {a}
         A@3: RELEASE lock {a}
         A@4: RELEASE lock {a}",
    );
}

#[test]
fn a_lock_that_is_lost_although_wait_had_said_so_is_told_with_the_wait() {
    let story = "
        replicas
        hold
        A: SET lock {a} NX PX 10000
        A: WAIT 1 100
        A: SET data 1
        promote
        B@2: SET lock {b} NX PX 10000
        B@2: RELEASE lock {b}
    ";
    assert_eq!(
        told(Code::LostInFailover, story).split_once("; ").map(|(_, told)| told),
        Some("WAIT had answered that no replica had it")
    );
    let lost = found(Code::LostInFailover, story).expect("it is lost");
    assert!(lost.evidence.iter().any(|shown| shown.what == "was told that no replica had it"), "{lost:?}");
    assert_eq!(found(Code::WaitIgnored, story).expect("A went on").severity, Severity::Warning);
}

#[test]
fn the_replica_that_had_answered_wait_is_not_the_one_that_is_promoted() {
    let story = "
        replicas 2
        hold 2
        A: SET lock {a} NX PX 10000
        A: WAIT 1 100
        promote 2
        B@2: SET lock {b} NX PX 10000
        B@2: RELEASE lock {b}
    ";
    let sentence = told(Code::LostInFailover, story);
    assert!(sentence.contains("; WAIT had been answered by 127.0.0.1:"), "{sentence}");
    assert!(sentence.ends_with(", which was not promoted"), "{sentence}");
    assert!(found(Code::WaitIgnored, story).is_none(), "one replica was all that it asked for");
    let the_other = "
        replicas 2
        hold 2
        A: SET lock {a} NX PX 10000
        A: WAIT 1 100
        promote 3
        B@3: SET lock {b} NX PX 10000
        A: SET data 1
    ";
    assert!(found(Code::LostInFailover, the_other).is_none());
}
