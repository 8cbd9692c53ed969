//! What people see on a terminal, and what stands in a log: colours, prefixes, the width of lines, progress.
//!
//! The terminal is the one that `script` of util-linux opens.

use std::process::{Command, Output, Stdio};

use super::run::{BINARY, errors, out};

/// Variables that change what is shown.
const ABOUT_TERMINALS: [&str; 6] = ["NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "CI", "GITHUB_ACTIONS", "TERM"];

fn with(mut command: Command, variables: &[(&str, &str)]) -> Output {
    for name in ABOUT_TERMINALS {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied()).stdin(Stdio::null()).output().unwrap()
}

/// What a terminal of 60 columns gets, both outputs together.
fn on_terminal(line: &str, variables: &[(&str, &str)]) -> String {
    let mut script = Command::new("script");
    script.args(["-qec", &format!("stty cols 60; {BINARY} {line}"), "/dev/null"]);
    let output = with(script, &[&[("TERM", "xterm")], variables].concat());
    assert_eq!(errors(&output), "");
    out(&output).replace("\r\n", "\n")
}

/// What standard error gets in a log.
fn in_log(line: &str, variables: &[(&str, &str)]) -> String {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{BINARY} {line}")]);
    errors(&with(shell, variables))
}

/// Takes a lock without an expiry, and leaves it.
const SLOPPY: &str = "run --audit --locks 'lock:*' -- sh -c 'redis-cli -u $REDIS_URL SETNX lock:a x >/dev/null'";

/// The lines about findings: those in front of the last one, which says why the run failed.
fn without_prefix(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.contains("redouble run:")).collect()
}

#[test]
fn findings_on_a_terminal_are_coloured_and_no_line_but_the_first_has_a_prefix() {
    let text = on_terminal(SLOPPY, &[]);
    let (first, rest) = text.split_once('\n').unwrap();
    assert!(first.starts_with("\x1b[1mredouble run:\x1b[0m \x1b[1m2 warnings"), "{text}");
    assert!(!rest.contains("redouble run:"), "{text}");
    assert!(rest.contains("\n  \x1b[1;33mwarning no-expiry:\x1b[0m "), "{text}");
    assert!(rest.contains("\n    \x1b[1mmore:\x1b[0m \x1b[36mredouble explain no-expiry\x1b[0m\n"), "{text}");
}

#[test]
fn findings_on_a_terminal_fit_into_its_lines() {
    let text = on_terminal(SLOPPY, &[("NO_COLOR", "1")]);
    let lines = without_prefix(&text);
    assert!(lines.len() > 4 && lines.iter().all(|line| line.chars().count() <= 60), "{text}");
}

#[test]
fn who_wants_no_colours_gets_none() {
    for variable in [("NO_COLOR", "1"), ("TERM", "dumb"), ("FORCE_COLOR", "0")] {
        let text = on_terminal(SLOPPY, &[variable]);
        assert!(!text.contains('\x1b'), "{variable:?}: {text}");
        assert!(text.contains("\n  warning no-expiry: "), "{variable:?}: {text}");
    }
}

#[test]
fn in_a_log_every_line_says_who_says_it_and_nothing_controls_a_terminal() {
    for variables in [&[][..], &[("CI", "true"), ("TERM", "xterm")]] {
        let text = in_log(SLOPPY, variables);
        assert!(text.lines().all(|line| line.starts_with("redouble run: ")), "{text}");
        assert!(!text.contains('\x1b') && text.contains("  warning no-expiry: "), "{text}");
    }
}

#[test]
fn colours_can_be_had_in_a_log_that_shows_them() {
    for variable in [("FORCE_COLOR", "1"), ("CLICOLOR_FORCE", "1")] {
        let text = in_log(SLOPPY, &[variable]);
        assert!(text.contains("\x1b[1;33mwarning no-expiry:\x1b[0m"), "{text}");
        assert!(text.lines().all(|line| line.starts_with("\x1b[1mredouble run:\x1b[0m ")), "{text}");
    }
}

#[test]
fn findings_in_journals_and_explanations_are_coloured_on_a_terminal_only() {
    let explained = on_terminal("explain leaked", &[]);
    assert!(explained.starts_with("\x1b[1mleaked\x1b[0m (\x1b[1;33mwarning\x1b[0m)\n"), "{explained}");
    let plain = on_terminal("explain leaked", &[("NO_COLOR", "1")]);
    assert!(plain.starts_with("leaked (warning)\n") && !plain.contains('\x1b'), "{plain}");
    assert!(plain.lines().all(|line| line.chars().count() <= 60 || line.starts_with("    ")), "{plain}");
}

/// Two clients that write one key.
const RACE: &str = "explore --clients 2 --settle 50ms -- sh -c 'redis-cli -u $REDIS_URL APPEND a 1 >/dev/null & \
                    redis-cli -u $REDIS_URL APPEND a 2 >/dev/null; wait'";

#[test]
fn the_progress_of_an_exploration_is_one_line_on_a_terminal_and_gone_at_the_end() {
    let text = on_terminal(RACE, &[]);
    assert!(text.starts_with("\r\x1b[Kredouble explore: 0 orders tried\r"), "{text}");
    let (progress, end) = text.rsplit_once("\r\x1b[K").unwrap();
    assert!(!progress.contains('\n'), "{text}");
    assert!(end.starts_with("\x1b[1mredouble explore:\x1b[0m ") && end.contains(" runs, 0 failed; "), "{text}");
    // A test that prints would be mixed up with a line that is written over.
    let text = on_terminal(&RACE.replace("--settle", "--verbose --settle"), &[]);
    assert!(!text.contains("\r\x1b[K"), "{text}");
}

#[test]
fn the_progress_of_a_short_exploration_is_not_in_the_log() {
    for text in [in_log(RACE, &[]), on_terminal(RACE, &[("CI", "true"), ("NO_COLOR", "1")])] {
        assert!(!text.contains("tried") && text.starts_with("redouble explore: "), "{text}");
    }
}
