//! Queries of the journal: which commands they match.

use super::entry::{EventKind, Outcome};
use super::render::rendered;
use super::ring::StoredRecord;
use crate::base::glob;
use crate::powers::pattern::{CommandInfo, Pattern};
use crate::protocol::Words;
use crate::spec::NamedRequest;

/// Names a request by its words. The table of commands does that, which this floor does not know.
pub type NameRequest<'f> = dyn for<'w> Fn(Words<'w>) -> NamedRequest<'w> + 'f;

/// A query of the journal. The empty one matches every command that was sent. Evictions and marks match if their outcome is
/// asked for; of the other conditions, those on keys and databases are for evictions, and none is for marks.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pub(crate) pattern: Pattern,
    /// Only commands after this sequence number.
    pub(crate) since: Option<u64>,
    /// Only commands whose reply, as it is shown, matches this glob.
    pub(crate) reply: Option<Vec<u8>>,
    pub(crate) outcome: Option<Outcome>,
    /// Only commands at which this rule fired.
    pub(crate) fault: Option<String>,
    /// Matches commands as they ran, also inside EXEC and scripts, and not when they were queued.
    pub(crate) children: bool,
}

impl From<Pattern> for Query {
    fn from(pattern: Pattern) -> Self {
        Self { pattern, ..Self::default() }
    }
}

impl Query {
    /// Only commands after this sequence number.
    pub fn since(mut self, seq: u64) -> Self {
        self.since = Some(seq);
        self
    }

    /// Only commands whose reply, as redis-cli would show it, matches this glob.
    pub fn reply(mut self, glob: impl Into<Vec<u8>>) -> Self {
        self.reply = Some(glob.into());
        self
    }

    /// Only commands with this outcome.
    pub fn outcome(mut self, outcome: Outcome) -> Self {
        self.outcome = Some(outcome);
        self
    }

    /// Only commands at which this fault fired, by its name.
    pub fn fault(mut self, name: impl Into<String>) -> Self {
        self.fault = Some(name.into());
        self
    }

    /// Matches commands as they ran, also inside EXEC and scripts, and not when they were queued.
    pub fn children(mut self) -> Self {
        self.children = true;
        self
    }

    /// How many commands of a record it matches: 0 or 1, or more with [`children`](Self::children).
    pub fn count(&self, stored: &StoredRecord<'_>, name_request: &NameRequest<'_>) -> u64 {
        if self.since.is_some_and(|since| stored.record.seq <= since) {
            return 0;
        }
        if let Some(kind) = stored.record.event {
            return u64::from(self.outcome == Some(Outcome::of_event(kind)) && self.matches_event(stored, kind));
        }
        if self.outcome.is_some_and(|outcome| outcome != stored.record.outcome) {
            return 0;
        }
        let record = &stored.record;
        let is_queued = self.children && record.outcome == Outcome::Queued;
        let kept = record.kept();
        let itself =
            !is_queued && self.matches(stored, record.words(), record.db, kept.reply, record.fault(), name_request);
        let mut count = u64::from(itself);
        if self.children {
            for inside in record.nested().0 {
                let kept = &inside.kept;
                count +=
                    u64::from(self.matches(stored, kept.words(), inside.db, kept.reply, inside.fault, name_request));
            }
        }
        count
    }

    /// Whether it is an eviction or a mark of which a list of all that matches tells, too: nothing but its place was asked
    /// for, and of an eviction the key and the database.
    pub(super) fn lists(&self, stored: &StoredRecord<'_>) -> bool {
        self.outcome.is_none()
            && self.since.is_none_or(|since| stored.record.seq > since)
            && stored.record.event.is_some_and(|kind| self.matches_event(stored, kind))
    }

    fn matches_event(&self, stored: &StoredRecord<'_>, kind: EventKind) -> bool {
        let (reply, fault) = (self.reply.is_none(), self.fault.is_none());
        let is_meant = match kind {
            EventKind::Evicted => {
                self.pattern.matches_key(stored.record.db, stored.record.words().get(0).unwrap_or_default())
            }
            EventKind::Mark => self.pattern.is_any(),
            EventKind::Closed
            | EventKind::Started
            | EventKind::Clock
            | EventKind::Missing
            | EventKind::Promoted
            | EventKind::Lost
            | EventKind::Link
            | EventKind::Replaced
            | EventKind::Topology => false,
        };
        reply && fault && is_meant
    }

    fn matches(
        &self,
        stored: &StoredRecord<'_>,
        words: Words<'_>,
        db: u32,
        reply: &[u8],
        fault: Option<&[u8]>,
        name_request: &NameRequest<'_>,
    ) -> bool {
        if self.fault.as_ref().is_some_and(|name| fault != Some(name.as_bytes())) {
            return false;
        }
        if !self.pattern.is_any() {
            let NamedRequest { container, name, keys } = name_request(words);
            let (client, client_name) = (stored.record.client, stored.client_name());
            let node = stored.client_node().filter(|_| self.pattern.names_node()).cloned();
            if !self.pattern.matches(&CommandInfo { container, name, keys, client, client_name, db, node }) {
                return false;
            }
        }
        self.reply.as_ref().is_none_or(|glob| glob::matches(glob, rendered(reply).as_bytes(), false))
    }
}
