//! What scripts did that ran on another server: only their requests and replies were seen.
//!
//! Three things tell it: the text of the script, run without data against its reply ([`inference`]); the texts of scripts that
//! passed by ([`knowledge`]); and MONITOR, which shows the commands that a script called, without their replies.

mod assumed_data;
mod inference;
mod knowledge;

pub use inference::{ScriptCommand, ScriptRun};
pub use knowledge::{ScriptCall, ScriptKnowledge};
