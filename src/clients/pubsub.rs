//! Subscriptions to channels, patterns and shard channels, and publishing to their subscribers.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;

use crate::base::segment::SHARED;
use crate::base::sync::MutexExt;
use crate::clients::session::Client;
use crate::protocol::write_integer;

/// What a client can subscribe to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionKind {
    Channel,
    /// Every channel whose name matches.
    Pattern,
    /// A shard channel of a cluster. No pattern matches it, and no plain channel has its name.
    ShardChannel,
}

impl SubscriptionKind {
    pub const ALL: [Self; 3] = [Self::Channel, Self::Pattern, Self::ShardChannel];
}

/// The most bytes of the names that one client is subscribed to, with [`BESIDE_NAME`] for each.
const MOST_NAMES: usize = 64 << 20;
const BESIDE_NAME: usize = 128;
/// So many names are removed before publishers get a turn.
const STEP: usize = 256;
/// A buffer for messages that has grown beyond this is given back.
const MESSAGE_KEPT: usize = 64 << 10;

/// All subscriptions of one server.
#[derive(Default)]
pub struct PubSub {
    /// How many clients have subscriptions, so that publishing without subscribers costs one load.
    subscribed_clients: AtomicUsize,
    registry: Mutex<Registry>,
}

#[derive(Default)]
struct Registry {
    /// By [`SubscriptionKind`].
    subscribers: [BTreeMap<Arc<[u8]>, Subscribers>; 3],
    clients: HashMap<u64, Subscriptions>,
    /// The message that is being delivered; empty in between.
    message: Vec<u8>,
}

/// The subscribers of one name, ordered by id.
type Subscribers = Vec<Arc<Client>>;

/// The subscriptions of one client.
#[derive(Default)]
struct Subscriptions {
    /// By [`SubscriptionKind`]; each name with its position in the order of subscribing.
    names: [BTreeMap<Arc<[u8]>, u64>; 3],
    turn: u64,
    bytes: usize,
}

/// The outcome of publishing.
#[derive(Default)]
pub struct Delivery {
    /// How many times it was sent.
    pub count: usize,
    /// Clients for which more than `notice` bytes wait, each with how many.
    pub slow: Vec<(Arc<Client>, usize)>,
}

/// The client that publishes. If it is a subscriber itself, its copy goes to `own_output`.
pub struct Publisher<'a> {
    pub id: u64,
    pub own_output: &'a mut Vec<u8>,
}

impl PubSub {
    /// Subscribes a client. Returns its number of subscriptions, or `None` if they would take too much memory.
    pub fn subscribe(&self, client: &Arc<Client>, kind: SubscriptionKind, name: &[u8]) -> Option<usize> {
        let mut registry = self.registry();
        let Registry { subscribers, clients, .. } = &mut *registry;
        let subscriptions = clients.entry(client.id()).or_default();
        if !subscriptions.names[kind as usize].contains_key(name) {
            let bytes = subscriptions.bytes + name.len() + BESIDE_NAME;
            if bytes > MOST_NAMES {
                if subscriptions.is_empty() {
                    clients.remove(&client.id());
                }
                return None;
            }
            let by_name = &mut subscribers[kind as usize];
            let known = by_name.get_key_value(name).map(|(name, _)| Arc::clone(name));
            let name = match known {
                Some(name) => {
                    let subscribers = by_name.entry(Arc::clone(&name)).or_default();
                    if let Err(place) = subscribers.binary_search_by_key(&client.id(), |other| other.id()) {
                        subscribers.insert(place, Arc::clone(client));
                    }
                    name
                }
                None => {
                    let name: Arc<[u8]> = name.into();
                    by_name.insert(Arc::clone(&name), vec![Arc::clone(client)]);
                    name
                }
            };
            subscriptions.turn += 1;
            subscriptions.names[kind as usize].insert(name, subscriptions.turn);
            subscriptions.bytes = bytes;
        }
        let count = subscriptions.count(kind);
        subscriptions.show(client);
        self.subscribed_clients.store(clients.len(), Ordering::Release);
        Some(count)
    }

    /// Unsubscribes a client from a name. Returns its number of subscriptions left.
    pub fn unsubscribe(&self, client: &Client, kind: SubscriptionKind, name: &[u8]) -> usize {
        let mut registry = self.registry();
        let count = registry.remove(client, kind, name);
        self.subscribed_clients.store(registry.clients.len(), Ordering::Release);
        count
    }

    /// Unsubscribes a client from all names of a kind. Returns them in the order of subscribing, each with the number of
    /// subscriptions left.
    pub fn unsubscribe_all(&self, client: &Client, kind: SubscriptionKind) -> Vec<(Arc<[u8]>, usize)> {
        let mut names: Vec<(Arc<[u8]>, u64)> = {
            let mut registry = self.registry();
            let Some(subscriptions) = registry.clients.get_mut(&client.id()) else { return Vec::new() };
            let names = std::mem::take(&mut subscriptions.names[kind as usize]);
            subscriptions.bytes -= names.keys().map(|name| name.len() + BESIDE_NAME).sum::<usize>();
            names.into_iter().collect()
        };
        // In the order of the table, where neighbours are near each other.
        for step in names.chunks(STEP) {
            let mut registry = self.registry();
            let subscribers = &mut registry.subscribers[kind as usize];
            step.iter().for_each(|(name, _)| remove_subscriber(subscribers, name, client));
        }
        let mut registry = self.registry();
        let mut left = registry.clients.get(&client.id()).map_or(0, |subscriptions| subscriptions.count(kind));
        registry.settle(client);
        self.subscribed_clients.store(registry.clients.len(), Ordering::Release);
        drop(registry);
        names.sort_unstable_by_key(|(_, turn)| *turn);
        left += names.len();
        let counted = names.into_iter().map(|(name, _)| {
            left -= 1;
            (name, left)
        });
        counted.collect()
    }

    /// The names that a client is subscribed to.
    pub fn names(&self, client: &Client, kind: SubscriptionKind) -> Vec<Arc<[u8]>> {
        let registry = self.registry();
        let subscriptions = registry.clients.get(&client.id());
        subscriptions.map_or_else(Vec::new, |known| known.names[kind as usize].keys().map(Arc::clone).collect())
    }

    /// The number of a client's subscriptions, as replies count them: shard channels by themselves.
    pub fn count(&self, client: &Client, kind: SubscriptionKind) -> usize {
        self.registry().clients.get(&client.id()).map_or(0, |subscriptions| subscriptions.count(kind))
    }

    /// Ends all subscriptions of a client.
    pub fn forget(&self, client: &Client) {
        if !client.seen().is_subscriber() {
            return;
        }
        let mut registry = self.registry();
        if let Some(subscriptions) = registry.clients.remove(&client.id()) {
            for (subscribers, names) in registry.subscribers.iter_mut().zip(&subscriptions.names) {
                for name in names.keys() {
                    remove_subscriber(subscribers, name, client);
                }
            }
        }
        Subscriptions::default().show(client);
        self.subscribed_clients.store(registry.clients.len(), Ordering::Release);
    }

    /// Sets whether a client gets messages in RESP3, from the next one on.
    pub fn set_resp3(&self, client: &Client, resp3: bool) {
        let _registry = self.registry();
        client.seen().resp3.store(resp3, Ordering::Relaxed);
    }

    // ---- messages

    /// Sends a message to the subscribers of a channel or a shard channel, at once. Those for which more than `notice`
    /// bytes wait are returned.
    pub fn publish(
        &self,
        kind: SubscriptionKind,
        channel: &[u8],
        payload: &[u8],
        mut by: Option<Publisher<'_>>,
        notice: usize,
    ) -> Delivery {
        let mut delivery = Delivery::default();
        if self.subscribed_clients.load(Ordering::Acquire) == 0 {
            return delivery;
        }
        let mut registry = self.registry();
        let Registry { subscribers, message, .. } = &mut *registry;
        if let Some(subscribers) = subscribers[kind as usize].get(channel) {
            let message_type: &[u8] = if kind == SubscriptionKind::ShardChannel { b"smessage" } else { b"message" };
            encode(message, &[message_type, channel, payload]);
            deliver(message, subscribers, &mut by, notice, &mut delivery);
        }
        if kind == SubscriptionKind::Channel {
            for (pattern, subscribers) in &subscribers[SubscriptionKind::Pattern as usize] {
                if crate::base::glob::matches(pattern, channel, false) {
                    encode(message, &[b"pmessage", pattern, channel, payload]);
                    deliver(message, subscribers, &mut by, notice, &mut delivery);
                }
            }
        }
        message.clear();
        message.shrink_to(MESSAGE_KEPT);
        delivery
    }

    // ---- questions

    /// The names with subscribers that match a pattern, in alphabetical order.
    pub fn active(&self, kind: SubscriptionKind, pattern: Option<&[u8]>) -> Vec<Arc<[u8]>> {
        let registry = self.registry();
        let names = registry.subscribers[kind as usize].keys();
        names
            .filter(|name| pattern.is_none_or(|pattern| crate::base::glob::matches(pattern, name, false)))
            .map(Arc::clone)
            .collect()
    }

    /// How many names have subscribers.
    pub fn len(&self, kind: SubscriptionKind) -> usize {
        self.registry().subscribers[kind as usize].len()
    }

    /// How many clients are subscribed to a name.
    pub fn subscribers(&self, kind: SubscriptionKind, name: &[u8]) -> usize {
        self.registry().subscribers[kind as usize].get(name).map_or(0, Vec::len)
    }

    /// Whether a message on a channel would reach any client.
    pub fn has_subscribers(&self, channel: &[u8]) -> bool {
        if self.subscribed_clients.load(Ordering::Acquire) == 0 {
            return false;
        }
        let registry = self.registry();
        let mut patterns = registry.subscribers[SubscriptionKind::Pattern as usize].keys();
        registry.subscribers[SubscriptionKind::Channel as usize].contains_key(channel)
            || patterns.any(|pattern| crate::base::glob::matches(pattern, channel, false))
    }

    /// How many clients have subscriptions.
    pub fn clients(&self) -> usize {
        self.subscribed_clients.load(Ordering::Relaxed)
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock_ignoring_poison()
    }
}

impl Registry {
    fn remove(&mut self, client: &Client, kind: SubscriptionKind, name: &[u8]) -> usize {
        let Some(subscriptions) = self.clients.get_mut(&client.id()) else { return 0 };
        if subscriptions.names[kind as usize].remove(name).is_some() {
            subscriptions.bytes -= name.len() + BESIDE_NAME;
            remove_subscriber(&mut self.subscribers[kind as usize], name, client);
        }
        let count = subscriptions.count(kind);
        self.settle(client);
        count
    }

    /// Publishes the counts of a client, and forgets it if nothing is left.
    fn settle(&mut self, client: &Client) {
        let Some(subscriptions) = self.clients.get(&client.id()) else { return };
        subscriptions.show(client);
        if subscriptions.is_empty() {
            self.clients.remove(&client.id());
        }
    }
}

impl Subscriptions {
    fn is_empty(&self) -> bool {
        self.names.iter().all(BTreeMap::is_empty)
    }

    fn count(&self, kind: SubscriptionKind) -> usize {
        let [channels, patterns, shard_channels] = SubscriptionKind::ALL.map(|kind| self.names[kind as usize].len());
        if kind == SubscriptionKind::ShardChannel { shard_channels } else { channels + patterns }
    }

    /// Publishes the counts, which other threads read.
    fn show(&self, client: &Client) {
        for (seen, names) in client.seen().subscriptions.iter().zip(&self.names) {
            seen.store(names.len(), Ordering::Relaxed);
        }
    }
}

fn remove_subscriber(by_name: &mut BTreeMap<Arc<[u8]>, Subscribers>, name: &[u8], client: &Client) {
    let Some(subscribers) = by_name.get_mut(name) else { return };
    if let Ok(place) = subscribers.binary_search_by_key(&client.id(), |other| other.id()) {
        subscribers.remove(place);
    }
    if subscribers.is_empty() {
        by_name.remove(name);
    }
}

/// Sends one encoded message to all subscribers. The two protocols differ in its first byte only.
fn deliver(
    message: &mut [u8],
    subscribers: &[Arc<Client>],
    by: &mut Option<Publisher<'_>>,
    notice: usize,
    delivery: &mut Delivery,
) {
    delivery.count += subscribers.len();
    let shares = message.len() >= SHARED && subscribers.len() > 1;
    let mut shared = [None, None];
    for client in subscribers {
        let seen = client.seen();
        let resp3 = seen.resp3.load(Ordering::Relaxed);
        message[0] = if resp3 { b'>' } else { b'*' };
        if let Some(publisher) = by
            && publisher.id == client.id()
        {
            publisher.own_output.extend_from_slice(message);
        } else {
            let waiting = if shares {
                client.send_shared(shared[usize::from(resp3)].get_or_insert_with(|| Bytes::copy_from_slice(message)))
            } else {
                client.send(message)
            };
            if waiting > notice {
                delivery.slow.push((Arc::clone(client), waiting));
            }
        }
    }
}

/// Writes a message as an array of bulk strings, in place of what was there.
fn encode(message: &mut Vec<u8>, words: &[&[u8]]) {
    message.clear();
    message.push(b'*');
    write_integer(message, words.len() as i64);
    message.extend_from_slice(b"\r\n");
    for word in words {
        message.push(b'$');
        write_integer(message, word.len() as i64);
        message.extend_from_slice(b"\r\n");
        message.extend_from_slice(word);
        message.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::session::Peer;

    fn client(id: u64) -> Arc<Client> {
        Arc::new(Client::new(id, Peer::Unix { path: "".into(), pid: None }, 0, 0))
    }

    fn own_output(client: &Client) -> String {
        let mut own_output = Vec::new();
        client.take_mail(&mut own_output);
        String::from_utf8(own_output).unwrap()
    }

    #[test]
    fn a_message_reaches_who_listens_to_the_channel_and_then_who_listens_to_a_pattern() {
        let (pubsub, one, other) = (PubSub::default(), client(1), client(2));
        assert_eq!(pubsub.subscribe(&one, SubscriptionKind::Channel, b"news"), Some(1));
        assert_eq!(pubsub.subscribe(&one, SubscriptionKind::Channel, b"news"), Some(1));
        assert_eq!(pubsub.subscribe(&one, SubscriptionKind::Pattern, b"n*"), Some(2));
        assert_eq!(pubsub.subscribe(&one, SubscriptionKind::ShardChannel, b"news"), Some(1));
        assert_eq!(pubsub.subscribe(&other, SubscriptionKind::Channel, b"news"), Some(1));
        pubsub.set_resp3(&other, true);
        assert_eq!(pubsub.publish(SubscriptionKind::Channel, b"news", b"hi", None, usize::MAX).count, 3);
        let rest = "3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n";
        let matched = "*4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$2\r\nhi\r\n";
        assert_eq!(own_output(&one), format!("*{rest}{matched}"));
        assert_eq!(own_output(&other), format!(">{rest}"));
    }

    #[test]
    fn a_long_message_reaches_everybody_in_its_protocol_and_turn() {
        let (pubsub, one, other, third) = (PubSub::default(), client(1), client(2), client(3));
        for client in [&one, &other, &third] {
            pubsub.subscribe(client, SubscriptionKind::Channel, b"a");
        }
        pubsub.set_resp3(&other, true);
        third.send(b"before");
        let long = "x".repeat(SHARED);
        for payload in [&long, "short"] {
            let delivery = pubsub.publish(SubscriptionKind::Channel, b"a", payload.as_bytes(), None, 2 * SHARED);
            assert_eq!((delivery.count, delivery.slow.len()), (3, 0));
        }
        let message =
            |sign, payload: &str| format!("{sign}3\r\n$7\r\nmessage\r\n$1\r\na\r\n${}\r\n{payload}\r\n", payload.len());
        let both = |sign| message(sign, &long) + &message(sign, "short");
        assert_eq!(one.waiting(), both('*').len());
        assert!(own_output(&one) == both('*') && own_output(&other) == both('>'));
        assert!(own_output(&third) == "before".to_owned() + &both('*'));
    }

    #[test]
    fn nothing_is_left_of_a_client_that_is_forgotten() {
        let (pubsub, one) = (PubSub::default(), client(1));
        for topic in SubscriptionKind::ALL {
            pubsub.subscribe(&one, topic, b"a");
            pubsub.subscribe(&one, topic, b"b");
        }
        assert!(one.seen().is_subscriber());
        assert_eq!(pubsub.unsubscribe(&one, SubscriptionKind::Channel, b"a"), 3);
        pubsub.forget(&one);
        assert!(!one.seen().is_subscriber());
        assert_eq!(pubsub.clients(), 0);
        assert!(SubscriptionKind::ALL.iter().all(|&topic| pubsub.len(topic) == 0));
        assert_eq!(pubsub.publish(SubscriptionKind::Channel, b"b", b"hi", None, usize::MAX).count, 0);
    }

    #[test]
    fn names_keep_the_order_in_which_they_came() {
        let (pubsub, one) = (PubSub::default(), client(1));
        for name in ["c", "a", "b"] {
            pubsub.subscribe(&one, SubscriptionKind::Pattern, name.as_bytes());
        }
        pubsub.subscribe(&one, SubscriptionKind::Channel, b"d");
        assert_eq!(pubsub.active(SubscriptionKind::Pattern, None)[0][..], b"a"[..]);
        let left = pubsub.unsubscribe_all(&one, SubscriptionKind::Pattern);
        let left: Vec<_> = left.iter().map(|(name, left)| (name[0], *left)).collect();
        assert_eq!(left, [(b'c', 3), (b'a', 2), (b'b', 1)]);
        assert_eq!((pubsub.len(SubscriptionKind::Pattern), pubsub.clients()), (0, 1));
        assert_eq!(pubsub.unsubscribe_all(&one, SubscriptionKind::Channel).len(), 1);
        assert_eq!((pubsub.clients(), one.seen().is_subscriber()), (0, false));
    }

    #[test]
    fn what_one_client_listens_to_is_limited() {
        let (pubsub, one) = (PubSub::default(), client(1));
        let long = vec![b'x'; MOST_NAMES];
        assert_eq!(pubsub.subscribe(&one, SubscriptionKind::Channel, &long), None);
        assert_eq!(pubsub.len(SubscriptionKind::Channel), 0);
    }

    #[test]
    fn who_does_not_read_is_named() {
        let (pubsub, one) = (PubSub::default(), client(1));
        pubsub.subscribe(&one, SubscriptionKind::Channel, b"a");
        assert!(pubsub.publish(SubscriptionKind::Channel, b"a", &[b'x'; 100], None, 200).slow.is_empty());
        assert_eq!(pubsub.publish(SubscriptionKind::Channel, b"a", &[b'x'; 100], None, 200).slow.len(), 1);
    }
}
