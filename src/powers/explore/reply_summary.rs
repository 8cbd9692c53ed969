//! A short form of a reply, for the line that shows its command.

/// The most bytes that are shown, and the most levels of nested values.
const LONGEST: usize = 120;
const DEEPEST: usize = 4;

/// A reply as people read it: `1`, `OK`, `"text"`, `(nil)`, `[1, 2]`.
pub fn summarize(reply: &[u8]) -> String {
    let mut text = String::new();
    let mut rest = reply;
    write(&mut rest, DEEPEST, &mut text);
    if text.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    text
}

/// Appends the first reply of `rest` and removes it there; `None` if the reply is cut short.
fn write(rest: &mut &[u8], depth: usize, text: &mut String) -> Option<()> {
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, behind) = (&rest[..end], &rest[end + 2..]);
    *rest = behind;
    let (kind, value) = line.split_first()?;
    let shown = String::from_utf8_lossy(value);
    let length = || shown.parse::<usize>().ok();
    match kind {
        b'$' | b'=' | b'!' if *value != *b"-1" => {
            let length = length()?;
            let word = rest.get(..length)?;
            *rest = rest.get(length + 2..)?;
            let start = if *kind == b'=' { 4.min(word.len()) } else { 0 };
            let cut = &word[start..word.len().min(LONGEST)];
            text.push_str(&format!("\"{}\"", cut.escape_ascii()));
        }
        b'*' | b'%' | b'~' | b'>' if *value != *b"-1" => {
            let count = length()?;
            let (open, close) = if *kind == b'%' { ('{', '}') } else { ('[', ']') };
            text.push(open);
            for item in 0..count.saturating_mul(if *kind == b'%' { 2 } else { 1 }) {
                if item > 0 {
                    text.push_str(", ");
                }
                if depth == 0 || text.len() > LONGEST {
                    text.push_str("...");
                    return None;
                }
                write(rest, depth - 1, text)?;
            }
            text.push(close);
        }
        b'$' | b'*' | b'_' => text.push_str("(nil)"),
        b'#' => text.push_str(if value == b"t" { "true" } else { "false" }),
        _ => text.push_str(&shown),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_read_as_in_a_log() {
        let cases: &[(&[u8], &str)] = &[
            (b":1\r\n", "1"),
            (b"+OK\r\n", "OK"),
            (b"$-1\r\n", "(nil)"),
            (b"_\r\n", "(nil)"),
            (b"$5\r\nto\x00en\r\n", "\"to\\x00en\""),
            (b"-ERR no\r\n", "ERR no"),
            (b"*2\r\n:1\r\n*-1\r\n", "[1, (nil)]"),
            (b"%1\r\n+a\r\n#t\r\n", "{a, true}"),
            (b"=7\r\ntxt:abc\r\n", "\"abc\""),
            (b"", ""),
            (b"$9\r\nabc", ""),
        ];
        for (reply, text) in cases {
            assert_eq!(summarize(reply), *text);
        }
    }

    #[test]
    fn a_long_reply_is_cut_short() {
        let nested = b"*1\r\n".repeat(1000);
        assert!(summarize(&nested).len() < 20);
        let many = [b"*100000\r\n".to_vec(), b":12345\r\n".repeat(100_000)].concat();
        assert!(summarize(&many).len() < LONGEST + 8);
    }
}
