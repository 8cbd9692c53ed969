//! Time-outs of blocking commands.

use super::long_double::LongDouble;
use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::base::profile::Profile;
use crate::data::keyspace::View;
use crate::spec::Args;

const NO_FLOAT: CommandError = CommandError::fixed("ERR timeout is not a float or out of range");
const NO_INTEGER: CommandError = CommandError::fixed("ERR timeout is not an integer or out of range");
const NEGATIVE: CommandError = CommandError::fixed("ERR timeout is negative");
const OUT_OF_RANGE: CommandError = CommandError::fixed("ERR timeout is out of range");

/// Skips the time-out, and returns a cursor at it. Some commands check it last.
pub(super) fn put_aside<'a>(args: &mut Args<'a>) -> Result<Args<'a>, CommandError> {
    let later = args.clone();
    args.bytes()?;
    Ok(later)
}

/// Parses a time-out in seconds, rounded up to milliseconds, and returns its deadline. `None` for 0, which blocks for
/// ever.
pub(super) fn parse_seconds(view: &View<'_>, args: &mut Args<'_>) -> Result<Option<Millis>, CommandError> {
    let seconds = LongDouble::parse(args.bytes()?).ok_or(NO_FLOAT)?;
    // Before 7.2 an overflow became the least integer.
    let overflow = if args.profile().since_redis(7, 2) && !seconds.is_negative() { OUT_OF_RANGE } else { NEGATIVE };
    let timeout = seconds.thousandfold().ok_or(overflow)?;
    deadline_after(view.now(), timeout, args.profile())
}

/// Like [`parse_seconds`], for a time-out in milliseconds.
pub(super) fn parse_millis(now: Millis, args: &mut Args<'_>) -> Result<Option<Millis>, CommandError> {
    let timeout = args.integer().map_err(|_| NO_INTEGER)?;
    deadline_after(now, timeout, args.profile())
}

fn deadline_after(now: Millis, timeout: i64, profile: &Profile) -> Result<Option<Millis>, CommandError> {
    if timeout < 0 {
        return Err(NEGATIVE);
    }
    let deadline = now.checked_add(timeout);
    // Before 7.2 the sum overflowed, to a deadline that never comes.
    if deadline.is_none() && profile.since_redis(7, 2) {
        return Err(OUT_OF_RANGE);
    }
    Ok(deadline.filter(|_| timeout > 0))
}
