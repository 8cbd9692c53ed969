//! `redouble audit`: journals that were written to files are audited.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;

use super::audit::{place_of, real_of};
use super::complain;
use super::judging::{Judging, cannot, level_of, parted};
use super::verdict::{Lines, Recorded, Verdict, print};
use crate::base::error::plain;
use crate::commands;
use crate::insight::audit::render::WorldFindings;
use crate::insight::audit::{JournalLine, auditor};
use crate::powers::{Item, RecordedLines};

/// The status for findings that the audit fails for,
pub(super) const FOUND: u8 = 3;
/// and for what cannot be audited.
pub(super) const CANNOT: u8 = 2;

/// `redouble audit [flags] file [file...]`
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Recordings {
    /// The journal of each server; `-` for standard input.
    pub files: Vec<PathBuf>,
    pub judging: Judging,
    /// ExplorationSummary are told as lines of JSON.
    pub json: bool,
}

const NO_FILE: &str = "no journal; as in: redouble audit journal.jsonl";

impl Recordings {
    /// Takes the arguments apart that follow `audit`; the error says what is wrong with them.
    pub fn parse(arguments: &[OsString]) -> Result<Self, String> {
        let mut asked = Self::default();
        let mut rest = arguments;
        let mut are_flags = true;
        while let [argument, behind @ ..] = rest {
            let text = argument.as_bytes();
            let taken = match text {
                b"--" if are_flags => {
                    are_flags = false;
                    1
                }
                b"--json" if are_flags => {
                    asked.json = true;
                    1
                }
                _ if are_flags && parted(argument).0 == b"--level" => asked.take_level(argument, behind.first())?,
                _ if are_flags && text.starts_with(b"--") => match asked.judging.take(argument, behind.first())? {
                    0 => return Err(format!("there is no flag '{}'; see redouble audit --help", text.escape_ascii())),
                    taken => taken,
                },
                _ => {
                    asked.files.push(argument.into());
                    1
                }
            };
            rest = rest.get(taken..).unwrap_or_default();
        }
        if asked.files.is_empty() {
            return Err(NO_FILE.to_owned());
        }
        if asked.files.iter().filter(|file| file.as_os_str() == "-").count() > 1 {
            return Err("standard input can be only one of the journals".to_owned());
        }
        Ok(asked)
    }

    fn take_level(&mut self, flag: &OsString, next: Option<&OsString>) -> Result<usize, String> {
        let (_, joined) = parted(flag);
        let taken = if joined.is_some() { 1 } else { 2 };
        let word = joined.as_ref().or(next).map(|word| word.as_bytes()).unwrap_or_default();
        self.judging.level =
            level_of(word).ok_or_else(|| format!("--level takes error or warn, not '{}'", word.escape_ascii()))?;
        Ok(taken)
    }

    /// Audits them; returns the status.
    pub fn audit(self) -> ExitCode {
        match self.try_audit() {
            Ok(status) => ExitCode::from(status),
            Err(reason) => {
                tell(&reason);
                ExitCode::from(CANNOT)
            }
        }
    }

    fn try_audit(self) -> Result<u8, String> {
        let Self { files, mut judging, json } = self;
        judging.settle()?;
        let allowed = judging.allowances()?;
        let scope = judging.scope(&allowed);
        let mut auditor = auditor(scope, commands::table_of_every_profile());
        let mut sources =
            (1..).zip(files).map(|(server, path)| Source::open(server, path)).collect::<Result<Vec<_>, _>>()?;
        // As one journal, in the order of real time; the lines of one stay in their order.
        while let Some(source) =
            sources.iter_mut().filter(|source| source.next.is_some()).min_by_key(|source| source.real())
            && let Some(item) = source.take()?
        {
            auditor.process_line(&JournalLine::item(source.server, &item));
        }
        auditor.finish();
        let world = WorldFindings {
            space: String::new(),
            findings: auditor.findings().to_vec(),
            locks: auditor.lock_count(),
            unlisted: auditor.unlisted(),
            missed: 0,
        };
        let beginnings: Vec<String> = sources.iter().filter_map(Source::beginning).collect();
        let recorded = sources.into_iter().filter_map(Source::recorded).collect();
        let verdict = Verdict { worlds: vec![world], allowed, judging, recorded };
        verdict.write()?;
        let lines = verdict.lines();
        let findings = verdict.worlds.iter().flat_map(|world| &world.findings);
        let text: Vec<u8> = match json {
            true => findings.flat_map(|finding| [finding.json(), b"\n".to_vec()].concat()).collect(),
            false => lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect(),
        };
        // Whoever does not read on knows enough.
        let _ = print(&text);
        match json {
            true => verdict.annotate(io::stderr()),
            false => verdict.annotate(io::stdout()),
        }
        beginnings.iter().chain(&verdict.notices()).for_each(|notice| tell(notice));
        Ok(if verdict.failure().is_some() { FOUND } else { 0 })
    }
}

/// A journal that is read line by line.
struct Source {
    server: u16,
    path: PathBuf,
    items: RecordedLines<Box<dyn BufRead>>,
    /// The line that was read and not taken yet: of one journal alone there is no need to keep more.
    next: Option<Item>,
    lines: Lines,
    /// The place of its first line.
    first: Option<u64>,
}

impl Source {
    fn open(server: u16, path: PathBuf) -> Result<Self, String> {
        let input: Box<dyn BufRead> = match path.as_os_str() == "-" {
            true => Box::new(BufReader::new(io::stdin())),
            false => {
                let file = File::open(&path).map_err(|error| cannot("read", &path, &plain(&error)))?;
                Box::new(BufReader::with_capacity(1 << 16, file))
            }
        };
        let items = RecordedLines::of(input);
        let mut source = Self { server, path, items, next: None, lines: Lines::default(), first: None };
        source.take()?;
        Ok(source)
    }

    fn real(&self) -> i64 {
        self.next.as_ref().map_or(i64::MAX, real_of)
    }

    /// The next line, if there is one; the one behind it is read.
    fn take(&mut self) -> Result<Option<Item>, String> {
        let next = self.items.next().transpose().map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => format!("{}: {error}", self.path.display()),
            _ => cannot("read", &self.path, &plain(&error)),
        })?;
        let next = next.map(|(line, item)| {
            let place = place_of(&item);
            self.lines.note(place, line);
            self.first.get_or_insert(place);
            item
        });
        Ok(std::mem::replace(&mut self.next, next))
    }

    /// Says that the beginning is missing, if it is.
    fn beginning(&self) -> Option<String> {
        let first = self.first.filter(|first| *first > 1)?;
        Some(format!("{} begins at place {first}: what was before it was not audited", self.path.display()))
    }

    fn recorded(self) -> Option<Recorded> {
        let Self { server, path, lines, .. } = self;
        (path.as_os_str() != "-").then_some(Recorded { space: String::new(), server, path, since: i64::MIN, lines })
    }
}

fn tell(line: &str) {
    let _ = complain(format!("redouble audit: {line}").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::insight::audit::Severity;

    fn parse(words: &[&str]) -> Result<Recordings, String> {
        Recordings::parse(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn flags_and_files_may_stand_in_any_order() {
        let asked = parse(&["a.jsonl", "--level", "warn", "--locks=l:*", "-", "--json", "--", "--json"]).unwrap();
        assert_eq!(asked.files, ["a.jsonl", "-", "--json"].map(PathBuf::from));
        assert_eq!((asked.judging.level, asked.json), (Severity::Warning, true));
        assert_eq!(asked.judging.locks, [b"l:*"]);
    }

    #[test]
    fn what_nobody_can_make_sense_of_is_explained() {
        assert_eq!(parse(&[]).unwrap_err(), NO_FILE);
        assert_eq!(parse(&["a", "--level", "note"]).unwrap_err(), "--level takes error or warn, not 'note'");
        assert!(parse(&["a", "--levels=warn"]).unwrap_err().contains("no flag '--levels=warn'"));
        assert!(parse(&["a", "--bogus"]).unwrap_err().contains("no flag '--bogus'"));
        assert!(parse(&["-", "-"]).unwrap_err().contains("standard input"));
    }
}
