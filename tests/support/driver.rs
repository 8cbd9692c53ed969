//! Whoever drives a test: arms faults, and asks what has become of them.

use std::net::SocketAddr;

use redouble::Server;

use super::wire::{Frame, Wire, request};
use super::{address, spawn_frozen};

/// A connection for the test's own use, which no fault touches.
pub struct Driver(Wire);

impl Driver {
    pub fn connect(address: SocketAddr) -> Self {
        Self(Wire::connect(address))
    }

    pub fn ask(&mut self, line: &str) -> Frame {
        self.0.ask(line)
    }

    pub fn call<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Frame {
        self.0.call(words)
    }

    /// Has the connection itself, for what is not worth a method here.
    pub fn wire(&mut self) -> &mut Wire {
        &mut self.0
    }

    /// Arms a fault: `lost on SET close-after`.
    #[track_caller]
    pub fn arm(&mut self, rule: &str) {
        assert_eq!(self.ask(&format!("REDOUBLE FAULT ADD {rule}")), Frame::status("OK"), "{rule}");
    }

    /// Disarms a fault; how often it has fired.
    #[track_caller]
    pub fn disarm(&mut self, name: &str) -> i64 {
        self.ask(&format!("REDOUBLE FAULT REMOVE {name}")).integer()
    }

    /// Disarms them all; the names of those that have not fired.
    #[track_caller]
    pub fn disarm_all(&mut self) -> Vec<String> {
        self.ask("REDOUBLE FAULT CLEAR").items().iter().map(Frame::text).collect()
    }

    /// `matched`, `fired` and `hanging` of a fault.
    #[track_caller]
    pub fn counts(&mut self, name: &str) -> [i64; 3] {
        let list = self.ask("REDOUBLE FAULT LIST");
        let rule = list.items().iter().find(|rule| rule.items()[1].text() == name);
        let rule = rule.unwrap_or_else(|| panic!("no fault {name} in {list:?}"));
        ["matched", "fired", "hanging"].map(|wanted| {
            let fields = rule.items();
            let at = fields.iter().position(|field| *field == Frame::bulk(wanted)).expect("a count");
            fields[at + 1].integer()
        })
    }

    /// Asks until so many wait because of a fault. They get there without anybody's help.
    #[track_caller]
    pub fn until_hanging(&mut self, name: &str, wanted: i64) {
        const MOST: usize = 100_000;
        for _ in 0..MOST {
            if self.counts(name)[2] == wanted {
                return;
            }
        }
        panic!("{name} never came to hold {wanted}: {:?}", self.counts(name));
    }

    #[track_caller]
    pub fn advance(&mut self, by: &str) {
        assert_eq!(self.ask(&format!("REDOUBLE CLOCK ADVANCE {by}")), Frame::status("OK"));
    }
}

/// A server whose clock stands, whoever drives the test, and a client.
pub fn begin() -> (Server, Driver, Wire) {
    let server = spawn_frozen();
    let (driver, client) = (Driver::connect(address(&server)), Wire::connect(address(&server)));
    (server, driver, client)
}

/// Sends a request whose reply may not come.
#[track_caller]
pub fn send(client: &mut Wire, line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    assert!(client.send(&request(&words)));
}

pub fn ok() -> Frame {
    Frame::status("OK")
}
