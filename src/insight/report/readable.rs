//! Untrusted bytes as text that cannot move a cursor, change the direction of writing or end a line.

use std::fmt::Write;

use crate::powers::{Entry, rendered};

/// How many characters of a command or a reply are shown.
pub const MAX_SHOWN: usize = 600;

/// Bytes as text, with invisible characters escaped.
pub fn readable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => visible(text),
        Err(_) => bytes.escape_ascii().to_string().replace("\\\"", "\"").replace("\\'", "'"),
    }
}

/// Text with invisible characters escaped.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        let mut escaped = letter.escape_debug();
        if matches!(letter, '"' | '\'' | '\\') || escaped.len() == 1 {
            shown.push(letter);
        } else {
            shown.extend(&mut escaped);
        }
    }
    shown
}

/// The first characters of a text, with an ellipsis if there are more.
pub fn clipped(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['\u{2026}']).collect(),
    }
}

/// The words of a command on one line, with quotes around those that contain spaces.
pub fn line(words: &[Vec<u8>], missing: u64) -> String {
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        let part = &word[..word.len().min(MAX_SHOWN * 4)];
        let word = readable(part);
        if word.is_empty() || word.contains(' ') {
            let _ = write!(line, "\"{word}\"");
        } else {
            line.push_str(&word);
        }
        if line.len() > MAX_SHOWN * 4 {
            break;
        }
    }
    let mut line = clipped(&line, MAX_SHOWN);
    if missing > 0 {
        let _ = write!(line, " (and {missing} bytes that the journal has not kept)");
    }
    line
}

/// A reply on one line.
pub fn reply(entry: &Entry) -> String {
    clipped(&visible(&rendered(&entry.reply)), MAX_SHOWN)
}

/// A reply in as few characters as possible.
pub fn short_reply(entry: &Entry) -> String {
    let reply = reply(entry);
    match reply.strip_prefix("(integer) ") {
        Some(number) => number.to_owned(),
        None if reply == "(nil)" => "nil".to_owned(),
        None => reply,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_escaped() {
        for (bytes, shown) in [
            (&b"lock.foo"[..], "lock.foo"),
            ("schl\u{fc}ssel \"a\" \\".as_bytes(), "schl\u{fc}ssel \"a\" \\"),
            (b"a\x1b[2Jb\r\n", "a\\u{1b}[2Jb\\r\\n"),
            ("a\u{202e}b\u{2028}".as_bytes(), "a\\u{202e}b\\u{2028}"),
            (b"\xff'\n", "\\xff'\\n"),
        ] {
            assert_eq!(readable(bytes), shown);
        }
        assert_eq!(
            line(&[b"SET".to_vec(), b"a b".to_vec(), Vec::new()], 3).split(" (").next(),
            Some("SET \"a b\" \"\"")
        );
        assert_eq!(clipped("abcd", 3), "ab\u{2026}");
    }
}
