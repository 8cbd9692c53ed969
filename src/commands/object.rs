//! OBJECT: how a value is stored.

use super::help::help;
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{Entry, View};
use crate::protocol::Reply;
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, KeySpec};

pub(super) const ROWS: &[Command] = &[OBJECT];

const NO_FREQUENCY: CommandError = CommandError::fixed(
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching \
     between policies at runtime LRU and LFU data will take some time to adjust.",
);

const OBJECT: Command = Command::container(
    CommandSpec {
        summary: "Tells how values are kept.",
        complexity: "Depends on the subcommand.",
        since: Since::redis(2, 2, 3),
        arity: Arity::AtLeast(2),
        ..CommandSpec::new("OBJECT")
    },
    &[
        Command::new(
            Handler::Keys(freq),
            CommandSpec {
                summary: "Tells how often a key is used, as a logarithm.",
                since: Since::redis(4, 0, 0),
                ..on_key("FREQ")
            },
        ),
        Command::new(
            Handler::Keys(encoding),
            CommandSpec { summary: "Tells how a value is encoded in memory.", ..on_key("ENCODING") },
        ),
        Command::new(
            Handler::Keys(idletime),
            CommandSpec { summary: "Tells how many seconds ago a key was last used.", ..on_key("IDLETIME") },
        ),
        Command::new(
            Handler::Connection(|call, _| help(call.table, "OBJECT", HELP)),
            CommandSpec {
                summary: "Lists the subcommands.",
                since: Since::redis(6, 2, 0),
                arity: Arity::Exactly(2),
                flags: &[Flag::Loading, Flag::Stale],
                categories: &[Category::Keyspace],
                ..CommandSpec::new("HELP")
            },
        ),
        Command::new(
            Handler::Keys(refcount),
            CommandSpec { summary: "Tells how many references there are to a value.", ..on_key("REFCOUNT") },
        ),
    ],
);

const KEY: &[KeySpec] = &[KeySpec::one(2, &["RO"])];

const fn on_key(name: &'static str) -> CommandSpec {
    CommandSpec {
        usage: "key",
        since: Since::redis(2, 2, 3),
        arity: Arity::Exactly(3),
        keys: KEY,
        flags: &[Flag::ReadOnly],
        categories: &[Category::Keyspace],
        tips: &["nondeterministic_output"],
        ..CommandSpec::new(name)
    }
}

fn inspect<'v>(
    view: &'v mut View<'_>,
    args: &mut Args<'v>,
    tell: impl FnOnce(&Entry) -> Reply<'v>,
) -> CommandResult<'v> {
    Ok(view.read_without_touch_or_event(args.key()?).map_or(Reply::Null, tell))
}

fn encoding<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let profile = *args.profile();
    inspect(view, args, |entry| Reply::bulk(entry.encoding(&profile).as_bytes()))
}

fn refcount<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    inspect(view, args, |entry| Reply::Integer(entry.references()))
}

fn idletime<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    // Counts as a keyspace hit or miss.
    view.read_without_touch_or_event(key);
    let now = view.access_time();
    // The clock may have been moved back since the last access.
    let idle = view.last_used(key).map(|used| Reply::Integer(i64::from(now.saturating_sub(used))));
    Ok(idle.unwrap_or(Reply::Null))
}

fn freq<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    match view.read_without_touch_or_event(args.key()?) {
        None => Ok(Reply::Null),
        Some(_) => Err(NO_FREQUENCY),
    }
}

const HELP: &[&str] = &[
    "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ENCODING <key>",
    "    Return the kind of internal representation used in order to store the value",
    "    associated with a <key>.",
    "FREQ <key>",
    "    Return the access frequency index of the <key>. The returned integer is",
    "    proportional to the logarithm of the recent access frequency of the key.",
    "IDLETIME <key>",
    "    Return the idle time of the <key>, that is the approximated number of",
    "    seconds elapsed since the last access to the key.",
    "REFCOUNT <key>",
    "    Return the number of references of the value associated with the specified",
    "    <key>.",
    "HELP",
    "    Prints this help.",
];
