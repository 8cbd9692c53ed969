//! Locks whose value is the time at which they end.

use redouble::{Code, Severity};

use super::story::{Pair, Played, judge, play};

#[test]
fn a_live_lock_is_set_by_somebody_else() {
    judge(&Pair {
        code: Code::OverwroteLiveLock,
        wrong: r#"
            ! A: SET lock {a} NX PX 10000
            ! B: SET lock {b} PX 10000
            B: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {b}
        "#,
        right: r#"
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
            B: SET lock {b} NX PX 10000
            B: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {b}
        "#,
    });
}

#[test]
fn a_live_lock_is_set_with_setex() {
    judge(&Pair {
        code: Code::OverwroteLiveLock,
        wrong: r#"
            ! A: SET lock {a} NX PX 10000
            ! B: SETEX lock 10 {b}
            B: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {b}
        "#,
        right: r#"
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('set',KEYS[1],ARGV[1],'PX',ARGV[2]) end" 1 lock {a} 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
        "#,
    });
}

#[test]
fn getset_without_a_look_overwrites_a_live_lock() {
    judge(&Pair {
        code: Code::OverwroteLiveLock,
        wrong: r#"
            ! C1: SETNX lock.foo {s+10}
            ! C2: GETSET lock.foo {s+10}
            C1: DEL lock.foo
        "#,
        right: r#"
            C3: SETNX lock.foo {s+10}
            +20s
            C1: GET lock.foo
            C2: GET lock.foo
            C1: GETSET lock.foo {s+10}
            C2: GETSET lock.foo {s+10}
            C1: DEL lock.foo
        "#,
    });
}

#[test]
fn getset_overwrites_a_live_lock_with_a_token() {
    judge(&Pair {
        code: Code::OverwroteLiveLock,
        wrong: r#"
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            ! B: GETSET lock {b}
        "#,
        right: r#"
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
            B: SET lock {b} NX PX 10000
            B: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {b}
        "#,
    });
}

#[test]
fn the_famous_race_two_clients_find_the_lock_stale_and_the_slow_one_deletes_what_the_quick_one_took() {
    judge(&Pair {
        code: Code::StaleDeleteRace,
        wrong: r#"
            C3: SETNX lock.foo {s+10}
            close C3
            +20s
            C1: GET lock.foo
            ! C2: GET lock.foo
            ! C1: GETSET lock.foo {s+10}
            ! C2: DEL lock.foo
            C2: SETNX lock.foo {s+10}
        "#,
        right: r#"
            C3: SETNX lock.foo {s+10}
            +20s
            C1: GET lock.foo
            C2: GET lock.foo
            C1: GETSET lock.foo {s+10}
            C2: GETSET lock.foo {s+10}
            C1: DEL lock.foo
        "#,
    });
}

#[test]
fn two_clients_find_the_lock_stale_and_one_deletes_it() {
    judge(&Pair {
        code: Code::StaleDeleteRace,
        wrong: r#"
            C3: SETNX lock.foo {s+10}
            +20s
            ! C1: GET lock.foo
            ! C2: GET lock.foo
            ! C1: DEL lock.foo
            ! C1: SETNX lock.foo {s+10}
            C2: SETNX lock.foo {s+10}
            C1: DEL lock.foo
        "#,
        right: r#"
            C3: SETNX lock.foo {s+10}
            +20s
            C1: GET lock.foo
            C2: GET lock.foo
            C1: GETSET lock.foo {s+10}
            C2: GETSET lock.foo {s+10}
            C1: DEL lock.foo
        "#,
    });
}

#[test]
fn one_client_deletes_a_stale_lock_and_takes_it_anew() {
    judge(&Pair {
        code: Code::StaleDeleteRace,
        wrong: r#"
            C3: SETNX lock.foo {f+10}
            +20s
            ! C1: GET lock.foo
            ! C1: DEL lock.foo
            ! C1: SETNX lock.foo {f+10}
            C1: DEL lock.foo
        "#,
        right: r#"
            C3: SETNX lock.foo {f+10}
            +20s
            C1: GET lock.foo
            C1: GETSET lock.foo {f+10}
            C1: DEL lock.foo
        "#,
    });
}

#[test]
fn a_client_whose_clock_is_ahead_takes_a_live_lock_over() {
    judge(&Pair {
        code: Code::ClockDisagrees,
        wrong: r#"
            ! C1: SETNX lock.foo {s+10}
            C2: SETNX lock.foo {s+25}
            ! C2: GET lock.foo
            ! C2: GETSET lock.foo {s+25}
            C2: DEL lock.foo
        "#,
        right: r#"
            C3: SETNX lock.foo {s+10}
            +20s
            C1: GET lock.foo
            C2: GET lock.foo
            C1: GETSET lock.foo {s+10}
            C2: GETSET lock.foo {s+10}
            C1: DEL lock.foo
        "#,
    });
}

#[test]
fn a_client_whose_clock_is_ahead_deletes_a_live_lock_and_takes_it() {
    judge(&Pair {
        code: Code::ClockDisagrees,
        wrong: r#"
            C1: SETNX lock.foo {s+10}
            ! C2: GET lock.foo
            ! C2: DEL lock.foo
            ! C2: SETNX lock.foo {s+25}
            C2: DEL lock.foo
        "#,
        right: r#"
            C3: SETNX lock.foo {s+10}
            +20s
            C1: GET lock.foo
            C2: GET lock.foo
            C1: GETSET lock.foo {s+10}
            C2: GETSET lock.foo {s+10}
            C1: DEL lock.foo
        "#,
    });
}

#[test]
fn a_client_whose_clock_is_behind_takes_a_lock_that_is_over_at_once() {
    judge(&Pair {
        code: Code::ClockDisagrees,
        wrong: r#"
            C1: SETNX lock.foo {s+10}
            C1: DEL lock.foo
            ! C2: SETNX lock.foo {s-20}
        "#,
        right: r#"
            C1: SETNX lock.foo {s+10}
            C1: DEL lock.foo
            C2: SETNX lock.foo {s+10}
            C2: DEL lock.foo
        "#,
    });
}

#[test]
fn clients_claim_different_ends() {
    judge(&Pair {
        code: Code::ClockDisagrees,
        wrong: r#"
            ! C1: SETNX lock.foo {ms+10}
            C1: DEL lock.foo
            ! C2: SETNX lock.foo {ms+13.45}
            C2: DEL lock.foo
        "#,
        right: r#"
            C1: SETNX lock.foo {ms+10}
            C1: DEL lock.foo
            C2: SETNX lock.foo {ms+11.5}
            C2: DEL lock.foo
        "#,
    });
}

#[test]
fn one_client_writes_seconds_and_another_milliseconds() {
    judge(&Pair {
        code: Code::MixedTimeUnits,
        wrong: r#"
            ! C1: SETNX lock.foo {s+10}
            C1: DEL lock.foo
            ! C2: SETNX lock.foo {ms+10}
            C2: DEL lock.foo
        "#,
        right: r#"
            C1: SETNX lock.foo {s+10}
            C1: DEL lock.foo
            C2: SETNX lock.foo {s+10}
            C2: DEL lock.foo
        "#,
    });
}

#[test]
fn the_unit_shows_even_if_the_client_is_refused() {
    judge(&Pair {
        code: Code::MixedTimeUnits,
        wrong: r#"
            ! C1: SETNX lock.foo uuid:{ms+10}
            ! C2: SETNX lock.foo uuid:{s+10}
            C1: DEL lock.foo
        "#,
        right: r#"
            C1: SETNX lock.foo {a}:{ms+10}
            C2: SETNX lock.foo {b}:{ms+10}
            C1: DEL lock.foo
        "#,
    });
}

#[test]
fn a_fraction_is_the_same_unit_and_milliseconds_are_not() {
    judge(&Pair {
        code: Code::MixedTimeUnits,
        wrong: r#"
            ! C1: SETNX lock.foo {f+10}
            C1: DEL lock.foo
            C2: SETNX lock.foo {s+10}
            C2: DEL lock.foo
            ! C1: SETNX lock.foo {ms+10}
            C1: DEL lock.foo
        "#,
        right: r#"
            C1: SETNX lock.foo {f+10}
            C1: DEL lock.foo
            C2: SETNX lock.foo {s+10}
            C2: DEL lock.foo
        "#,
    });
}

#[test]
fn whoever_compares_milliseconds_with_seconds_takes_over_what_is_live() {
    judge(&Pair {
        code: Code::MixedTimeUnits,
        wrong: r#"
            ! C1: SETNX lock.foo {s+10}
            C2: GET lock.foo
            ! C2: GETSET lock.foo {ms+10}
        "#,
        right: r#"
            C3: SETNX lock.foo {s+10}
            +20s
            C1: GET lock.foo
            C2: GET lock.foo
            C1: GETSET lock.foo {s+10}
            C2: GETSET lock.foo {s+10}
            C1: DEL lock.foo
        "#,
    });
}

fn told(played: &Played, code: Code) -> Vec<(Severity, String)> {
    let findings = played.findings();
    let own = findings.iter().filter(|finding| finding.code == code);
    own.map(|finding| (finding.severity, finding.sentence.clone())).collect()
}

#[test]
fn nobody_is_blamed_who_goes_by_real_time_when_the_test_has_moved_the_clock() {
    for story in [
        // C1's {s+10} and C2's {s-50} are both ten seconds from now in real time.
        "
            C1: SETNX lock.foo {s+10}
            C1: DEL lock.foo
            +60s
            C2: SETNX lock.foo {s-50}
            C2: DEL lock.foo
        ",
        "
            C1: SETNX lock.foo {ms+10}
            C1: DEL lock.foo
            +400000s
            C2: SETNX lock.foo {ms-399990}
            C2: DEL lock.foo
        ",
        // The server's clock was put back, and C2's says that the lock is over.
        "
            -30000ms
            C1: SETNX lock.foo {s+10}
            C2: GET lock.foo
            C2: GETSET lock.foo {s+40}
            C2: DEL lock.foo
        ",
    ] {
        let blamed = told(&play(story), Code::ClockDisagrees);
        assert!(blamed.is_empty(), "{story}\n{blamed:?}");
    }
}

#[test]
fn a_take_over_is_an_error_and_a_different_end_is_none() {
    let taken = play("C1: SETNX lock.foo {s+10}\nC2: GET lock.foo\nC2: GETSET lock.foo {s+25}");
    assert!(told(&taken, Code::ClockDisagrees).iter().any(|(severity, _)| *severity == Severity::Error));
    let nearly = play("C1: SETNX lock.foo {ms+10}\n+9s\nC2: GET lock.foo\nC2: GETSET lock.foo {ms+10}");
    assert_eq!(told(&nearly, Code::ClockDisagrees)[0].0, Severity::Warning);
    let ends = play("C1: SETNX lock.foo {s+10}\nC1: DEL lock.foo\nC2: SETNX lock.foo {s+20}");
    assert_eq!(told(&ends, Code::ClockDisagrees)[0].0, Severity::Warning);
}

#[test]
fn a_client_that_asks_now_for_more_time_and_now_for_less_has_no_other_clock() {
    let played = play(
        "
            C1: SETNX lock.foo {s+10}
            C1: DEL lock.foo
            C1: SETNX lock.foo {s+60}
            C1: DEL lock.foo
        ",
    );
    assert_eq!(told(&played, Code::ClockDisagrees), []);
}

#[test]
fn a_lone_deletion_of_a_stale_lock_is_a_warning_and_one_with_a_rival_an_error() {
    let lone = "C3: SETNX lock.foo {s+10}\n+20s\nC1: GET lock.foo\nC1: DEL lock.foo\nC1: SETNX lock.foo {s+10}";
    assert_eq!(told(&play(lone), Code::StaleDeleteRace)[0].0, Severity::Warning);
    let race = lone.replace("C1: DEL", "C2: GET lock.foo\nC1: DEL");
    assert_eq!(told(&play(&race), Code::StaleDeleteRace)[0].0, Severity::Error);
}

#[test]
fn whoever_takes_over_what_is_live_believes_to_hold_it() {
    let played = play("C1: SETNX lock.foo {s+10}\nC2: GET lock.foo\nC2: GETSET lock.foo {s+25}");
    assert_eq!(told(&played, Code::TwoHolders).len(), 1);
}

#[test]
fn clients_that_give_the_lock_round_times_have_different_time_outs() {
    let played = play("C1: SETNX lock.foo {ms+0.3}\nC1: DEL lock.foo\nC2: SETNX lock.foo {ms+3}\nC2: DEL lock.foo");
    assert_eq!(told(&played, Code::ClockDisagrees), []);
}

#[test]
fn whoever_deletes_a_stale_lock_and_is_too_late_to_take_it_makes_the_same_mistake() {
    let played = play(
        "
            C3: SETNX lock.foo {s+10}
            +20s
            C1: GET lock.foo
            C1: DEL lock.foo
            C2: SETNX lock.foo {s+10}
            C1: SETNX lock.foo {s+10}
            C2: DEL lock.foo
        ",
    );
    assert_eq!(told(&played, Code::StaleDeleteRace).len(), 1);
}
