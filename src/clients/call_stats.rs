//! How often each command ran, how long it took and how often it failed: for INFO and LATENCY HISTOGRAM.
//!
//! Each thread has counters of its own ([`CallCounters`]), which it alone writes. Counting a call takes a few loads and
//! stores in memory that the thread has at hand; a row that was never called takes none.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::base::sync::MutexExt;
use crate::clients::histogram::Histogram;
use crate::spec::RowId;

/// Rows are allocated in groups: most clients use few commands.
const GROUP: usize = 32;
const GROUPS: usize = 32;
/// Durations below this have a counter each.
const SHORT: usize = 32;

/// Adds to a counter that only the calling thread ever writes.
#[inline]
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

type Group = Box<[OnceLock<Box<RowCounters>>; GROUP]>;

/// The counters of all rows on one thread.
#[derive(Default)]
pub struct CallCounters {
    groups: [OnceLock<Group>; GROUPS],
}

/// The counters of one row on one thread. Only that thread writes them.
#[derive(Default)]
pub struct RowCounters {
    calls: AtomicU64,
    /// Microseconds of all calls.
    micros: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
    /// How long the last call took that was measured.
    last: AtomicU64,
    /// How many calls took so many microseconds.
    short: [AtomicU64; SHORT],
    long: Mutex<Histogram>,
}

impl CallCounters {
    /// The counters of a row. Only for the thread that they belong to.
    #[inline]
    pub fn row(&self, id: RowId) -> &RowCounters {
        let index = id.index();
        let group =
            self.groups[(index / GROUP) % GROUPS].get_or_init(|| Box::new(std::array::from_fn(|_| OnceLock::new())));
        group[index % GROUP].get_or_init(Box::default)
    }

    /// The counters of the rows that were used, with their indexes.
    fn used(&self) -> impl Iterator<Item = (usize, &RowCounters)> {
        self.groups.iter().enumerate().flat_map(|(at, group)| {
            let rows = group.get().into_iter().flat_map(|group| group.iter().enumerate());
            rows.filter_map(move |(row, counters)| Some((at * GROUP + row, &**counters.get()?)))
        })
    }

    /// The microseconds of all calls.
    pub fn micros(&self) -> u64 {
        self.used().map(|(_, counters)| counters.micros.load(Ordering::Relaxed)).sum()
    }

    /// Adds what was counted to the sums of all threads.
    pub fn add_to(&self, totals: &mut CallTotals) {
        for (row, counters) in self.used() {
            *totals.row(row) += counters.counts();
        }
    }

    /// Adds the durations of one row's calls to those of all threads.
    pub fn add_durations(&self, id: RowId, sum: &mut Histogram) {
        let (group, row) = (id.index() / GROUP, id.index() % GROUP);
        let counters = self.groups[group % GROUPS].get().and_then(|group| group[row].get());
        counters.into_iter().for_each(|counters| counters.add_durations(sum));
    }

    /// The same for every row.
    pub fn add_all_durations(&self, sums: &mut BTreeMap<usize, Histogram>) {
        for (row, counters) in self.used() {
            counters.add_durations(sums.entry(row).or_default());
        }
    }
}

impl RowCounters {
    fn counts(&self) -> CallCounts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CallCounts {
            calls: load(&self.calls),
            micros: load(&self.micros),
            rejected: load(&self.rejected),
            failed: load(&self.failed),
        }
    }

    fn add_durations(&self, sum: &mut Histogram) {
        for (micros, count) in (0..).zip(&self.short) {
            sum.record(micros, count.load(Ordering::Relaxed));
        }
        sum.merge(&self.long.lock_ignoring_poison());
    }

    /// Counts calls that took so many microseconds together. Their distribution is tracked if `is_tracked`.
    #[inline]
    pub fn add_calls(&self, calls: u64, micros: u64, is_tracked: bool) {
        add(&self.calls, calls);
        add(&self.micros, micros);
        // Only short calls are counted together, so each of them gets the average.
        let each = if calls == 1 { micros } else { micros / calls.max(1) };
        self.last.store(each, Ordering::Relaxed);
        if is_tracked {
            match self.short.get(each as usize) {
                Some(counter) => add(counter, calls),
                None => self.add_long(each, calls),
            }
        }
    }

    #[cold]
    fn add_long(&self, micros: u64, calls: u64) {
        self.long.lock_ignoring_poison().record(micros, calls);
    }

    /// Counts a call that was not measured: it took as long as the last one that was.
    #[inline]
    pub fn add_unmeasured(&self, is_tracked: bool) {
        self.add_calls(1, self.last.load(Ordering::Relaxed), is_tracked);
    }

    #[cold]
    pub fn add_failure(&self) {
        add(&self.failed, 1);
    }

    #[cold]
    pub fn add_rejection(&self) {
        add(&self.rejected, 1);
    }
}

/// What was counted of one row's calls, over all threads.
#[derive(Clone, Copy, Default)]
pub struct CallCounts {
    pub calls: u64,
    pub micros: u64,
    pub rejected: u64,
    pub failed: u64,
}

impl CallCounts {
    /// Whether INFO commandstats lists the row.
    pub fn is_used(&self) -> bool {
        self.calls > 0 || self.rejected > 0 || self.failed > 0
    }
}

impl std::ops::AddAssign for CallCounts {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.micros += other.micros;
        self.rejected += other.rejected;
        self.failed += other.failed;
    }
}

/// What was counted of all rows' calls, over all threads.
#[derive(Clone, Default)]
pub struct CallTotals {
    /// By the index of the row; those behind the last were never called.
    rows: Vec<CallCounts>,
}

impl CallTotals {
    pub fn of(&self, id: RowId) -> CallCounts {
        self.rows.get(id.index()).copied().unwrap_or_default()
    }

    fn row(&mut self, index: usize) -> &mut CallCounts {
        if self.rows.len() <= index {
            self.rows.resize(index + 1, CallCounts::default());
        }
        &mut self.rows[index]
    }

    /// The microseconds of all calls.
    pub fn micros(&self) -> u64 {
        self.rows.iter().map(|row| row.micros).sum()
    }

    /// Subtracts what was counted until the last reset.
    pub fn subtract(&mut self, reset: &Self) {
        for (sum, before) in self.rows.iter_mut().zip(&reset.rows) {
            sum.calls = sum.calls.saturating_sub(before.calls);
            sum.micros = sum.micros.saturating_sub(before.micros);
            sum.rejected = sum.rejected.saturating_sub(before.rejected);
            sum.failed = sum.failed.saturating_sub(before.failed);
        }
    }
}
