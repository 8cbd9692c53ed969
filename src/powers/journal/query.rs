//! Which commands a question to the journal is about.

use super::entry::Outcome;
use super::render::rendered;
use super::ring::StoredRecord;
use crate::base::glob;
use crate::powers::pattern::{CommandInfo, Pattern};
use crate::protocol::Words;
use crate::spec::NamedRequest;

/// Tells what command words are: only whoever knows the commands can.
pub type NameRequest<'f> = dyn for<'w> Fn(Words<'w>) -> NamedRequest<'w> + 'f;

/// A question to the journal. The empty one is about every command that was sent.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pub(crate) pattern: Pattern,
    /// Only what took effect after this place in the order.
    pub(crate) since: Option<u64>,
    /// Only what was answered like this: a glob for the reply as it is shown.
    pub(crate) reply: Option<Vec<u8>>,
    pub(crate) outcome: Option<Outcome>,
    /// Only what met this rule.
    pub(crate) fault: Option<String>,
    /// The question is about commands as they ran, inside EXEC and scripts, too, and not about what was only queued.
    pub(crate) children: bool,
}

impl From<Pattern> for Query {
    fn from(pattern: Pattern) -> Self {
        Self { pattern, ..Self::default() }
    }
}

impl Query {
    /// Only what took effect after this place in the order.
    pub fn since(mut self, seq: u64) -> Self {
        self.since = Some(seq);
        self
    }

    /// Only what was answered like this: a glob for the reply as redis-cli would show it.
    pub fn reply(mut self, glob: impl Into<Vec<u8>>) -> Self {
        self.reply = Some(glob.into());
        self
    }

    /// Only what has had this outcome.
    pub fn outcome(mut self, outcome: Outcome) -> Self {
        self.outcome = Some(outcome);
        self
    }

    /// Only what met this fault, by name.
    pub fn fault(mut self, name: impl Into<String>) -> Self {
        self.fault = Some(name.into());
        self
    }

    /// About commands as they ran, inside EXEC and scripts, too, and not about what was only queued.
    pub fn children(mut self) -> Self {
        self.children = true;
        self
    }

    /// How many commands of an entry it is about: none or one, or more if it looks inside.
    pub fn count(&self, stored: &StoredRecord<'_>, name_request: &NameRequest<'_>) -> u64 {
        if stored.record.event.is_some() || self.since.is_some_and(|since| stored.record.seq <= since) {
            return 0;
        }
        if self.outcome.is_some_and(|outcome| outcome != stored.record.outcome) {
            return 0;
        }
        let record = &stored.record;
        let is_queued = self.children && record.outcome == Outcome::Queued;
        let kept = record.kept();
        let itself =
            !is_queued && self.fits(stored, record.words(), record.db, kept.reply, record.fault(), name_request);
        let mut count = u64::from(itself);
        if self.children {
            for inside in record.inside().0 {
                let kept = &inside.kept;
                count += u64::from(self.fits(stored, kept.words(), inside.db, kept.reply, inside.fault, name_request));
            }
        }
        count
    }

    fn fits(
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
            if !self.pattern.matches(&CommandInfo { container, name, keys, client, client_name, db }) {
                return false;
            }
        }
        self.reply.as_ref().is_none_or(|glob| glob::matches(glob, rendered(reply).as_bytes(), false))
    }
}
