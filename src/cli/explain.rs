//! `redouble explain`: the sections of the page about findings, for those who do not have the page.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use super::audit_result::print;
use super::command_line::JournalFiles;
use super::report::read;
use super::subcommand::Subcommand;
use super::terminal::Screen;
use super::{fail, suggestions};
use crate::base::error::plain;
use crate::base::markdown;
use crate::base::terminal::wrap;
use crate::commands;
use crate::insight::audit::{Code, audit, auditor, groups, notation};
use crate::powers::Item;

/// How the examples of every explanation are headed.
const NOTATION: &str = "In the examples:";

/// Explains codes, or lists all; returns the status. Nothing is printed if one of the words is no code.
pub(super) fn explain(words: &[String]) -> ExitCode {
    let codes: Result<Vec<Code>, String> = words.iter().map(|word| code_of(word)).collect();
    let screen = Screen::stdout();
    let text = match codes {
        Ok(codes) if codes.is_empty() => list(screen),
        Ok(codes) => explanations(&codes, screen),
        Err(reason) => return fail(Subcommand::Explain, &reason),
    };
    told(&text)
}

/// Explains why a key is taken for a lock, or not, in journals; returns the status.
pub(super) fn explain_key(key: &[u8], JournalFiles { options, files }: JournalFiles) -> ExitCode {
    let journals: Result<Vec<(u16, Vec<Item>)>, String> =
        (1..).zip(&files).map(|(number, path)| Ok((number, read(path)?))).collect();
    let scope = options.audit.scope(&[]);
    match journals {
        Ok(journals) => {
            let auditor = audit(journals, auditor(scope, commands::table_of_every_profile()));
            let texts: Vec<String> = auditor.explain_key(key).iter().map(ToString::to_string).collect();
            told(&texts.join("\n"))
        }
        Err(reason) => fail(Subcommand::Explain, &reason),
    }
}

/// Prints a text; returns the status.
fn told(text: &str) -> ExitCode {
    match print(text.as_bytes()) {
        // A reader that has gone, such as `head`, has read enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            fail(Subcommand::Explain, &format!("standard output: {}", plain(&error)))
        }
        _ => ExitCode::SUCCESS,
    }
}

/// The code that a word names, also as in Rust (`TwoHolders`).
fn code_of(word: &str) -> Result<Code, String> {
    let letters = |name: &str| name.replace(['-', '_'], "").to_ascii_lowercase();
    Code::ALL.iter().copied().find(|code| letters(code.name()) == letters(word)).ok_or_else(|| {
        let hint = match suggestions::code_like(word) {
            Some(name) => format!("did you mean {name}?"),
            None if Path::new(word).is_file() => format!("redouble explain --key KEY {word} explains a key"),
            None => "redouble explain lists all".to_owned(),
        };
        format!("there is no finding '{word}'; {hint}")
    })
}

/// A line for each code, in groups.
fn list(screen: Screen) -> String {
    let ink = screen.ink;
    let width = Code::ALL.iter().map(|code| code.name().len()).max().unwrap_or(0);
    let mut text = String::new();
    for (title, codes) in groups() {
        text.push_str(&format!("{}\n", ink.bold(title)));
        for code in codes {
            let severity = code.severity().inked(ink, &format!("{:<7}", code.severity().name()));
            text.push_str(&format!("  {:<width$}  {severity}  {}\n", code.name(), code.title()));
        }
        text.push('\n');
    }
    text + "redouble explain CODE tells more; redouble explain --key KEY journal.jsonl, why a key is taken for a lock.\n"
}

fn explanations(codes: &[Code], screen: Screen) -> String {
    let (ink, width) = (screen.ink, screen.page_width());
    let mut text = String::new();
    for code in codes {
        let severity = code.severity().inked(ink, code.severity().name());
        text.push_str(&format!("{} ({severity})\n{}.\n\n", ink.bold(code.name()), code.title()));
        text.push_str(&markdown::rendered(code.explanation(), ink, width));
        text.push('\n');
    }
    text.push_str(&format!("{}\n", ink.bold(NOTATION)));
    for (sign, meaning) in notation() {
        let line = format!("{sign}: {meaning}").replace("\\|", "|");
        let line = markdown::rendered(&line, ink, usize::MAX);
        wrap(line.trim_end(), "  ", "      ", width).iter().for_each(|line| text.push_str(&format!("{line}\n")));
    }
    text
}
