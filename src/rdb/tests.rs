//! Payloads as Redis gave them, and any others.

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
        let packed = Content::Set { members: members.clone(), packed: true };
        for content in [integers, packed, Content::Set { members, packed: false }] {
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
