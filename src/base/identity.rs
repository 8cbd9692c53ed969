//! The identity of a server: run id, start time, port.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Mutex, OnceLock};

use crate::base::clock::Millis;
use crate::base::sync::MutexExt;

/// The identity that INFO reports.
pub struct Identity {
    run_id: String,
    replication_id: Mutex<ReplicationId>,
    /// The time on the server's clock at which it was created.
    started: Millis,
    /// The TCP port, once it is bound.
    pub port: OnceLock<u16>,
}

/// The id of this server's data, and the one before it.
#[derive(Clone)]
pub struct ReplicationId {
    pub current: String,
    /// The primary's, after the server was a replica.
    pub former: Option<String>,
    /// The first byte of the stream that is not of the former one.
    pub former_until: u64,
}

impl ReplicationId {
    fn new() -> Self {
        Self { current: random_id(), former: None, former_until: 0 }
    }
}

impl Identity {
    pub fn new(started: Millis) -> Self {
        Self { run_id: random_id(), replication_id: Mutex::new(ReplicationId::new()), started, port: OnceLock::new() }
    }

    /// Forty hexadecimal digits, different for every server.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    pub fn replication_id(&self) -> ReplicationId {
        self.replication_id.lock_ignoring_poison().clone()
    }

    /// Changes the replication id, for DEBUG CHANGE-REPL-ID.
    pub fn change_replication_id(&self) {
        *self.replication_id.lock_ignoring_poison() = ReplicationId::new();
    }

    /// Changes the replication id and keeps the former one for what the stream has so far, for a replica that becomes a
    /// primary.
    pub fn shift_replication_id(&self, offset: u64) {
        let mut id = self.replication_id.lock_ignoring_poison();
        let former = std::mem::replace(&mut id.current, random_id());
        id.former = Some(former);
        id.former_until = offset + 1;
    }

    /// Takes on the history of a master.
    pub fn adopt_replication_id(&self, current: &str) {
        let id = ReplicationId { current: current.to_owned(), former: None, former_until: 0 };
        *self.replication_id.lock_ignoring_poison() = id;
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
        let before = one.replication_id().current;
        one.shift_replication_id(7);
        assert_eq!((one.replication_id().former, one.replication_id().former_until), (Some(before), 8));
        let shifted = one.replication_id().current;
        one.change_replication_id();
        assert_ne!(one.replication_id().current, shifted);
        assert_eq!(one.replication_id().former, None);
    }
}
