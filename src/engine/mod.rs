//! The life of one command, from its request to the last byte of its reply.
//!
//! Knows the order of the steps: hooks, permission, the run, the reply, the journal. This is the front; the back,
//! behind one type ([`backend`]), executes commands.
//! May use: every floor below it; sees no socket.
//! Begin with [`Engine::execute`], which every command passes; then `intercept.rs`, the slow path.

mod admission;
mod auto;
mod backend;
mod calls;
mod connections;
mod control_job;
mod explore;
mod explore_group;
mod intercept;
mod journal;
mod monitor;
#[cfg(test)]
mod node_tests;
mod replay;
mod replies;
mod reset;
mod transaction;
mod upstream;
mod waits;

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};

use crate::base::error::CommandError;
use crate::clients::instance::Instance;
use crate::clients::session::{Flow, Replies, Session, Stage, Wait};
use crate::commands::Handlers;
use crate::data::keyspace::{Busy, hash_of};
use crate::powers::HookPath;
use crate::protocol::{Reply, Words};
use crate::script::Yielder;
use crate::spec::{CommandKind, CommandSpec, Flag, Group, ResolvedRow, Table, TransactionCommand};
use backend::Backend;
use replies::add_messages;

pub use backend::Fibers;
pub use upstream::addresses;
pub use upstream::{
    FollowedState, Follows, Heard, Own, PassedCommand, PassedQueue, Replied, SpareCommands, Turn, Waiting, Wipe,
    is_error, replies_after, runs_script,
};
pub use waits::{WaitEnd, WaitProgress, job_end};

/// Redis treats a monitoring client as a replica.
const MONITOR_WITHOUT_KEYS: CommandError = CommandError::fixed("ERR Replica can't interact with the keyspace");

/// A request that is resolved but has not run.
#[derive(Clone, Copy)]
pub struct Resolved {
    row: ResolvedRow,
    /// Its key, if it has exactly one: the position and the hash.
    key: Option<(usize, u64)>,
}

impl Resolved {
    /// Whether the commands before this one must be counted when it runs.
    #[inline]
    pub fn reads_statistics(&self) -> bool {
        self.row.spec.reads_statistics
    }

    pub fn group(&self) -> Group {
        self.row.spec.group
    }

    #[inline]
    pub fn row(&self) -> ResolvedRow {
        self.row
    }

    /// The hash of the only key, for prefetching.
    #[inline]
    pub fn hash(&self) -> Option<u64> {
        self.key.map(|(_, hash)| hash)
    }
}

/// Takes the commands of one server's clients from request to reply.
pub struct Engine {
    pub instance: Arc<Instance>,
    pub table: Table,
    pub handlers: Handlers,
    backend: Backend,
    /// Serializes control jobs.
    control_jobs: tokio::sync::Mutex<()>,
    auto_advance: auto::AutoAdvance,
    /// The server whose clock this one goes by, if it has none of its own.
    clock_owner: Option<Arc<Engine>>,
    replay: replay::Replay,
    /// The instances whose clients are explored together, this one among them; empty if it is alone.
    explored_together: OnceLock<Vec<Weak<Engine>>>,
}

impl Engine {
    #[cfg(any(test, feature = "internals"))]
    pub fn new(instance: Arc<Instance>, table: Table) -> Self {
        Self::with_handlers(instance, table, Handlers::new(crate::commands::all()))
    }

    /// Like [`new`](Self::new), with the functions of the table's rows.
    pub fn with_handlers(instance: Arc<Instance>, table: Table, handlers: Handlers) -> Self {
        Self {
            backend: Backend::local(Arc::clone(&instance), table.clone(), handlers.clone()),
            instance,
            table,
            handlers,
            control_jobs: tokio::sync::Mutex::default(),
            auto_advance: auto::AutoAdvance::default(),
            clock_owner: None,
            replay: replay::Replay::default(),
            explored_together: OnceLock::new(),
        }
    }

    /// The same, by the clock of another server: whoever moves it does so there.
    pub fn by_clock_of(self, owner: &Arc<Self>) -> Self {
        Self { clock_owner: Some(Arc::clone(owner)), ..self }
    }

    /// The same, in front of a real server that has the data.
    pub fn in_front_of_upstream(self, wipe: Wipe) -> Self {
        let has_nodes = self.instance.upstream.as_ref().is_some_and(|upstream| upstream.deployment.is_some());
        let upstream = upstream::Upstream::new(&self.table, wipe, has_nodes);
        Self { backend: self.backend.in_front_of(upstream), ..self }
    }

    /// Periodic work: above all, deletes the expired keys.
    pub fn cron(&self) {
        self.cron_for(usize::MAX);
    }

    /// The same for so many expired keys at most. Returns whether there is more of it to do.
    pub fn cron_for(&self, most: usize) -> bool {
        let has_more = self.backend.cron(most);
        self.feed_replicas();
        has_more
    }

    /// Deletes all data, scripts and functions, unless a script holds them.
    pub fn empty(&self) -> Result<(), Busy> {
        self.backend.empty()
    }

    /// Prefetches the memory that commands on these keys, given by hash, will access.
    #[inline]
    pub fn fetch_ahead(&self, db: u32, hashes: &[u64]) {
        self.backend.fetch_ahead(db, hashes);
    }

    /// Runs one request: its reply is appended to `out`. Returns the connection's flow.
    ///
    /// Every command passes here. One atomic load selects its path: straight through
    /// [`process_command`](Self::process_command), the same with a record for the journal, or from stage to stage
    /// ([`proceed`](Self::proceed)).
    #[inline]
    pub fn execute(
        self: &Arc<Self>,
        session: &mut Box<Session>,
        resolved: Result<Resolved, CommandError>,
        words: Words<'_>,
        out: &mut Vec<u8>,
        fibers: &mut Fibers,
    ) -> Flow {
        // An intercepted command finishes on the slow path even if all hooks were disarmed meanwhile.
        match self.instance.active_hooks.path() {
            HookPath::None if !session.in_flight.is_intercepted() => {
                self.process_command(session, resolved, words, out, fibers)
            }
            HookPath::JournalOnly if session.in_flight.stage == Stage::Arrived => {
                self.process_journaled(session, resolved, words, out, fibers)
            }
            _ => self.intercept(session, resolved, words, out, fibers),
        }
    }

    /// Admits a request and runs it, or queues it in a transaction.
    #[inline]
    fn process_command(
        self: &Arc<Self>,
        session: &mut Box<Session>,
        resolved: Result<Resolved, CommandError>,
        words: Words<'_>,
        out: &mut Vec<u8>,
        fibers: &mut Fibers,
    ) -> Flow {
        let resolved = match resolved {
            Ok(resolved) => resolved,
            Err(error) => return self.refuse_unresolved(session, words, error, out),
        };
        let spec = resolved.row.spec;
        session.in_flight.row = Some(spec);
        if let Err(error) = self.admit(session, spec, words, out) {
            self.count_rejection(session, Some(resolved.row.id));
            self.end_caching_exception(session, Some(spec));
            let flow = self.refuse(session, is_exec(spec), error, out);
            if is_exec(spec) && self.instance.active_hooks.affects_processing() {
                self.feed_monitors(session, spec, words, out);
            }
            return flow;
        }
        if self.instance.active_hooks.affects_processing() {
            // It may ask how far replicas are, or change who follows whom.
            if !spec.has_flag(Flag::Write) && !spec.has_flag(Flag::ReadOnly) {
                self.feed_replicas();
            }
            if let Some(error) = self.busy_refusal(spec).or_else(|| self.write_refusal(session, spec, words)) {
                self.count_rejection(session, Some(resolved.row.id));
                return self.refuse(session, is_exec(spec), error, out);
            }
            if is_replica(session) && !matches!(spec.name, "REPLCONF" | "PSYNC" | "SYNC") {
                return self.drop_talking_replica(session);
            }
            if is_monitor(session) && (transaction::may_write(spec) || spec.has_flag(Flag::ReadOnly)) {
                self.count_rejection(session, Some(resolved.row.id));
                return self.refuse(session, is_exec(spec), MONITOR_WITHOUT_KEYS, out);
            }
            if self.is_held_back(session, spec, words) {
                return Flow::Wait(Box::new(Wait::Unpause));
            }
        }
        if self.instance.tracking.is_overfull() {
            self.instance.evict_tracked_keys(Some((&**session, out)));
        }
        if session.transaction.is_some() && transaction::is_queued(spec) {
            let start = out.len();
            let queued = transaction::queue(session, resolved.row, words, self.instance.keyspace.databases());
            if queued > self.instance.config.live().query_buffer_limit.load(Ordering::Relaxed) {
                return Flow::Drop;
            }
            Reply::Status("QUEUED").write(session.protocol, out);
            if session.replies != Replies::On {
                self.suppress_reply(session, start, out);
            }
            return Flow::Continue;
        }
        if self.backend.needs_fiber(session, spec, words) {
            let flow = self.backend.call_in_fiber(self, session, resolved, words, out, fibers);
            self.follow_script(&flow);
            return flow;
        }
        self.call(session, resolved, words, out, None)
    }

    /// Executes a command that may run now on the back, and completes its reply.
    #[inline]
    fn call(
        &self,
        session: &mut Session,
        resolved: Resolved,
        words: Words<'_>,
        out: &mut Vec<u8>,
        yielder: Option<&Yielder<'_>>,
    ) -> Flow {
        let spec = resolved.row.spec;
        let start = out.len();
        let flow = match self.backend.execute(self, session, resolved, words, out, yielder) {
            Ok(flow) => flow,
            Err(Busy) => {
                self.count_rejection(session, Some(resolved.row.id));
                return self.refuse(session, is_exec(spec), self.busy_error(), out);
            }
        };
        session.executed += 1;
        if session.replies != Replies::On && !matches!(flow, Flow::Wait(_)) {
            // EXEC suppresses replies itself, one by one.
            let start = if matches!(spec.kind, CommandKind::Transaction(_)) { out.len() } else { start };
            self.suppress_reply(session, start, out);
        }
        if !session.messages_behind.is_empty() || !session.messages_ahead.is_empty() {
            add_messages(session, start, out);
        }
        self.end_caching_exception(session, Some(spec));
        if self.instance.active_hooks.affects_processing() {
            // One that waits for replicas has not noticed that these were asked.
            if self.instance.is_replicated() && !matches!(flow, Flow::Wait(_)) {
                session.replicated = self.instance.replication_offset();
            }
            self.feed_monitors(session, spec, words, out);
        }
        flow
    }

    /// A batch of commands has run: replicas in this process get what it did, before its replies are sent. Nothing may be
    /// locked.
    #[inline]
    pub fn feed_replicas(&self) {
        if self.instance.has_links() {
            self.bring_replicas_up_to_date();
        }
    }

    /// A script has ended, or is paused: replicas in this process get what it did.
    pub(super) fn follow_script(&self, flow: &Flow) {
        if self.instance.has_links() && !matches!(flow, Flow::Wait(_)) {
            // A replica may have waited for its end.
            self.instance.call_link();
            self.bring_replicas_up_to_date();
        }
    }

    /// Finds a request's row, and its key if there is exactly one.
    #[inline]
    pub fn resolve(&self, words: Words<'_>) -> Result<Resolved, CommandError> {
        let row = self.table.resolve(words)?;
        let key = match row.spec.keys {
            [keys] => keys.single_position().and_then(|index| Some((index, hash_of(words.get(index)?)))),
            _ => None,
        };
        Ok(Resolved { row, key })
    }
}

/// The hashes of the keys that a request names.
fn key_hashes(spec: &CommandSpec, words: Words<'_>) -> impl Iterator<Item = u64> {
    keys(spec, words).map(hash_of)
}

/// How many keys there are to lock for a request.
fn key_count(spec: &CommandSpec, words: Words<'_>) -> usize {
    spec.keys.iter().filter_map(|keys| keys.positions_to_lock(words)).map(|positions| positions.len()).sum()
}

/// The keys to lock for a request: those that it accesses or may access.
fn keys<'w>(spec: &CommandSpec, words: Words<'w>) -> impl Iterator<Item = &'w [u8]> {
    let positions = spec.keys.iter().filter_map(move |keys| keys.positions_to_lock(words)).flatten();
    positions.filter_map(move |at| words.get(at))
}

fn is_monitor(session: &Session) -> bool {
    session.client.seen().monitor.load(Ordering::Relaxed)
}

fn is_replica(session: &Session) -> bool {
    session.client.seen().replica.load(Ordering::Relaxed)
}

fn is_exec(spec: &CommandSpec) -> bool {
    spec.kind == CommandKind::Transaction(TransactionCommand::Exec)
}
