//! Which commands a fault is about, when it fires, and what is told of it.

use redouble::Server;

use crate::driver::Driver;
use crate::support::wire::{Frame, Wire, request};
use crate::support::{address, spawn_frozen};

fn begin() -> (Server, Driver, Wire) {
    let server = spawn_frozen();
    let (driver, client) = (Driver::connect(address(&server)), Wire::connect(address(&server)));
    (server, driver, client)
}

fn hit() -> Frame {
    Frame::error("HIT")
}

/// Which of these commands meet a rule with an error.
#[track_caller]
fn met<'l>(driver: &mut Driver, client: &mut Wire, rule: &str, lines: &[&'l str]) -> Vec<&'l str> {
    driver.arm(&format!("f {rule} error HIT"));
    let met = lines.iter().copied().filter(|line| client.ask(line) == hit()).collect();
    driver.disarm("f");
    met
}

// ---- when

#[test]
fn the_third_one_is_hit_and_no_other() {
    let (_server, mut driver, mut client) = begin();
    driver.arm("f on INCR nth 3 error HIT");
    let hits: Vec<bool> = (0..6).map(|_| client.ask("INCR n") == hit()).collect();
    assert_eq!(hits, [false, false, true, false, false, false]);
    assert_eq!(driver.counts("f"), [6, 1, 0]);
}

#[test]
fn the_second_and_third_are_hit() {
    let (_server, mut driver, mut client) = begin();
    driver.arm("f on INCR nth 2 times 2 error HIT");
    let hits: Vec<bool> = (0..5).map(|_| client.ask("INCR n") == hit()).collect();
    assert_eq!(hits, [false, true, true, false, false]);
}

#[test]
fn chances_are_the_same_for_the_same_seed() {
    let draw = |seed: u64, probability: &str| -> Vec<bool> {
        let (_server, mut driver, mut client) = begin();
        driver.arm(&format!("f on PING probability {probability} seed {seed} error HIT"));
        (0..64).map(|_| client.ask("PING") == hit()).collect()
    };
    assert_eq!(draw(7, "0.5"), draw(7, "0.5"));
    assert_ne!(draw(7, "0.5"), draw(8, "0.5"));
    assert!((15..50).contains(&draw(7, "0.5").iter().filter(|hit| **hit).count()));
    assert!(draw(7, "0").iter().all(|hit| !hit));
    assert!(draw(7, "1.0").iter().all(|hit| *hit));
}

#[test]
fn the_first_rule_that_fires_decides_and_one_that_does_not_leaves_it_to_the_next() {
    let (_server, mut driver, mut client) = begin();
    driver.arm("once on INCR nth 2 error FIRST");
    driver.arm("always on INCR error SECOND");
    let replies: Vec<String> = (0..3).map(|_| client.ask("INCR n").text()).collect();
    assert_eq!(replies, ["SECOND", "FIRST", "SECOND"]);
    assert_eq!(driver.counts("once"), [3, 1, 0]);
    assert_eq!(driver.counts("always"), [2, 2, 0]);
}

#[test]
fn a_command_that_waits_for_a_pause_is_counted_once() {
    let (_server, mut driver, mut client) = begin();
    driver.arm("f on SET nth 2 error HIT");
    driver.ask("CLIENT PAUSE 1000 WRITE");
    client.send(&request(&["SET", "k", "v"]));
    driver.wire().ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
    driver.advance("2s");
    assert_eq!(client.expect(), Frame::status("OK"));
    assert_eq!(driver.counts("f"), [1, 0, 0]);
}

// ---- which commands

#[test]
fn commands_are_meant_by_name_list_container_or_category() {
    let (_server, mut driver, mut client) = begin();
    let lines = ["SET k v", "GET k", "CLIENT ID", "CLIENT GETNAME", "ECHO k", "DEL k"];
    let mut met = |rule: &str| met(&mut driver, &mut client, rule, &lines);
    assert_eq!(met("on set"), ["SET k v"]);
    assert_eq!(met("on SET DEL"), ["SET k v", "DEL k"]);
    assert_eq!(met("on SET,ECHO GET"), ["SET k v", "GET k", "ECHO k"]);
    assert_eq!(met("on CLIENT"), ["CLIENT ID", "CLIENT GETNAME"]);
    assert_eq!(met("on client|getname"), ["CLIENT GETNAME"]);
    assert_eq!(met("on @write"), ["SET k v", "DEL k"]);
    assert_eq!(met("on @read ECHO"), ["GET k", "ECHO k"]);
    assert_eq!(met(""), lines);
}

#[test]
fn keys_are_meant_wherever_a_command_names_them() {
    let (_server, mut driver, mut client) = begin();
    for line in ["RPUSH list 2 1", "XADD stream 1-1 f v"] {
        driver.ask(line);
    }
    let lines = [
        "GET lock:a",
        "GET other",
        "GET lock:",
        "MSET other 1 lock:a 2",
        "DEL other lock:a",
        "EVAL return 2 lock:a other",
        "EVAL return 1 other lock:a",
        "SORT list STORE lock:a",
        "XREAD COUNT 1 STREAMS stream lock:a 0 0",
        "PING lock:a",
    ];
    let expected = [
        "GET lock:a",
        "MSET other 1 lock:a 2",
        "DEL other lock:a",
        "EVAL return 2 lock:a other",
        "SORT list STORE lock:a",
        "XREAD COUNT 1 STREAMS stream lock:a 0 0",
    ];
    let hits = met(&mut driver, &mut client, "key lock:?*", &lines);
    assert_eq!(hits, expected);
    driver.arm("f key lock:* error HIT");
    assert_eq!(client.call(&["EVAL", "return 1", "1", "lock:a"]), hit());
    assert_eq!(client.call(&["EVAL", "return 1", "0", "lock:a"]), Frame::Integer(1));
}

#[test]
fn a_transaction_is_meant_if_a_command_inside_is() {
    for (line, verdict, is_meant) in [
        ("SET lock:a 1", "on SET key lock:* close-before", true),
        ("SET other 1", "on SET key lock:* close-before", false),
        ("GET lock:a", "on SET key lock:* close-before", false),
        ("GET lock:a", "on EXEC close-before", true),
        ("GET lock:a", "on EXEC key lock:* close-before", false),
        ("GET lock:a", "on MULTI nth 2 close-before", false),
    ] {
        let (_server, mut driver, mut client) = begin();
        driver.arm(&format!("f {verdict}"));
        for line in ["MULTI", "PING", line, "EXEC"] {
            client.send(&request(&line.split(' ').collect::<Vec<_>>()));
        }
        let replies = client.expect() == Frame::status("OK")
            && client.expect() == Frame::status("QUEUED")
            && client.expect() == Frame::status("QUEUED");
        assert!(replies, "{verdict}: the fault comes with EXEC");
        assert_eq!(client.read().is_err(), is_meant, "{line} with {verdict}");
    }
}

#[test]
fn a_transaction_meets_a_rule_once_however_many_of_its_commands_are_meant() {
    let (_server, mut driver, mut client) = begin();
    driver.arm("f on INCR nth 2 delay 1");
    for _ in 0..2 {
        client.send(&[request(&["MULTI"]), request(&["INCR", "n"]), request(&["INCR", "n"])].concat());
        client.send(&request(&["EXEC"]));
    }
    driver.until_hanging("f", 1);
    assert_eq!(driver.counts("f"), [2, 1, 1]);
    assert_eq!(driver.ask("GET n"), Frame::bulk("2"));
}

// ---- whose, and where

#[test]
fn a_client_is_meant_by_its_number_or_its_name_also_if_it_got_that_later() {
    let (server, mut driver, mut client) = begin();
    let id = client.ask("CLIENT ID").integer();
    let mut other = Wire::connect(address(&server));
    driver.arm(&format!("number client {id} on GET error NUMBER"));
    driver.arm("name client worker-* on PING error NAME");
    assert_eq!(client.ask("GET k"), Frame::error("NUMBER"));
    assert_eq!(other.ask("GET k"), Frame::NullBulk);
    assert_eq!(other.ask("PING"), Frame::status("PONG"));
    assert_eq!(other.ask("CLIENT SETNAME worker-1"), Frame::status("OK"));
    assert_eq!(other.ask("PING"), Frame::error("NAME"));
    assert_eq!(client.ask("PING"), Frame::status("PONG"));
}

#[test]
fn a_database_is_meant_also_behind_a_select_in_a_transaction() {
    let (_server, mut driver, mut client) = begin();
    driver.arm("f on SET db 1 error HIT");
    assert_eq!(client.ask("SET k 0"), Frame::status("OK"));
    for line in ["MULTI", "SET k 0", "SELECT 1", "SET k 1", "SELECT 0", "SET k 0"] {
        client.ask(line);
    }
    let ok = || Frame::status("OK");
    assert_eq!(client.ask("EXEC"), Frame::Array(vec![ok(), ok(), hit(), ok(), ok()]));
    client.ask("SELECT 1");
    assert_eq!(client.ask("SET k 1"), hit());
    client.ask("SELECT 0");
    driver.disarm("f");
    driver.arm("f on SET db 1 close-before");
    for line in ["MULTI", "SELECT 2", "SET k 2"] {
        client.ask(line);
    }
    assert_eq!(client.ask("EXEC"), Frame::Array(vec![ok(), ok()]));
    client.ask("SELECT 0");
    for line in ["MULTI", "SELECT 1", "SET k 1"] {
        client.ask(line);
    }
    client.send(&request(&["EXEC"]));
    assert!(client.is_closed());
}

#[test]
fn what_drives_the_test_meets_no_fault() {
    let (_server, mut driver, _) = begin();
    driver.arm("all error HIT");
    driver.arm("writes on @write close-before");
    assert_eq!(driver.ask("PING"), hit());
    assert_eq!(driver.counts("all"), [1, 1, 0]);
    assert_eq!(driver.disarm_all(), ["writes"]);
    assert_eq!(driver.ask("PING"), Frame::status("PONG"));
}

// ---- what is told

#[test]
fn a_fault_that_never_fired_is_told() {
    let (_server, mut driver, mut client) = begin();
    for rule in ["a on GET error HIT", "b on SET error HIT", "c on GET probability 0 error HIT"] {
        driver.arm(rule);
    }
    client.ask("GET k");
    let names = |names: &[&str]| Frame::Array(names.iter().map(|name| Frame::bulk(name)).collect());
    assert_eq!(driver.ask("REDOUBLE FAULT UNFIRED"), names(&["b", "c"]));
    assert_eq!(driver.disarm("b"), 0);
    assert_eq!(driver.ask("REDOUBLE FAULT CLEAR"), names(&["c"]));
    assert_eq!(driver.ask("REDOUBLE FAULT LIST"), Frame::Array(vec![]));
}

#[test]
fn ten_thousand_rules_are_the_most_and_each_is_found() {
    let (_server, mut driver, mut client) = begin();
    let mut requests = Vec::new();
    for number in 0..10_000 {
        let (name, key) = (format!("f{number}"), format!("k{number}"));
        requests.extend(request(&["REDOUBLE", "FAULT", "ADD", &name, "on", "SET", "key", &key, "error", "HIT"]));
    }
    assert!(driver.wire().send(&requests));
    for _ in 0..10_000 {
        assert_eq!(driver.wire().expect(), Frame::status("OK"));
    }
    let full = "ERR there are 10000 faults already, which is the most there can be";
    assert_eq!(driver.ask("REDOUBLE FAULT ADD more hang"), Frame::error(full));
    assert_eq!(client.ask("SET k9999 v"), hit());
    assert_eq!(client.ask("SET k v"), Frame::status("OK"));
    assert_eq!(driver.counts("f9999"), [1, 1, 0]);
    assert_eq!(driver.disarm_all().len(), 9_999);
}

#[test]
fn nonsense_is_refused_with_what_was_received_and_what_was_expected() {
    let (_server, mut driver, _) = begin();
    let long = format!("f on SET error {}", "x".repeat(70_000));
    for (rule, error) in [
        ("", "a name of 1 to 128 printable characters without spaces was expected; received nothing"),
        ("f on", "a command such as SET, CLIENT|KILL or @write was expected; received nothing"),
        ("f on REDOUBLE hang", "a command such as SET, CLIENT|KILL or @write was expected; received 'REDOUBLE'"),
        ("f on SET,,GET hang", "a command such as SET, CLIENT|KILL or @write was expected; received nothing"),
        ("f on @nothing hang", "a command such as SET, CLIENT|KILL or @write was expected; received '@nothing'"),
        ("f nth 0 hang", "nth is a whole number of at least 1; received '0'"),
        ("f times -1 hang", "times is a whole number of at least 1; received '-1'"),
        ("f probability 1.5 hang", "a probability from 0 to 1 was expected; received '1.5'"),
        ("f probability nan hang", "a probability from 0 to 1 was expected; received 'nan'"),
        ("f delay soon", "a duration such as 1500 (milliseconds), 250ms, 1.5s or 2m was expected; received 'soon'"),
        ("f drip 0 every 1s", "how many bytes is a whole number of at least 1; received '0'"),
        ("f drip 1 each 1s", "drip <bytes> every <duration> was expected; received 'each'"),
        ("f drip 1 every 0", "drip waits between its parts; received 0ms"),
        ("f truncate some", "how many bytes is a whole number of at least 0; received 'some'"),
        (
            "f hang on SET",
            "conditions stand in front of what goes wrong, and a text is one word in quotes; received 'on'",
        ),
        ("f error", "the text of the error was expected; received nothing"),
        ("f on SET pause", "pause is about everybody, at once, and takes no conditions; hang is for single commands"),
        (
            "f key k refuse",
            "refuse is about new connections, which have no command, key, name or database yet: it takes nth, times, \
             probability and seed",
        ),
        (&long, "the words of a fault have at most 65536 bytes; received 70010"),
    ] {
        let reply = driver.ask(&format!("REDOUBLE FAULT ADD {rule}"));
        assert_eq!(reply, Frame::error(&format!("ERR {error}")), "{}", &rule[..rule.len().min(40)]);
    }
    assert_eq!(driver.ask("REDOUBLE FAULT LIST"), Frame::Array(vec![]));
    assert_eq!(driver.ask("REDOUBLE FAULT REMOVE f"), Frame::error("ERR there is no fault 'f'"));
}
