//! Spaces: isolated data and powers behind one port, so that parallel tests need only one server.

use std::time::Duration;

use redouble::Server;

use crate::support::process::ServerProcess;
use crate::support::wire::{Frame, Wire};
use crate::support::{Dice, address, client, client_at, spawn, start};

fn wire(server: &Server) -> Wire {
    Wire::connect(address(server))
}

/// Returns a connection in a space.
fn inside(server: &Server, space: &str) -> Wire {
    let mut wire = wire(server);
    assert_eq!(wire.call(&["REDOUBLE", "SPACE", space]), ok());
    wire
}

fn ok() -> Frame {
    Frame::status("OK")
}

fn ask<T: redis::FromRedisValue>(connection: &mut redis::Connection, line: &str) -> T {
    let mut command = redis::Cmd::new();
    line.split_whitespace().for_each(|word| {
        command.arg(word);
    });
    command.query(connection).unwrap_or_else(|error| panic!("{line}: {error}"))
}

#[test]
fn two_workers_never_see_each_others_keys_not_even_when_one_deletes_everything() {
    let server = spawn();
    let (mut one, mut other, mut root) = (inside(&server, "one"), inside(&server, "other"), wire(&server));
    for (wire, value) in [(&mut one, "1"), (&mut other, "2"), (&mut root, "0")] {
        assert_eq!(wire.ask(&format!("SET k {value}")), ok());
        assert_eq!(wire.ask("SELECT 3"), ok());
        assert_eq!(wire.ask(&format!("SET k {value}{value}")), ok());
    }
    assert_eq!(one.ask("SWAPDB 0 3"), ok());
    assert_eq!(other.ask("FLUSHALL"), ok());
    assert_eq!(one.ask("GET k"), Frame::bulk("1"));
    assert_eq!(other.ask("GET k"), Frame::NullBulk);
    assert_eq!(root.ask("GET k"), Frame::bulk("00"));
}

#[test]
fn a_space_refuses_no_connections_and_says_so() {
    let server = spawn();
    let refused = inside(&server, "one").ask("REDOUBLE FAULT ADD down refuse").text();
    assert!(refused.contains("refuse is about new connections, which are in no space yet"), "{refused}");
}

#[test]
fn every_space_has_a_clock_of_its_own() {
    let server = spawn();
    let (mut one, mut other, mut root) = (inside(&server, "one"), inside(&server, "other"), wire(&server));
    for wire in [&mut one, &mut other, &mut root] {
        assert_eq!(wire.ask("SET lock token PX 60000"), ok());
    }
    assert_eq!(one.ask("REDOUBLE CLOCK ADVANCE 61s"), ok());
    assert_eq!(one.ask("EXISTS lock"), Frame::Integer(0));
    assert_eq!(other.ask("EXISTS lock"), Frame::Integer(1));
    assert_eq!(root.ask("EXISTS lock"), Frame::Integer(1));
    server.advance(Duration::from_secs(61));
    assert_eq!(root.ask("EXISTS lock"), Frame::Integer(0));
    assert_eq!(other.ask("EXISTS lock"), Frame::Integer(1), "its server's clock is not its own");
}

#[test]
fn who_waits_in_a_space_is_woken_by_that_spaces_clock() {
    let server = spawn();
    let space = server.space("one").expect("a space");
    space.freeze();
    let mut waiting = inside(&server, "one");
    waiting.send(b"BLPOP list 5\r\n");
    let mut looking = inside(&server, "one");
    looking.ask_until("CLIENT LIST", |clients| clients.contains(" flags=b "));
    server.advance(Duration::from_secs(6));
    assert!(!waiting.has_reply());
    space.advance(Duration::from_secs(6));
    assert_eq!(waiting.expect(), Frame::NullArray);
}

#[test]
fn a_clock_that_jumps_when_everybody_waits_does_not_wait_for_who_has_left_the_space() {
    let server = spawn();
    let (mut driver, mut waiting, mut idle) = (inside(&server, "one"), inside(&server, "one"), inside(&server, "one"));
    assert_eq!(idle.ask("PING"), Frame::status("PONG"));
    assert_eq!(driver.ask("REDOUBLE CLOCK AUTO"), ok());
    waiting.send(b"BLPOP list 3600\r\n");
    driver.ask_until("CLIENT LIST", |clients| clients.contains(" flags=b "));
    assert_eq!(driver.ask("REDOUBLE CLOCK NOW"), driver.ask("REDOUBLE CLOCK NOW"), "one of them could still act");
    assert!(!waiting.has_reply());
    assert_eq!(idle.ask("REDOUBLE SPACE two"), ok());
    assert_eq!(waiting.expect(), Frame::NullArray);
}

#[test]
fn scripts_messages_and_faults_stay_where_they_are() {
    let server = spawn();
    let (mut one, mut other) = (inside(&server, "one"), inside(&server, "other"));
    let sha = one.call(&["SCRIPT", "LOAD", "return 1"]).text();
    assert_eq!(other.ask(&format!("SCRIPT EXISTS {sha}")), Frame::Array(vec![Frame::Integer(0)]));

    let mut listener = inside(&server, "one");
    listener.ask("SUBSCRIBE news");
    assert_eq!(other.ask("PUBLISH news hello"), Frame::Integer(0));
    assert_eq!(one.ask("PUBLISH news hello"), Frame::Integer(1));
    assert_eq!(listener.expect().items()[2], Frame::bulk("hello"));

    assert_eq!(one.call(&["REDOUBLE", "FAULT", "ADD", "full", "on", "SET", "error", "OOM full"]), ok());
    assert_eq!(one.ask("SET k v"), Frame::error("OOM full"));
    assert_eq!(other.ask("SET k v"), ok());
    assert_eq!(wire(&server).ask("SET k v"), ok());
}

#[test]
fn settings_users_and_clients_stay_where_they_are() {
    let server = spawn();
    let (mut one, mut other) = (inside(&server, "one"), inside(&server, "other"));
    assert_eq!(one.ask("CONFIG SET maxmemory 1000000"), ok());
    assert_eq!(other.ask("CONFIG GET maxmemory").items()[1], Frame::bulk("0"));
    assert_eq!(one.ask("ACL SETUSER alice on nopass +@all ~*"), ok());
    assert!(other.ask("AUTH alice x").is_error());
    assert_eq!(one.ask("AUTH alice x"), ok());
    assert_eq!(
        one.call(&["REDOUBLE", "SPACE", ""]),
        Frame::error(
            "NOPERM this connection's user is one of the space; AUTH as a user of the server, with the password there, \
             leads back"
        )
    );
    assert_eq!(one.ask("CLIENT LIST").text().lines().count(), 1);
    let (id, other_id) = (one.ask("CLIENT ID").integer(), other.ask("CLIENT ID").integer());
    assert_ne!(id, other_id, "an id is one of a kind on the whole port");
    assert_eq!(other.ask(&format!("CLIENT KILL ID {id}")), Frame::Integer(0), "nobody outside can reach it");
    assert_eq!(one.ask("PING"), Frame::status("PONG"));
}

#[test]
fn a_connection_keeps_its_id_name_protocol_and_database_when_it_moves() {
    let server = spawn();
    let mut wire = wire(&server);
    wire.ask("HELLO 3");
    assert_eq!(wire.ask("CLIENT SETNAME alice"), ok());
    assert_eq!(wire.ask("SELECT 2"), ok());
    let id = wire.ask("CLIENT ID");
    assert_eq!(wire.ask("REDOUBLE SPACE one"), ok());
    assert_eq!(wire.ask("CLIENT ID"), id);
    assert_eq!(wire.ask("CLIENT GETNAME"), Frame::bulk("alice"));
    let info = wire.ask("CLIENT INFO").text();
    assert!(info.contains(" db=2 ") && info.contains(" resp=3 "), "{info}");
}

#[test]
fn a_connection_is_as_old_in_its_space_as_it_was_before() {
    let server = spawn();
    let mut wire = wire(&server);
    assert_eq!(wire.ask("PING"), Frame::status("PONG"));
    server.freeze();
    server.advance(Duration::from_secs(3600));
    let space = server.space("one").expect("a space");
    space.freeze();
    assert_eq!(wire.ask("REDOUBLE SPACE one"), ok());
    let info = wire.ask("CLIENT INFO").text();
    assert!(info.contains(" age=3600 ") || info.contains(" age=3601 "), "{info}");
}

#[test]
fn what_a_connection_watched_tracked_or_monitored_stays_behind() {
    let server = spawn();
    let (mut wire, mut root) = (wire(&server), wire(&server));
    wire.ask("HELLO 3");
    assert_eq!(wire.ask("CLIENT TRACKING ON BCAST"), ok());
    assert_eq!(wire.ask("WATCH k"), ok());
    assert_eq!(wire.ask("REDOUBLE SPACE one"), ok());
    assert_eq!(root.ask("SET k changed"), ok());
    assert_eq!(wire.ask("MULTI"), ok());
    wire.ask("PING");
    assert_eq!(wire.ask("EXEC"), Frame::Array(vec![Frame::status("PONG")]), "and no word of the change in front of it");
    assert_eq!(wire.ask("MONITOR"), ok());
    assert_eq!(wire.ask("REDOUBLE SPACE two"), ok());
    assert_eq!(inside(&server, "one").ask("PING"), Frame::status("PONG"));
    assert_eq!(wire.ask("ECHO quiet"), Frame::bulk("quiet"));
}

#[test]
fn requests_in_one_packet_run_each_where_it_belongs() {
    let server = spawn();
    let mut wire = wire(&server);
    let requests = "SET k root\r\nREDOUBLE SPACE one\r\nSET k one\r\nREDOUBLE SPACE two\r\nGET k\r\n\
                    REDOUBLE SPACE one\r\nGET k\r\nREDOUBLE SPACE \"\"\r\nGET k\r\n";
    wire.send(requests.as_bytes());
    let replies: Vec<Frame> = (0..9).map(|_| wire.expect()).collect();
    let bulk = Frame::bulk;
    assert_eq!(replies[4..], [Frame::NullBulk, ok(), bulk("one"), ok(), bulk("root")]);
}

#[test]
fn a_url_with_a_users_name_is_enough() {
    let server = spawn();
    let (one, other) = (server.space("one").expect("a space"), server.space("other").expect("a space"));
    let (mut in_one, mut in_other) = (client_at(&one.url()), client_at(&other.url()));
    ask::<()>(&mut in_one, "SET k 1");
    ask::<()>(&mut in_other, "SET k 2");
    assert_eq!(ask::<i64>(&mut in_one, "GET k"), 1);
    assert_eq!(ask::<i64>(&mut in_other, "GET k"), 2);
    assert_eq!(ask::<Option<i64>>(&mut client(&server), "GET k"), None);
    // The same with RESP3, where clients send HELLO.
    let mut modern = client_at(&format!("{}/?protocol=resp3", one.url()));
    assert_eq!(ask::<i64>(&mut modern, "GET k"), 1);
}

#[test]
fn a_password_guards_the_spaces_too() {
    let server = start(Server::builder().password("p@ss"));
    let space = server.space("w/1").expect("a space");
    ask::<()>(&mut client_at(&space.url()), "SET k 1");
    assert_eq!(ask::<i64>(&mut client_at(&space.url()), "DBSIZE"), 1);
    let mut wire = wire(&server);
    assert!(wire.ask("AUTH space.w/1 wrong").is_error());
    assert_eq!(wire.ask("REDOUBLE SPACE w/1"), Frame::error("NOAUTH Authentication required."));
}

#[test]
fn a_user_that_is_called_like_a_space_is_that_user() {
    let server = spawn();
    let mut wire = wire(&server);
    assert_eq!(wire.ask("ACL SETUSER space.one on >secret +@all ~*"), ok());
    assert!(wire.ask("AUTH space.one any").is_error());
    assert_eq!(wire.ask("AUTH space.one secret"), ok());
    assert_eq!(wire.ask("ACL WHOAMI"), Frame::bulk("space.one"));
    assert_eq!(wire.ask("REDOUBLE SPACE"), Frame::bulk(""));
}

#[test]
fn a_url_with_a_database_is_enough_where_that_is_asked_for() {
    let server = ServerProcess::redouble(&["--spaces-by-database", "yes", "--databases", "100"]);
    let at = |db: u32| client_at(&format!("{}/{db}", server.url()));
    let (mut zero, mut one, mut two) = (at(0), at(1), at(2));
    for (connection, value) in [(&mut zero, 0), (&mut one, 1), (&mut two, 2)] {
        ask::<()>(connection, &format!("SET k {value}"));
    }
    ask::<()>(&mut one, "REDOUBLE CLOCK FREEZE 1000");
    ask::<()>(&mut two, "FLUSHALL");
    assert_eq!(ask::<i64>(&mut zero, "GET k"), 0);
    assert_eq!(ask::<i64>(&mut one, "GET k"), 1);
    assert_eq!(ask::<Option<i64>>(&mut two, "GET k"), None);
    assert_eq!(ask::<(i64, i64)>(&mut one, "TIME"), (1, 0));
    assert!(ask::<(i64, i64)>(&mut two, "TIME").0 > 1);
    assert_eq!(ask::<String>(&mut one, "REDOUBLE SPACE"), "1");
    assert!(ask::<String>(&mut one, "CLIENT INFO").contains(" db=1 "));
    ask::<()>(&mut one, "SELECT 0");
    assert_eq!(ask::<i64>(&mut one, "GET k"), 0);
}

#[test]
fn a_dropped_space_is_gone_with_its_connections() {
    let server = spawn();
    let (mut one, mut other) = (inside(&server, "one"), inside(&server, "other"));
    assert_eq!(one.ask("SET k v"), ok());
    let mut waiting = inside(&server, "one");
    waiting.send(b"BLPOP list 0\r\n");
    assert_eq!(other.ask("REDOUBLE SPACES DROP one"), ok());
    assert!(one.is_closed() && waiting.is_closed());
    assert_eq!(inside(&server, "one").ask("GET k"), Frame::NullBulk);
    assert_eq!(other.ask("PING"), Frame::status("PONG"));
}

#[test]
#[should_panic(expected = "the space 'one' was dropped")]
fn the_handle_of_a_dropped_space_says_so() {
    let server = spawn();
    let space = server.space("one").expect("a space");
    server.drop_space("one").expect("it is there");
    // A new space of the same name does not revive the handle.
    let _other = server.space("one").expect("a space");
    space.freeze();
}

#[test]
#[should_panic(expected = "the server of the space 'one' has ended")]
fn the_handle_of_a_space_says_so_when_the_server_has_ended() {
    let server = spawn();
    let space = server.space("one").expect("a space");
    drop(server);
    space.freeze();
}

#[test]
fn a_database_leads_to_a_space_from_rust_too() {
    let server = start(Server::builder().spaces_by_database());
    let mut three = client_at(&format!("{}/3", server.url()));
    ask::<()>(&mut three, "SET k v");
    ask::<()>(&mut client(&server), "FLUSHALL");
    assert_eq!(ask::<i64>(&mut three, "DBSIZE"), 1);
    server.space("3").expect("a space").freeze();
    assert_eq!(ask::<(i64, i64)>(&mut three, "TIME"), ask::<(i64, i64)>(&mut three, "TIME"));
    // Clients in a space of another name stay in it.
    let mut one = inside(&server, "one");
    assert_eq!(one.ask("SELECT 3"), ok());
    assert_eq!(one.ask("DBSIZE"), Frame::Integer(0));
    assert_eq!(one.ask("REDOUBLE SPACE"), Frame::bulk("one"));
}

#[test]
fn a_space_needs_a_name_and_one_that_is_not_there_cannot_be_dropped() {
    let server = spawn();
    let error = server.space("").err().expect("no name").to_string();
    assert_eq!(error, "the name of a space has 1 to 128 bytes, not 0");
    assert!(server.space(&"x".repeat(129)).is_err());
    assert_eq!(server.drop_space("none").expect_err("none").to_string(), "no such space");
}

#[test]
fn clients_are_counted_over_all_spaces() {
    let server = spawn();
    let mut root = wire(&server);
    assert_eq!(root.ask("CONFIG SET maxclients 3"), ok());
    let (mut one, mut other) = (inside(&server, "one"), inside(&server, "other"));
    assert_eq!(wire(&server).expect(), Frame::error("ERR max number of clients reached"));
    assert_eq!(other.ask("CLIENT LIST").text().lines().count(), 1);
    assert_eq!(one.ask("QUIT"), ok());
    assert!(one.is_closed());
    assert_eq!(wire(&server).ask("PING"), Frame::status("PONG"), "its place is free");
}

#[test]
fn shutting_down_in_a_space_ends_the_server() {
    let server = spawn();
    let (mut one, mut root) = (inside(&server, "one"), wire(&server));
    one.send(b"SHUTDOWN NOSAVE\r\n");
    assert!(one.is_closed() && root.is_closed());
}

#[test]
fn without_the_test_powers_there_are_no_spaces() {
    let server = ServerProcess::redouble(&["--no-control", "--spaces-by-database", "yes"]);
    let mut one = client_at(&format!("{}/1", server.url()));
    ask::<()>(&mut one, "SET k v");
    let mut wire = Wire::connect(server.address());
    assert!(wire.ask("REDOUBLE SPACE one").text().starts_with("ERR unknown command"));
    assert!(wire.ask("AUTH space.one any").is_error());
    assert_eq!(wire.ask("FLUSHALL"), ok());
    assert_eq!(ask::<i64>(&mut one, "EXISTS k"), 0, "databases are those of one server");
}

#[test]
fn a_thousand_spaces_cost_little() {
    const SPACES: usize = 1000;
    let server = ServerProcess::redouble(&[]);
    let mut wire = Wire::connect(server.address());
    for index in 0..10 {
        wire.ask(&format!("REDOUBLE SPACE warm-{index}"));
        wire.ask("SET k 1 EX 100");
    }
    let before = server.resident();
    for index in 0..SPACES {
        assert_eq!(wire.ask(&format!("REDOUBLE SPACE worker-{index}")), ok());
        assert_eq!(wire.ask(&format!("SET k {index} EX 100")), ok());
    }
    let each = (server.resident() - before) / SPACES;
    assert!(each < 40 * 1024, "{each} bytes for each space");
    let mut dice = Dice::new(7);
    for _ in 0..100 {
        let index = dice.below(SPACES);
        wire.ask(&format!("REDOUBLE SPACE worker-{index}"));
        assert_eq!(wire.ask("GET k"), Frame::bulk(&index.to_string()));
    }
    assert_eq!(wire.ask("REDOUBLE SPACES").items().len(), SPACES + 10);
}

#[test]
fn there_is_an_end_to_how_many_spaces_there_can_be() {
    let server = spawn();
    let mut wire = wire(&server);
    // In portions: a busy machine takes its time for all of them.
    for first in (0..10_000).step_by(500) {
        let requests: String = (first..first + 500).map(|index| format!("REDOUBLE SPACE {index}\r\n")).collect();
        wire.send(requests.as_bytes());
        for _ in 0..500 {
            assert_eq!(wire.expect(), ok());
        }
    }
    let full = Frame::error("ERR there are 10000 spaces already; REDOUBLE SPACES DROP makes room");
    assert_eq!(wire.ask("REDOUBLE SPACE 10000"), full);
    assert_eq!(wire.ask("REDOUBLE SPACE"), Frame::bulk("9999"), "it is where it was");
    assert_eq!(wire.ask("AUTH space.more any"), full);
    assert_eq!(wire.ask("REDOUBLE SPACES DROP 1"), ok());
    assert_eq!(wire.ask("REDOUBLE SPACE more"), ok());
}
