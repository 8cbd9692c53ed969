//! Which commands are meant, as faults, gates and queries of the journal take it.

use std::ops::RangeInclusive;

use super::words::keywords;
use super::{expected, number};
use crate::base::error::CommandError;
use crate::base::hash_slot::HASH_SLOTS;
use crate::commands::Call;
use crate::powers::{ClientSelector, NodeRole, NodeSelector, Pattern};
use crate::spec::{Args, Category, CommandSpec, Group};

/// The words of a pattern.
pub(super) const PATTERN: &str = "[ON command [command ...]] [KEY glob] [CLIENT <name-glob | id>] [DB number] \
                                  [NODE <address | port | id | MASTER | REPLICA | REPLICA OF address | SENTINEL>] \
                                  [SLOTS first-last]";

/// The words that only follow NODE, of which some are the names of commands as well.
const AFTER_NODE: &[&str] = &["MASTER", "REPLICA", "OF", "SENTINEL"];

/// Takes the next part of a pattern, if there is one. The keywords of the action's `words` end a list of commands, even
/// where a command has that name, as RESET.
pub(super) fn take_part(
    pattern: &mut Pattern,
    call: &Call<'_>,
    args: &mut Args<'_>,
    words: &str,
) -> Result<bool, CommandError> {
    let said = [(pattern.names_commands(), "on"), (pattern.names_key(), "key")];
    let said = said.into_iter().chain([(pattern.names_client(), "client"), (pattern.names_db(), "db")]);
    let said = said.chain([(pattern.names_node(), "node"), (pattern.names_slots(), "slots")]);
    let next = args.peek().unwrap_or_default();
    if let Some((_, word)) = said.into_iter().find(|(is, word)| *is && next.eq_ignore_ascii_case(word.as_bytes())) {
        return Err(CommandError::new(format!("ERR '{word}' was said already")));
    }
    if args.take("on") {
        let mut is_first = true;
        while is_first || args.peek().is_some_and(|word| is_command(call, word, words)) {
            is_first = false;
            let word = args.optional();
            for name in word.unwrap_or_default().split(|&byte| byte == b',') {
                *pattern = add_command(std::mem::take(pattern), call, name)?;
            }
        }
    } else if args.take("key") {
        let glob = args.optional().ok_or_else(|| expected("a glob for keys was expected", None))?;
        *pattern = std::mem::take(pattern).key(glob);
    } else if args.take("client") {
        let word = args.optional().filter(|word| !word.is_empty());
        let word = word.ok_or_else(|| expected("the name of a client, or its number, was expected", None))?;
        let id = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
        *pattern =
            std::mem::take(pattern).client(id.map_or_else(|| ClientSelector::Name(word.to_vec()), ClientSelector::Id));
    } else if args.take("db") {
        let db = u32::try_from(number(args, "the number of a database", 0)?).unwrap_or(u32::MAX);
        *pattern = std::mem::take(pattern).db(db);
    } else if args.take("node") {
        *pattern = std::mem::take(pattern).node(node(args)?);
        let hosts = local_hosts(call);
        call.server.resolve_node(pattern, &hosts).map_err(|reason| CommandError::new(format!("ERR {reason}")))?;
    } else if args.take("slots") {
        *pattern = std::mem::take(pattern).slots(slots(args)?);
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// The nodes of a deployment that are meant.
fn node(args: &mut Args<'_>) -> Result<NodeSelector, CommandError> {
    let word = args.peek();
    if args.take("replica") {
        return match args.take("of") {
            true => Ok(NodeSelector::ReplicaOf(node_name(args)?)),
            false => Ok(NodeRole::Replica.into()),
        };
    }
    let role = [NodeRole::Master, NodeRole::Sentinel].into_iter().find(|role| args.take(role.name()));
    if let Some(role) = role {
        return Ok(role.into());
    }
    if word.is_some_and(|word| keywords(PATTERN).any(|keyword| word.eq_ignore_ascii_case(keyword.as_bytes()))) {
        return Err(no_node(word));
    }
    Ok(NodeSelector::Named(node_name(args)?))
}

/// The name of one node.
pub(super) fn node_name(args: &mut Args<'_>) -> Result<String, CommandError> {
    const LONGEST: usize = 300;
    let word = args.optional();
    word.filter(|word| (1..=LONGEST).contains(&word.len()) && word.iter().all(u8::is_ascii_graphic))
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .ok_or_else(|| no_node(word))
}

fn no_node(word: Option<&[u8]>) -> CommandError {
    expected("a node was expected: host:port, a port, an id, master, replica, replica of host:port, or sentinel", word)
}

/// The hosts at which clients reach this server, beside those of every machine.
pub(super) fn local_hosts(call: &Call<'_>) -> Vec<String> {
    let own = call.session.client.peer().local_address();
    let own = own.rsplit_once(':').map(|(host, _)| host.to_owned());
    let announced = call.server.config.text("upstream-announce-host");
    own.into_iter().chain(Some(announced).filter(|host| !host.is_empty())).collect()
}

/// A range of hash slots: `0-5460`, or one slot.
fn slots(args: &mut Args<'_>) -> Result<RangeInclusive<u16>, CommandError> {
    let word = args.optional();
    let slot = |text: &str| text.parse::<u16>().ok().filter(|slot| *slot < HASH_SLOTS);
    let range = word.and_then(|word| std::str::from_utf8(word).ok()).and_then(|text| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some(slot(first)?..=slot(last)?)
    });
    range
        .filter(|range| !range.is_empty())
        .ok_or_else(|| expected("a range of hash slots such as 0-5460, of those from 0 to 16383, was expected", word))
}

/// Whether a word continues a list of commands.
fn is_command(call: &Call<'_>, word: &[u8], words: &str) -> bool {
    let mut keywords = keywords(words).filter(|keyword| !AFTER_NODE.contains(keyword));
    let ends_list = keywords.any(|keyword| word.eq_ignore_ascii_case(keyword.as_bytes()));
    !ends_list && word.split(|&byte| byte == b',').all(|name| name.starts_with(b"@") || found(call, name).is_some())
}

/// The row of a command that can be meant: no rule is about the test powers themselves.
fn found(call: &Call<'_>, name: &[u8]) -> Option<&'static CommandSpec> {
    call.table.find_full_original(name).filter(|row| row.group != Group::Control)
}

fn add_command(pattern: Pattern, call: &Call<'_>, name: &[u8]) -> Result<Pattern, CommandError> {
    let wrong = || expected("a command such as SET, CLIENT|KILL or @write was expected", Some(name));
    let text = std::str::from_utf8(name).map_err(|_| wrong())?;
    if text.starts_with('@') {
        let category =
            Category::ALL.iter().find(|category| category.rule().eq_ignore_ascii_case(text)).ok_or_else(wrong)?;
        return Ok(members(call, *category).fold(pattern, |pattern, name| pattern.command(&name)));
    }
    found(call, name).map(|_| pattern.command(text)).ok_or_else(wrong)
}

/// The full names of a category's commands.
fn members(call: &Call<'_>, category: Category) -> impl Iterator<Item = String> {
    let rows = call.table.rows().filter(|row| row.group != Group::Control);
    let named = rows.flat_map(|row| {
        let subs = call.table.subs(row).map(move |sub| (format!("{}|{}", row.name, sub.name), sub));
        std::iter::once((row.name.to_owned(), row)).filter(|(_, row)| !row.is_container).chain(subs)
    });
    let chosen = named.filter(move |(_, row)| row.all_categories(call.table.profile()).contains(&category));
    chosen.map(|(name, _)| name)
}
