//! ZRANDMEMBER.

use super::sampling::{OUT_OF_RANGE, parse_count, sample};
use super::sorted_set_ranges::members_reply;
use crate::base::profile::Since;
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{Scored, SortedSet, View};
use crate::protocol::Reply;
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec};

pub(super) const ROWS: &[Command] = &[ZRANDMEMBER];

const ZRANDMEMBER: Command = Command::new(
    Handler::Keys(zrandmember),
    CommandSpec {
        usage: "key [count [WITHSCORES]]",
        summary: "Returns members of a sorted set at random.",
        complexity: "O(M*log(N)) for M members of a set of N",
        group: Group::SortedSet,
        since: Since::redis(6, 2, 0),
        arity: Arity::AtLeast(2),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::SortedSet],
        tips: &["nondeterministic_output"],
        ..CommandSpec::new("ZRANDMEMBER")
    },
);

fn zrandmember<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    if args.is_empty() {
        let count = view.collection::<SortedSet>(key)?.map_or(0, SortedSet::len);
        let rank = view.random_below(count);
        let set = view.peek(key).and_then(|entry| entry.collection::<SortedSet>());
        return Ok(Reply::bulk_or_null(set.and_then(|set| set.get(rank)).map(Scored::member)));
    }
    let count = parse_count(args.bytes()?)?;
    let scores = args.take("WITHSCORES");
    args.end()?;
    if scores && count.unsigned_abs() > i64::MAX.unsigned_abs() / 2 {
        return Err(OUT_OF_RANGE);
    }
    let size = view.collection::<SortedSet>(key)?.map_or(0, SortedSet::len);
    if size == 0 {
        return Ok(Reply::Array(Vec::new()));
    }
    let ranks = sample(view, size, count)?;
    let Some(set) = view.peek(key).and_then(|entry| entry.collection::<SortedSet>()) else {
        return Ok(Reply::Array(Vec::new()));
    };
    Ok(members_reply(ranks.into_iter().filter_map(|rank| set.get(rank)), scores, args.profile()))
}
