//! REDOUBLE: the test powers, for whoever holds a connection. No Redis has any of this.

mod audit;
mod clock;
mod explore;
mod fault;
mod gate;
mod instance;
mod journal;
mod locks;
mod pattern;
mod reset;
mod save;
pub(super) mod space;

pub use audit::so_many_found;
pub use journal::reached;

use crate::base::duration::parse_duration;
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::clients::session::{ControlJob, Flow, Wait};
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::protocol::{Reply, until_nul};
use crate::spec::{Args, Arity, CommandSpec, Flag, Group};

pub(super) const ROWS: &[Command] = &[REDOUBLE];

const REDOUBLE: Command = Command::container(
    CommandSpec {
        summary: "The powers that a test has over this server: time, faults, gates, a journal, a lock auditor.",
        complexity: "Depends on the subcommand",
        group: Group::Control,
        since: Since::redis(1, 0, 0),
        arity: Arity::AtLeast(2),
        flags: FLAGS,
        ..CommandSpec::new("REDOUBLE")
    },
    &[
        clock::CLOCK,
        fault::FAULT,
        gate::GATE,
        journal::JOURNAL,
        audit::AUDIT,
        locks::LOCKS,
        space::SPACE,
        space::SPACES,
        instance::INSTANCE,
        explore::EXPLORE,
        reset::RESET,
        save::SAVE,
        HELP,
    ],
);

/// Whoever drives a test gets through whatever else holds the server up, and never from inside what is under test.
const FLAGS: &[Flag] = &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale, Flag::NoMulti, Flag::AllowBusy];

/// A row for one power, which is a subcommand with actions of its own.
const fn power(name: &'static str, usage: &'static str, summary: &'static str) -> CommandSpec {
    CommandSpec {
        usage,
        summary,
        complexity: "Depends on the action",
        group: Group::Control,
        since: Since::redis(1, 0, 0),
        arity: Arity::AtLeast(2),
        flags: FLAGS,
        ..CommandSpec::new(name)
    }
}

type Run = fn(&mut Call<'_>, &mut Args<'_>) -> CommandResult<'static>;

/// One thing that a power can do: `REDOUBLE CLOCK ADVANCE <duration>`.
struct Action {
    /// In capitals.
    name: &'static str,
    /// What follows the name.
    usage: &'static str,
    summary: &'static str,
    run: Run,
}

/// Every power with its actions, as HELP tells of them.
const POWERS: &[(&str, &[Action])] = &[
    ("CLOCK", clock::ACTIONS),
    ("FAULT", fault::ACTIONS),
    ("GATE", gate::ACTIONS),
    ("JOURNAL", journal::ACTIONS),
    ("AUDIT", audit::ACTIONS),
    ("LOCKS", locks::ACTIONS),
    ("SPACE", space::SPACE_HELP),
    ("SPACES", space::SPACES_ACTIONS),
    ("INSTANCE", instance::ACTIONS),
    ("EXPLORE", explore::ACTIONS),
    ("RESET", reset::ACTIONS),
];

/// Runs the action that the next argument names.
fn act(actions: &'static [Action], call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let name = args.optional().unwrap_or_default();
    match actions.iter().find(|action| name.eq_ignore_ascii_case(action.name.as_bytes())) {
        Some(action) => (action.run)(call, args),
        None => {
            let names: Vec<&str> = actions.iter().map(|action| action.name).collect();
            let power = args.spec().name;
            Err(expected(&format!("REDOUBLE {power} takes {}", names.join(", ")), Some(name)))
        }
    }
}

/// The error for an argument that is not what it should be, or not there.
fn expected(what: &str, received: Option<&[u8]>) -> CommandError {
    let after = format!("ERR {what}; received ");
    match received {
        Some(word) if !word.is_empty() => CommandError::quoting(&format!("{after}'"), clipped(word), "'"),
        _ => CommandError::new(format!("{after}nothing")),
    }
}

/// What an error shows of a word.
fn clipped(word: &[u8]) -> &[u8] {
    let word = until_nul(word);
    &word[..word.len().min(128)]
}

/// Nothing may follow.
fn nothing_more(args: &Args<'_>) -> Result<(), CommandError> {
    match args.peek() {
        None => Ok(()),
        Some(word) => Err(expected("nothing more was expected", Some(word))),
    }
}

/// A stretch of time: `1500` (milliseconds), `1.5s`, `2m`.
fn duration(args: &mut Args<'_>) -> Result<std::time::Duration, CommandError> {
    let word = args.optional();
    word.and_then(parse_duration)
        .ok_or_else(|| expected("a duration such as 1500 (milliseconds), 250ms, 1.5s or 2m was expected", word))
}

/// The name of a rule or a gate.
fn name(args: &mut Args<'_>) -> Result<String, CommandError> {
    const LONGEST: usize = 128;
    let word = args.optional();
    word.filter(|word| (1..=LONGEST).contains(&word.len()) && word.iter().all(u8::is_ascii_graphic))
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .ok_or_else(|| expected("a name of 1 to 128 printable characters without spaces was expected", word))
}

/// A whole number, at least `least`.
fn number(args: &mut Args<'_>, what: &str, least: u64) -> Result<u64, CommandError> {
    let word = args.optional();
    word.and_then(|word| std::str::from_utf8(word).ok()?.parse::<u64>().ok())
        .filter(|number| *number >= least)
        .ok_or_else(|| expected(&format!("{what} is a whole number of at least {least}"), word))
}

fn text(text: impl Into<Vec<u8>>) -> Reply<'static> {
    Reply::bulk(text.into())
}

fn count(number: u64) -> Reply<'static> {
    Reply::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Answers once everybody whom the command has let go on has gone as far as they can.
fn settle(call: &mut Call<'_>, reply: Reply<'static>) -> CommandResult<'static> {
    begin(call, ControlJob::Quiesce, reply)
}

/// Sets something going; answers once all of it has happened.
fn begin(call: &mut Call<'_>, job: ControlJob, reply: Reply<'static>) -> CommandResult<'static> {
    call.flow = Flow::Wait(Box::new(Wait::ControlJob(job, reply)));
    Ok(Reply::Nothing)
}

const HELP: Command = Command::new(
    Handler::Connection(help),
    CommandSpec { arity: Arity::Exactly(2), ..power("HELP", "", "Says what the test powers are.") },
);

fn help(_: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    let mut lines =
        vec![Reply::Status("REDOUBLE <power> [<action> [<arg> [value] [opt] ...]]. Powers and their actions are:")];
    for (power, actions) in POWERS {
        for action in *actions {
            let parts = [*power, action.name, action.usage.trim_start()];
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            lines.push(Reply::StatusText(parts.join(" ")));
            lines.push(Reply::StatusText(format!("    {}", action.summary)));
        }
    }
    lines.push(Reply::Status("SAVE <path>"));
    lines.push(Reply::StatusText(format!("    {}", save::SUMMARY)));
    lines.push(Reply::Status("HELP"));
    lines.push(Reply::Status("    Prints this help."));
    Ok(Reply::Array(lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_names_every_action() {
        for (power, actions) in POWERS {
            let row = REDOUBLE.subcommands.iter().find(|row| row.spec.name == *power).unwrap();
            for action in *actions {
                let name = action.name.replace(['<', '>'], "");
                assert!(row.spec.usage.contains(&name), "{power} {name}");
            }
        }
    }
}
