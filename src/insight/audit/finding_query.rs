//! Selects findings.

use super::code::{Code, Severity};
use super::finding::Finding;
use crate::base::glob;

/// A query for findings. The empty query selects all that are not allowed.
#[derive(Clone, Debug, Default)]
pub struct FindingQuery {
    /// Only locks whose key matches this glob.
    pub key: Option<Vec<u8>>,
    pub code: Option<Code>,
    /// Only this severity and worse.
    pub severity: Option<Severity>,
    /// Only what was seen after this number of its server's journal, for the first time or again.
    pub since: Option<u64>,
    /// Only what came after a mark whose text matches this glob.
    pub mark: Option<Vec<u8>>,
    /// Also allowed findings.
    pub allowed: bool,
}

impl FindingQuery {
    pub fn fits(&self, finding: &Finding) -> bool {
        (self.allowed || finding.allowed.is_none())
            && self.code.is_none_or(|code| finding.code == code)
            && self.severity.is_none_or(|severity| finding.severity >= severity)
            && self.since.is_none_or(|since| finding.last_seq > since)
            && self.mark.as_ref().is_none_or(|mark| {
                finding.mark.as_ref().is_some_and(|text| glob::matches(mark, text.as_bytes(), false))
            })
            && self.key.as_ref().is_none_or(|key| glob::matches(key, &finding.key, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(severity: Severity) -> Finding {
        Finding {
            code: Code::NoExpiry,
            severity,
            server: 1,
            db: 0,
            key: b"lock:a"[..].into(),
            sentence: String::new(),
            evidence: Vec::new(),
            times: 2,
            seq: 5,
            last_seq: 9,
            at: 0,
            culprit: 0,
            mark: None,
            allowed: None,
        }
    }

    #[test]
    fn a_severity_stands_for_all_that_is_worse() {
        for (asked, found) in [(Severity::Note, 3), (Severity::Warning, 2), (Severity::Error, 1)] {
            let query = FindingQuery { severity: Some(asked), ..FindingQuery::default() };
            let fitting = Severity::ALL.into_iter().filter(|severity| query.fits(&finding(*severity)));
            assert_eq!(fitting.count(), found, "{}", asked.name());
        }
    }

    #[test]
    fn what_was_seen_again_is_new() {
        let since = |seq| FindingQuery { since: Some(seq), ..FindingQuery::default() };
        assert!(since(8).fits(&finding(Severity::Error)));
        assert!(!since(9).fits(&finding(Severity::Error)));
    }
}
