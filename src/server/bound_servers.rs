//! Serving: from bound ports to the end of the process.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::node::Node;
use super::nodes::Nodes;
use super::panics::{catch_panics, restart_after_panic};
use super::upstream::Member;
use crate::base::clock::Clock;
use crate::base::error::Error;
use crate::base::log::Level;
use crate::clients::instance::Instance;
use crate::clients::stats::Unsupported;

/// Servers that are bound but do not serve yet.
pub(crate) struct BoundServers {
    pub(super) main: Runtime,
    pub(super) others: Vec<Runtime>,
    pub(super) nodes: Arc<Nodes>,
    /// The first instance.
    pub(super) instance: Arc<Instance>,
}

impl BoundServers {
    /// The first address for TLS of each instance, or of each node of a deployment, that has one.
    pub(crate) fn tls_addresses(&self) -> Vec<SocketAddr> {
        self.each(|node| node.tls_addresses().first().copied(), |member| member.tls_addresses().first().copied())
    }

    /// Something of each instance; of an instance with a deployment, of each node.
    fn each<T>(&self, of_instance: impl Fn(&Node) -> Option<T>, of_member: impl Fn(&Member) -> Option<T>) -> Vec<T> {
        let mut all = Vec::new();
        for node in self.nodes.all() {
            match node.deployment() {
                Some(front) => all.extend(front.all().iter().filter_map(|member| of_member(member))),
                None => all.extend(of_instance(node)),
            }
        }
        all
    }

    /// The port for TLS of each instance or node; 0 for one without TLS.
    pub(crate) fn tls_ports(&self) -> Vec<u16> {
        let port = |address: Option<&SocketAddr>| Some(address.map_or(0, SocketAddr::port));
        self.each(|node| port(node.tls_addresses().first()), |member| port(member.tls_addresses().first()))
    }

    /// The first TCP address of each instance or node that has one for plain connections.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.each(|node| node.addresses().first().copied(), |member| member.addresses().first().copied())
    }

    /// Where the Sentinels listen.
    pub(crate) fn sentinels(&self) -> Vec<SocketAddr> {
        self.nodes.sentinels().map_or_else(Vec::new, |sentinels| sentinels.addresses())
    }

    /// The TCP port of each instance or node, that for TLS if there is no other; 0 for one without TCP.
    pub(crate) fn ports(&self) -> Vec<u16> {
        let port = |address: Option<SocketAddr>| Some(address.map_or(0, |address| address.port()));
        self.each(|node| port(node.main_address()), |member| port(member.main_address()))
    }

    /// The first instance.
    pub(crate) fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// The event loop of [`BoundServers::serve`], for further tasks.
    pub(crate) fn event_loop(&self) -> &tokio::runtime::Handle {
        self.main.handle()
    }

    /// Leaves all data where they are when the servers end, for a program that ends with them. The system takes back the memory of
    /// millions of keys at once; to free one after the other takes seconds.
    pub(crate) fn leave_data_to_the_system(&self) {
        std::mem::forget(Arc::clone(&self.nodes));
    }

    /// Serves on this thread, and on one more thread for each further event loop, until the server shuts down.
    pub(crate) fn serve(self) -> Result<(), Error> {
        let Self { main, others, nodes, instance } = self;
        let others: Vec<WorkerThread> = others.into_iter().map(WorkerThread::start).collect::<Result<_, _>>()?;
        main.spawn(restart_after_panic({
            let (nodes, instance) = (Arc::clone(&nodes), Arc::clone(&instance));
            move || catch_panics(cron(Arc::clone(&nodes)), Arc::clone(&instance), "in the periodic work")
        }));
        main.block_on(async {
            poll_fn(|cx| if instance.is_shutting_down(cx.waker()) { Poll::Ready(()) } else { Poll::Pending }).await;
            // Redis logs this as a warning before 7.2, and as a notice since.
            let level = if instance.profile.since_redis(7, 2) { Level::Notice } else { Level::Warning };
            instance.log.write(level, "User requested shutdown...");
            nodes.servers().for_each(|node| node.release_ports());
            drain(&nodes).await;
        });
        drop(others);
        let mut unsupported = Unsupported::default();
        for engine in &nodes.worlds() {
            unsupported.add(engine.instance.stats.unsupported());
            for name in engine.instance.control.unfired() {
                instance.log.notice(format!("The fault '{name}' has never fired."));
            }
            for name in engine.instance.control.unreached() {
                instance.log.notice(format!("The gate '{name}' was never reached."));
            }
        }
        if !unsupported.is_empty() {
            instance.log.notice(format!("Commands that were asked for and are not supported: {unsupported}"));
        }
        drop(main);
        if let Some(path) = instance.config.live().unix_socket() {
            instance.log.notice("Removing the unix socket file.");
            // The file may have been removed already.
            let _ = std::fs::remove_file(path);
        }
        Ok(())
    }
}

/// Waits a limited time for connections to write their output.
async fn drain(nodes: &Nodes) {
    const STEP: Duration = Duration::from_millis(1);
    const STEPS: usize = 500;
    for _ in 0..STEPS {
        nodes.servers().for_each(|node| node.close_when_idle());
        // This thread's connections run before the first check, so most servers end without waiting.
        tokio::task::yield_now().await;
        if nodes.servers().all(|node| node.connected() == 0) {
            break;
        }
        Clock::sleep(STEP).await;
    }
}

/// Periodic work for all instances and spaces: deletes expired keys, closes idle connections.
async fn cron(nodes: Arc<Nodes>) {
    const LEAST: Duration = Duration::from_millis(2);
    // Without clients, expired keys only take memory, so empty spaces are checked less often.
    const EMPTY_SPACES_TOO: u32 = 32;
    let mut period = Node::PERIOD;
    for round in (0..EMPTY_SPACES_TOO).cycle() {
        Clock::sleep(period.max(LEAST)).await;
        let shortest = nodes.servers().map(|node| node.cron(round == 0)).min();
        period = shortest.unwrap_or(Node::PERIOD);
    }
}

/// A thread that runs an event loop; dropping it ends both.
struct WorkerThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl WorkerThread {
    fn start(runtime: Runtime) -> Result<Self, Error> {
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("redouble-worker".into()).spawn(move || {
            // The thread ends when it is stopped or its handle is dropped.
            let _ = runtime.block_on(stopped);
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for WorkerThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
