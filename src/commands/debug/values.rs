//! DEBUG OBJECT, SDSLEN, LISTPACK, QUICKLIST, HTSTATS, HTSTATS-KEY: how values are kept.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use super::Context;
use crate::base::error::CommandError;
use crate::base::profile::Profile;
use crate::commands::CommandResult;
use crate::data::keyspace::{Chunk, Entry, List, hash_of};
use crate::data::rdb::{self, Content};
use crate::protocol::{Reply, parse_integer};
use crate::spec::Args;

const NO_LISTPACK: CommandError = CommandError::fixed("ERR Not a listpack encoded object.");
const NO_QUICKLIST: CommandError = CommandError::fixed("ERR Not a quicklist encoded object.");
const NO_SDS: CommandError = CommandError::fixed("ERR Not an sds encoded string.");
const NO_TABLE: CommandError =
    CommandError::fixed("ERR The value stored at the specified key is not represented using an hash table");
const NO_DATABASE: CommandError = CommandError::fixed("ERR Out of range database");

/// The bytes that DUMP adds to a value: type, version of the format, checksum.
const DUMP_FRAME: usize = 1 + 2 + 8;

/// DEBUG OBJECT: how a value is encoded.
pub(super) fn object(context: &mut Context<'_, '_, '_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let (key, profile, view) = (args.key()?, args.profile(), &mut *context.view);
    let now = view.begun();
    let limit = view.settings().encoding_limits.list_max_listpack_size.load(Ordering::Relaxed);
    let Some(entry) = view.peek_even_expired(key) else { return Err(CommandError::NO_SUCH_KEY) };
    let serialized = rdb::dump(&entry.content(), profile).len() - DUMP_FRAME;
    let usage = entry.usage();
    let nodes = node_details(entry, limit, profile);
    Ok(Reply::StatusText(format!(
        "Value at:{:p} refcount:{} encoding:{} serializedlength:{serialized} lru:{} lru_seconds_idle:{}{nodes}",
        entry.text().map_or(entry.address(), |text| text.bytes.as_ptr()),
        entry.references(),
        entry.encoding(profile),
        usage.field(),
        usage.idle_seconds(now),
    )))
}

/// The header and the end byte of a list node.
const NODE_FRAME: usize = 7;

/// The bytes of a node. One that is plain is its element's text, without a frame.
fn node_size(node: &Chunk) -> usize {
    match crate::data::listpack::first(node.bytes()) {
        Some((element, _)) if node.is_plain() => element.to_bytes().len(),
        _ => node.bytes().len() + NODE_FRAME,
    }
}

/// The quicklist fields of DEBUG OBJECT. Empty for a list that is not a quicklist.
fn node_details(entry: &Entry, limit: i64, profile: &Profile) -> String {
    let Some(list) = entry.collection::<List>().filter(|_| entry.encoding(profile) == "quicklist") else {
        return String::new();
    };
    let count = list.chunks().len();
    let average = list.len() as f64 / count.max(1) as f64;
    let size: usize = list.chunks().map(node_size).sum();
    let unit = if profile.since_redis(7, 0) { "listpack" } else { "ziplist" };
    format!(
        " ql_nodes:{count} ql_avg_node:{average:.2} ql_{unit}_max:{limit} ql_compressed:0 ql_uncompressed_size:{size}"
    )
}

/// DEBUG SDSLEN: strings are kept without spare room.
pub(super) fn string_length(context: &mut Context<'_, '_, '_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let key = args.key()?;
    let entry = context.view.peek(key).ok_or(CommandError::NO_SUCH_KEY)?;
    let Some(text) = entry.text().filter(|_| entry.encoding(args.profile()) != "int") else { return Err(NO_SDS) };
    let (key, value) = (entry.key().len(), text.bytes.len());
    Ok(Reply::StatusText(format!(
        "key_sds_len:{key}, key_sds_avail:0, key_zmalloc: {key}, val_sds_len:{value}, val_sds_avail:0, \
         val_zmalloc: {value}"
    )))
}

/// DEBUG LISTPACK: writes the elements of a packed value to the log.
pub(super) fn listpack(context: &mut Context<'_, '_, '_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let entry = context.view.peek(args.key()?).ok_or(CommandError::NO_SUCH_KEY)?;
    if !["listpack", "ziplist"].contains(&entry.encoding(args.profile())) {
        return Err(NO_LISTPACK);
    }
    let elements = elements(&entry.content());
    context.call.server.log.notice(format!("listpack of {} elements:{}", elements.len(), listed(&elements)));
    Ok(Reply::Status("Listpack structure printed on stdout"))
}

/// DEBUG QUICKLIST: writes the nodes of a list to the log, with their elements if asked for.
pub(super) fn quicklist(context: &mut Context<'_, '_, '_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let entry = context.view.peek(args.key()?).ok_or(CommandError::NO_SUCH_KEY)?;
    let full = args.optional().is_some_and(super::is_on);
    let list =
        entry.collection::<List>().filter(|_| entry.encoding(args.profile()) == "quicklist").ok_or(NO_QUICKLIST)?;
    let mut text = format!("quicklist of {} elements in {} nodes", list.len(), list.chunks().len());
    if let Content::List(nodes) = entry.content() {
        for (number, (chunk, node)) in list.chunks().zip(&nodes).enumerate() {
            let kind = if chunk.is_plain() { "plain" } else { "packed" };
            let _ = write!(text, "; node {number}, {kind}, {} elements, {} bytes", chunk.count(), chunk.bytes().len());
            if full {
                text.push(':');
                text.push_str(&listed(&node.elements()));
            }
        }
    }
    context.call.server.log.notice(text);
    Ok(Reply::Status("Quicklist structure printed on stdout"))
}

fn listed<B: AsRef<[u8]>>(elements: &[B]) -> String {
    elements.iter().map(|element| format!(" \"{}\"", element.as_ref().escape_ascii())).collect()
}

/// The elements of a packed value in order.
fn elements(content: &Content<'_>) -> Vec<Vec<u8>> {
    match content {
        Content::List(nodes) => nodes.iter().flat_map(|node| node.elements()).map(Into::into).collect(),
        Content::Set { members, .. } => members.iter().map(|member| member.to_vec()).collect(),
        Content::Hash { fields, .. } => {
            fields.iter().flat_map(|field| [field.name.to_vec(), field.value.to_vec()]).collect()
        }
        Content::SortedSet { rows, .. } => {
            rows.iter().flat_map(|(member, score)| [member.to_vec(), score.to_string().into_bytes()]).collect()
        }
        Content::String(_) | Content::Integers { .. } | Content::Elements(_) | Content::Stream(_) => Vec::new(),
    }
}

// ---- hash tables

/// DEBUG HTSTATS: the keys of a database, and those that expire.
pub(super) fn table_of_database(context: &mut Context<'_, '_, '_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let number = parse_integer(args.bytes()?).ok_or(CommandError::NOT_AN_INTEGER)?;
    let is_full = is_full(args)?;
    let db = u32::try_from(number).ok().filter(|db| *db < context.view.databases()).ok_or(NO_DATABASE)?;
    let (mut keys, mut expiring) = (Table::default(), Table::default());
    let home = context.view.db();
    context.view.select(db);
    context.view.for_each(|entry| {
        let hash = hash_of(entry.key());
        keys.hashes.push(hash);
        if entry.deadline().is_some() {
            expiring.hashes.push(hash);
        }
    });
    context.view.select(home);
    let text = format!("[Dictionary HT]\n{}[Expires HT]\n{}", keys.statistics(is_full), expiring.statistics(is_full));
    Ok(Reply::Verbatim("txt", text.into_bytes().into()))
}

/// DEBUG HTSTATS-KEY: the parts of a value.
pub(super) fn table_of_key(context: &mut Context<'_, '_, '_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let key = args.key()?;
    let is_full = is_full(args)?;
    let entry = context.view.peek(key).ok_or(CommandError::NO_SUCH_KEY)?;
    if !["hashtable", "skiplist"].contains(&entry.encoding(args.profile())) {
        return Err(NO_TABLE);
    }
    let hashes = match entry.content() {
        Content::Set { members, .. } => members.iter().map(|member| hash_of(member)).collect(),
        Content::Hash { fields, .. } => fields.iter().map(|field| hash_of(&field.name)).collect(),
        Content::SortedSet { rows, .. } => rows.iter().map(|(member, _)| hash_of(member)).collect(),
        _ => Vec::new(),
    };
    Ok(Reply::Verbatim("txt", Table { hashes }.statistics(is_full).into_bytes().into()))
}

/// Whether the lengths of chains are asked for; before 7.2 they always are.
fn is_full(args: &mut Args<'_>) -> Result<bool, CommandError> {
    let asked = args.optional();
    if !args.profile().since_redis(7, 2) {
        return match asked {
            None => Ok(true),
            Some(_) => Err(super::subcommand_syntax_error(args, "DEBUG")),
        };
    }
    Ok(asked.is_some_and(|word| word.eq_ignore_ascii_case(b"full")))
}

/// A hash table as Redis would have it: a power of two of slots, and a chain in each.
#[derive(Default)]
struct Table {
    hashes: Vec<u64>,
}

impl Table {
    /// The smallest table.
    const LEAST: usize = 4;
    /// Chains of at least this length are not listed.
    const LONGEST: usize = 49;

    fn statistics(&self, is_full: bool) -> String {
        let mut text = "Hash table 0 stats (main hash table):\n".to_owned();
        let count = self.hashes.len();
        if count == 0 {
            text.push_str("No stats available for empty dictionaries\n");
            return text;
        }
        let size = count.next_power_of_two().max(Self::LEAST);
        let _ = writeln!(text, " table size: {size}\n number of elements: {count}");
        if !is_full {
            return text;
        }
        let mut chains = vec![0_u32; size];
        for hash in &self.hashes {
            chains[*hash as usize & (size - 1)] += 1;
        }
        let longest = chains.iter().max().map_or(0, |longest| *longest as usize);
        let mut lengths = vec![0; longest + 1];
        chains.iter().for_each(|length| lengths[*length as usize] += 1);
        let slots = size - lengths[0];
        let average = count as f64 / slots as f64;
        let _ = writeln!(
            text,
            " different slots: {slots}\n max chain length: {longest}\n avg chain length (counted): {average:.2}\n \
             avg chain length (computed): {average:.2}\n Chain length distribution:"
        );
        for (length, number) in lengths.into_iter().enumerate().take(Self::LONGEST) {
            if number > 0 {
                let _ = writeln!(text, "   {length}: {number} ({:.2}%)", number as f64 / size as f64 * 100.0);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_counted_by_their_lengths() {
        let head = "Hash table 0 stats (main hash table):\n table size:";
        let statistics = Table { hashes: vec![0, 8, 16, 1, 2, 10] }.statistics(true);
        let expected = " 8\n number of elements: 6\n different slots: 3\n max chain length: 3\n avg chain length (counted): 2.00\n \
            avg chain length (computed): 2.00\n Chain length distribution:\n   0: 5 (62.50%)\n   1: 1 (12.50%)\n   2: 1 (12.50%)\n   \
            3: 1 (12.50%)\n";
        assert_eq!(statistics, format!("{head}{expected}"));
        let statistics = Table { hashes: vec![5; 60] }.statistics(true);
        let expected = " 64\n number of elements: 60\n different slots: 1\n max chain length: 60\n avg chain length (counted): 60.00\n \
            avg chain length (computed): 60.00\n Chain length distribution:\n   0: 63 (98.44%)\n";
        assert_eq!(statistics, format!("{head}{expected}"));
    }
}
