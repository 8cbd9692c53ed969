//! Notes the keys that clients access while they hold locks, and finds the writes to them after a lock is lost.

use std::sync::Arc;

use super::audit_state::AuditState;
use super::client_identity::ClientIdentity;
use super::client_state::{ClientState, KeyAccess};
use super::journal_line::JournalLine;
use super::lock::{HoldStatus, Lock, LockId};
use super::missing_replies::accessed_keys;
use crate::powers::EffectOrder;
use crate::spec::{CommandKind, Table, TransactionCommand};

/// Looks at a command of a client that holds a lock, or has lost one.
#[inline]
pub fn note_work(state: &mut AuditState, line: &JournalLine<'_>, commands: &Table) {
    if state.clients.is_empty() || !state.state_of(line).is_some_and(|client| client.is_at_work()) {
        return;
    }
    note_accesses(state, line, commands);
}

fn note_accesses(state: &mut AuditState, line: &JournalLine<'_>, commands: &Table) {
    // What a script writes after it has looked at something, it writes on that condition.
    let kind = kind_of(line, commands);
    let is_script = matches!(kind, Some(CommandKind::Script(_)));
    let is_exec = kind == Some(CommandKind::Transaction(TransactionCommand::Exec));
    let mut has_looked = false;
    let mut note = |db: u32, words: &[&[u8]]| {
        let (keys, writes) = accessed_keys(commands, words);
        for key in keys {
            has_looked |= is_script && !writes;
            if state.may_be_lock(line.server, db, key) {
                continue;
            }
            let Some(client) = state.state_of(line) else { return };
            (client.work, client.worked_at) = (client.work + 1, line.earliest_at());
            let access = client.access_to(db, key).filter(|_| writes && !has_looked).cloned();
            if let Some(access) = access.filter(|_| !(is_exec && is_watched(state, line, db, key))) {
                note_write(state, line, key, &access);
            }
            if let Some(client) = state.state_of(line).filter(|client| !client.holds.is_empty()) {
                client.note_access(db, key, line.place, line.at);
            }
        }
    };
    match runs_others(line, commands) {
        true => line.with_nested(|nested| nested.iter().for_each(|command| note(command.db, &command.words))),
        false => note(line.db, &line.words),
    }
}

fn kind_of(line: &JournalLine<'_>, commands: &Table) -> Option<CommandKind> {
    line.words.first().and_then(|name| commands.find(name)).map(|row| row.kind)
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
fn runs_others(line: &JournalLine<'_>, commands: &Table) -> bool {
    kind_of(line, commands).is_some_and(|kind| match kind {
        CommandKind::Script(_) | CommandKind::Transaction(TransactionCommand::Exec) => true,
        CommandKind::Transaction(
            TransactionCommand::Multi
            | TransactionCommand::Discard
            | TransactionCommand::Watch
            | TransactionCommand::Unwatch,
        )
        | CommandKind::Keys
        | CommandKind::Blocking
        | CommandKind::Database
        | CommandKind::Everything
        | CommandKind::Connection
        | CommandKind::Debug
        | CommandKind::Library
        | CommandKind::Container => false,
    })
}

/// A client writes a key that it accessed under a lock.
fn note_write(state: &mut AuditState, line: &JournalLine<'_>, key: &[u8], access: &KeyAccess) {
    let client = state.client_of(line);
    let ids: Vec<Arc<LockId>> = state.state_of(line).map(locks_of).unwrap_or_default();
    let (at, real) = (line.earliest_at(), line.earliest);
    let is_over = |lock: &Lock| lock.holds.iter().any(|hold| hold.is_over(at, real));
    for id in &ids {
        if state.locks.get(id).is_some_and(is_over) {
            let source = AuditState::source_of(line, &client);
            state.with_lock(id, Some(&client), source, |tracker| tracker.advance_time(at, real));
        }
    }
    // A write that may have been before the loss is none after it.
    let earliest = if line.order == EffectOrder::Total { i64::MAX } else { line.earliest };
    // Another lock may guard the key now.
    if state.state_of(line).is_some_and(|client| client.may_hold_more) {
        return;
    }
    if ids.iter().any(|id| state.locks.get(id).is_some_and(|lock| is_held_by(lock, &client))) {
        return;
    }
    for id in &ids {
        if state.locks.get(id).is_some_and(|lock| was_accessed_under(lock, &client, access, earliest)) {
            let source = AuditState::source_of(line, &client);
            state.with_lock(id, Some(&client), source, |tracker| tracker.note_write_after_loss(key));
        }
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
