//! Blocking commands on lists: BLPOP, BRPOP, BLMOVE, BRPOPLPUSH, BLMPOP.

use super::blocking::{FROM_SCRIPTS, may_serve};
use super::lists::{limits, move_element, parse_end, parse_lmpop, pop_from, pop_name, pop_one};
use super::timeout;
use crate::base::clock::Millis;
use crate::base::profile::Since;
use crate::commands::{BlockForKeys, BlockingResult, Command, Handler, ReadyKey, ReplyOrBlock};
use crate::data::keyspace::{End, ValueKind, View};
use crate::protocol::{Reply, Words};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec};

pub(super) const ROWS: &[Command] = &[BLMOVE, BLMPOP, BLPOP, BRPOP, BRPOPLPUSH];

const BLPOP: Command = Command::new(
    Handler::Blocking(|view, args, ready| pop(view, args, ready, End::Front)),
    CommandSpec {
        usage: "key [key ...] timeout",
        summary: "Takes the first element of the first of several lists that is there; waits until one is.",
        complexity: "O(N) for N keys",
        group: Group::List,
        since: Since::redis(2, 0, 0),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::range(1, -2, 1, &["RW", "access", "delete"])],
        flags: &[Flag::Write, Flag::NoScript, Flag::Blocking],
        later_flags: &[(FROM_SCRIPTS, &[Flag::Write, Flag::Blocking])],
        categories: &[Category::List],
        ..CommandSpec::new("BLPOP")
    },
);

const BRPOP: Command = Command::new(
    Handler::Blocking(|view, args, ready| pop(view, args, ready, End::Back)),
    CommandSpec {
        usage: "key [key ...] timeout",
        summary: "Takes the last element of the first of several lists that is there; waits until one is.",
        complexity: "O(N) for N keys",
        group: Group::List,
        since: Since::redis(2, 0, 0),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::range(1, -2, 1, &["RW", "access", "delete"])],
        flags: &[Flag::Write, Flag::NoScript, Flag::Blocking],
        later_flags: &[(FROM_SCRIPTS, &[Flag::Write, Flag::Blocking])],
        categories: &[Category::List],
        ..CommandSpec::new("BRPOP")
    },
);

fn pop<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, ready: ReadyKey<'v>, end: End) -> BlockingResult<'v> {
    let keys = args.next_words(args.left() - 1);
    let deadline = timeout::parse_seconds(view, args)?;
    let limits = limits(view, args);
    for key in keys.iter().filter(|key| may_serve(key, ready)) {
        if let Some(element) = pop_one(view, key, end, &limits)? {
            view.replicate_as(&[pop_name(end), key]);
            return Ok(ReplyOrBlock::Reply(Reply::Array(vec![Reply::bulk(key), Reply::bulk(element)])));
        }
    }
    Ok(block(keys, deadline))
}

fn block(keys: Words<'_>, deadline: Option<Millis>) -> ReplyOrBlock<'_> {
    ReplyOrBlock::Block(BlockForKeys::new(keys, ValueKind::List, deadline))
}

const BLMOVE: Command = Command::new(
    Handler::Blocking(blmove),
    CommandSpec {
        usage: "source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout",
        summary: "Takes an element from an end of one list to an end of another; waits until there is one.",
        group: Group::List,
        since: Since::redis(6, 2, 0),
        arity: Arity::Exactly(6),
        keys: &[KeySpec::one(1, &["RW", "access", "delete"]), KeySpec::one(2, &["RW", "insert"])],
        flags: &[Flag::Write, Flag::DenyOom, Flag::NoScript, Flag::Blocking],
        later_flags: &[(FROM_SCRIPTS, &[Flag::Write, Flag::DenyOom, Flag::Blocking])],
        categories: &[Category::List],
        ..CommandSpec::new("BLMOVE")
    },
);

fn blmove<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, _: ReadyKey<'v>) -> BlockingResult<'v> {
    let keys = args.rest().first(1);
    let (source, destination) = (args.key()?, args.key()?);
    let ends = (parse_end(args)?, parse_end(args)?);
    let deadline = timeout::parse_seconds(view, args)?;
    move_or_block(view, args, keys, (source, destination), ends, deadline)
}

const BRPOPLPUSH: Command = Command::new(
    Handler::Blocking(brpoplpush),
    CommandSpec {
        usage: "source destination timeout",
        summary: "Takes the last element of a list to the beginning of another; waits until there is one.",
        group: Group::List,
        since: Since::redis(2, 2, 0),
        arity: Arity::Exactly(4),
        keys: &[KeySpec::one(1, &["RW", "access", "delete"]), KeySpec::one(2, &["RW", "insert"])],
        flags: &[Flag::Write, Flag::DenyOom, Flag::NoScript, Flag::Blocking],
        later_flags: &[(FROM_SCRIPTS, &[Flag::Write, Flag::DenyOom, Flag::Blocking])],
        categories: &[Category::List],
        deprecated: Some(("6.2.0", "`BLMOVE` with the `RIGHT` and `LEFT` arguments")),
        ..CommandSpec::new("BRPOPLPUSH")
    },
);

fn brpoplpush<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, _: ReadyKey<'v>) -> BlockingResult<'v> {
    let keys = args.rest().first(1);
    let (source, destination) = (args.key()?, args.key()?);
    let deadline = timeout::parse_seconds(view, args)?;
    move_or_block(view, args, keys, (source, destination), (End::Back, End::Front), deadline)
}

fn move_or_block<'v>(
    view: &'v mut View<'_>,
    args: &Args<'v>,
    keys: Words<'v>,
    (source, destination): (&[u8], &[u8]),
    ends: (End, End),
    deadline: Option<Millis>,
) -> BlockingResult<'v> {
    let limits = limits(view, args);
    let moved = move_element(view, source, destination, ends, &limits)?;
    Ok(match moved {
        Some(element) => {
            // The request without its timeout, and under the name of the command that does not block.
            let words: Vec<&[u8]> = args.words().iter().collect();
            if let [name, operands @ .., _] = words.as_slice() {
                let name: &[u8] = if name.len() == "BLMOVE".len() { b"LMOVE" } else { b"RPOPLPUSH" };
                view.replicate_as(&[&[name], operands].concat());
            }
            ReplyOrBlock::Reply(Reply::bulk(element))
        }
        // The reply to a time-out is BLPOP's null array. Where nothing may block, it is LMOVE's null.
        None => ReplyOrBlock::Block(BlockForKeys {
            denied_reply: Reply::Null,
            ..BlockForKeys::new(keys, ValueKind::List, deadline)
        }),
    })
}

const BLMPOP: Command = Command::new(
    Handler::Blocking(blmpop),
    CommandSpec {
        usage: "timeout numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
        summary: "Takes elements from an end of the first of several lists that is there; waits until one is.",
        complexity: "O(N+M) for N keys and M elements taken",
        group: Group::List,
        since: Since::redis(7, 0, 0),
        arity: Arity::AtLeast(5),
        keys: &[KeySpec::counted(2, 1, 1, &["RW", "access", "delete"])],
        flags: &[Flag::Write, Flag::Blocking, Flag::MovableKeys],
        categories: &[Category::List],
        ..CommandSpec::new("BLMPOP")
    },
);

fn blmpop<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, ready: ReadyKey<'v>) -> BlockingResult<'v> {
    let mut timeout = timeout::put_aside(args)?;
    let request = parse_lmpop(args)?;
    let deadline = timeout::parse_seconds(view, &mut timeout)?;
    let limits = limits(view, args);
    for key in request.keys.iter().filter(|key| may_serve(key, ready)) {
        if let Some(reply) = pop_from(view, key, &request, &limits)? {
            return Ok(ReplyOrBlock::Reply(reply));
        }
    }
    Ok(block(request.keys, deadline))
}
