//! Who takes and who releases.

use redouble::{Code, Severity};

use super::story::{Pair, found, judge, nothing_is_found, play, shown};

/// How bad a finding is, and how often it was seen.
#[track_caller]
fn weight(code: Code, story: &str) -> (Severity, u64) {
    let found = found(code, story).unwrap_or_else(|| panic!("no {} in\n{story}", code.name()));
    (found.severity, found.times)
}

/// Nothing worse than a warning is told.
#[track_caller]
fn no_error(story: &str) {
    let played = play(story);
    let errors = played.findings().into_iter().filter(|finding| finding.severity == Severity::Error);
    let told = errors.map(|finding| shown(&played, &finding)).collect::<String>();
    assert!(told.is_empty(), "found in\n{story}\n{told}");
}

#[test]
fn the_famous_race_two_clients_delete_a_stale_lock_and_both_take_it() {
    judge(&Pair {
        code: Code::TwoHolders,
        wrong: "
            C3: SETNX lock.foo {s+10}
            close C3
            +20s
            C1: GET lock.foo
            C2: GET lock.foo
            C1: DEL lock.foo
            ! C1: SETNX lock.foo {s+10}
            ! C2: DEL lock.foo
            ! C2: SETNX lock.foo {s+10}
        ",
        right: "
            C3: SETNX lock.foo {s+10}
            +20s
            C1: GET lock.foo
            C2: GET lock.foo
            C1: GETSET lock.foo {s+10}
            C2: GETSET lock.foo {s+10}
            C1: DEL lock.foo
        ",
    });
}

#[test]
fn the_famous_race_with_times_in_milliseconds() {
    judge(&Pair {
        code: Code::TwoHolders,
        wrong: "
            C3: SETNX lock.foo {ms+1}
            close C3
            +1001ms
            C1: GET lock.foo
            C2: GET lock.foo
            C1: DEL lock.foo
            ! C1: SETNX lock.foo {ms+1}
            ! C2: DEL lock.foo
            +10ms
            ! C2: SETNX lock.foo {ms+1}
        ",
        right: "
            C3: SETNX lock.foo {ms+1}
            C1: SETNX lock.foo {ms+1}
            +1001ms
            C1: GET lock.foo
            C1: GETSET lock.foo {ms+1}
            +10ms
            C2: SETNX lock.foo {ms+1}
            C2: GET lock.foo
            C1: DEL lock.foo
        ",
    });
}

#[test]
fn the_famous_race_with_times_that_have_a_fraction() {
    judge(&Pair {
        code: Code::TwoHolders,
        wrong: "
            C3: SETNX lock.foo {f+0.5}
            close C3
            +501ms
            C1: GET lock.foo
            C2: GET lock.foo
            C1: DEL lock.foo
            ! C1: SETNX lock.foo {f+0.5}
            ! C2: DEL lock.foo
            ! C2: SETNX lock.foo {f+0.5}
        ",
        right: "
            C3: SETNX lock.foo {f+0.5}
            +501ms
            C1: SETNX lock.foo {f+0.5}
            C1: GET lock.foo
            C1: GETSET lock.foo {f+0.5}
            C1: DEL lock.foo
        ",
    });
}

#[test]
fn the_famous_race_of_clients_without_names_who_waited_for_the_lock() {
    judge(&Pair {
        code: Code::TwoHolders,
        wrong: "
            c: SETNX lock.foo {s+10}
            close c
            a: SETNX lock.foo {s+10}
            b: SETNX lock.foo {s+10}
            +20s
            a: GET lock.foo
            b: GET lock.foo
            a: DEL lock.foo
            ! a: SETNX lock.foo {s+10}
            ! b: DEL lock.foo
            ! b: SETNX lock.foo {s+10}
        ",
        right: "
            c: SETNX lock.foo {s+10}
            a: SETNX lock.foo {s+10}
            b: SETNX lock.foo {s+10}
            +20s
            a: GET lock.foo
            b: GET lock.foo
            a: GETSET lock.foo {s+10}
            b: GETSET lock.foo {s+10}
            a: DEL lock.foo
        ",
    });
}

#[test]
fn a_lock_that_was_deleted_under_its_holder_is_taken_by_another() {
    judge(&Pair {
        code: Code::TwoHolders,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            ! C: DEL lock
            ! B: SET lock {c} NX PX 10000
            B: RELEASE lock {c}
        ",
        right: "
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: RELEASE lock {a}
            B: SET lock {c} NX PX 10000
            B: RELEASE lock {c}
        ",
    });
}

#[test]
fn a_lock_that_was_overwritten_is_freed_and_taken_while_its_first_holder_still_believes_in_it() {
    judge(&Pair {
        code: Code::TwoHolders,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            ! B: SET lock {b} PX 10000
            B: RELEASE lock {b}
            ! C: SET lock {c} NX PX 10000
            C: RELEASE lock {c}
        ",
        right: "
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: RELEASE lock {a}
            C: SET lock {c} NX PX 10000
            C: RELEASE lock {c}
        ",
    });
}

#[test]
fn a_lock_is_taken_anew_after_all_keys_were_deleted_and_its_holder_comes_back() {
    let flushed = "
        A: SET lock {a} NX PX 10000
        B: SET lock {b} NX PX 10000
        T: FLUSHALL
        B: SET lock {c} NX PX 10000
    ";
    assert_eq!(weight(Code::TwoHolders, flushed), (Severity::Warning, 1));
    judge(&Pair {
        code: Code::TwoHolders,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            ! T: FLUSHALL
            ! B: SET lock {c} NX PX 10000
            ! A: RELEASE lock {a}
            B: RELEASE lock {c}
        ",
        right: "
            A: SET lock {a} NX PX 10000
            A: RELEASE lock {a}
            T: FLUSHALL
            B: SET lock {c} NX PX 10000
            B: RELEASE lock {c}
        ",
    });
    let back = format!("{flushed}\nA: RELEASE lock {{a}}");
    assert_eq!(weight(Code::TwoHolders, &back), (Severity::Error, 1));
}

#[test]
fn whoever_has_read_that_the_lock_is_gone_does_not_hold_it_any_more() {
    let read = found(
        Code::TwoHolders,
        "
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            C: DEL lock
            A: GET lock
            B: SET lock {c} NX PX 10000
        ",
    );
    assert!(read.is_none(), "{read:?}");
}

#[test]
fn whoever_could_not_extend_the_lock_does_not_hold_it_any_more() {
    let told = found(
        Code::TwoHolders,
        "
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            C: DEL lock
            A: EXTEND lock {a} 10000
            B: SET lock {c} NX PX 10000
        ",
    );
    assert!(told.is_none(), "{told:?}");
}

#[test]
fn several_hold_a_semaphore_and_none_of_them_is_blamed() {
    let enter = "\"redis.call('zremrangebyscore', KEYS[1], '-inf', ARGV[2]) \
                 if redis.call('zcard', KEYS[1]) < 2 then return redis.call('zadd', KEYS[1], ARGV[3], ARGV[1]) end\"";
    let story = format!(
        "
            A: EVAL {enter} 1 slots {{a}} 0 {{ms+10}}
            B: EVAL {enter} 1 slots {{b}} 0 {{ms+10}}
            C: EVAL {enter} 1 slots {{c}} 0 {{ms+10}}
            A: ZREM slots {{a}}
            B: ZREM slots {{b}}
        "
    );
    let played = play(&story);
    let two = played.findings().into_iter().find(|finding| finding.code == Code::TwoHolders);
    assert!(two.is_none(), "{two:?}");
}

#[test]
fn whoever_never_heard_that_it_has_the_lock_is_not_said_to_hold_it() {
    for story in [
        // The reply is lost, and the connection with it.
        "
            lost A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: DEL lock
            B: SET lock {c} NX PX 10000
            B: RELEASE lock {c}
        ",
        // It did not want to hear.
        "
            silent A: CLIENT REPLY OFF
            silent A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            C: DEL lock
            B: SET lock {c} NX PX 10000
            B: RELEASE lock {c}
        ",
    ] {
        assert!(found(Code::TwoHolders, story).is_none(), "{story}");
        no_error(story);
    }
}

#[test]
fn a_late_release_by_key_alone_takes_the_lock_of_the_next_holder() {
    judge(&Pair {
        code: Code::ForeignRelease,
        wrong: "
            ! A: SET lock {a} NX PX 1000
            B: SET lock {b} NX PX 1000
            +1001ms
            ! B: SET lock {c} NX PX 1000
            ! A: DEL lock
        ",
        right: "
            A: SET lock {a} NX PX 1000
            B: SET lock {b} NX PX 1000
            +1000ms
            A: RELEASE lock {a}
            B: SET lock {c} NX PX 1000
            B: RELEASE lock {c}
        ",
    });
}

#[test]
fn a_late_release_by_script_leaves_the_lock_of_the_next_holder_alone() {
    no_error(
        "
            A: SET lock {a} NX PX 1000
            B: SET lock {b} NX PX 1000
            +1001ms
            B: SET lock {c} NX PX 1000
            A: RELEASE lock {a}
            B: RELEASE lock {c}
        ",
    );
}

#[test]
fn a_late_release_of_clients_without_names_is_known_by_who_took_the_lock_before() {
    judge(&Pair {
        code: Code::ForeignRelease,
        wrong: "
            ! a: SET lock {a} NX PX 1000
            b: SET lock {b} NX PX 1000
            +1001ms
            ! b: SET lock {c} NX PX 1000
            ! a: DEL lock
        ",
        right: "
            a: SET lock {a} NX PX 1000
            b: SET lock {b} NX PX 1000
            a: RELEASE lock {a}
            +1001ms
            b: SET lock {c} NX PX 1000
            b: RELEASE lock {c}
        ",
    });
}

#[test]
fn a_holder_whose_lock_was_taken_over_releases_the_one_of_whoever_did() {
    judge(&Pair {
        code: Code::ForeignRelease,
        wrong: "
            ! C3: SETNX lock.foo {ms+1}
            C1: SETNX lock.foo {ms+1}
            +1001ms
            C1: GET lock.foo
            ! C1: GETSET lock.foo {ms+1}
            ! C3: DEL lock.foo
        ",
        right: "
            C3: SETNX lock.foo {ms+1}
            C1: SETNX lock.foo {ms+1}
            +1001ms
            C1: GET lock.foo
            C1: GETSET lock.foo {ms+1}
            C1: DEL lock.foo
        ",
    });
}

#[test]
fn a_holder_whose_lock_was_deleted_releases_the_next_one() {
    judge(&Pair {
        code: Code::ForeignRelease,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            ! C: DEL lock
            ! B: SET lock {c} NX PX 10000
            ! A: DEL lock
        ",
        right: "
            A: SET lock {a} NX PX 10000
            A: RELEASE lock {a}
            B: SET lock {b} NX PX 10000
            B: RELEASE lock {b}
        ",
    });
}

#[test]
fn a_release_that_is_done_twice_takes_the_lock_of_another() {
    judge(&Pair {
        code: Code::ForeignRelease,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: RELEASE lock {a}
            ! B: SET lock {c} NX PX 10000
            ! A: DEL lock
        ",
        right: "
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: RELEASE lock {a}
            B: SET lock {c} NX PX 10000
            A: RELEASE lock {a}
            B: RELEASE lock {c}
        ",
    });
}

#[test]
fn a_script_that_compares_a_token_that_all_have_takes_the_lock_of_another() {
    judge(&Pair {
        code: Code::ForeignRelease,
        wrong: "
            ! A: SET lock 1 NX PX 1000
            B: SET lock 1 NX PX 1000
            +1001ms
            ! B: SET lock 1 NX PX 1000
            ! A: RELEASE lock 1
        ",
        right: "
            A: SET lock {a} NX PX 1000
            +100ms
            A: RELEASE lock {a}
            B: SET lock {b} NX PX 1000
            B: RELEASE lock {b}
        ",
    });
}

#[test]
fn a_client_that_never_had_the_lock_deletes_it() {
    judge(&Pair {
        code: Code::BlindDelete,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            ! C: DEL lock
        ",
        right: "
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            C: GET lock
            A: RELEASE lock {a}
        ",
    });
}

#[test]
fn a_client_that_waits_deletes_the_lock_that_it_waits_for() {
    judge(&Pair {
        code: Code::BlindDelete,
        wrong: "
            ! a: SET lock {a} NX PX 10000
            ! b: SET lock {b} NX PX 10000
            ! b: UNLINK lock
        ",
        right: "
            a: SET lock {a} NX PX 10000
            b: SET lock {b} NX PX 10000
            a: RELEASE lock {a}
        ",
    });
    let story = "
        a: SET lock {a} NX PX 10000
        b: SET lock {b} NX PX 10000
        b: UNLINK lock
    ";
    assert_eq!(weight(Code::BlindDelete, story), (Severity::Error, 1));
}

#[test]
fn an_expiry_of_nothing_deletes_a_lock_as_well() {
    let story = "
        A: SET lock {a} NX PX 10000
        B: SET lock {b} NX PX 10000
        B: PEXPIRE lock 0
    ";
    assert_eq!(weight(Code::BlindDelete, story), (Severity::Error, 1));
}

#[test]
fn whoever_deletes_a_lock_over_a_connection_without_a_name_may_be_its_holder() {
    let pool = "
        a: SET lock {a} NX PX 10000
        w: SET lock {w} NX PX 10000
        b: DEL lock
        c: SET lock {c} NX PX 10000
        d: DEL lock
        a: SET lock {e} NX PX 10000
        b: DEL lock
    ";
    no_error(pool);
    assert_eq!(weight(Code::BlindDelete, pool), (Severity::Warning, 3));
}

#[test]
fn a_holder_that_comes_back_proves_that_it_was_another_who_deleted_its_lock() {
    let story = "
        a: SET lock {a} NX PX 10000
        w: SET lock {w} NX PX 10000
        b: DEL lock
        c: SET lock {c} NX PX 10000
        a: RELEASE lock {a}
    ";
    assert_eq!(weight(Code::BlindDelete, story), (Severity::Error, 1));
    assert_eq!(weight(Code::TwoHolders, story), (Severity::Error, 1));
    judge(&Pair {
        code: Code::BlindDelete,
        wrong: "
            ! a: SET lock {a} NX PX 10000
            w: SET lock {w} NX PX 10000
            ! b: DEL lock
            c: SET lock {c} NX PX 10000
            ! a: RELEASE lock {a}
        ",
        right: "
            a: SET lock {a} NX PX 10000
            w: SET lock {w} NX PX 10000
            b: RELEASE lock {a}
            c: SET lock {c} NX PX 10000
            c: RELEASE lock {c}
        ",
    });
}

#[test]
fn connections_of_a_pool_release_for_each_other_by_script() {
    nothing_is_found(
        "
            a: SET lock {a} NX PX 10000
            b: SET lock {b} NX PX 10000
            c: RELEASE lock {a}
            b: SET lock {c} NX PX 10000
            a: EXTEND lock {c} 10000
            d: RELEASE lock {c}
        ",
    );
}

#[test]
fn connections_with_the_same_name_are_one_program() {
    nothing_is_found(
        "
            a: CLIENT SETNAME app
            b: CLIENT SETNAME app
            W: SET lock {v} NX PX 10000
            a: SET lock {w} NX PX 10000
            W: RELEASE lock {v}
            a: SET lock {a} NX PX 10000
            b: EXTEND lock {a} 10000
            b: RELEASE lock {a}
        ",
    );
    let by_key = "
        a: CLIENT SETNAME app
        b: CLIENT SETNAME app
        a: SET lock {a} NX PX 10000
        W: SET lock {w} NX PX 10000
        b: DEL lock
    ";
    no_error(by_key);
    assert!(found(Code::BlindDelete, by_key).is_none());
    assert_eq!(weight(Code::UncheckedRelease, by_key), (Severity::Warning, 1));
}

#[test]
fn a_lock_that_somebody_may_have_got_is_released_with_a_warning() {
    let story = "
        A: SET lock {a} NX PX 1000
        B: SET lock {b} NX PX 1000
        +1001ms
        lost B: SET lock {c} NX PX 1000
        A: DEL lock
    ";
    let found = found(Code::ForeignRelease, story).expect("A deletes what B has left");
    assert_eq!(found.severity, Severity::Warning);
    assert!(found.sentence.contains("which B (client 3) may have got since"), "{}", found.sentence);
}

#[test]
fn a_holder_releases_by_key_alone() {
    judge(&Pair {
        code: Code::UncheckedRelease,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            ! A: DEL lock
        ",
        right: "
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: RELEASE lock {a}
        ",
    });
    // Once for each lock, whoever does it.
    let often = "
        A: SET lock {a} NX PX 10000
        B: SET lock {b} NX PX 10000
        A: DEL lock
        B: SET lock {c} NX PX 10000
        B: UNLINK lock
        A: SET lock {d} NX PX 10000
        A: GETDEL lock
    ";
    assert_eq!(weight(Code::UncheckedRelease, often), (Severity::Warning, 3));
}

#[test]
fn a_transaction_without_watch_compares_nothing() {
    judge(&Pair {
        code: Code::UncheckedRelease,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: MULTI
            A: DEL lock
            ! A: EXEC
        ",
        right: "
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: WATCH lock
            A: GET lock
            A: MULTI
            A: DEL lock
            A: EXEC
        ",
    });
}

#[test]
fn a_holder_looks_first_and_deletes_then() {
    judge(&Pair {
        code: Code::GetThenDelete,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            ! A: GET lock
            ! A: DEL lock
        ",
        right: "
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: WATCH lock
            A: GET lock
            A: MULTI
            A: DEL lock
            A: EXEC
        ",
    });
}

#[test]
fn between_a_look_and_the_release_another_gets_the_lock() {
    judge(&Pair {
        code: Code::GetThenDelete,
        wrong: "
            ! A: SET lock {a} NX PX 1000
            B: SET lock {b} NX PX 1000
            +1000ms
            ! A: GET lock
            +1ms
            ! B: SET lock {c} NX PX 1000
            ! A: DEL lock
        ",
        right: "
            A: SET lock {a} NX PX 1000
            +1000ms
            A: GET lock
            A: RELEASE lock {a}
            +1ms
            B: SET lock {b} NX PX 1000
            B: RELEASE lock {b}
        ",
    });
}

#[test]
fn a_lock_is_gone_between_a_look_and_the_release() {
    judge(&Pair {
        code: Code::GetThenDelete,
        wrong: "
            ! A: SET lock {a} NX PX 1000
            B: SET lock {b} NX PX 1000
            ! A: GET lock
            +1001ms
            ! A: DEL lock
        ",
        right: "
            A: SET lock {a} NX PX 1000
            B: SET lock {b} NX PX 1000
            A: GET lock
            A: RELEASE lock {a}
        ",
    });
}

#[test]
fn a_watch_that_came_after_the_look_guards_nothing() {
    judge(&Pair {
        code: Code::GetThenDelete,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            ! A: GET lock
            A: WATCH lock
            A: MULTI
            A: DEL lock
            ! A: EXEC
        ",
        right: "
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: GET lock
            A: WATCH lock
            A: GET lock
            A: MULTI
            A: DEL lock
            A: EXEC
        ",
    });
}

#[test]
fn commands_that_compare_release_and_extend_without_a_script() {
    for story in [
        "
            profile redis-8.4
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: SET lock {a} IFEQ {a} PX 10000
            A: DELEX lock IFEQ {a}
            B: SET lock {c} NX PX 10000
            B: DELEX lock IFEQ {c}
        ",
        "
            profile valkey-9.1
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: SET lock {a} IFEQ {a} PX 10000
            A: DELIFEQ lock {a}
            B: SET lock {c} NX PX 10000
            B: DELIFEQ lock {c}
        ",
    ] {
        nothing_is_found(story);
    }
    judge(&Pair {
        code: Code::UncheckedRelease,
        wrong: "
            profile redis-8.4
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            ! A: DELEX lock
        ",
        right: "
            profile redis-8.4
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: DELEX lock IFEQ {a}
        ",
    });
}

#[test]
fn a_client_that_was_refused_gives_the_lock_another_expiry() {
    judge(&Pair {
        code: Code::ForeignExtension,
        wrong: "
            ! a: SET lock {a} NX PX 10000
            ! b: SET lock {b} NX PX 10000
            ! b: PEXPIRE lock 60000
        ",
        right: "
            a: SET lock {a} NX PX 10000
            b: SET lock {b} NX PX 10000
            a: EXTEND lock {a} 10000
            b: EXTEND lock {b} 10000
            a: RELEASE lock {a}
        ",
    });
}

#[test]
fn a_lock_whose_time_another_has_cut_short_is_taken_while_it_is_held() {
    judge(&Pair {
        code: Code::TwoHolders,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 1000
            ! B: PEXPIRE lock 1000
            +1001ms
            ! C: SET lock {c} NX PX 10000
            C: RELEASE lock {c}
        ",
        right: "
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 1000
            +1001ms
            A: RELEASE lock {a}
            C: SET lock {c} NX PX 10000
            C: RELEASE lock {c}
        ",
    });
}

#[test]
fn a_renewal_that_does_not_stop_extends_the_lock_of_the_next_holder() {
    judge(&Pair {
        code: Code::ForeignExtension,
        wrong: "
            ! A: SET lock {a} NX PX 1000
            B: SET lock {b} NX PX 1000
            +1001ms
            ! B: SET lock {c} NX PX 1000
            ! A: PEXPIRE lock 1000
            B: RELEASE lock {c}
        ",
        right: "
            A: SET lock {a} NX PX 1000
            +500ms
            A: EXTEND lock {a} 1000
            +501ms
            A: RELEASE lock {a}
            B: SET lock {b} NX PX 1000
            B: RELEASE lock {b}
        ",
    });
}

#[test]
fn whoever_extends_a_lock_over_a_connection_without_a_name_may_be_its_holder() {
    let story = "
        a: SET lock {a} NX PX 10000
        w: SET lock {w} NX PX 10000
        b: PEXPIRE lock 10000
        a: RELEASE lock {a}
    ";
    no_error(story);
    assert_eq!(weight(Code::ForeignExtension, story), (Severity::Warning, 1));
}

#[test]
fn a_holder_extends_by_key_alone() {
    judge(&Pair {
        code: Code::UncheckedExtension,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            ! A: PEXPIRE lock 10000
            A: RELEASE lock {a}
        ",
        right: "
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: EXTEND lock {a} 10000
            A: RELEASE lock {a}
        ",
    });
    // Also with SET, and only once for each lock.
    let often = "
        A: SET lock {a} NX PX 10000
        B: SET lock {b} NX PX 10000
        3 times +100ms A: SET lock {a} XX PX 10000
        A: EXPIRE lock 10
        A: RELEASE lock {a}
    ";
    assert_eq!(weight(Code::UncheckedExtension, often), (Severity::Warning, 4));
}

#[test]
fn the_first_expiry_of_a_lock_is_no_extension() {
    let story = "
        A: SETNX lock {a}
        A: PEXPIRE lock 10000
        B: SETNX lock {b}
        A: RELEASE lock {a}
    ";
    assert!(found(Code::UncheckedExtension, story).is_none());
    assert!(found(Code::ForeignExtension, story).is_none());
}

#[test]
fn parts_of_a_program_that_share_unnamed_connections_are_no_strangers() {
    // The second connection was refused for one part of the program, and works for the holder then.
    let pool = "
        a: SET order:1 {a} NX PX 10000
        a: SET order:1 {b} NX PX 10000
    ";
    for deed in ["SET order:7 done PX 60000", "DEL order:7", "PEXPIRE order:7 60000"] {
        let story = format!(
            "{pool}\na: SET order:7 {{c}} NX PX 10000\nb: SET order:7 {{d}} NX PX 10000\nb: {deed}\na: DEL order:7"
        );
        let errors: Vec<_> =
            play(&story).findings().iter().filter(|found| found.severity == Severity::Error).cloned().collect();
        assert!(errors.is_empty(), "{story}\n{errors:#?}");
    }
}

#[test]
fn a_former_holder_renews_the_lock_of_another_one_with_set_xx() {
    let story = "
        a: SET lock {a} NX PX 1000
        b: SET lock {b} NX PX 1000
        +1001ms
        b: SET lock {b} NX PX 1000
        a: SET lock {a} XX PX 1000
    ";
    assert_eq!(weight(Code::OverwroteLiveLock, story).0, Severity::Error);
    no_error(
        "
        a: SET lock {a} NX PX 1000
        b: SET lock {b} NX PX 1000
        +600ms
        a: SET lock {a} XX PX 1000
        +1001ms
        b: SET lock {b} NX PX 1000
        b: SET lock {b} XX PX 1000
        ",
    );
}

#[test]
fn a_former_holder_extends_the_lock_of_another_one_that_has_the_same_token() {
    let story = "
        A: SET lock my-service NX PX 1000
        +1001ms
        B: SET lock my-service NX PX 1000
        A: EXTEND lock my-service 1000
    ";
    assert_eq!(weight(Code::ForeignExtension, story).0, Severity::Error);
    no_error(
        "
        A: SET lock my-service NX PX 1000
        A: EXTEND lock my-service 1000
        A: RELEASE lock my-service
        B: SET lock my-service NX PX 1000
        B: EXTEND lock my-service 1000
        ",
    );
}

#[test]
fn a_lock_that_its_own_expiry_deletes_is_taken_by_two() {
    let take = "if redis.call('setnx', KEYS[1], ARGV[1]) == 1 then redis.call('expire', KEYS[1], ARGV[2]) return 1 end \
                return 0";
    let story = |seconds: i64| {
        format!(
            "a: EVAL \"{take}\" 1 lock:7 {{a}} {seconds}
            b: EVAL \"{take}\" 1 lock:7 {{b}} {seconds}"
        )
    };
    assert_eq!(weight(Code::TwoHolders, &story(-1)).0, Severity::Error);
    assert_eq!(weight(Code::OddExpiry, &story(-1)).0, Severity::Error);
    no_error(&story(10));
}
