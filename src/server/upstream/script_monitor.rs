//! What scripts did on a real server, as its MONITOR shows it.
//!
//! [`ScriptMonitor`] keeps a connection with MONITOR. A script passes alone, and its reply is held until everything that the
//! server fed before is here: a PING on the same connection has its answer behind all lines of commands that were over before.
//! If MONITOR is gone, or does not answer soon, the script's reply passes, and what it did is told from its text and reply.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::ReadBuf;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;

use super::Target;
use super::connection::{ProxyConnection, Scratch};
use super::control::ControlConnection;
use super::requests::Request;
use crate::base::clock::Clock;
use crate::base::error::plain;
use crate::base::log::Log;
use crate::base::sync::MutexExt;
use crate::clients::session::Replies;
use crate::engine::{Engine, Follows, Own, Waiting, is_error, runs_script};
use crate::powers::{Hook, MonitorReader, MonitoredScripts};
use crate::server::stream::Stream;
use crate::spec::Table;

/// The longest that a script's reply is held.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two attempts to have MONITOR.
const PAUSE: Duration = Duration::from_secs(1);
/// The most bytes per read.
const READ: usize = 64 * 1024;

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

type Asker = oneshot::Sender<()>;

/// The MONITOR of one server, which the connections of all its clients share.
pub(in crate::server) struct ScriptMonitor {
    scripts: Mutex<MonitoredScripts>,
    /// MONITOR is there, and answers.
    is_on: AtomicBool,
    /// Those who wait until everything is here that was fed before.
    askers: UnboundedSender<Asker>,
    address: String,
    table: Table,
    log: Arc<Log>,
}

impl ScriptMonitor {
    /// Starts, if that was asked for. `target` says where the server is now.
    pub(in crate::server) fn start(
        target: impl Fn() -> Arc<Target> + Send + 'static,
        engine: &Engine,
        events: &Handle,
    ) -> Option<Arc<Self>> {
        engine.instance.upstream.as_ref().filter(|upstream| upstream.monitors_scripts)?;
        let (askers, asked) = mpsc::unbounded_channel();
        let monitor = Arc::new(Self {
            scripts: Mutex::default(),
            is_on: AtomicBool::new(false),
            askers,
            address: target().address(),
            table: engine.table.clone(),
            log: Arc::clone(&engine.instance.log),
        });
        events.spawn(Arc::clone(&monitor).run(target, asked));
        Some(monitor)
    }

    fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    fn scripts(&self) -> MutexGuard<'_, MonitoredScripts> {
        self.scripts.lock_ignoring_poison()
    }

    /// Whether everything is here that the server had fed before this call. `false` if nobody knows.
    fn catch_up(self: &Arc<Self>) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        let (asker, answer) = oneshot::channel();
        let is_asked = self.askers.send(asker).is_ok();
        let monitor = Arc::clone(self);
        Box::pin(async move {
            match Clock::within(PATIENCE, answer).await {
                Some(answer) => is_asked && answer.is_ok(),
                None => {
                    // The next scripts need not wait in vain.
                    if monitor.is_on.swap(false, Ordering::Relaxed) {
                        monitor.warn(
                            "MONITOR does not answer; until it does, what scripts did is told from their replies",
                        );
                    }
                    false
                }
            }
        })
    }

    fn warn(&self, text: &str) {
        self.log.warn(format!("Upstream {}: {text}", self.address));
    }

    async fn run(self: Arc<Self>, target: impl Fn() -> Arc<Target>, mut asked: UnboundedReceiver<Asker>) {
        let mut last_reason = String::new();
        loop {
            match self.begin(&target()).await {
                Ok(mut feed) => {
                    self.is_on.store(true, Ordering::Relaxed);
                    self.log.notice(format!(
                        "Upstream {}: MONITOR tells what scripts did. It costs the server more than half of its throughput \
                         of small commands, and each script waits for one more round trip.",
                        self.address
                    ));
                    let reason = plain(&poll_fn(|cx| feed.poll(cx, &self, &mut asked)).await);
                    self.is_on.store(false, Ordering::Relaxed);
                    self.warn(&format!(
                        "the connection with MONITOR is lost: {reason}; until it is back, what scripts did is told from \
                         their replies"
                    ));
                    last_reason.clear();
                }
                Err(reason) if reason == last_reason => {}
                Err(reason) => {
                    self.warn(&format!(
                        "upstream-scripts monitor does not work: {reason}; until it does, what scripts did is told from \
                         their replies"
                    ));
                    last_reason = reason;
                }
            }
            // Nobody answers those who have asked.
            while asked.try_recv().is_ok() {}
            Clock::sleep(PAUSE).await;
        }
    }

    async fn begin(&self, target: &Target) -> Result<Feed, String> {
        let mut connection = ControlConnection::open(target).await?;
        connection.run(&[b"MONITOR"]).await?;
        let (stream, read) = connection.into_parts();
        let mut feed = Feed {
            stream,
            input: vec![0; READ],
            output: Vec::new(),
            reader: MonitorReader::default(),
            askers: VecDeque::new(),
        };
        self.scripts().begin_anew();
        feed.take(&read, self);
        Ok(feed)
    }
}

/// The connection on which MONITOR is.
struct Feed {
    stream: Stream,
    input: Vec<u8>,
    output: Vec<u8>,
    reader: MonitorReader,
    /// For each PING that has no answer, those who wait for it.
    askers: VecDeque<Vec<Asker>>,
}

impl Feed {
    /// Ready when the connection has ended.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        monitor: &ScriptMonitor,
        asked: &mut UnboundedReceiver<Asker>,
    ) -> Poll<io::Error> {
        let mut askers = Vec::new();
        while let Poll::Ready(Some(asker)) = asked.poll_recv(cx) {
            askers.push(asker);
        }
        if !askers.is_empty() {
            self.output.extend_from_slice(PING);
            self.askers.push_back(askers);
        }
        if let Poll::Ready(Err(error)) = self.poll_flush(cx) {
            return Poll::Ready(error);
        }
        loop {
            let mut input = std::mem::take(&mut self.input);
            let read = self.stream.poll_read(cx, &mut ReadBuf::new(&mut input));
            if let Poll::Ready(Ok(count @ 1..)) = read {
                self.take(&input[..count], monitor);
            }
            self.input = input;
            match ready!(read) {
                Ok(0) => return Poll::Ready(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) => return Poll::Ready(error),
            }
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.output.is_empty() {
            let written = ready!(self.stream.poll_write(cx, &self.output))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.output.drain(..written);
        }
        self.stream.poll_flush(cx)
    }

    fn take(&mut self, bytes: &[u8], monitor: &ScriptMonitor) {
        let mut scripts = monitor.scripts();
        let mut answers = 0;
        self.reader.feed(bytes, |line| match line {
            Ok(line) => {
                scripts.add(line, |words| monitor.table.row_of(words).is_some_and(|row| runs_script(row.spec)));
            }
            // An error tells the same: a server that is busy, or does not let this user run PING.
            Err(line) if line.starts_with(b"+PONG") || line.starts_with(b"-") => answers += 1,
            Err(_) => {}
        });
        drop(scripts);
        for askers in (0..answers).filter_map(|_| self.askers.pop_front()) {
            monitor.is_on.store(true, Ordering::Relaxed);
            for asker in askers {
                // Who asked may have gone.
                let _ = asker.send(());
            }
        }
    }
}

/// The address under which MONITOR shows a client.
#[derive(Default)]
pub(super) enum SeenAs {
    #[default]
    Unasked,
    /// The server has not let the client in yet.
    Refused,
    Address(Box<[u8]>),
}

/// The reply of a script that waits for what MONITOR shows.
pub(super) struct AwaitedCalls {
    pub(super) reply: Vec<u8>,
    /// When it arrived.
    arrived: i64,
    feed: Pin<Box<dyn Future<Output = bool> + Send>>,
}

/// Whether MONITOR is to tell what a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Monitoring {
    Off,
    On,
    /// It waits for others before it.
    Hold,
}

impl ProxyConnection {
    /// Whether MONITOR is to tell what a request does. If so, all commands before it have their replies.
    #[inline]
    pub(super) fn monitoring(&mut self, request: &Request<'_>, scratch: &mut Scratch) -> Monitoring {
        match self.script_monitor.as_ref().map(|monitor| monitor.is_on()) {
            None => Monitoring::Off,
            Some(is_on) => self.monitoring_of(request, is_on, scratch),
        }
    }

    fn monitoring_of(&mut self, request: &Request<'_>, is_on: bool, scratch: &mut Scratch) -> Monitoring {
        let is_awaited = matches!(self.passed.front_mut(), Some(Waiting::Command(command)) if command.is_monitored);
        if is_awaited || self.awaits_calls() {
            return Monitoring::Hold;
        }
        if !is_on || self.session.replies != Replies::On || !self.engine.instance.active_hooks.has(Hook::Journal) {
            return Monitoring::Off;
        }
        let follows = self.follows(&request.resolved, request.words);
        let is_relevant = match follows {
            Follows::Script => {
                let row = self.engine.table.row_of(request.words);
                !self.in_multi && row.is_some_and(|row| runs_script(row.spec))
            }
            // Nothing can be asked inside.
            Follows::Multi => !self.in_multi && !matches!(self.seen_as, SeenAs::Address(_)),
            Follows::Exec => self.in_multi,
            _ => false,
        };
        if !is_relevant {
            return Monitoring::Off;
        }
        if !self.passed.is_empty() {
            return Monitoring::Hold;
        }
        match self.seen_as {
            SeenAs::Unasked if self.session.transaction.is_none() => {
                self.send_own(Own::Address, &[b"CLIENT", b"INFO"], scratch);
                Monitoring::Hold
            }
            SeenAs::Refused => {
                self.seen_as = SeenAs::Unasked;
                Monitoring::Off
            }
            SeenAs::Address(_) if follows == Follows::Script || self.engine.has_queued_script(&self.session) => {
                Monitoring::On
            }
            SeenAs::Unasked | SeenAs::Address(_) => Monitoring::Off,
        }
    }

    /// The server has told how it sees the client: `id=3 addr=127.0.0.1:50000 …`.
    pub(super) fn note_address(&mut self, reply: &[u8]) {
        let told = memchr::memmem::find(reply, b" addr=").map(|at| &reply[at + b" addr=".len()..]);
        let told = told.and_then(|rest| rest.split(u8::is_ascii_whitespace).next()).filter(|_| !is_error(reply));
        // Servers before 6.2, and those whose user may not ask, do not say. Behind an address translation, nothing is found
        // then.
        let address = told.map(<[u8]>::to_vec).or_else(|| Some(self.local_address()?.to_string().into_bytes()));
        self.seen_as = match address {
            Some(address) if !reply.starts_with(b"-NOAUTH") => SeenAs::Address(address.into()),
            _ => SeenAs::Refused,
        };
    }

    /// A command passes now. `is_monitored`: MONITOR is to tell what it does.
    pub(super) fn begin_monitoring(&self, is_monitored: bool) {
        if let (true, Some(monitor), SeenAs::Address(address)) =
            (is_monitored, self.script_monitor.clone(), &self.seen_as)
        {
            monitor.scripts().watch(address);
        }
    }

    /// Nothing of the client's scripts is to be told any more.
    pub(super) fn end_monitoring(&self) {
        if let (Some(monitor), SeenAs::Address(address)) = (self.script_monitor.clone(), &self.seen_as) {
            monitor.scripts().forget(address);
        }
    }

    pub(super) fn awaits_calls(&self) -> bool {
        self.awaited_calls.is_some()
    }

    /// The first command has its reply. Returns whether it waits for what MONITOR shows.
    pub(super) fn wait_for_calls(&mut self, reply: &[u8], now: i64) -> bool {
        let Some(Waiting::Command(command)) = self.passed.front_mut() else { return false };
        // Once.
        if !std::mem::take(&mut command.is_monitored) {
            return false;
        }
        let Some(monitor) = self.script_monitor.clone() else { return false };
        let awaited = AwaitedCalls { reply: reply.to_vec(), arrived: now, feed: monitor.catch_up() };
        self.awaited_calls = Some(Box::new(awaited));
        true
    }

    /// Ends a script of which MONITOR has shown everything, or nothing soon, and goes on with what is behind it.
    pub(super) fn poll_calls(&mut self, cx: &mut Context<'_>, scratch: &mut Scratch) {
        let Some(awaited) = &mut self.awaited_calls else { return };
        let Poll::Ready(is_whole) = awaited.feed.as_mut().poll(cx) else { return };
        let Some(awaited) = self.awaited_calls.take() else { return };
        let AwaitedCalls { reply, arrived, .. } = *awaited;
        self.engine.begin_batch(&mut self.session, &mut scratch.fibers);
        let mut is_intercepted = false;
        if let (Some(Waiting::Command(command)), Some(monitor), SeenAs::Address(address)) =
            (self.passed.front_mut(), self.script_monitor.clone(), &self.seen_as)
        {
            is_intercepted = command.is_intercepted;
            let requests = self.engine.scripts_of(&self.session, command);
            let calls = monitor.scripts().take(address, &requests);
            if is_whole {
                command.calls = calls;
            }
        }
        if !is_intercepted {
            self.to_client.push(&reply, &mut scratch.spare);
        }
        self.end_command(&reply, arrived, scratch);
        if self.session.in_flight.trace.staging.has_memory() {
            self.engine.end_batch(&mut self.session, &mut scratch.fibers);
        }
        let unheard = std::mem::take(&mut self.unheard);
        self.hear(&unheard, scratch);
        self.run_held(scratch);
    }
}
