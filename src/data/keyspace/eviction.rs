//! Which key is evicted when memory is full.
//!
//! As in Redis, no policy looks at all keys: a few are sampled at random from each database, and the best of these are kept
//! in a pool from one eviction to the next.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use super::database::{Database, ShardMeta};
use super::entry::Entry;
use super::view::LockedShard;
use super::{Busy, Keyspace};
use crate::base::clock::Millis;

/// The most keys in the pool.
const POOL: usize = 16;
/// A shard with so many keys is sampled without a look at how many the others have.
const DENSE: u64 = 32;
/// How often the pool is filled before eviction gives up: other threads can delete what was sampled.
const ATTEMPTS: usize = 64;

/// `maxmemory-policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum EvictionPolicy {
    #[default]
    NoEviction = 0,
    AllKeysLru = 1,
    VolatileLru = 2,
    AllKeysLfu = 3,
    VolatileLfu = 4,
    AllKeysRandom = 5,
    VolatileRandom = 6,
    VolatileTtl = 7,
}

impl EvictionPolicy {
    const ALL: [(Self, &'static str); 8] = [
        (Self::NoEviction, "noeviction"),
        (Self::AllKeysLru, "allkeys-lru"),
        (Self::VolatileLru, "volatile-lru"),
        (Self::AllKeysLfu, "allkeys-lfu"),
        (Self::VolatileLfu, "volatile-lfu"),
        (Self::AllKeysRandom, "allkeys-random"),
        (Self::VolatileRandom, "volatile-random"),
        (Self::VolatileTtl, "volatile-ttl"),
    ];

    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find_map(|(policy, known)| (known == name).then_some(policy))
    }

    /// Whether it evicts only keys with a deadline.
    pub fn is_volatile(self) -> bool {
        matches!(self, Self::VolatileLru | Self::VolatileLfu | Self::VolatileRandom | Self::VolatileTtl)
    }

    pub fn is_lru(self) -> bool {
        matches!(self, Self::AllKeysLru | Self::VolatileLru)
    }

    pub fn is_lfu(self) -> bool {
        matches!(self, Self::AllKeysLfu | Self::VolatileLfu)
    }

    fn is_random(self) -> bool {
        matches!(self, Self::AllKeysRandom | Self::VolatileRandom)
    }
}

/// The settings of eviction.
#[derive(Default)]
pub struct EvictionSettings {
    policy: AtomicU8,
    /// `maxmemory-samples`.
    pub samples: AtomicUsize,
}

impl EvictionSettings {
    pub fn set_policy(&self, policy: EvictionPolicy) {
        self.policy.store(policy as u8, Ordering::Relaxed);
    }

    pub fn policy(&self) -> EvictionPolicy {
        let policy = self.policy.load(Ordering::Relaxed);
        let known = EvictionPolicy::ALL.into_iter().find(|(known, _)| *known as u8 == policy);
        known.map_or(EvictionPolicy::NoEviction, |(policy, _)| policy)
    }
}

/// A key that may be evicted.
struct Candidate {
    /// The higher, the sooner it is evicted.
    score: u64,
    db: u32,
    key: Box<[u8]>,
}

/// The best candidates that were sampled so far, the best at the end. Some may be gone.
#[derive(Default)]
pub struct EvictionPool {
    policy: EvictionPolicy,
    candidates: Vec<Candidate>,
    /// The database from which the last random key came.
    last_db: u32,
}

impl EvictionPool {
    fn add(&mut self, score: u64, db: u32, key: &[u8]) {
        let place = self.candidates.partition_point(|other| other.score < score);
        let candidate = || Candidate { score, db, key: key.into() };
        if self.candidates.len() < POOL {
            self.candidates.insert(place, candidate());
        } else if place > 0 {
            self.candidates.remove(0);
            self.candidates.insert(place - 1, candidate());
        }
    }
}

impl Keyspace {
    /// Calls `evict` with a key and its database, the next to evict, until it returns something: the key was still there.
    /// `None` if no key can be evicted.
    pub fn evict_next<R>(
        &self,
        pool: &mut EvictionPool,
        now: Millis,
        mut evict: impl FnMut(u32, &[u8], EvictionPolicy) -> Result<Option<R>, Busy>,
    ) -> Result<Option<R>, Busy> {
        let policy = self.settings.eviction.policy();
        if policy == EvictionPolicy::NoEviction {
            return Ok(None);
        }
        if pool.policy != policy {
            pool.policy = policy;
            pool.candidates.clear();
        }
        for _ in 0..ATTEMPTS {
            let found = if policy.is_random() { self.sample_any(pool)? } else { self.fill(pool, now)? };
            if !found {
                return Ok(None);
            }
            while let Some(Candidate { db, key, .. }) = pool.candidates.pop() {
                if let Some(evicted) = evict(db, &key, policy)? {
                    return Ok(Some(evicted));
                }
            }
        }
        Ok(None)
    }

    /// Samples each database. Returns whether there are keys that the policy may evict.
    fn fill(&self, pool: &mut EvictionPool, now: Millis) -> Result<bool, Busy> {
        let samples = self.settings.eviction.samples.load(Ordering::Relaxed);
        let policy = pool.policy;
        let mut any = false;
        for (db, database) in self.used_databases() {
            let score = |entry: &Entry| self.score(entry, policy, now);
            let add = |entry: &Entry| pool.add(score(entry), db, entry.key());
            any |= self.sample(db, database, policy.is_volatile(), samples, add)?;
        }
        Ok(any)
    }

    /// How good it is to evict an entry.
    fn score(&self, entry: &Entry, policy: EvictionPolicy, now: Millis) -> u64 {
        if policy == EvictionPolicy::VolatileTtl {
            // The sooner it expires.
            u64::MAX - entry.deadline().unwrap_or(0).max(0).unsigned_abs()
        } else if policy.is_lfu() {
            u64::from(u8::MAX - entry.usage().frequency(now, &self.settings.frequency))
        } else {
            u64::from(entry.usage().idle_seconds(now))
        }
    }

    /// Puts one random key into the pool, from each database in turn.
    fn sample_any(&self, pool: &mut EvictionPool) -> Result<bool, Busy> {
        pool.candidates.clear();
        let is_volatile = pool.policy.is_volatile();
        for _ in 0..self.databases() {
            pool.last_db = (pool.last_db + 1) % self.databases();
            let db = pool.last_db;
            let Some(database) = self.used_database(db) else { continue };
            if self.sample(db, database, is_volatile, 1, |entry| pool.add(0, db, entry.key()))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Shows some random entries of a database: neighbours, as in Redis, since their order is that of hashes. Returns
    /// whether there are any.
    fn sample(
        &self,
        db: u32,
        database: &Database,
        is_volatile: bool,
        samples: usize,
        mut show: impl FnMut(&Entry),
    ) -> Result<bool, Busy> {
        let count = |meta: &ShardMeta| {
            let counter = if is_volatile { &meta.volatile } else { &meta.keys };
            counter.load(Ordering::Relaxed).max(0).unsigned_abs()
        };
        let Some(first) = self.random_shard(&database.shard_meta, count) else { return Ok(false) };
        let mut left = samples.max(1);
        let shards = database.shard_meta.len();
        for index in (first..shards).chain(0..first).filter(|&index| count(&database.shard_meta[index]) > 0) {
            let locked = LockedShard::of(self, db, index)?;
            let seed = self.random();
            left -= match is_volatile {
                true => locked.show_volatile(self, seed, left, &mut show),
                false => locked.show_any(seed, left, &mut show),
            };
            if left == 0 {
                break;
            }
        }
        Ok(true)
    }

    /// A shard, each with a probability that is proportional to its keys, unless there are very many.
    fn random_shard(&self, shard_meta: &[ShardMeta], count: impl Fn(&ShardMeta) -> u64) -> Option<usize> {
        let guess = (self.random() % shard_meta.len() as u64) as usize;
        if count(&shard_meta[guess]) >= DENSE {
            return Some(guess);
        }
        let total: u64 = shard_meta.iter().map(&count).sum();
        let mut nth = self.random() % total.max(1);
        shard_meta.iter().position(|meta| {
            let here = count(meta);
            let is_here = nth < here;
            nth = nth.saturating_sub(here);
            is_here
        })
    }
}
