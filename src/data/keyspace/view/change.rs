//! Changes of keys. Every change passes here, so deadlines, memory, watchers, blocked clients and caches are always up
//! to date.

use super::expiry::count_deadline;
use super::{Location, LockedShard, View};
use crate::base::clock::Millis;
use crate::data::keyspace::ShardMeta;
use crate::data::keyspace::entry::{Entry, EntryDeadlines};
use crate::data::keyspace::notifications::{
    COUNTS_USES, EXPIRY_PAUSED, EventClass, IMPORT_MODE, KEY_CHANGES, Notification, SUMS_MEMORY,
};
use crate::data::keyspace::store::hash_of;

impl<'k> View<'k> {
    /// Counts everything that `change` does as one change, as for RENAME. A key that it finds expired is a change of its own only if it
    /// does nothing else: what else it does is sent to replicas.
    pub fn as_one_change<R>(&mut self, change: impl FnOnce(&mut Self) -> R) -> R {
        let (before, expiries) = (self.stats.changes, self.expiries);
        let result = change(self);
        let (changes, expired) = (self.stats.changes - before, self.expiries - expiries);
        if changes > expired {
            (self.stats.changes, self.expiries) = (before + 1, expiries);
        }
        result
    }

    /// Replaces whatever is under the entry's key.
    pub fn put(&mut self, mut entry: Entry) {
        match self.find_for_update(entry.key()) {
            Some(at) => {
                if self.wanted & COUNTS_USES != 0 {
                    entry.set_usage(self.entry(at).usage());
                }
                let old = self.rewrite(at, |old| std::mem::replace(old, entry));
                self.note_removed(&old, &self.keyspace.settings.lazy_free.server_del);
                self.signal_removal(&old);
                self.discard(old);
            }
            None => self.insert(entry),
        }
    }

    /// Inserts an entry as a new key. What was under its key before is removed without a notification.
    pub fn replace(&mut self, entry: Entry) {
        if let Some(at) = self.find(entry.key()) {
            let old = self.unlink(at);
            self.note_removed(&old, &self.keyspace.settings.lazy_free.server_del);
            self.discard(old);
        }
        self.insert(entry);
    }

    pub fn remove(&mut self, key: &[u8]) -> bool {
        let entry = self.take(key);
        entry.is_some_and(|entry| {
            self.discard(entry);
            true
        })
    }

    /// Removes a key and returns its entry.
    pub fn take(&mut self, key: &[u8]) -> Option<Entry> {
        let at = self.find_to_remove(key)?;
        let entry = self.unlink(at);
        self.changed(key);
        Some(entry)
    }

    /// Sets or removes a deadline, which may be in the past. `false` if the key does not exist.
    pub fn set_deadline(&mut self, key: &[u8], deadline: Option<Millis>) -> bool {
        let Some(at) = self.find(key) else { return false };
        self.rewrite(at, |entry| entry.set_deadline(deadline));
        true
    }

    /// Changes an entry in place, and updates deadlines, memory and watchers.
    #[inline]
    pub(in crate::data::keyspace) fn rewrite<R>(&mut self, at: Location, change: impl FnOnce(&mut Entry) -> R) -> R {
        let result = self.rewrite_quietly(at, change);
        self.stats.changes += 1;
        if !self.keyspace.watchers.is_empty() {
            self.keyspace.watchers.touch(self.db, self.entry(at).key());
        }
        if self.wanted & KEY_CHANGES != 0 {
            let key = self.entry(at).key().into();
            self.effects().notifications.push(Notification::Changed { key, expired: false });
        }
        result
    }

    /// Changes an entry in place without touching its watchers.
    #[inline]
    pub(in crate::data::keyspace) fn rewrite_quietly<R>(
        &mut self,
        at: Location,
        change: impl FnOnce(&mut Entry) -> R,
    ) -> R {
        let entry = self.entry_mut(at);
        let (size, due) = (entry.size(), entry.due());
        let result = change(entry);
        let (new_size, new_due) = (entry.size(), entry.due());
        if size != new_size {
            self.count_bytes(self.meta(at), new_size as i64 - size as i64);
        }
        if due != new_due {
            self.deadlines_changed(at.lock, at.hash, due, new_due);
        }
        result
    }

    /// Inserts an entry whose key does not exist.
    #[inline]
    pub(in crate::data::keyspace) fn insert(&mut self, entry: Entry) {
        if self.wanted & (EXPIRY_PAUSED | IMPORT_MODE) != 0 {
            self.expire_kept(entry.key());
        }
        self.changed(entry.key());
        self.insert_quietly(entry);
    }

    /// Inserts an entry whose key does not exist, without touching its watchers.
    #[inline]
    pub(in crate::data::keyspace) fn insert_quietly(&mut self, entry: Entry) {
        self.notify(EventClass::New, "new", entry.key());
        if entry.kind().is_awaited() {
            self.signal(entry.key());
        }
        self.size_changes();
        let hash = hash_of(entry.key());
        let lock = self.held_shard(self.db, self.keyspace.shard_of(hash));
        let LockedShard { home, index, .. } = self.locked[lock];
        let database = self.keyspace.home(home);
        database.note_use(index as usize);
        let meta = &database.shard_meta[index as usize];
        self.count_bytes(meta, entry.footprint() as i64);
        meta.count_keys(1);
        let due = entry.due();
        self.locked[lock].shard.insert(hash, entry);
        if due != EntryDeadlines::NONE {
            self.deadlines_changed(lock, hash, EntryDeadlines::NONE, due);
        }
    }

    pub(super) fn unlink(&mut self, at: Location) -> Entry {
        self.size_changes();
        let entry = self.locked[at.lock].shard.remove(at.slot);
        self.signal_removal(&entry);
        let meta = self.meta(at);
        self.count_bytes(meta, -(entry.footprint() as i64));
        meta.count_keys(-1);
        let due = entry.due();
        count_deadline(&meta.volatile, due.key, None);
        count_deadline(&meta.with_field_deadlines, due.field, None);
        entry
    }

    /// Counts memory of a shard that the view holds.
    #[inline]
    pub(super) fn count_bytes(&self, meta: &ShardMeta, change: i64) {
        meta.count_bytes(change);
        if self.wanted & SUMS_MEMORY != 0 {
            self.keyspace.memory_sum.add(change);
        }
    }

    fn meta(&self, at: Location) -> &'k ShardMeta {
        self.locked[at.lock].meta(self.keyspace)
    }

    /// Counts further changes to a key, without touching its watchers.
    pub fn count_more_changes(&mut self, changes: usize) {
        self.stats.changes += changes as u64;
    }

    /// Counts a change to a key, and touches its watchers.
    pub(in crate::data::keyspace) fn changed(&mut self, key: &[u8]) {
        self.record_change(key, false);
    }

    pub(super) fn record_change(&mut self, key: &[u8], expired: bool) {
        self.stats.changes += 1;
        self.expiries += u64::from(expired);
        if !self.keyspace.watchers.is_empty() {
            if expired {
                self.keyspace.watchers.touch_expired(self.db, key);
            } else {
                self.keyspace.watchers.touch(self.db, key);
            }
        }
        if self.wanted & KEY_CHANGES != 0 {
            self.effects().notifications.push(Notification::Changed { key: key.into(), expired });
        }
    }

    /// Touches the watchers of a key without counting a change.
    pub(in crate::data::keyspace) fn touch_watchers(&mut self, key: &[u8]) {
        let changes = self.stats.changes;
        self.changed(key);
        self.stats.changes = changes;
    }
}
