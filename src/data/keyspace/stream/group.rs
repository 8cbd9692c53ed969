//! A group of consumers: what was delivered to whom, and not yet acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::StreamId;
use crate::base::clock::Millis;

/// Bytes of memory that an entry takes which waits to be acknowledged: in the group, and with its consumer.
const PENDING: usize = 2 * size_of::<StreamId>() + size_of::<Pending>() + 16;

/// Bytes of memory that a consumer takes beside its name.
const CONSUMER: usize = size_of::<Arc<[u8]>>() + size_of::<Consumer>() + 32;

#[derive(Clone, Default)]
pub struct Group {
    last: StreamId,
    read: Option<i64>,
    pending: BTreeMap<StreamId, Pending>,
    consumers: BTreeMap<Arc<[u8]>, Consumer>,
    /// Bytes of all the names.
    name_bytes: usize,
}

/// An entry that was delivered, and not yet acknowledged.
#[derive(Clone)]
pub struct Pending {
    /// To whom.
    pub consumer: Arc<[u8]>,
    /// When, for the last time.
    pub time: Millis,
    /// How often.
    pub count: u64,
}

#[derive(Clone)]
pub struct Consumer {
    /// When it last asked for something,
    pub seen: Millis,
    /// and when it last got something, if ever.
    pub active: Option<Millis>,
    pending: BTreeSet<StreamId>,
}

impl Consumer {
    /// The entries that were delivered to it, and not yet acknowledged.
    pub fn pending(&self) -> &BTreeSet<StreamId> {
        &self.pending
    }
}

impl Group {
    pub fn new(last: StreamId, read: Option<i64>) -> Self {
        Self { last, read, ..Self::default() }
    }

    /// The last entry that was delivered.
    pub fn last(&self) -> StreamId {
        self.last
    }

    /// How many entries were read, as far as that is known.
    pub fn read(&self) -> Option<i64> {
        self.read
    }

    pub fn set_last(&mut self, last: StreamId) {
        self.last = last;
    }

    pub fn set_read(&mut self, read: Option<i64>) {
        self.read = read;
    }

    /// What is pending, in the order of the ids.
    pub fn pending(&self) -> &BTreeMap<StreamId, Pending> {
        &self.pending
    }

    pub fn pending_mut(&mut self, id: StreamId) -> Option<&mut Pending> {
        self.pending.get_mut(&id)
    }

    /// The consumers with their names, in the order of these.
    pub fn consumers(&self) -> impl ExactSizeIterator<Item = (&[u8], &Consumer)> {
        self.consumers.iter().map(|(name, consumer)| (&**name, consumer))
    }

    pub fn consumer(&self, name: &[u8]) -> Option<&Consumer> {
        self.consumers.get(name)
    }

    pub fn consumer_mut(&mut self, name: &[u8]) -> Option<&mut Consumer> {
        self.consumers.get_mut(name)
    }

    /// Whether there was no consumer of this name.
    pub fn add_consumer(&mut self, name: &[u8], now: Millis) -> bool {
        if self.consumers.contains_key(name) {
            return false;
        }
        self.name_bytes += name.len();
        self.consumers.insert(name.into(), Consumer { seen: now, active: None, pending: BTreeSet::new() });
        true
    }

    /// Removes a consumer with all that was delivered to it. How much that was.
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let consumer = self.consumers.remove(name)?;
        self.name_bytes -= name.len();
        for id in &consumer.pending {
            self.pending.remove(id);
        }
        Some(consumer.pending.len())
    }

    /// An entry belongs to a consumer, which there must be, from now on.
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

    /// An entry need not be acknowledged any longer. Whether it had to be.
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        let Some(pending) = self.pending.remove(&id) else { return false };
        if let Some(consumer) = self.consumers.get_mut(&pending.consumer) {
            consumer.pending.remove(&id);
        }
        true
    }

    /// Bytes of memory that it takes beside its own size.
    pub fn size(&self) -> usize {
        self.name_bytes + self.consumers.len() * CONSUMER + self.pending.len() * PENDING
    }
}
