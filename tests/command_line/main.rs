//! The program `redouble`: its command line, its files, its output, its exit status and the signals that it takes.
//!
//! Every test starts the binary. A new flag or a new word gets its tests in the file of the word: `launch.rs` is for the
//! server itself, `grammar.rs` for what all words have in common.

mod audit;
mod grammar;
mod launch;
mod report;
mod run;
mod seed;
#[path = "../support/mod.rs"]
mod support;
