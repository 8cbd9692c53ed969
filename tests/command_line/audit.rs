//! The auditor in CI: a test suite that misuses a lock fails, the output names the commands that caused it, and the
//! files are in formats that CI systems show. A suite without lock bugs keeps its own exit status.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use crate::support::wire::{Frame, Wire, request};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_redouble");

/// Prints the addresses of its servers, then reads the status to exit with.
const WAITS: &str = r#"echo "$REDIS_URLS"; read status; exit "$status""#;

fn program(name: &str) -> Command {
    let mut command = Command::new(BINARY);
    command.arg(name).env_remove("GITHUB_ACTIONS");
    // Its own process group keeps signals from the terminal of the tests away from it.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(flags: &[&str], script: &str) -> Output {
    program("run").args(flags).args(["--", "sh", "-c", script]).output().unwrap()
}

fn audit(arguments: &[&str]) -> Output {
    program("audit").args(arguments).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A temporary directory for one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("redouble-audit-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    fn text(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a file with these lines and returns its path.
    fn file(&self, name: &str, lines: &str) -> String {
        fs::write(self.0.join(name), lines).unwrap();
        self.text(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A run of `redouble run` whose command's clients are in the test.
struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
    servers: Vec<SocketAddr>,
}

impl Running {
    fn of(flags: &[&str]) -> Self {
        Self::start(program("run").args(flags))
    }

    fn start(run: &mut Command) -> Self {
        let mut child = run.args(["--", "sh", "-c", WAITS]).stdin(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut urls = String::new();
        lines.read_line(&mut urls).unwrap();
        let address = |url: &str| url.trim_end().trim_start_matches("redis://").parse().expect("an address");
        let servers = urls.split(',').map(address).collect();
        Self { child, lines, servers }
    }

    fn client(&self, name: &str) -> Wire {
        self.client_of(1, name)
    }

    fn client_of(&self, server: usize, name: &str) -> Wire {
        let mut wire = Wire::connect(self.servers[server - 1]);
        if !name.is_empty() {
            assert_eq!(wire.ask(&format!("CLIENT SETNAME {name}")), Frame::status("OK"));
        }
        wire
    }

    /// Lets the command exit with this status.
    fn end(mut self, status: u8) -> Output {
        writeln!(self.child.stdin.take().unwrap(), "{status}").unwrap();
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        self.lines.read_to_end(&mut stdout).unwrap();
        self.child.stderr.take().unwrap().read_to_end(&mut stderr).unwrap();
        Output { status: self.child.wait().unwrap(), stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The correct release: compares the token before it deletes.
const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/// Tokens that are long enough not to be guessed.
const OURS: &str = "5b1d6a9f0e3c51c7a0b4e8d29f6357aa";
const THEIRS: &str = "c70a91e4d2f8b3650d1f9ace7e4482bb";

/// B deletes A's lock and takes it.
fn race(a: &mut Wire, b: &mut Wire, key: &str) {
    assert_eq!(a.ask(&format!("SET {key} {OURS} NX PX 60000")), Frame::status("OK"));
    assert_eq!(b.ask(&format!("SET {key} {THEIRS} NX PX 60000")), Frame::NullBulk);
    assert_eq!(b.ask(&format!("DEL {key}")), Frame::Integer(1));
    assert_eq!(b.ask(&format!("SET {key} {THEIRS} NX PX 60000")), Frame::status("OK"));
}

/// A takes the lock, B is refused, and A releases its own lock.
fn behave(a: &mut Wire, b: &mut Wire, key: &str) {
    assert_eq!(a.ask(&format!("SET {key} {OURS} NX PX 60000")), Frame::status("OK"));
    assert_eq!(b.ask(&format!("SET {key} {THEIRS} NX PX 60000")), Frame::NullBulk);
    let released = a.call(&["EVAL", RELEASE, "1", key, OURS]);
    assert_eq!(released, Frame::Integer(1));
}

/// Runs the race for `lock:a` on the first server, then lets the command exit with this status.
fn raced(running: Running, status: u8) -> Output {
    {
        let (mut a, mut b) = (running.client("A"), running.client("B"));
        race(&mut a, &mut b, "lock:a");
    }
    running.end(status)
}

const BLAME: &str = "both held `lock:a`, because B (client ";

// ---- redouble run --audit

#[test]
fn a_run_that_misuses_a_lock_fails_and_says_by_which_commands() {
    let output = raced(Running::of(&["--audit"]), 0);
    let said = errors(&output);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(3), ""), "{said}");
    assert!(said.lines().all(|line| line.starts_with("redouble run: ")), "{said}");
    let line =
        |text: &str| said.lines().position(|line| line.contains(text)).unwrap_or_else(|| panic!("{text}: {said}"));
    assert!(line("error two-holders: A (client ") < line("more: redouble explain two-holders"), "{said}");
    assert!(line("A (client 1) took the lock for") < line("B (client 2) deleted it while it was held: DEL lock:a"));
    assert!(line("more: redouble explain two-holders") < line("failed because of "), "{said}");
    assert!(said.contains(BLAME) && said.contains("(1 lock watched)"), "{said}");
}

#[test]
fn a_run_that_uses_its_locks_well_gets_one_line() {
    let running = Running::of(&["--audit=warn"]);
    {
        let (mut a, mut b) = (running.client("A"), running.client("B"));
        ["lock:a", "lock:b", "lock:c"].into_iter().for_each(|key| behave(&mut a, &mut b, key));
    }
    let output = running.end(0);
    assert_eq!(errors(&output), "redouble run: no lock was misused (3 locks watched)\n");
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(0), ""));
}

#[test]
fn a_run_that_no_lock_was_seen_in_says_so_rather_than_well_done() {
    let output = run(&["--audit"], "redis-cli -u $REDIS_URL SET cache:1 a NX PX 1000");
    let expected =
        "redouble run: no lock was misused, but none was seen either: --locks GLOB says which keys are locks\n";
    assert_eq!((errors(&output).as_str(), output.status.code()), (expected, Some(0)));
    // `--locks` marks keys that the auditor does not take for locks by itself.
    let output = run(&["--audit", "--locks", "cache:*"], "redis-cli -u $REDIS_URL SET cache:1 a NX PX 1000");
    assert!(errors(&output).contains("1 lock watched"), "{}", errors(&output));
}

#[test]
fn tests_that_went_to_another_server_are_not_taken_for_clean_ones() {
    let said = errors(&run(&["--audit"], "echo ran"));
    assert!(said.starts_with("redouble run: nobody connected: the command finds the server in REDIS_URL"), "{said}");
    let said = errors(&run(&["--audit"], "redis-cli -u $REDIS_URL PING"));
    assert!(!said.contains("nobody connected"), "{said}");
}

#[test]
fn warnings_fail_only_if_they_are_to() {
    let folder = Folder::new("level");
    let journal = folder.text("journal.jsonl");
    for (flags, status) in [(&["--audit"][..], 0), (&["--audit=warn"], 3), (&["--audit", "warn"], 3)] {
        let running = Running::of(&[flags, &["--journal-out", &journal]].concat());
        {
            let (mut a, mut b) = (running.client("A"), running.client("B"));
            assert_eq!(a.ask(&format!("SET lock:a {OURS} NX")), Frame::status("OK"));
            assert_eq!(b.ask(&format!("SET lock:a {THEIRS} NX PX 60000")), Frame::NullBulk);
            assert_eq!(a.call(&["EVAL", RELEASE, "1", "lock:a", OURS]), Frame::Integer(1));
        }
        let output = running.end(0);
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(said.starts_with("redouble run: 1 warning in 1 lock (1 lock watched)\n"), "{said}");
        assert!(said.contains("  warning no-expiry: A (client 1) took `lock:a` without"), "{said}");
        assert_eq!(said.contains("failed because of 1 warning (--audit)"), status == 3, "{said}");
    }
    assert_eq!(audit(&[&journal]).status.code(), Some(0));
    assert_eq!(audit(&["--level", "warn", &journal]).status.code(), Some(3));
}

#[test]
fn the_commands_own_failure_keeps_its_status() {
    let output = raced(Running::of(&["--audit"]), 6);
    assert_eq!(output.status.code(), Some(6));
    assert!(errors(&output).contains(BLAME), "{}", errors(&output));
}

#[test]
fn with_strict_both_are_told_and_a_test_that_tested_nothing_goes_first() {
    let running = Running::of(&["--audit", "--strict", "--report"]);
    running.client("").ask("REDOUBLE FAULT ADD lost on GETDEL close-after");
    let output = raced(running, 0);
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let ends: Vec<&str> = said.lines().filter(|line| line.contains("failed because of")).collect();
    assert_eq!(ends.len(), 2, "{said}");
    assert!(ends[0].ends_with("faults that never fired (--strict)") && ends[1].ends_with("(--audit)"), "{said}");
    assert!(said.lines().next().is_some_and(|line| line.ends_with(" locks taken")), "{said}");
}

#[test]
fn what_is_known_can_be_allowed_with_a_reason_and_is_told_all_the_same() {
    let folder = Folder::new("allow");
    let lines =
        "# what we know of\n\n  * lock:* all of that is on purpose\nno-expiry gone:* nobody has that any more\n";
    let allow = folder.file("allow", lines);
    let output = raced(Running::of(&["--audit=warn", "--allow", &allow]), 0);
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.starts_with("redouble run: no lock was misused (1 lock watched; "), "{said}");
    assert!(said.contains("allowed: two-holders, lock `lock:a`: all of that is on purpose\n"), "{said}");
    let idle = format!("redouble run: {allow}:4: nothing was found that 'no-expiry gone:*' allows\n");
    assert!(said.ends_with(&idle), "{said}");
}

#[test]
fn an_allowance_that_cannot_be_read_is_named_before_anything_runs() {
    let folder = Folder::new("bad-allow");
    let allow = folder.file("allow", "leaked a b\n# fine\nno-expire lock:* why\n");
    let output = run(&["--audit", "--allow", &allow], "echo ran");
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(125), ""));
    assert_eq!(errors(&output), format!("redouble run: {allow}:3: there is no finding 'no-expire'\n"));
    let output = run(&["--audit", "--allow", "/nowhere/allow"], "echo ran");
    assert_eq!(errors(&output), "redouble run: cannot read /nowhere/allow: No such file or directory\n");
}

#[test]
fn keys_that_are_no_locks_can_be_left_out() {
    let output = raced(Running::of(&["--audit=warn", "--not-locks", "other:*", "--not-locks", "lock:*"]), 0);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
}

#[test]
fn an_annotation_is_printed_where_github_looks_for_it() {
    let output = raced(Running::start(program("run").arg("--audit").env("GITHUB_ACTIONS", "true")), 0);
    let said = out(&output);
    let start = "::error title=two-holders%3A lock `lock%3Aa`::A (client 1) and B (client 2) both held";
    assert!(said.lines().any(|line| line.starts_with(start)), "{said}");
    assert!(said.lines().all(|line| line.starts_with("::")), "{said}");
}

#[test]
fn files_for_ci_are_written_and_point_at_the_lines_of_the_journal() {
    let folder = Folder::new("files");
    let (junit, sarif, journal) = (folder.text("audit.xml"), folder.text("audit.sarif"), folder.text("journal.jsonl"));
    let flags = ["--audit", "--junit", &junit, "--sarif", &sarif, "--journal-out", &journal, "--dir", "/"];
    let output = raced(Running::of(&flags), 0);
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
    let text = folder.read("audit.xml");
    let document = roxmltree::Document::parse(&text).expect("XML");
    let failure = document.descendants().find(|node| node.has_tag_name("failure")).expect("a failure");
    assert!(failure.attribute("message").is_some_and(|message| message.contains(BLAME)), "{text}");
    let log: Value = serde_json::from_str(&folder.read("audit.sarif")).expect("JSON");
    let results = log["runs"][0]["results"].as_array().expect("results");
    let result = results.iter().find(|result| result["ruleId"] == "two-holders").expect("the race");
    let journal = folder.read("journal.jsonl");
    let steps = result["codeFlows"][0]["threadFlows"][0]["locations"].as_array().expect("steps");
    assert!(steps.len() >= 3);
    for step in steps {
        let place = &step["location"]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], format!("file://{}", folder.text("journal.jsonl")));
        let line = usize::try_from(place["region"]["startLine"].as_u64().expect("a line")).unwrap();
        let entry: Value = serde_json::from_str(journal.lines().nth(line - 1).expect("that line")).expect("JSON");
        assert_eq!(entry["seq"], step["properties"]["seq"]);
        let words: Vec<&str> = entry["command"].as_array().expect("words").iter().filter_map(Value::as_str).collect();
        assert_eq!(step["properties"]["command"], words.join(" "));
    }
}

#[test]
fn a_file_that_cannot_be_written_is_named_before_anything_runs() {
    let folder = Folder::new("unwritable");
    let inside_file = format!("{}/out", folder.file("plain", "no directory"));
    for flag in ["--junit", "--sarif", "--journal-out", "--report-html"] {
        let output = run(&["--audit", flag, &inside_file], "echo ran");
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(125), ""), "{flag}");
        assert_eq!(errors(&output), format!("redouble run: cannot write {inside_file}: Not a directory\n"));
        let output = run(&["--audit", flag, &folder.text("")], "echo ran");
        assert!(errors(&output).ends_with(": it is a folder\n"), "{}", errors(&output));
    }
}

#[test]
fn what_falls_out_of_a_small_journal_was_audited_before() {
    let folder = Folder::new("small");
    let journal = folder.text("j.jsonl");
    let running = Running::of(&["--audit", "--journal-size", "256kb", "--journal-out", &journal]);
    {
        let (mut a, mut b) = (running.client("A"), running.client("B"));
        race(&mut a, &mut b, "lock:a");
        let one = request(&["SET", "plain", &"x".repeat(8000)]);
        for _ in 0..200 {
            a.send(&one);
            assert_eq!(a.expect(), Frame::status("OK"));
        }
    }
    let output = running.end(0);
    assert_eq!(output.status.code(), Some(3));
    assert!(errors(&output).contains(BLAME) && !errors(&output).contains("not audited"), "{}", errors(&output));
    let output = audit(&[&journal]);
    assert!(errors(&output).contains("begins at place"), "{}", errors(&output));
}

#[test]
fn each_space_is_judged_by_itself_and_told_apart() {
    let folder = Folder::new("spaces");
    let (journal, page) = (folder.text("j.jsonl"), folder.text("r.html"));
    let running = Running::of(&["--audit", "--journal-out", &journal, "--report-html", &page]);
    {
        let [mut a, mut b] = ["A", "B"].map(|name| running.client(name));
        for space in ["w1", "w2"] {
            for client in [&mut a, &mut b] {
                assert_eq!(client.ask(&format!("REDOUBLE SPACE {space}")), Frame::status("OK"));
            }
            match space {
                "w1" => race(&mut a, &mut b, "lock:a"),
                _ => behave(&mut a, &mut b, "lock:a"),
            }
        }
    }
    let output = running.end(0);
    let said = errors(&output);
    assert!(said.contains("redouble run: lock `lock:a`, space `w1`\n") && !said.contains("space `w2`"), "{said}");
    assert!(said.contains("(2 locks watched)"), "{said}");
    assert!(folder.read("r-space-w1.html").contains("two-holders") && folder.read("r.html").contains("<html"));
    let status = |name: &str| audit(&[&folder.text(name)]).status.code();
    assert_eq!(status("j-space-w1.jsonl"), Some(3));
    assert_eq!(status("j-space-w2.jsonl"), Some(0));
}

#[test]
fn what_was_found_before_a_test_has_reset_the_server_counts() {
    let folder = Folder::new("reset");
    let (sarif, journal) = (folder.text("audit.sarif"), folder.text("j.jsonl"));
    let running = Running::of(&["--audit", "--sarif", &sarif, "--journal-out", &journal]);
    {
        let (mut a, mut b) = (running.client("A"), running.client("B"));
        race(&mut a, &mut b, "lock:a");
        assert_eq!(a.ask("REDOUBLE RESET"), Frame::status("OK"));
    }
    {
        let (mut a, mut b) = (running.client("A"), running.client("B"));
        behave(&mut a, &mut b, "lock:b");
    }
    let output = running.end(0);
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains(BLAME) && said.contains("(2 locks watched)"), "{said}");
    // The journal holds only what came after the reset.
    assert_eq!(audit(&[&journal]).status.code(), Some(0));
    let log: Value = serde_json::from_str(&folder.read("audit.sarif")).expect("JSON");
    assert!(log["runs"][0]["results"][0]["locations"][0].get("physicalLocation").is_none(), "{log}");
}

/// The cases of a JUnit file that stand for marks, each with whether it failed.
fn marked_cases(text: &str) -> Vec<(String, bool)> {
    let document = roxmltree::Document::parse(text).expect("XML");
    let cases = document.descendants().filter(|node| node.attribute("classname") == Some("redouble.audit.marks"));
    let has_failed = |case: &roxmltree::Node| case.children().any(|child| child.has_tag_name("failure"));
    cases.map(|case| (case.attribute("name").unwrap_or_default().to_owned(), has_failed(&case))).collect()
}

#[test]
fn a_junit_file_names_the_test_that_leaked() {
    let folder = Folder::new("marks");
    let (junit, sarif) = (folder.text("audit.xml"), folder.text("audit.sarif"));
    let flags = ["run", "--audit=warn", "--junit", &junit, "--sarif", &sarif];
    let mut command = program(flags[0]);
    let running = Running::start(command.args(&flags[1..]).env("GITHUB_ACTIONS", "true"));
    let mut driver = running.client("");
    let (mut a, mut b) = (running.client("A"), running.client("B"));
    let mut begin = |name: &str| {
        for line in ["REDOUBLE RESET".to_owned(), format!("REDOUBLE MARK {name}")] {
            assert_eq!(driver.ask(&line), Frame::status("OK"));
        }
    };
    begin("test_tea");
    behave(&mut a, &mut b, "lock:a");
    begin("test_coffee[<large>]");
    assert_eq!(a.ask(&format!("SET lock:b {OURS} NX PX 60000")), Frame::status("OK"));
    assert_eq!(b.ask(&format!("SET lock:b {THEIRS} NX PX 60000")), Frame::NullBulk);
    begin("test_milk");
    behave(&mut a, &mut b, "lock:c");
    drop((a, b, driver));
    let output = running.end(0);
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
    assert!(errors(&output).contains("mark: test_coffee[<large>]"), "{}", errors(&output));
    let text = folder.read("audit.xml");
    let cases = marked_cases(&text);
    let expected = [("test_tea", false), ("test_coffee[<large>]", true), ("test_milk", false)];
    assert_eq!(cases, expected.map(|(name, has_failed)| (name.to_owned(), has_failed)), "{text}");
    // What stands in a test does not stand under its code, too.
    let document = roxmltree::Document::parse(&text).expect("XML");
    let failures: Vec<_> = document.descendants().filter(|node| node.has_tag_name("failure")).collect();
    assert_eq!(failures.len(), 1, "{text}");
    assert_eq!(failures[0].attribute("type"), Some("leaked"));
    assert_eq!(document.root_element().attribute("failures"), Some("1"));
    let log: Value = serde_json::from_str(&folder.read("audit.sarif")).expect("JSON");
    assert_eq!(log["runs"][0]["results"][0]["properties"]["mark"], "test_coffee[<large>]");
    assert!(out(&output).contains("%0AMark: test_coffee[<large>]%0A"), "{}", out(&output));
}

#[test]
fn a_journal_in_a_file_tells_the_marks_as_well() {
    let folder = Folder::new("marks-offline");
    let (junit, journal) = (folder.text("audit.xml"), folder.text("j.jsonl"));
    let running = Running::of(&["--journal-out", &journal, "--audit"]);
    {
        let (mut a, mut b) = (running.client("A"), running.client("B"));
        a.ask("REDOUBLE MARK test_tea");
        behave(&mut a, &mut b, "lock:a");
        a.ask("REDOUBLE MARK test_coffee");
        race(&mut a, &mut b, "lock:a");
        a.ask("REDOUBLE MARK test_milk");
    }
    running.end(0);
    let output = audit(&["--junit", &junit, "--json", &journal]);
    let expected = [("test_tea", false), ("test_coffee", true), ("test_milk", false)];
    assert_eq!(marked_cases(&folder.read("audit.xml")), expected.map(|(name, failed)| (name.to_owned(), failed)));
    let findings: Vec<Value> = out(&output).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(!findings.is_empty() && findings.iter().all(|finding| finding["mark"] == "test_coffee"), "{findings:?}");
    assert!(folder.read("j.jsonl").contains(r#""event":"mark","client":0,"name":"","address":"","detail":"test_tea""#));
    // The report shows them, too.
    let report = |arguments: &[&str]| out(&program("report").args(arguments).output().unwrap());
    let text = report(&["--text", &journal]);
    assert!(text.contains("mark: test_coffee"), "{text}");
    let page = report(&["-o", "-", &journal]);
    assert!(page.contains(r#""event":"mark""#) && page.contains(r#""mark":"test_coffee""#), "{page}");
}

#[test]
fn what_was_found_in_a_space_counts_although_the_space_was_dropped() {
    let running = Running::of(&["--audit"]);
    {
        let (mut driver, mut a, mut b) = (running.client(""), running.client("A"), running.client("B"));
        for client in [&mut a, &mut b] {
            assert_eq!(client.ask("REDOUBLE SPACE w1"), Frame::status("OK"));
        }
        race(&mut a, &mut b, "lock:a");
        assert_eq!(driver.ask("REDOUBLE SPACES DROP w1"), Frame::status("OK"));
    }
    let output = running.end(0);
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
    assert!(errors(&output).contains("lock `lock:a`, space `w1`"), "{}", errors(&output));
}

#[test]
fn an_audit_that_nobody_can_make_sense_of_is_explained() {
    for (flags, reason) in [
        (&["--junit", "a.xml"][..], "--junit is about an audit: it goes with --audit"),
        (&["--locks=a"], "--locks is about an audit: it goes with --audit"),
        (&["--audit=never"], "--audit takes error or warn, not 'never'"),
        (&["--audit", "yes"], "--audit takes error or warn, or nothing; received 'yes'"),
        (&["--audit", "--json"], "-- was taken for the value of '--json', which is no flag of redouble run"),
        (&["--audit", "--junit"], "--junit takes a file, as in --junit audit.xml"),
        (&["--journal-out"], "--journal-out takes a file"),
    ] {
        let output = run(flags, "echo ran");
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(125), ""), "{flags:?}");
        assert!(errors(&output).starts_with(&format!("redouble run: {reason}")), "{}", errors(&output));
    }
    let output = program("explore").args(["--report", "--", "true"]).output().unwrap();
    assert!(errors(&output).contains("--report and --strict do not go with it"), "{}", errors(&output));
    let output = program("explore").args(["--locks", "a", "--", "true"]).output().unwrap();
    assert!(errors(&output).contains("--locks is about an audit: it goes with --audit"), "{}", errors(&output));
}

// ---- redouble audit

/// Returns the findings that the run prints and those that `redouble audit` prints for its journals.
fn told_by_both(servers: usize, play: impl FnOnce(&Running)) -> (String, String) {
    let folder = Folder::new(&format!("both-{servers}"));
    let (journal, instances) = (folder.text("j.jsonl"), servers.to_string());
    let running = Running::of(&["--audit", "--journal-out", &journal, "--instances", &instances]);
    play(&running);
    let said = errors(&running.end(0));
    let live = said.lines().filter(|line| !line.contains("failed because of"));
    let live: String = live.map(|line| line.trim_start_matches("redouble run: ").to_owned() + "\n").collect();
    let files: Vec<String> =
        std::iter::once(journal).chain((2..=servers).map(|number| folder.text(&format!("j-{number}.jsonl")))).collect();
    let output = audit(&files.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((errors(&output).as_str(), output.status.code()), ("", Some(3)));
    (live, out(&output))
}

#[test]
fn the_same_is_found_in_the_file_as_while_it_happened() {
    let (live, offline) = told_by_both(1, |running| {
        let (mut a, mut b) = (running.client("A"), running.client("B"));
        race(&mut a, &mut b, "lock:a");
        behave(&mut a, &mut b, "lock:b");
        let odd: [&[u8]; 5] = [b"SET", b"lock:\xff\n\"", b"5b1d6a9f\xfe", b"NX", b"PX"];
        let odd = |token: &'static [u8]| [odd[0], odd[1], token, odd[3], odd[4], b"60000"];
        assert_eq!(a.call(&odd(b"5b1d\xfe")), Frame::status("OK"));
        assert_eq!(b.call(&odd(b"c70a\xfe")), Frame::NullBulk);
        assert_eq!(b.call(&[&b"DEL"[..], b"lock:\xff\n\""]), Frame::Integer(1));
        assert_eq!(b.call(&odd(b"c70a\xfe")), Frame::status("OK"));
    });
    assert!(live.contains(BLAME) && live.contains("lock:\u{fffd}\\n\""), "{live}");
    assert_eq!(live, offline);
}

#[test]
fn the_same_is_found_in_the_files_of_several_servers() {
    let (live, offline) = told_by_both(3, |running| {
        for server in 1..=3 {
            let (mut a, mut b) = (running.client_of(server, "A"), running.client_of(server, "B"));
            match server {
                2 => race(&mut a, &mut b, "lock:a"),
                _ => behave(&mut a, &mut b, "lock:b"),
            }
        }
    });
    assert!(live.contains("lock `lock:a`, server 2\n"), "{live}");
    assert_eq!(live, offline);
}

/// A journal as another program may write it, with the required fields only.
const BARE: &str = r#"{"seq":1,"time_us":1700000000000000,"client":1,"command":["SET","l","5b1d0f7ae92c4e83","NX"],"raw":"+OK\r\n"}
{"seq":2,"time_us":1700000000100000,"client":2,"command":["SET","l","c70a91b3e64d2f58","NX"],"raw":"$-1\r\n"}

{"seq":3,"time_us":1700000000200000,"client":2,"command":["DEL","l"],"raw":":1\r\n"}
{"seq":4,"time_us":1700000000300000,"client":2,"command":["SET","l","c70a91b3e64d2f58","NX"],"raw":"+OK\r\n"}
{"seq":5,"time_us":1700000000400000,"client":2,"command":["GET","data"],"raw":"$-1\r\n"}
{"seq":6,"time_us":1700000000500000,"client":1,"command":["GET","data"],"raw":"$-1\r\n"}
"#;

#[test]
fn a_journal_that_was_recorded_elsewhere_needs_no_more_than_commands_and_replies() {
    let folder = Folder::new("bare");
    let output = audit(&[&folder.file("bare.jsonl", BARE)]);
    assert_eq!((output.status.code(), errors(&output).as_str()), (Some(3), ""));
    assert!(out(&output).contains("error two-holders: client 1 and client 2 both held `l`"), "{}", out(&output));
    // Without a later command of the first client, its connection may have ended before the second one came.
    let shorter: String = BARE.lines().take(6).map(|line| format!("{line}\n")).collect();
    let output = audit(&[&folder.file("shorter.jsonl", &shorter)]);
    assert_eq!(output.status.code(), Some(0), "{}", out(&output));
}

#[test]
fn a_journal_can_come_from_standard_input() {
    let mut child = program("audit").arg("-").stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(BARE.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(
        out(&output).contains("22:13:20.300 client 2 took the lock: SET l c70a91b3e64d2f58 NX"),
        "{}",
        out(&output)
    );
}

#[test]
fn findings_for_programs_are_lines_of_json() {
    let folder = Folder::new("json");
    let journal = folder.file("bare.jsonl", BARE);
    let mut command = program("audit");
    let output = command.args(["--json", &journal]).env("GITHUB_ACTIONS", "true").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let lines: Vec<Value> = out(&output).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines.iter().any(|line| line["code"] == "two-holders" && line["key"] == "l"), "{lines:?}");
    // Standard error holds nothing but annotations.
    assert!(errors(&output).lines().all(|line| line.starts_with("::")), "{}", errors(&output));
}

#[test]
fn a_line_that_is_none_is_named_with_its_file() {
    let folder = Folder::new("malformed");
    let good = folder.file("good.jsonl", BARE);
    let bad = folder.file("bad.jsonl", &format!("{BARE}{{\"seq\":7,\"time_us\":1,\"cli\n"));
    let output = audit(&[&good, &bad]);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""));
    assert!(errors(&output).starts_with(&format!("redouble audit: {bad}: line 8: ")), "{}", errors(&output));
    let output = audit(&["/nowhere.jsonl"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(errors(&output), "redouble audit: cannot read /nowhere.jsonl: No such file or directory\n");
}

#[test]
fn a_journal_whose_beginning_is_gone_is_audited_and_that_is_said() {
    let folder = Folder::new("headless");
    let rest: String = BARE.lines().skip(1).map(|line| format!("{line}\n")).collect();
    let journal = folder.file("rest.jsonl", &rest);
    let output = audit(&[&journal]);
    assert_eq!(
        errors(&output),
        format!("redouble audit: {journal} begins at place 2: what was before it was not audited\n")
    );
}

#[test]
fn the_output_of_monitor_is_audited_and_drawn() {
    let folder = Folder::new("monitor");
    let token = |number: u32| format!("5f0c9a83b1d24e67aa{number:02}");
    let (one, two) = (token(1), token(2));
    let text: String = [
        "OK".to_owned(),
        r#"1700000000.000001 [0 10.0.0.1:1] "CLIENT" "SETNAME" "one""#.to_owned(),
        r#"1700000000.000002 [0 10.0.0.2:2] "CLIENT" "SETNAME" "two""#.to_owned(),
        format!(r#"1700000001.000000 [0 10.0.0.1:1] "SET" "lock:a" "{one}" "NX" "PX" "30000""#),
        format!(r#"1700000002.000000 [0 10.0.0.1:1] "EVALSHA" "cafe" "1" "lock:a" "{one}""#),
        r#"1700000002.000001 [0 lua] "get" "lock:a""#.to_owned(),
        r#"1700000002.000002 [0 lua] "del" "lock:a""#.to_owned(),
        format!(r#"1700000003.000000 [0 10.0.0.1:1] "SET" "lock:a" "{one}" "NX" "PX" "30000""#),
        r#"1700000004.000000 [0 10.0.0.2:2] "DEL" "lock:a""#.to_owned(),
        format!(r#"1700000005.000000 [0 10.0.0.2:2] "SET" "lock:a" "{two}" "NX" "PX" "30000""#),
        r#"1700000006.000000 [0 10.0.0.2:2] "PING""#.to_owned(),
        r#"1700000007.000000 [0 10.0.0.1:1] "PING""#.to_owned(),
    ]
    .iter()
    .map(|line| format!("{line}\n"))
    .collect();
    let monitor = folder.file("monitor.txt", &text);
    let output = audit(&[&monitor]);
    assert_eq!(output.status.code(), Some(3), "{}{}", out(&output), errors(&output));
    assert!(out(&output).contains("two-holders") && out(&output).contains("blind-delete"), "{}", out(&output));
    let page = folder.text("page.html");
    let output = program("report").args([&monitor, "-o", &page]).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    assert!(fs::read_to_string(&page).unwrap().contains("lock:a"));

    let broken = folder.file("broken.txt", &text.replace("[0 lua] \"del\"", "Error: Server closed the connection"));
    let output = audit(&[&broken]);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""));
    let error = errors(&output);
    assert!(error.contains(&format!("{broken}: line 7: a line of MONITOR was expected")), "{error}");
}

#[test]
fn an_empty_journal_is_no_error_and_no_praise() {
    let folder = Folder::new("empty");
    let journal = folder.file("empty.jsonl", "\n");
    let output = audit(&[&journal]);
    let note = format!("redouble audit: {journal} has no entry\n");
    assert_eq!((output.status.code(), errors(&output).as_str()), (Some(0), note.as_str()));
    assert!(out(&output).contains("none was seen"), "{}", out(&output));
}

#[test]
fn the_audit_of_files_explains_itself() {
    let help = audit(&["--help"]);
    assert!(out(&help).contains("redouble audit [FLAGS] FILE ...") && help.status.success());
    assert!(out(&help).lines().all(|line| line.len() <= 90));
    for (arguments, reason) in [
        (&[][..], "no journal; as in: redouble audit journal.jsonl"),
        (&["a", "--level", "note"], "--level takes error or warn, not 'note'"),
        (&["a", "--bogus"], "there is no flag '--bogus'; see redouble audit --help"),
    ] {
        let output = audit(arguments);
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""), "{arguments:?}");
        assert_eq!(errors(&output), format!("redouble audit: {reason}\n"));
    }
}

/// A line of a front's journal: when a command was sent, in milliseconds. It was answered two later.
fn seen(client: u64, sent: u64, node: &str, command: &str, reply: &str) -> String {
    let words: Vec<String> = command.split(' ').map(|word| format!("{word:?}")).collect();
    let node = if node.is_empty() { String::new() } else { format!(r#""node":"{node}","#) };
    format!(
        r#"{{"seq":{client},"time_us":{},"sent_us":{},"order":"interval","client":{client},{node}"name":"worker-{client}","command":[{}],"raw":"{reply}\r\n","children":[]}}"#,
        (sent + 2) * 1000,
        sent * 1000,
        words.join(",")
    ) + "\n"
}

/// What two fronts saw of a race: B came through the second one, whose clock is three seconds behind.
fn two_fronts(folder: &Folder, node: &str) -> [String; 2] {
    let (ours, theirs) = (format!("SET lock {OURS} NX PX 60000"), format!("SET lock {THEIRS} NX PX 60000"));
    let late = |at: u64| at - 3000;
    let first = seen(1, 10_000, node, &ours, "+OK") + &seen(2, 10_500, node, "GET lock", &format!("$32\\r\\n{THEIRS}"));
    let second = seen(1, late(10_100), node, &theirs, "$-1")
        + &seen(2, late(10_200), node, "GET lock", &format!("$32\\r\\n{OURS}"))
        + &seen(3, late(10_300), node, "DEL lock", ":1")
        + &seen(4, late(10_400), node, &theirs, "+OK")
        + &seen(4, late(10_600), node, &format!("DELIFEQ lock {THEIRS}"), ":1");
    [folder.file("a.jsonl", &first), folder.file("b.jsonl", &second)]
}

#[test]
fn journals_of_two_fronts_before_one_server_are_one_history_with_clocks_compared() {
    let folder = Folder::new("fronts");
    let [a, b] = two_fronts(&folder, "");
    let sarif = folder.text("out.sarif");
    let output = audit(&["--same-server", "--sarif", &sarif, &a, &b]);
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
    assert!(out(&output).contains("two-holders"), "{}", out(&output));
    let said = errors(&output);
    let told = format!("{b}: its clock is 3s behind that of {a}, to within 102ms, by ");
    assert!(said.contains(&told), "{said}");
    // A result points to the file that has the line.
    let sarif: Value = serde_json::from_str(&folder.read("out.sarif")).unwrap();
    let text = sarif.to_string();
    assert!(text.contains("a.jsonl") && text.contains("b.jsonl"), "{text}");
    // Several servers have nothing to do with each other's keys.
    let apart = audit(&[&a, &b]);
    assert!(!out(&apart).contains("two-holders"), "{}", out(&apart));
}

#[test]
fn journals_that_name_a_node_in_common_are_those_of_fronts() {
    let folder = Folder::new("nodes");
    let [a, b] = two_fronts(&folder, "10.0.0.1:7001");
    let output = audit(&[&a, &b]);
    assert!(out(&output).contains("two-holders"), "{}", out(&output));
    let page = folder.text("page.html");
    let drawn = program("report").args(["-o", &page, &a, &b]).output().unwrap();
    assert!(drawn.status.success() && errors(&drawn).contains("its clock is 3s behind"), "{}", errors(&drawn));
    assert!(folder.read("page.html").contains("two-holders"));
}

#[test]
fn journals_that_contradict_each_other_are_not_put_together() {
    let folder = Folder::new("contradiction");
    let one = seen(1, 10_000, "", &format!("SET one {OURS}"), "+OK")
        + &seen(1, 10_500, "", "GET two", &format!("$32\\r\\n{THEIRS}"));
    let other = seen(1, 20_000, "", "GET one", &format!("$32\\r\\n{OURS}"))
        + &seen(1, 30_000, "", &format!("SET two {THEIRS}"), "+OK");
    let output = audit(&["--same-server", &folder.file("a.jsonl", &one), &folder.file("b.jsonl", &other)]);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("no difference of their clocks explains all replies"), "{}", errors(&output));
}
