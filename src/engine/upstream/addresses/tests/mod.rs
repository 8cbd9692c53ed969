//! Replies as real servers send them (redis-server 7.0.15 and 8.0.6, valkey-server 9.1.2), and what clients get of them.

mod cluster;
mod properties;
mod requests;
mod sentinel;
mod server;

use super::*;

/// Where the nodes of the tests are: real host and port, local port. Their local host is `front.test`.
const NODES: [(&str, u16, u16); 5] = [
    ("10.0.0.1", 7001, 6001),
    ("10.0.0.2", 7002, 6002),
    ("10.0.0.3", 7003, 6003),
    ("fd00::4", 7004, 6004),
    ("node-5.test", 7005, 6005),
];
const ID_1: &str = "9f163f37b2a9a9f6c07f81c0494fea0ada7d5833";
const ID_2: &str = "dda45fecc4ce6a55501015f853509dc76067409f";
const ID_3: &str = "76398d1821f19a27573e63dcfc9d6f1756edcffb";
const IDS: [&str; 3] = [ID_1, ID_2, ID_3];
const HOST: &str = "front.test";
/// The client of the tests, as it is, as it reaches this server, and as the server shows it.
const CLIENT: [&str; 3] = ["192.0.2.9:40000", "front.test:6001", "127.0.0.1:50000"];

/// The names of the nodes of the tests. The first one has replied.
struct Book {
    is_sentinel: bool,
    host: &'static str,
    has_plain: bool,
    has_tls: bool,
}

const CLUSTER: Book = Book { is_sentinel: false, host: HOST, has_plain: true, has_tls: false };
const SENTINELS: Book = Book { is_sentinel: true, ..CLUSTER };
const WITH_TLS: Book = Book { has_tls: true, ..CLUSTER };
const ONLY_TLS: Book = Book { has_tls: true, has_plain: false, ..CLUSTER };

impl Book {
    fn local(&self, port: u16) -> LocalAddress {
        let (plain_port, tls_port) = (self.has_plain.then_some(port), self.has_tls.then_some(port + 100));
        let port = plain_port.or(tls_port).unwrap_or(port);
        LocalAddress { host: self.host.to_owned(), port, plain_port, tls_port }
    }
}

impl AddressBook for Book {
    fn local_of(&self, host: &str, port: u16, id: Option<&str>) -> Option<LocalAddress> {
        let host = if host.is_empty() { NODES[0].0 } else { host };
        let by_id = IDS.iter().position(|known| Some(*known) == id);
        let index = by_id.or_else(|| NODES.iter().position(|(real, known, _)| (*real, *known) == (host, port)))?;
        Some(self.local(NODES[index].2))
    }

    fn own(&self) -> LocalAddress {
        self.local(NODES[0].2)
    }

    fn real_of(&self, host: &str, port: u16) -> Option<(String, u16)> {
        let (real_host, real_port, _) = NODES.iter().find(|(_, _, local)| host == self.host && *local == port)?;
        Some(((*real_host).to_owned(), *real_port))
    }

    fn client_of(&self, address: &str) -> Option<(String, String)> {
        (address == CLIENT[2]).then(|| (CLIENT[0].to_owned(), CLIENT[1].to_owned()))
    }

    fn shown_of(&self, client_address: &str) -> Option<String> {
        (client_address == CLIENT[0]).then(|| CLIENT[2].to_owned())
    }

    fn is_tls(&self) -> bool {
        false
    }

    fn is_sentinel(&self) -> bool {
        self.is_sentinel
    }
}

fn bulk(text: &str) -> Vec<u8> {
    format!("${}\r\n{text}\r\n", text.len()).into_bytes()
}

fn verbatim(text: &str) -> Vec<u8> {
    format!("={}\r\ntxt:{text}\r\n", text.len() + 4).into_bytes()
}

fn integer(number: impl Into<i64>) -> Vec<u8> {
    format!(":{}\r\n", number.into()).into_bytes()
}

fn line(line: &str) -> Vec<u8> {
    format!("{line}\r\n").into_bytes()
}

fn list(values: impl AsRef<[Vec<u8>]>) -> Vec<u8> {
    let values = values.as_ref();
    [line(&format!("*{}", values.len())), values.concat()].concat()
}

/// Fields as RESP2 and as RESP3 have them.
fn fields(is_resp3: bool, values: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let count = if is_resp3 { format!("%{}", values.len()) } else { format!("*{}", values.len() * 2) };
    let values: Vec<u8> = values.iter().flat_map(|(name, value)| [bulk(name), value.clone()].concat()).collect();
    [line(&count), values].concat()
}

/// A reply as text, for messages of tests.
fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a client gets of a reply.
fn received(kind: AddressKind, reply: &[u8], book: &Book) -> String {
    shown(rewrite_reply(kind, reply, book).as_deref().unwrap_or(reply))
}
