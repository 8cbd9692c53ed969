//! redouble, a Redis test double.
//!
//! [`Server`] is a server that runs inside this process, on a port of its own, with a clock that can be stopped and
//! moved. Any Redis client can connect to it; what it answers is what Redis answers. The binary of the same name is the
//! same server as a drop-in for `redis-server`.

#![deny(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::todo, clippy::dbg_macro)]
#![cfg_attr(not(feature = "internals"), warn(missing_docs))]

mod base;
mod cli;
mod clients;
mod commands;
mod data;
mod engine;
mod insight;
mod powers;
mod protocol;
mod script;
mod server;
mod spec;

/// For this repository's own tests and benchmarks; not an interface, and gone without notice.
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals {
    pub use crate::base::clock::Clock;
    pub use crate::clients::instance::Instance;
    pub use crate::clients::session::{Client, Peer, Session};
    pub use crate::commands::all_rows as all_commands;
    pub use crate::data::keyspace::{Expiry, Keyspace, hash_of};
    pub use crate::engine::{Engine, Fibers};
    pub use crate::insight::audit::{
        Allowance, Auditor, ClientIdentity, Hold, HoldEnd, HoldStatus, JournalLine, Lock, LockId, LockReason, PastHold,
        Scope, Waiter, audit, auditor, render,
    };
    pub use crate::insight::report::{html as report_html, text as report_text};
    pub use crate::powers::{Event, EventKind, Item, read_journal};
    pub use crate::protocol::{Framed, Framer, Limits, ProtocolError};
    pub use crate::server::{command_table, journal_of, now_of};
    pub use crate::spec::{Secrets, Table, markdown};
}

pub use base::error::Error;
pub use base::profile::Profile;
pub use insight::audit::{
    AuditFailure, Code, EndedHold, Evidence, Finding, JournalRef, KnownLock, LockHolder, LockWaiter, Severity,
    describe_findings,
};
pub use powers::{Child, ClientSelector, Entry, ExplorationSummary, Fault, Outcome, Pattern, Query, Search, Verdict};
pub use server::{
    AuditGuard, Builder, Exploration, FaultGuard, GateGuard, JournalGuard, Server, Servers, Space, World,
};

/// What the program does; returns its exit status. A static program says so in its version.
#[doc(hidden)]
pub fn run_main(is_static: bool) -> std::process::ExitCode {
    cli::run(is_static)
}
