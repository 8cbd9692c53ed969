//! A locked view: the only way to read and change data.
//!
//! This file has the struct and its general queries. The modules have the operations: `locking`, `lookup`, `change`,
//! `databases`, `copying`, `expiry`, `scan`, `effects` (what it leaves for others), `replication` (what replicas get), and `recovery` (after a panic).

mod change;
mod copying;
mod databases;
mod effects;
mod evict;
mod expiry;
mod locking;
mod lookup;
mod recovery;
mod replication;
mod scan;

use std::marker::PhantomData;
use std::sync::MutexGuard;

use bytes::Bytes;
use smallvec::SmallVec;

use super::notifications::{COUNTS_USES, IMPORT_MODE};
use super::store::{Shard, Slot, hash_of};
use super::text_bytes::TextBytes;
use super::usage::Usage;
use super::{Keyspace, Settings};
use crate::base::clock::{Millis, Reading};
use effects::Effects;

pub(super) use expiry::is_expired;
pub use recovery::Recovery;
pub use replication::{Replicated, ReplicatedRun};
pub use scan::ScanFilter;

/// The part of the keyspace that one command, transaction or script has locked, at one instant.
pub struct View<'k> {
    keyspace: &'k Keyspace,
    /// The held shards, ascending by home and shard.
    locked: SmallVec<[LockedShard<'k>; 1]>,
    /// Held by a view of everything, so that no database is created meanwhile.
    everything: Option<MutexGuard<'k, ()>>,
    /// Held by a growing view, which locks further shards when it accesses them.
    growing: Option<MutexGuard<'k, ()>>,
    /// Of a view of the keys that there are.
    existing: Option<Box<ExistingKeys<'k>>>,
    hashed_key: HashedKey,
    db: u32,
    /// The instant at which the view was locked.
    begun: Millis,
    /// What has expired by then is gone. For a client that imports, nothing is.
    horizon: Millis,
    /// The running command may write: then it deletes expired keys in import mode, too.
    writing: bool,
    /// The instant of the running command, in milliseconds and in microseconds.
    now: Millis,
    micros: i64,
    /// The machine's time at the view's instant.
    real: i64,
    /// Look-ups count as accesses (CLIENT NO-TOUCH turns that off).
    touch: bool,
    /// The running command may access only keys that its arguments name.
    confined: bool,
    /// The running command's reply must not be random.
    repeatable: bool,
    stats: ViewStats,
    /// The changes among these that are no command's: something has expired.
    expiries: u64,
    /// The notifications that were wanted when the view was locked, as bits, and what else keys need at each use.
    wanted: u32,
    /// The request of the running command, if it is long: strings can stay where they are.
    received: Option<Box<Bytes>>,
    /// Most views have none. Declared behind the locks, so that flushed tables are dropped after the locks are
    /// released.
    effects: Option<Box<Effects>>,
    /// A view holds locks, so it must not be sent to another thread or live across an `.await`.
    not_send: PhantomData<*const ()>,
}

/// What a view of the keys that there are holds beside the shards that may hold something.
struct ExistingKeys<'k> {
    /// No other shard of these databases gets an entry.
    _growth: SmallVec<[MutexGuard<'k, ()>; 1]>,
    /// No database is created, if the view is of all.
    _creating: Option<MutexGuard<'k, ()>>,
    /// The view has no shards from here on.
    end: usize,
}

/// A shard that a view holds.
pub struct LockedShard<'k> {
    /// Where its database is at home.
    home: u32,
    index: u32,
    shard: Shard<'k>,
}

/// Counters of a view, for the statistics.
#[derive(Clone, Copy, Debug, Default)]
pub struct ViewStats {
    pub hits: u64,
    pub misses: u64,
    /// Changes, as INFO's `rdb_changes_since_last_save` counts them.
    pub changes: u64,
    pub expired: u64,
    /// Fields of hashes that have expired.
    pub expired_fields: u64,
    /// Keys written on the condition that they do not exist, as locks are.
    pub locks: u64,
}

/// The slice of a view's only key with its hash, so that a look-up does not hash it again. The slice is compared by
/// address and length. It is not borrowed, so its owner must not change it while the view lives.
#[derive(Clone, Copy)]
struct HashedKey {
    address: usize,
    length: usize,
    hash: u64,
}

impl HashedKey {
    const NONE: Self = Self { address: 0, length: 0, hash: 0 };

    #[inline]
    fn new(key: &[u8], hash: u64) -> Self {
        Self { address: key.as_ptr().addr(), length: key.len(), hash }
    }

    #[inline]
    fn hash_of(self, key: &[u8]) -> u64 {
        let Self { address, length, hash } = self;
        if address == key.as_ptr().addr() && length == key.len() && address != 0 {
            debug_assert_eq!(hash, hash_of(key), "the slice of a view's key has changed since it was hashed");
            hash
        } else {
            hash_of(key)
        }
    }
}

/// The position of a live entry: the held shard and the slot.
#[derive(Clone, Copy)]
pub(super) struct Location {
    lock: usize,
    slot: Slot,
    pub(super) hash: u64,
}

impl std::ops::AddAssign for ViewStats {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.changes += other.changes;
        self.expired += other.expired;
        self.expired_fields += other.expired_fields;
        self.locks += other.locks;
    }
}

impl<'k> View<'k> {
    #[inline]
    fn new(
        keyspace: &'k Keyspace,
        locked: SmallVec<[LockedShard<'k>; 1]>,
        everything: Option<MutexGuard<'k, ()>>,
        hashed_key: HashedKey,
        db: u32,
        Reading { micros, real }: Reading,
    ) -> Self {
        // No clock shows a time before 1970; an unsigned division is cheaper.
        let now = (micros.cast_unsigned() / 1000).cast_signed();
        View {
            keyspace,
            locked,
            everything,
            growing: None,
            existing: None,
            hashed_key,
            db,
            begun: now,
            horizon: now,
            writing: false,
            now,
            micros,
            real,
            touch: true,
            confined: false,
            repeatable: false,
            stats: ViewStats::default(),
            expiries: 0,
            wanted: keyspace.settings.notifications(),
            received: None,
            effects: None,
            not_send: PhantomData,
        }
    }

    /// Gives the running command the buffer in which its words lie.
    #[cold]
    pub fn set_received(&mut self, request: Bytes) {
        self.received = Some(Box::new(request));
    }

    /// A string of the running command's request, if it need not be copied.
    #[inline]
    pub(in crate::data::keyspace) fn received_text(&self, text: &[u8]) -> Option<TextBytes> {
        TextBytes::received(text, self.received.as_deref()?)
    }

    /// Ends the view and releases its locks: its changes become visible at once.
    #[inline]
    pub fn finish(self) -> ViewStats {
        // Fields are dropped in the order of their declaration: the locks first, then flushed tables.
        self.stats
    }

    /// The view's counters so far.
    #[inline]
    pub fn stats(&self) -> ViewStats {
        self.stats
    }

    /// Counts a lock that a client took (a conditional write).
    #[inline]
    pub fn count_lock(&mut self) {
        self.stats.locks += 1;
    }

    /// The instant of the running command, in milliseconds.
    pub fn now(&self) -> Millis {
        self.now
    }

    /// The instant of the running command, in microseconds.
    pub fn micros(&self) -> i64 {
        self.micros
    }

    /// The machine's time at the view's instant, in microseconds: it passes also while the server's clock stands.
    #[inline]
    pub fn real_micros(&self) -> i64 {
        self.real
    }

    /// The next command of a script or a transaction runs at a later instant. No more keys expire.
    pub fn set_instant(&mut self, micros: i64) {
        self.now = micros.div_euclid(1000);
        self.micros = micros;
    }

    /// What follows runs at a later instant, and what has expired by then is gone.
    pub fn move_to(&mut self, micros: i64) {
        self.micros = self.micros.max(micros);
        self.now = self.micros.div_euclid(1000);
        self.begun = self.begun.max(self.now);
        if self.horizon != Millis::MIN {
            self.horizon = self.begun;
        }
    }

    /// Whether the server is in import mode.
    #[inline]
    pub fn is_importing(&self) -> bool {
        self.wanted & IMPORT_MODE != 0
    }

    /// Lets the client see what has expired, as one that imports, or as the master of a replica.
    pub fn see_expired(&mut self) {
        self.horizon = Millis::MIN;
    }

    /// Sets whether the running command may write, which matters in import mode.
    pub fn set_writing(&mut self, writing: bool) {
        self.writing = writing;
    }

    /// Who gives a key a deadline up to this instant deletes it at once. In import mode no deadline does, nor does one that
    /// comes from a master.
    pub fn past(&self) -> Millis {
        if self.is_importing() || self.horizon == Millis::MIN { Millis::MIN } else { self.now }
    }

    pub fn db(&self) -> u32 {
        self.db
    }

    pub fn databases(&self) -> u32 {
        self.keyspace.databases()
    }

    /// Selects another database, which must be within the view's scope.
    pub fn select(&mut self, db: u32) {
        self.db = db;
    }

    /// Sets whether look-ups count as accesses (CLIENT NO-TOUCH turns that off).
    pub fn set_touch(&mut self, touch: bool) {
        self.touch = touch;
    }

    /// Restricts the running command to keys that its arguments name, although the view can access others.
    pub fn set_confined(&mut self, confined: bool) {
        self.confined = confined;
    }

    pub fn is_confined(&self) -> bool {
        self.confined
    }

    /// Forbids a random reply of the running command, as in scripts.
    pub fn set_repeatable(&mut self, repeatable: bool) {
        self.repeatable = repeatable;
    }

    pub fn is_repeatable(&self) -> bool {
        self.repeatable
    }

    pub fn settings(&self) -> &'k Settings {
        self.keyspace.settings()
    }

    /// What was wanted when the view was locked, as bits: notifications, and what `notifications.rs` names with them.
    #[inline]
    pub(super) fn wanted(&self) -> u32 {
        self.wanted
    }

    /// The instant at which keys are used.
    #[inline]
    pub fn begun(&self) -> Millis {
        self.begun
    }

    /// Whether keys' usage is how often they are used: an LFU policy is selected.
    pub fn counts_uses(&self) -> bool {
        self.wanted & COUNTS_USES != 0
    }

    /// The usage of a key that comes with an idle time in seconds, or with a frequency. What the policy does not use is
    /// ignored.
    pub fn restored_usage(&self, idle: Option<i64>, frequency: Option<u8>) -> Usage {
        match (self.counts_uses(), idle, frequency) {
            (true, _, Some(frequency)) => Usage::with_frequency(self.begun, frequency),
            (false, Some(idle), _) => Usage::idle_for(self.begun, idle),
            _ => self.new_usage(),
        }
    }

    /// The usage of a key that is created now.
    #[inline]
    pub fn new_usage(&self) -> Usage {
        if self.wanted & COUNTS_USES != 0 { Usage::new_frequency(self.begun) } else { Usage::at(self.begun) }
    }
}

#[cfg(test)]
mod tests {
    use crate::base::clock::Clock;
    #[cfg(debug_assertions)]
    use crate::data::keyspace::hash_of;
    use crate::data::keyspace::{Expiry, Keyspace, Scope};

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "the slice of a view's key has changed since it was hashed")]
    fn a_key_that_is_overwritten_under_its_view_is_noticed() {
        let clock = Clock::new();
        let keyspace = Keyspace::new(1, &clock);
        let mut key = *b"lock:a";
        let mut view = keyspace.lock_key(&key, hash_of(&key), 0, &clock).unwrap();
        assert!(!view.exists(&key));
        key[5] = b'b';
        view.exists(&key);
    }

    #[test]
    fn taking_and_releasing_a_lock_for_ever_does_not_pile_up_deadlines() {
        let clock = Clock::new();
        let keyspace = Keyspace::new(1, &clock);
        for round in 0..10_000 {
            let mut view = keyspace.lock(Scope::Database, 0, &clock).unwrap();
            view.set_string(b"lock", b"token", Expiry::At(view.now() + 60_000 + round));
            assert!(view.remove(b"lock"));
            view.finish();
        }
        let rows: usize = keyspace.shard_meta().map(|meta| meta.deadlines().rows()).sum();
        assert!(rows < 200, "{rows} deadlines of keys that are gone");
    }

    #[test]
    fn no_database_comes_into_being_behind_a_view_of_everything() {
        let clock = Clock::new();
        let keyspace = Keyspace::new(16, &clock);
        let mut view = keyspace.lock(Scope::Everything, 0, &clock).unwrap();
        assert!(keyspace.creating.try_lock().is_err());
        view.select(7);
        view.set_string(b"k", b"v", Expiry::Never);
        assert_eq!(view.len(), 1);
        view.finish();
        assert!(keyspace.creating.try_lock().is_ok());
    }
}
