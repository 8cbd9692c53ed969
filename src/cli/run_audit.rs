//! `--audit` of `redouble run` and `explore`: the servers audit while the command runs, and are asked at the end.

use std::sync::Arc;

use super::audit_options::{AllowLine, AuditOptions};
use super::audit_result::{AuditResult, JournalFile};
use crate::clients::instance::Instance;
use crate::insight::audit::render::WorldFindings;
use crate::insight::audit::{AuditConclusion, LiveAudit, Scope};
use crate::protocol::quote;

/// A server, or one of its spaces, with the number of the server, from 1.
pub(super) type NumberedInstance = (u16, Arc<Instance>);

/// The audit that goes on while the command runs.
pub(super) struct RunAudit {
    options: AuditOptions,
    allowed: Vec<AllowLine>,
}

impl RunAudit {
    /// Reads the `--allow` files and prepares the result files. Paths are relative to the current directory.
    pub fn new(options: &AuditOptions) -> Result<Self, String> {
        let mut options = options.clone();
        options.prepare_outputs()?;
        let allowed = options.read_allowed()?;
        Ok(Self { options, allowed })
    }

    pub fn scope(&self) -> Scope {
        self.options.scope(&self.allowed)
    }

    /// The directives that switch the servers' audit on.
    pub fn directives(&self) -> Vec<u8> {
        let mut lines = b"\naudit yes".to_vec();
        let mut push = |name: &[u8], value: &[u8]| lines.extend([b"\n", name, b" ", &*quote(value)].concat());
        self.options.locks.iter().for_each(|glob| push(b"locks", glob));
        self.options.not_locks.iter().for_each(|glob| push(b"not-locks", glob));
        self.options.resources.iter().for_each(|glob| push(b"resources", glob));
        self.allowed.iter().for_each(|line| push(b"audit-allow", line.text.as_bytes()));
        lines
    }

    /// What the audit of the servers has found since they began, or since it forgot what was before.
    pub fn finish(&self, servers: &[NumberedInstance], journals: Vec<JournalFile>) -> AuditResult {
        let mut audits: Vec<(String, &Arc<LiveAudit>)> = Vec::new();
        for (_, instance) in servers {
            // Servers that were started together share one audit.
            if !audits.iter().any(|(_, audit)| Arc::ptr_eq(audit, &instance.audit)) {
                audits.push((space_of(instance), &instance.audit));
            }
        }
        let dropped = audits.iter().flat_map(|(_, audit)| audit.dropped_spaces());
        let dropped = dropped.map(|(space, conclusion)| (String::from_utf8_lossy(&space).into_owned(), conclusion));
        let running = audits.iter().map(|(space, audit)| (space.clone(), audit.conclusion()));
        let worlds = running.chain(dropped).map(|(space, conclusion)| findings_of(space, conclusion)).collect();
        AuditResult { worlds, allowed: self.allowed.clone(), options: self.options.clone(), journals }
    }
}

/// The name of the space that an instance is; empty for a server itself.
pub(super) fn space_of(instance: &Instance) -> String {
    String::from_utf8_lossy(&instance.space).into_owned()
}

fn findings_of(space: String, conclusion: AuditConclusion) -> WorldFindings {
    let AuditConclusion { findings, marks, locks, unlisted, missed, forgotten, .. } = conclusion;
    WorldFindings { space, findings, marks, locks, unlisted, missed, forgotten }
}
