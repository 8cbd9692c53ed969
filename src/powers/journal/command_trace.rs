//! What a session keeps for the journal while a command runs.

use super::record::{Children, Line, Record};
use crate::base::clock::real_micros;

/// A command's place in the order in which commands take effect, and when that was, in microseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    pub seq: u64,
    pub at: i64,
    pub real: i64,
}

/// The trace of a session's command. It is kept in the session, so that a command allocates nothing for it.
#[derive(Default)]
pub struct CommandTrace {
    state: State,
    /// It waited before it ran: it did not take effect when it began.
    waited: bool,
    /// The journal's epoch in which the client was recorded by name.
    pub introduced: u32,
    /// The version of the client's node that was recorded then; 0 for none.
    pub node_version: u32,
    pub db: u32,
    stamp: Option<Stamp>,
    /// When it arrived, in real time; [`UNKNOWN`] until the end of the command before it is known.
    began: i64,
    /// When the command before it ended, if that was a moment ago.
    before: Option<i64>,
    /// The command before it, if its end is not known yet: it is known when this one takes effect, or the batch is over. So
    /// the machine is asked for the time once a command, not twice.
    unended: Option<Unended>,
    /// The place in the journal of the first command whose reply is not written yet.
    pub unwritten: Option<u64>,
    /// Records that are not in the journal yet. Writing each of them there would take longer than most commands: memory that
    /// was not used for long is far away, and others wait for its lock.
    pub staging: Staging,
    children: Option<Box<Children>>,
    /// When it was passed to an upstream server, in microseconds since 1970.
    pub sent: Option<i64>,
    /// Whether it had its turn on its keys there.
    pub is_ordered: bool,
    /// Whether it is known what it ran inside itself. Of a command that runs here, it always is.
    pub knows_children: bool,
}

/// The place of a record in the staging, and when its command arrived.
struct Unended {
    place: usize,
    began: i64,
}

/// Stands for an instant that is not known yet.
const UNKNOWN: i64 = i64::MIN;

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// There is no command, or the journal is off.
    #[default]
    Idle,
    Open,
    /// It is blocked, and takes effect when another command serves it.
    Blocked,
}

/// How many bytes are staged before they go into the journal.
const STAGED: usize = 16 * 1024;

impl CommandTrace {
    /// A command begins, or is run again after a wait.
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

    /// Sets the end of the command before it, if that is not known yet.
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

    /// Whether the journal records the command.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.state != State::Idle
    }

    /// Whether it takes its place in the order when its view ends.
    #[inline]
    pub fn takes_effect(&self) -> bool {
        self.state == State::Open && self.stamp.is_none()
    }

    /// From now on it is blocked.
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

    /// Another command has served it, and stamped it.
    pub fn set_stamp(&mut self, stamp: Option<Stamp>) {
        self.stamp = stamp.or(self.stamp);
    }

    /// When the command arrived, as far as that is known.
    pub fn began(&self) -> i64 {
        self.began
    }

    pub fn is_stamped(&self) -> bool {
        self.stamp.is_some()
    }

    /// The commands that it runs inside itself.
    pub fn children(&mut self) -> &mut Children {
        self.children.get_or_insert_default()
    }

    /// Takes what it ran inside itself, to be given back.
    #[inline]
    pub fn take_inside(&mut self) -> Option<Box<Children>> {
        self.children.take()
    }

    #[inline]
    pub fn give_back(&mut self, children: Option<Box<Children>>) {
        self.children = children;
    }

    /// It has ended. Returns when it took effect, or else that it did so just now.
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

    /// Stages the record of the command that has ended.
    #[inline]
    pub fn put(&mut self, line: &Line<'_>, is_ended: bool) {
        if !is_ended {
            self.unended = Some(Unended { place: self.staging.bytes.len(), began: self.began });
        }
        self.staging.push(line);
    }

    /// The command is recorded, with all that it ran inside itself.
    #[inline]
    pub fn clear_children(&mut self) {
        if let Some(children) = &mut self.children {
            children.clear();
        }
    }

    /// From now on the session's commands go into another journal.
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

/// Records on their way into the journal, one after the other.
#[derive(Default)]
pub struct Staging {
    pub(super) bytes: Vec<u8>,
    pub(super) count: u64,
}

impl Staging {
    /// Whether it is time to write them to the journal.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.bytes.len() > STAGED
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether it has a buffer of its own.
    #[inline]
    pub fn has_memory(&self) -> bool {
        self.bytes.capacity() > 0
    }

    #[inline]
    pub fn push(&mut self, line: &Line<'_>) {
        Record::write(line, &mut self.bytes);
        self.count += 1;
    }

    /// Sets how long the command took whose record is at this place.
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
    /// It has a stamp; how long it took is known when the next one takes effect.
    Stamped(Stamp),
    /// It ended and took effect just now; `real` is the instant that is recorded.
    Now { end: i64, real: i64, duration: u64 },
}

/// From one instant to another, in microseconds.
#[inline]
fn duration(began: i64, end: i64) -> u64 {
    end.saturating_sub(began).max(0).unsigned_abs()
}
