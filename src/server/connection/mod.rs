//! One connection: a task that reads, runs every complete request, and writes all replies at once.
//!
//! This file has the connection and its poll. [`input`] frames and runs requests, [`output`] writes replies, [`waits`]
//! polls and ends the wait of a command, [`signals`] handles signals of other connections, [`time_slice`] says when these are served.
//!
//! Requests are framed in a buffer that all connections of a thread share. A connection has its own buffers only while
//! a request is partial or a reply is unwritten, so ten thousand idle connections cost next to nothing.

mod input;
mod output;
mod signals;
mod time_slice;
mod waits;

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::ReadBuf;

use super::node::Node;
use super::outgoing::Outgoing;
use super::stream::Stream;
use super::tls_stream::{NO_TLS_HERE, TLS_HANDSHAKE, is_tls_hello};
use super::turn::{self, yield_to_others};
use crate::base::clock::Alarm;
use crate::base::profile::Since;
use crate::base::segment::Segment;
use crate::clients::session::{Session, Wait};
use crate::clients::stats::add;
use crate::engine::{Engine, Fibers};
use crate::protocol::{Dialect, Framer, Reply};
use input::{BATCH, FramedRequest};
use output::SHORT;
use time_slice::TimeSlice;

/// CLIENT LIST shows the room that a larger request takes.
const LARGE_REQUEST: usize = 32 * 1024;
/// The first Valkey in which text may follow a quote in an inline request.
const SPLICES_QUOTES: Since = Since::valkey(9, 0, 0);
/// The most bytes per read, unless they go to where they stay.
const READ: usize = 64 * 1024;
/// The same behind a large request: the next one is likely to be as large, and these bytes of it are copied once more.
const READ_BEFORE_LARGE: usize = 16 * 1024;

thread_local! {
    /// Buffers that connections share while they are polled, empty in between; and the paused scripts of the thread.
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        input: vec![0; READ],
        spare_input: BytesMut::new(),
        output: Vec::new(),
        spare: Vec::new(),
        segments: Vec::new(),
        batch: Vec::with_capacity(BATCH),
        fibers: Fibers::default(),
    });
}

struct Scratch {
    input: Vec<u8>,
    /// The buffer of a large request that has ended, for the next one: what is new from the kernel costs more to touch than
    /// to read.
    spare_input: BytesMut,
    output: Vec<u8>,
    /// Reply buffers for reuse.
    spare: Vec<Vec<u8>>,
    /// Messages that others are sent, too, on their way to a connection's output.
    segments: Vec<Segment>,
    batch: Vec<FramedRequest>,
    fibers: Fibers,
}

pub(super) struct Connection {
    /// The instance and the world that the connection is in.
    node: Arc<Node>,
    engine: Arc<Engine>,
    /// The number of the thread that serves the connection.
    thread: usize,
    session: Box<Session>,
    stream: Stream,
    framer: Framer,
    /// Bytes read but not run: a partial request, or requests behind a blocked one.
    input: BytesMut,
    /// The last request was a large one.
    is_large: bool,
    /// Unwritten replies.
    output: Outgoing,
    /// The number of reply bytes that were discarded.
    dropped: usize,
    /// Messages that arrived while a reply drips, to be sent after it.
    mail: Vec<u8>,
    /// The alarms that ended a wait, held until the consequences are written.
    due_alarms: Vec<Alarm>,
    /// Bytes were read since the connection's activity was last published.
    has_read: bool,
    slice: TimeSlice,
    /// Its time slice ended before all requests in `input` had run.
    has_more: bool,
    /// The client has received the reply to a command that waits for others, and has sent nothing since.
    is_informed: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Reads nothing more; closes once everything is written.
    Closing,
    /// Like `Closing`, but with a reset.
    Resetting,
    /// Closes at once.
    Dropped,
}

impl Connection {
    pub(super) fn new(node: Arc<Node>, thread: usize, mut session: Box<Session>, stream: Stream) -> Self {
        session.takes_shared = true;
        let splices_quotes = node.root().instance.profile.has(SPLICES_QUOTES);
        Self {
            engine: Arc::clone(node.root()),
            node,
            thread,
            session,
            stream,
            framer: Framer::new(if splices_quotes { Dialect::Valkey } else { Dialect::Redis }),
            input: BytesMut::new(),
            is_large: false,
            output: Outgoing::default(),
            dropped: 0,
            mail: Vec::new(),
            due_alarms: Vec::new(),
            has_read: false,
            slice: TimeSlice::default(),
            has_more: false,
            is_informed: false,
            state: State::Open,
        }
    }

    fn poll_serve(&mut self, cx: &mut Context<'_>, scratch: &mut Scratch) -> Poll<io::Result<()>> {
        // The previous connection may have ended in an error or a panic, and left its replies behind.
        scratch.output.clear();
        scratch.segments.clear();
        scratch.batch.clear();
        if self.is_running_script() && !self.resume_script(scratch) {
            // Until the script ends, this connection does nothing else, and other connections get their turn.
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
                // The script began when a wait ended.
                yield_to_others(cx);
                return Poll::Pending;
            }
            // To a clock move, a reply that the client does not read counts as delivered.
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
            if self.slice.is_over() {
                self.slice.end();
                yield_to_others(cx);
                return Poll::Pending;
            }
            if self.has_more {
                self.run_own_input(scratch);
                self.queue_output(&mut scratch.output, &mut scratch.spare);
                self.poll_wait(cx, scratch);
                continue;
            }
            let is_direct = self.missing() > 0;
            let polled = if is_direct {
                self.poll_read_direct(cx)
            } else {
                let most = if self.is_large { READ_BEFORE_LARGE } else { READ };
                self.stream.poll_read(cx, &mut ReadBuf::new(&mut scratch.input[..most]))
            };
            let read = match polled {
                Poll::Ready(Ok(read)) => read,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(self.note_failure(error))),
                Poll::Pending => {
                    self.slice.end();
                    return Poll::Pending;
                }
            };
            // Messages from before the request precede its reply.
            self.take_signals(scratch);
            if self.state != State::Open {
                continue;
            }
            // What was read directly is in the connection's buffer already.
            let arrived = if is_direct { &[][..] } else { &scratch.input[..read] };
            if self.engine.instance.config.live().limits_memory() {
                self.publish_input(self.input.len() + arrived.len());
                self.heed_client_limit();
            }
            if arrived.first() == Some(&TLS_HANDSHAKE) && self.refuses_tls(arrived, &mut scratch.output) {
                self.queue_output(&mut scratch.output, &mut scratch.spare);
                continue;
            }
            let is_waiting = self.session.in_flight.wait.is_some();
            if self.input.is_empty() && !is_waiting {
                let Scratch { batch, output, fibers, spare, .. } = scratch;
                let used = self.run(arrived, batch, output, fibers, spare);
                self.keep_input(&arrived[used..], &mut scratch.spare_input);
            } else {
                self.input.extend_from_slice(arrived);
                if self.input.len() > LARGE_REQUEST {
                    self.session.client.seen().note_large_request(self.input.len(), self.engine.instance.cached_now());
                }
                if !is_waiting && self.input.len() >= self.framer.needed() {
                    self.run_own_input(scratch);
                } else {
                    self.publish_input(self.input.len());
                }
            }
            if read == 0 {
                return Poll::Ready(Ok(()));
            }
            self.has_read = true;
            self.is_informed = false;
            add(&self.session.counters.input_bytes, read as u64);
            add(&self.session.counters.reads, 1);
            self.session.client.seen().last_used.store(self.engine.instance.cached_now(), Ordering::Relaxed);
            add(&self.session.client.seen().received, read as u64);
            if self.input.len() > self.engine.instance.config.live().query_buffer_limit.load(Ordering::Relaxed) {
                return Poll::Ready(Ok(()));
            }
            let is_short = (1..=SHORT).contains(&scratch.output.len()) && self.output.is_empty();
            let waits_for_others = !turn::note_requests() && is_short;
            self.queue_output(&mut scratch.output, &mut scratch.spare);
            if self.is_running_script() {
                let _ = self.poll_flush(cx, &mut scratch.spare)?;
                yield_to_others(cx);
                return Poll::Pending;
            }
            self.poll_wait(cx, scratch);
            if waits_for_others && self.state == State::Open && !self.slice.is_over() {
                // Other connections run their input first, then all replies are written.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }

    /// Runs the requests in the connection's own buffer, with their replies to the output of the thread.
    fn run_own_input(&mut self, scratch: &mut Scratch) {
        let mut out = std::mem::take(&mut scratch.output);
        self.run_input(&mut out, scratch);
        scratch.output = out;
    }

    /// Names a client in the log that was not let in, because its TLS handshake has failed.
    #[cold]
    fn note_failure(&self, error: io::Error) -> io::Error {
        if self.stream.has_failed_handshake() {
            self.node.log_failed_handshake(self.session.client.peer(), &error);
        }
        error
    }

    /// Whether a client begins with a TLS handshake on a port without TLS. It would wait for an answer for ever, because
    /// its hello is the beginning of a long line.
    #[cold]
    fn refuses_tls(&mut self, arrived: &[u8], out: &mut Vec<u8>) -> bool {
        let client = &self.session.client;
        let is_first = client.seen().received.load(Ordering::Relaxed) == 0 && self.input.is_empty();
        if !is_first || !is_tls_hello(arrived) || self.stream.is_tls() {
            return false;
        }
        self.node.log_tls_hello(client.peer());
        add(&self.session.counters.input_bytes, arrived.len() as u64);
        self.engine.answer(&mut self.session, &Reply::Error(NO_TLS_HERE), out);
        self.state = State::Closing;
        true
    }

    /// Counts the connection's memory, and closes clients if all together have too much. As in Redis, only the periodic work
    /// counts a connection that is never closed for that.
    #[cold]
    fn heed_client_limit(&self) {
        let (instance, client) = (&self.engine.instance, &self.session.client);
        if !client.seen().no_evict.load(Ordering::Relaxed) {
            instance.clients.count_memory(client);
            instance.evict_clients();
        }
    }

    /// Whether a slow script has this connection's session; a stand-in takes its place.
    fn is_running_script(&self) -> bool {
        matches!(self.session.in_flight.wait.as_deref(), Some(Wait::Script))
    }
}

impl Future for Connection {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        turn::note_client(this.session.client.id());
        this.session.client.register(cx.waker());
        // No task sees a state that a panic left half changed: the connection ends, and the state it shares is behind locks
        // whose changes are complete (see `MutexExt`), or put right.
        let polled = catch_unwind(AssertUnwindSafe(|| {
            SCRATCH.with_borrow_mut(|scratch| this.poll_serve(cx, scratch)).map(|_ended_either_way| ())
        }));
        let polled = polled.unwrap_or_else(|panic| {
            this.engine.after_panic(&mut this.session, &*panic);
            Poll::Ready(())
        });
        if this.engine.instance.clock.is_auto() && polled.is_pending() {
            this.show_activity();
        }
        if this.engine.instance.config.live().limits_memory() && polled.is_pending() {
            this.heed_client_limit();
        }
        polled
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.is_running_script() {
            // At shutdown the script is resumed once more and ends at once.
            let _ = SCRATCH.try_with(|scratch| {
                let Ok(mut scratch) = scratch.try_borrow_mut() else { return };
                while scratch.fibers.has_paused(&self.session) {
                    self.engine.instance.scripts.kill_for_shutdown();
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
        let unwritten = self.output.len() + self.dropped + dripping;
        self.engine.mark_unread(&self.session, unwritten);
        self.engine.disconnect(&mut self.session, &parked);
        if self.engine.instance.clock.is_auto() {
            self.engine.maybe_auto_advance();
        }
    }
}
