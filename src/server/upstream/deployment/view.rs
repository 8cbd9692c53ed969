//! A deployment as one of its nodes sees it.

use crate::powers::NodeRole;

/// A node as another one sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SeenNode {
    /// Its id in the Cluster, or that of a Sentinel; empty for the data nodes behind Sentinels.
    pub id: String,
    /// Empty: the host at which the node was asked.
    pub host: String,
    /// 0 if its address is unknown.
    pub port: u16,
    pub hostname: Option<String>,
    pub role: NodeRole,
    pub master: Option<Master>,
    pub slots: Vec<(u16, u16)>,
    pub is_reachable: bool,
    /// It is the node that was asked.
    pub is_myself: bool,
}

/// The master of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Master {
    /// By its id in the Cluster.
    Id(String),
    /// By host and port.
    At(String, u16),
}
