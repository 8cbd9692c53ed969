//! redouble in front of another server: what passes, what the powers do, in which order the journal has commands, and
//! what happens on bad days.
//!
//! A story is told once and played twice where it can be: to clients that are connected to the server directly, and to
//! clients of redouble in front of it. Both must see the same. The server is the real redis-server 7.0.15, or a
//! `ScriptedServer` that misbehaves as the story says.

#[cfg(feature = "internals")]
mod addresses;
mod bad_days;
mod chaos;
mod monitor;
mod nodes;
mod order;
mod passing;
mod pieces;
mod place;
mod powers;
mod programs;
#[path = "../support/mod.rs"]
mod support;
mod tls;
