//! Collects findings: counts repetitions, and marks what is allowed.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::code::Code;
use super::finding::Finding;
use super::scope::Scope;

/// How many findings are listed.
pub const MAX_FINDINGS: usize = 10_000;
/// How many findings are held back about one key that may be no lock.
pub const MAX_PENDING: usize = 16;

/// What makes two findings the same: code, server, database, key, culprit.
pub type FindingKey = (Code, u16, u32, Arc<[u8]>, u64);

/// All findings so far.
#[derive(Clone, Default)]
pub struct FindingCollector {
    findings: Vec<Arc<Finding>>,
    known: HashMap<FindingKey, usize, FixedState>,
    /// How many findings were dropped because the list was full.
    pub unlisted: u64,
    /// How many keys were taken for locks.
    pub locks: u64,
    scope: Arc<Scope>,
}

impl FindingCollector {
    pub fn new(scope: Arc<Scope>) -> Self {
        Self { scope, ..Self::default() }
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

    /// Forgets the findings on one server, or all.
    pub fn forget(&mut self, server: Option<u16>) {
        self.findings.retain(|finding| server.is_some_and(|server| finding.server != server));
        self.known = self.findings.iter().enumerate().map(|(at, finding)| (key_of(finding), at)).collect();
        if server.is_none() {
            self.unlisted = 0;
        }
    }

    pub fn add(&mut self, mut finding: Finding) {
        if self.scope.off.contains(&finding.code) {
            return;
        }
        let key = key_of(&finding);
        if let Some(&known) = self.known.get(&key) {
            return merge(Arc::make_mut(&mut self.findings[known]), finding);
        }
        if self.findings.len() >= MAX_FINDINGS {
            self.unlisted += 1;
            return;
        }
        finding.allowed = allowed_by(&self.scope, &finding);
        finding.times = finding.times.max(1);
        self.known.insert(key, self.findings.len());
        self.findings.push(Arc::new(finding));
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
    (finding.code, finding.server, finding.db, finding.key.clone(), finding.culprit)
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
