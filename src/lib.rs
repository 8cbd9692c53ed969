//! redouble, a Redis test double.

mod cli;
mod clock;
mod commands;
mod config;
mod control;
mod engine;
mod error;
mod files;
mod glob;
mod instance;
mod keyspace;
mod log;
mod profile;
mod resp;
mod server;
mod session;
mod spec;

pub use error::Error;
pub use profile::Profile;
pub use server::{Builder, Server};

/// What the program does; returns its exit status.
#[doc(hidden)]
pub fn run_main() -> std::process::ExitCode {
    cli::run()
}
