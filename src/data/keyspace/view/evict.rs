//! Eviction: samples of a shard, and the removal of a key.

use super::{Location, LockedShard, View};
use crate::data::keyspace::Keyspace;
use crate::data::keyspace::entry::Entry;
use crate::data::keyspace::notifications::EventClass;
use crate::data::keyspace::store::hash_of;

impl LockedShard<'_> {
    /// Shows up to so many entries, and returns how many.
    pub(in crate::data::keyspace) fn show_any(&self, seed: u64, most: usize, show: &mut impl FnMut(&Entry)) -> usize {
        self.shard.iter_from(seed).take(most).map(show).count()
    }

    /// Shows up to so many entries with a deadline, and returns how many.
    pub(in crate::data::keyspace) fn show_volatile(
        &self,
        keyspace: &Keyspace,
        seed: u64,
        most: usize,
        show: &mut impl FnMut(&Entry),
    ) -> usize {
        let deadlines = self.meta(keyspace).deadlines();
        let expiring = deadlines.iter_from(seed).flat_map(|row| self.shard.find_expiring(row));
        expiring.filter(|entry| entry.due().key.is_some()).take(most).map(show).count()
    }
}

impl View<'_> {
    /// Evicts a key, also one that has expired and is not deleted yet, and returns how much memory that frees. `None` if it
    /// does not exist, or has no deadline although `is_volatile` demands one.
    pub fn evict(&mut self, key: &[u8], is_volatile: bool) -> Option<usize> {
        let hash = hash_of(key);
        let lock = self.held_shard(self.db, self.keyspace.shard_of(hash));
        let slot = self.locked[lock].shard.find(hash, key)?;
        let at = Location { lock, slot, hash };
        if is_volatile && self.entry(at).due().key.is_none() {
            return None;
        }
        let entry = self.unlink(at);
        self.note_removed(&entry, &self.keyspace.settings.lazy_free.eviction);
        // It is no client's change.
        let changes = self.stats.changes;
        self.record_change(key, true);
        self.stats.changes = changes;
        self.replicate_removal(key, &self.keyspace.settings.lazy_free.eviction);
        self.notify(EventClass::Evicted, "evicted", key);
        let freed = entry.footprint();
        self.discard(entry);
        Some(freed)
    }
}
