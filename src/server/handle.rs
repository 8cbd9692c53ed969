//! The handle of a server that runs inside this process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::builder::Builder;
use crate::engine::Engine;
use crate::error::Error;
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
        self.run(Errand::Freeze(None));
    }

    /// Lets the clock run as fast as the machine's, on from where it is.
    pub fn resume(&self) {
        self.run(Errand::Run(1.0));
    }

    /// Lets the clock run so many times as fast as the machine's, on from where it is; from 0.001 to 1,000,000, and what
    /// lies outside counts as the nearest of these.
    pub fn speed(&self, factor: f64) {
        let factor = if factor.is_nan() { 1.0 } else { factor };
        self.run(Errand::Run(factor.clamp(Errand::SLOWEST, Errand::FASTEST)));
    }

    /// Stops the clock, and lets it jump to the next deadline whenever every client waits. A client that has sent nothing
    /// for `idle` in real time is not waited for; with `None`, everybody who could send something is.
    pub fn auto_advance(&self, idle: Option<Duration>) {
        self.run(Errand::Auto(idle));
    }

    /// Moves the clock forward, by whole microseconds. On return everything that this sets off has happened: keys
    /// that are due are gone, whoever waited for a time that has come has the reply, and connections that are idle for
    /// too long are closed.
    pub fn advance(&self, duration: Duration) {
        self.run(Errand::Advance(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)));
    }

    /// Sets the clock, forwards or backwards; it goes on running or standing as before. What lies before 1970 counts as
    /// 1970. Complete on return, as [`advance`](Self::advance) is.
    pub fn set_time(&self, time: SystemTime) {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.run(Errand::SetClock(i64::try_from(since.as_micros()).unwrap_or(i64::MAX)));
    }

    /// Puts everything back to what it was when the server started: data, scripts, users, settings, counters, faults,
    /// gates, the clock. Whoever waits is answered as if the time were up, and clients stay connected. Complete on return.
    pub fn reset(&self) {
        self.run(Errand::Reset);
    }

    fn run(&self, errand: Errand) {
        self.engine.run_errand_here(errand);
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
