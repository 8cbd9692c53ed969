//! A Redis test double: a server inside your test that speaks the Redis protocol, answers as Redis does and keeps everything
//! in memory, and whose time, failures and order the test controls. For code that takes locks in Redis, and the tests that
//! such code never had.
//!
//! ```console
//! $ cargo add --dev redouble
//! ```
//!
//! Nothing has to be installed or started: a [`Server`] is a value, on a free port of its own, and gone when it is dropped.
//! Your code connects to its [`url`](World::url) with the client library that it uses anyway.
//!
//! # A lock that expires while its holder works
//!
//! ```
//! use std::time::Duration;
//!
//! /// Your code: takes the lock for 30 seconds, or does not.
//! fn take(url: &str, token: &str) -> redis::RedisResult<bool> {
//!     let mut client = redis::Client::open(url)?.get_connection()?;
//!     let taken: Option<String> =
//!         redis::cmd("SET").arg("lock:tea").arg(token).arg("NX").arg("PX").arg(30_000).query(&mut client)?;
//!     Ok(taken.is_some())
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = redouble::Server::builder().spawn()?;
//! server.freeze(); // the clock stands until the test moves it
//! assert!(take(&server.url(), "mine")?);
//! server.advance(Duration::from_millis(30_000));
//! assert!(!take(&server.url(), "theirs")?); // its last millisecond
//! server.advance(Duration::from_millis(1)); // returns when every consequence has happened
//! assert!(take(&server.url(), "theirs")?);
//! # Ok(())
//! # }
//! ```
//!
//! # A lock that was taken, and the reply was lost
//!
//! ```
//! use redouble::{Fault, Pattern, Verdict};
//! # fn take(url: &str, token: &str) -> redis::RedisResult<bool> {
//! #     let mut client = redis::Client::open(url)?.get_connection()?;
//! #     let taken: Option<String> = redis::cmd("SET").arg("lock:tea").arg(token).arg("NX").arg("PX").arg(30_000).query(&mut client)?;
//! #     Ok(taken.is_some())
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = redouble::Server::builder().spawn()?;
//! let lost = Fault::new("lost", Verdict::CloseAfter).of(Pattern::on("SET").key("lock:*")).times(1);
//! let lost = server.fault(lost)?;
//! assert!(take(&server.url(), "mine").is_err()); // an error for the client ...
//! assert_eq!(lost.fired(), 1);
//! assert!(!take(&server.url(), "mine")?); // ... that has the lock all the same
//! # Ok(())
//! # }
//! ```
//!
//! # Two clients at the same moment, always in the same order
//!
//! ```
//! use redouble::Pattern;
//! # fn take(url: &str, token: &str) -> redis::RedisResult<bool> {
//! #     let mut client = redis::Client::open(url)?.get_connection()?;
//! #     let taken: Option<String> = redis::cmd("SET").arg("lock:tea").arg(token).arg("NX").arg("PX").arg(30_000).query(&mut client)?;
//! #     Ok(taken.is_some())
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = redouble::Server::builder().spawn()?;
//! let gate = server.gate("slow", Pattern::on("SET").key("lock:tea"))?;
//! let url = server.url();
//! let slow = std::thread::spawn(move || take(&url, "slow"));
//! gate.wait_for(1)?; // its SET has come, and is held
//! drop(gate); // open for both
//! assert!(slow.join().unwrap()? != take(&server.url(), "fast")?);
//! # Ok(())
//! # }
//! ```
//!
//! [`World::explore`] tries every order in which the commands of racing clients can come, and names the one that fails.
//!
//! # Locks that are misused
//!
//! ```
//! # fn take(url: &str, token: &str) -> redis::RedisResult<bool> {
//! #     let mut client = redis::Client::open(url)?.get_connection()?;
//! #     let taken: Option<String> = redis::cmd("SET").arg("lock:tea").arg(token).arg("NX").arg("PX").arg(30_000).query(&mut client)?;
//! #     Ok(taken.is_some())
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = redouble::Server::builder().locks("lock:*").spawn()?;
//! let audit = server.audit();
//! assert!(take(&server.url(), "mine")?); // and nobody releases it
//! let findings = audit.findings_at_end();
//! assert_eq!(findings[0].code, redouble::Code::TokenGuessable);
//! # Ok(())
//! # }
//! ```
//!
//! `audit.expect_clean()` fails the test with a text that says what was done wrong by whom, with the commands that prove it, and
//! what to do instead. [`Code`] lists what is found.
//!
//! # Tests that run at the same time
//!
//! Each test can have a server: one starts in less than a millisecond. Or tests share one, and each has a [`Space`] in it, with
//! keys, a clock and faults of its own:
//!
//! ```
//! # fn take(url: &str, token: &str) -> redis::RedisResult<bool> {
//! #     let mut client = redis::Client::open(url)?.get_connection()?;
//! #     let taken: Option<String> = redis::cmd("SET").arg("lock:tea").arg(token).arg("NX").arg("PX").arg(30_000).query(&mut client)?;
//! #     Ok(taken.is_some())
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = redouble::Server::builder().spawn()?;
//! let (one, other) = (server.space("one")?, server.space("other")?);
//! assert!(take(&one.url(), "mine")?);
//! assert!(take(&other.url(), "mine too")?); // another lock
//! # Ok(())
//! # }
//! ```
//!
//! # Async tests
//!
//! `#[tokio::test]` makes a runtime with one thread, on which nothing else runs while a function blocks. What waits for your own
//! code therefore has a twin: `wait_for_async` on gates, the journal and the audit. Everything else is called as it is.
//!
//! ```
//! # async fn take(url: String) -> redis::RedisResult<bool> {
//! #     let mut client = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
//! #     let taken: Option<String> = redis::cmd("SET").arg("lock:tea").arg("a").arg("NX").arg("PX").arg(30_000).query_async(&mut client).await?;
//! #     Ok(taken.is_some())
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = redouble::Server::builder().spawn()?;
//! let gate = server.gate("before-set", redouble::Pattern::on("SET"))?;
//! let taking = tokio::spawn(take(server.url()));
//! gate.wait_for_async(1).await?; // `wait_for` would block the task that sends the SET
//! gate.open();
//! assert!(taking.await??);
//! # Ok(())
//! # }
//! ```
//!
//! On a runtime with several threads, others go on, so `wait_for` does as well:
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
//! # Where to look
//!
//! | | |
//! |---|---|
//! | port, password, databases, release to imitate, data to begin with | [`Builder`] |
//! | clock, faults, gates, journal, audit, reset, of a server or a space | [`World`] |
//! | spaces; stopping, pausing and cutting off a server | [`Server`] |
//! | five servers for Redlock, with clocks that disagree | [`Builder::spawn_all`], [`Servers`] |
//! | which commands came, in which order, with which replies | [`JournalGuard`], [`Entry`] |
//! | errors, delays, lost and cut replies | [`Fault`], [`Verdict`], [`Pattern`] |
//! | every order of racing clients | [`Exploration`], [`Search`] |
//!
//! The package also has a program of this name, for tests in any language: a drop-in for `redis-server`, and
//! `redouble run --audit -- npm test`, which gives a command a server for as long as it runs and reports misused locks.
//! `cargo install redouble` installs it.

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
    pub use crate::engine::{Engine, Fibers, addresses};
    pub use crate::insight::audit::{
        Allowance, Auditor, ClientIdentity, Hold, HoldEnd, HoldStatus, JournalLine, Lock, LockId, LockReason, PastHold,
        Scope, Waiter, audit, audit_fronts, auditor, merged_fronts, render,
    };
    pub use crate::insight::report::{html as report_html, text as report_text};
    pub use crate::insight::scripts::{KNOWN_DIGESTS, ScriptCall, ScriptCommand, ScriptKnowledge, ScriptRun};
    pub use crate::powers::{
        Event, EventKind, Item, MonitorLine, MonitorReader, MonitorSource, MonitoredScripts, read_journal,
    };
    pub use crate::protocol::{Framed, Framer, Limits, OwnedWords, Protocol, ProtocolError, ReplyScanner, Words};
    pub use crate::server::{command_table, journal_of, journal_since, live_findings, now_of};
    pub use crate::spec::{Secrets, Table, markdown};
}

pub use base::error::Error;
pub use base::process::Process;
pub use base::profile::Profile;
pub use insight::audit::{
    AuditFailure, ClientProcess, Code, EndedHold, Evidence, Finding, JournalRef, KnownLock, LockExplanation,
    LockHolder, LockSign, LockWaiter, Severity, describe_findings,
};
pub use powers::{
    Chaos, Child, ClientSelector, EffectOrder, Entry, ExplorationSummary, Fault, NodeInfo, NodeRole, NodeSelector,
    Outcome, Pattern, Query, Search, Verdict,
};
pub use server::{
    AuditGuard, Builder, Exploration, FaultGuard, GateGuard, JournalGuard, NodeStatus, Server, Servers, Space, World,
};

/// What the program does; returns its exit status. A static program says so in its version.
#[doc(hidden)]
pub fn run_main(is_static: bool) -> std::process::ExitCode {
    cli::run(is_static)
}
