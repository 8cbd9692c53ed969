//! `redouble record`: a recording of other people's traffic holds what the auditor needs, and none of their data. It ends
//! when and as it should, and nothing is missing from it without a word.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::run::{BINARY, Folder, errors, out};
use crate::support::process::ServerProcess;
use crate::support::wait_until;
use crate::support::wire::{Frame, Wire};

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(arguments).env_remove("GITHUB_ACTIONS");
    // Its own process group keeps signals from the terminal of the tests away from it.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn redis() -> ServerProcess {
    ServerProcess::redis(&["--save", ""])
}

/// A recording that runs without a command.
struct Recording {
    child: Child,
    errors: BufReader<ChildStderr>,
    address: SocketAddr,
}

impl Recording {
    fn of(server: &ServerProcess, file: &str, flags: &[&str]) -> Self {
        let url = server.url();
        let mut child = program(&["record", "--upstream", &url, "-o", file]).args(flags).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        let address = line.split("redis://").nth(1).and_then(|rest| rest.split(';').next());
        let address = address.and_then(|address| address.parse().ok());
        Self { child, errors, address: address.unwrap_or_else(|| panic!("no address in: {line}")) }
    }

    fn connect(&self) -> Wire {
        Wire::connect(self.address)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// What it said since its start, and its status, once it has ended.
    fn rest(mut self) -> (String, Option<i32>) {
        let mut said = String::new();
        self.errors.read_to_string(&mut said).unwrap();
        (said, self.child.wait().unwrap().code())
    }

    /// Ends it with a signal; returns what it said.
    #[track_caller]
    fn end(self, signal: Signal) -> String {
        self.signal(signal);
        let (said, status) = self.rest();
        assert_eq!(status, Some(0), "{said}");
        said
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of a recording, each of which is whole JSON.
#[track_caller]
fn lines(file: &str) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "a line is torn: {text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The commands of a recording as they stand there.
fn commands(file: &str) -> Vec<String> {
    let words = |line: &serde_json::Value| {
        let words = line["command"].as_array()?.iter().map(|word| word.as_str().unwrap_or_default());
        Some(words.collect::<Vec<_>>().join(" "))
    };
    lines(file).iter().filter_map(words).collect()
}

fn audit(flags: &[&str], files: &[&str]) -> Output {
    program(&["audit"]).args(flags).args(files).output().unwrap()
}

// ---- what is in the file

#[test]
fn no_password_and_no_value_gets_into_the_file() {
    let (server, folder) = (redis(), Folder::new("record-secrets"));
    let file = folder.text("staging.jsonl");
    let recording = Recording::of(&server, &file, &[]);
    let mut wire = recording.connect();
    wire.ask("AUTH Passw0rd-of-auth");
    wire.ask("SET card Sekret-4111 EX 60");
    wire.ask("SET card Sekret-4111 KEEPTTL GET");
    wire.ask("HSET user name Sekret-name Sekret-field 17");
    wire.ask("HGETALL user");
    wire.ask("ZADD board 842110001 Sekret-member");
    wire.ask("ZRANGE board 0 -1 WITHSCORES");
    wire.ask("INCRBY balance 418100001");
    wire.ask("APPEND card Sekret-more");
    wire.ask("PUBLISH news Sekret-message");
    wire.ask("XADD log * field Sekret-entry");
    wire.ask("XRANGE log - +");
    wire.ask("LPUSH mail Sekret-first Sekret-second");
    wire.ask("NOSUCH Sekret-argument");
    wire.ask("HELLO 3");
    wire.ask("HGETALL user");
    wire.ask("ZRANGE board 0 -1 WITHSCORES");
    wire.ask("MULTI");
    wire.ask("SET card Sekret-queued");
    wire.ask("INCRBY balance 418100001");
    wire.ask("EXEC");
    wire.call(&["EVAL", "return ARGV[1]", "1", "card", "Sekret-argv"]);
    wire.call(&["EVAL", "return redis.error_reply('NOPE ' .. ARGV[1])", "1", "card", "Sekret-error"]);
    wire.call(&["EVAL", "return {ok = ARGV[1]}", "1", "card", "Sekret-status"]);
    drop(wire);
    let said = recording.end(Signal::TERM);
    let text = fs::read_to_string(&file).unwrap();
    for secret in ["Sekret", "Passw0rd", "418100001", "836200002", "842110001"] {
        let line = text.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret}");
    }
    assert!(said.contains("values are hashed"), "{said}");
    // What is no value is readable.
    let commands = commands(&file);
    assert!(
        commands.iter().any(|command| command.starts_with("SET card h:") && command.ends_with(" EX 60")),
        "{commands:?}"
    );
    assert!(
        commands.iter().any(|command| command.starts_with("ZRANGE board h:") && command.ends_with(" WITHSCORES")),
        "{commands:?}"
    );
    assert!(commands.iter().any(|command| command.starts_with("EVAL return ARGV[1] 1 card h:")), "{commands:?}");
    assert!(commands.iter().any(|command| command.starts_with("PUBLISH news h:")), "{commands:?}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn equal_values_stay_equal_within_a_recording_and_say_nothing_beyond_it() {
    let (server, folder) = (redis(), Folder::new("record-equal"));
    let hashed = |name: &str| {
        let file = folder.text(name);
        let recording = Recording::of(&server, &file, &[]);
        let mut wire = recording.connect();
        wire.ask("SET lock 0f8fad5b-d9cb-469f-a165-70867728950e");
        wire.ask("GET lock");
        drop(wire);
        recording.end(Signal::INT);
        let lines = lines(&file);
        let word = lines[0]["command"][2].as_str().unwrap().to_owned();
        assert_eq!(lines[1]["reply"], format!("{word:?}"));
        word
    };
    let (one, other) = (hashed("one.jsonl"), hashed("other.jsonl"));
    assert!(one.starts_with("h:") && one.len() == 18, "{one}");
    assert_ne!(one, other);
}

#[test]
fn the_programs_of_clients_are_in_the_file_without_the_values_among_their_arguments() {
    let (server, folder) = (redis(), Folder::new("record-programs"));
    for (mode, program_shown) in [("hash", "redouble"), ("redact", "redouble"), ("keep", "redouble cli -p ")] {
        let file = folder.text(mode);
        let recording = Recording::of(&server, &file, &["--values", mode]);
        let port = recording.address.port().to_string();
        assert!(program(&["cli", "-p", &port, "SET", "name", "alice"]).output().unwrap().status.success());
        recording.end(Signal::INT);
        let lines = lines(&file);
        let set = lines.iter().find(|line| line["command"][0] == "SET").unwrap();
        let shown = set["program"].as_str().unwrap_or_else(|| panic!("{set}"));
        assert!(shown.starts_with(program_shown) && (mode == "keep" || shown == program_shown), "{mode}: {shown}");
    }
}

#[test]
fn values_are_kept_or_left_out_if_that_is_asked_for() {
    let (server, folder) = (redis(), Folder::new("record-modes"));
    for (mode, word, reply) in [("keep", "token-1", "\"token-1\""), ("redact", "(redacted)", "")] {
        let file = folder.text(mode);
        let recording = Recording::of(&server, &file, &["--values", mode]);
        let mut wire = recording.connect();
        wire.ask("SET lock token-1");
        wire.ask("GET lock");
        drop(wire);
        recording.end(Signal::INT);
        let lines = lines(&file);
        assert_eq!((lines[0]["command"][2].as_str(), lines[1]["reply"].as_str()), (Some(word), Some(reply)), "{mode}");
    }
    let output = program(&["record", "--upstream", "redis://x", "-o", "y", "--values", "some"]).output().unwrap();
    assert_eq!(errors(&output), "redouble record: --values takes hash, redact or keep, not 'some'\n");
}

/// Two workers, of whom the second deletes the lock of the first.
fn misuse(recording: &Recording, tokens: [&str; 2]) {
    let mut clients = [recording.connect(), recording.connect()];
    for (client, name) in clients.iter_mut().zip(["worker-1", "worker-2"]) {
        client.ask(&format!("CLIENT SETNAME {name}"));
    }
    let [one, other] = &mut clients;
    assert_eq!(one.ask(&format!("SET lock:a {} NX PX 30000", tokens[0])), Frame::status("OK"));
    other.ask(&format!("SET lock:a {} NX PX 30000", tokens[1]));
    other.ask("DEL lock:a");
    assert_eq!(other.ask(&format!("SET lock:a {} NX PX 30000", tokens[1])), Frame::status("OK"));
    other.ask("SET other value");
    other.ask("DEL lock:a");
}

#[test]
fn the_audit_of_hidden_values_finds_what_that_of_values_finds() {
    let (server, folder) = (redis(), Folder::new("record-verdicts"));
    let strong = ["0f8fad5b-d9cb-469f-a165-70867728950e", "7c9e6679-7425-40de-944b-e07fc1f90ae7"];
    for (number, tokens) in [strong, ["1", "1"], ["worker-1", "worker-2"], ["locked", "locked"]].into_iter().enumerate()
    {
        let found = |mode: &str| {
            let file = folder.text(&format!("{mode}-{number}.jsonl"));
            let recording = Recording::of(&server, &file, &["--values", mode]);
            misuse(&recording, tokens);
            recording.end(Signal::INT);
            let output = audit(&["--json"], &[&file]);
            let code = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["code"].to_string();
            out(&output).lines().map(code).collect::<Vec<_>>()
        };
        let kept = found("keep");
        assert!(!kept.is_empty());
        assert_eq!(found("hash"), kept, "{tokens:?}");
    }
}

#[test]
fn what_is_left_out_is_held_against_nobody() {
    let (server, folder) = (redis(), Folder::new("record-redact"));
    let file = folder.text("staging.jsonl");
    let recording = Recording::of(&server, &file, &["--values", "redact"]);
    let mut wire = recording.connect();
    for number in 0..3 {
        assert_eq!(wire.ask(&format!("SET lock:a token-{number} NX PX 30000")), Frame::status("OK"));
        assert_eq!(wire.ask("GET lock:a"), Frame::bulk(&format!("token-{number}")));
        let release = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
        assert_eq!(wire.call(&["EVAL", release, "1", "lock:a", &format!("token-{number}")]), Frame::Integer(1));
    }
    drop(wire);
    recording.end(Signal::INT);
    let output = audit(&["--level", "warn"], &[&file]);
    assert_eq!(output.status.code(), Some(0), "{}", out(&output));
    let page = folder.text("report.html");
    assert!(program(&["report", &file, "-o", &page]).output().unwrap().status.success());
    assert!(fs::read_to_string(page).unwrap().contains("<html"));
}

#[test]
fn only_commands_about_the_keys_asked_for_are_in_the_file() {
    let (server, folder) = (redis(), Folder::new("record-keys"));
    let file = folder.text("staging.jsonl");
    let recording = Recording::of(&server, &file, &["--keys", "lock:*", "--keys", "mutex:*", "--values", "keep"]);
    let mut wire = recording.connect();
    for line in [
        "SET lock:a 1 NX",
        "SET session:7 x",
        "MGET session:7 mutex:b",
        "WATCH session:7",
        "MULTI",
        "SET session:7 y",
        "EXEC",
        "WATCH lock:a",
        "MULTI",
        "DEL lock:a",
        "EXEC",
        "FLUSHDB",
    ] {
        wire.ask(line);
    }
    wire.call(&["EVAL", "return redis.call('get', 'lock:a')", "0"]);
    recording.connect().ask("GET session:7");
    drop(wire);
    wait_until("the end of a connection is in the file", || lines(&file).iter().any(|line| line["event"] == "closed"));
    let said = recording.end(Signal::INT);
    let expected = [
        "SET lock:a 1 NX",
        "MGET session:7 mutex:b",
        "WATCH lock:a",
        "DEL lock:a",
        "EXEC",
        "FLUSHDB",
        "EVAL return redis.call('get', 'lock:a') 0",
    ];
    assert_eq!(commands(&file), expected);
    // Only one of the two clients is in the file, and so is the end of its connection.
    assert_eq!(lines(&file).iter().filter(|line| line["event"] == "closed").count(), 1);
    assert!(said.contains("left out: 7 commands that --keys does not ask for"), "{said}");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the values are deadlines in real time")]
fn locks_whose_value_is_their_deadline_can_still_be_judged() {
    let (server, folder) = (redis(), Folder::new("record-deadline"));
    let file = folder.text("staging.jsonl");
    let recording = Recording::of(&server, &file, &[]);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let mut wire = recording.connect();
    wire.ask(&format!("SETNX lock.foo {}", now + 10));
    wire.ask(&format!("GETSET lock.foo host-1:{}", now + 20));
    drop(wire);
    recording.end(Signal::INT);
    let commands = commands(&file);
    assert_eq!(commands[0], format!("SETNX lock.foo {}", now + 10));
    assert!(
        commands[1].starts_with("GETSET lock.foo h:") && commands[1].ends_with(&format!(":{}", now + 20)),
        "{commands:?}"
    );
}

// ---- when it ends

#[test]
fn the_journal_is_in_the_file_while_the_recording_runs() {
    let (server, folder) = (redis(), Folder::new("record-live"));
    let file = folder.text("staging.jsonl");
    let recording = Recording::of(&server, &file, &[]);
    let mut wire = recording.connect();
    wire.ask("SET lock token NX");
    wait_until("the command is in the file", || commands(&file).len() == 1);
    recording.signal(Signal::KILL);
    assert_eq!(recording.rest().1, None);
    assert_eq!(commands(&file).len(), 1);
}

#[test]
fn a_signal_ends_it_with_a_whole_file_and_what_to_do_next() {
    for signal in [Signal::INT, Signal::TERM] {
        let (server, folder) = (redis(), Folder::new(&format!("record-signal-{}", signal.as_raw())));
        let file = folder.text("staging.jsonl");
        let recording = Recording::of(&server, &file, &[]);
        let mut wire = recording.connect();
        for number in 0..2000 {
            wire.ask(&format!("SET key:{} value-{number}", number % 10));
        }
        let said = recording.end(signal);
        assert_eq!(lines(&file).len(), 2000, "{said}");
        assert!(said.contains("redouble record: 2000 commands of 1 client on 10 keys in "), "{said}");
        assert!(said.contains(&format!("redouble record: next: redouble audit {file}")), "{said}");
        assert!(said.contains(&format!("redouble report {file} -o report.html")), "{said}");
        // The lock that a client has when the recording ends is not one that it has left behind.
        assert!(!fs::read_to_string(&file).unwrap().contains("\"event\""));
    }
}

#[test]
fn it_ends_after_its_time() {
    let (server, folder) = (redis(), Folder::new("record-time"));
    let file = folder.text("staging.jsonl");
    let recording = Recording::of(&server, &file, &["--for", "50ms"]);
    let (said, status) = recording.rest();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("the time of --for is over"), "{said}");
    assert!(said.contains("nothing was recorded"), "{said}");
}

#[test]
fn the_file_never_grows_beyond_its_bound() {
    let (server, folder) = (redis(), Folder::new("record-size"));
    let file = folder.text("staging.jsonl");
    let recording = Recording::of(&server, &file, &["--max-size", "20kb"]);
    let mut wire = recording.connect();
    let set = crate::support::wire::request(&["SET", "key", "value"]);
    // Until the server in front is gone.
    while wire.send(&set) && wire.read().is_ok() {}
    let (said, status) = recording.rest();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("ended by --max-size"), "{said}");
    let size = fs::metadata(&file).unwrap().len();
    assert!((19_000..=20 * 1024).contains(&size), "{size}");
    assert!(!lines(&file).is_empty());
}

#[test]
fn it_ends_with_its_command_and_has_its_status() {
    let (server, folder) = (redis(), Folder::new("record-command"));
    let (file, url) = (folder.text("staging.jsonl"), server.url());
    let script = "redis-cli -u \"$REDIS_URL\" SET lock token NX >/dev/null; exit 7";
    let output = program(&["record", "--upstream", &url, "-o", &file, "--", "sh", "-c", script]).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", errors(&output));
    assert_eq!(commands(&file).iter().filter(|command| command.starts_with("SET lock h:")).count(), 1);
    assert!(lines(&file).last().unwrap()["event"] == "closed");
    assert_eq!(out(&output), "");
}

#[test]
fn the_command_goes_on_when_the_recording_is_full() {
    let (server, folder) = (redis(), Folder::new("record-command-size"));
    let (file, url) = (folder.text("staging.jsonl"), server.url());
    let script = "redis-cli -u \"$REDIS_URL\" -r 50 SET a b >/dev/null; redis-cli -u \"$REDIS_URL\" GET a";
    let flags = ["record", "--upstream", &url, "-o", &file, "--max-size", "2kb", "--", "sh", "-c", script];
    let output = program(&flags).output().unwrap();
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(0), "b\n"), "{}", errors(&output));
    assert!(errors(&output).contains("ended by --max-size"), "{}", errors(&output));
}

// ---- what goes wrong

#[test]
fn a_file_that_is_there_already_is_not_overwritten() {
    let (server, folder) = (redis(), Folder::new("record-twice"));
    let (file, url) = (folder.text("staging.jsonl"), server.url());
    let first = Recording::of(&server, &file, &[]);
    first.connect().ask("SET lock token");
    wait_until("the command is in the file", || commands(&file).len() == 1);
    let output = program(&["record", "--upstream", &url, "-o", &file]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    let reason = format!("redouble record: cannot write {file}: it is there already; --force replaces it\n");
    assert_eq!(errors(&output), reason);
    first.end(Signal::INT);
    assert_eq!(commands(&file).len(), 1);
    Recording::of(&server, &file, &["--force"]).end(Signal::INT);
    assert_eq!(commands(&file).len(), 0);
}

#[test]
fn a_server_that_cannot_be_reached_is_named_at_once_and_leaves_no_file() {
    let folder = Folder::new("record-absent");
    let file = folder.text("staging.jsonl");
    // Nobody listens on a socket that does not exist.
    let url = format!("unix:{}", folder.text("absent.sock"));
    let output = program(&["record", "--upstream", &url, "-o", &file]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    let said = errors(&output);
    assert!(said.starts_with("redouble record: cannot connect to ") && said.contains("absent.sock"), "{said}");
    assert!(fs::metadata(&file).is_err());
}

#[test]
fn what_a_recording_lacks_is_asked_for() {
    for (arguments, reason) in [
        (&["record", "-o", "x.jsonl"][..], "no server to record; --upstream says where it is"),
        (&["record", "--upstream", "redis://127.0.0.1:1"], "no file; -o says where the journal goes"),
        (&["record", "--upstream", "redis://127.0.0.1:1", "-o", "x", "--"], "no command; it stands behind --"),
        (&["record", "--upstream", "redis://127.0.0.1:1", "-o", "x", "--max-size", "much"], "--max-size takes a size"),
        (&["record", "--upstream", "redis://127.0.0.1:1", "-o", "x", "--for", "long"], "--for takes a duration"),
    ] {
        let output = program(arguments).output().unwrap();
        let said = errors(&output);
        assert!(said.starts_with(&format!("redouble record: {reason}")), "{said}");
        assert_eq!(output.status.code(), Some(125));
    }
}

#[test]
fn the_recordings_of_several_servers_lie_side_by_side() {
    let (servers, folder) = ([redis(), redis()], Folder::new("record-several"));
    let (file, other) = (folder.text("staging.jsonl"), servers[1].url());
    let script = "for url in $(echo $REDIS_URLS | tr , ' '); do redis-cli -u $url SET lock token NX >/dev/null; done";
    let mut command = program(&["record", "--upstream", &servers[0].url(), "--upstream", &other, "-o", &file]);
    let output = command.args(["--", "sh", "-c", script]).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    for name in ["staging.jsonl", "staging-2.jsonl"] {
        assert_eq!(commands(&folder.text(name)).iter().filter(|command| command.starts_with("SET lock")).count(), 1);
    }
}

#[test]
fn where_records_are_missing_nobody_is_accused_of_what_came_between() {
    let folder = Folder::new("record-missing");
    let take = |seq: u64, client: u64, token: &str| {
        format!(
            r#"{{"seq":{seq},"time_us":{seq}000,"sent_us":{seq}000,"order":"exact","client":{client},"command":["SET","lock:a","{token}","NX","PX","30000"],"raw":"+OK\r\n","outcome":"answered"}}"#
        )
    };
    let missing = r#"{"seq":5,"time_us":5000,"event":"missing","detail":"3 records"}"#;
    let (one, other) =
        (take(1, 7, "0f8fad5b-d9cb-469f-a165-70867728950e"), take(6, 8, "7c9e6679-7425-40de-944b-e07fc1f90ae7"));
    let findings = |lines: &[&str]| {
        let file = folder.text("journal.jsonl");
        fs::write(&file, lines.join("\n")).unwrap();
        let output = audit(&["--json", "--locks", "lock:*"], &[&file]);
        assert_eq!(errors(&output), "");
        out(&output)
    };
    assert!(findings(&[&one, &other]).contains("two-holders"));
    assert!(!findings(&[&one, missing, &other]).contains("two-holders"));
}
