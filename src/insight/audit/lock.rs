//! What is known of one lock: who believes to hold it, who held it, who waits for it.
//!
//! The rules' own states are kept beside a lock, not in it: see `lock_table.rs`.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;

use super::client_identity::ClientIdentity;
use super::effect::LockShape;
use super::finding::{Finding, JournalRef};
use super::guarded_work::GuardedWork;
use super::lock_reason::{LockReason, LockReasons};
use super::timestamp::Timestamp;

/// A key. Those of most locks are short enough to have their place in the id itself.
pub type LockKey = SmallVec<[u8; 24]>;

/// The key of a lock, with its server and database.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockId {
    pub server: u16,
    pub db: u32,
    pub key: LockKey,
}

impl LockId {
    /// The key for what is told of the lock.
    pub fn shared_key(&self) -> Arc<[u8]> {
        Arc::from(&*self.key)
    }
}

/// A key that is a lock, or may be one.
#[derive(Clone)]
pub struct Lock {
    pub id: Arc<LockId>,
    /// Its number in the order in which keys were tracked.
    pub number: u64,
    pub reasons: LockReasons,
    /// The command that showed each reason first.
    pub reason_sources: Vec<(LockReason, JournalRef)>,
    pub shape: LockShape,
    /// The value on the server as far as it is known; `None` if the key is free.
    pub value: Option<Box<[u8]>>,
    /// Whether the value on the server is unknown: RESTORE or RENAME brought it. `value` is empty then.
    pub is_value_unknown: bool,
    /// Whether it is unknown what the server has, and who holds the lock. `value` is `None` then, and there are no holds.
    pub is_in_doubt: bool,
    /// Whether replies of commands are missing in the journal: it is followed then even while it is free.
    pub lacks_replies: bool,
    /// The server's deadline, in milliseconds on its clock.
    pub deadline: Option<i64>,
    /// How many milliseconds earlier the deadline may be: the command that set it took effect some time in an interval.
    pub deadline_slack: i64,
    /// The node that had it when a command last showed it or changed it, if there are nodes.
    pub node: Option<Arc<str>>,
    /// The holds of clients that believe to hold the lock.
    pub holds: Vec<Hold>,
    /// The last holds that ended, the latest at the end.
    pub past_holds: VecDeque<PastHold>,
    pub waiters: Vec<Waiter>,
    /// Findings that are held back while the key may be no lock.
    pub pending: Vec<Finding>,
    pub times_taken: u64,
    /// The hashes of some keys that its holders have used.
    pub used_keys: Vec<u64>,
    /// What its holders wrote meanwhile, until it is known for a lock.
    pub guarded: Option<Box<GuardedWork>>,
}

/// How a client came to hold a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquisition {
    /// The key was free.
    Free,
    /// The time in the old value was over, and GETSET wrote a new one.
    TakenOver,
    /// As a member of a hash or a sorted set.
    Member,
    /// Its former hold had expired, and a renewal set the free key anew.
    Renewed,
}

/// What became of the lock on the server while a client believes to hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldStatus {
    /// The server has it.
    Held,
    /// Another client deleted it.
    Deleted(Arc<JournalRef>),
    /// Another client overwrote it.
    Overwritten(Arc<JournalRef>),
    /// It went with all keys of its database.
    Flushed(Flush),
    /// The node that had it was replaced by one that has it not.
    FailedOver(Arc<JournalRef>),
    /// The server evicted it, because memory was full.
    Evicted(Arc<JournalRef>),
    /// The server has another value or none, and no command in the journal explains it.
    Vanished,
}

/// A command or restart that took all keys of a database away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flush {
    pub source: Arc<JournalRef>,
    pub cause: FlushCause,
}

/// What took all keys of a database away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushCause {
    /// FLUSHDB or FLUSHALL.
    Flush,
    /// The server started empty.
    Restart,
    /// SWAPDB: the keys are in another database now.
    Swap,
}

impl FlushCause {
    /// What the client did.
    pub fn did(self) -> &'static str {
        match self {
            Self::Flush | Self::Restart => "deleted all keys",
            Self::Swap => "swapped the databases",
        }
    }

    /// What happened to the key.
    pub fn gone_with(self) -> &'static str {
        match self {
            Self::Flush | Self::Restart => "gone with all keys",
            Self::Swap => "gone to another database",
        }
    }

    /// What was done to the server's data.
    pub fn was_done(self) -> &'static str {
        match self {
            Self::Flush => "all keys were deleted",
            Self::Restart => "the server began anew",
            Self::Swap => "the databases were swapped",
        }
    }

    /// What had been done.
    pub fn had_been_done(self) -> &'static str {
        match self {
            Self::Flush | Self::Restart => "all keys had been deleted",
            Self::Swap => "the databases had been swapped",
        }
    }
}

/// A client's belief to hold a lock: from the reply that granted it until the client releases it, its time is over, or a
/// reply says that it is lost.
#[derive(Clone, Debug)]
pub struct Hold {
    pub client: ClientIdentity,
    /// The value that the client wrote, or the member; empty if it is unknown.
    pub token: Box<[u8]>,
    pub how: Acquisition,
    /// The command that took the lock.
    pub acquired: Arc<JournalRef>,
    /// The last command that extended it.
    pub extended: Option<Arc<JournalRef>>,
    pub extensions: u32,
    /// The server's deadline as the holder knows it, in milliseconds on the server's clock.
    pub deadline: Option<i64>,
    /// Whether the key came with a deadline that no command shows: RENAMENX brought it.
    pub is_deadline_unknown: bool,
    /// The command of another client that made the deadline earlier without the holder's knowledge.
    pub shortened: Option<Arc<JournalRef>>,
    /// The end that the holder wrote into the value.
    pub timestamp: Option<Timestamp>,
    /// Whether the holder received the reply; if not, it may hold the lock.
    pub is_certain: bool,
    /// When the holder received the reply, in microseconds of real time, if that was later than at once.
    pub replied_at: Option<i64>,
    pub status: HoldStatus,
    /// The last WAIT that told the holder that a replica has its writes.
    pub acknowledged: Option<Arc<JournalRef>>,
    /// The last WAIT that told the holder that too few replicas have its lock.
    pub short_wait: Option<Box<ShortWait>>,
    /// The node that had the lock was replaced, and nothing has shown yet that the new one has it.
    pub failover: Option<Box<Failover>>,
}

/// A WAIT behind the command that gave a lock, or extended it, which answered less than it asked for.
#[derive(Clone, Debug)]
pub struct ShortWait {
    pub source: Arc<JournalRef>,
    /// How many replicas it asked for, and how many had the lock.
    pub asked: i64,
    pub had: i64,
    /// It is told that the client went on.
    pub is_told: bool,
}

/// A node that had a lock was replaced while a client held it.
#[derive(Clone, Debug)]
pub struct Failover {
    /// The promotion of the new master.
    pub source: Arc<JournalRef>,
    /// The former one.
    pub replaced: Arc<str>,
}

/// How a hold ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldEnd {
    /// The holder released it.
    Released,
    /// Its time was over.
    Expired,
    /// The holder's connection ended.
    Closed,
    /// A reply told the holder that the lock is lost.
    Noticed,
    /// Something happened to the lock that the journal does not say.
    Unknown,
}

/// A hold that ended.
#[derive(Clone, Debug)]
pub struct PastHold {
    pub hold: Hold,
    pub end: HoldEnd,
    /// When it ended, in microseconds on the server's clock; the moment of expiry for a hold that expired.
    pub at: i64,
    /// The command that ended it, if one did.
    pub ended_by: Option<Arc<JournalRef>>,
}

impl PastHold {
    /// Reads all around, so that its memory is fetched before it is freed. What it returns means nothing.
    pub fn touch(&self) -> usize {
        let sources = [Some(&self.hold.acquired), self.ended_by.as_ref()];
        let lines = sources.into_iter().flatten().map(|source| source.line.as_bytes().first());
        lines.chain([self.hold.token.first()]).flatten().map(|byte| usize::from(*byte)).sum()
    }
}

/// A client that was refused and has not got the lock since.
#[derive(Clone, Debug)]
pub struct Waiter {
    pub client: ClientIdentity,
    /// The first and the last attempt.
    pub first: Arc<JournalRef>,
    pub last: Arc<JournalRef>,
    pub attempts: u64,
}

/// How many past holds and waiters are remembered of each lock.
pub const MAX_PAST_HOLDS: usize = 8;
pub const MAX_WAITERS: usize = 256;

/// How many keys are remembered that the holders of a lock have used.
const MAX_USED_KEYS: usize = 16;

/// Appends to a list that mostly has one element: reserves room for no more at first.
pub fn push_exact<T>(list: &mut Vec<T>, element: T) {
    if list.capacity() == 0 {
        list.reserve_exact(1);
    }
    list.push(element);
}

/// Adds the hash of a key to those that the holders of a lock have used.
pub fn note_used(used_keys: &mut Vec<u64>, key: u64) {
    if used_keys.len() < MAX_USED_KEYS && !used_keys.contains(&key) {
        push_exact(used_keys, key);
    }
}

impl Lock {
    pub fn new(id: Arc<LockId>, number: u64) -> Self {
        Self {
            number,
            reasons: LockReasons::of_key(&id.key),
            id,
            reason_sources: Vec::new(),
            shape: LockShape::Value,
            value: None,
            is_value_unknown: false,
            is_in_doubt: false,
            lacks_replies: false,
            deadline: None,
            deadline_slack: 0,
            node: None,
            holds: Vec::new(),
            past_holds: VecDeque::new(),
            waiters: Vec::new(),
            pending: Vec::new(),
            times_taken: 0,
            used_keys: Vec::new(),
            guarded: None,
        }
    }

    /// A holder uses the key with this hash.
    pub fn note_used(&mut self, key: u64) {
        note_used(&mut self.used_keys, key);
    }

    /// Whether a holder has used the key with this hash.
    pub fn is_used_for(&self, key: u64) -> bool {
        self.used_keys.contains(&key)
    }

    /// Whether the reasons are enough to take the key for a lock.
    pub fn is_known(&self) -> bool {
        self.reasons.are_enough()
    }

    /// Whether it is a guess: a key that was found absent and then set, as data are, too.
    pub fn is_guess(&self) -> bool {
        self.reasons.are_a_guess()
    }

    /// Whether a client holds the lock, waits for it, or the server has the key.
    pub fn is_in_use(&self) -> bool {
        !self.holds.is_empty() || !self.waiters.is_empty() || self.value.is_some() || self.lacks_replies
    }

    /// Whether the last hold had a token and expired: its client may come back for it, which shows that it was a lock.
    pub fn has_expired_token(&self) -> bool {
        let last = self.past_holds.back().filter(|past| past.end == HoldEnd::Expired);
        last.is_some_and(|past| past.hold.token.len() >= 3 && !past.hold.token.iter().all(u8::is_ascii_digit))
    }

    /// The hold that the server agrees with.
    pub fn holder(&self) -> Option<&Hold> {
        self.holds.iter().find(|hold| hold.status == HoldStatus::Held)
    }

    /// The hold of a client; the one that the server agrees with first.
    pub fn hold_of(&self, client: &ClientIdentity) -> Option<&Hold> {
        let own = self.holds.iter().filter(|hold| hold.client.is_same_connection(client));
        own.max_by_key(|hold| hold.status == HoldStatus::Held)
    }

    /// The hold with a token.
    pub fn hold_with(&self, token: &[u8]) -> Option<&Hold> {
        self.holds.iter().find(|hold| *hold.token == *token)
    }

    /// The last past hold of a client.
    pub fn past_hold_of(&self, client: &ClientIdentity) -> Option<&PastHold> {
        self.past_holds.iter().rev().find(|past| past.hold.client.is_same_connection(client))
    }

    /// The last past hold with a token.
    pub fn past_hold_with(&self, token: &[u8]) -> Option<&PastHold> {
        self.past_holds.iter().rev().find(|past| *past.hold.token == *token)
    }
}

impl Hold {
    /// When the hold is over for its holder, in microseconds on the server's clock; `None` if never. A timestamp for
    /// another clock is judged by [`is_over`](Self::is_over) alone.
    pub fn end(&self) -> Option<i64> {
        let own = self.timestamp.filter(|timestamp| !timestamp.by_real_time).map(|timestamp| timestamp.micros);
        // A key can still be read in the millisecond of its deadline.
        let server = self.deadline.map(|deadline| deadline.saturating_add(1).saturating_mul(1000));
        own.into_iter().chain(server).min()
    }

    /// The node that gave the lock, or extended it last.
    pub fn node(&self) -> Option<&Arc<str>> {
        self.extended.as_ref().unwrap_or(&self.acquired).node.as_ref()
    }

    /// How many milliseconds earlier the deadline may be: the command that gave it took effect some time in an interval.
    pub fn slack(&self) -> i64 {
        let last = self.extended.as_ref().unwrap_or(&self.acquired);
        last.real.div_euclid(1000) - last.earliest.div_euclid(1000)
    }

    /// Whether the time of the hold may be over at this time, if the deadline is as early as it may be.
    pub fn may_be_over(&self, at: i64, real: i64) -> bool {
        self.deadline.is_some_and(|deadline| at.div_euclid(1000) > deadline - self.slack())
            || self.timestamp.is_some_and(|timestamp| timestamp.is_past(at, real))
    }

    /// The last command that gave the client the lock: that took it, or extended it.
    pub fn last_given(&self) -> &Arc<JournalRef> {
        self.extended.as_ref().unwrap_or(&self.acquired)
    }

    /// Whether the command that took the lock deleted it, too, by an expiry in the past.
    pub fn is_deleted_at_once(&self) -> bool {
        matches!(&self.status, HoldStatus::Deleted(source) if source.seq == self.acquired.seq)
    }

    /// Whether the time of the hold is over.
    pub fn is_over(&self, at: i64, real: i64) -> bool {
        self.deadline.is_some_and(|deadline| at.div_euclid(1000) > deadline)
            || self.timestamp.is_some_and(|timestamp| timestamp.is_past(at, real))
    }
}
