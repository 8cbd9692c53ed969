//! One command in flight: from its arrival to the last byte of its reply.

use std::collections::VecDeque;
use std::sync::Arc;

use super::flow::Wait;
use crate::base::clock::Alarm;
use crate::powers::{CommandTrace, Gate, ParkedCommand, Permit, Rule};
use crate::protocol::{OwnedWords, Words};
use crate::spec::CommandSpec;

/// The command that a session runs. A connection has one at most: what is behind it stays in the input buffer.
///
/// A command that no hook intercepts runs straight from its arrival to its reply, and leaves the stage at
/// [`Stage::Arrived`]. Only one that is intercepted, or has to wait, goes through the stages.
#[derive(Default)]
pub struct InFlight {
    pub stage: Stage,
    /// The row of its request. If the request has none, the row of the last one that had.
    pub row: Option<&'static CommandSpec>,
    /// The hooks that it meets, if it is intercepted.
    pub hooks: Option<Box<Hooks>>,
    /// What the journal records of it.
    pub trace: CommandTrace,
    /// What it waits for, if it does.
    pub wait: Option<Box<Wait>>,
    /// The deadline of the wait, if it has one.
    pub alarm: Option<Alarm>,
    /// A copy of its words for the journal, where the request is gone before the reply is there. The memory stays for the
    /// next command.
    words: Option<Box<OwnedWords>>,
    has_words: bool,
}

/// How far a command has come. `Engine::proceed` takes it from one stage to the next.
///
/// A new stage is a variant here, in the order in which commands come through, and an arm of the `match` there. A command
/// that is parked at a stage goes on from that stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// No hook has seen it.
    #[default]
    Arrived,
    /// It passes the gates in front of its run.
    GatesBefore,
    /// Its fault rule is known, and may delay it.
    Judged,
    /// It waits for its turn in an exploration.
    Turn,
    /// It runs, or its fault rule answers instead.
    Running,
    /// It has begun to run, and waits for its reply.
    Blocked,
    /// It has its reply, and passes the gates behind its run.
    GatesAfter,
    /// The journal records it, and its fault rule does to the reply what it does.
    Replying,
    /// Its reply is complete.
    Done,
}

/// The hooks of one command. Which ones it meets is looked up when it comes there: whoever parks it at a gate can arm or
/// disarm the hooks behind.
#[derive(Default)]
pub struct Hooks {
    /// The gates in front of its run that it has not come to yet.
    pub gates_before: VecDeque<Arc<Gate>>,
    /// The fault rule that it meets.
    pub rule: Option<Arc<Rule>>,
    /// The explorer has given it a turn.
    pub is_explored: bool,
    /// The gates behind its run that it has not come to yet.
    pub gates_after: VecDeque<Arc<Gate>>,
    /// The command as others see it at those gates.
    pub parked: Option<ParkedCommand>,
    /// The names of the gates that it has come to, in that order.
    pub gates_met: Vec<Box<str>>,
}

impl InFlight {
    /// Whether a hook or the journal has seen the command: it is intercepted up to its end, even if all hooks are disarmed
    /// meanwhile.
    #[inline]
    pub fn is_intercepted(&self) -> bool {
        self.stage != Stage::Arrived || self.trace.is_open()
    }

    /// Keeps the words for the journal, if it records the command and has none yet.
    pub fn keep_words(&mut self, words: Words<'_>) {
        if self.trace.is_open() && !self.has_words {
            self.has_words = true;
            self.words.get_or_insert_default().fill(words);
        }
    }

    /// Takes the kept words, to be given back to [`end_record`](Self::end_record).
    pub fn take_words(&mut self) -> Option<Box<OwnedWords>> {
        self.words.take()
    }

    /// The command is recorded. What was kept for that is emptied; small memory is used again.
    #[inline]
    pub fn end_record(&mut self, words: Option<Box<OwnedWords>>) {
        /// Words with more bytes than this are given back to the allocator.
        const MOST_KEPT: usize = 4096;
        self.trace.clear_children();
        if let Some(mut words) = words {
            words.empty(MOST_KEPT);
            self.words = Some(words);
        }
        self.has_words = false;
    }

    /// The wait is over for a session that only stood in for another one.
    pub fn forget_wait(&mut self) {
        self.stage = Stage::Arrived;
        self.wait = None;
        self.alarm = None;
    }

    /// Notes for the journal that the watchdog released the command from its last gate, if it did.
    pub fn note_release(&mut self, permit: &Permit) {
        let last = self.hooks.as_mut().and_then(|hooks| hooks.gates_met.last_mut());
        if let Some(gate) = last.filter(|_| permit.is_overdue()) {
            *gate = format!("{gate} (freed by the watchdog)").into();
        }
    }
}

impl Hooks {
    /// Whether the command meets nothing.
    pub fn is_empty(&self) -> bool {
        self.gates_before.is_empty() && self.gates_after.is_empty() && self.rule.is_none()
    }
}
