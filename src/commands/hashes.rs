//! Hashes: reading and writing fields, and HSCAN.

use super::fields_clause::{clear_expired, is_valkey};
use super::scan_elements::scan;
use crate::base::error::CommandError;
use crate::base::profile::{Since, Version};
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{EventClass, Hash, View};
use crate::protocol::Reply;
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec, LockEffect};

pub(super) const ROWS: &[Command] =
    &[HDEL, HEXISTS, HGET, HGETALL, HKEYS, HLEN, HMGET, HMSET, HSCAN, HSET, HSETNX, HSTRLEN, HVALS];

// ---- writing

const HSET: Command = Command::new(
    Handler::Keys(hset),
    CommandSpec {
        usage: "key field value [field value ...]",
        summary: "Writes fields of a hash.",
        complexity: "O(N) for N fields",
        group: Group::Hash,
        since: Since::redis(2, 0, 0),
        arity: Arity::AtLeast(4),
        keys: &[KeySpec::one(1, &["RW", "update"])],
        flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
        categories: &[Category::Hash],
        lock_effect: LockEffect::SetMember,
        ..CommandSpec::new("HSET")
    },
);

fn hset<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    Ok(Reply::Integer(set_fields(view, args)? as i64))
}

const HMSET: Command = Command::new(
    Handler::Keys(hmset),
    CommandSpec {
        name: "HMSET",
        deprecated: Some(("4.0.0", "`HSET` with multiple field-value pairs")),
        lock_effect: LockEffect::OtherWrite,
        ..HSET.spec
    },
);

fn hmset<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    set_fields(view, args)?;
    Ok(Reply::OK)
}

/// Writes fields, and returns the number of new ones.
fn set_fields(view: &mut View<'_>, args: &mut Args<'_>) -> Result<usize, CommandError> {
    let (key, words) = (args.key()?, args.rest());
    if words.len() % 2 != 0 {
        return Err(args.wrong_number());
    }
    let limits = view.settings().hash_limits(args.profile());
    // Redis counts a field that has expired and is still there as an old one.
    let renewed = if is_valkey(args) { view.renew_fields(key, words.iter().step_by(2)) } else { 0 };
    let created = view.change_or_make(key, Hash::default, |hash| {
        hash.expect(words.iter(), &limits);
        let mut created = renewed;
        let mut each = words.iter();
        while let (Some(field), Some(value)) = (each.next(), each.next()) {
            created += usize::from(hash.set(field, value, &limits));
        }
        (created, words.len() / 2)
    })?;
    view.notify(EventClass::Hash, "hset", key);
    Ok(created)
}

const HSETNX: Command = Command::new(
    Handler::Keys(hsetnx),
    CommandSpec {
        usage: "key field value",
        summary: "Writes a field of a hash if it does not exist.",
        group: Group::Hash,
        since: Since::redis(2, 0, 0),
        arity: Arity::Exactly(4),
        keys: &[KeySpec::one(1, &["RW", "insert"])],
        flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
        categories: &[Category::Hash],
        lock_effect: LockEffect::OtherWrite,
        ..CommandSpec::new("HSETNX")
    },
);

fn hsetnx<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, field, value) = (args.key()?, args.bytes()?, args.bytes()?);
    let limits = view.settings().hash_limits(args.profile());
    clear_expired(view, args, key, std::iter::once(field));
    let written = view.change_or_make(key, Hash::default, |hash| {
        let written = !hash.contains(field);
        if written {
            hash.set(field, value, &limits);
        }
        (written, usize::from(written))
    })?;
    if written {
        view.notify(EventClass::Hash, "hset", key);
    }
    Ok(Reply::Integer(i64::from(written)))
}

const HDEL: Command = Command::new(
    Handler::Keys(hdel),
    CommandSpec {
        usage: "key field [field ...]",
        summary: "Removes fields of a hash.",
        complexity: "O(N) for N fields",
        group: Group::Hash,
        since: Since::redis(2, 0, 0),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::one(1, &["RW", "delete"])],
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::Hash],
        lock_effect: LockEffect::RemoveField,
        ..CommandSpec::new("HDEL")
    },
);

fn hdel<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, fields) = (args.key()?, args.rest());
    // Redis removes, and counts, also fields that have expired and are still there.
    let sees_expired = !is_valkey(args);
    let removal = view.change(key, |hash: &mut Hash| {
        let is_there = |hash: &Hash, field: &[u8]| sees_expired || hash.contains(field);
        let removed = fields.iter().filter(|field| is_there(hash, field) && hash.remove(field)).count();
        (removed, removed)
    })?;
    let (removed, gone) = removal.unwrap_or_default();
    if removed > 0 {
        view.notify_removal(EventClass::Hash, "hdel", key, gone);
    }
    Ok(Reply::Integer(removed as i64))
}

// ---- reading single fields

const HGET: Command = Command::new(
    Handler::Keys(hget),
    CommandSpec {
        usage: "key field",
        summary: "Returns the value of a field of a hash.",
        group: Group::Hash,
        since: Since::redis(2, 0, 0),
        arity: Arity::Exactly(3),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly, Flag::Fast],
        categories: &[Category::Hash],
        lock_effect: LockEffect::FindMember,
        ..CommandSpec::new("HGET")
    },
);

fn hget<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (hash, field) = find_field(view, args)?;
    Ok(value_of(hash, field))
}

/// The hash that a command names, and its field. A field that has expired is removed in Redis, and stays unseen in Valkey.
fn find_field<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> Result<(Option<&'v Hash>, &'v [u8]), CommandError> {
    let (key, fields) = (args.key()?, args.rest());
    let hash = view.hash_with_fields(key, fields, !is_valkey(args))?;
    Ok((hash, args.bytes()?))
}

fn value_of<'v>(hash: Option<&'v Hash>, field: &[u8]) -> Reply<'v> {
    Reply::bulk_or_null(hash.and_then(|hash| hash.get(field)))
}

const HMGET: Command = Command::new(
    Handler::Keys(hmget),
    CommandSpec {
        usage: "key field [field ...]",
        summary: "Returns the values of several fields of a hash.",
        complexity: "O(N) for N fields",
        arity: Arity::AtLeast(3),
        name: "HMGET",
        lock_effect: LockEffect::None,
        ..HGET.spec
    },
);

fn hmget<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, fields) = (args.key()?, args.rest());
    let hash = view.hash_with_fields(key, fields, !is_valkey(args))?;
    Ok(Reply::Array(fields.iter().map(|field| value_of(hash, field)).collect()))
}

const HSTRLEN: Command = Command::new(
    Handler::Keys(hstrlen),
    CommandSpec {
        name: "HSTRLEN",
        summary: "Tells how long the value of a field of a hash is.",
        since: Since::redis(3, 2, 0),
        keys: &[KeySpec::one(1, &["RO"])],
        lock_effect: LockEffect::None,
        ..HGET.spec
    },
);

fn hstrlen<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (hash, field) = find_field(view, args)?;
    Ok(Reply::Integer(hash.and_then(|hash| hash.get(field)).map_or(0, <[u8]>::len) as i64))
}

const HEXISTS: Command = Command::new(
    Handler::Keys(hexists),
    CommandSpec {
        name: "HEXISTS",
        summary: "Tells whether a hash has a field.",
        keys: &[KeySpec::one(1, &["RO"])],
        ..HGET.spec
    },
);

fn hexists<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (hash, field) = find_field(view, args)?;
    Ok(Reply::Integer(i64::from(hash.is_some_and(|hash| hash.contains(field)))))
}

// ---- reading all fields

const HLEN: Command = Command::new(
    Handler::Keys(hlen),
    CommandSpec {
        usage: "key",
        summary: "Tells how many fields a hash has.",
        group: Group::Hash,
        since: Since::redis(2, 0, 0),
        arity: Arity::Exactly(2),
        keys: &[KeySpec::one(1, &["RO"])],
        flags: &[Flag::ReadOnly, Flag::Fast],
        categories: &[Category::Hash],
        lock_effect: LockEffect::CountMembers,
        ..CommandSpec::new("HLEN")
    },
);

fn hlen<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    Ok(Reply::Integer(view.collection::<Hash>(args.key()?)?.map_or(0, Hash::len) as i64))
}

const HGETALL: Command = Command::new(
    Handler::Keys(hgetall),
    CommandSpec {
        usage: "key",
        summary: "Lists the fields of a hash with their values.",
        complexity: "O(N) for N fields",
        group: Group::Hash,
        since: Since::redis(2, 0, 0),
        arity: Arity::Exactly(2),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::Hash],
        tips: &["nondeterministic_output_order"],
        ..CommandSpec::new("HGETALL")
    },
);

fn hgetall<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let hash = view.collection::<Hash>(args.key()?)?;
    let pairs =
        hash.map(|hash| hash.visible().map(|pair| (Reply::bulk(pair.field()), Reply::bulk(pair.value()))).collect());
    Ok(Reply::Map(pairs.unwrap_or_default()))
}

const HKEYS: Command = Command::new(
    Handler::Keys(hkeys),
    CommandSpec { name: "HKEYS", summary: "Lists the fields of a hash.", ..HGETALL.spec },
);

fn hkeys<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let hash = view.collection::<Hash>(args.key()?)?;
    let fields = hash.map(|hash| hash.visible().map(|pair| Reply::bulk(pair.field())).collect());
    Ok(Reply::Array(fields.unwrap_or_default()))
}

const HVALS: Command = Command::new(
    Handler::Keys(hvals),
    CommandSpec { name: "HVALS", summary: "Lists the values of a hash.", ..HGETALL.spec },
);

fn hvals<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let hash = view.collection::<Hash>(args.key()?)?;
    let values = hash.map(|hash| hash.visible().map(|pair| Reply::bulk(pair.value())).collect());
    Ok(Reply::Array(values.unwrap_or_default()))
}

const HSCAN: Command = Command::new(
    Handler::Keys(hscan),
    CommandSpec {
        usage: "key cursor [MATCH pattern] [COUNT count]",
        later_usages: &[(
            Since::each(Version(7, 4, 0), Version(8, 0, 0)),
            "key cursor [MATCH pattern] [COUNT count] [NOVALUES]",
        )],
        summary: "Lists the fields of a hash with their values step by step.",
        complexity: "O(1) for a step, O(N) for all of them, for N fields",
        group: Group::Hash,
        since: Since::redis(2, 8, 0),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::Hash],
        tips: &["nondeterministic_output"],
        ..CommandSpec::new("HSCAN")
    },
);

fn hscan<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    scan(view, args, Hash::prepare_walk, |hash, step, found| {
        let (next, pairs) = hash.walk(step.cursor, step.count);
        for pair in pairs.filter(|pair| step.admits(pair.field())) {
            found.push(Reply::bulk(pair.field()));
            if !step.no_values {
                found.push(Reply::bulk(pair.value()));
            }
        }
        next
    })
}
