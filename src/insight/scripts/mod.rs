//! What scripts did that ran on another server: only their requests and replies were seen.
//!
//! Three things tell it: the text of the script, run without data against its reply (`inference`); for EVALSHA, the texts of
//! scripts that passed by (`knowledge`), and those of lock libraries (`known_digests`); and MONITOR, which shows the commands
//! that a script called, without their replies. Begin with [`ScriptKnowledge`].

mod assumed_data;
mod inference;
mod knowledge;
mod known_digests;

#[cfg(feature = "internals")]
pub use inference::{ScriptCommand, ScriptRun};
pub use knowledge::{ScriptCall, ScriptKnowledge};
#[cfg(feature = "internals")]
pub use known_digests::KNOWN_DIGESTS;
