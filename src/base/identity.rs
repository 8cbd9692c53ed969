//! The identity of a server: run id, start time, port.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Mutex, OnceLock};

use crate::base::clock::Millis;
use crate::base::sync::MutexExt;

/// The identity that INFO reports.
pub struct Identity {
    run_id: String,
    replication_id: Mutex<String>,
    /// The time on the server's clock at which it was created.
    started: Millis,
    /// The TCP port, once it is bound.
    pub port: OnceLock<u16>,
}

impl Identity {
    pub fn new(started: Millis) -> Self {
        Self { run_id: random_id(), replication_id: Mutex::new(random_id()), started, port: OnceLock::new() }
    }

    /// Forty hexadecimal digits, different for every server.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    pub fn replication_id(&self) -> String {
        self.replication_id.lock_ignoring_poison().clone()
    }

    /// Changes the replication id, for DEBUG CHANGE-REPL-ID.
    pub fn change_replication_id(&self) {
        *self.replication_id.lock_ignoring_poison() = random_id();
    }

    pub fn started(&self) -> Millis {
        self.started
    }
}

fn random_id() -> String {
    random_digits(40)
}

/// Hexadecimal digits that are as unpredictable as the standard library's hash keys. That is enough: ids only have to
/// differ between servers, and generated passwords only guard tests.
pub fn random_digits(count: usize) -> String {
    let parts = 0..count.div_ceil(16);
    let mut digits: String = parts.map(|part| format!("{:016x}", RandomState::new().hash_one(part))).collect();
    digits.truncate(count);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_servers_never_share_an_id() {
        let (one, other) = (Identity::new(0), Identity::new(0));
        assert_eq!(one.run_id().len(), 40);
        assert!(one.run_id().bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_ne!(one.run_id(), other.run_id());
        let before = one.replication_id();
        one.change_replication_id();
        assert_ne!(one.replication_id(), before);
    }
}
