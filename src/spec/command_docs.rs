//! The reply of COMMAND DOCS, built from rows.

use super::command_spec::CommandSpec;
use super::history::{History, history};
use super::table::{Table, full_name};
use super::usage::{Argument, arguments};
use crate::base::profile::{Profile, Version};
use crate::protocol::Reply;

type Pairs = Vec<(Reply<'static>, Reply<'static>)>;

/// A command's name and its documentation.
pub fn command_docs(
    table: &Table,
    container: Option<&CommandSpec>,
    spec: &'static CommandSpec,
) -> (Reply<'static>, Reply<'static>) {
    let profile = table.profile();
    let name = container.map_or_else(|| spec.name.to_ascii_lowercase(), |container| full_name(container, spec));
    let mut pairs = Pairs::new();
    let mut text = |field: &'static str, value: String| pairs.push((Reply::text(field), Reply::text(value)));
    text("summary", spec.summary.to_owned());
    text("since", profile.first_with(spec.since).to_string());
    text("group", spec.group.name().to_owned());
    text("complexity", spec.complexity.to_owned());
    let deprecated = spec.deprecated.filter(|(since, _)| is_past(since, profile));
    let flags = [(deprecated.is_some(), "deprecated"), (spec.for_server_tests, "syscmd")];
    let flags: Vec<_> = flags.into_iter().filter(|(set, _)| *set).map(|(_, flag)| Reply::Status(flag)).collect();
    if !flags.is_empty() {
        pairs.push((Reply::text("doc_flags"), Reply::Set(flags)));
    }
    if let Some((since, instead)) = deprecated {
        pairs.push((Reply::text("deprecated_since"), Reply::text(since)));
        if !instead.is_empty() {
            pairs.push((Reply::text("replaced_by"), Reply::text(instead)));
        }
    }
    let history = history(&name);
    let changes = history.map_or(&[][..], |history| history.changes).iter().filter(|(since, _)| profile.has(*since));
    let changes: Vec<_> = changes
        .map(|(since, text)| {
            Reply::Array(vec![Reply::text(profile.first_with(*since).to_string()), Reply::text(*text)])
        })
        .collect();
    if !changes.is_empty() {
        pairs.push((Reply::text("history"), Reply::Set(changes)));
    }
    let first = if container.is_some() { 2 } else { 1 };
    let arguments = arguments(spec, first, profile).unwrap_or_default();
    if !arguments.is_empty() {
        pairs.push((Reply::text("arguments"), arguments_docs(&arguments, history, profile)));
    }
    let subcommands: Pairs = table.subs(spec).map(|row| command_docs(table, Some(spec), row)).collect();
    if !subcommands.is_empty() {
        pairs.push((Reply::text("subcommands"), Reply::Map(subcommands)));
    }
    (Reply::text(name), Reply::Map(pairs))
}

fn arguments_docs(arguments: &[Argument], history: Option<&History>, profile: &Profile) -> Reply<'static> {
    Reply::Array(arguments.iter().map(|argument| argument_docs(argument, history, profile)).collect())
}

fn argument_docs(argument: &Argument, history: Option<&History>, profile: &Profile) -> Reply<'static> {
    let mut pairs = Pairs::new();
    let mut add = |field: &'static str, value| pairs.push((Reply::text(field), value));
    add("name", Reply::text(argument.name.clone()));
    add("type", Reply::text(argument.kind.name()));
    if profile.since_redis(7, 2) && !argument.kind.is_group() {
        add("display_text", Reply::text(argument.name.clone()));
    }
    if let Some(keys) = argument.key_spec {
        add("key_spec_index", Reply::Integer(keys as i64));
    }
    if let Some(token) = argument.token {
        add("token", Reply::text(token));
    }
    let since = history.and_then(|history| history.since(argument)).filter(|since| profile.has(*since));
    if let Some(since) = since {
        add("since", Reply::text(profile.first_with(since).to_string()));
    }
    let flags =
        [(argument.optional, "optional"), (argument.multiple, "multiple"), (argument.multiple_token, "multiple_token")];
    let flags: Vec<_> = flags.iter().filter(|(set, _)| *set).map(|(_, name)| Reply::Status(name)).collect();
    if !flags.is_empty() {
        add("flags", Reply::Set(flags));
    }
    if argument.kind.is_group() {
        add("arguments", arguments_docs(&argument.arguments, history, profile));
    }
    Reply::Map(pairs)
}

/// Whether a release such as `6.2.0` is the profile's or an earlier one.
fn is_past(release: &str, profile: &Profile) -> bool {
    let mut parts = release.split('.').map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    Version(next(), next(), next()) <= profile.redis_version()
}
