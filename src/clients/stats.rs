//! What a server counts, for INFO.
//!
//! Each thread that serves connections has counters of its own, which it alone writes; so counting costs a load and a
//! store, and two threads never wait for each other to count.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::base::sync::MutexExt;
use crate::clients::call_stats::{CallCounters, CallTotals};
use crate::clients::histogram::Histogram;
use crate::clients::rates::Sums;
use crate::data::keyspace::ViewStats;
use crate::spec::RowId;

/// Adds to a counter that only the calling thread ever writes.
#[inline]
pub fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

/// The counters of one thread.
#[derive(Default)]
pub struct Counters {
    pub commands: AtomicU64,
    pub input_bytes: AtomicU64,
    pub output_bytes: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    expired: AtomicU64,
    expired_fields: AtomicU64,
    changes: AtomicU64,
    locks: AtomicU64,
    /// Reads from sockets that brought something, and writes to them.
    pub reads: AtomicU64,
    pub writes: AtomicU64,
    /// What each command did.
    pub calls: CallCounters,
}

impl Counters {
    /// Only for the thread that the counters belong to.
    #[inline]
    pub fn add(&self, view_stats: ViewStats) {
        add(&self.hits, view_stats.hits);
        add(&self.misses, view_stats.misses);
        add(&self.expired, view_stats.expired);
        add(&self.expired_fields, view_stats.expired_fields);
        add(&self.changes, view_stats.changes);
        add(&self.locks, view_stats.locks);
    }
}

/// The sum of all counters at one time.
#[derive(Clone, Copy, Default)]
pub struct Totals {
    pub connections: u64,
    pub rejected_connections: u64,
    pub evicted_keys: u64,
    pub evicted_clients: u64,
    pub commands: u64,
    pub input_bytes: u64,
    pub output_bytes: u64,
    pub hits: u64,
    pub misses: u64,
    pub expired: u64,
    pub expired_fields: u64,
    pub errors: u64,
    /// Never reset: there is no save that would.
    pub changes: u64,
    /// Locks that were taken. Never reset either.
    pub locks: u64,
    pub reads: u64,
    pub writes: u64,
    pub expire_cycles: u64,
    pub expire_cycle_micros: u64,
    pub full_syncs: u64,
    pub partial_syncs: u64,
    pub refused_partial_syncs: u64,
}

/// Commands that were asked for and that the server does not have.
#[derive(Clone, Default)]
pub struct Unsupported {
    /// How often each was asked for, in capitals.
    pub by_name: BTreeMap<String, u64>,
    /// How often any other was asked for, once there were too many names.
    pub others: u64,
}

impl Unsupported {
    /// The most names that are kept, and the most bytes of each: a client can invent any number.
    const MOST: usize = 128;
    const LONGEST: usize = 64;

    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Whether something was asked for that a test may have needed. Client libraries ask when they connect which
    /// subcommands of CLIENT there are, and live with the answer of a server that is older than they are.
    pub fn matters(&self) -> bool {
        self.others > 0 || self.by_name.keys().any(|name| !name.starts_with("CLIENT "))
    }

    /// Adds what another server was asked for.
    pub fn add(&mut self, other: Self) {
        for (name, count) in other.by_name {
            *self.by_name.entry(name).or_default() += count;
        }
        self.others += other.others;
    }
}

impl std::fmt::Display for Unsupported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.by_name.iter().map(|(name, count)| format!("{name} ({count})"));
        let others = (self.others > 0).then(|| format!("others ({})", self.others));
        f.write_str(&names.chain(others).collect::<Vec<_>>().join(", "))
    }
}

/// What happens when a client invents more error codes than are counted by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorOverflow {
    /// Further codes are not counted by themselves. (Redis before 7.4 counts any number.)
    #[default]
    Ignore,
    /// All counts are dropped, and none is made until the next reset (Redis since 7.4).
    Disable,
    /// Further codes are counted together (Valkey).
    Together,
}

/// How often each error code was answered.
#[derive(Default)]
struct ErrorCodes {
    counts: BTreeMap<Vec<u8>, u64>,
    overflow: ErrorOverflow,
    is_disabled: bool,
}

impl ErrorCodes {
    /// The most error codes that are counted by themselves: a client can invent any number.
    const MOST: usize = 128;

    fn count(&mut self, code: &[u8]) {
        if self.is_disabled {
            return;
        }
        if let Some(count) = self.counts.get_mut(code) {
            *count += 1;
        } else if self.counts.len() < Self::MOST {
            self.counts.insert(code.to_vec(), 1);
        } else {
            match self.overflow {
                ErrorOverflow::Ignore => {}
                ErrorOverflow::Disable => {
                    self.counts = BTreeMap::from([(b"ERRORSTATS_DISABLED".to_vec(), 1)]);
                    self.is_disabled = true;
                }
                ErrorOverflow::Together => *self.counts.entry(b"ERRORSTATS_OVERFLOW".to_vec()).or_default() += 1,
            }
        }
    }

    fn clear(&mut self) {
        *self = Self { overflow: self.overflow, ..Self::default() };
    }
}

/// Every counter of one server.
#[derive(Default)]
pub struct Stats {
    pub connections: AtomicU64,
    pub rejected_connections: AtomicU64,
    pub evicted_keys: AtomicU64,
    pub evicted_clients: AtomicU64,
    /// How often expired keys were deleted, and how many microseconds that took.
    pub expire_cycles: AtomicU64,
    pub expire_cycle_micros: AtomicU64,
    /// How often a replica got everything, only what it lacked, and everything although it asked for less.
    pub full_syncs: AtomicU64,
    pub partial_syncs: AtomicU64,
    pub refused_partial_syncs: AtomicU64,
    errors: AtomicU64,
    /// How often each error code was answered.
    errors_by_code: Mutex<ErrorCodes>,
    unsupported: Mutex<Unsupported>,
    /// By the number of the thread.
    threads: Mutex<Vec<Arc<Counters>>>,
    /// What no connection has done, but the sweep or a handle.
    elsewhere: Mutex<ViewStats>,
    /// The sums at the last CONFIG RESETSTAT, from which INFO counts.
    reset_at: Mutex<Totals>,
    calls_at_reset: Mutex<CallTotals>,
    /// The durations of the calls until then, by the index of the row.
    durations_at_reset: Mutex<BTreeMap<usize, Histogram>>,
}

impl Stats {
    /// The counters of a thread, made when it first serves here.
    pub fn thread(&self, number: usize) -> Arc<Counters> {
        let mut threads = self.threads.lock_ignoring_poison();
        if threads.len() <= number {
            threads.resize_with(number + 1, Arc::default);
        }
        Arc::clone(&threads[number])
    }

    /// Counts what no connection has done.
    pub fn add(&self, view_stats: ViewStats) {
        *self.elsewhere.lock_ignoring_poison() += view_stats;
    }

    /// Counts an error reply with this code.
    pub fn count_error(&self, code: &[u8]) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        self.errors_by_code.lock_ignoring_poison().count(code);
    }

    /// Sets what happens when there are too many error codes, as the imitated release does it.
    pub fn set_error_overflow(&self, overflow: ErrorOverflow) {
        self.errors_by_code.lock_ignoring_poison().overflow = overflow;
    }

    /// Counts a command that this server does not have.
    pub fn count_unsupported(&self, name: &[u8]) {
        let shown = name.iter().take(Unsupported::LONGEST).flat_map(|byte| byte.to_ascii_uppercase().escape_ascii());
        let name: String = shown.map(char::from).collect();
        let mut unsupported = self.unsupported.lock_ignoring_poison();
        if let Some(count) = unsupported.by_name.get_mut(&name) {
            *count += 1;
        } else if unsupported.by_name.len() < Unsupported::MOST {
            unsupported.by_name.insert(name, 1);
        } else {
            unsupported.others += 1;
        }
    }

    /// The commands that were asked for and that this server does not have, by name.
    pub fn unsupported(&self) -> Unsupported {
        self.unsupported.lock_ignoring_poison().clone()
    }

    pub fn errors_by_code(&self) -> Vec<(Vec<u8>, u64)> {
        let codes = self.errors_by_code.lock_ignoring_poison();
        codes.counts.iter().map(|(code, count)| (code.clone(), *count)).collect()
    }

    /// The sums since the last reset.
    pub fn totals(&self) -> Totals {
        // In this order: a reset in between must not make the older figures the larger ones.
        let reset = *self.reset_at.lock_ignoring_poison();
        let all = self.all();
        Totals {
            connections: all.connections - reset.connections,
            rejected_connections: all.rejected_connections - reset.rejected_connections,
            evicted_keys: all.evicted_keys - reset.evicted_keys,
            evicted_clients: all.evicted_clients - reset.evicted_clients,
            commands: all.commands - reset.commands,
            input_bytes: all.input_bytes - reset.input_bytes,
            output_bytes: all.output_bytes - reset.output_bytes,
            hits: all.hits - reset.hits,
            misses: all.misses - reset.misses,
            expired: all.expired - reset.expired,
            expired_fields: all.expired_fields - reset.expired_fields,
            errors: all.errors - reset.errors,
            changes: all.changes,
            locks: all.locks,
            reads: all.reads - reset.reads,
            writes: all.writes - reset.writes,
            expire_cycles: all.expire_cycles - reset.expire_cycles,
            expire_cycle_micros: all.expire_cycle_micros - reset.expire_cycle_micros,
            full_syncs: all.full_syncs - reset.full_syncs,
            partial_syncs: all.partial_syncs - reset.partial_syncs,
            refused_partial_syncs: all.refused_partial_syncs - reset.refused_partial_syncs,
        }
    }

    /// What each command did since the last reset.
    pub fn calls(&self) -> CallTotals {
        let reset = self.calls_at_reset.lock_ignoring_poison();
        let mut totals = self.all_calls();
        totals.subtract(&reset);
        totals
    }

    /// How long the calls of one row took since the last reset. The other rows are not read: all together take a hundred times
    /// as long.
    pub fn durations_of(&self, id: RowId) -> Histogram {
        let reset = self.durations_at_reset.lock_ignoring_poison();
        let mut durations = Histogram::default();
        for thread in self.threads.lock_ignoring_poison().iter() {
            thread.calls.add_durations(id, &mut durations);
        }
        if let Some(before) = reset.get(&id.index()) {
            durations.subtract(before);
        }
        durations
    }

    /// The microseconds of all calls since the last reset.
    pub fn call_micros(&self) -> u64 {
        let reset = self.calls_at_reset.lock_ignoring_poison();
        let threads = self.threads.lock_ignoring_poison();
        let all: u64 = threads.iter().map(|thread| thread.calls.micros()).sum();
        all.saturating_sub(reset.micros())
    }

    fn all_calls(&self) -> CallTotals {
        let mut totals = CallTotals::default();
        for thread in self.threads.lock_ignoring_poison().iter() {
            thread.calls.add_to(&mut totals);
        }
        totals
    }

    pub fn reset(&self) {
        *self.reset_at.lock_ignoring_poison() = self.all();
        *self.calls_at_reset.lock_ignoring_poison() = self.all_calls();
        let mut durations = self.durations_at_reset.lock_ignoring_poison();
        durations.clear();
        for thread in self.threads.lock_ignoring_poison().iter() {
            thread.calls.add_all_durations(&mut durations);
        }
        self.errors_by_code.lock_ignoring_poison().clear();
    }

    /// What the rates per second are made of.
    pub fn sums(&self) -> Sums {
        let all = self.all();
        Sums {
            commands: all.commands,
            input_bytes: all.input_bytes,
            output_bytes: all.output_bytes,
            cycles: all.reads + all.expire_cycles,
        }
    }

    /// The sums since the server began, whatever CONFIG RESETSTAT has said.
    pub fn all(&self) -> Totals {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let elsewhere = *self.elsewhere.lock_ignoring_poison();
        let mut totals = Totals {
            connections: load(&self.connections),
            rejected_connections: load(&self.rejected_connections),
            evicted_keys: load(&self.evicted_keys),
            evicted_clients: load(&self.evicted_clients),
            errors: load(&self.errors),
            expire_cycles: load(&self.expire_cycles),
            expire_cycle_micros: load(&self.expire_cycle_micros),
            full_syncs: load(&self.full_syncs),
            partial_syncs: load(&self.partial_syncs),
            refused_partial_syncs: load(&self.refused_partial_syncs),
            hits: elsewhere.hits,
            misses: elsewhere.misses,
            expired: elsewhere.expired,
            expired_fields: elsewhere.expired_fields,
            changes: elsewhere.changes,
            locks: elsewhere.locks,
            ..Totals::default()
        };
        for thread in self.threads.lock_ignoring_poison().iter() {
            totals.commands += load(&thread.commands);
            totals.input_bytes += load(&thread.input_bytes);
            totals.output_bytes += load(&thread.output_bytes);
            totals.hits += load(&thread.hits);
            totals.misses += load(&thread.misses);
            totals.expired += load(&thread.expired);
            totals.expired_fields += load(&thread.expired_fields);
            totals.changes += load(&thread.changes);
            totals.locks += load(&thread.locks);
            totals.reads += load(&thread.reads);
            totals.writes += load(&thread.writes);
        }
        totals
    }
}
