//! A short copy of a value, and whether another value depends on it as far as anyone can see.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::document::{self, Conflict};
use super::reply_value::reply_values;
use super::timestamp::Timestamp;
use crate::powers::ValueClass;

/// How many bytes are kept of the beginning and of the end of a long value.
const HEAD: usize = 64;
const TAIL: usize = 32;
const ROOM: usize = HEAD + TAIL;
/// How many bytes a document has at most that is kept whole.
const MOST: usize = 4096;
/// How many bytes are shown.
const SHOWN: usize = 40;
/// How long a text must be, so that what it shares with another one is no accident.
const TELLING: usize = 12;

/// The seeds with which values are hashed.
const HASH: FixedState = FixedState::with_seed(18);

/// A value, whole if it is short; otherwise its beginning, its end and its hash.
#[derive(Clone)]
pub struct KeptValue {
    /// `None` if there was no value.
    length: Option<u32>,
    hash: u64,
    bytes: [u8; ROOM],
    /// A long value that may be a JSON document or the elements of a reply.
    document: Option<Arc<[u8]>>,
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
    pub const NONE: Self = Self { length: None, hash: 0, bytes: [0; ROOM], document: None };

    #[inline]
    pub fn of(value: &[u8]) -> Self {
        let mut kept = Self { length: u32::try_from(value.len()).ok(), ..Self::NONE };
        match value.len() {
            length @ ..=ROOM => kept.bytes[..length].copy_from_slice(value),
            length => {
                kept.bytes[..HEAD].copy_from_slice(&value[..HEAD]);
                kept.bytes[HEAD..].copy_from_slice(&value[length - TAIL..]);
                kept.hash = HASH.hash_one(value);
                let may_be_document = length <= MOST && matches!(value[0], b'{' | b'[' | b'*' | b'%' | b'~');
                kept.document = may_be_document.then(|| Arc::from(value));
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

    /// The value as a document, if it is known whole; empty if there was none.
    fn document(&self) -> Option<&[u8]> {
        match (&self.document, self.ends()) {
            (Some(document), _) => Some(document),
            (None, (text, b"")) => Some(text),
            (None, _) => None,
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
        if tail.is_empty() && is_restamped(head, new, (at, real)) {
            return Dependence::Time;
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
        let is_made = || self.document().is_some_and(|old| document::is_made_from(old, new));
        if is_within || is_part || has_most || is_made() { Dependence::Text } else { Dependence::Unseen }
    }

    /// What a new value makes of another one, which was written from this one meanwhile.
    pub fn conflict(&self, theirs: &Self, ours: &[u8]) -> Conflict {
        if let (Some(base), Some(theirs)) = (self.document(), theirs.document())
            && let Some(conflict) = document::conflict(base, theirs, ours)
        {
            return conflict;
        }
        let ((base, base_tail), (theirs, theirs_tail)) = (self.ends(), theirs.ends());
        if !base_tail.is_empty() || !theirs_tail.is_empty() || ours.len() > ROOM {
            return Conflict::Replaced;
        }
        let is_zero = |number: &[u8]| number == b"0";
        if [base, theirs, ours].into_iter().all(is_number) {
            return if is_zero(theirs) || is_zero(ours) { Conflict::Replaced } else { Conflict::Counted };
        }
        let (own, other) = (Edit::of(base, ours), Edit::of(base, theirs));
        let (own_part, other_part) = (own.part(base), other.part(base));
        let are_apart = own_part.1 <= other_part.0 || other_part.1 <= own_part.0;
        let are_insertions = own.is_insertion(base, ours) && other.is_insertion(base, theirs);
        let are_alike = are_insertions || own.is_removal(base) && other.is_removal(base);
        match () {
            () if are_apart || are_alike => Conflict::Undone,
            () if own.changes_number(&other, base, theirs, ours) => Conflict::Counted,
            () => Conflict::Replaced,
        }
    }

    /// Whether a document has lost what another one has, both of which were written where nothing was.
    pub fn is_lost_in(&self, ours: &[u8]) -> bool {
        self.document().is_some_and(|theirs| document::conflict(b"", theirs, ours) == Some(Conflict::Undone))
    }

    /// Whether a number goes on from another one, which was written from this one: it is further away on the same side.
    /// A text does if it has what the other one has put there.
    pub fn goes_on_from(&self, theirs: &Self, ours: &[u8]) -> bool {
        let theirs_whole = theirs.document();
        let ((base, base_tail), (theirs, theirs_tail)) = (self.ends(), theirs.ends());
        let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
        match [base, theirs, ours].map(number) {
            [Some(base), Some(theirs), Some(ours)] if base_tail.is_empty() && theirs_tail.is_empty() => {
                let (their_way, own_way) = (theirs - base, ours - base);
                their_way * own_way > 0.0 && own_way.abs() >= their_way.abs()
            }
            // Of a text that is not known whole nobody can see it.
            _ => theirs_whole.is_none_or(|theirs| memchr::memmem::find(ours, theirs).is_some()),
        }
    }

    /// The elements of the reply that this value is, as far as they are known, and whether those are all.
    fn elements(&self) -> (Vec<&[u8]>, bool) {
        let (head, tail) = self.ends();
        let known = self.document().unwrap_or(head);
        let is_whole = tail.is_empty() || self.document.is_some();
        let values = reply_values(known);
        // The last one may be cut off.
        let count = if is_whole { values.len() } else { values.len().saturating_sub(1) };
        (values.iter().take(count).filter_map(|value| value.text()).collect(), is_whole)
    }

    /// What new elements make of those that another command has put there meanwhile, of which the last ones may be missing. This
    /// value is the reply that told the old ones.
    pub fn conflict_of_elements(
        &self,
        (lost, is_lost_whole): (&[&[u8]], bool),
        ours: &[&[u8]],
        are_named: bool,
    ) -> Conflict {
        let [name, _, theirs @ ..] = lost else { return Conflict::Replaced };
        let (old, is_whole) = self.elements();
        if !are_named {
            let is_same =
                is_lost_whole && theirs.len() == ours.len() && theirs.iter().all(|element| ours.contains(element));
            return if is_same { Conflict::Replaced } else { Conflict::Undone };
        }
        let value_in = |pairs: &[&[u8]], name: &[u8]| {
            pairs.chunks_exact(2).find(|pair| pair[0] == name).map(|pair| pair[1].to_vec())
        };
        let is_as_before = |name: &[u8]| {
            let before = value_in(&old, name);
            before.is_some() && value_in(ours, name) == before
        };
        // A command that sets some of the names, before others that set the rest, has lost nothing yet.
        let is_all = is_whole && old.chunks_exact(2).all(|pair| value_in(ours, pair[0]).is_some());
        let theirs = if is_lost_whole { theirs } else { &theirs[..theirs.len().saturating_sub(1)] };
        let is_lost = is_all
            && match name.to_ascii_uppercase().as_slice() {
                b"HSET" | b"HMSET" | b"HSETNX" => theirs.chunks_exact(2).any(|pair| match value_in(&old, pair[0]) {
                    Some(before) => before != pair[1] && is_as_before(pair[0]),
                    None => value_in(ours, pair[0]).is_none(),
                }),
                b"HDEL" => theirs.iter().any(|name| is_as_before(name)),
                b"HINCRBY" | b"HINCRBYFLOAT" => theirs.first().is_some_and(|name| is_as_before(name)),
                _ => false,
            };
        if is_lost { Conflict::Undone } else { Conflict::Replaced }
    }

    /// How new elements come from the old ones: this value is the reply that told those.
    pub fn dependence_of_elements(&self, new: &[&[u8]]) -> Dependence {
        let (old, _) = self.elements();
        if old.is_empty() {
            return Dependence::NothingRead;
        }
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
        // A part of a time or of a date is none.
        let is_joined = |near: Option<&u8>, far: Option<&u8>| {
            matches!(near, Some(b':' | b'-' | b'/')) && far.is_some_and(u8::is_ascii_digit)
        };
        let (mut before, mut behind) = (base[..from].iter().rev(), base[base.len() - after..].iter());
        if is_joined(before.next(), before.next()) || is_joined(behind.next(), behind.next()) {
            return false;
        }
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

/// Whether two texts differ in a time alone, which is near now: the same page, made anew.
fn is_restamped(old: &[u8], new: &[u8], (at, real): (i64, i64)) -> bool {
    let is_part = |byte: &&u8| byte.is_ascii_digit() || **byte == b'.';
    let from = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let from = from - new[..from].iter().rev().take_while(is_part).count();
    let number = |text: &[u8]| text[from..].iter().take_while(is_part).count() + from;
    let (old_end, new_end) = (number(old), number(new));
    let is_time = |text: &[u8]| Timestamp::in_value(text, at, real).is_some();
    from < old.len() && old[old_end..] == new[new_end..] && is_time(&new[from..new_end]) && is_time(&old[from..old_end])
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
            ("[]", "[1]", "[2]"),
            (r#"{"cart":["lamp"]}"#, r#"{"cart":["lamp","chair"]}"#, r#"{"cart":["lamp","table"]}"#),
            (r#"["A1","A2","A3"]"#, r#"["A2","A3"]"#, r#"["A1","A2"]"#),
            (r#"{"name":"ada","mail":"a@b"}"#, r#"{"name":"eve","mail":"a@b"}"#, r#"{"name":"ada","mail":"c@d"}"#),
            ("1,2", "1,2,3", "1,2,4"),
        ] {
            assert_eq!(conflict(base, theirs, ours), Conflict::Undone, "{base} {theirs} {ours}");
        }
        for (base, theirs, ours) in [
            ("1000", "1045", "1300"),
            ("10.5", "9.5", "11"),
            (r#"{"left":100,"of":"x"}"#, r#"{"left":97,"of":"x"}"#, r#"{"left":109,"of":"x"}"#),
        ] {
            assert_eq!(conflict(base, theirs, ours), Conflict::Counted, "{base} {theirs} {ours}");
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
        let page = |made: &str| format!(r#"{{"made":{made},"of":"item 7","price":17}}"#);
        assert_eq!(dependence(&page("1699999998.25"), &page("1700000000.5")), Dependence::Time);
        assert_eq!(dependence(&page("17"), &page("18")), Dependence::Text);
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
