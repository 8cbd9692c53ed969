//! `redouble run`: a server for as long as one command runs.
//!
//! The server is in this very process, so that it cannot outlive it. The command is this process's child, and ends with
//! it, too, should it be killed.

use std::ffi::OsString;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::pin::pin;
use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::process::{Pid, Signal, getpgrp, kill_process};
use rustix::termios::tcgetpgrp;
use tokio::signal::unix::{self, SignalKind, signal};

use super::arguments::Run;
use super::audit::{Audit, Numbered, write_journals, write_pages};
use super::judging::settle_output;
use super::process::{self, Notice};
use super::recorded::FOUND;
use super::report::{Report, say};
use super::verdict::Recorded;
use super::{Start, complain, enter_directory, make_room};
use crate::base::clock::Clock;
use crate::base::error::plain;
use crate::base::log::Log;
use crate::base::profile::Profile;
use crate::clients::config::{Config, LoadError, Loaded, load_over};
use crate::clients::instance::Instance;
use crate::server::{Builder, Server};

/// The status of `redouble run` itself when it fails, as opposed to the command: that of `timeout` and `docker run`.
pub(super) const OWN_FAILURE: u8 = 125;

/// What shells add to the number of the signal that has ended a command.
const KILLED_BY: i32 = 128;

impl Start {
    /// Runs a server and a command; returns the command's status.
    pub(super) fn run(self, run: Run) -> ExitCode {
        match self.try_run(run) {
            Ok(status) => ExitCode::from(status),
            Err(reason) => {
                let _ = complain(format!("redouble run: {reason}").as_bytes());
                ExitCode::from(OWN_FAILURE)
            }
        }
    }

    /// What the server is to be like, from its own directory; it is silent unless it is to log into a file.
    pub(super) fn prepare(&self, run: &Run) -> Result<(Config, Profile, Arc<Log>), String> {
        let Loaded { config, profile } = self.configure(run)?;
        enter_directory(&config)?;
        let log = match config.path("logfile") {
            Some(path) => Log::file(&path).map_err(|error| format!("can't open the log file: {}", plain(&error)))?,
            None => Log::silent(),
        };
        self.greet(&log, &profile, true);
        Ok((config, profile, Arc::new(log)))
    }

    fn try_run(&self, mut run: Run) -> Result<u8, String> {
        // Where the command is to be, whatever `--dir` makes of the server's place.
        let here = std::env::current_dir().map_err(|error| plain(&error))?;
        // These are meant relative to that, too.
        let audit = run.audit.as_ref().map(Audit::new).transpose()?;
        let mut journal_out = run.journal_out.clone();
        journal_out.as_mut().map(settle_output).transpose()?;
        let mut report_html = run.report_html.clone();
        report_html.as_mut().map(settle_output).transpose()?;
        if let Some(audit) = &audit {
            run.sources.flags.extend(audit.directives());
        }
        let (config, profile, log) = self.prepare(&run)?;
        if journal_out.is_some() || report_html.is_some() {
            config.assign("journal", "yes");
        }
        let (pid_file, port_file) = (config.path("pidfile"), config.path("port-file"));
        let follows_parent = config.is_on("exit-with-parent");
        let port = config.number("port");
        let events = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let events = events.map_err(|error| plain(&error))?;
        let _inside = events.enter();
        let mut signals = Signals::catch().map_err(|error| format!("signals cannot be caught: {}", plain(&error)))?;
        // Port 0 is any free one, also beside a unix socket: a command finds its server by the port.
        let builder = Builder::from_config(config, profile, Arc::clone(&log)).port(port);
        let servers = builder.spawn_all().map_err(|error| error.to_string())?;
        let port_of = |server: &Server| u32::from(server.address().map_or(0, |address| address.port()));
        let notices = [
            pid_file.map(|path| Notice::put_up(path, [std::process::id()])),
            port_file.map(|path| Notice::put_up(path, servers.iter().map(port_of))),
        ];
        let mut put_up = Vec::new();
        for notice in notices.into_iter().flatten() {
            put_up.push(notice.map_err(|error| format!("a file cannot be written: {}", plain(&error)))?);
        }
        if follows_parent {
            let itself = rustix::process::getpid();
            let end = move || {
                // A signal to oneself always arrives.
                let _ = kill_process(itself, Signal::TERM);
            };
            process::watch_parent(end).map_err(|error| format!("exit-with-parent: {}", plain(&error)))?;
        }
        let child = process::companion(&run.command).current_dir(here).envs(environment(&servers)).spawn();
        let child = child.map_err(|error| format!("the command cannot be started: {}", plain(&error)))?;
        // Only now, because the command inherits the limit of open files.
        all(&servers).iter().for_each(|(_, instance)| make_room(&instance.config, &log));
        let status = events.block_on(wait(child, &mut signals)).map_err(|error| plain(&error))?;
        let numbered = all(&servers);
        let instances: Vec<Arc<Instance>> = numbered.iter().map(|(_, instance)| Arc::clone(instance)).collect();
        if audit.is_some() || journal_out.is_some() || report_html.is_some() {
            events.block_on(goodbyes(&instances));
        }
        drop(servers);
        put_up.into_iter().for_each(Notice::take_down);
        let report = Report::of(&instances);
        if run.report {
            report.print();
        }
        let mut statuses = vec![status_of(status)];
        if audit.is_some() {
            report.print_silence();
        }
        if run.strict && !report.is_clean() {
            report.print_faults(run.report);
            statuses.push(1);
        }
        let recorded = match (&journal_out, &run.journal_out) {
            (Some(path), Some(called)) => write_journals(path, called, &numbered),
            _ => Ok(Vec::new()),
        };
        let page = report_html.map_or(Ok(()), |path| {
            let scope = audit.as_ref().map(Audit::scope).unwrap_or_default();
            write_pages(&path, &numbered, &scope)
        });
        match conclude(audit, &numbered, recorded).and_then(|status| page.map(|()| status)) {
            Ok(status) => statuses.push(status),
            Err(reason) => {
                say(&reason);
                statuses.push(OWN_FAILURE);
            }
        }
        // What the command itself has to say about failing goes first.
        Ok(statuses.into_iter().find(|status| *status != 0).unwrap_or(0))
    }

    /// The configuration that the flags and the file come to, for a server that listens on any free port unless they say
    /// otherwise.
    pub(super) fn configure(&self, run: &Run) -> Result<Loaded, String> {
        let path = |path: &Path| std::path::absolute(path).map_err(|error| plain(&error));
        let file = run.sources.file.as_deref().map(path).transpose()?;
        let mut text = Vec::new();
        if let Some(file) = &file {
            text = std::fs::read(file)
                .map_err(|error| format!("can't open config file '{}': {}", file.display(), plain(&error)))?;
        }
        text.push(b'\n');
        text.extend_from_slice(&run.sources.flags);
        let config = Config::default();
        config.assign("port", "0");
        let loaded = load_over(config, &text, file, self.profile);
        let loaded = loaded.map_err(|LoadError { line, reason, .. }| match line {
            Some((_, line)) => format!("{reason}, in '{}'", String::from_utf8_lossy(&line)),
            None => reason.into_owned(),
        })?;
        if loaded.config.is_on("daemonize") {
            return Err("with --daemonize there would be nobody to wait for the command".to_owned());
        }
        Ok(loaded)
    }
}

/// The servers with all their spaces.
fn all(servers: &[Server]) -> Vec<Numbered> {
    (1..)
        .zip(servers)
        .flat_map(|(number, server)| server.instances().into_iter().map(move |one| (number, one)))
        .collect()
}

/// Waits until the servers have seen that the command's connections are gone, with all that was sent on them; not for ever,
/// because others may be connected.
async fn goodbyes(instances: &[Arc<Instance>]) {
    const STEP: Duration = Duration::from_millis(1);
    const STEPS: usize = 500;
    for _ in 0..STEPS {
        if instances.iter().all(|instance| instance.clients.is_empty()) {
            break;
        }
        Clock::sleep(STEP).await;
    }
}

/// Says what the audit has come to, if there is one; the status that this makes.
fn conclude(audit: Option<Audit>, servers: &[Numbered], recorded: Result<Vec<Recorded>, String>) -> Result<u8, String> {
    let (recorded, unwritten) = match recorded {
        Ok(recorded) => (recorded, Ok(())),
        Err(reason) => (Vec::new(), Err(reason)),
    };
    let Some(audit) = audit else { return unwritten.map(|()| 0) };
    let verdict = audit.judge(servers, recorded);
    verdict.lines().iter().chain(&verdict.notices()).for_each(|line| say(line));
    verdict.annotate(io::stdout());
    let failure = verdict.failure();
    if let Some(failure) = &failure {
        say(&format!("failed because of {failure} (--audit)"));
    }
    unwritten.and(verdict.write())?;
    Ok(if failure.is_some() { FOUND } else { 0 })
}

/// What tells the command where the servers are.
pub(super) fn environment(servers: &[Server]) -> Vec<(&'static str, String)> {
    // With no name in front of the password, redis-cli gives an empty one.
    let urls: Vec<String> =
        servers.iter().map(|server| server.url().replacen("redis://:", "redis://default:", 1)).collect();
    let mut variables = vec![("REDIS_URLS", urls.join(","))];
    variables.extend(urls.into_iter().next().map(|url| ("REDIS_URL", url)));
    if let Some(address) = servers.first().and_then(Server::address) {
        variables.push(("REDIS_HOST", host(address).to_string()));
        variables.push(("REDIS_PORT", address.port().to_string()));
    }
    variables
}

/// Where a server can be reached that listens at an address.
fn host(address: SocketAddr) -> IpAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

/// Waits for the command to end, and passes signals on to it.
async fn wait(mut child: tokio::process::Child, signals: &mut Signals) -> io::Result<ExitStatus> {
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let mut ended = pin!(child.wait());
    poll_fn(|cx| {
        while let Poll::Ready(signal) = signals.poll(cx) {
            // Until the wait is over, the number is the command's, even if it has ended.
            if let Some(pid) = pid
                && !has_it_already(signal)
            {
                let _ = kill_process(pid, signal);
            }
        }
        ended.as_mut().poll(cx)
    })
    .await
}

/// Whether a signal most likely came from the keyboard: then everybody in the foreground got it, the command included, and
/// many a program takes the second one for impatience.
fn has_it_already(signal: Signal) -> bool {
    matches!(signal, Signal::INT | Signal::QUIT)
        && std::fs::File::open("/dev/tty").is_ok_and(|tty| tcgetpgrp(tty).is_ok_and(|group| group == getpgrp()))
}

pub(super) fn status_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| KILLED_BY + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(OWN_FAILURE)
}

/// The signals that are meant for the command.
pub(super) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    pub(super) fn catch() -> io::Result<Self> {
        let kinds = [
            (Signal::TERM, SignalKind::terminate()),
            (Signal::INT, SignalKind::interrupt()),
            (Signal::HUP, SignalKind::hangup()),
            (Signal::QUIT, SignalKind::quit()),
            (Signal::USR1, SignalKind::user_defined1()),
            (Signal::USR2, SignalKind::user_defined2()),
        ];
        kinds.into_iter().map(|(name, kind)| Ok((name, signal(kind)?))).collect::<io::Result<_>>().map(Self)
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Signal> {
        let come = self.0.iter_mut().find_map(|(name, signal)| signal.poll_recv(cx).is_ready().then_some(*name));
        come.map_or(Poll::Pending, Poll::Ready)
    }
}

/// What this program does when it was started to become the command.
pub(super) fn become_command(parent: &str, arguments: &[OsString]) -> ExitCode {
    let Some((program, _)) = arguments.split_first() else { return ExitCode::from(OWN_FAILURE) };
    let error = process::replace_itself(parent, arguments);
    let name = Path::new(program).display();
    let _ = complain(format!("redouble: {name}: {}", plain(&error)).as_bytes());
    // As shells have it: there is no such command, or it cannot be run.
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}
