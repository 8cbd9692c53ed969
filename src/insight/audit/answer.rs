//! Replies, as far as a lock is concerned.

use smallvec::SmallVec;

use crate::protocol::parse_integer;

/// One value of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    Null,
    Number(i64),
    /// A string of any kind; cut off if the journal has cut it off.
    Text(&'a [u8]),
    Error,
    /// Several values, or none that is known here.
    Other,
}

impl<'a> Answer<'a> {
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

/// The values of a reply that is a list of simple ones, one for each of what was asked.
pub fn answers(reply: &[u8]) -> SmallVec<[Answer<'_>; 4]> {
    let mut rest = reply;
    let Some((b'*' | b'~', count)) = take_line(&mut rest).and_then(|line| Some((*line.first()?, line))) else {
        return SmallVec::new();
    };
    let count = parse_integer(&count[1..]).and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
    (0..count).map_while(|_| take(&mut rest)).collect()
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<Answer<'a>> {
    let (kind, text) = take_line(rest)?.split_first()?;
    Some(match kind {
        b'+' => Answer::Text(text),
        b'-' | b'!' => Answer::Error,
        b':' => Answer::Number(parse_integer(text)?),
        b'#' => Answer::Number(i64::from(text == b"t")),
        b'_' => Answer::Null,
        b'$' | b'=' => match parse_integer(text).and_then(|length| usize::try_from(length).ok()) {
            None => Answer::Null,
            Some(length) => {
                let text = &rest[..length.min(rest.len())];
                *rest = rest.get(length + 2..).unwrap_or_default();
                Answer::Text(text)
            }
        },
        b'*' if text == b"-1" => Answer::Null,
        _ => Answer::Other,
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
            (&b"+OK\r\n"[..], Answer::Text(b"OK")),
            (b":1\r\n", Answer::Number(1)),
            (b"$3\r\na\rb\r\n", Answer::Text(b"a\rb")),
            (b"$-1\r\n", Answer::Null),
            (b"_\r\n", Answer::Null),
            (b"*-1\r\n", Answer::Null),
            (b"-ERR no\r\n", Answer::Error),
            (b"$9\r\nabc", Answer::Text(b"abc")),
            (b"", Answer::Other),
        ] {
            assert_eq!(Answer::of(reply), answer);
        }
        let list = answers(b"*3\r\n$1\r\na\r\n$-1\r\n:4\r\n");
        assert_eq!(list.as_slice(), [Answer::Text(b"a"), Answer::Null, Answer::Number(4)]);
    }
}
