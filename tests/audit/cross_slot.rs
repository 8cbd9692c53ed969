//! Locks that are used in one step with keys of other hash slots, which a Cluster refuses.

use redouble::internals::{Item, Scope, audit, auditor, command_table, read_journal};
use redouble::{Code, Finding, Severity};

use super::story::{Pair, found, judge, nothing_is_found, play};

const GUARDED: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('set', KEYS[2], ARGV[2]) end return 0";

/// The findings in the lines of a journal.
fn findings_in(lines: &str) -> Vec<Finding> {
    let mut items: Vec<Item> = Vec::new();
    read_journal(lines.as_bytes(), |item| items.push(item)).expect("lines of a journal");
    let audited = audit(vec![(1, items)], auditor(Scope::default(), command_table()));
    audited.findings().iter().map(|finding| (**finding).clone()).collect()
}

fn crossed(lines: &str) -> Option<Finding> {
    findings_in(lines).into_iter().find(|finding| finding.code == Code::CrossSlot)
}

#[test]
fn a_script_that_guards_data_by_a_lock_runs_here_and_is_refused_in_production() {
    judge(&Pair {
        code: Code::CrossSlot,
        wrong: r#"
            A: SET lock:7 {a} NX PX 10000
            ! A: EVAL "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[2], 1) end" 2 lock:7 data:7 {a}
            A: RELEASE lock:7 {a}
        "#,
        right: r#"
            A: SET lock:{7} {a} NX PX 10000
            A: EVAL "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[2], 1) end" 2 lock:{7} data:{7} {a}
            A: RELEASE lock:{7} {a}
        "#,
    });
}

#[test]
fn a_script_that_uses_a_key_it_has_not_declared_is_refused_once_that_is_elsewhere() {
    let script = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('incr', 'count') \
                  return redis.call('del', KEYS[1]) end return 0";
    let told = found(Code::CrossSlot, &format!("A: SET lock {{a}} NX PX 9000\nA: EVAL \"{script}\" 1 lock {{a}}"));
    let told = told.expect("it is found");
    assert_eq!(told.severity, Severity::Note);
    assert!(told.sentence.contains("once these hash slots are on different nodes"), "{}", told.sentence);
    assert!(told.sentence.contains("`lock` in 8718, `count` in"), "{}", told.sentence);
}

#[test]
fn a_transaction_that_takes_a_lock_and_writes_elsewhere_is_refused_by_a_cluster() {
    judge(&Pair {
        code: Code::CrossSlot,
        wrong: "
            A: MULTI
            A: SET lock:a {a} NX PX 10000
            A: SET data:a 1
            ! A: EXEC
            B: SET lock:a {b} NX PX 10000
            A: RELEASE lock:a {a}
        ",
        right: "
            A: MULTI
            A: SET lock:{1} {a} NX PX 10000
            A: SET data:{1} 1
            A: EXEC
            B: SET lock:{1} {b} NX PX 10000
            A: RELEASE lock:{1} {a}
        ",
    });
}

#[test]
fn a_transaction_is_guarded_by_a_watched_lock_on_one_node_only() {
    let told = found(
        Code::CrossSlot,
        "A: SET lock:a {a} NX PX 10000
         A: WATCH lock:a
         A: GET lock:a
         A: MULTI
         A: SET data:a 1
         A: EXEC
         A: RELEASE lock:a {a}",
    );
    assert!(told.expect("it is found").sentence.contains("`lock:a` in 6035, `data:a` in 6194"));
}

#[test]
fn several_locks_that_are_taken_or_released_by_one_command_are_in_several_slots() {
    let msetnx = "A: MSETNX lock:a {a} lock:b {a}\nA: RELEASE lock:a {a}\nA: RELEASE lock:b {a}";
    assert!(found(Code::CrossSlot, msetnx).is_some());
    let del = "A: SET lock:a {a} NX PX 9000\nA: SET lock:b {b} NX PX 9000\nA: DEL lock:a lock:b";
    assert!(found(Code::CrossSlot, del).is_some());
}

#[test]
fn what_concerns_no_lock_or_only_looks_is_nobodys_business() {
    for story in [
        // Caches.
        "A: MSETNX cache:a 1 cache:b 2\nA: MGET cache:a cache:b",
        "A: SET lock {a} NX PX 9000\nA: MULTI\nA: INCR one\nA: INCR two\nA: EXEC\nA: RELEASE lock {a}",
        // A look at locks.
        "A: SET lock:a {a} NX PX 9000\nB: MGET lock:a lock:b\nB: EXISTS lock:a lock:b\nA: RELEASE lock:a {a}",
        "A: SET lock:a {a} NX PX 9000\nB: MULTI\nB: GET lock:a\nB: INCR two\nB: EXEC\nA: RELEASE lock:a {a}",
        // One who cleans up what others left behind.
        "A: SET lock:a {a} NX PX 9000\nA: RELEASE lock:a {a}\nB: DEL lock:a lock:b data:a",
        // Other databases are on no Cluster.
        "A: MULTI\nA: SET lock {a} NX PX 9000\nA: SELECT 1\nA: SET data 1\nA: SELECT 0\nA: EXEC\nA: RELEASE lock {a}",
        // A lock over several servers is one key on each.
        "A@1: SET lock {a} NX PX 9000\nA@2: SET lock {a} NX PX 9000\nA@1: RELEASE lock {a}\nA@2: RELEASE lock {a}",
    ] {
        let told = play(story).findings();
        assert!(told.iter().all(|finding| finding.code != Code::CrossSlot), "{story}\n{:?}", told);
    }
    nothing_is_found("A: SET lock:a {a} NX PX 9000\nA: SET data:a 1\nA: RELEASE lock:a {a}");
}

#[test]
fn a_script_is_told_of_once_however_many_locks_it_is_for() {
    let story: String = (1..=40)
        .map(|number| {
            format!(
                "A: SET lock:{number} {{a}} NX PX 9000\nA: EVAL \"{GUARDED}\" 2 lock:{number} data:{number} {{a}} 1\n\
                 A: RELEASE lock:{number} {{a}}\n"
            )
        })
        .collect();
    let findings = play(&story).findings();
    let told: Vec<_> = findings.iter().filter(|finding| finding.code == Code::CrossSlot).collect();
    assert_eq!(told.iter().map(|finding| finding.times).collect::<Vec<_>>(), [40]);
    assert_eq!(&*told[0].key, b"lock:1");
}

#[test]
fn transactions_of_one_kind_are_told_of_once_and_another_kind_once_more() {
    let one = |number: u32| {
        format!(
            "A: MULTI\nA: SET lock:{number} {{a}} NX PX 9000\nA: INCR user:{number}:runs\nA: EXEC\n\
             A: RELEASE lock:{number} {{a}}\n"
        )
    };
    let other = "A: MULTI\nA: SET lock:9 {a} NX PX 9000\nA: DEL mark\nA: EXEC\nA: RELEASE lock:9 {a}\n";
    let findings = play(&format!("{}{}{}{other}", one(1), one(2), one(3))).findings();
    let told: Vec<_> = findings.iter().filter(|finding| finding.code == Code::CrossSlot).collect();
    assert_eq!(told.iter().map(|finding| finding.times).collect::<Vec<_>>(), [3, 1], "{told:?}");
}

const TAKEN: &str = r#"{"seq":1,"time_us":1000000,"sent_us":999900,"order":"interval","client":1,"name":"A","command":["SET","lock:a","5f0c9a83b1d24e67","NX","PX","30000"],"raw":"+OK\r\n","children":[]}
{"seq":2,"time_us":2000000,"sent_us":1999900,"order":"interval","client":2,"name":"B","command":["SET","lock:a","91e7c2d40a8b36f5","NX","PX","30000"],"raw":"$-1\r\n","children":[]}
"#;

#[test]
fn a_cluster_that_refused_a_release_is_told_of_as_an_error_and_the_lock_stays_held() {
    let refused = format!(
        "{TAKEN}{}\n",
        r#"{"seq":3,"time_us":3000000,"sent_us":2999900,"order":"interval","client":1,"name":"A","command":["EVAL","return 1","2","lock:a","data:a","5f0c9a83b1d24e67"],"raw":"-CROSSSLOT Keys in request don't hash to the same slot\r\n"}"#
    );
    let told = crossed(&refused).expect("it is found");
    assert_eq!(told.severity, Severity::Error);
    assert!(told.sentence.starts_with("The Cluster refused the script that A (client 1) ran"), "{}", told.sentence);
    assert_eq!(told.evidence.len(), 1);
    // The script did not run: the lock is as it was.
    let leaked =
        findings_in(&format!("{refused}{}\n", r#"{"seq":4,"time_us":4000000,"event":"closed","client":1,"name":"A"}"#));
    assert!(
        leaked.iter().any(|finding| finding.code == Code::HeldAtDisconnect || finding.code == Code::Leaked),
        "{leaked:?}"
    );
}

#[test]
fn a_transaction_that_a_cluster_refused_is_known_by_what_was_queued() {
    let queued = r#"{"seq":3,"time_us":3000000,"sent_us":2999900,"order":"interval","client":1,"name":"A","command":["MULTI"],"raw":"+OK\r\n"}
{"seq":4,"time_us":3000100,"sent_us":3000000,"order":"interval","client":1,"name":"A","command":["DEL","lock:a"],"raw":"+QUEUED\r\n","outcome":"queued","children":[]}
{"seq":5,"time_us":3000200,"sent_us":3000100,"order":"interval","client":1,"name":"A","command":["INCR","data:a"],"raw":"+QUEUED\r\n","outcome":"queued","children":[]}
{"seq":6,"time_us":3000300,"sent_us":3000200,"order":"interval","client":1,"name":"A","command":["EXEC"],"raw":"-CROSSSLOT Keys in request don't hash to the same slot\r\n","children":[]}"#;
    let told = crossed(&format!("{TAKEN}{queued}\n")).expect("it is found");
    assert_eq!(told.severity, Severity::Error);
    assert!(told.sentence.contains("the transaction of A (client 1)"), "{}", told.sentence);
}

#[test]
fn a_command_that_is_sent_on_to_another_node_has_done_nothing() {
    for error in [
        "-MOVED 6035 127.0.0.1:7002\\r\\n",
        "-ASK 6035 127.0.0.1:7002\\r\\n",
        "-TRYAGAIN Multiple keys request during rehashing of slot\\r\\n",
        "-CLUSTERDOWN The cluster is down\\r\\n",
        "-READONLY You can't write against a read only replica.\\r\\n",
    ] {
        let script = format!(
            r#"{{"seq":3,"time_us":3000000,"sent_us":2999900,"order":"interval","client":1,"name":"A","command":["EVAL","return 1","1","lock:a","5f0c9a83b1d24e67"],"raw":"{error}"}}"#
        );
        // Had the script run, who holds the lock would not be known.
        let deleted = r#"{"seq":4,"time_us":4000000,"sent_us":3999900,"order":"interval","client":2,"name":"B","command":["DEL","lock:a"],"raw":":1\r\n","children":[]}"#;
        let told = findings_in(&format!("{TAKEN}{script}\n{deleted}\n"));
        assert!(told.iter().any(|finding| finding.code == Code::BlindDelete), "{error}: {told:?}");
    }
}
