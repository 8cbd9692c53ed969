//! Commands on the ends of lists: pushing, popping and moving.

use super::mpop::MultiPop;
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{End, EventClass, List, ListLimits, View};
use crate::data::listpack::Element;
use crate::protocol::{BulkWriter, Bulks, Reply, parse_integer};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec, LockEffect};

pub(super) const ROWS: &[Command] = &[LLEN, LMOVE, LMPOP, LPOP, LPUSH, LPUSHX, RPOP, RPOPLPUSH, RPUSH, RPUSHX];

const NOT_POSITIVE: CommandError = CommandError::fixed("ERR value is out of range, must be positive");

/// The size limits of lists, by configuration and profile.
#[inline]
pub(super) fn limits(view: &View<'_>, args: &Args<'_>) -> ListLimits {
    view.settings().list_limits(args.profile())
}

/// Parses LEFT or RIGHT.
pub(super) fn parse_end(args: &mut Args<'_>) -> Result<End, CommandError> {
    if args.take("LEFT") {
        Ok(End::Front)
    } else if args.take("RIGHT") {
        Ok(End::Back)
    } else {
        Err(CommandError::SYNTAX)
    }
}

#[inline]
pub(super) fn element_reply(element: Element<'_>) -> Reply<'_> {
    match element {
        Element::String(bytes) => Reply::bulk(bytes),
        Element::Integer(value) => Reply::Digits(value),
    }
}

const LPUSH: Command = Command::new(
    Handler::Keys(|view, args| push(view, args, End::Front)),
    CommandSpec {
        usage: "key element [element ...]",
        summary: "Adds elements at the beginning of a list; without one, creates it.",
        complexity: "O(N) for N elements",
        group: Group::List,
        since: Since::redis(1, 0, 0),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::one(1, &["RW", "insert"])],
        flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
        categories: &[Category::List],
        lock_effect: LockEffect::OtherWrite,
        ..CommandSpec::new("LPUSH")
    },
);

const RPUSH: Command = Command::new(
    Handler::Keys(|view, args| push(view, args, End::Back)),
    CommandSpec {
        usage: "key element [element ...]",
        summary: "Adds elements at the end of a list; without one, creates it.",
        complexity: "O(N) for N elements",
        group: Group::List,
        since: Since::redis(1, 0, 0),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::one(1, &["RW", "insert"])],
        flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
        categories: &[Category::List],
        lock_effect: LockEffect::OtherWrite,
        ..CommandSpec::new("RPUSH")
    },
);

#[inline]
fn push<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, end: End) -> CommandResult<'v> {
    let (key, limits) = (args.key()?, limits(view, args));
    let len = view.push_elements(key, end, args.rest().iter(), &limits)?;
    notify_push(view, key, end);
    Ok(Reply::Integer(len as i64))
}

fn notify_push(view: &mut View<'_>, key: &[u8], end: End) {
    view.notify(EventClass::List, if end == End::Front { "lpush" } else { "rpush" }, key);
}

const LPUSHX: Command = Command::new(
    Handler::Keys(|view, args| pushx(view, args, End::Front)),
    CommandSpec {
        usage: "key element [element ...]",
        summary: "Adds elements at the beginning of a list that exists.",
        complexity: "O(N) for N elements",
        group: Group::List,
        since: Since::redis(2, 2, 0),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::one(1, &["RW", "insert"])],
        flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
        categories: &[Category::List],
        ..CommandSpec::new("LPUSHX")
    },
);

const RPUSHX: Command = Command::new(
    Handler::Keys(|view, args| pushx(view, args, End::Back)),
    CommandSpec {
        usage: "key element [element ...]",
        summary: "Adds elements at the end of a list that exists.",
        complexity: "O(N) for N elements",
        group: Group::List,
        since: Since::redis(2, 2, 0),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::one(1, &["RW", "insert"])],
        flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
        categories: &[Category::List],
        ..CommandSpec::new("RPUSHX")
    },
);

fn pushx<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, end: End) -> CommandResult<'v> {
    let (key, limits) = (args.key()?, limits(view, args));
    if view.collection_to_write::<List>(key)?.is_none() {
        return Ok(Reply::Integer(0));
    }
    let len = view.push_elements(key, end, args.rest().iter(), &limits)?;
    notify_push(view, key, end);
    Ok(Reply::Integer(len as i64))
}

const LPOP: Command = Command::new(
    Handler::Keys(|view, args| pop(view, args, End::Front)),
    CommandSpec {
        usage: "key [count]",
        summary: "Takes elements from the beginning of a list.",
        complexity: "O(N) for N elements taken",
        group: Group::List,
        since: Since::redis(1, 0, 0),
        arity: Arity::AtLeast(2),
        keys: &[KeySpec::one(1, &["RW", "access", "delete"])],
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::List],
        ..CommandSpec::new("LPOP")
    },
);

const RPOP: Command = Command::new(
    Handler::Keys(|view, args| pop(view, args, End::Back)),
    CommandSpec {
        usage: "key [count]",
        summary: "Takes elements from the end of a list.",
        complexity: "O(N) for N elements taken",
        group: Group::List,
        since: Since::redis(1, 0, 0),
        arity: Arity::AtLeast(2),
        keys: &[KeySpec::one(1, &["RW", "access", "delete"])],
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::List],
        ..CommandSpec::new("RPOP")
    },
);

#[inline]
fn pop<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, end: End) -> CommandResult<'v> {
    let (key, limits) = (args.key()?, limits(view, args));
    if args.is_empty() {
        return Ok(pop_one(view, key, end, &limits)?.map_or(Reply::Null, Reply::bulk));
    }
    if args.left() > 1 {
        return Err(CommandError::new(format!("ERR wrong number of arguments for '{}' command", args.command_name())));
    }
    let count = parse_integer(args.bytes()?).and_then(|count| usize::try_from(count).ok()).ok_or(NOT_POSITIVE)?;
    if view.collection_to_write::<List>(key)?.is_none() {
        // Before 7.0 the reply was a null even with a count.
        return Ok(if args.profile().since_redis(7, 0) { Reply::NullArray } else { Reply::Null });
    }
    if count == 0 {
        return Ok(Reply::Array(Vec::new()));
    }
    Ok(Reply::Bulks(pop_count(view, key, end, count, &limits)?))
}

/// Pops an element and publishes the event.
#[inline]
pub(super) fn pop_one(
    view: &mut View<'_>,
    key: &[u8],
    end: End,
    limits: &ListLimits,
) -> Result<Option<Vec<u8>>, CommandError> {
    let Some((element, gone)) = view.shrink_list(key, limits, |list| (list.pop(end), 1))? else { return Ok(None) };
    notify_pop(view, key, end, gone);
    Ok(element)
}

/// Pops at most `count` elements and publishes the event.
pub(super) fn pop_count(
    view: &mut View<'_>,
    key: &[u8],
    end: End,
    count: usize,
    limits: &ListLimits,
) -> Result<Bulks, CommandError> {
    let popped = view.shrink_list(key, limits, |list| {
        let count = count.min(list.len());
        let mut elements = Bulks::with_capacity(count);
        match end {
            End::Front => list.range(0, count).for_each(|element| push_element(&mut elements, element)),
            End::Back => list
                .backwards(list.len().saturating_sub(1), count)
                .for_each(|element| push_element(&mut elements, element)),
        }
        list.cut(end, count);
        (elements, count)
    })?;
    let Some((elements, gone)) = popped else { return Ok(Bulks::default()) };
    notify_pop(view, key, end, gone);
    Ok(elements)
}

/// Adds an element to a reply.
#[inline]
pub(super) fn push_element(elements: &mut Bulks, element: Element<'_>) {
    write_element(&mut elements.add(), element);
}

#[inline]
pub(super) fn write_element(reply: &mut BulkWriter<'_>, element: Element<'_>) {
    match element {
        Element::String(bytes) => reply.bulk(bytes),
        Element::Integer(value) => reply.digits(value),
    }
}

/// The command that pops from an end.
pub(super) fn pop_name(end: End) -> &'static [u8] {
    if end == End::Front { b"LPOP" } else { b"RPOP" }
}

#[inline]
fn notify_pop(view: &mut View<'_>, key: &[u8], end: End, gone: bool) {
    view.notify_removal(EventClass::List, if end == End::Front { "lpop" } else { "rpop" }, key, gone);
}

const LLEN: Command = Command::new(
    Handler::Keys(llen),
    CommandSpec {
        usage: "key",
        summary: "Tells how many elements a list has.",
        group: Group::List,
        since: Since::redis(1, 0, 0),
        arity: Arity::Exactly(2),
        keys: &[KeySpec::one(1, &["RO"])],
        flags: &[Flag::ReadOnly, Flag::Fast],
        categories: &[Category::List],
        ..CommandSpec::new("LLEN")
    },
);

fn llen<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    Ok(Reply::Integer(view.collection::<List>(args.key()?)?.map_or(0, List::len) as i64))
}

const LMOVE: Command = Command::new(
    Handler::Keys(lmove),
    CommandSpec {
        usage: "source destination <LEFT | RIGHT> <LEFT | RIGHT>",
        summary: "Takes an element from an end of one list to an end of another.",
        group: Group::List,
        since: Since::redis(6, 2, 0),
        arity: Arity::Exactly(5),
        keys: &[KeySpec::one(1, &["RW", "access", "delete"]), KeySpec::one(2, &["RW", "insert"])],
        flags: &[Flag::Write, Flag::DenyOom],
        categories: &[Category::List],
        ..CommandSpec::new("LMOVE")
    },
);

fn lmove<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (source, destination) = (args.key()?, args.key()?);
    let ends = (parse_end(args)?, parse_end(args)?);
    let limits = limits(view, args);
    Ok(move_element(view, source, destination, ends, &limits)?.map_or(Reply::Null, Reply::bulk))
}

const RPOPLPUSH: Command = Command::new(
    Handler::Keys(rpoplpush),
    CommandSpec {
        usage: "source destination",
        summary: "Takes the last element of a list to the beginning of another.",
        group: Group::List,
        since: Since::redis(1, 2, 0),
        arity: Arity::Exactly(3),
        keys: &[KeySpec::one(1, &["RW", "access", "delete"]), KeySpec::one(2, &["RW", "insert"])],
        flags: &[Flag::Write, Flag::DenyOom],
        categories: &[Category::List],
        deprecated: Some(("6.2.0", "`LMOVE` with the `RIGHT` and `LEFT` arguments")),
        ..CommandSpec::new("RPOPLPUSH")
    },
);

fn rpoplpush<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (source, destination) = (args.key()?, args.key()?);
    let limits = limits(view, args);
    let moved = move_element(view, source, destination, (End::Back, End::Front), &limits)?;
    Ok(moved.map_or(Reply::Null, Reply::bulk))
}

/// Moves an element from an end of one list to an end of another list or of the same.
pub(super) fn move_element(
    view: &mut View<'_>,
    source: &[u8],
    destination: &[u8],
    (from, to): (End, End),
    limits: &ListLimits,
) -> Result<Option<Vec<u8>>, CommandError> {
    let Some(list) = view.collection_to_write::<List>(source)? else { return Ok(None) };
    let at = if from == End::Front { 0 } else { list.len().saturating_sub(1) };
    let Some(element) = list.get(at) else { return Ok(None) };
    let (is_integer, element) = (matches!(element, Element::Integer(_)), element.to_bytes().into_owned());
    // Redis does not count the bytes of an element that it stores as an integer.
    let bytes = if is_integer { 0 } else { element.len() };
    if source == destination {
        view.change(source, |list: &mut List| {
            list.pop(from);
            list.expect(1, bytes, limits);
            list.push(to, &element);
            list.relax(limits);
            ((), 1)
        })?;
        notify_push(view, destination, to);
        notify_pop(view, source, from, false);
        return Ok(Some(element));
    }
    view.as_one_change(|view| {
        view.change_or_make(
            destination,
            || List::new(limits),
            |list| {
                list.expect(1, bytes, limits);
                list.push(to, &element);
                ((), 1)
            },
        )?;
        notify_push(view, destination, to);
        pop_one(view, source, from, limits)
    })
}

const LMPOP: Command = Command::new(
    Handler::Keys(lmpop),
    CommandSpec {
        usage: "numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
        summary: "Takes elements from an end of the first of several lists that is there.",
        complexity: "O(N+M) for N keys and M elements taken",
        group: Group::List,
        since: Since::redis(7, 0, 0),
        arity: Arity::AtLeast(4),
        keys: &[KeySpec::counted(1, 1, 1, &["RW", "access", "delete"])],
        flags: &[Flag::Write, Flag::MovableKeys],
        categories: &[Category::List],
        ..CommandSpec::new("LMPOP")
    },
);

fn lmpop<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let request = parse_lmpop(args)?;
    let limits = limits(view, args);
    for key in request.keys.iter() {
        if let Some(reply) = pop_from(view, key, &request, &limits)? {
            return Ok(reply);
        }
    }
    Ok(Reply::NullArray)
}

pub(super) fn parse_lmpop<'a>(args: &mut Args<'a>) -> Result<MultiPop<'a, End>, CommandError> {
    MultiPop::parse(args, parse_end)
}

/// Pops from one key of LMPOP or BLMPOP, if it holds a list.
pub(super) fn pop_from<'v>(
    view: &mut View<'_>,
    key: &'v [u8],
    request: &MultiPop<'_, End>,
    limits: &ListLimits,
) -> Result<Option<Reply<'v>>, CommandError> {
    if view.collection_to_write::<List>(key)?.is_none() {
        return Ok(None);
    }
    let elements = pop_count(view, key, request.end, request.count, limits)?;
    view.replicate_as(&[pop_name(request.end), key, elements.len().to_string().as_bytes()]);
    Ok(Some(Reply::Array(vec![Reply::bulk(key), Reply::Bulks(elements)])))
}
