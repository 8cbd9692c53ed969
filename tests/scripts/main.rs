//! What scripts did on servers that show only their replies: told from text, request and reply, and checked against what they
//! really did.

mod digests;
mod libraries;
mod random_scripts;
#[path = "../support/mod.rs"]
mod support;
