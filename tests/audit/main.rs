//! The lock auditor and the report: which locks are recognised, which findings are made, and how they are shown.
//!
//! The tests read the crate's parts (feature `internals`). A new rule gets a pair of stories, the mistake and the same
//! done right, in the file of its subject (`story.rs` says how stories are written). `corpus` checks all rules against
//! random histories whose truth is known. `live.rs` asks a running server; `report` looks at the report's page, also in
//! a browser.

mod advice;
mod claims;
mod clocks;
mod corpus;
mod cross_slot;
mod declared;
mod documents;
mod ending;
mod expiry;
mod failover;
mod findings_page;
mod fronts;
mod hostile;
mod in_short;
mod intervals;
mod lateness;
mod listeners;
mod live;
mod lost_update;
mod many_locks;
mod members;
mod monitor;
mod ownership;
mod partial;
mod recognition;
mod redlock;
mod report;
mod reset;
mod right;
mod split_brain;
mod story;
#[path = "../support/mod.rs"]
mod support;
mod tell;
mod tokens;
mod transfer;
mod undeclared;
mod upstream;
mod wait;
mod waiting;
