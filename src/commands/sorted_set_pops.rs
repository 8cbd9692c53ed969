//! ZPOPMIN, ZPOPMAX, ZMPOP and their blocking forms.

use super::blocking::{FROM_SCRIPTS, may_serve};
use super::mpop::MultiPop;
use super::sorted_sets::score_reply;
use super::timeout;
use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::base::profile::{Profile, Since};
use crate::commands::{BlockForKeys, BlockingResult, Command, CommandResult, Handler, ReadyKey, ReplyOrBlock};
use crate::data::keyspace::{EventClass, SortedSet, ValueKind, View};
use crate::protocol::{Reply, Words, parse_integer};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec};

pub(super) const ROWS: &[Command] = &[BZMPOP, BZPOPMAX, BZPOPMIN, ZMPOP, ZPOPMAX, ZPOPMIN];

const ZPOPMIN: Command = Command::new(
    Handler::Keys(|view, args| zpop(view, args, Side::Least)),
    CommandSpec {
        usage: "key [count]",
        summary: "Removes the members of a sorted set with the least scores, and returns them.",
        complexity: "O(M*log(N)) for M members of a set of N",
        group: Group::SortedSet,
        since: Since::redis(5, 0, 0),
        arity: Arity::AtLeast(2),
        keys: &[KeySpec::one(1, &["RW", "access", "delete"])],
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::SortedSet],
        ..CommandSpec::new("ZPOPMIN")
    },
);

const ZPOPMAX: Command = Command::new(
    Handler::Keys(|view, args| zpop(view, args, Side::Greatest)),
    CommandSpec {
        summary: "Removes the members of a sorted set with the greatest scores, and returns them.",
        ..ZPOPMIN.spec.renamed("ZPOPMAX")
    },
);

/// A member and its score.
type Popped = (Vec<u8>, f64);

/// Which members are popped first.
#[derive(Clone, Copy)]
enum Side {
    Least,
    Greatest,
}

impl Side {
    fn event(self) -> &'static str {
        match self {
            Self::Least => "zpopmin",
            Self::Greatest => "zpopmax",
        }
    }

    fn command(self) -> &'static [u8] {
        match self {
            Self::Least => b"ZPOPMIN",
            Self::Greatest => b"ZPOPMAX",
        }
    }

    fn pop_from(self, set: &mut SortedSet) -> Option<Popped> {
        match self {
            Self::Least => set.take(0),
            Self::Greatest => set.take(set.len().saturating_sub(1)),
        }
    }

    fn parse(args: &mut Args<'_>) -> Result<Self, CommandError> {
        if args.take("MIN") {
            Ok(Self::Least)
        } else if args.take("MAX") {
            Ok(Self::Greatest)
        } else {
            Err(CommandError::SYNTAX)
        }
    }
}

fn zpop<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, side: Side) -> CommandResult<'v> {
    let key = args.key()?;
    let count = args.optional();
    args.end()?;
    let count = match count {
        None => None,
        Some(count) => {
            let count = parse_integer(count).and_then(|count| usize::try_from(count).ok());
            Some(count.ok_or(CommandError::MUST_BE_POSITIVE)?)
        }
    };
    let Some(count) = count else {
        let popped = pop_one(view, key, side)?;
        return Ok(Reply::Array(popped.map_or(Vec::new(), |scored| member_and_score(scored, args.profile()).into())));
    };
    Ok(pairs(pop(view, key, side, count)?, args.profile()))
}

fn pop_one(view: &mut View<'_>, key: &[u8], side: Side) -> Result<Option<Popped>, CommandError> {
    let removal = view.change(key, |set: &mut SortedSet| (side.pop_from(set), 1))?;
    let Some((popped, gone)) = removal else { return Ok(None) };
    notify_pop(view, key, side, gone);
    Ok(popped)
}

fn notify_pop(view: &mut View<'_>, key: &[u8], side: Side, gone: bool) {
    view.notify_removal(EventClass::SortedSet, side.event(), key, gone);
}

/// Pops `count` members, or all.
fn pop(view: &mut View<'_>, key: &[u8], side: Side, count: usize) -> Result<Vec<Popped>, CommandError> {
    let removal = view.change(key, |set: &mut SortedSet| {
        let popped: Vec<Popped> = (0..count.min(set.len())).filter_map(|_| side.pop_from(set)).collect();
        let removed = popped.len();
        (popped, removed)
    })?;
    let (popped, gone) = removal.unwrap_or_default();
    if !popped.is_empty() {
        notify_pop(view, key, side, gone);
    }
    Ok(popped)
}

fn replicate_pops(view: &mut View<'_>, key: &[u8], side: Side, popped: &[Popped]) {
    view.replicate_as(&[side.command(), key, popped.len().to_string().as_bytes()]);
}

fn member_and_score((member, score): Popped, profile: &Profile) -> [Reply<'static>; 2] {
    [Reply::bulk(member), score_reply(score, profile)]
}

fn pairs(popped: Vec<Popped>, profile: &Profile) -> Reply<'static> {
    Reply::Pairs(popped.into_iter().map(|scored| member_and_score(scored, profile).into()).collect())
}

const ZMPOP: Command = Command::new(
    Handler::Keys(zmpop),
    CommandSpec {
        usage: "numkeys key [key ...] <MIN | MAX> [COUNT count]",
        summary: "Removes the members with the least or the greatest scores of the first sorted set that there is.",
        complexity: "O(K+M*log(N)) for K keys and M members of a set of N",
        since: Since::redis(7, 0, 0),
        arity: Arity::AtLeast(4),
        keys: &[KeySpec::counted(1, 1, 1, &["RW", "access", "delete"])],
        flags: &[Flag::Write, Flag::MovableKeys],
        ..ZPOPMIN.spec.renamed("ZMPOP")
    },
);

/// The first key that holds a sorted set and may be served.
fn first_with_members<'a>(
    view: &mut View<'_>,
    keys: Words<'a>,
    ready: ReadyKey<'_>,
) -> Result<Option<&'a [u8]>, CommandError> {
    for key in keys.iter().filter(|key| may_serve(key, ready)) {
        if view.collection_to_write::<SortedSet>(key)?.is_some() {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

fn zmpop<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let request = MultiPop::parse(args, Side::parse)?;
    let Some(key) = first_with_members(view, request.keys, None)? else { return Ok(Reply::NullArray) };
    let popped = pop(view, key, request.end, request.count)?;
    replicate_pops(view, key, request.end, &popped);
    Ok(Reply::Array(vec![Reply::bulk(key), nested(popped, args.profile())]))
}

/// Nested arrays in RESP2 and in RESP3.
fn nested(popped: Vec<Popped>, profile: &Profile) -> Reply<'static> {
    Reply::Array(popped.into_iter().map(|scored| Reply::Array(member_and_score(scored, profile).into())).collect())
}

const BZPOPMIN: Command = Command::new(
    Handler::Blocking(|view, args, ready| bzpop(view, args, ready, Side::Least)),
    CommandSpec {
        usage: "key [key ...] timeout",
        summary: "Removes the member with the least score of one of several sorted sets, and waits for one if need be.",
        complexity: "O(log(N)) for N members of the set",
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::range(1, -2, 1, &["RW", "access", "delete"])],
        flags: &[Flag::Write, Flag::NoScript, Flag::Blocking, Flag::Fast],
        later_flags: &[(FROM_SCRIPTS, &[Flag::Write, Flag::Blocking, Flag::Fast])],
        ..ZPOPMIN.spec.renamed("BZPOPMIN")
    },
);

const BZPOPMAX: Command = Command::new(
    Handler::Blocking(|view, args, ready| bzpop(view, args, ready, Side::Greatest)),
    CommandSpec {
        summary: "Removes the member with the greatest score of one of several sorted sets, and waits for one if need be.",
        ..BZPOPMIN.spec.renamed("BZPOPMAX")
    },
);

const BZMPOP: Command = Command::new(
    Handler::Blocking(bzmpop),
    CommandSpec {
        usage: "timeout numkeys key [key ...] <MIN | MAX> [COUNT count]",
        summary: "Does what ZMPOP does, and waits for a sorted set if need be.",
        arity: Arity::AtLeast(5),
        keys: &[KeySpec::counted(2, 1, 1, &["RW", "access", "delete"])],
        flags: &[Flag::Write, Flag::Blocking, Flag::MovableKeys],
        ..ZMPOP.spec.renamed("BZMPOP")
    },
);

fn bzpop<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, ready: ReadyKey<'v>, side: Side) -> BlockingResult<'v> {
    let keys = args.next_words(args.left() - 1);
    let deadline = timeout::parse_seconds(view, args)?;
    let Some(key) = first_with_members(view, keys, ready)? else { return Ok(block(keys, deadline)) };
    let popped = pop(view, key, side, 1)?;
    view.replicate_as(&[side.command(), key]);
    let popped = popped.into_iter().flat_map(|scored| member_and_score(scored, args.profile()));
    Ok(ReplyOrBlock::Reply(Reply::Array([Reply::bulk(key)].into_iter().chain(popped).collect())))
}

fn bzmpop<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, ready: ReadyKey<'v>) -> BlockingResult<'v> {
    let mut timeout = timeout::put_aside(args)?;
    let MultiPop { keys, end: side, count } = MultiPop::parse(args, Side::parse)?;
    let deadline = timeout::parse_seconds(view, &mut timeout)?;
    let Some(key) = first_with_members(view, keys, ready)? else { return Ok(block(keys, deadline)) };
    let popped = pop(view, key, side, count)?;
    replicate_pops(view, key, side, &popped);
    Ok(ReplyOrBlock::Reply(Reply::Array(vec![Reply::bulk(key), nested(popped, args.profile())])))
}

fn block(keys: Words<'_>, deadline: Option<Millis>) -> ReplyOrBlock<'_> {
    ReplyOrBlock::Block(BlockForKeys::new(keys, ValueKind::SortedSet, deadline))
}
