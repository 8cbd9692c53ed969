//! All instances of a process.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use super::node::Node;
use super::sentinels::SentinelPorts;
use crate::engine::Engine;

/// All instances of a process.
pub(super) struct Nodes {
    list: Vec<Arc<Node>>,
    sentinels: Option<SentinelPorts>,
    /// Serializes failovers.
    failovers: Mutex<()>,
}

impl Nodes {
    pub(super) fn new(list: Vec<Arc<Node>>, sentinels: Option<SentinelPorts>) -> Arc<Self> {
        let nodes = Arc::new(Self { list, sentinels, failovers: Mutex::default() });
        for node in nodes.servers() {
            node.set_nodes(&nodes);
        }
        let replicas = nodes.all().iter().filter(|node| node.part().is_first_replica());
        let origins: BTreeSet<usize> = replicas.map(|node| node.part().origin(node.number())).collect();
        for origin in origins {
            let group = nodes.all().iter().filter(|node| node.part().origin(node.number()) == origin);
            let engines: Vec<_> = group.clone().map(|node| Arc::downgrade(node.root())).collect();
            group.for_each(|node| node.root().explore_with(engines.clone()));
        }
        nodes
    }

    pub(super) fn failovers(&self) -> &Mutex<()> {
        &self.failovers
    }

    pub(super) fn all(&self) -> &[Arc<Node>] {
        &self.list
    }

    /// The Sentinels of the process, if it has any.
    pub(super) fn sentinels(&self) -> Option<&SentinelPorts> {
        self.sentinels.as_ref()
    }

    /// All instances, then the Sentinels.
    pub(super) fn servers(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.list.iter().chain(self.sentinels.iter().flat_map(|sentinels| sentinels.nodes()))
    }

    pub(super) fn first(&self) -> Option<&Arc<Node>> {
        self.list.first()
    }

    /// An instance by its number, which counts from 1.
    pub(super) fn get(&self, number: usize) -> Option<&Arc<Node>> {
        self.list.get(number.checked_sub(1)?)
    }

    /// Every world of every instance.
    pub(super) fn worlds(&self) -> Vec<Arc<Engine>> {
        self.list.iter().flat_map(|node| node.worlds()).collect()
    }
}
