//! The journal: which commands clients have sent, in which order they took effect, and with which outcome.
//!
//! No test waits for time to pass: REDOUBLE JOURNAL AWAIT and REDOUBLE GATE WAIT tell that something has happened.

use std::collections::BTreeMap;
use std::thread;

use redouble::Server;

use crate::support::wire::{Frame, Wire, request};
use crate::support::{address, start, wait_until};

const ALL: usize = 64 << 20;

fn journalled() -> (Server, Wire) {
    let server = start(Server::builder().journal(ALL).enable_paths_outside_dir());
    let driver = Wire::connect(address(&server));
    (server, driver)
}

/// A map reply, by field name.
type Fields = BTreeMap<String, Frame>;

fn fields(map: &Frame) -> Fields {
    map.items().chunks(2).map(|pair| (pair[0].text(), pair[1].clone())).collect()
}

fn list(driver: &mut Wire, question: &str) -> Vec<Fields> {
    let reply = driver.ask(&format!("REDOUBLE JOURNAL LIST {question}"));
    assert!(!reply.is_error(), "{reply:?}");
    reply.items().iter().map(fields).collect()
}

fn command(entry: &Fields) -> String {
    entry["command"].items().iter().map(Frame::text).collect::<Vec<_>>().join(" ")
}

fn commands(entries: &[Fields]) -> Vec<String> {
    entries.iter().map(command).collect()
}

fn children(entry: &Fields) -> Vec<Fields> {
    entry["children"].items().iter().map(fields).collect()
}

fn count(driver: &mut Wire, question: &str) -> i64 {
    driver.ask(&format!("REDOUBLE JOURNAL COUNT {question}")).integer()
}

fn wait_for(driver: &mut Wire, question: &str) {
    let reply = driver.ask(&format!("REDOUBLE JOURNAL AWAIT {question}"));
    assert!(!reply.is_error(), "{reply:?}");
}

fn send(client: &mut Wire, line: &str) {
    client.send(&request(&line.split_whitespace().collect::<Vec<_>>()));
}

#[test]
fn a_retry_that_ran_twice_stands_there_twice() {
    let (server, mut driver) = journalled();
    driver.ask("REDOUBLE FAULT ADD cut on INCR times 1 close-after");
    // The client retries as a library does whose reply is lost.
    let mut client = Wire::connect(address(&server));
    send(&mut client, "INCR paid");
    assert!(client.is_closed());
    let mut client = Wire::connect(address(&server));
    assert_eq!(client.ask("INCR paid"), Frame::Integer(2));

    let entries = list(&mut driver, "on INCR key paid");
    assert_eq!(commands(&entries), ["INCR paid", "INCR paid"]);
    assert_eq!(entries[0]["outcome"].text(), "lost");
    assert_eq!(entries[0]["fault"].text(), "cut");
    assert_eq!(entries[0]["reply"].text(), "(integer) 1");
    assert_eq!(entries[1]["outcome"].text(), "answered");
    assert_eq!(entries[1]["raw"].text(), ":2\r\n");
    assert_ne!(entries[0]["client"], entries[1]["client"]);
}

#[test]
fn a_lost_reply_is_told_apart_from_a_command_that_never_ran() {
    let (server, mut driver) = journalled();
    for (name, verdict, outcome) in [
        ("a", "close-before", "never-ran"),
        ("b", "reset", "never-ran"),
        ("c", "close-after", "lost"),
        ("d", "truncate 2", "lost"),
        ("e", "drip 1 every 1ms", "answered"),
        ("f", "delay 1ms", "answered"),
    ] {
        driver.ask(&format!("REDOUBLE FAULT ADD {name} on SETNX key {name} {verdict}"));
        let mut client = Wire::connect(address(&server));
        send(&mut client, &format!("SETNX {name} 1"));
        wait_for(&mut driver, &format!("on SETNX key {name} 1"));
        let entries = list(&mut driver, &format!("on SETNX key {name}"));
        assert_eq!(entries[0]["outcome"].text(), outcome, "{verdict}");
        assert_eq!(entries[0]["fault"].text(), name);
        let is_there = driver.ask(&format!("EXISTS {name}"));
        assert_eq!(is_there, Frame::Integer(i64::from(outcome != "never-ran")), "{verdict}");
    }
}

#[test]
fn an_error_of_a_rule_says_which_rule_it_was() {
    let (_server, mut driver) = journalled();
    driver.call(&["REDOUBLE", "FAULT", "ADD", "busy", "on", "SET", "error", "BUSY later"]);
    driver.ask("SET k v");
    let entries = list(&mut driver, "fault busy");
    assert_eq!(entries[0]["reply"].text(), "(error) BUSY later");
    assert_eq!(entries[0]["outcome"].text(), "answered");
    assert_eq!(count(&mut driver, "reply (error)*"), 1);
    assert_eq!(count(&mut driver, "on SET outcome lost"), 0);
}

#[test]
fn the_order_is_the_one_in_which_commands_took_effect_and_not_in_which_they_came() {
    let (server, mut driver) = journalled();
    let (mut first, mut second) = (Wire::connect(address(&server)), Wire::connect(address(&server)));
    first.ask("CLIENT SETNAME first");
    second.ask("CLIENT SETNAME second");
    driver.ask("REDOUBLE GATE ADD door on SET client first");
    send(&mut first, "SET k 1");
    driver.ask("REDOUBLE GATE WAIT door");
    second.ask("SET k 2");
    driver.ask("REDOUBLE GATE OPEN door");
    first.expect();

    let entries = list(&mut driver, "on SET");
    assert_eq!(commands(&entries), ["SET k 2", "SET k 1"]);
    assert_eq!(entries[1]["name"].text(), "first");
    assert_eq!(entries[1]["gates"], Frame::Array(vec![Frame::bulk("door")]));
    assert_eq!(entries[0]["gates"], Frame::Array(vec![]));
    assert!(entries[1]["duration-us"].integer() > 0);
}

#[test]
fn who_waits_takes_effect_when_somebody_lets_it() {
    let (server, mut driver) = journalled();
    let mut worker = Wire::connect(address(&server));
    send(&mut worker, "BLPOP jobs 0");
    driver.ask_until("INFO clients", |info| info.contains("blocked_clients:1"));
    driver.ask("REDOUBLE JOURNAL CLEAR");
    driver.ask("RPUSH jobs a");
    worker.expect();
    driver.ask("SET after 1");

    wait_for(&mut driver, "on BLPOP 1");
    let entries = list(&mut driver, "");
    assert_eq!(commands(&entries), ["RPUSH jobs a", "BLPOP jobs 0", "SET after 1"]);
    assert_eq!(entries[1]["reply"].text(), r#"["jobs", "a"]"#);
    let places: Vec<i64> = entries.iter().map(|entry| entry["seq"].integer()).collect();
    assert_eq!(places[2] - places[0], 2, "{places:?}");
}

#[test]
fn threads_agree_on_the_order() {
    const CLIENTS: usize = 8;
    const EACH: usize = 200;
    let server = start(Server::builder().threads(4).journal(ALL));
    let address = address(&server);
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(move || {
                let mut client = Wire::connect(address);
                let trip = request(&["INCR", "n"]).repeat(10);
                for _ in 0..EACH / 10 {
                    client.send(&trip);
                    (0..10).for_each(|_| drop(client.expect()));
                }
            });
        }
    });
    let mut driver = Wire::connect(address);
    let entries = list(&mut driver, "on INCR limit 10000");
    let replies: Vec<String> = entries.iter().map(|entry| entry["reply"].text()).collect();
    let expected: Vec<String> = (1..=CLIENTS * EACH).map(|n| format!("(integer) {n}")).collect();
    assert_eq!(replies, expected);
}

#[test]
fn nothing_is_missing_without_being_counted() {
    let server = start(Server::builder().journal(256 << 10));
    let mut driver = Wire::connect(address(&server));
    const SENT: usize = 20_000;
    let trip: Vec<u8> =
        (0..SENT).flat_map(|n| request(&["SET".to_owned(), format!("key:{n}"), "v".repeat(n % 40)])).collect();
    let mut client = Wire::connect(address(&server));
    let mut sender = client.tcp().try_clone().expect("a second handle");
    let sending = thread::spawn(move || std::io::Write::write_all(&mut sender, &trip));
    (0..SENT).for_each(|_| drop(client.expect()));
    sending.join().expect("a thread that ends").expect("a socket that takes everything");

    let info = fields(&driver.ask("REDOUBLE JOURNAL INFO"));
    let (entries, forgotten) = (info["entries"].integer(), info["forgotten"].integer());
    assert_eq!(entries + forgotten, SENT as i64);
    assert!(forgotten > 0 && entries > 500, "{info:?}");
    assert!(info["bytes"].integer() <= 256 << 10, "{info:?}");
    // The oldest entries are dropped.
    assert_eq!(count(&mut driver, "key key:0"), 0);
    let last = list(&mut driver, "limit 1");
    assert_eq!(last[0]["seq"].integer(), SENT as i64);
    assert_eq!(command(&last[0]), format!("SET key:{} {}", SENT - 1, "v".repeat((SENT - 1) % 40)));
    assert_eq!(count(&mut driver, &format!("since {}", SENT - 10)), 10);
}

#[test]
fn a_hundred_spaces_do_not_remember_more_together_than_they_may() {
    const MOST: usize = 2 << 20;
    let server = start(Server::builder().journal(64 << 20).journal_memory(MOST));
    let enter = |space: &str| {
        let mut wire = Wire::connect(address(&server));
        wire.ask(&format!("REDOUBLE SPACE {space}"));
        wire
    };
    let info = |wire: &mut Wire| fields(&wire.ask("REDOUBLE JOURNAL INFO"));
    let mut quiet = enter("quiet");
    (0..20).for_each(|n| drop(quiet.ask(&format!("SET quiet:{n} 1"))));

    const SPACES: usize = 100;
    const SENT: usize = 300;
    let value = "v".repeat(200);
    let trip: Vec<u8> = (0..SENT).flat_map(|n| request(&["SET", &format!("key:{n}"), &value])).collect();
    let mut spaces: Vec<Wire> = (0..SPACES).map(|n| enter(&format!("busy{n}"))).collect();
    for wire in &mut spaces {
        wire.send(&trip);
        (0..SENT).for_each(|_| drop(wire.expect()));
        let info = info(wire);
        assert_eq!(info["most-bytes-together"].integer(), MOST as i64);
        let together = info["bytes-together"].integer();
        assert!((1..=MOST as i64).contains(&together), "{info:?}");
    }
    let mut forgotten = Vec::new();
    for wire in &mut spaces {
        let info = info(wire);
        // INFO is no entry.
        assert_eq!(info["entries"].integer() + info["forgotten"].integer(), SENT as i64, "{info:?}");
        forgotten.push(info["forgotten"].integer());
    }
    // So much does not fit, and all have forgotten about as much.
    let all: i64 = forgotten.iter().sum();
    assert!(all > (SPACES * SENT) as i64 / 2, "{forgotten:?}");
    assert!(forgotten.iter().all(|count| *count > 0), "{forgotten:?}");
    let info = info(&mut quiet);
    assert_eq!((info["entries"].integer(), info["forgotten"].integer()), (20, 0), "{info:?}");
    // Who goes makes room.
    let before = info["bytes-together"].integer();
    let mut driver = Wire::connect(address(&server));
    (0..SPACES).for_each(|n| drop(driver.ask(&format!("REDOUBLE SPACES DROP busy{n}"))));
    wait_until("the spaces are gone", || {
        fields(&driver.ask("REDOUBLE JOURNAL INFO"))["bytes-together"].integer() < before / 4
    });
}

#[test]
fn a_journal_cannot_be_given_more_than_all_may_have() {
    let server = start(Server::builder().journal(64 << 20).journal_memory(1 << 20));
    let mut driver = Wire::connect(address(&server));
    assert_eq!(fields(&driver.ask("REDOUBLE JOURNAL INFO"))["most-bytes"].integer(), 1 << 20);
    let refused = driver.ask("REDOUBLE JOURNAL ON 2mb").text();
    assert_eq!(refused, "ERR all journals together may take 1048576 bytes (journal-memory)");
    assert_eq!(driver.ask("REDOUBLE JOURNAL ON 512kb"), Frame::status("OK"));
    assert_eq!(fields(&driver.ask("REDOUBLE JOURNAL INFO"))["most-bytes"].integer(), 512 << 10);
    assert_eq!(driver.ask("REDOUBLE JOURNAL ON"), Frame::status("OK"));
    assert_eq!(fields(&driver.ask("REDOUBLE JOURNAL INFO"))["most-bytes"].integer(), 1 << 20);
}

#[test]
fn a_test_waits_for_a_command_instead_of_asking_again_and_again() {
    let (server, mut driver) = journalled();
    send(&mut driver, "REDOUBLE JOURNAL AWAIT on SET key order:* reply OK 3 60s");
    let mut worker = Wire::connect(address(&server));
    for n in 0..5 {
        assert!(n >= 3 || !driver.has_reply());
        worker.ask(&format!("SET order:{n} 1"));
        worker.ask(&format!("SETNX order:{n} 1"));
        worker.ask(&format!("SET other:{n} 1"));
    }
    assert!(driver.expect().integer() >= 3);
}

#[test]
fn waiting_in_vain_says_what_came_instead() {
    let (server, mut driver) = journalled();
    let mut worker = Wire::connect(address(&server));
    worker.ask("SET order:1 1");
    worker.ask("SET ordre:7 1");
    worker.ask("PING");
    let reply = driver.ask("REDOUBLE JOURNAL AWAIT on SET key order:7 1 5ms").text();
    assert!(reply.starts_with("TIMEOUT 0 of 1 commands after 5ms; nearest: SET "), "{reply}");
    assert!(reply.contains("SET order:1 1") && reply.contains("SET ordre:7 1"), "{reply}");

    let near = driver.ask("REDOUBLE JOURNAL NEAR SET order:7 1");
    let near: Vec<Fields> = near.items().iter().map(fields).collect();
    assert_eq!(command(&near[0]), "SET order:1 1");
    assert_eq!(near[0]["distance"], Frame::Integer(1));
    assert_eq!(command(&near[2]), "PING");
}

#[test]
fn passwords_do_not_stand_in_the_journal() {
    let server = start(Server::builder().journal(ALL).enable_paths_outside_dir());
    let mut client = Wire::connect(address(&server));
    let secret = "hunter2secret";
    for line in [
        "AUTH {} x y z",
        "ACL SETUSER bob on >{} ~* +@all",
        "AUTH bob {}",
        "HELLO 2 AUTH bob {}",
        "HELLO 3 AUTH bob {} SETNAME x",
        "HELLO 2",
        "CONFIG SET requirepass {}",
        "CONFIG GET *pass*",
        "CONFIG SET maxmemory 0 requirepass {}",
        "AUTH {}",
        "MULTI",
        "CONFIG SET requirepass {}",
        "EXEC",
    ] {
        client.ask(&line.replace("{}", secret));
    }
    let path = std::env::temp_dir().join(format!("redouble-journal-secrets-{}.jsonl", std::process::id()));
    let count = client.ask(&format!("REDOUBLE JOURNAL EXPORT {}", path.display())).integer();
    let text = std::fs::read_to_string(&path).expect("an export");
    std::fs::remove_file(&path).expect("a file to remove");
    assert_eq!(count, 13);
    assert!(!text.contains(secret), "{text}");
    assert!(text.contains(r#"["HELLO","2","AUTH","(redacted)","(redacted)"]"#), "{text}");
    assert!(text.contains(r#"["CONFIG","SET","maxmemory","0","requirepass","(redacted)"]"#), "{text}");
}

#[test]
fn what_exec_and_scripts_have_run_stands_inside_them() {
    let (_server, mut driver) = journalled();
    driver.ask("MULTI");
    driver.ask("SET a 1");
    driver.call(&["EVAL", "redis.call('INCR', KEYS[1]); return redis.pcall('LPUSH', KEYS[1], 'x')", "1", "a"]);
    driver.ask("EXEC");
    driver.call(&["EVAL", "return redis.call('GET', KEYS[1])", "1", "a"]);

    let entries = list(&mut driver, "");
    let outcomes: Vec<String> = entries.iter().map(|entry| entry["outcome"].text()).collect();
    assert_eq!(outcomes, ["answered", "queued", "queued", "answered", "answered"]);
    let inside = children(&entries[3]);
    assert_eq!(commands(&inside)[0], "SET a 1");
    assert_eq!(inside[0]["reply"].text(), "OK");
    let called = children(&inside[1]);
    assert_eq!(commands(&called), ["INCR a", "LPUSH a x"]);
    assert_eq!(called[0]["reply"].text(), "(integer) 2");
    assert!(called[1]["reply"].text().starts_with("(error) WRONGTYPE"), "{called:?}");
    assert_eq!(commands(&children(&entries[4])), ["GET a"]);

    // The command is sent once and runs once.
    assert_eq!(count(&mut driver, "on SET"), 1);
    assert_eq!(count(&mut driver, "children on SET"), 1);
    assert_eq!(count(&mut driver, "on INCR"), 0);
    assert_eq!(count(&mut driver, "children on INCR key a"), 1);
    assert_eq!(list(&mut driver, "children on INCR")[0]["seq"], entries[3]["seq"]);
}

#[test]
fn a_rule_inside_a_transaction_stands_with_the_command_that_met_it() {
    let (_server, mut driver) = journalled();
    driver.call(&["REDOUBLE", "FAULT", "ADD", "busy", "on", "INCR", "error", "BUSY later"]);
    driver.ask("MULTI");
    driver.ask("SET a 1");
    driver.ask("INCR a");
    driver.ask("EXEC");
    driver.call(&["EVAL", "return redis.pcall('INCR', KEYS[1])", "1", "a"]);
    let entries = list(&mut driver, "children fault busy");
    assert_eq!(commands(&entries)[0], "EXEC");
    let inside = children(&entries[0]);
    assert_eq!(inside[1]["fault"].text(), "busy");
    assert_eq!(inside[1]["reply"].text(), "(error) BUSY later");
    assert_eq!(children(&entries[1])[0]["fault"].text(), "busy");
}

#[test]
fn a_client_that_goes_while_it_waits_has_done_nothing() {
    let (server, mut driver) = journalled();
    let mut waiter = Wire::connect(address(&server));
    send(&mut waiter, "BLPOP jobs 0");
    driver.ask_until("INFO clients", |info| info.contains("blocked_clients:1"));
    driver.ask("REDOUBLE GATE ADD door on SET");
    let mut held = Wire::connect(address(&server));
    send(&mut held, "SET k 1");
    driver.ask("REDOUBLE GATE WAIT door");
    driver.ask("REDOUBLE GATE ADD exit on DEL after");
    let mut leaving = Wire::connect(address(&server));
    send(&mut leaving, "DEL k");
    driver.ask("REDOUBLE GATE WAIT exit");
    drop((waiter, held, leaving));

    wait_for(&mut driver, "outcome never-ran 2");
    let entries = list(&mut driver, "outcome never-ran");
    let mut gone = commands(&entries);
    gone.sort();
    assert_eq!(gone, ["BLPOP jobs 0", "SET k 1"]);
    // This command had run when its client disconnected.
    wait_for(&mut driver, "on DEL outcome lost 1");
    assert_eq!(list(&mut driver, "on DEL")[0]["reply"].text(), "(integer) 0");
}

#[test]
fn a_reply_that_its_client_did_not_stay_for_is_lost() {
    let (server, mut driver) = journalled();
    driver.ask("SETRANGE big 30000000 x");
    let mut client = Wire::connect(address(&server));
    client.ask("PING");
    send(&mut client, "GET big");
    send(&mut client, "INCR paid");
    wait_for(&mut driver, "on INCR 1");
    assert_eq!(count(&mut driver, "outcome lost"), 0);
    drop(client);
    wait_for(&mut driver, "outcome lost 2");
    assert_eq!(commands(&list(&mut driver, "outcome lost")), ["GET big", "INCR paid"]);
    let entry = &list(&mut driver, "on GET")[0];
    assert_eq!(entry["reply-length"].integer(), 30_000_001 + 13);
    assert_eq!(entry["raw"].text().len(), 16 * 1024);
}

#[test]
fn a_client_that_wants_no_reply_has_lost_none() {
    let (_server, mut driver) = journalled();
    driver.send(&request(&["CLIENT", "REPLY", "OFF"]));
    driver.send(&request(&["SET", "k", "1"]));
    driver.ask("CLIENT REPLY ON");
    let entries = list(&mut driver, "on SET");
    assert_eq!(entries[0]["outcome"].text(), "silent");
    assert_eq!(entries[0]["reply"].text(), "");
}

#[test]
fn a_client_is_told_of_by_the_name_that_it_had_then() {
    let (server, mut driver) = journalled();
    let mut client = Wire::connect(address(&server));
    client.ask("PING");
    client.ask("CLIENT SETNAME one");
    client.ask("ECHO 1");
    client.ask("HELLO 2 SETNAME two");
    client.ask("ECHO 2");
    client.ask("RESET");
    client.ask("ECHO 3");
    let names: Vec<String> = list(&mut driver, "").iter().map(|entry| entry["name"].text()).collect();
    assert_eq!(names, ["", "one", "one", "two", "two", "", ""]);
    let own = client.tcp().local_addr().expect("an address").to_string();
    assert!(list(&mut driver, "client two").iter().all(|entry| entry["address"].text() == own));
    assert_eq!(count(&mut driver, "client o*"), 2);
}

#[test]
fn time_is_the_servers_and_the_machines() {
    let (server, mut driver) = journalled();
    driver.ask("REDOUBLE CLOCK FREEZE 1700000000000");
    driver.ask("SET k v PX 1500");
    driver.ask("PING");
    driver.ask("REDOUBLE CLOCK ADVANCE 2s");
    driver.ask("GET k");
    let entries = list(&mut driver, "");
    let times: Vec<i64> = entries.iter().map(|entry| entry["time-us"].integer()).collect();
    assert_eq!(times, [1_700_000_000_000_000, 1_700_000_000_000_000, 1_700_000_002_000_000]);
    let real: Vec<i64> = entries.iter().map(|entry| entry["real-time-us"].integer()).collect();
    assert!(real.is_sorted() && real[0] > 1_700_000_100_000_000, "{real:?}");
    drop(server);
}

#[test]
fn a_journal_that_was_never_on_does_not_say_that_nothing_came() {
    let server = start(Server::builder());
    let mut driver = Wire::connect(address(&server));
    driver.ask("SET k v");
    for question in ["LIST", "COUNT on SET", "AWAIT 1 60s", "NEAR SET", "EXPORT /nowhere/at/all"] {
        let reply = driver.ask(&format!("REDOUBLE JOURNAL {question}")).text();
        assert_eq!(reply, "ERR the journal was never on; REDOUBLE JOURNAL ON begins it", "{question}");
    }
    driver.ask("REDOUBLE JOURNAL ON 1mb");
    assert_eq!(count(&mut driver, ""), 0);
    driver.ask("SET k v");
    driver.ask("REDOUBLE JOURNAL OFF");
    driver.ask("SET k w");
    assert_eq!(commands(&list(&mut driver, "")), ["SET k v"]);
    let reply = driver.ask("REDOUBLE JOURNAL AWAIT 2 60s").text();
    assert!(reply.starts_with("ERR 1 of 2 commands, and the journal is off; nearest: SET k v"), "{reply}");
}

#[test]
fn nobody_waits_for_a_journal_that_is_switched_off_or_emptied() {
    let (server, mut driver) = journalled();
    let mut waiting = Wire::connect(address(&server));
    waiting.ask("SET a 1");
    send(&mut waiting, "REDOUBLE JOURNAL AWAIT on SET 2 60s");
    // The connections share a thread, so this reply means that the server has read JOURNAL AWAIT.
    driver.ask("PING");
    driver.ask("REDOUBLE JOURNAL CLEAR");
    driver.ask("SET b 1");
    driver.ask("REDOUBLE JOURNAL OFF");
    let reply = waiting.expect();
    assert!(reply == Frame::Integer(2) || reply.text().starts_with("ERR 1 of 2 commands"), "{reply:?}");
}

#[test]
fn pages_follow_each_other() {
    let (_server, mut driver) = journalled();
    (0..25).for_each(|n| drop(driver.ask(&format!("SET k {n}"))));
    let (mut seen, mut since) = (Vec::new(), 0);
    loop {
        let page = list(&mut driver, &format!("since {since} limit 10"));
        let Some(last) = page.last() else { break };
        since = last["seq"].integer();
        seen.extend(commands(&page));
    }
    assert_eq!(seen, (0..25).map(|n| format!("SET k {n}")).collect::<Vec<_>>());
    assert_eq!(commands(&list(&mut driver, "limit 2")), ["SET k 23", "SET k 24"]);
}

#[test]
fn what_is_too_long_is_cut_off_and_its_length_told() {
    let (_server, mut driver) = journalled();
    driver.call(&["SET", "long", &"x".repeat(100_000)]);
    driver.call(&[vec!["DEL".to_owned()], (0..5000).map(|n| format!("k{n}")).collect()].concat());
    let entries = list(&mut driver, "");
    let kept: usize = entries[0]["command"].items().iter().map(|word| word.text().len()).sum();
    assert_eq!(kept as i64 + entries[0]["command-missing"].integer(), 3 + 4 + 100_000);
    assert!((10_000..=16 << 10).contains(&kept), "{kept}");
    let names: usize = (0..5000).map(|n| format!("k{n}").len()).sum();
    let kept: usize = entries[1]["command"].items().iter().map(|word| word.text().len()).sum();
    assert_eq!(kept as i64 + entries[1]["command-missing"].integer(), 3 + names as i64);
    driver.ask("GET long");
    assert_eq!(list(&mut driver, "on GET")[0]["reply-length"], Frame::Integer(9 + 100_000 + 2));
    // The script calls more commands than an entry keeps.
    driver.call(&["EVAL", "for i = 1, 5000 do redis.call('SET', KEYS[1], i) end", "1", "k"]);
    let entry = &list(&mut driver, "on EVAL")[0];
    let inside = entry["children"].items().len() as i64;
    assert_eq!(inside + entry["children-missing"].integer(), 5000);
    assert!(inside > 100, "{inside}");
}

#[test]
fn an_export_has_one_object_a_line() {
    let (_server, mut driver) = journalled();
    driver.ask("SET k v");
    driver.call(&[&b"SET"[..], b"bin", b"\xff\n\""]);
    let folder = std::env::temp_dir().join(format!("redouble-journal-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("journal.jsonl");
    for _ in 0..2 {
        assert_eq!(driver.ask(&format!("REDOUBLE JOURNAL EXPORT {}", path.display())), Frame::Integer(2));
    }
    let lines = std::fs::read_to_string(&path).expect("an export");
    assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 1, "nothing else is left behind");
    std::fs::remove_dir_all(&folder).expect("a folder to remove");
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["command"], serde_json::json!(["SET", "k", "v"]));
    assert_eq!(lines[0]["seq"], 1);
    assert_eq!(lines[0]["outcome"], "answered");
    assert_eq!(lines[1]["command_hex"][2], "ff0a22");
    let reply = driver.ask("REDOUBLE JOURNAL EXPORT /nowhere/at/all").text();
    assert!(reply.starts_with("ERR the journal cannot be written to '/nowhere/at/all': "), "{reply}");
}

#[test]
fn a_space_has_a_journal_of_its_own_and_a_reset_begins_anew() {
    let (server, mut driver) = journalled();
    let mut other = Wire::connect(address(&server));
    other.ask("CLIENT SETNAME mover");
    other.ask("SET here 1");
    other.ask("REDOUBLE SPACE world");
    other.ask("SET there 1");
    let told = list(&mut other, "");
    assert_eq!(commands(&told), ["SET there 1"]);
    assert_eq!(told[0]["name"].text(), "mover");
    assert_eq!(count(&mut driver, "on SET"), 1);

    driver.ask("REDOUBLE RESET");
    assert_eq!(count(&mut driver, ""), 0);
    driver.ask("SET again 1");
    assert_eq!(list(&mut driver, "")[0]["seq"], Frame::Integer(1));
    assert_eq!(count(&mut other, ""), 1);
}

#[test]
fn what_is_loaded_at_the_start_was_sent_by_nobody() {
    let path = std::env::temp_dir().join(format!("redouble-journal-seed-{}", std::process::id()));
    std::fs::write(&path, "SET seed 1\n").expect("a file of commands");
    let server = start(Server::builder().journal(ALL).load(&path));
    std::fs::remove_file(&path).expect("a file to remove");
    let mut driver = Wire::connect(address(&server));
    assert_eq!(count(&mut driver, ""), 0);
    assert_eq!(driver.ask("GET seed"), Frame::bulk("1"));
    assert_eq!(list(&mut driver, "")[0]["seq"], Frame::Integer(1));
}

#[test]
fn evictions_are_listed_among_the_commands_and_can_be_counted_and_awaited() {
    let (_server, mut driver) = journalled();
    driver.ask("SELECT 3");
    driver.ask("SET lock:a token");
    driver.ask("CONFIG SET maxmemory-policy allkeys-lru maxmemory 1");
    driver.ask("GET lock:a");
    let evicted = list(&mut driver, "key lock:* outcome evicted");
    assert_eq!(commands(&evicted), ["lock:a"]);
    assert_eq!((&evicted[0]["client"], &evicted[0]["db"]), (&Frame::Integer(0), &Frame::Integer(3)));
    let listed: Vec<String> = list(&mut driver, "key lock:*").iter().map(|entry| entry["outcome"].text()).collect();
    assert_eq!(listed, ["answered", "evicted", "answered"]);
    assert_eq!(count(&mut driver, "outcome evicted"), 1);
    assert_eq!(count(&mut driver, "outcome evicted key other"), 0);
    assert_eq!(count(&mut driver, "outcome evicted db 0"), 0);
    // A command is none, and an eviction is no command.
    assert_eq!(count(&mut driver, "key lock:*"), 2);
    assert_eq!(list(&mut driver, "on GET key lock:*").len(), 1);
    assert_eq!(driver.ask("REDOUBLE JOURNAL AWAIT outcome evicted 1"), Frame::Integer(1));
}
