//! The tokens of a Lua 5.1 source text.

use std::borrow::Cow;

/// A token and its place in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'s> {
    pub kind: TokenKind<'s>,
    pub start: usize,
    pub end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind<'s> {
    /// A name or a keyword.
    Word(&'s [u8]),
    Number,
    String,
    Symbol(&'static str),
    End,
}

/// The symbols, longer ones first.
const SYMBOLS: &[&str] = &[
    "...", "..", "==", "~=", "<=", ">=", "+", "-", "*", "/", "%", "^", "#", "<", ">", "=", "(", ")", "{", "}", "[",
    "]", ";", ":", ",", ".",
];

/// All tokens, with an [`End`](TokenKind::End) behind them. `None` if something is no token.
pub fn tokens(source: &[u8]) -> Option<Vec<Token<'_>>> {
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        at = skip_blanks(source, at)?;
        let rest = &source[at..];
        let Some(&first) = rest.first() else { break };
        let (kind, end) = if is_word(first) && !first.is_ascii_digit() {
            let length = rest.iter().take_while(|byte| is_word(**byte)).count();
            (TokenKind::Word(&rest[..length]), at + length)
        } else if first.is_ascii_digit() || first == b'.' && rest.get(1).is_some_and(u8::is_ascii_digit) {
            (TokenKind::Number, at + number_length(rest))
        } else if matches!(first, b'"' | b'\'') {
            (TokenKind::String, at + quoted_length(rest)?)
        } else if let Some(length) = long_bracket(rest) {
            (TokenKind::String, at + length?)
        } else {
            let symbol = SYMBOLS.iter().copied().find(|symbol| rest.starts_with(symbol.as_bytes()))?;
            (TokenKind::Symbol(symbol), at + symbol.len())
        };
        found.push(Token { kind, start: at, end });
        at = end;
    }
    found.push(Token { kind: TokenKind::End, start: at, end: at });
    Some(found)
}

/// The source with another level for each `[[…]]` in which a further `[[` stands. Redis's Lua takes that for text, the one here
/// for an error.
pub fn without_nested_brackets(source: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memmem::find_iter(source, b"[[").count() < 2 {
        return Cow::Borrowed(source);
    }
    let mut changed = Vec::with_capacity(source.len());
    let (mut at, mut copied) = (0, 0);
    while at < source.len() {
        let is_comment = source[at..].starts_with(b"--");
        let start = if is_comment { at + 2 } else { at };
        let rest = &source[start..];
        at = match (long_bracket(rest), rest.first()) {
            (Some(Some(length)), _) => {
                let text = &rest[..length];
                if let Some(inner) = text.strip_prefix(b"[[").and_then(|text| text.strip_suffix(b"]]"))
                    && memchr::memmem::find(inner, b"[[").is_some()
                {
                    let level = free_level(inner);
                    changed.extend_from_slice(&source[copied..start]);
                    changed.extend_from_slice(&[b"[", &*level, b"[", inner, b"]", &*level, b"]"].concat());
                    copied = start + length;
                }
                start + length
            }
            // It does not end: Lua says so.
            (Some(None), _) => break,
            (None, _) if is_comment => start + memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len()),
            (None, Some(b'"' | b'\'')) => match quoted_length(rest) {
                Some(length) => start + length,
                None => break,
            },
            (None, _) => start + 1,
        };
    }
    changed.extend_from_slice(&source[copied..]);
    Cow::Owned(changed)
}

/// As many `=` as no closing bracket in the text has, or at its end would have.
fn free_level(text: &[u8]) -> Vec<u8> {
    let text = [text, b"]"].concat();
    let mut level = vec![b'='];
    while memchr::memmem::find(&text, &[b"]", &*level, b"]"].concat()).is_some() {
        level.push(b'=');
    }
    level
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Skips blanks and comments.
fn skip_blanks(source: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let rest = &source[at..];
        match rest {
            [b' ' | b'\t'..=b'\r', ..] => at += 1,
            [b'-', b'-', comment @ ..] => match long_bracket(comment) {
                Some(length) => at += 2 + length?,
                None => at += memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len()),
            },
            _ => return Some(at),
        }
    }
}

/// The length of a number, as Lua's scanner delimits it.
fn number_length(text: &[u8]) -> usize {
    let mut length = 0;
    while let Some(&byte) = text.get(length) {
        let is_sign = matches!(byte, b'+' | b'-')
            && length > 0
            && matches!(text[length - 1], b'e' | b'E')
            && !text.starts_with(b"0x")
            && !text.starts_with(b"0X");
        if !(is_word(byte) || byte == b'.' || is_sign) {
            break;
        }
        length += 1;
    }
    length
}

fn quoted_length(text: &[u8]) -> Option<usize> {
    let quote = *text.first()?;
    let mut at = 1;
    loop {
        match *text.get(at)? {
            // The end of a line can be two bytes.
            b'\\' if matches!(text.get(at + 1..at + 3), Some(b"\r\n" | b"\n\r")) => at += 3,
            b'\\' => at += 2,
            b'\n' | b'\r' => return None,
            byte if byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// The length of a `[[…]]` or `[=[…]=]`, if one begins here; `Some(None)` if it does not end.
#[expect(clippy::option_option, reason = "no bracket, a bracket without an end, a bracket")]
fn long_bracket(text: &[u8]) -> Option<Option<usize>> {
    let inner = text.strip_prefix(b"[")?;
    let level = inner.iter().take_while(|byte| **byte == b'=').count();
    inner.get(level).filter(|byte| **byte == b'[')?;
    let mut end = vec![b'='; level + 2];
    (end[0], end[level + 1]) = (b']', b']');
    let begin = level + 2;
    Some(memchr::memmem::find(&text[begin..], &end).map(|at| begin + at + end.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Option<Vec<&str>> {
        Some(tokens(source.as_bytes())?.iter().map(|token| &source[token.start..token.end]).collect())
    }

    #[test]
    fn brackets_in_long_brackets_are_text() {
        let changed =
            |source: &str| String::from_utf8(without_nested_brackets(source.as_bytes()).into_owned()).unwrap();
        assert_eq!(changed("return [[ a [[ b ]]"), "return [=[ a [[ b ]=]");
        assert_eq!(changed("--[[ [[ ]=] ]] x = '[[' -- [["), "--[==[ [[ ]=] ]==] x = '[[' -- [[");
        assert_eq!(changed("return [[ [[ ]=]]"), "return [==[ [[ ]=]==]");
        assert_eq!(changed("return 'a\\\r\nb' .. [[ [[ ]]"), "return 'a\\\r\nb' .. [=[ [[ ]=]");
        for same in ["t[[[a]]] = '[[' .. [[b]]", "a = [=[ [[ ]] ]=] .. [[ ]]", "[[ [[", "'[[ [[", "-- [[ [["] {
            assert_eq!(changed(same), same);
        }
    }

    #[test]
    fn a_source_is_divided_into_its_tokens() {
        let source = "local a1=0x1F..'it\\'s'--[==[ no ]] ]==]\n..[[x\n]]-- end\nif a~=-.5e-3 then";
        let expected =
            ["local", "a1", "=", "0x1F..", "'it\\'s'", "..", "[[x\n]]", "if", "a", "~=", "-", ".5e-3", "then", ""];
        assert_eq!(texts(source).unwrap(), expected);
        for wrong in ["'a", "'a\n'", "[[a", "--[[a", "a $ b", "\\"] {
            assert_eq!(texts(wrong), None, "{wrong}");
        }
    }
}
