//! What clients do to locks, in any order: what is noted in short, and told later, is told as if each line had been looked at whole.

use std::fmt::Write;

use proptest::prelude::*;
use proptest::sample::select;
use redouble::Code;

use super::many_locks::MET;
use super::story::{found, nothing_is_found, play, shown};

/// A line of a story.
#[derive(Clone, Debug)]
enum Line {
    /// Who takes which lock, by a command with a token and how many milliseconds in it.
    Take(&'static str, &'static str, &'static str, Token, u32),
    /// Who gives it back, or extends it, with a token of its own or of another client.
    GiveBack(&'static str, &'static str, &'static str, Token),
    /// Who extends it so many times, after so many milliseconds each.
    Renew(&'static str, &'static str, usize, u32),
    /// Who takes a lock by a command with a token, and deletes it: in a second step, or in a third one after a look.
    TakeAndDelete(&'static str, &'static str, &'static str, Token, bool),
    /// Who does something else to a key.
    Other(&'static str, &'static str, &'static str),
    /// Milliseconds pass.
    Pass(u32),
    Close(&'static str),
    /// A release whose reply is lost.
    Lost(&'static str, &'static str),
    /// A release by a transaction: the first command of these watches the key.
    Transaction(&'static str, &'static str, &'static str),
    /// A transaction without a condition.
    Multi(&'static str, &'static str, &'static str, &'static str),
}

/// Which token a client sends.
#[derive(Clone, Copy, Debug)]
enum Token {
    /// A new one, and from then on the last one.
    New,
    Last,
    OfOther,
    Fixed(&'static str),
}

/// Two tokens of which the rules compare the same beginning.
const LONG: &str = "a-token-of-more-than-sixty-four-bytes-0123456789-abcdefghijklmnopqrstuvwxyz-1";
const LONGER: &str = "a-token-of-more-than-sixty-four-bytes-0123456789-abcdefghijklmnopqrstuvwxyz-23";

/// Two clients with names and two without.
const CLIENTS: [&str; 4] = ["A", "B", "a", "b"];
const LOCKS: [&str; 3] = ["lock:job", "jobs:7", "lock:b"];

fn client() -> impl Strategy<Value = &'static str> {
    select(CLIENTS.to_vec())
}

fn lock() -> impl Strategy<Value = &'static str> {
    select(LOCKS.to_vec())
}

fn taking() -> impl Strategy<Value = Token> {
    prop_oneof![8 => Just(Token::New), 2 => Just(Token::Last), 1 => Just(Token::OfOther),
        2 => select(vec!["owner-7", "1700000000", "w1-{ms+0}"]).prop_map(Token::Fixed),
        4 => select(vec!["1", "1", "x", "locked"]).prop_map(Token::Fixed),
        4 => select(vec!["{s+1}", "{s+30}", "{ms+1}", "{ms+30}", "{f+1}", "a:{s+30}"]).prop_map(Token::Fixed),
        1 => select(vec![LONG, LONGER]).prop_map(Token::Fixed)]
}

fn queued() -> impl Strategy<Value = &'static str> {
    select(vec![
        "SET data 6",
        "GET data",
        "INCR runs",
        "GET %k",
        "SET %k here",
        "SET %k here NX PX 1000",
        "DEL data more",
        "LPUSH data",
    ])
}

fn line() -> impl Strategy<Value = Line> {
    let take = select(vec!["SET %k %t NX PX %m", "SET %k %t PX %m NX", "SETNX %k %t", "SET %k %t PX %m"]);
    let give = prop_oneof![
        6 => Just("RELEASE %k %t"),
        3 => select(vec!["EXTEND %k %t 1000", "EXTEND %k %t 30000", "EXPIRE %k 30", "PEXPIRE %k 1000"]),
        3 => select(vec![
            // With an array, with nothing, with two keys, with what the script does besides, and of a function.
            "EVAL \"if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) return {1, 2} end return {}\" 1 %k %t",
            "EVAL \"if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) end\" 1 %k %t",
            "EVAL \"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1], KEYS[2]) end\" 2 %k data %t",
            "EVAL \"if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) redis.call('set', 'data', 2) end\" 1 %k %t",
            "EVAL \"if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) return redis.error_reply('no') end\" 1 %k %t",
            "EVAL \"if redis.call('exists', KEYS[1]) == 0 then return redis.call('set', KEYS[1], ARGV[1], 'PX', 1000) end\" 1 %k %t",
            "EVAL_RO \"return redis.call('get', KEYS[1]) == ARGV[1]\" 1 %k %t",
            "FCALL release 1 %k %t",
        ]),
    ];
    let owner = prop_oneof![12 => Just(Token::Last), 2 => Just(Token::OfOther), 1 => Just(Token::Fixed("1"))];
    let other = prop_oneof![
        4 => select(vec!["DEL %k", "GET %k", "PTTL %k", "SET data 1", "GET data", "INCR runs", "PERSIST %k", "GETDEL %k"]),
        3 => select(vec![
            "SET data 2 EX 1", "SETEX data 1 3", "MGET data %k", "MSET data 4 more 5", "DEL data", "DEL data %k", "EXISTS data more",
            "HSET cart item 1", "HGET cart item", "EXPIRE data 1", "SADD runs w1", "GETSET %k {s+2}", "GETEX data EX 1", "EXISTS %k",
        ]),
        1 => select(vec![
            "SELECT 1", "SELECT 0", "RENAME %k lock:b", "COPY %k lock:job", "MOVE %k 1", "FLUSHALL", "SWAPDB 0 1",
            "WATCH %k", "CLIENT SETNAME other", "HELLO 3", "PEXPIRE %k 5", "EXPIRE %k 100000", "EXPIRE %k 0", "EXPIRE %k 60 GT",
        ]),
    ];
    let millis = select(vec![30_000, 30_000, 1000, 100, 5]);
    prop_oneof![
        8 => (client(), lock(), take, taking(), millis).prop_map(|(by, key, take, token, millis)| {
            Line::Take(by, key, take, token, millis)
        }),
        8 => (client(), lock(), give, owner).prop_map(|(by, key, give, token)| Line::GiveBack(by, key, give, token)),
        3 => (client(), lock(), 1..12usize, select(vec![1, 300, 990])).prop_map(|(by, key, times, millis)| {
            Line::Renew(by, key, times, millis)
        }),
        3 => (client(), lock(), select(vec!["SET %k %t NX PX 30000", "SETNX %k %t"]), taking(), any::<bool>()).prop_map(
            |(by, key, take, token, looks)| Line::TakeAndDelete(by, key, take, token, looks)
        ),
        4 => (client(), lock(), other).prop_map(|(by, key, command)| Line::Other(by, key, command)),
        3 => select(vec![1, 90, 95, 900, 990, 31_000]).prop_map(Line::Pass),
        2 => client().prop_map(Line::Close),
        1 => (client(), lock()).prop_map(|(by, key)| Line::Lost(by, key)),
        1 => (client(), lock(), select(vec!["DEL %k", "RELEASE %k %t", "SET data 3"])).prop_map(|(by, key, queued)| {
            Line::Transaction(by, key, queued)
        }),
        1 => (client(), lock(), queued(), queued()).prop_map(|(by, key, first, second)| Line::Multi(by, key, first, second)),
    ]
}

const FUNCTION: &str = "C: FUNCTION LOAD \"#!lua name=locks\\nredis.register_function('release', function(keys, args) \
    if redis.call('get', keys[1]) == args[1] then return redis.call('del', keys[1]) end return 0 end)\"\n";

/// The story that lines make, in which each client has met a lock already.
fn told(lines: &[Line]) -> String {
    let mut story = format!("{MET}{FUNCTION}");
    let mut last = CLIENTS.map(|client| format!("first-token-of-{client}"));
    let place = |client: &str| CLIENTS.iter().position(|known| *known == client).expect("a client");
    for (number, line) in lines.iter().enumerate() {
        let mut token_of = |client: &str, token: Token| match token {
            Token::New => {
                last[place(client)] = super::story::token(&format!("{number}"));
                last[place(client)].clone()
            }
            Token::Last => last[place(client)].clone(),
            Token::OfOther => last[(place(client) + 1) % CLIENTS.len()].clone(),
            Token::Fixed(token) => token.to_owned(),
        };
        let told = match line {
            Line::Take(by, key, command, token, millis) => {
                let command = command.replace("%k", key).replace("%t", &token_of(by, *token));
                format!("{by}: {}", command.replace("%m", &millis.to_string()))
            }
            Line::GiveBack(by, key, command, token) => {
                format!("{by}: {}", command.replace("%k", key).replace("%t", &token_of(by, *token)))
            }
            Line::Renew(by, key, times, millis) => {
                format!("+{millis}ms\n{by}: EXTEND {key} {} 30000\n", token_of(by, Token::Last)).repeat(*times)
            }
            Line::TakeAndDelete(by, key, take, token, looks) => {
                let take = take.replace("%k", key).replace("%t", &token_of(by, *token));
                let look = if *looks { format!("{by}: GET {key}\n") } else { String::new() };
                format!("{by}: {take}\n{look}{by}: DEL {key}")
            }
            Line::Other(by, key, command) => format!("{by}: {}", command.replace("%k", key)),
            Line::Pass(millis) => format!("+{millis}ms"),
            Line::Transaction(by, key, queued) => {
                let queued = queued.replace("%k", key).replace("%t", &token_of(by, Token::Last));
                format!("{by}: WATCH {key}\n{by}: GET {key}\n{by}: MULTI\n{by}: {queued}\n{by}: EXEC")
            }
            Line::Multi(by, key, first, second) => {
                let [first, second] = [first, second].map(|queued| queued.replace("%k", key));
                format!("{by}: MULTI\n{by}: {first}\n{by}: {second}\n{by}: EXEC")
            }
            Line::Lost(by, key) => format!("lost {by}: RELEASE {key} {}\n{by}: PING", token_of(by, Token::Last)),
            Line::Close(client) => format!("close {client}\n{client}: PING"),
        };
        writeln!(story, "{told}").expect("a string takes all");
    }
    story
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// A story is judged by each path: see `assert_live_is_the_same`.
    #[test]
    fn whatever_clients_do_to_locks_is_judged_in_short_as_it_is_judged_whole(lines in prop::collection::vec(line(), 1..60)) {
        play(&told(&lines));
    }
}

// ---- locks that are given back by scripts

/// The findings of a kind, as they are shown, with numbers that do not depend on the story's beginning.
fn evidence(code: Code, story: &str) -> Vec<String> {
    let played = play(story);
    let findings = played.findings();
    let told = findings.iter().find(|finding| finding.code == code).map(|finding| {
        finding.evidence.iter().map(|shown| format!("{}: {}", shown.source.line, shown.what)).collect::<Vec<_>>()
    });
    told.unwrap_or_else(|| panic!("{:?}", findings.iter().map(|f| shown(&played, f)).collect::<Vec<_>>()))
}

const COMPARE_AND_DELETE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) return {1,2} end return {}";

#[test]
fn a_lock_that_is_given_back_late_three_times_is_close_to_expiry_each_time() {
    let once = |token: &str| format!("A: SET jobs:7 {{{token}}} NX PX 30000\n +28s\n A: RELEASE jobs:7 {{{token}}}\n");
    let story =
        |times: usize| format!("{MET} {}", ["a", "b", "c"][..times].iter().map(|t| once(t)).collect::<String>());
    assert_eq!(evidence(Code::CloseToExpiry, &story(3)).len(), 3);
    assert_eq!(found(Code::CloseToExpiry, &story(2)), None);
}

#[test]
fn a_lock_that_is_extended_many_times_is_judged_by_its_last_extension() {
    for times in [1, 2, 7, 8, 9, 30] {
        let extended = "A: GET data\n+500ms\nA: EXTEND lock:job {a} 1000\n".repeat(times);
        let taken = format!("{MET}A: SET lock:job {{a}} NX PX 1000\n{extended}");
        nothing_is_found(&format!("{taken}+500ms\nA: SET data 1\nA: RELEASE lock:job {{a}}\n"));
        let late = format!("{taken}+1100ms\nB: SET lock:job {{b}} NX PX 1000\nA: RELEASE lock:job {{a}}\n");
        assert!(found(Code::LateRelease, &late).is_some(), "{times}");
    }
}

#[test]
fn a_client_that_deletes_by_key_alone_after_it_gave_the_lock_back_deletes_another_ones() {
    let story = format!(
        "{MET} A: SET lock:job {{a}} NX PX 30000\n A: RELEASE lock:job {{a}}\n B: SET lock:job {{b}} NX PX 30000\n A: DEL lock:job"
    );
    assert!(found(Code::ForeignRelease, &story).is_some());
}

#[test]
fn a_guessable_token_is_told_when_the_lock_is_given_back_and_not_before() {
    let taken = format!("{MET} A: SET jobs:7 owner-7 NX PX 30000");
    assert_eq!(found(Code::TokenGuessable, &taken), None);
    assert!(found(Code::TokenGuessable, &format!("{taken}\n A: RELEASE jobs:7 owner-7")).is_some());
}

#[test]
fn the_same_token_after_a_release_in_short_is_constant() {
    let use_by =
        |client: &str| format!("{client}: SET lock:job owner-a NX PX 30000\n {client}: RELEASE lock:job owner-a\n");
    let story = format!("{MET} {}{}{}", use_by("A"), use_by("A"), use_by("B"));
    assert!(found(Code::TokenConstant, &story).is_some());
}

#[test]
fn each_refusal_of_a_value_that_everybody_writes_shows_that_it_is_no_token() {
    let attempts: String =
        ["A", "B", "a", "b", "B"].map(|client| format!("{client}: SET lock:q 1 NX PX 30000\n")).concat();
    let played = play(&format!("{MET}{attempts}"));
    let findings = played.findings();
    let constant = findings.iter().find(|finding| finding.code == Code::TokenConstant).expect("a finding");
    assert_eq!((constant.times, constant.last_seq - constant.seq), (4, 3));
    let shown: Vec<&str> = constant.evidence.iter().map(|shown| &*shown.source.line).collect();
    assert_eq!(shown, ["SET lock:q 1 NX PX 30000"; 2]);
}

#[test]
fn a_lock_without_an_expiry_is_told_of_when_it_is_given_back() {
    let story = format!("{MET} A: SET lock:job {{a}} NX\n A: RELEASE lock:job {{a}}");
    assert_eq!(
        evidence(Code::NoExpiry, &story),
        ["SET lock:job 0c5c4373a429a6c82208a83bf2db4785 NX: took the lock without an expiry"]
            .map(|line| line.replace("0c5c4373a429a6c82208a83bf2db4785", &super::story::token("a")))
    );
}

#[test]
fn what_a_script_does_besides_is_no_release() {
    // The deletion is followed by another value: not only given back.
    let story = format!(
        "{MET} A: SET lock:job {{a}} NX PX 30000
        A: EVAL \"if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) redis.call('set', KEYS[1], 'done', 'PX', 1000) end return 0\" 1 lock:job {{a}}
        B: SET lock:job {{b}} NX PX 30000
        +2s
        B: SET lock:job {{b}} NX PX 30000
        B: RELEASE lock:job {{b}}"
    );
    nothing_is_found(&story);
}

#[test]
fn a_script_with_an_array_for_a_reply_gives_back_as_one_with_a_number_does() {
    nothing_is_found(&format!(
        "{MET} A: SET jobs:7 {{a}} NX PX 30000\n A: EVAL \"{COMPARE_AND_DELETE}\" 1 jobs:7 {{a}}\n close A\n B: SET jobs:7 {{b}} NX PX 30000\n B: EVAL \"{COMPARE_AND_DELETE}\" 1 jobs:7 {{b}}"
    ));
}

#[test]
fn a_release_whose_reply_is_lost_is_looked_at_whole() {
    nothing_is_found(&format!(
        "{MET} A: SET lock:job {{a}} NX PX 30000\n lost A: RELEASE lock:job {{a}}\n B: SET lock:job {{b}} NX PX 30000\n A: RELEASE lock:job {{a}}\n B: RELEASE lock:job {{b}}"
    ));
}

#[test]
fn a_lock_is_given_back_in_time_in_the_very_millisecond_of_its_deadline() {
    // The clock stands: 30000 ms later the server still has the key, or not; what it replies is what counts.
    for passed in ["29999ms", "30000ms", "30001ms"] {
        play(&format!(
            "{MET} A: SET lock:job {{a}} NX PX 30000\n +{passed}\n A: RELEASE lock:job {{a}}\n B: SET lock:job {{b}} NX PX 30000\n A: RELEASE lock:job {{a}}"
        ));
    }
}

#[test]
fn tokens_of_any_kind_are_shown_as_they_are_after_a_release_in_short() {
    for token in ["lock:job", "\"\"", "raw:{a}", "1", "get", "EVAL", "del"] {
        play(&format!(
            "{MET} A: SET lock:job {token} NX PX 30000\n A: RELEASE lock:job {token}\n A: DEL lock:job\n A: SET lock:job {token} NX PX 30000\n A: RELEASE lock:job {token}\n B: SET lock:job {token} NX PX 30000\n B: RELEASE lock:job {token}"
        ));
    }
    for key in ["1", "EVAL", "get", "lock"] {
        play(&format!(
            "{MET} A: SET {key} {{a}} NX PX 30000\n A: RELEASE {key} {{a}}\n B: SET {key} {{b}} NX PX 30000\n A: DEL {key}"
        ));
    }
}

#[test]
fn a_lock_that_was_given_back_in_short_is_flushed_moved_and_copied_as_one_that_is_free() {
    for what in [
        "FLUSHALL",
        "FLUSHDB",
        "SWAPDB 0 1",
        "RENAME lock:other lock:job",
        "COPY lock:other lock:job",
        "MOVE lock:other 1",
    ] {
        play(&format!(
            "{MET} B: SET lock:other {{o}} NX PX 60000\n A: SET lock:job {{a}} NX PX 30000\n A: RELEASE lock:job {{a}}\n C: {what}\n A: DEL lock:job\n B: SET lock:job {{b}} NX PX 30000\n A: RELEASE lock:job {{a}}\n B: RELEASE lock:job {{b}}"
        ));
    }
}

#[test]
fn another_connection_without_a_name_gives_back_with_the_token_that_a_pool_shares() {
    nothing_is_found(&format!(
        "{MET} a: SET lock:job {{a}} NX PX 30000\n b: RELEASE lock:job {{a}}\n a: SET lock:job {{c}} NX PX 30000\n a: RELEASE lock:job {{c}}"
    ));
}

/// Two clients each hold a lock, and ask for that of the other one again and again; this comes before they ask.
fn crossing(before: &str) -> String {
    format!(
        "{MET}
        A: SET lock:x {{a}} NX PX 30000
        B: SET lock:y {{b}} NX PX 30000
        {before}
        3 times +100ms A: SET lock:y {{c}} NX PX 30000 | B: SET lock:x {{d}} NX PX 30000"
    )
}

#[test]
fn who_waits_for_another_lock_while_it_gives_one_back_waits_in_no_circle() {
    assert!(found(Code::LockOrder, &crossing("")).is_some());
    assert_eq!(found(Code::LockOrder, &crossing("A: RELEASE lock:x {a}")), None);
}

#[test]
fn a_long_script_is_looked_at_whole() {
    let long = format!("local unused = '{}' {COMPARE_AND_DELETE}", "x".repeat(5000));
    play(&format!(
        "{MET} A: SET lock:job {{a}} NX PX 30000\n A: EVAL \"{long}\" 1 lock:job {{a}}\n B: SET lock:job {{b}} NX PX 30000\n A: DEL lock:job"
    ));
}

#[test]
fn faults_and_errors_inside_of_scripts_are_no_release() {
    let pcall = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.pcall('del', KEYS[1]) return 1 end return 0";
    for (fault, script) in [
        ("on DEL error \"ERR boom\"", pcall),
        ("on DEL error \"ERR boom\"", COMPARE_AND_DELETE),
        ("on GET error \"ERR boom\"", pcall),
        ("on EVAL error \"ERR boom\"", pcall),
    ] {
        play(&format!(
            "{MET}
            A: SET lock:job {{a}} NX PX 30000
            D: REDOUBLE FAULT ADD f {fault}
            A: EVAL \"{script}\" 1 lock:job {{a}}
            D: REDOUBLE FAULT CLEAR
            A: EVAL \"{script}\" 1 lock:job {{a}}
            B: SET lock:job {{b}} NX PX 30000
            A: DEL lock:job"
        ));
    }
}

#[test]
fn data_that_are_read_and_written_in_scripts_are_lost_as_ever() {
    // Both read, both write: the write that is lost has to do with no lock, although scripts about the lock come in between.
    let story = format!(
        "{MET}
        A: SET lock:job {{a}} NX PX 30000
        A: GET stock
        A: RELEASE lock:job {{a}}
        B: SET lock:job {{b}} NX PX 30000
        B: GET stock
        A: SET stock 1
        B: SET stock 2
        B: RELEASE lock:job {{b}}
        A: GET lock:job
        B: RELEASE lock:job {{b}}
        A: SET lock:job {{c}} NX PX 30000
        A: RELEASE lock:job {{c}}"
    );
    play(&story);
}

#[test]
fn a_lock_that_is_given_back_is_remembered_in_another_database_however_late_it_was_taken_there() {
    for before in ["", "C: PING\n"] {
        let story = format!(
            "{MET}
            {before}
            A: SET lock:job {{a}} NX PX 3600000
            pace 70000ms
            A: SELECT 1
            pace 5ms
            A: SET lock:job {{a}} NX PX 3600000
            A: SELECT 0
            A: RELEASE lock:job {{a}}
            A: SELECT 2
            A: SET lock:job {{a}} NX PX 3600000"
        );
        assert!(found(Code::OneServer, &story).is_some());
    }
}

#[test]
fn an_attempt_that_began_before_other_servers_were_heard_of_is_shown_as_it_was_sent() {
    for before in ["", "C: PING\n"] {
        let story = format!(
            "{MET}
            {before}
            A: SET lock:job {{a}} NX PX 10000
            C@2: SET lock:job {{c}} NX PX 10000
            C@3: SET lock:job {{c}} NX PX 10000
            A@2: SET lock:job {{a}} NX PX 10000
            A@3: SET lock:job {{a}} NX PX 10000
            +2s
            A: SET data 1
            A: RELEASE lock:job {{a}}"
        );
        let finding = found(Code::NoQuorum, &story).expect("a minority is no majority");
        let asked = finding.evidence.iter().filter(|evidence| evidence.source.line.starts_with("SET lock:job "));
        assert_eq!(asked.count(), 3, "{finding:?}");
    }
}

#[test]
fn what_a_function_ran_is_shown_also_if_it_is_called_as_its_lock() {
    play(&format!(
        "{MET}
        C: FUNCTION LOAD \"#!lua name=lib\\nredis.register_function('job', function(keys, args) return redis.call('set', keys[1], args[1], 'NX', 'PX', 30000) end)\"
        A: FCALL job 1 job 1
        B: SET job 1 NX PX 30000
        B: SET job 1 NX PX 30000
        C: SET job {{q}} NX PX 30000
        A: FCALL job 1 job 1"
    ));
}

// ---- connections that end

#[test]
fn a_lock_that_its_client_leaves_behind_is_told_of_once_it_is_over_with_who_had_to_wait() {
    let story = format!(
        "{MET}
        A: SET lock:job {{a}} NX PX 30000
        B: SET lock:job {{b}} NX PX 30000
        close A
        b: SET lock:job {{c}} NX PX 30000
        +1s
        b: SET lock:job {{d}} NX PX 30000
        close b
        +30s
        B: SET lock:job {{e}} NX PX 30000
        B: RELEASE lock:job {{e}}"
    );
    let shown = evidence(Code::HeldAtDisconnect, &story);
    let what: Vec<&str> = shown.iter().filter_map(|line| line.rsplit(": ").next()).collect();
    assert_eq!(what, ["took the lock", "its connection ended", "was refused meanwhile"]);
}

#[test]
fn a_lock_without_an_expiry_is_told_of_when_its_client_leaves_or_when_the_key_is_known_for_a_lock() {
    let gone = "was gone before it gave the lock an expiry";
    let known = format!("{MET} A: SETNX lock:job {{a}}\n B: SETNX lock:job {{b}}\n close A\n");
    assert!(evidence(Code::NoExpiry, &known)[1].contains(gone));
    // It may be data, until somebody uses it as a lock.
    let data = format!("{MET} A: SETNX jobs:7 {{a}}\n close A\n");
    assert_eq!(found(Code::NoExpiry, &data), None);
    let lock = format!("{data} B: SETNX jobs:7 {{b}}");
    assert!(evidence(Code::NoExpiry, &lock)[1].contains(gone));
}

#[test]
fn a_client_that_its_own_lock_refused_three_times_until_its_connection_ended_deadlocked_itself() {
    let again = |times: usize| "+10ms\n A: SET lock:job {b} NX PX 30000\n".repeat(times);
    let story = |times: usize| {
        format!(
            "{MET} A: SET lock:job {{a}} NX PX 30000\n B: SET lock:job {{c}} NX PX 30000\n {} close A",
            again(times)
        )
    };
    assert!(found(Code::SelfDeadlock, &story(3)).is_some());
    assert_eq!(found(Code::SelfDeadlock, &story(2)), None);
}

#[test]
fn whoever_left_waits_in_no_circle_and_is_waited_for_in_none() {
    let waits = "2 times +100ms A: SET lock:y {c} NX PX 30000 | C: PING";
    assert!(found(Code::LockOrder, &crossing(waits)).is_some());
    let left = format!("{waits}\n close B\n B: SET lock:z {{e}} NX PX 30000");
    assert_eq!(found(Code::LockOrder, &crossing(&left)), None);
}

#[test]
fn a_lock_that_was_left_behind_before_other_servers_were_heard_of_is_out_of_reach() {
    for before in ["", "C: PING\n"] {
        let story = |left: &str| {
            format!(
                "{MET}
                {before}
                A: SET lock:job {{a}} NX PX 10000
                {left}
                C@2: SET lock:job {{c}} NX PX 30000
                C@3: SET lock:job {{c}} NX PX 30000
                A@2: SET lock:job {{a}} NX PX 10000
                A@3: SET lock:job {{a}} NX PX 10000
                +11s
                B: SET lock:job {{b}} NX PX 10000
                B: RELEASE lock:job {{b}}"
            )
        };
        assert!(found(Code::NotReleasedEverywhere, &story("")).is_some());
        assert_eq!(found(Code::NotReleasedEverywhere, &story("close A")), None);
    }
}

#[test]
fn what_others_do_to_a_lock_that_was_left_behind_is_judged_as_ever() {
    for what in [
        "B: DEL lock:job",
        "B: GET lock:job",
        "B: SET lock:job {b} PX 30000",
        "B: RELEASE lock:job {a}",
        "B: GETDEL lock:job",
        "B: EXTEND lock:job {a} 40000",
        "B: PERSIST lock:job",
        "C: FLUSHALL",
        "B: RENAME lock:job lock:b",
        "close B",
        "B: SET lock:job {a} NX PX 30000",
        "a: SETNX lock:job 1",
        "B: PEXPIRE lock:job 1\n +2ms",
    ] {
        for take in
            ["SET lock:job {a} NX PX 30000", "SETNX lock:job {a}", "SET jobs:7 {a} NX PX 30000", "SETNX jobs:7 {a}"]
        {
            let what = if take.contains("jobs:7") { what.replace("lock:job", "jobs:7") } else { what.to_owned() };
            let refused = take.replace("{a}", "{r}");
            play(&format!(
                "{MET} A: {take}\n B: {refused}\n b: {refused}\n close A\n A: PING\n {what}\n A: {take}\n close b\n A: {take}"
            ));
        }
    }
}

#[test]
fn a_connection_that_ends_behind_an_unchecked_release_ends_behind_it_for_the_rules_as_well() {
    play(&told(&[Line::Other("b", "lock:b", "MOVE %k 1"), Line::Lost("b", "lock:job"), Line::Lost("A", "lock:b")]));
}
