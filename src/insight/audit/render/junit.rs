//! Findings as JUnit XML, which most CI systems show. Each kind of finding is a test case in every run, so that a CI
//! system can compare runs.

use std::fmt::Write;

use super::phrase::lock_place;
use super::text::report;
use super::world::{WorldFindings, all, fails};
use crate::base::text::is_unprintable;
use crate::insight::audit::code::{Code, Severity};
use crate::insight::audit::finding::Finding;

/// How many findings the message of one case names.
const MAX_NAMED: usize = 3;

/// A test suite that fails for findings at this level or above. Allowed findings are skipped tests; findings below the
/// level stand in the output of a passing test.
pub fn junit(worlds: &[WorldFindings], level: Severity) -> String {
    let mut cases = String::new();
    let (mut failures, mut skipped) = (0, 0);
    for &code in Code::ALL {
        let mut own: Vec<WorldFindings> = worlds.to_vec();
        own.iter_mut().for_each(|world| world.findings.retain(|finding| finding.code == code));
        let failing: Vec<_> = all(&own).filter(|(_, finding)| fails(finding, level)).collect();
        let is_silent = all(&own).next().is_none();
        let is_allowed = !is_silent && all(&own).all(|(_, finding)| finding.allowed.is_some());
        let name = escaped(&format!("{}: {}", code.name(), code.title()));
        put(&mut cases, format_args!("    <testcase classname=\"redouble.audit\" name=\"{name}\" time=\"0\""));
        if is_silent {
            cases.push_str("/>\n");
            continue;
        }
        cases.push_str(">\n");
        if !failing.is_empty() {
            failures += 1;
            let (message, text) = (escaped(&message(&failing)), lines(&report(&own)));
            let kind = code.name();
            put(&mut cases, format_args!("      <failure type=\"{kind}\" message=\"{message}\">{text}</failure>\n"));
        } else if is_allowed {
            skipped += 1;
            put(&mut cases, format_args!("      <skipped message=\"{}\"/>\n", escaped(&reasons(&own))));
        } else {
            put(&mut cases, format_args!("      <system-out>{}</system-out>\n", lines(&report(&own))));
        }
        cases.push_str("    </testcase>\n");
    }
    let tests = Code::ALL.len();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites name=\"redouble audit\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" time=\"0\">\n  \
         <testsuite name=\"redouble audit\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" \
         skipped=\"{skipped}\" time=\"0\">\n{cases}  </testsuite>\n</testsuites>\n"
    )
}

/// The first sentences of some findings.
fn message(findings: &[(&str, &std::sync::Arc<Finding>)]) -> String {
    let mut sentences: Vec<String> = findings
        .iter()
        .take(MAX_NAMED)
        .map(|(space, finding)| match space.is_empty() {
            true => finding.sentence.clone(),
            false => format!("{} (space {space})", finding.sentence),
        })
        .collect();
    if findings.len() > MAX_NAMED {
        sentences.push(format!("and {} more", findings.len() - MAX_NAMED));
    }
    sentences.join("; ")
}

/// The reasons of allowed findings.
fn reasons(worlds: &[WorldFindings]) -> String {
    let told = all(worlds).take(MAX_NAMED).map(|(space, finding)| {
        let reason = finding.allowed.as_deref().unwrap_or_default();
        format!("{}: {reason}", lock_place(space, finding))
    });
    told.collect::<Vec<_>>().join("; ")
}

fn put(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(what);
}

/// Text for an element, with its line breaks.
fn lines(text: &str) -> String {
    escaped(text).replace("&#10;", "\n")
}

/// Text for an attribute. XML cannot express most control characters.
fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            '&' => shown.push_str("&amp;"),
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '"' => shown.push_str("&quot;"),
            '\n' => shown.push_str("&#10;"),
            '\t' => shown.push_str("&#9;"),
            letter if is_unprintable(letter) => {
                shown.push_str(&format!("\\u{{{:x}}}", u32::from(letter)));
            }
            letter => shown.push(letter),
        }
    }
    shown
}
