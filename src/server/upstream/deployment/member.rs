//! One node of the deployment, with its local ports.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::AbortHandle;

use crate::base::clock::Stopwatch;
use crate::base::error::Error;
use crate::base::sync::MutexExt;
use crate::clients::deployment::DeploymentNode;
use crate::server::bound_address::BoundAddress;
use crate::server::listener::accept;
use crate::server::node::Node;
use crate::server::upstream::{ScriptMonitor, Target};

/// Sentinels tell of a failover only when all replicas follow the new master, or after `failover-timeout`.
const STALE: Duration = Duration::from_secs(60);

/// A node of the deployment as the front has it.
pub(in crate::server) struct Member {
    pub node: Arc<DeploymentNode>,
    target: Mutex<Arc<Target>>,
    is_sentinel: AtomicBool,
    /// Only a reply has named it so far.
    is_only_named: AtomicBool,
    /// When it has taken a write that no view tells of yet.
    promoted: Mutex<Option<Stopwatch>>,
    addresses: Vec<SocketAddr>,
    tls_addresses: Vec<SocketAddr>,
    bound: Mutex<Vec<BoundAddress>>,
    accept_tasks: Mutex<Vec<AbortHandle>>,
    /// Its ports refuse connections, because the node does. Changed under the lock of `bound`.
    is_refusing: AtomicBool,
    /// When somebody has tried last whether it refuses connections.
    pub(super) tried: tokio::sync::Mutex<Option<Stopwatch>>,
    script_monitor: Mutex<Option<Arc<ScriptMonitor>>>,
}

impl Member {
    pub fn new(node: Arc<DeploymentNode>, target: Target, is_sentinel: bool, bound: Vec<BoundAddress>) -> Self {
        let addresses: Vec<SocketAddr> = bound.iter().filter_map(BoundAddress::plain_address).collect();
        let tls_addresses: Vec<SocketAddr> = bound.iter().filter_map(BoundAddress::tls_address).collect();
        let port = |addresses: &[SocketAddr]| addresses.first().map_or(0, SocketAddr::port);
        node.set_ports(port(&addresses), port(&tls_addresses));
        Self {
            node,
            target: Mutex::new(Arc::new(target)),
            is_sentinel: AtomicBool::new(is_sentinel),
            is_only_named: AtomicBool::new(false),
            promoted: Mutex::default(),
            addresses,
            tls_addresses,
            bound: Mutex::new(bound),
            accept_tasks: Mutex::default(),
            is_refusing: AtomicBool::new(false),
            tried: tokio::sync::Mutex::default(),
            script_monitor: Mutex::default(),
        }
    }

    /// Where it is now.
    pub fn target(&self) -> Arc<Target> {
        Arc::clone(&self.target.lock_ignoring_poison())
    }

    pub fn set_target(&self, target: Target) {
        *self.target.lock_ignoring_poison() = Arc::new(target);
    }

    pub fn is_sentinel(&self) -> bool {
        self.is_sentinel.load(Ordering::Relaxed)
    }

    /// Others have said that it is a Sentinel, which is reached in another way.
    pub fn is_found_sentinel(&self, target: Target) {
        self.is_sentinel.store(true, Ordering::Relaxed);
        self.set_target(target);
    }

    /// It has taken a write, as only masters do.
    pub fn note_promotion(&self) {
        *self.promoted.lock_ignoring_poison() = Some(Stopwatch::start());
    }

    /// The views tell of it.
    pub fn forget_promotion(&self) {
        *self.promoted.lock_ignoring_poison() = None;
    }

    /// Only a reply has named it, and discovery will tell what it is.
    pub fn note_only_named(&self) {
        self.is_only_named.store(true, Ordering::Relaxed);
    }

    /// Whether only a reply had named it until now.
    pub fn was_only_named(&self) -> bool {
        self.is_only_named.swap(false, Ordering::Relaxed)
    }

    /// Whether only a reply has named it.
    pub fn is_only_named(&self) -> bool {
        self.is_only_named.load(Ordering::Relaxed)
    }

    /// Whether a view which says that it is a replica is older than a write that it has taken.
    pub fn outlives_view(&self) -> bool {
        self.promoted.lock_ignoring_poison().is_some_and(|since| since.elapsed() < STALE)
    }

    /// The local addresses for plain connections.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The local addresses for TLS.
    pub fn tls_addresses(&self) -> &[SocketAddr] {
        &self.tls_addresses
    }

    /// The local address that others are told: one for TLS only if there is no other.
    pub fn main_address(&self) -> Option<SocketAddr> {
        self.addresses.first().or(self.tls_addresses.first()).copied()
    }

    /// What tells what scripts did there, if that was asked for. The first call starts it.
    pub fn script_monitor(self: &Arc<Self>, front: &Node) -> Option<Arc<ScriptMonitor>> {
        if self.is_sentinel() {
            return None;
        }
        let mut monitor = self.script_monitor.lock_ignoring_poison();
        if monitor.is_none() {
            let member = Arc::clone(self);
            *monitor = ScriptMonitor::start(move || member.target(), front.root(), front.event_loop());
        }
        monitor.clone()
    }

    /// Accepts connections on ports that already listen.
    pub fn open(self: &Arc<Self>, front: &Arc<Node>) -> Result<(), Error> {
        self.accept(&self.bound.lock_ignoring_poison(), front)
    }

    fn accept(self: &Arc<Self>, bound: &[BoundAddress], front: &Arc<Node>) -> Result<(), Error> {
        let _entered = front.event_loop().enter();
        let listeners: Vec<_> = bound.iter().map(BoundAddress::listener).collect::<io::Result<_>>()?;
        self.node.set_serving(true);
        let tasks = listeners
            .into_iter()
            .map(|listener| front.event_loop().spawn(accept(listener, Arc::clone(front), Some(Arc::clone(self)))));
        *self.accept_tasks.lock_ignoring_poison() = tasks.map(|task| task.abort_handle()).collect();
        Ok(())
    }

    /// Listens on the same ports again, and accepts connections.
    pub fn reopen(self: &Arc<Self>, front: &Arc<Node>) -> Result<(), Error> {
        if self.node.is_serving() {
            return Ok(());
        }
        let mut bound = self.bound.lock_ignoring_poison();
        let opened = bound.iter_mut().try_for_each(BoundAddress::open);
        if opened.is_err() {
            // Clients would hang on an address that listens but does not accept.
            bound.iter_mut().for_each(BoundAddress::close);
        }
        drop(bound);
        opened?;
        self.open(front)
    }

    /// Refuses connections from now on, and keeps the ports.
    pub fn close(&self) {
        if !self.node.is_serving() {
            return;
        }
        let mut bound = self.bound.lock_ignoring_poison();
        // Set before the connections are listed: a connection that is being accepted sees this, or is in the list.
        self.node.set_serving(false);
        if !self.is_refusing.swap(false, Ordering::Relaxed) {
            self.stop_accepting(&mut bound);
        }
    }

    fn stop_accepting(&self, bound: &mut [BoundAddress]) {
        self.accept_tasks.lock_ignoring_poison().drain(..).for_each(|task| task.abort());
        bound.iter_mut().for_each(BoundAddress::close);
    }

    /// Refuses connections, as the node does. Returns whether it had accepted them until now.
    pub(super) fn refuse(&self) -> bool {
        let mut bound = self.bound.lock_ignoring_poison();
        let is_news = self.node.is_serving() && !self.is_refusing.swap(true, Ordering::Relaxed);
        if is_news {
            self.stop_accepting(&mut bound);
        }
        is_news
    }

    /// Whether its ports refuse connections because the node does.
    pub(super) fn is_refusing(&self) -> bool {
        self.is_refusing.load(Ordering::Relaxed)
    }

    /// Accepts connections again, because the node does.
    pub(super) fn accept_again(self: &Arc<Self>, front: &Arc<Node>) -> Result<(), Error> {
        let mut bound = self.bound.lock_ignoring_poison();
        if !self.is_refusing() {
            return Ok(());
        }
        bound.iter_mut().try_for_each(BoundAddress::open)?;
        self.is_refusing.store(false, Ordering::Relaxed);
        self.accept(&bound, front)
    }

    /// Stops accepting, and releases the ports.
    pub fn release_ports(&self) {
        self.close();
        self.bound.lock_ignoring_poison().clear();
    }
}
