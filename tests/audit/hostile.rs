//! A journal may come from anywhere, and say anything. Whatever it says, the audit of it ends, comes to the same each time,
//! and can be told in every form there is.

use redouble::internals::{
    Auditor, Event, EventKind, Item, JournalLine, Scope, auditor, command_table, render, report_html, report_text,
};
use redouble::{Child, EffectOrder, Entry, Outcome, Severity};

use crate::support::Dice;

/// All commands that the auditor knows, and a few that it does not.
const NAMES: &[&str] = &[
    "SET",
    "SET",
    "SET",
    "SETNX",
    "SETNX",
    "SETEX",
    "PSETEX",
    "GETSET",
    "MSET",
    "MSETNX",
    "MSETEX",
    "GET",
    "GET",
    "GETEX",
    "GETDEL",
    "GETRANGE",
    "MGET",
    "EXISTS",
    "DEL",
    "DEL",
    "UNLINK",
    "DELIFEQ",
    "DELEX",
    "EXPIRE",
    "PEXPIRE",
    "EXPIREAT",
    "PEXPIREAT",
    "PERSIST",
    "HINCRBY",
    "HSET",
    "HLEN",
    "HEXISTS",
    "HGET",
    "HDEL",
    "ZADD",
    "ZREM",
    "ZSCORE",
    "ZCARD",
    "FLUSHDB",
    "FLUSHALL",
    "WATCH",
    "UNWATCH",
    "MULTI",
    "DISCARD",
    "EXEC",
    "EVAL",
    "EVAL",
    "EVALSHA",
    "FCALL",
    "LPUSH",
    "BLPOP",
    "PUBLISH",
    "SUBSCRIBE",
    "INCR",
    "APPEND",
    "CLIENT",
    "PING",
    "",
    "\u{fffd}",
    "set",
    "Del",
];
const KEYS: &[&str] = &["lock", "a:lock", "b", "c", "", "leader", "k\u{202e}\n\x1b[2J"];
const OPTIONS: &[&str] =
    &["NX", "XX", "GET", "KEEPTTL", "EX", "PX", "EXAT", "PXAT", "IFEQ", "IFDEQ", "IFNE", "PERSIST", "nx"];
const NUMBERS: &[i64] =
    &[0, 1, 2, 3, 10, 1000, 30_000, -1, -1000, i64::MAX, i64::MIN, i64::MAX / 1000, i64::MIN / 1000];
const TOKENS: &[&str] = &[
    "1",
    "x",
    "f47ac10b-58cc-4372-a567-0e02b2c3d479",
    "c8f7e55e2b7b11ee9d3f0242ac120002",
    "9f86d081884c7d659f86d081884c7d65",
    "worker-1",
    "\u{0}",
];
const SCRIPTS: &[&str] =
    &["return 1", "if redis.call('get', KEYS[1]) == ARGV[1] then return 1 end", "c3f8721cbb97", ""];
const DETAILS: &[&str] = &["empty", "kept", "", "set to 1"];
const NOW: i64 = 1_700_000_000_000_000;

struct Tale {
    dice: Dice,
    /// What the clocks show, and the places in the order, by server.
    clocks: [(i64, i64, u64); 3],
    is_wild: bool,
}

impl Tale {
    fn of(seed: u64, is_wild: bool) -> Vec<(u16, Vec<Item>)> {
        let mut tale =
            Self { dice: Dice::new(seed), clocks: [(NOW, NOW, 0), (NOW + 60_000_000, NOW, 0), (0, NOW, 0)], is_wild };
        let mut journals: Vec<(u16, Vec<Item>)> = (1..=3).map(|server| (server, Vec::new())).collect();
        for _ in 0..200 {
            let server = [0, 0, 0, 1, 2][tale.dice.below(5)];
            journals[server].1.push(tale.item(server));
        }
        journals
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.dice.below(of.len())]
    }

    fn time(&mut self, server: usize) -> (i64, i64, u64) {
        let by = self.one(&[0, 1, 900, 5000, 1_000_000, 40_000_000]);
        let clock = &mut self.clocks[server];
        (clock.0, clock.1, clock.2) = (clock.0.saturating_add(by), clock.1.saturating_add(by), clock.2 + 1);
        let (mut at, mut real, mut seq) = *clock;
        if self.is_wild {
            match self.dice.below(24) {
                0 => at = self.one(NUMBERS),
                1 => real = self.one(NUMBERS),
                2 => (at, real) = (i64::MIN, i64::MAX),
                3 => (at, real) = (i64::MAX, i64::MIN),
                4 => seq = self.one(&[0, 1, 7, u64::MAX]),
                5 => self.clocks[server].0 = self.one(NUMBERS),
                _ => {}
            }
        }
        (at, real, seq)
    }

    fn word(&mut self) -> Vec<u8> {
        match self.dice.below(9) {
            0..3 => self.one(KEYS).into(),
            3 => self.one(OPTIONS).into(),
            4 => self.one(NUMBERS).to_string().into_bytes(),
            5 => {
                // A time near now, in some unit.
                let offset = i64::try_from(self.dice.below(80)).unwrap_or(0) - 20;
                let seconds = NOW / 1_000_000 + offset;
                let unit = self.one(&["", ".25", "000", "000000", "000000000", "999999999999"]);
                format!("{seconds}{unit}").into_bytes()
            }
            6 if self.is_wild => {
                let length = self.dice.below(80);
                self.dice.bytes(length)
            }
            _ => self.one(TOKENS).into(),
        }
    }

    fn words(&mut self) -> Vec<Vec<u8>> {
        let name = self.one(NAMES);
        let mut words: Vec<Vec<u8>> = vec![name.into()];
        match name {
            "EVAL" | "EVALSHA" | "FCALL" => {
                words.push(self.one(SCRIPTS).into());
                words.push(if self.dice.below(4) > 0 {
                    b"1".to_vec()
                } else {
                    self.one(NUMBERS).to_string().into_bytes()
                });
                words.push(self.one(KEYS).into());
                words.push(self.one(TOKENS).into());
            }
            "SET" if self.dice.below(3) > 0 => {
                words.extend([self.one(KEYS).into(), self.one(TOKENS).into(), b"NX".to_vec(), b"PX".to_vec()]);
                words.push(self.one(&["1000", "30000", "9223372036854775807", "-9223372036854775808"]).into());
            }
            "EXPIRE" | "PEXPIRE" | "EXPIREAT" | "PEXPIREAT" if self.dice.below(3) > 0 => {
                words.extend([self.one(KEYS).into(), self.one(NUMBERS).to_string().into_bytes()]);
            }
            "SETNX" | "DEL" | "GET" | "DELIFEQ" if self.dice.below(3) > 0 => {
                words.extend([self.one(KEYS).into(), self.one(TOKENS).into()]);
            }
            _ => {
                for _ in 0..self.dice.below(7) {
                    let word = self.word();
                    words.push(word);
                }
            }
        }
        if self.is_wild && self.dice.below(16) == 0 {
            let left = self.dice.below(words.len() + 1);
            words.truncate(left);
        }
        words
    }

    fn reply(&mut self) -> Vec<u8> {
        let token = self.one(TOKENS);
        let whole = match self.dice.below(10) {
            0..3 => b":1\r\n".to_vec(),
            3 => b":0\r\n".to_vec(),
            4 | 5 => b"+OK\r\n".to_vec(),
            6 => b"$-1\r\n".to_vec(),
            7 => format!("${}\r\n{token}\r\n", token.len()).into_bytes(),
            8 => format!("*2\r\n${}\r\n{token}\r\n:{}\r\n", token.len(), self.one(NUMBERS)).into_bytes(),
            _ => self
                .one(&[
                    "-ERR no\r\n",
                    "_\r\n",
                    "*-1\r\n",
                    "$9223372036854775807\r\nab",
                    "$-7\r\n",
                    "*99999999999\r\n:1\r\n",
                    "*",
                    "$",
                    "\r",
                    "\r\n",
                    "",
                    "$3\r\nab",
                    ":x\r\n",
                    "#t\r\n",
                    "~1\r\n:1\r\n",
                    "*\r\n",
                    "$1\r\n",
                ])
                .into(),
        };
        match self.is_wild && self.dice.below(12) == 0 {
            true => whole[..self.dice.below(whole.len() + 1)].to_vec(),
            false => whole,
        }
    }

    fn children(&mut self, depth: usize) -> Vec<Child> {
        let count = self.dice.below(4);
        (0..count)
            .map(|_| {
                let (words, reply) = (self.words(), self.reply());
                let children = if depth < 5 && self.dice.below(4) == 0 { self.children(depth + 1) } else { Vec::new() };
                let db = self.one(&[0, 0, 0, 1, u32::MAX]);
                let fault = None;
                Child { db, words, words_missing: 0, reply_length: reply.len() as u64, reply, fault, children }
            })
            .collect()
    }

    fn item(&mut self, server: usize) -> Item {
        let (at, real, seq) = self.time(server);
        let client = self.one(&[2, 3, 4, 5, 5, 6, 0, u64::MAX]);
        let name: &str =
            if client.is_multiple_of(2) { "" } else { self.one(&["worker", "worker", "other\n", "\x1b[2J"]) };
        let (name, address) = (name.as_bytes().to_vec(), "127.0.0.1:1".to_owned());
        let node = self.one(&[None, None, Some("10.0.0.1:7001"), Some("")]).map(str::to_owned);
        if self.dice.below(12) == 0 {
            let kind = self.one(&EventKind::ALL);
            let detail = self.one(DETAILS).to_owned();
            let key = self.one(&[None, None, Some((0, &b"lock:1"[..])), Some((0, b"")), Some((u32::MAX, &[0xff]))]);
            let key = key.map(|(db, key)| (db, key.to_vec()));
            let names: &[&str] = self.one(&[&[], &[""], &["10.0.0.1:7001", "\x1b[2J"]]);
            let had_by = names.iter().map(|name| (*name).to_owned()).collect();
            let event = Event { seq, at, real, kind, client, name, address, process: None, node, detail, key, had_by };
            return Item::Event(event);
        }
        let words = self.words();
        let has_children =
            self.dice.below(8) == 0 || matches!(words.first().map(Vec::as_slice), Some(b"EXEC" | b"EVAL"));
        let reply = self.reply();
        Item::Command(Box::new(Entry {
            seq,
            at,
            real,
            sent: None,
            order: EffectOrder::Total,
            duration: self.one(&[0, 20, u64::MAX]),
            held_after: self.one(&[None, None, None, Some(0), Some(50_000), Some(u64::MAX)]),
            client,
            name,
            address,
            process: None,
            node,
            db: self.one(&[0, 0, 0, 0, 1, u32::MAX]),
            words,
            words_missing: self.one(&[0, 0, 0, 7, u64::MAX]),
            reply_length: reply.len() as u64,
            reply,
            outcome: self.one(&[
                Outcome::Answered,
                Outcome::Answered,
                Outcome::Answered,
                Outcome::Answered,
                Outcome::Lost,
                Outcome::Silent,
                Outcome::NeverRan,
                Outcome::Queued,
            ]),
            fault: None,
            gates: Vec::new(),
            children: if has_children { self.children(0) } else { Vec::new() },
            children_missing: 0,
            are_children_unknown: false,
        }))
    }
}

/// Goes through the lines of some journals in an order that is nobody's.
fn audited(journals: &[(u16, Vec<Item>)], scope: Scope, seed: u64) -> Auditor {
    let mut auditor = auditor(scope, command_table()).with_timeline();
    let mut dice = Dice::new(seed);
    let mut rest: Vec<(u16, &[Item])> = journals.iter().map(|(server, items)| (*server, items.as_slice())).collect();
    while rest.iter().any(|(_, items)| !items.is_empty()) {
        let (server, items) = &mut rest[dice.below(journals.len())];
        if let Some((first, others)) = items.split_first() {
            auditor.process_line(&JournalLine::item(*server, first));
            *items = others;
        }
        if dice.below(100) == 0 {
            auditor.active_locks(|server| (NOW + i64::from(server), NOW));
        }
    }
    auditor.finish();
    auditor
}

fn told_in_every_form(journals: &[(u16, Vec<Item>)], auditor: &Auditor) {
    assert!(report_html(journals, auditor).contains("</html>"));
    for line in report_text(journals, auditor, false).lines() {
        assert!(line.chars().all(|letter| !letter.is_control()), "{line:?}");
    }
    report_text(journals, auditor, true);
    let findings = auditor.findings().to_vec();
    let worlds = [render::WorldFindings {
        findings,
        locks: auditor.lock_count(),
        unlisted: auditor.unlisted(),
        ..Default::default()
    }];
    for line in render::report(&worlds).lines().chain(render::annotations(&worlds).lines()) {
        assert!(line.chars().all(|letter| !letter.is_control()), "{line:?}");
    }
    let junit = render::junit(&worlds, Severity::Note);
    roxmltree::Document::parse(&junit).unwrap_or_else(|error| panic!("{error}:\n{junit}"));
    let sarif = render::sarif(&worlds, |_, _, _, _| None);
    serde_json::from_str::<serde_json::Value>(&sarif).expect("JSON");
    render::summary_line(&worlds);
    for finding in auditor.findings() {
        serde_json::from_slice::<serde_json::Value>(&finding.json()).expect("JSON");
    }
}

fn survives(seed: u64, is_wild: bool) {
    let journals = Tale::of(seed, is_wild);
    let scope = match seed % 3 {
        0 => Scope { locks: vec![b"*".to_vec()], ..Scope::default() },
        _ => Scope::default(),
    };
    let once = audited(&journals, scope.clone(), seed);
    let again = audited(&journals, scope, seed);
    assert_eq!(once.findings(), again.findings(), "seed {seed}");
    told_in_every_form(&journals, &once);
}

/// The seeds of a run; others, or more, by hand: `SEEDS=1000..2000 cargo test --features internals --test audit hostile`.
fn seeds(usual: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let Ok(asked) = std::env::var("SEEDS") else { return usual };
    let (from, to) = asked.split_once("..").expect("SEEDS=from..to");
    from.parse().expect("a number")..to.parse().expect("a number")
}

#[test]
fn whatever_clients_do_with_locks_the_audit_comes_to_an_end() {
    seeds(1..120).for_each(|seed| survives(seed, false));
}

#[test]
fn a_journal_that_makes_no_sense_is_audited_all_the_same() {
    seeds(1..120).for_each(|seed| survives(seed, true));
}

#[test]
fn locks_that_another_connection_has_deleted_are_not_remembered_for_ever() {
    let mut auditor = auditor(Scope::default(), command_table());
    let mut seq = 0;
    let mut feed = |auditor: &mut Auditor, client: u64, words: [&str; 3]| {
        seq += 1;
        let words = words.iter().filter(|word| !word.is_empty()).map(|word| word.as_bytes().to_vec()).collect();
        let at = NOW + i64::try_from(seq).unwrap_or(0);
        let item = Item::Command(Box::new(Entry {
            seq,
            at,
            real: at,
            sent: None,
            order: EffectOrder::Total,
            duration: 1,
            held_after: None,
            client,
            name: Vec::new(),
            address: String::new(),
            process: None,
            node: None,
            db: 0,
            words,
            words_missing: 0,
            reply: b":1\r\n".to_vec(),
            reply_length: 4,
            outcome: Outcome::Answered,
            fault: None,
            gates: Vec::new(),
            children: Vec::new(),
            children_missing: 0,
            are_children_unknown: false,
        }));
        auditor.process_line(&JournalLine::item(1, &item));
    };
    for number in 0..50_000 {
        let key = format!("lock:{number}");
        feed(&mut auditor, 1, ["SETNX", &key, "f47ac10b-58cc-4372-a567-0e02b2c3d479"]);
        feed(&mut auditor, 2, ["DEL", &key, ""]);
    }
    let left = auditor.tracked_keys();
    assert!(left <= 20_000, "{left} keys are watched that the server does not have");
}
