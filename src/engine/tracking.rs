//! Client-side caching, where it meets the life of a command.

use super::{Engine, keys};
use crate::clients::session::Session;
use crate::data::keyspace::View;
use crate::protocol::Words;
use crate::spec::{CommandSpec, Flag};

impl Engine {
    /// Remembers the keys that a command has read, for a client that keeps copies. The view still holds its locks, so
    /// whoever changes one of the keys next finds out who is to be told.
    #[inline]
    pub(super) fn track_reads(&self, view: &mut View<'_>, session: &mut Session, spec: &CommandSpec, words: Words<'_>) {
        if session.tracking.remembers && spec.has_flag(Flag::ReadOnly) {
            self.track_keys(view, session, spec, words);
        }
    }

    #[cold]
    pub(super) fn track_keys(&self, view: &mut View<'_>, session: &mut Session, spec: &CommandSpec, words: Words<'_>) {
        // What the command found to be over is forgotten first.
        self.instance.announce(view, Some(session));
        if session.tracking.wants_reads() {
            self.instance.tracking.remember(session.client.id(), keys(spec, words));
        }
    }

    /// CLIENT CACHING is about one command or one transaction; CLIENT's own commands in between do not count.
    #[inline]
    pub(super) fn end_caching_exception(&self, session: &mut Session, spec: Option<&'static CommandSpec>) {
        if session.tracking.excepted && session.transaction.is_none() {
            let is_client = spec.is_some_and(|spec| self.table.full_name(spec).starts_with("client|"));
            session.tracking.excepted = is_client;
        }
    }
}
