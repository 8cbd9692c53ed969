//! The replies of HELP subcommands, and the errors that point to them.

use crate::base::error::CommandError;
use crate::base::profile::Family;
use crate::commands::CommandResult;
use crate::protocol::Reply;
use crate::spec::{Args, Table};

/// The help of a container: a title, then entries that begin with the name of a subcommand and continue in indented
/// lines. Entries of subcommands that the profile lacks are left out.
pub(super) fn help(table: &Table, container: &str, lines: &[&'static str]) -> CommandResult<'static> {
    let row = table.find_original(container.as_bytes());
    let exists = |line: &str| {
        let name = line.split(' ').next().unwrap_or_default();
        name == container
            || name.starts_with('(')
            || row.is_some_and(|row| table.find_sub(row, name.as_bytes()).is_some())
    };
    let mut kept = true;
    let lines = lines.iter().filter(|line| {
        kept = if line.starts_with(' ') { kept } else { exists(line) };
        kept
    });
    let name = row.map(|row| table.name_of(row)).filter(|name| name != container);
    let is_valkey = table.profile().family() == Family::Valkey;
    let reworded = |line: &'static str| match (line, &name) {
        ("    Prints this help.", _) if table.profile().since_redis(7, 2) => Reply::Status("    Print this help."),
        (line, Some(name)) if line.starts_with(container) => Reply::StatusText(line.replacen(container, name, 1)),
        (line, _) if is_valkey && line.contains("Redis ") => Reply::StatusText(line.replace("Redis ", "")),
        (line, _) => Reply::Status(line),
    };
    Ok(Reply::Array(lines.flat_map(|line| in_family(line, is_valkey)).map(|line| reworded(line)).collect()))
}

/// The lines that stand for a line of Redis.
fn in_family<'l>(line: &'l &'static str, is_valkey: bool) -> &'l [&'static str] {
    let other = VALKEY_LINES.iter().find(|(redis, _)| is_valkey && redis == line);
    other.map_or(std::slice::from_ref(line), |(_, valkey)| valkey)
}

/// Lines that are others in Valkey.
const VALKEY_LINES: &[(&str, &[&str])] = &[
    ("SETUSER <username> <attribute> [<attribute> ...]", &["SETUSER <username> <rule> [<rule> ...]"]),
    (
        "    Create or modify a user with the specified attributes.",
        &["    Create or modify a user with the specified rules."],
    ),
    ("    * Library description", &[]),
    ("DEBUG (YES|SYNC|NO)", &["DEBUG (YES|SYNC|NO) [<engine_name>]"]),
    (
        "    Set the debug mode for subsequent scripts executed.",
        &[
            "    Set the debug mode for subsequent scripts executed of the specified engine.",
            "    Default engine name: 'lua'",
        ],
    ),
];

/// The error of a subcommand that checks its own number of arguments (Redis's `addReplySubcommandSyntaxError`).
pub(super) fn subcommand_syntax_error(args: &Args<'_>, container: &str) -> CommandError {
    syntax_error("ERR unknown", args, container)
}

/// Like [`subcommand_syntax_error`], with the upper-case `Unknown` of releases before 7.0.
pub(super) fn versioned_syntax_error(args: &Args<'_>, container: &str) -> CommandError {
    syntax_error(if args.profile().since_redis(7, 0) { "ERR unknown" } else { "ERR Unknown" }, args, container)
}

fn syntax_error(unknown: &str, args: &Args<'_>, container: &str) -> CommandError {
    let name = args.words().get(1).unwrap_or_default();
    let command = args.words().get(0).map(<[u8]>::to_ascii_uppercase).unwrap_or_default();
    let container = if command.is_empty() { container.into() } else { String::from_utf8_lossy(&command) };
    let before = format!("{unknown} subcommand or wrong number of arguments for '");
    CommandError::quoting(&before, &name[..name.len().min(128)], &format!("'. Try {container} HELP."))
}
