//! The commands: a row and a function each, one file per group.

mod bitfield;
mod bitmaps;
mod bitop;
mod conditional;
mod counters;
mod databases;
mod dump;
mod expiry;
mod keys;
mod lcs;
mod lifetime;
mod long_double;
mod object;
mod ranges;
mod scan;
mod set;
mod strings;
mod wait;

use crate::spec::CommandSpec;

/// Every row, group by group.
pub fn all() -> impl Iterator<Item = &'static CommandSpec> {
    [
        bitfield::ROWS,
        bitmaps::ROWS,
        bitop::ROWS,
        conditional::ROWS,
        counters::ROWS,
        databases::ROWS,
        dump::ROWS,
        expiry::ROWS,
        keys::ROWS,
        lcs::ROWS,
        object::ROWS,
        ranges::ROWS,
        scan::ROWS,
        set::ROWS,
        strings::ROWS,
        wait::ROWS,
    ]
    .into_iter()
    .flatten()
}
