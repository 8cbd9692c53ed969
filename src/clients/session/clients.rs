//! The connections of one server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::client::{Client, Peer, Signal};
use crate::base::clock::Millis;
use crate::base::sync::MutexExt;

/// Every connection, by id.
#[derive(Default)]
pub struct Clients {
    register: Arc<Register>,
    connected: Mutex<BTreeMap<u64, Arc<Client>>>,
    /// The ends of links between instances of this process. They have no connection, so nobody waits for them.
    links: Mutex<BTreeMap<u64, Arc<Client>>>,
    count: AtomicUsize,
    /// The memory of all connections, as it was last counted.
    memory: AtomicI64,
}

/// What the worlds behind one port share: ids are never given twice, and `maxclients` counts all connections.
#[derive(Default)]
struct Register {
    last_id: AtomicU64,
    count: AtomicUsize,
}

impl Clients {
    /// The connections of one more world behind the same port.
    pub fn beside(other: &Self) -> Self {
        Self { register: Arc::clone(&other.register), ..Self::default() }
    }

    /// Adds a connection, unless there are `most` already.
    pub fn add(&self, peer: Peer, fd: i32, now: Millis, most: usize) -> Option<Arc<Client>> {
        let one_more = |count| (count < most).then_some(count + 1);
        self.register.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        let mut connected = self.connected();
        let id = self.register.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let client = Arc::new(Client::new(id, peer, fd, now));
        connected.insert(id, Arc::clone(&client));
        self.count.store(connected.len(), Ordering::Relaxed);
        self.begin_counting(&client);
        Some(client)
    }

    /// Adds the end of a link to another instance of this process.
    pub fn add_link(&self, peer: Peer, now: Millis) -> Arc<Client> {
        let id = self.register.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let client = Arc::new(Client::new(id, peer, -1, now));
        drop(client.end_signal_watch());
        self.links.lock_ignoring_poison().insert(id, Arc::clone(&client));
        client
    }

    pub fn remove(&self, id: u64) {
        self.links.lock_ignoring_poison().remove(&id);
        if self.take(id).is_some() {
            self.register.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Moves a connection to another world behind the same port, unless it was killed meanwhile.
    pub fn hand_over(&self, id: u64, to: &Self) {
        if let Some(client) = self.take(id) {
            let mut connected = to.connected();
            connected.insert(id, Arc::clone(&client));
            to.count.store(connected.len(), Ordering::Relaxed);
            to.begin_counting(&client);
        }
    }

    fn take(&self, id: u64) -> Option<Arc<Client>> {
        let mut connected = self.connected();
        let client = connected.remove(&id)?;
        self.count.store(connected.len(), Ordering::Relaxed);
        self.add_memory(-client.end_memory_count());
        Some(client)
    }

    // ---- memory

    /// The memory of all connections, as it was last counted: each connection counts itself while memory is limited.
    #[inline]
    pub fn summed_memory(&self) -> usize {
        usize::try_from(self.memory.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Counts the memory of a connection again.
    pub fn count_memory(&self, client: &Client) {
        self.add_memory(client.count_memory());
    }

    /// Counts the memory of all connections again, and returns it.
    pub fn recount_memory(&self) -> usize {
        self.add_memory(self.connected().values().map(|client| client.count_memory()).sum());
        self.summed_memory()
    }

    fn begin_counting(&self, client: &Client) {
        self.add_memory(client.begin_memory_count());
    }

    fn add_memory(&self, change: i64) {
        if change != 0 {
            self.memory.fetch_add(change, Ordering::Relaxed);
        }
    }

    pub fn get(&self, id: u64) -> Option<Arc<Client>> {
        self.connected().get(&id).cloned()
    }

    /// Those of these connections and ends of links that exist, oldest first.
    pub fn with_ids(&self, ids: &[u64]) -> Vec<Arc<Client>> {
        let ids: BTreeSet<u64> = ids.iter().copied().collect();
        let (connected, links) = (self.connected(), self.links.lock_ignoring_poison());
        ids.iter().filter_map(|id| connected.get(id).or_else(|| links.get(id)).cloned()).collect()
    }

    /// All connections, oldest first.
    pub fn all(&self) -> Vec<Arc<Client>> {
        self.connected().values().cloned().collect()
    }

    /// Shows every connection, oldest first, without counting a reference to each. None comes or goes meanwhile, so `see`
    /// may lock nothing but what belongs to the connection.
    pub fn visit(&self, see: impl FnMut(&Client)) {
        self.connected().values().map(|client| &**client).for_each(see);
    }

    /// Those connections and ends of links that are wanted, oldest first. `is_wanted` may lock nothing but what belongs to
    /// the connection.
    pub fn find(&self, is_wanted: impl Fn(&Client) -> bool) -> Vec<Arc<Client>> {
        let mut found: Vec<Arc<Client>> =
            self.connected().values().filter(|client| is_wanted(client)).cloned().collect();
        let links = self.links.lock_ignoring_poison();
        found.extend(links.values().filter(|client| is_wanted(client)).cloned());
        found.sort_by_key(|client| client.id());
        found
    }

    /// All connections, and the ends of links between instances, oldest first.
    pub fn all_with_links(&self) -> Vec<Arc<Client>> {
        self.find(|_| true)
    }

    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn signal_all(&self, signal: Signal) {
        // Signals wake, so nothing is locked here.
        for client in self.all() {
            client.signal(signal);
        }
    }

    fn connected(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.connected.lock_ignoring_poison()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_found_by_their_ids_once_each_and_oldest_first() {
        let clients = Clients::default();
        let ids = |clients: &[Arc<Client>]| clients.iter().map(|client| client.id()).collect::<Vec<_>>();
        let peer = || Peer::Unix { path: "socket".into(), pid: None };
        let first = clients.add(peer(), 1, 0, 10).unwrap().id();
        let link = clients.add_link(peer(), 0).id();
        let last = clients.add(peer(), 2, 0, 10).unwrap().id();
        let gone = clients.add(peer(), 3, 0, 10).unwrap().id();
        clients.remove(gone);
        assert_eq!(ids(&clients.find(|client| client.id() != link)), [first, last]);
        assert_eq!(ids(&clients.all_with_links()), [first, link, last]);
        let mut seen = Vec::new();
        clients.visit(|client| seen.push(client.id()));
        assert_eq!(seen, [first, last]);
        let found = clients.with_ids(&[last, gone, link, last, 99, first]);
        assert_eq!(ids(&found), [first, link, last]);
    }
}
