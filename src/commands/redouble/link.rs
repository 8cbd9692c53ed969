//! REDOUBLE LINK: the links to the replicas of an instance.

use super::{
    Action, Power, USUAL_TIMEOUT, answer_after, count, duration, expected, in_time, nothing_more, number, text,
};
use crate::base::clock::{Clock, Millis};
use crate::base::duration::spell_duration;
use crate::base::error::CommandError;
use crate::clients::fleet::{CLOSED, LinkInfo, LinkOrder};
use crate::commands::{Call, CommandResult};
use crate::protocol::Reply;
use crate::spec::{Args, Arity};

pub(super) const LINK: Power = Power {
    arity: Arity::AtLeast(4),
    for_clients: true,
    ..Power::new("LINK", SUMMARY, &[Action { words: WORDS, summary: SUMMARY, run: link }])
};

const WORDS: &str =
    "instance <LIST | HOLD | WAIT count [TIMEOUT duration] | STEP count | LAG duration | CUT | HEAL> [replica]";
const SUMMARY: &str = "Holds what an instance sends to its replicas, waits until so many changes are held, lets them go one by one \
                       or late, or cuts replicas off.";

fn link(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let instance = usize::try_from(number(args, "the number of the instance", 1)?).unwrap_or(usize::MAX);
    if args.take("WAIT") {
        return wait(call, args, instance);
    }
    let order = match () {
        () if args.take("LIST") => None,
        () if args.take("HOLD") => Some(LinkOrder::Hold),
        () if args.take("CUT") => Some(LinkOrder::Cut),
        () if args.take("HEAL") => Some(LinkOrder::Heal),
        () if args.take("STEP") => {
            let most = number(args, "the number of changes", 1)?;
            Some(LinkOrder::Step(most))
        }
        () if args.take("LAG") => {
            Some(LinkOrder::Lag(Millis::try_from(duration(args)?.as_millis()).unwrap_or(Millis::MAX)))
        }
        () => return Err(expected("LIST, HOLD, WAIT, STEP, LAG, CUT or HEAL was expected", args.peek())),
    };
    let name = match (&order, args.optional()) {
        (None, Some(word)) => return Err(expected("nothing more was expected", Some(word))),
        (_, None) => None,
        (Some(_), Some(word)) => Some(named(word)?),
    };
    nothing_more(args)?;
    call.permit_at_root(args)?;
    let fleet = call.server.fleet().ok_or(CLOSED)?;
    Ok(match order {
        None => Reply::Array(fleet.links(instance)?.into_iter().map(describe).collect()),
        Some(order) => {
            let number = count(fleet.order_link(instance, order, name)?);
            // Inside of EXEC data are locked, and what was let go runs a moment later.
            if !call.session.executing {
                fleet.bring_replicas_up_to_date();
            }
            number
        }
    })
}

fn named(word: &[u8]) -> Result<&str, CommandError> {
    let name = std::str::from_utf8(word).ok().filter(|name| !name.is_empty());
    name.ok_or_else(|| expected("a replica's address and port, or the number of an instance, was expected", Some(word)))
}

fn wait(call: &mut Call<'_>, args: &mut Args<'_>, instance: usize) -> CommandResult<'static> {
    let wanted = usize::try_from(number(args, "the number of changes", 1)?).unwrap_or(usize::MAX);
    let timeout = if args.take("TIMEOUT") { duration(args)? } else { USUAL_TIMEOUT };
    let name = args.optional().map(named).transpose()?;
    nothing_more(args)?;
    call.permit_at_root(args)?;
    let watch = call.server.fleet().ok_or(CLOSED)?.watch_link(instance, name, wanted)?;
    let event = async move {
        let late = || {
            let timeout = spell_duration(timeout);
            format!("TIMEOUT the links of instance {instance} hold fewer changes than {wanted} after {timeout}")
        };
        in_time(watch, Clock::sleep(timeout))
            .await
            .map_or_else(|| Reply::Error(CommandError::new(late())), |held| count(held as u64))
    };
    answer_after(call, event)
}

fn describe(link: LinkInfo) -> Reply<'static> {
    Reply::Map(vec![
        (text("replica"), text(link.replica)),
        (text("state"), text(link.state.name())),
        (text("held"), count(link.held as u64)),
        (text("acknowledged"), count(link.acknowledged)),
        (text("behind"), count(link.behind)),
    ])
}
