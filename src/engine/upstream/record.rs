//! The journal's record of a command that was passed to a server.

use super::{Follows, PassedCommand, is_error};
use crate::clients::session::Session;
use crate::engine::{Engine, transaction};
use crate::powers::{EffectOrder, Hook, Line, Outcome};
use crate::protocol::array_elements;
use crate::spec::{REDACTED_REPLY, Redaction};

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
        if !self.instance.active_hooks.has(Hook::Journal) || command.follows != Follows::Exec {
            return;
        }
        let Some(transaction) = session.transaction.take() else { return };
        let elements = array_elements(reply);
        session.in_flight.trace.knows_children = elements.is_some() || is_error(reply) || is_null(reply);
        session.in_flight.trace.children();
        let (db, databases) = (session.db, self.instance.keyspace.databases());
        for (queued, reply) in transaction.queue.iter().zip(elements.unwrap_or_default()) {
            let (spec, words) = (queued.row.spec, queued.words.as_words());
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

/// Whether an EXEC with this reply has run nothing, because a watched key was changed.
fn is_null(reply: &[u8]) -> bool {
    matches!(reply, b"*-1\r\n" | b"_\r\n" | b"$-1\r\n")
}
