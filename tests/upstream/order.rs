//! The order in which commands took effect: what the journal says of it is compared with what the server's MONITOR shows,
//! which is fed as commands are executed.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::Value;

use crate::place::Place;
use crate::support::Dice;
use crate::support::process::ServerProcess;
use crate::support::upstream::Front;
use crate::support::wire::{Frame, Wire, request};

/// How many commands are sent; with `REDOUBLE_TESTS_ORDER=1000000`, so many.
fn wanted() -> usize {
    std::env::var("REDOUBLE_TESTS_ORDER").ok().and_then(|value| value.parse().ok()).unwrap_or(20_000)
}

const CLIENTS: usize = 50;
const KEYS: usize = 5;
/// Commands that a client sends in one write, at most.
const PIPELINE: usize = 4;

/// One command of a client. The last word of each names the client and a number, so that it is found again.
fn command(dice: &mut Dice, mark: &str) -> Vec<String> {
    let key = |dice: &mut Dice| format!("k{}", dice.below(KEYS));
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let (one, two) = (key(dice), key(dice));
    match dice.below(12) {
        0..=4 => words(&["SET", &one, mark]),
        5 => words(&["GETSET", &one, mark]),
        6 => words(&["APPEND", &one, mark]),
        7 => words(&["SETNX", &one, mark]),
        8 => words(&["MSET", &one, mark, &two, mark]),
        9 => words(&["EVAL", "return redis.call('SET', KEYS[1], ARGV[1])", "1", &one, mark]),
        10 => words(&["SETEX", &one, "1000", mark]),
        _ => words(&["SET", &one, mark, "GET", "XX"]),
    }
}

/// The keys of a command, and its mark.
fn keys_and_mark(words: &[String]) -> (Vec<String>, String) {
    match words[0].as_str() {
        "MSET" => (vec![words[1].clone(), words[3].clone()], words[2].clone()),
        "EVAL" => (vec![words[3].clone()], words[4].clone()),
        "SETEX" => (vec![words[1].clone()], words[3].clone()),
        _ => (vec![words[1].clone()], words[2].clone()),
    }
}

/// What was executed, in the order of the server's MONITOR: the words of each command, without those of scripts.
fn executed(mut monitor: Wire, count: usize) -> Vec<Vec<String>> {
    let mut seen = Vec::with_capacity(count);
    while seen.len() < count {
        let line = monitor.expect().text();
        // `1700000000.123456 [0 127.0.0.1:5000] "SET" "k" "v"`; what scripts call has `[0 lua]`.
        let (head, words) = line.split_once("] ").expect("a command");
        if head.ends_with("lua") || words.starts_with("\"PING\"") {
            continue;
        }
        let words = crate::support::wire::split(words.as_bytes()).expect("quotes");
        seen.push(words.into_iter().map(|word| String::from_utf8(word).expect("text")).collect());
    }
    seen
}

/// Fifty clients send commands on few keys, alone and in pipelines. Returns what the server has executed, in its order,
/// and the journal.
fn storm(arguments: &[&str]) -> (Vec<Vec<String>>, Vec<Value>) {
    let redis = ServerProcess::redis(&["--save", "", "--client-output-buffer-limit", "normal 0 0 0"]);
    let front = Front::start(&[&redis.url()], &[&["--journal-size", "2gb", "--threads", "2"], arguments].concat());
    let mut monitor = Wire::connect(redis.address());
    monitor.ask("MONITOR");
    let count = wanted() / CLIENTS * CLIENTS;
    let address = front.address();
    let executed = std::thread::scope(|scope| {
        let reader = scope.spawn(move || executed(monitor, count));
        for client in 0..CLIENTS {
            scope.spawn(move || run_client(address, client, count / CLIENTS));
        }
        reader.join().expect("MONITOR")
    });
    let mut driver = Wire::connect(front.address());
    assert_eq!(driver.ask("REDOUBLE JOURNAL COUNT"), Frame::Integer(count as i64), "{}", front.log());
    let mut lines = front.exported();
    lines.retain(|line| line["event"].is_null());
    (executed, lines)
}

fn run_client(address: SocketAddr, client: usize, count: usize) {
    let mut wire = Wire::connect(address);
    let mut dice = Dice::new(client as u64 + 1);
    let mut sent = 0;
    while sent < count {
        let batch = (1 + dice.below(PIPELINE)).min(count - sent);
        let bytes: Vec<u8> = (0..batch)
            .flat_map(|offset| request(&command(&mut dice, &format!("{client}-{}", sent + offset))))
            .collect();
        assert!(wire.send(&bytes));
        for _ in 0..batch {
            let reply = wire.expect();
            assert!(!reply.is_error(), "{reply:?}");
        }
        sent += batch;
    }
}

fn words(line: &Value) -> Vec<String> {
    line["command"].as_array().expect("words").iter().map(|word| word.as_str().expect("text").to_owned()).collect()
}

fn number(line: &Value, field: &str) -> i64 {
    line[field].as_i64().unwrap_or_else(|| panic!("{field} of {line}"))
}

/// For each key, the marks of the commands on it, in order.
fn by_key(commands: impl Iterator<Item = Vec<String>>) -> BTreeMap<String, Vec<String>> {
    let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for words in commands {
        let (own, mark) = keys_and_mark(&words);
        for key in own {
            let marks = keys.entry(key).or_default();
            if marks.last() != Some(&mark) {
                marks.push(mark.clone());
            }
        }
    }
    keys
}

#[test]
fn in_exact_mode_the_journal_has_the_commands_on_each_key_in_the_order_of_the_server() {
    let (executed, entries) = storm(&["--upstream-order", "exact"]);
    assert!(entries.iter().all(|entry| entry["order"] == "exact"));
    let (server, journal) = (by_key(executed.into_iter()), by_key(entries.iter().map(words)));
    for (key, marks) in &server {
        let differs = marks.iter().zip(&journal[key]).position(|(one, other)| one != other);
        assert!(
            differs.is_none() && marks.len() == journal[key].len(),
            "{key} differs at {differs:?} of {}",
            marks.len()
        );
    }
    assert_eq!(server.len(), KEYS);
}

#[test]
fn in_interval_mode_the_order_of_the_server_is_one_that_the_intervals_allow() {
    let (executed, entries) = storm(&[]);
    assert!(entries.iter().all(|entry| entry["order"] == "interval"));
    let interval = |line: &Value| (number(line, "sent_us"), number(line, "time_us"));
    let intervals: BTreeMap<String, (i64, i64)> =
        entries.iter().map(|entry| (keys_and_mark(&words(entry)).1, interval(entry))).collect();
    assert_eq!(intervals.len(), executed.len());
    // A command cannot have been sent after a later one had its reply.
    let mut latest_sent = i64::MIN;
    for words in &executed {
        let (_, mark) = keys_and_mark(words);
        let (sent, replied) = intervals[&mark];
        assert!(sent <= replied, "{words:?}: sent at {sent}, replied at {replied}");
        latest_sent = latest_sent.max(sent);
        assert!(
            latest_sent <= replied,
            "{words:?} took effect after a command that was sent {} us after its reply",
            latest_sent - replied
        );
    }
    assert!(entries.windows(2).all(|pair| number(&pair[0], "seq") < number(&pair[1], "seq")));
}

#[test]
fn in_exact_mode_commands_on_other_keys_do_not_wait_for_one_that_blocks_and_nothing_deadlocks() {
    let mut place = Place::direct(&[]);
    let url = place.redis.url();
    place.front = Some(Front::start(&[&url], &["--upstream-order", "exact"]));
    let mut clients: Vec<Wire> = (0..4).map(|_| place.client()).collect();
    let mut server = place.server();
    clients[0].send(&request(&["BLPOP", "list", "0"]));
    server.ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
    assert_eq!(clients[1].ask("SET other v"), Frame::status("OK"));
    assert_eq!(clients[1].ask("LLEN list"), Frame::Integer(0), "nobody waits for a client that is blocked");
    assert_eq!(clients[1].ask("RPUSH list a"), Frame::Integer(1));
    clients[0].expect();
    // Commands that name each other's keys, in both directions, and all keys.
    std::thread::scope(|scope| {
        for (number, client) in clients.iter_mut().enumerate() {
            scope.spawn(move || {
                for round in 0..200 {
                    let (one, two) = if (number + round) % 2 == 0 { ("a", "b") } else { ("b", "a") };
                    let lines = [
                        format!("MSET {one} {round} {two} {round}"),
                        format!("MGET {two} {one}"),
                        "FLUSHALL".to_owned(),
                        "SWAPDB 0 1".to_owned(),
                        "MULTI".to_owned(),
                        format!("SET {two} x"),
                        "EXEC".to_owned(),
                    ];
                    let bytes: Vec<u8> =
                        lines.iter().flat_map(|line| request(&line.split(' ').collect::<Vec<_>>())).collect();
                    client.send(&bytes);
                    for line in &lines {
                        let reply = client.expect();
                        assert!(!reply.is_error(), "{line}: {reply:?}");
                    }
                }
            });
        }
    });
    let front = place.front.as_ref().expect("redouble");
    front.until_recorded("on MSET", 800);
}

#[test]
fn in_exact_mode_a_client_that_leaves_while_it_waits_or_is_waited_for_holds_nobody_up() {
    let mut place = Place::direct(&[]);
    let url = place.redis.url();
    place.front = Some(Front::start(&[&url], &["--upstream-order", "exact"]));
    let (mut server, mut last) = (place.server(), place.client());
    // The server holds the first SET, so the others wait for it.
    server.ask("CLIENT PAUSE 100000 WRITE");
    let mut waiting: Vec<Wire> = (0..5).map(|_| place.client()).collect();
    for client in &mut waiting {
        // Both come in one read, so where the PING has its reply the SET has its place in the order.
        client.send(&[request(&["PING"]), request(&["SET", "k", "v"])].concat());
        assert_eq!(client.expect(), Frame::status("PONG"));
    }
    server.ask_until("CLIENT LIST", |list| list.contains("cmd=set"));
    drop(waiting);
    last.send(&request(&["SET", "k", "last"]));
    server.ask("CLIENT UNPAUSE");
    assert_eq!(last.expect(), Frame::status("OK"));
    assert_eq!(server.ask("GET k"), Frame::bulk("last"));
}
