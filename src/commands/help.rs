//! The answers of HELP subcommands.

use crate::commands::CommandResult;
use crate::protocol::Reply;
use crate::spec::Table;

/// A container's help: a title, then entries that begin with the name of a subcommand and go on in indented lines. The
/// entries of subcommands that this profile lacks are left out.
pub(super) fn help(table: &Table, container: &str, lines: &[&'static str]) -> CommandResult<'static> {
    let row = table.find(container.as_bytes());
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
    let reworded = |line: &'static str| match line {
        "    Prints this help." if table.profile().since_redis(7, 2) => "    Print this help.",
        line => line,
    };
    Ok(Reply::Array(lines.map(|line| Reply::Status(reworded(line))).collect()))
}
