//! redouble in front of a deployment.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::support::Deadline;
use super::support::deployments::SentinelSet;
use super::support::wire::Wire;

/// A process of this project's binary, in front of a deployment. It ends with the value.
pub struct Front {
    child: Child,
    folder: PathBuf,
    ports: Vec<u16>,
    service: bool,
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

    fn start(upstream: &[&str], arguments: &[&str], service: bool) -> Self {
        let mut front = Self::spawn(upstream, arguments, service);
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
    pub fn spawn(upstream: &[&str], arguments: &[&str], service: bool) -> Self {
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
        Self { child, folder, ports: Vec::new(), service }
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

    /// The local ports of the port file: the first is that of the first node.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// What a program gets to know where the nodes are, as the front itself says.
    pub fn environment(&self) -> Vec<(String, String)> {
        let of = |name: &str, value: String| (name.to_owned(), value);
        let url = |port: &str| format!("redis://127.0.0.1:{port}");
        let mut wire = Wire::connect(self.address());
        if !self.service {
            let nodes = wire.ask("CLUSTER NODES").text();
            let address = |line: &str| line.split(' ').nth(1)?.split('@').next().map(str::to_owned);
            let nodes: Vec<String> = nodes.lines().filter_map(address).collect();
            return vec![of("REDIS_URL", format!("redis://{}", self.address())), of("REDIS_CLUSTER_NODES", nodes.join(","))];
        }
        let service = SentinelSet::SERVICE;
        let master = wire.ask(&format!("SENTINEL GET-MASTER-ADDR-BY-NAME {service}"));
        let others = wire.ask(&format!("SENTINEL SENTINELS {service}"));
        let mut sentinels = vec![self.address().to_string()];
        for other in others.items() {
            let fields: BTreeMap<String, String> =
                other.items().chunks(2).map(|pair| (pair[0].text(), pair[1].text())).collect();
            sentinels.push(format!("{}:{}", fields["ip"], fields["port"]));
        }
        vec![
            of("REDIS_URL", url(&master.items()[1].text())),
            of("REDIS_SENTINELS", sentinels.join(",")),
            of("REDIS_SENTINEL_SERVICE", service.to_owned()),
        ]
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports[0]))
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
