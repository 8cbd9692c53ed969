//! One key with its value.
//!
//! Most keys of a lock service are a short name with a short string. Such an entry is *packed*: one [`Block`] that holds the
//! header, the key and the string, because at a million keys the bytes around the payload cost more than the payload.
//! Everything else is *boxed*: the block has the place of a [`Value`]. See `docs/decisions/0002-packed-entries.md`.

use super::block::{Block, KEYED};
use super::usage::Usage;
use super::value::{Collection, Text, Value, ValueKind};
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
pub struct Entry(Block<Value, KEYED>);

/// A string of at least so many bytes lies in no block of any entry.
const LONG_TEXT: usize = 8 * 1024;

const _: () = assert!(size_of::<Value>() == 16, "a value is a word and its type");

impl Entry {
    /// An entry of a string that was written as a whole.
    #[inline]
    pub fn string(key: &[u8], value: &[u8], deadline: Option<Millis>, usage: Usage) -> Self {
        match Block::string(key, value, deadline, usage) {
            Some(block) => Self(block),
            None => {
                let text = Text { bytes: value.to_vec(), edited: false, verbatim: false };
                Self::boxed(key, text.into(), deadline, usage)
            }
        }
    }

    pub fn boxed(key: &[u8], value: Value, deadline: Option<Millis>, usage: Usage) -> Self {
        Self(Block::boxed(key, value, deadline, usage))
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
        self.value().map_or(ValueKind::String, Value::kind)
    }

    /// The string; an error if the value has another type.
    #[inline]
    pub fn text(&self) -> Option<TextRef<'_>> {
        match self.value() {
            None => Some(TextRef { bytes: self.0.text(), edited: false, verbatim: self.0.is_verbatim() }),
            Some(Value::String(text)) => {
                Some(TextRef { bytes: &text.bytes, edited: text.edited, verbatim: text.verbatim })
            }
            Some(_) => None,
        }
    }

    /// The value; `None` for a packed string.
    #[inline]
    pub fn value(&self) -> Option<&Value> {
        self.0.value()
    }

    /// The value; `None` if it has another type.
    pub fn collection<T: Collection>(&self) -> Option<&T> {
        T::of(self.value()?)
    }

    /// Like [`collection`](Self::collection), for changes.
    pub fn collection_mut<T: Collection>(&mut self) -> Option<&mut T> {
        T::of_mut(self.0.value_mut()?)
    }

    /// The string as bytes that can be edited in place; `None` if the value has another type.
    pub fn edit_text(&mut self) -> Option<&mut Text> {
        if !self.0.is_boxed() {
            let text = Text { bytes: self.0.text().to_vec(), edited: true, verbatim: false };
            *self = Self::boxed(self.key(), text.into(), self.deadline(), self.usage());
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

    /// Overwrites a long string in the same memory, if it fits and leaves little of it unused.
    fn rewrite_text(&mut self, value: &[u8], deadline: Option<Millis>) -> bool {
        let Some(Value::String(text)) = self.0.value_mut() else { return false };
        let room = text.bytes.capacity();
        if value.len() < LONG_TEXT || value.len() > room || value.len() * 2 < room {
            return false;
        }
        text.bytes.clear();
        text.bytes.extend_from_slice(value);
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
        EntryDeadlines { key: self.deadline(), field: self.value().and_then(Value::first_field_deadline) }
    }

    pub fn set_deadline(&mut self, deadline: Option<Millis>) {
        if !self.0.set_deadline(deadline) {
            *self = self.string_under(self.key(), deadline);
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
        if self.0.is_boxed() { Self(self.0.renamed(key)) } else { self.string_under(key, self.deadline()) }
    }

    /// The string of a packed entry under this key and with this deadline.
    fn string_under(&self, key: &[u8], deadline: Option<Millis>) -> Self {
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
        self.0.size() + self.value().map_or(0, Value::size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                renamed.edit_text().unwrap().bytes.push(b'!');
                renamed.set_deadline(deadlines[1]);
                let edited = [&first[..], b"!"].concat();
                check(&renamed.renamed(&key), &key, &edited, deadlines[1]);
            }
        }
    }
}
