//! Streams: a log of entries, and consumer groups.

mod group;
mod log;
mod node;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use group::{Group, Pending};
pub use log::{Entry, Log, NodeLimits, Trim};
pub use node::Node;

use crate::protocol::write_integer;

/// The id of an entry: a time in milliseconds and a sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId {
    pub ms: u64,
    pub seq: u64,
}

impl StreamId {
    pub const LEAST: Self = Self { ms: 0, seq: 0 };
    pub const GREATEST: Self = Self { ms: u64::MAX, seq: u64::MAX };

    /// The next id; `None` for the greatest.
    pub fn next(self) -> Option<Self> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => Some(Self { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// The previous id; `None` for the least.
    pub fn previous(self) -> Option<Self> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => Some(Self { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }

    /// The textual form, as in replies and requests.
    pub fn to_text(self) -> Vec<u8> {
        let mut text = Vec::with_capacity(24);
        write_unsigned(&mut text, self.ms);
        text.push(b'-');
        write_unsigned(&mut text, self.seq);
        text
    }

    /// The binary form, as in serialized values.
    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.ms) << 64 | u128::from(self.seq)).to_be_bytes()
    }

    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let id = u128::from_be_bytes(bytes);
        Self { ms: (id >> 64) as u64, seq: id as u64 }
    }
}

fn write_unsigned(out: &mut Vec<u8>, value: u64) {
    match i64::try_from(value) {
        Ok(value) => write_integer(out, value),
        Err(_) => out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
    }
}

/// What becomes of the references that groups have to an entry that is to be removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum References {
    /// They stay (`KEEPREF`).
    Keep,
    /// They go with it (`DELREF`).
    Delete,
    /// The entry stays as long as there are any (`ACKED`).
    Respect,
}

#[derive(Clone, Default)]
pub struct Stream {
    log: Log,
    groups: BTreeMap<Arc<[u8]>, Group>,
    /// The memory of the groups in bytes.
    group_bytes: usize,
}

/// The memory of a group in the map of groups, in bytes, without its name and content.
const GROUP: usize = size_of::<Group>() + size_of::<Arc<[u8]>>() + 16;

impl Stream {
    /// A stream with this log and without groups.
    pub fn of(log: Log) -> Self {
        Self { log, ..Self::default() }
    }

    pub fn log(&self) -> &Log {
        &self.log
    }

    pub fn log_mut(&mut self) -> &mut Log {
        &mut self.log
    }

    /// The groups by name.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = (&[u8], &Group)> {
        self.groups.iter().map(|(name, group)| (&**name, group))
    }

    pub fn group(&self, name: &[u8]) -> Option<&Group> {
        self.groups.get(name)
    }

    /// Adds a group. Returns `false` if the name exists.
    pub fn add_group(&mut self, name: &[u8], group: Group) -> bool {
        if self.groups.contains_key(name) {
            return false;
        }
        self.group_bytes += GROUP + name.len() + group.size();
        self.groups.insert(name.into(), group);
        true
    }

    /// Removes a group. Returns whether it existed.
    pub fn remove_group(&mut self, name: &[u8]) -> bool {
        let removed = self.groups.remove(name);
        if let Some(group) = &removed {
            self.group_bytes -= GROUP + name.len() + group.size();
        }
        removed.is_some()
    }

    /// Changes a group, if it exists; `change` can read the log.
    pub fn change_group<R>(&mut self, name: &[u8], change: impl FnOnce(&mut Group, &Log) -> R) -> Option<R> {
        let group = self.groups.get_mut(name)?;
        let before = group.size();
        let result = change(group, &self.log);
        self.group_bytes = self.group_bytes + group.size() - before;
        Some(result)
    }

    /// Whether a group has yet to read an entry, or to acknowledge it.
    pub fn is_referenced(&self, id: StreamId) -> bool {
        self.groups.values().any(|group| group.last() < id || group.pending().contains_key(&id))
    }

    /// Removes an entry from the pending ones of all groups.
    pub fn forget(&mut self, id: StreamId) {
        let Self { groups, group_bytes, .. } = self;
        forget(groups, group_bytes, id);
    }

    /// As [`Log::trim`], with what becomes of entries that groups refer to. Returns how many are removed.
    pub fn trim(&mut self, trim: Trim, roughly: bool, limit: u64, references: References) -> u64 {
        let Self { log, groups, group_bytes } = self;
        match references {
            References::Keep => log.trim(trim, roughly, limit, None),
            References::Delete => {
                let mut remove = |id| {
                    forget(groups, group_bytes, id);
                    true
                };
                log.trim(trim, roughly, limit, Some(&mut remove))
            }
            References::Respect => {
                let least = groups.values().map(Group::last).min().unwrap_or(StreamId::GREATEST);
                let mut is_free = |id| id <= least && !groups.values().any(|group| group.pending().contains_key(&id));
                log.trim(trim, roughly, limit, Some(&mut is_free))
            }
        }
    }

    /// The memory in bytes.
    pub fn size(&self) -> usize {
        size_of::<Self>() + self.log.size() + self.group_bytes
    }

    /// Whether a clone, which shares the nodes, is made in much less time than the serialized form.
    pub fn shares_much(&self) -> bool {
        const MUCH: usize = 64 << 10;
        self.log.size() >= MUCH && self.group_bytes <= self.log.size() / 8
    }
}

fn forget(groups: &mut BTreeMap<Arc<[u8]>, Group>, group_bytes: &mut usize, id: StreamId) {
    for group in groups.values_mut() {
        let before = group.size();
        group.acknowledge(id);
        *group_bytes = *group_bytes + group.size() - before;
    }
}

#[cfg(test)]
mod tests;
