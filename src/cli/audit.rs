//! The audit of what a command has done to the servers of `redouble run`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::judging::{Allowed, Judging, cannot};
use super::verdict::{Lines, Recorded, Verdict};
use crate::base::error::plain;
use crate::base::files;
use crate::clients::instance::Instance;
use crate::commands;
use crate::insight::audit::render::WorldFindings;
use crate::insight::audit::{AuditConclusion, LiveAudit, Scope, audit, auditor};
use crate::insight::report;
use crate::powers::{Item, write_journal};
use crate::protocol::quote;

/// One server, or one of its spaces, with the number of the server, from 1.
pub(super) type Numbered = (u16, Arc<Instance>);

/// An audit that goes on while the command runs.
pub(super) struct Audit {
    judging: Judging,
    allowed: Vec<Allowed>,
}

impl Audit {
    /// Reads what it needs. To be called where paths are still meant relative to.
    pub fn new(judging: &Judging) -> Result<Self, String> {
        let mut judging = judging.clone();
        judging.settle()?;
        let allowed = judging.allowances()?;
        Ok(Self { judging, allowed })
    }

    /// What an auditor of the journals is to look for.
    pub fn scope(&self) -> Scope {
        self.judging.scope(&self.allowed)
    }

    /// What the servers are to be told, as lines of a configuration file.
    pub fn directives(&self) -> Vec<u8> {
        let mut lines = b"\naudit yes".to_vec();
        let mut tell = |name: &[u8], value: &[u8]| lines.extend([b"\n", name, b" ", &*quote(value)].concat());
        self.judging.locks.iter().for_each(|glob| tell(b"locks", glob));
        self.judging.not_locks.iter().for_each(|glob| tell(b"not-locks", glob));
        self.allowed.iter().for_each(|allowed| tell(b"audit-allow", allowed.line.as_bytes()));
        lines
    }

    pub fn judge(self, servers: &[Numbered], recorded: Vec<Recorded>) -> Verdict {
        let mut audits: Vec<(String, &Arc<LiveAudit>)> = Vec::new();
        for (_, instance) in servers {
            // Servers that were started together are audited together.
            if !audits.iter().any(|(_, audit)| Arc::ptr_eq(audit, &instance.audit)) {
                audits.push((space_of(instance), &instance.audit));
            }
        }
        let worlds = audits.into_iter().map(|(space, audit)| judge(space, audit)).collect();
        Verdict { worlds, allowed: self.allowed, judging: self.judging, recorded }
    }
}

fn space_of(instance: &Instance) -> String {
    String::from_utf8_lossy(&instance.space).into_owned()
}

/// What was found in one world.
fn judge(space: String, audit: &LiveAudit) -> WorldFindings {
    let AuditConclusion { findings, locks, unlisted, missed } = audit.conclusion();
    WorldFindings { space, findings, locks, unlisted, missed }
}

/// Writes the journal of each server and space: the first server's to the file that was asked for, the others' beside it.
pub(super) fn write_journals(path: &Path, called: &Path, servers: &[Numbered]) -> Result<Vec<Recorded>, String> {
    let write = |(server, instance): &Numbered| {
        let space = space_of(instance);
        let items = instance.control.journal.items();
        let file = beside(path, *server, &space);
        write_journal(&file, &items).map_err(|error| cannot("write", &file, &plain(&error)))?;
        let mut lines = Lines::default();
        for (number, item) in (1..).zip(&items) {
            lines.note(place_of(item), number);
        }
        let path = beside(called, *server, &space);
        let since = items.first().map_or(i64::MIN, real_of);
        Ok(Recorded { space, server: *server, path, since, lines })
    };
    servers.iter().map(write).collect()
}

/// Draws what the journals tell: the first server's page, with those of its companions, goes where it was asked for, those of
/// spaces beside it.
pub(super) fn write_pages(path: &Path, servers: &[Numbered], scope: &Scope) -> Result<(), String> {
    let mut rest: Vec<&Numbered> = servers.iter().collect();
    while let Some((number, first)) = rest.first().copied() {
        let (world, others): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|(_, instance)| Arc::ptr_eq(&instance.audit, &first.audit));
        rest = others;
        let journals: Vec<(u16, Vec<Item>)> =
            world.iter().map(|(number, instance)| (*number, instance.control.journal.items())).collect();
        let auditor = auditor(scope.clone(), commands::table(first.profile)).with_timeline();
        let page = report::html(&journals, &audit(journals.clone(), auditor));
        let file = beside(path, *number, &space_of(first));
        files::replace(&file, page.as_bytes()).map_err(|error| cannot("write", &file, &plain(&error)))?;
    }
    Ok(())
}

pub(super) fn place_of(item: &Item) -> u64 {
    match item {
        Item::Command(entry) => entry.seq,
        Item::Event(event) => event.seq,
    }
}

pub(super) fn real_of(item: &Item) -> i64 {
    match item {
        Item::Command(entry) => entry.real,
        Item::Event(event) => event.real,
    }
}

/// `journal.jsonl`, `journal-2.jsonl` for the second server, `journal-space-NAME.jsonl` for a space.
fn beside(path: &Path, server: u16, space: &str) -> PathBuf {
    let mut suffix = String::new();
    if server > 1 {
        suffix.push_str(&format!("-{server}"));
    }
    if !space.is_empty() {
        suffix.push_str("-space-");
        for byte in space.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => suffix.push(char::from(byte)),
                byte => suffix.push_str(&format!("%{byte:02x}")),
            }
        }
    }
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(&suffix);
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journals_of_others_lie_beside_the_first_ones() {
        let name = |server, space| beside(Path::new("out/journal.jsonl"), server, space).display().to_string();
        assert_eq!(name(1, ""), "out/journal.jsonl");
        assert_eq!(name(2, ""), "out/journal-2.jsonl");
        assert_eq!(name(1, "../a"), "out/journal-space-%2e%2e%2fa.jsonl");
        assert_eq!(beside(Path::new("j"), 3, "b"), Path::new("j-3-space-b"));
    }
}
