//! Evicts keys until memory is within `maxmemory` again.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Local;
use crate::base::clock::{Stopwatch, real_micros};
use crate::base::sync::MutexExt;
use crate::clients::instance::{Instance, MemoryState};
use crate::clients::latency::LatencyEvent;
use crate::data::keyspace::{Busy, EvictionPolicy, View, hash_of};
use crate::powers::{Hook, Urgency};

/// Only after so many keys is checked whether enough were evicted for now.
const ROUND: u64 = 16;
/// How often the periodic work goes on evicting each time, for some milliseconds.
const MOST_SLICES: u32 = 2;

/// The tenacities (`maxmemory-eviction-tenacity`) from which on the time that eviction may take grows faster, and without
/// limit.
const FASTER: u32 = 10;
const UNLIMITED: u32 = 100;

impl Local {
    /// Evicts keys if memory is above its limit, before a command runs: no locks are held.
    #[inline]
    pub fn evict(&self) -> MemoryState {
        let limit = self.instance.config.live().max_memory.load(Ordering::Relaxed);
        if limit == 0 || (self.instance.excess_memory(limit) == 0 && !self.instance.is_over_limit()) {
            return MemoryState::Within;
        }
        self.evict_above(limit)
    }

    /// Goes on evicting where the commands have left off. Returns whether there is more to evict.
    pub(super) fn continue_eviction(&self) -> bool {
        (0..MOST_SLICES).all(|_| self.evict() == MemoryState::Evicting)
    }

    #[cold]
    fn evict_above(&self, limit: usize) -> MemoryState {
        let instance = &self.instance;
        // As in Redis, a pause holds evictions back, too.
        if instance.paused().is_some() || instance.active_hooks.has(Hook::SlowScript) || instance.ignores_max_memory() {
            return MemoryState::Within;
        }
        let state = self.evict_slice(limit).unwrap_or(MemoryState::Within);
        instance.note_memory_state(state);
        if instance.audit.is_on() && instance.active_hooks.has(Hook::Journal) {
            instance.catch_up_audit(Urgency::None);
        }
        state
    }

    /// Evicts as many keys as one command may, and tells the latency monitor how long that took.
    fn evict_slice(&self, limit: usize) -> Result<MemoryState, Busy> {
        let instance = &self.instance;
        if instance.config.live().latency_threshold.load(Ordering::Relaxed) == 0 {
            return self.evict_keys(limit, None);
        }
        let (cycle, mut removing) = (Stopwatch::start(), Duration::ZERO);
        let state = self.evict_keys(limit, Some(&mut removing));
        for (event, took) in [(LatencyEvent::EvictionDel, removing), (LatencyEvent::EvictionCycle, cycle.elapsed())] {
            instance.note_latency(event, u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        }
        state
    }

    /// `removing` sums up how long it took to remove the keys, if anybody wants to know.
    fn evict_keys(&self, limit: usize, mut removing: Option<&mut Duration>) -> Result<MemoryState, Busy> {
        let instance = &self.instance;
        let mut pool = self.eviction_pool.lock_ignoring_poison();
        // What clients have to be told takes memory, too. It must not cause more evictions.
        let excess = instance.excess_memory(limit);
        let most = most_keys(instance.config.number("maxmemory-eviction-tenacity"));
        let (mut freed, mut evicted) = (0, 0);
        while freed < excess {
            let now = instance.clock.millis();
            let evict = |db, key: &[u8], policy| match &mut removing {
                None => self.evict_key(db, key, policy),
                Some(removing) => {
                    let began = Stopwatch::start();
                    let freed = self.evict_key(db, key, policy);
                    **removing += began.elapsed();
                    freed
                }
            };
            let Some(bytes) = instance.keyspace.evict_next(&mut pool, now, evict)? else {
                // The sum can be a little too high.
                instance.sum_memory();
                let is_exceeded = instance.excess_memory(limit) > 0;
                return Ok(if is_exceeded { MemoryState::Exceeded } else { MemoryState::Within });
            };
            freed += bytes;
            evicted += 1;
            if evicted % ROUND == 0 && evicted > most && freed < excess {
                return Ok(MemoryState::Evicting);
            }
        }
        Ok(MemoryState::Within)
    }

    /// Evicts one key, and returns how much memory that frees.
    fn evict_key(&self, db: u32, key: &[u8], policy: EvictionPolicy) -> Result<Option<usize>, Busy> {
        let Instance { keyspace, clock, .. } = &*self.instance;
        let hash = hash_of(key);
        let view = keyspace.lock_key(key, hash, db, clock)?;
        let mut view = self.widen_for_waiters(view, db, &[hash], true)?;
        let Some(freed) = view.evict(key, policy.is_volatile()) else { return Ok(None) };
        self.instance.stats.evicted_keys.fetch_add(1, Ordering::Relaxed);
        self.record_eviction(&view, db, key);
        self.serve(&mut view, None);
        self.instance.finish_view(view, None);
        Ok(Some(freed))
    }

    /// Records an eviction in the journal while the key is locked, so that it has its place in the order.
    fn record_eviction(&self, view: &View<'_>, db: u32, key: &[u8]) {
        if self.instance.active_hooks.has(Hook::Journal) {
            self.instance.control.journal.note_eviction(db, key, (view.micros(), real_micros()));
        }
    }
}

/// How many keys a command may evict. Redis limits the time. So that a run is the same on each machine, each key counts as
/// a microsecond here, which is about what it takes there.
fn most_keys(tenacity: u32) -> u64 {
    match tenacity {
        0..=FASTER => 50 * u64::from(tenacity),
        UNLIMITED.. => u64::MAX,
        _ => (500.0 * 1.15_f64.powi(tenacity.saturating_sub(FASTER) as i32)) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenacity_grows_from_a_few_keys_to_all_of_them() {
        let most = [0, 1, 10, 11, 50, 99, 100].map(most_keys);
        assert_eq!(most[..4], [0, 50, 500, 575]);
        assert!(most.is_sorted() && most[5] < u64::MAX && most[6] == u64::MAX);
    }
}
