//! One instance: its ports, the world that clients find there, and the spaces beside that.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinHandle};

use super::bound_address::BoundAddress;
use super::listener::accept;
use super::worker::Workers;
use crate::base::error::{CommandError, Error};
use crate::base::sync::MutexExt;
use crate::clients::fleet::{CLOSED, Fleet, MOST_SPACES, NO_SUCH_SPACE, TOO_MANY_SPACES};
use crate::clients::instance::Instance;
use crate::clients::session::{ControlJob, Session, Signal};
use crate::engine::Engine;

/// All instances of a process.
pub(super) struct Nodes {
    list: Vec<Arc<Node>>,
}

impl Nodes {
    pub(super) fn new(list: Vec<Arc<Node>>) -> Arc<Self> {
        let nodes = Arc::new(Self { list });
        for node in &nodes.list {
            let _ = node.nodes.set(Arc::downgrade(&nodes));
        }
        nodes
    }

    pub(super) fn all(&self) -> &[Arc<Node>] {
        &self.list
    }

    pub(super) fn first(&self) -> Option<&Arc<Node>> {
        self.list.first()
    }

    /// An instance by its number, which counts from 1.
    pub(super) fn get(&self, number: usize) -> Option<&Arc<Node>> {
        self.list.get(number.checked_sub(1)?)
    }

    /// Every world of every instance.
    pub(super) fn worlds(&self) -> Vec<Arc<Engine>> {
        self.list.iter().flat_map(|node| node.worlds()).collect()
    }
}

pub(super) struct Node {
    /// From 1.
    number: usize,
    /// What clients find when they connect.
    root: Arc<Engine>,
    addresses: Vec<SocketAddr>,
    /// Those who serve, and the event loop that accepts.
    workers: Arc<Workers>,
    main: Handle,
    bound: Mutex<Vec<BoundAddress>>,
    accepting: Mutex<Vec<AbortHandle>>,
    serving: AtomicBool,
    /// Held while it is stopped or started: two who start it at once would accept twice.
    lifecycle: Mutex<()>,
    spaces: Mutex<BTreeMap<Box<[u8]>, Space>>,
    nodes: OnceLock<Weak<Nodes>>,
}

/// A world that clients can go to. Dropping this ends what rings its alarms; its connections are to be closed by whoever
/// drops it.
struct Space {
    engine: Arc<Engine>,
    clock: AbortHandle,
}

impl Drop for Space {
    fn drop(&mut self) {
        self.clock.abort();
    }
}

impl Node {
    /// How often there is to be looked for what is due.
    pub(super) const PERIOD: Duration = Duration::from_millis(100);

    /// An instance that is bound, and takes nobody in before [`open`](Self::open).
    pub(super) fn new(
        number: usize,
        root: Engine,
        bound: Vec<BoundAddress>,
        workers: &Arc<Workers>,
        main: &Handle,
    ) -> Arc<Self> {
        let node = Arc::new(Self {
            number,
            root: Arc::new(root),
            addresses: bound.iter().filter_map(BoundAddress::address).collect(),
            workers: Arc::clone(workers),
            main: main.clone(),
            bound: Mutex::new(bound),
            accepting: Mutex::default(),
            serving: AtomicBool::new(false),
            lifecycle: Mutex::default(),
            spaces: Mutex::default(),
            nodes: OnceLock::new(),
        });
        let fleet: Weak<dyn Fleet> = Arc::<Self>::downgrade(&node);
        node.root.instance.set_fleet(fleet);
        node.root.instance.save_initial_state();
        main.spawn(Arc::clone(&node.root.instance.clock).run_alarms());
        node
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    pub(super) fn root(&self) -> &Arc<Engine> {
        &self.root
    }

    pub(super) fn instance(&self) -> &Arc<Instance> {
        &self.root.instance
    }

    pub(super) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub(super) fn event_loop(&self) -> &Handle {
        &self.main
    }

    pub(super) fn workers(&self) -> &Workers {
        &self.workers
    }

    pub(super) fn nodes(&self) -> Result<Arc<Nodes>, CommandError> {
        self.nodes.get().and_then(Weak::upgrade).ok_or(CLOSED)
    }

    // ---- the doors

    /// Whether connections are taken in.
    pub(super) fn is_serving(&self) -> bool {
        self.serving.load(Ordering::SeqCst)
    }

    /// Keeps others from stopping or starting it. Held before all other locks of a node, and across them.
    pub(super) fn lock_lifecycle(&self) -> MutexGuard<'_, ()> {
        lock(&self.lifecycle)
    }

    /// Begins to accept, on doors that listen.
    pub(super) fn open(self: &Arc<Self>) -> Result<(), Error> {
        let bound = lock(&self.bound);
        let _entered = self.main.enter();
        let listeners: Vec<_> = bound.iter().map(BoundAddress::listener).collect::<Result<_, _>>()?;
        self.serving.store(true, Ordering::SeqCst);
        let tasks = listeners.into_iter().map(|listener| self.main.spawn(accept(listener, Arc::clone(self))));
        *lock(&self.accepting) = tasks.map(|task| task.abort_handle()).collect();
        Ok(())
    }

    /// Listens again, where it did before, and accepts.
    pub(super) fn reopen(self: &Arc<Self>) -> Result<(), Error> {
        let mut bound = lock(&self.bound);
        let opened = bound.iter_mut().try_for_each(BoundAddress::open);
        if opened.is_err() {
            // One that listens while nobody accepts would let clients hang.
            bound.iter_mut().for_each(BoundAddress::close);
        }
        drop(bound);
        opened?;
        self.open()
    }

    /// Refuses connections from now on, and closes those there are, but for `except`.
    pub(super) fn close(&self, except: Option<u64>) {
        self.stop_accepting();
        for engine in self.worlds() {
            engine.instance.scripts.abandon();
            for client in engine.instance.clients.all() {
                if Some(client.id()) != except {
                    engine.instance.kill(&client);
                }
            }
        }
    }

    fn stop_accepting(&self) {
        let mut bound = lock(&self.bound);
        // Before the connections are looked for: one that is being accepted finds either this, or is found.
        self.serving.store(false, Ordering::SeqCst);
        lock(&self.accepting).drain(..).for_each(|task| task.abort());
        bound.iter_mut().for_each(BoundAddress::close);
    }

    /// Gives up the ports.
    pub(super) fn release_ports(&self) {
        self.stop_accepting();
        lock(&self.bound).clear();
    }

    /// Does an job to the end, even if nobody waits for that.
    pub(super) fn spawn_job(&self, engine: &Arc<Engine>, job: ControlJob) -> JoinHandle<()> {
        self.main.spawn(Arc::clone(engine).run_control_job(job))
    }

    // ---- the worlds

    /// The world that clients find, and all spaces.
    pub(super) fn worlds(&self) -> Vec<Arc<Engine>> {
        let spaces = lock(&self.spaces);
        std::iter::once(&self.root).chain(spaces.values().map(|space| &space.engine)).map(Arc::clone).collect()
    }

    /// Does what is to be done now and then in every world that has any of it; where there are no clients, only if
    /// `empty_too`. Says when to do so again: where time runs faster, what is due is due sooner.
    pub(super) fn cron(&self, empty_too: bool) -> Duration {
        let period = |engine: &Engine| {
            engine.cron();
            engine.instance.clock.in_real_time(Self::PERIOD)
        };
        let mut shortest = period(&self.root);
        let mut after = Vec::new();
        // Some at a time: who asks for a space meanwhile does not wait for long.
        while let Some(some) = self.next_spaces(&mut after, empty_too) {
            shortest = some.iter().map(|engine| period(engine)).min().unwrap_or(shortest).min(shortest);
        }
        shortest
    }

    /// The next spaces with something to do behind one of this name, which moves on.
    fn next_spaces(&self, after: &mut Vec<u8>, empty_too: bool) -> Option<Vec<Arc<Engine>>> {
        const AT_ONCE: usize = 256;
        let spaces = lock(&self.spaces);
        let from: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Excluded(after), Bound::Unbounded);
        let some: Vec<_> = spaces.range::<[u8], _>(from).take(AT_ONCE).collect();
        let last = some.last()?.0.to_vec();
        let is_busy = |engine: &Engine| {
            !engine.instance.clients.is_empty() || (empty_too && engine.instance.keyspace.has_deadlines())
        };
        let busy = some.iter().map(|(_, space)| &space.engine).filter(|engine| is_busy(engine));
        let busy = busy.map(Arc::clone).collect();
        *after = last;
        Some(busy)
    }

    /// A world by its name; a space is made when it is first asked for.
    pub(super) fn world(&self, name: &[u8]) -> Result<Arc<Engine>, CommandError> {
        self.world_among(&mut lock(&self.spaces), name)
    }

    fn world_among(&self, spaces: &mut Spaces<'_>, name: &[u8]) -> Result<Arc<Engine>, CommandError> {
        if name.is_empty() {
            return Ok(Arc::clone(&self.root));
        }
        if let Some(space) = spaces.get(name) {
            return Ok(Arc::clone(&space.engine));
        }
        if spaces.len() >= MOST_SPACES {
            return Err(TOO_MANY_SPACES);
        }
        let instance = Arc::new(self.root.instance.new_space(name));
        instance.set_fleet(self.as_fleet()?);
        instance.join_audit();
        let clock = self.main.spawn(Arc::clone(&instance.clock).run_alarms()).abort_handle();
        self.copy_instance_faults(&instance);
        instance.save_initial_state();
        let engine = Arc::new(Engine::with_handlers(instance, self.root.table.clone(), self.root.handlers.clone()));
        spaces.insert(name.into(), Space { engine: Arc::clone(&engine), clock });
        Ok(engine)
    }

    fn as_fleet(&self) -> Result<Weak<dyn Fleet>, CommandError> {
        let nodes = self.nodes()?;
        let own = nodes.get(self.number).ok_or(CLOSED)?;
        let weak: Weak<dyn Fleet> = Arc::<Self>::downgrade(own);
        Ok(weak)
    }

    /// Takes a connection from one world to another, unless that cannot be had any more.
    pub(super) fn move_connection(
        &self,
        name: &[u8],
        from: &Arc<Engine>,
        session: &mut Session,
        thread: usize,
    ) -> Option<Arc<Engine>> {
        // Held until the connection is there, so that it is closed if the space is dropped.
        let mut spaces = lock(&self.spaces);
        let engine = self.world_among(&mut spaces, name).ok()?;
        let counters = engine.instance.stats.thread(thread);
        engine.move_in(session, from, counters).then_some(engine)
    }

    /// Whether a space is there that this is the world of.
    pub(super) fn contains(&self, engine: &Arc<Engine>) -> bool {
        let found =
            lock(&self.spaces).get(&engine.instance.space).is_some_and(|space| Arc::ptr_eq(&space.engine, engine));
        found || Arc::ptr_eq(&self.root, engine)
    }

    /// Forgets a space and closes its connections.
    pub(super) fn drop_space(&self, name: &[u8]) -> Result<(), CommandError> {
        let space = lock(&self.spaces).remove(name).ok_or(NO_SUCH_SPACE)?;
        close_world(&space.engine);
        Ok(())
    }

    /// Forgets all spaces and closes their connections.
    pub(super) fn drop_spaces(&self) {
        for space in std::mem::take(&mut *lock(&self.spaces)).into_values() {
            close_world(&space.engine);
        }
    }

    /// All spaces, by name.
    pub(super) fn spaces(&self) -> Vec<Arc<Engine>> {
        lock(&self.spaces).values().map(|space| Arc::clone(&space.engine)).collect()
    }

    // ---- the end

    /// Asks all connections to end, once they have written what there is to write.
    pub(super) fn close_when_idle(&self) {
        for engine in self.worlds() {
            // A script may have begun since the server was asked to end.
            engine.instance.scripts.abandon();
            engine.instance.clients.signal_all(Signal::Close);
        }
    }

    /// How many are connected, in all worlds.
    pub(super) fn connected(&self) -> usize {
        self.worlds().iter().map(|engine| engine.instance.clients.len()).sum()
    }
}

type Spaces<'a> = MutexGuard<'a, BTreeMap<Box<[u8]>, Space>>;

fn close_world(engine: &Engine) {
    engine.instance.scripts.abandon();
    engine.instance.clients.all().iter().for_each(|client| engine.instance.kill(client));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock_ignoring_poison()
}
