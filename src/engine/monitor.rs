//! MONITOR: what monitoring clients see of a command.

use super::Engine;
use crate::clients::session::{Peer, Session};
use crate::powers::Hook;
use crate::protocol::{Words, quote};
use crate::spec::{CommandSpec, Flag, Redaction};

/// The source that MONITOR names for a command inside a script.
pub(super) const SCRIPT: &str = "lua";

impl Engine {
    /// Feeds MONITOR clients a command that has just run. If the session is one itself, its copy goes to `own`.
    #[cold]
    pub(super) fn feed_monitors(
        &self,
        session: &Session,
        spec: &'static CommandSpec,
        words: Words<'_>,
        own: &mut Vec<u8>,
    ) {
        if self.instance.active_hooks.has(Hook::Monitor)
            && !spec.has_flag(Flag::SkipMonitor)
            && !spec.has_flag(Flag::Admin)
        {
            feed(self, session, words, own);
        }
    }

    /// Like [`feed_monitors`](Self::feed_monitors), for a command inside a script.
    #[cold]
    pub(super) fn feed_monitors_from_script(
        &self,
        session: &mut Session,
        spec: &'static CommandSpec,
        words: Words<'_>,
    ) {
        if self.instance.active_hooks.has(Hook::Monitor)
            && !spec.has_flag(Flag::SkipMonitor)
            && !spec.has_flag(Flag::Admin)
        {
            let mut own = std::mem::take(&mut session.messages_behind);
            feed_as(SCRIPT, self, session, words, &mut own);
            session.messages_behind = own;
        }
    }

    /// Like [`feed_monitors`](Self::feed_monitors), for a command that is about to run a script: it is fed before the
    /// commands inside, and even if the script does not exist.
    #[cold]
    pub(super) fn feed_monitors_ahead(&self, session: &mut Session, words: Words<'_>) {
        let mut own = std::mem::take(&mut session.messages_behind);
        feed(self, session, words, &mut own);
        session.messages_behind = own;
    }
}

/// Sends `+<time> [<db> <address>] "WORD" "WORD"` to every MONITOR client. If the session is one itself, its copy is
/// appended to `own`.
fn feed(engine: &Engine, session: &Session, words: Words<'_>, own: &mut Vec<u8>) {
    let source = match session.client.peer() {
        Peer::Unix { path } => format!("unix:{}", path.display()),
        peer => peer.address(),
    };
    feed_as(&source, engine, session, words, own);
}

/// Like [`feed`], with a source other than the client's address.
fn feed_as(source: &str, engine: &Engine, session: &Session, words: Words<'_>, own: &mut Vec<u8>) {
    let instance = &engine.instance;
    let micros = instance.clock.micros();
    let (seconds, rest) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let mut line = format!("+{seconds}.{rest:06} [{} {source}]", session.db).into_bytes();
    let mut redaction = Redaction::default();
    for word in redaction.words(&engine.table, words).iter() {
        line.push(b' ');
        line.extend(quote(word));
    }
    line.extend_from_slice(b"\r\n");
    if instance.feed_monitors(&line, &session.client) {
        own.extend_from_slice(&line);
    }
}
