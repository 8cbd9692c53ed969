//! Copies of all data at one instant.

use std::sync::Arc;

use super::View;
use crate::data::keyspace::point_in_time::{EntryWriter, Part, PointInTime};

impl View<'_> {
    /// Begins a copy of all that is there at this instant. The view is of everything. With `keeps_names`, what is copied can be
    /// sorted.
    pub fn begin_copy(&mut self, writer: Box<dyn EntryWriter>, keeps_names: bool) -> PointInTime {
        let mut copy = PointInTime::new(writer, keeps_names, self.horizon, Arc::clone(&self.keyspace.databases));
        for held in self.locked.chunk_by_mut(|one, other| one.home == other.home) {
            let db = held.first().map_or(0, |locked| self.keyspace.database_at(locked.home));
            held.iter_mut().for_each(|locked| copy.begin_shard(db, &mut locked.shard));
        }
        copy
    }

    /// Makes a copy that this view has begun, before anything else changes.
    pub fn finish_copy(&mut self, copy: PointInTime) -> Vec<Part> {
        copy.finish_held(self.locked.iter_mut().map(|locked| &mut locked.shard))
    }

    /// The memory of all entries in bytes.
    pub fn used_bytes(&self) -> u64 {
        self.keyspace.used_bytes() as u64
    }

    /// How many keys of all databases are hashes with fields that have a deadline.
    pub fn keys_with_field_deadlines(&self) -> u64 {
        self.keyspace.sizes().into_iter().map(|(_, [.., with_field_deadlines])| with_field_deadlines).sum()
    }
}
