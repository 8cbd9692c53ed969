//! The records of several journals: those of one server in the order of their numbers, and all in that of real time.

use crate::powers::{LockedJournal, RawRecord};

/// The records of some servers.
pub struct MergedRecords<'h> {
    pub lists: Vec<ServerRecords<'h>>,
}

/// The records of one server.
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
    /// `records` reads those of a server, at most `portion`.
    pub fn new(
        held: &'h [(usize, LockedJournal<'_>)],
        portion: usize,
        records: impl Fn(usize, &'h LockedJournal<'_>) -> Vec<RawRecord<'h>>,
    ) -> Self {
        let list = |(at, held): &'h (usize, LockedJournal<'_>)| {
            let mut records = records(*at, held);
            let end = records.last().map_or(held.written(), |unread| unread.index + 1);
            if !records.is_sorted_by_key(|unread| unread.seq) {
                records.sort_by_key(|unread| unread.seq);
            }
            let is_cut = end < held.written() && records.len() >= portion;
            ServerRecords { at: *at, is_cut, end, records: records.into_iter() }
        };
        Self { lists: held.iter().map(list).collect() }
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
