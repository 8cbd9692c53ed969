//! Fields of hashes together with their times: read and removed, read and given a time, written with a time.

use super::hash_deadlines::tell_of_removal;
use super::hash_fields::{Found, NOT_POSITIVE, deadline, fields_of, is_valkey, take_fields};
use super::lifetime::{Lifespan, Lifetime, Unit};
use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::base::profile::{Since, Version};
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{EventClass, Hash, HashLimits, View};
use crate::protocol::{Reply, Words, parse_integer};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec};

pub(super) const ROWS: &[Command] = &[HGETDEL, HGETEX, HSETEX];

/// Since when fields are read or written together with their times.
const WITH_TIMES: Since = Since::each(Version(8, 0, 0), Version(9, 0, 0));

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
    let fields = fields_of(view, key, args)?;
    let change = view.change(key, |hash: &mut Hash| {
        let mut removed = 0;
        let values: Vec<Reply<'static>> = fields
            .iter()
            .map(|field| {
                let value = copy_of(hash, field);
                removed += usize::from(hash.remove(field));
                value
            })
            .collect();
        ((values, removed), removed)
    })?;
    let Some(((values, removed), gone)) = change else { return Ok(nothing(fields)) };
    if removed > 0 {
        view.notify_removal(EventClass::Hash, "hdel", key, gone);
    }
    Ok(Reply::Array(values))
}

fn copy_of(hash: &Hash, field: &[u8]) -> Reply<'static> {
    hash.get(field).map_or(Reply::Null, |value| Reply::bulk(value.to_vec()))
}

/// What is answered for fields of a hash that is not there.
fn nothing(fields: Words<'_>) -> Reply<'static> {
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
        since: WITH_TIMES,
        arity: Arity::AtLeast(5),
        keys: &[KeySpec::one(1, &["RW", "access", "update"])],
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::Hash],
        ..CommandSpec::new("HGETEX")
    },
);

/// What HGETEX does to the times of fields.
#[derive(Clone, Copy)]
enum Change {
    Nothing,
    Persist,
    Until(Millis),
}

/// How many fields were changed, and how.
#[derive(Clone, Copy, Default)]
struct Changes {
    removed: usize,
    timed: usize,
    persisted: usize,
}

fn hgetex<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, now) = (args.key()?, view.now());
    let (change, fields) = if is_valkey(args) {
        let found = Found::of(args)?;
        let behind = args.left() - found.options.len();
        let mut said = Lifespan::Unsaid;
        take_options(args, behind, |args| said.take(args, Lifespan::Persist))?;
        let fields = found.fields(1)?;
        view.collection::<Hash>(key)?;
        (change_of(said, now, args)?, fields)
    } else {
        view.collection_to_write::<Hash>(key)?;
        let mut said = Lifespan::Unsaid;
        said.take(args, Lifespan::Persist);
        (change_of(said, now, args)?, take_fields(args, NOT_POSITIVE)?)
    };
    let limits = view.settings().hash_limits(args.profile());
    let outcome = view.change(key, |hash: &mut Hash| {
        if !matches!(change, Change::Nothing) {
            hash.expect_times(&limits);
        }
        let mut changes = Changes::default();
        let values: Vec<Reply<'static>> = fields
            .iter()
            .map(|field| {
                let value = copy_of(hash, field);
                apply(hash, field, change, now, &limits, &mut changes);
                value
            })
            .collect();
        ((values, changes), changes.removed + changes.timed + changes.persisted)
    })?;
    let Some(((values, changes), gone)) = outcome else { return Ok(nothing(fields)) };
    if changes.removed > 0 {
        tell_of_removal(view, args, key, gone);
    } else if changes.timed > 0 {
        view.notify(EventClass::Hash, "hexpire", key);
    } else if changes.persisted > 0 {
        view.notify(EventClass::Hash, "hpersist", key);
    }
    Ok(Reply::Array(values))
}

/// Takes options until so many words are left.
fn take_options<'a>(
    args: &mut Args<'a>,
    behind: usize,
    mut take: impl FnMut(&mut Args<'a>) -> bool,
) -> Result<(), CommandError> {
    while args.left() > behind {
        if !take(args) {
            return Err(CommandError::SYNTAX);
        }
    }
    // The last one may have taken what stands behind it for its value.
    if args.left() == behind { Ok(()) } else { Err(CommandError::SYNTAX) }
}

fn change_of(said: Lifespan<'_>, now: Millis, args: &Args<'_>) -> Result<Change, CommandError> {
    Ok(match said {
        Lifespan::Until(lifetime) => Change::Until(deadline(lifetime, now, args)?),
        Lifespan::Persist => Change::Persist,
        Lifespan::Unsaid | Lifespan::Keep => Change::Nothing,
    })
}

fn apply(hash: &mut Hash, field: &[u8], change: Change, now: Millis, limits: &HashLimits, changes: &mut Changes) {
    match change {
        Change::Until(time) if time <= now => changes.removed += usize::from(hash.remove(field)),
        Change::Until(time) => changes.timed += usize::from(hash.set_time(field, Some(time), limits)),
        Change::Persist => changes.persisted += usize::from(hash.set_time(field, None, limits)),
        Change::Nothing => {}
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
        since: WITH_TIMES,
        arity: Arity::AtLeast(6),
        keys: &[KeySpec::one(1, &["RW", "update"])],
        flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
        categories: &[Category::Hash],
        ..CommandSpec::new("HSETEX")
    },
);

const ONE_CONDITION: CommandError = CommandError::fixed("ERR Only one of FXX or FNX arguments can be specified");
const ONE_LIFETIME: CommandError =
    CommandError::fixed("ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified");
const WRONG_NUMBER_OF_FIELDS: CommandError = CommandError::fixed("ERR invalid number of fields");

/// What must be there, or must not, for fields to be written.
#[derive(Clone, Copy, Default)]
struct Demand {
    key: Option<bool>,
    fields: Option<bool>,
}

impl Demand {
    fn is_met(self, hash: Option<&Hash>, words: Words<'_>) -> bool {
        self.key.is_none_or(|there| hash.is_some() == there)
            && self.fields.is_none_or(|there| {
                words.iter().step_by(2).all(|field| hash.is_some_and(|hash| hash.contains(field)) == there)
            })
    }
}

/// What Redis takes in front of the fields, and the fields with their values.
struct Options<'a> {
    demand: Demand,
    said: Lifespan<'a>,
    words: Words<'a>,
}

fn hsetex<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, now) = (args.key()?, view.now());
    let (options, until) = if is_valkey(args) {
        let options = options_of_valkey(args)?;
        view.collection_to_write::<Hash>(key)?;
        let until = until(options.said, now, args)?;
        (options, until)
    } else {
        options_of_redis(args, now)?
    };
    let (demand, words) = (options.demand, options.words);
    if !demand.is_met(view.collection_to_write::<Hash>(key)?, words) {
        return Ok(Reply::Integer(0));
    }
    let keep = matches!(options.said, Lifespan::Keep);
    let limits = view.settings().hash_limits(args.profile());
    let past = until.is_some_and(|time| time <= now);
    view.change_or_make(key, Hash::default, |hash| {
        hash.expect(words.iter(), &limits);
        if until.is_some() {
            hash.expect_times(&limits);
        }
        let mut each = words.iter();
        while let (Some(field), Some(value)) = (each.next(), each.next()) {
            if keep {
                hash.rewrite(field, value, &limits);
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
        tell_of_removal(view, args, key, gone);
    }
    Ok(Reply::Integer(1))
}

fn until(said: Lifespan<'_>, now: Millis, args: &Args<'_>) -> Result<Option<Millis>, CommandError> {
    match said {
        Lifespan::Until(lifetime) => deadline(lifetime, now, args).map(Some),
        _ => Ok(None),
    }
}

fn options_of_valkey<'a>(args: &mut Args<'a>) -> Result<Options<'a>, CommandError> {
    let found = Found::of(args)?;
    let behind = args.left() - found.options.len();
    let (mut demand, mut said) = (Demand::default(), Lifespan::Unsaid);
    take_options(args, behind, |args| {
        let mut is = |slot: &mut Option<bool>, word: &str, there: bool| {
            *slot != Some(!there) && args.take(word) && {
                *slot = Some(there);
                true
            }
        };
        is(&mut demand.key, "NX", false)
            || is(&mut demand.key, "XX", true)
            || is(&mut demand.fields, "FNX", false)
            || is(&mut demand.fields, "FXX", true)
            || said.take(args, Lifespan::Keep)
    })?;
    Ok(Options { demand, said, words: found.fields(2)? })
}

/// Takes one option after the other, and complains about the first that is wrong.
fn options_of_redis<'a>(args: &mut Args<'a>, now: Millis) -> Result<(Options<'a>, Option<Millis>), CommandError> {
    let mut options = Options { demand: Demand::default(), said: Lifespan::Unsaid, words: args.rest().first(0) };
    let mut until = None;
    while let Some(word) = args.optional() {
        match word.to_ascii_uppercase().as_slice() {
            b"FIELDS" => {
                options.words = take_pairs(args)?;
                return Ok((options, until));
            }
            condition @ (b"FNX" | b"FXX") => {
                if options.demand.fields.is_some() {
                    return Err(ONE_CONDITION);
                }
                options.demand.fields = Some(condition == b"FXX");
            }
            lifetime @ (b"KEEPTTL" | b"EX" | b"PX" | b"EXAT" | b"PXAT") => {
                if !matches!(options.said, Lifespan::Unsaid) {
                    return Err(ONE_LIFETIME);
                }
                if lifetime == b"KEEPTTL" {
                    options.said = Lifespan::Keep;
                    continue;
                }
                let value = args.optional().ok_or_else(|| args.wrong_number())?;
                let unit = if lifetime[0] == b'E' { Unit::Seconds } else { Unit::Milliseconds };
                let lifetime = Lifetime { value, unit, absolute: lifetime.len() == 4 };
                options.said = Lifespan::Until(lifetime);
                until = Some(deadline(lifetime, now, args)?);
            }
            _ => return Err(CommandError::quoting("ERR unknown argument: ", word, "")),
        }
    }
    Err(args.wrong_number())
}

fn take_pairs<'a>(args: &mut Args<'a>) -> Result<Words<'a>, CommandError> {
    let count = args.optional().ok_or_else(|| args.wrong_number())?;
    let count = parse_integer(count).and_then(|count| i32::try_from(count).ok()).filter(|&count| count > 0);
    let count = count.ok_or(WRONG_NUMBER_OF_FIELDS)?;
    let words = args.rest();
    if usize::try_from(count).ok().and_then(|count| count.checked_mul(2)) != Some(words.len()) {
        return Err(args.wrong_number());
    }
    Ok(words)
}
