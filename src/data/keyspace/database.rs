//! One database: its shards and their metadata.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::deadlines::Deadlines;
use super::store::Store;
use crate::base::sync::MutexExt;

/// One database. Most servers use only database 0, so the others are created on first use.
pub(super) struct Database {
    pub(super) store: Store,
    pub(super) shard_meta: Box<[ShardMeta]>,
    /// A bit for each shard that may have memory: all others are empty, and need not be visited. Only the holder of a
    /// shard's lock changes its bit.
    used: Box<[AtomicU64]>,
    /// Held to set a bit, and by a view of the used shards for its life, so that none is added meanwhile. Its holder waits for no lock.
    growth: Mutex<()>,
    /// Its maker has the locks that it wants. A view of everything takes all of them first.
    is_open: AtomicBool,
}

/// The bits of a word of [`Database::used`].
const WORD: usize = u64::BITS as usize;

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
        Self {
            store: Store::new(shards),
            shard_meta: (0..shards).map(|_| ShardMeta::default()).collect(),
            used: (0..shards.div_ceil(WORD)).map(|_| AtomicU64::new(0)).collect(),
            growth: Mutex::new(()),
            is_open: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Lets others enter.
    pub(super) fn open(&self) -> &Self {
        self.is_open.store(true, Ordering::Release);
        self
    }

    /// A shard gets an entry.
    #[inline]
    pub(super) fn note_use(&self, shard: usize) {
        let (word, bit) = (&self.used[shard / WORD], 1 << (shard % WORD));
        // Most have one already, and a word that is only read stays in the caches of all threads.
        if word.load(Ordering::Relaxed) & bit == 0 {
            let _growth = self.stop_growth();
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// No shard that is empty gets an entry as long as this is held.
    pub(super) fn stop_growth(&self) -> MutexGuard<'_, ()> {
        self.growth.lock_ignoring_poison()
    }

    /// All that a shard held was taken from it.
    pub(super) fn note_emptied(&self, shard: usize) {
        self.used[shard / WORD].fetch_and(!(1 << (shard % WORD)), Ordering::Relaxed);
    }

    /// The shards that may hold something, ascending.
    pub(super) fn used(&self) -> impl Iterator<Item = usize> {
        self.used_within(0..self.shard_meta.len())
    }

    /// Those of them within a range.
    pub(super) fn used_within(&self, range: Range<usize>) -> impl Iterator<Item = usize> + Clone {
        let Range { start, end } = range;
        let words = self.used.iter().enumerate().skip(start / WORD);
        let shards = words.flat_map(|(at, word)| {
            let mut left = word.load(Ordering::Relaxed);
            std::iter::from_fn(move || {
                let shard = (left != 0).then(|| at * WORD + left.trailing_zeros() as usize);
                left &= left.wrapping_sub(1);
                shard
            })
        });
        shards.skip_while(move |shard| *shard < start).take_while(move |shard| *shard < end)
    }

    /// The metadata of these shards.
    pub(super) fn used_meta(&self) -> impl Iterator<Item = &ShardMeta> {
        self.used().map(|shard| &self.shard_meta[shard])
    }
}
