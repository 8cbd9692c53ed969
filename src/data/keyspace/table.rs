//! The hash table of one shard.
//!
//! It grows by three eighths and not to its double, so that it is never less than about two thirds full: at a million
//! keys, what is empty in a table costs as much as a key's header. Tags and slots of a group lie in one place, so that a
//! look-up usually reads two neighbouring cache lines. See `docs/decisions/0028-one-allocation-for-each-key.md`.

use smallvec::SmallVec;

use super::entry::Entry;
use super::store::hash_of;

/// The slots of a group, one for each byte of a word.
const GROUP: usize = 8;
/// The most slots of a group that are filled on average.
const LOAD: usize = 7;

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// The tag of a slot that no search passed since the table was built.
const EMPTY: u8 = 0;
/// The tag of a slot whose entry was removed while its group was full: searches go on to the next group.
const REMOVED: u8 = 1;

/// Eight slots. The tag of a full one has its highest bit set and seven bits of the hash.
#[derive(Default)]
struct Group {
    tags: [u8; GROUP],
    slots: [Option<Entry>; GROUP],
}

/// Entries by the hash of their keys. An entry is in the first group from its home on that had room when it came.
#[derive(Default)]
pub struct Table {
    groups: Box<[Group]>,
    len: usize,
    /// Slots that are full or were removed from a full group.
    used: usize,
}

/// The bits of a hash that tag a slot.
const TAG_SHIFT: u32 = 57;
/// The bits that homes are made of, and how many of the lowest ones a part of a hash leaves out.
const HOME_BITS: u32 = 32;
const LEFT_OUT: u32 = 17;

/// A part of a hash: the tag, and the higher bits of what a home is made of. Tables with fewer groups than these bits can
/// number search hardly more with it than with a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HashPart(u32);

impl HashPart {
    pub const BITS: u32 = u64::BITS - TAG_SHIFT + HOME_BITS - LEFT_OUT;

    #[inline]
    pub fn of(hash: u64) -> Self {
        let of_home = (hash as u32) >> LEFT_OUT;
        Self(((hash >> TAG_SHIFT) as u32) << (HOME_BITS - LEFT_OUT) | of_home)
    }

    pub fn from_bits(bits: u32) -> Self {
        Self(bits & ((1 << Self::BITS) - 1))
    }

    pub fn to_bits(self) -> u32 {
        self.0
    }

    /// The lowest and the highest hash with this part, but for the bits that neither tag nor home are made of.
    fn bounds(self) -> [u64; 2] {
        let tag = u64::from(self.0 >> (HOME_BITS - LEFT_OUT)) << TAG_SHIFT;
        let lowest = tag | u64::from(self.0 << LEFT_OUT);
        [lowest, lowest | ((1 << LEFT_OUT) - 1)]
    }
}

/// A slot's index; it names the same entry until the next insertion or removal.
#[derive(Clone, Copy)]
pub struct Slot(usize);

impl Group {
    #[inline]
    fn word(&self) -> u64 {
        u64::from_le_bytes(self.tags)
    }

    /// A bit for each slot that may have this tag. A false one is in a full slot.
    #[inline]
    fn candidates(&self, tag: u8) -> u64 {
        let difference = self.word() ^ (LOW * u64::from(tag));
        difference.wrapping_sub(LOW) & !difference & HIGH
    }

    #[inline]
    fn has_empty(&self) -> bool {
        self.word().wrapping_sub(LOW) & !self.word() & HIGH != 0
    }

    /// The first slot that is not full.
    #[inline]
    fn free(&self) -> Option<usize> {
        let free = !self.word() & HIGH;
        (free != 0).then(|| free.trailing_zeros() as usize / GROUP)
    }
}

/// The highest bits of the hash, which neither the shard's number nor the home is made of.
#[inline]
fn tag_of(hash: u64) -> u8 {
    (hash >> TAG_SHIFT) as u8 | 0x80
}

impl Table {
    pub fn len(&self) -> usize {
        self.len
    }

    /// The group where the search for a hash begins: its low half, scaled to the number of groups.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        (((hash & 0xffff_ffff) * self.groups.len() as u64) >> 32) as usize
    }

    /// The addresses of the group where the search for a hash begins: its start, and its last slot.
    #[inline]
    pub fn home_addresses(&self, hash: u64) -> [*const u8; 2] {
        let start = self.groups.as_ptr().wrapping_add(self.home(hash)).cast::<u8>();
        [start, start.wrapping_add(size_of::<Group>() - 1)]
    }

    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(&Entry) -> bool) -> Option<Slot> {
        let tag = tag_of(hash);
        let mut at = self.home(hash);
        // The table is never full, so the search ends at an empty slot; a table without groups has none.
        loop {
            let group = self.groups.get(at)?;
            let mut candidates = group.candidates(tag);
            while candidates != 0 {
                let place = candidates.trailing_zeros() as usize / GROUP;
                if group.slots[place].as_ref().is_some_and(&mut is_it) {
                    return Some(Slot(at * GROUP + place));
                }
                candidates &= candidates - 1;
            }
            if group.has_empty() {
                return None;
            }
            at += 1;
            if at == self.groups.len() {
                at = 0;
            }
        }
    }

    /// The slots of all entries that satisfy a predicate and whose hashes have this part.
    pub fn find_all(&self, part: HashPart, is_it: impl Fn(&Entry) -> bool) -> SmallVec<[Slot; 1]> {
        let bounds = part.bounds();
        let (tag, last) = (tag_of(bounds[0]), self.home(bounds[1]));
        let (mut at, mut found, mut is_past) = (self.home(bounds[0]), SmallVec::new(), false);
        while let Some(group) = self.groups.get(at) {
            let mut candidates = group.candidates(tag);
            while candidates != 0 {
                let place = candidates.trailing_zeros() as usize / GROUP;
                if group.slots[place].as_ref().is_some_and(&is_it) {
                    found.push(Slot(at * GROUP + place));
                }
                candidates &= candidates - 1;
            }
            is_past |= at == last;
            if is_past && group.has_empty() {
                break;
            }
            at = if at + 1 == self.groups.len() { 0 } else { at + 1 };
        }
        found
    }

    #[inline]
    pub fn get(&self, slot: Slot) -> Option<&Entry> {
        self.groups.get(slot.0 / GROUP)?.slots[slot.0 % GROUP].as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut Entry> {
        self.groups.get_mut(slot.0 / GROUP)?.slots[slot.0 % GROUP].as_mut()
    }

    /// Inserts an entry whose key is not in the table.
    #[inline]
    pub fn insert(&mut self, hash: u64, entry: Entry) {
        if self.used >= self.groups.len() * LOAD {
            self.rebuild(grown(self.len));
        }
        self.place(hash, entry);
    }

    #[inline]
    fn place(&mut self, hash: u64, entry: Entry) {
        let mut at = self.home(hash);
        loop {
            let group = &mut self.groups[at];
            if let Some(place) = group.free() {
                self.used += usize::from(group.tags[place] == EMPTY);
                self.len += 1;
                group.tags[place] = tag_of(hash);
                group.slots[place] = Some(entry);
                return;
            }
            at += 1;
            if at == self.groups.len() {
                at = 0;
            }
        }
    }

    pub fn remove(&mut self, slot: Slot) -> Option<Entry> {
        let group = self.groups.get_mut(slot.0 / GROUP)?;
        let place = slot.0 % GROUP;
        let entry = group.slots[place].take()?;
        // No search has passed a group that still has an empty slot.
        group.tags[place] = if group.has_empty() {
            self.used -= 1;
            EMPTY
        } else {
            REMOVED
        };
        self.len -= 1;
        Some(entry)
    }

    /// Releases the room of entries that were removed.
    pub fn shrink(&mut self) {
        // As it grows, there is some room behind its entries.
        if self.groups.len() > grown(self.len).div_ceil(LOAD) {
            self.rebuild(self.len);
        }
    }

    /// Moves all entries to a table for so many.
    #[cold]
    fn rebuild(&mut self, most: usize) {
        let groups = (0..most.div_ceil(LOAD)).map(|_| Group::default()).collect();
        let old = std::mem::replace(self, Self { groups, len: 0, used: 0 });
        for entry in old.groups.into_iter().flat_map(|group| group.slots).flatten() {
            self.place(hash_of(entry.key()), entry);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.groups.iter().flat_map(|group| group.slots.iter().flatten())
    }

    /// The full slots, from one on that `seed` selects.
    pub fn slots_from(&self, seed: u64) -> impl Iterator<Item = Slot> {
        let all = self.groups.len() * GROUP;
        let start = (seed % all.max(1) as u64) as usize;
        (start..all).chain(0..start).map(Slot).filter(|&slot| self.get(slot).is_some())
    }
}

/// For how many entries there is to be room when so many have filled the table.
fn grown(len: usize) -> usize {
    len + len * 3 / 8 + 1
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;
    use crate::data::keyspace::Usage;

    fn find(table: &Table, key: &[u8]) -> Option<Slot> {
        table.find(hash_of(key), |entry| entry.key() == key)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_table_has_exactly_what_was_inserted_and_not_removed(
            steps in prop::collection::vec((0..400u32, 0..3u8), 1..3000),
        ) {
            let (mut table, mut model) = (Table::default(), HashSet::new());
            for (number, step) in steps {
                let key = number.to_string().into_bytes();
                match (find(&table, &key), step) {
                    (None, 0 | 1) => {
                        prop_assert!(model.insert(key.clone()));
                        table.insert(hash_of(&key), Entry::string(&key, b"", None, Usage::default()));
                    }
                    (Some(slot), 2) => {
                        prop_assert!(model.remove(&key));
                        prop_assert_eq!(table.remove(slot).map(|entry| entry.key().to_vec()), Some(key));
                    }
                    (found, _) => prop_assert_eq!(found.is_some(), model.contains(&key)),
                }
                prop_assert_eq!(table.len(), model.len());
                prop_assert!(table.used <= table.groups.len() * LOAD);
            }
            for key in &model {
                let found = table.find_all(HashPart::of(hash_of(key)), |entry| entry.key() == key);
                prop_assert!(found.len() == 1 && table.get(found[0]).is_some_and(|entry| entry.key() == key));
            }
            table.shrink();
            let all: HashSet<_> = table.iter().map(|entry| entry.key().to_vec()).collect();
            prop_assert_eq!(&all, &model);
            prop_assert_eq!(table.slots_from(12345).count(), model.len());
        }
    }

    #[test]
    fn a_table_is_two_thirds_full_however_many_keys_there_are() {
        let mut table = Table::default();
        for number in 0..20_000_usize {
            let key = number.to_string();
            table.insert(hash_of(key.as_bytes()), Entry::string(key.as_bytes(), b"", None, Usage::default()));
            let slots = table.groups.len() * GROUP;
            assert!(number < 64 || slots * 3 < (number + 1) * 5, "{slots} slots for {number}");
        }
        assert_eq!(size_of::<Group>(), 9 * GROUP);
    }

    #[test]
    fn keys_that_come_and_go_do_not_make_a_table_grow() {
        let mut table = Table::default();
        for number in 0..100_000_u32 {
            let key = number.to_string();
            table.insert(hash_of(key.as_bytes()), Entry::string(key.as_bytes(), b"", None, Usage::default()));
            if let Some(old) = number.checked_sub(50) {
                let slot = find(&table, old.to_string().as_bytes()).unwrap();
                table.remove(slot).unwrap();
            }
        }
        assert!(table.groups.len() <= 16, "{} groups for 50 keys", table.groups.len());
    }
}
