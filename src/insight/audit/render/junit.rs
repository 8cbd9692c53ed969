//! Findings as JUnit XML, which most CI systems show. Each kind of finding is a test case in every run, so that a CI
//! system can compare runs; and so is each mark, which mostly names a test.

use std::collections::HashSet;
use std::fmt::Write;

use super::phrase::lock_place;
use super::text::report;
use super::world::{WorldFindings, all, by_harm, fails};
use crate::base::text::is_unprintable;
use crate::insight::audit::code::{Code, Severity};
use crate::insight::audit::finding::Finding;

/// How many findings the message of one case names.
const MAX_NAMED: usize = 3;

/// Test suites that fail for findings at this level or above. Allowed findings are skipped tests; findings below the level
/// stand in the output of a passing test. In the first suite, each code is a test. If there are marks, each of them is a
/// test of a second suite, in which the findings are that came after it.
pub fn junit(worlds: &[WorldFindings], level: Severity) -> String {
    let mut codes = Suite::default();
    for &code in Code::ALL {
        let own = only(worlds, |finding| finding.code == code && finding.mark.is_none());
        codes.put("redouble.audit", &format!("{}: {}", code.name(), code.title()), &own, level);
    }
    let mut suites = vec![("redouble audit", codes)];
    let mut seen = HashSet::new();
    let mut marks: Vec<&str> = worlds.iter().flat_map(|world| world.marks.iter().map(|mark| &**mark)).collect();
    marks.retain(|mark| seen.insert(*mark));
    if !marks.is_empty() {
        let mut tests = Suite::default();
        for mark in marks {
            let own = only(worlds, |finding| finding.mark.as_deref() == Some(mark));
            tests.put("redouble.audit.marks", mark, &own, level);
        }
        suites.push(("redouble audit by mark", tests));
    }
    let sum = |count: fn(&Suite) -> usize| suites.iter().map(|(_, suite)| count(suite)).sum::<usize>();
    let (tests, failures) = (sum(|suite| suite.tests), sum(|suite| suite.failures));
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites name=\"redouble audit\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" time=\"0\">\n"
    );
    for (name, Suite { cases, tests, failures, skipped }) in suites {
        put(
            &mut text,
            format_args!(
                "  <testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" \
                 skipped=\"{skipped}\" time=\"0\">\n{cases}  </testsuite>\n"
            ),
        );
    }
    text + "</testsuites>\n"
}

/// The worlds with some of their findings.
fn only(worlds: &[WorldFindings], is_meant: impl Fn(&Finding) -> bool) -> Vec<WorldFindings> {
    let mut own: Vec<WorldFindings> = worlds.to_vec();
    own.iter_mut().for_each(|world| world.findings.retain(|finding| is_meant(finding)));
    own
}

/// The tests of a suite.
#[derive(Default)]
struct Suite {
    cases: String,
    tests: usize,
    failures: usize,
    skipped: usize,
}

impl Suite {
    /// Adds a test with its findings.
    fn put(&mut self, class: &str, name: &str, own: &[WorldFindings], level: Severity) {
        self.tests += 1;
        let cases = &mut self.cases;
        let failing: Vec<_> = by_harm(own).into_iter().filter(|(_, finding)| fails(finding, level)).collect();
        let is_silent = all(own).next().is_none();
        let is_allowed = !is_silent && all(own).all(|(_, finding)| finding.allowed.is_some());
        let name = escaped(name);
        put(cases, format_args!("    <testcase classname=\"{class}\" name=\"{name}\" time=\"0\""));
        if is_silent {
            return cases.push_str("/>\n");
        }
        cases.push_str(">\n");
        if !failing.is_empty() {
            self.failures += 1;
            let (message, text) = (escaped(&message(&failing)), lines(&report(own)));
            let mut kinds: Vec<&str> = failing.iter().map(|(_, finding)| finding.code.name()).collect();
            kinds.dedup();
            let kind = kinds.join(" ");
            put(cases, format_args!("      <failure type=\"{kind}\" message=\"{message}\">{text}</failure>\n"));
        } else if is_allowed {
            self.skipped += 1;
            put(cases, format_args!("      <skipped message=\"{}\"/>\n", escaped(&reasons(own))));
        } else {
            put(cases, format_args!("      <system-out>{}</system-out>\n", lines(&report(own))));
        }
        cases.push_str("    </testcase>\n");
    }
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
