//! `FIELDS numfields field [field ...]` and the options before it, for commands on the expiry of hash fields. Redis and
//! Valkey differ in their errors and in the order of their checks.

use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::base::profile::{Family, Since, Version};
use crate::data::keyspace::{Hash, View};
use crate::protocol::{Words, parse_integer};
use crate::spec::Args;

use super::expire_options::{ExpireTime, TimeUnit, invalid_expire_time};

/// The releases with hash field expiration.
pub(super) const FIELD_TIMES: Since = Since::each(Version(7, 4, 0), Version(9, 0, 0));

pub(super) const NO_FIELDS: CommandError =
    CommandError::fixed("ERR Mandatory argument FIELDS is missing or not at the right position");
pub(super) const FIELD_COUNT_MISMATCH: CommandError =
    CommandError::fixed("ERR The `numfields` parameter must match the number of arguments");
pub(super) const NOT_POSITIVE: CommandError = CommandError::fixed("ERR Number of fields must be a positive integer");
pub(super) const VALKEY_FIELD_COUNT_MISMATCH: CommandError =
    CommandError::fixed("ERR numfields should be greater than 0 and match the provided number of fields");
const NEGATIVE_TIME: CommandError = CommandError::fixed("ERR invalid expire time, must be >= 0");

/// The latest deadline that Redis accepts for a field.
const LATEST: Millis = (1 << 46) - 1;

pub(super) fn is_valkey(args: &Args<'_>) -> bool {
    args.profile().family() == Family::Valkey
}

/// Prepares for a write of fields that may have expired: Redis removes those first; Valkey publishes that they have
/// expired, and has them overwritten.
pub(super) fn clear_expired<'w>(
    view: &mut View<'_>,
    args: &Args<'_>,
    key: &[u8],
    fields: impl Iterator<Item = &'w [u8]>,
) {
    if is_valkey(args) {
        view.renew_fields(key, fields);
    } else {
        view.expire_fields(key, fields);
    }
}

/// Parses `FIELDS` and the fields as Redis does. `not_positive` is the error for a count below 1.
pub(super) fn parse_fields<'a>(args: &mut Args<'a>, not_positive: CommandError) -> Result<Words<'a>, CommandError> {
    if !args.take("FIELDS") {
        return Err(NO_FIELDS);
    }
    if args.is_empty() {
        return Err(args.wrong_number());
    }
    let count = args.optional().and_then(parse_integer).filter(|&count| count > 0).ok_or(not_positive)?;
    let fields = args.rest();
    if usize::try_from(count).ok() != Some(fields.len()) {
        return Err(FIELD_COUNT_MISMATCH);
    }
    Ok(fields)
}

/// Parses `FIELDS` and the fields as Valkey does in commands without options before it.
pub(super) fn parse_fields_valkey<'a>(args: &mut Args<'a>, mismatch: CommandError) -> Result<Words<'a>, CommandError> {
    if !args.take("FIELDS") {
        return Err(CommandError::SYNTAX);
    }
    let count = args.integer()?;
    let fields = args.rest();
    if usize::try_from(count).ok() != Some(fields.len()) {
        return Err(mismatch);
    }
    Ok(fields)
}

/// A `FIELDS` clause found after options.
pub(super) struct FieldsClause<'a> {
    /// The arguments before `FIELDS`, not consumed.
    pub options: Words<'a>,
    count: &'a [u8],
    words: Words<'a>,
}

impl<'a> FieldsClause<'a> {
    /// Finds `FIELDS` as Valkey does in commands with options before it.
    pub fn find(args: &Args<'a>) -> Result<Self, CommandError> {
        let words = args.rest();
        let mut all = words.iter().take(words.len().saturating_sub(1));
        let at = all.position(|word| word.eq_ignore_ascii_case(b"FIELDS")).ok_or(VALKEY_FIELD_COUNT_MISMATCH)?;
        let count = words.get(at + 1).ok_or(VALKEY_FIELD_COUNT_MISMATCH)?;
        Ok(Self { options: words.first(at), count, words: words.from(at + 2) })
    }

    /// The words after the count, if there are `each` of them per field.
    pub fn fields(&self, each: usize) -> Result<Words<'a>, CommandError> {
        let count = parse_integer(self.count).ok_or(CommandError::NOT_AN_INTEGER)?;
        let words = usize::try_from(count).ok().filter(|&count| count > 0).and_then(|count| count.checked_mul(each));
        if words == Some(self.words.len()) { Ok(self.words) } else { Err(VALKEY_FIELD_COUNT_MISMATCH) }
    }
}

/// The deadline of a field. It may be in the past, but not before 1970.
pub(super) fn parse_deadline(time: ExpireTime<'_>, now: Millis, args: &Args<'_>) -> Result<Millis, CommandError> {
    let value = parse_integer(time.value).ok_or(CommandError::NOT_AN_INTEGER)?;
    let valkey = is_valkey(args);
    if value < 0 {
        return Err(if valkey { invalid_expire_time(args) } else { NEGATIVE_TIME });
    }
    let millis = match time.unit {
        TimeUnit::Seconds => value.checked_mul(1000),
        TimeUnit::Milliseconds => Some(value),
    };
    let start = if time.absolute { 0 } else { now };
    let latest = if valkey { Millis::MAX } else { LATEST };
    let deadline = millis.and_then(|millis| millis.checked_add(start)).filter(|&deadline| deadline <= latest);
    deadline.ok_or_else(|| invalid_expire_time(args))
}

/// Parses the fields. Redis checks the type of the key first.
pub(super) fn parse_fields_clause<'a>(
    view: &mut View<'_>,
    key: &[u8],
    args: &mut Args<'a>,
) -> Result<Words<'a>, CommandError> {
    if is_valkey(args) {
        return parse_fields_valkey(args, VALKEY_FIELD_COUNT_MISMATCH);
    }
    view.collection_to_write::<Hash>(key)?;
    parse_fields(args, NOT_POSITIVE)
}
