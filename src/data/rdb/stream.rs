//! Streams.

use std::borrow::Cow;

use super::reader::Reader;
use super::{Bytes, Content, STREAM_FIRST, STREAM_WITH_ACTIVITY, STREAM_WITH_COUNTERS, write_length, write_string};
use crate::base::clock::Millis;
use crate::base::profile::Profile;

/// The id of an entry: milliseconds in the upper half, the sequence number in the lower half.
pub type Id = u128;

/// Redis's value for an unknown number of entries and for a time that never was.
const UNKNOWN: i64 = -1;

/// A stream as it is serialized.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream<'a> {
    /// Listpacks, each with its node's id.
    pub nodes: Vec<(Id, Bytes<'a>)>,
    pub len: u64,
    pub last: Id,
    /// Absent in formats before Redis 7.0.
    pub counters: Option<Counters>,
    pub groups: Vec<Group<'a>>,
}

/// Counters that include deleted entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    pub first: Id,
    pub max_deleted: Id,
    pub added: u64,
}

/// A consumer group.
#[derive(Clone, Debug, PartialEq)]
pub struct Group<'a> {
    pub name: Bytes<'a>,
    pub last: Id,
    /// The number of entries read, if it is known and was written.
    pub read: Option<i64>,
    pub pending: Vec<Delivery>,
    pub consumers: Vec<Consumer<'a>>,
}

/// A pending entry: the time and the number of its deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub id: Id,
    pub time: Millis,
    pub count: u64,
}

/// A consumer of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Consumer<'a> {
    pub name: Bytes<'a>,
    pub seen: Millis,
    /// The time of its last delivery, if there was one.
    pub active: Option<Millis>,
    /// Its pending entries.
    pub pending: Vec<Id>,
}

pub fn write(out: &mut Vec<u8>, stream: &Stream<'_>, profile: &Profile) {
    let active = profile.since_redis(7, 2);
    let counters = stream.counters.filter(|_| profile.since_redis(7, 0));
    out.push(match counters {
        Some(_) if active => STREAM_WITH_ACTIVITY,
        Some(_) => STREAM_WITH_COUNTERS,
        None => STREAM_FIRST,
    });
    write_length(out, stream.nodes.len());
    for (id, node) in &stream.nodes {
        write_string(out, &id.to_be_bytes());
        write_string(out, node);
    }
    write_number(out, stream.len);
    write_id(out, stream.last);
    if let Some(Counters { first, max_deleted, added }) = counters {
        write_id(out, first);
        write_id(out, max_deleted);
        write_number(out, added);
    }
    write_length(out, stream.groups.len());
    for group in &stream.groups {
        write_string(out, &group.name);
        write_id(out, group.last);
        if counters.is_some() {
            write_number(out, group.read.unwrap_or(UNKNOWN) as u64);
        }
        write_length(out, group.pending.len());
        for delivery in &group.pending {
            out.extend_from_slice(&delivery.id.to_be_bytes());
            out.extend_from_slice(&delivery.time.to_le_bytes());
            write_number(out, delivery.count);
        }
        write_length(out, group.consumers.len());
        for consumer in &group.consumers {
            write_string(out, &consumer.name);
            out.extend_from_slice(&consumer.seen.to_le_bytes());
            if counters.is_some() && active {
                out.extend_from_slice(&consumer.active.unwrap_or(UNKNOWN).to_le_bytes());
            }
            write_length(out, consumer.pending.len());
            consumer.pending.iter().for_each(|id| out.extend_from_slice(&id.to_be_bytes()));
        }
    }
}

/// Writes a number in the encoding of lengths.
fn write_number(out: &mut Vec<u8>, number: u64) {
    write_length(out, usize::try_from(number).unwrap_or(usize::MAX));
}

fn write_id(out: &mut Vec<u8>, id: Id) {
    write_number(out, (id >> 64) as u64);
    write_number(out, id as u64);
}

/// Reads a stream: `counted` and `active` say whether the format has counters and the times of the last deliveries.
pub fn read(reader: &mut Reader<'_>, counted: bool, active: bool) -> Option<Content<'static>> {
    let nodes = reader.several(|reader| {
        let id = Id::from_be_bytes(reader.string()?.try_into().ok()?);
        Some((id, Cow::Owned(reader.string()?)))
    })?;
    let len = read_number(reader)?;
    let last = read_id(reader)?;
    let counters = if counted {
        Some(Counters { first: read_id(reader)?, max_deleted: read_id(reader)?, added: read_number(reader)? })
    } else {
        None
    };
    let groups = reader.several(|reader| read_group(reader, counted, active))?;
    Some(Content::Stream(Stream { nodes, len, last, counters, groups }))
}

fn read_group(reader: &mut Reader<'_>, counted: bool, active: bool) -> Option<Group<'static>> {
    let (name, last) = (Cow::Owned(reader.string()?), read_id(reader)?);
    let read = if counted { Some(read_number(reader)? as i64).filter(|read| *read != UNKNOWN) } else { None };
    let pending = reader.several(|reader| {
        Some(Delivery { id: reader.id()?, time: reader.integer_64()?, count: read_number(reader)? })
    })?;
    let consumers = reader.several(|reader| {
        let (name, seen) = (Cow::Owned(reader.string()?), reader.integer_64()?);
        // Formats without the time of the last delivery: Redis takes the time at which the consumer was last seen.
        let active = if active { Some(reader.integer_64()?).filter(|time| *time != UNKNOWN) } else { Some(seen) };
        Some(Consumer { name, seen, active, pending: reader.several(Reader::id)? })
    })?;
    Some(Group { name, last, read, pending, consumers })
}

fn read_number(reader: &mut Reader<'_>) -> Option<u64> {
    u64::try_from(reader.length()?).ok()
}

fn read_id(reader: &mut Reader<'_>) -> Option<Id> {
    Some(Id::from(read_number(reader)?) << 64 | Id::from(read_number(reader)?))
}
