//! DEBUG POPULATE: many strings at once.

use std::sync::atomic::Ordering;

use super::Context;
use crate::base::error::CommandError;
use crate::commands::CommandResult;
use crate::data::keyspace::Expiry;
use crate::protocol::{Reply, parse_integer};
use crate::spec::Args;

const OUT_OF_RANGE: CommandError = CommandError::fixed("ERR value is out of range, must be positive");

/// The number of bytes of a key's name, or of the beginning of a value, that Redis has room for.
const LONGEST: usize = 127;

/// `count [prefix] [size]`: keys that exist are left as they are.
pub(super) fn populate(context: &mut Context<'_, '_, '_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let count = positive(args)?;
    let prefix = args.optional().unwrap_or(b"key");
    let size = if args.is_empty() { 0 } else { positive(args)? };
    let longest = context.view.settings().max_string.load(Ordering::Relaxed);
    if i64::try_from(size).is_ok_and(|size| size > longest) {
        return Err(OUT_OF_RANGE);
    }
    for number in 0..count {
        let mut key = [prefix, format!(":{number}").as_bytes()].concat();
        key.truncate(LONGEST);
        if context.view.exists(&key) {
            continue;
        }
        let mut value = format!("value:{number}").into_bytes();
        if size > 0 {
            value.resize(size, 0);
        }
        context.view.set_string(&key, &value, Expiry::Never);
    }
    Ok(Reply::OK)
}

fn positive(args: &mut Args<'_>) -> Result<usize, CommandError> {
    parse_integer(args.bytes()?).and_then(|number| usize::try_from(number).ok()).ok_or(OUT_OF_RANGE)
}
