//! What `redouble run` knows of locks at its end: the audit of its servers, their journals and their pages.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::audit_options::{AllowLine, AuditOptions};
use super::audit_result::{AuditResult, JournalFile, LineIndex};
use super::outputs::{self, cannot};
use crate::base::error::plain;
use crate::clients::instance::Instance;
use crate::commands;
use crate::insight::audit::tell::Judged;
use crate::insight::audit::{Conclusion, LiveAudit, Scope, audit, auditor};
use crate::insight::report;
use crate::powers::{Item, write_journal};
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
        self.allowed.iter().for_each(|line| push(b"audit-allow", line.text.as_bytes()));
        lines
    }

    /// Ends the audit of the servers.
    pub fn finish(self, servers: &[NumberedInstance], journals: Vec<JournalFile>) -> AuditResult {
        let mut audits: Vec<(String, &Arc<LiveAudit>)> = Vec::new();
        for (_, instance) in servers {
            // Servers that were started together share one audit.
            if !audits.iter().any(|(_, audit)| Arc::ptr_eq(audit, &instance.audit)) {
                audits.push((space_of(instance), &instance.audit));
            }
        }
        let worlds = audits.into_iter().map(|(space, audit)| findings_of(space, audit)).collect();
        AuditResult { worlds, allowed: self.allowed, options: self.options, journals }
    }
}

fn space_of(instance: &Instance) -> String {
    String::from_utf8_lossy(&instance.space).into_owned()
}

fn findings_of(space: String, audit: &LiveAudit) -> Judged {
    let Conclusion { findings, locks, unlisted, missed } = audit.whole();
    Judged { space, findings, locks, unlisted, missed }
}

/// Writes the journal of each server and space: the first server's to `path`, the others' beside it. `shown` is the path
/// as the command line has it, for the SARIF file.
pub(super) fn write_journals(
    path: &Path,
    shown: &Path,
    servers: &[NumberedInstance],
) -> Result<Vec<JournalFile>, String> {
    let write = |(server, instance): &NumberedInstance| {
        let space = space_of(instance);
        let items = instance.control.journal.items();
        let file = path_beside(path, *server, &space);
        write_journal(&file, &items).map_err(|error| cannot("write", &file, &plain(&error)))?;
        let mut lines = LineIndex::default();
        for (number, item) in (1..).zip(&items) {
            lines.add(seq_of(item), number);
        }
        let path = path_beside(shown, *server, &space);
        let since = items.first().map_or(i64::MIN, real_time_of);
        Ok(JournalFile { space, server: *server, path, since, lines })
    };
    servers.iter().map(write).collect()
}

/// Writes a page for each audit: that of the first server and its companions to `path`, those of spaces beside it.
pub(super) fn write_pages(path: &Path, servers: &[NumberedInstance], scope: &Scope) -> Result<(), String> {
    let mut rest: Vec<&NumberedInstance> = servers.iter().collect();
    while let Some((number, first)) = rest.first().copied() {
        let (world, others): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|(_, instance)| Arc::ptr_eq(&instance.audit, &first.audit));
        rest = others;
        let journals: Vec<(u16, Vec<Item>)> =
            world.iter().map(|(number, instance)| (*number, instance.control.journal.items())).collect();
        let table = commands::table(first.profile);
        let auditor = auditor(scope.clone(), move |words| table.keys(words)).draw();
        let page = report::html(&journals, &audit(journals.clone(), auditor));
        outputs::write(&path_beside(path, *number, &space_of(first)), page.as_bytes())?;
    }
    Ok(())
}

/// The sequence number of an entry.
pub(super) fn seq_of(item: &Item) -> u64 {
    match item {
        Item::Command(entry) => entry.seq,
        Item::Event(event) => event.seq,
    }
}

/// The real time of an entry.
pub(super) fn real_time_of(item: &Item) -> i64 {
    match item {
        Item::Command(entry) => entry.real,
        Item::Event(event) => event.real,
    }
}

/// `journal.jsonl`, `journal-2.jsonl` for the second server, `journal-space-NAME.jsonl` for a space.
fn path_beside(path: &Path, server: u16, space: &str) -> PathBuf {
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
        let name = |server, space| path_beside(Path::new("out/journal.jsonl"), server, space).display().to_string();
        assert_eq!(name(1, ""), "out/journal.jsonl");
        assert_eq!(name(2, ""), "out/journal-2.jsonl");
        assert_eq!(name(1, "../a"), "out/journal-space-%2e%2e%2fa.jsonl");
        assert_eq!(path_beside(Path::new("j"), 3, "b"), Path::new("j-3-space-b"));
    }
}
