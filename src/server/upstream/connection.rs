//! One client's connection in front of a real server: a task that owns both sockets.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::ReadBuf;

use super::Target;
use super::membership::{AwaitedLook, Destination, Membership};
use super::requests::request_of;
use super::script_monitor::{AwaitedCalls, ScriptMonitor, SeenAs};
use crate::base::clock::{Alarm, Clock, real_micros};
use crate::base::error::plain;
use crate::clients::session::{Flow, Session, Signal, Wait};
use crate::clients::stats::add;
use crate::engine::{
    Engine, Fibers, FollowedState, Own, PassedQueue, Replied, SpareCommands, WaitEnd, WaitProgress, Waiting,
};
use crate::protocol::{Dialect, Framer, OwnedWords, Reply, ReplyScanner};
use crate::server::node::{Node, Trouble};
use crate::server::outgoing::Outgoing;
use crate::server::stream::Stream;
use crate::server::tls_stream::{NO_TLS_HERE, is_tls_hello};

/// The most bytes per read.
const READ: usize = 64 * 1024;
/// While more is unwritten to one side, nothing is read from the other.
const MOST_UNWRITTEN: usize = 256 * 1024;
/// How long the replies to a client that has gone are waited for, so that the journal can tell what has happened.
const LINGER: Duration = Duration::from_secs(1);
/// A blocking command without a reply counts as blocked after so long.
const BLOCKED_AFTER: Duration = Duration::from_millis(50);

thread_local! {
    /// Buffers that connections share while they are polled.
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        input: vec![0; READ],
        spare: Vec::new(),
        commands: SpareCommands::default(),
        fibers: Fibers::default(),
    });
}

pub(super) struct Scratch {
    input: Vec<u8>,
    /// Buffers for reuse.
    pub(super) spare: Vec<Vec<u8>>,
    pub(super) commands: SpareCommands,
    pub(super) fibers: Fibers,
}

type Connecting = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;
type Delay = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The side of the server.
enum Link {
    Connecting(Connecting),
    Open(Stream),
}

pub(in crate::server) struct ProxyConnection {
    pub(super) node: Arc<Node>,
    pub(super) engine: Arc<Engine>,
    pub(super) target: Arc<Target>,
    /// The node of a deployment that the client is connected to.
    pub(super) membership: Option<Box<Membership>>,
    /// What tells what scripts did on the server, if it was asked for.
    pub(super) script_monitor: Option<Arc<ScriptMonitor>>,
    pub(super) session: Box<Session>,
    client: Stream,
    server: Link,
    pub(super) framer: Framer,
    /// Bytes from the client that were not passed: a partial request, or requests behind one that waits.
    pub(super) input: BytesMut,
    pub(super) to_server: Outgoing,
    pub(super) to_client: Outgoing,
    pub(super) scanner: ReplyScanner,
    /// What is kept of the reply that has begun.
    pub(super) reply: Vec<u8>,
    /// Its bytes do not pass as they come.
    pub(super) is_held: bool,
    /// The replies of a command that has several, so far.
    pub(super) replies: Vec<u8>,
    pub(super) passed: PassedQueue,
    pub(super) state: FollowedState,
    /// The server has said goodbye: it runs nothing that was passed behind QUIT.
    pub(super) has_quit: bool,
    /// Where a long request ends that passes as it comes.
    pub(super) passing: Option<Box<ReplyScanner>>,
    /// MULTI was passed, and what ends it was not.
    pub(super) in_multi: bool,
    /// The server has let the client in.
    pub(super) is_let_in: bool,
    /// The server has not let the client in, which its command of the test powers has still to be told.
    pub(super) is_refused: bool,
    /// Requests, or requests and replies, are not looked at any more.
    pub(super) is_raw: Raw,
    pub(super) flow: State,
    client_has_ended: bool,
    /// Bytes of replies that the client never got.
    dropped: usize,
    /// The alarms that ended a wait, held until the consequences are written.
    due_alarms: Vec<Alarm>,
    /// Until when the client or a blocking command is waited for.
    delay: Option<Delay>,
    /// What the server's MONITOR tells about the client's scripts.
    pub(super) seen_as: SeenAs,
    /// A script that has its reply waits until MONITOR has shown what it called. Nothing more is read from the server.
    pub(super) awaited_calls: Option<Box<AwaitedCalls>>,
    /// A reply waits until the deployment was asked who is there. Nothing more is read from the server.
    pub(super) awaited_look: Option<Box<AwaitedLook>>,
    /// The client learns that the server has ended the connection when the port here does as the node does.
    ending: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// The deployment was asked for the reply that comes next.
    pub(super) has_looked: bool,
    /// What the server has sent behind the reply that waits.
    pub(super) unheard: Vec<u8>,
}

/// What is passed without a look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Raw {
    Nothing,
    /// Requests, behind one that is none.
    Requests,
    /// Everything: the server sends a stream of another kind, or what is no reply.
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Open,
    /// Reads nothing more; closes once everything is written to the client.
    Closing,
    /// Like `Closing`, but with a reset.
    Resetting,
    /// Closes at once.
    Dropped,
}

impl ProxyConnection {
    pub(in crate::server) fn new(
        node: Arc<Node>,
        destination: Destination,
        session: Box<Session>,
        client: Stream,
    ) -> Self {
        let engine = Arc::clone(node.root());
        let Destination { target, membership } = destination;
        let script_monitor = match &membership {
            Some(membership) => membership.member.script_monitor(&node),
            None => node.script_monitor().cloned(),
        };
        let connecting = Arc::clone(&target);
        let place = membership.as_ref().map(|place| (Arc::clone(&place.front), Arc::clone(&place.member)));
        Self {
            node,
            engine,
            server: Link::Connecting(Box::pin(async move {
                match place {
                    Some((front, member)) => front.connect(&member).await,
                    None => connecting.connect().await,
                }
            })),
            target,
            membership,
            script_monitor,
            session,
            client,
            framer: Framer::new(Dialect::Redis),
            input: BytesMut::new(),
            to_server: Outgoing::default(),
            to_client: Outgoing::default(),
            scanner: ReplyScanner::default(),
            reply: Vec::new(),
            is_held: false,
            replies: Vec::new(),
            passed: PassedQueue::default(),
            state: FollowedState::default(),
            has_quit: false,
            passing: None,
            in_multi: false,
            is_let_in: false,
            is_refused: false,
            is_raw: Raw::Nothing,
            flow: State::Open,
            client_has_ended: false,
            dropped: 0,
            due_alarms: Vec::new(),
            delay: None,
            seen_as: SeenAs::default(),
            awaited_calls: None,
            awaited_look: None,
            ending: None,
            has_looked: false,
            unheard: Vec::new(),
        }
    }

    /// The address of this side of the connection to the server.
    pub(super) fn local_address(&self) -> Option<SocketAddr> {
        match &self.server {
            Link::Open(stream) => stream.local_address(),
            Link::Connecting(_) => None,
        }
    }

    pub(super) fn log(&self, trouble: Trouble, text: &str) {
        let address = self.session.client.peer().address();
        self.node.log_trouble(trouble, &format!("Upstream {}: {text} (client {address})", self.target.address()));
    }

    /// Sends a command of the proxy itself, whose reply the client does not see.
    pub(super) fn send_own(&mut self, own: Own, words: &[&[u8]], scratch: &mut Scratch) {
        let mut request = OwnedWords::default();
        words.iter().for_each(|word| request.push(word));
        self.to_server.push(&request_of(request.as_words()), &mut scratch.spare);
        self.passed.push_own(own);
    }

    /// Begins with what the address of the server says.
    fn begin(&mut self, scratch: &mut Scratch) {
        let target = Arc::clone(&self.target);
        if let Some(words) = target.authentication() {
            self.send_own(Own::Auth, &words, scratch);
        }
        if let Some(database) = target.database().filter(|database| *database != 0) {
            self.session.db = database;
            self.send_own(Own::Select, &[b"SELECT", database.to_string().as_bytes()], scratch);
        }
    }

    fn poll_serve(&mut self, cx: &mut Context<'_>, scratch: &mut Scratch) -> Poll<io::Result<()>> {
        self.take_signals(scratch);
        if let Link::Connecting(connecting) = &mut self.server {
            if self.flow != State::Open {
                return Poll::Ready(Ok(()));
            }
            match connecting.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(stream)) => {
                    if let Some(membership) = &mut self.membership {
                        membership.connected(stream.local_address(), self.session.client.peer());
                    }
                    self.server = Link::Open(stream);
                    self.begin(scratch);
                }
                Poll::Ready(Err(error)) => {
                    self.log(Trouble::Absent, &format!("cannot connect to {error}"));
                    return Poll::Ready(Ok(()));
                }
            }
        }
        self.poll_wait(cx, scratch);
        if !self.input.is_empty() && self.engine.has_turn(&self.session) {
            // A command may have waited for others on its keys.
            self.run_held(scratch);
        }
        loop {
            let mut has_moved = false;
            self.poll_calls(cx, scratch);
            self.poll_look(cx, scratch);
            // To the client.
            let flushed = match &mut self.to_client.poll_flush(&mut self.client, cx, &mut scratch.spare) {
                Poll::Ready(Ok(())) => true,
                Poll::Ready(Err(_)) => {
                    self.client_is_gone();
                    true
                }
                Poll::Pending => false,
            };
            if flushed {
                self.session.in_flight.trace.written();
            }
            if !matches!(self.session.in_flight.wait.as_deref(), Some(Wait::Upstream)) {
                self.due_alarms.clear();
            }
            if self.session.client.has_signals() {
                self.session.client.end_signals();
            }
            if let Some(ending) = &mut self.ending {
                ready!(ending.as_mut().poll(cx));
                self.ending = None;
            }
            match self.flow {
                State::Dropped => return Poll::Ready(Ok(())),
                State::Closing if flushed => return Poll::Ready(Ok(())),
                State::Resetting if flushed => {
                    self.client.reset();
                    return Poll::Ready(Ok(()));
                }
                State::Closing | State::Resetting => return Poll::Pending,
                State::Open => {}
            }
            // From the server.
            if self.to_client.len() < MOST_UNWRITTEN && !self.awaits() && !self.is_cut_off() {
                let mut buffer = ReadBuf::new(&mut scratch.input);
                let Link::Open(server) = &mut self.server else { return Poll::Pending };
                match server.poll_read(cx, &mut buffer) {
                    Poll::Pending => {}
                    Poll::Ready(Ok(read @ 1..)) => {
                        has_moved = true;
                        let input = std::mem::take(&mut scratch.input);
                        self.hear(&input[..read], scratch);
                        scratch.input = input;
                        self.run_held(scratch);
                    }
                    Poll::Ready(ended) => {
                        self.server_has_ended(ended.err(), scratch);
                        has_moved = true;
                    }
                }
            }
            // To the server.
            let Link::Open(server) = &mut self.server else { return Poll::Pending };
            if let Poll::Ready(Err(error)) = self.to_server.poll_flush(server, cx, &mut scratch.spare) {
                // What it still sends is read first: it may say why it closes.
                self.to_server.clear();
                if self.passed.is_empty() {
                    self.server_has_ended(Some(error), scratch);
                    has_moved = true;
                }
            }
            // From the client.
            if self.flow == State::Open && !self.client_has_ended && self.to_server.len() < MOST_UNWRITTEN {
                let mut buffer = ReadBuf::new(&mut scratch.input);
                match self.client.poll_read(cx, &mut buffer) {
                    Poll::Pending => {}
                    Poll::Ready(Ok(read @ 1..)) => {
                        has_moved = true;
                        self.take_signals(scratch);
                        let input = std::mem::take(&mut scratch.input);
                        self.receive(&input[..read], scratch);
                        scratch.input = input;
                    }
                    Poll::Ready(ended) => {
                        if let Err(error) = ended
                            && self.client.has_failed_handshake()
                        {
                            self.node.log_failed_handshake(self.session.client.peer(), &error);
                        }
                        self.client_has_ended = true;
                        has_moved = true;
                    }
                }
            }
            if self.client_has_ended && self.flow == State::Open && self.is_over_without_client(cx) {
                return Poll::Ready(Ok(()));
            }
            self.poll_wait(cx, scratch);
            self.poll_delay(cx);
            if !has_moved {
                return Poll::Pending;
            }
        }
    }

    /// Whether a reply waits, and nothing is heard behind it.
    pub(super) fn awaits(&self) -> bool {
        self.awaits_calls() || self.awaited_look.is_some()
    }

    /// Whether the client is cut off from its node, so that nothing from there may reach it. What the proxy itself has asked
    /// is heard: a command of the test powers may wait for it.
    fn is_cut_off(&mut self) -> bool {
        self.membership.is_some()
            && self.engine.instance.is_cut_off(&self.session)
            && !matches!(self.passed.front_mut(), Some(Waiting::Own(_)))
    }

    /// Bytes from the client.
    fn receive(&mut self, arrived: &[u8], scratch: &mut Scratch) {
        add(&self.session.counters.input_bytes, arrived.len() as u64);
        let (seen, instance) = (self.session.client.seen(), &self.engine.instance);
        let is_first = seen.received.load(Ordering::Relaxed) == 0;
        add(&seen.received, arrived.len() as u64);
        if is_first && is_tls_hello(arrived) && !self.client.is_tls() {
            self.node.log_tls_hello(self.session.client.peer());
            let mut out = Vec::new();
            self.engine.answer(&mut self.session, &Reply::Error(NO_TLS_HERE), &mut out);
            self.to_client.push(&out, &mut scratch.spare);
            self.flow = State::Closing;
            return;
        }
        seen.last_used.store(instance.cached_now(), Ordering::Relaxed);
        if self.input.is_empty() && self.session.in_flight.wait.is_none() {
            let used = self.pass(arrived, scratch);
            self.input.extend_from_slice(&arrived[used..]);
        } else {
            self.input.extend_from_slice(arrived);
            if self.session.in_flight.wait.is_none() && self.input.len() >= self.framer.needed() {
                self.pass_input(scratch);
            }
        }
        if self.input.len() > self.engine.instance.config.live().query_buffer_limit.load(Ordering::Relaxed) {
            self.log(Trouble::Request, "a request is longer than client-query-buffer-limit");
            self.flow = State::Dropped;
        }
    }

    /// Passes what has arrived, if nothing holds it back any more.
    pub(super) fn run_held(&mut self, scratch: &mut Scratch) {
        if !self.input.is_empty() && self.session.in_flight.wait.is_none() && self.flow == State::Open {
            self.pass_input(scratch);
        }
    }

    fn pass_input(&mut self, scratch: &mut Scratch) {
        let mut input = std::mem::take(&mut self.input);
        let used = self.pass(&input, scratch);
        input.advance(used);
        if !input.is_empty() {
            input.unsplit(std::mem::take(&mut self.input));
            self.input = input;
        }
    }

    /// The client takes nothing more.
    fn client_is_gone(&mut self) {
        self.dropped += self.to_client.clear();
        self.client_has_ended = true;
    }

    /// Whether nothing is left to do for a client that sends nothing more: its commands have their replies, or none that
    /// comes without it.
    fn is_over_without_client(&mut self, cx: &mut Context<'_>) -> bool {
        if self.session.in_flight.wait.as_deref().is_some_and(|wait| !matches!(wait, Wait::Upstream)) {
            return true;
        }
        match self.passed.front_mut() {
            None => return self.to_client.is_empty() && self.to_server.is_empty(),
            Some(Waiting::Command(command)) if command.follows.may_block() => return true,
            Some(_) => {}
        }
        let delay = self.delay.get_or_insert_with(|| Box::pin(Clock::sleep(LINGER)));
        delay.as_mut().poll(cx).is_ready()
    }

    /// A blocking command that has no reply after a while is blocked: who released it waits no longer.
    fn poll_delay(&mut self, cx: &mut Context<'_>) {
        if self.client_has_ended {
            return;
        }
        if self.due_alarms.is_empty() {
            self.delay = None;
            return;
        }
        let blocks = matches!(self.passed.front_mut(), Some(Waiting::Command(command)) if command.follows.may_block());
        if blocks {
            let delay = self.delay.get_or_insert_with(|| Box::pin(Clock::sleep(BLOCKED_AFTER)));
            if delay.as_mut().poll(cx).is_ready() {
                self.delay = None;
                self.due_alarms.clear();
            }
        }
    }

    /// The server has closed its side, or the connection to it broke. The client's connection ends in the same way.
    fn server_has_ended(&mut self, error: Option<io::Error>, scratch: &mut Scratch) {
        let waiting = self.passed.len();
        if let Some(membership) = &self.membership {
            // It may be no master any more, or gone.
            membership.front.doubt();
            if !self.client_has_ended && !self.has_quit {
                let (front, member) = (Arc::clone(&membership.front), Arc::clone(&membership.member));
                self.ending = Some(Box::pin(front.follow_refusal(member)));
            }
        }
        let is_expected = self.passed.is_empty() || self.client_has_ended || self.is_raw == Raw::All;
        if !is_expected || error.is_some() {
            let how = error.as_ref().map_or("has closed the connection".to_owned(), |error| {
                format!("the connection broke: {}", plain(error))
            });
            let commands = if waiting == 1 { "1 command has".to_owned() } else { format!("{waiting} commands have") };
            self.log(Trouble::Ended, &format!("{how}; {commands} no reply"));
        }
        // A part of a reply that was held back passes as it would have without us, unless there may be addresses in it.
        let reply = std::mem::take(&mut self.reply);
        if self.scanner.is_partial() && self.is_held && self.is_for_somebody_else() {
            self.to_client.push(&reply, &mut scratch.spare);
        }
        let is_reset = error.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionReset);
        self.flow = if is_reset { State::Resetting } else { State::Closing };
    }

    /// Nobody will know whether the commands have run that have no reply.
    pub(super) fn forget_passed(&mut self) {
        let now = real_micros();
        let looked_up = self.awaited_look.take().map(|awaited| awaited.reply);
        let mut known = self.awaited_calls.take().map(|awaited| awaited.reply).or(looked_up);
        while let Some(waiting) = self.passed.pop() {
            if let Waiting::Command(mut command) = waiting {
                let unanswered = if self.has_quit { Replied::NeverRan } else { Replied::Unknown };
                let known = known.take();
                let reply = known.as_deref().map_or(unanswered, Replied::With);
                self.engine.end_passed(&mut self.session, &mut self.state, &mut command, reply, now);
            }
        }
        self.end_monitoring();
        self.engine.end_batch(&mut self.session, &mut Fibers::default());
    }

    fn take_signals(&mut self, scratch: &mut Scratch) {
        if !self.session.client.has_signals() {
            return;
        }
        self.session.client.begin_signals();
        let mut mail = Vec::new();
        self.session.client.take_mail(&mut mail);
        self.to_client.push(&mail, &mut scratch.spare);
        let client = Arc::clone(&self.session.client);
        if client.take_signal(Signal::Kill) {
            self.flow = State::Dropped;
            return;
        }
        if client.take_signal(Signal::Close) {
            self.flow = State::Closing;
        }
        if client.take_signal(Signal::Identified) {
            self.engine.introduce_again(&mut self.session);
        }
        for signal in [Signal::Unpause, Signal::Look, Signal::UnblockTimeout, Signal::UnblockError, Signal::RoleChanged]
        {
            client.take_signal(signal);
        }
    }

    /// Ends the wait if it is over, and goes on with the requests behind it.
    fn poll_wait(&mut self, cx: &mut Context<'_>, scratch: &mut Scratch) {
        while let Some(wait) = self.session.in_flight.wait.as_deref() {
            let is_parked = matches!(wait, Wait::ParkedRequest(_) | Wait::ParkedReply { .. });
            let mut out = Vec::new();
            match self.engine.poll_wait(&mut self.session, cx, &mut out) {
                WaitProgress::Pending => return,
                WaitProgress::Part(alarm) => {
                    self.to_client.push(&out, &mut scratch.spare);
                    self.due_alarms.extend(alarm);
                }
                WaitProgress::Ended(end) => {
                    let closing = &self.session.client.seen().closing;
                    if is_parked && (closing.load(Ordering::Relaxed) || self.client.has_ended()) {
                        self.flow = State::Dropped;
                    }
                    if is_parked && self.flow != State::Open {
                        return;
                    }
                    self.end_wait(end, scratch);
                }
            }
        }
    }

    /// Ends the wait of the command, which goes on from its stage.
    pub(super) fn end_wait(&mut self, end: WaitEnd, scratch: &mut Scratch) {
        let mut out = Vec::new();
        let (flow, alarm) = self.engine.resume(&mut self.session, end, &mut out, &mut scratch.fibers);
        self.due_alarms.extend(alarm);
        self.session.is_driven = !self.due_alarms.is_empty() || self.session.client.is_watched();
        self.go_on(flow, &mut out, scratch);
        self.session.is_driven = false;
    }

    /// Goes on as the flow of a command says that has written `out`.
    pub(super) fn go_on(&mut self, flow: Flow, out: &mut Vec<u8>, scratch: &mut Scratch) {
        match flow {
            Flow::Continue | Flow::Move(_) => {
                self.to_client.push(out, &mut scratch.spare);
                out.clear();
                self.run_held(scratch);
            }
            Flow::Close => self.flow = State::Closing,
            Flow::Reset => self.flow = State::Resetting,
            Flow::Drop => {
                self.dropped += out.len();
                out.clear();
                self.flow = State::Dropped;
            }
            Flow::Wait(wait) => self.engine.begin_wait(&mut self.session, wait, out),
        }
        self.to_client.push(out, &mut scratch.spare);
        out.clear();
    }
}

impl Future for ProxyConnection {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        this.session.client.register(cx.waker());
        let polled = catch_unwind(AssertUnwindSafe(|| {
            SCRATCH.with_borrow_mut(|scratch| this.poll_serve(cx, scratch)).map(|_ended_either_way| ())
        }));
        polled.unwrap_or_else(|panic| {
            this.engine.after_panic(&mut this.session, &*panic);
            Poll::Ready(())
        })
    }
}

impl Drop for ProxyConnection {
    fn drop(&mut self) {
        self.due_alarms.extend(self.session.client.end_signal_watch());
        self.forget_passed();
        self.engine.forget_turns(&self.session);
        let (parked, dripping) = match self.session.in_flight.wait.take().map(|wait| *wait) {
            Some(Wait::ParkedReply { reply, .. }) => (reply, 0),
            Some(Wait::Drip { reply, .. }) => (Vec::new(), reply.len()),
            _ => (Vec::new(), 0),
        };
        let unwritten = self.to_client.len() + self.dropped + dripping;
        self.engine.mark_unread(&self.session, unwritten);
        self.engine.disconnect(&mut self.session, &parked);
    }
}
