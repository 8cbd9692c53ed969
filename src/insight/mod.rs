//! What journals tell: the lock auditor, and reports for people.
//!
//! Knows recorded commands, not the server that recorded them; reads no clock and no keyspace.
//! May use: `base`, `protocol`, `spec`, `script` (to run scripts without data), `powers` (the journal's types).
//! Begin with [`audit`]: `Auditor::process_line` takes one line of a journal, and findings come out.

pub mod audit;
pub mod recording;
pub mod report;
pub mod scripts;
