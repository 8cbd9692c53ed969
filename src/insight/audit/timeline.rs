//! Who held a lock when, who waited, and what commands did to it: the material of a report's picture.

use std::sync::Arc;

use super::client_identity::ClientIdentity;
use super::effect::{Claim, Effect, Intent};
use super::finding::JournalRef;
use super::lock::{Hold, HoldEnd, HoldStatus, Lock, LockId, Waiter};

/// All spans, in the order in which they ended, and all accesses, in the order in which they took effect.
#[derive(Clone, Debug, Default)]
pub struct LockTimeline {
    pub spans: Vec<Span>,
    pub accesses: Vec<LockAccess>,
}

/// What a command did to a key that may be a lock.
#[derive(Clone, Debug)]
pub struct LockAccess {
    pub id: Arc<LockId>,
    /// The command's number in the server's journal.
    pub seq: u64,
    pub kind: LockAccessKind,
    /// Whether the server has the key after it, as far as that is known.
    pub is_there: bool,
    /// The key's deadline after it, in milliseconds on the server's clock.
    pub deadline: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockAccessKind {
    Read,
    /// A release or extension that found no lock, or not the client's own.
    Missed,
    Extended,
    /// It may have been changed, and the journal does not say how.
    Unknown,
    /// The key was set whether it was free or not.
    Set,
    Refused,
    Removed,
    Took,
    /// All keys were deleted.
    Flushed,
    /// The server evicted the key.
    Evicted,
    /// A failover has lost it.
    Lost,
}

impl LockAccessKind {
    fn of(effect: &Effect<'_>) -> Option<Self> {
        Some(match effect {
            Effect::Take { took: true, .. } | Effect::AddMember { .. } => Self::Took,
            Effect::Take { took: false, .. } | Effect::NotOwned { intent: Intent::Acquire, .. } => Self::Refused,
            Effect::Arrive { claim: Claim::TakesFree | Claim::Takes, .. } => Self::Took,
            Effect::Arrive { claim: Claim::Refused, .. } => Self::Refused,
            Effect::Set { .. } | Effect::Arrive { .. } | Effect::OtherWrite => Self::Set,
            Effect::Read { .. } => Self::Read,
            Effect::Unknown { .. } => Self::Unknown,
            Effect::Delete { removed: Some(false) }
            | Effect::Expire { done: false, .. }
            | Effect::NotOwned { intent: Intent::Release | Intent::Extend | Intent::Unknown, .. }
            | Effect::RemoveMember { missed: true, .. } => Self::Missed,
            Effect::Delete { .. } | Effect::RemoveMember { count: ..=0, .. } => Self::Removed,
            Effect::Expire { .. } | Effect::RemoveMember { .. } => Self::Extended,
            Effect::Transfer { .. } | Effect::Flush { .. } | Effect::SwapDatabases { .. } => return None,
        })
    }
}

impl LockTimeline {
    /// Adds what a command has just done to a lock.
    pub fn note_effect(&mut self, lock: &Lock, seq: u64, effect: &Effect<'_>) {
        if let Some(kind) = LockAccessKind::of(effect) {
            self.note_access(lock, seq, kind);
        }
    }

    pub fn note_access(&mut self, lock: &Lock, seq: u64, kind: LockAccessKind) {
        let Lock { id, value, deadline, .. } = lock;
        let (id, is_there) = (Arc::clone(id), value.is_some());
        self.accesses.push(LockAccess { id, seq, kind, is_there, deadline: deadline.filter(|_| is_there) });
    }

    /// Adds a hold; one that has not ended has no end.
    pub fn note_hold(&mut self, id: &Arc<LockId>, hold: &Hold, end: Option<(&HoldEnd, &Arc<JournalRef>)>) {
        self.spans.push(Span {
            id: Arc::clone(id),
            client: hold.client.clone(),
            kind: if hold.is_certain { SpanKind::Held } else { SpanKind::MayHold },
            from: hold.acquired.clone(),
            until: end.map(|(_, source)| source.clone()),
            end: end.map(|(end, _)| end.clone()),
            status: hold.status.clone(),
        });
    }

    /// Adds a wait.
    pub fn note_wait(&mut self, id: &Arc<LockId>, waiter: &Waiter, until: Option<&Arc<JournalRef>>) {
        self.spans.push(Span {
            id: Arc::clone(id),
            client: waiter.client.clone(),
            kind: SpanKind::Waiting,
            from: waiter.first.clone(),
            until: until.cloned(),
            end: None,
            status: HoldStatus::Held,
        });
    }
}

/// What a client did during a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// It believed to hold the lock.
    Held,
    /// It may have held the lock: the reply was lost.
    MayHold,
    /// It tried to get the lock.
    Waiting,
}

/// A stretch of time in which a client held a lock, or waited for it.
#[derive(Clone, Debug)]
pub struct Span {
    pub id: Arc<LockId>,
    pub client: ClientIdentity,
    pub kind: SpanKind,
    pub from: Arc<JournalRef>,
    /// `None` if the span had not ended with the journal.
    pub until: Option<Arc<JournalRef>>,
    /// How a hold ended.
    pub end: Option<HoldEnd>,
    /// What became of the lock on the server during the hold.
    pub status: HoldStatus,
}
