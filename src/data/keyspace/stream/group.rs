//! Consumer groups: deliveries and pending entries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::StreamId;
use crate::base::clock::Millis;

/// The memory of a pending entry in bytes: in the group and in its consumer.
const PENDING: usize = 2 * size_of::<StreamId>() + size_of::<Pending>() + 16;

/// The memory of a consumer in bytes, without its name.
const CONSUMER: usize = size_of::<Arc<[u8]>>() + size_of::<Consumer>() + 32;

#[derive(Clone, Default)]
pub struct Group {
    last: StreamId,
    read: Option<i64>,
    pending: BTreeMap<StreamId, Pending>,
    consumers: BTreeMap<Arc<[u8]>, Consumer>,
    /// Bytes of all consumer names.
    name_bytes: usize,
}

/// An entry that was delivered but not acknowledged.
#[derive(Clone)]
pub struct Pending {
    /// The consumer of the last delivery.
    pub consumer: Arc<[u8]>,
    /// The time of the last delivery.
    pub time: Millis,
    /// The number of deliveries.
    pub count: u64,
}

#[derive(Clone)]
pub struct Consumer {
    /// The time of its last request.
    pub seen: Millis,
    /// The time of the last delivery to it, if there was one.
    pub active: Option<Millis>,
    pending: BTreeSet<StreamId>,
}

impl Consumer {
    /// The pending entries of this consumer.
    pub fn pending(&self) -> &BTreeSet<StreamId> {
        &self.pending
    }
}

impl Group {
    pub fn new(last: StreamId, read: Option<i64>) -> Self {
        Self { last, read, ..Self::default() }
    }

    /// The id of the last delivered entry.
    pub fn last(&self) -> StreamId {
        self.last
    }

    /// The number of entries read, if it is known.
    pub fn read(&self) -> Option<i64> {
        self.read
    }

    pub fn set_last(&mut self, last: StreamId) {
        self.last = last;
    }

    pub fn set_read(&mut self, read: Option<i64>) {
        self.read = read;
    }

    /// The pending entries by id.
    pub fn pending(&self) -> &BTreeMap<StreamId, Pending> {
        &self.pending
    }

    pub fn pending_mut(&mut self, id: StreamId) -> Option<&mut Pending> {
        self.pending.get_mut(&id)
    }

    /// The consumers by name.
    pub fn consumers(&self) -> impl ExactSizeIterator<Item = (&[u8], &Consumer)> {
        self.consumers.iter().map(|(name, consumer)| (&**name, consumer))
    }

    pub fn consumer(&self, name: &[u8]) -> Option<&Consumer> {
        self.consumers.get(name)
    }

    pub fn consumer_mut(&mut self, name: &[u8]) -> Option<&mut Consumer> {
        self.consumers.get_mut(name)
    }

    /// Adds a consumer. Returns `false` if the name exists.
    pub fn add_consumer(&mut self, name: &[u8], now: Millis) -> bool {
        if self.consumers.contains_key(name) {
            return false;
        }
        self.name_bytes += name.len();
        self.consumers.insert(name.into(), Consumer { seen: now, active: None, pending: BTreeSet::new() });
        true
    }

    /// Removes a consumer with its pending entries. Returns how many those were.
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let consumer = self.consumers.remove(name)?;
        self.name_bytes -= name.len();
        for id in &consumer.pending {
            self.pending.remove(id);
        }
        Some(consumer.pending.len())
    }

    /// Makes an entry pending for a consumer, which must exist.
    pub fn deliver(&mut self, id: StreamId, to: &[u8], time: Millis, count: u64) {
        let Some((name, _)) = self.consumers.get_key_value(to) else { return };
        let pending = Pending { consumer: name.clone(), time, count };
        if let Some(before) = self.pending.insert(id, pending)
            && *before.consumer != *to
            && let Some(consumer) = self.consumers.get_mut(&before.consumer)
        {
            consumer.pending.remove(&id);
        }
        if let Some(consumer) = self.consumers.get_mut(to) {
            consumer.pending.insert(id);
        }
    }

    /// Acknowledges an entry. Returns whether it was pending.
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        let Some(pending) = self.pending.remove(&id) else { return false };
        if let Some(consumer) = self.consumers.get_mut(&pending.consumer) {
            consumer.pending.remove(&id);
        }
        true
    }

    /// The memory outside itself, in bytes.
    pub fn size(&self) -> usize {
        self.name_bytes + self.consumers.len() * CONSUMER + self.pending.len() * PENDING
    }
}
