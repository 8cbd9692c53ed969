//! Numbers in Redis's syntax.

use std::fmt::Write;

use arrayvec::{ArrayString, ArrayVec};

use super::grisu;

/// Reads a decimal integer exactly as Redis does: no blanks, no `+`, no leading zeros, no `-0`, 64 bits.
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    match digits {
        [] => return None,
        [b'0'] => return if negative { None } else { Some(0) },
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut value: u64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    if negative { 0i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
}

/// Reads a double like Redis's `string2d` family: no blanks around it, no `nan`; hexadecimal and `inf` are allowed.
pub fn parse_float(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    if text.is_empty() || text.starts_with(|c: char| c.is_ascii_whitespace()) {
        return None;
    }
    let value = match text.trim_start_matches(['+', '-']) {
        rest if rest.len() + 1 < text.len() => return None,
        rest if rest.starts_with("0x") || rest.starts_with("0X") => {
            let magnitude = parse_hexadecimal(&rest[2..])?;
            if text.starts_with('-') { -magnitude } else { magnitude }
        }
        _ => text.parse().ok()?,
    };
    if f64::is_nan(value) { None } else { Some(value) }
}

fn parse_hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, exponent) = match text.split_once(['p', 'P']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0.0;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    Some(value * 2f64.powi(exponent - 4 * fraction.len() as i32))
}

/// Appends an integer in decimal.
pub fn write_integer(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends a double with few digits that identify it, in the form of Redis 7.2.
pub fn write_shortest(out: &mut Vec<u8>, value: f64) {
    if !value.is_finite() {
        return write_double(out, value);
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    if value == 0.0 {
        return out.push(b'0');
    }
    let found = grisu::digits(value.abs());
    let (digits, shift) = (found.as_bytes(), found.exponent);
    let count = digits.len() as i32;
    // The exponent with one digit before the point.
    let exponent = shift + count - 1;
    if shift >= 0 && exponent < count + 7 {
        out.extend_from_slice(digits);
        pad(out, shift);
    } else if shift < 0 && (shift > -7 || exponent.abs() < 4) {
        with_point(out, digits, exponent);
    } else {
        with_point(out, digits, 0);
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        write_integer(out, i64::from(exponent.abs()));
    }
}

fn pad(out: &mut Vec<u8>, zeros: i32) {
    out.extend(std::iter::repeat_n(b'0', zeros.max(0) as usize));
}

/// Appends digits with a point behind the one of weight ten to the power of `exponent`, if any digits follow.
fn with_point(out: &mut Vec<u8>, digits: &[u8], exponent: i32) {
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        pad(out, -exponent - 1);
        return out.extend_from_slice(digits);
    }
    let (whole, fraction) = digits.split_at(digits.len().min(exponent as usize + 1));
    out.extend_from_slice(whole);
    pad(out, exponent + 1 - whole.len() as i32);
    if !fraction.is_empty() {
        out.push(b'.');
        out.extend_from_slice(fraction);
    }
}

/// Appends a double as in replies of Redis 7.0 (`%.17g`).
pub fn write_double(out: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        out.extend_from_slice(b"nan");
    } else if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"inf" } else { b"-inf" });
    } else if value == value.trunc() && value.abs() < 1e17 {
        if value == 0.0 && value.is_sign_negative() {
            out.push(b'-');
        }
        write_integer(out, value as i64);
    } else {
        write_general(out, value, 17);
    }
}

/// Whether Redis writes the double as an integer.
pub fn is_whole(value: f64) -> bool {
    value.abs() <= (i64::MAX / 2) as f64 && value == value.trunc()
}

/// Appends a double as in replies since Redis 7.2: as an integer if it is one, otherwise with few digits.
pub fn write_short_double(out: &mut Vec<u8>, value: f64) {
    if is_whole(value) && (value != 0.0 || value.is_sign_positive()) {
        write_integer(out, value as i64);
    } else {
        write_shortest(out, value);
    }
}

/// A double with up to seventeen decimals and no exponent.
pub(super) fn plain_decimal(value: f64) -> String {
    let digits = format!("{value:.17}");
    let trimmed = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { &digits };
    if trimmed == "-0" { "0".to_owned() } else { trimmed.to_owned() }
}

/// Appends a double like C's `%.{precision}g`, with up to 17 digits.
pub fn write_general(out: &mut Vec<u8>, value: f64, precision: usize) {
    // Digit, point, further digits, and an exponent such as e-308.
    let mut scientific = ArrayString::<32>::new();
    if write!(scientific, "{:.*e}", precision.clamp(1, 17) - 1, value.abs()).is_err() {
        return;
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits: ArrayVec<u8, 32> = mantissa.bytes().filter(|digit| *digit != b'.').collect();
    let needed = digits.iter().rposition(|digit| *digit != b'0').map_or(1, |last| last + 1);
    if value.is_sign_negative() {
        out.push(b'-');
    }
    if exponent < -4 || exponent >= precision as i32 {
        with_point(out, &digits[..needed], 0);
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        if exponent.abs() < 10 {
            out.push(b'0');
        }
        write_integer(out, i64::from(exponent.abs()));
    } else {
        with_point(out, &digits[..needed], exponent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_strictly_as_redis_reads_them() {
        for (text, value) in
            [("0", 0), ("-1", -1), ("9223372036854775807", i64::MAX), ("-9223372036854775808", i64::MIN)]
        {
            assert_eq!(parse_integer(text.as_bytes()), Some(value));
        }
        for text in [
            "",
            "-",
            "+1",
            "-0",
            "01",
            " 1",
            "1 ",
            "1.0",
            "9223372036854775808",
            "-9223372036854775809",
            "1\0",
            "99999999999999999999",
        ] {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn whole_numbers_are_written_as_integers_since_7_2() {
        let written = |value| {
            let mut out = Vec::new();
            write_short_double(&mut out, value);
            String::from_utf8(out).unwrap()
        };
        for (value, text) in [
            (100_000_000.0, "100000000"),
            (1e18, "1000000000000000000"),
            (5e18, "5e+18"),
            (1.5e20, "1.5e+20"),
            (0.1, "0.1"),
            (1e-7, "1e-7"),
            (0.0, "0"),
            (-0.0, "-0"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(written(value), text);
        }
    }

    #[test]
    fn doubles_are_written_like_printf() {
        let written = |value| {
            let mut out = Vec::new();
            write_double(&mut out, value);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(3.0), "3");
        assert_eq!(written(0.1), "0.10000000000000001");
        assert_eq!(written(1e20), "1e+20");
        assert_eq!(written(1.5e-7), "1.4999999999999999e-07");
        assert_eq!(written(f64::NEG_INFINITY), "-inf");
    }
}
