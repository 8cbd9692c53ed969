//! CLUSTER and what belongs to it. This server is in no cluster, and says so as a real one does.

use crate::base::error::CommandError;
use crate::base::hash_slot::hash_slot;
use crate::base::profile::{Since, Version};
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::protocol::Reply;
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec};

pub(super) const ROWS: &[Command] = &[ASKING, CLUSTER, CLUSTERSCAN, READONLY, READWRITE];

const DISABLED: CommandError = CommandError::fixed("ERR This instance has cluster support disabled");
/// Some commands of a cluster's client also work on a server without one.
const STANDALONE: Since = Since::valkey(9, 1, 0);
const SINCE: Since = Since::redis(3, 0, 0);

const LOOK: &[Flag] = &[Flag::Stale];
/// Valkey 9 answers some even while it loads its data.
const WHILE_LOADING: &[(Since, &[Flag])] = &[(Since::valkey(9, 0, 0), &[Flag::Loading, Flag::Stale])];
const CHANGE: &[Flag] = &[Flag::Admin, Flag::Stale, Flag::NoAsyncLoading];
const VARIES: &[&str] = &["nondeterministic_output"];

fn refuse(_: &mut Call<'_>, _: &mut Args<'_>) -> CommandResult<'static> {
    Err(DISABLED)
}

const ASKING: Command = Command::new(
    Handler::Connection(refuse),
    CommandSpec {
        summary: "Announces a command that another node of the cluster has redirected here.",
        group: Group::Cluster,
        since: SINCE,
        flags: &[Flag::Fast],
        categories: &[Category::Connection],
        ..CommandSpec::new("ASKING")
    },
);

const READONLY: Command = Command::new(
    Handler::Connection(choose_reads),
    CommandSpec {
        summary: "Lets the connection read from a replica in a cluster.",
        group: Group::Cluster,
        since: SINCE,
        flags: &[Flag::Loading, Flag::Stale, Flag::Fast],
        categories: &[Category::Connection],
        ..CommandSpec::new("READONLY")
    },
);

const READWRITE: Command = Command::new(
    Handler::Connection(choose_reads),
    CommandSpec { summary: "Ends what READONLY began.", name: "READWRITE", ..READONLY.spec },
);

/// Without replicas, both kinds of reads are the same.
fn choose_reads(_: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    if args.profile().has(STANDALONE) { Ok(Reply::OK) } else { Err(DISABLED) }
}

const CLUSTERSCAN: Command = Command::new(
    Handler::Connection(refuse),
    CommandSpec {
        usage: "cursor [MATCH pattern] [COUNT count] [TYPE type] [SLOT slot]",
        summary: "Walks through the keys of a cluster.",
        complexity: "O(N) in the number of keys returned",
        group: Group::Cluster,
        since: STANDALONE,
        arity: Arity::AtLeast(2),
        keys: &[KeySpec::one(1, &["not_key"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::Keyspace],
        tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
        ..CommandSpec::new("CLUSTERSCAN")
    },
);

const CLUSTER: Command = Command::container(
    CommandSpec {
        summary: "Everything about the cluster, of which this server is no part.",
        complexity: "Depends on the subcommand.",
        group: Group::Cluster,
        since: SINCE,
        arity: Arity::AtLeast(2),
        ..CommandSpec::new("CLUSTER")
    },
    &[
        change("ADDSLOTS", "slot [slot ...]", "Gives hash slots to the node.", Arity::AtLeast(3)),
        since(
            Since::redis(7, 0, 0),
            change("ADDSLOTSRANGE", "start-slot end-slot [start-slot end-slot ...]", RANGES_ADDED, Arity::AtLeast(4)),
        ),
        with_tips(change("BUMPEPOCH", "", "Advances the configuration's epoch.", Arity::Exactly(2))),
        since(
            Since::valkey(9, 0, 0),
            change("CANCELSLOTMIGRATIONS", "", "Ends all moves of slots from the node.", Arity::Exactly(2)),
        ),
        admin_look("COUNT-FAILURE-REPORTS", "node-id", "Tells how many nodes report another one as failed."),
        look("COUNTKEYSINSLOT", "slot", "Tells how many keys a hash slot has here.", Arity::Exactly(3), &[]),
        change("DELSLOTS", "slot [slot ...]", "Takes hash slots from the node.", Arity::AtLeast(3)),
        since(
            Since::redis(7, 0, 0),
            change("DELSLOTSRANGE", "start-slot end-slot [start-slot end-slot ...]", RANGES_TAKEN, Arity::AtLeast(4)),
        ),
        change("FAILOVER", "[FORCE | TAKEOVER]", "Makes a replica the primary.", Arity::AtLeast(2)),
        since(
            Since::valkey(9, 0, 0),
            Command::new(
                Handler::Connection(refuse),
                CommandSpec {
                    usage: "slot [ASYNC | SYNC]",
                    arity: Arity::AtLeast(3),
                    flags: &[Flag::Write, Flag::Admin, Flag::NoAsyncLoading],
                    categories: &[Category::Keyspace],
                    ..sub("FLUSHSLOT", "Deletes the keys of a hash slot.")
                },
            ),
        ),
        change("FLUSHSLOTS", "", "Takes all hash slots from the node.", Arity::Exactly(2)),
        change("FORGET", "node-id", "Removes a node from the table of nodes.", Arity::Exactly(3)),
        look("GETKEYSINSLOT", "slot count", "Returns keys of a hash slot.", Arity::Exactly(4), VARIES),
        since(
            Since::valkey(9, 0, 0),
            change("GETSLOTMIGRATIONS", "", "Tells which slots are on the move.", Arity::Exactly(2)),
        ),
        since(
            Since::redis(5, 0, 0),
            Command::new(
                Handler::Connection(refuse),
                CommandSpec {
                    arity: Arity::Exactly(2),
                    flags: &[Flag::Loading, Flag::Stale],
                    ..sub("HELP", "Lists the subcommands.")
                },
            ),
        ),
        while_loading(look("INFO", "", "Describes the state of the cluster.", Arity::Exactly(2), VARIES)),
        Command::new(
            Handler::Connection(keyslot),
            CommandSpec {
                usage: "key",
                complexity: "O(N) in the length of the key",
                arity: Arity::Exactly(3),
                flags: LOOK,
                ..sub("KEYSLOT", "Returns the hash slot of a key.")
            },
        ),
        since(
            Since::redis(7, 0, 0),
            look("LINKS", "", "Lists the connections to and from other nodes.", Arity::Exactly(2), VARIES),
        ),
        change("MEET", "ip port [cluster-bus-port]", "Introduces another node.", Arity::AtLeast(4)),
        since(
            Since::valkey(9, 0, 0),
            change("MIGRATESLOTS", MIGRATION, "Moves slots to other nodes.", Arity::AtLeast(4)),
        ),
        while_loading(look("MYID", "", "Returns the node's identity.", Arity::Exactly(2), &[])),
        since(
            Since::redis(7, 2, 0),
            while_loading(look(
                "MYSHARDID",
                "",
                "Returns the identity of the node's shard.",
                Arity::Exactly(2),
                VARIES,
            )),
        ),
        while_loading(look("NODES", "", "Describes the cluster as the node sees it.", Arity::Exactly(2), VARIES)),
        since(Since::redis(5, 0, 0), admin_look("REPLICAS", "node-id", "Lists the replicas of a node.")),
        Command {
            spec: CommandSpec {
                later_arities: &[(Since::valkey(9, 0, 0), Arity::AtLeast(3))],
                ..change("REPLICATE", "node-id", "Makes the node a replica of another one.", Arity::Exactly(3)).spec
            },
            ..change("REPLICATE", "", "", Arity::Exactly(3))
        },
        Command::new(
            Handler::Connection(refuse),
            CommandSpec {
                usage: "[HARD | SOFT]",
                complexity: "O(N) in the number of known nodes",
                arity: Arity::AtLeast(2),
                flags: &[Flag::Admin, Flag::NoScript, Flag::Stale],
                ..sub("RESET", "Makes the node forget its cluster.")
            },
        ),
        change("SAVECONFIG", "", "Writes the node's configuration to its file.", Arity::Exactly(2)),
        change("SET-CONFIG-EPOCH", "config-epoch", "Sets the epoch of a new node.", Arity::Exactly(3)),
        change("SETSLOT", SLOT_STATES, "Changes the state of a hash slot.", Arity::AtLeast(4)),
        since(
            Since::redis(7, 0, 0),
            while_loading(look(
                "SHARDS",
                "",
                "Lists the shards with their slots and nodes.",
                Arity::Exactly(2),
                VARIES,
            )),
        ),
        admin_look("SLAVES", "node-id", "Lists the replicas of a node."),
        since(
            Since::each(Version(8, 2, 0), Version(8, 0, 0)),
            while_loading(look(
                "SLOT-STATS",
                SLOT_STATS,
                "Tells how much hash slots are used.",
                Arity::AtLeast(4),
                SLOT_STATS_TIPS,
            )),
        ),
        while_loading(look("SLOTS", "", "Maps hash slots to nodes.", Arity::Exactly(2), VARIES)),
        since(
            Since::valkey(9, 0, 0),
            change("SYNCSLOTS", "arg [arg ...]", "Moves slots, from server to server.", Arity::AtLeast(3)),
        ),
    ],
);

const RANGES_ADDED: &str = "Gives ranges of hash slots to the node.";
const RANGES_TAKEN: &str = "Takes ranges of hash slots from the node.";
const SLOT_STATES: &str = "slot <IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE>";
const SLOT_STATS: &str = "<SLOTSRANGE start-slot end-slot | ORDERBY metric [LIMIT limit] [ASC | DESC]>";
const SLOT_STATS_TIPS: &[&str] = &["nondeterministic_output", "request_policy:all_shards"];
const MIGRATION: &str = "SLOTSRANGE start-slot end-slot [start-slot end-slot ...] NODE node-id";

const fn sub(name: &'static str, summary: &'static str) -> CommandSpec {
    CommandSpec { summary, group: Group::Cluster, since: SINCE, ..CommandSpec::new(name) }
}

/// A subcommand that a node of a cluster is changed by.
const fn change(name: &'static str, usage: &'static str, summary: &'static str, arity: Arity) -> Command {
    let spec = CommandSpec { usage, arity, flags: CHANGE, ..sub(name, summary) };
    Command::new(Handler::Connection(refuse), spec)
}

/// A subcommand that tells something.
const fn look(
    name: &'static str,
    usage: &'static str,
    summary: &'static str,
    arity: Arity,
    tips: &'static [&'static str],
) -> Command {
    let spec = CommandSpec { usage, arity, flags: LOOK, tips, ..sub(name, summary) };
    Command::new(Handler::Connection(refuse), spec)
}

/// A subcommand that Valkey 9 answers while it loads its data.
const fn while_loading(command: Command) -> Command {
    Command { spec: CommandSpec { later_flags: WHILE_LOADING, ..command.spec }, ..command }
}

/// A subcommand that tells an administrator something about a node.
const fn admin_look(name: &'static str, usage: &'static str, summary: &'static str) -> Command {
    let flags = &[Flag::Admin, Flag::Stale];
    let spec = CommandSpec { usage, arity: Arity::Exactly(3), flags, tips: VARIES, ..sub(name, summary) };
    Command::new(Handler::Connection(refuse), spec)
}

const fn since(since: Since, command: Command) -> Command {
    Command { spec: CommandSpec { since, ..command.spec }, ..command }
}

const fn with_tips(command: Command) -> Command {
    Command { spec: CommandSpec { tips: VARIES, ..command.spec }, ..command }
}

fn keyslot(_: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    if !args.profile().has(STANDALONE) {
        return Err(DISABLED);
    }
    Ok(Reply::Integer(i64::from(hash_slot(args.bytes()?))))
}
