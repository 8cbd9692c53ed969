//! The server's own process: the background, systemd, and the parent whose end it may share.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustix::process::{Pid, getppid, setsid};

use crate::clients::instance::Instance;

/// Set for the process in the background.
const IN_BACKGROUND: &str = "REDOUBLE_IN_BACKGROUND";

/// This program's file, to start it once more.
pub(super) fn own_program() -> io::Result<PathBuf> {
    // On Linux, this link leads to the file even if another one has taken its place since.
    let link = Path::new("/proc/self/exe");
    if link.exists() {
        return Ok(link.to_owned());
    }
    // In a root without /proc, the name under which the program was started is all there is.
    std::env::current_exe().or_else(|error| std::env::args_os().next().map(PathBuf::from).ok_or(error))
}

pub(super) fn is_in_background() -> bool {
    std::env::var_os(IN_BACKGROUND).is_some()
}

/// Starts this program once more, without a terminal, to serve in place of this process.
///
/// C forks here. A Rust program starts anew, so that no thread, lock or file of this process is half carried over.
pub(super) fn go_into_background(
    program: &OsString,
    arguments: &[OsString],
    directory: &Path,
    standard_input: &[u8],
) -> io::Result<()> {
    let mut child = Command::new(own_program()?)
        .arg0(program)
        .args(arguments)
        .current_dir(directory)
        .env(IN_BACKGROUND, "1")
        .stdin(Stdio::piped())
        .stdout(discarded()?)
        .stderr(discarded()?)
        .spawn()?;
    match child.stdin.take() {
        Some(mut input) => input.write_all(standard_input),
        None => Ok(()),
    }
}

/// An output that nobody reads, also in a root without /dev/null.
fn discarded() -> io::Result<Stdio> {
    let null = File::options().write(true).open("/dev/null").map(Stdio::from);
    null.or_else(|_| io::pipe().map(|(_, writer)| Stdio::from(writer)))
}

/// Leaves the terminal and the process group that this process was started in.
pub(super) fn detach() {
    // Fails only for the leader of a group, which needs no group of its own.
    let _ = setsid();
}

/// Shuts the server down when the parent of this process ends.
pub(super) fn end_with_parent(instance: Arc<Instance>) -> io::Result<()> {
    watch_parent(move || {
        instance.log.warn("The process that started this one has ended, shutting down...");
        // Nobody is left who could be told that it failed.
        instance.save_at_signal("shutdown-on-sigterm");
        instance.shut_down();
    })
}

/// The socket on which systemd wants to be told that the server is ready, if `supervised` asks for that.
pub(super) fn supervisor(supervised: &str) -> Option<OsString> {
    matches!(supervised, "systemd" | "auto").then(|| std::env::var_os("NOTIFY_SOCKET")).flatten()
}

/// Tells systemd that the server is ready.
pub(super) fn notify_supervisor(socket: &OsStr) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => abstract_address(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"STATUS=Ready to accept connections\nREADY=1\n", &address).map(drop)
}

#[cfg(target_os = "linux")]
fn abstract_address(name: &[u8]) -> io::Result<SocketAddr> {
    <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
fn abstract_address(_: &[u8]) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Calls `on_end` when the parent of this process ends. A thread of its own waits for that.
///
/// The kernel's signal is no alternative: it is already sent when the thread ends that started this process.
pub(super) fn watch_parent(on_end: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let parent = getppid().ok_or(io::ErrorKind::Unsupported)?;
    let wait = end_of_parent(parent)?;
    let watch = move || {
        wait();
        on_end();
    };
    std::thread::Builder::new().name("redouble-parent".into()).spawn(watch).map(drop)
}

/// What waits until the parent has ended.
#[cfg(target_os = "linux")]
fn end_of_parent(parent: Pid) -> io::Result<impl FnOnce() + Send> {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::process::{PidfdFlags, pidfd_open};

    let handle = pidfd_open(parent, PidfdFlags::empty())?;
    // The handle becomes readable when the parent ends; the comparison covers an end before the handle was opened.
    Ok(move || while getppid() == Some(parent) && poll(&mut [PollFd::new(&handle, PollFlags::IN)], None).is_err() {})
}

/// The same where no file descriptor stands for a process: asks twenty times a second.
#[cfg(not(target_os = "linux"))]
fn end_of_parent(parent: Pid) -> io::Result<impl FnOnce() + Send> {
    use rustix::event::{Timespec, poll};

    const STEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    Ok(move || {
        while getppid() == Some(parent) {
            // Interrupted or not: the loop asks again.
            let _ = poll(&mut [], Some(&STEP));
        }
    })
}
