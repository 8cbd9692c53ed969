//! Elements of small collections, one behind the other in as few bytes as possible.
//!
//! As in a listpack, integers are no text. Elements are read forwards only, so their lengths stand in front of them alone, and
//! nearly each takes a byte less.

use std::ops::Range;

use smallvec::SmallVec;

use crate::data::listpack::Element;

/// The first byte of a small collection that is no set; that of a set is its encoding.
pub const LIST: u8 = 0x10;
pub const SORTED_SET: u8 = 0x11;
pub const HASH: u8 = 0x12;
/// A hash that is a table for clients.
pub const HASH_TABLE: u8 = 0x13;

/// The most bytes of a small collection: every look-up reads up to all of them, and every change moves as many.
pub const MOST_BYTES: usize = 3072;
/// The most members or fields of a small one, in which each look-up compares up to all of them.
pub const MOST_COMPARED: usize = 128;

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

/// How many bytes the first element takes, if there is one.
#[inline]
fn first_size(codes: &[u8]) -> Option<usize> {
    Some(match *codes.first()? {
        length @ 0..SMALL_INTEGER => 1 + usize::from(length),
        SMALL_INTEGER..INTEGER => 1,
        LONG => 3 + usize::from(u16::from_le_bytes([*codes.get(1)?, *codes.get(2)?])),
        integer => 1 + usize::from(integer & 0xf).clamp(1, 8),
    })
}

/// How many bytes the first `count` elements take.
#[inline]
pub fn size_of(codes: &[u8], count: usize) -> usize {
    (0..count).try_fold(0, |end, _| Some(end + first_size(codes.get(end..)?)?)).unwrap_or(codes.len())
}

/// The number and the place of an element, if it is every `step`th.
#[inline]
pub fn find(codes: &[u8], element: Element<'_>, step: usize) -> Option<(usize, Range<usize>)> {
    let code = code_of(element);
    let (mut at, mut number) = (0, 0);
    while at < codes.len() {
        let end = at + code.len();
        // Elements that are alike often differ at the end.
        if codes.get(end - 1) == code.last() && codes[at] == code[0] && codes[at..end] == code[..] {
            return Some((number, at..end));
        }
        at += size_of(&codes[at..], step);
        number += 1;
    }
    None
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

    #[inline]
    fn nth(&mut self, count: usize) -> Option<Element<'c>> {
        let count = count.min(self.left);
        self.rest = self.rest.get(size_of(self.rest, count)..)?;
        self.left -= count;
        self.next()
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

    #[test]
    fn an_element_is_found_by_what_it_is_and_where_it_is() {
        let long = [b'x'; 300];
        let texts = [&b"a"[..], b"1", b"", b"-70000", &long, b"63", b"64", b"ab", b"cb", b"a1"];
        let all: Vec<Element<'_>> = texts.iter().map(|text| Element::of(text)).collect();
        let codes: Vec<u8> = all.iter().flat_map(|element| code_of(*element)).collect();
        let mut start = 0;
        for (number, element) in all.iter().enumerate() {
            let end = start + code_of(*element).len();
            assert_eq!(find(&codes, *element, 1), Some((number, start..end)), "{element:?}");
            assert_eq!(find(&codes, *element, 2).map(|(at, _)| 2 * at), Some(number).filter(|at| at % 2 == 0));
            assert_eq!(Elements::new(&codes, all.len()).nth(number), Some(*element));
            assert_eq!(size_of(&codes, number), start);
            start = end;
        }
        assert_eq!((find(&codes, Element::String(b"bb"), 1), Elements::new(&codes, 3).nth(3)), (None, None));
    }
}
