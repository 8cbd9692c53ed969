//! WATCH: which connections watch which keys, and whether one of those keys was touched.

use crate::base::sync::MutexExt;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

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

type ByKey = HashMap<(u32, Box<[u8]>), Vec<Watcher>>;

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

    /// Adds a watch on a key; `expired` if the key is there, but has expired.
    pub fn add(&self, db: u32, key: &[u8], watch: &Arc<Watch>, expired: bool) {
        let mut by_key = self.by_key();
        by_key.entry((db, key.into())).or_default().push(Watcher { watch: Arc::clone(watch), expired });
        self.keys.store(by_key.len(), Ordering::Relaxed);
    }

    /// Whether a watch is on this key.
    pub fn has(&self, db: u32, key: &[u8], watch: &Arc<Watch>) -> bool {
        let by_key = self.by_key();
        by_key
            .get(&(db, Box::from(key)))
            .is_some_and(|watchers| watchers.iter().any(|other| Arc::ptr_eq(&other.watch, watch)))
    }

    /// Removes a watch. Returns whether the key had expired before it was watched, and is still there.
    pub fn remove(&self, db: u32, key: &[u8], watch: &Arc<Watch>) -> bool {
        let mut by_key = self.by_key();
        let row = (db, key.into());
        let mut expired = false;
        if let Some(watchers) = by_key.get_mut(&row) {
            watchers.retain(|other| {
                let is_it = Arc::ptr_eq(&other.watch, watch);
                expired |= is_it && other.expired;
                !is_it
            });
            if watchers.is_empty() {
                by_key.remove(&row);
            }
        }
        self.keys.store(by_key.len(), Ordering::Relaxed);
        expired
    }

    pub fn touch(&self, db: u32, key: &[u8]) {
        if let Some(watchers) = self.by_key().get(&(db, Box::from(key))) {
            watchers.iter().for_each(|watcher| watcher.watch.touch());
        }
    }

    /// A key is deleted because it has expired. That touches those who watch it since before it expired.
    pub fn touch_expired(&self, db: u32, key: &[u8]) {
        if let Some(watchers) = self.by_key().get_mut(&(db, Box::from(key))) {
            for watcher in watchers {
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
        let Some(watchers) = by_key.get_mut(&(db, Box::from(key))) else { return };
        for watcher in watchers {
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
        by_key.values().flatten().for_each(|watcher| watcher.watch.touch());
        by_key.values().map(Vec::len).sum()
    }

    /// The watched keys of a database.
    pub fn keys(&self, db: u32) -> Vec<Box<[u8]>> {
        self.by_key().keys().filter(|(of, _)| *of == db).map(|(_, key)| key.clone()).collect()
    }

    fn by_key(&self) -> MutexGuard<'_, ByKey> {
        self.by_key.lock_ignoring_poison()
    }
}
