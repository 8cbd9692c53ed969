//! `redouble explain`: what a finding means can be read wherever the program is, without this repository.

use std::fs::File;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use redouble::Code;

use super::run::{BINARY, command, errors, out};

/// Runs it where nothing but the program is, with nothing in its environment that is about terminals.
fn explain(words: &[&str]) -> Output {
    let mut explain = Command::new(BINARY);
    explain.arg("explain").args(words).current_dir("/").env_clear().stdin(Stdio::null());
    explain.output().unwrap()
}

fn explained(words: &[&str]) -> String {
    let output = explain(words);
    assert_eq!((errors(&output).as_str(), output.status.code()), ("", Some(0)), "{words:?}");
    out(&output)
}

#[test]
fn what_a_finding_tells_to_type_explains_it() {
    let script = "redis-cli -u $REDIS_URL SETNX lock:a x";
    let said = errors(&command(&["--audit", "--locks", "lock:*"], script).output().unwrap());
    let named: Vec<&str> =
        said.lines().filter_map(|line| line.split_once("more: redouble explain ")).map(|(_, code)| code).collect();
    assert!(!named.is_empty(), "{said}");
    for code in named {
        let text = explained(&[code]);
        assert!(text.starts_with(&format!("{code} (")), "{text}");
    }
}

#[test]
fn every_finding_is_explained_with_an_example_and_what_to_do_instead() {
    for code in Code::ALL {
        let text = explained(&[code.name()]);
        assert!(
            text.starts_with(&format!("{} ({})\n{}.\n\n", code.name(), code.severity().name(), code.title())),
            "{text}"
        );
        for part in ["\n\n    ", "\nSeen when ", "\nSilent when ", "\nMay be wrong when ", "\nInstead", "\nSeverity: "]
        {
            assert!(text.contains(part), "{} lacks {part:?}: {text}", code.name());
        }
        assert!(text.contains("\nIn the examples:\n") && text.contains("`close A`: A's connections close\n"), "{text}");
        // Lines with four spaces in front are code, which may have marks of its own.
        let prose: Vec<&str> = text.lines().filter(|line| !line.starts_with("    ")).collect();
        let has_mark = |line: &&&str| ["](", "**", "```", "\x1b"].iter().any(|mark| line.contains(mark));
        assert_eq!(prose.iter().find(has_mark), None, "{}", code.name());
        let is_long = |line: &&str| line.chars().count() > 80 && !line.starts_with("    ");
        assert_eq!(text.lines().find(is_long), None, "{}", code.name());
    }
}

#[test]
fn without_a_code_all_are_listed_with_a_line_each() {
    let text = explained(&[]);
    for code in Code::ALL {
        let line = text.lines().find(|line| line.trim_start().split(' ').next() == Some(code.name()));
        let line = line.unwrap_or_else(|| panic!("{} is not listed", code.name()));
        assert!(line.contains(code.severity().name()) && line.ends_with(code.title()), "{line}");
    }
    assert!(
        text.contains("\nredouble explain CODE tells more; redouble explain --key KEY journal.jsonl, why"),
        "{text}"
    );
}

#[test]
fn several_codes_can_be_asked_for_and_written_as_in_rust() {
    let text = explained(&["TwoHolders", "no_expiry"]);
    let at = |head: &str| text.find(head).unwrap_or_else(|| panic!("no {head}: {text}"));
    assert!(at("two-holders (error)") < at("\nno-expiry (warning)"));
    assert_eq!(text.matches("In the examples:").count(), 1);
}

#[test]
fn nothing_is_explained_beside_a_code_that_does_not_exist() {
    let output = explain(&["two-holders", "no-expire"]);
    assert_eq!((out(&output).as_str(), output.status.code()), ("", Some(2)));
    assert_eq!(errors(&output), "redouble explain: there is no finding 'no-expire'; did you mean no-expiry?\n");
}

#[test]
fn an_output_that_cannot_be_written_is_no_success() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = Command::new(BINARY).args(["explain", "leaked"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(errors(&output), "redouble explain: standard output: No space left on device\n");
}

/// A journal in which `jobs:1` is a lock, `jobs:2` may be one, and `jobs:3` is a counter.
const JOURNAL: &str = r#"{"seq":1,"time_us":1000000,"client":1,"name":"one","command":["SET","jobs:1","5f0c9a83b1d24e67","NX","PX","30000"],"raw":"+OK\r\n","children":[]}
{"seq":2,"time_us":1001000,"client":2,"name":"two","command":["SET","jobs:1","91e7c2d40a8b36f5","NX","PX","30000"],"raw":"$-1\r\n","children":[]}
{"seq":3,"time_us":1002000,"client":1,"name":"one","command":["SET","jobs:2","5f0c9a83b1d24e67","NX","PX","30000"],"raw":"+OK\r\n","children":[]}
{"seq":4,"time_us":1003000,"client":1,"name":"one","command":["SETNX","jobs:3","1"],"raw":":1\r\n","children":[]}
{"seq":5,"time_us":1004000,"client":1,"name":"one","command":["INCR","jobs:3"],"raw":":2\r\n","children":[]}
{"seq":6,"time_us":1005000,"client":2,"name":"two","command":["DEL","jobs:1"],"raw":":1\r\n","children":[]}
"#;

/// What is told of a key of the journal.
fn explained_key(flags: &[&str]) -> Output {
    let mut explain = Command::new(BINARY);
    explain.args(["explain", "-"]).args(flags).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = explain.spawn().unwrap();
    // A program that does not understand its flags reads nothing.
    let _ = child.stdin.take().unwrap().write_all(JOURNAL.as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn whoever_wonders_why_a_key_is_a_lock_is_told_by_which_command_and_how_to_say_it_is_none() {
    let text = |flags: &[&str]| out(&explained_key(flags));
    let told = text(&["--key", "jobs:1"]);
    let contended = "  contended: another client, which offered another value, was refused while the key was taken\n    \
                     #2 two (client 2): SET jobs:1 91e7c2d40a8b36f5 NX PX 30000\n";
    assert!(told.starts_with("`jobs:1` is taken for a lock\n"), "{told}");
    assert!(told.contains(contended), "{told}");
    assert!(told.contains("  found: blind-delete"), "{told}");
    assert!(told.contains("  if it is none: --not-locks 'jobs:1' of redouble"), "{told}");
    // What the advice says has that effect.
    let told = text(&["--key", "jobs:1", "--not-locks", "jobs:1"]);
    assert_eq!(told, "`jobs:1` is no lock: --not-locks says so\n  take back --not-locks\n");
}

#[test]
fn whoever_wonders_why_a_key_is_no_lock_is_told_what_is_missing() {
    let text = |flags: &[&str]| out(&explained_key(flags));
    let told = text(&["--key", "jobs:2"]);
    assert!(
        told.starts_with("`jobs:2` may be a lock, but nothing was seen that a cache does not show, too\n"),
        "{told}"
    );
    assert!(told.contains("  if it is one: --locks 'jobs:2' of redouble"), "{told}");
    let told = text(&["--key", "jobs:2", "--locks", "jobs:2"]);
    assert!(told.starts_with("`jobs:2` is taken for a lock\n  said: --locks names it\n"), "{told}");
    let told = text(&["--key", "jobs:3"]);
    let written = "`jobs:3` is no lock: a command wrote it as no lock is written\n    #5 one (client 1): INCR jobs:3\n";
    assert!(told.starts_with(written), "{told}");
    let told = text(&["--key", "jobs:4"]);
    assert!(told.starts_with("`jobs:4` is no lock: no command was seen that takes it"), "{told}");
}

#[test]
fn a_question_about_a_key_that_makes_no_sense_is_refused() {
    for (flags, reason) in [
        (&["explain", "--key", "a"][..], "no journal; as in: redouble explain --key lock:a journal.jsonl"),
        (&["explain", "--locks", "a"], "--locks and --not-locks are about a key: they go with --key"),
        (&["explain", "--key"], "--key takes a key, as in --key lock:a, and nothing stands behind it"),
        (&["explain", "--key", "a", "/nowhere.jsonl"], "/nowhere.jsonl: No such file or directory"),
    ] {
        let output = Command::new(BINARY).args(flags).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        assert!(errors(&output).starts_with(&format!("redouble explain: {reason}")), "{}", errors(&output));
    }
}
