//! The memory of all keys as one number, for `maxmemory`.

use std::sync::atomic::{AtomicI64, Ordering};

/// A sum over all shards. It is kept only while memory is limited, because all threads write it.
#[derive(Default)]
pub(super) struct MemorySum(AtomicI64);

impl MemorySum {
    pub fn add(&self, change: i64) {
        self.0.fetch_add(change, Ordering::Relaxed);
    }

    pub fn set(&self, bytes: usize) -> usize {
        self.0.store(bytes as i64, Ordering::Relaxed);
        bytes
    }

    #[inline]
    pub fn bytes(&self) -> usize {
        usize::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(0)
    }
}
