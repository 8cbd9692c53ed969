//! The lock auditor: for each finding a story with the mistake, which is told with the commands that prove it, and the same
//! done right, of which nothing is said.

mod ownership;
mod story;
#[path = "../support/mod.rs"]
mod support;
