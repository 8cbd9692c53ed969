//! Seed files: data that a server loads at its start, as a snapshot or as readable commands.

mod capture;
mod listing;
mod source;

use crate::base::profile::Profile;
use crate::data::rdb::SnapshotWriter;

pub use capture::{Capture, Form};
pub use source::{Source, SourceError};

/// A snapshot of these function libraries alone.
pub fn libraries<'l>(libraries: impl Iterator<Item = &'l [u8]>, profile: &Profile) -> Vec<u8> {
    let mut writer = SnapshotWriter::new(*profile, false);
    libraries.for_each(|source| writer.library(source));
    writer.finish()
}
