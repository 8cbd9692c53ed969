//! `redouble record`: what clients do to a real server, in a file.
//!
//! A server of this process stands in front of it. The thread that started it follows the server's journal and writes.

mod journal_writer;
mod recorder;

use std::future::{Future, poll_fn};
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::process::ExitCode;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::process::Signal;

use super::child::{child_command, shell_status, signal_status, wait};
use super::command_line::CommandRun;
use super::environment::environment;
use super::outputs::{RuntimeFile, write_port_files};
use super::run::{numbered_instances, wait_for_disconnects};
use super::serve::raise_file_limit;
use super::signals::ForwardedSignals;
use super::subcommand::Subcommand;
use super::{Program, fail, print_note};
use crate::base::clock::Clock;
use crate::base::error::plain;
use crate::base::log::Log;
use crate::server::{Builder, Server};
use recorder::{Recorder, RecorderOptions, RecordingEnd};

const NO_UPSTREAM: &str = "no server to record; --upstream says where it is, as in: redouble record --upstream \
                           redis://127.0.0.1:6379 -o staging.jsonl";
const NO_FILE: &str = "no file; -o says where the journal goes, as in: redouble record --upstream \
                       redis://127.0.0.1:6379 -o staging.jsonl";

impl Program {
    /// Records until the command, the time, the size or a signal ends it; returns the command's status.
    pub(super) fn record(self, recording: CommandRun) -> ExitCode {
        match self.try_record(recording) {
            Ok(status) => ExitCode::from(status),
            Err(reason) => fail(Subcommand::Record, &reason),
        }
    }

    fn try_record(&self, mut recording: CommandRun) -> Result<u8, String> {
        // The command runs here, and paths of the subcommand's flags are relative to here, whatever `--dir` says.
        let here = std::env::current_dir().map_err(|error| plain(&error))?;
        let options = RecorderOptions::new(&recording.options).ok_or(NO_FILE)??;
        recording.config.flag_lines.extend_from_slice(b"\njournal yes\n");
        let (config, profile, log) = self.prepare_server(Subcommand::Record, &recording)?;
        if !config.has_upstream() {
            return Err(NO_UPSTREAM.to_owned());
        }
        let port = config.number("port");
        let port_file = config.path("port-file");
        let builder = Builder::from_config(config, profile, Arc::clone(&log)).port(port);
        let servers = builder.spawn_all().map_err(|error| error.to_string())?;
        let status = record_servers(&servers, options, &recording, &here, port_file);
        // That the servers end is no news.
        log.set_least(u8::MAX);
        status
    }
}

/// Records what passes these servers; returns the status.
fn record_servers(
    servers: &[Server],
    options: RecorderOptions,
    recording: &CommandRun,
    here: &Path,
    port_file: Option<PathBuf>,
) -> Result<u8, String> {
    let events = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let events = events.map_err(|error| plain(&error))?;
    let _inside = events.enter();
    let mut signals = ForwardedSignals::catch()?;
    for server in servers {
        events.block_on(server.reach_upstream()).map_err(|error| format!("cannot connect to {error}"))?;
    }
    // How many clients there may be is no news of the server that is recorded.
    let raise_limits = || {
        let silent = Log::silent();
        numbered_instances(servers).iter().for_each(|(_, instance)| raise_file_limit(&instance.config, &silent));
    };
    let instances = numbered_instances(servers);
    let mut recorder = Recorder::start(options, &instances)?;
    let ports = servers.iter().flat_map(|server| server.ports(false)).collect();
    let port_files = write_port_files([(port_file, ports)]);
    let port_files = port_files.map_err(|error| format!("a file cannot be written: {}", plain(&error)))?;
    let urls: Vec<String> = servers.iter().map(|server| server.url()).collect();
    let longest = recording.options.longest;
    let status = if recording.command.is_empty() {
        say(&format!("point your program at {}; Ctrl-C ends the recording", urls.join(" and ")));
        raise_limits();
        events.block_on(until_signal(&mut recorder, longest, &mut signals))
    } else {
        let variables = environment(servers, &recording.options.variables);
        let child =
            child_command(&recording.command).and_then(|mut command| command.current_dir(here).envs(variables).spawn());
        let child = child.map_err(|error| format!("the command cannot be started: {}", plain(&error)))?;
        // Not before the command is started, which inherits the limit of open files.
        raise_limits();
        let status = events.block_on(async {
            let mut command = pin!(wait(child, &mut signals));
            let end = until_end(&mut recorder, longest, |cx| command.as_mut().poll(cx)).await;
            if end.is_ok() {
                wait_for_disconnects(&instances).await;
            }
            // Signals are the command's.
            let interrupt = |_: &mut Context<'_>| Poll::Pending;
            let (status, own) = match end {
                Ok(status) => (status, finish(&mut recorder, None, interrupt).await),
                Err(end) => {
                    let own = finish(&mut recorder, Some(end), interrupt).await;
                    // The command goes on, and so does its server.
                    (command.await, own)
                }
            };
            // The command's own failure goes first.
            status.map(|status| if status.success() { own } else { shell_status(status) })
        });
        status.map_err(|error| plain(&error))?
    };
    port_files.into_iter().for_each(RuntimeFile::remove);
    Ok(status)
}

/// Records until a signal comes, or until the recording ends by itself; returns the status.
async fn until_signal(recorder: &mut Recorder, longest: Option<Duration>, signals: &mut ForwardedSignals) -> u8 {
    let end = until_end(recorder, longest, |cx| ending_signal(signals, cx)).await.err();
    finish(recorder, end, |cx| ending_signal(signals, cx)).await
}

/// Records until something else ends it, or until the recording ends by itself: then that is the error.
async fn until_end<T>(
    recorder: &mut Recorder,
    longest: Option<Duration>,
    mut other: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Result<T, RecordingEnd> {
    let mut time: Pin<Box<dyn Future<Output = ()>>> = match longest {
        Some(longest) => Box::pin(Clock::sleep(longest)),
        None => Box::pin(std::future::pending()),
    };
    poll_fn(|cx| {
        if let Poll::Ready(end) = recorder.poll(cx) {
            return Poll::Ready(Err(end));
        }
        if let Poll::Ready(other) = other(cx) {
            return Poll::Ready(Ok(other));
        }
        time.as_mut().poll(cx).map(|()| Err(RecordingEnd::Time))
    })
    .await
}

/// Writes what has come so far, unless nothing more can be written, and sums up; returns the status. A signal that comes
/// meanwhile ends it at once.
async fn finish(
    recorder: &mut Recorder,
    mut end: Option<RecordingEnd>,
    mut interrupt: impl FnMut(&mut Context<'_>) -> Poll<Signal>,
) -> u8 {
    if !matches!(end, Some(RecordingEnd::Size | RecordingEnd::Failed(_))) {
        recorder.stop_following();
        let rest = poll_fn(|cx| match interrupt(cx) {
            Poll::Ready(signal) => Poll::Ready(Err(signal)),
            Poll::Pending => recorder.poll_rest(cx).map(Ok),
        });
        match rest.await {
            Ok(Ok(())) => {}
            Ok(Err(late)) => end = Some(late),
            // Somebody insists.
            Err(signal) => return signal_status(signal),
        }
    }
    recorder.conclude(end)
}

/// The signal that ends a recording, if one has come.
fn ending_signal(signals: &mut ForwardedSignals, cx: &mut Context<'_>) -> Poll<Signal> {
    while let Poll::Ready(signal) = signals.poll(cx) {
        if !matches!(signal, Signal::USR1 | Signal::USR2) {
            return Poll::Ready(signal);
        }
    }
    Poll::Pending
}

fn say(line: &str) {
    print_note(Subcommand::Record, line);
}
