//! Findings as SARIF 2.1.0, the format of code scanners.

use serde_json::{Value, json};

use super::phrase::{date_and_time, evidence_line, lock_place, readable};
use super::world::{WorldFindings, by_harm};
use crate::base::text::printable;
use crate::insight::audit::code::{Code, Severity};
use crate::insight::audit::finding::{Finding, JournalRef};
use crate::insight::audit::key_family::key_glob;

/// Where a line of a journal can be read.
pub struct Artifact {
    /// The file, relative to the working directory.
    pub uri: String,
    /// The line in the file, from 1, if it is known.
    pub line: Option<u64>,
}

/// A log of one run with all findings; allowed ones are suppressed. `artifact` finds the line of a journal by space,
/// server, number and real time.
pub fn sarif(worlds: &[WorldFindings], artifact: impl Fn(&str, u16, u64, i64) -> Option<Artifact>) -> String {
    let rules: Vec<Value> = Code::ALL.iter().map(|code| rule(*code)).collect();
    let results: Vec<Value> =
        by_harm(worlds).into_iter().map(|(space, finding)| result(space, finding, &artifact)).collect();
    let missed: u64 = worlds.iter().map(|world| world.missed).sum();
    let unlisted: u64 = worlds.iter().map(|world| world.unlisted).sum();
    let mut notices = Vec::new();
    if missed > 0 {
        notices.push(notice(format!("{missed} entries had fallen out of the journal before they were looked at.")));
    }
    let forgotten: u64 = worlds.iter().map(|world| world.forgotten).sum();
    if forgotten > 0 {
        notices.push(notice(format!("{forgotten} locks were forgotten for want of memory; findings may be missing.")));
    }
    if unlisted > 0 {
        notices.push(notice(format!("There was no room for {unlisted} more findings.")));
    }
    let mut log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "redouble audit",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "invocations": [{ "executionSuccessful": true, "toolExecutionNotifications": notices }],
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    // The home of the tool, if the package says where that is.
    let home = [env!("CARGO_PKG_HOMEPAGE"), env!("CARGO_PKG_REPOSITORY")].into_iter().find(|url| !url.is_empty());
    if let Some(home) = home {
        log["runs"][0]["tool"]["driver"]["informationUri"] = home.into();
    }
    // All values can be written as JSON.
    serde_json::to_string_pretty(&log).unwrap_or_default() + "\n"
}

fn notice(text: String) -> Value {
    json!({ "level": "warning", "message": { "text": text } })
}

fn rule(code: Code) -> Value {
    let mut rule = json!({
        "id": code.name(),
        "shortDescription": { "text": format!("{}.", code.title()) },
        "fullDescription": { "text": code.what_is_wrong() },
        "help": {
            "text": format!("{}\n\n{}", code.instead(), code.plain_explanation()),
            "markdown": format!("**{}**\n\n{}\n", code.instead(), code.portable_explanation()),
        },
        "defaultConfiguration": { "level": level(code.severity()) },
        "properties": { "tags": ["concurrency", "lock", "redis"] },
    });
    if let Some(url) = code.explanation_url() {
        rule["helpUri"] = url.into();
    }
    rule
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

fn result(space: &str, finding: &Finding, artifact: &impl Fn(&str, u16, u64, i64) -> Option<Artifact>) -> Value {
    let rule = Code::ALL.iter().position(|code| *code == finding.code).unwrap_or_default();
    let steps: Vec<Value> = finding
        .evidence
        .iter()
        .enumerate()
        .map(|(order, evidence)| {
            let source = &evidence.source;
            let place = location(space, finding, (source.server, source.seq, source.real), artifact);
            json!({
                "location": with_message(place, &evidence_line(evidence)),
                "executionOrder": order + 1,
                "executionTimeUtc": date_and_time(source.at),
                "properties": about(source),
            })
        })
        .collect();
    let real = finding.evidence.last().map_or(i64::MAX, |evidence| evidence.source.real);
    let mut result = json!({
        "ruleId": finding.code.name(),
        "ruleIndex": rule,
        "level": level(finding.severity),
        "message": { "text": format!("{} {}", told(space, finding), finding.instead()) },
        "locations": [location(space, finding, (finding.server, finding.seq, real), artifact)],
        "occurrenceCount": finding.times.min(i32::MAX as u64),
        "partialFingerprints": { "findingAndLock/v2": fingerprint(space, finding) },
        "suppressions": suppressions(finding),
        "properties": {
            "space": space,
            "server": finding.server,
            "database": finding.db,
            "seq": finding.seq,
            "lastSeq": finding.last_seq,
        },
    });
    if let Some(mark) = &finding.mark {
        result["properties"]["mark"] = json!(&**mark);
    }
    if !steps.is_empty() {
        result["codeFlows"] = json!([{ "threadFlows": [{ "locations": steps }] }]);
    }
    result
}

/// The sentence, with the space if it is not the root.
fn told(space: &str, finding: &Finding) -> String {
    let sentence = printable(&finding.sentence);
    match space.is_empty() {
        true => format!("{sentence}."),
        false => format!("{sentence} (space {}).", printable(space)),
    }
}

fn suppressions(finding: &Finding) -> Value {
    match &finding.allowed {
        Some(reason) => json!([{ "kind": "external", "status": "accepted", "justification": reason }]),
        None => json!([]),
    }
}

fn about(source: &JournalRef) -> Value {
    let mut about = json!({
        "server": source.server,
        "seq": source.seq,
        "client": source.client,
        "name": &*source.name,
        "command": &*source.line,
    });
    if let Some(process) = &source.process {
        about["pid"] = process.process.pid.into();
        about["program"] = (*process.process.program).into();
    }
    about
}

/// The part of a finding that stays the same from run to run.
fn fingerprint(space: &str, finding: &Finding) -> String {
    // Numbers and random parts of keys differ in every run.
    let family = key_glob(&finding.key);
    format!("{}/{}/{}/{}/{}", finding.code.name(), space, finding.server, finding.db, family.escape_ascii())
}

fn location(
    space: &str,
    finding: &Finding,
    (server, seq, real): (u16, u64, i64),
    artifact: &impl Fn(&str, u16, u64, i64) -> Option<Artifact>,
) -> Value {
    let mut location = json!({
        "logicalLocations": [{
            "name": readable(&finding.key),
            "fullyQualifiedName": lock_place(space, finding),
            "kind": "resource",
        }],
    });
    if let Some(Artifact { uri, line }) = artifact(space, server, seq, real) {
        let mut physical = json!({ "artifactLocation": { "uri": uri } });
        if let Some(line) = line {
            physical["region"] = json!({ "startLine": line });
        }
        location["physicalLocation"] = physical;
    }
    location
}

fn with_message(mut location: Value, text: &str) -> Value {
    location["message"] = json!({ "text": text });
    location
}
