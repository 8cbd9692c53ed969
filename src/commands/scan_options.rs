//! The cursor, the pattern and the options that SCAN shares with HSCAN, SSCAN and ZSCAN.

use crate::base::error::CommandError;
use crate::base::glob;
use crate::base::profile::{Profile, Since, Version};
use crate::protocol::{is_blank, parse_integer, until_nul};
use crate::spec::Args;

pub(super) const INVALID_CURSOR: CommandError = CommandError::fixed("ERR invalid cursor");

/// Glob matching, except that `*` also matches the empty key.
pub(super) fn matches(pattern: &[u8], key: &[u8]) -> bool {
    pattern == b"*" || glob::matches(pattern, key, false)
}

/// An option to leave out values or scores.
struct NoValuesOption {
    word: &'static str,
    /// The only command that accepts it.
    command: &'static str,
    since: Since,
}

const NO_VALUES_OPTIONS: [NoValuesOption; 2] = [
    NoValuesOption { word: "NOVALUES", command: "HSCAN", since: Since::each(Version(7, 4, 0), Version(8, 0, 0)) },
    NoValuesOption { word: "NOSCORES", command: "ZSCAN", since: Since::valkey(8, 1, 0) },
];

/// Consumes NOVALUES or NOSCORES. Releases that have these options name the command they are for.
pub(super) fn take_no_values(args: &mut Args<'_>) -> Result<bool, CommandError> {
    let profile = args.profile();
    let taken = NO_VALUES_OPTIONS.iter().find(|option| profile.has(option.since) && args.take(option.word));
    match taken {
        Some(NoValuesOption { word, command, .. }) if args.spec().name != *command => {
            Err(CommandError::new(format!("ERR {word} option can only be used in {command}")))
        }
        taken => Ok(taken.is_some()),
    }
}

/// Parses a cursor like C's `strtoull`, with its peculiarities: blanks, signs, an end at the first NUL. Old releases
/// refuse a leading blank; new ones refuse the empty string and plain negative numbers.
pub(super) fn parse_cursor(text: &[u8], profile: &Profile) -> Option<u64> {
    let text = until_nul(text);
    if profile.has(Since::each(Version(7, 4, 0), Version(8, 0, 0))) {
        if let Some(integer) = parse_integer(text) {
            return u64::try_from(integer).ok();
        }
        if text.is_empty() {
            return None;
        }
    } else if text.is_empty() {
        return Some(0);
    } else if is_blank(text[0]) {
        return None;
    }
    let blanks = text.iter().take_while(|&&byte| is_blank(byte)).count();
    let (negative, digits) = match &text[blanks..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let value = digits.iter().try_fold(0u64, |value, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })?;
    Some(if negative { value.wrapping_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_each_server_reads_them() {
        let old = "redis-7.0".parse().unwrap();
        let new = "valkey-8.1".parse().unwrap();
        let both: &[(&str, Option<u64>)] = &[
            ("0", Some(0)),
            ("01", Some(1)),
            ("+1", Some(1)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("-", None),
            ("0a", None),
            ("0x10", None),
            ("1\0x", Some(1)),
            ("1 ", None),
        ];
        for &(text, expected) in both {
            assert_eq!(parse_cursor(text.as_bytes(), &old), expected, "{text}");
            assert_eq!(parse_cursor(text.as_bytes(), &new), expected, "{text}");
        }
        let differ: &[(&str, Option<u64>, Option<u64>)] =
            &[("", Some(0), None), ("-1", Some(u64::MAX), None), (" 1", None, Some(1)), (" -1", None, Some(u64::MAX))];
        for &(text, in_old, in_new) in differ {
            assert_eq!((parse_cursor(text.as_bytes(), &old), parse_cursor(text.as_bytes(), &new)), (in_old, in_new));
        }
    }
}
