//! Several fronts before one server: their journals, each by a clock of its own, become one history.

use redouble::internals::{Item, Scope, audit, audit_fronts, auditor, command_table, merged_fronts, read_journal};
use redouble::{Code, Finding, Severity};

use super::corpus::{HISTORIES, history};
use super::intervals::{RANDOM, blamed, more_exact, on_one_clock, random_history, shown, side, smeared, told};
use crate::support::Dice;

/// By how much the second front's clock is behind, in microseconds.
const BEHIND: i64 = 3_000_000;

/// The journals of two fronts, through which the clients of a history came: by their numbers to one or the other.
fn through_two_fronts(items: &[Item]) -> Vec<Vec<Item>> {
    let mut fronts = vec![Vec::new(), Vec::new()];
    for item in items {
        let mut item = item.clone();
        let (seq, client) = match &mut item {
            Item::Command(entry) => (&mut entry.seq, &mut entry.client),
            Item::Event(event) => (&mut event.seq, &mut event.client),
        };
        let front = usize::try_from(*client % 2).expect("one of two");
        *seq = fronts[front].len() as u64 + 1;
        // Each front counts its own clients.
        *client = client.div_ceil(2);
        if front == 1 {
            by(&mut item, -BEHIND);
        }
        fronts[front].push(item);
    }
    fronts
}

/// Moves a line in time.
fn by(item: &mut Item, micros: i64) {
    match item {
        Item::Command(entry) => {
            (entry.at, entry.real) = (entry.at + micros, entry.real + micros);
            entry.sent = entry.sent.map(|sent| sent + micros);
        }
        Item::Event(event) => (event.at, event.real) = (event.at + micros, event.real + micros),
    }
}

/// The findings in the journals of fronts, with the offset of the second one's clock and its error.
fn found_by(fronts: Vec<Vec<Item>>) -> (Vec<Finding>, (i64, i64)) {
    let merged = merged_fronts(fronts, &command_table(), None).expect("one server");
    let offset = merged.clocks[0];
    let audited = audit_fronts(&merged, auditor(Scope::default(), command_table()));
    (audited.findings().iter().map(|finding| (**finding).clone()).collect(), offset.middle())
}

fn findings(items: Vec<Item>) -> Vec<Finding> {
    let audited = audit(vec![(1, items)], auditor(Scope::default(), command_table()));
    audited.findings().iter().map(|finding| (**finding).clone()).collect()
}

/// A line of a journal: when a command was sent and answered, in milliseconds.
fn line(client: u64, sent: i64, replied: i64, command: &str, reply: &str) -> String {
    let words: Vec<String> = command.split(' ').map(|word| format!("{word:?}")).collect();
    format!(
        r#"{{"seq":{sent},"time_us":{},"sent_us":{},"order":"interval","client":{client},"name":"worker-{client}","command":[{}],"raw":"{reply}\r\n","children":[]}}"#,
        replied * 1000,
        sent * 1000,
        words.join(",")
    )
}

fn items(lines: &[String]) -> Vec<Item> {
    let mut items = Vec::new();
    read_journal(lines.join("\n").as_bytes(), |item| items.push(item)).expect("lines of a journal");
    items
}

const A: &str = "5f0c9a83b1d24e67";
const B: &str = "91e7c2d40a8b36f5";
const C: &str = "c70a91e4d2f8b365";

/// Two workers, of which the second deletes the lock of the first and takes it.
fn race() -> Vec<Item> {
    let take = |token: &str| format!("SET lock {token} NX PX 60000");
    items(&[
        line(2, 10_000, 10_002, &take(A), "+OK"),
        line(3, 10_100, 10_102, &take(B), "$-1"),
        line(3, 10_200, 10_201, "GET lock", &format!("$16\\r\\n{A}")),
        line(3, 10_300, 10_302, "DEL lock", ":1"),
        line(3, 10_400, 10_401, &take(B), "+OK"),
        line(2, 10_500, 10_501, "GET lock", &format!("$16\\r\\n{B}")),
        line(3, 10_600, 10_602, &format!("DELIFEQ lock {B}"), ":1"),
    ])
}

#[test]
fn two_fronts_of_which_one_has_a_clock_three_seconds_late_find_what_one_front_finds() {
    let (merged, (offset, error)) = found_by(through_two_fronts(&race()));
    assert!((BEHIND - error..=BEHIND + error).contains(&offset) && error < 200_000, "{offset} {error}");
    let one = findings(race());
    let sentence = |findings: &[Finding]| -> Vec<(Code, Severity)> {
        findings.iter().map(|finding| (finding.code, finding.severity)).collect()
    };
    assert_eq!(sentence(&merged), sentence(&one));
    assert!(merged.iter().any(|finding| finding.code == Code::TwoHolders), "{merged:?}");
    // Each front has a first client; they are two.
    let told = merged.iter().find(|finding| finding.code == Code::BlindDelete).expect("it is found");
    assert!(told.sentence.contains("worker-3 (client ") && told.sentence.contains("worker-2 (client "));
}

#[test]
fn whoever_takes_the_clocks_as_they_are_accuses_the_wrong_one() {
    // The same files as those of two servers.
    let two = through_two_fronts(&race()).into_iter().zip([1, 2]).map(|(items, server)| (server, items)).collect();
    let audited = audit(two, auditor(Scope::default(), command_table()));
    assert!(audited.findings().iter().all(|finding| finding.code != Code::TwoHolders));
}

#[test]
fn numbers_that_incr_has_counted_and_time_tell_the_clocks_apart() {
    let counted = items(&[
        line(2, 10_000, 10_001, "INCR runs", ":5"),
        line(3, 10_010, 10_011, "INCR runs", ":6"),
        line(2, 10_020, 10_021, "INCR runs", ":7"),
    ]);
    let (_, (offset, error)) = found_by(through_two_fronts(&counted));
    assert!((offset - BEHIND).abs() <= error && error <= 11_000, "{offset} {error}");
    let asked = items(&[
        line(2, 10_000, 10_001, "TIME", "*2\\r\\n$2\\r\\n10\\r\\n$3\\r\\n500"),
        line(3, 10_010, 10_011, "TIME", "*2\\r\\n$2\\r\\n10\\r\\n$5\\r\\n10700"),
    ]);
    let (_, (offset, error)) = found_by(through_two_fronts(&asked));
    assert!((offset - BEHIND).abs() <= error && error <= 1_000, "{offset} {error}");
}

#[test]
fn locks_that_exclude_each_other_and_refusals_bound_the_offset() {
    let mut lines = Vec::new();
    let mut at = 10_000;
    for (round, pause) in [50, 170, 90, 310, 140, 220, 60].into_iter().enumerate() {
        let (holder, other) = if round % 2 == 0 { (2, 3) } else { (3, 2) };
        let token = format!("{round:08}{A}");
        lines.push(line(holder, at, at + 1, &format!("SET lock {token} NX PX 60000"), "+OK"));
        lines.push(line(other, at + 10, at + 11, &format!("SET lock {C} NX PX 60000"), "$-1"));
        lines.push(line(holder, at + pause, at + pause + 1, &format!("DELIFEQ lock {token}"), ":1"));
        at += pause + 7;
    }
    let (found, (offset, error)) = found_by(through_two_fronts(&items(&lines)));
    assert!((offset - BEHIND).abs() <= error && error < 100_000, "{offset} {error}");
    assert_eq!(found, []);
}

#[test]
fn fronts_that_saw_nothing_in_common_are_not_compared_and_nobody_is_accused() {
    let apart = items(&[
        line(2, 10_000, 10_001, &format!("SET lock {A} NX PX 60000"), "+OK"),
        line(2, 10_100, 10_101, &format!("DELIFEQ lock {A}"), ":1"),
        line(3, 10_200, 10_201, &format!("SET lock {B} NX PX 60000"), "+OK"),
        line(3, 10_300, 10_301, &format!("DELIFEQ lock {B}"), ":1"),
    ]);
    let merged = merged_fronts(through_two_fronts(&apart), &command_table(), None).expect("one server");
    assert!(!merged.clocks[0].is_known());
    let audited = audit_fronts(&merged, auditor(Scope::default(), command_table()));
    assert!(audited.findings().is_empty(), "{:?}", audited.findings());
    // Whoever keeps clocks right may say so.
    let near = merged_fronts(through_two_fronts(&apart), &command_table(), Some(500_000)).expect("one server");
    assert!(near.clocks[0].is_known());
}

#[test]
fn replies_that_contradict_each_other_are_not_of_one_server() {
    let impossible = items(&[
        line(2, 10_000, 10_001, &format!("SET one {A}"), "+OK"),
        line(2, 10_500, 10_501, "GET two", &format!("$16\\r\\n{B}")),
        line(3, 20_000, 20_001, "GET one", &format!("$16\\r\\n{A}")),
        line(3, 30_000, 30_001, &format!("SET two {B}"), "+OK"),
    ]);
    assert_eq!(merged_fronts(through_two_fronts(&impossible), &command_table(), None).err(), Some(1));
}

#[test]
fn three_fronts_become_one_history() {
    let three = || {
        let mut fronts = through_two_fronts(&race());
        let watcher = items(&[
            line(9, 10_250, 10_251, "GET lock", &format!("$16\\r\\n{A}")),
            line(9, 10_450, 10_451, "GET lock", &format!("$16\\r\\n{B}")),
        ]);
        fronts.push(watcher);
        fronts[2].iter_mut().for_each(|item| by(item, 7_000_000));
        fronts
    };
    let merged = merged_fronts(three(), &command_table(), None).expect("one server");
    let (offset, error) = merged.clocks[1].middle();
    assert!((offset + 7_000_000).abs() <= error && error < 300_000, "{offset} {error}");
    let audited = audit_fronts(&merged, auditor(Scope::default(), command_table()));
    assert!(audited.findings().iter().any(|finding| finding.code == Code::TwoHolders));
}

/// What was compared.
#[derive(Debug, Default)]
struct Comparison {
    /// How many findings there are in the true order, how many are left, and which were invented.
    all: usize,
    kept: usize,
    invented: Vec<Code>,
    shown: Vec<String>,
    /// In how many histories the clocks could be compared.
    known: usize,
}

/// Compares what is found behind two fronts with what is found in the true order. The true offset is always among those that
/// are thought possible.
fn compare(histories: impl Iterator<Item = (u64, Vec<Item>)>, width: usize) -> Comparison {
    let mut comparison = Comparison::default();
    for (seed, truth) in histories {
        let (mut before, mut behind) = (Dice::new(seed), Dice::new(seed + 1000));
        let known = smeared(&truth, || side(&mut before, width), || side(&mut behind, width));
        let merged = merged_fronts(through_two_fronts(&known), &command_table(), None);
        let merged =
            merged.unwrap_or_else(|_| panic!("history {seed} is said to contradict itself\n{}", shown(&known)));
        let offset = merged.clocks[0];
        assert!((offset.least..=offset.most).contains(&BEHIND), "history {seed}: {offset:?}\n{}", shown(&known));
        let audited = audit_fronts(&merged, auditor(Scope::default(), command_table()));
        let found: Vec<Finding> = audited.findings().iter().map(|finding| (**finding).clone()).collect();
        let (whole, less) = (findings(truth.clone()), blamed(&found));
        let true_blame = blamed(&whole);
        let is_there = |(code, key): &(Code, Vec<u8>)| {
            more_exact(*code).iter().any(|code| true_blame.contains(&(*code, key.clone())))
        };
        let invented: Vec<_> = less.iter().filter(|found| !is_there(found)).map(|(code, _)| *code).collect();
        if !invented.is_empty() {
            let (whole, found) = (told(&whole), told(&found));
            comparison.shown.push(format!(
                "history {seed}, {offset:?}: {invented:?}\nin the true order:\n{whole}through two fronts:\n{found}{}",
                shown(&known)
            ));
        }
        comparison.invented.extend(invented);
        comparison.kept += less.len();
        comparison.all += true_blame.len();
        comparison.known += usize::from(offset.is_known());
    }
    comparison
}

#[test]
fn the_corpus_through_two_fronts_gives_no_finding_that_the_true_order_does_not() {
    for width in [100, 3_000, 40_000] {
        let histories = (1..=HISTORIES).step_by(2).map(|seed| (seed, on_one_clock(&history(seed).items)));
        let Comparison { all, kept, invented, shown, known } = compare(histories, width);
        println!("corpus, {width} us: {kept} of {all} findings, the clocks of {known} histories known");
        assert!(invented.is_empty(), "{invented:?}\n{}", shown.join("\n"));
        assert!(kept * 4 > all, "{kept} of {all}");
    }
}

#[test]
fn random_commands_through_two_fronts_are_put_in_order() {
    let histories = (1..=RANDOM).map(|seed| (seed, random_history(seed)));
    let Comparison { all, kept, invented, shown, known } = compare(histories, 100);
    println!("random: {kept} of {all} findings, the clocks of {known} histories known, {} invented", invented.len());
    // As with intervals: what clients do here no program does.
    assert!(invented.len() * 500 <= all && !invented.contains(&Code::TwoHolders), "{invented:?}\n{}", shown.join("\n"));
    assert!(known * 10 > 9 * usize::try_from(RANDOM).expect("few"), "{known}");
}
