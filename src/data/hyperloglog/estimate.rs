//! Estimates the count from the registers with Otmar Ertl's improved raw estimator ("New cardinality estimation
//! algorithms for HyperLogLog sketches", 2017), which needs no correction for small or large counts.

use super::{COUNTED_BITS, REGISTER_MAX, REGISTERS};

/// 1 / (2 ln 2), with the digits that Redis uses.
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// The estimated count; the histogram has the number of registers per value.
pub(super) fn estimate(histogram: &[usize; REGISTER_MAX as usize + 1]) -> u64 {
    let registers = REGISTERS as f64;
    let full = histogram[COUNTED_BITS + 1] as f64;
    let mut sum = registers * tau((registers - full) / registers);
    for &count in histogram[1..=COUNTED_BITS].iter().rev() {
        sum = (sum + count as f64) * 0.5;
    }
    sum += registers * sigma(histogram[0] as f64 / registers);
    (ALPHA * registers * registers / sum).round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut factor, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * factor;
        factor += factor;
        if sum == before {
            return sum;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut factor, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        factor *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * factor;
        if sum == before {
            return sum / 3.0;
        }
    }
}
