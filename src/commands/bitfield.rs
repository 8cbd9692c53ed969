//! BITFIELD and BITFIELD_RO: integers of any width within a string.

use smallvec::SmallVec;

use super::bitmaps::bit_offset;
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{EventClass, View};
use crate::protocol::{Reply, Words, parse_integer};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec};

pub(super) const ROWS: &[Command] = &[BITFIELD, BITFIELD_RO];

const BITFIELD: Command = Command::new(
    Handler::Keys(|view, args| bitfield(view, args, false)),
    CommandSpec {
        usage: "key [GET encoding offset | [OVERFLOW <WRAP | SAT | FAIL>] <SET encoding offset value | INCRBY encoding \
            offset increment> [GET encoding offset | [OVERFLOW <WRAP | SAT | FAIL>] <SET encoding offset value | \
            INCRBY encoding offset increment> ...]]",
        summary: "Reads and writes integers packed into a string.",
        complexity: "O(1) for each operation",
        group: Group::Bitmap,
        since: Since::redis(3, 2, 0),
        arity: Arity::AtLeast(2),
        keys: &[KeySpec::one(1, &["RW", "access", "update", "variable_flags"])
            .with_notes("This command allows both access and modification of the key")
            .with_flags_by(key_flags)],
        flags: &[Flag::Write, Flag::DenyOom],
        categories: &[Category::Bitmap],
        ..CommandSpec::new("BITFIELD")
    },
);

/// How a BITFIELD uses its key. A request that does not parse counts as a write.
fn key_flags(words: Words<'_>) -> &'static [&'static str] {
    let mut at = 2;
    while let Some(word) = words.get(at) {
        let behind = words.len() - at - 1;
        at += match word.to_ascii_uppercase().as_slice() {
            b"GET" if behind >= 2 => 3,
            b"OVERFLOW" if behind >= 1 => 2,
            _ => return &["RW", "access", "update"],
        };
    }
    &["RO", "access"]
}

const BITFIELD_RO: Command = Command::new(
    Handler::Keys(|view, args| bitfield(view, args, true)),
    CommandSpec {
        usage: "key [GET encoding offset [GET encoding offset ...]]",
        summary: "Reads integers packed into a string.",
        complexity: "O(1) for each operation",
        group: Group::Bitmap,
        since: Since::redis(6, 0, 0),
        arity: Arity::AtLeast(2),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly, Flag::Fast],
        categories: &[Category::Bitmap],
        ..CommandSpec::new("BITFIELD_RO")
    },
);

/// The option OVERFLOW.
#[derive(Clone, Copy)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Clone, Copy)]
enum Change {
    Set(i64),
    Add(i64),
}

/// One subcommand of BITFIELD.
struct Operation {
    field: Field,
    /// `None` for GET.
    change: Option<(Change, Overflow)>,
}

#[derive(Clone, Copy)]
struct Field {
    signed: bool,
    width: u32,
    offset: usize,
}

fn bitfield<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, read_only: bool) -> CommandResult<'v> {
    let key = args.key()?;
    let operations = parse(view, args)?;
    let end = operations.iter().filter(|operation| operation.change.is_some()).map(|operation| operation.field.end());
    let Some(end) = end.max() else {
        let bytes = view.string(key)?.unwrap_or_default();
        let values = operations.iter().map(|operation| Reply::Integer(operation.field.read(bytes)));
        return Ok(Reply::Array(values.collect()));
    };
    if read_only {
        return Err(CommandError::fixed("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    // Before 7.0 a write counted as a change even if it left the field as it was.
    let always = !args.profile().since_redis(7, 0);
    let (replies, changed) = view.amend_string(key, |bytes| {
        let grown = bytes.len() < end;
        if grown {
            bytes.resize(end, 0);
        }
        let mut changed = false;
        let replies = operations.iter().map(|operation| {
            let field = operation.field;
            let old = field.read(bytes);
            let Some((change, overflow)) = operation.change else { return Reply::Integer(old) };
            let Some(new) = field.changed(old, change, overflow) else { return Reply::Null };
            field.write(bytes, new);
            changed |= always || grown || old != new;
            Reply::Integer(if matches!(change, Change::Set(_)) { old } else { new })
        });
        let replies = replies.collect();
        ((replies, changed), changed)
    })?;
    if changed {
        view.notify(EventClass::String, "setbit", key);
    }
    Ok(Reply::Array(replies))
}

fn parse(view: &View<'_>, args: &mut Args<'_>) -> Result<SmallVec<[Operation; 4]>, CommandError> {
    let mut operations = SmallVec::new();
    let mut overflow = Overflow::Wrap;
    while !args.is_empty() {
        if args.left() > 1 && args.take("OVERFLOW") {
            overflow = if args.take("WRAP") {
                Overflow::Wrap
            } else if args.take("SAT") {
                Overflow::Saturate
            } else if args.take("FAIL") {
                Overflow::Fail
            } else {
                return Err(CommandError::fixed("ERR Invalid OVERFLOW type specified"));
            };
            continue;
        }
        let change: Option<fn(i64) -> Change> = if args.left() > 2 && args.take("GET") {
            None
        } else if args.left() > 3 && args.take("SET") {
            Some(Change::Set)
        } else if args.left() > 3 && args.take("INCRBY") {
            Some(Change::Add)
        } else {
            return Err(CommandError::SYNTAX);
        };
        let (signed, width) = parse_encoding(args.bytes()?)?;
        let offset = bit_offset(view, args.bytes()?, Some(width))?;
        let change = match change {
            Some(change) => Some((change(args.integer()?), overflow)),
            None => None,
        };
        operations.push(Operation { field: Field { signed, width, offset }, change });
    }
    Ok(operations)
}

/// Parses `i8` or `u63`: whether it is signed, and its number of bits.
fn parse_encoding(text: &[u8]) -> Result<(bool, u32), CommandError> {
    let (signed, width) = match text {
        [b'i', width @ ..] => (true, width),
        [b'u', width @ ..] => (false, width),
        _ => (false, &[][..]),
    };
    let most = if signed { 64 } else { 63 };
    parse_integer(width).filter(|width| (1..=most).contains(width)).map(|width| (signed, width as u32)).ok_or(
        CommandError::fixed(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ),
    )
}

impl Field {
    /// The index of the byte after the field.
    fn end(self) -> usize {
        (self.offset + self.width as usize).div_ceil(8)
    }

    /// The distance of the field from the right end of the 16 bytes that begin with the field's first byte.
    fn shift(self) -> u32 {
        u128::BITS - (self.offset % 8) as u32 - self.width
    }

    /// Reads the value. Bits after the end of the string are 0.
    fn read(self, bytes: &[u8]) -> i64 {
        let mut window = [0; 16];
        let here = bytes.get(self.offset / 8..).unwrap_or_default();
        let count = here.len().min(window.len());
        window[..count].copy_from_slice(&here[..count]);
        let value = (u128::from_be_bytes(window) >> self.shift()) as u64;
        let unused = u64::BITS - self.width;
        let value = value << unused;
        if self.signed { (value as i64) >> unused } else { (value >> unused) as i64 }
    }

    /// Writes the low bits of a value. The string must be long enough.
    fn write(self, bytes: &mut [u8], value: i64) {
        let (start, end) = (self.offset / 8, self.end());
        let mut window = [0; 16];
        window[..end - start].copy_from_slice(&bytes[start..end]);
        let mask = u128::from(u64::MAX >> (u64::BITS - self.width)) << self.shift();
        let value = (value as u64 as u128) << self.shift() & mask;
        let window = (u128::from_be_bytes(window) & !mask | value).to_be_bytes();
        bytes[start..end].copy_from_slice(&window[..end - start]);
    }

    /// The value after a change. `None` for an overflow with OVERFLOW FAIL.
    fn changed(self, old: i64, change: Change, overflow: Overflow) -> Option<i64> {
        let (base, increment) = match change {
            Change::Set(value) => (value, 0),
            Change::Add(increment) => (old, increment),
        };
        let excess =
            if self.signed { self.signed_excess(base, increment) } else { self.unsigned_excess(base, increment) };
        let (highest, lowest) = self.limits();
        match (excess, overflow) {
            (std::cmp::Ordering::Equal, _) | (_, Overflow::Wrap) => Some(self.wrapped(base.wrapping_add(increment))),
            (_, Overflow::Fail) => None,
            (std::cmp::Ordering::Greater, Overflow::Saturate) => Some(highest),
            (std::cmp::Ordering::Less, Overflow::Saturate) => Some(lowest),
        }
    }

    fn limits(self) -> (i64, i64) {
        if self.signed {
            let highest = i64::MAX >> (u64::BITS - self.width);
            (highest, -highest - 1)
        } else {
            (i64::MAX >> (63 - self.width), 0)
        }
    }

    /// On which side of the field's range `base + increment` lies (`Equal`: inside). Like Redis, subtracts `base` from
    /// the limits before it checks that `base` lies between them; clients can see the wrap-around for values far below.
    fn signed_excess(self, base: i64, increment: i64) -> std::cmp::Ordering {
        let (highest, lowest) = self.limits();
        let (most, least) = (highest.wrapping_sub(base), lowest.wrapping_sub(base));
        let narrow = self.width != 64;
        if base > highest || (narrow && increment > most) || (base >= 0 && increment > 0 && increment > most) {
            std::cmp::Ordering::Greater
        } else if base < lowest || (narrow && increment < least) || (base < 0 && increment < 0 && increment < least) {
            std::cmp::Ordering::Less
        } else {
            std::cmp::Ordering::Equal
        }
    }

    /// Like [`signed_excess`](Self::signed_excess), with a negative `base` read as unsigned.
    fn unsigned_excess(self, base: i64, increment: i64) -> std::cmp::Ordering {
        let (highest, _) = self.limits();
        if base < 0 || base > highest || (increment > 0 && increment > highest - base) {
            std::cmp::Ordering::Greater
        } else if increment < 0 && increment < -base {
            std::cmp::Ordering::Less
        } else {
            std::cmp::Ordering::Equal
        }
    }

    fn wrapped(self, value: i64) -> i64 {
        let unused = u64::BITS - self.width;
        if self.signed { value << unused >> unused } else { ((value as u64) << unused >> unused) as i64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_holds_what_was_written_and_its_neighbours_keep_theirs() {
        for width in 1..=64 {
            for offset in 0..20 {
                let field = Field { signed: true, width, offset };
                for fill in [0, 0xff] {
                    let mut bytes = vec![fill; 12];
                    let value = field.wrapped(0x5a5a_1234_dead_beef);
                    field.write(&mut bytes, value);
                    assert_eq!(field.read(&bytes), value);
                    field.write(&mut bytes, if fill == 0 { 0 } else { -1 });
                    assert_eq!(bytes, [fill; 12], "width {width}, offset {offset}");
                }
            }
        }
    }

    #[test]
    fn a_field_behind_the_end_is_zero() {
        assert_eq!(Field { signed: false, width: 8, offset: 4 }.read(&[0xff]), 0xf0);
        assert_eq!(Field { signed: true, width: 64, offset: 4_000_000_000 }.read(&[0xff]), 0);
    }
}
