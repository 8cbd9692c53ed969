//! How long locks live.

use redouble::{Code, Severity};

use super::story::{Pair, Played, judge, play};

#[test]
fn a_lock_without_any_expiry_is_told_when_it_is_released() {
    judge(&Pair {
        code: Code::NoExpiry,
        wrong: r#"
            ! A: SET lock {a} NX
            B: SET lock {b} NX
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
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
fn a_lock_without_any_expiry_is_told_when_its_holder_dies() {
    judge(&Pair {
        code: Code::NoExpiry,
        wrong: r#"
            ! A: SETNX lock {a}
            B: SETNX lock {b}
            close A
        "#,
        right: r#"
            A: SET lock {a} NX PX 1000
            B: SET lock {b} NX PX 1000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
            close A
        "#,
    });
}

#[test]
fn a_lock_without_any_expiry_is_told_at_the_end() {
    judge(&Pair {
        code: Code::NoExpiry,
        wrong: r#"
            ! A: SETNX lock {a}
            B: SETNX lock {b}
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
fn the_holder_may_die_between_setnx_and_expire() {
    judge(&Pair {
        code: Code::ExpiryInSecondStep,
        wrong: r#"
            ! A: SETNX lock {a}
            ! A: EXPIRE lock 10
            B: SETNX lock {b}
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
        "#,
        right: r#"
            A: MULTI
            A: SETNX lock {a}
            A: EXPIRE lock 10
            A: EXEC
            B: SET lock {b} NX EX 10
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
        "#,
    });
}

#[test]
fn an_expiry_in_the_same_script_is_no_second_step() {
    judge(&Pair {
        code: Code::ExpiryInSecondStep,
        wrong: r#"
            ! A: SET lock {a} NX
            ! A: PEXPIRE lock 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
        "#,
        right: r#"
            A: EVAL "if redis.call('setnx',KEYS[1],ARGV[1])==1 then redis.call('expire',KEYS[1],ARGV[2]) return 1 end return 0" 1 lock {a} 10
            B: EVAL "if redis.call('setnx',KEYS[1],ARGV[1])==1 then redis.call('expire',KEYS[1],ARGV[2]) return 1 end return 0" 1 lock {b} 10
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
        "#,
    });
}

#[test]
fn the_holder_has_died_between_setnx_and_expire() {
    judge(&Pair {
        code: Code::ExpiryInSecondStep,
        wrong: r#"
            ! A: SETNX lock {a}
            ! A: EXPIRE lock 10
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
            A: SETNX lock {b}
            close A
            B: SETNX lock {c}
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
fn setting_the_lock_again_takes_its_expiry_away() {
    judge(&Pair {
        code: Code::ExpiryRemoved,
        wrong: r#"
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            ! A: SET lock {a}
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
        "#,
        right: r#"
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('set',KEYS[1],ARGV[1],'KEEPTTL') end" 1 lock {a}
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
        "#,
    });
}

#[test]
fn getset_by_somebody_else_takes_the_expiry_away() {
    judge(&Pair {
        code: Code::ExpiryRemoved,
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
fn persist_by_somebody_else_takes_the_expiry_away() {
    judge(&Pair {
        code: Code::ExpiryRemoved,
        wrong: r#"
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            ! B: PERSIST lock
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
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
fn the_expiry_that_was_extended_is_the_one_that_is_taken_away() {
    judge(&Pair {
        code: Code::ExpiryRemoved,
        wrong: r#"
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            ! A: PEXPIRE lock 20000
            ! B: SET lock {b} XX
        "#,
        right: r#"
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end" 1 lock {a} 20000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
        "#,
    });
}

#[test]
fn milliseconds_are_taken_for_seconds() {
    judge(&Pair {
        code: Code::OddExpiry,
        wrong: r#"
            ! A: SET lock {a} NX EX 300000
            B: SET lock {b} NX EX 300000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
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
fn seconds_are_taken_for_milliseconds() {
    judge(&Pair {
        code: Code::OddExpiry,
        wrong: r#"
            ! A: SET lock {a} NX PX 5
            B: SET lock {b} NX PX 5
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
        "#,
        right: r#"
            A: SET lock {a} NX PX 10
            B: SET lock {b} NX PX 10
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
        "#,
    });
}

#[test]
fn an_expiry_of_minus_one_deletes_the_lock_that_was_just_taken() {
    judge(&Pair {
        code: Code::OddExpiry,
        wrong: r#"
            ! A: EVAL "if redis.call('setnx',KEYS[1],ARGV[1])==1 then redis.call('expire',KEYS[1],ARGV[2]) return 1 end return 0" 1 lock {a} -1
        "#,
        right: r#"
            A: EVAL "if redis.call('setnx',KEYS[1],ARGV[1])==1 then redis.call('expire',KEYS[1],ARGV[2]) return 1 end return 0" 1 lock {a} 1
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
        "#,
    });
}

#[test]
fn an_expiry_that_was_rounded_to_nothing_deletes_the_lock() {
    judge(&Pair {
        code: Code::OddExpiry,
        wrong: r#"
            ! A: SETNX lock {a}
            ! A: EXPIRE lock 0
            B: SETNX lock {b}
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
fn an_extension_by_days_is_hardly_meant() {
    judge(&Pair {
        code: Code::OddExpiry,
        wrong: r#"
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            ! A: EXPIRE lock 600000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
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

fn told(played: &Played, code: Code) -> Vec<(Severity, String)> {
    let findings = played.findings();
    let own = findings.iter().filter(|finding| finding.code == code);
    own.map(|finding| (finding.severity, finding.sentence.clone())).collect()
}

#[test]
fn a_crash_between_the_steps_is_told_with_what_others_do_there() {
    let played = play(
        "
            A: SETNX lock {a}
            A: EXPIRE lock 10
            A: DEL lock
            B: SETNX lock {b}
            close B
        ",
    );
    let told = told(&played, Code::ExpiryInSecondStep);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[1].1.contains("B (client") && told[1].1.contains("its connection ended before"), "{told:?}");
    assert!(played.findings().iter().all(|finding| finding.code != Code::NoExpiry));
}

#[test]
fn a_lock_without_expiry_is_told_once_however_often_it_is_taken() {
    let played = play(
        "
            A: SET lock {a} NX
            B: SET lock {b} NX
            A: DEL lock
            A: SET lock {c} NX
            A: DEL lock
        ",
    );
    assert_eq!(told(&played, Code::NoExpiry).len(), 1);
}

#[test]
fn persist_by_the_holder_may_be_meant_and_is_no_error() {
    let played = play("A: SET lock {a} NX PX 1000\nB: SET lock {b} NX PX 1000\nA: PERSIST lock");
    let told = told(&played, Code::ExpiryRemoved);
    assert_eq!(told.iter().map(|(severity, _)| *severity).collect::<Vec<_>>(), [Severity::Warning]);
}

#[test]
fn a_lock_that_is_given_back_by_an_expiry_of_nothing_is_no_odd_one() {
    let played = play("A: SET lock {a} NX PX 1000\nB: SET lock {b} NX PX 1000\nA: PEXPIRE lock 0");
    assert_eq!(told(&played, Code::OddExpiry), []);
}

#[test]
fn a_lock_that_others_delete_between_the_steps_was_to_get_its_expiry() {
    for end in ["B: DEL lock", "", "B: FLUSHALL"] {
        let played = play(&format!("A: SETNX lock {{a}}\nA: EXPIRE lock 10\nA: DEL lock\nA: SETNX lock {{b}}\n{end}"));
        assert_eq!(told(&played, Code::NoExpiry), [], "{end}");
    }
}

#[test]
fn somebody_who_never_gives_an_expiry_is_not_taken_for_somebody_who_would_have() {
    let played = play("A: SETNX lock {a}\nA: EXPIRE lock 10\nA: DEL lock\nB: SET lock {b} NX\nclose B");
    assert_eq!(told(&played, Code::ExpiryInSecondStep).len(), 1);
    assert_eq!(told(&played, Code::NoExpiry).len(), 1);
}

#[test]
fn an_expiry_that_is_given_again_in_the_same_step_was_never_away() {
    let renew = "EVAL \"if redis.call('get',KEYS[1])==ARGV[1] then redis.call('set',KEYS[1],ARGV[1]) \
                 return redis.call('pexpire',KEYS[1],ARGV[2]) end return 0\" 1 lock {a} 10000";
    for renewal in [format!("A: {renew}"), "A: MULTI\nA: SET lock {a}\nA: PEXPIRE lock 10000\nA: EXEC".to_owned()] {
        let played = play(&format!(
            "A: SET lock {{a}} NX PX 10000\nB: SET lock {{b}} NX PX 10000\n{renewal}\nA: RELEASE lock {{a}}"
        ));
        assert_eq!(told(&played, Code::ExpiryRemoved), []);
        assert_eq!(told(&played, Code::NoExpiry), []);
        assert_eq!(told(&played, Code::ExpiryInSecondStep), []);
    }
}
