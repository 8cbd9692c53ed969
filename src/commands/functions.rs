//! FUNCTION, FCALL and FCALL_RO. The engine runs FCALL; the commands that manage libraries run here.

use super::help::{help, subcommand_syntax_error};
use super::scripting::kill;
use crate::base::error::CommandError;
use crate::base::glob;
use crate::base::profile::Since;
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::data::rdb::{self, LibraryError};
use crate::protocol::Reply;
use crate::script::{Function, Interpreters, Library, RestorePolicy, ScriptKind, texts};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec, ScriptCommand as Which, Secrets};

pub(super) const ROWS: &[Command] = &[FCALL, FCALL_RO, FUNCTION];

const NO_LIBRARY: CommandError = CommandError::fixed("ERR Library not found");
const NO_PATTERN: CommandError = CommandError::fixed("ERR library name argument was not given");
const BAD_FLUSH: CommandError = CommandError::fixed("ERR FUNCTION FLUSH only supports SYNC|ASYNC option");
const BAD_POLICY: CommandError =
    CommandError::fixed("ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.");
const BAD_FOOTER: CommandError = CommandError::fixed("ERR DUMP payload version or checksum are wrong");

const FCALL: Command = Command::new(
    Handler::Script(Which::Function { read_only: false }),
    CommandSpec {
        summary: "Calls a function.",
        keys: &[KeySpec::counted(2, 1, 1, &["RW", "access", "update"])
            .with_notes("We cannot tell how the keys will be used so we assume the worst, RW and UPDATE")],
        flags: &[Flag::NoScript, Flag::Stale, Flag::SkipMonitor, Flag::NoMandatoryKeys, Flag::MovableKeys],
        ..call("FCALL")
    },
);

const FCALL_RO: Command = Command::new(
    Handler::Script(Which::Function { read_only: true }),
    CommandSpec {
        summary: "Calls a function that must not write.",
        keys: &[KeySpec::counted(2, 1, 1, &["RO", "access"])
            .with_notes("We cannot tell how the keys will be used so we assume the worst, RO and ACCESS")],
        flags: &[
            Flag::ReadOnly,
            Flag::NoScript,
            Flag::Stale,
            Flag::SkipMonitor,
            Flag::NoMandatoryKeys,
            Flag::MovableKeys,
        ],
        ..call("FCALL_RO")
    },
);

const fn call(name: &'static str) -> CommandSpec {
    CommandSpec {
        usage: "function numkeys [key [key ...]] [arg [arg ...]]",
        complexity: "That of the function.",
        arity: Arity::AtLeast(3),
        ..row(name)
    }
}

const fn row(name: &'static str) -> CommandSpec {
    CommandSpec {
        group: Group::Scripting,
        since: Since::redis(7, 0, 0),
        categories: &[Category::Scripting],
        ..CommandSpec::new(name)
    }
}

const FUNCTION: Command = Command::container(
    CommandSpec {
        summary: "Manages the libraries of functions.",
        complexity: "Depends on the subcommand.",
        group: Group::Scripting,
        since: Since::redis(7, 0, 0),
        arity: Arity::AtLeast(2),
        ..CommandSpec::new("FUNCTION")
    },
    &[
        Command::new(
            Handler::Library(delete),
            CommandSpec {
                usage: "library-name",
                summary: "Deletes a library and its functions.",
                arity: Arity::Exactly(3),
                flags: &[Flag::Write, Flag::NoScript],
                tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
                ..row("DELETE")
            },
        ),
        Command::new(
            Handler::Library(dump),
            CommandSpec {
                summary: "Returns all libraries as FUNCTION RESTORE takes them.",
                complexity: "O(N) in the number of functions",
                arity: Arity::Exactly(2),
                flags: &[Flag::NoScript],
                ..row("DUMP")
            },
        ),
        Command::new(
            Handler::Library(restore),
            CommandSpec {
                usage: "serialized-value [FLUSH | APPEND | REPLACE]",
                summary: "Loads all libraries of a dump, or none of them.",
                complexity: "O(N) in the number of functions in the dump",
                arity: Arity::AtLeast(3),
                flags: &[Flag::Write, Flag::DenyOom, Flag::NoScript],
                tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
                ..row("RESTORE")
            },
        ),
        Command::new(
            Handler::Connection(|call, _| help(call.table, "FUNCTION", HELP)),
            CommandSpec {
                summary: "Lists the subcommands.",
                arity: Arity::Exactly(2),
                flags: &[Flag::Loading, Flag::Stale],
                ..row("HELP")
            },
        ),
        Command::new(
            Handler::Library(load),
            CommandSpec {
                usage: "[REPLACE] function-code",
                summary: "Loads a library.",
                complexity: "O(1), apart from what the code does when it is loaded",
                arity: Arity::AtLeast(3),
                flags: &[Flag::Write, Flag::DenyOom, Flag::NoScript],
                tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
                secrets: Secrets::Script,
                ..row("LOAD")
            },
        ),
        Command::new(
            Handler::Library(flush),
            CommandSpec {
                usage: "[ASYNC | SYNC]",
                summary: "Deletes all libraries.",
                complexity: "O(N) in the number of functions",
                arity: Arity::AtLeast(2),
                flags: &[Flag::Write, Flag::NoScript],
                tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
                ..row("FLUSH")
            },
        ),
        Command::new(
            Handler::Connection(|call, _| kill(call, ScriptKind::Function)),
            CommandSpec {
                summary: "Ends the function that runs, unless it has written.",
                arity: Arity::Exactly(2),
                flags: &[Flag::NoScript, Flag::AllowBusy],
                tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
                ..row("KILL")
            },
        ),
        Command::new(
            Handler::Library(list),
            CommandSpec {
                usage: "[LIBRARYNAME library-name-pattern] [WITHCODE]",
                summary: "Lists the libraries and their functions.",
                complexity: "O(N) in the number of functions",
                arity: Arity::AtLeast(2),
                flags: &[Flag::NoScript],
                tips: &["nondeterministic_output_order"],
                ..row("LIST")
            },
        ),
        Command::new(
            Handler::Connection(stats),
            CommandSpec {
                summary: "Tells which function runs, and how many there are.",
                arity: Arity::Exactly(2),
                flags: &[Flag::NoScript, Flag::AllowBusy],
                tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
                ..row("STATS")
            },
        ),
    ],
);

const HELP: &[&str] = &[
    "FUNCTION <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "LOAD [REPLACE] <FUNCTION CODE>",
    "    Create a new library with the given library name and code.",
    "DELETE <LIBRARY NAME>",
    "    Delete the given library.",
    "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
    "    Return general information on all the libraries:",
    "    * Library name",
    "    * The engine used to run the Library",
    "    * Library description",
    "    * Functions list",
    "    * Library code (if WITHCODE is given)",
    "    It also possible to get only function that matches a pattern using LIBRARYNAME argument.",
    "STATS",
    "    Return information about the current function running:",
    "    * Function name",
    "    * Command used to run the function",
    "    * Duration in MS that the function is running",
    "    If no function is running, return nil",
    "    In addition, returns a list of available engines.",
    "KILL",
    "    Kill the current running function.",
    "FLUSH [ASYNC|SYNC]",
    "    Delete all the libraries.",
    "    When called without the optional mode argument, the behavior is determined by the",
    "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
    "    * ASYNC: Asynchronously flush the libraries.",
    "    * SYNC: Synchronously flush the libraries.",
    "DUMP",
    "    Return a serialized payload representing the current libraries, can be restored using FUNCTION RESTORE command",
    "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
    "    Restore the libraries represented by the given payload, it is possible to give a restore policy to",
    "    control how to handle existing libraries (default APPEND):",
    "    * FLUSH: delete all existing libraries.",
    "    * APPEND: appends the restored libraries to the existing libraries. On collision, abort.",
    "    * REPLACE: appends the restored libraries to the existing libraries, On collision, replace the old",
    "      libraries with the new libraries (notice that even on this option there is a chance of failure",
    "      in case of functions name collision with another library).",
    "HELP",
    "    Prints this help.",
];

fn allow_at_most(count: usize, args: &Args<'_>) -> Result<(), CommandError> {
    if args.left() <= count { Ok(()) } else { Err(subcommand_syntax_error(args, "FUNCTION")) }
}

fn load(scripts: &mut Interpreters, call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let mut replace = false;
    while args.left() > 1 {
        if !args.take("REPLACE") {
            return Err(CommandError::quoting("ERR Unknown option given: ", args.bytes()?, ""));
        }
        replace = true;
    }
    let (log, profile) = (&call.server.log, &call.server.profile);
    let name = scripts.functions(profile).load(args.bytes()?, replace, log, profile)?;
    call.session.view_stats.changes += 1;
    Ok(Reply::bulk(name))
}

fn delete(scripts: &mut Interpreters, call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let name = args.bytes()?;
    if !scripts.started_functions_mut().is_some_and(|libraries| libraries.delete(name)) {
        return Err(NO_LIBRARY);
    }
    call.session.view_stats.changes += 1;
    Ok(Reply::OK)
}

fn flush(scripts: &mut Interpreters, call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    allow_at_most(1, args)?;
    if !args.is_empty() && !args.take("SYNC") && !args.take("ASYNC") {
        return Err(BAD_FLUSH);
    }
    scripts.flush_libraries();
    call.session.view_stats.changes += 1;
    Ok(Reply::OK)
}

fn dump(scripts: &mut Interpreters, _: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let sources = scripts.started_functions().into_iter().flat_map(|libraries| libraries.libraries());
    Ok(Reply::bulk(rdb::dump_libraries(sources.map(|library| library.source.as_slice()), args.profile())))
}

fn restore(scripts: &mut Interpreters, call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    allow_at_most(2, args)?;
    let payload = args.bytes()?;
    let conflict = match () {
        () if args.is_empty() || args.take("APPEND") => RestorePolicy::Append,
        () if args.take("REPLACE") => RestorePolicy::Replace,
        () if args.take("FLUSH") => RestorePolicy::Flush,
        () => return Err(BAD_POLICY),
    };
    let (log, profile) = (&call.server.log, &call.server.profile);
    let checksums = call.server.keyspace.settings().checksums();
    let sources = rdb::load_libraries(payload, profile, checksums).map_err(|_| BAD_FOOTER)?;
    let sources = sources.map(|source| {
        source.map_err(|problem| match problem {
            LibraryError::Early => CommandError::fixed("ERR Pre-GA function format not supported"),
            LibraryError::Foreign => CommandError::fixed("ERR given type is not a function"),
            LibraryError::Broken => CommandError::fixed("ERR Failed loading library payload"),
        })
    });
    scripts.functions(profile).restore(sources, conflict, log, profile)?;
    call.session.view_stats.changes += 1;
    Ok(Reply::OK)
}

fn list(scripts: &mut Interpreters, _: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let (mut pattern, mut with_code) = (None, false);
    while !args.is_empty() {
        if !with_code && args.take("WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && args.take("LIBRARYNAME") {
            pattern = Some(args.optional().ok_or(NO_PATTERN)?);
        } else {
            return Err(CommandError::quoting("ERR Unknown argument ", args.bytes()?, ""));
        }
    }
    let libraries = scripts.started_functions().into_iter().flat_map(|libraries| libraries.libraries());
    let matching =
        libraries.filter(|library| pattern.is_none_or(|pattern| glob::matches(pattern, &library.name, true)));
    Ok(Reply::Array(matching.map(|library| describe(library, with_code)).collect()))
}

fn describe(library: &Library, with_code: bool) -> Reply<'static> {
    let mut fields = vec![
        (Reply::text("library_name"), Reply::bulk(library.name.clone())),
        (Reply::text("engine"), Reply::text("LUA")),
        (Reply::text("functions"), Reply::Array(library.functions.iter().map(describe_function).collect())),
    ];
    if with_code {
        fields.push((Reply::text("library_code"), Reply::bulk(library.source.clone())));
    }
    Reply::Map(fields)
}

fn describe_function(function: &Function) -> Reply<'static> {
    Reply::Map(vec![
        (Reply::text("name"), Reply::bulk(function.name().to_vec())),
        (Reply::text("description"), function.description.clone().map_or(Reply::Null, Reply::bulk)),
        (Reply::text("flags"), Reply::Set(function.flags().names().map(Reply::Status).collect())),
    ])
}

fn stats(call: &mut Call<'_>, _: &mut Args<'_>) -> CommandResult<'static> {
    let scripts = &call.server.scripts;
    if scripts.running() == Some(ScriptKind::Eval) && scripts.busy().is_some() {
        return Err(texts::busy(&call.server.profile, ScriptKind::Eval));
    }
    let running = scripts.busy().map_or(Reply::Null, |slow| {
        Reply::Map(vec![
            (Reply::text("name"), Reply::bulk(slow.name)),
            (Reply::text("command"), Reply::Array(slow.command.into_iter().map(Reply::bulk).collect())),
            (Reply::text("duration_ms"), Reply::Integer(slow.since.elapsed().as_millis() as i64)),
        ])
    });
    let stats = scripts.stats();
    let lua = Reply::Map(vec![
        (Reply::text("libraries_count"), Reply::Integer(stats.libraries as i64)),
        (Reply::text("functions_count"), Reply::Integer(stats.functions as i64)),
    ]);
    let engines = Reply::Map(vec![(Reply::text("LUA"), lua)]);
    Ok(Reply::Map(vec![(Reply::text("running_script"), running), (Reply::text("engines"), engines)]))
}
