//! Geohash bits of a position, and the map cells that are a prefix of them.

use super::area::Area;
use super::{LATITUDES, LONGITUDES, Point};

/// Bits of longitude and of latitude in a stored position.
pub(super) const MOST_STEPS: u32 = 26;

/// The latitude bits of an interleaved position; the longitude bits are the odd ones.
const EVEN: u64 = 0x5555_5555_5555_5555;
const ODD: u64 = !EVEN;

/// A geohash cell: all positions whose longitude and latitude share a prefix of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub bits: u64,
    pub steps: u32,
}

impl Cell {
    /// The cell of a position; `latitudes` is the range that latitudes are fractions of.
    pub fn of(point: Point, steps: u32, latitudes: (f64, f64)) -> Self {
        let part =
            |value: f64, (least, most): (f64, f64)| ((value - least) / (most - least) * (1u64 << steps) as f64) as u32;
        let bits = spread(part(point.latitude, latitudes)) | spread(part(point.longitude, LONGITUDES)) << 1;
        Self { bits, steps }
    }

    pub fn area(self) -> Area {
        let cells = (1u64 << self.steps) as f64;
        let bounds = |index: u32, (least, most): (f64, f64)| {
            let bound = |index: u32| least + f64::from(index) / cells * (most - least);
            (bound(index), bound(index.wrapping_add(1)))
        };
        Area { latitudes: bounds(gather(self.bits), LATITUDES), longitudes: bounds(gather(self.bits >> 1), LONGITUDES) }
    }

    /// The range of scores in the cell.
    pub fn scores(self) -> std::ops::Range<f64> {
        let shift = 2 * (MOST_STEPS - self.steps);
        (self.bits << shift) as f64..((self.bits + 1) << shift) as f64
    }

    /// The neighbour cell in steps of 1, 0 or -1 to the east and to the north. The map wraps around at its edges.
    pub fn neighbour(self, east: i64, north: i64) -> Self {
        let all = u64::MAX >> (u64::BITS - 2 * self.steps);
        // The northern edge has one bit more than the mask, which is kept where the cell does not move.
        let moved = |bits: u64, by: i64| if by == 0 { self.bits & bits } else { moved(self.bits, bits & all, by) };
        Self { bits: moved(ODD, east) | moved(EVEN, north), ..self }
    }
}

/// Adds `by` to the bits under a mask, as if they were contiguous.
fn moved(bits: u64, mask: u64, by: i64) -> u64 {
    let one = mask & mask.wrapping_neg();
    if by > 0 { (bits | !mask).wrapping_add(one) & mask } else { (bits & mask).wrapping_sub(one) & mask }
}

/// Interleaves the bits of a number with zeros.
fn spread(value: u32) -> u64 {
    let mut bits = u64::from(value);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, EVEN),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// The inverse of `spread`: every other bit, from the lowest.
fn gather(bits: u64) -> u32 {
    let mut bits = bits & EVEN;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        bits = (bits | bits >> shift) & mask;
    }
    bits as u32
}

/// The standard geohash text of a position, with latitudes from -90 to 90. The last of eleven characters has no bits
/// left.
pub fn standard_hash(point: Point) -> [u8; 11] {
    const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
    let bits = Cell::of(point, MOST_STEPS, (-90.0, 90.0)).bits;
    let mut hash = [LETTERS[0]; 11];
    for (at, letter) in (1..).zip(&mut hash[..10]) {
        *letter = LETTERS[(bits >> (2 * MOST_STEPS - at * 5)) as usize & 31];
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_back_as_they_went() {
        for value in [0, 1, 0x1234_5678, u32::MAX] {
            assert_eq!(gather(spread(value)), value);
            assert_eq!(gather(spread(value) << 1), 0);
        }
    }

    #[test]
    fn neighbours_are_next_to_each_other_and_round_the_globe() {
        let cell = Cell { bits: spread(0) | spread(7) << 1, steps: 3 };
        assert_eq!(cell.neighbour(1, 0), Cell { bits: 0, steps: 3 });
        assert_eq!(cell.neighbour(0, -1), Cell { bits: spread(7) | spread(7) << 1, steps: 3 });
        assert_eq!(cell.neighbour(-1, 1), Cell { bits: spread(1) | spread(6) << 1, steps: 3 });
        assert_eq!(cell.neighbour(1, 1).neighbour(-1, -1), cell);
    }
}
