//! The records of several journals: those of one server in the order of their numbers, and all in that of real time.

use crate::powers::RawRecord;

/// The records of some servers.
pub struct MergedRecords<'h> {
    pub lists: Vec<ServerRecords<'h>>,
}

/// Records that were read of one server.
pub struct ReadRecords<'h> {
    /// The server's place in the list of servers.
    pub at: usize,
    pub records: Vec<RawRecord<'h>>,
    /// The index behind those that could be read.
    pub end: u64,
    /// How many the journal has ever had.
    pub written: u64,
}

/// The records of one server, in order.
pub struct ServerRecords<'h> {
    /// The server's place in the list of servers.
    pub at: usize,
    pub records: std::vec::IntoIter<RawRecord<'h>>,
    /// The index behind the last record.
    pub end: u64,
    /// Whether the journal has more records than were read.
    pub is_cut: bool,
}

impl<'h> MergedRecords<'h> {
    /// `portion` is the most records that were read of a server.
    pub fn new(servers: impl Iterator<Item = ReadRecords<'h>>, portion: usize) -> Self {
        let list = |ReadRecords { at, mut records, end, written }: ReadRecords<'h>| {
            let is_full = records.len() >= portion;
            let end = records.last().filter(|_| is_full).map_or(end, |unread| unread.index + 1);
            if !records.is_sorted_by_key(|unread| unread.seq) {
                records.sort_by_key(|unread| unread.seq);
            }
            ServerRecords { at, is_cut: end < written, end, records: records.into_iter() }
        };
        Self { lists: servers.map(list).collect() }
    }

    /// How many are left.
    pub fn count(&self) -> usize {
        self.lists.iter().map(|list| list.records.len()).sum()
    }

    /// The server whose record is next.
    pub fn peek(&self) -> Option<&ServerRecords<'h>> {
        self.lists.iter().filter(|list| list.records.len() > 0).min_by_key(|list| list.real())
    }

    pub fn next(&mut self) -> Option<(usize, RawRecord<'h>)> {
        let list = self.lists.iter_mut().filter(|list| list.records.len() > 0).min_by_key(|list| list.real())?;
        Some((list.at, list.records.next()?))
    }
}

impl ServerRecords<'_> {
    /// The real time of the next record.
    fn real(&self) -> Option<i64> {
        self.records.as_slice().first().map(|unread| unread.real)
    }

    /// The number of the next record.
    pub fn next_seq(&self) -> Option<u64> {
        self.records.as_slice().first().map(|unread| unread.seq)
    }

    /// The lowest index of the records that are left.
    pub fn first_left(&self) -> Option<u64> {
        self.records.as_slice().iter().map(|unread| unread.index).min()
    }
}
