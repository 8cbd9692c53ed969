//! Commands of newer releases that compare before they write (DELEX, DELIFEQ, DIGEST, MSETEX), and the comparisons of
//! SET.

use xxhash_rust::xxh3::xxh3_64;

use super::expire_options::{ExpireOption, write_string};
use super::keys::delete;
use crate::base::error::CommandError;
use crate::base::profile::{Family, Since, Version};
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::View;
use crate::protocol::{Reply, parse_integer};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec, LockEffect};

pub(super) const ROWS: &[Command] = &[DELEX, DELIFEQ, DIGEST, MSETEX];

/// `IFEQ`, `IFNE`, `IFDEQ` or `IFDNE` with its operand.
#[derive(Clone, Copy)]
pub(super) struct Comparison<'a> {
    operand: &'a [u8],
    negative: bool,
    /// Compares the digest of the value.
    by_digest: bool,
}

impl<'a> Comparison<'a> {
    /// Each option, with whether it is negative and whether it compares digests.
    const WORDS: [(&'static str, bool, bool); 4] =
        [("IFEQ", false, false), ("IFNE", true, false), ("IFDEQ", false, true), ("IFDNE", true, true)];

    /// Consumes the next two arguments if they are a comparison that this release's SET has.
    pub fn take(args: &mut Args<'a>) -> Option<Self> {
        let (word, operand) = (args.peek()?, args.rest().get(1)?);
        let comparison = Self::new(word, operand)?;
        let since = if comparison.negative || comparison.by_digest {
            Since::redis(8, 4, 0)
        } else {
            Since::each(Version(8, 4, 0), Version(8, 1, 0))
        };
        if !args.profile().has(since) {
            return None;
        }
        args.next_words(2);
        Some(comparison)
    }

    fn new(word: &[u8], operand: &'a [u8]) -> Option<Self> {
        Self::WORDS
            .into_iter()
            .find(|(name, ..)| word.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, negative, by_digest)| Self { operand, negative, by_digest })
    }

    /// Whether it asks for a difference. Then it also holds for an absent value.
    pub fn is_negative(&self) -> bool {
        self.negative
    }

    pub fn holds(&self, value: &[u8]) -> Result<bool, CommandError> {
        let equal = if self.by_digest {
            if self.operand.len() != 16 {
                return Err(CommandError::fixed("ERR must be exactly 16 hexadecimal characters"));
            }
            digest_of(value).as_bytes().eq_ignore_ascii_case(self.operand)
        } else {
            self.operand == value
        };
        Ok(equal != self.negative)
    }
}

fn digest_of(value: &[u8]) -> String {
    format!("{:016x}", xxh3_64(value))
}

const DELEX: Command = Command::new(
    Handler::Keys(delex),
    CommandSpec {
        usage: "key [IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest | IFDNE ifdne-digest]",
        summary: "Deletes a key, if its value compares as asked.",
        complexity: "O(1), or O(N) for a comparison by digest of a string of N bytes",
        group: Group::String,
        since: Since::redis(8, 4, 0),
        arity: Arity::AtLeast(2),
        keys: &[KeySpec::one(1, &["RM", "delete"])],
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::String],
        lock_effect: LockEffect::DeleteByOptions,
        ..CommandSpec::new("DELEX")
    },
);

fn delex<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    let deleted = match (args.left(), args.optional(), args.optional()) {
        (0, ..) => delete(view, key),
        (2, Some(word), Some(operand)) => {
            let current = view
                .string_to_write(key)
                .map_err(|_| CommandError::fixed("ERR Key should be of string type if conditions are specified"))?;
            let Some(current) = current else { return Ok(Reply::Integer(0)) };
            let comparison = Comparison::new(word, operand)
                .ok_or(CommandError::fixed("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"))?;
            comparison.holds(current)? && delete(view, key)
        }
        _ => return Err(CommandError::fixed("ERR wrong number of arguments for 'delex' command")),
    };
    Ok(Reply::Integer(i64::from(deleted)))
}

const DELIFEQ: Command = Command::new(
    Handler::Keys(delifeq),
    CommandSpec {
        usage: "key value",
        summary: "Deletes a string if it is this one.",
        group: Group::String,
        since: Since::valkey(9, 0, 0),
        arity: Arity::Exactly(3),
        keys: &[KeySpec::one(1, &["RM", "delete"])],
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::String],
        lock_effect: LockEffect::DeleteIfEqual,
        ..CommandSpec::new("DELIFEQ")
    },
);

fn delifeq<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, value) = (args.key()?, args.bytes()?);
    let deleted = view.string_to_write(key)? == Some(value) && delete(view, key);
    Ok(Reply::Integer(i64::from(deleted)))
}

const DIGEST: Command = Command::new(
    Handler::Keys(digest),
    CommandSpec {
        usage: "key",
        summary: "Returns the XXH3 digest of a string, in hexadecimal.",
        complexity: "O(N) for a string of N bytes",
        group: Group::String,
        since: Since::redis(8, 4, 0),
        arity: Arity::Exactly(2),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly, Flag::Fast],
        categories: &[Category::String],
        ..CommandSpec::new("DIGEST")
    },
);

fn digest<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    Ok(view.string(args.key()?)?.map_or(Reply::Null, |value| Reply::text(digest_of(value))))
}

const MSETEX: Command = Command::new(
    Handler::Keys(msetex),
    CommandSpec {
        usage: "numkeys key value [key value ...] [NX | XX] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
        summary: "Writes several strings at once, on a condition and with a lifetime if asked to.",
        complexity: "O(N) for N keys",
        group: Group::String,
        since: Since::each(Version(8, 4, 0), Version(9, 1, 0)),
        arity: Arity::AtLeast(4),
        keys: &[KeySpec::counted(1, 1, 2, &["OW", "update"])],
        flags: &[Flag::Write, Flag::DenyOom, Flag::MovableKeys],
        categories: &[Category::String],
        tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
        lock_effect: LockEffect::SetManyByOptions,
        ..CommandSpec::new("MSETEX")
    },
);

fn msetex<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let valkey = args.profile().family() == Family::Valkey;
    let count = parse_integer(args.bytes()?).filter(|count| (1..=i64::from(i32::MAX)).contains(count)).ok_or(
        CommandError::fixed(if valkey {
            "ERR invalid numkeys value or out of range"
        } else {
            "ERR invalid numkeys value"
        }),
    )?;
    let words = count as usize * 2;
    if args.left() < words {
        return Err(if valkey {
            CommandError::SYNTAX
        } else {
            CommandError::fixed("ERR wrong number of key-value pairs")
        });
    }
    let pairs = args.next_words(words);
    let (mut wanted, mut expire) = (None, ExpireOption::None);
    while !args.is_empty() {
        if wanted != Some(true) && args.take("NX") {
            wanted = Some(false);
        } else if wanted != Some(false) && args.take("XX") {
            wanted = Some(true);
        } else if !expire.take(args, ExpireOption::KeepTtl) {
            return Err(CommandError::SYNTAX);
        }
    }
    let expiry = expire.expiry(view.now(), args)?;
    let keys = || pairs.iter().step_by(2);
    if let Some(wanted) = wanted
        && keys().any(|key| view.read_for_update(key).is_some() != wanted)
    {
        return Ok(Reply::Integer(0));
    }
    for (key, value) in keys().zip(pairs.iter().skip(1).step_by(2)) {
        write_string(view, args, key, value, expiry);
    }
    Ok(Reply::Integer(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_redis() {
        for (value, digest) in [
            ("hello", "9555e8555c62dcfd"),
            ("", "2d06800538d394c2"),
            ("123", "404a763b3f4c8c9a"),
            ("v8", "0cc76dbb41381419"),
            ("Hello world", "b6acb9d84a38ff74"),
        ] {
            assert_eq!(digest_of(value.as_bytes()), digest);
        }
    }
}
