//! One key with its value.
//!
//! Most keys of a lock service are a short name with a short string. Such an entry is *packed*: one allocation that
//! holds the header, the key and the value, behind a thin pointer, because at a million keys the bytes around the
//! payload cost more than the payload. Everything else is *boxed*. See `docs/decisions/0002-packed-entries.md`.

use thin_vec::ThinVec;

use super::usage::Usage;
use super::value::{Collection, Text, Value, ValueKind};
use crate::base::clock::Millis;

/// The longest key and the longest entry that are packed.
const PACKED_KEY: usize = u8::MAX as usize;
const PACKED_SIZE: usize = 4096;

/// Offsets in a packed entry: one byte of key length, one of flags, four of usage, eight of deadline if it has
/// one, then the key, then the value.
const USAGE: usize = 2;
const FIXED: usize = 6;
const DEADLINE: u8 = 1;
const VERBATIM: u8 = 2;
const PRIVATE: u8 = 4;
const DEADLINE_SIZE: usize = 8;

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
pub enum Entry {
    Packed(Packed),
    Boxed(Box<Boxed>),
}

#[derive(Clone)]
pub struct Packed(ThinVec<u8>);

#[derive(Clone)]
pub struct Boxed {
    key: Box<[u8]>,
    deadline: Option<Millis>,
    usage: Usage,
    private: bool,
    pub value: Value,
}

impl Entry {
    /// An entry of a string that was written as a whole.
    pub fn string(key: &[u8], value: &[u8], deadline: Option<Millis>, usage: Usage) -> Self {
        match Packed::new(key, value, deadline, usage) {
            Some(packed) => Self::Packed(packed),
            None => {
                let text = Text { bytes: value.to_vec(), edited: false, verbatim: false };
                Self::boxed(key, Value::String(text), deadline, usage)
            }
        }
    }

    pub fn boxed(key: &[u8], value: Value, deadline: Option<Millis>, usage: Usage) -> Self {
        Self::Boxed(Box::new(Boxed { key: key.into(), deadline, usage, private: false, value }))
    }

    /// The address of the entry's bytes, for prefetching.
    #[inline]
    pub fn address(&self) -> *const u8 {
        match self {
            // A thin vector's header precedes its bytes.
            Self::Packed(packed) => packed.0.as_ptr().wrapping_sub(PACKED_HEADER),
            Self::Boxed(boxed) => (&raw const **boxed).cast(),
        }
    }

    #[inline]
    pub fn key(&self) -> &[u8] {
        match self {
            Self::Packed(packed) => packed.key(),
            Self::Boxed(boxed) => &boxed.key,
        }
    }

    pub fn kind(&self) -> ValueKind {
        match self {
            Self::Packed(_) => ValueKind::String,
            Self::Boxed(boxed) => boxed.value.kind(),
        }
    }

    /// The string; an error if the value has another type.
    #[inline]
    pub fn text(&self) -> Option<TextRef<'_>> {
        match self {
            Self::Packed(packed) => {
                Some(TextRef { bytes: packed.value(), edited: false, verbatim: packed.is_verbatim() })
            }
            Self::Boxed(boxed) => match &boxed.value {
                Value::String(text) => {
                    Some(TextRef { bytes: &text.bytes, edited: text.edited, verbatim: text.verbatim })
                }
                _ => None,
            },
        }
    }

    /// The value; `None` for a packed string.
    pub fn value(&self) -> Option<&Value> {
        match self {
            Self::Boxed(boxed) => Some(&boxed.value),
            Self::Packed(_) => None,
        }
    }

    /// The value; `None` if it has another type.
    pub fn collection<T: Collection>(&self) -> Option<&T> {
        match self {
            Self::Boxed(boxed) => T::of(&boxed.value),
            Self::Packed(_) => None,
        }
    }

    /// Like [`collection`](Self::collection), for changes.
    pub fn collection_mut<T: Collection>(&mut self) -> Option<&mut T> {
        match self {
            Self::Boxed(boxed) => T::of_mut(&mut boxed.value),
            Self::Packed(_) => None,
        }
    }

    /// The string as bytes that can be edited in place; `None` if the value has another type.
    pub fn edit_text(&mut self) -> Option<&mut Text> {
        if let Self::Packed(packed) = self {
            let text = Text { bytes: packed.value().to_vec(), edited: true, verbatim: false };
            *self = Self::boxed(packed.key(), Value::String(text), packed.deadline(), packed.usage());
        }
        match self {
            Self::Boxed(boxed) => match &mut boxed.value {
                Value::String(text) => {
                    text.edited = true;
                    Some(text)
                }
                _ => None,
            },
            Self::Packed(_) => None,
        }
    }

    /// Replaces value and deadline by a string's, whatever the type of the old value. Writes in place where it fits.
    pub fn write_string(&mut self, value: &[u8], deadline: Option<Millis>) {
        if let Self::Packed(packed) = self
            && packed.rewrite(value, deadline)
        {
            return;
        }
        *self = Self::string(self.key(), value, deadline, self.usage());
    }

    /// Marks a string as text, even if it reads as an integer, until it is next written.
    pub fn set_verbatim(&mut self) {
        match self {
            Self::Packed(packed) => packed.0[1] |= VERBATIM,
            Self::Boxed(boxed) => {
                if let Value::String(text) = &mut boxed.value {
                    text.verbatim = true;
                }
            }
        }
    }

    /// Marks a value as not shared until it is next written. Unlike SET, COPY does not share small integers.
    pub fn set_private(&mut self) {
        match self {
            Self::Packed(packed) => packed.0[1] |= PRIVATE,
            Self::Boxed(boxed) => boxed.private = true,
        }
    }

    pub fn is_private(&self) -> bool {
        match self {
            Self::Packed(packed) => packed.0[1] & PRIVATE != 0,
            Self::Boxed(boxed) => boxed.private,
        }
    }

    #[inline]
    pub fn deadline(&self) -> Option<Millis> {
        match self {
            Self::Packed(packed) => packed.deadline(),
            Self::Boxed(boxed) => boxed.deadline,
        }
    }

    #[inline]
    pub fn due(&self) -> EntryDeadlines {
        match self {
            Self::Packed(packed) => EntryDeadlines { key: packed.deadline(), field: None },
            Self::Boxed(boxed) => EntryDeadlines { key: boxed.deadline, field: boxed.value.first_field_deadline() },
        }
    }

    pub fn set_deadline(&mut self, deadline: Option<Millis>) {
        match self {
            Self::Packed(packed) => packed.set_deadline(deadline),
            Self::Boxed(boxed) => boxed.deadline = deadline,
        }
    }

    pub fn usage(&self) -> Usage {
        match self {
            Self::Packed(packed) => packed.usage(),
            Self::Boxed(boxed) => boxed.usage,
        }
    }

    #[inline]
    pub fn set_usage(&mut self, usage: Usage) {
        match self {
            Self::Packed(packed) => packed.set_usage(usage),
            Self::Boxed(boxed) => boxed.usage = usage,
        }
    }

    /// The same value under another key.
    pub fn renamed(self, key: &[u8]) -> Self {
        match self {
            Self::Packed(packed) => {
                let mut renamed = Self::string(key, packed.value(), packed.deadline(), packed.usage());
                if packed.is_verbatim() {
                    renamed.set_verbatim();
                }
                if packed.0[1] & PRIVATE != 0 {
                    renamed.set_private();
                }
                renamed
            }
            Self::Boxed(mut boxed) => {
                boxed.key = key.into();
                Self::Boxed(boxed)
            }
        }
    }

    /// The memory of the entry in bytes, with its slot in the table.
    #[inline]
    pub fn footprint(&self) -> usize {
        self.size() + size_of::<Self>() + 1
    }

    /// The memory of the entry in bytes, without its slot in the table.
    pub fn size(&self) -> usize {
        match self {
            Self::Packed(packed) => packed.0.capacity() + PACKED_HEADER,
            Self::Boxed(boxed) => size_of::<Boxed>() + boxed.key.len() + boxed.value.size(),
        }
    }
}

/// A thin vector keeps its length and capacity in front of its bytes.
const PACKED_HEADER: usize = 16;

impl Packed {
    fn new(key: &[u8], value: &[u8], deadline: Option<Millis>, usage: Usage) -> Option<Self> {
        let size = Self::size(key, value, deadline);
        if key.len() > PACKED_KEY || size > PACKED_SIZE {
            return None;
        }
        let mut bytes = ThinVec::with_capacity(size);
        bytes.push(key.len() as u8);
        bytes.push(if deadline.is_some() { DEADLINE } else { 0 });
        bytes.extend_from_slice(&usage.to_bits().to_le_bytes());
        if let Some(deadline) = deadline {
            bytes.extend_from_slice(&deadline.to_le_bytes());
        }
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        Some(Self(bytes))
    }

    fn size(key: &[u8], value: &[u8], deadline: Option<Millis>) -> usize {
        FIXED + deadline.map_or(0, |_| DEADLINE_SIZE) + key.len() + value.len()
    }

    fn key_start(&self) -> usize {
        FIXED + if self.0[1] & DEADLINE != 0 { DEADLINE_SIZE } else { 0 }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        let bytes = self.0.as_slice();
        let start = FIXED + if bytes[1] & DEADLINE != 0 { DEADLINE_SIZE } else { 0 };
        &bytes[start..start + usize::from(bytes[0])]
    }

    #[inline]
    fn value(&self) -> &[u8] {
        let bytes = self.0.as_slice();
        let start = FIXED + if bytes[1] & DEADLINE != 0 { DEADLINE_SIZE } else { 0 };
        &bytes[start + usize::from(bytes[0])..]
    }

    #[inline]
    fn deadline(&self) -> Option<Millis> {
        if self.0[1] & DEADLINE == 0 {
            return None;
        }
        let bytes = self.0[FIXED..FIXED + DEADLINE_SIZE].try_into().ok()?;
        Some(Millis::from_le_bytes(bytes))
    }

    fn set_deadline(&mut self, deadline: Option<Millis>) {
        match (self.0[1] & DEADLINE != 0, deadline) {
            (true, Some(deadline)) => {
                self.0[FIXED..FIXED + DEADLINE_SIZE].copy_from_slice(&deadline.to_le_bytes());
            }
            (false, None) => {}
            (false, Some(deadline)) => {
                let old = self.0.len();
                self.0.reserve_exact(DEADLINE_SIZE);
                self.0.extend_from_slice(&[0; DEADLINE_SIZE]);
                self.0.copy_within(FIXED..old, FIXED + DEADLINE_SIZE);
                self.0[FIXED..FIXED + DEADLINE_SIZE].copy_from_slice(&deadline.to_le_bytes());
                self.0[1] |= DEADLINE;
            }
            (true, None) => {
                self.0.copy_within(FIXED + DEADLINE_SIZE.., FIXED);
                let shorter = self.0.len() - DEADLINE_SIZE;
                self.0.truncate(shorter);
                self.0[1] &= !DEADLINE;
            }
        }
    }

    fn is_verbatim(&self) -> bool {
        self.0[1] & VERBATIM != 0
    }

    fn usage(&self) -> Usage {
        self.0[USAGE..FIXED].try_into().map_or(Usage::default(), |bytes| Usage::from_bits(u32::from_le_bytes(bytes)))
    }

    #[inline]
    fn set_usage(&mut self, usage: Usage) {
        self.0[USAGE..FIXED].copy_from_slice(&usage.to_bits().to_le_bytes());
    }

    /// Overwrites the value in the same allocation, if it fits and leaves little of it unused.
    fn rewrite(&mut self, value: &[u8], deadline: Option<Millis>) -> bool {
        let size = Self::size(self.key(), value, deadline);
        let room = self.0.capacity();
        if size > room || size * 2 + 64 < room {
            return false;
        }
        self.0[1] &= !(VERBATIM | PRIVATE);
        self.set_deadline(deadline);
        let value_start = self.key_start() + usize::from(self.0[0]);
        self.0.truncate(value_start);
        self.0.extend_from_slice(value);
        true
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
    fn an_entry_takes_no_more_than_two_words_of_table() {
        assert_eq!(size_of::<Entry>(), 16);
    }
}
