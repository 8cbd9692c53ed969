//! Entry ids in requests, and entries in replies.

use super::lists::{element_reply, write_element};
use crate::base::error::CommandError;
use crate::data::keyspace::{StreamEntry, StreamId};
use crate::protocol::{Bulks, Reply, parse_integer, until_nul};

pub(super) const BAD_ID: CommandError =
    CommandError::fixed("ERR Invalid stream ID specified as stream command argument");
const BAD_START: CommandError = CommandError::fixed("ERR invalid start ID for the interval");
const BAD_END: CommandError = CommandError::fixed("ERR invalid end ID for the interval");

/// No valid id is longer.
const MAX_LENGTH: usize = 128;

/// The id in an XADD.
#[derive(Clone, Copy)]
pub(super) enum RequestedId {
    Id(StreamId),
    /// `milliseconds-*`: the next sequence number is chosen.
    Time(u64),
}

/// Parses an id. `missing` is the sequence number of an id without one.
pub(super) fn parse(word: &[u8], missing: u64) -> Result<StreamId, CommandError> {
    match parse_requested(word, missing)? {
        RequestedId::Id(id) => Ok(id),
        RequestedId::Time(_) => Err(BAD_ID),
    }
}

/// Like [`parse`], but also accepts `milliseconds-*`.
pub(super) fn parse_requested(word: &[u8], missing: u64) -> Result<RequestedId, CommandError> {
    if word.len() >= MAX_LENGTH {
        return Err(BAD_ID);
    }
    let word = until_nul(word);
    let (ms, seq) = match word.iter().position(|&byte| byte == b'-') {
        Some(dash) => (&word[..dash], Some(&word[dash + 1..])),
        None => (word, None),
    };
    let ms = unsigned(ms).ok_or(BAD_ID)?;
    Ok(match seq {
        None => RequestedId::Id(StreamId { ms, seq: missing }),
        Some(b"*") => RequestedId::Time(ms),
        Some(seq) => RequestedId::Id(StreamId { ms, seq: unsigned(seq).ok_or(BAD_ID)? }),
    })
}

/// Like [`parse`], but also accepts `-` and `+`.
pub(super) fn parse_bound(word: &[u8], missing: u64) -> Result<StreamId, CommandError> {
    match word {
        b"-" => Ok(StreamId::LEAST),
        b"+" => Ok(StreamId::GREATEST),
        word => parse(word, missing),
    }
}

/// Parses the start of a range. `(` makes it exclusive.
pub(super) fn parse_range_start(word: &[u8]) -> Result<StreamId, CommandError> {
    match word {
        [b'(', id @ ..] if !id.is_empty() => parse(id, 0)?.next().ok_or(BAD_START),
        id => parse_bound(id, 0),
    }
}

/// Parses the end of a range. `(` makes it exclusive.
pub(super) fn parse_range_end(word: &[u8]) -> Result<StreamId, CommandError> {
    match word {
        [b'(', id @ ..] if !id.is_empty() => parse(id, u64::MAX)?.previous().ok_or(BAD_END),
        id => parse_bound(id, u64::MAX),
    }
}

/// Parses a number as Redis does: strictly first, then like C's `strtoull`.
fn unsigned(text: &[u8]) -> Option<u64> {
    if let Some(value) = parse_integer(text) {
        return u64::try_from(value).ok();
    }
    let blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let start = text.iter().position(|byte| !blank(byte))?;
    let (negative, digits) = match &text[start..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let value = digits.iter().try_fold(0u64, |value, digit| {
        let digit = char::from(*digit).to_digit(10)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })?;
    Some(if negative { value.wrapping_neg() } else { value })
}

pub(super) fn id_reply(id: StreamId) -> Reply<'static> {
    Reply::bulk(id.to_text())
}

pub(super) fn entry_reply(entry: StreamEntry<'_>) -> Reply<'_> {
    let mut words = Vec::with_capacity(entry.fields.len().min(1 << 16) * 2);
    for (name, value) in entry.fields {
        words.extend([element_reply(name), element_reply(value)]);
    }
    Reply::Array(vec![id_reply(entry.id), Reply::Array(words)])
}

/// At most `count` entries.
pub(super) fn entries_reply<'v>(entries: impl Iterator<Item = StreamEntry<'v>>, count: Option<u64>) -> Reply<'v> {
    let count = count.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
    let mut written = Bulks::default();
    for StreamEntry { id, fields } in entries.take(count) {
        let mut entry = written.add();
        entry.array(2);
        entry.bulk(&id.to_text());
        entry.array(fields.len() * 2);
        for (name, value) in fields {
            write_element(&mut entry, name);
            write_element(&mut entry, value);
        }
    }
    Reply::Bulks(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_leniently_as_redis_reads_them() {
        let id = |ms, seq| Some(StreamId { ms, seq });
        for (word, expected) in [
            ("5", id(5, 9)),
            ("5-3", id(5, 3)),
            (" +05-\t03", id(5, 3)),
            ("1--05", id(1, 5u64.wrapping_neg())),
            ("1--5", None),
            ("18446744073709551615-18446744073709551615", Some(StreamId::GREATEST)),
            ("18446744073709551616-1", None),
            ("", None),
            ("-", None),
            ("+", None),
            ("5-", None),
            ("5-*", None),
            ("-5", None),
            ("5 -1", None),
        ] {
            assert_eq!(parse(word.as_bytes(), 9).ok(), expected, "{word:?}");
        }
        assert!(matches!(parse_requested(b"7-*", 0), Ok(RequestedId::Time(7))));
        assert_eq!(parse_range_start(b"(5-18446744073709551615").ok(), id(6, 0));
        assert_eq!(parse_range_end(b"(5").ok(), id(5, u64::MAX - 1));
        assert_eq!(parse_range_end(b"(0-0"), Err(BAD_END));
        assert_eq!(parse_range_start(b"(-"), Err(BAD_ID));
    }
}
