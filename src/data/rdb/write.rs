//! Writes the parts of serialized values.

use super::{COMPRESSED, INT_8, INT_16, INT_32, LENGTH_14, LENGTH_32, LENGTH_64, lzf};
use crate::protocol::parse_integer;

/// The longest string that is tried as an integer, and the longest that is not worth compressing.
const LONGEST_INTEGER: usize = 11;
const SHORT: usize = 20;

pub fn write_string(out: &mut Vec<u8>, value: &[u8]) {
    if value.len() <= LONGEST_INTEGER
        && let Some(integer) = parse_integer(value)
        && write_integer(out, integer)
    {
        return;
    }
    if value.len() > SHORT
        && let Some(compressed) = lzf::compress(value, value.len() - 4)
    {
        out.push(COMPRESSED);
        write_length(out, compressed.len());
        write_length(out, value.len());
        out.extend_from_slice(&compressed);
        return;
    }
    write_length(out, value.len());
    out.extend_from_slice(value);
}

/// Writes an integer in the shortest encoding; only integers of at most four bytes have one.
fn write_integer(out: &mut Vec<u8>, value: i64) -> bool {
    if let Ok(value) = i8::try_from(value) {
        out.push(INT_8);
        out.extend_from_slice(&value.to_le_bytes());
    } else if let Ok(value) = i16::try_from(value) {
        out.push(INT_16);
        out.extend_from_slice(&value.to_le_bytes());
    } else if let Ok(value) = i32::try_from(value) {
        out.push(INT_32);
        out.extend_from_slice(&value.to_le_bytes());
    } else {
        return false;
    }
    true
}

pub fn write_length(out: &mut Vec<u8>, length: usize) {
    if length < 1 << 6 {
        out.push(length as u8);
    } else if length < 1 << 14 {
        out.push(LENGTH_14 | (length >> 8) as u8);
        out.push(length as u8);
    } else if let Ok(length) = u32::try_from(length) {
        out.push(LENGTH_32);
        out.extend_from_slice(&length.to_be_bytes());
    } else {
        out.push(LENGTH_64);
        out.extend_from_slice(&(length as u64).to_be_bytes());
    }
}
