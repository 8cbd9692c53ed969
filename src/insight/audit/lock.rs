//! What is known of one lock: who believes to hold it, who held it, who waits.

use std::collections::VecDeque;
use std::sync::Arc;

use super::finding::{Finding, Mark};
use super::rules::Memory;
use super::stamp::Instant;
use super::step::Shape;

/// Who a client is.
#[derive(Clone, Debug)]
pub struct Who {
    pub server: u16,
    pub client: u64,
    /// As CLIENT SETNAME has given it; empty without.
    pub name: Arc<str>,
    pub address: Arc<str>,
}

/// Whether two connections belong to one program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Same {
    Yes,
    No,
    /// Connections without names may belong together or not.
    Unknown,
}

impl Who {
    pub fn same(&self, other: &Self) -> Same {
        if self.server == other.server && self.client == other.client {
            return Same::Yes;
        }
        match (self.name.is_empty(), other.name.is_empty()) {
            (false, false) if self.name == other.name => Same::Yes,
            (false, false) => Same::No,
            _ => Same::Unknown,
        }
    }

    pub fn is(&self, other: &Self) -> bool {
        self.server == other.server && self.client == other.client
    }
}

/// Where a lock is.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub server: u16,
    pub db: u32,
    pub key: Arc<[u8]>,
}

/// Why a key is taken for a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reasons(u16);

/// One reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Reason {
    /// Another client was refused while somebody had it, and had offered another value.
    Contended = 1,
    /// It was released or extended by somebody who compared its value in the same step.
    Compared = 2,
    /// Its value is the time at which it ends.
    Instant = 4,
    /// It was taken first and got its expiry then.
    ExpiryBehind = 8,
    /// Its shape is that of a lock: a hash that counts, a set that lets several in.
    Shape = 16,
    /// The same value was taken on several servers.
    Several = 32,
    /// Whoever runs the audit says so.
    Said = 64,
    /// Another client was refused that had offered the same value: a lock without tokens, or a default that all set. Not
    /// enough alone, like those that follow.
    Alike = 128,
    /// It was taken with a value that is no token, and got its expiry then: a lock, or a counter.
    Behind = 256,
    /// Whoever had taken it has deleted it.
    Returned = 512,
    /// Its name says so.
    Named = 1024,
}

/// The reasons of which it takes two,
const HALF: u16 = Reason::Alike as u16 | Reason::Behind as u16 | Reason::Returned as u16 | Reason::Named as u16;
/// but not these two: so does a counter begin that all make who find none.
const COUNTER: u16 = Reason::Alike as u16 | Reason::Behind as u16;

impl Reasons {
    pub fn add(&mut self, reason: Reason) {
        self.0 |= reason as u16;
    }

    pub fn has(self, reason: Reason) -> bool {
        self.0 & reason as u16 != 0
    }

    pub fn are_enough(self) -> bool {
        let half = self.0 & HALF;
        self.0 & !HALF != 0 || (half.count_ones() > 1 && half != COUNTER)
    }
}

/// A key that may be a lock.
#[derive(Clone)]
pub struct Lock {
    pub place: Arc<Place>,
    pub reasons: Reasons,
    pub shape: Shape,
    /// What the server has there, as far as that is known; none if the key is free.
    pub value: Option<Box<[u8]>>,
    /// When the server deletes it, in milliseconds on its clock.
    pub deadline: Option<i64>,
    /// Those who believe that they hold it.
    pub holds: Vec<Hold>,
    /// Those who did, the last ones, the latest at the end.
    pub past: VecDeque<Past>,
    /// Those who try to get it.
    pub waiters: Vec<Waiter>,
    /// What was found while it was not clear whether it is a lock.
    pub pending: Vec<Finding>,
    /// What the rules remember of it.
    pub memory: Memory,
}

/// How somebody came to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The key was free.
    Free,
    /// The time in its value was over, and GETSET put another there.
    TakenOver,
    /// The member of a hash or a set.
    Member,
}

/// What has become of a lock that somebody believes to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The server has it.
    Held,
    /// Somebody else has deleted it,
    Deleted(Mark),
    /// overwritten it,
    Overwritten(Mark),
    /// or deleted all keys, or the server began anew.
    Flushed(Mark),
    /// The server has another value there, or none; it is not known since when.
    Vanished,
}

/// Somebody's belief to hold a lock: from the reply that gave it until it is released, its time is over, or a reply said
/// that it is lost.
#[derive(Clone, Debug)]
pub struct Hold {
    pub who: Who,
    /// The value that it has put there, or the member.
    pub token: Box<[u8]>,
    pub how: How,
    /// The command that took it,
    pub acquired: Mark,
    /// and the last one that extended it.
    pub extended: Option<Mark>,
    pub extensions: u32,
    /// When the server ends it, in milliseconds on its clock.
    pub deadline: Option<i64>,
    /// The command by which somebody else has had the server end it sooner than its holder knows.
    pub shortened: Option<Mark>,
    /// When its holder says that it ends.
    pub instant: Option<Instant>,
    /// Whether its holder has been told that it has it: if the reply was lost, it may hold it.
    pub is_certain: bool,
    /// When it was told, in real time in microseconds, if that was later than at once.
    pub told: Option<i64>,
    pub standing: Standing,
}

/// How a hold ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Its holder has released it.
    Released,
    /// Its time was over.
    Expired,
    /// Its holder's connection has ended.
    Closed,
    /// A reply has said that it is lost: its holder knows.
    Told,
}

/// A hold that is over.
#[derive(Clone, Debug)]
pub struct Past {
    pub hold: Hold,
    pub end: End,
    /// When it ended; for a hold that expired, the moment at which it did.
    pub at: i64,
    /// The command that ended it, if one did.
    pub by: Option<Mark>,
}

/// Somebody who was refused and has not got it since.
#[derive(Clone, Debug)]
pub struct Waiter {
    pub who: Who,
    /// The first and the last attempt.
    pub first: Mark,
    pub last: Mark,
    pub attempts: u64,
}

/// How many holds that are over are remembered of each lock, and how many waiters.
pub const MOST_PAST: usize = 8;
pub const MOST_WAITERS: usize = 256;

/// Puts something at the end of a list that mostly has one element: there is room for no more at first.
pub fn put<T>(list: &mut Vec<T>, element: T) {
    if list.capacity() == 0 {
        list.reserve_exact(1);
    }
    list.push(element);
}

impl Lock {
    pub fn new(place: Arc<Place>, shape: Shape) -> Self {
        let mut reasons = Reasons::default();
        if is_named_lock(&place.key) {
            reasons.add(Reason::Named);
        }
        Self {
            place,
            reasons,
            shape,
            value: None,
            deadline: None,
            holds: Vec::new(),
            past: VecDeque::new(),
            waiters: Vec::new(),
            pending: Vec::new(),
            memory: Memory::default(),
        }
    }

    /// Whether there is reason enough to take the key for a lock.
    pub fn is_known(&self) -> bool {
        self.reasons.are_enough()
    }

    /// The hold that the server stands by.
    pub fn holder(&self) -> Option<&Hold> {
        self.holds.iter().find(|hold| hold.standing == Standing::Held)
    }

    /// The hold of this client, the one that the server stands by first.
    pub fn hold_of(&self, who: &Who) -> Option<&Hold> {
        self.holds.iter().filter(|hold| hold.who.is(who)).max_by_key(|hold| hold.standing == Standing::Held)
    }

    /// The hold with this token.
    pub fn hold_with(&self, token: &[u8]) -> Option<&Hold> {
        self.holds.iter().find(|hold| *hold.token == *token)
    }

    /// The last hold that is over, of this client.
    pub fn past_of(&self, who: &Who) -> Option<&Past> {
        self.past.iter().rev().find(|past| past.hold.who.is(who))
    }

    /// The last hold that is over, with this token.
    pub fn past_with(&self, token: &[u8]) -> Option<&Past> {
        self.past.iter().rev().find(|past| *past.hold.token == *token)
    }
}

/// Whether a word of a key says that it is a lock: `lock:a`, `a.lock`, `jobLock`, but neither `clock` nor `block`.
fn is_named_lock(key: &[u8]) -> bool {
    const WORDS: [&[u8]; 6] = [b"lock", b"locks", b"mutex", b"lease", b"leader", b"semaphore"];
    let is_letter = |at: usize| key.get(at).is_some_and(u8::is_ascii_alphabetic);
    let begins = |at: usize| {
        let before = at.checked_sub(1);
        before.is_none_or(|before| {
            !is_letter(before) || (key[before].is_ascii_lowercase() && key[at].is_ascii_uppercase())
        })
    };
    let ends = |end: usize| !is_letter(end) || (key[end].is_ascii_uppercase() && key[end - 1].is_ascii_lowercase());
    let is_there = |word: &[u8]| {
        key.windows(word.len())
            .enumerate()
            .any(|(at, found)| found.eq_ignore_ascii_case(word) && begins(at) && ends(at + word.len()))
    };
    WORDS.iter().any(|word| is_there(word))
}

impl Hold {
    /// When it is over for its holder, in microseconds on the server's clock; none if never. An instant for another clock
    /// is judged by [`is_over`](Self::is_over) alone.
    pub fn end(&self) -> Option<i64> {
        let own = self.instant.filter(|instant| !instant.by_real_time).map(|instant| instant.micros);
        // A key can still be read in the millisecond of its deadline.
        let server = self.deadline.map(|deadline| deadline.saturating_add(1).saturating_mul(1000));
        own.into_iter().chain(server).min()
    }

    /// Whether its time is over.
    pub fn is_over(&self, at: i64, real: i64) -> bool {
        self.deadline.is_some_and(|deadline| at.div_euclid(1000) > deadline)
            || self.instant.is_some_and(|instant| instant.is_past(at, real))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_lock_says_so_by_a_whole_word() {
        for name in ["lock", "lock.foo", "jobs:42:lock", "LOCK_A", "jobLock", "lockFile", "my-mutex", "locks:a"] {
            assert!(is_named_lock(name.as_bytes()), "{name}");
        }
        for name in ["", "clock", "block:7", "unlocked", "locker", "user:7", "redisson_unlock_latch:a"] {
            assert!(!is_named_lock(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn half_reasons_come_in_pairs() {
        let are_enough = |given: &[Reason]| {
            let mut reasons = Reasons::default();
            given.iter().for_each(|reason| reasons.add(*reason));
            reasons.are_enough()
        };
        assert!(!are_enough(&[]) && !are_enough(&[Reason::Named]) && !are_enough(&[Reason::Alike, Reason::Behind]));
        assert!(are_enough(&[Reason::Contended]) && are_enough(&[Reason::Alike, Reason::Returned]));
        assert!(are_enough(&[Reason::Named, Reason::Behind]));
    }
}
