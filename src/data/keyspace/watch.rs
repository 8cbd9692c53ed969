//! WATCH: which connections watch which keys, and whether one of those keys was touched.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use hashbrown::HashTable;
use smallvec::SmallVec;

use super::store::hash_of;
use crate::base::sync::MutexExt;

/// So many keys are added or removed before writers get a turn at the table.
const STEP: usize = 256;
/// A table with room for more keys is given back when the last key is gone.
const ROOM_KEPT: usize = 1024;

/// One connection's watch: set once a key it watches has changed.
#[derive(Default)]
pub struct Watch {
    touched: AtomicBool,
}

impl Watch {
    pub fn is_touched(&self) -> bool {
        self.touched.load(Ordering::Acquire)
    }

    fn touch(&self) {
        self.touched.store(true, Ordering::Release);
    }
}

/// A connection that watches a key.
struct Watcher {
    watch: Arc<Watch>,
    /// The key has expired before it was watched, and was not deleted since. Its deletion changes nothing.
    expired: bool,
}

/// How a key is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Missing,
    Live,
    /// It has expired, and is not deleted yet.
    Expired,
}

/// A key that is watched. Each of its watchers shares the key.
struct Watched {
    db: u32,
    key: Arc<[u8]>,
    /// At least one.
    watchers: SmallVec<[Watcher; 1]>,
}

#[derive(Default)]
struct ByKey {
    table: HashTable<Watched>,
}

/// A key as a session keeps it, with its database.
pub type WatchedKey = (u32, Arc<[u8]>);

/// Every watch on a keyspace. A watch is added while the key's shard is locked, unless a script holds it.
#[derive(Default)]
pub struct Watchers {
    /// How many keys are watched, so that a write without watchers costs one load.
    keys: AtomicUsize,
    by_key: Mutex<ByKey>,
}

impl Watchers {
    pub fn is_empty(&self) -> bool {
        self.keys.load(Ordering::Relaxed) == 0
    }

    /// The number of watched keys.
    pub fn len(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    /// Adds a watch on keys, and notes those in `added` that it was not on. `is_expired` tells of a key whether it is there,
    /// but has expired.
    pub fn add<'k>(
        &self,
        db: u32,
        mut keys: impl ExactSizeIterator<Item = &'k [u8]>,
        watch: &Arc<Watch>,
        mut is_expired: impl FnMut(&[u8]) -> bool,
        added: &mut Vec<WatchedKey>,
    ) {
        added.reserve(keys.len());
        let mut step: SmallVec<[(&[u8], bool); 4]> = SmallVec::new();
        while keys.len() > 0 {
            // Asked while the table is free: the answer may need a shard whose holder waits for the table.
            step.extend(keys.by_ref().take(STEP).map(|key| (key, is_expired(key))));
            let mut by_key = self.by_key();
            for (key, expired) in step.drain(..) {
                if let Some(shared) = by_key.add(db, key, watch, expired) {
                    added.push((db, shared));
                }
            }
            self.keys.store(by_key.table.len(), Ordering::Relaxed);
        }
    }

    /// Removes a watch from keys. `each` is told of each key whether it had expired before it was watched, and is still there.
    pub fn remove(&self, keys: &[WatchedKey], watch: &Arc<Watch>, mut each: impl FnMut(u32, &[u8], bool)) {
        let mut had_expired: SmallVec<[bool; 16]> = SmallVec::new();
        for step in keys.chunks(STEP) {
            let mut by_key = self.by_key();
            had_expired.extend(step.iter().map(|(db, key)| by_key.remove(*db, key, watch)));
            if by_key.table.is_empty() && by_key.table.capacity() > ROOM_KEPT {
                by_key.table = HashTable::new();
            }
            self.keys.store(by_key.table.len(), Ordering::Relaxed);
            // Told while the table is free: who is told may need a shard whose holder waits for the table.
            drop(by_key);
            step.iter().zip(had_expired.drain(..)).for_each(|((db, key), had_expired)| each(*db, key, had_expired));
        }
    }

    pub fn touch(&self, db: u32, key: &[u8]) {
        if let Some(watched) = self.by_key().find(db, key) {
            watched.watchers.iter().for_each(|watcher| watcher.watch.touch());
        }
    }

    /// A key is deleted because it has expired. That touches those who watch it since before it expired.
    pub fn touch_expired(&self, db: u32, key: &[u8]) {
        if let Some(watched) = self.by_key().find(db, key) {
            for watcher in &mut watched.watchers {
                if !std::mem::take(&mut watcher.expired) {
                    watcher.watch.touch();
                }
            }
        }
    }

    /// The content of a database is replaced: a key was there like this, and is there like that. What is no change for
    /// clients touches nobody.
    pub fn replace(&self, db: u32, key: &[u8], before: Presence, after: Presence) {
        let mut by_key = self.by_key();
        let Some(watched) = by_key.find(db, key) else { return };
        for watcher in &mut watched.watchers {
            match (before, after) {
                (Presence::Missing, Presence::Missing) => {}
                (_, Presence::Missing) if watcher.expired => watcher.expired = false,
                (_, Presence::Expired) if watcher.expired => {}
                (Presence::Missing, Presence::Expired) => watcher.expired = true,
                _ => watcher.watch.touch(),
            }
        }
    }

    /// Touches every watch; how many there are.
    pub fn touch_all(&self) -> usize {
        let by_key = self.by_key();
        by_key.table.iter().flat_map(|watched| &watched.watchers).for_each(|watcher| watcher.watch.touch());
        by_key.table.iter().map(|watched| watched.watchers.len()).sum()
    }

    /// The watched keys of a database.
    pub fn keys(&self, db: u32) -> Vec<Arc<[u8]>> {
        let by_key = self.by_key();
        by_key.table.iter().filter(|watched| watched.db == db).map(|watched| Arc::clone(&watched.key)).collect()
    }

    fn by_key(&self) -> MutexGuard<'_, ByKey> {
        self.by_key.lock_ignoring_poison()
    }
}

impl ByKey {
    fn find(&mut self, db: u32, key: &[u8]) -> Option<&mut Watched> {
        self.table.find_mut(hash(db, key), |watched| watched.is(db, key))
    }

    /// Adds a watch on a key, unless it is there; returns the key if it is new to the watch.
    fn add(&mut self, db: u32, key: &[u8], watch: &Arc<Watch>, expired: bool) -> Option<Arc<[u8]>> {
        let watcher = Watcher { watch: Arc::clone(watch), expired };
        if let Some(watched) = self.find(db, key) {
            if watched.watchers.iter().any(|other| Arc::ptr_eq(&other.watch, watch)) {
                return None;
            }
            watched.watchers.push(watcher);
            return Some(Arc::clone(&watched.key));
        }
        let shared: Arc<[u8]> = key.into();
        let watched = Watched { db, key: Arc::clone(&shared), watchers: SmallVec::from_buf([watcher]) };
        self.table.insert_unique(hash(db, key), watched, |watched| hash(watched.db, &watched.key));
        Some(shared)
    }

    /// Removes a watch. Returns whether the key had expired before it was watched, and is still there.
    fn remove(&mut self, db: u32, key: &[u8], watch: &Arc<Watch>) -> bool {
        let Ok(mut place) = self.table.find_entry(hash(db, key), |watched| watched.is(db, key)) else { return false };
        let watchers = &mut place.get_mut().watchers;
        let Some(at) = watchers.iter().position(|other| Arc::ptr_eq(&other.watch, watch)) else { return false };
        let expired = watchers.swap_remove(at).expired;
        if watchers.is_empty() {
            place.remove();
        }
        expired
    }
}

impl Watched {
    #[inline]
    fn is(&self, db: u32, key: &[u8]) -> bool {
        self.db == db && *self.key == *key
    }
}

#[inline]
fn hash(db: u32, key: &[u8]) -> u64 {
    hash_of(key) ^ u64::from(db)
}
