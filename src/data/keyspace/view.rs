//! A locked view: the only way to look at data and to change it.

mod effects;
mod expiry;
mod scan;

use std::marker::PhantomData;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicI64, Ordering};

use smallvec::SmallVec;

use super::entry::{AccessTime, Entry, EntryDeadlines};
use super::notifications::{EventClass, KEY_CHANGES, Notification};
use super::store::{Shard, Slot, hash_of};
use super::{Busy, Database, Keyspace, Scope, Settings, ShardMeta, access_time, try_lock};
use crate::base::clock::{Clock, Millis};

use effects::Effects;
use expiry::{count_deadline, is_expired};

pub use scan::ScanFilter;

/// One command's (or transaction's, or script's) hold on the keyspace, at one instant.
pub struct View<'k> {
    keyspace: &'k Keyspace,
    /// The shards held, ascending by database and shard.
    locked: SmallVec<[LockedShard<'k>; 1]>,
    /// Held by a view of everything: no database comes into being while it lives.
    everything: Option<MutexGuard<'k, ()>>,
    /// Held by a view that locks what it does not hold when it reaches for it.
    growing: Option<MutexGuard<'k, ()>>,
    /// Address, length and hash of the word that names the only key.
    hashed_key: (usize, usize, u64),
    db: u32,
    now: Millis,
    micros: i64,
    touch: bool,
    /// The command that runs may only look at keys that its words name.
    confined: bool,
    /// What the command that runs answers must not depend on chance.
    repeatable: bool,
    stats: ViewStats,
    /// What the settings asked to be told of when the view was locked.
    wanted: u32,
    /// What only some views have. Behind the locks, because flushed tables are to be dropped after those.
    effects: Option<Box<Effects>>,
    /// A view holds locks, so it must not travel between threads or live across an `.await`.
    not_send: PhantomData<*const ()>,
}

/// A shard that a view holds.
pub struct LockedShard<'k> {
    db: u32,
    index: u32,
    shard: Shard<'k>,
}

/// What a view did, for the statistics.
#[derive(Clone, Copy, Debug, Default)]
pub struct ViewStats {
    pub hits: u64,
    pub misses: u64,
    /// Changes, as INFO's `rdb_changes_since_last_save` counts them.
    pub changes: u64,
    pub expired: u64,
    /// Keys that were written on the condition that they were not there, as locks are.
    pub locks: u64,
}

/// Where a live key stands: which lock, which slot.
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
        self.locks += other.locks;
    }
}

impl<'k> View<'k> {
    #[inline]
    pub(super) fn lock(keyspace: &'k Keyspace, scope: Scope<'_>, db: u32, clock: &Clock) -> Result<Self, Busy> {
        let mut locked = SmallVec::new();
        let mut everything = None;
        match scope {
            Scope::Hashes(hashes) => lock_shards(keyspace, db, hashes, &mut locked)?,
            Scope::Database => {
                let database = keyspace.open_database(db)?;
                let _several = keyspace.multi_shard()?;
                for shard in 0..keyspace.shards() {
                    locked.push(LockedShard::of(keyspace, database, db, shard)?);
                }
            }
            Scope::Everything => {
                let _several = keyspace.multi_shard()?;
                everything = Some(lock_everything(keyspace, &mut locked)?);
            }
        }
        Ok(Self::new(keyspace, locked, everything, (0, 0, 0), db, clock.micros()))
    }

    #[inline]
    pub(super) fn lock_key(
        keyspace: &'k Keyspace,
        key: &[u8],
        hash: u64,
        db: u32,
        clock: &Clock,
    ) -> Result<Self, Busy> {
        let locked = Self::lock_shard(keyspace, hash, db)?;
        Ok(Self::of_key(keyspace, locked, key, hash, clock))
    }

    /// The lock of a key with this hash.
    #[inline]
    pub(super) fn lock_shard(keyspace: &'k Keyspace, hash: u64, db: u32) -> Result<LockedShard<'k>, Busy> {
        LockedShard::of(keyspace, keyspace.open_database(db)?, db, keyspace.shard_of(hash))
    }

    /// A view of a key whose lock is held.
    #[inline]
    pub(super) fn of_key(
        keyspace: &'k Keyspace,
        locked: LockedShard<'k>,
        key: &[u8],
        hash: u64,
        clock: &Clock,
    ) -> Self {
        let db = locked.db;
        let hashed_key = (key.as_ptr().addr(), key.len(), hash);
        Self::new(keyspace, SmallVec::from_buf([locked]), None, hashed_key, db, clock.micros())
    }

    pub(super) fn lock_growing(keyspace: &'k Keyspace, hashes: &[u64], db: u32, clock: &Clock) -> Result<Self, Busy> {
        let multi_shard = keyspace.multi_shard()?;
        let mut locked = SmallVec::new();
        let database = keyspace.open_database(db)?;
        for shard in shards_of(keyspace, hashes) {
            locked.push(LockedShard::of(keyspace, database, db, shard)?);
        }
        let mut view = Self::new(keyspace, locked, None, (0, 0, 0), db, clock.micros());
        view.growing = Some(multi_shard);
        Ok(view)
    }

    /// Locks what a view that grows does not hold yet of the selected database, or of all.
    pub fn extend_scope(&mut self, scope: Scope<'_>) {
        if self.growing.is_none() || self.everything.is_some() {
            return;
        }
        match scope {
            Scope::Hashes(_) => {}
            Scope::Database => (0..self.keyspace.shards()).for_each(|shard| self.lock_another(self.db, shard)),
            Scope::Everything => {
                let keyspace = self.keyspace;
                let creating = keyspace.lock_unconditionally(|| try_lock(&keyspace.creating));
                for (db, _) in (0..).zip(&keyspace.databases).filter(|(_, database)| database.get().is_some()) {
                    (0..keyspace.shards()).for_each(|shard| self.lock_another(db, shard));
                }
                self.everything = Some(creating);
            }
        }
    }

    /// Locks one more shard. Whoever has it waits for nothing, and so is about to let it go.
    fn lock_another(&mut self, db: u32, index: usize) {
        let Err(at) = self.shard_position(db, index) else { return };
        let keyspace = self.keyspace;
        let database = match keyspace.databases[db as usize].get() {
            Some(database) => database,
            None => keyspace.make_database(db, &keyspace.lock_unconditionally(|| try_lock(&keyspace.creating))),
        };
        let shard = keyspace.lock_unconditionally(|| database.store.try_lock(index));
        self.locked.insert(at, LockedShard { db, index: index as u32, shard });
    }

    #[inline]
    fn new(
        keyspace: &'k Keyspace,
        locked: SmallVec<[LockedShard<'k>; 1]>,
        everything: Option<MutexGuard<'k, ()>>,
        hashed_key: (usize, usize, u64),
        db: u32,
        micros: i64,
    ) -> Self {
        View {
            keyspace,
            locked,
            everything,
            growing: None,
            hashed_key,
            db,
            // No clock shows a time before 1970, and without a sign this is quicker.
            now: (micros.cast_unsigned() / 1000).cast_signed(),
            micros,
            touch: true,
            confined: false,
            repeatable: false,
            stats: ViewStats::default(),
            wanted: keyspace.settings.notifications(),
            effects: None,
            not_send: PhantomData,
        }
    }

    /// The hash of a key: worked out anew unless it is the very word that the view was locked for.
    #[inline]
    fn hash(&self, key: &[u8]) -> u64 {
        let (address, length, hash) = self.hashed_key;
        if address == key.as_ptr().addr() && length == key.len() && address != 0 { hash } else { hash_of(key) }
    }

    /// Ends the view: what it did becomes visible all at once.
    #[inline]
    pub fn finish(self) -> ViewStats {
        // The locks go first, then what was flushed: fields are dropped in the order of their declaration.
        self.stats
    }

    /// What the view has done so far.
    #[inline]
    pub fn stats(&self) -> ViewStats {
        self.stats
    }

    /// Counts a lock that was taken.
    #[inline]
    pub fn count_lock(&mut self) {
        self.stats.locks += 1;
    }

    /// The view's instant, in milliseconds.
    pub fn now(&self) -> Millis {
        self.now
    }

    /// The view's instant, in microseconds.
    pub fn micros(&self) -> i64 {
        self.micros
    }

    pub fn db(&self) -> u32 {
        self.db
    }

    pub fn databases(&self) -> u32 {
        self.keyspace.databases()
    }

    /// Turns to another database, which the view's scope must reach.
    pub fn select(&mut self, db: u32) {
        self.db = db;
    }

    /// Whether look-ups count as use of a key (CLIENT NO-TOUCH turns that off).
    pub fn set_touch(&mut self, touch: bool) {
        self.touch = touch;
    }

    /// Whether the command that runs may only look at keys that its words name, although the view reaches others.
    pub fn set_confined(&mut self, confined: bool) {
        self.confined = confined;
    }

    pub fn is_confined(&self) -> bool {
        self.confined
    }

    /// Whether what the command that runs answers must not depend on chance, as in scripts.
    pub fn set_repeatable(&mut self, repeatable: bool) {
        self.repeatable = repeatable;
    }

    pub fn is_repeatable(&self) -> bool {
        self.repeatable
    }

    pub fn settings(&self) -> &'k Settings {
        self.keyspace.settings()
    }

    // ---- looking

    /// Whether the key exists, without counting as use of it.
    pub fn exists(&mut self, key: &[u8]) -> bool {
        self.find(key).is_some()
    }

    /// The entry, without counting as use of it.
    pub fn peek(&mut self, key: &[u8]) -> Option<&Entry> {
        let at = self.find(key)?;
        Some(self.entry(at))
    }

    /// The entry, read for its value.
    pub fn read(&mut self, key: &[u8]) -> Option<&Entry> {
        let at = self.find_for_read(key)?;
        Some(self.entry(at))
    }

    /// When a key was last used, as OBJECT IDLETIME counts it. To ask is no use.
    pub fn last_used(&mut self, key: &[u8]) -> Option<AccessTime> {
        let at = self.find(key)?;
        let entry = self.entry(at);
        let shared = entry.shared_integer();
        Some(shared.map_or_else(|| entry.accessed(), |value| self.keyspace.shared_integers.accessed(value)))
    }

    /// The entry, for a command that asks about it without using it: a hit or a miss, but no use.
    pub fn read_without_touch(&mut self, key: &[u8]) -> Option<&Entry> {
        let Some(at) = self.find(key) else {
            self.count_miss(key);
            return None;
        };
        self.stats.hits += 1;
        Some(self.entry(at))
    }

    /// As [`read_without_touch`](Self::read_without_touch), for OBJECT: nobody is told that a key is not there.
    pub fn read_without_touch_or_event(&mut self, key: &[u8]) -> Option<&Entry> {
        let Some(at) = self.find(key) else {
            self.stats.misses += 1;
            return None;
        };
        self.stats.hits += 1;
        Some(self.entry(at))
    }

    /// The entry, for a command that is about to change it: a use, but neither a hit nor a miss.
    pub fn read_for_update(&mut self, key: &[u8]) -> Option<&Entry> {
        let at = self.find_for_update(key)?;
        Some(self.entry(at))
    }

    /// Marks a key as used. This is what TOUCH is for, so it does not ask whether look-ups count as use.
    pub fn touch(&mut self, key: &[u8]) -> bool {
        let touch = std::mem::replace(&mut self.touch, true);
        let found = self.find_for_read(key).is_some();
        self.touch = touch;
        found
    }

    /// The databases that the view holds, lowest first. One that was never used is not among them.
    pub fn held_databases(&self) -> Vec<u32> {
        let mut databases: Vec<u32> = self.locked.iter().map(|locked| locked.db).collect();
        databases.dedup();
        databases
    }

    pub fn len(&mut self) -> usize {
        let db = self.db;
        self.locked.iter().filter(|locked| locked.db == db).map(|locked| locked.shard.len()).sum()
    }

    /// Calls `visit` with every live entry of the selected database.
    pub fn for_each(&mut self, mut visit: impl FnMut(&Entry)) {
        let (db, now) = (self.db, self.now);
        for locked in self.locked.iter().filter(|locked| locked.db == db) {
            locked.shard.iter().filter(|entry| !is_expired(entry, now)).for_each(&mut visit);
        }
    }

    // ---- changing

    /// Has all that `change` does counted as one change, as RENAME is one.
    pub fn as_one_change<R>(&mut self, change: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.stats.changes;
        let result = change(self);
        self.stats.changes = self.stats.changes.min(before + 1);
        result
    }

    /// Puts an entry in place of whatever is under its key.
    pub fn put(&mut self, entry: Entry) {
        match self.find_for_update(entry.key()) {
            Some(at) => {
                let old = self.rewrite(at, |old| std::mem::replace(old, entry));
                self.signal_removal(&old);
            }
            None => self.insert(entry),
        }
    }

    /// Adds an entry as a new key; whatever was under its key is gone first, without being told of.
    pub fn replace(&mut self, entry: Entry) {
        if let Some(at) = self.find(entry.key()) {
            self.unlink(at);
        }
        self.insert(entry);
    }

    pub fn remove(&mut self, key: &[u8]) -> bool {
        self.take(key).is_some()
    }

    /// Removes a key and hands out what was there.
    pub fn take(&mut self, key: &[u8]) -> Option<Entry> {
        let at = self.find(key)?;
        let entry = self.unlink(at);
        self.changed(key);
        Some(entry)
    }

    /// Sets or removes a deadline. Does not look at whether it is already past. `false` when there is no such key.
    pub fn set_deadline(&mut self, key: &[u8], deadline: Option<Millis>) -> bool {
        let Some(at) = self.find(key) else { return false };
        self.rewrite(at, |entry| entry.set_deadline(deadline));
        true
    }

    /// Removes every key of the selected database and returns how many there were.
    pub fn flush(&mut self) -> usize {
        self.touch_watched(self.db);
        let db = self.db;
        let mut removed = 0;
        let mut garbage = Vec::new();
        self.signal_all(db);
        if self.everything.is_some() {
            self.held_shard(db, 0);
        }
        for locked in self.locked.iter_mut().filter(|locked| locked.db == db) {
            removed += locked.shard.len();
            garbage.push(locked.shard.take());
            let meta = &self.keyspace.database(db).shards_meta[locked.index as usize];
            *meta.deadlines() = Default::default();
            meta.keys.store(0, Ordering::Relaxed);
            meta.volatile.store(0, Ordering::Relaxed);
            meta.with_field_deadlines.store(0, Ordering::Relaxed);
            meta.bytes.store(0, Ordering::Relaxed);
        }
        self.effects().garbage.append(&mut garbage);
        self.stats.changes += removed as u64;
        removed
    }

    /// Removes every key of all databases that the view holds.
    pub fn flush_everything(&mut self) {
        let home = self.db;
        for db in self.held_databases() {
            self.select(db);
            self.flush();
        }
        self.select(home);
        self.notify_flushed();
    }

    /// Tells that everything was removed, or that this was asked for: once, however many databases that were.
    pub fn notify_flushed(&mut self) {
        if self.wanted & KEY_CHANGES != 0 {
            self.effects().notifications.push(Notification::Flushed);
        }
    }

    /// Lets two databases change places. The view must reach everything.
    pub fn swap(&mut self, one: u32, other: u32) {
        if one == other {
            return;
        }
        for db in [one, other] {
            self.held_shard(db, 0);
            self.touch_watched(db);
        }
        let (one, other) = (one.min(other), one.max(other));
        for index in 0..self.keyspace.shards() {
            let (first, second) = (self.held_shard(one, index), self.held_shard(other, index));
            let (left, right) = self.locked.split_at_mut(second);
            left[first].shard.swap(&mut right[0].shard);
            let shards_meta = [one, other].map(|db| &self.keyspace.database(db).shards_meta[index]);
            std::mem::swap(&mut *shards_meta[0].deadlines(), &mut *shards_meta[1].deadlines());
            swap_counts(shards_meta, |meta| &meta.keys);
            swap_counts(shards_meta, |meta| &meta.volatile);
            swap_counts(shards_meta, |meta| &meta.with_field_deadlines);
            swap_counts(shards_meta, |meta| &meta.bytes);
        }
        for db in [one, other] {
            self.touch_watched(db);
            self.signal_all(db);
        }
        self.stats.changes += 1;
    }

    /// Counts further changes to a key that somebody was told of already, or that nobody needs to be told of.
    pub fn count_more_changes(&mut self, changes: usize) {
        self.stats.changes += changes as u64;
    }

    /// Counts a change to a key: whoever watches it is told.
    pub(super) fn changed(&mut self, key: &[u8]) {
        self.record_change(key, false);
    }

    fn record_change(&mut self, key: &[u8], expired: bool) {
        self.stats.changes += 1;
        if !self.keyspace.watchers.is_empty() {
            self.keyspace.watchers.touch(self.db, key);
        }
        if self.wanted & KEY_CHANGES != 0 {
            self.effects().notifications.push(Notification::Changed { key: key.into(), expired });
        }
    }

    /// Tells whoever watches a key of a change that does not count as one.
    pub(super) fn touch_watchers(&mut self, key: &[u8]) {
        let changes = self.stats.changes;
        self.changed(key);
        self.stats.changes = changes;
    }

    // ---- watching

    fn touch_watched(&mut self, db: u32) {
        if self.keyspace.watchers.is_empty() {
            return;
        }
        let selected = std::mem::replace(&mut self.db, db);
        for key in self.keyspace.watchers.keys(db) {
            if self.exists(&key) {
                self.keyspace.watchers.touch(db, &key);
            }
        }
        self.db = selected;
    }

    // ---- inside

    /// Finds a key that is live; one that is over is deleted on the way.
    #[inline]
    pub(super) fn find(&mut self, key: &[u8]) -> Option<Location> {
        let hash = self.hash(key);
        let lock = self.held_shard(self.db, self.keyspace.shard_of(hash));
        let shard = &self.locked[lock].shard;
        let slot = shard.find(hash, key)?;
        let at = Location { lock, slot, hash };
        if shard.entry(slot).due().first().is_some_and(|due| self.now > due) {
            return self.expire_due(at);
        }
        Some(at)
    }

    /// Finds a key for its value: counts as a hit or a miss, and as use of it.
    #[inline]
    pub(super) fn find_for_read(&mut self, key: &[u8]) -> Option<Location> {
        let at = self.find_for_update(key);
        if at.is_some() {
            self.stats.hits += 1;
        } else {
            self.count_miss(key);
        }
        at
    }

    fn count_miss(&mut self, key: &[u8]) {
        self.stats.misses += 1;
        self.notify(EventClass::KeyMiss, "keymiss", key);
    }

    /// Finds a key that is to be written: counts as use of it, but is neither a hit nor a miss.
    #[inline]
    pub(super) fn find_for_update(&mut self, key: &[u8]) -> Option<Location> {
        let at = self.find(key)?;
        if self.touch {
            let accessed = self.access_time();
            let entry = self.entry_mut(at);
            entry.set_accessed(accessed);
            if let Some(value) = entry.shared_integer() {
                self.keyspace.shared_integers.touch(value, accessed);
            }
        }
        Some(at)
    }

    #[inline]
    pub(super) fn entry(&self, at: Location) -> &Entry {
        self.locked[at.lock].shard.entry(at.slot)
    }

    #[inline]
    pub(super) fn entry_mut(&mut self, at: Location) -> &mut Entry {
        self.locked[at.lock].shard.entry_mut(at.slot)
    }

    /// The view's instant as an access time.
    pub fn access_time(&self) -> AccessTime {
        access_time(self.now)
    }

    /// Changes an entry in place; deadline, memory and watchers follow.
    #[inline]
    pub(super) fn rewrite<R>(&mut self, at: Location, change: impl FnOnce(&mut Entry) -> R) -> R {
        let result = self.rewrite_quietly(at, change);
        self.stats.changes += 1;
        if !self.keyspace.watchers.is_empty() {
            self.keyspace.watchers.touch(self.db, self.entry(at).key());
        }
        if self.wanted & KEY_CHANGES != 0 {
            let key = self.entry(at).key().into();
            self.effects().notifications.push(Notification::Changed { key, expired: false });
        }
        result
    }

    /// Changes an entry in place in a way that nobody who watches the key needs to know of.
    #[inline]
    pub(super) fn rewrite_quietly<R>(&mut self, at: Location, change: impl FnOnce(&mut Entry) -> R) -> R {
        let entry = self.entry_mut(at);
        let (size, due) = (entry.size(), entry.due());
        let result = change(entry);
        let (new_size, new_due) = (entry.size(), entry.due());
        if size != new_size {
            self.meta(at).bytes.fetch_add(new_size as i64 - size as i64, Ordering::Relaxed);
        }
        if due != new_due {
            self.deadlines_changed(at.lock, at.hash, due, new_due);
        }
        result
    }

    /// Adds an entry whose key is not there.
    #[inline]
    pub(super) fn insert(&mut self, entry: Entry) {
        self.changed(entry.key());
        self.insert_quietly(entry);
    }

    /// Adds an entry whose key is not there, without telling those who watch the key.
    #[inline]
    pub(super) fn insert_quietly(&mut self, entry: Entry) {
        self.notify(EventClass::New, "new", entry.key());
        if entry.kind().is_awaited() {
            self.signal(entry.key());
        }
        let hash = hash_of(entry.key());
        let lock = self.held_shard(self.db, self.keyspace.shard_of(hash));
        let index = self.locked[lock].index as usize;
        let meta = &self.keyspace.database(self.db).shards_meta[index];
        meta.bytes.fetch_add(entry.size() as i64, Ordering::Relaxed);
        meta.count_keys(1);
        let due = entry.due();
        self.locked[lock].shard.insert(hash, entry);
        if due != EntryDeadlines::NONE {
            self.deadlines_changed(lock, hash, EntryDeadlines::NONE, due);
        }
    }

    fn unlink(&mut self, at: Location) -> Entry {
        let entry = self.locked[at.lock].shard.remove(at.slot);
        self.signal_removal(&entry);
        let meta = self.meta(at);
        meta.bytes.fetch_sub(entry.size() as i64, Ordering::Relaxed);
        meta.count_keys(-1);
        let due = entry.due();
        count_deadline(&meta.volatile, due.key, None);
        count_deadline(&meta.with_field_deadlines, due.field, None);
        entry
    }

    fn meta(&self, at: Location) -> &'k ShardMeta {
        let locked = &self.locked[at.lock];
        &self.keyspace.database(locked.db).shards_meta[locked.index as usize]
    }

    /// An entry that is known to be live, because it was just found through the front door.
    pub(super) fn peek_found(&self, key: &[u8]) -> Option<&Entry> {
        let hash = self.hash(key);
        let shard = &self.locked[self.shard_position(self.db, self.keyspace.shard_of(hash)).ok()?].shard;
        Some(shard.entry(shard.find(hash, key)?))
    }

    /// Where the lock of a shard stands among those held, or would stand.
    fn shard_position(&self, db: u32, index: usize) -> Result<usize, usize> {
        self.locked.binary_search_by_key(&(db, index as u32), |locked| (locked.db, locked.index))
    }

    /// Which of the held locks guards a shard.
    #[inline]
    fn held_shard(&mut self, db: u32, index: usize) -> usize {
        if let [only] = self.locked.as_slice()
            && only.db == db
            && only.index as usize == index
        {
            return 0;
        }
        match self.shard_position(db, index) {
            Ok(at) => at,
            Err(at) => match &self.everything {
                // A database that did not exist when everything was locked, and still does not: nobody else can have
                // made it, or hold a lock of it.
                Some(creating) => {
                    let database = self.keyspace.make_database(db, creating);
                    let shards = 0..self.keyspace.shards();
                    self.locked.insert_many(at, shards.filter_map(|shard| LockedShard::free(database, db, shard)));
                    self.held_shard(db, index)
                }
                None if self.growing.is_some() => {
                    self.lock_another(db, index);
                    at
                }
                None => unreachable!("a command reached for a key that its row does not name"),
            },
        }
    }
}

impl<'k> LockedShard<'k> {
    #[inline]
    fn of(keyspace: &Keyspace, database: &'k Database, db: u32, index: usize) -> Result<Self, Busy> {
        let shard = keyspace.lock_with_backoff(|| database.store.try_lock(index))?;
        Ok(Self { db, index: index as u32, shard })
    }

    /// A shard that nobody else can have.
    fn free(database: &'k Database, db: u32, index: usize) -> Option<Self> {
        Some(Self { db, index: index as u32, shard: database.store.try_lock(index)? })
    }
}

/// The shards of these keys, ascending, without doubles: the order in which everybody locks them.
fn shards_of(keyspace: &Keyspace, hashes: &[u64]) -> SmallVec<[usize; 8]> {
    let mut shards: SmallVec<[usize; 8]> = hashes.iter().map(|&hash| keyspace.shard_of(hash)).collect();
    shards.sort_unstable();
    shards.dedup();
    shards
}

fn lock_shards<'k>(
    keyspace: &'k Keyspace,
    db: u32,
    hashes: &[u64],
    locked: &mut SmallVec<[LockedShard<'k>; 1]>,
) -> Result<(), Busy> {
    let shards = shards_of(keyspace, hashes);
    let database = keyspace.open_database(db)?;
    let _several = if shards.len() > 1 { Some(keyspace.multi_shard()?) } else { None };
    for shard in shards {
        locked.push(LockedShard::of(keyspace, database, db, shard)?);
    }
    Ok(())
}

fn lock_everything<'k>(
    keyspace: &'k Keyspace,
    locked: &mut SmallVec<[LockedShard<'k>; 1]>,
) -> Result<MutexGuard<'k, ()>, Busy> {
    let creating = keyspace.creating()?;
    for (db, database) in (0..).zip(&keyspace.databases) {
        if let Some(database) = database.get() {
            for shard in 0..keyspace.shards() {
                locked.push(LockedShard::of(keyspace, database, db, shard)?);
            }
        }
    }
    Ok(creating)
}

fn swap_counts(shards_meta: [&ShardMeta; 2], count: impl Fn(&ShardMeta) -> &AtomicI64) {
    let (one, other) = (count(shards_meta[0]), count(shards_meta[1]));
    one.store(other.swap(one.load(Ordering::Relaxed), Ordering::Relaxed), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::keyspace::Expiry;

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
        let rows: usize = keyspace.shards_meta().map(|meta| meta.deadlines().rows()).sum();
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
