//! The nodes of the deployment behind this server, as clients have them: cut off, slowed down.

use std::sync::Arc;
use std::time::Duration;

use super::Instance;
use crate::clients::deployment::{Deployment, DeploymentNode};
use crate::clients::session::{Session, Signal};
use crate::powers::{
    ClientSelector, CommandInfo, Fault, Hook, NodeInfo, NodeSelector, Pattern, Precedence, Rule, Verdict,
};

const NO_DEPLOYMENT: &str = "there is no deployment: nodes are those of --upstream-cluster or --upstream-sentinel";

/// The names of the faults that cut clients off from a node, or slow it down.
const CUT: &str = "node-cut:";
const SLOW: &str = "node-slow:";

/// The most simultaneous cuts of one node.
const MOST_CUTS: usize = 64;

/// A node, as clients have it.
pub struct NodeView {
    pub node: Arc<DeploymentNode>,
    pub info: Arc<NodeInfo>,
    /// For each cut a glob for the names of the clients that it is about: `*` for all.
    pub cuts: Vec<Vec<u8>>,
    /// By how much its commands are delayed; zero if they are not.
    pub slowness: Duration,
    /// How many clients are connected to it.
    pub clients: usize,
}

impl NodeView {
    /// `stopped`: connecting is refused. `cut`: at least some clients get no answers.
    pub fn state(&self) -> &'static str {
        match (self.node.is_serving(), self.cuts.is_empty()) {
            (false, _) => "stopped",
            (true, false) => "cut",
            (true, true) => "running",
        }
    }
}

impl Instance {
    /// The Cluster or the Sentinel set behind this server. The error says that there is none.
    pub fn deployment(&self) -> Result<&Arc<Deployment>, String> {
        let deployment = self.upstream.as_ref().and_then(|upstream| upstream.deployment.as_ref());
        deployment.ok_or_else(|| NO_DEPLOYMENT.to_owned())
    }

    /// Looks up the node that a pattern names, by an address at one of these hosts, too, if it is a local one.
    pub fn resolve_node(&self, pattern: &mut Pattern, hosts: &[String]) -> Result<(), String> {
        pattern.node_mut().map_or(Ok(()), |selector| self.deployment()?.resolve(selector, hosts))
    }

    /// All nodes, by number.
    pub fn node_views(&self) -> Result<Vec<NodeView>, String> {
        let nodes = self.deployment()?.nodes();
        let clients = self.clients.all();
        let view = |node: Arc<DeploymentNode>| NodeView {
            info: node.info(),
            cuts: self.cuts_of(&node).iter().map(|rule| clients_of(rule).to_vec()).collect(),
            slowness: self.slowness_of(&node).map_or(Duration::ZERO, |rule| match rule.fault.verdict {
                Verdict::Delay(by) => by,
                _ => Duration::ZERO,
            }),
            clients: clients.iter().filter(|client| client.node() == node.number).count(),
            node,
        };
        Ok(nodes.into_iter().map(view).collect())
    }

    /// Cuts a node off from the clients whose names match this glob, or from all.
    pub fn cut_node(&self, node: &DeploymentNode, clients: Option<&[u8]>) -> Result<(), String> {
        let address = &node.info().address;
        let cuts = self.cuts_of(node);
        let meant = clients.unwrap_or(b"*");
        let shown = String::from_utf8_lossy(meant);
        if cuts.iter().any(|rule| clients_of(rule) == meant) {
            return Err(match clients {
                Some(_) => format!("node {address} is cut off from '{shown}' already"),
                None => format!("node {address} is cut off already"),
            });
        }
        if cuts.len() >= MOST_CUTS {
            return Err(format!("node {address} has {MOST_CUTS} cuts already"));
        }
        let (mut name, mut pattern) = (format!("{CUT}{address}"), of_node(node));
        if clients.is_some() {
            name = format!("{name}:{shown}");
            pattern = pattern.client(ClientSelector::Name(meant.to_vec()));
        }
        self.add_fault_with(Fault::new(name, Verdict::Hang).of(pattern), Precedence::Cut).map(drop)
    }

    /// Delays the commands of all clients on a node by so much; not at all, if that is zero.
    pub fn slow_node(&self, node: &DeploymentNode, by: Duration) -> Result<(), String> {
        if let Some(rule) = self.slowness_of(node) {
            self.remove_this_fault(&rule);
        }
        if by.is_zero() {
            return Ok(());
        }
        let name = format!("{SLOW}{}", node.info().address);
        self.add_fault_with(Fault::new(name, Verdict::Delay(by)).of(of_node(node)), Precedence::Slowness).map(drop)
    }

    /// Ends all cuts of a node, and its slowness. The error says that there is neither.
    pub fn heal_node(&self, node: &DeploymentNode) -> Result<(), String> {
        let rules: Vec<Arc<Rule>> = self.cuts_of(node).into_iter().chain(self.slowness_of(node)).collect();
        let ended = rules.iter().filter(|rule| self.remove_this_fault(rule)).count();
        match ended {
            0 => Err(format!("node {} is neither cut off nor slow", node.info().address)),
            _ => Ok(()),
        }
    }

    fn cuts_of(&self, node: &DeploymentNode) -> Vec<Arc<Rule>> {
        let mut cuts = self.control.faults.with_precedence(Precedence::Cut);
        cuts.retain(|rule| rule.fault.pattern.node_number() == Some(node.number));
        cuts
    }

    fn slowness_of(&self, node: &DeploymentNode) -> Option<Arc<Rule>> {
        let rules = self.control.faults.with_precedence(Precedence::Slowness).into_iter();
        rules.into_iter().find(|rule| rule.fault.pattern.node_number() == Some(node.number))
    }

    /// Whether a client is cut off from its node: nothing from there reaches it.
    pub fn is_cut_off(&self, session: &Session) -> bool {
        if !self.active_hooks.has(Hook::Fault) {
            return false;
        }
        let labels = session.client.labels();
        self.control.faults.is_cut_off(&CommandInfo {
            container: None,
            name: "",
            keys: Default::default(),
            client: session.client.id(),
            client_name: &labels.name,
            db: session.db,
            node: session.node.as_ref().map(|node| node.snapshot()),
        })
    }

    pub(super) fn has_node_cuts(&self) -> bool {
        self.upstream.is_some() && !self.control.faults.with_precedence(Precedence::Cut).is_empty()
    }

    /// Has connections go on that were cut off from their nodes, if there were such.
    pub(super) fn resume_after_cuts(&self, had_cuts: bool) {
        if had_cuts {
            self.clients.signal_all(Signal::Look);
        }
    }
}

fn of_node(node: &DeploymentNode) -> Pattern {
    Pattern::any().node(NodeSelector::Numbered(node.number, node.info().address.clone()))
}

/// The glob for the names of the clients that a cut is about.
fn clients_of(rule: &Rule) -> &[u8] {
    rule.fault.pattern.client_name().unwrap_or(b"*")
}
