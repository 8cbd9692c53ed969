//! A lock that one client took and to which nothing has happened since but that others were refused, in a tenth of the memory.
//!
//! A program that holds many locks at once holds nearly all of them like that. What is left out here can be told from the rest:
//! [`RestingLock::wake`] makes the lock as it was, of which [`RestingLock::of`] makes sure. Refusals are noted in short
//! (`postponed_refusals.rs` says which), and the rules see them then.

use std::sync::Arc;

use super::client_identity::{ClientIdentity, ClientLabels};
use super::client_state::ClientStates;
use super::deadlines::Deadlines;
use super::effect::LockShape;
use super::finding::{Finding, JournalRef};
use super::finding_collector::FindingCollector;
use super::lock::{Acquisition, Hold, HoldStatus, Lock, LockId, PastHold};
use super::lock_reason::{LockReason, LockReasons};
use super::lock_tracker::LockTracker;
use super::program_links::{ProgramLinks, SharedConnections};
use super::rule_context::RuleContext;
use super::rules::{GlobalRuleState, RestingRules, RuleState};
use crate::powers::is_shown_as_it_is;

/// A lock with what is remembered beside it.
#[derive(Clone)]
pub struct TrackedLock {
    pub lock: Lock,
    pub links: ProgramLinks,
    pub rules: RuleState,
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
    client: u64,
    labels: Arc<ClientLabels>,
    /// The command that took the lock.
    seq: u64,
    at: i64,
    real: i64,
    line: Arc<LinePattern>,
    token: Box<[u8]>,
    /// In milliseconds on the server's clock.
    deadline: Option<i64>,
    reasons_when_taken: LockReasons,
    /// The reasons that the command showed, in their order.
    shown: [Option<LockReason>; 2],
    rules: RestingRules,
    /// Findings that are held back while the key may be no lock.
    pending: Vec<Finding>,
    /// The refusals since, in their order.
    refusals: Vec<Refusal>,
    /// The reasons with those that the refusals have shown.
    reasons: LockReasons,
}

/// A refusal of another client.
#[derive(Clone)]
pub struct Refusal {
    pub client: u64,
    pub labels: Arc<ClientLabels>,
    pub seq: u64,
    pub at: i64,
    pub real: i64,
    pub line: Arc<LinePattern>,
    /// What it offered.
    pub value: Box<[u8]>,
    /// How many keys beside locks it had accessed, if it held another lock and is not known to wait for this one.
    pub work: Option<u64>,
}

impl Refusal {
    /// The client at this command.
    pub fn by(&self, server: u16) -> ClientIdentity {
        ClientIdentity { server, id: self.client, seen: self.real, labels: Arc::clone(&self.labels) }
    }

    pub fn source(&self, id: &LockId) -> Arc<JournalRef> {
        source((self.seq, self.at, self.real), (id, &self.value), (self.client, &self.labels), &self.line)
    }
}

/// A command that was about a key and a value alone.
fn source(
    (seq, at, real): (u64, i64, i64),
    (id, value): (&LockId, &[u8]),
    (client, labels): (u64, &ClientLabels),
    line: &LinePattern,
) -> Arc<JournalRef> {
    let text = |bytes| str::from_utf8(bytes).unwrap_or_default();
    Arc::new(JournalRef {
        server: id.server,
        seq,
        at,
        real,
        earliest: real,
        place: seq,
        node: None,
        client,
        name: Arc::clone(&labels.name),
        process: labels.process.clone(),
        line: line.line(text(&id.key), text(value)),
    })
}

/// The command of a line, with gaps for the key and the token: locks that are taken alike share it.
#[derive(Debug, PartialEq, Eq)]
pub struct LinePattern {
    /// What comes before the key, between key and token, and after the token.
    parts: [Box<str>; 3],
}

/// The patterns of the last lines.
#[derive(Clone, Default)]
pub struct LinePatterns(Vec<Arc<LinePattern>>);

/// How many patterns are compared with a new line.
const MAX_PATTERNS: usize = 8;

impl LinePatterns {
    /// The pattern of a command whose second word is the key, and the third one the token; `None` if it is not shown as it is.
    pub fn of_words(&mut self, words: &[&[u8]]) -> Option<Arc<LinePattern>> {
        if words.len() < 3 || !is_shown_as_it_is(words) {
            return None;
        }
        if let Some(known) = self.0.iter().find(|pattern| pattern.is_of(words)) {
            return Some(Arc::clone(known));
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let after: String = words[3..].iter().flat_map(|word| [" ".to_owned(), text(word)]).collect();
        Some(self.add(LinePattern { parts: [(text(words[0]) + " ").into(), " ".into(), after.into()] }))
    }

    fn add(&mut self, pattern: LinePattern) -> Arc<LinePattern> {
        let new = Arc::new(pattern);
        if self.0.len() >= MAX_PATTERNS {
            self.0.remove(0);
        }
        self.0.push(Arc::clone(&new));
        new
    }

    /// The pattern of a line that names the key, and behind it the token; `None` if it does not.
    fn of(&mut self, line: &str, key: &str, token: &str) -> Option<Arc<LinePattern>> {
        let (before, rest) = line.split_once(key)?;
        let (between, after) = rest.split_once(token)?;
        let parts = [before, between, after];
        let is_it = |pattern: &&Arc<LinePattern>| pattern.parts.iter().zip(parts).all(|(own, part)| **own == *part);
        if let Some(known) = self.0.iter().find(is_it) {
            return Some(Arc::clone(known));
        }
        Some(self.add(LinePattern { parts: parts.map(Into::into) }))
    }
}

impl LinePattern {
    /// Whether a command has this pattern, its second word being the key, and the third one the token.
    fn is_of(&self, words: &[&[u8]]) -> bool {
        let [before, between, after] = &self.parts;
        let mut left = after.as_bytes();
        let mut is_next = |word: &&[u8]| match left.strip_prefix(b" ").and_then(|left| left.strip_prefix(*word)) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        };
        before.as_bytes().strip_suffix(b" ") == Some(words[0])
            && **between == *" "
            && words[3..].iter().all(&mut is_next)
            && left.is_empty()
    }

    fn line(&self, key: &str, token: &str) -> Arc<str> {
        let [before, between, after] = &self.parts;
        [before, key, between, token, after].concat().into()
    }
}

impl RestingLock {
    /// The lock, if it is nothing but held as it was taken; without the findings that are held back.
    pub fn of(tracked: &TrackedLock, patterns: &mut LinePatterns) -> Option<Self> {
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
            guarded: None,
        } = lock
        else {
            return None;
        };
        let [hold] = &holds[..] else { return None };
        let is_plain = past_holds.is_empty() && waiters.is_empty() && used_keys.is_empty();
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
            timestamp: None,
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
        let rules = rules.at_rest(hold)?;
        let (key, text) = (str::from_utf8(&id.key).ok()?, str::from_utf8(token).ok()?);
        Some(Self {
            id: Arc::clone(id),
            number: *number,
            client: *by,
            labels: Arc::clone(&client.labels),
            seq: *seq,
            at: *at,
            real: *real,
            line: patterns.of(line, key, text)?,
            token: token.clone(),
            deadline: *deadline,
            reasons_when_taken: *reasons,
            shown,
            rules,
            pending: Vec::new(),
            refusals: Vec::new(),
            reasons: *reasons,
        })
    }

    /// The lock as it was.
    pub fn wake(&self) -> TrackedLock {
        let (acquired, client) = (self.acquired(), self.holder());
        let shown = self.shown.into_iter().flatten();
        let reason_sources = shown.map(|reason| (reason, (*acquired).clone())).collect();
        let hold = Hold {
            client,
            token: self.token.clone(),
            how: Acquisition::Free,
            acquired,
            extended: None,
            extensions: 0,
            deadline: self.deadline,
            is_deadline_unknown: false,
            shortened: None,
            timestamp: None,
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
        lock.deadline = self.deadline;
        lock.times_taken = 1;
        lock.holds = vec![hold];
        lock.pending.clone_from(&self.pending);
        self.show_refusals(&mut tracked);
        tracked
    }

    /// Lets the rules see the refusals. What they note beyond the lock was noted at once, and they report nothing.
    fn show_refusals(&self, TrackedLock { lock, links, rules }: &mut TrackedLock) {
        if self.refusals.is_empty() {
            return;
        }
        let (mut clients, mut shared) = (ClientStates::default(), SharedConnections::default());
        let (mut collector, mut global) = (FindingCollector::default(), GlobalRuleState::default());
        let mut deadlines = Deadlines::default();
        for refusal in &self.refusals {
            let (source, actor) = (refusal.source(&self.id), refusal.by(self.id.server));
            let context = RuleContext {
                lock: &mut *lock,
                links: &mut *links,
                actor: Some(&actor),
                source: Arc::clone(&source),
                is_lost: false,
                is_loose: false,
                is_stale: false,
                replied_at: None,
                clients: &mut clients,
                shared: &mut shared,
                collector: &mut collector,
            };
            let (previous_real, timeline) = (refusal.real, None);
            let (global, deadlines) = (&mut global, &mut deadlines);
            let mut tracker = LockTracker { context, rules, global, deadlines, timeline, previous_real };
            tracker.refuse(Some(&refusal.value));
            if let Some(work) = refusal.work {
                rules.note_refused_holder((actor.server, actor.id), &source, work);
            }
        }
        let is_silent = collector.findings().is_empty() && lock.pending.len() == self.pending.len();
        debug_assert!(is_silent, "what follows from a refusal is told too late");
    }

    pub fn id(&self) -> &Arc<LockId> {
        &self.id
    }

    /// Reads all around, so that its memory is fetched. What it returns means nothing.
    pub fn touch(&self) -> usize {
        let numbers = self.number ^ self.seq ^ self.client;
        self.token.len() ^ self.refusals.len() ^ usize::try_from(numbers).unwrap_or(0)
    }

    /// Holds findings back while the key may be no lock.
    pub fn hold_back(&mut self, pending: Vec<Finding>) {
        self.pending = pending;
    }

    /// The client that holds it.
    pub fn holder(&self) -> ClientIdentity {
        ClientIdentity { server: self.id.server, id: self.client, seen: self.real, labels: Arc::clone(&self.labels) }
    }

    /// The command that took it.
    pub fn acquired(&self) -> Arc<JournalRef> {
        source((self.seq, self.at, self.real), (&self.id, &self.token), (self.client, &self.labels), &self.line)
    }

    pub fn token(&self) -> &[u8] {
        &self.token
    }

    pub fn reasons(&self) -> LockReasons {
        self.reasons
    }

    pub fn refusals(&self) -> &[Refusal] {
        &self.refusals
    }

    pub fn is_held_by(&self, client: &ClientIdentity) -> bool {
        (self.id.server, self.client) == (client.server, client.id)
    }

    /// Whether a client holds the lock or waits for it.
    pub fn concerns(&self, client: &ClientIdentity) -> bool {
        let is_refused = || self.refusals.iter().any(|refusal| refusal.client == client.id);
        self.is_held_by(client) || self.id.server == client.server && is_refused()
    }

    /// Notes a refusal, and the reasons with it. Returns the findings that were held back, if the key is known for a lock now.
    pub fn note_refusal(&mut self, refusal: Refusal, reasons: LockReasons) -> Vec<Finding> {
        self.refusals.push(refusal);
        self.reasons = reasons;
        match reasons.are_enough() {
            true => std::mem::take(&mut self.pending),
            false => Vec::new(),
        }
    }
}
