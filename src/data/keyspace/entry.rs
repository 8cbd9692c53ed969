//! One key with its value.
//!
//! Most keys of a lock service are a short name with a short string or a small collection. Such an entry is *packed*: one
//! [`Block`] that holds the header, the key and the value, because at a million keys the bytes around the payload cost more
//! than the payload. Everything else is *boxed*: the block has the place of a [`Value`]. See `docs/decisions/0002-packed-entries.md`.

use std::borrow::Cow;

use super::block::Block;
use super::hash::Hash;
use super::list::List;
use super::set::Set;
use super::sorted_set::SortedSet;
use super::stream::Stream;
use super::text_bytes::{StringValue, TextBytes};
use super::usage::Usage;
use super::value::{Collection, Text, Value, ValueKind, small_kind};
use crate::base::clock::Millis;

/// A string value as a read returns it.
#[derive(Clone, Copy)]
pub struct TextRef<'a> {
    pub bytes: &'a [u8],
    pub edited: bool,
    pub verbatim: bool,
}

/// The deadline of a key, and the earliest deadline of a part of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryDeadlines {
    pub key: Option<Millis>,
    pub field: Option<Millis>,
}

impl EntryDeadlines {
    pub const NONE: Self = Self { key: None, field: None };

    #[inline]
    pub fn first(self) -> Option<Millis> {
        match (self.key, self.field) {
            (Some(key), Some(field)) => Some(key.min(field)),
            (key, field) => key.or(field),
        }
    }
}

/// A key with its value, its deadline and its usage.
#[derive(Clone)]
pub struct Entry(Block<Value>);

/// A value by type.
pub enum ValueRef<'a> {
    String(&'a [u8]),
    List(&'a List),
    Set(&'a Set),
    SortedSet(&'a SortedSet),
    Hash(&'a Hash),
    Stream(&'a Stream),
}

/// A string of at least so many bytes lies in no block of any entry.
const LONG_TEXT: usize = 8 * 1024;

const _: () = assert!(size_of::<Value>() == 16, "a value is a word and its type");

impl Entry {
    /// An entry of a string that was written as a whole.
    #[inline]
    pub fn string(key: &[u8], value: &[u8], deadline: Option<Millis>, usage: Usage) -> Self {
        match Block::string(key, value, deadline, usage) {
            Some(block) => Self(block),
            None => Self::long_string(key, TextBytes::of(value), deadline, usage),
        }
    }

    /// An entry of a long string that was written as a whole.
    pub fn long_string(key: &[u8], bytes: TextBytes, deadline: Option<Millis>, usage: Usage) -> Self {
        Self::of(key, Text { bytes, edited: false, verbatim: false }.into(), deadline, usage)
    }

    /// An entry of any value. A small collection is packed.
    pub fn of(key: &[u8], value: Value, deadline: Option<Millis>, usage: Usage) -> Self {
        let packed = value.small_text().and_then(|text| Block::collection(key, text, deadline, usage));
        Self(packed.unwrap_or_else(|| Block::boxed(key, value, deadline, usage)))
    }

    /// The address of the entry's bytes, for prefetching.
    #[inline]
    pub fn address(&self) -> *const u8 {
        self.0.address()
    }

    #[inline]
    pub fn key(&self) -> &[u8] {
        self.0.key()
    }

    /// Whether this is the entry of a key.
    #[inline]
    pub fn is_of(&self, key: &[u8]) -> bool {
        self.0.has_key(key)
    }

    #[inline]
    pub fn kind(&self) -> ValueKind {
        match self.0.value() {
            Some(value) => value.kind(),
            None => small_kind(&self.0).unwrap_or(ValueKind::String),
        }
    }

    /// The string; an error if the value has another type.
    #[inline]
    pub fn text(&self) -> Option<TextRef<'_>> {
        match self.0.value() {
            None if self.0.is_collection() => None,
            None => Some(TextRef { bytes: self.0.text(), edited: false, verbatim: self.0.is_verbatim() }),
            Some(Value::String(text)) => {
                Some(TextRef { bytes: &text.bytes, edited: text.edited, verbatim: text.verbatim })
            }
            Some(_) => None,
        }
    }

    /// The string as a reply takes it; `None` if the value has another type.
    #[inline]
    pub fn string_value(&self) -> Option<StringValue<'_>> {
        match self.0.value() {
            None if self.0.is_collection() => None,
            None => Some(StringValue::Plain(Cow::Borrowed(self.0.text()))),
            Some(Value::String(text)) => Some(text.bytes.value()),
            Some(_) => None,
        }
    }

    /// Whether a clone shares much with it, and is made in much less time than the serialized form.
    pub fn shares_much(&self) -> bool {
        matches!(self.0.value(), Some(Value::Stream(stream)) if stream.shares_much())
    }

    pub fn value(&self) -> ValueRef<'_> {
        match self.0.value() {
            Some(Value::String(text)) => ValueRef::String(&text.bytes),
            Some(Value::List(list)) => ValueRef::List(list),
            Some(Value::Set(set)) => ValueRef::Set(set),
            Some(Value::SortedSet(set)) => ValueRef::SortedSet(set),
            Some(Value::Hash(hash)) => ValueRef::Hash(hash),
            Some(Value::Stream(stream)) => ValueRef::Stream(stream),
            None => self.packed_value(),
        }
    }

    fn packed_value(&self) -> ValueRef<'_> {
        let value = match small_kind(&self.0) {
            Some(ValueKind::List) => self.collection().map(ValueRef::List),
            Some(ValueKind::Set) => self.collection().map(ValueRef::Set),
            Some(ValueKind::SortedSet) => self.collection().map(ValueRef::SortedSet),
            Some(ValueKind::Hash) => self.collection().map(ValueRef::Hash),
            Some(ValueKind::String | ValueKind::Stream) | None => None,
        };
        value.unwrap_or_else(|| ValueRef::String(self.0.text()))
    }

    /// The value; `None` if it has another type.
    #[inline]
    pub fn collection<T: Collection>(&self) -> Option<&T> {
        match self.0.value() {
            Some(value) => T::of(value),
            None => T::in_block(&self.0),
        }
    }

    /// Changes the value; `None` if it has another type.
    #[inline]
    pub fn change<T: Collection, R>(&mut self, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        match self.0.value_mut() {
            Some(value) => T::of_mut(value).map(change),
            None => T::change_in_block(&mut self.0, change),
        }
    }

    /// The string as bytes that can be edited in place; `None` if the value has another type.
    pub fn edit_text(&mut self) -> Option<&mut Text> {
        if self.0.is_collection() {
            return None;
        }
        if !self.0.is_boxed() {
            let bytes = TextBytes::Owned(self.0.text().to_vec());
            let text = Text { bytes, edited: true, verbatim: false };
            *self = Self::of(self.key(), text.into(), self.deadline(), self.usage());
        }
        match self.0.value_mut() {
            Some(Value::String(text)) => {
                text.edited = true;
                Some(text)
            }
            _ => None,
        }
    }

    /// Replaces value and deadline by a string's, whatever the type of the old value. Writes in place where it fits.
    #[inline]
    pub fn write_string(&mut self, value: &[u8], deadline: Option<Millis>) {
        if !self.0.rewrite(value, deadline) && !self.rewrite_text(value, deadline) {
            *self = Self::string(self.key(), value, deadline, self.usage());
        }
    }

    /// As [`write_string`](Self::write_string), for a long one.
    pub fn write_long_string(&mut self, bytes: TextBytes, deadline: Option<Millis>) {
        *self = Self::long_string(self.key(), bytes, deadline, self.usage());
    }

    /// Overwrites a long string in the same memory, if it fits and leaves little of it unused.
    fn rewrite_text(&mut self, value: &[u8], deadline: Option<Millis>) -> bool {
        let Some(Value::String(text)) = self.0.value_mut() else { return false };
        if value.len() < LONG_TEXT || !text.bytes.overwrite(value) {
            return false;
        }
        (text.edited, text.verbatim) = (false, false);
        self.0.clear_private();
        self.set_deadline(deadline);
        true
    }

    /// Marks a string as text, even if it reads as an integer, until it is next written.
    pub fn set_verbatim(&mut self) {
        match self.0.value_mut() {
            Some(Value::String(text)) => text.verbatim = true,
            Some(_) => {}
            None => self.0.set_verbatim(),
        }
    }

    /// Marks a value as not shared until it is next written. Unlike SET, COPY does not share small integers.
    pub fn set_private(&mut self) {
        self.0.set_private();
    }

    pub fn is_private(&self) -> bool {
        self.0.is_private()
    }

    #[inline]
    pub fn deadline(&self) -> Option<Millis> {
        self.0.deadline()
    }

    #[inline]
    pub fn due(&self) -> EntryDeadlines {
        if self.0.is_plain() {
            return EntryDeadlines::NONE;
        }
        EntryDeadlines { key: self.deadline(), field: self.0.value().and_then(Value::first_field_deadline) }
    }

    pub fn set_deadline(&mut self, deadline: Option<Millis>) {
        if !self.0.set_deadline(deadline) {
            *self = self.under(self.key(), deadline);
        }
    }

    pub fn usage(&self) -> Usage {
        self.0.usage()
    }

    #[inline]
    pub fn set_usage(&mut self, usage: Usage) {
        self.0.set_usage(usage);
    }

    /// The same value under another key.
    pub fn renamed(self, key: &[u8]) -> Self {
        if self.0.is_boxed() { Self(self.0.renamed(key)) } else { self.under(key, self.deadline()) }
    }

    /// The value of a packed entry under this key and with this deadline.
    fn under(&self, key: &[u8], deadline: Option<Millis>) -> Self {
        if let Some(kind) = small_kind(&self.0) {
            return Self::of(key, Value::of_small_text(kind, self.0.text()), deadline, self.usage());
        }
        let mut entry = Self::string(key, self.0.text(), deadline, self.usage());
        if self.0.is_verbatim() {
            entry.set_verbatim();
        }
        if self.is_private() {
            entry.set_private();
        }
        entry
    }

    /// The memory of the entry in bytes, with its slot in the table.
    #[inline]
    pub fn footprint(&self) -> usize {
        self.size() + size_of::<Self>() + 1
    }

    /// The memory of the entry in bytes, without its slot in the table.
    #[inline]
    pub fn size(&self) -> usize {
        self.0.size() + self.0.value().map_or(0, Value::size)
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::panic::AssertUnwindSafe;

    use super::*;
    use crate::data::keyspace::hash::HashLimits;
    use crate::data::keyspace::set::SetLimits;

    #[test]
    fn a_packed_entry_keeps_its_parts_apart_whatever_changes() {
        let mut entry = Entry::string(b"lock:1", b"token", None, Usage::at(7000));
        entry.set_deadline(Some(123_456));
        assert_eq!((entry.key(), entry.text().unwrap().bytes), (&b"lock:1"[..], &b"token"[..]));
        assert_eq!((entry.deadline(), entry.usage()), (Some(123_456), Usage::at(7000)));
        entry.write_string(b"", Some(99));
        assert_eq!((entry.key(), entry.text().unwrap().bytes), (&b"lock:1"[..], &b""[..]));
        entry.write_string(&[b'x'; 5000], None);
        assert_eq!((entry.text().unwrap().bytes.len(), entry.deadline(), entry.usage()), (5000, None, Usage::at(7000)));
        entry.write_string(b"short", Some(1));
        entry.set_deadline(None);
        assert_eq!((entry.key(), entry.text().unwrap().bytes, entry.deadline()), (&b"lock:1"[..], &b"short"[..], None));
    }

    #[test]
    fn an_entry_takes_one_word_of_table_and_seven_bytes_beside_key_and_string() {
        assert_eq!(size_of::<Option<Entry>>(), 8);
        assert_eq!(Entry::string(&[b'k'; 17], &[b'v'; 64], None, Usage::default()).size(), 88);
        assert_eq!(Entry::string(&[b'k'; 17], &[b'v'; 65], None, Usage::default()).size(), 104);
        assert_eq!(Entry::string(b"k", b"", None, Usage::default()).size(), 24);
    }

    /// Every length at which the layout changes, with each combination of deadlines before and after.
    #[test]
    fn no_length_of_key_or_string_is_mistaken_for_another() {
        // An interpreter that looks for undefined behaviour takes too long for all of them.
        let lengths: &[usize] =
            if cfg!(miri) { &[0, 17, 30, 255] } else { &[0, 1, 9, 16, 17, 30, 254, 255, 4000, 4080, 4081, 70_000] };
        let of = |length: usize, seed: usize| -> Vec<u8> { (0..length).map(|at| (at * 7 + seed) as u8).collect() };
        for (key_length, first) in lengths.iter().flat_map(|key| lengths.iter().map(|first| (*key, *first))) {
            let (key, first) = (of(key_length, 1), of(first, 2));
            for (second, deadlines) in lengths.iter().zip([[None, Some(7)], [Some(Millis::MAX), None]].iter().cycle()) {
                let second = of(*second, 3);
                let mut entry = Entry::string(&key, &first, deadlines[0], Usage::at(9000));
                let check = |entry: &Entry, key: &[u8], text: &[u8], deadline| {
                    assert_eq!((entry.key(), entry.text().unwrap().bytes), (key, text));
                    assert_eq!((entry.deadline(), entry.usage()), (deadline, Usage::at(9000)));
                };
                check(&entry, &key, &first, deadlines[0]);
                entry.write_string(&second, deadlines[0]);
                check(&entry, &key, &second, deadlines[0]);
                entry.set_verbatim();
                entry.set_deadline(deadlines[1]);
                check(&entry.clone(), &key, &second, deadlines[1]);
                entry.write_string(&first, deadlines[0]);
                entry.set_private();
                check(&entry, &key, &first, deadlines[0]);
                assert!(!entry.text().unwrap().verbatim);
                entry.set_private();
                entry.write_string(&first, deadlines[1]);
                check(&entry, &key, &first, deadlines[1]);
                assert!(!entry.is_private());
                entry.write_string(&first, deadlines[0]);
                entry.set_private();
                let mut renamed = entry.clone().renamed(&second);
                check(&renamed, &second, &first, deadlines[0]);
                assert!(renamed.is_private());
                renamed.edit_text().unwrap().bytes.to_mut().push(b'!');
                renamed.set_deadline(deadlines[1]);
                let edited = [&first[..], b"!"].concat();
                check(&renamed.renamed(&key), &key, &edited, deadlines[1]);
            }
        }
    }

    const SETS: SetLimits = SetLimits { integers: 512, packed: 1000, longest: 64, converts_upfront: false };

    fn members(entry: &Entry) -> Vec<Vec<u8>> {
        entry.collection().map_or_else(Vec::new, |set: &Set| set.iter().map(Cow::into_owned).collect())
    }

    #[test]
    fn a_collection_keeps_key_and_deadline_whatever_is_made_of_it() {
        for (key, deadline) in [(0, None), (0, Some(7)), (17, None), (17, Some(7)), (254, Some(7)), (255, Some(7))] {
            let key = vec![b'k'; key];
            let mut entry = Entry::of(&key, Set::packed().into(), deadline, Usage::at(9000));
            let mut all = Vec::new();
            let check = |entry: &Entry, all: &[Vec<u8>]| {
                assert_eq!((entry.key(), entry.kind(), members(entry)), (&key[..], ValueKind::Set, all.to_vec()));
                assert_eq!((entry.deadline(), entry.usage()), (deadline, Usage::at(9000)));
                assert!(entry.text().is_none() && entry.collection::<Hash>().is_none());
            };
            for number in 0..if cfg!(miri) { 40 } else { 400 } {
                all.push(vec![b'm'; 20 + number]);
                entry.change(|set: &mut Set| set.add(&all[number], &SETS)).unwrap();
                check(&entry, &all);
                check(&entry.clone(), &all);
            }
            assert!(entry.change(|hash: &mut Hash| hash.remove(b"m")).is_none() && entry.edit_text().is_none());
            let mut other = Entry::of(b"other", Set::packed().into(), None, Usage::default());
            other.change(|set: &mut Set| *set = entry.collection::<Set>().unwrap().clone());
            assert_eq!((other.key(), other.deadline(), members(&other)), (&b"other"[..], None, all.clone()));
            entry.change(|set: &mut Set| *set = Set::of_integers());
            check(&entry, &[]);
            entry.change(|set: &mut Set| *set = Set::of_members());
            check(&entry, &[]);
            entry.set_verbatim();
            entry.set_private();
            check(&entry.renamed(b"another").renamed(&key), &[]);
        }
    }

    #[test]
    fn a_panic_leaves_an_entry_whole() {
        for element in [&[b'e'; 3][..], &[b'e'; 5000]] {
            let mut entry = Entry::of(b"key", Hash::default().into(), Some(7), Usage::at(9000));
            let limits = HashLimits { packed: 9, longest: 9, converts_upfront: false, packs_times: false };
            let change = |hash: &mut Hash| {
                hash.set(b"field", element, &limits);
                panic!("{}", hash.len());
            };
            std::panic::catch_unwind(AssertUnwindSafe(|| entry.change(change))).unwrap_err();
            assert_eq!(entry.collection::<Hash>().unwrap().get(b"field"), Some(element));
            assert_eq!((entry.key(), entry.deadline()), (&b"key"[..], Some(7)));
        }
    }
}
