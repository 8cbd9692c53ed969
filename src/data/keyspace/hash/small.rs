//! The fields of a small hash in one allocation.

use smallvec::SmallVec;

use super::{Large, Pair};
use crate::data::keyspace::block::Block;
use crate::data::keyspace::compact::{HASH, HASH_TABLE, MOST_BYTES, MOST_COMPARED};

/// The first byte of a word that is as long or longer: two bytes of its length follow.
const LONG: u8 = u8::MAX;
/// Where the pairs begin, behind the type and their number.
const START: usize = 2;

/// The text of an empty hash.
pub(super) const EMPTY: &[u8] = &[HASH, 0];

/// Pairs one behind the other: each the length of the field and the field, and the length of the value and the value.
#[derive(Clone, Copy)]
pub(super) struct Small<'h>(&'h [u8]);

/// How many bytes the length of a word takes.
#[inline]
fn header(word: &[u8]) -> usize {
    if word.len() < usize::from(LONG) { 1 } else { 3 }
}

/// Words with their lengths. They are shorter than the most bytes of a small collection.
fn code_of(words: &[&[u8]]) -> SmallVec<[u8; 256]> {
    let mut code = SmallVec::new();
    for word in words {
        match u8::try_from(word.len()) {
            Ok(length) if length < LONG => code.push(length),
            _ => {
                code.push(LONG);
                code.extend_from_slice(&(word.len() as u16).to_le_bytes());
            }
        }
        code.extend_from_slice(word);
    }
    code
}

/// Writes a field, and returns whether it is new. `None` if it does not fit; then nothing has changed. With a long word, or
/// with more fields than a listpack may have, the hash is a table for clients.
pub(super) fn write(
    block: &mut Block<Large>,
    field: &[u8],
    value: &[u8],
    is_long: bool,
    most_packed: usize,
) -> Option<bool> {
    if field.len().max(value.len()) > MOST_BYTES {
        return None;
    }
    let small = Small::of(block.text());
    let found = small.find(field);
    let is_new = found.is_none();
    let count = small.len() + usize::from(is_new);
    let (part, code) = match found {
        Some(place) => (place.value..place.end, code_of(&[value])),
        None => (small.0.len()..small.0.len(), code_of(&[field, value])),
    };
    if small.0.len() - part.len() + code.len() > MOST_BYTES || count > MOST_COMPARED || !block.splice(part, &code) {
        return None;
    }
    block.set_byte(1, count as u8);
    if is_long || count > most_packed {
        spread(block);
    }
    Some(is_new)
}

/// Makes a hash a table for clients.
pub(super) fn spread(block: &mut Block<Large>) {
    block.set_byte(0, HASH_TABLE);
}

/// Removes a field. Returns whether it existed.
pub(super) fn remove(block: &mut Block<Large>, field: &[u8]) -> bool {
    let small = Small::of(block.text());
    let Some(place) = small.find(field) else { return false };
    let count = small.len() - 1;
    if block.splice(place.start..place.end, b"") {
        block.set_byte(1, count as u8);
    }
    true
}

/// Where a pair is: its begin, that of its value with its length, and its end.
struct Place {
    start: usize,
    value: usize,
    end: usize,
}

impl<'h> Small<'h> {
    #[inline]
    pub(super) fn of(text: &'h [u8]) -> Self {
        Self(text)
    }

    #[inline]
    pub(super) fn len(self) -> usize {
        usize::from(self.0[1])
    }

    #[inline]
    pub(super) fn iter(self) -> Iter<'h> {
        Iter { left: self.len(), rest: &self.0[START..] }
    }

    /// Whether it is a table for clients.
    #[inline]
    pub(super) fn is_spread(self) -> bool {
        self.0[0] == HASH_TABLE
    }

    fn find(self, field: &[u8]) -> Option<Place> {
        let mut pairs = self.iter();
        let pair = pairs.find(|pair| pair.field == field)?;
        let end = self.0.len() - pairs.rest.len();
        let value = end - pair.value.len() - header(pair.value);
        Some(Place { start: value - field.len() - header(field), value, end })
    }
}

/// The pairs of a small hash.
#[derive(Clone)]
pub(super) struct Iter<'a> {
    left: usize,
    rest: &'a [u8],
}

impl<'a> Iter<'a> {
    #[inline]
    fn take(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = match self.rest {
            [LONG, low, high, rest @ ..] => (usize::from(u16::from_le_bytes([*low, *high])), rest),
            [length, rest @ ..] => (usize::from(*length), rest),
            [] => return None,
        };
        let (word, rest) = rest.split_at_checked(length)?;
        self.rest = rest;
        Some(word)
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Pair<'a>;

    #[inline]
    fn next(&mut self) -> Option<Pair<'a>> {
        let pair = Pair { field: self.take()?, value: self.take()? };
        self.left -= 1;
        Some(pair)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Iter<'_> {}
