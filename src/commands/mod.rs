//! The commands: a row and a function for each, one file per group.
//!
//! Knows what each command does; no socket, no clock, nothing of other commands' runs.
//! May use: every floor below it.
//! Begin with `strings.rs`: rows, each followed by its function.
//!
//! To add a command, declare a `const` [`Command`] (row and function) in the file of its group, and list it in that
//! file's `ROWS`. A new file also needs its `mod` and a line in [`all`]. Then run `make docs`, and add a transcript to
//! `tests/exactness/transcripts`, with its name in `transcripts.rs`. `table_tests.rs` names what is missing: a summary,
//! a parsable usage, keys that do not fit the arity, a test. The compiler warns of a command that is in no `ROWS`.

mod acl;
mod acl_log;
mod bitfield;
mod bitmaps;
mod bitop;
mod blocking;
mod call;
mod client;
mod client_filter;
mod client_help;
mod client_list;
mod cluster;
mod command;
mod conditional;
mod config;
mod connection;
mod counters;
mod databases;
mod debug;
mod dump;
mod expire_options;
mod expiry;
mod fields_clause;
mod functions;
mod geo;
mod geo_search;
mod handler;
mod hash_counters;
mod hash_expiry;
mod hash_getex;
mod hash_random;
mod hashes;
mod help;
mod hyperloglog;
mod index_ranges;
mod info;
mod keys;
mod latency;
mod latency_report;
mod lcs;
mod list_blocking;
mod list_index;
mod lists;
mod lolwut;
mod long_double;
mod memory;
mod memory_figures;
mod modules;
mod mpop;
mod object;
mod partial_sort;
mod persistence;
mod pubsub;
mod redouble;
mod replication;
mod sampling;
mod scan;
mod scan_elements;
mod scan_options;
mod scripting;
mod sentinel;
mod server;
mod set;
mod set_algebra;
mod set_random;
mod sets;
mod slow_log;
mod sort;
mod sorted_set_algebra;
mod sorted_set_bounds;
mod sorted_set_pops;
mod sorted_set_random;
mod sorted_set_ranges;
mod sorted_sets;
mod stream_deletion;
mod stream_groups;
mod stream_ids;
mod stream_info;
mod stream_pending;
mod stream_read;
mod stream_replication;
mod streams;
mod string_ranges;
mod strings;
mod timeout;
mod tracking;
mod transactions;
mod wait;

#[cfg(test)]
mod table_tests;

use crate::base::profile::{Profile, Since};
use crate::spec::{Row, Table};

pub use acl_log::record_denial;
pub use blocking::{BlockForKeys, BlockingResult, ReadyKey, ReplyOrBlock};
pub use call::Call;
pub use handler::{Command, CommandResult, Handler, Handlers, rows};
pub use redouble::{reached, so_many_found};
pub use sentinel::{of_sentinel, rows_of_sentinel};
pub use stream_read::refuse_block_in_script;

/// The hints since 7.2 of commands that every node of a cluster must get.
const ON_EVERY_NODE: &[(Since, &[&str])] =
    &[(Since::redis(7, 2, 0), &["request_policy:all_nodes", "response_policy:all_succeeded"])];

/// The table of a profile.
pub fn table(profile: Profile) -> Table {
    Table::new(all_rows(), profile)
}

/// The table of the commands of all profiles: for journals of servers whose profile is unknown.
pub fn table_of_every_profile() -> Table {
    Table::of_every_profile(all_rows())
}

/// The rows of all commands in all profiles.
pub fn all_rows() -> Vec<Row> {
    rows(all())
}

/// All commands, group by group. Add the `ROWS` of a new file here.
pub fn all() -> impl Iterator<Item = &'static Command> {
    [
        acl::ROWS,
        bitfield::ROWS,
        bitmaps::ROWS,
        bitop::ROWS,
        client::ROWS,
        cluster::ROWS,
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
        hash_expiry::ROWS,
        hash_counters::ROWS,
        hash_random::ROWS,
        hash_getex::ROWS,
        hashes::ROWS,
        info::ROWS,
        keys::ROWS,
        latency::ROWS,
        lcs::ROWS,
        list_index::ROWS,
        list_blocking::ROWS,
        lists::ROWS,
        lolwut::ROWS,
        memory::ROWS,
        modules::ROWS,
        object::ROWS,
        persistence::ROWS,
        pubsub::ROWS,
        string_ranges::ROWS,
        redouble::ROWS,
        replication::ROWS,
        scan::ROWS,
        scripting::ROWS,
        server::ROWS,
        set::ROWS,
        set_algebra::ROWS,
        set_random::ROWS,
        sets::ROWS,
        slow_log::ROWS,
        sorted_set_algebra::ROWS,
        sorted_set_pops::ROWS,
        sorted_set_random::ROWS,
        sorted_set_ranges::ROWS,
        sorted_sets::ROWS,
        sort::ROWS,
        stream_deletion::ROWS,
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
