//! SINTER, SUNION, SDIFF, their STORE forms, and SINTERCARD.

use std::collections::HashSet;
use std::hash::Hash;

use arrayvec::ArrayVec;
use foldhash::fast::FixedState;

use super::keys::delete;
use crate::base::error::CommandError;
use crate::base::profile::{Since, Version};
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{EventClass, Set, SetLimits, View};
use crate::protocol::{Reply, parse_integer};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec};

pub(super) const ROWS: &[Command] = &[SDIFF, SDIFFSTORE, SINTER, SINTERCARD, SINTERSTORE, SUNION, SUNIONSTORE];

const SINTER: Command = Command::new(
    Handler::Keys(sinter),
    CommandSpec {
        usage: "key [key ...]",
        summary: "Lists what several sets have in common.",
        complexity: "O(N*M) for M sets, the smallest of N members",
        group: Group::Set,
        since: Since::redis(1, 0, 0),
        arity: Arity::AtLeast(2),
        keys: &[KeySpec::range(1, -1, 1, &["RO", "access"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::Set],
        tips: &["nondeterministic_output_order"],
        ..CommandSpec::new("SINTER")
    },
);

const SUNION: Command = Command::new(
    Handler::Keys(|view, args| combine_and_reply(view, args, union)),
    CommandSpec {
        summary: "Lists all that is in one of several sets.",
        complexity: "O(N) for N members in all",
        ..SINTER.spec.renamed("SUNION")
    },
);

const SDIFF: Command = Command::new(
    Handler::Keys(|view, args| combine_and_reply(view, args, difference)),
    CommandSpec {
        summary: "Lists what is in the first set and in none of the others.",
        complexity: "O(N*M) for M sets, the first of N members",
        ..SINTER.spec.renamed("SDIFF")
    },
);

/// The releases that say of SINTERSTORE, too, that it overwrites.
const OVERWRITES: Since = Since::each(Version(7, 4, 0), Version(8, 0, 0));

const SINTERSTORE: Command = Command::new(
    Handler::Keys(|view, args| combine_and_store(view, args, intersection, "sinterstore")),
    CommandSpec {
        usage: "destination key [key ...]",
        summary: "Keeps what several sets have in common under a key.",
        arity: Arity::AtLeast(3),
        keys: &[
            KeySpec::one(1, &["RW", "update"]).with_later_flags(&[(OVERWRITES, &["OW", "update"])]),
            KeySpec::range(2, -1, 1, &["RO", "access"]),
        ],
        flags: &[Flag::Write, Flag::DenyOom],
        tips: &[],
        ..SINTER.spec.renamed("SINTERSTORE")
    },
);

const SUNIONSTORE: Command = Command::new(
    Handler::Keys(|view, args| combine_and_store(view, args, union, "sunionstore")),
    CommandSpec {
        summary: "Keeps all that is in one of several sets under a key.",
        complexity: "O(N) for N members in all",
        keys: OVERWRITTEN,
        ..SINTERSTORE.spec.renamed("SUNIONSTORE")
    },
);

const SDIFFSTORE: Command = Command::new(
    Handler::Keys(|view, args| combine_and_store(view, args, difference, "sdiffstore")),
    CommandSpec {
        summary: "Keeps what is in the first set and in none of the others under a key.",
        complexity: "O(N*M) for M sets, the first of N members",
        keys: OVERWRITTEN,
        ..SINTERSTORE.spec.renamed("SDIFFSTORE")
    },
);

const OVERWRITTEN: &[KeySpec] = &[KeySpec::one(1, &["OW", "update"]), KeySpec::range(2, -1, 1, &["RO", "access"])];

/// Combines sets into one. `None` is an absent set.
type Combination = fn(&[Option<&Set>], &SetLimits) -> Set;

fn combine_and_reply<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, combine: Combination) -> CommandResult<'v> {
    let limits = view.settings().set_limits(args.profile());
    let result = combine(&view.collections::<Set>(args.rest())?, &limits);
    Ok(Reply::Set(result.iter().map(|member| Reply::bulk(member.into_owned())).collect()))
}

/// The members come in the order of the smallest set.
fn sinter<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let mut members = Vec::new();
    for_each_common(&view.collections::<Set>(args.rest())?, |member| {
        members.push(Reply::bulk(member.to_vec()));
        true
    });
    Ok(Reply::Set(members))
}

fn combine_and_store<'v>(
    view: &'v mut View<'_>,
    args: &mut Args<'v>,
    combine: Combination,
    event: &'static str,
) -> CommandResult<'v> {
    let destination = args.key()?;
    let limits = view.settings().set_limits(args.profile());
    let mut result = combine(&view.collections::<Set>(args.rest())?, &limits);
    result.condense(&limits);
    let count = result.len();
    if count > 0 {
        view.put_value(destination, result);
        view.notify(EventClass::Set, event, destination);
    } else {
        delete(view, destination);
    }
    Ok(Reply::Integer(count as i64))
}

fn intersection(sets: &[Option<&Set>], limits: &SetLimits) -> Set {
    let smallest = sets.iter().copied().flatten().min_by_key(|set| set.len());
    let integers = smallest.is_some_and(|set| set.encoding() == "intset");
    // Releases with listpack sets start with a listpack, and convert to an intset at the end if all members are
    // integers.
    let mut result = if integers || !limits.converts_upfront { Set::of_integers() } else { Set::packed() };
    for_each_common(sets, |member| {
        result.add(member, limits);
        true
    });
    result
}

/// Visits the members common to all sets, in the smallest set's order, until `visit` returns false.
fn for_each_common(sets: &[Option<&Set>], mut visit: impl FnMut(&[u8]) -> bool) {
    let Some(mut sets) = sets.iter().copied().collect::<Option<Vec<&Set>>>() else { return };
    sets.sort_by_key(|set| set.len());
    drop_repeated(&mut sets, std::ptr::from_ref::<Set>);
    let Some((smallest, others)) = sets.split_first() else { return };
    for member in smallest.iter().filter(|member| others.iter().all(|set| set.contains(member))) {
        if !visit(&member) {
            break;
        }
    }
}

/// Leaves each of many sets there once: a client can name one as often as it likes. Their order stays.
pub(super) fn drop_repeated<S: Copy, A: Eq + Hash>(sets: &mut Vec<S>, address: impl Fn(S) -> A) {
    /// So many are compared one with another.
    const FEW: usize = 8;
    if sets.len() <= FEW {
        let mut seen = ArrayVec::<A, FEW>::new();
        sets.retain(|set| {
            let address = address(*set);
            let is_new = !seen.contains(&address);
            seen.extend(is_new.then_some(address));
            is_new
        });
        return;
    }
    let mut seen = HashSet::with_capacity_and_hasher(sets.len(), FixedState::default());
    sets.retain(|set| seen.insert(address(*set)));
}

fn union(sets: &[Option<&Set>], limits: &SetLimits) -> Set {
    let mut result = Set::of_integers();
    let mut sets: Vec<&Set> = sets.iter().copied().flatten().collect();
    drop_repeated(&mut sets, std::ptr::from_ref::<Set>);
    for member in sets.into_iter().flat_map(|set| set.iter()) {
        result.add(&member, limits);
    }
    result
}

fn difference(sets: &[Option<&Set>], limits: &SetLimits) -> Set {
    let mut result = Set::of_integers();
    let Some((Some(first), others)) = sets.split_first() else { return result };
    let mut others: Vec<&Set> = others.iter().copied().flatten().collect();
    if others.iter().any(|other| std::ptr::eq(*other, *first)) {
        return result;
    }
    drop_repeated(&mut others, std::ptr::from_ref::<Set>);
    for member in first.iter().filter(|member| !others.iter().any(|set| set.contains(member))) {
        result.add(&member, limits);
    }
    result
}

const SINTERCARD: Command = Command::new(
    Handler::Keys(sintercard),
    CommandSpec {
        usage: "numkeys key [key ...] [LIMIT limit]",
        summary: "Tells how much several sets have in common.",
        since: Since::redis(7, 0, 0),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::counted(1, 1, 1, &["RO", "access"])],
        flags: &[Flag::ReadOnly, Flag::MovableKeys],
        tips: &[],
        ..SINTER.spec.renamed("SINTERCARD")
    },
);

const NO_KEYS: CommandError = CommandError::fixed("ERR numkeys should be greater than 0");
const TOO_MANY_KEYS: CommandError = CommandError::fixed("ERR Number of keys can't be greater than number of args");
const NEGATIVE_LIMIT: CommandError = CommandError::fixed("ERR LIMIT can't be negative");

fn sintercard<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let count = parse_integer(args.bytes()?).filter(|&count| count > 0).ok_or(NO_KEYS)?;
    let count = usize::try_from(count).ok().filter(|&count| count <= args.left()).ok_or(TOO_MANY_KEYS)?;
    let keys = args.next_words(count);
    let mut limit = 0;
    while !args.is_empty() {
        if args.left() < 2 || !args.take("LIMIT") {
            return Err(CommandError::SYNTAX);
        }
        limit = parse_integer(args.bytes()?).and_then(|limit| usize::try_from(limit).ok()).ok_or(NEGATIVE_LIMIT)?;
    }
    let mut found = 0;
    for_each_common(&view.collections::<Set>(keys)?, |_| {
        found += 1;
        found != limit
    });
    Ok(Reply::Integer(found as i64))
}
