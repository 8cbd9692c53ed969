//! Replies as a client reads them, in RESP2 and RESP3.

use std::io::{self, BufRead, Read};

use crate::protocol::parse_integer;

/// One reply, or one element of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Nil,
    Status(Vec<u8>),
    Error(Vec<u8>),
    /// The digits as they came.
    Integer(Vec<u8>),
    /// The digits as they came.
    Double(Vec<u8>),
    Boolean(bool),
    Text(Vec<u8>),
    /// A text that is shown as it is, without its format.
    Verbatim(Vec<u8>),
    Array(Vec<Self>),
    Set(Vec<Self>),
    Map(Vec<(Self, Self)>),
    Push(Vec<Self>),
}

/// How deep replies can be nested.
const MAX_DEPTH: usize = 64;

/// Reads one reply. An end of the stream is `UnexpectedEof`, and bytes that are no reply are `InvalidData`.
pub(super) fn read_value(input: &mut impl BufRead) -> io::Result<Value> {
    read_nested(input, MAX_DEPTH)
}

fn read_nested(input: &mut impl BufRead, depth: usize) -> io::Result<Value> {
    let Some(deeper) = depth.checked_sub(1) else { return Err(invalid("replies are nested too deeply")) };
    loop {
        let line = read_line(input)?;
        let Some((&kind, text)) = line.split_first() else { return Err(invalid("an empty line in place of a reply")) };
        return Ok(match kind {
            b'+' => Value::Status(text.to_vec()),
            b'-' => Value::Error(text.to_vec()),
            b':' | b'(' => Value::Integer(text.to_vec()),
            b',' => Value::Double(text.to_vec()),
            b'#' => Value::Boolean(text == b"t"),
            b'_' => Value::Nil,
            b'$' => read_text(input, text)?.map_or(Value::Nil, Value::Text),
            b'!' => read_text(input, text)?.map_or(Value::Nil, Value::Error),
            // Three letters and a colon say the format.
            b'=' => read_text(input, text)?
                .map_or(Value::Nil, |text| Value::Verbatim(text.get(4..).unwrap_or_default().to_vec())),
            b'*' => read_elements(input, text, deeper)?.map_or(Value::Nil, Value::Array),
            b'~' => read_elements(input, text, deeper)?.map_or(Value::Nil, Value::Set),
            b'>' => read_elements(input, text, deeper)?.map_or(Value::Nil, Value::Push),
            b'%' => Value::Map(read_pairs(input, text, deeper)?),
            // Attributes are about the reply that follows, and are not shown.
            b'|' => {
                read_pairs(input, text, deeper)?;
                continue;
            }
            other => {
                let got = char::from(other).escape_default();
                return Err(invalid(&format!("Protocol error, got \"{got}\" as reply type byte")));
            }
        });
    }
}

fn read_line(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    input.read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    line.pop_if(|last| *last == b'\r');
    Ok(line)
}

/// The length that a line announces; `None` is a null.
fn length(text: &[u8]) -> io::Result<Option<u64>> {
    match parse_integer(text) {
        Some(-1) => Ok(None),
        Some(length) => u64::try_from(length).map(Some).map_err(|_| invalid("a length below -1")),
        None => Err(invalid("a length that is no number")),
    }
}

fn read_text(input: &mut impl BufRead, announced: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let Some(length) = length(announced)? else { return Ok(None) };
    let mut text = Vec::new();
    // The announced length is a limit, not an allocation.
    if input.by_ref().take(length).read_to_end(&mut text)? as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    input.read_exact(&mut [0; 2])?;
    Ok(Some(text))
}

fn read_elements(input: &mut impl BufRead, announced: &[u8], depth: usize) -> io::Result<Option<Vec<Value>>> {
    let Some(count) = length(announced)? else { return Ok(None) };
    (0..count).map(|_| read_nested(input, depth)).collect::<io::Result<_>>().map(Some)
}

fn read_pairs(input: &mut impl BufRead, announced: &[u8], depth: usize) -> io::Result<Vec<(Value, Value)>> {
    let count = length(announced)?.unwrap_or(0);
    (0..count).map(|_| Ok((read_nested(input, depth)?, read_nested(input, depth)?))).collect()
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut bytes: &[u8]) -> io::Result<Value> {
        read_value(&mut bytes)
    }

    #[test]
    fn every_type_of_reply_is_read() {
        let text = |text: &str| Value::Text(text.into());
        for (bytes, value) in [
            ("+OK\r\n", Value::Status(b"OK".to_vec())),
            ("-ERR no\r\n", Value::Error(b"ERR no".to_vec())),
            ("!6\r\nERR no\r\n", Value::Error(b"ERR no".to_vec())),
            (":-1\r\n", Value::Integer(b"-1".to_vec())),
            ("(123\r\n", Value::Integer(b"123".to_vec())),
            (",1.5\r\n", Value::Double(b"1.5".to_vec())),
            ("#t\r\n", Value::Boolean(true)),
            ("_\r\n", Value::Nil),
            ("$-1\r\n", Value::Nil),
            ("*-1\r\n", Value::Nil),
            ("$4\r\na\r\nb\r\n", text("a\r\nb")),
            ("=5\r\ntxt:a\r\n", Value::Verbatim(b"a".to_vec())),
            ("*2\r\n*0\r\n$1\r\na\r\n", Value::Array(vec![Value::Array(vec![]), text("a")])),
            ("~1\r\n_\r\n", Value::Set(vec![Value::Nil])),
            ("%1\r\n$1\r\na\r\n_\r\n", Value::Map(vec![(text("a"), Value::Nil)])),
            (">1\r\n$1\r\na\r\n", Value::Push(vec![text("a")])),
            ("|1\r\n$1\r\na\r\n_\r\n+OK\r\n", Value::Status(b"OK".to_vec())),
        ] {
            assert_eq!(read(bytes.as_bytes()).unwrap(), value, "{bytes}");
        }
    }

    #[test]
    fn what_is_cut_short_or_no_reply_is_an_error() {
        for (bytes, kind) in [
            ("", io::ErrorKind::UnexpectedEof),
            ("+O", io::ErrorKind::UnexpectedEof),
            ("$9999999999999\r\nabc", io::ErrorKind::UnexpectedEof),
            ("*2\r\n:1\r\n", io::ErrorKind::UnexpectedEof),
            ("HTTP/1.1 400 Bad Request\r\n", io::ErrorKind::InvalidData),
            ("$x\r\n", io::ErrorKind::InvalidData),
            ("\r\n", io::ErrorKind::InvalidData),
        ] {
            assert_eq!(read(bytes.as_bytes()).unwrap_err().kind(), kind, "{bytes}");
        }
        let deep = "*1\r\n".repeat(100_000);
        assert_eq!(read(deep.as_bytes()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
