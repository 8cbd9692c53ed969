//! What the suites share: servers to talk to, and a connection that shows every byte.
//!
//! Nothing here sleeps. Whoever waits for a server waits for the line with which it says that it is ready, and whoever
//! waits for a reply reads; a read that takes longer than [`wire::PATIENCE`] fails the test instead of hanging it.

// Each suite is a program of its own and uses its own part of this.
#![allow(dead_code)]

pub mod driver;
pub mod process;
pub mod terminal;
pub mod transcript;
pub mod wire;

use std::net::SocketAddr;

use redouble::{Builder, Profile, Server};

/// The profile that the real server of these tests can vouch for.
pub const CHECKED_PROFILE: &str = "redis-7.0";

pub fn profile(name: &str) -> Profile {
    name.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// A server in this process, on a free port.
pub fn spawn() -> Server {
    start(Server::builder())
}

pub fn start(builder: Builder) -> Server {
    builder.port(0).spawn().unwrap_or_else(|error| panic!("the server does not start: {error}"))
}

/// A server in this process whose clock stands still.
pub fn spawn_frozen() -> Server {
    let server = spawn();
    server.freeze();
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

/// A small random number generator with a seed: what a test does by chance, it does again when it is run again.
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
