//! What stands in a recording for a value.

use sha2::{Digest, Sha256};

use crate::insight::audit::{Timestamp, class_of};
use crate::powers::hashed_value;

/// What becomes of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValueMode {
    /// A keyed hash, so that equal values can be told.
    #[default]
    Hash,
    /// Nothing of them is kept.
    Redact,
    Keep,
}

impl ValueMode {
    pub fn by_name(name: &[u8]) -> Option<Self> {
        match name {
            b"hash" => Some(Self::Hash),
            b"redact" => Some(Self::Redact),
            b"keep" => Some(Self::Keep),
            _ => None,
        }
    }
}

/// The key of the hashes. Nothing keeps it beyond one recording.
pub struct HashKey([u8; 32]);

impl HashKey {
    pub fn random() -> Result<Self, String> {
        let mut key = [0; 32];
        let provider = rustls::crypto::ring::default_provider();
        provider.secure_random.fill(&mut key).map_err(|_| "the system has no random bytes".to_owned())?;
        Ok(Self(key))
    }

    #[cfg(test)]
    pub fn fixed() -> Self {
        Self([7; 32])
    }

    /// The text for a value of a command at this time, on the server's clock and in real time.
    ///
    /// A time near now stays readable, as the whole value or behind its last colon: a lock whose value is its deadline is
    /// judged by that.
    pub fn text_for(&self, value: &[u8], (at, real): (i64, i64)) -> Vec<u8> {
        if value.is_empty() {
            return Vec::new();
        }
        let time = Timestamp::in_value(value, at, real).and_then(|_| std::str::from_utf8(value).ok());
        let time = time.map(|text| text.rsplit(':').next().unwrap_or(text));
        if time.is_some_and(|time| time.len() == value.len()) {
            return value.to_vec();
        }
        // The key has a fixed length, and only a part of the digest is shown.
        let digest = Sha256::new().chain_update(self.0).chain_update(value).finalize();
        let hash = digest.iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte));
        hashed_value(hash, class_of(value, at, real), time).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: (i64, i64) = (1_700_000_000_000_000, 1_700_000_000_000_000);

    fn text(value: &str) -> String {
        String::from_utf8(HashKey::fixed().text_for(value.as_bytes(), NOW)).unwrap()
    }

    #[test]
    fn equal_values_have_equal_texts_and_others_have_others() {
        assert_eq!(text("f47ac10b-58cc-4372-a567-0e02b2c3d479"), text("f47ac10b-58cc-4372-a567-0e02b2c3d479"));
        assert_ne!(text("worker-1"), text("worker-2"));
        assert_eq!(text("f47ac10b-58cc-4372-a567-0e02b2c3d479").len(), "h:".len() + 16);
    }

    #[test]
    fn a_text_says_how_the_value_is_used_and_not_what_it_says() {
        for (value, mark) in
            [("worker-1", "guessable"), ("1", "digit"), ("locked", "trivial"), ("30000", "number"), ("x", "trivial")]
        {
            assert!(text(value).ends_with(&format!(":{mark}")), "{}", text(value));
        }
        assert!(text(&"A long sentence, as in a document. ".repeat(20)).ends_with(":text"));
        assert!(text("4111111111111111").starts_with("h:"));
    }

    #[test]
    fn deadlines_stay_readable() {
        for deadline in ["1700000010", "1700000010.25", "1700000010000"] {
            assert_eq!(text(deadline), deadline);
        }
        let owned = text("host-7:1700000010000");
        assert!(owned.starts_with("h:") && owned.ends_with(":1700000010000"), "{owned}");
        assert!(text("1600000010").starts_with("h:"));
    }
}
