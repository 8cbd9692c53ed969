//! DEBUG, as far as tests of clients and servers use it. Needs `enable-debug-command`.

mod digest;
mod populate;
mod protocol;
mod reload;
mod switches;
mod values;

use std::ops::RangeInclusive;
use std::time::Duration;

use super::help::subcommand_syntax_error;
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::data::keyspace::View;
use crate::protocol::{Reply, is_blank};
use crate::script::Interpreters;
use crate::spec::{Args, Arity, CommandSpec, Flag, Group};

pub(super) const ROWS: &[Command] = &[DEBUG];

const DEBUG: Command = Command::new(
    Handler::Debug(debug),
    CommandSpec {
        usage: "subcommand [arg [arg ...]]",
        summary: "Looks behind the scenes, for tests; only with enable-debug-command.",
        complexity: "Depends on the subcommand.",
        group: Group::Server,
        arity: Arity::AtLeast(2),
        flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
        for_clients: true,
        for_server_tests: true,
        ..CommandSpec::new("DEBUG")
    },
);

/// What a subcommand receives beside its arguments. Its view is of everything.
struct Context<'c, 'k, 's> {
    view: &'c mut View<'k>,
    /// `None` inside a script, which holds them.
    interpreters: Option<&'c mut Interpreters>,
    call: &'c mut Call<'s>,
}

struct Subcommand {
    name: &'static str,
    since: Since,
    /// How many arguments it takes.
    arguments: RangeInclusive<usize>,
    run: fn(&mut Context<'_, '_, '_>, &mut Args<'_>) -> CommandResult<'static>,
    /// The lines of HELP.
    help: &'static [&'static str],
}

const ALWAYS: Since = Since::redis(1, 0, 0);
const SEVEN: Since = Since::redis(7, 0, 0);
const ANY: usize = usize::MAX;

/// In the order of HELP.
const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand {
        name: "ASSERT",
        since: ALWAYS,
        arguments: 0..=ANY,
        run: refuse_to_end,
        help: &["ASSERT", "    Crash by assertion failed. Refused here."],
    },
    Subcommand {
        name: "CHANGE-REPL-ID",
        since: ALWAYS,
        arguments: 0..=0,
        run: change_replication_id,
        help: &[
            "CHANGE-REPL-ID",
            "    Change the replication IDs of the instance.",
            "    Dangerous: should be used only for testing the replication subsystem.",
        ],
    },
    Subcommand {
        name: "CRASH-AND-RECOVER",
        since: ALWAYS,
        arguments: 0..=ANY,
        run: refuse_to_end,
        help: &[
            "CRASH-AND-RECOVER [<milliseconds>]",
            "    Hard crash and restart after a <milliseconds> delay (default 0). Refused here.",
        ],
    },
    Subcommand {
        name: "DIGEST",
        since: ALWAYS,
        arguments: 0..=0,
        run: digest::all,
        help: &["DIGEST", "    Output a hex signature representing the current DB content."],
    },
    Subcommand {
        name: "DIGEST-VALUE",
        since: ALWAYS,
        arguments: 0..=ANY,
        run: digest::of_keys,
        help: &[
            "DIGEST-VALUE <key> [<key> ...]",
            "    Output a hex signature of the values of all the specified keys.",
        ],
    },
    Subcommand {
        name: "ERROR",
        since: ALWAYS,
        arguments: 1..=1,
        run: error,
        help: &[
            "ERROR <string>",
            "    Return a Redis protocol error with <string> as message. Useful for clients",
            "    unit tests to simulate Redis errors.",
        ],
    },
    Subcommand {
        name: "HTSTATS",
        since: ALWAYS,
        arguments: 1..=2,
        run: values::table_of_database,
        help: &["HTSTATS <dbid> [full]", "    Return hash table statistics of the specified Redis database."],
    },
    Subcommand {
        name: "HTSTATS-KEY",
        since: ALWAYS,
        arguments: 1..=2,
        run: values::table_of_key,
        help: &["HTSTATS-KEY <key> [full]", "    Like HTSTATS but for the hash table stored at <key>'s value."],
    },
    Subcommand {
        name: "LISTPACK",
        since: SEVEN,
        arguments: 1..=1,
        run: values::listpack,
        help: &["LISTPACK <key>", "    Show low level info about the listpack encoding of <key>."],
    },
    Subcommand {
        name: "LOADAOF",
        since: ALWAYS,
        arguments: 0..=ANY,
        run: reload::load_aof,
        help: &["LOADAOF", "    Reload all data, as from an append-only file, which is in memory."],
    },
    Subcommand {
        name: "LOG",
        since: ALWAYS,
        arguments: 1..=1,
        run: log,
        help: &["LOG <message>", "    Write <message> to the server log."],
    },
    Subcommand {
        name: "OBJECT",
        since: ALWAYS,
        arguments: 1..=1,
        run: values::object,
        help: &["OBJECT <key>", "    Show low level info about `key` and associated value."],
    },
    Subcommand {
        name: "OOM",
        since: ALWAYS,
        arguments: 0..=ANY,
        run: refuse_to_end,
        help: &["OOM", "    Crash the server simulating an out-of-memory error. Refused here."],
    },
    Subcommand {
        name: "PANIC",
        since: ALWAYS,
        arguments: 0..=ANY,
        run: refuse_to_end,
        help: &["PANIC", "    Crash the server simulating a panic. Refused here."],
    },
    Subcommand {
        name: "PAUSE-CRON",
        since: SEVEN,
        arguments: 1..=1,
        run: switches::pause_cron,
        help: &["PAUSE-CRON <0|1>", "    Stop periodic cron job processing."],
    },
    Subcommand {
        name: "POPULATE",
        since: ALWAYS,
        arguments: 1..=3,
        run: populate::populate,
        help: &[
            "POPULATE <count> [<prefix>] [<size>]",
            "    Create <count> string keys named key:<num>. If <prefix> is specified then",
            "    it is used instead of the 'key' prefix.",
        ],
    },
    Subcommand {
        name: "PROTOCOL",
        since: ALWAYS,
        arguments: 1..=1,
        run: protocol::protocol,
        help: &[
            "PROTOCOL <type>",
            "    Reply with a test value of the specified type. <type> can be: string,",
            "    integer, double, bignum, null, array, set, map, attrib, push, verbatim,",
            "    true, false.",
        ],
    },
    Subcommand {
        name: "QUICKLIST",
        since: SEVEN,
        arguments: 1..=2,
        run: values::quicklist,
        help: &[
            "QUICKLIST <key> [<0|1>]",
            "    Show low level info about the quicklist encoding of <key>.",
            "    The optional argument (0 by default) sets the level of detail",
        ],
    },
    Subcommand {
        name: "QUICKLIST-PACKED-THRESHOLD",
        since: SEVEN,
        arguments: 1..=1,
        run: switches::packed_threshold,
        help: &[
            "QUICKLIST-PACKED-THRESHOLD <size>",
            "    Sets the threshold for elements to be inserted as plain vs packed nodes",
            "    Default value is 1GB, allows values up to 4GB. Setting to 0 restores to default.",
        ],
    },
    Subcommand {
        name: "RELOAD",
        since: ALWAYS,
        arguments: 0..=ANY,
        run: reload::reload,
        help: &[
            "RELOAD [option ...]",
            "    Save all data and load them back, as from an RDB file. Valid <option> values:",
            "    * MERGE: conflicting keys will be loaded from RDB.",
            "    * NOFLUSH: the existing database will not be removed before load, but",
            "      conflicting keys are an error.",
            "    * NOSAVE: the database will be loaded from what was saved last.",
        ],
    },
    Subcommand {
        name: "RESTART",
        since: ALWAYS,
        arguments: 0..=ANY,
        run: refuse_to_end,
        help: &[
            "RESTART [<milliseconds>]",
            "    Graceful restart: save config, db, restart after a <milliseconds> delay (default 0). Refused here.",
        ],
    },
    Subcommand {
        name: "SDSLEN",
        since: ALWAYS,
        arguments: 1..=1,
        run: values::string_length,
        help: &["SDSLEN <key>", "    Show low level SDS string info representing `key` and value."],
    },
    Subcommand {
        name: "SEGFAULT",
        since: ALWAYS,
        arguments: 0..=ANY,
        run: refuse_to_end,
        help: &["SEGFAULT", "    Crash the server with sigsegv. Refused here."],
    },
    Subcommand {
        name: "SET-ACTIVE-EXPIRE",
        since: ALWAYS,
        arguments: 1..=1,
        run: switches::set_active_expire,
        help: &[
            "SET-ACTIVE-EXPIRE <0|1>",
            "    Setting it to 0 disables expiring keys in background when they are not",
            "    accessed (otherwise the Redis behavior). Setting it to 1 reenables back the",
            "    default.",
        ],
    },
    Subcommand {
        name: "SET-DISABLE-DENY-SCRIPTS",
        since: SEVEN,
        arguments: 1..=1,
        run: switches::set_disable_deny_scripts,
        help: &[
            "SET-DISABLE-DENY-SCRIPTS <0|1>",
            "    Setting it to 1 lets scripts call commands that scripts must not call.",
        ],
    },
    Subcommand {
        name: "SET-SKIP-CHECKSUM-VALIDATION",
        since: Since::redis(6, 2, 0),
        arguments: 1..=1,
        run: switches::set_skip_checksum_validation,
        help: &[
            "SET-SKIP-CHECKSUM-VALIDATION <0|1>",
            "    Enables or disables checksum checks for RDB files and RESTORE's payload.",
        ],
    },
    Subcommand {
        name: "SLEEP",
        since: ALWAYS,
        arguments: 1..=1,
        run: sleep,
        help: &["SLEEP <seconds>", "    Stop the server for <seconds>. Decimals allowed."],
    },
    Subcommand { name: "HELP", since: ALWAYS, arguments: 0..=0, run: help, help: &["HELP", "    Prints this help."] },
];

fn debug<'v>(
    view: &'v mut View<'_>,
    interpreters: Option<&mut Interpreters>,
    call: &mut Call<'_>,
    args: &mut Args<'v>,
) -> CommandResult<'static> {
    let name = args.bytes()?;
    let subcommand = SUBCOMMANDS.iter().find(|subcommand| {
        subcommand.name.as_bytes().eq_ignore_ascii_case(name)
            && subcommand.arguments.contains(&args.left())
            && args.profile().has(subcommand.since)
    });
    match subcommand {
        Some(subcommand) => (subcommand.run)(&mut Context { view, interpreters, call }, args),
        None => Err(subcommand_syntax_error(args, "DEBUG")),
    }
}

fn help(_: &mut Context<'_, '_, '_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let there = SUBCOMMANDS.iter().filter(|subcommand| args.profile().has(subcommand.since));
    let lines = there.flat_map(|subcommand| subcommand.help).map(|line| Reply::Status(line));
    let title = Reply::Status("DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    Ok(Reply::Array(std::iter::once(title).chain(lines).collect()))
}

fn change_replication_id(context: &mut Context<'_, '_, '_>, _: &mut Args<'_>) -> CommandResult<'static> {
    context.call.server.identity.change_replication_id();
    Ok(Reply::OK)
}

/// Not counted in the error statistics, because the caller asked for it.
fn error(_: &mut Context<'_, '_, '_>, args: &mut Args<'_>) -> CommandResult<'static> {
    Ok(Reply::Error(CommandError::new(args.bytes()?)))
}

fn log(context: &mut Context<'_, '_, '_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let message = args.bytes()?;
    context.call.server.log.warn(format!("DEBUG LOG: {}", message.escape_ascii()));
    Ok(Reply::OK)
}

fn refuse_to_end(_: &mut Context<'_, '_, '_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let name = String::from_utf8_lossy(args.words().get(1).unwrap_or_default()).to_ascii_uppercase();
    Err(CommandError::new(format!("ERR DEBUG {name} is refused: it would end the server with all of its tests")))
}

fn sleep(context: &mut Context<'_, '_, '_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let seconds = leading_number(args.bytes()?).max(0.0);
    context.call.server.debug_sleep(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO));
    Ok(Reply::OK)
}

/// Whether a text begins with a number other than 0, as C's `atoi` reads it.
fn is_on(text: &[u8]) -> bool {
    leading_number(text).trunc() != 0.0
}

/// The number that a text begins with, as `strtod` reads it, or 0. Only as many bytes are read as a number of seconds
/// may need.
fn leading_number(text: &[u8]) -> f64 {
    const MOST: usize = 64;
    let blanks = text.iter().take_while(|&&byte| is_blank(byte)).count();
    let text = &text[blanks..];
    let text = String::from_utf8_lossy(&text[..text.len().min(MOST)]);
    let digits = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    let longest = text.find(|c| !digits(c)).unwrap_or(text.len());
    (1..=longest).rev().find_map(|end| text[..end].parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_ends_where_it_no_longer_reads_as_one() {
        for (text, number) in [("1.5s", 1.5), (" \x0b2", 2.0), ("1e2e", 100.0), ("-", 0.0), ("x1", 0.0), ("", 0.0)] {
            assert_eq!(leading_number(text.as_bytes()), number, "{text:?}");
        }
        // Trying every prefix of this would take minutes.
        assert_eq!(leading_number(&vec![b'+'; 1 << 20]), 0.0);
    }
}
