//! Sockets and threads around the engine.

mod builder;
mod connection;
mod handle;
mod listener;
mod stream;
mod worker;

pub use builder::Builder;
pub use handle::Server;
