//! Framing requests in batches, and running them.

use std::io;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use arrayvec::ArrayVec;
use bytes::{Buf, BytesMut};

use super::output::count_output;
use super::{Connection, Scratch, State};
use crate::base::error::CommandError;
use crate::base::segment::Segment;
use crate::clients::config::OutputLimit;
use crate::clients::session::{Destination, Flow, Session};
use crate::data::keyspace::TAKEN_OVER;
use crate::engine::{Engine, Fibers, Resolved};
use crate::protocol::{Framed, Framer, LINE_END, Limits, Progress, ProtocolError, Reply};

/// The most requests that are framed before the first of them runs.
pub(super) const BATCH: usize = 32;
/// A buffer of at least so many bytes is kept for the next request with a big word.
const LARGE: usize = 32 * 1024;
/// Room that such a request gets before its bytes arrive.
const ROOM_AT_ONCE: usize = 1 << 20;
/// Room for the words behind a large one.
const ROOM_BEHIND: usize = 256;
/// Larger buffers are freed behind their request.
const LARGE_KEPT: usize = ROOM_AT_ONCE + LARGE;

/// A complete request; `row` is absent if it has no words.
pub(super) struct FramedRequest {
    framed: Framed,
    resolved: Option<Result<Resolved, CommandError>>,
}

impl Connection {
    /// Runs the requests in the connection's own buffer.
    pub(super) fn run_input(&mut self, out: &mut Vec<u8>, scratch: &mut Scratch) {
        let Scratch { batch, fibers, spare, spare_input, .. } = scratch;
        let mut input = std::mem::take(&mut self.input);
        let used = if input.len() >= TAKEN_OVER {
            let used;
            (used, input) = self.run_long(input, batch, out, fibers, spare);
            used
        } else {
            self.run(&input, batch, out, fibers, spare)
        };
        if used < input.len() {
            input.advance(used);
            self.input = input;
            self.is_large = self.framer.announced(self.input.len()) > 0;
        } else if (LARGE..=LARGE_KEPT).contains(&input.capacity()) {
            input.clear();
            *spare_input = input;
        }
    }

    /// As [`run`](Self::run), but what is written can stay in the buffer. Returns the buffer, too, or as much of it as is left.
    fn run_long(
        &mut self,
        input: BytesMut,
        batch: &mut Vec<FramedRequest>,
        out: &mut Vec<u8>,
        fibers: &mut Fibers,
        spare: &mut Vec<Vec<u8>>,
    ) -> (usize, BytesMut) {
        let input = input.freeze();
        self.session.received = Some(input.clone());
        let used = self.run(&input, batch, out, fibers, spare);
        self.session.received = None;
        match input.try_into_mut() {
            Ok(input) => (used, input),
            Err(input) => (0, BytesMut::from(&input[used..])),
        }
    }

    /// Keeps what has arrived of a request until the rest is there. Room for a large request is taken at once, as Redis does:
    /// the client's memory counts it.
    pub(super) fn keep_input(&mut self, rest: &[u8], spare: &mut BytesMut) {
        self.is_large = self.framer.announced(rest.len()) > 0;
        if self.is_large && self.input.capacity() == 0 {
            let needed = self.framer.needed();
            // No request holds a buffer of more than twice its size.
            self.input = if (needed..=2 * needed).contains(&spare.capacity()) {
                std::mem::take(spare)
            } else {
                BytesMut::with_capacity(needed.min(ROOM_AT_ONCE.max(rest.len())) + ROOM_BEHIND)
            };
        }
        self.input.extend_from_slice(rest);
    }

    /// How many bytes are missing of a big word that has begun to arrive; 0 over TLS, where they have to be decrypted.
    #[inline]
    pub(super) fn missing(&self) -> usize {
        if self.input.is_empty() || self.stream.is_tls() { 0 } else { self.framer.announced(self.input.len()) }
    }

    /// Reads more of a big word behind what has arrived of it, and nothing of what follows.
    pub(super) fn poll_read_direct(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let missing = self.missing();
        if self.input.capacity() == self.input.len() {
            // The buffer grows with what has arrived, not with what was announced.
            self.input.reserve(missing.min(self.input.len().max(ROOM_AT_ONCE)));
        }
        self.stream.poll_read_behind(cx, &mut self.input, missing)
    }

    /// Runs every complete request in `data`, and returns how many bytes are consumed.
    pub(super) fn run(
        &mut self,
        data: &[u8],
        batch: &mut Vec<FramedRequest>,
        out: &mut Vec<u8>,
        fibers: &mut Fibers,
        spare: &mut Vec<Vec<u8>>,
    ) -> usize {
        let (mut used, mut destination) = self.run_here(data, batch, out, fibers, spare);
        while let Some(to) = destination {
            self.move_to(&to);
            let more;
            (more, destination) = self.run_here(&data[used..], batch, out, fibers, spare);
            used += more;
        }
        self.publish_progress(data.len() - used);
        used
    }

    /// Moves to another world behind the same port. The connection is dropped if that world no longer exists.
    #[cold]
    pub(super) fn move_to(&mut self, Destination(name): &Destination) {
        match self.node.move_connection(name, &self.engine, &mut self.session, self.thread) {
            Some(engine) => {
                let left = std::mem::replace(&mut self.engine, engine);
                if left.instance.clock.is_auto() {
                    left.maybe_auto_advance();
                }
            }
            None => self.state = State::Dropped,
        }
    }

    /// Like [`run`](Self::run), up to a request that moves the connection to another world.
    fn run_here(
        &mut self,
        data: &[u8],
        batch: &mut Vec<FramedRequest>,
        out: &mut Vec<u8>,
        fibers: &mut Fibers,
        spare: &mut Vec<Vec<u8>>,
    ) -> (usize, Option<Box<Destination>>) {
        let Self { engine, session, framer, output, dropped, state, slice, .. } = self;
        let live = engine.instance.config.live();
        let max_bulk = live.max_bulk.load(Ordering::Relaxed);
        let output_limit = live.output_limit(session.subscriber, session.client.seen().replica.load(Ordering::Relaxed));
        let logs_large = live.logs_large();
        let (mut used, mut destination, mut is_slice_over) = (0, None, false);
        session.in_flight.trace.begin_batch();
        while *state == State::Open && session.in_flight.wait.is_none() {
            if session.client.seen().closing.load(Ordering::Relaxed) {
                // Killed by a command on another thread.
                *state = State::Dropped;
                break;
            }
            let error = frame(engine, session, framer, &data[used..], max_bulk, batch);
            let framed = batch.len();
            for request in batch.drain(..) {
                let rest = &data[used..];
                let mut waits = false;
                if let Some(resolved) = request.resolved {
                    if resolved.as_ref().is_ok_and(Resolved::reads_statistics) {
                        engine.end_calls_before_next(session, data);
                    }
                    session.timer.request = used;
                    let words = framer.words(request.framed, rest);
                    let start = if logs_large { out.len() } else { 0 };
                    match engine.execute(session, resolved, words, out, fibers) {
                        Flow::Continue => {}
                        Flow::Close => *state = State::Closing,
                        Flow::Reset => *state = State::Resetting,
                        Flow::Drop => {
                            *dropped += out.len();
                            out.clear();
                            *state = State::Dropped;
                        }
                        Flow::Move(to) => {
                            destination = Some(to);
                            used += request.framed.length();
                            break;
                        }
                        Flow::Wait(wait) => {
                            let is_before_run = wait.is_before_run();
                            engine.begin_wait(session, wait, out);
                            if is_before_run {
                                break;
                            }
                            waits = true;
                        }
                    }
                    if logs_large {
                        let reply = out.len().saturating_sub(start);
                        engine.log_large(session, words, request.framed.length(), reply);
                    }
                    if let Some(bytes) = session.shared_reply.take() {
                        count_output(session, out.len() + bytes.len());
                        output.append(out, spare);
                        output.append_segment(Segment::Shared(*bytes), spare);
                        out.extend_from_slice(LINE_END);
                    }
                    let unsent = out.len() + output.len();
                    if output_limit.is_hard_passed(unsent)
                        && output_limit.is_hard_passed(session.client.counted_output(unsent))
                        || unsent > OutputLimit::UNAUTHENTICATED && !engine.is_authenticated(session)
                    {
                        // Redis sends nothing more to a client that it closes for its output.
                        *dropped += out.len() + output.clear();
                        out.clear();
                        *state = State::Dropped;
                    }
                }
                used += request.framed.length();
                // Whoever moved the clock waits for all that follows from that.
                is_slice_over = slice.note(session.timer.last_began()) && !session.is_driven;
                if *state != State::Open || waits || is_slice_over {
                    break;
                }
            }
            engine.end_calls(session, data);
            if *state != State::Open || session.in_flight.wait.is_some() || destination.is_some() || is_slice_over {
                // Requests that were framed behind the one that ends the batch are framed again later.
                framer.reset();
                break;
            }
            if let Some(error) = error {
                let error: CommandError = error.to_command_error();
                engine.answer(session, &Reply::Error(error), out);
                *state = State::Closing;
                used = data.len();
            }
            framer.forget();
            // Without another complete request, the rest is a partial one.
            if framed == 0 || used == data.len() {
                break;
            }
        }
        let can_go_on = self.state == State::Open && self.session.in_flight.wait.is_none();
        self.has_more = is_slice_over && can_go_on && used < data.len();
        self.engine.instance.broadcast_invalidations(&mut self.session);
        self.engine.feed_replicas();
        if self.session.in_flight.trace.staging.has_memory() {
            self.engine.end_batch(&mut self.session, fibers);
        }
        (used, destination)
    }

    /// Publishes the connection's progress to the rest of the server.
    fn publish_progress(&mut self, input: usize) {
        // While a script has the session, the stand-in's state must not be published.
        if !self.is_running_script() {
            self.session.count();
            self.session.publish();
        }
        self.publish_input(input);
    }

    /// Publishes how many bytes have arrived and not been run, and what else belongs to their request.
    pub(super) fn publish_input(&mut self, pending: usize) {
        let seen = self.session.client.seen();
        let Progress { unframed, words, announced } =
            if pending == 0 { Progress::default() } else { self.framer.progress(pending) };
        seen.input.store(unframed, Ordering::Relaxed);
        seen.arguments.store(words, Ordering::Relaxed);
        seen.announced.store(announced, Ordering::Relaxed);
    }
}

/// Frames a batch of requests at the start of `data`, and prefetches the memory that they will access, so that the
/// cache misses overlap.
#[inline]
fn frame(
    engine: &Engine,
    session: &Session,
    framer: &mut Framer,
    data: &[u8],
    max_bulk: i64,
    batch: &mut Vec<FramedRequest>,
) -> Option<ProtocolError> {
    let limits = Limits { bulk: max_bulk, authenticated: engine.is_authenticated(session) };
    // Until a client has authenticated, its next command can change the limits on its requests.
    let most = if limits.authenticated { BATCH } else { 1 };
    let mut ahead: ArrayVec<u64, BATCH> = ArrayVec::new();
    let mut rest = data;
    let mut error = None;
    while batch.len() < most {
        match framer.next(rest, limits) {
            Ok(Some(framed)) => {
                let resolved = (!framed.is_empty()).then(|| {
                    let words = framer.words(framed, rest);
                    let resolved = engine.resolve(words);
                    let hash = resolved.as_ref().ok().and_then(Resolved::hash);
                    // The memory of the previous request is prefetched already.
                    ahead.extend(hash.filter(|hash| ahead.last() != Some(hash)));
                    resolved
                });
                rest = &rest[framed.length()..];
                batch.push(FramedRequest { framed, resolved });
            }
            Ok(None) => break,
            Err(found) => {
                error = Some(found);
                break;
            }
        }
    }
    if ahead.len() > 1 {
        engine.fetch_ahead(session.db, &ahead);
    }
    error
}
