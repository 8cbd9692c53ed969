//! The numbers by which an iteration over unordered items goes on, while removals move items to other indexes.

use std::collections::BTreeMap;

/// Each item's number. It is the item's index when the numbering began, or when the item came later. An item
/// that moves to the place of a removed one keeps its number; only those items are recorded.
#[derive(Clone, Default)]
pub(super) struct Numbers {
    /// The indexes of the recorded items, by number.
    places: BTreeMap<u32, u32>,
    /// The numbers of the recorded items, by index.
    numbers: BTreeMap<u32, u32>,
}

impl Numbers {
    /// Whether the number of each item is its index.
    pub fn is_trivial(&self) -> bool {
        self.places.is_empty()
    }

    /// Numbers a new item at the end.
    pub fn push(&mut self, place: u32) {
        let mut number = place;
        // The item with this number stands elsewhere, where one with another number stood. The last of them is gone.
        while let Some(&elsewhere) = self.places.get(&number) {
            number = elsewhere;
        }
        self.record(place, number);
    }

    /// Follows a removal: the last item takes the place of the one that is removed.
    pub fn swap_remove(&mut self, place: u32, last: u32) {
        self.forget(place);
        if place != last {
            let number = self.forget(last);
            self.record(place, number);
        }
    }

    fn record(&mut self, place: u32, number: u32) {
        if place != number {
            self.places.insert(number, place);
            self.numbers.insert(place, number);
        }
    }

    /// Returns the number of the item at an index, which is recorded no more.
    fn forget(&mut self, place: u32) -> u32 {
        let Some(number) = self.numbers.remove(&place) else { return place };
        self.places.remove(&number);
        number
    }

    /// The indexes of the `count` items with the highest numbers below `left` (all, if that is 0), and the lowest of
    /// these numbers. `len` is the number of all items.
    pub fn walk(&self, len: usize, left: u64, count: usize) -> (u64, Vec<u32>) {
        let end = u32::try_from(left).ok().filter(|&left| left != 0).unwrap_or(u32::MAX);
        let mut moved = self.places.range(..end).rev().peekable();
        let mut at = end.min(u32::try_from(len).unwrap_or(u32::MAX));
        let mut taken = self.numbers.range(..at).rev().peekable();
        let (mut picked, mut next) = (Vec::new(), 0);
        while picked.len() < count.max(1) {
            // Those that were not moved stand at the indexes that are not taken.
            while at > 0
                && moved.peek().is_none_or(|&(&number, _)| number < at - 1)
                && taken.next_if(|&(&place, _)| place == at - 1).is_some()
            {
                at -= 1;
            }
            match moved.next_if(|&(&number, _)| number >= at.saturating_sub(1)) {
                Some((&number, &place)) => {
                    if number + 1 == at {
                        taken.next();
                        at -= 1;
                    }
                    picked.push(place);
                    next = number;
                }
                None if at > 0 => {
                    at -= 1;
                    picked.push(at);
                    next = at;
                }
                None => return (0, picked),
            }
        }
        (u64::from(next), picked)
    }

    /// The memory outside itself, in bytes.
    pub fn size(&self) -> usize {
        // A node of a tree is at least half full.
        self.places.len() * 4 * size_of::<u32>() * 3 / 2
    }
}
