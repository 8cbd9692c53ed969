//! Sets: their members, and Redis's three encodings of them.
//!
//! Clients can see the encoding (OBJECT ENCODING, DUMP, the order of SMEMBERS), so it changes where Redis changes it.
//! Where Redis's order is arbitrary, members keep their insertion order, and a removal moves the last member to the
//! free index: the same in every run and on every machine.

use std::borrow::Cow;

use super::indexed::{Indexed, Keyed};
use super::member::Member;
use crate::protocol::parse_integer;

/// Redis's own limit of an intset, whatever the setting.
const MOST_INTEGERS: usize = 1 << 30;

/// The limits at which a set changes its encoding.
#[derive(Clone, Copy, Debug)]
pub struct SetLimits {
    /// The most members of an intset.
    pub integers: usize,
    /// The most members of a listpack; 0 for servers that do not use listpacks for sets.
    pub packed: usize,
    /// The longest member in a listpack.
    pub longest: usize,
    /// Whether a command with many members converts the set before it writes them.
    pub converts_upfront: bool,
}

impl SetLimits {
    fn integers(&self) -> usize {
        self.integers.min(MOST_INTEGERS)
    }
}

/// The members of a set, by encoding.
#[derive(Clone)]
pub enum Set {
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

impl Set {
    /// An empty set for `count` members, of which this is the first.
    pub fn for_member(first: &[u8], count: usize, limits: &SetLimits) -> Self {
        if parse_integer(first).is_some() && (!limits.converts_upfront || count <= limits.integers()) {
            return Self::of_integers();
        }
        Self::Members(Members::new(count <= limits.packed))
    }

    pub fn of_integers() -> Self {
        Self::Integers(Integers::new())
    }

    /// An empty set in the hash table encoding.
    pub fn of_members() -> Self {
        Self::Members(Members::new(false))
    }

    /// An empty set in the listpack encoding.
    pub fn packed() -> Self {
        Self::Members(Members::new(true))
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

    pub fn is_packed(&self) -> bool {
        matches!(self, Self::Members(members) if members.is_ordered())
    }

    /// The memory in bytes.
    pub fn size(&self) -> usize {
        size_of::<Self>()
            + match self {
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
    fn new() -> Self {
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

fn digits(value: i64) -> Vec<u8> {
    itoa::Buffer::new().format(value).as_bytes().to_vec()
}

/// The bytes that an intset needs for this integer.
fn width_of(value: i64) -> u8 {
    if i16::try_from(value).is_ok() {
        2
    } else if i32::try_from(value).is_ok() {
        4
    } else {
        8
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const OLD: SetLimits = SetLimits { integers: 4, packed: 0, longest: 64, converts_upfront: false };
    const NEW: SetLimits = SetLimits { integers: 4, packed: 4, longest: 8, converts_upfront: true };

    fn set_of(members: &[&str], limits: &SetLimits) -> Set {
        let mut set = Set::for_member(members[0].as_bytes(), 1, limits);
        for member in members {
            set.add(member.as_bytes(), limits);
        }
        set
    }

    #[test]
    fn integers_stay_sorted_until_there_are_too_many_or_something_else_comes() {
        let set = set_of(&["3", "-1", "2", "3"], &OLD);
        assert_eq!(set.encoding(), "intset");
        assert_eq!(set.iter().collect::<Vec<_>>(), [&b"-1"[..], b"2", b"3"]);
        assert_eq!(set_of(&["1", "2", "3", "4", "5"], &OLD).encoding(), "hashtable");
        assert_eq!(set_of(&["1", "2", "3", "4", "5"], &NEW).encoding(), "hashtable");
        assert_eq!(set_of(&["1", "01"], &OLD).encoding(), "hashtable");
        assert_eq!(set_of(&["1", "01"], &NEW).encoding(), "listpack");
        assert_eq!(set_of(&["123456789", "a"], &NEW).encoding(), "hashtable");
        assert_eq!(set_of(&["a", "b", "c", "d", "d"], &NEW).encoding(), "listpack");
        assert_eq!(set_of(&["a", "b", "c", "d", "e"], &NEW).encoding(), "hashtable");
        assert_eq!(set_of(&["a", "bbbbbbbbb"], &NEW).encoding(), "hashtable");
    }

    #[test]
    fn what_is_foreseen_counts_only_where_servers_foresee() {
        assert_eq!(Set::for_member(b"1", 5, &OLD).encoding(), "intset");
        assert_eq!(Set::for_member(b"1", 5, &NEW).encoding(), "hashtable");
        assert_eq!(Set::for_member(b"a", 4, &NEW).encoding(), "listpack");
    }

    proptest! {
        #[test]
        fn a_set_holds_what_was_added_and_not_removed(
            steps in prop::collection::vec((any::<bool>(), 0..40i32, any::<bool>()), 0..400),
            new in any::<bool>(),
        ) {
            let limits = if new { &NEW } else { &OLD };
            let mut set = Set::of_integers();
            let mut model = BTreeSet::new();
            for (add, number, text) in steps {
                let member = if text { format!("m{number}") } else { number.to_string() };
                if add {
                    prop_assert_eq!(set.add(member.as_bytes(), limits), model.insert(member.into_bytes()));
                } else {
                    prop_assert_eq!(set.remove(member.as_bytes()), model.remove(member.as_bytes()));
                }
                prop_assert_eq!(set.len(), model.len());
            }
            prop_assert!(model.iter().all(|member| set.contains(member)));
            let listed: BTreeSet<Vec<u8>> = set.iter().map(Cow::into_owned).collect();
            prop_assert_eq!(listed, model);
        }
    }
}
