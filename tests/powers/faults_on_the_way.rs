//! Faults where more than a plain command is on its way: scripts, messages, handshakes, other protocols and sockets.

use redouble::Server;

use crate::driver::{Driver, begin, ok, send};
use crate::support::wire::{Frame, Wire, request};
use crate::support::{address, client_at, spawn_frozen, start};

// ---- what applications fear

#[test]
fn a_lock_is_taken_although_its_owner_saw_an_error() {
    let server = spawn_frozen();
    let mut driver = Driver::connect(address(&server));
    driver.arm("lost on SET key lock times 1 close-after");
    let mut owner = client_at(&server.url());
    let take = || redis::cmd("SET").arg("lock").arg("token").arg("NX").arg("PX").arg(30_000).to_owned();
    let error = take().query::<Option<String>>(&mut owner).expect_err("the reply is lost");
    assert!(error.is_connection_dropped(), "{error}");
    let mut owner = client_at(&server.url());
    assert_eq!(take().query::<Option<String>>(&mut owner).expect("a reply"), None, "it stands in its own way");
    driver.advance("30001");
    assert_eq!(take().query::<Option<String>>(&mut owner).expect("a reply").as_deref(), Some("OK"));
    assert_eq!(driver.disarm("lost"), 1);
}

#[test]
fn a_handshake_can_fail_like_anything_else() {
    let server = start(Server::builder().password("secret"));
    let mut driver = Driver::connect(address(&server));
    driver.ask("AUTH secret");
    for (rule, line, reply) in [
        ("on HELLO error LOADING", "HELLO 3 AUTH default secret", Some("LOADING")),
        ("on AUTH error LOADING", "AUTH secret", Some("LOADING")),
        ("on AUTH close-before", "AUTH secret", None),
        ("on HELLO close-after", "HELLO 3 AUTH default secret", None),
    ] {
        driver.arm(&format!("f {rule}"));
        let mut client = Wire::connect(address(&server));
        send(&mut client, line);
        assert_eq!(client.read().ok(), reply.map(Frame::error), "{rule}");
        assert_eq!(driver.disarm("f"), 1, "{rule}");
    }
    // What is refused without a password is no match.
    driver.arm("f on GET error HIT");
    let mut stranger = Wire::connect(address(&server));
    assert_eq!(stranger.ask("GET k"), Frame::error("NOAUTH Authentication required."));
    assert_eq!(driver.counts("f"), [0, 0, 0]);
    driver.arm("g on SELECT error LOADING");
    let url = format!("{}/1", server.url());
    let opened = redis::Client::open(url).and_then(|client| client.get_connection());
    let error = opened.err().expect("SELECT is part of the handshake").to_string();
    assert!(error.contains("LOADING") || driver.counts("g")[1] == 1, "{error}");
}

// ---- scripts

/// Long enough to be put aside while others are served.
const SLOW: &str = "redis.call('SET', KEYS[1], 'v') for i = 1, 3000000 do end return 'done'";

#[test]
fn a_script_that_takes_long_meets_every_verdict() {
    let (server, mut driver, mut client) = begin();
    let eval = request(&["EVAL", SLOW, "1", "k"]);
    for (verdict, expected) in [("close-after", ""), ("truncate 3", "$4\r")] {
        driver.ask("DEL k");
        driver.arm(&format!("f on EVAL {verdict}"));
        let mut client = Wire::connect(address(&server));
        client.send(&eval);
        assert_eq!(String::from_utf8(client.read_to_end()).unwrap(), expected);
        assert_eq!(driver.ask("EXISTS k"), Frame::Integer(1));
        driver.disarm("f");
    }
    driver.ask("DEL k");
    driver.arm("stuck on EVAL hang");
    client.send(&eval);
    driver.until_hanging("stuck", 1);
    assert_eq!(driver.ask("EXISTS k"), Frame::Integer(0));
    driver.disarm("stuck");
    assert!(client.has_reply(), "whoever takes the rule away waits for the script");
    assert_eq!(client.expect(), Frame::bulk("done"));
    driver.arm("slow on EVAL drip 5 every 1s");
    client.send(&eval);
    assert_eq!(client.read_bytes(5), b"$4\r\nd");
    driver.until_hanging("slow", 1);
    driver.advance("1s");
    assert_eq!(client.read_bytes(5), b"one\r\n");
    driver.arm("lost on EVAL close-after");
    driver.disarm("slow");
    client.send(&[request(&["MULTI"]), eval, request(&["EXEC"])].concat());
    assert_eq!(client.read_to_end(), b"+OK\r\n+QUEUED\r\n");
}

#[test]
fn scripts_by_digest_and_functions_are_met_by_their_own_names() {
    let (_server, mut driver, mut client) = begin();
    let library = "#!lua name=l\nredis.register_function('f', function() return 1 end)";
    client.call(&["FUNCTION", "LOAD", library]);
    let digest = client.call(&["SCRIPT", "LOAD", "return 1"]).text();
    driver.arm("sha on EVALSHA error HIT");
    driver.arm("function on FCALL error HIT");
    assert_eq!(client.ask(&format!("EVALSHA {digest} 0")), Frame::error("HIT"));
    assert_eq!(client.ask("FCALL f 0"), Frame::error("HIT"));
    assert_eq!(client.call(&["EVAL", "return 1", "0"]), Frame::Integer(1));
}

#[test]
fn a_function_that_meets_an_error_can_go_on() {
    let (_server, mut driver, mut client) = begin();
    let library = "#!lua name=l\nredis.register_function('f', function(keys) \
                   return redis.pcall('SET', keys[1], 'v').err end)";
    client.call(&["FUNCTION", "LOAD", library]);
    driver.arm("f on SET error oops");
    assert_eq!(client.ask("FCALL f 1 k"), Frame::bulk("ERR oops"));
}

// ---- clients that wait

#[test]
fn every_verdict_falls_on_a_command_that_waited_for_an_element() {
    let (server, mut driver, mut client) = begin();
    driver.arm("cut on BLPOP truncate 5");
    send(&mut client, "BLPOP l 0");
    driver.wire().ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
    driver.ask("RPUSH l x");
    assert_eq!(client.read_to_end(), b"*2\r\n$");
    driver.disarm("cut");

    driver.arm("slow on BLPOP drip 9 every 1s");
    let mut client = Wire::connect(address(&server));
    client.send(&[request(&["BLPOP", "l", "0"]), request(&["PING"])].concat());
    driver.wire().ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
    driver.ask("RPUSH l x");
    assert_eq!(client.read_bytes(9), b"*2\r\n$1\r\nl");
    driver.until_hanging("slow", 1);
    driver.advance("1s");
    assert_eq!(client.read_bytes(9 + 7), b"\r\n$1\r\nx\r\n+PONG\r\n");
    driver.disarm("slow");

    // Its time begins when it begins to wait.
    driver.arm("late on BLPOP delay 1s");
    send(&mut client, "BLPOP l 1");
    driver.until_hanging("late", 1);
    driver.advance("1s");
    assert!(!client.has_reply());
    driver.advance("1s");
    assert_eq!(client.expect(), Frame::NullArray);

    driver.disarm("late");
    driver.arm("lost on BLPOP close-after");
    send(&mut client, "BLPOP l 1");
    driver.wire().ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
    driver.advance("1s");
    assert_eq!(client.read_to_end(), b"");
}

// ---- messages

#[test]
fn a_message_never_stands_in_the_middle_of_a_reply_that_drips() {
    let (_server, mut driver, mut client) = begin();
    client.ask("HELLO 3");
    client.ask("SUBSCRIBE news");
    client.ask("SET k 0123456789");
    driver.arm("slow on GET drip 4 every 1s");
    send(&mut client, "GET k");
    assert_eq!(client.read_bytes(4), b"$10\r");
    driver.until_hanging("slow", 1);
    assert_eq!(driver.ask("PUBLISH news hello"), Frame::Integer(1));
    driver.advance("1s");
    assert_eq!(client.read_bytes(4), b"\n012");
    driver.advance("1h");
    assert_eq!(client.read_bytes(9), b"3456789\r\n");
    let message = ["message", "news", "hello"].map(Frame::bulk);
    assert_eq!(client.expect(), Frame::Push(message.to_vec()));
    assert_eq!(client.ask("PING"), Frame::status("PONG"));
}

#[test]
fn whoever_hangs_still_gets_its_messages() {
    let (_server, mut driver, mut client) = begin();
    client.ask("HELLO 3");
    client.ask("SUBSCRIBE news");
    driver.arm("stuck on GET hang");
    send(&mut client, "GET k");
    driver.until_hanging("stuck", 1);
    assert_eq!(driver.ask("PUBLISH news hello"), Frame::Integer(1));
    assert_eq!(client.expect(), Frame::Push(["message", "news", "hello"].map(Frame::bulk).to_vec()));
    driver.disarm("stuck");
    assert_eq!(client.expect(), Frame::Null);
}

#[test]
fn a_subscription_that_fails_is_none_and_one_that_is_late_misses_what_came_before() {
    let (server, mut driver, mut client) = begin();
    driver.arm("f on SUBSCRIBE times 1 error oops");
    assert_eq!(client.ask("SUBSCRIBE news"), Frame::error("ERR oops"));
    assert_eq!(driver.ask("PUBLISH news lost"), Frame::Integer(0));
    driver.arm("late on SUBSCRIBE times 1 delay 1s");
    send(&mut client, "SUBSCRIBE news");
    driver.until_hanging("late", 1);
    assert_eq!(driver.ask("PUBLISH news lost"), Frame::Integer(0));
    driver.advance("1s");
    assert_eq!(client.expect().items()[0], Frame::bulk("subscribe"));
    assert_eq!(driver.ask("PUBLISH news seen"), Frame::Integer(1));
    assert_eq!(client.expect().items()[2], Frame::bulk("seen"));
    driver.arm("lost on SUBSCRIBE close-after");
    let mut other = Wire::connect(address(&server));
    send(&mut other, "SUBSCRIBE news");
    assert_eq!(other.read_to_end(), b"");
    assert_eq!(driver.ask("PUBLISH news more"), Frame::Integer(1));
}

#[test]
fn a_lost_publication_has_reached_its_subscribers() {
    let (server, mut driver, mut client) = begin();
    let mut subscriber = Wire::connect(address(&server));
    subscriber.ask("SUBSCRIBE news");
    driver.arm("lost on PUBLISH close-after");
    send(&mut client, "PUBLISH news hello");
    assert_eq!(client.read_to_end(), b"");
    assert_eq!(subscriber.expect().items()[2], Frame::bulk("hello"));
}

#[test]
fn monitor_shows_what_ran_and_not_what_did_not() {
    let (server, mut driver, _) = begin();
    let mut monitor = Wire::connect(address(&server));
    assert_eq!(monitor.ask("MONITOR"), ok());
    driver.arm("before key a close-before");
    driver.arm("after key b close-after");
    driver.arm("error key c error oops");
    for key in ["a", "b", "c"] {
        let mut client = Wire::connect(address(&server));
        send(&mut client, &format!("SET {key} v"));
        let _ = client.read();
    }
    driver.ask("ECHO end");
    let shown: Vec<String> = std::iter::from_fn(|| Some(monitor.expect().text()))
        .take_while(|line| !line.contains("\"ECHO\""))
        .map(|line| line.split_once("] ").map(|(_, words)| words.to_owned()).unwrap_or_default())
        .collect();
    assert_eq!(shown, ["\"SET\" \"b\" \"v\""]);
    driver.arm("end on MONITOR close-before");
    send(&mut monitor, "MONITOR");
    assert!(monitor.is_closed());
}

// ---- protocols and sockets

#[test]
fn an_error_that_nobody_is_to_hear_is_not_sent() {
    let (_server, mut driver, mut client) = begin();
    driver.arm("f on SET error oops");
    send(&mut client, "CLIENT REPLY SKIP");
    send(&mut client, "SET k v");
    assert_eq!(client.ask("PING"), Frame::status("PONG"));
    send(&mut client, "CLIENT REPLY OFF");
    send(&mut client, "SET k v");
    send(&mut client, "CLIENT REPLY ON");
    assert_eq!(client.expect(), ok());
    assert_eq!(driver.counts("f"), [2, 2, 0]);
    assert_eq!(driver.ask("EXISTS k"), Frame::Integer(0));
    driver.arm("slow on GET drip 1 every 1h");
    driver.arm("late on INCR delay 1s");
    send(&mut client, "CLIENT REPLY OFF");
    send(&mut client, "GET k");
    send(&mut client, "INCR n");
    driver.until_hanging("late", 1);
    driver.advance("1s");
    send(&mut client, "CLIENT REPLY ON");
    assert_eq!(client.expect(), ok());
    driver.arm("cut on ECHO truncate 3");
    send(&mut client, "CLIENT REPLY OFF");
    send(&mut client, "ECHO hello");
    assert_eq!(client.read_to_end(), b"");
}

#[test]
fn resp3_replies_are_cut_and_drip_as_they_stand() {
    let (_server, mut driver, mut client) = begin();
    client.ask("HELLO 3");
    client.ask("HSET h f v");
    driver.arm("slow on HGETALL times 1 drip 4 every 1s");
    send(&mut client, "HGETALL h");
    assert_eq!(client.read_bytes(4), b"%1\r\n");
    driver.until_hanging("slow", 1);
    driver.advance("10s");
    assert_eq!(client.read_bytes(14), b"$1\r\nf\r\n$1\r\nv\r\n");
    driver.arm("cut on HGETALL truncate 5");
    send(&mut client, "HGETALL h");
    assert_eq!(client.read_to_end(), b"%1\r\n$");
}

#[test]
fn a_unix_socket_knows_every_fault_too_except_that_a_reset_is_a_close() {
    let path = std::env::temp_dir().join(format!("redouble-{}-faults.sock", std::process::id()));
    let server = start(Server::builder().unix_socket(&path));
    let mut driver = Driver::connect(address(&server));
    for (verdict, expected, has_run) in
        [("close-before", "", 0), ("close-after", "", 1), ("reset", "", 0), ("truncate 3", "+OK", 1)]
    {
        driver.ask("DEL k");
        driver.arm(&format!("f on SET {verdict}"));
        let mut client = Wire::connect_unix(&path);
        send(&mut client, "SET k v");
        assert_eq!(String::from_utf8(client.read_to_end()).unwrap(), expected, "{verdict}");
        assert_eq!(driver.ask("EXISTS k"), Frame::Integer(has_run), "{verdict}");
        driver.disarm("f");
    }
    driver.arm("stuck on SET hang");
    let mut client = Wire::connect_unix(&path);
    send(&mut client, "SET k v");
    driver.until_hanging("stuck", 1);
    drop(client);
    driver.until_hanging("stuck", 0);
    driver.arm("down refuse");
    assert!(Wire::connect_unix(&path).is_closed());
}

#[test]
fn whoever_a_moved_clock_lets_go_serves_others_before_the_mover_is_answered() {
    for threads in [1, 4] {
        let server = start(Server::builder().threads(threads));
        server.freeze();
        let mut driver = Driver::connect(address(&server));
        let mut waiter = Wire::connect(address(&server));
        let mut pusher = Wire::connect(address(&server));
        send(&mut waiter, "BLPOP l 0");
        driver.wire().ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
        driver.arm("slow on GET drip 2 every 1s");
        // What stands behind a reply that drips is a consequence of the clock, too.
        pusher.send(&[request(&["GET", "k"]), request(&["RPUSH", "l", "x"])].concat());
        driver.until_hanging("slow", 1);
        driver.advance("10s");
        assert!(waiter.has_reply() && pusher.has_reply());
        assert_eq!(pusher.expect(), Frame::NullBulk);
        assert_eq!(pusher.expect(), Frame::Integer(1));
        assert_eq!(waiter.expect(), Frame::Array(vec![Frame::bulk("l"), Frame::bulk("x")]));
    }
}
