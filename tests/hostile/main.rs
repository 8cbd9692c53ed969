//! Load and malice: broken clients, endless scripts, random misuse of the test powers. The server survives, stays small
//! and serves the others.
//!
//! Tests here take many files, much memory or a whole core; they are a binary of their own so that they run beside no
//! other tests.

mod busy;
mod clients;
mod powers;
#[path = "../support/mod.rs"]
mod support;
