//! How similar two commands are.

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::protocol::quote;

/// How many words, and how many bytes of each, are compared.
const MOST_WORDS: usize = 8;
const MOST_BYTES: usize = 32;
/// The cost of another command name. A missing or an additional word costs its length, at most this.
const OTHER_NAME: usize = 16;
/// The most bytes of a command that are shown.
const SHOWN: usize = 200;

/// The distance of a command from an expected one: 0 if they are equal. Only the first words and bytes count.
pub fn distance(expected: &[&[u8]], words: &[&[u8]]) -> usize {
    let longest = expected.len().max(words.len()).min(MOST_WORDS);
    let mut sum = 0;
    for index in 0..longest {
        sum += match (expected.get(index), words.get(index)) {
            (Some(one), Some(other)) if index == 0 => {
                let edits = edits(&clipped(one).to_ascii_uppercase(), &clipped(other).to_ascii_uppercase());
                if edits == 0 { 0 } else { OTHER_NAME.min(edits * 4) }
            }
            (Some(one), Some(other)) => edits(clipped(one), clipped(other)),
            (Some(word), None) | (None, Some(word)) => word.len().clamp(1, OTHER_NAME),
            (None, None) => 0,
        };
    }
    sum
}

/// A command on one line, cut off if it is long.
pub fn short_line(words: &[&[u8]]) -> String {
    ShownLine::of(words).text().into_owned()
}

/// The same, to be shared. The auditor keeps it of each command about a lock.
pub fn shared_line(words: &[&[u8]]) -> Arc<str> {
    ShownLine::of(words).shared()
}

/// Commands on one line, each cut off if it is long.
#[derive(Default)]
pub struct ShownLine(SmallVec<[u8; 256]>);

impl ShownLine {
    pub fn of(words: &[&[u8]]) -> Self {
        let mut line = Self::default();
        line.push_command(words);
        line
    }

    pub fn push(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    /// Adds a command.
    pub fn push_command(&mut self, words: &[&[u8]]) {
        let Self(line) = self;
        let start = line.len();
        for word in words {
            if line.len() > start {
                line.push(b' ');
            }
            if line.len() - start >= SHOWN {
                line.extend_from_slice(b"...");
                break;
            }
            let shown = &word[..word.len().min(SHOWN)];
            if is_plain(shown) {
                line.extend_from_slice(shown);
            } else {
                line.extend_from_slice(&quote(shown));
            }
        }
    }

    /// Adds a command, at most so many bytes of it.
    pub fn push_clipped(&mut self, words: &[&[u8]], most: usize) {
        let end = self.0.len() + most;
        self.push_command(words);
        if self.0.len() > end {
            self.0.truncate(end);
            self.push("...");
        }
    }

    pub fn shared(&self) -> Arc<str> {
        // Nearly always it is text, which is shown more quickly in this way.
        std::str::from_utf8(&self.0).map_or_else(|_| self.text().into(), Arc::from)
    }

    fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

/// Whether a word is shown as it is, without quotes.
fn is_plain(word: &[u8]) -> bool {
    // Without an early end, several bytes are looked at in one step.
    !word.is_empty() && word.iter().fold(true, |plain, byte| plain & (byte.is_ascii_graphic() & (*byte != b'"')))
}

/// Whether a command is shown as it is: its words with single spaces between them.
pub fn is_shown_as_it_is(words: &[&[u8]]) -> bool {
    words.iter().map(|word| word.len() + 1).sum::<usize>() <= SHOWN && words.iter().all(|word| is_plain(word))
}

fn clipped(word: &[u8]) -> &[u8] {
    &word[..word.len().min(MOST_BYTES)]
}

/// The edit distance of two words: how many bytes are inserted, deleted or replaced.
fn edits(one: &[u8], other: &[u8]) -> usize {
    if one == other {
        return 0;
    }
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, byte) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for place in 1..row.len() {
            let replaced = diagonal + usize::from(other[place - 1] != *byte);
            diagonal = row[place];
            row[place] = replaced.min(row[place] + 1).min(row[place - 1] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(one: &str, other: &str) -> usize {
        let words = |line: &'static str| line.split(' ').map(str::as_bytes).collect::<Vec<_>>();
        distance(&words(one.to_owned().leak()), &words(other.to_owned().leak()))
    }

    #[test]
    fn the_same_command_is_nearest() {
        assert_eq!(between("SET lock 1", "set lock 1"), 0);
        assert!(between("SET lock 1", "SET lokc 1") < between("SET lock 1", "GET lock"));
        assert!(between("DEL lock:a", "DEL lock:b") < between("DEL lock:a", "DEL session:9"));
        assert!(between("DEL lock:a", "DEL lock:b") < between("DEL lock:a", "UNLINK lock:a"));
    }

    #[test]
    fn edits_are_counted() {
        assert_eq!(edits(b"kitten", b"sitting"), 3);
        assert_eq!(edits(b"", b"abc"), 3);
    }
}
