//! GET and its variants, and commands on several strings: MGET, MSET, MSETNX.

use super::expire_options::{ExpireOption, delete_past_deadline, replicate_deadline};
use super::keys::delete;
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{EventClass, Expiry, StringValue, View};
use crate::protocol::{Reply, Words};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec, LockEffect};

pub(super) const ROWS: &[Command] = &[GET, GETDEL, GETEX, MGET, MSET, MSETNX, STRLEN];

const GET: Command = Command::new(
    Handler::Keys(get),
    CommandSpec {
        usage: "key",
        summary: "Reads a string.",
        group: Group::String,
        since: Since::redis(1, 0, 0),
        arity: Arity::Exactly(2),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly, Flag::Fast],
        categories: &[Category::String],
        lock_effect: LockEffect::Get,
        ..CommandSpec::new("GET")
    },
);

fn get<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    Ok(string_reply(view.string_value(args.key()?)?))
}

/// A string that was read, or null.
#[inline]
pub(super) fn string_reply(value: Option<StringValue<'_>>) -> Reply<'_> {
    match value {
        None => Reply::Null,
        Some(StringValue::Plain(bytes)) => Reply::Bulk(bytes),
        Some(StringValue::Shared(bytes)) => Reply::Shared(bytes),
    }
}

const GETDEL: Command = Command::new(
    Handler::Keys(getdel),
    CommandSpec {
        usage: "key",
        summary: "Reads a string and deletes it.",
        group: Group::String,
        since: Since::redis(6, 2, 0),
        arity: Arity::Exactly(2),
        keys: &[KeySpec::one(1, &["RW", "access", "delete"])],
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::String],
        lock_effect: LockEffect::GetAndDelete,
        ..CommandSpec::new("GETDEL")
    },
);

fn getdel<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    let value = view.string_value(key)?.map(StringValue::into_owned);
    if delete(view, key) {
        view.replicate_as(&[b"DEL", key]);
    }
    Ok(string_reply(value))
}

const GETEX: Command = Command::new(
    Handler::Keys(getex),
    CommandSpec {
        usage: "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]",
        summary: "Reads a string and changes how long it lives.",
        group: Group::String,
        since: Since::redis(6, 2, 0),
        arity: Arity::AtLeast(2),
        keys: &[KeySpec::one(1, &["RW", "access", "update"]).with_notes("RW and UPDATE because it changes the TTL")],
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::String],
        lock_effect: LockEffect::GetAndExpire,
        ..CommandSpec::new("GETEX")
    },
);

fn getex<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    let mut expire = ExpireOption::None;
    while !args.is_empty() {
        if !expire.take(args, ExpireOption::Persist) {
            return Err(CommandError::SYNTAX);
        }
    }
    let early = args.profile().has(Since::valkey(9, 0, 0));
    let now = view.now();
    if early {
        expire.expiry(now, args)?;
    }
    if view.string(key)?.is_none() {
        return Ok(Reply::Null);
    }
    match expire.expiry(now, args)? {
        Expiry::At(deadline) if deadline <= view.past() => {
            let value = view.string_to_write(key)?.map(<[u8]>::to_vec);
            delete_past_deadline(view, args, key);
            return Ok(value.map_or(Reply::Null, Reply::bulk));
        }
        Expiry::At(deadline) => {
            view.set_deadline(key, Some(deadline));
            replicate_deadline(view, key, deadline, Words::new(&[], &[]));
            view.notify(EventClass::Generic, "expire", key);
        }
        Expiry::Never if matches!(expire, ExpireOption::Persist) => {
            if view.peek(key).is_some_and(|entry| entry.deadline().is_some()) {
                view.set_deadline(key, None);
                view.replicate_as(&[b"PERSIST", key]);
                view.notify(EventClass::Generic, "persist", key);
            }
        }
        Expiry::Never | Expiry::Keep => {}
    }
    Ok(Reply::bulk_or_null(view.string_to_write(key)?))
}

const MGET: Command = Command::new(
    Handler::Keys(mget),
    CommandSpec {
        usage: "key [key ...]",
        summary: "Reads several strings at one instant.",
        complexity: "O(N) for N keys",
        group: Group::String,
        since: Since::redis(1, 0, 0),
        arity: Arity::AtLeast(2),
        keys: &[KeySpec::range(1, -1, 1, &["RO", "access"])],
        flags: &[Flag::ReadOnly, Flag::Fast],
        categories: &[Category::String],
        tips: &["request_policy:multi_shard"],
        lock_effect: LockEffect::GetMany,
        ..CommandSpec::new("MGET")
    },
);

fn mget<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    Ok(Reply::Array(view.strings(args.rest().iter()).into_iter().map(Reply::bulk_or_null).collect()))
}

const MSET: Command = Command::new(
    Handler::Keys(mset),
    CommandSpec {
        usage: "key value [key value ...]",
        summary: "Writes several strings at once.",
        complexity: "O(N) for N keys",
        group: Group::String,
        since: Since::redis(1, 0, 1),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::range(1, -1, 2, &["OW", "update"])],
        flags: &[Flag::Write, Flag::DenyOom],
        categories: &[Category::String],
        tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
        lock_effect: LockEffect::SetMany,
        ..CommandSpec::new("MSET")
    },
);

fn mset<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    check_pairs(args)?;
    write_pairs(view, args)?;
    Ok(Reply::OK)
}

const MSETNX: Command = Command::new(
    Handler::Keys(msetnx),
    CommandSpec {
        usage: "key value [key value ...]",
        summary: "Writes several strings at once, if none of the keys exists yet.",
        complexity: "O(N) for N keys",
        group: Group::String,
        since: Since::redis(1, 0, 1),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::range(1, -1, 2, &["OW", "insert"])],
        flags: &[Flag::Write, Flag::DenyOom],
        categories: &[Category::String],
        tips: &["request_policy:multi_shard", "response_policy:agg_min"],
        later_tips: &[(Since::redis(7, 2, 0), &[])],
        lock_effect: LockEffect::SetManyIfAbsent,
        ..CommandSpec::new("MSETNX")
    },
);

fn msetnx<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    check_pairs(args)?;
    if args.rest().iter().step_by(2).any(|key| view.read_for_update(key).is_some()) {
        return Ok(Reply::Integer(0));
    }
    write_pairs(view, args)?;
    Ok(Reply::Integer(1))
}

/// An error unless keys and values come in pairs, which the arity cannot express.
fn check_pairs(args: &Args<'_>) -> Result<(), CommandError> {
    if args.left().is_multiple_of(2) {
        return Ok(());
    }
    Err(if args.profile().since_redis(7, 0) {
        CommandError::new(format!("ERR wrong number of arguments for '{}' command", args.command_name()))
    } else {
        CommandError::fixed("ERR wrong number of arguments for MSET")
    })
}

fn write_pairs(view: &mut View<'_>, args: &mut Args<'_>) -> Result<(), CommandError> {
    while !args.is_empty() {
        let (key, value) = (args.key()?, args.bytes()?);
        view.set_string(key, value, Expiry::Never);
        view.notify(EventClass::String, "set", key);
    }
    Ok(())
}

const STRLEN: Command = Command::new(
    Handler::Keys(strlen),
    CommandSpec {
        usage: "key",
        summary: "Says how many bytes a string has.",
        group: Group::String,
        since: Since::redis(2, 2, 0),
        arity: Arity::Exactly(2),
        keys: &[KeySpec::one(1, &["RO"])],
        flags: &[Flag::ReadOnly, Flag::Fast],
        categories: &[Category::String],
        ..CommandSpec::new("STRLEN")
    },
);

fn strlen<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    Ok(Reply::Integer(view.string(args.key()?)?.map_or(0, <[u8]>::len) as i64))
}
