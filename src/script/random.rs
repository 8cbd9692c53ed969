//! `math.random` with Redis's numbers: the generator of POSIX's `lrand48`, which starts from the same state in every
//! run.

use std::cell::Cell;

/// The state of `math.random`. All scripts of a server share it, and it outlives SCRIPT FLUSH.
pub struct Random(pub(super) Cell<u64>);

impl Default for Random {
    fn default() -> Self {
        Self(Cell::new(UNSEEDED))
    }
}

/// The state before any `srand48`.
pub const UNSEEDED: u64 = 0x1234_abcd_330e;

/// The 48 bits of state that `srand48(seed)` sets.
pub const fn seeded(seed: u32) -> u64 {
    ((seed as u64) << 16) | 0x330e
}

/// Advances the state, and returns a number below 2³¹.
pub fn next(state: &mut u64) -> u32 {
    *state = state.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & 0xffff_ffff_ffff;
    (*state >> 17) as u32
}

/// A number from 0 to 1.
pub fn fraction(state: &mut u64) -> f64 {
    const MOST: u32 = i32::MAX as u32;
    f64::from(next(state) % MOST) / f64::from(MOST)
}
