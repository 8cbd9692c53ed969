//! Locks over several servers.

use redouble::Code;

use super::story::{Pair, judge, nothing_is_found, play, shown};

#[test]
fn a_lock_that_one_of_three_servers_gave_is_used() {
    judge(&Pair {
        code: Code::NoQuorum,
        wrong: "
            C@1: PING
            C@2: SET lock {c} NX PX 10000
            C@3: SET lock {c} NX PX 10000
            ! A@1: SET lock {a} NX PX 10000
            ! A@2: SET lock {a} NX PX 10000
            ! A@3: SET lock {a} NX PX 10000
            +2s
            A@1: SET data 1
            ! A@1: release lock {a}
        ",
        right: "
            C@1: SET lock {c} NX PX 10000
            C@2: SET lock {c} NX PX 10000
            C@3: SET lock {c} NX PX 10000
            C@1: release lock {c}
            A@1: SET lock {a} NX PX 10000
            A@2: SET lock {a} NX PX 10000
            A@3: SET lock {a} NX PX 10000
            A@1: release lock {a}
            A@2: release lock {a}
            A@3: release lock {a}
            +2s
            C@2: release lock {c}
            C@3: release lock {c}
        ",
    });
}

#[test]
fn a_minority_is_enough_for_a_client_to_write_what_others_write_under_the_lock() {
    judge(&Pair {
        code: Code::NoQuorum,
        wrong: "
            B@1: SET lock {b} NX PX 10000
            B@2: SET lock {b} NX PX 10000
            ! A@1: SET lock {a} NX PX 10000
            ! A@2: SET lock {a} NX PX 10000
            ! A@3: SET lock {a} NX PX 10000
            ! A@1: INCR jobs
            B@3: SET lock {b} NX PX 10000
            B@1: INCR jobs
            A@1: release lock {a}
            A@2: release lock {a}
            A@3: release lock {a}
            B@1: release lock {b}
            B@2: release lock {b}
            B@3: release lock {b}
        ",
        // What it counts besides is none of the others' business.
        right: "
            B@1: SET lock {b} NX PX 10000
            B@2: SET lock {b} NX PX 10000
            A@1: SET lock {a} NX PX 10000
            A@2: SET lock {a} NX PX 10000
            A@3: SET lock {a} NX PX 10000
            A@1: INCR refused:A
            A@1: release lock {a}
            A@2: release lock {a}
            A@3: release lock {a}
            B@3: SET lock {b} NX PX 10000
            B@1: INCR jobs
            B@1: release lock {b}
            B@2: release lock {b}
            B@3: release lock {b}
            A@1: INCR jobs
        ",
    });
}

#[test]
fn two_of_five_servers_are_no_majority_however_long_they_are_renewed() {
    judge(&Pair {
        code: Code::NoQuorum,
        wrong: "
            C@3: SET lock {c} NX PX 10000
            C@4: SET lock {c} NX PX 10000
            C@5: SET lock {c} NX PX 10000
            ! A@1: SET lock {a} NX PX 10000
            ! A@2: SET lock {a} NX PX 10000
            ! A@3: SET lock {a} NX PX 10000
            ! A@4: SET lock {a} NX PX 10000
            ! A@5: SET lock {a} NX PX 10000
            ! A@1: extend lock {a} 10000
            A@2: extend lock {a} 10000
        ",
        right: "
            A@1: SET lock {a} NX PX 10000
            A@2: SET lock {a} NX PX 10000
            A@3: SET lock {a} NX PX 10000
            A@4: SET lock {a} NX PX 10000
            A@5: SET lock {a} NX PX 10000
            +5s
            A@1: extend lock {a} 10000
            A@2: extend lock {a} 10000
            A@3: extend lock {a} 10000
            A@4: extend lock {a} 10000
            A@5: extend lock {a} 10000
            C@1: SET lock {c} NX PX 10000
            C@1: release lock {c}
            C@2: release lock {c}
            A@1: release lock {a}
            A@2: release lock {a}
            A@3: release lock {a}
            A@4: release lock {a}
            A@5: release lock {a}
        ",
    });
}

#[test]
fn taking_the_lock_took_as_long_as_it_lives() {
    judge(&Pair {
        code: Code::ValidityUsedUp,
        wrong: "
            A@3: PING
            ! A@1: SET lock {a} NX PX 1000
            ! A@2: SET lock {a} NX PX 1000
            +1100ms
            ! A@3: SET lock {a} NX PX 1000
            +600ms
            A@3: SET data 1
            ! A@3: release lock {a}
            A@2: release lock {a}
            A@1: release lock {a}
        ",
        right: "
            A@3: PING
            A@1: SET lock {a} NX PX 1000
            A@2: SET lock {a} NX PX 1000
            +500ms
            A@3: SET lock {a} NX PX 1000
            A@1: release lock {a}
            A@2: release lock {a}
            A@3: release lock {a}
        ",
    });
}

#[test]
fn several_databases_of_one_server_are_worth_one() {
    judge(&Pair {
        code: Code::OneServer,
        wrong: "
            B: SELECT 1
            ! A: SET lock {a} NX PX 1000
            ! B: SET lock {a} NX PX 1000
        ",
        right: "
            A@1: SET lock {a} NX PX 1000
            A@2: SET lock {a} NX PX 1000
            A@1: release lock {a}
            A@2: release lock {a}
        ",
    });
}

#[test]
fn several_connections_to_one_server_are_worth_one() {
    judge(&Pair {
        code: Code::OneServer,
        wrong: "
            ! a: SET lock {a} NX PX 1000
            ! b: SET lock {a} NX PX 1000
            c: SET lock {a} NX PX 1000
            a: release lock {a}
            b: release lock {a}
            c: release lock {a}
        ",
        right: "
            a: SET lock {a} NX PX 1000
            b: SET lock {b} NX PX 1000
            a: release lock {a}
            b: SET lock {b} NX PX 1000
            b: release lock {b}
        ",
    });
}

#[test]
fn an_attempt_that_failed_leaves_its_lock_on_the_server_that_gave_it() {
    judge(&Pair {
        code: Code::NotReleasedEverywhere,
        wrong: "
            C@2: SET lock {c} NX PX 5000
            C@3: SET lock {c} NX PX 5000
            ! A@1: SET lock {a} NX PX 5000
            ! A@2: SET lock {a} NX PX 5000
            ! A@3: SET lock {a} NX PX 5000
            A@2: release lock {a}
            A@3: release lock {a}
            C@2: release lock {c}
            C@3: release lock {c}
            +6s
            B@1: PING
        ",
        // A server that cannot be reached any more is not blamed on anybody.
        right: "
            C@2: SET lock {c} NX PX 5000
            C@3: SET lock {c} NX PX 5000
            A@1: SET lock {a} NX PX 5000
            A@2: SET lock {a} NX PX 5000
            A@3: SET lock {a} NX PX 5000
            restart
            A@2: release lock {a}
            A@3: release lock {a}
            C@2: release lock {c}
            C@3: release lock {c}
            +6s
            B@1: PING
        ",
    });
}

#[test]
fn releases_on_servers_that_never_gave_the_lock_and_attempts_that_meet_are_right() {
    let played = play(
        "
        A@1: SET lock {a} NX PX 5000
        B@3: SET lock {b} NX PX 5000
        A@2: SET lock {a} NX PX 5000
        B@2: SET lock {b} NX PX 5000
        A@3: SET lock {a} NX PX 5000
        B@1: SET lock {b} NX PX 5000
        B@1: release lock {b}
        B@2: release lock {b}
        B@3: release lock {b}
        +1s
        A@1: SET data 1
        A@1: release lock {a}
        A@2: release lock {a}
        A@3: release lock {a}
        ",
    );
    let told: String = played.findings().iter().map(|finding| shown(&played, finding)).collect();
    assert!(told.is_empty(), "{told}");
}

#[test]
fn a_server_that_is_down_makes_no_majority_a_minority() {
    let played = play(
        "
        A@1: SET lock {a} NX PX 5000
        A@2: SET lock {a} NX PX 5000
        A@3: SET lock {a} NX PX 5000
        A@1: release lock {a}
        A@2: release lock {a}
        A@3: release lock {a}
        A@1: SET lock {b} NX PX 5000
        A@2: SET lock {b} NX PX 5000
        +3s
        A@1: SET data 1
        A@1: release lock {b}
        A@2: release lock {b}
        A@3: release lock {b}
        ",
    );
    let told: String = played.findings().iter().map(|finding| shown(&played, finding)).collect();
    assert!(told.is_empty(), "{told}");
}

#[test]
fn a_client_asks_no_more_servers_than_one_and_releases_on_all() {
    let story = "
        C@3: PING
        a@1: SET lock {a} NX PX 10000
        b@1: SET lock {b} NX PX 10000
        b@2: SET lock {b} NX PX 10000
        a@1: release lock {a}
        a@2: release lock {a}
        a@3: release lock {a}
        b@1: release lock {b}
        b@2: release lock {b}
        b@3: release lock {b}
    ";
    let told = play(story).findings();
    let errors = told.iter().filter(|finding| finding.code == Code::NoQuorum).count();
    assert_eq!(errors, 2, "{told:?}");
    // Two of three are enough, and whoever has not got them asks all.
    nothing_is_found(
        "
        C@3: PING
        a@1: SET lock {a} NX PX 10000
        a@2: SET lock {a} NX PX 10000
        b@1: SET lock {b} NX PX 10000
        b@2: SET lock {b} NX PX 10000
        b@3: SET lock {b} NX PX 10000
        b@1: release lock {b}
        b@2: release lock {b}
        b@3: release lock {b}
        a@1: release lock {a}
        a@2: release lock {a}
        a@3: release lock {a}
        ",
    );
}
