//! One instance: its ports, its root world, and its spaces. `listening` opens and closes the ports, `spaces` creates
//! and drops spaces, and `instance_control` has what clients and tests can control.

mod listening;
mod spaces;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinHandle};

use super::bound_address::BoundAddress;
use super::nodes::Nodes;
use super::replicas::Part;
use super::upstream::{DeploymentFront, ScriptMonitor, Target};
use super::worker::Workers;
use crate::base::error::{CommandError, plain};
use crate::base::log::SparingLog;
use crate::clients::fleet::{CLOSED, Fleet};
use crate::clients::instance::Instance;
use crate::clients::session::{ControlJob, Peer, Signal};
use crate::engine::Engine;
use spaces::Space;

/// What can be wrong with a real server behind an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Nobody can connect to it.
    Absent,
    /// A connection to it has ended while commands had no reply.
    Ended,
    /// It does not take what the address says of users and databases.
    Refused,
    /// It sends what nobody asked for, or what is no reply.
    Unasked,
    /// A client sends what cannot pass.
    Request,
}

impl Trouble {
    const COUNT: usize = 5;
}

/// One instance of the process.
pub(super) struct Node {
    /// Counts from 1.
    number: usize,
    /// The world that clients enter when they connect.
    root: Arc<Engine>,
    /// The real server behind it, if there is one.
    upstream: Option<Arc<Target>>,
    script_monitor: Option<Arc<ScriptMonitor>>,
    /// The Cluster or the Sentinel set behind it, if there is one.
    deployment: Option<Arc<DeploymentFront>>,
    addresses: Vec<SocketAddr>,
    tls_addresses: Vec<SocketAddr>,
    /// For what clients cause before they are let in.
    sparing_log: SparingLog,
    /// For each kind of trouble with the real server.
    upstream_logs: [SparingLog; Trouble::COUNT],
    workers: Arc<Workers>,
    /// The event loop that accepts connections and runs control jobs.
    main: Handle,
    bound: Mutex<Vec<BoundAddress>>,
    accept_tasks: Mutex<Vec<AbortHandle>>,
    serving: AtomicBool,
    /// Serializes stopping and starting: two concurrent starts would accept twice.
    lifecycle: Mutex<()>,
    spaces: Mutex<BTreeMap<Box<[u8]>, Space>>,
    part: Part,
    /// All instances of the process.
    nodes: OnceLock<Weak<Nodes>>,
}

impl Node {
    /// The period of [`cron`](Self::cron) while the clock runs at the machine's speed.
    pub(super) const PERIOD: Duration = Duration::from_millis(100);

    /// An instance with bound ports. It accepts no connection before [`open`](Self::open).
    pub(super) fn new(
        number: usize,
        root: Engine,
        upstream: Option<Arc<Target>>,
        deployment: Option<Arc<DeploymentFront>>,
        bound: Vec<BoundAddress>,
        workers: &Arc<Workers>,
        main: &Handle,
    ) -> Arc<Self> {
        let root = Arc::new(root);
        let script_monitor = upstream.as_ref().and_then(|target| {
            let target = Arc::clone(target);
            ScriptMonitor::start(move || Arc::clone(&target), &root, main)
        });
        let (mut addresses, mut tls_addresses): (Vec<_>, Vec<_>) = (
            bound.iter().filter_map(BoundAddress::plain_address).collect(),
            bound.iter().filter_map(BoundAddress::tls_address).collect(),
        );
        if let Some(first) = deployment.as_ref().and_then(|deployment| deployment.first()) {
            addresses.extend_from_slice(first.addresses());
            tls_addresses.extend_from_slice(first.tls_addresses());
        }
        let node = Arc::new(Self {
            number,
            root,
            upstream,
            script_monitor,
            deployment,
            addresses,
            tls_addresses,
            sparing_log: SparingLog::default(),
            upstream_logs: std::array::from_fn(|_| SparingLog::default()),
            workers: Arc::clone(workers),
            main: main.clone(),
            bound: Mutex::new(bound),
            accept_tasks: Mutex::default(),
            serving: AtomicBool::new(false),
            lifecycle: Mutex::default(),
            spaces: Mutex::default(),
            part: Part::default(),
            nodes: OnceLock::new(),
        });
        let fleet: Weak<dyn Fleet> = Arc::<Self>::downgrade(&node);
        node.root.instance.set_fleet(fleet);
        node.root.instance.save_initial_state();
        node
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    pub(super) fn root(&self) -> &Arc<Engine> {
        &self.root
    }

    pub(super) fn upstream(&self) -> Option<&Arc<Target>> {
        self.upstream.as_ref()
    }

    /// The Cluster or the Sentinel set behind it, if there is one.
    pub(super) fn deployment(&self) -> Option<&Arc<DeploymentFront>> {
        self.deployment.as_ref()
    }

    /// What tells what scripts did on the real server, if it was asked for.
    pub(super) fn script_monitor(&self) -> Option<&Arc<ScriptMonitor>> {
        self.script_monitor.as_ref()
    }

    pub(super) fn instance(&self) -> &Arc<Instance> {
        &self.root.instance
    }

    /// The addresses for plain connections over TCP.
    pub(super) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The addresses for TLS.
    pub(super) fn tls_addresses(&self) -> &[SocketAddr] {
        &self.tls_addresses
    }

    /// The address that clients are told: one for TLS only if there is no other.
    pub(super) fn main_address(&self) -> Option<SocketAddr> {
        self.addresses.first().or(self.tls_addresses.first()).copied()
    }

    /// Logs what clients can cause as often as they like.
    pub(super) fn log_sparingly(&self, text: &str) {
        self.sparing_log.warn(&self.instance().log, text);
    }

    /// Logs what is wrong with the real server, each kind of trouble sparingly.
    pub(super) fn log_trouble(&self, trouble: Trouble, text: &str) {
        self.upstream_logs[trouble as usize].warn(&self.instance().log, text);
    }

    /// Names a client in the log that was not let in, because its TLS handshake has failed.
    pub(super) fn log_failed_handshake(&self, peer: &Peer, error: &io::Error) {
        let (reason, local) = (plain(error), peer.local_address());
        self.log_sparingly(&format!("Error accepting a client connection: {reason} (addr={peer} laddr={local})"));
    }

    /// Names a client in the log that begins with a TLS handshake on a port without TLS.
    pub(super) fn log_tls_hello(&self, peer: &Peer) {
        let hint = match self.tls_addresses.first() {
            Some(address) => format!("TLS is served on port {}", address.port()),
            None => "to serve TLS, give --tls-port with certificates, or --tls-self-signed".to_owned(),
        };
        let local = peer.local_address();
        self.log_sparingly(&format!(
            "A client begins with a TLS handshake on a port without TLS, so it is closed: {hint} (addr={peer} laddr={local})"
        ));
    }

    /// Its part in replication.
    pub(super) fn part(&self) -> &Part {
        &self.part
    }

    pub(super) fn event_loop(&self) -> &Handle {
        &self.main
    }

    pub(super) fn workers(&self) -> &Workers {
        &self.workers
    }

    pub(super) fn set_nodes(&self, nodes: &Arc<Nodes>) {
        let _ = self.nodes.set(Arc::downgrade(nodes));
    }

    pub(super) fn nodes(&self) -> Result<Arc<Nodes>, CommandError> {
        self.nodes.get().and_then(Weak::upgrade).ok_or(CLOSED)
    }

    /// Runs a control job to its end, even if its completion is not awaited.
    pub(super) fn spawn_job(&self, engine: &Arc<Engine>, job: ControlJob) -> JoinHandle<Result<(), CommandError>> {
        self.main.spawn(Arc::clone(engine).run_control_job(job))
    }

    /// Periodic work in every world that has any; in worlds without clients only if `empty_too`. Returns the delay
    /// until the next run: a faster clock has earlier deadlines, and when many keys expire together, others are served between
    /// some of them and the next.
    pub(super) fn cron(&self, empty_too: bool) -> Duration {
        // What could not be done before is tried again.
        if self.instance().is_replica() {
            self.instance().call_link();
        }
        /// Some milliseconds' work.
        const MOST_EXPIRED: usize = 4096;
        let period = |engine: &Engine| match engine.cron_for(MOST_EXPIRED) {
            true => Duration::ZERO,
            false => engine.instance.clock.in_real_time(Self::PERIOD),
        };
        let mut shortest = period(&self.root);
        let mut after = Vec::new();
        // In small groups, so that the lock of the spaces is never held for long.
        while let Some(some) = self.next_spaces(&mut after, empty_too) {
            shortest = some.iter().map(|engine| period(engine)).min().unwrap_or(shortest).min(shortest);
        }
        shortest
    }

    /// Asks all connections to close once they have written their output.
    pub(super) fn close_when_idle(&self) {
        for engine in self.worlds() {
            // A script may have begun since the shutdown was requested.
            engine.instance.scripts.kill_for_shutdown();
            engine.instance.clients.signal_all(Signal::Close);
        }
    }

    /// The number of clients in all worlds.
    pub(super) fn connected(&self) -> usize {
        self.worlds().iter().map(|engine| engine.instance.clients.len()).sum()
    }
}
