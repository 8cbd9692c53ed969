//! redouble, a Redis test double.

mod clock;
mod commands;
mod config;
mod control;
mod engine;
mod error;
mod glob;
mod instance;
mod keyspace;
mod profile;
mod rdb;
mod resp;
mod server;
mod session;
mod spec;

pub use error::Error;
pub use profile::Profile;
pub use server::{Builder, Server};

pub fn run_main() {
    let port = std::env::args().nth(2).and_then(|p| p.parse().ok()).unwrap_or(6379);
    let threads = std::env::args().nth(3).and_then(|p| p.parse().ok()).unwrap_or(1);
    Server::builder().port(port).threads(threads).start().unwrap().serve();
}
