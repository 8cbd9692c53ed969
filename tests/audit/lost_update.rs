//! Updates that are lost: written from what was read before somebody else wrote.

use proptest::prelude::*;
use proptest::sample::select;
use redouble::internals::Scope;
use redouble::{Code, Severity};

use super::story::{Pair, found, judge, nothing_is_found, play};

/// What clients do to data, in one step or in several.
const ON_DATA: &[&str] = &[
    "GET %k",
    "SET %k 1",
    "SET %k 2",
    "GET %k | SET %k 3",
    "GET %k | SET %k 4 EX 60",
    "GET %k | MULTI | SET %k 5 | EXEC",
    "WATCH %k | GET %k | MULTI | SET %k 6 | EXEC",
    "MGET x y | MSET x 7 y 7",
    "INCR %k",
    "GETSET %k 8",
    "APPEND %k 9",
    "SETEX %k 60 10",
    "DEL %k",
    "HGET all %k",
    "HSET all %k 11",
    "HGETALL all | HSET all %k 12",
    "LRANGE list 0 -1 | DEL list | RPUSH list 13",
    "RPUSH list %k",
    "SADD members %k",
    "SREM members %k",
    "MULTI | TTL %k | EXEC",
    "MULTI | HGET %k none | EXEC",
    "MULTI | CLIENT SETNAME fourth | GET %k | EXEC",
    "EVAL \"return redis.call('get', KEYS[1])\" 1 %k",
    "EVAL \"redis.call('get', KEYS[1]) return redis.call('set', KEYS[1], 15)\" 1 %k",
    "SET lock:%k 14-of-its-own NX PX 30000",
    "DEL lock:%k",
    "CLIENT SETNAME other",
    "CLIENT GETNAME",
    "HELLO 3 SETNAME third",
    "RESET",
    "SELECT 1",
    "SELECT 0",
    "OBJECT ENCODING %k",
];

/// How bad a lost update of a story is, if there is one.
fn severity(story: &str) -> Option<Severity> {
    found(Code::LostUpdate, story).map(|finding| finding.severity)
}

/// The same if some keys have data that must not be lost.
fn severity_of(resources: &str, story: &str) -> Option<Severity> {
    let scope = Scope { resources: vec![resources.as_bytes().to_vec()], ..Scope::default() };
    let findings = play(story).findings_in(scope);
    findings.iter().find(|finding| finding.code == Code::LostUpdate).map(|finding| finding.severity)
}

#[test]
fn a_sum_that_was_read_before_the_lock_was_taken_loses_what_was_booked_meanwhile() {
    judge(&Pair {
        code: Code::LostUpdate,
        wrong: "
            Setup: SET total 1000
            ! A: GET total
            ! B: GET total
            ! B: SET ledger:lock {b} NX PX 10000
            ! B: SET total 1045
            ! B: RELEASE ledger:lock {b}
            ! A: SET ledger:lock {a} NX PX 10000
            ! A: SET total 1300
            A: RELEASE ledger:lock {a}
        ",
        right: "
            Setup: SET total 1000
            B: SET ledger:lock {b} NX PX 10000
            B: GET total
            B: SET total 1045
            B: RELEASE ledger:lock {b}
            A: SET ledger:lock {a} NX PX 10000
            A: GET total
            A: SET total 1345
            A: RELEASE ledger:lock {a}
        ",
    });
}

#[test]
fn a_lock_that_was_given_up_before_the_write_was_for_something_else() {
    let story = "
        Setup: SET stock 5
        A: GET stock
        B: GET stock
        A: SET page:lock {a} NX PX 10000
        A: RELEASE page:lock {a}
        B: SET page:lock {b} NX PX 10000
        A: SET stock 4 EX 60
        B: RELEASE page:lock {b}
        B: SET stock 3 EX 60
    ";
    let finding = found(Code::LostUpdate, story).expect("it is lost");
    assert_eq!(finding.severity, Severity::Note);
    assert!(!finding.sentence.contains("page:lock"), "{}", finding.sentence);
}

#[test]
fn a_lock_that_was_over_protects_nothing_and_the_finding_says_so() {
    let story = "
        A: SET lock {a} NX PX 1000
        A: HGET sum cents
        +2s
        B: SET lock {b} NX PX 1000
        B: HGET sum cents
        B: HSET sum cents 1250 batch 2
        B: RELEASE lock {b}
        A: HSET sum cents 9900 batch 1
        A: RELEASE lock {a}
    ";
    let finding = found(Code::LostUpdate, story).expect("it is lost");
    assert_eq!(finding.severity, Severity::Error);
    let [what, why] = [
        "to `cents` of `sum` in between, which is lost: it had found nothing",
        "although both had `lock`: the time of A ",
    ];
    assert!(finding.sentence.contains(what) && finding.sentence.contains(why), "{}", finding.sentence);
}

#[test]
fn two_locks_for_one_key_protect_nothing() {
    let story = "
        Setup: HSET account:4 name Ada credit 300
        A: SET transfer:4:17 {a} NX EX 20
        B: SET transfer:17:4 {b} NX EX 20
        A: HGET account:4 credit
        B: HGET account:4 credit
        A: HSET account:4 credit 200
        A: RELEASE transfer:4:17 {a}
        B: HSET account:4 credit 330
        B: RELEASE transfer:17:4 {b}
    ";
    let finding = found(Code::LostUpdate, story).expect("it is lost");
    assert_eq!(finding.severity, Severity::Error);
    let sentence = &finding.sentence;
    assert!(sentence.contains("; B (client ") && sentence.contains(" had `transfer:17:4`, A (client "), "{sentence}");
    assert!(sentence.ends_with(" had `transfer:4:17`"), "{sentence}");
}

#[test]
fn whoever_watches_a_key_after_reading_it_has_watched_too_late() {
    judge(&Pair {
        code: Code::LostUpdate,
        wrong: r#"
            Setup: SET free "['A1', 'A2', 'A3']"
            ! A: GET free
            ! B: GET free
            B: WATCH free
            B: MULTI
            B: SET free "['A2', 'A3']"
            ! B: EXEC
            A: WATCH free
            A: MULTI
            A: SET free "['A2', 'A3', 'A4']"
            ! A: EXEC
        "#,
        right: r#"
            Setup: SET free "['A1', 'A2', 'A3']"
            A: WATCH free
            A: GET free
            B: WATCH free
            B: GET free
            B: MULTI
            B: SET free "['A2', 'A3']"
            B: EXEC
            A: MULTI
            A: SET free "['A2', 'A3', 'A4']"
            A: EXEC
            A: WATCH free
            A: GET free
            A: MULTI
            A: SET free "['A3']"
            A: EXEC
        "#,
    });
}

#[test]
fn what_is_declared_must_not_be_lost() {
    let cart = r#"
        Setup: SET sess:8 "{'user': 'ada', 'cart': []}"
        A: GET sess:8
        B: GET sess:8
        A: SET sess:8 "{'user': 'ada', 'cart': ['lamp']}" EX 1800
        B: SET sess:8 "{'user': 'ada', 'cart': ['chair']}" EX 1800
    "#;
    assert_eq!(severity(cart), Some(Severity::Note));
    assert_eq!(severity_of("sess:*", cart), Some(Severity::Error));
    assert_eq!(severity_of("cart:*", cart), Some(Severity::Note));
    let mode = "Setup: SET mode 5\nA: GET mode\nB: GET mode\nA: SET mode 0\nB: SET mode 7";
    assert_eq!(severity(mode), Some(Severity::Warning));
    assert_eq!(severity_of("mode", mode), Some(Severity::Error));
    let seat = "A: HGET seats 12\nB: HGET seats 12\nA: HSET seats 12 ada\nB: HSET seats 12 bob";
    assert_eq!(severity(seat), Some(Severity::Note));
    assert_eq!(severity_of("seats", seat), Some(Severity::Error));
}

#[test]
fn connections_without_a_name_are_two_if_each_has_read_before_either_wrote() {
    let two = "s: SET views 1000\na: GET views\nb: GET views\na: SET views 1120\nb: SET views 1035";
    assert_eq!(severity(two), Some(Severity::Error));
    assert_eq!(severity_of("views", two), Some(Severity::Error));
    // One program over two connections.
    let one = "a: GET views\nb: SET views 1120\na: SET views 1035";
    assert_ne!(severity_of("views", one), Some(Severity::Error));
    let again = "s: SET views 1000\na: GET views\nb: GET views\na: SET views 1120\nc: GET views\nb: SET views 1155";
    assert_eq!(severity_of("views", again), None);
}

#[test]
fn whose_update_is_lost_is_told_by_the_name_that_a_client_has_taken_between_its_commands() {
    let story = "
        s: SET views 1000
        a: GET pages
        a: GET pages
        a: CLIENT SETNAME Early
        a: GET views
        B: GET views
        a: SET views 1120
        B: SET views 1035
    ";
    let lost = found(Code::LostUpdate, story).expect("the update of Early is lost");
    assert_eq!(lost.severity, Severity::Error);
    assert!(lost.sentence.contains("Early"), "{}", lost.sentence);
}

#[test]
fn who_has_taken_another_name_is_called_so_after_a_transaction_that_uses_no_data() {
    let story = "
        s: SET views 1000
        A: GET views
        B: GET views
        A: SET views 1120
        A: CLIENT SETNAME Later
        A: MULTI
        A: TTL views
        A: EXEC
        B: SET views 1035
    ";
    let lost = found(Code::LostUpdate, story).expect("the update of A is lost");
    assert!(lost.sentence.contains("what Later "), "{}", lost.sentence);
}

#[test]
fn an_update_is_lost_too_if_who_made_it_takes_another_name_before_it_is_overwritten() {
    for renamed in ["CLIENT SETNAME Later", "HELLO 3 SETNAME Later"] {
        let story = format!(
            "s: SET views 1000\nA: GET views\nB: GET views\nA: SET views 1120\nA: {renamed}\nB: SET views 1035"
        );
        let lost = found(Code::LostUpdate, &story).unwrap_or_else(|| panic!("the update of A is lost: {renamed}"));
        assert!(lost.sentence.contains("what A "), "{}", lost.sentence);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// A story is judged by each path: see `assert_live_is_the_same`.
    #[test]
    fn whatever_clients_do_to_data_is_judged_by_headers_as_by_whole_lines(
        lines in prop::collection::vec((select(vec!["a", "b", "C", "D"]), select(ON_DATA.to_vec()), select(vec!["x", "y"])), 1..80)
    ) {
        let line = |(client, command, key): &(&str, &str, &str)| {
            command.split(" | ").map(|command| format!("{client}: {}\n", command.replace("%k", key))).collect::<String>()
        };
        play(&lines.iter().map(line).collect::<String>());
    }
}

#[test]
fn a_list_that_is_written_anew_loses_what_was_pushed_meanwhile() {
    let story = "
        Setup: RPUSH order 1-x 2-x
        A: LRANGE order 0 -1
        B: RPUSH order 3-y
        A: MULTI
        A: DEL order
        A: RPUSH order 1-x 2-x 4-z
        A: EXEC
    ";
    assert_eq!(severity(story), Some(Severity::Error));
    let added = "Setup: RPUSH order 1\nA: LRANGE order 0 -1\nB: RPUSH order 2\nA: RPUSH order 3";
    assert_eq!(severity_of("order", added), None);
}

#[test]
fn of_what_a_cache_does_there_is_a_note_at_most() {
    for story in [
        "A: GET page\nB: GET page\nA: SET page one EX 60\nB: SET page two EX 60",
        "A: GET page\nB: GET page\nA: SET page one EX 60\nB: SET page one EX 60",
        "A: GET page\nB: SETEX page 60 two\nA: SETEX page 60 one",
        "Setup: SET flag off\nA: GET flag\nB: SET flag on\nA: SET flag off",
        "Setup: SET beat {s+0}\nA: GET beat\nB: SET beat {s+1}\nA: SET beat {s+2}",
    ] {
        assert!(severity(story).is_none_or(|severity| severity == Severity::Note), "{story}");
    }
}

#[test]
fn what_is_written_in_one_step_or_compared_loses_nothing() {
    for story in [
        "A: GET n\nB: GET n\nA: INCR n\nB: INCR n",
        "A: HGET h n\nB: HGET h n\nA: HINCRBY h n 2\nB: HINCRBY h n 3",
        "Setup: SET n 5\nA: GET n\nB: GETSET n 0\nA: GETSET n 0",
        "Setup: SET n 5\nA: GET n\nB: INCR n\nA: GET n\nA: SET n 7",
        "A: SMEMBERS s\nB: SADD s one\nA: SADD s two",
        "Setup: HSET h one 1 two 2\nA: HGETALL h\nB: HSET h two 3\nA: HSET h one 2",
        "Setup: SET n 5\nA: GET n\nB: SET n 6\nA: EVAL \"if redis.call('get', KEYS[1]) == ARGV[1] then \
         return redis.call('set', KEYS[1], ARGV[2]) end return 0\" 1 n 6 7",
    ] {
        nothing_is_found(story);
        assert_eq!(severity_of("*", story), None, "{story}");
    }
}

#[test]
fn a_value_that_a_test_sets_is_its_own_affair() {
    for story in [
        // From one connection alone.
        "A: SET n 1\nA: GET n\nA: SET n 2\nA: SET n 3",
        // Each test begins with nothing.
        "A: GET n\nSetup: FLUSHALL\nSetup: SET n 5\nA: SET n 6",
        // What was read was written already.
        "Setup: SET n 1\nA: GET n\nA: SET n 2\nSetup: SET n 1\nA: SET n 3",
    ] {
        nothing_is_found(story);
        assert_eq!(severity_of("*", story), None, "{story}");
    }
    // A program that reads, and a test that writes what it reads.
    let set = "A: GET mode\nSetup: SET mode fast\nA: SET mode slow";
    assert_eq!(severity_of("*", set), Some(Severity::Note));
}

#[test]
fn two_tasks_that_share_a_connection_share_its_watch() {
    let story = "
        Setup: SET best 10
        A: WATCH best
        A: WATCH best
        A: GET best
        A: GET best
        A: MULTI
        A: SET best 30
        A: EXEC
        A: MULTI
        A: SET best 20
        A: EXEC
    ";
    assert_eq!(severity(story), None);
    assert_eq!(severity_of("best", story), Some(Severity::Error));
    let again = story.replace("A: MULTI\n        A: SET best 20", "A: GET best\n A: MULTI\n A: SET best 20");
    assert_eq!(severity_of("best", &again), None);
}

#[test]
fn whoever_is_refused_and_goes_on_loses_what_the_holder_writes() {
    let story = "
        A: SET payroll {a} NX PX 30000
        A: GET paid
        B: SET payroll {b} NX PX 30000
        B: GET paid
        B: SET paid 3000
        A: SET paid 4000
        A: RELEASE payroll {a}
    ";
    let finding = found(Code::LostUpdate, story).expect("it is lost");
    assert_eq!(finding.severity, Severity::Error);
    assert!(finding.sentence.contains("was refused by `payroll`, and went on"), "{}", finding.sentence);
}

#[test]
fn in_random_histories_just_those_updates_are_lost_that_versions_show() {
    const CLIENTS: [&str; 3] = ["A", "B", "C"];
    const KEYS: [&str; 2] = ["one", "two"];
    let mut random = 18_u64;
    let mut next = |limit: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(random >> 33).expect("31 bits") % limit
    };
    for round in 0..12 {
        let mut story: String = KEYS.iter().map(|key| format!("S: SET {key} 1\n")).collect();
        // Who wrote each version of each key, and the version that each client has read and not written since.
        let mut writers: Vec<Vec<usize>> = vec![vec![usize::MAX]; KEYS.len()];
        let mut known = vec![vec![None::<usize>; KEYS.len()]; CLIENTS.len()];
        let mut lost: Vec<(usize, usize)> = Vec::new();
        for value in 0..40 {
            let (client, key) = (next(CLIENTS.len()), next(KEYS.len()));
            let (name, on) = (CLIENTS[client], KEYS[key]);
            match next(5) {
                0 | 1 => {
                    story += &format!("{name}: GET {on}\n");
                    known[client][key] = Some(writers[key].len());
                }
                2 | 3 => {
                    story += &format!("{name}: SET {on} {}\n", 100 * round + value + 2);
                    let between = known[client][key].map(|read| &writers[key][read..]).unwrap_or_default();
                    if between.iter().any(|writer| *writer != client) {
                        lost.push((client, key));
                    }
                    known[client][key] = None;
                    writers[key].push(client);
                }
                _ => {
                    story += &format!("{name}: INCR {on}\n");
                    known[client][key] = None;
                    writers[key].push(client);
                }
            }
        }
        let played = play(&story);
        let findings = played.findings();
        let mut found: Vec<(usize, usize)> = findings
            .iter()
            .filter(|finding| finding.code == Code::LostUpdate)
            .map(|finding| {
                let name = finding.evidence.last().expect("a write").source.name.to_string();
                let key = String::from_utf8_lossy(&finding.key).into_owned();
                let client = CLIENTS.iter().position(|client| *client == name).expect("a client");
                (client, KEYS.iter().position(|on| *on == key).expect("a key"))
            })
            .collect();
        found.sort_unstable();
        lost.sort_unstable();
        lost.dedup();
        assert_eq!(found, lost, "{story}");
    }
}

#[test]
fn whoever_looks_again_under_the_watch_has_not_written_from_what_it_read_before() {
    let story = "
        A: GET leader
        B: SET leader {b} PX 1000
        +2s
        A: WATCH leader
        A: EXISTS leader
        A: MULTI
        A: SET leader {a} PX 1000
        A: EXEC
    ";
    assert_eq!(severity(story), None);
}

#[test]
fn two_programs_that_compute_from_one_version_undo_what_the_other_one_did() {
    for story in [
        // Both count.
        "Setup: SET views 1000\nA: GET views\nB: GET views\nA: SET views 1120\nB: SET views 1035",
        "Setup: HSET shelf lamps 12\nA: HGET shelf lamps\nB: HGET shelf lamps\nA: HSET shelf lamps 10\nB: HSET shelf lamps 11",
        "Setup: SET balance 10.50\nA: GET balance\nB: GET balance\nA: SET balance 8.25\nB: SET balance 12.00",
        // One of them counts in one step.
        "Setup: SET n 5\nA: GET n\nB: INCRBY n 10\nA: SET n 6",
        // Both add something, or take something away.
        r#"Setup: SET cart "{'of': 'ada', 'cart': ['lamp']}"
           A: GET cart
           B: GET cart
           A: SET cart "{'of': 'ada', 'cart': ['lamp', 'chair']}"
           B: SET cart "{'of': 'ada', 'cart': ['lamp', 'table']}""#,
        r#"Setup: SET rooms "['A1', 'A2', 'A3', 'A4']"
           A: GET rooms
           B: GET rooms
           A: SET rooms "['A2', 'A3', 'A4']"
           B: SET rooms "['A1', 'A2', 'A3']""#,
        // They change two fields of one document.
        r#"Setup: SET user "{'name': 'ada', 'town': 'Turin', 'mail': 'ada@a.example'}"
           A: GET user
           B: GET user
           A: SET user "{'name': 'eve', 'town': 'Turin', 'mail': 'ada@a.example'}"
           B: SET user "{'name': 'ada', 'town': 'Turin', 'mail': 'eve@a.example'}""#,
        // All fields are saved as they were read.
        "Setup: HSET user visits 7 points 20
         A: HGETALL user
         B: HINCRBY user visits 1
         A: HSET user visits 7 points 25",
        "Setup: MSET left 100 right 0
         A: MGET left right
         B: MGET left right
         A: MULTI
         A: SET left 70
         A: SET right 30
         A: EXEC
         B: MULTI
         B: SET left 80
         B: SET right 20
         B: EXEC",
        // A set is written anew.
        "Setup: SADD tags one two three
         A: SMEMBERS tags
         B: SADD tags four
         A: DEL tags
         A: SADD tags one two three five",
    ] {
        assert_eq!(severity(story), Some(Severity::Error), "{story}");
        // Connections without a name may be those of one program, which has read it for something else.
        let is_read = |line: &&str| ["GET", "MEMBERS"].iter().any(|name| line.contains(name));
        let unnamed: String = story
            .lines()
            .map(|line| match is_read(&line) {
                true => line.replace("A: ", "c: ").replace("B: ", "d: ") + "\n",
                false => line.replace("A: ", "a: ").replace("B: ", "b: ") + "\n",
            })
            .collect();
        assert_ne!(severity(&unnamed), Some(Severity::Error), "{unnamed}");
    }
}

#[test]
fn where_the_last_one_may_be_meant_to_win_there_is_no_error() {
    for story in [
        // Both put something else in the same place.
        r#"Setup: SET state "{'state': 'idle', 'by': 'nobody'}"
           A: GET state
           B: GET state
           A: SET state "{'state': 'busy', 'by': 'a'}"
           B: SET state "{'state': 'done', 'by': 'b'}""#,
        // The same value, which both have computed.
        "Setup: SET version 3\nA: GET version\nB: GET version\nA: SET version 4\nB: SET version 4",
        r#"Setup: SET page "<p>one page of many, version 1</p>"
           A: GET page
           B: GET page
           A: SET page "<p>one page of many, version 2</p>"
           B: SET page "<p>one page of many, version 2</p>""#,
        // A counter is put back.
        "Setup: SET n 37\nA: GET n\nB: INCR n\nA: SET n 0",
        // A time that both note.
        "Setup: SET beat {s+0}\nA: GET beat\nB: GET beat\nA: SET beat {s+1}\nB: SET beat {s+2}",
        r#"Setup: SET seen "{'host': 'web', 'at': 1700000000}"
           A: GET seen
           B: GET seen
           A: SET seen "{'host': 'web', 'at': 1700000007}"
           B: SET seen "{'host': 'web', 'at': 1700000009}""#,
        // A gauge, which one of them also sets without a look.
        "Setup: SET load 5
         B: SET load 6
         A: GET load
         A: SET load 7
         B: SET load 8
         B: GET load
         A: GET load
         A: SET load 3
         B: SET load 9",
        // A session.
        "Setup: SET sess 10 EX 60\nA: GET sess\nB: GET sess\nA: SET sess 11 EX 60\nB: SET sess 12 EX 60",
        // Fields that only one of them writes.
        "Setup: HSET user visits 7 points 20\nA: HGETALL user\nB: HINCRBY user visits 1\nA: HSET user points 25",
    ] {
        assert_ne!(severity(story), Some(Severity::Error), "{story}");
    }
}

#[test]
fn the_key_that_two_clients_have_around_their_work_is_a_lock() {
    // Both count to the same number, so that only the lock tells that one step is lost.
    let story = "
        Setup: SET invoice 310
        A: SET desk alpha NX PX 1000
        A: GET invoice
        +2s
        B: SET desk beta NX PX 1000
        B: GET invoice
        B: SET invoice 311
        A: SET invoice 311
    ";
    assert_eq!(severity(story), Some(Severity::Error));
    assert_ne!(severity(&story.replace("B: SET desk beta NX PX 1000", "B: PING")), Some(Severity::Error));
}

#[test]
fn whoever_is_refused_and_goes_on_is_found_also_after_its_connection_has_ended() {
    let story = "
        A: SET payroll {a} NX PX 30000
        A: GET paid
        B: SET payroll {b} NX PX 30000
        B: GET paid
        B: SET paid 3000
        close B
        A: SET paid 4000
        A: RELEASE payroll {a}
    ";
    let finding = found(Code::LostUpdate, story).expect("it is lost");
    assert_eq!(finding.severity, Severity::Error);
    assert!(finding.sentence.contains("was refused by `payroll`, and went on"), "{}", finding.sentence);
}

#[test]
fn whoever_takes_its_lost_lock_anew_still_writes_what_it_read_under_the_first_one() {
    let story = "
        A: SET due:lock {a} NX PX 250
        A: LRANGE due 0 -1
        +1s
        B: SET due:lock {b} NX PX 250
        B: LRANGE due 0 -1
        B: MULTI
        B: DEL due
        B: RPUSH due backup
        B: EXEC
        B: RELEASE due:lock {b}
        A: SET due:lock {a} NX PX 250
        A: MULTI
        A: DEL due
        A: RPUSH due report
        A: EXEC
        A: RELEASE due:lock {a}
    ";
    assert_eq!(severity(story), Some(Severity::Error));
}

#[test]
fn a_reply_of_getset_that_says_no_is_a_refusal() {
    let story = "
        Setup: SET total 100
        W: SETNX lock.foo {ms+1}
        +3s
        A: GET lock.foo
        B: GET lock.foo
        A: GETSET lock.foo {ms+5000}
        A: GET total
        B: GETSET lock.foo {ms+5001}
        B: GET total
        B: SET total 101
        A: SET total 101
        A: DEL lock.foo
    ";
    assert_eq!(severity(story), Some(Severity::Error));
}
