//! What a script did, told from its text, its request and its reply.

use super::assumed_data::AssumedData;
use crate::base::profile::Profile;
use crate::powers::{Child, Children};
use crate::protocol::{OwnedWords, Protocol, Words, parse_integer, write_integer};
use crate::script::symbolic::{Answer, Call, ConsistentRun, Limits, ObservedRun, SymbolicInterpreter, Word};
use crate::spec::{Flag, LockEffect, Table};

/// What is known of a script's run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptRun {
    /// Its writes are known. Reads that every possible run made stand between them.
    Known(Vec<ScriptCommand>),
    /// It can have done different things, all of which lead to the same reply.
    Ambiguous {
        /// What it did in any case, at its beginning.
        common: Vec<ScriptCommand>,
        /// Writes that it can have made.
        possible: Vec<ScriptCommand>,
    },
    Unknown,
}

/// A command that a script has called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptCommand {
    pub db: u32,
    /// Its words; `None` for one that is not known.
    pub words: Vec<Option<Vec<u8>>>,
    /// Its reply, in the protocol that scripts get; `None` if it is not known.
    pub reply: Option<Vec<u8>>,
}

impl ScriptRun {
    /// Records the commands, if they are known. Returns whether they are.
    pub fn record(&self, children: &mut Children) -> bool {
        let Self::Known(commands) = self else { return false };
        children.depth += 1;
        for command in commands {
            let words: OwnedWords = command.words.iter().map(|word| word.as_deref().unwrap_or_default()).collect();
            let reply = command.reply.as_deref().unwrap_or_default();
            children.push_partly_known(command.db, words.as_words(), command.unknown_words(), reply, None);
        }
        children.depth -= 1;
        true
    }

    /// The commands as the journal has them, if they are known.
    pub fn children(&self) -> Option<Vec<Child>> {
        let Self::Known(commands) = self else { return None };
        let child = |command: &ScriptCommand| {
            let reply = command.reply.clone().unwrap_or_default();
            Child {
                db: command.db,
                words: command.words.iter().map(|word| word.clone().unwrap_or_default()).collect(),
                words_missing: command.unknown_words() as u64,
                reply_length: reply.len() as u64,
                reply,
                fault: None,
                children: Vec::new(),
            }
        };
        Some(commands.iter().map(child).collect())
    }
}

impl ScriptCommand {
    fn unknown_words(&self) -> usize {
        self.words.iter().filter(|word| word.is_none()).count()
    }
}

/// A request that ran a script, with its reply.
#[derive(Clone, Copy)]
pub struct ScriptRequest<'r> {
    /// EVAL, EVALSHA, FCALL or one of their kin, with all its words.
    pub words: Words<'r>,
    /// The text of the script, or of the library of the function.
    pub source: &'r [u8],
    pub is_function: bool,
    pub db: u32,
    /// The whole reply, and the protocol of the client.
    pub reply: &'r [u8],
    pub protocol: Protocol,
    /// The commands that the script called, if MONITOR has shown them.
    pub calls: Option<&'r [OwnedWords]>,
}

/// Tells what scripts did.
pub struct ScriptInference {
    interpreter: SymbolicInterpreter,
    commands: Table,
}

impl ScriptInference {
    pub fn new(profile: &Profile, commands: Table) -> Self {
        Self { interpreter: SymbolicInterpreter::new(profile), commands }
    }

    /// What the script of a request did.
    pub fn infer(&mut self, request: &ScriptRequest<'_>) -> ScriptRun {
        if never_ran(request.reply) {
            return ScriptRun::Known(Vec::new());
        }
        let count = request.words.get(2).and_then(parse_integer);
        let rest = request.words.from(3);
        let Some(count) = count.and_then(|count| usize::try_from(count).ok()).filter(|count| *count <= rest.len())
        else {
            // Such a request is refused.
            return ScriptRun::Known(Vec::new());
        };
        let observed = ObservedRun {
            source: request.source,
            function: request.is_function.then(|| request.words.get(1)).flatten(),
            keys: rest.first(count),
            arguments: rest.from(count),
            reply: request.reply,
            protocol: request.protocol,
            calls: request.calls,
        };
        match self.interpreter.explore(&observed, Box::new(AssumedData::default()), Limits::default()) {
            Ok(runs) => self.combined(&runs, request.db),
            Err(_) => ScriptRun::Unknown,
        }
    }

    /// What a script did whose text is not known: nothing, if its reply says that it never ran.
    pub fn infer_without_text(&self, reply: &[u8]) -> ScriptRun {
        if never_ran(reply) { ScriptRun::Known(Vec::new()) } else { ScriptRun::Unknown }
    }

    /// What all consistent runs have in common.
    fn combined(&self, runs: &[ConsistentRun], db: u32) -> ScriptRun {
        let runs: Vec<Vec<Step>> =
            runs.iter().map(|run| run.iter().map(|call| self.step(call, db)).collect()).collect();
        let Some((first, others)) = runs.split_first() else { return ScriptRun::Unknown };
        let mut writes: Vec<Step> = writes(first).cloned().collect();
        let are_same = others.iter().all(|run| {
            self::writes(run).count() == writes.len()
                && writes.iter_mut().zip(self::writes(run)).all(|(one, other)| one.merge(other))
        });
        let mut common = common_steps(first, others);
        if are_same && writes.iter().all(|step| step.is_told) {
            let begun = self::writes(&common).count();
            common.extend(writes.into_iter().skip(begun));
            return ScriptRun::Known(common.into_iter().map(|step| step.command).collect());
        }
        let told = common.iter().position(|step| step.is_write && !step.is_told).unwrap_or(common.len());
        common.truncate(told);
        let begun = self::writes(&common).count();
        let mut possible: Vec<ScriptCommand> = Vec::new();
        for step in runs.iter().flat_map(|run| self::writes(run).skip(begun)) {
            if possible.len() < MOST_POSSIBLE && !possible.contains(&step.command) {
                possible.push(step.command.clone());
            }
        }
        ScriptRun::Ambiguous { common: common.into_iter().map(|step| step.command).collect(), possible }
    }

    fn step(&self, call: &Call, db: u32) -> Step {
        let command = command(call, db);
        let row = match call.words.first() {
            Some(Word::Known(name)) => self.commands.find(name),
            _ => None,
        };
        let effect = row.map_or(LockEffect::None, |row| row.lock_effect);
        let has_loose_reply = is_reply_loose(effect);
        let knows = |index: usize| matches!(command.words.get(index), Some(Some(_)));
        let is_told = command.words.iter().all(Option::is_some)
            || has_loose_reply && effect != LockEffect::Delete && knows(1) && knows(2)
            || effect == LockEffect::AddMember && knows(1) && knows(command.words.len() - 1);
        let is_write = row.is_none_or(|row| row.has_flag(Flag::Write)) && has_written(effect, call);
        Step { command, is_write, has_loose_reply, is_told }
    }
}

/// A call of a run.
#[derive(Clone)]
struct Step {
    command: ScriptCommand,
    /// It has written something.
    is_write: bool,
    /// It leaves the same behind whatever its reply is.
    has_loose_reply: bool,
    /// Enough of its words is known to tell what it wrote.
    is_told: bool,
}

impl Step {
    /// Whether another run has made the same call. A reply that differs and does not matter is not known any more.
    fn merge(&mut self, other: &Self) -> bool {
        if self.is_write != other.is_write || self.command.words != other.command.words {
            return false;
        }
        if self.command.reply != other.command.reply {
            if self.is_write && !self.has_loose_reply {
                return false;
            }
            self.command.reply = None;
        }
        true
    }
}

fn writes(run: &[Step]) -> impl Iterator<Item = &Step> {
    run.iter().filter(|step| step.is_write)
}

/// The calls that all runs begin with.
fn common_steps(first: &[Step], others: &[Vec<Step>]) -> Vec<Step> {
    let mut common = Vec::new();
    for (at, step) in first.iter().enumerate() {
        let mut step = step.clone();
        if !others.iter().all(|run| run.get(at).is_some_and(|other| step.merge(other))) {
            break;
        }
        common.push(step);
    }
    common
}

/// Whether a command leaves the same behind whatever its reply is. Keys that were deleted are gone, were they there or not.
fn is_reply_loose(effect: LockEffect) -> bool {
    matches!(
        effect,
        LockEffect::None
            | LockEffect::Delete
            | LockEffect::SetMember
            | LockEffect::AddMember
            | LockEffect::CountMember
            | LockEffect::OtherWrite
    )
}

/// Whether a command that writes has done so, by its reply.
fn has_written(effect: LockEffect, call: &Call) -> bool {
    let is = |word: &Word, text: &str| matches!(word, Word::Known(word) if word.eq_ignore_ascii_case(text.as_bytes()));
    let has = |option: &str| call.words.iter().skip(3).any(|word| is(word, option));
    let is_set = effect == LockEffect::SetByOptions;
    match call.reply {
        Answer::Error => false,
        Answer::Integer(0) => !matches!(
            effect,
            LockEffect::SetIfAbsent
                | LockEffect::SetManyIfAbsent
                | LockEffect::SetManyByOptions
                | LockEffect::Expire(..)
                | LockEffect::Persist
                | LockEffect::RemoveMember
                | LockEffect::RemoveField
                | LockEffect::RenameIfAbsent
                | LockEffect::Move
                | LockEffect::Copy
                | LockEffect::DeleteIfEqual
                | LockEffect::DeleteByOptions
        ),
        Answer::Nil if is_set => has("GET") && !has("XX"),
        Answer::Nil => effect == LockEffect::SetAndReturn,
        // The old value: the key was not free.
        Answer::Text(_) | Answer::Unknown(_) if is_set => !has("NX"),
        _ => true,
    }
}

/// How many possible writes are told.
const MOST_POSSIBLE: usize = 100;

/// Replies that say that no script ran.
const REFUSALS: &[&str] = &[
    "NOSCRIPT No matching script",
    "BUSY Redis is busy",
    "BUSY Valkey is busy",
    "NOAUTH ",
    "LOADING ",
    "MOVED ",
    "ASK ",
    "TRYAGAIN ",
    "CROSSSLOT ",
    "CLUSTERDOWN ",
    "MASTERDOWN ",
    "NOPERM ",
    "EXECABORT ",
    "ERR Error compiling script",
    "ERR Function not found",
    "ERR wrong number of arguments for",
    "ERR unknown command",
    "ERR Number of keys can't be",
    "ERR max number of clients reached",
];

/// Whether a reply says that no script ran. An error that a script raised names it.
fn never_ran(reply: &[u8]) -> bool {
    let Some(text) = reply.strip_prefix(b"-") else { return false };
    let is_of_script =
        memchr::memmem::find(text, b" script: ").is_some() || memchr::memmem::find(text, b"f_").is_some();
    !is_of_script && REFUSALS.iter().any(|refusal| text.starts_with(refusal.as_bytes()))
}

fn command(call: &Call, db: u32) -> ScriptCommand {
    let words = call.words.iter().map(|word| match word {
        Word::Known(word) => Some(word.clone()),
        Word::Unknown(_) => None,
    });
    let mut reply = Vec::new();
    let is_known = write_answer(&call.reply, &mut reply);
    ScriptCommand { db, words: words.collect(), reply: is_known.then_some(reply) }
}

/// Appends a reply as RESP2. Returns whether all of it is known.
fn write_answer(answer: &Answer, out: &mut Vec<u8>) -> bool {
    let line = |kind: u8, number: i64, out: &mut Vec<u8>| {
        out.push(kind);
        write_integer(out, number);
        out.extend_from_slice(b"\r\n");
    };
    match answer {
        Answer::Nil => out.extend_from_slice(b"$-1\r\n"),
        Answer::Integer(number) => line(b':', *number, out),
        Answer::Status(text) => out.extend_from_slice(format!("+{text}\r\n").as_bytes()),
        Answer::Text(text) => {
            line(b'$', i64::try_from(text.len()).unwrap_or(i64::MAX), out);
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
        }
        Answer::List(answers) => {
            line(b'*', i64::try_from(answers.len()).unwrap_or(i64::MAX), out);
            return answers.iter().all(|answer| write_answer(answer, out));
        }
        Answer::Unknown(_) | Answer::Error => return false,
    }
    true
}
