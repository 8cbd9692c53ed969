//! The output of MONITOR: what can be said without replies, and nothing more.

use redouble::Severity;
use redouble::internals::{Item, Scope, audit, auditor, command_table, read_journal};

use crate::support::process::ServerProcess;
use crate::support::wire::{Frame, Wire};

fn items(text: &str) -> Vec<Item> {
    let mut items = Vec::new();
    read_journal(text.as_bytes(), |item| items.push(item)).expect("the output of MONITOR");
    items
}

/// A story: a line for each command, `a> SET k 1`; a command that a script calls has no client. Each is a second later.
fn monitored(story: &str) -> String {
    let mut text = String::from("OK\n");
    for (second, line) in story.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate() {
        let (client, words) = line.split_once("> ").expect("a client and a command");
        let source = if client == "lua" { "lua".to_owned() } else { format!("10.0.0.1:{}", client.as_bytes()[0]) };
        let words: Vec<String> = words.split(' ').map(|word| format!("\"{word}\"")).collect();
        text.push_str(&format!("{}.000000 [0 {source}] {}\n", 1_700_000_000 + second, words.join(" ")));
    }
    text
}

/// What blames somebody.
fn found(story: &str) -> Vec<String> {
    let audited = audit(vec![(1, items(&monitored(story)))], auditor(Scope::default(), command_table()));
    let blames = audited.findings().iter().filter(|finding| finding.severity > Severity::Note);
    blames.map(|finding| finding.code.name().to_owned()).collect()
}

const TOKENS: [&str; 2] = ["5f0c9a83b1d24e67aa11", "91e7c2d40a8b36f5bb22"];

/// Right clients that take the lock in turn, release it by a script, and are refused.
#[test]
fn nobody_is_blamed_for_a_lock_that_is_used_rightly() {
    let [one, two] = TOKENS;
    let round = |client: &str, token: &str, other: &str| {
        format!(
            "{client}> SET lock:a {token} NX PX 30000\n{other}> SET lock:a other-{token} NX PX 30000\n\
             {client}> EVALSHA sha 1 lock:a {token}\nlua> get lock:a\nlua> del lock:a\n"
        )
    };
    let story = (0..6).map(|turn| if turn % 2 == 0 { round("a", one, "b") } else { round("b", two, "a") });
    assert_eq!(found(&story.collect::<String>()), [] as [&str; 0]);
}

#[test]
fn what_was_before_monitor_began_is_held_against_nobody() {
    let [one, two] = TOKENS;
    // Whether `a` got the lock is unknown: somebody may have had it.
    let story = format!(
        "a> SET lock:a {one} NX PX 30000\nb> SET lock:a {two} NX PX 30000\nb> DEL lock:a\na> PING\nb> PING\na> PING"
    );
    assert_eq!(found(&story), [] as [&str; 0]);
}

#[test]
fn two_holders_are_found_without_replies_if_both_go_on() {
    let [one, two] = TOKENS;
    let begin = format!(
        "a> CLIENT SETNAME one\nb> CLIENT SETNAME two\na> SET lock:a {one} NX PX 30000\na> EVALSHA sha 1 lock:a {one}\n\
         lua> get lock:a\nlua> del lock:a\n"
    );
    let double = format!(
        "{begin}a> SET lock:a {one} NX PX 30000\nb> SET lock:a {two} NX PX 30000\nb> DEL lock:a\n\
         b> SET lock:a {two} NX PX 30000\nb> GET data\na> GET data"
    );
    let codes = found(&double);
    assert!(codes.contains(&"two-holders".to_owned()) && codes.contains(&"blind-delete".to_owned()), "{codes:?}");
    // If the first one is never seen again, it may have gone long ago.
    let gone = double.trim_end_matches("\na> GET data");
    assert_eq!(found(gone), [] as [&str; 0]);
}

#[test]
fn an_expiry_in_the_same_transaction_is_no_second_step() {
    let [one, _] = TOKENS;
    let begin =
        format!("a> SET lock:a {one} NX PX 9\na> EVALSHA sha 1 lock:a {one}\nlua> get lock:a\nlua> del lock:a\n");
    let inside = format!("{begin}a> MULTI\na> SETNX lock:a {one}\na> EXPIRE lock:a 30\na> EXEC\n");
    let release = format!("a> EVALSHA sha 1 lock:a {one}\nlua> get lock:a\nlua> del lock:a\n");
    assert_eq!(found(&format!("{inside}{release}")), [] as [&str; 0]);
    let two_steps = format!("{begin}a> SETNX lock:a {one}\na> EXPIRE lock:a 30\n{release}");
    assert_eq!(found(&two_steps), ["expiry-in-second-step"]);
}

#[test]
fn a_bad_line_is_named() {
    let read = |text: &str| read_journal(text.as_bytes(), |_| {}).map_err(|error| error.to_string());
    let good = "1339518083.107412 [0 127.0.0.1:60866] \"keys\" \"*\"\n";
    let error = read(&format!("OK\n{good}Error: Server closed the connection\n{good}")).unwrap_err();
    assert!(error.starts_with("line 3: a line of MONITOR was expected"), "{error}");
    // Whoever ends MONITOR cuts off its last line.
    assert_eq!(read(&format!("OK\n{good}1339518083.1074")), Ok(()));
}

/// Words with every byte come from a real server's MONITOR as they were sent.
#[test]
fn the_output_of_a_real_server_is_read_byte_by_byte() {
    let server = ServerProcess::redis(&["--save", ""]);
    let mut watching = Wire::connect(server.address());
    assert_eq!(watching.call(&["MONITOR"]), Frame::status("OK"));
    let value: Vec<u8> = (0..=255).collect();
    let mut client = Wire::connect(server.address());
    let set: [&[u8]; 4] = [b"SET", b"a\"\n", &value, b"NX"];
    assert_eq!(client.call(&set), Frame::status("OK"));
    client.call(&["EVAL", "return redis.call('set', KEYS[1], ARGV[1])", "1", "k", ""]);
    client.call(&["MULTI"]);
    client.call(&["INCR", "n"]);
    client.call(&["EXEC"]);
    client.call(&["PING"]);
    let mut text = String::from("OK\n");
    while !text.contains("PING") {
        text.push_str(&watching.expect().text());
        text.push('\n');
    }
    let items = items(&text);
    let parts = |at: usize| match &items[at] {
        Item::Command(entry) => (entry.words.clone(), entry.children.clone()),
        Item::Event(event) => panic!("{event:?}"),
    };
    assert_eq!(parts(0).0[1..3], [b"a\"\n".to_vec(), value]);
    assert_eq!(parts(1).1[0].words, [b"set".to_vec(), b"k".to_vec(), Vec::new()]);
    assert_eq!((parts(3).0, parts(3).1[0].words[0].clone()), (vec![b"EXEC".to_vec()], b"INCR".to_vec()));
    assert_eq!(items.len(), 5);
}
