//! KEYS, RANDOMKEY and SCAN.

use super::scan_options::{INVALID_CURSOR, matches, parse_cursor, take_no_values};
use crate::base::error::CommandError;
use crate::base::profile::{Profile, Since};
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{ScanFilter, ValueKind, View};
use crate::protocol::{Reply, until_nul};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag};

pub(super) const ROWS: &[Command] = &[KEYS, RANDOMKEY, SCAN];

const KEYS: Command = Command::new(
    Handler::Database(keys),
    CommandSpec {
        usage: "pattern",
        summary: "Lists the keys that match a pattern.",
        complexity: "O(N) where N is the number of keys in the database.",
        arity: Arity::Exactly(2),
        flags: &[Flag::ReadOnly],
        categories: &[Category::Keyspace, Category::Dangerous],
        tips: &["request_policy:all_shards", "nondeterministic_output_order"],
        ..CommandSpec::new("KEYS")
    },
);

fn keys<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let pattern = args.bytes()?;
    let mut found = Vec::new();
    view.for_each(|entry| {
        if matches(pattern, entry.key()) {
            found.push(Reply::bulk(entry.key().to_vec()));
        }
    });
    Ok(Reply::Array(found))
}

const RANDOMKEY: Command = Command::new(
    Handler::Database(randomkey),
    CommandSpec {
        summary: "Returns some key of the database.",
        flags: &[Flag::ReadOnly],
        categories: &[Category::Keyspace],
        tips: &["request_policy:all_shards", "nondeterministic_output"],
        later_tips: &[(
            Since::redis(7, 2, 0),
            &["request_policy:all_shards", "response_policy:special", "nondeterministic_output"],
        )],
        comes_upon_keys: true,
        ..CommandSpec::new("RANDOMKEY")
    },
);

fn randomkey<'v>(view: &'v mut View<'_>, _: &mut Args<'v>) -> CommandResult<'v> {
    Ok(view.random_key().map_or(Reply::Null, Reply::bulk))
}

const SCAN: Command = Command::new(
    Handler::Scan(extent_of_scan, scan),
    CommandSpec {
        usage: "cursor [MATCH pattern] [COUNT count] [TYPE type]",
        summary: "Lists the keys of the database step by step.",
        complexity: "O(1) for a step, O(N) for all of them, where N is the number of keys in the database.",
        since: Since::redis(2, 8, 0),
        arity: Arity::AtLeast(2),
        flags: &[Flag::ReadOnly],
        categories: &[Category::Keyspace],
        tips: &["nondeterministic_output", "request_policy:special"],
        later_tips: &[(
            Since::redis(7, 2, 0),
            &["nondeterministic_output", "request_policy:special", "response_policy:special"],
        )],
        comes_upon_keys: true,
        ..CommandSpec::new("SCAN")
    },
);

/// What SCAN is asked for.
struct ScanQuery<'a> {
    cursor: u64,
    pattern: &'a [u8],
    count: usize,
    kind: Option<&'a [u8]>,
}

fn scan_query<'v>(args: &mut Args<'v>) -> Result<ScanQuery<'v>, CommandError> {
    let cursor = parse_cursor(args.bytes()?, args.profile()).ok_or(INVALID_CURSOR)?;
    let mut pattern: &[u8] = b"*";
    let mut kind = None;
    let mut count = 10;
    while !args.is_empty() {
        if args.take("MATCH") {
            pattern = args.bytes()?;
        } else if args.take("COUNT") {
            count = args.integer()?;
            if count < 1 {
                return Err(CommandError::SYNTAX);
            }
        } else if args.take("TYPE") {
            kind = Some(parse_type(args.bytes()?, args.profile())?);
        } else if !take_no_values(args)? {
            return Err(CommandError::SYNTAX);
        }
    }
    Ok(ScanQuery { cursor, pattern, count: usize::try_from(count).unwrap_or(usize::MAX), kind })
}

fn extent_of_scan(args: &mut Args<'_>) -> Option<(u64, usize)> {
    scan_query(args).ok().map(|query| (query.cursor, query.count))
}

fn scan<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let ScanQuery { cursor, pattern, count, kind } = scan_query(args)?;
    let is_kind = |found: ValueKind| kind.is_some_and(|kind: &[u8]| kind.eq_ignore_ascii_case(found.name().as_bytes()));
    let filter =
        ScanFilter { matches: &|key| matches(pattern, key), kind: if kind.is_some() { Some(&is_kind) } else { None } };
    let (next, found) = view.scan(cursor, count, &filter);
    let found = found.into_iter().map(Reply::bulk).collect();
    Ok(Reply::Array(vec![Reply::text(next.to_string()), Reply::Array(found)]))
}

/// All types, including those of commands that a profile lacks.
const TYPES: [&str; 6] = ["string", "list", "set", "zset", "hash", "stream"];

/// A type name. Redis accepts unknown names, which match no key; Valkey refuses them.
fn parse_type<'a>(name: &'a [u8], profile: &Profile) -> Result<&'a [u8], CommandError> {
    let name = until_nul(name);
    let known = TYPES.iter().any(|kind| name.eq_ignore_ascii_case(kind.as_bytes()));
    if !known && profile.has(Since::valkey(8, 0, 0)) {
        return Err(CommandError::new([b"ERR unknown type name '", name, b"'"].concat()));
    }
    Ok(name)
}
