//! What several test binaries share: servers, connections, random numbers, and waiting with a deadline.
//!
//! Every `main.rs` declares this module once. What only one binary uses belongs into the folder of that binary.
//!
//! Nothing here sleeps. A test waits by reading from a socket or a pipe, which has a time-out ([`wire::PATIENCE`]), by one
//! of the server's own events (`REDOUBLE … AWAIT`), or, where there is no such event, by polling with [`wait_until`].

// No binary uses all of it.
#![allow(dead_code)]

pub mod both_backends;
pub mod certificates;
pub mod deployments;
pub mod no_harness;
pub mod process;
pub mod scripted;
pub mod upstream;
pub mod wire;

use std::cell::RefCell;
use std::fmt::{Debug, Display};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use redouble::{Builder, Profile, Server};

/// The profile of the real server that the tests run.
pub const CHECKED_PROFILE: &str = "redis-7.0";

pub fn profile(name: &str) -> Profile {
    name.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// A server in this process, on a free port.
pub fn spawn() -> Server {
    start(Server::builder())
}

/// With `REDOUBLE_TESTS_UPSTREAM=1` it is in front of a redis-server of its own.
pub fn start(builder: Builder) -> Server {
    let builder = if is_upstream() { in_front_of_redis(builder) } else { builder };
    builder.port(0).spawn().unwrap_or_else(|error| panic!("the server does not start: {error}"))
}

/// Whether the servers of the tests are in front of a redis-server, and not the embedded one.
pub fn is_upstream() -> bool {
    std::env::var_os("REDOUBLE_TESTS_UPSTREAM").is_some_and(|value| value == "1")
}

thread_local! {
    /// The servers behind those that this thread has started. They end with the test.
    static BEHIND: RefCell<Vec<process::ServerProcess>> = const { RefCell::new(Vec::new()) };
}

/// Where the servers are that are behind those which this thread has started, in the order of their start.
pub fn behind() -> Vec<SocketAddr> {
    BEHIND.with_borrow(|behind| behind.iter().map(process::ServerProcess::address).collect())
}

fn in_front_of_redis(builder: Builder) -> Builder {
    let redis = process::ServerProcess::redis(&["--save", ""]);
    let builder = builder.upstream(redis.url()).upstream_disposable();
    BEHIND.with_borrow_mut(|behind| behind.push(redis));
    builder
}

/// A server in this process whose clock stands still. That of a real server behind it cannot.
pub fn spawn_frozen() -> Server {
    let server = spawn();
    if !is_upstream() {
        server.freeze();
    }
    server
}

pub fn address(server: &Server) -> SocketAddr {
    server.address().expect("the server listens on TCP")
}

/// A connection of the `redis` crate.
pub fn client(server: &Server) -> redis::Connection {
    client_at(&server.url())
}

pub fn client_at(url: &str) -> redis::Connection {
    let client = redis::Client::open(url).unwrap_or_else(|error| panic!("{url}: {error}"));
    let connection = client.get_connection().unwrap_or_else(|error| panic!("cannot connect to {url}: {error}"));
    connection.set_read_timeout(Some(wire::PATIENCE)).expect("a socket takes a time-out");
    connection
}

/// A point in real time at which a test gives up. Loops that wait for another thread or process check it on each turn.
pub struct Deadline {
    at: Instant,
    after: Duration,
}

#[allow(clippy::disallowed_methods, reason = "a test that waits needs a bound in real time")]
impl Deadline {
    pub fn start() -> Self {
        Self::within(Duration::from_secs(30))
    }

    /// For what takes longer than most.
    pub fn within(after: Duration) -> Self {
        Self { at: Instant::now() + after, after }
    }

    /// Yields to other threads. After the deadline, panics with a description of what was awaited.
    #[track_caller]
    pub fn check(&self, awaited: impl Display) {
        assert!(Instant::now() < self.at, "waited {:?} for {awaited}", self.after);
        std::thread::yield_now();
    }
}

/// Polls until there is a value. After the [`Deadline`], panics with what was awaited and the last error.
#[track_caller]
pub fn wait_for<T, E: Debug>(awaited: impl Display, mut poll: impl FnMut() -> Result<T, E>) -> T {
    let deadline = Deadline::start();
    loop {
        match poll() {
            Ok(answer) => return answer,
            Err(seen) => deadline.check(format_args!("{awaited}; seen last: {seen:?}")),
        }
    }
}

/// Polls until a condition holds. After the [`Deadline`], panics with what was awaited.
#[track_caller]
pub fn wait_until(awaited: impl Display, mut holds: impl FnMut() -> bool) {
    let deadline = Deadline::start();
    while !holds() {
        deadline.check(&awaited);
    }
}

/// A small random number generator. The same seed gives the same numbers on every run.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        ((self.next() >> 33) as usize) % bound
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| (self.next() >> 40) as u8).collect()
    }
}
