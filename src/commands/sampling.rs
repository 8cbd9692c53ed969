//! Drawing elements of a value at random: what SRANDMEMBER and HRANDFIELD have in common.

use std::collections::BTreeSet;

use crate::base::error::CommandError;
use crate::data::keyspace::View;
use crate::protocol::parse_integer;

pub(super) const OUT_OF_RANGE: CommandError = CommandError::fixed("ERR value is out of range");

/// How often is drawn at most, when the same element may be drawn again and again. Redis would go on for ever.
const MOST_DRAWS: u64 = 1 << 20;

/// How many elements to draw: below zero if the same one may be drawn again.
pub(super) fn parse_count(text: &[u8]) -> Result<i64, CommandError> {
    let count = parse_integer(text).ok_or(CommandError::NOT_AN_INTEGER)?;
    if count == i64::MIN {
        let most = i64::MAX;
        return Err(CommandError::new(format!("ERR value is out of range, value must between {} and {most}", -most)));
    }
    Ok(count)
}

/// Places of elements, of which there are `size`.
pub(super) fn draw(view: &View<'_>, size: usize, count: i64) -> Result<Vec<usize>, CommandError> {
    if count >= 0 {
        return Ok(distinct(view, size, usize::try_from(count).unwrap_or(usize::MAX)));
    }
    if count.unsigned_abs() > MOST_DRAWS {
        return Err(OUT_OF_RANGE);
    }
    Ok((0..count.unsigned_abs()).map(|_| view.random_below(size)).collect())
}

/// So many different places below `size`, or all (Floyd's way: no draw is in vain).
fn distinct(view: &View<'_>, size: usize, count: usize) -> Vec<usize> {
    let mut chosen = BTreeSet::new();
    for place in size.saturating_sub(count)..size {
        let drawn = if count >= size { place } else { view.random_below(place + 1) };
        if !chosen.insert(drawn) {
            chosen.insert(place);
        }
    }
    chosen.into_iter().collect()
}
