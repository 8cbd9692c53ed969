//! When the keys of a shard expire, for the sweep. Correctness does not depend on it: every look-up checks the deadline.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::table::HashPart;
use crate::base::clock::Millis;

/// A heap of deadlines with parts of hashes. An entry whose deadline changes leaves a stale row behind. Stale rows are
/// skipped when they come up, and pruned all at once when they outnumber the valid ones.
///
/// A row is one word, because a key with a deadline has one: the deadline, and below it as much of the hash as there is room
/// for. That finds few wrong entries, and those have another deadline. Until the year 2109 no deadline is too late for it.
#[derive(Default)]
pub struct Deadlines {
    near: BinaryHeap<Reverse<u64>>,
    /// Rows whose deadlines take more bits.
    far: BinaryHeap<Reverse<Row>>,
}

/// A deadline, and a part of the hash of the keys that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    pub deadline: Millis,
    pub hash: HashPart,
}

/// How many deadlines of a shard an average is made of, at most twice.
const SAMPLE: usize = 32;
/// Below this many rows, pruning is not worth it.
const SMALL: usize = 64;
/// A full heap grows by this part of itself. Doubled, it would be empty to a quarter on average.
const GROWTH: usize = 8;
/// A small one is doubled, and grows by so many rows from then on: of what it leaves behind at each step, parts are too small for
/// a key.
const FIRST_ROWS: usize = 4;
const LEAST_GROWTH: usize = 16;

impl Row {
    /// The row as one word, which sorts as the row does.
    fn to_word(self) -> Option<u64> {
        let deadline = u64::try_from(self.deadline).ok()?;
        let is_near = deadline >> (u64::BITS - HashPart::BITS) == 0;
        is_near.then(|| deadline << HashPart::BITS | u64::from(self.hash.to_bits()))
    }

    fn of_word(word: u64) -> Self {
        Self { deadline: (word >> HashPart::BITS) as Millis, hash: HashPart::from_bits(word as u32) }
    }
}

impl Deadlines {
    pub fn add(&mut self, deadline: Millis, hash: u64) {
        let row = Row { deadline, hash: HashPart::of(hash) };
        match row.to_word() {
            Some(word) => {
                if self.near.len() == self.near.capacity() {
                    let rows = self.near.len();
                    self.near.reserve_exact(rows.clamp(FIRST_ROWS, LEAST_GROWTH).max(rows / GROWTH));
                }
                self.near.push(Reverse(word));
            }
            None => self.far.push(Reverse(row)),
        }
    }

    pub fn earliest(&self) -> Option<Millis> {
        let near = self.near.peek().map(|Reverse(word)| Row::of_word(*word).deadline);
        let far = self.far.peek().map(|Reverse(row)| row.deadline);
        near.into_iter().chain(far).min()
    }

    #[cfg(test)]
    pub fn rows(&self) -> usize {
        self.near.len() + self.far.len()
    }

    /// All rows, from one on that `seed` selects; some may be stale.
    pub fn iter_from(&self, seed: u64) -> impl Iterator<Item = Row> {
        let near = self.near.as_slice();
        let (before, behind) = near.split_at((seed % near.len().max(1) as u64) as usize);
        let near = behind.iter().chain(before).map(|Reverse(word)| Row::of_word(*word));
        near.chain(self.far.iter().map(|Reverse(row)| *row))
    }

    /// Some of the deadlines, evenly from earlier and later ones; some may be stale.
    pub fn sample(&self) -> impl Iterator<Item = Millis> {
        let step = ((self.near.len() + self.far.len()) / SAMPLE).max(1);
        self.iter_from(0).step_by(step).map(|row| row.deadline)
    }

    /// Takes out a row that is due at `now`.
    pub fn pop_due(&mut self, now: Millis) -> Option<Row> {
        if self.near.peek().is_some_and(|Reverse(word)| Row::of_word(*word).deadline < now) {
            return self.near.pop().map(|Reverse(word)| Row::of_word(word));
        }
        if self.far.peek()?.0.deadline >= now {
            return None;
        }
        self.far.pop().map(|Reverse(row)| row)
    }

    /// Whether there are more than twice as many rows as `living` keys with a deadline.
    pub fn is_stale(&self, living: usize) -> bool {
        self.near.len() + self.far.len() > SMALL + 2 * living
    }

    /// Removes stale rows.
    pub fn prune(&mut self, lives: impl Fn(Row) -> bool) {
        let mut rows: Vec<Row> = self.iter_from(0).filter(|row| lives(*row)).collect();
        rows.sort_unstable();
        rows.dedup();
        let (near, far) = rows.into_iter().partition::<Vec<_>, _>(|row| row.to_word().is_some());
        self.near = near.into_iter().filter_map(Row::to_word).map(Reverse).collect();
        self.far = far.into_iter().map(Reverse).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_deadline_comes_up_once_when_it_is_due() {
        let near = (1 << 42) - 1;
        let all = [Millis::MIN, -1, 0, 1, 1_700_000_000_000, near, near + 1, Millis::MAX];
        let mut deadlines = Deadlines::default();
        for deadline in all.into_iter().rev() {
            deadlines.add(deadline, 0x1234_5678_9abc_def0);
        }
        deadlines.prune(|_| true);
        let mut rows: Vec<_> = deadlines.iter_from(3).map(|row| row.deadline).collect();
        rows.sort_unstable();
        assert_eq!(rows, all);
        for deadline in all {
            assert_eq!((deadlines.earliest(), deadlines.pop_due(deadline)), (Some(deadline), None));
            let next = Row { deadline, hash: HashPart::of(0x1234_5678_9abc_def0) };
            if deadline < Millis::MAX {
                assert_eq!(deadlines.pop_due(deadline + 1), Some(next));
            }
        }
        assert_eq!(deadlines.rows(), 1);
    }
}
