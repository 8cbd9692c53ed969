//! Every transcript runs three times: against redouble as redis-7.0, against the real redis-server 7.0.15, and against the
//! real one through redouble in front of it. All must give the recorded answers. Transcripts of commands that 7.0.15 lacks
//! run against redouble alone.
//!
//! `REDOUBLE_RECORD=1 cargo test --test exactness redis_answers` records the answers of the real server: read the
//! difference before you commit it. `transcript.rs` describes the format.

use std::collections::BTreeSet;

use crate::support::process::ServerProcess;
use crate::support::wire::Wire;
use crate::transcript::{Transcript, directory, is_recording};

/// The tests of each transcript that the real server can run. A reason says why it has other answers through redouble.
macro_rules! checked {
    ($($name:ident $(: $reason:literal)?)*) => {
        const CHECKED: &[&str] = &[$(stringify!($name)),*];
        $(mod $name {
            use super::*;

            #[test]
            fn redouble_answers_as_written() {
                Transcript::load(stringify!($name)).play_to_redouble();
            }

            #[test]
            fn redis_answers_as_written() {
                Transcript::load(stringify!($name)).play_to_redis();
            }

            through_redouble!($name $($reason)?);
        })*
    };
}

macro_rules! through_redouble {
    ($name:ident $reason:literal) => {};
    ($name:ident) => {
        #[test]
        fn upstream_answers_as_written() {
            Transcript::load(stringify!($name)).play_to_upstream();
        }
    };
}

/// A test for each transcript that only redouble can run.
macro_rules! alone {
    ($($name:ident)*) => {
        const ALONE: &[&str] = &[$(stringify!($name)),*];
        $(mod $name {
            use super::*;

            #[test]
            fn redouble_answers_as_written() {
                let transcript = Transcript::load(stringify!($name));
                assert!(!transcript.is_checked(), "the real server can play this one");
                transcript.play_to_redouble();
            }
        })*
    };
}

checked! {
    acl_default_user
    acl_log
    acl_other_commands
    acl_permissions
    acl_users
    arity
    auth: "redouble waits for the rest of a request that the server refuses before it is whole"
    bitfield
    bitmaps
    client
    client_eviction: "how much memory a client takes at a moment depends on the packets in which its bytes arrive"
    client_kill
    client_pause
    cluster
    command
    config
    connection
    counters
    debug
    debug_reload
    debug_switches
    debug_values
    dump_restore
    dump_restore_streams
    dump_restore_types
    eviction
    expiry
    functions
    geo
    hash_events
    hashes
    hello
    hyperloglog
    keys
    keys_of_types
    keys_that_are_awaited
    latency
    lcs
    list_blocking
    list_index
    lists
    lock_fair
    lock_hash
    lock_pattern
    lock_permits
    lock_read_write
    lock_several_keys
    lock_sorted_set
    lock_tokens
    lock_unique_jobs
    modules
    monitor
    notifications
    object
    output_limit
    overdue
    protocol_errors
    pubsub
    pubsub_resp3
    rename_copy_move
    replica
    replication
    replication_requests
    scan
    scan_elements
    scripting
    server
    set_options
    sets
    slow_log
    sort
    sorted_set_algebra
    sorted_set_pops
    sorted_set_ranges
    sorted_sets
    stream_events
    stream_groups
    stream_overdue
    streams
    string_ranges
    strings
    swapdb
    tracking
    transactions
    unblock
    wrongtype
}

alone! {
    acl_7_2
    debug_alone
    dump_restore_damaged
    field_lifetimes
    lifetimes
    lists_7_2
    not_persistent
    redis_7_2
    redis_7_2_blocking
    redis_7_2_scripts
    redis_7_4_streams
    redis_8_expired_fields
    redis_8_lag
    redis_8_locks
    redis_8_numbers
    redis_8_scripts
    redis_8_streams
    redis_field_times
    redouble_audit
    redouble_clock
    redouble_explore
    redouble_failover
    redouble_fault
    redouble_gate
    redouble_help
    redouble_instance
    redouble_journal
    redouble_link
    redouble_locks
    redouble_mark
    redouble_node
    redouble_reset
    redouble_save
    redouble_space
    redouble_upstream
    sorted_sets_7_2
    time_stands
    valkey_8_locks
    valkey_acl_databases
    valkey_clients
    valkey_command_log
    valkey_cluster
    valkey_connection
    valkey_details
    valkey_expired_fields
    valkey_field_times
    valkey_import
    valkey_inline
    valkey_locks
    valkey_numbers
    valkey_polygons
    valkey_scripts
}

#[test]
fn every_file_is_played() {
    let files: BTreeSet<String> = std::fs::read_dir(directory())
        .expect("the directory of transcripts")
        .map(|entry| entry.expect("an entry").path().file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    let played: BTreeSet<String> = CHECKED.iter().chain(ALONE).map(|name| (*name).to_owned()).collect();
    assert_eq!(files, played);
}

#[test]
fn every_command_of_every_profile_stands_in_a_transcript() {
    let sent: BTreeSet<String> =
        CHECKED.iter().chain(ALONE).flat_map(|name| Transcript::load(name).commands()).collect();
    for profile in ["redis-6.2", "redis-7.0", "redis-7.2", "redis-8.4", "valkey-9.1"] {
        let server = crate::support::start(redouble::Server::builder().compat(crate::support::profile(profile)));
        let mut wire = Wire::connect(crate::support::address(&server));
        // COMMAND LIST does not exist before 7.0.
        let rows = wire.ask("COMMAND");
        let names = rows.items().iter().flat_map(|row| {
            let subcommands = row.items().get(9).map(|rows| rows.items().to_vec()).unwrap_or_default();
            std::iter::once(row.clone()).chain(subcommands).map(|row| row.items()[0].text())
        });
        let missing: Vec<String> = names.filter(|name| !sent.contains(name)).collect();
        assert!(missing.is_empty(), "{profile}: no transcript sends {missing:?}");
    }
}

#[test]
fn the_real_server_is_the_one_that_the_transcripts_were_written_by() {
    let server = ServerProcess::redis(&[]);
    let info = Wire::connect(server.address()).ask("INFO server").text();
    assert!(info.contains("redis_version:7.0."), "the transcripts are Redis 7.0's:\n{info}");
}

/// Records a transcript from another server that is running:
///
/// `REDOUBLE_RECORD=1 REDOUBLE_RECORD_FROM=127.0.0.1:7801 REDOUBLE_RECORD_NAME=valkey_locks cargo test record_another`.
#[test]
fn record_another() {
    if is_recording()
        && let (Ok(address), Ok(name)) = (std::env::var("REDOUBLE_RECORD_FROM"), std::env::var("REDOUBLE_RECORD_NAME"))
    {
        Transcript::load(&name).record_from(address.parse().expect("an address"));
    }
}
