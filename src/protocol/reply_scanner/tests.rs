//! Properties of any reply, in any pieces. redis-protocol is the oracle.

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use redis_protocol::resp3::decode::complete::decode;

use super::*;

/// The bytes of any reply. `depth` limits how deep it nests.
fn reply(depth: u32) -> BoxedStrategy<Vec<u8>> {
    let text = "[a-z0-9 .:*$+-]{0,12}";
    let line = |kind: &'static str| text.prop_map(move |text| format!("{kind}{text}\r\n").into_bytes());
    let bulk = |kind: &'static str| {
        vec(any::<u8>(), 0..40)
            .prop_map(move |bytes| [format!("{kind}{}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat())
    };
    let number = any::<i64>().prop_map(|number| format!(":{number}\r\n").into_bytes());
    let verbatim = text.prop_map(|text| format!("={}\r\ntxt:{text}\r\n", text.len() + 4).into_bytes());
    let others = prop_oneof![
        Just(b"_\r\n".to_vec()),
        Just(b"#t\r\n".to_vec()),
        Just(b",1.5\r\n".to_vec()),
        Just(b"(12345678901234567890\r\n".to_vec()),
    ];
    let simple = prop_oneof![line("+"), line("-"), number, bulk("$"), bulk("!"), verbatim, others];
    if depth == 0 {
        return simple.boxed();
    }
    let list = (prop_oneof![Just("*"), Just("~")], vec(reply(depth - 1), 0..4))
        .prop_map(|(kind, values)| [format!("{kind}{}\r\n", values.len()).into_bytes(), values.concat()].concat());
    let map = vec((reply(0), reply(depth - 1)), 0..3).prop_map(|pairs| {
        let values: Vec<Vec<u8>> = pairs.iter().flat_map(|(key, value)| [key.clone(), value.clone()]).collect();
        [format!("%{}\r\n", pairs.len()).into_bytes(), values.concat()].concat()
    });
    prop_oneof![3 => simple, 2 => list, 1 => map].boxed()
}

/// Where the first reply ends, if the bytes come in pieces of these lengths.
fn end_in_pieces(bytes: &[u8], lengths: &[usize]) -> Result<Option<usize>, NoReply> {
    let mut scanner = ReplyScanner::default();
    let mut at = 0;
    let mut lengths = lengths.iter().copied().cycle();
    while at < bytes.len() {
        let piece = &bytes[at..(at + lengths.next().unwrap_or(1).max(1)).min(bytes.len())];
        if let Some(end) = scanner.next(piece)? {
            return Ok(Some(at + end));
        }
        at += piece.len();
    }
    Ok(None)
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_reply_ends_where_redis_protocol_ends_it_in_whatever_pieces_it_comes(
        reply in reply(3),
        behind in vec(any::<u8>(), 0..20),
        lengths in vec(1_usize..30, 1..6),
    ) {
        let bytes = [reply.as_slice(), &behind].concat();
        prop_assert_eq!(end_in_pieces(&bytes, &[bytes.len()]), Ok(Some(reply.len())));
        prop_assert_eq!(end_in_pieces(&bytes, &lengths), Ok(Some(reply.len())));
        let decoded = decode(&BytesMut::from(bytes.as_slice()).freeze());
        if let Ok(Some((_, length))) = decoded {
            prop_assert_eq!(length, reply.len());
        }
    }

    #[test]
    fn a_reply_that_is_cut_off_has_no_end(reply in reply(3), cut in any::<prop::sample::Index>()) {
        let cut = cut.index(reply.len());
        prop_assert_eq!(end_in_pieces(&reply[..cut], &[reply.len()]), Ok(None));
    }

    #[test]
    fn any_bytes_are_a_reply_or_none_and_never_a_panic(bytes in vec(any::<u8>(), 0..60), lengths in vec(1_usize..9, 1..4)) {
        let whole = end_in_pieces(&bytes, &[bytes.len()]);
        // A reply that ends is found before what is wrong behind it, in pieces, too.
        prop_assert_eq!(whole, end_in_pieces(&bytes, &lengths));
    }

    #[test]
    fn the_elements_of_an_array_are_its_replies(replies in vec(reply(2), 0..6)) {
        let array = [format!("*{}\r\n", replies.len()).into_bytes(), replies.concat()].concat();
        let elements = array_elements(&array);
        prop_assert_eq!(elements, Some(replies.iter().map(Vec::as_slice).collect()));
    }
}

#[test]
fn nulls_attributes_and_messages_end_where_they_end() {
    for reply in [
        "$-1\r\n",
        "*-1\r\n",
        "*0\r\n",
        "|1\r\n+key\r\n:1\r\n+OK\r\n",
        "*2\r\n|1\r\n+key\r\n*1\r\n:1\r\n+a\r\n+b\r\n",
        "|0\r\n+OK\r\n",
        ">2\r\n+message\r\n$1\r\nx\r\n",
        "+\r\n",
    ] {
        let bytes = [reply.as_bytes(), b":1\r\n"].concat();
        for length in [1, 2, 3, bytes.len()] {
            assert_eq!(end_in_pieces(&bytes, &[length]), Ok(Some(reply.len())), "{reply:?}");
        }
    }
}

#[test]
fn what_is_no_reply_is_refused() {
    for bytes in ["hello\r\n", "$x\r\n", "$-2\r\n", "*--1\r\n", "%-1\r\n", "$9999999999999999999\r\n", "\r\n", "$?\r\n"]
    {
        assert_eq!(end_in_pieces(bytes.as_bytes(), &[bytes.len()]), Err(NoReply), "{bytes:?}");
    }
    let deep = "*1\r\n".repeat(DEEPEST + 1);
    assert_eq!(end_in_pieces(deep.as_bytes(), &[deep.len()]), Err(NoReply));
}
