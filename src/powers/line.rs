//! Commands and rules on one line, as people read them.

use std::fmt::Write as _;

/// Words on one line, with quotes where a word would be read as several.
pub fn line_of(words: &[Vec<u8>]) -> String {
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        let plain = !word.is_empty() && word.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'"');
        let _ = match plain {
            true => write!(line, "{}", String::from_utf8_lossy(word)),
            false => write!(line, "\"{}\"", word.escape_ascii()),
        };
    }
    line
}
