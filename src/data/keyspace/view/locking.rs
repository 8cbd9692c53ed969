//! The shards that a view holds, and how it locks them.
//!
//! Locks are taken in ascending order, all before the first look-up, with three exceptions: a growing view (of a script, of
//! MOVE or COPY, or one that serves blocked clients) locks further shards when it reaches for them, a view of everything makes
//! databases that did not exist before, and a view of the keys that there are goes back for shards that have come into use.

use std::ops::Range;
use std::sync::MutexGuard;

use smallvec::SmallVec;

use super::{ExistingKeys, HashedKey, LockedShard, View};
use crate::base::clock::Clock;
use crate::data::keyspace::{Busy, Database, Keyspace, Scope, ShardMeta, lock_unconditionally, opened, try_lock};

impl<'k> View<'k> {
    #[inline]
    pub(in crate::data::keyspace) fn lock(
        keyspace: &'k Keyspace,
        scope: Scope<'_>,
        db: u32,
        clock: &Clock,
    ) -> Result<Self, Busy> {
        let mut locked = SmallVec::new();
        let (mut everything, mut existing) = (None, None);
        match scope {
            Scope::Hashes(hashes) => lock_shards(keyspace, db, hashes, &mut locked)?,
            Scope::Database => {
                let _multi_shard = keyspace.multi_shard()?;
                lock_ascending(keyspace, db, 0..keyspace.shards(), &mut locked)?;
            }
            Scope::Everything => {
                let _multi_shard = keyspace.multi_shard()?;
                everything = Some(lock_everything(keyspace, &mut locked)?);
            }
            Scope::KeysOfDatabase => {
                existing = Some(lock_existing_of(keyspace, db, (0, usize::MAX), &mut locked)?);
            }
            Scope::ScannedKeys { cursor, count } => {
                let part = (keyspace.shard_of_position(cursor), count.max(1));
                existing = Some(lock_existing_of(keyspace, db, part, &mut locked)?);
            }
            Scope::KeysOfAll => existing = Some(lock_existing_of_all(keyspace, &mut locked)?),
        }
        let mut view = Self::new(keyspace, locked, everything, HashedKey::NONE, db, clock.read());
        view.existing = existing.map(Box::new);
        Ok(view)
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
        Ok(Self::of_key(keyspace, locked, db, key, hash, clock))
    }

    /// Locks the shard of a key with this hash.
    #[inline]
    pub(in crate::data::keyspace) fn lock_shard(
        keyspace: &'k Keyspace,
        hash: u64,
        db: u32,
    ) -> Result<LockedShard<'k>, Busy> {
        LockedShard::of(keyspace, db, keyspace.shard_of(hash))
    }

    /// A view of a key whose shard is locked already. The slice `key` must not change while the view lives.
    #[inline]
    pub(in crate::data::keyspace) fn of_key(
        keyspace: &'k Keyspace,
        locked: LockedShard<'k>,
        db: u32,
        key: &[u8],
        hash: u64,
        clock: &Clock,
    ) -> Self {
        let hashed_key = HashedKey::new(key, hash);
        Self::new(keyspace, SmallVec::from_buf([locked]), None, hashed_key, db, clock.read())
    }

    pub(in crate::data::keyspace) fn lock_growing(
        keyspace: &'k Keyspace,
        hashes: &[u64],
        db: u32,
        clock: &Clock,
    ) -> Result<Self, Busy> {
        Self::growing(keyspace, db, clock, |locked| lock_ascending(keyspace, db, shards_of(keyspace, hashes), locked))
    }

    pub(in crate::data::keyspace) fn lock_in_all(
        keyspace: &'k Keyspace,
        hashes: &[u64],
        db: u32,
        clock: &Clock,
    ) -> Result<Self, Busy> {
        let shards = shards_of(keyspace, hashes);
        Self::growing(keyspace, db, clock, |locked| {
            for (home, _) in keyspace.used_homes() {
                for &shard in &shards {
                    locked.push(LockedShard::at_home(keyspace, home, shard)?);
                }
            }
            Ok(())
        })
    }

    /// A view that begins with the shards that `lock` takes, and can lock others.
    fn growing(
        keyspace: &'k Keyspace,
        db: u32,
        clock: &Clock,
        lock: impl FnOnce(&mut SmallVec<[LockedShard<'k>; 1]>) -> Result<(), Busy>,
    ) -> Result<Self, Busy> {
        let multi_shard = keyspace.multi_shard()?;
        let mut locked = SmallVec::new();
        lock(&mut locked)?;
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
            // Each key is locked when it is reached for.
            Scope::Hashes(_) => {}
            // Most scripts that ask for it once do so again and again.
            Scope::Database if self.held_of(self.db).len() == self.keyspace.shards() => {}
            Scope::Database | Scope::KeysOfDatabase | Scope::ScannedKeys { .. } => {
                for shard in 0..self.keyspace.shards() {
                    self.held_shard(self.db, shard);
                }
            }
            Scope::Everything | Scope::KeysOfAll => {
                let keyspace = self.keyspace;
                let creating = lock_unconditionally(|| try_lock(&keyspace.creating));
                for (home, _) in keyspace.used_homes() {
                    for shard in 0..keyspace.shards() {
                        if let Err(at) = self.position_at(home, shard) {
                            let shard = LockedShard::at_home_unconditionally(keyspace, home, shard);
                            self.locked.insert(at, shard);
                        }
                    }
                }
                self.everything = Some(creating);
            }
        }
    }

    /// Locks one more shard, and returns its position. Its holder waits for no lock, so it is about to release this one.
    fn lock_another(&mut self, db: u32, index: usize) -> usize {
        let keyspace = self.keyspace;
        loop {
            let home = keyspace.home_of(db);
            if opened(&keyspace.databases[home as usize]).is_none() {
                keyspace.make_home(home, &lock_unconditionally(|| try_lock(&keyspace.creating))).open();
            }
            let locked = LockedShard::at_home_unconditionally(keyspace, home, index);
            // SWAPDB may have come first.
            if keyspace.home_of(db) == home {
                let at = self.position_at(home, index).unwrap_or_else(|at| at);
                self.locked.insert(at, locked);
                return at;
            }
        }
    }

    /// The position of a shard among those held; a view that may reach further locks it now.
    #[inline]
    pub(super) fn held_shard(&mut self, db: u32, index: usize) -> usize {
        if let [only] = self.locked.as_slice()
            && only.index as usize == index
            && only.home == self.keyspace.home_of(db)
        {
            return 0;
        }
        match self.shard_position(db, index) {
            Ok(at) => at,
            Err(at) => match &self.everything {
                // The database did not exist when everything was locked. No other view can have created it since, and none
                // enters it before it is opened.
                Some(creating) => {
                    let home = self.keyspace.home_of(db);
                    let database = self.keyspace.make_home(home, creating);
                    let shards = 0..self.keyspace.shards();
                    self.locked.insert_many(at, shards.filter_map(|shard| LockedShard::free(database, home, shard)));
                    database.open();
                    self.held_shard(db, index)
                }
                None if self.growing.is_some() => self.lock_another(db, index),
                None => unreachable!("a command reached for a key that its row does not name"),
            },
        }
    }

    /// The position of a shard among those held; otherwise, where it would be inserted.
    #[inline]
    pub(super) fn shard_position(&self, db: u32, index: usize) -> Result<usize, usize> {
        self.position_at(self.keyspace.home_of(db), index)
    }

    fn position_at(&self, home: u32, index: usize) -> Result<usize, usize> {
        // A view of a whole database, or of the first ones, holds each shard in its place.
        for place in [index, home as usize * self.keyspace.shards() + index] {
            if self.locked.get(place).is_some_and(|locked| locked.home == home && locked.index as usize == index) {
                return Ok(place);
            }
        }
        self.locked.binary_search_by_key(&(home, index as u32), |locked| (locked.home, locked.index))
    }

    /// The shards that the view holds of a database.
    pub(super) fn held_of(&self, db: u32) -> Range<usize> {
        let home = self.keyspace.home_of(db);
        let end = |index| self.position_at(home, index).unwrap_or_else(|at| at);
        end(0)..end(self.keyspace.shards())
    }

    /// Those of them that may hold something.
    pub(super) fn used_shards(&self, db: u32) -> impl Iterator<Item = &LockedShard<'k>> {
        let held = &self.locked[self.held_of(db)];
        let used = held.first().into_iter().flat_map(|locked| self.keyspace.home(locked.home).used());
        used.filter_map(|index| match held.get(index) {
            Some(locked) if locked.index as usize == index => Some(locked),
            _ => Some(&held[held.binary_search_by_key(&(index as u32), |locked| locked.index).ok()?]),
        })
    }
}

impl<'k> LockedShard<'k> {
    /// Locks one shard.
    #[inline]
    pub(in crate::data::keyspace) fn of(keyspace: &'k Keyspace, db: u32, index: usize) -> Result<Self, Busy> {
        loop {
            let home = keyspace.home_of(db);
            let locked = Self::at_home(keyspace, home, index)?;
            // SWAPDB may have come first.
            if keyspace.home_of(db) == home {
                return Ok(locked);
            }
        }
    }

    /// Locks one shard of whatever database is at home there.
    #[inline]
    pub(in crate::data::keyspace) fn at_home(keyspace: &'k Keyspace, home: u32, index: usize) -> Result<Self, Busy> {
        let database = keyspace.open_home(home)?;
        let shard = keyspace.lock_with_backoff(|| database.store.try_lock(index))?;
        Ok(Self { home, index: index as u32, shard })
    }

    /// The same although a slow script may hold it. The home exists.
    fn at_home_unconditionally(keyspace: &'k Keyspace, home: u32, index: usize) -> Self {
        let shard = lock_unconditionally(|| keyspace.home(home).store.try_lock(index));
        Self { home, index: index as u32, shard }
    }

    /// The metadata of the shard.
    #[inline]
    pub(super) fn meta<'s>(&self, keyspace: &'s Keyspace) -> &'s ShardMeta {
        &keyspace.home(self.home).shard_meta[self.index as usize]
    }

    /// A shard of a new database, which no other view can hold.
    fn free(database: &'k Database, home: u32, index: usize) -> Option<Self> {
        Some(Self { home, index: index as u32, shard: database.store.try_lock(index)? })
    }
}

/// Locks shards of one database, ascending.
fn lock_ascending<'k>(
    keyspace: &'k Keyspace,
    db: u32,
    shards: impl IntoIterator<Item = usize>,
    locked: &mut SmallVec<[LockedShard<'k>; 1]>,
) -> Result<(), Busy> {
    for shard in shards {
        // The first keeps the database at home.
        locked.push(match locked.first() {
            None => LockedShard::of(keyspace, db, shard)?,
            Some(first) => LockedShard::at_home(keyspace, first.home, shard)?,
        });
    }
    Ok(())
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
    let _multi_shard = if shards.len() > 1 { Some(keyspace.multi_shard()?) } else { None };
    lock_ascending(keyspace, db, shards, locked)
}

/// Locks the shards of the selected database that may hold something, from the first of these numbers on, until there are as
/// many keys behind that shard as the other says.
fn lock_existing_of<'k>(
    keyspace: &'k Keyspace,
    db: u32,
    part: (usize, usize),
    locked: &mut SmallVec<[LockedShard<'k>; 1]>,
) -> Result<ExistingKeys<'k>, Busy> {
    let _multi_shard = keyspace.multi_shard()?;
    loop {
        let home = keyspace.home_of(db);
        let existing = lock_existing(keyspace, &[(home, keyspace.open_home(home)?)], part, None, locked)?;
        // SWAPDB may have come first.
        if keyspace.home_of(db) == home {
            return Ok(existing);
        }
        locked.clear();
    }
}

/// Locks the shards of all databases that may hold something.
fn lock_existing_of_all<'k>(
    keyspace: &'k Keyspace,
    locked: &mut SmallVec<[LockedShard<'k>; 1]>,
) -> Result<ExistingKeys<'k>, Busy> {
    let _multi_shard = keyspace.multi_shard()?;
    let creating = keyspace.creating()?;
    let homes: SmallVec<[(u32, &Database); 4]> = keyspace.used_homes().collect();
    lock_existing(keyspace, &homes, (0, usize::MAX), Some(creating), locked)
}

/// Locks the shards of some homes, ascending, that may hold something. The caller holds `multi_shard`, so whoever it waits for waits
/// for no shard.
fn lock_existing<'k>(
    keyspace: &'k Keyspace,
    homes: &[(u32, &'k Database)],
    (first, count): (usize, usize),
    creating: Option<MutexGuard<'k, ()>>,
    locked: &mut SmallVec<[LockedShard<'k>; 1]>,
) -> Result<ExistingKeys<'k>, Busy> {
    loop {
        let mut end = keyspace.shards();
        for &(home, database) in homes {
            let used = database.used_within(first..keyspace.shards());
            locked.reserve(if count == usize::MAX { used.clone().count() } else { 1 });
            let mut left = count;
            for shard in used {
                let at = match locked.last().map(|last| (last.home, last.index as usize)) {
                    Some(last) if last >= (home, shard) => {
                        locked.binary_search_by_key(&(home, shard as u32), |held| (held.home, held.index))
                    }
                    _ => Err(locked.len()),
                };
                let at = match at {
                    Ok(at) => at,
                    Err(at) => {
                        locked.insert(at, LockedShard::at_home(keyspace, home, shard)?);
                        at
                    }
                };
                // Of the first, some keys may be in front of the cursor.
                left -= if shard > first { left.min(locked[at].shard.len()) } else { 0 };
                if left == 0 {
                    end = shard + 1;
                    break;
                }
            }
        }
        // From here on nothing is waited for that waits itself.
        let growth = homes.iter().map(|(_, database)| database.stop_growth()).collect();
        let are_held = |(home, database): &(u32, &Database)| {
            let mut held = locked.iter().filter(|held| held.home == *home).map(|held| held.index as usize);
            database.used_within(first..end).all(|shard| held.any(|held| held == shard))
        };
        if homes.iter().all(are_held) {
            return Ok(ExistingKeys { _growth: growth, _creating: creating, end });
        }
    }
}

fn lock_everything<'k>(
    keyspace: &'k Keyspace,
    locked: &mut SmallVec<[LockedShard<'k>; 1]>,
) -> Result<MutexGuard<'k, ()>, Busy> {
    let creating = keyspace.creating()?;
    for (home, _) in keyspace.used_homes() {
        for shard in 0..keyspace.shards() {
            locked.push(LockedShard::at_home(keyspace, home, shard)?);
        }
    }
    Ok(creating)
}
