//! The handle of a server that runs inside this process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::builder::Builder;
use crate::engine::Engine;
use crate::error::Error;
use crate::instance::Instance;
use crate::spec::Errand;

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
pub struct Server {
    engine: Arc<Engine>,
    addresses: Vec<SocketAddr>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Server {
    /// Begins to say what a server is to be like.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(super) fn new(engine: Arc<Engine>, addresses: Vec<SocketAddr>, thread: JoinHandle<Result<(), Error>>) -> Self {
        Self { engine, addresses, thread: Some(thread) }
    }

    pub(crate) fn instance(&self) -> &Arc<Instance> {
        &self.engine.instance
    }

    /// The first TCP address; none if the server only listens on a unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        self.addresses.first().copied()
    }

    /// Where clients connect: `redis://127.0.0.1:PORT`, with the password if there is one, or `unix:PATH`.
    pub fn url(&self) -> String {
        let password = self.engine.instance.config.live().password();
        let password = password.map(|password| format!(":{}@", percent_encoded(&password))).unwrap_or_default();
        match self.address() {
            Some(address) => format!("redis://{password}{address}"),
            None => {
                let path = self.engine.instance.config.live().unix_socket();
                format!("unix:{}", path.unwrap_or_default().display())
            }
        }
    }

    /// What the server's clock shows.
    pub fn now(&self) -> SystemTime {
        let micros = self.engine.instance.clock.micros();
        if micros >= 0 {
            UNIX_EPOCH + Duration::from_micros(micros.unsigned_abs())
        } else {
            UNIX_EPOCH - Duration::from_micros(micros.unsigned_abs())
        }
    }

    /// Stops the server's clock where it is.
    pub fn freeze(&self) {
        self.engine.instance.clock.freeze();
    }

    /// Lets a frozen clock run on, from where it is.
    pub fn resume(&self) {
        self.engine.instance.clock.resume();
    }

    /// Moves the clock forward, by whole microseconds. On return everything that this sets off has happened: keys
    /// that are due are gone, whoever waited for a time that has come has the reply, and connections that are idle for
    /// too long count no longer.
    pub fn advance(&self, duration: Duration) {
        let duration = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        self.move_clock(self.engine.instance.clock.micros().saturating_add(duration));
    }

    /// Sets the clock, forwards or backwards; it goes on running or standing as before. What lies before 1970 counts as
    /// 1970. Complete on return, as [`advance`](Self::advance) is.
    pub fn set_time(&self, time: SystemTime) {
        let micros = match time.duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN + 1, |micros| -micros),
        };
        self.move_clock(micros);
    }

    fn move_clock(&self, to: i64) {
        self.engine.run_errand_here(Errand::MoveClock(to));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.engine.instance.shut_down();
        if let Some(thread) = self.thread.take() {
            // A server thread that panicked has stopped, which is all that is asked for here.
            let _ = thread.join();
        }
    }
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
