//! Where a story is played: in front of the real server, and with redouble in between.

use std::net::SocketAddr;

use crate::support::process::ServerProcess;
use crate::support::upstream::Front;
use crate::support::wire::Wire;

/// A fresh redis-server, and perhaps redouble in front of it.
pub struct Place {
    pub redis: ServerProcess,
    pub front: Option<Front>,
}

impl Place {
    /// Clients are connected to the server.
    pub fn direct(directives: &[&str]) -> Self {
        Self { redis: ServerProcess::redis(&[&["--save", ""], directives].concat()), front: None }
    }

    /// Clients are connected to redouble.
    pub fn through(directives: &[&str]) -> Self {
        let place = Self::direct(directives);
        let front = Front::of(&place.redis.url());
        Self { front: Some(front), ..place }
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.front.as_ref().map_or_else(|| self.redis.address(), Front::address)
    }

    /// A new client.
    pub fn client(&self) -> Wire {
        Wire::connect(self.address())
    }

    /// A connection to the server itself, which shows what has arrived there.
    pub fn server(&self) -> Wire {
        Wire::connect(self.redis.address())
    }
}

/// Plays a story directly and through redouble. Both must answer the same.
#[track_caller]
pub fn both_ways<T: PartialEq + std::fmt::Debug>(story: impl Fn(&Place) -> T) -> T {
    both_ways_with(&[], story)
}

/// The same with directives for the servers.
#[track_caller]
pub fn both_ways_with<T: PartialEq + std::fmt::Debug>(directives: &[&str], story: impl Fn(&Place) -> T) -> T {
    let direct = story(&Place::direct(directives));
    let through = story(&Place::through(directives));
    assert_eq!(through, direct, "through redouble, and then as it is without");
    through
}
