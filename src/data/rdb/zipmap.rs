//! Zipmaps: the format of small hashes before Redis 2.6.
//!
//! A byte with the number of pairs, the pairs, an end byte. A field is its length and its bytes. A value is its length,
//! a byte with the number of unused bytes behind it, and its bytes.

use std::borrow::Cow;

use super::Bytes;

const END: u8 = 0xff;

/// Lengths below this take one byte; longer ones take four bytes behind this one. The count byte is exact below this,
/// too.
const LONG: u8 = 254;

/// The pairs; `None` if the zipmap is invalid.
pub fn read(bytes: &[u8]) -> Option<Vec<(Bytes<'static>, Bytes<'static>)>> {
    let (&count, rest) = bytes.split_first()?;
    let (&end, mut rest) = rest.split_last()?;
    if end != END {
        return None;
    }
    let mut pairs = Vec::new();
    // Redis ignores what is behind the end.
    while rest.first().is_some_and(|&first| first != END) {
        let field = take_length(&mut rest)?;
        let field = take(&mut rest, field)?;
        let value = take_length(&mut rest)?;
        let free = usize::from(take(&mut rest, 1)?[0]);
        let value = take(&mut rest, value)?;
        take(&mut rest, free)?;
        pairs.push((Cow::Owned(field.to_vec()), Cow::Owned(value.to_vec())));
    }
    (count == LONG || usize::from(count) == pairs.len()).then_some(pairs)
}

fn take<'b>(rest: &mut &'b [u8], length: usize) -> Option<&'b [u8]> {
    let (taken, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(taken)
}

fn take_length(rest: &mut &[u8]) -> Option<usize> {
    match take(rest, 1)?[0] {
        END => None,
        LONG => {
            let length = u32::from_le_bytes(take(rest, 4)?.try_into().ok()?);
            // Redis skips a length by its shortest form, so a longer form is invalid.
            (length >= u32::from(LONG)).then(|| usize::try_from(length).ok())?
        }
        short => Some(usize::from(short)),
    }
}
