//! All keys that are locks, or may be, each with the states of the rules beside it.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::lock::{Lock, LockId};
use super::program_links::ProgramLinks;
use super::rules::RuleState;

/// How many keys are tracked before the free ones are forgotten.
pub const MAX_LOCKS: usize = 20_000;

/// A lock with what is remembered beside it.
#[derive(Clone)]
pub struct TrackedLock {
    pub lock: Lock,
    pub links: ProgramLinks,
    pub rules: RuleState,
}

/// The locks of one database, by key. Copies of the auditor share the locks to which nothing happens.
type Database = HashMap<Arc<[u8]>, Arc<TrackedLock>, FixedState>;

/// The locks of all servers and databases.
#[derive(Clone, Default)]
pub struct LockTable {
    databases: Vec<((u16, u32), Database)>,
    count: usize,
    /// How many there may be before the free ones are forgotten.
    limit: usize,
    /// How many were ever added.
    added: u64,
}

impl LockTable {
    #[cfg(any(test, feature = "internals"))]
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    pub fn find(&self, server: u16, db: u32, key: &[u8]) -> Option<&Lock> {
        let (_, locks) = self.databases.iter().find(|(number, _)| *number == (server, db))?;
        locks.get(key).map(|tracked| &tracked.lock)
    }

    #[inline]
    pub fn find_mut(&mut self, server: u16, db: u32, key: &[u8]) -> Option<&mut TrackedLock> {
        let (_, locks) = self.databases.iter_mut().find(|(number, _)| *number == (server, db))?;
        locks.get_mut(key).map(Arc::make_mut)
    }

    pub fn get(&self, id: &LockId) -> Option<&Lock> {
        self.find(id.server, id.db, &id.key)
    }

    pub fn get_mut(&mut self, id: &LockId) -> Option<&mut TrackedLock> {
        self.find_mut(id.server, id.db, &id.key)
    }

    pub fn get_tracked(&self, id: &LockId) -> Option<Arc<TrackedLock>> {
        let (_, locks) = self.databases.iter().find(|(number, _)| *number == (id.server, id.db))?;
        locks.get(&id.key).cloned()
    }

    /// Tracks a key again.
    pub fn put_back(&mut self, tracked: Arc<TrackedLock>) {
        let LockId { server, db, key } = &*tracked.lock.id;
        self.add(*server, *db, key);
        let database = self.databases.iter_mut().find(|(number, _)| *number == (*server, *db));
        if let Some((_, locks)) = database {
            locks.insert(Arc::clone(key), tracked);
        }
    }

    pub fn add(&mut self, server: u16, db: u32, key: &[u8]) {
        if self.count >= self.limit.max(MAX_LOCKS) {
            self.forget_free();
        }
        let at = self.databases.iter().position(|(number, _)| *number == (server, db)).unwrap_or_else(|| {
            self.databases.push(((server, db), HashMap::default()));
            self.databases.len() - 1
        });
        let key: Arc<[u8]> = key.into();
        let id = Arc::new(LockId { server, db, key: key.clone() });
        self.added += 1;
        let (links, rules) = (ProgramLinks::default(), RuleState::default());
        let tracked = Arc::new(TrackedLock { lock: Lock::new(id, self.added), links, rules });
        if self.databases[at].1.insert(key, tracked).is_none() {
            self.count += 1;
        }
    }

    pub fn remove(&mut self, id: &LockId) {
        let number = (id.server, id.db);
        let database = self.databases.iter_mut().find(|(other, _)| *other == number);
        if database.is_some_and(|(_, locks)| locks.remove(&id.key).is_some()) {
            self.count -= 1;
        }
    }

    #[cold]
    fn forget_free(&mut self) {
        self.retain(Lock::is_in_use);
        if self.count >= MAX_LOCKS {
            // Holds whose holders were never told that they lost them may be more and more.
            self.retain(|lock| lock.value.is_some());
        }
        self.limit = self.count * 2;
    }

    fn retain(&mut self, is_kept: impl Fn(&Lock) -> bool) {
        for (_, locks) in &mut self.databases {
            locks.retain(|_, tracked| is_kept(&tracked.lock));
        }
        self.count = self.databases.iter().map(|(_, locks)| locks.len()).sum();
    }

    /// A copy with the locks that clients hold or wait for.
    pub fn active(&self) -> Self {
        let mut active = self.clone();
        active.retain(is_active);
        active
    }

    /// Forgets the locks of a server.
    pub fn forget(&mut self, server: u16) {
        self.databases.retain(|((number, _), _)| *number != server);
        self.count = self.databases.iter().map(|(_, locks)| locks.len()).sum();
    }

    /// The ids of some locks, in order.
    pub fn ids(&self, is_meant: impl Fn(&Lock) -> bool) -> Vec<Arc<LockId>> {
        let all = self.databases.iter().flat_map(|(_, locks)| locks.values());
        let meant = all.map(|tracked| &tracked.lock).filter(|lock| is_meant(lock));
        let mut ids: Vec<_> = meant.map(|lock| Arc::clone(&lock.id)).collect();
        ids.sort();
        ids
    }
}

/// Whether a client holds the lock or waits for it.
pub fn is_active(lock: &Lock) -> bool {
    lock.is_known() && !(lock.holds.is_empty() && lock.waiters.is_empty())
}
