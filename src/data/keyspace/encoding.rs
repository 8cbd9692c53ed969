//! Redis's in-memory encoding of a string, for OBJECT ENCODING and OBJECT REFCOUNT.

use std::sync::atomic::{AtomicU32, Ordering};

use super::entry::{Entry, TextRef, ValueRef};
use super::usage::Usage;
use crate::base::profile::{Profile, Since};
use crate::protocol::parse_integer;

/// The longest text of a 64-bit integer, and the longest string with the encoding `embstr`.
const LONGEST_INTEGER: usize = 20;
const LONGEST_EMBEDDED: usize = 44;

/// The first Valkey that embeds a string, its key and its deadline in one object of this size.
pub const EMBEDS_KEYS: Since = Since::valkey(9, 0, 0);
const EMBEDDING_OBJECT: usize = 128;
/// The object's own fields, and what stands around a key and around a string.
const OBJECT_HEADER: usize = 8;
const AROUND_STRING: usize = 4;
const DEADLINE: usize = 8;

/// The number of access times kept, a power of two: enough for each of the 10,000 shared integers.
const TIMES: usize = 1 << 14;
/// The same for small keyspaces. There, every 256th integer has the same access time.
const FEW_TIMES: usize = 1 << 8;
/// Integers with up to this many digits are objects that keys share.
const SHARED_DIGITS: usize = 4;

/// Redis's reference count of a shared object.
const SHARED: i64 = i32::MAX as i64;

impl TextRef<'_> {
    /// The name of the encoding; a string is embedded up to this length.
    fn encoding(&self, longest_embedded: usize) -> &'static str {
        if self.as_integer().is_some() {
            "int"
        } else if !self.edited && self.bytes.len() <= longest_embedded {
            "embstr"
        } else {
            "raw"
        }
    }

    /// The value, if Redis encodes it as an integer.
    fn as_integer(&self) -> Option<i64> {
        if self.edited || self.verbatim || self.bytes.len() > LONGEST_INTEGER {
            return None;
        }
        parse_integer(self.bytes)
    }
}

impl Entry {
    /// The name of the encoding, as in OBJECT ENCODING.
    pub fn encoding(&self, profile: &Profile) -> &'static str {
        match self.value() {
            ValueRef::String(_) => self.text().map_or("raw", |text| text.encoding(self.longest_embedded(profile))),
            ValueRef::List(list) => list.encoding(),
            ValueRef::Set(set) => set.encoding(),
            ValueRef::SortedSet(set) => set.encoding(),
            ValueRef::Hash(hash) => hash.encoding(),
            ValueRef::Stream(_) => "stream",
        }
    }

    /// The length up to which a string is embedded under this key.
    fn longest_embedded(&self, profile: &Profile) -> usize {
        if !profile.has(EMBEDS_KEYS) {
            return LONGEST_EMBEDDED;
        }
        let key = self.key().len();
        let around_key = match key {
            0..32 => 3,
            32..256 => 5,
            _ => 7,
        };
        let deadline = self.deadline().map_or(0, |_| DEADLINE);
        EMBEDDING_OBJECT.saturating_sub(OBJECT_HEADER + key + around_key + deadline + AROUND_STRING)
    }

    /// The reference count, as in OBJECT REFCOUNT.
    pub fn references(&self) -> i64 {
        if self.shared_integer().is_some() { SHARED } else { 1 }
    }

    /// The value, if it is an integer that keys share.
    #[inline]
    pub fn shared_integer(&self) -> Option<usize> {
        let text = self.text().filter(|text| text.bytes.len() <= SHARED_DIGITS)?;
        let value = usize::try_from(text.as_integer()?).ok()?;
        (!self.is_private()).then_some(value)
    }
}

/// The last use of each shared integer, through any key. Redis reports it as the access time of all keys that share it.
pub(super) struct SharedIntegers {
    /// The usage of integers that were never used: the start of the server.
    made: Usage,
    used: Box<[AtomicU32]>,
}

impl SharedIntegers {
    pub(super) fn new(now: Usage, few: bool) -> Self {
        let times = if few { FEW_TIMES } else { TIMES };
        Self { made: now, used: (0..times).map(|_| AtomicU32::new(0)).collect() }
    }

    #[inline]
    pub(super) fn touch(&self, value: usize, now: Usage) {
        self.used[value & (self.used.len() - 1)].store(now.to_bits(), Ordering::Relaxed);
    }

    pub(super) fn usage(&self, value: usize) -> Usage {
        Usage::from_bits(self.used[value & (self.used.len() - 1)].load(Ordering::Relaxed)).latest(self.made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoding(bytes: &[u8]) -> &'static str {
        TextRef { bytes, edited: false, verbatim: false }.encoding(LONGEST_EMBEDDED)
    }

    #[test]
    fn whole_strings_are_encoded_by_what_they_say() {
        for integer in ["0", "-1", "10000", "-9223372036854775808", "9223372036854775807"] {
            assert_eq!(encoding(integer.as_bytes()), "int", "{integer}");
        }
        for text in ["", "+1", "01", "-0", " 1", "1.0", "9223372036854775808", &"x".repeat(44)] {
            assert_eq!(encoding(text.as_bytes()), "embstr", "{text}");
        }
        assert_eq!(encoding(&[b'x'; 45]), "raw");
    }

    #[test]
    fn edited_strings_are_raw_and_verbatim_ones_are_never_integers() {
        let encoding = |edited, verbatim| TextRef { bytes: b"5", edited, verbatim }.encoding(LONGEST_EMBEDDED);
        assert_eq!((encoding(true, false), encoding(false, true)), ("raw", "embstr"));
    }

    #[test]
    fn valkey_embeds_more_the_shorter_the_key_is() {
        let valkey = "valkey-9.1".parse().unwrap();
        // As valkey 9.1.2 answers.
        for (key, deadline, longest) in
            [(1, None, 112), (1, Some(1), 104), (31, None, 82), (32, None, 79), (100, None, 11), (100, Some(1), 3)]
        {
            let encoding = |length| {
                Entry::string(&vec![b'k'; key], &vec![b'a'; length], deadline, Usage::default()).encoding(&valkey)
            };
            assert_eq!((encoding(longest), encoding(longest + 1)), ("embstr", "raw"), "{key}");
        }
    }

    #[test]
    fn a_small_integer_is_shared_until_it_is_copied() {
        let mut entry = Entry::string(b"k", b"9999", None, Usage::default());
        assert_eq!(entry.references(), SHARED);
        entry.set_private();
        let mut entry = entry.renamed(b"other");
        assert_eq!(entry.references(), 1);
        entry.write_string(b"1234", Some(5));
        assert_eq!(entry.references(), SHARED);
        assert_eq!(Entry::string(b"k", b"10000", None, Usage::default()).references(), 1);
    }
}
