//! Who listens to what: channels, patterns and shard channels, and the way of a message to everybody who listens.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::base::sync::MutexExt;
use crate::clients::session::Client;
use crate::protocol::write_integer;

/// What a client can listen to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    Channel,
    /// Every channel whose name matches.
    Pattern,
    /// A channel of a cluster's shard: a world of its own, which no pattern reaches.
    ShardChannel,
}

impl Topic {
    pub const ALL: [Self; 3] = [Self::Channel, Self::Pattern, Self::ShardChannel];
}

/// The names that one client listens to may take so many bytes, what is kept beside them included.
const MOST_NAMES: usize = 64 << 20;
const BESIDE_NAME: usize = 128;
/// A buffer for messages that has grown beyond this is given back.
const MESSAGE_KEPT: usize = 64 << 10;

/// Everybody who listens on one server.
#[derive(Default)]
pub struct PubSub {
    /// How many clients listen to anything, so that a message that nobody hears costs one load.
    listening: AtomicUsize,
    registry: Mutex<Registry>,
}

#[derive(Default)]
struct Registry {
    /// By [`Topic`].
    topics: [BTreeMap<Arc<[u8]>, Listeners>; 3],
    clients: HashMap<u64, Subscriptions>,
    /// The message that is being delivered; empty in between.
    message: Vec<u8>,
}

/// Those who listen to one name, by their ids.
type Listeners = Vec<Arc<Client>>;

/// What one client listens to.
#[derive(Default)]
struct Subscriptions {
    /// By [`Topic`]; with each name, when its turn was.
    names: [BTreeMap<Arc<[u8]>, u64>; 3],
    turn: u64,
    bytes: usize,
}

/// What became of a message.
#[derive(Default)]
pub struct Delivery {
    /// How many times it was sent.
    pub count: usize,
    /// Clients for whom more waits than was to be noticed, with how much.
    pub slow: Vec<(Arc<Client>, usize)>,
}

/// The client that causes a message: if it listens itself, its copy goes to `heard`.
pub struct Publisher<'a> {
    pub id: u64,
    pub heard: &'a mut Vec<u8>,
}

impl PubSub {
    /// Has a client listen. Returns to how much it listens by now, or nothing if that would be too much.
    pub fn subscribe(&self, client: &Arc<Client>, topic: Topic, name: &[u8]) -> Option<usize> {
        let mut registry = self.registry();
        let Registry { topics, clients, .. } = &mut *registry;
        let subscriptions = clients.entry(client.id()).or_default();
        if !subscriptions.names[topic as usize].contains_key(name) {
            let bytes = subscriptions.bytes + name.len() + BESIDE_NAME;
            if bytes > MOST_NAMES {
                if subscriptions.is_empty() {
                    clients.remove(&client.id());
                }
                return None;
            }
            let topics = &mut topics[topic as usize];
            let name = topics.get_key_value(name).map_or_else(|| Arc::from(name), |(name, _)| Arc::clone(name));
            let listeners = topics.entry(Arc::clone(&name)).or_default();
            if let Err(place) = listeners.binary_search_by_key(&client.id(), |other| other.id()) {
                listeners.insert(place, Arc::clone(client));
            }
            subscriptions.turn += 1;
            subscriptions.names[topic as usize].insert(name, subscriptions.turn);
            subscriptions.bytes = bytes;
        }
        let count = subscriptions.count(topic);
        subscriptions.show(client);
        self.listening.store(clients.len(), Ordering::Release);
        Some(count)
    }

    /// Has a client no longer listen to a name. Returns to how much it still listens.
    pub fn unsubscribe(&self, client: &Client, topic: Topic, name: &[u8]) -> usize {
        let mut registry = self.registry();
        let count = registry.remove(client, topic, name);
        self.listening.store(registry.clients.len(), Ordering::Release);
        count
    }

    /// The names that a client listens to, in the order in which it began to.
    pub fn names(&self, client: &Client, topic: Topic) -> Vec<Arc<[u8]>> {
        let registry = self.registry();
        let Some(subscriptions) = registry.clients.get(&client.id()) else { return Vec::new() };
        let mut names: Vec<_> = subscriptions.names[topic as usize].iter().collect();
        names.sort_unstable_by_key(|(_, turn)| **turn);
        names.into_iter().map(|(name, _)| Arc::clone(name)).collect()
    }

    /// To how much a client listens, as replies count it: shard channels by themselves.
    pub fn count(&self, client: &Client, topic: Topic) -> usize {
        self.registry().clients.get(&client.id()).map_or(0, |subscriptions| subscriptions.count(topic))
    }

    /// Has a client listen to nothing any more.
    pub fn forget(&self, client: &Client) {
        if !client.seen().is_subscriber() {
            return;
        }
        let mut registry = self.registry();
        if let Some(subscriptions) = registry.clients.remove(&client.id()) {
            for (topics, names) in registry.topics.iter_mut().zip(&subscriptions.names) {
                for name in names.keys() {
                    stop(topics, name, client);
                }
            }
        }
        Subscriptions::default().show(client);
        self.listening.store(registry.clients.len(), Ordering::Release);
    }

    /// Has a client hear messages in RESP3, or no longer, from the next one on.
    pub fn speak(&self, client: &Client, resp3: bool) {
        let _registry = self.registry();
        client.seen().resp3.store(resp3, Ordering::Relaxed);
    }

    // ---- messages

    /// Sends a message to everybody who listens to a channel or a shard channel. Each client gets its copy at once;
    /// those for whom more than `notice` bytes wait are named.
    pub fn publish(
        &self,
        topic: Topic,
        channel: &[u8],
        payload: &[u8],
        mut by: Option<Publisher<'_>>,
        notice: usize,
    ) -> Delivery {
        let mut delivery = Delivery::default();
        if self.listening.load(Ordering::Acquire) == 0 {
            return delivery;
        }
        let mut registry = self.registry();
        let Registry { topics, message, .. } = &mut *registry;
        if let Some(listeners) = topics[topic as usize].get(channel) {
            let kind: &[u8] = if topic == Topic::ShardChannel { b"smessage" } else { b"message" };
            encode(message, &[kind, channel, payload]);
            deliver(message, listeners, &mut by, notice, &mut delivery);
        }
        if topic == Topic::Channel {
            for (pattern, listeners) in &topics[Topic::Pattern as usize] {
                if crate::base::glob::matches(pattern, channel, false) {
                    encode(message, &[b"pmessage", pattern, channel, payload]);
                    deliver(message, listeners, &mut by, notice, &mut delivery);
                }
            }
        }
        message.clear();
        message.shrink_to(MESSAGE_KEPT);
        delivery
    }

    // ---- who listens

    /// The names that somebody listens to and that match a pattern, in alphabetical order.
    pub fn active(&self, topic: Topic, pattern: Option<&[u8]>) -> Vec<Arc<[u8]>> {
        let registry = self.registry();
        let names = registry.topics[topic as usize].keys();
        names
            .filter(|name| pattern.is_none_or(|pattern| crate::base::glob::matches(pattern, name, false)))
            .map(Arc::clone)
            .collect()
    }

    /// How many names somebody listens to.
    pub fn len(&self, topic: Topic) -> usize {
        self.registry().topics[topic as usize].len()
    }

    /// How many clients listen to a name.
    pub fn listeners(&self, topic: Topic, name: &[u8]) -> usize {
        self.registry().topics[topic as usize].get(name).map_or(0, Vec::len)
    }

    /// Whether anybody hears what is said on a channel.
    pub fn is_heard(&self, channel: &[u8]) -> bool {
        if self.listening.load(Ordering::Acquire) == 0 {
            return false;
        }
        let registry = self.registry();
        let mut patterns = registry.topics[Topic::Pattern as usize].keys();
        registry.topics[Topic::Channel as usize].contains_key(channel)
            || patterns.any(|pattern| crate::base::glob::matches(pattern, channel, false))
    }

    /// How many clients listen to anything.
    pub fn clients(&self) -> usize {
        self.listening.load(Ordering::Relaxed)
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock_ignoring_poison()
    }
}

impl Registry {
    fn remove(&mut self, client: &Client, topic: Topic, name: &[u8]) -> usize {
        let Some(subscriptions) = self.clients.get_mut(&client.id()) else { return 0 };
        if subscriptions.names[topic as usize].remove(name).is_some() {
            subscriptions.bytes -= name.len() + BESIDE_NAME;
            stop(&mut self.topics[topic as usize], name, client);
        }
        subscriptions.show(client);
        let count = subscriptions.count(topic);
        if subscriptions.is_empty() {
            self.clients.remove(&client.id());
        }
        count
    }
}

impl Subscriptions {
    fn is_empty(&self) -> bool {
        self.names.iter().all(BTreeMap::is_empty)
    }

    fn count(&self, topic: Topic) -> usize {
        let [channels, patterns, shard_channels] = Topic::ALL.map(|topic| self.names[topic as usize].len());
        if topic == Topic::ShardChannel { shard_channels } else { channels + patterns }
    }

    /// Lets others see to how much the client listens.
    fn show(&self, client: &Client) {
        for (seen, names) in client.seen().subscriptions.iter().zip(&self.names) {
            seen.store(names.len(), Ordering::Relaxed);
        }
    }
}

fn stop(topics: &mut BTreeMap<Arc<[u8]>, Listeners>, name: &[u8], client: &Client) {
    let Some(listeners) = topics.get_mut(name) else { return };
    if let Ok(place) = listeners.binary_search_by_key(&client.id(), |other| other.id()) {
        listeners.remove(place);
    }
    if listeners.is_empty() {
        topics.remove(name);
    }
}

/// Sends one encoded message to all listeners. The two protocols differ in its first byte alone.
fn deliver(
    message: &mut [u8],
    listeners: &[Arc<Client>],
    by: &mut Option<Publisher<'_>>,
    notice: usize,
    delivery: &mut Delivery,
) {
    delivery.count += listeners.len();
    for client in listeners {
        let seen = client.seen();
        message[0] = if seen.resp3.load(Ordering::Relaxed) { b'>' } else { b'*' };
        if let Some(publisher) = by
            && publisher.id == client.id()
        {
            publisher.heard.extend_from_slice(message);
        } else {
            let waiting = client.send(message);
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
        Arc::new(Client::new(id, Peer::Unix { path: "".into() }, 0, 0))
    }

    fn heard(client: &Client) -> String {
        let mut heard = Vec::new();
        client.take_mail(&mut heard);
        String::from_utf8(heard).unwrap()
    }

    #[test]
    fn a_message_reaches_who_listens_to_the_channel_and_then_who_listens_to_a_pattern() {
        let (pubsub, one, other) = (PubSub::default(), client(1), client(2));
        assert_eq!(pubsub.subscribe(&one, Topic::Channel, b"news"), Some(1));
        assert_eq!(pubsub.subscribe(&one, Topic::Channel, b"news"), Some(1));
        assert_eq!(pubsub.subscribe(&one, Topic::Pattern, b"n*"), Some(2));
        assert_eq!(pubsub.subscribe(&one, Topic::ShardChannel, b"news"), Some(1));
        assert_eq!(pubsub.subscribe(&other, Topic::Channel, b"news"), Some(1));
        pubsub.speak(&other, true);
        assert_eq!(pubsub.publish(Topic::Channel, b"news", b"hi", None, usize::MAX).count, 3);
        let rest = "3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n";
        let matched = "*4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$2\r\nhi\r\n";
        assert_eq!(heard(&one), format!("*{rest}{matched}"));
        assert_eq!(heard(&other), format!(">{rest}"));
    }

    #[test]
    fn nothing_is_left_of_a_client_that_is_forgotten() {
        let (pubsub, one) = (PubSub::default(), client(1));
        for topic in Topic::ALL {
            pubsub.subscribe(&one, topic, b"a");
            pubsub.subscribe(&one, topic, b"b");
        }
        assert!(one.seen().is_subscriber());
        assert_eq!(pubsub.unsubscribe(&one, Topic::Channel, b"a"), 3);
        pubsub.forget(&one);
        assert!(!one.seen().is_subscriber());
        assert_eq!(pubsub.clients(), 0);
        assert!(Topic::ALL.iter().all(|&topic| pubsub.len(topic) == 0));
        assert_eq!(pubsub.publish(Topic::Channel, b"b", b"hi", None, usize::MAX).count, 0);
    }

    #[test]
    fn names_keep_the_order_in_which_they_came() {
        let (pubsub, one) = (PubSub::default(), client(1));
        for name in ["c", "a", "b"] {
            pubsub.subscribe(&one, Topic::Pattern, name.as_bytes());
        }
        let names: Vec<_> = pubsub.names(&one, Topic::Pattern).iter().map(|name| name[0]).collect();
        assert_eq!(names, b"cab");
        assert_eq!(pubsub.active(Topic::Pattern, None)[0][..], b"a"[..]);
    }

    #[test]
    fn what_one_client_listens_to_is_limited() {
        let (pubsub, one) = (PubSub::default(), client(1));
        let long = vec![b'x'; MOST_NAMES];
        assert_eq!(pubsub.subscribe(&one, Topic::Channel, &long), None);
        assert_eq!(pubsub.len(Topic::Channel), 0);
    }

    #[test]
    fn who_does_not_read_is_named() {
        let (pubsub, one) = (PubSub::default(), client(1));
        pubsub.subscribe(&one, Topic::Channel, b"a");
        assert!(pubsub.publish(Topic::Channel, b"a", &[b'x'; 100], None, 200).slow.is_empty());
        assert_eq!(pubsub.publish(Topic::Channel, b"a", &[b'x'; 100], None, 200).slow.len(), 1);
    }
}
