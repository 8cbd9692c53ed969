//! The `long double` of x86-64, with which INCRBYFLOAT calculates: 64 bits of mantissa, 15 of exponent.
//!
//! Only what that command needs: parsing like `strtold`, addition, and formatting like `%.17Lf`. Each step rounds to
//! nearest, ties to even.

use num_bigint::BigUint;

/// A finite value is `mantissa << exponent`. The highest bit of the mantissa is set, except in zero and in values with
/// the lowest exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LongDouble {
    Finite { negative: bool, mantissa: u64, exponent: i32 },
    Infinite { negative: bool },
}

const LOWEST_EXPONENT: i32 = -16_382 - 63;
const HIGHEST_EXPONENT: i32 = 16_383 - 63;

/// The longest text that Redis parses as a number.
const LONGEST_TEXT: usize = 5 * 1024 - 1;

/// The range of a decimal exponent, relative to the first digit, that neither overflows nor underflows.
const DECIMAL_PLACES: std::ops::RangeInclusive<i64> = -4960..=4940;

impl LongDouble {
    pub const ZERO: Self = Self::Finite { negative: false, mantissa: 0, exponent: LOWEST_EXPONENT };

    /// Parses a number as Redis does. `inf` and hexadecimal are valid; blanks, NaN, overflow and underflow are not.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > LONGEST_TEXT {
            return None;
        }
        let (negative, rest) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        if rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"infinity") {
            return Some(Self::Infinite { negative });
        }
        let value = match rest {
            [b'0', b'x' | b'X', rest @ ..] => parse_hexadecimal(negative, rest)?,
            _ => parse_decimal(negative, rest)?,
        };
        match value {
            Self::Finite { .. } => Some(value),
            Self::Infinite { .. } => None,
        }
    }

    /// The sum. `None` if it is infinite or not a number.
    pub fn plus(self, other: Self) -> Option<Self> {
        let (Self::Finite { .. }, Self::Finite { .. }) = (self, other) else { return None };
        let (big, small) = if self.magnitude() >= other.magnitude() { (self, other) } else { (other, self) };
        let (
            Self::Finite { negative, mantissa: one, exponent },
            Self::Finite { negative: other_negative, mantissa: other, exponent: other_exponent },
        ) = (big, small)
        else {
            return None;
        };
        // 62 more bits below each mantissa, so that one sticky bit is enough to round correctly.
        let one = u128::from(one) << 62;
        let other = u128::from(other) << 62;
        let distance = exponent.abs_diff(other_exponent);
        let shifted = other.checked_shr(distance).unwrap_or(0);
        let lost = shifted.checked_shl(distance).unwrap_or(0) != other;
        let (sum, negative) = if negative == other_negative {
            (one + shifted, negative)
        } else {
            let difference = one - shifted - u128::from(lost);
            (difference, negative && difference != 0)
        };
        match round(negative, sum, lost, exponent - 62) {
            sum @ Self::Finite { .. } => Some(sum),
            Self::Infinite { .. } => None,
        }
    }

    pub fn is_negative(self) -> bool {
        match self {
            Self::Finite { negative, .. } | Self::Infinite { negative } => negative,
        }
    }

    /// The value times 1,000, rounded up to an integer: seconds as milliseconds.
    pub fn thousandfold(self) -> Option<i64> {
        let Self::Finite { negative, mantissa, exponent } = self else { return None };
        let Self::Finite { mantissa, exponent, .. } = round(negative, u128::from(mantissa) * 1000, false, exponent)
        else {
            return None;
        };
        let mantissa = u128::from(mantissa);
        let size = if exponent >= 0 {
            mantissa.checked_mul(1u128.checked_shl(exponent.unsigned_abs())?)?
        } else {
            let shift = exponent.unsigned_abs();
            let whole = mantissa.checked_shr(shift).unwrap_or(0);
            let is_whole = whole.checked_shl(shift).unwrap_or(0) == mantissa;
            whole + u128::from(!is_whole && !negative)
        };
        let size = i64::try_from(size).ok()?;
        Some(if negative { -size } else { size })
    }

    fn magnitude(self) -> (i32, u64) {
        match self {
            Self::Finite { mantissa, exponent, .. } => (exponent, mantissa),
            Self::Infinite { .. } => (i32::MAX, 0),
        }
    }

    /// The value with up to 17 decimals, trailing zeros removed.
    pub fn to_decimal(self) -> String {
        let Self::Finite { negative, mantissa, exponent } = self else {
            return if self == (Self::Infinite { negative: true }) { "-inf" } else { "inf" }.to_owned();
        };
        const DECIMALS: u128 = 10u128.pow(17);
        let sign = if negative { "-" } else { "" };
        if exponent >= 0 {
            return format!("{sign}{}", BigUint::from(mantissa) << exponent.unsigned_abs());
        }
        let scaled = u128::from(mantissa) * DECIMALS;
        let shift = exponent.unsigned_abs();
        let mut quotient = scaled.checked_shr(shift).unwrap_or(0);
        if shift < u128::BITS {
            let rest = scaled - (quotient << shift);
            let half = 1u128 << (shift - 1);
            if rest > half || (rest == half && quotient % 2 == 1) {
                quotient += 1;
            }
        }
        if quotient == 0 {
            return "0".to_owned();
        }
        let text = format!("{sign}{}.{:017}", quotient / DECIMALS, quotient % DECIMALS);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

fn parse_decimal(negative: bool, text: &[u8]) -> Option<LongDouble> {
    let (digits, decimals, exponent) = parts(text, b'e', u8::is_ascii_digit)?;
    let zeros = digits.iter().rev().take_while(|&&digit| digit == b'0').count();
    let digits = &digits[..digits.len() - zeros];
    if digits.is_empty() {
        return Some(LongDouble::Finite { negative, mantissa: 0, exponent: LOWEST_EXPONENT });
    }
    let exponent = exponent.saturating_add(zeros as i64 - decimals as i64);
    if !DECIMAL_PLACES.contains(&exponent.saturating_add(digits.len() as i64)) {
        return None;
    }
    let number = BigUint::parse_bytes(digits, 10)?;
    let power = BigUint::from(10u8).pow(u32::try_from(exponent.unsigned_abs()).ok()?);
    let value = if exponent >= 0 {
        round_big(negative, &(number * power), false, 0)
    } else {
        // Enough bits of the quotient to round by; the remainder becomes the sticky bit.
        let shift = power.bits() as i64 - number.bits() as i64 + 67;
        let (number, power) = if shift >= 0 { (number << shift, power) } else { (number, power << -shift) };
        let quotient = &number / &power;
        let lost = &quotient * &power != number;
        round_big(negative, &quotient, lost, -shift)
    };
    not_vanished(value)
}

fn parse_hexadecimal(negative: bool, text: &[u8]) -> Option<LongDouble> {
    let (digits, decimals, exponent) = parts(text, b'p', u8::is_ascii_hexdigit)?;
    if digits.is_empty() {
        return Some(LongDouble::Finite { negative, mantissa: 0, exponent: LOWEST_EXPONENT });
    }
    let number = BigUint::parse_bytes(&digits, 16)?;
    not_vanished(round_big(negative, &number, false, exponent.saturating_sub(4 * decimals as i64)))
}

/// Underflow to zero is an error of `strtold`.
fn not_vanished(value: LongDouble) -> Option<LongDouble> {
    Some(value).filter(|value| !matches!(value, LongDouble::Finite { mantissa: 0, .. }))
}

/// The digits without leading zeros, the number of decimals, and the exponent after `mark`.
fn parts(text: &[u8], mark: u8, is_digit: fn(&u8) -> bool) -> Option<(Vec<u8>, usize, i64)> {
    let end = text.iter().position(|byte| byte.to_ascii_lowercase() == mark).unwrap_or(text.len());
    let (number, exponent) = (&text[..end], text.get(end + 1..));
    let point = number.iter().position(|&byte| byte == b'.').unwrap_or(number.len());
    let (whole, fraction) = (&number[..point], number.get(point + 1..).unwrap_or_default());
    if whole.is_empty() && fraction.is_empty() || !whole.iter().chain(fraction).all(is_digit) {
        return None;
    }
    let digits = whole.iter().chain(fraction).copied().skip_while(|&digit| digit == b'0').collect();
    Some((digits, fraction.len(), exponent.map_or(Some(0), parse_exponent)?))
}

/// A decimal exponent, saturating.
fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0i64, |value, digit| (value * 10 + i64::from(digit - b'0')).min(1 << 40));
    Some(if negative { -value } else { value })
}

/// The value nearest to `number << exponent`. `lost`: bits below it were cut off.
fn round_big(negative: bool, number: &BigUint, lost: bool, exponent: i64) -> LongDouble {
    let excess = number.bits().saturating_sub(u64::from(u128::BITS));
    let top = u128::try_from(number >> excess).unwrap_or(u128::MAX);
    let lost = lost || number.trailing_zeros().is_some_and(|zeros| zeros < excess);
    // Values beyond these bounds are infinite or zero, so clamping changes no result.
    let exponent = exponent.saturating_add(excess as i64).clamp(-100_000, 100_000);
    round(negative, top, lost, exponent as i32)
}

/// The value nearest to `number << exponent`. `lost`: bits below it were cut off, and then `number` has more bits than
/// a mantissa.
fn round(negative: bool, number: u128, lost: bool, exponent: i32) -> LongDouble {
    if number == 0 {
        return LongDouble::Finite { negative, mantissa: 0, exponent: LOWEST_EXPONENT };
    }
    let bits = (u128::BITS - number.leading_zeros()) as i32;
    let shift = (bits - 64).max(LOWEST_EXPONENT - exponent);
    let mut exponent = exponent + shift;
    let mut mantissa = if shift <= 0 {
        number << -shift
    } else {
        let shift = shift as u32;
        let kept = number.checked_shr(shift).unwrap_or(0);
        let rest = number - kept.checked_shl(shift).unwrap_or(0);
        // A shift beyond the width leaves less than half.
        let half = 1u128.checked_shl(shift - 1).unwrap_or(u128::MAX);
        let up = rest > half || (rest == half && (lost || kept % 2 == 1));
        kept + u128::from(up)
    };
    if mantissa >> 64 != 0 {
        mantissa >>= 1;
        exponent += 1;
    }
    if exponent > HIGHEST_EXPONENT {
        return LongDouble::Infinite { negative };
    }
    if mantissa == 0 {
        exponent = LOWEST_EXPONENT;
    }
    LongDouble::Finite { negative, mantissa: mantissa as u64, exponent }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(one: &str, other: &str) -> Option<String> {
        let [one, other] = [one, other].map(|text| LongDouble::parse(text.as_bytes()).unwrap());
        one.plus(other).map(LongDouble::to_decimal)
    }

    #[test]
    fn sums_are_those_of_redis() {
        // Replies of redis-server 7.0.15 to SET and INCRBYFLOAT.
        for (one, other, result) in [
            ("0", "10.5", "10.5"),
            ("5.0e3", "2.0e2", "5200"),
            ("0.1", "0.2", "0.3"),
            ("3", "-1.1", "1.9"),
            ("0", "-1e-30", "0"),
            ("1", "1e-18", "1"),
            ("0x1p3", "0x.8", "8.5"),
            ("123456789012345678901234567890", "0", "123456789012345678899921813504"),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("-0", "-0", "0"),
        ] {
            assert_eq!(sum(one, other).as_deref(), Some(result), "{one} + {other}");
        }
    }

    #[test]
    fn what_is_not_finite_is_no_sum() {
        assert_eq!(sum("inf", "1"), None);
        assert_eq!(sum("inf", "-inf"), None);
        assert_eq!(sum("1.1e4932", "1.1e4932"), None);
    }

    #[test]
    fn numbers_are_read_as_strtold_reads_them() {
        for text in [
            "", " 1", "1 ", ".", "1e", "1e+", "0x", "0x.p1", "nan", "1e5000", "1e-5000", "--1", "1.1.1", "1a", "infin",
            "1e-4951", "1\0",
        ] {
            assert_eq!(LongDouble::parse(text.as_bytes()), None, "{text:?}");
        }
        for text in ["1.", ".5", "+1", "-Inf", "INFINITY", "0x1P-2", "0e99999999999", "1e-4950", "1e4932"] {
            assert!(LongDouble::parse(text.as_bytes()).is_some(), "{text:?}");
        }
    }

    #[test]
    fn seconds_become_milliseconds() {
        for (seconds, millis) in [
            ("0", Some(0)),
            ("0.001", Some(1)),
            ("0.0011", Some(2)),
            ("1e-4000", Some(1)),
            ("-0.0001", Some(0)),
            ("-1.5", Some(-1500)),
            ("9223372036854775.807", Some(i64::MAX)),
            ("9223372036854775.808", None),
            ("inf", None),
        ] {
            assert_eq!(LongDouble::parse(seconds.as_bytes()).unwrap().thousandfold(), millis, "{seconds}");
        }
    }

    #[test]
    fn ties_go_to_the_even_neighbour() {
        let mantissa = |text: &str| match LongDouble::parse(text.as_bytes()) {
            Some(LongDouble::Finite { mantissa, exponent, .. }) => (mantissa, exponent),
            _ => (0, 0),
        };
        assert_eq!(mantissa("36893488147419103233"), (1 << 63, 2), "2^65 + 1");
        assert_eq!(mantissa("36893488147419103234"), (1 << 63, 2), "a tie, down to even");
        assert_eq!(mantissa("36893488147419103238"), ((1 << 63) + 2, 2), "a tie, up to even");
    }
}
