//! Notes the keys that clients access while they hold locks, and finds the writes to them after a lock is lost.

use std::sync::Arc;

use smallvec::SmallVec;

use super::audit_state::AuditState;
use super::client_identity::{ClientIdentity, SameProgram};
use super::client_state::{ClientState, KeyAccess};
use super::finding::JournalRef;
use super::guarded_work::{hash_of, hash_on};
use super::guesses::family_of;
use super::journal_line::{JournalLine, NestedCommand};
use super::lock::{HoldStatus, Lock, LockId};
use super::lock_reason::LockReasons;
use super::missing_replies::{accessed_keys, keys_of};
use super::replaced_masters::note_work_in_spite;
use super::reply_value::ReplyValue;
use super::resting_lock::Guarded;
use crate::powers::EffectOrder;
use crate::spec::{CommandKind, Table, TransactionCommand};

/// Looks at a command of a client that holds a lock, or has lost one.
#[inline]
pub fn note_work(state: &mut AuditState, line: &JournalLine<'_>, kind: CommandKind, commands: &Table) {
    if state.clients.is_empty() {
        return;
    }
    if let Some(id) = state.clients.get(&(line.server, line.client)).and_then(|client| client.found_taken().cloned()) {
        note_beside(state, line, &id, commands);
    }
    let client = state.clients.get(&(line.server, line.client));
    if client.is_some_and(|client| client.is_at_work() || !client.companions().is_empty())
        && uses_data(state, line, kind, commands)
        && let Some(worker) = worker_of(state, line)
    {
        note_accesses(state, line, worker, kind, commands);
    }
    if state.has_several_servers() {
        note_parts(state, line, kind, commands);
    }
}

/// What a client does to a key that is no lock.
#[derive(Clone, Copy)]
pub struct KeyUse<'a> {
    pub server: u16,
    pub db: u32,
    pub key: &'a [u8],
    pub writes: bool,
}

impl KeyUse<'_> {
    fn hash(self) -> u64 {
        hash_on(self.server, self.db, self.key)
    }
}

/// Whether nothing is to be told of what a client does to a key at this time on the server's clock and in reality, and it is its own locks
/// that guard its work: it has all of them for certain, or it neither writes what it used under one nor what other holders of one do.
pub fn is_silent(state: &AuditState, client: &ClientIdentity, used: KeyUse<'_>, now: (i64, i64)) -> bool {
    let Some(own) = state.clients.get(&(client.server, client.id)) else { return false };
    let ids = || own.holds.iter().chain(&own.lost);
    if own.has_short_wait || ids().all(|id| is_guess(state, id)) {
        return false;
    }
    let is_certain = |id: &Arc<LockId>| {
        let place = state.locks.place(id.server, id.db, &id.key);
        place.is_some_and(|place| state.locks.is_certain(place, client, now))
    };
    let is_used = |hash: u64| own.access_to(hash).is_some() || ids().any(|id| state.locks.is_used_for(id, hash));
    !used.writes || own.lost.is_empty() && own.holds.iter().all(is_certain) || !is_used(used.hash())
}

/// Notes what a client does of which nothing is to be told. `source` is the command that does so.
pub fn note_silent(
    state: &mut AuditState,
    client: &ClientIdentity,
    used: KeyUse<'_>,
    (place, at): (u64, i64),
    source: impl Fn(&AuditState) -> Arc<JournalRef>,
) {
    let own = (client.server, client.id);
    if used.writes {
        note_guarded(state, client, (used.db, used.key, place), source);
    }
    let Some(known) = state.clients.get_mut(&own) else { return };
    if used.writes {
        known.wrote_beside = place;
    }
    (known.work, known.worked_at) = (known.work + 1, at);
    if known.holds.is_empty() {
        return;
    }
    let hash = used.hash();
    let is_first = known.access_to(hash).is_none();
    known.note_access(hash, place, at);
    if is_first {
        note_used(state, own, hash);
    }
}

/// Whether a line may be about more than locks.
fn uses_data(state: &AuditState, line: &JournalLine<'_>, kind: CommandKind, commands: &Table) -> bool {
    let is_about_data = |db: u32, words: &[&[u8]]| {
        let (keys, _) = accessed_keys(commands, words);
        keys.into_iter().any(|key| !state.may_be_lock(line.server, db, key))
    };
    match kind {
        // What it was to write is not known if it was refused.
        CommandKind::Transaction(TransactionCommand::Exec) => true,
        CommandKind::Script(_) => {
            let is_inside =
                |nested: &[NestedCommand<'_>]| nested.iter().any(|command| is_about_data(command.db, &command.words));
            line.with_nested(is_inside) || is_given_data(state, line, commands)
        }
        CommandKind::Transaction(_)
        | CommandKind::Keys
        | CommandKind::Blocking
        | CommandKind::Database
        | CommandKind::Everything
        | CommandKind::Connection
        | CommandKind::Debug
        | CommandKind::Library
        | CommandKind::Container => is_about_data(line.db, &line.words),
    }
}

/// The connection whose locks guard what a line does: its own, or the only one of its program that has any. If there are
/// several, each may do the work of another one.
fn worker_of(state: &AuditState, line: &JournalLine<'_>) -> Option<(u16, u64)> {
    let own = (line.server, line.client);
    let client = state.clients.get(&own)?;
    // What is only guessed to be a lock guards no work.
    let is_lock = |id: &Arc<LockId>| !is_guess(state, id);
    let is_at_work = |client: &ClientState| client.is_at_work() && client.holds.iter().chain(&client.lost).any(is_lock);
    if is_at_work(client) {
        return Some(own);
    }
    let is_companion_at_work = |other: &&(u16, u64)| state.clients.get(other).is_some_and(is_at_work);
    let mut at_work = client.companions().iter().filter(is_companion_at_work);
    let only = at_work.next().filter(|_| at_work.next().is_none()).copied();
    only.or(client.is_at_work().then_some(own))
}

fn is_guess(state: &AuditState, id: &LockId) -> bool {
    state.locks.reasons(id.server, id.db, &id.key).is_some_and(LockReasons::are_a_guess)
}

/// A client that has seen that another program has a key writes other keys all the same: the key does not guard those.
fn note_beside(state: &mut AuditState, line: &JournalLine<'_>, id: &LockId, commands: &Table) {
    if !state.locks.may_guard(id) {
        return;
    }
    let Some(holder) = state.locks.get(id).and_then(Lock::holder) else { return };
    if holder.client.same_program(&state.client_of(line)) != SameProgram::No {
        return;
    }
    let (keys, writes) = accessed_keys(commands, &line.words);
    let written: SmallVec<[u64; 2]> = match writes {
        true => keys.into_iter().filter(|key| **key != *id.key).map(|key| hash_of(line.db, key)).collect(),
        false => return,
    };
    let Some(guarded) = state.locks.get_mut(id).and_then(|tracked| tracked.lock.guarded.as_mut()) else { return };
    let new: SmallVec<[u64; 2]> = written.into_iter().filter(|key| guarded.write_beside(*key)).collect();
    for key in new {
        state.shelved.note_beside(family_of(id.db, &id.key), key);
    }
}

/// When a client did something, in the order and by the clock of the server that has its locks.
struct WorkTime {
    place: u64,
    at: i64,
    earliest_at: i64,
}

impl WorkTime {
    /// What happened on another server has the place of the last command here. Its clock may go differently: of the two times that
    /// this can be, the earlier one counts. `None` if nobody knows what was before it.
    fn of(state: &AuditState, line: &JournalLine<'_>, server: u16) -> Option<Self> {
        if line.server == server {
            return Some(Self { place: line.place, at: line.at, earliest_at: line.earliest_at() });
        }
        let last = state.last_line(server);
        let passed = line.real.saturating_sub(last.real).max(0);
        let at = line.at.min(last.at.saturating_add(passed));
        let is_ordered = line.order == EffectOrder::Total;
        is_ordered.then(|| Self { place: last.place, at, earliest_at: at - (line.real - line.earliest) })
    }
}

fn note_accesses(
    state: &mut AuditState,
    line: &JournalLine<'_>,
    worker: (u16, u64),
    kind: CommandKind,
    commands: &Table,
) {
    let Some(time) = WorkTime::of(state, line, worker.0) else { return };
    // What a script writes after it has looked at something, it writes on that condition.
    let is_script = matches!(kind, CommandKind::Script(_));
    let is_exec = kind == CommandKind::Transaction(TransactionCommand::Exec);
    let (mut has_looked, mut has_seen_lock, mut has_written) = (false, false, false);
    let mut note = |db: u32, words: &[&[u8]]| {
        let (keys, writes) = accessed_keys(commands, words);
        for key in keys {
            has_looked |= is_script && !writes;
            if state.may_be_lock(line.server, db, key) {
                has_seen_lock |= !writes;
                continue;
            }
            has_written |= writes;
            let is_guarded = writes && (has_looked || is_exec && is_watched(state, line, db, key));
            if state.clients.get(&worker).is_some_and(|client| client.has_short_wait) {
                note_work_in_spite(state, line, worker, key);
            }
            if writes && let Some(own) = state.clients.get_mut(&(line.server, line.client)) {
                own.wrote_beside = line.place;
            }
            let Some(client) = state.clients.get_mut(&worker) else { return };
            (client.work, client.worked_at) = (client.work + 1, time.earliest_at);
            let used = hash_on(line.server, db, key);
            let access = client.access_to(used);
            match &access {
                _ if is_guarded => note_conditional(state, line, worker),
                Some(access) if writes => note_write(state, line, (worker, &time), (key, access)),
                None if writes => note_first_write(state, line, (worker, &time), (used, key)),
                _ => {}
            }
            if writes {
                let client = state.client_of(line);
                note_guarded(state, &client, (db, key, line.place), |_| AuditState::source_of(line, &client));
            }
            let Some(client) = state.clients.get_mut(&worker).filter(|client| !client.holds.is_empty()) else {
                continue;
            };
            client.note_access(used, time.place, time.at);
            if access.is_none() {
                note_used(state, worker, used);
            }
        }
    };
    match runs_others(kind) {
        true => line.with_nested(|nested| nested.iter().for_each(|command| note(command.db, &command.words))),
        false => note(line.db, &line.words),
    }
    // It was to write if nobody else had, or if the lock was still the client's.
    let is_script_refused = || is_script && has_seen_lock && !has_written && is_given_data(state, line, commands);
    let is_refused = is_exec && matches!(ReplyValue::of(line.reply), ReplyValue::Null) || is_script_refused();
    if is_refused {
        note_conditional(state, line, worker);
    }
}

/// A client uses the key with this hash while it holds locks.
fn note_used(state: &mut AuditState, worker: (u16, u64), key: u64) {
    let Some(client) = state.clients.get(&worker) else { return };
    for id in &client.holds {
        if let Some(place) = state.locks.place(id.server, id.db, &id.key) {
            state.locks.note_used(place, key);
        }
    }
}

/// Whether a script is given other keys than locks.
fn is_given_data(state: &AuditState, line: &JournalLine<'_>, commands: &Table) -> bool {
    keys_of(commands, &line.words).into_iter().any(|key| !state.may_be_lock(line.server, line.db, key))
}

/// A client writes a key while it holds others, of which it may show that they are locks. `source` is the command that does so.
fn note_guarded(
    state: &mut AuditState,
    client: &ClientIdentity,
    (db, key, place): (u32, &[u8], u64),
    source: impl Fn(&AuditState) -> Arc<JournalRef>,
) {
    let Some(own) = state.clients.get(&(client.server, client.id)) else { return };
    let ids: SmallVec<[Arc<LockId>; 2]> = own.holds.iter().chain(&own.lost).cloned().collect();
    for id in ids {
        let is_itself = id.db == db && *id.key == *key;
        let Some(at) = state.locks.place(id.server, id.db, &id.key).filter(|_| !is_itself) else { continue };
        let shelved = &state.shelved;
        let is_guard = state.locks.with_guarded(at, client, |Guarded { noted, token, from }| {
            let is_new = noted.is_none();
            let guarded = noted.get_or_insert_default();
            if is_new && shelved.is_anything_beside() {
                shelved.beside(family_of(id.db, &id.key)).for_each(|key| {
                    guarded.write_beside(key);
                });
            }
            guarded.stay(client, (0, hash_of(0, token)), from);
            guarded.write(client, hash_of(db, key), place);
            guarded.is_guard()
        });
        if is_guard == Some(true) {
            let source = source(state);
            state.with_lock(&id, Some(client), source, |tracker| tracker.note_guard());
        }
    }
}

/// A program may write keys while servers have given it the parts of one lock.
fn note_parts(state: &mut AuditState, line: &JournalLine<'_>, kind: CommandKind, commands: &Table) {
    let own = (line.server, line.client);
    let Some(client) = state.clients.get(&own) else { return };
    let mut connections: SmallVec<[(u16, u64); 8]> = client.companions().into();
    connections.push(own);
    let Some((lock, attempt)) = state.only_attempt_of(&connections) else { return };
    let client = state.client_of(line);
    let mut note = |db: u32, words: &[&[u8]]| {
        let (keys, writes) = accessed_keys(commands, words);
        for key in keys.into_iter().filter(|_| writes) {
            if !state.may_be_lock(line.server, db, key) {
                let written = (hash_on(line.server, db, key), key);
                let source = AuditState::source_of(line, &client);
                state.note_attempt_write((&lock, attempt), written, &client, source);
            }
        }
    };
    match runs_others(kind) {
        true => line.with_nested(|nested| nested.iter().for_each(|command| note(command.db, &command.words))),
        false => note(line.db, &line.words),
    }
}

/// Whether EXEC has written a key on the condition that nobody else did, or that the client still had its lock.
fn is_watched(state: &mut AuditState, line: &JournalLine<'_>, db: u32, key: &[u8]) -> bool {
    let Some(client) = state.state_of(line) else { return false };
    let watched = client.was_watched.clone();
    watched
        .iter()
        .any(|(in_db, other, _)| *in_db == db && (**other == *key || state.may_be_lock(line.server, db, other)))
}

/// Whether a command runs others: EXEC, or a script.
fn runs_others(kind: CommandKind) -> bool {
    matches!(kind, CommandKind::Script(_) | CommandKind::Transaction(TransactionCommand::Exec))
}

/// The locks that a client has or has lost, with what is over by now ended, unless the server agrees with one of them, or
/// another lock may guard the work.
fn lost_locks(
    state: &mut AuditState,
    line: &JournalLine<'_>,
    (worker, time): ((u16, u64), &WorkTime),
) -> Option<(ClientIdentity, Vec<Arc<LockId>>)> {
    let client = state.clients.get_mut(&worker)?;
    let (known, mut ids) = (client.client.clone(), locks_of(client));
    ids.retain(|id| !is_guess(state, id));
    let client = ClientIdentity { seen: line.real, ..known };
    let (at, real) = (time.earliest_at, line.earliest);
    let is_certain = |id: &Arc<LockId>| {
        let place = state.locks.place(id.server, id.db, &id.key);
        place.is_some_and(|place| state.locks.is_certain(place, &client, (at, real)))
    };
    if !ids.is_empty() && ids.iter().all(is_certain) {
        return None;
    }
    let is_over = |lock: &Lock| lock.holds.iter().any(|hold| hold.is_over(at, real));
    for id in &ids {
        if state.locks.get(id).is_some_and(is_over) {
            let source = AuditState::source_of(line, &state.client_of(line));
            state.with_lock(id, Some(&client), source, |tracker| tracker.advance_time(at, real));
        }
    }
    let is_held = |id: &Arc<LockId>| state.locks.get(id).is_some_and(|lock| is_held_by(lock, &client));
    if state.clients.get(&worker).is_some_and(|client| client.may_hold_more) || ids.iter().any(is_held) {
        return None;
    }
    Some((client, ids))
}

/// A client writes a key that it accessed under a lock.
fn note_write(
    state: &mut AuditState,
    line: &JournalLine<'_>,
    worker: ((u16, u64), &WorkTime),
    (key, access): (&[u8], &KeyAccess),
) {
    let Some((client, ids)) = lost_locks(state, line, worker) else { return };
    // A write that may have been before the loss is none after it.
    let earliest = if line.order == EffectOrder::Total { i64::MAX } else { line.earliest };
    for id in &ids {
        if state.locks.get(id).is_some_and(|lock| was_accessed_under(lock, &client, access, earliest)) {
            let source = AuditState::source_of(line, &state.client_of(line));
            state.with_lock(id, Some(&client), source, |tracker| tracker.note_write_after_loss(key, false));
        }
    }
}

/// A client writes a key that it has not accessed under its lock, as other holders have.
fn note_first_write(
    state: &mut AuditState,
    line: &JournalLine<'_>,
    (worker, time): ((u16, u64), &WorkTime),
    (hash, key): (u64, &[u8]),
) {
    let is_used_for = |id: &Arc<LockId>| state.locks.is_used_for(id, hash);
    let is_candidate = |client: &ClientState| client.lost.iter().chain(&client.holds).any(is_used_for);
    if !state.clients.get(&worker).is_some_and(is_candidate) {
        return;
    }
    let Some((client, ids)) = lost_locks(state, line, (worker, time)) else { return };
    let is_over = |lock: &Lock| {
        lock.past_hold_of(&client)
            .is_some_and(|past| past.at.saturating_sub(past.hold.slack() * 1000) <= time.earliest_at)
    };
    for id in &ids {
        if state.locks.is_used_for(id, hash) && state.locks.get(id).is_some_and(is_over) {
            let source = AuditState::source_of(line, &state.client_of(line));
            state.with_lock(id, Some(&client), source, |tracker| tracker.note_write_after_loss(key, true));
        }
    }
}

/// A client writes on a condition: that makes up for the locks that it has lost.
fn note_conditional(state: &mut AuditState, line: &JournalLine<'_>, worker: (u16, u64)) {
    let Some(client) = state.clients.get(&worker) else { return };
    let (client, lost) = (client.client.clone(), client.lost.clone());
    for id in &lost {
        let source = AuditState::source_of(line, &state.client_of(line));
        state.with_lock(id, Some(&client), source, |tracker| tracker.note_guarded_write());
    }
}

fn locks_of(client: &mut ClientState) -> Vec<Arc<LockId>> {
    client.lost.iter().chain(&client.holds).cloned().collect()
}

/// Whether the server agrees with a client's hold.
fn is_held_by(lock: &Lock, client: &ClientIdentity) -> bool {
    lock.hold_of(client).is_some_and(|hold| hold.status == HoldStatus::Held)
}

/// Whether a client accessed a key while it had the lock, which it has lost since.
fn was_accessed_under(lock: &Lock, client: &ClientIdentity, access: &KeyAccess, written: i64) -> bool {
    let (hold, until) = match (lock.hold_of(client), lock.past_hold_of(client)) {
        (Some(hold), _) => (hold, i64::MAX),
        (None, Some(past)) => (&past.hold, past.at.saturating_sub(past.hold.slack() * 1000)),
        (None, None) => return false,
    };
    let loss = match &hold.status {
        HoldStatus::Deleted(source)
        | HoldStatus::Overwritten(source)
        | HoldStatus::Evicted(source)
        | HoldStatus::FailedOver(source) => Some(source),
        HoldStatus::Flushed(flush) => Some(&flush.source),
        HoldStatus::Held | HoldStatus::Vanished => None,
    };
    if loss.is_some_and(|loss| loss.real > written) {
        return false;
    }
    let to = loss.map_or(u64::MAX, |loss| loss.place);
    let until = loss.map_or(until, |loss| until.min(loss.at - (loss.real - loss.earliest)));
    access.is_within(hold.acquired.place, to, until)
}
