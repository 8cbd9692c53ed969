//! Masters and their replicas among the instances of a process, and failovers.

use super::instance_control::no_such_instance;
use super::nodes::Nodes;
use crate::base::error::CommandError;
use crate::clients::fleet::{FailoverOrder, GroupMember, ReplicationGroup};

impl Nodes {
    /// The masters among the instances, each with those that follow it.
    pub(super) fn replication_groups(&self) -> Vec<ReplicationGroup> {
        let masters = self.all().iter().filter(|node| !node.instance().is_replica());
        let group = masters.map(|node| ReplicationGroup {
            master: GroupMember {
                number: node.number(),
                port: node.main_address().map_or(0, |address| address.port()),
                run_id: node.instance().identity.run_id().to_owned(),
                state: node.state(),
                offset: node.instance().replication_offset(),
            },
            origin: node.number(),
            is_superseded: false,
            replicas: Vec::new(),
        });
        group.collect()
    }

    /// Makes a replica of an instance the master in its place. The number of the new master.
    pub(super) fn fail_over(&self, number: usize, _order: FailoverOrder, _by: u64) -> Result<usize, CommandError> {
        self.get(number).ok_or_else(|| no_such_instance(number, self.all().len()))?;
        Err(CommandError::new(format!("ERR instance {number} has no replica that could take its place")))
    }
}
