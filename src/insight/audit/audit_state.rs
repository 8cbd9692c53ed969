//! What the auditor has learnt from the journals so far: locks, clients, findings.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::carried_holds::CarriedHolds;
use super::client_identity::{ClientIdentity, ClientLabels};
use super::client_process::{ClientProcess, ClientProcesses};
use super::client_state::{ClientState, ClientStates, LockRead};
use super::command_text::command_text;
use super::deadlines::Deadlines;
use super::effect::{Claim, Effect, KeyEffect, LockShape, Precondition};
use super::finding::JournalRef;
use super::finding_collector::FindingCollector;
use super::guesses::Guesses;
use super::id_pages::IdPages;
use super::journal_line::JournalLine;
use super::learned_locks::LearnedLocks;
use super::lock::{Hold, HoldEnd, Lock, LockId, LockKey, PastHold, Waiter};
use super::lock_reason::{LockReason, LockReasons};
use super::lock_table::{LockTable, MANY, drop_repeated};
use super::lock_tracker::LockTracker;
use super::missing_replies::Knowledge;
use super::program_links::SharedConnections;
use super::resting_lock::TrackedLock;
use super::rule_context::RuleContext;
use super::rules::{AttemptName, GlobalRuleState};
use super::scope::Scope;
use super::shelved_locks::ShelvedLocks;
use super::timeline::{LockAccessKind, LockTimeline};
use super::timestamp::Timestamp;
use crate::base::background::free_beside;
use crate::base::glob;
use crate::powers::{EventKind, Outcome};

/// How many keys are remembered to which something unknown happened.
const MAX_DOUBTED: usize = 20_000;
/// How many keys are remembered that were written as no lock is.
const MAX_DISMISSED: usize = 64;

/// How many holds are remembered of keys that are not tracked any more, and how many clients that were refused.
const MAX_FORGOTTEN: usize = 128;
pub const MAX_REFUSED: usize = 128;

/// All that is known after a line of the journals.
#[derive(Clone)]
pub struct AuditState {
    pub scope: Arc<Scope>,
    pub locks: LockTable,
    /// The last holds of keys that are free and were no locks, as far as it was known then.
    pub forgotten: VecDeque<(Arc<LockId>, PastHold)>,
    /// The last clients that were refused and never got the lock until their connections ended.
    pub refused: VecDeque<(Arc<LockId>, Waiter)>,
    /// By server.
    deadlines: Vec<(u16, Deadlines)>,
    pub clients: ClientStates,
    pub processes: ClientProcesses,
    pub shared: SharedConnections,
    /// Keys that may be locks, and are not tracked because something unknown happened to them: to write them is no work.
    doubted: HashSet<LockId, FixedState>,
    pub global: GlobalRuleState,
    pub collector: FindingCollector,
    /// The names of locks that were seen before a reset.
    pub learned: Arc<LearnedLocks>,
    /// Holds that a reset has ended.
    pub carried: CarriedHolds,
    /// The last keys that were written as no lock is, with the commands that did it.
    pub dismissed: Arc<VecDeque<(Arc<LockId>, JournalRef)>>,
    /// Whether the present line may have taken effect at several places in the order.
    pub is_loose: bool,
    /// Who has found the key free that the present line sets.
    pub looks: Vec<(ClientIdentity, Arc<JournalRef>)>,
    /// Keys that are free and not known for locks, although a client has given them back after its work.
    pub shelved: ShelvedLocks,
    /// What came of keys that clients found free and then set.
    pub guesses: Guesses,
    /// Whether the present line may be out of date: a replica has answered it.
    pub is_stale: bool,
    /// `None` unless a report is to be drawn.
    pub timeline: Option<LockTimeline>,
    /// The last line of each server.
    last_lines: Vec<JournalRef>,
    /// The real time of the line before the last.
    previous_real: i64,
}

impl AuditState {
    pub fn new(scope: Arc<Scope>) -> Self {
        let collector = FindingCollector::new(Arc::clone(&scope));
        Self {
            scope,
            locks: LockTable::default(),
            forgotten: VecDeque::new(),
            refused: VecDeque::new(),
            deadlines: Vec::new(),
            clients: ClientStates::default(),
            processes: ClientProcesses::default(),
            shared: SharedConnections::default(),
            doubted: HashSet::default(),
            global: GlobalRuleState::default(),
            collector,
            learned: Arc::default(),
            carried: CarriedHolds::default(),
            dismissed: Arc::default(),
            is_loose: false,
            looks: Vec::new(),
            shelved: ShelvedLocks::default(),
            guesses: Guesses::default(),
            is_stale: false,
            timeline: None,
            last_lines: Vec::new(),
            previous_real: 0,
        }
    }

    /// A copy with the locks that clients hold or wait for, and without findings.
    pub fn active(&self) -> Self {
        Self {
            locks: self.locks.active(),
            deadlines: self.deadlines.iter().map(|(server, _)| (*server, Deadlines::default())).collect(),
            clients: self.clients.clone(),
            processes: self.processes.clone(),
            shared: self.shared.clone(),
            global: self.global.clone(),
            last_lines: self.last_lines.clone(),
            previous_real: self.previous_real,
            ..Self::new(Arc::clone(&self.scope))
        }
    }

    /// Forgets who holds what on a server. The findings stay.
    pub fn forget_locks(&mut self, server: u16) {
        let are_many = self.locks.len() >= MANY;
        self.locks.forget(server);
        self.forgotten.clear();
        self.refused.clear();
        self.shelved.forget(server);
        let of_server = self.deadlines.iter_mut().filter(|(number, _)| *number == server);
        let deadlines: Vec<_> = of_server.map(|(_, ends)| std::mem::take(ends)).collect();
        let clients = self.clients.forget(server);
        self.processes.forget_server(server);
        self.shared = SharedConnections::default();
        let (global, guesses) = (std::mem::take(&mut self.global), std::mem::take(&mut self.guesses));
        if are_many {
            free_beside("redouble-audit", (deadlines, clients, global, guesses));
        }
    }

    /// Forgets a server and its findings.
    pub fn forget_server(&mut self, server: u16) {
        self.forget_locks(server);
        self.deadlines.retain(|(number, _)| *number != server);
        self.last_lines.retain(|line| line.server != server);
        self.collector.forget(Some(server));
    }

    // ---- time

    /// Ends the locks whose time is over at the time of a line.
    #[inline]
    pub fn advance_time(&mut self, server: u16, seq: u64, (at, real): (i64, i64), earliest: i64) {
        match self.last_lines.iter_mut().find(|line| line.server == server) {
            Some(last) => {
                self.previous_real = last.real;
                (last.seq, last.at, last.real, last.earliest) = (seq, at, real, real);
                last.place = seq;
            }
            None => {
                self.last_lines.push(JournalRef::of_nobody(server, (seq, at, real), "(the end)"));
                self.deadlines.push((server, Deadlines::default()));
                self.global.note_clock(server, at - real);
            }
        }
        // What is over at the earliest time is over.
        let at = at - (real - earliest);
        let now = at.div_euclid(1000);
        while let Some((_, deadlines)) = self.deadlines.iter_mut().find(|(other, _)| *other == server)
            && deadlines.first().is_some_and(|deadline| deadline < now)
        {
            let over = deadlines.take_first();
            let source = Arc::new(self.last_line(server));
            for id in over {
                self.with_lock(&id, None, Arc::clone(&source), |tracker| tracker.advance_time(at, earliest));
            }
        }
    }

    /// The last line of a server.
    pub fn last_line(&self, server: u16) -> JournalRef {
        let last = self.last_lines.iter().find(|line| line.server == server).cloned();
        last.unwrap_or_else(|| JournalRef::of_nobody(server, (0, 0, 0), ""))
    }

    // ---- clients

    pub fn client_of(&self, line: &JournalLine<'_>) -> ClientIdentity {
        let key = (line.server, line.client);
        let known = self.clients.get(&key).map(|state| &state.client);
        let (name, process) = line.client_labels();
        match known {
            Some(known) if known.has_labels((name, process)) => ClientIdentity { seen: line.real, ..known.clone() },
            _ => ClientIdentity {
                server: line.server,
                id: line.client,
                seen: line.real,
                labels: Arc::new(ClientLabels {
                    name: Arc::from(&*String::from_utf8_lossy(name)),
                    address: Arc::from(line.address()),
                    process: process.map(|process| match self.processes.of_client(key) {
                        Some(known) => Arc::clone(known),
                        None => Arc::new(ClientProcess::alone(Arc::clone(process))),
                    }),
                }),
            },
        }
    }

    /// The same, and its process is met if it was not.
    pub fn meet_client_of(&mut self, line: &JournalLine<'_>) -> ClientIdentity {
        let client = self.client_of(line);
        let key = (client.server, client.id);
        let Some(process) = client.known_process().filter(|_| self.processes.of_client(key).is_none()) else {
            return client;
        };
        let others = self.processes.meet(key, &process);
        let own = self.processes.of_client(key).map(|process| (key, Arc::clone(process)));
        others.into_iter().chain(own).for_each(|(client, process)| self.note_process(client, &process));
        self.client_of(line)
    }

    /// Whether a lock of a server ends before this time on its clock, in microseconds.
    pub fn has_due(&self, server: u16, at: i64) -> bool {
        let of_server = self.deadlines.iter().find(|(other, _)| *other == server);
        of_server.is_none_or(|(_, deadlines)| deadlines.first().is_some_and(|first| first < at.div_euclid(1000)))
    }

    /// Notes when the lock with this number ends.
    pub fn note_deadline(&mut self, deadline: i64, number: u64, id: &Arc<LockId>) {
        if let Some((_, deadlines)) = self.deadlines.iter_mut().find(|(server, _)| *server == id.server) {
            deadlines.insert(deadline, number, id);
        }
    }

    /// The lock with this number does not end by itself any more.
    pub fn forget_deadline(&mut self, server: u16, deadline: i64, number: u64) {
        if let Some((_, deadlines)) = self.deadlines.iter_mut().find(|(other, _)| *other == server) {
            deadlines.remove(deadline, number);
        }
    }

    /// Whether a client is met, and its process, if that is known.
    pub fn is_met(&self, client: &ClientIdentity) -> bool {
        client.process.is_none() || self.processes.of_client((client.server, client.id)).is_some()
    }

    /// Whether a client holds no lock, has lost none, and does not work for a connection of its program that does.
    pub fn is_idle(&self, client: &ClientState) -> bool {
        let is_at_work = |client: &(u16, u64)| self.clients.get(client).is_some_and(ClientState::is_at_work);
        !client.is_at_work() && !client.companions().iter().any(is_at_work)
    }

    /// Whether a client watches a key, or has seen that another one has a key of which its writes may show that it is no lock.
    pub fn is_looking(&self, client: &ClientState) -> bool {
        !client.watched.is_empty() || client.found_taken().is_some_and(|id| self.locks.may_guard(id))
    }

    /// Whether journals of several servers are read.
    pub fn has_several_servers(&self) -> bool {
        self.last_lines.len() > 1
    }

    /// The lock that connections have parts of on several servers, and the attempt that got them, if there is only one.
    pub fn only_attempt_of(&self, connections: &[(u16, u64)]) -> Option<(LockKey, AttemptName)> {
        let mut only = None;
        for client in connections.iter().filter_map(|connection| self.clients.get(connection)) {
            for lock in client.holds.iter().filter_map(|id| self.locks.get(id)) {
                let Some(hold) = lock.hold_of(&client.client) else { continue };
                let Some(attempt) = self.global.attempt(&lock.id.key, &hold.token) else { continue };
                match &only {
                    None => only = Some((lock.id.key.clone(), attempt)),
                    Some((_, known)) if *known == attempt => {}
                    Some(_) => return None,
                }
            }
        }
        only
    }

    /// The client of an attempt to get a lock from several servers writes another key, of which the hash is known.
    pub fn note_attempt_write(
        &mut self,
        attempt: (&LockKey, AttemptName),
        written: (u64, &[u8]),
        by: &ClientIdentity,
        source: Arc<JournalRef>,
    ) {
        self.global.note_write(attempt, written, by, source);
    }

    /// Two connections of one program: one uses data, the other one has to do with locks.
    pub fn note_companion(&mut self, client: &ClientIdentity, companion: (u16, u64)) {
        self.clients.meet(client).note_companion(companion);
    }

    /// The same for all connections of a client's program that have to do with locks: each may work for the other one.
    pub fn note_companions(&mut self, client: &ClientIdentity) {
        let companions = self.clients.values().filter(|state| state.client.may_work_for(client));
        let mut companions: Vec<_> = companions.map(|state| state.client.clone()).collect();
        companions.sort_unstable_by_key(|companion| companion.id);
        for companion in companions {
            self.note_companion(client, (companion.server, companion.id));
            self.note_companion(&companion, (client.server, client.id));
        }
    }

    /// More is known now of the process of a client.
    fn note_process(&mut self, client: (u16, u64), process: &Arc<ClientProcess>) {
        let Some(state) = self.clients.get_mut(&client) else { return };
        state.client.set_process(process);
        let identity = state.client.clone();
        for id in state.locks_met().into_iter().flat_map(IdPages::iter) {
            let Some(TrackedLock { lock, .. }) = self.locks.get_mut(id) else { continue };
            for hold in lock.holds.iter_mut().filter(|hold| hold.client.is_same_connection(&identity)) {
                hold.client.set_process(process);
                Arc::make_mut(&mut hold.acquired).process = identity.process.clone();
            }
            for waiter in lock.waiters.iter_mut().filter(|waiter| waiter.client.is_same_connection(&identity)) {
                waiter.client.set_process(process);
            }
        }
    }

    pub fn state_of(&mut self, line: &JournalLine<'_>) -> Option<&mut ClientState> {
        self.clients.get_mut(&(line.server, line.client))
    }

    pub fn source_of(line: &JournalLine<'_>, client: &ClientIdentity) -> Arc<JournalRef> {
        let JournalLine { server, seq, at, real, earliest, place, client: id, .. } = *line;
        let text: Arc<str> = match line.event {
            Some(EventKind::Evicted) => Arc::from("(the server evicted the key)"),
            Some(EventKind::Promoted) => {
                let node = line.node().unwrap_or_default();
                Arc::from(format!("({node} is master now in the place of {})", line.detail()))
            }
            Some(EventKind::Lost) => Arc::from(format!(
                "({} is master now, and has not got this key's last change)",
                line.node().unwrap_or_default()
            )),
            Some(EventKind::Topology | EventKind::Link) => Arc::from("(the deployment changes)"),
            Some(EventKind::Replaced) => {
                let knows = if line.detail() == EventKind::UNAWARE { "and does not know" } else { "and knows" };
                let node = line.node().unwrap_or_default();
                Arc::from(format!("({node} is master now in place of this server, which is cut off {knows})"))
            }
            Some(EventKind::Mark) => Arc::from(format!("({})", line.detail())),
            Some(EventKind::Closed | EventKind::Started | EventKind::Clock | EventKind::Missing) => {
                Arc::from("(the connection ended)")
            }
            None => command_text(line),
        };
        Arc::new(JournalRef {
            server,
            seq,
            at,
            real,
            earliest,
            place,
            node: line.node().map(Arc::from),
            client: id,
            name: Arc::clone(&client.name),
            process: client.process.clone(),
            line: text,
        })
    }

    /// The server evicts a key.
    pub fn evict(&mut self, line: &JournalLine<'_>) {
        let key = line.words.first().copied().unwrap_or_default();
        let Some(lock) = self.locks.find(line.server, line.db, key) else { return };
        let (id, client) = (Arc::clone(&lock.id), self.client_of(line));
        self.with_lock(&id, None, Self::source_of(line, &client), |tracker| tracker.evict());
        if let (Some(timeline), Some(lock)) = (&mut self.timeline, self.locks.get(&id)) {
            timeline.note_access(lock, line.seq, LockAccessKind::Evicted);
        }
    }

    /// A node is replaced by another one, which may not have what was written last.
    pub fn fail_over(&mut self, line: &JournalLine<'_>, owner: impl Fn(&LockId) -> Option<Arc<str>>) {
        let (client, replaced) = (self.client_of(line), line.detail());
        let source = Self::source_of(line, &client);
        let was_there = |lock: &Lock| {
            let is_given_there = |hold: &Hold| hold.node().is_some_and(|node| **node == *replaced);
            let holds = lock.holds.iter().chain(lock.past_holds.back().map(|past| &past.hold));
            let is_elsewhere = || {
                let owner = owner(&lock.id);
                owner.is_some_and(|owner| *owner != *replaced && Some(&owner) != source.node.as_ref())
            };
            holds.into_iter().any(is_given_there) && !is_elsewhere()
        };
        for id in self.locks.ids(|id| id.server == line.server, was_there) {
            self.with_lock(&id, None, source.clone(), |tracker| tracker.fail_over(&replaced));
        }
    }

    /// A command that never ran may have been to take a lock.
    pub fn note_unanswered(&mut self, line: &JournalLine<'_>) {
        if let Some(key) = line.words.get(1).filter(|_| !self.locks.is_empty()) {
            self.global.note_unanswered(key);
        }
    }

    /// Those of these locks that a client holds or waits for.
    fn current(&self, ids: &IdPages, client: &ClientIdentity) -> IdPages {
        let mut ids = ids.iter().collect();
        drop_repeated(&mut ids);
        ids.into_iter().filter(|id| self.locks.concerns(id, client)).cloned().collect()
    }

    /// Prunes the locks that a client has met, if they are many.
    pub fn prune_met(&mut self, client: &ClientIdentity) {
        let key = (client.server, client.id);
        let tracked = self.locks.len();
        let Some(state) = self.clients.get(&key).filter(|state| state.has_met_many(tracked)) else { return };
        let met = state.locks_met().map(|ids| self.current(ids, client));
        if let Some(state) = self.clients.get_mut(&key) {
            state.set_met(met);
        }
    }

    // ---- what is unknown

    /// Whether a key is a lock, or may be one.
    pub fn may_be_lock(&self, server: u16, db: u32, key: &[u8]) -> bool {
        let is_doubted = || self.doubted.contains(&LockId { server, db, key: key.into() });
        self.locks.reasons(server, db, key).is_some_and(|reasons| !reasons.are_a_guess())
            || !self.doubted.is_empty() && is_doubted()
    }

    /// What is known of a key on a server when a line is processed.
    pub fn knowledge(&self, line: &JournalLine<'_>, db: u32, key: &[u8]) -> Knowledge {
        /// How many milliseconds around a deadline it is unknown whether the server still has the key.
        const MARGIN: i64 = 2;
        let Some(lock) = self.locks.find(line.server, db, key) else { return Knowledge::Unknown };
        let now = line.at.div_euclid(1000);
        let is_ending = lock.deadline.is_some_and(|deadline| now >= deadline - lock.deadline_slack - MARGIN);
        let has_just_ended = lock
            .past_holds
            .back()
            .is_some_and(|past| past.end == HoldEnd::Expired && line.at - past.at <= MARGIN * 1000);
        if lock.is_in_doubt || lock.is_value_unknown || lock.shape != LockShape::Value || is_ending || has_just_ended {
            return Knowledge::Unknown;
        }
        lock.value.clone().map_or(Knowledge::Absent, Knowledge::Value)
    }

    /// Something may have happened to locks that the journal does not say.
    pub fn doubt(&mut self, line: &JournalLine<'_>, is_meant: impl Fn(&LockId) -> bool) {
        let client = self.client_of(line);
        for id in self.locks.ids_placed(|id| id.server == line.server && is_meant(id)) {
            let source = Self::source_of(line, &client);
            self.with_lock(&id, Some(&client), source, |tracker| tracker.doubt());
        }
    }

    // ---- locks

    /// Something happens to a lock. A key that is free and was no lock is forgotten then.
    pub fn with_lock(
        &mut self,
        id: &LockId,
        actor: Option<&ClientIdentity>,
        source: Arc<JournalRef>,
        happen: impl FnOnce(&mut LockTracker<'_>),
    ) {
        if self.track(id, actor, source, (false, None), happen) {
            self.forget_free(id);
        }
    }

    /// A key that is free and was no lock is not tracked any more.
    pub fn forget_free(&mut self, id: &LockId) {
        let is_of_use = |lock: &Lock| lock.guarded.as_ref().is_some_and(|guarded| guarded.is_of_use());
        if self.locks.get(id).is_some_and(is_of_use)
            && let Some(kept) = self.locks.kept(id)
        {
            self.shelved.put(kept);
        }
        if let Some(lock) = self.locks.get(id)
            && let Some(past) = lock.past_holds.back().filter(|_| !lock.is_guess())
        {
            if self.forgotten.len() >= MAX_FORGOTTEN {
                self.forgotten.pop_front();
            }
            self.forgotten.push_back((Arc::clone(&lock.id), past.clone()));
        }
        self.locks.remove(id);
    }

    /// `is_lost` and `replied_at` say what became of the reply. Returns whether the key is to be forgotten: it is free
    /// and was no lock.
    pub fn track(
        &mut self,
        id: &LockId,
        actor: Option<&ClientIdentity>,
        source: Arc<JournalRef>,
        (is_lost, replied_at): (bool, Option<i64>),
        happen: impl FnOnce(&mut LockTracker<'_>),
    ) -> bool {
        let Some(TrackedLock { lock, links, rules }) = self.locks.get_mut(id) else { return false };
        let deadlines = self.deadlines.iter_mut().find(|(server, _)| *server == id.server);
        let Some((_, deadlines)) = deadlines else { return false };
        let (clients, shared, collector) = (&mut self.clients, &mut self.shared, &mut self.collector);
        let (is_loose, is_stale) = (self.is_loose, self.is_stale);
        let context = RuleContext {
            is_loose,
            is_stale,
            lock,
            links,
            actor,
            source,
            is_lost,
            replied_at,
            clients,
            shared,
            collector,
        };
        let (global, timeline, previous_real) = (&mut self.global, self.timeline.as_mut(), self.previous_real);
        let mut tracker = LockTracker { context, rules, global, deadlines, timeline, previous_real };
        happen(&mut tracker);
        let lock = &tracker.context.lock;
        !lock.is_known() && !lock.is_in_use() && !lock.has_expired_token()
    }

    /// Applies what a command did to one key.
    pub fn apply(&mut self, line: &JournalLine<'_>, effect: &KeyEffect<'_>) {
        if !self.carried.is_empty() {
            self.carried.note(line, effect);
        }
        if self.note_effect_in_short(line, effect) {
            return;
        }
        let mut is_learned = false;
        let mut tracked = self.locks.find(line.server, effect.db, effect.key);
        if tracked.is_none() {
            if !self.may_begin_lock(line, effect) {
                return;
            }
            match self.shelved.take(line.server, effect.db, effect.key) {
                Some(kept) => {
                    self.forgotten.retain(|(id, _)| id != kept.id());
                    self.locks.track_again(kept);
                }
                None => self.locks.add(line.server, effect.db, effect.key),
            }
            is_learned = self.is_learned(effect);
            tracked = self.locks.find(line.server, effect.db, effect.key);
        }
        let Some(lock) = tracked else { return };
        let (id, is_of_data) = (Arc::clone(&lock.id), lock.reasons.are_of_data());
        let (is_known, is_unlike) =
            (lock.is_known(), effect.is_unlike_locks() || self.is_rewritten(line, lock, effect));
        let is_unlike = is_unlike && (!is_known || lock.reasons.are_learned());
        let client = self.meet_client_of(line);
        let source = Self::source_of(line, &client);
        if let Some(state) = self.state_of(line) {
            state.client.clone_from(&client);
        }
        if is_unlike {
            // A counter, or a collection.
            self.dismissed = dismissed(std::mem::take(&mut self.dismissed), &id, (*source).clone());
            if is_known {
                Arc::make_mut(&mut self.learned).forget(effect.key);
            }
            return self.drop_key(&id);
        }
        let is_said = is_matched(&self.scope.locks, effect.key);
        let reply = (line.outcome != Outcome::Answered, line.replied_at);
        let lacks_reply = line.lacks_reply();
        let looks = match effect.effect {
            Effect::Set { .. } => std::mem::take(&mut self.looks),
            _ => Vec::new(),
        };
        let is_looked_for = !looks.is_empty();
        let may_show_data = matches!(effect.effect, Effect::Read { .. }) && !is_of_data;
        for (client, source) in looks {
            let read = LockRead { id: Arc::clone(&id), value: None, source, times_taken: 0 };
            let state = self.clients.meet(&client);
            if state.last_read_of(&id).is_none() {
                state.note_read(read);
            }
        }
        let is_free = self.track(&id, Some(&client), source, reply, |tracker| {
            tracker.lock().lacks_replies |= lacks_reply;
            if is_said {
                tracker.note_reason(LockReason::Said);
            }
            if is_learned {
                tracker.note_reason(LockReason::Learned);
            }
            tracker.apply(effect);
        });
        if let (Some(timeline), Some(lock)) = (&mut self.timeline, self.locks.get(&id)) {
            timeline.note_effect(lock, line.seq, &effect.effect);
        }
        self.prune_met(&client);
        if is_free {
            self.forget_free(&id);
        }
        if is_looked_for {
            self.note_guess(&id, Guesses::note);
        } else if may_show_data && self.locks.reasons(id.server, id.db, &id.key).is_some_and(LockReasons::are_of_data) {
            self.note_guess(&id, |guesses, id| guesses.note_read(id));
        }
        if matches!(effect.effect, Effect::Unknown { .. }) && self.doubted.len() < MAX_DOUBTED {
            let LockId { server, db, key } = &*id;
            self.doubted.insert(LockId { server: *server, db: *db, key: key.clone() });
        }
    }

    /// A key that is followed turns out to be no lock.
    fn drop_key(&mut self, id: &LockId) {
        let Some(lock) = self.locks.find(id.server, id.db, &id.key) else { return };
        let (number, deadline) = (lock.number, lock.deadline);
        let holders: Vec<(u16, u64)> = lock.holds.iter().map(|hold| (hold.client.server, hold.client.id)).collect();
        self.locks.remove(id);
        if let Some(deadline) = deadline {
            self.forget_deadline(id.server, deadline, number);
        }
        for holder in holders {
            if let Some(state) = self.clients.get_mut(&holder) {
                state.note_release(id);
            }
        }
    }

    /// A client has found a key free and set it, or read there as data what another one has set. When it is decided that keys like this
    /// one are data, they are followed no more.
    fn note_guess(
        &mut self,
        id: &Arc<LockId>,
        note: impl FnOnce(&mut Guesses, &Arc<LockId>) -> Option<Vec<Arc<LockId>>>,
    ) {
        let reasons = |state: &Self, id: &LockId| state.locks.reasons(id.server, id.db, &id.key);
        if !reasons(self, id).is_some_and(LockReasons::are_a_guess) {
            return;
        }
        let Some(keys) = note(&mut self.guesses, id) else { return };
        let are_locks = keys.iter().any(|id| reasons(self, id).is_some_and(LockReasons::are_enough));
        self.guesses.decide(id, are_locks);
        for id in keys {
            if !are_locks && reasons(self, &id).is_some_and(LockReasons::are_a_guess) {
                self.drop_key(&id);
            }
        }
    }

    /// Whether a key that was found absent and set is set to another value by who knows that it is there: it is data.
    fn is_rewritten(&self, line: &JournalLine<'_>, lock: &Lock, effect: &KeyEffect<'_>) -> bool {
        let Effect::Set { value, .. } = effect.effect else { return false };
        let has_looked = || {
            let state = self.clients.get(&(line.server, line.client));
            let read = state.and_then(|state| state.last_read_of(&lock.id));
            !self.looks.is_empty() || read.is_some_and(|read| read.value.is_none())
        };
        lock.is_guess() && lock.value.as_deref().is_some_and(|before| before != value) && !has_looked()
    }

    /// Tracks a key to which a lock moves, unless the user excludes it.
    pub fn begin_tracking(&mut self, server: u16, db: u32, key: &[u8]) {
        if self.locks.find(server, db, key).is_none() && !is_matched(&self.scope.not_locks, key) {
            self.locks.add(server, db, key);
        }
    }

    /// Whether a key that a client takes was a lock before a reset.
    fn is_learned(&self, effect: &KeyEffect<'_>) -> bool {
        match effect.effect {
            Effect::Take { value, .. } if !self.learned.is_empty() => self.learned.knows(effect.key, value),
            _ => false,
        }
    }

    /// Whether a key that is not tracked may become a lock with this effect.
    #[inline]
    fn may_begin_lock(&self, line: &JournalLine<'_>, effect: &KeyEffect<'_>) -> bool {
        let begins = match effect.effect {
            Effect::Take { .. } | Effect::AddMember { .. } | Effect::Unknown { may_take: true } => true,
            Effect::Arrive { claim: Claim::TakesFree | Claim::Takes | Claim::Refused, .. } => true,
            Effect::Set { value, old: Some(_), .. } if Timestamp::to_come(value, line.at, line.real).is_some() => true,
            Effect::Delete { removed: Some(true) } | Effect::Expire { done: true, .. }
                if effect.precondition != Precondition::None =>
            {
                true
            }
            Effect::Set { value, .. } if effect.precondition == Precondition::Compared(Some(value)) => true,
            Effect::Set { .. } if !self.looks.is_empty() && effect.precondition == Precondition::None => {
                !self.guesses.is_data(effect.db, effect.key) || is_matched(&self.scope.locks, effect.key)
            }
            Effect::Set { .. } | Effect::Arrive { claim: Claim::Sets, .. } | Effect::Read { .. } => {
                is_matched(&self.scope.locks, effect.key)
            }
            // It was taken on other servers, and is released on this one, too.
            Effect::NotOwned { .. } => {
                effect.precondition.token().is_some_and(|token| self.global.attempt(effect.key, token).is_some())
            }
            Effect::Arrive { claim: Claim::None, .. }
            | Effect::Transfer { .. }
            | Effect::Delete { .. }
            | Effect::Expire { .. }
            | Effect::RemoveMember { .. }
            | Effect::OtherWrite
            | Effect::Unknown { may_take: false }
            | Effect::Flush { .. }
            | Effect::SwapDatabases { .. } => false,
        };
        begins && !is_matched(&self.scope.not_locks, effect.key)
    }
}

/// Adds a key to the last that were written as no lock is.
fn dismissed(
    mut last: Arc<VecDeque<(Arc<LockId>, JournalRef)>>,
    id: &Arc<LockId>,
    source: JournalRef,
) -> Arc<VecDeque<(Arc<LockId>, JournalRef)>> {
    let list = Arc::make_mut(&mut last);
    list.retain(|(known, _)| known != id);
    if list.len() >= MAX_DISMISSED {
        list.pop_front();
    }
    list.push_back((Arc::clone(id), source));
    last
}

pub fn is_matched(globs: &[Vec<u8>], key: &[u8]) -> bool {
    globs.iter().any(|glob| glob::matches(glob, key, false))
}
