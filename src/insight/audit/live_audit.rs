//! The audit of servers while they run: switched on and off, asked, and listened to.
//!
//! Locks are taken in this order: the audit, then the journals.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use super::allowance::Allowance;
use super::auditor::Auditor;
use super::auditor_thread::AuditorThread;
use super::carried_holds::CarriedHolds;
use super::finding::Finding;
use super::finding_collector::{FindingCollector, MAX_FINDINGS, MIN_FINDINGS};
use super::judgement::Judgement;
use super::known_lock::KnownLock;
use super::live_state::{AuditConclusion, AuditedServer, LiveState, ServerProgress};
use super::lock_explanation::LockExplanation;
use super::lock_table::MANY;
use super::scope::Scope;
use crate::base::background::free_beside;
use crate::base::budget::{Budget, Share};
use crate::base::sync::MutexExt;
use crate::powers::{Follower, Urgency};
use crate::spec::Table;

/// How many spaces that were dropped are told apart.
const MAX_DROPPED: usize = 1000;
/// How long a command waits for an auditor that falls behind.
const SHORT: Duration = Duration::from_millis(2);
/// How many allowances there may be.
pub const MAX_ALLOWED: usize = 1000;

/// The audit of one server, or of several together.
pub struct LiveAudit {
    is_on: Arc<AtomicBool>,
    was_on: AtomicBool,
    commands: Table,
    initial: InitialSettings,
    thread: AuditorThread,
    /// How many keys are tracked.
    tracked: Arc<AtomicUsize>,
    /// The memory of all audits of the process.
    memory: Arc<Budget<LiveState>>,
    /// Held while what would be found at the end is looked for: that takes long with many locks, and memory.
    finishing: Mutex<()>,
}

/// The settings when the servers start.
#[derive(Clone)]
struct InitialSettings {
    is_on: bool,
    scope: Arc<Scope>,
}

/// Settings and counts of an audit.
pub struct AuditStatus {
    pub is_on: bool,
    pub scope: Arc<Scope>,
    /// How many findings there are, and how many of those are allowed.
    pub findings: usize,
    pub allowed: usize,
    /// How many findings were dropped because the list was full.
    pub unlisted: u64,
    /// How many records were processed, and how many fell out of the journal before.
    pub records: u64,
    pub missed: u64,
    /// How many locks were forgotten because all audits together knew too much.
    pub forgotten: u64,
    /// About how many bytes all audits know, and the most that they may.
    pub memory: (usize, usize),
}

impl Default for LiveAudit {
    fn default() -> Self {
        Self::new(Table::of_every_profile([]), Scope::default(), false)
    }
}

impl LiveAudit {
    /// An audit that is on from the start, or not.
    pub fn new(commands: Table, scope: Scope, is_on: bool) -> Self {
        Self::begin(commands, InitialSettings { is_on, scope: Arc::new(scope) }, Arc::default())
    }

    /// Sets about how many bytes this audit and those of spaces may know together.
    pub fn limit_memory(&self, bytes: usize) {
        self.memory.set_most(bytes);
    }

    /// An audit of a space of this server, with the settings that this one started with. It knows the locks of spaces that
    /// were dropped.
    pub fn of_space(&self) -> Self {
        let learned = Arc::clone(&self.state().learned_in_spaces);
        let audit = Self::begin(self.commands.clone(), self.initial.clone(), Arc::clone(&self.memory));
        audit.state().committed.inherit(learned, CarriedHolds::default());
        audit
    }

    fn begin(commands: Table, initial: InitialSettings, memory: Arc<Budget<LiveState>>) -> Self {
        let state = LiveState::new(&initial.scope, commands.clone());
        let tracked = Arc::clone(&state.tracked);
        let state = Arc::new(Mutex::new(state));
        let is_on = Arc::new(AtomicBool::new(initial.is_on));
        let share = memory.join(&state);
        state.lock_ignoring_poison().share = Some(share);
        Self {
            thread: AuditorThread::new(state, Arc::clone(&is_on)),
            is_on,
            was_on: AtomicBool::new(initial.is_on),
            tracked,
            commands,
            initial,
            memory,
            finishing: Mutex::new(()),
        }
    }

    /// Adds a server. Servers are told apart by number, from 1.
    pub fn join(&self, server: u16, audited: Weak<dyn AuditedServer>) {
        self.state().servers.push(ServerProgress::new(server, audited));
    }

    // ---- on and off

    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Whether it has ever been on.
    pub fn was_on(&self) -> bool {
        self.was_on.load(Ordering::Relaxed)
    }

    /// Audits the records to come, and the first time also those that the journals have. The journals are kept from now
    /// on.
    pub fn turn_on(&self) {
        let mut state = self.state();
        let servers = state.running();
        servers.iter().for_each(|(_, server)| server.begin_journal());
        if self.is_on() {
            return;
        }
        self.was_on.store(true, Ordering::Relaxed);
        for (at, server) in &servers {
            let (oldest, written) = {
                let journal = server.journal().lock();
                (journal.oldest(), journal.written())
            };
            let progress = &mut state.servers[*at];
            match progress.is_new {
                true => progress.begin_at(oldest),
                false => progress.skip_to(written),
            }
        }
        state.drop_lookahead();
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// Stops. The findings stay.
    pub fn turn_off(&self) {
        let (mut state, _) = self.caught_up();
        if self.is_on() {
            state.commit(true);
            self.is_on.store(false, Ordering::Relaxed);
        }
        for (_, server) in state.running() {
            server.journal().wake_followers();
        }
    }

    // ---- the journals

    /// Commits the records that are due, beside the servers. If it is urgent, waits for a portion of them, but not long unless some
    /// would fall out of a journal otherwise.
    pub fn commit_due(&self, urgency: Urgency) {
        if urgency == Urgency::None || !self.is_on() {
            return;
        }
        // Subscribers are told at once.
        let are_told_here = self.thread.subscribers().exist() && !self.is_large();
        if are_told_here || !self.thread.go_on() {
            self.state().commit(false);
        } else if urgency == Urgency::Overdue {
            self.thread.await_portion();
        } else if urgency == Urgency::Now {
            self.thread.await_portion_shortly(SHORT);
        }
    }

    /// Commits all records, because a journal is about to be emptied.
    pub fn commit_all(&self) {
        if self.is_on() {
            let (mut state, _) = self.caught_up();
            state.commit(true);
        }
    }

    /// Makes the journal of a server smaller, or larger.
    pub fn resize_journal(&self, server: u16, bytes: usize) {
        self.commit_all();
        let server = self.state().server(server);
        server.iter().for_each(|server| server.keep_journal(bytes));
    }

    /// The journal of a server was switched off: records will be missing.
    pub fn note_stop(&self, server: u16) {
        if self.is_on() {
            let (mut state, _) = self.caught_up();
            state.commit(true);
            state.servers.iter_mut().filter(|known| known.server == server).for_each(|known| known.has_gap = true);
        }
    }

    // ---- resets

    /// Judges what a server's journal has shown so far, because it is about to be reset: as at the end, so that what a test
    /// has left behind is found.
    pub fn judge(&self, server: u16) -> Judgement {
        // To free the look-ahead takes long, too.
        let (auditor, has_others, is_on, _lookahead) = {
            let ((mut state, _), is_on) = (self.caught_up(), self.is_on());
            if is_on {
                // The journal is about to be emptied.
                state.commit(true);
            }
            (state.committed.clone(), state.servers.len() > 1, is_on, state.lookahead.take())
        };
        let mut judgement = Judgement::of(&auditor, server, is_on);
        if has_others {
            // All of it is forgotten only where a server is alone; with more servers only the findings are.
            (judgement.locks, judgement.unlisted) = (0, 0);
        }
        judgement
    }

    /// Forgets what was found and learned before the last reset, as if the servers had just started.
    pub fn forget_past(&self) {
        let mut state = self.state();
        state.archived = FindingCollector::new(Arc::clone(&state.scope));
        (state.archived_missed, state.archived_forgotten) = (0, 0);
        state.dropped.clear();
        state.learned_in_spaces = Arc::default();
        state.committed.inherit(Arc::default(), CarriedHolds::default());
        state.drop_lookahead();
    }

    /// Goes back to the state of the start, as far as one server is concerned. The findings are archived for the conclusion.
    pub fn reset(&self, server: u16, judgement: Judgement) {
        let mut state = self.state();
        if self.is_on() && state.servers.len() > 1 {
            // The findings on the other servers are to stay.
            state.commit(true);
        }
        let LiveState { servers, committed, published, archived, .. } = &mut *state;
        let Judgement { findings, marks, locks, unlisted, carried, learned } = judgement;
        findings.iter().for_each(|finding| archived.adopt(finding));
        archived.marks.add_texts(&marks);
        archived.locks += locks;
        archived.unlisted += unlisted;
        if servers.len() <= 1 {
            let before =
                std::mem::replace(committed, Auditor::new(Arc::clone(&self.initial.scope), self.commands.clone()));
            if self.is_large() {
                // To free what is known of many locks takes long, too.
                free_beside("redouble-audit", before);
            }
        } else {
            committed.forget_server(server);
            committed.set_scope(Arc::clone(&self.initial.scope));
        }
        committed.inherit(learned, carried);
        published.retain(|(_, number, ..), _| *number != server);
        servers.iter_mut().filter(|known| known.server == server).for_each(ServerProgress::restart);
        self.thread.subscribers().end(server);
        self.is_on.store(self.initial.is_on, Ordering::Relaxed);
        state.drop_lookahead();
        state.scope = Arc::clone(&self.initial.scope);
        self.was_on.store(self.initial.is_on, Ordering::Relaxed);
        if state.servers.len() <= 1 {
            state.archived_missed += std::mem::take(&mut state.missed);
            state.archived_forgotten += std::mem::take(&mut state.forgotten);
        }
        state.count_memory();
    }

    /// Keeps what was found in a space that is dropped, and what was learned there.
    pub fn adopt_space(&self, name: &[u8], space: &Self) {
        if !space.was_on() && space.state().archived.findings().is_empty() {
            return;
        }
        let conclusion = space.conclusion();
        let learned = {
            let ((mut state, _), is_on) = (space.caught_up(), space.is_on());
            Judgement::of(state.up_to_date(is_on), 1, false).learned
        };
        let mut state = self.state();
        Arc::make_mut(&mut state.learned_in_spaces).add(&learned);
        let listed: usize = state.dropped.iter().map(|(_, dropped)| dropped.findings.len()).sum();
        let count = conclusion.findings.len();
        let room = state.share.as_ref().map_or(usize::MAX, Share::room_to_keep);
        let has_room = listed + count <= MAX_FINDINGS && (conclusion.finding_bytes <= room || count <= MIN_FINDINGS);
        let is_quiet = conclusion.findings.is_empty() && conclusion.marks.is_empty();
        let is_full = state.dropped.len() >= MAX_DROPPED;
        match state.dropped.iter_mut().find(|(known, _)| **known == *name || is_quiet || is_full) {
            Some((_, known)) => known.add(conclusion, has_room),
            None => {
                let mut kept = AuditConclusion::default();
                kept.add(conclusion, has_room);
                state.dropped.push((name.into(), kept));
            }
        }
        state.count_memory();
    }

    /// What was found in spaces that were dropped, by name.
    pub fn dropped_spaces(&self) -> Vec<(Box<[u8]>, AuditConclusion)> {
        self.state().dropped.clone()
    }

    /// Forgets the findings. Who holds what stays known.
    pub fn clear(&self) {
        let (mut state, _) = self.caught_up();
        if self.is_on() {
            state.commit(true);
        }
        state.committed.forget_findings();
        state.count_memory();
        state.drop_lookahead();
        state.published.clear();
    }

    /// Allows findings that are known. The error says that there is no room.
    pub fn allow(&self, allowance: Allowance) -> Result<(), String> {
        let mut state = self.state();
        if state.scope.allowed.len() >= MAX_ALLOWED {
            return Err(format!("there are {MAX_ALLOWED} allowances already; REDOUBLE RESET forgets them"));
        }
        let mut scope = (*state.scope).clone();
        scope.allowed.push(allowance);
        state.scope = Arc::new(scope);
        let scope = Arc::clone(&state.scope);
        if let Some(lookahead) = &mut state.lookahead {
            lookahead.auditor.set_scope(Arc::clone(&scope));
        }
        state.committed.set_scope(scope);
        Ok(())
    }

    // ---- questions

    /// All findings so far, in the order in which they were found.
    pub fn findings(&self) -> Vec<Arc<Finding>> {
        self.up_to_date(|auditor| auditor.findings().to_vec())
    }

    /// What would be found if the journals ended here.
    pub fn findings_at_end(&self) -> Vec<Arc<Finding>> {
        let _finishing = self.finishing.lock_ignoring_poison();
        self.finished().findings().to_vec()
    }

    /// An auditor that has found all that it would if the journals ended here.
    fn finished(&self) -> Auditor {
        let mut auditor = self.up_to_date(Auditor::clone);
        auditor.find_last();
        auditor
    }

    /// Whether a question may take so long that other clients should not wait for its answer.
    pub fn is_large(&self) -> bool {
        self.thread.is_busy() || self.tracked.load(Ordering::Relaxed) >= MANY
    }

    /// The result from the start on, also from before resets, as if the journals ended here.
    pub fn conclusion(&self) -> AuditConclusion {
        let _finishing = self.finishing.lock_ignoring_poison();
        let auditor = self.finished();
        let state = self.state();
        let mut collector = state.archived.clone();
        collector.allow_also(&state.scope);
        auditor.carried().findings().chain(auditor.findings()).for_each(|finding| collector.adopt(finding));
        collector.marks.add_texts(auditor.marks());
        AuditConclusion {
            findings: collector.findings().to_vec(),
            finding_bytes: collector.bytes(),
            marks: collector.marks.texts().to_vec(),
            locks: collector.locks + auditor.lock_count(),
            unlisted: collector.unlisted + auditor.unlisted(),
            missed: state.archived_missed + state.missed,
            forgotten: state.archived_forgotten + state.forgotten,
        }
    }

    /// All findings from the start on, also from before resets and from spaces that were dropped.
    pub fn findings_of_run(&self) -> Vec<Arc<Finding>> {
        let mut findings = self.conclusion().findings;
        findings.extend(self.dropped_spaces().into_iter().flat_map(|(_, dropped)| dropped.findings));
        findings
    }

    /// All locks that clients hold or wait for.
    pub fn locks(&self) -> Vec<KnownLock> {
        let mut auditor = self.up_to_date(Auditor::clone).active();
        let now: Vec<_> = {
            let state = self.state();
            let running = state.running().into_iter();
            running.map(|(at, server)| (state.servers[at].server, server.now())).collect()
        };
        let now = |server| now.iter().find(|(number, _)| *number == server).map_or((0, 0), |(_, now)| *now);
        auditor.active_locks(now).iter().map(KnownLock::new).collect()
    }

    /// Why a key is taken for a lock, or not.
    pub fn explain_key(&self, key: &[u8]) -> Vec<LockExplanation> {
        self.up_to_date(|auditor| auditor.explain_key(key))
    }

    pub fn status(&self) -> AuditStatus {
        let allowed = |findings: &[Arc<Finding>]| findings.iter().filter(|finding| finding.allowed.is_some()).count();
        let (findings, allowed, unlisted, records) = self.up_to_date(|auditor| {
            let findings = auditor.findings();
            (findings.len(), allowed(findings), auditor.unlisted(), auditor.lines)
        });
        let state = self.state();
        AuditStatus {
            is_on: self.is_on(),
            findings,
            allowed,
            unlisted,
            records,
            scope: Arc::clone(&state.scope),
            missed: state.missed,
            forgotten: state.forgotten,
            memory: (self.memory.used(), self.memory.most()),
        }
    }

    /// The followers of all journals.
    pub fn followers(&self) -> Vec<Follower> {
        self.state().running().iter().map(|(_, server)| server.journal().follower()).collect()
    }

    /// Looks at an auditor that has processed the records so far.
    fn up_to_date<R>(&self, look: impl FnOnce(&Auditor) -> R) -> R {
        let (mut state, are_committed) = self.caught_up();
        if are_committed { look(&state.committed) } else { look(state.up_to_date(self.is_on())) }
    }

    /// The state once the records that are due are committed, and whether all are that there were before. It is locked for a portion
    /// of them at a time.
    fn caught_up(&self) -> (MutexGuard<'_, LiveState>, bool) {
        let asked = self.state().written();
        loop {
            let mut state = self.state();
            let are_committed = self.is_on() && state.has_committed(&asked);
            if are_committed || !self.is_on() || !state.commit_portion(false) {
                return (state, are_committed);
            }
        }
    }

    // ---- subscribers

    /// The findings about a server's keys that its subscribers were not told of yet. `is_patient` says whether they may come later.
    /// `last` is the number of the server's last command, if a client subscribes there.
    ///
    /// Behind many locks the auditor's thread tells them.
    pub fn news(&self, server: u16, last: Option<u64>, is_patient: bool) -> Vec<Arc<Finding>> {
        let subscribers = self.thread.subscribers();
        let Some(last) = last else {
            subscribers.end(server);
            return Vec::new();
        };
        if self.is_large() && (!subscribers.ask_thread(server, last) || self.thread.go_on()) {
            return Vec::new();
        }
        let mut state = self.state();
        // Findings from before the first subscriber are no news to it.
        let is_told = subscribers.begin(server);
        if is_told && is_patient && state.would_begin_anew() {
            return Vec::new();
        }
        let since = if is_told { subscribers.since(server, true) } else { u64::MAX };
        if self.is_on() {
            state.commit(false);
        }
        let findings = state.up_to_date(self.is_on()).findings().to_vec();
        state.news(server, &findings, since)
    }

    fn state(&self) -> MutexGuard<'_, LiveState> {
        self.thread.state()
    }
}
