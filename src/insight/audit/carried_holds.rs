//! Holds that a reset has ended: what their holders do afterwards tells whether they were forgotten, or belong to something
//! that outlives a test.

use std::sync::Arc;

use super::effect::{Effect, KeyEffect};
use super::finding::Finding;
use super::journal_line::JournalLine;
use super::lock::Lock;

/// How many are carried over resets. Findings about others count at once.
const MAX_CARRIED: usize = 1024;

/// The findings about such holds. Each counts unless its holder comes back to the lock.
#[derive(Clone, Default)]
pub struct CarriedHolds {
    holds: Arc<Vec<CarriedHold>>,
}

#[derive(Clone)]
struct CarriedHold {
    finding: Arc<Finding>,
    tokens: Vec<Box<[u8]>>,
    /// Whether the lock was taken anew: what is done to it now is about that.
    is_over: bool,
}

impl CarriedHolds {
    pub fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    /// Whether there is a hold of this key.
    pub fn are_about(&self, server: u16, db: u32, key: &[u8]) -> bool {
        self.holds.iter().any(|hold| hold.is_of(server, db, key))
    }

    /// The findings.
    pub fn findings(&self) -> impl Iterator<Item = &Arc<Finding>> {
        self.holds.iter().map(|hold| &hold.finding)
    }

    /// Takes out the findings that nothing can change any more.
    pub fn take_over(&mut self) -> Vec<Arc<Finding>> {
        let holds = Arc::make_mut(&mut self.holds);
        holds.extract_if(.., |hold| hold.is_over).map(|hold| hold.finding).collect()
    }

    /// Carries a finding of a reset, if it is about a hold that may go on. Gives it back if not.
    pub fn carry(&mut self, finding: Arc<Finding>, lock: Option<&Lock>) -> Option<Arc<Finding>> {
        let may_go_on = finding.code.is_about_missing_release();
        let Some(lock) = lock.filter(|_| may_go_on && self.holds.len() < MAX_CARRIED) else { return Some(finding) };
        let holds = lock.holds.iter().chain(lock.past_holds.iter().map(|past| &past.hold));
        let own = holds.filter(|hold| hold.client.id == finding.culprit && !hold.token.is_empty());
        let tokens = own.map(|hold| hold.token.clone()).collect();
        Arc::make_mut(&mut self.holds).push(CarriedHold { finding, tokens, is_over: false });
        None
    }

    /// A command has an effect on a key. If a holder comes back with it to release or extend what it held, or to look, it was
    /// not forgotten.
    #[cold]
    pub fn note(&mut self, line: &JournalLine<'_>, effect: &KeyEffect<'_>) {
        if !self.are_about(line.server, effect.db, effect.key) {
            return;
        }
        let value = match effect.effect {
            Effect::Take { value, .. } | Effect::Set { value, .. } => Some(value),
            Effect::AddMember { member, .. } | Effect::RemoveMember { member, .. } => Some(member),
            _ => effect.precondition.token(),
        };
        let begins = matches!(effect.effect, Effect::Take { .. } | Effect::Set { .. } | Effect::AddMember { .. });
        Arc::make_mut(&mut self.holds).retain_mut(|hold| {
            let is_holder = line.client == hold.finding.culprit
                || value.is_some_and(|value| hold.tokens.iter().any(|token| **token == *value));
            if hold.is_over || !is_holder || !hold.is_of(line.server, effect.db, effect.key) {
                return true;
            }
            hold.is_over = begins;
            begins
        });
    }
}

impl CarriedHold {
    fn is_of(&self, server: u16, db: u32, key: &[u8]) -> bool {
        (self.finding.server, self.finding.db) == (server, db) && *self.finding.key == *key
    }
}
