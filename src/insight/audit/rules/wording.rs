//! Phrases that the sentences and the evidence of several rules share.

use std::time::Duration;

use crate::base::duration::spell_duration;
use crate::insight::audit::advice::{RENEWED, UNTIL_ITS_VALUE};
use crate::insight::audit::finding::Evidence;
use crate::insight::audit::lock::{Hold, Lock};

/// The key of a lock.
pub fn key_text(lock: &Lock) -> String {
    String::from_utf8_lossy(&lock.id.key).into_owned()
}

/// The key of a lock in backticks.
pub fn quoted(lock: &Lock) -> String {
    format!("`{}`", key_text(lock))
}

/// A duration in microseconds: `30 s`.
pub fn spelled(micros: i64) -> String {
    spell_duration(Duration::from_millis(u64::try_from(micros / 1000).unwrap_or(0)))
}

/// For how long a lock was granted when it was taken or last extended, in milliseconds; `None` without a deadline.
pub fn granted_ttl(hold: &Hold) -> Option<i64> {
    let from = hold.extended.as_ref().unwrap_or(&hold.acquired).at.div_euclid(1000);
    hold.deadline.map(|deadline| deadline.saturating_sub(from))
}

/// The command that took the lock, as evidence.
pub fn acquisition(hold: &Hold) -> Evidence {
    let told = if hold.is_certain { "" } else { ", and was not told so" };
    match hold.deadline.filter(|_| hold.extended.is_none()) {
        Some(deadline) => {
            let millis = deadline.saturating_sub(hold.acquired.at.div_euclid(1000));
            hold.acquired.shows(format!("took the lock for {millis} ms{told}"))
        }
        None if is_renewed(hold) => hold.acquired.shows(format!("took the lock{told}{RENEWED}")),
        None if hold.timestamp.is_some() => hold.acquired.shows(format!("took the lock{told}{UNTIL_ITS_VALUE}")),
        None => hold.acquired.shows(format!("took the lock{told}")),
    }
}

/// Whether a holder has extended its lock; to give it its first expiry is to take it.
pub fn is_renewed(hold: &Hold) -> bool {
    let words = || hold.acquired.line.split(' ');
    let has_expiry =
        words().any(|word| ["EX", "PX", "EXAT", "PXAT"].iter().any(|option| word.eq_ignore_ascii_case(option)));
    hold.extensions > u32::from(!has_expiry)
}

/// `held`, or `may have held` for a client whose reply was lost.
pub fn held(hold: &Hold) -> &'static str {
    if hold.is_certain { "held" } else { "may have held" }
}
