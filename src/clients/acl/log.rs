//! ACL LOG: the record of denials.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::base::clock::Millis;
use crate::base::sync::MutexExt;

/// One denial, or several equal ones.
#[derive(Clone)]
pub struct Entry {
    pub id: u64,
    pub count: u64,
    pub case: Case,
    pub created: Millis,
    /// The time of the last occurrence.
    pub updated: Millis,
    /// The client of the last occurrence, as in CLIENT LIST.
    pub client: Vec<u8>,
}

/// What was denied, and why.
#[derive(Clone, PartialEq, Eq)]
pub struct Case {
    /// `command`, `key`, `channel` or `auth`.
    pub reason: &'static str,
    /// `toplevel`, `multi` or `lua`.
    pub context: &'static str,
    pub object: Vec<u8>,
    pub user: Vec<u8>,
}

/// The newest denials first.
#[derive(Default)]
pub struct DenialLog {
    entries: Mutex<VecDeque<Entry>>,
    next_id: AtomicU64,
    /// `acllog-max-len`.
    most: AtomicUsize,
    /// The number of denials by reason, for INFO.
    counts: [AtomicU64; REASONS.len()],
}

/// The reasons, in the order in which INFO counts them.
pub const REASONS: [&str; 5] = ["auth", "command", "key", "channel", "database"];

/// How many of the newest entries are searched for an equal denial, and the greatest age of a match.
const NEAR: usize = 10;
const SAME_TIME: Millis = 60_000;
/// Limits the memory of names that a client chooses.
const LONGEST_OBJECT: usize = 64 * 1024;

impl DenialLog {
    pub fn set_most(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    pub fn record(&self, mut case: Case, client: Vec<u8>, now: Millis) {
        if let Some(at) = REASONS.iter().position(|reason| *reason == case.reason) {
            self.counts[at].fetch_add(1, Ordering::Relaxed);
        }
        case.object.truncate(LONGEST_OBJECT);
        let mut entries = self.entries();
        let like = |entry: &Entry| entry.case == case && (now - entry.updated).abs() <= SAME_TIME;
        let known = entries.iter().take(NEAR).position(like).and_then(|at| entries.remove(at));
        match known {
            Some(entry) => entries.push_front(Entry { count: entry.count + 1, updated: now, client, ..entry }),
            None => {
                let id = self.next_id.fetch_add(1, Ordering::Relaxed);
                entries.push_front(Entry { id, count: 1, case, created: now, updated: now, client });
                // As in Redis, old entries are removed only when a new one is added.
                entries.truncate(self.most.load(Ordering::Relaxed));
            }
        }
    }

    pub fn latest(&self, count: usize) -> Vec<Entry> {
        self.entries().iter().take(count).cloned().collect()
    }

    pub fn clear(&self) {
        self.entries().clear();
    }

    /// The number of denials for each of [`REASONS`].
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        REASONS.into_iter().zip(self.counts.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    fn entries(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.entries.lock_ignoring_poison()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(object: &str) -> Case {
        Case { reason: "key", context: "toplevel", object: object.into(), user: b"u".to_vec() }
    }

    fn shown(log: &DenialLog) -> Vec<(String, u64)> {
        let text = |entry: Entry| (String::from_utf8(entry.case.object).unwrap(), entry.count);
        log.latest(usize::MAX).into_iter().map(text).collect()
    }

    #[test]
    fn the_same_within_a_minute_is_counted_and_comes_first() {
        let log = DenialLog::default();
        log.set_most(128);
        for (object, now) in [("a", 0), ("b", 1), ("a", 60_000), ("b", 60_002)] {
            log.record(case(object), Vec::new(), now);
        }
        assert_eq!(shown(&log), [("b".into(), 1), ("a".into(), 2), ("b".into(), 1)]);
        assert_eq!(log.latest(2)[1].created, 0);
        assert_eq!(log.latest(2)[1].updated, 60_000);
    }

    #[test]
    fn only_so_many_are_kept() {
        let log = DenialLog::default();
        log.set_most(2);
        for object in ["a", "b", "c"] {
            log.record(case(object), Vec::new(), 0);
        }
        assert_eq!(shown(&log), [("c".into(), 1), ("b".into(), 1)]);
        log.clear();
        assert!(shown(&log).is_empty());
    }
}
