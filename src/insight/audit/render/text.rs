//! Findings as text for people: lock by lock, the worst first.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::phrase::{evidence_line, lock_place, repeated};
use super::world::{WorldFindings, all};
use crate::base::terminal::{Ink, wrap};
use crate::base::text::{counted, printable, time_of_day};
use crate::insight::audit::code::{Code, Severity};
use crate::insight::audit::explanation::Doubts;
use crate::insight::audit::finding::Finding;
use crate::insight::audit::finding_groups::{FindingGroup, grouped};

/// How many findings with the same code are described in full, each for another family of keys, and how many of the
/// rest are named.
const MAX_DESCRIBED: usize = 5;
const MAX_NAMED: usize = 3;

/// Describes findings: for each lock what was done wrong, the commands that prove it, and what to do instead. The
/// locks with the worst findings come first; allowed findings are named, with the reason. Lines without colours, each
/// with its end; none if there are no findings.
pub fn describe_findings(findings: &[Arc<Finding>]) -> String {
    report(&[WorldFindings { findings: findings.to_vec(), ..WorldFindings::default() }])
}

/// The same for several worlds.
pub fn report(worlds: &[WorldFindings]) -> String {
    report_for_terminal(worlds, Ink(false), usize::MAX)
}

/// The same for a terminal: with emphasis, and in lines of at most so many columns.
pub fn report_for_terminal(worlds: &[WorldFindings], ink: Ink, width: usize) -> String {
    let mut text = Text { ink, width, lines: String::new() };
    let (allowed, open): (Vec<_>, Vec<_>) = all(worlds).partition(|(_, finding)| finding.allowed.is_some());
    let mut told: HashMap<Code, HashSet<(Vec<u8>, &str)>> = HashMap::new();
    let mut rest: Vec<Placed<'_>> = Vec::new();
    for groups in by_lock(grouped(open, |(space, finding)| (finding.as_ref(), *space))) {
        let mut named: Option<Placed<'_>> = None;
        for group in groups {
            let Some(&(space, finding)) = group.findings.first() else { continue };
            let kinds = told.entry(finding.code).or_default();
            if kinds.len() >= MAX_DESCRIBED || !kinds.insert((key_family(&group.keys).to_vec(), finding.instead())) {
                rest.extend(group.findings);
                continue;
            }
            if named.replace((space, finding)).is_none() {
                text.put("", &ink.bold(&lock_place(space, finding)));
            }
            text.describe(finding, repeated(&group));
        }
        if let Some((_, finding)) = named {
            text.tell_doubts(finding);
        }
    }
    text.name_rest(&rest);
    for (space, finding) in allowed {
        let (code, place) = (finding.code.name(), lock_place(space, finding));
        let reason = printable(finding.allowed.as_deref().unwrap_or_default());
        text.put("", &format!("allowed: {code}, {place}: {reason}"));
    }
    text.lines
}

/// A finding with its space.
type Placed<'a> = (&'a str, &'a Arc<Finding>);

/// One line with the number of findings and locks.
pub fn summary_line(worlds: &[WorldFindings]) -> String {
    let locks: u64 = worlds.iter().map(|world| world.locks).sum();
    let open: Vec<_> = all(worlds).filter(|(_, finding)| finding.allowed.is_none()).collect();
    let allowed = all(worlds).count() - open.len();
    let mut watched = counted(locks, "lock") + " watched";
    if allowed > 0 {
        watched.push_str(&format!("; {} allowed", counted(allowed as u64, "finding")));
    }
    if open.is_empty() {
        return match locks {
            0 => "no lock was misused, but none was seen either: --locks GLOB says which keys are locks".to_owned(),
            _ => format!("no lock was misused ({watched})"),
        };
    }
    let locks: HashSet<_> = open.iter().map(lock_of).collect();
    format!("{} in {} ({watched})", severities(&open), counted(locks.len() as u64, "lock"))
}

/// "2 errors and 1 warning".
fn severities(findings: &[(&str, &Arc<Finding>)]) -> String {
    let counts = Severity::ALL.into_iter().rev().filter_map(|severity| {
        let count = findings.iter().filter(|(_, finding)| finding.severity == severity).count();
        (count > 0).then(|| counted(count as u64, severity.name()))
    });
    let counts: Vec<String> = counts.collect();
    match counts.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => counts.concat(),
    }
}

/// Puts the mistakes about one lock side by side, where the worst of them stands.
fn by_lock<'a>(groups: Vec<FindingGroup<Placed<'a>>>) -> Vec<Vec<FindingGroup<Placed<'a>>>> {
    let mut locks: Vec<Vec<FindingGroup<Placed<'a>>>> = Vec::new();
    let mut known = HashMap::new();
    for group in groups {
        let Some(lock) = group.findings.first().map(lock_of) else { continue };
        let place = *known.entry(lock).or_insert_with(|| {
            locks.push(Vec::new());
            locks.len() - 1
        });
        locks[place].push(group);
    }
    locks
}

/// The lock that a finding is about.
fn lock_of<'a>((space, finding): &Placed<'a>) -> (&'a str, u16, u32, &'a [u8]) {
    (space, finding.server, finding.db, &finding.key)
}

/// The common part of keys that differ in a number or a name at the end. Such locks share their mistakes.
fn key_family(key: &[u8]) -> &[u8] {
    match key.iter().rposition(|byte| b":/.|".contains(byte)) {
        Some(at) => &key[..=at],
        None => &key[..key.len() - digits_at_end(key)],
    }
}

fn digits_at_end(key: &[u8]) -> usize {
    key.iter().rev().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Lines of a report.
struct Text {
    ink: Ink,
    width: usize,
    lines: String,
}

impl Text {
    /// A finding in full.
    fn describe(&mut self, finding: &Finding, repeated: Option<String>) {
        let ink = self.ink;
        let code = finding.code.name();
        let head = finding.severity.inked(ink, &format!("{} {code}:", finding.severity.name()));
        let times = repeated.map(|repeated| format!(" ({repeated})")).unwrap_or_default();
        self.put("  ", &format!("{head} {}{times}", printable(&finding.sentence)));
        let places: Vec<String> = finding.evidence.iter().map(|evidence| format!("#{}", evidence.source.seq)).collect();
        let width = places.iter().map(String::len).max().unwrap_or(0);
        for (evidence, place) in finding.evidence.iter().zip(&places) {
            let place = format!("{place:<width$} {}", time_of_day(evidence.source.at));
            self.put("    ", &format!("{} {}", ink.faint(&place), evidence_line(evidence)));
        }
        if let Some(mark) = &finding.mark {
            self.put("    ", &format!("{} {}", ink.bold("mark:"), printable(mark)));
        }
        self.put("    ", &format!("{} {}", ink.bold("instead:"), finding.instead()));
        self.put("    ", &format!("{} {}", ink.bold("more:"), ink.code(&finding.docs())));
    }

    /// How to ask why a key is taken for a lock, and to say that it is none.
    fn tell_doubts(&mut self, finding: &Finding) {
        let ink = self.ink;
        let Doubts { question, ask, deny } = finding.doubts();
        let ask = ask.map(|ask| format!("; why: {}", ink.code(&ask))).unwrap_or_default();
        self.put("    ", &format!("{} {}{ask}", ink.bold(question), ink.code(&deny)));
    }

    /// Names the findings that are not described, in a line for each code.
    fn name_rest(&mut self, rest: &[Placed<'_>]) {
        let mut codes: Vec<Code> = rest.iter().map(|(_, finding)| finding.code).collect();
        codes.sort();
        codes.dedup();
        for code in codes {
            let places: Vec<String> = rest
                .iter()
                .filter(|(_, finding)| finding.code == code)
                .map(|(space, finding)| lock_place(space, finding))
                .collect();
            let named = places.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join("; ");
            let more = if places.len() > MAX_NAMED { "; ..." } else { "" };
            let count = counted(places.len() as u64, "more finding");
            self.put("", &format!("{count} of {}: {named}{more}", code.name()));
        }
    }

    /// Adds a line, broken where it is too long.
    fn put(&mut self, indent: &str, line: &str) {
        let rest = format!("{indent}      ");
        for line in wrap(line, indent, &rest, self.width) {
            self.lines.push_str(&line);
            self.lines.push('\n');
        }
    }
}
