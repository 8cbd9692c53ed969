//! COMMAND: all replies are generated from the rows.

use super::help::help;
use crate::base::error::CommandError;
use crate::base::glob;
use crate::base::profile::{Profile, Since};
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::protocol::{Reply, Words};
use crate::spec::{
    Args, Arity, Category, CommandSpec, Flag, Group, KeySpec, Secrets, command_docs, command_info, full_name,
};

pub(super) const ROWS: &[Command] = &[COMMAND];

const INVALID_COMMAND: CommandError = CommandError::fixed("ERR Invalid command specified");
const NO_KEYS: CommandError = CommandError::fixed("ERR The command has no key arguments");
const INVALID_COUNT: CommandError = CommandError::fixed("ERR Invalid number of arguments specified for command");
const INVALID_ARGUMENTS: CommandError = CommandError::fixed("ERR Invalid arguments specified for command");

const UNORDERED: &[&str] = &["nondeterministic_output_order"];
const PER_LOOK_UP: &str = "O(N) where N is the number of commands asked about";
const PER_ARGUMENT: &str = "O(N) where N is the number of arguments of the command";

const COMMAND: Command = Command::new(
    Handler::Connection(all),
    CommandSpec {
        summary: "Describes all commands.",
        complexity: "O(N) where N is the number of commands",
        tips: UNORDERED,
        arity: Arity::AtLeast(1),
        ..sub("COMMAND")
    },
)
.with_subcommands(&[
    Command::new(
        Handler::Connection(count),
        CommandSpec { summary: "Counts the commands.", arity: Arity::Exactly(2), ..sub("COUNT") },
    ),
    Command::new(
        Handler::Connection(docs),
        CommandSpec {
            usage: "[command-name [command-name ...]]",
            summary: "Documents some commands, or all of them.",
            complexity: PER_LOOK_UP,
            since: Since::redis(7, 0, 0),
            tips: UNORDERED,
            ..sub("DOCS")
        },
    ),
    Command::new(
        Handler::Connection(getkeys),
        CommandSpec {
            usage: "command [arg [arg ...]]",
            summary: "Picks the keys out of a command.",
            complexity: PER_ARGUMENT,
            arity: Arity::AtLeast(4),
            secrets: Secrets::Request { at: 2 },
            later_arities: NAME_ALONE,
            ..sub("GETKEYS")
        },
    ),
    Command::new(
        Handler::Connection(getkeysandflags),
        CommandSpec {
            usage: "command [arg [arg ...]]",
            summary: "Picks the keys out of a command and says how it uses them.",
            complexity: PER_ARGUMENT,
            since: Since::redis(7, 0, 0),
            arity: Arity::AtLeast(4),
            secrets: Secrets::Request { at: 2 },
            later_arities: NAME_ALONE,
            ..sub("GETKEYSANDFLAGS")
        },
    ),
    Command::new(
        Handler::Connection(|call, _| help(call.table, "COMMAND", HELP)),
        CommandSpec {
            summary: "Says which subcommands there are.",
            since: Since::redis(5, 0, 0),
            arity: Arity::Exactly(2),
            ..sub("HELP")
        },
    ),
    Command::new(
        Handler::Connection(info),
        CommandSpec {
            usage: "[command-name [command-name ...]]",
            summary: "Describes some commands, or all of them.",
            complexity: PER_LOOK_UP,
            tips: UNORDERED,
            ..sub("INFO")
        },
    ),
    Command::new(
        Handler::Connection(list),
        CommandSpec {
            usage: "[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]",
            summary: "Lists the names of commands.",
            complexity: "O(N) where N is the number of commands",
            since: Since::redis(7, 0, 0),
            tips: UNORDERED,
            ..sub("LIST")
        },
    ),
]);

/// Since 7.2 a command without arguments is looked up, too.
const NAME_ALONE: &[(Since, Arity)] = &[(Since::redis(7, 2, 0), Arity::AtLeast(3))];

const HELP: &[&str] = &[
    "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "(no subcommand)",
    "    Return details about all Redis commands.",
    "COUNT",
    "    Return the total number of commands in this Redis server.",
    "LIST",
    "    Return a list of all commands in this Redis server.",
    "INFO [<command-name> ...]",
    "    Return details about multiple Redis commands.",
    "    If no command names are given, documentation details for all",
    "    commands are returned.",
    "DOCS [<command-name> ...]",
    "    Return documentation details about multiple Redis commands.",
    "    If no command names are given, documentation details for all",
    "    commands are returned.",
    "GETKEYS <full-command>",
    "    Return the keys from a full Redis command.",
    "GETKEYSANDFLAGS <full-command>",
    "    Return the keys and the access flags from a full Redis command.",
    "HELP",
    "    Prints this help.",
];

const fn sub(name: &'static str) -> CommandSpec {
    CommandSpec {
        group: Group::Server,
        since: Since::redis(2, 8, 13),
        arity: Arity::AtLeast(2),
        flags: &[Flag::Loading, Flag::Stale],
        categories: &[Category::Connection],
        ..CommandSpec::new(name)
    }
}

fn all(call: &mut Call<'_>, _: &mut Args<'_>) -> CommandResult<'static> {
    Ok(Reply::Array(call.table.named_rows().map(|row| command_info(call.table, None, row)).collect()))
}

fn count(call: &mut Call<'_>, _: &mut Args<'_>) -> CommandResult<'static> {
    Ok(Reply::Integer(call.table.named_rows().count() as i64))
}

fn info(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    if args.is_empty() && args.profile().since_redis(7, 0) {
        return all(call, args);
    }
    let command_info = |name| match call.table.find_full(name) {
        Some((container, row)) => command_info(call.table, container, row),
        None => Reply::Null,
    };
    Ok(Reply::Array(args.rest().iter().map(command_info).collect()))
}

fn docs(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let table = call.table;
    if args.is_empty() {
        return Ok(Reply::Map(table.named_rows().map(|row| command_docs(table, None, row)).collect()));
    }
    let found = args.rest().iter().filter_map(|name| table.find_full(name));
    let named: Vec<_> = found
        .map(|(container, row)| ((container.map(|container| container.name), row.name), (container, row)))
        .collect();
    Ok(Reply::encoded_map(call.session.protocol, &named, |(container, row)| command_docs(table, *container, row)))
}

/// The option FILTERBY of COMMAND LIST.
enum Filter<'a> {
    Everything,
    /// Matches nothing: no command comes from a module.
    Module,
    Category(&'a [u8]),
    Pattern(&'a [u8]),
}

impl Filter<'_> {
    fn admits(&self, name: &str, row: &CommandSpec, profile: &Profile) -> bool {
        match self {
            Self::Everything => true,
            Self::Module => false,
            Self::Category(name) => {
                let mut categories = row.all_categories(profile).into_iter();
                categories.any(|category| category.name().as_bytes().eq_ignore_ascii_case(name))
            }
            Self::Pattern(pattern) => glob::matches(pattern, name.as_bytes(), true),
        }
    }
}

fn list(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let filter = match args.left() {
        0 => Filter::Everything,
        3 if args.take("FILTERBY") => {
            if args.take("MODULE") {
                Filter::Module
            } else if args.take("ACLCAT") {
                Filter::Category(args.bytes()?)
            } else if args.take("PATTERN") {
                Filter::Pattern(args.bytes()?)
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        _ => return Err(CommandError::SYNTAX),
    };
    let mut names = Vec::new();
    let mut add = |name: String, row: &CommandSpec| {
        if filter.admits(&name, row, call.table.profile()) {
            names.push(Reply::text(name));
        }
    };
    for row in call.table.named_rows() {
        add(row.name.to_ascii_lowercase(), row);
        for subcommand in call.table.subs(row) {
            add(full_name(row, subcommand), subcommand);
        }
    }
    Ok(Reply::Array(names))
}

fn getkeys(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let words = args.rest();
    let keys = keys_of(call, words)?;
    Ok(Reply::Array(keys.into_iter().map(|(key, _)| Reply::bulk(key.to_vec())).collect()))
}

fn getkeysandflags(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let words = args.rest();
    let pair = |(key, keys): (&[u8], &KeySpec)| {
        let flags = keys.flags_of(words, call.table.profile()).into_iter().map(Reply::Status).collect();
        Reply::Array(vec![Reply::bulk(key.to_vec()), Reply::Set(flags)])
    };
    Ok(Reply::Array(keys_of(call, words)?.into_iter().map(pair).collect()))
}

/// The keys of a request that is not run (COMMAND GETKEYS).
fn keys_of<'a>(call: &Call<'_>, words: Words<'a>) -> Result<Vec<(&'a [u8], &'static KeySpec)>, CommandError> {
    let (table, known) = (call.table, call.server.acl.commands());
    let row = table.row_of(words).map(|row| row.spec);
    let row = row.or_else(|| Some(known.absent_row(words)?.0)).ok_or(INVALID_COMMAND)?;
    if !row.keys.iter().any(KeySpec::are_keys) {
        return Err(NO_KEYS);
    }
    if !row.arity_in(table.profile()).admits(words.len()) {
        return Err(INVALID_COUNT);
    }
    let mut found = Vec::new();
    for keys in row.keys {
        let positions = match keys.positions(words) {
            Some(positions) => positions,
            None if row.has_flag(Flag::NoMandatoryKeys) => return Ok(Vec::new()),
            None => return Err(INVALID_ARGUMENTS),
        };
        found.extend(positions.into_iter().filter_map(|at| Some((words.get(at)?, keys))));
    }
    if found.is_empty() && !row.has_flag(Flag::NoMandatoryKeys) {
        return Err(INVALID_ARGUMENTS);
    }
    Ok(found)
}
