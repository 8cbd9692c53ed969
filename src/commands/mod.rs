//! The commands: a row and a function each, one file per group.
//!
//! Knows what each command does; no socket, no clock, no other command's life.
//! May use: every floor below it.
//! Begin with `strings.rs`: a row, and its function under it. To add a command, add both to the file of its group and
//! the row to that file's `ROWS`.

mod acl;
mod acl_log;
mod bitfield;
mod bitmaps;
mod bitop;
mod blocking;
mod call;
mod client;
mod client_list;
mod command;
mod conditional;
mod config;
mod connection;
mod counters;
mod databases;
mod debug;
mod digest;
mod draws;
mod dump;
mod expiry;
mod functions;
mod geo;
mod geo_search;
mod handler;
mod hash_deadlines;
mod hash_fields;
mod hash_numbers;
mod hash_random;
mod hash_take;
mod hashes;
mod help;
mod hyperloglog;
mod info;
mod keys;
mod lcs;
mod lifetime;
mod list_places;
mod list_waiting;
mod lists;
mod long_double;
mod object;
mod outcome;
mod partial_sort;
mod pubsub;
mod ranges;
mod redouble;
mod scan;
mod scan_elements;
mod scripting;
mod server;
mod set;
mod set_algebra;
mod set_random;
mod sets;
mod sort;
mod sorted_set_algebra;
mod sorted_set_bounds;
mod sorted_set_pops;
mod sorted_set_random;
mod sorted_set_ranges;
mod sorted_sets;
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

use crate::base::profile::Profile;
use crate::spec::{Row, Table};

pub use acl_log::record_denial;
pub use call::Call;
use handler::rows;
pub use handler::{Command, CommandResult, Handler, Handlers};
pub use outcome::{Outcome, Ready, Wish};
pub use redouble::{reached, so_many_found};
pub use stream_read::asks_to_wait;

/// The table of the commands that a profile has.
pub fn table(profile: Profile) -> Table {
    Table::new(all_rows(), profile)
}

/// The table of the commands of all profiles: for journals of servers whose profile is unknown.
pub fn table_of_every_profile() -> Table {
    Table::of_every_profile(all_rows())
}

/// The rows of all commands.
pub fn all_rows() -> Vec<Row> {
    rows(all())
}

/// Every command, group by group.
pub fn all() -> impl Iterator<Item = &'static Command> {
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
        geo::ROWS,
        geo_search::ROWS,
        hyperloglog::ROWS,
        hash_deadlines::ROWS,
        hash_numbers::ROWS,
        hash_random::ROWS,
        hash_take::ROWS,
        hashes::ROWS,
        info::ROWS,
        keys::ROWS,
        lcs::ROWS,
        list_places::ROWS,
        list_waiting::ROWS,
        lists::ROWS,
        object::ROWS,
        pubsub::ROWS,
        ranges::ROWS,
        redouble::ROWS,
        scan::ROWS,
        scripting::ROWS,
        server::ROWS,
        set::ROWS,
        set_algebra::ROWS,
        set_random::ROWS,
        sets::ROWS,
        sorted_set_algebra::ROWS,
        sorted_set_pops::ROWS,
        sorted_set_random::ROWS,
        sorted_set_ranges::ROWS,
        sorted_sets::ROWS,
        sort::ROWS,
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
