//! Commands of clients on different nodes of a deployment, without its servers.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use std::time::Duration;

use super::{Engine, Fibers};
use crate::clients::deployment::{Deployment, DeploymentKind};
use crate::clients::instance::{Instance, UpstreamInfo};
use crate::clients::session::{Client, Flow, Peer, Session};
use crate::commands::all_rows;
use crate::powers::{Entry, EventKind, Item, LEAST_SIZE, NodeInfo, NodeRole, Query};
use crate::protocol::{OwnedWords, Words};
use crate::spec::Table;

/// A server in front of two masters and a replica of the first.
struct Front {
    engine: Arc<Engine>,
    deployment: Arc<Deployment>,
}

fn node(address: &str, master: Option<&str>) -> NodeInfo {
    NodeInfo {
        address: address.to_owned(),
        role: if master.is_some() { NodeRole::Replica } else { NodeRole::Master },
        master: master.map(str::to_owned),
        is_reachable: true,
        ..NodeInfo::default()
    }
}

impl Front {
    fn new() -> Self {
        let deployment = Arc::new(Deployment::new(DeploymentKind::Cluster));
        for (port, address, master) in [
            (30_001, "10.0.0.1:7001", None),
            (30_002, "10.0.0.2:7002", None),
            (30_003, "10.0.0.3:7003", Some("10.0.0.1:7001")),
        ] {
            deployment.add(node(address, master)).set_ports(port, 0);
        }
        let upstream = UpstreamInfo {
            address: "10.0.0.1:7001".to_owned(),
            deployment: Some(Arc::clone(&deployment)),
            is_disposable: false,
            keeps_order: AtomicBool::new(false),
            monitors_scripts: false,
        };
        let mut instance = Instance::default();
        instance.upstream = Some(upstream);
        let instance = Arc::new(instance);
        assert!(instance.start_journal(LEAST_SIZE).is_none());
        let table = Table::new(all_rows(), instance.profile);
        Self { engine: Arc::new(Engine::new(instance, table)), deployment }
    }

    /// A client that is connected to the node with this number.
    fn client(&self, id: u64, number: u16) -> Box<Session> {
        let instance = &self.engine.instance;
        let client = Arc::new(Client::new(id, Peer::Unix { path: "test".into(), pid: None }, -1, 0));
        let mut session = Box::new(Session::new(client, instance.acl.default_user(), instance.stats.thread(0)));
        session.node = self.deployment.nodes().into_iter().find(|node| node.number == number);
        session
    }

    /// Runs a command; its reply, if it has one at once.
    fn run(&self, session: &mut Box<Session>, line: &str) -> String {
        let words: OwnedWords = line.split(' ').collect();
        let (words, mut fibers, mut out): (Words<'_>, _, _) = (words.as_words(), Fibers::default(), Vec::new());
        self.engine.begin_batch(session, &mut fibers);
        let resolved = self.engine.resolve(words);
        let flow = self.engine.execute(session, resolved, words, &mut out, &mut fibers);
        self.engine.end_batch(session, &mut fibers);
        match flow {
            Flow::Wait(_) => "(waits)".to_owned(),
            _ => String::from_utf8_lossy(&out).trim_end().to_owned(),
        }
    }

    fn entries(&self) -> Vec<Entry> {
        let table = &self.engine.table;
        self.engine.instance.control.journal.entries(&Query::default(), 100, &|words| table.name(words))
    }
}

#[test]
fn a_fault_on_one_node_spares_the_others() {
    let front = Front::new();
    let mut clients = [1, 2, 3].map(|number| front.client(number.into(), number));
    let [first, second, third] = &mut clients;
    for (rule, expected) in [
        ("node 10.0.0.1:7001", [true, false, false]),
        ("node 7002", [false, true, false]),
        ("node 127.0.0.1:30003", [false, false, true]),
        ("node master", [true, true, false]),
        ("node replica", [false, false, true]),
        ("node replica of 30001", [false, false, true]),
        ("node replica of 10.0.0.2:7002", [false, false, false]),
        ("slots 12182", [true, true, true]),
        ("slots 0-12181", [false, false, false]),
        ("on PING SET node master slots 12000-12999", [true, true, false]),
    ] {
        let add = format!("REDOUBLE FAULT ADD down {rule} error DOWN");
        assert_eq!(front.run(first, &add), "+OK", "{rule}");
        let met = [&mut *first, &mut *second, &mut *third].map(|client| front.run(client, "SET foo 1") == "-DOWN");
        assert_eq!(met, expected, "{rule}");
        front.engine.instance.clear_faults();
    }
}

#[test]
fn a_rule_that_can_never_match_is_refused() {
    let front = Front::new();
    let mut client = front.client(1, 1);
    for (rule, why) in [
        ("node 7009", "-ERR there is no node '7009'; the nodes are 10.0.0.1:7001 (master), 10.0.0.2:7002 (master), "),
        ("node replica of 7009", "-ERR there is no node '7009'"),
        ("node sentinel", "-ERR a Cluster has no Sentinels"),
        ("node 7001 node 7002", "-ERR 'node' was said already"),
        ("node on SET", "-ERR a node was expected: host:port, a port, an id, master,"),
        ("slots 5-4", "-ERR a range of hash slots such as 0-5460"),
        ("slots 0-16384", "-ERR a range of hash slots such as 0-5460"),
    ] {
        let reply = front.run(&mut client, &format!("REDOUBLE GATE ADD door {rule}"));
        assert!(reply.starts_with(why), "{rule}: {reply}");
        let reply = front.run(&mut client, &format!("REDOUBLE JOURNAL COUNT {rule}"));
        assert!(reply.starts_with(why), "{rule}: {reply}");
    }
    let alone = Engine::new(Arc::default(), Table::new(all_rows(), front.engine.instance.profile));
    let alone = Front { engine: Arc::new(alone), deployment: Arc::clone(&front.deployment) };
    let reply = alone.run(&mut client, "REDOUBLE FAULT ADD down node master hang");
    assert!(reply.starts_with("-ERR there is no deployment: "), "{reply}");
    assert_eq!(alone.run(&mut client, "REDOUBLE FAULT ADD down slots 0-5460 hang"), "+OK");
}

#[test]
fn the_journal_has_the_node_as_it_was_when_the_command_came() {
    let front = Front::new();
    let (mut first, mut third) = (front.client(1, 1), front.client(3, 3));
    front.run(&mut first, "SET foo 1");
    front.run(&mut third, "GET foo");
    // A failover: the replica takes the place of its master.
    let nodes = front.deployment.nodes();
    nodes[0].set_info(node("10.0.0.1:7001", Some("10.0.0.3:7003")));
    nodes[2].set_info(node("10.0.0.3:7003", None));
    front.engine.record_node_event(EventKind::Promoted, "10.0.0.3:7003", "10.0.0.1:7001");
    front.run(&mut third, "SET foo 2");
    front.run(&mut first, "GET foo");
    let addresses: Vec<_> = front.entries().into_iter().map(|entry| entry.node.unwrap()).collect();
    assert_eq!(addresses, ["10.0.0.1:7001", "10.0.0.3:7003", "10.0.0.3:7003", "10.0.0.1:7001"]);
    for (query, count) in [
        ("node master", 2),
        ("on SET node master", 2),
        ("on GET node replica", 2),
        ("node 7001", 2),
        ("node 30003", 2),
        ("node replica of 7001", 1),
        ("node 10.0.0.2:7002", 0),
        ("node master slots 0-12181", 0),
    ] {
        assert_eq!(front.run(&mut first, &format!("REDOUBLE JOURNAL COUNT {query}")), format!(":{count}"), "{query}");
    }
    let items = front.engine.instance.control.journal.items();
    let promoted = items.iter().find_map(|item| match item {
        Item::Event(event) if event.kind == EventKind::Promoted => Some((event.node.as_deref(), event.detail.as_str())),
        _ => None,
    });
    assert_eq!(promoted, Some((Some("10.0.0.3:7003"), "10.0.0.1:7001")));
    assert!(
        front.run(&mut first, "REDOUBLE JOURNAL LIST on SET limit 1").contains("\r\nnode\r\n$13\r\n10.0.0.3:7003\r\n")
    );
}

#[test]
fn a_node_that_is_cut_off_answers_nobody_whatever_else_is_armed() {
    let front = Front::new();
    let (mut first, mut second) = (front.client(1, 1), front.client(2, 2));
    assert_eq!(front.run(&mut second, "REDOUBLE FAULT ADD down node master error DOWN"), "+OK");
    assert_eq!(front.run(&mut second, "REDOUBLE NODE CUT 7001"), "+OK");
    assert_eq!(front.run(&mut second, "SET foo 1"), "-DOWN");
    assert!(front.engine.instance.is_cut_off(&first) && !front.engine.instance.is_cut_off(&second));
    assert_eq!(front.run(&mut first, "SET foo 1"), "(waits)");
    let reply = front.run(&mut second, "REDOUBLE NODE CUT 127.0.0.1:30001");
    assert_eq!(reply, "-ERR node 10.0.0.1:7001 is cut off already");
    front.deployment.nodes()[0].set_info(node("10.0.0.9:7009", None));
    assert_eq!(front.run(&mut second, "REDOUBLE NODE HEAL 7009"), "(waits)");
    assert!(!front.engine.instance.is_cut_off(&first));
    assert_eq!(
        front.run(&mut second, "REDOUBLE NODE HEAL 7009"),
        "-ERR node 10.0.0.9:7009 is neither cut off nor slow"
    );
}

#[test]
fn a_cut_from_some_clients_leaves_the_others() {
    let front = Front::new();
    let (mut alice, mut bob) = (front.client(1, 1), front.client(2, 1));
    alice.client.labels().name = b"alice".to_vec();
    for clients in ["ali*", "carol"] {
        assert_eq!(front.run(&mut bob, &format!("REDOUBLE NODE CUT 7001 {clients}")), "+OK");
    }
    assert_eq!(front.run(&mut alice, "SET foo 1"), "(waits)");
    assert_eq!(front.run(&mut bob, "SET foo 1"), "+OK");
    let views = front.engine.instance.node_views().unwrap();
    let seen: Vec<_> = views.iter().map(|view| (view.state(), view.cuts.len())).collect();
    assert_eq!(seen, [("cut", 2), ("running", 0), ("running", 0)]);
    assert_eq!(views[0].cuts, [b"ali*".to_vec(), b"carol".to_vec()]);
}

#[test]
fn the_slowness_of_a_node_is_what_was_said_last_and_gives_way_to_faults() {
    let front = Front::new();
    let (mut first, mut second) = (front.client(1, 1), front.client(2, 2));
    for duration in ["50ms", "2s"] {
        assert_eq!(front.run(&mut second, &format!("REDOUBLE NODE SLOW 7001 {duration}")), "(waits)");
    }
    let slowness = || front.engine.instance.node_views().unwrap()[0].slowness;
    assert_eq!(slowness(), Duration::from_secs(2));
    assert_eq!(front.run(&mut second, "SET foo 1"), "+OK");
    assert_eq!(front.run(&mut second, "REDOUBLE FAULT ADD down on SET error DOWN"), "+OK");
    assert_eq!(front.run(&mut first, "SET foo 1"), "-DOWN");
    assert_eq!(front.run(&mut first, "GET foo"), "(waits)");
    assert_eq!(front.run(&mut second, "REDOUBLE NODE SLOW 7001 0"), "(waits)");
    assert_eq!(slowness(), Duration::ZERO);
}

#[test]
fn a_rule_follows_its_node_to_another_address() {
    let front = Front::new();
    let mut client = front.client(1, 1);
    assert_eq!(front.run(&mut client, "REDOUBLE FAULT ADD down node 10.0.0.1:7001 error DOWN"), "+OK");
    front.deployment.nodes()[0].set_info(node("10.0.0.9:7001", None));
    assert_eq!(front.run(&mut client, "SET foo 1"), "-DOWN");
    assert_eq!(front.entries()[0].node.as_deref(), Some("10.0.0.9:7001"));
}
