//! The fields of a small hash in one allocation.

use smallvec::SmallVec;

use super::Pair;
use crate::data::keyspace::block::{Block, KEYLESS};
use crate::data::keyspace::usage::Usage;

/// The most bytes of a small hash: every look-up reads up to all of them.
const MOST_BYTES: usize = 512;
/// The longest field or value, whose length takes one byte.
const LONGEST: usize = u8::MAX as usize;

/// Pairs one behind the other: each a byte of length and the field, and a byte of length and the value. The number of pairs
/// is the first byte. Two bytes take more than a length, so it fits.
#[derive(Clone)]
pub(super) struct SmallHash(Block<(), KEYLESS>);

type Bytes = SmallVec<[u8; MOST_BYTES]>;

impl Default for SmallHash {
    fn default() -> Self {
        Self(block(&[0]))
    }
}

fn block(bytes: &[u8]) -> Block<(), KEYLESS> {
    match Block::string(b"", bytes, None, Usage::default()) {
        Some(block) => block,
        None => unreachable!("a small hash is smaller than the largest block"),
    }
}

impl SmallHash {
    pub(super) fn len(&self) -> usize {
        usize::from(self.0.text()[0])
    }

    /// The memory in bytes.
    pub(super) fn size(&self) -> usize {
        self.0.size()
    }

    #[inline]
    pub(super) fn iter(&self) -> Iter<'_> {
        Iter { left: self.len(), rest: &self.0.text()[1..] }
    }

    /// Where a field's value begins, with the byte of its length, and where it ends.
    fn find(&self, field: &[u8]) -> Option<(usize, usize)> {
        let mut end = 1;
        for pair in self.iter() {
            let value = end + 1 + pair.field.len();
            end = value + 1 + pair.value.len();
            if pair.field == field {
                return Some((value, end));
            }
        }
        None
    }

    /// Writes a field, and returns whether it is new. `None` if it does not fit, or if there would be more than `most`; then
    /// nothing has changed.
    pub(super) fn write(&mut self, field: &[u8], value: &[u8], most: usize) -> Option<bool> {
        if field.len().max(value.len()) > LONGEST {
            return None;
        }
        let text = self.0.text();
        let found = self.find(field);
        let (before, behind) = match found {
            Some((start, end)) => (&text[..start], &text[end..]),
            None => (text, &[][..]),
        };
        let field_size = if found.is_none() { 1 + field.len() } else { 0 };
        let count = self.len() + usize::from(found.is_none());
        let size = before.len() + field_size + 1 + value.len() + behind.len();
        if size > MOST_BYTES || count > most || count > LONGEST {
            return None;
        }
        let mut bytes = Bytes::new();
        bytes.extend_from_slice(before);
        if found.is_none() {
            bytes.push(field.len() as u8);
            bytes.extend_from_slice(field);
        }
        bytes.push(value.len() as u8);
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(behind);
        bytes[0] = count as u8;
        self.replace(&bytes);
        Some(found.is_none())
    }

    /// Removes a field. Returns whether it existed.
    pub(super) fn remove(&mut self, field: &[u8]) -> bool {
        let Some((value, end)) = self.find(field) else { return false };
        let mut bytes = Bytes::from_slice(self.0.text());
        bytes.drain(value - 1 - field.len()..end);
        bytes[0] -= 1;
        self.replace(&bytes);
        true
    }

    fn replace(&mut self, bytes: &[u8]) {
        if !self.0.rewrite(bytes, None) {
            self.0 = block(bytes);
        }
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
