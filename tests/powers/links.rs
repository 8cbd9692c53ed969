//! REDOUBLE LINK: what a replica has not got yet, and what a failover makes of it. The replicas are real.

use std::time::Duration;

use redouble::Server;

use crate::support::process::ServerProcess;
use crate::support::wire::{Frame, Wire, request};
use crate::support::{CHECKED_PROFILE, address, profile, start, wait_until};

/// A server, a real replica of it, and a connection to each.
struct Pair {
    server: Server,
    replica: ServerProcess,
    to_server: Wire,
    to_replica: Wire,
}

impl Pair {
    fn start() -> Self {
        let server = start(Server::builder().compat(profile(CHECKED_PROFILE)));
        let port = address(&server).port().to_string();
        let replica = ServerProcess::redis(&["--save", "", "--replicaof", "127.0.0.1", &port]);
        let (to_server, mut to_replica) = (Wire::connect(address(&server)), Wire::connect(replica.address()));
        to_replica.ask_until("INFO replication", |info| info.contains("master_link_status:up"));
        Self { server, replica, to_server, to_replica }
    }

    /// How the replica is called.
    fn name(&self) -> String {
        self.replica.address().to_string()
    }

    fn has(&mut self, keys: i64) {
        wait_until("the keys of the replica", || self.to_replica.ask("DBSIZE") == Frame::Integer(keys));
    }

    /// A field of the only link.
    fn link(&mut self, field: &str) -> Frame {
        let list = self.to_server.ask("REDOUBLE LINK 1 LIST");
        let [link] = list.items() else { panic!("{list:?}") };
        link.items().chunks(2).find(|pair| pair[0] == Frame::bulk(field)).expect(field)[1].clone()
    }
}

fn ok() -> Frame {
    Frame::status("OK")
}

#[test]
fn a_lock_that_was_not_replicated_is_granted_again_by_the_replica_that_takes_over() {
    let mut pair = Pair::start();
    assert_eq!(pair.to_server.ask("REDOUBLE LINK 1 HOLD"), Frame::Integer(1));
    assert_eq!(pair.to_server.ask("SET lock alice NX PX 30000"), ok());
    assert_eq!(pair.to_replica.ask("REPLICAOF NO ONE"), ok());
    assert_eq!(pair.to_replica.ask("SET lock bob NX PX 30000"), ok());
    assert_eq!(pair.to_server.ask("GET lock"), Frame::bulk("alice"));
}

#[test]
fn changes_are_let_go_one_by_one_and_those_of_a_transaction_together() {
    let mut pair = Pair::start();
    let name = pair.name();
    assert_eq!(pair.to_server.ask(&format!("REDOUBLE LINK 1 HOLD {name}")), Frame::Integer(1));
    assert_eq!(pair.to_server.ask("REDOUBLE LINK 1 HOLD"), Frame::Integer(0), "it is held already");
    for line in ["SET a 1", "MULTI", "SET b 1", "SET c 1", "EXEC", "SET d 1"] {
        pair.to_server.ask(line);
    }
    assert_eq!((pair.link("replica"), pair.link("state")), (Frame::bulk(&name), Frame::bulk("held")));
    assert_eq!(pair.link("held"), Frame::Integer(3));
    assert_eq!(pair.to_server.ask("REDOUBLE LINK 1 STEP 1"), Frame::Integer(1));
    pair.has(1);
    assert_eq!(pair.to_server.ask(&format!("REDOUBLE LINK 1 STEP 1 {name}")), Frame::Integer(1));
    pair.has(3);
    assert_eq!(pair.to_server.ask("REDOUBLE LINK 1 STEP 5"), Frame::Integer(1));
    pair.has(4);
    pair.to_server.ask("SET e 1");
    assert_eq!(pair.link("held"), Frame::Integer(1));
    assert_eq!(pair.to_server.ask("REDOUBLE LINK 1 HEAL"), Frame::Integer(1));
    pair.has(5);
    assert_eq!(pair.link("state"), Frame::bulk("open"));
    let refused = pair.to_server.ask("REDOUBLE LINK 1 STEP 1").text();
    assert_eq!(refused, "ERR no link is held; HOLD comes first");
}

#[test]
fn a_link_that_lags_brings_changes_by_the_clock_and_in_order() {
    let mut pair = Pair::start();
    pair.server.freeze();
    pair.to_server.ask("REDOUBLE LINK 1 HOLD");
    pair.to_server.ask("SET held 1");
    assert_eq!(pair.to_server.ask("REDOUBLE LINK 1 LAG 2s"), Frame::Integer(1));
    pair.server.advance(Duration::from_secs(1));
    pair.to_server.ask("SET later 1");
    assert_eq!((pair.link("state"), pair.link("held")), (Frame::bulk("late"), Frame::Integer(2)));
    pair.server.advance(Duration::from_millis(999));
    assert_eq!(pair.link("held"), Frame::Integer(2));
    pair.server.advance(Duration::from_millis(1));
    pair.has(1);
    assert_eq!((pair.to_replica.ask("EXISTS held"), pair.link("held")), (Frame::Integer(1), Frame::Integer(1)));
    // What is late can be held, and let go before its time.
    pair.to_server.ask("REDOUBLE LINK 1 HOLD");
    pair.server.advance(Duration::from_secs(5));
    assert_eq!(pair.link("held"), Frame::Integer(1));
    assert_eq!(pair.to_server.ask("REDOUBLE LINK 1 STEP 1"), Frame::Integer(1));
    pair.has(2);
}

#[test]
fn a_replica_that_was_cut_off_goes_on_where_it_was_when_that_is_healed() {
    let mut pair = Pair::start();
    let name = pair.name();
    assert_eq!(pair.to_server.ask(&format!("REDOUBLE LINK 1 CUT {name}")), Frame::Integer(1));
    pair.to_replica.ask_until("INFO replication", |info| info.contains("master_link_status:down"));
    assert_eq!((pair.link("replica"), pair.link("state")), (Frame::bulk(&name), Frame::bulk("cut")));
    pair.to_server.ask("SET a 1");
    assert_eq!(pair.to_replica.ask("GET a"), Frame::NullBulk);
    assert_eq!(pair.to_server.ask(&format!("REDOUBLE LINK 1 HEAL {name}")), Frame::Integer(0), "nobody is there");
    pair.has(1);
    let info = pair.to_server.ask("INFO stats").text();
    assert!(info.contains("sync_full:1\r\nsync_partial_ok:1\r\n"), "{info}");
    assert!(!info.contains("sync_partial_ok:2"), "it was let in while it was cut off");
}

#[test]
fn wait_does_not_count_a_replica_whose_link_is_held_and_a_reset_lets_everything_go() {
    let mut pair = Pair::start();
    pair.server.freeze();
    pair.to_server.ask("REDOUBLE LINK 1 HOLD");
    pair.to_server.ask("SET a 1");
    pair.to_server.send(&request(&["WAIT", "1", "1000"]));
    let mut other = Wire::connect(address(&pair.server));
    other.ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
    pair.server.advance(Duration::from_secs(1));
    assert_eq!(pair.to_server.expect(), Frame::Integer(0));
    pair.server.reset();
    assert_eq!(pair.link("state"), Frame::bulk("open"));
    pair.to_server.ask("SET b 1");
    assert_eq!(pair.to_server.ask("WAIT 1 0"), Frame::Integer(1));
    assert_eq!(pair.to_replica.ask("KEYS *"), Frame::Array(vec![Frame::bulk("b")]));
}
