//! REDOUBLE INSTANCE: the servers of one process, each of which can stop, hang, or have another time.

use super::{Action, Power, client_glob, count, duration, expected, nothing_more, number, text};
use crate::base::error::CommandError;
use crate::clients::fleet::{CLOSED, InstanceCommand, InstanceInfo};
use crate::clients::session::{Flow, Wait};
use crate::commands::{Call, CommandResult};
use crate::protocol::Reply;
use crate::spec::Args;

pub(super) const INSTANCE: Power = Power::new(
    "INSTANCE",
    "Stops, starts, pauses and skews the instances of this process, or cuts clients off from them.",
    ACTIONS,
)
.for_clients();

const DATA_OF_UPSTREAM: CommandError = CommandError::fixed(
    "ERR REDOUBLE INSTANCE START EMPTY is not available with an upstream: the upstream server has the data",
);

const ACTIONS: &[Action] = &[
    Action {
        words: "LIST",
        summary: "The instances, each with its port, its state, its clients, and how far its clock is ahead of the first's.",
        run: list,
    },
    Action {
        words: "STOP number",
        summary: "Refuses connections and closes those there are. What it holds stays, and so does its port.",
        run: |call, args| control_instance(call, args, |_| Ok(InstanceCommand::Stop)),
    },
    Action {
        words: "START number [EMPTY]",
        summary: "Serves again on the same port, with what it held, or empty.",
        run: |call, args| {
            let keeps = call.server.upstream.is_some();
            control_instance(call, args, |args| match args.take("EMPTY") {
                true if keeps => Err(DATA_OF_UPSTREAM),
                empty => Ok(InstanceCommand::Start { empty }),
            })
        },
    },
    Action {
        words: "PAUSE number",
        summary: "Accepts connections, but answers nothing but REDOUBLE commands.",
        run: |call, args| control_instance(call, args, |_| Ok(InstanceCommand::Pause)),
    },
    Action {
        words: "RESUME number",
        summary: "Goes on with whatever was asked during a pause.",
        run: |call, args| control_instance(call, args, |_| Ok(InstanceCommand::Resume)),
    },
    Action {
        words: "SKEW number duration",
        summary: "Sets its clock ahead of the first one's, or behind it (-1.5s).",
        run: |call, args| control_instance(call, args, |args| Ok(InstanceCommand::Skew(signed(args)?))),
    },
    Action {
        words: "CUT number client-name-glob",
        summary: "Leaves the commands of these clients unanswered there; they do not run.",
        run: |call, args| control_instance(call, args, |args| Ok(InstanceCommand::Cut(client_glob(args)?))),
    },
    Action {
        words: "HEAL number [client-name-glob]",
        summary: "Takes back a cut by the same name, or all; what hangs runs now.",
        run: |call, args| control_instance(call, args, heal),
    },
];

fn list(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    let instances = call.server.fleet().ok_or(CLOSED)?.instances();
    Ok(Reply::Array(instances.iter().map(describe).collect()))
}

fn describe(instance: &InstanceInfo) -> Reply<'static> {
    Reply::Map(vec![
        (text("number"), count(instance.number as u64)),
        (text("port"), count(instance.port.into())),
        (text("state"), text(instance.state.name())),
        (text("skew"), Reply::Integer(instance.skew)),
        (text("clients"), count(instance.clients as u64)),
    ])
}

/// Gives an order to the instance whose number comes first.
fn control_instance(
    call: &mut Call<'_>,
    args: &mut Args<'_>,
    read: impl FnOnce(&mut Args<'_>) -> Result<InstanceCommand, CommandError>,
) -> CommandResult<'static> {
    let number = usize::try_from(number(args, "the number of the instance", 1)?).unwrap_or(usize::MAX);
    let order = read(args)?;
    nothing_more(args)?;
    call.permit_at_root(args)?;
    let fleet = call.server.fleet().ok_or(CLOSED)?;
    let own_end = matches!(order, InstanceCommand::Stop) && number == fleet.number();
    let consequences = fleet.control_instance(number, order, call.session.client.id())?;
    if own_end {
        call.flow = Flow::Close;
        return Ok(Reply::OK);
    }
    let event = async {
        match consequences.await {
            Ok(()) => Reply::OK,
            Err(error) => Reply::Error(error),
        }
    };
    call.flow = Flow::Wait(Box::new(Wait::RunningJob(Box::pin(event))));
    Ok(Reply::Nothing)
}

fn heal(args: &mut Args<'_>) -> Result<InstanceCommand, CommandError> {
    Ok(InstanceCommand::Heal(if args.is_empty() { None } else { Some(client_glob(args)?) }))
}

/// A duration that may be negative, in microseconds.
fn signed(args: &mut Args<'_>) -> Result<i64, CommandError> {
    let word = args.peek();
    let Some(size) = word.and_then(|word| word.strip_prefix(b"-")) else {
        return Ok(i64::try_from(duration(args)?.as_micros()).unwrap_or(i64::MAX));
    };
    let size = crate::base::duration::parse_duration(size);
    let size = size.ok_or_else(|| expected("a duration such as 250ms, 1.5s or -2m was expected", word))?;
    args.optional();
    Ok(i64::try_from(size.as_micros()).map_or(i64::MIN, |micros| -micros))
}
