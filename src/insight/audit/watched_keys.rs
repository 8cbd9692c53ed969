//! The keys that clients watch, and what EXEC knows of them.

use super::audit_state::AuditState;
use super::client_state::{Watched, WatchedValue};
use super::effect::{Effect, KeyEffect, Precondition};
use super::journal_line::JournalLine;
use super::rules::may_be_owner;

/// How many keys a client may watch.
const MAX_WATCHED: usize = 16;

/// A client watches keys.
pub fn watch(state: &mut AuditState, line: &JournalLine<'_>) {
    let client = state.client_of(line);
    let client = state.clients.meet(&client);
    for key in line.words.iter().skip(1).take(MAX_WATCHED) {
        if client.watched.len() < MAX_WATCHED {
            client.watched.push((line.db, (*key).into(), WatchedValue::Unread));
        }
    }
}

/// A client reads a key that it watches.
pub fn note_watched_read(state: &mut AuditState, line: &JournalLine<'_>, key: &[u8], value: Option<&[u8]>) {
    let Some(client) = state.state_of(line) else { return };
    for (db, watched, read) in &mut client.watched {
        if *db == line.db && **watched == *key {
            *read = value.map_or(WatchedValue::Absent, |value| WatchedValue::Value(value.into()));
        }
    }
}

/// A client watches nothing any more. Returns what it had watched.
pub fn unwatch(state: &mut AuditState, line: &JournalLine<'_>) -> Vec<Watched> {
    state.state_of(line).map(|client| std::mem::take(&mut client.watched)).unwrap_or_default()
}

/// An effect of EXEC, compared with what the client read since WATCH.
pub fn with_watched<'a>(effect: KeyEffect<'a>, watched: &'a [Watched]) -> KeyEffect<'a> {
    let read = watched.iter().find(|(db, key, _)| *db == effect.db && **key == *effect.key);
    match (read.map(|(_, _, value)| value), &effect.effect) {
        _ if effect.precondition != Precondition::None => effect,
        (Some(WatchedValue::Value(value)), _) => {
            KeyEffect { precondition: Precondition::Compared(Some(value)), ..effect }
        }
        // Nobody can have taken it in between, as with SET NX.
        (Some(WatchedValue::Absent), Effect::Set { value, expiry, old: None }) if may_be_owner(value) => {
            KeyEffect { effect: Effect::Take { value, expiry: *expiry, took: true }, ..effect }
        }
        (Some(WatchedValue::Absent | WatchedValue::Unread) | None, _) => effect,
    }
}
