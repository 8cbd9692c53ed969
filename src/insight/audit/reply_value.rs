//! The values of replies, as far as locks are concerned.

use smallvec::SmallVec;

use crate::protocol::parse_integer;

/// One value of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyValue<'a> {
    Null,
    Number(i64),
    /// A string of any kind, as much of it as the journal kept.
    Text(&'a [u8]),
    Error,
    /// Several values, or one of another type.
    Other,
}

impl<'a> ReplyValue<'a> {
    /// The first value of a reply.
    pub fn of(reply: &'a [u8]) -> Self {
        take(&mut { reply }).unwrap_or(Self::Other)
    }

    pub fn text(self) -> Option<&'a [u8]> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub fn number(self) -> Option<i64> {
        if let Self::Number(number) = self { Some(number) } else { None }
    }
}

/// The values of a reply that is a list of simple values; of a map, each key with its value behind it.
pub fn reply_values(reply: &[u8]) -> SmallVec<[ReplyValue<'_>; 4]> {
    let mut rest = reply;
    let Some((kind @ (b'*' | b'~' | b'%'), count)) = take_line(&mut rest).and_then(|line| Some((*line.first()?, line)))
    else {
        return SmallVec::new();
    };
    let count = parse_integer(&count[1..]).and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
    let count = if kind == b'%' { count.saturating_mul(2) } else { count };
    (0..count).map_while(|_| take(&mut rest)).collect()
}

/// The values of a reply that is a list, each as it was sent; what was cut off is missing.
pub fn reply_elements(reply: &[u8]) -> Vec<&[u8]> {
    let mut rest = reply;
    let Some((b'*' | b'~', count)) = take_line(&mut rest).and_then(|line| Some((*line.first()?, line))) else {
        return Vec::new();
    };
    let count = parse_integer(&count[1..]).and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
    (0..count)
        .map_while(|_| {
            let before = rest;
            skip(&mut rest, 0)?;
            Some(&before[..before.len() - rest.len()])
        })
        .collect()
}

/// How deep lists may be nested in a list.
const DEEPEST: usize = 32;

/// Skips a whole value.
fn skip(rest: &mut &[u8], depth: usize) -> Option<()> {
    let (kind, text) = take_line(rest)?.split_first()?;
    let length = || parse_integer(text).and_then(|length| usize::try_from(length).ok());
    match kind {
        b'$' | b'=' | b'!' => {
            if let Some(length) = length() {
                *rest = rest.get(length.checked_add(2)?..)?;
            }
        }
        b'*' | b'~' | b'>' | b'%' if depth < DEEPEST => {
            let values = if *kind == b'%' { 2 } else { 1 };
            for _ in 0..length().unwrap_or(0).checked_mul(values)? {
                skip(rest, depth + 1)?;
            }
        }
        b'*' | b'~' | b'>' | b'%' => return None,
        _ => {}
    }
    Some(())
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<ReplyValue<'a>> {
    let (kind, text) = take_line(rest)?.split_first()?;
    Some(match kind {
        // A number with a fraction is as the server writes it.
        b'+' | b',' => ReplyValue::Text(text),
        b'-' | b'!' => ReplyValue::Error,
        b':' => ReplyValue::Number(parse_integer(text)?),
        b'#' => ReplyValue::Number(i64::from(text == b"t")),
        b'_' => ReplyValue::Null,
        b'$' | b'=' => match parse_integer(text).and_then(|length| usize::try_from(length).ok()) {
            None => ReplyValue::Null,
            Some(length) => {
                let text = &rest[..length.min(rest.len())];
                *rest = rest.get(length + 2..).unwrap_or_default();
                ReplyValue::Text(text)
            }
        },
        b'*' if text == b"-1" => ReplyValue::Null,
        _ => ReplyValue::Other,
    })
}

fn take_line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = memchr::memchr(b'\r', rest)?;
    let line = &rest[..end];
    *rest = rest.get(end + 2..)?;
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_replies_are_found() {
        for (reply, answer) in [
            (&b"+OK\r\n"[..], ReplyValue::Text(b"OK")),
            (b":1\r\n", ReplyValue::Number(1)),
            (b"$3\r\na\rb\r\n", ReplyValue::Text(b"a\rb")),
            (b"$-1\r\n", ReplyValue::Null),
            (b"_\r\n", ReplyValue::Null),
            (b"*-1\r\n", ReplyValue::Null),
            (b"-ERR no\r\n", ReplyValue::Error),
            (b"$9\r\nabc", ReplyValue::Text(b"abc")),
            (b"", ReplyValue::Other),
        ] {
            assert_eq!(ReplyValue::of(reply), answer);
        }
        let elements = reply_elements(b"*4\r\n+OK\r\n*2\r\n:1\r\n$1\r\na\r\n$-1\r\n$9\r\nabc");
        assert_eq!(elements, [&b"+OK\r\n"[..], b"*2\r\n:1\r\n$1\r\na\r\n", b"$-1\r\n"]);
        let list = reply_values(b"*3\r\n$1\r\na\r\n$-1\r\n:4\r\n");
        assert_eq!(list.as_slice(), [ReplyValue::Text(b"a"), ReplyValue::Null, ReplyValue::Number(4)]);
    }
}
