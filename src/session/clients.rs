//! The connections of one server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::client::{Client, Peer, Signal};
use crate::clock::Millis;

/// Every connection, by id.
#[derive(Default)]
pub struct Clients {
    last_id: AtomicU64,
    connected: Mutex<BTreeMap<u64, Arc<Client>>>,
    count: AtomicUsize,
}

impl Clients {
    /// Takes in a connection, unless there are `most` already.
    pub fn add(&self, peer: Peer, fd: i32, now: Millis, most: usize) -> Option<Arc<Client>> {
        let mut connected = self.connected();
        if connected.len() >= most {
            return None;
        }
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let client = Arc::new(Client::new(id, peer, fd, now));
        connected.insert(id, Arc::clone(&client));
        self.count.store(connected.len(), Ordering::Relaxed);
        Some(client)
    }

    pub fn remove(&self, id: u64) {
        let mut connected = self.connected();
        connected.remove(&id);
        self.count.store(connected.len(), Ordering::Relaxed);
    }

    pub fn get(&self, id: u64) -> Option<Arc<Client>> {
        self.connected().get(&id).cloned()
    }

    /// All connections, oldest first.
    pub fn all(&self) -> Vec<Arc<Client>> {
        self.connected().values().cloned().collect()
    }

    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn signal_all(&self, signal: Signal) {
        for client in self.connected().values() {
            client.signal(signal);
        }
    }

    fn connected(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
