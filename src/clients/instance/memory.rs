//! The memory that counts for `maxmemory` and `maxmemory-clients`, and the clients that are closed because together they
//! take too much.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use super::Instance;
use crate::clients::session::Client;
use crate::data::keyspace::{COUNTS_USES, EMBEDS_KEYS, EvictionPolicy, OWN_INTEGERS, SUMS_MEMORY};
use crate::powers::Hook;

/// What an empty server without clients reports, about as much as Redis. The machine's own figure differs from run to run.
pub const EMPTY_SERVER: usize = 860 << 10;

/// A smaller `maxmemory-clients` counts as this one, so that somebody can still correct it.
const LEAST_CLIENT_LIMIT: usize = 128 << 10;

/// Clients of about the same size, within a power of two, are closed in the order in which they came.
const SMALLEST_CLASS: u32 = 15;

/// Whether memory is above its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryState {
    Within,
    /// Keys are being evicted: what remains is evicted before the next commands.
    Evicting,
    /// There is nothing to evict.
    Exceeded,
}

/// The course of eviction.
#[derive(Default)]
pub(super) struct EvictionProgress {
    /// More is to be evicted although no command comes.
    is_due: AtomicBool,
    /// Since when memory is above its limit, in microseconds on the server's clock; 0 while it is not.
    exceeded_since: AtomicI64,
    /// For how long it was, before that.
    exceeded: AtomicI64,
    /// Memory was above `maxmemory`, and nothing could be evicted, when the last request began that was checked for that.
    is_exhausted: AtomicBool,
    /// The log says that too many clients may not be closed.
    is_warned: AtomicBool,
}

impl Instance {
    /// The memory in use: an empty server's, and what clients and keys add.
    pub fn used_memory(&self) -> usize {
        EMPTY_SERVER + self.clients.recount_memory() + self.keyspace.used_bytes()
    }

    /// How far memory is above `maxmemory`. While nothing limits memory, nobody sums it up.
    #[inline]
    pub fn excess_memory(&self, limit: usize) -> usize {
        (EMPTY_SERVER + self.clients.summed_memory() + self.keyspace.summed_bytes()).saturating_sub(limit)
    }

    /// Sums up anew the memory that [`excess_memory`](Self::excess_memory) goes by.
    pub fn sum_memory(&self) {
        self.clients.recount_memory();
        self.keyspace.sum_memory();
    }

    /// Copies the limits of memory to where they are read. Returns the bits that views heed.
    pub(super) fn apply_memory_settings(&self) -> u32 {
        let (config, live) = (&self.config, self.config.live());
        let settings = self.keyspace.settings();
        let policy = EvictionPolicy::by_name(&config.text("maxmemory-policy")).unwrap_or_default();
        let evicts = !config.is_on("import-mode");
        settings.eviction.set_policy(if evicts { policy } else { EvictionPolicy::NoEviction });
        settings.eviction.samples.store(config.number("maxmemory-samples"), Ordering::Relaxed);
        settings.frequency.log_factor.store(config.number("lfu-log-factor"), Ordering::Relaxed);
        settings.frequency.decay_time.store(config.number("lfu-decay-time"), Ordering::Relaxed);
        let is_limited = live.max_memory.load(Ordering::Relaxed) != 0;
        let own_integers = self.profile.has(EMBEDS_KEYS) || is_limited && (policy.is_lru() || policy.is_lfu());
        [(policy.is_lfu(), COUNTS_USES), (own_integers, OWN_INTEGERS), (is_limited, SUMS_MEMORY)]
            .into_iter()
            .filter_map(|(is_wanted, bit)| is_wanted.then_some(bit))
            .fold(0, |bits, bit| bits | bit)
    }

    /// Evicts keys soon if there are too many for a new limit, and clients at once.
    pub(super) fn heed_memory_limits(&self) {
        let live = self.config.live();
        if !live.limits_memory() {
            return;
        }
        self.sum_memory();
        let limit = live.max_memory.load(Ordering::Relaxed);
        if limit != 0 && self.excess_memory(limit) > 0 {
            self.eviction.is_due.store(true, Ordering::Relaxed);
        }
        self.evict_clients();
    }

    /// Whether keys are to be evicted although no command comes.
    #[inline]
    pub fn is_eviction_due(&self) -> bool {
        self.eviction.is_due.load(Ordering::Relaxed)
    }

    /// Whether memory was above its limit when it was last looked at.
    #[inline]
    pub fn is_over_limit(&self) -> bool {
        self.eviction.exceeded_since.load(Ordering::Relaxed) != 0
    }

    /// Notes how an attempt to evict has ended.
    pub fn note_memory_state(&self, state: MemoryState) {
        let EvictionProgress { is_due, exceeded_since, exceeded, .. } = &self.eviction;
        is_due.store(state == MemoryState::Evicting, Ordering::Relaxed);
        if state == MemoryState::Within {
            if exceeded_since.load(Ordering::Relaxed) != 0 {
                let since = exceeded_since.swap(0, Ordering::Relaxed);
                exceeded.fetch_add(self.clock.micros().saturating_sub(since).max(0), Ordering::Relaxed);
            }
        } else if exceeded_since.load(Ordering::Relaxed) == 0 {
            exceeded_since.store(self.clock.micros(), Ordering::Relaxed);
        }
    }

    /// Whether the last request that was checked found memory above `maxmemory` and nothing to evict. As in Redis, that
    /// request's scripts go by it, and so do those of EXEC that came while there was no limit and that sets one.
    pub fn is_out_of_memory(&self) -> bool {
        self.eviction.is_exhausted.load(Ordering::Relaxed) && self.config.live().max_memory.load(Ordering::Relaxed) != 0
    }

    /// Notes what a request has found. A slow script goes by what its own request has found.
    pub fn note_out_of_memory(&self, is_exhausted: bool) {
        if self.config.live().max_memory.load(Ordering::Relaxed) != 0 && !self.active_hooks.has(Hook::SlowScript) {
            self.eviction.is_exhausted.store(is_exhausted, Ordering::Relaxed);
        }
    }

    /// For how long memory was above its limit altogether, and for how long it has been now, in milliseconds.
    pub fn exceeded_times(&self) -> (i64, i64) {
        let now = match self.eviction.exceeded_since.load(Ordering::Relaxed) {
            0 => 0,
            since => self.clock.micros().saturating_sub(since).max(0),
        };
        ((self.eviction.exceeded.load(Ordering::Relaxed) + now) / 1000, now / 1000)
    }

    /// CONFIG RESETSTAT.
    pub fn reset_exceeded_times(&self) {
        self.eviction.exceeded_since.store(0, Ordering::Relaxed);
        self.eviction.exceeded.store(0, Ordering::Relaxed);
    }

    // ---- clients

    /// How much memory all clients together may take; `None` if there is no limit.
    fn client_limit(&self) -> Option<usize> {
        let live = self.config.live();
        let limit = match live.max_client_memory.load(Ordering::Relaxed) {
            0 => return None,
            percent @ ..0 => match live.max_memory.load(Ordering::Relaxed) {
                0 => return None,
                all => (all as f64 * percent.unsigned_abs() as f64 / 100.0) as usize,
            },
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        };
        Some(limit.max(LEAST_CLIENT_LIMIT))
    }

    /// Closes clients, those with most memory first, until together they take less than `maxmemory-clients`.
    pub fn evict_clients(&self) {
        let Some(limit) = self.client_limit() else { return };
        if self.clients.summed_memory() < limit {
            self.eviction.is_warned.store(false, Ordering::Relaxed);
            return;
        }
        let mut all: Vec<(u32, Arc<Client>)> = self
            .clients
            .all()
            .into_iter()
            .filter(|client| !client.seen().no_evict.load(Ordering::Relaxed))
            .map(|client| (client.counted_memory().max(1).ilog2().max(SMALLEST_CLASS), client))
            .collect();
        all.sort_by_key(|(class, _)| std::cmp::Reverse(*class));
        for (_, client) in all {
            if self.clients.summed_memory() < limit {
                return;
            }
            let (id, address, memory) = (client.id(), client.peer().address(), client.counted_memory());
            self.log.notice(format!(
                "All clients together take more than maxmemory-clients allows. Client {id} ({address}) with {memory} \
                 bytes is closed."
            ));
            self.stats.evicted_clients.fetch_add(1, Ordering::Relaxed);
            self.kill(&client);
        }
        if self.clients.summed_memory() >= limit && !self.eviction.is_warned.swap(true, Ordering::Relaxed) {
            self.log.warn("Clients that may not be closed take more memory than maxmemory-clients allows.");
        }
    }
}
