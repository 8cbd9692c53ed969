//! Two masters of one group: one was cut off and replaced, and does not know.

use redouble::{Code, Severity};

use super::story::{Pair, found, judge, nothing_is_found, play};

/// The findings of a story by their codes.
fn codes(story: &str) -> Vec<Code> {
    play(story).findings().iter().map(|finding| finding.code).collect()
}

#[test]
fn a_master_that_was_replaced_gives_the_lock_that_the_new_one_has_given() {
    judge(&Pair {
        code: Code::SplitBrainHolder,
        wrong: "
            replicas
            cut
            promote
            ! B@2: SET lock {b} NX PX 10000
            ! A: SET lock {a} NX PX 10000
            A: RELEASE lock {a}
            B@2: RELEASE lock {b}
        ",
        right: "
            replicas
            cut
            promote
            B@2: SET lock {b} NX PX 10000
            B@2: RELEASE lock {b}
            A: SET lock {a} NX PX 10000
            A: RELEASE lock {a}
        ",
    });
}

#[test]
fn the_new_master_gives_it_second() {
    let story = "
        replicas
        cut
        promote
        A: SET lock {a} NX PX 10000
        B@2: SET lock {b} NX PX 10000
        B@2: RELEASE lock {b}
        A: RELEASE lock {a}
    ";
    let found = found(Code::SplitBrainHolder, story).expect("two have it");
    assert_eq!(found.severity, Severity::Error);
    let sentence = &found.sentence;
    assert!(sentence.contains(" both held `lock`: the master that gave it to A (client "), "{sentence}");
    assert!(sentence.contains(" was cut off, and did not know that 127.0.0.1:"), "{sentence}");
    assert!(sentence.ends_with(" had taken its place"), "{sentence}");
    let promotion = found.evidence.iter().find(|shown| shown.what == "was replaced while it was cut off, and went on");
    assert!(promotion.is_some(), "{found:?}");
    assert_eq!(codes(story), [Code::SplitBrainHolder], "one finding for one cause");
}

#[test]
fn what_is_discarded_when_the_link_is_healed_is_told_once() {
    let story = |order: &str| format!("replicas\ncut\npromote\nA: SET lock {{a}} NX PX 10000\n{order}");
    let healed = story("B@2: SET lock {b} NX PX 10000\nheal\nB@2: RELEASE lock {b}");
    let only = |story: &str| {
        let codes = codes(story);
        assert_eq!(codes.iter().filter(|code| **code == Code::SplitBrainHolder).count(), 1, "{codes:?}");
        assert!(!codes.contains(&Code::LostInFailover), "{codes:?}");
    };
    only(&healed);
    // B comes only when A's lock is gone, and A has not heard of it.
    only(&story("heal\nB@2: SET lock {b} NX PX 10000\nB@2: RELEASE lock {b}"));
}

#[test]
fn a_lock_that_the_old_master_extends_outlives_the_copy_of_the_new_one() {
    let story = "
        replicas
        A: SET lock {a} NX PX 2000
        cut
        promote
        +1s
        A: EXTEND lock {a} 10000
        +2s
        B@2: SET lock {b} NX PX 10000
        B@2: RELEASE lock {b}
        A: RELEASE lock {a}
    ";
    let found = found(Code::SplitBrainHolder, story).expect("two have it");
    assert!(found.sentence.contains("the master that extended it for A (client "), "{}", found.sentence);
}

#[test]
fn a_lock_from_before_that_the_new_master_never_got_is_lost_in_the_failover() {
    let story = "
        replicas
        cut
        A: SET lock {a} NX PX 10000
        promote
        B@2: SET lock {b} NX PX 10000
        A: EXTEND lock {a} 10000
        B@2: RELEASE lock {b}
        A: RELEASE lock {a}
    ";
    assert_eq!(codes(story), [Code::LostInFailover]);
}

#[test]
fn redis_cli_whose_connections_end_gets_it_from_both() {
    let story = "
        replicas
        cut
        promote
        a: SET lock alice NX PX 10000
        close a
        b@2: SET lock bob NX PX 10000
        close b
        heal
    ";
    assert!(found(Code::SplitBrainHolder, story).is_some());
}

#[test]
fn the_lock_of_one_master_alone_is_nobody_elses() {
    nothing_is_found(
        "replicas
         cut
         promote
         A: SET lock {a} NX PX 10000
         A: SET data 1
         A: RELEASE lock {a}",
    );
    // It was over when the new master gave it.
    nothing_is_found(
        "replicas
         cut
         promote
         A: SET lock {a} NX PX 1000
         A: RELEASE lock {a}
         B@2: SET lock {b} NX PX 10000
         B@2: RELEASE lock {b}",
    );
}

#[test]
fn a_program_that_has_gone_over_to_the_new_master_is_one_holder() {
    let story = "
        replicas
        cut
        promote
        A: SET lock {a} NX PX 10000
        A@2: SET lock {a} NX PX 10000
        heal
    ";
    assert!(found(Code::SplitBrainHolder, story).is_none());
}

#[test]
fn a_lock_that_the_new_master_has_too_is_given_to_nobody() {
    nothing_is_found(
        "replicas
         A: SET lock {a} NX PX 10000
         cut
         promote
         B@2: SET lock {b} NX PX 10000
         A: RELEASE lock {a}
         C@2: GET data",
    );
}

#[test]
fn a_master_that_refuses_writes_without_replicas_gives_no_lock() {
    nothing_is_found(
        "replicas
         D: CONFIG SET min-replicas-to-write 1
         cut
         promote
         A: SET lock {a} NX PX 10000
         B@2: SET lock {b} NX PX 10000
         B@2: RELEASE lock {b}",
    );
}

#[test]
fn a_lock_on_five_masters_of_which_one_is_in_two_parts_is_held_by_one() {
    let all = |client: &str, token: &str, command: &str, nodes: &[usize]| -> String {
        let line = |node: &usize| format!("{client}@{node}: {command}\n").replace("TOKEN", token);
        nodes.iter().map(line).collect()
    };
    let take = "SET lock {TOKEN} NX PX 10000";
    let release = "RELEASE lock {TOKEN}";
    let story = [
        "replicas\ncut\npromote\n".to_owned(),
        all("A", "a", take, &[1, 3, 4, 5, 6]),
        all("B", "b", take, &[2, 3, 4, 5, 6]),
        all("B", "b", release, &[2, 3, 4, 5, 6]),
        all("A", "a", release, &[1, 3, 4, 5, 6]),
    ]
    .concat();
    nothing_is_found(&story);
}

#[test]
fn whoever_gives_its_lock_back_to_a_master_that_was_replaced_holds_it_no_more() {
    // The master refuses it, because it is a replica by then.
    nothing_is_found(
        "replicas
         hold
         A: SET lock {a} NX PX 10000
         promote
         A: DEL lock
         B@2: SET lock {b} NX PX 10000
         B@2: RELEASE lock {b}",
    );
    nothing_is_found(
        "replicas
         cut
         A: SET lock {a} NX PX 10000
         promote
         A: RELEASE lock {a}
         B@2: SET lock {b} NX PX 10000
         B@2: RELEASE lock {b}",
    );
}
