//! What is known of the names of locks from before a reset: a key that a test has shown to be a lock is one in the next test
//! from its first command.

use std::collections::{HashMap, HashSet};

use foldhash::fast::FixedState;

use super::effect::LockShape;
use super::lock::{Lock, LockKey};
use super::lock_reason::LockReasons;
use super::rules::is_unique_token;

/// How many keys are remembered, and how many families of keys.
const MAX_KEYS: usize = 10_000;
const MAX_FAMILIES: usize = 1_000;
/// The longest value that is remembered.
const LONGEST_VALUE: usize = 64;
/// How many letters and digits a word needs to be taken for random, if it has both.
const RANDOM: usize = 8;

/// Keys that are locks, and families of keys that differ in numbers or random parts alone.
#[derive(Clone, Debug, Default)]
pub struct LearnedLocks {
    keys: HashMap<Box<[u8]>, Values, FixedState>,
    families: HashSet<(Box<[u8]>, Values), FixedState>,
}

/// What such a lock has for a value. The same name with another kind of value may be something else: a cache, a flag.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Values {
    /// A token of its own for each holder.
    Tokens,
    /// Always the same.
    Same(Box<[u8]>),
}

impl Values {
    fn of(value: &[u8]) -> Option<Self> {
        match is_unique_token(value) {
            true => Some(Self::Tokens),
            false => (1..=LONGEST_VALUE).contains(&value.len()).then(|| Self::Same(value.into())),
        }
    }
}

impl LearnedLocks {
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Learns that a key is a lock.
    pub fn learn(&mut self, lock: &Lock) {
        let held = lock.holds.last().or(lock.past_holds.back().map(|past| &past.hold)).map(|hold| &hold.token);
        let value = held.filter(|token| !token.is_empty()).or(lock.value.as_ref());
        if let Some(value) = value.filter(|_| lock.shape == LockShape::Value) {
            self.learn_held(&lock.id.key, lock.reasons, value);
        }
    }

    /// Learns that a key is a lock for these reasons, which a client has held with this value.
    pub fn learn_held(&mut self, key: &LockKey, reasons: LockReasons, value: &[u8]) {
        if !reasons.are_enough() || reasons.are_learned() {
            return;
        }
        let Some(values) = Values::of(value) else { return };
        if reasons.are_strong()
            && self.families.len() < MAX_FAMILIES
            && let Some(family) = family(key)
        {
            self.families.insert((family, values.clone()));
        }
        if self.keys.len() < MAX_KEYS || self.keys.contains_key(&**key) {
            self.keys.insert((**key).into(), values);
        }
    }

    /// Adds what others have learned.
    pub fn add(&mut self, others: &Self) {
        for (key, values) in &others.keys {
            if self.keys.len() < MAX_KEYS {
                self.keys.entry(key.clone()).or_insert_with(|| values.clone());
            }
        }
        for family in &others.families {
            if self.families.len() < MAX_FAMILIES {
                self.families.insert(family.clone());
            }
        }
    }

    /// Whether a key that is taken with this value is known to be a lock.
    pub fn knows(&self, key: &[u8], value: &[u8]) -> bool {
        let Some(values) = Values::of(value) else { return false };
        match self.keys.get(key) {
            Some(known) => *known == values,
            None => family(key).is_some_and(|family| self.families.contains(&(family, values))),
        }
    }

    /// The key is used for something else now.
    pub fn forget(&mut self, key: &[u8]) {
        self.keys.remove(key);
        if let Some(family) = family(key) {
            self.families.retain(|(known, _)| *known != family);
        }
    }
}

/// The key with `#` for each number and each random part; `None` without any, and if nothing else is left.
fn family(key: &[u8]) -> Option<Box<[u8]>> {
    let mut family = Vec::with_capacity(key.len());
    let (mut has_gap, mut has_name) = (false, false);
    let is_dashed = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    for dashed in key.chunk_by(|one, other| is_dashed(one) == is_dashed(other)) {
        if is_uuid(dashed) {
            has_gap = true;
            family.push(b'#');
            continue;
        }
        for part in dashed.chunk_by(|one, other| one.is_ascii_alphanumeric() == other.is_ascii_alphanumeric()) {
            let name = name_of(part);
            family.extend_from_slice(name);
            has_name |= name.iter().any(u8::is_ascii_alphabetic);
            if name.len() < part.len() {
                has_gap = true;
                family.push(b'#');
            }
        }
    }
    (has_gap && has_name).then(|| family.into())
}

/// A word without the number at its end; nothing of a random one.
fn name_of(part: &[u8]) -> &[u8] {
    let has_letters = part.iter().any(u8::is_ascii_alphabetic);
    let has_digits = part.iter().any(u8::is_ascii_digit);
    if has_digits && (!has_letters || part.len() >= RANDOM) {
        return &[];
    }
    &part[..part.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |last| last + 1)]
}

fn is_uuid(part: &[u8]) -> bool {
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    let is_right = |(at, byte): (usize, &u8)| match DASHES.contains(&at) {
        true => *byte == b'-',
        false => byte.is_ascii_hexdigit(),
    };
    part.len() == 36 && part.iter().enumerate().all(is_right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_differ_in_numbers_and_random_parts_are_of_one_family() {
        let of = |key: &str| family(key.as_bytes()).map(|family| String::from_utf8_lossy(&family).into_owned());
        assert_eq!(of("lock:order:4711").as_deref(), Some("lock:order:#"));
        assert_eq!(of("lock:job12").as_deref(), Some("lock:job#"));
        assert_eq!(of("lock:f47ac10b-58cc-4372-a567-0e02b2c3d479"), of("lock:00000000-1111-4222-8333-444444444444"));
        assert_eq!(of("lock:sJ8fK2mQ9xT4").as_deref(), Some("lock:#"));
        // Names alone are no family, and numbers alone are not one, either.
        assert_eq!(of("lock:report"), None);
        assert_eq!(of("4711"), None);
    }
}
