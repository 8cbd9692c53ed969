//! HyperLogLogs: PFADD, PFCOUNT, PFMERGE, PFDEBUG.

use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Command, CommandResult, Handler};
use crate::data::hyperloglog::{self, Corrupt, Encoding, Union};
use crate::data::keyspace::{EventClass, View};
use crate::protocol::Reply;
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec, LockEffect};

pub(super) const ROWS: &[Command] = &[PFADD, PFCOUNT, PFDEBUG, PFMERGE, PFSELFTEST];

const SINCE: Since = Since::redis(2, 8, 9);

fn corrupt(_: Corrupt) -> CommandError {
    CommandError::fixed("INVALIDOBJ Corrupted HLL object detected")
}

/// The encoding of the registers. An error for a string that is no HyperLogLog.
fn encoding(bytes: &[u8]) -> Result<Encoding, CommandError> {
    const NONE: CommandError = CommandError::fixed("WRONGTYPE Key is not a valid HyperLogLog string value.");
    hyperloglog::encoding(bytes).ok_or(NONE)
}

fn check(bytes: &[u8]) -> Result<(), CommandError> {
    encoding(bytes).map(|_| ())
}

const PFADD: Command = Command::new(
    Handler::Keys(pfadd),
    CommandSpec {
        usage: "key [element [element ...]]",
        summary: "Adds elements to a HyperLogLog, which comes into being if there is none.",
        complexity: "O(1) for each element",
        group: Group::HyperLogLog,
        since: SINCE,
        arity: Arity::AtLeast(2),
        keys: &[KeySpec::one(1, &["RW", "insert"])],
        flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
        categories: &[Category::HyperLogLog],
        lock_effect: LockEffect::OtherWrite,
        ..CommandSpec::new("PFADD")
    },
);

fn pfadd<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, elements) = (args.key()?, args.rest());
    let longest = view.settings().sparse_limit();
    let add_all = |bytes: &mut Vec<u8>| {
        let mut changes = 0;
        for element in elements.iter() {
            changes += usize::from(hyperloglog::add(bytes, element, longest)?);
        }
        Ok::<_, Corrupt>(changes)
    };
    let added = view.edit_existing_string(key, check, |bytes| {
        let changes = add_all(bytes);
        if matches!(changes, Ok(1..)) {
            hyperloglog::outdate(bytes);
        }
        // Elements added before corrupt registers were found stay, without a keyspace event.
        (changes, changes.unwrap_or(0))
    })?;
    let changes = match added {
        Some(changes) => changes.map_err(corrupt)?,
        None => {
            let mut bytes = hyperloglog::empty();
            let changes = add_all(&mut bytes).map_err(corrupt)?;
            hyperloglog::outdate(&mut bytes);
            view.set_raw_string(key, bytes);
            view.count_more_changes(changes);
            changes + 1
        }
    };
    if changes > 0 {
        view.notify(EventClass::String, "pfadd", key);
    }
    Ok(Reply::Integer(i64::from(changes > 0)))
}

const PFCOUNT: Command = Command::new(
    Handler::Keys(pfcount),
    CommandSpec {
        usage: "key [key ...]",
        summary: "Estimates how many different elements were added to HyperLogLogs.",
        complexity: "O(1) for one key; O(N) for N keys, and slower",
        group: Group::HyperLogLog,
        since: SINCE,
        arity: Arity::AtLeast(2),
        keys: &[KeySpec::range(1, -1, 1, &["RW", "access"])
            .with_notes("RW because it may change the internal representation of the key, and propagate to replicas")],
        // It may cache the count that it tells.
        flags: &[Flag::ReadOnly, Flag::MayReplicate],
        categories: &[Category::HyperLogLog],
        ..CommandSpec::new("PFCOUNT")
    },
);

fn pfcount<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    if args.left() > 1 {
        let mut union = Union::new();
        merge_all(view, args.rest().iter(), &mut union)?;
        return Ok(count_reply(union.count()));
    }
    let key = args.key()?;
    let Some(text) = view.text(key)? else { return Ok(Reply::Integer(0)) };
    encoding(text.bytes)?;
    if let Some(count) = hyperloglog::kept_count(text.bytes)
        && text.edited
    {
        return Ok(count_reply(count));
    }
    let counted = view.edit_existing_string(key, check, |bytes| {
        if let Some(count) = hyperloglog::kept_count(bytes) {
            return (Ok(count), 0);
        }
        let count = hyperloglog::count(bytes);
        if let Ok(count) = count {
            hyperloglog::keep_count(bytes, count);
        }
        (count, usize::from(count.is_ok()))
    })?;
    Ok(count_reply(counted.unwrap_or(Ok(0)).map_err(corrupt)?))
}

fn count_reply(count: u64) -> Reply<'static> {
    Reply::Integer(count as i64)
}

/// Merges the registers of several keys into `union`. Returns whether any of them is dense.
fn merge_all<'a>(
    view: &mut View<'_>,
    keys: impl Iterator<Item = &'a [u8]>,
    union: &mut Union,
) -> Result<bool, CommandError> {
    let mut dense = false;
    for key in keys {
        if let Some(bytes) = view.string(key)? {
            dense |= encoding(bytes)? == Encoding::Dense;
            union.add(bytes).map_err(corrupt)?;
        }
    }
    Ok(dense)
}

const PFMERGE: Command = Command::new(
    Handler::Keys(pfmerge),
    CommandSpec {
        usage: "destkey sourcekey [sourcekey ...]",
        summary: "Adds to a HyperLogLog all that was added to others.",
        complexity: "O(N) for N HyperLogLogs",
        group: Group::HyperLogLog,
        since: SINCE,
        arity: Arity::AtLeast(2),
        keys: &[KeySpec::one(1, &["RW", "access", "insert"]), KeySpec::range(2, -1, 1, &["RO", "access"])],
        flags: &[Flag::Write, Flag::DenyOom],
        categories: &[Category::HyperLogLog],
        ..CommandSpec::new("PFMERGE")
    },
);

fn pfmerge<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let mut union = Union::new();
    let dense = merge_all(view, args.rest().iter(), &mut union)?;
    let key = args.key()?;
    let longest = view.settings().sparse_limit();
    let write = |bytes: &mut Vec<u8>| {
        if dense {
            hyperloglog::make_dense(bytes)?;
        }
        union.write_to(bytes, longest);
        hyperloglog::outdate(bytes);
        Ok::<_, Corrupt>(())
    };
    match view.edit_existing_string(key, check, |bytes| (write(bytes), 1))? {
        Some(written) => written.map_err(corrupt)?,
        None => {
            let mut bytes = hyperloglog::empty();
            write(&mut bytes).map_err(corrupt)?;
            view.set_raw_string(key, bytes);
        }
    }
    view.notify(EventClass::String, "pfadd", key);
    Ok(Reply::OK)
}

const PFDEBUG: Command = Command::new(
    Handler::Keys(pfdebug),
    CommandSpec {
        usage: "subcommand key",
        summary: "Shows how a HyperLogLog is written, for tests.",
        complexity: "O(N) for N registers",
        group: Group::HyperLogLog,
        since: SINCE,
        arity: Arity::Exactly(3),
        keys: &[KeySpec::one(2, &["RW", "access"])],
        flags: &[Flag::Write, Flag::DenyOom, Flag::Admin],
        categories: &[Category::HyperLogLog],
        for_server_tests: true,
        ..CommandSpec::new("PFDEBUG")
    },
);

fn pfdebug<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (name, key) = (args.bytes()?, args.key()?);
    let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
    let converts = is("GETREG") || is("TODENSE");
    // PFDEBUG leaves the string in the `raw` encoding, and does not touch the key for WATCH.
    let looked = view.edit_existing_string(key, check, |bytes| {
        let converted = if converts { hyperloglog::make_dense(bytes) } else { Ok(false) };
        (converted, 0)
    })?;
    let converted = looked.ok_or(CommandError::fixed("ERR The specified key does not exist"))?.map_err(corrupt)?;
    view.count_more_changes(usize::from(converted));
    let bytes = view.string_to_write(key)?.unwrap_or_default();
    let encoding = encoding(bytes)?;
    if is("GETREG") {
        let registers = hyperloglog::dense_registers(bytes);
        Ok(Reply::Array(registers.map(|value| Reply::Integer(i64::from(value))).collect()))
    } else if is("TODENSE") {
        Ok(Reply::Integer(i64::from(converted)))
    } else if is("ENCODING") {
        Ok(Reply::Status(if encoding == Encoding::Dense { "dense" } else { "sparse" }))
    } else if is("DECODE") {
        match encoding {
            Encoding::Dense => Err(CommandError::fixed("ERR HLL encoding is not sparse")),
            Encoding::Sparse => Ok(Reply::text(hyperloglog::describe_runs(bytes))),
        }
    } else {
        Err(CommandError::quoting("ERR Unknown PFDEBUG subcommand '", name, "'"))
    }
}

const PFSELFTEST: Command = Command::new(
    Handler::Connection(|call, _| match hyperloglog::self_test(call.server.keyspace.settings().sparse_limit()) {
        Ok(()) => Ok(Reply::OK),
        Err(text) => Err(CommandError::new(format!("ERR TESTFAILED {text}"))),
    }),
    CommandSpec {
        summary: "Tests that HyperLogLogs count well.",
        complexity: "O(1), and slow",
        group: Group::HyperLogLog,
        since: SINCE,
        flags: &[Flag::Admin],
        categories: &[Category::HyperLogLog],
        for_server_tests: true,
        ..CommandSpec::new("PFSELFTEST")
    },
);
