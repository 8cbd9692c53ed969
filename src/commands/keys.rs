//! Commands on keys of any type: DEL, EXISTS, TYPE, RENAME, COPY, MOVE.

use std::sync::atomic::Ordering;

use super::databases::parse_db_index;
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{EventClass, View};
use crate::protocol::Reply;
use crate::spec::{Args, Arity, Category, CommandSpec, DatabaseArgs, Flag, KeySpec, LockEffect};

pub(super) const ROWS: &[Command] = &[COPY, DEL, EXISTS, MOVE, RENAME, RENAMENX, TOUCH, TYPE, UNLINK];

const SAME_OBJECT: CommandError = CommandError::fixed("ERR source and destination objects are the same");

const DEL: Command = Command::new(
    Handler::Keys(del),
    CommandSpec {
        usage: "key [key ...]",
        summary: "Deletes keys.",
        complexity: "O(N) where N is the number of keys.",
        arity: Arity::AtLeast(2),
        keys: &[KeySpec::range(1, -1, 1, &["RM", "delete"])],
        flags: &[Flag::Write],
        categories: &[Category::Keyspace],
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        lock_effect: LockEffect::Delete,
        ..CommandSpec::new("DEL")
    },
);

const UNLINK: Command = Command::new(
    Handler::Keys(unlink),
    CommandSpec {
        summary: "Deletes keys, and leaves it to later to free what they held.",
        complexity: "O(1) for each key.",
        since: Since::redis(4, 0, 0),
        flags: &[Flag::Write, Flag::Fast],
        ..DEL.spec.renamed("UNLINK")
    },
);

fn del<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let delete = if view.settings().lazy_free.user_del.load(Ordering::Relaxed) { delete_lazily } else { delete };
    Ok(count_if(args, |key| delete(view, key)))
}

fn unlink<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    Ok(count_if(args, |key| delete_lazily(view, key)))
}

const EXISTS: Command = Command::new(
    Handler::Keys(exists),
    CommandSpec {
        usage: "key [key ...]",
        summary: "Tells how many of the keys exist; a key named twice counts twice.",
        complexity: "O(N) where N is the number of keys.",
        arity: Arity::AtLeast(2),
        keys: &[KeySpec::range(1, -1, 1, &["RO"])],
        flags: &[Flag::ReadOnly, Flag::Fast],
        categories: &[Category::Keyspace],
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        lock_effect: LockEffect::Exists,
        ..CommandSpec::new("EXISTS")
    },
);

fn exists<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    Ok(count_if(args, |key| view.read_without_touch(key).is_some()))
}

const TOUCH: Command = Command::new(
    Handler::Keys(touch),
    CommandSpec {
        summary: "Marks keys as used just now, and tells how many of them exist.",
        since: Since::redis(3, 2, 1),
        lock_effect: LockEffect::None,
        ..EXISTS.spec.renamed("TOUCH")
    },
);

fn touch<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    Ok(count_if(args, |key| view.touch(key)))
}

const TYPE: Command = Command::new(
    Handler::Keys(type_of),
    CommandSpec {
        usage: "key",
        summary: "Tells the type of the value under a key.",
        arity: Arity::Exactly(2),
        keys: &[KeySpec::one(1, &["RO"])],
        flags: &[Flag::ReadOnly, Flag::Fast],
        categories: &[Category::Keyspace],
        ..CommandSpec::new("TYPE")
    },
);

fn type_of<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    Ok(Reply::Status(view.read_without_touch(args.key()?).map_or("none", |entry| entry.kind().name())))
}

const RENAME: Command = Command::new(
    Handler::Keys(rename),
    CommandSpec {
        usage: "key newkey",
        summary: "Gives a key another name, in place of whatever has that name.",
        arity: Arity::Exactly(3),
        keys: &[KeySpec::one(1, &["RW", "access", "delete"]), KeySpec::one(2, &["OW", "update"])],
        flags: &[Flag::Write],
        categories: &[Category::Keyspace],
        lock_effect: LockEffect::Rename,
        ..CommandSpec::new("RENAME")
    },
);

fn rename<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, name) = (args.key()?, args.key()?);
    view.read_for_update(key).ok_or(CommandError::NO_SUCH_KEY)?;
    if key != name {
        rename_key(view, key, name);
    }
    Ok(Reply::OK)
}

const RENAMENX: Command = Command::new(
    Handler::Keys(renamenx),
    CommandSpec {
        usage: "key newkey",
        summary: "Gives a key another name, if no other key has that name.",
        arity: Arity::Exactly(3),
        keys: &[KeySpec::one(1, &["RW", "access", "delete"]), KeySpec::one(2, &["OW", "insert"])],
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::Keyspace],
        lock_effect: LockEffect::RenameIfAbsent,
        ..CommandSpec::new("RENAMENX")
    },
);

fn renamenx<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, name) = (args.key()?, args.key()?);
    view.read_for_update(key).ok_or(CommandError::NO_SUCH_KEY)?;
    let free = key != name && view.read_for_update(name).is_none();
    if free {
        rename_key(view, key, name);
    }
    Ok(Reply::Integer(i64::from(free)))
}

fn rename_key(view: &mut View<'_>, key: &[u8], name: &[u8]) {
    view.as_one_change(|view| {
        if let Some(entry) = view.take(key) {
            view.replace(entry.renamed(name));
        }
    });
    view.notify(EventClass::Generic, "rename_from", key);
    view.notify(EventClass::Generic, "rename_to", name);
}

const COPY: Command = Command::new(
    Handler::Everything(copy),
    CommandSpec {
        usage: "source destination [DB destination-db] [REPLACE]",
        summary: "Copies a value and its deadline to another key, also in another database.",
        complexity: "O(N) where N is the number of items in the value; O(1) for a string.",
        since: Since::redis(6, 2, 0),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::one(1, &["RO", "access"]), KeySpec::one(2, &["OW", "update"])],
        flags: &[Flag::Write, Flag::DenyOom],
        categories: &[Category::Keyspace],
        databases: DatabaseArgs::Options,
        lock_effect: LockEffect::Copy,
        ..CommandSpec::new("COPY")
    },
);

fn copy<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (source, destination) = (args.key()?, args.key()?);
    let home = view.db();
    let (mut db, mut replace) = (home, false);
    while !args.is_empty() {
        if args.take("REPLACE") {
            replace = true;
        } else if args.take("DB") {
            db = parse_db_index(view, args.bytes()?)?;
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    if db == home && source == destination {
        return Err(SAME_OBJECT);
    }
    let Some(entry) = view.read(source).cloned() else { return Ok(Reply::Integer(0)) };
    view.select(db);
    let free = replace || view.read_for_update(destination).is_none();
    if free {
        let mut copy = entry.renamed(destination);
        copy.set_usage(view.new_usage());
        copy.set_private();
        view.replace(copy);
        view.notify(EventClass::Generic, "copy_to", destination);
    }
    view.select(home);
    Ok(Reply::Integer(i64::from(free)))
}

const MOVE: Command = Command::new(
    Handler::Everything(move_key),
    CommandSpec {
        usage: "key db",
        summary: "Moves a key to another database.",
        arity: Arity::Exactly(3),
        keys: &[KeySpec::one(1, &["RW", "access", "update"])],
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::Keyspace],
        databases: DatabaseArgs::At(&[2]),
        lock_effect: LockEffect::Move,
        ..CommandSpec::new("MOVE")
    },
);

fn move_key<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    let db = parse_db_index(view, args.bytes()?)?;
    let home = view.db();
    if db == home {
        return Err(SAME_OBJECT);
    }
    if view.read_for_update(key).is_none() {
        return Ok(Reply::Integer(0));
    }
    view.select(db);
    let free = view.read_for_update(key).is_none();
    view.select(home);
    if free {
        view.as_one_change(|view| {
            if let Some(entry) = view.take(key) {
                view.select(db);
                view.put(entry);
                view.select(home);
            }
        });
        view.notify(EventClass::Generic, "move_from", key);
        view.select(db);
        view.notify(EventClass::Generic, "move_to", key);
        view.select(home);
    }
    Ok(Reply::Integer(i64::from(free)))
}

/// Deletes a key and publishes the event. Returns whether the key existed.
/// Removes a key, and leaves it to later to free its value.
pub(super) fn delete_lazily(view: &mut View<'_>, key: &[u8]) -> bool {
    view.free_lazily(key);
    delete(view, key)
}

pub(super) fn delete(view: &mut View<'_>, key: &[u8]) -> bool {
    let removed = view.remove(key);
    if removed {
        view.notify(EventClass::Generic, "del", key);
    }
    removed
}

/// The number of remaining arguments for which `counts` is true.
fn count_if<'v>(args: &mut Args<'v>, mut counts: impl FnMut(&'v [u8]) -> bool) -> Reply<'static> {
    let mut found = 0;
    while let Some(key) = args.optional() {
        found += i64::from(counts(key));
    }
    Reply::Integer(found)
}
