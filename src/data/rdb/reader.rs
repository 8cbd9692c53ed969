//! Reads serialized values. Lengths and counts in the input are never trusted.

use super::{COMPRESSED, INT_8, INT_16, INT_32, LENGTH_14, LENGTH_32, LENGTH_64, SPECIAL, lzf};
use crate::protocol::parse_float;

/// The unread bytes.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The number of unread bytes.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    pub fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// A string in any of its encodings.
    pub fn string(&mut self) -> Option<Vec<u8>> {
        match *self.rest.first()? {
            INT_8 => self.integer(|reader| reader.array().map(i8::from_le_bytes)),
            INT_16 => self.integer(|reader| reader.array().map(i16::from_le_bytes)),
            INT_32 => self.integer(|reader| reader.array().map(i32::from_le_bytes)),
            COMPRESSED => {
                self.byte()?;
                let compressed = self.length()?;
                let whole = self.length()?;
                lzf::expand(self.bytes(compressed)?, whole)
            }
            special if special > COMPRESSED => None,
            _ => {
                let length = self.length()?;
                self.bytes(length).map(<[u8]>::to_vec)
            }
        }
    }

    fn integer<I: ToString>(&mut self, read: impl FnOnce(&mut Self) -> Option<I>) -> Option<Vec<u8>> {
        self.byte()?;
        read(self).map(|value| value.to_string().into_bytes())
    }

    pub fn length(&mut self) -> Option<usize> {
        match self.byte()? {
            LENGTH_32 => usize::try_from(u32::from_be_bytes(self.array()?)).ok(),
            LENGTH_64 => usize::try_from(u64::from_be_bytes(self.array()?)).ok(),
            first if first < LENGTH_14 => Some(usize::from(first)),
            first if first < LENGTH_32 => Some(usize::from(first & !LENGTH_14) << 8 | usize::from(self.byte()?)),
            // No server writes this length. Where only a length is valid, Redis reads it as a short one.
            first @ SPECIAL.. => Some(usize::from(first & !SPECIAL)),
            _ => None,
        }
    }

    /// A count and that many items. Nothing is preallocated: each item takes at least one byte, so a false count ends
    /// with the input.
    pub fn several<T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.length()?;
        (0..count).map(|_| one(self)).collect()
    }

    /// An integer of eight bytes, little-endian.
    pub fn integer_64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    /// An integer of four bytes, little-endian.
    pub fn integer_32(&mut self) -> Option<i32> {
        self.array().map(i32::from_le_bytes)
    }

    /// The id of a stream entry.
    pub fn id(&mut self) -> Option<u128> {
        self.array().map(u128::from_be_bytes)
    }

    /// A double in eight bytes, little-endian.
    pub fn double(&mut self) -> Option<f64> {
        self.array().map(f64::from_le_bytes)
    }

    /// A double in decimal. Special lengths stand for infinities and NaN.
    pub fn double_in_words(&mut self) -> Option<f64> {
        match self.byte()? {
            253 => Some(f64::NAN),
            254 => Some(f64::INFINITY),
            255 => Some(f64::NEG_INFINITY),
            length => parse_float(self.bytes(usize::from(length))?),
        }
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }
}
