//! REDOUBLE GATE: holds commands, and lets them go on in the order that a test wants.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::pattern::{take_part, usage};
use super::{Action, act, begin, count, duration, expected, name, nothing_more, number, power, settle, text};
use crate::base::clock::Clock;
use crate::base::error::CommandError;
use crate::clients::session::{ControlJob, Flow, Wait};
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::powers::{Gate, Pattern, Side, line_of};
use crate::protocol::Reply;
use crate::spec::Args;

pub(super) const GATE: Command = Command::new(
    Handler::Connection(|call, args| act(ACTIONS, call, args)),
    power(
        "GATE",
        "<ADD name [ON command [command ...]] [KEY pattern] [CLIENT name-or-id] [DB index] [<BEFORE | AFTER>] \
     [TIMEOUT duration] | WAIT name [count [timeout]] | OPEN name | STEP name | LIST | REMOVE name | CLEAR>",
        "Holds commands and lets them go on one by one.",
    ),
);

pub(super) const ACTIONS: &[Action] = &[
    Action {
        name: "ADD",
        usage: usage!("<name>", " [before|after] [timeout <duration>]"),
        summary: "Holds commands before they run (the default), or with their replies after they ran; for as long as \
                  gate-timeout says, unless this does (0: for ever).",
        run: add,
    },
    Action {
        name: "WAIT",
        usage: "<name> [<count> [<timeout>]]",
        summary: "Answers once so many (1) are held there; an error after the timeout (4s of real time).",
        run: wait,
    },
    Action {
        name: "OPEN",
        usage: "<name>",
        summary: "Lets everybody go on, one after another, and holds nobody from then on; how many went.",
        run: open,
    },
    Action {
        name: "STEP",
        usage: "<name>",
        summary: "Lets the one go on who came first. Answers once its command has taken effect.",
        run: step,
    },
    Action { name: "LIST", usage: "", summary: "The gates, each with who is held there.", run: list },
    Action { name: "REMOVE", usage: "<name>", summary: "Takes a gate away; whoever is held goes on.", run: remove },
    Action {
        name: "CLEAR",
        usage: "",
        summary: "Takes all gates away; the names of those that nobody came to.",
        run: clear,
    },
];

/// Shorter than the time after which client libraries give up a reply by themselves, so that the test sees why.
const USUAL_TIMEOUT: Duration = Duration::from_secs(4);

fn add(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let name = name(args)?;
    let mut pattern = Pattern::any();
    let mut side = Side::Before;
    let mut timeout = None;
    loop {
        if args.take("before") {
            side = Side::Before;
        } else if args.take("after") {
            side = Side::After;
        } else if args.take("timeout") {
            timeout = Some(duration(args)?);
        } else if !take_part(&mut pattern, call, args, &["before", "after", "timeout"])? {
            break;
        }
    }
    if !args.is_empty() {
        return Err(expected("on, key, client, db, before, after or timeout was expected", args.peek()));
    }
    call.server.add_gate(&name, pattern, side, timeout).map_err(|reason| CommandError::new(format!("ERR {reason}")))?;
    Ok(Reply::OK)
}

fn wait(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let gate = find(call, args)?;
    let wanted = if args.is_empty() { 1 } else { number(args, "the count", 1)? };
    let timeout = if args.is_empty() { USUAL_TIMEOUT } else { duration(args)? };
    nothing_more(args)?;
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let control = Arc::clone(&call.server.control);
    let event = async move {
        let mut time = pin!(Clock::sleep(timeout));
        let mut watch = pin!(gate.stop.watch(wanted));
        let held = poll_fn(|cx| match watch.as_mut().poll(cx) {
            Poll::Ready(held) => Poll::Ready(Some(held)),
            Poll::Pending => time.as_mut().poll(cx).map(|()| None),
        })
        .await;
        match held {
            Some(Some(held)) => count(held as u64),
            Some(None) => Reply::Error(CommandError::new(format!("ERR gate '{}' is open: it holds nobody", gate.name))),
            None => {
                let reason = control.gates.too_few(&gate, wanted, timeout);
                Reply::Error(CommandError::new(format!("TIMEOUT {reason}")))
            }
        }
    };
    call.flow = Flow::Wait(Box::new(Wait::Event(Box::pin(event))));
    Ok(Reply::Nothing)
}

fn open(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let gate = find(call, args)?;
    nothing_more(args)?;
    let held = gate.stop.parked_count();
    call.server.control.gates.open_soon(&gate);
    begin(call, ControlJob::OpenGates, count(held as u64))
}

fn step(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let gate = find(call, args)?;
    nothing_more(args)?;
    if gate.stop.release_next(&call.server.clock).is_none() {
        return Err(CommandError::new(format!("ERR nobody is held at gate '{}'", gate.name)));
    }
    settle(call, Reply::OK)
}

fn list(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    Ok(Reply::Array(call.server.control.gates.all().iter().map(|gate| describe(gate)).collect()))
}

fn describe(gate: &Gate) -> Reply<'static> {
    let guests = gate.stop.parked().iter().map(|guest| text(guest.to_string())).collect();
    Reply::Map(vec![
        (text("name"), text(gate.name.clone())),
        (text("rule"), text(line_of(&gate.words()))),
        (text("state"), text(if gate.stop.is_open() { "open" } else { "closed" })),
        (text("arrived"), count(gate.stop.arrived())),
        (text("passed"), count(gate.stop.passed())),
        (text("held"), Reply::Array(guests)),
    ])
}

fn remove(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let name = name(args)?;
    nothing_more(args)?;
    call.server.remove_gate(&name).ok_or_else(|| no_gate(&name))?;
    begin(call, ControlJob::OpenGates, Reply::OK)
}

fn clear(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    let gates = call.server.remove_gates();
    let unreached = gates.iter().filter(|gate| gate.stop.arrived() == 0).map(|gate| text(gate.name.clone()));
    let reply = Reply::Array(unreached.collect());
    begin(call, ControlJob::OpenGates, reply)
}

fn find(call: &Call<'_>, args: &mut Args<'_>) -> Result<Arc<Gate>, CommandError> {
    let name = name(args)?;
    call.server.control.gates.find(&name).ok_or_else(|| no_gate(&name))
}

fn no_gate(name: &str) -> CommandError {
    CommandError::new(format!("ERR there is no gate '{name}'"))
}
