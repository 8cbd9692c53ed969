//! A command's way past gates and faults, while there are any.
//!
//! Gates in front of the run come first, then the rule that the command meets, then the run, the gates behind it, and at
//! last what the rule does to the reply. Whoever is held on the way waits without a lock, and its request is tried again
//! when it may go on; what it has met so far stays in the session. No command of the test powers comes this way, so that
//! a test cannot lock itself out.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use smallvec::SmallVec;

use super::{Engine, Fibers, Resolved, is_exec, keys, transaction};
use crate::base::error::CommandError;
use crate::clients::session::{Flow, Session, Waiting};
use crate::powers::{CommandInfo, Hook, ParkedCommand, Passage, Permit, Rule, Verdict, WaitQueue};
use crate::protocol::{Reply, Words, parse_integer};
use crate::spec::{CommandSpec, Flag, Group};

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
        let spec = resolved.as_ref().ok().map(|resolved| resolved.row.spec);
        if spec.is_some_and(|spec| spec.group == Group::Control) {
            self.keep_staged(session);
            return self.perform(session, resolved, words, out, fibers);
        }
        self.begin_note(session, words);
        if let Some(ticket) = self.halt(session, words) {
            return Flow::Wait(Box::new(Waiting::Held(ticket)));
        }
        let mut passage = match session.passage.take() {
            Some(passage) => passage,
            None => {
                let mut passage = Passage::default();
                match spec.filter(|spec| self.meets_anything(session, spec)) {
                    Some(spec) => self.plan(&mut passage, session, spec, words),
                    None => passage.is_judged = true,
                }
                if passage.is_free() && !self.instance.active_hooks.wants_all() {
                    return self.go_freely(session, resolved, words, out, fibers);
                }
                Box::new(passage)
            }
        };
        session.last_command = spec.or(session.last_command);
        let wait = self.hold(&mut passage, session, spec, words);
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

    /// Runs a request that nothing is in the way of.
    fn go_freely(
        self: &Arc<Self>,
        session: &mut Box<Session>,
        resolved: Result<Resolved, CommandError>,
        words: Words<'_>,
        out: &mut Vec<u8>,
        fibers: &mut Fibers,
    ) -> Flow {
        let start = out.len();
        match self.perform(session, resolved, words, out, fibers) {
            Flow::Wait(wait) => {
                if wait.is_before() {
                    // It comes by again, and is not to be counted again.
                    session.passage = Some(Box::new(Passage { is_judged: true, ..Passage::default() }));
                }
                Flow::Wait(wait)
            }
            flow => self.leave(session, start, out, flow),
        }
    }

    /// Holds whoever comes while a fault pauses the server.
    fn halt(&self, session: &Session, words: Words<'_>) -> Option<Permit> {
        if !self.instance.active_hooks.has(Hook::Halt) {
            return None;
        }
        let rule = self.instance.control.faults.pausing_rule()?;
        hold_at(&rule.queue, session, guest(session, words))
    }

    /// Whether gates and rules are for a command. What is only queued runs with its transaction, and what will be refused
    /// does not run at all.
    fn meets_anything(&self, session: &Session, spec: &CommandSpec) -> bool {
        let active_hooks = &self.instance.active_hooks;
        (active_hooks.has(Hook::Fault) || active_hooks.has(Hook::Gate))
            && (spec.has_flag(Flag::NoAuth) || self.is_authenticated(session))
            && !(session.transaction.is_some() && transaction::is_queued(spec))
    }

    /// Finds out what a command meets: the gates in front of it, and the rest at once if there are none.
    fn plan(&self, passage: &mut Passage, session: &Session, spec: &'static CommandSpec, words: Words<'_>) {
        if self.instance.active_hooks.has(Hook::Gate) {
            let name = session.client.labels().name.clone();
            let (arrival, inside) = self.arrivals(session, &name, spec, words);
            passage.before = self.instance.control.gates.before(&arrival, &inside, || guest(session, words));
        }
        if passage.before.is_empty() {
            self.judge(passage, session, spec, words);
        }
    }

    /// Finds out what a command meets that has passed the gates in front of it: whoever holds it there may arrange that.
    fn judge(&self, passage: &mut Passage, session: &Session, spec: &'static CommandSpec, words: Words<'_>) {
        passage.is_judged = true;
        let control = &self.instance.control;
        let labels = session.client.labels();
        let (arrival, inside) = self.arrivals(session, &labels.name, spec, words);
        passage.rule = control.faults.first_match(&arrival, &inside);
        passage.after = control.gates.after(&arrival, &inside);
        drop((arrival, inside));
        drop(labels);
        if !passage.after.is_empty() {
            passage.guest = Some(guest(session, words));
        }
    }

    /// A command as patterns see it, with those that it runs if it is an EXEC.
    fn arrivals<'a>(
        &self,
        session: &'a Session,
        client_name: &'a [u8],
        spec: &'static CommandSpec,
        words: Words<'a>,
    ) -> (CommandInfo<'a>, Vec<CommandInfo<'a>>) {
        let mut inside: Vec<CommandInfo<'_>> = Vec::new();
        if is_exec(spec) {
            let mut db = session.db;
            for queued in transaction::queued(session) {
                let words = queued.words.as_words();
                inside.push(CommandInfo { db, ..self.arrival(session, client_name, queued.row.spec, words) });
                // What follows a SELECT runs there.
                let chosen = words.get(1).and_then(parse_integer).and_then(|number| u32::try_from(number).ok());
                db = chosen.filter(|_| queued.row.spec.selects_database).unwrap_or(db);
            }
        }
        (self.arrival(session, client_name, spec, words), inside)
    }

    /// A command as patterns see it.
    pub(super) fn arrival<'a>(
        &self,
        session: &Session,
        client_name: &'a [u8],
        spec: &'static CommandSpec,
        words: Words<'a>,
    ) -> CommandInfo<'a> {
        let container = words.get(0).and_then(|name| self.table.find(name)).filter(|row| !std::ptr::eq(*row, spec));
        CommandInfo {
            container: container.map(|row| row.name),
            name: spec.name,
            keys: keys(spec, words).collect(),
            client: session.client.id(),
            client_name,
            db: session.db,
        }
    }

    /// What holds a command in front of its run, if anything does.
    fn hold(
        &self,
        passage: &mut Passage,
        session: &Session,
        spec: Option<&'static CommandSpec>,
        words: Words<'_>,
    ) -> Option<Waiting> {
        while let Some(gate) = passage.before.pop_front() {
            passage.gates.push(gate.name.as_str().into());
            if let Some(ticket) = hold_at(&gate.queue, session, guest(session, words)) {
                return Some(Waiting::Held(ticket));
            }
        }
        if let Some(spec) = spec.filter(|_| !passage.is_judged) {
            self.judge(passage, session, spec, words);
        }
        let rule = passage.rule.as_ref().filter(|_| !passage.rule_is_over)?;
        passage.rule_is_over = true;
        match &rule.fault.verdict {
            Verdict::Hang => hold_at(&rule.queue, session, guest(session, words)).map(Waiting::Held),
            Verdict::Delay(duration) if !duration.is_zero() => {
                // Before anybody can see that it waits: whoever sees it may move the clock.
                let alarm = Some(self.instance.clock.alarm_after(*duration));
                let ticket = hold_at(&rule.queue, session, guest(session, words))?;
                Some(Waiting::Delayed { alarm, ticket })
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
        // Whoever it is that has the reply now, be it one who waited before anything was armed: in a pause nobody gets it.
        if let Some(ticket) = self.halt(session, Words::new(&[], &[])) {
            return Flow::Wait(Box::new(Waiting::HeldReply { ticket, reply: out.split_off(start), then: flow }));
        }
        let Some(mut passage) = session.passage.take() else {
            self.tell_kept(session, None, out.get(start..).unwrap_or_default(), &flow);
            return flow;
        };
        if std::mem::take(&mut passage.is_explored) {
            self.instance.control.explorer.record_reply(session.client.id(), out.get(start..).unwrap_or_default());
        }
        while let Some(gate) = passage.after.pop_front() {
            passage.gates.push(gate.name.as_str().into());
            let Some(guest) = passage.guest.clone() else { continue };
            if let Some(ticket) = hold_at(&gate.queue, session, guest) {
                session.passage = Some(passage);
                return Flow::Wait(Box::new(Waiting::HeldReply { ticket, reply: out.split_off(start), then: flow }));
            }
        }
        self.tell_kept(session, Some(&passage), out.get(start..).unwrap_or_default(), &flow);
        let Some(rule) = passage.rule else { return flow };
        match rule.fault.verdict {
            Verdict::CloseAfter => {
                out.truncate(start);
                Flow::Close
            }
            Verdict::Truncate(bytes) => {
                out.truncate(start.saturating_add(bytes));
                Flow::Close
            }
            Verdict::Drip { bytes, every } if out.len() - start > bytes => {
                let alarm = Some(self.instance.clock.alarm_after(every));
                let Some(ticket) = rule.queue.hold(guest(session, Words::new(&[], &[]))) else { return flow };
                let reply = Bytes::from(out.split_off(start));
                Flow::Wait(Box::new(Waiting::Drip { reply, bytes, every, alarm, ticket, then: flow }))
            }
            _ => flow,
        }
    }

    /// The error that a rule has for a command inside a transaction or script, with the rule.
    #[cold]
    pub(super) fn fault_inside(
        &self,
        session: &Session,
        spec: &'static CommandSpec,
        words: Words<'_>,
    ) -> Option<(CommandError, Arc<Rule>)> {
        if !self.instance.active_hooks.has(Hook::Fault) {
            return None;
        }
        let labels = session.client.labels();
        let arrival = self.arrival(session, &labels.name, spec, words);
        let rule = self.instance.control.faults.first_match_inside(&arrival)?;
        let Verdict::Error(line) = &rule.fault.verdict else { return None };
        let error = CommandError::new(line.clone());
        self.instance.stats.count_error(error.code());
        Some((error, rule))
    }
}

/// Holds a command at a stop. Whoever finds it there finds its client blocked.
fn hold_at(stop: &Arc<WaitQueue>, session: &Session, guest: ParkedCommand) -> Option<Permit> {
    let blocked = &session.client.seen().blocked;
    blocked.store(true, Ordering::Relaxed);
    let ticket = stop.hold(guest);
    blocked.store(ticket.is_some(), Ordering::Relaxed);
    ticket
}

/// How much of a held command others are shown.
const WORDS_SHOWN: usize = 16;
const BYTES_SHOWN: usize = 128;

/// A held command as others are told of it.
pub(super) fn guest(session: &Session, words: Words<'_>) -> ParkedCommand {
    let shown: SmallVec<[&[u8]; 8]> = words.iter().take(WORDS_SHOWN).collect();
    ParkedCommand {
        client: session.client.id(),
        client_name: session.client.labels().name.clone(),
        words: shown.iter().map(|word| word[..word.len().min(BYTES_SHOWN)].to_vec()).collect(),
    }
}
