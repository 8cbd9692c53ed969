//! The keys that the user declares to be locks, and that are no strings: reads from commands and replies who is in.
//!
//! These commands make counters, sets and queues, so no row says of them what they do to locks.

use std::collections::HashMap;

use foldhash::fast::FixedState;

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

/// The declared locks that are no strings.
#[derive(Clone, Default)]
pub struct DeclaredLocks {
    locks: HashMap<LockId, Occupancy, FixedState>,
}

impl DeclaredLocks {
    /// Looks at a line of the journal.
    pub fn note(&mut self, state: &mut AuditState, line: &JournalLine<'_>, commands: &Table) {
        if state.scope.locks.is_empty() {
            return;
        }
        match line.event {
            Some(EventKind::Closed) => {
                let client = state.client_of(line);
                return self.locks.values_mut().for_each(|lock| lock.close(&client));
            }
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
        let source = AuditState::source_of(line, client);
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
            let mut act = Turn { server: line.server, db: command.db, client, source: &source, found: &mut found };
            if let Some(other) = others.first() {
                self.work(&mut act, other, accessed.writes);
            }
            if !is_known {
                declared.iter().for_each(|key| self.doubt(line, command.db, key));
                continue;
            }
            for key in declared {
                self.apply(&mut act, row.name, key, (command, accessed.writes));
            }
        }
        if !self.locks.is_empty() {
            let mut mistakes = Vec::new();
            for (id, lock) in self.locks.iter_mut().filter(|(id, _)| id.server == line.server) {
                lock.go_on(&mut Act::new(client, &source, &mut mistakes));
                found.extend(mistakes.drain(..).map(|mistake| (id.clone(), mistake)));
            }
        }
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        found.into_iter().for_each(|(id, mistake)| state.collector.add(finding_of(&source, &id, mistake)));
    }

    /// A client uses a key that is no lock.
    fn work(&mut self, turn: &mut Turn<'_>, key: &[u8], writes: bool) {
        let may_work = |(id, lock): &(&LockId, &mut Occupancy)| id.server == turn.server && lock.may_work(turn.client);
        for (id, lock) in self.locks.iter_mut().filter(may_work) {
            let mut mistakes = Vec::new();
            lock.work(&mut Act::new(turn.client, turn.source, &mut mistakes), key, writes);
            turn.found.extend(mistakes.into_iter().map(|mistake| (id.clone(), mistake)));
        }
    }

    fn apply(&mut self, turn: &mut Turn<'_>, name: &str, key: &[u8], (command, writes): (&Ran<'_>, bool)) {
        let id = LockId { server: turn.server, db: turn.db, key: key.into() };
        if self.locks.len() >= MAX_KEYS && !self.locks.contains_key(&id) {
            return;
        }
        let lock = self.locks.entry(id.clone()).or_default();
        lock.advance_time(turn.source.at);
        let mut mistakes = Vec::new();
        let mut act = Act::new(turn.client, turn.source, &mut mistakes);
        let is_followed = applied(lock, &mut act, name, key, command);
        turn.found.extend(mistakes.into_iter().map(|mistake| (id.clone(), mistake)));
        if !is_followed && writes {
            self.locks.remove(&id);
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
