//! Listpacks: short lists in one contiguous allocation, which Redis serializes unchanged.
//!
//! A header of six bytes (size and number of elements), the elements, an end byte. An element is its encoding, its
//! data, and then the length of both, which is read backwards.

use std::borrow::Cow;

use crate::protocol::parse_integer;

const HEADER: usize = 6;
const END: u8 = 0xff;

/// The header does not count this many elements or more.
const UNCOUNTED: u16 = u16::MAX;

/// The encoding byte of an element. The bits behind its prefix are the beginning of the data.
const STRING_6: u8 = 0x80;
const INT_13: u8 = 0xc0;
const STRING_12: u8 = 0xe0;
const STRING_32: u8 = 0xf0;
const INT_16: u8 = 0xf1;
const INT_24: u8 = 0xf2;
const INT_32: u8 = 0xf3;
const INT_64: u8 = 0xf4;

/// An element as it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element<'e> {
    String(&'e [u8]),
    Integer(i64),
}

impl<'e> Element<'e> {
    /// The encoding of a string: an integer if it is one.
    pub fn of(bytes: &'e [u8]) -> Self {
        parse_integer(bytes).map_or(Self::String(bytes), Self::Integer)
    }

    pub fn to_bytes(self) -> Cow<'e, [u8]> {
        match self {
            Self::String(bytes) => Cow::Borrowed(bytes),
            Self::Integer(value) => Cow::Owned(itoa::Buffer::new().format(value).as_bytes().to_vec()),
        }
    }

    /// The encoded size in bytes.
    pub fn size(self) -> usize {
        let length = match self {
            Self::Integer(0..=127) => 1,
            Self::Integer(-4096..=4095) => 2,
            Self::Integer(-0x8000..=0x7fff) => 3,
            Self::Integer(-0x80_0000..=0x7f_ffff) => 4,
            Self::Integer(-0x8000_0000..=0x7fff_ffff) => 5,
            Self::Integer(_) => 9,
            Self::String(bytes) if bytes.len() < 1 << 6 => 1 + bytes.len(),
            Self::String(bytes) if bytes.len() < 1 << 12 => 2 + bytes.len(),
            Self::String(bytes) => 5 + bytes.len(),
        };
        length + groups_of(length)
    }

    /// Appends the encoded element.
    pub fn append(self, out: &mut Vec<u8>) {
        let start = out.len();
        match self {
            Self::Integer(value) => write_integer(out, value),
            Self::String(bytes) => write_string(out, bytes),
        }
        let length = out.len() - start;
        write_length_backwards(out, length);
    }

    /// Writes the encoded element to a slice of exactly [`size`](Self::size) bytes.
    pub fn write_to(self, place: &mut [u8]) {
        let mut around = Vec::new();
        match self {
            Self::String(bytes) if bytes.len() < 1 << 6 => {
                // Fast path for short strings, the most frequent elements: the length takes one byte at either end.
                if let [first, middle @ .., last] = place {
                    *first = STRING_6 | bytes.len() as u8;
                    middle.copy_from_slice(bytes);
                    *last = bytes.len() as u8 + 1;
                }
            }
            _ => {
                self.append(&mut around);
                place.copy_from_slice(&around);
            }
        }
    }
}

/// The first element and its encoded size.
#[inline]
pub fn first(elements: &[u8]) -> Option<(Element<'_>, usize)> {
    let (element, length) = read_element(elements)?;
    Some((element, length + groups_of(length)))
}

/// The last element and its encoded size.
pub fn last(elements: &[u8]) -> Option<(Element<'_>, usize)> {
    let mut length = 0;
    let mut groups = 0;
    for &byte in elements.iter().rev().take(5) {
        length |= usize::from(byte & 0x7f) << (7 * groups);
        groups += 1;
        if byte & 0x80 == 0 {
            break;
        }
    }
    let start = elements.len().checked_sub(length + groups)?;
    let (element, found) = read_element(&elements[start..])?;
    (found == length).then_some((element, length + groups))
}

/// Builds a listpack with header and end byte.
pub fn write<'m>(members: impl Iterator<Item = &'m [u8]>) -> Vec<u8> {
    let (mut elements, mut count) = (Vec::new(), 0);
    for member in members {
        Element::of(member).append(&mut elements);
        count += 1;
    }
    enclose(&elements, count)
}

/// Adds header and end byte to encoded elements.
pub fn enclose(elements: &[u8], count: usize) -> Vec<u8> {
    let count = u16::try_from(count).unwrap_or(UNCOUNTED);
    let mut out = vec![0; HEADER];
    out.extend_from_slice(elements);
    out.push(END);
    let size = u32::try_from(out.len()).unwrap_or(u32::MAX);
    out[..4].copy_from_slice(&size.to_le_bytes());
    out[4..HEADER].copy_from_slice(&count.to_le_bytes());
    out
}

fn write_integer(out: &mut Vec<u8>, value: i64) {
    let bytes = value.to_le_bytes();
    match value {
        0..=127 => out.push(bytes[0]),
        -4096..=4095 => out.extend_from_slice(&[INT_13 | (bytes[1] & 0x1f), bytes[0]]),
        -0x8000..=0x7fff => {
            out.push(INT_16);
            out.extend_from_slice(&bytes[..2]);
        }
        -0x80_0000..=0x7f_ffff => {
            out.push(INT_24);
            out.extend_from_slice(&bytes[..3]);
        }
        -0x8000_0000..=0x7fff_ffff => {
            out.push(INT_32);
            out.extend_from_slice(&bytes[..4]);
        }
        _ => {
            out.push(INT_64);
            out.extend_from_slice(&bytes);
        }
    }
}

fn write_string(out: &mut Vec<u8>, member: &[u8]) {
    let length = member.len();
    if length < 1 << 6 {
        out.push(STRING_6 | length as u8);
    } else if length < 1 << 12 {
        out.extend_from_slice(&[STRING_12 | (length >> 8) as u8, length as u8]);
    } else {
        out.push(STRING_32);
        out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    }
    out.extend_from_slice(member);
}

fn write_length_backwards(out: &mut Vec<u8>, length: usize) {
    out.extend(length_backwards(length));
}

/// Seven bits a byte. All bytes but the first, which is read last, have the high bit set.
fn length_backwards(length: usize) -> impl Iterator<Item = u8> {
    let groups = groups_of(length);
    (0..groups).rev().map(move |group| {
        let mark = if group + 1 == groups { 0 } else { 0x80 };
        (length >> (7 * group)) as u8 & 0x7f | mark
    })
}

fn groups_of(length: usize) -> usize {
    match length {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

/// The members; `None` if the listpack is invalid.
pub fn read(bytes: &[u8]) -> Option<Vec<Cow<'static, [u8]>>> {
    let mut members = Vec::new();
    walk(bytes, |element, _| members.push(Cow::Owned(element.to_bytes().into_owned())))?;
    Some(members)
}

/// The elements as [`Element::append`] encodes them, and how many there are; `None` if the listpack is invalid. Redis encodes them
/// the same way; another writer may have chosen other encodings.
pub fn read_encoded(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut count, mut are_usual) = (0, true);
    let elements = walk(bytes, |element, size| {
        count += 1;
        let is_integer = |text: &[u8]| parse_integer(text).is_some();
        are_usual &= element.size() == size && !matches!(element, Element::String(text) if is_integer(text));
    })?;
    if are_usual {
        return Some((elements.to_vec(), count));
    }
    let mut encoded = Vec::new();
    walk(bytes, |element, _| Element::of(&element.to_bytes()).append(&mut encoded))?;
    Some((encoded, count))
}

/// The encoded elements; `None` if the listpack is invalid.
pub fn elements(bytes: &[u8]) -> Option<&[u8]> {
    walk(bytes, |_, _| ())
}

/// Sees each element of a listpack, and its encoded size. Returns them as they are encoded; `None` if the listpack is invalid.
fn walk(bytes: &[u8], mut see: impl FnMut(Element<'_>, usize)) -> Option<&[u8]> {
    let size = u32::from_le_bytes(*bytes.first_chunk()?);
    if usize::try_from(size).ok()? != bytes.len() || *bytes.last()? != END {
        return None;
    }
    let announced = u16::from_le_bytes(*bytes.get(4..)?.first_chunk()?);
    let elements = bytes.get(HEADER..bytes.len() - 1)?;
    let (mut rest, mut count) = (elements, 0);
    while !rest.is_empty() {
        let (element, length) = read_element(rest)?;
        see(element, length + groups_of(length));
        count += 1;
        let (backwards, behind) = rest.get(length..)?.split_at_checked(groups_of(length))?;
        // Most lengths are one byte.
        let is_right = match backwards {
            [byte] => usize::from(*byte) == length,
            _ => length_backwards(length).eq(backwards.iter().copied()),
        };
        if !is_right {
            return None;
        }
        rest = behind;
    }
    (announced == UNCOUNTED || usize::from(announced) == count).then_some(elements)
}

/// The first element and its encoded size; `None` if it is invalid.
#[inline]
fn read_element(bytes: &[u8]) -> Option<(Element<'_>, usize)> {
    let (&first, rest) = bytes.split_first()?;
    let string = |header: usize, length: usize| {
        let member = bytes.get(header..)?.get(..length)?;
        Some((Element::String(member), header + length))
    };
    let integer = |size: usize| {
        let data = rest.get(..size)?;
        let mut wide = [if data.last()? & 0x80 == 0 { 0 } else { 0xff }; 8];
        wide[..size].copy_from_slice(data);
        Some((Element::Integer(i64::from_le_bytes(wide)), 1 + size))
    };
    match first {
        0..STRING_6 => Some((Element::Integer(i64::from(first)), 1)),
        STRING_6..INT_13 => string(1, usize::from(first & 0x3f)),
        INT_13..STRING_12 => {
            let value = i64::from(first & 0x1f) << 8 | i64::from(*rest.first()?);
            let value = if value < 1 << 12 { value } else { value - (1 << 13) };
            Some((Element::Integer(value), 2))
        }
        STRING_12..STRING_32 => string(2, usize::from(first & 0x0f) << 8 | usize::from(*rest.first()?)),
        STRING_32 => string(5, usize::try_from(u32::from_le_bytes(*rest.first_chunk()?)).ok()?),
        INT_16 => integer(2),
        INT_24 => integer(3),
        INT_32 => integer(4),
        INT_64 => integer(8),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_another_writer_encoded_otherwise_is_encoded_as_always() {
        // A number as a text, one in two bytes more than it needs, and a text of two that announces its length in two.
        let foreign = [STRING_6 | 1, b'7', 2, INT_16, 7, 0, 3, STRING_12, 2, b'a', b'b', 4];
        let usual = [7, 1, 7, 1, STRING_6 | 2, b'a', b'b', 3];
        assert_eq!(read_encoded(&enclose(&foreign, 3)), Some((usual.to_vec(), 3)));
        assert_eq!(read_encoded(&enclose(&usual, 3)), Some((usual.to_vec(), 3)));
        assert_eq!(read_encoded(&enclose(&foreign, 2)), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            integers in prop::collection::vec(any::<(i64, u8)>(), 0..20),
            strings in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20),
            long in 0..20_000usize,
        ) {
            let mut members: Vec<Vec<u8>> = integers.iter().map(|(n, by)| (n >> (by % 64)).to_string().into_bytes()).collect();
            members.extend(strings);
            members.push(vec![b'x'; long]);
            let written = write(members.iter().map(Vec::as_slice));
            prop_assert_eq!(&read(&written).unwrap(), &members);
            let elements = &written[HEADER..written.len() - 1];
            prop_assert_eq!(read_encoded(&written), Some((elements.to_vec(), members.len())));
            let (mut there, mut back) = (elements, elements);
            for (member, opposite) in members.iter().zip(members.iter().rev()) {
                let (element, size) = first(there).unwrap();
                prop_assert_eq!((&*element.to_bytes(), size), (member.as_slice(), element.size()));
                there = &there[size..];
                let (element, size) = last(back).unwrap();
                prop_assert_eq!((&*element.to_bytes(), size), (opposite.as_slice(), element.size()));
                back = &back[..back.len() - size];
            }
            prop_assert!(there.is_empty() && back.is_empty());
        }

        #[test]
        fn nothing_is_too_strange_to_be_read(body in prop::collection::vec(any::<u8>(), 0..40), count in 0..5u16) {
            let mut bytes = (body.len() as u32 + 7).to_le_bytes().to_vec();
            bytes.extend_from_slice(&count.to_le_bytes());
            bytes.extend_from_slice(&body);
            bytes.push(END);
            let members = read(&bytes);
            // However they are encoded, they are encoded anew as always.
            let anew = members.map(|members| {
                let written = write(members.iter().map(|member| &**member));
                (written[HEADER..written.len() - 1].to_vec(), members.len())
            });
            prop_assert_eq!(read_encoded(&bytes), anew);
            let _ = read(&body);
            let _ = (first(&body), last(&body));
        }
    }
}
