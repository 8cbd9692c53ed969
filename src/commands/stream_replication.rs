//! What replicas get of commands on streams: ids, times and counts as they came out here.

use crate::data::keyspace::{Group, StreamId, View};
use crate::protocol::Words;

/// A pending entry as replicas get it.
pub(super) struct Delivered {
    id: StreamId,
    consumer: Vec<u8>,
    time: i64,
    count: u64,
    /// The group's last delivered id at that time.
    last: StreamId,
}

impl Delivered {
    /// A pending entry of a group as it is now.
    pub fn of(group: &Group, id: StreamId) -> Option<Self> {
        let pending = group.pending().get(&id)?;
        let consumer = pending.consumer.to_vec();
        Some(Self { id, consumer, time: pending.time, count: pending.count, last: group.last() })
    }

    pub fn replicate(&self, view: &mut View<'_>, key: &[u8], group: &[u8]) {
        let Self { id, consumer, time, count, last } = self;
        let (id, time, count, last) = (id.to_text(), time.to_string(), count.to_string(), last.to_text());
        let (time, count) = (time.as_bytes(), count.as_bytes());
        view.replicate_as(&[
            b"XCLAIM",
            key,
            group,
            consumer,
            b"0",
            &id,
            b"TIME",
            time,
            b"RETRYCOUNT",
            count,
            b"FORCE",
            b"JUSTID",
            b"LASTID",
            &last,
        ]);
    }
}

/// Where a group has got to.
pub(super) struct Position {
    pub last: StreamId,
    pub read: i64,
}

impl Position {
    pub fn replicate(&self, view: &mut View<'_>, key: &[u8], group: &[u8]) {
        let (last, read) = (self.last.to_text(), self.read.to_string());
        view.replicate_as(&[b"XGROUP", b"SETID", key, group, &last, b"ENTRIESREAD", read.as_bytes()]);
    }
}

/// The words of XADD or XTRIM with the id that was given, and with what was trimmed roughly as an exact threshold.
pub(super) fn replicate_with(
    view: &mut View<'_>,
    words: Words<'_>,
    id: Option<(usize, StreamId)>,
    threshold: Option<Vec<u8>>,
) {
    let mut words: Vec<&[u8]> = words.iter().collect();
    let text = id.map(|(at, id)| (at, id.to_text()));
    if let Some((at, text)) = &text
        && let Some(word) = words.get_mut(*at)
    {
        *word = text;
    }
    let strategy = |word: &[u8]| word.eq_ignore_ascii_case(b"MAXLEN") || word.eq_ignore_ascii_case(b"MINID");
    let end = id.map_or(words.len(), |(at, _)| at);
    if let Some(threshold) = &threshold
        && let Some(at) = words.iter().take(end).skip(2).position(|word| strategy(word))
        && let Some([sign, value]) = words.get_mut(at + 3..at + 5)
    {
        (*sign, *value) = (b"=", threshold);
    }
    view.replicate_as(&words);
}
