//! A lock that one client took and to which nothing has happened since but that others were refused, in a tenth of the memory.
//!
//! A program that holds many locks at once holds nearly all of them like that. What is left out here can be told from the rest:
//! [`RestingLock::wake`] makes the lock as it was, of which [`RestingLock::of`] makes sure. Refusals are noted in short
//! (`short_notes.rs` says which), and the rules see them then.

use std::collections::HashMap;
use std::num::NonZeroI64;
use std::sync::Arc;

use foldhash::fast::FixedState;
use thin_vec::ThinVec;

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
use super::rules::{GlobalRuleState, RestingRules, RuleState, guess};
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
    /// The client that took the lock, and its command.
    form: Arc<LineForm>,
    seq: u64,
    at: i64,
    real: i64,
    token: Box<[u8]>,
    /// In milliseconds on the server's clock.
    deadline: Option<NonZeroI64>,
    reasons_when_taken: LockReasons,
    /// The reasons that the command showed, in their order.
    shown: [Option<LockReason>; 2],
    rules: RestingRules,
    /// Findings that are held back while the key may be no lock.
    pending: ThinVec<Finding>,
    /// The refusals since, in their order.
    refusals: ThinVec<Refusal>,
    /// The reasons with those that the refusals have shown.
    reasons: LockReasons,
}

/// How a client takes a lock that was free.
pub struct Taking<'a> {
    /// The client at this command.
    pub by: &'a ClientIdentity,
    pub seq: u64,
    pub at: i64,
    pub token: &'a [u8],
    /// In milliseconds on the server's clock; not 0.
    pub deadline: Option<i64>,
    pub reasons: LockReasons,
    /// The reason that the command shows, if it does.
    pub shown: [Option<LockReason>; 2],
    pub rules: RestingRules,
}

/// A refusal of another client.
#[derive(Clone)]
pub struct Refusal {
    pub form: Arc<LineForm>,
    pub seq: u64,
    pub at: i64,
    pub real: i64,
    /// What it offered; `None` if that is the value that the lock has.
    pub value: Option<Box<[u8]>>,
    /// How many keys beside locks it had accessed, if it held another lock and is not known to wait for this one.
    pub work: Option<u64>,
}

impl Refusal {
    /// The client at this command.
    pub fn by(&self, server: u16) -> ClientIdentity {
        self.form.by(server, self.real)
    }

    /// The command, at a lock with this token.
    pub fn source(&self, id: &LockId, token: &[u8]) -> Arc<JournalRef> {
        source((self.seq, self.at, self.real), (id, self.value(token)), &self.form)
    }

    /// What it offered, at a lock with this token.
    pub fn value<'a>(&'a self, token: &'a [u8]) -> &'a [u8] {
        self.value.as_deref().unwrap_or(token)
    }
}

/// A command that was about a key and a value alone.
fn source(
    (seq, at, real): (u64, i64, i64),
    (id, value): (&LockId, &[u8]),
    LineForm { client, labels, pattern }: &LineForm,
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
        client: *client,
        name: Arc::clone(&labels.name),
        process: labels.process.clone(),
        line: pattern.line(text(&id.key), text(value)),
    })
}

/// What the lines have in common that one client sends alike.
#[derive(Debug)]
pub struct LineForm {
    pub client: u64,
    labels: Arc<ClientLabels>,
    pattern: Arc<LinePattern>,
}

/// The command of a line, with gaps for the key and the token: locks that are taken alike share it.
#[derive(Debug, PartialEq, Eq)]
struct LinePattern {
    /// What comes before the key, between key and token, and after the token.
    parts: [Box<str>; 3],
}

/// The forms of the last lines.
#[derive(Clone, Default)]
pub struct LineForms {
    patterns: Vec<Arc<LinePattern>>,
    /// By client and by the address of the pattern, which each keeps.
    forms: HashMap<(u64, usize), Arc<LineForm>, FixedState>,
}

/// How many patterns are compared with a new line, and how many forms are kept.
const MAX_PATTERNS: usize = 8;
const MAX_FORMS: usize = 1024;

impl LineForms {
    /// The form of a command whose second word is the key, and the third one the token; `None` if it is not shown as it is.
    pub fn of_words(&mut self, by: &ClientIdentity, words: &[&[u8]]) -> Option<Arc<LineForm>> {
        if words.len() < 3 || !is_shown_as_it_is(words) {
            return None;
        }
        if let Some(known) = self.patterns.iter().find(|pattern| pattern.is_of(words)) {
            return Some(self.form(by, Arc::clone(known)));
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let after: String = words[3..].iter().flat_map(|word| [" ".to_owned(), text(word)]).collect();
        let pattern = self.add(LinePattern { parts: [(text(words[0]) + " ").into(), " ".into(), after.into()] });
        Some(self.form(by, pattern))
    }

    fn add(&mut self, pattern: LinePattern) -> Arc<LinePattern> {
        let new = Arc::new(pattern);
        if self.patterns.len() >= MAX_PATTERNS {
            self.patterns.remove(0);
        }
        self.patterns.push(Arc::clone(&new));
        new
    }

    /// The form of a line that names the key, and behind it the token; `None` if it does not.
    fn of(&mut self, by: &ClientIdentity, line: &str, (key, token): (&str, &str)) -> Option<Arc<LineForm>> {
        let (before, rest) = line.split_once(key)?;
        let (between, after) = rest.split_once(token)?;
        let parts = [before, between, after];
        let is_it = |pattern: &&Arc<LinePattern>| pattern.parts.iter().zip(parts).all(|(own, part)| **own == *part);
        let pattern = match self.patterns.iter().find(is_it) {
            Some(known) => Arc::clone(known),
            None => self.add(LinePattern { parts: parts.map(Into::into) }),
        };
        Some(self.form(by, pattern))
    }

    fn form(&mut self, by: &ClientIdentity, pattern: Arc<LinePattern>) -> Arc<LineForm> {
        let place = (by.id, Arc::as_ptr(&pattern).addr());
        if let Some(known) = self.forms.get(&place).filter(|known| Arc::ptr_eq(&known.labels, &by.labels)) {
            return Arc::clone(known);
        }
        if self.forms.len() >= MAX_FORMS {
            self.forms.clear();
        }
        let new = Arc::new(LineForm { client: by.id, labels: Arc::clone(&by.labels), pattern });
        self.forms.insert(place, Arc::clone(&new));
        new
    }
}

impl LineForm {
    /// The client at a command of this real time.
    fn by(&self, server: u16, seen: i64) -> ClientIdentity {
        ClientIdentity { server, id: self.client, seen, labels: Arc::clone(&self.labels) }
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
        let deadline = match deadline {
            Some(deadline) => Some(NonZeroI64::new(*deadline)?),
            None => None,
        };
        let (key, text) = (str::from_utf8(&id.key).ok()?, str::from_utf8(token).ok()?);
        Some(Self {
            id: Arc::clone(id),
            number: *number,
            form: forms.of(client, line, (key, text))?,
            seq: *seq,
            at: *at,
            real: *real,
            token: token.clone(),
            deadline,
            reasons_when_taken: *reasons,
            shown,
            rules,
            pending: ThinVec::new(),
            refusals: ThinVec::new(),
            reasons: *reasons,
        })
    }

    /// A lock that was free and is known for nothing but these reasons, when a client takes it.
    pub fn taken((id, number): (Arc<LockId>, u64), taking: Taking<'_>, form: Arc<LineForm>) -> Self {
        let Taking { by, seq, at, token, deadline, reasons, shown, rules } = taking;
        Self {
            id,
            number,
            form,
            seq,
            at,
            real: by.seen,
            token: token.into(),
            deadline: deadline.and_then(NonZeroI64::new),
            reasons_when_taken: reasons,
            shown,
            rules,
            pending: ThinVec::new(),
            refusals: ThinVec::new(),
            reasons,
        }
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
            deadline: self.deadline.map(NonZeroI64::get),
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
        lock.deadline = self.deadline.map(NonZeroI64::get);
        lock.times_taken = 1;
        lock.holds = vec![hold];
        lock.pending = self.pending.to_vec();
        if self.rules.has_guess {
            FindingCollector::hold_back(&mut lock.pending, self.guess());
        }
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
            let (source, actor) = (refusal.source(&self.id, &self.token), refusal.by(self.id.server));
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
            tracker.refuse(Some(refusal.value(&self.token)));
            if let Some(work) = refusal.work {
                rules.note_refused_holder((actor.server, actor.id), &source, work);
            }
        }
        let held_back = self.pending.len() + usize::from(self.rules.has_guess);
        let is_silent = collector.findings().is_empty() && lock.pending.len() == held_back;
        debug_assert!(is_silent, "what follows from a refusal is told too late");
    }

    pub fn id(&self) -> &Arc<LockId> {
        &self.id
    }

    /// Reads all around, so that its memory is fetched. What it returns means nothing.
    pub fn touch(&self) -> usize {
        let numbers = self.number ^ self.seq;
        self.token.len() ^ self.refusals.len() ^ usize::try_from(numbers).unwrap_or(0)
    }

    /// Holds findings back while the key may be no lock.
    pub fn hold_back(&mut self, pending: Vec<Finding>) {
        self.pending.reserve_exact(pending.len());
        self.pending.extend(pending);
    }

    /// The client that holds it.
    pub fn holder(&self) -> ClientIdentity {
        self.form.by(self.id.server, self.real)
    }

    /// The command that took it.
    pub fn acquired(&self) -> Arc<JournalRef> {
        source((self.seq, self.at, self.real), (&self.id, &self.token), &self.form)
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

    pub fn refusals(&self) -> &[Refusal] {
        &self.refusals
    }

    pub fn is_held_by(&self, client: &ClientIdentity) -> bool {
        (self.id.server, self.form.client) == (client.server, client.id)
    }

    /// Whether a client holds the lock or waits for it.
    pub fn concerns(&self, client: &ClientIdentity) -> bool {
        let is_refused = || self.refusals.iter().any(|refusal| refusal.form.client == client.id);
        self.is_held_by(client) || self.id.server == client.server && is_refused()
    }

    /// Notes a refusal, and the reasons with it. Returns the findings that were held back, if the key is known for a lock now, but for the
    /// guess.
    pub fn note_refusal(&mut self, refusal: Refusal, reasons: LockReasons) -> ThinVec<Finding> {
        if self.refusals.is_empty() {
            // Most locks are refused once or never.
            self.refusals.reserve_exact(1);
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
