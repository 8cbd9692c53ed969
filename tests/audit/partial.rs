//! Journals that other programs wrote: what they do not say is held against nobody.

use std::collections::{BTreeMap, BTreeSet};

use redouble::internals::{Item, Scope, audit, auditor, command_table};
use redouble::{Code, EffectOrder, Entry, Outcome, Severity};

use crate::corpus::{HISTORIES, history};

/// A journal with `seq`, `time_us`, `client`, `command` and `raw` alone.
fn reduced(items: &[Item]) -> Vec<Item> {
    let reduce = |item: &Item| {
        let Item::Command(entry) = item else { return None };
        Some(Item::Command(Box::new(Entry {
            real: entry.at,
            sent: None,
            order: EffectOrder::Total,
            duration: 0,
            held_after: None,
            name: Vec::new(),
            address: String::new(),
            process: None,
            outcome: Outcome::Answered,
            fault: None,
            gates: Vec::new(),
            children: Vec::new(),
            children_missing: 0,
            are_children_unknown: true,
            ..(**entry).clone()
        })))
    };
    items.iter().filter_map(reduce).collect()
}

type Found = BTreeSet<(Code, Vec<u8>)>;

fn found(items: Vec<Item>) -> (Found, String) {
    let audited = audit(vec![(1, items)], auditor(Scope::default(), command_table()));
    let told = audited.findings().iter().map(|finding| format!("  {} {}\n", finding.code.name(), finding.sentence));
    // A note says "may", and blames nobody.
    let blames = audited.findings().iter().filter(|finding| finding.severity > Severity::Note);
    (blames.map(|finding| (finding.code, finding.key.to_vec())).collect(), told.collect())
}

#[test]
fn a_journal_with_five_fields_gives_no_finding_that_the_whole_one_does_not() {
    let mut survivors: BTreeMap<Code, (u32, u32)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for seed in 1..=HISTORIES {
        let history = history(seed);
        let ((whole, told), (less, told_less)) = (found(history.items.clone()), found(reduced(&history.items)));
        for (code, _) in &whole {
            survivors.entry(*code).or_default().0 += 1;
        }
        for (code, _) in whole.intersection(&less) {
            survivors.entry(*code).or_default().1 += 1;
        }
        let invented: Vec<_> = less.difference(&whole).map(|(code, _)| code.name()).collect();
        if !invented.is_empty() {
            wrong.push(format!("history {seed}: {invented:?}\nwhole:\n{told}reduced:\n{told_less}"));
        }
    }
    for (code, (whole, less)) in &survivors {
        println!("{:24} {less} of {whole}", code.name());
    }
    assert!(wrong.is_empty(), "{} of {HISTORIES}\n{}", wrong.len(), wrong.iter().take(8).cloned().collect::<String>());
}
