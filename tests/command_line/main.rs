//! The program `redouble`: its command line, files, output, exit statuses and signals.
//!
//! Every test starts the binary. A new flag or word gets its tests in the file of that word. `launch.rs` tests the
//! server itself, `grammar.rs` what all words have in common.

mod audit;
mod explain;
mod grammar;
mod launch;
mod persistence;
mod processes;
mod record;
mod redis_cli;
mod rename_command;
mod report;
mod run;
mod seed;
#[path = "../support/mod.rs"]
mod support;
mod terminal;
mod tls;
