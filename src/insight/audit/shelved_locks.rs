//! Keys that are free and not known for locks, and that a client has given back after its work: the next client that takes one
//! may show that it is a lock.

use std::collections::VecDeque;
use std::sync::Arc;

use super::lock_table::TrackedLock;

/// How many keys are kept. A key that is taken once, by a name of its own, is never taken again.
const MAX_SHELVED: usize = 128;

/// The last of them.
#[derive(Clone, Default)]
pub struct ShelvedLocks {
    locks: VecDeque<Arc<TrackedLock>>,
}

impl ShelvedLocks {
    pub fn put(&mut self, tracked: Arc<TrackedLock>) {
        if self.locks.len() >= MAX_SHELVED {
            self.locks.pop_front();
        }
        self.locks.push_back(tracked);
    }

    /// Takes a key back that is taken again.
    pub fn take(&mut self, server: u16, db: u32, key: &[u8]) -> Option<Arc<TrackedLock>> {
        let is_it = |tracked: &Arc<TrackedLock>| {
            let id = &tracked.lock.id;
            *id.key == *key && (id.server, id.db) == (server, db)
        };
        let at = self.locks.iter().position(is_it)?;
        self.locks.remove(at)
    }

    pub fn forget(&mut self, server: u16) {
        self.locks.retain(|tracked| tracked.lock.id.server != server);
    }
}
