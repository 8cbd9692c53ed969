//! Control of the nodes of a deployment by clients and tests: stop and start for clients, while the deployment sees nothing.

use std::sync::Arc;
use std::time::Duration;

use super::handle::Server;
use super::node::Node;
use super::upstream::Member;
use super::world::refused as refusal;
use crate::base::error::{CommandError, Error};
use crate::clients::deployment::DeploymentNode;
use crate::clients::instance::{Instance, NodeView};
use crate::powers::NodeInfo;

/// A node of the Cluster or the Sentinel set behind a server, as its clients have it. See [`Server::nodes`].
#[derive(Clone, Debug)]
pub struct NodeStatus {
    /// What the deployment tells of it.
    pub info: NodeInfo,
    /// The port at which clients of the server find it; 0 if there is only one for TLS.
    pub port: u16,
    /// The same for TLS; 0 if there is none.
    pub tls_port: u16,
    /// Whether clients can connect to it: [`Server::stop_node`] was not called.
    pub is_serving: bool,
    /// The names, or globs for them, of the clients that are cut off from it: `*` for all.
    pub cut_from: Vec<String>,
    /// By how much its commands are delayed.
    pub slowness: Duration,
    /// How many clients are connected to it.
    pub clients: usize,
}

impl Server {
    /// The nodes of the Cluster or the Sentinel set behind the server. Fails if there is none, as all functions about nodes do.
    pub fn nodes(&self) -> Result<Vec<NodeStatus>, Error> {
        let views = self.instance().node_views().map_err(Error::Refused)?;
        let status = |view: NodeView| NodeStatus {
            info: (*view.info).clone(),
            port: view.node.port(),
            tls_port: view.node.tls_port(),
            is_serving: view.node.is_serving(),
            cut_from: view.cuts.iter().map(|clients| String::from_utf8_lossy(clients).into_owned()).collect(),
            slowness: view.slowness,
            clients: view.clients,
        };
        Ok(views.into_iter().map(status).collect())
    }

    /// Cuts all clients off from a node: their commands there neither run nor are answered, and no message arrives. The other
    /// nodes still see it. It is named by its address, its port, its id, or as `master` if there is only one.
    pub fn cut_node(&self, node: &str) -> Result<(), Error> {
        self.instance().cut_node(&*self.find_node(node)?, None).map_err(Error::Refused)
    }

    /// Cuts those clients off from a node whose names (CLIENT SETNAME) match this glob.
    pub fn cut_node_from(&self, node: &str, client: &str) -> Result<(), Error> {
        self.instance().cut_node(&*self.find_node(node)?, Some(client.as_bytes())).map_err(Error::Refused)
    }

    /// Delays each command on a node by so much, instead of what was said before; zero ends it.
    pub fn slow_node(&self, node: &str, by: Duration) -> Result<(), Error> {
        self.instance().slow_node(&*self.find_node(node)?, by).map_err(Error::Refused)?;
        self.engine().settle_here();
        Ok(())
    }

    /// Ends all cuts of a node and its slowness: the held commands run now. Fails if there is neither.
    pub fn heal_node(&self, node: &str) -> Result<(), Error> {
        self.instance().heal_node(&*self.find_node(node)?).map_err(Error::Refused)?;
        self.engine().settle_here();
        Ok(())
    }

    /// Closes the connections of a node's clients, and refuses new ones. Fails for the last node that is not stopped.
    pub fn stop_node(&self, node: &str) -> Result<(), Error> {
        self.node.stop_node(self.find_node(node)?.number, None).map_err(refusal)
    }

    /// Lets clients connect to a stopped node again, at the same port.
    pub fn start_node(&self, node: &str) -> Result<(), Error> {
        self.node.start_node(self.find_node(node)?.number).map_err(refusal)
    }

    fn instance(&self) -> &Instance {
        self.node.instance()
    }

    fn find_node(&self, node: &str) -> Result<Arc<DeploymentNode>, Error> {
        self.instance().deployment().and_then(|deployment| deployment.find(node, &[])).map_err(Error::Refused)
    }
}

impl Node {
    /// Refuses connections to a node of the deployment, and closes those of all its clients except `except`.
    pub(super) fn stop_node(&self, number: u16, except: Option<u64>) -> Result<(), CommandError> {
        let _turn = self.lock_lifecycle();
        let member = self.member(number)?;
        let address = &member.node.info().address;
        if !member.node.is_serving() {
            return Err(refused(&format!("node {address} is stopped already")));
        }
        if self.members().iter().filter(|other| other.node.is_serving()).count() == 1 {
            return Err(refused(&format!("node {address} is the last one that runs: nobody could start it again")));
        }
        member.close();
        let instance = self.instance();
        for client in instance.clients.all() {
            if client.node() == number && Some(client.id()) != except {
                instance.kill(&client);
            }
        }
        Ok(())
    }

    /// Lets clients connect to a stopped node again, at the same port.
    pub(super) fn start_node(self: &Arc<Self>, number: u16) -> Result<(), CommandError> {
        let _turn = self.lock_lifecycle();
        let member = self.member(number)?;
        if member.node.is_serving() {
            return Err(refused(&format!("node {} is running", member.node.info().address)));
        }
        self.reopen_member(&member)
    }

    /// Lets clients connect to all nodes again that were stopped.
    pub(super) fn start_stopped_nodes(self: &Arc<Self>) -> Result<(), CommandError> {
        let _turn = self.lock_lifecycle();
        self.members()
            .iter()
            .filter(|member| !member.node.is_serving())
            .try_for_each(|member| self.reopen_member(member))
    }

    fn reopen_member(self: &Arc<Self>, member: &Arc<Member>) -> Result<(), CommandError> {
        member.reopen(self).map_err(|error| refused(&error.to_string()))
    }

    fn members(&self) -> Vec<Arc<Member>> {
        self.deployment().map(|front| front.all()).unwrap_or_default()
    }

    fn member(&self, number: u16) -> Result<Arc<Member>, CommandError> {
        let found = self.deployment().and_then(|front| front.get(number));
        found.ok_or_else(|| refused(&format!("there is no node {number}")))
    }
}

fn refused(reason: &str) -> CommandError {
    CommandError::new(format!("ERR {reason}"))
}
