//! The arguments of LMPOP, ZMPOP and their blocking forms: `numkeys key [key ...] <end> [COUNT count]`.

use crate::base::error::CommandError;
use crate::protocol::{Words, parse_integer};
use crate::spec::Args;

const NO_KEYS: CommandError = CommandError::fixed("ERR numkeys should be greater than 0");
const NO_COUNT: CommandError = CommandError::fixed("ERR count should be greater than 0");

pub(super) struct MultiPop<'a, End> {
    pub keys: Words<'a>,
    pub end: End,
    pub count: usize,
}

impl<'a, End> MultiPop<'a, End> {
    pub fn parse(
        args: &mut Args<'a>,
        parse_end: impl FnOnce(&mut Args<'a>) -> Result<End, CommandError>,
    ) -> Result<Self, CommandError> {
        let positive = |word: &[u8]| parse_integer(word).filter(|&number| number > 0);
        let numkeys = positive(args.bytes()?).ok_or(NO_KEYS)?;
        let numkeys = usize::try_from(numkeys).ok().filter(|&numkeys| numkeys < args.left());
        let keys = args.next_words(numkeys.ok_or(CommandError::SYNTAX)?);
        let end = parse_end(args)?;
        let mut count = None;
        while !args.is_empty() {
            if count.is_some() || args.left() < 2 || !args.take("COUNT") {
                return Err(CommandError::SYNTAX);
            }
            count = Some(positive(args.bytes()?).ok_or(NO_COUNT)?);
        }
        let count = usize::try_from(count.unwrap_or(1)).unwrap_or(usize::MAX);
        Ok(Self { keys, end, count })
    }
}
