//! Replies as people read them, on one line.

use crate::protocol::{parse_integer, quote};

/// The most levels of nested values that are shown.
const DEEPEST: usize = 32;
/// Stands for what is not shown or was not kept.
const REST: &str = "...";

/// A reply on one line: `OK`, `(error) ERR ...`, `(integer) 1`, `"text"`, `(nil)`, `["a", "b"]`, `{"k": "v"}`. Empty for
/// no reply. Further values, such as messages, follow after a space.
pub fn rendered(reply: &[u8]) -> String {
    let mut rest = reply;
    let mut line = String::new();
    while !rest.is_empty() {
        if !line.is_empty() {
            line.push(' ');
        }
        if show(&mut rest, &mut line, 0).is_none() {
            line.push_str(REST);
            break;
        }
    }
    line
}

/// Renders the next value; `None` if it is cut off.
fn show(rest: &mut &[u8], line: &mut String, depth: usize) -> Option<()> {
    let head = take_line(rest)?;
    let (kind, text) = head.split_first()?;
    let words = || String::from_utf8_lossy(text).escape_debug().to_string().replace("\\\"", "\"").replace("\\'", "'");
    match kind {
        b'+' => line.push_str(&words()),
        b'-' => line.push_str(&format!("(error) {}", words())),
        b':' => line.push_str(&format!("(integer) {}", words())),
        b',' => line.push_str(&format!("(double) {}", words())),
        b'(' => line.push_str(&format!("(big number) {}", words())),
        b'#' => line.push_str(if text == b"t" { "(true)" } else { "(false)" }),
        b'_' => line.push_str("(nil)"),
        b'$' | b'=' | b'!' => {
            let Some(length) = parse_integer(text).and_then(|length| usize::try_from(length).ok()) else {
                line.push_str("(nil)");
                return Some(());
            };
            let kept = &rest[..length.min(rest.len())];
            // A verbatim string begins with its format.
            let shown = if *kind == b'=' { kept.get(4..).unwrap_or_default() } else { kept };
            line.push_str(&String::from_utf8_lossy(&quote(shown)));
            *rest = rest.get(length + 2..)?;
        }
        b'*' | b'~' | b'>' | b'%' => {
            let Some(count) = parse_integer(text).and_then(|count| usize::try_from(count).ok()) else {
                line.push_str("(nil)");
                return Some(());
            };
            return show_items(rest, line, depth, *kind == b'%', count);
        }
        _ => return None,
    }
    Some(())
}

fn show_items(rest: &mut &[u8], line: &mut String, depth: usize, is_map: bool, count: usize) -> Option<()> {
    if depth >= DEEPEST {
        return None;
    }
    line.push(if is_map { '{' } else { '[' });
    for index in 0..count {
        if index > 0 {
            line.push_str(", ");
        }
        show(rest, line, depth + 1)?;
        if is_map {
            line.push_str(": ");
            show(rest, line, depth + 1)?;
        }
    }
    line.push(if is_map { '}' } else { ']' });
    Some(())
}

fn take_line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let line = &rest[..end];
    *rest = &rest[end + 2..];
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_shown_on_one_line() {
        for (reply, shown) in [
            (&b"+OK\r\n"[..], "OK"),
            (b"-ERR no such key\r\n", "(error) ERR no such key"),
            (b":-3\r\n", "(integer) -3"),
            (b"$5\r\na\"\r\nb\r\n", r#""a\"\r\nb""#),
            (b"$-1\r\n", "(nil)"),
            (b"_\r\n", "(nil)"),
            (b"*-1\r\n", "(nil)"),
            (b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n", r#"["a", [(integer) 1]]"#),
            (b"%1\r\n+k\r\n#t\r\n", "{k: (true)}"),
            (b"=6\r\ntxt:ab\r\n", r#""ab""#),
            (b"", ""),
            (b">1\r\n+x\r\n+OK\r\n", "[x] OK"),
        ] {
            assert_eq!(rendered(reply), shown);
        }
    }

    #[test]
    fn what_is_cut_off_ends_in_dots() {
        assert_eq!(rendered(b"$100\r\nabc"), r#""abc"..."#);
        assert_eq!(rendered(b"*2\r\n:1\r\n"), "[(integer) 1, ...");
        assert!(rendered(&b"*1\r\n".repeat(100_000)).ends_with(REST));
    }
}
