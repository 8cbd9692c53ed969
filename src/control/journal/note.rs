//! What a session remembers for the journal of the command that it runs.

use super::record::{Children, Line, Record};
use crate::clock::real_micros;
use crate::resp::{OwnedWords, Words};

/// A command's place in the order in which commands take effect, and when that was, in microseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    pub seq: u64,
    pub at: i64,
    pub real: i64,
}

/// Kept in the session, so that a command needs no memory of its own.
#[derive(Default)]
pub struct Note {
    state: State,
    /// It was held up before it ran: when it took effect is not when it began.
    waited: bool,
    is_kept: bool,
    /// What the commands of the session are told of as, in this life of the journal.
    pub introduced: u32,
    pub db: u32,
    stamp: Option<Stamp>,
    /// When it arrived, in real time.
    began: i64,
    /// When the command before it ended, if that was a moment ago.
    before: Option<i64>,
    /// Where in the journal the first command stands whose reply is not written yet.
    pub unwritten: Option<u64>,
    /// What is about to go into the journal. To write there for each command would take longer than to run it: memory
    /// that was not used for long is far away, and whoever lets go of a lock waits for it.
    pub staging: Staging,
    /// Its words, if they are not at hand when it ends.
    kept: Option<Box<OwnedWords>>,
    children: Option<Box<Children>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// There is no command, or nobody wants to know of it.
    #[default]
    Idle,
    Open,
    /// It waits for somebody else to let it take effect.
    Blocked,
}

/// Words beyond this are not kept in memory once they are told of.
const WORDS_KEPT: usize = 4096;
/// How many bytes are gathered before they go into the journal.
const STAGED: usize = 16 * 1024;

impl Note {
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
        self.began = self.before.unwrap_or_else(real_micros);
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
        let real = real.unwrap_or_else(|| if self.waited { real_micros() } else { self.began });
        self.stamp = Some(Stamp { seq, at, real });
    }

    /// Somebody else has let it take effect.
    pub fn set_stamp(&mut self, stamp: Option<Stamp>) {
        self.stamp = stamp.or(self.stamp);
    }

    pub fn is_stamped(&self) -> bool {
        self.stamp.is_some()
    }

    /// Keeps the words for later; those that are kept already are the same.
    pub fn keep(&mut self, words: Words<'_>) {
        if self.is_open() && !self.is_kept {
            self.is_kept = true;
            self.kept.get_or_insert_default().fill(words);
        }
    }

    pub fn take_kept(&mut self) -> Option<Box<OwnedWords>> {
        self.kept.take()
    }

    /// It runs others inside itself.
    pub fn children(&mut self) -> &mut Children {
        self.children.get_or_insert_default()
    }

    /// What it has run inside itself.
    #[inline]
    pub fn ran_inside(&self) -> Option<&Children> {
        self.children.as_deref()
    }

    /// It has ended, at this time in real time. Its stamp, if it has one, and how long it took.
    #[inline]
    pub fn close(&mut self, end: i64) -> Ending {
        let ending = Ending {
            stamp: self.stamp.take(),
            real: if self.waited { end } else { self.began },
            duration: end.saturating_sub(self.began).max(0).unsigned_abs(),
        };
        self.state = State::Idle;
        self.before = Some(end);
        ending
    }

    /// What it leaves behind goes.
    #[inline]
    pub fn tidy(&mut self, kept: Option<Box<OwnedWords>>) {
        if let Some(children) = &mut self.children {
            children.clear();
        }
        if let Some(mut kept) = kept {
            kept.empty(WORDS_KEPT);
            self.kept = Some(kept);
        }
        self.is_kept = false;
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

    pub(super) fn empty(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(STAGED * 2);
        self.count = 0;
    }
}

/// How a command ended.
pub struct Ending {
    pub stamp: Option<Stamp>,
    /// When it took effect in real time, if nobody has said.
    pub real: i64,
    pub duration: u64,
}
