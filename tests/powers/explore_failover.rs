//! What the explorer finds with replicas: locks that a failover loses, and replicas that are read before they have it.
//!
//! Each mistake has a neighbour that does the same right.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use redouble::{Chaos, Search, Server};

use crate::support::address;
use crate::support::wire::{Frame, Wire, request};

const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

fn spawn(replicas: usize) -> Server {
    Server::builder().replicas(replicas).spawn().expect("the server starts")
}

fn search() -> Search {
    Search::default().client("worker-*").clients(2).settle(Duration::from_millis(50)).random(0)
}

/// The server has closed the connection instead of a reply.
#[derive(Debug)]
struct Closed;

/// A client of a race.
struct Worker {
    name: String,
    wire: Wire,
}

impl Worker {
    fn connect(address: SocketAddr, number: usize) -> Self {
        let mut worker = Self { name: format!("worker-{number}"), wire: Wire::connect(address) };
        worker.wire.ask(&format!("CLIENT SETNAME {}", worker.name));
        worker
    }

    fn call(&mut self, words: &[&str]) -> Result<Frame, Closed> {
        self.wire.send(&request(words));
        self.wire.read().map_err(|_| Closed)
    }

    fn ask(&mut self, line: &str) -> Result<Frame, Closed> {
        self.call(&line.split_whitespace().collect::<Vec<_>>())
    }
}

/// Who believes to hold the lock, and whether that were ever two.
#[derive(Default)]
struct Holders {
    now: Mutex<BTreeSet<String>>,
    were_two: Mutex<bool>,
}

impl Holders {
    fn enter(&self, name: &str) {
        let mut now = self.now.lock().unwrap();
        now.insert(name.to_owned());
        *self.were_two.lock().unwrap() |= now.len() > 1;
    }

    fn leave(&self, name: &str) {
        self.now.lock().unwrap().remove(name);
    }
}

type Work = fn(&mut Worker, &Holders) -> Result<(), Closed>;

/// Takes a lock, works, and releases it.
fn plain(worker: &mut Worker, holders: &Holders) -> Result<(), Closed> {
    if worker.ask(&format!("SET lock {} NX PX 30000", worker.name))? == Frame::status("OK") {
        work(worker, holders)?;
    }
    Ok(())
}

/// The same, but trusts the lock only if a replica has it.
fn waits_for_one(worker: &mut Worker, holders: &Holders) -> Result<(), Closed> {
    waits(worker, holders, 1)
}

fn waits_for_two(worker: &mut Worker, holders: &Holders) -> Result<(), Closed> {
    waits(worker, holders, 2)
}

fn waits(worker: &mut Worker, holders: &Holders, replicas: i64) -> Result<(), Closed> {
    if worker.ask(&format!("SET lock {} NX PX 30000", worker.name))? == Frame::status("OK") {
        match worker.ask(&format!("WAIT {replicas} 1000"))? {
            Frame::Integer(count) if count >= replicas => work(worker, holders)?,
            _ => drop(worker.call(&["EVAL", RELEASE, "1", "lock", &worker.name.clone()])?),
        }
    }
    Ok(())
}

fn work(worker: &mut Worker, holders: &Holders) -> Result<(), Closed> {
    holders.enter(&worker.name);
    let done = worker.ask("INCR work");
    holders.leave(&worker.name);
    done?;
    worker.call(&["EVAL", RELEASE, "1", "lock", &worker.name.clone()]).map(drop)
}

/// Two clients that race for a lock. Whether both have held it.
fn race(server: &Server, work: Work) -> bool {
    let (address, holders) = (address(server), Holders::default());
    std::thread::scope(|scope| {
        for number in 1..=2 {
            let holders = &holders;
            scope.spawn(move || {
                let mut worker = Worker::connect(address, number);
                if work(&mut worker, holders).is_err() {
                    holders.leave(&worker.name);
                }
            });
        }
    });
    holders.were_two.into_inner().unwrap()
}

/// Explores until two hold the lock: the number of the run, the token, the order. Nothing if all orders were tried.
fn find(server: &Server, search: Search, work: Work) -> Option<(u64, String, Vec<String>)> {
    let mut exploration = server.explore(search).unwrap();
    while let Some(number) = exploration.next().unwrap() {
        if race(server, work) {
            return Some((number, exploration.fail().unwrap(), exploration.order().unwrap()));
        }
    }
    let findings = exploration.findings().unwrap();
    assert!(findings.is_complete, "{findings:?}");
    None
}

/// The order without the instants of deadlines, which are others each time.
fn without_instants(order: &[String]) -> Vec<String> {
    let line = |line: &String| line.split(" PXAT ").next().unwrap_or_default().to_owned();
    order.iter().map(line).collect()
}

#[test]
fn the_lock_that_a_failover_loses_is_found_within_a_few_orders_and_replayed() {
    let server = spawn(1);
    let (number, token, order) = find(&server, search().failovers(1), plain).expect("two holders");
    assert!(number <= 10, "it took {number} runs: {order:#?}");
    let failover = "2.           (failover: instance 2 is the master, without SET lock worker-1 PXAT ";
    assert!(order[1].trim_start().starts_with(failover), "{order:#?}");
    for _ in 0..3 {
        let mut replay = server.replay(&token, search()).unwrap();
        replay.next().unwrap();
        // Both are told that they have it. Whether their threads notice that at once is up to the machine.
        race(&server, plain);
        assert_eq!(without_instants(&replay.order().unwrap()), without_instants(&order));
        assert_eq!((replay.strayed(), replay.fail().unwrap()), (None, token.clone()));
    }
}

#[test]
fn without_a_failover_the_same_lock_is_held_by_one_in_every_order() {
    let server = spawn(1);
    assert_eq!(find(&server, search(), plain), None);
    assert_eq!(find(&server, search().failovers(0), plain), None);
}

#[test]
fn a_lock_that_waits_for_the_only_replica_survives_every_failover() {
    let server = spawn(1);
    assert_eq!(find(&server, search().failovers(1), waits_for_one), None);
}

#[test]
fn a_lock_that_waits_for_one_of_two_replicas_is_lost_when_the_other_is_promoted() {
    let server = spawn(2);
    let (number, _, order) = find(&server, search().failovers(1), waits_for_one).expect("two holders");
    assert!(number <= 300, "it took {number} runs: {order:#?}");
    assert!(order.iter().any(|line| line.contains("(instance 2 gets SET lock worker-")), "{order:#?}");
    let other = "(failover: instance 3 is the master, without SET lock worker-";
    assert!(order.iter().any(|line| line.contains(other)), "{order:#?}");
    let mut exploration = server.explore(search().failovers(1).runs(80)).unwrap();
    while exploration.next().unwrap().is_some() {
        assert!(!race(&server, waits_for_two), "{:#?}", exploration.order());
    }
}

/// Whether a client that is told of a value reads another one at the replica.
fn reads_something_old(server: &Server) -> bool {
    let (master, replica) = (address(server), address(&server.replicas()[0]));
    let mut writer = Worker::connect(master, 1);
    let mut reader = Worker::connect(replica, 2);
    writer.ask("SET stock 9").unwrap();
    reader.ask("GET stock").unwrap() != Frame::bulk("9")
}

#[test]
fn a_replica_that_is_read_before_it_has_the_change_is_found() {
    let server = spawn(1);
    let mut exploration = server.explore(search()).unwrap();
    let mut results = Vec::new();
    while exploration.next().unwrap().is_some() {
        let is_old = reads_something_old(&server);
        results.push((is_old, exploration.order().unwrap()));
    }
    assert!(exploration.findings().unwrap().is_complete);
    let (old, new): (Vec<_>, Vec<_>) = results.into_iter().partition(|(is_old, _)| *is_old);
    let [(_, new)] = &new[..] else { panic!("{new:#?}") };
    assert!(new[1].ends_with("(instance 2 gets SET stock 9)"), "{new:#?}");
    let [(_, old)] = &old[..] else { panic!("{old:#?}") };
    assert!(old[1].ends_with("GET stock  -> (nil)"), "{old:#?}");
}

#[test]
fn what_a_test_does_beside_the_race_is_replicated() {
    let server = spawn(1);
    let mut exploration = server.explore(search().failovers(1).runs(8)).unwrap();
    while exploration.next().unwrap().is_some() {
        Wire::connect(address(&server)).ask("SET stock 10");
        race(&server, plain);
        let mut wire = Wire::connect(address(&server));
        assert_eq!(wire.ask("GET stock"), Frame::bulk("10"), "{:#?}", exploration.order());
        let all = wire.ask("GET work");
        assert_eq!(Wire::connect(address(&server.replicas()[0])).ask("GET work"), all);
    }
    drop(exploration);
    let mut wire = Wire::connect(address(&server));
    wire.ask("SET after 1");
    let mut replica = Wire::connect(address(&server.replicas()[0]));
    assert_eq!(replica.ask("GET after"), Frame::bulk("1"), "the links are open again");
    let mut now = || replica.ask("TIME").items()[0].text().parse::<i64>().unwrap();
    let (before, own) = (now(), wire.ask("TIME").items()[0].text().parse::<i64>().unwrap());
    assert!((before - own).abs() <= 1, "{before} {own}");
}

#[test]
fn a_failover_that_a_test_does_not_allow_is_refused_with_a_reason() {
    let alone = Server::builder().spawn().unwrap();
    let refused = alone.explore(Search::default().failovers(1)).err().expect("there are no replicas");
    assert!(refused.to_string().contains("failovers need replicas"), "{refused}");
    let mut wire = Wire::connect(address(&alone));
    let refused = wire.ask("REDOUBLE EXPLORE START failovers 1");
    assert_eq!(refused, Frame::error("ERR failovers need replicas: the server is to be started with --replicas"));
    let server = spawn(1);
    let mut wire = Wire::connect(address(&server));
    assert_eq!(
        wire.ask("REDOUBLE EXPLORE START client worker-* clients 2 failovers 1 chaos pause"),
        Frame::status("OK")
    );
    let mut orders = 0;
    let mut found = false;
    while !found && wire.ask("REDOUBLE EXPLORE NEXT") != Frame::Null {
        orders += 1;
        found = race(&server, plain);
    }
    assert!(found && orders <= 10, "{orders} orders");
    let order = wire.ask("REDOUBLE EXPLORE ORDER");
    assert!(order.items().iter().any(|line| line.text().contains("failover")), "{order:?}");
    wire.ask("REDOUBLE EXPLORE STOP");
}

/// A client that goes to the master that a Sentinel names, and sends a command again that was not answered or refused there.
struct Follower {
    sentinel: SocketAddr,
    worker: Worker,
    number: usize,
}

impl Follower {
    fn master(sentinel: SocketAddr) -> SocketAddr {
        let named = Wire::connect(sentinel).ask("SENTINEL GET-MASTER-ADDR-BY-NAME mymaster");
        let [host, port] = named.items() else { panic!("{named:?}") };
        format!("{}:{}", host.text(), port.text()).parse().unwrap()
    }

    fn connect(sentinel: SocketAddr, number: usize) -> Self {
        Self { sentinel, worker: Worker::connect(Self::master(sentinel), number), number }
    }

    fn call(&mut self, words: &[&str]) -> Frame {
        loop {
            match self.worker.call(words) {
                Ok(Frame::Error(line)) if line.starts_with(b"READONLY") => {}
                Ok(reply) => return reply,
                Err(Closed) => {}
            }
            self.worker = Worker::connect(Self::master(self.sentinel), self.number);
        }
    }
}

#[test]
fn clients_that_ask_a_sentinel_find_the_new_master_and_the_lost_lock() {
    let server = Server::builder().replicas(1).sentinels(1).spawn().expect("the server starts");
    let sentinel = server.sentinels()[0];
    let race = || {
        let holders = Holders::default();
        std::thread::scope(|scope| {
            for number in 1..=2 {
                let holders = &holders;
                scope.spawn(move || {
                    let mut client = Follower::connect(sentinel, number);
                    let name = client.worker.name.clone();
                    if client.call(&["SET", "lock", &name, "NX", "PX", "30000"]) == Frame::status("OK") {
                        holders.enter(&name);
                        client.call(&["INCR", "work"]);
                        holders.leave(&name);
                        client.call(&["EVAL", RELEASE, "1", "lock", &name]);
                    }
                });
            }
        });
        holders.were_two.into_inner().unwrap()
    };
    let search = || search().settle(Duration::from_millis(200)).failovers(1).runs(100);
    let mut exploration = server.explore(search()).unwrap();
    let mut found = None;
    while found.is_none()
        && let Some(number) = exploration.next().unwrap()
    {
        found = race().then(|| (number, exploration.fail().unwrap(), exploration.order().unwrap()));
    }
    drop(exploration);
    let (number, token, order) = found.expect("two holders");
    assert!(number <= 20, "it took {number} runs: {order:#?}");
    let mut replay = server.replay(&token, search()).unwrap();
    replay.next().unwrap();
    race();
    assert_eq!((replay.strayed(), without_instants(&replay.order().unwrap())), (None, without_instants(&order)));
}

#[test]
fn a_lock_that_expires_and_a_failover_go_together() {
    let server = spawn(1);
    let search = search().failovers(1).chaos(Chaos::default().expiry(1)).runs(60);
    let mut exploration = server.explore(search).unwrap();
    let mut kinds = BTreeSet::new();
    while exploration.next().unwrap().is_some() {
        race(&server, plain);
        let order = exploration.order().unwrap().join("\n");
        kinds.insert((order.contains("lock expires"), order.contains("failover")));
        assert_eq!(exploration.strayed(), None, "{order}");
    }
    assert_eq!(kinds.len(), 4, "{kinds:?}");
}
