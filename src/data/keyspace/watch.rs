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

type ByKey = HashMap<(u32, Box<[u8]>), Vec<Arc<Watch>>>;

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

    pub fn add(&self, db: u32, key: &[u8], watch: &Arc<Watch>) {
        let mut by_key = self.by_key();
        by_key.entry((db, key.into())).or_default().push(Arc::clone(watch));
        self.keys.store(by_key.len(), Ordering::Relaxed);
    }

    pub fn remove(&self, db: u32, key: &[u8], watch: &Arc<Watch>) {
        let mut by_key = self.by_key();
        let row = (db, key.into());
        if let Some(watches) = by_key.get_mut(&row) {
            watches.retain(|other| !Arc::ptr_eq(other, watch));
            if watches.is_empty() {
                by_key.remove(&row);
            }
        }
        self.keys.store(by_key.len(), Ordering::Relaxed);
    }

    pub fn touch(&self, db: u32, key: &[u8]) {
        if let Some(watches) = self.by_key().get(&(db, Box::from(key))) {
            watches.iter().for_each(|watch| watch.touch());
        }
    }

    /// The watched keys of a database.
    pub fn keys(&self, db: u32) -> Vec<Box<[u8]>> {
        self.by_key().keys().filter(|(of, _)| *of == db).map(|(_, key)| key.clone()).collect()
    }

    fn by_key(&self) -> MutexGuard<'_, ByKey> {
        self.by_key.lock_ignoring_poison()
    }
}
