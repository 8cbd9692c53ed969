//! REDOUBLE FAILOVER: a replica takes its master's place.

use super::{Action, Power, count, expected, nothing_more, number, text};
use crate::base::error::CommandError;
use crate::clients::fleet::{CLOSED, FailoverOrder, Fleet, Losing};
use crate::clients::session::{Flow, Wait};
use crate::commands::{Call, CommandResult};
use crate::protocol::Reply;
use crate::spec::{Args, Arity};

pub(super) const FAILOVER: Power = Power {
    arity: Arity::AtLeast(3),
    for_clients: true,
    ..Power::new("FAILOVER", SUMMARY, &[Action { words: WORDS, summary: SUMMARY, run: fail_over }])
};

const WORDS: &str = "instance [TO replica] [LOSING count | ALL-UNREPLICATED]";
const SUMMARY: &str = "Makes a replica of an instance the master in its place, without what its link has not let go, or without \
                       the last changes.";

fn fail_over(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let instance = usize::try_from(number(args, "the number of the instance", 1)?).unwrap_or(usize::MAX);
    call.permit_at_root(args)?;
    let fleet = call.server.fleet().ok_or(CLOSED)?;
    let mut order = FailoverOrder::default();
    if args.take("TO") {
        order.to = Some(replica(&*fleet, args)?);
    }
    if args.take("LOSING") && !args.take("ALL-UNREPLICATED") {
        order.losing = Losing::Last(number(args, "the number of changes, or ALL-UNREPLICATED,", 1)?);
    }
    nothing_more(args)?;
    let (done, consequences) = fleet.fail_over(instance, order, call.session.client.id())?;
    let event = async move {
        match consequences.await {
            Ok(()) => Reply::Map(vec![
                (text("instance"), count(done.number as u64)),
                (text("port"), count(done.port.into())),
                (text("lost"), count(done.lost)),
            ]),
            Err(error) => Reply::Error(error),
        }
    };
    call.flow = Flow::Wait(Box::new(Wait::RunningJob(Box::pin(event))));
    Ok(Reply::Nothing)
}

/// The number of a replica, which is named by that, or by its address and port.
fn replica(fleet: &dyn Fleet, args: &mut Args<'_>) -> Result<usize, CommandError> {
    let word = args.bytes()?;
    let named = std::str::from_utf8(word).ok().and_then(|word| match word.rsplit_once(':') {
        Some((host, port)) => fleet.instance_at(host.as_bytes(), port.parse().ok()?),
        None => word.parse().ok(),
    });
    named.ok_or_else(|| expected("the number of an instance, or the address and port of one, was expected", Some(word)))
}
