//! `redouble explain`: what a finding means can be read wherever the program is, without this repository.

use std::fs::File;
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
    assert!(text.ends_with("redouble explain CODE tells more.\n"), "{text}");
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
