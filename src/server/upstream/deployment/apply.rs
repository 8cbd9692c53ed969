//! What follows from the view of a node: members that come, move, change their role.

use std::sync::Arc;

use super::view::{Master, SeenNode};
use super::{DeploymentFront, Member, Members};
use crate::base::host;
use crate::powers::{EventKind, NodeInfo, NodeRole};

/// What has happened to a node, for the journal: the kind of event, the node, and details.
type Change = (EventKind, String, String);

impl DeploymentFront {
    /// Takes over what a node sees. `asked` is that node.
    pub(super) fn apply(&self, asked: &Arc<Member>, view: &[SeenNode]) {
        let mut changes = Vec::new();
        let mut members = self.members();
        // First who is who, then who replicates whom.
        let seen: Vec<(Arc<Member>, &SeenNode)> = view
            .iter()
            .filter_map(|seen| Some((self.find_or_add(&mut members, asked, seen, &mut changes)?, seen)))
            .collect();
        for (member, seen) in &seen {
            let before = member.node.info();
            if seen.role == NodeRole::Replica && member.outlives_view() {
                // It has taken a write since: who sees it as a replica has not heard of the failover yet.
                continue;
            }
            if seen.role == NodeRole::Master {
                member.forget_promotion();
            }
            let master = match &seen.master {
                None => None,
                Some(Master::Id(id)) => members.by_id.get(id).map(|master| master.node.info().address.clone()),
                Some(Master::At(host, port)) => {
                    members.at(host, *port).map(|master| master.node.info().address.clone())
                }
            };
            let target = member.target();
            let address = match seen.port {
                port @ 1.. if !seen.host.is_empty() => target.at(&seen.host, port).address(),
                _ => target.address(),
            };
            let info = NodeInfo {
                address,
                id: seen.id.clone(),
                role: seen.role,
                master,
                slots: seen.slots.clone(),
                is_reachable: seen.is_reachable,
            };
            changes.extend(changes_of(&before, &info, self.is_cluster()));
            if *before != info {
                member.node.set_info(info);
            }
        }
        let has_master = view.iter().any(|seen| seen.role == NodeRole::Master);
        let is_whole = if self.is_cluster() { view.len() > 1 } else { has_master };
        if is_whole {
            // Those that the deployment has forgotten.
            for member in members.list.iter().filter(|member| !seen.iter().any(|(other, _)| Arc::ptr_eq(other, member)))
            {
                let info = member.node.info();
                let was_in = if self.is_cluster() {
                    !info.id.is_empty()
                } else {
                    matches!(info.role, NodeRole::Master | NodeRole::Replica)
                };
                if was_in && info.is_reachable {
                    let role = if self.is_cluster() { info.role } else { NodeRole::Unknown };
                    let gone = NodeInfo { is_reachable: false, slots: Vec::new(), role, ..(*info).clone() };
                    changes.push(topology(&info.address, "gone"));
                    member.node.set_info(gone);
                }
            }
        }
        drop(members);
        self.record(&changes);
    }

    /// The member that is seen. One that was unknown is added.
    fn find_or_add(
        &self,
        members: &mut Members,
        asked: &Arc<Member>,
        seen: &SeenNode,
        changes: &mut Vec<Change>,
    ) -> Option<Arc<Member>> {
        let asked_target = asked.target();
        let host =
            if seen.host.is_empty() || seen.is_myself && seen.port == 0 { asked_target.host() } else { &seen.host };
        let port = if seen.port == 0 && seen.is_myself { asked_target.port() } else { seen.port };
        let by_id = Some(&seen.id).filter(|id| !id.is_empty()).and_then(|id| members.by_id.get(id).cloned());
        let by_address = if port == 0 { None } else { members.at(host, port) };
        // An address that another node has now is no proof.
        let by_address = by_address.filter(|member| {
            let id = &member.node.info().id;
            seen.id.is_empty() || id.is_empty() || *id == seen.id || !self.is_cluster()
        });
        let myself = Some(asked).filter(|_| seen.is_myself && by_id.is_none() && by_address.is_none()).cloned();
        let member = match by_id.or(by_address).or(myself) {
            Some(member) => member,
            None if port == 0 => return None,
            None => {
                let template = self.sentinel.as_ref().filter(|_| seen.role == NodeRole::Sentinel).unwrap_or(&self.data);
                let added = self.add(members, template.at(host, port), seen.role);
                let member = added.inspect_err(|error| self.log_no_port(host, port, error)).ok()?;
                changes.push(topology(&member.node.info().address, "joined"));
                member
            }
        };
        if port != 0 && member.was_only_named() && seen.role != NodeRole::Sentinel {
            // From now on it is reached as all others are.
            member.set_target(self.data.at(host, port));
        }
        if seen.role == NodeRole::Sentinel
            && !member.is_sentinel()
            && let Some(template) = &self.sentinel
        {
            member.is_found_sentinel(template.at(host, port));
        }
        if !seen.id.is_empty() {
            members.by_id.insert(seen.id.clone(), Arc::clone(&member));
        }
        if port == 0 {
            return Some(member);
        }
        let target = member.target();
        let is_known = target.port() == port
            && (target.host().eq_ignore_ascii_case(host)
                || host::resolve(target.host()).is_ok_and(|ip| ip.to_string() == host)
                || seen.hostname.as_deref().is_some_and(|name| name.eq_ignore_ascii_case(target.host())));
        let is_where_asked = seen.is_myself && Arc::ptr_eq(&member, asked);
        if !is_known && !is_where_asked {
            let moved = target.at(host, port);
            changes.push(topology(&target.address(), &format!("now at {}", moved.address())));
            member.set_target(moved);
        }
        members.name(host, port, &member);
        if let Some(name) = &seen.hostname {
            members.name(name, port, &member);
        }
        Some(member)
    }

    /// A replica has taken a write: it is master now. The next look tells the rest.
    pub fn note_promotion(&self, member: &Member) {
        let members = self.members();
        let before = member.node.info();
        let is_news = before.role == NodeRole::Replica;
        if is_news {
            member.note_promotion();
            member.node.set_info(NodeInfo { role: NodeRole::Master, master: None, ..(*before).clone() });
        }
        drop(members);
        if is_news && let Some(old) = before.master.clone() {
            self.record(&[(EventKind::Promoted, before.address.clone(), old)]);
        }
        self.doubt();
    }

    /// Writes what has happened into the log and the journal.
    fn record(&self, changes: &[Change]) {
        let Some(front) = self.front() else { return };
        for (kind, node, detail) in changes {
            let text = match kind {
                EventKind::Promoted => format!("Node {node} is master now, instead of {detail}"),
                _ => format!("Node {node}: {detail}"),
            };
            self.log.notice(text);
            front.root().record_node_event(*kind, node, detail);
        }
    }
}

fn topology(node: &str, detail: &str) -> Change {
    (EventKind::Topology, node.to_owned(), detail.to_owned())
}

pub(super) fn changes_of(before: &NodeInfo, now: &NodeInfo, is_cluster: bool) -> Vec<Change> {
    let mut changes = Vec::new();
    // An empty master of a Cluster has replaced nobody.
    let serves = !is_cluster || !now.slots.is_empty();
    if before.role == NodeRole::Replica
        && now.role == NodeRole::Master
        && serves
        && let Some(old) = before.master.clone()
    {
        changes.push((EventKind::Promoted, now.address.clone(), old));
    } else if before.slots != now.slots && before.role == now.role && now.role == NodeRole::Master {
        let ranges: Vec<String> = now
            .slots
            .iter()
            .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
            .collect();
        let slots = if ranges.is_empty() { "no slots".to_owned() } else { format!("slots {}", ranges.join(",")) };
        changes.push(topology(&now.address, &slots));
    }
    let is_first_look = before.role == NodeRole::Unknown || before.id.is_empty() && !now.id.is_empty();
    if before.is_reachable != now.is_reachable && !is_first_look {
        changes.push(topology(&now.address, if now.is_reachable { "reachable" } else { "unreachable" }));
    }
    changes
}
