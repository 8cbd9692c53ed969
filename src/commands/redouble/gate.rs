//! REDOUBLE GATE: holds commands, and lets them go on in the order that a test wants.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::pattern::{take_part, usage};
use super::{Action, act, count, duration, name, nothing_more, number, power, settle, text};
use crate::clock::Clock;
use crate::control::{Gate, Guest, Pattern, Side, line_of};
use crate::duration::spell_duration;
use crate::error::CommandError;
use crate::resp::Reply;
use crate::spec::{Args, Call, CommandResult, CommandSpec, Flow, Waiting};

pub(super) const GATE: CommandSpec = power(
    "GATE",
    "<ADD name [ON command [command ...]] [KEY pattern] [CLIENT name-or-id] [DB index] [<BEFORE | AFTER>] \
     [TIMEOUT duration] | WAIT name [count [timeout]] | OPEN name | STEP name | LIST | REMOVE name | CLEAR>",
    "Holds commands and lets them go on one by one.",
    |call, args| act(ACTIONS, call, args),
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
        summary: "Answers once so many (1) are held there; an error after the timeout (10s of real time).",
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

const USUAL_TIMEOUT: Duration = Duration::from_secs(10);

/// How many of those who are held are named when there are too few of them.
const NAMED: usize = 8;

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
    nothing_more(args)?;
    call.server
        .add_gate(&name, pattern, side, timeout)
        .map_err(|reason| CommandError::new(format!("ERR {reason}")))?;
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
        let mut time = pin!(Clock::pass(timeout));
        let mut watch = pin!(gate.stop.watch(wanted));
        let held = poll_fn(|cx| match watch.as_mut().poll(cx) {
            Poll::Ready(held) => Poll::Ready(Some(held)),
            Poll::Pending => time.as_mut().poll(cx).map(|()| None),
        })
        .await;
        match held {
            Some(Some(held)) => count(held as u64),
            Some(None) => Reply::Error(CommandError::new(format!("ERR gate '{}' is open: it holds nobody", gate.name))),
            None => Reply::Error(too_few(&gate, wanted, timeout, &control.gates.passers(&gate))),
        }
    };
    answer_after(call, event)
}

/// Says who is held; if nobody is, what has happened instead.
fn too_few(gate: &Gate, wanted: usize, timeout: Duration, passers: &[Guest]) -> CommandError {
    let held = gate.stop.guests();
    let instead = if !held.is_empty() {
        named(&held)
    } else if passers.is_empty() && gate.stop.arrived() == 0 {
        "no command has come since it was put up".to_owned()
    } else if passers.is_empty() {
        format!("{} have come and gone", gate.stop.arrived())
    } else {
        format!("these came last and do not match: {}", named(passers))
    };
    let (name, held, timeout) = (&gate.name, held.len(), spell_duration(timeout));
    CommandError::new(format!("TIMEOUT gate '{name}' holds {held} of {wanted} after {timeout}: {instead}"))
}

fn named(guests: &[Guest]) -> String {
    let mut names: Vec<String> = guests.iter().take(NAMED).map(Guest::to_string).collect();
    if guests.len() > NAMED {
        names.push(format!("and {} more", guests.len() - NAMED));
    }
    names.join(", ")
}

fn open(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let gate = find(call, args)?;
    nothing_more(args)?;
    let freed = let_go(Opening { gate, clock: Arc::clone(&call.server.clock) });
    answer_after(call, async { count(freed.await) })
}

/// A gate that is to be open in the end, even if whoever opens it goes away meanwhile.
struct Opening {
    gate: Arc<Gate>,
    clock: Arc<Clock>,
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.gate.stop.open(&self.clock);
    }
}

/// Lets everybody go on who is held at a gate, each only when the one before has gone as far as it can; how many went.
/// The gate is open then.
async fn let_go(opening: Opening) -> u64 {
    let mut freed = 0;
    // Not those who come meanwhile, which may be without end.
    for _ in 0..opening.gate.stop.held() {
        if opening.gate.stop.step(&opening.clock).is_some() {
            freed += 1;
            opening.clock.settle().await;
        }
    }
    let clock = Arc::clone(&opening.clock);
    drop(opening);
    clock.settle().await;
    freed
}

/// Answers with what comes of this.
fn answer_after(
    call: &mut Call<'_>,
    event: impl Future<Output = Reply<'static>> + Send + 'static,
) -> CommandResult<'static> {
    call.flow = Flow::Wait(Box::new(Waiting::Event(Box::pin(event))));
    Ok(Reply::Nothing)
}

fn step(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let gate = find(call, args)?;
    nothing_more(args)?;
    if gate.stop.step(&call.server.clock).is_none() {
        return Err(CommandError::new(format!("ERR nobody is held at gate '{}'", gate.name)));
    }
    settle(call, Reply::OK)
}

fn list(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    Ok(Reply::Array(call.server.control.gates.all().iter().map(|gate| describe(gate)).collect()))
}

fn describe(gate: &Gate) -> Reply<'static> {
    let guests = gate.stop.guests().iter().map(|guest| text(guest.to_string())).collect();
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
    let server = call.server;
    let gate = server.control.gates.take(&name, &server.attention).ok_or_else(|| no_gate(&name))?;
    let freed = let_go(Opening { gate, clock: Arc::clone(&server.clock) });
    answer_after(call, async {
        freed.await;
        Reply::OK
    })
}

fn clear(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    let server = call.server;
    let gates = server.control.gates.take_all(&server.attention);
    let opening = |gate| Opening { gate, clock: Arc::clone(&server.clock) };
    let openings: Vec<Opening> = gates.into_iter().map(opening).collect();
    answer_after(call, async {
        let mut unreached = Vec::new();
        for opening in openings {
            if opening.gate.stop.arrived() == 0 {
                unreached.push(text(opening.gate.name.clone()));
            }
            let_go(opening).await;
        }
        Reply::Array(unreached)
    })
}

fn find(call: &Call<'_>, args: &mut Args<'_>) -> Result<Arc<Gate>, CommandError> {
    let name = name(args)?;
    call.server.control.gates.find(&name).ok_or_else(|| no_gate(&name))
}

fn no_gate(name: &str) -> CommandError {
    CommandError::new(format!("ERR there is no gate '{name}'"))
}
