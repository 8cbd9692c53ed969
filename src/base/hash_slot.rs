//! The hash slot of a key, by which a Cluster divides its keys among its nodes.

use crc::{CRC_16_XMODEM, Crc};

/// How many slots there are.
pub const HASH_SLOTS: u16 = 16_384;

/// The hash slot of a key, or of what stands between its first braces.
pub fn hash_slot(key: &[u8]) -> u16 {
    const CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);
    let tag = key.iter().position(|&byte| byte == b'{').and_then(|open| {
        let length = key[open + 1..].iter().position(|&byte| byte == b'}')?;
        key.get(open + 1..open + 1 + length)
    });
    CRC.checksum(tag.filter(|tag| !tag.is_empty()).unwrap_or(key)) % HASH_SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected slots are those of Valkey 9.1.2.
    #[test]
    fn a_key_has_the_slot_that_clients_compute() {
        for (key, slot) in [(&b"a"[..], 15_495), (b"", 0), (b"foo", 12_182), (b"{foo}bar", 12_182), (b"{}foo", 9_500)] {
            assert_eq!(hash_slot(key), slot, "{}", String::from_utf8_lossy(key));
        }
    }
}
