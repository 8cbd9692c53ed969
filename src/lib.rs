//! redouble, a Redis test double.
//!
//! [`Server`] is a server that runs inside this process, on a port of its own, with a clock that can be stopped and
//! moved. Any Redis client can connect to it; what it answers is what Redis answers. The binary of the same name is the
//! same server as a drop-in for `redis-server`.

#![deny(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::todo, clippy::dbg_macro)]
#![cfg_attr(not(feature = "internals"), warn(missing_docs))]

mod acl;
mod audit;
mod cli;
mod clock;
mod commands;
mod config;
mod control;
mod duration;
mod engine;
mod error;
mod files;
mod fleet;
mod geo;
mod glob;
mod hyperloglog;
mod identity;
mod instance;
mod keyspace;
mod listpack;
mod log;
mod profile;
mod pubsub;
mod rdb;
mod report;
mod resp;
mod script;
mod seed;
mod server;
mod session;
mod spec;
mod stats;
mod tracking;

/// For this repository's own tests and benchmarks; not an interface, and gone without notice.
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals {
    pub use crate::audit::{
        Allowance, Auditor, End, Hold, Lock, Past, Place, Reason, Scope, Standing, Told, Waiter, Who, audit, auditor,
        tell,
    };
    pub use crate::clock::Clock;
    pub use crate::commands::all as all_commands;
    pub use crate::control::{Event, EventKind, Item, read_journal};
    pub use crate::engine::{Engine, Fibers};
    pub use crate::instance::Instance;
    pub use crate::keyspace::{Expiry, Keyspace, hash_of};
    pub use crate::report::{html as report_html, text as report_text};
    pub use crate::resp::{Framed, Framer, Limits, ProtocolError};
    pub use crate::server::{journal_of, naming, now_of};
    pub use crate::session::{Client, Peer, Session};
    pub use crate::spec::{Table, markdown};
}

pub use audit::{
    Code, EndedHold, Evidence, Finding, KnownLock, LockHolder, LockWaiter, Mark, Mistakes, Severity, story_of,
};
pub use control::{Child, Entry, Fault, Findings, Outcome, Pattern, Query, Search, Verdict, Who};
pub use error::Error;
pub use profile::Profile;
pub use server::{
    AuditGuard, Builder, Exploration, FaultGuard, GateGuard, JournalGuard, Server, Servers, Space, World,
};

/// What the program does; returns its exit status.
#[doc(hidden)]
pub fn run_main() -> std::process::ExitCode {
    cli::run()
}
