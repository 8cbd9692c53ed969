//! How clients wait for locks.

use redouble::{Code, Severity};

use super::story::{Pair, found, judge, play, shown};

#[test]
fn a_client_that_tries_without_a_pause_is_a_storm() {
    judge(&Pair {
        code: Code::RetryStorm,
        wrong: "
            A: SET lock {a} NX PX 60000
            B: PING
            pace 1ms
            ! B: SET lock {b} NX PX 60000
            49 times B: SET lock {b} NX PX 60000
            ! B: SET lock {b} NX PX 60000
            A: release lock {a}
        ",
        right: "
            A: SET lock {a} NX PX 60000
            B: PING
            pace 50ms
            60 times B: SET lock {b} NX PX 60000
            A: release lock {a}
        ",
    });
}

#[test]
fn more_than_two_hundred_attempts_in_a_second_are_a_storm() {
    judge(&Pair {
        code: Code::RetryStorm,
        wrong: "
            A: SET lock {a} NX PX 60000
            B: PING
            pace 4ms
            201 times B: SET lock {b} NX PX 60000
            A: release lock {a}
        ",
        right: "
            A: SET lock {a} NX PX 60000
            B: PING
            pace 6ms
            201 times B: SET lock {b} NX PX 60000
            A: release lock {a}
        ",
    });
}

#[test]
fn attempts_between_which_a_test_moves_the_clock_are_no_storm_and_not_in_step() {
    let played = play(
        "
        A: SET lock {a} NX PX 60000
        B: PING
        pace 1ms
        60 times +100ms B: SET lock {b} NX PX 60000 | C: SET lock {c} NX PX 60000
        A: release lock {a}
        ",
    );
    let told: String = played.findings().iter().map(|finding| shown(&played, finding)).collect();
    assert!(told.is_empty(), "{told}");
}

#[test]
fn whoever_waits_at_a_list_for_a_signal_makes_no_storm() {
    let played = play(
        "
        A: SET lock {a} NX PX 60000
        B: SET lock {b} NX PX 60000
        A: LPUSH lock-signal 1
        B: BLPOP lock-signal 1
        A: release lock {a}
        B: SET lock {b} NX PX 60000
        B: release lock {b}
        ",
    );
    let told: String = played.findings().iter().map(|finding| shown(&played, finding)).collect();
    assert!(told.is_empty(), "{told}");
}

#[test]
fn clients_that_try_at_equal_distances_come_in_step() {
    judge(&Pair {
        code: Code::RetryInStep,
        wrong: "
            A: SET lock {a} NX PX 60000
            B: PING
            C: PING
            pace 50ms
            ! B: SET lock {b} NX PX 60000
            6 times C: SET lock {c} NX PX 60000 | B: SET lock {b} NX PX 60000
            C: SET lock {c} NX PX 60000
            B: SET lock {b} NX PX 60000
            ! C: SET lock {c} NX PX 60000
            ! B: SET lock {b} NX PX 60000
            A: release lock {a}
        ",
        right: "
            A: SET lock {a} NX PX 60000
            B: PING
            C: PING
            pace 50ms
            2 times B: SET lock {b} NX PX 60000 | C: SET lock {c} NX PX 60000
            pace 80ms
            2 times B: SET lock {b} NX PX 60000 | C: SET lock {c} NX PX 60000
            pace 30ms
            2 times B: SET lock {b} NX PX 60000 | C: SET lock {c} NX PX 60000
            pace 110ms
            2 times B: SET lock {b} NX PX 60000 | C: SET lock {c} NX PX 60000
            pace 60ms
            2 times B: SET lock {b} NX PX 60000 | C: SET lock {c} NX PX 60000
            A: release lock {a}
        ",
    });
}

#[test]
fn five_workers_in_step_at_one_lock_are_told_once() {
    let names = ["b", "c", "d", "e", "f"];
    let greetings: String = names.iter().map(|name| format!("{name}: PING\n")).collect();
    let round: Vec<_> = names.iter().map(|name| format!("{name}: SET lock {{b}} NX PX 60000")).collect();
    let played =
        play(&format!("A: SET lock {{a}} NX PX 60000\n{greetings}pace 50ms\n10 times {}\n", round.join(" | ")));
    let told = played.findings().iter().filter(|finding| finding.code == Code::RetryInStep).count();
    assert_eq!(told, 1);
}

#[test]
fn a_storm_is_seen_although_many_have_tried_before() {
    let others: String = (0..70).map(|other| format!("c{}: SET lock {{b}} NX PX 60000\n", letters(other))).collect();
    let played = play(&format!(
        "A: SET lock {{a}} NX PX 60000\n{others}B: PING\npace 1ms\n60 times B: SET lock {{b}} NX PX 60000\n"
    ));
    assert!(played.findings().iter().any(|finding| finding.code == Code::RetryStorm));
}

fn letters(number: u8) -> String {
    [b'a' + number / 26, b'a' + number % 26].map(char::from).iter().collect()
}

#[test]
fn one_client_alone_may_try_at_equal_distances() {
    let played = play(
        "
        A: SET lock {a} NX PX 60000
        B: PING
        pace 100ms
        20 times B: SET lock {b} NX PX 60000
        A: release lock {a}
        ",
    );
    assert!(played.findings().is_empty());
}

#[test]
fn a_holder_that_takes_its_lock_again_waits_for_itself() {
    judge(&Pair {
        code: Code::SelfDeadlock,
        wrong: "
            ! A: SET lock {a} NX PX 3000
            ! A: SET lock {b} NX PX 3000
            +1s
            A: SET lock {b} NX PX 3000
            +1s
            ! A: SET lock {b} NX PX 3000
            +2s
            A: SET lock {b} NX PX 3000
            A: release lock {b}
        ",
        // A program whose parts share a connection, and the holder releases in the end.
        right: "
            A: SET lock {a} NX PX 3000
            4 times +100ms A: SET lock {b} NX PX 3000
            A: release lock {a}
            A: SET lock {b} NX PX 3000
            A: release lock {b}
        ",
    });
}

#[test]
fn clients_that_take_two_locks_in_different_orders_wait_for_each_other() {
    judge(&Pair {
        code: Code::LockOrder,
        wrong: "
            ! A: SET x {a} NX PX 60000
            ! B: SET y {b} NX PX 60000
            ! A: SET y {a} NX PX 60000
            ! B: SET x {b} NX PX 60000
            ! A: SET y {a} NX PX 60000
            ! B: SET x {b} NX PX 60000
        ",
        right: "
            A: SET x {a} NX PX 60000
            B: SET x {b} NX PX 60000
            A: SET y {a} NX PX 60000
            B: SET x {b} NX PX 60000
            A: release y {a}
            A: release x {a}
            B: SET x {b} NX PX 60000
            B: SET y {b} NX PX 60000
            B: release y {b}
            B: release x {b}
        ",
    });
}

#[test]
fn threads_that_share_the_connections_of_a_pool_wait_for_each_other_only_if_that_lasts() {
    // What a connection holds and what it waits for may be two threads' business.
    let refused = "a: SET y {c} NX PX 60000 | b: SET x {d} NX PX 60000";
    let begun = "a: SET x {a} NX PX 60000\nb: SET y {b} NX PX 60000\n";
    assert!(found(Code::LockOrder, &format!("{begun}20 times {refused}")).is_none());
    let told = found(Code::LockOrder, &format!("{begun}20 times {refused}\n+2s\n2 times {refused}"));
    assert_eq!(told.map(|finding| finding.severity), Some(Severity::Warning));
}

#[test]
fn three_clients_wait_for_each_other_in_a_circle() {
    judge(&Pair {
        code: Code::LockOrder,
        wrong: "
            A: SET x {a} NX PX 60000
            B: SET y {b} NX PX 60000
            C: SET z {c} NX PX 60000
            3 times A: SET y {a} NX PX 60000 | B: SET z {b} NX PX 60000 | C: SET x {c} NX PX 60000
        ",
        // Whoever is refused gives back what it has, and nobody waits.
        right: "
            A: SET x {a} NX PX 60000
            B: SET y {b} NX PX 60000
            A: SET y {a} NX PX 60000
            B: SET x {b} NX PX 60000
            A: release x {a}
            B: release y {b}
            B: SET x {b} NX PX 60000
            A: SET y {a} NX PX 60000
            B: SET y {b} NX PX 60000
            A: SET x {a} NX PX 60000
            B: release x {b}
            A: release y {a}
        ",
    });
}

#[test]
fn a_job_that_runs_once_a_minute_does_not_wait_for_itself() {
    // Whoever comes first does it, and leaves the lock to its expiry, so that it is not done again before.
    for tokens in [["{a}", "{c}", "{d}", "{e}"], ["host-1"; 4]] {
        let mut story = format!("A: SET cron:lock {} NX PX 60000\nB: SET cron:lock {{b}} NX PX 60000\n", tokens[0]);
        for token in &tokens[1..] {
            story.push_str(&format!("+10s\nA: SET cron:lock {token} NX PX 60000\n"));
        }
        story.push_str("+40s\nA: PING");
        let told = found(Code::SelfDeadlock, &story).expect("it is told");
        assert_eq!(told.severity, Severity::Warning, "{story}");
    }
}
