//! TIME, ROLE and LASTSAVE; and what the rows of this group have in common.

use crate::base::profile::Since;
use crate::clients::instance::{Primary, ReplicaState};
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::data::keyspace::View;
use crate::protocol::Reply;
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group};

pub(super) const ROWS: &[Command] = &[LASTSAVE, ROLE, TIME];

const DEPENDS: &str = "Depends on the subcommand.";
const WHICH_SUBCOMMANDS: &str = "Says which subcommands there are.";

/// A row of this group for a command without arguments.
pub(super) const fn simple_row(name: &'static str) -> CommandSpec {
    CommandSpec { group: Group::Server, ..CommandSpec::new(name) }
}

pub(super) const fn container(name: &'static str) -> CommandSpec {
    CommandSpec { complexity: DEPENDS, arity: Arity::AtLeast(2), ..simple_row(name) }
}

pub(super) const fn help_row(since: Since, run: Handler) -> Command {
    Command::new(
        run,
        CommandSpec {
            summary: WHICH_SUBCOMMANDS,
            since,
            arity: Arity::Exactly(2),
            flags: &[Flag::Loading, Flag::Stale],
            ..simple_row("HELP")
        },
    )
}

const TIME: Command = Command::new(
    Handler::Keys(time),
    CommandSpec {
        summary: "Tells the server's time: seconds since 1970, and microseconds.",
        since: Since::redis(2, 6, 0),
        flags: &[Flag::Loading, Flag::Stale, Flag::Fast],
        tips: &["nondeterministic_output"],
        ..simple_row("TIME")
    },
);

fn time<'v>(view: &'v mut View<'_>, _: &mut Args<'v>) -> CommandResult<'v> {
    let micros = view.micros();
    Ok(Reply::strings([micros.div_euclid(1_000_000).to_string(), micros.rem_euclid(1_000_000).to_string()]))
}

const ROLE: Command = Command::new(
    Handler::Connection(role),
    CommandSpec {
        summary: "Tells the server's part in replication.",
        since: Since::redis(2, 8, 12),
        flags: &[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::Fast],
        categories: &[Category::Admin, Category::Dangerous],
        ..simple_row("ROLE")
    },
);

fn role(call: &mut Call<'_>, _: &mut Args<'_>) -> CommandResult<'static> {
    Ok(Reply::Array(match call.server.primary() {
        None => {
            let stream = call.server.replication_state();
            let replica = |ReplicaState { address, port, acknowledged, .. }: ReplicaState| {
                Reply::strings([address, port.to_string(), acknowledged.to_string()])
            };
            let online = stream.replicas.into_iter().filter(|replica| replica.is_online);
            let replicas = online.map(replica).collect();
            vec![Reply::text("master"), Reply::Integer(stream.offset as i64), Reply::Array(replicas)]
        }
        // `connect`: about to try it again. A negative offset: there is no link.
        Some(Primary { host, port }) => {
            let link = call.server.master_link_state();
            let (state, offset) = if link.is_up { ("connected", link.offset as i64) } else { ("connect", -1) };
            vec![
                Reply::text("slave"),
                Reply::bulk(host),
                Reply::Integer(port),
                Reply::text(state),
                Reply::Integer(offset),
            ]
        }
    }))
}

const LASTSAVE: Command = Command::new(
    Handler::Connection(|call, _| Ok(Reply::Integer(call.server.persistence.last_save().div_euclid(1000)))),
    CommandSpec {
        summary: "Tells when the data was last saved: when the server started, if that never happened.",
        flags: &[Flag::Loading, Flag::Stale, Flag::Fast],
        categories: &[Category::Admin, Category::Dangerous],
        tips: &["nondeterministic_output"],
        ..simple_row("LASTSAVE")
    },
);
