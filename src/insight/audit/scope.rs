//! What an audit looks for, and in which keys.

use super::allowance::Allowance;
use super::code::Code;
use crate::base::glob;

/// The settings of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Globs of keys that are locks, whatever clients do with them.
    pub locks: Vec<Vec<u8>>,
    /// Globs of keys that are no locks.
    pub not_locks: Vec<Vec<u8>>,
    /// Globs of keys with data that must not be lost.
    pub resources: Vec<Vec<u8>>,
    /// Findings that are known and allowed.
    pub allowed: Vec<Allowance>,
    /// Rules that are off.
    pub off: Vec<Code>,
}

impl Scope {
    /// Whether the user says that a key is a lock.
    pub fn is_declared(&self, key: &[u8]) -> bool {
        self.locks.iter().any(|glob| glob::matches(glob, key, false))
            && !self.not_locks.iter().any(|glob| glob::matches(glob, key, false))
    }
}
