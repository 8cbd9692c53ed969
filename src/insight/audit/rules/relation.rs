//! How the client that acts is related to a holder, and whether a holder has lost its lock.
//!
//! A program may take a lock over one connection and release it over another one.

use crate::insight::audit::client_identity::{ClientIdentity, SameProgram};
use crate::insight::audit::client_state::LockRead;
use crate::insight::audit::code::Severity;
use crate::insight::audit::finding::{Evidence, JournalRef};
use crate::insight::audit::lock::{Hold, HoldEnd, HoldStatus, Lock, PastHold};
use crate::insight::audit::lock_reason::LockReason;
use crate::insight::audit::rule_context::RuleContext;

/// How the client that acts is related to a holder.
#[derive(Debug)]
pub enum Relation {
    /// The holder itself, or another connection of its program.
    Own,
    /// Certainly another program; with the proof, if it is not the name.
    Stranger(Option<Evidence>),
    /// Another connection, perhaps of the same program.
    Unknown,
}

/// How the client that acts is related to a holder. `read` is its last read of the lock.
pub fn relation_to(context: &RuleContext<'_>, hold: &Hold, read: Option<&LockRead>) -> Relation {
    let Some(actor) = context.actor else { return Relation::Unknown };
    match actor.same_program(&hold.client) {
        SameProgram::Yes => Relation::Own,
        SameProgram::No => Relation::Stranger(None),
        SameProgram::Unknown if is_pooled(context) => Relation::Unknown,
        SameProgram::Unknown => match refusal(context.lock, actor, hold, read) {
            Some(proof) => Relation::Stranger(Some(proof)),
            None => Relation::Unknown,
        },
    }
}

/// How bad it is what another connection did that may be of the same program. If the journal does not say how connections
/// are named, it is worth no more than a note.
pub fn doubtful(context: &RuleContext<'_>) -> Severity {
    if context.collector.is_partial(context.lock.id.server) { Severity::Note } else { Severity::Warning }
}

/// Whether connections without a name may belong together, as far as this lock is concerned.
pub fn is_pooled(context: &RuleContext<'_>) -> bool {
    context.links.is_pooled || context.shared.are_seen_on(context.lock.id.server, context.actor)
}

/// The refusal of a client while another one held the lock; also an earlier one, if the client's last read is of the
/// time before the hold.
fn refusal(lock: &Lock, actor: &ClientIdentity, hold: &Hold, read: Option<&LockRead>) -> Option<Evidence> {
    let waiter = lock.waiters.iter().find(|waiter| waiter.client.is_same_connection(actor))?;
    let is_outdated = |read: &LockRead| read.value.as_deref().is_some_and(|value| *value != *hold.token);
    let shows = waiter.last.place > hold.acquired.place || read.is_some_and(is_outdated);
    shows.then(|| waiter.last.shows("was refused"))
}

/// Whether a holder has lost the lock, as far as can be known: its own program may have deleted it over another
/// connection.
pub fn is_lost(context: &RuleContext<'_>, hold: &Hold) -> bool {
    match &hold.status {
        HoldStatus::Held | HoldStatus::Vanished | HoldStatus::Evicted(_) | HoldStatus::FailedOver(_) => true,
        HoldStatus::Deleted(source) | HoldStatus::Overwritten(source) => is_by_other_program(context, hold, source),
        HoldStatus::Flushed(flush) => match hold.client.same_program_as(&flush.source) {
            SameProgram::Yes => false,
            SameProgram::No => true,
            // Who deletes everything between two tests gives up what the process has taken over other connections, too.
            SameProgram::Unknown => !hold.client.is_same_process_as(&flush.source),
        },
    }
}

/// Whether a command that deleted or overwrote the lock was certainly not of the holder's program.
pub fn is_by_other_program(context: &RuleContext<'_>, hold: &Hold, source: &JournalRef) -> bool {
    hold.client.same_program_as(source) == SameProgram::No || context.links.is_foreign(source)
}

/// Whether the key was claimed for good, as names and defaults are: nobody has given it back or asked for it again.
pub fn is_claim(context: &RuleContext<'_>) -> bool {
    const OF_LOCKS: [LockReason; 4] = [LockReason::Returned, LockReason::Compared, LockReason::Said, LockReason::Named];
    let lock = &context.lock;
    !OF_LOCKS.iter().any(|reason| lock.reasons.has(*reason)) && lock.waiters.iter().all(|waiter| waiter.attempts == 1)
}

/// Whether a hold expired before its holder released it.
pub fn expired_while_held(context: &RuleContext<'_>, past: &PastHold) -> bool {
    past.end == HoldEnd::Expired && past.hold.is_certain && is_lost(context, &past.hold)
}

/// Whether a client has tried to get the lock anew since a hold: what it does then is not about that hold.
pub fn is_retrying(lock: &Lock, client: &ClientIdentity, hold: &Hold) -> bool {
    let own = lock.waiters.iter().find(|waiter| waiter.client.is_same_connection(client));
    own.is_some_and(|waiter| waiter.first.place > hold.acquired.place)
}
