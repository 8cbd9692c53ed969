//! Failovers: Sentinels agree that a master is down, elect one of them, and promote a replica. What takes real ones a second
//! or more is one step here.

use std::cmp::Reverse;

use super::monitored::{Monitored, Replica};
use super::watching::{Events, Scene};
use super::{Sentinel, State, Surroundings};
use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::clients::fleet::{Completion, InstanceState};

pub const NO_SUCH_MASTER: CommandError = CommandError::fixed("ERR No such master with that name");
const NO_GOOD_REPLICA: CommandError = CommandError::fixed("NOGOODSLAVE No suitable replica to promote");

impl State {
    /// Whether masters are down for enough Sentinels; those that are, are failed over.
    pub(super) fn judge_together(&mut self, scene: &Scene, around: &dyn Surroundings) {
        let serving: Vec<usize> =
            self.list.iter().filter(|sentinel| sentinel.is_serving()).map(|sentinel| sentinel.place).collect();
        let mut due = Vec::new();
        for &place in &serving {
            let names: Vec<Vec<u8>> = self.list[place].masters.keys().cloned().collect();
            for name in names {
                if self.judge_objectively(place, &name, scene, around) {
                    due.push((place, name));
                }
            }
        }
        for (place, name) in due {
            // An earlier one may have failed it over already.
            let Some(master) = self.list[place].masters.get(&name) else { continue };
            if master.objectively_down_since.is_some() && is_due(master, scene.now) {
                self.elect(place, &name, scene, around);
            }
        }
    }

    /// Counts the Sentinels for which a master is down. Returns whether a failover is due.
    fn judge_objectively(&mut self, place: usize, name: &[u8], scene: &Scene, around: &dyn Surroundings) -> bool {
        let Some(master) = self.list[place].masters.get(name) else { return false };
        let agree = |other: &&Sentinel| {
            other.is_serving() && other.monitors(master).is_some_and(|own| own.down_since.is_some())
        };
        let agreed = self.list.iter().filter(|other| other.place == place || master.known_peers.contains(&other.place));
        let agreed = agreed.filter(agree).count();
        let sentinel = &mut self.list[place];
        let naming = sentinel.naming();
        let Some(master) = sentinel.masters.get_mut(name) else { return false };
        let is_down = master.down_since.is_some() && agreed >= master.quorum;
        if is_down && master.objectively_down_since.is_none() {
            master.objectively_down_since = Some(scene.now);
            let quorum = format!("{} #quorum {agreed}/{}", master.describe(naming), master.quorum);
            around.publish(place, "+odown", &quorum);
        } else if !is_down && master.objectively_down_since.take().is_some() {
            around.publish(place, "-odown", &master.describe(naming));
        }
        is_down && is_due(master, scene.now)
    }

    /// Fails over if enough Sentinels vote for this one.
    fn elect(&mut self, place: usize, name: &[u8], scene: &Scene, around: &dyn Surroundings) {
        let epoch = self.next_epoch();
        let voters = self.voters(place, name);
        let leader = self.list[place].id.clone();
        self.tell(place, name, around, |master, naming| {
            vec![("+new-epoch", epoch.to_string()), ("+try-failover", master.describe(naming))]
        });
        for &voter in std::iter::once(&place).chain(voters.iter().filter(|voter| **voter != place)) {
            let sentinel = &mut self.list[voter];
            if voter != place {
                around.publish(voter, "+new-epoch", &epoch.to_string());
            }
            sentinel.epoch = epoch;
            around.publish(voter, "+vote-for-leader", &format!("{leader} {epoch}"));
            if let Some(master) = sentinel.masters.get_mut(name) {
                master.vote = Some((leader.clone(), epoch));
                master.tried_at = Some(scene.now);
            }
        }
        let Some(master) = self.list[place].masters.get(name) else { return };
        if voters.len() < master.majority().max(master.quorum) {
            return self.tell(place, name, around, |master, naming| {
                vec![("-failover-abort-not-elected", master.describe(naming))]
            });
        }
        let promoted = self.lead(place, name, epoch, scene, around);
        self.completions.extend(promoted);
    }

    /// What the elected Sentinel does.
    fn lead(
        &mut self,
        place: usize,
        name: &[u8],
        epoch: u64,
        scene: &Scene,
        around: &dyn Surroundings,
    ) -> Result<Completion, CommandError> {
        self.tell(place, name, around, |master, naming| {
            let master = master.describe(naming);
            vec![("+elected-leader", master.clone()), ("+failover-state-select-slave", master)]
        });
        let Some((master, replica)) = self.choose(place, name, scene) else {
            self.tell(place, name, around, |master, naming| {
                vec![("-failover-abort-no-good-slave", master.describe(naming))]
            });
            return Err(NO_GOOD_REPLICA);
        };
        self.tell_of(
            place,
            name,
            replica,
            around,
            &["+selected-slave", "+failover-state-send-slaveof-noone", "+failover-state-wait-promotion"],
        );
        let completion = match around.promote(master, replica) {
            Ok(completion) => completion,
            Err(error) => {
                self.tell(place, name, around, |master, naming| {
                    vec![("-failover-abort-slave-timeout", master.describe(naming))]
                });
                return Err(error);
            }
        };
        let scene = Scene::of(around);
        self.tell(place, name, around, |master, naming| {
            let Some(replica) = master.replicas.get(&replica) else { return Events::new() };
            let described = master.describe_replica(replica, naming);
            vec![
                ("-role-change", format!("{described} new reported role is master")),
                ("+promoted-slave", described),
                ("+failover-state-reconf-slaves", master.describe(naming)),
            ]
        });
        let others: Vec<usize> = self.list[place].masters.get(name).map_or_else(Vec::new, |master| {
            let others = master.replicas.values().filter(|other| other.number != replica && is_up(other, &scene));
            others.map(|other| other.number).collect()
        });
        for other in others {
            self.tell_of(
                place,
                name,
                other,
                around,
                &["+slave-reconf-sent", "+slave-reconf-inprog", "+slave-reconf-done"],
            );
        }
        self.tell(place, name, around, |master, naming| vec![("+failover-end", master.describe(naming))]);
        self.announce(place, name, replica, epoch, &scene, around);
        self.observe_all(&scene, around);
        Ok(completion)
    }

    /// Tells all Sentinels who the new master is.
    fn announce(
        &mut self,
        leader: usize,
        name: &[u8],
        number: usize,
        epoch: u64,
        scene: &Scene,
        around: &dyn Surroundings,
    ) {
        let (id, address) = (self.list[leader].id.clone(), self.list[leader].announced());
        let origin = self.list[leader].masters.get(name).and_then(|master| master.origin);
        for sentinel in self.list.iter_mut().filter(|sentinel| sentinel.is_serving()) {
            let (naming, place, mut events) = (sentinel.naming(), sentinel.place, Events::new());
            if sentinel.epoch < epoch {
                sentinel.epoch = epoch;
                events.push(("+new-epoch", epoch.to_string()));
            }
            // Two names can stand for one group.
            let masters = sentinel.masters.values_mut();
            for master in masters.filter(|master| master.origin.is_some() && master.origin == origin) {
                if master.number == Some(number) {
                    continue;
                }
                if place != leader {
                    events.push(("+config-update-from", master.describe_peer(&id, &address, naming)));
                }
                master.config_epoch = epoch;
                master.switch(number, scene, naming, &mut events);
            }
            events.iter().for_each(|(channel, payload)| around.publish(place, channel, payload));
        }
    }

    /// SENTINEL FAILOVER: without asking the other Sentinels.
    pub(super) fn fail_over(
        &mut self,
        place: usize,
        name: &[u8],
        around: &dyn Surroundings,
    ) -> Result<Completion, CommandError> {
        let scene = Scene::of(around);
        if !self.list[place].masters.contains_key(name) {
            return Err(NO_SUCH_MASTER);
        }
        if self.choose(place, name, &scene).is_none() {
            return Err(NO_GOOD_REPLICA);
        }
        let epoch = self.next_epoch();
        self.list[place].epoch = epoch;
        let id = self.list[place].id.clone();
        self.tell(place, name, around, |master, naming| {
            vec![
                ("+new-epoch", epoch.to_string()),
                ("+try-failover", master.describe(naming)),
                ("+vote-for-leader", format!("{id} {epoch}")),
            ]
        });
        self.lead(place, name, epoch, &scene, around)
    }

    /// The master and the replica that takes its place: the one with the lowest priority number, then the one that has most of
    /// the stream, then the one with the lowest run id.
    fn choose(&self, place: usize, name: &[u8], scene: &Scene) -> Option<(usize, usize)> {
        let sentinel = self.list.get(place)?;
        let master = sentinel.masters.get(name)?;
        let good = master.replicas.values().filter_map(|replica| {
            let member = scene.member(replica.number)?;
            let is_good = is_up(replica, scene)
                && sentinel.reaches(replica.number)
                && member.priority != 0
                && member.master.as_ref().is_some_and(|own| own.is_same(&master.address));
            is_good.then(|| ((member.priority, Reverse(member.offset), member.run_id.clone()), replica.number))
        });
        Some((master.number?, good.min()?.1))
    }

    /// The Sentinels that run and know this one to monitor the same master.
    fn voters(&self, place: usize, name: &[u8]) -> Vec<usize> {
        let Some(master) = self.list[place].masters.get(name) else { return Vec::new() };
        let knows = |other: &&Sentinel| other.place == place || master.known_peers.contains(&other.place);
        let votes = |other: &&Sentinel| other.is_serving() && other.monitors(master).is_some();
        self.list.iter().filter(knows).filter(votes).map(|other| other.place).collect()
    }

    fn next_epoch(&self) -> u64 {
        self.list.iter().map(|sentinel| sentinel.epoch).max().unwrap_or(0) + 1
    }

    /// Sends messages about a master.
    fn tell(
        &self,
        place: usize,
        name: &[u8],
        around: &dyn Surroundings,
        events: impl FnOnce(&Monitored, super::Naming) -> Events,
    ) {
        let sentinel = &self.list[place];
        let Some(master) = sentinel.masters.get(name) else { return };
        let events = events(master, sentinel.naming());
        events.iter().for_each(|(channel, payload)| around.publish(place, channel, payload));
    }

    /// Sends messages about a replica.
    fn tell_of(&self, place: usize, name: &[u8], number: usize, around: &dyn Surroundings, channels: &[&'static str]) {
        self.tell(place, name, around, |master, naming| {
            let Some(replica) = master.replicas.get(&number) else { return Events::new() };
            channels.iter().map(|channel| (*channel, master.describe_replica(replica, naming))).collect()
        });
    }

    pub(super) fn reset(&mut self, place: usize, name: &[u8], around: &dyn Surroundings) {
        let (count, now) = (self.list.len(), around.now());
        let sentinel = &mut self.list[place];
        let naming = sentinel.naming();
        let Some(master) = sentinel.masters.get_mut(name) else { return };
        master.replicas.clear();
        master.peers.clear();
        (master.down_since, master.objectively_down_since, master.tried_at) = (None, None, None);
        (master.since, master.vote) = (now, None);
        around.publish(place, "+reset-master", &master.describe(naming));
        let address = master.address.clone();
        let monitors = |other: &Sentinel| other.masters.values().any(|master| master.address.is_same(&address));
        let found: Vec<(usize, String)> = (0..count)
            .filter(|other| *other != place && self.list[*other].is_serving() && monitors(&self.list[*other]))
            .map(|other| (other, self.list[other].id.clone()))
            .collect();
        let addresses: Vec<_> = found.iter().map(|(other, _)| self.list[*other].announced()).collect();
        let sentinel = &mut self.list[place];
        let Some(master) = sentinel.masters.get_mut(name) else { return };
        master.known_peers = found.iter().map(|(other, _)| *other).collect();
        for ((_, id), address) in found.iter().zip(&addresses) {
            around.publish(place, "+sentinel", &master.describe_peer(id, address, naming));
        }
    }

    pub(super) fn vote(
        &mut self,
        place: usize,
        name: &[u8],
        epoch: u64,
        candidate: &str,
        around: &dyn Surroundings,
    ) -> Option<(String, u64)> {
        let sentinel = &mut self.list[place];
        let now = around.now();
        if epoch > sentinel.epoch {
            sentinel.epoch = epoch;
            around.publish(place, "+new-epoch", &epoch.to_string());
        }
        let (own, current) = (sentinel.id.clone(), sentinel.epoch);
        let master = sentinel.masters.get_mut(name)?;
        let voted = master.vote.as_ref().map_or(0, |(_, epoch)| *epoch);
        if voted < epoch && current <= epoch {
            master.vote = Some((candidate.to_owned(), current));
            around.publish(place, "+vote-for-leader", &format!("{candidate} {current}"));
            if !candidate.eq_ignore_ascii_case(&own) {
                master.tried_at = Some(now);
            }
        }
        master.vote.clone()
    }
}

impl Sentinel {
    /// The same master as another Sentinel has it.
    fn monitors(&self, master: &Monitored) -> Option<&Monitored> {
        self.masters.values().find(|own| own.address.is_same(&master.address))
    }
}

fn is_up(replica: &Replica, scene: &Scene) -> bool {
    let is_running = scene.member(replica.number).is_some_and(|member| member.state == InstanceState::Running);
    is_running && replica.down_since.is_none()
}

/// Whether the last attempt was long enough ago.
fn is_due(master: &Monitored, now: Millis) -> bool {
    let wait = master.failover_timeout.saturating_mul(2);
    master.tried_at.is_none_or(|tried| now.saturating_sub(tried) >= wait) && master.number.is_some()
}
