//! Control of the nodes of a deployment by clients and tests: stop and start for clients, while the deployment sees nothing.

use std::sync::Arc;

use super::node::Node;
use super::upstream::Member;
use crate::base::error::CommandError;

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
