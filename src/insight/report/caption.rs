//! The captions of findings on the page: two or three words beside the moment.

use crate::insight::audit::Code;

pub fn caption(code: Code) -> &'static str {
    match code {
        Code::TwoHolders => "both hold",
        Code::ForeignRelease => "releases another's lock",
        Code::BlindDelete => "deletes without holding",
        Code::UncheckedRelease => "releases without a look",
        Code::GetThenDelete => "looks, then deletes",
        Code::LateRelease => "releases too late",
        Code::LateExtension => "extends too late",
        Code::WorkAfterExpiry => "works without the lock",
        Code::ExpiryTooShort => "expires before the end",
        Code::ForeignExtension => "extends another's lock",
        Code::UncheckedExtension => "extends without a look",
        Code::NoExpiry => "never expires",
        Code::ExpiryInSecondStep => "expiry comes later",
        Code::OverwroteLiveLock => "overwrites a live lock",
        Code::StaleDeleteRace => "stale for both",
        Code::ClockDisagrees => "clocks disagree",
        Code::MixedTimeUnits => "units differ",
        Code::ExpiryRemoved => "expiry taken away",
        Code::OddExpiry => "odd expiry",
        Code::CloseToExpiry => "just in time",
        Code::TokenReused => "same token twice",
        Code::TokenConstant => "always the same token",
        Code::TokenGuessable => "token can be guessed",
        Code::HeldAtDisconnect => "gone with the lock",
        Code::Leaked => "never released",
        Code::RenewalStopped => "renewal stopped",
        Code::RenewalNeverStops => "renewed for ever",
        Code::RetryStorm => "no pause",
        Code::RetryInStep => "in step",
        Code::LostAndNotReleased => "may hold, and does not know",
        Code::RefusedByItself => "refused by itself",
        Code::SelfDeadlock => "waits for itself",
        Code::LockOrder => "wait for each other",
        Code::FlushedLocks => "flushed while held",
        Code::EvictedLock => "evicted while held",
        Code::CrossSlot => "apart in a Cluster",
        Code::HeldThroughFailover => "lost in a failover?",
        Code::NoQuorum => "no majority",
        Code::ValidityUsedUp => "no time left",
        // Their titles are short enough.
        Code::ReleaseAfterFlush | Code::OneServer | Code::NotReleasedEverywhere => code.title(),
    }
}
