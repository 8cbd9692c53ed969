//! The journal: every command that clients have sent, in the order in which they took effect.

mod command_trace;
mod distance;
mod entry;
mod file;
mod query;
mod record;
mod render;
mod ring;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Context;

use ring::Ring;

use crate::base::sync::MutexExt;
use crate::protocol::OwnedWords;

pub use command_trace::{CommandTrace, Ending, Staging, Stamp};
pub use distance::{distance, short_line};
#[cfg(feature = "internals")]
pub use entry::Event;
pub use entry::{Child, Entry, EventKind, Item, Outcome};
pub use file::{RecordedLines, read_journal, write_journal};
use query::NameRequest;
pub use query::Query;
use record::Record;
pub use record::{Line, RecordHeader};
pub use render::rendered;
pub use ring::{ClientRecord, RawRecord, StoredRecord};

/// How many bytes there is room for unless something else is asked for, and how many at least.
pub const USUAL_SIZE: usize = 64 << 20;
pub const LEAST_SIZE: usize = 256 << 10;
/// At most.
pub const MOST_SIZE: usize = 64 << 30;

/// The journal of one server.
#[derive(Default)]
pub struct Journal {
    /// The last place in the order that was given away.
    seq: AtomicU64,
    /// Which life of the journal it is: clients are to be introduced anew in each. Even while it is off.
    epoch: AtomicU32,
    ring: Mutex<Ring>,
}

/// How full the journal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalStats {
    pub is_on: bool,
    /// In bytes: how much there is room for, and how much is taken.
    pub most: usize,
    pub used: usize,
    /// How many entries there are, and how many have fallen out since it was last emptied.
    pub entries: u64,
    pub forgotten: u64,
    /// The last place in the order that was given away.
    pub last: u64,
    /// How many records were ever written.
    pub written: u64,
}

impl Journal {
    /// Begins to keep what is told, or goes on with it; what is there already stays.
    pub fn start(&self, most: usize) {
        let mut ring = self.ring();
        ring.resize(most.clamp(LEAST_SIZE, MOST_SIZE));
        if !self.is_on() {
            self.epoch.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Keeps nothing more; what is there stays.
    pub fn stop(&self) {
        let ring = self.ring();
        if self.is_on() {
            self.epoch.fetch_add(1, Ordering::Relaxed);
        }
        wake(ring);
    }

    /// Whether it keeps what is told.
    pub fn is_on(&self) -> bool {
        self.epoch.load(Ordering::Relaxed) % 2 == 1
    }

    /// Whether it has ever kept anything.
    pub fn was_on(&self) -> bool {
        self.ring().most() > 0
    }

    /// Forgets everything. The order goes on from where it is.
    pub fn clear(&self) {
        let mut ring = self.ring();
        self.epoch.fetch_add(2, Ordering::Relaxed);
        ring.clear();
    }

    /// As if it had never been on.
    pub fn reset(&self) {
        self.stop();
        self.clear();
        self.ring().resize(0);
        self.seq.store(0, Ordering::Relaxed);
    }

    /// The next place in the order in which commands take effect: to be asked for while what the command has locked is
    /// still locked.
    #[inline]
    pub fn next(&self) -> u64 {
        self.seq.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The last place that was given away.
    pub fn last(&self) -> u64 {
        self.seq.load(Ordering::Relaxed)
    }

    /// In which life of the journal clients are to be introduced.
    #[inline]
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Keeps what is staged, unless the journal is off by now; nothing is staged then. Says which record the first is, and
    /// whether so much has come since [`LockedJournal::leave_unseen`] that what is older will fall out soon.
    pub fn append(&self, staging: &mut Staging) -> Option<(u64, bool)> {
        let mut ring = self.ring();
        let index = self.is_on().then(|| ring.append(&staging.bytes, staging.count));
        let is_overtaking = ring.is_overtaking();
        if !ring.watchers.is_empty() {
            wake(ring);
        }
        staging.empty();
        Some((index?, is_overtaking))
    }

    /// Keeps that something has happened that is no command, unless the journal is off. `client` is 0 if it is about none.
    pub fn note_event(&self, kind: EventKind, client: u64, (at, real): (i64, i64), detail: &OwnedWords) {
        let mut ring = self.ring();
        if !self.is_on() {
            return;
        }
        let line = Line {
            seq: self.next(),
            event: Some(kind),
            at,
            real,
            client,
            db: 0,
            duration: 0,
            outcome: Outcome::Silent,
            words: detail.as_words(),
            reply: &[],
            held_after: None,
            fault: None,
            gates: &[],
            children: None,
        };
        let mut record = Vec::new();
        Record::write(&line, &mut record);
        ring.append_event(&record);
        if !ring.watchers.is_empty() {
            wake(ring);
        }
    }

    /// Everything that there is, in order.
    pub fn items(&self) -> Vec<Item> {
        let ring = self.ring();
        let mut items: Vec<(u64, Item)> = ring.from(0).map(|stored| (stored.record.seq, stored.item())).collect();
        drop(ring);
        items.sort_by_key(|(seq, _)| *seq);
        items.into_iter().map(|(_, item)| item).collect()
    }

    /// From the next record on a client goes by this name.
    pub fn add_client(&self, client: u64, record: ClientRecord) {
        self.ring().add_client(client, record);
    }

    /// Says that the last replies to a client are lost, so many bytes of them, none of them before this record.
    pub fn mark_replies_lost(&self, client: u64, from: u64, unwritten: usize) {
        let mut ring = self.ring();
        ring.mark_replies_lost(client, from, unwritten as u64);
        wake(ring);
    }

    /// Lets somebody look at the records from this one on, oldest first. Commands wait meanwhile.
    pub fn read<R>(&self, from: u64, read: impl FnOnce(&mut dyn Iterator<Item = StoredRecord<'_>>) -> R) -> R {
        read(&mut self.ring().from(from))
    }

    /// Holds on to all records, to look at them beside those of other journals. Commands wait meanwhile.
    pub fn lock(&self) -> LockedJournal<'_> {
        LockedJournal { ring: self.ring() }
    }

    /// Has those who follow look again, although nothing has come.
    pub fn wake_followers(&self) {
        wake(self.ring());
    }

    /// Somebody who wants to see everything that there is, and everything that is to come.
    pub fn follower(self: &Arc<Self>) -> Follower {
        let mut ring = self.ring();
        ring.followers += 1;
        let (id, next, revisions) = (ring.followers, ring.oldest(), ring.revisions);
        drop(ring);
        Follower { journal: Arc::clone(self), id, epoch: self.epoch(), next, revisions, missed: 0 }
    }

    pub fn stats(&self) -> JournalStats {
        let ring = self.ring();
        JournalStats {
            is_on: self.is_on(),
            most: ring.most(),
            used: ring.used(),
            entries: ring.written - ring.oldest() - ring.events,
            forgotten: ring.forgotten,
            last: self.last(),
            written: ring.written,
        }
    }

    /// The entries that a question is about, in the order in which they took effect: those from `since` on, or else the
    /// last ones, at most so many.
    pub fn entries(&self, query: &Query, limit: usize, name_request: &NameRequest<'_>) -> Vec<Entry> {
        let ring = self.ring();
        let fits = |stored: &StoredRecord<'_>| query.count(stored, name_request) > 0;
        let mut found: Vec<(u64, u64)> =
            ring.from(0).filter(fits).map(|stored| (stored.record.seq, stored.index)).collect();
        found.sort_unstable();
        let skipped = if query.since.is_some() { 0 } else { found.len().saturating_sub(limit) };
        found.drain(..skipped);
        found.truncate(limit);
        let first = found.iter().map(|(_, index)| *index).min().unwrap_or(0);
        let mut wanted: Vec<u64> = found.into_iter().map(|(_, index)| index).collect();
        wanted.sort_unstable();
        let chosen = ring.from(first).filter(|stored| wanted.binary_search(&stored.index).is_ok());
        let mut entries: Vec<Entry> = chosen.map(|stored| stored.entry()).collect();
        entries.sort_by_key(|entry| entry.seq);
        entries
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock_ignoring_poison()
    }
}

/// The records of a journal while nothing can be added to them.
pub struct LockedJournal<'a> {
    ring: MutexGuard<'a, Ring>,
}

impl LockedJournal<'_> {
    /// The records from this one on, oldest first, without reading them.
    pub fn raw_records_from(&self, index: u64) -> impl Iterator<Item = RawRecord<'_>> {
        self.ring.raw_records_from(index)
    }

    /// Which record is the oldest that is there.
    pub fn oldest(&self) -> u64 {
        self.ring.oldest()
    }

    /// How many records were ever written.
    pub fn written(&self) -> u64 {
        self.ring.written
    }

    /// How often something that was kept has turned out otherwise.
    pub fn revisions(&self) -> u64 {
        self.ring.revisions
    }

    /// How many records of the usual length there are in the newest eighth of the memory.
    pub fn records_per_eighth(&self) -> u64 {
        let records = self.ring.written - self.ring.oldest();
        records.saturating_mul(self.ring.most() as u64 / 8) / self.ring.used().max(1) as u64
    }

    /// Whether so much has come since [`leave_unseen`](Self::leave_unseen) that what is older will fall out soon.
    pub fn is_overtaking(&self) -> bool {
        self.ring.is_overtaking()
    }

    /// Whoever looks at records in time has looked at all but so many of them.
    pub fn leave_unseen(&mut self, records: u64) {
        self.ring.leave_unseen(records);
    }
}

/// Somebody who follows the journal, and how far.
pub struct Follower {
    journal: Arc<Journal>,
    id: u64,
    epoch: u32,
    next: u64,
    revisions: u64,
    /// How many records fell out before they were seen.
    pub missed: u64,
}

impl Follower {
    /// Looks at what has come since the last time; the waker is called when there is more. Says whether it was all
    /// looked at anew, because something has turned out otherwise.
    pub fn read<R>(
        &mut self,
        cx: &mut Context<'_>,
        read: impl FnOnce(&mut dyn Iterator<Item = StoredRecord<'_>>) -> R,
    ) -> (R, bool) {
        let mut ring = self.journal.ring();
        let (oldest, epoch) = (ring.oldest(), self.journal.epoch());
        let is_anew = self.revisions != ring.revisions;
        if is_anew {
            (self.next, self.revisions) = (oldest, ring.revisions);
        }
        if self.epoch != epoch {
            // It was emptied, which takes nothing away from what was seen before.
            (self.next, self.epoch) = (self.next.max(oldest), epoch);
        }
        self.missed += oldest.saturating_sub(self.next);
        let result = read(&mut ring.from(self.next));
        self.next = ring.written;
        ring.watchers.retain(|(id, _)| *id != self.id);
        ring.watchers.push((self.id, cx.waker().clone()));
        (result, is_anew)
    }

    pub fn journal(&self) -> &Journal {
        &self.journal
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.journal.ring().watchers.retain(|(id, _)| *id != self.id);
    }
}

/// Tells those who follow. Outside the lock, which they take.
#[cold]
fn wake(mut ring: MutexGuard<'_, Ring>) {
    let watchers = std::mem::take(&mut ring.watchers);
    drop(ring);
    watchers.into_iter().for_each(|(_, watcher)| watcher.wake());
}
