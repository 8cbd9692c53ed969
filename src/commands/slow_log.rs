//! SLOWLOG, and COMMANDLOG of Valkey: commands that took long.

use super::help::{help, subcommand_syntax_error};
use super::server::{container, help_row, simple_row};
use crate::base::error::CommandError;
use crate::base::profile::{Profile, Since};
use crate::clients::slow_log::CommandLog;
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::protocol::{Bulks, Reply, parse_integer};
use crate::spec::{Args, Arity, CommandSpec, Flag};

pub(super) const ROWS: &[Command] = &[COMMANDLOG, SLOWLOG];

const SLOW_SINCE: Since = Since::redis(2, 2, 12);

const SLOWLOG: Command = Command::container(
    CommandSpec { summary: "Slow commands.", since: SLOW_SINCE, ..container("SLOWLOG") },
    &[
        Command::new(
            Handler::Connection(slowlog_get),
            CommandSpec {
                usage: "[count]",
                summary: "Lists the slow commands, newest first.",
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
            Handler::Connection(|call, _| Ok(Reply::Integer(call.server.slow_log.len() as i64))),
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
            Handler::Connection(|call, _| {
                call.server.slow_log.clear();
                Ok(Reply::OK)
            }),
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

/// How many entries SLOWLOG GET shows if it is not told.
const SHOWN: usize = 10;

fn slowlog_get(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    if args.left() > 1 {
        return Err(subcommand_syntax_error(args, "SLOWLOG"));
    }
    let most = match args.optional() {
        None => SHOWN,
        Some(word) => count(word, args.profile())?,
    };
    Ok(shown(&call.server.slow_log, most))
}

/// A number of entries; -1 for all.
fn count(word: &[u8], profile: &Profile) -> Result<usize, CommandError> {
    let number = parse_integer(word);
    if !profile.since_redis(7, 0) {
        // Any negative number meant all.
        return Ok(usize::try_from(number.ok_or(CommandError::NOT_AN_INTEGER)?).unwrap_or(usize::MAX));
    }
    match number {
        None | Some(..-1) => Err(CommandError::fixed("ERR count should be greater than or equal to -1")),
        Some(number) => Ok(usize::try_from(number).unwrap_or(usize::MAX)),
    }
}

/// The newest entries of a log.
fn shown(log: &CommandLog, most: usize) -> Reply<'static> {
    let mut written = Bulks::with_capacity(most.min(log.len()));
    log.for_each(most, |logged| {
        if written.are_full() {
            return;
        }
        let words = logged.words.as_words();
        let mut entry = written.add();
        entry.array(6);
        entry.integer(logged.id as i64);
        entry.integer(logged.time);
        entry.integer(logged.value);
        entry.array(words.len());
        words.iter().for_each(|word| entry.bulk(word));
        entry.bulk(logged.address.as_bytes());
        entry.bulk(&logged.name);
    });
    Reply::Bulks(written)
}

// ---- COMMANDLOG

const LOG_SINCE: Since = Since::valkey(8, 1, 0);

const COMMANDLOG: Command = Command::container(
    CommandSpec {
        summary: "Commands that were slow, or had a large request or reply.",
        since: LOG_SINCE,
        ..container("COMMANDLOG")
    },
    &[
        Command::new(
            Handler::Connection(commandlog_get),
            CommandSpec {
                usage: "count <SLOW | LARGE-REQUEST | LARGE-REPLY>",
                summary: "Lists the commands of one log, newest first.",
                complexity: "O(N) where N is the number of entries returned",
                since: LOG_SINCE,
                arity: Arity::Exactly(4),
                flags: SLOW_FLAGS,
                tips: &["request_policy:all_nodes", "nondeterministic_output"],
                ..simple_row("GET")
            },
        ),
        help_row(LOG_SINCE, Handler::Connection(|call, _| help(call.table, "COMMANDLOG", COMMANDLOG_HELP))),
        Command::new(
            Handler::Connection(|call, args| Ok(Reply::Integer(log(call, args)?.len() as i64))),
            CommandSpec {
                usage: "<SLOW | LARGE-REQUEST | LARGE-REPLY>",
                summary: "Counts the commands of one log.",
                since: LOG_SINCE,
                arity: Arity::Exactly(3),
                flags: SLOW_FLAGS,
                tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
                ..simple_row("LEN")
            },
        ),
        Command::new(
            Handler::Connection(|call, args| {
                log(call, args)?.clear();
                Ok(Reply::OK)
            }),
            CommandSpec {
                usage: "<SLOW | LARGE-REQUEST | LARGE-REPLY>",
                summary: "Empties one log.",
                complexity: "O(N) where N is the number of entries",
                since: LOG_SINCE,
                arity: Arity::Exactly(3),
                flags: SLOW_FLAGS,
                tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
                ..simple_row("RESET")
            },
        ),
    ],
);

const COMMANDLOG_HELP: &[&str] = &[
    "COMMANDLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET <count> <type>",
    "    Return top <count> entries of the specified <type> from the commandlog (-1 mean all).",
    "    Entries are made of:",
    "    id, timestamp,",
    "        time in microseconds for type of slow,",
    "        or size in bytes for type of large-request,",
    "        or size in bytes for type of large-reply",
    "    arguments array, client IP and port,",
    "    client name",
    "LEN <type>",
    "    Return the length of the specified type of commandlog.",
    "RESET <type>",
    "    Reset the specified type of commandlog.",
    "HELP",
    "    Prints this help.",
];

/// The log that an argument names.
fn log<'c>(call: &Call<'c>, args: &mut Args<'_>) -> Result<&'c CommandLog, CommandError> {
    let name = args.bytes()?;
    let logs = [
        ("slow", &call.server.slow_log),
        ("large-request", &call.server.large_requests),
        ("large-reply", &call.server.large_replies),
    ];
    let found = logs.into_iter().find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()));
    let unknown = "ERR type should be one of the following: slow, large-request, large-reply";
    found.map(|(_, log)| log).ok_or(CommandError::fixed(unknown))
}

fn commandlog_get(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let most = count(args.bytes()?, args.profile())?;
    Ok(shown(log(call, args)?, most))
}
