//! Elements of small collections, one behind the other in as few bytes as possible.
//!
//! As in a listpack, integers are no text. Elements are read forwards only, so their lengths stand in front of them alone, and
//! nearly each takes a byte less.

use smallvec::SmallVec;

use crate::data::listpack::Element;

/// The first byte of a small collection that is no set; that of a set is its encoding.
pub const LIST: u8 = 0x10;
pub const SORTED_SET: u8 = 0x11;
pub const HASH: u8 = 0x12;

/// The longest string whose length is the first byte.
const SHORT: usize = 0x7f;
/// The first byte of an integer from 0 to 63, which is in its other bits.
const SMALL_INTEGER: u8 = 0x80;
/// The first byte of another integer. The lowest bits are how many bytes follow.
const INTEGER: u8 = 0xc0;
/// The first byte of a longer string; two bytes of its length follow.
const LONG: u8 = 0xd0;

/// No element takes so many bytes more in a listpack.
pub const MOST_SAVED: usize = 6;

/// The bytes of one element.
pub type Code = SmallVec<[u8; 64]>;

/// The bytes of an element. The caller must not use those of a string that is longer than 65535.
#[inline]
pub fn code_of(element: Element<'_>) -> Code {
    let mut code = Code::new();
    match element {
        Element::Integer(value @ 0..=0x3f) => code.push(SMALL_INTEGER | value as u8),
        Element::Integer(value) => {
            // One bit is the sign's.
            let bits = i64::BITS + 1 - if value < 0 { value.leading_ones() } else { value.leading_zeros() };
            let length = bits.div_ceil(8) as usize;
            code.push(INTEGER | length as u8);
            code.extend_from_slice(&value.to_le_bytes()[..length]);
        }
        Element::String(bytes) => {
            if bytes.len() <= SHORT {
                code.push(bytes.len() as u8);
            } else {
                code.push(LONG);
                code.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
            }
            code.extend_from_slice(bytes);
        }
    }
    code
}

/// The first element, and how many bytes it takes.
#[inline]
pub fn first(codes: &[u8]) -> Option<(Element<'_>, usize)> {
    let (&first, rest) = codes.split_first()?;
    let (header, length) = match first {
        0..SMALL_INTEGER => (1, usize::from(first)),
        SMALL_INTEGER..INTEGER => return Some((Element::Integer(i64::from(first & 0x3f)), 1)),
        LONG => (3, usize::from(u16::from_le_bytes([*rest.first()?, *rest.get(1)?]))),
        _ => {
            let length = usize::from(first & 0xf).clamp(1, 8);
            let mut bytes = [0; 8];
            bytes[..length].copy_from_slice(rest.get(..length)?);
            let unused = i64::BITS - 8 * length as u32;
            return Some((Element::Integer(i64::from_le_bytes(bytes) << unused >> unused), 1 + length));
        }
    };
    Some((Element::String(codes.get(header..header + length)?), header + length))
}

/// Iterates over elements.
#[derive(Clone)]
pub struct Elements<'c> {
    rest: &'c [u8],
    left: usize,
}

impl<'c> Elements<'c> {
    /// The first `count` elements of some.
    #[inline]
    pub fn new(codes: &'c [u8], count: usize) -> Self {
        Self { rest: codes, left: count }
    }

    /// The bytes of the elements that are left, and of those behind them.
    #[inline]
    pub fn rest(&self) -> &'c [u8] {
        self.rest
    }
}

impl<'c> Iterator for Elements<'c> {
    type Item = Element<'c>;

    #[inline]
    fn next(&mut self) -> Option<Element<'c>> {
        self.left = self.left.checked_sub(1)?;
        let (element, size) = first(self.rest)?;
        self.rest = &self.rest[size..];
        Some(element)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Elements<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &[u8]) {
        let element = Element::of(text);
        let mut codes = code_of(element);
        let length = codes.len();
        assert!(length <= element.size() && element.size() < length + MOST_SAVED, "{element:?}: {length}");
        codes.push(7);
        assert_eq!(first(&codes), Some((element, length)));
        assert_eq!(first(&codes[..length - 1]), None);
    }

    #[test]
    fn every_integer_and_string_is_read_as_written_and_takes_no_more_than_in_a_listpack() {
        for bits in 0..64 {
            for value in [1_i64 << bits, -1 << bits] {
                for value in [value.wrapping_sub(1), value, value.wrapping_add(1)] {
                    check(value.to_string().as_bytes());
                }
            }
        }
        for length in [0, 1, 63, 64, 127, 128, 255, 256, 4095, 4096, 65_535] {
            check(&vec![b'x'; length]);
        }
        for text in ["0", "-0", "01", "+1", " 1", "63", "64", "-1"] {
            check(text.as_bytes());
        }
    }
}
