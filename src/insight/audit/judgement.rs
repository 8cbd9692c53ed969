//! What the journal of a server has shown until it is reset, judged as at the end.

use std::sync::Arc;

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
            ended.finish_server(server);
        }
        let mut learned = auditor.learned();
        let mut carried = ended.carried();
        let mut findings = carried.take_over();
        for finding in ended.findings().iter().filter(|finding| finding.server == server) {
            let is_new = !auditor.findings().iter().any(|known| key_of(known) == key_of(finding));
            let lock = ended.lock_of(finding).filter(|_| is_new);
            findings.extend(carried.carry(Arc::clone(finding), lock));
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
