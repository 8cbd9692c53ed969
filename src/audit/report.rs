//! Where findings are gathered.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::auditor::Scope;
use super::code::Code;
use super::finding::Finding;

/// How many findings are told one by one, and how many are held back about a key that may be no lock.
const MOST_FINDINGS: usize = 10_000;
const MOST_PENDING: usize = 16;

/// What makes two findings the same.
type Same = (Code, u16, u32, Arc<[u8]>, u64);

/// All findings so far.
#[derive(Clone, Default)]
pub struct Report {
    findings: Vec<Arc<Finding>>,
    known: HashMap<Same, usize, FixedState>,
    /// Findings that there was no more room for.
    pub unlisted: u64,
    /// How often anything was found.
    pub told: u64,
    /// How many keys were taken for locks.
    pub locks: u64,
    scope: Arc<Scope>,
}

impl Report {
    pub fn new(scope: Arc<Scope>) -> Self {
        Self { scope, ..Self::default() }
    }

    /// In the order in which they were found.
    pub fn findings(&self) -> &[Arc<Finding>] {
        &self.findings
    }

    pub fn add(&mut self, mut finding: Finding) {
        if self.scope.off.contains(&finding.code) {
            return;
        }
        self.told += 1;
        let same = (finding.code, finding.server, finding.db, finding.key.clone(), finding.culprit);
        if let Some(&known) = self.known.get(&same) {
            return merge(Arc::make_mut(&mut self.findings[known]), finding);
        }
        if self.findings.len() >= MOST_FINDINGS {
            self.unlisted += 1;
            return;
        }
        let allowance = self.scope.allowed.iter().find(|allowance| allowance.covers(&finding));
        finding.allowed = allowance.map(|allowance| allowance.reason.clone());
        finding.times = finding.times.max(1);
        self.known.insert(same, self.findings.len());
        self.findings.push(Arc::new(finding));
    }

    /// Keeps a finding about a key of which it is not clear whether it is a lock.
    pub fn hold_back(pending: &mut Vec<Finding>, finding: Finding) {
        let known = pending.iter().position(|known| known.code == finding.code && known.culprit == finding.culprit);
        match known {
            Some(known) => merge(&mut pending[known], finding),
            None if pending.len() < MOST_PENDING => pending.push(Finding { times: finding.times.max(1), ..finding }),
            None => {}
        }
    }
}

fn merge(known: &mut Finding, new: Finding) {
    known.times += new.times;
    known.last_seq = new.last_seq;
    if new.severity > known.severity {
        let Finding { severity, sentence, evidence, .. } = new;
        (known.severity, known.sentence, known.evidence) = (severity, sentence, evidence);
    }
}
