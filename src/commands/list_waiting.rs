//! Lists: commands that wait for an element.

use super::blocking;
use super::lists::{MultiplePop, end, limits, move_element, pop_one};
use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Command, Handler, Outcome, Ready, Wish};
use crate::data::keyspace::{End, ValueKind, View};
use crate::protocol::{Reply, Words};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec};

pub(super) const ROWS: &[Command] = &[BLMOVE, BLMPOP, BLPOP, BRPOP, BRPOPLPUSH];

/// To wait for a list under any of these keys.
fn wish(keys: Words<'_>, deadline: Option<Millis>) -> Wish<'_> {
    Wish { keys, kind: ValueKind::List, deadline, reply: Reply::NullArray, again: None }
}

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
        categories: &[Category::List],
        ..CommandSpec::new("BRPOP")
    },
);

fn pop<'v>(
    view: &'v mut View<'_>,
    args: &mut Args<'v>,
    ready: Ready<'v>,
    end: End,
) -> Result<Outcome<'v>, CommandError> {
    let rest = args.rest();
    let keys = rest.first(rest.len() - 1);
    for _ in keys.iter() {
        args.key()?;
    }
    let deadline = blocking::deadline(view, args)?;
    let limits = limits(view, args);
    for key in keys.iter().filter(|key| blocking::is_meant(key, ready)) {
        if let Some(element) = pop_one(view, key, end, &limits)? {
            return Ok(Outcome::Done(Reply::Array(vec![Reply::bulk(key), Reply::bulk(element)])));
        }
    }
    Ok(Outcome::Wait(wish(keys, deadline)))
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
        categories: &[Category::List],
        ..CommandSpec::new("BLMOVE")
    },
);

fn blmove<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, _: Ready<'v>) -> Result<Outcome<'v>, CommandError> {
    let keys = args.rest().first(1);
    let (source, destination) = (args.key()?, args.key()?);
    let ends = (end(args)?, end(args)?);
    let deadline = blocking::deadline(view, args)?;
    wait_to_move(view, args, keys, (source, destination), ends, deadline)
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
        categories: &[Category::List],
        deprecated: Some(("6.2.0", "`BLMOVE` with the `RIGHT` and `LEFT` arguments")),
        ..CommandSpec::new("BRPOPLPUSH")
    },
);

fn brpoplpush<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, _: Ready<'v>) -> Result<Outcome<'v>, CommandError> {
    let keys = args.rest().first(1);
    let (source, destination) = (args.key()?, args.key()?);
    let deadline = blocking::deadline(view, args)?;
    wait_to_move(view, args, keys, (source, destination), (End::Back, End::Front), deadline)
}

fn wait_to_move<'v>(
    view: &'v mut View<'_>,
    args: &Args<'v>,
    keys: Words<'v>,
    (source, destination): (&[u8], &[u8]),
    ends: (End, End),
    deadline: Option<Millis>,
) -> Result<Outcome<'v>, CommandError> {
    let limits = limits(view, args);
    let moved = move_element(view, source, destination, ends, &limits)?;
    Ok(match moved {
        Some(element) => Outcome::Done(Reply::bulk(element)),
        // To have waited in vain is an absent array, as for all who wait for lists; not to wait at all is not.
        None => Outcome::WaitOr(wish(keys, deadline), Reply::Null),
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

fn blmpop<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, ready: Ready<'v>) -> Result<Outcome<'v>, CommandError> {
    let mut timeout = blocking::put_off(args)?;
    let request = MultiplePop::parse(args)?;
    let deadline = blocking::deadline(view, &mut timeout)?;
    let limits = limits(view, args);
    for key in request.keys.iter().filter(|key| blocking::is_meant(key, ready)) {
        if let Some(reply) = request.pop(view, key, &limits)? {
            return Ok(Outcome::Done(reply));
        }
    }
    Ok(Outcome::Wait(wish(request.keys, deadline)))
}
