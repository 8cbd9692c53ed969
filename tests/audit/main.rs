//! The lock auditor: for each finding a story with the mistake, which is told with the commands that prove it, and the same
//! done right, of which nothing is said.

mod clocks;
mod ending;
mod expiry;
mod hostile;
mod lateness;
mod ownership;
mod page;
mod recognition;
mod redlock;
mod story;
#[path = "../support/mod.rs"]
mod support;
mod tell;
mod tokens;
mod waiting;
