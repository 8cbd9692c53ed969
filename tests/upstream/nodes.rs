//! One node of a Cluster is taken away from clients, while the other nodes still see it.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use redouble::{Fault, JournalGuard, NodeRole, NodeStatus, Pattern, Server, Verdict};

use crate::support::process::{ServerProcess, free_port};
use crate::support::wait_until;
use crate::support::wire::{Frame, Wire};

/// Three masters of redis-server.
struct Cluster {
    nodes: Vec<ServerProcess>,
    files: Vec<PathBuf>,
}

impl Cluster {
    fn start() -> Self {
        let (mut nodes, mut files) = (Vec::new(), Vec::new());
        let buses: Vec<String> = (0..3).map(|_| free_port().to_string()).collect();
        for bus in &buses {
            let file = std::env::temp_dir().join(format!("redouble-nodes-{}-{bus}.conf", std::process::id()));
            let name = file.to_str().expect("a path that is text");
            let cluster = ["--cluster-enabled", "yes", "--cluster-config-file", name, "--cluster-port", bus];
            nodes.push(ServerProcess::redis(
                &[&cluster[..], &["--cluster-node-timeout", "2000", "--save", ""]].concat(),
            ));
            files.push(file);
        }
        let cluster = Self { nodes, files };
        for (index, slots) in ["0 5460", "5461 10922", "10923 16383"].iter().enumerate() {
            cluster.ask(index, &format!("CLUSTER SET-CONFIG-EPOCH {}", index + 1));
            cluster.ask(index, &format!("CLUSTER ADDSLOTSRANGE {slots}"));
        }
        wait_until("the Cluster to be well", || {
            let known = cluster.ask(0, "CLUSTER NODES").text();
            for (index, bus) in buses.iter().enumerate().skip(1) {
                let port = cluster.nodes[index].address().port();
                // A handshake that comes to nothing is forgotten.
                if !known.contains(&format!(":{port}@")) {
                    cluster.ask(0, &format!("CLUSTER MEET 127.0.0.1 {port} {bus}"));
                }
            }
            let is_well = |info: String| info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3");
            (0..3).all(|index| is_well(cluster.ask(index, "CLUSTER INFO").text()))
        });
        cluster
    }

    /// What a node replies to somebody who is connected to it directly.
    #[track_caller]
    fn ask(&self, index: usize, line: &str) -> Frame {
        let reply = self.direct(index).ask(line);
        assert!(!reply.is_error(), "{line}: {reply:?}");
        reply
    }

    fn direct(&self, index: usize) -> Wire {
        Wire::connect(self.nodes[index].address())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes.clear();
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// redouble in front of three masters.
struct Front {
    server: Server,
    cluster: Cluster,
}

impl Front {
    fn start() -> Self {
        let cluster = Cluster::start();
        let url = format!("redis://{}", cluster.nodes[0].address());
        let builder = Server::builder().port(0).upstream_cluster(url).upstream_disposable();
        Self { server: builder.spawn().expect("a front"), cluster }
    }

    /// The real address of a node.
    fn name(&self, index: usize) -> String {
        self.cluster.nodes[index].address().to_string()
    }

    fn status(&self, index: usize) -> NodeStatus {
        let nodes = self.server.nodes().expect("there is a deployment");
        nodes.into_iter().find(|node| node.info.address == self.name(index)).expect("the node is known")
    }

    /// Where clients find a node.
    fn address(&self, index: usize) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.status(index).port))
    }

    /// A client of a node.
    fn client(&self, index: usize, name: &str) -> Wire {
        let mut wire = Wire::connect(self.address(index));
        assert_eq!(wire.call(&["CLIENT", "SETNAME", name]), Frame::status("OK"));
        wire
    }

    /// A key that this node has.
    fn key(&self, index: usize) -> String {
        let slots = self.status(index).info.slots;
        let slot = |key: &String| self.cluster.ask(0, &format!("CLUSTER KEYSLOT {key}")).integer();
        let is_here = |key: &String| {
            let slot = slot(key);
            slots.iter().any(|(first, last)| (i64::from(*first)..=i64::from(*last)).contains(&slot))
        };
        (0..).map(|number| format!("key:{number}")).find(is_here).expect("a node has slots")
    }

    fn journal(&self) -> JournalGuard {
        self.server.journal()
    }
}

#[test]
fn nothing_passes_to_or_from_a_node_that_is_cut_off_until_it_is_healed() {
    let front = Front::start();
    let (node, key) = (front.name(0), front.key(0));
    let list = format!("list:{{{key}}}");
    let [mut writer, mut waiter, mut listener] = ["cut-1", "cut-2", "cut-3"].map(|name| front.client(0, name));
    let mut free = front.client(0, "free");
    listener.ask("SUBSCRIBE news");
    waiter.send(format!("BLPOP {list} 0\r\n").as_bytes());
    let mut direct = front.cluster.direct(0);
    wait_until("the waiter to be blocked", || direct.ask("INFO clients").text().contains("blocked_clients:1"));
    front.server.cut_node_from(&node, "cut-*").expect("it is not cut off yet");
    assert_eq!(front.status(0).cut_from, ["cut-*"]);
    writer.send(format!("SET {key} cut\r\n").as_bytes());
    assert_eq!(direct.ask(&format!("RPUSH {list} item")), Frame::Integer(1));
    assert_eq!(direct.ask("PUBLISH news late"), Frame::Integer(1));
    // What others have sent would have come before these replies.
    for _ in 0..50 {
        assert!(!free.ask(&format!("EXISTS {key}")).is_error());
    }
    assert_eq!(direct.ask(&format!("GET {key}")), Frame::NullBulk, "a command that is cut off has not run");
    for client in [&mut writer, &mut waiter, &mut listener] {
        assert!(!client.is_readable(), "nothing comes from a node that is cut off");
    }
    front.server.heal_node(&node).expect("it is cut off");
    assert_eq!(writer.expect(), Frame::status("OK"));
    assert_eq!(waiter.expect().items()[1].text(), "item");
    assert_eq!(listener.expect().items()[2].text(), "late");
    assert!(front.server.heal_node(&node).is_err(), "there is nothing to heal any more");
}

#[test]
fn the_other_nodes_notice_nothing_of_a_cut() {
    let front = Front::start();
    let node = front.name(1);
    front.server.cut_node(&node).expect("it is not cut off yet");
    assert!(front.server.cut_node(&node).is_err(), "it is cut off already");
    let mut client = Wire::connect(front.address(0));
    assert_eq!(client.ask(&format!("SET {} there", front.key(0))), Frame::status("OK"));
    // Who has the key is told as ever, and the client finds nobody there.
    let moved = client.ask(&format!("SET {} here", front.key(1)));
    assert!(moved.text().ends_with(&front.address(1).to_string()), "{moved:?}");
    let mut there = Wire::connect(front.address(1));
    there.send(b"PING\r\n");
    assert!(client.ask("CLUSTER INFO").text().contains("cluster_state:ok"));
    assert!(front.status(1).info.is_reachable && !there.is_readable());
    // Whoever drives the test gets through, also there.
    assert_eq!(Wire::connect(front.address(1)).ask(&format!("REDOUBLE NODE HEAL {node}")), Frame::status("OK"));
    assert_eq!(there.expect(), Frame::status("PONG"));
}

#[test]
fn a_stopped_node_refuses_connections_and_has_its_port_again_afterwards() {
    let front = Front::start();
    let (mut here, mut there) = (front.client(0, "here"), front.client(1, "there"));
    let address = front.address(1);
    front.server.stop_node(&front.name(1)).expect("it runs");
    assert!(there.is_closed());
    assert!(TcpStream::connect(address).is_err(), "{address} refuses connections");
    assert!(!here.ask("PING").is_error(), "clients of other nodes stay");
    assert!(front.server.stop_node(&front.name(1)).is_err(), "it is stopped already");
    front.server.stop_node(&front.name(2)).expect("it runs");
    let last = here.ask(&format!("REDOUBLE NODE STOP {}", front.name(0)));
    assert!(last.text().contains("the last one that runs"), "{last:?}");
    assert!(front.cluster.ask(1, "CLUSTER INFO").text().contains("cluster_state:ok"));
    front.server.start_node(&front.name(1)).expect("it is stopped");
    assert_eq!(front.address(1), address);
    assert_eq!(front.client(1, "again").ask(&format!("SET {} x", front.key(1))), Frame::status("OK"));
    // The client that stops its own node gets its reply.
    let mut own = front.client(1, "own");
    assert_eq!(own.ask(&format!("REDOUBLE NODE STOP {address}")), Frame::status("OK"));
    assert!(own.is_closed());
}

#[test]
fn a_node_that_is_gone_refuses_connections_here_too_until_it_is_back() {
    let mut front = Front::start();
    let (address, mut clients) = (front.address(2), [front.client(2, "one"), front.client(2, "other")]);
    let node = front.cluster.nodes.remove(2);
    let real = node.address();
    drop(node);
    for client in &mut clients {
        assert!(client.is_closed());
    }
    // A process that ends may have accepted a last connection a moment ago.
    let is_refused = |error: std::io::Error| error.kind() == std::io::ErrorKind::ConnectionRefused;
    wait_until("connections to be refused", || TcpStream::connect(address).is_err_and(is_refused));
    let _somebody_else = std::net::TcpListener::bind(real).expect("the port is free again");
    wait_until("connections to be accepted again", || TcpStream::connect(address).is_ok());
}

#[test]
fn the_commands_of_a_slow_node_take_as_much_longer_as_was_said_last() {
    let front = Front::start();
    let (mut slow, mut quick) = (front.client(0, "slow"), front.client(1, "quick"));
    let (slow_get, quick_get) = (format!("GET {}", front.key(0)), format!("GET {}", front.key(1)));
    let journal = front.journal();
    front.server.slow_node(&front.name(0), Duration::from_secs(600)).expect("a node");
    slow.send(format!("{slow_get}\r\n").as_bytes());
    assert_eq!(quick.ask(&quick_get), Frame::NullBulk);
    // Whoever waits already goes on when the duration changes.
    front.server.slow_node(&front.name(0), Duration::from_millis(40)).expect("a node");
    assert_eq!(slow.expect(), Frame::NullBulk);
    assert_eq!(slow.ask(&slow_get), Frame::NullBulk);
    let entries = journal.entries(Pattern::on("GET").node(front.name(0).as_str()));
    assert!(entries.len() == 2 && entries[1].duration >= 40_000, "{entries:?}");
    assert_eq!(front.status(0).slowness, Duration::from_millis(40));
    front.server.slow_node(&front.name(0), Duration::ZERO).expect("a node");
    assert_eq!(front.status(0).slowness, Duration::ZERO);
}

#[test]
fn rules_and_queries_find_the_node_and_the_slots_of_a_command() {
    let front = Front::start();
    let journal = front.journal();
    let address = front.address(2).to_string();
    let fault = Fault::new("down", Verdict::error("DOWN")).of(Pattern::on("SET").node(address.as_str()));
    let fault = front.server.fault(fault).expect("a node by its local address");
    let set = |index: usize| front.client(index, "client").ask(&format!("SET {} x", front.key(index)));
    assert_eq!([set(0), set(1), set(2)], [Frame::status("OK"), Frame::status("OK"), Frame::error("DOWN")]);
    drop(fault);
    let slots = front.status(1).info.slots[0];
    let named = |pattern: Pattern| -> Vec<Option<String>> {
        journal.entries(pattern).into_iter().map(|entry| entry.node).collect()
    };
    assert_eq!(named(Pattern::on("SET").slots(slots.0..=slots.1)), [Some(front.name(1))]);
    assert_eq!(named(Pattern::on("SET").node(NodeRole::Master)).len(), 3);
    assert!(named(Pattern::on("SET").node(NodeRole::Replica)).is_empty());
    let unknown = front.server.fault(Fault::new("x", Verdict::Hang).of(Pattern::any().node("127.0.0.1:1")));
    let error = unknown.err().expect("there is no such node").to_string();
    assert!((0..3).all(|index| error.contains(&front.name(index))), "{error}");
}

#[test]
fn a_reset_brings_every_node_back() {
    let front = Front::start();
    front.server.cut_node(&front.name(0)).expect("it is not cut off yet");
    front.server.slow_node(&front.name(1), Duration::from_secs(600)).expect("a node");
    front.server.stop_node(&front.name(2)).expect("it runs");
    front.server.reset();
    for index in 0..3 {
        assert_eq!(front.client(index, "client").ask(&format!("SET {} x", front.key(index))), Frame::status("OK"));
    }
}

#[test]
fn a_server_that_was_stopped_serves_every_node_again() {
    let front = Front::start();
    let addresses: Vec<SocketAddr> = (0..3).map(|index| front.address(index)).collect();
    front.server.stop_node(&front.name(1)).expect("it runs");
    front.server.stop().expect("it runs");
    assert!(addresses.iter().all(|address| TcpStream::connect(address).is_err()));
    front.server.start().expect("it is stopped");
    for address in addresses {
        assert_eq!(Wire::connect(address).ask("PING"), Frame::status("PONG"));
    }
}
