//! A Redis for tests: a server in the test's own process, on a free port, that any Redis client can connect to. It answers
//! what Redis answers, and lets a test stop time, lose replies, hold clients, and find out who misuses a lock.
//!
//! ```
//! use std::time::Duration;
//! use redouble::{Fault, Pattern, Server, Verdict};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::builder().spawn()?; // gone when it is dropped
//! let take = |token: &str| -> redis::RedisResult<Option<String>> {
//!     let mut client = redis::Client::open(server.url())?.get_connection()?;
//!     redis::cmd("SET").arg("lock:tea").arg(token).arg("NX").arg("PX").arg(30_000).query(&mut client)
//! };
//!
//! // Time: the lock expires while its holder works. Nothing sleeps.
//! assert!(take("mine")?.is_some());
//! server.advance(Duration::from_millis(30_001));
//! assert!(take("theirs")?.is_some());
//!
//! // Faults: the lock is taken and the reply is lost.
//! server.reset();
//! let lost = server.fault(Fault::new("lost", Verdict::CloseAfter).of(Pattern::on("SET")).times(1))?;
//! assert!(take("mine").is_err());
//! assert_eq!(lost.fired(), 1);
//! assert!(take("mine")?.is_none()); // it holds the lock, and does not know
//! # Ok(())
//! # }
//! ```
//!
//! | for | there is |
//! |---|---|
//! | time | [`World::freeze`], [`World::advance`] and more on every [`Server`] and [`Space`] |
//! | failure | [`World::fault`]: errors, delays, lost and cut replies ([`Verdict`]), by command, key and client ([`Pattern`]) |
//! | order | [`World::gate`] holds commands before or after they run; [`Exploration`] tries every order |
//! | locks | [`World::audit`] reports misuse as [`Finding`]s; [`World::journal`] has every command with its reply |
//! | tests side by side | a server each, or a [`Space`] each on one port: [`Server::space`] |
//! | Redlock | several instances in one process, stopped or cut off one by one: [`Builder::spawn_all`] |
//!
//! # Async tests
//!
//! A current-thread runtime, which `#[tokio::test]` makes, runs nothing else while a function blocks. So what waits for the
//! code under test has a twin for async code there: [`GateGuard::wait_for_async`].
//!
//! ```
//! # use redouble::{Pattern, Server};
//! #[tokio::main(flavor = "current_thread")] // a test has #[tokio::test]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = Server::builder().spawn()?;
//!     let gate = server.gate("release", Pattern::on("DEL"))?;
//!     let mut client = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
//!     let release = tokio::spawn(async move {
//!         redis::cmd("DEL").arg("lock:tea").query_async::<u32>(&mut client).await
//!     });
//!     gate.wait_for_async(1).await?; // the DEL has come, and is held
//!     gate.open();
//!     assert_eq!(release.await??, 0);
//!     Ok(())
//! }
//! ```
//!
//! On a multi-thread runtime, other threads go on, so [`GateGuard::wait_for`] does as well:
//!
//! ```
//! # use redouble::{Pattern, Server};
//! #[tokio::main(flavor = "multi_thread", worker_threads = 2)] // a test has #[tokio::test(flavor = "multi_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = Server::builder().spawn()?;
//!     let gate = server.gate("release", Pattern::on("DEL"))?;
//!     let mut client = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
//!     let release = tokio::spawn(async move {
//!         redis::cmd("DEL").arg("lock:tea").query_async::<u32>(&mut client).await
//!     });
//!     gate.wait_for(1)?;
//!     gate.open();
//!     assert_eq!(release.await??, 0);
//!     Ok(())
//! }
//! ```
//!
//! The binary of the same name is the same server as a drop-in for `redis-server`, with `run`, `explore`, `audit` and
//! `report`.

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
