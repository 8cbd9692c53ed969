//! The digits of a double, by the algorithm Grisu2 of Florian Loitsch, "Printing Floating-Point Numbers Quickly and
//! Accurately with Integers" (2010).
//!
//! Redis writes doubles that way since 7.2. The digits always read back as the same double, and nearly always they are the
//! fewest that do; of several such, they are not always the closest. So it is this algorithm
//! that is wanted here, and no better one: the standard library's digits differ in 6 of 1,000 doubles.

/// As many digits as any double needs.
pub const MOST_DIGITS: usize = 17;

/// A number without a sign: `fraction` times two to the power of `exponent`.
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

/// Decimal digits, and the power of ten that the last of them counts.
pub struct Digits {
    digits: [u8; MOST_DIGITS],
    count: usize,
    pub exponent: i32,
}

impl Digits {
    /// In ASCII, the first of them is not zero.
    pub fn as_bytes(&self) -> &[u8] {
        &self.digits[..self.count]
    }

    /// Appends a digit, unless it is a zero in front of all others.
    fn push(&mut self, digit: u64) {
        if (digit != 0 || self.count > 0) && self.count < MOST_DIGITS {
            self.digits[self.count] = b'0' + digit as u8;
            self.count += 1;
        }
    }

    /// Takes steps of `unit` down from the last digit, as long as they lead nearer to the number, which is `wanted` below the
    /// upper bound, and stay within `width` of that; `rest` is how far below it the digits are so far.
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
    /// The exponent of denormal numbers, whose fraction counts as a whole number here.
    const LEAST: i32 = f64::MIN_EXP - f64::MANTISSA_DIGITS as i32;

    let bits = value.to_bits();
    let (fraction, biased) = (bits & (HIDDEN - 1), (bits >> FRACTION_BITS & 0x7ff) as i32);
    let exact = match biased {
        0 => Binary { fraction, exponent: LEAST },
        _ => Binary { fraction: fraction | HIDDEN, exponent: LEAST + biased - 1 },
    };
    // Whatever lies between the middles to the next doubles reads back as this one. Below a power of two they are closer.
    let upper = Binary { fraction: exact.fraction * 2 + 1, exponent: exact.exponent - 1 }.normalized();
    let closer = if exact.fraction == HIDDEN { 2 } else { 1 };
    let lower = Binary { fraction: (exact.fraction << closer) - 1, exponent: exact.exponent - closer };
    let lower = Binary { fraction: lower.fraction << (lower.exponent - upper.exponent), exponent: upper.exponent };

    let (scale, power) = scale_for(upper.exponent);
    let number = exact.normalized().times(scale);
    // Products are out by less than one: what is that far inside is safe.
    let mut upper = upper.times(scale);
    upper.fraction -= 1;
    let lower = lower.times(scale).fraction + 1;
    generate(upper, upper.fraction - number.fraction, upper.fraction - lower, -power)
}

/// The digits from the front on of `upper`, until what is left is less than `width`. Their number should be as close as
/// possible to the one that is `wanted` below it.
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

/// The least and the greatest exponent of a product of which `generate` can take digits: at most 32 bits stand in front of
/// the point, and 60 behind it leave room for a digit.
const PRODUCT_EXPONENTS: std::ops::RangeInclusive<i32> = -60..=-32;

/// Powers of ten are kept in steps of as many as that, beginning with the first.
const STEP: i32 = 8;
const FIRST_POWER: i32 = -348;
const POWERS: usize = 87;

/// A power of ten that brings a fraction with that exponent into a range to take digits from, and which one it is. Often
/// two would, and the digits may depend on it: the search begins where Redis's begins, and takes the first.
fn scale_for(exponent: i32) -> (Binary, i32) {
    // About the logarithm to base 10, towards zero.
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

/// The powers of ten, rounded to 64 bits, calculated by the compiler from powers of five with all their digits.
const fn scales() -> [Binary; POWERS] {
    /// 5^340 has 790 bits; and of a number of 954 bits, 5^352 leaves 136.
    const LIMBS: usize = 30;
    /// The steps lead from -348 over -4 and 4 to 340; both ways begin at 4.
    const MIDDLE: i32 = 4;
    const MIDDLE_FIVE: u32 = 5u32.pow(MIDDLE as u32);
    const STEP_OF_FIVE: u64 = 5u64.pow(STEP as u32);
    const MIDDLE_INDEX: usize = ((MIDDLE - FIRST_POWER) / STEP) as usize;
    /// How far to the left the number begins that is divided.
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

/// Multiplies a number, whose lowest part stands first.
const fn multiply(number: &mut [u32], factor: u64) {
    let (mut at, mut carry) = (0, 0);
    while at < number.len() {
        carry += number[at] as u64 * factor;
        number[at] = carry as u32;
        carry >>= 32;
        at += 1;
    }
}

/// Divides a number, whose lowest part stands first, and leaves out the remainder.
const fn divide(number: &mut [u32], divisor: u64) {
    let (mut at, mut rest) = (number.len(), 0);
    while at > 0 {
        at -= 1;
        rest = rest << 32 | number[at] as u64;
        number[at] = (rest / divisor) as u32;
        rest %= divisor;
    }
}

/// A number times two to the power of `exponent`, rounded to 64 bits.
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

    /// Whether `scale` is the closest of its size to a power of ten.
    fn is_closest(scale: Binary, power: i32) -> bool {
        // Both sides times the same, so that they are whole, and twice that, so that halves are.
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
