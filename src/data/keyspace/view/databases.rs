//! Operations on whole databases: FLUSHDB, SWAPDB, DBSIZE, and iterating over all keys.

use std::sync::atomic::{AtomicI64, Ordering};

use super::View;
use super::expiry::is_expired;
use crate::data::keyspace::ShardMeta;
use crate::data::keyspace::entry::Entry;
use crate::data::keyspace::notifications::{KEY_CHANGES, Notification, SUMS_MEMORY};
use crate::data::keyspace::store::hash_of;
use crate::data::keyspace::watch::Presence;

impl View<'_> {
    /// The databases that the view holds, in ascending order, without those that were never used.
    pub fn held_databases(&self) -> Vec<u32> {
        let mut databases: Vec<u32> = self.locked.iter().map(|locked| locked.db).collect();
        databases.dedup();
        databases
    }

    pub fn len(&mut self) -> usize {
        let db = self.db;
        self.locked.iter().filter(|locked| locked.db == db).map(|locked| locked.shard.len()).sum()
    }

    /// Calls `visit` with every live entry of the selected database.
    pub fn for_each(&mut self, mut visit: impl FnMut(&Entry)) {
        let (db, horizon) = (self.db, self.horizon);
        for locked in self.locked.iter().filter(|locked| locked.db == db) {
            locked.shard.iter().filter(|entry| !is_expired(entry, horizon)).for_each(&mut visit);
        }
    }

    /// All entries of a database, also expired ones.
    pub(super) fn entries_of(&self, db: u32) -> impl Iterator<Item = &Entry> {
        self.locked.iter().filter(move |locked| locked.db == db).flat_map(|locked| locked.shard.iter())
    }

    /// Removes every key of the selected database and returns how many there were.
    pub fn flush(&mut self) -> usize {
        let db = self.db;
        self.touch_watched(db, None);
        let (mut removed, mut freed) = (0, 0);
        let mut tables = Vec::new();
        self.signal_all(db, false);
        if self.everything.is_some() {
            self.held_shard(db, 0);
        }
        for locked in self.locked.iter_mut().filter(|locked| locked.db == db && !locked.shard.is_unused()) {
            removed += locked.shard.len();
            tables.push(locked.shard.take());
            let meta = &self.keyspace.database(db).shard_meta[locked.index as usize];
            *meta.deadlines() = Default::default();
            meta.keys.store(0, Ordering::Relaxed);
            meta.volatile.store(0, Ordering::Relaxed);
            meta.with_field_deadlines.store(0, Ordering::Relaxed);
            freed += meta.bytes.swap(0, Ordering::Relaxed);
        }
        if self.wanted & SUMS_MEMORY != 0 {
            self.keyspace.memory_sum.add(-freed);
        }
        self.effects().garbage.add_tables(tables, usize::try_from(freed).unwrap_or(0));
        self.stats.changes += removed as u64;
        removed
    }

    /// Removes every key of all databases that the view holds, and returns how many there were.
    pub fn flush_everything(&mut self) -> usize {
        let home = self.db;
        let mut removed = 0;
        for db in self.held_databases() {
            self.select(db);
            removed += self.flush();
        }
        self.select(home);
        self.notify_flushed();
        removed
    }

    /// Lets `work` change keys without notifications, and without counting the changes.
    pub fn without_traces(&mut self, work: impl FnOnce(&mut Self)) {
        let (wanted, changes) = (std::mem::take(&mut self.wanted), self.stats.changes);
        work(self);
        self.wanted = wanted;
        self.stats.changes = changes;
    }

    /// Notifies once that everything was removed, whatever the number of databases, and even if all were empty.
    pub fn notify_flushed(&mut self) {
        if self.wanted & KEY_CHANGES != 0 {
            self.effects().notifications.push(Notification::Flushed);
        }
    }

    /// Counts values whose keys are gone before they are freed.
    pub fn count_freed_lazily(&self, count: usize) {
        self.keyspace.freed_lazily.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Gives back the room that removed keys have left in the tables.
    pub fn shrink(&mut self) {
        self.locked.iter_mut().for_each(|locked| locked.shard.shrink());
    }

    /// Swaps two databases. The view must be of everything. `wakes_for_expired` says whether clients are tried again that wait for a key
    /// which is there and has expired.
    pub fn swap(&mut self, one: u32, other: u32, wakes_for_expired: bool) {
        if one == other {
            return;
        }
        for db in [one, other] {
            self.held_shard(db, 0);
        }
        for (db, with) in [(one, other), (other, one)] {
            self.touch_watched(db, Some(with));
        }
        let streams = [one, other].map(|db| (db, self.awaited_streams(db)));
        let (one, other) = (one.min(other), one.max(other));
        let (first, second) = (self.held_shard(one, 0), self.held_shard(other, 0));
        let databases = [one, other].map(|db| self.keyspace.database(db));
        // The shards of a database stand side by side.
        let (left, right) = self.locked.split_at_mut(second);
        let pairs = left[first..].iter_mut().zip(right).take(self.keyspace.shards());
        for (index, (left, right)) in pairs.enumerate() {
            if left.shard.is_unused() && right.shard.is_unused() {
                continue;
            }
            left.shard.swap(&mut right.shard);
            let shard_meta = databases.map(|database| &database.shard_meta[index]);
            std::mem::swap(&mut *shard_meta[0].deadlines(), &mut *shard_meta[1].deadlines());
            swap_counts(shard_meta, |meta| &meta.keys);
            swap_counts(shard_meta, |meta| &meta.volatile);
            swap_counts(shard_meta, |meta| &meta.with_field_deadlines);
            swap_counts(shard_meta, |meta| &meta.bytes);
        }
        for db in [one, other] {
            self.signal_all(db, wakes_for_expired);
        }
        for (db, streams) in streams {
            self.signal_missing_streams(db, &streams);
        }
        self.stats.changes += 1;
    }

    /// Touches the watched keys of a database whose content is removed, or replaced by another one's.
    fn touch_watched(&mut self, db: u32, with: Option<u32>) {
        if self.keyspace.watchers.is_empty() {
            return;
        }
        for key in self.keyspace.watchers.keys(db) {
            let before = self.presence(db, &key);
            let after = with.map_or(Presence::Missing, |with| self.presence(with, &key));
            self.keyspace.watchers.replace(db, &key, before, after);
        }
    }

    /// How a key of a database is there; an expired one stays.
    pub fn presence(&mut self, db: u32, key: &[u8]) -> Presence {
        let hash = hash_of(key);
        let lock = self.held_shard(db, self.keyspace.shard_of(hash));
        let shard = &self.locked[lock].shard;
        match shard.find(hash, key) {
            None => Presence::Missing,
            Some(slot) if is_expired(shard.entry(slot), self.horizon) => Presence::Expired,
            Some(_) => Presence::Live,
        }
    }
}

fn swap_counts(shard_meta: [&ShardMeta; 2], count: impl Fn(&ShardMeta) -> &AtomicI64) {
    let (one, other) = (count(shard_meta[0]), count(shard_meta[1]));
    let before = one.load(Ordering::Relaxed);
    one.store(other.load(Ordering::Relaxed), Ordering::Relaxed);
    other.store(before, Ordering::Relaxed);
}
