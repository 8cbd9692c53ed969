//! Hosts and ports as texts.

use super::{AddressBook, LocalAddress};

/// What a node shows in place of a host that it does not know.
const UNKNOWN_HOST: &str = "?";

/// The local address of the node at this place; `None` if it is no place, or none that has a local address. `id`: as in
/// [`AddressBook::local_of`].
pub(super) fn local_at(book: &dyn AddressBook, host: &str, port: u16, id: Option<&str>) -> Option<LocalAddress> {
    if port == 0 {
        return None;
    }
    book.local_of(known_host(host), port, id)
}

/// The host; empty if the node does not know it.
pub(super) fn known_host(host: &str) -> &str {
    if host == UNKNOWN_HOST { "" } else { host }
}

/// A port as it stands in replies. 0 is none.
pub(super) fn parse_port(text: &str) -> Option<u16> {
    let is_port = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    if is_port { text.parse().ok() } else { None }
}

/// A host and a port with a colon between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HostPort<'t> {
    pub host: &'t str,
    pub port: u16,
    /// How a host with colons is told from the port.
    pub brackets: Brackets,
}

/// Whether a host with colons has brackets around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Brackets {
    Never,
    IfColons,
}

impl<'t> HostPort<'t> {
    /// The host may be empty, an IPv6 address with or without brackets, or a name.
    pub fn parse(text: &'t str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = parse_port(port)?;
        if host.contains(|char: char| char.is_whitespace()) {
            return None;
        }
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).filter(|host| host.contains(':'));
        let brackets = if bare.is_some() { Brackets::IfColons } else { Brackets::Never };
        Some(Self { host: bare.unwrap_or(host), port, brackets })
    }

    /// The local address in place of this one. A host that is empty stays so: it is where the client reached the node.
    pub fn localized(&self, book: &dyn AddressBook, id: Option<&str>) -> Option<String> {
        let local = local_at(book, self.host, self.port, id)?;
        let host = if self.host.is_empty() { "" } else { &local.host };
        Some(join(host, local.port, self.brackets))
    }
}

/// A host and a port as one text.
pub(super) fn join(host: &str, port: u16, brackets: Brackets) -> String {
    if brackets == Brackets::IfColons && host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}
