//! Servers inside this process: they share nothing, end when they are dropped, and have their own clocks.

use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redouble::Server;

use crate::support::wire::{Frame, Wire, request};
use crate::support::{address, client, client_at, spawn, spawn_frozen, start, wait_until};

fn wire(server: &Server) -> Wire {
    Wire::connect(address(server))
}

fn ok() -> Frame {
    Frame::status("OK")
}

#[test]
fn servers_in_one_process_share_neither_data_nor_clocks_nor_clients() {
    let servers: Vec<Server> = (0..20).map(|_| spawn()).collect();
    let mut wires: Vec<Wire> = servers.iter().map(wire).collect();
    for (index, wire) in wires.iter_mut().enumerate() {
        assert_eq!(wire.ask(&format!("SET k {index}")), ok());
        assert_eq!(wire.ask(&format!("CLIENT SETNAME client-{index}")), ok());
    }
    servers[3].freeze();
    servers[3].set_time(UNIX_EPOCH + Duration::from_secs(1_000_000_000));
    assert_eq!(wires[5].ask("FLUSHALL"), ok());
    for (index, wire) in wires.iter_mut().enumerate() {
        let expected = if index == 5 { Frame::NullBulk } else { Frame::bulk(&index.to_string()) };
        assert_eq!(wire.ask("GET k"), expected);
        let clients = wire.ask("CLIENT LIST").text();
        assert_eq!(clients.lines().count(), 1, "{clients}");
        let seconds: i64 = wire.ask("TIME").items()[0].text().parse().expect("seconds");
        assert_eq!(seconds == 1_000_000_000, index == 3, "{seconds}");
    }
}

#[test]
fn a_dropped_server_closes_its_connections_and_frees_its_port() {
    let server = spawn();
    let address = address(&server);
    let mut wire = Wire::connect(address);
    assert_eq!(wire.ask("PING"), Frame::status("PONG"));
    drop(server);
    assert!(wire.is_closed());
    drop(wire);
    TcpListener::bind(address).expect("the port is free again");
}

#[test]
fn a_server_can_be_started_again_on_the_port_of_one_that_was_dropped_and_knows_nothing_of_it() {
    let server = spawn();
    let port = address(&server).port();
    assert_eq!(wire(&server).ask("SET k v"), ok());
    drop(server);
    let server = Server::builder().port(port).spawn().expect("the port is free again");
    assert_eq!(address(&server).port(), port);
    assert_eq!(wire(&server).ask("GET k"), Frame::NullBulk);
}

#[test]
fn a_port_that_is_taken_is_refused_with_its_address() {
    let server = spawn();
    let port = address(&server).port();
    let error = Server::builder().port(port).spawn().err().expect("the port is taken");
    assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
}

#[test]
fn the_url_is_one_that_clients_can_connect_to_password_and_all() {
    let server = start(Server::builder().password("p@ss/w:rd %"));
    let mut connection = client(&server);
    redis::cmd("PING").exec(&mut connection).expect("the password is in the URL");
    assert_eq!(wire(&server).ask("PING"), Frame::error("NOAUTH Authentication required."));
}

#[test]
fn a_frozen_clock_stands_still() {
    let server = spawn_frozen();
    let mut wire = wire(&server);
    let before = (server.now(), wire.ask("TIME"));
    wire.ask("SET k v PX 1");
    for _ in 0..1000 {
        assert_eq!(wire.ask("PTTL k"), Frame::Integer(1));
    }
    assert_eq!((server.now(), wire.ask("TIME")), before);
}

#[test]
fn a_resumed_clock_runs_on_from_where_it_stood() {
    let server = spawn_frozen();
    let then = UNIX_EPOCH + Duration::from_secs(2_000_000_000);
    server.set_time(then);
    assert_eq!(server.now(), then);
    server.resume();
    let first = server.now();
    assert!(first >= then && first < then + Duration::from_secs(60), "{first:?}");
    // The clock runs: this ends as soon as a microsecond has passed.
    wait_until("the clock to move", || server.now() != first);
}

#[test]
fn time_can_be_moved_backwards_and_gives_keys_a_longer_life() {
    let server = spawn_frozen();
    let mut wire = wire(&server);
    wire.ask("SET k v PX 1000");
    server.set_time(server.now() - Duration::from_secs(1));
    assert_eq!(wire.ask("PTTL k"), Frame::Integer(2000));
    server.advance(Duration::from_millis(2000));
    assert_eq!(wire.ask("GET k"), Frame::bulk("v"));
    server.advance(Duration::from_millis(1));
    assert_eq!(wire.ask("GET k"), Frame::NullBulk);
}

#[test]
fn time_can_be_set_to_any_date_and_absolute_expiries_follow() {
    let server = spawn_frozen();
    let mut wire = wire(&server);
    wire.ask("SET k v EXAT 4102444800");
    server.set_time(UNIX_EPOCH + Duration::from_secs(4_102_444_800));
    assert_eq!(wire.ask("PTTL k"), Frame::Integer(0));
    assert_eq!(wire.ask("GET k"), Frame::bulk("v"));
    server.set_time(UNIX_EPOCH + Duration::from_millis(4_102_444_800_001));
    assert_eq!(wire.ask("GET k"), Frame::NullBulk);
    let now = server.now().duration_since(SystemTime::UNIX_EPOCH).expect("a time after 1970");
    let time = wire.ask("TIME");
    assert_eq!(time.items()[0].text(), now.as_secs().to_string());
    assert_eq!(time.items()[1].text(), now.subsec_micros().to_string());
}

#[test]
fn a_key_is_readable_in_its_last_millisecond_and_gone_in_the_next() {
    let server = spawn_frozen();
    let mut wire = wire(&server);
    let lives: [(&str, u64); 6] = [
        ("SET k v PX 1500", 1500),
        ("SET k v EX 2", 2000),
        ("PSETEX k 10 v", 10),
        ("SETEX k 1 v", 1000),
        ("SET k v PX 1", 1),
        ("SET k v EX 86400", 86_400_000),
    ];
    for (command, life) in lives {
        assert_eq!(wire.ask(command), ok());
        assert_eq!(wire.ask("PTTL k"), Frame::Integer(life as i64));
        server.advance(Duration::from_millis(life));
        assert_eq!(wire.ask("PTTL k"), Frame::Integer(0), "{command}");
        assert_eq!(wire.ask("GET k"), Frame::bulk("v"), "{command}");
        assert_eq!(wire.ask("EXISTS k"), Frame::Integer(1), "{command}");
        server.advance(Duration::from_millis(1));
        assert_eq!(wire.ask("EXISTS k"), Frame::Integer(0), "{command}");
        assert_eq!(wire.ask("PTTL k"), Frame::Integer(-2), "{command}");
    }
}

#[test]
fn less_than_a_millisecond_ends_no_key() {
    let server = spawn_frozen();
    // The clock starts at a whole millisecond, so that the steps below are its only microseconds.
    server.set_time(UNIX_EPOCH + Duration::from_secs(1_800_000_000));
    let mut wire = wire(&server);
    wire.ask("SET k v PX 5");
    server.advance(Duration::from_micros(5_999));
    assert_eq!(wire.ask("GET k"), Frame::bulk("v"));
    server.advance(Duration::from_micros(1));
    assert_eq!(wire.ask("GET k"), Frame::NullBulk);
}

#[test]
fn an_expiry_at_the_present_millisecond_is_already_past() {
    let server = spawn_frozen();
    server.set_time(UNIX_EPOCH + Duration::from_millis(1_800_000_000_000));
    let mut wire = wire(&server);
    for (command, left) in [
        ("PEXPIREAT k 1800000000000", -2),
        ("PEXPIREAT k 1800000000001", 1),
        ("EXPIREAT k 1800000000", -2),
        ("EXPIREAT k 1800000001", 1000),
        ("PEXPIRE k 0", -2),
        ("PEXPIRE k 1", 1),
    ] {
        wire.ask("SET k v");
        assert_eq!(wire.ask(command), Frame::Integer(1), "{command}");
        assert_eq!(wire.ask("PTTL k"), Frame::Integer(left), "{command}");
    }
}

#[test]
fn when_the_clock_has_been_moved_every_key_that_is_due_is_gone_and_no_other() {
    let server = start(Server::builder().threads(2));
    server.freeze();
    let mut wire = wire(&server);
    for index in 1..=1000 {
        wire.ask(&format!("SET k{index} v PX {index}"));
    }
    assert_eq!(wire.ask("DBSIZE"), Frame::Integer(1000));
    server.advance(Duration::from_millis(501));
    // DBSIZE alone counts the expired keys out; no command has accessed them.
    assert_eq!(wire.ask("DBSIZE"), Frame::Integer(500));
    let info = wire.ask("INFO stats").text();
    assert!(info.contains("expired_keys:500\r\n"), "{info}");
    assert_eq!(wire.ask("EXISTS k500 k501"), Frame::Integer(1));
    server.advance(Duration::from_secs(1));
    assert_eq!(wire.ask("DBSIZE"), Frame::Integer(0));
}

#[test]
fn one_command_and_one_transaction_see_one_instant() {
    let server = spawn();
    let mut wire = wire(&server);
    wire.ask("MULTI");
    for _ in 0..50 {
        wire.ask("TIME");
    }
    let times = wire.ask("EXEC");
    assert_eq!(times.items().len(), 50);
    assert!(times.items().iter().all(|time| time == &times.items()[0]), "{times:?}");
}

#[test]
fn when_the_clock_has_been_moved_whoever_waited_for_it_has_the_reply() {
    let server = start(Server::builder().threads(2));
    server.freeze();
    let mut other = wire(&server);
    for command in [["WAIT", "1", "5000"], ["SET", "k", "v"]] {
        for _ in 0..50 {
            let mut waiting = wire(&server);
            let id = waiting.ask("CLIENT ID").integer();
            if command[0] == "SET" {
                assert_eq!(other.ask("CLIENT PAUSE 5000 WRITE"), ok());
            }
            waiting.send(&request(&command));
            other.ask_until(&format!("CLIENT LIST ID {id}"), |client| client.contains(" flags=b "));
            server.advance(Duration::from_millis(4999));
            assert!(!waiting.has_reply(), "{command:?} is answered before its time");
            server.advance(Duration::from_millis(1));
            assert!(waiting.has_reply(), "the clock has been moved and {command:?} is not answered");
        }
    }
}

#[test]
fn databases_are_apart_and_as_many_as_asked_for() {
    let server = start(Server::builder().databases(3));
    let mut wire = wire(&server);
    for db in 0..3 {
        assert_eq!(wire.ask(&format!("SELECT {db}")), ok());
        assert_eq!(wire.ask("DBSIZE"), Frame::Integer(0));
        for key in 0..=db {
            wire.ask(&format!("SET {key} {db}"));
        }
    }
    assert_eq!(wire.ask("SELECT 3"), Frame::error("ERR DB index is out of range"));
    for db in 0..3 {
        wire.ask(&format!("SELECT {db}"));
        assert_eq!(wire.ask("DBSIZE"), Frame::Integer(db + 1));
        assert_eq!(wire.ask("GET 0"), Frame::bulk(&db.to_string()));
    }
    wire.ask("SWAPDB 0 2");
    assert_eq!(wire.ask("GET 0"), Frame::bulk("0"));
    wire.ask("FLUSHDB");
    wire.ask("SELECT 1");
    assert_eq!(wire.ask("DBSIZE"), Frame::Integer(2));
}

/// Returns a socket path that no other test uses.
fn socket_path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("redouble-{}-{name}.sock", std::process::id()))
}

#[test]
fn a_server_listens_on_a_unix_socket_and_on_tcp_at_once() {
    let path = socket_path("both");
    let server = Server::builder().port(0).unix_socket(&path).spawn().expect("a server");
    let mut unix = Wire::connect_unix(&path);
    let mut tcp = wire(&server);
    assert_eq!(unix.ask("SET k v"), ok());
    assert_eq!(tcp.ask("GET k"), Frame::bulk("v"));
    drop(server);
    assert!(unix.is_closed());
    assert!(!path.exists(), "the socket's file is left behind");
}

#[test]
fn a_server_without_tcp_has_a_url_for_its_unix_socket() {
    let path = socket_path("only");
    let server = Server::builder().unix_socket_only(&path).spawn().expect("a server");
    assert_eq!(server.address(), None);
    let mut wire = Wire::connect_unix(&path);
    assert_eq!(wire.ask("PING"), Frame::status("PONG"));
    assert_eq!(server.url(), format!("unix:{}", path.display()));
    drop(server);
    assert!(!path.exists(), "the socket's file is left behind");
}

#[test]
fn a_socket_path_that_cannot_be_written_is_refused_with_the_path() {
    let path = PathBuf::from("/nonexistent/redouble.sock");
    let error = Server::builder().unix_socket_only(&path).spawn().err().expect("no such directory");
    assert!(error.to_string().contains("/nonexistent/redouble.sock"), "{error}");
}

#[test]
fn a_profile_is_what_clients_see_and_what_they_get() {
    for (name, version, has, lacks) in [
        ("redis-6.2", "6.2.", "GETEX k", "LCS a b"),
        ("redis-7.0", "7.0.15", "LCS a b", "WAITAOF 0 0 0"),
        ("redis-7.2", "7.2.", "WAITAOF 0 0 0", "DIGEST k"),
        ("redis-8.4", "8.4.", "DIGEST k", "DELIFEQ k v"),
        ("valkey-8.1", "7.2.4", "SET k v IFEQ w", "DELIFEQ k v"),
        ("valkey-9.1", "7.2.4", "DELIFEQ k v", "DIGEST k"),
    ] {
        let server = start(Server::builder().compat(crate::support::profile(name)));
        let mut wire = wire(&server);
        let info = wire.ask("INFO server").text();
        assert!(info.contains(&format!("redis_version:{version}")), "{name}: {info}");
        assert!(!wire.ask(has).is_error(), "{name} has {has}");
        let refused = wire.ask(lacks);
        assert!(
            refused.is_error() && refused.text().starts_with("ERR unknown command"),
            "{name}, {lacks}: {refused:?}"
        );
    }
    assert!("redis-5.0".parse::<redouble::Profile>().is_err());
}

#[test]
fn the_redis_crate_connects_over_both_protocols() {
    let server = spawn();
    for url in [server.url(), format!("{}/3?protocol=resp3", server.url())] {
        let mut connection = client_at(&url);
        let answer: Option<i64> = redis::cmd("GET").arg("missing").query(&mut connection).expect("an answer");
        assert_eq!(answer, None);
        redis::cmd("SET").arg("k").arg(5).exec(&mut connection).expect("an answer");
        assert_eq!(redis::cmd("INCR").arg("k").query::<i64>(&mut connection).expect("an answer"), 6);
        let both: (i64, Option<String>) =
            redis::pipe().atomic().incr("k", 1).get("none").query(&mut connection).expect("an answer");
        assert_eq!(both, (7, None));
    }
}

#[test]
fn moving_the_clock_does_not_wait_for_a_client_that_does_not_read() {
    let server = spawn_frozen();
    let mut lazy = wire(&server);
    let mut other = wire(&server);
    assert_eq!(other.ask("SETRANGE big 1000000 x"), Frame::Integer(1_000_001));
    // The replies exceed the socket buffer; then the client blocks; then its connection ends.
    lazy.send(&request(&["GET", "big"]).repeat(30));
    lazy.send(&request(&["WAIT", "1", "1000"]));
    lazy.send(&request(&["QUIT"]));
    other.ask_until("CLIENT LIST", |clients| clients.contains("cmd=wait"));
    server.advance(Duration::from_secs(2));
    assert_eq!(other.ask("PING"), Frame::status("PONG"));
}

#[test]
fn a_connection_that_is_busy_with_a_transaction_is_not_idle_and_one_that_is_silent_is() {
    let server = spawn_frozen();
    let (mut busy, mut silent) = (wire(&server), wire(&server));
    assert_eq!(busy.ask("CONFIG SET timeout 10"), ok());
    assert_eq!(silent.ask("PING"), Frame::status("PONG"));
    assert_eq!(busy.ask("MULTI"), ok());
    for _ in 0..4 {
        server.advance(Duration::from_secs(9));
        assert_eq!(busy.ask("INCR k"), Frame::status("QUEUED"));
    }
    assert!(silent.is_closed());
    assert_eq!(busy.ask("EXEC").items().len(), 4);
}

#[test]
fn the_clock_can_be_moved_to_the_end_of_time_and_lives_on() {
    let server = spawn();
    let mut client = wire(&server);
    server.advance(Duration::MAX);
    assert_eq!(client.ask("SET k v PX 100"), ok());
    assert_eq!(client.ask("GET k"), Frame::bulk("v"));
    server.set_time(UNIX_EPOCH - Duration::from_secs(1));
    assert_eq!(client.ask("TIME").items()[0].text(), "0");
}

#[test]
fn a_server_that_persists_has_its_data_again_and_any_other_has_nothing() {
    let folder = std::env::temp_dir().join(format!("redouble-builder-persist-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let kept = || start(Server::builder().persist(folder.join("kept.rdb")));
    let server = kept();
    assert_eq!(wire(&server).ask("SET k v"), ok());
    drop(server);
    let server = kept();
    assert_eq!(wire(&server).ask("GET k"), Frame::bulk("v"));
    assert_eq!(wire(&server).ask("SET k 2"), ok());
    assert_eq!(wire(&server).ask("SAVE"), ok());
    assert_eq!(wire(&spawn()).ask("GET k"), Frame::NullBulk);
    drop(server);
    assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 1, "one file is kept");
    std::fs::remove_dir_all(&folder).expect("a folder to remove");
}
