//! The auditor against histories of which their author knows everything: right and wrong algorithms in random orders, with
//! lost and late replies, crashes and moves of the clock.

mod linear;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use redouble::internals::{Item, Scope, audit, auditor, command_table};
use redouble::{Code, Severity};

use crate::support::process::ServerProcess;

use linear::is_linearizable;
use world::History;
pub use world::history;
use world::history_in_front_of;

pub const HISTORIES: u64 = 400;

/// The page that has the figures; `REDOUBLE_WRITE_DOCS=1` writes them there.
const PAGE: &str = "docs/decisions/0017-the-clients-own-view.md";
/// How far the figures may be from those on the page.
const TOLERANCE: u32 = 3;

/// The findings whose truth the author knows.
const KNOWN: &[Code] = &[
    Code::TwoHolders,
    Code::ForeignRelease,
    Code::UncheckedRelease,
    Code::GetThenDelete,
    Code::LateRelease,
    Code::WorkAfterExpiry,
    Code::NoExpiry,
    Code::ExpiryInSecondStep,
    Code::StaleDeleteRace,
    Code::HeldAtDisconnect,
    Code::LostAndNotReleased,
    Code::RefusedByItself,
    Code::LateExtension,
    Code::UncheckedExtension,
    Code::ForeignExtension,
];

/// What was found, as text, and whether it blames anybody: a note does not.
fn found(history: &History) -> (BTreeSet<Code>, String, bool) {
    let audited = audit(vec![(1, history.items.clone())], auditor(Scope::default(), command_table()));
    let told = audited.findings().iter().map(|finding| format!("  {} {}\n", finding.code.name(), finding.sentence));
    let blames = audited.findings().iter().any(|finding| finding.severity > Severity::Note);
    (audited.findings().iter().map(|finding| finding.code).collect(), told.collect(), blames)
}

/// How often a finding was right, missed, and wrong.
#[derive(Default)]
struct Figures {
    right: u32,
    missed: u32,
    wrong: u32,
    first_missed: Option<u64>,
    first_wrong: Option<u64>,
}

#[test]
fn every_double_holder_is_found_and_nobody_is_blamed_for_one() {
    let mut all: BTreeMap<Code, Figures> = KNOWN.iter().map(|code| (*code, Figures::default())).collect();
    let mut blamed = Vec::new();
    let mut doubles = 0;
    for seed in 1..=HISTORIES {
        let history = history(seed);
        let (found, told, blames) = found(&history);
        let is_double = history.truth.contains(&Code::TwoHolders);
        doubles += u32::from(is_double);
        let shown = || format!("history {seed}: {:?}\n{told}{}", history.truth, lines_of(&history));
        assert_eq!(found.contains(&Code::TwoHolders), is_double, "{}", shown());
        assert_eq!(is_linearizable(&history.operations), !is_double, "{}{:?}", shown(), history.operations);
        for code in KNOWN {
            let figures = all.get_mut(code).expect("a known code");
            match (history.truth.contains(code), found.contains(code)) {
                (true, true) => figures.right += 1,
                (true, false) => {
                    figures.missed += 1;
                    figures.first_missed.get_or_insert(seed);
                }
                (false, true) if *code == Code::WorkAfterExpiry && history.is_first_write_late => {}
                (false, true) => {
                    figures.wrong += 1;
                    figures.first_wrong.get_or_insert(seed);
                }
                (false, false) => {}
            }
        }
        if history.is_right && blames {
            blamed.push(shown());
        }
    }
    println!("{HISTORIES} histories, {doubles} with two holders");
    assert!(doubles > 20, "only {doubles} histories have two holders");
    assert!(blamed.is_empty(), "{} right histories were blamed:\n{}", blamed.len(), blamed[0]);
    for (code, figures) in &all {
        println!("{:24} {figures}", code.name());
        assert!(figures.precision() >= 0.8, "{} blames too many: {figures}", code.name());
        assert!(figures.recall() >= 0.75, "{} misses too many: {figures}", code.name());
    }
    compare_with_page(&all);
}

#[test]
fn in_front_of_a_real_server_every_double_holder_is_found_too_and_nobody_is_blamed_for_one() {
    let redis = ServerProcess::redis(&["--save", ""]);
    let (mut doubles, mut invented) = (0, Vec::new());
    for seed in 1..=HISTORIES {
        let history = history_in_front_of(seed, &redis);
        let (found, told, blames) = found(&history);
        let is_double = history.truth.contains(&Code::TwoHolders);
        doubles += u32::from(is_double);
        let shown = || format!("history {seed}: {:?}\n{told}{}", history.truth, lines_of(&history));
        assert_eq!(found.contains(&Code::TwoHolders), is_double, "{}", shown());
        if history.is_right && blames {
            invented.push(shown());
        }
    }
    assert!(doubles > 20, "only {doubles} histories have two holders");
    assert!(invented.is_empty(), "{} right histories were blamed:\n{}", invented.len(), invented[0]);
}

impl Figures {
    /// Of what was found, how much is true.
    fn precision(&self) -> f64 {
        f64::from(self.right) / f64::from((self.right + self.wrong).max(1))
    }

    /// Of what is true, how much was found.
    fn recall(&self) -> f64 {
        f64::from(self.right) / f64::from((self.right + self.missed).max(1))
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { right, missed, wrong, first_missed, first_wrong } = self;
        write!(f, "right {right}, missed {missed} ({first_missed:?}), wrong {wrong} ({first_wrong:?})")
    }
}

/// The page says what was found here, give or take a few.
fn compare_with_page(all: &BTreeMap<Code, Figures>) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let is_row = |line: &&str| line.starts_with("| [") && line.contains("findings.md#");
    if std::env::var_os("REDOUBLE_WRITE_DOCS").is_some() {
        let row = |(code, figures): (&Code, &Figures)| {
            let (name, Figures { right, missed, wrong, .. }) = (code.name(), figures);
            format!("| [{name}](../findings.md#{name}) | {right} | {missed} | {wrong} |\n")
        };
        let rows: String = all.iter().map(row).collect();
        let before: String = page.lines().take_while(|line| !is_row(line)).map(|line| format!("{line}\n")).collect();
        let behind = page.lines().skip_while(|line| !is_row(line)).skip_while(is_row);
        let behind: String = behind.map(|line| format!("{line}\n")).collect();
        return std::fs::write(&path, before + &rows + &behind).expect("the page can be written");
    }
    let rows: Vec<&str> = page.lines().filter(is_row).collect();
    assert_eq!(rows.len(), all.len(), "{PAGE} has a row for each finding");
    for (code, figures) in all {
        let start = format!("| [{0}](../findings.md#{0}) | ", code.name());
        let row = rows.iter().find_map(|row| row.strip_prefix(&start));
        let row = row.unwrap_or_else(|| panic!("{PAGE} has no row for {}", code.name()));
        let there: Vec<u32> =
            row.trim_end_matches(" |").split(" | ").map(|cell| cell.parse().expect("a number")).collect();
        let here = [figures.right, figures.missed, figures.wrong];
        let is_near = there.iter().zip(here).all(|(there, here)| there.abs_diff(here) <= TOLERANCE);
        assert!(is_near && there.len() == 3, "{} has {here:?}, and {PAGE} says {there:?}", code.name());
    }
}

/// A history as a failing test shows it, line by line.
fn lines_of(history: &History) -> String {
    let line = |item: &Item| match item {
        Item::Command(entry) => {
            let words: Vec<_> = entry.words.iter().map(|word| String::from_utf8_lossy(word)).collect();
            let (name, reply) = (String::from_utf8_lossy(&entry.name), String::from_utf8_lossy(&entry.reply));
            let (seq, at, outcome) = (entry.seq, entry.at / 1000, entry.outcome);
            format!("{seq:4} {at} {name} {} -> {reply:?} {outcome:?}\n", words.join(" "))
        }
        Item::Event(event) => format!("{:4} {:?} {}\n", event.seq, event.kind, event.detail),
    };
    history.items.iter().map(line).collect()
}
