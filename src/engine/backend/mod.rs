//! The back: executes commands. The engine around it is the front: everything about clients.
//!
//! The front frames, resolves and admits a command, takes it past hooks, queues it in a transaction, calls
//! [`Backend::execute`], and suppresses, records and shows the reply. It would be the same in front of any data. The back
//! gets a command that may run now, and writes its reply. For the commands that run inside another one, it asks the front
//! whether they may, and tells it what they did (`permit`, `fault_inside`, `record_child`, `feed_monitors` of
//! [`Engine`](super::Engine)).
//!
//! A real server behind the same front takes whole requests and gives whole replies: its connections pass the bytes on
//! (`server/upstream`), and a command that goes through the stages waits for its reply there
//! ([`Wait::Upstream`](crate::clients::session::Wait)). What the front knows of it is in [`upstream`](super::upstream).

mod local;

use std::sync::Arc;

use super::upstream::Upstream;
use super::{Engine, Resolved, transaction};
use crate::base::clock::Millis;
use crate::clients::instance::{Instance, MemoryState};
use crate::clients::session::{Client, Flow, Session};
use crate::commands::Handlers;
use crate::data::keyspace::{Busy, Recovery};
use crate::protocol::Words;
use crate::script::Yielder;
use crate::spec::{CommandSpec, Table};
use local::Local;

pub use local::Fibers;

/// The back of one server.
pub(super) struct Backend {
    /// The embedded keyspace. In front of another server it has no data, and runs the commands of the test powers alone.
    own: Local,
    /// The real server that has the data, if one has.
    upstream: Option<Box<Upstream>>,
}

impl Backend {
    pub fn local(instance: Arc<Instance>, table: Table, handlers: Handlers) -> Self {
        Self { own: Local::new(instance, table, handlers), upstream: None }
    }

    /// The same, in front of a real server.
    pub fn in_front_of(self, upstream: Upstream) -> Self {
        Self { upstream: Some(Box::new(upstream)), ..self }
    }

    pub fn upstream(&self) -> Option<&Upstream> {
        self.upstream.as_deref()
    }

    /// Executes a command that may run now: its reply is appended to `out`. Returns the connection's flow; [`Busy`] if
    /// a slow script holds the locks.
    #[inline]
    pub fn execute(
        &self,
        front: &Engine,
        session: &mut Session,
        resolved: Resolved,
        words: Words<'_>,
        out: &mut Vec<u8>,
        yielder: Option<&Yielder<'_>>,
    ) -> Result<Flow, Busy> {
        self.own.execute(front, session, resolved, words, out, yielder)
    }

    /// Whether a command needs a stack of its own, because it may run scripts that pause.
    #[inline]
    pub fn needs_fiber(&self, session: &Session, spec: &CommandSpec, words: Words<'_>) -> bool {
        transaction::may_run_scripts(session, spec) && !self.own.runs_directly(spec, words)
    }

    /// Calls a command on its own stack, through the front. If it is slow, a stand-in takes the session's place until
    /// [`Fibers::resume`] reports that the command is finished.
    pub fn call_in_fiber(
        &self,
        front: &Arc<Engine>,
        session: &mut Box<Session>,
        resolved: Resolved,
        words: Words<'_>,
        out: &mut Vec<u8>,
        fibers: &mut Fibers,
    ) -> Flow {
        self.own.call_in_fiber(front, session, resolved, words, out, fibers)
    }

    /// Prefetches the memory that commands on these keys, given by hash, will access.
    #[inline]
    pub fn fetch_ahead(&self, db: u32, hashes: &[u64]) {
        self.own.fetch_ahead(db, hashes)
    }

    /// Evicts keys if memory is above `maxmemory`, before a command runs.
    pub fn evict(&self) -> MemoryState {
        self.own.evict()
    }

    /// Whether a request runs scripts whose flags allow them to take memory.
    pub fn scripts_may_grow(&self, session: &Session, spec: &CommandSpec, words: Words<'_>) -> bool {
        self.own.scripts_may_grow(session, spec, words)
    }

    /// Whether a request changes data, or may do so.
    pub fn will_write(&self, session: &Session, spec: &CommandSpec, words: Words<'_>) -> bool {
        self.own.will_write(session, spec, words)
    }

    /// Whether a request writes, by the flags of its commands, or of its scripts where they have some.
    pub fn is_write(&self, session: &Session, spec: &CommandSpec, words: Words<'_>) -> bool {
        self.own.is_write(session, spec, words)
    }

    /// Whether a request is not to be answered from data that can be out of date.
    pub fn needs_fresh_data(&self, session: &Session, spec: &CommandSpec, words: Words<'_>) -> bool {
        self.own.needs_fresh_data(session, spec, words)
    }

    /// Periodic work: above all, deletes so many expired keys. Returns whether there is more of it to do.
    pub fn cron(&self, most: usize) -> bool {
        self.own.cron(most)
    }

    /// The next expiry of a key that clients block on until it disappears.
    pub fn next_awaited_expiry(&self) -> Option<Millis> {
        self.own.next_awaited_expiry()
    }

    /// Puts right what a command may have left half done that has panicked.
    pub fn recover(&self) -> Result<Recovery, Busy> {
        self.own.recover()
    }

    /// Runs the command of a client that is blocked on keys again, and those of others that are blocked on these,
    /// unless a slow script holds the locks.
    pub fn retry_waiters_of(&self, client: &Client) -> Result<(), Busy> {
        self.own.retry_waiters_of(client)
    }

    /// Takes over all data of a master, in place of its own.
    pub fn take_over(&self, snapshot: &[u8]) -> Result<(), Busy> {
        self.own.take_over(snapshot)
    }

    /// Deletes all data, scripts and functions, unless a script holds them.
    pub fn empty(&self) -> Result<(), Busy> {
        self.own.empty()
    }
}
