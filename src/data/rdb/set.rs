//! Sets.

use std::borrow::Cow;

use super::reader::Reader;
use super::{Bytes, Content, SET, SET_INTEGERS, SET_LISTPACK, write_length, write_string};
use crate::data::listpack;

/// The header of an intset: the width and the number of integers, four bytes each.
const INTEGERS_HEADER: usize = 8;

pub fn write(out: &mut Vec<u8>, members: &[Bytes<'_>], packed: bool) {
    if packed {
        out.push(SET_LISTPACK);
        write_string(out, &listpack::write(members.iter().map(|member| &**member)));
        return;
    }
    out.push(SET);
    write_length(out, members.len());
    members.iter().for_each(|member| write_string(out, member));
}

pub fn write_integers(out: &mut Vec<u8>, width: u8, values: &[i64]) {
    let mut bytes = vec![0; INTEGERS_HEADER + values.len() * usize::from(width)];
    let (header, integers) = bytes.split_at_mut(INTEGERS_HEADER);
    header[..4].copy_from_slice(&u32::from(width).to_le_bytes());
    header[4..].copy_from_slice(&u32::try_from(values.len()).unwrap_or(u32::MAX).to_le_bytes());
    match width {
        2 => fill::<2>(integers, values),
        4 => fill::<4>(integers, values),
        _ => fill::<8>(integers, values),
    }
    out.push(SET_INTEGERS);
    write_string(out, &bytes);
}

/// Writes the integers. The width is a constant, so that the processor can take several at once.
fn fill<const WIDTH: usize>(bytes: &mut [u8], values: &[i64]) {
    for (place, value) in bytes.as_chunks_mut::<WIDTH>().0.iter_mut().zip(values) {
        if let Some(low) = value.to_le_bytes().first_chunk() {
            *place = *low;
        }
    }
}

pub fn read(reader: &mut Reader<'_>) -> Option<Content<'static>> {
    let members = reader.several(|reader| reader.string().map(Cow::Owned))?;
    Some(Content::Set { members, packed: false })
}

pub fn read_listpack(reader: &mut Reader<'_>) -> Option<Content<'static>> {
    Some(Content::Set { members: listpack::read(&reader.string()?)?, packed: true })
}

pub fn read_integers(reader: &mut Reader<'_>) -> Option<Content<'static>> {
    let bytes = reader.string()?;
    let (header, data) = bytes.split_first_chunk::<INTEGERS_HEADER>()?;
    let number = |at: usize| header[at..].first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    let width = u8::try_from(number(0)?).ok().filter(|width| matches!(width, 2 | 4 | 8))?;
    let count = usize::try_from(number(4)?).ok()?;
    if Some(data.len()) != count.checked_mul(usize::from(width)) {
        return None;
    }
    let values = data.chunks_exact(usize::from(width)).map(|bytes| {
        let negative = bytes.last().is_some_and(|last| last & 0x80 != 0);
        let mut wide = [if negative { 0xff } else { 0 }; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        i64::from_le_bytes(wide)
    });
    Some(Content::Integers { width, values: values.collect() })
}
