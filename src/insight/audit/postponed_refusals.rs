//! Refusals at locks at rest: they are noted in short, and the rules see them when something else happens to the lock.
//!
//! Most attempts to take a lock are refused, and for as long as nothing else happens, nothing follows but who waits for how long. With
//! many locks it is the memory that costs time: a lock at rest has a tenth of it, and so has a refusal that is postponed.
//!
//! What a rule could report at once is not postponed, nor what concerns more than the lock, but for the few things that are done here
//! at once: the client has met the lock, may wait for it while it holds another one, and its token may be that of an attempt at
//! several servers.

use std::sync::Arc;

use smallvec::SmallVec;

use super::apply_effect::shown_by_refusal;
use super::audit_state::AuditState;
use super::auditor::Auditor;
use super::client_identity::{ClientIdentity, SameProgram};
use super::command_effects::{Executed, effects_of};
use super::effect::{Effect, KeyEffect, Precondition};
use super::journal_line::{JournalLine, plausible};
use super::lock_reason::{LockReason, LockReasons};
use super::resting_lock::{Refusal, RestingLock};
use super::rules::{is_of_attempt, is_quiet, work_while_holding};
use crate::base::process::Process;
use crate::powers::{EffectOrder, Outcome, RawRecord, RecordHeader};
use crate::spec::{CommandKind, LockEffect};

/// How many refusals of a lock are postponed at most, and how many of one client: less than any rule counts that tells of clients
/// that try often, at equal distances, or together.
const MAX_POSTPONED: usize = 64;
const MAX_OF_CLIENT: usize = 3;

/// How many lines after it was taken a lock is put to rest, if it is refused then for the first time, and there are many.
const LONG_AGO: u64 = 1024;

/// What follows from a refusal.
struct Consequence {
    /// The reasons of the lock with those that it shows.
    reasons: LockReasons,
    /// Whether the client has met the lock before.
    has_met: bool,
    /// Whether the client was refused before while it held another lock, and does not wait yet.
    was_holding: bool,
}

impl Auditor {
    /// Notes a command in short if all that it did is to be refused by a lock at rest. Returns whether it did.
    #[inline]
    pub fn postpone_refusal(&mut self, server: u16, record: &RawRecord<'_>, header: &RecordHeader<'_>) -> bool {
        let is_plain = !header.is_event && !header.is_cut && !header.has_more;
        let is_refused = matches!(header.reply, b":0\r\n" | b"$-1\r\n" | b"_\r\n" | b"*-1\r\n");
        if !is_plain || !is_refused || header.order != EffectOrder::Total || header.outcome != Outcome::Answered {
            return false;
        }
        let Some(row) = self.commands().find(header.first) else { return false };
        if row.kind != CommandKind::Keys
            || !matches!(row.lock_effect, LockEffect::SetByOptions | LockEffect::SetIfAbsent)
            || self.has_waiting_lines()
            || !self.state.is_plain()
        {
            return false;
        }
        let (at, real) = (plausible(header.at), plausible(header.real));
        let Some(labels) = record.labels_without_node(header) else { return false };
        let Some(by) = self.state.known_client((server, header.client), labels, real) else { return false };
        let words: SmallVec<[&[u8]; 8]> = header.all_words().collect();
        let executed = Executed { db: header.db, words: &words, reply: header.reply };
        let effects = effects_of(row.lock_effect, executed);
        let [KeyEffect { effect: Effect::Take { value, took: false, .. }, precondition: Precondition::None, .. }] =
            effects.as_slice()
        else {
            return false;
        };
        let Some(lock) = self.state.resting((server, header.db, header.second), header.seq) else { return false };
        let Some(consequence) = consequence(lock, &by, value, (at, real)) else { return false };
        if self.state.has_due(server, at)
            || self.state.clients.get(&(server, by.id)).is_some_and(|client| client.found_taken().is_some())
            || self.presumed.concerns(server, header, row)
            || self.claims.concerns(server, header, row)
            || self.declared.awaits(server, header.client)
            || self.declared.knows(server, header.db, header.second)
        {
            return false;
        }
        let Some(line) = self.state.locks.pattern_of(&words) else { return false };
        if !self.data.note_header(server, header, row) {
            return false;
        }
        self.lines += 1;
        self.state.advance_time(server, header.seq, (at, real), real);
        let (client, labels, value) = (by.id, Arc::clone(&by.labels), (*value).into());
        let refusal = Refusal { client, labels, seq: header.seq, at, real, line, value, work: None };
        self.state.postpone((header.db, header.second), &by, refusal, &consequence);
        true
    }
}

/// What follows from a refusal; `None` if a rule may have something to tell.
fn consequence(lock: &RestingLock, by: &ClientIdentity, value: &[u8], (at, real): (i64, i64)) -> Option<Consequence> {
    let refusals = lock.refusals();
    let before = || refusals.iter().filter(|refusal| refusal.client == by.id);
    if lock.is_held_by(by) || refusals.len() >= MAX_POSTPONED || before().count() >= MAX_OF_CLIENT {
        return None;
    }
    let is_alike = value == lock.token();
    if lock.holder().same_program(by) == SameProgram::Yes || is_alike && !is_quiet(value, at, real) {
        return None;
    }
    let mut reasons = lock.reasons();
    if reasons.has(LockReason::Timestamp) {
        return None;
    }
    match shown_by_refusal(reasons, Some(lock.token()), Some(value)) {
        Some(reason) => reasons.add(reason),
        None => reasons.note_data(),
    }
    let was_holding = before().filter(|refusal| refusal.work.is_some()).count() == 1;
    Some(Consequence { reasons, has_met: before().next().is_some(), was_holding })
}

impl AuditState {
    /// Whether there is one server alone, of which nothing is missing, and nothing that a refusal could be about beside a lock.
    fn is_plain(&self) -> bool {
        !self.has_several_servers()
            && self.carried.is_empty()
            && self.timeline.is_none()
            && self.global.replacements().is_empty()
            && self.collector.are_whole()
    }

    /// The lock of a key, if it is at rest.
    fn resting(&mut self, (server, db, key): (u16, u32, &[u8]), seq: u64) -> Option<&RestingLock> {
        // Tests have too few locks for them to come to rest by themselves: in a debug build it is half of the lines that find them so.
        let is_trial = cfg!(debug_assertions) && seq.is_multiple_of(2);
        if is_trial || self.locks.are_many() {
            self.locks.put_to_rest((server, db, key), if is_trial { seq } else { seq.saturating_sub(LONG_AGO) });
        }
        self.locks.resting(server, db, key)
    }

    /// A client at a command, if it is known by the name and the process that it has there.
    fn known_client(
        &self,
        client: (u16, u64),
        labels: (&[u8], Option<&Arc<Process>>),
        seen: i64,
    ) -> Option<ClientIdentity> {
        let known = &self.clients.get(&client)?.client;
        (known.has_labels(labels) && self.is_met(known)).then(|| ClientIdentity { seen, ..known.clone() })
    }

    /// Notes in short what a line did to a key, if that is to be refused by a lock at rest. Returns whether it did.
    pub fn postpone_effect(&mut self, line: &JournalLine<'_>, effect: &KeyEffect<'_>) -> bool {
        let (Effect::Take { value, took: false, .. }, Precondition::None) = (&effect.effect, effect.precondition)
        else {
            return false;
        };
        let is_plain = line.order == EffectOrder::Total
            && line.outcome == Outcome::Answered
            && (line.replied_at, line.earliest, line.place) == (None, line.real, line.seq)
            && !(line.is_loose || line.is_stale || line.is_cut || line.lacks_reply())
            && line.node().is_none();
        // What a script or a transaction has run is shown otherwise.
        let is_shown = line.words.get(1) == Some(&effect.key) && line.words.get(2) == Some(value);
        if !is_plain || !is_shown || !self.is_plain() {
            return false;
        }
        let (at, real) = (line.at, line.real);
        let Some(by) = self.known_client((line.server, line.client), line.client_labels(), real) else { return false };
        let Some(lock) = self.resting((line.server, effect.db, effect.key), line.seq) else { return false };
        let Some(consequence) = consequence(lock, &by, value, (at, real)) else { return false };
        let Some(pattern) = self.locks.pattern_of(&line.words) else { return false };
        let (client, labels, value) = (by.id, Arc::clone(&by.labels), (*value).into());
        let refusal = Refusal { client, labels, seq: line.seq, at, real, line: pattern, value, work: None };
        self.postpone((effect.db, effect.key), &by, refusal, &consequence);
        true
    }

    /// Notes a refusal at a lock at rest.
    fn postpone(
        &mut self,
        (db, key): (u32, &[u8]),
        by: &ClientIdentity,
        mut refusal: Refusal,
        consequence: &Consequence,
    ) {
        let Some(lock) = self.locks.resting(by.server, db, key) else { return };
        let id = Arc::clone(lock.id());
        let client = self.clients.meet(by);
        client.client.seen = by.seen;
        if !consequence.has_met {
            client.note_met(&id);
        }
        let (all_work, work) = (client.work, work_while_holding(client, &id));
        if is_of_attempt(&refusal.value) {
            self.global.note_asked_in_vain(&id, &refusal.value, (by, refusal.source(&id), all_work));
        }
        let mut waits = false;
        if let Some(work) = work {
            waits = self.global.wait_longer(by, &id, || refusal.source(&id), work);
            refusal.work = (!waits).then_some(work);
            if !waits && consequence.was_holding {
                let is_first = |known: &&Refusal| known.client == by.id && known.work.is_some();
                let first = lock.refusals().iter().find(is_first);
                let first = first.and_then(|first| Some((first.source(&id), first.work?)));
                if let Some(first) = first {
                    let attempts = [first, (refusal.source(&id), work)];
                    self.global.note_wait(by, &id, (lock.holder(), lock.acquired()), attempts);
                    waits = true;
                }
            }
        }
        if !lock.reasons().are_enough() && consequence.reasons.are_enough() {
            self.collector.locks += 1;
        }
        let source = waits.then(|| refusal.source(&id));
        let source = source.filter(|source| self.global.has_circle(&self.clients, by, &id, source));
        self.locks.postpone(&id, refusal, consequence.reasons).into_iter().for_each(|told| self.collector.add(told));
        self.prune_met(by);
        if let Some(source) = source {
            self.with_lock(&id, Some(by), source, |tracker| tracker.global.tell_circle(&mut tracker.context));
        }
    }
}
