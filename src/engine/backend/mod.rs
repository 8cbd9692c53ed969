//! The back: what executes a command. The engine around it is the front: everything about clients.
//!
//! The front frames, resolves and admits a command, takes it past hooks, queues it in a transaction, calls
//! [`Backend::execute`], and suppresses, records and shows the reply. It would be the same in front of any data. The back
//! gets a command that may run now, and writes its reply. For the commands that run inside another one, it asks the front
//! whether they may, and tells it what they did (`permit`, `fault_inside`, `record_child`, `feed_monitors` of
//! [`Engine`](super::Engine)).
//!
//! Another back, such as a real server behind the same front, is a variant of [`Backend`] and a folder beside `local`; the
//! compiler then names every question that it has to answer. A command that waits for a remote reply is a variant of
//! [`Wait`](crate::clients::session::Wait).

mod local;

use std::sync::Arc;

use super::{Engine, Resolved, transaction};
use crate::base::clock::Millis;
use crate::clients::instance::Instance;
use crate::clients::session::{Flow, Session};
use crate::commands::Handlers;
use crate::data::keyspace::Busy;
use crate::protocol::Words;
use crate::script::Pause;
use crate::spec::{CommandSpec, Table};
use local::Local;

pub use local::Fibers;

/// What executes the commands of one server.
pub(super) enum Backend {
    /// The embedded keyspace.
    Local(Local),
}

impl Backend {
    pub fn local(instance: Arc<Instance>, table: Table, handlers: Handlers) -> Self {
        Self::Local(Local::new(instance, table, handlers))
    }

    /// Executes a command that may run now: its reply is appended to `out`. Returns how the connection goes on; [`Busy`], if
    /// a script that takes long holds what the command needs.
    #[inline]
    pub fn execute(
        &self,
        front: &Engine,
        session: &mut Session,
        resolved: Resolved,
        words: Words<'_>,
        out: &mut Vec<u8>,
        pause: Option<&Pause<'_>>,
    ) -> Result<Flow, Busy> {
        match self {
            Self::Local(local) => local.execute(front, session, resolved, words, out, pause),
        }
    }

    /// Whether a command is to be called on a stack of its own, because it may run scripts.
    #[inline]
    pub fn needs_fiber(&self, session: &Session, spec: &CommandSpec) -> bool {
        match self {
            Self::Local(_) => transaction::may_run_scripts(session, spec),
        }
    }

    /// Has the front call a command on a stack of its own. If it takes long, the session is left without what the command
    /// needs until [`Fibers::resume`] says that it is done.
    pub fn call_in_fiber(
        &self,
        front: &Arc<Engine>,
        session: &mut Box<Session>,
        resolved: Resolved,
        words: Words<'_>,
        out: &mut Vec<u8>,
        fibers: &mut Fibers,
    ) -> Flow {
        match self {
            Self::Local(local) => local.call_in_fiber(front, session, resolved, words, out, fibers),
        }
    }

    /// Fetches the memory ahead that commands on these keys, given by hash, will look at.
    #[inline]
    pub fn fetch_ahead(&self, db: u32, hashes: &[u64]) {
        match self {
            Self::Local(local) => local.fetch_ahead(db, hashes),
        }
    }

    /// How many bytes the data takes, for `maxmemory`.
    pub fn used_bytes(&self) -> usize {
        match self {
            Self::Local(local) => local.used_bytes(),
        }
    }

    /// Whether a request runs scripts that declare that they may need memory.
    pub fn scripts_may_grow(&self, session: &Session, spec: &CommandSpec, words: Words<'_>) -> bool {
        match self {
            Self::Local(local) => local.scripts_may_grow(session, spec, words),
        }
    }

    /// Whether a request changes data, or may do so.
    pub fn will_write(&self, session: &Session, spec: &CommandSpec, words: Words<'_>) -> bool {
        match self {
            Self::Local(local) => local.will_write(session, spec, words),
        }
    }

    /// Does the periodic work: above all, deletes the keys that have expired.
    pub fn cron(&self) {
        match self {
            Self::Local(local) => local.cron(),
        }
    }

    /// When the first key expires whose end a client is blocked on.
    pub fn next_awaited_expiry(&self) -> Option<Millis> {
        match self {
            Self::Local(local) => local.next_awaited_expiry(),
        }
    }

    /// Deletes all data, scripts and functions, unless a script holds them.
    pub fn empty(&self) -> Result<(), Busy> {
        match self {
            Self::Local(local) => local.empty(),
        }
    }
}
