//! The Cluster or the Sentinel set behind this server: its nodes, each with a local port of its own.

use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use crate::base::sync::MutexExt;
use crate::powers::{NodeInfo, NodeRole};

/// What kind of deployment it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeploymentKind {
    Cluster,
    Sentinel {
        /// The name of the master in the Sentinels.
        service: String,
    },
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
            info: Mutex::new(Arc::new(info)),
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

    /// The nodes of a role.
    pub fn with_role(&self, role: NodeRole) -> Vec<Arc<DeploymentNode>> {
        let mut nodes = self.nodes();
        nodes.retain(|node| node.info().role == role);
        nodes
    }
}

impl DeploymentNode {
    pub fn info(&self) -> Arc<NodeInfo> {
        Arc::clone(&self.info.lock_ignoring_poison())
    }

    pub fn set_info(&self, info: NodeInfo) {
        *self.info.lock_ignoring_poison() = Arc::new(info);
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
