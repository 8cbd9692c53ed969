//! Who belongs to whom: what can be told of that, and what cannot.
//!
//! A program may have a connection that takes a lock, and another one that releases it. Connections with the same name
//! belong together, those with different names do not. Of those without names it is not known, unless what they do tells.

use crate::insight::audit::finding::{Evidence, Mark};
use crate::insight::audit::happening::Scene;
use crate::insight::audit::lock::{End, Hold, Lock, Past, Same, Standing, Who};
use crate::insight::audit::party::Read;

/// What somebody is to the holder of a lock.
#[derive(Debug)]
pub(super) enum Kin {
    /// The holder itself, or another connection of its program.
    Own,
    /// Certainly another; by what, if not by its name.
    Stranger(Option<Evidence>),
    /// Another connection, perhaps of the same program.
    Unknown,
}

/// What whoever does it is to a holder. `read` is what it has read of the lock last.
pub(super) fn kin(scene: &Scene<'_>, hold: &Hold, read: Option<&Read>) -> Kin {
    let Some(by) = scene.by else { return Kin::Unknown };
    match by.same(&hold.who) {
        Same::Yes => Kin::Own,
        Same::No => Kin::Stranger(None),
        // Connections that release what another has taken are one program's.
        Same::Unknown if super::ownership::is_pooled(scene) => Kin::Unknown,
        Same::Unknown => refusal(scene.lock, by, hold, read).map_or(Kin::Unknown, |shown| Kin::Stranger(Some(shown))),
    }
}

/// That somebody was refused while another had the lock; or before that, if it has read then what the lock was before.
fn refusal(lock: &Lock, by: &Who, hold: &Hold, read: Option<&Read>) -> Option<Evidence> {
    let waiter = lock.waiters.iter().find(|waiter| waiter.who.is(by))?;
    let is_behind = |read: &Read| read.value.as_deref().is_some_and(|value| *value != *hold.token);
    let shows = waiter.last.seq > hold.acquired.seq || read.is_some_and(is_behind);
    shows.then(|| waiter.last.shows("was refused"))
}

/// Whether whoever did something is the holder of a lock, or its program.
pub(super) fn same(who: &Who, mark: &Mark) -> Same {
    if who.server == mark.server && who.client == mark.client {
        return Same::Yes;
    }
    match (who.name.is_empty(), mark.name.is_empty()) {
        (false, false) if who.name == mark.name => Same::Yes,
        (false, false) => Same::No,
        _ => Same::Unknown,
    }
}

/// Whether a holder has lost the lock, as far as can be known: it may be its program that has deleted it, over another
/// connection.
pub(super) fn is_lost(lock: &Lock, hold: &Hold) -> bool {
    match &hold.standing {
        Standing::Held | Standing::Vanished => true,
        Standing::Deleted(mark) | Standing::Overwritten(mark) => is_by_stranger(lock, hold, mark),
        Standing::Flushed(mark) => same(&hold.who, mark) != Same::Yes,
    }
}

/// Whether it was certainly not the holder's program that has deleted or overwritten a lock.
pub(super) fn is_by_stranger(lock: &Lock, hold: &Hold, mark: &Mark) -> bool {
    same(&hold.who, mark) == Same::No || lock.memory.ownership.is_strange(mark)
}

/// Whether the time of a hold ran out before it was released.
pub(super) fn ran_out(lock: &Lock, past: &Past) -> bool {
    past.end == End::Expired && past.hold.is_certain && is_lost(lock, &past.hold)
}

/// Whether somebody tries to get the lock anew since it had it: what it does then is not about the hold that it had.
pub(super) fn tries_anew(lock: &Lock, who: &Who, hold: &Hold) -> bool {
    lock.waiters.iter().any(|waiter| waiter.who.is(who) && waiter.first.seq > hold.acquired.seq)
}

/// A lock as a sentence has it.
pub(super) fn shown(lock: &Lock) -> String {
    format!("`{}`", String::from_utf8_lossy(&lock.place.key))
}

/// How long a hold was to last when it was taken, or extended last, in milliseconds; none if for ever, or if its time is in
/// its value.
pub(super) fn span(hold: &Hold) -> Option<i64> {
    let from = hold.extended.as_ref().unwrap_or(&hold.acquired).at.div_euclid(1000);
    hold.deadline.map(|deadline| deadline.saturating_sub(from))
}

/// A hold's beginning as evidence.
pub(super) fn taking(hold: &Hold) -> Evidence {
    let told = if hold.is_certain { "" } else { ", and was not told so" };
    match hold.deadline.filter(|_| hold.extended.is_none()) {
        Some(deadline) => {
            let millis = deadline.saturating_sub(hold.acquired.at.div_euclid(1000));
            hold.acquired.shows(format!("took the lock for {millis} ms{told}"))
        }
        None => hold.acquired.shows(format!("took the lock{told}")),
    }
}

/// `held`, or `may have held` of somebody whose reply was lost.
pub(super) fn held(hold: &Hold) -> &'static str {
    if hold.is_certain { "held" } else { "may have held" }
}
