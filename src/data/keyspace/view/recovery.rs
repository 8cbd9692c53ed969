//! What a command has left behind that panicked: its view ended before it told anybody what it had done.

use std::sync::atomic::Ordering;

use super::View;
use crate::data::keyspace::notifications::Notification;

/// What was found, and put right.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// How many bytes of memory the count was off.
    pub miscounted: i64,
    /// How many watches count as touched now.
    pub watches: usize,
}

impl View<'_> {
    /// Assumes that any key may have changed: touches every watch, has every key forgotten that clients cache, tries every
    /// blocked client again at the end of this view, and counts the memory anew. For a view of everything.
    pub fn recover(&mut self) -> Recovery {
        let mut bytes = 0;
        for db in self.held_databases() {
            bytes += self.entries_of(db).map(|entry| entry.footprint() as i64).sum::<i64>();
            self.signal_all(db, false);
        }
        self.effects().notifications.push(Notification::Flushed);
        let counted = || self.keyspace.shard_meta().map(|meta| &meta.bytes);
        let miscounted = counted().map(|count| count.load(Ordering::Relaxed)).sum::<i64>() - bytes;
        if let Some(count) = counted().next() {
            // Only the sum is ever read.
            count.fetch_sub(miscounted, Ordering::Relaxed);
        }
        self.keyspace.sum_memory();
        Recovery { miscounted, watches: self.keyspace.watchers.touch_all() }
    }
}
