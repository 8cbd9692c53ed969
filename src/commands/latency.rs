//! LATENCY: when the server was slow, and the distribution of how long commands took.

use super::help::help;
use super::latency_report::{doctor, graph};
use super::server::{container, help_row, simple_row};
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::clients::histogram::Histogram;
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::protocol::Reply;
use crate::spec::{Args, Arity, CommandSpec, Flag, RowId};

pub(super) const ROWS: &[Command] = &[LATENCY];

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
            Handler::Connection(doctor_report),
            CommandSpec { summary: "Explains the latency spikes in words.", ..latency("DOCTOR") },
        ),
        Command::new(
            Handler::Connection(graph_of),
            CommandSpec {
                usage: "event",
                summary: "Draws the spikes of one event.",
                arity: Arity::Exactly(3),
                ..latency("GRAPH")
            },
        ),
        help_row(LATENCY_SINCE, Handler::Connection(|call, _| help(call.table, "LATENCY", LATENCY_HELP))),
        Command::new(
            Handler::Connection(histogram),
            CommandSpec {
                usage: "[command [command ...]]",
                summary: "Shows how many calls of each command took how long.",
                complexity: "O(N) where N is the number of commands shown",
                since: Since::redis(7, 0, 0),
                arity: Arity::AtLeast(2),
                ..latency("HISTOGRAM")
            },
        ),
        Command::new(
            Handler::Connection(history),
            CommandSpec {
                usage: "event",
                summary: "Lists the spikes of one event.",
                arity: Arity::Exactly(3),
                ..latency("HISTORY")
            },
        ),
        Command::new(
            Handler::Connection(latest),
            CommandSpec { summary: "Lists the latest spike of each event.", ..latency("LATEST") },
        ),
        Command::new(
            Handler::Connection(reset),
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

fn doctor_report(call: &mut Call<'_>, _: &mut Args<'_>) -> CommandResult<'static> {
    Ok(Reply::Verbatim("txt", doctor(call).into_bytes().into()))
}

fn graph_of(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let event = args.bytes()?;
    let now = call.now().div_euclid(1000);
    match call.server.latency.all().iter().find(|(known, _)| known.name().as_bytes() == event) {
        Some((event, series)) => Ok(Reply::Verbatim("txt", graph(event.name(), series, now).into_bytes().into())),
        None => Err(CommandError::quoting("ERR No samples available for event '", event, "'")),
    }
}

fn history(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let event = args.bytes()?;
    let events = call.server.latency.all();
    let series = events.iter().find(|(known, _)| known.name().as_bytes() == event);
    let samples = series.map_or(&[][..], |(_, series)| &series.samples);
    let pair = |time: i64, millis: u64| Reply::Array(vec![Reply::Integer(time), integer(millis)]);
    Ok(Reply::Array(samples.iter().map(|sample| pair(sample.time, sample.millis)).collect()))
}

fn latest(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let with_sums = args.profile().has(Since::valkey(8, 1, 0));
    let events = call.server.latency.all();
    Ok(Reply::Array(
        events
            .iter()
            .filter_map(|(event, series)| {
                let last = series.samples.last()?;
                let mut fields = vec![
                    Reply::text(event.name()),
                    Reply::Integer(last.time),
                    integer(last.millis),
                    integer(series.worst),
                ];
                if with_sums {
                    fields.extend([integer(series.sum), integer(series.count)]);
                }
                Some(Reply::Array(fields))
            })
            .collect(),
    ))
}

fn reset(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let words = args.rest();
    let is_wanted =
        |name: &str| words.is_empty() || words.iter().any(|word| word.eq_ignore_ascii_case(name.as_bytes()));
    Ok(Reply::Integer(call.server.latency.forget(is_wanted) as i64))
}

/// The distributions of the commands that are named, or of all. Of a container, those of its subcommands are shown, too.
fn histogram(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let shown = |(id, name): (RowId, String)| {
        let durations = call.server.stats.durations_of(id);
        (durations.count() > 0).then(|| (Reply::text(name), distribution(&durations)))
    };
    if args.is_empty() {
        let totals = call.server.stats.calls();
        let used = call.table.full_names(|id| totals.of(id).calls > 0);
        return Ok(Reply::Map(used.filter_map(shown).collect()));
    }
    let named = args.rest().iter().flat_map(|name| call.table.full_names_of(name));
    Ok(Reply::Map(named.filter_map(shown).collect()))
}

fn distribution(durations: &Histogram) -> Reply<'static> {
    let buckets = durations.buckets().into_iter().map(|(micros, count)| (integer(micros), integer(count)));
    Reply::Map(vec![
        (Reply::text("calls"), integer(durations.count())),
        (Reply::text("histogram_usec"), Reply::Map(buckets.collect())),
    ])
}

fn integer(value: u64) -> Reply<'static> {
    Reply::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}
