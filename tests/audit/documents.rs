//! Updates of whole documents that are lost: JSON, hashes that are stored anew, and the tasks of one program.

use redouble::{Code, Severity};

use super::story::{Pair, found, judge};

fn severity(story: &str) -> Option<Severity> {
    found(Code::LostUpdate, story).map(|finding| finding.severity)
}

#[test]
fn a_hash_that_is_stored_anew_loses_the_field_that_came_meanwhile() {
    judge(&Pair {
        code: Code::LostUpdate,
        wrong: "
            Setup: HSET rules bank money news later
            ! A: HGETALL rules
            ! B: HGETALL rules
            A: MULTI
            A: DEL rules
            A: HSET rules bank money news later school family
            ! A: EXEC
            B: MULTI
            B: DEL rules
            B: HSET rules bank money news later shop orders
            ! B: EXEC
        ",
        right: "
            Setup: HSET rules bank money news later
            A: HGETALL rules
            A: HSET rules school family
            B: HGETALL rules
            B: HSET rules shop orders
        ",
    });
}

#[test]
fn a_hash_that_two_programs_fill_from_one_source_loses_nothing() {
    for story in [
        "Setup: HSET config depth 3 width 4
         A: HGETALL config
         B: HGETALL config
         A: DEL config
         A: HSET config depth 3 width 5
         B: DEL config
         B: HSET config depth 3 width 5",
        // One field after the other.
        "Setup: HSET config depth 3 width 4
         A: HGETALL config
         B: HGETALL config
         A: DEL config
         A: HSET config depth 3
         A: HSET config width 5
         A: HSET config height 2
         B: DEL config
         B: HSET config depth 3
         B: HSET config width 5
         B: HSET config height 2",
    ] {
        assert_ne!(severity(story), Some(Severity::Error), "{story}");
    }
}

#[test]
fn documents_are_compared_name_by_name() {
    for story in [
        r#"Setup: SET routes "{ }"
           A: GET routes
           B: GET routes
           A: SET routes {"north":"moved"}
           B: SET routes {"south":"moved"}"#,
        r#"Setup: SET total {"entries":0,"sum":0}
           A: GET total
           B: GET total
           A: SET total {"entries":3,"sum":450}
           B: SET total {"entries":2,"sum":120}"#,
        r#"Setup: SET cart {"items":["a"],"count":1}
           A: GET cart
           B: GET cart
           A: SET cart {"items":["a","b"],"count":2}
           B: SET cart {"items":["a","c"],"count":2}"#,
    ] {
        assert_eq!(severity(story), Some(Severity::Error), "{story}");
    }
    let long = "x".repeat(120);
    let story = format!(
        r#"Setup: SET page {{"text":"{long}","tags":["one"]}}
           A: GET page
           B: GET page
           A: SET page {{"text":"{long}","tags":["one","two"]}}
           B: SET page {{"text":"{long}","tags":["one","six"]}}"#
    );
    assert_eq!(severity(&story), Some(Severity::Error), "{story}");
    for story in [
        r#"Setup: SET leader "{ }"
           A: GET leader
           B: GET leader
           A: SET leader {"name":"a"}
           B: SET leader {"name":"b"}"#,
        r#"Setup: SET beat {"at":1700000000,"n":1}
           A: GET beat
           B: GET beat
           A: SET beat {"at":1700000005,"n":2}
           B: SET beat {"at":1700000009,"n":3}"#,
        // It has what the other one has added.
        "Setup: SET log [1]\nA: GET log\nB: GET log\nA: SET log [1,2]\nB: SET log [1,2,3]",
    ] {
        assert_ne!(severity(story), Some(Severity::Error), "{story}");
    }
}

#[test]
fn two_tasks_that_each_read_and_write_over_a_connection_of_their_own_lose_an_update() {
    let story = "Setup: SET n 100\na: GET n\nb: GET n\nb: SET n 130\na: SET n 108";
    assert_eq!(severity(story), Some(Severity::Error), "{story}");
    for story in [
        // Who has counted on over one connection counts further over another one.
        "Setup: SET n 100\na: GET n\nb: GET n\nb: SET n 110\na: SET n 120",
        // One of the connections has not read it.
        "Setup: SET n 100\na: GET n\nb: SET n 130\na: SET n 108",
        // It has read it again.
        "Setup: SET n 100\na: GET n\nb: GET n\nb: SET n 130\nb: GET n\na: SET n 108",
    ] {
        assert_ne!(severity(story), Some(Severity::Error), "{story}");
    }
}

#[test]
fn a_first_document_is_lost_if_it_was_looked_for_before_the_lock_was_taken() {
    let story = r#"
        A: GET calendar
        B: GET calendar
        A: SET desk {a} NX PX 10000
        A: SET calendar [{"who":"ada"}]
        A: RELEASE desk {a}
        B: SET desk {b} NX PX 10000
        B: SET calendar [{"who":"bob"}]
        B: RELEASE desk {b}
    "#;
    assert_eq!(severity(story), Some(Severity::Error));
    for (from, to) in [
        (r#"B: SET calendar [{"who":"bob"}]"#, r#"B: SET calendar [{"who":"ada"}]"#),
        (r#"B: SET calendar [{"who":"bob"}]"#, r#"B: SET calendar [{"who":"bob"}] EX 60"#),
        ("B: SET calendar", "B: GET calendar\nB: SET calendar"),
    ] {
        assert_ne!(severity(&story.replace(from, to)), Some(Severity::Error), "{to}");
    }
}
