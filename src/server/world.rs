//! Worlds: a server or one of its spaces, as a test controls it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use percent_encoding::percent_encode;
use tokio::runtime::Handle;

use super::node::Node;
use crate::base::error::{CommandError, Error};
use crate::base::text::URI_ESCAPED;
use crate::clients::instance::LONGEST_MARK;
use crate::clients::session::ControlJob;
use crate::engine::Engine;

/// Data with a clock of its own, behind one URL. A server is a world, and so is each of its spaces.
pub struct World {
    pub(super) node: Arc<Node>,
    pub(super) engine: Arc<Engine>,
}

impl World {
    /// The engine of this world.
    pub(super) fn engine(&self) -> &Arc<Engine> {
        let name = || String::from_utf8_lossy(&self.engine.instance.space);
        let is_space = !self.engine.instance.space.is_empty();
        assert!(!is_space || self.node.nodes().is_ok(), "the server of the space '{}' has ended", name());
        assert!(!is_space || self.node.contains(&self.engine), "the space '{}' was dropped", name());
        &self.engine
    }

    /// The engines of all worlds that are audited with this one.
    pub(super) fn audited_together(&self) -> Vec<Arc<Engine>> {
        let engine = self.engine();
        let nodes = self.node.nodes().ok().filter(|_| engine.instance.space.is_empty());
        nodes.map_or_else(
            || vec![Arc::clone(engine)],
            |nodes| nodes.all().iter().map(|node| Arc::clone(node.root())).collect(),
        )
    }

    /// The event loop of this world's port.
    pub(super) fn event_loop(&self) -> &Handle {
        self.node.event_loop()
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self.node.deployment() {
            Some(front) => front.main_address(),
            None => self.node.main_address(),
        }
    }

    /// The URL for clients: `redis://127.0.0.1:PORT`, with the password if there is one and the user name that selects
    /// a space, or `unix:PATH`; `rediss://127.0.0.1:PORT` if only TLS is served.
    pub fn url(&self) -> String {
        let space = &self.engine().instance.space;
        // The server's password, which admits to every space.
        let password = self.node.instance().config.live().password().map(|password| percent_encoded(&password));
        let user = if space.is_empty() { String::new() } else { format!("space.{}", percent_encoded(space)) };
        let password = password.or_else(|| (!user.is_empty()).then(|| "any".to_owned()));
        let scheme = if self.node.addresses().is_empty() { "rediss" } else { "redis" };
        match (self.address(), password) {
            (Some(address), None) => format!("{scheme}://{address}"),
            (Some(address), Some(password)) => format!("{scheme}://{user}:{password}@{address}"),
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

    /// The time that the world's clock shows.
    pub fn now(&self) -> SystemTime {
        let micros = self.engine().instance.clock.micros();
        if micros >= 0 {
            UNIX_EPOCH + Duration::from_micros(micros.unsigned_abs())
        } else {
            UNIX_EPOCH - Duration::from_micros(micros.unsigned_abs())
        }
    }

    /// Freezes the clock at its present time.
    pub fn freeze(&self) {
        self.run(ControlJob::Freeze(None));
    }

    /// Lets the clock run at the machine's speed, from its present time.
    pub fn resume(&self) {
        self.run(ControlJob::Run(1.0));
    }

    /// Lets the clock run at a multiple of the machine's speed, from its present time. The factor is clamped to 0.001
    /// to 1,000,000.
    pub fn speed(&self, factor: f64) {
        let factor = if factor.is_nan() { 1.0 } else { factor };
        self.run(ControlJob::Run(factor.clamp(ControlJob::SLOWEST, ControlJob::FASTEST)));
    }

    /// Freezes the clock, and lets it jump to the next deadline whenever all clients are blocked. A client that has
    /// sent nothing for `idle` in real time counts as blocked; with `None`, no silent client does.
    pub fn auto_advance(&self, idle: Option<Duration>) {
        self.run(ControlJob::Auto(idle));
    }

    /// Moves the clock forward, in whole microseconds. On return the consequences are complete: expired keys are
    /// deleted, commands whose time-out has passed are answered, and connections that exceed the idle limit are closed.
    pub fn advance(&self, duration: Duration) {
        self.run(ControlJob::Advance(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)));
    }

    /// Sets the clock, forwards or backwards. It keeps running or stays frozen. Times before 1970 count as 1970. On
    /// return the consequences are complete, as for [`advance`](Self::advance).
    pub fn set_time(&self, time: SystemTime) {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.run(ControlJob::SetClock(i64::try_from(since.as_micros()).unwrap_or(i64::MAX)));
    }

    /// Resets the world to its state at the start: data, scripts, users, settings, counters, faults, gates, the clock.
    /// Blocked commands are answered as if they had timed out, and clients stay connected. On return the consequences
    /// are complete.
    pub fn reset(&self) {
        self.run(ControlJob::Reset);
    }

    /// Puts a text into the journal, such as the name of a test: findings say after which mark they came. The last mark
    /// survives [`reset`](Self::reset). Fails if the text is empty, or longer than 1024 bytes.
    ///
    /// ```
    /// # fn main() -> Result<(), redouble::Error> {
    /// let server = redouble::Server::builder().audit().spawn()?;
    /// server.reset();
    /// server.mark("orders::a_paid_order_is_shipped")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn mark(&self, text: impl AsRef<str>) -> Result<(), Error> {
        let text = text.as_ref().trim();
        if !(1..=LONGEST_MARK).contains(&text.len()) {
            return Err(Error::Refused(format!("a mark has 1 to {LONGEST_MARK} bytes, not {}", text.len())));
        }
        self.engine().instance.mark_journal(text);
        Ok(())
    }

    fn run(&self, job: ControlJob) {
        let engine = self.engine();
        if let Some(upstream) = &engine.instance.upstream {
            let deletes = job == ControlJob::Reset;
            assert!(deletes, "keys expire by the clock of the upstream server, which this server cannot move");
            assert!(
                upstream.is_disposable,
                "this deletes the data of the upstream server, which upstream_disposable allows"
            );
        }
        let failure = engine.run_control_job_here(job).err();
        let reason = failure.map(|error| String::from_utf8_lossy(error.line()).into_owned());
        assert!(reason.is_none(), "{}", reason.unwrap_or_default());
    }
}

pub(super) fn refused(error: CommandError) -> Error {
    let line = error.line();
    Error::Refused(String::from_utf8_lossy(line.strip_prefix(b"ERR ").unwrap_or(line)).into_owned())
}

fn percent_encoded(bytes: &[u8]) -> String {
    percent_encode(bytes, URI_ESCAPED).to_string()
}
