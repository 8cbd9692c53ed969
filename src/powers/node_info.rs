//! Nodes of a Cluster or a Sentinel set behind this server, as patterns and the journal see them.

use std::fmt;
use std::sync::Arc;

/// What is known of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeInfo {
    /// Its real address, `host:port`. It names the node everywhere.
    pub address: String,
    /// Its id in a Cluster, or the run id of a Sentinel; empty if it is unknown.
    pub id: String,
    /// What it is for the others.
    pub role: NodeRole,
    /// The address of its master, if it is a replica and the master is known.
    pub master: Option<String>,
    /// The slots that it serves as a master: first and last of each range.
    pub slots: Vec<(u16, u16)>,
    /// Whether the deployment takes it for reachable.
    pub is_reachable: bool,
}

impl NodeInfo {
    /// Its slots on one line: `0-5460 10923`.
    pub(crate) fn spelled_slots(&self) -> String {
        let range = |(first, last): &(u16, u16)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        self.slots.iter().map(range).collect::<Vec<_>>().join(" ")
    }
}

/// What a node is in its deployment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeRole {
    /// It has not been seen in the deployment.
    #[default]
    Unknown,
    /// It takes writes.
    Master,
    /// It follows a master.
    Replica,
    /// It watches masters and replicas.
    Sentinel,
}

impl NodeRole {
    /// As it is written on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Master => "master",
            Self::Replica => "replica",
            Self::Sentinel => "sentinel",
        }
    }
}

impl fmt::Display for NodeRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A node as it is when a command comes to it.
#[derive(Clone, Debug)]
pub struct NodeSnapshot {
    /// Its number in the deployment, from 1. It keeps it when its address changes.
    pub number: u16,
    pub info: Arc<NodeInfo>,
    /// The local ports for plain connections and for TLS; 0 for none.
    pub ports: [u16; 2],
}

impl NodeSnapshot {
    /// Whether this is its real address, or a local one of this machine.
    pub fn has_address(&self, text: &str) -> bool {
        let wanted = canonical(text);
        if wanted == canonical(&self.info.address) {
            return true;
        }
        let local = wanted.rsplit_once(':').filter(|(host, _)| is_loopback(host));
        local.and_then(|(_, port)| port.parse().ok()).is_some_and(|port| self.has_local_port(port))
    }

    /// Whether this is its real port, or a local one.
    pub fn has_port(&self, port: u16) -> bool {
        let real = self.info.address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        real == Some(port) || self.has_local_port(port)
    }

    pub fn has_local_port(&self, port: u16) -> bool {
        port != 0 && self.ports.contains(&port)
    }

    /// Whether this is its id.
    pub fn has_id(&self, text: &str) -> bool {
        !text.is_empty() && self.info.id.eq_ignore_ascii_case(text)
    }
}

/// Which nodes of the Cluster or the Sentinel set behind a server are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeSelector {
    /// The node with this address (`127.0.0.1:7001`), port (`7001`) or id. Address and port are the node's own, or those
    /// under which this server offers it.
    Named(String),
    /// The node with this number, and what it was called when it was looked up.
    #[doc(hidden)]
    Numbered(u16, String),
    /// All nodes that have this role when a command comes to them.
    Role(NodeRole),
    /// The replicas of the node with this address.
    ReplicaOf(String),
}

impl NodeSelector {
    /// The replicas of the node with this address: its own, `127.0.0.1:7001`.
    pub fn replica_of(address: impl Into<String>) -> Self {
        Self::ReplicaOf(address.into())
    }

    pub(crate) fn matches(&self, node: &NodeSnapshot) -> bool {
        match self {
            Self::Named(text) => {
                node.has_address(text) || node.has_id(text) || text.parse().is_ok_and(|port| node.has_port(port))
            }
            Self::Numbered(number, _) => *number == node.number,
            Self::Role(role) => *role == node.info.role,
            Self::ReplicaOf(address) => {
                let is_meant = |master: &String| canonical(master) == canonical(address);
                node.info.role == NodeRole::Replica && node.info.master.as_ref().is_some_and(is_meant)
            }
        }
    }

    /// As it is written on the wire.
    pub(crate) fn words(&self) -> Vec<Vec<u8>> {
        match self {
            Self::Named(text) | Self::Numbered(_, text) => vec![text.clone().into_bytes()],
            Self::Role(role) => vec![role.name().into()],
            Self::ReplicaOf(address) => vec![b"replica".to_vec(), b"of".to_vec(), address.clone().into_bytes()],
        }
    }
}

impl From<&str> for NodeSelector {
    fn from(text: &str) -> Self {
        Self::Named(text.to_owned())
    }
}

impl From<NodeRole> for NodeSelector {
    fn from(role: NodeRole) -> Self {
        Self::Role(role)
    }
}

/// An address as it is compared: without the port of the cluster bus, without brackets around the host, and with
/// 127.0.0.1 for `localhost`.
fn canonical(address: &str) -> String {
    let address = address.split('@').next().unwrap_or_default().to_ascii_lowercase();
    match address.rsplit_once(':') {
        Some(("localhost", port)) => format!("127.0.0.1:{port}"),
        Some((host, port)) => format!("{}:{port}", host.trim_start_matches('[').trim_end_matches(']')),
        None => address,
    }
}

fn is_loopback(host: &str) -> bool {
    host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> NodeSnapshot {
        let (address, id) = ("10.0.0.1:7001".to_owned(), "e7d1".to_owned());
        let (role, master) = (NodeRole::Replica, Some("10.0.0.2:7002".to_owned()));
        let info = NodeInfo { address, id, role, master, slots: Vec::new(), is_reachable: true };
        NodeSnapshot { number: 3, info: Arc::new(info), ports: [30_001, 0] }
    }

    #[test]
    fn a_node_is_named_by_its_own_address_or_the_local_one() {
        let node = node();
        for name in
            ["10.0.0.1:7001", "10.0.0.1:7001@17001", "7001", "30001", "127.0.0.1:30001", "localhost:30001", "E7D1"]
        {
            assert!(NodeSelector::from(name).matches(&node), "{name}");
        }
        for name in ["10.0.0.1:7002", "10.0.0.9:30001", "10.0.0.1:30001", "0", "", "e7d", "127.0.0.1:0", "[::1]:7001"] {
            assert!(!NodeSelector::from(name).matches(&node), "{name}");
        }
    }

    #[test]
    fn an_address_of_ipv6_needs_no_brackets() {
        let mut node = node();
        Arc::make_mut(&mut node.info).address = "::1:7001".to_owned();
        for name in ["::1:7001", "[::1]:7001", "[::1]:30001"] {
            assert!(NodeSelector::from(name).matches(&node), "{name}");
        }
    }

    #[test]
    fn roles_are_those_of_the_moment() {
        let mut node = node();
        let of_master = NodeSelector::replica_of("10.0.0.2:7002");
        assert!(of_master.matches(&node) && NodeSelector::from(NodeRole::Replica).matches(&node));
        assert!(!NodeSelector::replica_of("10.0.0.1:7001").matches(&node));
        Arc::make_mut(&mut node.info).role = NodeRole::Master;
        assert!(!of_master.matches(&node) && NodeSelector::from(NodeRole::Master).matches(&node));
    }
}
