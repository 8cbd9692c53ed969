//! A stream: a log of entries, and the groups of consumers that share out reading it.

mod group;
mod log;
mod node;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use group::{Group, Pending};
pub use log::{Entry, Log, NodeLimits, Trim};
pub use node::Node;

use crate::protocol::write_integer;

/// The name of an entry: a time in milliseconds, and which of that millisecond's entries it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId {
    pub ms: u64,
    pub seq: u64,
}

impl StreamId {
    pub const LEAST: Self = Self { ms: 0, seq: 0 };
    pub const GREATEST: Self = Self { ms: u64::MAX, seq: u64::MAX };

    /// The one after it, unless it is the last.
    pub fn next(self) -> Option<Self> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => Some(Self { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// The one before it, unless it is the first.
    pub fn previous(self) -> Option<Self> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => Some(Self { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }

    /// As it stands in replies and requests.
    pub fn to_text(self) -> Vec<u8> {
        let mut text = Vec::with_capacity(24);
        write_unsigned(&mut text, self.ms);
        text.push(b'-');
        write_unsigned(&mut text, self.seq);
        text
    }

    /// As it stands in a serialized value.
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

#[derive(Clone, Default)]
pub struct Stream {
    log: Log,
    groups: BTreeMap<Arc<[u8]>, Group>,
    /// Bytes of memory that the groups take.
    group_bytes: usize,
}

/// Bytes of memory that a group takes beside its name and what is in it: its place among the groups.
const GROUP: usize = size_of::<Group>() + size_of::<Arc<[u8]>>() + 16;

impl Stream {
    /// A stream of these entries, without groups.
    pub fn of(log: Log) -> Self {
        Self { log, ..Self::default() }
    }

    pub fn log(&self) -> &Log {
        &self.log
    }

    pub fn log_mut(&mut self) -> &mut Log {
        &mut self.log
    }

    /// The groups with their names, in the order of these.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = (&[u8], &Group)> {
        self.groups.iter().map(|(name, group)| (&**name, group))
    }

    pub fn group(&self, name: &[u8]) -> Option<&Group> {
        self.groups.get(name)
    }

    /// Adds a group. Whether there was none of this name.
    pub fn add_group(&mut self, name: &[u8], group: Group) -> bool {
        if self.groups.contains_key(name) {
            return false;
        }
        self.group_bytes += GROUP + name.len() + group.size();
        self.groups.insert(name.into(), group);
        true
    }

    /// Whether there was such a group.
    pub fn remove_group(&mut self, name: &[u8]) -> bool {
        let removed = self.groups.remove(name);
        if let Some(group) = &removed {
            self.group_bytes -= GROUP + name.len() + group.size();
        }
        removed.is_some()
    }

    /// Changes a group, if there is such a one, with the entries in view.
    pub fn change_group<R>(&mut self, name: &[u8], change: impl FnOnce(&mut Group, &Log) -> R) -> Option<R> {
        let group = self.groups.get_mut(name)?;
        let before = group.size();
        let result = change(group, &self.log);
        self.group_bytes = self.group_bytes + group.size() - before;
        Some(result)
    }

    /// Bytes of memory that it takes.
    pub fn size(&self) -> usize {
        size_of::<Self>() + self.log.size() + self.group_bytes
    }
}

#[cfg(test)]
mod tests;
