//! Locks as they are shown to people: what is known of each, in words.

use std::sync::Arc;

use super::lock::{Hold, Lock, Past, Reason, Standing, Waiter, Who};
use super::step::Shape;
use super::{End, Mark};

/// A lock that somebody holds or waits for, as far as the audit knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownLock {
    /// Its key.
    pub key: Arc<[u8]>,
    /// The database that the key is in.
    pub db: u32,
    /// The server that it is on, from 1.
    pub server: u16,
    /// How it is kept: `value` (a string), `hash` (a hash that counts), `semaphore` (a set that lets several in).
    pub shape: &'static str,
    /// What the server has there, as far as that is known; `None` if the key is free.
    pub value: Option<Vec<u8>>,
    /// When the server deletes it, in milliseconds since 1970 on its clock; `None` if never.
    pub deadline: Option<i64>,
    /// How it stands with it: `held`, `held-by-several` (who each believe to have it alone), `lost` (somebody believes to
    /// hold it, but the server does not have it any more), `taken` (it is not known by whom), `free`.
    pub state: &'static str,
    /// Those who believe that they hold it.
    pub holders: Vec<LockHolder>,
    /// Those who were refused and have not got it since.
    pub waiters: Vec<LockWaiter>,
    /// Why the key is taken for a lock: `contended`, `compared`, `time-as-value`, `expiry-behind`, `shape`,
    /// `several-servers`, `said`.
    pub reasons: Vec<&'static str>,
    /// The last times that somebody held it, the latest at the end.
    pub ended: Vec<EndedHold>,
}

/// Somebody who believes to hold a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// The number of the client.
    pub client: u64,
    /// As CLIENT SETNAME has given it; empty without.
    pub name: Arc<str>,
    /// Where the client is connected from.
    pub address: Arc<str>,
    /// The value that it has put there, or the member.
    pub token: Vec<u8>,
    /// Since when, in microseconds since 1970 on the server's clock,
    pub since: i64,
    /// and until when; `None` if for ever.
    pub until: Option<i64>,
    /// How often it has extended it.
    pub extensions: u32,
    /// Whether it was told that it has the lock; if not, because the reply was lost, it may hold it.
    pub is_certain: bool,
    /// What has become of the lock on the server: `held`, `deleted`, `overwritten`, `flushed`, `vanished`.
    pub standing: &'static str,
    /// The command that deleted or overwrote it, if one did.
    pub by: Option<Mark>,
}

/// Somebody who waits for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockWaiter {
    /// The number of the client.
    pub client: u64,
    /// As CLIENT SETNAME has given it; empty without.
    pub name: Arc<str>,
    /// Where the client is connected from.
    pub address: Arc<str>,
    /// When it was refused first and last, in microseconds since 1970 on the server's clock.
    pub since: i64,
    /// The same for the last time.
    pub last: i64,
    /// How often it was refused.
    pub attempts: u64,
}

/// A time that somebody held a lock, which is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedHold {
    /// The number of the client.
    pub client: u64,
    /// As CLIENT SETNAME has given it; empty without.
    pub name: Arc<str>,
    /// From when, in microseconds since 1970 on the server's clock,
    pub since: i64,
    /// to when.
    pub until: i64,
    /// `released`, `expired`, `closed` (its connection ended), `told` (a reply said that it is lost).
    pub how: &'static str,
}

impl KnownLock {
    pub(crate) fn new(lock: &Lock) -> Self {
        Self {
            key: Arc::clone(&lock.place.key),
            db: lock.place.db,
            server: lock.place.server,
            shape: match lock.shape {
                Shape::Value => "value",
                Shape::Hash => "hash",
                Shape::Semaphore => "semaphore",
            },
            value: lock.value.as_deref().map(Into::into),
            deadline: lock.deadline,
            state: state(lock),
            holders: lock.holds.iter().map(LockHolder::new).collect(),
            waiters: lock.waiters.iter().map(LockWaiter::new).collect(),
            reasons: REASONS.iter().filter(|(reason, _)| lock.reasons.has(*reason)).map(|(_, name)| *name).collect(),
            ended: lock.past.iter().map(EndedHold::new).collect(),
        }
    }
}

const REASONS: [(Reason, &str); 7] = [
    (Reason::Contended, "contended"),
    (Reason::Compared, "compared"),
    (Reason::Instant, "time-as-value"),
    (Reason::ExpiryBehind, "expiry-behind"),
    (Reason::Shape, "shape"),
    (Reason::Several, "several-servers"),
    (Reason::Said, "said"),
];

fn state(lock: &Lock) -> &'static str {
    let certain = lock.holds.iter().filter(|hold| hold.is_certain).count();
    match lock.holder() {
        _ if certain > 1 && lock.shape != Shape::Semaphore => "held-by-several",
        Some(_) => "held",
        None if !lock.holds.is_empty() => "lost",
        None if lock.value.is_some() => "taken",
        None => "free",
    }
}

impl LockHolder {
    fn new(hold: &Hold) -> Self {
        let Who { client, name, address, .. } = hold.who.clone();
        let (standing, by) = match &hold.standing {
            Standing::Held => ("held", None),
            Standing::Deleted(by) => ("deleted", Some(by)),
            Standing::Overwritten(by) => ("overwritten", Some(by)),
            Standing::Flushed(by) => ("flushed", Some(by)),
            Standing::Vanished => ("vanished", None),
        };
        Self {
            client,
            name,
            address,
            token: hold.token.to_vec(),
            since: hold.acquired.at,
            until: hold.end(),
            extensions: hold.extensions,
            is_certain: hold.is_certain,
            standing,
            by: by.cloned(),
        }
    }
}

impl LockWaiter {
    fn new(waiter: &Waiter) -> Self {
        let Who { client, name, address, .. } = waiter.who.clone();
        let (since, last, attempts) = (waiter.first.at, waiter.last.at, waiter.attempts);
        Self { client, name, address, since, last, attempts }
    }
}

impl EndedHold {
    fn new(past: &Past) -> Self {
        let Who { client, name, .. } = past.hold.who.clone();
        let how = match past.end {
            End::Released => "released",
            End::Expired => "expired",
            End::Closed => "closed",
            End::Told => "told",
        };
        Self { client, name, since: past.hold.acquired.at, until: past.at, how }
    }
}
