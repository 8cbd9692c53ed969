//! BITOP: whole strings combined bit by bit.

use crate::error::CommandError;
use crate::keyspace::View;
use crate::profile::Since;
use crate::resp::Reply;
use crate::spec::{Args, Arity, Category, CommandResult, CommandSpec, Flag, Group, Handler, KeySpec};

pub(super) const ROWS: &[CommandSpec] = &[BITOP];

const BITOP: CommandSpec = CommandSpec {
    usage: "operation destkey key [key ...]",
    summary: "Combines strings bit by bit and keeps the result under a key.",
    complexity: "O(N) for N bytes",
    group: Group::Bitmap,
    since: Since::redis(2, 6, 0),
    arity: Arity::AtLeast(4),
    keys: &[KeySpec::one(2, &["OW", "update"]), KeySpec::range(3, -1, 1, &["RO", "access"])],
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::Bitmap],
    ..CommandSpec::new("BITOP", Handler::Keys(bitop))
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
    /// Set in the first string and in none of the others.
    Diff,
    /// Set in one of the others, but not in the first.
    Diff1,
    /// Set in the first string and in one of the others.
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

    /// Whether the first string plays another part than the rest.
    fn is_lopsided(self) -> bool {
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
    if operation.is_lopsided() && sources.len() < 2 {
        return Err(CommandError::new(format!("ERR BITOP {name} must be called with at least two source keys.")));
    }
    let result = combine(view, operation, sources.iter())?;
    let length = result.len();
    if result.is_empty() {
        view.remove(destination);
    } else {
        view.set_raw_string(destination, result);
    }
    Ok(Reply::Integer(length as i64))
}

fn combine<'a>(
    view: &mut View<'_>,
    operation: Operation,
    sources: impl Iterator<Item = &'a [u8]>,
) -> Result<Vec<u8>, CommandError> {
    // Copies, because the view lends one string at a time.
    let strings: Vec<Vec<u8>> =
        sources.map(|key| Ok(view.string(key)?.unwrap_or_default().to_vec())).collect::<Result<_, CommandError>>()?;
    let mut rest = strings.into_iter();
    let first = rest.next().unwrap_or_default();
    let rest = rest.as_slice();
    let fold = |start: Vec<u8>, change: fn(u8, u8) -> u8| rest.iter().fold(start, |sum, next| zip(sum, next, change));
    Ok(match operation {
        Operation::And => fold(first, |one, other| one & other),
        Operation::Or => fold(first, |one, other| one | other),
        Operation::Xor => fold(first, |one, other| one ^ other),
        Operation::Not => first.iter().map(|byte| !byte).collect(),
        Operation::Diff => fold(first, |one, other| one & !other),
        Operation::Diff1 => zip(fold(Vec::new(), |one, other| one | other), &first, |one, other| one & !other),
        Operation::AndOr => zip(fold(Vec::new(), |one, other| one | other), &first, |one, other| one & other),
        Operation::One => {
            let mut once = first.clone();
            let mut twice = Vec::new();
            let mut seen = first;
            for next in rest {
                twice = zip(twice, &zip(seen.clone(), next, |one, other| one & other), |one, other| one | other);
                seen = zip(seen, next, |one, other| one | other);
                once = zip(seen.clone(), &twice, |one, other| one & !other);
            }
            once
        }
    })
}

/// Combines two strings byte by byte; the shorter one goes on in zeros.
fn zip(mut one: Vec<u8>, other: &[u8], change: impl Fn(u8, u8) -> u8) -> Vec<u8> {
    if one.len() < other.len() {
        one.resize(other.len(), 0);
    }
    let (paired, alone) = one.split_at_mut(other.len());
    for (byte, &other) in paired.iter_mut().zip(other) {
        *byte = change(*byte, other);
    }
    for byte in alone {
        *byte = change(*byte, 0);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_string_goes_on_in_zeros() {
        assert_eq!(zip(vec![0xff, 0xff], &[0x0f], |one, other| one & other), [0x0f, 0]);
        assert_eq!(zip(vec![0xf0], &[0x0f, 1], |one, other| one ^ other), [0xff, 1]);
    }
}
