//! Expiry of keys, and of fields of hashes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicI64, Ordering};

use super::{Location, LockedShard, View};
use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::data::keyspace::deadlines::Row;
use crate::data::keyspace::entry::{Entry, EntryDeadlines};
use crate::data::keyspace::hash::Hash;
use crate::data::keyspace::notifications::{EXPIRY_PAUSED, EventClass};
use crate::data::keyspace::store::hash_of;
use crate::data::keyspace::value::{Collection, ValueKind};
use crate::protocol::Words;

impl View<'_> {
    /// Deletes what has expired in every database, in the order of the deadlines, up to so many deadlines. Returns whether there are
    /// more.
    pub(in crate::data::keyspace) fn sweep(&mut self, most: usize) -> bool {
        let (mut due, mut left) = (Vec::new(), most);
        let first = |at: usize| {
            let meta = Some(self.locked[at].meta(self.keyspace)).filter(|meta| meta.has_deadlines())?;
            let earliest = meta.deadlines().earliest().filter(|earliest| *earliest < self.begun)?;
            Some(Reverse((earliest, at)))
        };
        let mut shards: BinaryHeap<_> = (0..self.locked.len()).filter_map(first).collect();
        while left > 0
            && let Some(Reverse((_, at))) = shards.pop()
        {
            let locked = &self.locked[at];
            // Where all are deleted, they are sorted below.
            let next = shards.peek().filter(|_| most < usize::MAX);
            let until = next.map_or(self.begun, |Reverse((next, _))| self.begun.min(*next + 1));
            let (db, mut deadlines) = (self.keyspace.database_at(locked.home), locked.meta(self.keyspace).deadlines());
            while left > 0
                && let Some(row) = deadlines.pop_due(until)
            {
                left -= 1;
                let expired = locked.shard.find_expiring(row);
                due.extend(expired.map(|entry| (row.deadline, db, hash_of(entry.key()))));
            }
            drop(deadlines);
            shards.extend(first(at));
        }
        let has_more = !shards.is_empty();
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
        has_more
    }

    /// Whether an entry under a key with this hash, whose shard is held, has expired.
    pub fn holds_overdue(&self, hash: u64) -> bool {
        let Ok(lock) = self.shard_position(self.db, self.keyspace.shard_of(hash)) else { return false };
        let due = |entry: &Entry| entry.due().first().is_some_and(|due| self.begun > due);
        self.locked[lock].shard.find_by(hash, due).is_some()
    }

    /// An entry of which something has expired: deletes it, or hides its expired fields, which a command that names them or
    /// the next sweep removes. Returns the entry if there is anything of it to see.
    #[cold]
    pub(super) fn look_at_overdue(&mut self, at: Location) -> Option<Location> {
        let horizon = self.horizon;
        if self.entry(at).due().key.is_some_and(|deadline| horizon > deadline) {
            if !self.keeps_expired() {
                self.expire(at);
            }
            return None;
        }
        self.entry_mut(at).change(|hash: &mut Hash| hash.hide_expired(horizon));
        Some(at)
    }

    /// Whether expired keys stay where they are, although nobody sees them.
    fn keeps_expired(&self) -> bool {
        self.wanted & EXPIRY_PAUSED != 0 || (self.is_importing() && !self.writing)
    }

    /// Deletes an expired entry, or its expired fields.
    fn expire_due(&mut self, at: Location) {
        let now = self.begun;
        if self.entry(at).due().key.is_some_and(|deadline| now > deadline) {
            self.expire(at);
        } else {
            self.remove_fields(at, |hash| hash.expire(now));
        }
    }

    /// The hash under a key, as a read. With `expires`, those of the named fields that have expired are removed first.
    pub fn hash_with_fields(
        &mut self,
        key: &[u8],
        fields: Words<'_>,
        expires: bool,
    ) -> Result<Option<&Hash>, CommandError> {
        let Some(mut at) = self.find_for_read(key) else { return Ok(None) };
        if expires && self.has_expired_fields(at) {
            match self.expire_named(at, fields.iter()) {
                Some(left) => at = left,
                None => return Ok(None),
            }
        }
        self.entry(at).collection().map(Some).ok_or(CommandError::WRONG_TYPE)
    }

    /// Removes those of the named fields of a hash that have expired, as Redis does when it looks for them.
    pub fn expire_fields<'w>(&mut self, key: &[u8], fields: impl Iterator<Item = &'w [u8]>) {
        if let Some(at) = self.find(key)
            && self.has_expired_fields(at)
        {
            self.expire_named(at, fields);
        }
    }

    /// Removes all fields of a hash that have expired.
    pub fn expire_all_fields(&mut self, key: &[u8]) {
        let horizon = self.horizon;
        if let Some(at) = self.find(key)
            && self.has_expired_fields(at)
        {
            self.remove_fields(at, |hash| hash.expire(horizon));
        }
    }

    #[cold]
    fn expire_named<'w>(&mut self, at: Location, fields: impl Iterator<Item = &'w [u8]>) -> Option<Location> {
        self.remove_fields(at, |hash| fields.filter(|field| hash.is_hidden(field) && hash.remove(field)).count())
    }

    /// Publishes that those of the named fields have expired that are about to be written anew, as Valkey does, and returns
    /// how many there are.
    pub fn renew_fields<'w>(&mut self, key: &[u8], fields: impl Iterator<Item = &'w [u8]>) -> usize {
        let Some(at) = self.find(key).filter(|&at| self.has_expired_fields(at)) else { return 0 };
        let hash = self.entry(at).collection::<Hash>();
        let hidden = hash.map_or(0, |hash| fields.filter(|field| hash.is_hidden(field)).count());
        if hidden > 0 {
            self.stats.expired_fields += hidden as u64;
            self.notify(EventClass::Hash, "hexpired", key);
        }
        hidden
    }

    /// Whether a hash has expired fields that may be removed.
    #[inline]
    fn has_expired_fields(&self, at: Location) -> bool {
        self.entry(at).due().field.is_some_and(|first| self.horizon > first) && !self.keeps_expired()
    }

    /// Removes expired fields of a hash, and the hash with the last. `remove` returns how many it removed. Returns what is
    /// left of it.
    fn remove_fields(&mut self, at: Location, remove: impl FnOnce(&mut Hash) -> usize) -> Option<Location> {
        let remove = |hash: &mut Hash| (remove(hash), hash.is_removable());
        let (removed, over) = self.rewrite_quietly(at, |entry| entry.change(remove)).unwrap_or_default();
        if removed == 0 {
            return Some(at);
        }
        self.stats.expired_fields += removed as u64;
        let key: Box<[u8]> = self.entry(at).key().into();
        self.notify(EventClass::Hash, "hexpired", &key);
        if over {
            self.unlink(at);
            self.notify(EventClass::Generic, "del", &key);
        }
        self.record_change(&key, true);
        (!over).then_some(at)
    }

    /// Deletes an expired entry that was kept, because its key is written again.
    #[cold]
    pub(super) fn expire_kept(&mut self, key: &[u8]) {
        let hash = hash_of(key);
        let lock = self.held_shard(self.db, self.keyspace.shard_of(hash));
        if let Some(slot) = self.locked[lock].shard.find(hash, key) {
            self.expire(Location { lock, slot, hash });
        }
    }

    fn expire(&mut self, at: Location) {
        let entry = self.unlink(at);
        self.note_removed(&entry, &self.keyspace.settings.lazy_free.expire);
        self.stats.expired += 1;
        self.replicate_removal(entry.key(), &self.keyspace.settings.lazy_free.expire);
        self.notify(EventClass::Expired, "expired", entry.key());
        self.record_change(entry.key(), true);
        self.discard(entry);
    }

    /// Counts a deadline that was set, moved or removed. The entry is in its shard already.
    pub(super) fn deadlines_changed(&mut self, lock: usize, hash: u64, old: EntryDeadlines, new: EntryDeadlines) {
        let locked = &self.locked[lock];
        let meta = locked.meta(self.keyspace);
        let living = count_deadline(&meta.volatile, old.key, new.key)
            + count_deadline(&meta.with_field_deadlines, old.field, new.field);
        let mut deadlines = meta.deadlines();
        if let Some(deadline) = new.first()
            && new.first() != old.first()
        {
            deadlines.add(deadline, hash);
        }
        if deadlines.is_stale(living.max(0) as usize) {
            deadlines.prune(|row| locked.shard.find_expiring(row).next().is_some());
        }
    }
}

impl LockedShard<'_> {
    /// The key that expires at the deadline of a row.
    pub(in crate::data::keyspace) fn key_expiring_at(&self, row: Row) -> Option<Vec<u8>> {
        self.shard
            .find_expiring(row)
            .find(|entry| entry.due().key == Some(row.deadline))
            .map(|entry| entry.key().to_vec())
    }

    /// The deadline of a key with this hash, if its value has this type.
    pub(in crate::data::keyspace) fn deadline(&self, hash: u64, kind: ValueKind) -> Option<Millis> {
        let slot = self.shard.find_by(hash, |entry| entry.kind() == kind && entry.due().key.is_some())?;
        self.shard.entry(slot).due().key
    }
}

/// Whether a key's deadline has passed: Redis keeps a key through its last millisecond. A hash whose fields have all
/// expired is there until they are removed.
#[inline]
pub(in crate::data::keyspace) fn is_expired(entry: &Entry, horizon: Millis) -> bool {
    entry.deadline().is_some_and(|deadline| horizon > deadline)
}

/// Counts a deadline that was set, moved or removed. Returns the new number of deadlines.
pub(super) fn count_deadline(count: &AtomicI64, old: Option<Millis>, new: Option<Millis>) -> i64 {
    let change = i64::from(new.is_some()) - i64::from(old.is_some());
    if change == 0 { count.load(Ordering::Relaxed) } else { count.fetch_add(change, Ordering::Relaxed) + change }
}
