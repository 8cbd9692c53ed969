//! An indexed sequence of items with unique keys: the members of a set, the fields of a hash.

mod numbers;
mod places;

use std::hash::{BuildHasher, Hasher};
use std::hint::black_box;

use foldhash::fast::FixedState;

use super::store::fetch;
use numbers::Numbers;
use places::Places;

/// Arbitrary and fixed: every process computes the same hashes.
const SEED: u64 = 0x6d65_6d62_6572_7321;

/// Up to this many items are searched linearly, without a table.
const FEW: usize = 16;

/// An item with a key.
pub trait Keyed {
    fn key(&self) -> &[u8];

    /// The item's memory outside itself, in bytes.
    fn outside(&self) -> usize;
}

/// Items in insertion order. A removal from an ordered sequence shifts the items behind it. Otherwise the last item
/// takes the free place, which takes constant time.
pub struct Indexed<T> {
    order: Vec<T>,
    /// The index of each item; empty while there are few.
    places: Places,
    removal: Removal,
}

/// What a removal does to the items behind. Each variant has the memory outside the items, in bytes, so that the three
/// take no more room than a number and a flag.
#[derive(Clone)]
enum Removal {
    /// They move up.
    Shift(usize),
    /// The last one takes the free place.
    Swap(usize),
    /// As `Swap`, and the last one keeps its number for the iterations that are on their way.
    SwapNumbered(Box<(usize, Numbers)>),
}

impl<T: Keyed + Clone> Clone for Indexed<T> {
    fn clone(&self) -> Self {
        let order = self.order.clone();
        // A clone of an item can take less memory than the item.
        let outside = order.iter().map(T::outside).sum();
        let mut clone = Self { order, places: self.places.clone(), removal: self.removal.clone() };
        *clone.outside_mut() = outside;
        clone
    }
}

impl<T: Keyed> Indexed<T> {
    pub fn new(ordered: bool) -> Self {
        let removal = if ordered { Removal::Shift(0) } else { Removal::Swap(0) };
        Self { order: Vec::new(), places: Places::new(), removal }
    }

    pub fn is_ordered(&self) -> bool {
        matches!(self.removal, Removal::Shift(_))
    }

    /// Sets whether removals keep the order.
    pub fn set_ordered(&mut self, ordered: bool) {
        if ordered != self.is_ordered() {
            let outside = self.outside();
            self.removal = if ordered { Removal::Shift(outside) } else { Removal::Swap(outside) };
        }
    }

    fn outside(&self) -> usize {
        match &self.removal {
            Removal::Shift(outside) | Removal::Swap(outside) => *outside,
            Removal::SwapNumbered(numbered) => numbered.0,
        }
    }

    #[inline]
    fn outside_mut(&mut self) -> &mut usize {
        match &mut self.removal {
            Removal::Shift(outside) | Removal::Swap(outside) => outside,
            Removal::SwapNumbered(numbered) => &mut numbered.0,
        }
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    pub fn get(&self, place: usize) -> Option<&T> {
        self.order.get(place)
    }

    pub fn as_slice(&self) -> &[T] {
        &self.order
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> + DoubleEndedIterator + Clone {
        self.order.iter()
    }

    /// Prepares for a step of [`walk`](Self::walk). The first one that leaves items for later begins to number them.
    pub fn prepare_walk(&mut self, count: usize) {
        if let Removal::Swap(outside) = self.removal
            && self.order.len() > count
        {
            self.removal = Removal::SwapNumbered(Box::new((outside, Numbers::default())));
        }
    }

    /// One step of an iteration from the last number to the first. Returns the cursor for the next step, below which
    /// all numbers are left, and the items of this step, at most `count`. Begin with 0; 0 is the end, too. An ordered
    /// sequence is returned in one step.
    ///
    /// An item that stays during the whole iteration is visited exactly once, because it keeps its number.
    pub fn walk(&self, left: u64, count: usize) -> (u64, impl Iterator<Item = &T>) {
        let all = self.order.len();
        let (next, range, picked) = match &self.removal {
            Removal::Shift(_) => (0, 0..all, Vec::new()),
            Removal::SwapNumbered(numbered) if !numbered.1.is_trivial() => {
                let (next, picked) = numbered.1.walk(all, left, count);
                (next, 0..0, picked)
            }
            Removal::Swap(_) | Removal::SwapNumbered(_) => {
                let end = usize::try_from(left).map_or(all, |left| if left == 0 { all } else { left.min(all) });
                let start = end.saturating_sub(count.max(1));
                (start as u64, start..end, Vec::new())
            }
        };
        let picked = picked.into_iter().filter_map(|place| self.order.get(place as usize));
        (next, self.order[range].iter().chain(picked))
    }

    /// The index of an item.
    pub fn find(&self, key: &[u8]) -> Option<usize> {
        if self.places.is_empty() {
            return self.order.iter().position(|item| item.key() == key);
        }
        let place = self.places.find(hash_of(key), |&place| self.order[place as usize].key() == key)?;
        Some(*place as usize)
    }

    /// Prefetches items by their places.
    pub fn fetch_items(&self, places: impl Iterator<Item = usize>) {
        places.filter_map(|place| self.order.get(place)).for_each(|item| fetch((&raw const *item).cast()));
    }

    /// Loads the part of the table that a removal of these items will read. The look-ups do not depend on each other, so the
    /// processor waits for all of them at once. Their items are prefetched before.
    pub fn load_places(&self, places: impl Iterator<Item = usize>) {
        for place in places {
            let Some(item) = self.order.get(place) else { continue };
            black_box(self.places.find(hash_of(item.key()), |&at| at as usize == place));
        }
    }

    /// Appends an item with a new key.
    pub fn push(&mut self, item: T) {
        let place = self.order.len();
        *self.outside_mut() += item.outside();
        self.order.push(item);
        if let Removal::SwapNumbered(numbered) = &mut self.removal {
            numbered.1.push(place as u32);
        }
        if !self.places.is_empty() {
            self.enter(place);
        } else if place >= FEW {
            (0..=place).for_each(|place| self.enter(place));
        }
    }

    /// Makes room for so many items, which are about to be pushed: growing step by step looks all keys up again at each step.
    pub fn reserve(&mut self, more: usize) {
        self.order.reserve_exact(more);
        if more > FEW {
            let order = &self.order;
            self.places.reserve(more, |place| hash_of(order[*place as usize].key()));
        }
    }

    fn enter(&mut self, place: usize) {
        let order = &self.order;
        self.places.insert(hash_of(order[place].key()), place as u32, |at| hash_of(order[*at as usize].key()));
    }

    /// An item to change, but for its key and its memory.
    pub fn alter(&mut self, place: usize) -> &mut T {
        &mut self.order[place]
    }

    /// Changes an item, but for its key.
    pub fn update(&mut self, place: usize, change: impl FnOnce(&mut T)) {
        let item = &mut self.order[place];
        let before = item.outside();
        change(item);
        let after = item.outside();
        let outside = self.outside_mut();
        *outside += after;
        *outside -= before;
    }

    /// Inserts an item with a new key into an ordered sequence.
    pub fn insert(&mut self, place: usize, item: T) {
        let item_hash = hash_of(item.key());
        *self.outside_mut() += item.outside();
        self.order.insert(place, item);
        if !self.places.is_empty() {
            self.places.iter_mut().filter(|at| **at as usize >= place).for_each(|at| *at += 1);
            let order = &self.order;
            self.places.insert(item_hash, place as u32, |at| hash_of(order[*at as usize].key()));
        } else if self.order.len() > FEW {
            (0..self.order.len()).for_each(|place| self.enter(place));
        }
    }

    /// Removes an item. In an unordered sequence, the last item takes its index.
    pub fn remove(&mut self, place: usize) -> T {
        if !self.places.is_empty() {
            self.leave(place);
        }
        let item = if self.is_ordered() { self.order.remove(place) } else { self.order.swap_remove(place) };
        *self.outside_mut() -= item.outside();
        if let Removal::SwapNumbered(numbered) = &mut self.removal {
            numbered.1.swap_remove(place as u32, self.order.len() as u32);
        }
        if self.order.len() * 4 < self.order.capacity() && self.order.capacity() > FEW {
            self.shrink();
        }
        item
    }

    /// Replaces an item by a hole that no look-up finds.
    pub fn vacate(&mut self, place: usize, hole: T) -> T {
        self.take_out(place);
        self.exchange(place, hole)
    }

    /// Replaces a hole by an item with a new key.
    pub fn occupy(&mut self, place: usize, item: T) {
        self.exchange(place, item);
        self.enter(place);
    }

    fn exchange(&mut self, place: usize, item: T) -> T {
        *self.outside_mut() += item.outside();
        let old = std::mem::replace(&mut self.order[place], item);
        *self.outside_mut() -= old.outside();
        old
    }

    /// Releases most of the memory that removed items leave unused.
    #[cold]
    fn shrink(&mut self) {
        let order = &mut self.order;
        order.shrink_to(order.len() * 2);
        self.places.shrink(order.len(), |place| hash_of(order[*place as usize].key()));
    }

    /// Takes the index of an item out of the table.
    fn take_out(&mut self, place: usize) {
        let order = &self.order;
        let is_it = |at: &u32| *at as usize == place;
        self.places.remove(hash_of(order[place].key()), is_it, |at| hash_of(order[*at as usize].key()));
    }

    fn leave(&mut self, place: usize) {
        self.take_out(place);
        let order = &self.order;
        if self.is_ordered() {
            self.places.iter_mut().filter(|behind| **behind as usize > place).for_each(|behind| *behind -= 1);
            return;
        }
        let last = order.len() - 1;
        if place != last
            && let Some(moved) = self.places.find_mut(hash_of(order[last].key()), |&at| at as usize == last)
        {
            *moved = place as u32;
        }
    }

    /// The memory outside itself, in bytes.
    pub fn size(&self) -> usize {
        let numbers = match &self.removal {
            Removal::SwapNumbered(numbered) => size_of_val(&**numbered) + numbered.1.size(),
            Removal::Shift(_) | Removal::Swap(_) => 0,
        };
        numbers + self.outside() + self.order.capacity() * size_of::<T>() + self.places.size()
    }
}

fn hash_of(key: &[u8]) -> u64 {
    let mut hasher = FixedState::with_seed(SEED).build_hasher();
    hasher.write(key);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    impl Keyed for Vec<u8> {
        fn key(&self) -> &[u8] {
            self
        }

        fn outside(&self) -> usize {
            self.capacity()
        }
    }

    fn named(name: &str, number: u32) -> Vec<u8> {
        format!("{name}:{number}").into_bytes()
    }

    #[test]
    fn the_numbers_of_a_scan_take_no_room_in_what_is_not_scanned() {
        let flag = size_of::<usize>();
        let parts = size_of::<Vec<u32>>() + 4 * size_of::<usize>() + size_of::<usize>();
        assert_eq!(size_of::<Indexed<Vec<u8>>>(), parts + flag);
        let mut items = Indexed::new(false);
        (0..100).for_each(|number| items.push(named("item", number)));
        let size = items.size();
        items.prepare_walk(100);
        assert_eq!(items.size(), size, "nothing is left for later");
        items.prepare_walk(10);
        assert!(items.size() > size && items.size() < size + 100);
    }

    #[test]
    fn a_sequence_of_many_items_finds_each_while_its_table_is_divided_and_made_one_again() {
        const MANY: u32 = 100_000;
        let mut items = Indexed::new(false);
        (0..MANY).for_each(|number| items.push(named("item", number)));
        let found = |items: &Indexed<Vec<u8>>, numbers: std::ops::Range<u32>| {
            let found = |number: &u32| {
                let place = items.find(&named("item", *number));
                place.is_some_and(|place| items.get(place) == Some(&named("item", *number)))
            };
            numbers.filter(found).count() as u32
        };
        assert!(matches!(items.places, Places::Many(_)));
        assert_eq!((found(&items, 0..MANY), found(&items, MANY..2 * MANY)), (MANY, 0));
        let (whole, mut copy) = (items.size(), items.clone());
        let mut reserved = Indexed::new(false);
        reserved.reserve(MANY as usize);
        (0..MANY).for_each(|number| reserved.push(named("item", number)));
        assert_eq!(found(&reserved, 0..MANY), MANY);
        assert!(reserved.size() <= whole);
        for left in [MANY / 2, 20_000, 10_000, 1_000, 10] {
            while copy.len() > left as usize {
                let last = copy.len() as u32 - 1;
                let place = copy.find(&named("item", last)).expect("it is there");
                copy.remove(place);
            }
            assert_eq!(found(&copy, 0..MANY), left);
            assert_eq!(matches!(copy.places, Places::Many(_)), left >= 20_000);
            assert!(copy.size() < 80 * (left as usize + 60) * 2);
        }
        assert_eq!((found(&items, 0..MANY), items.size()), (MANY, whole));
        (MANY..2 * MANY).for_each(|number| items.push(named("item", number)));
        assert_eq!(found(&items, 0..2 * MANY), 2 * MANY);
    }

    proptest! {
        #[test]
        fn what_stays_is_met_exactly_once_on_a_walk_while_others_come_and_go(
            stay in 0..300u32,
            early in 0..300u32,
            steps in prop::collection::vec((1..40usize, prop::collection::vec((any::<bool>(), 0..600u32), 0..60)), 1..60),
        ) {
            let mut items = Indexed::new(false);
            let mut passing = BTreeSet::new();
            for number in 0..stay.max(early) {
                if number < early {
                    items.push(named("passes", number));
                    passing.insert(number);
                }
                if number < stay {
                    items.push(named("stays", number));
                }
            }
            let mut met: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
            let mut left = 0;
            for (count, changes) in steps.iter().cycle() {
                items.prepare_walk(*count);
                let (next, passed) = items.walk(left, *count);
                passed.for_each(|item| *met.entry(item.clone()).or_default() += 1);
                left = next;
                if left == 0 {
                    break;
                }
                for &(add, number) in changes {
                    let item = named("passes", number);
                    if add && passing.insert(number) {
                        items.push(item);
                    } else if !add && passing.remove(&number) {
                        let place = items.find(&item).unwrap();
                        prop_assert_eq!(items.remove(place), item);
                    }
                }
            }
            for number in 0..stay {
                prop_assert_eq!(met.get(&named("stays", number)), Some(&1), "{}", number);
            }
        }

        #[test]
        fn what_is_in_order_stays_in_it(steps in prop::collection::vec((0..4u8, 0..40u32), 0..300), ordered in any::<bool>()) {
            let mut items = Indexed::new(ordered);
            let mut model: Vec<Vec<u8>> = Vec::new();
            for (step, number) in steps {
                let item = named("item", number);
                let place = model.iter().position(|other| *other == item);
                prop_assert_eq!(items.find(&item).is_some(), place.is_some());
                match (step, place) {
                    (0, Some(_)) => {
                        let place = items.find(&item).unwrap();
                        items.remove(place);
                        model.retain(|other| *other != item);
                    }
                    (1, None) => {
                        items.push(item.clone());
                        model.push(item);
                    }
                    (2, Some(_)) => {
                        let place = items.find(&item).unwrap();
                        items.update(place, |item| item.reserve(40));
                        if number % 8 == 0 {
                            items = items.clone();
                        }
                    }
                    (3, None) if ordered => {
                        let place = number as usize % (model.len() + 1);
                        items.insert(place, item.clone());
                        model.insert(place, item);
                    }
                    _ => {}
                }
                prop_assert_eq!(items.outside(), items.iter().map(Vec::capacity).sum::<usize>());
                if step == 0 && number == 0 {
                    items = items.clone();
                    prop_assert_eq!(items.outside(), items.iter().map(Vec::capacity).sum::<usize>());
                }
            }
            let listed: Vec<Vec<u8>> = items.iter().cloned().collect();
            if ordered {
                prop_assert_eq!(&listed, &model);
            }
            let both: [BTreeSet<Vec<u8>>; 2] = [listed, model].map(|items| items.into_iter().collect());
            prop_assert_eq!(&both[0], &both[1]);
        }
    }
}
