//! The exact order of commands on each key of an upstream server.
//!
//! Two commands that are on their way at once may take effect in either order, and nobody outside the server knows in which.
//! So a command waits here as long as one of another client that names a common key has no reply. Then the order of the
//! replies is the order of the effects, for each key. Who waits goes in the order of arrival, so nobody waits for ever.
//!
//! A command that blocks is not waited for, and does not wait: it takes effect when others serve it. No command passes
//! behind one that blocks, because its reply would be as late.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use smallvec::SmallVec;

use crate::base::sync::MutexExt;
use crate::clients::session::{Client, Signal};

/// The keys that a command names, as hashes. The database does not count: two keys of one name are kept in order, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedKeys {
    Some(SmallVec<[u64; 2]>),
    /// It changes what it does not name: FLUSHALL, SWAPDB.
    All,
}

impl NamedKeys {
    pub fn of<'k>(keys: impl Iterator<Item = &'k [u8]>) -> Self {
        let mut hashes: SmallVec<[u64; 2]> = keys.map(hash).collect();
        hashes.sort_unstable();
        hashes.dedup();
        Self::Some(hashes)
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::Some(keys) if keys.is_empty())
    }

    fn have_common(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Some(keys), Self::Some(others)) => keys.iter().any(|key| others.contains(key)),
            (Self::Some(keys), Self::All) | (Self::All, Self::Some(keys)) => !keys.is_empty(),
            (Self::All, Self::All) => true,
        }
    }
}

fn hash(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// Who goes first on which key.
#[derive(Default)]
pub struct KeyOrder(Mutex<Turns>);

#[derive(Default)]
struct Turns {
    /// The client whose commands on a key have no reply, and how many these are.
    taken: HashMap<u64, (u64, usize)>,
    /// The same of commands on all keys.
    all_taken: Option<(u64, usize)>,
    /// What the commands of each client have taken, in the order in which they were passed.
    of_clients: HashMap<u64, VecDeque<NamedKeys>>,
    /// Whose command waits, in the order of arrival.
    waiting: VecDeque<Waiter>,
}

struct Waiter {
    client: Arc<Client>,
    keys: NamedKeys,
}

impl KeyOrder {
    /// Takes the turn on some keys for a client's command. Returns false if it has to wait: the client is signalled when it
    /// may be its turn, and asks again.
    pub fn take(&self, client: &Arc<Client>, keys: NamedKeys) -> bool {
        let mut turns = self.0.lock_ignoring_poison();
        let id = client.id();
        let place = turns.waiting.iter().position(|waiter| waiter.client.id() == id);
        let before = turns.waiting.iter().take(place.unwrap_or(turns.waiting.len()));
        // A command behind others of its own client on the same keys cannot go before them.
        let is_behind = before.into_iter().any(|waiter| waiter.keys.have_common(&keys));
        if is_behind || !turns.are_free(id, &keys) {
            match place {
                Some(place) => turns.waiting[place].keys = keys,
                None => turns.waiting.push_back(Waiter { client: Arc::clone(client), keys }),
            }
            return false;
        }
        if let Some(place) = place {
            turns.waiting.remove(place);
        }
        turns.add(id, keys);
        true
    }

    /// Whether a client that waits would get its turn now.
    pub fn is_free_for(&self, client: u64) -> bool {
        let turns = self.0.lock_ignoring_poison();
        let place = turns.waiting.iter().position(|waiter| waiter.client.id() == client);
        place.is_none_or(|place| turns.is_next(place))
    }

    /// A client does not wait any longer.
    pub fn leave(&self, client: u64) {
        self.0.lock_ignoring_poison().leave(client);
    }

    /// Gives back the turn of the first command of a client that has one.
    pub fn release(&self, client: u64) {
        let mut turns = self.0.lock_ignoring_poison();
        let Some(queue) = turns.of_clients.get_mut(&client) else { return };
        let keys = queue.pop_front();
        if queue.is_empty() {
            turns.of_clients.remove(&client);
        }
        if let Some(keys) = keys {
            turns.remove(&keys);
            turns.wake(&keys);
        }
    }

    /// Forgets a client that is gone.
    pub fn forget(&self, client: u64) {
        let mut turns = self.0.lock_ignoring_poison();
        for keys in turns.of_clients.remove(&client).unwrap_or_default() {
            turns.remove(&keys);
            turns.wake(&keys);
        }
        turns.leave(client);
    }
}

impl Turns {
    fn leave(&mut self, client: u64) {
        if let Some(place) = self.waiting.iter().position(|waiter| waiter.client.id() == client)
            && let Some(waiter) = self.waiting.remove(place)
        {
            self.wake(&waiter.keys);
        }
    }

    /// Whether no other client has a command on a common key.
    fn are_free(&self, client: u64, keys: &NamedKeys) -> bool {
        let is_other = |taken: &(u64, usize)| taken.0 != client;
        if !keys.is_empty() && self.all_taken.as_ref().is_some_and(is_other) {
            return false;
        }
        match keys {
            NamedKeys::Some(keys) => !keys.iter().filter_map(|key| self.taken.get(key)).any(is_other),
            NamedKeys::All => !self.taken.values().any(is_other),
        }
    }

    fn add(&mut self, client: u64, keys: NamedKeys) {
        match &keys {
            NamedKeys::Some(keys) => keys.iter().for_each(|key| self.taken.entry(*key).or_insert((client, 0)).1 += 1),
            NamedKeys::All => self.all_taken.get_or_insert((client, 0)).1 += 1,
        }
        self.of_clients.entry(client).or_default().push_back(keys);
    }

    fn remove(&mut self, keys: &NamedKeys) {
        match keys {
            NamedKeys::Some(keys) => {
                for key in keys {
                    if let Some((_, count)) = self.taken.get_mut(key) {
                        *count -= 1;
                        if *count == 0 {
                            self.taken.remove(key);
                        }
                    }
                }
            }
            NamedKeys::All => {
                if let Some((_, count)) = &mut self.all_taken {
                    *count -= 1;
                    if *count == 0 {
                        self.all_taken = None;
                    }
                }
            }
        }
    }

    /// Tells those that wait for one of these keys to ask again, if it is their turn now: all others would ask in vain.
    fn wake(&self, keys: &NamedKeys) {
        for (place, waiter) in self.waiting.iter().enumerate().filter(|(_, waiter)| waiter.keys.have_common(keys)) {
            if self.is_next(place) {
                waiter.client.signal(Signal::Look);
            }
        }
    }

    /// Whether it is the turn of the client that waits at this place.
    fn is_next(&self, place: usize) -> bool {
        let Some(Waiter { client, keys }) = self.waiting.get(place) else { return true };
        self.are_free(client.id(), keys) && !self.waiting.iter().take(place).any(|waiter| waiter.keys.have_common(keys))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::session::Peer;

    fn client(id: u64) -> Arc<Client> {
        Arc::new(Client::new(id, Peer::Unix { path: "s".into(), pid: None }, -1, 0))
    }

    fn keys(names: &[&str]) -> NamedKeys {
        NamedKeys::of(names.iter().map(|name| name.as_bytes()))
    }

    #[test]
    fn a_command_waits_for_another_client_on_a_common_key_and_for_no_one_else() {
        let order = KeyOrder::default();
        let (a, b, c) = (client(1), client(2), client(3));
        assert!(order.take(&a, keys(&["x", "y"])));
        assert!(order.take(&a, keys(&["x"])), "its own commands are in order anyway");
        assert!(!order.take(&b, keys(&["y"])));
        assert!(order.take(&c, keys(&["z"])));
        order.release(1);
        assert!(order.take(&b, keys(&["y"])));
        assert!(b.take_signal(Signal::Look));
        assert!(!order.take(&c, keys(&["x"])), "the second command of a has no reply");
    }

    #[test]
    fn who_waits_goes_in_the_order_of_arrival() {
        let order = KeyOrder::default();
        let (a, b, c, d) = (client(1), client(2), client(3), client(4));
        assert!(order.take(&a, keys(&["x"])));
        assert!(!order.take(&b, keys(&["x", "y"])));
        assert!(!order.take(&c, keys(&["y"])), "y is free, but b came first");
        assert!(order.take(&d, keys(&["z"])));
        order.release(1);
        assert!(!order.take(&c, keys(&["y"])));
        assert!(order.take(&b, keys(&["x", "y"])));
        order.release(2);
        assert!(order.take(&c, keys(&["y"])));
    }

    #[test]
    fn what_changes_all_keys_waits_for_all_and_all_for_it() {
        let order = KeyOrder::default();
        let (a, b, c) = (client(1), client(2), client(3));
        assert!(order.take(&a, keys(&["x"])));
        assert!(!order.take(&b, NamedKeys::All));
        assert!(order.take(&c, keys(&[])), "a command without keys waits for nobody");
        order.forget(1);
        assert!(order.take(&b, NamedKeys::All));
        assert!(!order.take(&c, keys(&["x"])));
        order.release(2);
        assert!(order.take(&c, keys(&["x"])));
    }

    #[test]
    fn a_client_that_goes_lets_others_go_first() {
        let order = KeyOrder::default();
        let (a, b, c) = (client(1), client(2), client(3));
        assert!(order.take(&a, keys(&["x"])));
        assert!(!order.take(&b, keys(&["x", "y"])));
        assert!(!order.take(&c, keys(&["y"])));
        order.forget(2);
        assert!(c.take_signal(Signal::Look));
        assert!(order.take(&c, keys(&["y"])));
    }
}
