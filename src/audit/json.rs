//! A finding as one JSON object.

use serde::Serialize;

use super::finding::{Evidence, Finding};

/// Bytes that are no UTF-8 are shown escaped, and stand in a field of their own in hexadecimal digits.
#[derive(Serialize)]
struct Told<'a> {
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
    times: u64,
    seq: u64,
    last_seq: u64,
    time_us: i64,
    culprit: u64,
    allowed: Option<&'a str>,
    evidence: Vec<Shown<'a>>,
}

#[derive(Serialize)]
struct Shown<'a> {
    seq: u64,
    server: u16,
    client: u64,
    name: &'a str,
    time_us: i64,
    command: &'a str,
    what: &'a str,
}

impl Finding {
    /// The page that tells of this kind of finding.
    pub fn docs(&self) -> String {
        format!("docs/findings.md#{}", self.code.name())
    }

    /// As one JSON object.
    pub fn json(&self) -> Vec<u8> {
        let text = std::str::from_utf8(&self.key);
        let told = Told {
            code: self.code.name(),
            severity: self.severity.name(),
            key: text.map_or_else(|_| self.key.escape_ascii().to_string(), str::to_owned),
            key_hex: text.is_err().then(|| self.key.iter().map(|byte| format!("{byte:02x}")).collect()),
            db: self.db,
            server: self.server,
            sentence: &self.sentence,
            instead: self.code.instead(),
            docs: self.docs(),
            times: self.times,
            seq: self.seq,
            last_seq: self.last_seq,
            time_us: self.at,
            culprit: self.culprit,
            allowed: self.allowed.as_deref(),
            evidence: self.evidence.iter().map(Shown::new).collect(),
        };
        // Nothing in there is anything that JSON cannot say.
        serde_json::to_vec(&told).unwrap_or_default()
    }
}

impl<'a> Shown<'a> {
    fn new(evidence: &'a Evidence) -> Self {
        let mark = &evidence.mark;
        Self {
            seq: mark.seq,
            server: mark.server,
            client: mark.client,
            name: &mark.name,
            time_us: mark.at,
            command: &mark.line,
            what: &evidence.what,
        }
    }
}
