//! What a rule is given: a lock at the moment of an event, the clients, and where to report to.

use std::sync::Arc;

use super::client_identity::ClientIdentity;
use super::client_state::ClientStates;
use super::code::{Code, Severity};
use super::finding::{Evidence, Finding, JournalRef};
use super::finding_collector::FindingCollector;
use super::lock::{Lock, LockId, push_exact};
use super::lock_reason::{LockReason, LockReasons};
use super::program_links::{ProgramLinks, SharedConnections};

/// The lock, the command, and the collector of findings. A rule's own state comes beside it, as another argument.
pub struct RuleContext<'s> {
    pub lock: &'s mut Lock,
    /// What is known of the programs behind the lock's clients.
    pub links: &'s mut ProgramLinks,
    /// The client that acts; `None` if the event happens by itself.
    pub actor: Option<&'s ClientIdentity>,
    /// The command or event. For a hold that expires, the moment of that.
    pub source: Arc<JournalRef>,
    /// Whether the command's reply did not reach the client.
    pub is_lost: bool,
    /// Whether it may have taken effect at several places in the order.
    pub is_loose: bool,
    /// Whether it may have been answered by a replica, which may be out of date.
    pub is_stale: bool,
    /// When the client gets the reply, in microseconds of real time, if that is later than at once.
    pub replied_at: Option<i64>,
    pub clients: &'s mut ClientStates,
    pub shared: &'s mut SharedConnections,
    pub collector: &'s mut FindingCollector,
}

/// What a rule reports.
pub struct FindingDraft {
    pub code: Code,
    /// If it differs from the code's own severity.
    pub severity: Option<Severity>,
    pub sentence: String,
    pub evidence: Vec<Evidence>,
    /// The client whose mistake it is; 0 if nobody's. The same code for the same culprit is counted as one finding.
    pub culprit: u64,
}

impl FindingDraft {
    /// The finding about a lock, which this command has shown so many times.
    pub fn finding(self, id: &LockId, source: &JournalRef, times: u64) -> Finding {
        let Self { code, severity, sentence, mut evidence, culprit } = self;
        evidence.sort_by_key(|evidence| (evidence.source.real, evidence.source.seq));
        evidence.dedup_by(|later, earlier| {
            (later.source.server, later.source.seq) == (earlier.source.server, earlier.source.seq)
                && later.source.seq != 0
        });
        Finding {
            code,
            severity: severity.unwrap_or(code.severity()),
            server: id.server,
            db: id.db,
            key: id.shared_key(),
            sentence,
            evidence,
            times,
            seq: source.seq,
            last_seq: source.seq,
            at: source.at,
            culprit,
            mark: None,
            allowed: None,
        }
    }
}

impl RuleContext<'_> {
    /// Reports a finding about this lock; held back until the key is known to be a lock.
    pub fn report(&mut self, draft: FindingDraft) {
        self.add(draft, 1);
    }

    /// Reports more about what was reported before for the same culprit: it does not count again.
    pub fn report_update(&mut self, draft: FindingDraft) {
        self.add(draft, 0);
    }

    fn add(&mut self, draft: FindingDraft, times: u64) {
        let finding = draft.finding(&self.lock.id, &self.source, times);
        if finding.severity == Severity::Error && self.is_lock_if_misused() {
            self.note_reason(LockReason::Compared);
        }
        if self.lock.is_known() {
            self.collector.add(finding);
        } else {
            FindingCollector::hold_back(&mut self.lock.pending, finding);
        }
    }

    fn is_lock_if_misused(&self) -> bool {
        let holds = self.lock.holds.iter().chain(self.lock.past_holds.iter().map(|past| &past.hold));
        is_lock_if_misused(self.lock.reasons, holds.map(|hold| &*hold.token))
    }

    /// Notes a reason to take the key for a lock.
    pub fn note_reason(&mut self, reason: LockReason) {
        let mut reasons = LockReasons::default();
        reasons.add(reason);
        self.note_reasons(reasons);
    }

    /// Notes reasons to take the key for a lock. With the one that makes it a lock, the pending findings count.
    pub fn note_reasons(&mut self, reasons: LockReasons) {
        let lock = &mut *self.lock;
        if lock.reasons.have_all(reasons) {
            return;
        }
        let was_known = lock.is_known();
        let new = LockReason::ALL.into_iter().filter(|reason| reasons.has(*reason) && !lock.reasons.has(*reason));
        new.for_each(|reason| push_exact(&mut lock.reason_sources, (reason, (*self.source).clone())));
        lock.reasons.add_all(reasons);
        if !was_known && lock.is_known() {
            self.collector.locks += 1;
            lock.pending.drain(..).for_each(|finding| self.collector.add(finding));
        }
    }

    /// How many keys beside locks a client has accessed, if it is known.
    pub fn work_of(&self, client: &ClientIdentity) -> u64 {
        self.clients.get(&(client.server, client.id)).map_or(0, |state| state.work)
    }

    /// The present command as evidence.
    pub fn now(&self, what: impl Into<String>) -> Evidence {
        self.source.shows(what)
    }
}

/// Whether a key is a lock if something is certainly wrong with it: a token was sought there, or put under a name that says lock.
pub fn is_lock_if_misused<'a>(reasons: LockReasons, mut tokens: impl Iterator<Item = &'a [u8]>) -> bool {
    let is_token = |token: &[u8]| token.len() >= 16 && !token.iter().all(u8::is_ascii_digit);
    reasons.has(LockReason::Sought) || reasons.has(LockReason::Named) && tokens.any(is_token)
}
