//! The order in which findings are told: by harm, and then by time.

use super::code::{Code, Severity};
use super::finding::Finding;

/// What a finding means for the data, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Harm {
    /// Something is lost.
    Lost,
    /// Several clients worked at once, or could.
    Together,
    /// A lock was taken away from its holder, or given to somebody who should not have it.
    Taken,
    /// Another order of the same commands does harm.
    Possible,
    /// Worth mending.
    Doubtful,
    /// Worth knowing.
    Harmless,
}

impl Harm {
    fn of(finding: &Finding) -> Self {
        match (finding.severity, finding.code) {
            (Severity::Note, _) => Self::Harmless,
            (Severity::Warning, _) => Self::Doubtful,
            (Severity::Error, Code::LostUpdate) => Self::Lost,
            (Severity::Error, Code::TwoHolders | Code::WorkAfterExpiry | Code::NoQuorum | Code::ValidityUsedUp) => {
                Self::Together
            }
            (
                Severity::Error,
                Code::ForeignRelease
                | Code::BlindDelete
                | Code::ForeignExtension
                | Code::OverwroteLiveLock
                | Code::CheckedThenTaken
                | Code::StaleDeleteRace
                | Code::EvictedLock
                | Code::FlushedLocks
                | Code::ReleaseAfterFlush
                | Code::HeldThroughFailover
                | Code::LostInFailover
                | Code::SplitBrainHolder,
            ) => Self::Taken,
            (
                Severity::Error,
                Code::UncheckedRelease
                | Code::GetThenDelete
                | Code::LateRelease
                | Code::LateExtension
                | Code::ExpiryTooShort
                | Code::UncheckedExtension
                | Code::NoExpiry
                | Code::ExpiryInSecondStep
                | Code::ClockDisagrees
                | Code::MixedTimeUnits
                | Code::ExpiryRemoved
                | Code::OddExpiry
                | Code::CloseToExpiry
                | Code::TokenReused
                | Code::TokenConstant
                | Code::TokenGuessable
                | Code::HeldAtDisconnect
                | Code::Leaked
                | Code::RenewalStopped
                | Code::RenewalNeverStops
                | Code::RetryStorm
                | Code::RetryInStep
                | Code::LostAndNotReleased
                | Code::RefusedByItself
                | Code::SelfDeadlock
                | Code::LockOrder
                | Code::CrossSlot
                | Code::WaitIgnored
                | Code::OneServer
                | Code::NotReleasedEverywhere,
            ) => Self::Possible,
        }
    }
}

impl Finding {
    /// What findings are sorted by for readers: harm first, then the time at which it was done.
    pub(crate) fn harm(&self) -> (Harm, i64, u64) {
        (Harm::of(self), self.at, self.seq)
    }
}
