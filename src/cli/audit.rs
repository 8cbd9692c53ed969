//! `redouble audit`: the audit of journals in files.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::audit_result::{AuditResult, JournalFile, LineIndex, print, real_time_of, seq_of};
use super::command_line::JournalFiles;
use super::front_files::{self, FrontFiles};
use super::outputs::cannot;
use super::subcommand::Subcommand;
use super::terminal::Screen;
use super::{fail, print_note};
use crate::base::error::plain;
use crate::commands;
use crate::insight::audit::render::WorldFindings;
use crate::insight::audit::{Auditor, FrontLine, JournalLine, audit_fronts, auditor};
use crate::powers::{Item, RecordedLines};

/// The status for findings that the audit fails for.
pub(super) const STATUS_FOUND: u8 = 3;

/// Audits journals; returns the status.
pub(super) fn audit(journals: JournalFiles) -> ExitCode {
    match try_audit(journals) {
        Ok(status) => ExitCode::from(status),
        Err(reason) => fail(Subcommand::Audit, &reason),
    }
}

fn try_audit(journals: JournalFiles) -> Result<u8, String> {
    let JournalFiles { options, files } = journals;
    let mut audit_options = options.audit.clone();
    audit_options.prepare_outputs()?;
    let allowed = audit_options.read_allowed()?;
    let scope = audit_options.scope(&allowed);
    let mut auditor = auditor(scope, commands::table_of_every_profile());
    if front_files::are_of_one_server(&options, &files)? {
        let FrontFiles { fronts, numbers, firsts, notes } = front_files::read(&files, options.clock_error)?;
        let auditor = audit_fronts(&fronts, auditor);
        let mut indexes: Vec<LineIndex> = files.iter().map(|_| LineIndex::default()).collect();
        for (seq, FrontLine { origin: (file, at), .. }) in (1..).zip(&fronts.lines) {
            indexes[*file].add(seq, numbers[*file][*at]);
        }
        let incomplete = files.iter().zip(firsts).filter_map(|(path, first)| incomplete(path, first));
        let notes = notes.into_iter().chain(incomplete).collect();
        let file = |(path, lines): (PathBuf, LineIndex)| JournalFile {
            space: String::new(),
            server: 1,
            path,
            since: i64::MIN,
            lines,
        };
        let named = files.into_iter().zip(indexes).filter(|(path, _)| path.as_os_str() != "-");
        return tell(
            &auditor,
            AuditResult { worlds: Vec::new(), allowed, options: audit_options, journals: named.map(file).collect() },
            options.json,
            notes,
        );
    }
    let mut readers =
        (1..).zip(files).map(|(server, path)| JournalReader::open(server, path)).collect::<Result<Vec<_>, _>>()?;
    // The journals are merged by real time. The entries of each stay in their order.
    while let Some(reader) =
        readers.iter_mut().filter(|reader| reader.next.is_some()).min_by_key(|reader| reader.real_time())
        && let Some(item) = reader.take()?
    {
        auditor.process_line(&JournalLine::item(reader.server, &item));
    }
    auditor.finish();
    let incomplete: Vec<String> = readers.iter().filter_map(|reader| incomplete(&reader.path, reader.first)).collect();
    let journals = readers.into_iter().filter_map(JournalReader::into_file).collect();
    let result = AuditResult { worlds: Vec::new(), allowed, options: audit_options, journals };
    tell(&auditor, result, options.json, incomplete)
}

/// Says what was found, and writes the files that were asked for; returns the status. `notes` are about the journals.
fn tell(auditor: &Auditor, mut result: AuditResult, json: bool, notes: Vec<String>) -> Result<u8, String> {
    let world = WorldFindings {
        space: String::new(),
        findings: auditor.findings().to_vec(),
        marks: auditor.marks().to_vec(),
        locks: auditor.lock_count(),
        unlisted: auditor.unlisted(),
        missed: 0,
        forgotten: 0,
    };
    result.worlds = vec![world];
    result.write_files()?;
    let findings = result.worlds.iter().flat_map(|world| &world.findings);
    let text: Vec<u8> = match json {
        true => findings.flat_map(|finding| [finding.json(), b"\n".to_vec()].concat()).collect(),
        false => result.lines(Screen::stdout()).iter().flat_map(|line| format!("{line}\n").into_bytes()).collect(),
    };
    // A reader that has gone, such as `head`, has read enough.
    let _ = print(&text);
    match json {
        true => result.annotate(io::stderr()),
        false => result.annotate(io::stdout()),
    }
    notes.iter().chain(&result.notes()).for_each(|note| print_note(Subcommand::Audit, note));
    Ok(if result.failure().is_some() { STATUS_FOUND } else { 0 })
}

/// A note, if a journal is empty or does not begin with its first entry.
fn incomplete(path: &Path, first: Option<u64>) -> Option<String> {
    let Some(first) = first else { return Some(format!("{} has no entry", path.display())) };
    (first > 1).then(|| format!("{} begins at place {first}: what was before it was not audited", path.display()))
}

/// Reads a journal line by line.
struct JournalReader {
    server: u16,
    path: PathBuf,
    items: RecordedLines<Box<dyn BufRead>>,
    /// The entry that was read and not taken yet. A single entry in memory is enough to merge journals.
    next: Option<Item>,
    lines: LineIndex,
    /// The sequence number of the first entry.
    first: Option<u64>,
}

impl JournalReader {
    fn open(server: u16, path: PathBuf) -> Result<Self, String> {
        let input: Box<dyn BufRead> = match path.as_os_str() == "-" {
            true => Box::new(BufReader::new(io::stdin())),
            false => {
                let file = File::open(&path).map_err(|error| cannot("read", &path, &plain(&error)))?;
                Box::new(BufReader::with_capacity(1 << 16, file))
            }
        };
        let items = RecordedLines::of(input);
        let mut reader = Self { server, path, items, next: None, lines: LineIndex::default(), first: None };
        reader.take()?;
        Ok(reader)
    }

    /// The real time of the next entry.
    fn real_time(&self) -> i64 {
        self.next.as_ref().map_or(i64::MAX, real_time_of)
    }

    /// The next entry, if there is one; reads the one behind it.
    fn take(&mut self) -> Result<Option<Item>, String> {
        let next = self.items.next().transpose().map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => format!("{}: {error}", self.path.display()),
            _ => cannot("read", &self.path, &plain(&error)),
        })?;
        let next = next.map(|(line, item)| {
            let seq = seq_of(&item);
            self.lines.add(seq, line);
            self.first.get_or_insert(seq);
            item
        });
        Ok(std::mem::replace(&mut self.next, next))
    }

    fn into_file(self) -> Option<JournalFile> {
        let Self { server, path, lines, .. } = self;
        (path.as_os_str() != "-").then_some(JournalFile { space: String::new(), server, path, since: i64::MIN, lines })
    }
}
