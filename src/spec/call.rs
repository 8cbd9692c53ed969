//! What a connection command is given, and what it can ask of its connection.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;

use super::table::Table;
use crate::base::clock::{Alarm, Millis};
use crate::clients::instance::Instance;
use crate::clients::session::Session;
use crate::powers::Permit;
use crate::protocol::Reply;

/// One run of a command that deals with the connection or the server.
pub struct Call<'a> {
    pub server: &'a Instance,
    pub table: &'a Table,
    pub session: &'a mut Session,
    /// The command's instant, in microseconds, once it is known: a transaction has one from the start.
    pub instant: Cell<Option<i64>>,
    /// What happens to the connection once the reply is written.
    pub flow: Flow,
}

impl Call<'_> {
    /// The command's instant, in milliseconds.
    pub fn now(&self) -> Millis {
        self.micros().div_euclid(1000)
    }

    /// The command's instant, in microseconds: the same, however often it is asked for.
    pub fn micros(&self) -> i64 {
        let micros = self.instant.get().unwrap_or_else(|| self.server.clock.micros());
        self.instant.set(Some(micros));
        micros
    }
}

/// How a connection goes on after a command.
#[derive(Debug)]
pub enum Flow {
    Continue,
    /// Write what there is to write, then close.
    Close,
    /// Write what there is to write, then close with a reset (TCP RST).
    Reset,
    /// Close at once, whatever is still unwritten.
    Drop,
    /// Go over to another space, and on with the next request there.
    Move(Box<Destination>),
    /// The command has no answer yet. In a box, so that all other commands have little to hand on.
    Wait(Box<Waiting>),
}

/// The space that a connection goes to; without a name, it is where it was when it was opened.
#[derive(Debug)]
pub struct Destination(pub Vec<u8>);

/// What a connection waits for before it goes on to its next request.
pub enum Waiting {
    /// For CLIENT PAUSE to end; then the same request is tried again.
    Unpause,
    /// To be let go on; then the same request is tried again.
    Held(Permit),
    /// For a deadline, or to be let go on; then the same request is tried again.
    Delayed { alarm: Option<Alarm>, ticket: Permit },
    /// For a script that takes long.
    Script,
    /// For a deadline (or for ever), or for CLIENT UNBLOCK; then this is the reply.
    Until { deadline: Option<Millis>, reply: Reply<'static> },
    /// To be let go on with the reply of a request that has run; then what follows it.
    HeldReply { ticket: Permit, reply: Vec<u8>, then: Flow },
    /// To have a reply sent bit by bit, or to be let go on, which sends the rest; then what follows it.
    Drip { reply: Bytes, bytes: usize, every: Duration, alarm: Option<Alarm>, ticket: Permit, then: Flow },
    /// For what a command of the test powers has set going; then this is the reply.
    ControlJob(ControlJob, Reply<'static>),
    /// For that to have happened.
    Underway(Pin<Box<dyn Future<Output = Reply<'static>> + Send>>),
    /// For the reply itself, which depends on what others do.
    Event(Pin<Box<dyn Future<Output = Reply<'static>> + Send>>),
}

/// What a command of the test powers sets going. It has its reply when all consequences have happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ControlJob {
    /// Whoever goes on because of the command gets as far as it can.
    Quiesce,
    /// The gates that are to be opened let everybody go, each only when the one before has gone as far as it can.
    OpenGates,
    /// The clock goes forward by so many microseconds, past every deadline in between.
    Advance(i64),
    /// The clock goes to this instant, in microseconds since 1970, past every deadline in between.
    SetClock(i64),
    /// The clock stops, where it is or at this instant in microseconds since 1970.
    Freeze(Option<i64>),
    /// The clock runs so many times as fast as the machine's.
    Run(f64),
    /// The clock stands, and goes to the next deadline whenever everybody waits. A client that has sent nothing for so
    /// long in real time is not waited for.
    Auto(Option<Duration>),
    /// Everything becomes as it was when the server started.
    Reset,
    /// The same, but what explores the orders of a test goes on.
    ResetForRun,
    /// The same, and then its next run begins.
    BeginRun,
}

impl ControlJob {
    /// How fast and how slow a clock can run, compared with the machine's.
    pub const FASTEST: f64 = 1_000_000.0;
    pub const SLOWEST: f64 = 0.001;
}

impl Waiting {
    /// Whether the same request is tried again after it.
    pub fn is_before(&self) -> bool {
        matches!(self, Self::Unpause | Self::Held(_) | Self::Delayed { .. })
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unpause => "Unpause",
            Self::Held(_) => "Held",
            Self::Delayed { .. } => "Delayed",
            Self::Script => "Script",
            Self::Until { .. } => "Until",
            Self::HeldReply { .. } => "HeldReply",
            Self::Drip { .. } => "Drip",
            Self::ControlJob(..) => "ControlJob",
            Self::Underway(_) => "Underway",
            Self::Event(_) => "Event",
        })
    }
}
