//! Data as the commands that create it, one a line, quoted for `redis-cli`.

use crate::base::profile::Profile;
use crate::data::keyspace::{Entry, Group, Stream, StreamId, ValueKind};
use crate::data::rdb::{self, Content};
use crate::protocol::{quote_readably, write_shortest};

const HEADING: &str = "# Data of a Redis server, one command a line. To start a server with it: redouble --load FILE\n";

/// The most elements or pairs of a value on one line, so that a diff is easy to read.
const ON_A_LINE: usize = 8;

pub struct Listing {
    out: Vec<u8>,
    profile: Profile,
}

impl Listing {
    pub fn new(profile: Profile) -> Self {
        Self { out: HEADING.as_bytes().to_vec(), profile }
    }

    /// Lines that are added to a listing later.
    pub fn lines(out: Vec<u8>, profile: Profile) -> Self {
        Self { out, profile }
    }

    pub fn library(&mut self, source: &[u8]) {
        self.line([b"FUNCTION".as_slice(), b"LOAD", b"REPLACE", source]);
    }

    /// The following keys belong to this database.
    pub fn database(&mut self, db: u32) {
        self.line([b"SELECT".as_slice(), db.to_string().as_bytes()]);
    }

    pub fn key(&mut self, entry: &Entry) {
        let key = entry.key();
        let stream = entry.collection::<Stream>();
        if entry.kind() == ValueKind::Stream && !stream.is_some_and(is_plain) {
            return self.payload(entry);
        }
        match entry.content() {
            Content::String(value) => self.line([b"SET".as_slice(), key, &value]),
            Content::Integers { values, .. } => {
                let members: Vec<String> = values.iter().map(i64::to_string).collect();
                self.elements("SADD", key, members.iter().map(String::as_bytes), 1);
            }
            Content::Set { members, .. } => self.elements("SADD", key, members.iter().map(AsRef::as_ref), 1),
            Content::List(nodes) => {
                let nodes: Vec<_> = nodes.iter().flat_map(|node| node.elements()).collect();
                self.elements("RPUSH", key, nodes.iter().map(AsRef::as_ref), 1);
            }
            Content::Elements(elements) => self.elements("RPUSH", key, elements.iter().map(AsRef::as_ref), 1),
            Content::Hash { fields, .. } => {
                let pairs = fields.iter().flat_map(|field| [&*field.name, &*field.value]);
                self.elements("HSET", key, pairs, 2);
                for (field, until) in fields.iter().filter_map(|field| Some((field, field.until?))) {
                    let until = until.to_string();
                    self.line([b"HPEXPIREAT".as_slice(), key, until.as_bytes(), b"FIELDS", b"1", &field.name]);
                }
            }
            Content::SortedSet { rows, .. } => {
                let scores: Vec<Vec<u8>> = rows.iter().map(|(_, score)| text_of(*score)).collect();
                let pairs = scores.iter().zip(&rows).flat_map(|(score, (member, _))| [score.as_slice(), member]);
                self.elements("ZADD", key, pairs, 2);
            }
            Content::Stream(_) => stream.into_iter().for_each(|stream| self.stream(key, stream)),
        }
        if let Some(deadline) = entry.deadline() {
            self.line([b"PEXPIREAT".as_slice(), key, deadline.to_string().as_bytes()]);
        }
    }

    fn stream(&mut self, key: &[u8], stream: &Stream) {
        let log = stream.log();
        let mut last = StreamId::LEAST;
        for entry in log.range(StreamId::LEAST, StreamId::GREATEST) {
            let fields: Vec<_> =
                entry.fields.into_iter().flat_map(|(name, value)| [name.to_bytes(), value.to_bytes()]).collect();
            let id = entry.id.to_text();
            let words = [b"XADD".as_slice(), key, &id];
            self.line(words.into_iter().chain(fields.iter().map(AsRef::as_ref)));
            last = entry.id;
        }
        let counters = self.profile.since_redis(7, 0);
        let is_counted = log.added() == log.len() && log.max_deleted() == StreamId::LEAST;
        if (log.last() != last || counters && !is_counted) && !log.is_empty() {
            let (last, deleted, added) = (log.last().to_text(), log.max_deleted().to_text(), log.added().to_string());
            let words = [b"XSETID".as_slice(), key, &last];
            let more = [b"ENTRIESADDED".as_slice(), added.as_bytes(), b"MAXDELETEDID", &deleted];
            self.line(words.into_iter().chain(more.into_iter().filter(|_| counters)));
        }
        for (index, (name, group)) in stream.groups().enumerate() {
            let (last, read) = (group.last().to_text(), group.read().filter(|_| counters).map(|read| read.to_string()));
            let words = [b"XGROUP".as_slice(), b"CREATE", key, name, &last];
            let makes = (index == 0 && log.is_empty()).then_some(b"MKSTREAM".as_slice());
            let read = read.iter().flat_map(|read| [b"ENTRIESREAD".as_slice(), read.as_bytes()]);
            self.line(words.into_iter().chain(makes).chain(read));
        }
    }

    /// Writes a RESTORE of a value that no other command recreates exactly.
    fn payload(&mut self, entry: &Entry) {
        let deadline = entry.deadline().unwrap_or(0).to_string();
        let payload = rdb::dump(&entry.content(), &self.profile);
        let words = [b"RESTORE".as_slice(), entry.key(), deadline.as_bytes(), &payload];
        self.line(words.into_iter().chain(entry.deadline().map(|_| b"ABSTTL".as_slice())));
    }

    /// Writes a command with many elements, divided into lines; groups of `size` elements stay together.
    fn elements<'w>(
        &mut self,
        command: &'w str,
        key: &'w [u8],
        elements: impl Iterator<Item = &'w [u8]> + 'w,
        size: usize,
    ) {
        let mut elements = elements.peekable();
        while elements.peek().is_some() {
            let words = [command.as_bytes(), key];
            self.line(words.into_iter().chain(elements.by_ref().take(ON_A_LINE * size)));
        }
    }

    fn line<'w>(&mut self, words: impl IntoIterator<Item = &'w [u8]>) {
        for (index, word) in words.into_iter().enumerate() {
            if index > 0 {
                self.out.push(b' ');
            }
            self.out.extend(quote_readably(word));
        }
        self.out.push(b'\n');
    }

    /// Adds lines that were written apart.
    pub fn add(&mut self, lines: &[u8]) {
        self.out.extend_from_slice(lines);
    }

    pub fn finish(self) -> Vec<u8> {
        self.out
    }
}

/// Whether commands can recreate a stream. No command sets the time at which a consumer was seen, and an empty stream
/// has counters that XADD cannot restore.
fn is_plain(stream: &Stream) -> bool {
    let log = stream.log();
    let untouched = log.added() == 0 && log.last() == StreamId::LEAST && log.max_deleted() == StreamId::LEAST;
    let made = if log.is_empty() { untouched && stream.groups().len() > 0 } else { true };
    made && stream.groups().all(|(_, group): (_, &Group)| group.consumers().len() == 0)
}

fn text_of(score: f64) -> Vec<u8> {
    let mut text = Vec::new();
    write_shortest(&mut text, score);
    text
}
