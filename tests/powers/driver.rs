//! The connection that arms faults and reads their counters.

use std::net::SocketAddr;

use redouble::Server;

use crate::support::wire::{Frame, Wire, request};
use crate::support::{address, spawn_frozen, wait_for};

/// A connection for the test itself. It sends REDOUBLE commands, which no fault matches.
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

    /// The connection itself.
    pub fn wire(&mut self) -> &mut Wire {
        &mut self.0
    }

    /// Arms a fault: `lost on SET close-after`.
    #[track_caller]
    pub fn arm(&mut self, rule: &str) {
        assert_eq!(self.ask(&format!("REDOUBLE FAULT ADD {rule}")), Frame::status("OK"), "{rule}");
    }

    /// Disarms a fault and returns how often it has fired.
    #[track_caller]
    pub fn disarm(&mut self, name: &str) -> i64 {
        self.ask(&format!("REDOUBLE FAULT REMOVE {name}")).integer()
    }

    /// Disarms all faults and returns the names of those that have not fired.
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

    /// Waits until a fault holds so many clients.
    #[track_caller]
    pub fn until_hanging(&mut self, name: &str, wanted: i64) {
        wait_for(format_args!("{name} to hold {wanted} clients"), || {
            let counts = self.counts(name);
            if counts[2] == wanted { Ok(()) } else { Err(counts) }
        });
    }

    #[track_caller]
    pub fn advance(&mut self, by: &str) {
        assert_eq!(self.ask(&format!("REDOUBLE CLOCK ADVANCE {by}")), Frame::status("OK"));
    }
}

/// A server with a frozen clock, the connection of the test, and a client.
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
