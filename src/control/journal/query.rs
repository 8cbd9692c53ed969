//! Which commands a question to the journal is about.

use smallvec::SmallVec;

use super::entry::Outcome;
use super::render::rendered;
use super::ring::Seen;
use crate::control::{Arrival, Pattern};
use crate::glob;
use crate::resp::Words;

/// What is known of a command by its words.
pub struct Named<'a> {
    /// The container's name, if the command is a subcommand.
    pub container: Option<&'static str>,
    /// In capitals; empty if there is no such command.
    pub name: &'static str,
    pub keys: SmallVec<[&'a [u8]; 4]>,
}

/// Tells what command words are: only whoever knows the commands can.
pub type Naming<'f> = dyn for<'w> Fn(Words<'w>) -> Named<'w> + 'f;

/// A question to the journal. The empty one is about every command that was sent.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pub pattern: Pattern,
    /// Only what took effect after this place in the order.
    pub since: Option<u64>,
    /// Only what was answered like this: a glob for the reply as it is shown.
    pub reply: Option<Vec<u8>>,
    pub outcome: Option<Outcome>,
    /// Only what met this rule.
    pub fault: Option<String>,
    /// The question is about commands as they ran, inside EXEC and scripts, too, and not about what was only queued.
    pub children: bool,
}

impl Query {
    /// How many commands of an entry it is about: none or one, or more if it looks inside.
    pub fn count(&self, seen: &Seen<'_>, naming: &Naming<'_>) -> u64 {
        if self.since.is_some_and(|since| seen.record.seq <= since) {
            return 0;
        }
        if self.outcome.is_some_and(|outcome| outcome != seen.record.outcome) {
            return 0;
        }
        let record = &seen.record;
        let is_queued = self.children && record.outcome == Outcome::Queued;
        let kept = record.kept();
        let itself = !is_queued && self.fits(seen, record.words(), record.db, kept.reply, record.fault(), naming);
        let mut count = u64::from(itself);
        if self.children {
            for inside in record.inside().0 {
                let kept = &inside.kept;
                count += u64::from(self.fits(seen, kept.words(), inside.db, kept.reply, inside.fault, naming));
            }
        }
        count
    }

    fn fits(
        &self,
        seen: &Seen<'_>,
        words: Words<'_>,
        db: u32,
        reply: &[u8],
        fault: Option<&[u8]>,
        naming: &Naming<'_>,
    ) -> bool {
        if self.fault.as_ref().is_some_and(|name| fault != Some(name.as_bytes())) {
            return false;
        }
        if !self.pattern.is_any() {
            let Named { container, name, keys } = naming(words);
            let (client, client_name) = (seen.record.client, seen.client_name());
            if !self.pattern.matches(&Arrival { container, name, keys, client, client_name, db }) {
                return false;
            }
        }
        self.reply.as_ref().is_none_or(|glob| glob::matches(glob, rendered(reply).as_bytes(), false))
    }
}
