//! Seed files: data that a server loads at its start, as a snapshot or as readable commands.

mod capture;
mod listing;
mod source;

pub use capture::{Capture, Form};
pub use source::{Source, SourceError};
