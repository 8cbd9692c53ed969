//! Entries and events of the journal.

use std::sync::Arc;

use crate::base::process::Process;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// It was answered, perhaps with an error.
    Answered = 0,
    /// It ran, and the client did not get the reply, or not all of it.
    Lost = 1,
    /// It had no effect and no reply: the connection was closed before it ran, or while it was blocked.
    NeverRan = 2,
    /// It ran, and the client had asked for no reply.
    Silent = 3,
    /// It was queued for EXEC.
    Queued = 4,
    /// It is no command: the server evicted a key.
    Evicted = 5,
    /// It was sent to an upstream server, and the connection broke before the reply: it may have run, or not.
    Unknown = 6,
    /// It is no command: REDOUBLE MARK wrote a text into the journal.
    Mark = 7,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Answered,
        Self::Lost,
        Self::NeverRan,
        Self::Silent,
        Self::Queued,
        Self::Evicted,
        Self::Unknown,
        Self::Mark,
    ];

    /// As it is written on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Lost => "lost",
            Self::NeverRan => "never-ran",
            Self::Silent => "silent",
            Self::Queued => "queued",
            Self::Evicted => "evicted",
            Self::Unknown => "unknown",
            Self::Mark => "mark",
        }
    }

    /// Of the entry that stands for an event in a list.
    pub(super) fn of_event(kind: EventKind) -> Self {
        if kind == EventKind::Mark { Self::Mark } else { Self::Evicted }
    }

    pub(super) fn from_number(number: u8) -> Self {
        Self::ALL.into_iter().find(|outcome| *outcome as u8 == number).unwrap_or(Self::Answered)
    }
}

/// What is known about when a command took effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum EffectOrder {
    /// It took effect at its time, and sequence numbers are the order of effects.
    #[default]
    Total = 0,
    /// It took effect between `sent` and its time. For each of its keys, sequence numbers are the order of effects.
    Exact = 1,
    /// It took effect between `sent` and its time; so did others whose intervals overlap, in any order.
    Interval = 2,
}

impl EffectOrder {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Total, Self::Exact, Self::Interval];

    /// As it is written on the wire and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Exact => "exact",
            Self::Interval => "interval",
        }
    }

    pub(super) fn from_number(number: u8) -> Self {
        Self::ALL.into_iter().find(|order| *order as u8 == number).unwrap_or_default()
    }
}

/// A command that a client sent; or, with the outcome [`Evicted`](Outcome::Evicted), a key that the server evicted, and with
/// [`Mark`](Outcome::Mark) the text of a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its sequence number in the order of effects, from 1.
    pub seq: u64,
    /// When it took effect on the server's clock, in microseconds since 1970.
    pub at: i64,
    /// When it took effect in real time; of a command to an upstream server, when the reply had arrived.
    pub real: i64,
    /// When an upstream server was sent the command, in microseconds of real time.
    pub sent: Option<i64>,
    /// Whether it took effect at its time, or some time after it was sent.
    pub order: EffectOrder,
    /// From its arrival to its reply, in microseconds of real time.
    pub duration: u64,
    /// From its effect to its reply, in microseconds of real time, if a fault or a gate could hold it up.
    pub held_after: Option<u64>,
    /// The client's id (CLIENT ID).
    pub client: u64,
    /// The client's name (CLIENT SETNAME), or empty.
    pub name: Vec<u8>,
    /// The address that the client is connected from.
    pub address: String,
    /// The client's process, if it is on this machine and could be found.
    pub process: Option<Arc<Process>>,
    /// The real address of the node to which the client is connected, `host:port`, if there is a deployment.
    pub node: Option<String>,
    /// The database that was selected.
    pub db: u32,
    /// The command as it was sent; cut off if it is long. Of an eviction only the key, of a mark its text.
    pub words: Vec<Vec<u8>>,
    /// How many bytes of its words were not kept.
    pub words_missing: u64,
    /// The reply as it was sent, or would have been; cut off if it is long.
    pub reply: Vec<u8>,
    /// The length of the whole reply.
    pub reply_length: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// The name of the rule that fired at it.
    pub fault: Option<String>,
    /// The names of the gates that it reached, in that order.
    pub gates: Vec<String>,
    /// The commands that EXEC or a script ran, in that order.
    pub children: Vec<Child>,
    /// How many of those were not kept.
    pub children_missing: u64,
    /// Whether it is unknown what it ran, if it is EXEC or a script: `children` is empty then.
    pub are_children_unknown: bool,
}

/// What kind of event happened to the server or to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EventKind {
    /// A connection ended.
    Closed = 1,
    /// The server serves again after it was stopped; the detail says whether it is empty.
    Started = 2,
    /// The clock was moved; the detail says how.
    Clock = 3,
    /// A key was evicted, because memory was full.
    Evicted = 4,
    /// Records are missing here: they were dropped before a recording had them. The detail says how many.
    Missing = 5,
    /// A node of the deployment is master now. The detail is the address of the master that it replaces.
    Promoted = 6,
    /// Something else has changed at a node of the deployment; the detail says what.
    Topology = 7,
    /// REDOUBLE MARK: what follows belongs to the test, or whatever else, that the detail names.
    Mark = 8,
    /// A change that the new master does not have, which has taken this server's place: it is lost with the key that it was of.
    Lost = 9,
    /// The link to a replica is treated in another way from here on; the detail says how.
    Link = 10,
    /// Another instance is master in this server's place. The detail says whether this one knows.
    Replaced = 11,
}

impl EventKind {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Closed,
        Self::Started,
        Self::Clock,
        Self::Evicted,
        Self::Missing,
        Self::Promoted,
        Self::Topology,
        Self::Mark,
        Self::Lost,
        Self::Link,
        Self::Replaced,
    ];

    /// As an exported journal has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Started => "started",
            Self::Clock => "clock",
            Self::Evicted => "evicted",
            Self::Missing => "missing",
            Self::Promoted => "promoted",
            Self::Topology => "topology",
            Self::Mark => "mark",
            Self::Lost => "lost",
            Self::Link => "link",
            Self::Replaced => "replaced",
        }
    }

    /// Whether it is about a node of the deployment, or about another instance of the process.
    pub fn is_about_node(self) -> bool {
        matches!(self, Self::Promoted | Self::Topology | Self::Lost | Self::Link | Self::Replaced)
    }

    pub(super) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// An event: something that is no command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its sequence number, among those of commands.
    pub seq: u64,
    /// When it happened on the server's clock, in microseconds since 1970.
    pub at: i64,
    /// When it happened in real time.
    pub real: i64,
    pub kind: EventKind,
    /// The id of the client that it is about, or 0.
    pub client: u64,
    pub name: Vec<u8>,
    pub address: String,
    pub process: Option<Arc<Process>>,
    /// The real address of the node that it is about, `host:port`; of a connection that has ended, the node it was to.
    pub node: Option<String>,
    /// Details, for people.
    pub detail: String,
    /// The database and the key that it is about, if it is about one.
    pub key: Option<(u32, Vec<u8>)>,
    /// The replicas that had the change that is lost.
    pub had_by: Vec<String>,
}

impl EventKind {
    /// What [`Replaced`](Self::Replaced) says of a master that was cut off, and goes on.
    pub const UNAWARE: &'static str = "cut off";
    /// What it says of one that follows the new master at once.
    pub const FOLLOWS: &'static str = "follows";
}

/// A line of an exported journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// Boxed: it is much larger than an event.
    Command(Box<Entry>),
    Event(Event),
}

/// A command that ran inside EXEC or a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// The database that was selected.
    pub db: u32,
    /// The command; cut off if it is long.
    pub words: Vec<Vec<u8>>,
    /// How many bytes of its words were not kept.
    pub words_missing: u64,
    /// Its reply, in the protocol of the request that ran it; cut off if it is long.
    pub reply: Vec<u8>,
    /// The length of the whole reply.
    pub reply_length: u64,
    /// The name of the rule that fired at it.
    pub fault: Option<String>,
    /// The commands that it ran itself, as a script inside EXEC does.
    pub children: Vec<Child>,
}

impl Entry {
    /// Whether it ran, and the client did not get the reply.
    pub fn is_lost(&self) -> bool {
        self.outcome == Outcome::Lost
    }
}
