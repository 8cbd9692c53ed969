//! The back as a real server: what the front knows of the commands that it passes on.
//!
//! Nobody here interprets a command that the server runs. The front follows along only as far as names, databases,
//! transactions and subscriptions are needed for patterns, the journal and the audit: [`Follows`] says what it has to know of
//! a command, [`PassedCommand`] is one that has no reply yet, [`FollowedState`] what follows from the replies.
//! The bytes, the sockets and their order are in `server/upstream`.

pub mod addresses;
mod follow;
mod key_order;
mod passed;
mod record;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock};

use super::{Engine, Resolved, is_exec, keys, transaction};
use crate::clients::session::Session;
use crate::insight::scripts::ScriptKnowledge;
use crate::powers::{Hook, Outcome};
use crate::protocol::Words;
use crate::spec::{CommandKind, CommandSpec, Flag, ResolvedRow, Table};

use addresses::AddressKind;
pub use follow::{FollowedState, Follows, Heard, is_error, replies_after};
use key_order::{KeyOrder, NamedKeys};
pub use passed::{Own, PassedCommand, PassedQueue, SpareCommands, Waiting};
pub(super) use record::effect_order;
pub use record::runs_script;

/// The server behind the front, as far as the front knows it.
pub(super) struct Upstream {
    /// What the front has to know of each command, by the id of its row.
    follows: Box<[Follows]>,
    wipe: Wipe,
    key_order: KeyOrder,
    /// What is known of its scripts; made for the first one that is recorded.
    scripts: OnceLock<Mutex<ScriptKnowledge>>,
}

/// Deletes all data, scripts and functions of the server. The error says what went wrong.
pub type Wipe = Box<dyn Fn() -> Wiping + Send + Sync>;
pub type Wiping = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

impl Upstream {
    /// Deletes all data, scripts and functions of the server.
    pub fn wipe(&self) -> Wiping {
        (self.wipe)()
    }

    pub fn new(table: &Table, wipe: Wipe, has_nodes: bool) -> Self {
        let mut follows = Vec::new();
        for (id, name) in table.full_names(|_| true) {
            if follows.len() <= id.index() {
                follows.resize(id.index() + 1, Follows::Nothing);
            }
            follows[id.index()] = match AddressKind::of(&name) {
                Some(kind) if has_nodes => Follows::Addresses(kind),
                _ => Follows::of(&name),
            };
        }
        Self { follows: follows.into(), wipe, key_order: KeyOrder::default(), scripts: OnceLock::new() }
    }
}

impl Engine {
    /// What the front has to know of a command of this row.
    #[inline]
    pub fn follows(&self, resolved: &Resolved) -> Follows {
        if resolved.row.spec.kind == CommandKind::Blocking {
            return Follows::Blocking;
        }
        let upstream = self.backend.upstream();
        upstream.and_then(|upstream| upstream.follows.get(resolved.row.id.index())).copied().unwrap_or_default()
    }

    /// Whether commands wait for each other, so that their order on each key is known.
    #[inline]
    pub fn keeps_key_order(&self) -> bool {
        let upstream = self.instance.upstream.as_ref();
        upstream.is_some_and(|upstream| upstream.keeps_order.load(Ordering::Relaxed))
    }

    /// Takes the turn of a command on its keys, if the order of commands is kept. `Wait`: another client's has it, and the
    /// client is signalled when it may be over. `is_queued`: it is part of a transaction, and has its turn with EXEC.
    pub fn take_turn(&self, session: &Session, row: Option<ResolvedRow>, words: Words<'_>, is_queued: bool) -> Turn {
        let (Some(upstream), Some(row), true) = (self.backend.upstream(), row, self.keeps_key_order()) else {
            return Turn::Unordered;
        };
        let Some(keys) = named_keys(session, row.spec, words, is_queued) else { return Turn::Unordered };
        if upstream.key_order.take(&session.client, keys) { Turn::Taken } else { Turn::Wait }
    }

    /// Whether a client that waits for the turn of its command would get it now.
    pub fn has_turn(&self, session: &Session) -> bool {
        let upstream = self.backend.upstream();
        let Some(upstream) = upstream else { return true };
        if !self.keeps_key_order() {
            upstream.key_order.leave(session.client.id());
        }
        upstream.key_order.is_free_for(session.client.id())
    }

    /// Gives back the turn of the first command that has one.
    pub fn give_back_turn(&self, session: &Session) {
        if let Some(upstream) = self.backend.upstream() {
            upstream.key_order.release(session.client.id());
        }
    }

    /// A client that is gone waits for nothing, and nobody waits for it.
    pub fn forget_turns(&self, session: &Session) {
        if let Some(upstream) = self.backend.upstream() {
            upstream.key_order.forget(session.client.id());
        }
    }

    /// A command that was passed to the server has its whole reply, or will have none. What follows from it is applied, and the journal records it.
    pub fn end_passed(
        &self,
        session: &mut Session,
        state: &mut FollowedState,
        command: &mut PassedCommand,
        reply: Replied<'_>,
        now: i64,
    ) {
        let db = session.db;
        let outcome = match reply {
            Replied::Unknown => Outcome::Unknown,
            Replied::NeverRan => Outcome::NeverRan,
            Replied::With([]) => Outcome::Silent,
            Replied::With(reply) if session.transaction.is_some() && reply.starts_with(b"+QUEUED") => Outcome::Queued,
            Replied::With(_) => Outcome::Answered,
        };
        let reply = if let Replied::With(reply) = reply { reply } else { &[] };
        self.note_children(session, command, reply);
        state.follow(session, &self.table, command, reply);
        let is_recorded = !command.is_intercepted && outcome != Outcome::NeverRan;
        if is_recorded && self.instance.active_hooks.has(Hook::Journal) {
            self.record_passed(session, command, db, reply, outcome, now);
        }
        // The next command on its keys has a later place in the journal.
        if command.is_ordered {
            self.give_back_turn(session);
        }
    }
}

/// The reply of a command that was passed to the server.
#[derive(Clone, Copy, Debug)]
pub enum Replied<'r> {
    /// What is kept of it; nothing if the command has none.
    With(&'r [u8]),
    /// None came, and nobody knows whether the command ran.
    Unknown,
    /// None came, and the command did not run.
    NeverRan,
}

/// Whether it is a command's turn on its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Taken,
    /// Its order is not kept: it is not asked for, or nobody can know it.
    Unordered,
    Wait,
}

/// The keys on which the order of a command is kept; `None` if that cannot be told, or it has no place in that order.
fn named_keys(session: &Session, spec: &CommandSpec, words: Words<'_>, is_queued: bool) -> Option<NamedKeys> {
    if is_exec(spec) {
        let mut all = Vec::new();
        for queued in session.queued() {
            match own_keys(queued.row.spec, queued.words)? {
                NamedKeys::All => return Some(NamedKeys::All),
                NamedKeys::Some(_) => all.extend(keys(queued.row.spec, queued.words)),
            }
        }
        return Some(NamedKeys::of(all.into_iter()));
    }
    if is_queued && transaction::is_queued(spec) {
        return Some(NamedKeys::of(std::iter::empty()));
    }
    own_keys(spec, words)
}

fn own_keys(spec: &CommandSpec, words: Words<'_>) -> Option<NamedKeys> {
    match spec.kind {
        CommandKind::Blocking => None,
        CommandKind::Everything | CommandKind::Database if spec.has_flag(Flag::Write) && spec.keys.is_empty() => {
            Some(NamedKeys::All)
        }
        _ => Some(NamedKeys::of(keys(spec, words))),
    }
}
