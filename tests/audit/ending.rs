//! How locks are let go, or are not.

use redouble::{Code, Severity};

use super::story::{Pair, judge, play, shown};

#[test]
fn a_connection_that_ends_with_a_lock_leaves_others_waiting_until_it_expires() {
    judge(&Pair {
        code: Code::HeldAtDisconnect,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            close A
            ! B: SET lock {b} NX PX 10000
            +11s
            B: SET lock {c} NX PX 10000
            B: release lock {c}
        ",
        right: "
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: release lock {a}
            close A
            B: SET lock {c} NX PX 10000
            B: release lock {c}
        ",
    });
}

#[test]
fn a_lock_without_expiry_is_locked_for_good_when_its_connection_ends() {
    let played = play(
        "
        A: SET lock {a} NX
        B: SET lock {b} NX
        close A
        B: SET lock {c} NX
        ",
    );
    let findings = played.findings();
    let found = findings.iter().find(|finding| finding.code == Code::HeldAtDisconnect).expect("it is told");
    assert!(found.sentence.contains("it has no expiry"), "{}", found.sentence);
    assert!(found.sentence.contains("B (client"), "{}", found.sentence);
}

#[test]
fn a_pool_that_drops_the_connection_of_a_holder_and_releases_over_another_is_not_blamed() {
    for story in [
        // The same program, by name.
        "
        A: SET lock {a} NX PX 10000
        close A
        b: SET lock {b} NX PX 10000
        A: release lock {a}
        ",
        // Somebody without a name who knows the token.
        "
        a: SET lock {a} NX PX 10000
        b: SET lock {b} NX PX 10000
        close a
        c: extend lock {a} 20000
        c: release lock {a}
        ",
    ] {
        let played = play(story);
        let told: String = played.findings().iter().map(|finding| shown(&played, finding)).collect();
        assert!(told.is_empty(), "{story}\n{told}");
    }
}

#[test]
fn a_lock_that_somebody_renews_after_its_connection_ended_was_not_left_behind() {
    let played = play(
        "
        a: SET lock {a} NX PX 10000
        b: SET lock {b} NX PX 10000
        close a
        c: extend lock {a} 20000
        +30s
        c: PING
        ",
    );
    assert!(played.findings().iter().all(|finding| finding.code != Code::HeldAtDisconnect));
}

#[test]
fn whoever_has_looked_after_a_lost_reply_knows_that_it_has_the_lock() {
    let played = play(
        "
        lost A: SET lock {a} NX PX 10000
        B: SET lock {b} NX PX 10000
        A: GET lock
        +11s
        A: PING
        ",
    );
    assert!(played.findings().iter().all(|finding| finding.code != Code::LostAndNotReleased));
}

#[test]
fn a_member_of_a_hash_that_is_released_over_another_connection_is_not_left_behind() {
    let lock = "EVAL \"if redis.call('exists',KEYS[1])==0 then redis.call('hincrby',KEYS[1],ARGV[1],1) \
                redis.call('pexpire',KEYS[1],30000) return nil end return redis.call('pttl',KEYS[1])\" 1 lock {a}:1";
    let unlock = "EVAL \"if redis.call('hexists',KEYS[1],ARGV[1])==0 then return nil end \
                  if redis.call('hincrby',KEYS[1],ARGV[1],-1)>0 then return 0 end \
                  redis.call('del',KEYS[1]) return 1\" 1 lock {a}:1";
    let right = play(&format!("A: {lock}\nclose A\nA: {unlock}\nA: PING"));
    let told: String = right.findings().iter().map(|finding| shown(&right, finding)).collect();
    assert!(told.is_empty(), "{told}");
    let wrong = play(&format!("A: {lock}\nclose A\n+31s\nA: PING"));
    assert_eq!(wrong.findings()[0].code, Code::HeldAtDisconnect);
}

#[test]
fn a_lock_that_nobody_releases_by_the_end_is_leaked() {
    judge(&Pair {
        code: Code::Leaked,
        wrong: "
            ! A: SET lock {a} NX PX 60000
            B: SET lock {b} NX PX 60000
        ",
        right: "
            A: SET lock {a} NX PX 60000
            B: SET lock {b} NX PX 60000
            A: release lock {a}
        ",
    });
}

#[test]
fn a_lock_whose_time_a_test_lets_pass_at_the_end_is_not_leaked() {
    let story = "A: SET lock {a} NX PX 1000\nB: SET lock {b} NX PX 1000";
    assert!(play(&format!("{story}\n+1000ms")).findings().iter().any(|finding| finding.code == Code::Leaked));
    let over = play(&format!("{story}\n+500ms\n+501ms"));
    let told: String = over.findings().iter().map(|finding| shown(&over, finding)).collect();
    assert!(told.is_empty(), "{told}");
}

#[test]
fn a_cache_entry_that_stays_is_not_leaked() {
    let played = play("A: SET page:1 html NX PX 60000\nB: GET page:1\nclose A");
    assert!(played.findings().is_empty());
}

#[test]
fn a_lock_whose_reply_was_lost_stays_locked_if_nobody_releases_it() {
    judge(&Pair {
        code: Code::LostAndNotReleased,
        wrong: "
            ! lost A: SET lock {a} NX PX 10000
            ! B: SET lock {b} NX PX 10000
            +11s
            B: SET lock {c} NX PX 10000
            B: release lock {c}
        ",
        right: "
            lost A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: release lock {a}
            B: SET lock {c} NX PX 10000
            B: release lock {c}
        ",
    });
}

#[test]
fn whoever_looks_after_a_lost_reply_and_finds_its_token_has_the_lock() {
    judge(&Pair {
        code: Code::LostAndNotReleased,
        wrong: "
            ! lost A: SET lock {a} NX PX 10000
            ! B: SET lock {b} NX PX 10000
            A: GET other
        ",
        right: "
            lost A: SET lock {a} NX PX 10000
            A: SET lock {a} NX PX 10000
            A: GET lock
            A: SET data 1
            A: release lock {a}
        ",
    });
}

#[test]
fn a_client_that_offers_a_new_token_after_a_lost_reply_is_refused_by_its_own_lock() {
    judge(&Pair {
        code: Code::RefusedByItself,
        wrong: "
            ! lost A: SET lock {a} NX PX 10000
            ! A: SET lock {b} NX PX 10000
            +11s
            B: SET lock {c} NX PX 10000
            B: release lock {c}
        ",
        right: "
            lost A: SET lock {a} NX PX 10000
            A: release lock {a}
            A: SET lock {b} NX PX 10000
            B: SET lock {c} NX PX 10000
            A: release lock {b}
        ",
    });
}

#[test]
fn a_client_that_offers_the_same_token_again_and_believes_the_refusal_is_refused_by_itself() {
    judge(&Pair {
        code: Code::RefusedByItself,
        wrong: "
            ! lost a: SET lock {a} NX PX 10000
            ! a: SET lock {a} NX PX 10000
            b: SET lock {b} NX PX 10000
            +11s
            b: PING
        ",
        right: "
            lost a: SET lock {a} NX PX 10000
            a: SET lock {a} NX PX 10000
            a: release lock {a}
        ",
    });
}

#[test]
fn a_flush_deletes_locks_that_others_hold() {
    judge(&Pair {
        code: Code::FlushedLocks,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            C: SET lock {c} NX PX 10000
            ! B: FLUSHALL
        ",
        right: "
            A: SET lock {a} NX PX 10000
            C: SET lock {c} NX PX 10000
            A: release lock {a}
            B: FLUSHALL
        ",
    });
}

#[test]
fn a_flush_of_unknown_origin_is_told_of_only_if_the_holder_still_counted_on_its_lock() {
    judge(&Pair {
        code: Code::FlushedLocks,
        wrong: "
            ! a: SET lock {a} NX PX 10000
            c: SET lock {c} NX PX 10000
            ! b: FLUSHDB
            ! a: release lock {a}
        ",
        // A test that cleans up: its client holds the lock still, but does not come back.
        right: "
            a: SET lock {a} NX PX 10000
            c: SET lock {c} NX PX 10000
            b: FLUSHDB
            close a
            A: SET lock {b} NX PX 10000
            C: SET lock {c} NX PX 10000
            A: FLUSHALL
        ",
    });
}

#[test]
fn a_full_server_evicts_a_lock_that_is_held() {
    judge(&Pair {
        code: Code::EvictedLock,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            C: SET lock {c} NX PX 10000
            D: CONFIG SET maxmemory-policy volatile-ttl maxmemory 1
            D: PING
        ",
        // Nobody is harmed: the one lock is free, and who wants the other one is refused.
        right: "
            A: SET lock {a} NX PX 10000
            C: SET lock {c} NX PX 10000
            A: RELEASE lock {a}
            D: SET cached {d}
            D: CONFIG SET maxmemory-policy allkeys-lru maxmemory 1
            D: PING
            D: CONFIG SET maxmemory-policy noeviction maxmemory 0
            A: SET lock {b} NX PX 10000
            D: CONFIG SET maxmemory 1
            C: GET lock
            A: RELEASE lock {b}
        ",
    });
}

#[test]
fn another_client_takes_a_lock_that_was_evicted_and_both_have_it() {
    judge(&Pair {
        code: Code::TwoHolders,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            C: SET lock {c} NX PX 10000
            D: CONFIG SET maxmemory-policy allkeys-random maxmemory 1
            D: CONFIG SET maxmemory 0
            ! C: SET lock {c} NX PX 10000
        ",
        right: "
            A: SET lock {a} NX PX 10000
            C: SET lock {c} NX PX 10000
            D: CONFIG SET maxmemory 1
            D: CONFIG SET maxmemory 0
            C: SET lock {c} NX PX 10000
            A: RELEASE lock {a}
        ",
    });
}

#[test]
fn a_lock_that_was_lost_to_a_flush_is_released_by_its_key_when_another_has_it() {
    judge(&Pair {
        code: Code::ReleaseAfterFlush,
        wrong: "
            ! A: SET lock {a} NX PX 60000
            C: SET lock {c} NX PX 60000
            ! D: FLUSHALL
            ! B: SET lock {b} NX PX 60000
            ! A: DEL lock
        ",
        right: "
            A: SET lock {a} NX PX 60000
            C: SET lock {c} NX PX 60000
            A: release lock {a}
            D: FLUSHALL
            B: SET lock {b} NX PX 60000
            A: PING
            B: release lock {b}
        ",
    });
}

#[test]
fn a_server_that_comes_back_empty_gives_the_lock_to_another_and_its_first_holder_deletes_it() {
    judge(&Pair {
        code: Code::ReleaseAfterFlush,
        wrong: "
            ! A: SET lock {a} NX PX 60000
            C: SET lock {c} NX PX 60000
            restart
            ! B: SET lock {b} NX PX 60000
            ! A: DEL lock
        ",
        right: "
            A: SET lock {a} NX PX 60000
            C: SET lock {c} NX PX 60000
            A: release lock {a}
            restart
            B: SET lock {b} NX PX 60000
            B: release lock {b}
        ",
    });
}

#[test]
fn a_lock_that_went_with_the_server_is_nobodys_fault() {
    let played = play("A: SET lock {a} NX PX 60000\nC: SET lock {c} NX PX 60000\nrestart\nB: PING");
    let told: String = played.findings().iter().map(|finding| shown(&played, finding)).collect();
    assert!(told.is_empty(), "{told}");
}

#[test]
fn a_lock_that_was_renewed_and_then_not_any_more_expires_under_its_working_holder() {
    judge(&Pair {
        code: Code::RenewalStopped,
        wrong: "
            ! A: SET lock {a} NX PX 3000
            A: SET data 1
            +1s
            A: extend lock {a} 3000
            +1s
            A: extend lock {a} 3000
            +1s
            ! A: extend lock {a} 3000
            +2s
            A: SET other 2
            +2s
            B: SET lock {b} NX PX 3000
            B: release lock {b}
        ",
        right: "
            A: SET lock {a} NX PX 3000
            A: SET data 1
            9 times +1s A: extend lock {a} 3000
            A: SET data 2
            A: release lock {a}
            +9s
            B: SET lock {b} NX PX 3000
            B: release lock {b}
        ",
    });
}

#[test]
fn whoever_comes_back_long_after_the_last_renewal_has_not_watched_over_it() {
    judge(&Pair {
        code: Code::RenewalStopped,
        wrong: "
            ! A: SET lock {a} NX PX 3000
            pace 1000ms
            +1s
            A: extend lock {a} 3000
            +1s
            ! A: extend lock {a} 3000
            pace 4000ms
            +4s
            A: release lock {a}
        ",
        right: "
            A: SET lock {a} NX PX 3000
            pace 1000ms
            4 times +1s A: extend lock {a} 3000
            A: release lock {a}
        ",
    });
}

#[test]
fn a_test_that_moves_the_clock_over_the_end_of_a_renewed_lock_is_no_stopped_renewal() {
    let played = play(
        "
        A: SET lock {a} NX PX 3000
        3 times +1s A: extend lock {a} 3000
        +1h
        A: release lock {a}
        ",
    );
    assert!(played.findings().iter().all(|finding| finding.code != Code::RenewalStopped));
}

#[test]
fn a_lock_that_is_renewed_for_ever_although_the_work_is_done() {
    judge(&Pair {
        code: Code::RenewalNeverStops,
        wrong: "
            ! A: SET lock {a} NX PX 3000
            A: SET data 1
            24 times +1s A: extend lock {a} 3000
            +1s
            ! A: extend lock {a} 3000
        ",
        right: "
            A: SET lock {a} NX PX 3000
            A: SET data 1
            25 times +1s A: extend lock {a} 3000
            A: SET data 2
            A: release lock {a}
        ",
    });
}

#[test]
fn renewals_that_the_end_of_the_connection_ends_have_gone_on_for_ever_too() {
    let played = play(
        "
        A: SET lock {a} NX PX 3000
        A: SET data 1
        25 times +1s A: extend lock {a} 3000
        close A
        +5s
        B: PING
        ",
    );
    let codes: Vec<Code> = played.findings().iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [Code::RenewalNeverStops]);
}

#[test]
fn a_leader_that_renews_its_lock_while_it_works_is_not_said_to_renew_for_ever() {
    let played = play(
        "
        A: SET leader {a} NX PX 3000
        25 times +1s A: extend leader {a} 3000 | A: INCR term
        ",
    );
    let codes: Vec<Code> = played.findings().iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [Code::Leaked]);
}

#[test]
fn a_name_that_several_parts_of_a_program_may_share_is_blamed_less() {
    let played = play(
        "
        A: PING
        B: PING
        A: SET lock {a} NX PX 3000
        B: SET lock {b} NX PX 3000
        B: SET lock {b} NX PX 3000
        B: SET lock {b} NX PX 3000
        +4s
        A: PING
        ",
    );
    let deadlocks = played.findings().iter().filter(|finding| finding.code == Code::SelfDeadlock).count();
    assert_eq!(deadlocks, 0, "two programs wait for each other's locks and nobody waits for its own");
    assert!(played.findings().iter().all(|finding| finding.severity < Severity::Error));
}
