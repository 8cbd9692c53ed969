//! Plays the page about the lock that a failover loses: its servers, its lines for redis-cli, and its programs.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use super::packages::{COMMON, python};
use super::{PYTHON, path};
use crate::support::wait_until;

const PAGE: &str = include_str!("../../../docs/failover.md");

/// The ports on the page: of the servers, and of the Sentinels.
const PORTS: [u16; 7] = [7000, 7001, 7002, 7003, 27_000, 27_001, 27_002];

/// A server of the page, which ends when the next one begins.
struct Page {
    server: Option<Child>,
    /// What stands in place of 7000.
    base: u16,
}

impl Drop for Page {
    fn drop(&mut self) {
        self.end();
    }
}

/// Finds free ports that lie to each other as those of the page, all of them below those that systems give to whoever asks for any: another
/// test could be given one of these meanwhile.
fn free_base() -> u16 {
    const BASES: std::ops::Range<u16> = 10_000..12_700;
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    // Tests that run at the same time begin at different places.
    let first = BASES.start + (std::process::id() % 270) as u16 * 10;
    let mut bases = (first..BASES.end).step_by(10).chain((BASES.start..first).step_by(10));
    bases.find(|base| PORTS.iter().all(|port| is_free(base + (port - PORTS[0])))).expect("free ports")
}

impl Page {
    fn end(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }

    /// Puts the ports of the server in place of those of the page.
    fn with_ports(&self, text: &str) -> String {
        // The longer ones first, and by way of marks: a new port may contain an old one.
        let mark = |port: &u16| {
            format!("<{}>", char::from(b'a' + PORTS.iter().position(|one| one == port).unwrap_or(0) as u8))
        };
        let marked =
            PORTS.iter().rev().fold(text.to_owned(), |text, port| text.replace(&port.to_string(), &mark(port)));
        PORTS.iter().fold(marked, |text, port| text.replace(&mark(port), &(self.base + (port - PORTS[0])).to_string()))
    }

    fn start(&mut self, flags: &str) {
        self.end();
        self.base = free_base();
        let mut command = Command::new(env!("CARGO_BIN_EXE_redouble"));
        command.args(self.with_ports(flags).split_whitespace()).stdin(Stdio::null()).stdout(Stdio::null());
        let server = self.server.insert(command.spawn().expect("the server"));
        let last = if flags.contains("--sentinel") { self.base + 20_002 } else { self.base };
        wait_until("the server", || {
            assert!(server.try_wait().is_ok_and(|end| end.is_none()), "the server at {} has ended", self.base);
            TcpStream::connect((Ipv4Addr::LOCALHOST, last)).is_ok()
        });
    }

    /// Runs a line. What it prints stands in its remark, up to a colon.
    fn line(&mut self, line: &str) -> bool {
        let (command, remark) = line.split_once('#').unwrap_or((line, ""));
        if let Some(flags) = command.trim().trim_end_matches('&').strip_prefix("redouble ") {
            self.start(flags);
            return false;
        }
        let output = Command::new("sh").args(["-c", &self.with_ports(command)]).output().expect("a shell");
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert!(output.status.success() && !said.starts_with("ERR"), "{line}: {said}");
        let shown = remark.split(':').next().unwrap_or_default().trim();
        // redis-cli prints an empty line for nil when nobody looks.
        let expected = if shown == "(nil)" { "" } else { shown };
        let is_reply = command.contains(" SET ") || command.contains(" GET ");
        assert!(!is_reply || said == expected, "{line}: {said:?}");
        is_reply
    }

    fn program(&self, program: &str) {
        let interpreter = PYTHON.get_or_init(|| python(COMMON)).as_ref().expect("redis-py");
        let mut run = Command::new(interpreter);
        let output = run.args(["-c", &self.with_ports(program)]).env("PATH", path(None)).output().expect("python");
        assert!(output.status.success(), "{program}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn the_page_about_the_lost_lock_does_what_it_says() {
    let mut page = Page { server: None, base: 0 };
    let (mut replies, mut programs) = (0, 0);
    for block in PAGE.split("\n```").skip(1).step_by(2) {
        let (language, text) = block.split_once('\n').expect("a line");
        match language {
            "sh" => replies += text.lines().filter(|line| page.line(line)).count(),
            "python" => {
                page.program(text);
                programs += 1;
            }
            _ => {}
        }
    }
    assert_eq!((replies, programs), (13, 2));
}
