//! A command's way past gates and faults, while there are any.
//!
//! Gates in front of the run come first, then the rule that the command meets, then the run, the gates behind it, and at
//! last what the rule does to the reply. Whoever is held on the way waits without a lock, and its request is tried again
//! when it may go on; what it has met so far stays in the session. No command of the test powers comes this way, so that
//! a test cannot lock itself out.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Engine, Fibers, Resolved, is_exec, keys, transaction};
use crate::clock::real_micros;
use crate::control::{Arrival, Gate, Guest, Matter, Passage, Rule, Side, Verdict};
use crate::error::CommandError;
use crate::resp::{Reply, Words};
use crate::session::Session;
use crate::spec::{CommandSpec, Flag, Flow, Group, Waiting};

impl Engine {
    /// Runs a request that gates, rules or the journal may be about.
    #[cold]
    pub(super) fn accompany(
        self: &Arc<Self>,
        session: &mut Box<Session>,
        resolved: Result<Resolved, CommandError>,
        words: Words<'_>,
        out: &mut Vec<u8>,
        fibers: &mut Fibers,
    ) -> Flow {
        let spec = resolved.as_ref().ok().map(|resolved| resolved.spec);
        if spec.is_some_and(|spec| spec.group == Group::Control) {
            return self.perform(session, resolved, words, out, fibers);
        }
        let mut passage = session.passage.take().unwrap_or_else(|| Box::new(self.arrive()));
        if !passage.is_planned {
            passage.is_planned = true;
            if let Some(spec) = spec.filter(|spec| self.meets_anything(session, spec)) {
                self.plan(&mut passage, session, spec, words);
            }
        }
        let wait = self.hold(&mut passage, session, words);
        if let Some(wait) = wait.or_else(|| self.hold_for_turn(&mut passage, session, spec?, words)) {
            session.passage = Some(passage);
            return Flow::Wait(Box::new(wait));
        }
        let start = out.len();
        if let Some(rule) = passage.rule.clone()
            && let Some(flow) = self.instead(session, spec, &rule, out)
        {
            session.passage = Some(passage);
            return self.leave(session, start, out, flow);
        }
        session.passage = Some(passage);
        match self.perform(session, resolved, words, out, fibers) {
            // Its passage goes on when it has its reply, or is tried again.
            Flow::Wait(wait) => Flow::Wait(wait),
            flow => self.leave(session, start, out, flow),
        }
    }

    fn arrive(&self) -> Passage {
        Passage { arrived: self.instance.clock.micros(), arrived_really: real_micros(), ..Passage::default() }
    }

    /// Whether gates and rules are for a command. What is only queued runs with its transaction, and what will be refused
    /// does not run at all.
    fn meets_anything(&self, session: &Session, spec: &CommandSpec) -> bool {
        let attention = &self.instance.attention;
        (attention.has(Matter::Fault) || attention.has(Matter::Gate))
            && (spec.has_flag(Flag::NoAuth) || self.is_authenticated(session))
            && !(session.transaction.is_some() && transaction::is_queued(spec))
    }

    /// Finds out what a command will meet.
    fn plan(&self, passage: &mut Passage, session: &Session, spec: &'static CommandSpec, words: Words<'_>) {
        let labels = session.client.labels();
        let name = labels.name.clone();
        drop(labels);
        let arrival = self.arrival(session, &name, spec, words);
        let inside: Vec<Arrival<'_>> = if is_exec(spec) {
            transaction::queued(session)
                .map(|queued| self.arrival(session, &name, queued.spec, queued.words.as_words()))
                .collect()
        } else {
            Vec::new()
        };
        let control = &self.instance.control;
        let (before, after): (VecDeque<Arc<Gate>>, VecDeque<Arc<Gate>>) =
            control.gates.on_the_way(&arrival, &inside).into_iter().partition(|gate| gate.side == Side::Before);
        (passage.before, passage.after) = (before, after);
        passage.rule = control.faults.judge(&arrival, &inside);
    }

    /// A command as patterns see it.
    pub(super) fn arrival<'a>(
        &self,
        session: &Session,
        client_name: &'a [u8],
        spec: &'static CommandSpec,
        words: Words<'a>,
    ) -> Arrival<'a> {
        let container = words.get(0).and_then(|name| self.table.find(name)).filter(|row| !std::ptr::eq(*row, spec));
        Arrival {
            container: container.map(|row| row.name),
            name: spec.name,
            keys: keys(spec, words).collect(),
            client: session.client.id(),
            client_name,
            db: session.db,
        }
    }

    /// What holds a command in front of its run, if anything does.
    fn hold(&self, passage: &mut Passage, session: &Session, words: Words<'_>) -> Option<Waiting> {
        while let Some(gate) = passage.before.pop_front() {
            passage.gates.push(gate.name.as_str().into());
            if let Some(ticket) = gate.stop.hold(guest(session, words)) {
                return Some(Waiting::Held(ticket));
            }
        }
        let rule = passage.rule.as_ref().filter(|_| !passage.rule_is_over)?;
        passage.rule_is_over = true;
        match &rule.fault.verdict {
            Verdict::Hang | Verdict::Pause => rule.stop.hold(guest(session, words)).map(Waiting::Held),
            Verdict::Delay(duration) => {
                let millis = i64::try_from(duration.as_micros().div_ceil(1000)).unwrap_or(i64::MAX);
                Some(Waiting::Delayed(self.instance.clock.millis().saturating_add(millis)))
            }
            _ => None,
        }
    }

    /// What happens instead of a command's run, if anything does.
    fn instead(
        &self,
        session: &mut Session,
        spec: Option<&'static CommandSpec>,
        rule: &Rule,
        out: &mut Vec<u8>,
    ) -> Option<Flow> {
        let flow = match &rule.fault.verdict {
            Verdict::Error(line) => {
                if spec.is_some_and(is_exec) {
                    self.discard(session);
                }
                self.answer(session, &Reply::Error(CommandError::new(line.clone())), out);
                Flow::Continue
            }
            Verdict::CloseBefore => Flow::Close,
            Verdict::Reset => Flow::Reset,
            _ => return None,
        };
        Some(flow)
    }

    /// The second half of a command's way, when it has run: `out` ends with its reply, which begins at `start`. Says how
    /// the connection goes on. To be called for every command that has its reply at last.
    pub fn leave(&self, session: &mut Session, start: usize, out: &mut Vec<u8>, flow: Flow) -> Flow {
        let Some(mut passage) = session.passage.take() else { return flow };
        if std::mem::take(&mut passage.is_explored) {
            self.instance.control.explorer.replied(session.client.id(), out.get(start..).unwrap_or_default());
        }
        while let Some(gate) = passage.after.pop_front() {
            passage.gates.push(gate.name.as_str().into());
            let words = Words::new(&[], &[]);
            if let Some(ticket) = gate.stop.hold(guest(session, words)) {
                session.passage = Some(passage);
                return Flow::Wait(Box::new(Waiting::HeldReply { ticket, reply: out.split_off(start), then: flow }));
            }
        }
        match passage.rule.as_ref().map(|rule| &rule.fault.verdict) {
            Some(Verdict::CloseAfter) => {
                out.truncate(start);
                Flow::Close
            }
            Some(Verdict::Truncate(bytes)) => {
                out.truncate(start.saturating_add(*bytes));
                Flow::Close
            }
            Some(&Verdict::Drip { bytes, every }) if out.len() > start => {
                Flow::Wait(Box::new(Waiting::Drip { reply: out.split_off(start), bytes, every, then: flow }))
            }
            _ => flow,
        }
    }

    /// The error that a rule has for a command inside a transaction or script.
    #[cold]
    pub(super) fn fault_inside(
        &self,
        session: &Session,
        spec: &'static CommandSpec,
        words: Words<'_>,
    ) -> Option<CommandError> {
        if !self.instance.attention.has(Matter::Fault) {
            return None;
        }
        let name = session.client.labels().name.clone();
        let rule = self.instance.control.faults.judge_inside(&self.arrival(session, &name, spec, words))?;
        let Verdict::Error(line) = &rule.fault.verdict else { return None };
        let error = CommandError::new(line.clone());
        self.instance.stats.count_error(error.code());
        Some(error)
    }
}

/// How much of a held command others are shown.
const WORDS_SHOWN: usize = 16;
const BYTES_SHOWN: usize = 128;

/// A held command as others are told of it.
pub(super) fn guest(session: &Session, words: Words<'_>) -> Guest {
    let shown: SmallVec<[&[u8]; 8]> = words.iter().take(WORDS_SHOWN).collect();
    Guest {
        client: session.client.id(),
        client_name: session.client.labels().name.clone(),
        words: shown.iter().map(|word| word[..word.len().min(BYTES_SHOWN)].to_vec()).collect(),
    }
}
