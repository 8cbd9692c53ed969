//! Where the journal keeps what it has, and the clients that it is about.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::task::Waker;

use super::entry::{Child, Entry, Event, EventKind, Item};
use super::record::{NestedCommand, Payload, Record, RecordHeader};
use crate::protocol::Words;

/// Records are kept in chunks: the oldest goes as a whole when there is no room for another.
const LARGEST_CHUNK: usize = 256 * 1024;
/// How many chunks there are at least.
const CHUNKS: usize = 8;
/// A client's name is kept up to here.
const LONGEST_NAME: usize = 1024;
/// How many records whoever is to see everything leaves for later at most, if there is room for them.
const MOST_UNSEEN: u64 = 8192;
/// How many clients are remembered before those are looked for whose records are gone.
const FEW_CLIENTS: usize = 1024;

/// The records, of which the oldest fall out.
#[derive(Default)]
pub(super) struct Ring {
    /// In bytes; 0 while nothing was ever to be kept.
    most: usize,
    older: VecDeque<Chunk>,
    current: Chunk,
    /// How much the older ones may grow to.
    older_capacity: usize,
    /// How many records were written in all, and how many of those have fallen out.
    pub written: u64,
    /// How many commands have fallen out.
    pub forgotten: u64,
    /// How many of the records that are there are no commands.
    pub events: u64,
    /// How often something that was kept has turned out otherwise.
    pub revisions: u64,
    /// How much has come that whoever is to see everything has not looked at: records, and bytes.
    unseen: (u64, usize),
    clients: BTreeMap<u64, KnownClient>,
    /// When clients are next looked through.
    most_clients: usize,
    /// How many have followed the journal, and those who want to know of the next record.
    pub followers: u64,
    pub watchers: Vec<(u64, Waker)>,
}

#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    /// Which record the first one is, counted from 0.
    first: u64,
    count: u64,
    /// How many of those are no commands.
    events: u64,
}

/// What is known of a client.
struct KnownClient {
    address: String,
    /// Its names, each with the record from which on it has it.
    names: Vec<(u64, Box<[u8]>)>,
}

/// What a client is told of as.
pub struct ClientRecord {
    pub address: String,
    pub name: Vec<u8>,
}

/// A record in the ring.
pub struct StoredRecord<'a> {
    /// Which one it is, counted from 0.
    pub index: u64,
    pub record: Record<'a>,
    ring: &'a Ring,
}

/// A record in the ring that is not read yet.
pub struct RawRecord<'a> {
    /// Which one it is, counted from 0.
    pub index: u64,
    /// Its place in the order, and when it took effect in real time.
    pub seq: u64,
    pub real: i64,
    bytes: &'a [u8],
    ring: &'a Ring,
}

impl<'a> RawRecord<'a> {
    #[inline]
    pub fn header(&self) -> Option<RecordHeader<'a>> {
        Record::header(self.bytes)
    }

    pub fn read(&self) -> Option<StoredRecord<'a>> {
        let (record, _) = Record::read(self.bytes)?;
        Some(StoredRecord { index: self.index, record, ring: self.ring })
    }
}

impl Ring {
    /// Sets how many bytes there are room for. What does not fit any more falls out.
    pub fn resize(&mut self, most: usize) {
        self.most = most;
        self.make_room(0);
        // With a chunk that is too large for this, all that is in it would fall out together.
        if most > 0 && self.current.bytes.capacity() > self.chunk_size() {
            self.start_chunk(0);
        }
    }

    fn chunk_size(&self) -> usize {
        (self.most / CHUNKS).min(LARGEST_CHUNK)
    }

    pub fn most(&self) -> usize {
        self.most
    }

    /// How many bytes the records take.
    pub fn used(&self) -> usize {
        self.older.iter().map(|chunk| chunk.bytes.len()).sum::<usize>() + self.current.bytes.len()
    }

    pub fn clear(&mut self) {
        self.older.clear();
        self.older_capacity = 0;
        self.current = Chunk { first: self.written, ..Chunk::default() };
        self.clients.clear();
        (self.forgotten, self.events, self.unseen) = (0, 0, (0, 0));
    }

    /// Which record is the oldest that is there.
    pub fn oldest(&self) -> u64 {
        self.older.front().unwrap_or(&self.current).first
    }

    /// Takes in so many records; which one the first of them is.
    pub fn append(&mut self, records: &[u8], count: u64) -> u64 {
        if self.current.bytes.capacity() - self.current.bytes.len() < records.len() {
            self.start_chunk(records.len());
        }
        self.current.bytes.extend_from_slice(records);
        self.current.count += count;
        let index = self.written;
        self.written += count;
        self.unseen.0 += count;
        self.unseen.1 += records.len();
        index
    }

    /// Whether so much has not been looked at that it should be now, before it falls out.
    pub fn is_overtaking(&self) -> bool {
        self.unseen.0 > MOST_UNSEEN || self.unseen.1 > self.most / 4
    }

    /// All but so many records were looked at. How long those are is of no account: they are few. If they are not, they
    /// were left on purpose.
    pub fn leave_unseen(&mut self, records: u64) {
        self.unseen = (records.min(MOST_UNSEEN / 2), 0);
    }

    /// Takes in a record that is no command.
    pub fn append_event(&mut self, record: &[u8]) {
        self.append(record, 1);
        self.events += 1;
        self.current.events += 1;
    }

    /// Begins a chunk that has room for so many bytes.
    #[cold]
    fn start_chunk(&mut self, room: usize) {
        let size = room.max(self.chunk_size());
        if self.current.count > 0 {
            let full = std::mem::take(&mut self.current);
            self.older_capacity += full.bytes.capacity();
            self.older.push_back(full);
        }
        // A chunk that is much too large stays as long as one that is not, and takes the room of several.
        let fits = |bytes: &Vec<u8>| (size..=size.saturating_mul(2)).contains(&bytes.capacity());
        let mut bytes = self.make_room(size).filter(fits).unwrap_or_default();
        bytes.clear();
        bytes.reserve_exact(size);
        self.current = Chunk { bytes, first: self.written, count: 0, events: 0 };
    }

    /// Lets the oldest chunks fall out until there is room for so many bytes. Hands back the memory of the last.
    fn make_room(&mut self, size: usize) -> Option<Vec<u8>> {
        let mut freed = None;
        while self.older_capacity + size > self.most {
            let Some(oldest) = self.older.pop_front() else { break };
            self.older_capacity -= oldest.bytes.capacity();
            self.forgotten += oldest.count - oldest.events;
            self.events -= oldest.events;
            freed = Some(oldest.bytes);
        }
        freed
    }

    /// From the next record on a client goes by this name.
    pub fn add_client(&mut self, client: u64, record: ClientRecord) {
        if self.clients.len() >= self.most_clients.max(FEW_CLIENTS) {
            self.forget_clients();
        }
        let (oldest, next) = (self.oldest(), self.written);
        let mut name = record.name;
        name.truncate(LONGEST_NAME);
        let known =
            self.clients.entry(client).or_insert_with(|| KnownClient { address: record.address, names: Vec::new() });
        if known.names.last().is_some_and(|(_, last)| **last == *name) {
            return;
        }
        // Of those that no record goes by any more, none is needed.
        let gone = known.names.iter().skip(1).take_while(|(from, _)| *from <= oldest).count();
        known.names.drain(..gone);
        known.names.push((next, name.into()));
    }

    #[cfg(test)]
    pub fn known_clients(&self) -> usize {
        self.clients.len()
    }

    /// Forgets the clients of whom there is no record.
    fn forget_clients(&mut self) {
        let met: BTreeSet<u64> = self.from(0).map(|stored| stored.record.client).collect();
        self.clients.retain(|client, _| met.contains(client));
        self.most_clients = self.clients.len() * 2;
    }

    /// The records from this one on, oldest first.
    pub fn from(&self, index: u64) -> impl Iterator<Item = StoredRecord<'_>> {
        self.raw_records_from(index).filter_map(|raw| raw.read())
    }

    /// As [`from`](Self::from), without reading them.
    pub fn raw_records_from(&self, index: u64) -> impl Iterator<Item = RawRecord<'_>> {
        let chunks = self.older.iter().chain([&self.current]);
        let chunks = chunks.filter(move |chunk| chunk.first + chunk.count > index);
        chunks.flat_map(move |chunk| {
            let mut rest = chunk.bytes.as_slice();
            let mut next = chunk.first;
            std::iter::from_fn(move || {
                let (size, seq, real) = Record::measure(rest)?;
                let (bytes, others) = rest.split_at_checked(size)?;
                rest = others;
                next += 1;
                Some(RawRecord { index: next - 1, seq, real, bytes, ring: self })
            })
            .skip_while(move |raw| raw.index < index)
        })
    }

    /// Says that the last replies to a client are lost, so many bytes of them. The first of them is not before this
    /// record.
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
        let mut chunks = self.older.iter_mut().chain([&mut self.current]);
        let Some(chunk) = chunks.find(|chunk| (chunk.first..chunk.first + chunk.count).contains(&index)) else {
            return;
        };
        let mut at = 0;
        for _ in chunk.first..index {
            let Some((size, ..)) = Record::measure(&chunk.bytes[at..]) else { return };
            at += size;
        }
        Record::mark_lost(&mut chunk.bytes[at..]);
    }
}

impl StoredRecord<'_> {
    /// The client's name at that time.
    pub fn client_name(&self) -> &[u8] {
        let Some(known) = self.ring.clients.get(&self.record.client) else { return &[] };
        known.names.iter().rev().find(|(from, _)| *from <= self.index).map(|(_, name)| &**name).unwrap_or_default()
    }

    pub fn address(&self) -> &str {
        self.ring.clients.get(&self.record.client).map(|known| known.address.as_str()).unwrap_or_default()
    }

    /// All that there is about it, whatever it is.
    pub fn item(&self) -> Item {
        match self.record.event {
            Some(kind) => Item::Event(self.event(kind)),
            None => Item::Command(Box::new(self.entry())),
        }
    }

    fn event(&self, kind: EventKind) -> Event {
        let Record { seq, at, real, client, .. } = self.record;
        let words: Vec<String> = self.record.words().iter().map(text).collect();
        let (name, address) = (self.client_name().to_vec(), self.address().to_owned());
        Event { seq, at, real, kind, client, name, address, detail: words.join(" ") }
    }

    /// All that there is about a command.
    pub fn entry(&self) -> Entry {
        let Record { seq, at, real, client, db, duration, outcome, .. } = self.record;
        let kept = self.record.kept();
        let (inside, left_out) = self.record.inside();
        Entry {
            seq,
            at,
            real,
            duration,
            held_after: self.record.held_after(),
            client,
            name: self.client_name().to_vec(),
            address: self.address().to_owned(),
            db,
            words: owned(kept.words()),
            words_missing: kept.words_missing,
            reply: kept.reply.to_vec(),
            reply_length: kept.reply_length,
            outcome,
            fault: self.record.fault().map(text),
            gates: self.record.gates().into_iter().map(text).collect(),
            children: tree(inside),
            children_missing: left_out.into(),
        }
    }
}

/// Puts those inside under those that have run them, which come behind.
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
