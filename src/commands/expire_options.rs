//! How long a key is to live: `EX`, `PX`, `EXAT` and `PXAT` with their values, turned into deadlines.

use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::base::profile::{Family, Since};
use crate::data::keyspace::{EventClass, Expiry, View};
use crate::protocol::parse_integer;
use crate::spec::Args;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
}

/// A lifetime as a client gave it.
#[derive(Clone, Copy)]
pub(super) struct Lifetime<'a> {
    pub value: &'a [u8],
    pub unit: Unit,
    /// A point in Unix time, not a stretch from now on.
    pub absolute: bool,
}

impl Lifetime<'_> {
    /// The deadline this stands for, if the number is one that Redis takes here: positive, and far from overflowing.
    pub fn deadline(&self, now: Millis, args: &Args<'_>) -> Result<Millis, CommandError> {
        let value = parse_integer(self.value).ok_or(CommandError::NOT_AN_INTEGER)?;
        let millis = match self.unit {
            Unit::Seconds => value.checked_mul(1000),
            Unit::Milliseconds => Some(value),
        };
        let start = if self.absolute { 0 } else { now };
        millis
            .filter(|&millis| millis > 0)
            .and_then(|millis| millis.checked_add(start))
            .ok_or_else(|| invalid_expire_time(args))
    }
}

/// The error for a lifetime that cannot be.
pub(super) fn invalid_expire_time(args: &Args<'_>) -> CommandError {
    let name = args.command_name();
    CommandError::new(if args.profile().since_redis(7, 0) {
        format!("ERR invalid expire time in '{name}' command")
    } else {
        format!("ERR invalid expire time in {name}")
    })
}

/// What the options of a command say about the lifetime of its key.
#[derive(Clone, Copy)]
pub(super) enum Lifespan<'a> {
    Unsaid,
    /// `KEEPTTL`
    Keep,
    /// `PERSIST`
    Persist,
    Until(Lifetime<'a>),
}

impl<'a> Lifespan<'a> {
    /// Takes the next option if it is about the lifetime and agrees with what was said before. `word` is the one
    /// option without a value that this command knows.
    pub fn take(&mut self, args: &mut Args<'a>, word: Lifespan<'static>) -> bool {
        let Some(option) = args.peek() else { return false };
        let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
        let (unit, absolute) = match option.len() {
            2 if is("EX") => (Unit::Seconds, false),
            2 if is("PX") => (Unit::Milliseconds, false),
            4 if is("EXAT") => (Unit::Seconds, true),
            4 if is("PXAT") => (Unit::Milliseconds, true),
            _ => return self.take_word(args, word),
        };
        let agrees = match self {
            Self::Unsaid => true,
            Self::Until(said) => said.unit == unit && said.absolute == absolute,
            Self::Keep | Self::Persist => false,
        };
        let Some(value) = args.rest().get(1) else { return false };
        if agrees {
            args.optional();
            args.optional();
            *self = Self::Until(Lifetime { value, unit, absolute });
        }
        agrees
    }

    fn take_word(&mut self, args: &mut Args<'a>, word: Lifespan<'static>) -> bool {
        match (&self, word) {
            (Self::Unsaid | Self::Keep, Lifespan::Keep) if args.take("KEEPTTL") => *self = Self::Keep,
            (Self::Unsaid | Self::Persist, Lifespan::Persist) if args.take("PERSIST") => *self = Self::Persist,
            _ => return false,
        }
        true
    }

    /// What a write under these options does to the deadline.
    pub fn expiry(&self, now: Millis, args: &Args<'_>) -> Result<Expiry, CommandError> {
        Ok(match self {
            Self::Unsaid | Self::Persist => Expiry::Never,
            Self::Keep => Expiry::Keep,
            Self::Until(lifetime) => Expiry::At(lifetime.deadline(now, args)?),
        })
    }
}

/// Writes a string. Redis also writes one whose deadline is past already, and whoever looks at it next finds it expired;
/// Valkey only deletes what was there.
#[inline]
pub(super) fn write_string(view: &mut View<'_>, args: &Args<'_>, key: &[u8], value: &[u8], expiry: Expiry) {
    match expiry {
        Expiry::At(deadline) if deadline <= view.now() && args.profile().family() == Family::Valkey => {
            delete_overdue(view, args, key);
        }
        expiry => {
            view.set_string(key, value, expiry);
            tell_of_write(view, key, expiry);
        }
    }
}

/// Deletes a key because it was given a deadline that is past already.
pub(super) fn delete_overdue(view: &mut View<'_>, args: &Args<'_>, key: &[u8]) {
    if view.remove(key) {
        if args.profile().has(Since::valkey(9, 0, 0)) {
            view.notify(EventClass::Expired, "expired", key);
        } else {
            view.notify(EventClass::Generic, "del", key);
        }
    }
}

/// Tells that a string was written, and that it was given a deadline if it was.
#[inline]
pub(super) fn tell_of_write(view: &mut View<'_>, key: &[u8], expiry: Expiry) {
    view.notify(EventClass::String, "set", key);
    if let Expiry::At(_) = expiry {
        view.notify(EventClass::Generic, "expire", key);
    }
}
