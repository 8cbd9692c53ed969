//! redouble in front of a deployment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::support::Deadline;
use super::support::deployments::{Node, SentinelSet};
use super::support::wire::{Frame, Wire};

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// A process of this project's binary, in front of a deployment. It ends with the value.
pub struct Front {
    child: Child,
    folder: PathBuf,
    ports: Vec<u16>,
    has_sentinels: bool,
}

impl Front {
    /// In front of the Cluster that has a node at one of these addresses.
    pub fn of_cluster(seeds: &str, arguments: &[&str]) -> Self {
        let url = if seeds.contains("://") { seeds.to_owned() } else { format!("redis://{seeds}") };
        Self::start(&["--upstream-cluster", &url], arguments, false)
    }

    /// In front of the Sentinels at these addresses.
    pub fn of_sentinels(addresses: &str, arguments: &[&str]) -> Self {
        Self::start(&["--upstream-sentinel", addresses, "--service", SentinelSet::SERVICE], arguments, true)
    }

    fn start(upstream: &[&str], arguments: &[&str], has_sentinels: bool) -> Self {
        let mut front = Self::spawn(upstream, arguments, has_sentinels);
        let deadline = Deadline::start();
        loop {
            if let Some(status) = front.ended() {
                panic!("redouble {upstream:?} {arguments:?} ended with {status}: {}", front.log());
            }
            let text = fs::read_to_string(front.folder.join("port")).unwrap_or_default();
            if text.ends_with('\n') && front.log().contains("Ready to accept connections") {
                let port = |line: &str| line.trim().rsplit(':').next().and_then(|port| port.parse().ok());
                front.ports = text.lines().map(|line| port(line).expect("a port")).collect();
                return front;
            }
            deadline.check(format_args!("redouble {upstream:?} to be ready: {}", front.log()));
            std::thread::park_timeout(std::time::Duration::from_millis(10));
        }
    }

    /// Starts the process, and does not wait until it is ready.
    pub fn spawn(upstream: &[&str], arguments: &[&str], has_sentinels: bool) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("redouble-before-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        let log = fs::File::create(folder.join("log")).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_redouble"));
        command.args(["--port", "0", "--exit-with-parent", "yes", "--journal", "yes", "--port-file"]);
        command.arg(folder.join("port")).arg("--dir").arg(&folder).args(upstream).args(arguments);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a file")).stderr(log);
        let child = command.spawn().expect("the binary starts");
        Self { child, folder, ports: Vec::new(), has_sentinels }
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// How the process ended, if it did.
    pub fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().expect("a child of this process")
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// What a program gets to know where the nodes are, as the front itself says.
    pub fn environment(&self) -> Vec<(String, String)> {
        let of = |name: &str, value: String| (name.to_owned(), value);
        let list = |addresses: &[SocketAddr]| addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",");
        if !self.has_sentinels {
            return vec![
                of("REDIS_URL", format!("redis://{}", self.address())),
                of("REDIS_CLUSTER_NODES", list(&self.cluster_nodes())),
            ];
        }
        vec![
            of("REDIS_URL", format!("redis://{}", self.master())),
            of("REDIS_SENTINELS", list(&self.sentinels())),
            of("REDIS_SENTINEL_SERVICE", SentinelSet::SERVICE.to_owned()),
        ]
    }

    /// The addresses in CLUSTER NODES, the first seed's first.
    fn cluster_nodes(&self) -> Vec<SocketAddr> {
        let text = Wire::connect(self.address()).ask("CLUSTER NODES").text();
        let address = |line: &str| line.split(' ').nth(1)?.split('@').next()?.parse().ok();
        let mut nodes: Vec<SocketAddr> = text.lines().filter_map(address).collect();
        nodes.sort_by_key(|address| *address != self.address());
        nodes
    }

    fn master(&self) -> SocketAddr {
        let line = format!("SENTINEL GET-MASTER-ADDR-BY-NAME {}", SentinelSet::SERVICE);
        let reply = Wire::connect(self.address()).ask(&line);
        let address = format!("{}:{}", reply.items()[0].text(), reply.items()[1].text());
        address.parse().unwrap_or_else(|_| panic!("{line}: {reply:?}"))
    }

    /// The first Sentinel, and those that it names.
    fn sentinels(&self) -> Vec<SocketAddr> {
        let mut sentinels = vec![self.address()];
        sentinels.extend(self.listed("SENTINELS"));
        sentinels
    }

    fn listed(&self, what: &str) -> Vec<SocketAddr> {
        let line = format!("SENTINEL {what} {}", SentinelSet::SERVICE);
        let reply = Wire::connect(self.address()).ask(&line);
        let address = |entry: &Frame| {
            let fields: BTreeMap<String, String> =
                entry.items().chunks(2).map(|pair| (pair[0].text(), pair[1].text())).collect();
            let address = format!("{}:{}", fields.get("ip")?, fields.get("port")?);
            Some(address.parse().unwrap_or_else(|_| panic!("{line} names {address}")))
        };
        reply.items().iter().filter_map(address).collect()
    }

    /// The real ports of these nodes, and where each is to be found here.
    pub fn nodes_of<'a>(&self, nodes: impl Iterator<Item = &'a Node>) -> Vec<(u16, SocketAddr)> {
        let mut named: BTreeSet<SocketAddr> = self.ports.iter().map(|port| local(*port)).collect();
        if self.has_sentinels {
            named.extend([self.master()].into_iter().chain(self.sentinels()).chain(self.listed("REPLICAS")));
        } else {
            named.extend(self.cluster_nodes());
        }
        let run = |wire: &mut Wire| {
            wire.send(b"INFO server\r\n");
            let text = wire.read().ok()?.text();
            text.lines().find_map(|line| line.strip_prefix("run_id:").map(str::to_owned))
        };
        let here: BTreeMap<String, SocketAddr> = named
            .into_iter()
            .filter_map(|address| Some((run(&mut Wire::try_connect(address).ok()?)?, address)))
            .collect();
        let of = |node: &Node| {
            let run = run(&mut node.wire()).expect("a real server has a run_id");
            let address = here.get(&run).unwrap_or_else(|| panic!("nothing here leads to port {}", node.port()));
            (node.port(), *address)
        };
        nodes.map(of).collect()
    }

    /// Where a node is to be found here.
    pub fn address_of(&self, node: &Node) -> SocketAddr {
        self.nodes_of(std::iter::once(node))[0].1
    }

    /// The lines of the journal that have this word of a command.
    pub fn journal_of(&self, word: &str) -> Vec<String> {
        let reply = Wire::connect(self.address()).ask("REDOUBLE JOURNAL EXPORT journal.jsonl");
        assert!(!reply.is_error(), "JOURNAL EXPORT: {reply:?}");
        let text = fs::read_to_string(self.folder.join("journal.jsonl")).expect("it was just written");
        let word = format!("\"{word}\"");
        text.lines().filter(|line| line.contains(&word)).map(str::to_owned).collect()
    }

    pub fn address(&self) -> SocketAddr {
        local(self.ports[0])
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
