//! What a server knows about its clients: sessions, users, subscriptions, settings, statistics.
//!
//! Knows connections as state, not as sockets; runs no command.
//! May use: `base`, `protocol`, `spec`, `data`, `powers`, `insight`, `script`.
//! Begin with [`session`], the state of one connection, and [`instance`], what the connections of a server share.

pub mod acl;
pub mod config;
pub mod fleet;
pub mod instance;
pub mod pubsub;
pub mod session;
pub mod stats;
pub mod tracking;
