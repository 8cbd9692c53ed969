//! A hash's fields with their values, and the two ways in which Redis keeps them.

use smallvec::SmallVec;

use super::indexed::{Indexed, Keyed};

/// A field with its value: the length of the field in front, in one byte or, if that is 255, in the four behind it.
#[derive(Clone)]
pub struct Pair(SmallVec<[u8; 24]>);

const LONG: u8 = u8::MAX;

impl Pair {
    fn new(field: &[u8], value: &[u8]) -> Self {
        let mut bytes = SmallVec::with_capacity(1 + field.len() + value.len());
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

    #[inline]
    fn split(&self) -> (&[u8], &[u8]) {
        let (header, length) = match self.0[0] {
            LONG => (5, u32::from_le_bytes([self.0[1], self.0[2], self.0[3], self.0[4]]) as usize),
            length => (1, usize::from(length)),
        };
        self.0[header..].split_at(length)
    }

    pub fn field(&self) -> &[u8] {
        self.split().0
    }

    pub fn value(&self) -> &[u8] {
        self.split().1
    }
}

impl Keyed for Pair {
    #[inline]
    fn key(&self) -> &[u8] {
        self.field()
    }

    fn outside(&self) -> usize {
        if self.0.spilled() { self.0.capacity() } else { 0 }
    }
}

/// When a hash changes how it is kept.
#[derive(Clone, Copy, Debug)]
pub struct HashLimits {
    /// The most fields that are kept as one list.
    pub packed: usize,
    /// The longest field or value that stands in such a list.
    pub longest: usize,
}

/// Fields with their values. The order is kept as long as Redis would have them in one list.
#[derive(Clone)]
pub struct Hash {
    pairs: Indexed<Pair>,
}

impl Default for Hash {
    fn default() -> Self {
        Self { pairs: Indexed::new(true) }
    }
}

impl Hash {
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    pub fn size(&self) -> usize {
        size_of::<Self>() + self.pairs.size()
    }

    pub fn encoding(&self) -> &'static str {
        if self.pairs.is_ordered() { "listpack" } else { "hashtable" }
    }

    pub fn get(&self, field: &[u8]) -> Option<&[u8]> {
        Some(self.pairs.get(self.pairs.find(field)?)?.value())
    }

    /// Writes a field; whether it is new.
    pub fn set(&mut self, field: &[u8], value: &[u8], limits: &HashLimits) -> bool {
        let pair = Pair::new(field, value);
        let found = self.pairs.find(field);
        match found {
            Some(place) => drop(self.pairs.replace(place, pair)),
            None => self.pairs.push(pair),
        }
        if self.pairs.is_ordered() && (self.len() > limits.packed || field.len().max(value.len()) > limits.longest) {
            self.pairs.set_ordered(false);
        }
        found.is_none()
    }

    /// Removes a field; whether it was there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        let found = self.pairs.find(field);
        found.map(|place| self.pairs.remove(place)).is_some()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Pair> {
        self.pairs.iter()
    }

    /// One step of a walk through the fields, as [`Indexed::walk`] does it.
    pub fn walk(&self, left: u64, count: usize) -> (u64, impl ExactSizeIterator<Item = &Pair>) {
        self.pairs.walk(left, count)
    }
}
