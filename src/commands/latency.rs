//! LATENCY: when the server was slow, and the distribution of how long commands took.

use std::collections::HashMap;

use super::help::help;
use super::latency_report::{doctor, graph};
use super::server::{container, help_row, simple_row};
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::clients::call_stats::RowTotals;
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::protocol::Reply;
use crate::spec::{Args, Arity, CommandSpec, Flag};

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
    let totals = call.server.stats.calls();
    let measured = |(id, name)| Some((name, totals.of(id).filter(|row| row.durations.count() > 0)?));
    let measured: Vec<(String, _)> = call.table.full_names().filter_map(measured).collect();
    let shown = |(name, row): &(String, &RowTotals)| (Reply::text(name.as_str()), distribution(row));
    if args.is_empty() {
        return Ok(Reply::Map(measured.iter().map(shown).collect()));
    }
    // A client can name as many commands as it likes, so each is looked up.
    let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, (name, _)) in measured.iter().enumerate() {
        by_name.entry(name).or_default().push(place);
        if let Some((container, _)) = name.split_once('|') {
            by_name.entry(container).or_default().push(place);
        }
    }
    let places = |name: &[u8]| by_name.get(str::from_utf8(&name.to_ascii_lowercase()).ok()?);
    let found = args.rest().iter().filter_map(places).flatten();
    Ok(Reply::Map(found.map(|place| shown(&measured[*place])).collect()))
}

fn distribution(row: &RowTotals) -> Reply<'static> {
    let buckets = row.durations.buckets().into_iter().map(|(micros, count)| (integer(micros), integer(count)));
    Reply::Map(vec![
        (Reply::text("calls"), integer(row.durations.count())),
        (Reply::text("histogram_usec"), Reply::Map(buckets.collect())),
    ])
}

fn integer(value: u64) -> Reply<'static> {
    Reply::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}
