//! Files that clients name, and REDOUBLE SAVE: all data and functions in a file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Instance;
use crate::base::error::{CommandError, plain};
use crate::base::files::{self, Creation};
use crate::data::keyspace::{Busy, Scope, View};
use crate::data::seed::{Capture, Form};

/// How many files clients may create in a server's life, in all its spaces and instances. `base/files.rs` tells it.
const MOST_CREATED: u32 = 1000;

/// Who has named a file, which decides where it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// A client: the file is inside `dir`, unless `enable-paths-outside-dir` is on.
    Client,
    /// The program that the server runs in: the file may be anywhere.
    Program,
}

fn unwritable(target: &Path, error: &io::Error) -> CommandError {
    CommandError::new(format!("ERR the file '{}' cannot be written: {}", target.display(), plain(error)))
}

impl Instance {
    /// Writes a file atomically. A relative path begins at `dir`. Nothing but a file is ever replaced, so that no pipe makes
    /// the server wait.
    pub fn write_file(&self, path: &Path, content: &[u8], named_by: NamedBy) -> io::Result<()> {
        self.file_writer(named_by)(path, content)
    }

    /// The same for another thread.
    pub fn file_writer(&self, named_by: NamedBy) -> impl FnOnce(&Path, &[u8]) -> io::Result<()> + Send + use<> {
        let folder = self.config.path("dir").unwrap_or_default();
        let is_anywhere = named_by == NamedBy::Program || self.config.is_on("enable-paths-outside-dir");
        let created = Arc::clone(&self.created_files);
        move |path, content| {
            let client_creates = named_by == NamedBy::Client;
            let is_full = client_creates && created.load(Ordering::Relaxed) >= MOST_CREATED;
            let creation = if is_full { Creation::Refused } else { Creation::Allowed };
            let is_new = if is_anywhere {
                files::write_anywhere(&folder.join(path), content, creation)?
            } else {
                files::write_inside(&folder, path, content, creation)?
            };
            if is_new && client_creates {
                created.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        }
    }

    /// Writes all data, at one instant, to a file that a server can load.
    pub fn save(&self, path: &Path, named_by: NamedBy) -> Result<(), CommandError> {
        let (_, write) = self.begin_save_to(path, named_by)?;
        write()
    }

    /// The same in two steps. The file holds what is there now, whenever and on whatever thread it is written. Returns also
    /// whether that takes so long that others would notice.
    pub fn begin_save_to(
        &self,
        path: &Path,
        named_by: NamedBy,
    ) -> Result<(bool, impl FnOnce() -> Result<(), CommandError> + Send + use<>), CommandError> {
        let capture = self.capture(Form::of(path)).map_err(|Busy| self.scripts.busy_error())?;
        let shown = self.config.path("dir").map_or_else(|| PathBuf::from(path), |dir| dir.join(path));
        let (path, write_file) = (path.to_owned(), self.file_writer(named_by));
        let is_long = !capture.is_copied();
        let write = move || write_file(&path, &capture.finish()).map_err(|error| unwritable(&shown, &error));
        Ok((is_long, write))
    }

    /// Begins to write all data and functions as they are at this instant.
    pub(super) fn capture(&self, form: Form) -> Result<Capture, Busy> {
        self.with_everything(|view, libraries| Capture::begin(view, libraries, &self.profile, form))
    }

    /// The same, with everything copied while nobody is served.
    pub(super) fn capture_at_once(&self, form: Form) -> Result<Capture, Busy> {
        self.with_everything(|view, libraries| Capture::begin(view, libraries, &self.profile, form).copied(view))
    }

    pub(super) fn with_everything<T>(
        &self,
        look: impl FnOnce(&mut View<'_>, &mut dyn Iterator<Item = &[u8]>) -> T,
    ) -> Result<T, Busy> {
        let interpreters = self.keyspace.lock_with_backoff(|| self.scripts.try_lock())?;
        let mut view = self.keyspace.lock(Scope::Everything, 0, &self.clock)?;
        let libraries = interpreters.started_functions().into_iter().flat_map(|libraries| libraries.libraries());
        let found = look(&mut view, &mut libraries.map(|library| library.source.as_slice()));
        self.stats.add(self.finish_view(view, None));
        Ok(found)
    }
}
