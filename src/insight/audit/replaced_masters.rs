//! Masters of this process that a replica has replaced, and what WAIT has told of replicas.

use std::sync::Arc;

use smallvec::SmallVec;

use super::audit_state::AuditState;
use super::effect::LockShape;
use super::journal_line::JournalLine;
use super::lock::{Hold, HoldEnd, HoldStatus, Lock, LockId, ShortWait};
use super::lock_event::LockEvent;
use super::reply_value::ReplyValue;
use super::rules::{LostHold, Replacement};
use super::timeline::LockAccessKind;
use crate::powers::EventKind;
use crate::protocol::parse_integer;
use crate::spec::LockEffect;

/// A node is master now.
pub fn note_promotion(state: &mut AuditState, line: &JournalLine<'_>) {
    state.global.note_promotion(line.server, &line.node().unwrap_or_default());
}

/// Another node is master in the place of a server, which is told so, or goes on because it is cut off.
pub fn note_replacement(state: &mut AuditState, line: &JournalLine<'_>) {
    let is_unaware = line.detail() == EventKind::UNAWARE;
    let source = AuditState::source_of(line, &state.client_of(line));
    let successor = Arc::from(line.node().unwrap_or_default());
    if !is_unaware {
        // What was lost was told before. The others are there: whoever has them goes on with them there.
        state.locks.forget_held(line.server);
    }
    state.global.note_replacement(Replacement { server: line.server, successor, source, is_unaware });
}

/// The hold that the server agrees with, or did before it followed another one. A key outlives the connection that set it, as redis-cli's.
fn current(lock: &Lock) -> Option<&Hold> {
    let left = lock.past_holds.back().filter(|past| past.end == HoldEnd::Closed).map(|past| &past.hold);
    lock.holds.iter().rev().chain(left).find(|hold| matches!(hold.status, HoldStatus::Held | HoldStatus::FailedOver(_)))
}

/// The node that is master now has not got the last change of a key: if that gave a lock, another client can have it there.
pub fn lose(state: &mut AuditState, line: &JournalLine<'_>) {
    let key = line.words.first().copied().unwrap_or_default();
    let Some(lock) = state.locks.find(line.server, line.db, key) else { return };
    let Some(hold) = current(lock) else { return };
    let (id, is_held) = (Arc::clone(&lock.id), hold.status == HoldStatus::Held);
    // What a master has given that was replaced before is not lost in the failover, but when it is healed.
    let replaced = state.global.replacements().iter().find(|replaced| replaced.server == line.server);
    let is_unaware = replaced.is_some_and(|replaced| replaced.is_unaware);
    let is_told_later = is_unaware && replaced.is_some_and(|replaced| replaced.is_followed_by(hold));
    if is_told_later || !is_held {
        return note_gone(state, line, &id);
    }
    let had_by = line.words.iter().skip(1).map(|name| Arc::from(String::from_utf8_lossy(name))).collect();
    let lost = LostHold {
        db: line.db,
        key: lock.id.key.clone(),
        hold: hold.clone(),
        reasons: lock.reasons,
        successor: Arc::from(line.node().unwrap_or_default()),
        had_by,
        source: AuditState::source_of(line, &state.client_of(line)),
    };
    let source = Arc::clone(&lost.source);
    let server = state.global.note_loss(lost);
    if !is_unaware {
        note_gone(state, line, &id);
    }
    let Some(server) = server else { return };
    if let Some(given) = state.locks.find(server, line.db, key) {
        let id = Arc::clone(&given.id);
        state.with_lock(&id, None, source, |tracker| tracker.emit(&LockEvent::GivenElsewhere));
    }
}

/// A server that was a master follows another one, and has forgotten a lock.
fn note_gone(state: &mut AuditState, line: &JournalLine<'_>, id: &Arc<LockId>) {
    let source = AuditState::source_of(line, &state.client_of(line));
    state.with_lock(id, None, Arc::clone(&source), |tracker| {
        tracker.set_value(None);
        tracker.set_deadline(None);
        for hold in tracker.lock().holds.iter_mut().filter(|hold| hold.status == HoldStatus::Held) {
            hold.status = HoldStatus::FailedOver(Arc::clone(&source));
        }
    });
    if let (Some(timeline), Some(lock)) = (&mut state.timeline, state.locks.get(id)) {
        timeline.note_access(lock, line.seq, LockAccessKind::Lost);
    }
}

/// A key that is a lock on the master in a server's place is one there, too.
fn note_reasons(state: &mut AuditState, line: &JournalLine<'_>, db: u32, key: &[u8]) {
    let servers: SmallVec<[(u16, u16); 1]> = (state.global.replacements().iter())
        .filter_map(|replaced| Some((replaced.server, state.global.server_of(&replaced.successor)?)))
        .filter(|(old, new)| line.server == *old || line.server == *new)
        .collect();
    for (old, new) in servers {
        let known = state.locks.find(new, db, key).filter(|lock| lock.is_known()).map(|lock| lock.reasons);
        let other = state.locks.find(old, db, key).filter(|lock| !lock.is_known()).map(|lock| Arc::clone(&lock.id));
        if let (Some(reasons), Some(id)) = (known, other) {
            let source = AuditState::source_of(line, &state.client_of(line));
            state.with_lock(&id, None, source, |tracker| tracker.context.note_reasons(reasons));
        }
    }
}

/// Looks whether a server that was replaced while it was cut off has given a lock since, or extended it, that the server in its
/// place has given, too.
pub fn look_for_two_masters(state: &mut AuditState, line: &JournalLine<'_>, db: u32, key: &[u8]) {
    let is_meant = |replaced: &&Replacement| replaced.is_unaware;
    let replaced: SmallVec<[Replacement; 1]> = state.global.replacements().iter().filter(is_meant).cloned().collect();
    for Replacement { server, successor, source, .. } in replaced {
        let Some(new_server) = state.global.server_of(&successor) else { continue };
        if line.server != server && line.server != new_server {
            continue;
        }
        let (old, new) = (state.locks.find(server, db, key), state.locks.find(new_server, db, key));
        let (Some(old), Some(new)) = (old, new) else { continue };
        if old.shape == LockShape::Semaphore || new.shape == LockShape::Semaphore {
            continue;
        }
        let (Some(one), Some(two)) = (current(old), current(new)) else { continue };
        let is_since = one.last_given().seq > source.seq;
        if !is_since || one.is_over(line.at, line.real) || two.is_over(line.at, line.real) {
            continue;
        }
        let (one, two, reasons, id) = (one.clone(), two.clone(), old.reasons, Arc::clone(&new.id));
        let now = AuditState::source_of(line, &state.client_of(line));
        let event = LockEvent::GivenByTwo { old: &one, new: &two, reasons, replaced: &source, successor: &successor };
        state.with_lock(&id, None, now, |tracker| tracker.emit(&event));
    }
    note_reasons(state, line, db, key);
}

/// A server that was replaced refuses to delete a key, because it is a replica now: whoever gave its lock back there counts on
/// it no more.
pub fn note_refused_release(state: &mut AuditState, line: &JournalLine<'_>, effect: LockEffect) {
    let deletes = matches!(
        effect,
        LockEffect::Delete | LockEffect::DeleteIfEqual | LockEffect::DeleteByOptions | LockEffect::GetAndDelete
    );
    let is_replaced = || state.global.replacements().iter().any(|replaced| replaced.server == line.server);
    if !deletes || !is_replaced() {
        return;
    }
    let client = state.client_of(line);
    for key in line.words.iter().skip(1) {
        let Some(lock) = state.locks.find(line.server, line.db, key) else { continue };
        let is_own = |hold: &&Hold| {
            hold.client.is_same_connection(&client) || line.words.iter().skip(2).any(|word| **word == *hold.token)
        };
        let Some(hold) = lock.holds.iter().find(is_own) else { continue };
        let (id, token, holder) = (Arc::clone(&lock.id), hold.token.clone(), hold.client.clone());
        state.global.note_given_up(&id.key, &token);
        let source = AuditState::source_of(line, &client);
        state.with_lock(&id, Some(&client), source, |tracker| {
            let holds = &tracker.lock().holds;
            if let Some(hold) = holds.iter().position(|hold| hold.client.is_same_connection(&holder)) {
                tracker.end_hold(hold, HoldEnd::Unknown, true);
                tracker.note_release(&holder);
            }
        });
    }
}

/// A client is told how many replicas have what it has written.
pub fn note_wait(state: &mut AuditState, line: &JournalLine<'_>) {
    let asked = line.words.get(1).and_then(|asked| parse_integer(asked));
    let (Some(asked), Some(had)) = (asked, ReplyValue::of(line.reply).number()) else { return };
    let client = state.client_of(line);
    let source = AuditState::source_of(line, &client);
    let Some(own) = state.state_of(line) else { return };
    let (ids, written) = (own.holds.clone(), own.wrote_beside);
    let mut is_short = false;
    for id in ids {
        let Some(tracked) = state.locks.get_mut(&id) else { continue };
        let is_own = |hold: &&mut Hold| hold.status == HoldStatus::Held && hold.client.is_same_connection(&client);
        for hold in tracked.lock.holds.iter_mut().filter(is_own) {
            let given = hold.last_given().place;
            if had > 0 {
                hold.acknowledged = Some(Arc::clone(&source));
            }
            let before = hold.short_wait.take();
            let is_enough = asked > 0 && had >= asked || before.as_ref().is_some_and(|before| had >= before.asked);
            hold.short_wait = match before {
                _ if is_enough => None,
                // It is about what the client has written since, or only a question.
                before if written > given || asked == 0 => before,
                before => {
                    let is_told = before.is_some_and(|before| before.is_told);
                    Some(Box::new(ShortWait { source: Arc::clone(&source), asked, had, is_told }))
                }
            };
            is_short |= hold.short_wait.is_some();
        }
    }
    if let Some(own) = state.state_of(line) {
        own.has_short_wait = is_short;
    }
}

/// A client works while it holds locks, of which WAIT had told it that too few replicas have them.
pub fn note_work_in_spite(state: &mut AuditState, line: &JournalLine<'_>, worker: (u16, u64), key: &[u8]) {
    let ids: SmallVec<[Arc<LockId>; 2]> =
        state.clients.get(&worker).into_iter().flat_map(|client| client.holds.iter().cloned()).collect();
    for id in ids {
        let client = state.client_of(line);
        let source = AuditState::source_of(line, &client);
        let event = LockEvent::WorkedUnder { by: worker, key };
        state.with_lock(&id, Some(&client), source, |tracker| tracker.emit(&event));
    }
}
