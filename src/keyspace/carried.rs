//! Values as they are carried elsewhere: what DUMP writes and RESTORE reads.

use std::borrow::Cow;

use super::Settings;
use super::entry::{AccessTime, Entry};
use super::hash::{Hash, HashLimits};
use super::list::{End, List, ListLimits};
use super::set::{Integers, Set, SetLimits};
use super::sorted_set::{SortedSet, SortedSetLimits};
use super::value::{Collection, Value};
use crate::clock::Millis;
use crate::listpack::Element;
use crate::profile::Profile;
use crate::rdb::{Content, Field, Node};

impl Entry {
    /// The value, to be written out.
    pub fn content(&self) -> Content<'_> {
        match self.value() {
            Some(Value::Set(set)) => set.content(),
            Some(Value::List(list)) => list.content(),
            Some(Value::Hash(hash)) => hash.content(),
            Some(Value::SortedSet(set)) => set.content(),
            _ => Content::String(Cow::Borrowed(self.text().map_or(&[], |text| text.bytes))),
        }
    }

    /// An entry for a value that was read; nothing if no server could have written it.
    pub fn of_content(
        key: &[u8],
        content: Content<'_>,
        settings: &Settings,
        profile: &Profile,
        deadline: Option<Millis>,
        accessed: AccessTime,
    ) -> Option<Self> {
        let value = match content {
            Content::String(bytes) => return Some(Self::string(key, &bytes, deadline, accessed)),
            Content::Integers { .. } | Content::Set { .. } => {
                kept(Set::of_content(content, &settings.set_limits(profile)))
            }
            Content::Hash { .. } => kept(Hash::of_content(content, &settings.hash_limits(profile))),
            Content::SortedSet { .. } => kept(SortedSet::of_content(content, &settings.sorted_set_limits(profile))),
            Content::List(_) | Content::Elements(_) => kept(List::of_content(content, &settings.list_limits(profile))),
        };
        Some(Self::boxed(key, value?, deadline, accessed))
    }
}

/// A value, if there is a reason for a key to have it.
fn kept<T: Collection>(value: Option<T>) -> Option<Value> {
    value.filter(|value| !value.is_over()).map(Into::into)
}

impl List {
    fn content(&self) -> Content<'_> {
        let node = |(count, elements)| Node::Packed { elements: Cow::Borrowed(elements), count };
        Content::List(self.nodes().map(node).collect())
    }

    fn of_content(content: Content<'_>, limits: &ListLimits) -> Option<Self> {
        match content {
            Content::List(nodes) => {
                let nodes = nodes.into_iter().map(|node| match node {
                    Node::Packed { elements, count } => (count, elements.into_owned()),
                    Node::Plain(element) => {
                        let mut alone = Vec::new();
                        Element::of(&element).append(&mut alone);
                        (1, alone)
                    }
                });
                Some(Self::of_nodes(nodes, limits))
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

impl Set {
    fn content(&self) -> Content<'_> {
        match self {
            Self::Integers(integers) => {
                Content::Integers { width: integers.width, values: Cow::Borrowed(&integers.values) }
            }
            Self::Members(_) => Content::Set { members: self.iter().collect(), packed: self.is_packed() },
        }
    }

    fn of_content(content: Content<'_>, limits: &SetLimits) -> Option<Self> {
        match content {
            Content::Integers { width, values } => {
                let sorted = values.is_sorted_by(|one, next| one < next);
                let mut set = Self::Integers(Integers { width, values: values.into_owned() });
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
        // What was packed stays packed however long it is, if it is not too many.
        let longest = if packed { usize::MAX } else { limits.longest };
        let limits = &HashLimits { longest, ..*limits };
        let mut hash = Self::default();
        if !fields.iter().all(|field| hash.rewrite(&field.name, &field.value, limits)) {
            return None;
        }
        if timed {
            hash.expect_times(limits);
        }
        // Where times are equal, the last one to get it stands in front.
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
        // What was packed stays packed however long it is, if it is not too many.
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
