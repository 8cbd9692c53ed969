//! XINFO.

use super::help::{help, subcommand_syntax_error};
use super::stream_groups::no_group;
use super::stream_ids::{entries_reply, entry_reply, id_reply};
use crate::base::error::CommandError;
use crate::base::profile::{Profile, Since};
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{Group as ConsumerGroup, Log, Stream, StreamId, View};
use crate::protocol::{Reply, parse_integer};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec};

pub(super) const ROWS: &[Command] = &[XINFO];

/// The default COUNT of XINFO STREAM FULL.
const DEFAULT_COUNT: i64 = 10;

const XINFO: Command = Command::container(
    CommandSpec {
        summary: "Tells about streams and their groups.",
        complexity: "Depends on subcommand.",
        group: Group::Stream,
        since: Since::redis(5, 0, 0),
        arity: Arity::AtLeast(2),
        ..CommandSpec::new("XINFO")
    },
    &[
        Command::new(
            Handler::Keys(consumers),
            CommandSpec {
                usage: "key groupname",
                summary: "Lists the consumers of a group.",
                group: Group::Stream,
                since: Since::redis(5, 0, 0),
                arity: Arity::Exactly(4),
                keys: &[KeySpec::one(2, &["RO", "access"])],
                flags: &[Flag::ReadOnly],
                categories: &[Category::Stream],
                tips: &["nondeterministic_output"],
                ..CommandSpec::new("CONSUMERS")
            },
        ),
        Command::new(
            Handler::Keys(groups),
            CommandSpec {
                usage: "key",
                summary: "Lists the groups of a stream.",
                group: Group::Stream,
                since: Since::redis(5, 0, 0),
                arity: Arity::Exactly(3),
                keys: &[KeySpec::one(2, &["RO", "access"])],
                flags: &[Flag::ReadOnly],
                categories: &[Category::Stream],
                ..CommandSpec::new("GROUPS")
            },
        ),
        Command::new(
            Handler::Keys(stream),
            CommandSpec {
                usage: "key [FULL [COUNT count]]",
                summary: "Tells about a stream, or everything about it.",
                group: Group::Stream,
                since: Since::redis(5, 0, 0),
                arity: Arity::AtLeast(3),
                keys: &[KeySpec::one(2, &["RO", "access"])],
                flags: &[Flag::ReadOnly],
                categories: &[Category::Stream],
                ..CommandSpec::new("STREAM")
            },
        ),
        Command::new(
            Handler::Connection(|call, _| help(call.table, "XINFO", HELP)),
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
    ],
);

const HELP: &[&str] = &[
    "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CONSUMERS <key> <groupname>",
    "    Show consumers of <groupname>.",
    "GROUPS <key>",
    "    Show the stream consumer groups.",
    "STREAM <key> [FULL [COUNT <count>]",
    "    Show information about the stream.",
    "HELP",
    "    Prints this help.",
];

type Pairs<'v> = Vec<(Reply<'v>, Reply<'v>)>;

fn add<'v>(pairs: &mut Pairs<'v>, name: &'static str, value: Reply<'v>) {
    pairs.push((Reply::bulk(name.as_bytes()), value));
}

fn count(number: usize) -> Reply<'static> {
    Reply::Integer(number as i64)
}

fn integer_or_null(number: Option<i64>) -> Reply<'static> {
    number.map_or(Reply::Null, Reply::Integer)
}

fn stream_of<'v>(view: &'v mut View<'_>, key: &[u8]) -> Result<&'v Stream, CommandError> {
    view.collection::<Stream>(key)?.ok_or(CommandError::NO_SUCH_KEY)
}

fn consumers<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, name) = (args.key()?, args.bytes()?);
    let now = view.now();
    let shows_activity = args.profile().since_redis(7, 2);
    let group = stream_of(view, key)?.group(name).ok_or_else(|| no_group(key, name))?;
    let consumers = group.consumers().map(|(name, consumer)| {
        let mut pairs = Pairs::new();
        add(&mut pairs, "name", Reply::bulk(name));
        add(&mut pairs, "pending", count(consumer.pending().len()));
        add(&mut pairs, "idle", Reply::Integer(now.wrapping_sub(consumer.seen).max(0)));
        if shows_activity {
            let inactive = consumer.active.map_or(-1, |active| now.wrapping_sub(active).max(0));
            add(&mut pairs, "inactive", Reply::Integer(inactive));
        }
        Reply::Map(pairs)
    });
    Ok(Reply::Array(consumers.collect()))
}

fn groups<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let counts = args.profile().since_redis(7, 0);
    let stream = stream_of(view, args.key()?)?;
    let groups = stream.groups().map(|(name, group)| {
        let mut pairs = Pairs::new();
        add(&mut pairs, "name", Reply::bulk(name));
        add(&mut pairs, "consumers", count(group.consumers().len()));
        add(&mut pairs, "pending", count(group.pending().len()));
        add(&mut pairs, "last-delivered-id", id_reply(group.last()));
        if counts {
            add(&mut pairs, "entries-read", integer_or_null(group.read()));
            add(&mut pairs, "lag", integer_or_null(stream.log().lag(group, args.profile())));
        }
        Reply::Map(pairs)
    });
    Ok(Reply::Array(groups.collect()))
}

fn stream<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    let profile = args.profile();
    let stream = stream_of(view, key)?;
    let log = stream.log();
    let mut pairs = summary(log, profile);
    if args.is_empty() {
        add(&mut pairs, "groups", count(stream.groups().len()));
        add(&mut pairs, "first-entry", log.front().map_or(Reply::Null, entry_reply));
        add(&mut pairs, "last-entry", log.back().map_or(Reply::Null, entry_reply));
        return Ok(Reply::Map(pairs));
    }
    let whole = matches!(args.left(), 1 | 3) && args.take("FULL") && (args.is_empty() || args.take("COUNT"));
    if !whole {
        return Err(subcommand_syntax_error(args, "XINFO"));
    }
    let mut most = DEFAULT_COUNT;
    if let Some(word) = args.optional() {
        most = parse_integer(word).ok_or(CommandError::NOT_AN_INTEGER)?;
        if most < 0 {
            most = DEFAULT_COUNT;
        }
    }
    let most = u64::try_from(most).ok().filter(|most| *most > 0);
    add(&mut pairs, "entries", entries_reply(log.range(StreamId::LEAST, StreamId::GREATEST), most));
    let most = most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
    let groups = stream.groups().map(|(name, group)| full_group(log, name, group, most, profile));
    add(&mut pairs, "groups", Reply::Array(groups.collect()));
    Ok(Reply::Map(pairs))
}

fn summary<'v>(log: &Log, profile: &Profile) -> Pairs<'v> {
    let mut pairs = Pairs::new();
    add(&mut pairs, "length", Reply::Integer(log.len() as i64));
    add(&mut pairs, "radix-tree-keys", count(log.nodes().len()));
    add(&mut pairs, "radix-tree-nodes", count(log.tree_nodes()));
    add(&mut pairs, "last-generated-id", id_reply(log.last()));
    if profile.since_redis(7, 0) {
        add(&mut pairs, "max-deleted-entry-id", id_reply(log.max_deleted()));
        add(&mut pairs, "entries-added", Reply::Integer(log.added() as i64));
        add(&mut pairs, "recorded-first-entry-id", id_reply(log.first()));
    }
    pairs
}

fn full_group<'v>(log: &Log, name: &'v [u8], group: &'v ConsumerGroup, most: usize, profile: &Profile) -> Reply<'v> {
    let mut pairs = Pairs::new();
    add(&mut pairs, "name", Reply::bulk(name));
    add(&mut pairs, "last-delivered-id", id_reply(group.last()));
    if profile.since_redis(7, 0) {
        add(&mut pairs, "entries-read", integer_or_null(group.read()));
        add(&mut pairs, "lag", integer_or_null(log.lag(group, profile)));
    }
    add(&mut pairs, "pel-count", count(group.pending().len()));
    let pending = group.pending().iter().take(most).map(|(id, pending)| {
        let (time, times) = (Reply::Integer(pending.time), Reply::Integer(pending.count as i64));
        Reply::Array(vec![id_reply(*id), Reply::bulk(&*pending.consumer), time, times])
    });
    add(&mut pairs, "pending", Reply::Array(pending.collect()));
    let consumers = group.consumers().map(|(name, consumer)| {
        let mut pairs = Pairs::new();
        add(&mut pairs, "name", Reply::bulk(name));
        add(&mut pairs, "seen-time", Reply::Integer(consumer.seen));
        if profile.since_redis(7, 2) {
            add(&mut pairs, "active-time", Reply::Integer(consumer.active.unwrap_or(-1)));
        }
        add(&mut pairs, "pel-count", count(consumer.pending().len()));
        let pending = consumer.pending().iter().take(most).filter_map(|id| {
            let pending = group.pending().get(id)?;
            let (time, times) = (Reply::Integer(pending.time), Reply::Integer(pending.count as i64));
            Some(Reply::Array(vec![id_reply(*id), time, times]))
        });
        add(&mut pairs, "pending", Reply::Array(pending.collect()));
        Reply::Map(pairs)
    });
    add(&mut pairs, "consumers", Reply::Array(consumers.collect()));
    Reply::Map(pairs)
}
