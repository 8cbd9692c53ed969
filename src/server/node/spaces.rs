//! The spaces of an instance: isolated worlds behind its ports.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, MutexGuard, Weak};

use tokio::task::AbortHandle;

use super::Node;
use crate::base::error::CommandError;
use crate::base::sync::MutexExt;
use crate::clients::fleet::{CLOSED, Fleet, MOST_SPACES, NO_SUCH_SPACE, TOO_MANY_SPACES};
use crate::clients::session::Session;
use crate::engine::Engine;

/// A world that clients can enter. Dropping it stops its clock's alarms; its connections must be closed first.
pub(super) struct Space {
    engine: Arc<Engine>,
    /// The task that rings the clock's alarms.
    clock: AbortHandle,
}

impl Drop for Space {
    fn drop(&mut self) {
        self.clock.abort();
    }
}

impl Node {
    /// The root world, then all spaces.
    pub(in crate::server) fn worlds(&self) -> Vec<Arc<Engine>> {
        let spaces = self.spaces.lock_ignoring_poison();
        std::iter::once(&self.root).chain(spaces.values().map(|space| &space.engine)).map(Arc::clone).collect()
    }

    /// The engines with periodic work among the next spaces by name behind `after`, which is updated.
    pub(super) fn next_spaces(&self, after: &mut Vec<u8>, empty_too: bool) -> Option<Vec<Arc<Engine>>> {
        const AT_ONCE: usize = 256;
        let spaces = self.spaces.lock_ignoring_poison();
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

    /// A world by its name; a space is created on first use.
    pub(in crate::server) fn world(&self, name: &[u8]) -> Result<Arc<Engine>, CommandError> {
        self.world_among(&mut self.spaces.lock_ignoring_poison(), name)
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

    /// Moves a connection to another world, if that still exists or can be created.
    pub(in crate::server) fn move_connection(
        &self,
        name: &[u8],
        from: &Arc<Engine>,
        session: &mut Session,
        thread: usize,
    ) -> Option<Arc<Engine>> {
        // Locked until the connection has moved, so that a concurrent drop of the space closes the connection.
        let mut spaces = self.spaces.lock_ignoring_poison();
        let engine = self.world_among(&mut spaces, name).ok()?;
        let counters = engine.instance.stats.thread(thread);
        let has_moved = engine.move_in(session, from, counters);
        engine.instance.identify_present(&session.client);
        has_moved.then_some(engine)
    }

    /// Whether this is the root world, or an existing space.
    pub(in crate::server) fn contains(&self, engine: &Arc<Engine>) -> bool {
        let found = self
            .spaces
            .lock_ignoring_poison()
            .get(&engine.instance.space)
            .is_some_and(|space| Arc::ptr_eq(&space.engine, engine));
        found || Arc::ptr_eq(&self.root, engine)
    }

    /// Drops a space, and closes its connections.
    pub(in crate::server) fn drop_space(&self, name: &[u8]) -> Result<(), CommandError> {
        let space = self.spaces.lock_ignoring_poison().remove(name).ok_or(NO_SUCH_SPACE)?;
        self.close_space(name, &space.engine);
        Ok(())
    }

    /// Drops all spaces, and closes their connections.
    pub(in crate::server) fn drop_spaces(&self) {
        for (name, space) in std::mem::take(&mut *self.spaces.lock_ignoring_poison()) {
            self.close_space(&name, &space.engine);
        }
    }

    /// Closes the connections to a space that is dropped. What was found there stays.
    fn close_space(&self, name: &[u8], engine: &Engine) {
        self.root.instance.audit.adopt_space(name, &engine.instance.audit);
        close_world(engine);
    }

    /// All spaces, by name.
    pub(in crate::server) fn spaces(&self) -> Vec<Arc<Engine>> {
        self.spaces.lock_ignoring_poison().values().map(|space| Arc::clone(&space.engine)).collect()
    }
}

type Spaces<'a> = MutexGuard<'a, BTreeMap<Box<[u8]>, Space>>;

fn close_world(engine: &Engine) {
    engine.instance.scripts.kill_for_shutdown();
    engine.instance.clients.all().iter().for_each(|client| engine.instance.kill(client));
}
