//! What a session remembers for the journal of the command that it runs.

use super::record::{Children, Line, Record};
use crate::base::clock::real_micros;

/// A command's place in the order in which commands take effect, and when that was, in microseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    pub seq: u64,
    pub at: i64,
    pub real: i64,
}

/// Kept in the session, so that a command needs no memory of its own.
#[derive(Default)]
pub struct CommandTrace {
    state: State,
    /// It was held up before it ran: when it took effect is not when it began.
    waited: bool,
    /// What the commands of the session are told of as, in this life of the journal.
    pub introduced: u32,
    pub db: u32,
    stamp: Option<Stamp>,
    /// When it arrived, in real time, or [`UNKNOWN`] so far.
    began: i64,
    /// When the command before it ended, if that was a moment ago.
    before: Option<i64>,
    /// The command before it, of which it is not known yet when it ended: when the next one takes effect, or the batch
    /// is over. So that the machine is asked for the time once a command, and not twice.
    unended: Option<Unended>,
    /// Where in the journal the first command stands whose reply is not written yet.
    pub unwritten: Option<u64>,
    /// What is about to go into the journal. To write there for each command would take longer than to run it: memory
    /// that was not used for long is far away, and whoever lets go of a lock waits for it.
    pub staging: Staging,
    children: Option<Box<Children>>,
}

/// Where a command stands in the staging, and when it arrived.
struct Unended {
    place: usize,
    began: i64,
}

/// Stands for the end of the command before, which is not known yet.
const UNKNOWN: i64 = i64::MIN;

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// There is no command, or nobody wants to know of it.
    #[default]
    Idle,
    Open,
    /// It waits for somebody else to let it take effect.
    Blocked,
}

/// How many bytes are gathered before they go into the journal.
const STAGED: usize = 16 * 1024;

impl CommandTrace {
    /// A command begins, or is tried again.
    #[inline]
    pub fn open(&mut self, db: u32) {
        if self.state != State::Idle {
            self.waited = true;
            return;
        }
        self.state = State::Open;
        self.waited = false;
        self.db = db;
        self.began = match self.before {
            _ if self.unended.is_some() => UNKNOWN,
            Some(before) => before,
            None => real_micros(),
        };
    }

    /// This is when the command before it ended, if that is not known yet.
    #[inline]
    fn end_before(&mut self, now: i64) {
        if let Some(Unended { place, began }) = self.unended.take() {
            self.staging.set_duration(place, duration(began, now));
        }
        if self.began == UNKNOWN {
            self.began = now;
        }
    }

    /// No command follows at once: the last one has ended.
    #[inline]
    pub fn end_last(&mut self) {
        if self.unended.is_some() {
            self.end_before(real_micros());
        }
    }

    /// Whether the command that runs is one to be told of.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.state != State::Idle
    }

    /// Whether it is to have its place in the order when its view ends.
    #[inline]
    pub fn takes_effect(&self) -> bool {
        self.state == State::Open && self.stamp.is_none()
    }

    /// From now on it waits for somebody else.
    pub fn block(&mut self) {
        if self.state == State::Open {
            self.state = State::Blocked;
            self.waited = true;
        }
    }

    /// It has taken effect; in real time, if it is known when that was.
    #[inline]
    pub fn stamp(&mut self, seq: u64, at: i64, real: Option<i64>) {
        let is_known = !self.waited && self.began != UNKNOWN;
        let real = real.unwrap_or_else(|| if is_known { self.began } else { real_micros() });
        self.end_before(real);
        self.stamp = Some(Stamp { seq, at, real });
    }

    /// Somebody else has let it take effect.
    pub fn set_stamp(&mut self, stamp: Option<Stamp>) {
        self.stamp = stamp.or(self.stamp);
    }

    pub fn is_stamped(&self) -> bool {
        self.stamp.is_some()
    }

    /// It runs others inside itself.
    pub fn children(&mut self) -> &mut Children {
        self.children.get_or_insert_default()
    }

    /// What it has run inside itself, to be given back.
    #[inline]
    pub fn take_inside(&mut self) -> Option<Box<Children>> {
        self.children.take()
    }

    #[inline]
    pub fn give_back(&mut self, children: Option<Box<Children>>) {
        self.children = children;
    }

    /// It has ended. When it took effect, if that is known, or else when it has ended.
    #[inline]
    pub fn close(&mut self) -> Ending {
        self.state = State::Idle;
        self.before = None;
        match self.stamp.take() {
            Some(stamp) => Ending::Stamped(stamp),
            None => {
                let end = real_micros();
                self.end_before(end);
                let real = if self.waited { end } else { self.began };
                self.before = Some(end);
                Ending::Now { end, real, duration: duration(self.began, end) }
            }
        }
    }

    /// Puts the command that has ended behind those that are about to go into the journal.
    #[inline]
    pub fn put(&mut self, line: &Line<'_>, is_ended: bool) {
        if !is_ended {
            self.unended = Some(Unended { place: self.staging.bytes.len(), began: self.began });
        }
        self.staging.push(line);
    }

    /// The command is recorded, with all that it has run inside itself.
    #[inline]
    pub fn clear_children(&mut self) {
        if let Some(children) = &mut self.children {
            children.clear();
        }
    }

    /// From now on it is another journal that is told.
    pub fn change_journals(&mut self) {
        self.introduced = 0;
        self.unwritten = None;
    }

    /// The next commands come from the network: the one before them ended some time ago.
    #[inline]
    pub fn begin_batch(&mut self) {
        self.before = None;
    }

    /// All replies so far are written.
    #[inline]
    pub fn written(&mut self) {
        self.unwritten = None;
    }
}

/// Records that are about to go into the journal, one behind the other.
#[derive(Default)]
pub struct Staging {
    pub(super) bytes: Vec<u8>,
    pub(super) count: u64,
}

impl Staging {
    /// Whether there is so much that it should go there now.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.bytes.len() > STAGED
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether it has memory of its own.
    #[inline]
    pub fn has_memory(&self) -> bool {
        self.bytes.capacity() > 0
    }

    #[inline]
    pub fn push(&mut self, line: &Line<'_>) {
        Record::write(line, &mut self.bytes);
        self.count += 1;
    }

    /// How long the command took that stands there.
    #[inline]
    fn set_duration(&mut self, place: usize, duration: u64) {
        Record::set_duration(&mut self.bytes[place..], duration);
    }

    pub(super) fn empty(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(STAGED * 2);
        self.count = 0;
    }
}

/// How a command ended.
pub enum Ending {
    /// It had taken effect before; how long it took is known when the next one takes effect.
    Stamped(Stamp),
    /// It ended and took effect just now; `real` is when it is said to have.
    Now { end: i64, real: i64, duration: u64 },
}

/// From one instant to another, in microseconds.
#[inline]
fn duration(began: i64, end: i64) -> u64 {
    end.saturating_sub(began).max(0).unsigned_abs()
}
