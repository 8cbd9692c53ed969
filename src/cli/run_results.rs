//! What `redouble run` says and writes when its command has ended, and `redouble explore` about one order: the summary, the
//! audit, the journals, the pages.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::audit::STATUS_FOUND;
use super::audit_result::{AuditResult, JournalFile, LineIndex, real_time_of, seq_of};
use super::flags::Options;
use super::outputs::{self, cannot, prepare};
use super::run_audit::{NumberedInstance, RunAudit, space_of};
use super::run_summary::{RunSummary, say};
use super::subcommand::Subcommand;
use super::terminal::Screen;
use crate::base::error::plain;
use crate::commands;
use crate::insight::audit::{Scope, audit, auditor};
use crate::insight::report;
use crate::powers::{Item, write_journal};

/// The status for what `--strict` fails for.
const STATUS_NOT_CLEAN: u8 = 1;

/// What the flags ask for, with absolute paths.
pub(super) struct RunResults {
    pub audit: Option<RunAudit>,
    has_summary: bool,
    is_strict: bool,
    journal: Option<OutputPath>,
    page: Option<PathBuf>,
}

struct OutputPath {
    absolute: PathBuf,
    /// As the command line has it.
    shown: PathBuf,
}

impl RunResults {
    /// Prepares what is to be written. Paths are relative to the current directory.
    pub fn prepare(options: &Options) -> Result<Self, String> {
        let audit = options.audits.then(|| RunAudit::new(&options.audit)).transpose()?;
        let absolute = |path: &PathBuf| {
            let mut path = path.clone();
            prepare(&mut path).map(|()| path)
        };
        let journal = options.journal_out.as_ref().map(|shown| {
            let absolute = absolute(shown)?;
            Ok::<_, String>(OutputPath { absolute, shown: shown.clone() })
        });
        Ok(Self {
            audit,
            has_summary: options.summary,
            is_strict: options.strict,
            journal: journal.transpose()?,
            page: options.report_html.as_ref().map(absolute).transpose()?,
        })
    }

    /// Whether the servers have to keep a journal that no `--audit` switches on.
    pub fn needs_journal(&self) -> bool {
        self.journal.is_some() || self.page.is_some()
    }

    /// Says and writes everything; returns the status, which is 0 if there is nothing to fail for.
    pub fn finish(self, servers: &[NumberedInstance]) -> u8 {
        let instances: Vec<_> = servers.iter().map(|(_, instance)| Arc::clone(instance)).collect();
        let summary = RunSummary::of(&instances);
        if self.has_summary {
            summary.print();
        }
        if self.audit.is_some() {
            summary.print_if_nobody_connected();
        }
        let has_panicked = summary.print_panics();
        let is_failure = self.is_strict && !summary.is_clean();
        if is_failure {
            summary.print_failures(self.has_summary);
        }
        let status = self.finish_audit(servers).unwrap_or_else(|reason| {
            say(&reason);
            Subcommand::Run.failure_status()
        });
        match (is_failure, has_panicked) {
            (true, _) => STATUS_NOT_CLEAN,
            (false, true) => Subcommand::Run.failure_status(),
            (false, false) => status,
        }
    }

    fn write_journals(&self, servers: &[NumberedInstance]) -> (Vec<JournalFile>, Result<(), String>) {
        match self.journal.as_ref().map(|path| write_journals(path, servers)).transpose() {
            Ok(journals) => (journals.unwrap_or_default(), Ok(())),
            Err(reason) => (Vec::new(), Err(reason)),
        }
    }

    fn write_pages(&self, servers: &[NumberedInstance]) -> Result<(), String> {
        let scope = self.audit.as_ref().map(RunAudit::scope).unwrap_or_default();
        self.page.as_ref().map_or(Ok(()), |path| write_pages(path, servers, &scope))
    }

    /// Writes the journals and the pages, says what the audit has found, and writes its files.
    fn finish_audit(self, servers: &[NumberedInstance]) -> Result<u8, String> {
        let (journals, journals_written) = self.write_journals(servers);
        let pages_written = self.write_pages(servers);
        let mut status = 0;
        let mut audit_written = Ok(());
        if let Some(audit) = &self.audit {
            let result = audit.finish(servers, journals);
            result.print(Subcommand::Run, Screen::stderr());
            result.notes().iter().for_each(|line| say(line));
            result.annotate(io::stdout());
            if let Some(failure) = result.failure() {
                say(&format!("failed because of {failure} (--audit)"));
                status = STATUS_FOUND;
            }
            audit_written = result.write_files();
        }
        journals_written.and(audit_written).and(pages_written).map(|()| status)
    }
}

/// What an exploration asks of a single run.
impl RunResults {
    /// The audit of a run, if there is one. It knows nothing of earlier runs.
    pub fn audit_run(&self, servers: &[NumberedInstance]) -> Option<AuditResult> {
        self.audit.as_ref().map(|audit| audit.finish(servers, Vec::new()))
    }

    /// Writes the journal, the page and the audit's files of a run.
    pub fn write_run(&self, servers: &[NumberedInstance], audit: Option<AuditResult>) -> Result<(), String> {
        let (journals, journals_written) = self.write_journals(servers);
        let pages_written = self.write_pages(servers);
        let audit_written = audit.map_or(Ok(()), |audit| AuditResult { journals, ..audit }.write_files());
        journals_written.and(audit_written).and(pages_written)
    }

    /// The names of the files that only an order that fails has.
    pub fn files_of_a_failure(&self) -> Vec<String> {
        let journal = self.journal.as_ref().map(|path| &path.absolute);
        journal.into_iter().chain(&self.page).map(|path| path.display().to_string()).collect()
    }
}

/// Writes the journal of each server and space: the first server's to `path`, the others' beside it.
fn write_journals(path: &OutputPath, servers: &[NumberedInstance]) -> Result<Vec<JournalFile>, String> {
    let write = |(server, instance): &NumberedInstance| {
        let space = space_of(instance);
        let items = instance.control.journal.items();
        let file = path_beside(&path.absolute, *server, &space);
        write_journal(&file, &items).map_err(|error| cannot("write", &file, &plain(&error)))?;
        let mut lines = LineIndex::default();
        for (number, item) in (1..).zip(&items) {
            lines.add(seq_of(item), number);
        }
        let path = path_beside(&path.shown, *server, &space);
        let since = items.first().map_or(i64::MIN, real_time_of);
        Ok(JournalFile { space, server: *server, path, since, lines })
    };
    servers.iter().map(write).collect()
}

/// Writes a page for each audit: that of the first server and its companions to `path`, those of spaces beside it.
fn write_pages(path: &Path, servers: &[NumberedInstance], scope: &Scope) -> Result<(), String> {
    let mut rest: Vec<&NumberedInstance> = servers.iter().collect();
    while let Some((number, first)) = rest.first().copied() {
        let (world, others): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|(_, instance)| Arc::ptr_eq(&instance.audit, &first.audit));
        rest = others;
        let journals: Vec<(u16, Vec<Item>)> =
            world.iter().map(|(number, instance)| (*number, instance.control.journal.items())).collect();
        let auditor = auditor(scope.clone(), commands::table(first.profile)).with_timeline();
        let page = report::html(&journals, &audit(journals.clone(), auditor));
        outputs::write(&path_beside(path, *number, &space_of(first)), page.as_bytes())?;
    }
    Ok(())
}

/// `journal.jsonl`, `journal-2.jsonl` for the second server, `journal-space-NAME.jsonl` for a space.
pub(super) fn path_beside(path: &Path, server: u16, space: &str) -> PathBuf {
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
    use crate::clients::instance::Instance;

    #[test]
    fn a_run_whose_server_has_panicked_fails() {
        let finish = |instance: &Arc<Instance>| {
            let results = RunResults::prepare(&Options::default()).unwrap();
            results.finish(&[(1, Arc::clone(instance))])
        };
        let instance = Arc::new(Instance::default());
        assert_eq!(finish(&instance), 0);
        instance.new_space(b"space").record_panic("in a test", &"reason");
        assert_eq!(finish(&instance), 125);
    }

    #[test]
    fn journals_of_others_lie_beside_the_first_ones() {
        let name = |server, space| path_beside(Path::new("out/journal.jsonl"), server, space).display().to_string();
        assert_eq!(name(1, ""), "out/journal.jsonl");
        assert_eq!(name(2, ""), "out/journal-2.jsonl");
        assert_eq!(name(1, "../a"), "out/journal-space-%2e%2e%2fa.jsonl");
        assert_eq!(path_beside(Path::new("j"), 3, "b"), Path::new("j-3-space-b"));
    }
}
