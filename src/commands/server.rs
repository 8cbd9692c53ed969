//! TIME, ROLE, LASTSAVE, SLOWLOG, LATENCY and MEMORY. The diagnostics are those of a server with nothing to report.

use super::help::help;
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::data::keyspace::{Entry, View};
use crate::protocol::{Reply, parse_integer};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec};

pub(super) const ROWS: &[Command] = &[LASTSAVE, LATENCY, MEMORY, ROLE, SLOWLOG, TIME];

const DEPENDS: &str = "Depends on the subcommand.";
const WHICH_SUBCOMMANDS: &str = "Says which subcommands there are.";

/// A row of this group for a command without arguments.
const fn simple_row(name: &'static str) -> CommandSpec {
    CommandSpec { group: Group::Server, ..CommandSpec::new(name) }
}

const fn container(name: &'static str) -> CommandSpec {
    CommandSpec { complexity: DEPENDS, arity: Arity::AtLeast(2), ..simple_row(name) }
}

const fn help_row(since: Since, run: Handler) -> Command {
    Command::new(
        run,
        CommandSpec {
            summary: WHICH_SUBCOMMANDS,
            since,
            arity: Arity::Exactly(2),
            flags: &[Flag::Loading, Flag::Stale],
            ..simple_row("HELP")
        },
    )
}

// ---- TIME, ROLE, LASTSAVE

const TIME: Command = Command::new(
    Handler::Keys(time),
    CommandSpec {
        summary: "Tells the server's time: seconds since 1970, and microseconds.",
        since: Since::redis(2, 6, 0),
        flags: &[Flag::Loading, Flag::Stale, Flag::Fast],
        tips: &["nondeterministic_output"],
        ..simple_row("TIME")
    },
);

fn time<'v>(view: &'v mut View<'_>, _: &mut Args<'v>) -> CommandResult<'v> {
    let micros = view.micros();
    Ok(Reply::strings([micros.div_euclid(1_000_000).to_string(), micros.rem_euclid(1_000_000).to_string()]))
}

const ROLE: Command = Command::new(
    Handler::Connection(|_, _| {
        Ok(Reply::Array(vec![Reply::text("master"), Reply::Integer(0), Reply::Array(Vec::new())]))
    }),
    CommandSpec {
        summary: "Tells the server's part in replication.",
        since: Since::redis(2, 8, 12),
        flags: &[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::Fast],
        categories: &[Category::Admin, Category::Dangerous],
        ..simple_row("ROLE")
    },
);

const LASTSAVE: Command = Command::new(
    Handler::Connection(|call, _| Ok(Reply::Integer(call.server.persistence.last_save().div_euclid(1000)))),
    CommandSpec {
        summary: "Tells when the data was last saved: when the server started, if that never happened.",
        flags: &[Flag::Loading, Flag::Stale, Flag::Fast],
        categories: &[Category::Admin, Category::Dangerous],
        tips: &["nondeterministic_output"],
        ..simple_row("LASTSAVE")
    },
);

// ---- SLOWLOG

const SLOW_SINCE: Since = Since::redis(2, 2, 12);

const SLOWLOG: Command = Command::container(
    CommandSpec { summary: "Slow commands.", since: SLOW_SINCE, ..container("SLOWLOG") },
    &[
        Command::new(
            Handler::Connection(slowlog_get),
            CommandSpec {
                usage: "[count]",
                summary: "Lists the slow commands; none is ever noted.",
                complexity: "O(N) where N is the number of entries returned",
                since: SLOW_SINCE,
                arity: Arity::AtLeast(2),
                flags: SLOW_FLAGS,
                tips: &["request_policy:all_nodes", "nondeterministic_output"],
                ..simple_row("GET")
            },
        ),
        help_row(Since::redis(6, 2, 0), Handler::Connection(|call, _| help(call.table, "SLOWLOG", SLOWLOG_HELP))),
        Command::new(
            Handler::Connection(|_, _| Ok(Reply::Integer(0))),
            CommandSpec {
                summary: "Counts the slow commands.",
                since: SLOW_SINCE,
                arity: Arity::Exactly(2),
                flags: SLOW_FLAGS,
                tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
                ..simple_row("LEN")
            },
        ),
        Command::new(
            Handler::Connection(|_, _| Ok(Reply::OK)),
            CommandSpec {
                summary: "Forgets the slow commands.",
                complexity: "O(N) where N is the number of entries",
                since: SLOW_SINCE,
                arity: Arity::Exactly(2),
                flags: SLOW_FLAGS,
                tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
                ..simple_row("RESET")
            },
        ),
    ],
);

const SLOW_FLAGS: &[Flag] = &[Flag::Admin, Flag::Loading, Flag::Stale];

const SLOWLOG_HELP: &[&str] = &[
    "SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET [<count>]",
    "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
    "    Entries are made of:",
    "    id, timestamp, time in microseconds, arguments array, client IP and port,",
    "    client name",
    "LEN",
    "    Return the length of the slowlog.",
    "RESET",
    "    Reset the slowlog.",
    "HELP",
    "    Prints this help.",
];

fn slowlog_get(_: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    if args.left() > 1 {
        let text = "ERR unknown subcommand or wrong number of arguments for 'GET'. Try SLOWLOG HELP.";
        return Err(CommandError::fixed(text));
    }
    match args.optional().map(parse_integer) {
        Some(None | Some(..-1)) => Err(CommandError::fixed("ERR count should be greater than or equal to -1")),
        _ => Ok(Reply::Array(Vec::new())),
    }
}

// ---- LATENCY

const LATENCY_SINCE: Since = Since::redis(2, 8, 13);
const LATENCY_FLAGS: &[Flag] = &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale];
const LATENCY_TIPS: &[&str] = &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"];

const fn latency(name: &'static str) -> CommandSpec {
    CommandSpec {
        since: LATENCY_SINCE,
        arity: Arity::Exactly(2),
        flags: LATENCY_FLAGS,
        tips: LATENCY_TIPS,
        ..simple_row(name)
    }
}

const LATENCY: Command = Command::container(
    CommandSpec { summary: "Latency spikes.", since: LATENCY_SINCE, ..container("LATENCY") },
    &[
        Command::new(
            Handler::Connection(|_, _| Ok(verbatim(LATENCY_DOCTOR))),
            CommandSpec { summary: "Explains the latency spikes in words.", ..latency("DOCTOR") },
        ),
        Command::new(
            Handler::Connection(latency_graph),
            CommandSpec {
                usage: "event",
                summary: "Draws the spikes of one event.",
                arity: Arity::Exactly(3),
                ..latency("GRAPH")
            },
        ),
        help_row(LATENCY_SINCE, Handler::Connection(|call, _| help(call.table, "LATENCY", LATENCY_HELP))),
        Command::new(
            Handler::Connection(|_, _| Ok(Reply::Map(Vec::new()))),
            CommandSpec {
                usage: "[command [command ...]]",
                summary: "Shows how long commands took; that is not measured here.",
                complexity: "O(N) where N is the number of commands shown",
                since: Since::redis(7, 0, 0),
                arity: Arity::AtLeast(2),
                ..latency("HISTOGRAM")
            },
        ),
        Command::new(
            Handler::Connection(|_, _| Ok(Reply::Array(Vec::new()))),
            CommandSpec {
                usage: "event",
                summary: "Lists the spikes of one event.",
                arity: Arity::Exactly(3),
                ..latency("HISTORY")
            },
        ),
        Command::new(
            Handler::Connection(|_, _| Ok(Reply::Array(Vec::new()))),
            CommandSpec { summary: "Lists the latest spike of each event.", ..latency("LATEST") },
        ),
        Command::new(
            Handler::Connection(|_, _| Ok(Reply::Integer(0))),
            CommandSpec {
                usage: "[event [event ...]]",
                summary: "Forgets the spikes of some events, or of all.",
                arity: Arity::AtLeast(2),
                tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
                later_tips: &[(Since::redis(7, 2, 0), &["request_policy:all_nodes", "response_policy:agg_sum"])],
                ..latency("RESET")
            },
        ),
    ],
);

const LATENCY_HELP: &[&str] = &[
    "LATENCY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DOCTOR",
    "    Return a human readable latency analysis report.",
    "GRAPH <event>",
    "    Return an ASCII latency graph for the <event> class.",
    "HISTORY <event>",
    "    Return time-latency samples for the <event> class.",
    "LATEST",
    "    Return the latest latency samples for all events.",
    "RESET [<event> ...]",
    "    Reset latency data of one or more <event> classes.",
    "    (default: reset all data for all event classes)",
    "HISTOGRAM [COMMAND ...]",
    "    Return a cumulative distribution of latencies in the format of a histogram for the specified command names.",
    "    If no commands are specified then all histograms are replied.",
    "HELP",
    "    Prints this help.",
];

const LATENCY_DOCTOR: &str = "I'm sorry, Dave, I can't do that. Latency monitoring is disabled in this Redis instance. \
You may use \"CONFIG SET latency-monitor-threshold <milliseconds>.\" in order to enable it. If we weren't in a deep \
space mission I'd suggest to take a look at https://redis.io/topics/latency-monitor.\n";

fn latency_graph(_: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    Err(CommandError::quoting("ERR No samples available for event '", args.bytes()?, "'"))
}

fn verbatim(text: &'static str) -> Reply<'static> {
    Reply::Verbatim("txt", text.as_bytes().into())
}

// ---- MEMORY

const MEMORY_SINCE: Since = Since::redis(4, 0, 0);
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
    "STATS",
    "    Return information about the memory usage of the server.",
    "USAGE <key> [SAMPLES <count>]",
    "    Return memory in bytes used by <key> and its value. Nested values are",
    "    sampled up to <count> times (default: 5, 0 means sample all).",
    "HELP",
    "    Prints this help.",
];

const LITTLE_MEMORY: &str = "Hi Sam, this instance is empty or is using very little memory, my issues detector can't \
be used in these conditions. Please, leave for your mission on Earth and fill it with some data. The new Sam and I \
will be back to our programming as soon as I finished rebooting.\n";

const NO_ISSUE: &str = "Hi Sam, I can't find any memory issue in your instance. I can only account for what occurs on \
this base.\n";

fn memory_doctor(call: &mut Call<'_>, _: &mut Args<'_>) -> CommandResult<'static> {
    let little = call.server.keyspace.used_bytes() < 5 << 20;
    Ok(verbatim(if little { LITTLE_MEMORY } else { NO_ISSUE }))
}

fn memory_stats(call: &mut Call<'_>, _: &mut Args<'_>) -> CommandResult<'static> {
    let used = call.server.keyspace.used_bytes() as i64;
    let keys: u64 = call.server.keyspace.sizes().iter().map(|(_, [keys, ..])| keys).sum();
    let keys = i64::try_from(keys).unwrap_or(i64::MAX);
    let fields = [
        ("total.allocated", used),
        ("replication.backlog", 0),
        ("clients.slaves", 0),
        ("cluster.links", 0),
        ("aof.buffer", 0),
        ("keys.count", keys),
        ("keys.bytes-per-key", used / keys.max(1)),
        ("dataset.bytes", used),
    ];
    Ok(Reply::Map(fields.into_iter().map(|(name, value)| (Reply::text(name), Reply::Integer(value))).collect()))
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
    let slot = size_of::<Entry>() + 1;
    Ok(view.peek(key).map_or(Reply::Null, |entry| Reply::Integer((entry.size() + slot) as i64)))
}
