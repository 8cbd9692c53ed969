//! Client-side caching: remembers reads.

use super::Local;
use crate::clients::session::Session;
use crate::data::keyspace::View;
use crate::engine::keys;
use crate::protocol::Words;
use crate::spec::{CommandSpec, Flag};

impl Local {
    /// Remembers the keys that a command has read for a tracking client. The view still holds its locks, so the next
    /// change of one of the keys invalidates the copy.
    #[inline]
    pub(super) fn track_reads(&self, view: &mut View<'_>, session: &mut Session, spec: &CommandSpec, words: Words<'_>) {
        if session.tracking.remembers && spec.has_flag(Flag::ReadOnly) {
            self.track_keys(view, session, spec, words);
        }
    }

    #[cold]
    pub(super) fn track_keys(&self, view: &mut View<'_>, session: &mut Session, spec: &CommandSpec, words: Words<'_>) {
        // Invalidations of keys that the command found expired precede its own reads.
        self.instance.announce(view, Some(session));
        if session.tracking.wants_reads() {
            self.instance.tracking.record_reads(session.client.id(), keys(spec, words));
        }
    }
}
