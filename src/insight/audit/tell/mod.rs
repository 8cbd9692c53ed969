//! Findings as people and programs read them. Pure: from findings to text.

mod github;
mod junit;
mod sarif;
mod story;

pub use github::annotations;
pub use junit::junit;
pub use sarif::{Artifact, sarif};
pub use story::{headline, story, story_of};

use std::borrow::Cow;
use std::sync::Arc;

use super::code::Severity;
use super::finding::Finding;
use crate::base::log::civil;
use crate::base::text::utf8_or_escaped;

/// Where all findings are explained, each under its code.
const PAGE: &str = "docs/findings.md";

/// What an audit has come to about one world: servers whose locks have to do with each other.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// The name of the space; empty for what clients find when they connect.
    pub space: String,
    /// In the order in which they were found.
    pub findings: Vec<Arc<Finding>>,
    /// How many keys were taken for locks.
    pub locks: u64,
    /// Findings that there was no more room for.
    pub unlisted: u64,
    /// How many entries of the journals were gone before anybody looked at them.
    pub missed: u64,
}

impl Judged {
    /// What makes the audit fail: findings that are bad enough, and not allowed.
    pub fn failing(&self, level: Severity) -> impl Iterator<Item = &Arc<Finding>> {
        self.findings.iter().filter(move |finding| fails(finding, level))
    }
}

/// Whether an audit fails for a finding.
fn fails(finding: &Finding, level: Severity) -> bool {
    finding.allowed.is_none() && finding.severity >= level
}

/// All findings of some worlds, with the space that each is from.
fn all(worlds: &[Judged]) -> impl Iterator<Item = (&str, &Arc<Finding>)> {
    worlds.iter().flat_map(|world| world.findings.iter().map(|finding| (world.space.as_str(), finding)))
}

/// Where a finding's lock is: "lock `a`, database 1, server 2, space `b`", as far as that has to be said.
fn place_of(space: &str, finding: &Finding) -> String {
    let mut place = match finding.key.is_empty() {
        true => "the lock whose key is empty".to_owned(),
        false => format!("lock `{}`", readable(&finding.key)),
    };
    if finding.db != 0 {
        place.push_str(&format!(", database {}", finding.db));
    }
    if finding.server > 1 {
        place.push_str(&format!(", server {}", finding.server));
    }
    if !space.is_empty() {
        place.push_str(&format!(", space `{}`", printable(space)));
    }
    place
}

/// A key as text; bytes that are no UTF-8 are escaped, so that two of them are not shown alike.
fn readable(key: &[u8]) -> String {
    printable(&utf8_or_escaped(key)).into_owned()
}

/// Text without what a terminal, or a file, would take for more than text.
fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_odd) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            letter if is_odd(letter) => shown.push_str(&format!("\\u{{{:x}}}", u32::from(letter))),
            letter => shown.push(letter),
        }
    }
    Cow::Owned(shown)
}

/// Controls, what turns the direction of writing, and what is no letter.
pub(super) fn is_odd(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}')
}

/// `12:00:01.250` in UTC, of microseconds since 1970.
fn time_of_day(micros: i64) -> String {
    let millis = micros.div_euclid(1000).rem_euclid(86_400_000);
    let seconds = millis / 1000;
    format!("{:02}:{:02}:{:02}.{:03}", seconds / 3600, seconds / 60 % 60, seconds % 60, millis % 1000)
}

/// `2026-11-20T12:00:01.250Z`, of microseconds since 1970.
fn instant(micros: i64) -> String {
    let (year, month, day) = civil(micros.div_euclid(86_400_000_000));
    format!("{year:04}-{month:02}-{day:02}T{}Z", time_of_day(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_utc() {
        assert_eq!(instant(1_700_000_000_250_999), "2023-11-14T22:13:20.250Z");
        assert_eq!(instant(-1), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn nothing_reaches_a_terminal_that_it_would_obey() {
        assert_eq!(printable("lock:ä`<&"), "lock:ä`<&");
        assert_eq!(readable(b"a\xff\x1b"), "a\\xff\\x1b");
        assert_eq!(printable("a\x1b[2J\nb\u{202e}"), "a\\u{1b}[2J\\nb\\u{202e}");
    }
}
