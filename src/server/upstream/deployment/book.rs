//! The addresses of nodes as one client's connection has them.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use super::{DeploymentFront, Member};
use crate::base::sync::MutexExt;
use crate::engine::addresses::{AddressBook, LocalAddress};

/// Translates addresses for one connection.
pub(in crate::server) struct ConnectionBook<'c> {
    pub front: &'c DeploymentFront,
    /// The node that the client is connected to.
    pub member: &'c Arc<Member>,
    /// The address at which the client has reached this server, unless by a unix socket.
    pub reached: Option<IpAddr>,
    pub is_tls: bool,
    /// Whether the deployment itself has written what is translated. A script can make up any address, and nobody is
    /// connected to those.
    pub is_named: bool,
    /// An address was asked for that is none of the deployment's, as far as that is known.
    pub has_missed: Cell<bool>,
}

impl ConnectionBook<'_> {
    fn host(&self) -> String {
        match (&self.front.announced, self.reached) {
            (Some(host), _) => host.clone(),
            (None, Some(ip)) => ip.to_canonical().to_string(),
            (None, None) => {
                self.member.main_address().map_or(Ipv4Addr::LOCALHOST.into(), |local| local.ip()).to_string()
            }
        }
    }

    fn local(&self, member: &Member) -> LocalAddress {
        let port = |port: u16| Some(port).filter(|port| *port != 0);
        let (plain, tls) = (port(member.node.port()), port(member.node.tls_port()));
        let own = if self.is_tls { tls.or(plain) } else { plain.or(tls) };
        LocalAddress { host: self.host(), port: own.unwrap_or(0), plain_port: plain, tls_port: tls }
    }

    /// Whether a host is a way to this server.
    fn is_here(&self, host: &str) -> bool {
        if self.front.announced.as_deref().is_some_and(|announced| announced.eq_ignore_ascii_case(host)) {
            return true;
        }
        match crate::base::host::resolve(host) {
            Ok(ip) => {
                ip.is_loopback() || ip.is_unspecified() || self.reached.is_some_and(|own| own.to_canonical() == ip)
            }
            Err(_) => false,
        }
    }
}

impl AddressBook for ConnectionBook<'_> {
    fn local_of(&self, host: &str, port: u16, id: Option<&str>) -> Option<LocalAddress> {
        if let Some(member) = id.and_then(|id| self.front.members().by_id.get(id).cloned()) {
            return Some(self.local(&member));
        }
        if port == 0 {
            return None;
        }
        let target = self.member.target();
        let host = if host.is_empty() { target.host() } else { host };
        let member = if self.is_named { self.front.member_named(host, port) } else { self.front.member_at(host, port) };
        if member.is_none() {
            self.has_missed.set(true);
        }
        // An address that cannot be served must not leave, either. What a replica names is most likely its master, by a name that
        // the deployment does not use.
        let master = || {
            let info = self.member.node.info();
            let (host, port) = info.master.as_ref()?.rsplit_once(':')?;
            self.front.member_at(host.trim_matches(['[', ']']), port.parse().ok()?)
        };
        let member = member.or_else(master);
        Some(self.local(member.as_ref().unwrap_or(self.member)))
    }

    fn own(&self) -> LocalAddress {
        self.local(self.member)
    }

    fn real_of(&self, host: &str, port: u16) -> Option<(String, u16)> {
        if port == 0 || !self.is_here(host) {
            return None;
        }
        let members = self.front.members();
        let member = members.list.iter().find(|member| [member.node.port(), member.node.tls_port()].contains(&port))?;
        let target = member.target();
        // Nodes take only addresses of each other.
        let host = crate::base::host::resolve(target.host()).map(|address| address.to_string());
        Some((host.unwrap_or_else(|_| target.host().to_owned()), target.port()))
    }

    fn client_of(&self, address: &str) -> Option<(String, String)> {
        self.front.connections.lock_ignoring_poison().get(&(self.member.node.number, address.to_owned())).cloned()
    }

    fn shown_of(&self, client_address: &str) -> Option<String> {
        let connections = self.front.connections.lock_ignoring_poison();
        let number = self.member.node.number;
        let is_meant =
            |(key, value): &(&(u16, String), &(String, String))| key.0 == number && value.0 == client_address;
        connections.iter().find(is_meant).map(|((_, shown), _)| shown.clone())
    }

    fn is_tls(&self) -> bool {
        self.member.target().is_tls()
    }

    fn is_sentinel(&self) -> bool {
        self.member.is_sentinel()
    }
}
