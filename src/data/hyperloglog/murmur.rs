//! MurmurHash64A by Austin Appleby, with the result of a little-endian machine.

const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
const SHIFT: u32 = 47;

pub(super) fn murmur(bytes: &[u8], seed: u64) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER);
    for &word in words {
        let word = u64::from_le_bytes(word).wrapping_mul(MULTIPLIER);
        hash = (hash ^ (word ^ word >> SHIFT).wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        let last = rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        hash = (hash ^ last).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(MULTIPLIER);
    hash ^ hash >> SHIFT
}
