//! Compares what the lock auditor finds in a suite's traffic with the known findings.
//!
//! `findings/LIBRARY.txt` lists the findings of a suite in the form of an allow list: `CODE GLOB REASON`. Every finding
//! needs a line, and every line a finding, unless its reason begins with `sometimes:`. The reason says why the finding
//! is right, or why it is nobody's mistake.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use redouble::internals::{Allowance, Scope, audit, auditor, command_table, read_journal};

use super::packages::folder;
use super::suites::Suite;
use super::support::process::ServerProcess;
use super::support::wire::{Frame, Wire};

/// Exports the journals of a suite's servers and returns their paths.
pub fn export(name: &str, servers: &[ServerProcess]) -> Result<Vec<PathBuf>, String> {
    let journals = folder().join("journals");
    fs::create_dir_all(&journals).map_err(|error| format!("{}: {error}", journals.display()))?;
    let mut paths = Vec::new();
    for (number, server) in (1..).zip(servers) {
        let path = journals.join(format!("{name}-{number}.jsonl"));
        let path_text = path.to_str().ok_or("a path that is no text")?;
        let mut wire = Wire::connect(server.address());
        let reply = wire.call(&["REDOUBLE", "JOURNAL", "EXPORT", path_text]);
        if !matches!(reply, Frame::Integer(_)) {
            return Err(format!("the journal cannot be had: {reply:?}"));
        }
        let info = wire.ask("REDOUBLE JOURNAL INFO");
        let forgotten = info.items().chunks(2).find(|pair| pair[0].text() == "forgotten").map(|pair| pair[1].integer());
        if forgotten != Some(0) {
            return Err(format!("the journal has forgotten {forgotten:?} commands"));
        }
        paths.push(path);
    }
    Ok(paths)
}

/// Returns a line for each finding in these journals that is not known, and for each known one that is missing. In front of
/// a real server, the journals do not tell everything: a warning may say what may have been, and findings may be missing.
pub fn complaints(suite: &Suite, journals: &[PathBuf], is_upstream: bool) -> Result<Vec<String>, String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/locks/findings/{}.txt", suite.library));
    let known = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let lines: Vec<&str> =
        known.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let known: Vec<Allowance> = lines
        .iter()
        .map(|line| Allowance::parse(line).map_err(|error| format!("{}: {error}", file.display())))
        .collect::<Result<_, _>>()?;
    let mut read = Vec::new();
    for (number, path) in (1..).zip(journals) {
        let text = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut items = Vec::new();
        read_journal(BufReader::new(File::open(path).map_err(text)?), |item| items.push(item)).map_err(text)?;
        read.push((number, items));
    }
    let audited = audit(read, auditor(Scope::default(), command_table()));
    let mut complaints = Vec::new();
    let mut was_found = vec![false; known.len()];
    for finding in audited.findings() {
        match known.iter().position(|known| known.covers(finding)) {
            Some(at) => was_found[at] = true,
            None if is_upstream && finding.severity.name() != "error" => {}
            None => complaints.push(format!(
                "{} {} {} ({} times): {}",
                finding.severity.name(),
                finding.code.name(),
                String::from_utf8_lossy(&finding.key),
                finding.times,
                finding.sentence
            )),
        }
    }
    for ((line, known), was_found) in lines.iter().zip(&known).zip(was_found) {
        if !is_upstream && !was_found && !known.reason.starts_with("sometimes:") {
            complaints.push(format!("not found any more: {line}"));
        }
    }
    Ok(complaints)
}
