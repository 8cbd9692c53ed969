//! The replies to INFO, ROLE, CONFIG GET, and those that show clients.

use super::host_port::{Brackets, HostPort, join, local_at, parse_port};
use super::raw_reply::{Edits, Value};
use super::{AddressBook, LocalAddress};

/// ROLE: of a master its replicas, of a replica its master. That of a Sentinel has no addresses.
pub(super) fn role(reply: &Value<'_>, edits: &mut Edits<'_>, book: &dyn AddressBook) {
    match reply.children.as_slice() {
        [role, _, replicas, ..] if role.bytes() == Some(b"master") => {
            for replica in &replicas.children {
                if let [host, port, ..] = replica.children.as_slice() {
                    host_and_port(host, port, edits, book);
                }
            }
        }
        [role, host, port, ..] if matches!(role.bytes(), Some(b"slave" | b"replica")) => {
            host_and_port(host, port, edits, book);
        }
        _ => {}
    }
}

/// Two values that are the host and the port of a node.
pub(super) fn host_and_port(host: &Value<'_>, port: &Value<'_>, edits: &mut Edits<'_>, book: &dyn AddressBook) {
    let (Some(name), Some(number)) = (host.text(), port.text().and_then(parse_port)) else { return };
    if let Some(local) = local_at(book, name, number, None) {
        edits.set_unless_empty(host, &local.host);
        edits.set(port, local.port.to_string());
    }
}

/// INFO: a text.
pub(super) fn info(reply: &Value<'_>, edits: &mut Edits<'_>, book: &dyn AddressBook) {
    if let Some(text) = reply.bytes() {
        edits.set(reply, localized_info(text, Some(&book.own()), book));
    }
}

/// The text of INFO with local addresses. `own`: that of the node which it is about, if it is known.
pub(super) fn localized_info(text: &[u8], own: Option<&LocalAddress>, book: &dyn AddressBook) -> Vec<u8> {
    let master = info_master(text).and_then(|(host, port)| local_at(book, host, port, None));
    let mut new = Vec::with_capacity(text.len() + 64);
    for whole in text.split_inclusive(|byte| *byte == b'\n') {
        let field = info_field(whole);
        match field.map(|(name, value)| (name, info_line(name, value, own, master.as_ref(), book))) {
            Some((name, InfoLine::Value(value))) => {
                let line_end = &whole[whole.trim_ascii_end().len()..];
                new.extend_from_slice(&[name.as_bytes(), b":", value.as_bytes(), line_end].concat());
            }
            Some((_, InfoLine::Gone)) => {}
            _ => new.extend_from_slice(whole),
        }
    }
    new
}

/// Name and value of a line of INFO. Lines with other bytes than text have no addresses: names of files.
fn info_field(line: &[u8]) -> Option<(&str, &str)> {
    std::str::from_utf8(line).ok()?.trim_ascii_end().split_once(':')
}

fn info_fields(text: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    text.split(|byte| *byte == b'\n').filter_map(info_field)
}

/// The host and port of the master that a replica names in INFO.
pub(super) fn info_master(text: &[u8]) -> Option<(&str, u16)> {
    Some((info_value(text, "master_host")?, parse_port(info_value(text, "master_port")?)?))
}

/// The value of a line of INFO.
pub(super) fn info_value<'t>(text: &'t [u8], name: &str) -> Option<&'t str> {
    info_fields(text).find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// The hosts and ports of the replicas that a master names in INFO.
pub(super) fn info_replicas(text: &[u8]) -> impl Iterator<Item = (&str, u16)> {
    info_fields(text).filter(|(name, _)| is_numbered(name, "slave")).filter_map(|(_, fields)| {
        let field = |name| fields.split(',').find_map(|field| field.strip_prefix(name));
        Some((field("ip=")?, parse_port(field("port=")?)?))
    })
}

/// What becomes of a line of INFO.
enum InfoLine {
    Stays,
    Value(String),
    Gone,
}

fn info_line(
    name: &str,
    value: &str,
    own: Option<&LocalAddress>,
    master: Option<&LocalAddress>,
    book: &dyn AddressBook,
) -> InfoLine {
    let stays_or = |value: Option<String>| value.map_or(InfoLine::Stays, InfoLine::Value);
    match name {
        "tcp_port" => stays_or(own.map(|own| own.plain_port.or(own.tls_port).unwrap_or(own.port).to_string())),
        "master_host" if !value.is_empty() => stays_or(master.map(|master| master.host.clone())),
        "master_port" => stays_or(master.map(|master| master.port.to_string())),
        _ if is_numbered(name, "slave") => stays_or(replica_fields(value, book)),
        _ if is_numbered(name, "master") => stays_or(master_fields(value, book)),
        _ if is_numbered(name, "listener") => own.map_or(InfoLine::Stays, |own| listener(value, own)),
        _ => InfoLine::Stays,
    }
}

/// Whether it is this name with a number behind it.
fn is_numbered(name: &str, prefix: &str) -> bool {
    let number = name.strip_prefix(prefix);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// `ip=127.0.0.1,port=7001,state=online,…`: a replica of this node.
fn replica_fields(fields: &str, book: &dyn AddressBook) -> Option<String> {
    let field = |name| fields.split(',').find_map(|field| field.strip_prefix(name));
    let local = local_at(book, field("ip=")?, parse_port(field("port=")?)?, None)?;
    let localized = fields.split(',').map(|field| match field.split_once('=') {
        Some(("ip", host)) if !host.is_empty() => format!("ip={}", local.host),
        Some(("port", _)) => format!("port={}", local.port),
        _ => field.to_owned(),
    });
    Some(localized.collect::<Vec<_>>().join(","))
}

/// `name=…,status=ok,address=127.0.0.1:6379,…`: a master that a Sentinel monitors.
fn master_fields(fields: &str, book: &dyn AddressBook) -> Option<String> {
    let localized = fields.split(',').map(|field| {
        let address = field.strip_prefix("address=").and_then(HostPort::parse);
        let local = address.and_then(|address| address.localized(book, None));
        local.map_or_else(|| field.to_owned(), |local| format!("address={local}"))
    });
    Some(localized.collect::<Vec<_>>().join(","))
}

/// `name=tcp,bind=127.0.0.1,bind=-::1,port=6379`: where the node accepts connections. What is not open here is left out.
fn listener(fields: &str, own: &LocalAddress) -> InfoLine {
    let field = |name| fields.split(',').find_map(|field| field.strip_prefix(name));
    let port = match field("name=") {
        Some("tcp") => own.plain_port,
        Some("tls") => own.tls_port,
        _ => return InfoLine::Stays,
    };
    let Some(port) = port else { return InfoLine::Gone };
    let mut has_host = false;
    let mut localized = Vec::new();
    for field in fields.split(',') {
        match field.split_once('=') {
            // All addresses of a machine are none of its addresses.
            Some(("bind", host)) if !host.contains('*') => {
                if !std::mem::replace(&mut has_host, true) {
                    localized.push(format!("bind={}", own.host));
                }
            }
            Some(("port", _)) => localized.push(format!("port={port}")),
            _ => localized.push(field.to_owned()),
        }
    }
    InfoLine::Value(localized.join(","))
}

/// CONFIG GET: names and values.
pub(super) fn config(reply: &Value<'_>, edits: &mut Edits<'_>, book: &dyn AddressBook) {
    for (name, value) in reply.fields() {
        let (Some(name), Some(old)) = (name.text(), value.text()) else { continue };
        let own = book.own();
        let port = |port: Option<u16>| Some(port.unwrap_or_default().to_string());
        let new = match Parameter::of(name) {
            Some(Parameter::Master) => {
                old.split_once(' ').filter(|(host, _)| !host.is_empty()).and_then(|(host, port)| {
                    let local = local_at(book, host, parse_port(port)?, None)?;
                    Some(format!("{} {}", local.host, local.port))
                })
            }
            // Those that say where the node listens.
            Some(Parameter::PlainPort) if own.plain_port.or(own.tls_port).is_some() => port(own.plain_port),
            Some(Parameter::TlsPort) if own.plain_port.or(own.tls_port).is_some() => port(own.tls_port),
            // The others say nothing while they are empty or 0.
            _ if matches!(old, "" | "0") => None,
            Some(Parameter::AnnouncedHost | Parameter::AnnouncedName) => Some(own.host),
            Some(Parameter::AnnouncedPort) => Some(own.plain_port.unwrap_or(own.port).to_string()),
            Some(Parameter::AnnouncedTlsPort) => port(own.tls_port),
            _ => None,
        };
        if let Some(new) = new {
            edits.set(value, &new);
        }
    }
}

/// Parameters of the configuration that are addresses, of servers and of Sentinels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parameter {
    /// Host and port of the master.
    Master,
    PlainPort,
    TlsPort,
    AnnouncedHost,
    AnnouncedName,
    AnnouncedPort,
    AnnouncedTlsPort,
}

impl Parameter {
    pub fn of(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "replicaof" | "slaveof" => Self::Master,
            "port" => Self::PlainPort,
            "tls-port" => Self::TlsPort,
            "announce-ip"
            | "replica-announce-ip"
            | "slave-announce-ip"
            | "cluster-announce-ip"
            | "cluster-announce-client-ipv4"
            | "cluster-announce-client-ipv6" => Self::AnnouncedHost,
            "cluster-announce-hostname" => Self::AnnouncedName,
            "announce-port"
            | "replica-announce-port"
            | "slave-announce-port"
            | "cluster-announce-port"
            | "cluster-announce-client-port" => Self::AnnouncedPort,
            "cluster-announce-tls-port" | "cluster-announce-client-tls-port" => Self::AnnouncedTlsPort,
            _ => return None,
        })
    }
}

/// CLIENT LIST and INFO: a text with a line for each client.
pub(super) fn clients(reply: &Value<'_>, edits: &mut Edits<'_>, book: &dyn AddressBook) {
    if let Some(text) = reply.bytes() {
        let lines: Vec<Vec<u8>> = text.split(|byte| *byte == b'\n').map(|line| client_line(line, book)).collect();
        edits.set(reply, lines.join(&b'\n'));
    }
}

/// `id=3 addr=127.0.0.1:50000 laddr=127.0.0.1:6379 …`, with the addresses of the client itself. Names in it may be any bytes.
///
/// Of whoever is connected to the node itself, the node's own address is translated, and so is that of its master.
fn client_line(line: &[u8], book: &dyn AddressBook) -> Vec<u8> {
    let fields = || line.split(|byte| *byte == b' ');
    let value = |name: &[u8]| fields().find_map(|field| std::str::from_utf8(field.strip_prefix(name)?).ok());
    let Some(shown) = value(b"addr=") else { return line.to_vec() };
    let text = |local: &LocalAddress| join(&local.host, local.port, Brackets::IfColons);
    let (address, local) = match book.client_of(shown) {
        Some((client, reached)) => (client, Some(reached)),
        None if value(b"flags=").is_some_and(|flags| flags.contains('M')) => {
            let master = HostPort::parse(shown).and_then(|at| local_at(book, at.host, at.port, None));
            (master.as_ref().map_or_else(|| shown.to_owned(), text), None)
        }
        None => (shown.to_owned(), Some(text(&book.own()))),
    };
    let fields = fields().map(|field| match &local {
        _ if field.starts_with(b"addr=") => [b"addr=", address.as_bytes()].concat(),
        Some(local) if field.starts_with(b"laddr=") => [b"laddr=", local.as_bytes()].concat(),
        _ => field.to_vec(),
    });
    fields.collect::<Vec<_>>().join(&b' ')
}

/// SLOWLOG GET: of each command its number, time, duration, words, client address and client name.
pub(super) fn slow_log(reply: &Value<'_>, edits: &mut Edits<'_>, book: &dyn AddressBook) {
    for address in reply.children.iter().filter_map(|entry| entry.children.get(4)) {
        if let Some((client, _)) = address.text().and_then(|shown| book.client_of(shown)) {
            edits.set(address, &client);
        }
    }
}

/// ACL LOG: fields, one of which is the line of a client.
pub(super) fn acl_log(reply: &Value<'_>, edits: &mut Edits<'_>, book: &dyn AddressBook) {
    for client in reply.children.iter().filter_map(|entry| entry.field("client-info")) {
        if let Some(line) = client.bytes() {
            edits.set(client, client_line(line, book));
        }
    }
}
