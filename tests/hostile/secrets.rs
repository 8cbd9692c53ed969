//! Passwords in requests of every kind, well-formed or not: the client gets the reply that it would get anyway, and no
//! record shows the password.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use redouble::internals::{Secrets, all_commands};

use crate::support::process::ServerProcess;
use crate::support::wire::{Frame, Wire};

const SECRET: &str = "hunter2secret";

/// A server that records everything it can, and a client that watches.
struct Recorded {
    folder: PathBuf,
    server: ServerProcess,
    driver: Wire,
    monitor: Wire,
}

impl Recorded {
    fn new(name: &str, compat: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("redouble-secrets-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let dir = folder.to_str().unwrap();
        let flags = ["--dir", dir, "--journal", "yes", "--audit", "yes", "--loglevel", "debug", "--compat", compat];
        let server = ServerProcess::redouble_logging_to(&folder.join("log"), &flags);
        let mut driver = Wire::connect(server.address());
        for line in ["CONFIG SET slowlog-log-slower-than 0", "CONFIG SET latency-monitor-threshold 1"] {
            driver.ask(line);
        }
        let mut monitor = Wire::connect(server.address());
        assert_eq!(monitor.ask("MONITOR"), Frame::status("OK"));
        Self { folder, server, driver, monitor }
    }

    fn client(&self) -> Wire {
        Wire::connect(self.server.address())
    }

    /// Everything that was recorded, with what it was found in.
    fn records(&mut self) -> Vec<(String, String)> {
        let mut records = Vec::new();
        for line in [
            "REDOUBLE JOURNAL EXPORT journal.jsonl",
            "REDOUBLE JOURNAL LIST LIMIT 100000",
            "REDOUBLE JOURNAL NEAR AUTH default",
            "REDOUBLE JOURNAL NEAR ACL SETUSER",
            "REDOUBLE JOURNAL AWAIT on AUTH 999999 1ms",
            "REDOUBLE JOURNAL AWAIT on SET key nothing 999999 1ms",
            "REDOUBLE AUDIT",
            "REDOUBLE AUDIT FINDINGS",
            "REDOUBLE LOCKS",
            "SLOWLOG GET -1",
            "LATENCY LATEST",
            "ACL LOG 1000",
            "CLIENT LIST",
            "INFO everything",
            "INFO redouble",
            "FUNCTION STATS",
        ] {
            let reply = self.driver.ask(line);
            records.push((line.to_owned(), format!("{reply:?}")));
            records.push((line.to_owned(), readable(&reply)));
        }
        for file in ["journal.jsonl", "log"] {
            records.push((file.to_owned(), fs::read_to_string(self.folder.join(file)).unwrap()));
        }
        // What the monitor has seen, up to a marker.
        self.driver.ask("ECHO marker");
        loop {
            let line = self.monitor.expect().text();
            if line.contains("marker") {
                break;
            }
            records.push(("MONITOR".to_owned(), line));
        }
        records
    }

    #[track_caller]
    fn assert_silent(&mut self, sent: &[String]) {
        for (place, text) in self.records() {
            if let Some(at) = text.find(SECRET) {
                let start = (0..=at.saturating_sub(400)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
                panic!("{place} shows the password: …{}\nafter {:?}", &text[start..at + SECRET.len()], sent.last());
            }
        }
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// All texts in a reply, one behind the other.
fn readable(reply: &Frame) -> String {
    match reply {
        Frame::Array(items) | Frame::Map(items) | Frame::Set(items) | Frame::Push(items) => {
            items.iter().map(readable).collect::<Vec<_>>().join(" ")
        }
        Frame::Bulk(text) | Frame::Status(text) | Frame::Error(text) | Frame::Verbatim(text) => {
            String::from_utf8_lossy(text).into_owned()
        }
        other => format!("{other:?}"),
    }
}

/// Arguments with a password, `§`, for commands of a kind, some of them malformed.
fn arguments(secrets: Secrets) -> &'static [&'static [&'static str]] {
    match secrets {
        Secrets::None => &[],
        Secrets::Credentials => &[
            &["§"],
            &["default", "§"],
            &["nobody", "§"],
            &["default", "§", "more"],
            &["§", "default", "more", "§"],
            &["", "§"],
        ],
        Secrets::Handshake => &[
            &["§"],
            &["3", "§"],
            &["3", "default", "§"],
            &["3", "AUTH", "§"],
            &["3", "AUTH", "default", "§"],
            &["3", "auth", "default", "§"],
            &["x", "AUTH", "default", "§"],
            &["99", "AUTH", "default", "§"],
            &["AUTH", "default", "§"],
            &["2", "AUTH", "default", "§", "§"],
            &["2", "AUTH", "default", "§", "more", "§"],
            &["2", "SETNAME", "n", "AUTH", "default", "§"],
            &["2", "SETNAME", "n", "AUHT", "default", "§"],
            &["2", "AUTH", "default", "§", "SETNAME", "a b"],
        ],
        Secrets::UserRules => &[
            &["u", ">§"],
            &["u", "§"],
            &["u", "on", "§"],
            &["u", "on", ">§", "bad"],
            &["u", "<§"],
            &["u", "#§"],
            &["u", "!§"],
            &["u", "(", "§"],
            &["u", "(~a", "§)"],
            &["u", "+§"],
            &["u", "~§ §"],
            &["u", ">§\r\n"],
            &["a b", "§"],
            &[">§"],
            &["§", "on"],
        ],
        Secrets::Settings => &[
            &["requirepass", "§", "more"],
            &["maxmemory", "0", "masterauth", "§"],
            &["masterauth", "§"],
            &["MASTERAUTH", "§"],
            &["masterauth", "a", "§"],
            &["masterauht", "§"],
            &["tls-key-file-pass", "§"],
            &["primaryauth", "§"],
            &["requirepas", "§"],
            &["nonsense", "x", "requirepass", "§"],
        ],
        Secrets::SettingsInReply => &[&["*"], &["*pass*"], &["masterauth"], &["m*", "tls-*"]],
        Secrets::Reply => &[],
        Secrets::Script => &[
            &["return redis.call('AUTH', '§')", "0"],
            &["return redis.pcall(\"auth\", \"default\", \"§\")", "0"],
            &["return redis.call('ACL', 'SETUSER', 'u', '>§')", "0"],
            &["return redis.call('CONFIG', 'SET', 'requirepass', ARGV[1])", "0", "§"],
            &["return redis.call('AUTH', '§'", "0"],
            &["return redis.call([[AUTH]], '§')", "0"],
        ],
        Secrets::Request { .. } => &[
            &["AUTH", "§"],
            &["default", "AUTH", "§"],
            &["nobody", "AUTH", "default", "§"],
            &["default", "AUHT", "default", "§"],
            &["default", "HELLO", "3", "AUTH", "default", "§"],
            &["default", "ACL", "SETUSER", "u", ">§"],
            &["default", "ACL", "SETUSR", "u", ">§"],
            &["default", "CONFIG", "SET", "requirepass", "§"],
            &["default", "EVAL", "redis.call('AUTH', '§')", "0"],
            &["HELLO", "3", "AUTH", "default", "§"],
            &["ACL", "SETUSER", "u", ">§"],
            &["EVAL", "redis.call('AUTH', '§')", "0"],
            &["AUTH", "default", "§"],
        ],
        Secrets::Requests => &[
            &["NEAR", "AUTH", "default", "§"],
            &["NEAR", "ACL", "SETUSER", "u", ">§"],
            &["AWAIT", "on", "AUTH", "key", "§", "1", "1ms"],
            &["ADD", "a", "on", "AUTH", "key", "§", "HANG"],
        ],
    }
}

/// Commands that do not exist but may have been meant.
const MISTYPED: &[&[&str]] = &[
    &["AUHT", "default", "§"],
    &["AUT", "§"],
    &["AUTHH", "§"],
    &["auth2", "default", "§"],
    &["LOGIN", "default", "§"],
    &["PASSWORD", "§"],
    &["HELO", "3", "AUTH", "default", "§"],
    &["HELLLO", "3", "AUTH", "default", "§"],
    &["ACL", "SETUSR", "u", ">§"],
    &["ACL", "SET", "u", "§"],
    &["ACLS", "SETUSER", "u", "§"],
    &["CONFIG", "STE", "requirepass", "§"],
    &["CONFIG", "requirepass", "§"],
    &["CONIFG", "SET", "requirepass", "§"],
    &["MIGRATE", "host", "6379", "key", "0", "10", "AUTH", "§"],
    &["MIGRATE", "host", "6379", "", "0", "10", "AUTH2", "default", "§", "KEYS", "a"],
    &["MIGRAET", "host", "6379", "key", "0", "10", "AUTH", "§"],
    &["SENTINEL", "SET", "mymaster", "auth-pass", "§"],
    &["SENTINEL", "AUTH", "§"],
    &["REPLICAOF", "host", "6379", "AUTH", "§"],
    &["requirepass", "§"],
];

fn filled(name: &str, arguments: &[&str]) -> Vec<String> {
    let words = name.split(' ').filter(|word| !word.is_empty()).map(str::to_owned);
    words.chain(arguments.iter().map(|word| word.replace('§', SECRET))).collect()
}

/// Every request of these tests: commands of the table by the kind of their secrets, and mistyped ones.
fn requests() -> Vec<Vec<String>> {
    let mut requests = Vec::new();
    let mut kinds = BTreeSet::new();
    for row in all_commands() {
        let subs = row.subcommands.iter().map(|sub| (format!("{} {}", row.spec.name, sub.spec.name), sub.spec.secrets));
        // A mark is a text for the journal: whoever puts a password there wants to read it.
        let subs = subs.filter(|(name, _)| !name.eq_ignore_ascii_case("REDOUBLE MARK"));
        for (name, secrets) in std::iter::once((row.spec.name.to_owned(), row.spec.secrets)).chain(subs) {
            for arguments in arguments(secrets) {
                kinds.insert(format!("{secrets:?}"));
                requests.push(filled(&name, arguments));
                requests.push(filled(&name.to_ascii_lowercase(), arguments));
            }
        }
    }
    assert!(kinds.len() >= 9, "{kinds:?}");
    requests.extend(MISTYPED.iter().map(|words| filled("", words)));
    requests
}

#[test]
fn no_record_of_any_command_shows_a_password() {
    for compat in ["redis-7.0", "redis-6.2", "valkey-9.1"] {
        let mut recorded = Recorded::new(compat, compat);
        let mut sent = Vec::new();
        for words in requests() {
            // A connection of its own, since some requests authenticate, and some change the protocol.
            let mut client = recorded.client();
            client.call(&words);
            // In a transaction, where errors show again in the reply to EXEC.
            client.ask("MULTI");
            client.call(&words);
            client.ask("EXEC");
            // From a script, whose error may quote what it called.
            if words[0].eq_ignore_ascii_case("AUTH") || words[0].eq_ignore_ascii_case("AUHT") {
                let literal = words.iter().map(|word| format!("'{}'", word.replace(['\r', '\n'], " ")));
                let source = format!("return redis.pcall({})", literal.collect::<Vec<_>>().join(", "));
                client.call(&["EVAL", &source, "0"]);
            }
            sent.push(words.join(" "));
            if sent.len() % 25 == 0 {
                recorded.assert_silent(&sent);
            }
        }
        recorded.assert_silent(&sent);
    }
}

#[test]
fn an_inline_request_with_a_password_is_no_different() {
    let mut recorded = Recorded::new("inline", "redis-7.0");
    for line in [
        format!("AUTH {SECRET}\r\n"),
        format!("AUTH 'default' \"{SECRET}\"\r\n"),
        format!("AUHT default {SECRET}\n"),
        format!("ACL SETUSER u {SECRET}\r\n"),
        format!("AUTH \"{SECRET}\r\n"),
        format!("AUTH default {SECRET}\r\nGET a\r\n"),
    ] {
        let mut client = recorded.client();
        client.send(line.as_bytes());
        let _ = client.read();
    }
    recorded.assert_silent(&[]);
}

#[test]
fn the_client_gets_its_error_byte_for_byte() {
    let recorded = Recorded::new("replies", "redis-7.0");
    let mut client = recorded.client();
    for (line, error) in [
        (
            format!("AUHT default {SECRET}"),
            format!("ERR unknown command 'AUHT', with args beginning with: 'default' '{SECRET}' "),
        ),
        (format!("ACL SETUSER u {SECRET}"), format!("ERR Error in ACL SETUSER modifier '{SECRET}': Syntax error")),
        (format!("HELLO 3 {SECRET}"), format!("ERR Syntax error in HELLO option '{SECRET}'")),
    ] {
        assert_eq!(client.ask(&line), Frame::error(&error));
    }
}

#[test]
fn a_password_that_is_generated_is_not_recorded() {
    let mut recorded = Recorded::new("generated", "redis-7.0");
    let mut client = recorded.client();
    let password = client.ask("ACL GENPASS").text();
    client.ask("MULTI");
    client.ask("ACL GENPASS");
    client.ask("EXEC");
    for (place, text) in recorded.records() {
        assert!(!text.contains(&password), "{place}: {text}");
    }
}

#[test]
fn what_is_no_secret_is_recorded_as_it_was() {
    let mut recorded = Recorded::new("plain", "redis-7.0");
    let mut client = recorded.client();
    for line in [
        "SET lock token NX PX 30000",
        "HELLO 3 AUTH nobody hunter2 SETNAME worker",
        "CONFIG SET maxmemory 0 masterauth hunter2",
        "STE lock token",
        "EVAL return(KEYS[1]) 1 lock token",
    ] {
        client.ask(line);
    }
    let listed = readable(&recorded.driver.ask("REDOUBLE JOURNAL LIST LIMIT 100000"));
    for line in [
        "SET lock token NX PX 30000",
        "HELLO 3 AUTH (redacted) (redacted) SETNAME worker",
        "CONFIG SET maxmemory 0 masterauth (redacted)",
        "STE lock token",
        "EVAL return(KEYS[1]) 1 lock token",
        "WRONGPASS invalid username-password pair or user is disabled.",
    ] {
        assert!(listed.contains(line), "{line}: {listed}");
    }
}

#[test]
fn a_parked_command_is_shown_without_its_password() {
    let mut recorded = Recorded::new("parked", "redis-7.0");
    recorded.driver.ask("REDOUBLE GATE ADD g on AUTH");
    let mut client = recorded.client();
    client.send(format!("AUTH default {SECRET}\r\n").as_bytes());
    recorded.driver.ask("REDOUBLE GATE WAIT g 1");
    let listed = readable(&recorded.driver.ask("REDOUBLE GATE LIST"));
    assert!(listed.contains("AUTH (redacted) (redacted)") || listed.contains("(redacted)"), "{listed}");
    assert!(!listed.contains(SECRET), "{listed}");
}

#[test]
fn requests_inside_requests_to_any_depth_neither_crash_nor_hold_the_recorder() {
    let mut recorded = Recorded::new("nested", "redis-7.0");
    let mut client = recorded.client();
    for times in [7, 500, 50_000] {
        let mut words = ["COMMAND", "GETKEYS"].repeat(times);
        words.extend(["AUTH", "default", SECRET]);
        assert!(client.call(&words).is_error());
    }
    recorded.assert_silent(&["COMMAND GETKEYS COMMAND GETKEYS".to_owned()]);
}
