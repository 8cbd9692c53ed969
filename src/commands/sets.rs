//! Sets: adding, removing, testing and moving members, and SSCAN.

use super::scan_elements::scan;
use crate::base::profile::Since;
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{EventClass, Set, View};
use crate::protocol::Reply;
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec, LockEffect};

pub(super) const ROWS: &[Command] = &[SADD, SCARD, SISMEMBER, SMEMBERS, SMISMEMBER, SMOVE, SREM, SSCAN];

const SADD: Command = Command::new(
    Handler::Keys(sadd),
    CommandSpec {
        usage: "key member [member ...]",
        summary: "Adds members to a set.",
        complexity: "O(N) for N members",
        group: Group::Set,
        since: Since::redis(1, 0, 0),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::one(1, &["RW", "insert"])],
        flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
        categories: &[Category::Set],
        lock_effect: LockEffect::OtherWrite,
        ..CommandSpec::new("SADD")
    },
);

fn sadd<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    let limits = view.settings().set_limits(args.profile());
    let added = view.add_members(key, args.rest().iter(), &limits)?;
    if added > 0 {
        view.notify(EventClass::Set, "sadd", key);
    }
    Ok(Reply::Integer(added as i64))
}

const SREM: Command = Command::new(
    Handler::Keys(srem),
    CommandSpec {
        usage: "key member [member ...]",
        summary: "Removes members from a set.",
        complexity: "O(N) for N members",
        group: Group::Set,
        since: Since::redis(1, 0, 0),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::one(1, &["RW", "delete"])],
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::Set],
        lock_effect: LockEffect::OtherWrite,
        ..CommandSpec::new("SREM")
    },
);

fn srem<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    let members = args.rest();
    let removal = view.change(key, |set: &mut Set| {
        let removed = members.iter().filter(|member| set.remove(member)).count();
        (removed, removed)
    })?;
    let (removed, gone) = removal.unwrap_or_default();
    if removed > 0 {
        view.notify_removal(EventClass::Set, "srem", key, gone);
    }
    Ok(Reply::Integer(removed as i64))
}

const SISMEMBER: Command = Command::new(
    Handler::Keys(sismember),
    CommandSpec {
        usage: "key member",
        summary: "Tells whether something is a member of a set.",
        group: Group::Set,
        since: Since::redis(1, 0, 0),
        arity: Arity::Exactly(3),
        keys: &[KeySpec::one(1, &["RO"])],
        flags: &[Flag::ReadOnly, Flag::Fast],
        categories: &[Category::Set],
        ..CommandSpec::new("SISMEMBER")
    },
);

fn sismember<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (set, member) = (view.collection::<Set>(args.key()?)?, args.bytes()?);
    Ok(is_member(set, member))
}

const SMISMEMBER: Command = Command::new(
    Handler::Keys(smismember),
    CommandSpec {
        usage: "key member [member ...]",
        summary: "Tells which of several things are members of a set.",
        complexity: "O(N) for N members",
        group: Group::Set,
        since: Since::redis(6, 2, 0),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly, Flag::Fast],
        categories: &[Category::Set],
        ..CommandSpec::new("SMISMEMBER")
    },
);

fn smismember<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let set = view.collection::<Set>(args.key()?)?;
    Ok(Reply::Array(args.rest().iter().map(|member| is_member(set, member)).collect()))
}

fn is_member(set: Option<&Set>, member: &[u8]) -> Reply<'static> {
    Reply::Integer(i64::from(set.is_some_and(|set| set.contains(member))))
}

const SMEMBERS: Command = Command::new(
    Handler::Keys(smembers),
    CommandSpec {
        usage: "key",
        summary: "Lists the members of a set.",
        complexity: "O(N) for N members",
        group: Group::Set,
        since: Since::redis(1, 0, 0),
        arity: Arity::Exactly(2),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::Set],
        tips: &["nondeterministic_output_order"],
        ..CommandSpec::new("SMEMBERS")
    },
);

fn smembers<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let set = view.collection::<Set>(args.key()?)?;
    Ok(Reply::Set(set.map_or_else(Vec::new, |set| set.iter().map(Reply::bulk).collect())))
}

const SCARD: Command = Command::new(
    Handler::Keys(scard),
    CommandSpec {
        usage: "key",
        summary: "Tells how many members a set has.",
        group: Group::Set,
        since: Since::redis(1, 0, 0),
        arity: Arity::Exactly(2),
        keys: &[KeySpec::one(1, &["RO"])],
        flags: &[Flag::ReadOnly, Flag::Fast],
        categories: &[Category::Set],
        ..CommandSpec::new("SCARD")
    },
);

fn scard<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    Ok(Reply::Integer(view.collection::<Set>(args.key()?)?.map_or(0, Set::len) as i64))
}

const SMOVE: Command = Command::new(
    Handler::Keys(smove),
    CommandSpec {
        usage: "source destination member",
        summary: "Moves a member from one set to another.",
        group: Group::Set,
        since: Since::redis(1, 0, 0),
        arity: Arity::Exactly(4),
        keys: &[KeySpec::one(1, &["RW", "access", "delete"]), KeySpec::one(2, &["RW", "insert"])],
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::Set],
        ..CommandSpec::new("SMOVE")
    },
);

fn smove<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (source, destination, member) = (args.key()?, args.key()?, args.bytes()?);
    let limits = view.settings().set_limits(args.profile());
    if view.read_for_update(source).is_none() {
        view.read_for_update(destination);
        return Ok(Reply::Integer(0));
    }
    view.collection_to_write::<Set>(source)?;
    view.collection_to_write::<Set>(destination)?;
    if source == destination {
        return Ok(is_member(view.collection_to_write::<Set>(source)?, member));
    }
    let removal = view.change(source, |set: &mut Set| {
        let removed = set.remove(member);
        (removed, usize::from(removed))
    })?;
    let Some((true, gone)) = removal else { return Ok(Reply::Integer(0)) };
    view.notify_removal(EventClass::Set, "srem", source, gone);
    if view.add_members(destination, [member].into_iter(), &limits)? > 0 {
        view.notify(EventClass::Set, "sadd", destination);
    }
    Ok(Reply::Integer(1))
}

const SSCAN: Command = Command::new(
    Handler::Keys(sscan),
    CommandSpec {
        usage: "key cursor [MATCH pattern] [COUNT count]",
        summary: "Lists the members of a set step by step.",
        complexity: "O(1) for a step, O(N) for all of them, for N members",
        group: Group::Set,
        since: Since::redis(2, 8, 0),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::Set],
        tips: &["nondeterministic_output"],
        ..CommandSpec::new("SSCAN")
    },
);

fn sscan<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    scan(view, args, Set::prepare_walk, |set, step, found| {
        let (next, members) = set.walk(step.cursor, step.count);
        found.extend(members.filter(|member| step.admits(member)).map(Reply::bulk));
        next
    })
}
