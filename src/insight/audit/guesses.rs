//! Keys that clients found free and then set, as a lock is taken in two steps, and as a cache is filled.
//!
//! A cache has many keys, which differ in numbers and random parts alone. If some of them are read as data by others, or if thousands came
//! to nothing, the others are taken for data, too.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::guarded_work::hash_of;
use super::key_family::key_glob;
use super::lock::LockId;

/// How many keys of a family are followed before it is decided what they are, and how many of them others have read as data if that is
/// enough to decide it.
pub const MAX_GUESSED: usize = 5_000;
pub const MAX_READ: usize = 50;
/// How many families are told apart. All others are one.
const MAX_FAMILIES: usize = 64;

/// The families of keys that were found free and set.
#[derive(Clone, Default)]
pub struct Guesses {
    families: HashMap<u64, Arc<Family>, FixedState>,
    others: Arc<Family>,
}

/// Keys that differ in numbers and random parts alone.
#[derive(Clone)]
enum Family {
    Undecided(Undecided),
    Locks,
    Data,
}

/// The keys of a family so far, by their hashes.
#[derive(Clone, Default)]
struct Undecided {
    keys: HashMap<u64, Arc<LockId>, FixedState>,
    /// Those that others have read as data.
    read: HashSet<u64, FixedState>,
}

impl Undecided {
    fn is_to_be_decided(&self) -> bool {
        self.keys.len() >= MAX_GUESSED || self.read.len() >= MAX_READ
    }
}

impl Default for Family {
    fn default() -> Self {
        Self::Undecided(Undecided::default())
    }
}

/// The hash of a key's family.
pub fn family_of(db: u32, key: &[u8]) -> u64 {
    hash_of(db, &key_glob(key))
}

impl Guesses {
    /// Whether a key is one of many of which none was a lock.
    pub fn is_data(&self, db: u32, key: &[u8]) -> bool {
        let decided = |family: &Family| matches!(family, Family::Data);
        if self.families.is_empty() {
            return false;
        }
        match self.families.get(&family_of(db, key)) {
            Some(family) => decided(family),
            None => decided(&self.others),
        }
    }

    /// A client has found a key free and set it. Returns the keys of its family if it is time to [decide](Self::decide) what they are.
    pub fn note(&mut self, id: &Arc<LockId>) -> Option<Vec<Arc<LockId>>> {
        self.note_in_family(id, |family, hash| {
            family.keys.insert(hash, Arc::clone(id));
        })
    }

    /// The same when a client reads a value there as data that another one has set.
    pub fn note_read(&mut self, id: &LockId) -> Option<Vec<Arc<LockId>>> {
        self.note_in_family(id, |family, hash| {
            family.read.insert(hash);
        })
    }

    fn note_in_family(&mut self, id: &LockId, note: impl FnOnce(&mut Undecided, u64)) -> Option<Vec<Arc<LockId>>> {
        let Family::Undecided(family) = Arc::make_mut(self.family_mut(id)) else { return None };
        note(family, hash_of(id.db, &id.key));
        // In an order that is the same each time.
        let in_order = || {
            let mut keys: Vec<_> = family.keys.values().cloned().collect();
            keys.sort();
            keys
        };
        family.is_to_be_decided().then(in_order)
    }

    /// Says what the keys of a family are.
    pub fn decide(&mut self, id: &LockId, are_locks: bool) {
        *self.family_mut(id) = Arc::new(if are_locks { Family::Locks } else { Family::Data });
    }

    /// About how many bytes that takes.
    pub fn memory(&self) -> usize {
        const KEY: usize = 96;
        let families = self.families.values().chain([&self.others]);
        let keys = families.map(|family| if let Family::Undecided(family) = &**family { family.keys.len() } else { 0 });
        keys.sum::<usize>() * KEY
    }

    fn family_mut(&mut self, id: &LockId) -> &mut Arc<Family> {
        let family = family_of(id.db, &id.key);
        match self.families.len() < MAX_FAMILIES || self.families.contains_key(&family) {
            true => self.families.entry(family).or_default(),
            false => &mut self.others,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(guesses: &mut Guesses, key: &str) -> Option<usize> {
        let id = Arc::new(LockId { server: 1, db: 0, key: key.as_bytes().into() });
        guesses.note(&id).map(|keys| keys.len())
    }

    #[test]
    fn a_family_is_decided_when_many_of_its_keys_were_set() {
        let mut guesses = Guesses::default();
        for number in 1..MAX_GUESSED {
            assert_eq!(note(&mut guesses, &format!("page:{number}")), None);
            assert_eq!(note(&mut guesses, "page:1"), None, "one key again and again is one key");
        }
        assert_eq!(note(&mut guesses, "page:0"), Some(MAX_GUESSED));
        assert!(!guesses.is_data(0, b"page:7"));
        guesses.decide(&LockId { server: 1, db: 0, key: b"page:0"[..].into() }, false);
        assert!(guesses.is_data(0, b"page:7") && !guesses.is_data(0, b"job:7") && !guesses.is_data(1, b"page:7"));
        assert_eq!(note(&mut guesses, "page:8"), None);
    }

    #[test]
    fn a_family_is_decided_when_some_of_its_keys_were_read_as_data() {
        let mut guesses = Guesses::default();
        let mut read = |number: usize| {
            let key = format!("page:{number}");
            note(&mut guesses, &key);
            guesses.note_read(&LockId { server: 1, db: 0, key: key.as_bytes().into() }).map(|keys| keys.len())
        };
        assert!((1..MAX_READ).all(|number| read(number).is_none() && read(1).is_none()));
        assert_eq!(read(MAX_READ), Some(MAX_READ));
    }

    #[test]
    fn keys_of_very_many_families_are_decided_together() {
        let name = |number: usize| {
            let letter = |shift: usize| char::from(b'a' + u8::try_from(number >> shift & 15).unwrap());
            format!("{}{}{}{}", letter(12), letter(8), letter(4), letter(0))
        };
        let mut guesses = Guesses::default();
        let all = MAX_FAMILIES + MAX_GUESSED;
        assert!((1..all).all(|number| note(&mut guesses, &name(number)).is_none()));
        assert_eq!(note(&mut guesses, &name(all)), Some(MAX_GUESSED));
        guesses.decide(&LockId { server: 1, db: 0, key: name(all).as_bytes().into() }, false);
        assert!(guesses.is_data(0, b"another") && !guesses.is_data(0, name(1).as_bytes()));
        assert!(guesses.memory() < 100_000);
    }
}
