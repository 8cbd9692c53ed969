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
pub type Same = (Code, u16, u32, Arc<[u8]>, u64);

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

    /// Other findings are allowed from now on, also of those that there are.
    pub fn set_scope(&mut self, scope: Arc<Scope>) {
        for finding in &mut self.findings {
            let allowed = reason(&scope, finding);
            if finding.allowed != allowed {
                Arc::make_mut(finding).allowed = allowed;
            }
        }
        self.scope = scope;
    }

    /// Forgets the findings on a server, or all.
    pub fn forget(&mut self, server: Option<u16>) {
        self.findings.retain(|finding| server.is_some_and(|server| finding.server != server));
        self.known = self.findings.iter().enumerate().map(|(at, finding)| (same(finding), at)).collect();
        if server.is_none() {
            self.unlisted = 0;
        }
    }

    pub fn add(&mut self, mut finding: Finding) {
        if self.scope.off.contains(&finding.code) {
            return;
        }
        self.told += 1;
        let same = same(&finding);
        if let Some(&known) = self.known.get(&same) {
            return merge(Arc::make_mut(&mut self.findings[known]), finding);
        }
        if self.findings.len() >= MOST_FINDINGS {
            self.unlisted += 1;
            return;
        }
        finding.allowed = reason(&self.scope, &finding);
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

pub fn same(finding: &Finding) -> Same {
    (finding.code, finding.server, finding.db, finding.key.clone(), finding.culprit)
}

/// Why a finding is allowed, if it is.
fn reason(scope: &Scope, finding: &Finding) -> Option<String> {
    let allowance = scope.allowed.iter().find(|allowance| allowance.covers(finding));
    allowance.map(|allowance| allowance.reason.clone())
}

fn merge(known: &mut Finding, new: Finding) {
    known.times += new.times;
    known.last_seq = new.last_seq;
    if new.severity > known.severity {
        let Finding { severity, sentence, evidence, .. } = new;
        (known.severity, known.sentence, known.evidence) = (severity, sentence, evidence);
    }
}
