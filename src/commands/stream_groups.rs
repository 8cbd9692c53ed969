//! Consumer groups: XGROUP and XACK.

use super::help::{help, subcommand_syntax_error};
use super::stream_ids::{parse, parse_bound};
use super::streams::parse_ids;
use crate::base::error::CommandError;
use crate::base::profile::{Profile, Since};
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{EventClass, Group as ConsumerGroup, Stream, StreamId, View};
use crate::protocol::Reply;
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec};

pub(super) const ROWS: &[Command] = &[XACK, XGROUP];

const NO_KEY: CommandError = CommandError::fixed(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option \
     to create an empty stream automatically.",
);
const BUSY_GROUP: CommandError = CommandError::fixed("BUSYGROUP Consumer Group name already exists");
const NEGATIVE_READ: CommandError = CommandError::fixed("ERR value for ENTRIESREAD must be positive or -1");

pub(super) fn no_group(key: &[u8], group: &[u8]) -> CommandError {
    let (key, group) = (crate::protocol::until_nul(key), crate::protocol::until_nul(group));
    CommandError::new([b"NOGROUP No such consumer group '", group, b"' for key name '", key, b"'"].concat())
}

pub(super) fn no_key_or_group(key: &[u8], group: &[u8]) -> CommandError {
    let (key, group) = (crate::protocol::until_nul(key), crate::protocol::until_nul(group));
    CommandError::new([b"NOGROUP No such key '", key, b"' or consumer group '", group, b"'"].concat())
}

/// The consumer group of a stream, if both exist.
pub(super) fn find_group<'v>(
    view: &'v mut View<'_>,
    key: &[u8],
    name: &[u8],
) -> Result<Option<&'v ConsumerGroup>, CommandError> {
    Ok(view.collection::<Stream>(key)?.and_then(|stream| stream.group(name)))
}

const XACK: Command = Command::new(
    Handler::Keys(xack),
    CommandSpec {
        usage: "key group id [id ...]",
        summary: "Marks entries as dealt with, so that they are no longer pending.",
        complexity: "O(1) for each entry",
        group: Group::Stream,
        since: Since::redis(5, 0, 0),
        arity: Arity::AtLeast(4),
        keys: &[KeySpec::one(1, &["RW", "update"])],
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::Stream],
        ..CommandSpec::new("XACK")
    },
);

fn xack<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, group) = (args.key()?, args.bytes()?);
    if find_group(view, key, group)?.is_none() {
        return Ok(Reply::Integer(0));
    }
    let ids = parse_ids(args.rest())?;
    let acknowledged = view.change_quietly(key, |stream| {
        stream.change_group(group, |group, _| ids.iter().filter(|id| group.acknowledge(**id)).count())
    })?;
    let acknowledged = acknowledged.flatten().unwrap_or(0);
    view.count_more_changes(acknowledged);
    Ok(Reply::Integer(acknowledged as i64))
}

const XGROUP: Command = Command::container(
    CommandSpec {
        summary: "Makes, changes and removes groups of consumers.",
        complexity: "Depends on subcommand.",
        group: Group::Stream,
        since: Since::redis(5, 0, 0),
        arity: Arity::AtLeast(2),
        ..CommandSpec::new("XGROUP")
    },
    &[
        Command::new(
            Handler::Keys(delconsumer),
            CommandSpec {
                usage: "key groupname consumername",
                summary: "Removes a consumer from a group.",
                group: Group::Stream,
                since: Since::redis(5, 0, 0),
                arity: Arity::Exactly(5),
                keys: &[KeySpec::one(2, &["RW", "delete"])],
                flags: &[Flag::Write],
                categories: &[Category::Stream],
                ..CommandSpec::new("DELCONSUMER")
            },
        ),
        Command::new(
            Handler::Keys(destroy),
            CommandSpec {
                usage: "key groupname",
                summary: "Removes a group.",
                complexity: "O(N) for N entries that are pending",
                group: Group::Stream,
                since: Since::redis(5, 0, 0),
                arity: Arity::Exactly(4),
                keys: &[KeySpec::one(2, &["RW", "delete"])],
                flags: &[Flag::Write],
                categories: &[Category::Stream],
                ..CommandSpec::new("DESTROY")
            },
        ),
        Command::new(
            Handler::Keys(createconsumer),
            CommandSpec {
                usage: "key groupname consumername",
                summary: "Adds a consumer to a group.",
                group: Group::Stream,
                since: Since::redis(6, 2, 0),
                arity: Arity::Exactly(5),
                keys: &[KeySpec::one(2, &["RW", "insert"])],
                flags: &[Flag::Write, Flag::DenyOom],
                categories: &[Category::Stream],
                ..CommandSpec::new("CREATECONSUMER")
            },
        ),
        Command::new(
            Handler::Keys(setid),
            CommandSpec {
                usage: "key groupname <id | $> [ENTRIESREAD entries_read]",
                summary: "Sets the last entry that a group has read.",
                group: Group::Stream,
                since: Since::redis(5, 0, 0),
                arity: Arity::AtLeast(5),
                keys: &[KeySpec::one(2, &["RW", "update"])],
                flags: &[Flag::Write],
                categories: &[Category::Stream],
                ..CommandSpec::new("SETID")
            },
        ),
        Command::new(
            Handler::Connection(|call, _| help(call.table, "XGROUP", HELP)),
            CommandSpec {
                summary: "Explains the subcommands.",
                group: Group::Stream,
                since: Since::redis(5, 0, 0),
                arity: Arity::Exactly(2),
                flags: &[Flag::Loading, Flag::Stale],
                categories: &[Category::Stream],
                ..CommandSpec::new("HELP")
            },
        ),
        Command::new(
            Handler::Keys(create),
            CommandSpec {
                usage: "key groupname <id | $> [MKSTREAM] [ENTRIESREAD entries_read]",
                summary: "Makes a group.",
                group: Group::Stream,
                since: Since::redis(5, 0, 0),
                arity: Arity::AtLeast(5),
                keys: &[KeySpec::one(2, &["RW", "insert"])],
                flags: &[Flag::Write, Flag::DenyOom],
                categories: &[Category::Stream],
                ..CommandSpec::new("CREATE")
            },
        ),
    ],
);

/// Parses the options after the id.
fn parse_options(args: &mut Args<'_>, creates: bool) -> Result<(bool, Option<i64>), CommandError> {
    let (mut make, mut read) = (false, None);
    while !args.is_empty() {
        if creates && args.take("MKSTREAM") {
            make = true;
        } else if args.left() >= 2 && args.take("ENTRIESREAD") {
            let value = args.integer()?;
            if value < -1 {
                return Err(NEGATIVE_READ);
            }
            read = Some(value).filter(|value| *value >= 0);
        } else {
            return Err(subcommand_syntax_error(args, "XGROUP"));
        }
    }
    Ok((make, read))
}

/// A group's counter of entries read, which since 8.2.2 cannot exceed the number of entries added.
fn capped(read: Option<i64>, stream: Option<&Stream>, profile: &Profile) -> Option<i64> {
    const SINCE: Since = Since::redis(8, 2, 2);
    let added = stream.map_or(0, |stream| stream.log().added());
    read.map(|read| if profile.has(SINCE) { read.min(i64::try_from(added).unwrap_or(i64::MAX)) } else { read })
}

fn create<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, name, id) = (args.key()?, args.bytes()?, args.bytes()?);
    let (make, read) = parse_options(args, true)?;
    let stream = view.collection_to_write::<Stream>(key)?;
    let read = capped(read, stream, args.profile());
    if stream.is_none() && !make {
        return Err(NO_KEY);
    }
    if args.words().len() > 8 {
        return Err(subcommand_syntax_error(args, "XGROUP"));
    }
    let last = stream.map_or(StreamId::LEAST, |stream| stream.log().last());
    let id = if id == b"$" { last } else { parse(id, 0)? };
    let created = if stream.is_none() {
        let mut stream = Stream::default();
        stream.add_group(name, ConsumerGroup::new(id, read));
        view.put_value(key, stream);
        true
    } else {
        let added = view.change_quietly(key, |stream| stream.add_group(name, ConsumerGroup::new(id, read)))?;
        let added = added.unwrap_or(false);
        view.count_more_changes(usize::from(added));
        added
    };
    if !created {
        return Err(BUSY_GROUP);
    }
    view.notify(EventClass::Stream, "xgroup-create", key);
    Ok(Reply::OK)
}

/// The stream of a key that must exist.
fn existing_stream<'v>(view: &'v mut View<'_>, key: &[u8]) -> Result<&'v Stream, CommandError> {
    view.collection_to_write::<Stream>(key)?.ok_or(NO_KEY)
}

fn setid<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, name, id) = (args.key()?, args.bytes()?, args.bytes()?);
    let (_, read) = parse_options(args, false)?;
    let stream = existing_stream(view, key)?;
    if stream.group(name).is_none() {
        return Err(no_group(key, name));
    }
    if !matches!(args.words().len(), 5 | 7) {
        return Err(subcommand_syntax_error(args, "XGROUP"));
    }
    let id = if id == b"$" { stream.log().last() } else { parse_bound(id, 0)? };
    let read = capped(read, Some(stream), args.profile());
    view.change_quietly(key, |stream| {
        stream.change_group(name, |group, _| {
            group.set_last(id);
            group.set_read(read);
        })
    })?;
    view.count_more_changes(1);
    view.notify(EventClass::Stream, "xgroup-setid", key);
    Ok(Reply::OK)
}

fn destroy<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, name) = (args.key()?, args.bytes()?);
    existing_stream(view, key)?;
    let destroyed = view.change_quietly(key, |stream| stream.remove_group(name))?.unwrap_or(false);
    if destroyed {
        view.count_more_changes(1);
        view.notify(EventClass::Stream, "xgroup-destroy", key);
        view.signal(key);
    }
    Ok(Reply::Integer(i64::from(destroyed)))
}

fn createconsumer<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, name, consumer) = (args.key()?, args.bytes()?, args.bytes()?);
    let now = view.now();
    existing_stream(view, key)?;
    let created =
        view.change_quietly(key, |stream| stream.change_group(name, |group, _| group.add_consumer(consumer, now)))?;
    let created = created.flatten().ok_or_else(|| no_group(key, name))?;
    if created {
        notify_new_consumer(view, key);
    }
    Ok(Reply::Integer(i64::from(created)))
}

/// Publishes the creation of a consumer.
pub(super) fn notify_new_consumer(view: &mut View<'_>, key: &[u8]) {
    view.count_more_changes(1);
    view.notify(EventClass::Stream, "xgroup-createconsumer", key);
}

fn delconsumer<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, name, consumer) = (args.key()?, args.bytes()?, args.bytes()?);
    existing_stream(view, key)?;
    let removed =
        view.change_quietly(key, |stream| stream.change_group(name, |group, _| group.remove_consumer(consumer)))?;
    let removed = removed.flatten().ok_or_else(|| no_group(key, name))?;
    if removed.is_some() {
        view.count_more_changes(1);
        view.notify(EventClass::Stream, "xgroup-delconsumer", key);
    }
    Ok(Reply::Integer(removed.unwrap_or(0) as i64))
}

/// Records that a consumer was seen, and creates it if needed. Returns whether it is new.
pub(super) fn touch_consumer(group: &mut ConsumerGroup, name: &[u8], now: i64) -> bool {
    if let Some(consumer) = group.consumer_mut(name) {
        consumer.seen = now;
        return false;
    }
    group.add_consumer(name, now)
}

const HELP: &[&str] = &[
    "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CREATE <key> <groupname> <id|$> [option]",
    "    Create a new consumer group. Options are:",
    "    * MKSTREAM",
    "      Create the empty stream if it does not exist.",
    "    * ENTRIESREAD entries_read",
    "      Set the group's entries_read counter (internal use).",
    "CREATECONSUMER <key> <groupname> <consumer>",
    "    Create a new consumer in the specified group.",
    "DELCONSUMER <key> <groupname> <consumer>",
    "    Remove the specified consumer.",
    "DESTROY <key> <groupname>",
    "    Remove the specified group.",
    "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
    "    Set the current group ID and entries_read counter.",
    "HELP",
    "    Prints this help.",
];
