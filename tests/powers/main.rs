//! The test powers: clock, faults, gates, explorer, journal, spaces, instances; on the wire and from Rust.
//!
//! The tests use the public API and the wire. A new power gets a file here; a new verdict gets its tests in
//! `faults.rs`.

mod async_waits;
mod clock;
mod driver;
mod explore;
mod explore_chaos;
mod explore_failover;
mod failover;
mod faults;
mod faults_matching;
mod faults_on_the_way;
mod faults_writes;
mod gates;
mod guards;
mod instances;
mod journal;
mod links;
/// docs/quickstart-rust.md shows this file.
mod quickstart_tokio;
mod sentinel;
mod servers;
mod spaces;
#[path = "../support/mod.rs"]
mod support;
mod upstream;
