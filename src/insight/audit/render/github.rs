//! Findings as annotations of GitHub Actions: lines on standard output that the runner reads.

use super::phrase::{evidence_line, lock_place, repeated};
use super::world::{WorldFindings, by_harm};
use crate::base::text::{printable, time_of_day};
use crate::insight::audit::code::Severity;
use crate::insight::audit::finding::Finding;
use crate::insight::audit::finding_groups::grouped;

/// How many annotations of a kind GitHub shows for one step; it drops the rest.
const MAX_PER_KIND: usize = 10;

/// One line for each finding that is not allowed, the worst first, at most ten of a kind; those that are the same mistake have
/// one together.
pub fn annotations(worlds: &[WorldFindings]) -> String {
    let mut text = String::new();
    for severity in Severity::ALL.into_iter().rev() {
        let is_told = |finding: &Finding| finding.severity == severity && finding.allowed.is_none();
        let those = by_harm(worlds).into_iter().filter(|(_, finding)| is_told(finding));
        let groups = grouped(those, |(space, finding)| (finding.as_ref(), *space));
        for group in groups.iter().take(MAX_PER_KIND) {
            if let Some((space, finding)) = group.findings.first() {
                text.push_str(&annotation(space, finding, repeated(group)));
            }
        }
    }
    text
}

fn annotation(space: &str, finding: &Finding, repeated: Option<String>) -> String {
    let kind = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "notice",
    };
    let code = finding.code.name();
    let repeated = repeated.map(|repeated| format!(" ({repeated})")).unwrap_or_default();
    let mut lines = vec![printable(&finding.sentence).into_owned() + &repeated];
    for evidence in &finding.evidence {
        lines.push(format!("#{} {} {}", evidence.source.seq, time_of_day(evidence.source.at), evidence_line(evidence)));
    }
    lines.extend(finding.mark.as_ref().map(|mark| format!("Mark: {}", printable(mark))));
    lines.push(finding.instead().to_owned());
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
