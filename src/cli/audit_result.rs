//! What an audit has found: the text, the result files, the annotations, and whether it fails.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, percent_encode};

use super::audit_options::{AllowLine, AuditOptions};
use super::outputs;
use super::subcommand::Subcommand;
use super::terminal::Screen;
use super::{print_error, print_note};
use crate::base::text::{URI_ESCAPED, counted};
use crate::insight::audit::Severity;
use crate::insight::audit::render::{self, Artifact, WorldFindings};
use crate::powers::Item;

/// How many runs of consecutive lines a [`LineIndex`] keeps.
const MAX_RUNS: usize = 1 << 16;

pub(super) struct AuditResult {
    pub worlds: Vec<WorldFindings>,
    pub allowed: Vec<AllowLine>,
    pub options: AuditOptions,
    /// The files with the journals, if there are any.
    pub journals: Vec<JournalFile>,
}

/// A journal in a file, which SARIF results point to.
pub(super) struct JournalFile {
    pub space: String,
    /// From 1.
    pub server: u16,
    /// As the command line has it.
    pub path: PathBuf,
    /// The real time of the first line. A reset of the server begins a new journal.
    pub since: i64,
    pub lines: LineIndex,
}

/// The line of a file in which an entry of a journal stands, by the entry's sequence number. Kept as runs in which both
/// numbers increase by one.
#[derive(Default)]
pub(super) struct LineIndex {
    /// Each with the first sequence number, the first line and the length.
    runs: Vec<(u64, u64, u64)>,
}

impl LineIndex {
    pub fn add(&mut self, seq: u64, line: u64) {
        let has_room = self.runs.len() < MAX_RUNS;
        match self.runs.last_mut() {
            Some((first, start, count)) if *first + *count == seq && *start + *count == line => *count += 1,
            _ if has_room => self.runs.push((seq, line, 1)),
            _ => {}
        }
    }

    fn line_of(&self, seq: u64) -> Option<u64> {
        let after = self.runs.partition_point(|(first, ..)| *first <= seq);
        let (first, start, count) = self.runs.get(after.checked_sub(1)?)?;
        (seq - first < *count).then_some(start + (seq - first))
    }
}

impl AuditResult {
    /// What the audit fails for, in a few words: "2 errors".
    pub fn failure(&self) -> Option<String> {
        let count = |severity: Severity| {
            let failing = self.worlds.iter().flat_map(|world| world.failing(self.options.level));
            failing.filter(|finding| finding.severity == severity).count()
        };
        let counts = [(count(Severity::Error), "error"), (count(Severity::Warning), "warning")];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let named: Vec<String> = counts.map(|(count, what)| counted(count as u64, what)).collect();
        (!named.is_empty()).then(|| named.join(" and "))
    }

    /// The findings as text, line by line. The first line sums up.
    pub fn lines(&self, screen: Screen) -> Vec<String> {
        let mut lines = vec![screen.ink.bold(&render::summary_line(&self.worlds))];
        let report = render::report_for_terminal(&self.worlds, screen.ink, screen.width);
        lines.extend(report.lines().map(str::to_owned));
        lines
    }

    /// Prints the findings on standard error: in a log each line with the subcommand that says it, on a terminal only the
    /// first one.
    pub fn print(&self, subcommand: Subcommand, screen: Screen) {
        for (number, line) in self.lines(screen).iter().enumerate() {
            match screen.is_terminal && number > 0 {
                true => drop(print_error(line.as_bytes())),
                false => print_note(subcommand, line),
            }
        }
    }

    /// Notes about the audit itself: what it missed, and which allowances were of no use.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.omissions();
        if self.unlisted() > 0 {
            return notes;
        }
        let findings = || self.worlds.iter().flat_map(|world| &world.findings);
        let is_unused = |line: &&AllowLine| !findings().any(|finding| line.allowance.covers(finding));
        notes.extend(self.allowed.iter().filter(is_unused).map(|line| {
            let code = line.allowance.code.map_or("*", |code| code.name());
            let keys = String::from_utf8_lossy(&line.allowance.keys);
            format!("{}: nothing was found that '{code} {keys}' allows", line.location)
        }));
        notes
    }

    /// What the audit missed, and what it does not tell.
    pub fn omissions(&self) -> Vec<String> {
        let missed: u64 = self.worlds.iter().map(|world| world.missed).sum();
        let unlisted = self.unlisted();
        let mut notes = Vec::new();
        if missed > 0 {
            let entries = if missed == 1 { "1 entry was" } else { &format!("{missed} entries were") };
            notes.push(format!("{entries} not audited: the journal was full (--journal-size BYTES)"));
        }
        let forgotten: u64 = self.worlds.iter().map(|world| world.forgotten).sum();
        if forgotten > 0 {
            let locks = if forgotten == 1 { "1 lock was" } else { &format!("{forgotten} locks were") };
            notes.push(format!(
                "{locks} forgotten, so findings may be missing: there are too many (--audit-memory BYTES)"
            ));
        }
        if unlisted > 0 {
            notes.push(format!("{} not told: there are too many", counted(unlisted, "more finding")));
        }
        notes
    }

    fn unlisted(&self) -> u64 {
        self.worlds.iter().map(|world| world.unlisted).sum()
    }

    /// Writes the result files that were asked for.
    pub fn write_files(&self) -> Result<(), String> {
        if let Some(path) = &self.options.junit {
            outputs::write(path, render::junit(&self.worlds, self.options.level).as_bytes())?;
        }
        if let Some(path) = &self.options.sarif {
            let artifact = |space: &str, server, seq, real| self.artifact(space, (server, seq), real);
            outputs::write(path, render::sarif(&self.worlds, artifact).as_bytes())?;
        }
        Ok(())
    }

    /// Writes annotations for GitHub's runner, if this runs there.
    pub fn annotate(&self, mut output: impl Write) {
        if std::env::var_os("GITHUB_ACTIONS").is_some_and(|is| is == "true") {
            // A closed output has no reader to miss them.
            let _ = output.write_all(render::annotations(&self.worlds).as_bytes());
            let _ = output.flush();
        }
    }

    /// The file and the line of a journal's entry.
    fn artifact(&self, space: &str, (server, seq): (u16, u64), real: i64) -> Option<Artifact> {
        let is_its = |journal: &&JournalFile| journal.space == space && journal.server == server;
        // Several fronts before one server have a journal each.
        let mut journals = self.journals.iter().filter(is_its).filter(|journal| real >= journal.since);
        let first = journals.next()?;
        let journal = match first.lines.line_of(seq) {
            Some(_) => first,
            None => journals.find(|journal| journal.lines.line_of(seq).is_some()).unwrap_or(first),
        };
        Some(Artifact { uri: uri_of(&journal.path), line: journal.lines.line_of(seq) })
    }
}

/// What is escaped in the path of a URI.
const URI_PATH: &AsciiSet = &URI_ESCAPED.remove(b'/');

/// A path as a URI: relative if the path is, so that the reader resolves it.
fn uri_of(path: &Path) -> String {
    let path = path.as_os_str().as_encoded_bytes();
    let scheme = if path.starts_with(b"/") { "file://" } else { "" };
    format!("{scheme}{}", percent_encode(path, URI_PATH))
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

/// Prints on standard output, without a break by what others print.
pub(super) fn print(text: &[u8]) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text)?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_an_entry_is_found_across_gaps() {
        let mut lines = LineIndex::default();
        for (seq, line) in [(5, 1), (6, 2), (9, 3), (10, 4), (11, 6)] {
            lines.add(seq, line);
        }
        assert_eq!(lines.runs.len(), 3);
        assert_eq!([4, 5, 6, 7, 9, 10, 11, 12].map(|seq| lines.line_of(seq)), {
            [None, Some(1), Some(2), None, Some(3), Some(4), Some(6), None]
        });
    }

    #[test]
    fn paths_become_uris() {
        assert_eq!(uri_of(Path::new("out/a b#.jsonl")), "out/a%20b%23.jsonl");
        assert_eq!(uri_of(Path::new("/tmp/a")), "file:///tmp/a");
    }
}
