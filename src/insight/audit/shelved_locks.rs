//! Keys that are free and not known for locks, and that a client has given back after its work: the next client that takes one
//! may show that it is a lock.

use std::collections::VecDeque;

use super::kept_lock::KeptLock;

/// How many keys are kept. A key that is taken once, by a name of its own, is never taken again.
const MAX_SHELVED: usize = 128;
/// How many keys are remembered that clients wrote beside others.
const MAX_BESIDE: usize = 256;

/// The last of them.
#[derive(Clone, Default)]
pub struct ShelvedLocks {
    locks: VecDeque<KeptLock>,
    /// The hashes of a family of keys and of a key that a client wrote although it had seen that another one has a key of that
    /// family.
    beside: VecDeque<(u64, u64)>,
}

impl ShelvedLocks {
    pub fn put(&mut self, kept: KeptLock) {
        if self.locks.len() >= MAX_SHELVED {
            self.locks.pop_front();
        }
        self.locks.push_back(kept);
    }

    /// A client has written a key although another one has a key of this family.
    pub fn note_beside(&mut self, family: u64, key: u64) {
        if self.beside.contains(&(family, key)) {
            return;
        }
        if self.beside.len() >= MAX_BESIDE {
            self.beside.pop_front();
        }
        self.beside.push_back((family, key));
    }

    pub fn is_anything_beside(&self) -> bool {
        !self.beside.is_empty()
    }

    /// The keys that a family does not guard.
    pub fn beside(&self, family: u64) -> impl Iterator<Item = u64> + '_ {
        self.beside.iter().filter(move |(other, _)| *other == family).map(|(_, key)| *key)
    }

    pub fn contains(&self, server: u16, db: u32, key: &[u8]) -> bool {
        self.position(server, db, key).is_some()
    }

    /// Takes a key back that is taken again.
    pub fn take(&mut self, server: u16, db: u32, key: &[u8]) -> Option<KeptLock> {
        let at = self.position(server, db, key)?;
        self.locks.remove(at)
    }

    fn position(&self, server: u16, db: u32, key: &[u8]) -> Option<usize> {
        let is_it = |kept: &KeptLock| {
            let id = kept.id();
            *id.key == *key && (id.server, id.db) == (server, db)
        };
        self.locks.iter().position(is_it)
    }

    pub fn forget(&mut self, server: u16) {
        self.locks.retain(|kept| kept.id().server != server);
    }
}
