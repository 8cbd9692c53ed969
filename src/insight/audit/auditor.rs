//! Goes through journals line by line: from a line to the effects of its commands, and from those to the locks.

use std::borrow::Cow;
use std::sync::Arc;

use super::audit_state::AuditState;
use super::carried_holds::CarriedHolds;
use super::claims::Claims;
use super::client_state::Watched;
use super::command_effects::{Executed, effects_of, lock_key};
use super::cross_slot::{CrossSlots, UsedBefore};
use super::declared_locks::DeclaredLocks;
use super::effect::{Effect, KeyEffect, KeyEffects};
use super::effect_order::WaitingLines;
use super::finding::{Finding, JournalRef};
use super::free_looks::{FreeLook, looks_at};
use super::journal_line::{JournalLine, NestedCommand, NestedWords};
use super::key_transfer::{Destination, flush, swap_databases, transfer};
use super::known_nodes::KnownNodes;
use super::last_client::LastClient;
use super::learned_locks::LearnedLocks;
use super::lock::{FlushCause, Lock, LockId};
use super::lock_explanation::{LockExplanation, explain_key};
use super::lock_reason::LockReason;
use super::lock_table::is_active;
use super::lost_update::LostUpdates;
use super::missing_replies::{
    Conclusion, KnownKeys, ScriptCommand as NestedScriptCommand, concluded_effects, keys_of, replies_in_script,
    takes_free_keys, unknown_effects,
};
use super::presumed_locks::PresumedLocks;
use super::queued_commands::{Queue, QueuedCommands};
use super::replaced_masters::{
    look_for_two_masters, lose, note_promotion, note_refused_release, note_replacement, note_wait,
};
use super::reply_value::{ReplyValue, reply_elements};
use super::rules::may_be_owner;
use super::scope::Scope;
use super::script_effects::{KnownScripts, effects_without_children, merged_effects, script_effects};
use super::timeline::LockTimeline;
use super::watched_keys::{note_watched_read, unwatch, watch, with_watched};
use super::work_after_loss::note_work;
use crate::base::duration::parse_duration;
use crate::base::hash_slot::hash_slot;
use crate::powers::{EffectOrder, EventKind, Outcome, RecordHeader};
use crate::spec::{CommandKind, LockEffect, ScriptCommand, Table, TransactionCommand};

/// Audits the journals of one or more servers. The same journals give the same findings.
#[derive(Clone)]
pub struct Auditor {
    /// The rows of all commands that may be in the journals.
    pub(super) commands: Table,
    pub(super) state: AuditState,
    pub(super) scripts: KnownScripts,
    /// What waits for EXEC, of journals that do not say what it ran.
    queued: QueuedCommands,
    /// What is known of the nodes of deployments.
    nodes: KnownNodes,
    /// What a Cluster would refuse.
    cross_slots: CrossSlots,
    /// The locks that are no strings.
    pub(super) declared: DeclaredLocks,
    /// The keys that are no strings and may be locks.
    pub(super) presumed: PresumedLocks,
    /// Who removed which members.
    pub(super) claims: Claims,
    /// Who read and wrote which data.
    pub(super) data: LostUpdates,
    /// Lines of upstream servers whose place in the order is not decided yet.
    waiting: WaitingLines,
    /// How many lines left it.
    places: u64,
    /// Moves of clocks that are about to happen: server, number of the line that says so, and the time to move to.
    clock_moves: Vec<(u16, u64, i64)>,
    pub(super) last_client: LastClient,
    /// How many lines were processed.
    pub lines: u64,
}

impl Auditor {
    /// The rows of all commands that may be in the journals.
    pub fn commands(&self) -> &Table {
        &self.commands
    }

    pub fn new(scope: Arc<Scope>, commands: Table) -> Self {
        let (state, scripts) = (AuditState::new(scope), KnownScripts::default());
        let (queued, cross_slots, waiting) =
            (QueuedCommands::default(), CrossSlots::default(), WaitingLines::default());
        let (nodes, clock_moves, data) = (KnownNodes::default(), Vec::new(), LostUpdates::default());
        let (declared, presumed, claims) = (DeclaredLocks::default(), PresumedLocks::default(), Claims::default());
        Self {
            commands,
            state,
            scripts,
            queued,
            nodes,
            cross_slots,
            declared,
            presumed,
            claims,
            data,
            waiting,
            places: 0,
            clock_moves,
            last_client: LastClient::default(),
            lines: 0,
        }
    }

    /// Also keeps the timeline that a report draws. It takes memory for each command about a lock.
    pub fn with_timeline(mut self) -> Self {
        self.state.timeline = Some(LockTimeline::default());
        self
    }

    // ---- results

    /// All findings so far, in the order in which they were found.
    pub fn findings(&self) -> &[Arc<Finding>] {
        self.state.collector.findings()
    }

    /// How many findings were dropped because the list was full.
    pub fn unlisted(&self) -> u64 {
        self.state.collector.unlisted
    }

    /// How many keys were taken for locks.
    pub fn lock_count(&self) -> u64 {
        self.state.collector.locks
    }

    /// About how many bytes it takes to know what is known.
    pub fn memory(&self) -> usize {
        /// A client with what it has read.
        const CLIENT: usize = 1024;
        self.state.locks.memory()
            + self.state.guesses.memory()
            + self.state.clients.len() * CLIENT
            + self.finding_memory()
    }

    /// About how many bytes of that the findings take.
    pub fn finding_memory(&self) -> usize {
        self.state.collector.bytes()
    }

    /// Sets how many bytes the findings may take. Those that are there stay.
    pub fn limit_finding_memory(&mut self, bytes: usize) {
        self.state.collector.set_most_bytes(bytes);
    }

    /// How many keys are tracked that are locks or may be.
    pub fn tracked_keys(&self) -> usize {
        self.state.locks.len()
    }

    /// Who held which lock when, if that is kept.
    pub fn timeline(&self) -> Option<&LockTimeline> {
        self.state.timeline.as_ref()
    }

    /// The marks so far.
    pub fn marks(&self) -> &[Arc<str>] {
        self.state.collector.marks.texts()
    }

    /// The lock that a finding is about.
    pub fn lock_of(&self, finding: &Finding) -> Option<Cow<'_, Lock>> {
        self.state.locks.look(finding.server, finding.db, &finding.key)
    }

    /// Findings of resets that count unless a holder comes back.
    pub fn carried(&self) -> CarriedHolds {
        self.state.carried.clone()
    }

    /// The names of locks that were learned before a reset.
    pub fn learned(&self) -> Arc<LearnedLocks> {
        Arc::clone(&self.state.learned)
    }

    /// Learns the names of the locks so far.
    pub fn learn_names(&self, learned: &mut LearnedLocks) {
        for kept in self.state.locks.known() {
            kept.teach(learned);
        }
    }

    /// Goes on with what was known before a reset.
    pub fn inherit(&mut self, learned: Arc<LearnedLocks>, carried: CarriedHolds) {
        (self.state.learned, self.state.carried) = (learned, carried);
    }

    /// All keys that are taken for locks, in the order of servers, databases and keys.
    pub fn known_locks(&self) -> Vec<Arc<LockId>> {
        self.state.locks.known().into_iter().map(|kept| Arc::clone(kept.id())).collect()
    }

    /// Why a key is taken for a lock, or not, on each server and in each database in which it was seen.
    pub fn explain_key(&self, key: &[u8]) -> Vec<LockExplanation> {
        explain_key(&self.state, &self.presumed, key)
    }

    /// All locks that clients hold or wait for, in the order of servers, databases and keys. `now` tells for a server the
    /// time on its clock and the real time, in microseconds; holds that are over by then are left out.
    pub fn active_locks(&mut self, now: impl Fn(u16) -> (i64, i64)) -> Vec<Lock> {
        for id in self.known_locks() {
            let (at, real) = now(id.server);
            // Nothing happens to a lock at rest before it is over.
            let rests = self.state.locks.kept(&id).is_some_and(|kept| kept.rests_until().is_some_and(|end| end > at));
            if !rests {
                let source = Arc::new(JournalRef { at, real, earliest: real, ..self.state.last_line(id.server) });
                self.state.with_lock(&id, None, source, |tracker| tracker.advance_time(at, real));
            }
        }
        let ids = self.state.locks.ids(|_| true, is_active);
        let look = |id: &Arc<LockId>| Some(self.state.locks.look(id.server, id.db, &id.key)?.into_owned());
        ids.iter().filter_map(look).collect()
    }

    /// A copy that knows of those locks alone that clients hold or wait for.
    pub fn active(&self) -> Self {
        Self {
            state: self.state.active(),
            nodes: self.nodes.clone(),
            lines: self.lines,
            ..Self::new(Arc::clone(&self.state.scope), self.commands.clone())
        }
    }

    // ---- settings

    /// Changes what is looked for. What was found before is judged by the new allowances.
    pub fn set_scope(&mut self, scope: Arc<Scope>) {
        self.state.collector.set_scope(Arc::clone(&scope));
        self.state.scope = scope;
    }

    /// Lines of a server are missing: who holds what there is unknown. The findings stay.
    pub fn note_gap(&mut self, server: u16) {
        self.last_client.forget();
        self.state.forget_locks(server);
        self.declared.forget(server);
        self.presumed.forget(server);
        self.claims.forget(server);
        self.queued.forget(server);
        self.waiting.forget(server);
        self.data.forget();
    }

    /// A server begins anew: forgets it and its findings.
    pub fn forget_server(&mut self, server: u16) {
        self.note_gap(server);
        self.state.forget_server(server);
        self.nodes.forget(server);
        self.cross_slots.forget(server);
        self.data.forget_findings();
        self.clock_moves.retain(|(moved, ..)| *moved != server);
    }

    /// Forgets the findings. Who holds what stays known.
    pub fn forget_findings(&mut self) {
        self.state.collector.forget(None);
        self.data.forget_findings();
    }

    // ---- lines

    /// Looks at the locks of lines that come next, so that their memory is fetched together.
    pub fn fetch_ahead<'h>(&self, server: u16, headers: impl Iterator<Item = RecordHeader<'h>>) {
        self.state.locks.fetch_ahead(server, headers.filter_map(|header| lock_key(&self.commands, &header)));
    }

    /// Processes the next line. The lines of one server come in the order of their numbers.
    pub fn process_line(&mut self, line: &JournalLine<'_>) {
        self.lines += 1;
        if self.nodes.note(line, &self.commands) {
            let mut stale = line.clone();
            stale.is_stale = true;
            return self.place_line(&stale);
        }
        self.place_line(line);
    }

    fn place_line(&mut self, line: &JournalLine<'_>) {
        if line.order == EffectOrder::Total && self.waiting.is_empty() {
            return self.apply_line(line);
        }
        self.waiting.push(line, line.to_item(), &self.commands);
        if let Some(until) = self.waiting.due() {
            self.settle(until);
        }
    }

    /// Whether there are lines whose place in the order is not decided yet.
    pub fn has_waiting_lines(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Decides the places of all lines up to a moment, in microseconds of real time: no line comes any more that was sent
    /// before it.
    pub fn settle(&mut self, until: i64) {
        let mut waiting = std::mem::take(&mut self.waiting);
        let known = |auditor: &Self, line: &JournalLine<'_>, db: u32, key: &[u8]| {
            let lock = auditor.state.locks.find(line.server, db, key);
            let is_clocked = lock.is_some_and(|lock| lock.reasons.has(LockReason::Timestamp));
            (auditor.state.knowledge(line, db, key), is_clocked)
        };
        waiting.settle(until, self, known, |auditor: &mut Self, mut line: JournalLine<'_>| {
            auditor.places += 1;
            line.place = auditor.places;
            auditor.apply_line(&line);
        });
        self.waiting = waiting;
    }

    /// Processes a line whose place in the order is decided.
    fn apply_line(&mut self, line: &JournalLine<'_>) {
        self.last_client.forget();
        (self.state.is_loose, self.state.is_stale) = (line.is_loose, line.is_stale);
        self.state.advance_time(line.server, line.seq, (line.at, line.real), line.earliest);
        self.state.collector.note_line(line);
        self.declared.note(&mut self.state, line, &self.commands);
        let data = &self.data;
        self.presumed.note(&mut self.state, line, &self.commands, |state, key| looks_at(data, state, line, key));
        self.claims.note(&mut self.state, line, &self.commands);
        match line.event {
            Some(EventKind::Closed) => {
                self.queued.clear(line);
                self.state.collector.note_connection_event(line.server);
                return self.state.close_connection(line);
            }
            Some(EventKind::Started) => {
                if line.words.first().is_some_and(|detail| *detail == b"empty") {
                    self.data.forget();
                    flush(&mut self.state, line, None, FlushCause::Restart);
                }
                return;
            }
            Some(EventKind::Clock) => return self.note_clock_move(line),
            Some(EventKind::Evicted) => return self.state.evict(line),
            Some(EventKind::Missing) => return self.note_gap(line.server),
            Some(EventKind::Promoted) => return self.fail_over(line),
            Some(EventKind::Mark) => return self.state.collector.note_mark(line),
            Some(EventKind::Lost) => return lose(&mut self.state, line),
            Some(EventKind::Replaced) => return note_replacement(&mut self.state, line),
            Some(EventKind::Topology | EventKind::Link) => return,
            None if line.is_queued() => return self.queued.add(line),
            None if line.outcome == Outcome::NeverRan => return self.state.note_unanswered(line),
            None => {}
        }
        let Some(row) = line.words.first().and_then(|name| self.commands.find(name)) else { return };
        let (kind, lock_effect) = (row.kind, row.lock_effect);
        let used = UsedBefore::of(&self.state, self.queued.of(line), line, (kind, lock_effect), &self.commands);
        if line.was_sent_away() {
            if kind == CommandKind::Transaction(TransactionCommand::Exec) {
                self.queued.clear(line);
                unwatch(&mut self.state, line);
            }
            note_refused_release(&mut self.state, line, lock_effect);
            return self.cross_slots.note(&mut self.state, line, used, &self.commands);
        }
        if row.name == "WAIT" {
            note_wait(&mut self.state, line);
        }
        self.state.looks = self.looks_before(line, lock_effect);
        self.data.note_line(&mut self.state, line, row, self.queued.of(line), &self.commands);
        let is_known = !line.is_unplaced && !line.is_cut && line.outcome != Outcome::Unknown;
        let met = self.state.clients.len();
        match kind {
            _ if !is_known => self.doubt(line, kind, lock_effect),
            CommandKind::Transaction(TransactionCommand::Exec) => self.process_exec(line),
            CommandKind::Transaction(TransactionCommand::Watch) => watch(&mut self.state, line),
            CommandKind::Transaction(TransactionCommand::Unwatch | TransactionCommand::Discard) => {
                self.queued.clear(line);
                unwatch(&mut self.state, line);
            }
            CommandKind::Transaction(TransactionCommand::Multi) => {}
            CommandKind::Script(script) if line.are_children_unknown => self.process_unknown_script(line, script),
            CommandKind::Script(_) => self.process_script(line),
            CommandKind::Keys
            | CommandKind::Blocking
            | CommandKind::Database
            | CommandKind::Everything
            | CommandKind::Connection
            | CommandKind::Debug
            | CommandKind::Library
            | CommandKind::Container => self.process_command(line, lock_effect),
        }
        if self.state.clients.len() > met {
            self.data.note_companion(&mut self.state, line);
        }
        note_work(&mut self.state, line, kind, &self.commands);
        self.cross_slots.note(&mut self.state, line, used, &self.commands);
    }

    /// Who has found the key free that a command sets. Such a key may be a lock that is taken in two steps.
    fn looks_before(&self, line: &JournalLine<'_>, lock_effect: LockEffect) -> Vec<FreeLook> {
        let value = match lock_effect {
            LockEffect::SetByOptions => line.words.get(2),
            LockEffect::SetWithTtl(_) => line.words.get(3),
            _ => None,
        };
        let (Some(key), Some(value)) = (line.words.get(1), value) else { return Vec::new() };
        let looks = looks_at(&self.data, &self.state, line, key);
        if looks.is_empty() || may_be_owner(value) { looks } else { Vec::new() }
    }

    /// The journals end.
    pub fn finish(&mut self) {
        self.finish_where(|_| true, Self::finish_lock);
    }

    /// The journal of a server ends, and nothing but the findings is of interest.
    pub fn find_last_on(&mut self, server: u16) {
        self.finish_where(|number| number == server, Self::look_at_end);
    }

    /// The journals end, and nothing but the findings is of interest.
    pub fn find_last(&mut self) {
        self.finish_where(|_| true, Self::look_at_end);
    }

    fn finish_where(&mut self, is_meant: impl Fn(u16) -> bool, finish: impl Fn(&mut Self, &LockId)) {
        self.settle(i64::MAX);
        for id in self.state.locks.ids_in_use().into_iter().filter(|id| is_meant(id.server)) {
            finish(self, &id);
        }
        self.data.tell_awaited(&mut self.state);
        self.claims.finish(&mut self.state);
    }

    /// Finishes a lock, and leaves it as it was unless it became known, so that a copy of an auditor goes on sharing it.
    fn look_at_end(&mut self, id: &LockId) {
        let before = self.state.locks.kept(id);
        self.finish_lock(id);
        let is_known = self.state.locks.get(id).is_some_and(Lock::is_known);
        if let Some(before) = before.filter(|before| before.reasons().are_enough() == is_known) {
            self.state.locks.put_back(before);
        }
    }

    fn finish_lock(&mut self, id: &LockId) {
        let mut source = self.state.last_line(id.server);
        // A clock that is moved by the last line shows its new time in no other.
        let moved = self.clock_moves.iter().find(|(server, seq, _)| (*server, *seq) == (source.server, source.seq));
        source.at = moved.map_or(source.at, |(.., to)| source.at.max(*to));
        let (at, real) = (source.at, source.real);
        self.state.with_lock(id, None, Arc::new(source), |tracker| {
            tracker.advance_time(at, real);
            tracker.finish();
        });
    }

    /// A node is replaced by another one.
    fn fail_over(&mut self, line: &JournalLine<'_>) {
        note_promotion(&mut self.state, line);
        if self.nodes.is_synchronised(line) {
            return;
        }
        let nodes = &self.nodes;
        self.state.fail_over(line, |id| nodes.owner(id.server, hash_slot(&id.key)).map(Arc::from));
    }

    /// A clock is about to be moved. The consequences come in lines of their own, each with its time.
    fn note_clock_move(&mut self, line: &JournalLine<'_>) {
        let by = line.words.first().and_then(|detail| parse_duration(detail.strip_prefix(b"+")?));
        let Some(by) = by.and_then(|by| i64::try_from(by.as_micros()).ok()) else { return };
        self.clock_moves.retain(|(server, ..)| *server != line.server);
        self.clock_moves.push((line.server, line.seq, line.at.saturating_add(by)));
    }

    fn process_command(&mut self, line: &JournalLine<'_>, kind: LockEffect) {
        if line.lacks_reply() {
            let keys = keys_of(&self.commands, &line.words);
            let mut known = KnownKeys::new(|db, key: &[u8]| self.state.knowledge(line, db, key));
            let conclusion = known.conclude(kind, line.db, &line.words, &keys);
            for effect in concluded_effects(kind, line.db, &line.words, &keys, &conclusion) {
                self.apply(line, &effect);
            }
            return;
        }
        let executed = Executed { db: line.db, words: &line.words, reply: line.reply };
        for effect in effects_of(kind, executed) {
            if let Effect::Read { value } = effect.effect {
                note_watched_read(&mut self.state, line, effect.key, value);
            }
            self.apply(line, &effect);
        }
    }

    fn apply(&mut self, line: &JournalLine<'_>, effect: &KeyEffect<'_>) {
        match effect.effect {
            Effect::Flush { all } => {
                flush(&mut self.state, line, (!all).then_some(effect.db), FlushCause::Flush);
            }
            Effect::SwapDatabases { one, other } => swap_databases(&mut self.state, line, one, other),
            Effect::Transfer { to_db, to_key, kind, done } => {
                let to = Destination { db: to_db, key: to_key };
                transfer(&mut self.state, line, effect, (&to, kind, done));
            }
            Effect::Take { .. }
            | Effect::Set { .. }
            | Effect::Arrive { .. }
            | Effect::Read { .. }
            | Effect::Delete { .. }
            | Effect::Expire { .. }
            | Effect::NotOwned { .. }
            | Effect::AddMember { .. }
            | Effect::RemoveMember { .. }
            | Effect::OtherWrite
            | Effect::Unknown { .. } => self.state.apply(line, effect),
        }
        if !self.state.global.replacements().is_empty() {
            look_for_two_masters(&mut self.state, line, effect.db, effect.key);
        }
    }

    // ---- scripts and transactions

    fn process_script(&mut self, line: &JournalLine<'_>) {
        line.with_nested(|nested| {
            if nested.iter().any(|command| command.is_cut) {
                // Which keys it changed is not known for certain.
                return self.doubt_script(line);
            }
            if nested.iter().any(|command| command.reply.is_empty()) {
                return self.process_script_without_replies(line, nested);
            }
            for effect in script_effects(&line.words, nested, 1, &self.commands, &mut self.scripts) {
                self.apply(line, &effect);
            }
        });
    }

    /// The journal does not say what the script did.
    fn process_unknown_script(&mut self, line: &JournalLine<'_>, script: ScriptCommand) {
        let (ScriptCommand::Eval { read_only }
        | ScriptCommand::EvalSha { read_only }
        | ScriptCommand::Function { read_only }) = script;
        if !read_only {
            self.doubt_script(line);
        }
    }

    /// A script may have done anything to the locks that it was given, or that its words name.
    fn doubt_script(&mut self, line: &JournalLine<'_>) {
        let is_lock = |word: &&&[u8]| self.state.locks.find(line.server, line.db, word).is_some();
        let named: Vec<&[u8]> = line.words.iter().skip(1).filter(is_lock).copied().collect();
        for effect in effects_without_children(&line.words, line.db, line.reply, named) {
            self.apply(line, &effect);
        }
        // A script without keys of its own may make their names of its arguments.
        if line.words.get(2).is_none_or(|count| *count == b"0") && !line.reply.starts_with(b"-NOSCRIPT") {
            let is_alike = |word: &&[u8], key: &[u8]| {
                word.len() >= 3 && (contains(key, word) || contains(word, key)) && !key.is_empty()
            };
            let is_named =
                |id: &LockId| id.db == line.db && line.words.iter().skip(1).any(|word| is_alike(word, &id.key));
            self.state.doubt(line, is_named);
        }
    }

    /// The journal says what the script ran, but not what that replied.
    fn process_script_without_replies(&mut self, line: &JournalLine<'_>, nested: &[NestedCommand<'_>]) {
        let commands: Vec<NestedScriptCommand<'_>> = nested
            .iter()
            .filter(|command| command.depth == 1)
            .filter_map(|command| {
                let kind = self.commands.find(command.words.first()?)?.lock_effect;
                let keys = keys_of(&self.commands, &command.words).to_vec();
                Some(NestedScriptCommand { kind, db: command.db, words: &command.words, keys })
            })
            .collect();
        let count = line.words.get(2).and_then(|count| std::str::from_utf8(count).ok()?.parse().ok()).unwrap_or(0usize);
        let args = line.words.get(count.saturating_add(3)..).unwrap_or_default();
        let mut known = KnownKeys::new(|db, key: &[u8]| self.state.knowledge(line, db, key));
        let mut conclusions = replies_in_script(&commands, args, &mut known);
        // Of some commands the reply can be known: it followed from that of the script.
        let is_row = |command: &&NestedCommand<'_>| {
            command.depth == 1 && command.words.first().is_some_and(|name| self.commands.find(name).is_some())
        };
        for (conclusion, command) in conclusions.iter_mut().zip(nested.iter().filter(is_row)) {
            if !command.reply.is_empty() {
                *conclusion = Conclusion::Reply(command.reply.to_vec());
            }
        }
        let replied: Vec<NestedCommand<'_>> = commands
            .iter()
            .zip(&conclusions)
            .filter_map(|(command, conclusion)| match conclusion {
                Conclusion::Reply(reply) => Some(NestedCommand {
                    depth: 1,
                    db: command.db,
                    words: NestedWords::from_slice(command.words),
                    reply,
                    is_cut: false,
                }),
                Conclusion::Gone | Conclusion::Unknown => None,
            })
            .collect();
        let mut effects = script_effects(&line.words, &replied, 1, &self.commands, &mut self.scripts);
        for (command, conclusion) in commands.iter().zip(&conclusions) {
            if !matches!(conclusion, Conclusion::Reply(_)) {
                let NestedScriptCommand { kind, db, words, keys } = command;
                effects.extend(concluded_effects(*kind, *db, words, keys, conclusion));
            }
        }
        for effect in &effects {
            self.apply(line, effect);
        }
    }

    /// It is unknown what a command did, or when: what it may have changed is in doubt.
    fn doubt(&mut self, line: &JournalLine<'_>, kind: CommandKind, lock_effect: LockEffect) {
        match (kind, lock_effect) {
            (_, LockEffect::FlushDatabase) => self.state.doubt(line, |id| id.db == line.db),
            (_, LockEffect::FlushAll | LockEffect::SwapDatabases) => self.state.doubt(line, |_| true),
            (CommandKind::Transaction(TransactionCommand::Exec), _) => {
                unwatch(&mut self.state, line);
                let keys = self.queued.take(line).keys(&self.commands);
                self.doubt_keys(line, keys.iter().map(|(db, key)| (*db, key.as_slice())), false);
                line.with_nested(|nested| {
                    for command in nested {
                        let keys = keys_of(&self.commands, &command.words);
                        self.doubt_keys(line, keys.iter().map(|key| (command.db, *key)), true);
                    }
                });
            }
            (CommandKind::Script(script), _) if line.are_children_unknown => self.process_unknown_script(line, script),
            (CommandKind::Script(_), _) if line.is_cut && !line.is_unplaced => self.process_script(line),
            _ => {
                let keys = keys_of(&self.commands, &line.words);
                let may_take = matches!(kind, CommandKind::Script(_)) || takes_free_keys(lock_effect, &line.words);
                self.doubt_keys(line, keys.iter().map(|key| (line.db, *key)), may_take);
            }
        }
    }

    fn doubt_keys<'k>(&mut self, line: &JournalLine<'_>, keys: impl Iterator<Item = (u32, &'k [u8])>, may_take: bool) {
        for (db, key) in keys {
            for effect in unknown_effects(db, [key], may_take) {
                self.apply(line, &effect);
            }
        }
    }

    fn process_exec(&mut self, line: &JournalLine<'_>) {
        let watched: Vec<Watched> = unwatch(&mut self.state, line);
        if let Some(state) = self.state.state_of(line) {
            state.was_watched.clone_from(&watched);
        }
        let watched = watched.as_slice();
        let queued = self.queued.take(line);
        if matches!(ReplyValue::of(line.reply), ReplyValue::Null | ReplyValue::Error) {
            return;
        }
        if line.are_children_unknown {
            return self.process_queued(line, &queued, watched);
        }
        line.with_nested(|nested| self.process_transaction(line, nested, watched));
    }

    /// EXEC ran what was queued, and its reply says how that ended.
    fn process_queued(&mut self, line: &JournalLine<'_>, queued: &Queue, watched: &[Watched]) {
        let replies = reply_elements(line.reply);
        if queued.is_cut || replies.len() != queued.commands.len() {
            let keys = queued.keys(&self.commands);
            return self.doubt_keys(line, keys.iter().map(|(db, key)| (*db, key.as_slice())), false);
        }
        let nested: Vec<NestedCommand<'_>> = queued
            .commands
            .iter()
            .zip(replies)
            .map(|((db, words), reply)| NestedCommand {
                depth: 1,
                db: *db,
                words: words.iter().map(Vec::as_slice).collect(),
                reply,
                is_cut: false,
            })
            .collect();
        self.process_transaction(line, &nested, watched);
    }

    fn process_transaction(&mut self, line: &JournalLine<'_>, nested: &[NestedCommand<'_>], watched: &[Watched]) {
        if nested.iter().any(|command| command.is_cut) {
            for command in nested {
                let keys = keys_of(&self.commands, &command.words);
                self.doubt_keys(line, keys.iter().map(|key| (command.db, *key)), true);
            }
            return;
        }
        // The replies of a transaction follow as those of a single command do.
        let commands: Vec<(LockEffect, Vec<&[u8]>)> = nested
            .iter()
            .map(|command| {
                let row = command.words.first().and_then(|name| self.commands.find(name));
                (row.map_or(LockEffect::None, |row| row.lock_effect), keys_of(&self.commands, &command.words).to_vec())
            })
            .collect();
        let mut known = KnownKeys::new(|db, key: &[u8]| self.state.knowledge(line, db, key));
        let conclusions: Vec<Option<Conclusion>> = nested
            .iter()
            .zip(&commands)
            .map(|(command, (kind, keys))| {
                let is_missing = command.reply.is_empty() && command.depth == 1;
                is_missing.then(|| known.conclude(*kind, command.db, &command.words, keys))
            })
            .collect();
        let replied: Vec<NestedCommand<'_>> = nested
            .iter()
            .zip(&conclusions)
            .map(|(command, conclusion)| {
                let reply = match conclusion {
                    Some(Conclusion::Reply(reply)) => reply.as_slice(),
                    _ => command.reply,
                };
                NestedCommand {
                    depth: command.depth,
                    db: command.db,
                    words: command.words.iter().copied().collect(),
                    reply,
                    is_cut: command.is_cut,
                }
            })
            .collect();
        let mut effects = self.queued_effects(line, &replied);
        for ((command, (kind, keys)), conclusion) in nested.iter().zip(&commands).zip(&conclusions) {
            if let Some(conclusion @ (Conclusion::Gone | Conclusion::Unknown)) = conclusion {
                effects.extend(concluded_effects(*kind, command.db, &command.words, keys, conclusion));
            }
        }
        for effect in merged_effects(effects) {
            let compared = with_watched(effect.clone(), watched);
            // To watch a key is no sign of a lock, but a key that was taken before may be one.
            let takes = matches!(compared.effect, Effect::Take { .. });
            if takes || compared == effect || self.state.locks.find(line.server, effect.db, effect.key).is_some() {
                self.apply(line, &compared);
            }
        }
    }

    /// What the queued commands of a transaction did.
    fn queued_effects<'a>(&mut self, line: &JournalLine<'_>, nested: &[NestedCommand<'a>]) -> KeyEffects<'a> {
        let mut first = 0;
        let mut effects = KeyEffects::new();
        for (at, queued) in nested.iter().enumerate().filter(|(_, command)| command.depth == 1) {
            let deeper = &nested[first..at];
            first = at + 1;
            let Some(row) = queued.words.first().and_then(|name| self.commands.find(name)) else { continue };
            let executed = Executed { db: queued.db, words: &queued.words, reply: queued.reply };
            effects.extend(match row.kind {
                CommandKind::Script(_) if line.are_children_unknown => {
                    effects_without_children(&queued.words, queued.db, queued.reply, [])
                }
                CommandKind::Script(_) => script_effects(&queued.words, deeper, 2, &self.commands, &mut self.scripts),
                _ => effects_of(row.lock_effect, executed),
            });
        }
        effects
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(text, part).is_some()
}
