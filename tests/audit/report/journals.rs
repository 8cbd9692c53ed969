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

/// Two servers, of which the second one takes the place of the first before it has got the lock that this has given. It gives it again.
pub fn lost_lock() -> Journals {
    let first = [
        r#"{"seq":1,"time_us":1700000000000000,"event":"link","node":"127.0.0.1:7001","detail":"held"}"#,
        r#"{"seq":2,"time_us":1700000000010000,"event":"link","node":"127.0.0.1:7002","detail":"late by 200ms"}"#,
        r#"{"seq":3,"time_us":1700000000100000,"client":1,"name":"alice","command":["SET","order:lock","6f1c9a83b1d24e67","NX","PX","30000"],"raw":"+OK\r\n"}"#,
        r#"{"seq":4,"time_us":1700000000150000,"client":1,"name":"alice","command":["WAIT","1","100"],"raw":":1\r\n"}"#,
        r#"{"seq":5,"time_us":1700000000200010,"event":"lost","node":"127.0.0.1:7001","detail":"order:lock","db":0,"key":"order:lock","had_by":["127.0.0.1:7002"]}"#,
        r#"{"seq":6,"time_us":1700000000200020,"event":"replaced","node":"127.0.0.1:7001","detail":"follows"}"#,
    ];
    let second = [
        r#"{"seq":1,"time_us":1700000000200000,"event":"promoted","node":"127.0.0.1:7001","detail":"127.0.0.1:7000"}"#,
        r#"{"seq":2,"time_us":1700000000300000,"client":1,"name":"bob","command":["SET","order:lock","91e7c2d40a8b36f5","NX","PX","30000"],"raw":"+OK\r\n"}"#,
        r#"{"seq":3,"time_us":1700000000400000,"client":1,"name":"bob","command":["DELIFEQ","order:lock","91e7c2d40a8b36f5"],"raw":":1\r\n"}"#,
    ];
    let read = |lines: &[&str]| {
        let mut items = Vec::new();
        read_journal(lines.join("\n").as_bytes(), |item| items.push(item)).expect("lines of a journal");
        items
    };
    vec![(1, read(&first)), (2, read(&second))]
}

/// Two programs with a connection for locks and one for data each, which give their lock up before they write: the change of
/// one is lost. The line of a client is its number, when it sent it in milliseconds, the command, and the reply.
pub fn given_up_early() -> Journals {
    told(&[
        (1, 0, "SET cursor 1000", "+OK"),
        (2, 900, "SET export:lock a1b2c3d4e5f6a7b8 NX EX 30", "+OK"),
        (3, 901, "GET cursor", "$4\r\n1000"),
        (2, 902, "DEL export:lock", ":1"),
        (4, 910, "SET export:lock 8b7a6f5e4d3c2b1a NX EX 30", "+OK"),
        (5, 911, "GET cursor", "$4\r\n1000"),
        (4, 912, "DEL export:lock", ":1"),
        (5, 913, "SET cursor 1005", "+OK"),
        (3, 920, "SET cursor 1010", "+OK"),
        (1, 930, "GET cursor", "$4\r\n1010"),
    ])
}

/// Two programs read a key, watch it only then, and write the same.
pub fn watched_late() -> Journals {
    told(&[
        (1, 0, "SET free seat-A1,seat-A2,seat-A3", "+OK"),
        (2, 5, "GET free", "$23\r\nseat-A1,seat-A2,seat-A3"),
        (4, 6, "GET free", "$23\r\nseat-A1,seat-A2,seat-A3"),
        (2, 7, "WATCH free", "+OK"),
        (2, 8, "MULTI", "+OK"),
        (2, 9, "SET free seat-A2,seat-A3", "+QUEUED"),
        (2, 10, "EXEC", "*1\r\n+OK"),
        (4, 11, "WATCH free", "+OK"),
        (4, 12, "MULTI", "+OK"),
        (4, 13, "SET free seat-A2,seat-A3", "+QUEUED"),
        (4, 14, "EXEC", "*1\r\n+OK"),
    ])
}

/// Somebody deletes a lock by hand, and a second program comes in: its change is lost.
pub fn unlocked_by_hand() -> Journals {
    told(&[
        (1, 0, "SET rows 0", "+OK"),
        (2, 1, "SET migration:lock a1b2c3d4e5f6a7b8 NX PX 60000", "+OK"),
        (2, 2, "GET rows", "$1\r\n0"),
        (6, 10, "DEL migration:lock", ":1"),
        (4, 20, "SET migration:lock 8b7a6f5e4d3c2b1a NX PX 60000", "+OK"),
        (4, 21, "GET rows", "$1\r\n0"),
        (4, 22, "SET rows 30", "+OK"),
        (2, 30, "SET rows 400", "+OK"),
    ])
}

/// A lock expires during the work, and what somebody else has written meanwhile is lost.
pub fn written_late() -> Journals {
    told(&[
        (1, 0, "SET rows 0", "+OK"),
        (2, 1, "SET migration:lock a1b2c3d4e5f6a7b8 NX PX 100", "+OK"),
        (2, 2, "GET rows", "$1\r\n0"),
        (4, 150, "SET migration:lock 8b7a6f5e4d3c2b1a NX PX 60000", "+OK"),
        (4, 151, "GET rows", "$1\r\n0"),
        (4, 152, "SET rows 30", "+OK"),
        (2, 200, "SET rows 400", "+OK"),
    ])
}

/// Two programs write what they have computed from one read, in a recording that has hashes in place of values.
pub fn hashed() -> Journals {
    told(&[
        (2, 1, "GET rows", "$18\r\nh:00112233445566aa"),
        (4, 2, "GET rows", "$18\r\nh:00112233445566aa"),
        (4, 3, "SET rows h:00112233445566bb", "+OK"),
        (2, 4, "SET rows h:00112233445566cc", "+OK"),
    ])
}

/// Two programs count who is in a sorted set, and then add themselves.
pub fn counted_then_added() -> Journals {
    told(&[
        (2, 1, "ZCARD room", ":0"),
        (4, 2, "ZCARD room", ":0"),
        (2, 3, "ZADD room 1 member-north", ":1"),
        (4, 4, "ZADD room 2 member-south", ":1"),
        (2, 9, "ZREM room member-north", ":1"),
        (4, 10, "ZREM room member-south", ":1"),
    ])
}

/// A journal of programs: clients 2 and 3 are `worker.py north`, 4 and 5 `worker.py south`, 6 is redis-cli.
fn told(lines: &[(u64, u64, &str, &str)]) -> Journals {
    let programs =
        ["python setup.py", "python worker.py north", "python worker.py south", "redis-cli DEL migration:lock"];
    let mut items = Vec::new();
    let mut queued: Vec<(u64, Vec<&str>)> = Vec::new();
    let mut text = String::new();
    for (seq, (client, at, command, raw)) in lines.iter().enumerate() {
        let words: Vec<&str> = command.split(' ').collect();
        let process = usize::try_from(client / 2).expect("a small number");
        let time = 1_700_000_000_000_000 + at * 1000;
        let is_exec = words[0] == "EXEC";
        let children: Vec<_> = queued
            .extract_if(.., |(of, _)| is_exec && of == client)
            .map(|(_, words)| serde_json::json!({ "db": 0, "command": words, "raw": "+OK\r\n" }))
            .collect();
        if *raw == "+QUEUED" {
            queued.push((*client, words.clone()));
        }
        let line = serde_json::json!({
            "seq": seq + 1, "time_us": time, "client": client, "address": format!("127.0.0.1:{}", 5000 + client),
            "pid": 100 + process, "program": programs[process], "process_started_us": 1_699_999_000_000_000_u64, "parent_pid": 1,
            "command": words, "raw": format!("{raw}\r\n"), "children": children,
            "outcome": if *raw == "+QUEUED" { "queued" } else { "answered" },
        });
        text.push_str(&format!("{line}\n"));
    }
    read_journal(text.as_bytes(), |item| items.push(item)).expect("lines of a journal");
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
