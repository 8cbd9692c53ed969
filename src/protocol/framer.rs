//! The incremental request framer.
//!
//! It works on the read buffer in place: a request is a list of spans into that buffer, and nothing is copied. No byte
//! of a partial request is parsed twice. A length line alone allocates nothing: only bytes that arrived take memory.

use super::inline::{self, Dialect};
use super::number::parse_integer;
use super::words::{Span, Words};
use crate::base::error::CommandError;

/// Redis's limit for an inline request and for one length line (`PROTO_INLINE_MAX_SIZE`).
const LINE_LIMIT: usize = 64 * 1024;
/// Limits of a request before the client has authenticated: the number of words, and the bytes of a word.
const UNAUTHENTICATED_WORDS: i64 = 10;
const UNAUTHENTICATED_BULK: i64 = 16 * 1024;
/// For a word of this size, Redis reserves memory before it has arrived (`PROTO_MBULK_BIG_ARG`).
const BIG_WORD: usize = 32 * 1024;
/// A longer list of spans is freed after its request, so that one request does not hold memory for ever.
const SPANS_KEPT: usize = 1024;

/// The limits of requests.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// `proto-max-bulk-len`.
    pub bulk: i64,
    /// Without authentication, only short requests are allowed.
    pub authenticated: bool,
}

/// A protocol error. The client gets the error, then its connection closes.
#[derive(Debug, PartialEq, Eq)]
pub enum ProtocolError {
    BigInline,
    UnbalancedQuotes,
    BigCountLine,
    InvalidCount,
    UnauthenticatedCount,
    BigLengthLine,
    NotABulk(u8),
    InvalidLength,
    UnauthenticatedLength,
    NoLineEnd,
}

impl ProtocolError {
    pub fn to_command_error(&self) -> CommandError {
        CommandError::fixed(match self {
            Self::BigInline => "ERR Protocol error: too big inline request",
            Self::UnbalancedQuotes => "ERR Protocol error: unbalanced quotes in request",
            Self::BigCountLine => "ERR Protocol error: too big mbulk count string",
            Self::InvalidCount => "ERR Protocol error: invalid multibulk length",
            Self::UnauthenticatedCount => "ERR Protocol error: unauthenticated multibulk length",
            Self::BigLengthLine => "ERR Protocol error: too big bulk count string",
            Self::InvalidLength => "ERR Protocol error: invalid bulk length",
            Self::UnauthenticatedLength => "ERR Protocol error: unauthenticated bulk length",
            Self::NoLineEnd => "ERR Protocol error: invalid CRLF in request",
            Self::NotABulk(found) => {
                let mut text = b"ERR Protocol error: expected '$', got '".to_vec();
                text.extend([*found, b'\'']);
                return CommandError::new(text);
            }
        })
    }
}

/// Fast path for the usual count or length line: a few digits followed by the line end. Anything else goes to the slow
/// path.
#[inline]
fn short_number(input: &[u8], at: usize) -> Option<(i64, usize)> {
    let rest = input.get(at..)?;
    let mut value = 0;
    for (index, &byte) in rest.iter().take(6).enumerate() {
        match byte {
            b'0'..=b'9' => value = value * 10 + i64::from(byte - b'0'),
            b'\r' if index > 0 && rest.len() > index + 1 && (rest[0] != b'0' || index == 1) => {
                return Some((value, at + index + 2));
            }
            _ => return None,
        }
    }
    None
}

#[derive(Clone, Copy)]
enum Expect {
    Start,
    Inline,
    Count,
    Length { left: usize },
    Body { left: usize, length: usize },
}

/// A complete request: its extent in the buffer, and its words among the framer's spans.
#[derive(Clone, Copy, Debug)]
pub struct Framed {
    first: usize,
    count: usize,
    length: usize,
    inline: bool,
}

impl Framed {
    /// The bytes of the buffer that the request takes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Whether the request has no words (`*0`, an empty line).
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// How far a partial request has arrived, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// What has arrived behind its last complete word or line.
    pub unframed: usize,
    /// Its complete words.
    pub words: usize,
    /// What is still missing of a big word. Redis reserves memory for it.
    pub announced: usize,
}

/// Frames requests in a buffer that grows at its end.
pub struct Framer {
    expect: Expect,
    /// The offset of the next piece in the request.
    at: usize,
    /// How far the line at `at` has been searched for its end.
    searched: usize,
    /// The words of every request since the last [`Framer::forget`].
    spans: Vec<Span>,
    /// The index in `spans` of the partial request's first word.
    first: usize,
    /// How many of its words were summed, and how many bytes they have.
    summed: (usize, usize),
    /// The words of inline requests without quotes and escapes.
    unquoted: Vec<u8>,
    inline: bool,
    dialect: Dialect,
}

impl Default for Framer {
    fn default() -> Self {
        Self::new(Dialect::default())
    }
}

impl Framer {
    /// A framer that reads requests by these rules.
    pub fn new(dialect: Dialect) -> Self {
        Self {
            expect: Expect::Start,
            at: 0,
            searched: 0,
            spans: Vec::new(),
            first: 0,
            summed: (0, 0),
            unquoted: Vec::new(),
            inline: false,
            dialect,
        }
    }

    /// The first words of a complete request that has more of them, and how many it has; `None` if it has no more.
    pub fn head(request: &[u8], most: usize) -> Option<(Self, Framed, usize)> {
        let rest = request.strip_prefix(b"*")?;
        let line = &rest[..memchr::memchr(b'\r', rest)?];
        let all = usize::try_from(parse_integer(line)?).ok().filter(|all| *all > most)?;
        let mut framer = Self::default();
        framer.advance(1 + line.len() + 2);
        framer.expect = Expect::Length { left: most };
        let framed = framer.next(request, Limits { bulk: i64::MAX, authenticated: true }).ok()??;
        Some((framer, framed, all))
    }

    /// Continues to frame the request at the start of `input`. Returns the request once it is complete; `None` asks for
    /// more bytes behind the same ones. A request without words (`*0`, an empty line) is complete, too.
    #[inline]
    pub fn next(&mut self, input: &[u8], limits: Limits) -> Result<Option<Framed>, ProtocolError> {
        loop {
            match self.expect {
                Expect::Start => {
                    let Some(&first) = input.first() else { return Ok(None) };
                    self.begin();
                    self.inline = first != b'*';
                    self.expect = if self.inline { Expect::Inline } else { Expect::Count };
                }
                Expect::Inline => return self.inline_request(input),
                Expect::Count => {
                    if let Some((count @ 1..=UNAUTHENTICATED_WORDS, next)) = short_number(input, self.at + 1) {
                        self.advance(next);
                        self.check_line_end(input)?;
                        self.expect = Expect::Length { left: count as usize };
                        continue;
                    }
                    let Some(line) = self.line(input, ProtocolError::BigCountLine)? else { return Ok(None) };
                    self.check_line_end(input)?;
                    let count = parse_integer(&line[1..])
                        .filter(|&count| count <= i64::from(i32::MAX))
                        .ok_or(ProtocolError::InvalidCount)?;
                    if count > UNAUTHENTICATED_WORDS && !limits.authenticated {
                        return Err(ProtocolError::UnauthenticatedCount);
                    }
                    if count <= 0 {
                        return Ok(Some(self.finish()));
                    }
                    self.expect = Expect::Length { left: count as usize };
                }
                Expect::Length { left } => {
                    if input.get(self.at) == Some(&b'$')
                        && let Some((length, next)) = short_number(input, self.at + 1)
                        && length <= UNAUTHENTICATED_BULK.min(limits.bulk)
                    {
                        self.advance(next);
                        self.check_line_end(input)?;
                        self.expect = Expect::Body { left, length: length as usize };
                        continue;
                    }
                    let Some(line) = self.line(input, ProtocolError::BigLengthLine)? else { return Ok(None) };
                    let [b'$', digits @ ..] = line else {
                        // Redis's error shows the byte at the start of the line, which for an empty line is its line
                        // end.
                        return Err(ProtocolError::NotABulk(*line.first().unwrap_or(&b'\r')));
                    };
                    self.check_line_end(input)?;
                    let length = parse_integer(digits)
                        .filter(|length| (0..=limits.bulk).contains(length))
                        .ok_or(ProtocolError::InvalidLength)?;
                    if length > UNAUTHENTICATED_BULK && !limits.authenticated {
                        return Err(ProtocolError::UnauthenticatedLength);
                    }
                    self.expect = Expect::Body { left, length: length as usize };
                }
                Expect::Body { left, length } => {
                    let end = self.at + length;
                    if input.len() < end + 2 {
                        return Ok(None);
                    }
                    self.spans.push(Span { start: self.at, end });
                    self.advance(end + 2);
                    if input[end] != b'\r' {
                        self.refuse_line_end()?;
                    }
                    self.check_line_end(input)?;
                    if left == 1 {
                        return Ok(Some(self.finish()));
                    }
                    self.expect = Expect::Length { left: left - 1 };
                }
            }
        }
    }

    /// The words of a request that was framed at the start of `input`, until [`forget`](Self::forget).
    #[inline]
    pub fn words<'a>(&'a self, request: Framed, input: &'a [u8]) -> Words<'a> {
        let spans = &self.spans[request.first..request.first + request.count];
        Words::new(if request.inline { &self.unquoted } else { input }, spans)
    }

    /// Forgets the complete requests, but not the state of a partial one.
    pub fn forget(&mut self) {
        if self.is_partial() {
            self.spans.drain(..self.first);
        } else if self.spans.capacity() > SPANS_KEPT {
            self.spans = Vec::new();
        } else {
            self.spans.clear();
        }
        self.first = 0;
        if self.unquoted.capacity() > SPANS_KEPT {
            self.unquoted = Vec::new();
        }
        self.unquoted.clear();
    }

    /// Forgets everything: the next call frames a new request.
    pub fn reset(&mut self) {
        self.expect = Expect::Start;
        self.forget();
    }

    /// The least number of bytes, from the start of the request, that the complete request needs.
    pub fn needed(&self) -> usize {
        match self.expect {
            Expect::Body { length, .. } => self.at + length + 2,
            _ => 0,
        }
    }

    /// What is known of a partial request of which so many bytes have arrived.
    pub fn progress(&mut self, arrived: usize) -> Progress {
        if !self.is_partial() {
            return Progress { unframed: arrived, ..Progress::default() };
        }
        // Asked at each read, so only what has come since the last one is summed.
        let (words, bytes) = self.summed;
        let more: usize = self.spans[self.first + words..].iter().map(|span| span.end - span.start).sum();
        self.summed = (self.spans.len() - self.first, bytes + more);
        Progress { unframed: arrived.saturating_sub(self.at), words: self.summed.1, announced: self.announced(arrived) }
    }

    /// How many bytes are missing of a big word in a partial request of which so many bytes have arrived; 0 if the word that
    /// arrives is not big.
    #[inline]
    pub fn announced(&self, arrived: usize) -> usize {
        match self.expect {
            Expect::Body { length, .. } if length >= BIG_WORD => self.needed().saturating_sub(arrived),
            _ => 0,
        }
    }

    /// Whether a request has begun and is incomplete.
    pub fn is_partial(&self) -> bool {
        !matches!(self.expect, Expect::Start)
    }

    fn begin(&mut self) {
        self.at = 0;
        self.searched = 0;
        self.first = self.spans.len();
        self.summed = (0, 0);
    }

    /// Sets the next piece's offset.
    #[inline]
    fn advance(&mut self, at: usize) {
        self.at = at;
        self.searched = at;
    }

    /// Checks the last byte of the line that ends before the next piece.
    #[inline]
    fn check_line_end(&self, input: &[u8]) -> Result<(), ProtocolError> {
        if input[self.at - 1] == b'\n' { Ok(()) } else { self.refuse_line_end() }
    }

    /// Redis takes any two bytes for the end of a line of which it knows where it ends.
    #[cold]
    fn refuse_line_end(&self) -> Result<(), ProtocolError> {
        if self.dialect == Dialect::Valkey { Err(ProtocolError::NoLineEnd) } else { Ok(()) }
    }

    fn finish(&mut self) -> Framed {
        self.expect = Expect::Start;
        Framed { first: self.first, count: self.spans.len() - self.first, length: self.at, inline: self.inline }
    }

    /// The line at `at`, without its two bytes of line end, once they have arrived. Redis searches with C's `strchr`,
    /// so a NUL hides a line end behind it.
    fn line<'a>(&mut self, input: &'a [u8], too_long: ProtocolError) -> Result<Option<&'a [u8]>, ProtocolError> {
        let from = self.searched.max(self.at);
        match memchr::memchr2(b'\r', 0, &input[from..]) {
            Some(found) if input[from + found] == b'\r' => {
                let end = from + found;
                self.searched = end;
                if input.len() < end + 2 {
                    return Ok(None);
                }
                let line = &input[self.at..end];
                self.advance(end + 2);
                Ok(Some(line))
            }
            hidden => {
                self.searched = hidden.map_or(input.len(), |found| from + found);
                if input.len() - self.at > LINE_LIMIT { Err(too_long) } else { Ok(None) }
            }
        }
    }

    fn inline_request(&mut self, input: &[u8]) -> Result<Option<Framed>, ProtocolError> {
        match memchr::memchr2(b'\n', 0, &input[self.searched..]) {
            Some(found) if input[self.searched + found] == b'\n' => {
                let end = self.searched + found;
                let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
                inline::split(line, self.dialect, &mut self.unquoted, &mut self.spans)
                    .ok_or(ProtocolError::UnbalancedQuotes)?;
                self.at = end + 1;
                Ok(Some(self.finish()))
            }
            hidden => {
                self.searched = hidden.map_or(input.len(), |found| self.searched + found);
                if input.len() > LINE_LIMIT { Err(ProtocolError::BigInline) } else { Ok(None) }
            }
        }
    }
}

#[cfg(test)]
mod tests;
