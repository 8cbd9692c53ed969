//! When the keys of a shard expire, for the sweep. Correctness does not depend on it: every look-up checks the deadline.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::base::clock::Millis;

/// A heap of (deadline, hash). An entry whose deadline changes leaves a stale row behind. Stale rows are skipped when they
/// come up, and pruned all at once when they outnumber the valid ones.
#[derive(Default)]
pub struct Deadlines {
    heap: BinaryHeap<Reverse<(Millis, u64)>>,
}

/// How many deadlines of a shard an average is made of, at most twice.
const SAMPLE: usize = 32;
/// Below this many rows, pruning is not worth it.
const SMALL: usize = 64;

impl Deadlines {
    pub fn add(&mut self, deadline: Millis, hash: u64) {
        self.heap.push(Reverse((deadline, hash)));
    }

    pub fn earliest(&self) -> Option<Millis> {
        self.heap.peek().map(|Reverse((deadline, _))| *deadline)
    }

    #[cfg(test)]
    pub fn rows(&self) -> usize {
        self.heap.len()
    }

    /// Some of the deadlines, evenly from earlier and later ones; some may be stale.
    pub fn sample(&self) -> impl Iterator<Item = Millis> {
        let step = (self.heap.len() / SAMPLE).max(1);
        self.heap.iter().step_by(step).map(|Reverse((deadline, _))| *deadline)
    }

    /// Takes out the earliest row that is due at `now`.
    pub fn pop_due(&mut self, now: Millis) -> Option<(Millis, u64)> {
        if self.earliest()? >= now {
            return None;
        }
        self.heap.pop().map(|Reverse(row)| row)
    }

    /// Whether there are more than twice as many rows as `living` keys with a deadline.
    pub fn is_stale(&self, living: usize) -> bool {
        self.heap.len() > SMALL + 2 * living
    }

    /// Removes stale rows.
    pub fn prune(&mut self, lives: impl Fn(Millis, u64) -> bool) {
        let mut rows = std::mem::take(&mut self.heap).into_vec();
        rows.retain(|Reverse((deadline, hash))| lives(*deadline, *hash));
        rows.sort_unstable();
        rows.dedup();
        self.heap = rows.into();
    }
}
