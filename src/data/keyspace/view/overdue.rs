//! What runs out of time: keys, and fields of hashes.

use std::sync::atomic::{AtomicI64, Ordering};

use super::{At, Locked, View};
use crate::base::clock::Millis;
use crate::data::keyspace::entry::{Due, Entry};
use crate::data::keyspace::hash::Hash;
use crate::data::keyspace::news::EventClass;
use crate::data::keyspace::value::{Collection, Kind};

impl View<'_> {
    /// Deletes what is due in every database, in the order of the deadlines.
    pub(in crate::data::keyspace) fn sweep(&mut self) {
        let mut due = Vec::new();
        for locked in &self.locked {
            let side = &self.keyspace.database(locked.db).sides[locked.index as usize];
            let mut deadlines = side.deadlines();
            while let Some((deadline, hash)) = deadlines.pop_due(self.now) {
                due.push((deadline, locked.db, hash));
            }
        }
        due.sort_unstable();
        let selected = self.db;
        for (deadline, db, hash) in due {
            self.db = db;
            let lock = self.reach(db, self.keyspace.shard_of(hash));
            let found = self.locked[lock].shard.find_by(hash, |entry| entry.due().first() == Some(deadline));
            if let Some(slot) = found {
                self.run_out(At { lock, slot, hash });
            }
        }
        self.db = selected;
    }

    /// Whether an entry under a key with this hash, whose shard is held, is due.
    pub fn holds_overdue(&self, hash: u64) -> bool {
        let Ok(lock) = self.place(self.db, self.keyspace.shard_of(hash)) else { return false };
        let due = |entry: &Entry| entry.due().first().is_some_and(|due| self.now > due);
        self.locked[lock].shard.find_by(hash, due).is_some()
    }

    /// Deletes an entry whose time has passed, or those fields of it whose time has; what is left, if anything is.
    #[cold]
    pub(super) fn run_out(&mut self, at: At) -> Option<At> {
        let now = self.now;
        if self.entry(at).due().whole.is_some_and(|deadline| now > deadline) {
            self.expire(at);
            return None;
        }
        let over = self.rewrite_quietly(at, |entry| {
            entry.collection_mut().is_some_and(|hash: &mut Hash| {
                hash.expire(now);
                hash.is_over()
            })
        });
        let key: Box<[u8]> = self.entry(at).key().into();
        self.notify(EventClass::Hash, "hexpired", &key);
        if over {
            self.unlink(at);
            self.notify(EventClass::Generic, "del", &key);
        }
        self.tell_of_change(&key, true);
        (!over).then_some(at)
    }

    fn expire(&mut self, at: At) {
        let entry = self.unlink(at);
        self.tally.expired += 1;
        self.notify(EventClass::Expired, "expired", entry.key());
        self.tell_of_change(entry.key(), true);
    }

    /// Keeps count of a deadline that was set, moved or removed. The entry is in its shard already.
    pub(super) fn due_moved(&mut self, lock: usize, hash: u64, old: Due, new: Due) {
        let Locked { db, index, ref shard } = self.locked[lock];
        let side = &self.keyspace.database(db).sides[index as usize];
        let living = count_moved(&side.volatile, old.whole, new.whole) + count_moved(&side.partly, old.part, new.part);
        let mut deadlines = side.deadlines();
        if let Some(deadline) = new.first()
            && new.first() != old.first()
        {
            deadlines.add(deadline, hash);
        }
        if deadlines.is_stale(living.max(0) as usize) {
            let lives = |deadline, entry: &Entry| entry.due().first() == Some(deadline);
            deadlines.prune(|deadline, hash| shard.find_by(hash, |entry| lives(deadline, entry)).is_some());
        }
    }
}

impl Locked<'_> {
    /// The deadline of a key with this hash, if there is one of this type that has one.
    pub(in crate::data::keyspace) fn deadline(&self, hash: u64, kind: Kind) -> Option<Millis> {
        let slot = self.shard.find_by(hash, |entry| entry.kind() == kind && entry.due().whole.is_some())?;
        self.shard.entry(slot).due().whole
    }
}

/// Whether an entry's deadline has passed: Redis keeps a key through its last millisecond.
#[inline]
pub(super) fn is_over(entry: &Entry, now: Millis) -> bool {
    let due = entry.due();
    due.first().is_some_and(|first| now > first)
        && (due.whole.is_some_and(|deadline| now > deadline)
            || entry.collection().is_some_and(|hash: &Hash| hash.is_spent(now)))
}

/// Counts a deadline that was set, moved or removed; how many there are now.
pub(super) fn count_moved(count: &AtomicI64, old: Option<Millis>, new: Option<Millis>) -> i64 {
    let change = i64::from(new.is_some()) - i64::from(old.is_some());
    if change == 0 { count.load(Ordering::Relaxed) } else { count.fetch_add(change, Ordering::Relaxed) + change }
}
