//! The index of each item of a sequence, found by the hash of its key.

use std::array;

use hashbrown::HashTable;

/// A table with more items than this is divided. To grow, a table looks all its keys up again, which takes some 150 ns each
/// where they are in no cache, and all clients wait for that.
const UNDIVIDED: usize = 28 << 10;
/// Into how many parts: each of a million items has 4,000, which takes less than a millisecond.
const PARTS: usize = 256;
/// A part that has room for more is shrunk once an eighth of it is used.
const FEW: usize = 28;

/// Indexes by hash. A hash function is given where the table may have to be built anew: it gets an index.
#[derive(Clone)]
pub(super) enum Places {
    One(HashTable<u32>),
    Many(Box<Parts>),
}

#[derive(Clone)]
pub(super) struct Parts {
    parts: [HashTable<u32>; PARTS],
    /// For how many indexes all of them have room.
    room: usize,
}

impl Places {
    pub fn new() -> Self {
        Self::One(HashTable::new())
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::One(table) => table.is_empty(),
            // What is divided is made one before it is empty.
            Self::Many(_) => false,
        }
    }

    #[inline]
    pub fn find(&self, hash: u64, is_it: impl FnMut(&u32) -> bool) -> Option<&u32> {
        match self {
            Self::One(table) => table.find(hash, is_it),
            Self::Many(many) => many.parts[part_of(hash)].find(hash, is_it),
        }
    }

    #[inline]
    pub fn find_mut(&mut self, hash: u64, is_it: impl FnMut(&u32) -> bool) -> Option<&mut u32> {
        match self {
            Self::One(table) => table.find_mut(hash, is_it),
            Self::Many(many) => many.parts[part_of(hash)].find_mut(hash, is_it),
        }
    }

    /// Adds the index of an item whose key is new.
    #[inline]
    pub fn insert(&mut self, hash: u64, place: u32, hash_of: impl Fn(&u32) -> u64) {
        if let Self::One(table) = self {
            if table.len() < table.capacity() || table.len() < UNDIVIDED {
                table.insert_unique(hash, place, hash_of);
                return;
            }
            let room = table.len();
            self.divide(room, &hash_of);
        }
        if let Self::Many(many) = self {
            many.change(part_of(hash), |part| _ = part.insert_unique(hash, place, hash_of));
        }
    }

    pub fn remove(&mut self, hash: u64, is_it: impl FnMut(&u32) -> bool, hash_of: impl Fn(&u32) -> u64) {
        match self {
            Self::One(table) => _ = table.find_entry(hash, is_it).map(|found| found.remove()),
            Self::Many(many) => many.change(part_of(hash), |part| {
                let Ok(found) = part.find_entry(hash, is_it) else { return };
                found.remove();
                if part.len() * 8 < part.capacity() && part.capacity() > FEW {
                    part.shrink_to(part.len() * 2, hash_of);
                }
            }),
        }
    }

    /// Makes room for so many more.
    pub fn reserve(&mut self, more: usize, hash_of: impl Fn(&u32) -> u64) {
        if let Self::One(table) = self {
            let all = table.len() + more;
            if all <= UNDIVIDED {
                return table.reserve(more, hash_of);
            }
            self.divide(all, &hash_of);
        }
        if let Self::Many(many) = self {
            (0..PARTS).for_each(|at| many.change(at, |part| part.reserve(more / PARTS, &hash_of)));
        }
    }

    /// Releases most of the memory that removed items leave unused; there are so many left. Parts have done so themselves.
    pub fn shrink(&mut self, len: usize, hash_of: impl Fn(&u32) -> u64) {
        match self {
            Self::One(table) => table.shrink_to(len * 2, hash_of),
            Self::Many(many) if len < UNDIVIDED / 2 => {
                let mut table = HashTable::with_capacity(len);
                for &place in many.parts.iter().flatten() {
                    table.insert_unique(hash_of(&place), place, &hash_of);
                }
                *self = Self::One(table);
            }
            Self::Many(_) => {}
        }
    }

    /// Divides the one table, and makes room for so many.
    #[cold]
    fn divide(&mut self, room: usize, hash_of: impl Fn(&u32) -> u64) {
        let Self::One(table) = self else { return };
        let mut parts = array::from_fn(|_| HashTable::with_capacity(room / PARTS));
        for &place in &*table {
            let hash = hash_of(&place);
            parts[part_of(hash)].insert_unique(hash, place, &hash_of);
        }
        let room = parts.iter().map(HashTable::capacity).sum();
        *self = Self::Many(Box::new(Parts { parts, room }));
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut u32> {
        let tables = match self {
            Self::One(table) => std::slice::from_mut(table),
            Self::Many(many) => many.parts.as_mut_slice(),
        };
        tables.iter_mut().flatten()
    }

    /// The memory outside itself, in bytes: each slot has a byte beside it.
    pub fn size(&self) -> usize {
        let (own, room) = match self {
            Self::One(table) => (0, table.capacity()),
            Self::Many(many) => (size_of::<Parts>(), many.room),
        };
        own + room * (size_of::<u32>() + 1)
    }
}

impl Parts {
    #[inline]
    fn change(&mut self, at: usize, change: impl FnOnce(&mut HashTable<u32>)) {
        let part = &mut self.parts[at];
        self.room -= part.capacity();
        change(part);
        self.room += part.capacity();
    }
}

/// The part of a hash. A table takes the slot from the lowest bits and the tag from the seven highest ones.
fn part_of(hash: u64) -> usize {
    (hash >> 48) as usize % PARTS
}
