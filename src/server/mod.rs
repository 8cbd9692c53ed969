//! Sockets and threads around the engine.

mod bind;
mod builder;
mod connection;
mod handle;
mod listener;
mod load;
mod stream;
mod worker;

pub use builder::Builder;
pub(crate) use builder::Running;
pub use handle::Server;
