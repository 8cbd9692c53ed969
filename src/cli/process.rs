//! The server's own process: the background, systemd, and the parent whose end it may share.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{PidfdFlags, getppid, pidfd_open, setsid};

use crate::clients::instance::Instance;

/// Set for the process in the background.
const IN_BACKGROUND: &str = "REDOUBLE_IN_BACKGROUND";

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
    let mut child = Command::new(std::env::current_exe()?)
        .arg0(program)
        .args(arguments)
        .current_dir(directory)
        .env(IN_BACKGROUND, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    match child.stdin.take() {
        Some(mut input) => input.write_all(standard_input),
        None => Ok(()),
    }
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
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"STATUS=Ready to accept connections\nREADY=1\n", &address).map(drop)
}

/// Calls `on_end` when the parent of this process ends. A thread of its own waits for that.
///
/// The kernel's signal is no alternative: it is already sent when the thread ends that started this process.
pub(super) fn watch_parent(on_end: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let parent = getppid().ok_or(io::ErrorKind::Unsupported)?;
    let handle = pidfd_open(parent, PidfdFlags::empty())?;
    let watch = move || {
        // The handle becomes readable when the parent ends; the comparison covers an end before the handle was opened.
        while getppid() == Some(parent) && poll(&mut [PollFd::new(&handle, PollFlags::IN)], None).is_err() {}
        on_end();
    };
    std::thread::Builder::new().name("redouble-parent".into()).spawn(watch).map(drop)
}
