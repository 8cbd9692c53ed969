//! A Cluster or a Sentinel set behind the front: a local port for each node, kept up to date.
//!
//! [`DeploymentFront`] has the members, by their real addresses and their ids. `discovery` asks the deployment who they are,
//! `view` is one answer, [`book`] translates addresses for one connection, `ports` has the local ports, `refusal` closes them while
//! their nodes refuse connections.

mod apply;
mod book;
mod cluster_view;
mod discovery;
mod member;
mod ports;
mod refusal;
mod sentinel_view;
mod view;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::{Target, TargetSettings};
use crate::base::clock::Clock;
use crate::base::error::Error;
use crate::base::host;
use crate::base::log::{Log, SparingLog};
use crate::base::sync::MutexExt;
use crate::clients::config::Config;
use crate::clients::deployment::{Deployment, DeploymentKind};
use crate::powers::{NodeInfo, NodeRole};
use crate::server::node::Node;

pub(in crate::server) use book::ConnectionBook;
pub(in crate::server) use member::Member;
pub(in crate::server) use ports::{PortPool, PortRange};

/// The most nodes: more would be an error, or an attack.
const MOST_NODES: usize = 1024;
/// The most nodes that only replies have named: the Sentinels' other masters, and nodes that are just joining.
const MOST_NAMED: usize = 64;
/// The usual ports.
const CLUSTER_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// What the command line says of a deployment.
pub(in crate::server) struct DeploymentSettings {
    kind: DeploymentKind,
    /// The nodes of a Cluster, or the Sentinels.
    seeds: Vec<Target>,
    /// How data nodes are reached; its address is that of the first seed.
    data: Target,
    timeout: Duration,
}

impl DeploymentSettings {
    /// Reads the settings; `None` if they ask for no deployment.
    pub fn from_config(config: &Config) -> Result<Option<Self>, String> {
        let (cluster, sentinels) = (config.words("upstream-cluster"), config.words("upstream-sentinel"));
        let service = config.text("service");
        let settings = TargetSettings::from_config(config);
        let (kind, seeds) = match (cluster.is_empty(), sentinels.is_empty()) {
            (true, true) if !service.is_empty() => {
                return Err("service is the name of a master of upstream-sentinel, which is not given".to_owned());
            }
            (true, true) => return Ok(None),
            (false, false) => return Err("upstream-cluster and upstream-sentinel exclude each other".to_owned()),
            (false, true) if !service.is_empty() => {
                return Err("service is for upstream-sentinel, not for upstream-cluster".to_owned());
            }
            (false, true) => {
                (DeploymentKind::Cluster, seeds_of("upstream-cluster", &cluster, &settings, CLUSTER_PORT)?)
            }
            (true, false) if service.is_empty() => {
                return Err("upstream-sentinel takes service, the name of the master in the Sentinels".to_owned());
            }
            (true, false) => {
                let seeds = seeds_of("upstream-sentinel", &sentinels, &settings, SENTINEL_PORT)?;
                (DeploymentKind::Sentinel { service }, seeds)
            }
        };
        let first = seeds.first().ok_or("there is no node")?;
        let (user, password) = (config.value("upstream-user"), config.value("upstream-password"));
        let data = match kind {
            DeploymentKind::Cluster if password.is_empty() => first.clone(),
            _ => first.clone().with_login(&user, &password)?,
        };
        Ok(Some(Self { kind, seeds, data, timeout: settings.timeout }))
    }

    /// The deployment as it is said in the log.
    pub fn address(&self) -> String {
        let seeds: Vec<String> = self.seeds.iter().map(Target::address).collect();
        seeds.join(",")
    }

    /// Whether anybody could stand between this program and the nodes.
    pub fn is_insecure(&self) -> bool {
        self.data.is_insecure()
    }
}

/// The nodes of a list such as `redis://a:7000,b:7001`: those without a URL are reached as the first one.
fn seeds_of(
    directive: &str,
    lists: &[String],
    settings: &TargetSettings,
    default_port: u16,
) -> Result<Vec<Target>, String> {
    let mut seeds: Vec<Target> = Vec::new();
    for word in lists.iter().flat_map(|list| list.split(',')).map(str::trim).filter(|word| !word.is_empty()) {
        let is_url = word.contains("://") || word.starts_with("unix:");
        let seed = match (is_url, seeds.first()) {
            (true, _) => Target::with_default_port(word, settings, default_port)?,
            (false, Some(first)) => {
                let plain =
                    Target::with_default_port(&format!("redis://{word}"), &settings.without_tls(), default_port)?;
                first.at(plain.host(), plain.port())
            }
            (false, None) => Target::with_default_port(&format!("redis://{word}"), settings, default_port)?,
        };
        if seed.is_socket() {
            return Err(format!("{directive}: a node of a deployment has a host and a port, not a unix socket"));
        }
        if seed.database().is_some_and(|database| database != 0) {
            return Err(format!("{directive}: a deployment is served in database 0"));
        }
        if !seeds.iter().any(|other| other.address() == seed.address()) {
            seeds.push(seed);
        }
    }
    if seeds.is_empty() {
        return Err(format!("{directive}: there is no node"));
    }
    Ok(seeds)
}

/// The ways into a deployment, for clients.
pub(crate) enum Entrances {
    Cluster(Vec<SocketAddr>),
    /// The Sentinels, and the name of the master.
    Sentinels(Vec<SocketAddr>, String),
}

/// A deployment behind the front.
pub(in crate::server) struct DeploymentFront {
    deployment: Arc<Deployment>,
    data: Target,
    /// How Sentinels are reached.
    sentinel: Option<Target>,
    timeout: Duration,
    /// The host that clients are told instead of the one at which they have reached this server.
    announced: Option<String>,
    members: Mutex<Members>,
    ports: Mutex<PortPool>,
    /// For each connection to a node, by the node's number and this side's address, which can be the same for several nodes: the
    /// client's address, and that at which it has reached this server.
    connections: Mutex<HashMap<(u16, String), (String, String)>>,
    /// Somebody has seen what does not fit to what is known.
    doubt: Notify,
    /// The number of the last round of discovery that has ended.
    rounds: watch::Sender<u64>,
    /// Nobody tells who the nodes are.
    is_lost: AtomicBool,
    log: Arc<Log>,
    troubles: SparingLog,
    front: OnceLock<Weak<Node>>,
}

#[derive(Default)]
struct Members {
    list: Vec<Arc<Member>>,
    /// By each real address that was seen of it, the host in lower case.
    by_address: HashMap<(String, u16), Arc<Member>>,
    /// By its id in a Cluster, or that of a Sentinel.
    by_id: HashMap<String, Arc<Member>>,
}

impl DeploymentFront {
    /// Asks the seeds who is there, and listens for all of them. Nothing is accepted before [`open`](Self::open).
    pub async fn start(
        settings: DeploymentSettings,
        ports: PortPool,
        config: &Config,
        log: &Arc<Log>,
    ) -> Result<Arc<Self>, Error> {
        let (front, seeds) = Self::new(settings, ports, config, log);
        front.look(seeds).await?;
        Ok(front)
    }

    /// A front without members, and the seeds that are to be asked for them.
    fn new(settings: DeploymentSettings, ports: PortPool, config: &Config, log: &Arc<Log>) -> (Arc<Self>, Vec<Target>) {
        let DeploymentSettings { kind, seeds, data, timeout } = settings;
        let is_sentinel = kind != DeploymentKind::Cluster;
        let announced = Some(config.text("upstream-announce-host")).filter(|host| !host.is_empty());
        let front = Arc::new(Self {
            deployment: Arc::new(Deployment::new(kind)),
            data,
            sentinel: seeds.first().filter(|_| is_sentinel).cloned(),
            timeout,
            announced,
            members: Mutex::default(),
            ports: Mutex::new(ports),
            connections: Mutex::default(),
            doubt: Notify::new(),
            rounds: watch::Sender::new(0),
            is_lost: AtomicBool::new(false),
            log: Arc::clone(log),
            troubles: SparingLog::default(),
            front: OnceLock::new(),
        });
        (front, seeds)
    }

    /// Listens for the seeds, the first of which gets the first port.
    fn add_seeds(&self, seeds: Vec<Target>) -> Result<Vec<Arc<Member>>, Error> {
        let role = if self.is_cluster() { NodeRole::Unknown } else { NodeRole::Sentinel };
        let add = |seed: Target| {
            let mut members = self.members();
            let (host, port) = (seed.host().to_owned(), seed.port());
            // `localhost` and its address are one node.
            let address = host::resolve(&host).map(|address| address.to_string()).unwrap_or(host);
            if let Some(member) = members.at(&address, port) {
                return Ok(member);
            }
            let member = self.add(&mut members, seed, role)?;
            members.name(&address, port, &member);
            Ok(member)
        };
        seeds.into_iter().map(add).collect()
    }

    pub fn deployment(&self) -> &Arc<Deployment> {
        &self.deployment
    }

    /// Where a client finds data: the master behind Sentinels, or the first node.
    pub fn main_address(&self) -> Option<SocketAddr> {
        let mut masters = self.masters().into_iter().filter(|_| !self.is_cluster());
        let master = masters.find(|master| master.node.info().is_reachable);
        master.or_else(|| self.first())?.main_address()
    }

    /// The ways in for clients.
    pub fn entrances(&self) -> Entrances {
        let is_entrance = |member: &&Arc<Member>| member.is_sentinel() != self.is_cluster();
        let members = self.all();
        let reachable = members.iter().filter(is_entrance).filter_map(|member| member.main_address());
        match &self.deployment.kind {
            DeploymentKind::Cluster => Entrances::Cluster(reachable.collect()),
            DeploymentKind::Sentinel { service } => Entrances::Sentinels(reachable.collect(), service.clone()),
        }
    }

    /// Connects to any node and hangs up. The error is that of the first one.
    pub async fn reach(&self) -> io::Result<()> {
        let mut first = None;
        for member in self.all() {
            match member.target().connect().await {
                Ok(_) => return Ok(()),
                Err(error) => drop(first.get_or_insert(error)),
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// Whether nodes publish addresses: Sentinels, and through the nodes that they watch.
    pub fn has_sentinels(&self) -> bool {
        !self.is_cluster()
    }

    fn is_cluster(&self) -> bool {
        self.deployment.kind == DeploymentKind::Cluster
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock_ignoring_poison()
    }

    /// All members, by number.
    pub fn all(&self) -> Vec<Arc<Member>> {
        self.members().list.clone()
    }

    /// The member with this number.
    pub fn get(&self, number: u16) -> Option<Arc<Member>> {
        self.members().list.get(usize::from(number).checked_sub(1)?).cloned()
    }

    /// The member at the first port.
    pub fn first(&self) -> Option<Arc<Member>> {
        self.get(1)
    }

    /// The masters that serve slots, or the one of the service.
    pub fn masters(&self) -> Vec<Arc<Member>> {
        let mut members = self.all();
        members.retain(|member| {
            let info = member.node.info();
            info.role == NodeRole::Master && (!self.is_cluster() || !info.slots.is_empty())
        });
        members
    }

    /// Accepts connections for all members from now on, also for those that come.
    pub fn open(&self, node: &Arc<Node>) -> Result<(), Error> {
        let _ = self.front.set(Arc::downgrade(node));
        let members = self.all();
        members.iter().for_each(|member| self.announce(member));
        members.iter().try_for_each(|member| member.open(node))
    }

    /// Listens on the ports of all members again, and accepts connections.
    pub fn reopen(&self, node: &Arc<Node>) -> Result<(), Error> {
        self.all().iter().try_for_each(|member| member.reopen(node))
    }

    /// Accepts no connections any more.
    pub fn close(&self) {
        self.all().iter().for_each(|member| member.close());
    }

    pub fn release_ports(&self) {
        self.all().iter().for_each(|member| member.release_ports());
    }

    fn front(&self) -> Option<Arc<Node>> {
        self.front.get()?.upgrade()
    }

    /// Adds a node that was not known, and listens for it.
    fn add(&self, members: &mut Members, target: Target, role: NodeRole) -> Result<Arc<Member>, Error> {
        if members.list.len() >= MOST_NODES {
            return Err(Error::Config(format!("there are {MOST_NODES} nodes already")));
        }
        let bound = self.ports.lock_ignoring_poison().open(members.list.is_empty(), &self.log)?;
        let (host, port) = (target.host().to_owned(), target.port());
        let node = self.deployment.add(NodeInfo { address: target.address(), role, ..NodeInfo::default() });
        let is_sentinel = role == NodeRole::Sentinel;
        let member = Arc::new(Member::new(node, target, is_sentinel, bound));
        members.list.push(Arc::clone(&member));
        members.name(&host, port, &member);
        if let Some(front) = self.front() {
            member.open(&front)?;
            self.announce(&member);
        }
        Ok(member)
    }

    /// Says in the log where a node is reached.
    pub fn announce(&self, member: &Member) {
        let info = member.node.info();
        let role = if info.role == NodeRole::Unknown { String::new() } else { format!(" ({})", info.role) };
        if let Some(local) = member.main_address() {
            self.log.notice(format!("Node {}{role} is reached at {local}", info.address));
        }
    }

    /// The member at a real address, if there is one.
    fn member_at(&self, host: &str, port: u16) -> Option<Arc<Member>> {
        self.members().at(host, port)
    }

    /// The member at a real address that the deployment itself has named. One that was unknown gets a port now, so that the
    /// address need not leave.
    fn member_named(&self, host: &str, port: u16) -> Option<Arc<Member>> {
        let mut members = self.members();
        if let Some(member) = members.at(host, port) {
            return Some(member);
        }
        if members.list.iter().filter(|member| member.is_only_named()).count() >= MOST_NAMED {
            return None;
        }
        // Discovery tells what it is. Until then nobody there is told our password.
        let Ok(target) = self.data.at(host, port).with_login(b"", b"") else { return None };
        let added = self.add(&mut members, target, NodeRole::Unknown);
        drop(members);
        self.doubt();
        added.iter().for_each(|member| member.note_only_named());
        added.inspect_err(|error| self.log_no_port(host, port, error)).ok()
    }

    fn log_no_port(&self, host: &str, port: u16, error: &Error) {
        self.troubles.warn(&self.log, &format!("Upstream: the node {host}:{port} gets no port here: {error}"));
    }

    /// Asks the deployment soon who is there.
    pub fn doubt(&self) {
        self.doubt.notify_one();
    }

    /// Ready when the deployment has been asked anew who is there, or does not answer.
    pub async fn next_look(self: Arc<Self>) {
        let mut rounds = self.rounds.subscribe();
        // A round that runs now may have asked before.
        for _ in 0..2 {
            rounds.mark_unchanged();
            self.doubt();
            if Clock::within(self.timeout, rounds.changed()).await.is_none() {
                break;
            }
        }
    }

    /// Notes whose connection to a node it is that begins at this address.
    pub fn note_connection(&self, node: u16, shown: String, client: String, reached: String) {
        self.connections.lock_ignoring_poison().insert((node, shown), (client, reached));
    }

    pub fn forget_connection(&self, node: u16, shown: String) {
        self.connections.lock_ignoring_poison().remove(&(node, shown));
    }
}

impl Members {
    /// The member at an address, or at that of a name which this machine knows.
    fn at(&self, host: &str, port: u16) -> Option<Arc<Member>> {
        let member = |host: &str| self.by_address.get(&(host.to_ascii_lowercase(), port)).cloned();
        member(host).or_else(|| member(&host::resolve(host).ok()?.to_string()))
    }

    fn name(&mut self, host: &str, port: u16, member: &Arc<Member>) {
        self.by_address.insert((host.to_ascii_lowercase(), port), Arc::clone(member));
    }
}

#[cfg(test)]
mod tests;
