//! Who read and who wrote which key last, in a table of fixed size. What falls out of it is not known any more.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::kept_value::{Dependence, KeptValue};

/// How many groups of keys there are, and how many reads and writes are kept of each.
const GROUPS: usize = 256;
pub const READS: usize = 8;
pub const WRITES: usize = 4;
/// How many bytes of a command are kept.
const TEXT: usize = 200;

/// The seeds with which keys are hashed.
const HASH: FixedState = FixedState::with_seed(2);

/// A key, or a field, a member or a place of it: the hash of its name.
pub type PartId = u64;

/// Who did something, and when.
#[derive(Clone, Copy)]
pub struct Moment {
    pub server: u16,
    pub client: u64,
    pub seq: u64,
    /// The place in the order in which commands took effect.
    pub place: u64,
    /// On the server's clock.
    pub at: i64,
    /// The latest and the earliest real time.
    pub real: i64,
    pub earliest: i64,
    /// Whether the place is certain.
    pub is_placed: bool,
}

impl Moment {
    /// Whether this was before another moment in every order that is possible.
    pub fn is_before(&self, other: &Self) -> bool {
        match self.is_placed && other.is_placed {
            true => self.place < other.place,
            false => self.real < other.earliest,
        }
    }
}

/// A client's last read.
#[derive(Clone)]
pub struct KeptRead {
    pub moment: Moment,
    /// The command's name.
    pub command: &'static str,
    pub value: KeptValue,
    pub use_: ReadUse,
    /// A script read it for the client.
    pub is_in_script: bool,
    /// The client's read before, if it has not written since.
    pub before: Option<(Moment, &'static str)>,
}

impl KeptRead {
    /// Whether the client has found nothing, and done nothing about it so far. A script that looked may have.
    pub fn is_absence(&self) -> bool {
        self.value.is_none() && self.use_ == ReadUse::Open && !self.is_in_script
    }
}

/// What the client has done with what it read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ReadUse {
    /// Nothing so far.
    Open,
    /// It watched the key twice, read it twice, and has written it once, in EXEC: two of its tasks share the connection.
    Shared,
    /// It deleted the key.
    Deleted,
    /// It wrote the key.
    Used,
}

/// A client's last write.
#[derive(Clone)]
pub struct KeptWrite {
    pub moment: Moment,
    pub kind: WriteKind,
    pub value: KeptValue,
    /// The client's own read before it, and what the value has of it.
    pub basis: Option<Basis>,
    text: [u8; TEXT],
    length: u8,
}

/// What a client had read before it wrote.
#[derive(Clone, Copy)]
pub struct Basis {
    pub moment: Moment,
    pub command: &'static str,
    pub dependence: Dependence,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum WriteKind {
    /// A value that the client had made up.
    Value,
    /// A change in one step.
    Update,
    /// The value went, or another one came.
    Removal,
}

impl KeptWrite {
    pub fn new(moment: Moment, kind: WriteKind, value: KeptValue, basis: Option<Basis>, words: &[&[u8]]) -> Self {
        let (mut text, mut length) = ([0; TEXT], 0);
        for word in words {
            let room = TEXT - length;
            let part = &word[..word.len().min(room)];
            text[length..length + part.len()].copy_from_slice(part);
            length = (length + part.len() + 1).min(TEXT);
        }
        let length = u8::try_from(length).unwrap_or(u8::MAX);
        Self { moment, kind, value, basis, text, length }
    }

    /// Whether all of the command's words are known.
    pub fn is_whole(&self) -> bool {
        usize::from(self.length) < TEXT
    }

    /// The command's words; the last one may be cut off.
    pub fn words(&self) -> Vec<&[u8]> {
        let text = &self.text[..usize::from(self.length)];
        text.strip_suffix(b"\0").unwrap_or(text).split(|byte| *byte == 0).collect()
    }
}

/// Some of the last entries, each of a part and a client. The oldest makes room.
#[derive(Clone)]
struct Entries<T, const N: usize> {
    /// Part, client, and the number of the line.
    tags: [(PartId, u64, u64); N],
    kept: [Option<T>; N],
}

impl<T: Clone, const N: usize> Entries<T, N> {
    const EMPTY: Self = Self { tags: [(0, 0, 0); N], kept: [const { None }; N] };

    #[inline]
    fn find(&self, part: PartId, client: u64) -> Option<usize> {
        self.tags.iter().position(|tag| (tag.0, tag.1) == (part, client))
    }

    fn of(&self, part: PartId) -> impl Iterator<Item = &T> {
        self.tags.iter().zip(&self.kept).filter(move |(tag, _)| tag.0 == part).filter_map(|(_, kept)| kept.as_ref())
    }

    #[inline]
    fn put(&mut self, part: PartId, (client, seq): (u64, u64), entry: T) {
        let oldest = || (0..N).min_by_key(|at| self.tags[*at].2).unwrap_or(0);
        let at = self.find(part, client).unwrap_or_else(oldest);
        (self.tags[at], self.kept[at]) = ((part, client, seq), Some(entry));
    }

    fn forget(&mut self, is_meant: impl Fn(&T) -> bool) {
        for (tag, kept) in self.tags.iter_mut().zip(&mut self.kept) {
            if kept.as_ref().is_some_and(&is_meant) {
                (*tag, *kept) = ((0, 0, 0), None);
            }
        }
    }
}

/// The keys whose hashes end alike.
#[derive(Clone)]
struct Group {
    reads: Entries<KeptRead, READS>,
    writes: Entries<KeptWrite, WRITES>,
}

/// The last reads and writes. Copies share the groups to which nothing happens.
#[derive(Clone, Default)]
pub struct KeyVersions {
    groups: Vec<Option<Arc<Group>>>,
}

impl KeyVersions {
    #[inline]
    pub fn part_id(server: u16, db: u32, key: &[u8], part: &[u8]) -> PartId {
        HASH.hash_one((server, db, key, part))
    }

    fn group(&self, part: PartId) -> Option<&Group> {
        self.groups.get(place_of(part))?.as_deref()
    }

    #[inline]
    fn group_mut(&mut self, part: PartId) -> &mut Group {
        if self.groups.is_empty() {
            self.groups.resize(GROUPS, None);
        }
        let group = self.groups[place_of(part)]
            .get_or_insert_with(|| Arc::new(Group { reads: Entries::EMPTY, writes: Entries::EMPTY }));
        Arc::make_mut(group)
    }

    pub fn reads_of(&self, part: PartId) -> impl Iterator<Item = &KeptRead> {
        self.group(part).into_iter().flat_map(move |group| group.reads.of(part))
    }

    pub fn writes_of(&self, part: PartId) -> impl Iterator<Item = &KeptWrite> {
        self.group(part).into_iter().flat_map(move |group| group.writes.of(part))
    }

    /// Whether nobody has read anything.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Whether anybody has read a part. A write of what nobody has read is lost by nobody who has.
    #[inline]
    pub fn is_read(&self, part: PartId) -> bool {
        self.group(part).is_some_and(|group| group.reads.tags.iter().any(|tag| tag.0 == part))
    }

    /// Whether anybody has found nothing in a part, and done nothing about it so far.
    #[inline]
    pub fn is_found_absent(&self, part: PartId) -> bool {
        self.reads_of(part).any(KeptRead::is_absence)
    }

    #[inline]
    pub fn read_by(&self, part: PartId, client: u64) -> Option<&KeptRead> {
        let reads = &self.group(part)?.reads;
        reads.kept[reads.find(part, client)?].as_ref()
    }

    /// Whether a client has read a part before another one wrote it.
    #[inline]
    pub fn is_written_after(&self, part: PartId, read: &Moment) -> bool {
        self.writes_of(part).any(|write| write.moment.client != read.client && read.is_before(&write.moment))
    }

    #[inline]
    pub fn note_read(&mut self, part: PartId, read: KeptRead) {
        let by = (read.moment.client, read.moment.seq);
        self.group_mut(part).reads.put(part, by, read);
    }

    #[inline]
    pub fn note_write(&mut self, part: PartId, write: KeptWrite) {
        let by = (write.moment.client, write.moment.seq);
        self.group_mut(part).writes.put(part, by, write);
    }

    /// Notes what a client does with what it has read.
    #[inline]
    pub fn use_read(&mut self, part: PartId, client: u64, use_: ReadUse) {
        if self.read_by(part, client).is_some_and(|read| read.use_ != use_) {
            let reads = &mut self.group_mut(part).reads;
            if let Some(read) = reads.find(part, client).and_then(|at| reads.kept[at].as_mut()) {
                read.use_ = use_;
            }
        }
    }

    /// It is not known any more what a client knows of a part.
    pub fn forget_read(&mut self, part: PartId, client: u64) {
        if self.read_by(part, client).is_some() {
            self.group_mut(part).reads.forget(|read| read.moment.client == client);
        }
    }

    /// It is not known any more what a client knows.
    pub fn forget_reads_of(&mut self, server: u16, client: u64) {
        for group in self.groups.iter_mut().flatten() {
            let is_meant = |read: &KeptRead| (read.moment.server, read.moment.client) == (server, client);
            if group.reads.kept.iter().flatten().any(is_meant) {
                Arc::make_mut(group).reads.forget(is_meant);
            }
        }
    }

    pub fn clear(&mut self) {
        self.groups.clear();
    }
}

fn place_of(part: PartId) -> usize {
    usize::try_from(part % GROUPS as u64).unwrap_or(0)
}
