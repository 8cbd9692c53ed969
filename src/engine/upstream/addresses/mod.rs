//! Addresses in what passes: clients see the nodes of a deployment where this server stands in front of them, and the nodes
//! see themselves.
//!
//! Pure functions of bytes. [`AddressBook`] has the names of each node in both worlds; [`rewrite_reply`], [`rewrite_errors`]
//! and [`rewrite_message`] put the local ones into what a node sends, [`rewrite_request`] the real ones into what a client
//! sends. What is no address stays as it came, byte for byte.

mod cluster;
mod errors;
mod host_port;
mod kind;
mod messages;
mod raw_reply;
mod request;
mod sentinel;
mod server;

use crate::protocol::{OwnedWords, Words};

pub use kind::AddressKind;
use raw_reply::{Edits, Head, Heads, Value};

/// Where clients reach a node through this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalAddress {
    pub host: String,
    /// For this client's kind of connection.
    pub port: u16,
    pub plain_port: Option<u16>,
    pub tls_port: Option<u16>,
}

/// The names of a node in both worlds, as one client's connection sees them.
pub trait AddressBook {
    /// The local address of a node by its real one. `host` empty: the host of the node that has replied. `id`: its cluster id
    /// if the reply has it. A node that was unknown gets one now; `None` only if that is impossible.
    fn local_of(&self, host: &str, port: u16, id: Option<&str>) -> Option<LocalAddress>;
    /// The local address of the node that has replied.
    fn own(&self) -> LocalAddress;
    /// The real address of a node by a local one, or `None` if this is none of ours.
    fn real_of(&self, host: &str, port: u16) -> Option<(String, u16)>;
    /// The addresses (client's own, and that at which it reached us) of the client behind a connection that the server shows
    /// with `address`.
    fn client_of(&self, address: &str) -> Option<(String, String)>;
    /// The reverse: the address that the server shows for the client with this address.
    fn shown_of(&self, client_address: &str) -> Option<String>;
    /// Whether nodes are reached by TLS.
    fn is_tls(&self) -> bool;
    /// Whether the node is a Sentinel (its messages have addresses).
    fn is_sentinel(&self) -> bool;
}

/// The reply to a command, with the local addresses. `None`: it has none, and stays. The reply may be an error, too.
pub fn rewrite_reply(kind: AddressKind, reply: &[u8], book: &dyn AddressBook) -> Option<Vec<u8>> {
    let value = Value::parse(reply)?;
    if matches!(value.kind(), b'-' | b'!') {
        return errors::rewrite(reply, book);
    }
    let mut edits = Edits::new(reply);
    let rewrite = match kind {
        AddressKind::Slots => cluster::slots,
        AddressKind::Shards => cluster::shards,
        AddressKind::Nodes => cluster::nodes,
        AddressKind::Role => server::role,
        AddressKind::Info => server::info,
        AddressKind::Config => server::config,
        AddressKind::ClientList => server::clients,
        AddressKind::SlowLog => server::slow_log,
        AddressKind::AclLog => server::acl_log,
        AddressKind::SentinelInstances => sentinel::instances,
        AddressKind::SentinelAddress => sentinel::address,
        AddressKind::SentinelInfoCache => sentinel::info_cache,
        AddressKind::SentinelScripts => sentinel::scripts,
    };
    rewrite(&value, &mut edits, book);
    edits.apply()
}

/// A reply to any command, with local addresses in the errors MOVED, ASK and REDIRECT in it, at its top and anywhere inside.
/// `None`: it has none, and stays.
pub fn rewrite_errors(reply: &[u8], book: &dyn AddressBook) -> Option<Vec<u8>> {
    errors::rewrite(reply, book)
}

/// The reply to EXEC, with local addresses in the replies to the commands of the transaction and in errors. `kinds` are those
/// of the commands. `None`: it has no addresses, and stays.
pub fn rewrite_elements(reply: &[u8], kinds: &[Option<AddressKind>], book: &dyn AddressBook) -> Option<Vec<u8>> {
    if kinds.iter().all(Option::is_none) {
        return errors::rewrite(reply, book);
    }
    let mut at = 0;
    let head = loop {
        let head = Head::read(reply, at)?;
        if !head.is_aside() {
            break head;
        }
        at = head.span.end;
        for _ in 0..head.count {
            at = Heads::end_of_value(reply, at)?;
        }
    };
    if head.kind != b'*' || head.count == 0 {
        return errors::rewrite(reply, book);
    }
    let mut new = Vec::with_capacity(reply.len());
    let mut is_changed = false;
    at = head.span.end;
    new.extend_from_slice(&reply[..at]);
    let mut kinds = kinds.iter();
    for _ in 0..head.count {
        let end = Heads::end_of_value(reply, at)?;
        let element = &reply[at..end];
        let changed = match kinds.next().copied().flatten() {
            Some(kind) => rewrite_reply(kind, element, book),
            None => errors::rewrite(element, book),
        };
        is_changed |= changed.is_some();
        new.extend_from_slice(changed.as_deref().unwrap_or(element));
        at = end;
    }
    (is_changed && at == reply.len()).then_some(new)
}

/// A message of pub/sub, with local addresses. `None`: it has none, and stays.
pub fn rewrite_message(message: &[u8], book: &dyn AddressBook) -> Option<Vec<u8>> {
    messages::rewrite(message, book)
}

/// A request, with real addresses in place of local ones. `None`: it has none that are ours, and stays.
pub fn rewrite_request(words: Words<'_>, book: &dyn AddressBook) -> Option<OwnedWords> {
    request::rewrite(words, book)
}

#[cfg(test)]
mod tests;
