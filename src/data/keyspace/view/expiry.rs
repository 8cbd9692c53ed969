//! Expiry of keys, and of fields of hashes.

use std::sync::atomic::{AtomicI64, Ordering};

use super::{Location, LockedShard, View};
use crate::base::clock::Millis;
use crate::data::keyspace::entry::{Entry, EntryDeadlines};
use crate::data::keyspace::hash::Hash;
use crate::data::keyspace::notifications::{EXPIRY_PAUSED, EventClass};
use crate::data::keyspace::store::hash_of;
use crate::data::keyspace::value::{Collection, ValueKind};

impl View<'_> {
    /// Deletes what has expired in every database, in the order of the deadlines.
    pub(in crate::data::keyspace) fn sweep(&mut self) {
        let mut due = Vec::new();
        for locked in &self.locked {
            let meta = &self.keyspace.database(locked.db).shard_meta[locked.index as usize];
            let mut deadlines = meta.deadlines();
            while let Some((deadline, hash)) = deadlines.pop_due(self.begun) {
                due.push((deadline, locked.db, hash));
            }
        }
        due.sort_unstable();
        let selected = self.db;
        for (deadline, db, hash) in due {
            self.db = db;
            let lock = self.held_shard(db, self.keyspace.shard_of(hash));
            let found = self.locked[lock].shard.find_by(hash, |entry| entry.due().first() == Some(deadline));
            if let Some(slot) = found {
                self.expire_due(Location { lock, slot, hash });
            }
        }
        self.db = selected;
    }

    /// Whether an entry under a key with this hash, whose shard is held, has expired.
    pub fn holds_overdue(&self, hash: u64) -> bool {
        let Ok(lock) = self.shard_position(self.db, self.keyspace.shard_of(hash)) else { return false };
        let due = |entry: &Entry| entry.due().first().is_some_and(|due| self.begun > due);
        self.locked[lock].shard.find_by(hash, due).is_some()
    }

    /// Deletes an expired entry, or its expired fields. Returns what is left of it.
    #[cold]
    pub(super) fn expire_due(&mut self, at: Location) -> Option<Location> {
        let now = self.begun;
        if self.entry(at).due().key.is_some_and(|deadline| now > deadline) {
            // A pause keeps the data as it is, but nobody sees the key.
            if self.wanted & EXPIRY_PAUSED == 0 {
                self.expire(at);
            }
            return None;
        }
        let over = self.rewrite_quietly(at, |entry| {
            entry.collection_mut().is_some_and(|hash: &mut Hash| {
                hash.expire(now);
                hash.is_removable()
            })
        });
        let key: Box<[u8]> = self.entry(at).key().into();
        self.notify(EventClass::Hash, "hexpired", &key);
        if over {
            self.unlink(at);
            self.notify(EventClass::Generic, "del", &key);
        }
        self.record_change(&key, true);
        (!over).then_some(at)
    }

    /// Deletes an expired entry that a pause has kept, because its key is written again.
    #[cold]
    pub(super) fn expire_paused(&mut self, key: &[u8]) {
        let hash = hash_of(key);
        let lock = self.held_shard(self.db, self.keyspace.shard_of(hash));
        if let Some(slot) = self.locked[lock].shard.find(hash, key) {
            self.expire(Location { lock, slot, hash });
        }
    }

    fn expire(&mut self, at: Location) {
        let entry = self.unlink(at);
        self.stats.expired += 1;
        self.notify(EventClass::Expired, "expired", entry.key());
        self.record_change(entry.key(), true);
    }

    /// Counts a deadline that was set, moved or removed. The entry is in its shard already.
    pub(super) fn deadlines_changed(&mut self, lock: usize, hash: u64, old: EntryDeadlines, new: EntryDeadlines) {
        let LockedShard { db, index, ref shard } = self.locked[lock];
        let meta = &self.keyspace.database(db).shard_meta[index as usize];
        let living = count_deadline(&meta.volatile, old.key, new.key)
            + count_deadline(&meta.with_field_deadlines, old.field, new.field);
        let mut deadlines = meta.deadlines();
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

impl LockedShard<'_> {
    /// The deadline of a key with this hash, if its value has this type.
    pub(in crate::data::keyspace) fn deadline(&self, hash: u64, kind: ValueKind) -> Option<Millis> {
        let slot = self.shard.find_by(hash, |entry| entry.kind() == kind && entry.due().key.is_some())?;
        self.shard.entry(slot).due().key
    }
}

/// Whether an entry's deadline has passed: Redis keeps a key through its last millisecond.
#[inline]
pub(super) fn is_expired(entry: &Entry, now: Millis) -> bool {
    let due = entry.due();
    due.first().is_some_and(|first| now > first)
        && (due.key.is_some_and(|deadline| now > deadline)
            || entry.collection().is_some_and(|hash: &Hash| hash.is_fully_expired(now)))
}

/// Counts a deadline that was set, moved or removed. Returns the new number of deadlines.
pub(super) fn count_deadline(count: &AtomicI64, old: Option<Millis>, new: Option<Millis>) -> i64 {
    let change = i64::from(new.is_some()) - i64::from(old.is_some());
    if change == 0 { count.load(Ordering::Relaxed) } else { count.fetch_add(change, Ordering::Relaxed) + change }
}
