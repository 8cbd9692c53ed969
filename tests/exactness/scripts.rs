//! Scripts make several steps atomic for other clients.
//!
//! Clocks are frozen, except in the test of a running clock. A reply that exceeds the read time-out fails the test.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redis::{Connection, Script};
use redouble::Server;

use crate::support::process::ServerProcess;
use crate::support::wire::{Frame, Wire, request};
use crate::support::{
    CHECKED_PROFILE, Deadline, Dice, address, client, client_at, profile, spawn, spawn_frozen, start, wait_until,
};

/// The release from the documentation of SET: deletes the lock only if it still holds the token.
const RELEASE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

fn command<T: redis::FromRedisValue>(connection: &mut Connection, words: &[&str]) -> T {
    let mut command = redis::cmd(words[0]);
    for word in &words[1..] {
        command.arg(*word);
    }
    command.query(connection).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

fn take(connection: &mut Connection, token: &str) -> bool {
    command::<Option<String>>(connection, &["SET", "lock.foo", token, "NX", "PX", "30000"]).is_some()
}

/// Runs a script without declared keys.
fn eval(wire: &mut Wire, script: &str) -> Frame {
    wire.call(&["EVAL", script, "0"])
}

fn figure(wire: &mut Wire, name: &str) -> u64 {
    let info = wire.ask("INFO memory").text();
    let line = info.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name} in {info}"));
    line.trim_start_matches(':').trim().parse().expect("a number")
}

#[test]
fn a_release_script_cannot_free_the_lock_of_the_next_holder() {
    let server = spawn_frozen();
    let (mut holder, mut heir) = (client(&server), client(&server));
    let release = Script::new(RELEASE);
    let release = |connection: &mut Connection, token: &str| -> i64 {
        release.key("lock.foo").arg(token).invoke(connection).expect("the script runs")
    };
    assert!(take(&mut holder, "a"));
    assert!(!take(&mut heir, "b"));
    server.advance(Duration::from_millis(30_001));
    assert!(take(&mut heir, "b"));

    assert_eq!(release(&mut holder, "a"), 0, "the holder is late, and its lock is somebody else's");
    assert_eq!(command::<String>(&mut heir, &["GET", "lock.foo"]), "b");
    assert_eq!(release(&mut heir, "b"), 1);
    assert!(take(&mut holder, "a"));
}

#[test]
fn a_release_in_two_steps_frees_the_lock_of_the_next_holder() {
    let server = spawn_frozen();
    let (mut holder, mut heir, mut third) = (client(&server), client(&server), client(&server));
    assert!(take(&mut holder, "a"));
    server.advance(Duration::from_millis(30_000));
    assert_eq!(command::<String>(&mut holder, &["GET", "lock.foo"]), "a", "it looks: the lock is still its own");
    server.advance(Duration::from_millis(1));
    assert!(take(&mut heir, "b"));
    assert_eq!(command::<i64>(&mut holder, &["DEL", "lock.foo"]), 1);
    assert!(take(&mut third, "c"), "and now two are in");
}

#[test]
fn a_crash_between_setnx_and_expire_leaves_the_lock_for_ever() {
    let server = spawn_frozen();
    let mut heir = client(&server);
    {
        let mut holder = client(&server);
        assert_eq!(command::<i64>(&mut holder, &["SETNX", "lock.foo", "a"]), 1);
        // The holder crashes before it sends EXPIRE.
    }
    for _ in 0..30 {
        server.advance(Duration::from_secs(365 * 24 * 3600));
        assert_eq!(command::<i64>(&mut heir, &["SETNX", "lock.foo", "b"]), 0);
    }
    assert_eq!(command::<i64>(&mut heir, &["TTL", "lock.foo"]), -1);

    // One script does both, so a crash cannot separate them.
    command::<i64>(&mut heir, &["DEL", "lock.foo"]);
    let both = "return redis.call('setnx', KEYS[1], ARGV[1]) == 1 and redis.call('expire', KEYS[1], 30)";
    assert_eq!(command::<i64>(&mut heir, &["EVAL", both, "1", "lock.foo", "b"]), 1);
    server.advance(Duration::from_millis(30_001));
    assert_eq!(command::<i64>(&mut heir, &["EVAL", both, "1", "lock.foo", "c"]), 1);
}

#[test]
fn a_release_by_watch_loses_to_an_expiry_and_frees_nobody() {
    let server = spawn_frozen();
    for heir_comes in [false, true] {
        let (mut holder, mut heir) = (Wire::connect(address(&server)), client(&server));
        holder.ask("DEL lock.foo");
        assert_eq!(holder.ask("SET lock.foo a NX PX 30000"), Frame::status("OK"));
        assert_eq!(holder.ask("WATCH lock.foo"), Frame::status("OK"));
        assert_eq!(holder.ask("GET lock.foo"), Frame::bulk("a"));
        holder.ask("MULTI");
        holder.ask("DEL lock.foo");
        server.advance(Duration::from_millis(30_001));
        if heir_comes {
            assert!(take(&mut heir, "b"));
        }
        assert_eq!(holder.ask("EXEC"), Frame::NullArray);
        assert_eq!(command::<i64>(&mut heir, &["EXISTS", "lock.foo"]), i64::from(heir_comes));
    }
    // Within its lifetime the holder keeps the lock.
    let mut holder = Wire::connect(address(&server));
    holder.ask("SET lock.foo a PX 30000");
    holder.ask("WATCH lock.foo");
    server.advance(Duration::from_millis(30_000));
    holder.ask("MULTI");
    holder.ask("DEL lock.foo");
    assert_eq!(holder.ask("EXEC"), Frame::Array(vec![Frame::Integer(1)]));
}

#[test]
fn a_script_sees_one_instant_however_long_it_takes() {
    let server = start(Server::builder().threads(2));
    let over = AtomicBool::new(false);
    let deadline = Deadline::start();
    thread::scope(|scope| {
        // The clock runs, and the test advances it as well.
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                deadline.check("the last script");
                server.advance(Duration::from_millis(7));
            }
        });
        let mut wire = Wire::connect(address(&server));
        let script = "redis.call('set', 'mortal', 'v', 'px', 1)
                      local before, left = redis.call('time'), redis.call('pttl', 'mortal')
                      for i = 1, 20000 do end
                      local after = redis.call('time')
                      return {before[1] .. '.' .. before[2], after[1] .. '.' .. after[2], left,
                              redis.call('pttl', 'mortal'), redis.call('exists', 'mortal')}";
        for _ in 0..200 {
            let seen = eval(&mut wire, script);
            let [before, after, left, still_left, exists] = seen.items() else { panic!("{seen:?}") };
            assert_eq!(before, after, "two times in one script");
            assert_eq!((left.integer(), still_left.integer(), exists.integer()), (1, 1, 1), "it expired in the middle");
        }
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_slow_script_sees_one_instant_even_if_the_clock_jumps_while_others_are_told_busy() {
    let server = spawn();
    let mut other = Wire::connect(address(&server));
    other.ask("CONFIG SET busy-reply-threshold 1");
    let mut runner = Wire::connect(address(&server));
    let script = "local before = redis.call('time')[1] for i = 1, 20000000 do end
                  return {redis.call('time')[1] - before, redis.call('pttl', 'k')}";
    other.ask("SET k v PX 50000");
    server.freeze();
    let left = other.ask("PTTL k").integer();
    runner.send(&request(&["EVAL", script, "0"]));
    wait_until("the script to be slow", || other.ask("ECHO x") != Frame::bulk("x"));
    server.advance(Duration::from_secs(3600));
    assert_eq!(runner.expect(), Frame::Array(vec![Frame::Integer(0), Frame::Integer(left)]));
    wait_until("the script to be over", || other.ask("ECHO x") == Frame::bulk("x"));
    assert_eq!(other.ask("EXISTS k"), Frame::Integer(0));
}

#[test]
fn a_script_of_7_0_that_waits_for_the_time_goes_on_when_the_clock_is_moved_and_can_be_killed() {
    let server = start(Server::builder().compat(profile(CHECKED_PROFILE)));
    let mut other = Wire::connect(address(&server));
    other.ask("CONFIG SET busy-reply-threshold 1");
    let mut runner = Wire::connect(address(&server));
    let script = "local before = redis.call('time')[1] local now
                  repeat now = redis.call('time')[1] until now ~= before
                  return {now - before, redis.call('get', 'k')}";
    other.ask("SET k v PX 50000");
    server.freeze();
    let mut begin = |runner: &mut Wire| {
        runner.send(&request(&["EVAL", script, "0"]));
        wait_until("the script to be slow", || other.ask("ECHO x") != Frame::bulk("x"));
    };
    begin(&mut runner);
    server.advance(Duration::from_secs(3600));
    // Nothing expires within the script.
    assert_eq!(runner.expect(), Frame::Array(vec![Frame::Integer(3600), Frame::bulk("v")]));
    begin(&mut runner);
    let mut killer = Wire::connect(address(&server));
    assert_eq!(killer.ask("SCRIPT KILL"), Frame::status("OK"));
    assert!(matches!(runner.expect(), Frame::Error(_)));
    assert_eq!(killer.ask("EXISTS k"), Frame::Integer(0));
}

#[test]
fn scripts_are_atomic_whatever_else_goes_on_and_nobody_waits_for_ever() {
    const THREADS: u64 = 6;
    const TURNS: usize = 250;
    let server = start(Server::builder().threads(2));
    let keys: Vec<String> = (0..8).map(|index| format!("a-key-that-stands-somewhere:{index}")).collect();
    // All keys hold the same number, or none exists.
    let declared = "for _, key in ipairs(KEYS) do redis.call('incr', key) end return redis.call('mget', unpack(KEYS))";
    let undeclared = "for i = 7, 0, -1 do redis.call('incr', 'a-key-that-stands-somewhere:' .. i) end
                      local values = {}
                      for i = 0, 7 do values[i + 1] = redis.call('get', 'a-key-that-stands-somewhere:' .. i) end
                      return values";
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (server, keys) = (&server, &keys);
            scope.spawn(move || {
                let mut dice = Dice::new(thread);
                let mut wire = Wire::connect(address(server));
                let names: Vec<&str> = keys.iter().map(String::as_str).collect();
                let with = |words: &[&str], keys: &[&str]| -> Vec<String> {
                    words.iter().chain(keys).map(|word| (*word).to_owned()).collect()
                };
                for turn in 0..TURNS {
                    let seen = match dice.below(12) {
                        0 => {
                            let pairs: Vec<&str> = names.iter().flat_map(|name| [*name, "5"]).collect();
                            assert_eq!(wire.call(&with(&["MSET"], &pairs)), Frame::status("OK"));
                            continue;
                        }
                        1 => {
                            wire.ask(["FLUSHALL", "FLUSHDB", "SWAPDB 0 1"][turn % 3]);
                            continue;
                        }
                        2 => {
                            wire.ask("MULTI");
                            for name in &names {
                                wire.call(&["INCR", name]);
                            }
                            wire.call(&["EVAL", undeclared, "0"]);
                            wire.ask("EXEC").items()[8].clone()
                        }
                        3 => {
                            wire.ask("MULTI");
                            wire.call(&with(&["MGET"], &names));
                            wire.ask("EXEC").items()[0].clone()
                        }
                        4 | 5 => wire.call(&with(&["EVAL", declared, "8"], &names)),
                        6 => wire.call(&with(&["EVAL", undeclared, "1"], &names[3..4])),
                        7 => wire.call(&["EVAL", undeclared, "0"]),
                        8 => wire.call(&["EVAL", "redis.call('select', 1) redis.call('flushdb') return {}", "0"]),
                        9 => wire.call(&["EVAL", "redis.call('swapdb', 0, 1) return {redis.call('dbsize')}", "0"]),
                        10 => {
                            wire.ask("DBSIZE");
                            wire.call(&with(&["DEL"], &names));
                            continue;
                        }
                        _ => wire.call(&with(&["MGET"], &names)),
                    };
                    assert!(!seen.is_error(), "{seen:?}");
                    assert!(seen.items().windows(2).all(|pair| pair[0] == pair[1]), "torn: {seen:?}");
                }
            });
        }
    });
    assert_eq!(Wire::connect(address(&server)).ask("PING"), Frame::status("PONG"));
}

#[test]
fn a_script_may_use_keys_that_it_did_not_declare_in_other_databases_too() {
    let server = spawn();
    let mut wire = Wire::connect(address(&server));
    let script = "redis.call('set', 'here', '0')
                  redis.call('select', 3)
                  redis.call('set', 'there', '3')
                  local seen = redis.call('exists', 'here', 'there')
                  redis.call('copy', 'there', 'copied', 'db', '5')
                  return seen";
    assert_eq!(wire.call(&["EVAL", script, "1", "declared"]), Frame::Integer(1));
    assert_eq!(wire.ask("GET here"), Frame::bulk("0"), "the client stays in its database");
    assert_eq!(wire.ask("EXISTS there"), Frame::Integer(0));
    wire.ask("SELECT 3");
    assert_eq!(wire.ask("GET there"), Frame::bulk("3"));
    assert_eq!(eval(&mut wire, "return redis.call('get', 'there')"), Frame::bulk("3"));
    wire.ask("SELECT 5");
    assert_eq!(wire.ask("GET copied"), Frame::bulk("3"));

    // The SELECT of a script that fails, or that runs in a transaction, does not change the client's database either.
    assert!(eval(&mut wire, "redis.call('select', 7) error('x')").is_error());
    wire.ask("MULTI");
    wire.call(&["EVAL", "return redis.call('select', 7)", "0"]);
    wire.ask("GET copied");
    assert_eq!(wire.ask("EXEC"), Frame::Array(vec![Frame::status("OK"), Frame::bulk("3")]));
    assert!(wire.ask("CLIENT INFO").text().contains(" db=5 "));
}

#[test]
fn a_script_touches_what_others_watch() {
    let server = spawn();
    let (mut watching, mut other) = (Wire::connect(address(&server)), Wire::connect(address(&server)));
    for (script, touches) in [
        ("return redis.call('get', 'k')", false),
        ("return redis.call('set', 'k', 'w')", true),
        ("redis.call('select', 1) return redis.call('set', 'k', 'w')", false),
        ("return redis.call('flushall')", true),
        ("redis.call('set', 'k', 'w') error('too late')", true),
    ] {
        other.ask("SET k v");
        watching.ask("WATCH k");
        eval(&mut other, script);
        watching.ask("MULTI");
        watching.ask("PING");
        assert_eq!(watching.ask("EXEC") == Frame::NullArray, touches, "{script}");
    }
}

#[test]
fn a_script_that_is_known_is_not_compiled_again() {
    let server = spawn();
    let mut wire = Wire::connect(address(&server));
    // A script of a megabyte takes long to compile and no time to run.
    let script = format!("local text = '{}' return 7", "x".repeat(1 << 20));
    let sha = wire.call(&["SCRIPT", "LOAD", &script]).text();
    wire.call(&["EVALSHA", &sha, "0"]);
    let used = figure(&mut wire, "used_memory_lua");
    for _ in 0..40 {
        assert_eq!(wire.call(&["EVALSHA", &sha, "0"]), Frame::Integer(7));
        assert_eq!(wire.call(&["EVAL", &script, "0"]), Frame::Integer(7));
    }
    let after = figure(&mut wire, "used_memory_lua");
    assert!(after < used + (512 << 10), "80 runs left {} bytes behind", after - used);
    assert_eq!(figure(&mut wire, "number_of_cached_scripts"), 1);
    // The counter-check: another text is compiled and does use memory.
    wire.call(&["EVAL", &script.replace('x', "y"), "0"]);
    assert!(figure(&mut wire, "used_memory_lua") > used + (512 << 10));
    assert_eq!(figure(&mut wire, "number_of_cached_scripts"), 2);
}

#[test]
fn the_interpreter_is_started_by_the_first_script() {
    let server = spawn();
    let mut wire = Wire::connect(address(&server));
    wire.ask("SET k v");
    wire.ask("SCRIPT EXISTS x");
    assert_eq!(figure(&mut wire, "used_memory_lua"), 0);
    eval(&mut wire, "return 1");
    assert!(figure(&mut wire, "used_memory_lua") > 0);
}

/// A client that sends EVALSHA first, and EVAL only after NOSCRIPT.
fn fall_back(url: &str) {
    let mut connection = client_at(url);
    let script = Script::new("return {KEYS[1], ARGV[1], redis.call('incr', KEYS[1])}");
    for round in 0..3 {
        for _ in 0..2 {
            let answer: (String, String, i64) =
                script.key(format!("k{round}")).arg("a").invoke(&mut connection).expect("it falls back");
            assert_eq!((answer.0.as_str(), answer.1.as_str()), (format!("k{round}").as_str(), "a"));
        }
        let known: Vec<bool> = command(&mut connection, &["SCRIPT", "EXISTS", script.get_hash()]);
        assert_eq!(known, [true]);
        assert_eq!(command::<i64>(&mut connection, &["GET", &format!("k{round}")]), 2, "run once for each call");
        command::<()>(&mut connection, &["SCRIPT", "FLUSH"]);
        let refused = redis::cmd("EVALSHA").arg(script.get_hash()).arg(0).query::<()>(&mut connection);
        let error = refused.expect_err("it was forgotten");
        assert_eq!(error.code(), Some("NOSCRIPT"), "{error}");
    }
}

#[test]
fn evalsha_falls_back_through_noscript_in_a_real_client() {
    fall_back(&spawn().url());
    fall_back(&ServerProcess::redis(&[]).url());
}

#[test]
fn a_program_that_makes_a_new_script_each_time_loses_the_oldest_and_no_script_that_was_loaded() {
    for (compat, evicted) in [("redis-7.2", 0), ("redis-7.4", 2), ("valkey-9.1", 1)] {
        let server = start(Server::builder().compat(profile(compat)));
        let mut wire = Wire::connect(address(&server));
        let loaded = wire.call(&["SCRIPT", "LOAD", "return 'loaded'"]).text();
        let shas: Vec<String> = (0..500)
            .map(|number| {
                let script = format!("return {number}");
                eval(&mut wire, &script);
                wire.call(&["EVAL", "return redis.sha1hex(ARGV[1])", "0", &script]).text()
            })
            .collect();
        // The script that computes sums takes one of the 500 places. The oldest one is used once more, so that it stays;
        // Valkey keeps the next one, too, once it is loaded.
        let first_left = usize::from(evicted > 0);
        wire.call(&["EVALSHA", &shas[first_left], "0"]);
        wire.call(&["SCRIPT", "LOAD", &format!("return {}", first_left + 1)]);
        eval(&mut wire, "return 'new'");
        let exists = |wire: &mut Wire, sha: &str| wire.call(&["SCRIPT", "EXISTS", sha]).items()[0].integer() == 1;
        assert!(exists(&mut wire, &loaded) && exists(&mut wire, &shas[first_left]), "{compat}");
        let gone = shas.iter().filter(|sha| !exists(&mut wire, sha)).count();
        assert_eq!(gone, evicted, "{compat}");
        let info = wire.ask("INFO stats").text();
        let counted = info.lines().find_map(|line| line.strip_prefix("evicted_scripts:"));
        assert_eq!(counted.map(|count| count.trim().parse().expect("a number")), (evicted > 0).then_some(evicted));
        wire.ask("CONFIG RESETSTAT");
        assert!(!wire.ask("INFO stats").text().contains(&format!("evicted_scripts:{}", evicted.max(1))));
        assert!(wire.call(&["EVALSHA", &shas[499], "0"]).integer() == 499);
    }
}
