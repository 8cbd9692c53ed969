//! A lock that one client took and to which nothing has happened since, in a tenth of the memory.
//!
//! A program that holds many locks at once holds nearly all of them like that. What is left out here can be told from the rest:
//! [`RestingLock::wake`] makes the lock as it was, of which [`RestingLock::of`] makes sure.

use std::sync::Arc;

use super::client_identity::{ClientIdentity, ClientLabels};
use super::effect::LockShape;
use super::finding::JournalRef;
use super::lock::{Acquisition, Hold, HoldStatus, Lock, LockId};
use super::lock_reason::{LockReason, LockReasons};
use super::program_links::ProgramLinks;
use super::rules::{RestingRules, RuleState};

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
        let lists = lock.holds.len() ^ lock.past_holds.len() ^ lock.waiters.len() ^ lock.pending.len();
        lists ^ lock.used_keys.len() ^ lock.reason_sources.len() ^ rules.touch() ^ usize::try_from(numbers).unwrap_or(0)
    }
}

/// What is needed to make a [`TrackedLock`] again.
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
    reasons: LockReasons,
    /// The reasons that the command showed, in their order.
    shown: [Option<LockReason>; 2],
    rules: RestingRules,
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
    /// The pattern of a line that names the key, and behind it the token; `None` if it does not.
    fn of(&mut self, line: &str, key: &str, token: &str) -> Option<Arc<LinePattern>> {
        let (before, rest) = line.split_once(key)?;
        let (between, after) = rest.split_once(token)?;
        let parts = [before, between, after];
        let is_it = |pattern: &&Arc<LinePattern>| pattern.parts.iter().zip(parts).all(|(own, part)| **own == *part);
        if let Some(known) = self.0.iter().find(is_it) {
            return Some(Arc::clone(known));
        }
        let new = Arc::new(LinePattern { parts: parts.map(Into::into) });
        if self.0.len() >= MAX_PATTERNS {
            self.0.remove(0);
        }
        self.0.push(Arc::clone(&new));
        Some(new)
    }
}

impl LinePattern {
    fn line(&self, key: &str, token: &str) -> Arc<str> {
        let [before, between, after] = &self.parts;
        [before, key, between, token, after].concat().into()
    }
}

impl RestingLock {
    /// The lock, if it is nothing but held as it was taken.
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
            pending,
            times_taken: 1,
            used_keys,
            guarded: None,
        } = lock
        else {
            return None;
        };
        let [hold] = &holds[..] else { return None };
        let is_plain = past_holds.is_empty() && waiters.is_empty() && pending.is_empty() && used_keys.is_empty();
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
            reasons: *reasons,
            shown,
            rules,
        })
    }

    /// The lock as it was.
    pub fn wake(&self) -> TrackedLock {
        let (server, labels) = (self.id.server, &self.labels);
        let text = |bytes| str::from_utf8(bytes).unwrap_or_default();
        let acquired = Arc::new(JournalRef {
            server,
            seq: self.seq,
            at: self.at,
            real: self.real,
            earliest: self.real,
            place: self.seq,
            node: None,
            client: self.client,
            name: Arc::clone(&labels.name),
            process: labels.process.clone(),
            line: self.line.line(text(&self.id.key), text(&self.token)),
        });
        let client = ClientIdentity { server, id: self.client, seen: self.real, labels: Arc::clone(labels) };
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
        lock.reasons = self.reasons;
        lock.reason_sources = reason_sources;
        lock.value = Some(self.token.clone());
        lock.deadline = self.deadline;
        lock.times_taken = 1;
        lock.holds = vec![hold];
        tracked
    }

    pub fn id(&self) -> &Arc<LockId> {
        &self.id
    }
}
