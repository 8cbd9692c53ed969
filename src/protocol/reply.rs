//! Replies as values, and their encoding as RESP2 or RESP3.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::ops::Range;

use bytes::Bytes;

use super::number::{plain_decimal, write_double, write_integer, write_short_double};
use crate::base::error::CommandError;

/// The protocol version of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Resp2,
    Resp3,
}

/// The reply of a command. Bulk strings may borrow from the keyspace while its locks are held.
#[derive(Clone, Debug)]
pub enum Reply<'a> {
    /// A simple string: `+OK`.
    Status(&'static str),
    /// A simple string that is built at run time; it must not contain a line end.
    StatusText(String),
    Error(CommandError),
    Integer(i64),
    Bulk(Cow<'a, [u8]>),
    /// A bulk string that others have, too: a connection that sends nothing else with it does not copy it.
    Shared(Bytes),
    /// A bulk string of an integer in decimal.
    Digits(i64),
    /// Null: `$-1`, or `_` in RESP3.
    Null,
    /// The null array: `*-1`, or `_` in RESP3.
    NullArray,
    Array(Vec<Reply<'a>>),
    /// An array of bulk strings, or of arrays of them and of integers.
    Bulks(Bulks),
    /// Pairs in the given order; a flat array in RESP2.
    Map(Vec<(Reply<'a>, Reply<'a>)>),
    /// Pairs in the given order: a map, but an array of arrays of two in RESP2.
    MapOrPairs(Vec<(Reply<'a>, Reply<'a>)>),
    /// Pairs as arrays of two; one flat array in RESP2.
    Pairs(Vec<(Reply<'a>, Reply<'a>)>),
    Set(Vec<Reply<'a>>),
    Push(Vec<Reply<'a>>),
    Double(f64),
    /// A double as servers write it since 7.2.
    ShortDouble(f64),
    /// A long double: in decimal, with all its digits.
    LongDouble(f64),
    Boolean(bool),
    /// Text with its three-letter format; a plain bulk string in RESP2.
    Verbatim(&'static str, Cow<'a, [u8]>),
    BigNumber(&'static str),
    /// A value with attributes in front of it; RESP2 leaves the attributes out.
    Attributed(Vec<(Reply<'a>, Reply<'a>)>, Box<Reply<'a>>),
    /// Several replies in a row: a push and the reply behind it.
    Several(Vec<Reply<'a>>),
    /// A reply that is encoded already, in the protocol of its client.
    Encoded(Vec<u8>),
    /// No reply: the command has written it itself, or must not reply.
    Nothing,
}

/// Bulk strings, or arrays of them and of integers, encoded as they are added: for many, that takes half as long as collecting them first.
#[derive(Clone, Debug, Default)]
pub struct Bulks {
    count: usize,
    /// How many were expected, and how long the line is that says so, at the beginning of `written`.
    expected: usize,
    head: usize,
    written: Vec<u8>,
}

impl Bulks {
    /// Expects `count` short strings.
    pub fn with_capacity(count: usize) -> Self {
        let mut written = Vec::with_capacity(LONGEST_LINE + count.min(MOST_AT_ONCE) * SHORT_BULK);
        number_line(&mut written, b'*', count as i64);
        Self { count: 0, expected: count, head: written.len(), written }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// Adds one more, which the caller writes: a bulk string, or an array and all that is in it.
    #[inline]
    pub fn add(&mut self) -> BulkWriter<'_> {
        self.count += 1;
        BulkWriter(&mut self.written)
    }

    /// Whether it takes long to copy them.
    #[inline]
    pub fn are_large(&self) -> bool {
        self.written.len() >= LARGE
    }

    fn write(&self, out: &mut Vec<u8>) {
        number_line(out, b'*', self.count as i64);
        out.extend_from_slice(&self.written[self.head..]);
    }

    /// Whether nothing more is added, as with [`LARGEST`].
    pub fn are_full(&self) -> bool {
        self.written.len() > LARGEST
    }

    /// The encoded array.
    pub fn into_encoded(mut self) -> Vec<u8> {
        if self.head == 0 || self.count != self.expected {
            let mut line = Vec::new();
            number_line(&mut line, b'*', self.count as i64);
            self.written.splice(..self.head, line);
        }
        self.written
    }
}

/// Writes bulk strings, integers, and the beginnings of arrays of them.
pub struct BulkWriter<'b>(&'b mut Vec<u8>);

impl BulkWriter<'_> {
    /// An array of so many elements, which come next.
    #[inline]
    pub fn array(&mut self, count: usize) {
        number_line(self.0, b'*', count as i64);
    }

    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        bulk(self.0, bytes);
    }

    #[inline]
    pub fn integer(&mut self, value: i64) {
        number_line(self.0, b':', value);
    }

    /// A bulk string of an integer in decimal.
    #[inline]
    pub fn digits(&mut self, value: i64) {
        self.bulk(itoa::Buffer::new().format(value).as_bytes());
    }
}

/// The line of a number is no longer.
const LONGEST_LINE: usize = 24;
/// The estimated size of a short bulk string, and the most for which capacity is reserved.
const SHORT_BULK: usize = 16;
const MOST_AT_ONCE: usize = 4096;
/// It takes long to copy so many bytes.
pub const LARGE: usize = 64 * 1024;

impl<'a> Reply<'a> {
    pub const OK: Reply<'static> = Reply::Status("OK");

    pub fn bulk(bytes: impl Into<Cow<'a, [u8]>>) -> Self {
        Self::Bulk(bytes.into())
    }

    /// A bulk string of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Bulk(Cow::Owned(text.into().into_bytes()))
    }

    pub fn strings<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> Self {
        Self::Array(texts.into_iter().map(|text| Self::text(text.as_ref())).collect())
    }

    /// A bulk string, or null.
    pub fn bulk_or_null(bytes: Option<&'a [u8]>) -> Self {
        bytes.map_or(Self::Null, |bytes| Self::Bulk(Cow::Borrowed(bytes)))
    }

    /// An array whose items are encoded as they come, so that a long one takes no more memory than its bytes.
    pub fn encoded_array(protocol: Protocol, items: impl ExactSizeIterator<Item = Self>) -> Self {
        let mut out = Vec::new();
        number_line(&mut out, b'*', items.len() as i64);
        for item in items {
            if out.len() > LARGEST {
                break;
            }
            item.write(protocol, &mut out);
        }
        Self::Encoded(out)
    }

    /// A map of pairs that may come more than once: a pair that has the name of an earlier one is copied from there.
    pub fn encoded_map<N: Eq + Hash, T>(
        protocol: Protocol,
        named: &[(N, T)],
        mut pair: impl FnMut(&T) -> (Self, Self),
    ) -> Self {
        let mut out = Vec::new();
        map_line(&mut out, if protocol == Protocol::Resp3 { b'%' } else { b'*' }, named.len());
        let mut written = HashMap::new();
        for (name, item) in named {
            if out.len() > LARGEST {
                break;
            }
            let start = out.len();
            match written.entry(name) {
                Entry::Occupied(earlier) => out.extend_from_within(Range::clone(earlier.get())),
                Entry::Vacant(first) => {
                    let (key, value) = pair(item);
                    key.write(protocol, &mut out);
                    value.write(protocol, &mut out);
                    first.insert(start..out.len());
                }
            }
        }
        Self::Encoded(out)
    }

    /// The reply, encoded, so that nobody else has to; an error stays one.
    #[must_use]
    pub fn into_encoded(self, protocol: Protocol) -> Self {
        match self {
            Self::Error(_) | Self::Encoded(_) => self,
            reply => {
                let mut out = Vec::new();
                reply.write(protocol, &mut out);
                Self::Encoded(out)
            }
        }
    }

    /// Appends the encoded reply.
    #[inline]
    pub fn write(&self, protocol: Protocol, out: &mut Vec<u8>) {
        match self {
            Self::Status(text) => line(out, b'+', text.as_bytes()),
            Self::Integer(value) => number_line(out, b':', *value),
            Self::Bulk(bytes) => bulk(out, bytes),
            Self::Null => match protocol {
                Protocol::Resp2 => out.extend_from_slice(b"$-1\r\n"),
                Protocol::Resp3 => out.extend_from_slice(b"_\r\n"),
            },
            other => other.write_rare(protocol, out),
        }
    }

    fn write_rare(&self, protocol: Protocol, out: &mut Vec<u8>) {
        let resp3 = protocol == Protocol::Resp3;
        match self {
            Self::Error(error) => line(out, b'-', error.line()),
            Self::Shared(bytes) => bulk(out, bytes),
            Self::Digits(value) => bulk(out, itoa::Buffer::new().format(*value).as_bytes()),
            Self::StatusText(text) => line(out, b'+', text.as_bytes()),
            Self::NullArray if !resp3 => out.extend_from_slice(b"*-1\r\n"),
            Self::Array(items) => array(out, b'*', items, protocol),
            Self::Bulks(bulks) => bulks.write(out),
            Self::Set(items) => array(out, if resp3 { b'~' } else { b'*' }, items, protocol),
            Self::Push(items) => array(out, if resp3 { b'>' } else { b'*' }, items, protocol),
            Self::Map(pairs) => map(out, if resp3 { b'%' } else { b'*' }, pairs, protocol),
            Self::MapOrPairs(pairs) if resp3 => map(out, b'%', pairs, protocol),
            Self::MapOrPairs(pairs) => {
                number_line(out, b'*', pairs.len() as i64);
                for (key, value) in pairs {
                    number_line(out, b'*', 2);
                    key.write(protocol, out);
                    value.write(protocol, out);
                }
            }
            Self::Pairs(pairs) if resp3 => {
                number_line(out, b'*', pairs.len() as i64);
                for (one, other) in pairs {
                    if out.len() > LARGEST {
                        break;
                    }
                    out.extend_from_slice(b"*2\r\n");
                    one.write(protocol, out);
                    other.write(protocol, out);
                }
            }
            Self::Pairs(pairs) => map(out, b'*', pairs, protocol),
            Self::Double(value) => {
                let mut digits = Vec::with_capacity(24);
                write_double(&mut digits, *value);
                if resp3 { line(out, b',', &digits) } else { bulk(out, &digits) }
            }
            Self::ShortDouble(value) => {
                let mut digits = Vec::with_capacity(24);
                write_short_double(&mut digits, *value);
                if resp3 { line(out, b',', &digits) } else { bulk(out, &digits) }
            }
            Self::LongDouble(value) => {
                let digits = plain_decimal(*value);
                if resp3 { line(out, b',', digits.as_bytes()) } else { bulk(out, digits.as_bytes()) }
            }
            Self::Boolean(value) if resp3 => out.extend_from_slice(if *value { b"#t\r\n" } else { b"#f\r\n" }),
            Self::Boolean(value) => number_line(out, b':', i64::from(*value)),
            Self::Verbatim(format, bytes) if resp3 => {
                number_line(out, b'=', bytes.len() as i64 + 4);
                out.extend_from_slice(format.as_bytes());
                out.push(b':');
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
            Self::Verbatim(_, bytes) => bulk(out, bytes),
            Self::BigNumber(digits) if resp3 => line(out, b'(', digits.as_bytes()),
            Self::BigNumber(digits) => bulk(out, digits.as_bytes()),
            Self::Attributed(attributes, reply) => {
                if resp3 {
                    map(out, b'|', attributes, protocol);
                }
                reply.write(protocol, out);
            }
            Self::Several(replies) => {
                for reply in replies {
                    reply.write(protocol, out);
                }
            }
            Self::Encoded(bytes) => out.extend_from_slice(bytes),
            Self::Nothing => {}
            Self::NullArray | Self::Status(_) | Self::Integer(_) | Self::Bulk(_) | Self::Null => {
                out.extend_from_slice(b"_\r\n");
            }
        }
    }
}

impl From<CommandError> for Reply<'_> {
    fn from(error: CommandError) -> Self {
        Self::Error(error)
    }
}

fn line(out: &mut Vec<u8>, kind: u8, text: &[u8]) {
    out.reserve(text.len() + 3);
    out.push(kind);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

pub const LINE_END: &[u8] = b"\r\n";

/// The line in front of a bulk string; [`LINE_END`] comes behind it.
pub fn bulk_line(out: &mut Vec<u8>, length: usize) {
    number_line(out, b'$', length as i64);
}

fn number_line(out: &mut Vec<u8>, kind: u8, value: i64) {
    out.reserve(LONGEST_LINE);
    out.push(kind);
    write_integer(out, value);
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len() + 28);
    match bytes.len() {
        length @ 0..10 => out.extend_from_slice(&[b'$', b'0' + length as u8, b'\r', b'\n']),
        length @ 10..100 => {
            let (tens, ones) = (length as u8 / 10, length as u8 % 10);
            out.extend_from_slice(&[b'$', b'0' + tens, b'0' + ones, b'\r', b'\n']);
        }
        length => number_line(out, b'$', length as i64),
    }
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Nothing more is added to replies of so many bytes: their connection is closed, because no output limit is larger. One value
/// that is asked for again and again would fill the memory of the machine.
pub const LARGEST: usize = if cfg!(test) { 64 << 20 } else { 5 << 28 };

fn array(out: &mut Vec<u8>, kind: u8, items: &[Reply<'_>], protocol: Protocol) {
    number_line(out, kind, items.len() as i64);
    for item in items {
        if out.len() > LARGEST {
            break;
        }
        item.write(protocol, out);
    }
}

/// The line in front of so many pairs.
fn map_line(out: &mut Vec<u8>, kind: u8, pairs: usize) {
    number_line(out, kind, if kind == b'*' { pairs * 2 } else { pairs } as i64);
}

fn map(out: &mut Vec<u8>, kind: u8, pairs: &[(Reply<'_>, Reply<'_>)], protocol: Protocol) {
    map_line(out, kind, pairs.len());
    for (key, value) in pairs {
        if out.len() > LARGEST {
            break;
        }
        key.write(protocol, out);
        value.write(protocol, out);
    }
}

/// The first error in encoded replies, at any depth.
pub fn first_error(mut replies: &[u8]) -> Option<&[u8]> {
    // The elements of an aggregate follow its header, so the depth need not be tracked.
    while let Some((&kind, rest)) = replies.split_first() {
        let end = memchr::memchr(b'\r', rest)?;
        let (line, behind) = rest.split_at(end);
        replies = behind.get(2..)?;
        match kind {
            b'-' => return Some(line),
            b'$' | b'=' | b'!' => {
                let length = std::str::from_utf8(line).ok()?.parse::<i64>().ok()?;
                let Ok(length) = usize::try_from(length) else { continue };
                let (body, behind) = replies.split_at_checked(length)?;
                if kind == b'!' {
                    return Some(body);
                }
                replies = behind.get(2..)?;
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_found_wherever_it_stands_and_never_inside_a_text() {
        assert_eq!(first_error(b"-ERR no\r\n"), Some(&b"ERR no"[..]));
        assert_eq!(first_error(b"*3\r\n+OK\r\n$5\r\n-ER\r\n\r\n*1\r\n-WRONGTYPE x\r\n"), Some(&b"WRONGTYPE x"[..]));
        assert_eq!(first_error(b"*2\r\n$-1\r\n:-1\r\n$0\r\n\r\n*0\r\n$6\r\n-ERR x\r\n"), None);
        assert_eq!(first_error(b"!6\r\nERR no\r\n"), Some(&b"ERR no"[..]));
    }

    #[test]
    fn pairs_that_come_again_are_encoded_as_in_any_map() {
        let pair = |item: &i64| (Reply::text(format!("k{item}")), Reply::Set(vec![Reply::Integer(*item), Reply::Null]));
        for items in [&[][..], &[1], &[1, 2, 1, 1, 3, 2, 100]] {
            for protocol in [Protocol::Resp2, Protocol::Resp3] {
                let (mut one, mut other) = (Vec::new(), Vec::new());
                Reply::Map(items.iter().map(pair).collect()).write(protocol, &mut one);
                let named: Vec<_> = items.iter().map(|item| (*item, *item)).collect();
                Reply::encoded_map(protocol, &named, pair).write(protocol, &mut other);
                assert_eq!(one, other);
            }
        }
    }

    #[test]
    fn bulks_are_encoded_alike_however_many_were_expected() {
        for expected in [0, 1, 2, 3, 10, 100_000] {
            let mut bulks = Bulks::with_capacity(expected);
            bulks.add().bulk(b"a");
            bulks.add().digits(12);
            let mut pair = bulks.add();
            pair.array(2);
            pair.integer(-7);
            pair.array(0);
            let mut written = Vec::new();
            Reply::Bulks(bulks.clone()).write(Protocol::Resp2, &mut written);
            assert_eq!(written, b"*3\r\n$1\r\na\r\n$2\r\n12\r\n*2\r\n:-7\r\n*0\r\n");
            assert_eq!(bulks.into_encoded(), written);
        }
        assert_eq!(Bulks::default().into_encoded(), b"*0\r\n");
    }
}
