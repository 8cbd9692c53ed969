//! One step of HSCAN, SSCAN or ZSCAN.

use super::scan_options::{INVALID_CURSOR, matches, parse_cursor, take_no_values};
use crate::base::error::CommandError;
use crate::commands::CommandResult;
use crate::data::keyspace::{Collection, View};
use crate::protocol::Reply;
use crate::spec::Args;

/// The parsed arguments.
pub(super) struct Step<'a> {
    pub cursor: u64,
    /// The approximate number of elements to visit.
    pub count: usize,
    /// Leave out values or scores.
    pub no_values: bool,
    pattern: &'a [u8],
}

impl Step<'_> {
    /// Whether an element matches the pattern.
    pub fn admits(&self, element: &[u8]) -> bool {
        matches(self.pattern, element)
    }
}

/// Runs one step. `prepare` is told the number of elements to visit; `walk` adds the matching elements and returns the
/// next cursor, 0 at the end.
pub(super) fn scan<'v, T: Collection + 'v>(
    view: &'v mut View<'_>,
    args: &mut Args<'v>,
    prepare: fn(&mut T, usize),
    walk: impl FnOnce(&'v T, &Step<'v>, &mut Vec<Reply<'v>>) -> u64,
) -> CommandResult<'v> {
    let (key, cursor) = (args.key()?, args.bytes()?);
    let cursor = parse_cursor(cursor, args.profile()).ok_or(INVALID_CURSOR)?;
    let mut found = Vec::new();
    let mut next = 0;
    // The options are only parsed if the key exists.
    if view.collection::<T>(key)?.is_some() {
        let step = parse_options(args, cursor)?;
        if let Some(value) = view.prepare(key, |value| prepare(value, step.count)) {
            next = walk(value, &step, &mut found);
        }
    }
    Ok(Reply::Array(vec![Reply::text(next.to_string()), Reply::Array(found)]))
}

fn parse_options<'a>(args: &mut Args<'a>, cursor: u64) -> Result<Step<'a>, CommandError> {
    let mut step = Step { cursor, count: 10, no_values: false, pattern: b"*" };
    while !args.is_empty() {
        if args.take("MATCH") {
            step.pattern = args.bytes()?;
        } else if args.take("COUNT") {
            let count = args.integer()?;
            step.count = usize::try_from(count).ok().filter(|&count| count > 0).ok_or(CommandError::SYNTAX)?;
        } else if take_no_values(args)? {
            step.no_values = true;
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    Ok(step)
}
