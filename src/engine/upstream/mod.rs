//! The back as a real server: what the front knows of the commands that it passes on.
//!
//! Nobody here interprets a command that the server runs. The front follows along only as far as names, databases,
//! transactions and subscriptions are needed for patterns, the journal and the audit: [`Follows`] says what it has to know of
//! a command, [`PassedCommand`] is one that has no reply yet, [`FollowedState`] what follows from the replies.
//! The bytes, the sockets and their order are in `server/upstream`.

mod follow;
mod passed;
mod record;

use std::future::Future;
use std::pin::Pin;

use super::{Engine, Resolved};
use crate::clients::session::Session;
use crate::powers::{Hook, Outcome};
use crate::protocol::OwnedWords;
use crate::spec::{CommandKind, Table};

pub use follow::{FollowedState, Follows, Heard, is_error, replies_after};
pub use passed::{Own, PassedCommand, PassedQueue, Waiting};

/// The server behind the front, as far as the front knows it.
pub(super) struct Upstream {
    /// What the front has to know of each command, by the id of its row.
    follows: Box<[Follows]>,
    wipe: Wipe,
}

/// Deletes all data, scripts and functions of the server. The error says what went wrong.
pub type Wipe = Box<dyn Fn() -> Wiping + Send + Sync>;
pub type Wiping = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

impl Upstream {
    /// Deletes all data, scripts and functions of the server.
    pub fn wipe(&self) -> Wiping {
        (self.wipe)()
    }

    pub fn new(table: &Table, wipe: Wipe) -> Self {
        let mut follows = Vec::new();
        for (id, name) in table.full_names() {
            if follows.len() <= id.index() {
                follows.resize(id.index() + 1, Follows::Nothing);
            }
            follows[id.index()] = Follows::of(&name);
        }
        for row in table.rows() {
            if let Some(resolved) = table.row_of([row.name].into_iter().collect::<OwnedWords>().as_words())
                && row.kind == CommandKind::Blocking
            {
                follows[resolved.id.index()] = Follows::Blocking;
            }
        }
        Self { follows: follows.into(), wipe }
    }
}

impl Engine {
    /// What the front has to know of a command of this row.
    #[inline]
    pub fn follows(&self, resolved: &Resolved) -> Follows {
        let upstream = self.backend.upstream();
        upstream.and_then(|upstream| upstream.follows.get(resolved.row.id.index())).copied().unwrap_or_default()
    }

    /// A command that was passed to the server has its whole reply, of which this is kept: nothing if it has none, `None`
    /// if nobody knows whether it ran. What follows from it is applied, and the journal records it.
    pub fn end_passed(
        &self,
        session: &mut Session,
        state: &mut FollowedState,
        command: &mut PassedCommand,
        reply: Option<&[u8]>,
        now: i64,
    ) {
        let db = session.db;
        let outcome = match reply {
            None => Outcome::Unknown,
            Some([]) => Outcome::Silent,
            Some(reply) if session.transaction.is_some() && reply.starts_with(b"+QUEUED") => Outcome::Queued,
            Some(_) => Outcome::Answered,
        };
        let reply = reply.unwrap_or_default();
        self.note_children(session, command, reply);
        state.follow(session, &self.table, command, reply);
        if command.is_intercepted {
            return;
        }
        if self.instance.active_hooks.has(Hook::Journal) {
            self.record_passed(session, command, db, reply, outcome, now);
        }
    }
}
