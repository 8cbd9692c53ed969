//! The audit of what a command has done to the servers of `redouble run`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::judging::{Allowed, Judging, cannot};
use super::verdict::{Lines, Recorded, Verdict};
use crate::audit::tell::Judged;
use crate::audit::{Scope, audit, auditor};
use crate::commands::all;
use crate::control::{Item, write_journal};
use crate::error::plain;
use crate::instance::Instance;
use crate::spec::Table;

/// One server, or one of its spaces, with the number of the server, from 1.
pub(super) type Numbered = (u16, Arc<Instance>);

/// An audit that is to be made when the command has ended.
pub(super) struct Audit {
    judging: Judging,
    scope: Scope,
    allowed: Vec<Allowed>,
}

impl Audit {
    /// Reads what it needs. To be called where paths are still meant relative to.
    pub fn new(judging: &Judging) -> Result<Self, String> {
        let mut judging = judging.clone();
        judging.settle()?;
        let (scope, allowed) = judging.scope()?;
        Ok(Self { judging, scope, allowed })
    }

    pub fn judge(self, servers: &[Numbered], recorded: Vec<Recorded>) -> Verdict {
        let worlds = worlds(servers).into_iter();
        let worlds = worlds.map(|(space, servers)| judge(space, &servers, &self.scope)).collect();
        Verdict { worlds, allowed: self.allowed, judging: self.judging, recorded }
    }
}

/// Those whose locks have to do with each other: what has the same name on all servers.
fn worlds(servers: &[Numbered]) -> BTreeMap<String, Vec<&Numbered>> {
    let mut worlds: BTreeMap<String, Vec<&Numbered>> = BTreeMap::new();
    for server in servers {
        worlds.entry(space_of(&server.1)).or_default().push(server);
    }
    worlds
}

fn space_of(instance: &Instance) -> String {
    String::from_utf8_lossy(&instance.space).into_owned()
}

/// What the journals of one world say.
fn judge(space: String, servers: &[&Numbered], scope: &Scope) -> Judged {
    let profile = servers.first().map(|(_, instance)| instance.profile).unwrap_or_default();
    let table = Table::new(all(), profile);
    let journals = servers.iter().map(|(number, instance)| (*number, instance.control.journal.items())).collect();
    let missed = servers.iter().map(|(_, instance)| instance.control.journal.extent().forgotten).sum();
    let auditor = audit(journals, auditor(scope.clone(), move |words| table.keys(words)));
    Judged {
        space,
        findings: auditor.findings().to_vec(),
        locks: auditor.watched(),
        unlisted: auditor.unlisted(),
        missed,
    }
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
        Ok(Recorded { space, server: *server, path, lines })
    };
    servers.iter().map(write).collect()
}

pub(super) fn place_of(item: &Item) -> u64 {
    match item {
        Item::Command(entry) => entry.seq,
        Item::Event(event) => event.seq,
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
