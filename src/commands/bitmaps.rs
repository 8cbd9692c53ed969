//! SETBIT, GETBIT, BITCOUNT and BITPOS: strings as bitmaps, the highest bit of each byte first.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::index_ranges::{byte_range, is_backwards};
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{EventClass, View};
use crate::protocol::{Reply, parse_integer};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec, LockEffect};

pub(super) const ROWS: &[Command] = &[BITCOUNT, BITPOS, GETBIT, SETBIT];

/// Parses the offset of a bit. With a `width`, `#n` is the n-th field of that width.
pub(super) fn bit_offset(view: &View<'_>, text: &[u8], width: Option<u32>) -> Result<usize, CommandError> {
    let offset = match (text, width) {
        ([b'#', rest @ ..], Some(width)) => parse_integer(rest).map(|index| index.wrapping_mul(i64::from(width))),
        _ => parse_integer(text),
    };
    let most = view.settings().max_string.load(Ordering::Relaxed);
    offset
        .filter(|&offset| offset >= 0 && offset >> 3 < most)
        .map(|offset| offset as usize)
        .ok_or(CommandError::fixed("ERR bit offset is not an integer or out of range"))
}

const SETBIT: Command = Command::new(
    Handler::Keys(setbit),
    CommandSpec {
        usage: "key offset value",
        summary: "Sets or clears one bit of a string and returns what it was before.",
        group: Group::Bitmap,
        since: Since::redis(2, 2, 0),
        arity: Arity::Exactly(4),
        keys: &[KeySpec::one(1, &["RW", "access", "update"])],
        flags: &[Flag::Write, Flag::DenyOom],
        categories: &[Category::Bitmap],
        lock_effect: LockEffect::OtherWrite,
        ..CommandSpec::new("SETBIT")
    },
);

fn setbit<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, offset) = (args.key()?, bit_offset(view, args.bytes()?, None)?);
    let bit = parse_integer(args.bytes()?)
        .filter(|bit| matches!(bit, 0 | 1))
        .ok_or(CommandError::fixed("ERR bit is not an integer or out of range"))? as u8;
    // Before 7.0 a SETBIT counted as a change even if it left the bit as it was.
    let always = !args.profile().since_redis(7, 0);
    let (old, changed) = view.edit_string_if(key, |bytes| {
        let (at, shift) = (offset / 8, 7 - offset % 8);
        let grown = at >= bytes.len();
        if grown {
            bytes.resize(at + 1, 0);
        }
        let old = bytes[at] >> shift & 1;
        bytes[at] = bytes[at] & !(1 << shift) | bit << shift;
        let changed = always || grown || old != bit;
        ((old, changed), changed)
    })?;
    if changed {
        view.notify(EventClass::String, "setbit", key);
    }
    Ok(Reply::Integer(i64::from(old)))
}

const GETBIT: Command = Command::new(
    Handler::Keys(getbit),
    CommandSpec {
        usage: "key offset",
        summary: "Reads one bit of a string.",
        group: Group::Bitmap,
        since: Since::redis(2, 2, 0),
        arity: Arity::Exactly(3),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly, Flag::Fast],
        categories: &[Category::Bitmap],
        ..CommandSpec::new("GETBIT")
    },
);

fn getbit<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, offset) = (args.key()?, bit_offset(view, args.bytes()?, None)?);
    let byte = view.string(key)?.and_then(|bytes| bytes.get(offset / 8)).copied().unwrap_or(0);
    Ok(Reply::Integer(i64::from(byte >> (7 - offset % 8) & 1)))
}

/// The range of BITCOUNT and BITPOS, as the request gives it.
struct BitRange {
    start: i64,
    /// `None`: the end of the string. BITPOS then finds a clear bit after the string.
    end: Option<i64>,
    in_bits: bool,
}

impl BitRange {
    /// The range in bits, for a string of `length` bytes.
    fn within(&self, length: usize) -> Range<usize> {
        let end = self.end.unwrap_or(-1);
        if self.in_bits {
            byte_range(self.start, end, length * 8)
        } else {
            let bytes = byte_range(self.start, end, length);
            bytes.start * 8..bytes.end * 8
        }
    }
}

/// The last option of BITCOUNT and BITPOS. True for BIT.
fn parse_unit(args: &mut Args<'_>) -> Result<bool, CommandError> {
    if args.is_empty() {
        return Ok(false);
    }
    if !args.profile().since_redis(7, 0) {
        return Err(CommandError::SYNTAX);
    }
    let in_bits = args.take("BIT");
    if in_bits || args.take("BYTE") { Ok(in_bits) } else { Err(CommandError::SYNTAX) }
}

const BITCOUNT: Command = Command::new(
    Handler::Keys(bitcount),
    CommandSpec {
        usage: "key [start end]",
        later_usages: &[(Since::redis(7, 0, 0), "key [start end [BYTE | BIT]]")],
        summary: "Counts the bits that are set in a string or in a part of it.",
        complexity: "O(N) for N bytes",
        group: Group::Bitmap,
        since: Since::redis(2, 6, 0),
        arity: Arity::AtLeast(2),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::Bitmap],
        ..CommandSpec::new("BITCOUNT")
    },
);

fn bitcount<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    // Since 7.2 the arguments are checked before the type of the key.
    if !args.profile().since_redis(7, 2) {
        let Some(bytes) = view.string(key)? else { return Ok(Reply::Integer(0)) };
        let bits = match parse_count_range(args, true)? {
            Some(bits) => bits.within(bytes.len()),
            None => 0..0,
        };
        return Ok(Reply::Integer(count(bytes, bits)));
    }
    let range = parse_count_range(args, false)?;
    let bytes = view.string(key)?.unwrap_or_default();
    Ok(Reply::Integer(range.map_or(0, |range| count(bytes, range.within(bytes.len())))))
}

/// The range of BITCOUNT, or `None` if it runs backwards. Old releases check for that before the unit. Valkey allows a
/// missing end, and checks the unit before the end.
fn parse_count_range(args: &mut Args<'_>, backwards_first: bool) -> Result<Option<BitRange>, CommandError> {
    let end_optional = args.profile().has(Since::valkey(8, 0, 0));
    if args.is_empty() {
        return Ok(Some(BitRange { start: 0, end: None, in_bits: false }));
    }
    if args.left() > 3 || args.left() == 1 && !end_optional {
        return Err(CommandError::SYNTAX);
    }
    let start = args.integer()?;
    if end_optional {
        let end = args.optional();
        let in_bits = parse_unit(args)?;
        let end = end.map(|end| parse_integer(end).ok_or(CommandError::NOT_AN_INTEGER)).transpose()?;
        let backwards = end.is_some_and(|end| is_backwards(start, end));
        return Ok(if backwards { None } else { Some(BitRange { start, end, in_bits }) });
    }
    let end = args.integer()?;
    let backwards = is_backwards(start, end);
    if backwards && backwards_first {
        return Ok(None);
    }
    let in_bits = parse_unit(args)?;
    Ok(if backwards { None } else { Some(BitRange { start, end: Some(end), in_bits }) })
}

fn count(bytes: &[u8], bits: Range<usize>) -> i64 {
    if bits.is_empty() {
        return 0;
    }
    let part = &bytes[bits.start / 8..bits.end.div_ceil(8)];
    let (words, rest) = part.as_chunks::<8>();
    // A string of 512 MB has more bits than a u32 can count.
    let all = words.iter().map(|&word| i64::from(u64::from_ne_bytes(word).count_ones())).sum::<i64>()
        + rest.iter().map(|byte| i64::from(byte.count_ones())).sum::<i64>();
    let before = bytes[bits.start / 8] & !(0xff >> (bits.start % 8));
    let after = if bits.end.is_multiple_of(8) { 0 } else { bytes[bits.end / 8] & (0xff >> (bits.end % 8)) };
    all - i64::from(before.count_ones()) - i64::from(after.count_ones())
}

const BITPOS: Command = Command::new(
    Handler::Keys(bitpos),
    CommandSpec {
        usage: "key bit [start [end]]",
        later_usages: &[(Since::redis(7, 0, 0), "key bit [start [end [BYTE | BIT]]]")],
        summary: "Finds the first bit of a string that is set, or the first that is clear.",
        complexity: "O(N) for N bytes",
        group: Group::Bitmap,
        since: Since::redis(2, 8, 7),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::Bitmap],
        ..CommandSpec::new("BITPOS")
    },
);

fn bitpos<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, bit) = (args.key()?, args.integer()?);
    if !matches!(bit, 0 | 1) {
        return Err(CommandError::fixed("ERR The bit argument must be 1 or 0."));
    }
    let bit = bit == 1;
    let absent = Ok(Reply::Integer(if bit { -1 } else { 0 }));
    let (bytes, range) = if args.profile().since_redis(7, 2) {
        let range = parse_position_range(args)?;
        let Some(bytes) = view.string(key)? else { return absent };
        (bytes, range)
    } else {
        let Some(bytes) = view.string(key)? else { return absent };
        (bytes, parse_position_range(args)?)
    };
    let bits = range.within(bytes.len());
    if bits.is_empty() {
        return Ok(Reply::Integer(-1));
    }
    let position = match find(bytes, bits, bit) {
        Some(at) => at as i64,
        // Without an end, clear bits follow the string.
        None if !bit && range.end.is_none() => bytes.len() as i64 * 8,
        None => -1,
    };
    Ok(Reply::Integer(position))
}

fn parse_position_range(args: &mut Args<'_>) -> Result<BitRange, CommandError> {
    if args.left() > 3 {
        return Err(CommandError::SYNTAX);
    }
    let start = if args.is_empty() { 0 } else { args.integer()? };
    // The unit is checked before the end.
    let Some(end) = args.optional() else { return Ok(BitRange { start, end: None, in_bits: false }) };
    let in_bits = parse_unit(args)?;
    let end = parse_integer(end).ok_or(CommandError::NOT_AN_INTEGER)?;
    Ok(BitRange { start, end: Some(end), in_bits })
}

/// The first bit in the range that equals `bit`.
fn find(bytes: &[u8], bits: Range<usize>, bit: bool) -> Option<usize> {
    let nothing = if bit { 0 } else { 0xff };
    let first = bits.start / 8;
    // Hides the bits before the range in its first byte.
    let hidden = !(0xff >> (bits.start % 8));
    let head = if bit { bytes[first] & !hidden } else { bytes[first] | hidden };
    let (at, byte) = if head != nothing {
        (first, head)
    } else {
        let rest = &bytes[first + 1..bits.end.div_ceil(8).max(first + 1)];
        let (words, _) = rest.as_chunks::<8>();
        let skipped = words.iter().take_while(|&&word| word == [nothing; 8]).count() * 8;
        let at = skipped + rest[skipped..].iter().position(|&byte| byte != nothing)?;
        (first + 1 + at, rest[at])
    };
    let offset = if bit { byte.leading_zeros() } else { byte.leading_ones() };
    Some(at * 8 + offset as usize).filter(|&position| position < bits.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_and_finding_agree_with_looking_at_every_bit() {
        let bytes: Vec<u8> = [0u8, 0xff, 0xf0, 0x01, 0xff, 0x80].into_iter().chain([0; 17]).chain([4, 0xff]).collect();
        let bit = |at: usize| bytes[at / 8] >> (7 - at % 8) & 1 == 1;
        for start in 0..bytes.len() * 8 {
            for end in start + 1..=bytes.len() * 8 {
                let range = start..end;
                assert_eq!(count(&bytes, range.clone()), range.clone().filter(|&at| bit(at)).count() as i64);
                for wanted in [false, true] {
                    let found = range.clone().find(|&at| bit(at) == wanted);
                    assert_eq!(find(&bytes, range.clone(), wanted), found, "{wanted} in {range:?}");
                }
            }
        }
    }

    #[test]
    fn the_longest_string_has_more_bits_than_32_bits_can_count() {
        assert_eq!(count(&vec![0xff; 512 << 20], 0..1 << 32), 1 << 32);
    }
}
