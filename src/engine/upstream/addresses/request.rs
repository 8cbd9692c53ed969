//! Requests in which a client names a node, or a client.

use super::AddressBook;
use super::host_port::{Brackets, HostPort, join, parse_port};
use super::server::Parameter;
use crate::protocol::{OwnedWords, Words};

/// The distance of the port of the cluster bus from the port for clients, unless a node is told another one.
const BUS_DISTANCE: u16 = 10_000;

/// The request with real addresses in place of local ones. `None`: it has none.
pub(super) fn rewrite(words: Words<'_>, book: &dyn AddressBook) -> Option<OwnedWords> {
    let name = Word(words.get(0)?);
    // Looked at for each request: the most frequent ones end here.
    let find: fn(&mut Changes<'_>) = if name.is("cluster") {
        cluster
    } else if name.is("migrate") || name.is("replicaof") || name.is("slaveof") {
        |changes| changes.host_and_port(1)
    } else if name.is("failover") {
        failover
    } else if name.is("client") {
        client
    } else if name.is("config") {
        |changes| config(changes, 1)
    } else if name.is("sentinel") {
        sentinel
    } else {
        return None;
    };
    let mut changes = Changes { words, book, changed: Vec::new() };
    find(&mut changes);
    changes.apply()
}

/// A word that a command compares without its case.
#[derive(Clone, Copy)]
struct Word<'w>(&'w [u8]);

impl Word<'_> {
    fn is(self, word: &str) -> bool {
        self.0.eq_ignore_ascii_case(word.as_bytes())
    }

    fn is_any(self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(word))
    }
}

/// Words of a request that become others.
struct Changes<'w> {
    words: Words<'w>,
    book: &'w dyn AddressBook,
    changed: Vec<(usize, String)>,
}

impl<'w> Changes<'w> {
    fn word(&self, at: usize) -> Word<'w> {
        Word(self.words.get(at).unwrap_or_default())
    }

    fn text(&self, at: usize) -> Option<&'w str> {
        std::str::from_utf8(self.words.get(at)?).ok()
    }

    fn set(&mut self, at: usize, new: String) {
        if self.words.get(at).is_some_and(|old| old != new.as_bytes()) {
            self.changed.push((at, new));
        }
    }

    /// A host, and a port behind it. Returns the local and the real port.
    fn real_at(&mut self, at: usize) -> Option<(u16, u16)> {
        let port = parse_port(self.text(at + 1)?)?;
        let (real_host, real_port) = self.book.real_of(self.text(at)?, port)?;
        self.set(at, real_host);
        self.set(at + 1, real_port.to_string());
        Some((port, real_port))
    }

    fn host_and_port(&mut self, at: usize) {
        self.real_at(at);
    }

    fn apply(self) -> Option<OwnedWords> {
        if self.changed.is_empty() {
            return None;
        }
        let word = |(at, old): (usize, &'w [u8])| {
            let new = self.changed.iter().find(|(place, _)| *place == at);
            new.map_or_else(|| old.to_vec(), |(_, new)| new.clone().into_bytes())
        };
        Some(self.words.iter().enumerate().map(word).collect())
    }
}

/// CLUSTER MEET host port [bus-port]
fn cluster(changes: &mut Changes<'_>) {
    if !changes.word(1).is("meet") {
        return;
    }
    let Some((local, real)) = changes.real_at(2) else { return };
    // The port of the bus is never local. A client that computes it from a local port means that of the real one.
    let bus = changes.text(4).and_then(parse_port);
    if let (Some(bus), Some(usual)) = (bus, real.checked_add(BUS_DISTANCE))
        && Some(bus) == local.checked_add(BUS_DISTANCE)
    {
        changes.set(4, usual.to_string());
    }
}

/// FAILOVER TO host port
fn failover(changes: &mut Changes<'_>) {
    for at in 1..changes.words.len() {
        if changes.word(at).is("to") {
            changes.host_and_port(at + 1);
        }
    }
}

/// CLIENT KILL address, and the filters of CLIENT KILL and LIST.
fn client(changes: &mut Changes<'_>) {
    let is_kill = changes.word(1).is("kill");
    if !is_kill && !changes.word(1).is("list") {
        return;
    }
    if is_kill && changes.words.len() == 3 {
        return shown_client(changes, 2);
    }
    let mut at = 2;
    while at + 1 < changes.words.len() {
        let filter = changes.word(at);
        if filter.is_any(&["addr", "not-addr"]) {
            shown_client(changes, at + 1);
        } else if filter.is_any(&["laddr", "not-laddr"]) {
            // For the server, all clients of a node have reached its real address.
            let place = changes.text(at + 1).and_then(HostPort::parse);
            let real = place.and_then(|place| {
                let (host, port) = changes.book.real_of(place.host, place.port)?;
                Some(join(&host, port, Brackets::IfColons))
            });
            if let Some(real) = real {
                changes.set(at + 1, real);
            }
        }
        at += 2;
        // Several ids may follow one after the other.
        while filter.is_any(&["id", "not-id"]) && changes.word(at).0.first().is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
    }
}

fn shown_client(changes: &mut Changes<'_>, at: usize) {
    if let Some(shown) = changes.text(at).and_then(|address| changes.book.shown_of(address)) {
        changes.set(at, shown);
    }
}

/// CONFIG SET parameter value …: what the node announces. CONFIG GET shows the local address in its place.
fn config(changes: &mut Changes<'_>, at: usize) {
    if !changes.word(at).is("set") {
        return;
    }
    let own = changes.book.own();
    let port = own.plain_port.unwrap_or(own.port);
    let Some((real_host, real_port)) = changes.book.real_of(&own.host, port) else { return };
    for at in (at + 1..changes.words.len()).step_by(2) {
        match changes.text(at).and_then(Parameter::of) {
            Some(Parameter::AnnouncedHost) if changes.text(at + 1) == Some(&own.host) => {
                changes.set(at + 1, real_host.clone());
            }
            Some(Parameter::AnnouncedPort) if changes.text(at + 1).and_then(parse_port) == Some(port) => {
                changes.set(at + 1, real_port.to_string());
            }
            _ => {}
        }
    }
}

/// SENTINEL MONITOR name host port quorum, IS-MASTER-DOWN-BY-ADDR host port …, CONFIG SET.
fn sentinel(changes: &mut Changes<'_>) {
    let subcommand = changes.word(1);
    if subcommand.is("monitor") {
        changes.host_and_port(3);
    } else if subcommand.is_any(&["is-master-down-by-addr", "is-primary-down-by-addr"]) {
        changes.host_and_port(2);
    } else if subcommand.is("config") {
        config(changes, 2);
    }
}
