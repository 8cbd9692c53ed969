//! What a server and each of its spaces are to a test: data, and a clock that can be moved.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use percent_encoding::percent_encode;
use tokio::runtime::Handle;

use super::node::Node;
use crate::base::error::{CommandError, Error};
use crate::base::text::URI_ESCAPED;
use crate::clients::session::ControlJob;
use crate::engine::Engine;

/// What a URL leads to: data, and a clock of its own. A server is one, and so is each of its spaces.
pub struct World {
    pub(super) node: Arc<Node>,
    pub(super) engine: Arc<Engine>,
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

    pub(super) fn address(&self) -> Option<SocketAddr> {
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

    /// Moves the clock forward, by whole microseconds. On return the consequences are complete: expired keys are deleted,
    /// commands whose time-out is over are answered, and connections that are idle for too long are closed.
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
    /// gates, the clock. Blocked commands are answered as if their time-out were over, and clients stay connected.
    /// Complete on return.
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

fn percent_encoded(bytes: &[u8]) -> String {
    percent_encode(bytes, URI_ESCAPED).to_string()
}
