//! DUMP and RESTORE.

use super::keys::delete;
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{Entry, EventClass, View};
use crate::data::rdb::{self, PayloadError};
use crate::protocol::Reply;
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, KeySpec, LockEffect};

pub(super) const ROWS: &[Command] = &[DUMP, RESTORE];

const BUSY_KEY: CommandError = CommandError::fixed("BUSYKEY Target key name already exists.");
const INVALID_TTL: CommandError = CommandError::fixed("ERR Invalid TTL value, must be >= 0");
const INVALID_IDLE_TIME: CommandError = CommandError::fixed("ERR Invalid IDLETIME value, must be >= 0");
const INVALID_FREQUENCY: CommandError = CommandError::fixed("ERR Invalid FREQ value, must be >= 0 and <= 255");
const BAD_FOOTER: CommandError = CommandError::fixed("ERR DUMP payload version or checksum are wrong");
const BAD_CONTENT: CommandError = CommandError::fixed("ERR Bad data format");

const DUMP: Command = Command::new(
    Handler::Keys(dump),
    CommandSpec {
        usage: "key",
        summary: "Returns a value as RESTORE takes it.",
        complexity: "O(N) where N is the size of the value.",
        since: Since::redis(2, 6, 0),
        arity: Arity::Exactly(2),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::Keyspace],
        tips: &["nondeterministic_output"],
        ..CommandSpec::new("DUMP")
    },
);

fn dump<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let entry = view.read(args.key()?);
    Ok(entry.map_or(Reply::Null, |entry| Reply::bulk(rdb::dump(&entry.content(), args.profile()))))
}

const RESTORE: Command = Command::new(
    Handler::Keys(restore),
    CommandSpec {
        usage: "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]",
        summary: "Creates a key from what DUMP returned.",
        complexity: "O(N) where N is the size of the value.",
        since: Since::redis(2, 6, 0),
        arity: Arity::AtLeast(4),
        keys: &[KeySpec::one(1, &["OW", "update"])],
        flags: &[Flag::Write, Flag::DenyOom],
        categories: &[Category::Keyspace, Category::Dangerous],
        lock_effect: LockEffect::Restore,
        ..CommandSpec::new("RESTORE")
    },
);

fn restore<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, ttl, payload) = (args.key()?, args.bytes()?, args.bytes()?);
    let options = Options::parse(args)?;
    if !options.replace && view.read_for_update(key).is_some() {
        return Err(BUSY_KEY);
    }
    let ttl = crate::protocol::parse_integer(ttl).ok_or(CommandError::NOT_AN_INTEGER)?;
    if ttl < 0 {
        return Err(INVALID_TTL);
    }
    let content = rdb::load(payload, args.profile(), view.settings().checksums()).map_err(|damage| match damage {
        PayloadError::Footer => BAD_FOOTER,
        PayloadError::Content => BAD_CONTENT,
    })?;
    // Redis lets the sum overflow, and the key expires at once.
    let deadline = match ttl {
        0 => None,
        _ if options.absolute => Some(ttl),
        _ => Some(ttl.wrapping_add(view.now())),
    };
    let usage = view.restored_usage(options.idle_time, options.frequency);
    let entry = Entry::of_content(key, content, view.settings(), args.profile(), deadline, usage).ok_or(BAD_CONTENT)?;
    if deadline.is_some_and(|deadline| deadline <= view.past()) {
        delete(view, key);
        return Ok(Reply::OK);
    }
    view.replace(view.unshared(entry));
    view.notify(EventClass::Generic, "restore", key);
    if let Some(deadline) = deadline.filter(|_| !options.absolute) {
        let deadline = deadline.to_string();
        let mut words: Vec<&[u8]> = args.words().iter().collect();
        words[2] = deadline.as_bytes();
        words.push(b"ABSTTL");
        view.replicate_as(&words);
    }
    Ok(Reply::OK)
}

#[derive(Default)]
struct Options {
    replace: bool,
    absolute: bool,
    idle_time: Option<i64>,
    frequency: Option<u8>,
}

impl Options {
    fn parse(args: &mut Args<'_>) -> Result<Self, CommandError> {
        let mut options = Self::default();
        while !args.is_empty() {
            if args.take("REPLACE") {
                options.replace = true;
            } else if args.take("ABSTTL") {
                options.absolute = true;
            } else if options.frequency.is_none() && args.take("IDLETIME") {
                options.idle_time = Some(args.integer()?).filter(|idle| *idle >= 0);
                if options.idle_time.is_none() {
                    return Err(INVALID_IDLE_TIME);
                }
            } else if options.idle_time.is_none() && args.take("FREQ") {
                options.frequency = Some(u8::try_from(args.integer()?).map_err(|_| INVALID_FREQUENCY)?);
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(options)
    }
}
