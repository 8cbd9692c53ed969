//! Key look-ups. The methods differ in what a look-up counts as: an access (OBJECT IDLETIME), a hit or a miss
//! (`keyspace_hits`, `keyspace_misses`), or neither.

use super::{Location, View};
use crate::base::random;
use crate::data::keyspace::entry::Entry;
use crate::data::keyspace::notifications::{COUNTS_USES, EventClass};
use crate::data::keyspace::store::hash_of;
use crate::data::keyspace::usage::Usage;

impl View<'_> {
    /// Whether the key exists. No access, no hit or miss.
    pub fn exists(&mut self, key: &[u8]) -> bool {
        self.find(key).is_some()
    }

    /// The entry. No access, no hit or miss.
    pub fn peek(&mut self, key: &[u8]) -> Option<&Entry> {
        let at = self.find(key)?;
        Some(self.entry(at))
    }

    /// The entry, even if it has expired; then it stays. No access, no hit or miss.
    pub fn peek_even_expired(&mut self, key: &[u8]) -> Option<&Entry> {
        let at = self.find_even_expired(key)?;
        Some(self.entry(at))
    }

    /// Finds a key that is about to be removed. In import mode this may be one that has expired, as in Valkey.
    pub(in crate::data::keyspace) fn find_to_remove(&mut self, key: &[u8]) -> Option<Location> {
        if self.is_importing() { self.find_even_expired(key) } else { self.find(key) }
    }

    fn find_even_expired(&mut self, key: &[u8]) -> Option<Location> {
        let hash = hash_of(key);
        let lock = self.held_shard(self.db, self.keyspace.shard_of(hash));
        let slot = self.locked[lock].shard.find(hash, key)?;
        Some(Location { lock, slot, hash })
    }

    /// The entry, read for its value: an access, and a hit or miss.
    pub fn read(&mut self, key: &[u8]) -> Option<&Entry> {
        let at = self.find_for_read(key)?;
        Some(self.entry(at))
    }

    /// Counts look-ups as hits that need not be made, because their results are known.
    pub fn count_hits(&mut self, hits: u64) {
        self.stats.hits += hits;
    }

    /// How much a key is used, for OBJECT. The look-up itself is no access.
    pub fn usage(&mut self, key: &[u8]) -> Option<Usage> {
        let at = self.find(key)?;
        let entry = self.entry(at);
        let shared = entry.shared_integer().filter(|_| self.wanted & COUNTS_USES == 0);
        Some(shared.map_or_else(|| entry.usage(), |value| self.keyspace.shared_integers.usage(value)))
    }

    /// The entry, for a command that only queries it: a hit or miss, but no access.
    pub fn read_without_touch(&mut self, key: &[u8]) -> Option<&Entry> {
        let Some(at) = self.find(key) else {
            self.count_miss(key);
            return None;
        };
        self.stats.hits += 1;
        Some(self.entry(at))
    }

    /// As [`read_without_touch`](Self::read_without_touch), for OBJECT: a missing key causes no `keymiss` event.
    pub fn read_without_touch_or_event(&mut self, key: &[u8]) -> Option<&Entry> {
        let Some(at) = self.find(key) else {
            self.stats.misses += 1;
            return None;
        };
        self.stats.hits += 1;
        Some(self.entry(at))
    }

    /// The entry, for a command that is about to change it: an access, but no hit or miss.
    pub fn read_for_update(&mut self, key: &[u8]) -> Option<&Entry> {
        let at = self.find_for_update(key)?;
        Some(self.entry(at))
    }

    /// TOUCH: an access even if CLIENT NO-TOUCH is on.
    pub fn touch(&mut self, key: &[u8]) -> bool {
        let touch = std::mem::replace(&mut self.touch, true);
        let found = self.find_for_read(key).is_some();
        self.touch = touch;
        found
    }

    /// Finds a live key. An expired one is deleted here.
    #[inline]
    pub(in crate::data::keyspace) fn find(&mut self, key: &[u8]) -> Option<Location> {
        let hash = self.hashed_key.hash_of(key);
        let lock = self.held_shard(self.db, self.keyspace.shard_of(hash));
        let shard = &self.locked[lock].shard;
        let slot = shard.find(hash, key)?;
        let at = Location { lock, slot, hash };
        if shard.entry(slot).due().first().is_some_and(|due| self.begun > due) {
            return self.look_at_overdue(at);
        }
        Some(at)
    }

    /// Finds a key for its value: an access, and a hit or miss.
    #[inline]
    pub(in crate::data::keyspace) fn find_for_read(&mut self, key: &[u8]) -> Option<Location> {
        let at = self.find_for_update(key);
        if at.is_some() {
            self.stats.hits += 1;
        } else {
            self.count_miss(key);
        }
        at
    }

    /// Finds keys for their values, in this order: for each an access, and a hit or miss. `None` if one of them moved because
    /// another had expired, or because a growing view has locked another shard.
    pub(in crate::data::keyspace) fn find_all_for_read<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a [u8]>,
    ) -> Option<Vec<Option<Location>>> {
        let before = (self.locked.len(), self.expiries);
        let places = keys.map(|key| self.find_for_read(key)).collect();
        (before == (self.locked.len(), self.expiries)).then_some(places)
    }

    /// Finds a key that is about to be changed: an access, but no hit or miss.
    #[inline]
    pub(in crate::data::keyspace) fn find_for_update(&mut self, key: &[u8]) -> Option<Location> {
        let at = self.find(key)?;
        if self.touch {
            if self.wanted & COUNTS_USES != 0 {
                self.count_use(at);
                return Some(at);
            }
            let usage = Usage::at(self.begun);
            let entry = self.locked[at.lock].shard.set_usage(at.slot, usage);
            if let Some(value) = entry.shared_integer() {
                self.keyspace.shared_integers.touch(value, usage);
            }
        }
        Some(at)
    }

    #[cold]
    fn count_use(&mut self, at: Location) {
        let draw = random::fraction(self.keyspace.random());
        let (now, settings) = (self.begun, &self.keyspace.settings.frequency);
        let usage = self.entry(at).usage().counted(now, settings, draw);
        self.locked[at.lock].shard.set_usage(at.slot, usage);
    }

    fn count_miss(&mut self, key: &[u8]) {
        self.stats.misses += 1;
        self.notify(EventClass::KeyMiss, "keymiss", key);
    }

    #[inline]
    pub(in crate::data::keyspace) fn entry(&self, at: Location) -> &Entry {
        self.locked[at.lock].shard.entry(at.slot)
    }

    #[inline]
    pub(in crate::data::keyspace) fn entry_mut(&mut self, at: Location) -> &mut Entry {
        self.locked[at.lock].shard.entry_mut(at.slot)
    }

    /// An entry that this view has just found to be live, so that its deadline need not be checked again.
    pub(in crate::data::keyspace) fn peek_found(&self, key: &[u8]) -> Option<&Entry> {
        let hash = self.hashed_key.hash_of(key);
        let shard = &self.locked[self.shard_position(self.db, self.keyspace.shard_of(hash)).ok()?].shard;
        Some(shard.entry(shard.find(hash, key)?))
    }
}
