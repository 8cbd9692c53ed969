//! Deadlines of keys: EXPIRE, TTL, PERSIST and their variants.

use super::expire_options::{delete_past_deadline, invalid_expire_time, replicate_deadline};
use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{EventClass, View};
use crate::protocol::Reply;
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, KeySpec, LockEffect, TtlFrom, TtlUnit};

pub(super) const ROWS: &[Command] =
    &[EXPIRE, EXPIREAT, EXPIRETIME, PERSIST, PEXPIRE, PEXPIREAT, PEXPIRETIME, PTTL, TTL];

const NX_AND_OTHERS: CommandError =
    CommandError::fixed("ERR NX and XX, GT or LT options at the same time are not compatible");
const GT_AND_LT: CommandError = CommandError::fixed("ERR GT and LT options at the same time are not compatible");

const SECOND: Millis = 1000;
const MILLISECOND: Millis = 1;

// ---- setting

const EXPIRE: Command = Command::new(
    Handler::Keys(expire),
    CommandSpec {
        usage: "key seconds",
        later_usages: &[(Since::redis(7, 0, 0), "key seconds [NX | XX | GT | LT]")],
        summary: "Sets how many seconds a key has left to live.",
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::one(1, &["RW", "update"])],
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::Keyspace],
        lock_effect: LockEffect::Expire(TtlUnit::Seconds, TtlFrom::Now),
        ..CommandSpec::new("EXPIRE")
    },
);

fn expire<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let now = view.now();
    set_expiry(view, args, now, SECOND)
}

const EXPIREAT: Command = Command::new(
    Handler::Keys(expireat),
    CommandSpec {
        name: "EXPIREAT",
        usage: "key unix-time-seconds",
        later_usages: &[(Since::redis(7, 0, 0), "key unix-time-seconds [NX | XX | GT | LT]")],
        summary: "Sets the Unix time, in seconds, at which a key expires.",
        since: Since::redis(1, 2, 0),
        lock_effect: LockEffect::Expire(TtlUnit::Seconds, TtlFrom::Epoch),
        ..EXPIRE.spec
    },
);

fn expireat<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    set_expiry(view, args, 0, SECOND)
}

const PEXPIRE: Command = Command::new(
    Handler::Keys(pexpire),
    CommandSpec {
        name: "PEXPIRE",
        usage: "key milliseconds",
        later_usages: &[(Since::redis(7, 0, 0), "key milliseconds [NX | XX | GT | LT]")],
        summary: "Sets how many milliseconds a key has left to live.",
        since: Since::redis(2, 6, 0),
        lock_effect: LockEffect::Expire(TtlUnit::Millis, TtlFrom::Now),
        ..EXPIRE.spec
    },
);

fn pexpire<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let now = view.now();
    set_expiry(view, args, now, MILLISECOND)
}

const PEXPIREAT: Command = Command::new(
    Handler::Keys(pexpireat),
    CommandSpec {
        name: "PEXPIREAT",
        usage: "key unix-time-milliseconds",
        later_usages: &[(Since::redis(7, 0, 0), "key unix-time-milliseconds [NX | XX | GT | LT]")],
        summary: "Sets the Unix time, in milliseconds, at which a key expires.",
        since: Since::redis(2, 6, 0),
        lock_effect: LockEffect::Expire(TtlUnit::Millis, TtlFrom::Epoch),
        ..EXPIRE.spec
    },
);

fn pexpireat<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    set_expiry(view, args, 0, MILLISECOND)
}

/// Sets a deadline of so many `unit`s after `start`. A deadline in the past deletes the key.
fn set_expiry<'v>(view: &mut View<'_>, args: &mut Args<'v>, start: Millis, unit: Millis) -> CommandResult<'v> {
    let (key, time) = (args.key()?, args.bytes()?);
    let condition = Condition::parse(args)?;
    let time = crate::protocol::parse_integer(time).ok_or(CommandError::NOT_AN_INTEGER)?;
    let deadline =
        time.checked_mul(unit).and_then(|time| time.checked_add(start)).ok_or_else(|| invalid_expire_time(args))?;
    let Some(entry) = view.read_for_update(key) else { return Ok(Reply::Integer(0)) };
    if !condition.allows(entry.deadline(), deadline) {
        return Ok(Reply::Integer(0));
    }
    if deadline <= view.past() {
        delete_past_deadline(view, args, key);
    } else {
        view.set_deadline(key, Some(deadline));
        replicate_deadline(view, key, deadline, args.words().from(3));
        view.notify(EventClass::Generic, "expire", key);
    }
    Ok(Reply::Integer(1))
}

/// The options NX, XX, GT and LT.
#[derive(Default)]
pub(super) struct Condition {
    none: bool,
    some: bool,
    later: bool,
    earlier: bool,
}

impl Condition {
    fn parse(args: &Args<'_>) -> Result<Self, CommandError> {
        if !args.is_empty() && !args.profile().since_redis(7, 0) {
            return Err(args.wrong_number());
        }
        Self::of(args.rest().iter())
    }

    pub fn of<'o>(options: impl Iterator<Item = &'o [u8]>) -> Result<Self, CommandError> {
        let mut condition = Self::default();
        for option in options {
            let flag = match option.to_ascii_uppercase().as_slice() {
                b"NX" => &mut condition.none,
                b"XX" => &mut condition.some,
                b"GT" => &mut condition.later,
                b"LT" => &mut condition.earlier,
                _ => return Err(unsupported(option)),
            };
            *flag = true;
        }
        if condition.none && (condition.some || condition.later || condition.earlier) {
            return Err(NX_AND_OTHERS);
        }
        if condition.later && condition.earlier {
            return Err(GT_AND_LT);
        }
        Ok(condition)
    }

    /// A key without a deadline counts as living for ever.
    pub fn allows(&self, old: Option<Millis>, new: Millis) -> bool {
        (!self.none || old.is_none())
            && (!self.some || old.is_some())
            && (!self.later || old.is_some_and(|old| new > old))
            && (!self.earlier || old.is_none_or(|old| new < old))
    }
}

/// Redis formats the option as a C string, and strips line ends from errors.
fn unsupported(option: &[u8]) -> CommandError {
    let option = option.split(|&byte| byte == 0).next().unwrap_or_default();
    let end = option.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
    CommandError::new([b"ERR Unsupported option ", &option[..end]].concat())
}

const PERSIST: Command = Command::new(
    Handler::Keys(persist),
    CommandSpec {
        usage: "key",
        summary: "Lets a key live for ever.",
        since: Since::redis(2, 2, 0),
        arity: Arity::Exactly(2),
        keys: &[KeySpec::one(1, &["RW", "update"])],
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::Keyspace],
        lock_effect: LockEffect::Persist,
        ..CommandSpec::new("PERSIST")
    },
);

fn persist<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    let expires = view.read_for_update(key).is_some_and(|entry| entry.deadline().is_some());
    if expires {
        view.set_deadline(key, None);
        view.notify(EventClass::Generic, "persist", key);
    }
    Ok(Reply::Integer(i64::from(expires)))
}

// ---- querying

/// Replies in place of a time.
const NO_KEY: i64 = -2;
const NO_DEADLINE: i64 = -1;

const TTL: Command = Command::new(
    Handler::Keys(ttl),
    CommandSpec {
        usage: "key",
        summary: "Tells how many seconds a key has left to live.",
        arity: Arity::Exactly(2),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly, Flag::Fast],
        categories: &[Category::Keyspace],
        tips: &["nondeterministic_output"],
        ..CommandSpec::new("TTL")
    },
);

fn ttl<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let now = view.now();
    query_ttl(view, args, |deadline| in_seconds((deadline - now).max(0)))
}

const PTTL: Command = Command::new(
    Handler::Keys(pttl),
    CommandSpec {
        name: "PTTL",
        summary: "Tells how many milliseconds a key has left to live.",
        since: Since::redis(2, 6, 0),
        ..TTL.spec
    },
);

fn pttl<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let now = view.now();
    // In a transaction of 7.0, time passes while the key stays.
    query_ttl(view, args, |deadline| (deadline - now).max(0))
}

const EXPIRETIME: Command = Command::new(
    Handler::Keys(expiretime),
    CommandSpec {
        name: "EXPIRETIME",
        summary: "Tells the Unix time, in seconds, at which a key expires.",
        since: Since::redis(7, 0, 0),
        tips: &[],
        ..TTL.spec
    },
);

fn expiretime<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    query_ttl(view, args, |deadline| in_seconds(deadline.max(0)))
}

const PEXPIRETIME: Command = Command::new(
    Handler::Keys(pexpiretime),
    CommandSpec {
        name: "PEXPIRETIME",
        summary: "Tells the Unix time, in milliseconds, at which a key expires.",
        ..EXPIRETIME.spec
    },
);

fn pexpiretime<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    query_ttl(view, args, |deadline| deadline.max(0))
}

fn query_ttl<'v>(view: &mut View<'_>, args: &mut Args<'v>, answer: impl FnOnce(Millis) -> i64) -> CommandResult<'v> {
    Ok(Reply::Integer(match view.read_without_touch(args.key()?) {
        None => NO_KEY,
        Some(entry) => entry.deadline().map_or(NO_DEADLINE, answer),
    }))
}

/// Rounds to the nearest second.
fn in_seconds(time: Millis) -> i64 {
    time / SECOND + i64::from(time % SECOND >= SECOND / 2)
}
