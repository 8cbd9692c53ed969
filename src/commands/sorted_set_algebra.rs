//! ZUNION, ZINTER, ZDIFF, their STORE forms, and ZINTERCARD. A set counts as a sorted set with all scores 1.

use super::set_algebra::drop_repeated;
use super::sorted_set_bounds::parse_score;
use super::sorted_set_ranges::store;
use super::sorted_sets::score_reply;
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{Entry, Set, SortedSet, SortedSetLimits, ValueKind, View};
use crate::protocol::{Reply, Words, parse_integer};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec};

pub(super) const ROWS: &[Command] = &[ZDIFF, ZDIFFSTORE, ZINTER, ZINTERCARD, ZINTERSTORE, ZUNION, ZUNIONSTORE];

const NO_WEIGHT: CommandError = CommandError::fixed("ERR weight value is not a float");
const NEGATIVE_LIMIT: CommandError = CommandError::fixed("ERR LIMIT can't be negative");

const ZUNION: Command = Command::new(
    Handler::Keys(|view, args| combine_and_reply(view, args, Combination::Union)),
    CommandSpec {
        usage: "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]",
        summary: "Lists all that is in one of several sorted sets.",
        complexity: "O(N)+O(M*log(M)) for N members in all, M of them different",
        group: Group::SortedSet,
        since: Since::redis(6, 2, 0),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::counted(1, 1, 1, &["RO", "access"])],
        flags: &[Flag::ReadOnly, Flag::MovableKeys],
        categories: &[Category::SortedSet],
        ..CommandSpec::new("ZUNION")
    },
);

const ZINTER: Command = Command::new(
    Handler::Keys(|view, args| combine_and_reply(view, args, Combination::Intersection)),
    CommandSpec {
        summary: "Lists what several sorted sets have in common.",
        complexity: "O(N*K)+O(M*log(M)) for K sets, the smallest of N members, and M members in common",
        ..ZUNION.spec.renamed("ZINTER")
    },
);

const ZDIFF: Command = Command::new(
    Handler::Keys(|view, args| combine_and_reply(view, args, Combination::Difference)),
    CommandSpec {
        usage: "numkeys key [key ...] [WITHSCORES]",
        summary: "Lists what is in the first sorted set and in none of the others.",
        complexity: "O(N*K)+O(M*log(M)) for K sets, the first of N members, M of which are in no other",
        ..ZUNION.spec.renamed("ZDIFF")
    },
);

const ZUNIONSTORE: Command = Command::new(
    Handler::Keys(|view, args| combine_and_store(view, args, Combination::Union, "zunionstore")),
    CommandSpec {
        usage: "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]",
        summary: "Keeps all that is in one of several sorted sets under a key.",
        since: Since::redis(2, 0, 0),
        arity: Arity::AtLeast(4),
        keys: &[KeySpec::one(1, &["OW", "update"]), KeySpec::counted(2, 1, 1, &["RO", "access"])],
        flags: &[Flag::Write, Flag::DenyOom, Flag::MovableKeys],
        ..ZUNION.spec.renamed("ZUNIONSTORE")
    },
);

const ZINTERSTORE: Command = Command::new(
    Handler::Keys(|view, args| combine_and_store(view, args, Combination::Intersection, "zinterstore")),
    CommandSpec {
        summary: "Keeps what several sorted sets have in common under a key.",
        complexity: ZINTER.spec.complexity,
        ..ZUNIONSTORE.spec.renamed("ZINTERSTORE")
    },
);

const ZDIFFSTORE: Command = Command::new(
    Handler::Keys(|view, args| combine_and_store(view, args, Combination::Difference, "zdiffstore")),
    CommandSpec {
        usage: "destination numkeys key [key ...]",
        summary: "Keeps what is in the first sorted set and in none of the others under a key.",
        complexity: ZDIFF.spec.complexity,
        since: Since::redis(6, 2, 0),
        ..ZUNIONSTORE.spec.renamed("ZDIFFSTORE")
    },
);

const ZINTERCARD: Command = Command::new(
    Handler::Keys(zintercard),
    CommandSpec {
        usage: "numkeys key [key ...] [LIMIT limit]",
        summary: "Tells how much several sorted sets have in common.",
        complexity: "O(N*K) for K sets, the smallest of N members",
        since: Since::redis(7, 0, 0),
        ..ZUNION.spec.renamed("ZINTERCARD")
    },
);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Combination {
    Union,
    Intersection,
    Difference,
}

/// The option AGGREGATE.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Least,
    Greatest,
}

impl Aggregate {
    fn apply(self, one: f64, other: f64) -> f64 {
        match self {
            Self::Sum => nan_to_zero(one + other),
            Self::Least => {
                if other < one {
                    other
                } else {
                    one
                }
            }
            Self::Greatest => {
                if other > one {
                    other
                } else {
                    one
                }
            }
        }
    }
}

/// NaN, such as the sum of both infinities, becomes 0.
fn nan_to_zero(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value }
}

/// One of the combined sets.
#[derive(Clone, Copy)]
struct Source<'v> {
    members: Members<'v>,
    weight: f64,
}

#[derive(Clone, Copy)]
enum Members<'v> {
    None,
    Sorted(&'v SortedSet),
    Plain(&'v Set),
}

impl<'v> Members<'v> {
    fn of(entry: Option<&'v Entry>) -> Self {
        let sorted = || entry?.collection::<SortedSet>().map(Self::Sorted);
        let plain = || entry?.collection::<Set>().map(Self::Plain);
        sorted().or_else(plain).unwrap_or(Self::None)
    }

    /// What tells a set apart from the others.
    fn address(self) -> *const () {
        match self {
            Self::None => std::ptr::null(),
            Self::Sorted(set) => std::ptr::from_ref(set).cast(),
            Self::Plain(set) => std::ptr::from_ref(set).cast(),
        }
    }

    fn len(self) -> usize {
        match self {
            Self::None => 0,
            Self::Sorted(set) => set.len(),
            Self::Plain(set) => set.len(),
        }
    }

    fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            Self::None => None,
            Self::Sorted(set) => set.score(member),
            Self::Plain(set) => set.contains(member).then_some(1.0),
        }
    }

    /// Visits members with their scores until `visit` returns false.
    fn for_each(self, mut visit: impl FnMut(&[u8], f64) -> bool) {
        match self {
            Self::None => {}
            Self::Sorted(set) => {
                set.iter().all(|scored| visit(scored.member(), scored.score()));
            }
            Self::Plain(set) => {
                set.iter().all(|member| visit(&member, 1.0));
            }
        }
    }
}

/// Parses `numkeys key [key ...]`.
fn parse_keys<'a>(args: &mut Args<'a>) -> Result<Words<'a>, CommandError> {
    let number = args.integer()?;
    if number < 1 {
        let name = args.command_name();
        return Err(CommandError::new(format!("ERR at least 1 input key is needed for '{name}' command")));
    }
    let number = usize::try_from(number).ok().filter(|&number| number <= args.left());
    Ok(args.next_words(number.ok_or(CommandError::SYNTAX)?))
}

/// The combined sets and the options.
struct CombineRequest<'v> {
    sources: Vec<Source<'v>>,
    aggregate: Aggregate,
    scores: bool,
}

const KINDS: &[ValueKind] = &[ValueKind::SortedSet, ValueKind::Set];

impl<'v> CombineRequest<'v> {
    fn parse(
        view: &'v mut View<'_>,
        args: &mut Args<'_>,
        combination: Combination,
        stored: bool,
    ) -> Result<Self, CommandError> {
        let keys = parse_keys(args)?;
        let entries = view.entries(keys, KINDS)?;
        let sources = entries.into_iter().map(|entry| Source { members: Members::of(entry), weight: 1.0 });
        let mut request = Self { sources: sources.collect(), aggregate: Aggregate::Sum, scores: false };
        let weighs = combination != Combination::Difference;
        while !args.is_empty() {
            if weighs && args.left() > keys.len() && args.take("WEIGHTS") {
                for source in &mut request.sources {
                    source.weight = parse_score(args.bytes()?, args.profile()).ok_or(NO_WEIGHT)?;
                }
            } else if weighs && args.left() > 1 && args.take("AGGREGATE") {
                request.aggregate = if args.take("SUM") {
                    Aggregate::Sum
                } else if args.take("MIN") {
                    Aggregate::Least
                } else if args.take("MAX") {
                    Aggregate::Greatest
                } else {
                    return Err(CommandError::SYNTAX);
                };
            } else if !stored && args.take("WITHSCORES") {
                request.scores = true;
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        if weighs {
            // The sum of doubles depends on the order.
            request.sources.sort_by_key(|source| source.members.len());
        }
        Ok(request)
    }

    fn run(&self, combination: Combination, limits: &SortedSetLimits) -> SortedSet {
        let mut result = SortedSet::new(false);
        let Some((first, others)) = self.sources.split_first() else { return result };
        match combination {
            Combination::Union => {
                // A set that is named many times is looked at once.
                for same in self.sources.chunk_by(|one, next| one.members.address() == next.members.address()) {
                    same[0].members.for_each(|member, score| {
                        let weighted = same.iter().map(|source| nan_to_zero(source.weight * score));
                        let found = result.find(member);
                        let before = found.map(|place| result.score_at(place));
                        let scores = before.into_iter().chain(weighted);
                        let Some(joined) = scores.reduce(|one, other| self.aggregate.apply(one, other)) else {
                            return true;
                        };
                        match found {
                            None => result.insert(member, joined, limits),
                            Some(place) => result.rescore(place, joined),
                        }
                        true
                    });
                }
            }
            Combination::Intersection => for_each_common(first, others, self.aggregate, |member, score| {
                result.insert(member, score, limits);
                true
            }),
            Combination::Difference => {
                let mut others: Vec<Members<'_>> = others.iter().map(|other| other.members).collect();
                if others.iter().any(|other| other.address() == first.members.address()) {
                    return result;
                }
                drop_repeated(&mut others, Members::address);
                first.members.for_each(|member, score| {
                    if !others.iter().any(|other| other.score(member).is_some()) {
                        result.insert(member, score, limits);
                    }
                    true
                });
            }
        }
        result
    }
}

/// Visits the members common to all sets until `visit` returns false.
fn for_each_common(
    first: &Source<'_>,
    others: &[Source<'_>],
    aggregate: Aggregate,
    mut visit: impl FnMut(&[u8], f64) -> bool,
) {
    first.members.for_each(|member, score| {
        let start = nan_to_zero(first.weight * score);
        // A set that is named many times is asked once.
        let mut last = (first.members.address(), score);
        let joined = others.iter().try_fold(start, |joined, other| {
            if other.members.address() != last.0 {
                last = (other.members.address(), other.members.score(member)?);
            }
            Some(aggregate.apply(joined, last.1 * other.weight))
        });
        joined.is_none_or(|score| visit(member, score))
    });
}

fn combine_and_reply<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, combination: Combination) -> CommandResult<'v> {
    let limits = view.settings().sorted_set_limits(args.profile());
    let request = CombineRequest::parse(view, args, combination, false)?;
    let result = request.run(combination, &limits);
    let member = |member: &[u8]| Reply::bulk(member.to_vec());
    if request.scores {
        let pair = result.iter().map(|scored| (member(scored.member()), score_reply(scored.score(), args.profile())));
        return Ok(Reply::Pairs(pair.collect()));
    }
    Ok(Reply::Array(result.iter().map(|scored| member(scored.member())).collect()))
}

fn combine_and_store<'v>(
    view: &'v mut View<'_>,
    args: &mut Args<'v>,
    combination: Combination,
    event: &'static str,
) -> CommandResult<'v> {
    let destination = args.key()?;
    let limits = view.settings().sorted_set_limits(args.profile());
    let mut result = CombineRequest::parse(view, args, combination, true)?.run(combination, &limits);
    result.pack(&limits);
    Ok(store(view, destination, result, event))
}

fn zintercard<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let keys = parse_keys(args)?;
    let mut sets: Vec<Members<'_>> = view.entries(keys, KINDS)?.into_iter().map(Members::of).collect();
    let mut limit = 0;
    while !args.is_empty() {
        if args.left() < 2 || !args.take("LIMIT") {
            return Err(CommandError::SYNTAX);
        }
        limit = parse_integer(args.bytes()?).and_then(|limit| usize::try_from(limit).ok()).ok_or(NEGATIVE_LIMIT)?;
    }
    sets.sort_by_key(|set| set.len());
    drop_repeated(&mut sets, |set| set.address());
    let sources: Vec<Source<'_>> = sets.into_iter().map(|members| Source { members, weight: 1.0 }).collect();
    let mut found = 0;
    if let Some((first, others)) = sources.split_first() {
        for_each_common(first, others, Aggregate::Sum, |_, _| {
            found += 1;
            found != limit
        });
    }
    Ok(Reply::Integer(found as i64))
}
