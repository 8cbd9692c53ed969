//! The decimal digits of a double, by Florian Loitsch's algorithm Grisu2, "Printing Floating-Point Numbers Quickly and
//! Accurately with Integers" (2010).
//!
//! Redis writes doubles this way since 7.2. The digits always read back as the same double, and are nearly always the
//! shortest; among several shortest ones, they are not always the closest. The standard library's algorithm is better,
//! and so differs in 6 of 1,000 doubles.

/// The most digits that a double needs.
pub const MOST_DIGITS: usize = 17;

/// An unsigned number: `fraction` times two to the power of `exponent`.
#[derive(Clone, Copy)]
struct Binary {
    fraction: u64,
    exponent: i32,
}

impl Binary {
    /// The same number, with the highest bit of its fraction set.
    fn normalized(self) -> Self {
        let shift = self.fraction.leading_zeros();
        Self { fraction: self.fraction << shift, exponent: self.exponent - shift as i32 }
    }

    /// The product, rounded to 64 bits.
    fn times(self, other: Self) -> Self {
        let product = u128::from(self.fraction) * u128::from(other.fraction) + (1 << 63);
        Self { fraction: (product >> 64) as u64, exponent: self.exponent + other.exponent + 64 }
    }
}

/// Decimal digits, and the power of ten of the last one.
pub struct Digits {
    digits: [u8; MOST_DIGITS],
    count: usize,
    pub exponent: i32,
}

impl Digits {
    /// The digits in ASCII, without leading zeros.
    pub fn as_bytes(&self) -> &[u8] {
        &self.digits[..self.count]
    }

    /// Appends a digit, unless it is a leading zero.
    fn push(&mut self, digit: u64) {
        if (digit != 0 || self.count > 0) && self.count < MOST_DIGITS {
            self.digits[self.count] = b'0' + digit as u8;
            self.count += 1;
        }
    }

    /// Decrements the last digit in steps of `unit`, as long as that approaches the number, which is `wanted` below the
    /// upper bound, and stays within `width` of that bound; `rest` is the distance of the digits so far from the bound.
    fn approach(&mut self, wanted: u64, width: u64, mut rest: u64, unit: u64) {
        let last = &mut self.digits[self.count.saturating_sub(1)];
        while rest < wanted && width - rest >= unit && (rest + unit < wanted || wanted - rest > rest + unit - wanted) {
            *last -= 1;
            rest += unit;
        }
    }
}

/// The digits of a positive, finite double.
pub fn digits(value: f64) -> Digits {
    const FRACTION_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    const HIDDEN: u64 = 1 << FRACTION_BITS;
    /// The exponent of denormal numbers, with the fraction as an integer.
    const LEAST: i32 = f64::MIN_EXP - f64::MANTISSA_DIGITS as i32;

    let bits = value.to_bits();
    let (fraction, biased) = (bits & (HIDDEN - 1), (bits >> FRACTION_BITS & 0x7ff) as i32);
    let exact = match biased {
        0 => Binary { fraction, exponent: LEAST },
        _ => Binary { fraction: fraction | HIDDEN, exponent: LEAST + biased - 1 },
    };
    // Numbers between the midpoints to the neighbouring doubles read back as this one. The lower midpoint of a power of
    // two is closer.
    let upper = Binary { fraction: exact.fraction * 2 + 1, exponent: exact.exponent - 1 }.normalized();
    let closer = if exact.fraction == HIDDEN { 2 } else { 1 };
    let lower = Binary { fraction: (exact.fraction << closer) - 1, exponent: exact.exponent - closer };
    let lower = Binary { fraction: lower.fraction << (lower.exponent - upper.exponent), exponent: upper.exponent };

    let (scale, power) = scale_for(upper.exponent);
    let number = exact.normalized().times(scale);
    // Products have an error of less than one, so the bounds move inwards by that much.
    let mut upper = upper.times(scale);
    upper.fraction -= 1;
    let lower = lower.times(scale).fraction + 1;
    generate(upper, upper.fraction - number.fraction, upper.fraction - lower, -power)
}

/// Generates digits of `upper` until the remainder is less than `width`. The digits should be as close as possible to
/// the number that is `wanted` below `upper`.
fn generate(upper: Binary, mut wanted: u64, mut width: u64, power: i32) -> Digits {
    let mut found = Digits { digits: [b'0'; MOST_DIGITS], count: 0, exponent: power };
    let point = -upper.exponent as u32;
    let one = 1u64 << point;
    let (mut whole, mut rest) = (upper.fraction >> point, upper.fraction & (one - 1));
    for left in (0..=whole.checked_ilog10().unwrap_or(0)).rev() {
        let unit = 10u64.pow(left);
        found.push(whole / unit);
        whole %= unit;
        let below = (whole << point) + rest;
        if below <= width {
            found.exponent += left as i32;
            found.approach(wanted, width, below, unit << point);
            return found;
        }
    }
    loop {
        rest *= 10;
        width *= 10;
        wanted *= 10;
        found.exponent -= 1;
        found.push(rest >> point);
        rest &= one - 1;
        if rest < width {
            found.approach(wanted, width, rest, one);
            return found;
        }
    }
}

/// The exponents of products from which `generate` can take digits: at most 32 bits before the point, and 60 behind it
/// leave room for a digit.
const PRODUCT_EXPONENTS: std::ops::RangeInclusive<i32> = -60..=-32;

/// The table has every eighth power of ten, beginning with the first.
const STEP: i32 = 8;
const FIRST_POWER: i32 = -348;
const POWERS: usize = 87;

/// A power of ten that scales a fraction with that exponent into the range of `generate`, and its exponent. Often two
/// powers would, and the digits may depend on the choice. The search begins where Redis's does, and takes the first.
fn scale_for(exponent: i32) -> (Binary, i32) {
    // About the logarithm to base 10, rounded towards zero.
    let about = -(exponent + POWERS as i32) * 78_913 / (1 << 18);
    let mut index = ((about - FIRST_POWER) / STEP) as usize;
    loop {
        let scale = SCALES[index];
        let product = exponent + scale.exponent + 64;
        if product < *PRODUCT_EXPONENTS.start() && index + 1 < POWERS {
            index += 1;
        } else if product > *PRODUCT_EXPONENTS.end() && index > 0 {
            index -= 1;
        } else {
            return (scale, FIRST_POWER + index as i32 * STEP);
        }
    }
}

const SCALES: &[Binary; POWERS] = &scales();

/// The powers of ten, rounded to 64 bits, computed at compile time from exact powers of five.
const fn scales() -> [Binary; POWERS] {
    /// 5^340 has 790 bits. A quotient of a number of 954 bits and 5^352 has 136.
    const LIMBS: usize = 30;
    /// The exponents go from -348 over -4 and 4 to 340; both directions begin at 4.
    const MIDDLE: i32 = 4;
    const MIDDLE_FIVE: u32 = 5u32.pow(MIDDLE as u32);
    const STEP_OF_FIVE: u64 = 5u64.pow(STEP as u32);
    const MIDDLE_INDEX: usize = ((MIDDLE - FIRST_POWER) / STEP) as usize;
    /// How many bits the dividend is shifted left.
    const RAISED: i32 = (LIMBS as i32 - 1) * 32 + 16;

    let mut scales = [Binary { fraction: 0, exponent: 0 }; POWERS];
    let mut growing = [0; LIMBS];
    growing[0] = MIDDLE_FIVE;
    let (mut index, mut power) = (MIDDLE_INDEX, MIDDLE);
    while index < POWERS {
        scales[index] = rounded(&growing, power);
        multiply(&mut growing, STEP_OF_FIVE);
        index += 1;
        power += STEP;
    }

    let mut shrinking = [0; LIMBS];
    shrinking[LIMBS - 1] = MIDDLE_FIVE << (RAISED % 32);
    (index, power) = (MIDDLE_INDEX, MIDDLE);
    while index > 0 {
        divide(&mut shrinking, STEP_OF_FIVE);
        index -= 1;
        power -= STEP;
        scales[index] = rounded(&shrinking, power - RAISED);
    }
    scales
}

/// Multiplies a big integer, whose lowest limb comes first.
const fn multiply(number: &mut [u32], factor: u64) {
    let (mut at, mut carry) = (0, 0);
    while at < number.len() {
        carry += number[at] as u64 * factor;
        number[at] = carry as u32;
        carry >>= 32;
        at += 1;
    }
}

/// Divides a big integer, whose lowest limb comes first, without the remainder.
const fn divide(number: &mut [u32], divisor: u64) {
    let (mut at, mut rest) = (number.len(), 0);
    while at > 0 {
        at -= 1;
        rest = rest << 32 | number[at] as u64;
        number[at] = (rest / divisor) as u32;
        rest %= divisor;
    }
}

/// A big integer times two to the power of `exponent`, rounded to 64 bits.
const fn rounded(number: &[u32], exponent: i32) -> Binary {
    let mut top = number.len() - 1;
    while number[top] == 0 {
        top -= 1;
    }
    let (mut highest, mut taken) = (0u128, 0);
    while taken < 4 {
        highest = highest << 32 | if taken <= top { number[top - taken] as u128 } else { 0 };
        taken += 1;
    }
    let shift = highest.leading_zeros();
    highest <<= shift;
    Binary {
        fraction: (highest >> 64) as u64 + (highest >> 63 & 1) as u64,
        exponent: exponent + (top as i32 - 3) * 32 - shift as i32 + 64,
    }
}

#[cfg(test)]
mod tests {
    use num_bigint::BigUint;
    use proptest::prelude::*;

    use super::*;

    fn written(value: f64) -> String {
        let found = digits(value);
        format!("{}e{}", String::from_utf8(found.as_bytes().to_vec()).unwrap(), found.exponent)
    }

    /// Whether `scale` is the closest number of its size to a power of ten.
    fn is_closest(scale: Binary, power: i32) -> bool {
        // Both sides have the same factor, so that they are integers, and a factor of two, so that halves are.
        let two = |exponent: i32| BigUint::from(1u8) << exponent.max(0) as u32;
        let ten = |exponent: i32| BigUint::from(10u8).pow(exponent.max(0) as u32);
        let unit = two(scale.exponent) * ten(-power);
        let ours = BigUint::from(scale.fraction) * &unit * 2u8;
        let exact = ten(power) * two(-scale.exponent) * 2u8;
        let apart = if ours > exact { ours - exact } else { exact - ours };
        scale.fraction >> 63 == 1 && apart <= unit
    }

    #[test]
    fn the_powers_of_ten_are_the_closest_there_are() {
        for (index, scale) in SCALES.iter().enumerate() {
            let power = FIRST_POWER + index as i32 * STEP;
            assert!(is_closest(*scale, power), "10^{power}");
        }
    }

    #[test]
    fn every_exponent_finds_a_power_that_fits() {
        for exponent in -1_137..=960 {
            let (scale, _) = scale_for(exponent);
            assert!(PRODUCT_EXPONENTS.contains(&(exponent + scale.exponent + 64)), "{exponent}");
        }
    }

    #[test]
    fn digits_are_those_of_redis_where_closer_ones_exist() {
        for (value, text) in [
            (780_072_726_087_458.8, "7800727260874587e-1"),
            (0.1, "1e-1"),
            (1.0, "1e0"),
            (5e-324, "5e-324"),
            (2.225_073_858_507_201_4e-308, "22250738585072014e-324"),
            (f64::MAX, "17976931348623157e292"),
            (9_007_199_254_740_993.0, "9007199254740992e0"),
        ] {
            assert_eq!(written(value), text);
        }
    }

    proptest! {
        #[test]
        fn digits_read_back_as_the_same_double(bits in 1..f64::INFINITY.to_bits()) {
            let value = f64::from_bits(bits);
            prop_assert_eq!(written(value).parse::<f64>().unwrap(), value);
        }
    }
}
