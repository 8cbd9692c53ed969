//! The fields of a small hash in one allocation.

use smallvec::SmallVec;

use super::{Large, Pair};
use crate::data::keyspace::block::Block;
use crate::data::keyspace::compact::{HASH, MOST_BYTES, MOST_COMPARED};

/// The longest field or value, whose length takes one byte.
const LONGEST: usize = u8::MAX as usize;
/// Where the pairs begin, behind the type and their number.
const START: usize = 2;

/// The text of an empty hash.
pub(super) const EMPTY: &[u8] = &[HASH, 0];

/// Pairs one behind the other: each a byte of length and the field, and a byte of length and the value. Two bytes take more
/// than a length, so it fits.
#[derive(Clone, Copy)]
pub(super) struct Small<'h>(&'h [u8]);

/// Words with their lengths.
fn code_of(words: &[&[u8]]) -> SmallVec<[u8; 2 * (1 + LONGEST)]> {
    let mut code = SmallVec::new();
    for word in words {
        code.push(word.len() as u8);
        code.extend_from_slice(word);
    }
    code
}

/// Writes a field, and returns whether it is new. `None` if it does not fit, or if there would be more than `most`; then
/// nothing has changed.
pub(super) fn write(block: &mut Block<Large>, field: &[u8], value: &[u8], most: usize) -> Option<bool> {
    if field.len().max(value.len()) > LONGEST {
        return None;
    }
    let small = Small::of(block.text());
    let found = small.find(field);
    let is_new = found.is_none();
    let count = small.len() + usize::from(is_new);
    let (part, code) = match found {
        Some((start, end)) => (start..end, code_of(&[value])),
        None => (small.0.len()..small.0.len(), code_of(&[field, value])),
    };
    if small.0.len() - part.len() + code.len() > MOST_BYTES
        || count > most.min(MOST_COMPARED)
        || !block.splice(part, &code)
    {
        return None;
    }
    block.set_byte(1, count as u8);
    Some(is_new)
}

/// Removes a field. Returns whether it existed.
pub(super) fn remove(block: &mut Block<Large>, field: &[u8]) -> bool {
    let small = Small::of(block.text());
    let Some((value, end)) = small.find(field) else { return false };
    let count = small.len() - 1;
    if block.splice(value - 1 - field.len()..end, b"") {
        block.set_byte(1, count as u8);
    }
    true
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

    /// Where a field's value begins, with the byte of its length, and where it ends.
    fn find(self, field: &[u8]) -> Option<(usize, usize)> {
        let mut pairs = self.iter();
        let pair = pairs.find(|pair| pair.field == field)?;
        let end = self.0.len() - pairs.rest.len();
        Some((end - pair.value.len() - 1, end))
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
        let (length, rest) = self.rest.split_first()?;
        let (word, rest) = rest.split_at_checked(usize::from(*length))?;
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
