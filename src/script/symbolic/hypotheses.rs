//! What a run of a script assumes about the data that it does not see.
//!
//! A run is a path of choices: whether a key exists, whether an unknown value equals one that it is compared with. The next run
//! takes the next path, so that after all of them nothing that the data could have been is left out.

use std::cell::{Cell, RefCell};

use super::super::host::{Host, ScratchBuffers};
use super::super::lua::RegistryRef;
use super::super::random::Random;
use crate::base::error::CommandError;
use crate::base::log::Level;
use crate::base::profile::Profile;
use crate::protocol::{OwnedWords, Protocol, Words};

/// The reply of a command that a script calls.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Nil,
    Integer(i64),
    Status(&'static str),
    Text(Vec<u8>),
    /// A text or a number that is not known.
    Unknown(UnknownId),
    List(Vec<Answer>),
    /// The command fails.
    Error,
}

/// A word of a command that a script calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    Known(Vec<u8>),
    Unknown(UnknownId),
}

/// An unknown value of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownId(pub(super) usize);

/// A command that a script has called.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub words: Vec<Word>,
    pub reply: Answer,
}

/// The server's data, made up as a script asks for them.
pub trait World {
    /// Forgets everything, for another run.
    fn reset(&mut self);

    /// Whether the data can make the command fail. That a server refuses a command which `redis.pcall` calls (no permission, no
    /// memory, a replica) is assumed only if the reply has an error.
    fn can_fail(&self, words: &[Word]) -> bool;

    /// One of the replies that the command can have after all that were given before. `None` if it is not known which those
    /// are.
    fn answer(&mut self, words: &[Word], ask: &mut Choices<'_>) -> Option<Answer>;
}

/// An unknown value, and what the run has assumed about it.
#[derive(Clone, Debug)]
pub(super) enum Unknown {
    Text {
        /// It is the text of a number.
        is_number: bool,
        value: Option<Vec<u8>>,
        not: Vec<Vec<u8>>,
    },
    Number {
        low: f64,
        high: f64,
        is_whole: bool,
        value: Option<f64>,
        not: Vec<f64>,
    },
}

/// Why a run ended before its script did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abort {
    /// It is not what happened.
    Excluded,
    /// The script needs to know what is not known.
    Undecided,
}

#[derive(Default)]
pub(super) struct Run {
    /// Each choice with the number of alternatives.
    path: Vec<(u8, u8)>,
    at: usize,
    pub unknowns: Vec<Unknown>,
    pub calls: Vec<Call>,
    pub abort: Option<Abort>,
    ticks: u32,
}

/// The most choices of one run.
const MOST_CHOICES: usize = 200;
/// The most unknown values and calls of one run.
const MOST_UNKNOWN: usize = 2_000;
const MOST_CALLS: usize = 500;
/// The most ticks, some thousand instructions each, of all runs.
const MOST_TICKS: u32 = 500;

impl Run {
    pub fn choose(&mut self, count: u8) -> u8 {
        if let Some((taken, _)) = self.path.get(self.at) {
            self.at += 1;
            return *taken;
        }
        if self.path.len() >= MOST_CHOICES {
            self.abort = Some(Abort::Undecided);
            return 0;
        }
        self.path.push((0, count));
        self.at += 1;
        0
    }

    /// Prepares the next run. Returns false if all paths were taken.
    fn advance(&mut self) -> bool {
        self.path.truncate(self.at);
        self.at = 0;
        self.unknowns.clear();
        self.calls.clear();
        self.abort = None;
        while let Some((taken, count)) = self.path.last_mut() {
            *taken += 1;
            if *taken < *count {
                return true;
            }
            self.path.pop();
        }
        false
    }

    pub fn add(&mut self, unknown: Unknown) -> UnknownId {
        if self.unknowns.len() >= MOST_UNKNOWN {
            self.abort = Some(Abort::Undecided);
        }
        self.unknowns.push(unknown);
        UnknownId(self.unknowns.len() - 1)
    }

    pub fn add_text(&mut self, is_number: bool) -> UnknownId {
        self.add(Unknown::Text { is_number, value: None, not: Vec::new() })
    }

    /// Whether an unknown value equals a text.
    pub fn equals_text(&mut self, id: UnknownId, text: &[u8]) -> bool {
        let Unknown::Text { is_number, value, not } = &self.unknowns[id.0] else { return false };
        if let Some(value) = value {
            return value == text;
        }
        if not.iter().any(|other| other == text) || *is_number && crate::protocol::parse_float(text).is_none() {
            return false;
        }
        let is_equal = self.choose(2) == 0;
        if let Unknown::Text { value, not, .. } = &mut self.unknowns[id.0] {
            if is_equal { *value = Some(text.to_vec()) } else { not.push(text.to_vec()) }
        }
        is_equal
    }

    /// Assumes that an unknown value is this text. Returns whether it can be.
    pub fn bind_text(&mut self, id: UnknownId, text: &[u8]) -> bool {
        match &mut self.unknowns[id.0] {
            Unknown::Text { is_number, value, not } => match value {
                Some(value) => value == text,
                None if not.iter().any(|other| other == text) => false,
                None if *is_number && crate::protocol::parse_float(text).is_none() => false,
                None => {
                    *value = Some(text.to_vec());
                    true
                }
            },
            Unknown::Number { .. } => {
                crate::protocol::parse_float(text).is_some_and(|number| self.bind_number(id, number))
            }
        }
    }

    /// Whether an unknown number equals a known one.
    pub fn equals_number(&mut self, id: UnknownId, number: f64) -> bool {
        let Unknown::Number { value, .. } = &self.unknowns[id.0] else { return false };
        if let Some(value) = value {
            return *value == number;
        }
        if !self.can_be(id, number) {
            return false;
        }
        let is_equal = self.choose(2) == 0;
        if let Unknown::Number { low, high, value, not, .. } = &mut self.unknowns[id.0] {
            if is_equal {
                (*low, *high, *value) = (number, number, Some(number));
            } else {
                not.push(number);
            }
        }
        is_equal
    }

    /// Assumes that an unknown number is this one. Returns whether it can be.
    pub fn bind_number(&mut self, id: UnknownId, number: f64) -> bool {
        if !self.can_be(id, number) {
            return false;
        }
        if let Unknown::Number { low, high, value, .. } = &mut self.unknowns[id.0] {
            (*low, *high, *value) = (number, number, Some(number));
        }
        true
    }

    fn can_be(&self, id: UnknownId, number: f64) -> bool {
        let Unknown::Number { low, high, is_whole, not, .. } = &self.unknowns[id.0] else { return false };
        (*low..=*high).contains(&number) && !not.contains(&number) && (!*is_whole || number.fract() == 0.0)
    }

    /// Whether an unknown number is below a known one, or equal to it if that counts.
    pub fn is_below(&mut self, id: UnknownId, limit: f64, or_equal: bool) -> bool {
        let Unknown::Number { low, high, is_whole, .. } = self.unknowns[id.0] else { return false };
        if limit.is_nan() {
            return false;
        }
        let (below, above) = match (is_whole, or_equal) {
            (true, false) => (limit.ceil() - 1.0, limit.ceil()),
            (true, true) => (limit.floor(), limit.floor() + 1.0),
            (false, _) => (limit, limit),
        };
        let is_below = match (low <= below, above <= high) {
            (true, true) => self.choose(2) == 0,
            (can_be, _) => can_be,
        };
        if let Unknown::Number { low, high, .. } = &mut self.unknowns[id.0] {
            if is_below { *high = high.min(below) } else { *low = low.max(above) }
        }
        is_below
    }
}

/// What a [`World`] may ask while it makes up a reply.
pub struct Choices<'r> {
    pub(super) run: &'r mut Run,
    /// Commands may fail.
    pub(super) may_fail: bool,
}

impl Choices<'_> {
    /// Takes one of `count` alternatives; in the end all are taken.
    pub fn choose(&mut self, count: u8) -> u8 {
        self.run.choose(count)
    }

    /// Takes yes and no in turn.
    pub fn either(&mut self) -> bool {
        self.choose(2) == 0
    }

    /// Whether the command fails for a reason that the data do not tell.
    pub fn fails(&mut self) -> bool {
        self.may_fail && self.choose(2) == 1
    }

    /// A text that is not known.
    pub fn text(&mut self) -> Answer {
        Answer::Unknown(self.run.add_text(false))
    }

    /// The text of a number that is not known.
    pub fn numeric_text(&mut self) -> Answer {
        Answer::Unknown(self.run.add_text(true))
    }

    /// An integer that is not known.
    pub fn integer(&mut self, low: f64, high: f64) -> Answer {
        if low == high {
            return Answer::Integer(low as i64);
        }
        Answer::Unknown(self.run.add(Unknown::Number { low, high, is_whole: true, value: None, not: Vec::new() }))
    }

    /// The value of a word, if it is known.
    pub fn word<'w>(&'w self, word: &'w Word) -> Option<&'w [u8]> {
        match word {
            Word::Known(bytes) => Some(bytes),
            Word::Unknown(id) => match &self.run.unknowns[id.0] {
                Unknown::Text { value, .. } => value.as_deref(),
                Unknown::Number { .. } => None,
            },
        }
    }
}

/// The host of a script that runs with unknown data.
pub struct Hypotheses<'w> {
    pub(super) run: RefCell<Run>,
    pub(super) world: RefCell<Box<dyn World>>,
    pub(super) profile: &'w Profile,
    /// The commands that the script is known to have called, if that is known.
    pub(super) known_calls: Option<&'w [OwnedWords]>,
    pub(super) may_fail: bool,
    /// The function that a library is to register, and what it registered.
    pub(super) wanted: Option<&'w [u8]>,
    pub(super) callback: Cell<Option<RegistryRef>>,
    pub(super) scratch: RefCell<ScratchBuffers>,
    pub(super) random: Random,
}

impl Hypotheses<'_> {
    /// Prepares the next run. Returns false if there is none.
    pub fn advance(&self) -> bool {
        self.world.borrow_mut().reset();
        self.run.borrow_mut().advance()
    }

    pub(super) fn abort(&self) -> Option<Abort> {
        self.run.borrow().abort
    }

    /// The run cannot go on: the script needs to know what is not known.
    pub fn give_up(&self) {
        self.run.borrow_mut().abort.get_or_insert(Abort::Undecided);
    }

    /// The script calls a command: the reply is made up.
    pub fn answer(&self, mut words: Vec<Word>, raising: bool) -> Option<Answer> {
        let mut run = self.run.borrow_mut();
        if run.calls.len() >= MOST_CALLS {
            run.abort = Some(Abort::Undecided);
            return None;
        }
        if let Some(known) = self.known_calls
            && !is_call(&mut run, &mut words, known)
        {
            run.abort = Some(Abort::Excluded);
            return None;
        }
        let may_fail = self.may_fail || !raising && self.world.borrow().can_fail(&words);
        let mut choices = Choices { run: &mut run, may_fail };
        let reply =
            if choices.fails() { Some(Answer::Error) } else { self.world.borrow_mut().answer(&words, &mut choices) };
        let Some(reply) = reply else {
            run.abort = Some(Abort::Undecided);
            return None;
        };
        run.calls.push(Call { words, reply: reply.clone() });
        if run.abort.is_some() { None } else { Some(reply) }
    }
}

/// Whether the next call is the one that is known to have come next. What it tells of unknown words is kept.
fn is_call(run: &mut Run, words: &mut [Word], known: &[OwnedWords]) -> bool {
    let Some(known) = known.get(run.calls.len()).map(OwnedWords::as_words) else { return false };
    known.len() == words.len()
        && words.iter_mut().zip(known.iter()).all(|(word, known)| match word {
            Word::Known(word) => word == known,
            Word::Unknown(id) => {
                let can_be = run.bind_text(*id, known);
                *word = Word::Known(known.to_vec());
                can_be
            }
        })
}

impl Host for Hypotheses<'_> {
    fn tick(&self) -> Result<(), &'static str> {
        let mut run = self.run.borrow_mut();
        run.ticks += 1;
        if run.ticks > MOST_TICKS {
            run.abort = Some(Abort::Undecided);
        }
        if run.abort.is_some() { Err(ENDED) } else { Ok(()) }
    }

    fn call(&self, _: Words<'_>, _: &mut Vec<u8>) -> Result<(), CommandError> {
        self.give_up();
        Err(CommandError::fixed(ENDED))
    }

    fn protocol(&self) -> Protocol {
        Protocol::Resp2
    }

    fn set_protocol(&self, _: Protocol) {
        self.give_up();
    }

    fn may_run(&self, _: Words<'_>) -> Option<bool> {
        self.give_up();
        None
    }

    fn log(&self, _: Level, _: &str) {}

    fn profile(&self) -> &Profile {
        self.profile
    }

    fn scratch(&self) -> &RefCell<ScratchBuffers> {
        &self.scratch
    }

    fn random(&self) -> &Random {
        &self.random
    }

    fn symbolic(&self) -> Option<&Hypotheses<'_>> {
        Some(self)
    }
}

/// The message of the error that ends a run.
pub(super) const ENDED: &str = "ERR the run has ended";
