//! Clients blocked on keys (BLPOP and the like), in the order in which they blocked.

use crate::base::clock::Millis;
use crate::base::sync::MutexExt;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::store::hash_of;
use super::stream::{Stream, StreamId};
use super::value::ValueKind;

/// A position in a queue; later ones are higher.
pub type QueuePosition = u64;

/// What a client is blocked on at a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A value of this type.
    Value(ValueKind),
    /// An entry of a stream behind this one.
    EntryAfter(StreamId),
    /// What a consumer of a group waits for; or that stream or group are gone, which it is told.
    ForConsumer,
    /// As `ForConsumer`, and no more than an entry of this stream that the group has not got.
    NewInGroup { group: Box<[u8]>, consumer: Box<[u8]> },
}

impl Awaited {
    /// How many classes there are: one for each type, and one for consumers.
    const CLASSES: usize = ValueKind::Stream as usize + 2;
    const CONSUMERS: usize = Self::CLASSES - 1;

    /// Whether a stream has what is awaited, or lacks the group, as far as can be told.
    pub fn is_in(&self, stream: &Stream) -> bool {
        let last = stream.log().last();
        match self {
            Self::Value(_) | Self::ForConsumer => true,
            Self::EntryAfter(id) => last > *id,
            Self::NewInGroup { group, .. } => stream.group(group).is_none_or(|group| last > group.last()),
        }
    }

    /// Notes that the consumer, if it is one, was seen. Returns whether there is one.
    pub fn touch_consumer(&self, stream: &mut Stream, now: Millis) -> bool {
        let Self::NewInGroup { group, consumer } = self else { return true };
        let touched = stream.change_group(group, |group, _| group.consumer_mut(consumer).map(|own| own.seen = now));
        touched.flatten().is_some()
    }

    fn class(&self) -> usize {
        match self {
            Self::Value(kind) => *kind as usize,
            Self::EntryAfter(_) => ValueKind::Stream as usize,
            Self::ForConsumer | Self::NewInGroup { .. } => Self::CONSUMERS,
        }
    }
}

struct Waiter {
    client: u64,
    awaited: Awaited,
}

/// The clients blocked on one key, by position.
struct Queue {
    key: Box<[u8]>,
    waiting: BTreeMap<QueuePosition, Waiter>,
    /// How many of them are of each class, so that a value that nobody awaits is told without asking each.
    classes: [usize; Awaited::CLASSES],
}

impl Queue {
    fn new(key: &[u8]) -> Self {
        Self { key: key.into(), waiting: BTreeMap::new(), classes: [0; Awaited::CLASSES] }
    }

    /// Adds a waiter, unless there is one at this position: of a key that is named twice, the first counts.
    fn add(&mut self, turn: QueuePosition, waiter: Waiter) {
        let class = waiter.awaited.class();
        if let Entry::Vacant(place) = self.waiting.entry(turn) {
            place.insert(waiter);
            self.classes[class] += 1;
        }
    }

    fn remove(&mut self, turn: QueuePosition) {
        if let Some(waiter) = self.waiting.remove(&turn) {
            self.classes[waiter.awaited.class()] -= 1;
        }
    }

    /// The next waiter behind a position that what was found under the key concerns.
    fn next(
        &self,
        after: QueuePosition,
        found: Option<ValueKind>,
        mut is_due: impl FnMut(&Awaited) -> bool,
    ) -> Option<(QueuePosition, u64)> {
        let concerns = |class| class == Awaited::CONSUMERS || found.is_some_and(|kind| class == kind as usize);
        if !(0..Awaited::CLASSES).any(|class| concerns(class) && self.classes[class] > 0) {
            return None;
        }
        let mut behind = self.waiting.range((Bound::Excluded(after), Bound::Unbounded));
        let (turn, waiter) = behind.find(|(_, waiter)| concerns(waiter.awaited.class()) && is_due(&waiter.awaited))?;
        Some((*turn, waiter.client))
    }
}

#[derive(Default)]
struct Queues {
    /// By database and hash of the key.
    by_hash: HashMap<(u32, u64), Vec<Queue>>,
    /// The position of each client, the same in all its queues.
    by_client: HashMap<u64, QueuePosition>,
    turns: QueuePosition,
}

/// All blocked clients, by id. A client is added while the key's shard is locked, so that a writer, which locks it too,
/// cannot miss it.
#[derive(Default)]
pub struct Waiters {
    /// How many hashes are awaited, so that a write without blocked clients costs one load.
    awaited: AtomicUsize,
    queues: Mutex<Queues>,
}

impl Waiters {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.awaited.load(Ordering::Relaxed) == 0
    }

    /// The number of keys that clients are blocked on, as far as their hashes differ.
    pub fn len(&self) -> usize {
        self.awaited.load(Ordering::Relaxed)
    }

    /// Whether a client is blocked on a key with this hash.
    pub fn has_hash(&self, db: u32, hash: u64) -> bool {
        self.queues().by_hash.contains_key(&(db, hash))
    }

    /// Whether a client is blocked on a key.
    pub fn has_key(&self, db: u32, key: &[u8]) -> bool {
        self.queues().find(db, key).is_some()
    }

    /// Adds a client that blocks on these keys.
    pub fn add<'k>(&self, db: u32, keys: impl Iterator<Item = (&'k [u8], Awaited)>, who: u64) {
        let mut queues = self.queues();
        queues.turns += 1;
        let turn = queues.turns;
        queues.by_client.insert(who, turn);
        for (key, awaited) in keys {
            let of_hash = queues.by_hash.entry((db, hash_of(key))).or_default();
            let known = of_hash.iter().position(|queue| *queue.key == *key);
            let place = known.unwrap_or_else(|| {
                of_hash.push(Queue::new(key));
                of_hash.len() - 1
            });
            of_hash[place].add(turn, Waiter { client: who, awaited });
        }
        self.awaited.store(queues.by_hash.len(), Ordering::Relaxed);
    }

    /// Removes a client from the queues of these keys.
    pub fn remove<'k>(&self, db: u32, keys: impl Iterator<Item = &'k [u8]>, who: u64) {
        let mut queues = self.queues();
        let Some(turn) = queues.by_client.remove(&who) else { return };
        for key in keys {
            let hash = (db, hash_of(key));
            let Some(of_hash) = queues.by_hash.get_mut(&hash) else { continue };
            if let Some(queue) = of_hash.iter_mut().find(|queue| *queue.key == *key) {
                queue.remove(turn);
            }
            of_hash.retain(|queue| !queue.waiting.is_empty());
            if of_hash.is_empty() {
                queues.by_hash.remove(&hash);
            }
        }
        self.awaited.store(queues.by_hash.len(), Ordering::Relaxed);
    }

    /// The next client in a key's queue, behind a position, that what was found under the key concerns, and that is due. The
    /// queues are locked while each is judged.
    pub fn next(
        &self,
        db: u32,
        key: &[u8],
        after: QueuePosition,
        found: Option<ValueKind>,
        is_due: impl FnMut(&Awaited) -> bool,
    ) -> Option<(QueuePosition, u64)> {
        self.queues().find(db, key)?.next(after, found, is_due)
    }

    /// The hashes of all awaited keys, each with its database.
    pub fn hashes(&self) -> Vec<(u32, u64)> {
        self.queues().by_hash.keys().copied().collect()
    }

    /// The awaited keys of a database; the key with the longest wait comes first.
    pub fn keys(&self, db: u32) -> Vec<Box<[u8]>> {
        let queues = self.queues();
        let of_database = queues.by_hash.iter().filter(|((of, _), _)| *of == db);
        let mut keys: Vec<_> = of_database
            .flat_map(|(_, of_hash)| of_hash)
            .filter_map(|queue| Some((*queue.waiting.first_key_value()?.0, queue.key.clone())))
            .collect();
        keys.sort_unstable();
        keys.into_iter().map(|(_, key)| key).collect()
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock_ignoring_poison()
    }
}

impl Queues {
    fn find(&self, db: u32, key: &[u8]) -> Option<&Queue> {
        self.by_hash.get(&(db, hash_of(key)))?.iter().find(|queue| *queue.key == *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::keyspace::Group;

    const LISTS: Awaited = Awaited::Value(ValueKind::List);

    #[test]
    fn turns_come_in_the_order_of_waiting_and_nobody_is_left_behind() {
        let waiters = Waiters::default();
        let both = || [&b"a"[..], b"b", b"a"].into_iter();
        let lists = || both().map(|key| (key, LISTS));
        let next = |key, after| waiters.next(0, key, after, Some(ValueKind::List), |_| true);
        waiters.add(0, lists(), 7);
        waiters.add(0, [(&b"b"[..], LISTS)].into_iter(), 8);
        waiters.add(1, lists(), 9);
        assert!(waiters.has_hash(0, hash_of(b"a")) && !waiters.has_key(2, b"a"));
        assert_eq!(next(b"a", 0), Some((1, 7)));
        assert_eq!(next(b"a", 1), None);
        assert_eq!(next(b"b", 1), Some((2, 8)));
        assert_eq!(waiters.keys(0), [b"a"[..].into(), b"b"[..].into()] as [Box<[u8]>; 2]);
        waiters.remove(0, both(), 7);
        assert_eq!((next(b"a", 0), next(b"b", 0)), (None, Some((2, 8))));
        waiters.remove(0, both(), 8);
        waiters.remove(1, both(), 9);
        assert!(waiters.is_empty());
    }

    #[test]
    fn only_those_come_whom_the_value_concerns_and_consumers_always() {
        let waiters = Waiters::default();
        let consumer = Awaited::ForConsumer;
        let (sorted_sets, streams) = (Awaited::Value(ValueKind::SortedSet), Awaited::Value(ValueKind::Stream));
        for (who, awaited) in [LISTS, sorted_sets, consumer, streams, LISTS].into_iter().enumerate() {
            waiters.add(0, [(&b"k"[..], awaited)].into_iter(), who as u64);
        }
        let served = |found| {
            let next = |&(turn, _): &(QueuePosition, u64)| waiters.next(0, b"k", turn, found, |_| true);
            std::iter::successors(next(&(0, 0)), next).map(|(_, who)| who).collect::<Vec<_>>()
        };
        assert_eq!(served(Some(ValueKind::List)), [0, 2, 4]);
        assert_eq!(served(Some(ValueKind::SortedSet)), [1, 2]);
        assert_eq!(served(Some(ValueKind::Stream)), [2, 3]);
        assert_eq!((served(Some(ValueKind::String)), served(None)), (vec![2], vec![2]));
        waiters.remove(0, [&b"k"[..]].into_iter(), 2);
        assert!(served(None).is_empty());
    }

    #[test]
    fn a_stream_concerns_those_alone_who_have_not_read_so_far() {
        let mut stream = Stream::default();
        let id = |ms| StreamId { ms, seq: 1 };
        stream.log_mut().set_last(id(5), None, None);
        let waiters = Waiters::default();
        for (who, after) in [6, 5, 4, 9].into_iter().enumerate() {
            let awaited = Awaited::EntryAfter(id(after));
            waiters.add(0, [(&b"k"[..], awaited)].into_iter(), who as u64);
        }
        let found = Some(ValueKind::Stream);
        assert_eq!(waiters.next(0, b"k", 0, found, |awaited| awaited.is_in(&stream)), Some((3, 2)));
        assert_eq!(waiters.next(0, b"k", 3, found, |awaited| awaited.is_in(&stream)), None);
        let consumer = Awaited::NewInGroup { group: b"g"[..].into(), consumer: b"c"[..].into() };
        assert!(consumer.is_in(&stream) && !consumer.touch_consumer(&mut stream, 7));
        stream.add_group(b"g", Group::new(id(5), None));
        assert!(!consumer.is_in(&stream) && !consumer.touch_consumer(&mut stream, 7));
        stream.change_group(b"g", |group, _| group.add_consumer(b"c", 3));
        assert!(consumer.touch_consumer(&mut stream, 7));
        let seen = |stream: &Stream| stream.group(b"g")?.consumer(b"c").map(|consumer| consumer.seen);
        assert_eq!(seen(&stream), Some(7));
        stream.log_mut().set_last(id(6), None, None);
        assert!(consumer.is_in(&stream));
    }
}
