//! Findings as annotations of GitHub Actions: lines on standard output that its runner picks up.

use super::story::shown;
use super::{Judged, PAGE, all, place_of, printable, time_of_day};
use crate::insight::audit::code::Severity;
use crate::insight::audit::finding::Finding;

/// How many annotations of a kind GitHub shows for one step; it drops the rest.
const MOST: usize = 10;

/// One line for each finding that is not allowed, the worst first; at most ten of a kind, because there is no room for
/// more.
pub fn annotations(worlds: &[Judged]) -> String {
    let mut text = String::new();
    for severity in Severity::ALL.into_iter().rev() {
        let those = all(worlds).filter(|(_, finding)| finding.severity == severity && finding.allowed.is_none());
        for (space, finding) in those.take(MOST) {
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
        lines.push(format!("#{} {} {}", evidence.mark.seq, time_of_day(evidence.mark.at), shown(evidence)));
    }
    lines.push(finding.code.instead().to_owned());
    lines.push(format!("See {PAGE}#{code}"));
    let title = format!("{code}: {}", place_of(space, finding));
    format!("::{kind} title={}::{}\n", property(&title), message(&lines.join("\n")))
}

/// A message with what would end it escaped.
fn message(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// The value of a property, which a colon or a comma would end.
fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}
