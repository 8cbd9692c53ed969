//! The limit of open files, and atomic writes of files.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// File descriptors that a server needs besides those of its clients, as Redis counts them.
const RESERVED: u64 = 32;

/// Raises the limit of open files for this number of clients. `Err` has the number of clients that are possible.
pub fn allow_clients(clients: usize) -> Result<DescriptorLimit, usize> {
    let needed = (clients as u64).saturating_add(RESERVED);
    let limit = getrlimit(Resource::Nofile);
    let before = limit.current.unwrap_or(u64::MAX);
    if before >= needed {
        return Ok(DescriptorLimit::Enough);
    }
    let most = limit.maximum.unwrap_or(u64::MAX);
    let wanted = Rlimit { current: Some(needed.min(most)), maximum: limit.maximum };
    match setrlimit(Resource::Nofile, wanted) {
        Ok(()) if most >= needed => Ok(DescriptorLimit::Raised { to: needed, from: before }),
        Ok(()) => Err(usize::try_from(most.saturating_sub(RESERVED)).unwrap_or(usize::MAX)),
        Err(_) => Err(usize::try_from(before.saturating_sub(RESERVED)).unwrap_or(usize::MAX)),
    }
}

/// What was done to have enough file descriptors.
pub enum DescriptorLimit {
    Enough,
    Raised { to: u64, from: u64 },
}

/// Writes a file atomically: others see the old content or the new one. A device or a pipe is written to, never
/// replaced.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    // A symbolic link stands for its target.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&path).is_ok_and(|old| !old.is_file()) {
        return fs::OpenOptions::new().write(true).open(&path)?.write_all(content);
    }
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = fs::File::create(&temporary).and_then(|mut file| {
        if let Ok(old) = fs::metadata(&path) {
            file.set_permissions(old.permissions())?;
        }
        file.write_all(content)
    });
    let replaced = written.and_then(|()| fs::rename(&temporary, &path));
    if replaced.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    replaced
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn what_is_no_file_is_never_replaced() {
        let path = std::env::temp_dir().join(format!("redouble-files-{}", std::process::id()));
        let _listener = UnixListener::bind(&path).unwrap();
        assert!(write_atomically(&path, b"text").is_err());
        assert!(!fs::metadata(&path).unwrap().is_file());
        fs::remove_file(&path).unwrap();
    }
}
