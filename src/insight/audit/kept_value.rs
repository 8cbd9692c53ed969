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

/// What one of two changes makes of the other one, if both were made from the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// The other change is undone: both counted, both added or removed something, or they are at different places.
    Undone,
    /// Both have put something else in the same place, or nobody can see it.
    Replaced,
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

    /// What a new value makes of another one, which was written from this one meanwhile.
    pub fn conflict(&self, theirs: &Self, ours: &[u8]) -> Conflict {
        let ((base, base_tail), (theirs, theirs_tail)) = (self.ends(), theirs.ends());
        if !base_tail.is_empty() || !theirs_tail.is_empty() || ours.len() > ROOM {
            return Conflict::Replaced;
        }
        let is_zero = |number: &[u8]| number == b"0";
        if [base, theirs, ours].into_iter().all(is_number) {
            return if is_zero(theirs) || is_zero(ours) { Conflict::Replaced } else { Conflict::Undone };
        }
        let (own, other) = (Edit::of(base, ours), Edit::of(base, theirs));
        let (own_part, other_part) = (own.part(base), other.part(base));
        let are_apart = own_part.1 <= other_part.0 || other_part.1 <= own_part.0;
        let are_insertions = own.is_insertion(base, ours) && other.is_insertion(base, theirs);
        let are_alike = are_insertions || own.is_removal(base) && other.is_removal(base);
        if are_apart || are_alike || own.changes_number(&other, base, theirs, ours) {
            Conflict::Undone
        } else {
            Conflict::Replaced
        }
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

/// Where a text differs from an older one: these bytes of the older one have become so many others.
struct Edit {
    from: usize,
    to: usize,
    length: usize,
}

impl Edit {
    fn of(old: &[u8], new: &[u8]) -> Self {
        let from = old.iter().zip(new).take_while(|(old, new)| old == new).count();
        let (old_rest, new_rest) = (&old[from..], &new[from..]);
        let same = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(old, new)| old == new).count();
        Self { from, to: old.len() - same, length: new_rest.len() - same }
    }

    /// The whole part that has changed: a time, a name and a number change in some of their letters alone.
    fn part(&self, old: &[u8]) -> (usize, usize) {
        let is_inside = |byte: &&u8| !is_between(**byte);
        let before = old[..self.from].iter().rev().take_while(is_inside).count();
        let behind = old[self.to..].iter().take_while(is_inside).count();
        (self.from - before, self.to + behind)
    }

    /// Whether parts have come, and none has gone.
    fn is_insertion(&self, old: &[u8], new: &[u8]) -> bool {
        self.from == self.to && self.length > 0 && self.is_of_parts(old, &new[self.from..self.from + self.length])
    }

    /// Whether parts have gone, and none has come.
    fn is_removal(&self, old: &[u8]) -> bool {
        self.from < self.to && self.length == 0 && self.is_of_parts(old, &old[self.from..self.to])
    }

    fn is_of_parts(&self, old: &[u8], changed: &[u8]) -> bool {
        let before = old[..self.from].last();
        let around = before.into_iter().chain(old.get(self.to)).chain(changed.first()).chain(changed.last());
        around.into_iter().any(|byte| is_between(*byte) || *byte == b' ')
    }

    /// Whether both edits have changed one number in a text.
    fn changes_number(&self, other: &Self, base: &[u8], theirs: &[u8], ours: &[u8]) -> bool {
        let is_part = |byte: &&u8| byte.is_ascii_digit() || **byte == b'.';
        let (from, to) = (self.from.min(other.from), self.to.max(other.to));
        let from = from - base[..from].iter().rev().take_while(is_part).count();
        let after = base.len() - to - base[to..].iter().take_while(is_part).count();
        let number = |text: &[u8]| {
            let number = text.len().checked_sub(after).and_then(|to| text.get(from..to)).unwrap_or_default();
            is_number(number) && number != b"0" && number.len() < TIME_DIGITS
        };
        [base, theirs, ours].into_iter().all(number)
    }
}

/// Whether a character stands between the parts of a text.
fn is_between(byte: u8) -> bool {
    matches!(byte, b',' | b';' | b'|' | b'=' | b'&' | b'"' | b'\'' | b'\n' | b'\r' | b'\t')
        || matches!(byte, b'{' | b'}' | b'[' | b']' | b'(' | b')' | b'<' | b'>')
}

/// How many digits a number has that may be a time.
const TIME_DIGITS: usize = 10;

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
    fn of_two_changes_one_undoes_the_other_unless_both_replace_the_same() {
        let conflict = |base: &str, theirs: &str, ours: &str| {
            KeptValue::of(base.as_bytes()).conflict(&KeptValue::of(theirs.as_bytes()), ours.as_bytes())
        };
        for (base, theirs, ours) in [
            ("1000", "1045", "1300"),
            ("10.5", "9.5", "11"),
            ("[]", "[1]", "[2]"),
            (r#"{"cart":["lamp"]}"#, r#"{"cart":["lamp","chair"]}"#, r#"{"cart":["lamp","table"]}"#),
            (r#"["A1","A2","A3"]"#, r#"["A2","A3"]"#, r#"["A1","A2"]"#),
            (r#"{"name":"ada","mail":"a@b"}"#, r#"{"name":"eve","mail":"a@b"}"#, r#"{"name":"ada","mail":"c@d"}"#),
            (r#"{"left":100,"of":"x"}"#, r#"{"left":97,"of":"x"}"#, r#"{"left":109,"of":"x"}"#),
            ("1,2", "1,2,3", "1,2,4"),
        ] {
            assert_eq!(conflict(base, theirs, ours), Conflict::Undone, "{base} {theirs} {ours}");
        }
        let long = "x".repeat(100);
        for (base, theirs, ours) in [
            ("37", "38", "0"),
            ("idle", "busy", "done"),
            (r#"{"state":"idle","by":"a"}"#, r#"{"state":"busy","by":"b"}"#, r#"{"state":"done","by":"c"}"#),
            (r#"{"at":1700000000}"#, r#"{"at":1700000007}"#, r#"{"at":1700000009}"#),
            (r#"{"at":1700000010}"#, r#"{"at":1700000011}"#, r#"{"at":1700000020}"#),
            ("at 10:00:10 o'clock", "at 10:00:11 o'clock", "at 10:00:20 o'clock"),
            ("running", "running2", "running3"),
            (r#"{"page":"one","views":7}"#, r#"{"page":"two","views":8}"#, r#"{"page":"six","views":9}"#),
            (&long, &format!("{long}a"), &format!("{long}b")),
        ] {
            assert_eq!(conflict(base, theirs, ours), Conflict::Replaced, "{base} {theirs} {ours}");
        }
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
