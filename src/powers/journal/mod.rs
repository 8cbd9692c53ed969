//! The journal: every command that clients sent, in the order of their effects.

mod command_trace;
mod distance;
mod entry;
mod feed;
mod file;
mod hashed_value;
mod monitor_file;
mod monitor_lines;
mod monitored_scripts;
mod query;
mod record;
mod render;
mod ring;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll};

use ring::{LARGE, Ring};

use crate::base::budget::Budget;
use crate::base::sync::MutexExt;
use crate::protocol::OwnedWords;

pub use command_trace::{CommandTrace, Ending, Staging, Stamp};
pub use distance::{ShownLine, distance, is_shown_as_it_is, shared_line, short_line};
pub use entry::{Child, EffectOrder, Entry, Event, EventKind, Item, Outcome};
pub use feed::{CommandFeed, JournalFeed};
pub use file::{RecordedLines, exported_journal, push_line, read_journal, write_journal};
pub use hashed_value::{ValueClass, hashed_value};
pub use monitor_lines::{MONITOR_SCRIPT, MonitorReader, write_monitor_line};
#[cfg(feature = "internals")]
pub use monitor_lines::{MonitorLine, MonitorSource};
pub use monitored_scripts::MonitoredScripts;
use query::NameRequest;
pub use query::Query;
use record::Record;
pub use record::{Children, Line, RanInside, RecordHeader};
pub use render::rendered;
pub use ring::{ClientRecord, JournalView, RawRecord, StoredRecord, Urgency};

/// The default size, in bytes.
pub const USUAL_SIZE: usize = 64 << 20;
/// The smallest size that can be requested.
pub const LEAST_SIZE: usize = 256 << 10;
/// So many journals of full size have room in their memory, unless it is said how much that is.
const USUAL_JOURNALS: usize = 16;
/// The largest.
pub const MOST_SIZE: usize = 64 << 30;

/// The journal of one server.
#[derive(Default)]
pub struct Journal {
    /// The last sequence number that was given out.
    seq: AtomicU64,
    /// Changes whenever the journal is started, stopped or cleared: clients are added anew in each epoch. Even: it is off.
    epoch: AtomicU32,
    ring: Arc<Mutex<Ring>>,
    /// The memory that it shares with other journals.
    memory: OnceLock<Arc<Budget<Ring>>>,
    /// The text of the last mark.
    mark: Mutex<Option<Arc<str>>>,
    /// Where its records are shown as they come.
    feed: OnceLock<JournalFeed>,
}

/// The journal's state and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalStats {
    pub is_on: bool,
    /// The most bytes of records.
    pub most: usize,
    /// The memory of all journals together, and the most that they may take.
    pub together: (usize, usize),
    /// The bytes of records now.
    pub used: usize,
    /// The number of entries.
    pub entries: u64,
    /// How many entries were dropped since it was last cleared.
    pub forgotten: u64,
    /// The last sequence number that was given out.
    pub last: u64,
    /// The number of records ever written.
    pub written: u64,
}

impl Journal {
    /// Takes its memory from that of another journal, if it has never been on.
    pub fn share_memory(&self, other: &Self) {
        let _ = self.memory.set(Arc::clone(other.memory()));
    }

    fn memory(&self) -> &Arc<Budget<Ring>> {
        self.memory.get_or_init(Arc::default)
    }

    /// Sets what all journals may take together. If that is not given, it is enough for several of this size, and of the
    /// largest before.
    pub fn limit_memory(&self, given: Option<usize>, size: usize) {
        let usual = size.saturating_mul(USUAL_JOURNALS);
        let most = given.unwrap_or_else(|| match self.memory().most() {
            usize::MAX => usual,
            most => most.max(usual),
        });
        self.memory().set_most(most);
    }

    /// Starts recording; what was recorded before stays.
    pub fn start(&self, most: usize) {
        let mut ring = self.ring();
        if !ring.is_joined() {
            let share = self.memory().join(&self.ring);
            ring.join(share);
        }
        ring.resize(most.clamp(LEAST_SIZE, MOST_SIZE));
        if !self.is_on() {
            self.epoch.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Stops recording; what was recorded stays.
    pub fn stop(&self) {
        let ring = self.ring();
        if self.is_on() {
            self.epoch.fetch_add(1, Ordering::Relaxed);
        }
        wake(ring);
    }

    /// Whether it records.
    pub fn is_on(&self) -> bool {
        self.epoch.load(Ordering::Relaxed) % 2 == 1
    }

    /// Whether it was ever on.
    pub fn was_on(&self) -> bool {
        self.ring().most() > 0
    }

    /// Drops all records. Sequence numbers go on.
    pub fn clear(&self) {
        let mut ring = self.ring();
        self.epoch.fetch_add(2, Ordering::Relaxed);
        ring.clear();
    }

    /// Resets it as if it had never been on. The last mark stays known.
    pub fn reset(&self) {
        self.stop();
        self.clear();
        self.ring().resize(0);
        self.seq.store(0, Ordering::Relaxed);
    }

    /// Gives out the next sequence number. A command takes it while it still holds its locks, so the numbers are in the
    /// order of effects.
    #[inline]
    pub fn next(&self) -> u64 {
        self.seq.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The last sequence number that was given out.
    pub fn last(&self) -> u64 {
        self.seq.load(Ordering::Relaxed)
    }

    /// The epoch, in which each client must be added once.
    #[inline]
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Shows all records from now on; only the first call counts.
    pub fn set_feed(&self, feed: JournalFeed) {
        let _ = self.feed.set(feed);
    }

    pub fn feed(&self) -> Option<&JournalFeed> {
        self.feed.get()
    }

    /// Moves staged records into the journal, or drops them if it is off by now. Returns the index of the first, and whether
    /// when the auditor is to read on.
    pub fn append(&self, staging: &mut Staging) -> Option<(u64, Urgency)> {
        let mut ring = self.ring();
        let index = self.is_on().then(|| ring.append(&staging.bytes, staging.count));
        if let (Some(feed), Some(index)) = (self.feed.get(), index) {
            ring.from(index).for_each(|stored| feed.add(|| stored.item()));
        }
        let urgency = ring.urgency();
        if !ring.watchers.is_empty() {
            wake(ring);
        }
        staging.empty();
        Some((index?, urgency))
    }

    /// Records an event, unless the journal is off. `client` is 0 if the event is about none.
    pub fn note_event(&self, kind: EventKind, client: u64, at: (i64, i64), detail: &OwnedWords) {
        self.note(kind, client, 0, at, detail);
    }

    /// Records an event at a node of the deployment, unless the journal is off.
    pub fn note_node_event(&self, kind: EventKind, node: &str, at: (i64, i64), detail: &str) {
        self.note(kind, 0, 0, at, &[node, detail].into_iter().collect());
    }

    /// Records that a key was evicted, unless the journal is off.
    pub fn note_eviction(&self, db: u32, key: &[u8], at: (i64, i64)) {
        self.note(EventKind::Evicted, 0, db, at, &[key].into_iter().collect());
    }

    /// Records that the node that takes this server's place does not have a change of a key, which replicas had, unless the
    /// journal is off.
    pub fn note_loss(&self, node: &str, db: u32, key: &[u8], had_by: &[&str], at: (i64, i64)) {
        let words = [node.as_bytes(), key].into_iter().chain(had_by.iter().map(|name| name.as_bytes()));
        self.note(EventKind::Lost, 0, db, at, &words.collect());
    }

    /// Records a mark. If the journal is off, it is recorded by [`repeat_mark`](Self::repeat_mark) once that is on.
    pub fn note_mark(&self, mark: &str, at: (i64, i64)) {
        *self.mark.lock_ignoring_poison() = Some(Arc::from(mark));
        self.repeat_mark(at);
    }

    /// Records the last mark again, because the journal begins anew.
    pub fn repeat_mark(&self, at: (i64, i64)) {
        let mark = self.mark.lock_ignoring_poison().clone();
        if let Some(mark) = mark {
            self.note(EventKind::Mark, 0, 0, at, &[&*mark].into_iter().collect());
        }
    }

    fn note(&self, kind: EventKind, client: u64, db: u32, (at, real): (i64, i64), detail: &OwnedWords) {
        let mut ring = self.ring();
        if !self.is_on() {
            return;
        }
        let line = Line {
            seq: self.next(),
            event: Some(kind),
            at,
            real,
            sent: None,
            order: EffectOrder::Total,
            client,
            db,
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
        if let Some(feed) = self.feed.get() {
            let last = ring.written - 1;
            ring.from(last).for_each(|stored| feed.add(|| stored.item()));
        }
        if !ring.watchers.is_empty() {
            wake(ring);
        }
    }

    /// All entries and events, by sequence number.
    pub fn items(&self) -> Vec<Item> {
        self.items_from(0).0
    }

    /// Those whose records have this index or a higher one, and the index of the next record.
    pub fn items_from(&self, index: u64) -> (Vec<Item>, u64) {
        let view = self.ring().view(index, usize::MAX);
        let mut items: Vec<(u64, Item)> = view.from(index).map(|stored| (stored.record.seq, stored.item())).collect();
        items.sort_by_key(|(seq, _)| *seq);
        (items.into_iter().map(|(_, item)| item).collect(), view.written)
    }

    /// Sets a client's address, name and node, from the next record on.
    pub fn add_client(&self, client: u64, record: ClientRecord) {
        self.ring().add_client(client, record);
    }

    /// Marks the last replies to a client as lost, `unwritten` bytes of them, none before record `from`.
    pub fn mark_replies_lost(&self, client: u64, from: u64, unwritten: usize) {
        let mut ring = self.ring();
        ring.mark_replies_lost(client, from, unwritten as u64);
        wake(ring);
    }

    /// Reads the records from this index on as they are now, oldest first. The journal goes on meanwhile.
    pub fn read<R>(&self, from: u64, read: impl FnOnce(&mut dyn Iterator<Item = StoredRecord<'_>>) -> R) -> R {
        let view = self.ring().view(from, usize::MAX);
        read(&mut view.from(from))
    }

    /// Whether it takes so long to read all records that other clients should not wait for that.
    pub fn is_large(&self) -> bool {
        self.ring().used() >= LARGE
    }

    /// Locks the journal, to read it together with others. Commands cannot append meanwhile.
    pub fn lock(&self) -> LockedJournal<'_> {
        LockedJournal { ring: self.ring() }
    }

    /// Wakes the followers although nothing was recorded.
    pub fn wake_followers(&self) {
        wake(self.ring());
    }

    /// A reader of all records, present and future.
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
            together: (self.memory().used(), self.memory().most()),
            used: ring.used(),
            entries: ring.written - ring.oldest() - ring.events,
            forgotten: ring.forgotten,
            last: self.last(),
            written: ring.written,
        }
    }

    /// The entries that match a query, by sequence number: the first ones after `since`, or else the last ones.
    pub fn entries(&self, query: &Query, limit: usize, name_request: &NameRequest<'_>) -> Vec<Entry> {
        let view = self.ring().view(0, usize::MAX);
        let fits = |stored: &StoredRecord<'_>| query.count(stored, name_request) > 0 || query.lists(stored);
        let mut found: Vec<(u64, u64)> =
            view.from(0).filter(fits).map(|stored| (stored.record.seq, stored.index)).collect();
        found.sort_unstable();
        let skipped = if query.since.is_some() { 0 } else { found.len().saturating_sub(limit) };
        found.drain(..skipped);
        found.truncate(limit);
        let first = found.iter().map(|(_, index)| *index).min().unwrap_or(0);
        let mut wanted: Vec<u64> = found.into_iter().map(|(_, index)| index).collect();
        wanted.sort_unstable();
        let chosen = view.from(first).filter(|stored| wanted.binary_search(&stored.index).is_ok());
        let mut entries: Vec<Entry> = chosen.map(|stored| stored.entry()).collect();
        entries.sort_by_key(|entry| entry.seq);
        entries
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock_ignoring_poison()
    }
}

/// A journal under its lock.
#[must_use = "the journal is locked only as long as this exists"]
pub struct LockedJournal<'a> {
    ring: MutexGuard<'a, Ring>,
}

impl LockedJournal<'_> {
    /// The records from this index on, oldest first, not yet decoded.
    pub fn raw_records_from(&self, index: u64) -> impl Iterator<Item = RawRecord<'_>> {
        self.ring.raw_records_from(index)
    }

    /// The index of the oldest record.
    pub fn oldest(&self) -> u64 {
        self.ring.oldest()
    }

    /// The number of records ever written.
    pub fn written(&self) -> u64 {
        self.ring.written
    }

    /// How often written records were changed: a reply turned out to be lost.
    pub fn revisions(&self) -> u64 {
        self.ring.revisions
    }

    /// The records from this index on as they are now, at least `most` of them if there are as many.
    pub fn view(&self, index: u64, most: usize) -> JournalView {
        self.ring.view(index, most)
    }

    /// How many records of average length fit into an eighth of the journal.
    pub fn records_per_eighth(&self) -> u64 {
        self.ring.records_per_eighth()
    }

    /// Whether the auditor is to read on.
    pub fn is_due(&self) -> bool {
        self.ring.urgency() > Urgency::None
    }

    /// The auditor has read all but `left` of the records up to this index.
    pub fn note_seen(&mut self, end: u64, left: u64) {
        self.ring.note_seen(end, left);
    }
}

/// A reader that follows a journal.
pub struct Follower {
    journal: Arc<Journal>,
    id: u64,
    epoch: u32,
    next: u64,
    revisions: u64,
    /// How many records were dropped before it read them.
    pub missed: u64,
}

impl Follower {
    /// Reads some records since the last call; the waker is called when others are written. Returns also whether it began again with
    /// the oldest, because written records were changed, and whether there are more to read already.
    pub fn read<R>(
        &mut self,
        cx: &mut Context<'_>,
        read: impl FnOnce(&mut dyn Iterator<Item = StoredRecord<'_>>) -> R,
    ) -> (R, bool, bool) {
        /// About so many records are read at once.
        const PORTION: usize = 4096;
        let mut ring = self.journal.ring();
        let (oldest, epoch) = (ring.oldest(), self.journal.epoch());
        let is_anew = self.revisions != ring.revisions;
        if is_anew {
            (self.next, self.revisions) = (oldest, ring.revisions);
        }
        if self.epoch != epoch {
            // It was cleared, which takes nothing away from what was read before.
            (self.next, self.epoch) = (self.next.max(oldest), epoch);
        }
        self.missed += oldest.saturating_sub(self.next);
        let view = ring.view(self.next, PORTION);
        self.await_more(&mut ring, cx);
        drop(ring);
        let result = read(&mut view.from(self.next));
        self.next = view.end;
        (result, is_anew, view.end < view.written)
    }

    /// Leaves out the records so far.
    pub fn pass_over(&mut self) {
        let ring = self.journal.ring();
        (self.next, self.revisions) = (ring.written, ring.revisions);
    }

    /// Ready once there are others, or some were changed.
    pub fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut ring = self.journal.ring();
        if (self.next, self.revisions) != (ring.written, ring.revisions) {
            return Poll::Ready(());
        }
        self.await_more(&mut ring, cx);
        Poll::Pending
    }

    fn await_more(&self, ring: &mut Ring, cx: &Context<'_>) {
        ring.watchers.retain(|(id, _)| *id != self.id);
        ring.watchers.push((self.id, cx.waker().clone()));
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

/// Wakes the followers, after the lock is released, which they take themselves.
#[cold]
fn wake(mut ring: MutexGuard<'_, Ring>) {
    let watchers = std::mem::take(&mut ring.watchers);
    drop(ring);
    watchers.into_iter().for_each(|(_, watcher)| watcher.wake());
}
