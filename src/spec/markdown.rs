//! `docs/commands.md`, generated from the rows.

use std::fmt::Write;

use super::command_spec::CommandSpec;
use super::table::Row;
use crate::base::profile::{PROFILES, Since};

/// The page of all commands, by group and name.
pub fn markdown(rows: impl IntoIterator<Item = Row>) -> String {
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_unstable_by_key(|row| (row.spec.group.name(), row.spec.name));
    let mut page = "# Commands\n\n\
        Made from the command table; `make docs` rewrites it. A command exists in every profile unless its entry says \
        otherwise. Where options came later, each further usage says which profiles have it.\n"
        .to_owned();
    let mut group = "";
    for Row { spec: row, mut subcommands, .. } in rows {
        if row.group.name() != group {
            group = row.group.name();
            let mut title = group.to_owned();
            title[..1].make_ascii_uppercase();
            let _ = write!(page, "\n## {title}\n");
        }
        let _ = write!(page, "\n### {}\n", row.name);
        if subcommands.is_empty() {
            entry(&mut page, "", row, None);
            continue;
        }
        let _ = write!(page, "\n{}\n", sentence(row.summary));
        if row.arity.admits(1) {
            let _ = write!(page, "\n- `{}`\n", row.name);
        }
        subcommands.sort_unstable_by_key(|row| row.spec.name);
        for subcommand in subcommands {
            entry(&mut page, row.name, subcommand.spec, Some(row));
        }
    }
    page
}

fn entry(page: &mut String, prefix: &str, row: &CommandSpec, container: Option<&CommandSpec>) {
    let name = format!("{prefix} {}", row.name);
    let _ = write!(page, "\n- `{}`  \n  {}", with_usage(&name, row.usage), sentence(row.summary));
    let inherited = container.is_some_and(|container| profiles(container.since) == profiles(row.since));
    if !inherited && let Some(profiles) = profiles(row.since) {
        let _ = write!(page, " {profiles}");
    }
    if let Some((since, instead)) = row.deprecated {
        let _ = write!(page, " Deprecated since {since}");
        let _ = if instead.is_empty() { page.write_str(".") } else { write!(page, ": use {instead}.") };
    }
    page.push('\n');
    for (since, usage) in row.later_usages {
        let _ = writeln!(page, "- `{}`  ", with_usage(&name, usage));
        let _ = writeln!(page, "  {}", profiles(*since).unwrap_or_else(|| "In every profile.".to_owned()));
    }
}

fn with_usage(name: &str, usage: &str) -> String {
    format!("{name} {usage}").trim().to_owned()
}

fn sentence(text: &str) -> String {
    if text.ends_with('.') { text.to_owned() } else { format!("{text}.") }
}

/// The profiles that have something, as a sentence. `None` if all have it.
fn profiles(since: Since) -> Option<String> {
    let with: Vec<&str> = PROFILES.iter().filter(|profile| profile.has(since)).map(|profile| profile.name()).collect();
    if with.len() == PROFILES.len() {
        return None;
    }
    Some(if with.is_empty() { "In no profile.".to_owned() } else { format!("Only in {}.", with.join(", ")) })
}
