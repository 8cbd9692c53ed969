//! LZF, the compression of Redis's strings: runs of literal bytes, and back references.
//!
//! A first byte below 32 begins a run of literals; the run has one byte more than it says. Any other byte begins a back
//! reference: three bits of length (seven means that a byte with the rest follows) and the high five bits of the
//! distance, whose low eight bits come last. The reference is two bytes longer than its length and one byte farther
//! than its distance.

/// The longest run of literals.
const MOST_LITERALS: usize = 1 << 5;
/// The largest distance.
const MOST_DISTANCE: usize = 1 << 13;
const MOST_LENGTH: usize = (1 << 8) + (1 << 3);
/// The size in bits of the hash table that finds references.
const TABLE_BITS: u32 = 16;
const TABLE_SIZE: usize = 1 << TABLE_BITS;

/// Compresses to at most `limit` bytes; `None` if that is not possible. Finds the same references as LibLZF, so the
/// result equals Redis's byte for byte.
pub fn compress(input: &[u8], limit: usize) -> Option<Vec<u8>> {
    /// Strings below this length have few enough slots for a sparse table.
    const SHORT: usize = 4096;
    if input.len() < SHORT {
        compress_with(SparseTable::for_length(input.len()), input, limit)
    } else {
        compress_with(WholeTable::new(), input, limit)
    }
}

fn compress_with(mut table: impl Table, input: &[u8], limit: usize) -> Option<Vec<u8>> {
    // Positions have 32 bits.
    u32::try_from(input.len()).ok()?;
    let mut out = Output::new(limit);
    let mut at = 0;
    while let Some(bytes) = three_bytes(input, at) {
        let seen = table.replace(slot(bytes), at as u32) as usize;
        let found = seen > 0 && at - seen <= MOST_DISTANCE && three_bytes(input, seen) == Some(bytes);
        if !found {
            out.literal(bytes[0])?;
            at += 1;
            continue;
        }
        let most = (input.len() - at - 2).min(MOST_LENGTH);
        let length = match_length(input, seen, at, most);
        out.reference(at - seen - 1, length)?;
        at += length;
        if at + 2 >= input.len() {
            break;
        }
        // LibLZF adds only the last two positions inside a match to its table.
        for place in at - 2..at {
            if let Some(bytes) = three_bytes(input, place) {
                table.replace(slot(bytes), place as u32);
            }
        }
    }
    out.has_room_for(3)?;
    for &byte in &input[at..] {
        out.literal(byte)?;
    }
    out.finish()
}

/// Decompresses. `None` if the input is damaged or does not make exactly `whole` bytes.
pub fn expand(input: &[u8], whole: usize) -> Option<Vec<u8>> {
    // Redis takes LibLZF's error result, zero, for an empty string.
    if whole == 0 {
        return Some(Vec::new());
    }
    // Not preallocated whole: that is a claim of the input.
    let mut out = Vec::with_capacity(whole.min(4 * input.len()));
    let mut rest = input;
    while let Some((&control, behind)) = rest.split_first() {
        rest = behind;
        if usize::from(control) < MOST_LITERALS {
            let (run, behind) = rest.split_at_checked(usize::from(control) + 1)?;
            rest = behind;
            out.extend_from_slice(run);
        } else {
            let mut length = usize::from(control >> 5) + 2;
            if control >> 5 == 7 {
                let (&more, behind) = rest.split_first()?;
                rest = behind;
                length += usize::from(more);
            }
            let (&low, behind) = rest.split_first()?;
            rest = behind;
            let distance = (usize::from(control & 0x1f) << 8 | usize::from(low)) + 1;
            let start = out.len().checked_sub(distance)?;
            // The reference may overlap what it writes: then that repeats itself.
            let mut left = length;
            while left > 0 {
                let run = left.min(out.len() - start);
                out.extend_from_within(start..start + run);
                left -= run;
            }
        }
        if out.len() > whole {
            return None;
        }
    }
    (out.len() == whole).then_some(out)
}

/// Where the bytes of each slot of LibLZF's table were seen last; 0 if they were not.
///
/// LibLZF does not clear its table, which is on the stack. Positions left from an earlier run are the one thing that this does
/// not reproduce.
trait Table {
    /// Puts a position into a slot. Returns the one before.
    fn replace(&mut self, slot: u16, position: u32) -> u32;
}

struct WholeTable(Vec<u32>);

impl WholeTable {
    fn new() -> Self {
        Self(vec![0; TABLE_SIZE])
    }
}

impl Table for WholeTable {
    #[inline]
    fn replace(&mut self, slot: u16, position: u32) -> u32 {
        std::mem::replace(&mut self.0[usize::from(slot)], position)
    }
}

/// The used slots alone, each with its number, by open addressing: clearing the whole table would take longer than
/// compressing a short string. The number of places is a power of two, and above that of slots that can be used.
struct SparseTable(Vec<(u32, u32)>);

/// The number of no slot.
const FREE: u32 = u32::MAX;

impl SparseTable {
    fn for_length(length: usize) -> Self {
        Self(vec![(FREE, 0); (length * 2).next_power_of_two()])
    }
}

impl Table for SparseTable {
    #[inline]
    fn replace(&mut self, slot: u16, position: u32) -> u32 {
        let table = &mut self.0;
        let last = table.len() - 1;
        let number = u32::from(slot);
        let mut place = (number.wrapping_mul(0x9e37_79b9) >> 16) as usize & last;
        while table[place].0 != number {
            if table[place].0 == FREE {
                table[place] = (number, position);
                return 0;
            }
            place = (place + 1) & last;
        }
        std::mem::replace(&mut table[place].1, position)
    }
}

#[inline]
fn three_bytes(input: &[u8], at: usize) -> Option<[u8; 3]> {
    input.get(at..)?.first_chunk().copied()
}

/// The table slot of three bytes.
#[inline]
fn slot([first, second, third]: [u8; 3]) -> u16 {
    let bytes = u32::from_be_bytes([0, first, second, third]);
    (bytes >> (24 - TABLE_BITS)).wrapping_sub(bytes.wrapping_mul(5)) as u16
}

/// The length of a match of at least three bytes. Like LibLZF, it compares the next 16 bytes in one step where there is
/// room for them, so a match can exceed `most`.
#[inline]
fn match_length(input: &[u8], seen: usize, at: usize, most: usize) -> usize {
    let most = if most > 16 { most.max(19) } else { most };
    let mut length = 3;
    while length < most && input[seen + length] == input[at + length] {
        length += 1;
    }
    length
}

/// The compressed output. Like LibLZF, it reserves the first byte of a run before the run has literals, which matters
/// at the size limit.
struct Output {
    /// As long as the limit.
    bytes: Vec<u8>,
    /// How many of them are written. The reserved byte may be one more than there are.
    len: usize,
    /// The number of literals in the open run.
    run: usize,
}

impl Output {
    fn new(limit: usize) -> Self {
        Self { bytes: vec![0; limit], len: 1, run: 0 }
    }

    #[inline]
    fn put(&mut self, byte: u8) -> Option<()> {
        *self.bytes.get_mut(self.len)? = byte;
        self.len += 1;
        Some(())
    }

    #[inline]
    fn literal(&mut self, byte: u8) -> Option<()> {
        self.put(byte)?;
        self.run += 1;
        if self.run == MOST_LITERALS {
            self.close_run()?;
            self.len += 1;
        }
        Some(())
    }

    /// Writes a back reference; `distance` is one less than the actual distance.
    #[inline]
    fn reference(&mut self, distance: usize, length: usize) -> Option<()> {
        let end = self.len - usize::from(self.run == 0);
        if end + 4 >= self.bytes.len() {
            return None;
        }
        self.close_run()?;
        let (length, high) = (length - 2, (distance >> 8) as u8);
        if length < 7 {
            self.put((length as u8) << 5 | high)?;
        } else {
            self.put(7 << 5 | high)?;
            self.put((length - 7) as u8)?;
        }
        self.put(distance as u8)?;
        self.len += 1;
        Some(())
    }

    /// Writes the length of the open run in front of it, or takes the reserved byte of an empty run back.
    #[inline]
    fn close_run(&mut self) -> Option<()> {
        if self.run == 0 {
            self.len -= 1;
        } else {
            *self.bytes.get_mut(self.len - self.run - 1)? = self.run as u8 - 1;
            self.run = 0;
        }
        Some(())
    }

    fn has_room_for(&self, more: usize) -> Option<()> {
        (self.len + more <= self.bytes.len()).then_some(())
    }

    fn finish(mut self) -> Option<Vec<u8>> {
        self.close_run()?;
        self.bytes.truncate(self.len);
        Some(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{WholeTable, compress, compress_with, expand};

    #[test]
    fn what_does_not_get_smaller_is_not_compressed() {
        let input: Vec<u8> = (0..=255).collect();
        assert_eq!(compress(&input, input.len() - 4), None);
        assert_eq!(compress(b"", 10), Some(vec![]));
    }

    #[test]
    fn a_reference_may_overlap_itself() {
        assert_eq!(expand(b"\x00a\xe0\x08\x00", 18).unwrap(), [b'a'; 18]);
    }

    #[test]
    fn damaged_input_is_refused() {
        for input in [&b"\x02ab"[..], b"\x20", b"\x20\x00", b"\xe0\x01", b"\x00a\x20\x01", b"\x00a\x00a"] {
            assert_eq!(expand(input, 1), None, "{input:?}");
        }
    }

    proptest! {
        #[test]
        fn expanding_undoes_compressing(input in prop::collection::vec(0u8..4, 0..20_000), spread in 1u8..60) {
            let input: Vec<u8> = input.iter().map(|byte| byte.wrapping_mul(spread)).collect();
            if let Some(compressed) = compress(&input, input.len()) {
                prop_assert!(compressed.len() <= input.len());
                prop_assert_eq!(expand(&compressed, input.len()).unwrap(), input);
            }
        }

        #[test]
        fn a_short_string_is_compressed_as_with_the_whole_table(input in prop::collection::vec(0u8..9, 0..4095)) {
            prop_assert_eq!(compress(&input, input.len()), compress_with(WholeTable::new(), &input, input.len()));
        }

        #[test]
        fn noise_expands_to_an_error_or_to_what_was_claimed(input in prop::collection::vec(any::<u8>(), 0..80), whole in 0usize..2000) {
            if let Some(expanded) = expand(&input, whole) {
                prop_assert_eq!(expanded.len(), whole);
            }
        }
    }
}
