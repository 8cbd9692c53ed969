//! Locks that nobody declares and that are no `SET NX`: they are known by what clients do, and what looks like them is not.

use redouble::{Code, Severity};

use super::story::{play, shown};

/// An error of this kind is found.
#[track_caller]
fn error(code: Code, story: &str) {
    let played = play(story);
    let findings = played.findings();
    let told = findings.iter().map(|finding| shown(&played, finding)).collect::<String>();
    let is_it = findings.iter().any(|finding| finding.severity == Severity::Error && finding.code == code);
    assert!(is_it, "no {} in\n{story}\n{told}", code.name());
}

/// No error is found.
#[track_caller]
fn no_error(story: &str) {
    let played = play(story);
    let errors = played.findings().into_iter().filter(|finding| finding.severity == Severity::Error);
    let told = errors.map(|finding| shown(&played, &finding)).collect::<String>();
    assert!(told.is_empty(), "found in\n{story}\n{told}");
}

#[test]
fn two_find_a_key_free_and_both_set_it() {
    for look in ["GET", "EXISTS"] {
        let story = format!(
            "
            A: {look} import:owner
            B: {look} import:owner
            A: SET import:owner worker-1 PX 30000
            B: SET import:owner worker-2 PX 30000
            A: INCR import:rows
            B: INCR import:rows
            B: DEL import:owner
            "
        );
        error(Code::OverwroteLiveLock, &story);
    }
}

#[test]
fn the_name_of_a_key_says_lock_and_two_find_it_free() {
    error(
        Code::OverwroteLiveLock,
        "
        A: EXISTS report:lock
        B: EXISTS report:lock
        A: SET report:lock 1 EX 60
        B: SET report:lock 1 EX 60
        ",
    );
}

#[test]
fn a_lock_that_nobody_was_refused_by_is_deleted_by_its_former_holder() {
    error(
        Code::ForeignRelease,
        "
        A: SET relay relay-1 NX PX 500
        A: GET sequence
        +501ms
        B: SET relay relay-2 NX PX 500
        A: SET sequence 21
        A: DEL relay
        C: SET relay relay-3 NX PX 500
        B: SET sequence 21
        C: SET sequence 22
        B: DEL relay
        C: DEL relay
        ",
    );
}

#[test]
fn a_lock_between_watch_and_exec_is_deleted_by_whoever_was_refused() {
    error(
        Code::BlindDelete,
        "
        A: WATCH order:lock
        A: GET order:lock
        A: MULTI
        A: SET order:lock a3b1c9d07e5f4821 PX 30000
        A: EXEC
        A: INCR order
        B: WATCH order:lock
        B: GET order:lock
        B: UNWATCH
        B: DEL order:lock
        A: INCR order
        A: DEL order:lock
        ",
    );
}

#[test]
fn whoever_was_refused_gives_a_place_back() {
    for (take, leave) in [("SADD hosts shop", "SREM hosts shop"), ("HSETNX hosts shop 1", "HDEL hosts shop")] {
        let story = format!(
            "
            A: {take}
            A: INCR fetching
            B: {take}
            B: {leave}
            C: {take}
            C: INCR fetching
            A: DECR fetching
            A: {leave}
            C: DECR fetching
            C: {leave}
            "
        );
        error(Code::BlindDelete, &story);
    }
}

#[test]
fn a_counter_that_is_over_is_counted_down_by_its_former_holder() {
    error(
        Code::ForeignRelease,
        "
        A: INCR busy
        A: PEXPIRE busy 400
        A: GET last
        +401ms
        B: INCR busy
        B: GET last
        A: SET last 1
        A: DECR busy
        C: INCR busy
        B: SET last 1
        B: DECR busy
        ",
    );
}

#[test]
fn two_find_a_counter_free_and_both_work() {
    error(
        Code::CheckedThenTaken,
        "
        A: GET printer
        B: GET printer
        A: INCR printer
        B: INCR printer
        A: SET label 1
        B: SET label 2
        A: SET label 3
        B: DECR printer
        A: DECR printer
        ",
    );
}

#[test]
fn a_token_is_put_into_a_list_that_another_client_has() {
    error(
        Code::TwoHolders,
        "
        A: RPUSH seats s-1
        B: LPOP seats
        B: INCR used
        A: RPUSH seats s-1
        C: LPOP seats
        C: INCR used
        B: DECR used
        B: RPUSH seats s-1
        C: DECR used
        C: RPUSH seats s-1
        ",
    );
}

#[test]
fn two_count_the_members_and_both_add_themselves() {
    error(
        Code::CheckedThenTaken,
        "
        A: ZCARD slots
        B: ZCARD slots
        B: ZADD slots 100 8c6594b709f14f408233cbe90ff27b94
        A: ZADD slots 101 f804c1b9978c4ea698d7c2ef7cd28aab
        B: ZREM slots 8c6594b709f14f408233cbe90ff27b94
        A: ZREM slots f804c1b9978c4ea698d7c2ef7cd28aab
        ",
    );
}

#[test]
fn a_cache_that_two_fill_is_no_lock() {
    for look in ["GET", "EXISTS"] {
        for value in ["42", "Alice", "[Alice,7]", "true"] {
            no_error(&format!(
                "
                A: {look} cache:user:7
                B: {look} cache:user:7
                A: SET cache:user:7 {value} EX 60
                B: SET cache:user:7 {value} EX 60
                C: GET cache:user:7
                A: SET user:7 Bob
                A: DEL cache:user:7
                B: GET cache:user:7
                B: SET cache:user:7 {value} EX 60
                "
            ));
        }
    }
}

#[test]
fn counters_gauges_and_limiters_are_no_locks() {
    for story in [
        // Whoever comes second goes on.
        "
        A: INCR active
        A: SET seen:a 1
        A: SET last 1
        B: INCR active
        B: SET last 2
        A: SET last 3
        A: DECR active
        B: DECR active
        ",
        "
        A: INCR limit:ip
        A: EXPIRE limit:ip 60
        A: SET page 1
        B: INCR limit:ip
        B: SET page 2
        +61s
        B: INCR limit:ip
        B: EXPIRE limit:ip 60
        A: INCR limit:ip
        ",
        "
        A: ZREMRANGEBYSCORE window 0 10
        A: ZCARD window
        B: ZCARD window
        A: ZADD window 100 8c6594b709f14f408233cbe90ff27b94
        B: ZADD window 101 f804c1b9978c4ea698d7c2ef7cd28aab
        A: INCR served
        B: INCR served
        ",
        // Meters that are read out and begin anew.
        "
        A: INCRBY meter:a 1
        C: GETDEL meter:a
        A: GET meter:a
        B: INCRBY meter:a 1
        B: GET meter:a
        A: INCRBY meter:b 2
        B: INCRBY meter:b 2
        A: INCRBY meter:a 2
        A: GET meter:a
        A: INCRBY meter:b 3
        B: INCRBY meter:b 2
        A: INCRBY meter:a 1
        C: DEL meter:a
        A: INCRBY meter:a 1
        B: INCRBY meter:b 2
        ",
        "
        A: INCR invoice:number
        A: SET invoice:1 a
        B: INCR invoice:number
        B: SET invoice:2 b
        ",
    ] {
        no_error(story);
    }
}

#[test]
fn marks_claims_and_queues_are_no_locks() {
    for story in [
        "
        A: SADD seen evt-1
        A: INCR credit
        B: SADD seen evt-1
        B: SADD seen evt-2
        B: INCR credit
        ",
        "
        A: SET idem:7 1 NX EX 600
        A: INCR paid
        B: SET idem:7 1 NX EX 600
        +601s
        B: SET idem:7 1 NX EX 600
        B: INCR paid
        A: INCR paid
        ",
        "
        A: RPUSH jobs j-1 j-2
        B: LPOP jobs
        C: LPOP jobs
        B: INCR done
        B: RPUSH jobs j-1
        C: INCR done
        A: LPOP jobs
        A: INCR done
        ",
        "
        A: HSETNX users alice 1
        A: INCR signups
        B: HSETNX users alice 2
        B: HSETNX users bob 1
        B: INCR signups
        A: HDEL users alice
        ",
        // Whoever is told that the member is there writes all the same.
        "
        A: SADD online alice
        A: SET last:alice 1
        B: SADD online alice
        B: SET last:alice 2
        B: SREM online alice
        C: SADD online alice
        C: SET last:alice 3
        A: SET last:alice 4
        A: SREM online alice
        C: SREM online alice
        ",
        "
        A: ZADD board 10 alice
        B: ZADD board 20 bob
        A: ZCARD board
        B: ZRANK board bob
        A: SET best bob
        B: SET best bob
        A: ZREM board alice
        B: ZREM board bob
        ",
    ] {
        no_error(story);
    }
}

#[test]
fn flags_sessions_and_defaults_are_no_locks() {
    for story in [
        "
        A: EXISTS feature:x
        B: EXISTS feature:x
        A: SET feature:x on
        B: SET feature:x on
        A: INCR visits
        B: INCR visits
        A: SET feature:x off
        C: GET feature:x
        ",
        "
        A: GET session:7
        A: SET session:7 alice EX 60
        A: SET cart:7 1
        +61s
        B: GET session:7
        B: SET session:7 alice EX 60
        B: SET cart:7 2
        A: SET cart:7 3
        B: DEL session:7
        ",
        "
        A: WATCH stock
        A: GET stock
        A: MULTI
        A: SET stock 5
        A: EXEC
        B: WATCH stock
        B: GET stock
        B: MULTI
        B: SET stock 4
        B: EXEC
        A: SET stock 9
        ",
        "
        A: GET total
        A: SET total 1
        B: GET total
        B: SET total 2
        A: GET total
        A: SET total 3
        ",
    ] {
        no_error(story);
    }
}

#[test]
fn data_that_is_made_under_a_lock_is_no_lock_itself() {
    error(
        Code::WorkAfterExpiry,
        "
        A: SET payouts:lock {a} NX PX 300
        B: SET payouts:lock {b} NX PX 300
        A: GET payouts:last
        A: SET payouts:last 1
        +301ms
        B: SET payouts:lock {b} NX PX 300
        A: SET payouts:last 2
        A: RELEASE payouts:lock {a}
        ",
    );
}

#[test]
fn a_lock_that_is_taken_in_two_steps_is_found_beside_a_cache_that_is_filled_in_the_same_way() {
    let page = |number: u32| {
        format!("A: GET page:{number}\nA: SET page:{number} text-of-the-page EX 60\nB: GET page:{number}\n")
    };
    let pages: String = (0..60).map(page).collect();
    let race = "
        A: GET relay
        B: GET relay
        A: SET relay relay-1
        B: SET relay relay-2
        A: SET sequence 1
        B: SET sequence 2
        A: DEL relay
        B: DEL relay
        ";
    let played = play(&format!("{pages}{race}"));
    assert!(played.why("relay").contains("guards"), "{}", played.why("relay"));
    // The pages are none, and those that come are not followed any more.
    let played = play(&format!("{pages}{}", page(60)));
    assert!(
        played.why("page:60").contains("not seen") || played.why("page:60").contains("no lock"),
        "{}",
        played.why("page:60")
    );
}

#[test]
fn why_says_what_showed_the_lock() {
    let played = play(
        "
        A: SET relay relay-1 NX
        A: SET sequence 20
        A: DEL relay
        B: SET relay relay-2 NX
        B: SET sequence 21
        B: DEL relay
        C: SADD hosts shop
        C: INCR fetching
        D: SADD hosts shop
        D: SREM hosts shop
        E: SADD hosts shop
        E: INCR fetching
        C: DECR fetching
        C: SREM hosts shop
        E: SREM hosts shop
        ",
    );
    let why = |key: &str| played.why(key);
    assert!(why("relay").contains("guards"), "{}", why("relay"));
    assert!(why("hosts").contains("held-by-two"), "{}", why("hosts"));
    assert!(why("sequence").contains("no lock"), "{}", why("sequence"));
}

#[test]
fn a_test_puts_a_lock_there_by_hand_over_the_connection_that_also_takes_it() {
    no_error(
        "
        A: SET room:hold {a} NX PX 60000
        A: RELEASE room:hold {a}
        A: EXISTS room:hold
        A: DEL room:hold room:guests
        A: SET room:hold somebody
        A: SET room:hold {b} NX PX 60000
        A: GET room:hold
        A: DEL room:hold room:guests
        ",
    );
}
