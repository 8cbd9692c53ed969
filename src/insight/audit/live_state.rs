//! How far the journals of running servers are audited.
//!
//! A record can come late, or turn out otherwise because its reply is lost. So the committed auditor leaves out the
//! newest records and never goes back. Its copy, the look-ahead, processes the rest whenever somebody asks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use foldhash::fast::FixedState;

use super::auditor::Auditor;
use super::code::Severity;
use super::finding::Finding;
use super::finding_collector::{FindingCollector, FindingKey, key_of};
use super::journal_line::JournalLine;
use super::learned_locks::LearnedLocks;
use super::lock_table::{FETCHED, MANY};
use super::marks::MAX_TEXTS;
use super::record_merge::{MergedRecords, ReadRecords, ServerRecords};
use super::scope::Scope;
use crate::base::background::free_beside;
use crate::base::budget::{Forgetful, Share};
use crate::powers::{Journal, JournalView, LockedJournal, RawRecord, RecordHeader};
use crate::spec::Table;

/// How many records of a server are left uncommitted, because others can come late that belong in front of them.
pub const BACKLOG: usize = 1024;
/// How many at most, while one is missing: the thread that writes it may have been stopped.
pub const MAX_BACKLOG: usize = 32 * BACKLOG;
/// How many records of a server are read at once, for some milliseconds' work.
const PORTION: usize = 4 * BACKLOG;
/// And while one is missing.
const LARGEST_PORTION: usize = MAX_BACKLOG + 2 * BACKLOG;
/// How many records must be new before the look-ahead begins anew without being asked.
const PATIENCE: u64 = 256;

/// A server whose journal is audited.
pub trait AuditedServer: Send + Sync {
    fn journal(&self) -> &Arc<Journal>;

    /// The time on its clock and the real time, in microseconds since 1970.
    fn now(&self) -> (i64, i64);

    /// When the oldest command was sent to an upstream server that it has not answered yet, in microseconds of real time.
    /// Commands that may block do not count.
    fn oldest_in_flight(&self) -> Option<i64> {
        None
    }

    /// Begins to keep a journal, if it does not yet.
    fn begin_journal(&self);

    /// Keeps a journal of so many bytes.
    fn keep_journal(&self, bytes: usize);

    /// Tells those who subscribe to findings of one.
    fn publish_finding(&self, finding: &Finding);
}

pub struct LiveState {
    pub scope: Arc<Scope>,
    pub servers: Vec<ServerProgress>,
    /// Has processed all but the newest records.
    pub committed: Auditor,
    pub lookahead: Option<Lookahead>,
    /// Whether somebody has asked since the last commit.
    is_asked: bool,
    /// The findings that subscribers were told of, with the severity of then.
    pub published: HashMap<FindingKey, Severity, FixedState>,
    /// How many records fell out of the journal before they were processed.
    pub missed: u64,
    /// How many locks were forgotten because all audits together knew too much.
    pub forgotten: u64,
    /// How many keys are tracked.
    pub tracked: Arc<AtomicUsize>,
    /// Its part of the memory of all audits.
    pub share: Option<Share<LiveState>>,
    /// The findings on servers that were reset since, and what was missed there.
    pub archived: FindingCollector,
    pub archived_missed: u64,
    pub archived_forgotten: u64,
    /// What spaces have found that were dropped since, and what was learned in them.
    pub dropped: Vec<(Box<[u8]>, AuditConclusion)>,
    pub learned_in_spaces: Arc<LearnedLocks>,
}

/// The result of an audit from the start of the servers, resets or not.
#[derive(Clone, Default)]
pub struct AuditConclusion {
    pub findings: Vec<Arc<Finding>>,
    /// About how many bytes they take.
    pub finding_bytes: usize,
    /// The marks that came.
    pub marks: Vec<Arc<str>>,
    /// How many keys were taken for locks.
    pub locks: u64,
    /// How many findings were dropped because the list was full.
    pub unlisted: u64,
    /// How many records fell out of the journal before they were processed.
    pub missed: u64,
    /// How many locks were forgotten because all audits together knew too much.
    pub forgotten: u64,
}

impl AuditConclusion {
    /// Adds the result of another audit; its findings only if there is room.
    pub fn add(&mut self, other: Self, has_room: bool) {
        match has_room {
            true => {
                self.findings.extend(other.findings);
                self.finding_bytes += other.finding_bytes;
            }
            false => self.unlisted += other.findings.len() as u64,
        }
        let room = MAX_TEXTS.saturating_sub(self.marks.len());
        self.marks.extend(other.marks.into_iter().take(room));
        self.locks += other.locks;
        self.unlisted += other.unlisted;
        self.missed += other.missed;
        self.forgotten += other.forgotten;
    }
}

/// A server, and how much of its journal is committed.
pub struct ServerProgress {
    pub server: u16,
    pub audited: Weak<dyn AuditedServer>,
    /// The index of the first record that is not committed. Of the records from there to `seen`, those whose number is
    /// not above `seq` are committed, too: they came before their turn.
    next: u64,
    seen: u64,
    seq: u64,
    /// Whether the next number must be that after `seq`.
    is_contiguous: bool,
    /// Whether nothing of the journal was processed so far.
    pub is_new: bool,
    /// Whether records are missing between those committed and those to come.
    pub has_gap: bool,
}

/// How many records of a server may be left uncommitted.
struct BacklogLimits {
    usual: usize,
    /// While one is missing.
    most: usize,
    /// Whether no more records could be read at once.
    is_largest: bool,
}

/// An auditor that has processed all records.
pub struct Lookahead {
    pub auditor: Auditor,
    /// A copy that has decided the places of the lines that wait for others, if there are any.
    settled: Option<Auditor>,
    /// By server.
    cursors: Vec<Cursor>,
    /// The real time of the last record.
    real: i64,
}

/// Where the records that were processed end.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Cursor {
    written: u64,
    revised: u64,
    /// The highest number so far.
    seq: u64,
}

impl LiveState {
    pub fn new(scope: &Arc<Scope>, commands: Table) -> Self {
        Self {
            scope: Arc::clone(scope),
            servers: Vec::new(),
            committed: Auditor::new(Arc::clone(scope), commands),
            lookahead: None,
            is_asked: false,
            published: HashMap::default(),
            missed: 0,
            forgotten: 0,
            tracked: Arc::default(),
            share: None,
            archived: FindingCollector::new(Arc::clone(scope)),
            archived_missed: 0,
            archived_forgotten: 0,
            dropped: Vec::new(),
            learned_in_spaces: Arc::default(),
        }
    }

    /// The servers that are running, each with its place in the list.
    pub fn running(&self) -> Vec<(usize, Arc<dyn AuditedServer>)> {
        let servers = self.servers.iter().enumerate();
        servers.filter_map(|(at, server)| Some((at, server.audited.upgrade()?))).collect()
    }

    /// A server, if it is running.
    pub fn server(&self, number: u16) -> Option<Arc<dyn AuditedServer>> {
        self.servers.iter().find(|known| known.server == number)?.audited.upgrade()
    }

    /// How many records the journal of each server has had.
    pub fn written(&self) -> Vec<u64> {
        let written = |server: &ServerProgress| Some(server.audited.upgrade()?.journal().lock().written());
        self.servers.iter().map(|server| written(server).unwrap_or(0)).collect()
    }

    /// Whether so many records of each server are committed, and their places are decided.
    pub fn has_committed(&self, records: &[u64]) -> bool {
        let mut servers = self.servers.iter().zip(records);
        servers.all(|(server, records)| server.next >= *records) && !self.committed.has_waiting_lines()
    }

    /// Commits all records, or else, if it is time, all but the newest.
    pub fn commit(&mut self, all: bool) {
        while self.commit_portion(all) {}
    }

    /// Commits some of them. Returns whether there are more.
    pub fn commit_portion(&mut self, all: bool) -> bool {
        [PORTION, LARGEST_PORTION, usize::MAX].into_iter().find_map(|portion| self.commit_at_most(portion, all))
            == Some(true)
    }

    /// As [`commit_portion`](Self::commit_portion), with so many records. `None` if nothing can be committed before more of them are
    /// read: one may be missing, and only those that come later show that it does not come any more.
    fn commit_at_most(&mut self, portion: usize, all: bool) -> Option<bool> {
        self.limit_findings();
        let servers = self.running();
        let (views, limits): (Vec<(usize, JournalView)>, Vec<BacklogLimits>) = {
            // All at the same moment. The journals go on meanwhile.
            let held = hold(&servers);
            if !all && !held.iter().any(|(_, held)| held.is_due()) {
                return Some(false);
            }
            let limits = |held: &LockedJournal<'_>| {
                let room = if all { 0 } else { usize::try_from(held.records_per_eighth()).unwrap_or(usize::MAX) };
                let (usual, most) = (BACKLOG.min(room), MAX_BACKLOG.min(room));
                BacklogLimits { usual, most, is_largest: portion >= LARGEST_PORTION }
            };
            let view = |(at, held): &(usize, LockedJournal<'_>)| {
                ((*at, held.view(self.servers[*at].next, portion)), limits(held))
            };
            held.iter().map(view).unzip()
        };
        if !self.is_asked {
            self.drop_lookahead();
        }
        self.find_gaps(views.iter().map(|(at, view)| (*at, view.oldest, view.written)));
        let read = views.iter().map(|(at, view)| ReadRecords {
            at: *at,
            records: self.servers[*at].uncommitted(view.raw_records_from(self.servers[*at].next), portion),
            end: view.end,
            written: view.written,
        });
        let mut records = MergedRecords::new(read, portion);
        let before = records.count();
        self.commit_records(&mut records, &limits);
        let is_cut = records.lists.iter().any(|list| list.is_cut);
        if is_cut && records.count() == before {
            return None;
        }
        for ((_, audited), list) in servers.iter().zip(&records.lists) {
            let server = &mut self.servers[list.at];
            server.seen = list.end;
            server.next = list.first_left().unwrap_or(server.seen);
            audited.journal().lock().note_seen(server.seen, list.records.len() as u64);
        }
        if !is_cut {
            self.is_asked = false;
            if all {
                self.committed.settle(i64::MAX);
            }
        }
        self.keep_to_budget();
        Some(is_cut)
    }

    /// Counts what is known. Where all audits together know too much, the one that knows most forgets it.
    fn keep_to_budget(&mut self) {
        self.count_memory();
        if let Some(share) = self.share.take() {
            let own = self.memory();
            share.take_from_fuller(own);
            let is_over = share.is_over();
            self.share = Some(share);
            if is_over {
                self.forget();
            }
        }
    }

    /// Tells the memory of all audits what this one takes.
    pub fn count_memory(&self) {
        self.tracked.store(self.committed.tracked_keys(), Ordering::Relaxed);
        if let Some(share) = &self.share {
            share.count(self.memory());
            share.count_kept(self.kept_memory());
        }
    }

    /// About how many bytes this audit takes.
    fn memory(&self) -> usize {
        self.committed.memory() - self.committed.finding_memory() + self.kept_memory()
    }

    /// About how many of them it never forgets: its findings.
    fn kept_memory(&self) -> usize {
        // The look-ahead has those that are committed, too.
        let ahead = self.lookahead.as_ref().map_or(0, |lookahead| lookahead.auditor.finding_memory());
        self.committed.finding_memory().max(ahead) + self.past_memory()
    }

    /// The same for findings from before resets and from spaces that were dropped.
    fn past_memory(&self) -> usize {
        self.archived.bytes() + self.dropped.iter().map(|(_, dropped)| dropped.finding_bytes).sum::<usize>()
    }

    /// Lets new findings take no more than there is room for, together with those of all other audits.
    fn limit_findings(&mut self) {
        let Some(share) = &self.share else { return };
        let most = share.most_to_keep().saturating_sub(self.past_memory());
        self.committed.limit_finding_memory(most);
        if let Some(lookahead) = &mut self.lookahead {
            lookahead.auditor.limit_finding_memory(most);
        }
    }

    /// Commits records until as many are left of each server as the limits allow, or until the next one was cut off.
    /// Waits for a missing record, up to the higher limit.
    fn commit_records(&mut self, records: &mut MergedRecords<'_>, limits: &[BacklogLimits]) {
        if let ([list], [limits]) = (records.lists.as_mut_slice(), limits) {
            return self.commit_records_of_one(list, limits);
        }
        let before: Vec<u64> = records.lists.iter().map(|list| self.servers[list.at].seq).collect();
        loop {
            let lists = || records.lists.iter().zip(limits.iter().zip(&before));
            // A record belongs in front of some that are committed.
            let is_late = lists().any(|(list, (_, before))| list.next_seq().is_some_and(|seq| seq <= *before));
            let is_full = lists().any(|(list, (limits, _))| list.is_full(limits));
            let is_due = lists().any(|(list, (limits, _))| list.records.len() > limits.usual);
            let is_wanting = lists().any(|(list, _)| list.is_cut && list.records.len() <= BACKLOG);
            let Some(next) = records.peek() else { return };
            let is_missing = self.servers[next.at].lacks_a_record(next);
            if !is_late && (is_wanting || !is_full && (is_missing || !is_due)) {
                return;
            }
            let Some((at, unread)) = records.next() else { return };
            let server = &mut self.servers[at];
            (server.seq, server.is_contiguous) = (server.seq.max(unread.seq), true);
            process(&mut self.committed, server.server, &unread);
        }
    }

    /// The same for a single server, the usual case.
    fn commit_records_of_one(&mut self, list: &mut ServerRecords<'_>, limits: &BacklogLimits) {
        let server = &mut self.servers[list.at];
        let before = server.seq;
        while let Some(next) = list.records.as_slice().first() {
            let left = list.records.len();
            if left.is_multiple_of(FETCHED) {
                let coming = list.records.as_slice()[..FETCHED].iter();
                self.committed.fetch_ahead(server.server, coming.filter_map(RawRecord::header));
            }
            let is_wanting = list.is_cut && left <= BACKLOG;
            let is_full = list.is_full(limits);
            let is_missing = server.is_contiguous && next.seq > server.seq + 1;
            if next.seq > before && (is_wanting || !is_full && (is_missing || left <= limits.usual)) {
                return;
            }
            (server.seq, server.is_contiguous) = (server.seq.max(next.seq), true);
            process(&mut self.committed, server.server, next);
            list.records.next();
        }
    }

    /// Where records fell out or were not kept, forgets who holds what.
    /// `journals` says of each server, by its place, the index of the oldest record, and how many there ever were.
    fn find_gaps(&mut self, journals: impl Iterator<Item = (usize, u64, u64)>) {
        for (at, oldest, written) in journals {
            let server = &mut self.servers[at];
            if server.next < oldest {
                self.missed += oldest - server.next.max(server.seen.min(oldest));
                server.has_gap = true;
                (server.next, server.is_contiguous) = (oldest, false);
            }
            server.is_new = false;
            if server.has_gap && written > server.seen {
                server.has_gap = false;
                self.committed.note_gap(server.server);
                self.drop_lookahead();
            }
        }
    }

    /// Drops what was found out beyond what is committed, beside those who wait for the auditor if that is much.
    pub fn drop_lookahead(&mut self) {
        if let Some(lookahead) = self.lookahead.take()
            && lookahead.auditor.tracked_keys() >= MANY
        {
            free_beside("redouble-audit", lookahead);
        }
    }

    /// An auditor that has processed all records, as long as the audit is on. What is due should be committed before, so that the
    /// look-ahead has no more records to process again and again than it must.
    pub fn up_to_date(&mut self, is_on: bool) -> &Auditor {
        if !is_on {
            return &self.committed;
        }
        self.is_asked = true;
        self.limit_findings();
        let servers = self.running();
        let (views, continues) = {
            // All at the same moment. The journals go on meanwhile.
            let held = hold(&servers);
            self.find_gaps(held.iter().map(|(at, held)| (*at, held.oldest(), held.written())));
            let lookahead = self.lookahead.as_ref().filter(|lookahead| lookahead.continues(&held));
            let next = |at: usize| lookahead.map_or(self.servers[at].next, |lookahead| lookahead.cursors[at].written);
            let views = held.iter().map(|(at, held)| (*at, held.view(next(*at), usize::MAX)));
            (views.collect::<Vec<_>>(), lookahead.is_some())
        };
        if !continues {
            self.drop_lookahead();
        }
        let mut lookahead = match self.lookahead.take() {
            Some(lookahead) => lookahead,
            None => Lookahead { auditor: self.committed.clone(), settled: None, cursors: Vec::new(), real: i64::MIN },
        };
        let read = views.iter().map(|(at, view)| {
            let records = match continues {
                true => view.raw_records_from(lookahead.cursors[*at].written).collect(),
                false => self.servers[*at].uncommitted(view.raw_records_from(self.servers[*at].next), usize::MAX),
            };
            ReadRecords { at: *at, records, end: view.written, written: view.written }
        });
        let mut records = MergedRecords::new(read, usize::MAX);
        lookahead.cursors.resize(self.servers.len(), Cursor { written: 0, revised: 0, seq: 0 });
        if !continues {
            for (cursor, server) in lookahead.cursors.iter_mut().zip(&self.servers) {
                cursor.seq = server.seq;
            }
        }
        while let Some((at, unread)) = records.next() {
            process(&mut lookahead.auditor, self.servers[at].server, &unread);
            lookahead.cursors[at].seq = lookahead.cursors[at].seq.max(unread.seq);
            lookahead.real = lookahead.real.max(unread.real);
        }
        for (at, view) in &views {
            (lookahead.cursors[*at].written, lookahead.cursors[*at].revised) = (view.written, view.revisions);
        }
        lookahead.settled = lookahead.auditor.has_waiting_lines().then(|| {
            // What an upstream server has not answered yet may have taken effect before what it has.
            let in_flight = servers.iter().filter_map(|(_, server)| server.oldest_in_flight());
            let mut settled = lookahead.auditor.clone();
            settled.settle(in_flight.min().map_or(i64::MAX, |oldest| oldest - 1));
            settled
        });
        self.lookahead = Some(lookahead);
        self.count_memory();
        match &self.lookahead {
            Some(Lookahead { auditor, settled, .. }) => settled.as_ref().unwrap_or(auditor),
            None => &self.committed,
        }
    }

    /// The findings about a server's keys that its subscribers were not told of yet. Those up to the command of this number are no news.
    pub fn news(&mut self, server: u16, findings: &[Arc<Finding>], since: u64) -> Vec<Arc<Finding>> {
        let mut news = Vec::new();
        for finding in findings.iter().filter(|finding| finding.server == server) {
            let before = self.published.insert(key_of(finding), finding.severity);
            let is_news = match before {
                None => finding.seq > since,
                Some(severity) => finding.last_seq > since && severity < finding.severity,
            };
            if is_news && finding.allowed.is_none() {
                news.push(Arc::clone(finding));
            }
        }
        news
    }

    /// Whether the look-ahead would have to begin anew for few new records.
    pub fn would_begin_anew(&mut self) -> bool {
        let servers = self.running();
        let held = hold(&servers);
        let Some(lookahead) = &mut self.lookahead else { return false };
        if lookahead.continues(&held) {
            return false;
        }
        let new = held.iter().filter_map(|(at, held)| held.written().checked_sub(lookahead.cursors.get(*at)?.written));
        new.sum::<u64>() < PATIENCE
    }
}

impl ServerRecords<'_> {
    /// Whether so many records are there that nothing is to be waited for.
    fn is_full(&self, limits: &BacklogLimits) -> bool {
        self.is_cut && limits.is_largest || self.records.len() > limits.most
    }
}

impl Forgetful for LiveState {
    /// Forgets who holds what, as where records are missing. The findings stay.
    fn forget(&mut self) -> bool {
        let locks = self.committed.tracked_keys();
        for server in &self.servers {
            self.committed.note_gap(server.server);
        }
        self.drop_lookahead();
        self.forgotten += locks as u64;
        self.count_memory();
        locks > 0
    }
}

impl ServerProgress {
    pub fn new(server: u16, audited: Weak<dyn AuditedServer>) -> Self {
        Self { server, audited, next: 0, seen: 0, seq: 0, is_contiguous: false, is_new: true, has_gap: false }
    }

    /// Those of these records that are not committed, at most so many.
    fn uncommitted<'h>(&self, records: impl Iterator<Item = RawRecord<'h>>, most: usize) -> Vec<RawRecord<'h>> {
        let is_committed = |unread: &RawRecord<'_>| unread.index < self.seen && unread.seq <= self.seq;
        let mut uncommitted = Vec::with_capacity(most.min(PORTION));
        uncommitted.extend(records.filter(|unread| !is_committed(unread)).take(most));
        uncommitted
    }

    /// Whether a record is missing in front of the next one.
    fn lacks_a_record(&self, list: &ServerRecords<'_>) -> bool {
        self.is_contiguous && list.next_seq().is_some_and(|seq| seq > self.seq + 1)
    }

    /// Begins with the oldest record that is there. What is gone already was never to be audited.
    pub fn begin_at(&mut self, oldest: u64) {
        (self.next, self.seen) = (oldest, oldest);
    }

    /// Leaves out the records so far.
    pub fn skip_to(&mut self, written: u64) {
        (self.next, self.seen, self.is_contiguous, self.has_gap) = (written, written, false, true);
    }

    /// The server begins anew, and so do the numbers of its records.
    pub fn restart(&mut self) {
        if let Some(audited) = self.audited.upgrade() {
            self.skip_to(audited.journal().lock().written());
        }
        (self.seq, self.is_new, self.has_gap) = (0, true, false);
    }
}

impl Lookahead {
    /// Whether all new records belong behind those that were processed.
    fn continues(&self, held: &[(usize, LockedJournal<'_>)]) -> bool {
        held.iter().all(|(at, held)| {
            let Some(cursor) = self.cursors.get(*at) else { return false };
            cursor.revised == held.revisions()
                && cursor.written >= held.oldest()
                && held
                    .raw_records_from(cursor.written)
                    .all(|unread| unread.seq > cursor.seq && (self.cursors.len() == 1 || unread.real >= self.real))
        })
    }
}

/// Shows a record to an auditor; the header alone if that is enough.
fn process(auditor: &mut Auditor, server: u16, unread: &RawRecord<'_>) {
    let is_done = |header: &RecordHeader<'_>| {
        let row = auditor.commands().find(header.first);
        auditor.skip_unrelated(server, (unread, header), row) || auditor.process_header(server, (unread, header), row)
    };
    if unread.header().as_ref().is_some_and(is_done) {
        return;
    }
    if let Some(seen) = unread.read() {
        auditor.process_line(&JournalLine::seen(server, &seen));
    }
}

fn hold(servers: &[(usize, Arc<dyn AuditedServer>)]) -> Vec<(usize, LockedJournal<'_>)> {
    servers.iter().map(|(at, server)| (*at, server.journal().lock())).collect()
}
