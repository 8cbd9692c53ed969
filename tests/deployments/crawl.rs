//! Looks for real addresses in everything that a client can be told through redouble.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::front::Front;
use super::support::deployments::{Cluster, Node, SentinelSet, slot_of};
use super::support::wire::{Frame, Wire, request};
use super::support::{Deadline, wait_for};

/// Everything that must not leave: the ports of nodes. Those of the cluster bus are none that clients connect to.
pub struct Crawl {
    ports: BTreeSet<u16>,
    leaks: BTreeSet<String>,
    replies: usize,
}

impl Crawl {
    pub fn of<'a>(nodes: impl Iterator<Item = &'a Node>) -> Self {
        let ports = nodes.map(Node::port).collect();
        Self { ports, leaks: BTreeSet::new(), replies: 0 }
    }

    /// One more port that must not leave.
    pub fn add(&mut self, port: u16) {
        self.ports.insert(port);
    }

    /// Looks at what came for a command.
    pub fn look(&mut self, asked: &str, reply: &Frame) {
        self.replies += 1;
        if let Some(found) = self.leak(reply) {
            self.leaks.insert(format!("{asked}: {found}"));
        }
    }

    /// A real port in a reply, with what is around it.
    fn leak(&self, reply: &Frame) -> Option<String> {
        match reply {
            Frame::Integer(number) => {
                let port = u16::try_from(*number).ok()?;
                self.ports.contains(&port).then(|| format!("the number {port}"))
            }
            Frame::Status(bytes)
            | Frame::Error(bytes)
            | Frame::Bulk(bytes)
            | Frame::Double(bytes)
            | Frame::BigNumber(bytes)
            | Frame::Verbatim(bytes)
            | Frame::BulkError(bytes) => self.leak_in_text(&String::from_utf8_lossy(bytes)),
            Frame::Array(items)
            | Frame::Map(items)
            | Frame::Set(items)
            | Frame::Push(items)
            | Frame::Attribute(items) => items.iter().find_map(|item| self.leak(item)),
            Frame::NullBulk | Frame::NullArray | Frame::Null | Frame::Boolean(_) => None,
        }
    }

    fn leak_in_text(&self, text: &str) -> Option<String> {
        let line_with = |digits: &str| text.lines().find(|line| line.contains(digits)).unwrap_or(text).to_owned();
        let numbers = text.split(|byte: char| !byte.is_ascii_digit());
        let found = numbers.filter_map(|digits| Some((digits, digits.parse().ok()?)));
        let mut found = found.filter(|(_, port): &(&str, u16)| self.ports.contains(port));
        found.next().map(|(digits, _)| line_with(digits))
    }

    /// Sends a command and looks at the reply. What INFO counts may be the number of a port once, and not every time.
    pub fn ask(&mut self, wire: &mut Wire, line: &str) -> Frame {
        let mut reply = wire.ask(line);
        for _ in 0..2 {
            if self.leak(&reply).is_none() {
                break;
            }
            reply = wire.ask(line);
        }
        self.look(line, &reply);
        reply
    }

    pub fn verdict(self) -> Result<(), String> {
        if self.leaks.is_empty() {
            Ok(())
        } else {
            Err(format!(
                "{} of {} replies leak: {}",
                self.leaks.len(),
                self.replies,
                Vec::from_iter(self.leaks).join("\n  ")
            ))
        }
    }
}

/// The commands of every node that can tell addresses.
const OF_ALL: &[&str] = &[
    "INFO",
    "INFO everything",
    "INFO replication",
    "INFO server",
    "ROLE",
    "CLIENT LIST",
    "CLIENT INFO",
    "CLIENT LIST TYPE normal",
    "ACL LOG",
    "CONFIG GET *",
    "CONFIG GET port",
    "CONFIG GET replicaof",
    "MEMORY DOCTOR",
    "HELLO",
];

const OF_CLUSTER: &[&str] = &[
    "CLUSTER SLOTS",
    "CLUSTER SHARDS",
    "CLUSTER NODES",
    "CLUSTER LINKS",
    "CLUSTER INFO",
    "CLUSTER MYID",
    "CLUSTER HELP",
    "CLUSTER BUMPEPOCH",
    "CLUSTER NOSUCH",
    "CLUSTER MEET nowhere 1",
    "CLUSTER FORGET 0123456789012345678901234567890123456789",
    "REPLICAOF 127.0.0.1 1",
];

const OF_SENTINELS: &[&str] = &[
    "SENTINEL MASTERS",
    "SENTINEL MASTER mymaster",
    "SENTINEL REPLICAS mymaster",
    "SENTINEL SLAVES mymaster",
    "SENTINEL SENTINELS mymaster",
    "SENTINEL GET-MASTER-ADDR-BY-NAME mymaster",
    "SENTINEL CKQUORUM mymaster",
    "SENTINEL INFO-CACHE mymaster",
    "SENTINEL CONFIG GET *",
    "SENTINEL PENDING-SCRIPTS",
    "SENTINEL DEBUG",
    "SENTINEL MYID",
    "SENTINEL FLUSHCONFIG",
    "SENTINEL HELP",
    "SENTINEL MASTER nobody",
    "INFO sentinel",
    "ROLE",
    "HELLO",
    "CLIENT LIST",
];

/// A connection that speaks one of the two protocols.
pub fn speaking(address: SocketAddr, protocol: u8) -> Wire {
    let mut wire = Wire::connect(address);
    let hello = wire.ask(&format!("HELLO {protocol}"));
    assert!(!hello.is_error(), "HELLO {protocol}: {hello:?}");
    wire
}

/// Asks every node of a Cluster for everything, in both protocols.
pub fn crawl_cluster(crawl: &mut Crawl, cluster: &Cluster, front: &Front) {
    for (_, address) in front.nodes_of(cluster.running()) {
        for protocol in [2, 3] {
            let mut wire = speaking(address, protocol);
            for line in OF_ALL.iter().chain(OF_CLUSTER) {
                crawl.ask(&mut wire, line);
            }
            for line in cluster.lines() {
                for command in ["REPLICAS", "SLAVES", "COUNT-FAILURE-REPORTS"] {
                    crawl.ask(&mut wire, &format!("CLUSTER {command} {}", line.id));
                }
            }
            crawl_queued(
                crawl,
                &mut wire,
                &["CLUSTER SLOTS", "CLUSTER NODES", "CLUSTER SHARDS", "INFO replication", "ROLE"],
            );
            crawl_redirects(crawl, &mut wire);
        }
    }
}

/// The same in a transaction, in small letters, inline, and many in one trip.
fn crawl_queued(crawl: &mut Crawl, wire: &mut Wire, lines: &[&str]) {
    wire.ask("MULTI");
    for line in lines {
        crawl.ask(wire, line);
    }
    let reply = wire.ask("EXEC");
    assert_eq!(reply.items().len(), lines.len(), "EXEC: {reply:?}");
    crawl.look("EXEC", &reply);
    let mut trip = Vec::new();
    for line in lines {
        trip.extend(format!("{}\r\n", line.to_lowercase()).into_bytes());
        trip.extend(request(&line.split(' ').collect::<Vec<_>>()));
    }
    wire.send(&trip);
    for line in lines.iter().flat_map(|line| [line, line]) {
        let reply = wire.expect();
        assert!(!reply.is_error(), "{line}: {reply:?}");
        crawl.look(&format!("{line} in a trip"), &reply);
    }
}

/// Provokes the errors that name another node.
fn crawl_redirects(crawl: &mut Crawl, wire: &mut Wire) {
    for number in 0..20 {
        let key = format!("key:{number}");
        for line in [
            format!("GET {key}"),
            format!("SET {key} 1"),
            format!("EVAL return(redis.call('GET',KEYS[1])) 1 {key}"),
            format!("EVAL return(redis.pcall('GET','{key}')) 0"),
            format!("EVAL return(redis.call('GET','{key}')) 0"),
            format!("SSUBSCRIBE {key}"),
            format!("SPUBLISH {key} message"),
            format!("BLPOP {key}:none 0.01"),
            "MULTI".to_owned(),
            format!("GET {key}"),
            "EXEC".to_owned(),
            format!("WATCH {key}"),
            "MULTI".to_owned(),
            format!("EVAL return(redis.call('GET','{key}')) 0"),
            "EXEC".to_owned(),
            "DISCARD".to_owned(),
            "ASKING".to_owned(),
            format!("GET {key}"),
            "READONLY".to_owned(),
            format!("GET {key}"),
            format!("SET {key} 1"),
            "READWRITE".to_owned(),
        ] {
            if line.starts_with("SSUBSCRIBE") {
                // A subscriber of RESP2 may do nothing else.
                let mut subscriber = Wire::connect(wire.tcp().peer_addr().expect("a peer"));
                crawl.ask(&mut subscriber, &line);
            } else {
                crawl.ask(wire, &line);
            }
        }
    }
}

/// Asks every Sentinel and every node behind them for everything, in both protocols.
pub fn crawl_sentinels(crawl: &mut Crawl, set: &SentinelSet, front: &Front) {
    let running = || set.all().filter(|node| node.is_running());
    for (port, address) in front.nodes_of(running()) {
        let is_sentinel = set.sentinels.iter().any(|sentinel| sentinel.port() == port);
        for protocol in [2, 3] {
            let mut wire = speaking(address, protocol);
            for line in if is_sentinel { OF_SENTINELS } else { OF_ALL } {
                crawl.ask(&mut wire, line);
            }
            if is_sentinel {
                let master = crawl.ask(&mut wire, "SENTINEL GET-MASTER-ADDR-BY-NAME mymaster");
                let [host, port] = [0, 1].map(|index| master.items()[index].text());
                let asked = format!("SENTINEL IS-MASTER-DOWN-BY-ADDR {host} {port} 0 *");
                crawl.ask(&mut wire, &asked);
            } else {
                crawl_queued(crawl, &mut wire, &["INFO replication", "ROLE", "CONFIG GET replicaof", "CLIENT LIST"]);
            }
        }
    }
}

/// No reply of a Cluster through redouble names a real port: in both protocols, of every node, also while slots move and a
/// replica takes over.
pub fn no_real_address_of_a_cluster_leaves() -> Result<(), String> {
    let cluster = Cluster::start(3, 1);
    let front = Front::of_cluster(&cluster.nodes[0].address().to_string(), &[]);
    let mut crawl = Crawl::of(cluster.nodes.iter());
    crawl_cluster(&mut crawl, &cluster, &front);
    // A slot on its way has ASK and TRYAGAIN.
    let slot = slot_of("moving");
    let lines = cluster.lines();
    let from = lines.iter().find(|line| line.owns(slot)).expect("a master");
    let to = lines.iter().find(|line| line.is_master() && line.id != from.id).expect("another master");
    cluster.at(to.port).must(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", from.id));
    cluster.at(from.port).must(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", to.id));
    let at_from = front.address_of(cluster.at(from.port));
    for protocol in [2, 3] {
        let mut wire = speaking(at_from, protocol);
        let reply = crawl.ask(&mut wire, "GET moving");
        if !reply.text().starts_with("ASK ") {
            return Err(format!("a slot on its way: {reply:?}"));
        }
        let there = reply.text().rsplit(' ').next().and_then(|address| address.parse::<SocketAddr>().ok());
        if there != Some(front.address_of(cluster.at(to.port))) {
            return Err(format!("ASK names another node: {reply:?}"));
        }
        for line in [
            "SET moving 1",
            "CLUSTER NODES",
            "CLUSTER SLOTS",
            "MULTI",
            "SET moving 1",
            "EXEC",
            "EVAL return(redis.call('GET',KEYS[1])) 1 moving",
            "BLPOP moving 0.01",
        ] {
            crawl.ask(&mut wire, line);
        }
    }
    cluster.at(from.port).must(&format!("CLUSTER SETSLOT {slot} STABLE"));
    cluster.at(to.port).must(&format!("CLUSTER SETSLOT {slot} STABLE"));
    // Whoever waits in a slot that moves away is redirected, and whoever listens there is told that this is over.
    let mut waiting: Vec<Wire> = [2, 3].map(|protocol| speaking(at_from, protocol)).into();
    for wire in &mut waiting {
        wire.send(b"BLPOP moving 0\r\n");
    }
    let mut listening: Vec<Wire> = [2, 3].map(|protocol| speaking(at_from, protocol)).into();
    for wire in &mut listening {
        crawl.ask(wire, "SSUBSCRIBE moving");
    }
    wait_for("two clients to wait", || {
        let count = cluster.at(from.port).client_list().values().filter(|line| line.contains("cmd=blpop")).count();
        if count == 2 { Ok(()) } else { Err(count) }
    });
    cluster.move_slots(&[slot]);
    for (kind, wires) in [("a client that waits", &mut waiting), ("a subscriber", &mut listening)] {
        for wire in wires {
            let told = wire.read().map_err(|error| format!("{kind} when the slot has moved: {error}"))?;
            crawl.look(kind, &told);
        }
    }
    let promoted = cluster.fail_over(from.port);
    crawl_cluster(&mut crawl, &cluster, &front);
    let mut wire = Wire::connect(front.address_of(cluster.at(promoted)));
    crawl.ask(&mut wire, "CLUSTER SLOTS");
    crawl.verdict()
}

/// No reply and no message of Sentinels and their nodes names a real port, also while another node becomes the master.
pub fn no_real_address_of_a_sentinel_set_leaves() -> Result<(), String> {
    let mut set = SentinelSet::start();
    let front = Front::of_sentinels(&set.addresses(), &[]);
    let mut crawl = Crawl::of(set.all());
    crawl_sentinels(&mut crawl, &set, &front);
    let mut listening = Vec::new();
    for (_, address) in front.nodes_of(set.all()) {
        for protocol in [2, 3] {
            let mut wire = speaking(address, protocol);
            crawl.ask(&mut wire, "PSUBSCRIBE *");
            listening.push((address, wire));
        }
    }
    set.kill_master();
    set.until_well(1);
    // A Sentinel tells of the switch, and a node passes on what Sentinels publish about themselves every two seconds.
    let deadline = Deadline::start();
    let mut heard = BTreeSet::new();
    let wanted = ["+switch-master", "+sdown", "__sentinel__:hello"];
    while !wanted.iter().all(|channel| heard.contains(*channel)) {
        deadline.check(format_args!("messages; there were {heard:?}"));
        for (address, wire) in &mut listening {
            while wire.is_readable() {
                let Ok(message) = wire.read() else { break };
                if let [.., channel, _] = message.items() {
                    heard.insert(channel.text());
                }
                crawl.look(&format!("a message at {address}"), &message);
            }
        }
        listening.retain_mut(|(_, wire)| !wire.is_readable());
    }
    crawl_sentinels(&mut crawl, &set, &front);
    crawl.verdict()
}

/// What users keep is theirs: a value that looks like an address, a message, a list that looks like CLUSTER SLOTS.
pub fn data_that_looks_like_addresses_is_not_changed() -> Result<(), String> {
    let cluster = Cluster::start(3, 1);
    let front = Front::of_cluster(&cluster.nodes[0].address().to_string(), &[]);
    let real = cluster.nodes[1].address();
    let keeper = cluster.lines().into_iter().find(|line| line.owns(slot_of("{t}"))).expect("a master").port;
    for protocol in [2, 3] {
        let mut wire = speaking(front.address_of(cluster.at(keeper)), protocol);
        let texts = [
            real.to_string(),
            format!("MOVED 1 {real}"),
            format!("-MOVED 1 {real}\r\n"),
            cluster.nodes[0].must("CLUSTER NODES").text(),
            format!("+switch-master mymaster 127.0.0.1 {} 127.0.0.1 {}", real.port(), cluster.nodes[2].port()),
        ];
        for text in &texts {
            let port = real.port().to_string();
            let same = |asked: &str, reply: Frame, expected: &[&str]| {
                let got: Vec<String> = reply.items().iter().map(Frame::text).collect();
                if got == expected { Ok(()) } else { Err(format!("{asked} gives {reply:?} and not {expected:?}")) }
            };
            wire.call(&["SET", "{t}text", text]);
            let got = wire.call(&["GET", "{t}text"]);
            if got != Frame::bulk(text) {
                return Err(format!("GET gives {got:?} and not {text:?}"));
            }
            wire.call(&["DEL", "{t}list", "{t}hash"]);
            wire.call(&["RPUSH", "{t}list", text, "127.0.0.1", &port]);
            same("LRANGE", wire.call(&["LRANGE", "{t}list", "0", "-1"]), &[text, "127.0.0.1", &port])?;
            wire.call(&["HSET", "{t}hash", "port", &port]);
            same("HGETALL", wire.call(&["HGETALL", "{t}hash"]), &["port", &port])?;
            let script = "return {ARGV[1], tonumber(ARGV[2]), {'127.0.0.1', tonumber(ARGV[2])}}";
            let reply = wire.call(&["EVAL", script, "1", "{t}", text, &port]);
            let expected = Frame::Array(vec![
                Frame::bulk(text),
                Frame::Integer(i64::from(real.port())),
                Frame::Array(vec![Frame::bulk("127.0.0.1"), Frame::Integer(i64::from(real.port()))]),
            ]);
            if reply != expected {
                return Err(format!("EVAL gives {reply:?} and not {expected:?}"));
            }
            let mut subscriber = speaking(front.address(), protocol);
            subscriber.ask("SUBSCRIBE +switch-master");
            wire.call(&["PUBLISH", "+switch-master", text]);
            let message = subscriber.expect();
            if message.items()[2] != Frame::bulk(text) {
                return Err(format!("a message is {message:?} and not {text:?}"));
            }
        }
    }
    Ok(())
}
