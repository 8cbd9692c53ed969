//! Nodes of a Cluster or a Sentinel set behind this server, as patterns and the journal see them.

use std::fmt;

/// What is known of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeInfo {
    /// Its real address, `host:port`. It names the node everywhere.
    pub address: String,
    /// Its id in a Cluster, or the run id of a Sentinel; empty if it is unknown.
    pub id: String,
    pub role: NodeRole,
    /// The address of its master, if it is a replica and the master is known.
    pub master: Option<String>,
    /// The slots that it serves as a master: first and last of each range.
    pub slots: Vec<(u16, u16)>,
    /// Whether the deployment takes it for reachable.
    pub is_reachable: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeRole {
    #[default]
    Unknown,
    Master,
    Replica,
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
