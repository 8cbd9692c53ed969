//! REDOUBLE: the test powers, for any client that has the right to them. No Redis has any of this.
//!
//! To add an action to a power, add its [`Action`] to the power's file, and its function under it. To add a power, add a
//! file with a [`Power`] and name it here twice: `mod` and `powers!`. Its row, COMMAND DOCS (from which `redis-cli` makes
//! its hints), HELP and the error that lists its actions come from that declaration; tests compare `docs/commands.md`
//! (rewritten by `make docs`) and the table in `docs/powers.md` with it.

mod audit;
mod clock;
mod explore;
mod failover;
mod fault;
mod gate;
mod instance;
mod journal;
mod link;
mod locks;
mod mark;
mod node;
mod pattern;
mod reset;
mod save;
pub(super) mod space;
mod upstream;
mod words;

pub use audit::so_many_found;
pub use journal::reached;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::base::background::in_background;
use crate::base::duration::parse_duration;
use crate::base::error::CommandError;
use crate::base::join::joined;
use crate::base::process::Process;
use crate::base::profile::Since;
use crate::clients::instance::UpstreamInfo;
use crate::clients::session::{ControlJob, Flow, Wait};
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::protocol::{Reply, until_nul};
use crate::spec::{Args, Arity, CommandSpec, Flag, Group, Secrets};
use words::{is_keyword, option_names, spelled};

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
    SUBCOMMANDS,
);

/// The driver of a test gets through whatever else stops the server, but not from inside a transaction or a script.
const FLAGS: &[Flag] = &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale, Flag::NoMulti, Flag::AllowBusy];

/// A power: one subcommand of REDOUBLE.
struct Power {
    /// In capitals.
    name: &'static str,
    summary: &'static str,
    complexity: &'static str,
    arity: Arity,
    /// In the order of HELP. A power that does one thing has one action, whose words begin with no name.
    actions: &'static [Action],
    /// The name of the action that may be left out.
    default_action: Option<&'static str>,
    /// Needs a client, or a server that has started.
    for_clients: bool,
}

/// One thing that a power does: `REDOUBLE CLOCK ADVANCE <duration>`.
struct Action {
    /// Its name and what follows it, in the notation of all rows: `ADVANCE duration`.
    words: &'static str,
    summary: &'static str,
    run: Run,
}

type Run = fn(&mut Call<'_>, &mut Args<'_>) -> CommandResult<'static>;

/// Makes the rows of the powers, each with its usage, and the list that HELP goes through.
macro_rules! powers {
    ($($power:path),* $(,)?) => {
        const POWERS: &[Power] = &[$($power),*];
        const SUBCOMMANDS: &[Command] = &[$({
            const WORDS: [&str; $power.actions.len()] = $power.words();
            const USAGE: &str = joined!(" | ", WORDS);
            const BRACKETS: [&str; 2] = $power.brackets();
            let row = $power.row(joined!("", [BRACKETS[0], USAGE, BRACKETS[1]]));
            Command::new(Handler::Connection(|call, args| act(&$power, call, args)), row)
        }),*];
    };
}

powers!(
    clock::CLOCK,
    fault::FAULT,
    gate::GATE,
    journal::JOURNAL,
    audit::AUDIT,
    locks::LOCKS,
    mark::MARK,
    space::SPACE,
    space::SPACES,
    instance::INSTANCE,
    link::LINK,
    failover::FAILOVER,
    node::NODE,
    explore::EXPLORE,
    reset::RESET,
    save::SAVE,
    upstream::UPSTREAM,
    HELP,
);

impl Power {
    /// A power with actions; the rest is filled in by struct update.
    const fn new(name: &'static str, summary: &'static str, actions: &'static [Action]) -> Self {
        let (complexity, arity) = ("Depends on the action", Arity::AtLeast(2));
        Self { name, summary, complexity, arity, actions, default_action: None, for_clients: false }
    }

    /// The words of its actions. `N` is how many there are.
    const fn words<const N: usize>(&self) -> [&'static str; N] {
        let mut words = [""; N];
        let mut index = 0;
        while index < N {
            words[index] = self.actions[index].words;
            index += 1;
        }
        words
    }

    /// What stands around its actions in the usage.
    const fn brackets(&self) -> [&'static str; 2] {
        match (self.actions.len(), self.default_action) {
            (1, _) => ["", ""],
            (_, None) => ["<", ">"],
            (_, Some(_)) => ["[<", ">]"],
        }
    }

    /// The same, for clients of a running server only.
    const fn for_clients(self) -> Self {
        Self { for_clients: true, ..self }
    }

    const fn row(&self, usage: &'static str) -> CommandSpec {
        CommandSpec {
            usage,
            summary: self.summary,
            complexity: self.complexity,
            group: Group::Control,
            since: Since::redis(1, 0, 0),
            arity: self.arity,
            flags: FLAGS,
            for_clients: self.for_clients,
            secrets: Secrets::Requests,
            ..CommandSpec::new(self.name)
        }
    }
}

impl Action {
    /// In capitals; empty for the only action of a power.
    fn name(&self) -> &'static str {
        self.words.split([' ', '[', '<']).next().filter(|word| is_keyword(word)).unwrap_or_default()
    }

    /// What follows the name.
    fn arguments(&self) -> &'static str {
        self.words[self.name().len()..].trim_start()
    }
}

/// Why an action is not available in front of a real server, if it is not.
fn refusal_with_upstream(power: &str, action: &str, upstream: &UpstreamInfo) -> Option<&'static str> {
    match (power, action) {
        ("CLOCK", "NOW" | "INFO") => None,
        ("CLOCK", _) | ("INSTANCE", "SKEW") => Some("keys expire by the clock of the upstream server"),
        ("LINK" | "FAILOVER", _) => Some("replicas are those of the upstream server"),
        ("SPACE" | "SPACES", _) => Some("the data of the upstream server has no spaces"),
        ("SAVE", _) => Some("the upstream server has the data"),
        ("RESET", _) | ("EXPLORE", "START" | "REPLAY") if !upstream.is_disposable => {
            Some("it deletes the data of the upstream server, which upstream-disposable allows")
        }
        _ => None,
    }
}

/// Runs an action, unless it is not available.
fn run(power: &Power, action: &Action, call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let upstream = call.server.upstream.as_ref();
    if let Some(why) = upstream.and_then(|upstream| refusal_with_upstream(power.name, action.name(), upstream)) {
        let names = [power.name, action.name()].join(" ");
        let text = format!("ERR REDOUBLE {} is not available with an upstream: {why}", names.trim_end());
        return Err(CommandError::new(text));
    }
    (action.run)(call, args)
}

/// Runs the action that the next argument names; or the default action, if there is one and what follows is nothing or one
/// of its options.
fn act(power: &Power, call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let (next, action) = (args.peek(), |name: &[u8]| {
        power.actions.iter().find(|action| name.eq_ignore_ascii_case(action.name().as_bytes()))
    });
    if let [only] = power.actions {
        return run(power, only, call, args);
    }
    if let Some(action) = next.and_then(action) {
        args.optional();
        return run(power, action, call, args);
    }
    let default = power.default_action.and_then(|name| action(name.as_bytes())).filter(|default| {
        let begins = |name: &String| next.is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()));
        next.is_none() || option_names(default.words).iter().any(begins)
    });
    match default {
        Some(action) => run(power, action, call, args),
        None => {
            let names: Vec<&str> = power.actions.iter().map(Action::name).collect();
            Err(expected(&format!("REDOUBLE {} takes {}", power.name, names.join(", ")), next))
        }
    }
}

/// The error for an argument that is wrong or missing.
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

/// Fails if another argument follows.
fn nothing_more(args: &Args<'_>) -> Result<(), CommandError> {
    match args.peek() {
        None => Ok(()),
        Some(word) => Err(expected("nothing more was expected", Some(word))),
    }
}

/// A duration: `1500` (milliseconds), `1.5s`, `2m`.
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

/// The name of a client, or a glob.
fn client_glob(args: &mut Args<'_>) -> Result<Vec<u8>, CommandError> {
    // No client can have another name; and it is part of the name of a fault.
    const LONGEST: usize = 115;
    let word = args.optional();
    word.filter(|word| (1..=LONGEST).contains(&word.len()) && word.iter().all(u8::is_ascii_graphic))
        .map(<[u8]>::to_vec)
        .ok_or_else(|| {
            expected(
                "the name of a client, or a glob, of 1 to 115 printable characters without spaces was expected",
                word,
            )
        })
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

/// The process of a client, if it is known; its program is left out if it is the one that the server is in.
fn process_fields(process: Option<&Process>) -> Vec<(Reply<'static>, Reply<'static>)> {
    let Some(process) = process else { return Vec::new() };
    let mut fields = vec![(text("pid"), count(process.pid.into()))];
    fields.extend((!process.program.is_empty()).then(|| (text("program"), text(&*process.program))));
    fields
}

fn count(number: u64) -> Reply<'static> {
    Reply::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

/// How long an action waits that names no time. Shorter than the time after which client libraries give up a reply by themselves,
/// so that the test sees why.
const USUAL_TIMEOUT: Duration = Duration::from_secs(4);

/// Answers, on a thread of its own if that takes long, while other clients go on.
fn beside(
    call: &mut Call<'_>,
    thread: &str,
    is_long: bool,
    find: impl FnOnce() -> Reply<'static> + Send + 'static,
) -> CommandResult<'static> {
    const FAILED: CommandError = CommandError::fixed("ERR the question could not be answered; the log may say why");
    if !is_long {
        return Ok(find());
    }
    let protocol = call.session.protocol;
    let answer = in_background(thread, move || find().into_encoded(protocol));
    let answer = answer.map_err(|error| CommandError::new(format!("ERR no thread for the answer: {error}")))?;
    answer_after(call, async move { answer.await.unwrap_or(Reply::Error(FAILED)) })
}

/// Answers with what an event comes to, while other clients go on.
fn answer_after(
    call: &mut Call<'_>,
    event: impl Future<Output = Reply<'static>> + Send + 'static,
) -> CommandResult<'static> {
    call.flow = Flow::Wait(Box::new(Wait::Event(Box::pin(event))));
    Ok(Reply::Nothing)
}

/// Waits for an event, or until the time is up; `None` if that comes first.
async fn in_time<T>(event: impl Future<Output = T>, time: impl Future<Output = ()>) -> Option<T> {
    let (mut event, mut time) = (pin!(event), pin!(time));
    poll_fn(|cx| match event.as_mut().poll(cx) {
        Poll::Ready(there) => Poll::Ready(Some(there)),
        Poll::Pending => time.as_mut().poll(cx).map(|()| None),
    })
    .await
}

/// Answers once every command that was released has run as far as it can.
fn settle(call: &mut Call<'_>, reply: Reply<'static>) -> CommandResult<'static> {
    begin(call, ControlJob::Quiesce, reply)
}

/// Starts a control job; answers once it is done.
fn begin(call: &mut Call<'_>, job: ControlJob, reply: Reply<'static>) -> CommandResult<'static> {
    call.flow = Flow::Wait(Box::new(Wait::ControlJob(job, reply)));
    Ok(Reply::Nothing)
}

const HELP: Power = Power {
    arity: Arity::Exactly(2),
    ..Power::new(
        "HELP",
        "Says what the test powers are.",
        &[Action { words: "", summary: "Prints this help.", run: help }],
    )
};

fn help(_: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    let mut lines =
        vec![Reply::Status("REDOUBLE <power> [<action> [<arg> [value] [opt] ...]]. Powers and their actions are:")];
    for power in POWERS {
        for action in power.actions {
            let arguments = spelled(action.arguments());
            let parts = [power.name, action.name(), &arguments];
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            lines.push(Reply::StatusText(parts.join(" ")));
            lines.push(Reply::StatusText(format!("    {}", action.summary)));
        }
    }
    Ok(Reply::Array(lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_a_power_has_the_words_of_its_actions() {
        let usage =
            |name: &str| SUBCOMMANDS.iter().find(|row| row.spec.name == name).map(|row| row.spec.usage).unwrap();
        assert_eq!(
            usage("CLOCK"),
            "<NOW | INFO | FREEZE [unix-time-milliseconds] | ADVANCE duration | SET unix-time-milliseconds | SPEED factor | \
             AUTO [IDLE duration] | RESUME>"
        );
        assert_eq!((usage("SPACES"), usage("SAVE"), usage("RESET")), ("[<LIST | DROP name>]", "path", ""));
    }

    #[test]
    fn a_default_action_is_one_of_the_power() {
        for power in POWERS {
            let is_there = |name: &str| power.actions.iter().any(|action| action.name() == name);
            assert!(power.default_action.is_none_or(is_there), "{}", power.name);
        }
    }

    #[test]
    fn the_page_of_powers_has_every_action_in_the_order_of_help() {
        let page = include_str!("../../../docs/powers.md");
        for power in POWERS.iter().filter(|power| power.name != "HELP") {
            let first = power.actions[0].name();
            let names = power.actions.iter().skip(1).map(|action| format!(", `{}`", action.name()));
            let named = format!("`REDOUBLE {}`", format!("{} {first}", power.name).trim());
            let named = names.fold(named, |named, next| named + &next);
            assert!(page.contains(&named), "docs/powers.md does not have {named}");
        }
    }
}
