//! What the page about locks shows is what happens: its examples are played, and their output compared.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use crate::support::process::ServerProcess;
use crate::support::wire::split;

const PAGE: &str = include_str!("../../docs/locks.md");
/// The ports that the page names; each stands for a server of its own.
const PORTS: [u16; 6] = [6379, 7001, 7002, 7003, 7004, 7005];

/// The fenced blocks of one language.
fn blocks(language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(bool, String)> = None;
    for line in PAGE.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(found)) => open = Some((found == language, String::new())),
            (Some((wanted, text)), Some("")) => {
                if *wanted {
                    blocks.push(std::mem::take(text));
                }
                open = None;
            }
            (Some((_, text)), _) => text.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    assert!(!blocks.is_empty(), "no {language} on the page");
    blocks
}

fn servers(start: impl Fn() -> ServerProcess) -> BTreeMap<u16, ServerProcess> {
    PORTS.map(|port| (port, start())).into()
}

/// Plays every redis-cli session through redis-cli itself.
fn play_sessions(servers: &BTreeMap<u16, ServerProcess>) {
    for block in blocks("console") {
        let mut lines = block.lines().peekable();
        while let Some(line) = lines.next() {
            let (port, words) = line
                .strip_prefix("127.0.0.1:")
                .and_then(|rest| rest.split_once("> "))
                .and_then(|(port, command)| Some((port.parse::<u16>().ok()?, split(command.as_bytes())?)))
                .unwrap_or_else(|| panic!("neither a prompt nor the answer to one: {line}"));
            let mut shown = String::new();
            while let Some(answer) = lines.next_if(|line| !line.starts_with("127.0.0.1:")) {
                shown.extend([answer, "\n"]);
            }
            let words = words.into_iter().map(|word| String::from_utf8(word).expect("text"));
            let address = servers[&port].address();
            let output = Command::new("redis-cli")
                .args(["--no-raw", "-p", &address.port().to_string()])
                .args(words)
                .output()
                .unwrap_or_else(|error| panic!("redis-cli: {error}; `make test` installs it"));
            assert_eq!(String::from_utf8_lossy(&output.stdout), shown, "{line}");
        }
    }
}

#[test]
fn every_session_goes_as_shown() {
    play_sessions(&servers(|| ServerProcess::redouble(&[])));
}

#[test]
fn every_session_goes_as_shown_on_a_real_server() {
    play_sessions(&servers(|| ServerProcess::redis(&["--save", ""])));
}

/// Runs every Python example with an interpreter that has redis-py.
fn run_python(interpreter: &str, servers: &BTreeMap<u16, ServerProcess>) {
    for block in blocks("python") {
        let mut script = block.clone();
        for (port, server) in servers {
            script = script.replace(&port.to_string(), &server.address().port().to_string());
        }
        let output = Command::new(interpreter).args(["-c", &script]).output().expect("the interpreter starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{said}\n{block}");
    }
}

/// With `REDOUBLE_PYTHON=/path/to/python3`, one that has redis-py, the examples are run; `make locks` does so. Without,
/// they are at least compiled.
#[test]
fn every_python_example_runs_or_at_least_compiles() {
    if let Ok(interpreter) = std::env::var("REDOUBLE_PYTHON") {
        return run_python(&interpreter, &servers(|| ServerProcess::redouble(&[])));
    }
    for block in blocks("python") {
        let output = Command::new("python3")
            .args(["-c", "import sys; compile(sys.argv[1], 'docs/locks.md', 'exec')", &block])
            .output()
            .unwrap_or_else(|error| panic!("python3: {error}; the examples of the page cannot be checked without it"));
        assert!(output.status.success(), "{}\n{block}", String::from_utf8_lossy(&output.stderr));
    }
}

/// What the page shows of Rust is the body of this function.
fn example() -> Result<(), Box<dyn std::error::Error>> {
    // The page begins here.
    let server = redouble::Server::builder().port(0).spawn()?;
    server.freeze();
    let client = redis::Client::open(server.url())?;
    let (mut holder, mut heir) = (client.get_connection()?, client.get_connection()?);
    let take = |token: &str| redis::cmd("SET").arg("lock.foo").arg(token).arg("NX").arg("PX").arg(30_000).to_owned();

    assert!(take("a").query::<bool>(&mut holder)?);
    server.advance(Duration::from_millis(30_000)); // the last millisecond
    assert!(!take("b").query::<bool>(&mut heir)?);
    server.advance(Duration::from_millis(1));
    assert!(take("b").query::<bool>(&mut heir)?);
    // The holder has noticed nothing. What does your code do now?
    // The page ends here.
    Ok(())
}

#[test]
fn the_rust_example_is_the_one_that_is_tested() {
    example().expect("it goes through");
    let this = include_str!("locks_page.rs");
    let body =
        this.split("    // The page begins here.\n").nth(1).and_then(|rest| rest.split("    // The page ends").next());
    let body = body.expect("the marks stand in this file");
    let body: String = body.lines().map(|line| line.strip_prefix("    ").unwrap_or(line).to_owned() + "\n").collect();
    assert_eq!(blocks("rust"), [body]);
}

#[test]
fn the_readme_leads_to_the_page() {
    assert!(include_str!("../../README.md").contains("(docs/locks.md)"));
}
