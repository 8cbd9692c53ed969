//! The file of one server's journal.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::base::error::plain;
use crate::cli::outputs::{cannot, create_private};
use crate::powers::{Item, push_line};

/// A file that grows by whole lines.
pub(super) struct JournalWriter {
    /// As the command line has it.
    shown: PathBuf,
    file: File,
    /// Lines that are not written yet.
    lines: Vec<u8>,
}

impl JournalWriter {
    pub fn create(path: &Path, shown: PathBuf, overwrites: bool) -> Result<Self, String> {
        Ok(Self { shown, file: create_private(path, overwrites)?, lines: Vec::new() })
    }

    pub fn shown(&self) -> &Path {
        &self.shown
    }

    /// Adds a line if there is room for it; returns its length.
    pub fn add(&mut self, item: &Item, room: u64) -> Option<u64> {
        let before = self.lines.len();
        push_line(item, &mut self.lines);
        let length = (self.lines.len() - before) as u64;
        if length > room {
            self.lines.truncate(before);
            return None;
        }
        Some(length)
    }

    /// Hands all lines to the system, so that nothing but its own crash loses them.
    pub fn write(&mut self) -> Result<(), String> {
        let written = self.file.write_all(&self.lines);
        self.lines.clear();
        written.map_err(|error: io::Error| cannot("write", &self.shown, &plain(&error)))
    }
}
