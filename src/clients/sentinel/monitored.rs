//! What a Sentinel knows of one master.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::base::clock::Millis;

/// Sentinel's own default values, in milliseconds.
pub const DOWN_AFTER: Millis = 30_000;
const FAILOVER_TIMEOUT: Millis = 180_000;

/// Where a server is. The name is another word for the address, for `announce-hostnames`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    pub ip: String,
    pub hostname: String,
    pub port: u16,
}

impl Address {
    pub fn of(ip: IpAddr, port: u16) -> Self {
        let hostname = if ip.is_loopback() { "localhost".to_owned() } else { ip.to_string() };
        Self { ip: ip.to_string(), hostname, port }
    }

    /// The name of a server with this address.
    pub fn with_port(&self) -> String {
        let Self { ip, port, .. } = self;
        if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
    }

    pub fn is_same(&self, other: &Self) -> bool {
        self.ip == other.ip && self.port == other.port
    }
}

/// How a Sentinel names hosts to clients.
#[derive(Clone, Copy, Debug)]
pub struct Naming {
    pub by_hostname: bool,
}

impl Naming {
    pub fn host_of(self, address: &Address) -> &str {
        if self.by_hostname { &address.hostname } else { &address.ip }
    }
}

/// Who is needed for a failover.
pub struct Quorum {
    /// How many Sentinels could take part.
    pub usable: usize,
    /// So many have to agree that the master is down.
    pub needed: usize,
    /// So many have to vote.
    pub majority: usize,
}

/// A server's part in replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Master,
    Replica,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Self::Master => "master",
            Self::Replica => "slave",
        }
    }
}

/// What a Sentinel knows of another one.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    pub down_since: Option<Millis>,
}

/// A replica as a Sentinel knows it.
#[derive(Clone, Debug)]
pub struct Replica {
    pub number: usize,
    pub address: Address,
    /// When this Sentinel came to know it in this part.
    pub since: Millis,
    pub down_since: Option<Millis>,
    pub reported: Role,
    pub reported_since: Millis,
    /// It was the master: it is made a replica as soon as it is there.
    pub is_former_master: bool,
}

impl Replica {
    pub(super) fn new(number: usize, address: Address, now: Millis) -> Self {
        Self {
            number,
            address,
            since: now,
            down_since: None,
            reported: Role::Replica,
            reported_since: now,
            is_former_master: false,
        }
    }
}

/// A master that a Sentinel monitors.
pub struct Monitored {
    pub name: Vec<u8>,
    pub address: Address,
    /// The instance, if it is one of this process.
    pub number: Option<usize>,
    /// The group of instances that it is the master of.
    pub origin: Option<usize>,
    /// When this Sentinel came to know it in this part.
    pub since: Millis,
    pub replicas: BTreeMap<usize, Replica>,
    /// The other Sentinels that monitor it, as far as this one knows, and those of them that are down.
    pub known_peers: BTreeSet<usize>,
    pub peers: BTreeMap<usize, Peer>,
    pub down_since: Option<Millis>,
    pub objectively_down_since: Option<Millis>,
    /// When this Sentinel last tried to fail over, or voted for another one to do it.
    pub tried_at: Option<Millis>,
    pub config_epoch: u64,
    /// Whom it voted for, and in which epoch.
    pub vote: Option<(String, u64)>,
    pub quorum: usize,
    pub down_after: Millis,
    pub failover_timeout: Millis,
    pub parallel_syncs: u32,
}

impl Monitored {
    pub fn new(name: &[u8], address: Address, quorum: usize, now: Millis) -> Self {
        Self {
            name: name.to_vec(),
            address,
            number: None,
            origin: None,
            since: now,
            replicas: BTreeMap::new(),
            known_peers: BTreeSet::new(),
            peers: BTreeMap::new(),
            down_since: None,
            objectively_down_since: None,
            tried_at: None,
            config_epoch: 0,
            vote: None,
            quorum,
            down_after: DOWN_AFTER,
            failover_timeout: FAILOVER_TIMEOUT,
            parallel_syncs: 1,
        }
    }

    /// How events name it.
    pub fn describe(&self, naming: Naming) -> String {
        format!("master {} {} {}", self.label(), naming.host_of(&self.address), self.address.port)
    }

    /// How events name one of its replicas.
    pub(super) fn describe_replica(&self, replica: &Replica, naming: Naming) -> String {
        let Replica { address, .. } = replica;
        let own = format!("slave {} {} {}", address.with_port(), naming.host_of(address), address.port);
        format!("{own} {}", self.behind(naming))
    }

    /// How events name another Sentinel that monitors it.
    pub(super) fn describe_peer(&self, id: &str, address: &Address, naming: Naming) -> String {
        format!("sentinel {id} {} {} {}", naming.host_of(address), address.port, self.behind(naming))
    }

    fn behind(&self, naming: Naming) -> String {
        format!("@ {} {} {}", self.label(), naming.host_of(&self.address), self.address.port)
    }

    pub fn label(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }

    /// So many Sentinels monitor it, as far as this one knows.
    pub fn sentinels(&self) -> usize {
        self.known_peers.len() + 1
    }

    pub fn majority(&self) -> usize {
        self.sentinels() / 2 + 1
    }

    /// Whether a failover could be agreed on.
    pub fn check_quorum(&self) -> Quorum {
        let down = self.peers.values().filter(|peer| peer.down_since.is_some()).count();
        Quorum { usable: self.sentinels().saturating_sub(down), needed: self.quorum, majority: self.majority() }
    }
}
