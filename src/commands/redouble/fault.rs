//! REDOUBLE FAULT: which command goes wrong, and how.

use super::pattern::{PATTERN, take_part};
use super::words::{option_names, spelled};
use super::{Action, Power, count, duration, expected, name, nothing_more, number, settle, text};
use crate::base::error::CommandError;
use crate::base::join::joined;
use crate::commands::{Call, CommandResult};
use crate::powers::{Fault, Rule, Verdict, VerdictKind, line_of};
use crate::protocol::Reply;
use crate::spec::Args;

pub(super) const FAULT: Power =
    Power::new("FAULT", "Makes commands fail, hang, come late, or lose their replies.", ACTIONS);

const CONDITIONS: &str = joined!(" ", [PATTERN, "[NTH number] [TIMES number] [PROBABILITY 0..1] [SEED number]"]);
const VERDICT: &str = joined!(" | ", VerdictKind::WORDS);
const ADD: &str = joined!("", ["ADD name ", CONDITIONS, " <", VERDICT, ">"]);

const ACTIONS: &[Action] = &[
    Action {
        words: ADD,
        summary: "Arms a fault. Rules are tried in the order in which they were added; the first that fires decides.",
        run: add,
    },
    Action {
        words: "LIST",
        summary: "The rules, each with how many commands it was about, how many it hit, and how many wait for it.",
        run: list,
    },
    Action { words: "UNFIRED", summary: "The names of the rules that have not fired so far.", run: unfired },
    Action {
        words: "REMOVE name",
        summary: "Disarms a fault, and lets go whoever waits for it; how often it has fired.",
        run: remove,
    },
    Action { words: "CLEAR", summary: "Disarms all faults; the names of those that never fired.", run: clear },
];

fn add(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    // `Hang` stands in until the verdict is read, which comes last.
    let mut fault = Fault::new(name(args)?, Verdict::Hang);
    let mut has_nth = false;
    loop {
        if take_part(&mut fault.pattern, call, args, ADD)? {
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
    // `nth 3` alone means the third match only, not all from the third on.
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
    let word = args.optional();
    let kind = word.and_then(VerdictKind::by_name).ok_or_else(|| {
        let verdicts: Vec<String> = VerdictKind::WORDS.iter().map(|words| spelled(words)).collect();
        let (conditions, verdicts) = (option_names(CONDITIONS).join(", "), verdicts.join(", "));
        expected(&format!("a condition ({conditions}) or what goes wrong ({verdicts}) was expected"), word)
    })?;
    Ok(match kind {
        VerdictKind::Error => {
            let line = args.optional().filter(|line| !line.is_empty());
            Verdict::Error(line.ok_or_else(|| expected("the text of the error was expected", None))?.to_vec())
        }
        VerdictKind::Delay => Verdict::Delay(duration(args)?),
        VerdictKind::CloseBefore => Verdict::CloseBefore,
        VerdictKind::CloseAfter => Verdict::CloseAfter,
        VerdictKind::Truncate => Verdict::Truncate(bytes(args, 0)?),
        VerdictKind::Hang => Verdict::Hang,
        VerdictKind::Drip => {
            let bytes = bytes(args, 1)?;
            if !args.take("every") {
                return Err(expected(&format!("{} was expected", spelled(kind.words())), args.peek()));
            }
            Verdict::Drip { bytes, every: duration(args)? }
        }
        VerdictKind::Reset => Verdict::Reset,
        VerdictKind::Refuse => Verdict::Refuse,
        VerdictKind::Pause => Verdict::Pause,
        VerdictKind::HoldLink => Verdict::HoldLink(replica(args)?),
        VerdictKind::LagLink => {
            let replica = replica(args)?;
            if !args.take("by") {
                return Err(expected(&format!("{} was expected", spelled(kind.words())), args.peek()));
            }
            Verdict::LagLink { replica, by: duration(args)? }
        }
        VerdictKind::CutLink => Verdict::CutLink(replica(args)?),
    })
}

fn replica(args: &mut Args<'_>) -> Result<String, CommandError> {
    let word = args.optional();
    let name = word.and_then(|word| std::str::from_utf8(word).ok()).filter(|name| !name.is_empty());
    name.map(str::to_owned).ok_or_else(|| {
        expected("a replica's address and port, the number of an instance, or * for all was expected", word)
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
        (text("hanging"), count(rule.queue.parked_count() as u64)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_faults_has_every_verdict_in_the_order_of_help() {
        let page = include_str!("../../../docs/faults.md");
        let table = page.lines().skip_while(|line| !line.starts_with("| verdict |")).skip(2);
        let verdicts = table.map_while(|line| line.strip_prefix("| `")?.split('`').next());
        let declared: Vec<String> = VerdictKind::WORDS.iter().map(|words| spelled(words)).collect();
        assert_eq!(verdicts.collect::<Vec<_>>(), declared);
    }
}
