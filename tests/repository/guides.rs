//! The sessions that the guides show are played: the server is started as the page says, and redis-cli prints what the page
//! shows.
//!
//! A session is a `console` block that begins with a prompt, `127.0.0.1:6379> ` or the name of a client, `worker-1> `. Each
//! prompt is a terminal of its own. Lines below a command are what it prints; `worker-1< ` comes before a reply that is
//! printed later, and `...` stands for lines that the page leaves out.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;

use crate::support::process::ServerProcess;
use crate::terminal::Terminal;

/// `locks_page.rs` plays this page, on a real server, too.
const PLAYED_ELSEWHERE: &str = "locks.md";
const END: &str = "the end of the session";

/// The blocks of a page that are sessions.
fn sessions(page: &str) -> Vec<&str> {
    let blocks = page.split("\n```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("console\n"));
    blocks.filter(|block| block.lines().next().is_some_and(|line| command(line).is_some())).collect()
}

/// The prompt of a line, and the command behind it.
fn command(line: &str) -> Option<(&str, &str)> {
    line.split_once("> ").filter(|(prompt, _)| is_prompt(prompt))
}

fn is_prompt(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || b"0123456789.:-".contains(&byte))
}

/// The flags with which the page starts its server, and the port that they name.
fn flags(page: &str) -> (Vec<&str>, u16) {
    let lines = page.lines().map(|line| line.trim_start_matches("$ "));
    let line = lines.filter_map(|line| line.strip_prefix("redouble --port ")).next().unwrap_or("6379");
    let mut words = line.trim_end_matches(" &").split(' ');
    let port = words.next().and_then(|port| port.parse().ok());
    (words.collect(), port.unwrap_or_else(|| panic!("no port in: redouble --port {line}")))
}

struct Terminals {
    server: SocketAddr,
    page_port: u16,
    open: BTreeMap<String, Terminal>,
}

impl Terminals {
    /// The terminal of a prompt, which is opened when it is first needed.
    fn of(&mut self, prompt: &str) -> &mut Terminal {
        let port = prompt.strip_prefix("127.0.0.1:").map_or(self.page_port, |port| port.parse().expect("a port"));
        let mut address = self.server;
        address.set_port(address.port() + (port - self.page_port));
        self.open.entry(prompt.to_owned()).or_insert_with(|| Terminal::open(address))
    }
}

fn play(session: &str, terminals: &mut Terminals) {
    let mut current = "";
    let mut lines = session.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some((prompt, words)) = command(line) {
            current = prompt;
            terminals.of(prompt).enter(words);
        } else if let Some((prompt, shown)) = line.split_once("< ").filter(|(prompt, _)| is_prompt(prompt)) {
            assert_eq!(terminals.of(prompt).shows(), shown, "{line}");
        } else if line != "..." {
            assert_eq!(terminals.of(current).shows(), line, "in\n{session}");
        } else {
            let terminal = terminals.of(current);
            let end = lines.next_if(|line| command(line).is_none()).map_or_else(
                || {
                    terminal.enter(&format!("ECHO '{END}'"));
                    format!("\"{END}\"")
                },
                str::to_owned,
            );
            while terminal.shows() != end {}
        }
    }
}

fn page(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/");
    fs::read_to_string(format!("{folder}{name}")).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn every_session_of_a_guide_goes_as_shown() {
    let names = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/docs")).expect("the pages");
    let names = names.map(|entry| entry.expect("a page").file_name().into_string().expect("text"));
    let mut played = Vec::new();
    let names = names.filter(|name| name.ends_with(".md") && name != PLAYED_ELSEWHERE);
    for name in names.chain(["../README.md".to_owned()]) {
        let page = page(&name);
        let sessions = sessions(&page);
        if sessions.is_empty() {
            continue;
        }
        println!("{name}");
        let (flags, page_port) = flags(&page);
        let server = ServerProcess::redouble(&flags);
        let mut terminals = Terminals { server: server.address(), page_port, open: BTreeMap::new() };
        for session in sessions {
            play(session, &mut terminals);
        }
        for (prompt, terminal) in &mut terminals.open {
            terminal.enter(&format!("ECHO '{END}'"));
            assert_eq!(terminal.shows(), format!("\"{END}\""), "{name} does not show all that {prompt} prints");
        }
        played.push(name);
    }
    for name in ["audit.md", "faults.md", "instances.md", "journal.md", "powers.md", "races.md", "spaces.md", "time.md"]
    {
        assert!(played.iter().any(|played| played == name), "{name} shows no session");
    }
}
