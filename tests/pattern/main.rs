//! The documented lock pattern and Redlock: what they promise, in every order of their commands.
//!
//! Uses only what a client sees. A lock algorithm that this project documents gets its tests here.

mod lock_pattern;
mod redlock;
#[path = "../support/mod.rs"]
mod support;
