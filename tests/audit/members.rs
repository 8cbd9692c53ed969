//! Members that belong to whoever removes them, and places that are removed by who has seen somebody else there.

use redouble::{Code, Severity};

use super::story::{Pair, judge, play, shown};

/// The errors of a story.
fn errors(story: &str) -> Vec<Code> {
    let findings = play(story).findings();
    findings.iter().filter(|finding| finding.severity == Severity::Error).map(|finding| finding.code).collect()
}

#[track_caller]
fn no_error(story: &str) {
    let played = play(story);
    let findings = played.findings();
    let wrong = findings.iter().filter(|finding| finding.severity == Severity::Error);
    let told = wrong.map(|finding| shown(&played, finding)).collect::<String>();
    assert!(told.is_empty(), "found in\n{story}\n{told}");
}

#[test]
fn a_job_that_another_worker_has_removed_before_runs_twice() {
    judge(&Pair {
        code: Code::CheckedThenTaken,
        wrong: "
            Setup: ZADD delayed 10 refund-9
            A: ZRANGEBYSCORE delayed -inf 20
            B: ZRANGEBYSCORE delayed -inf 20
            ! A: ZREM delayed refund-9
            ! A: HINCRBY runs refund-9 1
            ! B: ZREM delayed refund-9
            ! B: HINCRBY runs refund-9 1
        ",
        right: "
            Setup: ZADD delayed 10 refund-9
            A: ZRANGEBYSCORE delayed -inf 20
            B: ZRANGEBYSCORE delayed -inf 20
            A: ZREM delayed refund-9
            A: HINCRBY runs refund-9 1
            B: ZREM delayed refund-9
        ",
    });
}

#[test]
fn whatever_tells_that_a_member_is_gone_is_an_answer() {
    for (begin, claim, work) in [
        ("SADD due order-1", "SREM due order-1", "INCR paid:order-1"),
        ("HSET due order-1 now", "HDEL due order-1", "ZINCRBY paid 1 order-1"),
        ("RPUSH due order-1", "LREM due 1 order-1", "LPUSH ready order-1"),
    ] {
        let story = format!("Setup: {begin}\nA: {claim}\nA: {work}\nB: {claim}\nB: {work}");
        assert_eq!(errors(&story), [Code::CheckedThenTaken], "{story}");
        // In one transaction the answer comes too late.
        let story = format!(
            "Setup: {begin}\nA: MULTI\nA: {claim}\nA: {work}\nA: EXEC\nB: MULTI\nB: {claim}\nB: {work}\nB: EXEC"
        );
        assert_eq!(errors(&story), [Code::CheckedThenTaken], "{story}");
    }
}

#[test]
fn who_was_second_and_does_something_else_does_no_harm() {
    for story in [
        // It counts that it came too late.
        "Setup: SADD due order-1
         A: SREM due order-1
         A: INCR paid:order-1
         B: SREM due order-1
         B: INCR late:order-1",
        // Both count what they have tried, and the first one does more.
        "Setup: SADD due order-1
         A: SREM due order-1
         A: INCR tries:order-1
         A: RPUSH done order-1
         B: SREM due order-1
         B: INCR tries:order-1",
        // It is the same if it is done twice.
        "Setup: SADD online user-1
         A: SREM online user-1
         A: DEL session:user-1
         B: SREM online user-1
         B: DEL session:user-1",
        // A count of everything.
        "Setup: SADD online user-1
         A: SREM online user-1
         A: INCR logouts
         B: SREM online user-1
         B: INCR logouts",
        // It is there again.
        "Setup: SADD due order-1
         A: SREM due order-1
         A: INCR paid:order-1
         Setup: SADD due order-1
         B: SREM due order-1
         B: INCR paid:order-1",
        // One program over two connections.
        "Setup: SADD due order-1
         a: SREM due order-1
         a: INCR paid:order-1
         b: SREM due order-1
         b: INCR paid:order-1",
    ] {
        no_error(story);
    }
}

#[test]
fn whoever_removes_what_it_saw_before_somebody_else_came_lets_another_one_in() {
    let story = "
        Dead: HSETNX docks dock-7 dead
        close Dead
        A: HSETNX docks dock-7 a
        A: HGET docks dock-7
        B: HSETNX docks dock-7 b
        B: HGET docks dock-7
        A: HDEL docks dock-7
        A: HSETNX docks dock-7 a
        A: GET unloaded
        B: HDEL docks dock-7
        B: HSETNX docks dock-7 b
        B: GET unloaded
        A: SET unloaded 110
        B: SET unloaded 110
        A: HGET docks dock-7
        B: HDEL docks dock-7
    ";
    assert_eq!(errors(&format!("Setup: SET unloaded 100\n{story}")), [Code::BlindDelete, Code::TwoHolders]);
    // It looks again.
    no_error(&story.replace("B: HDEL docks dock-7\n        B: HSETNX", "B: HGET docks dock-7\n        B: HSETNX"));
}
