//! SET, SETEX, PSETEX, SETNX and GETSET.

use super::conditional::Comparison;
use super::expire_options::{ExpireOption, ExpireTime, TimeUnit, notify_set, replicate_set, write_string};
use super::strings::string_reply;
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{EventClass, Expiry, StringValue, View};
use crate::protocol::{Reply, Words};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec, LockEffect, TtlUnit};

pub(super) const ROWS: &[Command] = &[GETSET, PSETEX, SET, SETEX, SETNX];

const SET: Command = Command::new(
    Handler::Keys(set),
    CommandSpec {
        usage: "key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT \
            unix-time-milliseconds | KEEPTTL]",
        later_usages: &[
            (
                Since::valkey(8, 1, 0),
                "key value [NX | XX | IFEQ comparison-value] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds \
             | PXAT unix-time-milliseconds | KEEPTTL]",
            ),
            (
                Since::redis(8, 4, 0),
                "key value [NX | XX | IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest | IFDNE ifdne-digest] [GET] \
             [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
            ),
        ],
        summary: "Writes a string, on conditions and with a lifetime if asked to.",
        group: Group::String,
        since: Since::redis(1, 0, 0),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::one(1, &["RW", "access", "update", "variable_flags"])
            .with_notes("RW and ACCESS due to the optional `GET` argument")
            .with_flags_by(key_flags)],
        flags: &[Flag::Write, Flag::DenyOom],
        categories: &[Category::String],
        lock_effect: LockEffect::SetByOptions,
        ..CommandSpec::new("SET")
    },
);

/// How a SET uses its key: the old value is read only if the reply needs it.
fn key_flags(words: Words<'_>) -> &'static [&'static str] {
    let get = words.from(3).iter().any(|word| word.eq_ignore_ascii_case(b"GET"));
    if get { &["RW", "access", "update"] } else { &["OW", "update"] }
}

#[inline]
fn set<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, value) = (args.key()?, args.bytes()?);
    if args.is_empty() {
        view.set_string(key, value, Expiry::Never);
        view.notify(EventClass::String, "set", key);
        return Ok(Reply::OK);
    }
    set_with_options(view, args, key, value)
}

/// The condition under which SET writes.
enum Condition<'a> {
    None,
    Absent,
    Present,
    Compare(Comparison<'a>),
}

struct Options<'a> {
    condition: Condition<'a>,
    expire: ExpireOption<'a>,
    get: bool,
}

impl<'a> Options<'a> {
    fn parse(args: &mut Args<'a>) -> Result<Self, CommandError> {
        let mut options = Self { condition: Condition::None, expire: ExpireOption::None, get: false };
        let absent_with_get = args.profile().since_redis(7, 0);
        while !args.is_empty() {
            match options.condition {
                Condition::None | Condition::Absent if (absent_with_get || !options.get) && args.take("NX") => {
                    options.condition = Condition::Absent;
                    continue;
                }
                Condition::None | Condition::Present if args.take("XX") => {
                    options.condition = Condition::Present;
                    continue;
                }
                Condition::None => {
                    if let Some(comparison) = Comparison::take(args) {
                        options.condition = Condition::Compare(comparison);
                        continue;
                    }
                }
                _ => {}
            }
            if (absent_with_get || !matches!(options.condition, Condition::Absent)) && args.take("GET") {
                options.get = true;
            } else if !options.expire.take(args, ExpireOption::KeepTtl) {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(options)
    }
}

fn set_with_options<'v>(
    view: &'v mut View<'_>,
    args: &mut Args<'v>,
    key: &'v [u8],
    value: &'v [u8],
) -> CommandResult<'v> {
    let options = Options::parse(args)?;
    let expiry = options.expire.expiry(view.now(), args)?;
    // The usual lock, SET NX with an expiry, needs one look-up.
    if let (Condition::Absent, Expiry::At(deadline), false) = (&options.condition, expiry, options.get)
        && deadline > view.now()
    {
        let written = view.insert_if_absent(key, value, Some(deadline));
        if written {
            view.count_lock();
            replicate_set(view, key, value, expiry);
            notify_set(view, key, expiry);
        }
        return Ok(if written { Reply::OK } else { Reply::Null });
    }
    let old = if options.get { view.string_value(key)?.map(StringValue::into_owned) } else { None };
    let is_lock = matches!(options.condition, Condition::Absent);
    let holds = match options.condition {
        Condition::None => true,
        Condition::Absent => view.read_for_update(key).is_none(),
        Condition::Present => view.read_for_update(key).is_some(),
        Condition::Compare(comparison) => match view.string_to_write(key)? {
            Some(current) => comparison.holds(current)?,
            None => comparison.is_negative(),
        },
    };
    if holds {
        if is_lock {
            view.count_lock();
        }
        write_string(view, args, key, value, expiry);
        if options.get && !matches!(expiry, Expiry::At(_)) {
            replicate_without_get(view, args);
        }
    }
    Ok(match old {
        Some(_) => string_reply(old),
        None if holds && !options.get => Reply::OK,
        None => Reply::Null,
    })
}

/// Sends replicas the request without GET, whose reply nobody reads there.
#[cold]
fn replicate_without_get(view: &mut View<'_>, args: &Args<'_>) {
    let words: Vec<&[u8]> = args
        .words()
        .iter()
        .enumerate()
        .filter(|(at, word)| *at < 3 || !word.eq_ignore_ascii_case(b"GET"))
        .map(|(_, word)| word)
        .collect();
    view.replicate_as(&words);
}

const SETEX: Command = Command::new(
    Handler::Keys(|view, args| set_with_ttl(view, args, TimeUnit::Seconds)),
    CommandSpec {
        usage: "key seconds value",
        summary: "Writes a string that lives for some seconds.",
        group: Group::String,
        since: Since::redis(2, 0, 0),
        arity: Arity::Exactly(4),
        keys: &[KeySpec::one(1, &["OW", "update"])],
        flags: &[Flag::Write, Flag::DenyOom],
        categories: &[Category::String],
        lock_effect: LockEffect::SetWithTtl(TtlUnit::Seconds),
        ..CommandSpec::new("SETEX")
    },
);

const PSETEX: Command = Command::new(
    Handler::Keys(|view, args| set_with_ttl(view, args, TimeUnit::Milliseconds)),
    CommandSpec {
        usage: "key milliseconds value",
        summary: "Writes a string that lives for some milliseconds.",
        group: Group::String,
        since: Since::redis(2, 6, 0),
        arity: Arity::Exactly(4),
        keys: &[KeySpec::one(1, &["OW", "update"])],
        flags: &[Flag::Write, Flag::DenyOom],
        categories: &[Category::String],
        lock_effect: LockEffect::SetWithTtl(TtlUnit::Millis),
        ..CommandSpec::new("PSETEX")
    },
);

fn set_with_ttl<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, unit: TimeUnit) -> CommandResult<'v> {
    let (key, lifetime, value) = (args.key()?, args.bytes()?, args.bytes()?);
    let deadline = ExpireTime { value: lifetime, unit, absolute: false }.deadline(view.now(), args)?;
    view.set_string(key, value, Expiry::At(deadline));
    replicate_set(view, key, value, Expiry::At(deadline));
    notify_set(view, key, Expiry::At(deadline));
    Ok(Reply::OK)
}

const SETNX: Command = Command::new(
    Handler::Keys(setnx),
    CommandSpec {
        usage: "key value",
        summary: "Writes a string if there is no such key yet.",
        group: Group::String,
        since: Since::redis(1, 0, 0),
        arity: Arity::Exactly(3),
        keys: &[KeySpec::one(1, &["OW", "insert"])],
        flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
        categories: &[Category::String],
        lock_effect: LockEffect::SetIfAbsent,
        ..CommandSpec::new("SETNX")
    },
);

fn setnx<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, value) = (args.key()?, args.bytes()?);
    let written = view.insert_if_absent(key, value, None);
    if written {
        view.count_lock();
        view.notify(EventClass::String, "set", key);
    }
    Ok(Reply::Integer(i64::from(written)))
}

const GETSET: Command = Command::new(
    Handler::Keys(getset),
    CommandSpec {
        usage: "key value",
        summary: "Writes a string and returns the one that was there before.",
        group: Group::String,
        since: Since::redis(1, 0, 0),
        arity: Arity::Exactly(3),
        keys: &[KeySpec::one(1, &["RW", "access", "update"])],
        flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
        categories: &[Category::String],
        deprecated: Some(("6.2.0", "`SET` with the `!GET` argument")),
        lock_effect: LockEffect::SetAndReturn,
        ..CommandSpec::new("GETSET")
    },
);

fn getset<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, value) = (args.key()?, args.bytes()?);
    let old = view.replace_string(key, value)?;
    view.replicate_as(&[b"SET", key, value]);
    view.notify(EventClass::String, "set", key);
    Ok(string_reply(old))
}
