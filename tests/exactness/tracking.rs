//! Client-side caching: a client that caches a key is told when the cached value is no longer valid.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use redouble::Server;

use crate::support::wire::{Frame, Wire};
use crate::support::{address, spawn, spawn_frozen, start};

/// A client that caches what it reads and drops entries on invalidation.
struct Caching {
    wire: Wire,
    copies: BTreeMap<String, Option<String>>,
}

impl Caching {
    fn connect(server: &Server, options: &str) -> Self {
        let mut wire = Wire::connect(address(server));
        wire.ask("HELLO 3");
        assert_eq!(wire.ask(&format!("CLIENT TRACKING ON {options}")), Frame::status("OK"));
        Self { wire, copies: BTreeMap::new() }
    }

    /// Sends a command and returns its reply. Messages before the reply are invalidations.
    fn ask(&mut self, line: &str) -> Frame {
        let words: Vec<&str> = line.split(' ').collect();
        assert!(self.wire.send(&crate::support::wire::request(&words)));
        loop {
            match self.wire.expect() {
                Frame::Push(items) => self.drop_copies(&items),
                reply => return reply,
            }
        }
    }

    fn drop_copies(&mut self, message: &[Frame]) {
        assert_eq!(message[0], Frame::bulk("invalidate"));
        match &message[1] {
            Frame::Null => self.copies.clear(),
            keys => keys.items().iter().for_each(|key| drop(self.copies.remove(&key.text()))),
        }
    }

    /// Reads a key from the cache, or else from the server.
    fn get(&mut self, key: &str) -> Option<String> {
        if let Some(copy) = self.copies.get(key) {
            return copy.clone();
        }
        let value = match self.ask(&format!("GET {key}")) {
            Frame::Null => None,
            value => Some(value.text()),
        };
        self.copies.insert(key.to_owned(), value.clone());
        value
    }

    /// Processes all invalidations that the server has sent so far.
    fn listen(&mut self) {
        assert_eq!(self.ask("PING"), Frame::status("PONG"));
    }
}

pub fn invalidation(key: &str) -> Frame {
    Frame::Push(vec![Frame::bulk("invalidate"), Frame::Array(vec![Frame::bulk(key)])])
}

#[test]
fn a_copy_of_a_lock_is_dropped_when_the_lock_expires() {
    let server = spawn_frozen();
    let mut client = Caching::connect(&server, "");
    Wire::connect(address(&server)).ask("SET lock token PX 1000");
    assert_eq!(client.get("lock").as_deref(), Some("token"));
    server.advance(Duration::from_millis(1000));
    client.listen();
    assert_eq!(client.copies.len(), 1, "a lock lives through its last millisecond");
    server.advance(Duration::from_millis(1));
    client.listen();
    assert!(client.copies.is_empty());
    assert_eq!(client.get("lock"), None);
}

#[test]
fn an_expiry_reaches_a_client_that_says_nothing() {
    let server = spawn_frozen();
    let mut client = Caching::connect(&server, "BCAST PREFIX lock:");
    let mut other = Wire::connect(address(&server));
    other.ask("SET lock:1 token PX 1000");
    other.ask("SET other token PX 1000");
    assert_eq!(client.wire.expect(), invalidation("lock:1"));
    server.advance(Duration::from_millis(1001));
    assert_eq!(client.wire.expect(), invalidation("lock:1"));
    assert!(!client.wire.has_reply());
}

#[test]
fn others_writes_are_told_and_own_writes_only_without_noloop() {
    let server = spawn();
    let mut other = Wire::connect(address(&server));
    for (options, own) in [("", 0), ("NOLOOP", 1)] {
        let mut client = Caching::connect(&server, options);
        client.get("k");
        client.ask("SET k mine");
        client.listen();
        assert_eq!(client.copies.len(), own, "{options}");
        client.copies.clear();
        client.get("k");
        other.ask("SET k others");
        client.listen();
        assert!(client.copies.is_empty(), "{options}");
    }
}

/// The way of rueidis: the tracking connection tries to take the lock and reads it; an invalidation makes a waiter try
/// again.
#[test]
fn a_waiter_hears_of_the_release_of_a_lock() {
    let server = spawn();
    let mut holder = Caching::connect(&server, "OPTOUT");
    let mut waiter = Caching::connect(&server, "OPTOUT");
    assert_eq!(holder.ask("SET lock one NX PX 5000"), Frame::status("OK"));
    assert_eq!(holder.get("lock").as_deref(), Some("one"));
    assert_eq!(waiter.ask("SET lock two NX PX 5000"), Frame::Null);
    assert_eq!(waiter.get("lock").as_deref(), Some("one"));
    assert_eq!(holder.ask("DEL lock"), Frame::Integer(1));
    // The waiter sends nothing and receives the invalidation.
    assert_eq!(waiter.wire.expect(), invalidation("lock"));
    assert_eq!(waiter.ask("SET lock two NX PX 5000"), Frame::status("OK"));
    holder.listen();
    assert!(holder.copies.is_empty());
}

#[test]
fn who_keeps_no_copy_is_told_once() {
    let server = spawn();
    let mut client = Caching::connect(&server, "");
    let mut other = Wire::connect(address(&server));
    client.get("k");
    other.ask("SET k 1");
    other.ask("SET k 2");
    assert_eq!(client.wire.expect(), invalidation("k"));
    client.listen();
    assert!(!client.wire.has_reply());
}

#[test]
fn a_client_that_does_not_listen_is_closed() {
    let server = spawn();
    let mut deaf = Caching::connect(&server, "BCAST");
    let mut other = Wire::connect(address(&server));
    other.call(&["CONFIG", "SET", "client-output-buffer-limit", "normal 1000000 0 0"]);
    let id = deaf.ask("CLIENT ID").integer();
    let key = "k".repeat(100_000);
    other.ask_until("CLIENT LIST", |list| {
        Wire::connect(address(&server)).ask(&format!("SET {key} v"));
        !list.contains(&format!("id={id} "))
    });
}

#[test]
fn the_table_is_kept_within_its_limit() {
    let server = spawn();
    let mut client = Caching::connect(&server, "");
    client.ask("CONFIG SET tracking-table-max-keys 10");
    for index in 0..100 {
        client.get(&format!("k{index}"));
    }
    client.listen();
    assert_eq!(client.copies.len(), 10);
    let info = client.ask("INFO stats").text();
    assert!(info.contains("tracking_total_keys:10\r\n"), "{info}");
    // The last keys are cached too, so eviction does not keep the first ones only.
    assert!(client.copies.contains_key("k99") || client.copies.contains_key("k98"), "{:?}", client.copies);
}

#[test]
fn readers_that_have_gone_are_not_kept_for_ever() {
    let server = spawn();
    let mut stays = Caching::connect(&server, "");
    for _ in 0..300 {
        Caching::connect(&server, "").get("k");
    }
    let info = stays.ask("INFO stats").text();
    let items = info.lines().find_map(|line| line.strip_prefix("tracking_total_items:")).expect("the field");
    assert!(items.parse::<usize>().expect("a number") <= 128, "{items} readers");
}

const ROUNDS: usize = 150;
const KEYS: usize = 4;

/// Writers change keys while readers on other threads cache them. Once all invalidations are processed, every cached
/// value is current.
fn no_copy_outlives_its_truth(options: &str, write: impl Fn(&mut Wire, usize) + Sync) {
    let server = start(Server::builder().threads(2));
    let mut readers = [Caching::connect(&server, options), Caching::connect(&server, options)];
    let mut writers = [Wire::connect(address(&server)), Wire::connect(address(&server))];
    let mut truth = Wire::connect(address(&server));
    let key = |index: usize| format!("a-key-that-stands-somewhere:{}", index % KEYS);
    let mut kept = 0;
    for round in 0..ROUNDS {
        let writing = AtomicUsize::new(writers.len());
        thread::scope(|scope| {
            for (at, wire) in writers.iter_mut().enumerate() {
                let (writing, write) = (&writing, &write);
                scope.spawn(move || {
                    for turn in 0..10 {
                        write(wire, round * 20 + turn * 2 + at);
                    }
                    writing.fetch_sub(1, Ordering::Relaxed);
                });
            }
            for client in &mut readers {
                let writing = &writing;
                scope.spawn(move || {
                    let mut turn = 0;
                    while writing.load(Ordering::Relaxed) > 0 || turn < KEYS {
                        client.get(&key(turn));
                        turn += 1;
                        if turn.is_multiple_of(KEYS) {
                            client.listen();
                        }
                    }
                });
            }
        });
        for client in &mut readers {
            client.listen();
            for (key, copy) in &client.copies {
                let value = match truth.ask(&format!("GET {key}")) {
                    Frame::NullBulk => None,
                    value => Some(value.text()),
                };
                assert_eq!(*copy, value, "{key} in round {round}");
                kept += 1;
            }
        }
    }
    assert!(kept > ROUNDS, "only {kept} copies were ever compared");
}

fn key_of(turn: usize) -> String {
    format!("a-key-that-stands-somewhere:{}", turn % KEYS)
}

#[test]
fn no_write_falls_between_a_read_and_its_being_remembered() {
    no_copy_outlives_its_truth("", |wire, turn| drop(wire.ask(&format!("INCR {}", key_of(turn)))));
}

#[test]
fn no_write_is_lost_on_who_hears_of_all() {
    no_copy_outlives_its_truth("BCAST", |wire, turn| drop(wire.ask(&format!("INCR {}", key_of(turn)))));
}

#[test]
fn no_transaction_or_flush_falls_in_between() {
    no_copy_outlives_its_truth("", |wire, turn| {
        if turn.is_multiple_of(7) {
            wire.ask("FLUSHALL");
            return;
        }
        wire.ask("MULTI");
        wire.ask(&format!("INCR {}", key_of(turn)));
        wire.ask(&format!("SET {} {turn}", key_of(turn + 1)));
        wire.ask("EXEC");
    });
}
