//! Sets of any size.
//!
//! Where Redis's order is arbitrary, members keep their insertion order, and a removal moves the last member to the
//! free index: the same in every run and on every machine.

use std::borrow::Cow;

use super::{SetLimits, digits, width_of};
use crate::data::keyspace::indexed::{Indexed, Keyed};
use crate::data::keyspace::member::Member;
use crate::protocol::parse_integer;

/// The members of a set, by encoding.
#[derive(Clone)]
pub enum Large {
    Integers(Integers),
    Members(Members),
}

/// An intset: integers in ascending order.
#[derive(Clone)]
pub struct Integers {
    /// The bytes of each integer, as needed by the largest that was ever added.
    pub width: u8,
    pub values: Vec<i64>,
}

/// Members of any kind; ordered in the listpack encoding.
pub type Members = Indexed<Member>;

/// Adds a member. Returns whether it is new.
fn add_to(members: &mut Members, member: &[u8]) -> bool {
    let new = members.find(member).is_none();
    if new {
        members.push(Member::new(member));
    }
    new
}

impl Large {
    /// A set of these members, in the listpack encoding or as a table.
    pub fn of_members<'m>(packed: bool, members: impl Iterator<Item = Cow<'m, [u8]>>) -> Self {
        let mut all = Members::new(packed);
        members.for_each(|member| all.push(Member::new(&member)));
        Self::Members(all)
    }

    /// Prepares for `count` members.
    pub fn expect(&mut self, count: usize, limits: &SetLimits) {
        let most = match self {
            Self::Integers(_) => limits.integers(),
            Self::Members(members) if members.is_ordered() => limits.packed,
            Self::Members(_) => return,
        };
        if limits.converts_upfront && count > most {
            self.spread();
        }
    }

    /// Adds a member. Returns whether it is new.
    pub fn add(&mut self, member: &[u8], limits: &SetLimits) -> bool {
        match self {
            Self::Integers(integers) => {
                if let Some(value) = parse_integer(member) {
                    let added = integers.add(value);
                    if added && integers.values.len() > limits.integers() {
                        self.spread();
                    }
                    return added;
                }
                let packed = integers.values.len() < limits.packed
                    && member.len() <= limits.longest
                    && integers.longest() <= limits.longest;
                add_to(self.make_members(packed), member)
            }
            Self::Members(members) => {
                if members.is_ordered()
                    && (members.len() >= limits.packed || member.len() > limits.longest)
                    && members.find(member).is_none()
                {
                    members.set_ordered(false);
                }
                add_to(members, member)
            }
        }
    }

    /// Removes a member. Returns whether it existed.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match self {
            Self::Integers(integers) => parse_integer(member).is_some_and(|value| integers.remove(value)),
            Self::Members(members) => {
                let place = members.find(member);
                place.map(|place| members.remove(place)).is_some()
            }
        }
    }

    pub fn contains(&self, member: &[u8]) -> bool {
        match self {
            Self::Integers(integers) => {
                parse_integer(member).is_some_and(|value| integers.values.binary_search(&value).is_ok())
            }
            Self::Members(members) => members.find(member).is_some(),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Integers(integers) => integers.values.len(),
            Self::Members(members) => members.len(),
        }
    }

    /// A member by its index.
    pub fn get(&self, place: usize) -> Option<Cow<'_, [u8]>> {
        match self {
            Self::Integers(integers) => integers.values.get(place).map(|value| Cow::Owned(digits(*value))),
            Self::Members(members) => members.get(place).map(|member| Cow::Borrowed(member.key())),
        }
    }

    /// Removes a member by its index, and returns it.
    pub fn take(&mut self, place: usize) -> Option<Vec<u8>> {
        match self {
            Self::Integers(integers) => {
                integers.values.get(place)?;
                Some(digits(integers.values.remove(place)))
            }
            Self::Members(members) => {
                members.get(place)?;
                Some(members.remove(place).into_bytes())
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Cow<'_, [u8]>> {
        (0..self.len()).filter_map(|place| self.get(place))
    }

    /// Prepares for a step of [`walk`](Self::walk).
    pub fn prepare_walk(&mut self, count: usize) {
        if let Self::Members(members) = self {
            members.prepare_walk(count);
        }
    }

    /// One step of an iteration over the members, as in [`Indexed::walk`].
    pub fn walk(&self, left: u64, count: usize) -> (u64, impl Iterator<Item = Cow<'_, [u8]>>) {
        let (left, members, integers) = match self {
            Self::Integers(integers) => (0, None, Some(integers.values.iter())),
            Self::Members(members) => {
                let (left, members) = members.walk(left, count);
                (left, Some(members), None)
            }
        };
        let members = members.into_iter().flatten().map(|member| Cow::Borrowed(member.key()));
        (left, members.chain(integers.into_iter().flatten().map(|value| Cow::Owned(digits(*value)))))
    }

    /// The name of the encoding, as in OBJECT ENCODING.
    pub fn encoding(&self) -> &'static str {
        match self {
            Self::Integers(_) => "intset",
            Self::Members(members) if members.is_ordered() => "listpack",
            Self::Members(_) => "hashtable",
        }
    }

    /// The memory outside itself, in bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Integers(integers) => integers.values.capacity() * size_of::<i64>(),
            Self::Members(members) => members.size(),
        }
    }

    /// Converts to an intset if all members are integers, and few enough.
    pub fn condense(&mut self, limits: &SetLimits) {
        let Self::Members(members) = self else { return };
        if members.len() > limits.integers() {
            return;
        }
        let values: Option<Vec<i64>> = members.iter().map(|member| parse_integer(member.key())).collect();
        if let Some(values) = values {
            let mut integers = Integers::new();
            values.into_iter().for_each(|value| {
                integers.add(value);
            });
            *self = Self::Integers(integers);
        }
    }

    /// Converts to the hash table encoding.
    pub fn spread(&mut self) {
        self.make_members(false);
    }

    fn make_members(&mut self, packed: bool) -> &mut Members {
        if let Self::Integers(integers) = self {
            let mut members = Members::new(packed);
            for &value in &integers.values {
                members.push(Member::new(&digits(value)));
            }
            *self = Self::Members(members);
        }
        match self {
            Self::Members(members) => {
                members.set_ordered(packed);
                members
            }
            Self::Integers(_) => unreachable!("they were just made members"),
        }
    }
}

impl Integers {
    pub fn new() -> Self {
        Self { width: 2, values: Vec::new() }
    }

    fn add(&mut self, value: i64) -> bool {
        let Err(place) = self.values.binary_search(&value) else { return false };
        self.width = self.width.max(width_of(value));
        self.values.insert(place, value);
        true
    }

    fn remove(&mut self, value: i64) -> bool {
        let Ok(place) = self.values.binary_search(&value) else { return false };
        self.values.remove(place);
        if self.values.len() * 4 < self.values.capacity() {
            self.values.shrink_to(self.values.len() * 2);
        }
        true
    }

    /// The number of digits of the longest integer: the first or the last, which are the extremes.
    fn longest(&self) -> usize {
        [self.values.first(), self.values.last()]
            .into_iter()
            .flatten()
            .map(|&value| digits(value).len())
            .max()
            .unwrap_or(0)
    }
}
