//! The report as lines of text: the findings, then each lock.

use super::columns::story;
use super::readable::{clipped, readable, visible};
use super::report_data::{PlacedFinding, ReportData};
use crate::base::terminal::{Ink, wrap};
use crate::base::text::counted;
use crate::insight::audit::{Doubts, Severity, key_glob};

/// The greatest width of the text.
pub const WIDTH: usize = 100;
/// How many locks without and with findings are shown.
const MAX_QUIET: usize = 20;
const MAX_STORIES: usize = 200;

/// The symbol of a severity.
pub fn symbol(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "\u{2716}",
        Severity::Warning => "!",
        Severity::Note => "i",
    }
}

pub fn text(data: &ReportData<'_>, is_coloured: bool) -> String {
    let ink = Ink(is_coloured);
    let mut lines = vec![ink.bold(&summary(data)), String::new()];
    for (number, found) in data.found.iter().enumerate().filter(|(number, found)| found.first == *number) {
        let same: Vec<&PlacedFinding<'_>> = data.found.iter().filter(|other| other.first == number).collect();
        tell(number + 1, found, &same, ink, &mut lines);
        lines.push(String::new());
    }
    if data.unlisted > 0 {
        lines.push(format!("There were {} more findings.", data.unlisted));
        lines.push(String::new());
    }
    let (with, without): (Vec<usize>, Vec<usize>) =
        (0..data.locks.len()).partition(|lock| data.found.iter().any(|found| found.lock == Some(*lock)));
    let told = with.iter().take(MAX_STORIES).chain(without.iter().take(MAX_QUIET));
    for lock in told {
        story(data, *lock, ink, &mut lines);
        lines.push(String::new());
    }
    let quiet = without.len().saturating_sub(MAX_QUIET) + with.len().saturating_sub(MAX_STORIES) + data.locks_left_out;
    if quiet > 0 {
        lines.push(format!("{} of which no story is told here.", counted(quiet, "more lock")));
        lines.push(String::new());
    }
    if !data.locks.is_empty() {
        lines.push("\u{2551} holds it   \u{254e} thinks that it holds it   \u{250b} may hold it: the reply was lost   \u{2506} waits".to_owned());
        lines.push("\u{25b2} takes   \u{2715} is refused   \u{25bc} releases   \u{25bc}! deletes or overwrites another's   \u{25c6} sets   \u{25b3} extends".to_owned());
        lines.push(
            "\u{25bd} does not find its own   \u{25cb} reads   \u{25a0} the connection ends   \u{26a1} a fault"
                .to_owned(),
        );
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.push(String::new());
    lines.join("\n")
}

fn summary(data: &ReportData<'_>) -> String {
    let counts: Vec<String> = [Severity::Error, Severity::Warning, Severity::Note]
        .into_iter()
        .filter(|severity| data.count(*severity) > 0)
        .map(|severity| counted(data.count(severity), severity.name()))
        .collect();
    let allowed = data.found.iter().filter(|found| found.finding.allowed.is_some()).count();
    let mut what = if counts.is_empty() { "nothing found".to_owned() } else { counts.join(", ") };
    if allowed > 0 {
        what.push_str(&format!(" ({allowed} allowed)"));
    }
    let locks = data.locks.len() + data.locks_left_out;
    format!(
        "{what}; {} of {}, {}{}{}",
        counted(data.commands, "command"),
        counted(data.clients.len(), "client"),
        counted(locks, "lock"),
        if data.servers > 1 { format!(", {} servers", data.servers) } else { String::new() },
        if locks == 0 && data.commands > 0 { "; --locks GLOB says which keys are locks" } else { "" }
    )
}

fn tell(number: usize, found: &PlacedFinding<'_>, same: &[&PlacedFinding<'_>], ink: Ink, lines: &mut Vec<String>) {
    let finding = found.finding;
    let severity = finding.severity;
    let head = format!("{} {} {number}", symbol(severity), severity.name());
    let key = clipped(&readable(&finding.key), 50);
    lines.push(format!("{}  {}  {key}", severity.inked(ink, &head), finding.code.name()));
    lines.extend(indented(&visible(&finding.sentence)));
    let who = |proof: &super::report_data::Proof<'_>| {
        let source = &proof.shown.source;
        let process =
            source.process.as_ref().map(|process| &process.process).filter(|process| !process.program.is_empty());
        match (source.client, source.name.is_empty(), process) {
            (0, ..) => String::new(),
            (_, true, Some(process)) => format!("pid {}", process.pid),
            (client, true, None) => format!("client {client}"),
            (_, false, _) => clipped(&visible(&source.name), 16),
        }
    };
    let widest = found.proofs.iter().map(|proof| who(proof).chars().count()).max().unwrap_or(0);
    for proof in &found.proofs {
        let mark = &proof.shown.source;
        let seq = if finding.server > 1 { format!("{}.{}", mark.server, mark.seq) } else { mark.seq.to_string() };
        let line = clipped(&visible(&mark.line), 44);
        let what = visible(&proof.shown.what);
        // An event stands in parentheses, and `what` says the same.
        let told = if line.starts_with('(') { what } else { format!("{line}: {what}") };
        let shown = format!("  {seq:>6}  {:widest$}  {told}", who(proof));
        lines.push(clipped(&shown, WIDTH));
    }
    let times: u64 = same.iter().map(|found| found.finding.times).sum();
    if times > 1 {
        let others = match same.len() {
            1 => String::new(),
            count => {
                let keys = clipped(&readable(&key_glob(&finding.key)), 40);
                format!(
                    ", in {} ({number} to {}) about {keys}; this is the first",
                    counted(count, "finding"),
                    number + count - 1
                )
            }
        };
        lines.extend(indented(&format!("Seen {times} times{others}.")));
    }
    match &finding.allowed {
        Some(reason) => lines.extend(indented(&format!("Allowed: {}", visible(reason)))),
        None => {
            lines.extend(indented(&format!("Instead: {}", finding.instead())));
            lines.push(format!("  More: {}", ink.code(&finding.docs())));
            let Doubts { question, ask, deny } = finding.doubts();
            let ask = ask.map(|ask| format!("; why: {ask}")).unwrap_or_default();
            lines.extend(indented(&visible(&format!("{question} {deny}{ask}"))));
        }
    }
}

/// Breaks a text into lines of the greatest width, below the head of a finding.
fn indented(text: &str) -> Vec<String> {
    wrap(text, "  ", "  ", WIDTH)
}
