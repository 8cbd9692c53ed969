//! MEMORY.

use super::help::help;
use super::memory_figures::MemoryFigures;
use super::server::{container, help_row, simple_row};
use crate::base::error::CommandError;
use crate::base::profile::{Since, Version};
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::data::keyspace::View;
use crate::protocol::Reply;
use crate::spec::{Args, Arity, CommandSpec, Flag, KeySpec};

pub(super) const ROWS: &[Command] = &[MEMORY];

const MEMORY_SINCE: Since = Since::redis(4, 0, 0);
/// Valkey 9 answers them while it loads its data.
const WHILE_LOADING: &[(Since, &[Flag])] = &[(Since::valkey(9, 0, 0), &[Flag::Loading])];
const MEMORY_TIPS: &[&str] = &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];

const MEMORY: Command = Command::container(
    CommandSpec { summary: "Memory use.", since: MEMORY_SINCE, ..container("MEMORY") },
    &[
        Command::new(
            Handler::Connection(memory_doctor),
            CommandSpec {
                summary: "Reports on memory in words.",
                since: MEMORY_SINCE,
                arity: Arity::Exactly(2),
                tips: MEMORY_TIPS,
                ..simple_row("DOCTOR")
            },
        ),
        help_row(MEMORY_SINCE, Handler::Connection(|call, _| help(call.table, "MEMORY", MEMORY_HELP))),
        Command::new(
            Handler::Connection(|_, _| Ok(Reply::text(NO_ALLOCATOR_STATS))),
            CommandSpec {
                summary: "Shows the allocator's own statistics, if it has any.",
                complexity: "Depends on the memory that is allocated",
                since: MEMORY_SINCE,
                arity: Arity::Exactly(2),
                tips: MEMORY_TIPS,
                later_flags: WHILE_LOADING,
                ..simple_row("MALLOC-STATS")
            },
        ),
        Command::new(
            Handler::Connection(memory_purge),
            CommandSpec {
                summary: "Gives back memory that is not used.",
                complexity: "Depends on the memory that is allocated",
                since: MEMORY_SINCE,
                arity: Arity::Exactly(2),
                tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
                later_flags: WHILE_LOADING,
                ..simple_row("PURGE")
            },
        ),
        Command::new(
            Handler::Connection(memory_stats),
            CommandSpec {
                summary: "Shows how much memory the data takes.",
                since: MEMORY_SINCE,
                arity: Arity::Exactly(2),
                tips: MEMORY_TIPS,
                ..simple_row("STATS")
            },
        ),
        Command::new(
            Handler::Keys(memory_usage),
            CommandSpec {
                usage: "key [SAMPLES count]",
                summary: "Tells how much memory a key and its value take.",
                complexity: "O(1).",
                since: MEMORY_SINCE,
                arity: Arity::AtLeast(3),
                keys: &[KeySpec::one(2, &["RO"])],
                flags: &[Flag::ReadOnly],
                ..simple_row("USAGE")
            },
        ),
    ],
);

const MEMORY_HELP: &[&str] = &[
    "MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DOCTOR",
    "    Return memory problems reports.",
    "MALLOC-STATS",
    "    Return internal statistics report from the memory allocator.",
    "PURGE",
    "    Attempt to purge dirty pages for reclamation by the allocator.",
    "STATS",
    "    Return information about the memory usage of the server.",
    "USAGE <key> [SAMPLES <count>]",
    "    Return memory in bytes used by <key> and its value. Nested values are",
    "    sampled up to <count> times (default: 5, 0 means sample all).",
    "HELP",
    "    Prints this help.",
];

/// What a server without jemalloc answers.
const NO_ALLOCATOR_STATS: &str = "Stats not supported for the current allocator";

const LITTLE_MEMORY: &str = "Hi Sam, this instance is empty or is using very little memory, my issues detector can't \
be used in these conditions. Please, leave for your mission on Earth and fill it with some data. The new Sam and I \
will be back to our programming as soon as I finished rebooting.\n";

const NO_ISSUE: &str = "Hi Sam, I can't find any memory issue in your instance. I can only account for what occurs on \
this base.\n";

fn memory_doctor(call: &mut Call<'_>, _: &mut Args<'_>) -> CommandResult<'static> {
    let little = call.server.keyspace.used_bytes() < 5 << 20;
    let text = if little { LITTLE_MEMORY } else { NO_ISSUE };
    Ok(Reply::Verbatim("txt", text.as_bytes().into()))
}

/// The tables give back the room that keys have left behind: soon, as memory is freed at all times.
fn memory_purge(call: &mut Call<'_>, _: &mut Args<'_>) -> CommandResult<'static> {
    call.server.keyspace.shrink_soon();
    Ok(Reply::OK)
}

fn memory_stats(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let profile = args.profile();
    let figures = MemoryFigures::of(call.server);
    let stats = call.server.scripts.stats();
    let mut pairs = Vec::new();
    let bytes = |value: u64| Reply::Integer(i64::try_from(value).unwrap_or(i64::MAX));
    let mut add = |name: &'static str, value: Reply<'static>| pairs.push((Reply::text(name), value));
    let (seven, is_modern) = (profile.since_redis(7, 0), profile.has(Since::each(Version(7, 4, 0), Version(8, 0, 0))));
    let (redis_8, valkey_9) = (profile.has(Since::redis(8, 0, 0)), profile.has(Since::valkey(9, 0, 0)));
    add("peak.allocated", bytes(figures.peak));
    add("total.allocated", bytes(figures.used));
    add("startup.allocated", bytes(figures.startup));
    add("replication.backlog", bytes(figures.backlog));
    if redis_8 {
        add("replica.fullsync.buffer", bytes(0));
    }
    if valkey_9 {
        add("replicas.repl.buffer", bytes(0));
    }
    add("clients.slaves", bytes(figures.replicas));
    add("clients.normal", bytes(figures.clients));
    if seven {
        add("cluster.links", bytes(0));
    }
    if valkey_9 {
        add("cluster.slot_import", bytes(0));
        add("cluster.slot_export", bytes(0));
    }
    add("aof.buffer", bytes(0));
    add("lua.caches", bytes(stats.script_text as u64));
    if seven {
        add("functions.caches", bytes(stats.library_text as u64));
    }
    if redis_8 {
        add("script.VMs", bytes(figures.interpreters));
    }
    let tables: u64 = figures.databases.iter().map(|(_, [main, expires])| main + expires).sum();
    for (db, [main, expires]) in &figures.databases {
        let mut overheads = vec![
            (Reply::text("overhead.hashtable.main"), bytes(*main)),
            (Reply::text("overhead.hashtable.expires"), bytes(*expires)),
        ];
        if seven && !is_modern {
            overheads.push((Reply::text("overhead.hashtable.slot-to-keys"), bytes(0)));
        }
        pairs.push((Reply::text(format!("db.{db}")), Reply::Map(overheads)));
    }
    let mut add = |name: &'static str, value: Reply<'static>| pairs.push((Reply::text(name), value));
    if is_modern {
        add("overhead.db.hashtable.lut", bytes(tables));
        add("overhead.db.hashtable.rehashing", bytes(0));
    }
    add("overhead.total", bytes(figures.overhead()));
    if is_modern {
        add("db.dict.rehashing.count", bytes(0));
    }
    add("keys.count", bytes(figures.keys));
    add("keys.bytes-per-key", bytes((figures.used - figures.startup) / figures.keys.max(1)));
    add("dataset.bytes", bytes(figures.dataset()));
    add("dataset.percentage", Reply::Double(figures.dataset_percentage()));
    add("peak.percentage", Reply::Double(figures.peak_percentage()));
    add("allocator.allocated", bytes(figures.used));
    add("allocator.active", bytes(figures.allocator_resident()));
    add("allocator.resident", bytes(figures.allocator_resident()));
    if is_modern {
        add("allocator.muzzy", bytes(0));
    }
    add("allocator-fragmentation.ratio", Reply::Double(figures.allocator_fragmentation()));
    add("allocator-fragmentation.bytes", Reply::Integer(figures.allocator_fragmentation_bytes()));
    add("allocator-rss.ratio", Reply::Double(1.0));
    add("allocator-rss.bytes", bytes(0));
    add("rss-overhead.ratio", Reply::Double(figures.resident_overhead()));
    add("rss-overhead.bytes", Reply::Integer(figures.resident_overhead_bytes()));
    add("fragmentation", Reply::Double(figures.fragmentation()));
    add("fragmentation.bytes", Reply::Integer(figures.fragmentation_bytes()));
    Ok(Reply::Map(pairs))
}

fn memory_usage<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    while !args.is_empty() {
        // SAMPLES has no effect: each value knows its exact size.
        if args.left() < 2 || !args.take("SAMPLES") {
            return Err(CommandError::SYNTAX);
        }
        if args.integer()? < 0 {
            return Err(CommandError::SYNTAX);
        }
    }
    Ok(view.peek(key).map_or(Reply::Null, |entry| Reply::Integer(entry.footprint() as i64)))
}
