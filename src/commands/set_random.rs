//! SPOP and SRANDMEMBER.

use std::sync::atomic::Ordering;

use super::sampling::{parse_count, sample};
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{EventClass, Set, SetLimits, View};
use crate::protocol::{Reply, parse_integer};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec, LockEffect};

pub(super) const ROWS: &[Command] = &[SPOP, SRANDMEMBER];

/// If fewer members than a fifth of those popped remain, the remaining ones are moved instead.
const KEEP_RATIO: usize = 5;

const SPOP: Command = Command::new(
    Handler::Keys(spop),
    CommandSpec {
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
        lock_effect: LockEffect::OtherWrite,
        ..CommandSpec::new("SPOP")
    },
);

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

fn pop_one(view: &mut View<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, CommandError> {
    let sample = view.draws();
    let removal = view.change(key, |set: &mut Set| {
        let place = if set.len() > 1 { sample(set.len()) } else { 0 };
        (set.take(place), 1)
    })?;
    let Some((popped, gone)) = removal else { return Ok(None) };
    if let Some(member) = &popped {
        view.replicate_as(&[b"SREM", key, member]);
    }
    notify_pop(view, key, gone);
    Ok(popped)
}

fn notify_pop(view: &mut View<'_>, key: &[u8], gone: bool) {
    view.notify_removal(EventClass::Set, "spop", key, gone);
}

/// Pops `count` random members, or all.
fn pop(view: &mut View<'_>, args: &Args<'_>, key: &[u8], count: usize) -> Result<Option<Vec<Vec<u8>>>, CommandError> {
    let Some(set) = view.collection_to_write::<Set>(key)? else { return Ok(None) };
    let size = set.len();
    if count == 0 {
        return Ok(None);
    }
    let limits = view.settings().set_limits(args.profile());
    let stay = size.saturating_sub(count);
    let swapped = stay > 0 && stay * KEEP_RATIO <= count;
    let indexes: Vec<usize> = if swapped {
        sample(view, size, stay as i64)?
    } else {
        (0..if stay > 0 { count } else { 0 }).map(|moved| view.random_below(size - moved)).collect()
    };
    let removal = view.change(key, |set: &mut Set| {
        let popped: Vec<Vec<u8>> = if stay == 0 {
            let members = set.iter().map(|member| member.into_owned()).collect();
            *set = Set::of_integers();
            members
        } else if swapped {
            keep_only(set, &indexes, &limits)
        } else {
            indexes.iter().filter_map(|&place| set.take(place)).collect()
        };
        let removed = popped.len();
        (popped, removed)
    })?;
    let Some((popped, gone)) = removal else { return Ok(None) };
    if stay == 0 {
        let lazily = view.settings().lazy_free.server_del.load(Ordering::Relaxed);
        view.replicate_as(&[if lazily { b"UNLINK".as_slice() } else { b"DEL" }, key]);
    } else if view.is_replicated() {
        popped.iter().for_each(|member| view.replicate_as(&[b"SREM", key, member]));
    }
    notify_pop(view, key, gone);
    Ok(Some(popped))
}

/// Removes all members except those at `indexes`, in ascending order. The others keep their order, so that a running
/// SSCAN does not miss them.
fn keep_only(set: &mut Set, indexes: &[usize], limits: &SetLimits) -> Vec<Vec<u8>> {
    let first = indexes.first().and_then(|&place| set.get(place)).unwrap_or_default();
    let mut kept = Set::for_member(&first, 1, limits);
    let mut indexes = indexes.iter().copied().peekable();
    let mut removed = Vec::new();
    for (place, member) in set.iter().enumerate() {
        if indexes.next_if_eq(&place).is_some() {
            kept.add(&member, limits);
        } else {
            removed.push(member.into_owned());
        }
    }
    *set = kept;
    removed
}

const SRANDMEMBER: Command = Command::new(
    Handler::Keys(srandmember),
    CommandSpec {
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
        ..CommandSpec::new("SRANDMEMBER")
    },
);

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
    let indexes = sample(view, size, count)?;
    let Some(set) = view.peek(key).and_then(|entry| entry.collection::<Set>()) else {
        return Ok(Reply::Array(Vec::new()));
    };
    Ok(Reply::Array(indexes.into_iter().filter_map(|place| set.get(place)).map(Reply::bulk).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_of_a_set_keeps_its_order() {
        let limits = SetLimits { integers: 4, packed: 0, longest: 64, converts_upfront: false };
        let mut set = Set::of_members();
        let names: Vec<Vec<u8>> = (0..20).map(|number| format!("m{number}").into_bytes()).collect();
        names.iter().for_each(|name| assert!(set.add(name, &limits)));
        let removed = keep_only(&mut set, &[3, 4, 17], &limits);
        let stayed: Vec<Vec<u8>> = set.iter().map(|member| member.into_owned()).collect();
        assert_eq!(stayed, [3, 4, 17].map(|place: usize| names[place].clone()));
        assert_eq!(removed.len(), 17);
        assert!(!removed.iter().any(|name| stayed.contains(name)));
    }
}
