//! MULTI, EXEC, DISCARD, WATCH, UNWATCH: rows only. The engine runs them.

use crate::base::profile::Since;
use crate::commands::{Command, Handler};
use crate::spec::{Arity, Category, CommandSpec, Flag, Group, KeySpec, TransactionCommand};

pub(super) const ROWS: &[Command] = &[MULTI, EXEC, DISCARD, WATCH, UNWATCH];

/// Valkey 9 says of more commands that they have no place in a transaction.
const NOT_NESTED: &[(Since, &[Flag])] = &[(
    Since::valkey(9, 0, 0),
    &[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::Fast, Flag::NoMulti, Flag::AllowBusy],
)];

const MULTI: Command = Command::new(
    Handler::Transaction(TransactionCommand::Multi),
    CommandSpec {
        summary: "Begins a transaction: the commands that follow are queued.",
        group: Group::Transactions,
        since: Since::redis(1, 2, 0),
        arity: Arity::Exactly(1),
        flags: &[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::Fast, Flag::AllowBusy],
        later_flags: NOT_NESTED,
        categories: &[Category::Transaction],
        ..CommandSpec::new("MULTI")
    },
);

const EXEC: Command = Command::new(
    Handler::Transaction(TransactionCommand::Exec),
    CommandSpec {
        summary: "Runs the queued commands, unless a watched key was touched.",
        complexity: "That of the queued commands together",
        group: Group::Transactions,
        since: Since::redis(1, 2, 0),
        arity: Arity::Exactly(1),
        flags: &[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::SkipSlowlog],
        categories: &[Category::Transaction],
        ..CommandSpec::new("EXEC")
    },
);

const DISCARD: Command = Command::new(
    Handler::Transaction(TransactionCommand::Discard),
    CommandSpec {
        summary: "Gives up the transaction and forgets the watched keys.",
        complexity: "O(N) in the number of queued commands",
        group: Group::Transactions,
        since: Since::redis(2, 0, 0),
        arity: Arity::Exactly(1),
        flags: &[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::Fast, Flag::AllowBusy],
        categories: &[Category::Transaction],
        ..CommandSpec::new("DISCARD")
    },
);

const WATCH: Command = Command::new(
    Handler::Transaction(TransactionCommand::Watch),
    CommandSpec {
        usage: "key [key ...]",
        summary: "Watches keys: the next transaction only runs if none of them changes.",
        complexity: "O(1) for each key",
        group: Group::Transactions,
        since: Since::redis(2, 2, 0),
        arity: Arity::AtLeast(2),
        keys: &[KeySpec::range(1, -1, 1, &["RO"])],
        flags: &[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::Fast, Flag::AllowBusy],
        later_flags: NOT_NESTED,
        categories: &[Category::Transaction],
        ..CommandSpec::new("WATCH")
    },
);

const UNWATCH: Command = Command::new(
    Handler::Transaction(TransactionCommand::Unwatch),
    CommandSpec {
        summary: "Forgets the watched keys.",
        group: Group::Transactions,
        since: Since::redis(2, 2, 0),
        arity: Arity::Exactly(1),
        flags: &[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::Fast, Flag::AllowBusy],
        categories: &[Category::Transaction],
        ..CommandSpec::new("UNWATCH")
    },
);
