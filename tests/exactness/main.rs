//! Redis's behaviour: what a command answers, in which order effects become visible, and what a connection may do.
//!
//! The tests use only what a client sees, and no test power except the clock. They run on the real redis-server 7.0.15
//! too, where it knows the command. A new command gets a transcript first (`transcripts/`, listed in `transcripts.rs`).
//! Tests that need several threads, split packets or random input belong in the file of their subject.

mod acl;
mod atomicity;
mod blocking;
mod blocking_streams;
mod connection;
mod eviction;
mod operator;
mod protocol;
mod pubsub;
mod replicas;
mod replication;
mod same_everywhere;
mod scanning;
mod scripts;
mod sentinel;
#[path = "../support/mod.rs"]
mod support;
mod tracking;
mod transcript;
mod transcripts;
