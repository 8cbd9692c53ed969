//! The shards of one database, and the entries of a locked shard.

#![allow(unsafe_code)]

use std::hash::{BuildHasher, Hasher};
use std::sync::{Mutex, MutexGuard, TryLockError};

use arrayvec::ArrayVec;
use foldhash::fast::FixedState;

use super::deadlines::Row;
use super::entry::Entry;
use super::point_in_time::{Copies, Plan, Progress};
pub use super::table::Slot;
use super::table::Table;
use super::usage::Usage;

/// The number of shards of a database, as a power of two. Fixed, so that nothing (the order of KEYS, a SCAN cursor,
/// which keys share a lock) depends on the machine.
pub const MANY_SHARDS: u32 = 10;
/// The same for a small keyspace, where many shards would take most of the memory.
pub const FEW_SHARDS: u32 = 4;
/// Arbitrary and fixed in every process, so that a failed test fails the same way again.
const SEED: u64 = 0x7265_646f_7562_6c65;

/// The hash of a key, the same for every server.
#[inline]
pub fn hash_of(key: &[u8]) -> u64 {
    let mut hasher = FixedState::with_seed(SEED).build_hasher();
    hasher.write(key);
    hasher.finish()
}

/// The shard of a key with this hash; `shift` leaves the bits of a shard's number.
#[inline]
pub fn shard_of(hash: u64, shift: u32) -> usize {
    (hash_order(hash) >> shift) as usize
}

/// A hash as a number by which shards ascend. The seven highest bits tag the slots inside a table; the shard is in the bits
/// below them.
#[inline]
fn hash_order(hash: u64) -> u64 {
    hash.rotate_left(7)
}

/// The bits of a position in SCAN's order, and so of a cursor. Clients keep cursors in signed integers of 32 bits, in
/// doubles, or in Lua's numbers, which are written with 14 digits.
pub const SCAN_BITS: u32 = 31;

/// The position of a key in SCAN's order: by shard, then by hash. It never changes. Few keys share one.
#[inline]
pub fn scan_position(hash: u64) -> u64 {
    hash_order(hash) >> (u64::BITS - SCAN_BITS)
}

/// One database's keys, in shards.
pub struct Store {
    shards: Box<[Mutex<Content>]>,
}

/// The content of a shard.
#[derive(Default)]
struct Content {
    table: Table,
    /// The copies of a point in time that are being made of it.
    copies: Option<Box<Copies>>,
}

impl Content {
    /// An entry is about to be changed or removed: those that copy the shard get it as it is.
    #[cold]
    fn keep(&mut self, slot: Slot) {
        if let Some(entry) = self.table.get(slot) {
            self.copies.take_if(|copies| !copies.keep(entry));
        }
    }

    /// A key is about to come into being, which is not to be copied.
    #[cold]
    fn pass_over(&mut self, key: &[u8]) {
        self.copies.take_if(|copies| !copies.pass_over(key));
    }
}

impl Store {
    pub fn new(shards: usize) -> Self {
        Self { shards: (0..shards).map(|_| Mutex::default()).collect() }
    }

    /// The number of shards.
    pub fn len(&self) -> usize {
        self.shards.len()
    }

    /// Locks a shard, unless another view holds it.
    #[inline]
    pub fn try_lock(&self, index: usize) -> Option<Shard<'_>> {
        match self.shards[index].try_lock() {
            Ok(content) => Some(Shard { content }),
            Err(TryLockError::Poisoned(poisoned)) => Some(Shard { content: poisoned.into_inner() }),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The most look-ups that are prefetched at once.
const AHEAD: usize = 32;

impl Store {
    /// Prefetches the memory that look-ups of these hashes will read: first the start of each search, then the entry that is
    /// most likely compared. Skips shards that are locked.
    pub fn fetch_ahead(&self, hashes: &[u64], shift: u32) {
        for hashes in hashes.chunks(AHEAD) {
            // The locks come first: another thread may have written to their cache lines.
            for &hash in hashes {
                fetch((&raw const self.shards[shard_of(hash, shift)]).cast());
            }
            // These locks are only tried, so holding several cannot deadlock.
            let mut locked: ArrayVec<_, AHEAD> = ArrayVec::new();
            for &hash in hashes {
                if let Some(shard) = self.try_lock(shard_of(hash, shift)) {
                    shard.content.table.home_addresses(hash).into_iter().for_each(fetch);
                    locked.push((hash, shard));
                }
            }
            for (hash, shard) in &locked {
                shard.content.table.find(*hash, |entry| {
                    let start = entry.address();
                    fetch(start);
                    fetch(start.wrapping_add(64));
                    true
                });
            }
        }
    }
}

/// Asks the processor to load a cache line. A hint: it reads nothing, and any address will do.
#[inline]
pub(super) fn fetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults and changes nothing a program can see, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// A locked shard.
pub struct Shard<'k> {
    content: MutexGuard<'k, Content>,
}

/// All entries of a shard, moved out.
#[derive(Default)]
pub struct Contents(Table);

impl Contents {
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter()
    }
}

impl Shard<'_> {
    #[inline]
    pub fn find(&self, hash: u64, key: &[u8]) -> Option<Slot> {
        // Most likely the entry is in the first group, whose lines are fetched at once.
        self.content.table.home_addresses(hash).into_iter().for_each(fetch);
        self.content.table.find(hash, |entry| entry.is_of(key))
    }

    #[inline]
    pub fn entry(&self, slot: Slot) -> &Entry {
        match self.content.table.get(slot) {
            Some(entry) => entry,
            None => unreachable!("{STALE}"),
        }
    }

    /// An entry that is about to be changed.
    #[inline]
    pub fn entry_mut(&mut self, slot: Slot) -> &mut Entry {
        if self.content.copies.is_some() {
            self.content.keep(slot);
        }
        match self.content.table.get_mut(slot) {
            Some(entry) => entry,
            None => unreachable!("{STALE}"),
        }
    }

    /// Notes how much an entry is used, which is no change of it.
    #[inline]
    pub fn set_usage(&mut self, slot: Slot, usage: Usage) -> &Entry {
        match self.content.table.get_mut(slot) {
            Some(entry) => {
                entry.set_usage(usage);
                entry
            }
            None => unreachable!("{STALE}"),
        }
    }

    #[inline]
    pub fn insert(&mut self, hash: u64, entry: Entry) {
        if self.content.copies.is_some() {
            self.content.pass_over(entry.key());
        }
        self.content.table.insert(hash, entry);
    }

    pub fn remove(&mut self, slot: Slot) -> Entry {
        if self.content.copies.is_some() {
            self.content.keep(slot);
        }
        match self.content.table.remove(slot) {
            Some(entry) => entry,
            None => unreachable!("{STALE}"),
        }
    }

    /// Finds an entry by its hash and a predicate.
    pub fn find_by(&self, hash: u64, is_it: impl FnMut(&Entry) -> bool) -> Option<Slot> {
        self.content.table.find(hash, is_it)
    }

    /// The entries that a row is about: none if it is stale, and more than one if their hashes are similar.
    pub fn find_expiring(&self, row: Row) -> impl Iterator<Item = &Entry> {
        let is_meant = |entry: &Entry| entry.due().first() == Some(row.deadline);
        self.content.table.find_all(row.hash, is_meant).into_iter().map(|slot| self.entry(slot))
    }

    /// A full slot; the search begins at one that `seed` selects.
    pub fn any_slot(&self, seed: u64) -> Option<Slot> {
        self.content.table.slots_from(seed).next()
    }

    /// All entries, from a slot on that `seed` selects.
    pub fn iter_from(&self, seed: u64) -> impl Iterator<Item = &Entry> {
        self.content.table.slots_from(seed).map(|slot| self.entry(slot))
    }

    pub fn len(&self) -> usize {
        self.content.table.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.content.table.iter()
    }

    pub fn take(&mut self) -> Contents {
        let Content { table, copies } = std::mem::take(&mut *self.content);
        match copies {
            None => Contents(table),
            Some(copies) => copies.hand_over(Contents(table)),
        }
    }

    /// Begins one more copy.
    pub fn add_copy(&mut self, progress: Progress) {
        self.content.copies.get_or_insert_default().add(progress);
    }

    /// How far a copy is, which goes on without the shard.
    pub fn take_copy(&mut self, of: &Plan) -> Option<Progress> {
        let found = self.content.copies.as_mut()?.take(of);
        self.content.copies.take_if(|copies| copies.is_empty());
        found
    }

    /// Gives back the room of entries that were removed.
    pub fn shrink(&mut self) {
        self.content.table.shrink();
    }
}

const STALE: &str = "a slot outlived its entry";
