//! Strings as numbers: INCR, DECR, INCRBY, DECRBY and INCRBYFLOAT.

use super::long_double::LongDouble;
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{EventClass, View};
use crate::protocol::{Reply, parse_integer};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec, LockEffect};

pub(super) const ROWS: &[Command] = &[DECR, DECRBY, INCR, INCRBY, INCRBYFLOAT];

const INCR: Command = Command::new(
    Handler::Keys(|view, args| add(view, args.key()?, 1)),
    CommandSpec {
        usage: "key",
        summary: "Adds one to a number.",
        group: Group::String,
        since: Since::redis(1, 0, 0),
        arity: Arity::Exactly(2),
        keys: &[KeySpec::one(1, &["RW", "access", "update"])],
        flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
        categories: &[Category::String],
        lock_effect: LockEffect::OtherWrite,
        ..CommandSpec::new("INCR")
    },
);

const DECR: Command = Command::new(
    Handler::Keys(|view, args| add(view, args.key()?, -1)),
    CommandSpec { name: "DECR", summary: "Takes one from a number.", ..INCR.spec },
);

const INCRBY: Command = Command::new(
    Handler::Keys(|view, args| add(view, args.key()?, args.integer()?)),
    CommandSpec {
        name: "INCRBY",
        usage: "key increment",
        summary: "Adds to a number.",
        arity: Arity::Exactly(3),
        ..INCR.spec
    },
);

const DECRBY: Command = Command::new(
    Handler::Keys(decrby),
    CommandSpec { name: "DECRBY", usage: "key decrement", summary: "Takes from a number.", ..INCRBY.spec },
);

fn decrby<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, decrement) = (args.key()?, args.integer()?);
    let increment = decrement.checked_neg().ok_or(CommandError::fixed("ERR decrement would overflow"))?;
    add(view, key, increment)
}

fn add<'v>(view: &'v mut View<'_>, key: &[u8], increment: i64) -> CommandResult<'v> {
    let sum = view.rebuild_string(key, false, |old, new| {
        let value = old.map_or(Some(0), parse_integer).ok_or(CommandError::NOT_AN_INTEGER)?;
        let sum = value.checked_add(increment).ok_or(CommandError::INCREMENT_OVERFLOW)?;
        new.extend_from_slice(itoa::Buffer::new().format(sum).as_bytes());
        Ok(sum)
    })?;
    view.notify(EventClass::String, "incrby", key);
    Ok(Reply::Integer(sum))
}

const INCRBYFLOAT: Command = Command::new(
    Handler::Keys(incrbyfloat),
    CommandSpec {
        name: "INCRBYFLOAT",
        summary: "Adds to a number that may have a fraction.",
        since: Since::redis(2, 6, 0),
        ..INCRBY.spec
    },
);

fn incrbyfloat<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, increment) = (args.key()?, args.bytes()?);
    let text = view.rebuild_string(key, true, |old, new| {
        let value = old.map_or(Some(LongDouble::ZERO), LongDouble::parse).ok_or(CommandError::NOT_A_FLOAT)?;
        let increment = LongDouble::parse(increment).ok_or(CommandError::NOT_A_FLOAT)?;
        let sum = value.plus(increment).ok_or(CommandError::fixed("ERR increment would produce NaN or Infinity"))?;
        let text = sum.to_decimal();
        new.extend_from_slice(text.as_bytes());
        Ok(text)
    })?;
    view.replicate_as(&[b"SET", key, text.as_bytes(), b"KEEPTTL"]);
    view.notify(EventClass::String, "incrbyfloat", key);
    Ok(Reply::text(text))
}
