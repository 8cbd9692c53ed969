//! The journal's record of a command that was passed to a server.

use std::sync::{Mutex, MutexGuard};

use super::{Follows, PassedCommand, is_error};
use crate::base::sync::MutexExt;
use crate::clients::session::Session;
use crate::engine::{Engine, transaction};
use crate::insight::scripts::{ScriptCall, ScriptKnowledge};
use crate::powers::{EffectOrder, Hook, Line, Outcome};
use crate::protocol::{OwnedWords, Words, array_elements};
use crate::spec::{CommandKind, CommandSpec, REDACTED_REPLY, Redaction};

impl Engine {
    /// Records a command that no hook has intercepted. `reply` is what is kept of its reply, which arrived at `now`.
    pub(super) fn record_passed(
        &self,
        session: &mut Session,
        command: &PassedCommand,
        db: u32,
        reply: &[u8],
        outcome: Outcome,
        now: i64,
    ) {
        let spec = command.row.map(|row| row.spec);
        let mut redaction = Redaction::default();
        let (words, reply) = self.redact(session, spec, command.words.as_words(), reply, &mut redaction);
        self.introduce(session);
        let trace = &mut session.in_flight.trace;
        let are_children_known = std::mem::take(&mut trace.knows_children);
        let children = trace.take_inside();
        let has_secret = children.as_ref().is_some_and(|children| children.has_secret);
        let line = Line {
            seq: self.instance.control.journal.next(),
            event: None,
            at: now,
            real: now,
            sent: Some(command.sent),
            order: effect_order(command.is_ordered),
            client: session.client.id(),
            db,
            duration: now.saturating_sub(command.sent).max(0).unsigned_abs(),
            outcome,
            words,
            // The reply of EXEC holds those of the commands inside.
            reply: if has_secret { REDACTED_REPLY } else { reply },
            held_after: None,
            fault: None,
            gates: &[],
            children: children.as_deref().filter(|_| are_children_known),
        };
        trace.put(&line, true);
        trace.give_back(children);
        trace.clear_children();
        if trace.staging.is_full() {
            self.flush_staging(session);
        }
    }

    /// Notes what a command has run inside itself, as far as its reply tells.
    pub(super) fn note_children(&self, session: &mut Session, command: &PassedCommand, reply: &[u8]) {
        if !self.instance.active_hooks.has(Hook::Journal) {
            return;
        }
        match command.follows {
            Follows::Exec => self.note_executed(session, command, reply),
            Follows::Script => self.note_script(session, command, reply),
            _ => {}
        }
    }

    /// Learns the texts of scripts, and tells what a script did, if MONITOR has shown it, or its text and reply admit nothing
    /// else.
    fn note_script(&self, session: &mut Session, command: &PassedCommand, reply: &[u8]) {
        let Some(mut scripts) = self.script_knowledge() else { return };
        let words = command.words.as_words();
        scripts.note_command(words, reply);
        if !command.row.is_some_and(|row| runs_script(row.spec)) || reply.is_empty() || session.transaction.is_some() {
            return;
        }
        let calls = command.calls.first().and_then(Option::as_deref);
        session.in_flight.trace.knows_children = self.note_run(session, &mut scripts, words, reply, calls);
    }

    fn script_knowledge(&self) -> Option<MutexGuard<'_, ScriptKnowledge>> {
        let scripts = self.backend.upstream()?.scripts.get_or_init(|| {
            let profile = self.instance.profile;
            Mutex::new(ScriptKnowledge::new(&profile, self.table.clone()))
        });
        Some(scripts.lock_ignoring_poison())
    }

    /// Notes what a script has called. Returns whether that is known.
    fn note_run(
        &self,
        session: &mut Session,
        scripts: &mut ScriptKnowledge,
        words: Words<'_>,
        reply: &[u8],
        calls: Option<&[OwnedWords]>,
    ) -> bool {
        let call = ScriptCall { words, db: session.db, reply, protocol: session.protocol, calls };
        if scripts.run_of(&call).record(session.in_flight.trace.children()) {
            return true;
        }
        let Some(calls) = calls else { return false };
        // Without its text, nobody can tell the replies.
        session.in_flight.trace.children().depth += 1;
        for call in calls.iter().map(OwnedWords::as_words) {
            let spec = self.table.row_of(call).map(|row| row.spec);
            self.write_child(session, spec, call, &[], None);
        }
        session.in_flight.trace.children().depth -= 1;
        true
    }

    /// The requests of the scripts that a command runs: its own, or those that EXEC finds in the queue.
    pub fn scripts_of<'c>(&self, session: &'c Session, command: &'c PassedCommand) -> Vec<Words<'c>> {
        match command.follows {
            Follows::Exec => queued_scripts(session).collect(),
            _ => vec![command.words.as_words()],
        }
    }

    /// Whether EXEC would run a script.
    pub fn has_queued_script(&self, session: &Session) -> bool {
        queued_scripts(session).next().is_some()
    }

    /// Notes the queue of a transaction with the replies in that of EXEC.
    fn note_executed(&self, session: &mut Session, command: &PassedCommand, reply: &[u8]) {
        let Some(transaction) = session.transaction.take() else { return };
        let elements = array_elements(reply);
        session.in_flight.trace.knows_children = elements.is_some() || is_error(reply) || is_null(reply);
        session.in_flight.trace.children();
        let (db, databases) = (session.db, self.instance.keyspace.databases());
        let mut calls = command.calls.iter();
        for (queued, reply) in transaction.queue.iter().zip(elements.unwrap_or_default()) {
            let (spec, words) = (queued.row.spec, queued.words);
            if runs_script(spec)
                && let Some(mut scripts) = self.script_knowledge()
            {
                let calls = calls.next().and_then(Option::as_deref);
                session.in_flight.trace.children().depth = 1;
                let is_known = self.note_run(session, &mut scripts, words, reply, calls);
                session.in_flight.trace.children().depth = 0;
                session.in_flight.trace.knows_children &= is_known;
            }
            self.write_child(session, Some(spec), words, reply, None);
            session.db = transaction::selected_by(spec, words, databases).unwrap_or(session.db);
        }
        session.db = db;
        session.transaction = Some(transaction);
    }
}

/// What the order of the journal's records says about a command that the server has run.
pub(in crate::engine) fn effect_order(is_ordered: bool) -> EffectOrder {
    if is_ordered { EffectOrder::Exact } else { EffectOrder::Interval }
}

fn queued_scripts(session: &Session) -> impl Iterator<Item = Words<'_>> {
    session.queued().filter(|queued| runs_script(queued.row.spec)).map(|queued| queued.words)
}

/// Whether a command runs a script or a function.
pub fn runs_script(spec: &CommandSpec) -> bool {
    matches!(spec.kind, CommandKind::Script(_))
}

/// Whether an EXEC with this reply has run nothing, because a watched key was changed.
fn is_null(reply: &[u8]) -> bool {
    matches!(reply, b"*-1\r\n" | b"_\r\n" | b"$-1\r\n")
}
