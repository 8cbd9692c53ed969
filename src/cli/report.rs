//! `redouble report`: journals in files, as a page with a picture or as text.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::command_line::JournalFiles;
use super::front_files::{self, FrontFiles};
use super::outputs::{self, prepare};
use super::subcommand::Subcommand;
use super::terminal::Screen;
use super::{fail, print_line, print_note};
use crate::base::error::plain;
use crate::base::text::counted;
use crate::commands;
use crate::insight::audit::{Auditor, audit, audit_fronts, auditor};
use crate::insight::report;
use crate::powers::{Item, read_journal};

/// Where the page goes by default.
const DEFAULT_PAGE: &str = "report.html";

/// Writes a report; returns the status.
pub(super) fn report(journals: JournalFiles) -> ExitCode {
    match try_report(journals) {
        Ok(status) => status,
        Err(reason) => fail(Subcommand::Report, &reason),
    }
}

fn try_report(JournalFiles { options, files }: JournalFiles) -> Result<ExitCode, String> {
    let output = options.report_html.clone().or_else(|| options.output.clone());
    let scope = options.audit.scope(&options.audit.read_allowed()?);
    let auditor: Auditor = auditor(scope, commands::table_of_every_profile()).with_timeline();
    let (journals, auditor) = match front_files::are_of_one_server(&options, &files)? {
        true => {
            let FrontFiles { fronts, notes, .. } = front_files::read(&files, options.clock_error)?;
            notes.iter().for_each(|note| print_note(Subcommand::Report, note));
            let auditor = audit_fronts(&fronts, auditor);
            (vec![(1, fronts.lines.into_iter().map(|line| line.item).collect())], auditor)
        }
        false => {
            let mut journals: Vec<(u16, Vec<Item>)> = Vec::new();
            for (number, path) in (1..).zip(&files) {
                journals.push((number, read(path)?));
            }
            let auditor = audit(journals.clone(), auditor);
            (journals, auditor)
        }
    };
    let is_printed = options.text && output.is_none() || output.as_deref() == Some(Path::new("-"));
    let is_coloured = is_printed && Screen::stdout().ink.0;
    let report = match options.text {
        true => report::text(&journals, &auditor, is_coloured),
        false => report::html(&journals, &auditor),
    };
    if is_printed {
        let printed = io::stdout().write_all(report.as_bytes());
        // A reader that has gone, such as `head`, has read enough.
        let printed =
            printed.or_else(|error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) });
        printed.map_err(|error| format!("standard output: {}", plain(&error)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let path = output.unwrap_or_else(|| PathBuf::from(DEFAULT_PAGE));
    let mut absolute = path.clone();
    prepare(&mut absolute)?;
    outputs::write(&absolute, report.as_bytes())?;
    let count = auditor.findings().iter().filter(|finding| finding.allowed.is_none()).count();
    Ok(print_line(&format!("{} ({})", path.display(), counted(count as u64, "finding"))))
}

/// All entries of a journal.
pub(super) fn read(path: &Path) -> Result<Vec<Item>, String> {
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
