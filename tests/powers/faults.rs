//! Faults as clients see them: each verdict, on the wire, byte by byte.
//!
//! Clocks are frozen until a test advances them. A test polls the fault's counters to learn that a client hangs.

use std::io::{ErrorKind, Read};

use redouble::Server;

use crate::driver::{Driver, begin, ok, send};
use crate::support::wire::{Frame, Wire, request};
use crate::support::{address, start};

/// Whether the peer reset the connection instead of closing it.
#[track_caller]
fn was_reset(client: &Wire) -> bool {
    match client.tcp().read(&mut [0; 16]) {
        Ok(0) => false,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => true,
        other => panic!("the connection goes on: {other:?}"),
    }
}

// ---- errors

#[test]
fn an_error_comes_as_it_was_given_and_the_command_has_not_run() {
    let (_server, mut driver, mut client) = begin();
    driver.call(&["REDOUBLE", "FAULT", "ADD", "busy", "on", "SET", "error", "TRYAGAIN in a minute"]);
    assert_eq!(client.ask("SET k v"), Frame::error("TRYAGAIN in a minute"));
    assert_eq!(client.ask("GET k"), Frame::NullBulk);
    assert!(driver.ask("INFO errorstats").text().contains("errorstat_TRYAGAIN:count=1"));
    assert_eq!(driver.disarm("busy"), 1);
    assert_eq!(client.ask("SET k v"), ok());
}

#[test]
fn an_error_without_a_code_gets_one_because_clients_take_the_first_word_for_it() {
    let (_server, mut driver, mut client) = begin();
    driver.arm("plain on GET error oops");
    assert_eq!(client.ask("GET k"), Frame::error("ERR oops"));
    driver.call(&["REDOUBLE", "FAULT", "ADD", "two", "on", "SET", "error", "-two\r\nlines"]);
    assert_eq!(client.ask("SET k v"), Frame::error("ERR two  lines"));
}

#[test]
fn an_error_in_a_transaction_stands_in_its_array_and_the_other_commands_run() {
    let (_server, mut driver, mut client) = begin();
    driver.arm("f on INCR key b nth 2 error MASTERDOWN");
    for line in ["MULTI", "INCR a", "INCR b", "INCR b", "INCR b", "INCR a"] {
        client.ask(line);
    }
    let one = Frame::Integer(1);
    let two = Frame::Integer(2);
    let expected = vec![one.clone(), one, Frame::error("MASTERDOWN"), two.clone(), two];
    assert_eq!(client.ask("EXEC"), Frame::Array(expected));
    assert_eq!(driver.counts("f"), [3, 1, 0]);
}

#[test]
fn an_error_for_exec_itself_ends_the_transaction() {
    let (_server, mut driver, mut client) = begin();
    driver.arm("f on EXEC times 1 error oops");
    client.ask("MULTI");
    client.ask("SET k v");
    assert_eq!(client.ask("EXEC"), Frame::error("ERR oops"));
    assert_eq!(client.ask("EXEC"), Frame::error("ERR EXEC without MULTI"));
    assert_eq!(client.ask("EXISTS k"), Frame::Integer(0));
}

#[test]
fn an_error_does_not_spoil_the_transaction_that_a_command_is_queued_for() {
    let (_server, mut driver, mut client) = begin();
    driver.arm("f on SET times 1 error oops");
    client.ask("MULTI");
    assert_eq!(client.ask("SET k v"), Frame::status("QUEUED"));
    assert_eq!(client.ask("EXEC"), Frame::Array(vec![Frame::error("ERR oops")]));
    client.ask("MULTI");
    client.ask("SET k v");
    assert_eq!(client.ask("EXEC"), Frame::Array(vec![ok()]));
}

#[test]
fn an_error_in_a_script_is_raised_by_call_and_returned_by_pcall() {
    let (_server, mut driver, mut client) = begin();
    driver.call(&["REDOUBLE", "FAULT", "ADD", "f", "on", "SET", "error", "READONLY not now"]);
    let eval = |client: &mut Wire, script: &str| client.call(&["EVAL", script, "1", "k"]);
    let raised = eval(&mut client, "redis.call('SET', KEYS[1], 'v') redis.call('SET', 'other', 'v')").text();
    assert!(raised.starts_with("READONLY not now script: "), "{raised}");
    let returned = eval(&mut client, "return redis.pcall('SET', KEYS[1], 'v')");
    assert_eq!(returned, Frame::error("READONLY not now"));
    let text = eval(&mut client, "redis.call('INCR', 'n') return redis.pcall('SET', KEYS[1], 'v').err");
    assert_eq!(text, Frame::bulk("READONLY not now"));
    assert_eq!(client.ask("MGET k other n"), Frame::Array(vec![Frame::NullBulk, Frame::NullBulk, Frame::bulk("1")]));
    assert_eq!(driver.counts("f"), [3, 3, 0]);
}

#[test]
fn only_errors_reach_into_scripts() {
    let (_server, mut driver, mut client) = begin();
    driver.arm("f on SET close-before");
    assert_eq!(client.call(&["EVAL", "return redis.call('SET', 'k', 'v')", "0"]), ok());
    assert_eq!(driver.counts("f"), [0, 0, 0]);
}

// ---- delays

#[test]
fn a_delayed_command_runs_when_the_clock_gets_there_and_not_before() {
    let (_server, mut driver, mut client) = begin();
    driver.arm("slow on SET delay 1.5s");
    send(&mut client, "SET k v");
    driver.until_hanging("slow", 1);
    driver.advance("1499");
    assert!(!client.has_reply());
    assert_eq!(driver.ask("EXISTS k"), Frame::Integer(0));
    driver.advance("1");
    assert!(client.has_reply(), "whoever moves the clock is answered after the consequences");
    assert_eq!(client.expect(), ok());
    assert_eq!(driver.ask("EXISTS k"), Frame::Integer(1));
    assert_eq!(driver.counts("slow"), [1, 1, 0]);
}

#[test]
fn a_delay_of_nothing_and_one_of_an_eternity_are_delays() {
    let (_server, mut driver, mut client) = begin();
    driver.arm("none on SET delay 0");
    assert_eq!(client.ask("SET k v"), ok());
    driver.arm("long on GET delay 2562047787h");
    send(&mut client, "GET k");
    driver.until_hanging("long", 1);
    driver.advance("1000000h");
    assert!(!client.has_reply());
    assert_eq!(driver.disarm("long"), 1);
    assert!(client.has_reply());
    assert_eq!(client.expect(), Frame::bulk("v"));
}

#[test]
fn a_lease_can_run_out_while_its_renewal_is_delayed() {
    let (_server, mut driver, mut client) = begin();
    client.ask("SET lock token PX 1000");
    driver.arm("late on PEXPIRE delay 2s");
    send(&mut client, "PEXPIRE lock 1000");
    driver.until_hanging("late", 1);
    driver.advance("2s");
    assert_eq!(client.expect(), Frame::Integer(0));
}

#[test]
fn replies_keep_their_order_behind_a_delay() {
    let (_server, mut driver, mut client) = begin();
    driver.arm("slow on SET delay 10ms");
    client.send(&[request(&["PING"]), request(&["SET", "k", "v"]), request(&["GET", "k"])].concat());
    assert_eq!(client.expect(), Frame::status("PONG"));
    driver.until_hanging("slow", 1);
    driver.advance("10ms");
    assert_eq!(client.expect(), ok());
    assert_eq!(client.expect(), Frame::bulk("v"));
}

// ---- closing

#[test]
fn what_was_sent_before_the_lost_command_is_answered_and_what_was_sent_behind_it_never_runs() {
    for (verdict, has_run) in [("close-before", 0), ("close-after", 1), ("reset", 0)] {
        let (_server, mut driver, mut client) = begin();
        driver.arm(&format!("f on SET {verdict}"));
        client.send(&[request(&["INCR", "a"]), request(&["SET", "b", "1"]), request(&["INCR", "c"])].concat());
        assert_eq!(client.read_to_end(), b":1\r\n", "{verdict}");
        assert_eq!(driver.ask("EXISTS b"), Frame::Integer(has_run), "{verdict}");
        assert_eq!(driver.ask("EXISTS a c"), Frame::Integer(1), "{verdict}");
    }
}

#[test]
fn a_reply_is_cut_where_the_rule_says() {
    let (server, mut driver, _) = begin();
    driver.ask("SET k hello");
    for (bytes, expected) in [
        ("0", ""),
        ("1", "$"),
        ("6", "$5\r\nhe"),
        ("11", "$5\r\nhello\r\n"),
        ("18446744073709551615", "$5\r\nhello\r\n"),
    ] {
        driver.arm(&format!("cut on GET truncate {bytes}"));
        let mut client = Wire::connect(address(&server));
        send(&mut client, "GET k");
        assert_eq!(String::from_utf8(client.read_to_end()).unwrap(), expected);
        assert_eq!(driver.disarm("cut"), 1);
    }
    let long = "hello".repeat(20_000);
    driver.call(&["SET", "k", &long]);
    driver.arm("cut on GET truncate 50009");
    let mut client = Wire::connect(address(&server));
    send(&mut client, "GET k");
    assert!(client.read_to_end() == [b"$100000\r\n", &long.as_bytes()[..50_000]].concat());
}

#[test]
fn a_transaction_whose_reply_is_cut_has_run_as_a_whole() {
    let (_server, mut driver, mut client) = begin();
    driver.arm("cut on INCR truncate 6");
    client.send(&[request(&["MULTI"]), request(&["INCR", "a"]), request(&["INCR", "b"]), request(&["EXEC"])].concat());
    assert_eq!(client.read_to_end(), b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1");
    assert_eq!(driver.ask("MGET a b"), Frame::Array(vec![Frame::bulk("1"), Frame::bulk("1")]));
}

#[test]
fn a_reset_is_a_reset_and_a_close_is_none() {
    let (server, mut driver, mut client) = begin();
    driver.arm("reset on GET reset");
    send(&mut client, "GET k");
    assert!(was_reset(&client));
    for verdict in ["close-before", "close-after"] {
        driver.arm(&format!("{verdict} on SET times 1 {verdict}"));
        let mut client = Wire::connect(address(&server));
        send(&mut client, "SET k v");
        assert!(!was_reset(&client), "{verdict}");
    }
    assert_eq!(driver.ask("DBSIZE"), Frame::Integer(1));
}

// ---- hanging

#[test]
fn a_hanging_command_runs_when_the_rule_goes_and_whoever_took_it_away_hears_of_it_afterwards() {
    for threads in [1, 4] {
        let server = start(Server::builder().threads(threads));
        let mut driver = Driver::connect(address(&server));
        driver.arm("stuck on INCR hang");
        let mut clients: Vec<Wire> = (0..100).map(|_| Wire::connect(address(&server))).collect();
        clients.iter_mut().for_each(|client| send(client, "INCR n"));
        driver.until_hanging("stuck", 100);
        assert_eq!(driver.ask("EXISTS n"), Frame::Integer(0));
        assert_eq!(driver.disarm("stuck"), 100);
        assert_eq!(driver.ask("GET n"), Frame::bulk("100"));
        for client in &mut clients {
            assert!(client.has_reply(), "the reply to REMOVE comes after all others");
            client.expect();
            assert_eq!(client.ask("PING"), Frame::status("PONG"));
        }
    }
}

#[test]
fn a_rule_meets_whoever_comes_after_one_that_hung_was_let_go() {
    let (_server, mut driver, mut client) = begin();
    driver.arm("stuck on SET hang");
    send(&mut client, "SET k v");
    driver.until_hanging("stuck", 1);
    assert_eq!(driver.disarm("stuck"), 1);
    assert_eq!(client.expect(), ok());
    driver.arm("broken on SET error oops");
    assert_eq!(client.ask("SET k v"), Frame::error("ERR oops"));
}

#[test]
fn whoever_gives_up_while_it_hangs_is_forgotten_and_its_command_never_runs() {
    let (server, mut driver, client) = begin();
    driver.arm("stuck on SET hang");
    let mut clients: Vec<Wire> = (0..4).map(|_| Wire::connect(address(&server))).collect();
    clients.push(client);
    clients.iter_mut().for_each(|client| send(client, "SET k v"));
    driver.until_hanging("stuck", 5);
    drop(clients.pop());
    driver.until_hanging("stuck", 4);
    // A client that shuts down its sending side counts as disconnected.
    clients[0].finish_sending();
    driver.until_hanging("stuck", 3);
    assert!(clients[0].is_closed());
    // The server drops the commands that it has pipelined after the hanging one.
    for _ in 0..1000 {
        send(&mut clients[1], "SET other v");
    }
    drop(clients.remove(1));
    driver.until_hanging("stuck", 2);
    assert_eq!(driver.ask("CLIENT KILL TYPE normal SKIPME yes"), Frame::Integer(2));
    driver.until_hanging("stuck", 0);
    assert_eq!(driver.disarm("stuck"), 5);
    assert_eq!(driver.ask("DBSIZE"), Frame::Integer(0));
}

#[test]
fn whoever_hangs_cannot_have_the_server_keep_whatever_it_sends() {
    let (_server, mut driver, mut client) = begin();
    assert_eq!(driver.ask("CONFIG SET client-query-buffer-limit 1mb"), ok());
    driver.arm("stuck on SET hang");
    send(&mut client, "SET k v");
    driver.until_hanging("stuck", 1);
    let much = vec![b'x'; 4 * 1024 * 1024];
    client.send(&much);
    assert!(client.is_closed());
    driver.until_hanging("stuck", 0);
}

#[test]
fn nothing_else_ends_a_hang() {
    let (_server, mut driver, mut client) = begin();
    driver.arm("stuck on SET hang");
    let id = client.ask("CLIENT ID").integer();
    send(&mut client, "SET k v");
    driver.until_hanging("stuck", 1);
    assert_eq!(driver.ask(&format!("CLIENT UNBLOCK {id}")), Frame::Integer(0));
    assert_eq!(driver.ask("FLUSHALL"), ok());
    driver.advance("100h");
    assert!(driver.ask("CLIENT LIST").text().lines().any(|line| line.contains(&format!("id={id} "))));
    assert!(!client.has_reply());
    assert_eq!(driver.counts("stuck"), [1, 1, 1]);
}

// ---- dripping

#[test]
fn a_reply_drips_by_the_clock() {
    let (_server, mut driver, mut client) = begin();
    driver.ask("SET k hello");
    driver.arm("slow on GET drip 4 every 10ms");
    client.send(&[request(&["GET", "k"]), request(&["PING"])].concat());
    assert_eq!(client.read_bytes(4), b"$5\r\n");
    driver.until_hanging("slow", 1);
    driver.advance("9ms");
    assert!(!client.has_reply());
    driver.advance("1ms");
    assert_eq!(client.read_bytes(4), b"hell");
    assert!(!client.has_reply());
    driver.advance("10ms");
    assert_eq!(client.read_bytes(3 + 7), b"o\r\n+PONG\r\n");
    assert_eq!(driver.counts("slow"), [1, 1, 0]);
}

#[test]
fn what_a_client_is_told_of_its_own_change_stands_behind_a_reply_that_drips_and_not_behind_one_that_is_cut() {
    let (server, mut driver, mut client) = begin();
    let mut cut = Wire::connect(address(&server));
    for wire in [&mut client, &mut cut] {
        wire.ask("HELLO 3");
        wire.ask("CLIENT TRACKING ON BCAST PREFIX k");
    }
    const TOLD: &[u8] = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
    driver.arm("slow on SET drip 1 every 10ms");
    send(&mut client, "SET k v");
    assert_eq!(client.read_bytes(1), b"+");
    assert_eq!(cut.read_bytes(TOLD.len()), TOLD);
    assert!(!client.has_reply());
    driver.advance("1s");
    assert_eq!(client.read_bytes(4), b"OK\r\n");
    assert_eq!(client.read_bytes(TOLD.len()), TOLD);
    assert_eq!(driver.disarm("slow"), 1);

    driver.arm("short on SET truncate 2");
    send(&mut cut, "SET k v");
    assert_eq!(cut.read_to_end(), b"+O");
    assert_eq!(client.read_bytes(TOLD.len()), TOLD);
}

#[test]
fn a_jump_of_the_clock_brings_all_drops_that_are_due_by_then() {
    let (_server, mut driver, mut client) = begin();
    driver.ask("SET k hello");
    driver.arm("slow on GET drip 1 every 10ms");
    send(&mut client, "GET k");
    assert_eq!(client.read_bytes(1), b"$");
    driver.advance("35ms");
    assert_eq!(client.read_bytes(3), b"5\r\n");
    assert!(!client.has_reply());
    driver.advance("1h");
    assert_eq!(client.read_bytes(7), b"hello\r\n");
}

#[test]
fn the_rest_of_a_reply_comes_at_once_when_the_rule_goes() {
    let (_server, mut driver, mut client) = begin();
    let long = "x".repeat(1_000_000);
    driver.call(&["SET", "k", &long]);
    driver.arm("slow on GET drip 10 every 1h");
    client.send(&[request(&["GET", "k"]), request(&["PING"])].concat());
    assert_eq!(client.read_bytes(10), b"$1000000\r\n");
    driver.until_hanging("slow", 1);
    assert_eq!(driver.disarm("slow"), 1);
    assert!(client.has_reply());
    assert_eq!(client.read_bytes(1_000_000 + 2), format!("{long}\r\n").into_bytes());
    assert_eq!(client.expect(), Frame::status("PONG"));
}

#[test]
fn a_reply_that_is_one_drop_is_not_held_up() {
    let (_server, mut driver, mut client) = begin();
    driver.arm("slow on PING drip 7 every 1h");
    driver.arm("more on ECHO drip 18446744073709551615 every 1h");
    assert_eq!(client.ask("PING"), Frame::status("PONG"));
    assert_eq!(client.ask("ECHO hi"), Frame::bulk("hi"));
}

#[test]
fn whoever_gives_up_while_its_reply_drips_is_forgotten() {
    let (_server, mut driver, mut client) = begin();
    driver.arm("slow on PING drip 1 every 1h");
    send(&mut client, "PING");
    driver.until_hanging("slow", 1);
    drop(client);
    driver.until_hanging("slow", 0);
    driver.advance("10h");
}

// ---- connections, and everybody

#[test]
fn new_connections_are_refused_and_existing_ones_go_on() {
    let (server, mut driver, mut client) = begin();
    driver.arm("down nth 2 times 2 refuse");
    let mut lucky = Wire::connect(address(&server));
    assert_eq!(lucky.ask("PING"), Frame::status("PONG"));
    for _ in 0..2 {
        assert!(was_reset(&Wire::connect(address(&server))));
    }
    assert_eq!(Wire::connect(address(&server)).ask("PING"), Frame::status("PONG"));
    assert_eq!(client.ask("PING"), Frame::status("PONG"));
    assert_eq!(driver.counts("down"), [4, 2, 0]);
    assert!(driver.ask("INFO stats").text().contains("rejected_connections:2\r"));
}

#[test]
fn a_paused_server_runs_nothing_and_answers_nobody_but_whoever_drives_the_test() {
    for threads in [1, 4] {
        let server = start(Server::builder().threads(threads));
        server.freeze();
        let mut driver = Driver::connect(address(&server));
        let mut clients: Vec<Wire> = (0..8).map(|_| Wire::connect(address(&server))).collect();
        let mut waiter = Wire::connect(address(&server));
        send(&mut waiter, "BLPOP l 1");
        driver.wire().ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
        // A fault that matches first does not make a paused server run a command.
        driver.arm("first on SET error oops");
        driver.arm("stop pause");
        clients.iter_mut().for_each(|client| send(client, "INCR n"));
        send(&mut clients[0], "SET n 1");
        driver.until_hanging("stop", 8);
        // Neither a new connection nor a client whose time-out is over gets an answer.
        let mut late = Wire::connect(address(&server));
        send(&mut late, "PING");
        driver.advance("1s");
        driver.until_hanging("stop", 10);
        assert!(!waiter.has_reply() && !late.has_reply());
        assert_eq!(driver.disarm("stop"), 10);
        for client in &mut clients {
            assert!(client.has_reply());
        }
        assert_eq!(waiter.expect(), Frame::NullArray);
        assert_eq!(late.expect(), Frame::status("PONG"));
        assert_eq!(driver.ask("GET n"), Frame::bulk("8"));
    }
}

#[test]
fn a_delayed_command_does_not_run_in_a_pause_either() {
    let (_server, mut driver, mut client) = begin();
    driver.arm("slow on SET delay 10");
    send(&mut client, "SET k v");
    driver.until_hanging("slow", 1);
    driver.arm("stop pause");
    driver.advance("10");
    driver.until_hanging("stop", 1);
    driver.disarm("stop");
    assert_eq!(client.expect(), ok());
    assert_eq!(driver.counts("slow"), [1, 1, 0]);
}

// ---- the end of the server

#[test]
fn a_server_ends_at_once_whoever_waits_there() {
    for threads in [1, 4] {
        let server = start(Server::builder().threads(threads));
        server.freeze();
        let mut driver = Driver::connect(address(&server));
        driver.ask("SET k hello");
        driver.ask("REDOUBLE GATE ADD gate on EXISTS");
        for rule in ["hang on SET hang", "delay on INCR delay 1h", "drip on GET drip 1 every 1h"] {
            driver.arm(rule);
        }
        let mut clients: Vec<Wire> = (0..40).map(|_| Wire::connect(address(&server))).collect();
        for (client, line) in clients.iter_mut().zip(["SET k v", "INCR n", "GET k", "EXISTS k"].iter().cycle()) {
            send(client, line);
        }
        for name in ["hang", "delay", "drip"] {
            driver.until_hanging(name, 10);
        }
        driver.ask("REDOUBLE GATE WAIT gate 10");
        driver.arm("stop pause");
        let mut paused = Wire::connect(address(&server));
        send(&mut paused, "PING");
        driver.until_hanging("stop", 1);
        drop(server);
        for client in &mut clients {
            assert!(client.is_closed());
        }
    }
}
