//! BITOP: bitwise operations between strings.

use super::keys::delete;
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{Entry, EventClass, View};
use crate::protocol::{Reply, Words};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec};

pub(super) const ROWS: &[Command] = &[BITOP];

const BITOP: Command = Command::new(
    Handler::Keys(bitop),
    CommandSpec {
        usage: "operation destkey key [key ...]",
        summary: "Combines strings bit by bit and keeps the result under a key.",
        complexity: "O(N) for N bytes",
        group: Group::Bitmap,
        since: Since::redis(2, 6, 0),
        arity: Arity::AtLeast(4),
        keys: &[KeySpec::one(2, &["OW", "update"]), KeySpec::range(3, -1, 1, &["RO", "access"])],
        flags: &[Flag::Write, Flag::DenyOom],
        categories: &[Category::Bitmap],
        ..CommandSpec::new("BITOP")
    },
);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
    /// Set in the first string and in no other.
    Diff,
    /// Set in another string, but not in the first.
    Diff1,
    /// Set in the first string and in another.
    AndOr,
    /// Set in exactly one string.
    One,
}

impl Operation {
    const ALL: [(&'static str, Self); 8] = [
        ("AND", Self::And),
        ("OR", Self::Or),
        ("XOR", Self::Xor),
        ("NOT", Self::Not),
        ("DIFF", Self::Diff),
        ("DIFF1", Self::Diff1),
        ("ANDOR", Self::AndOr),
        ("ONE", Self::One),
    ];

    fn is_newer(self) -> bool {
        matches!(self, Self::Diff | Self::Diff1 | Self::AndOr | Self::One)
    }

    /// Whether the operation treats the first string differently.
    fn is_first_special(self) -> bool {
        matches!(self, Self::Diff | Self::Diff1 | Self::AndOr)
    }
}

fn bitop<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (word, destination) = (args.bytes()?, args.key()?);
    let (name, operation) = Operation::ALL
        .into_iter()
        .find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()))
        .filter(|(_, operation)| !operation.is_newer() || args.profile().has(Since::redis(8, 2, 0)))
        .ok_or(CommandError::SYNTAX)?;
    let sources = args.rest();
    if operation == Operation::Not && sources.len() != 1 {
        return Err(CommandError::fixed("ERR BITOP NOT must be called with a single source key."));
    }
    if operation.is_first_special() && sources.len() < 2 {
        return Err(CommandError::new(format!("ERR BITOP {name} must be called with at least two source keys.")));
    }
    let result = combine(view, operation, sources)?;
    let length = result.len();
    if result.is_empty() {
        delete(view, destination);
    } else {
        view.set_raw_string(destination, result);
        view.notify(EventClass::String, "set", destination);
    }
    Ok(Reply::Integer(length as i64))
}

/// Combines the strings one by one, so that only the result needs memory.
fn combine(view: &mut View<'_>, operation: Operation, sources: Words<'_>) -> Result<Vec<u8>, CommandError> {
    let length = |key| view.peek(key).and_then(Entry::text).map_or(0, |text| text.bytes.len());
    let longest = sources.iter().map(length).max().unwrap_or(0);
    let first = sources.get(0).unwrap_or_default();
    let mut result = Vec::with_capacity(longest);
    result.extend_from_slice(view.string(first)?.unwrap_or_default());
    if matches!(operation, Operation::Diff1 | Operation::AndOr) {
        // The other strings are combined first.
        result.clear();
    }
    result.resize(longest, 0);
    let mut twice = vec![0; if operation == Operation::One { longest } else { 0 }];
    for key in sources.from(1).iter() {
        let next = view.string(key)?.unwrap_or_default();
        match operation {
            Operation::And => apply_bytes(&mut result, next, |one, other| one & other),
            Operation::Or | Operation::Diff1 | Operation::AndOr => {
                apply_bytes(&mut result, next, |one, other| one | other)
            }
            Operation::Xor => apply_bytes(&mut result, next, |one, other| one ^ other),
            Operation::Diff => apply_bytes(&mut result, next, |one, other| one & !other),
            Operation::One => {
                for ((once, twice), next) in result.iter_mut().zip(&mut twice).zip(next) {
                    *twice |= *once & next;
                    *once = (*once ^ next) & !*twice;
                }
            }
            Operation::Not => {}
        }
    }
    let first = view.peek(first).and_then(Entry::text).map_or(&[][..], |text| text.bytes);
    match operation {
        Operation::Not => result.iter_mut().for_each(|byte| *byte = !*byte),
        Operation::Diff1 => apply_bytes(&mut result, first, |one, other| one & !other),
        Operation::AndOr => apply_bytes(&mut result, first, |one, other| one & other),
        _ => {}
    }
    Ok(result)
}

/// Combines a string with one that is not longer, byte by byte. The shorter one is padded with zeros.
fn apply_bytes(one: &mut [u8], other: &[u8], change: impl Fn(u8, u8) -> u8) {
    let (paired, alone) = one.split_at_mut(other.len().min(one.len()));
    for (byte, &other) in paired.iter_mut().zip(other) {
        *byte = change(*byte, other);
    }
    for byte in alone {
        *byte = change(*byte, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_string_goes_on_in_zeros() {
        let zipped = |mut one: Vec<u8>, other: &[u8], change: fn(u8, u8) -> u8| {
            apply_bytes(&mut one, other, change);
            one
        };
        assert_eq!(zipped(vec![0xff, 0xff], &[0x0f], |one, other| one & other), [0x0f, 0]);
        assert_eq!(zipped(vec![0xf0, 1], &[0x0f], |one, other| one ^ other), [0xff, 1]);
    }
}
