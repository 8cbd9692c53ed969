//! Replicas of the process beside those of real servers: a master and its replica, of either kind, answer the same.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::Duration;

use redouble::{Server, Servers};

use crate::support::process::ServerProcess;
use crate::support::wire::{Frame, Wire, request};
use crate::support::{CHECKED_PROFILE, address, profile, wait_until};
use crate::tracking::invalidation;

/// A master and its replica.
struct Pair {
    addresses: [SocketAddr; 2],
    master: Wire,
    replica: Wire,
    /// Ends with the pair.
    _servers: (Option<Servers>, Vec<ServerProcess>),
}

impl Pair {
    fn new(addresses: [SocketAddr; 2], servers: (Option<Servers>, Vec<ServerProcess>)) -> Self {
        let [master, mut replica] = addresses.map(Wire::connect);
        replica.ask_until("INFO replication", |info| info.contains("master_link_status:up"));
        let mut pair = Self { addresses, master, replica, _servers: servers };
        pair.master.ask_until("INFO replication", |info| info.contains("state=online"));
        pair
    }

    /// Waits until the replica has what the master was told.
    fn settle(&mut self) {
        assert_eq!(self.master.ask("WAIT 1 0"), Frame::Integer(1));
    }
}

/// Runs a test on a pair of real servers, and on one of ours.
fn on_both(test: impl Fn(&mut Pair)) {
    let options = ["--save", "", "--repl-diskless-sync-delay", "0"];
    let master = ServerProcess::redis(&options);
    let port = master.address().port().to_string();
    let replica = ServerProcess::redis(&[&options[..], &["--replicaof", "127.0.0.1", &port]].concat());
    let addresses = [master.address(), replica.address()];
    test(&mut Pair::new(addresses, (None, vec![master, replica])));
    let servers = Server::builder().compat(profile(CHECKED_PROFILE)).replicas(1).spawn_all().expect("servers");
    test(&mut Pair::new([address(&servers[0]), address(&servers[1])], (Some(servers), Vec::new())));
}

fn ok() -> Frame {
    Frame::status("OK")
}

/// INFO replication without what differs from server to server: ids, ports, offsets, times.
fn info(wire: &mut Wire) -> Vec<String> {
    const OWN: [&str; 9] = [
        "master_port",
        "master_replid",
        "master_repl_offset",
        "second_repl_offset",
        "slave_read_repl_offset",
        "slave_repl_offset",
        "repl_backlog_first_byte_offset",
        "repl_backlog_histlen",
        "master_last_io_seconds_ago",
    ];
    let text = wire.ask("INFO replication").text();
    let lines = text.lines().map(|line| match line.split_once(':') {
        Some((name, _)) if OWN.contains(&name) || name.starts_with("slave0") => name.to_owned(),
        Some(("master_replid2", id)) => {
            format!("master_replid2:{}", if id == "0".repeat(40) { "none" } else { "some" })
        }
        _ => line.to_owned(),
    });
    lines.collect()
}

#[test]
fn both_ends_of_a_link_tell_of_it_and_a_promoted_replica_too() {
    let states = RefCell::new(Vec::new());
    on_both(|pair| {
        let mut seen = vec![info(&mut pair.master), info(&mut pair.replica)];
        assert_eq!(pair.master.ask("SET a 1"), ok());
        pair.settle();
        let role = pair.replica.ask("ROLE");
        assert_eq!((&role.items()[0], &role.items()[3]), (&Frame::bulk("slave"), &Frame::bulk("connected")));
        assert_eq!(role.items()[2], Frame::Integer(pair.addresses[0].port().into()));
        assert_eq!(pair.master.ask("ROLE").items()[2].items().len(), 1);
        assert!(pair.master.ask("CLIENT LIST TYPE replica").text().contains(" flags=S "));
        assert!(pair.replica.ask("CLIENT LIST TYPE master").text().contains(" flags=M "));
        assert_eq!(pair.replica.ask("CLIENT KILL TYPE master"), Frame::Integer(1));
        pair.replica.ask_until("INFO replication", |info| info.contains("master_link_status:up"));
        assert_eq!(pair.replica.ask("REPLICAOF NO ONE"), ok());
        pair.master.ask_until("INFO replication", |info| info.contains("connected_slaves:0"));
        seen.extend([info(&mut pair.master), info(&mut pair.replica)]);
        assert_eq!(pair.replica.ask("SET b 1"), ok());
        assert_eq!(pair.master.ask("SET c 1"), ok());
        let port = pair.addresses[1].port();
        assert_eq!(pair.master.ask(&format!("REPLICAOF 127.0.0.1 {port}")), ok());
        pair.master.ask_until("INFO replication", |info| info.contains("master_link_status:up"));
        wait_until("the data of the new master", || pair.master.ask("KEYS *").items().len() == 2);
        assert_eq!(pair.master.ask("EXISTS a b c"), Frame::Integer(2), "what only the former master had is gone");
        pair.replica.ask_until("INFO replication", |info| info.contains("state=online"));
        seen.extend([info(&mut pair.master), info(&mut pair.replica)]);
        states.borrow_mut().push(seen);
    });
    let states = states.into_inner();
    assert_eq!(states[0], states[1], "the real pair is the first one");
}

#[test]
fn a_promoted_replica_keeps_the_history_that_others_have_for_an_hour() {
    let servers = Server::builder().replicas(1).spawn_all().expect("servers");
    servers.iter().for_each(|server| server.freeze());
    let [mut master, mut replica] = [&servers[0], &servers[1]].map(|server| Wire::connect(address(server)));
    replica.ask_until("INFO replication", |info| info.contains("master_link_status:up"));
    let history = master.ask("INFO replication").text();
    let id = history.lines().find_map(|line| line.strip_prefix("master_replid:")).expect("an id");
    assert_eq!(replica.ask("REPLICAOF NO ONE"), ok());
    let former = format!("master_replid2:{id}");
    servers[1].advance(Duration::from_secs(3600));
    let info = replica.ask("INFO replication").text();
    assert!(info.contains(&former) && info.contains("repl_backlog_active:1"), "{info}");
    servers[1].advance(Duration::from_secs(1));
    let info = replica.ask("INFO replication").text();
    assert!(!info.contains(&former) && info.contains("repl_backlog_active:0"), "{info}");
}

#[test]
fn a_replica_refuses_what_would_change_it_and_serves_who_reads() {
    on_both(|pair| {
        pair.master.ask("RPUSH l a b");
        pair.master.ask("XADD s 1-1 f v");
        pair.master.ask("SELECT 2");
        pair.master.ask("SET other 1 PX 100000");
        pair.settle();
        for line in ["SET a 1", "EVAL redis.call('set','a','1') 0", "BLPOP l 0", "FLUSHALL"] {
            assert!(pair.replica.ask(line).text().contains("READONLY"), "{line}");
        }
        assert!(pair.replica.ask("WAIT 0 0").text().starts_with("ERR WAIT cannot be used with replica instances"));
        pair.replica.ask("MULTI");
        assert!(pair.replica.ask("SET a 1").text().starts_with("READONLY"));
        assert!(pair.replica.ask("EXEC").text().starts_with("EXECABORT"));
        assert_eq!(pair.replica.ask("LRANGE l 0 -1").items().len(), 2);
        assert_eq!(pair.replica.ask("SELECT 2"), ok());
        assert!((99_000..=100_000).contains(&pair.replica.ask("PTTL other").integer()));
        // Blocked on a stream, it is served by what the master is told.
        let mut reader = Wire::connect(pair.addresses[1]);
        reader.send(&request(&["XREAD", "BLOCK", "0", "STREAMS", "s", "$"]));
        pair.replica.ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
        pair.master.ask("SELECT 0");
        pair.master.ask("XADD s 2-1 f v");
        assert_eq!(reader.expect().items().len(), 1);
        let mut subscriber = Wire::connect(pair.addresses[1]);
        subscriber.ask("SUBSCRIBE news");
        pair.master.ask("PUBLISH news hello");
        assert_eq!(subscriber.expect().items()[2], Frame::bulk("hello"));
        // Who may write gets what he wrote, and nobody else does.
        pair.replica.ask("SELECT 0");
        assert_eq!(pair.replica.ask("CONFIG SET replica-read-only no"), ok());
        assert_eq!(pair.replica.ask("SET own 1"), ok());
        assert_eq!((pair.replica.ask("GET own"), pair.master.ask("GET own")), (Frame::bulk("1"), Frame::NullBulk));
    });
}

#[test]
fn who_monitors_a_replica_sees_what_its_master_sends() {
    let seen = RefCell::new(Vec::new());
    on_both(|pair| {
        pair.master.ask("SET before 1");
        pair.settle();
        let mut monitor = Wire::connect(pair.addresses[1]);
        assert_eq!(monitor.ask("MONITOR"), ok());
        for line in
            ["SET a 1", "SPOP nothing", "GETDEL a", "MULTI", "SET b 1", "INCR b", "EXEC", "PUBLISH channel text"]
        {
            pair.master.ask(line);
        }
        let mut lines = Vec::new();
        while lines.last().is_none_or(|last: &String| !last.contains("PUBLISH")) {
            let line = monitor.expect().text();
            let words = line.split_once("] ").expect("the words are behind the source").1;
            // Only the real one asks now and then how far its replica is.
            if !words.contains("REPLCONF") && !words.eq_ignore_ascii_case("\"ping\"") {
                lines.push(words.to_owned());
            }
        }
        seen.borrow_mut().push(lines);
    });
    let seen = seen.into_inner();
    assert_eq!(seen[0], seen[1], "the real pair is the first one");
    assert_eq!(seen[1].len(), 7, "{:?}", seen[1]);
}

#[test]
fn a_handover_swaps_the_roles_and_refuses_what_makes_no_sense() {
    on_both(|pair| {
        let port = pair.addresses[1].port();
        for (line, error) in [
            ("FAILOVER ABORT", "ERR No failover in progress."),
            ("FAILOVER TIMEOUT 0", "ERR FAILOVER timeout must be greater than 0"),
            ("FAILOVER TO 127.0.0.1 1", "ERR FAILOVER target HOST and PORT is not a replica."),
            ("FAILOVER FORCE", "ERR FAILOVER with force option requires both a timeout and target HOST and IP."),
            ("FAILOVER TO", "ERR syntax error"),
        ] {
            assert_eq!(pair.master.ask(line).text(), error, "{line}");
        }
        assert_eq!(pair.replica.ask("FAILOVER").text(), "ERR FAILOVER is not valid when server is a replica.");
        pair.master.ask("SET lock alice");
        pair.settle();
        assert_eq!(pair.master.ask(&format!("FAILOVER TO 127.0.0.1 {port} TIMEOUT 10000")), ok());
        pair.master
            .ask_until("INFO replication", |info| info.contains("role:slave\r\n") && info.contains("_status:up"));
        assert_eq!(pair.replica.ask("SET lock bob NX"), Frame::NullBulk);
        assert_eq!(pair.replica.ask("SET mine 1"), ok());
        wait_until("what the new master was told", || pair.master.ask("GET mine") == Frame::bulk("1"));
    });
}

#[test]
fn a_client_of_a_replica_that_tracks_all_keys_is_told_of_what_its_master_changes() {
    on_both(|pair| {
        pair.replica.ask("HELLO 3");
        assert_eq!(pair.replica.ask("CLIENT TRACKING ON BCAST"), ok());
        for command in ["SET k v", "SET k w", "DEL k"] {
            pair.master.ask(command);
            assert_eq!(pair.replica.expect(), invalidation("k"), "{command}");
        }
    });
}
