//! Finding keys.

use super::scan_elements::take_bare;
use crate::base::error::CommandError;
use crate::base::glob;
use crate::base::profile::{Profile, Since, Version};
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{ScanFilter, ValueKind, View};
use crate::protocol::{Reply, is_blank, parse_integer, until_nul};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag};

pub(super) const ROWS: &[Command] = &[KEYS, RANDOMKEY, SCAN];

pub(super) const INVALID_CURSOR: CommandError = CommandError::fixed("ERR invalid cursor");

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

/// A star alone matches every key, and so the empty one, which no other pattern but the empty one does.
pub(super) fn matches(pattern: &[u8], key: &[u8]) -> bool {
    pattern == b"*" || glob::matches(pattern, key, false)
}

const RANDOMKEY: Command = Command::new(
    Handler::Database(randomkey),
    CommandSpec {
        summary: "Returns some key of the database.",
        flags: &[Flag::ReadOnly],
        categories: &[Category::Keyspace],
        tips: &["request_policy:all_shards", "nondeterministic_output"],
        ..CommandSpec::new("RANDOMKEY")
    },
);

fn randomkey<'v>(view: &'v mut View<'_>, _: &mut Args<'v>) -> CommandResult<'v> {
    Ok(view.random_key().map_or(Reply::Null, Reply::bulk))
}

const SCAN: Command = Command::new(
    Handler::Database(scan),
    CommandSpec {
        usage: "cursor [MATCH pattern] [COUNT count] [TYPE type]",
        summary: "Lists the keys of the database step by step.",
        complexity: "O(1) for a step, O(N) for all of them, where N is the number of keys in the database.",
        since: Since::redis(2, 8, 0),
        arity: Arity::AtLeast(2),
        flags: &[Flag::ReadOnly],
        categories: &[Category::Keyspace],
        tips: &["nondeterministic_output", "request_policy:special"],
        ..CommandSpec::new("SCAN")
    },
);

fn scan<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
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
            kind = Some(parse_kind(args.bytes()?, args.profile())?);
        } else if !take_bare(args)? {
            return Err(CommandError::SYNTAX);
        }
    }
    let is_kind = |found: ValueKind| kind.is_some_and(|kind: &[u8]| kind.eq_ignore_ascii_case(found.name().as_bytes()));
    let filter =
        ScanFilter { matches: &|key| matches(pattern, key), kind: if kind.is_some() { Some(&is_kind) } else { None } };
    let (next, found) = view.scan(cursor, usize::try_from(count).unwrap_or(usize::MAX), &filter);
    let found = found.into_iter().map(Reply::bulk).collect();
    Ok(Reply::Array(vec![Reply::text(next.to_string()), Reply::Array(found)]))
}

/// The types that there are, whether or not there can be keys of them here.
const KINDS: [&str; 6] = ["string", "list", "set", "zset", "hash", "stream"];

/// The name of a type. To Redis a name that it does not know is one that no key has; Valkey refuses it.
fn parse_kind<'a>(name: &'a [u8], profile: &Profile) -> Result<&'a [u8], CommandError> {
    let name = until_nul(name);
    let known = KINDS.iter().any(|kind| name.eq_ignore_ascii_case(kind.as_bytes()));
    if !known && profile.has(Since::valkey(8, 0, 0)) {
        return Err(CommandError::new([b"ERR unknown type name '", name, b"'"].concat()));
    }
    Ok(name)
}

/// A cursor, read with C's `strtoull` as Redis does, and with what is special about that: blanks, signs, an end at the
/// first NUL. Older servers refuse a leading blank; newer ones refuse the empty string and plain negative numbers.
pub(super) fn parse_cursor(text: &[u8], profile: &Profile) -> Option<u64> {
    let text = until_nul(text);
    if profile.has(Since::each(Version(7, 4, 0), Version(8, 0, 0))) {
        if let Some(integer) = parse_integer(text) {
            return u64::try_from(integer).ok();
        }
        if text.is_empty() {
            return None;
        }
    } else if text.is_empty() {
        return Some(0);
    } else if is_blank(text[0]) {
        return None;
    }
    let blanks = text.iter().take_while(|&&byte| is_blank(byte)).count();
    let (negative, digits) = match &text[blanks..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let value = digits.iter().try_fold(0u64, |value, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })?;
    Some(if negative { value.wrapping_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_each_server_reads_them() {
        let old = "redis-7.0".parse().unwrap();
        let new = "valkey-8.1".parse().unwrap();
        let both: &[(&str, Option<u64>)] = &[
            ("0", Some(0)),
            ("01", Some(1)),
            ("+1", Some(1)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("-", None),
            ("0a", None),
            ("0x10", None),
            ("1\0x", Some(1)),
            ("1 ", None),
        ];
        for &(text, expected) in both {
            assert_eq!(parse_cursor(text.as_bytes(), &old), expected, "{text}");
            assert_eq!(parse_cursor(text.as_bytes(), &new), expected, "{text}");
        }
        let differ: &[(&str, Option<u64>, Option<u64>)] =
            &[("", Some(0), None), ("-1", Some(u64::MAX), None), (" 1", None, Some(1)), (" -1", None, Some(u64::MAX))];
        for &(text, in_old, in_new) in differ {
            assert_eq!((parse_cursor(text.as_bytes(), &old), parse_cursor(text.as_bytes(), &new)), (in_old, in_new));
        }
    }
}
