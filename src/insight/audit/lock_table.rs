//! All keys that are locks, or may be, each with the states of the rules beside it.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;

use arrayvec::ArrayVec;
use foldhash::fast::FixedState;
use thin_vec::ThinVec;

use super::client_identity::ClientIdentity;
use super::finding::Finding;
use super::id_pages::IdPages;
use super::kept_lock::{KeptLock, Resting};
use super::line_form::{LineForms, NotedCommand};
use super::lock::{HoldStatus, Lock, LockId};
use super::lock_reason::LockReasons;
use super::recent_ends::{ConnectionEnd, RecentEnds};
use super::resting_lock::{Guarded, RestingLock, Taking, TrackedLock};
use super::since_taken::{OwnerCheck, Refusal, Release, WorkSoFar};
use crate::base::background::free_beside;

/// How many keys are tracked before the free ones are forgotten.
pub const MAX_LOCKS: usize = 20_000;

/// How many locks are so many that other clients should not wait for work on all of them: each takes some microseconds.
pub const MANY: usize = 500;

/// The most keys whose locks are fetched together.
pub const FETCHED: usize = 32;

/// How many locks are awake before the first of them are put to rest.
const MAX_AWAKE: usize = 512;

/// How many locks a page has at most, unless more than that have nearly the same hash.
const PAGE: usize = 32;
/// By how many locks a page grows: pages are half full to full, and as many as there are locks count.
const PAGE_STEP: usize = 4;
/// How many bits of a hash tell pages apart at most.
const MOST_BITS: u32 = 20;

/// The locks of one database, by the hashes of their keys, in pages of a few locks. Copies of the auditor share the pages, and
/// the locks, to which nothing happens: a copy takes time for the number of pages, and a change for one page.
#[derive(Clone, Default)]
struct Database {
    pages: Vec<Page>,
    /// The number of the page for each beginning of a hash, of `bits` bits.
    places: Vec<u32>,
    bits: u32,
}

/// Where a lock stands in the table, until another one is added or removed.
#[derive(Clone, Copy)]
pub struct Place {
    database: usize,
    page: usize,
    at: usize,
}

#[derive(Clone, Default)]
struct Page {
    /// How many bits of their hashes its locks have in common.
    bits: u32,
    locks: Arc<PageLocks>,
}

/// The locks of a page, and their hashes, which are looked through: side by side they are on two lines of memory.
#[derive(Clone, Default)]
struct PageLocks {
    hashes: Vec<u32>,
    kept: Vec<KeptLock>,
}

fn hash_of(key: &[u8]) -> u32 {
    (FixedState::default().hash_one(key) >> 32) as u32
}

/// The first bits of a hash.
fn beginning(hash: u32, bits: u32) -> usize {
    hash.checked_shr(u32::BITS - bits).unwrap_or(0) as usize
}

impl PageLocks {
    #[inline]
    fn position(&self, hash: u32, key: &[u8]) -> Option<usize> {
        let places = || self.hashes.iter().enumerate().filter(|(_, known)| **known == hash).map(|(at, _)| at);
        places().find(|at| *self.kept[*at].id().key == *key)
    }

    fn len(&self) -> usize {
        self.hashes.len()
    }

    fn push(&mut self, hash: u32, kept: KeptLock) {
        if self.kept.len() == self.kept.capacity() {
            self.hashes.reserve_exact(PAGE_STEP);
            self.kept.reserve_exact(PAGE_STEP);
        }
        self.hashes.push(hash);
        self.kept.push(kept);
    }

    /// Takes the locks out that have the last of so many first bits of their hashes set.
    fn divide(&mut self, bits: u32) -> Self {
        let all = std::mem::take(self);
        let count = |is_upper: bool| all.hashes.iter().filter(|hash| is_in_upper(**hash, bits) == is_upper).count();
        let with_room = |count| Self { hashes: Vec::with_capacity(count), kept: Vec::with_capacity(count) };
        let mut upper = with_room(count(true));
        *self = with_room(count(false));
        for (hash, kept) in all.hashes.into_iter().zip(all.kept) {
            match is_in_upper(hash, bits) {
                true => upper.push(hash, kept),
                false => self.push(hash, kept),
            }
        }
        upper
    }

    fn remove(&mut self, at: usize) {
        self.hashes.swap_remove(at);
        self.kept.swap_remove(at);
    }
}

/// Whether the last of the first bits of a hash is set.
fn is_in_upper(hash: u32, bits: u32) -> bool {
    !beginning(hash, bits).is_multiple_of(2)
}

impl Database {
    #[inline]
    fn page(&self, hash: u32) -> Option<usize> {
        self.places.get(beginning(hash, self.bits)).map(|page| *page as usize)
    }

    /// The page of a lock, and its place there.
    #[inline]
    fn position(&self, key: &[u8]) -> Option<(usize, usize)> {
        let hash = hash_of(key);
        let page = self.page(hash)?;
        self.pages[page].locks.position(hash, key).map(|at| (page, at))
    }

    /// Adds a lock that is not there yet.
    fn insert(&mut self, key: &[u8], kept: KeptLock) {
        let hash = hash_of(key);
        if self.pages.is_empty() {
            (self.pages, self.places) = (vec![Page::default()], vec![0]);
        }
        let Some(mut page) = self.page(hash) else { return };
        while self.pages[page].locks.len() >= PAGE && self.pages[page].bits < MOST_BITS {
            self.divide(page, hash);
            let Some(half) = self.page(hash) else { return };
            page = half;
        }
        Arc::make_mut(&mut self.pages[page].locks).push(hash, kept);
    }

    /// Divides a page by the next bit of its hashes, of which `hash` may be one.
    fn divide(&mut self, page: usize, hash: u32) {
        let bits = self.pages[page].bits + 1;
        if bits > self.bits {
            self.places = self.places.iter().flat_map(|page| [*page, *page]).collect();
            self.bits = bits;
        }
        let upper = u32::try_from(self.pages.len()).unwrap_or(u32::MAX);
        let above = Arc::make_mut(&mut self.pages[page].locks).divide(bits);
        self.pages[page].bits = bits;
        self.pages.push(Page { bits, locks: Arc::new(above) });
        // The places of a page are neighbours; the upper half of them is that of the new one.
        let half = 1 << (self.bits - bits);
        let first = (beginning(hash, bits - 1) * 2 + 1) * half;
        self.places[first..first + half].fill(upper);
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        let Some((page, at)) = self.position(key) else { return false };
        Arc::make_mut(&mut self.pages[page].locks).remove(at);
        true
    }

    fn values(&self) -> impl Iterator<Item = &KeptLock> {
        self.pages.iter().flat_map(|page| page.locks.kept.iter())
    }

    /// Keeps some locks.
    fn retain(&mut self, is_kept: impl Fn(&KeptLock) -> bool) {
        if self.values().all(&is_kept) {
            return;
        }
        let kept: Vec<KeptLock> = self.values().filter(|kept| is_kept(kept)).cloned().collect();
        *self = Self::default();
        for kept in kept {
            let id = Arc::clone(kept.id());
            self.insert(&id.key, kept);
        }
    }
}

/// The locks of all servers and databases.
#[derive(Clone, Default)]
pub struct LockTable {
    databases: Vec<((u16, u32), Database)>,
    count: usize,
    /// How many of them are at rest.
    resting: usize,
    /// The bytes of their keys behind the first [`USUAL_KEY`].
    long_keys: usize,
    /// How many there may be before the free ones are forgotten.
    limit: usize,
    /// How many were ever added.
    added: u64,
    /// The locks that were added or woken last, the latest at the end.
    awake: VecDeque<Arc<LockId>>,
    /// The others that are awake, perhaps several times each, and some that are not any more.
    restless: IdPages,
    /// The ends of connections that are not noted at the locks yet.
    ends: RecentEnds,
    /// How many refusals and releases are postponed until a lock is woken.
    postponed: usize,
    forms: LineForms,
}

/// How many bytes a key has that is counted with its lock.
const USUAL_KEY: usize = 24;

/// How many more a key has.
fn unusual(key: &[u8]) -> usize {
    key.len().saturating_sub(USUAL_KEY)
}

impl LockTable {
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// About how many bytes the locks take.
    pub fn memory(&self) -> usize {
        const RESTING: usize = 400;
        const AWAKE: usize = 2800;
        const POSTPONED: usize = 200;
        debug_assert_eq!(self.resting, self.all().filter(|kept| kept.is_resting()).count(), "locks at rest");
        let awake = self.count.saturating_sub(self.resting);
        let locks = self.resting * RESTING + awake * AWAKE + self.long_keys;
        locks + self.postponed * POSTPONED + self.ends.memory()
    }

    #[inline]
    pub fn find(&self, server: u16, db: u32, key: &[u8]) -> Option<&Lock> {
        self.kept_of(server, db, key).map(|kept| &kept.tracked(&self.ends).lock)
    }

    #[inline]
    pub fn find_mut(&mut self, server: u16, db: u32, key: &[u8]) -> Option<&mut TrackedLock> {
        let place = self.place(server, db, key)?;
        let kept = self.kept_at(place)?;
        if let KeptLock::Resting(resting) = kept {
            let (id, postponed) = (Arc::clone(resting.id()), kept.postponed());
            self.postponed = self.postponed.saturating_sub(postponed);
            self.resting = self.resting.saturating_sub(1);
            self.note_awake(id);
        }
        entry_in(&mut self.databases, place)?.wake(&self.ends)
    }

    #[inline]
    fn kept_of(&self, server: u16, db: u32, key: &[u8]) -> Option<&KeptLock> {
        self.kept_at(self.place(server, db, key)?)
    }

    // ---- what is known of a lock without waking it

    pub fn contains(&self, server: u16, db: u32, key: &[u8]) -> bool {
        self.kept_of(server, db, key).is_some()
    }

    /// The reasons to take a key for a lock, if it is tracked.
    pub fn reasons(&self, server: u16, db: u32, key: &[u8]) -> Option<LockReasons> {
        self.kept_of(server, db, key).map(KeptLock::reasons)
    }

    /// Whether a client holds a lock or waits for it.
    pub fn concerns(&self, id: &LockId, client: &ClientIdentity) -> bool {
        self.place_concerning(id, client).is_some()
    }

    /// Where a lock stands that a client holds or waits for.
    pub fn place_concerning(&self, id: &LockId, client: &ClientIdentity) -> Option<Place> {
        let place = self.place(id.server, id.db, &id.key)?;
        self.kept_at(place)?.concerns(client, &self.ends).then_some(place)
    }

    /// Whether a client waits for a lock.
    pub fn has_waiter(&self, id: &LockId, client: &ClientIdentity) -> bool {
        self.kept_of(id.server, id.db, &id.key).is_some_and(|kept| kept.has_waiter(client, &self.ends))
    }

    // ---- locks at rest

    /// Where a lock stands.
    #[inline]
    pub fn place(&self, server: u16, db: u32, key: &[u8]) -> Option<Place> {
        let database = self.databases.iter().position(|(number, _)| *number == (server, db))?;
        let (page, at) = self.databases[database].1.position(key)?;
        Some(Place { database, page, at })
    }

    fn kept_at(&self, Place { database, page, at }: Place) -> Option<&KeptLock> {
        let (_, locks) = self.databases.get(database)?;
        locks.pages.get(page)?.locks.kept.get(at)
    }

    fn entry_at(&mut self, place: Place) -> Option<&mut KeptLock> {
        entry_in(&mut self.databases, place)
    }

    /// The id of the lock at a place, and the reasons to take the key for one.
    pub fn known_at(&self, place: Place) -> Option<(&Arc<LockId>, LockReasons)> {
        self.kept_at(place).map(|kept| (kept.id(), kept.reasons()))
    }

    /// The lock at a place, if it is at rest.
    #[inline]
    pub fn resting(&self, place: Place) -> Option<&RestingLock> {
        match self.kept_at(place)? {
            KeptLock::Resting(resting) => Some(resting),
            KeptLock::Awake(_) => None,
        }
    }

    /// Whether there are more locks than are awake at the same time.
    pub fn are_many(&self) -> bool {
        self.count > MAX_AWAKE
    }

    /// Puts a lock to rest, if it can be, and was taken before this line.
    pub fn put_to_rest(&mut self, place: Place, before: u64) {
        let may_rest = |lock: &Lock| {
            let [hold] = &lock.holds[..] else { return false };
            hold.acquired.seq < before && lock.waiters.is_empty()
        };
        if self.kept_at(place).and_then(KeptLock::awake).is_some_and(may_rest) {
            self.rest(place);
        }
    }

    fn rest(&mut self, place: Place) {
        let mut forms = std::mem::take(&mut self.forms);
        let is_put_to_rest = self.entry_at(place).is_some_and(|kept| kept.rest(&mut forms));
        self.forms = forms;
        if is_put_to_rest {
            self.resting += 1;
            self.postponed += self.kept_at(place).map_or(0, KeptLock::postponed);
        }
    }

    /// Notes a refusal at a lock at rest, and the reasons with it. Returns the findings that count from now on.
    pub fn postpone(&mut self, place: Place, refusal: Refusal, reasons: LockReasons) -> ThinVec<Finding> {
        self.note(place, |lock| lock.note_refusal(refusal, reasons))
    }

    /// Notes that the holder of a lock at rest gives it back, and the reasons with it. Returns the findings that count from now on.
    pub fn note_release(
        &mut self,
        place: Place,
        release: (NotedCommand, Release),
        reasons: LockReasons,
    ) -> ThinVec<Finding> {
        self.note(place, |lock| lock.note_release(release, reasons))
    }

    /// Notes that the holder of a lock at rest gives it another deadline, and the reasons with it. Returns the findings that count from now
    /// on.
    pub fn note_extension(
        &mut self,
        place: Place,
        extension: (NotedCommand, OwnerCheck),
        then: (i64, WorkSoFar),
        reasons: LockReasons,
    ) -> ThinVec<Finding> {
        self.note(place, |lock| lock.note_extension(extension, then, reasons))
    }

    fn note(&mut self, place: Place, note: impl FnOnce(&mut RestingLock) -> ThinVec<Finding>) -> ThinVec<Finding> {
        let findings = self.work_beside(place, |kept| match kept {
            KeptLock::Resting(resting) => note(Arc::make_mut(resting).lock_mut()),
            KeptLock::Awake(_) => ThinVec::new(),
        });
        findings.unwrap_or_default()
    }

    // ---- what holders do beside their locks

    /// Whether a client has the lock at a place for certain at this time on the server's clock and in reality.
    pub fn is_certain(&self, place: Place, client: &ClientIdentity, (at, real): (i64, i64)) -> bool {
        self.kept_at(place).is_some_and(|kept| kept.is_certain(client, (at, real), &self.ends))
    }

    /// Whether it is noted what the holders of a key write, which is not known for a lock.
    pub fn may_guard(&self, id: &LockId) -> bool {
        self.kept_of(id.server, id.db, &id.key).is_some_and(KeptLock::may_guard)
    }

    /// Whether a holder has used the key with this hash.
    pub fn is_used_for(&self, id: &LockId, key: u64) -> bool {
        self.kept_of(id.server, id.db, &id.key).is_some_and(|kept| kept.is_used_for(key))
    }

    /// A holder uses the key with this hash.
    pub fn note_used(&mut self, place: Place, key: u64) {
        if self.kept_at(place).is_some_and(|kept| !kept.is_used_for(key)) {
            self.work_beside(place, |kept| match kept {
                KeptLock::Awake(tracked) => Arc::make_mut(tracked).lock.note_used(key),
                KeptLock::Resting(resting) => Arc::make_mut(resting).lock_mut().note_used(key),
            });
        }
    }

    /// Lets a client's hold of a key be noted that may be a lock, and is none so far; `None` if it is one, or there is no such hold.
    pub fn with_guarded<T>(
        &mut self,
        place: Place,
        client: &ClientIdentity,
        note: impl FnOnce(Guarded<'_>) -> T,
    ) -> Option<T> {
        let (_, reasons) = self.known_at(place)?;
        if reasons.are_enough() {
            return None;
        }
        self.work_beside(place, |kept| kept.with_guarded(client, note))?
    }

    fn work_beside<T>(&mut self, place: Place, note: impl FnOnce(&mut KeptLock) -> T) -> Option<T> {
        let before = self.kept_at(place)?.postponed();
        let kept = self.entry_at(place)?;
        let noted = note(kept);
        let after = kept.postponed();
        self.postponed = self.postponed + after - before;
        Some(noted)
    }

    /// The last ends of connections, which concern locks at rest.
    pub fn recent_ends(&self) -> &RecentEnds {
        &self.ends
    }

    /// Notes that the connection of a client ended that had to do with these locks. Those that do not rest know already.
    pub fn add_end(&mut self, end: Arc<ConnectionEnd>, met: [IdPages; 2]) {
        self.ends.push(end, met);
        while let Some(oldest) = self.ends.take_surplus(self.count) {
            let ids: Vec<_> = oldest.met().collect();
            for ids in ids.chunks(FETCHED) {
                self.fetch_ahead(oldest.end.client.server, ids.iter().map(|id| (id.db, &*id.key)));
                ids.iter().for_each(|id| self.note_end(id, &oldest.end));
            }
        }
    }

    /// Notes at a lock, if it rests, that the connection of a client ended that holds it or waits for it.
    fn note_end(&mut self, id: &LockId, end: &Arc<ConnectionEnd>) {
        let Some(place) = self.place(id.server, id.db, &id.key) else { return };
        let is_concerned = self.resting(place).is_some_and(|lock| lock.concerns(&end.client, &self.ends));
        if is_concerned && let Some(lock) = self.resting_mut(place) {
            lock.note_end(Arc::clone(end));
        }
    }

    /// How many locks there are at most that do not rest.
    pub fn most_awake(&self) -> usize {
        self.count - self.resting
    }

    /// The locks that do not rest, perhaps several times each, and some that do.
    pub fn awake(&self) -> impl Iterator<Item = &Arc<LockId>> {
        self.awake.iter().chain(self.restless.iter())
    }

    fn resting_mut(&mut self, place: Place) -> Option<&mut RestingLock> {
        let KeptLock::Resting(resting) = self.entry_at(place)? else { return None };
        Some(Arc::make_mut(resting).lock_mut())
    }

    /// The forms of the commands that are noted of locks at rest.
    pub fn forms(&mut self) -> &mut LineForms {
        &mut self.forms
    }

    pub fn get(&self, id: &LockId) -> Option<&Lock> {
        self.find(id.server, id.db, &id.key)
    }

    pub fn get_mut(&mut self, id: &LockId) -> Option<&mut TrackedLock> {
        self.find_mut(id.server, id.db, &id.key)
    }

    /// Tracks a key again.
    pub fn track_again(&mut self, kept: KeptLock) {
        let LockId { server, db, key } = &**kept.id();
        self.add(*server, *db, key);
        self.put_back(kept);
    }

    /// Adds a key that is to be tracked, unless it is.
    pub fn add(&mut self, server: u16, db: u32, key: &[u8]) {
        self.make_room();
        let at = self.database_of(server, db);
        let id = Arc::new(LockId { server, db, key: key.into() });
        self.added += 1;
        if self.databases[at].1.position(key).is_none() {
            let tracked = Arc::new(TrackedLock::new(Arc::clone(&id), self.added));
            self.databases[at].1.insert(key, KeptLock::Awake(tracked));
            self.count += 1;
            self.long_keys += unusual(key);
        }
        self.note_awake(id);
    }

    /// Adds the lock of a key that is not tracked, at rest.
    /// Returns the lock and its number.
    pub fn add_resting(
        &mut self,
        (server, db, key): (u16, u32, &[u8]),
        taking: Taking<'_>,
        taken: NotedCommand,
    ) -> (u64, Arc<Resting>) {
        self.make_room();
        let (id, number) = (Arc::new(LockId { server, db, key: key.into() }), self.added + 1);
        let resting = Arc::new(Resting::new(RestingLock::taken((id, number), taking, taken)));
        let at = self.database_of(server, db);
        self.databases[at].1.insert(key, KeptLock::Resting(Arc::clone(&resting)));
        (self.added, self.count, self.resting) = (number, self.count + 1, self.resting + 1);
        self.long_keys += unusual(key);
        (number, resting)
    }

    fn make_room(&mut self) {
        if self.count >= self.limit.max(MAX_LOCKS) {
            self.forget_free();
        }
    }

    /// The place of a database, which is added if it is not there.
    fn database_of(&mut self, server: u16, db: u32) -> usize {
        self.databases.iter().position(|(number, _)| *number == (server, db)).unwrap_or_else(|| {
            self.databases.push(((server, db), Database::default()));
            self.databases.len() - 1
        })
    }

    /// A lock was added or woken: puts the one to rest that was so longest ago.
    fn note_awake(&mut self, id: Arc<LockId>) {
        self.awake.push_back(id);
        if self.awake.len() > MAX_AWAKE
            && let Some(id) = self.awake.pop_front()
            && let Some(place) = self.place(id.server, id.db, &id.key)
        {
            self.rest(place);
            if self.is_awake(place) {
                self.restless.push(id);
                self.prune_restless();
            }
        }
    }

    fn is_awake(&self, place: Place) -> bool {
        self.kept_at(place).is_some_and(|kept| !kept.is_resting())
    }

    fn prune_restless(&mut self) {
        /// How many more entries there may be than twice as many as locks that are awake.
        const FEW: usize = 1024;
        if self.restless.len() > 2 * self.most_awake() + FEW {
            let mut ids: Vec<_> = self.restless.iter().collect();
            drop_repeated(&mut ids);
            let is_left = |id: &Arc<LockId>| self.place(id.server, id.db, &id.key).is_some_and(|at| self.is_awake(at));
            self.restless = ids.into_iter().filter(|id| is_left(id)).cloned().collect();
        }
    }

    pub fn remove(&mut self, id: &LockId) {
        let number = (id.server, id.db);
        let kept = self.kept_of(id.server, id.db, &id.key);
        let (postponed, is_resting) = kept.map_or((0, false), |kept| (kept.postponed(), kept.is_resting()));
        let database = self.databases.iter_mut().find(|(other, _)| *other == number);
        if database.is_some_and(|(_, locks)| locks.remove(&id.key)) {
            self.count -= 1;
            self.long_keys = self.long_keys.saturating_sub(unusual(&id.key));
            self.postponed = self.postponed.saturating_sub(postponed);
            self.resting = self.resting.saturating_sub(usize::from(is_resting));
        }
    }

    #[cold]
    fn forget_free(&mut self) {
        self.retain(KeptLock::is_in_use);
        if self.count >= MAX_LOCKS {
            // Holds whose holders were never told that they lost them may be more and more.
            self.retain(KeptLock::has_value);
        }
        self.limit = self.count * 2;
    }

    fn retain(&mut self, is_kept: impl Fn(&KeptLock) -> bool) {
        self.databases.iter_mut().for_each(|(_, locks)| locks.retain(&is_kept));
        self.recount();
    }

    fn recount(&mut self) {
        (self.count, self.postponed) = (self.all().count(), self.all().map(KeptLock::postponed).sum());
        self.resting = self.all().filter(|kept| kept.is_resting()).count();
        self.long_keys = self.all().map(|kept| unusual(&kept.id().key)).sum();
    }

    fn all(&self) -> impl Iterator<Item = &KeptLock> {
        self.databases.iter().flat_map(|(_, locks)| locks.values())
    }

    /// A copy with the locks that clients hold or wait for.
    pub fn active(&self) -> Self {
        let mut active = self.clone();
        active.retain(|kept| is_active(&kept.seen(&self.ends).lock));
        active
    }

    /// The lock of a key as it is now, to be put back after a look at what would become of it.
    pub fn kept(&self, id: &LockId) -> Option<KeptLock> {
        self.kept_of(id.server, id.db, &id.key).cloned()
    }

    /// Puts a lock back.
    pub fn put_back(&mut self, kept: KeptLock) {
        let id = Arc::clone(kept.id());
        self.postponed += kept.postponed();
        let is_resting = kept.is_resting();
        let Some(entry) = self.place(id.server, id.db, &id.key).and_then(|place| self.entry_at(place)) else { return };
        let before = std::mem::replace(entry, kept);
        self.resting = self.resting + usize::from(is_resting) - usize::from(before.is_resting());
    }

    /// Looks at the locks of some keys, so that the memory that their next commands need is fetched for all of them together.
    ///
    /// Each step reads for all keys what the step before it has led to. Reads that do not depend on each other are waited for
    /// together.
    pub fn fetch_ahead<'k>(&self, server: u16, keys: impl Iterator<Item = (u32, &'k [u8])>) {
        /// So many locks are near enough in memory anyway.
        const FEW: usize = 1000;
        if self.count < FEW {
            return;
        }
        type Looked<T> = ArrayVec<T, FETCHED>;
        let database = |db: u32| self.databases.iter().find(|(number, _)| *number == (server, db)).map(|(_, all)| all);
        let looks: Looked<(&Database, u32)> =
            keys.take(FETCHED).filter_map(|(db, key)| Some((database(db)?, hash_of(key)))).collect();
        let pages: Looked<(&Page, u32)> =
            looks.iter().filter_map(|(all, hash)| Some((&all.pages[all.page(*hash)?], *hash))).collect();
        let sizes: usize = pages.iter().map(|(page, _)| page.locks.len()).sum();
        let first = |page: &Page| page.locks.hashes.iter().step_by(16).fold(0, |all, hash| all ^ hash);
        let hashes = pages.iter().map(|(page, _)| first(page)).fold(0, |all, one| all ^ one);
        let kept: Looked<&KeptLock> = pages
            .iter()
            .filter_map(|(page, hash)| Some((page, page.locks.hashes.iter().position(|known| known == hash)?)))
            .map(|(page, at)| &page.locks.kept[at])
            .collect();
        let (mut awake, mut resting) = (Looked::<&TrackedLock>::new(), Looked::<&RestingLock>::new());
        for kept in kept {
            match kept {
                KeptLock::Awake(tracked) => awake.push(tracked),
                KeptLock::Resting(kept) => resting.push(kept),
            }
        }
        let at_rest: usize = resting.iter().map(|lock| lock.touch()).sum();
        let refused: u64 = resting
            .iter()
            .map(|lock| {
                let last = lock.refusals().last().map_or(0, |refusal| refusal.command.seq);
                last ^ u64::from(lock.id().key.first().copied().unwrap_or(0))
            })
            .fold(0, |all, one| all ^ one);
        let fields: usize = awake.iter().map(|tracked| tracked.touch()).sum();
        let parts = awake.iter().map(|TrackedLock { lock, .. }| {
            let hold = lock.holds.first().map_or(0, |hold| hold.acquired.seq);
            let waiter = lock.waiters.last().map_or(0, |waiter| waiter.attempts);
            hold ^ waiter ^ u64::from(lock.id.key.first().copied().unwrap_or(0))
        });
        std::hint::black_box((sizes, hashes, at_rest, refused, fields, parts.fold(0, |all, one| all ^ one)));
    }

    /// Forgets the locks of a server.
    pub fn forget(&mut self, server: u16) {
        let (gone, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.databases).into_iter().partition(|((number, _), _)| *number == server);
        self.databases = left;
        self.ends.forget(server);
        if self.len() >= MANY {
            free_beside("redouble-audit", gone);
        }
        self.recount();
    }

    /// Forgets the locks of a server that clients hold there.
    pub fn forget_held(&mut self, server: u16) {
        let is_held = |lock: &Lock| lock.holds.iter().any(|hold| hold.status == HoldStatus::Held);
        for (_, locks) in self.databases.iter_mut().filter(|((number, _), _)| *number == server) {
            locks.retain(|kept| !is_held(&kept.seen(&self.ends).lock));
        }
        self.recount();
    }

    /// The keys that are taken for locks, in the order of servers, databases and keys.
    pub fn known(&self) -> Vec<&KeptLock> {
        let mut known: Vec<_> = self.all().filter(|kept| kept.reasons().are_enough()).collect();
        known.sort_by_key(|kept| kept.id());
        known
    }

    /// A lock for one look: if it is at rest, it goes on resting.
    pub fn look(&self, server: u16, db: u32, key: &[u8]) -> Option<Cow<'_, Lock>> {
        self.kept_of(server, db, key).map(|kept| match kept.seen(&self.ends) {
            Cow::Borrowed(tracked) => Cow::Borrowed(&tracked.lock),
            Cow::Owned(tracked) => Cow::Owned(tracked.lock),
        })
    }

    /// Whether a key is known for a lock.
    pub fn is_known(&self, id: &LockId) -> bool {
        self.kept_of(id.server, id.db, &id.key).is_some_and(|kept| kept.reasons().are_enough())
    }

    /// The ids of the locks that clients hold or wait for, or whose keys the servers have, in order.
    pub fn ids_in_use(&self) -> Vec<Arc<LockId>> {
        self.ids_where(KeptLock::is_in_use)
    }

    /// The ids of some locks, in order. `is_placed` looks at less, so that not all have to be woken.
    pub fn ids(&self, is_placed: impl Fn(&LockId) -> bool, is_meant: impl Fn(&Lock) -> bool) -> Vec<Arc<LockId>> {
        self.ids_where(|kept| is_placed(kept.id()) && is_meant(&kept.seen(&self.ends).lock))
    }

    /// The same where that is all there is to look at.
    pub fn ids_placed(&self, is_placed: impl Fn(&LockId) -> bool) -> Vec<Arc<LockId>> {
        self.ids_where(|kept| is_placed(kept.id()))
    }

    fn ids_where(&self, is_meant: impl Fn(&KeptLock) -> bool) -> Vec<Arc<LockId>> {
        let meant = self.all().filter(|kept| is_meant(kept));
        let mut ids: Vec<_> = meant.map(|kept| Arc::clone(kept.id())).collect();
        ids.sort();
        ids
    }
}

/// Leaves each id there once, in no certain order. Their keys are far away in memory: those that stand there twice are found by their
/// addresses.
pub fn drop_repeated(ids: &mut Vec<&Arc<LockId>>) {
    ids.sort_unstable_by_key(|id| Arc::as_ptr(id));
    ids.dedup_by(|one, other| Arc::ptr_eq(one, other));
}

fn entry_in(databases: &mut [((u16, u32), Database)], Place { database, page, at }: Place) -> Option<&mut KeptLock> {
    let (_, locks) = databases.get_mut(database)?;
    Arc::make_mut(&mut locks.pages.get_mut(page)?.locks).kept.get_mut(at)
}

/// Whether a client holds the lock or waits for it.
pub fn is_active(lock: &Lock) -> bool {
    lock.is_known() && !(lock.holds.is_empty() && lock.waiters.is_empty())
}
