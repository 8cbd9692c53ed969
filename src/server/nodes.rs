//! All instances of a process.

use std::sync::{Arc, Mutex};

use super::node::Node;
use crate::engine::Engine;

/// All instances of a process.
pub(super) struct Nodes {
    list: Vec<Arc<Node>>,
    /// Serializes failovers.
    failovers: Mutex<()>,
}

impl Nodes {
    pub(super) fn new(list: Vec<Arc<Node>>) -> Arc<Self> {
        let nodes = Arc::new(Self { list, failovers: Mutex::default() });
        for node in &nodes.list {
            node.set_nodes(&nodes);
        }
        nodes
    }

    pub(super) fn failovers(&self) -> &Mutex<()> {
        &self.failovers
    }

    pub(super) fn all(&self) -> &[Arc<Node>] {
        &self.list
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
