//! Findings as annotations of GitHub Actions: lines on standard output that the runner reads.

use super::phrase::{evidence_line, lock_place};
use super::world::{WorldFindings, all};
use crate::base::text::{printable, time_of_day};
use crate::insight::audit::code::Severity;
use crate::insight::audit::finding::Finding;

/// How many annotations of a kind GitHub shows for one step; it drops the rest.
const MAX_PER_KIND: usize = 10;

/// One line for each finding that is not allowed, the worst first, at most ten of a kind.
pub fn annotations(worlds: &[WorldFindings]) -> String {
    let mut text = String::new();
    for severity in Severity::ALL.into_iter().rev() {
        let those = all(worlds).filter(|(_, finding)| finding.severity == severity && finding.allowed.is_none());
        for (space, finding) in those.take(MAX_PER_KIND) {
            text.push_str(&annotation(space, finding));
        }
    }
    text
}

fn annotation(space: &str, finding: &Finding) -> String {
    let kind = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "notice",
    };
    let code = finding.code.name();
    let mut lines = vec![printable(&finding.sentence).into_owned()];
    for evidence in &finding.evidence {
        lines.push(format!("#{} {} {}", evidence.source.seq, time_of_day(evidence.source.at), evidence_line(evidence)));
    }
    lines.extend(finding.mark.as_ref().map(|mark| format!("Mark: {}", printable(mark))));
    lines.push(finding.code.instead().to_owned());
    lines.push(format!("More: {}", finding.docs()));
    let title = format!("{code}: {}", lock_place(space, finding));
    format!("::{kind} title={}::{}\n", property(&title), message(&lines.join("\n")))
}

/// Escapes what would end a message.
fn message(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes what would end the value of a property.
fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}
