//! Files that the program writes: paths, directories, error texts.

use std::fmt::Display;
use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::base::error::plain;
use crate::base::files;
use crate::base::log::Log;

/// Makes the path of a file absolute, because the server may change the directory, and creates the file's own directory.
/// A file that cannot be written is better known before the tests than after them.
pub(super) fn prepare(path: &mut PathBuf) -> Result<(), String> {
    let absolute = std::path::absolute(&*path).map_err(|error| cannot("write", path, &plain(&error)))?;
    create_directory_of(&absolute).map_err(|error| cannot("write", path, &plain(&error)))?;
    if absolute.is_dir() {
        return Err(cannot("write", path, &"it is a folder"));
    }
    *path = absolute;
    Ok(())
}

/// Creates the directory that a file is to be in, with those above it.
fn create_directory_of(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let created = directory.map_or(Ok(()), fs::create_dir_all);
    created.map_err(|error| match error.kind() {
        // A file stands where the directory is to be.
        io::ErrorKind::AlreadyExists => Errno::NOTDIR.into(),
        _ => error,
    })
}

/// Opens the file of the server's log, in a directory that is created if it is missing.
pub(super) fn open_log(path: &Path) -> Result<Log, String> {
    create_directory_of(path).and_then(|()| Log::file(path)).map_err(|error| plain(&error))
}

/// Writes a file as a whole.
pub(super) fn write(path: &Path, content: &[u8]) -> Result<(), String> {
    files::write_atomically(path, content).map_err(|error| cannot("write", path, &plain(&error)))
}

/// Creates a file that nobody but its owner can read or write. One that is there already is replaced only if that is
/// asked for.
pub(super) fn create_private(path: &Path, overwrites: bool) -> Result<fs::File, String> {
    if overwrites {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(cannot("write", path, &plain(&error))),
            _ => {}
        }
    }
    let created = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    created.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => cannot("write", path, &"it is there already; --force replaces it"),
        _ => cannot("write", path, &plain(&error)),
    })
}

/// "cannot read PATH: No such file or directory"
pub(super) fn cannot(action: &str, path: &Path, reason: &dyn Display) -> String {
    format!("cannot {action} {}: {reason}", path.display())
}

/// A file with the pid or the ports of the running server, which is removed when the server ends.
pub(super) struct RuntimeFile {
    path: PathBuf,
}

/// Writes the files that tell the ports, as far as the configuration names them.
pub(super) fn write_port_files(
    files: impl IntoIterator<Item = (Option<PathBuf>, Vec<u16>)>,
) -> io::Result<Vec<RuntimeFile>> {
    let named = files.into_iter().filter_map(|(path, ports)| Some((path?, ports)));
    named.map(|(path, ports)| RuntimeFile::write(path, ports.into_iter().map(u32::from))).collect()
}

impl RuntimeFile {
    /// Writes numbers, one a line.
    pub fn write(path: PathBuf, numbers: impl IntoIterator<Item = u32>) -> io::Result<Self> {
        create_directory_of(&path)?;
        let lines: String = numbers.into_iter().map(|number| format!("{number}\n")).collect();
        files::write_atomically(&path, lines.as_bytes())?;
        Ok(Self { path })
    }

    pub fn remove(self) {
        // Somebody else may have removed it.
        let _ = fs::remove_file(self.path);
    }
}
