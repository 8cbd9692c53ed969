//! Scores in requests, and ranges of scores and of members.

use std::cmp::Ordering;
use std::ops::Range;

use crate::base::error::CommandError;
use crate::base::profile::{Profile, Since, Version};
use crate::data::keyspace::{Scored, SortedSet};
use crate::protocol::{is_blank, parse_float, until_nul};

const NO_SCORES: CommandError = CommandError::fixed("ERR min or max is not a float");
const NO_MEMBERS: CommandError = CommandError::fixed("ERR min or max not valid string range item");

/// The releases that accept only decimal scores.
const DECIMAL_SCORES: Since = Since::valkey(9, 0, 0);

/// The releases that accept only decimal bounds, without leading blanks.
const DECIMAL_BOUNDS: Since = Since::each(Version(8, 0, 0), Version(9, 0, 0));

/// A number with at most so many digits is exact.
const EXACT_DIGITS: usize = 15;

/// Parses a score, a weight or an increment.
pub(super) fn parse_score(text: &[u8], profile: &Profile) -> Option<f64> {
    if text.len() <= EXACT_DIGITS && !text.is_empty() && text.iter().all(u8::is_ascii_digit) {
        return Some(text.iter().fold(0, |value: u64, digit| value * 10 + u64::from(digit - b'0')) as f64);
    }
    let value = parse_float(text)?;
    let digits = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    let hexadecimal = digits.len() > 1 && digits[1].eq_ignore_ascii_case(&b'x');
    if hexadecimal && profile.has(DECIMAL_SCORES) {
        return None;
    }
    let exponent = if hexadecimal { b"pP" } else { b"eE" };
    let mut mantissa = digits.iter().skip(if hexadecimal { 2 } else { 0 }).take_while(|byte| !exponent.contains(byte));
    // Overflow and underflow are errors.
    let is_named = digits.first().is_some_and(u8::is_ascii_alphabetic);
    let vanished = value == 0.0 && mantissa.any(|byte| byte.is_ascii_hexdigit() && *byte != b'0');
    if (value.is_infinite() && !is_named) || vanished { None } else { Some(value) }
}

/// Parses a bound like C's `strtod`: an empty text is 0, an overflow is infinite.
fn parse_bound(text: &[u8], profile: &Profile) -> Option<f64> {
    let text = until_nul(text);
    let blanks = if profile.has(DECIMAL_BOUNDS) { 0 } else { text.iter().take_while(|byte| is_blank(**byte)).count() };
    match &text[blanks..] {
        // Blanks alone are no number.
        [] => (blanks == 0).then_some(0.0),
        digits => {
            let hexadecimal = digits.iter().take(3).any(|byte| byte.eq_ignore_ascii_case(&b'x'));
            parse_float(digits).filter(|_| !(hexadecimal && profile.has(DECIMAL_BOUNDS)))
        }
    }
}

/// One end of a range: its value, and whether it is exclusive.
#[derive(Clone, Copy)]
struct Bound<T> {
    at: T,
    excluded: bool,
}

pub(super) struct ScoreRange {
    least: Bound<f64>,
    most: Bound<f64>,
}

impl ScoreRange {
    pub fn parse(least: &[u8], most: &[u8], profile: &Profile) -> Result<Self, CommandError> {
        let end = |text: &[u8]| {
            let (text, excluded) = text.strip_prefix(b"(").map_or((text, false), |rest| (rest, true));
            parse_bound(text, profile).map(|at| Bound { at, excluded })
        };
        Self::of(end(least), end(most)).ok_or(NO_SCORES)
    }

    fn of(least: Option<Bound<f64>>, most: Option<Bound<f64>>) -> Option<Self> {
        Some(Self { least: least?, most: most? })
    }

    /// The ranks of the members with scores in the range.
    pub fn ranks(&self, set: &SortedSet) -> Range<usize> {
        let Self { least, most } = *self;
        let start = set.rank_of_score(|score| score < least.at || (least.excluded && score == least.at));
        let end = set.rank_of_score(|score| score < most.at || (!most.excluded && score == most.at));
        start..end.max(start)
    }
}

/// A range of members, for a set in which all scores are equal.
pub(super) struct LexRange<'a> {
    least: Bound<Limit<'a>>,
    most: Bound<Limit<'a>>,
}

/// A member, `-` or `+`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Limit<'a> {
    Lowest,
    Member(&'a [u8]),
    Highest,
}

impl<'a> LexRange<'a> {
    pub fn parse(least: &'a [u8], most: &'a [u8]) -> Result<Self, CommandError> {
        let end = |text: &'a [u8]| match text {
            [b'-'] | [b'-', 0, ..] => Some(Bound { at: Limit::Lowest, excluded: true }),
            [b'+'] | [b'+', 0, ..] => Some(Bound { at: Limit::Highest, excluded: true }),
            [b'(', member @ ..] => Some(Bound { at: Limit::Member(member), excluded: true }),
            [b'[', member @ ..] => Some(Bound { at: Limit::Member(member), excluded: false }),
            _ => None,
        };
        match (end(least), end(most)) {
            (Some(least), Some(most)) => Ok(Self { least, most }),
            _ => Err(NO_MEMBERS),
        }
    }

    fn reaches(&self, member: &[u8]) -> bool {
        match Limit::Member(member).cmp(&self.least.at) {
            Ordering::Less => false,
            Ordering::Equal => !self.least.excluded,
            Ordering::Greater => true,
        }
    }

    fn admits(&self, member: &[u8]) -> bool {
        match Limit::Member(member).cmp(&self.most.at) {
            Ordering::Less => true,
            Ordering::Equal => !self.most.excluded,
            Ordering::Greater => false,
        }
    }

    fn is_empty(&self) -> bool {
        match self.least.at.cmp(&self.most.at) {
            Ordering::Less => false,
            Ordering::Equal => self.least.excluded || self.most.excluded,
            Ordering::Greater => true,
        }
    }

    /// The ranks of the members in the range without the first `skipped`. With `backwards`, those are skipped at the
    /// other end.
    pub fn ranks(&self, set: &SortedSet, skipped: usize, backwards: bool) -> Range<usize> {
        let member = |rank: usize| set.get(rank).map_or(&[][..], Scored::member);
        let count = set.len();
        if self.is_empty() || count == 0 || !self.reaches(member(count - 1)) || !self.admits(member(0)) {
            return 0..0;
        }
        if set.is_packed() {
            return if backwards { self.last_in_list(set, skipped) } else { self.first_in_list(set, skipped) };
        }
        let start = set.rank_of_member(|member| !self.reaches(member));
        let end = set.rank_of_member(|member| self.admits(member)).max(start);
        if backwards { start..end.saturating_sub(skipped).max(start) } else { (start + skipped).min(end)..end }
    }

    /// In a listpack Redis compares member by member, which clients can see if the scores are not equal.
    fn first_in_list(&self, set: &SortedSet, skipped: usize) -> Range<usize> {
        let mut members = set.iter().map(Scored::member);
        let first = members.position(|member| self.reaches(member));
        let Some(first) = first.filter(|&first| set.get(first).is_some_and(|scored| self.admits(scored.member())))
        else {
            return 0..0;
        };
        let start = first.saturating_add(skipped).min(set.len());
        let run = set.range(start..set.len(), false).take_while(|scored| self.admits(scored.member()));
        start..start + run.count()
    }

    fn last_in_list(&self, set: &SortedSet, skipped: usize) -> Range<usize> {
        let count = set.len();
        let last = set.range(0..count, true).position(|scored| self.admits(scored.member()));
        let last = last.map(|from_end| count - 1 - from_end);
        let Some(last) = last.filter(|&last| set.get(last).is_some_and(|scored| self.reaches(scored.member()))) else {
            return 0..0;
        };
        let end = (last + 1).saturating_sub(skipped);
        let run = set.range(0..end, true).take_while(|scored| self.reaches(scored.member()));
        end - run.count()..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::keyspace::SortedSetLimits;

    #[test]
    fn scores_are_read_as_each_server_reads_them() {
        let old: Profile = "redis-7.0".parse().unwrap();
        let strict: Profile = "valkey-9.1".parse().unwrap();
        let score = |text: &str| parse_score(text.as_bytes(), &old);
        for (text, value) in [
            ("12", 12.0),
            ("1.", 1.0),
            ("-.5", -0.5),
            ("0e5", 0.0),
            ("1e-310", 1e-310),
            ("0x1p4", 16.0),
            ("iNf", f64::INFINITY),
            ("-infinity", f64::NEG_INFINITY),
            ("9007199254740993", 9_007_199_254_740_992.0),
        ] {
            assert_eq!(score(text), Some(value), "{text}");
        }
        for text in ["", "1e400", "1e-400", "0x1p-2000", "+-5", "1\0", "inf ", " 1", "nan", ".", "-", "0x", "infinit"] {
            assert_eq!(score(text), None, "{text}");
        }
        assert_eq!(parse_score(b"0x10", &strict), None);
        let bound = |text: &str| parse_bound(text.as_bytes(), &old);
        for (text, value) in [("", 0.0), (" 1", 1.0), ("1\0x", 1.0), ("1e400", f64::INFINITY), ("0x10", 16.0)] {
            assert_eq!(bound(text), Some(value), "{text}");
        }
        for text in [" ", "1 ", "nan", "(1", "[1", "-"] {
            assert_eq!(bound(text), None, "{text}");
        }
        assert_eq!((parse_bound(b" 1", &strict), parse_bound(b"0x1", &strict)), (None, None));
    }

    #[test]
    fn members_between_two_are_a_run_of_ranks() {
        for packed in [0, 100] {
            let limits = SortedSetLimits { packed, longest: 64, foresees: false };
            let mut set = SortedSet::new(packed > 0);
            for member in ["a", "b", "c", "d", "e"] {
                set.insert(member.as_bytes(), 0.0, &limits);
            }
            let ranks = |least: &str, most: &str, skipped, backwards| {
                LexRange::parse(least.as_bytes(), most.as_bytes()).unwrap().ranks(&set, skipped, backwards)
            };
            assert_eq!(ranks("-", "+", 0, false), 0..5);
            assert_eq!(ranks("[b", "(d", 0, false), 1..3);
            assert_eq!(ranks("(b", "[d", 1, false), 3..4);
            assert_eq!(ranks("(b", "[d", 1, true), 2..3);
            assert!(ranks("+", "-", 0, false).is_empty());
            assert!(ranks("-", "-", 0, true).is_empty());
            assert!(ranks("[b", "+", 9, false).is_empty());
            assert!(ranks("[b", "+", 9, true).is_empty());
            assert!(ranks("(e", "+", 0, false).is_empty());
        }
    }
}
