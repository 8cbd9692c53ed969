//! The reply of COMMAND INFO, built from rows.

use super::command_spec::{CommandSpec, Flag};
use super::key_spec::{BeginSearch, FindKeys, KeySpec};
use super::table::{Table, full_name};
use crate::base::profile::{Profile, Since};
use crate::protocol::Reply;

/// A command's entry in COMMAND INFO.
pub fn command_info(table: &Table, container: Option<&CommandSpec>, spec: &'static CommandSpec) -> Reply<'static> {
    let grouped = table.profile().since_redis(7, 0);
    let name = container.map_or_else(|| spec.name.to_ascii_lowercase(), |container| full_name(container, spec));
    let (first, last, step) = legacy_range(spec.keys);
    let mut flags = spec.flags_in(table.profile()).to_vec();
    flags.sort_unstable();
    flags.retain(|flag| if grouped { *flag != Flag::MayReplicate } else { !is_new_in_7_0(*flag) });
    let mut items = vec![
        Reply::text(name),
        Reply::Integer(spec.arity_in(table.profile()).as_number()),
        status_set(flags.into_iter().map(|flag| flag.name_in(table.profile()))),
        Reply::Integer(first),
        Reply::Integer(last),
        Reply::Integer(step),
        status_set(spec.all_categories(table.profile()).into_iter().map(|category| category.rule())),
    ];
    if grouped {
        items.push(Reply::Set(spec.tips_in(table.profile()).iter().map(|tip| Reply::text(*tip)).collect()));
        items.push(Reply::Set(spec.keys.iter().map(|keys| describe_keys(keys, table.profile())).collect()));
        let subcommands: Vec<_> = table.subs(spec).map(|row| command_info(table, Some(spec), row)).collect();
        // In RESP3 Redis sends an empty set for no subcommands, but an array for some. Valkey 9 always sends an array.
        let is_set = subcommands.is_empty() && !table.profile().has(Since::valkey(9, 0, 0));
        items.push(if is_set { Reply::Set(subcommands) } else { Reply::Array(subcommands) });
    }
    Reply::Array(items)
}

fn is_new_in_7_0(flag: Flag) -> bool {
    matches!(flag, Flag::Blocking | Flag::NoMulti | Flag::AllowBusy)
}

fn status_set(names: impl Iterator<Item = &'static str>) -> Reply<'static> {
    Reply::Set(names.map(Reply::Status).collect())
}

/// First key, last key and step, for clients older than key specifications: all ranges joined into one.
fn legacy_range(keys: &[KeySpec]) -> (i64, i64, i64) {
    let ranges = keys.iter().filter_map(|keys| match (keys.begin_search, keys.find_keys) {
        (BeginSearch::Index(first), FindKeys::Range { last, step }) => {
            let first = i64::from(first);
            Some((first, if last >= 0 { first + i64::from(last) } else { i64::from(last) }, i64::from(step)))
        }
        _ => None,
    });
    // A last key counted from the end (negative) lies after all others.
    let later = |one: i64, other: i64| if (one as u64) < other as u64 { other } else { one };
    let joined = ranges.reduce(|(first, last, step), (next_first, next_last, next_step)| {
        (first.min(next_first), later(last, next_last), step.min(next_step))
    });
    joined.unwrap_or((0, 0, 0))
}

fn describe_keys(keys: &KeySpec, profile: &Profile) -> Reply<'static> {
    let mut pairs = Vec::new();
    if !keys.notes.is_empty() {
        pairs.push((Reply::text("notes"), Reply::text(keys.notes)));
    }
    pairs.push((Reply::text("flags"), status_set(keys.flags_in(profile).iter().copied())));
    let begin_search = match keys.begin_search {
        BeginSearch::Index(index) => search_method("index", numbers(&[("index", i64::from(index))])),
        BeginSearch::Unknown => search_method("unknown", Vec::new()),
        BeginSearch::Keyword { word, from } => {
            let from = Reply::Integer(i64::from(from));
            search_method("keyword", vec![("keyword", Reply::text(word)), ("startfrom", from)])
        }
    };
    pairs.push((Reply::text("begin_search"), begin_search));
    let find_keys = match keys.find_keys {
        FindKeys::Function(_) | FindKeys::Computed(_) => search_method("unknown", Vec::new()),
        FindKeys::LimitedRange { limit } => {
            let fields = [("lastkey", -1), ("keystep", 1), ("limit", i64::from(limit))];
            search_method("range", numbers(&fields))
        }
        FindKeys::Range { last, step } => {
            search_method("range", numbers(&[("lastkey", i64::from(last)), ("keystep", i64::from(step)), ("limit", 0)]))
        }
        FindKeys::KeyNum { index, first, step } => search_method(
            "keynum",
            numbers(&[("keynumidx", i64::from(index)), ("firstkey", i64::from(first)), ("keystep", i64::from(step))]),
        ),
    };
    pairs.push((Reply::text("find_keys"), find_keys));
    Reply::Map(pairs)
}

fn numbers(fields: &[(&'static str, i64)]) -> Vec<(&'static str, Reply<'static>)> {
    fields.iter().map(|(name, value)| (*name, Reply::Integer(*value))).collect()
}

fn search_method(kind: &'static str, fields: Vec<(&'static str, Reply<'static>)>) -> Reply<'static> {
    let fields = fields.into_iter().map(|(name, value)| (Reply::text(name), value)).collect();
    Reply::Map(vec![(Reply::text("type"), Reply::text(kind)), (Reply::text("spec"), Reply::Map(fields))])
}
