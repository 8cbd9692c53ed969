//! Who held a lock when, and who waited: what a picture of it shows.

use std::sync::Arc;

use super::finding::Mark;
use super::lock::{End, Place, Standing, Who};

/// All stretches of time that somebody held a lock, or waited for it, in the order in which they ended.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    pub spans: Vec<Span>,
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
