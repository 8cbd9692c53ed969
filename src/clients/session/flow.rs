//! How a connection goes on after a command, and what a command can wait for.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;

use crate::base::clock::Millis;
use crate::powers::Permit;
use crate::protocol::Reply;

/// How a connection goes on after a command.
#[derive(Debug)]
pub enum Flow {
    Continue,
    /// Write what is pending, then close.
    Close,
    /// Write what is pending, then close with a reset (TCP RST).
    Reset,
    /// Close at once, whatever is still unwritten.
    Drop,
    /// Move to another space, and go on there with the next request.
    Move(Box<Destination>),
    /// The command has no reply yet. Boxed, because every command returns a `Flow` and few wait.
    Wait(Box<Wait>),
}

/// The space that a connection moves to; an empty name stands for the one in which it was opened.
#[derive(Debug)]
pub struct Destination(pub Vec<u8>);

/// What a command waits for. Its connection runs nothing else meanwhile.
///
/// A new kind of wait is a variant here; the compiler then names the places that handle it, all in `engine/waits.rs`: how
/// the wait begins, when it is over, and how the command goes on.
pub enum Wait {
    /// The end of CLIENT PAUSE. The request is run again afterwards.
    Unpause,
    /// Its release from a queue, in front of its run. The request is run again afterwards.
    ParkedRequest(Permit),
    /// A deadline, or its release from a queue, in front of its run. The request is run again afterwards.
    Delay(Permit),
    /// The end of a script that takes long.
    Script,
    /// Keys, replicas, or CLIENT UNBLOCK; at the deadline, if there is one, the reply is this.
    Blocked { deadline: Option<Millis>, reply: Reply<'static> },
    /// Its release from a queue, behind its run; then the reply, and what follows it.
    ParkedReply { permit: Permit, reply: Vec<u8>, then: Flow },
    /// The deadline of the next part of a reply, or its release from a queue, which sends the rest; then what follows it.
    Drip { reply: Bytes, bytes: usize, every: Duration, permit: Permit, then: Flow },
    /// Its turn on its keys among the commands to the upstream server. The request is run again afterwards.
    KeyTurn,
    /// The reply of the upstream server.
    Upstream,
    /// The end of a control job that is not started yet; then this reply.
    ControlJob(ControlJob, Reply<'static>),
    /// The end of a control job; the future yields the reply.
    RunningJob(PendingReply),
    /// Something that other clients do; the future yields the reply.
    Event(PendingReply),
}

/// A reply that is there once something has happened.
pub type PendingReply = Pin<Box<dyn Future<Output = Reply<'static>> + Send>>;

impl Wait {
    /// Whether the command has not run yet, and its request is run again after the wait.
    pub fn is_before_run(&self) -> bool {
        matches!(self, Self::Unpause | Self::ParkedRequest(_) | Self::Delay(_) | Self::KeyTurn)
    }
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unpause => "Unpause",
            Self::ParkedRequest(_) => "ParkedRequest",
            Self::Delay(_) => "Delay",
            Self::Script => "Script",
            Self::Blocked { .. } => "Blocked",
            Self::ParkedReply { .. } => "ParkedReply",
            Self::Drip { .. } => "Drip",
            Self::KeyTurn => "KeyTurn",
            Self::Upstream => "Upstream",
            Self::ControlJob(..) => "ControlJob",
            Self::RunningJob(_) => "RunningJob",
            Self::Event(_) => "Event",
        })
    }
}

/// Work that a command of the test powers starts. The command is answered when all consequences have happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ControlJob {
    /// Waits until every command that was released has gone as far as it can.
    Quiesce,
    /// Opens the gates that are marked for it. Each command is released when the one before has gone as far as it can.
    OpenGates,
    /// Moves the clock forward by so many microseconds, past every deadline in between.
    Advance(i64),
    /// Moves the clock to this instant, in microseconds since 1970, past every deadline in between.
    SetClock(i64),
    /// Stops the clock, where it is or at this instant in microseconds since 1970.
    Freeze(Option<i64>),
    /// Runs the clock so many times as fast as the machine's.
    Run(f64),
    /// Stops the clock, and moves it to the next deadline whenever every client is blocked. A client that has sent nothing
    /// for so long in real time counts as blocked.
    Auto(Option<Duration>),
    /// Resets everything to its state at start-up.
    Reset,
    /// The same, but an exploration goes on.
    ResetForRun,
    /// The same, and then the exploration's next run begins.
    BeginRun,
    /// An exploration was stopped: the clients of all instances that were explored go on, and each clock runs.
    EndExploration,
}

impl ControlJob {
    /// How fast and how slow a clock can run, compared with the machine's.
    pub const FASTEST: f64 = 1_000_000.0;
    pub const SLOWEST: f64 = 0.001;
}
