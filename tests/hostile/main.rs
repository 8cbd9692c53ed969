//! Load and malice: broken clients, endless scripts, random misuse of the test powers. The server survives, keeps its
//! memory small, and serves other clients.
//!
//! These tests use many files, much memory or a whole core. They are a separate binary so that they do not run beside
//! other tests.

mod busy;
mod clients;
mod files;
mod libraries;
mod log;
mod powers;
mod secrets;
mod seeds;
#[path = "../support/mod.rs"]
mod support;
mod tls;
mod worlds;
