//! REDOUBLE GATE: holds commands, and lets them go on in the order that a test wants.

use std::sync::Arc;

use super::pattern::{PATTERN, take_part};
use super::words::{either, option_names};
use super::{
    Action, Power, USUAL_TIMEOUT, answer_after, begin, count, duration, expected, in_time, name, nothing_more, number,
    settle, text,
};
use crate::base::clock::Clock;
use crate::base::error::CommandError;
use crate::base::join::joined;
use crate::clients::session::ControlJob;
use crate::commands::{Call, CommandResult};
use crate::powers::{Gate, Pattern, Side, line_of};
use crate::protocol::Reply;
use crate::spec::Args;

pub(super) const GATE: Power = Power::new("GATE", "Holds commands and lets them go on one by one.", ACTIONS);

const ADD: &str = joined!(" ", ["ADD name", PATTERN, "[BEFORE | AFTER] [TIMEOUT duration]"]);

const ACTIONS: &[Action] = &[
    Action {
        words: ADD,
        summary: "Holds commands before they run (the default), or with their replies after they ran; for as long as \
                  gate-timeout says, unless this does (0: for ever).",
        run: add,
    },
    Action {
        words: "WAIT name [count [timeout]]",
        summary: "Answers once so many (1) are held there; an error after the timeout (4s of real time).",
        run: wait,
    },
    Action {
        words: "OPEN name",
        summary: "Lets everybody go on, one after another, and holds nobody from then on; how many went.",
        run: open,
    },
    Action {
        words: "STEP name",
        summary: "Lets the one go on who came first. Answers once its command has taken effect.",
        run: step,
    },
    Action { words: "LIST", summary: "The gates, each with who is held there.", run: list },
    Action { words: "REMOVE name", summary: "Takes a gate away; whoever is held goes on.", run: remove },
    Action { words: "CLEAR", summary: "Takes all gates away; the names of those that nobody came to.", run: clear },
];

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
        } else if !take_part(&mut pattern, call, args, ADD)? {
            break;
        }
    }
    if !args.is_empty() {
        return Err(expected(&format!("{} was expected", either(&option_names(ADD))), args.peek()));
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
        match in_time(gate.queue.watch(wanted), Clock::sleep(timeout)).await {
            Some(Some(held)) => count(held as u64),
            Some(None) => Reply::Error(CommandError::new(format!("ERR gate '{}' is open: it holds nobody", gate.name))),
            None => {
                let reason = control.gates.timeout_message(&gate, wanted, timeout);
                Reply::Error(CommandError::new(format!("TIMEOUT {reason}")))
            }
        }
    };
    answer_after(call, event)
}

fn open(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let gate = find(call, args)?;
    nothing_more(args)?;
    let held = gate.queue.parked_count();
    call.server.control.gates.queue_opening(&gate);
    begin(call, ControlJob::OpenGates, count(held as u64))
}

fn step(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let gate = find(call, args)?;
    nothing_more(args)?;
    if gate.queue.release_next(&call.server.clock).is_none() {
        return Err(CommandError::new(format!("ERR nobody is held at gate '{}'", gate.name)));
    }
    settle(call, Reply::OK)
}

fn list(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    Ok(Reply::Array(call.server.control.gates.all().iter().map(|gate| describe(gate)).collect()))
}

fn describe(gate: &Gate) -> Reply<'static> {
    let guests = gate.queue.parked().iter().map(|guest| text(guest.to_string())).collect();
    Reply::Map(vec![
        (text("name"), text(gate.name.clone())),
        (text("rule"), text(line_of(&gate.words()))),
        (text("state"), text(if gate.queue.is_open() { "open" } else { "closed" })),
        (text("arrived"), count(gate.queue.arrived())),
        (text("passed"), count(gate.queue.passed())),
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
    let unreached = gates.iter().filter(|gate| gate.queue.arrived() == 0).map(|gate| text(gate.name.clone()));
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
