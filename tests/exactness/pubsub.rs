//! Pub/sub and keyspace events: who receives a message, in which order, and what a subscriber that does not read costs
//! others.

use std::time::Duration;

use crate::support::process::ServerProcess;
use crate::support::wire::{Frame, Wire, request};
use crate::support::{Deadline, address, profile, spawn, spawn_frozen, start, wait_until};
use redouble::Server;

fn connect(server: &Server) -> Wire {
    Wire::connect(address(server))
}

fn listener(server: &Server, line: &str) -> Wire {
    let mut wire = connect(server);
    assert_eq!(wire.ask(line).items().len(), 3, "{line}");
    wire
}

/// Reads all messages that a RESP2 subscriber has received, as pairs of channel and message.
#[track_caller]
fn heard(wire: &mut Wire) -> Vec<(String, String)> {
    wire.send(b"PING\r\n");
    let mut messages = Vec::new();
    loop {
        let message = wire.expect();
        let words: Vec<String> = message.items().iter().map(Frame::text).collect();
        match words.as_slice() {
            [pong, _] if pong == "pong" => return messages,
            [.., channel, text] => messages.push((channel.clone(), text.clone())),
            _ => panic!("{message:?}"),
        }
    }
}

fn texts(messages: &[(String, String)]) -> Vec<&str> {
    messages.iter().map(|(_, text)| text.as_str()).collect()
}

#[test]
fn a_client_that_floods_itself_is_closed_at_its_limit() {
    let flood = "for i = 1, 1000 do redis.call('PUBLISH', 'news', ARGV[1]) end";
    let redis = ServerProcess::redis(&["--save", ""]);
    let server = spawn();
    for address in [redis.address(), address(&server)] {
        let mut other = Wire::connect(address);
        other.call(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 1mb 0 0"]);
        let mut wire = Wire::connect(address);
        wire.ask("HELLO 3");
        wire.ask("SUBSCRIBE news");
        assert!(wire.send(&request(&["EVAL", flood, "0", &"x".repeat(10_000)])));
        assert!(wire.read_to_end().len() < 2 << 20);
        assert_eq!(other.ask("PUBSUB NUMSUB news").items()[1], Frame::Integer(0));
    }
}

#[test]
fn a_slow_subscriber_is_closed_at_its_limit_and_harms_nobody() {
    const LIMIT: usize = 1 << 20;
    const LENGTH: usize = 64 << 10;
    let server = spawn();
    let mut publisher = connect(&server);
    publisher.call(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 1mb 0 0"]);
    let mut slow = listener(&server, "SUBSCRIBE news");
    let mut quick = listener(&server, "SUBSCRIBE news");
    let text = "x".repeat(LENGTH);
    let mut closed = false;
    // Socket buffers take several megabytes before the server's output buffer grows.
    for _ in 0..4_000 {
        let reached = publisher.call(&["PUBLISH", "news", &text]).integer();
        assert_eq!(quick.expect().items()[2].text().len(), LENGTH);
        let list = publisher.ask("CLIENT LIST TYPE pubsub").text();
        for waiting in list.split_whitespace().filter_map(|field| field.strip_prefix("omem=")) {
            let waiting: usize = waiting.parse().unwrap();
            assert!(waiting <= LIMIT + 2 * LENGTH, "{waiting} bytes wait");
        }
        if reached == 1 {
            closed = true;
            break;
        }
    }
    assert!(closed, "nobody closed the slow one");
    assert_eq!(publisher.ask("PUBSUB NUMSUB news").items()[1], Frame::Integer(1));
    assert!(slow.is_closed());
    assert_eq!(publisher.ask("PUBLISH news last"), Frame::Integer(1));
    assert_eq!(texts(&heard(&mut quick)), ["last"]);
}

#[test]
fn a_soft_limit_closes_whoever_is_slow_for_too_long() {
    let server = spawn_frozen();
    let mut publisher = connect(&server);
    publisher.call(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 100kb 5"]);
    let mut slow = listener(&server, "SUBSCRIBE news");
    let text = "x".repeat(256 << 10);
    let waiting = |publisher: &mut Wire| {
        let list = publisher.ask("CLIENT LIST TYPE pubsub").text();
        list.split_whitespace().find_map(|field| field.strip_prefix("omem=")?.parse::<usize>().ok()).unwrap_or(0)
    };
    // The output buffer counts as full only when bytes remain in it after many more messages.
    let deadline = Deadline::start();
    while waiting(&mut publisher) < 4 << 20 {
        deadline.check("a full output buffer");
        assert_eq!(publisher.call(&["PUBLISH", "news", &text]), Frame::Integer(1));
    }
    server.advance(Duration::from_secs(5));
    assert_eq!(publisher.ask("PUBSUB NUMSUB news").items()[1], Frame::Integer(1));
    server.advance(Duration::from_secs(1));
    assert_eq!(publisher.ask("PUBSUB NUMSUB news").items()[1], Frame::Integer(0));
    assert!(slow.is_closed());
}

#[test]
fn who_was_slow_and_has_caught_up_is_not_closed() {
    let server = spawn_frozen();
    let mut publisher = connect(&server);
    publisher.call(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 100kb 5"]);
    let mut slow = listener(&server, "SUBSCRIBE news");
    let text = "x".repeat(256 << 10);
    for _ in 0..64 {
        publisher.call(&["PUBLISH", "news", &text]);
    }
    assert_eq!(heard(&mut slow).len(), 64);
    server.advance(Duration::from_secs(60));
    assert_eq!(publisher.ask("PUBLISH news still"), Frame::Integer(1));
    assert_eq!(texts(&heard(&mut slow)), ["still"]);
}

#[test]
fn a_waiter_woken_by_a_message_gets_the_lock() {
    let server = spawn();
    let (mut holder, mut waiter) = (connect(&server), connect(&server));
    assert_eq!(holder.ask("SET lock one NX PX 30000"), Frame::status("OK"));
    // Subscribing before the second try catches a release in between.
    let mut ear = listener(&server, "SUBSCRIBE released:lock");
    assert_eq!(waiter.ask("SET lock two NX PX 30000"), Frame::NullBulk);
    holder.ask("MULTI");
    holder.ask("DEL lock");
    holder.ask("PUBLISH released:lock one");
    assert_eq!(holder.ask("EXEC").items(), [Frame::Integer(1), Frame::Integer(1)]);
    assert_eq!(ear.expect().items()[2].text(), "one");
    assert_eq!(waiter.ask("SET lock two NX PX 30000"), Frame::status("OK"));
}

#[test]
fn locks_that_expire_are_announced_in_the_order_of_their_deadlines_before_the_clock_has_moved() {
    let server = spawn_frozen();
    let mut client = connect(&server);
    client.ask("CONFIG SET notify-keyspace-events Ex");
    let mut ear = listener(&server, "PSUBSCRIBE __keyevent@*__:expired");
    for (db, key, milliseconds) in [(0, "c", 300), (3, "a", 100), (0, "d", 400), (0, "b", 200), (3, "e", 5000)] {
        client.ask(&format!("SELECT {db}"));
        assert_eq!(client.ask(&format!("SET {key} token NX PX {milliseconds}")), Frame::status("OK"));
    }
    server.advance(Duration::from_millis(400));
    // A key still exists at its last millisecond.
    assert_eq!(texts(&heard(&mut ear)), ["a", "b", "c"]);
    server.advance(Duration::from_millis(1));
    assert_eq!(heard(&mut ear), [("__keyevent@0__:expired".to_owned(), "d".to_owned())]);
    server.advance(Duration::from_secs(3600));
    assert_eq!(heard(&mut ear), [("__keyevent@3__:expired".to_owned(), "e".to_owned())]);
}

#[test]
fn thousands_of_keys_that_expire_together_are_announced_in_the_order_of_their_deadlines_a_part_at_a_time() {
    const KEYS: usize = 10_000;
    let server = ServerProcess::redouble(&["--enable-debug-command", "yes", "--notify-keyspace-events", "Ex"]);
    let [mut client, mut ear] = [(), ()].map(|()| Wire::connect(server.address()));
    ear.ask("PSUBSCRIBE __keyevent@*__:expired");
    client.ask("DEBUG SET-ACTIVE-EXPIRE 0");
    let time = client.ask("TIME");
    let soon = time.items()[0].text().parse::<usize>().expect("a time") * 1000 + 3000;
    for number in 0..KEYS {
        let deadline = (soon + number / 100).to_string();
        client.send(&request(&["SET", &format!("key:{number}"), "v", "PXAT", &deadline]));
    }
    for _ in 0..KEYS {
        assert_eq!(client.expect(), Frame::status("OK"));
    }
    client.call(&["SET", "after", "v", "PXAT", &(soon + KEYS / 100).to_string()]);
    wait_until("the last deadline", || client.ask("GET after") == Frame::NullBulk);
    assert_eq!(client.ask("DBSIZE"), Frame::Integer(KEYS as i64), "nobody has looked at the others");
    client.ask("DEBUG SET-ACTIVE-EXPIRE 1");
    assert_eq!(ear.expect().items()[3], Frame::bulk("after"));
    let numbers: Vec<usize> = (0..KEYS)
        .map(|_| ear.expect().items()[3].text().trim_start_matches("key:").parse().expect("a number of a key"))
        .collect();
    assert!(numbers.is_sorted_by_key(|number| number / 100), "{numbers:?}");
}

#[test]
fn a_lock_that_is_found_expired_is_announced_at_once() {
    let server = spawn_frozen();
    let mut client = connect(&server);
    client.ask("CONFIG SET notify-keyspace-events KEA");
    let mut ear = listener(&server, "PSUBSCRIBE __keyevent@0__:*");
    // Inside a transaction no other client or expiry cycle can delete the key first.
    for line in ["MULTI", "SET lock token EXAT 1", "SET lock other NX PX 100", "EXEC"] {
        client.ask(line);
    }
    let events = heard(&mut ear);
    let names: Vec<_> = events.iter().map(|(channel, _)| channel.trim_start_matches("__keyevent@0__:")).collect();
    assert_eq!(names, ["set", "expire", "expired", "set", "expire"]);
}

#[test]
fn a_subscriber_that_disconnects_leaves_nothing_behind() {
    let server = spawn();
    let mut client = connect(&server);
    let mut gone = listener(&server, "SUBSCRIBE a");
    gone.ask("PSUBSCRIBE b*");
    gone.ask("SSUBSCRIBE c");
    assert!(client.ask("CLIENT LIST TYPE pubsub").text().contains("flags=P db=0 sub=1 psub=1 ssub=1"));
    drop(gone);
    client.ask_until("CLIENT LIST TYPE pubsub", str::is_empty);
    assert_eq!(client.ask("PUBSUB CHANNELS").items(), []);
    assert_eq!(client.ask("PUBSUB SHARDCHANNELS").items(), []);
    assert_eq!(client.ask("PUBSUB NUMPAT"), Frame::Integer(0));
    assert_eq!(client.ask("PUBLISH a x"), Frame::Integer(0));
    let stats = client.ask("INFO stats").text();
    assert!(stats.contains("pubsub_channels:0\r\npubsub_patterns:0\r\n"), "{stats}");
}

#[test]
fn two_servers_share_no_channel() {
    let (one, other) = (spawn(), spawn());
    let mut ear = listener(&one, "SUBSCRIBE news");
    let (mut here, mut there) = (connect(&one), connect(&other));
    assert_eq!(there.ask("PUBLISH news x"), Frame::Integer(0));
    assert_eq!(there.ask("PUBSUB CHANNELS").items(), []);
    assert_eq!(here.ask("PUBLISH news y"), Frame::Integer(1));
    assert_eq!(texts(&heard(&mut ear)), ["y"]);
}

#[test]
fn whoever_listens_is_never_idle() {
    let server = spawn_frozen();
    let mut client = connect(&server);
    let mut ear = listener(&server, "SUBSCRIBE news");
    client.ask("CONFIG SET timeout 10");
    server.advance(Duration::from_secs(60));
    assert!(client.is_closed());
    assert_eq!(connect(&server).ask("PUBLISH news x"), Frame::Integer(1));
    assert_eq!(texts(&heard(&mut ear)), ["x"]);
}

#[test]
fn nothing_is_heard_behind_the_word_that_one_no_longer_listens() {
    let server = spawn();
    let mut ear = listener(&server, "SUBSCRIBE news");
    let publisher = connect(&server);
    let speaking = std::thread::spawn(move || {
        let mut publisher = publisher;
        for _ in 0..5_000 {
            publisher.send(b"PUBLISH news x\r\n");
        }
        for _ in 0..5_000 {
            publisher.expect();
        }
    });
    for _ in 0..200 {
        ear.send(b"UNSUBSCRIBE news\r\n");
        while ear.expect().items()[0].text() != "unsubscribe" {}
        assert_eq!(ear.ask("ECHO quiet").text(), "quiet");
        assert_eq!(ear.ask("SUBSCRIBE news").items()[0].text(), "subscribe");
    }
    speaking.join().unwrap();
}

#[test]
fn messages_to_oneself_come_where_each_server_puts_them() {
    for (name, first) in [("redis-7.0", true), ("redis-7.2", false), ("valkey-9.1", false)] {
        let server = start(Server::builder().compat(profile(name)));
        let mut wire = connect(&server);
        wire.ask("HELLO 3");
        wire.ask("SUBSCRIBE news");
        wire.send(b"PUBLISH news x\r\n");
        let frames = [wire.expect(), wire.expect()];
        assert_eq!(matches!(frames[0], Frame::Push(_)), first, "{name}");
        assert_eq!(matches!(frames[1], Frame::Push(_)), !first, "{name}");
        // A message never arrives inside the reply of EXEC.
        wire.ask("MULTI");
        wire.ask("PUBLISH news x");
        assert_eq!(wire.ask("EXEC").items(), [Frame::Integer(1)], "{name}");
        assert!(matches!(wire.expect(), Frame::Push(_)), "{name}");
    }
}

#[test]
fn new_keys_are_told_of_beside_all_other_classes() {
    let server = ServerProcess::redouble(&["--compat", "redis-7.0", "--notify-keyspace-events", "KEAn"]);
    let mut ear = Wire::connect(server.address());
    ear.ask("PSUBSCRIBE __keyevent@0__:*");
    let mut client = Wire::connect(server.address());
    assert_eq!(client.ask("CONFIG GET notify-keyspace-events").items()[1].text(), "AKE");
    client.ask("SET k v");
    let channels: Vec<_> = heard(&mut ear).into_iter().map(|(channel, _)| channel).collect();
    assert_eq!(channels, ["__keyevent@0__:new", "__keyevent@0__:set"]);
}
