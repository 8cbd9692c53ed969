//! The processes of this machine: which of them has the other end of a connection, and what it runs.
//!
//! Linux says so in /proc, of the processes that this one may look into. Elsewhere nothing is known.

#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "no system but Linux tells command lines"))]
mod command_line;
#[cfg(target_os = "linux")]
mod search;
#[cfg(target_os = "linux")]
mod socket;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// By how many microseconds the start of one process may be told differently: what writes journals knows it to within a
/// hundredth of a second, and computes it with a clock that may have been set since.
const SAME_START: u64 = 2_000_000;

/// By how many microseconds the start of a process may lie behind what is told.
const LATE_START: i64 = 20_000;

/// A process that is connected to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it started, in microseconds since 1970, rounded down to a hundredth of a second; 0 if that is unknown.
    pub started: i64,
    /// The process that it is a child of; 0 if that is unknown.
    pub parent: u32,
    /// Its command line, shortened and without secrets. Empty if it is the process that the server is in.
    pub program: Arc<str>,
}

/// Where to look for processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchScope {
    /// Only those that come from this one, this one, and those of its process group.
    Children,
    /// All that this one may look into.
    Machine,
}

/// The other end of a connection.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "no system but Linux tells whose it is"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A TCP connection from `client` to `server`.
    Tcp { client: SocketAddr, server: SocketAddr },
    /// The process that connected to a unix socket.
    Pid(u32),
}

impl Process {
    /// Whether both are one process: a number is given again once its process has ended.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.pid == other.pid && self.started.abs_diff(other.started) <= SAME_START
    }

    /// The same process without the arguments of its program, which can be data.
    pub(crate) fn without_arguments(&self) -> Self {
        Self { program: command_line::without_arguments(&self.program).into(), ..self.clone() }
    }

    /// Whether it had certainly started at a time, in microseconds since 1970.
    pub(crate) fn had_started(&self, at: i64) -> bool {
        self.started.saturating_add(LATE_START) < at
    }

    /// The process in a sentence: `python worker.py (pid 4711)`; nothing if it is the server's own.
    pub(crate) fn display_name(&self) -> Option<String> {
        (!self.program.is_empty()).then(|| format!("{} (pid {})", self.program, self.pid))
    }
}

impl Endpoint {
    /// The other end of a TCP connection, if it is on this machine: over the loopback interface, or from one of the
    /// machine's addresses to itself.
    pub fn tcp(client: SocketAddr, server: SocketAddr) -> Option<Self> {
        let [client, server] =
            [client, server].map(|address| SocketAddr::new(address.ip().to_canonical(), address.port()));
        let is_here = client.ip().is_loopback() || client.ip() == server.ip();
        let is_pair =
            matches!((client.ip(), server.ip()), (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)));
        (is_here && is_pair).then_some(Self::Tcp { client, server })
    }
}

#[cfg(target_os = "linux")]
pub use search::ProcessSearch;

/// Where no system says which process has a connection.
#[cfg(not(target_os = "linux"))]
pub struct ProcessSearch;

#[cfg(not(target_os = "linux"))]
impl ProcessSearch {
    pub fn new() -> Option<Self> {
        None
    }

    pub fn find(&mut self, _: Endpoint, _: SearchScope) -> Option<Arc<Process>> {
        None
    }

    pub fn find_known(&mut self, _: Endpoint, _: SearchScope) -> Option<Arc<Process>> {
        None
    }
}
