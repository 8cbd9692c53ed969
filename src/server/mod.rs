//! Sockets and threads around the engine.

mod builder;
mod connection;
mod listener;
mod stream;
mod worker;

pub use builder::{Builder, Server};
