//! A finding as one JSON object.

use serde::Serialize;

use super::finding::{Evidence, Finding};
use crate::base::text::{hex, is_unprintable, utf8_or_escaped};

/// A key that is no UTF-8 is escaped in `key`, and hexadecimal in `key_hex`.
#[derive(Serialize)]
struct FindingJson<'a> {
    code: &'a str,
    severity: &'a str,
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
    db: u32,
    server: u16,
    sentence: &'a str,
    instead: &'a str,
    docs: String,
    why: String,
    times: u64,
    seq: u64,
    last_seq: u64,
    time_us: i64,
    culprit: u64,
    /// Absent without marks.
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<&'a str>,
    allowed: Option<&'a str>,
    evidence: Vec<EvidenceJson<'a>>,
}

#[derive(Serialize)]
struct EvidenceJson<'a> {
    seq: u64,
    server: u16,
    client: u64,
    name: &'a str,
    /// Absent if the process is not known, and `program` if it is the server's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<&'a str>,
    /// Absent without a deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
    time_us: i64,
    command: &'a str,
    what: &'a str,
}

impl Finding {
    /// The command that explains this kind of finding: `redouble explain two-holders`.
    pub fn docs(&self) -> String {
        self.code.explain_command()
    }

    /// As one JSON object.
    pub fn json(&self) -> Vec<u8> {
        let text = std::str::from_utf8(&self.key);
        let object = FindingJson {
            code: self.code.name(),
            severity: self.severity.name(),
            key: utf8_or_escaped(&self.key).into_owned(),
            key_hex: text.is_err().then(|| hex(&self.key)),
            db: self.db,
            server: self.server,
            sentence: &self.sentence,
            instead: self.instead(),
            docs: self.docs(),
            why: self.why(),
            times: self.times,
            seq: self.seq,
            last_seq: self.last_seq,
            time_us: self.at,
            culprit: self.culprit,
            mark: self.mark.as_deref(),
            allowed: self.allowed.as_deref(),
            evidence: self.evidence.iter().map(EvidenceJson::new).collect(),
        };
        // All fields can be written as JSON.
        let text = serde_json::to_string(&object).unwrap_or_default();
        without_unprintable(text).into_bytes()
    }
}

/// JSON with all unprintable characters escaped, also those that JSON permits: it is printed to terminals, too.
fn without_unprintable(text: String) -> String {
    if !text.contains(is_unprintable) {
        return text;
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match is_unprintable(letter) {
            // All of these are single UTF-16 units.
            true => shown.push_str(&format!("\\u{:04x}", u32::from(letter))),
            false => shown.push(letter),
        }
    }
    shown
}

impl<'a> EvidenceJson<'a> {
    fn new(evidence: &'a Evidence) -> Self {
        let source = &evidence.source;
        Self {
            seq: source.seq,
            server: source.server,
            client: source.client,
            name: &source.name,
            pid: source.process.as_ref().map(|process| process.process.pid),
            program: source.process.as_ref().map(|process| &*process.process.program).filter(|text| !text.is_empty()),
            node: source.node.as_deref(),
            time_us: source.at,
            command: &source.line,
            what: &evidence.what,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_means_the_same() {
        let text = serde_json::to_string("a\u{9b}31m\u{202e}\u{7f}\u{2028}\x1bä").unwrap();
        let shown = without_unprintable(text);
        assert_eq!(shown, "\"a\\u009b31m\\u202e\\u007f\\u2028\\u001bä\"");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), "a\u{9b}31m\u{202e}\u{7f}\u{2028}\x1bä");
    }
}
