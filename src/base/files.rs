//! The limit of open files, and reading and writing of files that operators and clients name.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Component, Path};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RawMode, fchmod, fcntl_getfl, fcntl_setfl, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// File descriptors that a server needs besides those of its clients, as Redis counts them.
const RESERVED: u64 = 32;

/// Raises the limit of open files for this number of clients, each with so many sockets. `Err` has the number of clients
/// that are possible.
pub fn allow_clients(clients: usize, sockets: usize) -> Result<DescriptorLimit, usize> {
    let needed = (clients as u64).saturating_mul(sockets as u64).saturating_add(RESERVED);
    let possible = |files: u64| usize::try_from(files.saturating_sub(RESERVED)).unwrap_or(usize::MAX) / sockets;
    let limit = getrlimit(Resource::Nofile);
    let before = limit.current.unwrap_or(u64::MAX);
    if before >= needed {
        return Ok(DescriptorLimit::Enough);
    }
    let most = limit.maximum.unwrap_or(u64::MAX);
    let wanted = Rlimit { current: Some(needed.min(most)), maximum: limit.maximum };
    match setrlimit(Resource::Nofile, wanted) {
        Ok(()) if most >= needed => Ok(DescriptorLimit::Raised { to: needed, from: before }),
        Ok(()) => Err(possible(most)),
        Err(_) => Err(possible(before)),
    }
}

/// What was done to have enough file descriptors.
pub enum DescriptorLimit {
    Enough,
    Raised { to: u64, from: u64 },
}

/// Writes a file that the operator has named: whole, so that others see the old content or the new one. A symbolic link is
/// replaced, never followed. A device or a pipe is written to, never replaced; below `/dev` that is so for links, too,
/// such as `/dev/stdout`.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let old = if path.starts_with("/dev") { fs::metadata(path) } else { fs::symlink_metadata(path) };
    if old.is_ok_and(|old| !old.is_file() && !old.is_symlink()) {
        // A pipe that nobody reads is an error at once.
        let mut file = fs::OpenOptions::new().write(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
        fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
        return file.write_all(content);
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    replace(&open_folder(CWD, folder.as_os_str(), OFlags::empty())?, name, content, !0)
}

/// Writes a file that a client has named. It lies inside `folder`: `path` is relative and has no `..`, no name that begins
/// with a dot, and no symbolic link. The file is created, or replaced as a whole; nothing but a file is replaced. Returns
/// whether it was created.
pub fn write_inside(folder: &Path, path: &Path, content: &[u8], creation: Creation) -> io::Result<bool> {
    let (folder, name) = folder_inside(folder, path)?;
    replace_file(&folder, name, content, creation)
}

/// Whether a file may be created that is not there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    Allowed,
    /// Clients have created too many files already.
    Refused,
}

/// Writes a file that a client may put anywhere. What is there is replaced as a whole if it is a file, and refused if it is
/// anything else, such as a pipe. Returns whether it was created.
pub fn write_anywhere(path: &Path, content: &[u8], creation: Creation) -> io::Result<bool> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    replace_file(&open_folder(CWD, folder.as_os_str(), OFlags::empty())?, name, content, creation)
}

/// Reads a file that a client has named, which lies inside `folder` as for [`write_inside`].
pub fn read_inside(folder: &Path, path: &Path) -> io::Result<Vec<u8>> {
    let (folder, name) = folder_inside(folder, path)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    read_whole(openat(&folder, name, flags, Mode::empty()).map_err(|error| explained(&folder, name, error))?.into())
}

/// Reads a file that the operator has named and a client makes the server read. A pipe is refused, since it could make the
/// server wait.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    read_whole(fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?)
}

/// Opens a file for reading. If it is a pipe or a terminal, reading fails when nothing comes for so long.
pub fn open_patiently(path: &Path, patience: Duration) -> io::Result<impl Read> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    Ok(PatientFile { file: fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?, patience })
}

struct PatientFile {
    file: fs::File,
    patience: Duration,
}

impl Read for PatientFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let patience = Timespec::try_from(self.patience).map_err(|_| io::ErrorKind::InvalidInput)?;
        // A file is always ready, and so is a pipe that was closed.
        match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&patience)) {
            Ok(0) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("nothing came for {:?}", self.patience))),
            Ok(_) | Err(Errno::INTR) => match self.file.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(io::ErrorKind::Interrupted.into()),
                read => read,
            },
            Err(error) => Err(error.into()),
        }
    }
}

fn read_whole(mut file: fs::File) -> io::Result<Vec<u8>> {
    let found = file.metadata()?.file_type();
    let mut content = Vec::new();
    match found {
        found if found.is_file() => file.read_to_end(&mut content)?,
        // `/dev/null`, and devices without an end.
        found if found.is_char_device() => file.take(MOST_OF_DEVICE).read_to_end(&mut content)?,
        _ => return Err(io::Error::other(NO_FILE)),
    };
    Ok(content)
}

/// What is read of a device, at most.
const MOST_OF_DEVICE: u64 = 1 << 20;

const NO_FILE: &str = "it is no regular file";
const OUTSIDE: &str = "it is outside of dir, which takes --enable-paths-outside-dir yes";
const IS_HIDDEN: &str = "a name that begins with a dot takes --enable-paths-outside-dir yes";
const TOO_MANY: &str =
    "clients have created as many files as they may (1000); only files that are there can be written";
const IS_LINK: &str = "a symbolic link in its path takes --enable-paths-outside-dir yes";

/// How many temporary files of one process may be left in a folder, by writes that were interrupted or still go on.
const MOST_TEMPORARY: u32 = 100;

/// The folder of a file that a client has named, and the file's name.
fn folder_inside<'p>(folder: &Path, path: &'p Path) -> io::Result<(OwnedFd, &'p OsStr)> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) if name.as_bytes().starts_with(b".") => return Err(io::Error::other(IS_HIDDEN)),
            Component::Normal(name) => names.push(name),
            _ => return Err(io::Error::other(OUTSIDE)),
        }
    }
    let name = names.pop().filter(|_| !path.as_os_str().as_bytes().ends_with(b"/"));
    let name = name.ok_or(io::ErrorKind::InvalidInput)?;
    let mut inside = open_folder(CWD, folder.as_os_str(), OFlags::empty())?;
    for name in names {
        let further = open_folder(&inside, name, OFlags::NOFOLLOW);
        inside = further.map_err(|error| explained(&inside, name, error))?;
    }
    Ok((inside, name))
}

fn open_folder(from: impl AsFd, path: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() { OsStr::new(".") } else { path };
    openat(from, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | flags, Mode::empty())
}

/// An error of opening something without following links: a link has various error numbers.
fn explained(folder: &OwnedFd, name: &OsStr, error: Errno) -> io::Error {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Symlink => io::Error::other(IS_LINK),
        _ => error.into(),
    }
}

/// Creates a file, or replaces one. Anything else is refused. Returns whether it was created.
fn replace_file(folder: &OwnedFd, name: &OsStr, content: &[u8], creation: Creation) -> io::Result<bool> {
    let old = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map(|old| FileType::from_raw_mode(old.st_mode));
    match old {
        Err(Errno::NOENT) if creation == Creation::Refused => return Err(io::Error::other(TOO_MANY)),
        Ok(FileType::RegularFile) | Err(Errno::NOENT) => {}
        Ok(FileType::Symlink) => return Err(io::Error::other(IS_LINK)),
        Ok(FileType::Directory) => return Err(Errno::ISDIR.into()),
        Ok(_) => return Err(io::Error::other(NO_FILE)),
        Err(error) => return Err(error.into()),
    }
    // Data is never executable, although a program may have stood here.
    replace(folder, name, content, 0o666)?;
    Ok(old.is_err())
}

/// Puts a file under a name, instead of whatever stands there. It keeps those permissions of an old file that `kept` has.
fn replace(folder: &OwnedFd, name: &OsStr, content: &[u8], kept: RawMode) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut attempt = 0;
    let (temporary, file) = loop {
        let temporary = format!(".redouble-{}-{attempt}.tmp", std::process::id());
        match openat(folder, temporary.as_str(), flags, Mode::from_raw_mode(0o666)) {
            Ok(file) => break (temporary, file),
            Err(Errno::EXIST) if attempt < MOST_TEMPORARY => attempt += 1,
            Err(error) => return Err(error.into()),
        }
    };
    let written = (|| {
        if let Ok(old) = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
            && FileType::from_raw_mode(old.st_mode) == FileType::RegularFile
        {
            fchmod(&file, Mode::from_raw_mode(old.st_mode & 0o777 & kept))?;
        }
        fs::File::from(file).write_all(content)?;
        Ok(renameat(folder, temporary.as_str(), folder, name)?)
    })();
    if written.is_err() {
        let _ = unlinkat(folder, temporary.as_str(), AtFlags::empty());
    }
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use super::*;

    /// A folder of a test, with the folder `in` and the file `out` in it, removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("redouble-files-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(path.join("in/deeper")).unwrap();
            fs::write(path.join("out"), "old").unwrap();
            Self(path)
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        fn write(&self, path: &str) -> Result<(), String> {
            let written = write_inside(&self.at("in"), Path::new(path), b"new", Creation::Allowed);
            written.map(|_| ()).map_err(|error| error.to_string())
        }

        fn pipe(&self, name: &str) {
            let made = std::process::Command::new("mkfifo").arg(self.at(name)).status().unwrap();
            assert!(made.success());
        }

        fn text(&self, name: &str) -> String {
            fs::read_to_string(self.at(name)).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn what_is_no_file_is_never_replaced() {
        let folder = Folder::new("socket");
        let _listener = UnixListener::bind(folder.at("in/socket")).unwrap();
        assert!(write_atomically(&folder.at("in/socket"), b"text").is_err());
        assert_eq!(folder.write("socket").unwrap_err(), NO_FILE);
        assert!(!fs::metadata(folder.at("in/socket")).unwrap().is_file());
    }

    #[test]
    fn a_file_of_a_client_stays_inside_the_folder() {
        let folder = Folder::new("inside");
        symlink(folder.at("out"), folder.at("in/link")).unwrap();
        symlink(&folder.0, folder.at("in/up")).unwrap();
        symlink("nowhere", folder.at("in/dangling")).unwrap();
        for (path, reason) in [
            ("../out", OUTSIDE),
            ("deeper/../../out", OUTSIDE),
            (folder.at("out").to_str().unwrap(), OUTSIDE),
            (".bashrc", IS_HIDDEN),
            (".ssh/keys", IS_HIDDEN),
            ("link", IS_LINK),
            ("dangling", IS_LINK),
            ("up/out", IS_LINK),
        ] {
            assert_eq!(folder.write(path).unwrap_err(), reason, "{path}");
            assert!(read_inside(&folder.at("in"), Path::new(path)).is_err(), "{path}");
        }
        for path in ["", "/", ".", "deeper", "deeper/", "file/", "missing/file"] {
            assert!(folder.write(path).is_err(), "{path}");
        }
        assert_eq!(folder.text("out"), "old");
        assert!(!folder.at("in/nowhere").exists());
        for path in ["file", "./file", "deeper/file"] {
            folder.write(path).unwrap();
            assert_eq!(read_inside(&folder.at("in"), Path::new(path)).unwrap(), b"new");
        }
        // Nothing but these is there: no temporary file.
        assert_eq!(fs::read_dir(folder.at("in/deeper")).unwrap().count(), 1);
    }

    #[test]
    fn a_replaced_file_is_another_one_which_cannot_be_executed() {
        let folder = Folder::new("replaced");
        fs::write(folder.at("in/file"), "old").unwrap();
        fs::hard_link(folder.at("in/file"), folder.at("hard")).unwrap();
        fs::set_permissions(folder.at("in/file"), fs::Permissions::from_mode(0o750)).unwrap();
        folder.write("file").unwrap();
        assert_eq!((folder.text("hard"), folder.text("in/file")), ("old".to_owned(), "new".to_owned()));
        assert_eq!(fs::metadata(folder.at("in/file")).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn a_pipe_that_nobody_serves_is_refused_at_once() {
        let folder = Folder::new("pipe");
        folder.pipe("in/pipe");
        let path = folder.at("in/pipe");
        assert_eq!(folder.write("pipe").unwrap_err(), NO_FILE);
        assert_eq!(write_anywhere(&path, b"new", Creation::Allowed).unwrap_err().to_string(), NO_FILE);
        assert!(write_atomically(&path, b"new").is_err());
        assert_eq!(read_inside(&folder.at("in"), Path::new("pipe")).unwrap_err().to_string(), NO_FILE);
        assert_eq!(read(&path).unwrap_err().to_string(), NO_FILE);
    }

    #[test]
    fn a_link_in_the_place_of_an_operators_file_is_replaced() {
        let folder = Folder::new("link");
        symlink(folder.at("out"), folder.at("in/link")).unwrap();
        write_atomically(&folder.at("in/link"), b"new").unwrap();
        assert_eq!((folder.text("out"), folder.text("in/link")), ("old".to_owned(), "new".to_owned()));
    }
}
