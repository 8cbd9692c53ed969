//! The journal's memory: a ring of records, and the clients that they are about.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use super::entry::{Child, Entry, Event, EventKind, Item, Outcome};
use super::record::{NestedCommand, Payload, Record, RecordHeader};
use crate::base::background::free_beside;
use crate::base::budget::{Forgetful, Share};
use crate::base::process::Process;
use crate::powers::node_info::NodeSnapshot;
use crate::protocol::Words;

/// Records are kept in chunks; the oldest chunk is dropped as a whole when there is no room for another.
const LARGEST_CHUNK: usize = 256 * 1024;
/// The least number of chunks.
const CHUNKS: usize = 8;
/// The least size of a chunk, however many journals share their memory, and that of the first ones.
const LEAST_CHUNK: usize = 4096;
const FIRST_CHUNK: usize = 16 * 1024;
/// How many bytes take so long to read, or to free, that other clients should not wait for that: a megabyte takes about a millisecond
/// to read.
pub(super) const LARGE: usize = 4 << 20;
/// The most bytes of a client's name that are kept.
const LONGEST_NAME: usize = 1024;
/// How many records the auditor leaves unread before it is to read on, if there is room for them.
const MOST_UNSEEN: u64 = 3072;
/// How many clients are kept before those without records are dropped.
const FEW_CLIENTS: usize = 1024;

/// The records; the oldest are dropped when there is no room.
#[derive(Default)]
pub(super) struct Ring {
    /// The most bytes; 0 if the journal was never on.
    most: usize,
    older: VecDeque<Arc<Chunk>>,
    current: Chunk,
    /// The capacity of the older chunks, in bytes.
    older_capacity: usize,
    /// Its part of the memory of all journals.
    share: Option<Share<Ring>>,
    /// The bytes that it can count on: `most`, or less if all journals have not so much for each.
    room: usize,
    /// The number of records ever written.
    pub written: u64,
    /// How many commands were dropped since it was last cleared.
    pub forgotten: u64,
    /// How many of the present records are events.
    pub events: u64,
    /// How often written records were changed.
    pub revisions: u64,
    /// How many records the auditor has not read, and up to which byte of all that were ever written it has.
    unseen: u64,
    seen_bytes: u64,
    clients: Clients,
    /// At how many clients those without records are dropped next.
    most_clients: usize,
    /// How many followers there ever were.
    pub followers: u64,
    /// Followers to wake at the next record.
    pub watchers: Vec<(u64, Waker)>,
}

/// Clients by number. Views share them, and each of them.
type Clients = Arc<BTreeMap<u64, Arc<KnownClient>>>;

#[derive(Clone, Default)]
struct Chunk {
    bytes: Vec<u8>,
    /// The index of its first record.
    first: u64,
    /// How many bytes were written before it.
    bytes_before: u64,
    count: u64,
    /// How many of its records are events.
    events: u64,
}

/// Some records as they were at one moment, while the ring goes on.
pub struct JournalView {
    chunks: Vec<Arc<Chunk>>,
    clients: Clients,
    /// The index of the oldest record in the ring.
    pub oldest: u64,
    /// The number of records ever written.
    pub written: u64,
    /// How often written records were changed.
    pub revisions: u64,
    /// The index behind the last record of the view.
    pub end: u64,
}

/// When the auditor is to read on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// It has read nearly everything.
    None,
    Soon,
    /// It falls behind.
    Now,
    /// Records that it has not read will be dropped soon.
    Overdue,
}

/// A client, as records show it.
#[derive(Clone)]
struct KnownClient {
    address: String,
    /// Its names, each with the index of the first record that it holds for.
    names: Vec<(u64, Box<[u8]>)>,
    /// The process that it is, from the record with this index on, once it is known.
    process: Option<(u64, Arc<Process>)>,
    /// The node that it is connected to, as it was from the record with this index on. Empty without a deployment.
    nodes: Vec<(u64, NodeSnapshot)>,
}

impl KnownClient {
    /// Sets its name, its process and its node, from the record with the index `next` on. Names and nodes that hold for no
    /// present record, of which `oldest` is the first, are dropped.
    fn update(
        &mut self,
        name: Vec<u8>,
        process: Option<Arc<Process>>,
        node: Option<NodeSnapshot>,
        oldest: u64,
        next: u64,
    ) {
        self.process = self.process.take().or_else(|| Some((next, process?)));
        if self.names.last().is_none_or(|(_, last)| **last != *name) {
            put(&mut self.names, name.into(), oldest, next);
        }
        if let Some(node) = node
            && self.nodes.last().is_none_or(|(_, last)| last.info != node.info)
        {
            put(&mut self.nodes, node, oldest, next);
        }
    }
}

fn put<T>(held: &mut Vec<(u64, T)>, value: T, oldest: u64, next: u64) {
    let gone = held.iter().skip(1).take_while(|(from, _)| *from <= oldest).count();
    held.drain(..gone);
    held.push((next, value));
}

/// What held for the record with this index.
fn at_record<T>(held: &[(u64, T)], index: u64) -> Option<&T> {
    held.iter().rev().find(|(from, _)| *from <= index).map(|(_, value)| value)
}

/// The name and the process of a client at the time of the record with this index.
fn labels_at(client: Option<&KnownClient>, index: u64) -> (&[u8], Option<&Arc<Process>>) {
    let Some(known) = client else { return (&[], None) };
    let name = at_record(&known.names, index).map(|name| &**name).unwrap_or_default();
    (name, known.process.as_ref().filter(|(from, _)| *from <= index).map(|(_, process)| process))
}

/// A client's address and name, its process, if that is known, and the node that it is connected to, if there is a deployment.
pub struct ClientRecord {
    pub address: String,
    pub name: Vec<u8>,
    pub process: Option<Arc<Process>>,
    pub node: Option<NodeSnapshot>,
}

/// A decoded record in the ring.
pub struct StoredRecord<'a> {
    /// Its index, counted from 0.
    pub index: u64,
    pub record: Record<'a>,
    client: Option<&'a KnownClient>,
}

/// A record in the ring that is not decoded yet.
pub struct RawRecord<'a> {
    /// Its index, counted from 0.
    pub index: u64,
    /// Its sequence number.
    pub seq: u64,
    /// The real time of its effect.
    pub real: i64,
    bytes: &'a [u8],
    clients: &'a BTreeMap<u64, Arc<KnownClient>>,
}

impl Chunk {
    fn end(&self) -> u64 {
        self.first + self.count
    }

    /// How many bytes were written up to its end.
    fn bytes_to_end(&self) -> u64 {
        self.bytes_before + self.bytes.len() as u64
    }

    /// A copy of its records from this index on.
    fn tail(&self, index: u64) -> Self {
        let (mut rest, mut first) = (self.bytes.as_slice(), self.first);
        while first < index
            && let Some((size, ..)) = Record::measure(rest)
            && let Some(others) = rest.get(size..)
        {
            (rest, first) = (others, first + 1);
        }
        let (before, skipped) = (self.bytes.len() - rest.len(), first - self.first);
        let (bytes_before, count) = (self.bytes_before + before as u64, self.count - skipped);
        Self { bytes: rest.to_vec(), first, bytes_before, count, events: 0 }
    }

    /// Its records from this index on, oldest first, not decoded.
    fn raw_records_from<'a>(
        &'a self,
        index: u64,
        clients: &'a BTreeMap<u64, Arc<KnownClient>>,
    ) -> impl Iterator<Item = RawRecord<'a>> {
        let (mut rest, mut next) = (self.bytes.as_slice(), self.first);
        std::iter::from_fn(move || {
            let (size, seq, real) = Record::measure(rest)?;
            let (bytes, others) = rest.split_at_checked(size)?;
            rest = others;
            next += 1;
            Some(RawRecord { index: next - 1, seq, real, bytes, clients })
        })
        .skip_while(move |raw| raw.index < index)
    }
}

/// The records in some chunks from this index on, oldest first, not decoded.
fn raw_records_of<'a>(
    chunks: impl Iterator<Item = &'a Chunk>,
    index: u64,
    clients: &'a BTreeMap<u64, Arc<KnownClient>>,
) -> impl Iterator<Item = RawRecord<'a>> {
    let chunks = chunks.filter(move |chunk| chunk.end() > index);
    chunks.flat_map(move |chunk| chunk.raw_records_from(index, clients))
}

impl JournalView {
    /// The records from this index on, oldest first.
    pub fn from(&self, index: u64) -> impl Iterator<Item = StoredRecord<'_>> {
        self.raw_records_from(index).filter_map(|raw| raw.read())
    }

    /// The records from this index on, oldest first, not yet decoded.
    pub fn raw_records_from(&self, index: u64) -> impl Iterator<Item = RawRecord<'_>> {
        raw_records_of(self.chunks.iter().map(|chunk| &**chunk), index, &self.clients)
    }
}

impl<'a> RawRecord<'a> {
    #[inline]
    pub fn header(&self) -> Option<RecordHeader<'a>> {
        Record::header(self.bytes)
    }

    fn client(&self, id: u64) -> Option<&'a KnownClient> {
        self.clients.get(&id).map(|client| &**client)
    }

    /// The name and the process of its client at the time of the record.
    pub fn labels(&self, header: &RecordHeader<'_>) -> (&'a [u8], Option<&'a Arc<Process>>) {
        labels_at(self.client(header.client), self.index)
    }

    /// The same; `None` if the client is connected to a node of a deployment.
    pub fn labels_without_node(&self, header: &RecordHeader<'_>) -> Option<(&'a [u8], Option<&'a Arc<Process>>)> {
        let client = self.client(header.client);
        let has_node = client.is_some_and(|client| !client.nodes.is_empty());
        (!has_node).then(|| labels_at(client, self.index))
    }

    pub fn read(&self) -> Option<StoredRecord<'a>> {
        let (record, _) = Record::read(self.bytes)?;
        let client = self.client(record.client);
        Some(StoredRecord { index: self.index, record, client })
    }
}

impl Ring {
    /// Counts its memory together with that of others.
    pub fn join(&mut self, share: Share<Ring>) {
        self.share = Some(share);
        self.count();
    }

    pub fn is_joined(&self) -> bool {
        self.share.is_some()
    }

    /// Sets the size in bytes, and drops what does not fit any more.
    pub fn resize(&mut self, most: usize) {
        self.most = most;
        self.make_room(0);
        // A chunk that is too large for this size would drop all its records together.
        if self.current.bytes.capacity() > self.largest_chunk() && most > 0 {
            self.start_chunk(0);
        }
        self.count();
    }

    /// Looks up how much room there is, and returns the largest size of a chunk.
    fn largest_chunk(&mut self) -> usize {
        self.room = self.most.min(self.share.as_ref().map_or(usize::MAX, Share::fair));
        (self.room / CHUNKS).clamp(LEAST_CHUNK, LARGEST_CHUNK)
    }

    /// Tells the memory of all journals what this one takes.
    fn count(&self) {
        if let Some(share) = &self.share {
            share.count(self.older_capacity + self.current.bytes.capacity());
        }
    }

    pub fn most(&self) -> usize {
        self.most
    }

    /// The bytes of all records.
    pub fn used(&self) -> usize {
        self.chunks().map(|chunk| chunk.bytes.len()).sum()
    }

    pub fn clear(&mut self) {
        let older = std::mem::take(&mut self.older);
        if self.older_capacity >= LARGE {
            free_beside("redouble-journal", older);
        }
        self.older_capacity = 0;
        let bytes_before = self.current.bytes_to_end();
        self.current = Chunk { first: self.written, bytes_before, ..Chunk::default() };
        self.clients = Clients::default();
        (self.forgotten, self.events, self.unseen, self.seen_bytes) = (0, 0, 0, bytes_before);
        self.count();
    }

    /// The chunks, the oldest first.
    fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        self.older.iter().map(|chunk| &**chunk).chain([&self.current])
    }

    /// The index of the oldest record.
    pub fn oldest(&self) -> u64 {
        self.older.front().map_or(&self.current, |chunk| &**chunk).first
    }

    /// Appends encoded records; returns the index of the first.
    pub fn append(&mut self, records: &[u8], count: u64) -> u64 {
        if self.current.bytes.capacity() - self.current.bytes.len() < records.len() {
            self.start_chunk(records.len());
        }
        self.current.bytes.extend_from_slice(records);
        self.current.count += count;
        let index = self.written;
        self.written += count;
        self.unseen += count;
        index
    }

    /// When the auditor is to read on.
    pub fn urgency(&self) -> Urgency {
        let unseen = self.current.bytes_to_end() - self.seen_bytes;
        let is_more_than = |part: usize| unseen > part as u64;
        match () {
            () if is_more_than(self.room / 2) => Urgency::Overdue,
            () if is_more_than(self.room / 4) => Urgency::Now,
            () if self.unseen > MOST_UNSEEN || is_more_than(self.room / 8) => Urgency::Soon,
            () => Urgency::None,
        }
    }

    /// How many records of average length fit into an eighth of the journal.
    pub fn records_per_eighth(&self) -> u64 {
        let records = self.written - self.oldest();
        records.saturating_mul(self.room as u64 / 8) / self.used().max(1) as u64
    }

    /// The records from this index on, at least `most` of them if there are as many.
    pub fn view(&self, index: u64, most: usize) -> JournalView {
        let end_wanted = index.max(self.oldest()).saturating_add(most as u64);
        let chunks = self.older.iter().filter(|chunk| chunk.end() > index && chunk.first < end_wanted);
        let mut chunks: Vec<_> = chunks.map(Arc::clone).collect();
        if self.current.first < end_wanted {
            chunks.push(Arc::new(self.current.tail(index)));
        }
        JournalView {
            end: chunks.last().map_or(self.written, |chunk| chunk.end()),
            clients: Arc::clone(&self.clients),
            oldest: self.oldest(),
            written: self.written,
            revisions: self.revisions,
            chunks,
        }
    }

    /// The auditor has read all but `left` of the records up to this index. The length of those that it has left does not count:
    /// they are few, or were left on purpose.
    pub fn note_seen(&mut self, end: u64, left: u64) {
        self.unseen = left.min(MOST_UNSEEN / 2) + self.written.saturating_sub(end);
        let next = self.chunks().find(|chunk| chunk.end() > end);
        self.seen_bytes = next.map_or(self.current.bytes_to_end(), |chunk| chunk.bytes_before);
    }

    /// Appends the record of an event.
    pub fn append_event(&mut self, record: &[u8]) {
        self.append(record, 1);
        self.events += 1;
        self.current.events += 1;
    }

    /// Begins a chunk with room for so many bytes.
    #[cold]
    fn start_chunk(&mut self, room: usize) {
        // Chunks grow with the journal: one of few records takes little memory.
        let usual = (self.older_capacity / CHUNKS).max(FIRST_CHUNK);
        let size = room.max(usual.min(self.largest_chunk()));
        let mut bytes_before = self.current.bytes_before;
        if self.current.count > 0 {
            let full = std::mem::take(&mut self.current);
            bytes_before = full.bytes_to_end();
            self.older_capacity += full.bytes.capacity();
            self.older.push_back(Arc::new(full));
        }
        // Memory that is much too large is not reused: it would take the room of several chunks.
        let fits = |bytes: &Vec<u8>| (size..=size.saturating_mul(2)).contains(&bytes.capacity());
        let freed = self.make_room(size).filter(fits);
        let reserved = freed.as_ref().map_or(size, Vec::capacity);
        let freed = self.share_room(reserved).filter(fits).or(freed);
        let mut bytes = freed.unwrap_or_default();
        bytes.clear();
        bytes.reserve_exact(size);
        self.current = Chunk { bytes, first: self.written, bytes_before, count: 0, events: 0 };
        self.count();
    }

    /// Counts so many more bytes, and has the fullest ring drop its oldest chunks until all rings have room for them. Returns
    /// the memory of the last one, if it was this ring's.
    fn share_room(&mut self, size: usize) -> Option<Vec<u8>> {
        let mut freed = None;
        let Some(share) = self.share.take() else { return freed };
        share.count(self.older_capacity + size);
        while share.is_over() {
            share.take_from_fuller(self.older_capacity + size);
            if !share.is_over() {
                break;
            }
            let Some(bytes) = self.drop_chunk() else {
                share.take_from_fuller(0);
                break;
            };
            share.count(self.older_capacity + size);
            freed = Some(bytes);
        }
        self.share = Some(share);
        freed
    }

    /// Drops the oldest chunk but the current one. Returns its memory, which is empty while a view has it.
    fn drop_chunk(&mut self) -> Option<Vec<u8>> {
        let oldest = self.older.pop_front()?;
        self.older_capacity -= oldest.bytes.capacity();
        self.forgotten += oldest.count - oldest.events;
        self.events -= oldest.events;
        Some(Arc::try_unwrap(oldest).map(|oldest| oldest.bytes).unwrap_or_default())
    }

    /// Drops the oldest chunks until there is room for so many bytes. Returns the memory of the last one.
    fn make_room(&mut self, size: usize) -> Option<Vec<u8>> {
        let mut freed = None;
        while self.older_capacity + size > self.most {
            let Some(bytes) = self.drop_chunk() else { break };
            freed = Some(bytes);
        }
        freed
    }

    /// Sets a client's address, name and node, from the next record on.
    pub fn add_client(&mut self, client: u64, record: ClientRecord) {
        if self.clients.len() >= self.most_clients.max(FEW_CLIENTS) {
            self.forget_clients();
        }
        let (oldest, next) = (self.oldest(), self.written);
        let mut name = record.name;
        name.truncate(LONGEST_NAME);
        let known = Arc::make_mut(&mut self.clients).entry(client).or_insert_with(|| {
            Arc::new(KnownClient { address: record.address, names: Vec::new(), process: None, nodes: Vec::new() })
        });
        Arc::make_mut(known).update(name, record.process, record.node, oldest, next);
    }

    #[cfg(test)]
    pub fn known_clients(&self) -> usize {
        self.clients.len()
    }

    /// Drops the clients that have no record.
    fn forget_clients(&mut self) {
        let present: BTreeSet<u64> = self.from(0).map(|stored| stored.record.client).collect();
        Arc::make_mut(&mut self.clients).retain(|client, _| present.contains(client));
        self.most_clients = self.clients.len() * 2;
    }

    /// The records from this index on, oldest first.
    pub fn from(&self, index: u64) -> impl Iterator<Item = StoredRecord<'_>> {
        self.raw_records_from(index).filter_map(|raw| raw.read())
    }

    /// As [`from`](Self::from), without decoding them.
    pub fn raw_records_from(&self, index: u64) -> impl Iterator<Item = RawRecord<'_>> {
        raw_records_of(self.chunks(), index, &self.clients)
    }

    /// Marks the last replies to a client as lost, `unwritten` bytes of them, none before record `from`.
    pub fn mark_replies_lost(&mut self, client: u64, from: u64, mut unwritten: u64) {
        self.revisions += 1;
        let mut lost = Vec::new();
        for stored in self.from(from) {
            if stored.record.client == client {
                lost.push((stored.index, stored.record.kept().reply_length));
            }
        }
        while let Some((index, length)) = lost.pop() {
            if unwritten == 0 {
                break;
            }
            unwritten = unwritten.saturating_sub(length);
            if length > 0 {
                self.mark_lost(index);
            }
        }
    }

    fn mark_lost(&mut self, index: u64) {
        let is_in = |chunk: &Chunk| (chunk.first..chunk.end()).contains(&index);
        let older = self.older.iter_mut().find(|chunk| is_in(chunk)).map(Arc::make_mut);
        let Some(chunk) = older.or_else(|| is_in(&self.current).then_some(&mut self.current)) else { return };
        let mut at = 0;
        for _ in chunk.first..index {
            let Some((size, ..)) = Record::measure(&chunk.bytes[at..]) else { return };
            at += size;
        }
        Record::mark_lost(&mut chunk.bytes[at..]);
    }
}

impl Forgetful for Ring {
    /// Gives back room that is not used, or drops the oldest chunk, even if it is the only one.
    fn forget(&mut self) -> bool {
        let (used, reserved) = (self.current.bytes.len(), self.current.bytes.capacity());
        if used < reserved / 2 && used > 0 {
            self.current.bytes.shrink_to_fit();
            self.count();
            return true;
        }
        if self.older.is_empty() && self.current.bytes.capacity() > 0 {
            let last = std::mem::take(&mut self.current);
            (self.current.first, self.current.bytes_before) = (self.written, last.bytes_to_end());
            self.older_capacity += last.bytes.capacity();
            self.older.push_back(Arc::new(last));
        }
        let has_dropped = self.drop_chunk().is_some();
        self.count();
        has_dropped
    }
}

impl StoredRecord<'_> {
    /// The client's name at the time of the record.
    pub fn client_name(&self) -> &[u8] {
        self.client_labels().0
    }

    /// The process that the client is, if that was known at the time of the record.
    pub fn client_process(&self) -> Option<&Arc<Process>> {
        self.client_labels().1
    }

    /// The client's name and process at the time of the record.
    pub fn client_labels(&self) -> (&[u8], Option<&Arc<Process>>) {
        labels_at(self.client, self.index)
    }

    /// The node that the client was connected to, as it was at the time of the record.
    pub fn client_node(&self) -> Option<&NodeSnapshot> {
        at_record(&self.client?.nodes, self.index)
    }

    /// The real address of the node that the record is about: the client's, or that of an event.
    pub fn node(&self) -> Option<Cow<'_, str>> {
        if self.record.event.is_some_and(EventKind::is_about_node) {
            return self.record.words().get(0).map(|node| Cow::Owned(text(node)));
        }
        self.client_node().map(|node| Cow::Borrowed(node.info.address.as_str()))
    }

    pub fn address(&self) -> &str {
        self.client.map(|known| known.address.as_str()).unwrap_or_default()
    }

    /// The whole entry or event.
    pub fn item(&self) -> Item {
        match self.record.event {
            Some(kind) => Item::Event(self.event(kind)),
            None => Item::Command(Box::new(self.entry())),
        }
    }

    fn event(&self, kind: EventKind) -> Event {
        let Record { seq, at, real, client, .. } = self.record;
        // In front of the detail, the record has the node.
        let before = usize::from(kind.is_about_node());
        let mut words: Vec<String> = self.record.words().iter().skip(before).map(text).collect();
        // Behind the key stand those that had it.
        let had_by = if kind == EventKind::Lost { words.split_off(words.len().min(1)) } else { Vec::new() };
        let (name, address) = (self.client_name().to_vec(), self.address().to_owned());
        let key = matches!(kind, EventKind::Evicted | EventKind::Lost)
            .then(|| (self.record.db, self.record.words().get(before).unwrap_or_default().to_vec()));
        let (process, node) = (self.client_process().cloned(), self.node().map(Cow::into_owned));
        Event { seq, at, real, kind, client, name, address, process, node, detail: words.join(" "), key, had_by }
    }

    /// The whole entry.
    pub fn entry(&self) -> Entry {
        let Record { seq, at, real, client, db, duration, outcome, order, are_children_unknown, .. } = self.record;
        let kept = self.record.kept();
        let (inside, left_out) = self.record.nested();
        Entry {
            seq,
            at,
            real,
            sent: self.record.sent(),
            order,
            duration,
            held_after: self.record.held_after(),
            client,
            name: self.client_name().to_vec(),
            address: self.address().to_owned(),
            process: self.client_process().cloned(),
            node: self.node().map(Cow::into_owned),
            db,
            words: owned(kept.words()),
            words_missing: kept.words_missing,
            reply: kept.reply.to_vec(),
            reply_length: kept.reply_length,
            outcome: self.record.event.map_or(outcome, Outcome::of_event),
            fault: self.record.fault().map(text),
            gates: self.record.gates().into_iter().map(text).collect(),
            children: tree(inside),
            children_missing: left_out.into(),
            are_children_unknown,
        }
    }
}

/// Puts commands under the one that ran them, which comes after them.
fn tree(inside: Vec<NestedCommand<'_>>) -> Vec<Child> {
    let mut levels: Vec<Vec<Child>> = vec![Vec::new()];
    for NestedCommand { depth, db, kept, fault } in inside {
        let depth = usize::from(depth);
        while levels.len() <= depth {
            levels.push(Vec::new());
        }
        let children = std::mem::take(&mut levels[depth]);
        let Payload { reply, words_missing, reply_length, .. } = kept;
        levels[depth - 1].push(Child {
            db,
            words: owned(kept.words()),
            words_missing,
            reply: reply.to_vec(),
            reply_length,
            fault: fault.map(text),
            children,
        });
    }
    levels.swap_remove(0)
}

fn owned(words: Words<'_>) -> Vec<Vec<u8>> {
    words.iter().map(<[u8]>::to_vec).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
