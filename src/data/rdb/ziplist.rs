//! Ziplists: the predecessor of listpacks, before Redis 7.0.
//!
//! A header of ten bytes (size, offset of the last element, number of elements), the elements, an end byte. An element
//! is the size of the previous element, its encoding, the data.

use std::borrow::Cow;

use super::Bytes;
use crate::protocol::parse_integer;

const HEADER: usize = 10;
const END: u8 = 0xff;

/// The header does not count this many elements or more.
const UNCOUNTED: u16 = u16::MAX;

/// The size of the previous element takes one byte below this. Otherwise this byte precedes four bytes of size.
const LONG: u8 = 254;

/// The encoding byte of an element. The bits behind its prefix are the beginning of a string's length.
const STRING_14: u8 = 0x40;
const STRING_32: u8 = 0x80;
const INT_16: u8 = 0xc0;
const INT_32: u8 = 0xd0;
const INT_64: u8 = 0xe0;
const INT_24: u8 = 0xf0;
const INT_8: u8 = 0xfe;

/// The encoding byte itself contains the integers from 0 to 12.
const SMALLEST: u8 = 0xf1;
const LARGEST: u8 = 0xfd;

/// Longer strings are never encoded as integers.
const LONGEST_INTEGER: usize = 31;

pub fn write<'e>(elements: impl Iterator<Item = &'e [u8]>) -> Vec<u8> {
    let mut out = vec![0; HEADER];
    let (mut last, mut count) = (HEADER, 0u64);
    for element in elements {
        let start = out.len();
        // The first element has no predecessor.
        let before = if count == 0 { 0 } else { start - last };
        write_element(&mut out, before, element);
        (last, count) = (start, count + 1);
    }
    out.push(END);
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes();
    let size = number(out.len());
    out[..4].copy_from_slice(&size);
    out[4..8].copy_from_slice(&number(last));
    out[8..HEADER].copy_from_slice(&u16::try_from(count).unwrap_or(UNCOUNTED).to_le_bytes());
    out
}

fn write_element(out: &mut Vec<u8>, before: usize, element: &[u8]) {
    match u8::try_from(before) {
        Ok(before) if before < LONG => out.push(before),
        _ => {
            out.push(LONG);
            out.extend_from_slice(&u32::try_from(before).unwrap_or(u32::MAX).to_le_bytes());
        }
    }
    let length = element.len();
    if length <= LONGEST_INTEGER
        && let Some(integer) = parse_integer(element)
    {
        write_integer(out, integer);
        return;
    }
    if length < 1 << 6 {
        out.push(length as u8);
    } else if length < 1 << 14 {
        out.extend_from_slice(&[STRING_14 | (length >> 8) as u8, length as u8]);
    } else {
        out.push(STRING_32);
        out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    }
    out.extend_from_slice(element);
}

fn write_integer(out: &mut Vec<u8>, value: i64) {
    let bytes = value.to_le_bytes();
    let (encoding, size) = match value {
        0..=12 => (SMALLEST + bytes[0], 0),
        -0x80..=0x7f => (INT_8, 1),
        -0x8000..=0x7fff => (INT_16, 2),
        -0x80_0000..=0x7f_ffff => (INT_24, 3),
        -0x8000_0000..=0x7fff_ffff => (INT_32, 4),
        _ => (INT_64, 8),
    };
    out.push(encoding);
    out.extend_from_slice(&bytes[..size]);
}

/// The elements; `None` if the ziplist is invalid.
pub fn read(bytes: &[u8]) -> Option<Vec<Bytes<'static>>> {
    let number = |at: usize| bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    if usize::try_from(number(0)?).ok()? != bytes.len() || *bytes.last()? != END {
        return None;
    }
    let count = u16::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
    let end = bytes.len() - 1;
    let (mut at, mut last) = (HEADER, None);
    let mut elements = Vec::new();
    while at < end {
        let size = read_element(bytes.get(at..end)?, last.map_or(0, |last| at - last), &mut elements)?;
        last = Some(at);
        at += size;
    }
    let tail = usize::try_from(number(4)?).ok()?;
    let counted = count == UNCOUNTED || usize::from(count) == elements.len();
    (at == end && counted && last.map_or(tail <= end, |last| last == tail)).then_some(elements)
}

/// Reads the first element; `before` is the size of its predecessor. Returns the element's own size.
fn read_element(bytes: &[u8], before: usize, elements: &mut Vec<Bytes<'static>>) -> Option<usize> {
    let (said, header) = match *bytes.first()? {
        LONG => (usize::try_from(u32::from_le_bytes(*bytes.get(1..)?.first_chunk()?)).ok()?, 5),
        short @ 0..LONG => (usize::from(short), 1),
        END => return None,
    };
    if said != before {
        return None;
    }
    let (&encoding, data) = bytes.get(header..)?.split_first()?;
    let mut string = |skip: usize, length: usize| {
        let element = data.get(skip..)?.get(..length)?;
        elements.push(Cow::Owned(element.to_vec()));
        Some(header + 1 + skip + length)
    };
    let size = match encoding {
        0..STRING_14 => return string(0, usize::from(encoding)),
        STRING_14..STRING_32 => {
            return string(1, usize::from(encoding & 0x3f) << 8 | usize::from(*data.first()?));
        }
        STRING_32..INT_16 => return string(4, usize::try_from(u32::from_be_bytes(*data.first_chunk()?)).ok()?),
        INT_8 => 1,
        INT_16 => 2,
        INT_24 => 3,
        INT_32 => 4,
        INT_64 => 8,
        SMALLEST..=LARGEST => 0,
        _ => return None,
    };
    let value = match data.get(..size)? {
        [] => i64::from(encoding - SMALLEST),
        data => {
            let mut wide = [if data[size - 1] & 0x80 == 0 { 0 } else { 0xff }; 8];
            wide[..size].copy_from_slice(data);
            i64::from_le_bytes(wide)
        }
    };
    elements.push(Cow::Owned(itoa::Buffer::new().format(value).as_bytes().to_vec()));
    Some(header + 1 + size)
}
