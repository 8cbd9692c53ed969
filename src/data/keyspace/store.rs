//! The only file that uses dashmap: the shards of one database, and the entries of a locked shard.

#![allow(unsafe_code)]

use std::hash::{BuildHasher, Hash, Hasher};

use arrayvec::ArrayVec;
use dashmap::{DashMap, RwLockWriteGuard, SharedValue};
use foldhash::fast::FixedState;
use hashbrown::raw::RawTable;

use super::entry::Entry;

/// The number of shards of a database, as a power of two. Fixed, so that nothing (the order of KEYS, a SCAN cursor,
/// which keys share a lock) depends on the machine.
pub const MANY_SHARDS: u32 = 10;
/// The same for a small keyspace, where many shards would take most of the memory.
pub const FEW_SHARDS: u32 = 4;
/// Arbitrary and fixed in every process, so that a failed test fails the same way again.
const SEED: u64 = 0x7265_646f_7562_6c65;

type Table = RawTable<(Entry, SharedValue<()>)>;

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}

impl Hash for Entry {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.key());
    }
}

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

/// A hash as a number by which shards ascend. The seven highest bits tag the slots inside a table; dashmap takes the
/// shard from the bits below them.
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
    map: DashMap<Entry, (), FixedState>,
}

impl Store {
    pub fn new(shards: usize) -> Self {
        Self { map: DashMap::with_hasher_and_shard_amount(FixedState::with_seed(SEED), shards) }
    }

    /// Locks a shard, unless another view holds it.
    #[inline]
    pub fn try_lock(&self, index: usize) -> Option<Shard<'_>> {
        Some(Shard { table: self.map.shards()[index].try_write()? })
    }
}

/// The most look-ups that are prefetched at once.
const AHEAD: usize = 32;

impl Store {
    /// Prefetches the memory that look-ups of these hashes will read: first the start of each probe sequence, then the
    /// entry that is most likely compared. Skips shards that are locked for writing.
    pub fn fetch_ahead(&self, hashes: &[u64], shift: u32) {
        for hashes in hashes.chunks(AHEAD) {
            // The locks come first: another thread may have written to their cache lines.
            for &hash in hashes {
                fetch((&raw const self.map.shards()[shard_of(hash, shift)]).cast());
            }
            // These are read locks that are only tried, so holding several cannot deadlock.
            let mut tables: ArrayVec<_, AHEAD> = ArrayVec::new();
            for &hash in hashes {
                if let Some(table) = self.map.shards()[shard_of(hash, shift)].try_read() {
                    fetch_start(&table, hash);
                    tables.push((hash, table));
                }
            }
            for (hash, table) in &tables {
                table.find(*hash, |(entry, _)| {
                    let start = entry.address();
                    fetch(start);
                    fetch(start.wrapping_add(64));
                    true
                });
            }
        }
    }
}

/// Prefetches the tag and the slot at the start of a hash's probe sequence.
#[inline]
fn fetch_start(table: &Table, hash: u64) {
    let index = hash as usize & (table.buckets() - 1);
    let end = table.data_end().as_ptr();
    // Tags are behind the table's end, slots in front of it, in reverse.
    fetch(end.cast::<u8>().wrapping_add(index));
    fetch(end.wrapping_sub(index + 1).cast());
}

/// Asks the processor to load a cache line. A hint: it reads nothing, and any address will do.
#[inline]
fn fetch(address: *const u8) {
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
    table: RwLockWriteGuard<'k, Table>,
}

/// The slot of an entry in its shard; valid until an insertion or a removal.
#[derive(Clone, Copy)]
pub struct Slot(usize);

/// All entries of a shard, moved out.
pub struct Contents(#[expect(dead_code, reason = "kept only to be dropped after the locks are")] Table);

impl Shard<'_> {
    #[inline]
    pub fn find(&self, hash: u64, key: &[u8]) -> Option<Slot> {
        // The slot is known only after the tag is read. Most likely it is the first one, so both are prefetched at
        // once.
        fetch_start(&self.table, hash);
        let bucket = self.table.find(hash, |(entry, _)| entry.key() == key)?;
        // SAFETY: `find` returned a bucket of this very table, which nothing has touched since.
        Some(Slot(unsafe { self.table.bucket_index(&bucket) }))
    }

    #[inline]
    fn is_full(&self, slot: Slot) -> bool {
        // SAFETY: the index is below the number of buckets, which is all that is asked for.
        slot.0 < self.table.buckets() && unsafe { self.table.is_bucket_full(slot.0) }
    }

    #[inline]
    pub fn entry(&self, slot: Slot) -> &Entry {
        assert!(self.is_full(slot), "a slot outlived its entry");
        // SAFETY: the bucket is full, and the borrow of `self` keeps the table as it is while the entry is looked at.
        unsafe { &self.table.bucket(slot.0).as_ref().0 }
    }

    #[inline]
    pub fn entry_mut(&mut self, slot: Slot) -> &mut Entry {
        assert!(self.is_full(slot), "a slot outlived its entry");
        // SAFETY: the bucket is full, and the exclusive borrow of `self` makes this the only reference into the table.
        unsafe { &mut self.table.bucket(slot.0).as_mut().0 }
    }

    #[inline]
    pub fn insert(&mut self, hash: u64, entry: Entry) {
        self.table.insert(hash, (entry, SharedValue::new(())), |(entry, _)| hash_of(entry.key()));
    }

    pub fn remove(&mut self, slot: Slot) -> Entry {
        assert!(self.is_full(slot), "a slot outlived its entry");
        // SAFETY: the bucket is full, so it holds an entry that can be moved out.
        let ((entry, _), _) = unsafe {
            let bucket = self.table.bucket(slot.0);
            self.table.remove(bucket)
        };
        entry
    }

    /// Finds an entry by its hash and a predicate.
    pub fn find_by(&self, hash: u64, mut is_it: impl FnMut(&Entry) -> bool) -> Option<Slot> {
        let bucket = self.table.find(hash, |(entry, _)| is_it(entry))?;
        // SAFETY: as in `find`.
        Some(Slot(unsafe { self.table.bucket_index(&bucket) }))
    }

    /// A full slot; the search begins at one that `seed` selects.
    pub fn any_slot(&self, seed: u64) -> Option<Slot> {
        let buckets = self.table.buckets();
        let start = (seed % buckets as u64) as usize;
        (0..buckets).map(|step| Slot((start + step) % buckets)).find(|&slot| self.is_full(slot))
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        // SAFETY: the borrow of `self` outlives the iterator and its items, so the table does not change.
        unsafe { self.table.iter().map(|bucket| &bucket.as_ref().0) }
    }

    pub fn take(&mut self) -> Contents {
        Contents(std::mem::replace(&mut *self.table, Table::new()))
    }

    /// Gives back the room of entries that were removed.
    pub fn shrink(&mut self) {
        self.table.shrink_to(0, |(entry, _)| hash_of(entry.key()));
    }

    pub fn swap(&mut self, other: &mut Shard<'_>) {
        std::mem::swap(&mut *self.table, &mut *other.table);
    }
}
