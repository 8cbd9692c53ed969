//! What is done with a lock whose time is over.

use redouble::{Code, Severity};

use super::story::{Pair, found, judge, nothing_is_found};

#[test]
fn a_millisecond_decides_whether_a_release_is_late() {
    judge(&Pair {
        code: Code::LateRelease,
        wrong: "
            ! A: SET lock {a} NX PX 1000
            B: SET lock {b} NX PX 1000
            +1001ms
            ! A: RELEASE lock {a}
        ",
        right: "
            A: SET lock {a} NX PX 1000
            B: SET lock {b} NX PX 1000
            +1000ms
            A: RELEASE lock {a}
        ",
    });
}

#[test]
fn a_release_by_key_alone_finds_nothing_any_more() {
    judge(&Pair {
        code: Code::LateRelease,
        wrong: "
            ! A: SET lock {a} NX PX 1000
            B: SET lock {b} NX PX 1000
            +3s
            ! A: DEL lock
        ",
        right: "
            A: SET lock {a} NX PX 1000
            B: SET lock {b} NX PX 1000
            A: RELEASE lock {a}
            +3s
        ",
    });
}

#[test]
fn a_holder_deletes_its_lock_although_the_time_in_it_is_over() {
    judge(&Pair {
        code: Code::LateRelease,
        wrong: "
            ! C1: SETNX lock.foo {ms+1}
            +1001ms
            ! C1: DEL lock.foo
        ",
        right: "
            C1: SETNX lock.foo {ms+1}
            +999ms
            C1: DEL lock.foo
        ",
    });
}

#[test]
fn whoever_tries_anew_and_deletes_what_is_stale_does_not_release_its_old_lock() {
    let story = "
        C1: SETNX lock.foo {ms+1}
        +2s
        C1: SETNX lock.foo {ms+1}
        C1: GET lock.foo
        C1: DEL lock.foo
        C1: SETNX lock.foo {ms+1}
    ";
    assert!(found(Code::LateRelease, story).is_none());
    assert!(found(Code::GetThenDelete, story).is_none());
}

#[test]
fn a_release_over_another_connection_is_late_as_well() {
    let story = "
        a: SET lock {a} NX PX 1000
        w: SET lock {w} NX PX 1000
        +1001ms
        b: RELEASE lock {a}
    ";
    assert_eq!(found(Code::LateRelease, story).map(|found| found.severity), Some(Severity::Warning));
}

#[test]
fn a_lock_over_several_servers_is_released_also_where_it_was_never_taken() {
    nothing_is_found(
        "
            A@1: SET lock {a} NX PX 10000
            B@2: SET lock {b} NX PX 10000
            A@2: SET lock {a} NX PX 10000
            A@3: SET lock {a} NX PX 10000
            A@1: RELEASE lock {a}
            A@2: RELEASE lock {a}
            A@3: RELEASE lock {a}
            B@2: RELEASE lock {b}
            +20s
            A@1: RELEASE lock {c}
        ",
    );
}

#[test]
fn a_renewal_comes_when_the_lock_is_over() {
    judge(&Pair {
        code: Code::LateExtension,
        wrong: "
            ! A: SET lock {a} NX PX 1000
            B: SET lock {b} NX PX 1000
            +1001ms
            ! A: PEXPIRE lock 1000
        ",
        right: "
            A: SET lock {a} NX PX 1000
            B: SET lock {b} NX PX 1000
            +1000ms
            A: EXTEND lock {a} 1000
            +1000ms
            A: RELEASE lock {a}
        ",
    });
}

#[test]
fn a_script_that_has_extended_before_is_known_when_it_comes_too_late() {
    judge(&Pair {
        code: Code::LateExtension,
        wrong: "
            ! A: SET lock {a} NX PX 1000
            A: EXTEND lock {a} 1000
            +1001ms
            ! A: EXTEND lock {a} 1000
        ",
        right: "
            A: SET lock {a} NX PX 1000
            A: EXTEND lock {a} 1000
            +999ms
            A: EXTEND lock {a} 1000
            A: RELEASE lock {a}
        ",
    });
}

#[test]
fn a_client_writes_on_after_its_lock_is_over_and_another_has_it() {
    judge(&Pair {
        code: Code::WorkAfterExpiry,
        wrong: "
            W: SET lock {w} NX PX 1000
            W: RELEASE lock {w}
            ! A: SET lock {a} NX PX 1000
            A: INCRBY balance 5
            +1001ms
            ! B: SET lock {b} NX PX 1000
            ! A: INCRBY balance 7
            B: RELEASE lock {b}
        ",
        right: "
            W: SET lock {w} NX PX 1000
            W: RELEASE lock {w}
            A: SET lock {a} NX PX 1000
            A: INCRBY balance 5
            +1000ms
            A: INCRBY balance 7
            A: RELEASE lock {a}
            +1ms
            B: SET lock {b} NX PX 1000
            B: INCRBY balance 7
            B: RELEASE lock {b}
        ",
    });
}

#[test]
fn work_in_a_transaction_or_a_script_is_work_as_well() {
    for work in ["A: MULTI\nA: INCR balance\nA: EXEC", "A: EVAL \"return redis.call('incr', KEYS[1])\" 1 balance"] {
        let story = format!(
            "
                W: SET lock {{w}} NX PX 1000
                W: RELEASE lock {{w}}
                A: SET lock {{a}} NX PX 1000
                {work}
                +1001ms
                {work}
            "
        );
        let found = found(Code::WorkAfterExpiry, &story).unwrap_or_else(|| panic!("nothing in {story}"));
        assert_eq!((found.severity, found.times), (Severity::Error, 1));
    }
}

#[test]
fn a_client_writes_on_after_another_has_deleted_its_lock() {
    judge(&Pair {
        code: Code::WorkAfterExpiry,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: SET stock 5
            ! B: DEL lock
            ! A: SET stock 4
        ",
        right: "
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: SET stock 5
            A: SET stock 4
            A: RELEASE lock {a}
        ",
    });
}

#[test]
fn whoever_leaves_a_lock_to_its_expiry_on_purpose_is_not_accused_of_working_on() {
    let once = "
        A: SET once:report {a} NX PX 1000
        B: SET once:report {b} NX PX 1000
        A: INCR reports
        +1001ms
        A: INCR reports
    ";
    assert_eq!(found(Code::WorkAfterExpiry, once).map(|found| found.severity), Some(Severity::Warning));
    // It comes back to release it: it believed to have it all the time.
    let back = format!("{once}\nA: RELEASE once:report {{a}}");
    let found = found(Code::WorkAfterExpiry, &back).expect("it is still there");
    assert_eq!((found.severity, found.times), (Severity::Error, 1));
}

#[test]
fn what_was_never_touched_under_the_lock_is_no_work_under_it() {
    nothing_is_found(
        "
            A: SET lock {a} NX PX 1000
            B: SET lock {b} NX PX 1000
            A: INCR balance
            A: RELEASE lock {a}
            +1001ms
            A: INCR balance
            A: INCR other
        ",
    );
    // Another lock has been given up long ago; what this one guards has nothing to do with it.
    let two = "
        A: SET lock:one {a} NX PX 1000
        B: SET lock:one {b} NX PX 1000
        +1001ms
        A: SET lock:two {c} NX PX 1000
        A: INCR balance
        A: RELEASE lock:two {c}
        A: SET lock:two {d} NX PX 1000
        A: INCR balance
        A: RELEASE lock:two {d}
        A: INCR balance
    ";
    assert!(found(Code::WorkAfterExpiry, two).is_none());
}

#[test]
fn a_connection_of_a_pool_works_for_whoever_has_the_lock_now() {
    let story = "
        a: SET lock {a} NX PX 1000
        w: SET lock {w} NX PX 1000
        a: INCR balance
        b: RELEASE lock {a}
        a: SET lock {c} NX PX 1000
        a: INCR balance
        +1001ms
        b: SET lock {d} NX PX 1000
        a: INCR balance
        c: RELEASE lock {d}
    ";
    let severity = found(Code::WorkAfterExpiry, story).map(|found| found.severity);
    assert!(severity.is_none_or(|severity| severity < Severity::Error), "{severity:?}");
}

#[test]
fn the_lock_expires_again_and_again_before_its_holders_are_done() {
    judge(&Pair {
        code: Code::ExpiryTooShort,
        wrong: "
            ! A: SET lock {a} NX PX 1000
            B: SET lock {b} NX PX 1000
            +1500ms
            ! A: RELEASE lock {a}
            ! B: SET lock {c} NX PX 1000
            +1500ms
            ! B: RELEASE lock {c}
        ",
        right: "
            A: SET lock {a} NX PX 3000
            B: SET lock {b} NX PX 3000
            +1500ms
            A: RELEASE lock {a}
            B: SET lock {c} NX PX 3000
            +1500ms
            B: RELEASE lock {c}
        ",
    });
}

#[test]
fn a_lock_that_expired_once_is_not_called_too_short() {
    let story = "
        A: SET lock {a} NX PX 1000
        B: SET lock {b} NX PX 1000
        +1500ms
        A: RELEASE lock {a}
        A: RELEASE lock {a}
    ";
    assert!(found(Code::ExpiryTooShort, story).is_none());
}

#[test]
fn locks_are_released_again_and_again_when_hardly_any_time_is_left() {
    judge(&Pair {
        code: Code::CloseToExpiry,
        wrong: "
            A: SET lock {a} NX PX 1000
            B: SET lock {b} NX PX 1000
            +901ms
            ! A: RELEASE lock {a}
            A: SET lock {c} NX PX 1000
            +950ms
            ! A: RELEASE lock {c}
            A: SET lock {d} NX PX 1000
            +1000ms
            ! A: RELEASE lock {d}
        ",
        right: "
            A: SET lock {a} NX PX 1000
            B: SET lock {b} NX PX 1000
            +900ms
            A: RELEASE lock {a}
            A: SET lock {c} NX PX 1000
            +950ms
            A: EXTEND lock {c} 1000
            A: RELEASE lock {c}
            A: SET lock {d} NX PX 1000
            +1000ms
            A: RELEASE lock {d}
        ",
    });
}

#[test]
fn a_renewal_without_nx_takes_a_lock_anew_that_has_expired() {
    // Another client may have had it in between.
    let story = "
        A: SET lock {a} NX PX 1000
        B: SET lock {b} NX PX 1000
        +1001ms
        A: SET lock {a} PX 1000
    ";
    let found = found(Code::LateExtension, story).expect("a late extension");
    assert_eq!(found.severity, Severity::Error, "{}", found.sentence);
    nothing_is_found(
        "
        A: SET lock {a} NX PX 1000
        B: SET lock {b} NX PX 1000
        +1001ms
        A: SET lock {c} NX PX 1000
        A: RELEASE lock {c}
        ",
    );
}

#[test]
fn a_client_that_is_told_that_its_lock_is_lost_goes_on_writing() {
    let story = |last: &str| {
        format!(
            "a: SET lock:7 {{a}} NX PX 1000
            a: GET data
            +1001ms
            a: EXTEND lock:7 {{a}} 1000
            {last}"
        )
    };
    let late = found(Code::WorkAfterExpiry, &story("a: SET data 2")).expect("work after the expiry");
    assert_eq!(late.severity, Severity::Error, "{}", late.sentence);
    for stops in ["a: GET data", "a: SET other 1", "a: SET lock:7 {c} NX PX 1000"] {
        assert!(found(Code::WorkAfterExpiry, &story(stops)).is_none(), "{stops}");
    }
}

#[test]
fn the_first_write_of_what_others_use_under_the_lock_comes_after_the_expiry() {
    let story = |written: &str, last: &str| {
        format!(
            "A: SET lock:7 {{a}} NX PX 1000
            B: SET lock:7 {{b}} NX PX 1000
            +1001ms
            B: SET lock:7 {{b}} NX PX 1000
            B: SET data 1
            B: RELEASE lock:7 {{b}}
            A: {written}
            {last}"
        )
    };
    let comes_back = "A: RELEASE lock:7 {a}";
    for written in ["SET data 2", "INCR data"] {
        let late = found(Code::WorkAfterExpiry, &story(written, comes_back)).expect("work after the expiry");
        assert_eq!(late.severity, Severity::Error, "{}", late.sentence);
    }
    for (written, last) in [
        // It knows that the lock is over.
        ("SET data 2", "A: PING"),
        // What the lock does not protect.
        ("SET other 2", comes_back),
        // It is told that the lock is over, and counts that.
        ("EXTEND lock:7 {a} 1000\nA: INCR data", comes_back),
    ] {
        assert!(found(Code::WorkAfterExpiry, &story(written, last)).is_none(), "{written} {last}");
    }
    let guarded = "
        A: SET lock:7 {a} NX PX 1000
        B: SET lock:7 {b} NX PX 1000
        +1001ms
        B: SET lock:7 {b} NX PX 1000
        B: SET data 1
        B: RELEASE lock:7 {b}
        A: WATCH data
        A: MULTI
        A: SET data 2
        A: EXEC
        A: RELEASE lock:7 {a}
    ";
    assert!(found(Code::WorkAfterExpiry, guarded).is_none());
}

#[test]
fn a_program_writes_to_another_store_when_its_lock_is_over() {
    judge(&Pair {
        code: Code::WorkAfterExpiry,
        wrong: "
            W@1: SET lock:7 {w} NX PX 1000
            W@1: RELEASE lock:7 {w}
            ! A@1: SET lock:7 {a} NX PX 1000
            A@2: GET data
            +1001ms
            ! B@1: SET lock:7 {b} NX PX 1000
            ! A@2: SET data 2
            A@1: RELEASE lock:7 {a}
            B@1: RELEASE lock:7 {b}
        ",
        right: "
            W@1: SET lock:7 {w} NX PX 1000
            W@1: RELEASE lock:7 {w}
            A@1: SET lock:7 {a} NX PX 1000
            A@2: GET data
            +100ms
            A@2: SET data 2
            A@1: RELEASE lock:7 {a}
            B@1: SET lock:7 {b} NX PX 1000
            B@2: GET data
            +100ms
            B@2: SET data 3
            B@1: RELEASE lock:7 {b}
            A@2: SET other 1
        ",
    });
    // The same key on a third server is another one.
    nothing_is_found(
        "
        W@1: SET lock:7 {w} NX PX 1000
        W@1: RELEASE lock:7 {w}
        A@1: SET lock:7 {a} NX PX 1000
        A@2: GET data
        A@1: RELEASE lock:7 {a}
        A@3: SET data 2
    ",
    );
}

#[test]
fn another_connection_of_the_program_works_after_the_loss() {
    // Of one name.
    let story = |last: &str| {
        format!(
            "d: CLIENT SETNAME A
            W: SET lock:7 {{w}} NX PX 1000
            W: RELEASE lock:7 {{w}}
            A: SET lock:7 {{a}} NX PX 1000
            d: GET data
            +1001ms
            B: SET lock:7 {{b}} NX PX 1000
            {last}"
        )
    };
    let late = found(Code::WorkAfterExpiry, &story("d: SET data 2")).expect("work after the expiry");
    assert_eq!(late.severity, Severity::Error, "{}", late.sentence);
    // Several connections of the program have locks: each may do the work of another one.
    let several = "c: CLIENT SETNAME A\nc: SET lock:8 {c} NX PX 10000\nd: SET data 2\nc: RELEASE lock:8 {c}";
    for right in ["d: SET other 2", "x: SET data 2", several] {
        let told = found(Code::WorkAfterExpiry, &story(right));
        assert!(told.is_none(), "{right}: {told:?}");
    }
}

#[test]
fn holders_that_are_late_and_write_on_a_condition_do_no_harm() {
    let late = |written: &str| {
        format!("4 times +2s A: SET lock:7 {{a}} NX PX 1000 | A: GET data | +1001ms{written} | A: RELEASE lock:7 {{a}}")
    };
    let severity = |story: &str| found(Code::ExpiryTooShort, story).map(|finding| finding.severity);
    let seen = "W: SET lock:7 {w} NX PX 1000\nB: SET lock:7 {b} NX PX 1000\nW: DEL lock:7\n";
    let unguarded = format!("{seen}{}", late(" | A: SET data 1"));
    assert_eq!(severity(&unguarded), Some(Severity::Error));
    let watched = " | A: WATCH data | A: MULTI | A: SET data 1 | A: EXEC";
    assert_eq!(severity(&format!("{seen}{}", late(watched))), Some(Severity::Warning));
    let compared = " | A: EVAL \"redis.call('get', KEYS[1]) return redis.call('set', KEYS[1], 1)\" 1 data";
    assert_eq!(severity(&format!("{seen}{}", late(compared))), Some(Severity::Warning));
}

#[test]
fn a_former_holder_sets_its_value_over_that_of_another_one() {
    let story = |last: &str| {
        format!(
            "A: SET room:node node-a NX PX 600
            +1s
            B: SET room:node node-b NX PX 600
            B: SET room:node node-b XX PX 600
            {last}
            A: SET room:node node-a XX PX 600"
        )
    };
    for last in ["B: PING", "close B"] {
        let late = found(Code::LateExtension, &story(last)).expect("a renewal of what is over");
        assert_eq!(late.severity, Severity::Error, "{}", late.sentence);
    }
    for right in [
        // Nobody else had it.
        "A: SET room:node node-a NX PX 600\n+1s\nA: SET room:node node-a NX PX 600",
        // Something else is set, whoever had it: a value, and no lock.
        "A: SET page one NX PX 600\n+1s\nB: SET page two NX PX 600\nA: SET page three PX 600",
    ] {
        assert!(found(Code::LateExtension, right).is_none(), "{right}");
    }
}
