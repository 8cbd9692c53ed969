//! The commands: a row and a function each, one file per group.

mod bitfield;
mod bitmaps;
mod bitop;
mod client;
mod client_list;
mod command;
mod conditional;
mod connection;
mod counters;
mod debug;
mod help;
mod info;
mod lcs;
mod lifetime;
mod long_double;
mod ranges;
mod server;
mod set;
mod strings;
mod transactions;

#[cfg(test)]
mod table_tests;

use crate::spec::CommandSpec;

/// Every row, group by group.
pub fn all() -> impl Iterator<Item = &'static CommandSpec> {
    [
        bitfield::ROWS,
        bitmaps::ROWS,
        bitop::ROWS,
        client::ROWS,
        command::ROWS,
        conditional::ROWS,
        connection::ROWS,
        counters::ROWS,
        debug::ROWS,
        info::ROWS,
        lcs::ROWS,
        ranges::ROWS,
        server::ROWS,
        set::ROWS,
        strings::ROWS,
        transactions::ROWS,
    ]
    .into_iter()
    .flatten()
}
