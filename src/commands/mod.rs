//! The commands: a row and a function each, one file per group.

mod acl;
mod acl_log;
mod bitfield;
mod bitmaps;
mod bitop;
mod blocking;
mod client;
mod client_list;
mod command;
mod conditional;
mod config;
mod connection;
mod counters;
mod databases;
mod debug;
mod dump;
mod expiry;
mod functions;
mod help;
mod info;
mod keys;
mod lcs;
mod lifetime;
mod long_double;
mod object;
mod pubsub;
mod ranges;
mod scan;
mod scripting;
mod server;
mod set;
mod set_algebra;
mod set_random;
mod sets;
mod stream_groups;
mod stream_ids;
mod stream_info;
mod stream_pending;
mod stream_read;
mod streams;
mod strings;
mod tracking;
mod transactions;
mod wait;

#[cfg(test)]
mod table_tests;

use crate::spec::CommandSpec;

pub use acl_log::record_denial;
pub use stream_read::asks_to_wait;

/// Every row, group by group.
pub fn all() -> impl Iterator<Item = &'static CommandSpec> {
    [
        acl::ROWS,
        bitfield::ROWS,
        bitmaps::ROWS,
        bitop::ROWS,
        client::ROWS,
        command::ROWS,
        conditional::ROWS,
        config::ROWS,
        connection::ROWS,
        counters::ROWS,
        databases::ROWS,
        debug::ROWS,
        dump::ROWS,
        expiry::ROWS,
        functions::ROWS,
        info::ROWS,
        keys::ROWS,
        lcs::ROWS,
        object::ROWS,
        pubsub::ROWS,
        ranges::ROWS,
        scan::ROWS,
        scripting::ROWS,
        server::ROWS,
        set::ROWS,
        set_algebra::ROWS,
        set_random::ROWS,
        sets::ROWS,
        stream_groups::ROWS,
        stream_info::ROWS,
        stream_pending::ROWS,
        stream_read::ROWS,
        streams::ROWS,
        strings::ROWS,
        transactions::ROWS,
        wait::ROWS,
    ]
    .into_iter()
    .flatten()
}
