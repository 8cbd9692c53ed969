//! Deployments of the real server, small and quick to fail over: Clusters, and sets of Sentinels with a master and
//! replicas. Every process of one ends with its value, also when a test panics.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;

use super::Deadline;
use super::wire::{Frame, Wire, request};

/// The number of hash slots of every Cluster.
pub const SLOTS: u16 = 16_384;

/// The ports that nodes take. They and those of the cluster bus, 10,000 above them, are below those that systems give out to
/// outgoing connections.
const PORTS: std::ops::Range<u16> = 17_000..18_000;

/// How far the port of the cluster bus is above that of the node.
const BUS: u16 = 10_000;

/// One redis-server.
pub struct Node {
    child: Option<Child>,
    port: u16,
    /// The port for TLS, where the nodes speak it to each other.
    tls_port: Option<u16>,
    folder: PathBuf,
    /// Where its directives stand. A Sentinel rewrites it.
    file: PathBuf,
    is_sentinel: bool,
    /// The password that the administrator's connections give first.
    password: Option<String>,
}

/// A failover takes seconds on a quiet machine, and nobody knows how many on a busy one.
fn patience() -> Deadline {
    Deadline::within(Duration::from_secs(90))
}

/// Lets the servers work for a moment between two looks at a state that takes seconds: whoever asks all the time takes the
/// processor from them.
fn look_again(deadline: &Deadline, awaited: impl Display) {
    deadline.check(awaited);
    std::thread::park_timeout(Duration::from_millis(20));
}

fn deployment_folder() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("redouble-deployment-{}-{number}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// A port that was free a moment ago, with its port of the cluster bus. No two calls of one process return the same until all
/// have been returned.
pub fn free_node_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let count = PORTS.end - PORTS.start;
    let offset = (std::process::id() % u32::from(count)) as u16 / 10 * 10;
    for _ in 0..count {
        let port = PORTS.start + (offset + NEXT.fetch_add(1, Ordering::Relaxed) % count) % count;
        let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if is_free(port) && is_free(port + BUS) {
            return port;
        }
    }
    panic!("no port from {} to {} is free", PORTS.start, PORTS.end)
}

impl Node {
    /// Starts a server on a free port, with these lines in its configuration file besides what all have.
    fn start(folder: &Path, lines: &[String], is_sentinel: bool) -> Self {
        loop {
            let port = free_node_port();
            // No name of a file has the port: whoever looks for ports in replies would find it.
            static COUNT: AtomicUsize = AtomicUsize::new(0);
            let own = folder.join(format!("node-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
            fs::create_dir_all(&own).expect("a folder");
            let file = own.join("server.conf");
            let tls_port = lines.iter().any(|line| line == "tls-cluster yes").then(free_node_port);
            let tls = tls_port.map_or(String::new(), |port| format!("tls-port {port}\n"));
            let lines = lines.join("\n");
            let text = format!("port {port}\n{tls}bind 127.0.0.1\nlogfile log\nsave \"\"\n{lines}\n");
            fs::write(&file, text).expect("a file");
            let mut node = Self { child: None, port, tls_port, folder: own, file, is_sentinel, password: None };
            // Another process may take the port between the look and the start.
            if node.run() {
                return node;
            }
        }
    }

    /// Starts the process, and says whether it took its port.
    fn run(&mut self) -> bool {
        // `make deployments REAL=` names another one, such as valkey-server.
        let program = std::env::var_os("REDOUBLE_TESTS_REAL").unwrap_or_else(|| "redis-server".into());
        let mut command = Command::new(program);
        command.arg(&self.file).arg("--dir").arg(&self.folder);
        if self.is_sentinel {
            command.arg("--sentinel");
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let ready = if self.is_sentinel { "Sentinel ID is" } else { "Ready to accept connections" };
        let seen_before = self.log().matches(ready).count();
        self.child = Some(command.spawn().expect("the real server starts: `make redis` installs redis-server"));
        let deadline = patience();
        loop {
            // Beside the line, the port answers: a Sentinel says who it is before it listens to anybody.
            if self.log().matches(ready).count() > seen_before && TcpStream::connect(self.address()).is_ok() {
                return true;
            }
            let child = self.child.as_mut().expect("it was just started");
            if child.try_wait().expect("a child of this process").is_some() {
                self.child = None;
                assert!(self.log().contains("bind: Address already in use"), "redis-server ended:\n{}", self.log());
                return false;
            }
            look_again(&deadline, format_args!("redis-server to be ready:\n{}", self.log()));
        }
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port at which it speaks TLS to the other nodes.
    pub fn tls_port(&self) -> u16 {
        self.tls_port.expect("a node with TLS")
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// The process, unless it was killed.
    pub fn process(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    pub fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// A connection of the administrator's.
    pub fn wire(&self) -> Wire {
        let mut wire = Wire::connect(self.address());
        if let Some(password) = &self.password {
            assert_eq!(wire.call(&["AUTH", password]), Frame::status("OK"));
        }
        wire
    }

    /// Sends one command on a connection of its own, again if that is closed: a Sentinel closes the connections to a node whose
    /// role it changes.
    pub fn ask(&self, line: &str) -> Frame {
        let deadline = patience();
        loop {
            let mut wire = self.wire();
            wire.send(&request(&line.split_whitespace().collect::<Vec<_>>()));
            match wire.read() {
                Ok(reply) => return reply,
                Err(error) => look_again(&deadline, format_args!("a reply of port {} to {line}: {error}", self.port)),
            }
        }
    }

    /// Sends one command that must not fail.
    #[track_caller]
    pub fn must(&self, line: &str) -> Frame {
        let reply = self.ask(line);
        assert!(!reply.is_error(), "{line} on port {}: {reply:?}", self.port);
        reply
    }

    /// A field of INFO, or of CLUSTER INFO.
    pub fn info(&self, command: &str, field: &str) -> String {
        let text = self.must(command).text();
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':').map(str::to_owned));
        line.unwrap_or_default()
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts a killed server again, where it was.
    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "it still runs");
        let deadline = patience();
        while !self.run() {
            look_again(&deadline, format_args!("port {} to be free again", self.port));
        }
    }

    /// Starts a killed server again, with the same identity on another port.
    pub fn restart_elsewhere(&mut self) {
        let text = fs::read_to_string(&self.file).expect("the file of its directives");
        let before = format!("port {}\n", self.port);
        self.port = free_node_port();
        fs::write(&self.file, text.replace(&before, &format!("port {}\n", self.port))).expect("a file");
        self.restart();
    }

    /// What CLIENT LIST says of each connection, by the address of the peer.
    pub fn client_list(&self) -> BTreeMap<String, String> {
        let text = self.must("CLIENT LIST").text();
        let field = |line: &str| line.split(' ').find_map(|field| field.strip_prefix("addr=").map(str::to_owned));
        text.lines().filter_map(|line| Some((field(line)?, line.to_owned()))).collect()
    }

    /// Holds all writes of clients back until the replicas have those before, so that killing it loses none. Sentinels
    /// publish here, too, and would be held as well.
    pub fn hold_writes(&self) {
        self.must("CLIENT PAUSE 60000 WRITE");
        self.until_replicated();
    }

    /// Refuses all writes of clients, and waits until the replicas have those before.
    fn refuse_writes(&self) {
        self.must("CONFIG SET min-replicas-to-write 100");
        self.until_replicated();
    }

    fn until_replicated(&self) {
        let deadline = patience();
        loop {
            let text = self.ask("INFO replication").text();
            let field =
                |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned();
            let offset = field("master_repl_offset:");
            let is_online = |line: &&str| line.starts_with("slave") && line.contains("state=online");
            let mut online = text.lines().filter(is_online).peekable();
            let has_all = |line: &str| line.split(',').any(|field| field.strip_prefix("offset=") == Some(&offset));
            if online.peek().is_some() && online.all(has_all) {
                return;
            }
            look_again(&deadline, format_args!("the replicas of port {} to have all: {text}", self.port));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A Cluster of redis-server.
pub struct Cluster {
    pub nodes: Vec<Node>,
    /// What stands in the configuration file of each.
    lines: Vec<String>,
    folder: PathBuf,
}

/// A line of CLUSTER NODES.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterLine {
    pub id: String,
    pub port: u16,
    pub flags: Vec<String>,
    pub master: String,
    pub slots: Vec<(u16, u16)>,
}

impl ClusterLine {
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let id = words.next()?.to_owned();
        let address = words.next()?.split('@').next()?;
        let port = address.rsplit_once(':')?.1.parse().ok()?;
        let flags = words.next()?.split(',').map(str::to_owned).collect();
        let master = words.next()?.to_owned();
        let range = |word: &str| {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        Some(Self { id, port, flags, master, slots: words.skip(4).filter_map(range).collect() })
    }

    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|has| has == flag)
    }

    /// Whether it is a master that is there.
    pub fn is_master(&self) -> bool {
        self.has("master") && !self.has("fail")
    }

    pub fn owns(&self, slot: u16) -> bool {
        self.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }
}

/// Sends one command that must not fail, but for replicas that are not in step yet: Valkey tells them of slots first.
#[track_caller]
fn must(wire: &mut Wire, line: &str) -> Frame {
    let deadline = patience();
    loop {
        let reply = wire.ask(line);
        if !reply.is_error() {
            return reply;
        }
        let text = reply.text();
        assert!(text.starts_with("NOREPLICAS"), "{line}: {text}");
        look_again(&deadline, format_args!("{line}: {text}"));
    }
}

/// The hash slot of a key.
pub fn slot_of(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    let hashed = tag.filter(|tag| !tag.is_empty()).unwrap_or(key);
    crc::Crc::<u16>::new(&crc::CRC_16_XMODEM).checksum(hashed.as_bytes()) % SLOTS
}

impl Cluster {
    /// Starts masters with so many replicas each, and waits until every node says that all is well.
    pub fn start(masters: usize, replicas: usize) -> Self {
        Self::start_with(masters, replicas, &[])
    }

    /// The same, with further directives.
    pub fn start_with(masters: usize, replicas: usize, directives: &[&str]) -> Self {
        let cluster = Self::empty(masters * (1 + replicas), directives);
        let nodes = &cluster.nodes;
        let (first, others) = nodes.split_first().expect("a node");
        for (index, node) in nodes.iter().enumerate() {
            node.must(&format!("CLUSTER SET-CONFIG-EPOCH {}", index + 1));
        }
        let per_master = usize::from(SLOTS).div_ceil(masters);
        for (index, node) in nodes.iter().take(masters).enumerate() {
            let (start, end) = (index * per_master, ((index + 1) * per_master).min(usize::from(SLOTS)) - 1);
            node.must(&format!("CLUSTER ADDSLOTSRANGE {start} {end}"));
        }
        for node in others {
            first.must(&format!("CLUSTER MEET 127.0.0.1 {}", node.tls_port.unwrap_or(node.port)));
        }
        let deadline = patience();
        let knows_all = |node: &Node| {
            let lines = node.cluster_lines();
            lines.len() == nodes.len() && lines.iter().all(|line| !line.has("handshake"))
        };
        while !nodes.iter().all(knows_all) {
            look_again(&deadline, "the nodes to know each other");
        }
        let ids: Vec<String> = nodes.iter().map(|node| node.must("CLUSTER MYID").text()).collect();
        for (index, node) in nodes.iter().enumerate().skip(masters) {
            node.must(&format!("CLUSTER REPLICATE {}", ids[index % masters]));
        }
        cluster.until_well();
        cluster
    }

    /// Starts nodes that know nothing of each other.
    pub fn empty(count: usize, directives: &[&str]) -> Self {
        let folder = deployment_folder();
        let mut lines: Vec<String> = [
            "cluster-enabled yes",
            "cluster-config-file nodes.conf",
            "cluster-node-timeout 2000",
            // On a busy machine an election can take long, and the replica has all writes anyway.
            "cluster-replica-validity-factor 0",
            "repl-diskless-sync-delay 0",
            "repl-ping-replica-period 1",
            "enable-debug-command yes",
        ]
        .map(str::to_owned)
        .to_vec();
        lines.extend(directives.iter().map(|line| (*line).to_owned()));
        let mut cluster = Self { nodes: Vec::new(), lines, folder };
        for _ in 0..count {
            cluster.add_empty();
        }
        cluster
    }

    /// Starts one more node, which no other one knows, and returns its port.
    pub fn add_empty(&mut self) -> u16 {
        let mut node = Node::start(&self.folder, &self.lines, false);
        node.password = self.lines.iter().find_map(|line| line.strip_prefix("requirepass ")).map(str::to_owned);
        let port = node.port;
        self.nodes.push(node);
        port
    }

    /// Waits until every running node has seen that all slots are served, and every replica is in step with its master.
    #[track_caller]
    pub fn until_well(&self) {
        let deadline = patience();
        let count = self.running().count();
        loop {
            let unwell = self.running().find_map(|node| {
                let (state, lines) = (node.info("CLUSTER INFO", "cluster_state"), node.cluster_lines());
                let link = node.info("INFO replication", "master_link_status");
                let there = lines.iter().filter(|line| line.flags.iter().all(|flag| !flag.contains("fail"))).count();
                let slots: usize = lines.iter().filter(|line| line.is_master()).map(|line| line.count()).sum();
                let is_well = state == "ok" && link != "down" && there == count && slots == usize::from(SLOTS);
                (!is_well).then(|| format!("port {}: {state}, {there} nodes, {slots} slots, link {link}", node.port))
            });
            let Some(unwell) = unwell else { return };
            look_again(&deadline, format_args!("the Cluster to be well; {unwell}"));
        }
    }

    pub fn running(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.is_running())
    }

    /// `host:port,host:port` of all nodes.
    pub fn addresses(&self) -> String {
        self.nodes.iter().map(|node| node.address().to_string()).collect::<Vec<_>>().join(",")
    }

    /// The node of a port.
    pub fn at(&self, port: u16) -> &Node {
        self.nodes.iter().find(|node| node.port == port).expect("a node of this Cluster")
    }

    /// The lines of CLUSTER NODES, from any node.
    pub fn lines(&self) -> Vec<ClusterLine> {
        self.running().next().expect("a node runs").cluster_lines()
    }

    /// The masters that are there.
    pub fn masters(&self) -> Vec<&Node> {
        self.lines()
            .iter()
            .filter(|line| line.is_master() && !line.slots.is_empty())
            .map(|line| self.at(line.port))
            .collect()
    }

    /// The replicas of a master that are there.
    pub fn replicas_of(&self, master: &Node) -> Vec<&Node> {
        let lines = self.lines();
        let id = &lines.iter().find(|line| line.port == master.port).expect("it is known").id;
        let is_replica = |line: &&ClusterLine| &line.master == id && !line.has("fail");
        lines.iter().filter(is_replica).map(|line| self.at(line.port)).collect()
    }

    /// Makes a replica of a master the master, as an operator does it, and returns its port.
    pub fn fail_over(&self, master: u16) -> u16 {
        let deadline = patience();
        // A node on a busy machine is thought to have failed now and then.
        while self.replicas_of(self.at(master)).is_empty() {
            look_again(&deadline, "a replica");
        }
        let replica = self.replicas_of(self.at(master))[0];
        loop {
            // The nodes give it up after five seconds.
            replica.ask("CLUSTER FAILOVER");
            for _ in 0..300 {
                if self.is_master(replica.port) {
                    self.until_well();
                    return replica.port;
                }
                look_again(&deadline, format_args!("port {} to be a master", replica.port));
            }
        }
    }

    /// Kills a master whose replicas have all its writes, and waits for the one that takes its place.
    pub fn kill_master(&mut self, master: u16) -> u16 {
        let replicas: Vec<u16> = self.replicas_of(self.at(master)).iter().map(|node| node.port).collect();
        self.at(master).hold_writes();
        self.nodes.iter_mut().find(|node| node.port == master).expect("it is there").kill();
        let deadline = patience();
        let promoted = loop {
            let lines = self.lines();
            if let Some(line) = lines.iter().find(|line| line.is_master() && replicas.contains(&line.port)) {
                break line.port;
            }
            look_again(&deadline, format_args!("a replica to take the place of port {master}"));
        };
        self.until_well();
        promoted
    }

    /// Whether all nodes say that it is a master.
    fn is_master(&self, port: u16) -> bool {
        let says_so = |node: &Node| node.cluster_lines().iter().any(|line| line.port == port && line.is_master());
        self.running().all(says_so)
    }

    /// Moves these slots, each from its master to the next one, with all their keys, as `redis-cli --cluster reshard` does.
    pub fn move_slots(&self, slots: &[u16]) {
        let lines: Vec<ClusterLine> =
            self.lines().into_iter().filter(|line| line.is_master() && !line.slots.is_empty()).collect();
        let mut wires: Vec<Wire> = lines.iter().map(|line| self.at(line.port).wire()).collect();
        for slot in slots {
            let from = lines.iter().position(|line| line.owns(*slot)).expect("every slot has a master");
            let to = (from + 1) % lines.len();
            must(&mut wires[to], &format!("CLUSTER SETSLOT {slot} IMPORTING {}", lines[from].id));
            must(&mut wires[from], &format!("CLUSTER SETSLOT {slot} MIGRATING {}", lines[to].id));
            loop {
                let keys = must(&mut wires[from], &format!("CLUSTER GETKEYSINSLOT {slot} 10"));
                if keys.items().is_empty() {
                    break;
                }
                let mut words = vec!["MIGRATE".to_owned(), "127.0.0.1".to_owned(), lines[to].port.to_string()];
                words.extend(["", "0", "5000"].map(str::to_owned));
                if let Some(password) = &self.nodes[0].password {
                    words.extend(["AUTH".to_owned(), password.clone()]);
                }
                words.push("KEYS".to_owned());
                words.extend(keys.items().iter().map(Frame::text));
                let reply = wires[from].call(&words);
                assert!(!reply.is_error(), "{words:?}: {reply:?}");
            }
            for index in [to, from] {
                must(&mut wires[index], &format!("CLUSTER SETSLOT {slot} NODE {}", lines[to].id));
            }
        }
        self.until_agreed();
    }

    /// Waits until all nodes name the same master for every slot.
    pub fn until_agreed(&self) {
        let deadline = patience();
        let view = |node: &Node| {
            let mut owned: Vec<(String, Vec<(u16, u16)>)> = node
                .cluster_lines()
                .into_iter()
                .filter(ClusterLine::is_master)
                .map(|line| (line.id, line.slots))
                .collect();
            owned.sort();
            owned
        };
        loop {
            let views: Vec<_> = self.running().map(view).collect();
            if views.windows(2).all(|pair| pair[0] == pair[1]) {
                return;
            }
            look_again(&deadline, "the nodes to agree on the slots");
        }
    }
}

impl ClusterLine {
    /// How many slots it has.
    pub fn count(&self) -> usize {
        self.slots.iter().map(|(first, last)| usize::from(last - first) + 1).sum()
    }
}

impl Node {
    /// What CLUSTER NODES of this node says.
    pub fn cluster_lines(&self) -> Vec<ClusterLine> {
        self.must("CLUSTER NODES").text().lines().filter_map(ClusterLine::parse).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes.clear();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Three Sentinels, and the master and the two replicas that they watch.
pub struct SentinelSet {
    pub sentinels: Vec<Node>,
    /// The master at the start, then its replicas.
    pub nodes: Vec<Node>,
    folder: PathBuf,
}

impl SentinelSet {
    /// The name of the master.
    pub const SERVICE: &str = "mymaster";

    pub fn start() -> Self {
        Self::start_with(&[], &[])
    }

    /// The same, with further directives of the data nodes and of the Sentinels.
    pub fn start_with(directives: &[&str], of_sentinels: &[&str]) -> Self {
        let folder = deployment_folder();
        let mut lines: Vec<String> =
            ["repl-diskless-sync-delay 0", "repl-ping-replica-period 1", "enable-debug-command yes"]
                .map(str::to_owned)
                .to_vec();
        lines.extend(directives.iter().map(|line| (*line).to_owned()));
        let password = directives.iter().find_map(|line| line.strip_prefix("requirepass ")).map(str::to_owned);
        let mut nodes = vec![Node::start(&folder, &lines, false)];
        let port = nodes[0].port;
        lines.push(format!("replicaof 127.0.0.1 {port}"));
        nodes.extend((0..2).map(|_| Node::start(&folder, &lines, false)));
        for node in &mut nodes {
            node.password.clone_from(&password);
        }
        let mut set = Self { sentinels: Vec::new(), nodes, folder };
        let deadline = patience();
        while set.nodes[0].must("INFO replication").text().matches("state=online").count() < 2 {
            look_again(&deadline, "the replicas to be in step");
        }
        let service = Self::SERVICE;
        let mut lines = vec![
            format!("sentinel monitor {service} 127.0.0.1 {port} 2"),
            format!("sentinel down-after-milliseconds {service} 2000"),
            format!("sentinel failover-timeout {service} 5000"),
            format!("sentinel parallel-syncs {service} 2"),
        ];
        if let Some(password) = &password {
            lines.push(format!("sentinel auth-pass {service} {password}"));
        }
        lines.extend(of_sentinels.iter().map(|line| (*line).to_owned()));
        set.sentinels = (0..3).map(|_| Node::start(&set.folder, &lines, true)).collect();
        let password = of_sentinels.iter().find_map(|line| line.strip_prefix("requirepass ")).map(str::to_owned);
        for node in &mut set.sentinels {
            node.password.clone_from(&password);
        }
        set.until_well(2);
        set
    }

    /// Waits until every Sentinel knows the two others and so many replicas that follow the master.
    pub fn until_well(&self, replicas: usize) {
        let deadline = patience();
        loop {
            let unwell = self.sentinels.iter().filter(|sentinel| sentinel.is_running()).find_map(|sentinel| {
                let others = sentinel.master_field("num-other-sentinels");
                let list = sentinel.must(&format!("SENTINEL REPLICAS {}", Self::SERVICE));
                let follows = |replica: &&Frame| {
                    let fields = fields(replica);
                    fields.get("flags").is_some_and(|flags| flags == "slave")
                        && fields.get("master-link-status").is_some_and(|status| status == "ok")
                };
                let following = list.items().iter().filter(follows).count();
                (others != "2" || following < replicas).then(|| format!("{others} others, {following} replicas"))
            });
            let Some(unwell) = unwell else { return };
            look_again(&deadline, format_args!("the Sentinels to know all: {unwell}"));
        }
    }

    /// `host:port,host:port` of the Sentinels.
    pub fn addresses(&self) -> String {
        self.sentinels.iter().map(|node| node.address().to_string()).collect::<Vec<_>>().join(",")
    }

    /// Every process of the set.
    pub fn all(&self) -> impl Iterator<Item = &Node> {
        self.sentinels.iter().chain(&self.nodes)
    }

    /// The port of the master, as the first Sentinel says.
    pub fn master(&self) -> u16 {
        self.sentinels.iter().find(|node| node.is_running()).expect("a Sentinel runs").master_port()
    }

    pub fn at(&self, port: u16) -> &Node {
        self.all().find(|node| node.port == port).expect("a node of this set")
    }

    /// Makes a replica the master, as an operator does it, and returns its port. No write is lost.
    pub fn fail_over(&self) -> u16 {
        let before = self.master();
        self.at(before).refuse_writes();
        let deadline = patience();
        loop {
            let reply = self.sentinels[0].ask(&format!("SENTINEL FAILOVER {}", Self::SERVICE));
            if reply == Frame::status("OK") {
                break;
            }
            look_again(&deadline, format_args!("SENTINEL FAILOVER: {reply:?}"));
        }
        let after = self.until_replaced(before);
        let deadline = patience();
        while self.at(before).info("INFO replication", "role") != "slave" {
            look_again(&deadline, "the former master to follow the new one");
        }
        self.at(before).must("CONFIG SET min-replicas-to-write 0");
        after
    }

    /// Kills the master, whose replicas have all its writes, and waits for the one that takes its place.
    pub fn kill_master(&mut self) -> u16 {
        let before = self.master();
        self.at(before).refuse_writes();
        self.nodes.iter_mut().find(|node| node.port == before).expect("a data node").kill();
        self.until_replaced(before)
    }

    /// Waits until all Sentinels name another master, which says that it is one.
    fn until_replaced(&self, before: u16) -> u16 {
        let deadline = patience();
        loop {
            let named: Vec<u16> = self.sentinels.iter().map(Node::master_port).collect();
            let after = named[0];
            if after != before
                && named.iter().all(|port| *port == after)
                && self.at(after).info("INFO replication", "role") == "master"
            {
                return after;
            }
            look_again(&deadline, format_args!("another master than port {before}; the Sentinels name {named:?}"));
        }
    }
}

impl Node {
    fn master_port(&self) -> u16 {
        let address = self.must(&format!("SENTINEL GET-MASTER-ADDR-BY-NAME {}", SentinelSet::SERVICE));
        address.items()[1].text().parse().expect("a port")
    }

    fn master_field(&self, name: &str) -> String {
        fields(&self.must(&format!("SENTINEL MASTER {}", SentinelSet::SERVICE))).remove(name).unwrap_or_default()
    }
}

/// Names and values that stand in turn.
fn fields(list: &Frame) -> BTreeMap<String, String> {
    list.items().chunks(2).map(|pair| (pair[0].text(), pair[1].text())).collect()
}

impl Drop for SentinelSet {
    fn drop(&mut self) {
        self.sentinels.clear();
        self.nodes.clear();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
