//! REPLICAOF and FAILOVER. There is no replication: a replica here is one whose primary never answers.

use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::clients::instance::Primary;
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::protocol::{Reply, parse_integer};
use crate::spec::{Args, Arity, CommandSpec, Flag, Group, Secrets};

pub(super) const ROWS: &[Command] = &[REPLICAOF, SLAVEOF, FAILOVER];

const INVALID_PORT: CommandError = CommandError::fixed("ERR Invalid master port");

const REPLICAOF: Command = Command::new(
    Handler::Connection(follow),
    CommandSpec {
        usage: "<host port | NO ONE>",
        summary: "Becomes a replica whose link to the primary is down, or a primary again.",
        group: Group::Server,
        since: Since::redis(5, 0, 0),
        arity: Arity::Exactly(3),
        flags: &[Flag::Admin, Flag::NoScript, Flag::Stale, Flag::NoAsyncLoading],
        // No release takes AUTH here, but people try.
        secrets: Secrets::Handshake,
        ..CommandSpec::new("REPLICAOF")
    },
);

const SLAVEOF: Command = Command::new(
    Handler::Connection(follow),
    CommandSpec {
        since: Since::redis(1, 0, 0),
        deprecated: Some(("5.0.0", "`REPLICAOF`")),
        name: "SLAVEOF",
        ..REPLICAOF.spec
    },
);

fn follow(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let (host, port) = (args.bytes()?, args.bytes()?);
    if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
        call.server.follow_no_one();
        return Ok(Reply::OK);
    }
    let Some(port @ 0..=65_535) = parse_integer(port) else { return Err(INVALID_PORT) };
    let primary = Primary { host: host.to_vec(), port };
    if call.server.primary().as_ref() == Some(&primary) {
        return Ok(Reply::Status("OK Already connected to specified master"));
    }
    call.server.follow(&primary);
    Ok(Reply::OK)
}

const FAILOVER: Command = Command::new(
    Handler::Connection(failover),
    CommandSpec {
        usage: "[TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]",
        summary: "Hands over to a replica. There is never one, so this is always refused.",
        group: Group::Server,
        since: Since::redis(6, 2, 0),
        arity: Arity::AtLeast(1),
        flags: &[Flag::Admin, Flag::NoScript, Flag::Stale],
        ..CommandSpec::new("FAILOVER")
    },
);

fn failover(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    if args.left() == 1 && args.take("ABORT") {
        return Err(CommandError::fixed("ERR No failover in progress."));
    }
    let (mut has_timeout, mut has_target, mut is_forced) = (false, false, false);
    while !args.is_empty() {
        if !has_timeout && args.left() > 1 && args.take("TIMEOUT") {
            has_timeout = true;
            if args.integer()? <= 0 {
                return Err(CommandError::fixed("ERR FAILOVER timeout must be greater than 0"));
            }
        } else if !has_target && args.left() > 2 && args.take("TO") {
            has_target = true;
            args.bytes()?;
            args.integer()?;
        } else if !is_forced && args.take("FORCE") {
            is_forced = true;
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    Err(CommandError::fixed(if call.server.is_replica() {
        "ERR FAILOVER is not valid when server is a replica."
    } else {
        "ERR FAILOVER requires connected replicas."
    }))
}
