//! The commands: a row and a function each, one file per group.

mod bitfield;
mod bitmaps;
mod bitop;
mod conditional;
mod counters;
mod lcs;
mod lifetime;
mod long_double;
mod ranges;
mod set;
mod strings;

use crate::spec::CommandSpec;

/// Every row, group by group.
pub fn all() -> impl Iterator<Item = &'static CommandSpec> {
    [
        bitfield::ROWS,
        bitmaps::ROWS,
        bitop::ROWS,
        conditional::ROWS,
        counters::ROWS,
        lcs::ROWS,
        ranges::ROWS,
        set::ROWS,
        strings::ROWS,
    ]
    .into_iter()
    .flatten()
}
