//! REDOUBLE CLOCK: what time it is for the server, and everything that has a time there.

use super::{Action, Power, begin, duration, expected, nothing_more, text};
use crate::base::clock::{MAX_MICROS, Pace};
use crate::base::duration::spell_duration;
use crate::base::error::CommandError;
use crate::clients::session::ControlJob;
use crate::commands::{Call, CommandResult};
use crate::protocol::{Reply, parse_integer};
use crate::spec::Args;

pub(super) const CLOCK: Power = Power::new("CLOCK", "Reads, stops and moves the server's clock.", ACTIONS);

const ACTIONS: &[Action] = &[
    Action { words: "NOW", summary: "The server's time, in milliseconds since 1970.", run: now },
    Action {
        words: "INFO",
        summary: "How the clock goes, how far it is ahead of the machine's, and the next deadline somebody waits for.",
        run: info,
    },
    Action { words: "FREEZE [unix-time-milliseconds]", summary: "Stops the clock where it is, or there.", run: freeze },
    Action {
        words: "ADVANCE duration",
        summary: "Moves the clock forward. Answers once everything that falls due has happened.",
        run: advance,
    },
    Action {
        words: "SET unix-time-milliseconds",
        summary: "Moves the clock to an instant, forwards or backwards. Answers once everything due has happened.",
        run: set,
    },
    Action {
        words: "SPEED factor",
        summary: "Lets the clock run so many times as fast as real time, on from where it is.",
        run: speed,
    },
    Action {
        words: "AUTO [IDLE duration]",
        summary: "Stops the clock, and moves it to the next deadline whenever every client waits. Clients that have sent \
                  nothing for so long in real time are not waited for.",
        run: auto,
    },
    Action { words: "RESUME", summary: "Lets the clock run as fast as real time, on from where it is.", run: resume },
];

fn now(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    Ok(Reply::Integer(call.now()))
}

fn info(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    let clock = &call.server.clock;
    let (mode, speed) = match clock.pace() {
        _ if clock.is_auto() => ("auto", 0.0),
        Pace::Frozen => ("frozen", 0.0),
        Pace::Speed(speed) => ("running", speed),
    };
    let grace = clock.idle_grace().map_or(Reply::Null, |grace| text(spell_duration(grace)));
    Ok(Reply::Map(vec![
        (text("mode"), text(mode)),
        (text("speed"), text(speed.to_string())),
        (text("now"), Reply::Integer(clock.millis())),
        (text("offset"), Reply::Integer(clock.offset().saturating_add(500).div_euclid(1000))),
        (text("next-deadline"), clock.next_alarm().map_or(Reply::Null, Reply::Integer)),
        (text("idle"), grace),
    ]))
}

fn freeze(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let at = if args.is_empty() { None } else { Some(instant(args)?) };
    nothing_more(args)?;
    begin(call, ControlJob::Freeze(at), Reply::OK)
}

fn advance(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let by = i64::try_from(duration(args)?.as_micros()).unwrap_or(i64::MAX);
    nothing_more(args)?;
    begin(call, ControlJob::Advance(by), Reply::OK)
}

fn set(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let to = instant(args)?;
    nothing_more(args)?;
    begin(call, ControlJob::SetClock(to), Reply::OK)
}

fn speed(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let word = args.optional();
    let factor = word
        .and_then(|word| std::str::from_utf8(word).ok()?.parse::<f64>().ok())
        .filter(|factor| (ControlJob::SLOWEST..=ControlJob::FASTEST).contains(factor))
        .ok_or_else(|| expected("a factor from 0.001 to 1000000 was expected", word))?;
    nothing_more(args)?;
    begin(call, ControlJob::Run(factor), Reply::OK)
}

fn auto(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let grace = if args.take("idle") { Some(duration(args)?) } else { None };
    nothing_more(args)?;
    begin(call, ControlJob::Auto(grace), Reply::OK)
}

fn resume(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    begin(call, ControlJob::Run(1.0), Reply::OK)
}

/// Reads an instant in milliseconds since 1970; returns microseconds.
fn instant(args: &mut Args<'_>) -> Result<i64, CommandError> {
    const LAST: i64 = MAX_MICROS / 1000;
    let word = args.optional();
    word.and_then(parse_integer)
        .filter(|millis| (0..=LAST).contains(millis))
        .map(|millis| millis * 1000)
        .ok_or_else(|| expected(&format!("a time in milliseconds since 1970, up to {LAST}, was expected"), word))
}
