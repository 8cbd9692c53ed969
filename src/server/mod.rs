//! Sockets and threads around the engine, and the interface for tests in Rust.
//!
//! Knows listeners, connections, event loops, instances and spaces; runs no command itself.
//! May use: every floor below it.
//! Begin with [`Builder`], which starts servers, and `connection.rs`, which serves one client.

mod audit;
mod bind;
mod builder;
mod connection;
mod door;
mod explore;
mod handle;
mod journal;
mod listener;
mod load;
mod node;
mod orders;
mod powers;
mod stream;
mod timeout;
mod worker;

pub use audit::AuditGuard;
#[cfg(feature = "internals")]
pub use audit::{command_table, journal_of, now_of};
pub use builder::Builder;
pub(crate) use builder::Running;
pub use explore::Exploration;
pub use handle::{Server, Servers, Space, World};
pub use journal::JournalGuard;
pub use powers::{FaultGuard, GateGuard};
