//! Sets: their members, and Redis's three encodings of them.
//!
//! Clients can see the encoding (OBJECT ENCODING, DUMP, the order of SMEMBERS), so it changes where Redis changes it.

mod large;

use std::borrow::Cow;
use std::ops::Range;

use super::block::{Block, block_type};
use super::compact::{self, Elements, MOST_BYTES, MOST_COMPARED};
use crate::data::listpack::Element;
use crate::protocol::parse_integer;
pub use large::Integers;
use large::Large;

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

block_type! {
    /// A set: in one allocation while it is short.
    #[derive(Clone)]
    Set(Large)
}

/// The first byte of a small set in the listpack encoding, and of one that is a table for clients. That of an intset is the width of
/// its integers.
const LISTPACK: u8 = 0;
const TABLE: u8 = 1;
/// Where the members begin, behind the encoding and the number of members.
const START: usize = 2;

/// The members of a small set, in their order.
#[derive(Clone, Copy)]
struct Small<'s> {
    text: &'s [u8],
}

impl<'s> Small<'s> {
    fn width(self) -> Option<u8> {
        Some(self.text[0]).filter(|width| ![LISTPACK, TABLE].contains(width))
    }

    fn is_table(self) -> bool {
        self.text[0] == TABLE
    }

    fn len(self) -> usize {
        usize::from(self.text[1])
    }

    #[inline]
    fn iter(self) -> Elements<'s> {
        Elements::new(&self.text[START..], self.len())
    }

    /// The places of the members.
    fn places(self) -> impl Iterator<Item = (Element<'s>, Range<usize>)> {
        let mut elements = self.iter();
        let mut end = START;
        std::iter::from_fn(move || {
            let element = elements.next()?;
            let start = end;
            end = self.text.len() - elements.rest().len();
            Some((element, start..end))
        })
    }

    fn find(self, member: &[u8]) -> Option<Range<usize>> {
        if member.len() > MOST_BYTES {
            return None;
        }
        let (_, place) = compact::find(&self.text[START..], Element::of(member), 1)?;
        Some(START + place.start..START + place.end)
    }

    /// Where an integer belongs in an intset.
    fn place_of(self, value: i64) -> usize {
        let greater = |(other, _): &(Element<'_>, _)| matches!(other, Element::Integer(other) if *other > value);
        self.places().find(greater).map_or(self.text.len(), |(_, place)| place.start)
    }

    /// The integers, if all members are.
    fn integers(self) -> Option<Vec<i64>> {
        self.iter().map(|member| if let Element::Integer(value) = member { Some(value) } else { None }).collect()
    }
}

impl From<Large> for Set {
    fn from(large: Large) -> Self {
        Self(Block::large(large))
    }
}

impl Set {
    fn empty(encoding: u8) -> Self {
        Self(Block::keyless(&[encoding, 0]))
    }

    /// An empty set for `count` members, of which this is the first.
    pub fn for_member(first: &[u8], count: usize, limits: &SetLimits) -> Self {
        if parse_integer(first).is_some() && (!limits.converts_upfront || count <= limits.integers()) {
            return Self::of_integers();
        }
        if count <= limits.packed { Self::packed() } else { Self::of_members() }
    }

    pub fn of_integers() -> Self {
        Self::empty(width_of(0))
    }

    /// An intset of ascending integers, each of so many bytes.
    pub fn of_sorted(integers: Integers) -> Self {
        let mut set = Self::empty(integers.width);
        for &value in &integers.values {
            if !set.put(set.0.text().len(), Element::Integer(value)) {
                return Large::Integers(integers).into();
            }
        }
        set
    }

    /// An empty set in the hash table encoding.
    pub fn of_members() -> Self {
        Self::empty(TABLE)
    }

    /// An empty set in the listpack encoding.
    pub fn packed() -> Self {
        Self::empty(LISTPACK)
    }

    #[inline]
    fn small(&self) -> Option<Small<'_>> {
        if self.0.is_boxed() { None } else { Some(Small { text: self.0.text() }) }
    }

    #[inline]
    fn large(&self) -> Option<&Large> {
        self.0.value()
    }

    /// The large form, for what the small one cannot do.
    fn enlarge(&mut self) -> &mut Large {
        if let Some(small) = self.small() {
            let large = match (small.width(), small.integers()) {
                (Some(width), Some(values)) => Large::Integers(Integers { width, values }),
                _ => Large::of_members(!small.is_table(), small.iter().map(Element::to_bytes)),
            };
            *self = large.into();
        }
        match self.0.value_mut() {
            Some(large) => large,
            None => unreachable!("it has just been enlarged"),
        }
    }

    /// Adds a new member to a small set at a place. `false` if there is no room; then nothing has changed.
    fn put(&mut self, at: usize, member: Element<'_>) -> bool {
        if matches!(member, Element::String(bytes) if bytes.len() > MOST_BYTES) {
            return false;
        }
        let text = self.0.text();
        let (count, code) = (usize::from(text[1]) + 1, compact::code_of(member));
        if count > MOST_COMPARED || text.len() + code.len() > MOST_BYTES || !self.0.splice(at..at, &code) {
            return false;
        }
        self.0.set_byte(1, count as u8);
        true
    }

    /// Removes a member of a small set.
    fn cut(&mut self, place: Range<usize>) {
        let count = self.0.text()[1].saturating_sub(1);
        if self.0.splice(place, b"") {
            self.0.set_byte(1, count);
        }
    }

    /// Prepares for `count` members: more than a small set can have are not added to one first.
    pub fn expect(&mut self, count: usize, limits: &SetLimits) {
        if count > MOST_COMPARED {
            self.enlarge();
        }
        match self.small() {
            None => self.enlarge().expect(count, limits),
            Some(small) => {
                let most = if small.width().is_some() { limits.integers() } else { limits.packed };
                if limits.converts_upfront && count > most {
                    self.spread();
                }
            }
        }
    }

    /// Adds a member. Returns whether it is new.
    pub fn add(&mut self, member: &[u8], limits: &SetLimits) -> bool {
        self.add_to_small(member, limits).unwrap_or_else(|| self.enlarge().add(member, limits))
    }

    /// `None` if that takes the large form.
    fn add_to_small(&mut self, member: &[u8], limits: &SetLimits) -> Option<bool> {
        let small = self.small()?;
        if small.find(member).is_some() {
            return Some(false);
        }
        let (count, end, element) = (small.len(), small.text.len(), Element::of(member));
        let added = match (small.width(), element) {
            (Some(width), Element::Integer(value)) => {
                let at = small.place_of(value);
                let added = count < limits.integers() && self.put(at, element);
                if added {
                    self.0.set_byte(0, width.max(width_of(value)));
                }
                added
            }
            (width, _) => {
                let is_short = |member: Element<'_>| member.to_bytes().len() <= limits.longest;
                let is_packed = !small.is_table()
                    && count < limits.packed
                    && member.len() <= limits.longest
                    && (width.is_none() || small.iter().all(is_short));
                let added = self.put(end, element);
                if added {
                    self.0.set_byte(0, if is_packed { LISTPACK } else { TABLE });
                }
                added
            }
        };
        added.then_some(true)
    }

    /// Removes a member. Returns whether it existed.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        let Some(small) = self.small() else { return self.enlarge().remove(member) };
        let Some(place) = small.find(member) else { return false };
        self.cut(place);
        true
    }

    pub fn contains(&self, member: &[u8]) -> bool {
        match self.small() {
            Some(small) => small.find(member).is_some(),
            None => self.large().is_some_and(|large| large.contains(member)),
        }
    }

    pub fn len(&self) -> usize {
        self.small().map_or_else(|| self.large().map_or(0, Large::len), Small::len)
    }

    /// A member by its index.
    pub fn get(&self, place: usize) -> Option<Cow<'_, [u8]>> {
        match self.small() {
            Some(small) => small.iter().nth(place).map(Element::to_bytes),
            None => self.large()?.get(place),
        }
    }

    /// Removes a member by its index, and returns it.
    pub fn take(&mut self, place: usize) -> Option<Vec<u8>> {
        let Some(small) = self.small() else { return self.enlarge().take(place) };
        let (member, place) = small.places().nth(place)?;
        let member = member.to_bytes().into_owned();
        self.cut(place);
        Some(member)
    }

    pub fn iter(&self) -> impl Iterator<Item = Cow<'_, [u8]>> {
        let small = self.small().into_iter().flat_map(Small::iter).map(Element::to_bytes);
        small.chain(self.large().into_iter().flat_map(Large::iter))
    }

    /// Prepares for a step of [`walk`](Self::walk).
    pub fn prepare_walk(&mut self, count: usize) {
        // What is no table is shown at once.
        if self.small().is_some_and(|small| small.is_table() && small.len() > count) {
            self.enlarge();
        }
        if let Some(large) = self.0.value_mut() {
            large.prepare_walk(count);
        }
    }

    /// One step of an iteration over the members, as in `Indexed::walk`.
    pub fn walk(&self, left: u64, count: usize) -> (u64, impl Iterator<Item = Cow<'_, [u8]>>) {
        let (left, members) = match self.large() {
            Some(large) => {
                let (left, members) = large.walk(left, count);
                (left, Some(members))
            }
            None => (0, None),
        };
        let small = self.small().into_iter().flat_map(Small::iter).map(Element::to_bytes);
        (left, small.chain(members.into_iter().flatten()))
    }

    /// The name of the encoding, as in OBJECT ENCODING.
    pub fn encoding(&self) -> &'static str {
        match (self.small(), self.large()) {
            (Some(small), _) if small.is_table() => "hashtable",
            (Some(small), _) if small.width().is_none() => "listpack",
            (_, Some(large)) => large.encoding(),
            _ => "intset",
        }
    }

    pub fn is_packed(&self) -> bool {
        self.encoding() == "listpack"
    }

    /// The members of an intset, in order.
    pub fn sorted(&self) -> Option<(u8, Cow<'_, [i64]>)> {
        match (self.small(), self.large()) {
            (Some(small), _) => Some((small.width()?, small.integers()?.into())),
            (_, Some(Large::Integers(integers))) => Some((integers.width, Cow::Borrowed(&integers.values))),
            _ => None,
        }
    }

    /// The memory outside itself, in bytes.
    pub fn size(&self) -> usize {
        self.0.size() + self.large().map_or(0, Large::size)
    }

    /// Converts to an intset if all members are integers, and few enough.
    pub fn condense(&mut self, limits: &SetLimits) {
        let is_intset = self.small().is_some_and(|small| small.width().is_some());
        let has_text = || self.small().is_some_and(|small| small.integers().is_none());
        if is_intset || self.len() > limits.integers() || has_text() {
            return;
        }
        self.enlarge().condense(limits);
        if let Some(Large::Integers(integers)) = self.large() {
            *self = Self::of_sorted(integers.clone());
        }
    }

    /// Converts to the hash table encoding.
    pub fn spread(&mut self) {
        match self.0.value_mut() {
            Some(large) => large.spread(),
            None => self.0.set_byte(0, TABLE),
        }
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
            // One begins in one allocation, the other as a large one, and clients see no difference.
            let (mut set, mut large) = (Set::of_integers(), Set::of_integers());
            large.enlarge();
            let mut model = BTreeSet::new();
            for (add, number, text) in steps {
                let member = if text { format!("m{number:0width$}", width = number as usize) } else { number.to_string() };
                if add {
                    large.add(member.as_bytes(), limits);
                } else {
                    large.remove(member.as_bytes());
                }
                if add {
                    prop_assert_eq!(set.add(member.as_bytes(), limits), model.insert(member.into_bytes()));
                } else {
                    prop_assert_eq!(set.remove(member.as_bytes()), model.remove(member.as_bytes()));
                }
                prop_assert_eq!((set.len(), set.encoding()), (model.len(), large.encoding()));
            }
            prop_assert!(model.iter().all(|member| set.contains(member)));
            let listed: BTreeSet<Vec<u8>> = set.iter().map(Cow::into_owned).collect();
            prop_assert_eq!(&listed, &model);
            let (mut walked, mut left) = (BTreeSet::new(), 0);
            loop {
                set.prepare_walk(5);
                let (next, members) = set.walk(left, 5);
                let before = walked.len();
                walked.extend(members.map(Cow::into_owned));
                prop_assert!(set.encoding() != "hashtable" || walked.len() <= before + 10);
                left = next;
                if left == 0 {
                    break;
                }
            }
            prop_assert_eq!(walked, model);
        }
    }
}
