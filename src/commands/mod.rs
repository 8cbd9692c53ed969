//! The commands: a row and a function each, one file per group.

mod bitfield;
mod bitmaps;
mod bitop;
mod client;
mod client_list;
mod conditional;
mod config;
mod connection;
mod counters;
mod lcs;
mod lifetime;
mod long_double;
mod ranges;
mod set;
mod strings;
mod transactions;

use crate::spec::CommandSpec;

/// Every row, group by group.
pub fn all() -> impl Iterator<Item = &'static CommandSpec> {
    [
        bitfield::ROWS,
        bitmaps::ROWS,
        bitop::ROWS,
        client::ROWS,
        conditional::ROWS,
        config::ROWS,
        connection::ROWS,
        counters::ROWS,
        lcs::ROWS,
        ranges::ROWS,
        set::ROWS,
        strings::ROWS,
        transactions::ROWS,
    ]
    .into_iter()
    .flatten()
}
