//! Redis's serialized values, in the format of DUMP and RESTORE: a type byte, the value, and a footer with the format
//! version and a checksum. Each value type has a module, which covers every encoding that it ever had.

mod hash;
mod libraries;
mod list;
mod lzf;
mod reader;
mod set;
mod snapshot;
mod sorted_set;
mod stream;
#[cfg(test)]
mod tests;
mod write;
mod ziplist;
mod zipmap;

use std::borrow::Cow;

use crc::{CRC_64_REDIS, Crc, Table};

use crate::base::profile::{Family, Profile, Since, Version};
use libraries::LIBRARY;
use reader::Reader;
use write::{write_length, write_string};

pub use hash::Field;
pub use libraries::{LibraryError, dump_libraries, load_libraries};
pub use list::Node;
pub use snapshot::{Key, KeyWriter, SnapshotError, SnapshotItem, SnapshotReader, SnapshotWriter, is_snapshot, suits};
pub use stream::{Consumer, Counters, Delivery, Group, Id, Stream};

/// With tables of 32 KB, for 16 bytes in a step: byte by byte the checksum takes as long as all else about a payload.
const CHECKSUM: &Crc<u64, Table<16>> = &Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// Two bytes of format version and eight of checksum.
const FOOTER: usize = 10;

/// Type bytes.
const STRING: u8 = 0;
const LIST: u8 = 1;
const SET: u8 = 2;
const SORTED_SET_TEXT: u8 = 3;
const HASH: u8 = 4;
const SORTED_SET: u8 = 5;
const HASH_ZIPMAP: u8 = 9;
const LIST_ZIPLIST: u8 = 10;
const SET_INTEGERS: u8 = 11;
const SORTED_SET_ZIPLIST: u8 = 12;
const HASH_ZIPLIST: u8 = 13;
const LIST_ZIPLISTS: u8 = 14;
/// Streams: the first format; then with the counters of deleted entries; then with the time of each consumer's last
/// delivery.
const STREAM_FIRST: u8 = 15;
const HASH_LISTPACK: u8 = 16;
const SORTED_SET_LISTPACK: u8 = 17;
const LIST_NODES: u8 = 18;
const STREAM_WITH_COUNTERS: u8 = 19;
const SET_LISTPACK: u8 = 20;
const STREAM_WITH_ACTIVITY: u8 = 21;
/// Written by Valkey only.
const HASH_FIELDS_UNTIL: u8 = 22;
const HASH_TIMES: u8 = 24;
const HASH_LISTPACK_TIMES: u8 = 25;

/// The two highest bits of a length's first byte select its form.
const LENGTH_14: u8 = 0x40;
const LENGTH_32: u8 = 0x80;
const LENGTH_64: u8 = 0x81;
const SPECIAL: u8 = 0xc0;

/// The special encodings of strings, in place of a length.
const INT_8: u8 = SPECIAL;
const INT_16: u8 = SPECIAL | 1;
const INT_32: u8 = SPECIAL | 2;
const COMPRESSED: u8 = SPECIAL | 3;

/// The first format version of Valkey's own, and the last one shared with Redis.
const VALKEY_FORMAT: u16 = 80;
const SHARED_FORMAT: u16 = 11;

/// The Redis release that added the expiry of hash fields.
const TIMES: Since = Since::redis(7, 4, 0);

/// Why RESTORE rejects a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadError {
    /// The footer is missing, has an unsupported version, or has the wrong checksum.
    Footer,
    /// The footer is right, but the value cannot be read.
    Content,
}

/// Whether the checksum of a payload must be right (DEBUG SET-SKIP-CHECKSUM-VALIDATION).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksums {
    Verified,
    Ignored,
}

/// The format version that a server writes.
fn format_of(profile: &Profile) -> u16 {
    match profile.family() {
        Family::Valkey if profile.has(Since::valkey(9, 0, 0)) => VALKEY_FORMAT,
        Family::Valkey => SHARED_FORMAT,
        Family::Redis => match profile.version() {
            version if version >= Version(7, 4, 0) => 12,
            version if version >= Version(7, 2, 0) => SHARED_FORMAT,
            version if version >= Version(7, 0, 0) => 10,
            _ => 9,
        },
    }
}

/// Whether a server reads a format version.
fn reads(profile: &Profile, format: u16) -> bool {
    match format_of(profile) {
        VALKEY_FORMAT => format == VALKEY_FORMAT || (1..=SHARED_FORMAT).contains(&format),
        own => format <= own,
    }
}

/// A value in one of its serialized forms. Packed forms are one string.
#[derive(Clone, Debug, PartialEq)]
pub enum Content<'a> {
    String(Bytes<'a>),
    /// A set of integers in ascending order, with the given width in bytes.
    Integers {
        width: u8,
        values: Cow<'a, [i64]>,
    },
    Set {
        members: Vec<Bytes<'a>>,
        packed: bool,
    },
    /// A list, node by node.
    List(Vec<Node<'a>>),
    /// A list in a format without nodes.
    Elements(Vec<Bytes<'a>>),
    /// A hash; `timed` selects the format with expiry times of fields.
    Hash {
        fields: Vec<Field<'a>>,
        packed: bool,
        timed: bool,
    },
    /// Members with their scores, in order.
    SortedSet {
        rows: Vec<(Bytes<'a>, f64)>,
        packed: bool,
    },
    Stream(Stream<'a>),
}

pub type Bytes<'a> = Cow<'a, [u8]>;

/// Serializes a value, with type and footer.
pub fn dump(content: &Content<'_>, profile: &Profile) -> Vec<u8> {
    let mut out = Vec::new();
    write_content(&mut out, content, profile);
    sign(&mut out, profile);
    out
}

/// Writes the type and the value.
fn write_content(out: &mut Vec<u8>, content: &Content<'_>, profile: &Profile) {
    match content {
        Content::String(value) => {
            out.reserve(value.len() + FOOTER + 10);
            out.push(STRING);
            write_string(out, value);
        }
        Content::Integers { width, values } => set::write_integers(out, *width, values),
        Content::Set { members, packed } => set::write(out, members, *packed),
        Content::List(nodes) => list::write(out, nodes, profile),
        Content::Elements(elements) => list::write_elements(out, elements),
        Content::Hash { fields, packed, timed } => hash::write(out, fields, *packed, *timed, profile),
        Content::SortedSet { rows, packed } => sorted_set::write(out, rows, *packed, profile),
        Content::Stream(stream) => stream::write(out, stream, profile),
    }
}

/// Appends the footer.
fn sign(out: &mut Vec<u8>, profile: &Profile) {
    out.extend_from_slice(&format_of(profile).to_le_bytes());
    let checksum = CHECKSUM.checksum(out);
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// Appends the right footer to a payload.
#[cfg(test)]
pub fn with_footer(mut body: Vec<u8>, profile: &Profile) -> Vec<u8> {
    sign(&mut body, profile);
    body
}

/// Whether the footer of a payload is right.
fn check(payload: &[u8], profile: &Profile, checksums: Checksums) -> Result<(), PayloadError> {
    let (signed, checksum) = payload.split_last_chunk::<8>().ok_or(PayloadError::Footer)?;
    let (_, format) = signed.split_last_chunk::<2>().ok_or(PayloadError::Footer)?;
    let is_right = || checksums == Checksums::Ignored || CHECKSUM.checksum(signed) == u64::from_le_bytes(*checksum);
    if !reads(profile, u16::from_le_bytes(*format)) || !is_right() {
        return Err(PayloadError::Footer);
    }
    Ok(())
}

/// Reads the value of a payload.
pub fn load(payload: &[u8], profile: &Profile, checksums: Checksums) -> Result<Content<'static>, PayloadError> {
    check(payload, profile, checksums)?;
    // Redis ignores what stands between the value and the footer, and lets a value reach into the footer.
    let mut reader = Reader::new(payload);
    read_content(&mut reader, profile).ok_or(PayloadError::Content)
}

fn read_content(reader: &mut Reader<'_>, profile: &Profile) -> Option<Content<'static>> {
    let kind = reader.byte()?;
    read_value(kind, reader, profile)
}

/// Reads a value of a known type.
fn read_value(kind: u8, reader: &mut Reader<'_>, profile: &Profile) -> Option<Content<'static>> {
    match kind {
        STRING => reader.string().map(|value| Content::String(Cow::Owned(value))),
        LIST => list::read_elements(reader),
        LIST_ZIPLIST => list::read_ziplist(reader),
        LIST_ZIPLISTS => list::read_ziplists(reader),
        LIST_NODES if profile.since_redis(7, 0) => list::read_nodes(reader),
        SET => set::read(reader),
        SET_INTEGERS => set::read_integers(reader),
        SET_LISTPACK if profile.since_redis(7, 2) => set::read_listpack(reader),
        HASH => hash::read(reader),
        HASH_ZIPMAP => hash::read_zipmap(reader),
        HASH_ZIPLIST => hash::read_ziplist(reader),
        HASH_LISTPACK if profile.since_redis(7, 0) => hash::read_listpack(reader),
        HASH_FIELDS_UNTIL if profile.has(Since::valkey(9, 0, 0)) => hash::read_until(reader),
        HASH_TIMES if profile.has(TIMES) => hash::read_times(reader),
        HASH_LISTPACK_TIMES if profile.has(TIMES) => hash::read_listpack_times(reader),
        SORTED_SET => sorted_set::read(reader, Reader::double),
        SORTED_SET_TEXT => sorted_set::read(reader, Reader::double_in_words),
        SORTED_SET_ZIPLIST => sorted_set::read_ziplist(reader),
        SORTED_SET_LISTPACK if profile.since_redis(7, 0) => sorted_set::read_listpack(reader),
        STREAM_FIRST => stream::read(reader, false, false),
        STREAM_WITH_COUNTERS if profile.since_redis(7, 0) => stream::read(reader, true, false),
        STREAM_WITH_ACTIVITY if profile.since_redis(7, 2) => stream::read(reader, true, true),
        _ => None,
    }
}
