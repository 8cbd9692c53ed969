//! Text for people.

use std::borrow::Cow;
use std::fmt::Display;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};

/// The characters to escape in a URI: all except the unreserved ones of RFC 3986.
pub const URI_ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// "1 key", "2 keys".
pub fn counted<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    if number == N::from(1) { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Bytes as text; what is not UTF-8 is escaped as in a Rust literal.
pub fn utf8_or_escaped(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(bytes.escape_ascii().to_string()),
    }
}

/// Bytes in lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digits = |byte: &u8| [byte >> 4, byte & 0xf].map(|digit| DIGITS[usize::from(digit)]);
    bytes.iter().flat_map(digits).collect()
}

/// `12:00:01.250` in UTC, of microseconds since 1970.
pub fn time_of_day(micros: i64) -> String {
    let millis = micros.div_euclid(1000).rem_euclid(86_400_000);
    let seconds = millis / 1000;
    format!("{:02}:{:02}:{:02}.{:03}", seconds / 3600, seconds / 60 % 60, seconds % 60, millis % 1000)
}

/// Text with the characters escaped that a terminal or a file would obey.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            letter if is_unprintable(letter) => shown.push_str(&format!("\\u{{{:x}}}", u32::from(letter))),
            letter => shown.push(letter),
        }
    }
    Cow::Owned(shown)
}

/// Controls, marks that change the direction of writing, and code points that are no characters.
pub fn is_unprintable(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!([0_u64, 1, 2].map(|number| counted(number, "key")), ["0 keys", "1 key", "2 keys"]);
    }

    #[test]
    fn only_what_is_no_text_is_escaped() {
        assert_eq!(utf8_or_escaped("schl\u{fc}ssel\n".as_bytes()), "schl\u{fc}ssel\n");
        assert_eq!(utf8_or_escaped(b"\xff\n"), "\\xff\\n");
    }
}
