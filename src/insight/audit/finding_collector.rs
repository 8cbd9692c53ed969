//! Collects findings: counts repetitions, and marks what is allowed.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::code::Code;
use super::finding::Finding;
use super::journal_line::JournalLine;
use super::lock::LockId;
use super::marks::Marks;
use super::scope::Scope;

/// How many findings are listed.
pub const MAX_FINDINGS: usize = 10_000;
/// So many are listed however little memory there is.
pub const MIN_FINDINGS: usize = 16;
/// How many findings are held back about one key that may be no lock.
pub const MAX_PENDING: usize = 16;

/// What makes two findings the same: code, server, database, key, culprit, mark.
pub type FindingKey = (Code, u16, u32, Arc<[u8]>, u64, Option<Arc<str>>);

/// All findings so far.
#[derive(Clone)]
pub struct FindingCollector {
    findings: Vec<Arc<Finding>>,
    /// About how many bytes they take and may take.
    bytes: usize,
    most_bytes: usize,
    known: HashMap<FindingKey, usize, FixedState>,
    /// How many findings were dropped because the list was full.
    pub unlisted: u64,
    /// How many keys were taken for locks.
    pub locks: u64,
    pub marks: Marks,
    scope: Arc<Scope>,
    /// The servers whose journals another program wrote.
    partial: Vec<PartialJournal>,
    /// Findings that wait for a sign that those clients were still there.
    unproven: Vec<Unproven>,
}

/// What is known of a journal that another program wrote. It may not say when connections end, and when replies come. So
/// nobody is blamed for what was done to a client's lock before a later command shows that the client was still there.
#[derive(Clone)]
struct PartialJournal {
    server: u16,
    /// Whether it tells of connections that ended.
    has_connection_events: bool,
    /// Whether its times are those of a real clock.
    has_real_time: bool,
    /// The last command of each client.
    last_seen: HashMap<u64, u64, FixedState>,
}

/// A finding with the clients of which a later command is awaited.
#[derive(Clone)]
struct Unproven {
    finding: Finding,
    /// The client that took the lock last: the others must act after it has.
    first: Option<(u16, u64)>,
    others: Vec<(u16, u64)>,
}

/// How many findings may wait.
const MAX_UNPROVEN: usize = 4096;

impl Default for FindingCollector {
    fn default() -> Self {
        Self {
            findings: Vec::new(),
            bytes: 0,
            most_bytes: usize::MAX,
            known: HashMap::default(),
            unlisted: 0,
            locks: 0,
            marks: Marks::default(),
            scope: Arc::default(),
            partial: Vec::new(),
            unproven: Vec::new(),
        }
    }
}

impl FindingCollector {
    pub fn new(scope: Arc<Scope>) -> Self {
        Self { scope, ..Self::default() }
    }

    /// About how many bytes the findings take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets how many bytes the findings may take. Those that are there stay.
    pub fn set_most_bytes(&mut self, bytes: usize) {
        self.most_bytes = bytes;
    }

    /// Whether no more findings are listed.
    fn is_full(&self) -> bool {
        let count = self.findings.len();
        count >= MAX_FINDINGS || self.bytes >= self.most_bytes && count >= MIN_FINDINGS
    }

    fn list(&mut self, key: FindingKey, finding: Arc<Finding>) {
        self.bytes += finding.memory();
        self.known.insert(key, self.findings.len());
        self.findings.push(finding);
    }

    /// Counts a repetition of a known finding.
    fn repeat(&mut self, known: usize, finding: Finding) {
        let known = Arc::make_mut(&mut self.findings[known]);
        self.bytes -= known.memory();
        merge(known, finding);
        self.bytes += known.memory();
    }

    /// In the order in which they were found.
    pub fn findings(&self) -> &[Arc<Finding>] {
        &self.findings
    }

    /// Changes what is allowed, also for the findings so far.
    pub fn set_scope(&mut self, scope: Arc<Scope>) {
        for finding in &mut self.findings {
            let allowed = allowed_by(&scope, finding);
            if finding.allowed != allowed {
                Arc::make_mut(finding).allowed = allowed;
            }
        }
        self.scope = scope;
    }

    /// Allows also what this scope allows. What was allowed before stays it.
    pub fn allow_also(&mut self, scope: &Scope) {
        for finding in self.findings.iter_mut().filter(|finding| finding.allowed.is_none()) {
            if let Some(reason) = allowed_by(scope, finding) {
                Arc::make_mut(finding).allowed = Some(reason);
            }
        }
    }

    /// Adds a finding of another collector, as it is.
    pub fn adopt(&mut self, finding: &Arc<Finding>) {
        let key = key_of(finding);
        if let Some(&known) = self.known.get(&key) {
            self.repeat(known, Finding::clone(finding));
        } else if self.is_full() {
            self.unlisted += 1;
        } else {
            self.list(key, Arc::clone(finding));
        }
    }

    /// A line that is a mark.
    pub fn note_mark(&mut self, line: &JournalLine<'_>) {
        self.marks.note(line);
    }

    /// Forgets the findings on one server, or all.
    pub fn forget(&mut self, server: Option<u16>) {
        self.findings.retain(|finding| server.is_some_and(|server| finding.server != server));
        self.unproven.retain(|unproven| server.is_some_and(|server| unproven.finding.server != server));
        self.bytes = self.findings.iter().map(|finding| finding.memory()).sum();
        self.known = self.findings.iter().enumerate().map(|(at, finding)| (key_of(finding), at)).collect();
        if server.is_none() {
            self.unlisted = 0;
        }
    }

    /// Whether no journal was written by another program, which leaves things out.
    pub fn are_whole(&self) -> bool {
        self.partial.is_empty()
    }

    /// A line of a journal, perhaps of one that another program wrote.
    #[inline]
    pub fn note_line(&mut self, line: &JournalLine<'_>) {
        let is_partial = line.is_partial();
        if is_partial || !self.partial.is_empty() {
            self.note_partial(line, is_partial);
        }
    }

    #[cold]
    fn note_partial(&mut self, line: &JournalLine<'_>, is_partial: bool) {
        let JournalLine { server, client, seq, .. } = *line;
        if is_partial && !self.is_partial(server) {
            let last_seen = HashMap::default();
            let has_connection_events = false;
            self.partial.push(PartialJournal { server, has_connection_events, has_real_time: true, last_seen });
        }
        let Some(partial) = self.partial.iter_mut().find(|partial| partial.server == server) else { return };
        partial.last_seen.insert(client, seq);
        partial.has_real_time &= !is_partial || !line.are_children_unknown;
        let acts = (server, client);
        let mut proven = Vec::new();
        self.unproven.retain_mut(|unproven| {
            match unproven.first {
                Some(first) if first == acts => unproven.first = None,
                // It may have given up the lock before the other one had it.
                Some(_) if unproven.others.contains(&acts) => return false,
                Some(_) => {}
                None => unproven.others.retain(|other| *other != acts),
            }
            let is_proven = unproven.first.is_none() && unproven.others.is_empty();
            if is_proven {
                proven.push(unproven.finding.clone());
            }
            !is_proven
        });
        proven.into_iter().for_each(|finding| self.publish(finding));
    }

    /// The journal of a server tells of connections that end.
    pub fn note_connection_event(&mut self, server: u16) {
        if let Some(partial) = self.partial.iter_mut().find(|partial| partial.server == server) {
            partial.has_connection_events = true;
        }
    }

    /// Whether another program wrote the journal of a server.
    pub fn is_partial(&self, server: u16) -> bool {
        self.partial.iter().any(|partial| partial.server == server)
    }

    /// Whether the journal of a server tells of connections that end.
    pub fn has_connection_events(&self, server: u16) -> bool {
        self.partial.iter().all(|partial| partial.server != server || partial.has_connection_events)
    }

    /// Whether the times in the journal of a server are those of a real clock.
    pub fn has_real_time(&self, server: u16) -> bool {
        self.partial.iter().all(|partial| partial.server != server || partial.has_real_time)
    }

    pub fn add(&mut self, finding: Finding) {
        if self.partial.is_empty() || !self.is_partial(finding.server) {
            return self.publish(finding);
        }
        let acting = finding.evidence.iter().map(|evidence| &evidence.source).find(|source| source.seq == finding.seq);
        let acting = acting.map(|source| (source.server, source.client));
        let seen = |(server, client): (u16, u64)| {
            let partial = self.partial.iter().find(|partial| partial.server == server);
            partial.and_then(|partial| partial.last_seen.get(&client)).copied().unwrap_or(0)
        };
        let clients = finding.evidence.iter().map(|evidence| (evidence.source.server, evidence.source.client));
        let mut others: Vec<(u16, u64)> =
            clients.filter(|client| client.1 != 0 && Some(*client) != acting && self.is_partial(client.0)).collect();
        others.sort_unstable();
        others.dedup();
        if others.is_empty() {
            return self.publish(finding);
        }
        let is_past = |client: &(u16, u64)| seen(*client) > finding.seq;
        let first = acting.filter(|_| finding.code == Code::TwoHolders);
        match first {
            // Which of them acted first after that is not known any more.
            Some(_) if others.iter().any(is_past) => return,
            Some(_) => {}
            None => others.retain(|client| !is_past(client)),
        }
        if others.is_empty() {
            self.publish(finding);
        } else if self.unproven.len() < MAX_UNPROVEN {
            self.unproven.push(Unproven { finding, first, others });
        }
    }

    /// Adds a finding about a lock, whose culprit it is or 0, which is made only if there is room for it.
    pub fn add_if_listed(&mut self, (code, culprit): (Code, u64), id: &LockId, make: impl FnOnce() -> Option<Finding>) {
        let is_full = self.is_full() && self.are_whole() && self.marks.is_empty();
        if is_full && !self.scope.off.contains(&code) && self.position((code, culprit), id).is_none() {
            self.unlisted += 1;
        } else if let Some(finding) = make() {
            self.add(finding);
        }
    }

    /// Counts that the command with this number shows again what was found about a lock, whose culprit is nobody, if it is listed and always
    /// as severe. Returns whether it did.
    pub fn count_again(&mut self, code: Code, id: &LockId, seq: u64) -> bool {
        if !self.are_whole() || !self.marks.is_empty() || self.scope.off.contains(&code) {
            return false;
        }
        let Some(known) = self.position((code, 0), id) else { return false };
        let known = Arc::make_mut(&mut self.findings[known]);
        (known.times, known.last_seq) = (known.times + 1, seq);
        true
    }

    /// Where a finding about a lock is listed, without a mark.
    fn position(&self, (code, culprit): (Code, u64), id: &LockId) -> Option<usize> {
        self.known.get(&(code, id.server, id.db, id.shared_key(), culprit, None)).copied()
    }

    fn publish(&mut self, mut finding: Finding) {
        if self.scope.off.contains(&finding.code) {
            return;
        }
        if !self.marks.is_empty() {
            // A lock that is not released belongs to the test that took it.
            let evidence = match finding.code.is_about_missing_release() {
                true => finding.evidence.first(),
                false => finding.evidence.last(),
            };
            finding.mark = evidence.and_then(|evidence| self.marks.before(&evidence.source));
        }
        let key = key_of(&finding);
        if let Some(&known) = self.known.get(&key) {
            return self.repeat(known, finding);
        }
        if self.is_full() {
            self.unlisted += 1;
            return;
        }
        finding.allowed = allowed_by(&self.scope, &finding);
        finding.times = finding.times.max(1);
        self.list(key, Arc::new(finding));
    }

    /// Keeps a finding about a key that may be no lock.
    pub fn hold_back(pending: &mut Vec<Finding>, finding: Finding) {
        let known = pending.iter().position(|known| known.code == finding.code && known.culprit == finding.culprit);
        match known {
            Some(known) => merge(&mut pending[known], finding),
            None if pending.len() < MAX_PENDING => pending.push(Finding { times: finding.times.max(1), ..finding }),
            None => {}
        }
    }
}

pub fn key_of(finding: &Finding) -> FindingKey {
    let Finding { code, server, db, key, culprit, mark, .. } = finding;
    (*code, *server, *db, Arc::clone(key), *culprit, mark.clone())
}

/// The reason why a finding is allowed, if it is.
fn allowed_by(scope: &Scope, finding: &Finding) -> Option<String> {
    let allowance = scope.allowed.iter().find(|allowance| allowance.covers(finding));
    allowance.map(|allowance| allowance.reason.clone())
}

/// Counts a repetition. The more severe of the two is the one that is described.
fn merge(known: &mut Finding, new: Finding) {
    known.times += new.times;
    known.last_seq = new.last_seq;
    if new.severity > known.severity {
        let Finding { severity, sentence, evidence, .. } = new;
        (known.severity, known.sentence, known.evidence) = (severity, sentence, evidence);
    }
}
