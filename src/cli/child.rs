//! The command of `run` and `explore`: a child process that ends with this process.

use std::ffi::OsString;
use std::future::{Future, poll_fn};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::pin::pin;
use std::process::{Command, ExitCode, ExitStatus};
use std::task::Poll;

use rustix::process::{Pid, Signal, getpgrp, getppid, kill_process};
use rustix::termios::tcgetpgrp;

use super::print_error;
use super::process::own_program;
use super::signals::ForwardedSignals;
use super::subcommand::Subcommand;
use crate::base::error::plain;

/// Set for the process that is about to become the command: the pid of the process that the command ends with.
const PARENT_TO_END_WITH: &str = "REDOUBLE_FOLLOWED";

/// What shells add to the number of the signal that has ended a command.
const SIGNAL_STATUS: i32 = 128;

pub(super) fn parent_to_end_with() -> Option<String> {
    std::env::var(PARENT_TO_END_WITH).ok()
}

/// A command that ends together with this process, even if this process is killed.
///
/// Only a process itself can ask the kernel for that. So this program is started once more, asks, and becomes the command.
pub(super) fn child_command(words: &[OsString]) -> io::Result<tokio::process::Command> {
    let mut child = tokio::process::Command::new(own_program()?);
    child.args(words).env(PARENT_TO_END_WITH, std::process::id().to_string());
    Ok(child)
}

/// Becomes the command that these words are. Returns only if that fails.
pub(super) fn become_command(parent: &str, words: &[OsString]) -> ExitCode {
    let Some((program, arguments)) = words.split_first() else {
        return ExitCode::from(Subcommand::Run.failure_status());
    };
    let error = exec(parent, program, arguments);
    let name = Path::new(program).display();
    print_error(format!("redouble: {name}: {}", plain(&error)).as_bytes());
    // As in shells: there is no such command, or it cannot be run.
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}

fn exec(parent: &str, program: &OsString, arguments: &[OsString]) -> io::Error {
    if let Err(error) = end_with_parent() {
        return error;
    }
    // The parent may have ended before the kernel was asked.
    if getppid().is_none_or(|now| now.as_raw_nonzero().to_string() != parent) {
        return io::ErrorKind::BrokenPipe.into();
    }
    Command::new(program).args(arguments).env_remove(PARENT_TO_END_WITH).exec()
}

/// Asks for a signal at the end of the parent. What this process becomes keeps it.
#[cfg(target_os = "linux")]
fn end_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?)
}

/// No other system has such a signal, so the command outlives a killed `redouble run` there. The server does not.
#[cfg(not(target_os = "linux"))]
fn end_with_parent() -> io::Result<()> {
    Ok(())
}

/// Waits for the command to end, and passes signals on to it.
pub(super) async fn wait(mut child: tokio::process::Child, signals: &mut ForwardedSignals) -> io::Result<ExitStatus> {
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let mut ended = pin!(child.wait());
    poll_fn(|cx| {
        while let Poll::Ready(signal) = signals.poll(cx) {
            // The pid stays the command's until `ended` is ready, even if the command has ended.
            if let Some(pid) = pid
                && !was_sent_to_group(signal)
            {
                let _ = kill_process(pid, signal);
            }
        }
        ended.as_mut().poll(cx)
    })
    .await
}

/// Whether a signal most likely came from the keyboard. Then the whole foreground group got it, the command included, and
/// many programs take a second one for impatience.
fn was_sent_to_group(signal: Signal) -> bool {
    matches!(signal, Signal::INT | Signal::QUIT)
        && std::fs::File::open("/dev/tty").is_ok_and(|tty| tcgetpgrp(tty).is_ok_and(|group| group == getpgrp()))
}

/// The status that a shell would have for the command.
pub(super) fn shell_status(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| SIGNAL_STATUS + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(Subcommand::Run.failure_status())
}

/// The status that a shell would have for a command that this signal has ended.
pub(super) fn signal_status(signal: Signal) -> u8 {
    u8::try_from(SIGNAL_STATUS + signal.as_raw()).unwrap_or(Subcommand::Run.failure_status())
}
