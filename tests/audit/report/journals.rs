//! Journals to report of.

use redouble::internals::{Auditor, Item, Scope, audit, auditor, command_table, journal_of, read_journal};
use redouble::{Code, EffectOrder, Entry, Outcome, Server};

use crate::story::until_closed;
use crate::support::wire::{Frame, Wire};
use crate::support::{Dice, address, spawn_frozen};

pub type Journals = Vec<(u16, Vec<Item>)>;

/// What the auditor makes of journals, whatever rules there are: only who held a lock with another one is told.
pub fn audited(journals: &Journals) -> Auditor {
    let off = Code::ALL.iter().copied().filter(|code| *code != Code::TwoHolders).collect();
    audit(journals.clone(), auditor(Scope { off, ..Scope::default() }, command_table()).with_timeline())
}

/// The same by all rules.
pub fn audited_by_all(journals: &Journals) -> Auditor {
    audit(journals.clone(), auditor(Scope::default(), command_table()).with_timeline())
}

/// The race of the documented pattern, by real clients: C3 has died, C1 and C2 find its lock stale, both delete it and
/// both take it.
pub fn race() -> Journals {
    let server = stage();
    let mut driver = Wire::connect(address(&server));
    let [mut first, mut second, mut third] = ["C1", "C2", "C3"].map(|name| named(&server, name));
    let id = third.ask("CLIENT ID").integer();
    third.ask("SETNX lock.foo 1700000010");
    drop(third);
    until_closed(&server, id);
    driver.ask("REDOUBLE CLOCK ADVANCE 20s");
    first.ask("GET lock.foo");
    second.ask("GET lock.foo");
    first.ask("DEL lock.foo");
    first.ask("SETNX lock.foo 1700000030");
    second.ask("DEL lock.foo");
    second.ask("SETNX lock.foo 1700000030");
    vec![(1, journal_of(&server))]
}

/// Keys, values and names that try to be something else: markup, orders to a terminal, bytes that are no text.
pub fn hostile() -> Journals {
    let server = stage();
    let mut one = named(&server, "</script><img/src=x/onerror=hacked=1>");
    let mut other = named(&server, "<b>&amp;");
    let key = "lock:\x1b[2J</script><script>hacked=1</script>\u{2028}\u{2029}\"'`".as_bytes();
    let value: &[u8] = b"\xff\xfe\x00<!--";
    one.call(&[b"SET", key, value, b"NX", b"PX", b"1000"]);
    other.call(&[b"SET", key, b"b", b"NX", b"PX", b"1000"]);
    other.call(&[b"DEL", key]);
    other.call(&[b"SET", key, b"</script>", b"NX", b"PX", b"1000"]);
    one.call(&[&b"EVAL"[..], b"redis.call('set', KEYS[1], '<i>')", b"1", b"\xf0\x28\x8c\x28<"]);
    let mut items = journal_of(&server);
    // A server takes no such name; whoever writes a journal by hand does.
    for item in &mut items {
        if let Item::Command(entry) = item
            && entry.name == b"<b>&amp;"
        {
            entry.name.extend("\u{202e}\x1b[31m\n".bytes());
        }
    }
    vec![(1, items)]
}

/// So many commands of 24 clients on ten locks and other keys, made up.
pub fn long(count: u64) -> Journals {
    let mut dice = Dice::new(7);
    let mut holders: Vec<Option<u64>> = vec![None; 10];
    let mut items = Vec::new();
    for seq in 1..=count {
        let client = 10 + dice.below(24) as u64;
        // Nobody takes a second lock, so nobody waits for two.
        let held = holders.iter().position(|holder| *holder == Some(client));
        let lock = held.unwrap_or_else(|| dice.below(holders.len()));
        let key = format!("lock:item:{lock}");
        let (line, reply) = match dice.below(6) {
            0..=1 if held.is_some() => {
                holders[lock] = None;
                (format!("DEL {key}"), ":1\r\n")
            }
            0..=3 if held.is_none() => {
                let is_free = holders[lock].is_none();
                if is_free {
                    holders[lock] = Some(client);
                }
                (format!("SET {key} token-{seq} NX PX 60000"), if is_free { "+OK\r\n" } else { "$-1\r\n" })
            }
            _ => (format!("INCR counter:{}", dice.below(40)), ":5\r\n"),
        };
        let at = 1_700_000_000_000_000 + i64::try_from(seq).expect("a small number") * 400;
        items.push(Item::Command(Box::new(Entry {
            seq,
            at,
            real: at,
            sent: None,
            order: EffectOrder::Total,
            duration: 90,
            held_after: None,
            client,
            name: format!("worker-{client}").into_bytes(),
            address: format!("127.0.0.1:{}", 40_000 + client),
            process: None,
            node: None,
            db: 0,
            words: line.split(' ').map(|word| word.as_bytes().to_vec()).collect(),
            words_missing: 0,
            reply: reply.as_bytes().to_vec(),
            reply_length: reply.len() as u64,
            outcome: Outcome::Answered,
            fault: None,
            gates: Vec::new(),
            children: Vec::new(),
            children_missing: 0,
            are_children_unknown: false,
        })));
    }
    vec![(1, items)]
}

/// So many commands on locks whose names have random parts: clients with short and long names delete and overwrite each other's
/// locks, at times that are microseconds and minutes apart. Many findings, of many kinds.
pub fn crowded(count: u64) -> Journals {
    const NAMES: [&str; 5] =
        ["w", "importer-1", "", "a-worker-whose-name-nobody-has-ever-shortened-at-all", "two words"];
    let mut dice = Dice::new(11);
    let mut held = [false; 4];
    let mut at = 1_700_000_000_000_000_u64;
    let mut lines = Vec::new();
    for seq in 1..=count {
        at += [3, 40, 900, 70_000, 20_000_000][dice.below(5)];
        let client = dice.below(9);
        let lock = dice.below(held.len());
        let key = format!("lock:order:{:08x}", (lock as u64 + 1) * 0x9e37_79b9 % 0xffff_fffb);
        let (command, raw) = match dice.below(4) {
            0 | 1 if !held[lock] => {
                held[lock] = true;
                (format!(r#"["SET","{key}","token-{seq}","NX","PX","90000000"]"#), "+OK")
            }
            0 | 1 => (format!(r#"["SET","{key}","token-{seq}","NX","PX","90000000"]"#), "$-1"),
            2 => (format!(r#"["DEL","{key}"]"#), if std::mem::take(&mut held[lock]) { ":1" } else { ":0" }),
            _ => {
                held[lock] = true;
                (format!(r#"["SET","{key}","token-{seq}","PX","90000000"]"#), "+OK")
            }
        };
        let name = NAMES[client % NAMES.len()];
        lines.push(format!(
            r#"{{"seq":{seq},"time_us":{at},"client":{},"name":"{name}","command":{command},"raw":"{raw}\r\n"}}"#,
            client + 1
        ));
    }
    let mut items = Vec::new();
    read_journal(lines.join("\n").as_bytes(), |item| items.push(item)).expect("lines of a journal");
    vec![(1, items)]
}

/// A lock that two clients have, each on another node, because the first one's was replaced while a third waited.
pub fn failover() -> Journals {
    let lines = [
        r#"{"seq":1,"time_us":1700000000000000,"client":1,"name":"one","node":"10.0.0.1:7001","command":["SET","lock","a","NX","PX","9000"],"raw":"+OK\r\n"}"#,
        r#"{"seq":2,"time_us":1700000000050000,"client":2,"name":"two","node":"10.0.0.1:7001","command":["SET","lock","b","NX","PX","9000"],"raw":"$-1\r\n"}"#,
        r#"{"seq":3,"time_us":1700000000100000,"event":"promoted","node":"10.0.0.2:7002","detail":"10.0.0.1:7001"}"#,
        r#"{"seq":4,"time_us":1700000000200000,"client":3,"name":"three","node":"10.0.0.2:7002","command":["SET","lock","c","NX","PX","9000"],"raw":"+OK\r\n"}"#,
    ];
    let mut items = Vec::new();
    read_journal(lines.join("\n").as_bytes(), |item| items.push(item)).expect("lines of a journal");
    vec![(1, items)]
}

/// A server whose clock stands at a time that is the same in every run, and which keeps a journal.
fn stage() -> Server {
    let server = spawn_frozen();
    let mut driver = Wire::connect(address(&server));
    assert_eq!(driver.ask("REDOUBLE CLOCK SET 1700000000000"), Frame::status("OK"));
    assert_eq!(driver.ask("REDOUBLE JOURNAL ON"), Frame::status("OK"));
    server
}

fn named(server: &Server, name: &str) -> Wire {
    let mut wire = Wire::connect(address(server));
    assert_eq!(wire.call(&["CLIENT", "SETNAME", name]), Frame::status("OK"));
    wire
}
