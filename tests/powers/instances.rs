//! Several instances in one process, for tests of algorithms over servers that fail independently.

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use redouble::{Error, Server, Servers};

use crate::support::process::{ServerProcess, free_port};
use crate::support::wire::{Frame, Wire};
use crate::support::{address, wait_for, wait_until};

fn ok() -> Frame {
    Frame::status("OK")
}

fn bench(instances: usize) -> Servers {
    Server::builder().instances(instances).spawn_all().expect("the servers start")
}

fn wire(server: &Server) -> Wire {
    Wire::connect(address(server))
}

fn named(server: &Server, name: &str) -> Wire {
    let mut wire = wire(server);
    assert_eq!(wire.ask(&format!("CLIENT SETNAME {name}")), ok());
    wire
}

fn is_refused(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// Returns an entry of `REDOUBLE INSTANCE LIST`.
fn state(wire: &mut Wire, number: usize) -> (String, i64, i64) {
    let list = wire.ask("REDOUBLE INSTANCE LIST");
    let row = list.items()[number - 1].items();
    (row[5].text(), row[7].integer(), row[9].integer())
}

#[test]
fn instances_share_neither_keys_nor_clocks_nor_scripts() {
    let servers = bench(5);
    let mut wires: Vec<Wire> = servers.iter().map(wire).collect();
    for (index, wire) in wires.iter_mut().enumerate() {
        assert_eq!(wire.ask(&format!("SET k {index}")), ok());
    }
    let sha = wires[0].call(&["SCRIPT", "LOAD", "return 1"]).text();
    servers[1].freeze();
    servers[1].set_time(std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000));
    assert_eq!(wires[2].ask("FLUSHALL"), ok());
    for (index, wire) in wires.iter_mut().enumerate() {
        let expected = if index == 2 { Frame::NullBulk } else { Frame::bulk(&index.to_string()) };
        assert_eq!(wire.ask("GET k"), expected);
        assert_eq!(wire.ask(&format!("EVALSHA {sha} 0")).is_error(), index != 0);
        let seconds: i64 = wire.ask("TIME").items()[0].text().parse().expect("seconds");
        assert_eq!(seconds == 1_000_000_000, index == 1, "{seconds}");
    }
}

#[test]
fn a_stopped_instance_refuses_and_comes_back_with_all_it_held() {
    let servers = bench(2);
    let (mut first, mut second) = (wire(&servers[0]), wire(&servers[1]));
    assert_eq!(second.ask("SET lock token"), ok());
    let mut waiting = wire(&servers[1]);
    waiting.send(b"BLPOP list 0\r\n");
    assert_eq!(first.ask("REDOUBLE INSTANCE STOP 2"), ok());
    assert!(is_refused(address(&servers[1])));
    assert!(second.is_closed() && waiting.is_closed());
    assert_eq!(state(&mut first, 2), ("stopped".to_owned(), 0, 0));
    assert_eq!(first.ask("REDOUBLE INSTANCE STOP 2"), Frame::error("ERR instance 2 is stopped already"));
    assert_eq!(first.ask("REDOUBLE INSTANCE PAUSE 2"), Frame::error("ERR instance 2 is stopped"));

    assert_eq!(first.ask("REDOUBLE INSTANCE START 2"), ok());
    assert_eq!(wire(&servers[1]).ask("GET lock"), Frame::bulk("token"));
    assert_eq!(state(&mut first, 2).0, "running");
}

#[test]
fn an_instance_that_starts_empty_has_lost_its_memory_but_not_its_clock() {
    let servers = bench(2);
    let mut second = wire(&servers[1]);
    assert_eq!(second.ask("SET lock token"), ok());
    assert_eq!(second.ask("SELECT 3"), ok());
    assert_eq!(second.ask("SET lock token"), ok());
    let sha = second.call(&["SCRIPT", "LOAD", "return 1"]).text();
    assert_eq!(second.ask("REDOUBLE SPACE one"), ok());
    assert_eq!(second.ask("SET lock token"), ok());
    servers[1].freeze();
    let time = servers[1].now();
    servers[1].stop().expect("it runs");
    servers[1].start_empty().expect("it is stopped");
    let mut second = wire(&servers[1]);
    assert_eq!(second.ask("INFO keyspace").text().trim(), "# Keyspace");
    assert_eq!(second.ask(&format!("SCRIPT EXISTS {sha}")), Frame::Array(vec![Frame::Integer(0)]));
    assert_eq!(second.ask("REDOUBLE SPACES"), Frame::Array(vec![]));
    assert_eq!(servers[1].now(), time);
}

/// The lock auditor needs to know whether a restart has kept the locks.
#[test]
fn the_journal_says_when_an_instance_serves_again_and_whether_it_has_lost_its_memory() {
    let server = Server::builder().port(0).enable_paths_outside_dir().spawn().expect("the server starts");
    let mut first = wire(&server);
    assert_eq!(first.ask("REDOUBLE JOURNAL ON"), ok());
    assert_eq!(first.ask("SET lock token"), ok());
    server.stop().expect("it runs");
    server.start().expect("it is stopped");
    let mut second = wire(&server);
    assert_eq!(second.ask("GET lock"), Frame::bulk("token"));
    server.stop().expect("it runs");
    server.start_empty().expect("it is stopped");
    assert_eq!(wire(&server).ask("GET lock"), Frame::NullBulk);
    let path = std::env::temp_dir().join(format!("redouble-started-{}.jsonl", std::process::id()));
    let exported = wire(&server).call(&["REDOUBLE", "JOURNAL", "EXPORT", path.to_str().expect("text")]);
    assert!(!exported.is_error(), "{exported:?}");
    let lines = fs::read_to_string(&path).expect("it is there");
    fs::remove_file(path).expect("it is there");
    let told = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    // The server notices a closed connection at any later time, so the test ignores these lines.
    let told = told.filter(|line| line["event"] != "closed").map(|line| match line["event"].as_str() {
        Some(event) => format!("{event} {}", line["detail"].as_str().unwrap_or_default()),
        None => line["command"][0].as_str().unwrap_or_default().to_owned(),
    });
    assert_eq!(told.collect::<Vec<_>>(), ["SET", "started kept", "GET", "started empty", "GET"]);
}

#[test]
fn nobody_else_gets_the_port_of_a_stopped_instance() {
    let servers = bench(2);
    let address = address(&servers[1]);
    for _ in 0..20 {
        servers[1].stop().expect("it runs");
        assert!(TcpListener::bind(address).is_err(), "the port is kept");
        assert!(is_refused(address));
        servers[1].start().expect("it is stopped");
        assert_eq!(wire(&servers[1]).ask("PING"), Frame::status("PONG"));
    }
    drop(servers);
    TcpListener::bind(address).expect("the port is free again");
}

#[test]
fn who_stops_its_own_instance_hears_that_it_has() {
    let servers = bench(2);
    let (mut own, mut other) = (wire(&servers[1]), wire(&servers[1]));
    assert_eq!(own.ask("REDOUBLE INSTANCE STOP 2"), ok());
    assert!(own.is_closed() && other.is_closed());
    assert!(is_refused(address(&servers[1])));
}

#[test]
fn a_paused_instance_accepts_and_answers_nothing_until_it_goes_on() {
    let servers = bench(2);
    let (mut first, mut second) = (wire(&servers[0]), wire(&servers[1]));
    assert_eq!(first.ask("REDOUBLE INSTANCE PAUSE 2"), ok());
    assert_eq!(first.ask("REDOUBLE INSTANCE PAUSE 2"), ok(), "and that it is, already");
    second.send(b"SET k 1\r\n");
    let (mut new, mut inside) = (wire(&servers[1]), wire(&servers[1]));
    new.send(b"INCR n\r\n");
    assert_eq!(inside.ask("REDOUBLE SPACE one"), ok());
    inside.send(b"INCR n\r\n");
    let mut driver = wire(&servers[1]);
    assert_eq!(state(&mut driver, 2).0, "paused", "its test powers answer all the same");
    let hanging = |list: &Frame| list.items().first().map(|rule| rule.items()[9].integer());
    // The server reads the commands first and then counts them as hanging, so the test polls.
    wait_until("two commands that hang", || hanging(&driver.ask("REDOUBLE FAULT LIST")) == Some(2));
    assert!(!second.has_reply() && !new.has_reply() && !inside.has_reply());
    assert_eq!(first.ask("SET k 1"), ok(), "the others go on");
    assert_eq!(first.ask("REDOUBLE INSTANCE RESUME 2"), ok());
    assert_eq!(second.expect(), ok());
    assert_eq!(new.expect(), Frame::Integer(1));
    assert_eq!(inside.expect(), Frame::Integer(1));
}

#[test]
fn a_skewed_clock_loses_a_lock_early() {
    let servers = bench(3);
    servers.iter().for_each(|server| server.freeze());
    let mut wires: Vec<Wire> = servers.iter().map(wire).collect();
    // The clocks were not frozen at the same instant.
    for number in 2..=3 {
        assert_eq!(wires[0].ask(&format!("REDOUBLE INSTANCE SKEW {number} 0")), ok());
    }
    for wire in &mut wires {
        assert_eq!(wire.ask("SET lock token PX 10000"), ok());
    }
    let mut listener = wire(&servers[1]);
    listener.send(b"BLPOP list 5\r\n");
    wires[1].ask_until("CLIENT LIST", |clients| clients.contains(" flags=b "));
    assert_eq!(wires[0].ask("REDOUBLE INSTANCE SKEW 2 10001ms"), ok());
    assert!(listener.has_reply(), "the reply comes after all consequences");
    assert_eq!(listener.expect(), Frame::NullArray);
    assert_eq!(state(&mut wires[0], 2).1, 10_001);
    let held: Vec<Frame> = wires.iter_mut().map(|wire| wire.ask("EXISTS lock")).collect();
    assert_eq!(held, [1, 0, 1].map(Frame::Integer));
    assert_eq!(wires[0].ask("REDOUBLE INSTANCE SKEW 3 -1.5s"), ok());
    assert_eq!(state(&mut wires[0], 3).1, -1500);
    servers.set_behind(2, Duration::from_secs(7)).expect("there are three");
    assert_eq!(state(&mut wires[0], 3).1, -7000);
    let error = servers.set_ahead(3, Duration::ZERO).expect_err("there are three");
    assert_eq!(error.to_string(), "there is no server 3; there are 3");
}

#[test]
fn a_client_that_is_cut_off_gets_no_answer_and_changes_nothing_until_that_is_healed() {
    let servers = bench(2);
    let (mut alice, mut bob, mut driver) =
        (named(&servers[1], "alice-1"), named(&servers[1], "bob"), wire(&servers[0]));
    assert_eq!(driver.ask("REDOUBLE INSTANCE CUT 2 alice-*"), ok());
    alice.send(b"SET k alice\r\n");
    // A client that takes a matching name later is cut off, too.
    let mut later = named(&servers[1], "alice-2");
    later.send(b"SET k2 alice\r\n");
    assert_eq!(bob.ask("SET k bob NX"), ok());
    assert!(!alice.has_reply() && !later.has_reply());
    assert_eq!(named(&servers[0], "alice-1").ask("SET k alice"), ok(), "elsewhere she is heard");
    assert_eq!(
        driver.ask("REDOUBLE INSTANCE HEAL 2 carol"),
        Frame::error("ERR instance 2 is not cut off from 'carol'")
    );
    assert_eq!(bob.ask("GET k"), Frame::bulk("bob"));
    assert_eq!(driver.ask("REDOUBLE INSTANCE HEAL 2 alice-*"), ok());
    assert!(alice.has_reply() && later.has_reply(), "the reply comes after all consequences");
    assert_eq!(alice.expect(), ok());
    assert_eq!(later.expect(), ok());
    assert_eq!(bob.ask("GET k"), Frame::bulk("alice"));
}

#[test]
fn there_is_an_end_to_how_many_cuts_there_can_be() {
    let server = crate::support::spawn();
    let mut wire = wire(&server);
    for name in 0..64 {
        assert_eq!(wire.ask(&format!("REDOUBLE INSTANCE CUT 1 client-{name}")), ok());
    }
    let full = Frame::error("ERR instance 1 is cut off from 64 already");
    assert_eq!(wire.ask("REDOUBLE INSTANCE CUT 1 one-more"), full);
    assert_eq!(wire.ask("REDOUBLE INSTANCE HEAL 1 client-7"), ok());
    assert_eq!(wire.ask("REDOUBLE INSTANCE CUT 1 one-more"), ok());
    let again = wire.ask("REDOUBLE INSTANCE CUT 1 one-more");
    assert!(again.is_error());
    assert_eq!(wire.ask("REDOUBLE INSTANCE HEAL 1"), ok());
    assert_eq!(wire.ask("REDOUBLE FAULT LIST"), Frame::Array(vec![]));
}

/// Tries to take the lock on all five servers at once. `None` means no answer.
fn acquire(servers: &Servers, name: &str) -> Vec<Option<Wire>> {
    let ask = |server: &Server| {
        let stream = TcpStream::connect(address(server)).ok()?;
        drop(stream);
        let mut wire = named(server, name);
        wire.send(format!("SET lock {name} NX PX 10000\r\n").as_bytes());
        Some(wire)
    };
    servers.iter().map(ask).collect()
}

#[test]
fn redlock_over_five_holds_with_one_stopped_one_skewed_and_one_cut_off_from_a_client() {
    let servers = bench(5);
    let mut driver = wire(&servers[0]);
    servers.iter().for_each(|server| server.freeze());
    assert_eq!(driver.ask("REDOUBLE INSTANCE STOP 2"), ok());
    assert_eq!(driver.ask("REDOUBLE INSTANCE SKEW 3 1h"), ok());
    assert_eq!(driver.ask("REDOUBLE INSTANCE CUT 4 alice"), ok());

    let mut alice = acquire(&servers, "alice");
    let mut granted = Vec::new();
    for (index, wire) in alice.iter_mut().enumerate().filter(|(index, _)| *index != 3) {
        granted.extend(wire.as_mut().map(|wire| (index, wire.expect() == ok())));
    }
    assert_eq!(granted, [(0, true), (2, true), (4, true)], "three of five are a majority");

    let mut bob = acquire(&servers, "bob");
    let replies: Vec<Option<bool>> =
        bob.iter_mut().map(|wire| wire.as_mut().map(|wire| wire.expect() == ok())).collect();
    assert_eq!(replies, [Some(false), None, Some(false), Some(true), Some(false)], "and bob gets one of them");

    // The server that restarts empty gives bob a second vote, which is why Redlock delays restarts.
    assert_eq!(driver.ask("REDOUBLE INSTANCE START 2 EMPTY"), ok());
    assert_eq!(named(&servers[1], "bob").ask("SET lock bob NX PX 10000"), ok());
    // The skewed clock is ahead, so its server loses alice's lock first.
    servers.iter().for_each(|server| server.advance(Duration::from_secs(10)));
    assert_eq!(driver.ask("REDOUBLE INSTANCE SKEW 3 2h"), ok());
    let left = |server: &Server| wire(server).ask("GET lock");
    assert_eq!(left(&servers[2]), Frame::NullBulk);
    assert_eq!(left(&servers[0]), Frame::bulk("alice"));
    // Alice's command runs on the fourth server at last, after the lock has expired.
    assert_eq!(driver.ask("REDOUBLE INSTANCE HEAL 4"), ok());
    assert_eq!(alice[3].as_mut().map(Wire::expect), Some(Frame::NullBulk));
}

#[test]
fn ports_stand_in_a_row_from_the_one_that_was_asked_for() {
    let servers = loop {
        // Another process may use one of the ports.
        match Server::builder().port(free_port()).instances(3).spawn_all() {
            Err(Error::Bind { .. }) => {}
            other => break other.expect("the servers start"),
        }
    };
    let ports: Vec<u16> = servers.iter().map(|server| address(server).port()).collect();
    assert_eq!(ports, [ports[0], ports[0] + 1, ports[0] + 2]);
    assert_eq!(servers.urls()[1], format!("redis://127.0.0.1:{}", ports[1]));
    for (port, server) in ports.iter().zip(servers.iter()) {
        assert_eq!(wire(server).ask("CONFIG GET port").items()[1], Frame::bulk(&port.to_string()));
        assert!(wire(server).ask("INFO server").text().contains(&format!("tcp_port:{port}\r\n")));
    }
}

#[test]
fn what_cannot_be_had_is_refused_with_a_reason() {
    let refused = |builder: redouble::Builder| builder.spawn_all().err().expect("that cannot be").to_string();
    assert_eq!(refused(Server::builder().instances(0)), "instances must be 1 to 64, not 0");
    assert_eq!(refused(Server::builder().instances(65)), "instances must be 1 to 64, not 65");
    assert_eq!(refused(Server::builder().port(65_534).instances(3)), "there are no 3 ports in a row from 65534 on");
    let socket = std::env::temp_dir().join("redouble-instances.sock");
    let reason = "2 instances cannot share a unix socket; each has a TCP port";
    assert_eq!(refused(Server::builder().unix_socket(&socket).instances(2)), reason);
    let single = Server::builder().instances(2).spawn().err().expect("that are two").to_string();
    assert_eq!(single, "spawn starts one instance, not 2; spawn_all starts several");
    let server = crate::support::spawn();
    assert_eq!(
        server.start().expect_err("it runs").to_string(),
        "instance 1 is running; REDOUBLE INSTANCE STOP comes first"
    );
    assert!(server.heal("alice").is_err());
}

#[test]
fn the_port_file_lists_every_instance_once_all_can_be_connected_to() {
    let file = std::env::temp_dir().join(format!("redouble-{}-instances", std::process::id()));
    let path = file.display().to_string();
    let ports = {
        let server = ServerProcess::redouble(&["--port", "0", "--instances", "4", "--port-file", &path]);
        // The file appears with its whole content: the server writes a temporary file and renames it.
        let text = wait_for("the port file", || fs::read_to_string(&file));
        let ports: Vec<u16> = text.lines().map(|line| line.parse().expect("a port")).collect();
        assert_eq!(ports.len(), 4);
        for port in &ports {
            let mut wire = Wire::connect(SocketAddr::from(([127, 0, 0, 1], *port)));
            assert_eq!(wire.ask("SET k v"), ok());
            assert_eq!(wire.ask("REDOUBLE INSTANCE LIST").items().len(), 4);
        }
        let mut last = Wire::connect(SocketAddr::from(([127, 0, 0, 1], ports[3])));
        last.send(b"SHUTDOWN NOSAVE\r\n");
        assert!(last.is_closed());
        drop(server);
        ports
    };
    assert!(ports.iter().all(|port| is_refused(SocketAddr::from(([127, 0, 0, 1], *port)))), "all end together");
    let _ = fs::remove_file(&file);
}

#[test]
fn sixty_four_instances_share_the_threads_of_one() {
    // A separate process, because other tests start threads in this one.
    let file = std::env::temp_dir().join(format!("redouble-{}-sixty-four", std::process::id()));
    let path = file.display().to_string();
    let server = ServerProcess::redouble(&["--port", "0", "--instances", "64", "--port-file", &path]);
    let ports = wait_for("the port file", || fs::read_to_string(&file));
    fs::remove_file(&file).expect("it is there");
    let threads = fs::read_dir(format!("/proc/{}/task", server.id())).map_or(0, Iterator::count);
    assert!((1..32).contains(&threads), "{threads} threads");
    let ports: Vec<u16> = ports.lines().map(|line| line.parse().expect("a port")).collect();
    assert_eq!(ports.len(), 64);
    let ping = |port: &u16| Wire::connect(SocketAddr::from(([127, 0, 0, 1], *port))).ask("PING");
    assert!(ports.iter().all(|port| ping(port) == Frame::status("PONG")));
}

#[test]
fn clients_of_all_instances_are_served_at_the_same_time_by_several_threads() {
    let servers = Server::builder().instances(3).threads(2).spawn_all().expect("the servers start");
    let addresses: Vec<SocketAddr> = servers.iter().map(address).collect();
    let play = |place: SocketAddr, name: usize| {
        std::thread::spawn(move || {
            let mut wire = Wire::connect(place);
            for round in 0..200 {
                assert_eq!(wire.ask(&format!("REDOUBLE SPACE {}", (name + round) % 3)), ok());
                wire.ask("INCR n");
            }
        })
    };
    let players: Vec<JoinHandle<()>> = (0..12).map(|name| play(addresses[name % 3], name)).collect();
    players.into_iter().for_each(|player| player.join().expect("no panic"));
    for address in addresses {
        let mut wire = Wire::connect(address);
        let mut sum = 0;
        for space in 0..3 {
            assert_eq!(wire.ask(&format!("REDOUBLE SPACE {space}")), ok());
            sum += wire.ask("GET n").text().parse::<i64>().expect("a number");
        }
        assert_eq!(sum, 800);
    }
}
