//! Parts of strings: APPEND, GETRANGE, SUBSTR, SETRANGE.

use std::sync::atomic::Ordering;

use super::index_ranges::{byte_range, is_backwards};
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{EventClass, Expiry, View};
use crate::protocol::Reply;
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec, LockEffect};

pub(super) const ROWS: &[Command] = &[APPEND, GETRANGE, SETRANGE, SUBSTR];

const APPEND: Command = Command::new(
    Handler::Keys(append),
    CommandSpec {
        usage: "key value",
        summary: "Adds bytes to the end of a string; without one, creates it.",
        complexity: "O(1) on average, as the room for a string grows in big steps",
        group: Group::String,
        since: Since::redis(2, 0, 0),
        arity: Arity::Exactly(3),
        keys: &[KeySpec::one(1, &["RW", "insert"])],
        flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
        categories: &[Category::String],
        lock_effect: LockEffect::OtherWrite,
        ..CommandSpec::new("APPEND")
    },
);

fn append<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, value) = (args.key()?, args.bytes()?);
    let Some(length) = view.string_to_write(key)?.map(<[u8]>::len) else {
        view.set_string(key, value, Expiry::Never);
        view.notify(EventClass::String, "append", key);
        return Ok(Reply::Integer(value.len() as i64));
    };
    check_length(view, length as u64, value.len())?;
    let length = view.edit_string(key, |bytes| {
        bytes.extend_from_slice(value);
        bytes.len()
    })?;
    view.notify(EventClass::String, "append", key);
    Ok(Reply::Integer(length as i64))
}

const SETRANGE: Command = Command::new(
    Handler::Keys(setrange),
    CommandSpec {
        usage: "key offset value",
        summary: "Overwrites a part of a string, which grows with zero bytes where it is too short.",
        complexity: "O(N) for N bytes written",
        group: Group::String,
        since: Since::redis(2, 2, 0),
        arity: Arity::Exactly(4),
        keys: &[KeySpec::one(1, &["RW", "update"])],
        flags: &[Flag::Write, Flag::DenyOom],
        categories: &[Category::String],
        lock_effect: LockEffect::OtherWrite,
        ..CommandSpec::new("SETRANGE")
    },
);

fn setrange<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, offset, value) = (args.key()?, args.integer()?, args.bytes()?);
    let offset = u64::try_from(offset).map_err(|_| CommandError::OFFSET_OUT_OF_RANGE)?;
    let length = view.string_to_write(key)?.map_or(0, <[u8]>::len);
    if value.is_empty() {
        return Ok(Reply::Integer(length as i64));
    }
    check_length(view, offset, value.len())?;
    let start = offset as usize;
    let end = start + value.len();
    let length = view.edit_string(key, |bytes| {
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[start..end].copy_from_slice(value);
        bytes.len()
    })?;
    view.notify(EventClass::String, "setrange", key);
    Ok(Reply::Integer(length as i64))
}

/// An error if a string would become too long.
fn check_length(view: &View<'_>, length: u64, added: usize) -> Result<(), CommandError> {
    let most = view.settings().max_string.load(Ordering::Relaxed);
    let total = length.checked_add(added as u64);
    if total.is_some_and(|total| total <= most as u64) { Ok(()) } else { Err(CommandError::STRING_TOO_LONG) }
}

const GETRANGE: Command = Command::new(
    Handler::Keys(getrange),
    CommandSpec {
        usage: "key start end",
        summary: "Reads a part of a string.",
        complexity: "O(N) for N bytes returned",
        group: Group::String,
        since: Since::redis(2, 4, 0),
        arity: Arity::Exactly(4),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::String],
        lock_effect: LockEffect::GetRange,
        ..CommandSpec::new("GETRANGE")
    },
);

const SUBSTR: Command = Command::new(
    Handler::Keys(getrange),
    CommandSpec {
        usage: "key start end",
        summary: "Reads a part of a string.",
        complexity: "O(N) for N bytes returned",
        group: Group::String,
        since: Since::redis(1, 0, 0),
        arity: Arity::Exactly(4),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::String],
        deprecated: Some(("2.0.0", "`GETRANGE`")),
        lock_effect: LockEffect::GetRange,
        ..CommandSpec::new("SUBSTR")
    },
);

fn getrange<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, start, end) = (args.key()?, args.integer()?, args.integer()?);
    let bytes = view.string(key)?.unwrap_or_default();
    let range = if is_backwards(start, end) { 0..0 } else { byte_range(start, end, bytes.len()) };
    Ok(Reply::bulk(&bytes[range]))
}
