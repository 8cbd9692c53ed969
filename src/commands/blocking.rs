//! What commands that may have to wait have in common.

use super::long_double::LongDouble;
use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::base::profile::Profile;
use crate::commands::Ready;
use crate::data::keyspace::View;
use crate::spec::Args;

const NO_FLOAT: CommandError = CommandError::fixed("ERR timeout is not a float or out of range");
const NO_INTEGER: CommandError = CommandError::fixed("ERR timeout is not an integer or out of range");
const NEGATIVE: CommandError = CommandError::fixed("ERR timeout is negative");
const OUT_OF_RANGE: CommandError = CommandError::fixed("ERR timeout is out of range");

/// The next argument, which is looked at when the others are known to be right.
pub(super) fn put_off<'a>(args: &mut Args<'a>) -> Result<Args<'a>, CommandError> {
    let later = args.clone();
    args.bytes()?;
    Ok(later)
}

/// When a command that waits gives up: its next argument in seconds, rounded up to milliseconds; `None` for 0, which is
/// never.
pub(super) fn deadline(view: &View<'_>, args: &mut Args<'_>) -> Result<Option<Millis>, CommandError> {
    let seconds = LongDouble::parse(args.bytes()?).ok_or(NO_FLOAT)?;
    // Before 7.2 what is too much for the machine's integers came out as the least of them.
    let too_much = if args.profile().since_redis(7, 2) && !seconds.is_negative() { OUT_OF_RANGE } else { NEGATIVE };
    let timeout = seconds.thousandfold().ok_or(too_much)?;
    after(view.now(), timeout, args.profile())
}

/// As [`deadline`], for a time-out in milliseconds.
pub(super) fn deadline_in_millis(now: Millis, args: &mut Args<'_>) -> Result<Option<Millis>, CommandError> {
    let timeout = args.integer().map_err(|_| NO_INTEGER)?;
    after(now, timeout, args.profile())
}

fn after(now: Millis, timeout: i64, profile: &Profile) -> Result<Option<Millis>, CommandError> {
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

/// Whether a key may be served in this attempt.
pub(super) fn is_meant(key: &[u8], ready: Ready<'_>) -> bool {
    ready.is_none_or(|ready| ready == key)
}
