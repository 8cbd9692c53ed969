//! EVAL, EVALSHA and SCRIPT. The engine runs scripts; the commands that manage them run here.

use super::help::{help, subcommand_syntax_error};
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::protocol::Reply;
use crate::script::{Interpreters, KillError, Origin, ScriptKind, texts};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec, ScriptCommand as Which, Secrets};

pub(super) const ROWS: &[Command] = &[EVAL, EVALSHA, EVAL_RO, EVALSHA_RO, SCRIPT];

const VALKEY_9: Since = Since::valkey(9, 0, 0);

const NOT_BUSY: CommandError = CommandError::fixed("NOTBUSY No scripts in execution right now.");
const UNKILLABLE: CommandError = CommandError::fixed(
    "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script \
     termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
);
const BAD_FLUSH: CommandError = CommandError::fixed("ERR SCRIPT FLUSH only support SYNC|ASYNC option");
const BAD_DEBUG: CommandError = CommandError::fixed("ERR Use SCRIPT DEBUG YES/SYNC/NO");
const NO_DEBUGGER: CommandError = CommandError::fixed("ERR SCRIPT DEBUG must be called outside a pipeline");

const EVAL: Command = Command::new(
    Handler::Script(Which::Eval { read_only: false }),
    CommandSpec {
        usage: "script numkeys [key [key ...]] [arg [arg ...]]",
        summary: "Runs a Lua script.",
        keys: &[KeySpec::counted(2, 1, 1, &["RW", "access", "update"])
            .with_notes("We cannot tell how the keys will be used so we assume the worst, RW and UPDATE")],
        ..script("EVAL")
    },
);

const EVALSHA: Command = Command::new(
    Handler::Script(Which::EvalSha { read_only: false }),
    CommandSpec {
        usage: "sha1 numkeys [key [key ...]] [arg [arg ...]]",
        summary: "Runs a Lua script that the server knows, by the SHA-1 of its text.",
        ..script("EVALSHA")
    },
);

const EVAL_RO: Command = Command::new(
    Handler::Script(Which::Eval { read_only: true }),
    CommandSpec {
        usage: "script numkeys [key [key ...]] [arg [arg ...]]",
        summary: "Runs a Lua script that must not write.",
        since: Since::redis(7, 0, 0),
        keys: &[KeySpec::counted(2, 1, 1, &["RO", "access"])
            .with_notes("We cannot tell how the keys will be used so we assume the worst, RO and ACCESS")],
        flags: READ_ONLY_FLAGS,
        ..script("EVAL_RO")
    },
);

const EVALSHA_RO: Command = Command::new(
    Handler::Script(Which::EvalSha { read_only: true }),
    CommandSpec {
        usage: "sha1 numkeys [key [key ...]] [arg [arg ...]]",
        summary: "Runs a Lua script that must not write, by the SHA-1 of its text.",
        since: Since::redis(7, 0, 0),
        keys: &[KeySpec::counted(2, 1, 1, &["RO", "access"])],
        flags: READ_ONLY_FLAGS,
        ..script("EVALSHA_RO")
    },
);

const KEYS: &[KeySpec] = &[KeySpec::counted(2, 1, 1, &["RW", "access", "update"])];

const READ_ONLY_FLAGS: &[Flag] =
    &[Flag::ReadOnly, Flag::NoScript, Flag::Stale, Flag::SkipMonitor, Flag::NoMandatoryKeys, Flag::MovableKeys];

const fn script(name: &'static str) -> CommandSpec {
    CommandSpec {
        complexity: "That of the script.",
        group: Group::Scripting,
        since: Since::redis(2, 6, 0),
        arity: Arity::AtLeast(3),
        keys: KEYS,
        flags: &[Flag::NoScript, Flag::Stale, Flag::SkipMonitor, Flag::NoMandatoryKeys, Flag::MovableKeys],
        categories: &[Category::Scripting],
        secrets: Secrets::Script,
        ..CommandSpec::new(name)
    }
}

const SCRIPT: Command = Command::container(
    CommandSpec {
        summary: "Manages the scripts that the server knows.",
        complexity: "Depends on the subcommand.",
        group: Group::Scripting,
        since: Since::redis(2, 6, 0),
        arity: Arity::AtLeast(2),
        ..CommandSpec::new("SCRIPT")
    },
    &[
        Command::new(
            Handler::Library(flush),
            CommandSpec {
                usage: "[ASYNC | SYNC]",
                summary: "Forgets all scripts.",
                complexity: "O(N) in the number of scripts",
                arity: Arity::AtLeast(2),
                flags: &[Flag::NoScript],
                later_flags: &[(VALKEY_9, &[Flag::NoScript, Flag::Stale])],
                tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
                ..sub("FLUSH")
            },
        ),
        Command::new(
            Handler::Connection(|call, _| help(call.table, "SCRIPT", HELP)),
            CommandSpec {
                summary: "Lists the subcommands.",
                since: Since::redis(5, 0, 0),
                arity: Arity::Exactly(2),
                flags: &[Flag::Loading, Flag::Stale],
                ..sub("HELP")
            },
        ),
        Command::new(
            Handler::Connection(debug),
            CommandSpec {
                usage: "<YES | SYNC | NO>",
                later_usages: &[(VALKEY_9, "<YES | SYNC | NO> [engine-name]")],
                summary: "Turns the debugger on or off. There is none, so it cannot be turned on.",
                since: Since::redis(3, 2, 0),
                arity: Arity::Exactly(3),
                later_arities: &[(VALKEY_9, Arity::AtLeast(3))],
                flags: &[Flag::NoScript],
                ..sub("DEBUG")
            },
        ),
        Command::new(
            Handler::Library(exists),
            CommandSpec {
                usage: "sha1 [sha1 ...]",
                summary: "Tells which scripts the server knows.",
                complexity: "O(1) for each script",
                arity: Arity::AtLeast(3),
                flags: &[Flag::NoScript],
                later_flags: &[(VALKEY_9, &[Flag::NoScript, Flag::Stale])],
                tips: &["request_policy:all_shards", "response_policy:agg_logical_and"],
                ..sub("EXISTS")
            },
        ),
        Command::new(
            Handler::Library(load),
            CommandSpec {
                usage: "script",
                summary: "Keeps a script without running it.",
                complexity: "O(N) in the length of the script",
                arity: Arity::Exactly(3),
                flags: &[Flag::NoScript, Flag::Stale],
                tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
                secrets: Secrets::Script,
                ..sub("LOAD")
            },
        ),
        Command::new(
            Handler::Library(show),
            CommandSpec {
                usage: "sha1",
                summary: "Returns the text of a script that the server knows.",
                complexity: "O(1)",
                since: Since::valkey(8, 0, 0),
                arity: Arity::Exactly(3),
                flags: &[Flag::NoScript, Flag::Stale],
                ..sub("SHOW")
            },
        ),
        Command::new(
            Handler::Connection(|call, _| kill(call, ScriptKind::Eval)),
            CommandSpec {
                summary: "Ends the script that runs, unless it has written.",
                arity: Arity::Exactly(2),
                flags: &[Flag::NoScript, Flag::AllowBusy],
                tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
                ..sub("KILL")
            },
        ),
    ],
);

const fn sub(name: &'static str) -> CommandSpec {
    CommandSpec {
        group: Group::Scripting,
        since: Since::redis(2, 6, 0),
        categories: &[Category::Scripting],
        ..CommandSpec::new(name)
    }
}

const HELP: &[&str] = &[
    "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DEBUG (YES|SYNC|NO)",
    "    Set the debug mode for subsequent scripts executed.",
    "EXISTS <sha1> [<sha1> ...]",
    "    Return information about the existence of the scripts in the script cache.",
    "FLUSH [ASYNC|SYNC]",
    "    Flush the Lua scripts cache. Very dangerous on replicas.",
    "    When called without the optional mode argument, the behavior is determined by the",
    "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
    "    * ASYNC: Asynchronously flush the scripts cache.",
    "    * SYNC: Synchronously flush the scripts cache.",
    "KILL",
    "    Kill the currently executing Lua script.",
    "LOAD <script>",
    "    Load a script into the scripts cache without executing it.",
    "SHOW <sha1>",
    "    Show a script from the scripts cache.",
    "HELP",
    "    Prints this help.",
];

fn flush(scripts: &mut Interpreters, _: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let mode = args.optional();
    let known = mode.is_none_or(|mode| mode.eq_ignore_ascii_case(b"SYNC") || mode.eq_ignore_ascii_case(b"ASYNC"));
    if !known || !args.is_empty() {
        return Err(BAD_FLUSH);
    }
    scripts.flush();
    Ok(Reply::OK)
}

fn exists(scripts: &mut Interpreters, _: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let known = |name: &[u8]| scripts.started_eval().is_some_and(|interpreter| interpreter.find(name).is_some());
    Ok(Reply::Array(args.rest().iter().map(|name| Reply::Integer(i64::from(known(name)))).collect()))
}

fn load(scripts: &mut Interpreters, call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let profile = &call.server.profile;
    let script = scripts.eval(profile).load(args.bytes()?, Origin::ScriptLoad)?;
    Ok(Reply::bulk(script.name().to_vec()))
}

fn show(scripts: &mut Interpreters, call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let name = args.bytes()?;
    let source = scripts.started_eval().and_then(|interpreter| interpreter.source(name));
    let source = source.ok_or_else(|| texts::no_script(&call.server.profile))?;
    Ok(Reply::bulk(source.to_vec()))
}

fn debug(_: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let mode = args.bytes()?;
    let engine = if args.left() > 0 { Some(args.bytes()?) } else { None };
    if args.left() > 0 {
        return Err(subcommand_syntax_error(args, "SCRIPT"));
    }
    if let Some(engine) = engine.filter(|engine| !engine.eq_ignore_ascii_case(b"LUA")) {
        return Err(CommandError::new(
            [b"ERR No scripting engine found with name '", engine, b"' to enable debug"].concat(),
        ));
    }
    if mode.eq_ignore_ascii_case(b"NO") {
        return Ok(Reply::OK);
    }
    let known = mode.eq_ignore_ascii_case(b"YES") || mode.eq_ignore_ascii_case(b"SYNC");
    Err(if known { NO_DEBUGGER } else { BAD_DEBUG })
}

/// Kills the running script, if it is of this kind.
pub(super) fn kill(call: &mut Call<'_>, kind: ScriptKind) -> CommandResult<'static> {
    match call.server.scripts.kill(kind) {
        Ok(()) => Ok(Reply::OK),
        Err(KillError::NotRunning) => Err(NOT_BUSY),
        Err(KillError::Wrote) => Err(UNKILLABLE),
        Err(KillError::OtherKind(running)) => Err(texts::busy(&call.server.profile, running)),
    }
}
