//! Commands of which only an interval is known: nobody is blamed for what another order would excuse, and what no order
//! excuses is found.

use std::collections::{BTreeSet, HashMap};

use redouble::internals::{EventKind, Item, Scope, audit, auditor, command_table};
use redouble::{Child, Code, EffectOrder, Entry, Finding, Outcome, Severity};

use crate::corpus::{HISTORIES, history};
use crate::support::Dice;

pub const NOW: i64 = 1_700_000_000_000_000;
const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

pub type Found = BTreeSet<(Code, Vec<u8>)>;

pub fn findings(items: Vec<Item>) -> Vec<Finding> {
    let audited = audit(vec![(1, items)], auditor(Scope::default(), command_table()));
    audited.findings().iter().map(|finding| (**finding).clone()).collect()
}

/// What blames somebody; a note does not.
pub fn blamed(findings: &[Finding]) -> Found {
    let blames = findings.iter().filter(|finding| finding.severity > Severity::Note);
    blames.map(|finding| (finding.code, finding.key.to_vec())).collect()
}

pub fn told(findings: &[Finding]) -> String {
    findings.iter().map(|finding| format!("  {} {}\n", finding.code.name(), finding.sentence)).collect()
}

pub fn shown(items: &[Item]) -> String {
    let line = |item: &Item| match item {
        Item::Command(entry) => {
            let words: Vec<_> = entry.words.iter().map(|word| String::from_utf8_lossy(word)).collect();
            let sent = entry.sent.unwrap_or(entry.real) - NOW;
            let (at, client) = (entry.real - NOW, entry.client);
            format!(
                "{:4} [{sent} {at}] {client} {} -> {:?}\n",
                entry.seq,
                words.join(" "),
                String::from_utf8_lossy(&entry.reply)
            )
        }
        Item::Event(event) => format!("{:4} {} {} {:?}\n", event.seq, event.at - NOW, event.client, event.kind),
    };
    items.iter().map(line).collect()
}

fn set_time(item: &mut Item, seq: u64, time: i64) {
    match item {
        Item::Command(entry) => (entry.seq, entry.at, entry.real) = (seq, time, time),
        Item::Event(event) => (event.seq, event.at, event.real) = (seq, time, time),
    }
}

/// A history on one clock, so that no two of its lines are at the same time.
pub fn on_one_clock(items: &[Item]) -> Vec<Item> {
    // A real server's clock is not moved.
    let is_move = |item: &Item| matches!(item, Item::Event(event) if event.kind == EventKind::Clock);
    let mut items: Vec<Item> = items.iter().filter(|item| !is_move(item)).cloned().collect();
    let mut last = 0;
    for (number, item) in items.iter_mut().enumerate() {
        let at = match item {
            Item::Command(entry) => entry.at,
            Item::Event(event) => event.at,
        };
        last = (last + 10).max(at + 10 * i64::try_from(number).expect("a small number"));
        set_time(item, number as u64 + 1, last);
    }
    items
}

/// The history as it is known in front of an upstream server: each command took effect some time in an interval, and the
/// commands of one client follow each other. `before` and `behind` say how long intervals are on each side of the moment.
pub fn smeared(items: &[Item], mut before: impl FnMut() -> i64, mut behind: impl FnMut() -> i64) -> Vec<Item> {
    // Until when each client was busy, and when it will be again.
    let mut busy: HashMap<u64, i64> = HashMap::new();
    let mut next: Vec<i64> = vec![i64::MAX; items.len()];
    let mut latest: HashMap<u64, i64> = HashMap::new();
    for (at, item) in items.iter().enumerate().rev() {
        let (client, real) = match item {
            Item::Command(entry) => (entry.client, entry.real),
            Item::Event(event) => (event.client, event.real),
        };
        next[at] = latest.insert(client, real).unwrap_or(i64::MAX);
    }
    let mut smeared: Vec<(i64, Item)> = Vec::new();
    for (item, next) in items.iter().zip(next) {
        let mut item = item.clone();
        match &mut item {
            Item::Command(entry) if entry.outcome != Outcome::NeverRan => {
                let from = busy.get(&entry.client).map_or(i64::MIN, |busy| busy + 1);
                let sent = (entry.real - before()).max(from).min(entry.real);
                let until = (entry.real + behind()).min(next - 1).max(entry.real);
                busy.insert(entry.client, until);
                (entry.sent, entry.order) = (Some(sent), EffectOrder::Interval);
                smeared.push((until, item));
            }
            Item::Command(entry) => {
                let real = entry.real;
                smeared.push((real, item));
            }
            Item::Event(event) => {
                let real = event.real;
                smeared.push((real, item));
            }
        }
    }
    smeared.sort_by_key(|(until, _)| *until);
    let renumber = |(number, (until, mut item)): (usize, (i64, Item))| {
        set_time(&mut item, number as u64 + 1, until);
        item
    };
    smeared.into_iter().enumerate().map(renumber).collect()
}

/// What was compared: how many findings are left, and what was invented.
#[derive(Default)]
struct Comparison {
    kept: std::collections::BTreeMap<usize, usize>,
    invented: std::collections::BTreeMap<(usize, &'static str), usize>,
    shown: Vec<String>,
}

impl Comparison {
    fn compare(&mut self, truth: &[Item], known: Vec<Item>, width: usize, what: u64) {
        let (true_findings, findings) = (findings(truth.to_vec()), findings(known.clone()));
        let (whole, less) = (blamed(&true_findings), blamed(&findings));
        *self.kept.entry(width).or_default() += less.len();
        let is_there =
            |(code, key): &(Code, Vec<u8>)| more_exact(*code).iter().any(|code| whole.contains(&(*code, key.clone())));
        let invented: Vec<_> = less.iter().filter(|found| !is_there(found)).map(|(code, _)| code.name()).collect();
        for code in &invented {
            *self.invented.entry((width, code)).or_default() += 1;
        }
        if !invented.is_empty() && self.shown.len() < 6 {
            let (true_told, told) = (told(&true_findings), told(&findings));
            let (known, truth) = (shown(&known), shown(truth));
            self.shown.push(format!(
                "{what}, {width} us: {invented:?}\nin the true order:\n{true_told}in intervals:\n{told}{known}\n{truth}"
            ));
        }
    }

    /// How many findings were invented, and how many there are.
    fn counts(&self) -> (usize, usize) {
        (self.invented.values().sum(), self.kept.values().sum())
    }

    fn assert_nothing_invented(&self) {
        println!("findings left, by the width of intervals in microseconds: {:?}", self.kept);
        assert!(self.invented.is_empty(), "{:?}\n{}", self.invented, self.shown.join("\n"));
    }
}

/// The codes that say the same as a code, or more: who deleted another one's lock may have had one before, of which nothing
/// is known if that was in doubt.
pub fn more_exact(code: Code) -> Vec<Code> {
    match code {
        Code::BlindDelete => vec![code, Code::ForeignRelease],
        _ => vec![code],
    }
}

/// How long an interval is on one side, at random.
pub fn side(dice: &mut Dice, width: usize) -> i64 {
    i64::try_from(dice.below(width)).expect("a small number")
}

#[test]
fn the_corpus_in_intervals_that_do_not_overlap_gives_the_same_findings() {
    for seed in 1..=HISTORIES {
        let truth = on_one_clock(&history(seed).items);
        let known = smeared(&truth, || 4, || 4);
        let (true_findings, findings) = (findings(truth.clone()), findings(known.clone()));
        let (mut whole, mut same) = (blamed(&true_findings), blamed(&findings));
        // How regular renewals are is not known if they lie no further apart than the intervals are long, as here.
        for found in [&mut whole, &mut same] {
            found.retain(|(code, _)| *code != Code::RenewalStopped);
        }
        assert_eq!(same, whole, "history {seed}\n{}{}{}", told(&true_findings), told(&findings), shown(&known));
    }
}

#[test]
fn the_corpus_in_intervals_that_overlap_gives_no_finding_that_the_true_order_does_not() {
    let mut comparison = Comparison::default();
    for seed in (1..=HISTORIES).step_by(2) {
        let truth = on_one_clock(&history(seed).items);
        for width in [100, 3_000, 40_000, 400_000] {
            let (mut before, mut behind) = (Dice::new(seed), Dice::new(seed + 1000));
            let known = smeared(&truth, || side(&mut before, width), || side(&mut behind, width));
            comparison.compare(&truth, known, width, seed);
        }
    }
    comparison.assert_nothing_invented();
}

/// A key of the server that the generator plays.
#[derive(Clone)]
struct Stored {
    value: String,
    deadline: Option<i64>,
}

/// Random commands of some clients on two locks, with the replies of a server that has them at once.
pub fn random_history(seed: u64) -> Vec<Item> {
    let mut dice = Dice::new(seed);
    let mut keys: HashMap<String, Stored> = HashMap::new();
    let mut tokens: HashMap<u64, String> = HashMap::new();
    let mut now = NOW;
    let mut items = Vec::new();
    let lives = [20, 100, 1000][dice.below(3)];
    for seq in 1..=60 + dice.below(60) as u64 {
        now += 20 + i64::try_from(dice.below(30_000)).expect("a small number");
        let client = 2 + dice.below(4) as u64;
        let key = ["lock:a", "lock:b"][dice.below(5) / 4].to_owned();
        keys.retain(|_, stored| stored.deadline.is_none_or(|deadline| now.div_euclid(1000) <= deadline));
        let token = tokens.entry(client).or_insert_with(|| format!("{seq:08x}-5f0c-9a83-b1d2-{client:012x}")).clone();
        let found = keys.get(&key).cloned();
        let there = i64::from(found.is_some());
        let bulk = |value: &str| format!("${}\r\n{value}\r\n", value.len());
        let read = found.as_ref().map_or("$-1\r\n".to_owned(), |stored| bulk(&stored.value));
        let mut children = Vec::new();
        let deadline = Some(now.div_euclid(1000) + lives);
        let (words, reply) = match dice.below(20) {
            0..=8 => {
                let token = format!("{seq:08x}-5f0c-9a83-b1d2-{client:012x}");
                if found.is_none() {
                    keys.insert(key.clone(), Stored { value: token.clone(), deadline });
                    tokens.insert(client, token.clone());
                }
                let reply = if found.is_none() { "+OK\r\n" } else { "$-1\r\n" };
                (["SET", &key, &token, "NX", "PX", &lives.to_string()].join(" "), reply.to_owned())
            }
            9..=12 => {
                let child = |words: &str, reply: &str| Child {
                    db: 0,
                    words: words.split(' ').map(|word| word.as_bytes().to_vec()).collect(),
                    words_missing: 0,
                    reply: reply.as_bytes().to_vec(),
                    reply_length: reply.len() as u64,
                    fault: None,
                    children: Vec::new(),
                };
                children.push(child(&format!("get {key}"), &read));
                let is_own = found.as_ref().is_some_and(|stored| stored.value == token);
                if is_own {
                    children.push(child(&format!("del {key}"), ":1\r\n"));
                    keys.remove(&key);
                }
                (format!("EVAL SCRIPT 1 {key} {token}"), format!(":{}\r\n", i64::from(is_own)))
            }
            13..=15 => {
                keys.remove(&key);
                (format!("DEL {key}"), format!(":{there}\r\n"))
            }
            16 => (format!("GET {key}"), read),
            17 => {
                if let Some(stored) = keys.get_mut(&key) {
                    stored.deadline = deadline;
                }
                (format!("PEXPIRE {key} {lives}"), format!(":{there}\r\n"))
            }
            18 => {
                keys.insert(key.clone(), Stored { value: token.clone(), deadline });
                (format!("SET {key} {token} PX {lives}"), "+OK\r\n".to_owned())
            }
            _ => (format!("SET data:{key} {seq}"), "+OK\r\n".to_owned()),
        };
        let words =
            words.split(' ').map(|word| if word == "SCRIPT" { RELEASE } else { word }.as_bytes().to_vec()).collect();
        items.push(Item::Command(Box::new(Entry {
            seq,
            at: now,
            real: now,
            sent: None,
            order: EffectOrder::Total,
            duration: 0,
            held_after: None,
            client,
            // What connections without a name may be to each other is guessed from much that an interval hides.
            name: format!("worker-{client}").into_bytes(),
            address: String::new(),
            process: None,
            node: None,
            db: 0,
            words,
            words_missing: 0,
            reply: reply.as_bytes().to_vec(),
            reply_length: reply.len() as u64,
            outcome: Outcome::Answered,
            fault: None,
            gates: Vec::new(),
            children,
            children_missing: 0,
            are_children_unknown: false,
        })));
    }
    items
}

pub const RANDOM: u64 = 400;

#[test]
fn random_commands_in_intervals_give_hardly_a_finding_that_their_true_order_does_not() {
    let mut comparison = Comparison::default();
    for seed in 1..=RANDOM {
        let truth = random_history(seed);
        for width in [2_000, 20_000, 200_000] {
            let (mut before, mut behind) = (Dice::new(seed), Dice::new(seed + 5000));
            let known = smeared(&truth, || side(&mut before, width), || side(&mut behind, width));
            comparison.compare(&truth, known, width, seed);
        }
    }
    // What clients do here no program does: they release what they have lost, extend what is not theirs, and take again
    // what they hold. An order that hides one of these may leave a finding with another name.
    let (invented, all) = comparison.counts();
    assert!(invented * 1000 <= all, "{invented} of {all}: {:?}\n{}", comparison.invented, comparison.shown.join("\n"));
    assert!(!comparison.invented.keys().any(|(_, code)| *code == "two-holders"), "{}", comparison.shown.join("\n"));
}

#[test]
fn random_commands_in_intervals_that_do_not_overlap_give_the_findings_of_their_order() {
    let mut count = 0;
    for seed in 1..=RANDOM {
        let truth = random_history(seed);
        // Not across a millisecond, in which a deadline may lie.
        let known = smeared(&truth, || 0, || 0);
        let (true_findings, findings) = (findings(truth.clone()), findings(known));
        assert_eq!(blamed(&findings), blamed(&true_findings), "seed {seed}\n{}", shown(&truth));
        count += findings.len();
    }
    assert!(count > 400, "{count} findings");
}
