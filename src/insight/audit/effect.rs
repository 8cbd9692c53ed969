//! What one command did to one key, as far as locks are concerned.

use smallvec::SmallVec;

/// The effect of a command, alone or inside EXEC or a script, on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEffect<'a> {
    pub db: u32,
    pub key: &'a [u8],
    pub effect: Effect<'a>,
    pub precondition: Precondition<'a>,
}

impl KeyEffect<'_> {
    /// Whether no lock library does this to a lock: it writes another type, or replaces a compared value by another one.
    pub fn is_unlike_locks(&self) -> bool {
        match (&self.effect, self.precondition) {
            (Effect::OtherWrite, _) => true,
            (Effect::Set { value, .. }, Precondition::Compared(Some(token))) => {
                *value != token && (!value.starts_with(token) || token.len() < 8)
            }
            _ => false,
        }
    }
}

pub type KeyEffects<'a> = SmallVec<[KeyEffect<'a>; 2]>;

/// What happened to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<'a> {
    /// The key was to be set only if it was free: SETNX, SET NX, MSETNX, or a script that looked first.
    Take { value: &'a [u8], expiry: ExpiryChange, took: bool },
    /// The key was set whether it was free or not: SET, GETSET, SETEX, MSET.
    Set {
        value: &'a [u8],
        expiry: ExpiryChange,
        /// The old value, if the reply has it.
        old: Option<Option<&'a [u8]>>,
    },
    /// The key got a value that stands in no word of the command: RESTORE, RENAME, MOVE, COPY.
    Arrive {
        /// `None` if it is unknown.
        value: Option<&'a [u8]>,
        expiry: ExpiryChange,
        /// How the client comes to stand to the value.
        claim: Claim,
    },
    /// The key's value was to go to another key: RENAME, RENAMENX, MOVE, COPY.
    Transfer { to_db: u32, to_key: &'a [u8], kind: TransferKind, done: bool },
    /// The key was read; it was free if there is no value.
    Read { value: Option<&'a [u8]> },
    /// The key was to be deleted. `None` if the reply counts several keys.
    Delete { removed: Option<bool> },
    /// The key was to get another deadline.
    Expire { expiry: ExpiryChange, done: bool },
    /// A release or extension compared the value first, found another one, and did nothing.
    NotOwned {
        intent: Intent,
        /// Whether the intent is known: from the command, or from what the script did before. It is a guess otherwise.
        is_known: bool,
    },
    /// A member was added to a lock with several: the field of a hash that counts, or the member of a sorted set.
    AddMember { shape: LockShape, member: &'a [u8] },
    /// A member was removed, or counted down.
    RemoveMember {
        shape: LockShape,
        member: &'a [u8],
        /// What is left of the member's count.
        count: i64,
        /// There was no such member.
        missed: bool,
    },
    /// The key was written as no lock is: INCR, APPEND, another type.
    OtherWrite,
    /// The key may have been changed, and the journal does not say how.
    Unknown {
        /// The command takes the lock if the key is free.
        may_take: bool,
    },
    /// All keys of the database, or of all databases, were deleted. The effect has no key.
    Flush { all: bool },
    /// Two databases were exchanged. The effect has no key.
    SwapDatabases { one: u32, other: u32 },
}

/// How a client stands to a value that arrives under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It takes the lock, which was free: RENAMENX.
    TakesFree,
    /// It takes the lock unless another client holds it: the holder renames its own lock.
    Takes,
    /// It sets the key, as SET does.
    Sets,
    /// It claims nothing: a copy.
    None,
    /// It wanted to take the lock, and the key was not free.
    Refused,
}

/// A command that carries a value from one key to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferKind {
    Rename,
    RenameIfAbsent,
    Move,
    Copy,
}

/// What a command compared before it acted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition<'a> {
    None,
    /// That the key has this value, in the same step: in a script, by a command that compares, or between WATCH and
    /// EXEC. The value is `None` if only a digest was compared.
    Compared(Option<&'a [u8]>),
}

impl<'a> Precondition<'a> {
    pub fn token(self) -> Option<&'a [u8]> {
        match self {
            Self::Compared(token) => token,
            Self::None => None,
        }
    }
}

/// The purpose of a command or script that did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    Release,
    Extend,
    Acquire,
    /// The script has done nothing so far.
    Unknown,
}

/// The new deadline of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiryChange {
    /// As before.
    Kept,
    Never,
    /// After this many milliseconds.
    In(i64),
    /// At this time on the server's clock, in milliseconds.
    At(i64),
}

/// The furthest deadline from 1970 that is counted with, in milliseconds; those beyond are taken for this one.
const FURTHEST: i64 = (1 << 61) / 1000;

impl ExpiryChange {
    /// The deadline for a command that takes effect at this time in microseconds.
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

/// How a lock is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockShape {
    /// A string: the owner's token, or the time at which the lock ends.
    Value,
    /// A hash with one field, the owner, which counts how often it has the lock.
    Hash,
    /// A sorted set or hash with several owners.
    Semaphore,
}
