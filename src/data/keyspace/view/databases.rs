//! Operations on whole databases: FLUSHDB, SWAPDB, DBSIZE, and iterating over all keys.

use std::sync::atomic::Ordering;

use super::expiry::is_expired;
use super::{LockedShard, View};
use crate::data::keyspace::entry::Entry;
use crate::data::keyspace::notifications::{KEY_CHANGES, Notification, SUMS_MEMORY};
use crate::data::keyspace::store::hash_of;
use crate::data::keyspace::watch::Presence;

impl View<'_> {
    /// The databases that the view holds, in ascending order, without those that were never used.
    pub fn held_databases(&self) -> Vec<u32> {
        (0..self.databases()).filter(|db| !self.held_of(*db).is_empty()).collect()
    }

    /// The number of keys of the selected database.
    pub fn len(&mut self) -> usize {
        let home = self.keyspace.home_of(self.db);
        let known = self.effects.iter().flat_map(|effects| &effects.sizes).find(|(of, _)| *of == home);
        if let Some((_, size)) = known {
            return *size;
        }
        let size = self.used_shards(self.db).map(|locked| locked.shard.len()).sum();
        // Only in a transaction or a script is there another command that may ask.
        if self.growing.is_some() || self.everything.is_some() {
            self.effects().sizes.push((home, size));
        }
        size
    }

    /// A key is about to be added or removed.
    #[inline]
    pub(super) fn size_changes(&mut self) {
        if let Some(effects) = &mut self.effects {
            effects.sizes.clear();
        }
    }

    /// Calls `visit` with every live entry of the selected database.
    pub fn for_each(&mut self, mut visit: impl FnMut(&Entry)) {
        let horizon = self.horizon;
        for locked in self.used_shards(self.db) {
            locked.shard.iter().filter(|entry| !is_expired(entry, horizon)).for_each(&mut visit);
        }
    }

    /// All entries of a database, also expired ones.
    pub(super) fn entries_of(&self, db: u32) -> impl Iterator<Item = &Entry> {
        self.used_shards(db).flat_map(|locked| locked.shard.iter())
    }

    /// Removes every key of the selected database and returns how many there were.
    pub fn flush(&mut self) -> usize {
        let db = self.db;
        self.touch_watched(db, None);
        self.size_changes();
        let (mut removed, mut freed) = (0, 0);
        let mut tables = Vec::new();
        self.signal_all(db, false);
        let used: Vec<usize> = self.used_shards(db).map(|locked| locked.index as usize).collect();
        for index in used {
            let lock = self.held_shard(db, index);
            let LockedShard { home, ref mut shard, .. } = self.locked[lock];
            removed += shard.len();
            tables.push(shard.take());
            let database = self.keyspace.home(home);
            database.note_emptied(index);
            let meta = &database.shard_meta[index];
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
        let selected = self.db;
        let mut removed = 0;
        for db in self.held_databases() {
            self.select(db);
            removed += self.flush();
        }
        self.select(selected);
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

    /// Swaps two databases. The view must be of everything. `wakes_for_expired` says whether clients are tried again that wait for a key
    /// which is there and has expired.
    pub fn swap(&mut self, one: u32, other: u32, wakes_for_expired: bool) {
        if one == other {
            return;
        }
        for db in [one, other] {
            self.held_shard(db, 0);
        }
        // Who goes through a database in which there is nothing yet holds no shard of it.
        let mut homes = [one, other].map(|db| self.keyspace.home_of(db));
        homes.sort_unstable();
        let _growth = homes.map(|home| self.keyspace.home(home).stop_growth());
        for (db, with) in [(one, other), (other, one)] {
            self.touch_watched(db, Some(with));
        }
        let streams = [one, other].map(|db| (db, self.awaited_streams(db)));
        self.keyspace.exchange_homes(one, other);
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
        let index = self.keyspace.shard_of(hash);
        if self.existing.is_some() && self.shard_position(db, index).is_err() {
            return Presence::Missing;
        }
        let lock = self.held_shard(db, index);
        let shard = &self.locked[lock].shard;
        match shard.find(hash, key) {
            None => Presence::Missing,
            Some(slot) if is_expired(shard.entry(slot), self.horizon) => Presence::Expired,
            Some(_) => Presence::Live,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    use std::thread;

    use crate::base::clock::Clock;
    use crate::base::random;
    use crate::data::keyspace::{Expiry, Keyspace, Presence, ScanFilter, Scope, View, hash_of};

    /// What the key `name` holds in the selected database.
    fn name(view: &mut View<'_>) -> Vec<u8> {
        view.string(b"name").unwrap().unwrap_or_default().to_vec()
    }

    #[test]
    fn whoever_holds_a_key_holds_that_of_its_database_however_often_databases_are_swapped() {
        const NAMES: [&[u8]; 2] = [b"one", b"other"];
        let clock = Clock::new();
        let keyspace = Keyspace::small(2, &clock);
        for (db, name) in (0..).zip(NAMES) {
            let mut view = keyspace.lock(Scope::Database, db, &clock).unwrap();
            view.set_string(b"name", name, Expiry::Never);
        }
        // Which of them is in database 0: changed only while everything is held.
        let (first, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let hash = hash_of(b"name");
        let readers: [for<'k> fn(&'k Keyspace, u64, &Clock) -> View<'k>; 4] = [
            |keyspace, hash, clock| keyspace.lock_key(b"name", hash, 0, clock).unwrap(),
            |keyspace, hash, clock| keyspace.lock(Scope::Hashes(&[hash, !hash]), 0, clock).unwrap(),
            |keyspace, _, clock| keyspace.lock(Scope::Database, 0, clock).unwrap(),
            |keyspace, _, clock| keyspace.lock_growing(&[], 0, clock).unwrap(),
        ];
        thread::scope(|scope| {
            for lock in readers {
                let (keyspace, clock, first, is_over) = (&keyspace, &clock, &first, &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let mut view = lock(keyspace, hash, clock);
                        let found = name(&mut view);
                        assert_eq!(found, NAMES[first.load(Ordering::Relaxed)]);
                    }
                });
            }
            for _ in 0..4_000 {
                let mut view = keyspace.lock(Scope::Everything, 0, &clock).unwrap();
                view.swap(0, 1, false);
                first.fetch_xor(1, Ordering::Relaxed);
                assert_eq!(name(&mut view), NAMES[first.load(Ordering::Relaxed)]);
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn a_database_that_a_swap_brings_into_being_is_entered_by_nobody_before_that_is_done() {
        let clock = Clock::new();
        for _ in 0..200 {
            let keyspace = Keyspace::new(2, &clock);
            // Its shard is among those that are locked last.
            let key = (0..u64::MAX).map(u64::to_le_bytes).find(|key| keyspace.shard_of(hash_of(key)) > 1000).unwrap();
            thread::scope(|scope| {
                scope.spawn(|| keyspace.lock(Scope::Everything, 0, &clock).unwrap().swap(0, 1, false));
                while keyspace.databases[1].get().is_none() {
                    std::hint::spin_loop();
                }
                let mut view = keyspace.lock_key(&key, hash_of(&key), 1, &clock).unwrap();
                view.set_string(&key, b"v", Expiry::Never);
            });
            let mut view = keyspace.lock(Scope::Everything, 0, &clock).unwrap();
            // It waited for the swap.
            assert_eq!((view.len(), view.presence(1, &key)), (0, Presence::Live));
        }
    }

    /// What a view has done or seen.
    #[derive(Clone, Copy, Debug)]
    enum Event {
        /// Two keys were added if they were not there; otherwise they were removed.
        Toggle(u32, [u64; 2]),
        Size(u32, usize),
        Flush(u32),
        FlushAll,
        Swap,
    }

    /// Does one thing, and tells what it was and when, in the order of effects.
    fn step(keyspace: &Keyspace, clock: &Clock, order: &AtomicU64, draw: u64) -> (u64, Event) {
        let db = (draw & 1) as u32;
        let lock = |scope: Scope<'_>| keyspace.lock(scope, db, clock).unwrap();
        let number = || order.fetch_add(1, Ordering::Relaxed);
        match draw >> 1 & 31 {
            0..24 => {
                let names = [draw >> 8 & 7, draw >> 8 & 7 | 8];
                let keys = names.map(u64::to_le_bytes);
                let mut view = lock(Scope::Hashes(&keys.map(|key| hash_of(&key))));
                for key in &keys {
                    if !view.remove(key) {
                        view.set_string(key, b"v", Expiry::Never);
                    }
                }
                (number(), Event::Toggle(db, names))
            }
            24..26 => {
                let mut view = lock(Scope::KeysOfDatabase);
                let size = view.len();
                (number(), Event::Size(db, size))
            }
            26..28 => {
                let filter = ScanFilter { matches: &|_| true, kind: None };
                let mut view = lock(Scope::ScannedKeys { cursor: 0, count: 100 });
                let (next, found) = view.scan(0, 100, &filter);
                assert_eq!(next, 0);
                (number(), Event::Size(db, found.len()))
            }
            28 => {
                let mut view = lock(Scope::KeysOfDatabase);
                view.flush();
                (number(), Event::Flush(db))
            }
            29 => {
                let mut view = lock(Scope::KeysOfAll);
                view.flush_everything();
                (number(), Event::FlushAll)
            }
            30 => {
                let mut view = lock(Scope::Everything);
                view.swap(0, 1, false);
                (number(), Event::Swap)
            }
            _ => {
                let mut view = lock(Scope::Database);
                let size = view.len();
                (number(), Event::Size(db, size))
            }
        }
    }

    #[test]
    fn whoever_goes_through_the_keys_that_there_are_comes_before_or_behind_each_change_as_the_numbers_say() {
        const STEPS: usize = 15_000;
        let clock = Clock::new();
        for few in [true, false] {
            let keyspace = if few { Keyspace::small(2, &clock) } else { Keyspace::new(2, &clock) };
            let order = AtomicU64::new(0);
            let play = |thread: u64| {
                let draws =
                    (0..STEPS as u64).map(move |at| random::mix((thread << 32 | at).wrapping_mul(random::STEP)));
                draws.map(|draw| step(&keyspace, &clock, &order, draw)).collect::<Vec<_>>()
            };
            let mut events: Vec<(u64, Event)> = thread::scope(|scope| {
                let threads = [1, 2, 3].map(|thread| scope.spawn(move || play(thread)));
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
            });
            events.sort_unstable_by_key(|(number, _)| *number);
            let mut model = [BTreeSet::new(), BTreeSet::new()];
            for (number, event) in events {
                match event {
                    Event::Toggle(db, names) => names.into_iter().for_each(|name| {
                        if !model[db as usize].remove(&name) {
                            model[db as usize].insert(name);
                        }
                    }),
                    Event::Size(db, size) => assert_eq!(size, model[db as usize].len(), "{number}: {event:?}"),
                    Event::Flush(db) => model[db as usize].clear(),
                    Event::FlushAll => model.iter_mut().for_each(BTreeSet::clear),
                    Event::Swap => model.swap(0, 1),
                }
            }
        }
    }

    #[test]
    fn databases_keep_their_keys_through_swaps_and_flushes_also_those_never_used() {
        let clock = Clock::new();
        let keyspace = Keyspace::new(16, &clock);
        let set = |db: u32, key: &[u8]| {
            let mut view = keyspace.lock_key(key, hash_of(key), db, &clock).unwrap();
            view.set_string(key, b"v", Expiry::At(view.now() + 60_000));
        };
        let sizes =
            || keyspace.sizes().into_iter().map(|(db, [keys, volatile, _])| (db, keys, volatile)).collect::<Vec<_>>();
        set(5, b"a");
        set(5, b"b");
        set(0, b"c");
        let mut view = keyspace.lock(Scope::Everything, 0, &clock).unwrap();
        view.swap(5, 9, false);
        view.swap(0, 5, false);
        assert_eq!(view.held_databases(), [0, 5, 9]);
        view.select(9);
        assert_eq!((view.len(), view.exists(b"a"), view.exists(b"c")), (2, true, false));
        view.set_string(b"new", b"v", Expiry::Never);
        assert_eq!(view.len(), 3);
        assert!(view.remove(b"new"));
        assert_eq!((view.len(), view.flush()), (2, 2));
        assert_eq!((view.len(), view.random_key()), (0, None));
        view.finish();
        assert_eq!(sizes(), [(5, 1, 1)]);
        set(9, b"d");
        set(0, b"e");
        assert_eq!(sizes(), [(0, 1, 1), (5, 1, 1), (9, 1, 1)]);
        let mut view = keyspace.lock(Scope::Everything, 0, &clock).unwrap();
        view.select(5);
        assert!(view.exists(b"c") && !view.exists(b"e"));
        assert_eq!(view.flush_everything(), 3);
        view.finish();
        assert_eq!((sizes(), keyspace.used_bytes()), (vec![], 0));
    }
}
