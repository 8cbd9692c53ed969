//! Iterating over keys: SCAN, and random keys.

use super::View;
use super::expiry::is_expired;
use crate::data::keyspace::entry::Entry;
use crate::data::keyspace::notifications::{EXPIRY_PAUSED, IMPORT_MODE};
use crate::data::keyspace::store::{SCAN_BITS, hash_of, scan_position};
use crate::data::keyspace::value::ValueKind;

/// The most strides in which a big shard is walked, whatever the count.
const MOST_STRIDES: usize = 64;

/// Which keys SCAN returns.
pub struct ScanFilter<'a> {
    pub matches: &'a dyn Fn(&[u8]) -> bool,
    /// Names of types are compared with this; `None` lets every type through.
    pub kind: Option<&'a dyn Fn(ValueKind) -> bool>,
}

impl<'k> View<'k> {
    /// A pseudo-random number below `end`; the sequence is the same in every run.
    pub fn random_below(&self, end: usize) -> usize {
        self.draws()(end)
    }

    /// Like [`random_below`](Self::random_below), but usable while the view is changed.
    pub fn draws(&self) -> impl Fn(usize) -> usize + use<'k> {
        let keyspace = self.keyspace;
        move |end| (keyspace.random() % (end.max(1) as u64)) as usize
    }

    /// A random live key, with about equal probability.
    pub fn random_key(&mut self) -> Option<Vec<u8>> {
        /// As in Redis, so many expired keys that are kept are drawn at most.
        const MOST_EXPIRED: u32 = 100;
        let mut expired = 0;
        loop {
            let total = self.len() as u64;
            if total == 0 {
                return None;
            }
            let mut nth = (self.keyspace.random() % total) as usize;
            let seed = self.keyspace.random();
            let horizon = self.horizon;
            let shard = self.used_shards(self.db).find_map(|locked| {
                let here = locked.shard.len();
                if nth < here {
                    return Some(&locked.shard);
                }
                nth -= here;
                None
            })?;
            let entry = shard.entry(shard.any_slot(seed)?);
            let key = entry.key().to_vec();
            if !is_expired(entry, horizon) {
                return Some(key);
            }
            expired += 1;
            if expired == MOST_EXPIRED && self.wanted & (EXPIRY_PAUSED | IMPORT_MODE) != 0 {
                return Some(key);
            }
            self.exists(&key);
        }
    }

    /// The keys from `cursor` on that pass the filter, of about `count` keys, and the next cursor (0 at the end). A key
    /// that exists during the whole iteration is returned exactly once, because the order is that of the hashes, which
    /// do not change.
    pub fn scan(&mut self, cursor: u64, count: usize, filter: &ScanFilter<'_>) -> (u64, Vec<Vec<u8>>) {
        let mut found = Vec::new();
        let mut over: Vec<Vec<u8>> = Vec::new();
        let mut left = count.max(1);
        let mut next = 0;
        let horizon = self.horizon;
        let (first, shards) = (self.keyspace.shard_of_position(cursor), self.keyspace.shards());
        let position_of = |shard: usize| (shard as u64) << (SCAN_BITS - self.keyspace.shard_bits());
        let end = self.existing.as_ref().map_or(shards, |existing| existing.end);
        for locked in self.used_shards(self.db).filter(|locked| (first..end).contains(&(locked.index as usize))) {
            let mut rows: Vec<(u64, &Entry)> = locked
                .shard
                .iter()
                .map(|entry| (scan_position(hash_of(entry.key())), entry))
                .filter(|(position, _)| *position >= cursor)
                .collect();
            // Finding the start of a stride scans the whole shard.
            let stride = left.max(locked.shard.len() / MOST_STRIDES);
            if rows.len() > stride {
                let (_, &mut (last, _), behind) = rows.select_nth_unstable_by_key(stride - 1, |row| row.0);
                // Keys that share a position are returned together: the next step could not tell them apart.
                next = behind.iter().map(|row| row.0).filter(|&position| position > last).min().unwrap_or(0);
                rows.retain(|&(position, _)| position <= last);
            }
            rows.sort_unstable_by_key(|(position, _)| *position);
            for (_, entry) in &rows {
                if is_expired(entry, horizon) {
                    over.push(entry.key().to_vec());
                } else if (filter.matches)(entry.key()) && filter.kind.is_none_or(|kind| kind(entry.kind())) {
                    found.push(entry.key().to_vec());
                }
            }
            left = left.saturating_sub(rows.len());
            if next != 0 {
                break;
            }
            if left == 0 {
                let behind = locked.index as usize + 1;
                next = if behind < shards { position_of(behind) } else { 0 };
                break;
            }
        }
        if next == 0 && left > 0 && end < shards {
            // There are fewer than were expected when they were locked.
            next = position_of(end);
        }
        for key in over {
            self.exists(&key);
        }
        (next, found)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::base::clock::Clock;
    use crate::data::keyspace::{Expiry, Keyspace, Scope};

    const ALL: ScanFilter<'_> = ScanFilter { matches: &|_| true, kind: None };

    fn new_keyspace() -> (Keyspace, Clock) {
        let clock = Clock::new();
        (Keyspace::new(1, &clock), clock)
    }

    fn in_view<R>(keyspace: &Keyspace, clock: &Clock, work: impl FnOnce(&mut View<'_>) -> R) -> R {
        let mut view = keyspace.lock(Scope::Database, 0, clock).unwrap();
        let result = work(&mut view);
        view.finish();
        result
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// SCAN's guarantee, which is stricter here than in Redis, where a key can be returned twice.
        #[test]
        fn a_key_that_stays_is_scanned_exactly_once_while_others_come_and_go(
            stay in 0..3000u32,
            steps in prop::collection::vec((1..400usize, 0..600u32, any::<bool>()), 1..60),
        ) {
            let (keyspace, clock) = new_keyspace();
            in_view(&keyspace, &clock, |view| {
                (0..stay).for_each(|n| view.set_string(format!("stays:{n}").as_bytes(), b"", Expiry::Never));
            });
            let mut seen: HashMap<Vec<u8>, u32> = HashMap::new();
            let mut cursor = 0;
            let mut others = 0u32;
            for (count, change, grow) in steps.into_iter().cycle() {
                let found;
                let part = Scope::ScannedKeys { cursor, count };
                let in_part = keyspace.lock(part, 0, &clock).unwrap().scan(cursor, count, &ALL);
                (cursor, found) = in_view(&keyspace, &clock, |view| view.scan(cursor, count, &ALL));
                prop_assert_eq!((cursor, &found), (in_part.0, &in_part.1));
                found.into_iter().for_each(|key| *seen.entry(key).or_default() += 1);
                if cursor == 0 {
                    break;
                }
                // Clients keep it in a signed integer of 32 bits.
                prop_assert!(cursor < 1 << 31);
                in_view(&keyspace, &clock, |view| for _ in 0..change {
                    if grow && others < 20_000 {
                        others += 1;
                        view.set_string(format!("passes:{others}").as_bytes(), b"", Expiry::Never);
                    } else {
                        view.remove(format!("passes:{others}").as_bytes());
                        others = others.saturating_sub(1);
                    }
                });
            }
            for n in 0..stay {
                prop_assert_eq!(seen.get(format!("stays:{n}").as_bytes()), Some(&1), "stays:{}", n);
            }
        }
    }

    #[test]
    fn a_scan_of_a_database_that_does_not_change_finds_each_key_once_whatever_the_count() {
        let (keyspace, clock) = new_keyspace();
        in_view(&keyspace, &clock, |view| {
            (0..1000).for_each(|n| view.set_string(format!("{n}").as_bytes(), b"", Expiry::Never));
        });
        for count in [1, 7, 64, 1000, usize::MAX] {
            let (mut found, mut cursor) = (Vec::new(), 0);
            loop {
                let (next, keys) = in_view(&keyspace, &clock, |view| view.scan(cursor, count, &ALL));
                found.extend(keys);
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
            assert_eq!(found.len(), 1000, "{count}");
            found.sort();
            found.dedup();
            assert_eq!(found.len(), 1000, "{count}");
        }
    }
}
