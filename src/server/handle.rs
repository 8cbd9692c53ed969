//! Handles of servers that run in this process.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::builder::Builder;
use super::failover::NOBODY;
use super::node::Node;
use super::nodes::Nodes;
use super::timeout::{USUAL_TIMEOUT, with_runtime_hint};
use super::upstream::{Entrances, Member};
use super::world::{World, refused};
use crate::base::clock::{Millis, block_on_timeout};
use crate::base::error::Error;
use crate::clients::fleet::{CLOSED, FailoverOrder, Fleet, LONGEST_NAME, LinkOrder, Losing};
use crate::clients::instance::Instance;
use crate::clients::sentinel::SERVICE;
use crate::engine::Engine;

/// A running server. Dropping it stops the server and frees its port.
///
/// ```
/// # fn main() -> Result<(), redouble::Error> {
/// let server = redouble::Server::builder().port(0).spawn()?;
/// println!("redis-cli -u {}", server.url());
/// server.freeze();
/// server.advance(std::time::Duration::from_secs(30));
/// # Ok(())
/// # }
/// ```
///
/// Data and clock can be controlled for the server as for each of its spaces: see [`World`].
#[must_use = "the server stops when this is dropped"]
pub struct Server {
    world: World,
    _process: Arc<Process>,
}

/// The threads of one server, or of several that share them. Dropping it ends the threads.
struct Process {
    instance: Arc<Instance>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.instance.shut_down();
        if let Some(thread) = self.thread.take() {
            // The thread of a server that panicked has ended, too.
            let _ = thread.join();
            self.instance.save_when_dropped();
        }
    }
}

impl Server {
    /// The settings of a new server.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The instances behind the address: the root, then the spaces.
    pub(crate) fn instances(&self) -> Vec<Arc<Instance>> {
        self.world.node.worlds().iter().map(|engine| Arc::clone(&engine.instance)).collect()
    }

    /// The first TCP address; `None` if the server listens only on a unix socket. One for TLS if there is no other.
    pub fn address(&self) -> Option<SocketAddr> {
        self.world.address()
    }

    /// The first address for TLS, if there is one. See [`Builder::tls_self_signed`].
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.world.node.tls_addresses().first().copied()
    }

    /// Connects to the upstream server, if there is one, and hangs up. The error names the server and says what is wrong.
    pub(crate) async fn reach_upstream(&self) -> std::io::Result<()> {
        match (self.world.node.upstream(), self.world.node.deployment()) {
            (Some(target), _) => target.connect().await.map(drop),
            (None, Some(front)) => front.reach().await,
            (None, None) => Ok(()),
        }
    }

    /// The ports of the instance, or of the nodes behind it: those for TLS with `tls`, else the plain ones, or those for TLS
    /// where there are no others. 0 for none.
    pub(crate) fn ports(&self, tls: bool) -> Vec<u16> {
        let port = |address: Option<SocketAddr>| address.map_or(0, |address| address.port());
        match self.world.node.deployment() {
            None if tls => vec![port(self.tls_address())],
            None => vec![port(self.address())],
            Some(front) => {
                let of = |member: &Arc<Member>| match tls {
                    true => port(member.tls_addresses().first().copied()),
                    false => port(member.main_address()),
                };
                front.all().iter().map(of).collect()
            }
        }
    }

    /// Where clients find the deployment behind the server, if there is one.
    pub(crate) fn entrances(&self) -> Option<Entrances> {
        if let Some(front) = self.world.node.deployment() {
            return Some(front.entrances());
        }
        let sentinels = self.sentinels();
        (!sentinels.is_empty()).then(|| Entrances::Sentinels(sentinels, SERVICE.to_owned()))
    }

    /// Where the Sentinels of the process listen; empty without [`Builder::sentinels`].
    ///
    /// ```
    /// # fn main() -> Result<(), redouble::Error> {
    /// let server = redouble::Server::builder().sentinels(3).spawn()?;
    /// println!("{:?} know where mymaster is", server.sentinels());
    /// # Ok(())
    /// # }
    /// ```
    pub fn sentinels(&self) -> Vec<SocketAddr> {
        let nodes = self.world.node.nodes();
        nodes.iter().filter_map(|nodes| nodes.sentinels()).flat_map(|sentinels| sentinels.addresses()).collect()
    }

    /// A space: an isolated world on the same port, with its own keys, clock, scripts, messages and users. It is
    /// created on first use, here or by a client. A client enters it through the handle's [`url`](World::url), without
    /// any further command. It exists until [`drop_space`](Self::drop_space) or the end of the server, even if the
    /// handle is dropped.
    ///
    /// A name has 1 to 128 bytes. A server can have 10,000 spaces.
    ///
    /// ```
    /// # fn main() -> Result<(), redouble::Error> {
    /// let server = redouble::Server::builder().spawn()?;
    /// let (one, other) = (server.space("worker-1")?, server.space("worker-2")?);
    /// one.freeze();
    /// println!("{} and {}", one.url(), other.url());
    /// # Ok(())
    /// # }
    /// ```
    pub fn space(&self, name: &str) -> Result<Space, Error> {
        if name.is_empty() || name.len() > LONGEST_NAME {
            let length = name.len();
            return Err(Error::Refused(format!("the name of a space has 1 to {LONGEST_NAME} bytes, not {length}")));
        }
        let node = Arc::clone(&self.world.node);
        let engine = node.world(name.as_bytes()).map_err(refused)?;
        Ok(Space { world: World { node, engine } })
    }

    /// Deletes a space with its data, and closes its connections. Fails if there is no space of this name.
    pub fn drop_space(&self, name: &str) -> Result<(), Error> {
        self.world.node.drop_space(name.as_bytes()).map_err(refused)
    }

    /// The replicas that were started with this server ([`Builder::replicas`]), in the order of their ports.
    pub fn replicas(&self) -> Vec<Self> {
        let (number, nodes) = (self.world.node.number(), self.world.node.nodes());
        let is_own = |node: &&Arc<Node>| node.part().is_first_replica() && node.part().origin(0) == number;
        let handle = |node: &Arc<Node>| self.beside(node);
        nodes.iter().flat_map(|nodes| nodes.all()).filter(is_own).map(handle).collect()
    }

    /// Whether it was started as a replica of another one.
    pub(crate) fn is_first_replica(&self) -> bool {
        self.world.node.part().is_first_replica()
    }

    /// A handle of another instance of the process.
    fn beside(&self, node: &Arc<Node>) -> Self {
        let world = World { node: Arc::clone(node), engine: Arc::clone(node.root()) };
        Self { world, _process: Arc::clone(&self._process) }
    }

    /// Holds back everything that this server sends to its replicas, until [`heal_links`](Self::heal_links), or for good, if
    /// one of them takes its place before.
    pub fn hold_links(&self) -> Result<(), Error> {
        self.order_links(LinkOrder::Hold).map(drop)
    }

    /// Waits until a link that is held or late holds so many changes, for 10 seconds of real time at most. Returns how many it
    /// holds.
    ///
    /// This blocks the thread. An async test sends `REDOUBLE LINK 1 WAIT 1` instead.
    pub fn wait_for_held_changes(&self, changes: usize) -> Result<usize, Error> {
        let node = &self.world.node;
        let watch = node.watch_link(node.number(), None, changes).map_err(refused)?;
        block_on_timeout(watch, USUAL_TIMEOUT).ok_or_else(|| {
            with_runtime_hint(Error::Refused(format!(
                "the links hold fewer changes than {changes} after {USUAL_TIMEOUT:?}"
            )))
        })
    }

    /// Lets so many changes go that held links hold. Returns how many these were.
    pub fn step_links(&self, changes: u64) -> Result<u64, Error> {
        self.order_links(LinkOrder::Step(changes))
    }

    /// Lets replicas get everything so much later, by the clock of this server.
    pub fn delay_links(&self, by: Duration) -> Result<(), Error> {
        self.order_links(LinkOrder::Lag(Millis::try_from(by.as_millis()).unwrap_or(Millis::MAX))).map(drop)
    }

    /// Cuts the replicas off. A server that is replaced while it is cut off still serves those who reach it.
    pub fn cut_links(&self) -> Result<(), Error> {
        self.order_links(LinkOrder::Cut).map(drop)
    }

    /// Lets go what held links hold, and connects replicas again that were cut off. If another server has taken its place
    /// meanwhile, this one follows it, and what only this one has is lost.
    pub fn heal_links(&self) -> Result<(), Error> {
        self.order_links(LinkOrder::Heal).map(drop)
    }

    fn order_links(&self, order: LinkOrder) -> Result<u64, Error> {
        let done = self.world.node.order_link(self.world.node.number(), order, None).map_err(refused)?;
        self.world.node.bring_replicas_up_to_date();
        Ok(done)
    }

    /// Makes the replica the master in place of this server that has most of its changes. What links hold is lost. Returns
    /// the new master, once the other replicas and this server follow it.
    pub fn fail_over(&self) -> Result<Self, Error> {
        self.replace(FailoverOrder::default())
    }

    /// Like [`fail_over`](Self::fail_over), to this replica.
    pub fn fail_over_to(&self, replica: &Self) -> Result<Self, Error> {
        self.replace(FailoverOrder { to: Some(replica.world.node.number()), ..FailoverOrder::default() })
    }

    /// Like [`fail_over`](Self::fail_over); the new master does not have the last so many changes, although it got them.
    pub fn fail_over_losing(&self, changes: u64) -> Result<Self, Error> {
        self.replace(FailoverOrder { losing: Losing::Last(changes), ..FailoverOrder::default() })
    }

    fn replace(&self, order: FailoverOrder) -> Result<Self, Error> {
        let nodes = self.world.node.nodes().map_err(refused)?;
        let (done, changed) = nodes.fail_over(self.world.node.number(), order, NOBODY).map_err(refused)?;
        nodes.tell_sentinels();
        settle(&changed);
        let node = nodes.get(done.number).ok_or_else(|| refused(CLOSED))?;
        Ok(self.beside(node))
    }

    /// Refuses connections and closes the existing ones, in all spaces, as if the server had crashed. The data stays,
    /// and the port remains reserved. Fails if the server is stopped already.
    pub fn stop(&self) -> Result<(), Error> {
        self.world.node.stop(None).map_err(refused)
    }

    /// Serves again on the same port, with the same data. Fails if the server is not stopped.
    pub fn start(&self) -> Result<(), Error> {
        self.world.node.start(false).map_err(refused)
    }

    /// Serves again on the same port, like a server that lost its memory: without keys, scripts, functions and spaces.
    /// The clock and the settings are kept.
    pub fn start_empty(&self) -> Result<(), Error> {
        self.world.node.start(true).map_err(refused)
    }

    /// Accepts connections but does not reply, like a process stopped by a signal. Only REDOUBLE commands are answered.
    ///
    /// Fails if the server is stopped.
    pub fn pause(&self) -> Result<(), Error> {
        self.world.node.pause().map_err(refused)
    }

    /// Ends a [`pause`](Self::pause). On return the requests that arrived during it are answered, or blocked for
    /// another reason.
    pub fn unpause(&self) {
        settle(&self.world.node.resume());
    }

    /// Holds the commands of clients whose name (CLIENT SETNAME) matches this glob, now or later: they neither run nor
    /// are answered. Fails if this glob is cut off already.
    pub fn cut_off(&self, client: &str) -> Result<(), Error> {
        self.world.node.cut(client.as_bytes()).map_err(refused)
    }

    /// Ends a [`cut_off`](Self::cut_off): the held commands run now. Fails if there is no cut of this name.
    pub fn heal(&self, client: &str) -> Result<(), Error> {
        settle(&self.world.node.heal(Some(client.as_bytes())).map_err(refused)?);
        Ok(())
    }
}

/// Waits until the released commands have ended or are blocked again.
fn settle(worlds: &[Arc<Engine>]) {
    worlds.iter().for_each(|engine| engine.settle_here());
}

impl Deref for Server {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

/// Several servers that share only their threads, in the order of their ports. A server stops once its handle and those
/// of all others are dropped.
#[must_use = "the servers stop when this is dropped"]
pub struct Servers(Vec<Server>);

impl Servers {
    pub(super) fn new(nodes: Arc<Nodes>, thread: JoinHandle<Result<(), Error>>) -> Self {
        let process = nodes
            .first()
            .map(|first| Arc::new(Process { instance: Arc::clone(first.instance()), thread: Some(thread) }));
        let handle = |(node, process): (&Arc<Node>, &Arc<Process>)| Server {
            world: World { node: Arc::clone(node), engine: Arc::clone(node.root()) },
            _process: Arc::clone(process),
        };
        Self(nodes.all().iter().zip(process.iter().cycle()).map(handle).collect())
    }

    /// The URL of each server.
    pub fn urls(&self) -> Vec<String> {
        self.iter().map(|server| server.url()).collect()
    }

    /// Sets the clock of a server ahead of the first server's. It keeps running or stays frozen. On return all
    /// consequences have happened.
    pub fn set_ahead(&self, index: usize, duration: Duration) -> Result<(), Error> {
        self.skew(index, i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))
    }

    /// Sets the clock of a server behind the first server's. It keeps running or stays frozen. On return all
    /// consequences have happened.
    pub fn set_behind(&self, index: usize, duration: Duration) -> Result<(), Error> {
        self.skew(index, i64::try_from(duration.as_micros()).map_or(i64::MIN, |micros| -micros))
    }

    fn skew(&self, index: usize, micros: i64) -> Result<(), Error> {
        let missing = || Error::Refused(format!("there is no server {index}; there are {}", self.len()));
        let server = self.get(index).ok_or_else(missing)?;
        let nodes = server.world.node.nodes().map_err(refused)?;
        server.world.engine.run_control_job_here(nodes.skew(micros)).map_err(refused)
    }
}

impl Deref for Servers {
    type Target = [Server];

    fn deref(&self) -> &[Server] {
        &self.0
    }
}

impl IntoIterator for Servers {
    type Item = Server;
    type IntoIter = std::vec::IntoIter<Server>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// An isolated world behind a server's port. See [`Server::space`]. Once the space is dropped, or its server, every use
/// of the handle panics.
#[must_use = "the space stays until drop_space; this handle is the way to its URL and its clock"]
pub struct Space {
    world: World,
}

impl Space {
    /// The name of the space.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(&self.world.engine.instance.space).into_owned()
    }
}

impl Deref for Space {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}
