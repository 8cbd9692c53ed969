//! One database: its shards and their metadata.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::deadlines::Deadlines;
use super::store::Store;
use crate::base::sync::MutexExt;

/// One database. Most servers use only database 0, so the others are created on first use.
pub(super) struct Database {
    pub(super) store: Store,
    pub(super) shard_meta: Box<[ShardMeta]>,
}

/// The metadata of a shard. Only the holder of the shard's lock changes it.
#[derive(Default)]
pub(super) struct ShardMeta {
    pub(super) deadlines: Mutex<Deadlines>,
    /// Keys, including expired ones that are not deleted yet.
    pub(super) keys: AtomicI64,
    /// Keys with a deadline.
    pub(super) volatile: AtomicI64,
    /// Keys of hashes with fields that have a deadline.
    pub(super) with_field_deadlines: AtomicI64,
    /// Bytes of memory of the entries, with their slots.
    pub(super) bytes: AtomicI64,
}

impl ShardMeta {
    pub(super) fn deadlines(&self) -> MutexGuard<'_, Deadlines> {
        self.deadlines.lock_ignoring_poison()
    }

    /// Whether anything has a deadline, without locking the deadlines.
    pub(super) fn has_deadlines(&self) -> bool {
        self.volatile.load(Ordering::Relaxed) != 0 || self.with_field_deadlines.load(Ordering::Relaxed) != 0
    }

    /// The holder of the shard's lock is the only writer, so no atomic read-modify-write is needed.
    pub(super) fn count_keys(&self, change: i64) {
        self.keys.store(self.keys.load(Ordering::Relaxed) + change, Ordering::Relaxed);
    }

    /// As [`count_keys`](Self::count_keys).
    pub(super) fn count_bytes(&self, change: i64) {
        self.bytes.store(self.bytes.load(Ordering::Relaxed) + change, Ordering::Relaxed);
    }
}

impl Database {
    pub(super) fn new(shards: usize) -> Self {
        Self { store: Store::new(shards), shard_meta: (0..shards).map(|_| ShardMeta::default()).collect() }
    }
}
