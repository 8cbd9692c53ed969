//! Members of a set at random.

use super::draws::{draw, parse_count};
use crate::error::CommandError;
use crate::keyspace::{EventClass, Set, View};
use crate::profile::Since;
use crate::resp::{Reply, parse_integer};
use crate::spec::{Args, Arity, Category, CommandResult, CommandSpec, Flag, Group, Handler, KeySpec};

pub(super) const ROWS: &[CommandSpec] = &[SPOP, SRANDMEMBER];

/// When at most a fifth as many members as are popped stay behind, it is those that are moved.
const FEW: usize = 5;

const SPOP: CommandSpec = CommandSpec {
    usage: "key [count]",
    summary: "Removes members of a set at random, and returns them.",
    complexity: "O(N) for N members",
    group: Group::Set,
    since: Since::redis(1, 0, 0),
    arity: Arity::AtLeast(2),
    keys: &[KeySpec::one(1, &["RW", "access", "delete"])],
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::Set],
    tips: &["nondeterministic_output"],
    ..CommandSpec::new("SPOP", Handler::Keys(spop))
};

fn spop<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    let count = if args.is_empty() { None } else { Some(args.bytes()?) };
    args.end()?;
    let Some(count) = count else {
        return Ok(pop_one(view, key)?.map_or(Reply::Null, Reply::bulk));
    };
    let count = parse_integer(count).ok_or(CommandError::MUST_BE_POSITIVE)?;
    let count = usize::try_from(count).map_err(|_| CommandError::MUST_BE_POSITIVE)?;
    let popped = pop(view, args, key, count)?.unwrap_or_default();
    Ok(Reply::Set(popped.into_iter().map(Reply::bulk).collect()))
}

/// Removes a member.
fn pop_one(view: &mut View<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, CommandError> {
    let draw = view.draws();
    let removal = view.change(key, |set: &mut Set| {
        let place = if set.len() > 1 { draw(set.len()) } else { 0 };
        (set.take(place), 1)
    })?;
    let Some((popped, gone)) = removal else { return Ok(None) };
    tell_of_pop(view, key, gone);
    Ok(popped)
}

fn tell_of_pop(view: &mut View<'_>, key: &[u8], gone: bool) {
    view.notify(EventClass::Set, "spop", key);
    if gone {
        view.notify(EventClass::Generic, "del", key);
    }
}

/// Removes so many members, or all.
fn pop(view: &mut View<'_>, args: &Args<'_>, key: &[u8], count: usize) -> Result<Option<Vec<Vec<u8>>>, CommandError> {
    let Some(set) = view.collection_to_write::<Set>(key)? else { return Ok(None) };
    let size = set.len();
    if count == 0 {
        return Ok(None);
    }
    let limits = view.settings().set_limits(args.profile());
    let stay = size.saturating_sub(count);
    let swapped = stay > 0 && stay * FEW <= count;
    let moves = if swapped { stay } else { size - stay };
    let places: Vec<usize> =
        (0..if stay > 0 { moves } else { 0 }).map(|moved| view.random_below(size - moved)).collect();
    let removal = view.change(key, |set: &mut Set| {
        let moved: Vec<Vec<u8>> = places.iter().filter_map(|&place| set.take(place)).collect();
        let popped = if stay == 0 {
            let members = set.iter().map(|member| member.into_owned()).collect();
            *set = Set::of_integers();
            members
        } else if swapped {
            let mut kept = Set::for_member(moved.first().map_or(&[], Vec::as_slice), 1, &limits);
            for member in &moved {
                kept.add(member, &limits);
            }
            std::mem::replace(set, kept).iter().map(|member| member.into_owned()).collect()
        } else {
            moved
        };
        let removed = popped.len();
        (popped, removed)
    })?;
    let Some((popped, gone)) = removal else { return Ok(None) };
    tell_of_pop(view, key, gone);
    Ok(Some(popped))
}

const SRANDMEMBER: CommandSpec = CommandSpec {
    usage: "key [count]",
    summary: "Returns members of a set at random.",
    complexity: "O(N) for N members",
    group: Group::Set,
    since: Since::redis(1, 0, 0),
    arity: Arity::AtLeast(2),
    keys: &[KeySpec::one(1, &["RO", "access"])],
    flags: &[Flag::ReadOnly],
    categories: &[Category::Set],
    tips: &["nondeterministic_output"],
    ..CommandSpec::new("SRANDMEMBER", Handler::Keys(srandmember))
};

fn srandmember<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    if args.is_empty() {
        let place = view.collection::<Set>(key)?.map_or(0, Set::len);
        let place = view.random_below(place);
        let member = view.peek(key).and_then(|entry| entry.collection::<Set>()?.get(place));
        return Ok(member.map_or(Reply::Null, Reply::bulk));
    }
    let count = args.bytes()?;
    args.end()?;
    let count = parse_count(count)?;
    let size = view.collection::<Set>(key)?.map_or(0, Set::len);
    if size == 0 {
        return Ok(Reply::Array(Vec::new()));
    }
    let places = draw(view, size, count)?;
    let Some(set) = view.peek(key).and_then(|entry| entry.collection::<Set>()) else {
        return Ok(Reply::Array(Vec::new()));
    };
    Ok(Reply::Array(places.into_iter().filter_map(|place| set.get(place)).map(Reply::bulk).collect()))
}
