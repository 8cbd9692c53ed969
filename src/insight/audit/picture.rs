//! Who held a lock when, and who waited: what a picture of it shows.

use std::sync::Arc;

use super::finding::Mark;
use super::lock::{End, Lock, Place, Standing, Who};
use super::step::{Act, Intent};

/// All stretches of time that somebody held a lock, or waited for it, in the order in which they ended; and what commands
/// did to keys that may be locks, in the order in which they took effect.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    pub spans: Vec<Span>,
    pub deeds: Vec<Deed>,
}

/// What a command has done to a key that may be a lock.
#[derive(Clone, Debug)]
pub struct Deed {
    pub place: Arc<Place>,
    /// The command's place in the order of the server's journal.
    pub seq: u64,
    pub kind: DeedKind,
    /// Whether the server has the key now, as far as that is known,
    pub is_there: bool,
    /// and until when, in milliseconds on its clock.
    pub deadline: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeedKind {
    Read,
    /// It wanted to release or to extend what was not there, or not its own.
    Missed,
    Extended,
    /// It set the key, whoever had it.
    Set,
    Refused,
    Removed,
    Took,
    /// It deleted all keys.
    Flushed,
}

impl DeedKind {
    fn of(act: &Act<'_>) -> Option<Self> {
        Some(match act {
            Act::Take { took: true, .. } | Act::Enter { .. } => Self::Took,
            Act::Take { took: false, .. } | Act::Miss { intent: Intent::Acquire, .. } => Self::Refused,
            Act::Put { .. } | Act::Write => Self::Set,
            Act::Read { .. } => Self::Read,
            Act::Remove { removed: Some(false) }
            | Act::Expire { done: false, .. }
            | Act::Miss { .. }
            | Act::Leave { missed: true, .. } => Self::Missed,
            Act::Remove { .. } | Act::Leave { count: ..=0, .. } => Self::Removed,
            Act::Expire { .. } | Act::Leave { .. } => Self::Extended,
            Act::Flush { .. } => return None,
        })
    }
}

impl Picture {
    /// Remembers what a command has just done to a lock.
    pub(super) fn note_act(&mut self, lock: &Lock, seq: u64, act: &Act<'_>) {
        if let Some(kind) = DeedKind::of(act) {
            self.note_deed(lock, seq, kind);
        }
    }

    pub(super) fn note_deed(&mut self, lock: &Lock, seq: u64, kind: DeedKind) {
        let Lock { place, value, deadline, .. } = lock;
        let (place, is_there) = (Arc::clone(place), value.is_some());
        self.deeds.push(Deed { place, seq, kind, is_there, deadline: deadline.filter(|_| is_there) });
    }
}

/// What somebody did during a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// It believed that it had the lock.
    Held,
    /// It may have had it: the reply was lost.
    MayHold,
    /// It tried to get it.
    Waiting,
}

/// A stretch of time that somebody held a lock, or waited for it.
#[derive(Clone, Debug)]
pub struct Span {
    pub place: Arc<Place>,
    pub who: Who,
    pub kind: SpanKind,
    pub from: Mark,
    /// Not over if there is none.
    pub until: Option<Mark>,
    /// How it ended, for a lock that was held.
    pub end: Option<End>,
    /// What had become of the lock on the server before it ended.
    pub standing: Standing,
}
