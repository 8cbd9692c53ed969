//! The data: databases in shards, and locked views, through which all access goes.
//!
//! One command, one transaction, one script: one [`View`], locked once with all the locks it needs, at one instant of
//! time. No lock is taken while another is held, except for the databases that a whole-keyspace view locks, in
//! ascending order. A view cannot be held across an `.await`, because it is not `Send`.

mod block;
mod collections;
mod compact;
mod database;
mod deadlines;
mod encoding;
mod entry;
mod eviction;
mod hash;
mod indexed;
mod lazy_free;
mod list;
mod lists;
mod member;
mod memory_sum;
mod notifications;
mod point_in_time;
mod rank_tree;
mod rdb_content;
mod set;
mod sets;
mod settings;
mod sorted_set;
mod store;
mod stream;
mod streams;
mod strings;
mod table;
mod text_bytes;
mod usage;
mod value;
mod view;
mod waiters;
mod watch;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};
use std::time::Duration;

use crate::base::background::in_background;
use crate::base::clock::{Clock, Millis};
use crate::base::random;
use database::{Database, ShardMeta};
use encoding::SharedIntegers;
use memory_sum::MemorySum;
use settings::number;
use store::{FEW_SHARDS, MANY_SHARDS, SCAN_BITS};
use waiters::Waiters;
pub use waiters::{Awaited, QueuePosition};
use watch::Watchers;

pub use encoding::EMBEDS_KEYS;
pub use entry::Entry;
pub use eviction::{EvictionPolicy, EvictionPool, EvictionSettings};
pub use hash::{Hash, HashLimits};
pub use lazy_free::LazyFreeSettings;
pub use list::{Chunk, ChunkLimit, End, List, ListLimits};
pub use notifications::{
    COUNTS_USES, EXPIRY_PAUSED, EventClass, IMPORT_MODE, KEY_CHANGES, KEYEVENT_CHANNEL, KEYSPACE_CHANNEL, Notification,
    OWN_INTEGERS, REPLICATED, SUMS_MEMORY,
};
pub use point_in_time::{EntryWriter, Part, PointInTime};
pub use set::{Set, SetLimits};
pub use settings::Settings;
pub use sorted_set::{Scored, SortedSet, SortedSetLimits};
pub use store::hash_of;
pub use stream::{Entry as StreamEntry, Group, Log, Pending, References, Stream, StreamId, Trim};
pub use strings::Expiry;
pub use text_bytes::{StringValue, TAKEN_OVER};
pub use usage::{FrequencySettings, Usage};
pub use value::{Collection, ValueKind};
pub use view::{LockedShard, Recovery, Replicated, ReplicatedRun, ScanFilter, View, ViewStats};
pub use watch::{Presence, Watch, WatchedKey};

/// The part of the keyspace that a view can access.
#[derive(Clone, Copy)]
pub enum Scope<'a> {
    /// These keys of the selected database, by hash.
    Hashes(&'a [u64]),
    /// The whole selected database.
    Database,
    /// Every database.
    Everything,
    /// The keys that the selected database has; the view can add none. It locks only the shards that may hold something.
    KeysOfDatabase,
    /// So many of them, about, from this cursor of SCAN on.
    ScannedKeys { cursor: u64, count: usize },
    /// The keys that all databases have.
    KeysOfAll,
}

/// From how many shards an average of deadlines is estimated.
const SHARDS_SAMPLED: usize = 64;

/// The lock is held by a slow script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// Waits a little before the next attempt. Most locks are held for less than a microsecond, but a script may hold them
/// for seconds.
fn back_off(round: u32) {
    match round {
        0..64 => std::hint::spin_loop(),
        64..256 => std::thread::yield_now(),
        _ => std::thread::park_timeout(Duration::from_micros(50)),
    }
}

/// Retries with back-off until a lock is free: for a slow script itself, and for whoever can wait for one.
fn lock_unconditionally<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let mut round = 0_u32;
    loop {
        if let Some(locked) = attempt() {
            return locked;
        }
        back_off(round);
        round = round.saturating_add(1);
    }
}

fn try_lock(mutex: &Mutex<()>) -> Option<MutexGuard<'_, ()>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The databases of a server, each from its first use on. A copy of all data outlives the view that began it.
type Databases = Arc<[OnceLock<Box<Database>>]>;

/// What is at a home, if others than its maker may enter it.
#[inline]
fn opened(home: &OnceLock<Box<Database>>) -> Option<&Database> {
    home.get().map(|database| &**database).filter(|database| database.is_open())
}

/// Gives back the room of removed keys, a shard at a time. The caller holds no view.
fn shrink(databases: &Databases) {
    for database in databases.iter().filter_map(opened) {
        for index in database.used() {
            lock_unconditionally(|| database.store.try_lock(index)).shrink();
        }
    }
}

/// All databases of one server.
pub struct Keyspace {
    databases: Databases,
    /// The home of each database, as an index of `databases`. SWAPDB exchanges two homes, so that it takes as long whatever
    /// stands there; it holds all shards of both, so whoever holds a shard keeps its database at home.
    homes: Box<[AtomicU32]>,
    /// Shifts a hash so that only the bits of its shard's number are left.
    shift: u32,
    /// Held to create a database. A view of everything holds it for its life, so that none is created meanwhile. A growing
    /// view may wait for it while it holds shards: it holds `multi_shard`, too, so the other one has all its locks already.
    creating: Mutex<()>,
    /// Held while several shards are locked, and by a growing view for its life. A growing view waits for shards while
    /// it holds others; so it only ever waits for views that wait for nothing.
    multi_shard: Mutex<()>,
    /// A slow script keeps its locks while it is suspended; other commands are refused with BUSY.
    busy: AtomicBool,
    watchers: Watchers,
    waiters: Waiters,
    shared_integers: SharedIntegers,
    settings: Settings,
    memory_sum: MemorySum,
    /// A thread gives back room at present.
    is_shrinking: Arc<AtomicBool>,
    /// Values that were freed after their keys were gone.
    freed_lazily: AtomicU64,
    random: AtomicU64,
}

impl Keyspace {
    pub fn new(databases: u32, clock: &Clock) -> Self {
        Self::with_shards(databases, clock, MANY_SHARDS)
    }

    /// Like [`new`](Self::new), with fewer shards, so that an empty keyspace takes little memory.
    pub fn small(databases: u32, clock: &Clock) -> Self {
        Self::with_shards(databases, clock, FEW_SHARDS)
    }

    fn with_shards(databases: u32, clock: &Clock, bits: u32) -> Self {
        Self {
            shift: u64::BITS - bits,
            databases: (0..databases).map(|_| OnceLock::new()).collect(),
            homes: (0..databases).map(AtomicU32::new).collect(),
            creating: Mutex::default(),
            multi_shard: Mutex::default(),
            busy: AtomicBool::new(false),
            watchers: Watchers::default(),
            waiters: Waiters::default(),
            shared_integers: SharedIntegers::new(Usage::at(clock.millis()), bits == FEW_SHARDS),
            settings: Settings::default(),
            memory_sum: MemorySum::default(),
            is_shrinking: Arc::default(),
            freed_lazily: AtomicU64::new(0),
            random: AtomicU64::new(0),
        }
    }

    /// The shard of a key with this hash.
    #[inline]
    fn shard_of(&self, hash: u64) -> usize {
        store::shard_of(hash, self.shift)
    }

    /// The shard in which a position of SCAN is.
    fn shard_of_position(&self, position: u64) -> usize {
        usize::try_from(position >> (SCAN_BITS - self.shard_bits())).unwrap_or(usize::MAX)
    }

    /// The number of shards of each database.
    pub fn shards(&self) -> usize {
        1 << self.shard_bits()
    }

    /// The bits of a shard's number.
    fn shard_bits(&self) -> u32 {
        u64::BITS - self.shift
    }

    /// The number of databases.
    pub fn databases(&self) -> u32 {
        self.databases.len() as u32
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    /// Locks `scope`, then reads the clock: the view's instant is one at which it held all its locks.
    #[inline]
    pub fn lock(&self, scope: Scope<'_>, db: u32, clock: &Clock) -> Result<View<'_>, Busy> {
        View::lock(self, scope, db, clock)
    }

    /// Like [`lock`](Self::lock), for one key whose hash is known already.
    #[inline]
    pub fn lock_key(&self, key: &[u8], hash: u64, db: u32, clock: &Clock) -> Result<View<'_>, Busy> {
        View::lock_key(self, key, hash, db, clock)
    }

    /// Locks the shard of a key with this hash.
    #[inline]
    pub fn lock_shard(&self, hash: u64, db: u32) -> Result<LockedShard<'_>, Busy> {
        View::lock_shard(self, hash, db)
    }

    /// A view of a key whose lock is held.
    #[inline]
    pub fn view_of_key<'k>(
        &'k self,
        locked: LockedShard<'k>,
        db: u32,
        key: &[u8],
        hash: u64,
        clock: &Clock,
    ) -> View<'k> {
        View::of_key(self, locked, db, key, hash, clock)
    }

    /// Like [`lock`](Self::lock), but the view can access every other key, too, and locks it on access: later than its instant.
    pub fn lock_growing(&self, hashes: &[u64], db: u32, clock: &Clock) -> Result<View<'_>, Busy> {
        View::lock_growing(self, hashes, db, clock)
    }

    /// Locks keys in every database that exists, then reads the clock. The view can access every other key, too, as one of
    /// [`lock_growing`](Self::lock_growing) can: those of clients that are blocked, and of databases that come into being.
    pub fn lock_in_all(&self, hashes: &[u64], db: u32, clock: &Clock) -> Result<View<'_>, Busy> {
        View::lock_in_all(self, hashes, db, clock)
    }

    /// Sets whether a slow script holds locks. While it does, other commands do not wait for them.
    pub fn set_busy(&self, busy: bool) {
        self.busy.store(busy, Ordering::Release);
    }

    /// Retries with back-off until a lock is free, or until the server is busy.
    #[inline]
    pub fn lock_with_backoff<T>(&self, mut attempt: impl FnMut() -> Option<T>) -> Result<T, Busy> {
        match attempt() {
            Some(locked) => Ok(locked),
            None => self.retry_with_backoff(attempt),
        }
    }

    #[cold]
    fn retry_with_backoff<T>(&self, mut attempt: impl FnMut() -> Option<T>) -> Result<T, Busy> {
        for round in 0_u32.. {
            if let Some(locked) = attempt() {
                return Ok(locked);
            }
            if self.busy.load(Ordering::Acquire) {
                break;
            }
            back_off(round);
        }
        Err(Busy)
    }

    /// Every watch on a key of this keyspace.
    pub fn watchers(&self) -> &Watchers {
        &self.watchers
    }

    /// Prefetches the memory that look-ups of these hashes will read, in parallel.
    #[inline]
    pub fn fetch_ahead(&self, db: u32, hashes: &[u64]) {
        let Some(database) = self.used_database(db) else { return };
        database.store.fetch_ahead(hashes, self.shift);
    }

    /// The memory of all entries in bytes.
    pub fn used_bytes(&self) -> usize {
        let sum: i64 = self.shard_meta().map(|meta| meta.bytes.load(Ordering::Relaxed)).sum();
        usize::try_from(sum).unwrap_or(0)
    }

    /// The same while memory is limited: a sum that is kept up to date, and exact unless views on other threads have just
    /// changed something. Call [`sum_memory`](Self::sum_memory) first, and now and then.
    #[inline]
    pub fn summed_bytes(&self) -> usize {
        self.memory_sum.bytes()
    }

    /// Begins the sum of all memory anew.
    pub fn sum_memory(&self) -> usize {
        self.memory_sum.set(self.used_bytes())
    }

    /// The number of keys of each database, of those with a deadline, and of those whose parts have one; only databases
    /// with keys, in order. Takes no locks, so it can be called while a view lives.
    pub fn sizes(&self) -> Vec<(u32, [u64; 3])> {
        let sums = |database: &Database| {
            let mut sums = [0_i64; 3];
            for meta in database.used_meta() {
                for (sum, counter) in sums.iter_mut().zip([&meta.keys, &meta.volatile, &meta.with_field_deadlines]) {
                    *sum += counter.load(Ordering::Relaxed);
                }
            }
            sums.map(|sum| u64::try_from(sum).unwrap_or(0))
        };
        let sizes = self.used_databases().map(|(db, database)| (db, sums(database)));
        sizes.filter(|(_, [keys, ..])| *keys > 0).collect()
    }

    /// How long the keys of a database with a deadline live on average, in milliseconds: an estimate from some of them.
    pub fn average_ttl(&self, db: u32, now: Millis) -> Millis {
        let Some(database) = self.used_database(db) else { return 0 };
        let volatile = database.used_meta().filter(|meta| meta.volatile.load(Ordering::Relaxed) > 0);
        let volatile: Vec<&ShardMeta> = volatile.collect();
        let step = volatile.len().div_ceil(SHARDS_SAMPLED).max(1);
        let (mut sum, mut count) = (0, 0);
        for meta in volatile.into_iter().step_by(step) {
            for left in meta.deadlines().sample().map(|deadline| deadline.saturating_sub(now)).filter(|left| *left > 0)
            {
                sum += i128::from(left);
                count += 1;
            }
        }
        Millis::try_from(sum / count.max(1)).unwrap_or(Millis::MAX)
    }

    /// Gives back the room that removed keys have left in the tables, soon: on a thread of its own and shard by shard,
    /// because it takes long for many keys. Does nothing while that goes on already.
    pub fn shrink_soon(&self) {
        if self.is_shrinking.swap(true, Ordering::Relaxed) {
            return;
        }
        let (databases, is_shrinking) = (Arc::clone(&self.databases), Arc::clone(&self.is_shrinking));
        let work = move || {
            shrink(&databases);
            is_shrinking.store(false, Ordering::Relaxed);
        };
        if in_background("shrink", work).is_err() {
            // Without a thread the room stays; nothing else depends on it.
            self.is_shrinking.store(false, Ordering::Relaxed);
        }
    }

    /// The number of keys that clients watch.
    pub fn watched_keys(&self) -> usize {
        self.watchers.len()
    }

    /// The number of keys that clients are blocked on.
    pub fn blocking_keys(&self) -> usize {
        self.waiters.len()
    }

    /// How many values were freed after their keys were gone.
    pub fn freed_lazily(&self) -> u64 {
        self.freed_lazily.load(Ordering::Relaxed)
    }

    pub fn reset_freed_lazily(&self) {
        self.freed_lazily.store(0, Ordering::Relaxed);
    }

    /// Deletes expired keys in the order of the deadlines, up to so many. Returns the view that did so, if any key was expired, and
    /// whether there are more.
    pub fn sweep(&self, clock: &Clock, most: usize) -> Option<(View<'_>, bool)> {
        let now = clock.millis();
        let due =
            |meta: &ShardMeta| meta.has_deadlines() && meta.deadlines().earliest().is_some_and(|first| first < now);
        if !self.shard_meta().any(due) {
            return None;
        }
        let mut view = self.lock(Scope::Everything, 0, clock).ok()?;
        let has_more = view.sweep(most);
        Some((view, has_more))
    }

    /// The earliest deadline of a stream that clients are blocked on.
    pub fn next_awaited_deadline(&self) -> Option<Millis> {
        let deadline = |(db, hash): (u32, u64)| self.lock_shard(hash, db).ok()?.deadline(hash, ValueKind::Stream);
        self.waiters.hashes().into_iter().filter_map(deadline).min()
    }

    /// The key that expires first of those that have not expired at `now`, in whatever database, with its deadline.
    /// `None` also while a slow script holds the keys.
    pub fn next_expiry(&self, now: Millis) -> Option<(Millis, Vec<u8>)> {
        let mut first: Option<(Millis, Vec<u8>)> = None;
        for (home, database) in self.used_homes() {
            for index in database.used().filter(|&index| database.shard_meta[index].has_deadlines()) {
                let meta = &database.shard_meta[index];
                let is_next = |deadline| deadline >= now && first.as_ref().is_none_or(|(least, _)| deadline < *least);
                let mut rows: Vec<_> = meta.deadlines().iter_from(0).filter(|row| is_next(row.deadline)).collect();
                rows.sort_unstable();
                // Rows can be stale.
                let living = rows.into_iter().find_map(|row| {
                    let locked = LockedShard::at_home(self, home, index).ok()?;
                    Some((row.deadline, locked.key_expiring_at(row)?))
                });
                first = living.or(first);
            }
        }
        first
    }

    /// Whether anything has a deadline.
    pub fn has_deadlines(&self) -> bool {
        self.shard_meta().any(ShardMeta::has_deadlines)
    }

    /// The metadata of all shards that may hold something.
    fn shard_meta(&self) -> impl Iterator<Item = &ShardMeta> {
        self.used_homes().flat_map(|(_, database)| database.used_meta())
    }

    /// The home of a database: for good while a shard of it is held.
    #[inline]
    fn home_of(&self, db: u32) -> u32 {
        self.homes[db as usize].load(Ordering::Relaxed)
    }

    /// The database that is at home there.
    fn database_at(&self, home: u32) -> u32 {
        let found = self.homes.iter().position(|at| at.load(Ordering::Relaxed) == home);
        found.map_or(home, |db| db as u32)
    }

    /// Exchanges the homes of two databases. The caller holds all shards of both.
    fn exchange_homes(&self, one: u32, other: u32) {
        let [one, other] = [one, other].map(|db| &self.homes[db as usize]);
        let before = one.swap(other.load(Ordering::Relaxed), Ordering::Relaxed);
        other.store(before, Ordering::Relaxed);
    }

    /// The databases that were used, ascending.
    fn used_databases(&self) -> impl Iterator<Item = (u32, &Database)> {
        (0..self.databases()).filter_map(|db| Some((db, self.used_database(db)?)))
    }

    /// A database, if it exists and was used.
    #[inline]
    fn used_database(&self, db: u32) -> Option<&Database> {
        let home = self.homes.get(db as usize)?.load(Ordering::Relaxed);
        opened(&self.databases[home as usize])
    }

    /// The homes that are in use, ascending.
    fn used_homes(&self) -> impl Iterator<Item = (u32, &Database)> {
        (0..).zip(&*self.databases).filter_map(|(home, database)| Some((home, opened(database)?)))
    }

    /// What is at a home of which a shard is held, so it exists.
    #[inline]
    fn home(&self, home: u32) -> &Database {
        match self.databases[home as usize].get() {
            Some(database) => database,
            None => unreachable!("a shard of it is locked"),
        }
    }

    /// What is at a home, created on first use.
    #[inline]
    fn open_home(&self, home: u32) -> Result<&Database, Busy> {
        match opened(&self.databases[home as usize]) {
            Some(database) => Ok(database),
            None => Ok(self.make_home(home, &self.creating()?).open()),
        }
    }

    /// What is at a home from now on. Others enter it once it is opened.
    #[cold]
    fn make_home(&self, home: u32, _creating: &MutexGuard<'_, ()>) -> &Database {
        self.databases[home as usize].get_or_init(|| Box::new(Database::new(self.shards())))
    }

    fn creating(&self) -> Result<MutexGuard<'_, ()>, Busy> {
        self.lock_with_backoff(|| try_lock(&self.creating))
    }

    fn multi_shard(&self) -> Result<MutexGuard<'_, ()>, Busy> {
        self.lock_with_backoff(|| try_lock(&self.multi_shard))
    }

    /// The next number of a pseudo-random sequence, which is the same in every run.
    fn random(&self) -> u64 {
        random::mix(self.random.fetch_add(random::STEP, Ordering::Relaxed))
    }
}
