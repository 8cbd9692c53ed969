//! Commands that move values between keys and databases: RENAME, RENAMENX, MOVE, COPY, SWAPDB, and those that delete all
//! keys.

use std::sync::Arc;

use super::audit_state::AuditState;
use super::effect::{Claim, Effect, ExpiryChange, KeyEffect, Precondition, TransferKind};
use super::journal_line::JournalLine;
use super::lock::{FlushCause, Lock, LockId};
use super::lock_reason::LockReasons;
use super::timeline::LockAccessKind;

/// A lock's value, on its way to another key.
struct Carried {
    /// `None` if it is unknown.
    value: Option<Box<[u8]>>,
    deadline: Option<i64>,
    reasons: LockReasons,
}

impl Carried {
    fn of(lock: &Lock) -> Option<Self> {
        let value = lock.value.clone()?;
        let value = Some(value).filter(|_| !lock.is_value_unknown);
        Some(Self { value, deadline: lock.deadline, reasons: lock.reasons })
    }

    fn expiry(&self) -> ExpiryChange {
        self.deadline.map_or(ExpiryChange::Never, ExpiryChange::At)
    }
}

/// Where a value goes.
pub struct Destination<'a> {
    pub db: u32,
    pub key: &'a [u8],
}

/// Applies a command that carries a value to another key. It is judged as a deletion of the one and a SET of the other.
pub fn transfer(
    state: &mut AuditState,
    line: &JournalLine<'_>,
    effect: &KeyEffect<'_>,
    (to, kind, done): (&Destination<'_>, TransferKind, bool),
) {
    let lock = state.locks.find(line.server, effect.db, effect.key);
    let carried = lock.and_then(Carried::of);
    let value = carried.as_ref().and_then(|carried| carried.value.clone());
    let arrive = |expiry, claim| KeyEffect {
        db: to.db,
        key: to.key,
        effect: Effect::Arrive { value: value.as_deref(), expiry, claim },
        precondition: Precondition::None,
    };
    if !done {
        if kind == TransferKind::RenameIfAbsent {
            state.apply(line, &arrive(ExpiryChange::Kept, Claim::Refused));
        }
        return;
    }
    let is_own = lock.is_some_and(|lock| is_holders(lock, line));
    let claim = match kind {
        TransferKind::RenameIfAbsent => Claim::TakesFree,
        TransferKind::Move if is_own => Claim::TakesFree,
        TransferKind::Rename if is_own => Claim::Takes,
        TransferKind::Rename | TransferKind::Move => Claim::Sets,
        TransferKind::Copy => Claim::None,
    };
    if kind != TransferKind::Copy {
        state.apply(line, &KeyEffect { effect: Effect::Delete { removed: Some(true) }, ..effect.clone() });
        if carried.is_some() {
            state.begin_tracking(line.server, to.db, to.key);
        }
    }
    // The deadline of a key that is not tracked is unknown.
    let expiry = carried.as_ref().map_or(ExpiryChange::Kept, Carried::expiry);
    state.apply(line, &arrive(expiry, claim));
    if let Some(carried) = carried.filter(|_| kind != TransferKind::Copy) {
        note_reasons(state, line, to, carried.reasons);
    }
}

/// Whether the client of a line is the one that the server agrees with.
fn is_holders(lock: &Lock, line: &JournalLine<'_>) -> bool {
    lock.holder().is_some_and(|hold| (hold.client.server, hold.client.id) == (line.server, line.client))
}

fn note_reasons(state: &mut AuditState, line: &JournalLine<'_>, to: &Destination<'_>, reasons: LockReasons) {
    let Some(lock) = state.locks.find(line.server, to.db, to.key) else { return };
    let (id, client) = (Arc::clone(&lock.id), state.client_of(line));
    let source = AuditState::source_of(line, &client);
    state.with_lock(&id, Some(&client), source, |tracker| tracker.context.note_reasons(reasons));
}

/// All keys of a database, or of the whole server, are deleted.
pub fn flush(state: &mut AuditState, line: &JournalLine<'_>, db: Option<u32>, cause: FlushCause) {
    let server = line.server;
    let is_placed = |id: &LockId| id.server == server && db.is_none_or(|db| id.db == db);
    for id in state.locks.ids(is_placed, is_there) {
        flush_one(state, line, &id, cause);
    }
}

fn is_there(lock: &Lock) -> bool {
    lock.value.is_some() || lock.holder().is_some()
}

fn flush_one(state: &mut AuditState, line: &JournalLine<'_>, id: &LockId, cause: FlushCause) {
    let client = state.client_of(line);
    let mut source = AuditState::source_of(line, &client);
    let actor = match cause {
        FlushCause::Flush | FlushCause::Swap => Some(&client),
        FlushCause::Restart => {
            Arc::make_mut(&mut source).line = Arc::from("(the server started empty)");
            None
        }
    };
    state.with_lock(id, actor, source, |tracker| tracker.flush(cause));
    if let (Some(timeline), Some(lock)) = (&mut state.timeline, state.locks.get(id)) {
        timeline.note_access(lock, line.seq, LockAccessKind::Flushed);
    }
}

/// Two databases are exchanged. A lock is gone where it was, as by a flush, and its value is in the other database, where
/// no client has taken it.
pub fn swap_databases(state: &mut AuditState, line: &JournalLine<'_>, one: u32, other: u32) {
    if one == other {
        return;
    }
    let server = line.server;
    let ids = state.locks.ids(|id| id.server == server && [one, other].contains(&id.db), is_there);
    let carried = |id: Arc<LockId>| state.locks.get(&id).and_then(Carried::of).map(|carried| (id, carried));
    let all: Vec<(Arc<LockId>, Carried)> = ids.iter().cloned().filter_map(carried).collect();
    for id in &ids {
        flush_one(state, line, id, FlushCause::Swap);
    }
    let client = state.client_of(line);
    for (id, carried) in all {
        let to_db = if id.db == one { other } else { one };
        state.begin_tracking(server, to_db, &id.key);
        let Some(lock) = state.locks.find(server, to_db, &id.key) else { continue };
        let (id, source) = (Arc::clone(&lock.id), AuditState::source_of(line, &client));
        state.with_lock(&id, Some(&client), source, |tracker| {
            tracker.place_value(carried.value.as_deref(), carried.deadline);
            tracker.context.note_reasons(carried.reasons);
        });
        if let (Some(timeline), Some(lock)) = (&mut state.timeline, state.locks.get(&id)) {
            timeline.note_access(lock, line.seq, LockAccessKind::Set);
        }
    }
}
