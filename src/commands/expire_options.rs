//! The options EX, PX, EXAT, PXAT, KEEPTTL and PERSIST, and the deadlines they mean.

use std::sync::atomic::Ordering;

use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::base::profile::{Family, Since};
use crate::data::keyspace::{EventClass, Expiry, View};
use crate::protocol::{Words, parse_integer};
use crate::spec::Args;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeUnit {
    Seconds,
    Milliseconds,
}

/// A time as the request gives it.
#[derive(Clone, Copy)]
pub(super) struct ExpireTime<'a> {
    pub value: &'a [u8],
    pub unit: TimeUnit,
    /// A Unix time, not a duration from now.
    pub absolute: bool,
}

impl ExpireTime<'_> {
    /// The deadline. An error if the number is not positive or overflows.
    pub fn deadline(&self, now: Millis, args: &Args<'_>) -> Result<Millis, CommandError> {
        let value = parse_integer(self.value).ok_or(CommandError::NOT_AN_INTEGER)?;
        let millis = match self.unit {
            TimeUnit::Seconds => value.checked_mul(1000),
            TimeUnit::Milliseconds => Some(value),
        };
        let start = if self.absolute { 0 } else { now };
        millis
            .filter(|&millis| millis > 0)
            .and_then(|millis| millis.checked_add(start))
            .ok_or_else(|| invalid_expire_time(args))
    }
}

pub(super) fn invalid_expire_time(args: &Args<'_>) -> CommandError {
    let name = args.command_name();
    CommandError::new(if args.profile().since_redis(7, 0) {
        format!("ERR invalid expire time in '{name}' command")
    } else {
        format!("ERR invalid expire time in {name}")
    })
}

/// The expire option of a request.
#[derive(Clone, Copy)]
pub(super) enum ExpireOption<'a> {
    None,
    KeepTtl,
    Persist,
    At(ExpireTime<'a>),
}

impl<'a> ExpireOption<'a> {
    /// Consumes the next option if it is an expire option that does not contradict this one. `word` is the one option
    /// without a value that the command has.
    pub fn take(&mut self, args: &mut Args<'a>, word: ExpireOption<'static>) -> bool {
        let Some(option) = args.peek() else { return false };
        let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
        let (unit, absolute) = match option.len() {
            2 if is("EX") => (TimeUnit::Seconds, false),
            2 if is("PX") => (TimeUnit::Milliseconds, false),
            4 if is("EXAT") => (TimeUnit::Seconds, true),
            4 if is("PXAT") => (TimeUnit::Milliseconds, true),
            _ => return self.take_word(args, word),
        };
        let agrees = match self {
            Self::None => true,
            Self::At(other) => other.unit == unit && other.absolute == absolute,
            Self::KeepTtl | Self::Persist => false,
        };
        let Some(value) = args.rest().get(1) else { return false };
        if agrees {
            args.next_words(2);
            *self = Self::At(ExpireTime { value, unit, absolute });
        }
        agrees
    }

    fn take_word(&mut self, args: &mut Args<'a>, word: ExpireOption<'static>) -> bool {
        match (&self, word) {
            (Self::None | Self::KeepTtl, ExpireOption::KeepTtl) if args.take("KEEPTTL") => *self = Self::KeepTtl,
            (Self::None | Self::Persist, ExpireOption::Persist) if args.take("PERSIST") => *self = Self::Persist,
            _ => return false,
        }
        true
    }

    /// What a write with this option does to the key's deadline.
    pub fn expiry(&self, now: Millis, args: &Args<'_>) -> Result<Expiry, CommandError> {
        Ok(match self {
            Self::None | Self::Persist => Expiry::Never,
            Self::KeepTtl => Expiry::Keep,
            Self::At(time) => Expiry::At(time.deadline(now, args)?),
        })
    }
}

/// Sends replicas a string with its deadline, which is the same there however long the way is.
#[inline]
pub(super) fn replicate_set(view: &mut View<'_>, key: &[u8], value: &[u8], expiry: Expiry) {
    if let Expiry::At(deadline) = expiry
        && view.is_replicated()
    {
        view.replicate_as(&[b"SET", key, value, b"PXAT", deadline.to_string().as_bytes()]);
    }
}

/// Sends replicas a deadline, with the options of EXPIRE if there are any.
#[inline]
pub(super) fn replicate_deadline(view: &mut View<'_>, key: &[u8], deadline: Millis, options: Words<'_>) {
    if view.is_replicated() {
        let deadline = deadline.to_string();
        let words: Vec<&[u8]> = [b"PEXPIREAT", key, deadline.as_bytes()].into_iter().chain(options.iter()).collect();
        view.replicate_as(&words);
    }
}

/// Writes a string. If its deadline has passed, Redis still writes it, and the next access finds it expired; Valkey
/// deletes the old value instead.
#[inline]
pub(super) fn write_string(view: &mut View<'_>, args: &Args<'_>, key: &[u8], value: &[u8], expiry: Expiry) {
    match expiry {
        Expiry::At(deadline) if deadline <= view.past() && args.profile().family() == Family::Valkey => {
            delete_past_deadline(view, args, key);
        }
        expiry => {
            view.set_string(key, value, expiry);
            replicate_set(view, key, value, expiry);
            notify_set(view, key, expiry);
        }
    }
}

/// Deletes a key that was given a deadline in the past.
pub(super) fn delete_past_deadline(view: &mut View<'_>, args: &Args<'_>, key: &[u8]) {
    if view.settings().lazy_free.expire.load(Ordering::Relaxed) {
        view.free_lazily(key);
    }
    if view.remove(key) {
        let name: &[u8] = if view.settings().lazy_free.expire.load(Ordering::Relaxed) { b"UNLINK" } else { b"DEL" };
        view.replicate_as(&[name, key]);
        if args.profile().has(Since::valkey(9, 0, 0)) {
            view.notify(EventClass::Expired, "expired", key);
        } else {
            view.notify(EventClass::Generic, "del", key);
        }
    }
}

/// Publishes the keyspace events of a SET.
#[inline]
pub(super) fn notify_set(view: &mut View<'_>, key: &[u8], expiry: Expiry) {
    view.notify(EventClass::String, "set", key);
    if let Expiry::At(_) = expiry {
        view.notify(EventClass::Generic, "expire", key);
    }
}
