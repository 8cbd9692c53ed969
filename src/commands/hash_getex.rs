//! HGETEX, HSETEX and HGETDEL: fields of a hash read or written together with their deadlines.

use super::expire_options::{ExpireOption, ExpireTime, TimeUnit};
use super::fields_clause::{FieldsClause, NOT_POSITIVE, is_valkey, parse_deadline, parse_fields, parse_fields_clause};
use super::hash_expiry::notify_field_removal;
use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::base::profile::{Since, Version};
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{EventClass, Hash, HashLimits, View};
use crate::protocol::{Reply, Words, parse_integer};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec};

pub(super) const ROWS: &[Command] = &[HGETDEL, HGETEX, HSETEX];

/// The releases with HGETEX and HSETEX.
const SINCE: Since = Since::each(Version(8, 0, 0), Version(9, 0, 0));

// ---- reading

const HGETDEL: Command = Command::new(
    Handler::Keys(hgetdel),
    CommandSpec {
        usage: "key FIELDS numfields field [field ...]",
        summary: "Returns the values of fields of a hash, and removes the fields.",
        complexity: "O(N) for N fields",
        group: Group::Hash,
        since: Since::each(Version(8, 0, 0), Version(9, 1, 0)),
        arity: Arity::AtLeast(5),
        keys: &[KeySpec::one(1, &["RW", "access", "delete"])],
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::Hash],
        ..CommandSpec::new("HGETDEL")
    },
);

fn hgetdel<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    let fields = parse_fields_clause(view, key, args)?;
    if !is_valkey(args) {
        view.expire_fields(key, fields.iter());
    }
    let change = view.change(key, |hash: &mut Hash| {
        let mut removed = 0;
        let values: Vec<Reply<'static>> = fields
            .iter()
            .map(|field| {
                let value = copy_of(hash, field);
                removed += usize::from(hash.contains(field) && hash.remove(field));
                value
            })
            .collect();
        ((values, removed), removed)
    })?;
    let Some(((values, removed), gone)) = change else { return Ok(all_null(fields)) };
    if removed > 0 {
        view.notify_removal(EventClass::Hash, "hdel", key, gone);
    }
    Ok(Reply::Array(values))
}

fn copy_of(hash: &Hash, field: &[u8]) -> Reply<'static> {
    hash.get(field).map_or(Reply::Null, |value| Reply::bulk(value.to_vec()))
}

/// The reply for an absent hash.
fn all_null(fields: Words<'_>) -> Reply<'static> {
    Reply::Array(fields.iter().map(|_| Reply::Null).collect())
}

const HGETEX: Command = Command::new(
    Handler::Keys(hgetex),
    CommandSpec {
        usage: "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST] \
            FIELDS numfields field [field ...]",
        summary: "Returns the values of fields of a hash, and sets how long the fields live.",
        complexity: "O(N) for N fields",
        group: Group::Hash,
        since: SINCE,
        arity: Arity::AtLeast(5),
        keys: &[KeySpec::one(1, &["RW", "access", "update"]).with_notes("RW and UPDATE because it changes the TTL")],
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::Hash],
        ..CommandSpec::new("HGETEX")
    },
);

/// What HGETEX does to the deadlines of fields.
#[derive(Clone, Copy)]
enum TtlChange {
    None,
    Persist,
    Until(Millis),
}

/// The number of fields changed, by the kind of change.
#[derive(Clone, Copy, Default)]
struct ChangeCounts {
    removed: usize,
    timed: usize,
    persisted: usize,
}

fn hgetex<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, now, past) = (args.key()?, view.now(), view.past());
    let (change, fields) = if is_valkey(args) {
        let found = FieldsClause::find(args)?;
        let left = args.left() - found.options.len();
        let mut expire = ExpireOption::None;
        take_options(args, left, |args| expire.take(args, ExpireOption::Persist))?;
        let fields = found.fields(1)?;
        view.collection::<Hash>(key)?;
        (parse_change(expire, now, args)?, fields)
    } else {
        view.collection_to_write::<Hash>(key)?;
        let mut expire = ExpireOption::None;
        expire.take(args, ExpireOption::Persist);
        (parse_change(expire, now, args)?, parse_fields(args, NOT_POSITIVE)?)
    };
    if !is_valkey(args) {
        view.expire_fields(key, fields.iter());
    }
    let limits = view.settings().hash_limits(args.profile());
    let outcome = view.change(key, |hash: &mut Hash| {
        if !matches!(change, TtlChange::None) {
            hash.expect_times(&limits);
        }
        let mut changes = ChangeCounts::default();
        let values: Vec<Reply<'static>> = fields
            .iter()
            .map(|field| {
                let value = copy_of(hash, field);
                apply_change(hash, field, change, past, &limits, &mut changes);
                value
            })
            .collect();
        ((values, changes), changes.removed + changes.timed + changes.persisted)
    })?;
    let Some(((values, changes), gone)) = outcome else { return Ok(all_null(fields)) };
    if changes.removed > 0 {
        notify_field_removal(view, args, key, gone);
    } else if changes.timed > 0 {
        view.notify(EventClass::Hash, "hexpire", key);
    } else if changes.persisted > 0 {
        view.notify(EventClass::Hash, "hpersist", key);
    }
    Ok(Reply::Array(values))
}

/// Parses options until `left` words are left.
fn take_options<'a>(
    args: &mut Args<'a>,
    left: usize,
    mut take: impl FnMut(&mut Args<'a>) -> bool,
) -> Result<(), CommandError> {
    while args.left() > left {
        if !take(args) {
            return Err(CommandError::SYNTAX);
        }
    }
    // The last option's value may have been a word after the options.
    if args.left() == left { Ok(()) } else { Err(CommandError::SYNTAX) }
}

fn parse_change(expire: ExpireOption<'_>, now: Millis, args: &Args<'_>) -> Result<TtlChange, CommandError> {
    Ok(match expire {
        ExpireOption::At(lifetime) => TtlChange::Until(parse_deadline(lifetime, now, args)?),
        ExpireOption::Persist => TtlChange::Persist,
        ExpireOption::None | ExpireOption::KeepTtl => TtlChange::None,
    })
}

fn apply_change(
    hash: &mut Hash,
    field: &[u8],
    change: TtlChange,
    past: Millis,
    limits: &HashLimits,
    changes: &mut ChangeCounts,
) {
    if !hash.contains(field) {
        return;
    }
    match change {
        TtlChange::Until(time) if time <= past => changes.removed += usize::from(hash.remove(field)),
        TtlChange::Until(time) => changes.timed += usize::from(hash.set_time(field, Some(time), limits)),
        TtlChange::Persist => changes.persisted += usize::from(hash.set_time(field, None, limits)),
        TtlChange::None => {}
    }
}

// ---- writing

const HSETEX: Command = Command::new(
    Handler::Keys(hsetex),
    CommandSpec {
        usage: "key [FNX | FXX] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | \
            KEEPTTL] FIELDS numfields field value [field value ...]",
        later_usages: &[(
            Since::valkey(9, 0, 0),
            "key [NX | XX] [FNX | FXX] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT \
         unix-time-milliseconds | KEEPTTL] FIELDS numfields field value [field value ...]",
        )],
        summary: "Writes fields of a hash, and sets how long they live.",
        complexity: "O(N) for N fields",
        group: Group::Hash,
        since: SINCE,
        arity: Arity::AtLeast(6),
        keys: &[KeySpec::one(1, &["RW", "update"]).with_later_flags(&[(Since::valkey(9, 0, 0), &["RW", "insert"])])],
        flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
        categories: &[Category::Hash],
        ..CommandSpec::new("HSETEX")
    },
);

const ONE_CONDITION: CommandError = CommandError::fixed("ERR Only one of FXX or FNX arguments can be specified");
const ONE_LIFETIME: CommandError =
    CommandError::fixed("ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified");
const WRONG_NUMBER_OF_FIELDS: CommandError = CommandError::fixed("ERR invalid number of fields");

/// Whether the key and the fields must exist (true) or must not (false).
#[derive(Clone, Copy, Default)]
struct Conditions {
    key: Option<bool>,
    fields: Option<bool>,
}

impl Conditions {
    fn hold(self, hash: Option<&Hash>, words: Words<'_>) -> bool {
        self.key.is_none_or(|there| hash.is_some() == there)
            && self.fields.is_none_or(|there| {
                words.iter().step_by(2).all(|field| hash.is_some_and(|hash| hash.contains(field)) == there)
            })
    }
}

/// The parsed options, and the fields with their values.
struct Options<'a> {
    conditions: Conditions,
    expire: ExpireOption<'a>,
    words: Words<'a>,
}

fn hsetex<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, now) = (args.key()?, view.now());
    let (options, until) = if is_valkey(args) {
        let options = parse_options_valkey(args)?;
        view.collection_to_write::<Hash>(key)?;
        let until = parse_until(options.expire, now, args)?;
        (options, until)
    } else {
        parse_options_redis(args, now)?
    };
    let (conditions, words) = (options.conditions, options.words);
    if !is_valkey(args) && conditions.fields.is_some() {
        view.expire_fields(key, words.iter().step_by(2));
    }
    if !conditions.hold(view.collection_to_write::<Hash>(key)?, words) {
        return Ok(Reply::Integer(0));
    }
    if is_valkey(args) {
        view.renew_fields(key, words.iter().step_by(2));
    }
    let keep = matches!(options.expire, ExpireOption::KeepTtl);
    let limits = view.settings().hash_limits(args.profile());
    let past = until.is_some_and(|time| time <= view.past());
    view.change_or_make(key, Hash::default, |hash| {
        hash.expect(words.iter(), &limits);
        if until.is_some() {
            hash.expect_times(&limits);
        }
        let mut pairs = words.iter();
        while let (Some(field), Some(value)) = (pairs.next(), pairs.next()) {
            if keep {
                hash.update(field, value, &limits);
            } else {
                hash.set(field, value, &limits);
            }
            if let Some(time) = until.filter(|_| !past) {
                hash.set_time(field, Some(time), &limits);
            }
        }
        ((), words.len() / 2)
    })?;
    view.notify(EventClass::Hash, "hset", key);
    if until.is_some() && (!past || is_valkey(args)) {
        view.notify(EventClass::Hash, "hexpire", key);
    }
    if past {
        let remove = |hash: &mut Hash| (words.iter().step_by(2).filter(|field| hash.remove(field)).count(), 0);
        let gone = view.change(key, remove)?.is_some_and(|(_, gone)| gone);
        notify_field_removal(view, args, key, gone);
    }
    Ok(Reply::Integer(1))
}

fn parse_until(expire: ExpireOption<'_>, now: Millis, args: &Args<'_>) -> Result<Option<Millis>, CommandError> {
    match expire {
        ExpireOption::At(lifetime) => parse_deadline(lifetime, now, args).map(Some),
        _ => Ok(None),
    }
}

fn parse_options_valkey<'a>(args: &mut Args<'a>) -> Result<Options<'a>, CommandError> {
    let found = FieldsClause::find(args)?;
    let left = args.left() - found.options.len();
    let (mut conditions, mut expire) = (Conditions::default(), ExpireOption::None);
    take_options(args, left, |args| {
        let mut is = |slot: &mut Option<bool>, word: &str, there: bool| {
            *slot != Some(!there) && args.take(word) && {
                *slot = Some(there);
                true
            }
        };
        is(&mut conditions.key, "NX", false)
            || is(&mut conditions.key, "XX", true)
            || is(&mut conditions.fields, "FNX", false)
            || is(&mut conditions.fields, "FXX", true)
            || expire.take(args, ExpireOption::KeepTtl)
    })?;
    Ok(Options { conditions, expire, words: found.fields(2)? })
}

/// Parses option by option, and reports the first error.
fn parse_options_redis<'a>(args: &mut Args<'a>, now: Millis) -> Result<(Options<'a>, Option<Millis>), CommandError> {
    let mut options =
        Options { conditions: Conditions::default(), expire: ExpireOption::None, words: args.rest().first(0) };
    let mut until = None;
    while let Some(word) = args.optional() {
        match word.to_ascii_uppercase().as_slice() {
            b"FIELDS" => {
                options.words = parse_pairs(args)?;
                return Ok((options, until));
            }
            condition @ (b"FNX" | b"FXX") => {
                if options.conditions.fields.is_some() {
                    return Err(ONE_CONDITION);
                }
                options.conditions.fields = Some(condition == b"FXX");
            }
            lifetime @ (b"KEEPTTL" | b"EX" | b"PX" | b"EXAT" | b"PXAT") => {
                if !matches!(options.expire, ExpireOption::None) {
                    return Err(ONE_LIFETIME);
                }
                if lifetime == b"KEEPTTL" {
                    options.expire = ExpireOption::KeepTtl;
                    continue;
                }
                let value = args.optional().ok_or_else(|| args.wrong_number())?;
                let unit = if lifetime[0] == b'E' { TimeUnit::Seconds } else { TimeUnit::Milliseconds };
                let lifetime = ExpireTime { value, unit, absolute: lifetime.len() == 4 };
                options.expire = ExpireOption::At(lifetime);
                until = Some(parse_deadline(lifetime, now, args)?);
            }
            _ => return Err(CommandError::quoting("ERR unknown argument: ", word, "")),
        }
    }
    Err(args.wrong_number())
}

fn parse_pairs<'a>(args: &mut Args<'a>) -> Result<Words<'a>, CommandError> {
    let count = args.optional().ok_or_else(|| args.wrong_number())?;
    let count = parse_integer(count).and_then(|count| i32::try_from(count).ok()).filter(|&count| count > 0);
    let count = count.ok_or(WRONG_NUMBER_OF_FIELDS)?;
    let words = args.rest();
    if usize::try_from(count).ok().and_then(|count| count.checked_mul(2)) != Some(words.len()) {
        return Err(args.wrong_number());
    }
    Ok(words)
}
