//! `redouble report`: journals that were exported, as a page with a picture or as text.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::judging::read_allowances;
use super::{complain, say, words};
use crate::base::error::plain;
use crate::base::files;
use crate::commands;
use crate::insight::audit::{Auditor, Scope, audit, auditor};
use crate::insight::report;
use crate::powers::{Item, read_journal};

/// Where the page goes if nobody says where.
const USUAL_PAGE: &str = "report.html";

/// What is asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    journals: Vec<PathBuf>,
    to: Option<PathBuf>,
    is_text: bool,
    is_help: bool,
    scope: Scope,
}

/// Writes a report; the arguments are those behind the word.
pub(super) fn report(arguments: &[OsString]) -> ExitCode {
    match try_report(arguments) {
        Ok(status) => status,
        Err(reason) => complain(format!("redouble report: {reason}").as_bytes()),
    }
}

fn try_report(arguments: &[OsString]) -> Result<ExitCode, String> {
    let asked = parse(arguments)?;
    if asked.is_help {
        return Ok(say(words::REPORT_HELP.trim_end()));
    }
    let mut journals = Vec::new();
    for (number, path) in (1..).zip(&asked.journals) {
        journals.push((number, read(path)?));
    }
    let auditor: Auditor = auditor(asked.scope, commands::table_of_every_profile()).with_timeline();
    let auditor = audit(journals.clone(), auditor);
    let to_output = asked.is_text && asked.to.is_none() || asked.to.as_deref() == Some(Path::new("-"));
    let is_coloured = to_output && io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let report = match asked.is_text {
        true => report::text(&journals, &auditor, is_coloured),
        false => report::html(&journals, &auditor),
    };
    if to_output {
        let written = io::stdout().write_all(report.as_bytes());
        // Whoever has seen enough, such as `head`, may go.
        let written =
            written.or_else(|error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) });
        written.map_err(|error| format!("standard output: {}", plain(&error)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let path = asked.to.unwrap_or_else(|| PathBuf::from(USUAL_PAGE));
    files::replace(&path, report.as_bytes()).map_err(|error| format!("{}: {}", path.display(), plain(&error)))?;
    let found = auditor.findings().iter().filter(|finding| finding.allowed.is_none()).count();
    let found = if found == 1 { "1 finding".to_owned() } else { format!("{found} findings") };
    Ok(say(&format!("{} ({found})", path.display())))
}

fn parse(arguments: &[OsString]) -> Result<Asked, String> {
    let mut asked = Asked::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let flag = argument.to_string_lossy();
        let mut value = |what: &str| {
            rest.next()
                .filter(|value| !value.is_empty())
                .ok_or_else(|| format!("{flag} takes {what}, and nothing stands behind it"))
        };
        match argument.as_bytes() {
            b"-h" | b"--help" => return Ok(Asked { is_help: true, ..Asked::default() }),
            b"-o" => asked.to = Some(PathBuf::from(value("the path of a file")?)),
            b"--text" => asked.is_text = true,
            b"--locks" => asked.scope.locks.push(value("a glob of keys")?.as_bytes().to_vec()),
            b"--not-locks" => asked.scope.not_locks.push(value("a glob of keys")?.as_bytes().to_vec()),
            b"--allow" => {
                let path = PathBuf::from(value("the path of a file")?);
                asked.scope.allowed.extend(read_allowances(&path)?.into_iter().map(|allowed| allowed.allowance));
            }
            text if text.starts_with(b"-") && text != b"-" => {
                return Err(format!("there is no flag {flag}; see redouble report --help"));
            }
            _ => asked.journals.push(PathBuf::from(argument)),
        }
    }
    if asked.journals.is_empty() {
        return Err("no journal; as in: redouble report journal.jsonl -o report.html".to_owned());
    }
    if asked.journals.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
        return Err("standard input (-) can be only one of the journals".to_owned());
    }
    if asked.journals.len() > usize::from(u16::MAX) {
        return Err(format!("{} journals; there can be {} at most", asked.journals.len(), u16::MAX));
    }
    Ok(asked)
}

/// All lines of a journal.
fn read(path: &Path) -> Result<Vec<Item>, String> {
    let mut items = Vec::new();
    let (name, result) = if path.as_os_str() == "-" {
        ("standard input".to_owned(), read_all(io::stdin().lock(), &mut items))
    } else {
        let opened = File::open(path);
        (path.display().to_string(), opened.and_then(|file| read_all(BufReader::new(file), &mut items)))
    };
    result.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => {
            format!("{name}, {error}; a journal as REDOUBLE JOURNAL EXPORT writes it was expected")
        }
        _ => format!("{name}: {}", plain(&error)),
    })?;
    Ok(items)
}

fn read_all(lines: impl BufRead, items: &mut Vec<Item>) -> io::Result<()> {
    read_journal(lines, |item| items.push(item))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(arguments: &[&str]) -> Result<Asked, String> {
        parse(&arguments.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn journals_and_flags_may_stand_in_any_order() {
        let asked = asked(&["a.jsonl", "--locks", "lock:*", "-", "-o", "-", "--text", "--not-locks", "x"]).unwrap();
        assert_eq!(asked.journals, [PathBuf::from("a.jsonl"), PathBuf::from("-")]);
        assert_eq!((asked.to, asked.is_text), (Some(PathBuf::from("-")), true));
        assert_eq!((asked.scope.locks, asked.scope.not_locks), (vec![b"lock:*".to_vec()], vec![b"x".to_vec()]));
    }

    #[test]
    fn what_nobody_can_make_sense_of_is_explained() {
        for (arguments, why) in [
            (&[][..], "no journal"),
            (&["a", "-o"], "-o takes the path of a file"),
            (&["a", "--html"], "there is no flag --html"),
            (&["-", "-"], "only one of the journals"),
        ] {
            let error = asked(arguments).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
