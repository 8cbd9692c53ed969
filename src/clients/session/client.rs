//! The part of a connection that the rest of the server sees: CLIENT LIST reads it, CLIENT KILL signals it.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;

use super::outbox::Outbox;
use crate::base::clock::{Alarm, Millis};
use crate::base::process::{Endpoint, Process};
use crate::base::segment::Segment;
use crate::base::sync::MutexExt;
use crate::clients::acl::User;
use crate::clients::config::OutputLimit;
use crate::data::keyspace::ValueKind;
use crate::powers::Stamp;
use crate::protocol::{OwnedWords, Protocol};
use crate::spec::{CommandSpec, ResolvedRow};

/// Where a connection comes from, and where it arrived.
#[derive(Clone, Debug)]
pub enum Peer {
    Tcp {
        peer: SocketAddr,
        local: SocketAddr,
    },
    Unix {
        path: PathBuf,
        /// The process that connected, if the system says so.
        pid: Option<u32>,
    },
}

impl Peer {
    /// `addr` as CLIENT LIST shows it.
    pub fn address(&self) -> String {
        match self {
            Self::Tcp { peer, .. } => peer.to_string(),
            Self::Unix { path, .. } => format!("{}:0", path.display()),
        }
    }

    /// `laddr` as CLIENT LIST shows it.
    pub fn local_address(&self) -> String {
        match self {
            Self::Tcp { local, .. } => local.to_string(),
            Self::Unix { path, .. } => format!("{}:0", path.display()),
        }
    }

    /// The address of the other end; `None` for a Unix socket.
    pub fn socket_address(&self) -> Option<SocketAddr> {
        match *self {
            Self::Tcp { peer, .. } => Some(peer),
            Self::Unix { .. } => None,
        }
    }

    /// The address of this end; `None` for a Unix socket.
    pub fn local_socket_address(&self) -> Option<SocketAddr> {
        match *self {
            Self::Tcp { local, .. } => Some(local),
            Self::Unix { .. } => None,
        }
    }

    /// The other end, if it is on this machine.
    pub fn endpoint(&self) -> Option<Endpoint> {
        match *self {
            Self::Tcp { peer, local } => Endpoint::tcp(peer, local),
            Self::Unix { pid, .. } => pid.map(Endpoint::Pid),
        }
    }

    pub fn is_unix(&self) -> bool {
        matches!(self, Self::Unix { .. })
    }

    /// Whether the other end is on this machine.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp { peer, .. } => match peer.ip() {
                std::net::IpAddr::V4(ip) => ip.is_loopback(),
                std::net::IpAddr::V6(ip) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
            },
            Self::Unix { .. } => true,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address())
    }
}

/// What one connection can ask of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Signal {
    /// Close at once.
    Kill = 1,
    /// CLIENT UNBLOCK: answer as if the time were up.
    UnblockTimeout = 2,
    /// CLIENT UNBLOCK ... ERROR.
    UnblockError = 4,
    /// CLIENT PAUSE is over.
    Unpause = 8,
    /// The outbox is not empty.
    Mail = 16,
    /// The server ends: write what is pending, then close.
    Close = 32,
    /// Another command has provided what it was blocked on.
    Served = 64,
    /// Its connection does what it was signalled, and has not written yet what comes of it.
    InProgress = 128,
    /// The event that it waits for can have happened.
    Look = 256,
    /// The server has become a replica: the blocked command fails, and the connection is closed.
    RoleChanged = 512,
    /// Its process is known now.
    Identified = 1024,
}

/// What a connection does, for a clock that moves on by itself when every client is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Activity {
    /// It has something to do, or its client has something to read.
    Acting,
    /// Its client can send something at any time.
    Idle,
    /// Its client can do nothing until something happens.
    Waiting,
    /// Its client drives a test,
    Driving,
    /// or waits for what others do, to drive a test.
    Awaiting,
    /// It runs a script that takes long.
    Scripting,
}

impl Activity {
    const ALL: [Self; 6] = [Self::Acting, Self::Idle, Self::Waiting, Self::Driving, Self::Awaiting, Self::Scripting];
}

/// An alarm that is held until the connection has done what it was signalled.
struct AwaitedAlarm {
    alarm: Alarm,
    /// It was signalled again in between, which can be all there is left to do.
    again: bool,
}

/// Who waits until the connection has done what it was signalled.
#[derive(Default)]
struct SignalWatch {
    alarm: Option<AwaitedAlarm>,
    /// The connection is gone, and nobody is to wait for it: others can keep its client for long.
    is_over: bool,
}

/// What a client is blocked on, where others can end that.
#[derive(Default)]
enum BlockedOn {
    #[default]
    Nothing,
    Time,
    Keys(Box<BlockedCommand>),
    /// Nothing any more: its connection is about to send it this reply.
    Served(Served),
}

/// A command that is blocked on keys.
pub struct BlockedCommand {
    pub row: ResolvedRow,
    pub words: OwnedWords,
    pub db: u32,
    pub keys: Vec<Box<[u8]>>,
    pub kind: ValueKind,
    pub protocol: Protocol,
    /// When to run it again even if nobody writes its keys.
    pub retry_at: Option<Millis>,
}

/// The reply of a command that was blocked.
pub struct Served {
    pub reply: Vec<u8>,
    /// Held until the reply is written, if whoever moved the clock or released a command waits for that.
    pub(crate) alarm: Option<Alarm>,
    /// Its place in the journal's order, if that is on.
    pub stamp: Option<Stamp>,
    /// Messages that were sent to the client since. They stand behind the reply.
    pub messages: Vec<u8>,
}

/// A wait that the caller has the right to end.
pub enum Claim {
    Time,
    Keys(Box<BlockedCommand>),
}

/// Marks a connection that is counted nowhere: it is not listed yet, or not any more.
const UNCOUNTED: i64 = -1;
/// What a connection takes beside its buffers, and what the server keeps for a key that it watches, or for a channel or
/// pattern that it listens to.
const CONNECTION: usize = 2 << 10;
const WATCHED_KEY: usize = 64;
const SUBSCRIPTION: usize = 64;
/// Marks "not lagging" in [`Client::lags_for_too_long`].
const NEVER: Millis = Millis::MIN;

/// One connection, as everybody sees it.
pub struct Client {
    id: u64,
    peer: Peer,
    fd: i32,
    /// The process that it is, once it was looked up; `None` in it if it was not found.
    process: OnceLock<Option<Arc<Process>>>,
    /// The number of the node of the deployment that it is connected to; 0 without a deployment.
    node: AtomicU16,
    created: AtomicI64,
    signals: AtomicU32,
    waker: OnceLock<Waker>,
    outbox: Mutex<Outbox>,
    /// Since when more waits to be sent than should for long, or [`NEVER`].
    lagging_since: AtomicI64,
    blocked_on: Mutex<BlockedOn>,
    signal_watch: Mutex<SignalWatch>,
    activity: AtomicU8,
    /// Since when it is idle, in real time since the server began.
    idle_since: AtomicU64,
    seen: Seen,
    labels: Mutex<Labels>,
    /// The memory that is counted for it, or [`UNCOUNTED`].
    counted: AtomicI64,
}

/// What CLIENT LIST shows; written by the connection itself.
#[derive(Default)]
pub struct Seen {
    pub db: AtomicU32,
    pub resp3: AtomicBool,
    /// Commands queued since MULTI, or -1.
    pub queued: AtomicI64,
    pub queued_bytes: AtomicUsize,
    pub watched: AtomicUsize,
    pub last_used: AtomicI64,
    pub commands: AtomicU64,
    pub input: AtomicUsize,
    /// The complete words of a request that is incomplete.
    pub arguments: AtomicUsize,
    /// What is still missing of its next word, if that is big. It counts as memory, as in Redis.
    pub announced: AtomicUsize,
    /// Bytes received, and bytes sent, since the connection was accepted.
    pub received: AtomicU64,
    pub sent: AtomicU64,
    pub output: AtomicUsize,
    /// When the oldest command was sent to an upstream server that has no reply, in microseconds since 1970; 0 if there is
    /// none. Blocking commands do not count.
    pub oldest_sent: AtomicI64,
    /// The size of the last large request, and when it arrived.
    large_request: AtomicUsize,
    large_request_at: AtomicI64,
    /// To how many channels, patterns and shard channels it listens.
    pub subscriptions: [AtomicUsize; 3],
    /// How many prefixes it tracks in broadcast mode.
    pub tracked_prefixes: AtomicUsize,
    /// A command of it waits. If its time ends the wait, the clock has its alarm by now.
    pub blocked: AtomicBool,
    /// Whether what holds it up ends by itself.
    pub timed: AtomicBool,
    /// A key that it watches was touched, as far as it has noticed.
    pub touched: AtomicBool,
    pub monitor: AtomicBool,
    /// It gets the stream to replicas.
    pub replica: AtomicBool,
    /// It brings the stream of the master that this server follows.
    pub master: AtomicBool,
    /// The bytes of the snapshot that it was sent and has not acknowledged. No limit of output counts them.
    pub snapshot: AtomicUsize,
    pub no_evict: AtomicBool,
    pub no_touch: AtomicBool,
    pub import_source: AtomicBool,
    pub closing: AtomicBool,
    /// CLIENT CAPA redirect.
    pub can_redirect: AtomicBool,
}

impl Seen {
    /// A large request has arrived so far.
    pub(crate) fn note_large_request(&self, bytes: usize, now: Millis) {
        self.large_request.store(bytes, Ordering::Relaxed);
        self.large_request_at.store(now, Ordering::Relaxed);
    }

    /// The size of the last large request, if it arrived a moment ago.
    pub fn large_request(&self, now: Millis) -> Option<usize> {
        /// Redis gives back the room of a large request soon.
        const KEPT: Millis = 300;
        let bytes = self.large_request.load(Ordering::Relaxed);
        let age = now.saturating_sub(self.large_request_at.load(Ordering::Relaxed));
        (bytes > 0 && age <= KEPT).then_some(bytes)
    }

    /// Whether it listens to anything.
    pub fn is_subscriber(&self) -> bool {
        self.subscriptions.iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }
}

/// What the client says about itself, and what it did last.
#[derive(Clone, Default)]
pub struct Labels {
    pub name: Vec<u8>,
    pub library: Vec<u8>,
    pub library_version: Vec<u8>,
    /// The last command; a subcommand's own row, if it was one.
    pub last_command: Option<&'static CommandSpec>,
    /// Who it is; from the moment on in which its session begins.
    pub user: Option<Arc<User>>,
}

impl Client {
    pub fn new(id: u64, peer: Peer, fd: i32, created: Millis) -> Self {
        let seen = Seen { queued: AtomicI64::new(-1), last_used: AtomicI64::new(created), ..Seen::default() };
        Self {
            id,
            peer,
            fd,
            process: OnceLock::new(),
            node: AtomicU16::new(0),
            created: AtomicI64::new(created),
            signals: AtomicU32::new(0),
            waker: OnceLock::new(),
            outbox: Mutex::default(),
            lagging_since: AtomicI64::new(NEVER),
            blocked_on: Mutex::default(),
            signal_watch: Mutex::default(),
            activity: AtomicU8::new(Activity::Acting as u8),
            idle_since: AtomicU64::new(0),
            seen,
            labels: Mutex::default(),
            counted: AtomicI64::new(UNCOUNTED),
        }
    }

    pub fn id(&self) -> u64 {
        self.id
    }

    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    pub fn fd(&self) -> i32 {
        self.fd
    }

    /// The process that it is, once it is known.
    pub fn process(&self) -> Option<&Arc<Process>> {
        self.process.get()?.as_ref()
    }

    /// Whether its process was looked up, with success or without.
    pub(crate) fn is_identified(&self) -> bool {
        self.process.get().is_some()
    }

    pub(crate) fn set_process(&self, process: Option<Arc<Process>>) {
        let _ = self.process.set(process);
    }

    /// The number of the node of the deployment that it is connected to; 0 without a deployment.
    pub fn node(&self) -> u16 {
        self.node.load(Ordering::Relaxed)
    }

    pub(crate) fn set_node(&self, number: u16) {
        self.node.store(number, Ordering::Relaxed);
    }

    /// When the connection was accepted, on the server's clock.
    pub fn created(&self) -> Millis {
        self.created.load(Ordering::Relaxed)
    }

    /// Goes over from a server whose clock shows one time to another's: it has been there, and idle, for as long as before.
    pub fn change_clocks(&self, from: Millis, to: Millis) {
        for time in [&self.created, &self.seen.last_used] {
            let before = time.load(Ordering::Relaxed);
            time.store(to.saturating_sub(from.saturating_sub(before)), Ordering::Relaxed);
        }
        self.lagging_since.store(NEVER, Ordering::Relaxed);
    }

    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    pub fn labels(&self) -> MutexGuard<'_, Labels> {
        self.labels.lock_ignoring_poison()
    }

    /// Has this waker called when the connection is signalled. It is the same for the connection's whole life.
    pub(crate) fn register(&self, waker: &Waker) {
        if self.waker.get().is_none() {
            let _ = self.waker.set(waker.clone());
        }
    }

    pub fn signal(&self, signal: Signal) {
        self.signals.fetch_or(signal as u32, Ordering::AcqRel);
        self.wake();
    }

    pub(crate) fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }

    #[inline]
    pub(crate) fn has_signals(&self) -> bool {
        self.signals.load(Ordering::Acquire) != 0
    }

    /// Takes a signal; returns whether it was set.
    pub(crate) fn take_signal(&self, signal: Signal) -> bool {
        self.signals.fetch_and(!(signal as u32), Ordering::AcqRel) & signal as u32 != 0
    }

    /// The connection begins to do what it was signalled. To be followed by [`end_signals`](Self::end_signals).
    pub(crate) fn begin_signals(&self) {
        self.signals.fetch_or(Signal::InProgress as u32, Ordering::AcqRel);
    }

    /// The connection has done what it was signalled, and written what came of it.
    pub(crate) fn end_signals(&self) {
        let mut watch = self.signal_watch();
        let before = self.signals.fetch_and(!(Signal::InProgress as u32), Ordering::AcqRel);
        let more = before & !(Signal::InProgress as u32) != 0;
        if let Some(awaited) = watch.alarm.as_mut().filter(|awaited| more && !awaited.again) {
            awaited.again = true;
            return;
        }
        let done = watch.alarm.take();
        // Dropping the alarm wakes whoever waits for it.
        drop(watch);
        drop(done);
    }

    /// If it was signalled and has not done it yet, holds an alarm until it has.
    pub(crate) fn hold_until_signals_end(&self, alarm: impl FnOnce() -> Alarm) {
        let mut watch = self.signal_watch();
        let is_free = watch.alarm.is_none() && !watch.is_over;
        if is_free && self.has_signals() && self.activity() != Activity::Scripting {
            watch.alarm = Some(AwaitedAlarm { alarm: alarm(), again: false });
        }
    }

    /// Holds an alarm until the connection has ended.
    pub(crate) fn hold_until_closed(&self, alarm: Alarm) {
        let mut watch = self.signal_watch();
        let awaited = AwaitedAlarm { alarm, again: false };
        let unused = if watch.is_over { Some(awaited) } else { watch.alarm.replace(awaited) };
        drop(watch);
        drop(unused);
    }

    /// The connection ends. Returns the alarm that is held until it has done what it was signalled; from now on none is.
    pub(crate) fn end_signal_watch(&self) -> Option<Alarm> {
        let mut watch = self.signal_watch();
        watch.is_over = true;
        watch.alarm.take().map(|awaited| awaited.alarm)
    }

    /// Whether somebody waits for what the connection does now.
    pub(crate) fn is_watched(&self) -> bool {
        self.signal_watch().alarm.is_some()
    }

    fn signal_watch(&self) -> MutexGuard<'_, SignalWatch> {
        self.signal_watch.lock_ignoring_poison()
    }

    pub(crate) fn activity(&self) -> Activity {
        let activity = self.activity.load(Ordering::SeqCst);
        Activity::ALL.into_iter().find(|other| *other as u8 == activity).unwrap_or(Activity::Acting)
    }

    /// Sets the activity; what it was before.
    pub(crate) fn set_activity(&self, activity: Activity) -> Activity {
        let before = self.activity();
        self.activity.store(activity as u8, Ordering::SeqCst);
        before
    }

    pub(crate) fn set_idle_since(&self, uptime: Duration) {
        self.idle_since.store(u64::try_from(uptime.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Since when it is idle, in real time since the server began.
    pub(crate) fn idle_since(&self) -> Duration {
        Duration::from_micros(self.idle_since.load(Ordering::Relaxed))
    }

    /// From now on it is blocked until a deadline.
    pub(crate) fn wait_for_time(&self) {
        self.block_on(BlockedOn::Time);
    }

    /// From now on it is blocked on keys.
    pub(crate) fn wait_for_keys(&self, blocked: BlockedCommand) {
        self.block_on(BlockedOn::Keys(Box::new(blocked)));
    }

    /// The command that is blocked on keys, if there is one, and the number of the keys.
    pub fn blocked_on_keys(&self) -> Option<(&'static CommandSpec, usize)> {
        match &*self.blocked_on() {
            BlockedOn::Keys(blocked) => Some((blocked.row.spec, blocked.keys.len())),
            BlockedOn::Nothing | BlockedOn::Time | BlockedOn::Served(_) => None,
        }
    }

    fn block_on(&self, blocked_on: BlockedOn) {
        let before = std::mem::replace(&mut *self.blocked_on(), blocked_on);
        // It can hold an alarm, and dropping that wakes whoever waits for it.
        drop(before);
    }

    /// Claims the right to end what the client is blocked on; only one of those who try gets it.
    pub(crate) fn claim_wait(&self) -> Option<Claim> {
        let mut blocked_on = self.blocked_on();
        match std::mem::take(&mut *blocked_on) {
            BlockedOn::Time => Some(Claim::Time),
            BlockedOn::Keys(blocked) => Some(Claim::Keys(blocked)),
            other => {
                *blocked_on = other;
                None
            }
        }
    }

    /// Lets `attempt` run the blocked command again. Nobody else can end its wait meanwhile. If that serves it, returns it; its
    /// client is to be sent [`Signal::Served`].
    pub(crate) fn serve(
        &self,
        attempt: impl FnOnce(&mut BlockedCommand) -> Option<Served>,
    ) -> Option<Box<BlockedCommand>> {
        let mut blocked_on = self.blocked_on();
        let BlockedOn::Keys(blocked) = &mut *blocked_on else { return None };
        if self.seen.closing.load(Ordering::Relaxed) {
            return None;
        }
        let served = attempt(blocked)?;
        match std::mem::replace(&mut *blocked_on, BlockedOn::Served(served)) {
            BlockedOn::Keys(blocked) => Some(blocked),
            _ => None,
        }
    }

    /// When the command that is blocked on keys is to run again even if nobody writes them.
    pub(crate) fn retry_at(&self) -> Option<Millis> {
        match &*self.blocked_on() {
            BlockedOn::Keys(blocked) => blocked.retry_at,
            _ => None,
        }
    }

    /// The keys that the client is blocked on, with their database.
    pub(crate) fn awaited_keys(&self) -> Option<(u32, Vec<Box<[u8]>>)> {
        match &*self.blocked_on() {
            BlockedOn::Keys(blocked) => Some((blocked.db, blocked.keys.clone())),
            _ => None,
        }
    }

    /// The reply of the command that was blocked, if it was served.
    pub(crate) fn take_served(&self) -> Option<Served> {
        let mut blocked_on = self.blocked_on();
        match std::mem::take(&mut *blocked_on) {
            BlockedOn::Served(served) => Some(served),
            other => {
                *blocked_on = other;
                None
            }
        }
    }

    fn blocked_on(&self) -> MutexGuard<'_, BlockedOn> {
        self.blocked_on.lock_ignoring_poison()
    }

    /// Sends bytes to the client that answer nothing it asked. Returns how many wait to be sent.
    pub fn send(&self, bytes: &[u8]) -> usize {
        self.send_by(bytes, Outbox::push)
    }

    /// As [`send`](Self::send), for a long message that others are sent, too.
    pub fn send_shared(&self, message: &Bytes) -> usize {
        self.send_by(message, Outbox::push_shared)
    }

    fn send_by<M: AsRef<[u8]>>(&self, message: M, push: impl FnOnce(&mut Outbox, M)) -> usize {
        if self.signals.load(Ordering::Acquire) & Signal::Served as u32 != 0
            && let BlockedOn::Served(served) = &mut *self.blocked_on()
        {
            served.messages.extend_from_slice(message.as_ref());
            return served.messages.len() + self.seen.output.load(Ordering::Relaxed);
        }
        let mut outbox = self.outbox();
        if self.seen.closing.load(Ordering::Relaxed) {
            return 0;
        }
        // If mail is there already, its signal is on the way.
        let first = outbox.is_empty();
        push(&mut outbox, message);
        let waiting = outbox.len() + self.seen.output.load(Ordering::Relaxed);
        if first {
            // Set before others can find the mail: it is to be sent in front of the reply to the next request.
            self.signals.fetch_or(Signal::Mail as u32, Ordering::AcqRel);
        }
        drop(outbox);
        if first {
            self.wake();
        }
        waiting
    }

    /// Moves what others have sent to the end of `out`.
    pub(crate) fn take_mail(&self, out: &mut Vec<u8>) {
        self.take_signal(Signal::Mail);
        self.outbox().take(out);
    }

    /// As [`take_mail`](Self::take_mail), but does not copy what other clients are sent, too: that is moved to `behind`, with
    /// what is behind it.
    pub(crate) fn take_mail_segments(&self, out: &mut Vec<u8>, behind: &mut Vec<Segment>) {
        self.take_signal(Signal::Mail);
        self.outbox().take_segments(out, behind);
    }

    /// How many bytes wait to be sent to the client.
    pub fn waiting(&self) -> usize {
        // Mail has a signal from when it comes until it is taken.
        let has_mail = self.signals.load(Ordering::Acquire) & Signal::Mail as u32 != 0;
        let mail = if has_mail { self.outbox().len() } else { 0 };
        mail + self.seen.output.load(Ordering::Relaxed)
    }

    // ---- memory

    /// Its memory: the connection, its buffers, its queue, and what it watches and listens to.
    pub fn memory(&self) -> usize {
        self.memory_beside_output() + self.waiting()
    }

    /// The same without what waits to be sent.
    pub fn memory_beside_output(&self) -> usize {
        let seen = &self.seen;
        let load = |size: &AtomicUsize| size.load(Ordering::Relaxed);
        let subscriptions: usize = seen.subscriptions.iter().map(load).sum();
        CONNECTION
            + load(&seen.input)
            + load(&seen.arguments)
            + load(&seen.announced)
            + load(&seen.queued_bytes)
            + load(&seen.watched) * WATCHED_KEY
            + (subscriptions + load(&seen.tracked_prefixes)) * SUBSCRIPTION
    }

    /// The memory that was last counted for it.
    pub fn counted_memory(&self) -> usize {
        usize::try_from(self.counted.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Counts its memory for the first time; returns it.
    pub(super) fn begin_memory_count(&self) -> i64 {
        let memory = self.memory() as i64;
        self.counted.store(memory, Ordering::Relaxed);
        memory
    }

    /// Counts its memory again, if it is counted; returns by how much it has changed.
    pub(super) fn count_memory(&self) -> i64 {
        let memory = self.memory() as i64;
        if self.counted.load(Ordering::Relaxed) == memory {
            return 0;
        }
        let count = |before| (before != UNCOUNTED).then_some(memory);
        let before = self.counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count);
        before.map_or(0, |before| memory - before)
    }

    /// Counts its memory no more; returns what was counted for it.
    pub(super) fn end_memory_count(&self) -> i64 {
        self.counted.swap(UNCOUNTED, Ordering::Relaxed).max(0)
    }

    /// How much of what waits to be sent counts for the limits.
    pub fn counted_output(&self, waiting: usize) -> usize {
        waiting.saturating_sub(self.seen.snapshot.load(Ordering::Relaxed))
    }

    /// Whether so much waits to be sent, or has for so long, that the client is to be closed.
    pub fn lags_for_too_long(&self, waiting: usize, limit: &OutputLimit, now: Millis) -> bool {
        let since = &self.lagging_since;
        let waiting = self.counted_output(waiting);
        if !limit.is_soft_passed(waiting) {
            since.store(NEVER, Ordering::Relaxed);
        } else if since.load(Ordering::Relaxed) == NEVER {
            since.store(now, Ordering::Relaxed);
        }
        limit.is_hard_passed(waiting)
            || match since.load(Ordering::Relaxed) {
                NEVER => false,
                since => limit.is_over(now.saturating_sub(since)),
            }
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock_ignoring_poison()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Clock;

    #[test]
    fn a_connection_that_is_gone_holds_no_alarm_even_if_its_client_is_still_known() {
        let clock = Arc::new(Clock::new());
        let client = Client::new(1, Peer::Unix { path: PathBuf::new(), pid: None }, 0, 0);
        client.signal(Signal::Kill);
        client.hold_until_signals_end(|| clock.rung_alarm());
        assert!(client.is_watched() && !clock.is_quiescent());
        drop(client.end_signal_watch());
        client.hold_until_signals_end(|| clock.rung_alarm());
        client.hold_until_closed(clock.rung_alarm());
        assert!(!client.is_watched() && clock.is_quiescent());
    }
}
