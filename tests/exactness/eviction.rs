//! Eviction where time, chance or amounts matter: which keys go, how many, and that a run is like the one before.

use std::collections::BTreeSet;
use std::time::{Duration, UNIX_EPOCH};

use redouble::Server;

use crate::support::wire::{Frame, Wire, request};
use crate::support::{Dice, address, profile, spawn_frozen, start};

const POLICIES: [&str; 7] =
    ["allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"];

/// So long that what requests take beside the entries is less than half of one.
const VALUE: &str = "one_word_that_is_so_long_that_an_entry_takes_twice_the_memory_of_a_request_while_it_is_answered";

fn info(client: &mut Wire, field: &str) -> u64 {
    let text = client.ask("INFO").text();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("no {field} in {text}"))
}

/// Lowers the limit so that so many keys like one must go. Requests take a little memory, too.
fn make_room(client: &mut Wire, keys: u64, key: &str) {
    let one = client.ask(&format!("MEMORY USAGE {key}")).integer().unsigned_abs();
    let limit = info(client, "used_memory") - keys * one + one / 2;
    assert_eq!(client.ask(&format!("CONFIG SET maxmemory {limit}")), Frame::status("OK"));
}

fn keys(client: &mut Wire) -> BTreeSet<String> {
    client.ask("KEYS *").items().iter().map(Frame::text).collect()
}

#[test]
fn what_was_not_used_for_longest_goes_first() {
    let server = spawn_frozen();
    let mut client = Wire::connect(address(&server));
    client.ask("CONFIG SET maxmemory-policy allkeys-lru maxmemory-samples 64");
    for key in 0..20 {
        client.ask(&format!("SET k{key:02} {VALUE}"));
        server.advance(Duration::from_secs(1));
    }
    client.ask("GET k00");
    client.ask("TOUCH k01");
    client.ask("CLIENT NO-TOUCH ON");
    client.ask("GET k02");
    make_room(&mut client, 5, "k00");
    let left = keys(&mut client);
    let gone: Vec<String> = (0..20).map(|key| format!("k{key:02}")).filter(|key| !left.contains(key)).collect();
    assert_eq!(gone, ["k02", "k03", "k04", "k05", "k06"]);
}

#[test]
fn what_is_used_seldom_goes_first_and_old_fame_fades() {
    let server = spawn_frozen();
    let mut client = Wire::connect(address(&server));
    client.ask("CONFIG SET maxmemory-policy allkeys-lfu maxmemory-samples 64 lfu-log-factor 0");
    for key in 0..10 {
        client.ask(&format!("SET k{key} {VALUE}"));
        (0..key).for_each(|_| drop(client.ask(&format!("GET k{key}"))));
    }
    assert_eq!(client.ask("OBJECT FREQ k9"), Frame::Integer(14));
    server.advance(Duration::from_secs(12 * 60));
    assert_eq!(client.ask("OBJECT FREQ k9"), Frame::Integer(2));
    assert_eq!(client.ask("OBJECT FREQ k1"), Frame::Integer(0));
    client.ask("GET k1");
    make_room(&mut client, 7, "k0");
    assert_eq!(keys(&mut client), ["k1", "k8", "k9"].map(String::from).into());
}

#[test]
fn what_expires_first_goes_first_under_volatile_ttl() {
    let server = spawn_frozen();
    let mut client = Wire::connect(address(&server));
    client.ask("CONFIG SET maxmemory-policy volatile-ttl maxmemory-samples 64");
    client.ask(&format!("SET stays {VALUE}"));
    for key in 0..10 {
        client.ask(&format!("SET k{key} {VALUE} EX {}", 1000 - key));
    }
    make_room(&mut client, 8, "k0");
    assert_eq!(keys(&mut client), ["k0", "k1", "stays"].map(String::from).into());
}

/// Runs random commands at the limit, and returns what is left, and how many keys were evicted.
fn churn(server: &Server, policy: &str, seed: u64) -> (BTreeSet<String>, u64) {
    let mut client = Wire::connect(address(server));
    let mut dice = Dice::new(seed);
    client.ask(&format!("CONFIG SET maxmemory-policy {policy} maxmemory-eviction-tenacity 100"));
    let limit = info(&mut client, "used_memory") + 20_000;
    client.ask(&format!("CONFIG SET maxmemory {limit}"));
    for turn in 0..1500 {
        let key = dice.below(400);
        let value = "x".repeat(dice.below(200));
        match dice.below(10) {
            0..4 => client.ask(&format!("SET k{key} {value}y EX {}", 100 + dice.below(100))),
            4 => client.ask(&format!("RPUSH l{key} {value}y b c")),
            5 => client.ask(&format!("HSET h{key} f{turn} {value}y")),
            6 => client.ask(&format!("SADD s{key} {value}y {turn}")),
            7 => client.ask(&format!("PEXPIRE l{key} 90000")),
            8 => client.ask(&format!("APPEND k{key} {value}y")),
            _ => client.ask(&format!("GET k{key}")),
        };
        if turn % 50 == 0 {
            server.advance(Duration::from_secs(1));
        }
        // INFO evicts before it looks.
        let used = info(&mut client, "used_memory");
        let is_full = used > limit;
        let evictable = if policy.starts_with("volatile") { "expires=" } else { "keys=" };
        let keyspace = client.ask("INFO keyspace").text();
        let has_evictable = keyspace.contains("db0:") && !keyspace.contains(&format!("{evictable}0,"));
        assert!(!is_full || !has_evictable, "{policy}, turn {turn}: {used} of {limit} used; {keyspace}");
    }
    (keys(&mut client), info(&mut client, "evicted_keys"))
}

#[test]
fn memory_stays_within_its_limit_as_long_as_there_is_something_to_evict_and_each_run_is_the_same() {
    for (seed, policy) in (1..).zip(POLICIES) {
        let [first, second] = [(); 2].map(|()| {
            let server = spawn_frozen();
            server.set_time(UNIX_EPOCH + Duration::from_secs(1_700_000_000));
            churn(&server, policy, seed)
        });
        assert_eq!(first, second, "{policy}");
        assert!(first.1 > 50, "{policy}: {} evictions", first.1);
    }
}

#[test]
fn a_pause_of_clients_holds_evictions_back() {
    let server = spawn_frozen();
    let (mut client, mut other) = (Wire::connect(address(&server)), Wire::connect(address(&server)));
    client.ask("SET k v");
    client.ask("CLIENT PAUSE 1000 WRITE");
    client.ask("CONFIG SET maxmemory-policy allkeys-lru maxmemory 1");
    assert_eq!(other.ask("DBSIZE"), Frame::Integer(1));
    client.ask("CLIENT UNPAUSE");
    assert_eq!(other.ask("DBSIZE"), Frame::Integer(0));
}

#[test]
fn a_reader_of_a_group_is_told_that_its_stream_was_evicted() {
    let server = start(Server::builder().compat(profile("redis-7.0")));
    server.freeze();
    let (mut client, mut reader) = (Wire::connect(address(&server)), Wire::connect(address(&server)));
    client.ask("XGROUP CREATE s g $ MKSTREAM");
    reader.send(b"XREADGROUP GROUP g c BLOCK 0 STREAMS s >\r\n");
    client.ask_until("INFO clients", |text| text.contains("blocked_clients:1"));
    client.ask("CONFIG SET maxmemory-policy allkeys-lru maxmemory 1");
    client.ask("PING");
    assert_eq!(reader.expect(), Frame::error("UNBLOCKED the stream key no longer exists"));
}

#[test]
fn clients_are_closed_from_the_largest_on_until_there_is_room() {
    let server = spawn_frozen();
    let mut control = Wire::connect(address(&server));
    control.ask("CLIENT NO-EVICT ON");
    let mut others: Vec<Wire> = [100, 400, 1600].map(|_| Wire::connect(address(&server))).into();
    for (other, size) in others.iter_mut().zip([100_000, 400_000, 1_600_000]) {
        other.ask(&format!("CLIENT SETNAME {size}"));
        other.send(format!("*2\r\n${size}\r\n").as_bytes());
    }
    control.ask_until("CLIENT LIST", |text| text.contains("qbuf-free=1600002"));
    control.ask("CONFIG SET maxmemory-clients 600000");
    let names = control.ask("CLIENT LIST").text();
    assert!(names.contains("name=100000 ") && names.contains("name=400000 ") && !names.contains("name=1600000 "));
    control.ask("CONFIG SET maxmemory-clients 300000");
    let names = control.ask("CLIENT LIST").text();
    assert!(names.contains("name=100000 ") && !names.contains("name=400000 "), "{names}");
    assert_eq!(info(&mut control, "evicted_clients"), 2);
    assert!(others[2].is_closed());
}

#[test]
fn large_values_that_are_freed_later_are_counted_as_the_directives_say() {
    let server = spawn_frozen();
    let mut client = Wire::connect(address(&server));
    let fill = |client: &mut Wire| {
        let members: Vec<String> = (0..100).map(|member| format!("member-{member}")).collect();
        client.call(&[&["SADD", "large"][..], &members.iter().map(String::as_str).collect::<Vec<_>>()].concat());
        client.ask("CONFIG SET set-max-listpack-entries 10");
    };
    client.ask("CONFIG SET maxmemory-policy allkeys-lru");
    for (directive, removal) in [
        ("lazyfree-lazy-user-del", "DEL large"),
        ("lazyfree-lazy-server-del", "SET large x"),
        ("lazyfree-lazy-expire", "PEXPIREAT large 1"),
        ("lazyfree-lazy-user-flush", "FLUSHALL"),
        ("lazyfree-lazy-eviction", "CONFIG SET maxmemory 1"),
    ] {
        for (setting, freed) in [("no", 0), ("yes", 1)] {
            client.ask("CONFIG SET maxmemory 0");
            client.ask("FLUSHALL SYNC");
            client.ask("CONFIG RESETSTAT");
            client.ask(&format!("CONFIG SET {directive} {setting}"));
            fill(&mut client);
            client.ask(removal);
            assert_eq!(info(&mut client, "lazyfreed_objects"), freed, "{directive} {setting}");
        }
        client.ask(&format!("CONFIG SET {directive} no"));
    }
}

#[test]
fn an_eviction_that_takes_long_is_in_the_latency_monitor() {
    let server = spawn_frozen();
    let mut client = Wire::connect(address(&server));
    for key in 0..50_000 {
        client.send(&request(&["SET", &format!("key:{key}"), "value"]));
    }
    (0..50_000).for_each(|_| drop(client.read()));
    client
        .ask("CONFIG SET latency-monitor-threshold 1 maxmemory-policy allkeys-random maxmemory-eviction-tenacity 100");
    client.ask("CONFIG SET maxmemory 1");
    client.ask("GET key:1");
    let latest = client.ask("LATENCY LATEST");
    let events: Vec<String> = latest.items().iter().map(|event| event.items()[0].text()).collect();
    assert!(
        ["eviction-cycle", "eviction-del"].iter().all(|name| events.iter().any(|event| event == name)),
        "{events:?}"
    );
    let advice = client.ask("LATENCY DOCTOR").text();
    assert!(advice.contains("Sudden changes to the 'maxmemory' setting"), "{advice}");
}
