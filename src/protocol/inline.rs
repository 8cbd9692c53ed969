//! Inline requests: a line of words as a person types it into telnet, with Redis's quoting rules.

use super::words::{OwnedWords, Span};

/// Whose rules requests follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// In an inline request, a quote ends the word.
    #[default]
    Redis,
    /// Valkey since 9.0: lines end in CRLF; in an inline request, text can follow a quote, and the byte 255 is lost unless
    /// it is escaped.
    Valkey,
}

/// Splits a line into words, appended to `out`. `None` when a quote is not closed or, in Redis, is followed by text.
pub(super) fn split(line: &[u8], dialect: Dialect, out: &mut Vec<u8>, spans: &mut Vec<Span>) -> Option<()> {
    let mut rest = line;
    loop {
        while let [first, tail @ ..] = rest
            && is_blank(*first)
        {
            rest = tail;
        }
        if rest.is_empty() {
            return Some(());
        }
        let start = out.len();
        rest = match dialect {
            Dialect::Redis => word(rest, out)?,
            Dialect::Valkey => valkey_word(rest, out)?,
        };
        spans.push(Span { start, end: out.len() });
    }
}

/// The words of a line, as in configuration files.
pub fn split_line(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut text, mut spans) = (Vec::new(), Vec::new());
    split(line, Dialect::Redis, &mut text, &mut spans)?;
    Some(spans.iter().map(|span| text[span.start..span.end].to_vec()).collect())
}

/// As [`split_line`], of a line that can have been cut off: the words that are whole, and whether that is all of it.
pub fn split_whole_words(line: &[u8]) -> (OwnedWords, bool) {
    let (mut text, mut spans) = (Vec::new(), Vec::new());
    let is_whole = split(line, Dialect::Redis, &mut text, &mut spans).is_some();
    (OwnedWords::new(text, spans), is_whole)
}

/// A quoted word, which [`split_line`] reads back unchanged, as MONITOR shows it.
pub fn quote(word: &[u8]) -> Vec<u8> {
    quoted(word, false)
}

/// A word for [`split_line`], as a person would write it: quoted only where necessary, with text in any language left
/// readable.
pub fn quote_readably(word: &[u8]) -> Vec<u8> {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'\\".contains(byte);
    if !word.is_empty() && word[0] != b'#' && word.iter().all(plain) {
        return word.to_vec();
    }
    let is_text = |text: &str| text.chars().all(|c| c.is_ascii() || !c.is_control());
    quoted(word, std::str::from_utf8(word).is_ok_and(is_text))
}

fn quoted(word: &[u8], keeps_text: bool) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for &byte in word {
        match byte {
            b'\\' | b'"' => quoted.extend([b'\\', byte]),
            b'\n' => quoted.extend(b"\\n"),
            b'\r' => quoted.extend(b"\\r"),
            b'\t' => quoted.extend(b"\\t"),
            0x07 => quoted.extend(b"\\a"),
            0x08 => quoted.extend(b"\\b"),
            b' '..=b'~' => quoted.push(byte),
            0x80.. if keeps_text => quoted.push(byte),
            _ => quoted.extend(format!("\\x{byte:02x}").bytes()),
        }
    }
    quoted.push(b'"');
    quoted
}

/// C's `isspace`: unlike `u8::is_ascii_whitespace` it knows the vertical tab.
pub fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn word<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return Some(rest),
            [b' ' | b'\n' | b'\r' | b'\t', ..] => return Some(rest),
            [b'"', tail @ ..] => return double_quoted(tail, out).and_then(closed),
            [b'\'', tail @ ..] => return single_quoted(tail, out).and_then(closed),
            [byte, tail @ ..] => {
                out.push(*byte);
                rest = tail;
            }
        }
    }
}

/// A blank or the end of the line must follow a closing quote.
fn closed(rest: &[u8]) -> Option<&[u8]> {
    rest.first().is_none_or(|&byte| is_blank(byte)).then_some(rest)
}

fn double_quoted<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return None,
            [b'"', tail @ ..] => return Some(tail),
            [b'\\', b'x', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                out.push(hex(*high, *low));
                rest = tail;
            }
            [b'\\', escaped, tail @ ..] => {
                out.push(unescaped(*escaped));
                rest = tail;
            }
            [byte, tail @ ..] => {
                out.push(*byte);
                rest = tail;
            }
        }
    }
}

fn hex(high: u8, low: u8) -> u8 {
    let digit = |byte: u8| (byte as char).to_digit(16).unwrap_or(0) as u8;
    digit(high) << 4 | digit(low)
}

/// The byte that an escape between double quotes stands for.
fn unescaped(escaped: u8) -> u8 {
    match escaped {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

/// As [`word`], by Valkey's rules. An escape needs something behind it: `"a\"` is an `a` and a backslash.
fn valkey_word<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    const LOST: u8 = u8::MAX;
    let mut quote = None;
    loop {
        let (byte, tail) = match (quote, rest) {
            (None, [] | [b' ' | b'\n' | b'\r' | b'\t', ..]) => return Some(rest),
            (Some(_), []) => return None,
            (None, [open @ (b'"' | b'\''), tail @ ..]) => {
                quote = Some(*open);
                rest = tail;
                continue;
            }
            (Some(open), [close, tail @ ..]) if open == *close => {
                quote = None;
                rest = tail;
                continue;
            }
            (Some(b'"'), [b'\\', b'x', high, low, tail @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() && !tail.is_empty() =>
            {
                out.push(hex(*high, *low));
                rest = tail;
                continue;
            }
            (Some(b'"'), [b'\\', escaped, tail @ ..]) if !tail.is_empty() => (unescaped(*escaped), tail),
            (Some(b'\''), [b'\\', b'\'', tail @ ..]) if !tail.is_empty() => (b'\'', tail),
            (_, [byte, tail @ ..]) => (*byte, tail),
        };
        if byte != LOST {
            out.push(byte);
        }
        rest = tail;
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return None,
            [b'\\', b'\'', tail @ ..] => {
                out.push(b'\'');
                rest = tail;
            }
            [b'\'', tail @ ..] => return Some(tail),
            [byte, tail @ ..] => {
                out.push(*byte);
                rest = tail;
            }
        }
    }
}
