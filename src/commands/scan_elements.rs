//! Going through the elements of one value, step by step: what HSCAN, SSCAN and ZSCAN have in common.

use super::scan::{INVALID_CURSOR, matches, parse_cursor};
use crate::base::error::CommandError;
use crate::base::profile::{Since, Version};
use crate::commands::CommandResult;
use crate::data::keyspace::{Collection, View};
use crate::protocol::Reply;
use crate::spec::Args;

/// What one step is to return.
pub(super) struct Step<'a> {
    /// Where to go on, as the step before has told.
    pub cursor: u64,
    /// About how many elements to look at.
    pub count: usize,
    /// Whether elements are to be returned without what belongs to them.
    pub bare: bool,
    pattern: &'a [u8],
}

impl Step<'_> {
    /// Whether an element is asked for.
    pub fn admits(&self, element: &[u8]) -> bool {
        matches(self.pattern, element)
    }
}

/// Does one step. `walk` adds the elements that it admits to those found, and tells the next cursor, which is 0 at the
/// end.
pub(super) fn scan<'v, T: Collection + 'v>(
    view: &'v mut View<'_>,
    args: &mut Args<'v>,
    walk: impl FnOnce(&'v T, &Step<'v>, &mut Vec<Reply<'v>>) -> u64,
) -> CommandResult<'v> {
    let (key, cursor) = (args.key()?, args.bytes()?);
    let cursor = parse_cursor(cursor, args.profile()).ok_or(INVALID_CURSOR)?;
    let mut found = Vec::new();
    let mut next = 0;
    // The options are only looked at if there is something that they are about.
    if let Some(value) = view.collection::<T>(key)? {
        let step = take_options(args, cursor)?;
        next = walk(value, &step, &mut found);
    }
    Ok(Reply::Array(vec![Reply::text(next.to_string()), Reply::Array(found)]))
}

fn take_options<'a>(args: &mut Args<'a>, cursor: u64) -> Result<Step<'a>, CommandError> {
    let mut step = Step { cursor, count: 10, bare: false, pattern: b"*" };
    while !args.is_empty() {
        if args.take("MATCH") {
            step.pattern = args.bytes()?;
        } else if args.take("COUNT") {
            let count = args.integer()?;
            step.count = usize::try_from(count).ok().filter(|&count| count > 0).ok_or(CommandError::SYNTAX)?;
        } else if take_bare(args)? {
            step.bare = true;
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    Ok(step)
}

/// An option that leaves out what belongs to elements.
struct Bare {
    word: &'static str,
    /// The only command that takes it.
    command: &'static str,
    since: Since,
}

const BARE: [Bare; 2] = [
    Bare { word: "NOVALUES", command: "HSCAN", since: Since::each(Version(7, 4, 0), Version(8, 0, 0)) },
    Bare { word: "NOSCORES", command: "ZSCAN", since: Since::valkey(8, 1, 0) },
];

/// Takes the next argument if it is such an option; the servers that know them say which command each is for.
pub(super) fn take_bare(args: &mut Args<'_>) -> Result<bool, CommandError> {
    let profile = args.profile();
    let taken = BARE.iter().find(|option| profile.has(option.since) && args.take(option.word));
    match taken {
        Some(Bare { word, command, .. }) if args.spec().name != *command => {
            Err(CommandError::new(format!("ERR {word} option can only be used in {command}")))
        }
        taken => Ok(taken.is_some()),
    }
}
