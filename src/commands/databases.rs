//! Commands on whole databases: DBSIZE, FLUSHALL, FLUSHDB, SWAPDB.

use std::sync::atomic::Ordering;

use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::View;
use crate::protocol::{Reply, parse_integer};
use crate::spec::{Args, Arity, Category, CommandSpec, DatabaseArgs, Flag, Group, LockEffect};

pub(super) const ROWS: &[Command] = &[DBSIZE, FLUSHALL, FLUSHDB, SWAPDB];

const NOT_AN_INT: CommandError =
    CommandError::fixed("ERR value is out of range, value must between -2147483648 and 2147483647");
const INVALID_FIRST_INDEX: CommandError = CommandError::fixed("ERR invalid first DB index");
const INVALID_SECOND_INDEX: CommandError = CommandError::fixed("ERR invalid second DB index");

const DBSIZE: Command = Command::new(
    Handler::Database(dbsize),
    CommandSpec {
        summary: "Tells how many keys the selected database has.",
        group: Group::Server,
        flags: &[Flag::ReadOnly, Flag::Fast],
        categories: &[Category::Keyspace],
        tips: &["request_policy:all_shards", "response_policy:agg_sum"],
        ..CommandSpec::new("DBSIZE")
    },
);

fn dbsize<'v>(view: &'v mut View<'_>, _: &mut Args<'v>) -> CommandResult<'v> {
    Ok(Reply::Integer(view.len() as i64))
}

const FLUSHALL: Command = Command::new(
    Handler::AllDatabases(flushall),
    CommandSpec {
        usage: "[ASYNC | SYNC]",
        summary: "Deletes every key of every database.",
        complexity: "O(N) where N is the number of keys in all databases.",
        group: Group::Server,
        arity: Arity::AtLeast(1),
        flags: &[Flag::Write],
        categories: &[Category::Keyspace, Category::Dangerous],
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        databases: DatabaseArgs::All,
        lock_effect: LockEffect::FlushAll,
        ..CommandSpec::new("FLUSHALL")
    },
);

fn flushall<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let is_lazy = parse_flush_mode(view, args)?;
    let removed = view.flush_everything();
    view.replicate_anyway(args.words());
    if is_lazy {
        view.count_freed_lazily(removed);
    }
    Ok(Reply::OK)
}

const FLUSHDB: Command = Command::new(
    Handler::Database(flushdb),
    CommandSpec {
        usage: "[ASYNC | SYNC]",
        summary: "Deletes every key of the selected database.",
        complexity: "O(N) where N is the number of keys in the database.",
        group: Group::Server,
        arity: Arity::AtLeast(1),
        flags: &[Flag::Write],
        categories: &[Category::Keyspace, Category::Dangerous],
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        lock_effect: LockEffect::FlushDatabase,
        ..CommandSpec::new("FLUSHDB")
    },
);

fn flushdb<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let is_lazy = parse_flush_mode(view, args)?;
    let removed = view.flush();
    view.replicate_anyway(args.words());
    if is_lazy {
        view.count_freed_lazily(removed);
    }
    view.notify_flushed();
    Ok(Reply::OK)
}

/// Whether the mode is ASYNC, which `lazyfree-lazy-user-flush` can make the usual one. The memory is freed in either mode when the locks are released; clients can only see how it
/// is counted.
fn parse_flush_mode(view: &View<'_>, args: &mut Args<'_>) -> Result<bool, CommandError> {
    let is_lazy = match () {
        () if args.take("ASYNC") => true,
        () if args.take("SYNC") => false,
        () => view.settings().lazy_free.user_flush.load(Ordering::Relaxed),
    };
    args.end()?;
    Ok(is_lazy)
}

const SWAPDB: Command = Command::new(
    Handler::Everything(swapdb),
    CommandSpec {
        usage: "index1 index2",
        summary: "Lets two databases change places for every client.",
        complexity: "O(N) where N is the number of clients that watch or wait for keys of the two databases.",
        group: Group::Server,
        since: Since::redis(4, 0, 0),
        arity: Arity::Exactly(3),
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::Keyspace, Category::Dangerous],
        lock_effect: LockEffect::SwapDatabases,
        databases: DatabaseArgs::At(&[1, 2]),
        ..CommandSpec::new("SWAPDB")
    },
);

fn swapdb<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let one = parse_int(args.bytes()?).map_err(|_| INVALID_FIRST_INDEX)?;
    let other = parse_int(args.bytes()?).map_err(|_| INVALID_SECOND_INDEX)?;
    let (one, other) = (in_range(view.databases(), one)?, in_range(view.databases(), other)?);
    // Since 7.2, whoever waits for a key that has expired is not tried again, and the key stays until somebody looks.
    view.swap(one, other, !args.profile().since_redis(7, 2));
    view.replicate_anyway(args.words());
    Ok(Reply::OK)
}

/// Parses the index of a database.
pub(super) fn parse_db_index(view: &View<'_>, text: &[u8]) -> Result<u32, CommandError> {
    parse_db_index_below(view.databases(), text)
}

/// Like [`parse_db_index`], for commands without a view.
pub(super) fn parse_db_index_below(databases: u32, text: &[u8]) -> Result<u32, CommandError> {
    in_range(databases, parse_int(text)?)
}

fn parse_int(text: &[u8]) -> Result<i32, CommandError> {
    let value = parse_integer(text).ok_or(CommandError::NOT_AN_INTEGER)?;
    i32::try_from(value).map_err(|_| NOT_AN_INT)
}

fn in_range(databases: u32, index: i32) -> Result<u32, CommandError> {
    u32::try_from(index).ok().filter(|&db| db < databases).ok_or(CommandError::DB_INDEX_OUT_OF_RANGE)
}
