//! REDOUBLE FAULT: which command goes wrong, and how.

use super::pattern::{take_part, usage};
use super::{Action, act, count, duration, expected, name, nothing_more, number, power, settle, text};
use crate::base::error::CommandError;
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::powers::{Fault, Rule, Verdict, line_of};
use crate::protocol::Reply;
use crate::spec::Args;

pub(super) const FAULT: Command = Command::new(
    Handler::Connection(|call, args| act(ACTIONS, call, args)),
    power(
        "FAULT",
        "<ADD name [ON command [command ...]] [KEY pattern] [CLIENT name-or-id] [DB index] [NTH nth] [TIMES times] \
     [PROBABILITY probability] [SEED seed] <ERROR text | DELAY duration | CLOSE-BEFORE | CLOSE-AFTER | TRUNCATE bytes | \
     HANG | DRIP bytes EVERY duration | RESET | REFUSE | PAUSE> | LIST | UNFIRED | REMOVE name | CLEAR>",
        "Makes commands fail, hang, come late, or lose their replies.",
    ),
);

pub(super) const ACTIONS: &[Action] = &[
    Action {
        name: "ADD",
        usage: usage!(
            "<name>",
            " [nth <number>] [times <number>] [probability <0..1>] [seed <number>] <error <text> | delay <duration> | \
             close-before | close-after | truncate <bytes> | hang | drip <bytes> every <duration> | reset | refuse | pause>"
        ),
        summary: "Arms a fault. Rules are tried in the order in which they were added; the first that fires decides.",
        run: add,
    },
    Action {
        name: "LIST",
        usage: "",
        summary: "The rules, each with how many commands it was about, how many it hit, and how many wait for it.",
        run: list,
    },
    Action { name: "UNFIRED", usage: "", summary: "The names of the rules that have not fired so far.", run: unfired },
    Action {
        name: "REMOVE",
        usage: "<name>",
        summary: "Disarms a fault, and lets go whoever waits for it; how often it has fired.",
        run: remove,
    },
    Action {
        name: "CLEAR",
        usage: "",
        summary: "Disarms all faults; the names of those that never fired.",
        run: clear,
    },
];

/// Words that end a list of commands.
const ENDS: &[&str] = &[
    "nth",
    "times",
    "probability",
    "seed",
    "error",
    "delay",
    "close-before",
    "close-after",
    "truncate",
    "hang",
    "drip",
    "reset",
    "refuse",
    "pause",
];

const VERDICTS: &str = "a condition (on, key, client, db, nth, times, probability, seed) or what goes wrong (error <text>, \
    delay <duration>, close-before, close-after, truncate <bytes>, hang, drip <bytes> every <duration>, reset, refuse, \
    pause) was expected";

fn add(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    // Until it is known what goes wrong.
    let mut fault = Fault::new(name(args)?, Verdict::Hang);
    let mut has_nth = false;
    loop {
        if take_part(&mut fault.pattern, call, args, ENDS)? {
            continue;
        }
        if args.take("nth") {
            fault.nth = number(args, "nth", 1)?;
            has_nth = true;
        } else if args.take("times") {
            fault.times = Some(number(args, "times", 1)?);
        } else if args.take("seed") {
            fault.seed = number(args, "seed", 0)?;
        } else if args.take("probability") {
            fault.probability = probability(args)?;
        } else {
            break;
        }
    }
    fault.verdict = verdict(args)?;
    if !args.is_empty() {
        return Err(expected(
            "conditions stand in front of what goes wrong, and a text is one word in quotes",
            args.peek(),
        ));
    }
    // The third is one of them, not all from then on.
    if has_nth && fault.times.is_none() {
        fault.times = Some(1);
    }
    call.server.add_fault(fault).map_err(|reason| CommandError::new(format!("ERR {reason}")))?;
    Ok(Reply::OK)
}

fn probability(args: &mut Args<'_>) -> Result<f64, CommandError> {
    let word = args.optional();
    word.and_then(|word| std::str::from_utf8(word).ok()?.parse::<f64>().ok())
        .filter(|chance| (0.0..=1.0).contains(chance))
        .ok_or_else(|| expected("a probability from 0 to 1 was expected", word))
}

fn verdict(args: &mut Args<'_>) -> Result<Verdict, CommandError> {
    let Some(word) = args.optional() else { return Err(expected(VERDICTS, None)) };
    Ok(match word.to_ascii_lowercase().as_slice() {
        b"error" => {
            let line = args.optional().filter(|line| !line.is_empty());
            Verdict::Error(line.ok_or_else(|| expected("the text of the error was expected", None))?.to_vec())
        }
        b"delay" => Verdict::Delay(duration(args)?),
        b"close-before" => Verdict::CloseBefore,
        b"close-after" => Verdict::CloseAfter,
        b"truncate" => Verdict::Truncate(bytes(args, 0)?),
        b"hang" => Verdict::Hang,
        b"drip" => {
            let bytes = bytes(args, 1)?;
            if !args.take("every") {
                return Err(expected("drip <bytes> every <duration> was expected", args.peek()));
            }
            Verdict::Drip { bytes, every: duration(args)? }
        }
        b"reset" => Verdict::Reset,
        b"refuse" => Verdict::Refuse,
        b"pause" => Verdict::Pause,
        _ => return Err(expected(VERDICTS, Some(word))),
    })
}

fn bytes(args: &mut Args<'_>, least: u64) -> Result<usize, CommandError> {
    Ok(usize::try_from(number(args, "how many bytes", least)?).unwrap_or(usize::MAX))
}

fn list(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    Ok(Reply::Array(call.server.control.faults.all().iter().map(|rule| describe(rule)).collect()))
}

fn describe(rule: &Rule) -> Reply<'static> {
    Reply::Map(vec![
        (text("name"), text(rule.fault.name.clone())),
        (text("rule"), text(line_of(&rule.fault.words()))),
        (text("matched"), count(rule.matched())),
        (text("fired"), count(rule.fired())),
        (text("hanging"), count(rule.stop.parked_count() as u64)),
    ])
}

fn unfired(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    Ok(Reply::Array(call.server.control.faults.unfired().into_iter().map(text).collect()))
}

fn remove(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let name = name(args)?;
    nothing_more(args)?;
    let rule = call.server.remove_fault(&name);
    let rule = rule.ok_or_else(|| CommandError::new(format!("ERR there is no fault '{name}'")))?;
    settle(call, count(rule.fired()))
}

fn clear(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    let rules = call.server.clear_faults();
    let unfired = rules.iter().filter(|rule| rule.fired() == 0).map(|rule| text(rule.fault.name.clone()));
    let reply = Reply::Array(unfired.collect());
    settle(call, reply)
}
