//! Redis's serialized values, as DUMP gives and RESTORE takes them: a type, the value, and a footer with the version of
//! the format and a checksum.

mod lzf;
mod reader;

use std::borrow::Cow;

use crc::{CRC_64_REDIS, Crc};

use crate::listpack;
use crate::profile::{Family, Profile, Since, Version};
use crate::resp::parse_integer;
use reader::Reader;

const CHECKSUM: Crc<u64> = Crc::<u64>::new(&CRC_64_REDIS);

/// Two bytes of version and eight of checksum.
const FOOTER: usize = 10;

/// The type of a value, which stands in front of it.
const STRING: u8 = 0;
const SET: u8 = 2;
const SET_INTEGERS: u8 = 11;
const SET_LISTPACK: u8 = 20;

/// Sorted integers are written with the width and the number of them in front, four bytes each.
const INTEGERS_HEADER: usize = 8;

/// What stands in front of a library of functions, and stood there before the first release that had them.
const LIBRARY: u8 = 245;
const EARLY_LIBRARY: u8 = 246;

/// In the first byte of a length, the two highest bits say how to go on.
const LENGTH_14: u8 = 0x40;
const LENGTH_32: u8 = 0x80;
const LENGTH_64: u8 = 0x81;
const SPECIAL: u8 = 0xc0;

/// What follows instead of a length and as many bytes.
const INT_8: u8 = SPECIAL;
const INT_16: u8 = SPECIAL | 1;
const INT_32: u8 = SPECIAL | 2;
const COMPRESSED: u8 = SPECIAL | 3;

/// The longest string that is tried as an integer, and the longest that is not worth compressing.
const LONGEST_INTEGER: usize = 11;
const SHORT: usize = 20;

/// The version of the format that Valkey counts on its own, and the last one that it shares with Redis.
const VALKEY_FORMAT: u16 = 80;
const SHARED_FORMAT: u16 = 11;

/// Why a payload cannot be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Its footer is missing, of another version, or does not fit it.
    Footer,
    /// Its footer is right, but it holds nothing that can be read.
    Content,
}

/// The version of the format that a server writes.
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

/// Whether a server reads what is of this version.
fn reads(profile: &Profile, format: u16) -> bool {
    match format_of(profile) {
        VALKEY_FORMAT => format == VALKEY_FORMAT || (1..=SHARED_FORMAT).contains(&format),
        own => format <= own,
    }
}

/// A value, in the ways in which it can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    String(Cow<'a, [u8]>),
    /// A set of integers in ascending order, each of so many bytes.
    Integers {
        width: u8,
        values: Cow<'a, [i64]>,
    },
    /// A set, in one piece.
    Listpack(Vec<Cow<'a, [u8]>>),
    /// A set, one member after the other.
    Members(Vec<Cow<'a, [u8]>>),
}

/// A value with its type and its footer.
pub fn dump(content: &Content<'_>, profile: &Profile) -> Vec<u8> {
    let mut out = Vec::new();
    match content {
        Content::String(value) => {
            out.reserve(value.len() + FOOTER + 10);
            out.push(STRING);
            write_string(&mut out, value);
        }
        Content::Integers { width, values } => {
            out.push(SET_INTEGERS);
            write_string(&mut out, &write_integers(*width, values));
        }
        Content::Listpack(members) => {
            out.push(SET_LISTPACK);
            write_string(&mut out, &listpack::write(members.iter().map(|member| &**member)));
        }
        Content::Members(members) => {
            out.push(SET);
            write_length(&mut out, members.len());
            members.iter().for_each(|member| write_string(&mut out, member));
        }
    }
    sign(&mut out, profile);
    out
}

/// Appends the footer.
fn sign(out: &mut Vec<u8>, profile: &Profile) {
    out.extend_from_slice(&format_of(profile).to_le_bytes());
    let checksum = CHECKSUM.checksum(out);
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// Libraries, given as their texts, with a footer.
pub fn dump_libraries<'l>(sources: impl Iterator<Item = &'l [u8]>, profile: &Profile) -> Vec<u8> {
    let mut out = Vec::new();
    for source in sources {
        out.push(LIBRARY);
        write_string(&mut out, source);
    }
    sign(&mut out, profile);
    out
}

/// Whether a payload has the right footer.
fn check(payload: &[u8], profile: &Profile) -> Result<(), Damage> {
    let (signed, checksum) = payload.split_last_chunk::<8>().ok_or(Damage::Footer)?;
    let (_, format) = signed.split_last_chunk::<2>().ok_or(Damage::Footer)?;
    if !reads(profile, u16::from_le_bytes(*format)) || CHECKSUM.checksum(signed) != u64::from_le_bytes(*checksum) {
        return Err(Damage::Footer);
    }
    Ok(())
}

/// What stands in a payload of libraries where one should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoLibrary {
    /// One of the format that no release has written.
    Early,
    /// Something else altogether.
    Foreign,
    /// One that breaks off, or whose text cannot be read.
    Broken,
}

/// The texts of the libraries in a payload, one after the other.
pub fn load_libraries<'p>(
    payload: &'p [u8],
    profile: &Profile,
) -> Result<impl Iterator<Item = Result<Vec<u8>, NoLibrary>> + use<'p>, Damage> {
    check(payload, profile)?;
    let mut reader = Reader::new(payload);
    Ok(std::iter::from_fn(move || {
        if reader.left() <= FOOTER {
            return None;
        }
        Some(match reader.byte()? {
            LIBRARY => reader.string().ok_or(NoLibrary::Broken),
            EARLY_LIBRARY => Err(NoLibrary::Early),
            _ => Err(NoLibrary::Foreign),
        })
    }))
}

/// The value in a payload.
pub fn load(payload: &[u8], profile: &Profile) -> Result<Content<'static>, Damage> {
    check(payload, profile)?;
    // Redis does not stop reading at the footer, nor does it mind bytes between the value and the footer.
    let mut reader = Reader::new(payload);
    read_content(&mut reader, profile).ok_or(Damage::Content)
}

fn read_content(reader: &mut Reader<'_>, profile: &Profile) -> Option<Content<'static>> {
    match reader.byte()? {
        STRING => reader.string().map(|value| Content::String(Cow::Owned(value))),
        SET => {
            let count = reader.length()?;
            // However many there are said to be, each takes a byte at least.
            (0..count).map(|_| reader.string().map(Cow::Owned)).collect::<Option<Vec<_>>>().map(Content::Members)
        }
        SET_INTEGERS => read_integers(&reader.string()?),
        SET_LISTPACK if profile.since_redis(7, 2) => listpack::read(&reader.string()?).map(Content::Listpack),
        _ => None,
    }
}

fn write_integers(width: u8, values: &[i64]) -> Vec<u8> {
    let mut out = Vec::with_capacity(INTEGERS_HEADER + values.len() * usize::from(width));
    out.extend_from_slice(&u32::from(width).to_le_bytes());
    out.extend_from_slice(&u32::try_from(values.len()).unwrap_or(u32::MAX).to_le_bytes());
    for value in values {
        out.extend_from_slice(&value.to_le_bytes()[..usize::from(width)]);
    }
    out
}

fn read_integers(bytes: &[u8]) -> Option<Content<'static>> {
    let (header, data) = bytes.split_first_chunk::<INTEGERS_HEADER>()?;
    let number = |at: usize| header[at..].first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    let width = u8::try_from(number(0)?).ok().filter(|width| matches!(width, 2 | 4 | 8))?;
    let count = usize::try_from(number(4)?).ok()?;
    if Some(data.len()) != count.checked_mul(usize::from(width)) {
        return None;
    }
    let values = data.chunks_exact(usize::from(width)).map(|bytes| {
        let negative = bytes.last().is_some_and(|last| last & 0x80 != 0);
        let mut wide = [if negative { 0xff } else { 0 }; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        i64::from_le_bytes(wide)
    });
    Some(Content::Integers { width, values: values.collect() })
}

fn write_string(out: &mut Vec<u8>, value: &[u8]) {
    if value.len() <= LONGEST_INTEGER
        && let Some(integer) = parse_integer(value)
        && write_integer(out, integer)
    {
        return;
    }
    if value.len() > SHORT
        && let Some(compressed) = lzf::compress(value, value.len() - 4)
    {
        out.push(COMPRESSED);
        write_length(out, compressed.len());
        write_length(out, value.len());
        out.extend_from_slice(&compressed);
        return;
    }
    write_length(out, value.len());
    out.extend_from_slice(value);
}

/// Writes an integer in as few bytes as it takes, if that is at most four.
fn write_integer(out: &mut Vec<u8>, value: i64) -> bool {
    if let Ok(value) = i8::try_from(value) {
        out.push(INT_8);
        out.extend_from_slice(&value.to_le_bytes());
    } else if let Ok(value) = i16::try_from(value) {
        out.push(INT_16);
        out.extend_from_slice(&value.to_le_bytes());
    } else if let Ok(value) = i32::try_from(value) {
        out.push(INT_32);
        out.extend_from_slice(&value.to_le_bytes());
    } else {
        return false;
    }
    true
}

fn write_length(out: &mut Vec<u8>, length: usize) {
    if length < 1 << 6 {
        out.push(length as u8);
    } else if length < 1 << 14 {
        out.push(LENGTH_14 | (length >> 8) as u8);
        out.push(length as u8);
    } else if let Ok(length) = u32::try_from(length) {
        out.push(LENGTH_32);
        out.extend_from_slice(&length.to_be_bytes());
    } else {
        out.push(LENGTH_64);
        out.extend_from_slice(&(length as u64).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn profile(name: &str) -> Profile {
        name.parse().unwrap()
    }

    fn dump_string(value: &[u8], profile: &Profile) -> Vec<u8> {
        dump(&Content::String(value.into()), profile)
    }

    fn load_string(payload: &[u8], profile: &Profile) -> Result<Vec<u8>, Damage> {
        match load(payload, profile)? {
            Content::String(value) => Ok(value.into_owned()),
            _ => Err(Damage::Content),
        }
    }

    fn signed(body: &[u8], format: u16) -> Vec<u8> {
        let mut payload = body.to_vec();
        payload.extend_from_slice(&format.to_le_bytes());
        let checksum = CHECKSUM.checksum(&payload);
        payload.extend_from_slice(&checksum.to_le_bytes());
        payload
    }

    #[test]
    fn the_checksum_is_jones() {
        assert_eq!(CHECKSUM.checksum(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    /// Payloads as Redis 7.0.15 gave them.
    #[test]
    fn strings_are_dumped_as_redis_dumps_them() {
        let redis = profile("redis-7.0");
        assert_eq!(dump_string(b"12", &redis), b"\x00\xc0\x0c\n\x00<*\xf8Q\\\x04\xbc\xd5");
        let bodies: &[(&[u8], &[u8])] = &[
            (b"-128", b"\x00\xc0\x80"),
            (b"128", b"\x00\xc1\x80\x00"),
            (b"-32769", b"\x00\xc2\xff\x7f\xff\xff"),
            (b"2147483648", b"\x00\x0a2147483648"),
            (b"007", b"\x00\x03007"),
            (b"", b"\x00\x00"),
        ];
        for (value, body) in bodies {
            assert_eq!(dump_string(value, &redis), signed(body, 10));
        }
        assert_eq!(dump_string(&[b'a'; 21], &redis), signed(b"\x00\xc3\x06\x15\x01aa\xe0\x0a\x00", 10));
    }

    /// Payloads as Redis 7.0.15 gave them.
    #[test]
    fn libraries_are_dumped_as_redis_dumps_them() {
        let redis = profile("redis-7.0");
        assert_eq!(dump_libraries([].into_iter(), &redis), b"\n\x00]\x9b\\@\x0f\x7f\xa2\xda");
        let source = b"#!lua name=l\nredis.register_function('f',function(k,a) return {k,a} end)";
        let payload = [b"\xf5@H", &source[..], b"\n\x00\x93\xf9j\x0c\xe2\xcfXk"].concat();
        assert_eq!(dump_libraries([&source[..]].into_iter(), &redis), payload);
        let read = |payload: &[u8]| load_libraries(payload, &redis).map(Iterator::collect::<Vec<_>>);
        assert_eq!(read(&payload), Ok(vec![Ok(source.to_vec())]));
        assert_eq!(read(&payload[1..]), Err(Damage::Footer));
        assert_eq!(read(&signed(b"\xf5\x01ax", 10)), Ok(vec![Ok(b"a".to_vec()), Err(NoLibrary::Foreign)]));
        assert_eq!(read(&signed(b"\xf6", 10)), Ok(vec![Err(NoLibrary::Early)]));
        assert_eq!(read(&signed(b"\xf5\x30", 10)), Ok(vec![Err(NoLibrary::Broken)]));
    }

    #[test]
    fn odd_payloads_are_read_as_redis_reads_them() {
        let redis = profile("redis-7.0");
        let read = |body: &[u8]| load_string(&signed(body, 10), &redis);
        assert_eq!(read(b"\x00\x05abc").unwrap(), b"abc\n\x00", "the footer is read as part of the string");
        assert_eq!(read(b"\x00\x03abcX").unwrap(), b"abc", "more bytes do not matter");
        assert_eq!(read(b"\x00\xc0").unwrap(), b"10");
        assert_eq!(read(b"\x00\xc3\x00\x00").unwrap(), b"");
        assert_eq!(read(b"\x00\xc3\x02\x01\x00a").unwrap(), b"a");
        assert_eq!(read(b"\x00\x81\x00\x00\x00\x00\x00\x00\x00\x02hi").unwrap(), b"hi");
        assert_eq!(read(b"\x00\xc2\x01\x00\x00\x80").unwrap(), b"-2147483647");
        let bad: &[&[u8]] = &[
            b"",
            b"\x00",
            b"\x01\x00",
            b"\xff",
            b"\x00\xc4\x00",
            b"\x00\x82\x00\x00\x00\x02",
            b"\x00\xc3\x03\x04\x00a",
            b"\x00\x81\x7f\x00\x00\x00\x00\x00\x00\x02hi",
            b"\x00\xc3\x00\x81\x7f\x00\x00\x00\x00\x00\x00\x02",
            b"\x00\xc3\x05\x41\x00\x00a\xe0\xf7\x00",
        ];
        for body in bad {
            assert_eq!(read(body), Err(Damage::Content), "{body:?}");
        }
    }

    #[test]
    fn each_server_reads_its_own_versions() {
        let accepted = |name: &str| -> Vec<u16> {
            let profile = profile(name);
            (0..90).filter(|&format| load_string(&signed(b"\x00\xc0\x01", format), &profile).is_ok()).collect()
        };
        assert_eq!(accepted("redis-6.2"), (0..=9).collect::<Vec<_>>());
        assert_eq!(accepted("redis-7.0"), (0..=10).collect::<Vec<_>>());
        assert_eq!(accepted("redis-8.4"), (0..=12).collect::<Vec<_>>());
        assert_eq!(accepted("valkey-9.1"), (1..=11).chain([80]).collect::<Vec<_>>());
        assert_eq!(load_string(b"123456789", &profile("redis-7.0")), Err(Damage::Footer));
    }

    proptest! {
        #[test]
        fn what_is_dumped_is_restored(value in value(), name in prop::sample::select(vec!["redis-6.2", "redis-7.2", "valkey-9.1"])) {
            let profile = profile(name);
            prop_assert_eq!(load_string(&dump_string(&value, &profile), &profile).unwrap(), value);
        }

        #[test]
        fn sets_that_are_dumped_are_restored(
            mut values in prop::collection::vec(any::<i64>(), 0..600),
            members in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..90), 0..90),
        ) {
            values.sort_unstable();
            let profile = Profile::default();
            let members: Vec<Cow<'_, [u8]>> = members.into_iter().map(Cow::Owned).collect();
            let integers = Content::Integers { width: 8, values: values.into() };
            for content in [integers, Content::Listpack(members.clone()), Content::Members(members)] {
                prop_assert_eq!(load(&dump(&content, &profile), &profile), Ok(content));
            }
        }

        #[test]
        fn any_flipped_bit_is_noticed(value in value(), at in any::<prop::sample::Index>(), bit in 0..8) {
            let profile = Profile::default();
            let mut payload = dump_string(&value, &profile);
            let at = at.index(payload.len());
            payload[at] ^= 1u8 << bit;
            prop_assert_eq!(load_string(&payload, &profile), Err(Damage::Footer));
        }

        #[test]
        fn no_content_is_too_strange(body in prop::collection::vec(any::<u8>(), 0..64)) {
            for kind in [STRING, SET, SET_INTEGERS, SET_LISTPACK] {
                let _ = load(&signed(&[&[kind], &body[..]].concat(), 10), &Profile::default());
            }
        }
    }

    fn value() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            any::<i64>().prop_map(|value| value.to_string().into_bytes()),
            any::<i16>().prop_map(|value| value.to_string().into_bytes()),
            prop::collection::vec(any::<u8>(), 0..40),
            prop::collection::vec(0u8..3, 0..3000),
            (prop::collection::vec(any::<u8>(), 1..50), 1..2000usize).prop_map(|(part, times)| part.repeat(times)),
        ]
    }
}
