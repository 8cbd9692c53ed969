//! A short copy of a value, and whether another value depends on it as far as anyone can see.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;

use super::reply_value::reply_values;
use super::timestamp::Timestamp;
use crate::powers::ValueClass;

/// How many bytes are kept of the beginning and of the end of a long value.
const HEAD: usize = 64;
const TAIL: usize = 32;
const ROOM: usize = HEAD + TAIL;
/// How many bytes are shown.
const SHOWN: usize = 40;
/// How long a text must be, so that what it shares with another one is no accident.
const TELLING: usize = 12;

/// The seeds with which values are hashed.
const HASH: FixedState = FixedState::with_seed(18);

/// A value, whole if it is short; otherwise its beginning, its end and its hash.
#[derive(Clone, Copy)]
pub struct KeptValue {
    /// `None` if there was no value.
    length: Option<u32>,
    hash: u64,
    bytes: [u8; ROOM],
}

/// How a new value comes from an old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependence {
    /// There was no old value.
    NothingRead,
    /// Nobody can see that it depends on the old one.
    Unseen,
    /// It is a time near now.
    Time,
    /// It is the old one.
    Same,
    /// It is a number, as the old one.
    Number,
    /// It has most of the old text or of the old elements.
    Text,
}

impl Dependence {
    /// Whether it can be seen.
    pub fn is_seen(self) -> bool {
        matches!(self, Self::Number | Self::Text)
    }
}

impl KeptValue {
    pub const NONE: Self = Self { length: None, hash: 0, bytes: [0; ROOM] };

    #[inline]
    pub fn of(value: &[u8]) -> Self {
        let mut kept = Self { length: u32::try_from(value.len()).ok(), hash: 0, bytes: [0; ROOM] };
        match value.len() {
            length @ ..=ROOM => kept.bytes[..length].copy_from_slice(value),
            length => {
                kept.bytes[..HEAD].copy_from_slice(&value[..HEAD]);
                kept.bytes[HEAD..].copy_from_slice(&value[length - TAIL..]);
                kept.hash = HASH.hash_one(value);
            }
        }
        kept
    }

    pub fn is_none(&self) -> bool {
        self.length.is_none()
    }

    pub fn is(&self, value: &[u8]) -> bool {
        self.is_equal(&Self::of(value))
    }

    pub fn is_equal(&self, other: &Self) -> bool {
        (self.length, self.hash, &self.bytes) == (other.length, other.hash, &other.bytes)
    }

    /// The value, or its beginning and its end.
    fn ends(&self) -> (&[u8], &[u8]) {
        match self.length.map_or(0, |length| length as usize) {
            length @ ..=ROOM => (&self.bytes[..length], b""),
            _ => self.bytes.split_at(HEAD),
        }
    }

    /// The value as a sentence shows it, if it is short and can be read.
    pub fn shown(&self) -> Option<String> {
        let (text, _) = self.ends();
        let is_readable = text.len() <= SHOWN && text.iter().all(|byte| matches!(byte, b' '..=b'~'));
        (is_readable && !self.is_none() && !text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
    }

    /// How a new value comes from this one. The times are those of the line that writes it.
    pub fn dependence(&self, new: &[u8], (at, real): (i64, i64)) -> Dependence {
        let (head, tail) = self.ends();
        if Timestamp::in_value(new, at, real).is_some() {
            return Dependence::Time;
        }
        if self.is_none() {
            return Dependence::NothingRead;
        }
        if self.is(new) {
            return Dependence::Same;
        }
        if ValueClass::of_hashed(new).is_some() || ValueClass::of_hashed(head).is_some() {
            return Dependence::Unseen;
        }
        if tail.is_empty() && is_number(head) && is_number(new) {
            return Dependence::Number;
        }
        let is_whole = tail.is_empty();
        let from_head = head.iter().zip(new).take_while(|(old, new)| old == new).count();
        let end = if is_whole { &head[from_head..] } else { tail };
        let left = &new[from_head.min(new.len())..];
        let from_tail = end.iter().rev().zip(left.iter().rev()).take_while(|(old, new)| old == new).count();
        let (length, shared) = (head.len() + tail.len(), from_head + from_tail);
        let is_within = is_whole && length >= 2 && memchr::memmem::find(new, head).is_some();
        let is_part = is_whole && new.len() >= 2 && memchr::memmem::find(head, new).is_some() && length >= TELLING;
        let has_most = shared >= TELLING && shared * 4 >= length.min(new.len()) * 3;
        if is_within || is_part || has_most { Dependence::Text } else { Dependence::Unseen }
    }

    /// The same for new elements: this value is the reply that told the old ones.
    pub fn dependence_of_elements(&self, new: &[&[u8]]) -> Dependence {
        let (head, tail) = self.ends();
        let old = reply_values(head);
        if old.is_empty() {
            return Dependence::NothingRead;
        }
        // The last one may be cut off.
        let old = &old[..if tail.is_empty() { old.len() } else { old.len() - 1 }];
        let old: Vec<&[u8]> = old.iter().filter_map(|value| value.text()).collect();
        let is_among = |value: &&&[u8]| new.contains(*value);
        let shared = old.iter().filter(is_among).count();
        match shared {
            0 => Dependence::Unseen,
            shared if shared * 2 >= old.len().min(new.len()) => Dependence::Text,
            _ => Dependence::Unseen,
        }
    }
}

/// Whether a text is a number as programs write them.
fn is_number(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    matches!(digits.len(), 1..=18)
        && digits.first().is_some_and(u8::is_ascii_digit)
        && digits.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
        && digits.iter().filter(|byte| **byte == b'.').count() <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: (i64, i64) = (1_700_000_000_000_000, 1_700_000_000_000_000);

    fn dependence(old: &str, new: &str) -> Dependence {
        KeptValue::of(old.as_bytes()).dependence(new.as_bytes(), NOW)
    }

    #[test]
    fn a_value_that_has_most_of_the_old_one_depends_on_it() {
        let long = "a document that is longer than what is kept of it, ".repeat(4);
        for (old, new) in [
            (r#"{"user":"ada","cart":[]}"#, r#"{"user":"ada","cart":["lamp"]}"#),
            (r#"["A1", "A2", "A3", "A4"]"#, r#"["A2", "A3", "A4"]"#),
            ("ab", "abc"),
            (&long, &format!("{long}and{long}")),
        ] {
            assert_eq!(dependence(old, new), Dependence::Text, "{old} {new}");
        }
        // Of a long value, only the beginning and the end are kept: pages from one template have one of them in common.
        for new in [format!("{long} and an end"), format!("a beginning and {long}")] {
            assert_eq!(dependence(&long, &new), Dependence::Unseen, "{new}");
        }
        assert_eq!(dependence("1000", "1120"), Dependence::Number);
        assert_eq!(dependence("10.5", "-2"), Dependence::Number);
    }

    #[test]
    fn a_value_of_its_own_does_not() {
        let long = "a".repeat(200);
        for (old, new) in
            [("idle", "busy"), ("on", "off"), (&long, "b"), ("red", "9"), ("h:00000000000000ab", "h:00000000000000ac")]
        {
            assert_eq!(dependence(old, new), Dependence::Unseen, "{old} {new}");
        }
        assert_eq!(dependence("1700000000", "1700000005"), Dependence::Time);
        assert_eq!(dependence(&long, &long), Dependence::Same);
        assert_eq!(KeptValue::NONE.dependence(b"7", NOW), Dependence::NothingRead);
    }

    #[test]
    fn a_list_with_the_old_elements_depends_on_them() {
        let old = KeptValue::of(b"*2\r\n$4\r\nlamp\r\n$5\r\nchair\r\n");
        assert_eq!(old.dependence_of_elements(&[b"lamp", b"chair", b"table"]), Dependence::Text);
        assert_eq!(old.dependence_of_elements(&[b"chair"]), Dependence::Text);
        assert_eq!(old.dependence_of_elements(&[b"x", b"y"]), Dependence::Unseen);
        assert_eq!(KeptValue::of(b"*0\r\n").dependence_of_elements(&[b"x"]), Dependence::NothingRead);
    }
}
