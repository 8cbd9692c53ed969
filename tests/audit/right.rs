//! What right programs do, and must hear nothing of.

use redouble::Severity;

use super::story::{play, shown};

/// Nothing as bad as this is found.
#[track_caller]
fn nothing_from(severity: Severity, story: &str) {
    let played = play(story);
    let findings = played.findings().into_iter().filter(|finding| finding.severity >= severity);
    let told = findings.map(|finding| shown(&played, &finding)).collect::<String>();
    assert!(told.is_empty(), "found in\n{story}\n{told}");
}

#[track_caller]
fn no_error(story: &str) {
    nothing_from(Severity::Error, story);
}

#[track_caller]
fn no_warning(story: &str) {
    nothing_from(Severity::Warning, story);
}

#[test]
fn a_stale_page_is_made_again_under_its_lock_without_another_look() {
    for (base, theirs, ours) in [
        // Its time of making is all that is new.
        ("{'made':{f-9},'of':'item 7'}", "{'made':{f+0},'of':'item 7'}", "{'made':{f+1},'of':'item 7'}"),
        // Its time, and what it says.
        ("{'made':{f-9},'price':17}", "{'made':{f+0},'price':18}", "{'made':{f+1},'price':19}"),
        // A number in it.
        ("{'rows':[1,2],'total':117}", "{'rows':[1,2],'total':121}", "{'rows':[1,2],'total':125}"),
        ("117", "121", "125"),
    ] {
        no_error(&format!(
            r#"
            Setup: SET page "{base}" EX 60
            A: GET page
            B: GET page
            A: SET page:mutex {{a}} NX PX 5000
            A: SET page "{theirs}" EX 60
            A: RELEASE page:mutex {{a}}
            B: SET page:mutex {{b}} NX PX 5000
            B: SET page "{ours}" EX 60
            B: RELEASE page:mutex {{b}}
            "#
        ));
    }
}

#[test]
fn a_page_that_those_who_find_it_work_with_guards_nothing() {
    // Whoever finds it free makes it, and everybody counts.
    no_warning(
        "
        A: GET page
        A: SET page blue PX 15
        A: INCR visits
        +20ms
        B: GET page
        B: SET page green PX 15
        B: INCR visits
        A: GET page
        A: INCR visits
        +20ms
        A: GET page
        A: SET page red PX 15
        A: INCR visits
        +20ms
        B: GET page
        B: SET page grey PX 15
        B: INCR visits
        ",
    );
    // The same, with pages that are thrown away.
    no_warning(
        "
        A: SET page:7 blue NX EX 300
        A: INCR visits
        B: GET page:7
        B: INCR visits
        A: GET page:7
        A: INCR visits
        A: DEL page:7
        B: SET page:7 green NX EX 300
        B: INCR visits
        A: GET page:7
        A: INCR visits
        B: DEL page:7
        ",
    );
    // A text that others read.
    no_warning(
        r#"
        A: SET page:8 "a page about lamps" NX EX 300
        A: INCR made
        B: GET page:8
        A: DEL page:8
        B: SET page:8 "a page about chairs" NX EX 300
        B: INCR made
        A: GET page:8
        B: DEL page:8
        "#,
    );
}

#[test]
fn a_test_looks_at_the_token_and_clears_the_lock_that_it_releases_by_comparing() {
    no_error(
        "
        A: SET lock:t {a} NX PX 500
        A: RELEASE lock:t {a}
        A: DEL lock:t
        A: SET lock:t {b} NX PX 500
        A: GET lock:t
        A: DEL lock:t
        ",
    );
}

#[test]
fn a_test_puts_another_holder_in_the_place_of_its_own_token() {
    no_error(
        r#"
        A: SET room:hold {a} NX PX 60000
        A: SET room:hold "somebody else"
        A: RELEASE room:hold {a}
        A: GET room:hold
        A: DEL room:hold
        A: SET room:hold {b} NX PX 60000
        A: RELEASE room:hold {b}
        "#,
    );
    no_warning(
        r#"
        A: SET room:hold {a} NX PX 60000
        A: SET room:hold "somebody else"
        A: RELEASE room:hold {a}
        A: GET room:hold
        A: DEL room:hold
        "#,
    );
}

#[test]
fn a_late_release_of_who_writes_on_a_condition_is_no_warning() {
    let fenced =
        "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('set', KEYS[2], ARGV[2])";
    for write in [
        // Its fence still holds.
        "A: EVAL \"if redis.call('get', 'total:fence') ~= ARGV[1] then return 0 end return redis.call('set', KEYS[1], 7)\" 1 total 1",
        // It was refused, because another one has the lock.
        &format!("A: EVAL \"{fenced}\" 2 total:lock total {{a}} 7"),
        "A: WATCH total\nA: GET total\nB: SET total 5\nA: MULTI\nA: SET total 7\nA: EXEC",
    ] {
        no_warning(&format!(
            "
            Setup: SET total:fence 1
            A: SET total:lock {{a}} NX PX 1000
            A: GET total
            B: SET total:lock {{b}} NX PX 1000
            +1100ms
            B: SET total:lock {{b}} NX PX 1000
            {write}
            A: RELEASE total:lock {{a}}
            B: RELEASE total:lock {{b}}
            "
        ));
    }
}

#[test]
fn a_leader_that_renews_too_late_and_stops_is_no_warning() {
    no_warning(
        "
        A: SET leader {a} NX PX 1000
        A: SET state 1
        B: SET leader {b} NX PX 1000
        +500ms
        A: EXTEND leader {a} 1000
        +1100ms
        B: SET leader {b} NX PX 1000
        A: EXTEND leader {a} 1000
        B: SET state 2
        B: RELEASE leader {b}
        ",
    );
}

#[test]
fn a_leader_that_dies_is_followed_when_its_lease_is_over() {
    no_warning(
        "
        A: SET leader {a} NX PX 1000
        B: SET leader {b} NX PX 1000
        A: EXTEND leader {a} 1000
        close A
        B: SET leader {b} NX PX 1000
        +1100ms
        B: SET leader {b} NX PX 1000
        B: RELEASE leader {b}
        ",
    );
}

#[test]
fn a_lock_that_nobody_waits_for_may_be_left_to_its_end() {
    no_warning(
        "
        A: SET nightly:lock {a} NX PX 1000
        B: SET nightly:lock {b} NX PX 1000
        A: RELEASE nightly:lock {a}
        B: SET nightly:lock {b} NX PX 1000
        close B
        +1100ms
        A: PING
        ",
    );
}

#[test]
fn a_test_leaves_a_lock_there_whose_time_is_over() {
    no_warning(
        "
        S: SETNX lock.modem {ms-1}
        A: SETNX lock.modem {ms+20}
        A: GET lock.modem
        A: GETSET lock.modem {ms+20}
        A: SET line busy
        A: DEL lock.modem
        B: SETNX lock.modem {ms+20}
        B: SET line busy
        B: DEL lock.modem
        ",
    );
}

#[test]
fn a_semaphore_is_emptied_over_another_connection() {
    let take = |token: &str| {
        format!(
            "EVAL \"if redis.call('zcard', KEYS[1]) < 2 then return redis.call('zadd', KEYS[1], 1, ARGV[1]) end return 0\" 1 permits {token}"
        )
    };
    no_warning(&format!(
        "
        a: {}
        b: {}
        a: ZREM permits {{a}}
        c: DEL permits
        a: {}
        a: ZREM permits {{c}}
        ",
        take("{a}"),
        take("{b}"),
        take("{c}"),
    ));
}

#[test]
fn pages_of_one_family_guard_nothing_if_one_of_them_does_not() {
    no_warning(
        "
        A: GET page:1
        A: SET page:1 blue EX 60
        A: INCR visits
        B: GET page:1
        B: INCR visits
        A: DEL page:1
        A: GET page:2
        B: GET page:2
        A: SET page:2 green EX 60
        B: SET page:2 red EX 60
        A: INCR visits
        B: INCR visits
        B: DEL page:2
        A: DEL page:2
        ",
    );
}

#[test]
fn what_is_claimed_once_and_for_all_needs_no_expiry() {
    no_warning(
        "
        A: SET salt:7 {a} NX
        B: SET salt:7 {b} NX
        B: GET salt:7
        B: INCR salted
        close A
        B: SET salt:8 {b} NX
        A: SET salt:8 {a} NX
        A: GET salt:8
        ",
    );
}

#[test]
fn two_servers_that_fill_a_cache_with_the_same_price_and_clear_it_have_no_lock() {
    for price in ["20", "19.90", "[20]"] {
        let story = format!(
            "
            A: GET cache:lamp
            B: GET cache:lamp
            A: SET cache:lamp {price} EX 300 NX
            B: SET cache:lamp {price} EX 300 NX
            A: DEL cache:lamp
            C: GET cache:lamp
            C: SET cache:lamp {price} EX 300 NX
            B: SET cache:lamp {price}8 EX 300
            C: DEL cache:lamp
            A: DEL cache:lamp
            "
        );
        nothing_from(Severity::Warning, &story);
    }
}
