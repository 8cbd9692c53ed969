//! The audit of servers while they run.
//!
//! Records fall out of a journal, and a record can come a moment late, or turn out otherwise: its reply was lost. So one
//! auditor has gone through all but the newest few thousand, and never goes back; whoever asks gets a copy of it that has
//! gone through the rest, too.
//!
//! Locks are taken in this order: the audit, then the journals.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use foldhash::fast::FixedState;

use super::allowance::Allowance;
use super::auditor::{Auditor, Naming, Scope};
use super::code::Severity;
use super::finding::Finding;
use super::known::KnownLock;
use super::report::{Report, Same, same};
use super::told::Told;
use crate::base::sync::MutexExt;
use crate::powers::{Follower, Journal, LockedJournal, RawRecord};
use crate::spec::RequestKeys;

/// How many records of a server are left for later, because others can come late that belong in front of them.
const LEFT: usize = 1024;
/// How many at most, while one is missing: its thread may have been stopped on the way.
const HELD_BACK: usize = 32 * LEFT;
/// How many records are looked at at once.
const PORTION: usize = HELD_BACK + 2 * LEFT;
/// How many records must have come before all that are left for later are gone through once more, unless somebody asks.
const PATIENCE: u64 = 256;
/// How many allowances there may be.
const MOST_ALLOWED: usize = 1000;

/// A server whose journal is gone through.
pub trait Audited: Send + Sync {
    fn journal(&self) -> &Arc<Journal>;

    /// What its clock shows, and the real time, in microseconds since 1970.
    fn now(&self) -> (i64, i64);

    /// Begins to keep a journal, if it does not yet.
    fn begin_journal(&self);
}

/// The audit of one server, or of several together.
pub struct LiveAudit {
    is_on: AtomicBool,
    /// The servers to whose findings somebody listens, a bit for each.
    heard: AtomicU64,
    naming: Arc<Naming>,
    start: Start,
    state: Mutex<State>,
}

/// How it is when the servers start.
#[derive(Clone, Default)]
struct Start {
    is_on: bool,
    scope: Arc<Scope>,
}

struct State {
    was_on: bool,
    scope: Arc<Scope>,
    sources: Vec<Source>,
    /// Has gone through all but the newest records.
    settled: Auditor,
    ahead: Option<Ahead>,
    /// Somebody has asked since the last time that records were settled.
    is_asked: bool,
    /// What those who listen were told, and how bad it was then.
    published: HashMap<Same, Severity, FixedState>,
    /// Records that fell out before they were gone through.
    missed: u64,
    /// What was found on servers before they were reset, and how much was missed there.
    kept: Report,
    kept_missed: u64,
}

/// What an audit has come to in the end, resets or not.
pub struct Conclusion {
    pub findings: Vec<Arc<Finding>>,
    /// How many keys were taken for locks.
    pub locks: u64,
    /// Findings that there was no more room for.
    pub unlisted: u64,
    /// Records that fell out of the journal before they were gone through.
    pub missed: u64,
}

/// A server, and how far its journal was gone through by the auditor that never goes back.
struct Source {
    server: u16,
    audited: Weak<dyn Audited>,
    /// The first record that is left; of those from there on to `seen`, some were gone through before their turn:
    next: u64,
    seen: u64,
    /// those whose place in the order is not behind this one.
    place: u64,
    /// The next place is that behind it, as nothing is missing in between.
    is_followed: bool,
    /// Nothing of it was gone through so far.
    is_new: bool,
    /// The records from now on do not follow upon those that were gone through.
    is_torn: bool,
}

/// How many records of a server may be left.
struct Limits {
    usual: usize,
    /// While one is missing.
    most: usize,
}

/// An auditor that has gone through everything.
struct Ahead {
    auditor: Auditor,
    /// By source.
    marks: Vec<Seam>,
    /// The real time of the last record.
    real: i64,
}

/// Where new records follow upon those that were gone through.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seam {
    written: u64,
    revised: u64,
    /// The last place in the order.
    place: u64,
}

/// How it stands with an audit.
pub struct AuditFigures {
    pub is_on: bool,
    pub scope: Arc<Scope>,
    /// How many findings there are, and how many of those are allowed.
    pub findings: usize,
    pub allowed: usize,
    /// Findings that there was no more room for.
    pub unlisted: u64,
    /// How many records were gone through, and how many fell out of the journal before.
    pub records: u64,
    pub missed: u64,
}

impl Default for LiveAudit {
    fn default() -> Self {
        Self::new(Arc::new(|_| RequestKeys::default()), Scope::default(), false)
    }
}

impl LiveAudit {
    /// An audit that is on from the start, or not.
    pub fn new(naming: Arc<Naming>, scope: Scope, is_on: bool) -> Self {
        Self::begin(naming, Start { is_on, scope: Arc::new(scope) })
    }

    /// As this one was when it started, for servers that have nothing to do with these.
    pub fn another(&self) -> Self {
        Self::begin(Arc::clone(&self.naming), self.start.clone())
    }

    fn begin(naming: Arc<Naming>, start: Start) -> Self {
        let state = State {
            was_on: start.is_on,
            scope: Arc::clone(&start.scope),
            sources: Vec::new(),
            settled: Auditor::new(Arc::clone(&start.scope), Arc::clone(&naming)),
            ahead: None,
            is_asked: false,
            published: HashMap::default(),
            missed: 0,
            kept: Report::new(Arc::clone(&start.scope)),
            kept_missed: 0,
        };
        let is_on = AtomicBool::new(start.is_on);
        Self { is_on, heard: AtomicU64::new(0), naming, start, state: Mutex::new(state) }
    }

    /// Goes through the journal of this server, too. Servers are told apart by number, from 1.
    pub fn join(&self, server: u16, audited: Weak<dyn Audited>) {
        let (next, seen, place, is_followed, is_new, is_torn) = (0, 0, 0, false, true, false);
        let source = Source { server, audited, next, seen, place, is_followed, is_new, is_torn };
        self.state().sources.push(source);
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    pub fn was_on(&self) -> bool {
        self.state().was_on
    }

    /// Goes through what comes from now on, and the first time also through what the journals have already. They are kept
    /// from now on.
    pub fn turn_on(&self) {
        let mut state = self.state();
        let servers = state.servers();
        servers.iter().for_each(|(_, server)| server.begin_journal());
        if self.is_on() {
            return;
        }
        state.was_on = true;
        for (at, server) in &servers {
            let written = server.journal().lock().written();
            let source = &mut state.sources[*at];
            if !source.is_new {
                source.skip_to(written);
            }
        }
        state.ahead = None;
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// Goes through nothing more. What was found stays.
    pub fn turn_off(&self) {
        let mut state = self.state();
        if self.is_on() {
            state.settle(true);
            self.is_on.store(false, Ordering::Relaxed);
        }
        for (_, server) in state.servers() {
            server.journal().wake_followers();
        }
    }

    /// Goes through what would fall out of a journal soon.
    pub fn settle(&self) {
        if self.is_on() {
            self.state().settle(false);
        }
    }

    /// Goes through everything, because a journal is about to be emptied.
    pub fn settle_all(&self) {
        if self.is_on() {
            self.state().settle(true);
        }
    }

    /// The journal of a server was switched off: what comes when it is on again does not follow upon this.
    pub fn note_stop(&self, server: u16) {
        if self.is_on() {
            let mut state = self.state();
            state.settle(true);
            state.sources.iter_mut().filter(|source| source.server == server).for_each(|source| source.is_torn = true);
        }
    }

    /// Remembers for the conclusion what was found on a server, because that is about to be reset. What can only be told
    /// at the end is not among it: a reset is none.
    pub fn keep(&self, server: u16) {
        if !self.is_on() {
            return;
        }
        let mut state = self.state();
        let auditor = state.all_the_way(true);
        let findings: Vec<_> =
            auditor.findings().iter().filter(|finding| finding.server == server).map(Arc::clone).collect();
        let (locks, unlisted) = (auditor.watched(), auditor.unlisted());
        findings.into_iter().for_each(|finding| state.kept.add(Arc::unwrap_or_clone(finding)));
        if state.sources.len() <= 1 {
            // All of it is about to be forgotten; else only what was found is.
            state.kept.locks += locks;
            state.kept.unlisted += unlisted;
            state.kept_missed += std::mem::take(&mut state.missed);
        }
    }

    /// As when the server started, as far as this one is concerned: nothing was found there.
    pub fn reset(&self, server: u16) {
        let mut state = self.state();
        if self.is_on() {
            // What was found on the others is to stay.
            state.settle(true);
        }
        let State { sources, settled, published, .. } = &mut *state;
        if sources.len() <= 1 {
            *settled = Auditor::new(Arc::clone(&self.start.scope), Arc::clone(&self.naming));
        } else {
            settled.forget(server);
            settled.set_scope(Arc::clone(&self.start.scope));
        }
        published.retain(|(_, number, ..), _| *number != server);
        for source in sources.iter_mut().filter(|source| source.server == server) {
            if let Some(audited) = source.audited.upgrade() {
                source.skip_to(audited.journal().lock().written());
            }
            (source.place, source.is_new, source.is_torn) = (0, true, false);
        }
        self.heard.fetch_and(!bit(server), Ordering::Relaxed);
        self.is_on.store(self.start.is_on, Ordering::Relaxed);
        (state.ahead, state.scope, state.was_on) = (None, Arc::clone(&self.start.scope), self.start.is_on);
        if state.sources.len() <= 1 {
            state.missed = 0;
        }
    }

    /// Forgets what was found. Who holds what stays known.
    pub fn clear(&self) {
        let mut state = self.state();
        if self.is_on() {
            state.settle(true);
        }
        state.settled.forget_findings();
        state.ahead = None;
        state.published.clear();
    }

    /// Allows what is known to be so. The error says that there is no room.
    pub fn allow(&self, allowance: Allowance) -> Result<(), String> {
        let mut state = self.state();
        if state.scope.allowed.len() >= MOST_ALLOWED {
            return Err(format!("there are {MOST_ALLOWED} allowances already; REDOUBLE RESET forgets them"));
        }
        let mut scope = (*state.scope).clone();
        scope.allowed.push(allowance);
        state.scope = Arc::new(scope);
        let scope = Arc::clone(&state.scope);
        if let Some(ahead) = &mut state.ahead {
            ahead.auditor.set_scope(Arc::clone(&scope));
        }
        state.settled.set_scope(scope);
        Ok(())
    }

    // ---- questions

    /// All findings so far, in the order in which they were found.
    pub fn findings(&self) -> Vec<Arc<Finding>> {
        self.asked(|auditor| auditor.findings().to_vec())
    }

    /// An auditor that has gone through everything, as if nothing more were to come.
    pub fn conclude(&self) -> Auditor {
        let mut auditor = self.asked(|auditor| auditor.clone());
        auditor.finish();
        auditor
    }

    /// What was found from the start on, also before servers were reset, as if nothing more were to come.
    pub fn whole(&self) -> Conclusion {
        let auditor = self.conclude();
        let state = self.state();
        let mut report = state.kept.clone();
        report.set_scope(Arc::clone(&state.scope));
        auditor.findings().iter().for_each(|finding| report.add((**finding).clone()));
        Conclusion {
            findings: report.findings().to_vec(),
            locks: report.locks + auditor.watched(),
            unlisted: report.unlisted + auditor.unlisted(),
            missed: state.kept_missed + state.missed,
        }
    }

    /// All keys that are taken for locks and that somebody holds or waits for.
    pub fn locks(&self) -> Vec<KnownLock> {
        let (mut auditor, now): (Auditor, Vec<_>) = {
            let mut state = self.state();
            let auditor = state.all_the_way(self.is_on()).live();
            let now =
                state.servers().into_iter().map(|(at, server)| (state.sources[at].server, server.now())).collect();
            (auditor, now)
        };
        let now = |server| now.iter().find(|(number, _)| *number == server).map_or((0, 0), |(_, now)| *now);
        auditor.locks(now).iter().map(KnownLock::new).collect()
    }

    pub fn figures(&self) -> AuditFigures {
        let mut state = self.state();
        let is_on = self.is_on();
        let auditor = state.all_the_way(is_on);
        let findings = auditor.findings();
        AuditFigures {
            is_on,
            findings: findings.len(),
            allowed: findings.iter().filter(|finding| finding.allowed.is_some()).count(),
            unlisted: auditor.unlisted(),
            records: auditor.lines,
            scope: Arc::clone(&state.scope),
            missed: state.missed,
        }
    }

    /// Those who follow the journals.
    pub fn followers(&self) -> Vec<Follower> {
        self.state().servers().iter().map(|(_, server)| server.journal().follower()).collect()
    }

    fn asked<R>(&self, look: impl FnOnce(&Auditor) -> R) -> R {
        look(self.state().all_the_way(self.is_on()))
    }

    // ---- those who listen

    /// What was found about the keys of a server since somebody listens, and was not told yet; nothing if nobody does.
    /// `is_patient` is whether it may come later.
    pub fn news(&self, server: u16, is_heard: bool, is_patient: bool) -> Vec<Arc<Finding>> {
        let was_heard = self.heard.load(Ordering::Relaxed) & bit(server) != 0;
        if !is_heard {
            if was_heard {
                self.heard.fetch_and(!bit(server), Ordering::Relaxed);
            }
            return Vec::new();
        }
        let mut state = self.state();
        // What was found before is no news to somebody who has just come.
        let is_told = self.heard.fetch_or(bit(server), Ordering::Relaxed) & bit(server) != 0;
        if is_told && is_patient && state.would_begin_anew() {
            return Vec::new();
        }
        let findings = state.all_the_way(self.is_on()).findings();
        let findings: Vec<_> = findings.iter().filter(|finding| finding.server == server).map(Arc::clone).collect();
        let mut news = Vec::new();
        for finding in findings {
            let before = state.published.insert(same(&finding), finding.severity);
            if is_told && before.is_none_or(|severity| severity < finding.severity) && finding.allowed.is_none() {
                news.push(finding);
            }
        }
        news
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock_ignoring_poison()
    }
}

impl State {
    /// The servers that are there, each with its place among the sources.
    fn servers(&self) -> Vec<(usize, Arc<dyn Audited>)> {
        let servers = self.sources.iter().enumerate();
        servers.filter_map(|(at, source)| Some((at, source.audited.upgrade()?))).collect()
    }

    /// Has the auditor that never goes back go through all records, or else, if it is time, through all but the newest.
    fn settle(&mut self, all: bool) {
        let servers = self.servers();
        let mut held = hold(&servers);
        if !all && !held.iter().any(|(_, held)| held.is_overtaking()) {
            return;
        }
        if !std::mem::take(&mut self.is_asked) {
            self.ahead = None;
        }
        self.look_for_gaps(&held);
        let limits = |held: &LockedJournal<'_>| {
            let room = if all { 0 } else { usize::try_from(held.records_per_eighth()).unwrap_or(usize::MAX) };
            Limits { usual: LEFT.min(room), most: HELD_BACK.min(room) }
        };
        let limits: Vec<Limits> = held.iter().map(|(_, held)| limits(held)).collect();
        let left = loop {
            let mut records = Merged::new(&held, |at, held| self.sources[at].left(held, PORTION));
            self.feed_settled(&mut records, &limits);
            let mut is_over = true;
            for ((at, held), list) in held.iter().zip(&records.lists) {
                let source = &mut self.sources[*at];
                source.seen = if list.is_cut { list.end } else { held.written() };
                source.next = list.first_left().unwrap_or(source.seen);
                is_over &= !list.is_cut;
            }
            if is_over {
                break records.lists.iter().map(|list| list.records.len() as u64).collect::<Vec<_>>();
            }
        };
        held.iter_mut().zip(left).for_each(|((_, held), left)| held.leave_unseen(left));
    }

    /// Goes through some records, until so many are left of each server, or until what was cut off is needed. Where one
    /// is missing it waits for it, for some time.
    fn feed_settled(&mut self, records: &mut Merged<'_>, limits: &[Limits]) {
        if let ([list], [limits]) = (records.lists.as_mut_slice(), limits) {
            return self.feed_settled_alone(list, limits);
        }
        let before: Vec<u64> = records.lists.iter().map(|list| self.sources[list.at].place).collect();
        loop {
            let lists = || records.lists.iter().zip(limits.iter().zip(&before));
            // What was to come in front of others that are settled.
            let is_late = lists().any(|(list, (_, before))| list.next_place().is_some_and(|place| place <= *before));
            let is_full = lists().any(|(list, (limits, _))| list.is_cut || list.records.len() > limits.most);
            let is_due = lists().any(|(list, (limits, _))| list.records.len() > limits.usual);
            let is_wanting = lists().any(|(list, _)| list.is_cut && list.records.len() <= LEFT);
            let Some(next) = records.peek() else { return };
            let is_missing = self.sources[next.at].misses(next);
            if !is_late && (is_wanting || !is_full && (is_missing || !is_due)) {
                return;
            }
            let Some((at, unread)) = records.next() else { return };
            let source = &mut self.sources[at];
            (source.place, source.is_followed) = (source.place.max(unread.seq), true);
            take_in(&mut self.settled, source.server, &unread);
        }
    }

    /// The same for a single server, of which there is mostly only one.
    fn feed_settled_alone(&mut self, list: &mut List<'_>, limits: &Limits) {
        let source = &mut self.sources[list.at];
        let before = source.place;
        while let Some(next) = list.records.as_slice().first() {
            let left = list.records.len();
            let is_wanting = list.is_cut && left <= LEFT;
            let is_full = list.is_cut || left > limits.most;
            let is_missing = source.is_followed && next.seq > source.place + 1;
            if next.seq > before && (is_wanting || !is_full && (is_missing || left <= limits.usual)) {
                return;
            }
            (source.place, source.is_followed) = (source.place.max(next.seq), true);
            take_in(&mut self.settled, source.server, next);
            list.records.next();
        }
    }

    /// What fell out, and what was not kept, takes away what is known of who holds what.
    fn look_for_gaps(&mut self, held: &[(usize, LockedJournal<'_>)]) {
        for (at, held) in held {
            let source = &mut self.sources[*at];
            let oldest = held.oldest();
            if source.next < oldest {
                if !source.is_new {
                    self.missed += oldest - source.next.max(source.seen.min(oldest));
                    source.is_torn = true;
                }
                (source.next, source.is_followed) = (oldest, false);
            }
            source.is_new = false;
            if source.is_torn && held.written() > source.seen {
                source.is_torn = false;
                self.settled.miss(source.server);
                self.ahead = None;
            }
        }
    }

    /// An auditor that has gone through everything, as long as the audit is on.
    fn all_the_way(&mut self, is_on: bool) -> &Auditor {
        if !is_on {
            return &self.settled;
        }
        // So that no more is left than can be gone through again and again.
        self.settle(false);
        self.is_asked = true;
        let servers = self.servers();
        let held = hold(&servers);
        self.look_for_gaps(&held);
        let follows = self.ahead.as_ref().is_some_and(|ahead| ahead.follows(&held));
        let mut ahead = match self.ahead.take().filter(|_| follows) {
            Some(ahead) => ahead,
            None => Ahead { auditor: self.settled.clone(), marks: Vec::new(), real: i64::MIN },
        };
        let mut records = match follows {
            true => Merged::new(&held, |at, held| held.raw_records_from(ahead.marks[at].written).collect()),
            false => Merged::new(&held, |at, held| self.sources[at].left(held, usize::MAX)),
        };
        ahead.marks.resize(self.sources.len(), Seam { written: 0, revised: 0, place: 0 });
        if !follows {
            for (mark, source) in ahead.marks.iter_mut().zip(&self.sources) {
                mark.place = source.place;
            }
        }
        while let Some((at, unread)) = records.next() {
            take_in(&mut ahead.auditor, self.sources[at].server, &unread);
            ahead.marks[at].place = ahead.marks[at].place.max(unread.seq);
            ahead.real = ahead.real.max(unread.real);
        }
        for (at, held) in &held {
            (ahead.marks[*at].written, ahead.marks[*at].revised) = (held.written(), held.revisions());
        }
        &self.ahead.insert(ahead).auditor
    }

    /// Whether all records that are left would have to be gone through once more, for few that are new.
    fn would_begin_anew(&mut self) -> bool {
        let servers = self.servers();
        let held = hold(&servers);
        let Some(ahead) = &mut self.ahead else { return false };
        if ahead.follows(&held) {
            return false;
        }
        let new = held.iter().filter_map(|(at, held)| held.written().checked_sub(ahead.marks.get(*at)?.written));
        new.sum::<u64>() < PATIENCE
    }
}

impl Source {
    /// The records that are left, at most so many.
    fn left<'h>(&self, held: &'h LockedJournal<'_>, most: usize) -> Vec<RawRecord<'h>> {
        let is_settled = |unread: &RawRecord<'_>| unread.index < self.seen && unread.seq <= self.place;
        held.raw_records_from(self.next).filter(|unread| !is_settled(unread)).take(most).collect()
    }

    /// Whether something is missing in front of the next record.
    fn misses(&self, list: &List<'_>) -> bool {
        self.is_followed && list.next_place().is_some_and(|place| place > self.place + 1)
    }

    /// What was written before this record is none of the audit's.
    fn skip_to(&mut self, written: u64) {
        (self.next, self.seen, self.is_followed, self.is_torn) = (written, written, false, true);
    }
}

impl Ahead {
    /// Whether what has come belongs behind what was gone through.
    fn follows(&self, held: &[(usize, LockedJournal<'_>)]) -> bool {
        held.iter().all(|(at, held)| {
            let Some(mark) = self.marks.get(*at) else { return false };
            mark.revised == held.revisions()
                && mark.written >= held.oldest()
                && held
                    .raw_records_from(mark.written)
                    .all(|unread| unread.seq > mark.place && (self.marks.len() == 1 || unread.real >= self.real))
        })
    }
}

/// The records of several journals, those of one in the order of their places, and all in that of real time.
struct Merged<'h> {
    lists: Vec<List<'h>>,
}

/// Records of one of them.
struct List<'h> {
    /// The place of the server among the sources.
    at: usize,
    records: std::vec::IntoIter<RawRecord<'h>>,
    /// Behind the last of them, and whether there are more.
    end: u64,
    is_cut: bool,
}

impl<'h> Merged<'h> {
    fn new(
        held: &'h [(usize, LockedJournal<'_>)],
        records: impl Fn(usize, &'h LockedJournal<'_>) -> Vec<RawRecord<'h>>,
    ) -> Self {
        let list = |(at, held): &'h (usize, LockedJournal<'_>)| {
            let mut records = records(*at, held);
            let end = records.last().map_or(held.written(), |unread| unread.index + 1);
            records.sort_by_key(|unread| unread.seq);
            List {
                at: *at,
                is_cut: end < held.written() && records.len() >= PORTION,
                end,
                records: records.into_iter(),
            }
        };
        Self { lists: held.iter().map(list).collect() }
    }

    /// The list whose turn it is.
    fn peek(&self) -> Option<&List<'h>> {
        self.lists.iter().filter(|list| list.records.len() > 0).min_by_key(|list| list.real())
    }

    fn next(&mut self) -> Option<(usize, RawRecord<'h>)> {
        let list = self.lists.iter_mut().filter(|list| list.records.len() > 0).min_by_key(|list| list.real())?;
        Some((list.at, list.records.next()?))
    }
}

impl List<'_> {
    /// When the next one took effect.
    fn real(&self) -> Option<i64> {
        self.records.as_slice().first().map(|unread| unread.real)
    }

    /// The place in the order of the next one.
    fn next_place(&self) -> Option<u64> {
        self.records.as_slice().first().map(|unread| unread.seq)
    }

    /// The first one in the journal that is left.
    fn first_left(&self) -> Option<u64> {
        self.records.as_slice().iter().map(|unread| unread.index).min()
    }
}

/// Has an auditor take in a record, which it does not read if a glance at it is enough.
fn take_in(auditor: &mut Auditor, server: u16, unread: &RawRecord<'_>) {
    if unread.header().is_some_and(|glance| auditor.skims(server, &glance)) {
        return;
    }
    if let Some(seen) = unread.read() {
        auditor.feed(&Told::seen(server, &seen));
    }
}

fn hold(servers: &[(usize, Arc<dyn Audited>)]) -> Vec<(usize, LockedJournal<'_>)> {
    servers.iter().map(|(at, server)| (*at, server.journal().lock())).collect()
}

/// Stands for a server; there are at most 64.
fn bit(server: u16) -> u64 {
    1 << (server.saturating_sub(1) % 64)
}
