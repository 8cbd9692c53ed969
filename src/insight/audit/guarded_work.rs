//! What clients write beside a key while they have it: a key that two programs take, around writes of the same data, and give
//! back is a lock, whatever it is called.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use super::client_identity::{ClientIdentity, SameProgram};

/// How many stints are remembered of one key, and how many keys that were written in each.
const MAX_STINTS: usize = 16;
const MAX_WRITTEN: usize = 8;
/// How many keys are remembered that were written beside.
const MAX_BESIDE: usize = 16;

/// The seeds with which keys and values are hashed.
const HASH: FixedState = FixedState::with_seed(3);

/// The stints of clients at one key, the latest at the end.
#[derive(Clone, Default)]
pub struct GuardedWork {
    stints: Vec<Stint>,
    /// The keys that clients wrote although they had seen that another one has this key.
    beside: SmallVec<[u64; 2]>,
}

/// A client has the key, from when it took it until it gives it back or tries to.
#[derive(Clone)]
struct Stint {
    client: ClientIdentity,
    /// The member, field or token; 0 for a whole key.
    place: u64,
    value: u64,
    from: u64,
    until: Option<u64>,
    /// The client gave the key back, or tried to. Otherwise it took it anew.
    is_given_back: bool,
    written: SmallVec<[Written; 2]>,
    /// It was told that another client is there.
    is_refused: bool,
    /// It counted the others before it came in, or was told its place.
    has_counted: bool,
}

/// A key that the client wrote meanwhile, and the place of the last time in the order.
#[derive(Clone, Copy)]
struct Written {
    key: u64,
    last: u64,
}

/// The hash of a key, a member or a value.
pub fn hash_of(db: u32, bytes: &[u8]) -> u64 {
    HASH.hash_one((db, bytes))
}

/// The hash of a key of a server.
pub fn hash_on(server: u16, db: u32, key: &[u8]) -> u64 {
    HASH.hash_one((server, db, key))
}

impl GuardedWork {
    /// A client has taken the key, or a place in it.
    pub fn enter(&mut self, client: &ClientIdentity, (place, value): (u64, u64), at: u64) {
        if let Some(stint) = self.open(client, place) {
            stint.until = Some(at);
        }
        if self.stints.len() >= MAX_STINTS {
            self.stints.remove(0);
        }
        let (client, written) = (client.clone(), SmallVec::new());
        let (is_given_back, is_refused, has_counted) = (false, false, false);
        let until = None;
        self.stints.push(Stint {
            client,
            place,
            value,
            from: at,
            until,
            is_given_back,
            written,
            is_refused,
            has_counted,
        });
    }

    /// A client has not got the place, and may go on all the same.
    pub fn refuse(&mut self, client: &ClientIdentity, place: u64, at: u64) {
        self.enter(client, (place, 0), at);
        if let Some(stint) = self.stints.last_mut() {
            stint.is_refused = true;
        }
    }

    /// A client that has come in has counted the others.
    pub fn count(&mut self, client: &ClientIdentity, place: u64) {
        if let Some(stint) = self.open(client, place) {
            stint.has_counted = true;
        }
    }

    fn open(&mut self, client: &ClientIdentity, place: u64) -> Option<&mut Stint> {
        let is_its =
            |stint: &&mut Stint| stint.is_open() && stint.place == place && stint.client.is_same_connection(client);
        self.stints.iter_mut().rev().find(is_its)
    }

    /// A client has the key since it took it, if that is not known yet.
    pub fn stay(&mut self, client: &ClientIdentity, (place, value): (u64, u64), from: u64) {
        let is_its = |stint: &Stint| stint.from == from && stint.client.is_same_connection(client);
        if !self.stints.iter().any(is_its) {
            self.enter(client, (place, value), from);
        }
    }

    /// A client writes another key. Returns whether by that who was refused has written the same as who was not: the key is a gauge, or
    /// a mark, that keeps nobody away.
    pub fn write(&mut self, client: &ClientIdentity, key: u64, at: u64) -> bool {
        let is_its = |stint: &Stint| stint.is_open() && stint.client.is_same_connection(client);
        let Some(own) = self.stints.iter().rposition(is_its) else { return false };
        let written = &mut self.stints[own].written;
        if let Some(written) = written.iter_mut().find(|written| written.key == key) {
            written.last = at;
            return false;
        }
        if written.len() >= MAX_WRITTEN {
            return false;
        }
        written.push(Written { key, last: at });
        let own = &self.stints[own];
        let have_both = |other: &Stint| own.is_refused != other.is_refused && other.writes(key);
        self.stints.iter().any(|other| have_both(other) && own.is_rival(other))
    }

    /// A client gives a place back, or tries to.
    pub fn leave(&mut self, client: &ClientIdentity, place: u64, at: u64) {
        if let Some(stint) = self.open(client, place) {
            (stint.until, stint.is_given_back) = (Some(at), true);
        }
    }

    /// A client writes another key although it has seen that another program has this one: that is not what it guards. Returns
    /// whether that is new.
    pub fn write_beside(&mut self, key: u64) -> bool {
        let is_new = self.beside.len() < MAX_BESIDE && !self.beside.contains(&key);
        if is_new {
            self.beside.push(key);
        }
        is_new
    }

    /// Whether a client has given a place back after it had written something.
    pub fn is_of_use(&self) -> bool {
        self.stints.iter().any(|stint| !stint.is_open() && !stint.is_refused && !stint.written.is_empty())
    }

    /// Whether two programs have taken the key, written the same other key meanwhile, and given it back; one of them is
    /// enough if the second one took it with another value although the first one had it.
    pub fn is_guard(&self) -> bool {
        self.pairs().any(|(one, other)| {
            let are_over = (one.is_given_back, other.is_given_back);
            let is_meant = |written: &&Written| !self.beside.contains(&written.key);
            let is_common = one.written.iter().filter(is_meant).any(|written| other.writes(written.key));
            let are_owners = || one.overlaps(other) && one.value != other.value;
            is_common && (are_over == (true, true) || are_over != (false, false) && are_owners())
        })
    }

    /// Whether they took it with values of their own.
    pub fn has_own_values(&self) -> bool {
        self.pairs().any(|(one, other)| one.value != other.value)
    }

    /// Whether two programs had the same place at once, both wrote the same other key, the first one after the second one
    /// had come, and both gave the place back or tried to. One of them is enough if a mistake is known that let the other one in.
    pub fn is_broken(&self, by_mistake: bool) -> bool {
        self.pairs_at_place().any(|(one, other)| {
            let is_late = |written: &Written| written.last > other.from && other.writes(written.key);
            let are_over = match by_mistake {
                true => one.is_given_back || other.is_given_back,
                false => !one.is_open() && !other.is_open(),
            };
            one.overlaps(other) && are_over && one.written.iter().any(is_late) && one.is_rival(other)
        })
    }

    /// Whether two programs have each counted who is there, added themselves and gone again, and nobody came in uncounted.
    pub fn is_semaphore(&self) -> bool {
        let all_count = self.stints.iter().all(|stint| stint.is_refused || stint.has_counted);
        let mut guests = self.stints.iter().filter(|stint| !stint.is_refused && !stint.is_open());
        let Some(first) = guests.next() else { return false };
        all_count && guests.any(|other| first.client.same_program(&other.client) == SameProgram::No)
    }

    /// Two stints of two programs at the same place, the earlier one first.
    fn pairs(&self) -> impl Iterator<Item = (&Stint, &Stint)> {
        self.pairs_at_place().filter(|(one, other)| one.is_rival(other))
    }

    /// Two stints at the same place, perhaps of one program.
    fn pairs_at_place(&self) -> impl Iterator<Item = (&Stint, &Stint)> {
        self.stints.iter().enumerate().filter(|(_, one)| !one.is_refused).flat_map(|(at, one)| {
            let later = self.stints[at + 1..].iter().filter(|other| !other.is_refused && one.place == other.place);
            later.map(move |other| (one, other))
        })
    }
}

impl Stint {
    fn is_open(&self) -> bool {
        self.until.is_none()
    }

    fn writes(&self, key: u64) -> bool {
        self.written.iter().any(|written| written.key == key)
    }

    /// Whether the other one began before this one was over.
    fn overlaps(&self, other: &Self) -> bool {
        self.until.is_none_or(|until| until > other.from)
    }

    fn is_rival(&self, other: &Self) -> bool {
        self.place == other.place && self.client.same_program(&other.client) == SameProgram::No
    }
}
