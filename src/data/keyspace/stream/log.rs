//! The log of a stream: its entries, in nodes.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::node::{Fields, Node};
use super::{Group, StreamId};
use crate::base::clock::Millis;
use crate::base::profile::{Profile, Since, Version};

/// The releases in which an entry that was deleted behind a group's last one makes its lag unknown.
const HOLES_AHEAD: Since = Since::each(Version(7, 4, 2), Version(9, 0, 0));

/// The releases that know the lag of a group whose last entry, and all deleted ones, lie before the first entry.
const LAG_OF_TRIMMED: Since = Since::redis(7, 4, 2);

/// The releases that do not trust the count of a group whose last entry lies before the first one.
const TRIMMED_IS_UNKNOWN: Since = Since::each(Version(7, 4, 4), Version(9, 0, 0));

/// The size limits of a node; 0 is no limit.
#[derive(Clone, Copy, Debug)]
pub struct NodeLimits {
    pub bytes: usize,
    pub entries: usize,
}

/// The size limit of an entry's fields, and of a node whatever the setting, in bytes.
const MOST_BYTES: usize = 1 << 30;

/// The memory of a node in the map of nodes, in bytes.
pub(super) const NODE: usize =
    size_of::<Arc<Node>>() + 2 * size_of::<usize>() + size_of::<Node>() + size_of::<StreamId>() + 8;

/// What trimming keeps.
#[derive(Clone, Copy, Debug)]
pub enum Trim {
    /// The newest entries, so many at most.
    MaxLen(u64),
    /// Entries from this id on.
    MinId(StreamId),
}

/// Says whether trimming may remove an entry.
pub type MayRemove<'r> = &'r mut dyn FnMut(StreamId) -> bool;

/// An entry that is not deleted.
#[derive(Clone, Copy)]
pub struct Entry<'l> {
    pub id: StreamId,
    pub fields: Fields<'l>,
}

#[derive(Clone, Default)]
pub struct Log {
    /// Nodes by the id of their first entry, which may be deleted. Copies, such as a snapshot's, share them: a change copies one.
    nodes: BTreeMap<StreamId, Arc<Node>>,
    len: u64,
    last: StreamId,
    first: StreamId,
    /// The greatest id that was deleted.
    max_deleted: StreamId,
    /// The number of entries ever added.
    added: u64,
    bytes: usize,
}

/// A node to be changed. `bytes` is the memory of its log.
fn make_mut<'n>(node: &'n mut Arc<Node>, bytes: &mut usize) -> &'n mut Node {
    // If a copy of the log has the node, too, it is cloned, and has no spare capacity then.
    let before = node.size();
    let node = Arc::make_mut(node);
    *bytes = *bytes + node.size() - before;
    node
}

impl Log {
    /// A log of nodes that were read from a payload. `None` if an id occurs twice.
    pub fn of(nodes: impl Iterator<Item = (StreamId, Node)>) -> Option<Self> {
        let mut log = Self::default();
        for (id, node) in nodes {
            log.len += node.live() as u64;
            log.bytes += NODE + node.size();
            if log.nodes.insert(id, Arc::new(node)).is_some() {
                return None;
            }
        }
        Some(log)
    }

    /// Sets the counters that were read with the nodes.
    pub fn set_counters(&mut self, last: StreamId, first: StreamId, max_deleted: StreamId, added: u64) {
        (self.last, self.first, self.max_deleted, self.added) = (last, first, max_deleted, added);
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The greatest id ever added.
    pub fn last(&self) -> StreamId {
        self.last
    }

    /// The id of the first entry; 0-0 if there is none.
    pub fn first(&self) -> StreamId {
        self.first
    }

    pub fn max_deleted(&self) -> StreamId {
        self.max_deleted
    }

    pub fn added(&self) -> u64 {
        self.added
    }

    /// The nodes by id.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = (StreamId, &Node)> {
        self.nodes.iter().map(|(id, node)| (*id, &**node))
    }

    /// The memory outside itself, in bytes.
    pub fn size(&self) -> usize {
        self.bytes
    }

    /// The next automatic id; `None` if the greatest id is taken.
    pub fn next_id(&self, now: Millis) -> Option<StreamId> {
        let ms = u64::try_from(now).unwrap_or(0);
        if ms > self.last.ms { Some(StreamId { ms, seq: 0 }) } else { self.last.next() }
    }

    /// Whether an entry with these names and values is within the size limit.
    pub fn has_room_for<'w>(words: impl Iterator<Item = &'w [u8]>) -> bool {
        words.map(<[u8]>::len).sum::<usize>() <= MOST_BYTES
    }

    /// Appends an entry of alternating names and values. Its id must be greater than the last.
    pub fn append<'w>(
        &mut self,
        id: StreamId,
        words: impl ExactSizeIterator<Item = &'w [u8]> + Clone,
        limits: NodeLimits,
    ) {
        let more: usize = words.clone().map(<[u8]>::len).sum();
        let most = if limits.bytes == 0 { MOST_BYTES } else { limits.bytes.min(MOST_BYTES) };
        if let Some(mut entry) = self.nodes.last_entry() {
            let own = *entry.key();
            let node = make_mut(entry.get_mut(), &mut self.bytes);
            let before = node.size();
            let full = node.packed_size() + more >= most || limits.entries > 0 && node.entries() >= limits.entries;
            if full {
                node.shrink();
            } else {
                node.append(own, id, words.clone());
            }
            self.bytes = self.bytes + node.size() - before;
            if !full {
                return self.count(id);
            }
        }
        let mut node = Node::for_entry(words.clone());
        node.append(id, id, words);
        self.bytes += NODE + node.size();
        self.nodes.insert(id, Arc::new(node));
        self.count(id);
    }

    fn count(&mut self, id: StreamId) {
        self.len += 1;
        self.added = self.added.wrapping_add(1);
        self.last = id;
        if self.len == 1 {
            self.first = id;
        }
    }

    /// The entries between two ids, both included.
    pub fn range(&self, from: StreamId, to: StreamId) -> impl Iterator<Item = Entry<'_>> {
        let start = self.node_of(from).unwrap_or(from);
        let nodes = self.nodes.range((Bound::Included(start), Bound::Included(to.max(start))));
        let entries = nodes.flat_map(|(own, node)| node.iter(*own));
        entries
            .filter(|entry| !entry.deleted)
            .skip_while(move |entry| entry.id < from)
            .take_while(move |entry| entry.id <= to)
            .map(|entry| Entry { id: entry.id, fields: entry.fields })
    }

    /// Like [`range`](Self::range), in reverse.
    pub fn range_back(&self, from: StreamId, to: StreamId) -> impl Iterator<Item = Entry<'_>> {
        let nodes = self.nodes.range(..=to).rev();
        let entries = nodes.flat_map(|(own, node)| node.iter_back(*own));
        entries
            .filter(|entry| !entry.deleted)
            .skip_while(move |entry| entry.id > to)
            .take_while(move |entry| entry.id >= from)
            .map(|entry| Entry { id: entry.id, fields: entry.fields })
    }

    pub fn get(&self, id: StreamId) -> Option<Entry<'_>> {
        self.range(id, id).next()
    }

    /// The first entry.
    pub fn front(&self) -> Option<Entry<'_>> {
        self.range(StreamId::LEAST, StreamId::GREATEST).next()
    }

    /// The last entry.
    pub fn back(&self) -> Option<Entry<'_>> {
        self.range_back(StreamId::LEAST, StreamId::GREATEST).next()
    }

    /// The id of the last entry.
    pub fn last_left(&self) -> Option<StreamId> {
        self.back().map(|entry| entry.id)
    }

    /// The only node that can contain this id.
    fn node_of(&self, id: StreamId) -> Option<StreamId> {
        self.nodes.range(..=id).next_back().map(|(own, _)| *own)
    }

    /// Deletes an entry. Returns whether it existed.
    pub fn delete(&mut self, id: StreamId) -> bool {
        let Some((&own, node)) = self.nodes.range_mut(..=id).next_back() else { return false };
        let node = make_mut(node, &mut self.bytes);
        if !node.delete(own, id) {
            return false;
        }
        if node.live() == 0 {
            self.drop_node(own);
        }
        self.len -= 1;
        self.max_deleted = self.max_deleted.max(id);
        if self.len == 0 || id == self.first {
            self.find_first();
        }
        true
    }

    fn find_first(&mut self) {
        self.first = self.front().map(|entry| entry.id).unwrap_or_default();
    }

    fn drop_node(&mut self, own: StreamId) {
        if let Some(node) = self.nodes.remove(&own) {
            self.bytes -= NODE + node.size();
        }
    }

    /// Removes entries from the front: only whole nodes if `roughly`, and at most `limit` entries unless that is 0.
    /// With `may_remove`, only entries that it admits, and each for itself: no node at once. Returns how many.
    pub fn trim(&mut self, trim: Trim, roughly: bool, limit: u64, mut may_remove: Option<MayRemove<'_>>) -> u64 {
        let (mut trimmed, mut from) = (0, StreamId::LEAST);
        while let Some((&own, node)) = self.nodes.range_mut(from..).next() {
            let entries = node.live() as u64;
            if matches!(trim, Trim::MaxLen(most) if self.len <= most) || limit > 0 && trimmed + entries > limit {
                break;
            }
            let whole = match trim {
                Trim::MaxLen(most) => self.len - entries >= most,
                Trim::MinId(least) => node.iter_back(own).next().is_none_or(|last| last.id < least),
            };
            if whole && may_remove.is_none() {
                self.drop_node(own);
                self.len -= entries;
                trimmed += entries;
                continue;
            }
            if roughly {
                break;
            }
            let mut left = self.len;
            let deleted = make_mut(node, &mut self.bytes).delete_while(own, |id, deleted| {
                let wanted = match trim {
                    Trim::MaxLen(most) => left > most,
                    Trim::MinId(least) => id < least,
                };
                let removed = wanted && !deleted && may_remove.as_mut().is_none_or(|may_remove| may_remove(id));
                left -= u64::from(removed);
                wanted.then_some(removed)
            }) as u64;
            if whole && deleted == entries {
                self.drop_node(own);
            }
            self.len -= deleted;
            trimmed += deleted;
            let Some(next) = own.next().filter(|_| whole) else { break };
            from = next;
        }
        if trimmed > 0 {
            self.find_first();
        }
        trimmed
    }

    /// Sets the counters, as XSETID does.
    pub fn set_last(&mut self, last: StreamId, added: Option<u64>, max_deleted: Option<StreamId>) {
        self.last = last;
        self.added = added.unwrap_or(self.added);
        self.max_deleted = max_deleted.unwrap_or(self.max_deleted);
    }

    /// Whether an entry may have been deleted at this id or a later one.
    pub fn has_holes_from(&self, id: StreamId, profile: &Profile) -> bool {
        let counts = profile.has(HOLES_AHEAD) || self.max_deleted >= self.first;
        self.len > 0 && self.max_deleted != StreamId::LEAST && counts && id <= self.max_deleted
    }

    /// The number of entries ever added up to this id, if it can be derived.
    pub fn added_up_to(&self, id: StreamId) -> Option<u64> {
        if self.added == 0 {
            return Some(0);
        }
        if self.len == 0 && id <= self.last || id == self.last {
            return Some(self.added);
        }
        if id > self.last {
            return None;
        }
        if self.max_deleted == StreamId::LEAST || self.max_deleted < self.first {
            let before = self.added.wrapping_sub(self.len);
            if id < self.first {
                return Some(before);
            }
            if id == self.first {
                return Some(before.wrapping_add(1));
            }
        }
        None
    }

    /// The number of entries that a group has not read, if it can be derived.
    pub fn lag(&self, group: &Group, profile: &Profile) -> Option<i64> {
        if self.added == 0 {
            return Some(0);
        }
        let last = group.last();
        if profile.has(LAG_OF_TRIMMED) {
            if self.len == 0 {
                return Some(0);
            }
            if last < self.first && self.max_deleted < self.first {
                return Some(self.len as i64);
            }
        }
        let known = group.read().filter(|_| !self.has_holes_from(last, profile));
        let read = known.or_else(|| self.added_before_holes(last, profile))?;
        Some((self.added as i64).wrapping_sub(read))
    }

    /// The number of entries that a group has read after it reads the entry at `id`, the next one, if it can be told.
    pub fn read_with(&self, group: &Group, id: StreamId, profile: &Profile) -> Option<i64> {
        let from = if profile.has(HOLES_AHEAD) { group.last() } else { id };
        let is_behind = profile.has(TRIMMED_IS_UNKNOWN) && group.last() < self.first;
        match group.read().filter(|_| !is_behind && !self.has_holes_from(from, profile)) {
            Some(read) => Some(read.wrapping_add(1)),
            None if self.added > 0 => self.added_before_holes(id, profile),
            None => group.read(),
        }
    }

    /// As [`added_up_to`](Self::added_up_to), where the release tells none if an entry behind this id was deleted.
    fn added_before_holes(&self, id: StreamId, profile: &Profile) -> Option<i64> {
        let has_holes = self.len > 0 && id != StreamId::LEAST && id < self.max_deleted;
        if has_holes && profile.has(HOLES_AHEAD) { None } else { self.added_up_to(id).map(|added| added as i64) }
    }

    /// The number of nodes of a radix tree with the nodes' ids as keys, which XINFO reports.
    pub fn tree_nodes(&self) -> usize {
        let keys: Vec<[u8; 16]> = self.nodes.keys().map(|id| id.to_bytes()).collect();
        if keys.is_empty() { 1 } else { tree_nodes(&keys, 0) }
    }
}

/// The radix tree nodes below a prefix of `depth` bytes: one for a shared prefix, one for a branch, and one for the end
/// of each key.
fn tree_nodes(keys: &[[u8; 16]], depth: usize) -> usize {
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return 0 };
    let shared = first[depth..].iter().zip(&last[depth..]).take_while(|(one, other)| one == other).count();
    let stem = usize::from(shared > 0) + 1;
    if keys.len() == 1 {
        return stem;
    }
    let parting = depth + shared;
    let branches = keys.chunk_by(|one, other| one[parting] == other[parting]);
    stem + branches.map(|branch| tree_nodes(branch, parting + 1)).sum::<usize>()
}
