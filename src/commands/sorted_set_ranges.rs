//! Ranges of sorted sets by rank, score or member: ZRANGE, ZCOUNT, ZREMRANGEBYRANK and their variants.

use std::ops::Range;

use super::index_ranges::element_range;
use super::keys::delete;
use super::sorted_set_bounds::{LexRange, ScoreRange};
use super::sorted_sets::{remove, score_reply};
use crate::base::error::CommandError;
use crate::base::profile::{Profile, Since};
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{EventClass, Scored, SortedSet, View};
use crate::protocol::{Reply, parse_integer};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec, LockEffect};

pub(super) const ROWS: &[Command] = &[
    ZCOUNT,
    ZLEXCOUNT,
    ZRANGE,
    ZRANGEBYLEX,
    ZRANGEBYSCORE,
    ZRANGESTORE,
    ZREMRANGEBYLEX,
    ZREMRANGEBYRANK,
    ZREMRANGEBYSCORE,
    ZREVRANGE,
    ZREVRANGEBYLEX,
    ZREVRANGEBYSCORE,
];

const LIMIT_OF_RANKS: CommandError =
    CommandError::fixed("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX");
const SCORES_BY_LEX: CommandError =
    CommandError::fixed("ERR syntax error, WITHSCORES not supported in combination with BYLEX");

const ZRANGE: Command = Command::new(
    Handler::Keys(|view, args| range(view, args, None, None)),
    CommandSpec {
        usage: "key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
        summary: "Lists a range of the members of a sorted set.",
        complexity: "O(log(N)+M) for M members of a set of N",
        group: Group::SortedSet,
        since: Since::redis(1, 2, 0),
        arity: Arity::AtLeast(4),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::SortedSet],
        ..CommandSpec::new("ZRANGE")
    },
);

const ZREVRANGE: Command = Command::new(
    Handler::Keys(|view, args| range(view, args, Some(By::Rank), Some(true))),
    CommandSpec {
        usage: "key start stop [WITHSCORES]",
        summary: "Lists a range of the members of a sorted set, the greatest first.",
        deprecated: Some(("6.2.0", "`ZRANGE` with the `REV` argument")),
        ..ZRANGE.spec.renamed("ZREVRANGE")
    },
);

const ZRANGEBYSCORE: Command = Command::new(
    Handler::Keys(|view, args| range(view, args, Some(By::Score), Some(false))),
    CommandSpec {
        usage: "key min max [WITHSCORES] [LIMIT offset count]",
        summary: "Lists the members of a sorted set whose scores are in a range.",
        since: Since::redis(1, 0, 5),
        deprecated: Some(("6.2.0", "`ZRANGE` with the `BYSCORE` argument")),
        ..ZRANGE.spec.renamed("ZRANGEBYSCORE")
    },
);

const ZREVRANGEBYSCORE: Command = Command::new(
    Handler::Keys(|view, args| range(view, args, Some(By::Score), Some(true))),
    CommandSpec {
        usage: "key max min [WITHSCORES] [LIMIT offset count]",
        summary: "Lists the members of a sorted set whose scores are in a range, the greatest first.",
        since: Since::redis(2, 2, 0),
        deprecated: Some(("6.2.0", "`ZRANGE` with the `REV` and `BYSCORE` arguments")),
        ..ZRANGE.spec.renamed("ZREVRANGEBYSCORE")
    },
);

const ZRANGEBYLEX: Command = Command::new(
    Handler::Keys(|view, args| range(view, args, Some(By::Member), Some(false))),
    CommandSpec {
        usage: "key min max [LIMIT offset count]",
        summary: "Lists the members of a sorted set that stand between two others.",
        since: Since::redis(2, 8, 9),
        deprecated: Some(("6.2.0", "`ZRANGE` with the `BYLEX` argument")),
        ..ZRANGE.spec.renamed("ZRANGEBYLEX")
    },
);

const ZREVRANGEBYLEX: Command = Command::new(
    Handler::Keys(|view, args| range(view, args, Some(By::Member), Some(true))),
    CommandSpec {
        usage: "key max min [LIMIT offset count]",
        summary: "Lists the members of a sorted set that stand between two others, the last first.",
        deprecated: Some(("6.2.0", "`ZRANGE` with the `REV` and `BYLEX` arguments")),
        ..ZRANGEBYLEX.spec.renamed("ZREVRANGEBYLEX")
    },
);

const ZRANGESTORE: Command = Command::new(
    Handler::Keys(zrangestore),
    CommandSpec {
        usage: "dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]",
        summary: "Keeps a range of the members of a sorted set under a key.",
        since: Since::redis(6, 2, 0),
        arity: Arity::AtLeast(5),
        keys: &[KeySpec::one(1, &["OW", "update"]), KeySpec::one(2, &["RO", "access"])],
        flags: &[Flag::Write, Flag::DenyOom],
        ..ZRANGE.spec.renamed("ZRANGESTORE")
    },
);

/// What the bounds of a range are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Member,
}

enum Bounds<'a> {
    Ranks(i64, i64),
    Scores(ScoreRange),
    Between(LexRange<'a>),
}

/// The parsed arguments.
struct RangeQuery<'a> {
    bounds: Bounds<'a>,
    backwards: bool,
    scores: bool,
    offset: i64,
    limit: i64,
}

impl<'a> RangeQuery<'a> {
    /// Parses the arguments after the key. `by` and `backwards` are `None` if options decide them.
    fn parse(args: &mut Args<'a>, by: Option<By>, backwards: Option<bool>, stored: bool) -> Result<Self, CommandError> {
        let (start, stop) = (args.bytes()?, args.bytes()?);
        let (mut chosen, mut reversed) = (by, backwards);
        let (mut scores, mut offset, mut limit) = (false, 0, -1);
        while !args.is_empty() {
            if !stored && args.take("WITHSCORES") {
                scores = true;
            } else if args.left() > 2 && args.take("LIMIT") {
                (offset, limit) = (args.integer()?, args.integer()?);
            } else if backwards.is_none() && reversed.is_none() && args.take("REV") {
                reversed = Some(true);
            } else if by.is_none() && chosen.is_none() && args.take("BYLEX") {
                chosen = Some(By::Member);
            } else if by.is_none() && chosen.is_none() && args.take("BYSCORE") {
                chosen = Some(By::Score);
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        let by = chosen.unwrap_or(By::Rank);
        let backwards = reversed.unwrap_or(false);
        if limit != -1 && by == By::Rank {
            return Err(LIMIT_OF_RANKS);
        }
        if scores && by == By::Member {
            return Err(SCORES_BY_LEX);
        }
        let (least, most) = if backwards { (stop, start) } else { (start, stop) };
        let bounds = match by {
            By::Rank => Bounds::Ranks(parse_rank(start)?, parse_rank(stop)?),
            By::Score => Bounds::Scores(ScoreRange::parse(least, most, args.profile())?),
            By::Member => Bounds::Between(LexRange::parse(least, most)?),
        };
        Ok(Self { bounds, backwards, scores, offset, limit })
    }

    /// The ranks in the range.
    fn ranks(&self, set: &SortedSet) -> Range<usize> {
        let skipped = usize::try_from(self.offset);
        let ranks = match (&self.bounds, skipped) {
            (Bounds::Ranks(start, stop), _) => {
                let ranks = element_range(*start, *stop, set.len());
                return if self.backwards { set.len() - ranks.end..set.len() - ranks.start } else { ranks };
            }
            (_, Err(_)) => return 0..0,
            (Bounds::Between(between), Ok(skipped)) => between.ranks(set, skipped, self.backwards),
            (Bounds::Scores(scores), Ok(skipped)) => {
                let Range { start, end } = scores.ranks(set);
                let skipped = skipped.min(end - start);
                if self.backwards { start..end - skipped } else { start + skipped..end }
            }
        };
        let Ok(limit) = usize::try_from(self.limit) else { return ranks };
        let count = ranks.len().min(limit);
        if self.backwards { ranks.end - count..ranks.end } else { ranks.start..ranks.start + count }
    }
}

fn parse_rank(word: &[u8]) -> Result<i64, CommandError> {
    parse_integer(word).ok_or(CommandError::NOT_AN_INTEGER)
}

fn range<'v>(
    view: &'v mut View<'_>,
    args: &mut Args<'v>,
    by: Option<By>,
    backwards: Option<bool>,
) -> CommandResult<'v> {
    let key = args.key()?;
    let query = RangeQuery::parse(args, by, backwards, false)?;
    let Some(set) = view.collection::<SortedSet>(key)? else { return Ok(Reply::Array(Vec::new())) };
    let members = set.range(query.ranks(set), query.backwards);
    Ok(members_reply(members, query.scores, args.profile()))
}

pub(super) fn members_reply<'v>(
    members: impl Iterator<Item = Scored<'v>>,
    scores: bool,
    profile: &Profile,
) -> Reply<'v> {
    if scores {
        let pair = |scored: Scored<'v>| (Reply::bulk(scored.member()), score_reply(scored.score(), profile));
        return Reply::Pairs(members.map(pair).collect());
    }
    Reply::Array(members.map(|scored| Reply::bulk(scored.member())).collect())
}

fn zrangestore<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (destination, source) = (args.key()?, args.key()?);
    let query = RangeQuery::parse(args, None, None, true)?;
    let limits = view.settings().sorted_set_limits(args.profile());
    let mut result = SortedSet::default();
    if let Some(set) = view.collection::<SortedSet>(source)? {
        let ranks = query.ranks(set);
        if matches!(query.bounds, Bounds::Ranks(..)) && ranks.len() > limits.packed {
            result.spread();
        }
        for scored in set.range(ranks, query.backwards) {
            result.insert(scored.member(), scored.score(), &limits);
        }
    }
    Ok(store(view, destination, result, "zrangestore"))
}

/// Stores a result, or deletes the key if it is empty. Replies with the number of members.
pub(super) fn store(view: &mut View<'_>, key: &[u8], set: SortedSet, event: &'static str) -> Reply<'static> {
    let count = set.len();
    if count > 0 {
        view.put_value(key, set);
        view.notify(EventClass::SortedSet, event, key);
    } else {
        delete(view, key);
    }
    Reply::Integer(count as i64)
}

const ZCOUNT: Command = Command::new(
    Handler::Keys(|view, args| count(view, args, By::Score)),
    CommandSpec {
        usage: "key min max",
        summary: "Tells how many members of a sorted set have scores in a range.",
        complexity: "O(log(N)) for N members of the set",
        since: Since::redis(2, 0, 0),
        arity: Arity::Exactly(4),
        flags: &[Flag::ReadOnly, Flag::Fast],
        lock_effect: LockEffect::CountMembers,
        ..ZRANGE.spec.renamed("ZCOUNT")
    },
);

const ZLEXCOUNT: Command = Command::new(
    Handler::Keys(|view, args| count(view, args, By::Member)),
    CommandSpec {
        summary: "Tells how many members of a sorted set stand between two others.",
        since: Since::redis(2, 8, 9),
        lock_effect: LockEffect::None,
        ..ZCOUNT.spec.renamed("ZLEXCOUNT")
    },
);

fn count<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, by: By) -> CommandResult<'v> {
    let key = args.key()?;
    let query = RangeQuery::parse(args, Some(by), Some(false), true)?;
    Ok(Reply::Integer(view.collection(key)?.map_or(0, |set| query.ranks(set).len()) as i64))
}

const ZREMRANGEBYRANK: Command = Command::new(
    Handler::Keys(|view, args| remove_range(view, args, By::Rank, "zremrangebyrank")),
    CommandSpec {
        usage: "key start stop",
        summary: "Removes a range of the members of a sorted set.",
        complexity: "O(log(N)+M*log(N)) for M members of a set of N",
        since: Since::redis(2, 0, 0),
        arity: Arity::Exactly(4),
        keys: &[KeySpec::one(1, &["RW", "delete"])],
        flags: &[Flag::Write],
        ..ZRANGE.spec.renamed("ZREMRANGEBYRANK")
    },
);

const ZREMRANGEBYSCORE: Command = Command::new(
    Handler::Keys(|view, args| remove_range(view, args, By::Score, "zremrangebyscore")),
    CommandSpec {
        usage: "key min max",
        summary: "Removes the members of a sorted set whose scores are in a range.",
        since: Since::redis(1, 2, 0),
        ..ZREMRANGEBYRANK.spec.renamed("ZREMRANGEBYSCORE")
    },
);

const ZREMRANGEBYLEX: Command = Command::new(
    Handler::Keys(|view, args| remove_range(view, args, By::Member, "zremrangebylex")),
    CommandSpec {
        usage: "key min max",
        summary: "Removes the members of a sorted set that stand between two others.",
        since: Since::redis(2, 8, 9),
        ..ZREMRANGEBYRANK.spec.renamed("ZREMRANGEBYLEX")
    },
);

fn remove_range<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, by: By, event: &'static str) -> CommandResult<'v> {
    let key = args.key()?;
    let query = RangeQuery::parse(args, Some(by), Some(false), true)?;
    remove(view, key, event, |set| {
        let ranks = query.ranks(set);
        ranks.clone().rev().filter_map(|rank| set.take(rank)).count()
    })
}
