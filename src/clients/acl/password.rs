//! Passwords, stored as hashes.

use sha2::{Digest, Sha256};

use crate::base::text::hex;

/// The SHA-256 of a password.
#[derive(Clone, Copy, Debug, Eq)]
pub struct Password([u8; 32]);

impl Password {
    pub fn new(plain: &[u8]) -> Self {
        Self(Sha256::digest(plain).into())
    }

    /// Parses a hash in the format of [`Password::hex`]: exactly 64 lower-case digits.
    pub fn from_hex(text: &[u8]) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut hash = [0; 32];
        let (pairs, rest) = text.as_chunks::<2>();
        if pairs.len() != hash.len() || !rest.is_empty() {
            return None;
        }
        for (byte, [high, low]) in hash.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Self(hash))
    }

    pub fn hex(&self) -> String {
        hex(&self.0)
    }
}

impl PartialEq for Password {
    /// Takes constant time, so that timing reveals nothing about the hash.
    fn eq(&self, other: &Self) -> bool {
        let differences = self.0.iter().zip(&other.0).fold(0, |found, (one, other)| found | (one ^ other));
        std::hint::black_box(differences) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_reads_back_and_nothing_else_does() {
        let password = Password::new(b"x");
        assert_eq!(password.hex(), "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881");
        assert_eq!(Password::from_hex(password.hex().as_bytes()), Some(password));
        for wrong in [&password.hex().to_uppercase()[..], &password.hex()[1..], "", &format!("{}0", password.hex())] {
            assert_eq!(Password::from_hex(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn passwords_are_the_same_only_if_every_byte_is() {
        for given in [&b""[..], b"p", b"pwpw", b"pW", b"wp", b"pw\0"] {
            assert_ne!(Password::new(b"pw"), Password::new(given), "{given:?}");
        }
    }
}
