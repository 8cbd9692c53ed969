//! Commands that their records' headers tell to have nothing to do with locks, as nearly all lines of nearly all programs.
//!
//! Their clients may hold locks all the same: what they do to data then is noted here, too.

use std::sync::Arc;

use smallvec::SmallVec;

use super::audit_state::AuditState;
use super::auditor::Auditor;
use super::client_identity::ClientIdentity;
use super::command_effects::{Condition, SetOptions};
use super::command_text::text_of;
use super::journal_line::plausible;
use super::work_after_loss::{KeyUse, is_silent, note_silent};
use crate::powers::{EffectOrder, Outcome, RawRecord, RecordHeader};
use crate::spec::{CommandKind, CommandSpec, Flag, LockEffect, TransactionCommand};

type Words<'a> = SmallVec<[&'a [u8]; 8]>;

/// What a client does that has to do with locks.
struct Work<'a> {
    by: ClientIdentity,
    used: KeyUse<'a>,
}

/// The keys of a command that makes no lock of a key that is none, and does nothing to those that are but what the key shows.
#[derive(Clone, Copy)]
enum Touched {
    /// None, or none in a way that is of interest.
    Nothing,
    /// Its second word.
    One,
    /// Every so many words from the second one.
    Every(usize),
}

/// How many words a command may have whose keys are looked at one by one.
const MOST_WORDS: usize = 64;

/// The keys that a command touches by its row and its header; `None` if it may take a lock, or takes a closer look.
#[inline]
fn touched_keys(row: &CommandSpec, header: &RecordHeader<'_>) -> Option<Touched> {
    match row.kind {
        CommandKind::Transaction(TransactionCommand::Multi) => return Some(Touched::Nothing),
        CommandKind::Transaction(_) | CommandKind::Script(_) => return None,
        _ => {}
    }
    let several = |step: usize| match header.words {
        0..=2 => Some(Touched::One),
        3..=MOST_WORDS => Some(Touched::Every(step)),
        _ => None,
    };
    match row.lock_effect {
        LockEffect::SetByOptions => sets_only(header).then_some(Touched::One),
        LockEffect::GetMany | LockEffect::Exists | LockEffect::Delete => several(1),
        LockEffect::SetMany => several(2),
        LockEffect::None => Some(Touched::Nothing),
        LockEffect::SetWithTtl(_)
        | LockEffect::Get
        | LockEffect::GetRange
        | LockEffect::GetAndExpire
        | LockEffect::GetAndDelete
        | LockEffect::Expire(..)
        | LockEffect::Persist
        | LockEffect::CountMember
        | LockEffect::SetMember
        | LockEffect::AddMember
        | LockEffect::RemoveField
        | LockEffect::RemoveMember
        | LockEffect::FindMember
        | LockEffect::CountMembers
        | LockEffect::OtherWrite => Some(Touched::One),
        LockEffect::SetIfAbsent
        | LockEffect::SetAndReturn
        | LockEffect::SetManyIfAbsent
        | LockEffect::SetManyByOptions
        | LockEffect::DeleteIfEqual
        | LockEffect::DeleteByOptions
        | LockEffect::Rename
        | LockEffect::RenameIfAbsent
        | LockEffect::Move
        | LockEffect::Copy
        | LockEffect::Restore
        | LockEffect::SwapDatabases
        | LockEffect::FlushDatabase
        | LockEffect::FlushAll => None,
    }
}

/// Whether a SET has no options but an expiry.
#[inline]
fn sets_only(header: &RecordHeader<'_>) -> bool {
    if header.words <= 3 {
        return header.words == 3;
    }
    let words: Words<'_> = header.all_words().skip(3).collect();
    let options = SetOptions::of(&words);
    options.condition == Condition::None && !options.get
}

impl Auditor {
    /// Processes a line by its header alone if that shows that it has nothing to do with locks, as nearly all lines of
    /// nearly all programs. Returns whether it did.
    #[inline]
    pub fn skip_unrelated(
        &mut self,
        server: u16,
        (record, header): (&RawRecord<'_>, &RecordHeader<'_>),
        row: Option<&'static CommandSpec>,
    ) -> bool {
        let client = (server, header.client);
        if !header.is_event && row.is_some_and(|row| self.may_name_client(row, header)) {
            self.data.note_renamed(client);
        }
        if header.is_event || header.order != EffectOrder::Total || self.has_waiting_lines() {
            return false;
        }
        let is_met = self.last_client.is(client) || self.state.clients.contains_key(&client);
        if is_met && row.is_none() {
            return false;
        }
        let mut work = None;
        if let Some(row) = row {
            let is_exec = row.kind == CommandKind::Transaction(TransactionCommand::Exec);
            let Some(touched) = touched_keys(row, header).or(is_exec.then_some(Touched::Nothing)) else { return false };
            if is_met {
                match self.work_of(client, (record, header), row) {
                    Some(noted) => work = noted,
                    None => return false,
                }
            }
            let is_noted = match is_exec {
                true => self.note_unrelated_transaction(server, (record, header)),
                false => {
                    self.is_unrelated(server, header, (row, touched))
                        && self.data.note_header(server, (record, header), row, &self.state.guesses)
                }
            };
            if !is_noted {
                return false;
            }
        }
        self.lines += 1;
        self.state.advance_time(server, header.seq, (header.at, header.real), header.real);
        if let Some(Work { by, used }) = work {
            self.last_client.forget_idle();
            let source = |_: &AuditState| {
                let words: Words<'_> = header.all_words().collect();
                Arc::new(by.source((header.seq, header.at), text_of(&words, |_| {})))
            };
            note_silent(&mut self.state, &by, used, (header.seq, header.at), source);
        }
        true
    }

    /// Whether a command may give its client another name.
    #[inline]
    fn may_name_client(&self, row: &CommandSpec, header: &RecordHeader<'_>) -> bool {
        let names_by_subcommand = || self.commands.find_sub(row, header.second).is_some_and(|sub| sub.names_client);
        row.names_client || row.is_container && names_by_subcommand()
    }

    /// Whether a command has nothing to do with keys that are locks, or may be.
    #[inline]
    fn is_unrelated(
        &self,
        server: u16,
        header: &RecordHeader<'_>,
        (row, touched): (&'static CommandSpec, Touched),
    ) -> bool {
        if self.presumed.concerns(server, header, row)
            || self.claims.concerns(server, header, row)
            || self.declared.awaits(server, header.client)
        {
            return false;
        }
        match touched {
            Touched::Nothing => !self.state.scope.is_declared(header.second),
            Touched::One => self.is_free(server, header.db, header.second),
            Touched::Every(step) => {
                let keys = || header.all_words().skip(1).step_by(step);
                let is_presumed = |key: &[u8]| self.presumed.knows(server, header.db, key);
                self.claims.is_empty() && keys().all(|key| self.is_free(server, header.db, key) && !is_presumed(key))
            }
        }
    }

    /// Takes in an EXEC, if all that it has run is known, and none of it has to do with locks. Returns whether it did.
    fn note_unrelated_transaction(
        &mut self,
        server: u16,
        (record, header): (&RawRecord<'_>, &RecordHeader<'_>),
    ) -> bool {
        let has_run = header.reply.first() == Some(&b'*') && header.reply != b"*-1\r\n";
        let is_plain = header.outcome == Outcome::Answered && !header.is_cut && self.state.is_plain();
        let Some(inside) = header.ran_inside().filter(|_| has_run && is_plain) else { return false };
        let mut commands: SmallVec<[(RecordHeader<'_>, &'static CommandSpec); 8]> = SmallVec::new();
        for inner in inside {
            let command = header.of_inner(&inner);
            let Some(row) = self.commands.find(command.first).filter(|row| row.kind == CommandKind::Keys) else {
                return false;
            };
            let Some(touched) = touched_keys(row, &command) else { return false };
            let is_whole = inner.depth == 1 && !command.is_cut && !command.reply.is_empty();
            if !is_whole || !self.is_unrelated(server, &command, (row, touched)) {
                return false;
            }
            commands.push((command, row));
        }
        self.data.note_transaction(server, (record, header), &commands, &self.state.guesses)
    }

    /// Whether a key is no lock as far as it is known, nor said to be one.
    #[inline]
    fn is_free(&self, server: u16, db: u32, key: &[u8]) -> bool {
        !self.state.locks.contains(server, db, key)
            && !self.state.scope.is_declared(key)
            && !self.state.carried.are_about(server, db, key)
    }

    /// What a command of a client that has to do with locks is to it, if it is about data: nothing if the client holds none. `None` if it
    /// takes a closer look.
    fn work_of<'a>(
        &mut self,
        client: (u16, u64),
        (record, header): (&RawRecord<'_>, &RecordHeader<'a>),
        row: &CommandSpec,
    ) -> Option<Option<Work<'a>>> {
        let is_meant = match row.kind {
            CommandKind::Keys => matches!(header.outcome, Outcome::Answered | Outcome::Queued),
            CommandKind::Transaction(_) => header.outcome == Outcome::Answered,
            _ => false,
        };
        if !is_meant || !self.state.is_plain() {
            return None;
        }
        let labels = record.labels_without_node(header)?;
        if self.last_client.is_idle(client, labels) {
            return Some(None);
        }
        let known = self.state.clients.get(&client).filter(|_| self.data.knows_by(client, labels))?;
        if self.state.is_looking(known) {
            return None;
        }
        if self.state.is_idle(known) {
            self.last_client.note_idle(client, labels);
            return Some(None);
        }
        if row.kind != CommandKind::Keys || header.outcome != Outcome::Answered {
            return None;
        }
        if row.keys.is_empty() {
            return Some(None);
        }
        let (at, real) = (plausible(header.at), plausible(header.real));
        let by = self.state.identity(known, labels, real)?;
        let words: Words<'a> = header.all_words().collect();
        let key = row.only_key(&words)?;
        let is_about_data = !self.state.may_be_lock(client.0, header.db, key);
        let used = KeyUse { server: client.0, db: header.db, key, writes: row.has_flag(Flag::Write) };
        (is_about_data && is_silent(&self.state, &by, used, (at, real))).then_some(Some(Work { by, used }))
    }
}
