//! The findings of one world: of servers whose locks have to do with each other.

use std::sync::Arc;

use crate::insight::audit::code::Severity;
use crate::insight::audit::finding::Finding;

/// The result of an audit of one world.
#[derive(Clone, Debug, Default)]
pub struct WorldFindings {
    /// The name of the space; empty for the root, to which clients connect.
    pub space: String,
    /// In the order in which they were found.
    pub findings: Vec<Arc<Finding>>,
    /// The marks that came, such as the names of tests.
    pub marks: Vec<Arc<str>>,
    /// How many keys were taken for locks.
    pub locks: u64,
    /// How many findings were dropped because the list was full.
    pub unlisted: u64,
    /// How many entries fell out of the journals before they were processed.
    pub missed: u64,
    /// How many locks were forgotten because all audits together knew too much.
    pub forgotten: u64,
}

impl WorldFindings {
    /// The findings that make an audit at this level fail.
    pub fn failing(&self, level: Severity) -> impl Iterator<Item = &Arc<Finding>> {
        self.findings.iter().filter(move |finding| fails(finding, level))
    }
}

/// Whether a finding makes an audit at this level fail.
pub fn fails(finding: &Finding, level: Severity) -> bool {
    finding.allowed.is_none() && finding.severity >= level
}

/// All findings of some worlds, each with its space, by harm and then by time.
pub fn by_harm(worlds: &[WorldFindings]) -> Vec<(&str, &Arc<Finding>)> {
    let mut findings: Vec<_> = all(worlds).collect();
    findings.sort_by_key(|(_, finding)| finding.harm());
    findings
}

/// All findings of some worlds, each with its space, in the order in which they were found.
pub fn all(worlds: &[WorldFindings]) -> impl Iterator<Item = (&str, &Arc<Finding>)> {
    worlds.iter().flat_map(|world| world.findings.iter().map(|finding| (world.space.as_str(), finding)))
}
