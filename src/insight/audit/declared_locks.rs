//! The keys that the user declares to be locks, and that are no strings: reads from commands and replies who is in.
//!
//! These commands make counters, sets and queues, so no row says of them what they do to locks.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use super::audit_state::AuditState;
use super::client_identity::ClientIdentity;
use super::finding::JournalRef;
use super::journal_line::JournalLine;
use super::lock::LockId;
use super::occupancy::{Act, Mistake, Occupancy};
use super::occupancy_commands::{Ran, applied, finding_of};
use crate::powers::{EventKind, Outcome};
use crate::protocol::OwnedWords;
use crate::spec::{CommandKind, LockEffect, Table, TransactionCommand};

/// How many keys are followed.
const MAX_KEYS: usize = 10_000;
/// How many locks are remembered of a connection; if it uses more, all are asked when it ends.
const MAX_USED: usize = 32;

/// The declared locks that are no strings.
#[derive(Clone, Default)]
pub struct DeclaredLocks {
    /// Those of which something is known.
    locks: HashMap<LockId, Occupancy, FixedState>,
    /// The connections that have used one, by server and id.
    guests: HashMap<(u16, u64), Guest, FixedState>,
}

/// A connection that has used locks.
#[derive(Clone, Default)]
struct Guest {
    used: SmallVec<[LockId; 2]>,
    has_used_more: bool,
    /// The locks for which it matters what the client does next.
    awaiting: SmallVec<[LockId; 2]>,
}

impl DeclaredLocks {
    /// Whether it matters to a lock what a client does next, whatever that is.
    #[inline]
    pub fn awaits(&self, server: u16, client: u64) -> bool {
        !self.guests.is_empty() && self.guests.get(&(server, client)).is_some_and(|guest| !guest.awaiting.is_empty())
    }

    /// Whether something is known of a key.
    pub fn knows(&self, server: u16, db: u32, key: &[u8]) -> bool {
        !self.locks.is_empty() && self.locks.contains_key(&LockId { server, db, key: key.into() })
    }

    /// Looks at a line of the journal.
    pub fn note(&mut self, state: &mut AuditState, line: &JournalLine<'_>, commands: &Table) {
        if state.scope.locks.is_empty() {
            return;
        }
        match line.event {
            Some(EventKind::Closed) => return self.close(state, line),
            Some(EventKind::Started | EventKind::Missing | EventKind::Promoted) => return self.forget(line.server),
            Some(_) => return,
            None if line.is_queued() || line.outcome == Outcome::NeverRan || line.was_sent_away() => return,
            None => {}
        }
        let row = line.words.first().and_then(|name| commands.find(name));
        let runs_others = row.is_some_and(|row| {
            matches!(row.kind, CommandKind::Script(_) | CommandKind::Transaction(TransactionCommand::Exec))
        });
        let is_known = !line.is_unplaced && !line.is_cut && line.outcome != Outcome::Unknown && !line.is_stale;
        let client = state.client_of(line);
        if !runs_others {
            let ran = Ran { db: line.db, words: &line.words, reply: line.reply };
            return self.note_commands(state, (line, &client), &[ran], (commands, is_known && !line.reply.is_empty()));
        }
        if line.are_children_unknown {
            let words: OwnedWords = line.words.iter().collect();
            return commands.keys(words.as_words()).keys.iter().for_each(|key| self.doubt(line, line.db, key));
        }
        line.with_nested(|nested| {
            let is_known = is_known && nested.iter().all(|command| !command.is_cut && !command.reply.is_empty());
            let ran: Vec<Ran<'_>> = nested
                .iter()
                .map(|command| Ran { db: command.db, words: &command.words, reply: command.reply })
                .collect();
            self.note_commands(state, (line, &client), &ran, (commands, is_known));
        });
    }

    /// Forgets the locks of a server.
    pub fn forget(&mut self, server: u16) {
        self.locks.retain(|id, _| id.server != server);
        self.guests.retain(|(number, _), _| *number != server);
    }

    fn close(&mut self, state: &AuditState, line: &JournalLine<'_>) {
        let Some(guest) = self.guests.remove(&(line.server, line.client)) else { return };
        let client = state.client_of(line);
        if guest.has_used_more {
            return self.locks.retain(|_, lock| {
                lock.close(&client);
                !lock.is_unknown()
            });
        }
        for id in guest.used {
            if let Some(lock) = self.locks.get_mut(&id) {
                lock.close(&client);
                self.drop_unknown(&id);
            }
        }
    }

    /// Forgets a lock of which nothing is known.
    fn drop_unknown(&mut self, id: &LockId) {
        if self.locks.get(id).is_some_and(Occupancy::is_unknown) {
            self.locks.remove(id);
        }
    }

    fn doubt(&mut self, line: &JournalLine<'_>, db: u32, key: &[u8]) {
        if !self.locks.is_empty() {
            self.locks.remove(&LockId { server: line.server, db, key: key.into() });
        }
    }

    fn note_commands(
        &mut self,
        state: &mut AuditState,
        (line, client): (&JournalLine<'_>, &ClientIdentity),
        ran: &[Ran<'_>],
        (commands, is_known): (&Table, bool),
    ) {
        let mut source = None;
        let mut found: Vec<(LockId, Mistake)> = Vec::new();
        for command in ran {
            let Some(row) = command.words.first().and_then(|name| commands.find(name)) else { continue };
            match row.lock_effect {
                LockEffect::FlushAll | LockEffect::SwapDatabases => self.forget(line.server),
                LockEffect::FlushDatabase => self.locks.retain(|id, _| (id.server, id.db) != (line.server, command.db)),
                _ => {}
            }
            let words: OwnedWords = command.words.iter().copied().collect();
            let accessed = commands.keys(words.as_words());
            let (declared, others): (Vec<&[u8]>, Vec<&[u8]>) =
                accessed.keys.iter().copied().partition(|key| state.scope.is_declared(key));
            if !is_known {
                declared.iter().for_each(|key| self.doubt(line, command.db, key));
            }
            if declared.is_empty() && !self.awaits(line.server, line.client) {
                continue;
            }
            let source = source.get_or_insert_with(|| AuditState::source_of(line, client));
            let mut turn = Turn { server: line.server, db: command.db, client, source, found: &mut found };
            if let Some(other) = others.first() {
                self.work(&mut turn, other, accessed.writes);
            }
            for key in declared.into_iter().filter(|_| is_known) {
                self.apply(&mut turn, row.name, key, (command, accessed.writes));
            }
        }
        if self.awaits(line.server, line.client) {
            let source = source.get_or_insert_with(|| AuditState::source_of(line, client));
            self.go_on(&mut Turn { server: line.server, db: line.db, client, source, found: &mut found });
        }
        let Some(source) = source else { return };
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        found.into_iter().for_each(|(id, mistake)| state.collector.add(finding_of(&source, &id, mistake)));
    }

    /// A client uses a key that is no lock.
    fn work(&mut self, turn: &mut Turn<'_>, key: &[u8], writes: bool) {
        let Some(guest) = self.guests.get(&turn.guest()) else { return };
        for id in &guest.awaiting {
            let Some(lock) = self.locks.get_mut(id).filter(|lock| lock.may_work(turn.client)) else { continue };
            turn.judge(id, |act| lock.work(act, key, writes));
        }
    }

    /// A client has sent a command.
    fn go_on(&mut self, turn: &mut Turn<'_>) {
        let Some(guest) = self.guests.get_mut(&turn.guest()) else { return };
        guest.awaiting.retain(|id| {
            let Some(lock) = self.locks.get_mut(id) else { return false };
            turn.judge(id, |act| lock.go_on(act));
            lock.awaits(turn.client)
        });
    }

    fn apply(&mut self, turn: &mut Turn<'_>, name: &str, key: &[u8], (command, writes): (&Ran<'_>, bool)) {
        let id = LockId { server: turn.server, db: turn.db, key: key.into() };
        if self.locks.len() >= MAX_KEYS && !self.locks.contains_key(&id) {
            return;
        }
        let lock = self.locks.entry(id.clone()).or_default();
        lock.advance_time(turn.source.at);
        let is_followed = turn.judge(&id, |act| applied(lock, act, name, key, command));
        if !is_followed && writes || lock.is_unknown() {
            self.locks.remove(&id);
            return;
        }
        let guest = self.guests.entry(turn.guest()).or_default();
        if lock.awaits(turn.client) && !guest.awaiting.contains(&id) {
            guest.awaiting.push(id.clone());
        }
        if guest.has_used_more || guest.used.contains(&id) {
            return;
        }
        match guest.used.len() < MAX_USED {
            true => guest.used.push(id),
            false => guest.has_used_more = true,
        }
    }
}

/// A command of a client, and what is found in it.
struct Turn<'a> {
    server: u16,
    db: u32,
    client: &'a ClientIdentity,
    source: &'a JournalRef,
    found: &'a mut Vec<(LockId, Mistake)>,
}

impl Turn<'_> {
    fn guest(&self) -> (u16, u64) {
        (self.server, self.client.id)
    }

    /// Lets a lock look at the command, and keeps what it finds.
    fn judge<T>(&mut self, id: &LockId, look: impl FnOnce(&mut Act<'_>) -> T) -> T {
        let mut mistakes = Vec::new();
        let seen = look(&mut Act::new(self.client, self.source, &mut mistakes));
        self.found.extend(mistakes.into_iter().map(|mistake| (id.clone(), mistake)));
        seen
    }
}
