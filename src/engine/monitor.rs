//! MONITOR: what monitoring clients see of a command.

use super::Engine;
use crate::clients::session::{Peer, Session};
use crate::powers::{Hook, MONITOR_SCRIPT, write_monitor_line};
use crate::protocol::Words;
use crate::spec::{CommandSpec, Flag, Redaction};

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
            feed_as(MONITOR_SCRIPT, self, session, words, &mut own);
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
        Peer::Unix { path, .. } => format!("unix:{}", path.display()),
        peer => peer.address(),
    };
    feed_as(&source, engine, session, words, own);
}

/// Like [`feed`], with a source other than the client's address.
fn feed_as(source: &str, engine: &Engine, session: &Session, words: Words<'_>, own: &mut Vec<u8>) {
    let instance = &engine.instance;
    let mut redaction = Redaction::default();
    let words = redaction.words(&engine.table, words);
    let mut line = Vec::new();
    write_monitor_line(&mut line, instance.clock.micros(), session.db, source.as_bytes(), words);
    if instance.feed_monitors(&line, &session.client) {
        own.extend_from_slice(&line);
    }
}
