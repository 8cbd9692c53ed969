//! The documented lock pattern and Redlock: their guarantees in every order of their commands.
//!
//! The tests use only what a client sees. A lock algorithm that this project documents gets its tests here.

mod lock_pattern;
mod redlock;
#[path = "../support/mod.rs"]
mod support;
