//! A lock that one client took and to which nothing has happened since but that the client extended it some times, that others were
//! refused, that connections ended, or that the client gave it back, in a tenth of the memory.
//!
//! A program that has to do with many locks has nearly all of them like that. What is left out here can be told from the rest:
//! [`RestingLock::wake`] makes the lock as it was, of which [`RestingLock::of`] makes sure. Extensions, refusals and releases are noted
//! in short (`short_notes.rs` says which), and the rules see them then.

use std::iter;
use std::num::NonZeroI64;
use std::sync::Arc;

use smallvec::SmallVec;
use thin_vec::ThinVec;

use super::client_identity::ClientIdentity;
use super::client_state::{ClientStates, LockRead};
use super::code::Code;
use super::deadlines::Deadlines;
use super::effect::{Effect, ExpiryChange, KeyEffect, LockShape, Precondition};
use super::finding::{Finding, JournalRef};
use super::finding_collector::FindingCollector;
use super::guarded_work::GuardedWork;
use super::line_form::{LineForms, NotedCommand};
use super::lock::{Acquisition, Hold, HoldStatus, Lock, LockId, PastHold, note_used};
use super::lock_reason::{LockReason, LockReasons};
use super::lock_tracker::LockTracker;
use super::program_links::{ProgramLinks, SharedConnections};
use super::recent_ends::{ConnectionEnd, RecentEnds};
use super::rule_context::RuleContext;
use super::rules::{GlobalRuleState, RestingRules, RuleState, WaitCommand, constant, guess, is_trivial, is_usual};
use super::since_taken::{Extension, HoldersWork, OwnerCheck, Refusal, Release, Since, WorkSoFar};
use super::timestamp::Timestamp;

/// A lock with what is remembered beside it.
#[derive(Clone)]
pub struct TrackedLock {
    pub lock: Lock,
    pub links: ProgramLinks,
    pub rules: RuleState,
}

/// What a client writes while it holds a key that may be a lock.
pub struct Guarded<'a> {
    pub noted: &'a mut Option<Box<GuardedWork>>,
    /// The token of its hold, and the place in the order at which that began.
    pub token: &'a [u8],
    pub from: u64,
}

impl TrackedLock {
    pub fn new(id: Arc<LockId>, number: u64) -> Self {
        Self { lock: Lock::new(id, number), links: ProgramLinks::default(), rules: RuleState::default() }
    }

    /// Reads all around, so that its memory is fetched. What it returns means nothing.
    pub fn touch(&self) -> usize {
        let Self { lock, links: _, rules } = self;
        let numbers = lock.number ^ lock.times_taken ^ lock.deadline.unwrap_or(0).unsigned_abs();
        let lists = lock.holds.len() ^ lock.waiters.len() ^ lock.pending.len() ^ lock.used_keys.len();
        let oldest = lock.past_holds.front().map_or(0, PastHold::touch);
        lists ^ oldest ^ lock.reason_sources.len() ^ rules.touch() ^ usize::try_from(numbers).unwrap_or(0)
    }
}

/// What is needed to make a [`TrackedLock`] again.
#[derive(Clone)]
pub struct RestingLock {
    id: Arc<LockId>,
    number: u64,
    /// The command that took the lock.
    taken: NotedCommand,
    token: Box<[u8]>,
    /// In milliseconds on the server's clock, with the extensions.
    deadline: Option<NonZeroI64>,
    reasons_when_taken: LockReasons,
    /// The reasons that the command showed, in their order.
    shown: [Option<LockReason>; 2],
    rules: RestingRules,
    /// Findings that are held back while the key may be no lock.
    pending: ThinVec<Finding>,
    /// The refusals since, in their order.
    refusals: ThinVec<Refusal>,
    since: Option<Box<Since>>,
    work: Option<Box<HoldersWork>>,
    /// The reasons with those that the refusals or the release have shown.
    reasons: LockReasons,
}

/// So many extensions are noted in short: fewer than any rule counts.
const MAX_EXTENSIONS: usize = 8;

/// How a client takes a lock that was free.
pub struct Taking<'a> {
    pub token: &'a [u8],
    /// In milliseconds on the server's clock; not 0.
    pub deadline: Option<i64>,
    pub reasons: LockReasons,
    /// The reason that the command shows, if it does.
    pub shown: [Option<LockReason>; 2],
    pub rules: RestingRules,
}

/// Lets the rules see what a client's command does to a lock that was at rest.
fn show(
    TrackedLock { lock, links, rules }: &mut TrackedLock,
    (actor, source): (&ClientIdentity, &Arc<JournalRef>),
    (collector, work): (&mut FindingCollector, Option<WorkSoFar>),
    happen: impl FnOnce(&mut LockTracker<'_>),
) {
    let (mut clients, mut shared) = (ClientStates::default(), SharedConnections::default());
    if let Some(WorkSoFar { keys, has_accessed }) = work {
        let client = clients.meet(actor);
        client.work = keys;
        if has_accessed {
            client.note_access(0, source.place, source.at);
        }
    }
    let (mut global, mut deadlines) = (GlobalRuleState::default(), Deadlines::default());
    let context = RuleContext {
        lock,
        links,
        actor: Some(actor),
        source: Arc::clone(source),
        is_lost: false,
        is_loose: false,
        is_stale: false,
        replied_at: None,
        clients: &mut clients,
        shared: &mut shared,
        collector,
    };
    let (global, deadlines, timeline, previous_real) = (&mut global, &mut deadlines, None, source.real);
    happen(&mut LockTracker { context, rules, global, deadlines, timeline, previous_real });
}

impl ConnectionEnd {
    /// Lets the rules see it.
    fn show(&self, tracked: &mut TrackedLock, collector: &mut FindingCollector) {
        let by = (&self.client, &self.source);
        show(tracked, by, (collector, None), |tracker| tracker.close_connection(&self.client));
    }
}

impl RestingLock {
    /// The lock, if it is nothing but held as it was taken; without the findings that are held back.
    pub fn of(tracked: &TrackedLock, forms: &mut LineForms) -> Option<Self> {
        let TrackedLock { lock, links, rules } = tracked;
        let Lock {
            id,
            number,
            reasons,
            reason_sources,
            shape: LockShape::Value,
            value: Some(value),
            is_value_unknown: false,
            is_in_doubt: false,
            lacks_replies: false,
            deadline,
            deadline_slack: 0,
            node: None,
            holds,
            past_holds,
            waiters,
            pending: _,
            times_taken: 1,
            used_keys,
            guarded,
        } = lock
        else {
            return None;
        };
        let [hold] = &holds[..] else { return None };
        let is_plain = past_holds.is_empty() && waiters.is_empty();
        if !is_plain || !links.is_initial() {
            return None;
        }
        let Hold {
            client,
            token,
            how: Acquisition::Free,
            acquired,
            extended: None,
            extensions: 0,
            deadline: known_deadline,
            is_deadline_unknown: false,
            shortened: None,
            timestamp,
            is_certain: true,
            replied_at: None,
            status: HoldStatus::Held,
            acknowledged: None,
            short_wait: None,
            failover: None,
        } = hold
        else {
            return None;
        };
        let JournalRef { server, seq, at, real, earliest, place, node: None, client: by, name, process, line } =
            &**acquired
        else {
            return None;
        };
        let is_by_client = (client.server, client.id, client.seen) == (*server, *by, *real)
            && *server == id.server
            && client.name == *name
            && client.process == *process;
        let is_as_taken = (place, earliest) == (seq, real) && known_deadline == deadline && token == value;
        let mut shown = [None; 2];
        if !is_by_client || !is_as_taken || reason_sources.len() > shown.len() {
            return None;
        }
        for (shown, (reason, source)) in shown.iter_mut().zip(reason_sources) {
            (source == &**acquired).then_some(())?;
            *shown = Some(*reason);
        }
        let is_as_written = timestamp.is_none() || *timestamp == Timestamp::to_come(token, *at, *real);
        let rules = rules.at_rest(hold).filter(|_| is_as_written)?;
        let deadline = match deadline {
            Some(deadline) => Some(NonZeroI64::new(*deadline)?),
            None => None,
        };
        let (key, text) = (str::from_utf8(&id.key).ok()?, str::from_utf8(token).ok()?);
        Some(Self {
            id: Arc::clone(id),
            number: *number,
            taken: NotedCommand { form: forms.of_line(client, line, (key, text))?, seq: *seq, at: *at, real: *real },
            token: token.clone(),
            deadline,
            reasons_when_taken: *reasons,
            shown,
            rules,
            pending: ThinVec::new(),
            refusals: ThinVec::new(),
            since: None,
            work: HoldersWork::of(used_keys, guarded.as_deref()),
            reasons: *reasons,
        })
    }

    /// A lock that was free and is known for nothing but these reasons, when a client takes it.
    pub fn taken((id, number): (Arc<LockId>, u64), taking: Taking<'_>, taken: NotedCommand) -> Self {
        let Taking { token, deadline, reasons, shown, rules } = taking;
        Self {
            id,
            number,
            taken,
            token: token.into(),
            deadline: deadline.and_then(NonZeroI64::new),
            reasons_when_taken: reasons,
            shown,
            rules,
            pending: ThinVec::new(),
            refusals: ThinVec::new(),
            since: None,
            work: None,
            reasons,
        }
    }

    /// The lock as it was, when these were the last ends of connections.
    pub fn wake(&self, recent: &RecentEnds) -> TrackedLock {
        self.wake_telling(recent).0
    }

    /// The same, with what is told of what has happened since: it was told at once.
    fn wake_telling(&self, recent: &RecentEnds) -> (TrackedLock, FindingCollector) {
        let (acquired, client) = (self.acquired(), self.holder());
        let deadline = self.deadline_after(0).map(NonZeroI64::get);
        let shown = self.shown.into_iter().flatten();
        let reason_sources = shown.map(|reason| (reason, (*acquired).clone())).collect();
        let hold = Hold {
            client,
            token: self.token.clone(),
            how: Acquisition::Free,
            acquired,
            extended: None,
            extensions: 0,
            deadline,
            is_deadline_unknown: false,
            shortened: None,
            timestamp: self.timestamp(),
            is_certain: true,
            replied_at: None,
            status: HoldStatus::Held,
            acknowledged: None,
            short_wait: None,
            failover: None,
        };
        let mut tracked = TrackedLock::new(Arc::clone(&self.id), self.number);
        tracked.rules = RuleState::of_resting(&self.rules, &hold);
        let lock = &mut tracked.lock;
        lock.reasons = self.reasons_when_taken;
        lock.reason_sources = reason_sources;
        lock.value = Some(self.token.clone());
        lock.deadline = deadline;
        lock.times_taken = 1;
        lock.holds = vec![hold];
        lock.pending = self.pending.to_vec();
        if let Some(work) = self.work.as_deref() {
            (lock.used_keys, lock.guarded) = (work.used_keys.clone(), work.guarded.clone());
        }
        if self.rules.has_guess {
            FindingCollector::hold_back(&mut lock.pending, self.guess());
        }
        let told = self.show_since(&mut tracked, recent);
        (tracked, told)
    }

    /// Lets the rules see what has happened since. What they note beyond the lock was noted at once, and they report nothing but that the
    /// lock was left behind or had no expiry, was extended or given back unchecked, or that others use its token. Returns that, unless it
    /// is held back.
    fn show_since(&self, tracked: &mut TrackedLock, recent: &RecentEnds) -> FindingCollector {
        let mut collector = FindingCollector::default();
        let mut ends: SmallVec<[&Arc<ConnectionEnd>; 4]> = self.ends(recent).collect();
        for (at, Extension { command, check, work, .. }) in self.extensions().iter().enumerate() {
            let source = command.source(self.id.server, &self.id.key, &self.token);
            let by = command.by(self.id.server);
            let expiry = ExpiryChange::At(self.deadline_after(at + 1).map_or(0, NonZeroI64::get));
            let effect = self.effect(Effect::Expire { expiry, done: true }, *check);
            show(tracked, (&by, &source), (&mut collector, Some(*work)), |tracker| tracker.apply(&effect));
        }
        if self.refusals.is_empty() && self.since.is_none() && ends.is_empty() {
            return collector;
        }
        ends.sort_by_key(|end| end.source.seq);
        let mut ends = ends.into_iter().peekable();
        let mut show_ends_before = |seq: u64, tracked: &mut TrackedLock, collector: &mut FindingCollector| {
            while let Some(end) = ends.next_if(|end| end.source.seq < seq) {
                end.show(tracked, collector);
            }
        };
        for refusal in &self.refusals {
            show_ends_before(refusal.command.seq, tracked, &mut collector);
            let (source, actor) = (refusal.source(&self.id, &self.token), refusal.command.by(self.id.server));
            show(tracked, (&actor, &source), (&mut collector, None), |tracker| {
                tracker.refuse(Some(refusal.value(&self.token)));
            });
            if let Some(work) = refusal.work() {
                tracked.rules.note_refused_holder((actor.server, actor.id), &source, work);
            }
        }
        if let Some(Since::GivenBack(command, release)) = self.since.as_deref() {
            show_ends_before(command.seq, tracked, &mut collector);
            let source = command.source(self.id.server, &self.id.key, &self.token);
            let by = command.by(self.id.server);
            let effect = self.effect(Effect::Delete { removed: Some(true) }, release.check);
            show(tracked, (&by, &source), (&mut collector, None), |tracker| {
                if let Some(read) = &release.read {
                    let (id, source) = (Arc::clone(&self.id), Arc::clone(read));
                    let read = LockRead { id, value: Some(self.token.clone()), source, times_taken: 1 };
                    tracker.context.clients.meet(&by).note_read(read);
                }
                tracker.apply(&effect);
            });
        }
        show_ends_before(u64::MAX, tracked, &mut collector);
        let is_told = [
            self.was_endless() && (self.is_free() || self.is_left(recent)),
            self.mistake().is_some(),
            self.is_extension_unchecked(),
            self.refused_with_constant().is_some(),
        ];
        let told = is_told.into_iter().map(usize::from).sum::<usize>();
        let held_back = self.pending.len() + usize::from(self.rules.has_guess);
        let is_silent = collector.findings().len() + tracked.lock.pending.len() == held_back + told;
        debug_assert!(is_silent, "what follows from what happened at a lock at rest is told too late");
        debug_assert!(tracked.lock.reasons == self.reasons, "a lock at rest is known for other reasons than it was");
        collector
    }

    /// What its holder did wrong when it gave it back, without a look at whose it was or with one in a step before, and the culprit.
    pub fn mistake(&self) -> Option<(Code, u64)> {
        match self.since.as_deref() {
            Some(Since::GivenBack(_, Release { check: OwnerCheck::ByKey, read })) => match read {
                Some(_) => Some((Code::GetThenDelete, self.taken.client())),
                None => (!self.rules.is_timed).then_some((Code::UncheckedRelease, 0)),
            },
            _ => None,
        }
    }

    /// Whether its holder did not look when it extended it for the first time, or gave it its first deadline then.
    fn is_extension_unchecked(&self) -> bool {
        self.extensions().first().is_some_and(|extension| extension.check == OwnerCheck::ByKey)
    }

    fn extensions(&self) -> &[Extension] {
        self.work.as_deref().map_or(&[], |work| &work.extensions)
    }

    /// The deadline after so many extensions.
    fn deadline_after(&self, extensions: usize) -> Option<NonZeroI64> {
        self.extensions().get(extensions).map_or(self.deadline, |next| next.before)
    }

    /// What is told of the command of its holder with this number.
    pub fn told_of(&self, code: Code, seq: u64, recent: &RecentEnds) -> Option<Finding> {
        let told = self.wake_telling(recent).1;
        let is_it = |finding: &&Arc<Finding>| (finding.code, finding.seq) == (code, seq);
        told.findings().iter().find(is_it).map(|finding| Finding::clone(finding))
    }

    /// What its holder does to it.
    fn effect<'a>(&'a self, effect: Effect<'a>, check: OwnerCheck) -> KeyEffect<'a> {
        let precondition = match check {
            OwnerCheck::Compared => Precondition::Compared(Some(&self.token)),
            OwnerCheck::ByKey => Precondition::None,
        };
        KeyEffect { db: self.id.db, key: &self.id.key, effect, precondition }
    }

    /// The time that its holder has written there.
    pub fn timestamp(&self) -> Option<Timestamp> {
        let is_timed = self.rules.is_timed;
        is_timed.then(|| Timestamp::to_come(&self.token, self.taken.at, self.taken.real)).flatten()
    }

    /// Until when nothing happens to it unless a command is about it, in microseconds on the server's clock.
    pub fn rests_until(&self) -> i64 {
        match self.timestamp() {
            Some(timestamp) if timestamp.by_real_time => i64::MIN,
            Some(timestamp) => timestamp.micros,
            None => self.deadline().map_or(i64::MAX, |deadline| deadline.saturating_mul(1000)),
        }
    }

    /// How an effect of the client that holds it gives it back at this time on the server's clock and in reality, if nothing follows
    /// from that but that the lock is free, and perhaps unchecked or without an expiry until then. A time is written by those who look at
    /// the clock instead of the token.
    pub fn given_back_by(&self, effect: &KeyEffect<'_>, (at, real): (i64, i64)) -> Option<OwnerCheck> {
        let check = self.check_before(effect)?;
        let is_in_time = match self.rules.is_timed {
            true => check == OwnerCheck::ByKey && !self.is_timed_out((at, real)),
            false => self.deadline.is_some() || self.was_endless(),
        };
        let is_release = effect.effect == Effect::Delete { removed: Some(true) };
        (is_release && is_in_time).then_some(check)
    }

    /// Whether its holder has found its token there with this read.
    pub fn is_found_by(&self, read: &LockRead) -> bool {
        read.times_taken == 1 && read.value.as_deref() == Some(&*self.token)
    }

    /// How the client that holds it has made sure of that before it did something, if nobody else had to do with the lock until then.
    fn check_before(&self, effect: &KeyEffect<'_>) -> Option<OwnerCheck> {
        let check = match effect.precondition {
            Precondition::None => OwnerCheck::ByKey,
            Precondition::Compared(Some(token)) if *token == *self.token => OwnerCheck::Compared,
            Precondition::Compared(_) => return None,
        };
        (self.refusals.is_empty() && self.since.is_none()).then_some(check)
    }

    /// How an effect of the client that holds it gives it another deadline, and which, if nothing follows from it but that it was done
    /// unchecked, for the first time.
    pub fn extended_by(&self, effect: &KeyEffect<'_>, at: i64) -> Option<(OwnerCheck, i64)> {
        let Effect::Expire { expiry, done: true } = effect.effect else { return None };
        let deadline = expiry.deadline(at, None).filter(|deadline| *deadline != 0)?;
        let before = self.extensions().len();
        let may_be = before < MAX_EXTENSIONS && !self.rules.is_timed && is_usual(deadline - at.div_euclid(1000));
        let check = self.check_before(effect).filter(|_| may_be)?;
        (before == 0 || check == OwnerCheck::Compared).then_some((check, deadline))
    }

    /// Notes that its holder has given it another deadline, and the reasons with it, which make it known for a lock. Returns the findings
    /// that were held back, but for the guess.
    pub fn note_extension(
        &mut self,
        (command, check): (NotedCommand, OwnerCheck),
        (deadline, work): (i64, WorkSoFar),
        reasons: LockReasons,
    ) -> ThinVec<Finding> {
        let extension = Extension { command, check, before: self.deadline, work };
        let extensions = &mut self.work.get_or_insert_default().extensions;
        extensions.reserve_exact(1);
        extensions.push(extension);
        self.deadline = NonZeroI64::new(deadline);
        self.reasons = reasons;
        self.rules.has_guess = false;
        std::mem::take(&mut self.pending)
    }

    /// Notes that its holder has given it back, and the reasons with it, which make it known for a lock. Returns the findings that were
    /// held back, but for the guess.
    pub fn note_release(
        &mut self,
        (command, release): (NotedCommand, Release),
        reasons: LockReasons,
    ) -> ThinVec<Finding> {
        self.since = Some(Box::new(Since::GivenBack(command, release)));
        self.reasons = reasons;
        // What it guards is of no interest any more.
        self.work = self.work.take().and_then(|work| HoldersWork { guarded: None, ..*work }.if_any());
        self.rules.has_guess = false;
        std::mem::take(&mut self.pending)
    }

    /// Notes that the connection of the holder or of a client that was refused has ended.
    pub fn note_end(&mut self, end: Arc<ConnectionEnd>) {
        let since = self.since.get_or_insert_with(|| Box::new(Since::Ended(ThinVec::new())));
        if let Since::Ended(ends) = &mut **since {
            ends.push(end);
        }
    }

    /// The ends that are noted here.
    fn noted_ends(&self) -> &[Arc<ConnectionEnd>] {
        match self.since.as_deref() {
            Some(Since::Ended(ends)) => ends,
            _ => &[],
        }
    }

    /// Whether the end of the connection of this client is.
    fn is_end_noted(&self, client: u64) -> bool {
        self.noted_ends().iter().any(|end| end.client.id == client)
    }

    /// The ends of connections of the holder and of clients that were refused, in no certain order.
    fn ends<'a>(&'a self, recent: &'a RecentEnds) -> impl Iterator<Item = &'a Arc<ConnectionEnd>> {
        self.noted_ends().iter().chain(self.recent_ends(recent))
    }

    /// Those that are not noted here.
    fn recent_ends<'a>(&'a self, recent: &'a RecentEnds) -> impl Iterator<Item = &'a Arc<ConnectionEnd>> {
        let commands = iter::once(&self.taken).chain(self.refusals.iter().map(|refusal| &refusal.command));
        let commands = commands.take(if recent.is_empty() { 0 } else { usize::MAX }).enumerate();
        commands.filter_map(move |(at, command)| {
            let client = command.client();
            // Once for all commands of a client.
            let is_last = || self.refusals[at..].iter().all(|later| later.command.client() != client);
            let end = recent.behind((self.id.server, client), command.seq)?;
            (is_last() && !self.is_end_noted(client)).then_some(end)
        })
    }

    /// The sum of the numbers of their lines: which of them have ended. 0 if none has.
    pub fn sum_of_ends(&self, recent: &RecentEnds) -> u64 {
        self.ends(recent).fold(0, |sum, end| sum.wrapping_add(end.source.seq))
    }

    /// What is told when the connection of its holder ends: a lock without an expiry stays.
    pub fn left_behind(&self, end: &ConnectionEnd, recent: &RecentEnds) -> Option<Finding> {
        let mut collector = FindingCollector::default();
        end.show(&mut self.wake(recent), &mut collector);
        collector.findings().first().map(|finding| Finding::clone(finding))
    }

    /// Whether the connection of its holder has ended.
    pub fn is_left(&self, recent: &RecentEnds) -> bool {
        let holder = self.taken.client();
        recent.behind((self.id.server, holder), self.taken.seq).is_some() || self.is_end_noted(holder)
    }

    /// Whether no connection has ended of those that have to do with it, and its time is not over at this time on the server's clock and
    /// in reality.
    pub fn is_undisturbed(&self, (at, real): (i64, i64), recent: &RecentEnds) -> bool {
        !self.is_timed_out((at, real)) && self.since.is_none() && self.sum_of_ends(recent) == 0
    }

    /// Whether the time is past that its holder has written there.
    fn is_timed_out(&self, (at, real): (i64, i64)) -> bool {
        self.timestamp().is_some_and(|timestamp| timestamp.is_past(at, real))
    }

    /// Whether it has no expiry.
    pub fn is_endless(&self) -> bool {
        self.was_endless() && !self.is_free()
    }

    /// The same of one that was given back.
    pub fn was_endless(&self) -> bool {
        self.rules.is_endless && !self.is_extended()
    }

    /// Whether its holder has extended it.
    pub fn is_extended(&self) -> bool {
        !self.extensions().is_empty()
    }

    /// Whether it was given back.
    pub fn is_free(&self) -> bool {
        matches!(self.since.as_deref(), Some(Since::GivenBack(..)))
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// The deadline, with the extensions.
    pub fn deadline(&self) -> Option<i64> {
        self.deadline.map(NonZeroI64::get)
    }

    pub fn id(&self) -> &Arc<LockId> {
        &self.id
    }

    /// Reads all around, so that its memory is fetched. What it returns means nothing.
    pub fn touch(&self) -> usize {
        let numbers = self.number ^ self.taken.seq;
        self.token.len() ^ self.refusals.len() ^ usize::try_from(numbers).unwrap_or(0)
    }

    /// Holds findings back while the key may be no lock.
    pub fn hold_back(&mut self, pending: Vec<Finding>) {
        self.pending.reserve_exact(pending.len());
        self.pending.extend(pending);
    }

    /// The client that holds it.
    pub fn holder(&self) -> ClientIdentity {
        self.taken.by(self.id.server)
    }

    /// The command that took it.
    pub fn acquired(&self) -> Arc<JournalRef> {
        self.taken.source(self.id.server, &self.id.key, &self.token)
    }

    /// The same for a wait of another client.
    pub fn taken_for_wait(&self) -> WaitCommand {
        WaitCommand::Noted(self.taken.clone(), self.token.clone())
    }

    pub fn token(&self) -> &[u8] {
        &self.token
    }

    pub fn reasons(&self) -> LockReasons {
        self.reasons
    }

    /// Whether it is held back that others can guess the token.
    pub fn has_guess(&self) -> bool {
        self.rules.has_guess
    }

    /// That others can guess the token.
    pub fn guess(&self) -> Finding {
        let source = self.acquired();
        guess(&self.id, &self.token, &source).finding(&self.id, &source, 1)
    }

    /// The first refusal of another client with the same token, if that is told of.
    pub fn refused_with_constant(&self) -> Option<&Refusal> {
        let is_it = |refusal: &&Refusal| refusal.is_alike() && refusal.command.client() != self.taken.client();
        self.refusals.iter().find(is_it).filter(|_| self.has_constant())
    }

    /// That others use its token, as the last refusal has shown again.
    pub fn constant(&self) -> Option<Finding> {
        let (first, last) = (self.refused_with_constant()?, self.refusals.last()?);
        let [first, last] = [first, last].map(|refusal| refusal.source(&self.id, &self.token));
        let draft = constant(&self.id, &self.token, (&self.holder(), &self.acquired()), [&first, &last]);
        Some(draft.finding(&self.id, &last, 1))
    }

    /// Whether its token is one that everybody writes who has none, of which it is told that others use it.
    pub fn has_constant(&self) -> bool {
        self.rules.has_token && is_trivial(&self.token)
    }

    pub fn refusals(&self) -> &[Refusal] {
        &self.refusals
    }

    /// Whether a client has it for certain, as the server does, and its time is not over.
    pub fn is_certain(&self, client: &ClientIdentity, (at, real): (i64, i64), recent: &RecentEnds) -> bool {
        let is_over =
            self.deadline().is_some_and(|deadline| at.div_euclid(1000) > deadline) || self.is_timed_out((at, real));
        self.was_taken_by(client) && !is_over && !self.is_free() && !self.is_left(recent)
    }

    /// Whether something is known of what its holder has done since.
    pub fn has_work(&self) -> bool {
        self.work.is_some()
    }

    /// Whether it is noted what its holder writes.
    pub fn has_guarded(&self) -> bool {
        self.work.as_deref().is_some_and(|work| work.guarded.is_some())
    }

    /// Whether its holder has used the key with this hash.
    pub fn is_used_for(&self, key: u64) -> bool {
        self.work.as_deref().is_some_and(|work| work.used_keys.contains(&key))
    }

    /// Its holder uses the key with this hash.
    pub fn note_used(&mut self, key: u64) {
        note_used(&mut self.work.get_or_insert_default().used_keys, key);
    }

    /// Where it is noted what its holder writes, with the token, and the place in the order at which it was taken.
    pub fn guarded(&mut self) -> Guarded<'_> {
        let noted = &mut self.work.get_or_insert_default().guarded;
        Guarded { noted, token: &self.token, from: self.taken.seq }
    }

    /// Whether a client took it.
    pub fn was_taken_by(&self, client: &ClientIdentity) -> bool {
        (self.id.server, self.taken.client()) == (client.server, client.id)
    }

    /// Whether a client holds the lock or waits for it.
    pub fn concerns(&self, client: &ClientIdentity, recent: &RecentEnds) -> bool {
        !self.is_free() && self.was_taken_by(client) && !self.is_left(recent) || self.has_waiter(client, recent)
    }

    /// Whether a client waits for it.
    pub fn has_waiter(&self, client: &ClientIdentity, recent: &RecentEnds) -> bool {
        let mut own = self.refusals.iter().filter(|refusal| refusal.command.client() == client.id);
        self.id.server == client.server
            && own.next_back().is_some_and(|last| {
                recent.behind((client.server, client.id), last.command.seq).is_none() && !self.is_end_noted(client.id)
            })
    }

    /// Notes a refusal, and the reasons with it. Returns the findings that were held back, if the key is known for a lock now, but for the
    /// guess.
    pub fn note_refusal(&mut self, refusal: Refusal, reasons: LockReasons) -> ThinVec<Finding> {
        if self.refusals.len() == self.refusals.capacity() {
            // Most locks are refused once or never.
            self.refusals.reserve_exact(1 + self.refusals.len());
        }
        self.refusals.push(refusal);
        self.reasons = reasons;
        if !reasons.are_enough() {
            return ThinVec::new();
        }
        self.rules.has_guess = false;
        std::mem::take(&mut self.pending)
    }
}
