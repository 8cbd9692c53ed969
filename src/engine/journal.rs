//! The journal's record of a command, made when it has its reply or its connection is closed.
//!
//! A command takes its place in the journal's order while it holds its locks, so the order is the one in which commands took
//! effect. A blocked command takes its place when another command serves it.

use std::sync::Arc;
use std::time::Duration;

use super::upstream::effect_order;
use super::{Engine, Fibers, Resolved, keys, transaction};
use crate::base::clock::real_micros;
use crate::base::duration::spell_duration;
use crate::base::error::CommandError;
use crate::clients::instance::{Instance, each_request};
use crate::clients::session::{Flow, Hooks, Session};
use crate::data::keyspace::View;
use crate::powers::{ClientRecord, EffectOrder, Ending, EventKind, Hook, Line, Outcome, Stamp, Urgency, Verdict};
use crate::protocol::{OwnedWords, Words, parse_integer};
use crate::spec::{CommandSpec, Group, REDACTED_REPLY, Redaction, Secrets};

impl Engine {
    /// Runs a request for which the journal is the only active hook.
    #[inline(never)]
    pub(super) fn process_journaled(
        self: &Arc<Self>,
        session: &mut Box<Session>,
        resolved: Result<Resolved, CommandError>,
        words: Words<'_>,
        out: &mut Vec<u8>,
        fibers: &mut Fibers,
    ) -> Flow {
        let spec = resolved.as_ref().ok().map(|resolved| resolved.row.spec);
        if spec.is_some_and(|spec| spec.group == Group::Control) {
            self.flush_staging(session);
            return self.process_command(session, resolved, words, out, fibers);
        }
        session.in_flight.trace.open(session.db);
        if spec.is_some_and(|spec| transaction::may_run_scripts(session, spec)) {
            // The script may still have the session when it ends.
            session.in_flight.keep_words(words);
            self.flush_staging(session);
        }
        let start = out.len();
        match self.process_command(session, resolved, words, out, fibers) {
            Flow::Wait(wait) => {
                session.in_flight.keep_words(words);
                Flow::Wait(wait)
            }
            flow => {
                if !session.in_flight.trace.staging.has_memory() {
                    session.in_flight.trace.staging = std::mem::take(&mut fibers.staging);
                }
                let reply = &out[start..];
                let outcome = outcome(session, reply, &flow);
                self.write_record(session, spec, words, reply, outcome, None);
                session.in_flight.end_record(None);
                flow
            }
        }
    }

    /// Writes the staged records to the journal, before other clients can see the effects of the commands.
    pub(super) fn flush_staging(&self, session: &mut Session) {
        let trace = &mut session.in_flight.trace;
        if !trace.staging.is_empty() {
            trace.end_last();
            let kept = self.instance.control.journal.append(&mut trace.staging);
            trace.unwritten = trace.unwritten.or(kept.map(|(index, _)| index));
            if self.instance.audit.is_on() {
                self.instance.catch_up_audit(kept.map_or(Urgency::None, |(_, urgency)| urgency));
            }
        }
    }

    /// Gives the session the memory in which the records of a batch are staged.
    #[inline]
    pub fn begin_batch(&self, session: &mut Session, fibers: &mut Fibers) {
        let staging = &mut session.in_flight.trace.staging;
        if self.instance.active_hooks.has(Hook::Journal) && !staging.has_memory() {
            *staging = std::mem::take(&mut fibers.staging);
        }
    }

    /// Like `flush_staging`, when the session has run all its requests.
    #[inline(never)]
    pub fn end_batch(&self, session: &mut Session, fibers: &mut Fibers) {
        self.flush_staging(session);
        fibers.staging = std::mem::take(&mut session.in_flight.trace.staging);
    }

    /// Opens the trace of an intercepted command.
    pub(super) fn open_trace(&self, session: &mut Session, words: Words<'_>) {
        if self.instance.active_hooks.has(Hook::Journal) {
            session.in_flight.trace.open(session.db);
            session.in_flight.keep_words(words);
        }
    }

    /// Records the session's intercepted or blocked command when it has its reply.
    pub(super) fn record_command(&self, session: &mut Session, hooks: Option<&Hooks>, reply: &[u8], flow: &Flow) {
        if !session.in_flight.trace.is_open() {
            return;
        }
        let outcome = match hooks.and_then(|hooks| hooks.rule.as_ref()).map(|rule| &rule.fault.verdict) {
            Some(Verdict::CloseBefore | Verdict::Reset) => Outcome::NeverRan,
            Some(Verdict::CloseAfter) => Outcome::Lost,
            Some(&Verdict::Truncate(bytes)) if bytes < reply.len() => Outcome::Lost,
            Some(
                Verdict::Truncate(_)
                | Verdict::Error(_)
                | Verdict::Delay(_)
                | Verdict::Hang
                | Verdict::Drip { .. }
                | Verdict::Refuse
                | Verdict::Pause
                | Verdict::HoldLink(_)
                | Verdict::LagLink { .. }
                | Verdict::CutLink(_),
            )
            | None => outcome(session, reply, flow),
        };
        self.record_as(session, hooks, reply, outcome);
    }

    fn record_as(&self, session: &mut Session, hooks: Option<&Hooks>, reply: &[u8], outcome: Outcome) {
        let kept = session.in_flight.take_words();
        let words = kept.as_ref().map_or(Words::new(&[], &[]), |kept| kept.as_words());
        self.write_record(session, None, words, reply, outcome, hooks);
        self.flush_staging(session);
        session.in_flight.end_record(kept);
    }

    /// Records a command whose connection is closed before its reply. `reply` is what the reply would have been.
    pub(super) fn record_abandoned(&self, session: &mut Session, reply: &[u8]) {
        if !session.in_flight.trace.is_open() {
            return;
        }
        let hooks = session.in_flight.hooks.take();
        let trace = &session.in_flight.trace;
        let outcome = match trace.sent {
            _ if trace.is_stamped() => Outcome::Lost,
            // The server may have run it.
            Some(_) => Outcome::Unknown,
            None => Outcome::NeverRan,
        };
        self.record_as(session, hooks.as_deref(), reply, outcome);
    }

    /// Marks the last `unwritten` bytes of a session's replies as never delivered.
    pub fn mark_unread(&self, session: &Session, unwritten: usize) {
        if let Some(from) = session.in_flight.trace.unwritten.filter(|_| unwritten > 0) {
            self.instance.control.journal.mark_replies_lost(session.client.id(), from, unwritten);
        }
    }

    #[inline]
    fn write_record(
        &self,
        session: &mut Session,
        spec: Option<&'static CommandSpec>,
        words: Words<'_>,
        reply: &[u8],
        outcome: Outcome,
        hooks: Option<&Hooks>,
    ) {
        let journal = &self.instance.control.journal;
        let (stamp, duration) = match session.in_flight.trace.close() {
            Ending::Stamped(stamp) => (stamp, None),
            Ending::Now { end, real, duration } => {
                (Stamp { seq: journal.next(), at: self.instance.clock.at_real(end), real }, Some(duration))
            }
        };
        let Stamp { seq, at, real } = stamp;
        let mut redaction = Redaction::default();
        let (words, reply) = self.redact(session, spec, words, reply, &mut redaction);
        self.introduce(session);
        let sent = session.in_flight.trace.sent.take();
        let is_ordered = std::mem::take(&mut session.in_flight.trace.is_ordered);
        let are_children_known = std::mem::take(&mut session.in_flight.trace.knows_children) || sent.is_none();
        let children = session.in_flight.trace.take_inside();
        // The reply of EXEC or a script holds those of the commands inside.
        let has_secret = children.as_ref().is_some_and(|children| children.has_secret);
        let reply = if has_secret { REDACTED_REPLY } else { reply };
        let line = Line {
            seq,
            event: None,
            at,
            real,
            sent,
            order: sent.map_or(EffectOrder::Total, |_| effect_order(is_ordered)),
            client: session.client.id(),
            db: session.in_flight.trace.db,
            duration: duration.unwrap_or_default(),
            outcome,
            words,
            reply,
            held_after: hooks.map(|_| real_micros().saturating_sub(real).max(0).unsigned_abs()),
            fault: hooks.and_then(|hooks| hooks.rule.as_ref()).map(|rule| rule.fault.name.as_str()),
            gates: hooks.map(|hooks| hooks.gates_met.as_slice()).unwrap_or_default(),
            children: children.as_deref().filter(|_| are_children_known),
        };
        session.in_flight.trace.put(&line, duration.is_some());
        session.in_flight.trace.give_back(children);
        if session.in_flight.trace.staging.is_full() {
            self.flush_staging(session);
        }
    }

    /// Records that the connection of a session has ended, if the journal knows its client.
    pub(super) fn record_disconnect(&self, session: &mut Session) {
        let journal = &self.instance.control.journal;
        if session.in_flight.trace.introduced == journal.epoch() {
            self.flush_staging(session);
            let at = (self.instance.clock.micros(), real_micros());
            journal.note_event(EventKind::Closed, session.client.id(), at, &OwnedWords::default());
            if self.instance.audit.is_on() {
                self.instance.catch_up_audit(Urgency::None);
            }
        }
    }

    /// Records that a stopped server serves again, before any client can connect.
    pub fn record_start(&self, empty: bool) {
        let Instance { control, clock, .. } = &*self.instance;
        let detail = if empty { "empty" } else { "kept" };
        let at = (clock.micros(), real_micros());
        control.journal.note_event(EventKind::Started, 0, at, &[detail].into_iter().collect());
    }

    /// Records what happened to a node of the deployment, which is named by its real address: that it was promoted, or what
    /// else has changed.
    pub fn record_node_event(&self, kind: EventKind, node: &str, detail: &str) {
        let Instance { control, clock, .. } = &*self.instance;
        control.journal.note_node_event(kind, node, (clock.micros(), real_micros()), detail);
        if self.instance.audit.is_on() {
            self.instance.catch_up_audit(Urgency::None);
        }
    }

    /// Records how the link to a replica is treated from here on. Nothing is found by that.
    pub fn record_link(&self, replica: &str, how: &str) {
        let Instance { control, clock, .. } = &*self.instance;
        control.journal.note_node_event(EventKind::Link, replica, (clock.micros(), real_micros()), how);
    }

    /// Records the changes in a part of the stream that the server at this address lacks, which has taken this one's place.
    /// `had_by` says who had the change at a place of the part.
    pub fn record_losses<'n>(
        &self,
        stream: &[u8],
        selected: u32,
        successor: &str,
        had_by: impl Fn(usize) -> Vec<&'n str>,
    ) {
        let Instance { control, clock, active_hooks, .. } = &*self.instance;
        if !active_hooks.has(Hook::Journal) {
            return;
        }
        let (at, mut db) = ((clock.micros(), real_micros()), selected);
        each_request(stream, |place, words| {
            let Some(row) = self.table.row_of(words) else { return };
            if row.spec.name == "SELECT" {
                db = words.get(1).and_then(parse_integer).and_then(|db| u32::try_from(db).ok()).unwrap_or(db);
            }
            let had_by = had_by(place);
            keys(row.spec, words).for_each(|key| control.journal.note_loss(successor, db, key, &had_by, at));
        });
    }

    /// Records a clock move, before its consequences.
    pub(super) fn record_clock_move(&self, to: i64) {
        let Instance { control, clock, .. } = &*self.instance;
        let now = clock.micros();
        let by = Duration::from_micros(to.abs_diff(now));
        let sign = if to < now { '-' } else { '+' };
        let detail = format!("{sign}{}", spell_duration(by));
        control.journal.note_event(EventKind::Clock, 0, (now, real_micros()), &[detail].into_iter().collect());
    }

    /// Sets the name and the node of a session's client in the journal, if the journal does not have them.
    #[inline]
    pub(super) fn introduce(&self, session: &mut Session) {
        let trace = &session.in_flight.trace;
        let has_other_node = session.node.as_ref().is_some_and(|node| node.version() != trace.node_version);
        if trace.introduced != self.instance.control.journal.epoch() || has_other_node {
            self.record_client(session);
        }
    }

    /// The process of a session's client is known now. The journal has it from the next command on.
    #[cold]
    pub fn introduce_again(&self, session: &mut Session) {
        if session.in_flight.trace.introduced == self.instance.control.journal.epoch() {
            self.record_client(session);
        }
    }

    /// Sets the name, the process and the node of a session's client in the journal, from the next command on.
    #[cold]
    fn record_client(&self, session: &mut Session) {
        self.flush_staging(session);
        let journal = &self.instance.control.journal;
        session.in_flight.trace.introduced = journal.epoch();
        let client = &session.client;
        session.in_flight.trace.node_version = session.node.as_ref().map_or(0, |node| node.version());
        let node = session.node.as_ref().map(|node| node.snapshot());
        let introduction = ClientRecord {
            address: client.peer().address(),
            name: client.labels().name.clone(),
            process: client.process().cloned(),
            node,
        };
        journal.add_client(client.id(), introduction);
    }

    /// Removes the secrets of a command. Most kinds of commands have none.
    #[inline]
    pub(super) fn redact<'w>(
        &self,
        session: &mut Session,
        spec: Option<&'static CommandSpec>,
        words: Words<'w>,
        reply: &'w [u8],
        redaction: &'w mut Redaction,
    ) -> (Words<'w>, &'w [u8]) {
        match spec.or_else(|| Some(self.table.row_of(words)?.spec)) {
            Some(spec) if spec.secrets == Secrets::None && !spec.names_client => (words, reply),
            spec => self.redact_secrets(session, spec, words, reply, redaction),
        }
    }

    /// Removes the secrets of a command. If it may have renamed its client, the name is recorded again.
    #[cold]
    fn redact_secrets<'w>(
        &self,
        session: &mut Session,
        spec: Option<&'static CommandSpec>,
        words: Words<'w>,
        reply: &'w [u8],
        redaction: &'w mut Redaction,
    ) -> (Words<'w>, &'w [u8]) {
        if spec.is_some_and(|spec| spec.names_client) {
            // No epoch has this number, so the client is recorded anew.
            session.in_flight.trace.introduced = 0;
        }
        redaction.request(&self.table, words, reply)
    }

    /// Records a command of EXEC or a script, if its caller is recorded.
    #[inline]
    pub(super) fn record_child(
        &self,
        session: &mut Session,
        spec: Option<&'static CommandSpec>,
        words: Words<'_>,
        reply: &[u8],
        fault: Option<&str>,
    ) {
        if session.in_flight.trace.is_open() {
            self.write_child(session, spec, words, reply, fault);
        }
    }

    #[cold]
    pub(super) fn write_child(
        &self,
        session: &mut Session,
        spec: Option<&'static CommandSpec>,
        words: Words<'_>,
        reply: &[u8],
        fault: Option<&str>,
    ) {
        let mut redaction = Redaction::default();
        let (words, reply) = self.redact(session, spec, words, reply, &mut redaction);
        let db = session.db;
        let children = session.in_flight.trace.children();
        children.push(db, words, reply, fault);
        children.has_secret |= redaction.had_secret;
    }
}

/// The outcome of a command with this reply.
#[inline]
fn outcome(session: &Session, reply: &[u8], flow: &Flow) -> Outcome {
    match flow {
        Flow::Drop if session.in_flight.trace.is_stamped() => Outcome::Lost,
        Flow::Drop => Outcome::NeverRan,
        _ if reply.is_empty() => Outcome::Silent,
        _ if session.transaction.is_some() && reply == b"+QUEUED\r\n" => Outcome::Queued,
        _ => Outcome::Answered,
    }
}

/// Takes a command's place in the journal's order, before its view releases the locks.
#[cold]
pub(super) fn stamp(instance: &Instance, view: &View<'_>, session: &mut Session) {
    let at = view.micros();
    session.in_flight.trace.stamp(instance.control.journal.next(), at, instance.clock.real_at(at));
}

/// Takes the place of a served blocked command in the journal's order.
pub(super) fn stamp_served(instance: &Instance, view: &View<'_>) -> Option<Stamp> {
    if !instance.active_hooks.has(Hook::Journal) {
        return None;
    }
    Some(Stamp { seq: instance.control.journal.next(), at: view.micros(), real: real_micros() })
}
