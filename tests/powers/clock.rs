//! The server's clock in a test's hand: stopped, moved, faster, and moving by itself when everybody waits.
//!
//! Nobody sleeps. Where a test says that something has happened by the time a reply is there, it looks into the sockets
//! without waiting.

use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use redouble::Server;

use crate::support::wire::{Frame, Wire, request};
use crate::support::{address, client, profile, spawn, spawn_frozen, start};

const OK: &str = "OK";

fn send(client: &mut Wire, line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    client.send(&request(&words));
}

/// A connection that is held up by a command, or by several of which the first holds it up.
fn held_up(server: &Server, driver: &mut Wire, lines: &[&str]) -> Wire {
    let before = blocked(driver);
    let mut client = Wire::connect(address(server));
    let bytes: Vec<u8> = lines.iter().flat_map(|line| request(&line.split_whitespace().collect::<Vec<_>>())).collect();
    client.send(&bytes);
    driver.ask_until("INFO clients", |info| info.contains(&format!("blocked_clients:{}\r", before + 1)));
    client
}

fn blocked(driver: &mut Wire) -> usize {
    let info = driver.ask("INFO clients").text();
    let line = info.lines().find_map(|line| line.strip_prefix("blocked_clients:")).expect("blocked_clients");
    line.trim().parse().expect("a number")
}

fn clock(driver: &mut Wire, action: &str) -> Frame {
    driver.ask(&format!("REDOUBLE CLOCK {action}"))
}

fn now(driver: &mut Wire) -> i64 {
    clock(driver, "NOW").integer()
}

/// A field of CLOCK INFO.
fn info(driver: &mut Wire, field: &str) -> Frame {
    let reply = clock(driver, "INFO");
    let pairs = reply.items();
    let place = pairs.iter().position(|item| *item == Frame::bulk(field)).expect("a field");
    pairs[place + 1].clone()
}

fn subscriber(server: &Server, driver: &mut Wire, channel: &str) -> Wire {
    driver.ask("CONFIG SET notify-keyspace-events KEA");
    let mut subscriber = Wire::connect(address(server));
    subscriber.ask(&format!("SUBSCRIBE {channel}"));
    subscriber
}

/// What a message says.
fn message(client: &mut Wire) -> String {
    assert!(client.has_reply(), "the message is not there yet");
    client.expect().items()[2].text()
}

/// Servers with one thread and with several, whose clocks stand still.
fn with_threads(story: impl Fn(&Server)) {
    for threads in [1, 3] {
        let server = start(Server::builder().threads(threads));
        server.freeze();
        story(&server);
    }
}

// ---- the reply comes after all consequences

#[test]
fn when_an_advance_is_answered_everything_due_has_happened_and_is_in_the_sockets() {
    with_threads(|server| {
        let mut driver = Wire::connect(address(server));
        let mut events = subscriber(server, &mut driver, "__keyevent@0__:expired");
        driver.ask("SET lock token PX 1000");
        let mut waiter = held_up(server, &mut driver, &["BLPOP queue 2"]);
        driver.ask("REDOUBLE FAULT ADD slow on GET delay 3s");
        let mut delayed = held_up(server, &mut driver, &["GET lock"]);
        assert_eq!(clock(&mut driver, "ADVANCE 3s"), Frame::status(OK));
        assert!(waiter.has_reply() && delayed.has_reply());
        assert_eq!(message(&mut events), "lock");
        assert_eq!(waiter.expect(), Frame::NullArray);
        assert_eq!(delayed.expect(), Frame::NullBulk);
        assert_eq!(driver.ask("DBSIZE"), Frame::Integer(0));
    });
}

#[test]
fn the_handle_too_returns_when_everything_has_happened() {
    with_threads(|server| {
        let mut driver = Wire::connect(address(server));
        let mut events = subscriber(server, &mut driver, "__keyevent@0__:expired");
        driver.ask("SET lock token PX 1000");
        let mut waiter = held_up(server, &mut driver, &["BLPOP queue 1", "PUBLISH __keyevent@0__:expired said"]);
        server.advance(Duration::from_millis(1001));
        assert!(waiter.has_reply());
        assert_eq!((message(&mut events), message(&mut events)), ("said".into(), "lock".into()));
    });
}

#[test]
fn what_a_consequence_sets_off_has_happened_too() {
    with_threads(|server| {
        let mut driver = Wire::connect(address(server));
        driver.ask("REDOUBLE FAULT ADD slow on LPUSH delay 3s");
        // The first gives up and asks for another queue, which a delayed command fills, which wakes the next.
        let mut first = held_up(server, &mut driver, &["BLPOP none 1", "BLMOVE one two LEFT RIGHT 10", "INCR count"]);
        let mut second = held_up(server, &mut driver, &["BLPOP two 10", "INCR count"]);
        let mut delayed = held_up(server, &mut driver, &["LPUSH one element", "INCR count"]);
        assert_eq!(clock(&mut driver, "ADVANCE 4s"), Frame::status(OK));
        assert!(first.has_reply() && second.has_reply() && delayed.has_reply());
        assert_eq!(driver.ask("GET count"), Frame::bulk("3"));
        assert_eq!(first.expect(), Frame::NullArray);
        assert_eq!(first.expect(), Frame::bulk("element"));
        assert_eq!(second.expect(), Frame::Array(vec![Frame::bulk("two"), Frame::bulk("element")]));
        assert_eq!(delayed.expect(), Frame::Integer(1));
    });
}

#[test]
fn every_deadline_on_the_way_has_its_own_instant_and_its_turn() {
    with_threads(|server| {
        let mut driver = Wire::connect(address(server));
        clock(&mut driver, "SET 1000000");
        let mut clients = Vec::new();
        for (name, seconds) in [("c", 3), ("a", 1), ("b", 2)] {
            driver.ask(&format!("REDOUBLE FAULT ADD {name} on RPUSH key {name} delay {seconds}s"));
            let lines = [format!("RPUSH {name} 1"), format!("APPEND order {name}"), "TIME".into()];
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            clients.push((held_up(server, &mut driver, &lines), 1000 + seconds));
        }
        clock(&mut driver, "ADVANCE 1h");
        assert_eq!(driver.ask("GET order"), Frame::bulk("abc"));
        for (client, second) in &mut clients {
            client.expect();
            client.expect();
            assert_eq!(client.expect().items()[0], Frame::bulk(&second.to_string()));
        }
        assert_eq!(now(&mut driver), 1_000_000 + 3_600_000);
    });
}

#[test]
fn keys_expire_between_the_time_outs_before_and_after_them() {
    with_threads(|server| {
        let mut driver = Wire::connect(address(server));
        let mut events = subscriber(server, &mut driver, "__keyevent@0__:expired");
        driver.ask("SET middle x PX 1500");
        driver.ask("SET last x PX 2500");
        let _late = held_up(server, &mut driver, &["BLPOP q 2", "PUBLISH __keyevent@0__:expired two"]);
        let _early = held_up(server, &mut driver, &["BLPOP q 1", "PUBLISH __keyevent@0__:expired one"]);
        clock(&mut driver, "ADVANCE 1m");
        let told: Vec<String> = (0..4).map(|_| message(&mut events)).collect();
        assert_eq!(told, ["one", "middle", "two", "last"]);
    });
}

#[test]
fn who_reads_a_stream_that_expires_goes_on_at_that_instant() {
    let server = spawn_frozen();
    let mut driver = Wire::connect(address(&server));
    clock(&mut driver, "SET 1000000");
    driver.ask("XGROUP CREATE s g $ MKSTREAM");
    driver.ask("PEXPIRE s 500");
    let mut reader = held_up(&server, &mut driver, &["XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "BLPOP q 1", "TIME"]);
    clock(&mut driver, "ADVANCE 10s");
    assert!(reader.expect().is_error());
    assert_eq!(reader.expect(), Frame::NullArray);
    let time = reader.expect();
    assert_eq!((time.items()[0].text(), time.items()[1].text()), ("1001".into(), "501000".into()));
}

#[test]
fn advances_of_several_clients_at_once_add_up() {
    with_threads(|server| {
        let mut driver = Wire::connect(address(server));
        clock(&mut driver, "SET 1000000");
        let drivers: Vec<Wire> = (0..8).map(|_| Wire::connect(address(server))).collect();
        let threads: Vec<_> = drivers
            .into_iter()
            .map(|mut driver| {
                thread::spawn(move || {
                    for _ in 0..50 {
                        assert_eq!(clock(&mut driver, "ADVANCE 7"), Frame::status(OK));
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(now(&mut driver), 1_000_000 + 8 * 50 * 7);
    });
}

#[test]
fn who_asks_for_an_advance_behind_its_own_time_out_does_not_wait_for_itself() {
    with_threads(|server| {
        let mut driver = Wire::connect(address(server));
        clock(&mut driver, "SET 1000000");
        let mut client = held_up(server, &mut driver, &["BLPOP q 1", "REDOUBLE CLOCK ADVANCE 5s", "TIME"]);
        clock(&mut driver, "ADVANCE 1s");
        assert_eq!(client.expect(), Frame::NullArray);
        assert_eq!(client.expect(), Frame::status(OK));
        assert_eq!(client.expect().items()[0], Frame::bulk("1006"));
    });
}

#[test]
fn an_advance_goes_on_to_its_end_when_its_driver_has_gone() {
    let server = spawn_frozen();
    let mut driver = Wire::connect(address(&server));
    clock(&mut driver, "SET 1000000");
    let mut waiter = held_up(&server, &mut driver, &["BLPOP q 1"]);
    let mut gone = Wire::connect(address(&server));
    gone.send(&request(&["REDOUBLE", "CLOCK", "ADVANCE", "1h"]));
    gone.finish_sending();
    assert_eq!(waiter.expect(), Frame::NullArray);
    // Errands are done in turn.
    clock(&mut driver, "ADVANCE 0");
    assert_eq!(now(&mut driver), 1_000_000 + 3_600_000);
}

#[test]
fn a_client_that_does_not_read_holds_no_advance_up() {
    let server = spawn_frozen();
    let mut driver = Wire::connect(address(&server));
    driver.ask(&format!("SET big {}", "x".repeat(1 << 20)));
    let gets = vec!["GET big"; 64];
    let mut lines = vec!["BLPOP q 1"];
    lines.extend(gets);
    let _lazy = held_up(&server, &mut driver, &lines);
    assert_eq!(clock(&mut driver, "ADVANCE 1s"), Frame::status(OK));
}

// ---- what runs on it

#[test]
fn everything_that_has_a_time_goes_by_this_clock() {
    let server = start(Server::builder().compat(profile("redis-7.4")));
    let mut driver = Wire::connect(address(&server));
    clock(&mut driver, "FREEZE 1700000000000");
    let mut other = Wire::connect(address(&server));
    other.ask("CLIENT SETNAME other");
    driver.ask("SET k v");
    driver.ask("HSET h f v g v");
    driver.ask("HPEXPIRE h 4000 FIELDS 1 f");
    driver.ask("XADD s * a b");
    driver.ask("XGROUP CREATE s g 0");
    driver.ask("XREADGROUP GROUP g c STREAMS s >");
    driver.ask("ACL SETUSER u on nopass");
    other.ask("AUTH u x");
    assert!(other.ask("GET k").is_error());
    clock(&mut driver, "ADVANCE 5s");
    assert_eq!(driver.ask("OBJECT IDLETIME k"), Frame::Integer(5));
    assert_eq!(driver.ask("HEXISTS h f"), Frame::Integer(0));
    assert_eq!(driver.ask("XADD s * a b"), Frame::bulk("1700000005000-0"));
    assert_eq!(driver.ask("XPENDING s g - + 1").items()[0].items()[2], Frame::Integer(5000));
    let list = driver.ask("CLIENT LIST").text();
    let line = list.lines().find(|line| line.contains("name=other")).expect("the other client");
    assert!(line.contains(" age=5 idle=5 "), "{line}");
    let log = driver.ask("ACL LOG");
    let entry = log.items()[0].items();
    let age = entry.iter().position(|item| *item == Frame::bulk("age-seconds")).expect("an age");
    assert_eq!(entry[age + 1].text(), "5");
    let time = |frame: &Frame| frame.items()[0].text();
    assert_eq!(time(&driver.ask("TIME")), "1700000005");
    assert_eq!(time(&driver.call(&["EVAL", "return redis.call('TIME')", "0"])), "1700000005");
    driver.ask("MULTI");
    driver.ask("TIME");
    assert_eq!(time(&driver.ask("EXEC").items()[0]), "1700000005");
}

#[test]
fn a_pause_ends_by_this_clock() {
    with_threads(|server| {
        let mut driver = Wire::connect(address(server));
        driver.ask("CLIENT PAUSE 60000 WRITE");
        let mut writer = held_up(server, &mut driver, &["SET k v"]);
        clock(&mut driver, "ADVANCE 59999ms");
        assert!(!writer.has_reply());
        clock(&mut driver, "ADVANCE 1ms");
        assert!(writer.has_reply());
        assert_eq!(writer.expect(), Frame::status(OK));
    });
}

#[test]
fn a_reply_drips_by_this_clock() {
    with_threads(|server| {
        let mut driver = Wire::connect(address(server));
        driver.ask("REDOUBLE FAULT ADD d on ECHO drip 2 every 1s");
        let mut client = held_up(server, &mut driver, &["ECHO abc"]);
        assert_eq!(client.read_bytes(2), b"$3");
        clock(&mut driver, "ADVANCE 1s");
        assert!(client.has_reply());
        assert_eq!(client.read_bytes(2), b"\r\n");
        assert!(!client.has_reply());
        clock(&mut driver, "ADVANCE 1h");
        assert_eq!(client.read_bytes(5), b"abc\r\n");
    });
}

#[test]
fn idle_connections_are_closed_by_this_clock_when_the_advance_is_answered() {
    with_threads(|server| {
        let mut driver = Wire::connect(address(server));
        driver.ask("CONFIG SET timeout 60");
        let mut idle = Wire::connect(address(server));
        idle.ask("PING");
        server.advance(Duration::from_secs(30));
        driver.ask("PING");
        server.advance(Duration::from_secs(31));
        // The end of what can be read counts as something to read.
        assert_eq!(idle.tcp().peek(&mut [0]).expect("an end"), 0);
        assert_eq!(driver.ask("PING"), Frame::status("PONG"));
    });
}

// ---- the far past and the far future

#[test]
fn the_first_and_the_last_instant_are_times_like_others() {
    for at in ["0", "1", "2305843009213693"] {
        let server = spawn_frozen();
        let mut driver = Wire::connect(address(&server));
        driver.ask("SET before v PX 1000");
        driver.ask("XADD s * a b");
        assert_eq!(clock(&mut driver, &format!("SET {at}")), Frame::status(OK), "{at}");
        assert_eq!(now(&mut driver).to_string(), at);
        driver.ask("DEL before");
        driver.ask("SET k v EX 100");
        assert_eq!(driver.ask("PTTL k"), Frame::Integer(100_000));
        assert!(!driver.ask("XADD s * a b").is_error());
        assert!(!driver.ask("XADD t * a b").is_error());
        assert_eq!(driver.ask("SET k v PX 9223372036854775807").is_error(), at != "0");
        driver.ask("SET k v EX 100");
        assert_eq!(driver.ask("EXPIRE k 9223372036854775").is_error(), at.len() > 1 + "0".len());
        driver.ask("SET k v EX 100");
        assert!(driver.ask("OBJECT IDLETIME k").integer() <= 1);
        assert!(driver.ask("CLIENT LIST").text().contains("idle=0"));
        let mut waiter = held_up(&server, &mut driver, &["BLPOP q 0.5"]);
        clock(&mut driver, "ADVANCE 1s");
        clock(&mut driver, "SET 1000");
        driver.ask("CLIENT UNBLOCK 2");
        driver.ask("RPUSH q x");
        assert!(waiter.has_reply());
        clock(&mut driver, "RESUME");
        assert_eq!(driver.ask("PING"), Frame::status("PONG"));
    }
}

#[test]
fn times_that_no_clock_shows_are_refused_and_those_too_far_away_are_not_reached() {
    let server = spawn_frozen();
    let mut driver = Wire::connect(address(&server));
    for wrong in ["-1", "9223372036854775807", "2305843009213694", "1e3", "-9223372036854775808"] {
        for action in ["SET", "FREEZE"] {
            let error = clock(&mut driver, &format!("{action} {wrong}")).text();
            assert!(error.starts_with("ERR a time in milliseconds since 1970, up to 2305843009213693"), "{error}");
            assert!(error.ends_with(&format!("received '{wrong}'")), "{error}");
        }
    }
    for _ in 0..2 {
        assert_eq!(clock(&mut driver, "ADVANCE 2500000000h"), Frame::status(OK));
        assert_eq!(now(&mut driver), 2_305_843_009_213_693);
    }
    server.set_time(UNIX_EPOCH - Duration::from_secs(10));
    assert_eq!(now(&mut driver), 0);
    server.set_time(UNIX_EPOCH + Duration::from_secs(u64::MAX / (1 << 32)));
    server.advance(Duration::MAX);
    assert_eq!(now(&mut driver), 2_305_843_009_213_693);
}

#[test]
fn what_was_to_end_soon_ends_later_when_the_clock_goes_back() {
    let server = spawn_frozen();
    let mut driver = Wire::connect(address(&server));
    clock(&mut driver, "SET 5000000");
    driver.ask("SET k v PX 1000");
    let mut waiter = held_up(&server, &mut driver, &["BLPOP q 1"]);
    clock(&mut driver, "SET 4000000");
    assert_eq!(driver.ask("PTTL k"), Frame::Integer(1_001_000));
    clock(&mut driver, "ADVANCE 1000s");
    assert!(!waiter.has_reply());
    clock(&mut driver, "ADVANCE 1s");
    assert_eq!(waiter.expect(), Frame::NullArray);
}

// ---- faster and slower

#[test]
fn a_fast_clock_makes_long_waits_short() {
    let server = spawn();
    let mut driver = Wire::connect(address(&server));
    let mut waiter = held_up(&server, &mut driver, &["BLPOP q 100000"]);
    let before = now(&mut driver);
    assert_eq!(clock(&mut driver, "SPEED 1000000"), Frame::status(OK));
    assert_eq!(waiter.expect(), Frame::NullArray);
    assert!(now(&mut driver) >= before + 100_000_000 - 1);
    assert_eq!(info(&mut driver, "speed"), Frame::bulk("1000000"));
    assert_eq!(info(&mut driver, "mode"), Frame::bulk("running"));
    clock(&mut driver, "RESUME");
    assert_eq!(info(&mut driver, "speed"), Frame::bulk("1"));
    assert!(now(&mut driver) >= before + 100_000_000 - 1, "it goes on from where it is");
}

#[test]
fn a_slow_clock_hardly_moves_and_one_without_speed_is_refused() {
    let server = spawn_frozen();
    let mut driver = Wire::connect(address(&server));
    clock(&mut driver, "SET 1000000");
    clock(&mut driver, "SPEED 0.001");
    assert!((1_000_000..1_000_020).contains(&now(&mut driver)));
    clock(&mut driver, "ADVANCE 1s");
    assert!((1_001_000..1_001_020).contains(&now(&mut driver)));
    for wrong in ["0", "-1", "nan", "inf", "fast", "0.0009", "1000001"] {
        let error = clock(&mut driver, &format!("SPEED {wrong}")).text();
        assert_eq!(error, format!("ERR a factor from 0.001 to 1000000 was expected; received '{wrong}'"));
    }
    assert!(clock(&mut driver, "SPEED").is_error());
}

// ---- by itself

#[test]
fn time_jumps_from_deadline_to_deadline_while_everybody_waits() {
    for threads in [1, 3] {
        let server = start(Server::builder().threads(threads));
        server.freeze();
        let begin = UNIX_EPOCH + Duration::from_secs(1_000_000);
        server.set_time(begin);
        let (one, other) = (client(&server), client(&server));
        server.auto_advance(None);
        // A worker that looks for jobs every hour, and one that looks every 25 minutes and puts something there at last.
        let worker = thread::spawn(move || {
            let mut one = one;
            let mut rounds = 0;
            loop {
                let job: Option<(String, String)> = redis::cmd("BLPOP").arg("jobs").arg(3600).query(&mut one).unwrap();
                rounds += 1;
                if job.is_some() {
                    return rounds;
                }
            }
        });
        let mut other = other;
        for _ in 0..100 {
            let none: Option<(String, String)> = redis::cmd("BLPOP").arg("none").arg(1500).query(&mut other).unwrap();
            assert!(none.is_none());
        }
        let _: i64 = redis::cmd("RPUSH").arg("jobs").arg("job").query(&mut other).unwrap();
        // 2500 minutes are 41 whole hours.
        let rounds = worker.join().unwrap();
        let passed = server.now().duration_since(begin).unwrap();
        assert_eq!(rounds, 42);
        assert_eq!(passed.as_secs(), 100 * 1500);
    }
}

#[test]
fn whoever_may_still_act_holds_time() {
    let server = spawn_frozen();
    let mut driver = Wire::connect(address(&server));
    clock(&mut driver, "SET 1000000");
    let mut waiter = held_up(&server, &mut driver, &["BLPOP q 60"]);
    let mut idle = Wire::connect(address(&server));
    idle.ask("PING");
    assert_eq!(clock(&mut driver, "AUTO"), Frame::status(OK));
    assert_eq!(info(&mut driver, "mode"), Frame::bulk("auto"));
    for _ in 0..100 {
        assert_eq!(now(&mut driver), 1_000_000);
    }
    assert_eq!(info(&mut driver, "next-deadline"), Frame::Integer(1_060_000));
    // It waits, too; then for the next time it is the only one.
    send(&mut idle, "BLPOP q 10");
    assert_eq!(idle.expect(), Frame::NullArray);
    assert_eq!(now(&mut driver), 1_010_000);
    drop(idle);
    assert_eq!(waiter.expect(), Frame::NullArray);
    assert_eq!(now(&mut driver), 1_060_000);
}

#[test]
fn nobody_waits_for_those_who_only_listen() {
    let server = spawn_frozen();
    let mut driver = Wire::connect(address(&server));
    let (mut listener, mut watcher) = (Wire::connect(address(&server)), Wire::connect(address(&server)));
    listener.ask("SUBSCRIBE news");
    watcher.ask("MONITOR");
    let mut waiter = held_up(&server, &mut driver, &["BLPOP q 60", "PUBLISH news over"]);
    clock(&mut driver, "AUTO");
    assert_eq!(waiter.expect(), Frame::NullArray);
    assert_eq!(listener.expect().items()[2], Frame::bulk("over"));
}

#[test]
fn a_silent_connection_holds_time_for_its_grace_only() {
    let server = spawn_frozen();
    let mut driver = Wire::connect(address(&server));
    let mut silent = Wire::connect(address(&server));
    silent.ask("PING");
    let mut waiter = held_up(&server, &mut driver, &["BLPOP q 3600"]);
    assert_eq!(clock(&mut driver, "AUTO idle 20ms"), Frame::status(OK));
    assert_eq!(info(&mut driver, "idle"), Frame::bulk("20ms"));
    assert_eq!(waiter.expect(), Frame::NullArray);
    assert_eq!(silent.ask("PING"), Frame::status("PONG"));
}

#[test]
fn delays_drips_and_pauses_pass_by_themselves() {
    let server = spawn_frozen();
    let mut driver = Wire::connect(address(&server));
    clock(&mut driver, "SET 1000000");
    driver.ask("REDOUBLE FAULT ADD slow on GET delay 1h");
    driver.ask("REDOUBLE FAULT ADD drop on ECHO drip 1 every 1m");
    driver.ask("CLIENT PAUSE 600000 WRITE");
    let mut delayed = held_up(&server, &mut driver, &["GET k"]);
    let mut dripping = held_up(&server, &mut driver, &["ECHO abc"]);
    let mut paused = held_up(&server, &mut driver, &["SET k v", "BLPOP q 7200"]);
    clock(&mut driver, "AUTO");
    // Whoever has got its reply may act: until it waits again, no more time passes.
    assert_eq!(dripping.expect(), Frame::bulk("abc"));
    assert_eq!(now(&mut driver), 1_000_000 + 8 * 60_000);
    send(&mut dripping, "BLPOP q 0");
    assert_eq!(paused.expect(), Frame::status(OK));
    assert_eq!(delayed.expect(), Frame::bulk("v"));
    assert_eq!(now(&mut driver), 1_000_000 + 3_600_000);
}

#[test]
fn a_driver_who_was_told_what_it_waited_for_has_all_the_time_it_needs() {
    with_threads(|server| {
        let mut driver = Wire::connect(address(server));
        clock(&mut driver, "SET 1000000");
        driver.ask("REDOUBLE GATE ADD g on SET");
        let mut waiter = held_up(server, &mut driver, &["BLPOP q 60"]);
        let mut held = held_up(server, &mut driver, &["BLPOP q 10", "SET k v", "BLPOP q 0"]);
        // It waits before time begins to move.
        let mut stepper = held_up(server, &mut driver, &["REDOUBLE GATE WAIT g"]);
        clock(&mut driver, "AUTO");
        // Ten seconds pass, by themselves, until one comes to the gate; then none.
        assert_eq!(stepper.expect(), Frame::Integer(1));
        for _ in 0..100 {
            assert_eq!(now(&mut driver), 1_010_000);
        }
        assert_eq!(stepper.ask("REDOUBLE GATE STEP g"), Frame::status(OK));
        assert_eq!(held.expect(), Frame::NullArray);
        assert_eq!(held.expect(), Frame::status(OK));
        assert_eq!(waiter.expect(), Frame::NullArray);
        assert_eq!(now(&mut driver), 1_060_000);
    });
}

#[test]
fn deadlines_that_no_clock_reaches_are_not_jumped_to() {
    let server = spawn_frozen();
    let mut driver = Wire::connect(address(&server));
    clock(&mut driver, "SET 1000000");
    driver.ask("XGROUP CREATE s g $ MKSTREAM");
    driver.ask("PEXPIREAT s 9223372036854775000");
    driver.ask("REDOUBLE FAULT ADD slow on GET delay 2500000000h");
    let mut reader = held_up(&server, &mut driver, &["XREADGROUP GROUP g c BLOCK 0 STREAMS s >"]);
    let _waiter = held_up(&server, &mut driver, &["BLPOP q 9000000000000000"]);
    let mut delayed = held_up(&server, &mut driver, &["GET k"]);
    clock(&mut driver, "AUTO");
    for _ in 0..100 {
        assert_eq!(now(&mut driver), 1_000_000);
    }
    assert_eq!(clock(&mut driver, "ADVANCE 2500000000h"), Frame::status(OK));
    assert!(!delayed.has_reply() && !reader.has_reply());
    driver.ask("REDOUBLE RESET");
    assert!(delayed.has_reply() && reader.has_reply());
}

#[test]
fn a_clock_that_has_much_to_do_by_itself_can_be_stopped_all_the_same() {
    let server = spawn_frozen();
    let mut driver = Wire::connect(address(&server));
    clock(&mut driver, "SET 0");
    let lines = vec!["BLPOP q 1"; 100_000];
    let mut waiter = held_up(&server, &mut driver, &lines);
    clock(&mut driver, "AUTO");
    assert_eq!(clock(&mut driver, "FREEZE"), Frame::status(OK));
    let stopped = now(&mut driver);
    assert!(stopped < 100_000_000, "{stopped}");
    for _ in 0..stopped / 1000 {
        assert_eq!(waiter.expect(), Frame::NullArray);
    }
    assert!(!waiter.has_reply());
    assert_eq!(now(&mut driver), stopped);
}

#[test]
fn a_clock_that_moved_by_itself_can_be_stopped_and_set_running() {
    let server = spawn_frozen();
    let mut driver = Wire::connect(address(&server));
    for (action, mode) in [("FREEZE", "frozen"), ("RESUME", "running"), ("SPEED 2", "running")] {
        clock(&mut driver, "AUTO idle 1s");
        assert_eq!(info(&mut driver, "mode"), Frame::bulk("auto"));
        clock(&mut driver, action);
        assert_eq!(info(&mut driver, "mode"), Frame::bulk(mode));
        assert_eq!(info(&mut driver, "idle"), Frame::NullBulk);
    }
    assert_eq!(
        clock(&mut driver, "AUTO idle soon").text(),
        "ERR a duration such as 1500 (milliseconds), 250ms, 1.5s or 2m was expected; received 'soon'"
    );
    assert_eq!(clock(&mut driver, "AUTO now").text(), "ERR nothing more was expected; received 'now'");
}

// ---- everything back

#[test]
fn a_reset_leaves_nothing_of_the_test_before() {
    with_threads(|server| {
        let mut driver = Wire::connect(address(server));
        let mut idle = Wire::connect(address(server));
        idle.ask("CLIENT SETNAME idle");
        for line in [
            "SELECT 3",
            "SET k v",
            "SELECT 0",
            "SET k v PX 1000000",
            "CONFIG SET timeout 77 maxmemory 1gb requirepass secret",
            "ACL SETUSER guest on nopass +@all ~*",
            "ACL SETUSER default -flushall",
            "REDOUBLE FAULT ADD f on GET error ERR",
            "REDOUBLE GATE ADD g on APPEND",
            "REDOUBLE CLOCK SPEED 1000",
            "REDOUBLE CLOCK FREEZE 1000",
        ] {
            assert!(!driver.ask(line).is_error(), "{line}");
        }
        let sha = driver.call(&["SCRIPT", "LOAD", "return 1"]).text();
        let library = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
        driver.call(&["FUNCTION", "LOAD", library]);
        driver.ask("CLIENT PAUSE 1000000 WRITE");
        assert_eq!(driver.ask("REDOUBLE RESET"), Frame::status(OK));
        assert_eq!(driver.ask("DBSIZE"), Frame::Integer(0));
        assert!(!driver.ask("INFO keyspace").text().contains("db"));
        assert_eq!(driver.ask("CONFIG GET timeout").items()[1], Frame::bulk("0"));
        assert_eq!(driver.ask("CONFIG GET maxmemory").items()[1], Frame::bulk("0"));
        assert_eq!(driver.ask("CONFIG GET requirepass").items()[1], Frame::bulk(""));
        assert_eq!(driver.ask("CONFIG GET notify-keyspace-events").items()[1], Frame::bulk(""));
        assert_eq!(driver.ask("ACL USERS"), Frame::Array(vec![Frame::bulk("default")]));
        assert_eq!(driver.ask("REDOUBLE FAULT LIST"), Frame::Array(vec![]));
        assert_eq!(driver.ask("REDOUBLE GATE LIST"), Frame::Array(vec![]));
        assert_eq!(driver.ask(&format!("SCRIPT EXISTS {sha}")), Frame::Array(vec![Frame::Integer(0)]));
        assert_eq!(driver.ask("FUNCTION LIST"), Frame::Array(vec![]));
        assert!(driver.ask("INFO stats").text().contains("keyspace_misses:0\r"));
        assert_eq!(info(&mut driver, "mode"), Frame::bulk("running"));
        assert_eq!(info(&mut driver, "speed"), Frame::bulk("1"));
        assert!((-1..=0).contains(&info(&mut driver, "offset").integer()));
        assert!(!driver.ask("FLUSHALL").is_error());
        // Whoever is there stays, and can write again.
        assert_eq!(idle.ask("CLIENT GETNAME"), Frame::bulk("idle"));
        assert_eq!(idle.ask("SET k v"), Frame::status(OK));
    });
}

#[test]
fn a_reset_answers_everybody_who_waits_and_then_forgets_what_they_did() {
    with_threads(|server| {
        let mut driver = Wire::connect(address(server));
        driver.ask("REDOUBLE FAULT ADD slow on GET delay 1h");
        driver.ask("REDOUBLE FAULT ADD hang on INCR hang");
        driver.ask("REDOUBLE FAULT ADD drip on ECHO drip 1 every 1h");
        driver.ask("REDOUBLE GATE ADD g on APPEND");
        let mut delayed = held_up(server, &mut driver, &["GET other"]);
        let mut hanging = held_up(server, &mut driver, &["INCR n"]);
        let mut dripping = held_up(server, &mut driver, &["ECHO abc"]);
        let mut held = held_up(server, &mut driver, &["APPEND a b", "BLPOP q 0", "BLPOP q 5", "RPUSH q x"]);
        let mut blocked = held_up(server, &mut driver, &["BLPOP q 0"]);
        let mut timed = held_up(server, &mut driver, &["BLPOP q 100"]);
        driver.ask("CLIENT PAUSE 1000000 WRITE");
        let mut paused = held_up(server, &mut driver, &["SET k v"]);
        assert_eq!(driver.ask("REDOUBLE RESET"), Frame::status(OK));
        for client in [&mut delayed, &mut hanging, &mut dripping, &mut held, &mut blocked, &mut timed, &mut paused] {
            assert!(client.has_reply());
        }
        assert_eq!(delayed.expect(), Frame::NullBulk);
        assert_eq!(hanging.expect(), Frame::Integer(1));
        assert_eq!(dripping.expect(), Frame::bulk("abc"));
        assert_eq!(held.expect(), Frame::Integer(1));
        assert_eq!((held.expect(), held.expect()), (Frame::NullArray, Frame::NullArray));
        assert_eq!(held.expect(), Frame::Integer(1));
        assert_eq!(timed.expect(), Frame::NullArray);
        assert_eq!(paused.expect(), Frame::status(OK));
        assert_eq!(driver.ask("DBSIZE"), Frame::Integer(0));
    });
}

#[test]
fn a_reset_tells_those_who_watch_and_those_who_keep_copies() {
    let server = spawn();
    let mut driver = Wire::connect(address(&server));
    driver.ask("SET k v");
    let mut watcher = Wire::connect(address(&server));
    watcher.ask("WATCH k");
    let mut copies = Wire::connect(address(&server));
    copies.ask("HELLO 3");
    copies.ask("CLIENT TRACKING ON");
    copies.ask("GET k");
    let mut listener = Wire::connect(address(&server));
    listener.ask("SUBSCRIBE news");
    server.reset();
    assert!(copies.has_reply());
    assert_eq!(copies.expect(), Frame::Push(vec![Frame::bulk("invalidate"), Frame::Null]));
    watcher.ask("MULTI");
    watcher.ask("PING");
    assert_eq!(watcher.ask("EXEC"), Frame::NullArray);
    assert_eq!(driver.ask("PUBLISH news still"), Frame::Integer(1));
    assert_eq!(listener.expect().items()[2], Frame::bulk("still"));
}

#[test]
fn a_reset_goes_back_to_the_users_and_settings_of_the_start() {
    let server = start(Server::builder().password("secret"));
    let mut driver = Wire::connect(address(&server));
    driver.ask("AUTH secret");
    driver.ask("CONFIG SET requirepass other");
    driver.ask("ACL SETUSER guest on nopass +@all");
    let mut guest = Wire::connect(address(&server));
    assert_eq!(guest.ask("AUTH guest any"), Frame::status(OK));
    assert_eq!(driver.ask("REDOUBLE RESET"), Frame::status(OK));
    assert!(guest.is_closed());
    let mut late = Wire::connect(address(&server));
    assert!(late.ask("AUTH other").is_error());
    assert_eq!(late.ask("AUTH secret"), Frame::status(OK));
}

#[test]
fn what_real_time_is_for_stays_on_real_time() {
    let server = spawn_frozen();
    let mut driver = Wire::connect(address(&server));
    let before = server.now();
    clock(&mut driver, "ADVANCE 100h");
    let text = driver.ask("INFO server").text();
    let uptime = text.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:")).expect("uptime");
    assert!(uptime.trim().parse::<u64>().unwrap() < 1000);
    assert_eq!(server.now(), before + Duration::from_secs(100 * 3600));
}
