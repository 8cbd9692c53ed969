//! What a command has done to a key, as far as locks are concerned.

use smallvec::SmallVec;

/// What one command, alone or inside EXEC or a script, has done to one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    pub db: u32,
    pub key: &'a [u8],
    pub act: Act<'a>,
    pub guard: Guard<'a>,
    /// It ran in one step with others: inside a script or EXEC.
    pub joint: bool,
}

impl Step<'_> {
    /// It is what nobody does to a lock: something else is written, or another value in the place of one that was compared.
    pub fn is_no_locks(&self) -> bool {
        match (&self.act, self.guard) {
            (Act::Write, _) => true,
            (Act::Put { value, .. }, Guard::Compared(Some(token))) => {
                *value != token && (!value.starts_with(token) || token.len() < 8)
            }
            _ => false,
        }
    }
}

pub type Steps<'a> = SmallVec<[Step<'a>; 2]>;

/// What has been done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act<'a> {
    /// The key was to be set if nobody had it: SETNX, SET NX, MSETNX, or a script that looked first.
    Take { value: &'a [u8], expiry: Expiry, took: bool },
    /// The key was set, whoever had it: SET, GETSET, SETEX, MSET.
    Put {
        value: &'a [u8],
        expiry: Expiry,
        /// What was there before, if the reply tells.
        old: Option<Option<&'a [u8]>>,
    },
    /// The key was read; nothing was there if there is no value.
    Read { value: Option<&'a [u8]> },
    /// The key was to be deleted. Whether it was is not known if the reply counts several keys.
    Remove { removed: Option<bool> },
    /// The key was to be given another time to live.
    Expire { expiry: Expiry, done: bool },
    /// Something looked at the key's value first, found another one than it was given, and did nothing.
    Miss {
        intent: Intent,
        /// The command says what it was for, or the script has done that before; else it is guessed.
        is_known: bool,
    },
    /// A member was added to a lock that has several: the field of a hash that counts how often its owner has it, or the
    /// member of a sorted set that lets several in.
    Enter { shape: Shape, member: &'a [u8] },
    /// A member was taken away, or counted down.
    Leave {
        shape: Shape,
        member: &'a [u8],
        /// How often the member still has it.
        count: i64,
        /// There was no such member.
        missed: bool,
    },
    /// Something else was written there, which nobody does to a lock: INCR, APPEND, another type.
    Write,
    /// All keys of the database were deleted, or of all databases. The key is empty then.
    Flush { all: bool },
}

/// What was looked at before something was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard<'a> {
    /// Nothing.
    Blind,
    /// That the key still has this value, in one step with what was done: in a script, by a command that compares, or
    /// between WATCH and EXEC. Without a value it is not known which (a digest).
    Compared(Option<&'a [u8]>),
}

/// What something was for that has done nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    Release,
    Extend,
    Acquire,
    /// The script has never done anything so far.
    Unknown,
}

/// When a key is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// As before.
    Kept,
    Never,
    /// After so many milliseconds,
    In(i64),
    /// or at this instant on the server's clock, in milliseconds.
    At(i64),
}

/// Deadlines further from 1970 than that, in milliseconds, count as so far, so that they can be counted with.
const FURTHEST: i64 = (1 << 61) / 1000;

impl Expiry {
    /// When that is for a command that takes effect at this time in microseconds.
    pub fn deadline(self, at: i64, before: Option<i64>) -> Option<i64> {
        let deadline = match self {
            Self::Kept => before?,
            Self::Never => return None,
            Self::In(millis) => at.div_euclid(1000).saturating_add(millis),
            Self::At(millis) => millis,
        };
        Some(deadline.clamp(-FURTHEST, FURTHEST))
    }
}

/// How a lock is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A string: the owner's token, or the time at which the lock ends.
    Value,
    /// A hash with one field, the owner, which counts how often it has it.
    Hash,
    /// A sorted set that has several owners.
    Semaphore,
}
