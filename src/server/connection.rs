//! One connection: a state machine that reads, runs whatever is whole, and writes, in one go.
//!
//! Requests are framed in a buffer that all connections of a thread share; a connection keeps bytes of its own only
//! while a request is partial or a reply cannot be written, so ten thousand idle ones cost next to nothing.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use arrayvec::ArrayVec;
use bytes::{Buf, BytesMut};
use tokio::io::ReadBuf;

use super::node::Node;
use super::stream::Stream;
use crate::base::clock::Alarm;
use crate::base::error::CommandError;
use crate::clients::session::{Activity, Served, Session, Signal};
use crate::clients::stats::add;
use crate::engine::{Engine, Fibers, Resolved};
use crate::protocol::{Framed, Framer, Limits, ProtocolError, Reply};
use crate::spec::{Destination, Flow, Group, Waiting};

/// How much is read at once.
const READ: usize = 64 * 1024;
/// How many requests are framed before the first of them runs.
const BATCH: usize = 32;
/// A reply buffer that has grown beyond this is given back, and so are more than so many.
const REPLIES_KEPT: usize = 64 * 1024;
const SPARE: usize = 64;
/// Replies that are longer than this together are written at once: while they wait they would leave the processor's cache.
const SHORT: usize = 4 * 1024;

thread_local! {
    /// Buffers for the time in which a connection is being served, which hold nothing in between; and the scripts that
    /// are put aside.
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
    batch: Vec<Request>,
    fibers: Fibers,
}

/// A request that is whole and about to run; without a row if it has no words.
struct Request {
    framed: Framed,
    resolved: Option<Result<Resolved, CommandError>>,
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
    /// Messages that came while a reply drips, to follow it.
    mail: Vec<u8>,
    waiting: Option<(Waiting, Option<Alarm>)>,
    /// The alarms that ended a wait, held until their consequences are on their way to the client.
    settling: Vec<Alarm>,
    /// Something was read since the last look at what the client does.
    has_read: bool,
    /// The client was told of something that it waited for with a command of the test powers, and has not done
    /// anything since.
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

/// How a wait ends.
enum End {
    /// Its time is up.
    Time,
    Error(CommandError),
    /// What it waited for is there.
    Served(Served),
    /// This is the reply.
    Reply(Reply<'static>),
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
            waiting: None,
            settling: Vec::new(),
            has_read: false,
            is_informed: false,
            state: State::Open,
        }
    }

    fn poll_serve(&mut self, cx: &mut Context<'_>, scratch: &mut Scratch) -> Poll<io::Result<()>> {
        // Whoever was served before may have gone on an error, or in a panic, and left its replies behind.
        scratch.output.clear();
        scratch.batch.clear();
        if self.is_running_script() && !self.resume_script(scratch) {
            // Nothing else happens to this connection before the script has ended, but others have their turn.
            let _ = self.poll_flush(cx, &mut scratch.spare)?;
            self.session.client.end_signals();
            come_back_after_others(cx);
            return Poll::Pending;
        }
        self.take_signals(scratch);
        self.poll_waiting(cx, scratch);
        loop {
            let flushed = self.poll_flush(cx, &mut scratch.spare)?.is_ready();
            if self.is_running_script() {
                // It has begun when a wait ended.
                come_back_after_others(cx);
                return Poll::Pending;
            }
            // As far as a moved clock is concerned, a reply that the client does not read has been given.
            self.settling.clear();
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
            // What was sent to the client before it asked goes in front of the answer.
            self.take_signals(scratch);
            if self.state != State::Open {
                continue;
            }
            let arrived = &scratch.input[..read];
            if self.input.is_empty() && self.waiting.is_none() {
                let used = self.run(arrived, &mut scratch.batch, &mut scratch.output, &mut scratch.fibers);
                self.input.extend_from_slice(&arrived[used..]);
            } else {
                self.input.extend_from_slice(arrived);
                if self.waiting.is_none() && self.input.len() >= self.framer.needed() {
                    self.run_input(&mut scratch.batch, &mut scratch.output, &mut scratch.fibers);
                }
            }
            if read == 0 {
                return Poll::Ready(Ok(()));
            }
            self.has_read = true;
            self.is_informed = false;
            add(&self.session.counters.input_bytes, read as u64);
            self.session.client.seen().last_used.store(self.engine.instance.recently(), Ordering::Relaxed);
            add(&self.session.client.seen().received, read as u64);
            if self.input.len() > self.engine.instance.config.live().query_buffer_limit.load(Ordering::Relaxed) {
                return Poll::Ready(Ok(()));
            }
            let may_wait = (1..=SHORT).contains(&scratch.output.len());
            self.queue_output(&mut scratch.output, &mut scratch.spare);
            if self.is_running_script() {
                let _ = self.poll_flush(cx, &mut scratch.spare)?;
                come_back_after_others(cx);
                return Poll::Pending;
            }
            self.poll_waiting(cx, scratch);
            if may_wait && self.state == State::Open {
                // First all others run what they have been sent, too, and only then are all replies written: to wake a
                // client for each of them costs more than to run the commands.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }

    /// Runs what is in the connection's own buffer.
    fn run_input(&mut self, batch: &mut Vec<Request>, out: &mut Vec<u8>, fibers: &mut Fibers) {
        let mut input = std::mem::take(&mut self.input);
        let used = self.run(&input, batch, out, fibers);
        input.advance(used);
        if !input.is_empty() {
            self.input = input;
        }
    }

    /// Runs every whole request in `data`, and returns how many bytes are done with.
    fn run(&mut self, data: &[u8], batch: &mut Vec<Request>, out: &mut Vec<u8>, fibers: &mut Fibers) -> usize {
        let (mut used, mut destination) = self.run_here(data, batch, out, fibers);
        while let Some(to) = destination {
            self.move_to(&to);
            let more;
            (more, destination) = self.run_here(&data[used..], batch, out, fibers);
            used += more;
        }
        self.publish_progress(data.len() - used);
        used
    }

    /// Goes over to another world behind the same port. If that is gone meanwhile, so is what the connection was for.
    #[cold]
    fn move_to(&mut self, Destination(name): &Destination) {
        match self.node.enter(name, &self.engine, &mut self.session, self.thread) {
            Some(engine) => {
                let left = std::mem::replace(&mut self.engine, engine);
                if left.instance.clock.is_auto() {
                    left.maybe_auto_advance();
                }
            }
            None => self.state = State::Dropped,
        }
    }

    /// As [`run`](Self::run), up to a request that takes the connection to another world.
    fn run_here(
        &mut self,
        data: &[u8],
        batch: &mut Vec<Request>,
        out: &mut Vec<u8>,
        fibers: &mut Fibers,
    ) -> (usize, Option<Box<Destination>>) {
        let Self { engine, session, framer, output, written, dropped, waiting, state, .. } = self;
        let live = engine.instance.config.live();
        let max_bulk = live.max_bulk.load(Ordering::Relaxed);
        let output_limit = live.output_limit(session.subscriber);
        let (mut used, mut destination) = (0, None);
        session.trace.begin_batch();
        while *state == State::Open && waiting.is_none() {
            if session.client.seen().closing.load(Ordering::Relaxed) {
                // Killed by a command that ran on another thread.
                *state = State::Dropped;
                break;
            }
            let error = frame(engine, session, framer, &data[used..], max_bulk, batch);
            let framed = batch.len();
            for request in batch.drain(..) {
                let rest = &data[used..];
                if let Some(resolved) = request.resolved {
                    let words = framer.words(request.framed, rest);
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
                            let is_before = wait.is_before();
                            *waiting = Some(begin_wait(engine, session, *wait, out));
                            if is_before {
                                break;
                            }
                        }
                    }
                    if output_limit.is_hard_passed(out.len() + output.len() - *written) {
                        *state = State::Dropped;
                    }
                }
                used += request.framed.length();
                if *state != State::Open || waiting.is_some() {
                    break;
                }
            }
            if *state != State::Open || waiting.is_some() || destination.is_some() {
                // What was framed behind the request that stops everything is framed again when its turn comes.
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
            // If nothing is whole any more, what is left is the beginning of a request.
            if framed == 0 || used == data.len() {
                break;
            }
        }
        if self.session.trace.staging.has_memory() {
            self.engine.end_batch(&mut self.session, fibers);
        }
        (used, destination)
    }

    /// Lets the rest of the server see what this connection has done.
    fn publish_progress(&mut self, input: usize) {
        // While a script has the session, another one stands in for it, which nobody is to see.
        if !self.is_running_script() {
            self.session.count();
            self.session.publish();
        }
        self.session.client.seen().input.store(input, Ordering::Relaxed);
    }

    // ---- writing

    /// Keeps replies until they are written.
    fn queue_output(&mut self, replies: &mut Vec<u8>, spare: &mut Vec<Vec<u8>>) {
        if replies.is_empty() {
            return;
        }
        add(&self.session.counters.output_bytes, replies.len() as u64);
        add(&self.session.client.seen().sent, replies.len() as u64);
        if self.output.is_empty() {
            self.output = std::mem::replace(replies, spare.pop().unwrap_or_default());
        } else {
            self.output.append(replies);
        }
        self.publish_output();
    }

    /// Lets the rest of the server see how much waits to be sent.
    fn publish_output(&mut self) {
        let (client, instance) = (&self.session.client, &self.engine.instance);
        let left = self.output.len() - self.written + self.mail.len();
        client.seen().output.store(left, Ordering::Relaxed);
        if left > instance.config.live().output_limit(self.session.subscriber).notice() {
            instance.check_output(&[(Arc::clone(client), left)]);
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>, spare: &mut Vec<Vec<u8>>) -> io::Result<Poll<()>> {
        if self.output.is_empty() {
            return Ok(Poll::Ready(()));
        }
        while self.written < self.output.len() {
            match self.stream.poll_write(cx, &self.output[self.written..])? {
                Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(written) => self.written += written,
                Poll::Pending => {
                    self.drop_written();
                    return Ok(Poll::Pending);
                }
            }
        }
        self.written = 0;
        self.session.trace.written();
        let mut output = std::mem::take(&mut self.output);
        if output.capacity() <= REPLIES_KEPT && spare.len() < SPARE {
            output.clear();
            spare.push(output);
        }
        self.session.client.seen().output.store(self.mail.len(), Ordering::Relaxed);
        Ok(Poll::Ready(()))
    }

    /// Gives back memory, once most of what is kept is written.
    fn drop_written(&mut self) {
        if self.written > self.output.len() / 2 {
            self.output.drain(..self.written);
            self.output.shrink_to(self.output.len() * 2);
            self.written = 0;
        }
        let left = self.output.len() - self.written + self.mail.len();
        self.session.client.seen().output.store(left, Ordering::Relaxed);
    }

    // ---- waiting

    /// Ends the wait if its time has come, and runs what has arrived in the meantime, which may begin the next wait.
    fn poll_waiting(&mut self, cx: &mut Context<'_>, scratch: &mut Scratch) {
        while let Some((waiting, alarm)) = &mut self.waiting {
            let rang = alarm.as_ref().is_some_and(|alarm| alarm.has_rung(cx.waker()));
            let end = match waiting {
                Waiting::Script => return,
                Waiting::Unpause => match self.engine.instance.paused() {
                    None => Some(End::Time),
                    Some((until, _)) => {
                        // It may have become another pause, which ends at another time.
                        let another = self.engine.instance.clock.alarm(until);
                        let is_over = another.has_rung(cx.waker());
                        *alarm = Some(another);
                        is_over.then_some(End::Time)
                    }
                },
                // If somebody has claimed the wait, their signal is on its way.
                Waiting::Until { .. } => {
                    (rang && self.engine.instance.claim_wait(&self.session.client)).then_some(End::Time)
                }
                Waiting::Held(ticket) | Waiting::HeldReply { ticket, .. } => {
                    let is_free = ticket.is_released(cx.waker());
                    let closing = &self.session.client.seen().closing;
                    // What it has been signalled since its signals were taken is not known here yet.
                    if is_free && (closing.load(Ordering::Relaxed) || self.stream.has_ended()) {
                        // It is the turn of the next one.
                        self.state = State::Dropped;
                    }
                    (is_free && self.state == State::Open).then_some(End::Time)
                }
                Waiting::Delayed { ticket, .. } => (rang || ticket.is_released(cx.waker())).then_some(End::Time),
                Waiting::Drip { reply, bytes, every, ticket, .. } => {
                    let is_free = ticket.is_released(cx.waker());
                    if !rang && !is_free {
                        return;
                    }
                    let is_all = is_free || alarm.as_ref().is_some_and(Alarm::is_early);
                    let part = reply.split_to(if is_all { reply.len() } else { (*bytes).min(reply.len()) });
                    let next = (!reply.is_empty()).then(|| self.engine.instance.clock.alarm_after(*every));
                    let over = next.is_none();
                    let due = std::mem::replace(alarm, next);
                    let due = ticket.take_alarm().or(due);
                    scratch.output.extend_from_slice(&part);
                    self.queue_output(&mut scratch.output, &mut scratch.spare);
                    // Whoever moves the clock waits for each part.
                    self.settling.extend(due);
                    if !over {
                        continue;
                    }
                    Some(End::Time)
                }
                Waiting::Event(event) | Waiting::Underway(event) => match event.as_mut().poll(cx) {
                    Poll::Ready(reply) => Some(End::Reply(reply)),
                    Poll::Pending => None,
                },
                // It became an event when it began.
                Waiting::ControlJob(..) => return,
            };
            match end {
                Some(end) => self.end_wait(end, scratch),
                None => return,
            }
        }
    }

    /// Ends the wait, and goes on with the requests behind it.
    fn end_wait(&mut self, end: End, scratch: &mut Scratch) {
        let Some((waiting, mut alarm)) = self.waiting.take() else { return };
        let seen = self.session.client.seen();
        seen.blocked.store(false, Ordering::Relaxed);
        seen.timed.store(false, Ordering::Relaxed);
        // It was not idle while it waited.
        seen.last_used.store(self.engine.instance.recently(), Ordering::Relaxed);
        self.session.client.set_activity(Activity::Acting);
        // Whoever ended it may have done so before this connection knew that it waits.
        self.engine.instance.claim_wait(&self.session.client);
        let mut out = Vec::new();
        let mut then = Flow::Continue;
        match waiting {
            Waiting::Until { reply, .. } => {
                match end {
                    End::Time | End::Reply(_) => self.engine.answer(&mut self.session, &reply, &mut out),
                    End::Error(error) => self.engine.answer(&mut self.session, &Reply::Error(error), &mut out),
                    End::Served(served) => {
                        self.engine.resume_with(&mut self.session, &served.reply, &mut out);
                        alarm = served.alarm.or(alarm);
                        self.session.trace.set_stamp(served.stamp);
                    }
                }
                then = self.engine.after_run(&mut self.session, 0, &mut out, Flow::Continue);
            }
            Waiting::HeldReply { ticket, reply, then: flow } => {
                self.session.passage.iter_mut().for_each(|passage| passage.note(&ticket));
                alarm = ticket.take_alarm();
                out = reply;
                then = self.engine.after_run(&mut self.session, 0, &mut out, flow);
            }
            Waiting::Held(ticket) => {
                self.session.passage.iter_mut().for_each(|passage| passage.note(&ticket));
                alarm = ticket.take_alarm();
            }
            Waiting::Delayed { ticket, .. } => alarm = ticket.take_alarm().or(alarm),
            Waiting::Drip { then: flow, .. } => {
                then = flow;
                let mut mail = std::mem::take(&mut self.mail);
                self.queue_output(&mut mail, &mut scratch.spare);
            }
            Waiting::Event(_) | Waiting::Underway(_) => {
                self.is_informed = matches!(waiting, Waiting::Event(_));
                if let End::Reply(reply) = end {
                    self.engine.answer(&mut self.session, &reply, &mut out);
                }
            }
            Waiting::Unpause | Waiting::Script | Waiting::ControlJob(..) => {}
        }
        // What it does now is a consequence of what has ended its wait, and of nothing else.
        self.session.is_driven = alarm.is_some() || !self.settling.is_empty() || self.session.client.is_watched();
        self.go_on(then, &mut out, scratch);
        self.session.is_driven = false;
        self.queue_output(&mut out, &mut scratch.spare);
        self.settling.extend(alarm);
    }

    /// Goes on as a command has said that has its reply at last.
    fn go_on(&mut self, then: Flow, out: &mut Vec<u8>, scratch: &mut Scratch) {
        match then {
            Flow::Continue => self.run_input(&mut scratch.batch, out, &mut scratch.fibers),
            Flow::Move(to) => {
                self.move_to(&to);
                self.run_input(&mut scratch.batch, out, &mut scratch.fibers);
            }
            Flow::Close => self.state = State::Closing,
            Flow::Reset => self.state = State::Resetting,
            Flow::Drop => {
                self.dropped += out.len();
                out.clear();
                self.state = State::Dropped;
            }
            Flow::Wait(wait) => self.waiting = Some(begin_wait(&self.engine, &self.session, *wait, out)),
        }
    }

    /// Lets a clock that moves on when everybody waits see what this connection does.
    #[cold]
    fn show_activity(&mut self) {
        let has_read = std::mem::take(&mut self.has_read);
        let drives = self.session.last_command.is_some_and(|spec| spec.group == Group::Control);
        let activity = match &self.waiting {
            Some((Waiting::Script, _)) => Activity::Scripting,
            _ if !self.output.is_empty() => Activity::Acting,
            Some((Waiting::Event(_), _)) => Activity::Awaiting,
            Some((Waiting::Underway(_), _)) => Activity::Driving,
            Some(_) => Activity::Waiting,
            None if drives && !self.is_informed => Activity::Driving,
            None => Activity::Idle,
        };
        let (client, clock) = (&self.session.client, &self.engine.instance.clock);
        // Whoever goes on from a wait acts until now.
        if has_read || client.activity() == Activity::Acting {
            self.engine.wake_awaiting_drivers();
        }
        let before = client.set_activity(activity);
        if activity == Activity::Idle && (has_read || before != Activity::Idle) {
            client.set_idle_since(clock.uptime());
        }
        if activity != Activity::Idle || client.seen().is_subscriber() || clock.grace().is_some() {
            self.engine.maybe_auto_advance();
        }
    }

    /// Whether a script that takes long has this connection's session.
    fn is_running_script(&self) -> bool {
        matches!(self.waiting, Some((Waiting::Script, _)))
    }

    /// Goes on with the script; whether it has ended, and what follows has been done.
    fn resume_script(&mut self, scratch: &mut Scratch) -> bool {
        let mut out = Vec::new();
        let Some(flow) = scratch.fibers.resume(&mut self.session, &mut out) else {
            return !scratch.fibers.has_paused(&self.session);
        };
        self.waiting = None;
        self.session.client.seen().blocked.store(false, Ordering::Relaxed);
        self.session.client.set_activity(Activity::Acting);
        let then = self.engine.after_run(&mut self.session, 0, &mut out, flow);
        self.go_on(then, &mut out, scratch);
        if !self.is_running_script() {
            self.session.is_driven = false;
        }
        self.queue_output(&mut out, &mut scratch.spare);
        !self.is_running_script()
    }

    /// Does what others have asked of this connection, and sends what they have sent.
    fn take_signals(&mut self, scratch: &mut Scratch) {
        if self.session.client.has_signals() {
            self.session.client.begin_signals();
            if matches!(self.waiting, Some((Waiting::Drip { .. }, _))) {
                // Nothing comes between the parts of one reply.
                self.session.client.take_mail(&mut self.mail);
                self.publish_output();
            } else {
                self.session.client.take_mail(&mut scratch.output);
                self.queue_output(&mut scratch.output, &mut scratch.spare);
            }
            self.answer_signals(scratch);
        }
    }

    fn answer_signals(&mut self, scratch: &mut Scratch) {
        let client = Arc::clone(&self.session.client);
        if client.take_signal(Signal::Kill) {
            self.state = State::Dropped;
            return;
        }
        if client.take_signal(Signal::Close) {
            self.state = State::Closing;
        }
        // Only looked at because it woke this connection up.
        client.take_signal(Signal::Unpause);
        client.take_signal(Signal::Look);
        let unblocked = client.take_signal(Signal::UnblockTimeout);
        let refused = client.take_signal(Signal::UnblockError);
        if unblocked || refused {
            self.end_wait(if refused { End::Error(CommandError::UNBLOCKED) } else { End::Time }, scratch);
        }
        if client.take_signal(Signal::Served)
            && let Some(served) = client.take_served()
        {
            self.end_wait(End::Served(served), scratch);
        }
    }
}

/// Frames the requests at the start of `data`, up to a batch of them, and has the memory that they will look at
/// fetched, so that the waits for it overlap.
#[inline]
fn frame(
    engine: &Engine,
    session: &Session,
    framer: &mut Framer,
    data: &[u8],
    max_bulk: i64,
    batch: &mut Vec<Request>,
) -> Option<ProtocolError> {
    let limits = Limits { bulk: max_bulk, authenticated: engine.is_authenticated(session) };
    // What a client may send can change with its next command until it has authenticated.
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
                    // What was fetched for the request before is there already.
                    ahead.extend(hash.filter(|hash| ahead.last() != Some(hash)));
                    resolved
                });
                rest = &rest[framed.length()..];
                batch.push(Request { framed, resolved });
            }
            Ok(None) => break,
            Err(found) => {
                error = Some(found);
                break;
            }
        }
    }
    if ahead.len() > 1 {
        engine.instance.keyspace.fetch_ahead(session.db, &ahead);
    }
    error
}

/// Has the task polled again once the sockets of all others were looked at. One that merely wakes itself keeps the event
/// loop from that for dozens of rounds.
fn come_back_after_others(cx: &mut Context<'_>) {
    let _ = pin!(tokio::task::yield_now()).poll(cx);
}

/// What a connection that begins to wait remembers.
fn begin_wait(
    engine: &Arc<Engine>,
    session: &Session,
    waiting: Waiting,
    out: &mut Vec<u8>,
) -> (Waiting, Option<Alarm>) {
    let clock = &engine.instance.clock;
    let seen = session.client.seen();
    let (waiting, alarm) = match waiting {
        Waiting::Unpause => (Waiting::Unpause, engine.instance.paused().map(|(until, _)| clock.alarm(until))),
        Waiting::Until { deadline, reply } => {
            seen.timed.store(deadline.is_some(), Ordering::Relaxed);
            (Waiting::Until { deadline, reply }, deadline.map(|deadline| clock.alarm(deadline)))
        }
        Waiting::Delayed { alarm, ticket } => (Waiting::Delayed { alarm: None, ticket }, alarm),
        Waiting::Drip { mut reply, bytes, every, alarm, ticket, then } => {
            out.extend_from_slice(&reply.split_to(bytes.min(reply.len())));
            (Waiting::Drip { reply, bytes, every, alarm: None, ticket, then }, alarm)
        }
        Waiting::ControlJob(job, reply) => {
            // To the end, even if the client does not wait for that.
            let job = tokio::spawn(Arc::clone(engine).run_control_job(job));
            let event = async move {
                // It only fails to end when the server does.
                let _ = job.await;
                reply
            };
            (Waiting::Underway(Box::pin(event)), None)
        }
        Waiting::Script => {
            session.client.set_activity(Activity::Scripting);
            (Waiting::Script, None)
        }
        other => (other, None),
    };
    seen.blocked.store(true, Ordering::Relaxed);
    (waiting, alarm)
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
        // It goes when the socket is closed, and all that was asked of this connection with it.
        self.settling.extend(self.session.client.end_signal_watch());
        let (held_back, dripping) = match &self.waiting {
            Some((Waiting::HeldReply { reply, .. }, _)) => (reply.as_slice(), 0),
            Some((Waiting::Drip { reply, .. }, _)) => (&[][..], reply.len()),
            _ => (&[][..], 0),
        };
        let unwritten = self.output.len() - self.written + self.dropped + dripping;
        self.engine.mark_unread(&self.session, unwritten);
        self.engine.disconnect(&mut self.session, held_back);
        if self.engine.instance.clock.is_auto() {
            self.engine.maybe_auto_advance();
        }
    }
}
