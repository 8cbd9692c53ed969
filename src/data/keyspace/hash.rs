//! Hashes: their fields and values, and Redis's encodings of them.

mod small;
mod times;

use smallvec::SmallVec;

use super::block::{Block, block_type};
use super::compact::MOST_COMPARED;
use super::indexed::{Indexed, Keyed};
use crate::base::clock::Millis;
use small::Small;
use times::Times;

/// A field with its value.
#[derive(Clone, Copy)]
pub struct Pair<'a> {
    field: &'a [u8],
    value: &'a [u8],
}

impl<'a> Pair<'a> {
    pub fn field(self) -> &'a [u8] {
        self.field
    }

    pub fn value(self) -> &'a [u8] {
        self.value
    }
}

/// A field with its value, in one piece. The length of the field comes first, in one byte, or if that is 255 in the next
/// four.
struct OwnedPair(SmallVec<[u8; 24]>);

/// A clone allocates exactly the length; SmallVec's own rounds it up.
impl Clone for OwnedPair {
    fn clone(&self) -> Self {
        Self(SmallVec::from_slice(&self.0))
    }
}

const LONG: u8 = u8::MAX;

impl OwnedPair {
    fn new(field: &[u8], value: &[u8]) -> Self {
        let header = if field.len() < usize::from(LONG) { 1 } else { 5 };
        let mut bytes = SmallVec::with_capacity(header + field.len() + value.len());
        match u8::try_from(field.len()) {
            Ok(length) if length < LONG => bytes.push(length),
            _ => {
                bytes.push(LONG);
                bytes.extend_from_slice(&u32::try_from(field.len()).unwrap_or(u32::MAX).to_le_bytes());
            }
        }
        bytes.extend_from_slice(field);
        bytes.extend_from_slice(value);
        Self(bytes)
    }

    /// Overwrites the value where it fits.
    fn set_value(&mut self, value: &[u8]) {
        let start = self.0.len() - self.pair().value.len();
        let (length, room) = (start + value.len(), self.0.capacity());
        if length > room || self.0.spilled() && length * 2 + 64 < room {
            *self = Self::new(self.pair().field, value);
        } else {
            self.0.truncate(start);
            self.0.extend_from_slice(value);
        }
    }

    #[inline]
    fn pair(&self) -> Pair<'_> {
        let (header, length) = match self.0[0] {
            LONG => (5, u32::from_le_bytes([self.0[1], self.0[2], self.0[3], self.0[4]]) as usize),
            length => (1, usize::from(length)),
        };
        let (field, value) = self.0[header..].split_at(length);
        Pair { field, value }
    }
}

impl Keyed for OwnedPair {
    #[inline]
    fn key(&self) -> &[u8] {
        self.pair().field
    }

    fn outside(&self) -> usize {
        if self.0.spilled() { self.0.capacity() } else { 0 }
    }
}

/// The limits at which a hash changes its encoding.
#[derive(Clone, Copy, Debug)]
pub struct HashLimits {
    /// The most fields of a listpack.
    pub packed: usize,
    /// The longest field or value in a listpack.
    pub longest: usize,
    /// Whether a command with many fields converts the hash before it writes them.
    pub converts_upfront: bool,
    /// Whether a listpack can hold fields with expiry times.
    pub packs_times: bool,
}

block_type! {
    /// Fields with their values, in one allocation while they are few and short and without expiry times. The order matters only
    /// in the listpack encoding; there, fields with an expiry time come first, the earliest first.
    #[derive(Clone)]
    Hash(Large)
}

#[derive(Clone)]
pub struct Large {
    pairs: Indexed<OwnedPair>,
    /// Present once any field was given an expiry time.
    times: Option<Box<Times>>,
}

impl Default for Hash {
    fn default() -> Self {
        Self(Block::keyless(small::EMPTY))
    }
}

impl Hash {
    /// Either form.
    #[inline]
    fn form(&self) -> Result<Small<'_>, &Large> {
        match self.0.value() {
            Some(large) => Err(large),
            None => Ok(Small::of(self.0.text())),
        }
    }

    /// The large form, for what the small one cannot do.
    fn enlarge(&mut self) -> &mut Large {
        if let Ok(small) = self.form() {
            let mut pairs = Indexed::new(!small.is_spread());
            small.iter().for_each(|pair| pairs.push(OwnedPair::new(pair.field, pair.value)));
            *self = Self(Block::large(Large { pairs, times: None }));
        }
        match self.0.value_mut() {
            Some(large) => large,
            None => unreachable!("it has just been enlarged"),
        }
    }

    fn times(&self) -> Option<&Times> {
        self.0.value()?.times.as_deref()
    }

    /// How many fields there are, with those that have expired and were not removed yet.
    pub fn len(&self) -> usize {
        match self.form() {
            Ok(small) => small.len(),
            Err(large) => large.pairs.len(),
        }
    }

    /// The memory outside itself, in bytes.
    pub fn size(&self) -> usize {
        let of_large = |large: &Large| large.pairs.size() + large.times.as_ref().map_or(0, |times| times.size());
        self.0.size() + self.0.value().map_or(0, of_large)
    }

    pub fn encoding(&self) -> &'static str {
        if !self.is_packed() {
            "hashtable"
        } else if self.is_timed() {
            "listpackex"
        } else {
            "listpack"
        }
    }

    pub fn is_packed(&self) -> bool {
        match self.form() {
            Ok(small) => !small.is_spread(),
            Err(large) => large.pairs.is_ordered(),
        }
    }

    #[inline]
    fn find(&self, field: &[u8]) -> Option<Pair<'_>> {
        match self.form() {
            Ok(small) => small.iter().find(|pair| pair.field == field),
            Err(large) => Some(large.pairs.get(large.pairs.find(field)?)?.pair()),
        }
    }

    #[inline]
    pub fn get(&self, field: &[u8]) -> Option<&[u8]> {
        let found = self.find(field)?;
        if self.is_hidden(field) { None } else { Some(found.value) }
    }

    pub fn contains(&self, field: &[u8]) -> bool {
        self.has(field) && !self.is_hidden(field)
    }

    /// Whether a field is there, even if it has expired.
    pub fn has(&self, field: &[u8]) -> bool {
        self.find(field).is_some()
    }

    /// A field by its index.
    pub fn at(&self, place: usize) -> Option<Pair<'_>> {
        match self.form() {
            Ok(small) => small.iter().nth(place),
            Err(large) => large.pairs.get(place).map(OwnedPair::pair),
        }
    }

    /// Prepares for a write of these fields and values: more than a small hash can have are not written to one first.
    #[inline]
    pub fn expect<'w>(&mut self, words: impl ExactSizeIterator<Item = &'w [u8]>, limits: &HashLimits) {
        if !self.0.is_boxed() && words.len() / 2 > MOST_COMPARED {
            self.enlarge();
        }
        if self.is_packed()
            && (limits.converts_upfront && words.len() / 2 > limits.packed || {
                let mut words = words;
                words.any(|word| word.len() > limits.longest)
            })
        {
            self.spread();
        }
    }

    /// Writes a field without an expiry time. Returns whether it is new.
    pub fn set(&mut self, field: &[u8], value: &[u8], limits: &HashLimits) -> bool {
        let new = self.rewrite(field, value, limits);
        if self.is_timed() {
            self.set_time(field, None, limits);
        }
        new
    }

    /// An empty hash for so many fields, which are about to be written.
    pub fn with_room(fields: usize, limits: &HashLimits) -> Self {
        let mut hash = Self::default();
        if fields > limits.packed {
            hash.enlarge().pairs.reserve(fields);
        }
        hash
    }

    /// Writes a field and keeps its expiry time. Returns whether it is new.
    #[inline]
    pub fn rewrite(&mut self, field: &[u8], value: &[u8], limits: &HashLimits) -> bool {
        let is_long = field.len().max(value.len()) > limits.longest;
        if !self.0.is_boxed()
            && let Some(new) = small::write(&mut self.0, field, value, is_long, limits.packed)
        {
            return new;
        }
        let Large { pairs, .. } = self.enlarge();
        let found = pairs.find(field);
        match found {
            Some(place) => pairs.update(place, |pair| pair.set_value(value)),
            None => pairs.push(OwnedPair::new(field, value)),
        }
        if pairs.is_ordered() && (pairs.len() > limits.packed || is_long) {
            pairs.set_ordered(false);
        }
        found.is_none()
    }

    /// Writes a field and keeps its expiry time, unless that is over.
    pub fn update(&mut self, field: &[u8], value: &[u8], limits: &HashLimits) {
        if self.is_hidden(field) {
            self.set(field, value, limits);
        } else {
            self.rewrite(field, value, limits);
        }
    }

    /// Removes a field. Returns whether it existed.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        match self.0.value_mut() {
            None => small::remove(&mut self.0, field),
            Some(large) => {
                let Some(place) = large.pairs.find(field) else { return false };
                large.pairs.remove(place);
                if let Some(times) = &mut large.times {
                    times.set(field, None);
                }
                true
            }
        }
    }

    /// All fields, also expired ones.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Pair<'_>> {
        match self.form() {
            Ok(small) => Pairs::Small(small.iter()),
            Err(large) => Pairs::Large(large.pairs.as_slice().iter()),
        }
    }

    /// The fields that clients see.
    pub fn visible(&self) -> impl Iterator<Item = Pair<'_>> {
        self.iter().filter(|pair| !self.is_hidden(pair.field))
    }

    /// Prepares for a step of [`walk`](Self::walk).
    pub fn prepare_walk(&mut self, count: usize) {
        // A listpack is shown at once, and a table step by step.
        if self.form().is_ok_and(|small| small.is_spread() && small.len() > count) {
            self.enlarge();
        }
        if let Some(large) = self.0.value_mut() {
            large.pairs.prepare_walk(count);
        }
    }

    /// One step of an iteration over the fields that clients see, as in [`Indexed::walk`].
    pub fn walk(&self, left: u64, count: usize) -> (u64, impl Iterator<Item = Pair<'_>>) {
        let (next, small, large) = match self.form() {
            Ok(small) => (0, Some(small.iter()), None),
            Err(large) => {
                let (next, pairs) = large.pairs.walk(left, count);
                (next, None, Some(pairs.map(OwnedPair::pair)))
            }
        };
        let pairs = small.into_iter().flatten().chain(large.into_iter().flatten());
        (next, pairs.filter(|pair| !self.is_hidden(pair.field)))
    }

    /// Converts to the hash table encoding.
    pub fn spread(&mut self) {
        match self.0.value_mut() {
            Some(large) => large.pairs.set_ordered(false),
            None => small::spread(&mut self.0),
        }
    }

    // ---- expiry times of fields

    /// Prepares for fields with expiry times.
    pub fn expect_times(&mut self, limits: &HashLimits) {
        if limits.packs_times {
            self.enlarge().times.get_or_insert_default();
        }
    }

    /// The expiry time of a field, if it has one.
    pub fn time(&self, field: &[u8]) -> Option<Millis> {
        self.times()?.get(field)
    }

    /// Sets or removes the expiry time of a field, if the field exists. Returns whether that changes anything.
    pub fn set_time(&mut self, field: &[u8], time: Option<Millis>, limits: &HashLimits) -> bool {
        if time.is_none() && self.time(field).is_none() {
            return false;
        }
        if !self.has(field) {
            return false;
        }
        let Large { pairs, times } = self.enlarge();
        let times = times.get_or_insert_default();
        times.set(field, time);
        if !limits.packs_times {
            pairs.set_ordered(false);
        } else if pairs.is_ordered()
            && let Some(place) = pairs.find(field)
        {
            let moved = pairs.remove(place);
            let later = |other: &OwnedPair| {
                let other = times.get(other.key());
                other.is_none_or(|other| time.is_some_and(|time| other >= time))
            };
            let place = match time {
                Some(_) => pairs.iter().position(later),
                None => None,
            };
            pairs.insert(place.unwrap_or(pairs.len()), moved);
        }
        true
    }

    /// The earliest expiry time of a field.
    #[inline]
    pub fn earliest(&self) -> Option<Millis> {
        self.times()?.earliest()
    }

    /// Whether it has an encoding for fields with expiry times, where servers distinguish that.
    pub fn is_timed(&self) -> bool {
        self.times().is_some()
    }

    /// Removes the expired fields, and returns how many there were.
    pub fn expire(&mut self, now: Millis) -> usize {
        let Some(Large { pairs, times: Some(times) }) = self.0.value_mut() else { return 0 };
        let mut removed = 0;
        while let Some(field) = times.pop_due(now) {
            if let Some(place) = pairs.find(&field) {
                pairs.remove(place);
                removed += 1;
            }
        }
        removed
    }

    /// Hides the fields that have expired at this instant. The last call holds.
    pub fn hide_expired(&mut self, now: Millis) {
        if let Some(Large { times: Some(times), .. }) = self.0.value_mut() {
            times.hidden_before = now;
        }
    }

    /// The places of the fields that clients see, if there are others.
    pub fn visible_places(&self) -> Option<Vec<usize>> {
        let hides_any = self.times().is_some_and(Times::hides_any);
        let is_visible = |(_, pair): &(usize, Pair<'_>)| !self.is_hidden(pair.field);
        hides_any.then(|| self.iter().enumerate().filter(is_visible).map(|(place, _)| place).collect())
    }

    /// Whether a field has expired and was not removed yet.
    #[inline]
    pub fn is_hidden(&self, field: &[u8]) -> bool {
        self.times().is_some_and(|times| times.hides(field))
    }
}

/// All pairs of a hash.
enum Pairs<'a> {
    Small(small::Iter<'a>),
    Large(std::slice::Iter<'a, OwnedPair>),
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Pair<'a>;

    #[inline]
    fn next(&mut self) -> Option<Pair<'a>> {
        match self {
            Self::Small(pairs) => pairs.next(),
            Self::Large(pairs) => pairs.next().map(OwnedPair::pair),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::Small(pairs) => pairs.size_hint(),
            Self::Large(pairs) => pairs.size_hint(),
        }
    }
}

impl ExactSizeIterator for Pairs<'_> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: HashLimits = HashLimits { packed: 30, longest: 64, converts_upfront: false, packs_times: true };

    /// A model of Redis's listpack: fields in order, each with its value and its expiry time.
    #[derive(Default)]
    struct Model(Vec<(Vec<u8>, Vec<u8>, Option<Millis>)>);

    impl Model {
        fn place(&self, field: &[u8]) -> Option<usize> {
            self.0.iter().position(|(other, ..)| other == field)
        }

        fn write(&mut self, field: &[u8], value: Vec<u8>) -> bool {
            match self.place(field) {
                Some(place) => self.0[place].1 = value,
                None => {
                    self.0.push((field.to_vec(), value, None));
                    return true;
                }
            }
            false
        }

        fn set_time(&mut self, field: &[u8], time: Option<Millis>) {
            let Some(place) = self.place(field) else { return };
            if self.0[place].2.is_none() && time.is_none() {
                return;
            }
            let (field, value, _) = self.0.remove(place);
            let behind = |(_, _, other): &(_, _, Option<Millis>)| other.is_none_or(|other| Some(other) >= time);
            let place = if time.is_some() { self.0.iter().position(behind) } else { None };
            self.0.insert(place.unwrap_or(self.0.len()), (field, value, time));
        }
    }

    #[test]
    fn a_hash_is_one_list_until_something_in_it_is_too_much() {
        let limits = HashLimits { packed: 2, longest: 4, converts_upfront: true, packs_times: true };
        let hash_of = |words: &[&str]| {
            let mut hash = Hash::default();
            for pair in words.chunks(2) {
                hash.set(pair[0].as_bytes(), pair[1].as_bytes(), &limits);
            }
            hash
        };
        assert_eq!(hash_of(&["a", "1", "b", "2", "a", "3333"]).encoding(), "listpack");
        assert_eq!(hash_of(&["a", "1", "b", "2", "c", "3"]).encoding(), "hashtable");
        assert_eq!(hash_of(&["a", "11111"]).encoding(), "hashtable");
        assert_eq!(hash_of(&["aaaaa", "1"]).encoding(), "hashtable");
        let expecting = |words: &[&str], limits: &HashLimits| {
            let mut hash = Hash::default();
            hash.expect(words.iter().map(|word| word.as_bytes()), limits);
            hash.encoding()
        };
        let many = ["a", "1", "a", "2", "a", "3"];
        assert_eq!(expecting(&many, &limits), "hashtable");
        assert_eq!(expecting(&many, &HashLimits { converts_upfront: false, ..limits }), "listpack");
        assert_eq!(expecting(&["a", "11111"], &limits), "hashtable");
        let mut hash = hash_of(&["a", "1"]);
        hash.expect_times(&limits);
        assert_eq!(hash.encoding(), "listpackex");
        hash.set_time(b"a", Some(1), &HashLimits { packs_times: false, ..limits });
        assert_eq!(hash.encoding(), "hashtable");
    }

    #[test]
    fn long_fields_and_values_are_kept_whole() {
        let mut hash = Hash::default();
        for length in [0, 1, 22, 23, 24, 254, 255, 256, 70_000] {
            let field = vec![b'f'; length];
            for value in [0, 1, 300, 100_000, 5] {
                hash.set(&field, &vec![b'v'; value], &LIMITS);
                assert_eq!(hash.get(&field), Some(&vec![b'v'; value][..]), "{length} {value}");
            }
        }
        assert_eq!(hash.len(), 9);
    }

    proptest! {
        #[test]
        fn a_hash_is_what_was_written_in_the_order_of_redis(
            steps in prop::collection::vec((0..6u8, 0..40u32, lengths(), 0..50i64), 0..300),
            packed in 0..50usize,
        ) {
            let limits = HashLimits { packed, ..LIMITS };
            let (mut hash, mut model, mut is_packed) = (Hash::default(), Model::default(), true);
            for (step, field, length, time) in steps {
                let field = format!("field:{field}").into_bytes();
                let value = vec![b'v'; length];
                if step < 2 {
                    let more = usize::from(model.place(&field).is_none());
                    is_packed = is_packed && length <= limits.longest && model.0.len() + more <= packed;
                }
                match step {
                    0 => {
                        prop_assert_eq!(hash.set(&field, &value, &limits), model.write(&field, value));
                        model.set_time(&field, None);
                    }
                    1 => prop_assert_eq!(hash.rewrite(&field, &value, &limits), model.write(&field, value)),
                    2 => {
                        let place = model.place(&field);
                        prop_assert_eq!(hash.remove(&field), place.is_some());
                        place.map(|place| model.0.remove(place));
                    }
                    3 => {
                        hash.expect_times(&limits);
                        hash.set_time(&field, Some(time), &limits);
                        model.set_time(&field, Some(time));
                    }
                    4 => {
                        hash.set_time(&field, None, &limits);
                        model.set_time(&field, None);
                    }
                    _ => {
                        hash.hide_expired(time);
                        let before = model.0.len();
                        model.0.retain(|(_, _, until)| until.is_none_or(|until| until >= time));
                        prop_assert_eq!(hash.visible().count(), model.0.len());
                        prop_assert_eq!(hash.expire(time), before - model.0.len());
                    }
                }
                prop_assert_eq!((hash.len(), hash.is_packed()), (model.0.len(), is_packed));
                prop_assert_eq!(hash.earliest(), model.0.iter().filter_map(|(_, _, time)| *time).min());
            }
            let mut listed: Vec<_> =
                hash.iter().map(|pair| (pair.field().to_vec(), pair.value().to_vec(), hash.time(pair.field()))).collect();
            if !hash.is_packed() {
                listed.sort();
                model.0.sort();
            }
            prop_assert_eq!(&listed, &model.0);
            let (mut walked, mut left) = (std::collections::BTreeSet::new(), 0);
            loop {
                hash.prepare_walk(5);
                let (next, pairs) = hash.walk(left, 5);
                let before = walked.len();
                walked.extend(pairs.map(|pair| pair.field().to_vec()));
                prop_assert!(hash.is_packed() || walked.len() <= before + 10);
                left = next;
                if left == 0 {
                    break;
                }
            }
            prop_assert_eq!(walked.len(), hash.visible().count());
        }
    }

    fn lengths() -> impl Strategy<Value = usize> {
        prop_oneof![4 => 0..60_usize, 2 => 60..100_usize, 1 => 240..600_usize]
    }
}
