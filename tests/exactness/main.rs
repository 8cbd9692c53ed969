//! Redis's behaviour: what a command answers, in which order effects become visible, what a connection may do.
//!
//! Uses only what a client sees, and no test power except the clock. Where the real redis-server 7.0.15 knows the
//! command, the test asks it too. A new command gets a transcript first (`transcripts/`, listed in `transcripts.rs`);
//! what needs several threads, split packets or random input gets a test in the file of its subject.

mod acl;
mod atomicity;
mod blocking;
mod blocking_streams;
mod connection;
mod protocol;
mod pubsub;
mod same_everywhere;
mod scripts;
#[path = "../support/mod.rs"]
mod support;
mod tracking;
mod transcript;
mod transcripts;
