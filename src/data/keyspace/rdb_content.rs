//! Conversion between values and their serialized form.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::Settings;
use super::entry::{Entry, ValueRef};
use super::hash::{Hash, HashLimits};
use super::list::{Chunk, End, List, ListLimits};
use super::set::{Integers, Set, SetLimits};
use super::sorted_set::{SortedSet, SortedSetLimits};
use super::stream::{Group, Log, Node as StreamNode, Stream, StreamId};
use super::usage::Usage;
use super::value::{Collection, Value};
use crate::base::clock::Millis;
use crate::base::profile::Profile;
use crate::data::listpack;
use crate::data::rdb::{self, Content, Field, Node};

impl Entry {
    /// The value in its serialized form.
    pub fn content(&self) -> Content<'_> {
        match self.value() {
            ValueRef::Set(set) => set.content(),
            ValueRef::List(list) => list.content(),
            ValueRef::Hash(hash) => hash.content(),
            ValueRef::SortedSet(set) => set.content(),
            ValueRef::Stream(stream) => Content::Stream(stream.content()),
            ValueRef::String(text) => Content::String(Cow::Borrowed(text)),
        }
    }

    /// An entry of a value that was read; `None` if no server could have written it.
    pub fn of_content(
        key: &[u8],
        content: Content<'_>,
        settings: &Settings,
        profile: &Profile,
        deadline: Option<Millis>,
        usage: Usage,
    ) -> Option<Self> {
        let value = match content {
            Content::String(bytes) => return Some(Self::string(key, &bytes, deadline, usage)),
            Content::Integers { .. } | Content::Set { .. } => {
                kept(Set::of_content(content, &settings.set_limits(profile)))
            }
            Content::Hash { .. } => kept(Hash::of_content(content, &settings.hash_limits(profile))),
            Content::SortedSet { .. } => kept(SortedSet::of_content(content, &settings.sorted_set_limits(profile))),
            Content::List(_) | Content::Elements(_) => kept(List::of_content(content, &settings.list_limits(profile))),
            Content::Stream(stream) => kept(Stream::of_content(stream)),
        };
        Some(Self::of(key, value?, deadline, usage))
    }
}

/// A value, unless it would be deleted for being empty.
fn kept<T: Collection>(value: Option<T>) -> Option<Value> {
    value.filter(|value| !value.is_removable()).map(Into::into)
}

impl List {
    fn content(&self) -> Content<'_> {
        match self.small_listpack() {
            Some((elements, count)) => Content::List(vec![Node::Packed { elements: Cow::Owned(elements), count }]),
            None => Content::List(self.chunks().map(Chunk::node).collect()),
        }
    }

    fn of_content(content: Content<'_>, limits: &ListLimits) -> Option<Self> {
        match content {
            Content::List(nodes) => {
                let chunks = nodes.into_iter().filter_map(|node| match node {
                    Node::Packed { elements, count } => (count > 0).then(|| Chunk::of(count, elements.into_owned())),
                    Node::Plain(element) => Some(Chunk::plain(&element)),
                });
                Some(Self::of_chunks(chunks, limits))
            }
            Content::Elements(elements) => {
                let mut list = Self::new(limits);
                elements.iter().for_each(|element| list.push(End::Back, element));
                Some(list)
            }
            _ => None,
        }
    }
}

impl Chunk {
    fn node(&self) -> Node<'_> {
        match listpack::first(self.bytes()) {
            Some((element, _)) if self.is_plain() => Node::Plain(element.to_bytes()),
            _ => Node::Packed { elements: Cow::Borrowed(self.bytes()), count: self.count() },
        }
    }
}

impl Set {
    fn content(&self) -> Content<'_> {
        match self.sorted() {
            Some((width, values)) => Content::Integers { width, values },
            None => Content::Set { members: self.iter().collect(), packed: self.is_packed() },
        }
    }

    fn of_content(content: Content<'_>, limits: &SetLimits) -> Option<Self> {
        match content {
            Content::Integers { width, values } => {
                let sorted = values.is_sorted_by(|one, next| one < next);
                let mut set = Self::of_sorted(Integers { width, values: values.into_owned() });
                if set.len() > limits.integers {
                    set.spread();
                }
                sorted.then_some(set)
            }
            Content::Set { members, packed: true } => {
                let mut set = Self::packed();
                let room = SetLimits { packed: usize::MAX, longest: usize::MAX, ..*limits };
                let single = members.iter().all(|member| set.add(member, &room));
                if set.len() > limits.packed {
                    set.spread();
                }
                single.then_some(set)
            }
            Content::Set { members, packed: false } => {
                let many = members.len() > limits.integers;
                let mut set = if many { Self::of_members() } else { Self::of_integers() };
                members.iter().all(|member| set.add(member, limits)).then_some(set)
            }
            _ => None,
        }
    }
}

impl Hash {
    fn content(&self) -> Content<'_> {
        let fields = self.iter().map(|pair| Field {
            name: pair.field().into(),
            value: pair.value().into(),
            until: self.time(pair.field()),
        });
        Content::Hash { fields: fields.collect(), packed: self.is_packed(), timed: self.is_timed() }
    }

    fn of_content(content: Content<'_>, limits: &HashLimits) -> Option<Self> {
        let Content::Hash { fields, packed, timed } = content else { return None };
        // A packed value stays packed, however long its elements, unless it has too many.
        let longest = if packed { usize::MAX } else { limits.longest };
        let limits = &HashLimits { longest, ..*limits };
        let mut hash = Self::with_room(fields.len(), limits);
        if !fields.iter().all(|field| hash.rewrite(&field.name, &field.value, limits)) {
            return None;
        }
        if timed {
            hash.expect_times(limits);
        }
        // Among equal expiry times, the field that was set last comes first.
        for field in fields.iter().rev().filter(|field| field.until.is_some()) {
            hash.set_time(&field.name, field.until, limits);
        }
        Some(hash)
    }
}

impl SortedSet {
    fn content(&self) -> Content<'_> {
        let rows = self.iter().map(|scored| (Cow::Borrowed(scored.member()), scored.score())).collect();
        Content::SortedSet { rows, packed: self.is_packed() }
    }

    fn of_content(content: Content<'_>, limits: &SortedSetLimits) -> Option<Self> {
        let Content::SortedSet { rows, packed } = content else { return None };
        let mut set = Self::new(packed);
        // A packed value stays packed, however long its members, unless it has too many.
        let room = SortedSetLimits { packed: limits.packed, longest: usize::MAX, ..*limits };
        if !rows.iter().all(|(member, score)| set.put(member, *score, &room).is_none()) {
            return None;
        }
        if !packed {
            set.pack(limits);
        }
        Some(set)
    }
}

impl StreamId {
    fn to_rdb(self) -> rdb::Id {
        rdb::Id::from_be_bytes(self.to_bytes())
    }

    fn from_rdb(id: rdb::Id) -> Self {
        Self::from_bytes(id.to_be_bytes())
    }
}

impl Stream {
    fn content(&self) -> rdb::Stream<'_> {
        let log = self.log();
        rdb::Stream {
            nodes: log.nodes().map(|(id, node)| (id.to_rdb(), node.to_listpack().into())).collect(),
            len: log.len(),
            last: log.last().to_rdb(),
            counters: Some(rdb::Counters {
                first: log.first().to_rdb(),
                max_deleted: log.max_deleted().to_rdb(),
                added: log.added(),
            }),
            groups: self.groups().map(|(name, group)| group.content(name)).collect(),
        }
    }

    /// Redis trusts the number of entries and the last id. Here both must be true, because the code relies on them.
    fn of_content(content: rdb::Stream<'_>) -> Option<Self> {
        let mut nodes = Vec::with_capacity(content.nodes.len());
        for (id, bytes) in content.nodes {
            let id = StreamId::from_rdb(id);
            nodes.push((id, StreamNode::of_listpack(&bytes, id)?));
        }
        let mut log = Log::of(nodes.into_iter())?;
        let last = StreamId::from_rdb(content.last);
        let reaches = log.nodes().all(|(id, _)| id <= last) && log.last_left().is_none_or(|left| left <= last);
        if log.len() != content.len || !reaches {
            return None;
        }
        match content.counters {
            Some(rdb::Counters { first, max_deleted, added }) => {
                log.set_counters(last, StreamId::from_rdb(first), StreamId::from_rdb(max_deleted), added);
            }
            None => {
                // In an empty stream, Redis takes the first id to be greater than all others.
                let first = log.front().map_or(StreamId::GREATEST, |entry| entry.id);
                log.set_counters(last, first, StreamId::LEAST, content.len);
            }
        }
        let mut stream = Self::of(log);
        for group in content.groups {
            let last = StreamId::from_rdb(group.last);
            let read = match content.counters {
                Some(_) => group.read,
                None => stream.log().added_up_to(last).map(|read| read as i64),
            };
            let mut own = Group::new(last, read);
            own.fill(&group)?;
            if !stream.add_group(&group.name, own) {
                return None;
            }
        }
        Some(stream)
    }
}

impl Group {
    fn content<'g>(&'g self, name: &'g [u8]) -> rdb::Group<'g> {
        let pending = self.pending().iter();
        let consumers = self.consumers();
        rdb::Group {
            name: name.into(),
            last: self.last().to_rdb(),
            read: self.read(),
            pending: pending
                .map(|(id, pending)| rdb::Delivery { id: id.to_rdb(), time: pending.time, count: pending.count })
                .collect(),
            consumers: consumers
                .map(|(name, consumer)| rdb::Consumer {
                    name: name.into(),
                    seen: consumer.seen,
                    active: consumer.active,
                    pending: consumer.pending().iter().map(|id| id.to_rdb()).collect(),
                })
                .collect(),
        }
    }

    /// Reads the consumers and the pending entries; `None` if they are inconsistent.
    fn fill(&mut self, content: &rdb::Group<'_>) -> Option<()> {
        let deliveries: BTreeMap<rdb::Id, &rdb::Delivery> =
            content.pending.iter().map(|delivery| (delivery.id, delivery)).collect();
        for consumer in &content.consumers {
            if !self.add_consumer(&consumer.name, consumer.seen) {
                return None;
            }
            self.consumer_mut(&consumer.name)?.active = consumer.active;
            for (place, id) in consumer.pending.iter().enumerate() {
                let delivery = deliveries.get(id)?;
                self.deliver(StreamId::from_rdb(*id), &consumer.name, delivery.time, delivery.count);
                if self.consumer(&consumer.name)?.pending().len() != place + 1 {
                    return None;
                }
            }
        }
        let complete = deliveries.len() == content.pending.len() && self.pending().len() == deliveries.len();
        complete.then_some(())
    }
}

#[cfg(test)]
mod tests;
