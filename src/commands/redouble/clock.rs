//! REDOUBLE CLOCK: what time it is for the server, and everything that has a time there.

use super::{Action, act, begin, duration, expected, nothing_more, power, text};
use crate::base::clock::{MAX_MICROS, Pace};
use crate::base::duration::spell_duration;
use crate::base::error::CommandError;
use crate::clients::session::ControlJob;
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::protocol::{Reply, parse_integer};
use crate::spec::Args;

pub(super) const CLOCK: Command = Command::new(
    Handler::Connection(|call, args| act(ACTIONS, call, args)),
    power(
        "CLOCK",
        "<NOW | INFO | FREEZE [unix-time-milliseconds] | ADVANCE duration | SET unix-time-milliseconds | SPEED factor | \
     AUTO [IDLE duration] | RESUME>",
        "Reads, stops and moves the server's clock.",
    ),
);

pub(super) const ACTIONS: &[Action] = &[
    Action { name: "NOW", usage: "", summary: "The server's time, in milliseconds since 1970.", run: now },
    Action {
        name: "INFO",
        usage: "",
        summary: "How the clock goes, how far it is ahead of the machine's, and the next deadline somebody waits for.",
        run: info,
    },
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
    Action {
        name: "SPEED",
        usage: "<factor>",
        summary: "Lets the clock run so many times as fast as real time, on from where it is.",
        run: speed,
    },
    Action {
        name: "AUTO",
        usage: "[idle <duration>]",
        summary: "Stops the clock, and moves it to the next deadline whenever every client waits. Clients that have sent \
                  nothing for so long in real time are not waited for.",
        run: auto,
    },
    Action {
        name: "RESUME",
        usage: "",
        summary: "Lets the clock run as fast as real time, on from where it is.",
        run: resume,
    },
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
    let idle_grace = clock.idle_grace().map_or(Reply::Null, |idle_grace| text(spell_duration(idle_grace)));
    Ok(Reply::Map(vec![
        (text("mode"), text(mode)),
        (text("speed"), text(speed.to_string())),
        (text("now"), Reply::Integer(clock.millis())),
        (text("offset"), Reply::Integer(clock.offset().saturating_add(500).div_euclid(1000))),
        (text("next-deadline"), clock.next_alarm().map_or(Reply::Null, Reply::Integer)),
        (text("idle"), idle_grace),
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
    let idle_grace = if args.take("idle") { Some(duration(args)?) } else { None };
    nothing_more(args)?;
    begin(call, ControlJob::Auto(idle_grace), Reply::OK)
}

fn resume(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    begin(call, ControlJob::Run(1.0), Reply::OK)
}

/// An instant in milliseconds since 1970, in microseconds.
fn instant(args: &mut Args<'_>) -> Result<i64, CommandError> {
    const LAST: i64 = MAX_MICROS / 1000;
    let word = args.optional();
    word.and_then(parse_integer)
        .filter(|millis| (0..=LAST).contains(millis))
        .map(|millis| millis * 1000)
        .ok_or_else(|| expected(&format!("a time in milliseconds since 1970, up to {LAST}, was expected"), word))
}
