//! Replicas in an exploration: what they have not got yet, and who can tell.
//!
//! From the first command of a racing client on, a master holds what it sends to its replicas. What they have can be told in
//! three ways only: a replica is read, WAIT asks for it, or one of them becomes the master. So a replica gets a change just
//! before one of these, and nothing is missed: everything else commutes with it.

use super::chaos::{Action, Chaos};
use super::footprint::Footprint;
use super::run::{COST_OF_ANOTHER, COST_OF_CHAOS};
use super::tree::{Candidate, Choice};

/// The most changes that a failover loses, and that links hold: earlier ones go by themselves.
pub const MOST_HELD: usize = 32;
/// What more it costs to lose one more change, up to so much.
const MOST_COST_OF_LOSSES: u32 = 3;

/// What replicas have not got yet.
#[derive(Clone, Debug, Default)]
pub struct HeldLinks {
    pub links: Vec<HeldLink>,
    /// The new master takes over the address of the old one, too, and clients stay connected. A failover that loses nothing
    /// makes no difference then.
    pub keeps_address: bool,
}

/// What the link to a replica holds.
#[derive(Clone, Debug)]
pub struct HeldLink {
    /// The number of the instance.
    pub replica: u16,
    /// Whether it may become the master.
    pub may_lead: bool,
    /// What it has not got, in order.
    pub changes: Vec<String>,
}

/// Which links the effect of a command depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Observes {
    #[default]
    Nothing,
    /// It runs on the replica with this number.
    LinkTo(u16),
    /// It asks how many replicas have something.
    EveryLink,
}

impl HeldLinks {
    fn to(&self, replica: u16) -> Option<&HeldLink> {
        self.links.iter().find(|link| link.replica == replica)
    }

    /// The links that differ in what they hold: the others stand for nothing new.
    fn distinct(&self) -> impl Iterator<Item = &HeldLink> {
        let is_first = |at: usize, link: &HeldLink| {
            let same = |other: &HeldLink| other.may_lead == link.may_lead && other.changes.len() == link.changes.len();
            !self.links[..at].iter().any(same)
        };
        self.links.iter().enumerate().filter(move |(at, link)| is_first(*at, link)).map(|(_, link)| link)
    }

    /// Whether something that was planned can happen.
    pub(super) fn allow(&self, action: Action) -> bool {
        match action {
            Action::Replicate(to) => self.to(to).is_some_and(|link| !link.changes.is_empty()),
            Action::Failover { to, losing } => {
                self.to(to).is_some_and(|link| link.may_lead && link.changes.len() >= usize::from(losing))
            }
            _ => true,
        }
    }

    /// What happens, in words.
    pub(super) fn describe(&self, action: Action) -> String {
        match action {
            Action::Replicate(to) => {
                let change = self.to(to).and_then(|link| link.changes.first());
                format!("(instance {to} gets {})", change.map_or("nothing", String::as_str))
            }
            Action::Failover { to, losing } => {
                let changes = self.to(to).map_or(&[][..], |link| &link.changes);
                let lost = &changes[changes.len().saturating_sub(usize::from(losing))..];
                let without = match lost {
                    [] => String::new(),
                    [one] => format!(", without {one}"),
                    lost => format!(", without {} changes: {}", lost.len(), lost.join(", ")),
                };
                format!("(failover: instance {to} is the master{without})")
            }
            _ => String::new(),
        }
    }

    /// The failovers that can happen now. Where the newest change was just written, losing it is the first that is tried.
    pub(super) fn failovers(&self, chaos: &Chaos, has_just_written: bool) -> Vec<Candidate> {
        if !chaos.allows(Action::Failover { to: 0, losing: 0 }) {
            return Vec::new();
        }
        let cost = |losing: usize| match losing {
            0 => COST_OF_CHAOS + COST_OF_ANOTHER,
            1 if has_just_written => COST_OF_ANOTHER,
            losing => COST_OF_CHAOS + (losing as u32 - 1).min(MOST_COST_OF_LOSSES),
        };
        let least = usize::from(self.keeps_address);
        let of_link = |link: &HeldLink| {
            let (to, most) = (link.replica, link.changes.len().min(MOST_HELD));
            (least..=most).map(move |losing| {
                candidate(Action::Failover { to, losing: losing as u16 }, Footprint::everything(), cost(losing))
            })
        };
        self.distinct().filter(|link| link.may_lead).flat_map(of_link).collect()
    }

    /// The changes that replicas can get now, as far as one of these commands can tell.
    pub(super) fn deliveries(&self, observers: &[Observes]) -> Vec<Candidate> {
        let asks_all = observers.contains(&Observes::EveryLink);
        let of_all = self.distinct().filter(|_| asks_all);
        let is_read = |link: &&HeldLink| observers.contains(&Observes::LinkTo(link.replica));
        let mut replicas: Vec<u16> = Vec::new();
        for link in of_all.chain(self.links.iter().filter(is_read)).filter(|link| !link.changes.is_empty()) {
            if !replicas.contains(&link.replica) {
                replicas.push(link.replica);
            }
        }
        replicas.into_iter().map(|to| candidate(Action::Replicate(to), delivery_to(to), COST_OF_ANOTHER)).collect()
    }
}

/// What a replica that gets a change touches.
pub(super) fn delivery_to(replica: u16) -> Footprint {
    let mut footprint = Footprint::default();
    footprint.add_link(replica, true);
    footprint
}

fn candidate(action: Action, footprint: Footprint, cost: u32) -> Candidate {
    Candidate { choice: Choice { client: 0, action }, command: "", footprint, cost }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(links: &[(u16, usize)], keeps_address: bool) -> HeldLinks {
        let link = |&(replica, count): &(u16, usize)| HeldLink {
            replica,
            may_lead: true,
            changes: (1..=count).map(|number| format!("SET k {number}")).collect(),
        };
        HeldLinks { links: links.iter().map(link).collect(), keeps_address }
    }

    fn actions(candidates: &[Candidate]) -> Vec<(Action, u32)> {
        candidates.iter().map(|candidate| (candidate.choice.action, candidate.cost)).collect()
    }

    #[test]
    fn losing_the_newest_change_is_tried_first_and_equal_replicas_once() {
        let chaos = Chaos::default().failover(1);
        let to = |to, losing| Action::Failover { to, losing };
        let links = held(&[(2, 2), (3, 2), (4, 1)], true);
        assert_eq!(actions(&links.failovers(&chaos, true)), [(to(2, 1), 1), (to(2, 2), 3), (to(4, 1), 1)]);
        assert_eq!(actions(&held(&[(2, 1)], false).failovers(&chaos, false)), [(to(2, 0), 3), (to(2, 1), 2)]);
        assert!(held(&[(2, 0)], true).failovers(&chaos, true).is_empty());
        assert!(links.failovers(&Chaos::default(), true).is_empty());
    }

    #[test]
    fn a_replica_gets_a_change_where_somebody_can_tell() {
        let links = held(&[(2, 1), (3, 1), (4, 0)], true);
        let get = |replica| (Action::Replicate(replica), COST_OF_ANOTHER);
        assert_eq!(actions(&links.deliveries(&[Observes::Nothing])), []);
        assert_eq!(actions(&links.deliveries(&[Observes::LinkTo(3), Observes::LinkTo(4)])), [get(3)]);
        assert_eq!(actions(&links.deliveries(&[Observes::EveryLink])), [get(2)]);
        assert_eq!(links.describe(Action::Replicate(3)), "(instance 3 gets SET k 1)");
        let failover = Action::Failover { to: 2, losing: 1 };
        assert_eq!(links.describe(failover), "(failover: instance 2 is the master, without SET k 1)");
        assert!(links.allow(failover) && !links.allow(Action::Replicate(4)));
    }
}
