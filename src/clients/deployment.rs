//! The Cluster or the Sentinel set behind this server: its nodes, each with a local port of its own.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crate::base::sync::MutexExt;
use crate::powers::{NodeInfo, NodeRole, NodeSelector, NodeSnapshot};

/// What kind of deployment it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeploymentKind {
    Cluster,
    Sentinel {
        /// The name of the master in the Sentinels.
        service: String,
    },
}

impl DeploymentKind {
    /// As it is written on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Sentinel { .. } => "sentinel",
        }
    }
}

/// A Cluster or a Sentinel set behind this server.
pub struct Deployment {
    pub kind: DeploymentKind,
    nodes: Mutex<Vec<Arc<DeploymentNode>>>,
}

/// A node, for as long as the process runs: one that has left the deployment keeps its number and its port.
pub struct DeploymentNode {
    /// Counts from 1.
    pub number: u16,
    info: Mutex<Arc<NodeInfo>>,
    /// How often what is known of it has changed.
    version: AtomicU32,
    /// Its role is that of a replica.
    is_replica: AtomicBool,
    /// The local ports for plain connections and for TLS; 0 for none.
    ports: [AtomicU16; 2],
    /// Whether it accepts connections: REDOUBLE NODE STOP has not been said.
    is_serving: AtomicBool,
}

impl Deployment {
    pub fn new(kind: DeploymentKind) -> Self {
        Self { kind, nodes: Mutex::default() }
    }

    /// Adds a node, which gets the next number.
    pub fn add(&self, info: NodeInfo) -> Arc<DeploymentNode> {
        let mut nodes = self.nodes.lock_ignoring_poison();
        let node = Arc::new(DeploymentNode {
            number: u16::try_from(nodes.len() + 1).unwrap_or(u16::MAX),
            is_replica: AtomicBool::new(info.role == NodeRole::Replica),
            info: Mutex::new(Arc::new(info)),
            version: AtomicU32::new(1),
            ports: Default::default(),
            is_serving: AtomicBool::new(true),
        });
        nodes.push(Arc::clone(&node));
        node
    }

    /// All nodes, by number.
    pub fn nodes(&self) -> Vec<Arc<DeploymentNode>> {
        self.nodes.lock_ignoring_poison().clone()
    }

    /// The node with this address, port or id, or the only one of a role. A host is also a local one if it is a loopback
    /// address or stands in `hosts`. The error lists the nodes there are.
    pub fn find(&self, text: &str, hosts: &[String]) -> Result<Arc<DeploymentNode>, String> {
        let nodes = self.nodes();
        let role = [NodeRole::Master, NodeRole::Replica, NodeRole::Sentinel];
        let role = role.into_iter().find(|role| role.name().eq_ignore_ascii_case(text));
        let local =
            text.rsplit_once(':').filter(|(host, _)| hosts.iter().any(|known| known.eq_ignore_ascii_case(host)));
        let local = local.and_then(|(_, port)| port.parse().ok());
        let selector = role.map_or_else(|| NodeSelector::from(text), NodeSelector::from);
        let is_meant =
            |node: &NodeSnapshot| selector.matches(node) || local.is_some_and(|port| node.has_local_port(port));
        let mut found: Vec<_> = nodes.iter().filter(|node| is_meant(&node.snapshot())).collect();
        // What is somebody's own address is no other node's local one.
        let own = found.iter().filter(|node| node.info().address.eq_ignore_ascii_case(text));
        // Of several that had an address one after the other, the last one is there now.
        if let Some(own) = own.max_by_key(|node| (node.info().is_reachable, node.number)) {
            found = vec![own];
        }
        match found.as_slice() {
            [node] => Ok(Arc::clone(node)),
            [] => Err(format!("there is no node '{}'; the nodes are {}", shortened(text), listed(&nodes))),
            several => {
                let several: Vec<_> = several.iter().map(|node| Arc::clone(node)).collect();
                Err(format!("'{text}' is more than one node: {}; give a node's host:port", listed(&several)))
            }
        }
    }

    /// Looks up the nodes that a pattern names. The error says what is wrong with it.
    pub fn resolve(&self, selector: &mut NodeSelector, hosts: &[String]) -> Result<(), String> {
        match selector {
            NodeSelector::Named(text) => {
                let node = self.find(text, hosts)?;
                *selector = NodeSelector::Numbered(node.number, std::mem::take(text));
            }
            NodeSelector::ReplicaOf(master) => *master = self.find(master, hosts)?.info().address.clone(),
            NodeSelector::Role(NodeRole::Sentinel) if self.kind == DeploymentKind::Cluster => {
                return Err("a Cluster has no Sentinels".to_owned());
            }
            NodeSelector::Role(_) | NodeSelector::Numbered(..) => {}
        }
        Ok(())
    }
}

impl DeploymentNode {
    pub fn info(&self) -> Arc<NodeInfo> {
        Arc::clone(&self.info.lock_ignoring_poison())
    }

    pub fn set_info(&self, info: NodeInfo) {
        let mut known = self.info.lock_ignoring_poison();
        if **known != info {
            self.is_replica.store(info.role == NodeRole::Replica, Ordering::Relaxed);
            *known = Arc::new(info);
            self.version.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether it is a replica, as far as that is known.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.is_replica.load(Ordering::Relaxed)
    }

    /// Changes whenever something else is known of it; never 0.
    #[inline]
    pub fn version(&self) -> u32 {
        self.version.load(Ordering::Relaxed)
    }

    /// The node as it is now.
    pub fn snapshot(&self) -> NodeSnapshot {
        NodeSnapshot { number: self.number, info: self.info(), ports: [self.port(), self.tls_port()] }
    }

    /// The local port for plain connections; 0 for none.
    pub fn port(&self) -> u16 {
        self.ports[0].load(Ordering::Relaxed)
    }

    /// The local port for TLS; 0 for none.
    pub fn tls_port(&self) -> u16 {
        self.ports[1].load(Ordering::Relaxed)
    }

    pub fn set_ports(&self, plain: u16, tls: u16) {
        self.ports[0].store(plain, Ordering::Relaxed);
        self.ports[1].store(tls, Ordering::Relaxed);
    }

    /// Whether it accepts connections.
    pub fn is_serving(&self) -> bool {
        self.is_serving.load(Ordering::SeqCst)
    }

    pub fn set_serving(&self, is_serving: bool) {
        self.is_serving.store(is_serving, Ordering::SeqCst);
    }
}

/// The most nodes that an error names.
const MOST_LISTED: usize = 12;

/// Nodes as an error names them.
fn listed(nodes: &[Arc<DeploymentNode>]) -> String {
    let mut names: Vec<String> = nodes.iter().take(MOST_LISTED).map(|node| described(&node.info())).collect();
    if nodes.len() > MOST_LISTED {
        names.push(format!("and {} more (REDOUBLE NODE LIST)", nodes.len() - MOST_LISTED));
    }
    names.join(", ")
}

fn described(info: &NodeInfo) -> String {
    format!("{} ({})", info.address, info.role)
}

/// What an error shows of a word.
fn shortened(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(128).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment() -> Deployment {
        let deployment = Deployment::new(DeploymentKind::Cluster);
        let master = |address: &str| NodeInfo {
            address: address.to_owned(),
            id: format!("id{address}"),
            role: NodeRole::Master,
            ..NodeInfo::default()
        };
        for (port, address) in [(6379, "10.0.0.1:6379"), (6380, "10.0.0.2:6379"), (6381, "127.0.0.1:6380")] {
            deployment.add(master(address)).set_ports(port, 0);
        }
        deployment
    }

    #[test]
    fn a_name_that_several_nodes_have_is_refused_with_those() {
        let deployment = deployment();
        let error = deployment.find("6379", &[]).err().unwrap();
        assert!(error.contains("10.0.0.1:6379 (master), 10.0.0.2:6379 (master); give a node's host:port"), "{error}");
        assert!(deployment.find("master", &[]).err().unwrap().contains("more than one node"));
    }

    #[test]
    fn a_name_that_no_node_has_is_refused_with_all() {
        let error = deployment().find("10.0.0.3:6379", &[]).err().unwrap();
        assert!(
            error.starts_with("there is no node '10.0.0.3:6379'; the nodes are 10.0.0.1:6379 (master), "),
            "{error}"
        );
    }

    #[test]
    fn the_own_address_of_a_node_goes_before_the_local_one_of_another() {
        let (deployment, here) = (deployment(), ["192.168.0.7".to_owned()]);
        let number = |name: &str, hosts: &[String]| deployment.find(name, hosts).map(|node| node.number);
        assert_eq!(number("127.0.0.1:6380", &[]), Ok(3));
        assert_eq!(number("127.0.0.1:6381", &[]), Ok(3));
        assert_eq!(number("192.168.0.7:6380", &here), Ok(2));
        assert!(number("192.168.0.7:6380", &[]).is_err());
        assert_eq!(number("id10.0.0.1:6379", &[]), Ok(1));
    }
}
