//! Snapshots (RDB files): function libraries, then databases with their keys. An opcode precedes each item, and a
//! checksum follows the last one.

use super::reader::Reader;
use super::{CHECKSUM, Content, VALKEY_FORMAT, format_of, read_value, write_content, write_length, write_string};
use super::{HASH, LIBRARY, STRING, TIMES};
use crate::base::clock::Millis;
use crate::base::profile::{Family, PROFILES, Profile, Since};

/// Opcodes. Any other byte is a value type, followed by a key and its value.
const SLOT_SIZES: u8 = 244;
const MODULE: u8 = 247;
const IDLE: u8 = 248;
const FREQUENCY: u8 = 249;
const NOTE: u8 = 250;
const SIZES: u8 = 251;
const DEADLINE: u8 = 252;
const DEADLINE_IN_SECONDS: u8 = 253;
const DATABASE: u8 = 254;
const END: u8 = 255;

/// Types of module values, which only their module can read.
const MODULE_VALUES: [u8; 2] = [6, 7];

/// The first format version with a checksum, and the checksum's size.
const CHECKED: u16 = 5;
const CHECKSUM_SIZE: usize = 8;

/// Whether the bytes have the magic number of a snapshot.
pub fn is_snapshot(bytes: &[u8]) -> bool {
    header(bytes).is_some()
}

/// The server family, the format version and the size of the header.
fn header(bytes: &[u8]) -> Option<(Family, u16, usize)> {
    const LENGTH: usize = 9;
    let (family, digits) = match bytes.get(..LENGTH)? {
        [b'R', b'E', b'D', b'I', b'S', digits @ ..] => (Family::Redis, digits),
        [b'V', b'A', b'L', b'K', b'E', b'Y', digits @ ..] => (Family::Valkey, digits),
        _ => return None,
    };
    let version = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((family, version, LENGTH))
}

/// One item of a snapshot.
#[derive(Debug, PartialEq)]
pub enum SnapshotItem {
    /// The source code of a function library.
    Library(Vec<u8>),
    /// The following keys belong to this database.
    Database(usize),
    Key(Key),
}

/// A key with its value and metadata.
#[derive(Debug, PartialEq)]
pub struct Key {
    pub name: Vec<u8>,
    pub content: Content<'static>,
    pub deadline: Option<Millis>,
    /// Seconds since its last access.
    pub idle: u32,
    /// How often it is used, if the policy counted that.
    pub frequency: Option<u8>,
}

/// Why a snapshot cannot be read, and the offset of the error.
#[derive(Debug, PartialEq, Eq)]
pub struct SnapshotError {
    pub at: usize,
    pub reason: String,
}

/// Reads a snapshot item by item. It accepts what any supported server writes; the caller checks what its own profile
/// supports.
pub struct SnapshotReader<'a> {
    bytes: &'a [u8],
    reader: Reader<'a>,
    /// The newest profile of the family that wrote the snapshot.
    writer: Profile,
    version: u16,
    /// The bytes behind the end.
    rest: Option<&'a [u8]>,
}

impl<'a> SnapshotReader<'a> {
    /// `None` if the bytes do not begin as a snapshot does.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let (family, version, length) = header(bytes)?;
        let writer = PROFILES.into_iter().rfind(|profile| profile.family() == family).unwrap_or_default();
        Some(Self { bytes, reader: Reader::new(&bytes[length..]), writer, version, rest: None })
    }

    /// The next item; `None` at the end, after the checksum was verified.
    pub fn next(&mut self) -> Result<Option<SnapshotItem>, SnapshotError> {
        let (mut deadline, mut idle, mut frequency) = (None, 0, None);
        while self.rest.is_none() {
            let at = self.at();
            let cut = |at| SnapshotError { at, reason: "the snapshot ends in the middle".to_owned() };
            let what = self.reader.byte().ok_or_else(|| cut(at))?;
            let reader = &mut self.reader;
            let piece = match what {
                NOTE => reader.string().and_then(|_| reader.string()).map(|_| None),
                SIZES => reader.length().and_then(|_| reader.length()).map(|_| None),
                SLOT_SIZES => reader.length().and_then(|_| reader.length()).and_then(|_| reader.length()).map(|_| None),
                FREQUENCY => reader.byte().map(|count| {
                    frequency = Some(count);
                    None
                }),
                IDLE => reader.length().map(|seconds| {
                    idle = u32::try_from(seconds).unwrap_or(u32::MAX);
                    None
                }),
                DEADLINE => reader.integer_64().map(|millis| {
                    deadline = Some(millis);
                    None
                }),
                DEADLINE_IN_SECONDS => reader.integer_32().map(|seconds| {
                    deadline = Some(Millis::from(seconds).saturating_mul(1000));
                    None
                }),
                DATABASE => reader.length().map(|db| Some(SnapshotItem::Database(db))),
                LIBRARY => reader.string().map(|source| Some(SnapshotItem::Library(source))),
                MODULE => return Err(SnapshotError { at, reason: "it holds data of a module".to_owned() }),
                END => {
                    self.end(at)?;
                    break;
                }
                kind => {
                    let key = self.key(at, kind)?;
                    return Ok(Some(SnapshotItem::Key(Key { deadline, idle, frequency, ..key })));
                }
            };
            if let Some(piece) = piece.ok_or_else(|| cut(at))? {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }

    fn key(&mut self, at: usize, kind: u8) -> Result<Key, SnapshotError> {
        let unreadable = |reason: String| SnapshotError { at, reason };
        let name = self.reader.string().ok_or_else(|| unreadable("the snapshot ends in the middle".to_owned()))?;
        let shown = || name.escape_ascii();
        if MODULE_VALUES.contains(&kind) {
            return Err(unreadable(format!("the key '{}' holds data of a module", shown())));
        }
        match read_value(kind, &mut self.reader, &self.writer) {
            Some(content) => Ok(Key { name, content, deadline: None, idle: 0, frequency: None }),
            None => {
                let version = self.version;
                let reason = format!("the value of '{}' (type {kind}, format {version}) cannot be read", shown());
                Err(unreadable(reason))
            }
        }
    }

    fn end(&mut self, at: usize) -> Result<(), SnapshotError> {
        let signed = self.at();
        let (body, behind) = self.bytes.split_at(signed);
        if self.version < CHECKED {
            self.rest = Some(behind);
            return Ok(());
        }
        let cut = || SnapshotError { at, reason: "the snapshot ends before its checksum".to_owned() };
        let (checksum, rest) = behind.split_first_chunk::<CHECKSUM_SIZE>().ok_or_else(cut)?;
        let claimed = u64::from_le_bytes(*checksum);
        // The checksum is zero if the writer has checksums disabled.
        if claimed != 0 && CHECKSUM.checksum(body) != claimed {
            return Err(SnapshotError { at: signed, reason: "the checksum is wrong: the file is damaged".to_owned() });
        }
        self.rest = Some(rest);
        Ok(())
    }

    fn at(&self) -> usize {
        self.bytes.len() - self.reader.left()
    }

    /// The bytes behind the snapshot, once its end is reached: an append-only file continues with commands.
    pub fn rest(&self) -> &'a [u8] {
        self.rest.unwrap_or_default()
    }
}

/// Whether a profile supports a value: expiry times of hash fields are newer than hashes.
pub fn suits(content: &Content<'_>, profile: &Profile) -> bool {
    !has_times(content) || profile.has(TIMES) || profile.has(Since::valkey(9, 0, 0))
}

fn has_times(content: &Content<'_>) -> bool {
    matches!(content, Content::Hash { fields, .. } if fields.iter().any(|field| field.until.is_some()))
}

/// Writes a snapshot.
pub struct SnapshotWriter {
    out: Vec<u8>,
    keys: KeyWriter,
}

/// Writes keys as they stand in a snapshot.
#[derive(Clone, Copy)]
pub struct KeyWriter {
    profile: Profile,
    /// The snapshot does not leave the process: keys and values that are strings are left as they are, and it has no checksum.
    is_internal: bool,
}

impl SnapshotWriter {
    /// Uses the format of Redis 7.0, which all later servers read, or the server's own format, which expiry times of hash
    /// fields need.
    pub fn new(own: Profile, as_own: bool) -> Self {
        let common = PROFILES.into_iter().find(|profile| profile.since_redis(7, 0)).unwrap_or(own);
        let profile = if as_own { own } else { common };
        let out = match format_of(&profile) {
            VALKEY_FORMAT => format!("VALKEY{VALKEY_FORMAT:03}"),
            format => format!("REDIS{format:04}"),
        };
        let mut writer = Self { out: out.into_bytes(), keys: KeyWriter { profile, is_internal: false } };
        writer.note("redis-ver", &profile.redis_version().to_string());
        writer.note("redis-bits", &usize::BITS.to_string());
        writer
    }

    /// Writes faster what does not leave the process, in the server's own format.
    pub fn for_this_process(own: Profile) -> Self {
        let writer = Self::new(own, true);
        Self { keys: KeyWriter { is_internal: true, ..writer.keys }, ..writer }
    }

    fn note(&mut self, name: &str, value: &str) {
        self.out.push(NOTE);
        write_string(&mut self.out, name.as_bytes());
        write_string(&mut self.out, value.as_bytes());
    }

    pub fn library(&mut self, source: &[u8]) {
        self.out.push(LIBRARY);
        write_string(&mut self.out, source);
    }

    /// Begins a database with this number of keys, of which `volatile` have a deadline.
    pub fn database(&mut self, db: u32, keys: usize, volatile: usize) {
        self.out.push(DATABASE);
        write_length(&mut self.out, db as usize);
        self.out.push(SIZES);
        write_length(&mut self.out, keys);
        write_length(&mut self.out, volatile);
    }

    /// How the keys of this snapshot are written.
    pub fn key_writer(&self) -> KeyWriter {
        self.keys
    }

    /// Adds keys as a [`KeyWriter`] has written them.
    pub fn keys(&mut self, written: &[u8]) {
        self.out.extend_from_slice(written);
    }

    /// The complete snapshot, with its checksum.
    pub fn finish(mut self) -> Vec<u8> {
        self.out.push(END);
        // Zero stands for none.
        let checksum = if self.keys.is_internal { 0 } else { CHECKSUM.checksum(&self.out) };
        self.out.extend_from_slice(&checksum.to_le_bytes());
        self.out
    }
}

impl KeyWriter {
    pub fn write(&self, out: &mut Vec<u8>, name: &[u8], mut content: Content<'_>, deadline: Option<Millis>) {
        let times = has_times(&content);
        match &mut content {
            Content::Set { packed, .. } => *packed = *packed && self.profile.since_redis(7, 2),
            Content::Hash { timed, .. } => *timed = times,
            _ => {}
        }
        write_deadline(out, deadline);
        if let Content::String(value) = &content {
            out.push(STRING);
            for part in [name, &**value] {
                if self.is_internal {
                    write_length(out, part.len());
                    out.extend_from_slice(part);
                } else {
                    write_string(out, part);
                }
            }
            return;
        }
        let mut written = Vec::new();
        write_content(&mut written, &content, &self.profile);
        // The key stands between the type and the value.
        let (kind, value) = written.split_at(1);
        out.extend_from_slice(kind);
        write_string(out, name);
        out.extend_from_slice(value);
    }

    /// The same for a hash that is a table without deadlines of fields. They are not collected first, so a large one is written
    /// in half the time.
    pub fn write_table<'f>(
        &self,
        out: &mut Vec<u8>,
        name: &[u8],
        fields: impl ExactSizeIterator<Item = [&'f [u8]; 2]>,
        deadline: Option<Millis>,
    ) {
        write_deadline(out, deadline);
        out.push(HASH);
        write_string(out, name);
        write_length(out, fields.len());
        fields.flatten().for_each(|part| write_string(out, part));
    }
}

fn write_deadline(out: &mut Vec<u8>, deadline: Option<Millis>) {
    if let Some(deadline) = deadline {
        out.push(DEADLINE);
        out.extend_from_slice(&deadline.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    fn text(text: &'static str) -> Content<'static> {
        Content::String(Cow::Borrowed(text.as_bytes()))
    }

    fn sample() -> Vec<u8> {
        let mut writer = SnapshotWriter::new(Profile::default(), false);
        writer.library(b"#!lua name=l");
        writer.database(3, 2, 1);
        let mut keys = Vec::new();
        writer.key_writer().write(&mut keys, b"a", text("1"), None);
        writer.key_writer().write(&mut keys, b"b", text("two"), Some(1_700_000_000_000));
        writer.keys(&keys);
        writer.finish()
    }

    fn pieces(bytes: &[u8]) -> Result<Vec<SnapshotItem>, SnapshotError> {
        let mut reader = SnapshotReader::new(bytes).expect("a snapshot");
        std::iter::from_fn(|| reader.next().transpose()).collect()
    }

    fn key(name: &str, content: Content<'static>, deadline: Option<Millis>, idle: u32) -> SnapshotItem {
        SnapshotItem::Key(Key { name: name.as_bytes().to_vec(), content, deadline, idle, frequency: None })
    }

    #[test]
    fn what_is_written_is_read() {
        let expected = [
            SnapshotItem::Library(b"#!lua name=l".to_vec()),
            SnapshotItem::Database(3),
            key("a", text("1"), None, 0),
            key("b", text("two"), Some(1_700_000_000_000), 0),
        ];
        assert_eq!(pieces(&sample()).unwrap(), expected);
    }

    #[test]
    fn a_snapshot_that_lost_or_changed_a_byte_anywhere_is_refused() {
        let whole = sample();
        for length in 9..whole.len() {
            assert!(pieces(&whole[..length]).is_err(), "{length}");
        }
        for at in 9..whole.len() - CHECKSUM_SIZE {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert!(pieces(&damaged).is_err(), "{at}");
        }
    }

    #[test]
    fn old_deadlines_and_what_was_noted_of_use_are_understood() {
        let mut bytes = b"REDIS0009\xf9\x05\xfd\x01\0\0\0\x00\x01a\x011\xf8\x07\x00\x01b\x012\xff".to_vec();
        bytes.extend_from_slice(&[0; CHECKSUM_SIZE]);
        let SnapshotItem::Key(often) = key("a", text("1"), Some(1000), 0) else { unreachable!("it is a key") };
        let often = SnapshotItem::Key(Key { frequency: Some(5), ..often });
        assert_eq!(pieces(&bytes).unwrap(), [often, key("b", text("2"), None, 7)]);
    }

    #[test]
    fn data_of_modules_is_refused_with_the_name_of_the_key() {
        let refused = pieces(b"REDIS0009\x07\x01k\x00").unwrap_err();
        assert_eq!(refused, SnapshotError { at: 9, reason: "the key 'k' holds data of a module".to_owned() });
        assert_eq!(pieces(b"REDIS0009\xf7").unwrap_err().reason, "it holds data of a module");
    }

    #[test]
    fn what_is_behind_a_snapshot_is_left_alone() {
        let mut bytes = sample();
        bytes.extend_from_slice(b"*1\r\n");
        let mut reader = SnapshotReader::new(&bytes).unwrap();
        while reader.next().unwrap().is_some() {}
        assert_eq!(reader.rest(), b"*1\r\n");
    }
}
