//! What the journal of a server has shown until it is reset, judged as at the end.

use std::collections::HashSet;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::auditor::Auditor;
use super::carried_holds::CarriedHolds;
use super::finding::Finding;
use super::finding_collector::key_of;
use super::learned_locks::LearnedLocks;

/// Findings that a reset takes from the audit, and what it leaves to it.
#[derive(Default)]
pub struct Judgement {
    /// Nothing that comes changes them.
    pub findings: Vec<Arc<Finding>>,
    pub marks: Vec<Arc<str>>,
    pub locks: u64,
    pub unlisted: u64,
    /// Findings that count unless a holder comes back.
    pub carried: CarriedHolds,
    pub learned: Arc<LearnedLocks>,
}

impl Judgement {
    /// Judges what an auditor knows of a server. With `is_end` nothing more comes from there before the reset.
    pub fn of(auditor: &Auditor, server: u16, is_end: bool) -> Self {
        let mut ended = auditor.clone();
        if is_end {
            ended.find_last_on(server);
        }
        let mut learned = auditor.learned();
        let mut carried = ended.carried();
        let mut findings = carried.take_over();
        let known: HashSet<_, FixedState> = auditor.findings().iter().map(|known| key_of(known)).collect();
        for finding in ended.findings().iter().filter(|finding| finding.server == server) {
            let lock = if known.contains(&key_of(finding)) { None } else { ended.lock_of(finding) };
            findings.extend(carried.carry(Arc::clone(finding), lock.as_deref()));
        }
        ended.learn_names(Arc::make_mut(&mut learned));
        Self {
            findings,
            marks: ended.marks().to_vec(),
            locks: ended.lock_count(),
            unlisted: ended.unlisted(),
            carried,
            learned,
        }
    }
}
