//! LCS: the longest common subsequence of two strings.

use std::sync::atomic::Ordering;

use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::View;
use crate::protocol::Reply;
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec};

pub(super) const ROWS: &[Command] = &[LCS];

const LCS: Command = Command::new(
    Handler::Keys(lcs),
    CommandSpec {
        usage: "key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]",
        summary: "Finds the longest sequence of bytes that two strings have in common.",
        complexity: "O(N*M) for strings of N and M bytes",
        group: Group::String,
        since: Since::redis(7, 0, 0),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::range(1, 1, 1, &["RO", "access"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::String],
        ..CommandSpec::new("LCS")
    },
);

#[derive(Default)]
struct Options {
    length: bool,
    matches: bool,
    with_lengths: bool,
    shortest: i64,
}

impl Options {
    fn parse(args: &mut Args<'_>) -> Result<Self, CommandError> {
        let mut options = Self::default();
        while !args.is_empty() {
            if args.take("IDX") {
                options.matches = true;
            } else if args.take("LEN") {
                options.length = true;
            } else if args.take("WITHMATCHLEN") {
                options.with_lengths = true;
            } else if args.left() > 1 && args.take("MINMATCHLEN") {
                options.shortest = args.integer()?.max(0);
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        if options.matches && options.length {
            return Err(CommandError::fixed("ERR If you want both the length and indexes, please just use IDX."));
        }
        Ok(options)
    }
}

fn lcs<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let keys = [args.key()?, args.key()?];
    let not_strings = |_| CommandError::fixed("ERR The specified keys must contain string values");
    let most = view.settings().max_string.load(Ordering::Relaxed);
    // Both are looked up, whatever the first one is.
    let [first, second] = keys.map(|key| view.string(key).map(|text| text.is_some().then_some(key)));
    let found = [first.map_err(not_strings)?, second.map_err(not_strings)?];
    let [first, second] = found.map(|key| key.and_then(|key| view.peek_found_string(key)).unwrap_or_default());
    let options = Options::parse(args)?;
    LengthTable::check_size([first.len(), second.len()], most)?;
    let table = LengthTable::new(first, second)?;
    let length = table.at(first.len(), second.len());
    if options.length {
        return Ok(Reply::Integer(i64::from(length)));
    }
    let (common, matches) = table.trace(first, second);
    if !options.matches {
        return Ok(Reply::bulk(common));
    }
    let matches = matches
        .into_iter()
        .filter(|found| found.length() >= options.shortest)
        .map(|found| found.reply(options.with_lengths));
    Ok(Reply::Map(vec![
        (Reply::text("matches"), Reply::Array(matches.collect())),
        (Reply::text("len"), Reply::Integer(i64::from(length))),
    ]))
}

/// A range that both strings share. Its ends are inclusive.
struct MatchRange {
    first: (usize, usize),
    second: (usize, usize),
}

impl MatchRange {
    fn length(&self) -> i64 {
        (self.first.1 - self.first.0) as i64 + 1
    }

    fn reply(&self, with_length: bool) -> Reply<'static> {
        let range =
            |(start, end): (usize, usize)| Reply::Array(vec![Reply::Integer(start as i64), Reply::Integer(end as i64)]);
        let mut items = vec![range(self.first), range(self.second)];
        if with_length {
            items.push(Reply::Integer(self.length()));
        }
        Reply::Array(items)
    }
}

/// The length of the longest common subsequence for each pair of prefixes.
struct LengthTable {
    lengths: Vec<u32>,
    width: usize,
}

impl LengthTable {
    /// An error if the table for strings of these lengths would need more memory than the longest string may have.
    fn check_size(lengths: [usize; 2], most: i64) -> Result<(), CommandError> {
        if lengths.iter().any(|length| *length >= u32::MAX as usize - 1) {
            return Err(CommandError::fixed("ERR String too long for LCS"));
        }
        let cells: u128 = lengths.iter().map(|length| *length as u128 + 1).product();
        if cells * size_of::<u32>() as u128 > most.max(0) as u128 {
            return Err(CommandError::fixed(
                "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
            ));
        }
        Ok(())
    }

    /// The strings are not too long for it.
    fn new(first: &[u8], second: &[u8]) -> Result<Self, CommandError> {
        let width = second.len() + 1;
        let cells = (first.len() + 1) * width;
        let mut lengths = Vec::new();
        lengths
            .try_reserve_exact(cells)
            .map_err(|_| CommandError::fixed("ERR Insufficient memory, failed allocating transient memory for LCS"))?;
        lengths.resize(cells, 0);
        for (i, &one) in first.iter().enumerate() {
            let (above, row) = lengths[i * width..].split_at_mut(width);
            for (j, &other) in second.iter().enumerate() {
                row[j + 1] = if one == other { above[j] + 1 } else { above[j + 1].max(row[j]) };
            }
        }
        Ok(Self { lengths, width })
    }

    fn at(&self, i: usize, j: usize) -> u32 {
        self.lengths[i * self.width + j]
    }

    /// The subsequence, and the ranges it consists of from last to first.
    fn trace(&self, first: &[u8], second: &[u8]) -> (Vec<u8>, Vec<MatchRange>) {
        let (mut i, mut j) = (first.len(), second.len());
        let mut common = Vec::with_capacity(self.at(i, j) as usize);
        let mut matches = Vec::new();
        let mut open: Option<MatchRange> = None;
        while i > 0 && j > 0 {
            if first[i - 1] == second[j - 1] {
                (i, j) = (i - 1, j - 1);
                common.push(first[i]);
                let found = open.get_or_insert(MatchRange { first: (i, i), second: (j, j) });
                (found.first.0, found.second.0) = (i, j);
            } else {
                if self.at(i - 1, j) > self.at(i, j - 1) {
                    i -= 1;
                } else {
                    j -= 1;
                }
                matches.extend(open.take());
            }
        }
        matches.extend(open);
        common.reverse();
        (common, matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_common_subsequence_is_found_with_its_stretches() {
        let (first, second) = (b"ohmytext", b"mynewtext");
        let table = LengthTable::new(first, second).unwrap();
        let (common, matches) = table.trace(first, second);
        assert_eq!(common, b"mytext");
        let ends: Vec<_> = matches.iter().map(|found| (found.first, found.second)).collect();
        assert_eq!(ends, [((4, 7), (5, 8)), ((2, 3), (0, 1))]);
    }

    #[test]
    fn a_table_that_is_too_big_is_refused() {
        assert!(LengthTable::check_size([1000, 1000], 4_000_000).is_err());
        assert!(LengthTable::check_size([999, 999], 4_000_000).is_ok());
    }
}
