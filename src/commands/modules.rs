//! MODULE. Servers load modules only if their configuration allows that, and this one never does.

use super::connection::modules;
use super::help::help;
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::spec::{Args, Arity, CommandSpec, Flag, Group};

pub(super) const ROWS: &[Command] = &[MODULE];

const REFUSED: CommandError = CommandError::fixed(
    "ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", you can run it from a \
     local connection, otherwise you need to set this option in the configuration file, and then restart the server.",
);
const NOT_LOADED: CommandError = CommandError::fixed("ERR Error loading the extension. Please check the server logs.");
const SINCE: Since = Since::redis(4, 0, 0);
const LOADS: &[Flag] = &[Flag::Admin, Flag::NoScript, Flag::NoAsyncLoading];

const MODULE: Command = Command::container(
    CommandSpec {
        summary: "Everything about modules. None can be loaded here.",
        complexity: "Depends on the subcommand.",
        group: Group::Server,
        since: SINCE,
        arity: Arity::AtLeast(2),
        ..CommandSpec::new("MODULE")
    },
    &[
        Command::new(
            Handler::Connection(|call, _| help(call.table, "MODULE", HELP)),
            CommandSpec {
                since: Since::redis(5, 0, 0),
                arity: Arity::Exactly(2),
                flags: &[Flag::Loading, Flag::Stale],
                ..sub("HELP", "Lists the subcommands.")
            },
        ),
        Command::new(
            Handler::Connection(|_, args| Ok(modules(args.profile()))),
            CommandSpec {
                complexity: "O(N) in the number of modules",
                arity: Arity::Exactly(2),
                flags: &[Flag::Admin, Flag::NoScript],
                tips: &["nondeterministic_output_order"],
                ..sub("LIST", "Lists the modules.")
            },
        ),
        Command::new(
            Handler::Connection(load),
            CommandSpec {
                usage: "path [arg [arg ...]]",
                arity: Arity::AtLeast(3),
                flags: LOADS,
                ..sub("LOAD", "Loads a module, which is refused.")
            },
        ),
        Command::new(
            Handler::Connection(load),
            CommandSpec {
                usage: "path [CONFIG name value [CONFIG name value ...]] [ARGS arg [arg ...]]",
                since: Since::redis(7, 0, 0),
                arity: Arity::AtLeast(3),
                flags: LOADS,
                ..sub("LOADEX", "Loads a module with a configuration, which is refused.")
            },
        ),
        Command::new(
            Handler::Connection(unload),
            CommandSpec {
                usage: "name",
                arity: Arity::Exactly(3),
                flags: LOADS,
                ..sub("UNLOAD", "Unloads a module, which is refused.")
            },
        ),
    ],
);

const fn sub(name: &'static str, summary: &'static str) -> CommandSpec {
    CommandSpec { summary, group: Group::Server, since: SINCE, ..CommandSpec::new(name) }
}

/// Whether the configuration lets this client load modules. Before 7.0, every configuration does.
fn is_allowed(call: &Call<'_>, args: &Args<'_>) -> bool {
    match call.server.config.value("enable-module-command").as_slice() {
        _ if !args.profile().since_redis(7, 0) => true,
        b"yes" => true,
        b"local" => call.session.client.peer().is_local(),
        _ => false,
    }
}

fn load(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    Err(if is_allowed(call, args) { NOT_LOADED } else { REFUSED })
}

fn unload(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let no_such = "ERR Error unloading module: no such module with that name";
    Err(if is_allowed(call, args) { CommandError::fixed(no_such) } else { REFUSED })
}

const HELP: &[&str] = &[
    "MODULE <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "LIST",
    "    Return a list of loaded modules.",
    "LOAD <path> [<arg> ...]",
    "    Load a module library from <path>, passing to it any optional arguments.",
    "LOADEX <path> [[CONFIG NAME VALUE] [CONFIG NAME VALUE]] [ARGS ...]",
    "    Load a module library from <path>, while passing it module configurations and optional arguments.",
    "UNLOAD <name>",
    "    Unload a module.",
    "HELP",
    "    Prints this help.",
];
