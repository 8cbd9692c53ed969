//! The handles of servers that run inside this process.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::runtime::Handle;

use super::builder::Builder;
use super::node::{Node, Nodes};
use crate::base::error::{CommandError, Error};
use crate::clients::fleet::LONGEST_NAME;
use crate::clients::instance::Instance;
use crate::clients::session::ControlJob;
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
/// What can be done with its data and its clock can also be done with each of its spaces: see [`World`].
pub struct Server {
    world: World,
    _process: Arc<Process>,
}

/// The threads of one server, or of several that share them. Dropping this ends them.
struct Process {
    instance: Arc<Instance>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.instance.shut_down();
        if let Some(thread) = self.thread.take() {
            // A server thread that panicked has stopped, which is all that is asked for here.
            let _ = thread.join();
        }
    }
}

impl Server {
    /// Begins to say what a server is to be like.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// What runs behind the address: the server itself, then its spaces.
    pub(crate) fn instances(&self) -> Vec<Arc<Instance>> {
        self.world.node.worlds().iter().map(|engine| Arc::clone(&engine.instance)).collect()
    }

    /// The first TCP address; none if the server only listens on a unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        self.world.address()
    }

    /// A world of its own on the same port: its own keys, clock, scripts, messages and users. It is made when it is first
    /// asked for, here or by a client; the handle's [`url`](World::url) leads there without any further command. It is
    /// there until [`drop_space`](Self::drop_space) or the end of the server, even if the handle is dropped.
    ///
    /// The name has 1 to 128 bytes. There can be 10,000 spaces.
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

    /// Forgets a space with all that is in it, and closes its connections. An error if there is none of this name.
    pub fn drop_space(&self, name: &str) -> Result<(), Error> {
        self.world.node.drop_space(name.as_bytes()).map_err(refused)
    }

    /// Refuses connections and closes those there are, in all spaces, as if the server had died. What it holds stays, and
    /// nobody else can have the port meanwhile. An error if it is stopped already.
    pub fn stop(&self) -> Result<(), Error> {
        self.world.node.stop(None).map_err(refused)
    }

    /// Serves again on the same port, with all that it held. An error if it is not stopped.
    pub fn start(&self) -> Result<(), Error> {
        self.world.node.start(false).map_err(refused)
    }

    /// Serves again on the same port, as a server that has lost its memory: without keys, scripts, functions or spaces.
    /// Its clock and its settings are as they were.
    pub fn start_empty(&self) -> Result<(), Error> {
        self.world.node.start(true).map_err(refused)
    }

    /// Accepts connections, but answers nothing, as a process that was stopped by a signal. REDOUBLE commands are
    /// answered all the same.
    ///
    /// An error if the server is stopped.
    pub fn pause(&self) -> Result<(), Error> {
        self.world.node.pause().map_err(refused)
    }

    /// Goes on with whatever was asked during a [`pause`](Self::pause). On return all of it was answered, or waits for
    /// something else.
    pub fn unpause(&self) {
        settle(&self.world.node.resume());
    }

    /// Leaves the commands of clients unanswered whose name, as CLIENT SETNAME gives it, is like this, now or later; they
    /// do not run, either. An error if they are cut off already.
    pub fn cut_off(&self, client: &str) -> Result<(), Error> {
        self.world.node.cut(client.as_bytes()).map_err(refused)
    }

    /// Ends what [`cut_off`](Self::cut_off) began: what hangs runs now. An error if clients of this name are not cut off.
    pub fn heal(&self, client: &str) -> Result<(), Error> {
        settle(&self.world.node.heal(Some(client.as_bytes())).map_err(refused)?);
        Ok(())
    }
}

/// Waits for whoever goes on.
fn settle(worlds: &[Arc<Engine>]) {
    worlds.iter().for_each(|engine| engine.run_control_job_here(ControlJob::Quiesce));
}

impl Deref for Server {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

/// Several servers that share threads and nothing else, in the order of their ports. Each is stopped when its handle and
/// those of all others are dropped.
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

    /// Where clients connect, server by server.
    pub fn urls(&self) -> Vec<String> {
        self.iter().map(|server| server.url()).collect()
    }

    /// Sets the clock of a server ahead of the first one's; it goes on running or standing as before. Complete on return.
    pub fn set_ahead(&self, index: usize, duration: Duration) -> Result<(), Error> {
        self.skew(index, i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))
    }

    /// Sets the clock of a server behind the first one's; it goes on running or standing as before. Complete on return.
    pub fn set_behind(&self, index: usize, duration: Duration) -> Result<(), Error> {
        self.skew(index, i64::try_from(duration.as_micros()).map_or(i64::MIN, |micros| -micros))
    }

    fn skew(&self, index: usize, micros: i64) -> Result<(), Error> {
        let missing = || Error::Refused(format!("there is no server {index}; there are {}", self.len()));
        let server = self.get(index).ok_or_else(missing)?;
        let nodes = server.world.node.nodes().map_err(refused)?;
        server.world.engine.run_control_job_here(nodes.skew(micros));
        Ok(())
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

/// A private world behind a server's port. See [`Server::space`]. Once the space is dropped, or its server, every use of
/// its handle panics and says so.
pub struct Space {
    world: World,
}

impl Space {
    /// Its name.
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

/// What clients find at the end of a URL: keys, and a clock of their own. A server is one, and so is each of its spaces.
pub struct World {
    node: Arc<Node>,
    engine: Arc<Engine>,
}

impl World {
    /// What runs this world's commands.
    pub(super) fn engine(&self) -> &Arc<Engine> {
        let name = || String::from_utf8_lossy(&self.engine.instance.space);
        let is_space = !self.engine.instance.space.is_empty();
        assert!(!is_space || self.node.nodes().is_ok(), "the server of the space '{}' has ended", name());
        assert!(!is_space || self.node.contains(&self.engine), "the space '{}' was dropped", name());
        &self.engine
    }

    /// What runs the commands of all worlds that are audited with this one.
    pub(super) fn audited_together(&self) -> Vec<Arc<Engine>> {
        let engine = self.engine();
        let nodes = self.node.nodes().ok().filter(|_| engine.instance.space.is_empty());
        nodes.map_or_else(
            || vec![Arc::clone(engine)],
            |nodes| nodes.all().iter().map(|node| Arc::clone(node.root())).collect(),
        )
    }

    /// The event loop that this world's port belongs to.
    pub(super) fn event_loop(&self) -> &Handle {
        self.node.event_loop()
    }

    fn address(&self) -> Option<SocketAddr> {
        self.node.addresses().first().copied()
    }

    /// Where clients connect: `redis://127.0.0.1:PORT`, with the password if there is one and with the user's name that
    /// leads to a space, or `unix:PATH`.
    pub fn url(&self) -> String {
        let space = &self.engine().instance.space;
        // The password is that of the server, with which one may enter every space.
        let password = self.node.instance().config.live().password().map(|password| percent_encoded(&password));
        let user = if space.is_empty() { String::new() } else { format!("space.{}", percent_encoded(space)) };
        let password = password.or_else(|| (!user.is_empty()).then(|| "any".to_owned()));
        match (self.address(), password) {
            (Some(address), None) => format!("redis://{address}"),
            (Some(address), Some(password)) => format!("redis://{user}:{password}@{address}"),
            (None, password) => {
                let path = self.node.instance().config.live().unix_socket().unwrap_or_default();
                let path = path.display();
                match password {
                    Some(password) if !user.is_empty() => format!("unix:{path}?user={user}&pass={password}"),
                    _ => format!("unix:{path}"),
                }
            }
        }
    }

    /// What its clock shows.
    pub fn now(&self) -> SystemTime {
        let micros = self.engine().instance.clock.micros();
        if micros >= 0 {
            UNIX_EPOCH + Duration::from_micros(micros.unsigned_abs())
        } else {
            UNIX_EPOCH - Duration::from_micros(micros.unsigned_abs())
        }
    }

    /// Stops its clock where it is.
    pub fn freeze(&self) {
        self.run(ControlJob::Freeze(None));
    }

    /// Lets the clock run as fast as the machine's, on from where it is.
    pub fn resume(&self) {
        self.run(ControlJob::Run(1.0));
    }

    /// Lets the clock run so many times as fast as the machine's, on from where it is; from 0.001 to 1,000,000, and what
    /// lies outside counts as the nearest of these.
    pub fn speed(&self, factor: f64) {
        let factor = if factor.is_nan() { 1.0 } else { factor };
        self.run(ControlJob::Run(factor.clamp(ControlJob::SLOWEST, ControlJob::FASTEST)));
    }

    /// Stops the clock, and lets it jump to the next deadline whenever every client waits. A client that has sent nothing
    /// for `idle` in real time is not waited for; with `None`, everybody who could send something is.
    pub fn auto_advance(&self, idle: Option<Duration>) {
        self.run(ControlJob::Auto(idle));
    }

    /// Moves the clock forward, by whole microseconds. On return everything that this sets off has happened: keys
    /// that are due are gone, whoever waited for a time that has come has the reply, and connections that are idle for
    /// too long are closed.
    pub fn advance(&self, duration: Duration) {
        self.run(ControlJob::Advance(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)));
    }

    /// Sets the clock, forwards or backwards; it goes on running or standing as before. What lies before 1970 counts as
    /// 1970. Complete on return, as [`advance`](Self::advance) is.
    pub fn set_time(&self, time: SystemTime) {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.run(ControlJob::SetClock(i64::try_from(since.as_micros()).unwrap_or(i64::MAX)));
    }

    /// Puts everything back to what it was when the server started: data, scripts, users, settings, counters, faults,
    /// gates, the clock. Whoever waits is answered as if the time were up, and clients stay connected. Complete on return.
    pub fn reset(&self) {
        self.run(ControlJob::Reset);
    }

    fn run(&self, job: ControlJob) {
        self.engine().run_control_job_here(job);
    }
}

pub(super) fn refused(error: CommandError) -> Error {
    let line = error.line();
    Error::Refused(String::from_utf8_lossy(line.strip_prefix(b"ERR ").unwrap_or(line)).into_owned())
}

/// Escapes what could end the password in a URL.
fn percent_encoded(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|&byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
