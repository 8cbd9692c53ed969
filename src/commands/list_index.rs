//! Commands on lists by index or by element: LINDEX, LINSERT, LPOS, LRANGE, LREM, LSET, LTRIM.

use super::index_ranges::element_range;
use super::lists::{element_reply, limits, push_element};
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{End, EventClass, List, View};
use crate::data::listpack::Element;
use crate::protocol::{Bulks, Reply, parse_integer};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec, LockEffect};

pub(super) const ROWS: &[Command] = &[LINDEX, LINSERT, LPOS, LRANGE, LREM, LSET, LTRIM];

const INDEX_OUT_OF_RANGE: CommandError = CommandError::fixed("ERR index out of range");
const TOO_SMALL: CommandError =
    CommandError::fixed("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807");
const ZERO_RANK: CommandError = CommandError::fixed(
    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start \
     from the end of the list",
);
const NEGATIVE_COUNT: CommandError = CommandError::fixed("ERR COUNT can't be negative");
const NEGATIVE_LENGTH: CommandError = CommandError::fixed("ERR MAXLEN can't be negative");

/// The index from the front. Negative indexes count from the back.
fn resolve_index(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 { index.checked_add(len as i64)? } else { index };
    usize::try_from(index).ok().filter(|&index| index < len)
}

/// Parses an integer. Since 7.2 the least integer, which has no negative, is an error.
fn parse_negatable(args: &mut Args<'_>) -> Result<i64, CommandError> {
    let number = args.integer()?;
    if number == i64::MIN && args.profile().since_redis(7, 2) { Err(TOO_SMALL) } else { Ok(number) }
}

const LINDEX: Command = Command::new(
    Handler::Keys(lindex),
    CommandSpec {
        usage: "key index",
        summary: "Returns the element at a place of a list.",
        complexity: "O(N) for N elements between it and the nearer end, but many are passed at once",
        group: Group::List,
        since: Since::redis(1, 0, 0),
        arity: Arity::Exactly(3),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::List],
        ..CommandSpec::new("LINDEX")
    },
);

fn lindex<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let Some(list) = view.collection::<List>(args.key()?)? else { return Ok(Reply::Null) };
    let index = resolve_index(args.integer()?, list.len());
    Ok(index.and_then(|index| list.get(index)).map_or(Reply::Null, element_reply))
}

const LRANGE: Command = Command::new(
    Handler::Keys(lrange),
    CommandSpec {
        usage: "key start stop",
        summary: "Returns the elements of a list between two places.",
        complexity: "O(S+N) for S elements between them and the nearer end, and N returned",
        group: Group::List,
        since: Since::redis(1, 0, 0),
        arity: Arity::Exactly(4),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::List],
        ..CommandSpec::new("LRANGE")
    },
);

fn lrange<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, start, stop) = (args.key()?, args.integer()?, args.integer()?);
    let Some(list) = view.collection::<List>(key)? else { return Ok(Reply::Array(Vec::new())) };
    let range = element_range(start, stop, list.len());
    let mut elements = Bulks::with_capacity(range.len());
    list.range(range.start, range.len()).for_each(|element| push_element(&mut elements, element));
    Ok(Reply::Bulks(elements))
}

const LTRIM: Command = Command::new(
    Handler::Keys(ltrim),
    CommandSpec {
        usage: "key start stop",
        summary: "Removes the elements of a list that are not between two places.",
        complexity: "O(N) for N elements removed",
        group: Group::List,
        since: Since::redis(1, 0, 0),
        arity: Arity::Exactly(4),
        keys: &[KeySpec::one(1, &["RW", "delete"])],
        flags: &[Flag::Write],
        categories: &[Category::List],
        ..CommandSpec::new("LTRIM")
    },
);

fn ltrim<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, start, stop) = (args.key()?, args.integer()?, args.integer()?);
    let limits = limits(view, args);
    let Some(list) = view.collection_to_write::<List>(key)? else { return Ok(Reply::OK) };
    let kept = element_range(start, stop, list.len());
    let gone = view.trim_list(key, (kept.start, kept.end), &limits)?;
    view.notify_removal(EventClass::List, "ltrim", key, gone);
    Ok(Reply::OK)
}

const LSET: Command = Command::new(
    Handler::Keys(lset),
    CommandSpec {
        usage: "key index element",
        summary: "Replaces the element at a place of a list.",
        complexity: "O(N) for N elements between it and the nearer end, but many are passed at once",
        group: Group::List,
        since: Since::redis(1, 0, 0),
        arity: Arity::Exactly(4),
        keys: &[KeySpec::one(1, &["RW", "update"])],
        flags: &[Flag::Write, Flag::DenyOom],
        categories: &[Category::List],
        lock_effect: LockEffect::OtherWrite,
        ..CommandSpec::new("LSET")
    },
);

fn lset<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    let limits = limits(view, args);
    let list = view.collection_to_write::<List>(key)?.ok_or(CommandError::NO_SUCH_KEY)?;
    let mut index = args.integer()?;
    if args.profile().since_redis(7, 2) {
        // Since 7.2 Redis passes the index through a C `int`.
        index = i64::from(index as i32);
    }
    let index = resolve_index(index, list.len());
    let element = args.bytes()?;
    view.change(key, |list: &mut List| {
        list.expect(1, element.len(), &limits);
        if let Some(index) = index {
            list.set(index, element, &limits);
            list.relax(&limits);
        }
        ((), usize::from(index.is_some()))
    })?;
    if index.is_none() {
        return Err(INDEX_OUT_OF_RANGE);
    }
    view.notify(EventClass::List, "lset", key);
    Ok(Reply::OK)
}

const LINSERT: Command = Command::new(
    Handler::Keys(linsert),
    CommandSpec {
        usage: "key <BEFORE | AFTER> pivot element",
        summary: "Adds an element to a list before or after another.",
        complexity: "O(N) for N elements in front of the other one",
        group: Group::List,
        since: Since::redis(2, 2, 0),
        arity: Arity::Exactly(5),
        keys: &[KeySpec::one(1, &["RW", "insert"])],
        flags: &[Flag::Write, Flag::DenyOom],
        categories: &[Category::List],
        ..CommandSpec::new("LINSERT")
    },
);

fn linsert<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    let limits = limits(view, args);
    let behind = args.take("AFTER");
    if !behind && !args.take("BEFORE") {
        return Err(CommandError::SYNTAX);
    }
    let (pivot, element) = (args.bytes()?, args.bytes()?);
    let insertion = view.change(key, |list: &mut List| {
        list.expect(1, element.len(), &limits);
        let pivot = Element::of(pivot);
        let index = list.iter().position(|other| other == pivot);
        if let Some(index) = index {
            list.insert(index, behind, element);
        }
        (index.map(|_| list.len()), usize::from(index.is_some()))
    })?;
    Ok(Reply::Integer(match insertion {
        None => 0,
        Some((None, _)) => -1,
        Some((Some(len), _)) => {
            view.notify(EventClass::List, "linsert", key);
            len as i64
        }
    }))
}

const LREM: Command = Command::new(
    Handler::Keys(lrem),
    CommandSpec {
        usage: "key count element",
        summary: "Removes elements that are equal to one from a list.",
        complexity: "O(N) for a list of N elements",
        group: Group::List,
        since: Since::redis(1, 0, 0),
        arity: Arity::Exactly(4),
        keys: &[KeySpec::one(1, &["RW", "delete"])],
        flags: &[Flag::Write],
        categories: &[Category::List],
        lock_effect: LockEffect::OtherWrite,
        ..CommandSpec::new("LREM")
    },
);

fn lrem<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, count, element) = (args.key()?, parse_negatable(args)?, args.bytes()?);
    let limits = limits(view, args);
    let from = if count < 0 { End::Back } else { End::Front };
    let most = if count == 0 { usize::MAX } else { usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX) };
    let removal = view.shrink_list(key, &limits, |list| {
        let removed = list.remove(element, from, most);
        (removed, removed)
    })?;
    let (removed, gone) = removal.unwrap_or_default();
    if removed > 0 {
        view.notify_removal(EventClass::List, "lrem", key, gone);
    }
    Ok(Reply::Integer(removed as i64))
}

const LPOS: Command = Command::new(
    Handler::Keys(lpos),
    CommandSpec {
        usage: "key element [RANK rank] [COUNT num-matches] [MAXLEN len]",
        summary: "Tells at which places of a list an element stands.",
        complexity: "O(N) for N elements looked at",
        group: Group::List,
        since: Since::redis(6, 0, 6),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::List],
        ..CommandSpec::new("LPOS")
    },
);

fn lpos<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, element) = (args.key()?, Element::of(args.bytes()?));
    let (mut rank, mut count, mut length) = (1, None, 0);
    while !args.is_empty() {
        if args.left() < 2 {
            return Err(CommandError::SYNTAX);
        }
        if args.take("RANK") {
            rank = parse_negatable(args)?;
            if rank == 0 {
                return Err(ZERO_RANK);
            }
        } else if args.take("COUNT") {
            count = Some(parse_length(args, NEGATIVE_COUNT)?);
        } else if args.take("MAXLEN") {
            length = parse_length(args, NEGATIVE_LENGTH)?;
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    let Some(list) = view.collection::<List>(key)? else {
        return Ok(if count.is_some() { Reply::Array(Vec::new()) } else { Reply::Null });
    };
    let length = if length == 0 { usize::MAX } else { length };
    let last = list.len().saturating_sub(1);
    // The least integer has no negative: where it is allowed, it is smaller than the number of any match.
    let skipped = if rank == i64::MIN { 0 } else { usize::try_from(rank.unsigned_abs() - 1).unwrap_or(usize::MAX) };
    let most = match count {
        None => 1,
        Some(0) => usize::MAX,
        Some(count) => count,
    };
    let mut found: Vec<_> = if rank > 0 {
        matching_indexes(list.range(0, length), element).skip(skipped).take(most).collect()
    } else {
        matching_indexes(list.backwards(last, length), element)
            .skip(skipped)
            .take(most)
            .map(|index| last - index)
            .collect()
    };
    Ok(match count {
        Some(_) => Reply::Array(found.into_iter().map(|index| Reply::Integer(index as i64)).collect()),
        None => found.pop().map_or(Reply::Null, |index| Reply::Integer(index as i64)),
    })
}

fn parse_length(args: &mut Args<'_>, error: CommandError) -> Result<usize, CommandError> {
    parse_integer(args.bytes()?).and_then(|number| usize::try_from(number).ok()).ok_or(error)
}

/// The indexes at which an element occurs.
fn matching_indexes<'l>(
    elements: impl Iterator<Item = Element<'l>>,
    element: Element<'l>,
) -> impl Iterator<Item = usize> {
    elements.enumerate().filter(move |(_, other)| *other == element).map(|(index, _)| index)
}
