//! Locks as they are shown to people: what is known of each, in words.

use std::sync::Arc;

use super::client_identity::ClientLabels;
use super::effect::LockShape;
use super::finding::JournalRef;
use super::lock::{Hold, HoldEnd, HoldStatus, Lock, PastHold, Waiter};
use super::lock_reason::LockReason;
use crate::base::process::Process;

/// A lock that clients hold or wait for, as far as the audit knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownLock {
    /// Its key.
    pub key: Arc<[u8]>,
    /// The database of the key.
    pub db: u32,
    /// The server of the key, from 1.
    pub server: u16,
    /// How it is stored: `value` (a string), `hash` (a hash that counts), `semaphore` (a set that admits several).
    pub shape: &'static str,
    /// The value on the server; `None` if the key is free or the value is unknown.
    pub value: Option<Vec<u8>>,
    /// The deadline of the key, in milliseconds since 1970 on the server's clock; `None` if there is none.
    pub deadline: Option<i64>,
    /// Who holds it: `held`, `held-by-several` (each believes to hold it alone), `lost` (a client believes to hold it, but
    /// the server does not have it any more), `taken` (by a client that is unknown), `free`.
    pub state: &'static str,
    /// The clients that believe to hold it.
    pub holders: Vec<LockHolder>,
    /// The clients that were refused and have not got it since.
    pub waiters: Vec<LockWaiter>,
    /// Why the key is taken for a lock: `contended`, `compared`, `time-as-value`, `expiry-behind`, `shape`,
    /// `several-servers`, `said`, `learned`.
    pub reasons: Vec<&'static str>,
    /// The last holds that ended, the latest at the end.
    pub ended: Vec<EndedHold>,
}

/// A client that believes to hold a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// The number of the client.
    pub client: u64,
    /// The client's name from CLIENT SETNAME; empty without one.
    pub name: Arc<str>,
    /// The client's address.
    pub address: Arc<str>,
    /// The client's process, if it is known.
    pub process: Option<Arc<Process>>,
    /// The value that the client wrote, or the member; empty if it is unknown.
    pub token: Vec<u8>,
    /// When the hold began, in microseconds since 1970 on the server's clock.
    pub since: i64,
    /// When it is over; `None` if never.
    pub until: Option<i64>,
    /// How often the client extended it.
    pub extensions: u32,
    /// Whether the client received the reply. If not, because the reply was lost, it may hold the lock.
    pub is_certain: bool,
    /// What became of the lock on the server: `held`, `deleted`, `overwritten`, `flushed`, `evicted`,
    /// `failed-over`, `vanished`.
    pub status: &'static str,
    /// The command that deleted or overwrote it, if one did.
    pub by: Option<JournalRef>,
}

/// A client that waits for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockWaiter {
    /// The number of the client.
    pub client: u64,
    /// The client's name from CLIENT SETNAME; empty without one.
    pub name: Arc<str>,
    /// The client's address.
    pub address: Arc<str>,
    /// The client's process, if it is known.
    pub process: Option<Arc<Process>>,
    /// The time of the first refusal, in microseconds since 1970 on the server's clock.
    pub since: i64,
    /// The time of the last refusal.
    pub last: i64,
    /// How often it was refused.
    pub attempts: u64,
}

/// A hold that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedHold {
    /// The number of the client.
    pub client: u64,
    /// The client's name from CLIENT SETNAME; empty without one.
    pub name: Arc<str>,
    /// The client's process, if it is known.
    pub process: Option<Arc<Process>>,
    /// When the hold began, in microseconds since 1970 on the server's clock.
    pub since: i64,
    /// When it ended.
    pub until: i64,
    /// `released`, `expired`, `closed` (its connection ended), `told` (a reply said that it is lost),
    /// `unknown` (the journal does not say).
    pub how: &'static str,
}

impl KnownLock {
    pub(crate) fn new(lock: &Lock) -> Self {
        Self {
            key: lock.id.shared_key(),
            db: lock.id.db,
            server: lock.id.server,
            shape: match lock.shape {
                LockShape::Value => "value",
                LockShape::Hash => "hash",
                LockShape::Semaphore => "semaphore",
            },
            value: lock.value.as_deref().filter(|_| !lock.is_value_unknown).map(Into::into),
            deadline: lock.deadline,
            state: state(lock),
            holders: lock.holds.iter().map(LockHolder::new).collect(),
            waiters: lock.waiters.iter().map(LockWaiter::new).collect(),
            // The weak ones count in pairs, and are not told.
            reasons: LockReason::ALL
                .into_iter()
                .filter(|reason| lock.reasons.has(*reason) && !reason.is_weak())
                .map(LockReason::name)
                .collect(),
            ended: lock.past_holds.iter().map(EndedHold::new).collect(),
        }
    }
}

fn state(lock: &Lock) -> &'static str {
    let certain = lock.holds.iter().filter(|hold| hold.is_certain).count();
    match lock.holder() {
        _ if certain > 1 && lock.shape != LockShape::Semaphore => "held-by-several",
        Some(_) => "held",
        None if !lock.holds.is_empty() => "lost",
        None if lock.value.is_some() => "taken",
        None => "free",
    }
}

impl LockHolder {
    fn new(hold: &Hold) -> Self {
        let process = hold.client.known_process();
        let (client, ClientLabels { name, address, .. }) = (hold.client.id, (*hold.client).clone());
        let (status, by) = match &hold.status {
            HoldStatus::Held => ("held", None),
            HoldStatus::Deleted(source) => ("deleted", Some(source)),
            HoldStatus::Overwritten(source) => ("overwritten", Some(source)),
            HoldStatus::Flushed(flush) => ("flushed", Some(&flush.source)),
            HoldStatus::Evicted(source) => ("evicted", Some(source)),
            HoldStatus::FailedOver(source) => ("failed-over", Some(source)),
            HoldStatus::Vanished => ("vanished", None),
        };
        Self {
            client,
            name,
            address,
            process,
            token: hold.token.to_vec(),
            since: hold.acquired.at,
            until: hold.end(),
            extensions: hold.extensions,
            is_certain: hold.is_certain,
            status,
            by: by.map(|by| (**by).clone()),
        }
    }
}

impl LockWaiter {
    fn new(waiter: &Waiter) -> Self {
        let process = waiter.client.known_process();
        let (client, ClientLabels { name, address, .. }) = (waiter.client.id, (*waiter.client).clone());
        let (since, last, attempts) = (waiter.first.at, waiter.last.at, waiter.attempts);
        Self { client, name, address, process, since, last, attempts }
    }
}

impl EndedHold {
    fn new(past: &PastHold) -> Self {
        let process = past.hold.client.known_process();
        let (client, name) = (past.hold.client.id, Arc::clone(&past.hold.client.name));
        let how = match past.end {
            HoldEnd::Released => "released",
            HoldEnd::Expired => "expired",
            HoldEnd::Closed => "closed",
            HoldEnd::Noticed => "told",
            HoldEnd::Unknown => "unknown",
        };
        Self { client, name, process, since: past.hold.acquired.at, until: past.at, how }
    }
}
