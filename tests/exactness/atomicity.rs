//! Commands that touch several keys happen at one instant, however many threads serve: nobody ever sees half of one.
//!
//! Writers change several keys so that something about them always holds; readers look, as often as they can, whether
//! it does. The keys are many and their names are long, so that they stand in different shards.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use redouble::Server;

use crate::support::wire::{Frame, Wire};
use crate::support::{Deadline, Dice, address, start};

/// How many looks the readers take together, and how many changes the writers make at least.
const LOOKS: usize = 1500;
const CHANGES: usize = 300;

/// Eight keys in different places of the keyspace.
fn keys(prefix: &str) -> Vec<String> {
    (0..8).map(|index| format!("{prefix}:a-key-that-stands-somewhere:{index}")).collect()
}

fn words<'a>(command: &'a str, keys: &'a [String]) -> Vec<&'a str> {
    std::iter::once(command).chain(keys.iter().map(String::as_str)).collect()
}

/// Two threads write and two read until there were enough of both. Each gets its own connection and the number of
/// its turn.
fn race(write: impl Fn(&mut Wire, usize) + Sync, read: impl Fn(&mut Wire, usize) + Sync) {
    let server = start(Server::builder().threads(2));
    race_on(&server, write, read);
}

fn race_on(server: &Server, write: impl Fn(&mut Wire, usize) + Sync, read: impl Fn(&mut Wire, usize) + Sync) {
    let changes = AtomicUsize::new(0);
    let looks = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let is_over = || {
        let enough = changes.load(Ordering::Relaxed) >= CHANGES && looks.load(Ordering::Relaxed) >= LOOKS;
        enough || failed.load(Ordering::Relaxed)
    };
    write(&mut Wire::connect(address(server)), 0);
    thread::scope(|scope| {
        for thread in 0..4 {
            let (write, read, changes, looks, failed, is_over) = (&write, &read, &changes, &looks, &failed, &is_over);
            scope.spawn(move || {
                let _canary = Canary(failed);
                let mut wire = Wire::connect(address(server));
                let mut turn = thread;
                let deadline = Deadline::start();
                while !is_over() {
                    deadline.check("enough changes and looks");
                    turn += 4;
                    if thread % 2 == 0 {
                        write(&mut wire, turn);
                        changes.fetch_add(1, Ordering::Relaxed);
                    } else {
                        read(&mut wire, turn);
                        looks.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
}

/// Ends the race when a thread fails.
struct Canary<'a>(&'a AtomicBool);

impl Drop for Canary<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Runs a transaction and returns its replies.
fn exec<W: AsRef<[u8]>>(wire: &mut Wire, commands: &[Vec<W>]) -> Vec<Frame> {
    let mut bytes = crate::support::wire::request(&["MULTI"]);
    for command in commands {
        bytes.extend(crate::support::wire::request(command));
    }
    bytes.extend(crate::support::wire::request(&["EXEC"]));
    wire.send(&bytes);
    assert_eq!(wire.expect(), Frame::status("OK"));
    for _ in commands {
        assert_eq!(wire.expect(), Frame::status("QUEUED"));
    }
    match wire.expect() {
        Frame::Array(replies) => replies,
        other => panic!("EXEC: {other:?}"),
    }
}

/// Sends commands one behind the other without waiting, and returns their replies.
fn pipeline<W: AsRef<[u8]>, C: AsRef<[W]>>(wire: &mut Wire, commands: impl Iterator<Item = C>) -> Vec<Frame> {
    let requests: Vec<Vec<u8>> = commands.map(|command| crate::support::wire::request(command.as_ref())).collect();
    wire.send(&requests.concat());
    requests.iter().map(|_| wire.expect()).collect()
}

fn all_equal(frame: &Frame) -> bool {
    frame.items().iter().all(|item| item == &frame.items()[0])
}

fn mset(keys: &[String], value: &str) -> Vec<String> {
    std::iter::once("MSET".to_owned()).chain(keys.iter().flat_map(|key| [key.clone(), value.to_owned()])).collect()
}

#[test]
fn nobody_sees_half_of_an_mset() {
    let keys = keys("mset");
    race(
        |wire, turn| assert_eq!(wire.call(&mset(&keys, &turn.to_string())), Frame::status("OK")),
        |wire, _| {
            let seen = wire.call(&words("MGET", &keys));
            assert!(all_equal(&seen), "{seen:?}");
        },
    );
}

#[test]
fn nobody_sees_half_of_an_msetnx_or_of_a_del_of_many() {
    let keys = keys("msetnx");
    let mut msetnx = mset(&keys, "v");
    msetnx[0] = "MSETNX".to_owned();
    let msetnx: Vec<&str> = msetnx.iter().map(String::as_str).collect();
    race(
        |wire, turn| {
            let del = words(["DEL", "UNLINK"][turn / 4 % 2], &keys);
            let replies = pipeline(wire, (0..10).map(|turn| if turn % 2 == 0 { msetnx.clone() } else { del.clone() }));
            for removed in replies.iter().skip(1).step_by(2) {
                assert!([0, 8].contains(&removed.integer()), "{removed:?}");
            }
        },
        |wire, turn| {
            let looks = (0..10).map(|_| words(["EXISTS", "MGET"][turn / 4 % 2], &keys));
            for seen in pipeline(wire, looks) {
                match seen {
                    Frame::Integer(places) => assert!(places == 0 || places == 8, "{places}"),
                    values => assert!(all_equal(&values), "{values:?}"),
                }
            }
        },
    );
}

#[test]
fn a_key_that_is_renamed_is_always_in_exactly_one_place() {
    let places = keys("rename");
    race(
        |wire, turn| {
            if turn == 0 {
                wire.call(&["SET", &places[0], "v"]);
            }
            let renames = (turn..turn + 20).map(|turn| ["RENAME", &places[turn % 8], &places[(turn / 8 + 1) % 8]]);
            pipeline(wire, renames);
        },
        |wire, turn| {
            let looks = (0..10).map(|_| words(["EXISTS", "MGET"][turn / 4 % 2], &places));
            for seen in pipeline(wire, looks) {
                match seen {
                    Frame::Integer(places) => assert_eq!(places, 1),
                    values => assert_eq!(values.items().iter().filter(|value| **value == Frame::bulk("v")).count(), 1),
                }
            }
        },
    );
}

#[test]
fn a_copy_has_value_and_lifetime_of_its_source_at_once() {
    let keys = keys("copy");
    let (source, copy) = (keys[0].as_str(), keys[1].as_str());
    race(
        |wire, turn| {
            // With a lifetime the value is "mortal", without one it is "immortal".
            match turn / 4 % 2 {
                0 => wire.call(&["SET", source, "mortal", "EX", "1000"]),
                _ => wire.call(&["SET", source, "immortal"]),
            };
            assert_eq!(wire.call(&["COPY", source, copy, "REPLACE"]), Frame::Integer(1));
        },
        |wire, _| {
            let seen = exec(wire, &[vec!["GET", copy], vec!["PTTL", copy]]);
            match (seen[0].text().as_str(), seen[1].integer()) {
                ("mortal", 1..) | ("immortal", -1) => {}
                other => panic!("{other:?}"),
            }
        },
    );
}

#[test]
fn bitop_sees_all_its_sources_at_one_instant() {
    let keys = keys("bitop");
    let dest = "bitop:the-difference";
    race(
        |wire, turn| {
            wire.call(&mset(&keys, &format!("{turn:08}")));
        },
        |wire, _| {
            let reply = wire.call(&["BITOP", "XOR", dest, &keys[0], &keys[1], &keys[2], &keys[3]]);
            assert_eq!(reply, Frame::Integer(8));
            assert_eq!(wire.call(&["BITCOUNT", dest]), Frame::Integer(0));
        },
    );
}

#[test]
fn databases_are_swapped_as_a_whole() {
    let keys = keys("swapdb");
    let server = start(Server::builder().threads(2));
    let mut wire = Wire::connect(address(&server));
    wire.call(&mset(&keys, "zero"));
    wire.ask("SELECT 1");
    wire.call(&mset(&keys, "one"));
    let seen = std::sync::Mutex::new(BTreeSet::new());
    race_on(
        &server,
        |wire, _| assert_eq!(wire.ask("SWAPDB 0 1"), Frame::status("OK")),
        |wire, _| {
            let values = wire.call(&words("MGET", &keys));
            assert!(all_equal(&values), "{values:?}");
            seen.lock().expect("no thread failed").insert(values.items()[0].text());
        },
    );
    assert_eq!(seen.into_inner().expect("no thread failed").len(), 2, "the databases were never seen swapped");
}

#[test]
fn a_flush_leaves_nothing_half_gone() {
    let keys = keys("flush");
    race(
        |wire, turn| {
            wire.call(&mset(&keys, &turn.to_string()));
            wire.ask(if turn / 4 % 2 == 0 { "FLUSHALL" } else { "FLUSHDB" });
        },
        |wire, _| {
            let seen = wire.call(&words("EXISTS", &keys)).integer();
            assert!(seen == 0 || seen == 8, "{seen}");
        },
    );
}

#[test]
fn nobody_sees_half_of_a_transaction() {
    let keys = keys("exec");
    race(
        |wire, _| {
            let commands: Vec<Vec<&str>> = keys.iter().map(|key| vec!["INCR", key]).collect();
            let counts = exec(wire, &commands);
            assert!(counts.iter().all(|count| count == &counts[0]), "{counts:?}");
        },
        |wire, turn| {
            let seen = if turn % 8 < 4 {
                wire.call(&words("MGET", &keys))
            } else {
                let commands: Vec<Vec<&str>> = keys.iter().map(|key| vec!["GET", key]).collect();
                Frame::Array(exec(wire, &commands))
            };
            assert!(all_equal(&seen), "{seen:?}");
        },
    );
}

#[test]
fn no_increment_is_lost() {
    const EACH: usize = 500;
    let server = start(Server::builder().threads(2));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut wire = Wire::connect(address(&server));
                for _ in 0..EACH {
                    wire.ask("INCR count");
                    wire.ask("APPEND log x");
                }
            });
        }
    });
    let mut wire = Wire::connect(address(&server));
    assert_eq!(wire.ask("GET count"), Frame::bulk(&(4 * EACH).to_string()));
    assert_eq!(wire.ask("STRLEN log"), Frame::Integer(4 * EACH as i64));
}

#[test]
fn watch_loses_no_update() {
    const EACH: usize = 150;
    let server = start(Server::builder().threads(2));
    Wire::connect(address(&server)).ask("SET count 0");
    let aborted = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut wire = Wire::connect(address(&server));
                let mut done = 0;
                let deadline = Deadline::start();
                while done < EACH {
                    deadline.check("a transaction that goes through");
                    wire.ask("WATCH count");
                    let count: usize = wire.ask("GET count").text().parse().expect("a number");
                    wire.ask("MULTI");
                    wire.ask(&format!("SET count {}", count + 1));
                    match wire.ask("EXEC") {
                        Frame::NullArray => {
                            aborted.fetch_add(1, Ordering::Relaxed);
                        }
                        _ => done += 1,
                    }
                }
            });
        }
    });
    assert_eq!(Wire::connect(address(&server)).ask("GET count"), Frame::bulk(&(4 * EACH).to_string()));
    assert!(aborted.load(Ordering::Relaxed) > 0, "nobody ever got in the way of anybody");
}

#[test]
fn scan_finds_every_key_that_stays_while_others_come_and_go() {
    let server = start(Server::builder().threads(2));
    let mut wire = Wire::connect(address(&server));
    let staying: BTreeSet<String> = (0..500).map(|index| format!("stays:{index}")).collect();
    for key in &staying {
        wire.call(&["SET", key, "v"]);
    }
    race_on(
        &server,
        |wire, turn| {
            for index in 0..20 {
                wire.ask(&format!("SET goes:{turn}:{index} v"));
            }
            for index in 0..20 {
                wire.ask(&format!("DEL goes:{turn}:{index}"));
            }
        },
        |wire, turn| {
            // Whole iterations are long; a few of them are enough.
            if turn % 160 > 4 {
                wire.ask("PING");
                return;
            }
            let mut found = BTreeSet::new();
            let mut cursor = "0".to_owned();
            loop {
                let reply = wire.ask(&format!("SCAN {cursor} COUNT {}", 1 + turn % 50));
                found.extend(reply.items()[1].items().iter().map(Frame::text).filter(|key| key.starts_with("stays:")));
                cursor = reply.items()[0].text();
                if cursor == "0" {
                    break;
                }
            }
            assert_eq!(found.len(), staying.len(), "SCAN missed keys");
        },
    );
}

#[test]
fn whatever_commands_meet_nobody_waits_for_ever() {
    let server = start(Server::builder().threads(2));
    thread::scope(|scope| {
        for thread in 0..4 {
            let server = &server;
            scope.spawn(move || {
                let mut dice = Dice::new(thread);
                let mut wire = Wire::connect(address(server));
                for _ in 0..500 {
                    let mut key = || format!("k{}", dice.below(40));
                    let (a, b, c) = (key(), key(), key());
                    let (db, other, which) = (dice.below(4), dice.below(4), dice.below(16));
                    let command = match which {
                        0 => format!("MSET {a} 1 {b} 2 {c} 3"),
                        1 => format!("RENAME {a} {b}"),
                        2 => format!("COPY {a} {b} DB {db} REPLACE"),
                        3 => format!("MOVE {a} {db}"),
                        4 => format!("SWAPDB {db} {other}"),
                        5 => format!("SELECT {db}"),
                        6 => format!("BITOP OR {a} {b} {c}"),
                        7 => format!("DEL {a} {b} {c}"),
                        8 => "DBSIZE".to_owned(),
                        9 => "KEYS *".to_owned(),
                        10 => "FLUSHDB".to_owned(),
                        11 => format!("WATCH {a} {b}"),
                        12 => "UNWATCH".to_owned(),
                        13 => format!("SET {a} v PX 1"),
                        14 => "INFO keyspace".to_owned(),
                        _ => {
                            wire.ask("UNWATCH");
                            exec(&mut wire, &[vec!["SET", &a, "1"], vec!["SWAPDB", "0", "1"], vec!["MGET", &a, &b]]);
                            continue;
                        }
                    };
                    // A reply that does not come within the patience of a read fails the test.
                    wire.ask(&command);
                }
            });
        }
    });
}
