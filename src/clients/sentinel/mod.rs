//! The Sentinels of a process: what each of them monitors, what it thinks of the servers, and the failovers.
//!
//! All of them share one state, so they never disagree about a failover; they differ in what a client tells one of them
//! (SENTINEL SET, MONITOR, REMOVE), in which servers they reach, and in whether they run. Nothing is polled: [`Sentinels::refresh`]
//! compares what is with what each Sentinel knows, and is called by whatever changes a server, by every question, and by
//! the alarm of the next deadline. So what takes a Sentinel seconds takes no time here but `down-after-milliseconds`.

mod failover;
mod monitored;
mod watching;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::base::identity::random_digits;
use crate::base::sync::MutexExt;
use crate::clients::fleet::{CLOSED, Completion, InstanceState, ReplicationGroup};

pub use failover::NO_SUCH_MASTER;
pub use monitored::{Address, Monitored, Naming, Replica, Role};
pub use watching::{Member, Scene};

/// The name of the first master; the others have their number behind it.
pub const SERVICE: &str = "mymaster";

/// The most masters that one Sentinel monitors: clients can add some.
pub const MOST_MASTERS: usize = 1000;

/// What Sentinels need of the process around them.
pub trait Surroundings: Send + Sync {
    /// The time of the server's clock.
    fn now(&self) -> Millis;

    fn groups(&self) -> Vec<ReplicationGroup>;

    /// The address at which clients find the instances.
    fn host(&self) -> IpAddr;

    /// For each instance, globs of the client names that it is cut off from.
    fn cuts(&self) -> Vec<(usize, Vec<Vec<u8>>)>;

    /// Makes a replica the master in the place of another instance.
    fn promote(&self, master: usize, replica: usize) -> Result<Completion, CommandError>;

    /// Sends a message to those who listen to a Sentinel.
    fn publish(&self, sentinel: usize, channel: &str, payload: &str);

    /// Refuses connections to a Sentinel from now on, and closes its clients.
    fn stop(&self, sentinel: usize);

    /// From when on something is to be done if nothing happens until then.
    fn wake_at(&self, deadline: Option<Millis>);
}

/// One of the Sentinels, as a server has it that is one.
#[derive(Clone)]
pub struct SentinelSeat {
    pub all: Arc<Sentinels>,
    /// Its place among them, from 0.
    pub place: usize,
}

/// All Sentinels of a process.
#[derive(Default)]
pub struct Sentinels {
    surroundings: OnceLock<Weak<dyn Surroundings>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    list: Vec<Sentinel>,
    /// Failovers whose consequences nobody has waited for yet.
    completions: Vec<Completion>,
}

/// One Sentinel.
pub struct Sentinel {
    pub place: usize,
    pub id: String,
    pub address: Address,
    /// Since when it does not run, if that is so.
    pub stopped_since: Option<Millis>,
    /// The latest election that it has heard of.
    pub epoch: u64,
    pub masters: BTreeMap<Vec<u8>, Monitored>,
    pub options: Options,
    /// The instances that it has seen, by number.
    contacts: BTreeMap<usize, Contact>,
}

/// What a Sentinel has seen of an instance.
struct Contact {
    state: InstanceState,
    /// Since when it does not answer this Sentinel.
    silent_since: Option<Millis>,
}

/// The options of SENTINEL CONFIG.
#[derive(Default)]
pub struct Options {
    pub resolve_hostnames: bool,
    pub announce_hostnames: bool,
    pub announce_ip: String,
    pub announce_port: u16,
    pub sentinel_user: String,
    pub sentinel_pass: String,
}

impl Sentinel {
    fn new(place: usize, id: String, address: Address) -> Self {
        Self {
            place,
            id,
            address,
            stopped_since: None,
            epoch: 0,
            masters: BTreeMap::new(),
            options: Options::default(),
            contacts: BTreeMap::new(),
        }
    }

    /// The name of its connections to the servers, for what cuts clients off by name.
    fn client_name(&self) -> String {
        format!("sentinel-{}-cmd", &self.id[..8])
    }

    pub fn is_serving(&self) -> bool {
        self.stopped_since.is_none()
    }

    /// How it names hosts to clients.
    pub fn naming(&self) -> Naming {
        Naming { by_hostname: self.options.announce_hostnames }
    }

    /// Where clients find it.
    pub fn announced(&self) -> Address {
        let Self { address, options, .. } = self;
        let (ip, hostname) = match options.announce_ip.as_str() {
            "" => (address.ip.clone(), address.hostname.clone()),
            given => (given.to_owned(), given.to_owned()),
        };
        Address { ip, hostname, port: if options.announce_port == 0 { address.port } else { options.announce_port } }
    }
}

impl Sentinels {
    /// Adds a Sentinel, before any of them serves.
    pub fn add(self: &Arc<Self>) -> SentinelSeat {
        let mut state = self.state();
        let place = state.list.len();
        state.list.push(Sentinel::new(place, random_digits(40), Address::default()));
        SentinelSeat { all: Arc::clone(self), place }
    }

    /// Begins to monitor the masters that there are. `addresses` are those of the Sentinels.
    pub fn begin(&self, surroundings: Weak<dyn Surroundings>, addresses: &[(IpAddr, u16)], down_after: Millis) {
        let _ = self.surroundings.set(surroundings);
        self.restore(addresses, down_after);
    }

    /// Knows what it knew at the start, and nothing else.
    pub fn restore(&self, addresses: &[(IpAddr, u16)], down_after: Millis) {
        let Some(around) = self.surroundings() else { return };
        let scene = Scene::of(&*around);
        let mut state = self.state();
        let quorum = state.list.len() / 2 + 1;
        for (sentinel, (host, port)) in state.list.iter_mut().zip(addresses) {
            let (place, id) = (sentinel.place, std::mem::take(&mut sentinel.id));
            *sentinel = Sentinel::new(place, id, Address::of(*host, *port));
        }
        for place in 0..state.list.len() {
            for (number, group) in (1..).zip(scene.groups_by_origin()) {
                let name = if number == 1 { SERVICE.to_owned() } else { format!("{SERVICE}{number}") };
                let mut master = Monitored::new(name.as_bytes(), scene.address(&group.master), quorum, scene.now);
                master.origin = Some(group.origin);
                master.number = Some(group.master.number);
                master.down_after = down_after;
                master.known_peers = (0..state.list.len()).filter(|other| *other != place).collect();
                state.list[place].masters.insert(name.into_bytes(), master);
            }
        }
        drop(state);
        self.refresh();
    }

    fn surroundings(&self) -> Option<Arc<dyn Surroundings>> {
        self.surroundings.get().and_then(Weak::upgrade)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock_ignoring_poison()
    }

    /// Lets all Sentinels see what is, and do what is due.
    pub fn refresh(&self) {
        let Some(around) = self.surroundings() else { return };
        self.refreshed(&mut self.state(), &around);
    }

    fn refreshed(&self, state: &mut State, around: &Arc<dyn Surroundings>) {
        state.refresh(&**around);
        around.wake_at(state.next_deadline());
    }

    /// Does something with a Sentinel that knows everything that has happened.
    pub fn with<R>(
        &self,
        place: usize,
        run: impl FnOnce(&mut Desk<'_>) -> Result<R, CommandError>,
    ) -> Result<R, CommandError> {
        let around = self.surroundings().ok_or(CLOSED)?;
        let mut state = self.state();
        self.refreshed(&mut state, &around);
        let result = run(&mut Desk { state: &mut state, place, around: &*around });
        self.refreshed(&mut state, &around);
        result
    }

    /// The consequences of failovers that nobody has waited for yet.
    pub fn take_completions(&self) -> Vec<Completion> {
        std::mem::take(&mut self.state().completions)
    }

    /// Stops a Sentinel, as if its process had ended.
    pub fn stop(&self, place: usize) {
        let Some(around) = self.surroundings() else { return };
        let mut state = self.state();
        let now = around.now();
        if let Some(sentinel) = state.list.get_mut(place) {
            sentinel.stopped_since.get_or_insert(now);
        }
        self.refreshed(&mut state, &around);
        drop(state);
        around.stop(place);
    }
}

/// What a command of a Sentinel's works on.
pub struct Desk<'a> {
    state: &'a mut State,
    place: usize,
    around: &'a dyn Surroundings,
}

impl Desk<'_> {
    pub fn now(&self) -> Millis {
        self.around.now()
    }

    pub fn sentinel(&mut self) -> &mut Sentinel {
        &mut self.state.list[self.place]
    }

    pub fn all(&self) -> &[Sentinel] {
        &self.state.list
    }

    /// What the Sentinel knows of the servers of a master.
    pub fn scene(&self) -> Scene {
        Scene::of(self.around)
    }

    /// Tells those who listen to this Sentinel.
    pub fn publish(&self, channel: &str, payload: &str) {
        self.around.publish(self.place, channel, payload);
    }

    /// Fails over now, whatever the state of the master is. It has taken full effect when the returned future is ready.
    pub fn fail_over(&mut self, name: &[u8]) -> Result<Completion, CommandError> {
        self.state.fail_over(self.place, name, self.around)
    }

    /// Forgets the replicas, the other Sentinels and the state of a master, to find them again.
    pub fn reset(&mut self, name: &[u8]) {
        self.state.reset(self.place, name, self.around);
    }

    /// Asks for a vote. Returns for whom this Sentinel votes, and in which epoch.
    pub fn vote(&mut self, name: &[u8], epoch: u64, candidate: &str) -> Option<(String, u64)> {
        self.state.vote(self.place, name, epoch, candidate, self.around)
    }
}
