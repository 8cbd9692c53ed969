//! The shards that a view holds, and how it locks them.
//!
//! Locks are taken in ascending order, all before the first look-up, with two exceptions: a growing view (a script's, or
//! one that serves blocked clients) locks further shards when it reaches for them, and a view of everything makes
//! databases that did not exist before.

use smallvec::SmallVec;
use std::sync::MutexGuard;

use super::{HashedKey, LockedShard, View};
use crate::base::clock::Clock;
use crate::data::keyspace::{Busy, Database, Keyspace, Scope, lock_unconditionally, try_lock};

impl<'k> View<'k> {
    #[inline]
    pub(in crate::data::keyspace) fn lock(
        keyspace: &'k Keyspace,
        scope: Scope<'_>,
        db: u32,
        clock: &Clock,
    ) -> Result<Self, Busy> {
        let mut locked = SmallVec::new();
        let mut everything = None;
        match scope {
            Scope::Hashes(hashes) => lock_shards(keyspace, db, hashes, &mut locked)?,
            Scope::Database => {
                let database = keyspace.open_database(db)?;
                let _multi_shard = keyspace.multi_shard()?;
                for shard in 0..keyspace.shards() {
                    locked.push(LockedShard::of(keyspace, database, db, shard)?);
                }
            }
            Scope::Everything => {
                let _multi_shard = keyspace.multi_shard()?;
                everything = Some(lock_everything(keyspace, &mut locked)?);
            }
        }
        Ok(Self::new(keyspace, locked, everything, HashedKey::NONE, db, clock.read()))
    }

    #[inline]
    pub(in crate::data::keyspace) fn lock_key(
        keyspace: &'k Keyspace,
        key: &[u8],
        hash: u64,
        db: u32,
        clock: &Clock,
    ) -> Result<Self, Busy> {
        let locked = Self::lock_shard(keyspace, hash, db)?;
        Ok(Self::of_key(keyspace, locked, key, hash, clock))
    }

    /// Locks the shard of a key with this hash.
    #[inline]
    pub(in crate::data::keyspace) fn lock_shard(
        keyspace: &'k Keyspace,
        hash: u64,
        db: u32,
    ) -> Result<LockedShard<'k>, Busy> {
        LockedShard::of(keyspace, keyspace.open_database(db)?, db, keyspace.shard_of(hash))
    }

    /// A view of a key whose shard is locked already. The slice `key` must not change while the view lives.
    #[inline]
    pub(in crate::data::keyspace) fn of_key(
        keyspace: &'k Keyspace,
        locked: LockedShard<'k>,
        key: &[u8],
        hash: u64,
        clock: &Clock,
    ) -> Self {
        let db = locked.db;
        let hashed_key = HashedKey::new(key, hash);
        Self::new(keyspace, SmallVec::from_buf([locked]), None, hashed_key, db, clock.read())
    }

    pub(in crate::data::keyspace) fn lock_growing(
        keyspace: &'k Keyspace,
        hashes: &[u64],
        db: u32,
        clock: &Clock,
    ) -> Result<Self, Busy> {
        let multi_shard = keyspace.multi_shard()?;
        let mut locked = SmallVec::new();
        let database = keyspace.open_database(db)?;
        for shard in shards_of(keyspace, hashes) {
            locked.push(LockedShard::of(keyspace, database, db, shard)?);
        }
        let mut view = Self::new(keyspace, locked, None, HashedKey::NONE, db, clock.read());
        view.growing = Some(multi_shard);
        Ok(view)
    }

    /// Locks what a growing view does not hold yet of the selected database, or of all.
    pub fn extend_scope(&mut self, scope: Scope<'_>) {
        if self.growing.is_none() || self.everything.is_some() {
            return;
        }
        match scope {
            Scope::Hashes(_) => {}
            Scope::Database => (0..self.keyspace.shards()).for_each(|shard| self.lock_another(self.db, shard)),
            Scope::Everything => {
                let keyspace = self.keyspace;
                let creating = lock_unconditionally(|| try_lock(&keyspace.creating));
                for (db, _) in (0..).zip(&*keyspace.databases).filter(|(_, database)| database.get().is_some()) {
                    (0..keyspace.shards()).for_each(|shard| self.lock_another(db, shard));
                }
                self.everything = Some(creating);
            }
        }
    }

    /// Locks one more shard. Its holder waits for no lock, so it is about to release this one.
    pub(super) fn lock_another(&mut self, db: u32, index: usize) {
        let Err(at) = self.shard_position(db, index) else { return };
        let keyspace = self.keyspace;
        let database = match keyspace.databases[db as usize].get() {
            Some(database) => database,
            None => keyspace.make_database(db, &lock_unconditionally(|| try_lock(&keyspace.creating))),
        };
        let shard = lock_unconditionally(|| database.store.try_lock(index));
        self.locked.insert(at, LockedShard { db, index: index as u32, shard });
    }

    /// The position of a shard among those held; a view that may reach further locks it now.
    #[inline]
    pub(super) fn held_shard(&mut self, db: u32, index: usize) -> usize {
        if let [only] = self.locked.as_slice()
            && only.db == db
            && only.index as usize == index
        {
            return 0;
        }
        match self.shard_position(db, index) {
            Ok(at) => at,
            Err(at) => match &self.everything {
                // The database did not exist when everything was locked. No other view can have created it since, or
                // hold a lock of it.
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

    /// The position of a shard among those held; otherwise, where it would be inserted.
    pub(super) fn shard_position(&self, db: u32, index: usize) -> Result<usize, usize> {
        // A view of a whole database, or of the first ones, holds each shard in its place.
        for place in [index, db as usize * self.keyspace.shards() + index] {
            if self.locked.get(place).is_some_and(|locked| locked.db == db && locked.index as usize == index) {
                return Ok(place);
            }
        }
        self.locked.binary_search_by_key(&(db, index as u32), |locked| (locked.db, locked.index))
    }
}

impl<'k> LockedShard<'k> {
    /// Locks one shard, to look at some entries.
    pub(in crate::data::keyspace) fn lock(
        keyspace: &Keyspace,
        database: &'k Database,
        db: u32,
        index: usize,
    ) -> Result<Self, Busy> {
        Self::of(keyspace, database, db, index)
    }

    #[inline]
    pub(in crate::data::keyspace) fn of(
        keyspace: &Keyspace,
        database: &'k Database,
        db: u32,
        index: usize,
    ) -> Result<Self, Busy> {
        let shard = keyspace.lock_with_backoff(|| database.store.try_lock(index))?;
        Ok(Self { db, index: index as u32, shard })
    }

    /// A shard of a new database, which no other view can hold.
    fn free(database: &'k Database, db: u32, index: usize) -> Option<Self> {
        Some(Self { db, index: index as u32, shard: database.store.try_lock(index)? })
    }
}

/// The shards of these keys, ascending and without duplicates: the order in which all views lock them.
fn shards_of(keyspace: &Keyspace, hashes: &[u64]) -> SmallVec<[usize; 8]> {
    /// For more it costs less to mark them than to sort them.
    const MANY: usize = 256;
    if hashes.len() > MANY {
        let mut is_named = vec![false; keyspace.shards()];
        hashes.iter().for_each(|&hash| is_named[keyspace.shard_of(hash)] = true);
        return (0..is_named.len()).filter(|shard| is_named[*shard]).collect();
    }
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
    let _multi_shard = if shards.len() > 1 { Some(keyspace.multi_shard()?) } else { None };
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
    for (db, database) in (0..).zip(&*keyspace.databases) {
        if let Some(database) = database.get() {
            for shard in 0..keyspace.shards() {
                locked.push(LockedShard::of(keyspace, database, db, shard)?);
            }
        }
    }
    Ok(creating)
}
