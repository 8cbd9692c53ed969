//! What is remembered of clients that have to do with locks.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::finding::Mark;
use super::lock::{Place, Who};

/// Those that have to do with locks, by server and client.
pub type Parties = HashMap<(u16, u64), Party, FixedState>;

/// How many locks are remembered that a client has read, or holds, or has lost, and how many keys that it has touched.
const MOST_READS: usize = 16;
const MOST_PLACES: usize = 16;
/// So many are met before it is looked for the first time which of them are over.
const FEW: usize = 64;
const MOST_TOUCHED: usize = 64;

/// A key that a client watches, and what it has read there since.
pub type Watched = (u32, Box<[u8]>, Option<Box<[u8]>>);

/// What is remembered of one client.
#[derive(Clone)]
pub struct Party {
    pub who: Who,
    /// What it has read of locks, the latest at the end.
    pub reads: VecDeque<Read>,
    /// The keys that it watches, and what it has read there since.
    pub watched: Vec<Watched>,
    /// The locks that it believes to hold.
    pub holds: Vec<Arc<Place>>,
    /// The locks that it has lost without having released them, or having been told.
    pub lost: Vec<Arc<Place>>,
    /// All locks that it has got or waited for, perhaps several times each, since those were last looked through; and how
    /// many were left then.
    pub met: Vec<Arc<Place>>,
    met_before: usize,
    /// The keys that it has touched while it held any lock.
    pub touched: VecDeque<Touch>,
    /// How many keys that are no locks it has named since it has to do with locks, and when it last did on the server's
    /// clock, in microseconds.
    pub work: u64,
    pub worked_at: i64,
}

/// A key that a client has touched while it held a lock: the first and the last time, by the place in the order and by the
/// server's clock in microseconds.
#[derive(Clone, Debug)]
pub struct Touch {
    db: u32,
    key: Box<[u8]>,
    times: [(u64, i64); 2],
}

impl Touch {
    fn is_of(&self, db: u32, key: &[u8]) -> bool {
        self.db == db && *self.key == *key
    }

    /// Whether that was between these places, and not after this time.
    pub fn is_within(&self, from: u64, to: u64, until: i64) -> bool {
        self.times.iter().any(|(seq, at)| *seq > from && *seq < to && *at <= until)
    }
}

/// What a client has read of a lock.
#[derive(Clone, Debug)]
pub struct Read {
    pub place: Arc<Place>,
    pub value: Option<Box<[u8]>>,
    pub mark: Mark,
    /// How often the lock was taken before: if it was taken since, it is another holder's.
    pub taken: u64,
}

impl Party {
    pub fn new(who: Who) -> Self {
        Self {
            who,
            reads: VecDeque::new(),
            watched: Vec::new(),
            holds: Vec::new(),
            lost: Vec::new(),
            met: Vec::new(),
            met_before: 0,
            touched: VecDeque::new(),
            work: 0,
            worked_at: 0,
        }
    }

    pub fn note_read(&mut self, read: Read) {
        self.reads.retain(|earlier| earlier.place != read.place);
        if self.reads.len() >= MOST_READS {
            self.reads.pop_front();
        }
        self.reads.push_back(read);
    }

    /// What it has read of a lock last.
    pub fn read_of(&self, place: &Place) -> Option<&Read> {
        self.reads.iter().rev().find(|read| *read.place == *place)
    }

    /// It holds a lock from now on, or waits for it.
    pub fn meet(&mut self, place: &Arc<Place>) {
        if self.met.last().is_none_or(|last| !Arc::ptr_eq(last, place)) {
            self.met.push(Arc::clone(place));
        }
    }

    /// Whether it has met so many locks that it is time to look which of them it still has to do with.
    pub fn has_met_many(&self) -> bool {
        self.met.len() > 2 * self.met_before + FEW
    }

    /// It has to do with these alone, of all that it has met.
    pub fn keep_met(&mut self, places: Vec<Arc<Place>>) {
        (self.met_before, self.met) = (places.len(), places);
    }

    pub fn note_hold(&mut self, place: &Arc<Place>) {
        self.meet(place);
        self.lost.retain(|lost| lost != place);
        note(&mut self.holds, place);
    }

    /// It knows that it does not have the lock any more.
    pub fn give_back(&mut self, place: &Place) {
        self.holds.retain(|held| **held != *place);
        self.lost.retain(|lost| **lost != *place);
        self.end_work();
    }

    /// It has lost a lock and may not know.
    pub fn lose(&mut self, place: &Arc<Place>) {
        if self.holds.contains(place) {
            self.holds.retain(|held| held != place);
            note(&mut self.lost, place);
        }
    }

    fn end_work(&mut self) {
        if self.holds.is_empty() && self.lost.is_empty() {
            self.touched.clear();
        }
    }

    /// It has to do with a lock now: what it does is work under it, or after it.
    pub fn is_at_work(&self) -> bool {
        !self.holds.is_empty() || !self.lost.is_empty()
    }

    pub fn touch(&mut self, db: u32, key: &[u8], seq: u64, at: i64) {
        if let Some(known) = self.touched.iter_mut().find(|touch| touch.is_of(db, key)) {
            known.times[1] = (seq, at);
            return;
        }
        if self.touched.len() >= MOST_TOUCHED {
            self.touched.pop_front();
        }
        self.touched.push_back(Touch { db, key: key.into(), times: [(seq, at); 2] });
    }

    /// When it has touched a key while it held any lock, if it has.
    pub fn touch_of(&self, db: u32, key: &[u8]) -> Option<&Touch> {
        self.touched.iter().find(|touch| touch.is_of(db, key))
    }
}

fn note(places: &mut Vec<Arc<Place>>, place: &Arc<Place>) {
    if places.len() < MOST_PLACES && !places.contains(place) {
        places.push(Arc::clone(place));
    }
}
