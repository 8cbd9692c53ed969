//! What an audit has come to, and where that is said.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::judging::{Allowed, Judging, cannot};
use crate::base::error::plain;
use crate::base::files;
use crate::insight::audit::Severity;
use crate::insight::audit::render::{self, Artifact, WorldFindings};

/// How many runs of lines are remembered of one file.
const MOST_RUNS: usize = 1 << 16;

pub(super) struct Verdict {
    pub worlds: Vec<WorldFindings>,
    pub allowed: Vec<Allowed>,
    pub judging: Judging,
    /// Files with the journals, if there are any.
    pub recorded: Vec<Recorded>,
}

/// A journal in a file.
pub(super) struct Recorded {
    pub space: String,
    /// From 1.
    pub server: u16,
    /// As somebody called it.
    pub path: PathBuf,
    /// The real time of its first line: when the server is reset, the journal begins anew.
    pub since: i64,
    pub lines: Lines,
}

/// Which line of a file has which place in the order of a journal: stretches in which both go on by one.
#[derive(Default)]
pub(super) struct Lines {
    /// The place and the number of the first line, and how many there are.
    stretches: Vec<(u64, u64, u64)>,
}

impl Lines {
    pub fn note(&mut self, seq: u64, line: u64) {
        let room = self.stretches.len() < MOST_RUNS;
        match self.stretches.last_mut() {
            Some((first, start, count)) if *first + *count == seq && *start + *count == line => *count += 1,
            _ if room => self.stretches.push((seq, line, 1)),
            _ => {}
        }
    }

    fn of(&self, seq: u64) -> Option<u64> {
        let after = self.stretches.partition_point(|(first, ..)| *first <= seq);
        let (first, start, count) = self.stretches.get(after.checked_sub(1)?)?;
        (seq - first < *count).then_some(start + (seq - first))
    }
}

impl Verdict {
    /// What the audit fails for, in a few words: "2 errors".
    pub fn failure(&self) -> Option<String> {
        let count = |severity: Severity| {
            let failing = self.worlds.iter().flat_map(|world| world.failing(self.judging.level));
            failing.filter(|finding| finding.severity == severity).count()
        };
        let counts = [(count(Severity::Error), "error"), (count(Severity::Warning), "warning")];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let named: Vec<String> = counts.map(|(count, what)| counted(count as u64, what)).collect();
        (!named.is_empty()).then(|| named.join(" and "))
    }

    /// The story, line by line.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![render::summary_line(&self.worlds)];
        lines.extend(render::report(&self.worlds).lines().map(str::to_owned));
        lines
    }

    /// What is to be known of the audit itself.
    pub fn notices(&self) -> Vec<String> {
        let missed: u64 = self.worlds.iter().map(|world| world.missed).sum();
        let unlisted: u64 = self.worlds.iter().map(|world| world.unlisted).sum();
        let mut notices = Vec::new();
        if missed > 0 {
            let entries = if missed == 1 { "1 entry was" } else { &format!("{missed} entries were") };
            notices.push(format!("{entries} not audited: the journal was full (--journal-size BYTES)"));
        }
        if unlisted > 0 {
            notices.push(format!("{} not told: there are too many", counted(unlisted, "more finding")));
            return notices;
        }
        let findings = || self.worlds.iter().flat_map(|world| &world.findings);
        let is_idle = |allowed: &&Allowed| !findings().any(|finding| allowed.allowance.covers(finding));
        let idle: Vec<&Allowed> = self.allowed.iter().filter(is_idle).collect();
        notices.extend(idle.into_iter().map(|allowed| {
            let code = allowed.allowance.code.map_or("*", |code| code.name());
            let keys = String::from_utf8_lossy(&allowed.allowance.keys);
            format!("{}: nothing was found that '{code} {keys}' allows", allowed.place)
        }));
        notices
    }

    /// Writes the files that were asked for.
    pub fn write(&self) -> Result<(), String> {
        let write = |path: &Path, text: String| {
            files::replace(path, text.as_bytes()).map_err(|error| cannot("write", path, &plain(&error)))
        };
        if let Some(path) = &self.judging.junit {
            write(path, render::junit(&self.worlds, self.judging.level))?;
        }
        if let Some(path) = &self.judging.sarif {
            write(
                path,
                render::sarif(&self.worlds, |space, server, seq, real| self.artifact(space, (server, seq), real)),
            )?;
        }
        Ok(())
    }

    /// Tells GitHub's runner of the findings, if this runs there.
    pub fn annotate(&self, mut output: impl Write) {
        if std::env::var_os("GITHUB_ACTIONS").is_some_and(|is| is == "true") {
            // If nobody reads it, it is not needed.
            let _ = output.write_all(render::annotations(&self.worlds).as_bytes());
            let _ = output.flush();
        }
    }

    /// Where a place in the order of a journal can be looked at.
    fn artifact(&self, space: &str, (server, seq): (u16, u64), real: i64) -> Option<Artifact> {
        let is_it = |recorded: &&Recorded| recorded.space == space && recorded.server == server;
        let recorded = self.recorded.iter().find(is_it).filter(|recorded| real >= recorded.since)?;
        Some(Artifact { uri: uri_of(&recorded.path), line: recorded.lines.of(seq) })
    }
}

/// A path as a reference: relative to wherever the reader takes it to be, or of this machine.
fn uri_of(path: &Path) -> String {
    let path = path.as_os_str().as_encoded_bytes();
    let mut uri = if path.starts_with(b"/") { "file://".to_owned() } else { String::new() };
    for byte in path {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' | b'~' => uri.push(char::from(*byte)),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

fn counted(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// Standard output, whole lines at a time.
pub(super) fn print(text: &[u8]) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text)?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_place_is_found_across_gaps() {
        let mut lines = Lines::default();
        for (seq, line) in [(5, 1), (6, 2), (9, 3), (10, 4), (11, 6)] {
            lines.note(seq, line);
        }
        assert_eq!(lines.stretches.len(), 3);
        assert_eq!([4, 5, 6, 7, 9, 10, 11, 12].map(|seq| lines.of(seq)), {
            [None, Some(1), Some(2), None, Some(3), Some(4), Some(6), None]
        });
    }

    #[test]
    fn paths_become_references() {
        assert_eq!(uri_of(Path::new("out/a b#.jsonl")), "out/a%20b%23.jsonl");
        assert_eq!(uri_of(Path::new("/tmp/a")), "file:///tmp/a");
    }
}
