//! Finds lost updates: a client writes a key from what it has read, and another one has written it in between.
//!
//! No theory of locks is needed for that. Which locks the two had tells why nothing prevented it, and how bad it is.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use super::advice::WATCHED_LATE;
use super::audit_state::AuditState;
use super::client_identity::{ClientIdentity, SameProgram};
use super::code::{Code, Severity};
use super::data_use::{DataAccess, DataUse, tell_uses, uses_data};
use super::finding::{Evidence, Finding, JournalRef};
use super::intended_locks::{IntendedLocks, Section};
use super::journal_line::JournalLine;
use super::kept_value::{Dependence, KeptValue};
use super::key_versions::{Basis, KeptRead, KeptWrite, KeyVersions, Moment, PartId, ReadUse, WriteKind};
use super::last_client::Labels;
use super::lock::{Lock, LockId};
use super::lock_reason::LockReason;
use super::missing_replies::keys_of;
use super::overwrite::{NewValue, Overwrite};
use super::queued_commands::Queue;
use super::reply_value::{ReplyValue, reply_elements};
use super::scope::Scope;
use crate::base::glob;
use crate::base::process::Process;
use crate::powers::{EffectOrder, Outcome, short_line};
use crate::spec::{CommandKind, CommandSpec, Flag, Group, Table, TransactionCommand};

/// How many connections are known by their names.
const MAX_PARTIES: usize = 8192;
/// How many notes are made: whoever keeps a cache makes one for each of its keys.
pub const MAX_NOTES: usize = 100;
/// How many findings wait for a key to be taken for a lock.
const MAX_AWAITED: usize = 64;

/// How many values a client may read without a write, until it is taken for one that only reads.
pub const MAX_IDLE_READS: u16 = 1000;
/// How many counters of such reads there are: clients share them.
pub const COUNTERS: usize = 256;

/// Which keys were read and written by whom, and what waits to be told.
#[derive(Clone)]
pub struct LostUpdates {
    pub versions: KeyVersions,
    /// How many values clients have read since they last wrote.
    pub idle_reads: [u16; COUNTERS],
    /// The connections that have used data.
    pub parties: Arc<HashMap<(u16, u64), Party, FixedState>>,
    /// The last one that [`has_met`](Self::has_met) has found there, until it may have another name. In a pipeline it is
    /// asked for again.
    last_party: Option<(u16, u64)>,
    awaited: Vec<Awaited>,
    /// How many keys were locks when `awaited` was looked at last.
    known_locks: u64,
    notes: usize,
}

/// A connection.
#[derive(Clone)]
pub struct Party {
    pub client: ClientIdentity,
    node: Option<Arc<str>>,
}

/// A finding that is true if keys are locks of which it is not known yet.
#[derive(Clone)]
struct Awaited {
    finding: Finding,
    locks: SmallVec<[Arc<LockId>; 2]>,
}

/// A command of which a line tells, alone, in EXEC or in a script.
pub struct Step<'a> {
    pub row: &'static CommandSpec,
    pub db: u32,
    pub words: &'a [&'a [u8]],
    /// Empty if it is unknown.
    pub reply: &'a [u8],
    pub within: Within,
}

/// What a command ran inside.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Within {
    Nothing,
    Transaction,
    /// A script that only writes.
    WritingScript,
    /// A script that only reads.
    ReadingScript,
    /// A script that reads and writes: nobody comes between.
    Script,
}

impl Default for LostUpdates {
    fn default() -> Self {
        Self {
            versions: KeyVersions::default(),
            idle_reads: [0; COUNTERS],
            parties: Arc::default(),
            last_party: None,
            awaited: Vec::new(),
            known_locks: 0,
            notes: 0,
        }
    }
}

impl LostUpdates {
    /// Nothing is known any more of who read what.
    pub fn forget(&mut self) {
        self.versions.clear();
        Arc::make_mut(&mut self.parties).clear();
        self.last_party = None;
        self.awaited.clear();
    }

    /// The findings are gone.
    pub fn forget_findings(&mut self) {
        self.notes = 0;
        self.awaited.clear();
    }

    // ---- from lines

    /// Whether a use is worth a closer look: the client has read what another one has written since.
    #[inline]
    pub fn may_overwrite(&self, id: PartId, used: &DataUse<'_>, moment: &Moment) -> bool {
        let is_write = matches!(used.access, DataAccess::Write { .. } | DataAccess::Add(_));
        if !is_write {
            return false;
        }
        match self.versions.read_by(id, moment.client) {
            Some(read) if read.use_ == ReadUse::Used => false,
            Some(read) if read.use_ == ReadUse::Shared => true,
            Some(read) => self.versions.is_written_after(id, &read.moment),
            // Another connection of the same program may have read it.
            None => {
                self.versions.reads_of(id).any(|read| read.use_ != ReadUse::Used) && self.writes_by_others(id, moment)
            }
        }
    }

    fn writes_by_others(&self, id: PartId, moment: &Moment) -> bool {
        self.versions.writes_of(id).any(|write| write.moment.client != moment.client)
    }

    /// Takes in a line before it is applied to the locks.
    pub fn note_line(
        &mut self,
        state: &mut AuditState,
        line: &JournalLine<'_>,
        row: &'static CommandSpec,
        queue: Option<&Queue>,
        commands: &Table,
    ) {
        self.tell_awaited(state);
        if row.lock_effect.is_on_all_keys() {
            return self.versions.clear();
        }
        let is_exec = row.kind == CommandKind::Transaction(TransactionCommand::Exec);
        let is_script = matches!(row.kind, CommandKind::Script(_));
        if !is_exec && !is_script && !uses_data(row)
            || line.reply.first().is_some_and(|kind| matches!(kind, b'-' | b'!'))
        {
            return;
        }
        self.note_party(state, line);
        let mut moment = Moment {
            server: line.server,
            client: line.client,
            seq: line.seq,
            place: line.place,
            at: line.at,
            real: line.real.saturating_add(line.front.slack),
            earliest: line.earliest.saturating_sub(line.front.slack),
            is_placed: line.order == EffectOrder::Total,
        };
        let is_known = !line.is_unplaced && !line.is_cut && line.outcome != Outcome::Unknown && !line.is_stale;
        if !is_known || is_script && line.are_children_unknown {
            if !is_known {
                moment.earliest = i64::MIN;
                moment.is_placed = false;
            }
            return self.doubt(line, &moment, commands);
        }
        match () {
            () if is_exec && matches!(ReplyValue::of(line.reply), ReplyValue::Null) => {}
            () if is_exec && line.are_children_unknown => {
                let Some(queue) = queue.filter(|queue| !queue.is_cut) else {
                    return self.versions.forget_reads_of(line.server, line.client);
                };
                for ((db, words), reply) in queue.commands.iter().zip(reply_elements(line.reply)) {
                    let words: SmallVec<[&[u8]; 8]> = words.iter().map(Vec::as_slice).collect();
                    self.note_inside(state, line, &moment, (*db, &words, reply), Within::Transaction, commands);
                }
            }
            () if is_exec || is_script => line.with_nested(|nested| {
                let kinds = || nested.iter().filter_map(|command| commands.find(command.words.first()?));
                let reads = kinds().any(|row| uses_data(row) && !row.has_flag(Flag::Write));
                let writes = kinds().any(|row| row.has_flag(Flag::Write));
                let within = match (is_exec, reads, writes) {
                    (true, ..) => Within::Transaction,
                    (false, true, true) => Within::Script,
                    (false, true, false) => Within::ReadingScript,
                    (false, false, _) => Within::WritingScript,
                };
                for command in nested {
                    let within = if is_exec && command.depth > 1 { Within::Script } else { within };
                    if command.is_cut {
                        self.versions.forget_reads_of(line.server, line.client);
                    } else {
                        let words = (command.db, command.words.as_slice(), command.reply);
                        self.note_inside(state, line, &moment, words, within, commands);
                    }
                }
            }),
            () => {
                let reply = if line.outcome == Outcome::Answered { line.reply } else { b"" };
                let step = Step { row, db: line.db, words: &line.words, reply, within: Within::Nothing };
                self.note_step(state, line, &moment, &step, commands);
            }
        }
    }

    /// A command that EXEC or a script ran.
    fn note_inside(
        &mut self,
        state: &mut AuditState,
        line: &JournalLine<'_>,
        moment: &Moment,
        (db, words, reply): (u32, &[&[u8]], &[u8]),
        within: Within,
        commands: &Table,
    ) {
        let Some(row) = words.first().and_then(|name| commands.find(name)).filter(|row| uses_data(row)) else { return };
        if reply.first().is_none_or(|kind| !matches!(kind, b'-' | b'!')) {
            self.note_step(state, line, moment, &Step { row, db, words, reply, within }, commands);
        }
    }

    fn note_step(
        &mut self,
        state: &mut AuditState,
        line: &JournalLine<'_>,
        moment: &Moment,
        step: &Step<'_>,
        commands: &Table,
    ) {
        if matches!(step.row.kind, CommandKind::Script(_) | CommandKind::Transaction(_)) {
            return;
        }
        let keys = || keys_of(commands, step.words).to_vec();
        tell_uses(step.row, step.words, step.reply, keys, &mut |used| {
            let id = KeyVersions::part_id(line.server, step.db, used.key, used.part);
            if self.may_overwrite(id, &used, moment)
                && step.within != Within::Script
                && let Some(overwrite) = self.overwrite(state, line, moment, (id, step, &used))
            {
                match (overwrite.read.use_, step.within) {
                    (ReadUse::Shared, Within::Transaction) => self.judge_shared(state, line, &overwrite),
                    (ReadUse::Shared, _) => {}
                    _ => self.judge(state, line, moment, &overwrite),
                }
            }
            self.note_use(id, &used, moment, step);
            // The second of two tasks of one connection, whose watch has ended with the EXEC of the first.
            let is_second_open = || self.versions.read_by(id, moment.client).is_some_and(|read| read.before.is_some());
            if step.within == Within::Transaction
                && matches!(used.access, DataAccess::Write { .. })
                && watches_of(state, line, step.db, used.key) > 1
                && is_second_open()
            {
                self.versions.use_read(id, moment.client, ReadUse::Shared);
            }
        });
    }

    /// It is unknown what a command did, or when.
    fn doubt(&mut self, line: &JournalLine<'_>, moment: &Moment, commands: &Table) {
        self.versions.forget_reads_of(line.server, line.client);
        for key in keys_of(commands, &line.words) {
            let id = KeyVersions::part_id(line.server, line.db, key, b"");
            let write = KeptWrite::new(*moment, WriteKind::Removal, KeptValue::NONE, None, &line.words);
            self.versions.note_write(id, write);
        }
    }

    fn note_party(&mut self, state: &mut AuditState, line: &JournalLine<'_>) {
        let by = (line.server, line.client);
        let labels = line.client_labels();
        if self.parties.get(&by).is_some_and(|known| known.client.has_labels(labels)) {
            return;
        }
        if self.parties.len() >= MAX_PARTIES {
            self.forget();
        }
        let party = Party { client: state.meet_client_of(line), node: line.node().map(Arc::from) };
        state.note_companions(&party.client);
        Arc::make_mut(&mut self.parties).insert(by, party);
    }

    /// Whether a connection has used data under the name that it has.
    #[inline]
    pub fn has_met<'a>(&mut self, by: (u16, u64), labels: impl FnOnce() -> Labels<'a>) -> bool {
        if self.last_party != Some(by) {
            if !self.parties.get(&by).is_some_and(|known| known.client.has_labels(labels())) {
                return false;
            }
            self.last_party = Some(by);
        }
        true
    }

    /// A connection may have another name from now on.
    pub fn note_renamed(&mut self, by: (u16, u64)) {
        if self.last_party == Some(by) {
            self.last_party = None;
        }
    }

    /// A client has to do with locks from now on: other connections of its program may work for it.
    pub fn note_companion(&self, state: &mut AuditState, line: &JournalLine<'_>) {
        let client = state.client_of(line);
        let others = self.parties.values().filter(|party| party.client.may_work_for(&client));
        others.for_each(|party| state.note_companion(&party.client, (client.server, client.id)));
    }

    /// Whether what is known of a client is what a line with this name and process says.
    pub fn knows_by(&self, client: (u16, u64), labels: (&[u8], Option<&Arc<Process>>)) -> bool {
        self.parties.get(&client).is_none_or(|known| known.client.has_labels(labels))
    }

    /// Whether there is nothing to note of a script that has written, and used nothing but this key as a whole.
    pub fn may_skip_script(&self, by: (u16, u64), db: u32, key: &[u8]) -> bool {
        self.parties.contains_key(&by) && !self.versions.is_read(KeyVersions::part_id(by.0, db, key, b""))
    }

    /// Keeps what a command did.
    pub fn note_use(&mut self, id: PartId, used: &DataUse<'_>, moment: &Moment, step: &Step<'_>) {
        let client = moment.client;
        let is_read = matches!(used.access, DataAccess::Read(_));
        if !is_read && !self.versions.is_read(id) {
            return;
        }
        let basis = |versions: &KeyVersions, dependence: &dyn Fn(&KeptValue) -> Dependence| {
            let read = versions.read_by(id, client).filter(|read| read.use_ != ReadUse::Used)?;
            Some(Basis { moment: read.moment, command: read.command, dependence: dependence(&read.value) })
        };
        let (kind, value, basis) = match used.access {
            DataAccess::Read(_) | DataAccess::PartlyRead if step.within == Within::Script => {
                return self.versions.forget_read(id, client);
            }
            DataAccess::Read(value) => {
                let value = value.map_or(KeptValue::NONE, KeptValue::of);
                let open = self.versions.read_by(id, client).filter(|read| read.use_ == ReadUse::Open);
                let before = open.map(|read| (read.moment, read.command));
                let is_in_script = step.within == Within::ReadingScript;
                let read = KeptRead {
                    moment: *moment,
                    command: step.row.name,
                    value,
                    use_: ReadUse::Open,
                    is_in_script,
                    before,
                };
                return self.versions.note_read(id, read);
            }
            DataAccess::PartlyRead => return self.versions.forget_read(id, client),
            DataAccess::Delete => {
                if self.versions.read_by(id, client).is_some_and(|read| read.use_ == ReadUse::Open) {
                    self.versions.use_read(id, client, ReadUse::Deleted);
                }
                let write = KeptWrite::new(*moment, WriteKind::Removal, KeptValue::NONE, None, step.words);
                return self.versions.note_write(id, write);
            }
            DataAccess::Write { .. } if step.within == Within::Script => (WriteKind::Update, KeptValue::NONE, None),
            DataAccess::Write { value, .. } => {
                let times = (moment.at, moment.real);
                let basis = basis(&self.versions, &|old| old.dependence(value, times));
                (WriteKind::Value, KeptValue::of(value), basis)
            }
            DataAccess::Add(elements) => {
                let was_deleted = self.versions.read_by(id, client).is_some_and(|read| read.use_ == ReadUse::Deleted);
                match was_deleted {
                    true => {
                        let basis = basis(&self.versions, &|old| old.dependence_of_elements(elements));
                        (WriteKind::Value, KeptValue::NONE, basis)
                    }
                    false => (WriteKind::Update, KeptValue::NONE, None),
                }
            }
            DataAccess::Update => (WriteKind::Update, KeptValue::NONE, None),
            DataAccess::Replace => (WriteKind::Removal, KeptValue::NONE, None),
        };
        self.versions.use_read(id, client, ReadUse::Used);
        self.versions.note_write(id, KeptWrite::new(*moment, kind, value, basis, step.words));
    }

    // ---- judging

    /// The write of a client, if it had read the key and not written it since.
    fn overwrite<'u>(
        &self,
        state: &AuditState,
        line: &JournalLine<'_>,
        moment: &Moment,
        (id, step, used): (PartId, &Step<'_>, &DataUse<'u>),
    ) -> Option<Overwrite<'u>> {
        let client = self.parties.get(&(line.server, line.client))?;
        let read = match self.versions.read_by(id, moment.client) {
            Some(read) => read.clone(),
            None => self.read_of_program(id, &client.client)?.clone(),
        };
        let times = (moment.at, moment.real);
        let (new, expires, dependence) = match used.access {
            DataAccess::Write { value, expires } => {
                (NewValue::One(value), expires, read.value.dependence(value, times))
            }
            DataAccess::Add(elements) if read.use_ == ReadUse::Deleted => {
                let are_named = matches!(step.row.group, Group::Hash);
                let new = NewValue::Elements { words: elements, are_named };
                (new, false, read.value.dependence_of_elements(elements))
            }
            _ => return None,
        };
        let DataUse { key, part, .. } = *used;
        Some(Overwrite {
            db: step.db,
            key,
            part,
            id,
            read,
            new,
            expires,
            dependence,
            is_watched: watches_of(state, line, step.db, key) > 0,
            is_of_several: step.words.len() > 4,
            is_set_blindly: self.is_set_blindly(id, moment),
        })
    }

    /// Whether a client has written a part without a look at it after somebody had read it.
    fn is_set_blindly(&self, id: PartId, moment: &Moment) -> bool {
        let is_own = |write: &&KeptWrite| (write.moment.server, write.moment.client) == (moment.server, moment.client);
        let own = self.versions.writes_of(id).find(is_own);
        own.is_some_and(|own| own.kind == WriteKind::Value && own.basis.is_none())
    }

    /// The last read by another connection that may belong to a client's program, and to no other one that writes.
    pub fn read_of_program(&self, id: PartId, client: &ClientIdentity) -> Option<&KeptRead> {
        let writers = || self.versions.writes_of(id).filter_map(|write| self.party(&write.moment));
        let is_own = |read: &&KeptRead| {
            self.party(&read.moment).is_some_and(|reader| match reader.client.same_program(client) {
                SameProgram::Yes => true,
                SameProgram::No => false,
                SameProgram::Unknown => writers().all(|writer| {
                    writer.client.same_program(client) != SameProgram::Unknown
                        && writer.client.same_program(&reader.client) != SameProgram::Unknown
                }),
            })
        };
        let own = self.versions.reads_of(id).filter(|read| read.use_ != ReadUse::Used).filter(is_own);
        own.max_by_key(|read| (read.moment.real, read.moment.place))
    }

    pub fn party(&self, moment: &Moment) -> Option<&Party> {
        self.parties.get(&(moment.server, moment.client))
    }

    /// The last write of another program after a client's read, if that is lost now.
    fn lost_write(&self, client: &ClientIdentity, moment: &Moment, overwrite: &Overwrite<'_>) -> Option<KeptWrite> {
        let (id, read) = (overwrite.id, &overwrite.read);
        let mut lost: Option<&KeptWrite> = None;
        for write in self.versions.writes_of(id).filter(|write| !write.moment.is_before(&read.moment)) {
            if write.moment.client == client.id && write.moment.server == client.server {
                continue;
            }
            match self.party(&write.moment)?.client.same_program(client) {
                // The program has written since, from what it knew.
                SameProgram::Yes => return None,
                SameProgram::No | SameProgram::Unknown => {}
            }
            if lost.is_none_or(|lost| lost.moment.is_before(&write.moment)) {
                lost = Some(write);
            }
        }
        let lost = lost.filter(|lost| read.moment.is_before(&lost.moment) && lost.moment.is_before(moment))?;
        let writer = &self.party(&lost.moment)?.client;
        let is_stranger = writer.same_program(client) == SameProgram::No;
        // Has the program read it again?
        for again in self.versions.reads_of(id).filter(|again| !again.moment.is_before(&lost.moment)) {
            let reader = &self.party(&again.moment)?.client;
            let is_other = match reader.same_program(client) {
                SameProgram::Yes => false,
                SameProgram::No => true,
                SameProgram::Unknown => is_stranger && reader.is_same_connection(writer),
            };
            if !is_other {
                return None;
            }
        }
        match (lost.kind, overwrite.new) {
            (WriteKind::Removal, _) => None,
            (WriteKind::Value, NewValue::One(new)) if lost.value.is(new) => {
                // The same number twice may be two steps of one each, and the same list have lost one element for two.
                let is_seen = lost.basis.is_some_and(|basis| basis.dependence.is_seen());
                (is_seen && overwrite.dependence.is_seen()).then(|| lost.clone())
            }
            (WriteKind::Value, NewValue::One(_)) if !lost.value.is_none() && lost.value.is_equal(&read.value) => None,
            _ => Some(lost.clone()),
        }
    }

    fn judge(&mut self, state: &mut AuditState, line: &JournalLine<'_>, moment: &Moment, overwrite: &Overwrite<'_>) {
        if state.locks.find(line.server, overwrite.db, overwrite.key).is_some_and(Lock::is_known) {
            return;
        }
        let client = state.client_of(line);
        let Some(lost) = self.lost_write(&client, moment, overwrite) else { return };
        let Some(mut other) = self.party(&lost.moment).cloned() else { return };
        other.client.seen = lost.moment.real;
        let Party { client: writer, .. } = &other;
        let reader = self.party(&overwrite.read.moment).map(|party| &party.client);
        let signs = overwrite.signs(&client, reader, (&lost, writer));
        let severity = signs.severity(is_matched(&state.scope, overwrite.key));
        let section = |client: &ClientIdentity, read: &Moment, write: &Moment| Section {
            client: client.clone(),
            read: *read,
            write: *write,
        };
        let own = section(&client, &overwrite.read.moment, moment);
        let others = section(writer, &lost.basis.map_or(lost.moment, |basis| basis.moment), &lost.moment);
        let key = LockId { server: line.server, db: overwrite.db, key: overwrite.key.into() };
        let locks =
            IntendedLocks::of((&state.locks, &state.clients), (&state.forgotten, &state.refused), &key, &own, &others);
        let is_certain_by_locks = signs.are_certain_by(&locks);
        let (ids, shows_a_lock) = (locks.ids(), signs.show_a_lock(&locks));
        if shows_a_lock {
            let source = AuditState::source_of(line, &client);
            for id in &ids {
                state.with_lock(id, None, source.clone(), |tracker| tracker.note_reason(LockReason::Around));
            }
        }
        let are_known = shows_a_lock || ids.iter().all(|id| state.locks.is_known(id));
        let is_error = severity == Severity::Error || is_certain_by_locks && are_known;
        let severity = if is_error { Severity::Error } else { severity };
        if severity == Severity::Note {
            if self.notes >= MAX_NOTES && !is_certain_by_locks {
                return;
            }
            self.notes += 1;
        }
        let why = locks.explanation(&client, writer);
        let finding = |severity: Severity| {
            let (sentence, evidence) = self.told(line, &client, overwrite, (&lost, &other), &why);
            let mut evidence = evidence;
            evidence.extend(locks.evidence());
            evidence.sort_by_key(|evidence| (evidence.source.real, evidence.source.server, evidence.source.seq));
            evidence
                .dedup_by(|one, other| (one.source.server, one.source.seq) == (other.source.server, other.source.seq));
            found_in(line, overwrite, (severity, sentence, evidence), client.id)
        };
        let found = finding(severity);
        state.collector.add(found);
        if is_certain_by_locks && !is_error && self.awaited.len() < MAX_AWAITED {
            let finding = Finding { times: 0, ..finding(Severity::Error) };
            self.awaited.push(Awaited { finding, locks: ids });
        }
    }

    /// Two tasks of one connection have watched, read and written a key. The EXEC of the first one has ended the watch of
    /// the second, too.
    fn judge_shared(&self, state: &mut AuditState, line: &JournalLine<'_>, overwrite: &Overwrite<'_>) {
        if overwrite.is_watched || !is_matched(&state.scope, overwrite.key) {
            return;
        }
        let own = |write: &&KeptWrite| (write.moment.server, write.moment.client) == (line.server, line.client);
        let Some(party) = self.parties.get(&(line.server, line.client)) else { return };
        let (Some(first), Some((before, command))) =
            (self.versions.writes_of(overwrite.id).find(own), overwrite.read.before)
        else {
            return;
        };
        let client = state.client_of(line);
        let words = |command: &str| short_line(&[command.as_bytes(), overwrite.key]);
        let evidence = vec![
            source_of(&before, party, words(command)).shows("read it for one task"),
            source_of(&overwrite.read.moment, party, words(overwrite.read.command)).shows("read it for another one"),
            source_of(&first.moment, party, short_line(&first.words())).shows("wrote it, and ended the watch of both"),
            AuditState::source_of(line, &client).shows("wrote it unwatched: the other write is lost"),
        ];
        let sentence = format!(
            "Two tasks shared the connection of {}: the EXEC of one ended the watch of both, and what it had written to `{}` was \
             overwritten and is lost",
            client.display_name(),
            String::from_utf8_lossy(overwrite.key),
        );
        state.collector.add(found_in(line, overwrite, (Severity::Error, sentence, evidence), client.id));
    }

    /// The sentence, and the two reads and the two writes.
    fn told(
        &self,
        line: &JournalLine<'_>,
        client: &ClientIdentity,
        overwrite: &Overwrite<'_>,
        (lost, other): (&KeptWrite, &Party),
        why: &str,
    ) -> (String, Vec<Evidence>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let what = match overwrite.part {
            b"" => format!("`{}`", text(overwrite.key)),
            part => format!("`{}` of `{}`", text(part), text(overwrite.key)),
        };
        let names: SmallVec<[&[u8]; 3]> =
            [overwrite.key, overwrite.part].into_iter().filter(|name| !name.is_empty()).collect();
        let read_line = |command: &str| {
            let words: SmallVec<[&[u8]; 3]> =
                std::iter::once(command.as_bytes()).chain(names.iter().copied()).collect();
            short_line(&words)
        };
        let mut evidence = Vec::new();
        let read = &overwrite.read;
        if let Some(reader) = self.party(&read.moment) {
            let source = source_of(&read.moment, reader, read_line(read.command));
            evidence.push(source.shows(told_read(&read.value)));
        }
        if let Some(basis) = &lost.basis {
            let source = source_of(&basis.moment, other, read_line(basis.command));
            let kept = self.versions.read_by(overwrite.id, other.client.id);
            let kept =
                kept.filter(|kept| (kept.moment.server, kept.moment.seq) == (basis.moment.server, basis.moment.seq));
            evidence.push(source.shows(kept.map_or_else(|| "read it, too".to_owned(), |kept| told_read(&kept.value))));
        }
        let is_same = matches!(overwrite.new, NewValue::One(new) if lost.value.is(new));
        let source = source_of(&lost.moment, other, short_line(&lost.words()));
        evidence.push(source.shows(if is_same { "wrote it" } else { "wrote it: this is lost" }));
        let source = AuditState::source_of(line, client);
        let from = match overwrite.dependence {
            Dependence::NothingRead => ", and had found nothing there",
            Dependence::Number | Dependence::Text | Dependence::Same => " from what it had read before",
            Dependence::Unseen | Dependence::Time => ", and had read it before",
        };
        // A watch that had begun before the other write would have stopped it.
        let watch = if overwrite.is_watched { WATCHED_LATE } else { "" };
        let same = if is_same { "wrote the same" } else { "wrote it" };
        evidence.push(source.shows(format!("{same}{from}{watch}")));
        let basis = match overwrite.dependence {
            Dependence::NothingRead => "it had found nothing there before",
            Dependence::Number | Dependence::Text | Dependence::Same => "it wrote from what it had read before",
            Dependence::Unseen | Dependence::Time => "it had read it before",
        };
        let over = match self.party(&read.moment).filter(|reader| !reader.client.is_same_connection(client)) {
            Some(reader) => format!(" (it had read it as {})", reader.client.display_name()),
            None => String::new(),
        };
        let (one, two) = (client.display_name(), other.client.display_name());
        let sentence = match is_same {
            true => {
                format!("{one} wrote the same to {what} as {two} had in between, so that one of two changes is lost")
            }
            false => format!("{one} overwrote what {two} had written to {what} in between, which is lost"),
        };
        (format!("{sentence}: {basis}{watch}{over}{why}"), evidence)
    }

    // ---- what waits

    /// Tells what waited for keys to be taken for locks.
    pub fn tell_awaited(&mut self, state: &mut AuditState) {
        if self.awaited.is_empty() || self.known_locks == state.collector.locks {
            return;
        }
        self.known_locks = state.collector.locks;
        for awaited in std::mem::take(&mut self.awaited) {
            let is_known = |id: &Arc<LockId>| state.locks.get(id).is_some_and(Lock::is_known);
            match awaited.locks.iter().all(is_known) {
                true => state.collector.add(awaited.finding),
                false => self.awaited.push(awaited),
            }
        }
    }
}

/// What a client was told by its read.
fn told_read(value: &KeptValue) -> String {
    match (value.is_none(), value.shown()) {
        (true, _) => "found nothing there".to_owned(),
        (false, Some(value)) if !value.contains("\r\n") => format!("read {value}"),
        (false, _) => "read it".to_owned(),
    }
}

/// How often a client watches a key.
fn watches_of(state: &AuditState, line: &JournalLine<'_>, db: u32, key: &[u8]) -> usize {
    let watched = state.clients.get(&(line.server, line.client)).map(|client| client.watched.as_slice());
    watched.unwrap_or_default().iter().filter(|(other, watched, _)| *other == db && **watched == *key).count()
}

/// Whether the user says that a key's data must not be lost.
fn is_matched(scope: &Scope, key: &[u8]) -> bool {
    scope.resources.iter().any(|glob| glob::matches(glob, key, false))
}

fn found_in(
    line: &JournalLine<'_>,
    overwrite: &Overwrite<'_>,
    (severity, sentence, evidence): (Severity, String, Vec<Evidence>),
    culprit: u64,
) -> Finding {
    Finding {
        code: Code::LostUpdate,
        severity,
        server: line.server,
        db: overwrite.db,
        key: overwrite.key.into(),
        sentence,
        evidence,
        times: 1,
        seq: line.seq,
        last_seq: line.seq,
        at: line.at,
        culprit,
        allowed: None,
        mark: None,
    }
}

pub fn source_of(moment: &Moment, party: &Party, line: String) -> JournalRef {
    JournalRef {
        server: moment.server,
        seq: moment.seq,
        at: moment.at,
        real: moment.real,
        earliest: moment.earliest,
        place: moment.place,
        node: party.node.clone(),
        client: moment.client,
        name: Arc::clone(&party.client.name),
        process: party.client.process.clone(),
        line: Arc::from(line),
    }
}
