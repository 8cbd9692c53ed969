//! Sorted sets: adding, removing and looking up members, and ZSCAN.

use smallvec::SmallVec;

use super::scan_elements::scan;
use super::sorted_set_bounds::parse_score;
use crate::base::error::CommandError;
use crate::base::profile::{Profile, Since};
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{EventClass, SortedSet, SortedSetLimits, View};
use crate::protocol::{Reply, is_whole, write_double, write_short_double};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec, LockEffect};

pub(super) const ROWS: &[Command] = &[ZADD, ZCARD, ZINCRBY, ZMSCORE, ZRANK, ZREM, ZREVRANK, ZSCAN, ZSCORE];

const NX_AND_XX: CommandError = CommandError::fixed("ERR XX and NX options at the same time are not compatible");
const GT_LT_AND_NX: CommandError =
    CommandError::fixed("ERR GT, LT, and/or NX options at the same time are not compatible");
const ONE_INCREMENT: CommandError = CommandError::fixed("ERR INCR option supports a single increment-element pair");
const RESULT_IS_NAN: CommandError = CommandError::fixed("ERR resulting score is not a number (NaN)");

pub(super) fn score_reply(score: f64, profile: &Profile) -> Reply<'static> {
    if profile.since_redis(7, 2) { Reply::ShortDouble(score) } else { Reply::Double(score) }
}

const ZADD: Command = Command::new(
    Handler::Keys(zadd),
    CommandSpec {
        usage: "key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]",
        summary: "Adds members to a sorted set, or gives them other scores.",
        complexity: "O(log(N)) for each member, for N members of the set",
        group: Group::SortedSet,
        since: Since::redis(1, 2, 0),
        arity: Arity::AtLeast(4),
        keys: &[KeySpec::one(1, &["RW", "update"])],
        flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
        categories: &[Category::SortedSet],
        lock_effect: LockEffect::AddMember,
        ..CommandSpec::new("ZADD")
    },
);

const ZINCRBY: Command = Command::new(
    Handler::Keys(zincrby),
    CommandSpec {
        usage: "key increment member",
        summary: "Adds to the score of a member of a sorted set.",
        complexity: "O(log(N)) for N members of the set",
        arity: Arity::Exactly(4),
        keys: &[KeySpec::one(1, &["RW", "access", "update"])],
        lock_effect: LockEffect::OtherWrite,
        ..ZADD.spec.renamed("ZINCRBY")
    },
);

/// The options of ZADD and GEOADD.
#[derive(Default)]
pub(super) struct ZaddOptions {
    /// NX: only add members.
    pub(super) nx: bool,
    /// XX: only update members.
    pub(super) xx: bool,
    /// GT: only raise scores.
    gt: bool,
    /// LT: only lower scores.
    lt: bool,
    /// CH: count changed members as well.
    pub(super) ch: bool,
    incr: bool,
}

/// What happened to a member.
enum AddOutcome {
    Nothing,
    Added(f64),
    Updated(f64),
    Same(f64),
}

impl ZaddOptions {
    fn parse(args: &mut Args<'_>) -> Self {
        let mut options = Self::default();
        loop {
            let option = if args.take("NX") {
                &mut options.nx
            } else if args.take("XX") {
                &mut options.xx
            } else if args.take("GT") {
                &mut options.gt
            } else if args.take("LT") {
                &mut options.lt
            } else if args.take("CH") {
                &mut options.ch
            } else if args.take("INCR") {
                &mut options.incr
            } else {
                return options;
            };
            *option = true;
        }
    }

    /// An error for contradictory options.
    fn check(&self, count: usize) -> Result<(), CommandError> {
        if self.nx && self.xx {
            return Err(NX_AND_XX);
        }
        if (self.nx && (self.gt || self.lt)) || (self.gt && self.lt) {
            return Err(GT_LT_AND_NX);
        }
        if self.incr && count > 1 {
            return Err(ONE_INCREMENT);
        }
        Ok(())
    }

    fn apply(
        &self,
        set: &mut SortedSet,
        member: &[u8],
        score: f64,
        limits: &SortedSetLimits,
    ) -> Result<AddOutcome, CommandError> {
        let Some(place) = set.find(member) else {
            if self.xx {
                return Ok(AddOutcome::Nothing);
            }
            set.insert(member, score, limits);
            return Ok(AddOutcome::Added(score));
        };
        if self.nx {
            return Ok(AddOutcome::Nothing);
        }
        let old = set.score_at(place);
        let score = if self.incr { old + score } else { score };
        if score.is_nan() {
            return Err(RESULT_IS_NAN);
        }
        if (self.lt && score >= old) || (self.gt && score <= old) {
            return Ok(AddOutcome::Nothing);
        }
        if score == old {
            return Ok(AddOutcome::Same(score));
        }
        set.rescore(place, score);
        Ok(AddOutcome::Updated(score))
    }
}

fn zadd<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    let options = ZaddOptions::parse(args);
    add(view, args, key, &options)
}

fn zincrby<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    add(view, args, key, &ZaddOptions { incr: true, ..ZaddOptions::default() })
}

/// Adds the remaining arguments: scores, each followed by its member.
fn add<'v>(view: &mut View<'_>, args: &mut Args<'v>, key: &[u8], options: &ZaddOptions) -> CommandResult<'v> {
    let words = args.rest();
    let count = words.len() / 2;
    if count == 0 || !words.len().is_multiple_of(2) {
        return Err(CommandError::SYNTAX);
    }
    options.check(count)?;
    let mut members: SmallVec<[(f64, &[u8]); 4]> = SmallVec::with_capacity(count);
    for _ in 0..count {
        let score = parse_score(args.bytes()?, args.profile()).ok_or(CommandError::NOT_A_FLOAT)?;
        members.push((score, args.bytes()?));
    }
    add_members(view, key, &members, options, args.profile())
}

pub(super) fn add_members<'v>(
    view: &mut View<'_>,
    key: &[u8],
    members: &[(f64, &[u8])],
    options: &ZaddOptions,
    profile: &Profile,
) -> CommandResult<'v> {
    let count = members.len();
    let limits = view.settings().sorted_set_limits(profile);
    let first = members.first().map_or(&[][..], |(_, member)| member);
    let (mut added, mut updated, mut last) = (0, 0, None);
    let result = view.change_or_make(
        key,
        || SortedSet::for_member(first, count, &limits),
        |set: &mut SortedSet| {
            set.expect(count, &limits);
            let result = members.iter().try_for_each(|(score, member)| {
                last = match options.apply(set, member, *score, &limits)? {
                    AddOutcome::Nothing => None,
                    AddOutcome::Same(score) => Some(score),
                    AddOutcome::Added(score) => {
                        added += 1;
                        Some(score)
                    }
                    AddOutcome::Updated(score) => {
                        updated += 1;
                        Some(score)
                    }
                };
                Ok(())
            });
            (result, added + updated)
        },
    )?;
    if added + updated > 0 {
        view.notify(EventClass::SortedSet, if options.incr { "zincr" } else { "zadd" }, key);
    }
    result?;
    if options.incr {
        return Ok(last.map_or(Reply::Null, |score| score_reply(score, profile)));
    }
    Ok(Reply::Integer(if options.ch { added + updated } else { added } as i64))
}

const ZREM: Command = Command::new(
    Handler::Keys(zrem),
    CommandSpec {
        usage: "key member [member ...]",
        summary: "Removes members from a sorted set.",
        complexity: "O(M*log(N)) for M members of a set of N",
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::one(1, &["RW", "delete"])],
        flags: &[Flag::Write, Flag::Fast],
        lock_effect: LockEffect::RemoveMember,
        ..ZADD.spec.renamed("ZREM")
    },
);

fn zrem<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    let members = args.rest();
    remove(view, key, "zrem", |set| members.iter().filter(|member| set.remove(member).is_some()).count())
}

/// Removes members, and replies with their number.
pub(super) fn remove<'v>(
    view: &mut View<'_>,
    key: &[u8],
    event: &'static str,
    remove: impl FnOnce(&mut SortedSet) -> usize,
) -> CommandResult<'v> {
    let removal = view.change(key, |set: &mut SortedSet| {
        let removed = remove(set);
        (removed, removed)
    })?;
    let (removed, gone) = removal.unwrap_or_default();
    if removed > 0 {
        view.notify_removal(EventClass::SortedSet, event, key, gone);
    }
    Ok(Reply::Integer(removed as i64))
}

const ZCARD: Command = Command::new(
    Handler::Keys(zcard),
    CommandSpec {
        usage: "key",
        summary: "Tells how many members a sorted set has.",
        group: Group::SortedSet,
        since: Since::redis(1, 2, 0),
        arity: Arity::Exactly(2),
        keys: &[KeySpec::one(1, &["RO"])],
        flags: &[Flag::ReadOnly, Flag::Fast],
        categories: &[Category::SortedSet],
        lock_effect: LockEffect::CountMembers,
        ..CommandSpec::new("ZCARD")
    },
);

fn zcard<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    Ok(Reply::Integer(view.collection::<SortedSet>(args.key()?)?.map_or(0, SortedSet::len) as i64))
}

const ZSCORE: Command = Command::new(
    Handler::Keys(zscore),
    CommandSpec {
        usage: "key member",
        summary: "Returns the score of a member of a sorted set.",
        arity: Arity::Exactly(3),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        lock_effect: LockEffect::FindMember,
        ..ZCARD.spec.renamed("ZSCORE")
    },
);

fn zscore<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (set, member) = (view.collection::<SortedSet>(args.key()?)?, args.bytes()?);
    Ok(score_of(set, member, args.profile()))
}

const ZMSCORE: Command = Command::new(
    Handler::Keys(zmscore),
    CommandSpec {
        usage: "key member [member ...]",
        summary: "Returns the scores of several members of a sorted set.",
        complexity: "O(N) for N members that are asked for",
        since: Since::redis(6, 2, 0),
        arity: Arity::AtLeast(3),
        lock_effect: LockEffect::None,
        ..ZSCORE.spec.renamed("ZMSCORE")
    },
);

fn zmscore<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let set = view.collection::<SortedSet>(args.key()?)?;
    Ok(Reply::Array(args.rest().iter().map(|member| score_of(set, member, args.profile())).collect()))
}

fn score_of(set: Option<&SortedSet>, member: &[u8], profile: &Profile) -> Reply<'static> {
    set.and_then(|set| set.score(member)).map_or(Reply::Null, |score| score_reply(score, profile))
}

const ZRANK: Command = Command::new(
    Handler::Keys(|view, args| rank(view, args, false)),
    CommandSpec {
        usage: "key member",
        later_usages: &[(Since::redis(7, 2, 0), "key member [WITHSCORE]")],
        summary: "Tells how many members of a sorted set stand before one.",
        complexity: "O(log(N)) for N members of the set",
        since: Since::redis(2, 0, 0),
        later_arities: &[(Since::redis(7, 2, 0), Arity::AtLeast(3))],
        lock_effect: LockEffect::None,
        ..ZSCORE.spec.renamed("ZRANK")
    },
);

const ZREVRANK: Command = Command::new(
    Handler::Keys(|view, args| rank(view, args, true)),
    CommandSpec {
        summary: "Tells how many members of a sorted set stand behind one.",
        ..ZRANK.spec.renamed("ZREVRANK")
    },
);

fn rank<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, backwards: bool) -> CommandResult<'v> {
    let (key, member) = (args.key()?, args.bytes()?);
    if args.left() > 1 {
        let name = args.command_name();
        return Err(CommandError::new(format!("ERR wrong number of arguments for '{name}' command")));
    }
    let with_score = args.take("WITHSCORE");
    args.end()?;
    let set = view.collection::<SortedSet>(key)?;
    let Some((set, place)) = set.and_then(|set| Some((set, set.find(member)?))) else {
        return Ok(if with_score { Reply::NullArray } else { Reply::Null });
    };
    let rank = set.rank_at(place);
    let rank = Reply::Integer(if backwards { set.len() - 1 - rank } else { rank } as i64);
    if with_score {
        return Ok(Reply::Array(vec![rank, score_reply(set.score_at(place), args.profile())]));
    }
    Ok(rank)
}

const ZSCAN: Command = Command::new(
    Handler::Keys(zscan),
    CommandSpec {
        usage: "key cursor [MATCH pattern] [COUNT count]",
        later_usages: &[(Since::valkey(8, 1, 0), "key cursor [MATCH pattern] [COUNT count] [NOSCORES]")],
        summary: "Lists the members of a sorted set, and their scores, step by step.",
        complexity: "O(1) for a step, O(N) for all of them, for N members",
        group: Group::SortedSet,
        since: Since::redis(2, 8, 0),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::SortedSet],
        tips: &["nondeterministic_output"],
        ..CommandSpec::new("ZSCAN")
    },
);

fn zscan<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let profile = args.profile();
    scan(view, args, SortedSet::prepare_walk, |set, step, found| {
        let (next, members) = set.walk(step.cursor, step.count);
        for scored in members.filter(|scored| step.admits(scored.member())) {
            found.push(Reply::bulk(scored.member()));
            if !step.no_values {
                found.push(Reply::bulk(digits(scored.score(), set.is_packed(), profile)));
            }
        }
        next
    })
}

/// In a listpack whole numbers are stored, and shown, as integers.
fn digits(score: f64, packed: bool, profile: &Profile) -> Vec<u8> {
    let mut digits = Vec::new();
    if packed && (is_whole(score) || profile.since_redis(7, 2)) {
        write_short_double(&mut digits, score);
    } else {
        write_double(&mut digits, score);
    }
    digits
}
