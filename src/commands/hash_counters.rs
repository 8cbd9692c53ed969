//! HINCRBY and HINCRBYFLOAT.

use super::fields_clause::clear_expired;
use super::long_double::LongDouble;
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{EventClass, Hash, View};
use crate::protocol::{Reply, parse_integer};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec, LockEffect};

pub(super) const ROWS: &[Command] = &[HINCRBY, HINCRBYFLOAT];

const NO_INTEGER: CommandError = CommandError::fixed("ERR hash value is not an integer");
const NO_FLOAT: CommandError = CommandError::fixed("ERR hash value is not a float");
const NOT_FINITE: CommandError = CommandError::fixed("ERR value is NaN or Infinity");
const SUM_NOT_FINITE: CommandError = CommandError::fixed("ERR increment would produce NaN or Infinity");

const HINCRBY: Command = Command::new(
    Handler::Keys(hincrby),
    CommandSpec {
        usage: "key field increment",
        summary: "Adds to the number in a field of a hash.",
        group: Group::Hash,
        since: Since::redis(2, 0, 0),
        arity: Arity::Exactly(4),
        keys: &[KeySpec::one(1, &["RW", "access", "update"])],
        flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
        categories: &[Category::Hash],
        lock_effect: LockEffect::CountMember,
        ..CommandSpec::new("HINCRBY")
    },
);

fn hincrby<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, field, increment) = (args.key()?, args.bytes()?, args.integer()?);
    let sum = update_field(view, args, key, field, |old| {
        let value = old.map_or(Some(0), parse_integer).ok_or(NO_INTEGER)?;
        let sum = value.checked_add(increment).ok_or(CommandError::INCREMENT_OVERFLOW)?;
        Ok((sum, sum.to_string()))
    })?;
    view.notify(EventClass::Hash, "hincrby", key);
    Ok(Reply::Integer(sum))
}

const HINCRBYFLOAT: Command = Command::new(
    Handler::Keys(hincrbyfloat),
    CommandSpec {
        name: "HINCRBYFLOAT",
        summary: "Adds to the number, which may have a fraction, in a field of a hash.",
        since: Since::redis(2, 6, 0),
        lock_effect: LockEffect::OtherWrite,
        ..HINCRBY.spec
    },
);

fn hincrbyfloat<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, field, increment) = (args.key()?, args.bytes()?, args.bytes()?);
    let increment = LongDouble::parse(increment).ok_or(CommandError::NOT_A_FLOAT)?;
    if let LongDouble::Infinite { .. } = increment {
        return Err(NOT_FINITE);
    }
    let text = update_field(view, args, key, field, |old| {
        let value = old.map_or(Some(LongDouble::ZERO), LongDouble::parse).ok_or(NO_FLOAT)?;
        let text = value.plus(increment).ok_or(SUM_NOT_FINITE)?.to_decimal();
        Ok((text.clone(), text))
    })?;
    view.replicate_as(&[b"HSET", key, field, text.as_bytes()]);
    view.notify(EventClass::Hash, "hincrbyfloat", key);
    Ok(Reply::text(text))
}

/// Computes a field's new value from the old one. The field keeps its time to live.
fn update_field<R>(
    view: &mut View<'_>,
    args: &Args<'_>,
    key: &[u8],
    field: &[u8],
    make: impl FnOnce(Option<&[u8]>) -> Result<(R, String), CommandError>,
) -> Result<R, CommandError> {
    let limits = view.settings().hash_limits(args.profile());
    clear_expired(view, args, key, std::iter::once(field));
    view.change_or_make(key, Hash::default, |hash| match make(hash.get(field)) {
        Err(error) => (Err(error), 0),
        Ok((result, text)) => {
            hash.update(field, text.as_bytes(), &limits);
            (Ok(result), 1)
        }
    })?
}
