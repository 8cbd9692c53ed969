//! Strings.

use crate::error::CommandError;
use crate::keyspace::{Expiry, View};
use crate::profile::Since;
use crate::resp::Reply;
use crate::spec::{Args, Arity, CommandResult, CommandSpec, Flag, Group, Handler, KeySpec};

pub(super) const ROWS: &[CommandSpec] = &[GET, GETSET, SET, SETNX];

const GET: CommandSpec = CommandSpec {
    usage: "key",
    summary: "Reads a string.",
    group: Group::String,
    since: Since::redis(1, 0, 0),
    arity: Arity::Exactly(2),
    keys: &[KeySpec::one(1, &["RO", "access"])],
    flags: &[Flag::ReadOnly, Flag::Fast],
    ..CommandSpec::new("GET", Handler::Keys(get))
};

fn get<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    Ok(Reply::bulk_or_null(view.string(args.key()?)?))
}

const GETSET: CommandSpec = CommandSpec {
    usage: "key value",
    summary: "Writes a string and returns the one that was there before.",
    group: Group::String,
    arity: Arity::Exactly(3),
    keys: &[KeySpec::one(1, &["RW", "access", "update"])],
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    ..CommandSpec::new("GETSET", Handler::Keys(getset))
};

fn getset<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, value) = (args.key()?, args.bytes()?);
    let old = view.string(key)?.map(<[u8]>::to_vec);
    view.set_string(key, value, Expiry::Never);
    Ok(old.map_or(Reply::Null, Reply::bulk))
}

const SET: CommandSpec = CommandSpec {
    usage: "key value",
    summary: "Writes a string.",
    group: Group::String,
    arity: Arity::AtLeast(3),
    keys: &[KeySpec::one(1, &["RW", "access", "update"])],
    flags: &[Flag::Write, Flag::DenyOom],
    ..CommandSpec::new("SET", Handler::Keys(set))
};

fn set<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, value) = (args.key()?, args.bytes()?);
    if !args.is_empty() {
        return Err(CommandError::SYNTAX);
    }
    view.set_string(key, value, Expiry::Never);
    Ok(Reply::OK)
}

const SETNX: CommandSpec = CommandSpec {
    usage: "key value",
    summary: "Writes a string if the key does not exist.",
    group: Group::String,
    arity: Arity::Exactly(3),
    keys: &[KeySpec::one(1, &["OW", "insert"])],
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    ..CommandSpec::new("SETNX", Handler::Keys(setnx))
};

fn setnx<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, value) = (args.key()?, args.bytes()?);
    Ok(Reply::Integer(i64::from(view.insert_if_absent(key, value))))
}
