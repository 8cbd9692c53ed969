//! What a server knows about its clients: sessions, users, subscriptions, settings, statistics.
//!
//! Knows connections as state, not as sockets; runs no command.
//! May use: `base`, `protocol`, `spec`, `data`, `powers`, `insight`, `script`.
//! Begin with [`session`], the state of one connection, and [`instance`], what the connections of a server share.

pub mod acl;
pub mod call_stats;
pub mod config;
pub mod deployment;
pub mod fleet;
pub mod histogram;
pub mod identification;
pub mod instance;
pub mod latency;
pub mod pubsub;
pub mod rates;
pub mod sentinel;
pub mod session;
pub mod slow_log;
pub mod stats;
pub mod tracking;
