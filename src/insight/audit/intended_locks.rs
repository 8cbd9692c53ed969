//! Which locks two clients had around what they read and wrote, and why those did not keep them apart.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;

use super::client_identity::{ClientIdentity, SameProgram};
use super::client_state::ClientStates;
use super::effect::LockShape;
use super::finding::{Evidence, JournalRef};
use super::key_versions::Moment;
use super::lock::{Acquisition, Flush, Hold, HoldEnd, HoldStatus, Lock, LockId, PastHold, Waiter};
use super::lock_table::LockTable;

/// A client's read and the write that follows from it.
pub struct Section {
    pub client: ClientIdentity,
    pub read: Moment,
    pub write: Moment,
}

/// A lock that a client had in a section, or a part of it.
struct Taken {
    id: Arc<LockId>,
    hold: Hold,
    /// How the hold ended, if it has.
    end: Option<(HoldEnd, Option<Arc<JournalRef>>)>,
    /// Whether the client had it when it read.
    is_before_read: bool,
}

/// Clients that were refused by locks until their connections ended.
pub type Refused = VecDeque<(Arc<LockId>, Waiter)>;

/// The locks of both clients.
pub struct IntendedLocks {
    own: Option<Taken>,
    others: Option<Taken>,
    /// One of them was refused by the lock of the other one, and went on.
    is_one_refused: bool,
}

impl IntendedLocks {
    /// `own` is the section of the client by whose write the other one's is lost. `key` is what they write. `forgotten` has
    /// holds of keys that are not tracked any more, `refused` clients whose connections have ended.
    ///
    /// Looks at the last locks alone that these clients and others of their programs have had: there may be very many.
    pub fn of(
        (locks, clients): (&LockTable, &ClientStates),
        (forgotten, refused): (&VecDeque<(Arc<LockId>, PastHold)>, &Refused),
        key: &LockId,
        own: &Section,
        others: &Section,
    ) -> Self {
        let is_used = |lock: &Lock| !(lock.is_guess() || lock.holds.is_empty() && lock.past_holds.is_empty());
        let is_other = |id: &LockId| *id != *key;
        let is_meant = |lock: &Lock| lock.shape != LockShape::Semaphore && is_used(lock);
        let parties = [&own.client, &others.client];
        let is_party =
            |client: &ClientIdentity| parties.iter().any(|party| party.same_program(client) != SameProgram::No);
        // Most are mere guesses: whoever keeps a cache has many.
        let is_more =
            |id: &LockId| locks.reasons(id.server, id.db, &id.key).is_some_and(|reasons| !reasons.are_a_guess());
        let tracked = clients.last_locks(parties, &is_party).filter(|id| is_more(id));
        let mut ids: Vec<_> = tracked.chain(forgotten.iter().map(|(id, _)| id)).filter(|id| is_other(id)).collect();
        ids.sort();
        ids.dedup();
        let mut nearest = Self { own: None, others: None, is_one_refused: false };
        let mut rank = 0;
        for id in ids {
            let lock = locks.look(id.server, id.db, &id.key);
            let lock = lock.as_deref().filter(|lock| is_meant(lock));
            let holds = Holds {
                id,
                present: lock.map_or(&[], |lock| &lock.holds),
                past: forgotten
                    .iter()
                    .filter(|(other, _)| other == id)
                    .map(|(_, past)| past)
                    .chain(lock.into_iter().flat_map(|lock| &lock.past_holds))
                    .collect(),
            };
            let (one, other) = (holds.taken(own, others), holds.taken(others, own));
            // The same lock tells most; then what is known to be a lock.
            let both = one.is_some() && other.is_some();
            let new_rank = if both { 4 } else { 1 } + i32::from(lock.is_some_and(Lock::is_known));
            if both && new_rank > rank {
                (nearest, rank) = (Self { own: one, others: other, is_one_refused: false }, new_rank);
            } else if rank < 4 {
                nearest.own = better(nearest.own.take(), one, locks);
                nearest.others = better(nearest.others.take(), other, locks);
            }
        }
        nearest.is_one_refused = match (&nearest.own, &nearest.others) {
            (Some(taken), None) => is_refused((locks, refused), taken, others),
            (None, Some(taken)) => is_refused((locks, refused), taken, own),
            _ => false,
        };
        nearest
    }

    /// Whether one of them was refused by the lock that the other one had, and did not mind.
    pub fn is_ignored(&self) -> bool {
        self.is_one_refused
    }

    fn common(&self) -> Option<(&Taken, &Taken)> {
        let (own, others) = (self.own.as_ref()?, self.others.as_ref()?);
        (own.id == others.id).then_some((own, others))
    }

    /// Whether both had the same lock.
    pub fn is_broken(&self) -> bool {
        self.common().is_some()
    }

    /// Whether one of them had any.
    pub fn is_any(&self) -> bool {
        self.own.is_some() || self.others.is_some()
    }

    /// Whether the client had the common lock when it read, has not given it up, and has not taken it anew.
    pub fn covers_read(&self) -> bool {
        self.common().is_some_and(|(own, _)| {
            let is_given_up = matches!(own.end, Some((HoldEnd::Released | HoldEnd::Noticed | HoldEnd::Unknown, _)));
            own.is_before_read && !is_given_up
        })
    }

    /// The keys that must be locks, so that this says something.
    pub fn ids(&self) -> SmallVec<[Arc<LockId>; 2]> {
        let mut ids: SmallVec<_> = self.taken().map(|taken| Arc::clone(&taken.id)).collect();
        ids.dedup();
        ids
    }

    fn taken(&self) -> impl Iterator<Item = &Taken> {
        self.own.iter().chain(&self.others)
    }

    /// The commands that took them, and those that took them away.
    pub fn evidence(&self) -> Vec<Evidence> {
        let mut evidence = Vec::new();
        for taken in self.taken() {
            let lock = quoted(&taken.id);
            evidence.push(taken.hold.acquired.shows(format!("took {lock}")));
            match (&taken.end, loss_of(&taken.hold)) {
                (Some((HoldEnd::Released, Some(source))), _) => evidence.push(source.shows(format!("released {lock}"))),
                (_, Some((source, how))) => evidence.push(source.shows(format!("{how} {lock}"))),
                _ => {}
            }
        }
        evidence
    }

    /// The end of a sentence: whether a lock was meant to prevent it, and why it did not.
    pub fn explanation(&self, client: &ClientIdentity, other: &ClientIdentity) -> String {
        if let Some((own, others)) = self.common() {
            let lock = quoted(&own.id);
            let why = match () {
                () if !own.is_before_read => format!("it read before it took {lock}"),
                () => reason(own, client).or_else(|| reason(others, other)).unwrap_or_default(),
            };
            let why = if why.is_empty() { why } else { format!(": {why}") };
            return format!(", although both had {lock}{why}");
        }
        match (&self.own, &self.others) {
            (Some(own), Some(others)) if own.id.key == others.id.key => {
                let place = match own.id.server == others.id.server {
                    true => format!("databases {} and {}", own.id.db, others.id.db),
                    false => format!("servers {} and {}", own.id.server, others.id.server),
                };
                format!("; {} is two locks, on {place}", quoted(&own.id))
            }
            (Some(own), Some(others)) => {
                let (one, two) = (client.display_name(), other.display_name());
                format!("; {one} had {}, {two} had {}", quoted(&own.id), quoted(&others.id))
            }
            (Some(taken), None) => self.lonely(taken, client, other),
            (None, Some(taken)) => self.lonely(taken, other, client),
            (None, None) => String::new(),
        }
    }

    /// Why a lock that only one of them had kept nobody away.
    fn lonely(&self, taken: &Taken, holder: &ClientIdentity, other: &ClientIdentity) -> String {
        let lock = quoted(&taken.id);
        match self.is_one_refused {
            true => format!("; {} was refused by {lock}, and went on", other.display_name()),
            false => format!("; only {} had {lock}", holder.display_name()),
        }
    }
}

/// Whether a client waits for a lock that it has not got, or has waited for it to its end.
fn is_refused((locks, refused): (&LockTable, &Refused), taken: &Taken, section: &Section) -> bool {
    let present = locks.get(&taken.id).into_iter().flat_map(|lock| &lock.waiters);
    let gone = refused.iter().filter(|(id, _)| *id == taken.id).map(|(_, waiter)| waiter);
    let is_its = |waiter: &Waiter| {
        waiter.client.is_same_connection(&section.client)
            || waiter.client.is_same_process(&section.client) && !waiter.client.is_same_process(&taken.hold.client)
    };
    present.chain(gone).any(|waiter| is_its(waiter) && is_earlier(&waiter.first, &section.write))
}

/// Prefers what is known to be a lock.
fn better(one: Option<Taken>, other: Option<Taken>, locks: &LockTable) -> Option<Taken> {
    let is_known = |taken: &Taken| locks.is_known(&taken.id);
    match (one, other) {
        (Some(one), Some(other)) => Some(if is_known(&one) || !is_known(&other) { one } else { other }),
        (one, other) => one.or(other),
    }
}

/// The holds of a lock, the past ones in the order in which they ended.
struct Holds<'a> {
    id: &'a Arc<LockId>,
    present: &'a [Hold],
    past: Vec<&'a PastHold>,
}

impl Holds<'_> {
    /// A client's last hold in a section.
    fn taken(&self, section: &Section, others: &Section) -> Option<Taken> {
        let is_strange = section.client.same_program(&others.client) == SameProgram::No;
        let is_own = |hold: &Hold| {
            hold.client.is_same_connection(&section.client)
                || match hold.client.same_program(&section.client) {
                    SameProgram::Yes => true,
                    SameProgram::No => false,
                    // A connection of the same program, if it is not one of the other program.
                    SameProgram::Unknown => is_strange && hold.client.same_program(&others.client) == SameProgram::No,
                }
        };
        let begins_in = |hold: &Hold| is_earlier(&hold.acquired, &section.write);
        // Whoever takes the lock anew with the token of a former hold that is lost goes on with that.
        let is_renewed = |hold: &Hold| {
            let goes_on = |past: &&&PastHold| {
                past.end != HoldEnd::Released && past.hold.token == hold.token && is_own(&past.hold)
            };
            self.past.iter().filter(goes_on).any(|past| is_earlier(&past.hold.acquired, &section.read))
        };
        let of = |hold: &Hold, past: Option<&PastHold>| Taken {
            id: Arc::clone(self.id),
            hold: hold.clone(),
            end: past.map(|past| (past.end.clone(), past.ended_by.clone())),
            is_before_read: is_earlier(&hold.acquired, &section.read) || is_renewed(hold),
        };
        let ends_in = |past: &&&PastHold| match &past.ended_by {
            Some(source) if past.end != HoldEnd::Expired => !is_earlier(source, &section.read),
            _ => past.at >= section.read.at,
        };
        // A lock that was taken after the read and given up before the write is for something else.
        let is_within = |past: &PastHold| {
            matches!((&past.end, &past.ended_by), (HoldEnd::Released, Some(source)) if is_earlier(source, &section.write))
                && !is_earlier(&past.hold.acquired, &section.read)
        };
        let present = self.present.iter().filter(|hold| is_own(hold) && begins_in(hold));
        let present = present.max_by_key(|hold| hold.acquired.real).map(|hold| of(hold, None));
        present.or_else(|| {
            let past = self.past.iter().rev().filter(|past| is_own(&past.hold) && begins_in(&past.hold));
            past.take(1).find(|past| ends_in(past) && !is_within(past)).map(|past| of(&past.hold, Some(past)))
        })
    }
}

/// Whether a command was before a moment.
fn is_earlier(source: &JournalRef, moment: &Moment) -> bool {
    match source.server == moment.server && moment.is_placed {
        true => source.place < moment.place,
        false => source.real < moment.real,
    }
}

/// Who took the lock away from a holder, and what that did.
fn loss_of(hold: &Hold) -> Option<(&JournalRef, &'static str)> {
    match &hold.status {
        HoldStatus::Deleted(source) => Some((source, "deleted")),
        HoldStatus::Overwritten(source) => Some((source, "overwritten")),
        HoldStatus::Flushed(Flush { source, .. }) => Some((source, "flushed")),
        HoldStatus::Evicted(source) => Some((source, "evicted")),
        HoldStatus::FailedOver(source) => Some((source, "replaced the node of")),
        HoldStatus::Held | HoldStatus::Vanished => None,
    }
}

/// Why a hold did not keep others away.
fn reason(taken: &Taken, client: &ClientIdentity) -> Option<String> {
    if let Some((source, how)) = loss_of(&taken.hold) {
        return Some(format!("{} had {how} it", source.display_name()));
    }
    match taken.end {
        _ if taken.hold.how == Acquisition::Renewed => {
            Some(format!("the time of {} was over, and it took the lock anew", client.display_name()))
        }
        Some((HoldEnd::Expired, _)) => Some(format!("the time of {} was over", client.display_name())),
        Some((HoldEnd::Released, _)) => Some(format!("{} had released it", client.display_name())),
        Some((HoldEnd::Noticed, _)) => Some(format!("{} had been told that it was lost", client.display_name())),
        Some((HoldEnd::Closed | HoldEnd::Unknown, _)) | None => None,
    }
}

fn quoted(id: &LockId) -> String {
    format!("`{}`", String::from_utf8_lossy(&id.key))
}
