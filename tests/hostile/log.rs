//! What clients bring into the log: no line that the server did not write, and nothing that a terminal obeys.

use std::fs;
use std::path::PathBuf;

use crate::support::process::ServerProcess;
use crate::support::wire::{Frame, Wire};

/// A server whose log is a file.
struct Logged {
    path: PathBuf,
    server: ServerProcess,
}

impl Logged {
    fn new(name: &str, arguments: &[&str]) -> Self {
        let path = std::env::temp_dir().join(format!("redouble-log-{}-{name}", std::process::id()));
        let _ = fs::remove_file(&path);
        let server = ServerProcess::redouble_logging_to(&path, arguments);
        Self { path, server }
    }

    fn connect(&self) -> Wire {
        Wire::connect(self.server.address())
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.path).unwrap()
    }

    /// Fails if a line is not the server's, or holds what a terminal obeys.
    #[track_caller]
    fn assert_clean(&self) {
        let text = self.text();
        for line in text.lines() {
            let is_log_line = line.split_once(':').is_some_and(|(pid, rest)| {
                pid == self.server.id().to_string()
                    && (rest.starts_with("M ") || rest.starts_with("C ") || rest.starts_with("signal"))
            });
            assert!(is_log_line, "{line:?}");
            let obeyed =
                |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}');
            assert!(!line.contains(obeyed), "{line:?}");
        }
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[test]
fn a_script_writes_one_line_whatever_it_says() {
    let logged = Logged::new("script", &[]);
    let mut wire = logged.connect();
    let forged = "a\r\n1:M 01 Jan 2026 00:00:00.000 # forged\u{1b}[2J\u{7}\u{202e}b\u{9b}31m";
    for script in [
        "redis.log(redis.LOG_WARNING, ARGV[1])",
        "redis.log(redis.LOG_WARNING, ARGV[1], ARGV[1])",
        "redis.log(redis.LOG_WARNING, 'bytes \\255\\0\\27[31m\\n')",
    ] {
        assert_eq!(wire.call(&["EVAL", script, "0", forged]), Frame::NullBulk);
    }
    let library = "#!lua name=l\nredis.log(redis.LOG_WARNING, 'loading\\n\\27[2J')\nredis.register_function('f', function() return 1 end)";
    assert_eq!(wire.call(&["FUNCTION", "LOAD", library]), Frame::bulk("l"));
    logged.assert_clean();
    let text = logged.text();
    assert!(text.contains(r"# a\r\n1:M 01 Jan 2026 00:00:00.000 # forged\u{1b}[2J\u{7}\u{202e}b\u{9b}31m"), "{text}");
}

#[test]
fn a_line_has_an_end() {
    let logged = Logged::new("long", &[]);
    let mut wire = logged.connect();
    wire.call(&["EVAL", "redis.log(redis.LOG_WARNING, string.rep('x', 10000000))", "0"]);
    let text = logged.text();
    assert!(text.len() < 100_000, "{}", text.len());
    assert!(text.trim_end().ends_with("xxx... (9934464 more bytes)"), "{}", &text[text.len() - 100..]);
}

#[test]
fn names_of_clients_users_commands_and_rules_cannot_forge_a_line() {
    let logged = Logged::new("names", &["--gate-timeout", "1ms"]);
    let mut wire = logged.connect();
    let evil = &b"x\r\n\x1b[2Jfake"[..];
    for words in [
        &[evil, b"a"][..],
        &[b"CLIENT", evil],
        &[b"CLIENT", b"SETNAME", evil],
        &[b"ACL", b"SETUSER", evil, b"off"],
        &[b"AUTH", evil, evil],
        &[b"REDOUBLE", b"FAULT", b"ADD", evil, b"on", b"SET", b"HANG"],
        &[b"REDOUBLE", b"GATE", b"ADD", evil, b"on", b"SET"],
        &[b"REDOUBLE", b"GATE", b"ADD", b"g", b"on", b"GET"],
        &[b"REDOUBLE", b"SPACE", evil],
        &[b"REDOUBLE", b"SAVE", evil],
        &[b"CONFIG", b"SET", b"proc-title-template", evil],
    ] {
        wire.call(words);
    }
    wire.call(&[&b"REDOUBLE"[..], b"SPACE", b""]);
    // The gate's watchdog logs the command that it lets go on.
    let mut held = logged.connect();
    held.call(&[&b"GET"[..], evil]);
    let pid = logged.server.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(wire.read().is_err());
    crate::support::wait_until("the last line", || logged.text().contains("bye bye"));
    logged.assert_clean();
}
