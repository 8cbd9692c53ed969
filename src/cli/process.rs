//! The process around a server: the background, its parent, its pid file, signals.

use std::ffi::OsString;
use std::future::poll_fn;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::task::Poll;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{PidfdFlags, getppid, pidfd_open, set_parent_process_death_signal, setsid};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::clients::instance::Instance;

/// Tells the process in the background that it is the one.
const IN_BACKGROUND: &str = "REDOUBLE_IN_BACKGROUND";

pub(super) fn is_in_background() -> bool {
    std::env::var_os(IN_BACKGROUND).is_some()
}

/// Starts this program once more, without a terminal, and leaves the serving to it.
///
/// Where C forks, a program in Rust is started anew: no thread, lock or file of this one can be half carried over.
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

/// Tells a process that it is to become a command, and which process that command is to end with.
const FOLLOWED: &str = "REDOUBLE_FOLLOWED";

/// The process to end with, if this one was started to become a command.
pub(super) fn followed() -> Option<String> {
    std::env::var(FOLLOWED).ok()
}

/// A command that ends together with this process, however this process ends: killed without a chance to pass that on, too.
///
/// Only a process itself can ask the kernel for that, so this program is started once more, asks, and then becomes the
/// command.
pub(super) fn companion(command: &[OsString]) -> tokio::process::Command {
    let mut child = tokio::process::Command::new("/proc/self/exe");
    child.args(command).env(FOLLOWED, std::process::id().to_string());
    child
}

/// Becomes the command that these words are. Only returns if that fails.
pub(super) fn replace_itself(parent: &str, words: &[OsString]) -> io::Error {
    let Some((program, arguments)) = words.split_first() else { return io::ErrorKind::InvalidInput.into() };
    if let Err(error) = set_parent_process_death_signal(Some(rustix::process::Signal::TERM)) {
        return error.into();
    }
    // It may have ended before anything was asked.
    if getppid().is_none_or(|now| now.as_raw_nonzero().to_string() != parent) {
        return io::ErrorKind::BrokenPipe.into();
    }
    Command::new(program).args(arguments).env_remove(FOLLOWED).exec()
}

/// Leaves the terminal and the process group that this process was started in.
pub(super) fn detach() {
    // Only fails for the leader of a group, which has no need of it.
    let _ = setsid();
}

/// A file that tells others about the running server (its pid, its port), and goes when the server does.
pub(super) struct Notice {
    path: PathBuf,
}

impl Notice {
    /// Writes numbers there, one in each line.
    pub(super) fn put_up(path: PathBuf, numbers: impl IntoIterator<Item = u32>) -> io::Result<Self> {
        let lines: String = numbers.into_iter().map(|number| format!("{number}\n")).collect();
        crate::base::files::write_atomically(&path, lines.as_bytes())?;
        Ok(Self { path })
    }

    pub(super) fn take_down(self) {
        // Somebody may have cleaned up already.
        let _ = std::fs::remove_file(self.path);
    }
}

/// Ends the server when the process does that started this one.
pub(super) fn follow_parent(instance: Arc<Instance>) -> io::Result<()> {
    watch_parent(move || {
        instance.log.warn("The process that started this one has ended, shutting down...");
        instance.shut_down();
    })
}

/// Calls `on_end` when the process ends that started this one. Watching takes a thread that does nothing else.
///
/// The kernel could send a signal instead, but does so already when the thread ends that started this process.
pub(super) fn watch_parent(on_end: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let parent = getppid().ok_or(io::ErrorKind::Unsupported)?;
    let handle = pidfd_open(parent, PidfdFlags::empty())?;
    let watch = move || {
        // Unless it ended before it could be watched, wait: a handle of a process can be read once the process is over.
        while getppid() == Some(parent) && poll(&mut [PollFd::new(&handle, PollFlags::IN)], None).is_err() {}
        on_end();
    };
    std::thread::Builder::new().name("redouble-parent".into()).spawn(watch).map(drop)
}

/// The signals that a server answers. From the time this is made they no longer end the process.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// Only caught, so that it changes nothing.
    _hangup: Signal,
}

impl Signals {
    /// To be called inside an event loop.
    pub(super) fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            _hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Ends the server on SIGTERM and SIGINT; a second SIGINT ends the process at once.
    pub(super) async fn answer(mut self, instance: Arc<Instance>) {
        let mut asked = false;
        loop {
            let name = poll_fn(|cx| {
                if self.terminate.poll_recv(cx).is_ready() {
                    return Poll::Ready("SIGTERM");
                }
                self.interrupt.poll_recv(cx).map(|_| "SIGINT")
            })
            .await;
            if asked && name == "SIGINT" {
                instance.log.signal("You insist... exiting now.");
                std::process::exit(1);
            }
            asked = true;
            instance.log.signal(&format!("Received {name} scheduling shutdown..."));
            instance.shut_down();
        }
    }
}
