//! REPLICAOF. This server follows no other, so it can only be told to go on without one.

use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::protocol::{Reply, parse_integer};
use crate::spec::{Args, Arity, CommandSpec, Flag, Group, Secrets};

pub(super) const ROWS: &[Command] = &[REPLICAOF, SLAVEOF];

const INVALID_PORT: CommandError = CommandError::fixed("ERR Invalid master port");
const REFUSED: CommandError =
    CommandError::fixed("ERR REPLICAOF: this server follows no other, only NO ONE is possible");

const REPLICAOF: Command = Command::new(
    Handler::Connection(follow),
    CommandSpec {
        usage: "<host port | NO ONE>",
        summary: "Goes on without a primary, the only choice there is here.",
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

fn follow(_: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let (host, port) = (args.bytes()?, args.bytes()?);
    if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
        return Ok(Reply::OK);
    }
    match parse_integer(port) {
        Some(0..=65_535) => Err(REFUSED),
        _ => Err(INVALID_PORT),
    }
}
