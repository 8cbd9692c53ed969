//! Sockets and threads around the engine, and the Rust interface for tests.
//!
//! Knows listeners, connections, event loops, instances and spaces; runs no command itself.
//! May use: every floor below it.
//! Begin with [`Builder`], which starts servers, and `connection`, which serves one client.

mod audit;
mod bind;
mod bound_address;
mod bound_servers;
mod builder;
mod connection;
mod explore;
mod failover;
mod guards;
mod handle;
mod instance_control;
mod journal;
mod listener;
mod load;
mod node;
mod node_control;
mod nodes;
mod outgoing;
mod panics;
mod replicas;
mod sentinels;
mod stream;
mod timeout;
mod tls_stream;
mod turn;
mod upstream;
mod worker;
mod world;

pub use audit::AuditGuard;
#[cfg(feature = "internals")]
pub use audit::{command_table, journal_of, journal_since, live_findings, now_of};
pub(crate) use bound_servers::BoundServers;
pub use builder::Builder;
pub use explore::Exploration;
pub use guards::{FaultGuard, GateGuard};
pub use handle::{Server, Servers, Space};
pub use journal::JournalGuard;
pub use node_control::NodeStatus;
pub(crate) use upstream::Entrances;
pub use world::World;
