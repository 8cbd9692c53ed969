//! One connection: a task that reads, runs every request that is whole, and writes, in one go.
//!
//! This file has the connection and its poll; [`input`] frames requests and runs them, [`output`] writes replies,
//! [`waits`] polls and ends the wait of a command, [`signals`] does what other connections ask.
//!
//! Requests are framed in a buffer that all connections of a thread share. A connection keeps bytes of its own only while
//! a request is partial or a reply cannot be written, so ten thousand idle ones cost next to nothing.

mod input;
mod output;
mod signals;
mod waits;

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::ReadBuf;

use super::node::Node;
use super::stream::Stream;
use crate::base::clock::Alarm;
use crate::clients::session::{Session, Wait};
use crate::clients::stats::add;
use crate::engine::{Engine, Fibers};
use crate::protocol::Framer;
use input::{BATCH, FramedRequest};
use output::SHORT;

/// How many bytes are read at once.
const READ: usize = 64 * 1024;

thread_local! {
    /// Buffers for the time in which a connection is polled, which hold nothing in between; and the scripts that are
    /// paused.
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        input: vec![0; READ],
        output: Vec::new(),
        spare: Vec::new(),
        batch: Vec::with_capacity(BATCH),
        fibers: Fibers::default(),
    });
}

struct Scratch {
    input: Vec<u8>,
    output: Vec<u8>,
    /// Buffers that held replies until these were written.
    spare: Vec<Vec<u8>>,
    batch: Vec<FramedRequest>,
    fibers: Fibers,
}

pub(super) struct Connection {
    /// The instance that it is connected to, and the world in which it is there.
    node: Arc<Node>,
    engine: Arc<Engine>,
    /// The number of the thread that serves it.
    thread: usize,
    session: Box<Session>,
    stream: Stream,
    framer: Framer,
    /// Bytes read and not yet run: the beginning of a request, or requests behind one that waits.
    input: BytesMut,
    /// Replies that are not written yet, and how much of the first of them is.
    output: Vec<u8>,
    written: usize,
    /// How many bytes of replies were thrown away.
    dropped: usize,
    /// Messages that arrived while a reply drips, to follow it.
    mail: Vec<u8>,
    /// The alarms that ended a wait, kept until what followed from that is written.
    due_alarms: Vec<Alarm>,
    /// Bytes were read since the connection's activity was last shown.
    has_read: bool,
    /// The client has had the reply to a command that waited for what others do, and has sent nothing since.
    is_informed: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Nothing more is read; closes once everything is written.
    Closing,
    /// As above, but with a reset.
    Resetting,
    /// Closes at once.
    Dropped,
}

impl Connection {
    pub(super) fn new(node: Arc<Node>, thread: usize, session: Box<Session>, stream: Stream) -> Self {
        Self {
            engine: Arc::clone(node.root()),
            node,
            thread,
            session,
            stream,
            framer: Framer::default(),
            input: BytesMut::new(),
            output: Vec::new(),
            written: 0,
            dropped: 0,
            mail: Vec::new(),
            due_alarms: Vec::new(),
            has_read: false,
            is_informed: false,
            state: State::Open,
        }
    }

    fn poll_serve(&mut self, cx: &mut Context<'_>, scratch: &mut Scratch) -> Poll<io::Result<()>> {
        // The connection that was polled before may have ended in an error, or in a panic, and left its replies behind.
        scratch.output.clear();
        scratch.batch.clear();
        if self.is_running_script() && !self.resume_script(scratch) {
            // Nothing else happens to this connection before the script has ended, but others have their turn.
            let _ = self.poll_flush(cx, &mut scratch.spare)?;
            self.session.client.end_signals();
            yield_to_others(cx);
            return Poll::Pending;
        }
        self.take_signals(scratch);
        self.poll_wait(cx, scratch);
        loop {
            let flushed = self.poll_flush(cx, &mut scratch.spare)?.is_ready();
            if self.is_running_script() {
                // It has begun when a wait ended.
                yield_to_others(cx);
                return Poll::Pending;
            }
            // For whoever moves the clock, a reply that the client does not read counts as given.
            self.due_alarms.clear();
            if self.session.client.has_signals() {
                self.session.client.end_signals();
            }
            match self.state {
                State::Dropped => return Poll::Ready(Ok(())),
                State::Closing if flushed => return Poll::Ready(Ok(())),
                State::Resetting if flushed => {
                    self.stream.reset();
                    return Poll::Ready(Ok(()));
                }
                State::Closing | State::Resetting => return Poll::Pending,
                State::Open => {}
            }
            let mut buffer = ReadBuf::new(&mut scratch.input);
            let Poll::Ready(read) = self.stream.poll_read(cx, &mut buffer)? else { return Poll::Pending };
            // What was sent to the client before its request goes in front of the reply.
            self.take_signals(scratch);
            if self.state != State::Open {
                continue;
            }
            let arrived = &scratch.input[..read];
            let is_waiting = self.session.in_flight.wait.is_some();
            if self.input.is_empty() && !is_waiting {
                let used = self.run(arrived, &mut scratch.batch, &mut scratch.output, &mut scratch.fibers);
                self.input.extend_from_slice(&arrived[used..]);
            } else {
                self.input.extend_from_slice(arrived);
                if !is_waiting && self.input.len() >= self.framer.needed() {
                    self.run_input(&mut scratch.batch, &mut scratch.output, &mut scratch.fibers);
                }
            }
            if read == 0 {
                return Poll::Ready(Ok(()));
            }
            self.has_read = true;
            self.is_informed = false;
            add(&self.session.counters.input_bytes, read as u64);
            self.session.client.seen().last_used.store(self.engine.instance.cached_now(), Ordering::Relaxed);
            add(&self.session.client.seen().received, read as u64);
            if self.input.len() > self.engine.instance.config.live().query_buffer_limit.load(Ordering::Relaxed) {
                return Poll::Ready(Ok(()));
            }
            let is_short = (1..=SHORT).contains(&scratch.output.len());
            self.queue_output(&mut scratch.output, &mut scratch.spare);
            if self.is_running_script() {
                let _ = self.poll_flush(cx, &mut scratch.spare)?;
                yield_to_others(cx);
                return Poll::Pending;
            }
            self.poll_wait(cx, scratch);
            if is_short && self.state == State::Open {
                // First all others run what they have received, and then all replies are written: to wake a client for each
                // of them costs more than to run the commands.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }

    /// Whether a script that takes long has this connection's session; another one stands in for it.
    fn is_running_script(&self) -> bool {
        matches!(self.session.in_flight.wait.as_deref(), Some(Wait::Script))
    }
}

/// Has the task polled again once the sockets of all others were looked at. One that merely wakes itself keeps the event
/// loop from that for dozens of rounds.
fn yield_to_others(cx: &mut Context<'_>) {
    let _ = pin!(tokio::task::yield_now()).poll(cx);
}

impl Future for Connection {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        this.session.client.register(cx.waker());
        let polled = SCRATCH.with_borrow_mut(|scratch| this.poll_serve(cx, scratch)).map(|_ended_either_way| ());
        if this.engine.instance.clock.is_auto() && polled.is_pending() {
            this.show_activity();
        }
        polled
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.is_running_script() {
            // The server ends, and the script with it: it is told so, and then ends at once.
            let _ = SCRATCH.try_with(|scratch| {
                let Ok(mut scratch) = scratch.try_borrow_mut() else { return };
                while scratch.fibers.has_paused(&self.session) {
                    self.engine.instance.scripts.abandon();
                    scratch.fibers.resume(&mut self.session, &mut Vec::new());
                }
            });
        }
        // Dropped with the connection, when the socket is closed.
        self.due_alarms.extend(self.session.client.end_signal_watch());
        let (parked, dripping) = match self.session.in_flight.wait.take().map(|wait| *wait) {
            Some(Wait::ParkedReply { reply, .. }) => (reply, 0),
            Some(Wait::Drip { reply, .. }) => (Vec::new(), reply.len()),
            _ => (Vec::new(), 0),
        };
        let unwritten = self.output.len() - self.written + self.dropped + dripping;
        self.engine.mark_unread(&self.session, unwritten);
        self.engine.disconnect(&mut self.session, &parked);
        if self.engine.instance.clock.is_auto() {
            self.engine.maybe_auto_advance();
        }
    }
}
