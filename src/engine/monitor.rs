//! MONITOR: what monitoring clients see of a command.

use super::Engine;
use crate::clients::instance::Instance;
use crate::clients::session::{Peer, Session};
use crate::powers::Hook;
use crate::protocol::{Words, parse_integer, quote};
use crate::spec::{CommandSpec, Flag, Secrets};

const REDACTED: &[u8] = b"(redacted)";

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
            feed(&self.instance, session, spec, words, own);
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
            feed_as(SCRIPT, &self.instance, session, spec, words, &mut own);
            session.messages_behind = own;
        }
    }

    /// Like [`feed_monitors`](Self::feed_monitors), for a command that is about to run a script: it is fed before the
    /// commands inside, and even if the script does not exist.
    #[cold]
    pub(super) fn feed_monitors_ahead(&self, session: &mut Session, spec: &'static CommandSpec, words: Words<'_>) {
        let mut own = std::mem::take(&mut session.messages_behind);
        feed(&self.instance, session, spec, words, &mut own);
        session.messages_behind = own;
    }
}

/// Sends `+<time> [<db> <address>] "WORD" "WORD"` to every MONITOR client. If the session is one itself, its copy is
/// appended to `own`.
pub(super) fn feed(instance: &Instance, session: &Session, spec: &CommandSpec, words: Words<'_>, own: &mut Vec<u8>) {
    let source = match session.client.peer() {
        Peer::Unix { path } => format!("unix:{}", path.display()),
        peer => peer.address(),
    };
    feed_as(&source, instance, session, spec, words, own);
}

/// Like [`feed`], with a source other than the client's address.
pub(super) fn feed_as(
    source: &str,
    instance: &Instance,
    session: &Session,
    spec: &CommandSpec,
    words: Words<'_>,
    own: &mut Vec<u8>,
) {
    let micros = instance.clock.micros();
    let (seconds, rest) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let mut line = format!("+{seconds}.{rest:06} [{} {source}]", session.db).into_bytes();
    let secrets = secrets(spec, words);
    for (at, word) in words.iter().enumerate() {
        line.push(b' ');
        line.extend(quote(if secrets.contains(&at) { REDACTED } else { word }));
    }
    line.extend_from_slice(b"\r\n");
    if instance.feed_monitors(&line, &session.client) {
        own.extend_from_slice(&line);
    }
}

/// The positions of names and passwords among the words.
pub(super) fn secrets(spec: &CommandSpec, words: Words<'_>) -> Vec<usize> {
    match spec.secrets {
        Secrets::Credentials if words.len() <= 3 => (1..words.len()).collect(),
        Secrets::Handshake if words.get(1).and_then(parse_integer).is_some_and(|version| matches!(version, 2 | 3)) => {
            let mut secrets = Vec::new();
            let mut at = 2;
            while let Some(option) = words.get(at) {
                let left = words.len() - at - 1;
                if option.eq_ignore_ascii_case(b"AUTH") && left >= 2 {
                    secrets.extend([at + 1, at + 2]);
                    at += 3;
                } else if option.eq_ignore_ascii_case(b"SETNAME") && left >= 1 {
                    at += 2;
                } else {
                    break;
                }
            }
            secrets
        }
        Secrets::None
        | Secrets::Credentials
        | Secrets::Handshake
        | Secrets::UserRules
        | Secrets::Settings
        | Secrets::SettingsInReply => Vec::new(),
    }
}
