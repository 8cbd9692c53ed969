//! Deadlines of hash fields: HEXPIRE, HTTL, HPERSIST and their variants.

use super::expire_options::{ExpireTime, TimeUnit};
use super::expiry::Condition;
use super::fields_clause::{
    FIELD_TIMES, FieldsClause, NOT_POSITIVE, is_valkey, parse_deadline, parse_fields, parse_fields_clause,
    parse_fields_valkey,
};
use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::base::profile::{Since, Version};
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{EventClass, Hash, HashLimits, View};
use crate::protocol::{Reply, Words};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec};

pub(super) const ROWS: &[Command] =
    &[HEXPIRE, HEXPIREAT, HEXPIRETIME, HPERSIST, HPEXPIRE, HPEXPIREAT, HPEXPIRETIME, HPTTL, HTTL];

const NUMBER_NOT_POSITIVE: CommandError = CommandError::fixed("ERR Parameter `numFields` should be greater than 0");

/// Replies for one field.
const NO_FIELD: i64 = -2;
const NO_TIME: i64 = -1;
const REFUSED: i64 = 0;
const DONE: i64 = 1;
const REMOVED: i64 = 2;

// ---- setting

/// The releases in which deadlines of fields may be set when the memory is full.
const NEVER_OUT_OF_MEMORY: Since = Since::each(Version(8, 0, 0), Version(9, 0, 0));

const HEXPIRE: Command = Command::new(
    Handler::Keys(|view, args| set_times(view, args, TimeUnit::Seconds, false)),
    CommandSpec {
        usage: "key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        summary: "Sets how many seconds fields of a hash have left to live.",
        complexity: "O(N) for N fields",
        group: Group::Hash,
        since: FIELD_TIMES,
        arity: Arity::AtLeast(6),
        keys: &[KeySpec::one(1, &["RW", "update"])],
        flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
        later_flags: &[(NEVER_OUT_OF_MEMORY, &[Flag::Write, Flag::Fast])],
        categories: &[Category::Hash],
        ..CommandSpec::new("HEXPIRE")
    },
);

const HPEXPIRE: Command = Command::new(
    Handler::Keys(|view, args| set_times(view, args, TimeUnit::Milliseconds, false)),
    CommandSpec {
        name: "HPEXPIRE",
        usage: "key milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        summary: "Sets how many milliseconds fields of a hash have left to live.",
        ..HEXPIRE.spec
    },
);

const HEXPIREAT: Command = Command::new(
    Handler::Keys(|view, args| set_times(view, args, TimeUnit::Seconds, true)),
    CommandSpec {
        name: "HEXPIREAT",
        usage: "key unix-time-seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        summary: "Sets the Unix time, in seconds, at which fields of a hash expire.",
        ..HEXPIRE.spec
    },
);

const HPEXPIREAT: Command = Command::new(
    Handler::Keys(|view, args| set_times(view, args, TimeUnit::Milliseconds, true)),
    CommandSpec {
        name: "HPEXPIREAT",
        usage: "key unix-time-milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        summary: "Sets the Unix time, in milliseconds, at which fields of a hash expire.",
        ..HEXPIRE.spec
    },
);

/// Sets deadlines of fields. A deadline in the past removes the field.
fn set_times<'v>(view: &mut View<'_>, args: &mut Args<'v>, unit: TimeUnit, absolute: bool) -> CommandResult<'v> {
    let (key, value) = (args.key()?, args.bytes()?);
    let (lifetime, now) = (ExpireTime { value, unit, absolute }, view.now());
    let (time, condition, fields) = if is_valkey(args) {
        let found = FieldsClause::find(args)?;
        let condition = Condition::of(found.options.iter())?;
        let fields = found.fields(1)?;
        let time = parse_deadline(lifetime, now, args)?;
        view.collection_to_write::<Hash>(key)?;
        (time, condition, fields)
    } else {
        view.collection_to_write::<Hash>(key)?;
        let time = parse_deadline(lifetime, now, args)?;
        let conditions: [&[u8]; 4] = [b"NX", b"XX", b"GT", b"LT"];
        let option =
            args.peek().filter(|option| conditions.iter().any(|condition| option.eq_ignore_ascii_case(condition)));
        if option.is_some() {
            args.optional();
        }
        (time, Condition::of(option.into_iter())?, parse_fields(args, NUMBER_NOT_POSITIVE)?)
    };
    let limits = view.settings().hash_limits(args.profile());
    let past = view.past();
    // Redis gives a new deadline also to a field that has expired and is still there.
    let sees_expired = !is_valkey(args);
    let change = view.change(key, |hash: &mut Hash| {
        hash.expect_times(&limits);
        let set = |field| match hash.contains(field) || (sees_expired && hash.has(field)) {
            true => set_field_time(hash, field, time, past, &condition, &limits),
            false => NO_FIELD,
        };
        let answers: Vec<i64> = fields.iter().map(set).collect();
        let changes = answers.iter().filter(|&&answer| matches!(answer, DONE | REMOVED)).count();
        (answers, changes)
    })?;
    let Some((answers, gone)) = change else { return Ok(repeat_reply(fields, NO_FIELD)) };
    if answers.contains(&REMOVED) {
        notify_field_removal(view, args, key, gone);
    } else if answers.contains(&DONE) {
        view.notify(EventClass::Hash, "hexpire", key);
    }
    Ok(Reply::Array(answers.into_iter().map(Reply::Integer).collect()))
}

fn set_field_time(
    hash: &mut Hash,
    field: &[u8],
    time: Millis,
    past: Millis,
    condition: &Condition,
    limits: &HashLimits,
) -> i64 {
    if !condition.allows(hash.time(field), time) {
        REFUSED
    } else if time <= past {
        hash.remove(field);
        REMOVED
    } else {
        hash.set_time(field, Some(time), limits);
        DONE
    }
}

/// Publishes the keyspace events for fields removed by a deadline in the past. `gone`: the key was removed with its
/// last field.
pub(super) fn notify_field_removal(view: &mut View<'_>, args: &Args<'_>, key: &[u8], gone: bool) {
    view.notify_removal(EventClass::Hash, if is_valkey(args) { "hexpired" } else { "hdel" }, key, gone);
}

/// The same reply for each field.
fn repeat_reply(fields: Words<'_>, answer: i64) -> Reply<'static> {
    Reply::Array(fields.iter().map(|_| Reply::Integer(answer)).collect())
}

const HPERSIST: Command = Command::new(
    Handler::Keys(hpersist),
    CommandSpec {
        usage: "key FIELDS numfields field [field ...]",
        summary: "Lets fields of a hash live for ever.",
        complexity: "O(N) for N fields",
        group: Group::Hash,
        since: FIELD_TIMES,
        arity: Arity::AtLeast(5),
        keys: &[KeySpec::one(1, &["RW", "update"])],
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::Hash],
        ..CommandSpec::new("HPERSIST")
    },
);

fn hpersist<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    let fields = parse_fields_clause(view, key, args)?;
    let limits = view.settings().hash_limits(args.profile());
    let change = view.change(key, |hash: &mut Hash| {
        let mut persist = |field: &[u8]| match hash.contains(field) {
            false => NO_FIELD,
            true if hash.set_time(field, None, &limits) => DONE,
            true => NO_TIME,
        };
        let answers: Vec<i64> = fields.iter().map(&mut persist).collect();
        let changes = answers.iter().filter(|&&answer| answer == DONE).count();
        (answers, changes)
    })?;
    let Some((answers, _)) = change else { return Ok(repeat_reply(fields, NO_FIELD)) };
    if answers.contains(&DONE) {
        view.notify(EventClass::Hash, "hpersist", key);
    }
    Ok(Reply::Array(answers.into_iter().map(Reply::Integer).collect()))
}

// ---- querying

const HTTL: Command = Command::new(
    Handler::Keys(|view, args| query_times(view, args, TimeUnit::Seconds, false)),
    CommandSpec {
        usage: "key FIELDS numfields field [field ...]",
        summary: "Tells how many seconds fields of a hash have left to live.",
        complexity: "O(N) for N fields",
        group: Group::Hash,
        since: FIELD_TIMES,
        arity: Arity::AtLeast(5),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly, Flag::Fast],
        categories: &[Category::Hash],
        later_tips: &[(Since::redis(8, 0, 0), &["nondeterministic_output"])],
        ..CommandSpec::new("HTTL")
    },
);

const HPTTL: Command = Command::new(
    Handler::Keys(|view, args| query_times(view, args, TimeUnit::Milliseconds, false)),
    CommandSpec {
        name: "HPTTL",
        summary: "Tells how many milliseconds fields of a hash have left to live.",
        ..HTTL.spec
    },
);

const HEXPIRETIME: Command = Command::new(
    Handler::Keys(|view, args| query_times(view, args, TimeUnit::Seconds, true)),
    CommandSpec {
        name: "HEXPIRETIME",
        summary: "Tells the Unix time, in seconds, at which fields of a hash expire.",
        later_tips: &[],
        ..HTTL.spec
    },
);

const HPEXPIRETIME: Command = Command::new(
    Handler::Keys(|view, args| query_times(view, args, TimeUnit::Milliseconds, true)),
    CommandSpec {
        name: "HPEXPIRETIME",
        summary: "Tells the Unix time, in milliseconds, at which fields of a hash expire.",
        ..HEXPIRETIME.spec
    },
);

fn query_times<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, unit: TimeUnit, absolute: bool) -> CommandResult<'v> {
    let (key, now, valkey) = (args.key()?, view.now(), is_valkey(args));
    let early = if valkey { Some(parse_fields_valkey(args, CommandError::SYNTAX)?) } else { None };
    let hash = view.collection::<Hash>(key)?;
    let fields = early.map_or_else(|| parse_fields(args, NOT_POSITIVE), Ok)?;
    let start = if absolute { 0 } else { now };
    let answer = |field: &[u8]| match hash {
        Some(hash) if hash.contains(field) => hash.time(field).map_or(NO_TIME, |time| match unit {
            TimeUnit::Milliseconds => (time - start).max(0),
            // Redis rounds up, Valkey to the nearest second.
            TimeUnit::Seconds => ((time - start).max(0) + if valkey { 500 } else { 999 }) / 1000,
        }),
        _ => NO_FIELD,
    };
    Ok(Reply::Array(fields.iter().map(|field| Reply::Integer(answer(field))).collect()))
}
