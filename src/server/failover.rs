//! Masters and their replicas among the instances of a process, and failovers.

use std::cmp::Reverse;
use std::sync::Arc;

use super::instance_control::no_such_instance;
use super::node::Node;
use super::nodes::Nodes;
use super::replicas::name_of;
use crate::base::error::CommandError;
use crate::base::sync::MutexExt;
use crate::clients::fleet::{FailedOver, FailoverOrder, GroupMember, GroupReplica, InstanceState, ReplicationGroup};
use crate::clients::instance::Primary;
use crate::engine::Engine;

impl Nodes {
    /// The masters among the instances, each with those that follow it.
    pub(super) fn replication_groups(&self) -> Vec<ReplicationGroup> {
        let masters = self.all().iter().filter(|node| !node.instance().is_replica());
        let group = |master: &Arc<Node>| ReplicationGroup {
            master: member(master),
            origin: master.part().origin(master.number()),
            is_superseded: master.part().successor.lock_ignoring_poison().is_some(),
            replicas: self.replicas_of(master).map(|replica| describe(master, replica)).collect(),
        };
        masters.map(group).collect()
    }

    /// The instances that follow this one, whether or not they reach it.
    fn replicas_of(&self, master: &Arc<Node>) -> impl Iterator<Item = &Arc<Node>> {
        self.all().iter().filter(move |node| {
            !Arc::ptr_eq(node, master) && self.master_of(node).is_some_and(|other| Arc::ptr_eq(other, master))
        })
    }

    /// Makes a replica of an instance the master in its place. The client `by` stays connected.
    pub(super) fn fail_over(
        &self,
        number: usize,
        order: FailoverOrder,
        by: u64,
    ) -> Result<(FailedOver, Vec<Arc<Engine>>), CommandError> {
        let _turn = self.failovers().lock_ignoring_poison();
        let master = self.get(number).ok_or_else(|| no_such_instance(number, self.all().len()))?;
        self.bring_replicas_up_to_date();
        if let Some(of) = self.master_of(master) {
            let text = format!("ERR instance {number} is a replica of instance {}; name the master", of.number());
            return Err(CommandError::new(text));
        }
        let replicas: Vec<&Arc<Node>> = self.replicas_of(master).collect();
        let chosen = choose(number, &replicas, order.to)?;
        let is_cut = master.instance().is_replica_cut(&name_of(chosen));
        let lost = chosen.instance().lose(order.losing)?;
        chosen.instance().follow_no_one();
        *chosen.part().successor.lock_ignoring_poison() = None;
        let primary = address_of(chosen);
        let mut changed = vec![chosen];
        for replica in replicas.into_iter().filter(|replica| !Arc::ptr_eq(replica, chosen)) {
            replica.instance().follow(&primary);
            changed.push(replica);
        }
        if is_cut {
            *master.part().successor.lock_ignoring_poison() = Some(chosen.number());
        } else {
            master.instance().follow(&primary);
            changed.push(master);
        }
        let (name, successor) = (name_of(master), chosen.number());
        let cut = if is_cut { ", which is cut off and still serves who reaches it" } else { "" };
        chosen.instance().log.notice(format!("Failover: instance {successor} is the master in place of {name}{cut}."));
        if order.closes_clients {
            for node in &changed {
                let clients = node.instance().clients.all().into_iter();
                clients.filter(|client| client.id() != by).for_each(|client| node.instance().kill(&client));
            }
        }
        self.bring_replicas_up_to_date();
        let done = FailedOver { number: successor, port: member(chosen).port, lost };
        Ok((done, changed.into_iter().map(|node| Arc::clone(node.root())).collect()))
    }

    /// The links of an instance were healed: if another one has taken its place meanwhile, it follows that one.
    pub(super) fn heal_roles(&self, node: &Node) {
        let successor = node.part().successor.lock_ignoring_poison().take();
        if let Some(successor) = successor.and_then(|number| self.get(number)) {
            // That one can have lost its place, too.
            let master = self.master_of(successor).unwrap_or(successor);
            if master.number() != node.number() {
                node.instance().follow(&address_of(master));
            }
        }
    }
}

fn choose<'n>(master: usize, replicas: &[&'n Arc<Node>], named: Option<usize>) -> Result<&'n Arc<Node>, CommandError> {
    let Some(named) = named else {
        let may_lead = |node: &&&Arc<Node>| node.state() == InstanceState::Running && priority(node) > 0;
        let rank = |node: &&Arc<Node>| (priority(node), Reverse(node.instance().replication_offset()), node.number());
        let best = replicas.iter().filter(may_lead).min_by_key(|node| rank(node)).copied();
        return best.ok_or_else(|| {
            CommandError::new(format!("ERR instance {master} has no replica that could take its place"))
        });
    };
    let found = replicas.iter().find(|node| node.number() == named).copied();
    let found =
        found.ok_or_else(|| CommandError::new(format!("ERR instance {named} is no replica of instance {master}")))?;
    match found.state() {
        InstanceState::Running => Ok(found),
        state => Err(CommandError::new(format!("ERR instance {named} is {}", state.name()))),
    }
}

fn priority(node: &Node) -> u32 {
    node.instance().config.number("replica-priority")
}

/// Where others find it.
pub(super) fn address_of(node: &Node) -> Primary {
    let name = name_of(node);
    let (host, port) = name.rsplit_once(':').unwrap_or((&name, "0"));
    let host = host.trim_start_matches('[').trim_end_matches(']').as_bytes().to_vec();
    Primary { host, port: port.parse().unwrap_or(0) }
}

fn member(node: &Node) -> GroupMember {
    GroupMember {
        number: node.number(),
        port: node.main_address().map_or(0, |address| address.port()),
        run_id: node.instance().identity.run_id().to_owned(),
        state: node.state(),
        offset: node.instance().replication_offset(),
    }
}

fn describe(master: &Node, replica: &Node) -> GroupReplica {
    GroupReplica {
        member: member(replica),
        link: master.instance().link_to_replica(&name_of(replica)),
        is_linked: replica.instance().is_linked(),
        priority: priority(replica),
    }
}
