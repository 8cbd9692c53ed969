//! REDOUBLE EXPLORE: the same test again and again, each time with the commands of its clients in another order.

use super::words::{either, options, spelled};
use super::{Action, Power, begin, count, duration, expected, nothing_more, number, settle, text};
use crate::base::error::CommandError;
use crate::clients::session::ControlJob;
use crate::commands::{Call, CommandResult};
use crate::powers::{Chaos, ClientOf, ExplorationSummary, Order, Search};
use crate::protocol::Reply;
use crate::spec::Args;

pub(super) const EXPLORE: Power = Power::new(
    "EXPLORE",
    "Lets the commands of racing clients through one by one, in another order each time.",
    ACTIONS,
)
.for_clients();

const START: &str = "START [RUNS number] [RANDOM number] [SEED number] [SETTLE duration] [CLIENT name-glob] \
                     [CLIENTS number] [EVERY-ORDER] [CHAOS kinds] [FAILOVERS number] [POLLS number]";
const REPLAY: &str = "REPLAY token [SETTLE duration] [CLIENT name-glob] [CHAOS kinds] [POLLS number]";

const ACTIONS: &[Action] = &[
    Action { words: START, summary: "Begins to explore. Nothing is held before the first NEXT.", run: start },
    Action {
        words: "NEXT",
        summary: "Ends the run that is on, puts the server back, and begins the next one; its number, or nil when all \
                  was tried.",
        run: next,
    },
    Action {
        words: "FAILED",
        summary: "Notes that the test has failed in this run; the token of its order.",
        run: failed,
    },
    Action {
        words: "ORDER",
        summary: "The commands of this run in their order, each with its client and what it got.",
        run: order,
    },
    Action {
        words: "FINDINGS",
        summary: "What has come of it so far: runs, failures, what was left out, whether that is all.",
        run: findings,
    },
    Action { words: REPLAY, summary: "Goes through one order: every NEXT begins it again.", run: replay },
    Action { words: "STOP", summary: "Ends it, and lets everybody go on; what has come of it.", run: stop },
];

fn start(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let mut search = Search::default();
    while !args.is_empty() {
        if args.take("runs") {
            search.runs = number(args, "runs", 0)?;
        } else if args.take("random") {
            search.random = number(args, "random", 0)?;
        } else if args.take("seed") {
            search.seed = number(args, "seed", 0)?;
        } else if args.take("clients") {
            search.clients = usize::try_from(number(args, "clients", 0)?).unwrap_or(usize::MAX);
        } else if args.take("every-order") {
            search.every_order = true;
        } else if args.take("failovers") {
            search = search.failovers(u32::try_from(number(args, "failovers", 0)?).unwrap_or(u32::MAX));
        } else if !take_either(&mut search, args)? {
            return Err(no_option(START, args));
        }
    }
    may_move_clock(call, &search)?;
    call.server.control.explorer.start(search).map_err(refused)?;
    Ok(Reply::OK)
}

fn replay(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let token = args.optional();
    let order = match token.map(Order::parse) {
        Some(Ok(order)) => order,
        Some(Err(reason)) => {
            return Err(expected(&format!("the token of an order was expected, and {reason}"), token));
        }
        None => return Err(expected("the token of an order was expected", None)),
    };
    let mut search = Search::default();
    while !args.is_empty() {
        if !take_either(&mut search, args)? {
            return Err(no_option(REPLAY, args));
        }
    }
    may_move_clock(call, &search)?;
    call.server.control.explorer.replay(search, order).map_err(refused)?;
    Ok(Reply::OK)
}

/// An expiry needs a clock of this server's own.
fn may_move_clock(call: &Call<'_>, search: &Search) -> Result<(), CommandError> {
    if call.server.upstream.is_some() && search.chaos.needs_own_clock() {
        return Err(CommandError::new(format!("ERR {}", Search::FOREIGN_CLOCK)));
    }
    Ok(())
}

/// The error for something that is no option of this action.
fn no_option(words: &str, args: &Args<'_>) -> CommandError {
    let options: Vec<String> = options(words).into_iter().map(spelled).collect();
    expected(&format!("{} was expected", either(&options)), args.peek())
}

/// Takes an option that START and REPLAY share.
fn take_either(search: &mut Search, args: &mut Args<'_>) -> Result<bool, CommandError> {
    if args.take("settle") {
        search.settle = duration(args)?;
    } else if args.take("client") {
        const LONGEST: usize = 64 * 1024;
        let word = args.optional();
        let glob = word.filter(|word| word.len() <= LONGEST);
        let wrong = || expected("a glob for the names of clients of at most 65536 bytes was expected", word);
        search.client = Some(glob.ok_or_else(wrong)?.to_vec());
    } else if args.take("chaos") {
        let word = args.optional();
        let wrong = || {
            expected(
                "chaos is expiry, lost-reply, crash or pause, or several with commas, each with = and how often it may happen in a run",
                word,
            )
        };
        *search = std::mem::take(search).chaos(word.and_then(Chaos::parse).ok_or_else(wrong)?);
    } else if args.take("polls") {
        search.polls = u32::try_from(number(args, "polls", 0)?).unwrap_or(u32::MAX);
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn next(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    let driver = ClientOf { instance: call.server.number, id: call.session.client.id() };
    let number = call.server.control.explorer.next(driver, &call.server.clock).map_err(refused)?;
    match number {
        Some(number) => begin(call, ControlJob::BeginRun, count(number)),
        None => settle(call, Reply::Null),
    }
}

fn failed(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    call.server.control.explorer.fail().map(text).map_err(refused)
}

fn order(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    let lines = call.server.control.explorer.order().map_err(refused)?;
    Ok(Reply::Array(lines.into_iter().map(text).collect()))
}

fn findings(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    Ok(describe(&call.server.control.explorer.summary().map_err(refused)?))
}

fn stop(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    let findings = call.server.stop_exploring().map_err(refused)?;
    begin(call, ControlJob::EndExploration, describe(&findings))
}

fn describe(findings: &ExplorationSummary) -> Reply<'static> {
    Reply::Map(vec![
        (text("runs"), count(findings.runs)),
        (text("random"), count(findings.random)),
        (text("repeated"), count(findings.repeated)),
        (text("failed"), count(findings.failed)),
        (text("skipped"), count(findings.skipped)),
        (text("turns"), count(findings.turns as u64)),
        (text("clients"), count(findings.clients as u64)),
        (text("strayed"), count(findings.strayed)),
        (text("too-long"), count(findings.too_long)),
        (text("polls"), count(findings.polls)),
        (text("endless"), count(findings.endless)),
        (text("dropped"), count(findings.dropped)),
        (text("complete"), text(if findings.is_complete { "yes" } else { "no" })),
        (text("how"), findings.how.clone().map_or(Reply::Null, text)),
    ])
}

fn refused(reason: &'static str) -> CommandError {
    CommandError::new(format!("ERR {reason}"))
}
