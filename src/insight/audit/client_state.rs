//! What is remembered of each client that has to do with locks.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::client_identity::ClientIdentity;
use super::finding::JournalRef;
use super::id_pages::IdPages;
use super::lock::LockId;

/// The clients that have to do with locks, by server and client. Copies share the states to which nothing happens.
#[derive(Clone, Default)]
pub struct ClientStates {
    known: HashMap<(u16, u64), Arc<ClientState>, FixedState>,
    /// The last locks that clients had whose connections have ended, the latest at the end.
    left: VecDeque<(Arc<LockId>, ClientIdentity)>,
}

impl ClientStates {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    #[inline]
    pub fn contains_key(&self, client: &(u16, u64)) -> bool {
        self.known.contains_key(client)
    }

    #[inline]
    pub fn get(&self, client: &(u16, u64)) -> Option<&ClientState> {
        self.known.get(client).map(|state| &**state)
    }

    #[inline]
    pub fn get_mut(&mut self, client: &(u16, u64)) -> Option<&mut ClientState> {
        self.known.get_mut(client).map(Arc::make_mut)
    }

    /// The state of a client, which is met with this if it was not before.
    #[inline]
    pub fn meet(&mut self, client: &ClientIdentity) -> &mut ClientState {
        let state = self.known.entry((client.server, client.id));
        Arc::make_mut(state.or_insert_with(|| Arc::new(ClientState::new(client.clone()))))
    }

    pub fn values(&self) -> impl Iterator<Item = &ClientState> {
        self.known.values().map(|state| &**state)
    }

    /// The connection of a client has ended.
    pub fn remove(&mut self, client: &(u16, u64)) {
        let Some(state) = self.known.remove(client) else { return };
        for id in &state.had {
            if self.left.len() >= MAX_LEFT {
                self.left.pop_front();
            }
            self.left.push_back((Arc::clone(id), state.client.clone()));
        }
    }

    /// Forgets the clients of a server. Returns them: what they have met may be much to free.
    pub fn forget(&mut self, server: u16) -> Vec<Arc<ClientState>> {
        self.left.retain(|(id, _)| id.server != server);
        self.known.extract_if(|(number, _), _| *number == server).map(|(_, state)| state).collect()
    }

    /// The last locks that such clients have had or have, perhaps several times each. Those who are named come first where
    /// there are too many.
    pub fn last_locks<'s>(
        &'s self,
        named: [&'s ClientIdentity; 2],
        is_meant: impl Fn(&ClientIdentity) -> bool + Copy + 's,
    ) -> impl Iterator<Item = &'s Arc<LockId>> {
        let is_named = move |client: &ClientIdentity| named.iter().any(|named| named.is_same_connection(client));
        let first = named.into_iter().filter_map(|client| self.get(&(client.server, client.id)));
        let others = self.values().filter(move |state| !is_named(&state.client) && is_meant(&state.client));
        let present = first.chain(others).flat_map(ClientState::last_locks);
        let left = self.left.iter().filter(move |(_, client)| is_named(client) || is_meant(client)).map(|(id, _)| id);
        present.take(MAX_LAST).chain(left)
    }
}

/// How many reads of locks, locks held or lost, and accessed keys are remembered of each client.
const MAX_READS: usize = 16;
pub const MAX_LOCKS: usize = 16;
pub const MAX_ACCESSED: usize = 64;
/// How many other connections of its program are remembered of each.
const MAX_COMPANIONS: usize = 16;
/// How many locks are remembered that clients had whose connections have ended.
const MAX_LEFT: usize = 512;
/// At how many of the last locks of clients it is looked, to find the one that they had at some time.
const MAX_LAST: usize = 512;
/// How many locks met are out of date before they are pruned.
const FEW: usize = 64;

/// A key that a client watches, and what it has read there since.
pub type Watched = (u32, Box<[u8]>, WatchedValue);

/// What a client has read in a key that it watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchedValue {
    /// It has not looked.
    Unread,
    /// There was nothing.
    Absent,
    Value(Box<[u8]>),
}

/// What is remembered of one client.
#[derive(Clone)]
pub struct ClientState {
    pub client: ClientIdentity,
    /// The client's reads of locks, the latest at the end.
    reads: VecDeque<LockRead>,
    /// The keys that the client watches.
    pub watched: Vec<Watched>,
    /// The keys that the client watched until its last EXEC.
    pub was_watched: Vec<Watched>,
    /// The locks that the client believes to hold.
    pub holds: Vec<Arc<LockId>>,
    /// The locks that the client lost without releasing them, and without being told.
    pub lost: Vec<Arc<LockId>>,
    /// Whether it is in doubt if the client holds another lock, which guards its work.
    pub may_hold_more: bool,
    /// The locks that the client got or waits for, perhaps several times each, but for those in `awaited`.
    met: IdPages,
    /// The locks for which the client waits since they refused it at rest, perhaps several times each.
    awaited: IdPages,
    /// The last locks that the client had and has not any more, the latest at the end.
    had: VecDeque<Arc<LockId>>,
    /// How many of these the client neither holds nor waits for any more.
    out_of_date: usize,
    /// The keys that the client accessed while it held any lock, and their hashes, which are looked through.
    accessed: VecDeque<KeyAccess>,
    accessed_hashes: VecDeque<u64>,
    /// Other connections of its program that have to do with locks: it may do their work.
    companions: Vec<(u16, u64)>,
    /// How many keys beside locks the client has accessed.
    pub work: u64,
    /// The place in the order of its last write to a key beside locks, while it held any or had lost one.
    pub wrote_beside: u64,
    /// Whether WAIT has told it of a lock that it held that too few replicas have it.
    pub has_short_wait: bool,
    /// When it did so last, in microseconds on the server's clock.
    pub worked_at: i64,
}

/// A key that a client accessed while it held a lock: the first and the last time, each by its place in the order and
/// in microseconds on the server's clock.
#[derive(Clone, Copy, Debug)]
pub struct KeyAccess {
    times: [(u64, i64); 2],
}

impl KeyAccess {
    /// Whether one of the accesses lies between two places in the order, and not after a time. One on another server has the
    /// place of the command before it.
    pub fn is_within(&self, from: u64, to: u64, until: i64) -> bool {
        self.times.iter().any(|(place, at)| *place >= from && *place < to && *at <= until)
    }
}

/// A client's read of a lock.
#[derive(Clone, Debug)]
pub struct LockRead {
    pub id: Arc<LockId>,
    pub value: Option<Box<[u8]>>,
    pub source: Arc<JournalRef>,
    /// How often the lock had been taken by then: if the number has grown, another client holds it.
    pub times_taken: u64,
}

impl ClientState {
    pub fn new(client: ClientIdentity) -> Self {
        Self {
            client,
            reads: VecDeque::new(),
            watched: Vec::new(),
            was_watched: Vec::new(),
            holds: Vec::new(),
            lost: Vec::new(),
            may_hold_more: false,
            met: IdPages::default(),
            awaited: IdPages::default(),
            had: VecDeque::new(),
            out_of_date: 0,
            accessed: VecDeque::new(),
            accessed_hashes: VecDeque::new(),
            companions: Vec::new(),
            work: 0,
            wrote_beside: 0,
            has_short_wait: false,
            worked_at: 0,
        }
    }

    pub fn note_read(&mut self, read: LockRead) {
        self.reads.retain(|earlier| earlier.id != read.id);
        if self.reads.len() >= MAX_READS {
            self.reads.pop_front();
        }
        self.reads.push_back(read);
    }

    /// The client's last read of a lock.
    pub fn last_read_of(&self, id: &LockId) -> Option<&LockRead> {
        self.reads.iter().rev().find(|read| *read.id == *id)
    }

    /// The key that the client read last, if it found it taken.
    pub fn found_taken(&self) -> Option<&Arc<LockId>> {
        self.reads.back().filter(|read| read.value.is_some()).map(|read| &read.id)
    }

    /// The client holds a lock from now on, or waits for it.
    pub fn note_met(&mut self, id: &Arc<LockId>) {
        self.met.push(Arc::clone(id));
    }

    /// The client waits for a lock at rest.
    pub fn note_awaited(&mut self, id: &Arc<LockId>) {
        self.awaited.push(Arc::clone(id));
    }

    /// A hold of the client has ended, or its wait.
    pub fn note_parted(&mut self, id: &Arc<LockId>) {
        // Most locks are given back soon.
        if !self.met.take_last(id) && !self.awaited.take_last(id) {
            self.out_of_date += 1;
        }
    }

    /// A hold of the client has ended.
    pub fn note_had(&mut self, id: &Arc<LockId>) {
        if self.had.len() >= MAX_LOCKS {
            self.had.pop_front();
        }
        self.had.push_back(Arc::clone(id));
    }

    /// The locks that it had, those that it met, and those that it awaits, the latest of each first.
    fn last_locks(&self) -> impl Iterator<Item = &Arc<LockId>> {
        self.had.iter().rev().chain(self.met.iter().rev()).chain(self.awaited.iter().rev())
    }

    /// Whether the locks met are to be pruned: most of them are out of date. `tracked` is how many locks there are.
    pub fn has_met_many(&self, tracked: usize) -> bool {
        let met = self.met.len() + self.awaited.len();
        // Locks that were forgotten count, too.
        self.out_of_date > FEW + met / 2 || met > 4 * tracked + 16 * FEW
    }

    /// The locks that the client got or waits for, perhaps several times each, but for those that it awaits at rest; and these.
    pub fn locks_met(&self) -> [&IdPages; 2] {
        [&self.met, &self.awaited]
    }

    /// Replaces them after pruning.
    pub fn set_met(&mut self, [met, awaited]: [IdPages; 2]) {
        (self.met, self.awaited, self.out_of_date) = (met, awaited, 0);
    }

    pub fn note_hold(&mut self, id: &Arc<LockId>) {
        self.may_hold_more = false;
        self.note_met(id);
        self.lost.retain(|lost| lost != id);
        push_bounded(&mut self.holds, id);
    }

    /// The client knows that it does not hold the lock any more.
    pub fn note_release(&mut self, id: &LockId) {
        self.holds.retain(|held| **held != *id);
        self.lost.retain(|lost| **lost != *id);
        if self.holds.is_empty() && self.lost.is_empty() {
            self.accessed.clear();
            self.accessed_hashes.clear();
        }
    }

    /// The client lost a lock and may not know.
    pub fn note_loss(&mut self, id: &Arc<LockId>) {
        if self.holds.contains(id) {
            self.holds.retain(|held| held != id);
            push_bounded(&mut self.lost, id);
        }
    }

    /// Whether the client's commands are work under a lock, or after its loss.
    pub fn is_at_work(&self) -> bool {
        !self.holds.is_empty() || !self.lost.is_empty()
    }

    /// Notes another connection that may take locks for this one.
    pub fn note_companion(&mut self, companion: (u16, u64)) {
        if self.companions.len() < MAX_COMPANIONS && !self.companions.contains(&companion) {
            self.companions.push(companion);
        }
    }

    pub fn companions(&self) -> &[(u16, u64)] {
        &self.companions
    }

    pub fn has_accessed_keys(&self) -> bool {
        !self.accessed.is_empty()
    }

    /// Notes an access to the key with this hash.
    pub fn note_access(&mut self, key: u64, place: u64, at: i64) {
        if let Some(known) = self.access_position(key) {
            self.accessed[known].times[1] = (place, at);
            return;
        }
        if self.accessed.len() >= MAX_ACCESSED {
            self.accessed.pop_front();
            self.accessed_hashes.pop_front();
        }
        self.accessed.push_back(KeyAccess { times: [(place, at); 2] });
        self.accessed_hashes.push_back(key);
    }

    /// The client's accesses to the key with this hash while it held any lock.
    pub fn access_to(&self, key: u64) -> Option<KeyAccess> {
        self.access_position(key).map(|at| self.accessed[at])
    }

    fn access_position(&self, key: u64) -> Option<usize> {
        let (first, second) = self.accessed_hashes.as_slices();
        let in_second = || second.iter().position(|known| *known == key).map(|at| first.len() + at);
        first.iter().position(|known| *known == key).or_else(in_second)
    }
}

fn push_bounded(ids: &mut Vec<Arc<LockId>>, id: &Arc<LockId>) {
    if ids.len() < MAX_LOCKS && !ids.contains(id) {
        ids.push(Arc::clone(id));
    }
}
