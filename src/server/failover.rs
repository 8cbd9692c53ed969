//! Masters and their replicas among the instances of a process, and failovers.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use super::instance_control::no_such_instance;
use super::node::Node;
use super::nodes::Nodes;
use super::replicas::{Had, name_of, promote, take_back};
use crate::base::duration::spell_duration;
use crate::base::error::CommandError;
use crate::base::sync::MutexExt;
use crate::clients::fleet::{
    FailedOver, FailoverOrder, GroupMember, GroupReplica, InstanceState, LinkOrder, LinkState, ReplicationGroup,
};
use crate::clients::instance::{Handover, Primary, count_changes};
use crate::clients::session::Client;
use crate::engine::Engine;
use crate::powers::EventKind;
use crate::spec::Group;

/// No client has given the order.
pub(super) const NOBODY: (usize, u64) = (0, 0);

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

    /// Makes a replica of an instance the master in its place. The client `by` of an instance stays connected.
    pub(super) fn fail_over(
        &self,
        number: usize,
        order: FailoverOrder,
        by: (usize, u64),
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
        // How much each had before anything was taken from one.
        let offsets: Vec<(String, u64)> =
            replicas.iter().map(|replica| (name_of(replica), replica.instance().replication_offset())).collect();
        let to_take_back = chosen.instance().lose(order.losing)?;
        self.bring_replicas_up_to_date();
        if to_take_back > 0 {
            take_back(chosen, to_take_back)?;
        }
        let had = Had::of(chosen);
        let lost = master.instance().written_since(had.offset);
        promote(chosen);
        *chosen.part().successor.lock_ignoring_poison() = None;
        let primary = address_of(chosen);
        let mut changed = vec![chosen];
        for replica in replicas.into_iter().filter(|replica| !Arc::ptr_eq(replica, chosen)) {
            replica.instance().follow(&primary);
            changed.push(replica);
        }
        chosen.root().record_node_event(EventKind::Promoted, &name_of(chosen), &name_of(master));
        if is_cut {
            master.root().record_node_event(EventKind::Replaced, &name_of(chosen), EventKind::UNAWARE);
        }
        let had_by = |place: usize| {
            let had = offsets.iter().filter(|(_, offset)| *offset > had.offset + place as u64);
            had.map(|(name, _)| name.as_str()).collect()
        };
        master.root().record_losses(&lost, had.selected, &name_of(chosen), had_by);
        if is_cut {
            // What it writes from here on is lost when it is healed.
            *master.part().had.lock_ignoring_poison() = Some(Had::of(master));
            *master.part().successor.lock_ignoring_poison() = Some(chosen.number());
        } else {
            master.root().record_node_event(EventKind::Replaced, &name_of(chosen), EventKind::FOLLOWS);
            master.instance().follow(&primary);
            changed.push(master);
        }
        let (name, successor) = (name_of(master), chosen.number());
        let cut = if is_cut { ", which is cut off and still serves who reaches it" } else { "" };
        chosen.instance().log.notice(format!("Failover: instance {successor} is the master in place of {name}{cut}."));
        if order.closes_clients {
            for node in &changed {
                let clients = node.instance().clients.all().into_iter();
                // Whoever drives the test may have moved the clock to where this happens, and is to be answered.
                let drives = |client: &Client| {
                    client.labels().last_command.is_some_and(|command| command.group == Group::Control)
                };
                clients.filter(|client| (node.number(), client.id()) != by && !drives(client)).for_each(|client| {
                    client.hold_until_closed(node.instance().clock.rung_alarm());
                    node.instance().kill(&client);
                });
            }
        }
        self.bring_replicas_up_to_date();
        let done = FailedOver { number: successor, port: member(chosen).port, lost: count_changes(&lost) };
        Ok((done, changed.into_iter().map(|node| Arc::clone(node.root())).collect()))
    }

    /// Masters hand over that were asked to (FAILOVER), if a replica has everything, or their time is over.
    pub(super) fn hand_over(&self) {
        for master in self.all() {
            let instance = master.instance();
            let Some(Handover { to, until, is_forced }) = instance.handover() else { continue };
            let target = to.and_then(|(host, port)| self.at(&host, port)).map(|node| node.number());
            let has_everything = |node: &&Arc<Node>| {
                let is_wanted = target.is_none_or(|target| node.number() == target);
                let offset = node.instance().replication_offset();
                is_wanted && node.instance().is_linked() && offset == instance.replication_offset()
            };
            let ready = self.replicas_of(master).find(has_everything).map(|node| node.number());
            let is_late = until.is_some_and(|until| instance.clock.millis() >= until);
            let Some(to) = ready.or(target.filter(|_| is_late && is_forced)) else {
                if is_late && instance.end_handover() {
                    instance.log.notice("Failover target was never in sync before the timeout; failover is aborted.");
                }
                continue;
            };
            if instance.end_handover() {
                let order = FailoverOrder { to: Some(to), ..FailoverOrder::default() };
                if let Err(error) = self.fail_over(master.number(), order, NOBODY) {
                    instance.log.warn(format!("FAILOVER failed: {error}"));
                }
                self.tell_sentinels();
            }
        }
    }

    /// An instance was reset: its group is as it was at the start.
    pub(super) fn reset_replication(&self, reset: &Node) {
        reset.instance().end_handover();
        let origin = reset.part().origin(reset.number());
        let Some(origin) = self.get(origin) else { return };
        let is_of_group = |node: &&Arc<Node>| node.part().origin(node.number()) == origin.number();
        let replicas = || self.all().iter().filter(is_of_group).filter(|node| node.part().is_first_replica());
        if replicas().next().is_none() {
            return self.bring_replicas_up_to_date();
        }
        let is_in_place = |node: &Arc<Node>| {
            node.instance().is_linked() && self.master_of(node).is_some_and(|master| Arc::ptr_eq(master, origin))
        };
        if reset.number() == origin.number() && !origin.instance().is_replica() && replicas().all(is_in_place) {
            // They follow, and get the deletion of all data as any other change.
            return self.bring_replicas_up_to_date();
        }
        for node in self.all().iter().filter(is_of_group) {
            *node.part().successor.lock_ignoring_poison() = None;
            node.instance().end_handover();
            // Only a name that is not known can be refused.
            let _ = self.order_link(node, LinkOrder::Heal, None);
        }
        origin.instance().follow_no_one();
        // Fails only while a script runs there.
        let _ = origin.root().empty();
        origin.instance().begin_history();
        let primary = address_of(origin);
        for replica in replicas() {
            if replica.instance().primary().as_ref() != Some(&primary) {
                replica.instance().follow(&primary);
            }
            replica.instance().forget_history();
        }
        self.bring_replicas_up_to_date();
    }

    /// Treats the links of an instance as a test wants, and says so in its journal.
    pub(super) fn order_link(
        &self,
        node: &Arc<Node>,
        order: LinkOrder,
        name: Option<&str>,
    ) -> Result<u64, CommandError> {
        let instance = node.instance();
        let mut names: Vec<String> = match name {
            Some(name) => vec![name.to_owned()],
            None => self.replicas_of(node).map(|replica| name_of(replica)).collect(),
        };
        if name.is_none() {
            let known = instance.links().into_iter().map(|link| link.replica).filter(|known| !names.contains(known));
            names.extend(known.collect::<Vec<_>>());
        }
        let before: Vec<LinkState> = names.iter().map(|name| instance.link_to_replica(name)).collect();
        let done = instance.order_link(order, name)?;
        for (name, before) in names.iter().zip(before) {
            let now = instance.link_to_replica(name);
            match (order, now) {
                (LinkOrder::Step(_), LinkState::Held) => node.root().record_link(name, &format!("let go {done}")),
                (LinkOrder::Step(_), _) => {}
                (_, now) if now == before => {}
                (_, LinkState::Late(lag)) => {
                    let lag = Duration::from_millis(u64::try_from(lag).unwrap_or(0));
                    node.root().record_link(name, &format!("late by {}", spell_duration(lag)));
                }
                (_, now) => node.root().record_link(name, now.name()),
            }
        }
        Ok(done)
    }

    /// The links of an instance were healed: if another one has taken its place meanwhile, it follows that one.
    pub(super) fn heal_roles(&self, node: &Node) {
        let successor = node.part().successor.lock_ignoring_poison().take();
        if let Some(successor) = successor.and_then(|number| self.get(number)) {
            // That one can have lost its place, too.
            let master = self.master_of(successor).unwrap_or(successor);
            if master.number() != node.number() {
                if let Some(Had { offset, selected }) = node.part().had.lock_ignoring_poison().take() {
                    let lost = node.instance().written_since(offset);
                    node.root().record_losses(&lost, selected, &name_of(successor), |_| Vec::new());
                }
                node.root().record_node_event(EventKind::Replaced, &name_of(master), EventKind::FOLLOWS);
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
