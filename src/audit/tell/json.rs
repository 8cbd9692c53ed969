//! Findings for programs: a line of JSON for each.

use serde::Serialize;

use super::PAGE;
use crate::audit::finding::Finding;

#[derive(Serialize)]
struct Line<'a> {
    code: &'a str,
    severity: &'a str,
    space: &'a str,
    server: u16,
    db: u32,
    key: String,
    sentence: &'a str,
    instead: &'a str,
    page: String,
    times: u64,
    seq: u64,
    last_seq: u64,
    time_us: i64,
    client: u64,
    allowed: Option<&'a str>,
    evidence: Vec<LineOfEvidence<'a>>,
}

#[derive(Serialize)]
struct LineOfEvidence<'a> {
    server: u16,
    seq: u64,
    time_us: i64,
    real_time_us: i64,
    client: u64,
    name: &'a str,
    command: &'a str,
    what: &'a str,
}

/// A finding as an object on one line, with the line's end. Fields are called as in an exported journal.
pub fn json_line(space: &str, finding: &Finding) -> String {
    let evidence = finding.evidence.iter().map(|evidence| LineOfEvidence {
        server: evidence.mark.server,
        seq: evidence.mark.seq,
        time_us: evidence.mark.at,
        real_time_us: evidence.mark.real,
        client: evidence.mark.client,
        name: &evidence.mark.name,
        command: &evidence.mark.line,
        what: &evidence.what,
    });
    let line = Line {
        code: finding.code.name(),
        severity: finding.severity.name(),
        space,
        server: finding.server,
        db: finding.db,
        key: String::from_utf8_lossy(&finding.key).into_owned(),
        sentence: &finding.sentence,
        instead: finding.code.instead(),
        page: format!("{PAGE}#{}", finding.code.name()),
        times: finding.times,
        seq: finding.seq,
        last_seq: finding.last_seq,
        time_us: finding.at,
        client: finding.culprit,
        allowed: finding.allowed.as_deref(),
        evidence: evidence.collect(),
    };
    // Nothing in a finding can fail to be written.
    serde_json::to_string(&line).unwrap_or_default() + "\n"
}
