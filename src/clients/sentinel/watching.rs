//! What Sentinels notice: who is silent, who is back, who has another part than before.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::monitored::{Address, Monitored, Naming, Replica, Role};
use super::{Contact, Sentinel, State, Surroundings};
use crate::base::clock::Millis;
use crate::base::glob;
use crate::clients::fleet::{GroupMember, InstanceState, ReplicationGroup};

/// What there is at one instant.
pub struct Scene {
    pub now: Millis,
    groups: Vec<ReplicationGroup>,
    /// By the number of the instance.
    members: BTreeMap<usize, Member>,
    cuts: BTreeMap<usize, Vec<Vec<u8>>>,
    host: IpAddr,
}

/// An instance as it is.
#[derive(Clone, Debug)]
pub struct Member {
    pub state: InstanceState,
    pub role: Role,
    pub address: Address,
    pub run_id: String,
    pub offset: u64,
    /// What only a replica has: who it follows, whether the link is up, its priority.
    pub master: Option<Address>,
    pub is_linked: bool,
    pub priority: u32,
}

impl Scene {
    pub fn of(around: &dyn Surroundings) -> Self {
        let (groups, host) = (around.groups(), around.host());
        let mut members = BTreeMap::new();
        for group in &groups {
            let of = |member: &GroupMember, role| Member {
                state: member.state,
                role,
                address: Address::of(host, member.port),
                run_id: member.run_id.clone(),
                offset: member.offset,
                master: None,
                is_linked: false,
                priority: 0,
            };
            members.insert(group.master.number, of(&group.master, Role::Master));
            for replica in &group.replicas {
                let master = Some(Address::of(host, group.master.port));
                let (is_linked, priority) = (replica.is_linked, replica.priority);
                let member = Member { master, is_linked, priority, ..of(&replica.member, Role::Replica) };
                members.insert(replica.member.number, member);
            }
        }
        Self { now: around.now(), groups, members, cuts: around.cuts().into_iter().collect(), host }
    }

    /// The groups in the order of the instances that were masters at the start.
    pub(super) fn groups_by_origin(&self) -> impl Iterator<Item = &ReplicationGroup> {
        let origins: BTreeSet<usize> = self.groups.iter().map(|group| group.origin).collect();
        origins.into_iter().filter_map(|origin| self.group(origin))
    }

    /// The group that has this origin, without a former master that is cut off from it.
    pub(super) fn group(&self, origin: usize) -> Option<&ReplicationGroup> {
        self.groups.iter().find(|group| group.origin == origin && !group.is_superseded)
    }

    pub fn address(&self, member: &GroupMember) -> Address {
        Address::of(self.host, member.port)
    }

    pub fn member(&self, number: usize) -> Option<&Member> {
        self.members.get(&number)
    }

    /// The group whose master has this address.
    pub fn group_at(&self, address: &Address) -> Option<&ReplicationGroup> {
        let is_there = |group: &&ReplicationGroup| self.address(&group.master).is_same(address);
        self.groups.iter().filter(|group| group.master.port != 0).find(is_there)
    }

    fn is_cut_off(&self, number: usize, client_name: &str) -> bool {
        let globs = self.cuts.get(&number).into_iter().flatten();
        globs.into_iter().any(|pattern| glob::matches(pattern, client_name.as_bytes(), false))
    }
}

/// What one Sentinel tells of another one.
struct PeerView {
    id: String,
    address: Address,
    stopped_since: Option<Millis>,
}

/// Messages of one Sentinel, in their order.
pub(super) type Events = Vec<(&'static str, String)>;

impl State {
    /// Lets all Sentinels that run notice what has changed, and do what is due.
    pub(super) fn refresh(&mut self, around: &dyn Surroundings) {
        let scene = Scene::of(around);
        self.observe_all(&scene, around);
        self.judge_together(&scene, around);
    }

    pub(super) fn observe_all(&mut self, scene: &Scene, around: &dyn Surroundings) {
        let of = |sentinel: &Sentinel| PeerView {
            id: sentinel.id.clone(),
            address: sentinel.announced(),
            stopped_since: sentinel.stopped_since,
        };
        let peers: Vec<PeerView> = self.list.iter().map(of).collect();
        // Who converts a former master to a replica: one is enough.
        let first = self.list.iter().position(Sentinel::is_serving);
        for sentinel in self.list.iter_mut().filter(|sentinel| sentinel.is_serving()) {
            let events = sentinel.observe(scene, &peers, first == Some(sentinel.place));
            events.iter().for_each(|(channel, payload)| around.publish(sentinel.place, channel, payload));
        }
    }

    /// When something is to be done if nothing happens until then.
    pub(super) fn next_deadline(&self) -> Option<Millis> {
        let serving = self.list.iter().filter(|sentinel| sentinel.is_serving());
        let peers: BTreeMap<usize, Millis> =
            self.list.iter().filter_map(|other| Some((other.place, other.stopped_since?))).collect();
        let of_master = |sentinel: &Sentinel, master: &Monitored| {
            let silent = |number: Option<usize>, since: Millis| match number {
                None => Some(since),
                Some(number) => Some(sentinel.contacts.get(&number)?.silent_since?.max(since)),
            };
            let down = silent(master.number, master.since).filter(|_| master.down_since.is_none());
            let replicas = master.replicas.values().filter(|replica| replica.down_since.is_none());
            let replicas = replicas.filter_map(|replica| silent(Some(replica.number), replica.since));
            let known = |place: &&usize| master.peers.get(*place).is_none_or(|peer| peer.down_since.is_none());
            let gone = master.known_peers.iter().filter(known).filter_map(|place| peers.get(place).copied());
            let sooner = down.into_iter().chain(replicas).chain(gone).min();
            let again = master.objectively_down_since.and(master.tried_at).filter(|_| master.number.is_some());
            let again = again.map(|tried| tried.saturating_add(master.failover_timeout.saturating_mul(2)));
            sooner.map(|since| since.saturating_add(master.down_after)).into_iter().chain(again).min()
        };
        serving
            .flat_map(|sentinel| sentinel.masters.values().filter_map(move |master| of_master(sentinel, master)))
            .min()
    }
}

impl Sentinel {
    fn observe(&mut self, scene: &Scene, peers: &[PeerView], converts: bool) -> Events {
        let mut events = Events::new();
        let restarted = self.look_at_servers(scene);
        let (naming, place) = (self.naming(), self.place);
        let Self { masters, contacts, .. } = self;
        for master in masters.values_mut() {
            master.follow_group(scene, naming, contacts, &mut events);
            master.look_for_replicas(scene, naming, &mut events);
            for number in &restarted {
                if master.number == Some(*number) {
                    events.push(("+reboot", master.describe(naming)));
                } else if let Some(replica) = master.replicas.get(number) {
                    events.push(("+reboot", master.describe_replica(replica, naming)));
                }
            }
            master.judge(scene.now, naming, contacts, &mut events);
            master.judge_replicas(scene, naming, contacts, converts, &mut events);
            master.judge_peers(scene.now, naming, place, peers, &mut events);
        }
        events
    }

    /// Notes who answers. Returns the instances that were stopped and run again.
    fn look_at_servers(&mut self, scene: &Scene) -> Vec<usize> {
        let (name, mut restarted) = (self.client_name(), Vec::new());
        for (number, member) in &scene.members {
            let contact = self.contacts.entry(*number).or_insert(Contact { state: member.state, silent_since: None });
            if contact.state == InstanceState::Stopped && member.state != InstanceState::Stopped {
                restarted.push(*number);
            }
            contact.state = member.state;
            let is_silent = member.state != InstanceState::Running || scene.is_cut_off(*number, &name);
            contact.silent_since = is_silent.then(|| contact.silent_since.unwrap_or(scene.now));
        }
        restarted
    }

    /// Whether an instance answers this Sentinel.
    pub fn reaches(&self, number: usize) -> bool {
        self.silent_since(number).is_none() && self.contacts.contains_key(&number)
    }

    /// Since when an instance does not answer this Sentinel, if that is so.
    pub fn silent_since(&self, number: usize) -> Option<Millis> {
        self.contacts.get(&number)?.silent_since
    }

    /// Whether there is a connection to an instance.
    pub fn is_connected(&self, number: usize) -> bool {
        self.contacts.get(&number).is_some_and(|contact| contact.state != InstanceState::Stopped)
    }
}

type Contacts = BTreeMap<usize, Contact>;

impl Monitored {
    /// Takes note of a failover that no Sentinel has made.
    fn follow_group(&mut self, scene: &Scene, naming: Naming, contacts: &Contacts, events: &mut Events) {
        let Some(group) = self.origin.and_then(|origin| scene.group(origin)) else { return };
        // One that this Sentinel does not reach cannot tell it.
        let number = group.master.number;
        let is_reached = contacts.get(&number).is_some_and(|contact| contact.silent_since.is_none());
        if self.number != Some(number) && is_reached {
            self.switch(number, scene, naming, events);
        }
    }

    /// Makes another server the master, and announces it.
    pub(super) fn switch(&mut self, number: usize, scene: &Scene, naming: Naming, events: &mut Events) {
        let Some(address) = scene.member(number).map(|member| member.address.clone()) else { return };
        let (former, former_number) = (std::mem::replace(&mut self.address, address), self.number);
        self.number = Some(number);
        let [before, after] = [&former, &self.address].map(|at| format!("{} {}", naming.host_of(at), at.port));
        events.push(("+switch-master", format!("{} {before} {after}", self.label())));
        let replicas = std::mem::take(&mut self.replicas);
        let others = replicas.into_values().filter(|replica| replica.number != number);
        for Replica { number, address, .. } in others {
            self.add_replica(Replica::new(number, address, scene.now), naming, events);
        }
        if let Some(number) = former_number {
            let replica = Replica::new(number, former, scene.now);
            self.add_replica(Replica { is_former_master: true, ..replica }, naming, events);
        }
        self.since = scene.now;
        (self.down_since, self.objectively_down_since, self.tried_at) = (None, None, None);
    }

    fn add_replica(&mut self, replica: Replica, naming: Naming, events: &mut Events) {
        events.push(("+slave", self.describe_replica(&replica, naming)));
        self.replicas.insert(replica.number, replica);
    }

    /// A master that answers tells who follows it.
    fn look_for_replicas(&mut self, scene: &Scene, naming: Naming, events: &mut Events) {
        let group = self.number.and_then(|number| scene.groups.iter().find(|group| group.master.number == number));
        for replica in group.iter().flat_map(|group| &group.replicas) {
            let number = replica.member.number;
            if !self.replicas.contains_key(&number) {
                let address = scene.address(&replica.member);
                self.add_replica(Replica::new(number, address, scene.now), naming, events);
            }
        }
    }

    /// Whether it is down for this Sentinel.
    fn judge(&mut self, now: Millis, naming: Naming, contacts: &Contacts, events: &mut Events) {
        // A server outside of the process is never reached.
        let silent = match self.number {
            None => Some(self.since),
            Some(number) => silence(contacts, number, self.since),
        };
        let is_down = silent.is_some_and(|since| now.saturating_sub(since) >= self.down_after);
        if is_down && self.down_since.is_none() {
            self.down_since = Some(now);
            events.push(("+sdown", self.describe(naming)));
        } else if silent.is_none() && self.down_since.take().is_some() {
            events.push(("-sdown", self.describe(naming)));
        }
    }

    fn judge_replicas(
        &mut self,
        scene: &Scene,
        naming: Naming,
        contacts: &Contacts,
        converts: bool,
        events: &mut Events,
    ) {
        let now = scene.now;
        let mut replicas = std::mem::take(&mut self.replicas);
        for replica in replicas.values_mut() {
            let silent = silence(contacts, replica.number, replica.since);
            let is_down = silent.is_some_and(|since| now.saturating_sub(since) >= self.down_after);
            let described = || self.describe_replica(replica, naming);
            if is_down && replica.down_since.is_none() {
                events.push(("+sdown", described()));
                replica.down_since = Some(now);
            } else if silent.is_none() && replica.down_since.is_some() {
                events.push(("-sdown", described()));
                replica.down_since = None;
            }
            let Some(member) = scene.member(replica.number).filter(|_| silent.is_none()) else { continue };
            if replica.is_former_master {
                // It still says so when it is seen first.
                let described = self.describe_replica(replica, naming);
                events.push(("-role-change", format!("{described} new reported role is master")));
                (replica.reported, replica.reported_since) = (Role::Master, now);
                replica.is_former_master = false;
                if converts && member.role == Role::Replica {
                    events.push(("+convert-to-slave", described));
                }
            }
            if member.role != replica.reported {
                let channel = if member.role == Role::Replica { "+role-change" } else { "-role-change" };
                let described = self.describe_replica(replica, naming);
                events.push((channel, format!("{described} new reported role is {}", member.role.name())));
                (replica.reported, replica.reported_since) = (member.role, now);
            }
        }
        self.replicas = replicas;
    }

    fn judge_peers(&mut self, now: Millis, naming: Naming, place: usize, peers: &[PeerView], events: &mut Events) {
        let places: Vec<usize> = self.known_peers.iter().copied().filter(|other| *other != place).collect();
        for other in places {
            let Some(view) = peers.get(other) else { continue };
            let is_down =
                view.stopped_since.is_some_and(|since| now.saturating_sub(since.max(self.since)) >= self.down_after);
            let described = self.describe_peer(&view.id, &view.address, naming);
            let peer = self.peers.entry(other).or_default();
            if is_down && peer.down_since.is_none() {
                peer.down_since = Some(now);
                events.push(("+sdown", described));
            }
        }
    }
}

/// Since when an instance has not answered, but not from before a Sentinel began to count.
fn silence(contacts: &Contacts, number: usize, since: Millis) -> Option<Millis> {
    contacts.get(&number)?.silent_since.map(|silent| silent.max(since))
}
