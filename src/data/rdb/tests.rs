//! Payloads written by real servers, and arbitrary ones.

use proptest::prelude::*;

use super::*;

fn load(payload: &[u8], profile: &Profile) -> Result<Content<'static>, PayloadError> {
    super::load(payload, profile, Checksums::Verified)
}

fn profile(name: &str) -> Profile {
    name.parse().unwrap()
}

fn dump_string(value: &[u8], profile: &Profile) -> Vec<u8> {
    dump(&Content::String(value.into()), profile)
}

fn load_string(payload: &[u8], profile: &Profile) -> Result<Vec<u8>, PayloadError> {
    match load(payload, profile)? {
        Content::String(value) => Ok(value.into_owned()),
        _ => Err(PayloadError::Content),
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

/// Payloads of Redis 7.0.15.
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

/// Payloads of Redis 7.0.15.
#[test]
fn libraries_are_dumped_as_redis_dumps_them() {
    let redis = profile("redis-7.0");
    assert_eq!(dump_libraries([].into_iter(), &redis), b"\n\x00]\x9b\\@\x0f\x7f\xa2\xda");
    let source = b"#!lua name=l\nredis.register_function('f',function(k,a) return {k,a} end)";
    let payload = [b"\xf5@H", &source[..], b"\n\x00\x93\xf9j\x0c\xe2\xcfXk"].concat();
    assert_eq!(dump_libraries([&source[..]].into_iter(), &redis), payload);
    let read = |payload: &[u8]| load_libraries(payload, &redis, Checksums::Verified).map(Iterator::collect::<Vec<_>>);
    assert_eq!(read(&payload), Ok(vec![Ok(source.to_vec())]));
    assert_eq!(read(&payload[1..]), Err(PayloadError::Footer));
    assert_eq!(read(&signed(b"\xf5\x01ax", 10)), Ok(vec![Ok(b"a".to_vec()), Err(LibraryError::Foreign)]));
    assert_eq!(read(&signed(b"\xf6", 10)), Ok(vec![Err(LibraryError::Early)]));
    assert_eq!(read(&signed(b"\xf5\x30", 10)), Ok(vec![Err(LibraryError::Broken)]));
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
        assert_eq!(read(body), Err(PayloadError::Content), "{body:?}");
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
    assert_eq!(load_string(b"123456789", &profile("redis-7.0")), Err(PayloadError::Footer));
}

fn bytes(text: &'static str) -> Bytes<'static> {
    Cow::Borrowed(text.as_bytes())
}

fn pairs(pairs: &[(&'static str, &'static str)], packed: bool) -> Content<'static> {
    let field = |&(name, value): &(_, _)| Field { name: bytes(name), value: bytes(value), until: None };
    Content::Hash { fields: pairs.iter().map(field).collect(), packed, timed: false }
}

fn rows(rows: &[(&'static str, f64)], packed: bool) -> Content<'static> {
    Content::SortedSet { rows: rows.iter().map(|(member, score)| (bytes(member), *score)).collect(), packed }
}

fn node(elements: &[&'static str]) -> Node<'static> {
    let mut packed = Vec::new();
    elements.iter().for_each(|element| crate::data::listpack::Element::of(element.as_bytes()).append(&mut packed));
    Node::Packed { elements: packed.into(), count: elements.len() }
}

/// Payloads of Redis 7.0.15, without footers.
#[test]
fn collections_are_dumped_as_redis_dumps_them() {
    let redis = profile("redis-7.0");
    let cases: &[(Content<'_>, &[u8])] = &[
        (
            Content::List(vec![node(&["a", "1"]), Node::Plain(bytes("plain")), node(&["b"])]),
            b"\x12\x03\x02\x0c\x0c\0\0\0\x02\0\x81a\x02\x01\x01\xff\x01\x05plain\x02\x0a\x0a\0\0\0\x01\0\x81b\x02\xff",
        ),
        (pairs(&[("f", "v"), ("n", "12")], true), b"\x10\x12\x12\0\0\0\x04\0\x81f\x02\x81v\x02\x81n\x02\x0c\x01\xff"),
        (pairs(&[("5", "w"), ("f", "x")], false), b"\x04\x02\xc0\x05\x01w\x01f\x01x"),
        (
            rows(&[("b", -2.5), ("a", 1.0), ("c", f64::INFINITY)], true),
            b"\x11\x1d\x1d\0\0\0\x06\0\x81b\x02\x84-2.5\x05\x81a\x02\x01\x01\x81c\x02\x83inf\x04\xff",
        ),
        (
            rows(&[("b", f64::NEG_INFINITY), ("c", 0.1), ("a", 1.0)], false),
            b"\x05\x03\x01a\0\0\0\0\0\0\xf0?\x01c\x9a\x99\x99\x99\x99\x99\xb9?\x01b\0\0\0\0\0\0\xf0\xff",
        ),
    ];
    for (content, body) in cases {
        assert_eq!(dump(content, &redis), signed(body, 10), "{content:?}");
    }
    assert_eq!(
        dump(&pairs(&[("f", "1"), ("b", "x")], true), &profile("redis-6.2")),
        signed(b"\x0d\x16\x16\0\0\0\x12\0\0\0\x04\0\0\x01f\x03\xf2\x02\x01b\x03\x01x\xff", 9),
    );
}

/// Scores in payloads of Redis 7.0.15 (the first) and Valkey 9.1 (the second).
#[test]
fn scores_are_written_as_each_server_writes_them() {
    let cases: &[(f64, &[u8], &[u8])] = &[
        (-0.0, b"\x00\x01", b"\x00\x01"),
        (0.1, b"\x930.10000000000000001\x14", b"\x830.1\x04"),
        (1e17, b"\xf4\x00\x00\x8a\x5d\x78\x45\x63\x01\x09", b"\xf4\x00\x00\x8a\x5d\x78\x45\x63\x01\x09"),
        (3e20, b"\x853e+20\x06", b"\x853e+20\x06"),
        (1e-7, b"\x969.9999999999999995e-08\x17", b"\x841e-7\x05"),
        (5e18, b"\x855e+18\x06", b"\x855e+18\x06"),
    ];
    for &(score, early, late) in cases {
        for (name, format, score_bytes) in [("redis-7.0", 10u16, early), ("valkey-9.1", 80, late)] {
            let body = [b"\x81a\x02", score_bytes].concat();
            let size = body.len() as u8 + 7;
            let packed = [&[size, 0, 0, 0, 2, 0], &body[..], &[0xff]].concat();
            let payload = dump(&rows(&[("a", score)], true), &profile(name));
            if size <= 20 {
                assert_eq!(payload, signed(&[&[17, size], &packed[..]].concat(), format), "{score} {name}");
            }
            assert!(load(&payload, &profile(name)).is_ok());
        }
    }
}

/// Formats that no server writes any more, and what 7.0.15 makes of them.
#[test]
fn payloads_of_old_servers_are_read() {
    let redis = profile("redis-7.0");
    let read = |body: &[u8]| load(&signed(body, 5), &redis);
    assert_eq!(read(b"\x01\x02\x01a\xc0\x05"), Ok(Content::Elements(vec![bytes("a"), bytes("5")])));
    assert_eq!(
        read(b"\x03\x03\x01a\x031.5\x01b\xfe\x01c\xff"),
        Ok(rows(&[("a", 1.5), ("b", f64::INFINITY), ("c", f64::NEG_INFINITY)], false))
    );
    assert_eq!(
        read(b"\x09\x0f\x02\x01a\x01\x001\x01b\x03\x01xyz\0\xff"),
        Ok(pairs(&[("a", "1"), ("b", "xyz")], false))
    );
    let ziplist = ziplist::write([&b"a"[..], b"7"].into_iter());
    let body = |kind: u8| [&[kind, ziplist.len() as u8], &ziplist[..]].concat();
    assert_eq!(read(&body(10)), Ok(Content::Elements(vec![bytes("a"), bytes("7")])));
    assert_eq!(read(&body(12)), Ok(rows(&[("a", 7.0)], true)));
    assert_eq!(read(&body(13)), Ok(pairs(&[("a", "7")], true)));
    let nodes = [&[14, 1], &body(0)[1..]].concat();
    assert_eq!(read(&nodes), Ok(Content::List(vec![node(&["a", "7"])])));
    let bad: &[&[u8]] = &[
        b"\x03\x01\x01a\xfd",
        b"\x05\x01\x01a\0\0\0\0\0\0\xf8\x7f",
        b"\x09\x07\x02\x01a\x01\x001\xff",
        b"\x09\x06\x01\x01a\x01\x001",
        b"\x09\x0b\x01\xfe\x01\0\0\0a\x01\x001\xff",
        b"\x10\x0a\x0a\0\0\0\x01\0\x81f\x02\xff",
        b"\x11\x0d\x0d\0\0\0\x02\0\x81f\x02\x81x\x02\xff",
        b"\x12\x01\x03\x01a",
        b"\x12\x01\x01\0",
    ];
    for body in bad {
        assert_eq!(read(body), Err(PayloadError::Content), "{body:?}");
    }
    let early = profile("redis-6.2");
    assert_eq!(load(&dump(&pairs(&[("a", "1")], true), &redis), &early), Err(PayloadError::Footer));
    assert_eq!(load(&signed(b"\x10\x0c\x0c\0\0\0\x02\0\x81a\x02\x01\x01\xff", 9), &early), Err(PayloadError::Content));
}

/// Payloads of Redis 8.0 (the first two) and Valkey 9.1, without footers.
#[test]
fn times_of_fields_are_dumped_as_each_server_dumps_them() {
    const TIME: i64 = 4_102_444_800_000;
    let field = |name, value, until| Field { name: bytes(name), value: bytes(value), until };
    let hash = |fields, packed| Content::Hash { fields, packed, timed: true };
    let packed = hash(vec![field("a", "1", Some(TIME + 5)), field("b", "x", None)], true);
    let spread = vec![field("b", "x", None), field("c", "3", Some(TIME)), field("a", "1", Some(TIME + 5))];
    let cases: &[(&str, u16, Content<'_>, &[u8])] = &[
        (
            "redis-8.4",
            12,
            packed,
            b"\x19\x05\xd8\xc3,\xbb\x03\0\0\x1e\x1e\0\0\0\x06\0\x81a\x02\x01\x01\xf4\x05\xd8\xc3,\xbb\x03\0\0\x09\x81b\x02\x81x\x02\0\x01\xff",
        ),
        (
            "redis-8.4",
            12,
            hash(spread, false),
            b"\x18\0\xd8\xc3,\xbb\x03\0\0\x03\0\x01b\x01x\x01\x01c\xc0\x03\x06\x01a\xc0\x01",
        ),
        (
            "valkey-9.1",
            80,
            hash(vec![field("a", "1", Some(TIME + 5)), field("b", "x", None)], false),
            b"\x16\x02\x01a\xc0\x01\x05\xd8\xc3,\xbb\x03\0\0\x01b\x01x\xff\xff\xff\xff\xff\xff\xff\xff",
        ),
    ];
    for (name, format, content, body) in cases {
        let payload = dump(content, &profile(name));
        assert_eq!(payload, signed(body, *format), "{content:?}");
        assert_eq!(load(&payload, &profile(name)).as_ref(), Ok(content));
        assert_eq!(load(&signed(body, 10), &profile("redis-7.0")), Err(PayloadError::Content));
    }
}

/// Payloads of Redis 7.0.15 and Valkey 9.1, without footers; one in the format of 6.2; and one with unknown counters.
#[test]
fn streams_are_dumped_as_each_server_dumps_them() {
    const ID: Id = 5 << 64 | 1;
    const NODE: &[u8] =
        b"\x1d\0\0\0\x0a\0\x01\x01\0\x01\x01\x01\x81f\x02\0\x01\x02\x01\0\x01\0\x01\x81v\x02\x04\x01\xff";
    const SEEN: i64 = 1_600_000_000_000;
    let stream = |counters, read, active| {
        let consumer = Consumer { name: bytes("c"), seen: SEEN, active, pending: vec![ID] };
        let pending = vec![Delivery { id: ID, time: 1_700_000_000_000, count: 3 }];
        let group = Group { name: bytes("g"), last: ID, read, pending, consumers: vec![consumer] };
        Content::Stream(Stream { nodes: vec![(ID, NODE.into())], len: 1, last: ID, counters, groups: vec![group] })
    };
    let entries = [b"\x01\x10\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x01\x1d", NODE, b"\x01\x05\x01"].concat();
    let id = ID.to_be_bytes();
    let pending = [b"\x01", &id[..], b"\0\x68\xe5\xcf\x8b\x01\0\0\x03\x01\x01c"].concat();
    let time = SEEN.to_le_bytes();
    let counters = Some(Counters { first: ID, max_deleted: 0, added: 1 });
    let counted = b"\x05\x01\0\0\x01\x01\x01g\x05\x01\x01";
    let cases: &[(&str, u16, Content<'_>, Vec<u8>)] = &[
        (
            "redis-6.2",
            9,
            stream(None, None, Some(SEEN)),
            [b"\x0f", &entries[..], b"\x01\x01g\x05\x01", &pending, &time, b"\x01", &id].concat(),
        ),
        (
            "redis-7.0",
            10,
            stream(counters, Some(1), Some(SEEN)),
            [b"\x13", &entries[..], counted, &pending, &time, b"\x01", &id].concat(),
        ),
        (
            "valkey-9.1",
            80,
            stream(counters, Some(1), Some(SEEN)),
            [b"\x15", &entries[..], counted, &pending, &time, &time, b"\x01", &id].concat(),
        ),
        (
            "redis-8.4",
            12,
            stream(counters, None, None),
            [
                b"\x15",
                &entries[..],
                b"\x05\x01\0\0\x01\x01\x01g\x05\x01\x81\xff\xff\xff\xff\xff\xff\xff\xff",
                &pending,
                &time,
                &[0xff; 8],
                b"\x01",
                &id,
            ]
            .concat(),
        ),
    ];
    for (name, format, content, body) in cases {
        let payload = signed(body, *format);
        assert_eq!(load(&payload, &profile(name)).as_ref(), Ok(content), "{name}");
        // The node exceeds the size from which strings are compressed, but nothing in it compresses.
        assert_eq!(dump(content, &profile(name)), payload, "{name}");
    }
    assert_eq!(load(&signed(&cases[2].3, 10), &profile("redis-7.0")), Err(PayloadError::Content));
    assert_eq!(load(&signed(&cases[1].3, 9), &profile("redis-6.2")), Err(PayloadError::Content));
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
        let narrow = |bits: u32, width| {
            let mut values: Vec<i64> = values.iter().map(|value| value >> (64 - bits)).collect();
            values.dedup();
            Content::Integers { width, values: values.into() }
        };
        let (two, four) = (narrow(16, 2), narrow(32, 4));
        let eight = Content::Integers { width: 8, values: values.into() };
        let packed = Content::Set { members: members.clone(), packed: true };
        for content in [two, four, eight, packed, Content::Set { members, packed: false }] {
            prop_assert_eq!(load(&dump(&content, &profile), &profile), Ok(content));
        }
    }

    #[test]
    fn collections_that_are_dumped_are_restored(
        parts in prop::collection::vec((value(), value(), any::<f64>()), 0..20),
        packed in any::<bool>(),
        name in prop::sample::select(vec!["redis-6.2", "redis-7.0", "redis-7.2", "valkey-9.1"]),
    ) {
        let profile = profile(name);
        let cow = |bytes: &Vec<u8>| Bytes::Owned(bytes.clone());
        let fields = parts.iter().map(|(name, value, _)| Field { name: cow(name), value: cow(value), until: None });
        let hash = Content::Hash { fields: fields.collect(), packed, timed: false };
        prop_assert_eq!(load(&dump(&hash, &profile), &profile), Ok(hash));
        let nodes = parts.iter().map(|(one, other, _)| {
            let mut elements = Vec::new();
            [one, other].iter().for_each(|part| crate::data::listpack::Element::of(part).append(&mut elements));
            Node::Packed { elements: elements.into(), count: 2 }
        });
        let list = Content::List(nodes.collect());
        prop_assert_eq!(load(&dump(&list, &profile), &profile), Ok(list));
        // A listpack stores a score of -0 as the integer 0.
        let rows = parts.iter().map(|(member, _, score)| (cow(member), if *score == 0.0 { 0.0 } else { *score }));
        let mut rows: Vec<_> = rows.filter(|row| !row.1.is_nan()).collect();
        let payload = dump(&Content::SortedSet { rows: rows.clone(), packed }, &profile);
        if !packed {
            rows.reverse();
        }
        prop_assert_eq!(load(&payload, &profile), Ok(Content::SortedSet { rows, packed }));
    }

    #[test]
    fn ziplists_are_read_as_they_are_written(elements in prop::collection::vec(value(), 0..20), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut written = ziplist::write(elements.iter().map(Vec::as_slice));
        prop_assert_eq!(ziplist::read(&written), Some(elements.into_iter().map(Cow::Owned).collect()));
        let at = at.index(written.len());
        written[at] = byte;
        let _ = (ziplist::read(&written), zipmap::read(&written));
    }

    #[test]
    fn any_flipped_bit_is_noticed(value in value(), at in any::<prop::sample::Index>(), bit in 0..8) {
        let profile = Profile::default();
        let mut payload = dump_string(&value, &profile);
        let at = at.index(payload.len());
        payload[at] ^= 1u8 << bit;
        prop_assert_eq!(load_string(&payload, &profile), Err(PayloadError::Footer));
    }

    #[test]
    fn no_content_is_too_strange(body in prop::collection::vec(any::<u8>(), 0..64)) {
        for kind in 0..32 {
            for name in ["redis-7.0", "redis-8.4", "valkey-9.1"] {
                let _ = load(&signed(&[&[kind], &body[..]].concat(), 10), &profile(name));
            }
            // The content that most types have: one string.
            let _ = load(&signed(&[&[kind, body.len() as u8], &body[..]].concat(), 10), &Profile::default());
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
