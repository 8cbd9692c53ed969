//! SplitMix64: pseudo-random numbers, the same in every run with the same seed.

/// The increment of the state.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number of a state.
pub const fn mix(state: u64) -> u64 {
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Advances the state, and returns the next number.
pub fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(STEP);
    mix(*state)
}

/// Like [`next`], as a number from 0 to below 1.
pub fn next_fraction(state: &mut u64) -> f64 {
    fraction(next(state))
}

/// A number of the sequence as one from 0 to below 1.
pub fn fraction(number: u64) -> f64 {
    (number >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_the_published_algorithm() {
        let mut state = 1_234_567;
        let numbers = [(); 3].map(|()| next(&mut state));
        assert_eq!(numbers, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}
