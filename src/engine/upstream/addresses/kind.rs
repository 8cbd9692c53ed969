//! Which commands have addresses in their replies.

/// Where in the reply of a command addresses are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    /// CLUSTER SLOTS: lists of slots and nodes.
    Slots,
    /// CLUSTER SHARDS: maps of nodes.
    Shards,
    /// CLUSTER NODES and REPLICAS: a line for each node, in one text or several.
    Nodes,
    Role,
    Info,
    /// CONFIG GET, and SENTINEL CONFIG GET.
    Config,
    /// CLIENT LIST and INFO.
    ClientList,
    /// SLOWLOG GET, and COMMANDLOG GET.
    SlowLog,
    AclLog,
    /// SENTINEL MASTERS, MASTER, REPLICAS, SENTINELS: fields of instances.
    SentinelInstances,
    /// SENTINEL GET-MASTER-ADDR-BY-NAME: a host and a port.
    SentinelAddress,
    /// SENTINEL INFO-CACHE: replies to INFO of several nodes.
    SentinelInfoCache,
    /// SENTINEL PENDING-SCRIPTS: the arguments of scripts.
    SentinelScripts,
}

impl AddressKind {
    /// Whether the nodes of a Cluster tell of each other in it.
    pub fn is_topology(self) -> bool {
        matches!(self, Self::Slots | Self::Shards | Self::Nodes)
    }

    /// By the full lower-case name of a command, as `cluster|slots`. `None`: its reply has no addresses but those of errors.
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "cluster|slots" => Self::Slots,
            "cluster|shards" => Self::Shards,
            "cluster|nodes" | "cluster|replicas" | "cluster|slaves" => Self::Nodes,
            "role" => Self::Role,
            "info" => Self::Info,
            "config|get" | "sentinel|config" => Self::Config,
            "client|list" | "client|info" => Self::ClientList,
            "slowlog|get" | "commandlog|get" => Self::SlowLog,
            "acl|log" => Self::AclLog,
            "sentinel|masters" | "sentinel|primaries" | "sentinel|master" | "sentinel|primary"
            | "sentinel|replicas" | "sentinel|slaves" | "sentinel|sentinels" => Self::SentinelInstances,
            "sentinel|get-master-addr-by-name" | "sentinel|get-primary-addr-by-name" => Self::SentinelAddress,
            "sentinel|info-cache" => Self::SentinelInfoCache,
            "sentinel|pending-scripts" => Self::SentinelScripts,
            _ => return None,
        })
    }
}
