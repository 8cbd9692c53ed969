//! Messages of pub/sub: the events of a Sentinel, and what Sentinels say to each other through the nodes.

use memchr::memmem;

use super::AddressBook;
use super::host_port::{HostPort, local_at, parse_port};
use super::raw_reply::{Edits, Value};
use super::sentinel::instance_name;

/// The channel on which Sentinels tell of themselves and of the master.
const HELLO: &str = "__sentinel__:hello";

/// The message with local addresses.
pub(super) fn rewrite(message: &[u8], book: &dyn AddressBook) -> Option<Vec<u8>> {
    let is_sentinel = book.is_sentinel();
    if !is_sentinel && memmem::find(message, HELLO.as_bytes()).is_none() {
        return None;
    }
    let parsed = Value::parse(message)?;
    let (channel, payload) = match parsed.children.as_slice() {
        [kind, channel, payload] if matches!(kind.bytes(), Some(b"message" | b"smessage")) => (channel, payload),
        [kind, _, channel, payload] if kind.bytes() == Some(b"pmessage") => (channel, payload),
        _ => return None,
    };
    let (channel, text) = (channel.text()?, payload.text()?);
    let new = if channel == HELLO {
        localized_hello(text, book)
    } else if is_sentinel {
        localized_event(channel, text, book)
    } else {
        None
    };
    let mut edits = Edits::new(message);
    edits.set(payload, &new?);
    edits.apply()
}

/// `host,port,run id,epoch,master name,master host,master port,master epoch`.
fn localized_hello(text: &str, book: &dyn AddressBook) -> Option<String> {
    let mut fields: Vec<String> = text.split(',').map(str::to_owned).collect();
    for at in [0, 5] {
        localize_pair(&mut fields, at, book);
    }
    Some(fields.join(","))
}

/// The text of an event of a Sentinel with local addresses.
pub(super) fn localized_event(event: &str, text: &str, book: &dyn AddressBook) -> Option<String> {
    let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    match event {
        // The name of the master, its former address, its new one.
        "+switch-master" | "+redirect-to-master" => {
            localize_pair(&mut words, 1, book);
            localize_pair(&mut words, 3, book);
        }
        // `type name host port`, and of all but a master `@ master-name host port`; then what has happened.
        _ if matches!(words[0].as_str(), "master" | "primary" | "slave" | "replica" | "sentinel") => {
            let address = words.get(2).cloned();
            if let Some(named) = words.get(1).and_then(|name| HostPort::parse(name))
                && address.is_some_and(|address| address == named.host)
                && let Some(name) = instance_name(named, book)
            {
                words[1] = name;
            }
            localize_pair(&mut words, 2, book);
            let rest = if words.get(4).is_some_and(|word| word == "@") {
                localize_pair(&mut words, 6, book);
                8
            } else {
                4
            };
            localize_details(&mut words, rest, book);
        }
        _ => return None,
    }
    Some(words.join(" "))
}

/// Localizes the host at this place and the port behind it.
fn localize_pair(words: &mut [String], at: usize, book: &dyn AddressBook) {
    let Some([host, port, ..]) = words.get_mut(at..) else { return };
    if host.is_empty() {
        return;
    }
    if let Some(local) = parse_port(port).and_then(|port| local_at(book, host, port, None)) {
        (*host, *port) = (local.host, local.port.to_string());
    }
}

/// What follows behind an instance: `ip 10.0.0.1 port 26379 for …` if a Sentinel has another address, and the address of an
/// instance that is there twice.
fn localize_details(words: &mut [String], from: usize, book: &dyn AddressBook) {
    match words.get_mut(from..) {
        Some([ip, host, port, number, ..]) if ip == "ip" && port == "port" => {
            if let Some(local) = parse_port(number).and_then(|number| local_at(book, host, number, None)) {
                (*host, *number) = (local.host, local.port.to_string());
            }
        }
        Some([duplicate, of, address, ..]) if duplicate == "#duplicate" && of == "of" => {
            if let Some(local) = HostPort::parse(address).and_then(|address| address.localized(book, None)) {
                *address = local;
            }
        }
        _ => {}
    }
}
