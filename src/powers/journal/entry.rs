//! What the journal says of one command.

/// What has become of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// It has its reply, which may be an error.
    Answered = 0,
    /// It ran, and the client does not have the reply, or not all of it.
    Lost = 1,
    /// It had no effect, and no reply: the connection was closed before it ran, or while it waited.
    NeverRan = 2,
    /// It ran, and the client had said that it wants no reply.
    Silent = 3,
    /// It waits for EXEC.
    Queued = 4,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Answered, Self::Lost, Self::NeverRan, Self::Silent, Self::Queued];

    /// As it is written on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Lost => "lost",
            Self::NeverRan => "never-ran",
            Self::Silent => "silent",
            Self::Queued => "queued",
        }
    }

    pub(super) fn from_number(number: u8) -> Self {
        Self::ALL.into_iter().find(|outcome| *outcome as u8 == number).unwrap_or(Self::Answered)
    }
}

/// A command that a client sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place in the order in which commands took effect: 1 is the first.
    pub seq: u64,
    /// When it took effect on the server's clock, in microseconds since 1970,
    pub at: i64,
    /// and in real time.
    pub real: i64,
    /// From its arrival to its reply, in microseconds of real time.
    pub duration: u64,
    /// From when it took effect to its reply, in microseconds of real time, if something could hold it up: a fault or a
    /// gate.
    pub held_after: Option<u64>,
    /// As CLIENT ID gives it.
    pub client: u64,
    /// As CLIENT SETNAME has given it; empty without.
    pub name: Vec<u8>,
    /// Where the client is connected from.
    pub address: String,
    /// The database that was selected.
    pub db: u32,
    /// The command as it came; cut off if it is long.
    pub words: Vec<Vec<u8>>,
    /// How many bytes of its words are not kept.
    pub words_missing: u64,
    /// As it was sent, or would have been; cut off if it is long.
    pub reply: Vec<u8>,
    /// How long the reply was.
    pub reply_length: u64,
    /// What has become of it.
    pub outcome: Outcome,
    /// The rule that it met, by name.
    pub fault: Option<String>,
    /// The gates that it came to, in that order.
    pub gates: Vec<String>,
    /// What EXEC or a script has run, in that order,
    pub children: Vec<Child>,
    /// and how many of those are not kept.
    pub children_missing: u64,
}

/// Something that happened to the server or to a connection, and was no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EventKind {
    /// A connection ended.
    Closed = 1,
    /// The server serves again after it was stopped; the detail says whether it is empty.
    Started = 2,
    /// The clock was moved; the detail says how.
    Clock = 3,
}

impl EventKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Closed, Self::Started, Self::Clock];

    /// As an exported journal has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Started => "started",
            Self::Clock => "clock",
        }
    }

    pub(super) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// What the journal keeps beside commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its place in the order, among the commands.
    pub seq: u64,
    /// When it happened on the server's clock, in microseconds since 1970,
    pub at: i64,
    /// and in real time.
    pub real: i64,
    pub kind: EventKind,
    /// The client that it is about, or 0.
    pub client: u64,
    pub name: Vec<u8>,
    pub address: String,
    /// More about it, for people.
    pub detail: String,
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
    /// How many bytes of its words are not kept.
    pub words_missing: u64,
    /// What it answered, in the protocol of the request that it ran in; cut off if it is long.
    pub reply: Vec<u8>,
    /// How long the reply was.
    pub reply_length: u64,
    /// The rule that it met, by name.
    pub fault: Option<String>,
    /// What it has run itself: a script inside EXEC.
    pub children: Vec<Child>,
}

impl Entry {
    /// Whether it ran, and the client does not have the reply.
    pub fn is_lost(&self) -> bool {
        self.outcome == Outcome::Lost
    }
}
