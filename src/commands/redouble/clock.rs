//! REDOUBLE CLOCK: what time it is for the server, and everything that has a time there.

use super::{Action, act, duration, expected, nothing_more, power};
use crate::error::CommandError;
use crate::resp::{Reply, parse_integer};
use crate::spec::{Args, Call, CommandResult, CommandSpec, Errand, Flow, Waiting};

pub(super) const CLOCK: CommandSpec = power(
    "CLOCK",
    "<NOW | FREEZE [unix-time-milliseconds] | ADVANCE duration | SET unix-time-milliseconds | RESUME>",
    "Reads, stops and moves the server's clock.",
    |call, args| act(ACTIONS, call, args),
);

pub(super) const ACTIONS: &[Action] = &[
    Action { name: "NOW", usage: "", summary: "The server's time, in milliseconds since 1970.", run: now },
    Action {
        name: "FREEZE",
        usage: "[<unix-time-milliseconds>]",
        summary: "Stops the clock where it is, or there.",
        run: freeze,
    },
    Action {
        name: "ADVANCE",
        usage: "<duration>",
        summary: "Moves the clock forward. Answers once everything that falls due has happened.",
        run: advance,
    },
    Action {
        name: "SET",
        usage: "<unix-time-milliseconds>",
        summary: "Moves the clock to an instant, forwards or backwards. Answers once everything due has happened.",
        run: set,
    },
    Action { name: "RESUME", usage: "", summary: "Lets the clock run on from where it is.", run: resume },
];

fn now(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    Ok(Reply::Integer(call.now()))
}

fn freeze(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    if args.is_empty() {
        call.server.clock.freeze();
        return Ok(Reply::OK);
    }
    let at = instant(args)?;
    nothing_more(args)?;
    call.server.clock.freeze();
    move_clock(call, at)
}

fn advance(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let by = i64::try_from(duration(args)?.as_micros()).unwrap_or(i64::MAX);
    nothing_more(args)?;
    let to = call.micros().saturating_add(by);
    move_clock(call, to)
}

fn set(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let to = instant(args)?;
    nothing_more(args)?;
    move_clock(call, to)
}

fn resume(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    call.server.clock.resume();
    Ok(Reply::OK)
}

/// An instant in milliseconds since 1970, in microseconds.
fn instant(args: &mut Args<'_>) -> Result<i64, CommandError> {
    let word = args.optional();
    word.and_then(parse_integer)
        .filter(|millis| *millis >= 0)
        .map(|millis| millis.saturating_mul(1000))
        .ok_or_else(|| expected("a time in milliseconds since 1970 was expected", word))
}

fn move_clock(call: &mut Call<'_>, to: i64) -> CommandResult<'static> {
    call.flow = Flow::Wait(Box::new(Waiting::Errand(Errand::MoveClock(to), Reply::OK)));
    Ok(Reply::Nothing)
}
