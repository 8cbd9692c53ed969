//! REDOUBLE SAVE: all data and functions in a file.

use std::path::Path;

use super::Instance;
use crate::base::error::{CommandError, plain};
use crate::base::files;
use crate::data::keyspace::{Busy, Scope};
use crate::data::seed;

impl Instance {
    /// Writes all data, at one instant, to a file that a server can load. A relative path begins at `dir`.
    pub fn save(&self, path: &Path) -> Result<(), CommandError> {
        let content = self.content(path).map_err(|Busy| self.scripts.busy_error())?;
        let target = self.config.path("dir").map_or_else(|| path.to_owned(), |dir| dir.join(path));
        files::write_atomically(&target, &content).map_err(|error| {
            let (target, reason) = (target.display(), plain(&error));
            CommandError::new(format!("ERR the file '{target}' cannot be written: {reason}"))
        })
    }

    fn content(&self, path: &Path) -> Result<Vec<u8>, Busy> {
        let interpreters = self.keyspace.lock_with_backoff(|| self.scripts.try_lock())?;
        let mut view = self.keyspace.lock(Scope::Everything, 0, &self.clock)?;
        let libraries = interpreters.started_functions().into_iter().flat_map(|libraries| libraries.libraries());
        let sources = libraries.map(|library| library.source.as_slice());
        let content = seed::save(&mut view, sources, &self.profile, path);
        // Looking at an expired key deletes it, which is reported as usual.
        self.stats.add(self.finish_view(view, None));
        Ok(content)
    }
}
