//! Random elements of a collection, for SRANDMEMBER, HRANDFIELD and ZRANDMEMBER.

use std::collections::BTreeSet;

use crate::base::error::CommandError;
use crate::data::keyspace::View;
use crate::protocol::parse_integer;

pub(super) const OUT_OF_RANGE: CommandError = CommandError::fixed("ERR value is out of range");

/// The most elements for a negative count, for which Redis has no limit.
const MAX_SAMPLES: u64 = 1 << 20;

/// Parses a count. A negative one allows repeated elements.
pub(super) fn parse_count(text: &[u8]) -> Result<i64, CommandError> {
    let count = parse_integer(text).ok_or(CommandError::NOT_AN_INTEGER)?;
    if count == i64::MIN {
        let most = i64::MAX;
        return Err(CommandError::new(format!("ERR value is out of range, value must between {} and {most}", -most)));
    }
    Ok(count)
}

/// Indexes of random elements among `size`.
pub(super) fn sample(view: &View<'_>, size: usize, count: i64) -> Result<Vec<usize>, CommandError> {
    if count >= 0 {
        return Ok(distinct(view, size, usize::try_from(count).unwrap_or(usize::MAX)));
    }
    if count.unsigned_abs() > MAX_SAMPLES {
        return Err(OUT_OF_RANGE);
    }
    Ok((0..count.unsigned_abs()).map(|_| view.random_below(size)).collect())
}

/// Distinct indexes below `size`, at most `count`, by Floyd's algorithm: no draw is wasted.
fn distinct(view: &View<'_>, size: usize, count: usize) -> Vec<usize> {
    let mut chosen = BTreeSet::new();
    for index in size.saturating_sub(count)..size {
        let sampled = if count >= size { index } else { view.random_below(index + 1) };
        if !chosen.insert(sampled) {
            chosen.insert(index);
        }
    }
    chosen.into_iter().collect()
}
