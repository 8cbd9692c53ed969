//! Properties of any request, in any fragmentation. redis-protocol is the oracle.

use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use redis_protocol::resp2::decode::decode_bytes;
use redis_protocol::resp2::encode::extend_encode;
use redis_protocol::resp2::types::BytesFrame;

use super::*;

const LIMITS: Limits = Limits { bulk: 512 << 20, authenticated: true };

type Request = Vec<Vec<u8>>;

/// The result of framing some bytes: the requests, and the error behind them.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    requests: Vec<Request>,
    error: Option<ProtocolError>,
}

/// Feeds the bytes in pieces, and runs every request as soon as it is complete, as a connection does.
fn arrive(bytes: &[u8], cuts: &[usize]) -> Outcome {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.push(bytes.len());
    cuts.sort_unstable();
    let mut framer = Framer::default();
    let mut outcome = Outcome::default();
    let mut done = 0;
    for cut in cuts {
        loop {
            match framer.next(&bytes[done..cut], LIMITS) {
                Ok(Some(framed)) => {
                    if !framed.is_empty() {
                        let words = framer.words(framed, &bytes[done..]);
                        outcome.requests.push(words.iter().map(<[u8]>::to_vec).collect());
                    }
                    done += framed.length();
                }
                Ok(None) => break,
                Err(error) => {
                    outcome.error = Some(error);
                    return outcome;
                }
            }
        }
        framer.forget();
    }
    outcome
}

/// The bytes of requests as redis-protocol encodes them.
fn encoded(requests: &[Request]) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    for request in requests {
        let words = request.iter().map(|word| BytesFrame::BulkString(Bytes::copy_from_slice(word))).collect();
        extend_encode(&mut bytes, &BytesFrame::Array(words), false).expect("a frame that can be written");
    }
    bytes.to_vec()
}

/// The first request in `bytes` as redis-protocol decodes it, if it is an array of bulk strings.
fn judged(bytes: &[u8]) -> Option<(Request, usize)> {
    let Ok(Some((BytesFrame::Array(words), length))) = decode_bytes(&Bytes::copy_from_slice(bytes)) else {
        return None;
    };
    let words: Option<Request> = words
        .into_iter()
        .map(|word| match word {
            BytesFrame::BulkString(bytes) => Some(bytes.to_vec()),
            _ => None,
        })
        .collect();
    Some((words.filter(|words| !words.is_empty())?, length))
}

fn word() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => vec(any::<u8>(), 0..20),
        // Words that resemble protocol.
        2 => "[*$:+\\-\r\n0-9 ]{0,12}".prop_map(String::into_bytes),
        1 => (any::<u8>(), 0usize..20_000).prop_map(|(byte, length)| std::vec::from_elem(byte, length)),
    ]
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let short = vec(word(), 1..6);
    let long = vec(vec(any::<u8>(), 0..3), 1..120);
    vec(prop_oneof![9 => short, 1 => long], 1..8)
}

proptest! {
    // The same cases in every run.
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Default::default() })]

    #[test]
    fn requests_come_out_as_they_went_in_however_they_are_split(
        requests in requests(),
        cuts in vec(any::<usize>(), 0..30),
    ) {
        let bytes = encoded(&requests);
        let outcome = arrive(&bytes, &cuts);
        prop_assert_eq!(outcome.error, None);
        prop_assert_eq!(outcome.requests, requests);
    }

    #[test]
    fn a_request_and_redis_protocol_agree_even_when_its_bytes_were_damaged(
        requests in requests(),
        damage in vec((any::<prop::sample::Index>(), prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n'), Just(b'1')]), 0..3),
    ) {
        let mut bytes = encoded(&requests);
        for (index, byte) in damage {
            *index.get_mut(&mut bytes[..]) = byte;
        }
        let mut framer = Framer::default();
        let found = match framer.next(&bytes, LIMITS) {
            Ok(Some(framed)) if !framed.is_empty() && !framed.inline => {
                let words: Request = framer.words(framed, &bytes).iter().map(<[u8]>::to_vec).collect();
                Some((words, framed.length()))
            }
            _ => None,
        };
        // redis-protocol accepts numbers that Redis rejects (`+1`, `01`), and Redis ignores the two bytes behind a
        // word. So only canonical encodings are compared.
        let is_plain = |(words, length): &(Request, usize)| encoded(std::slice::from_ref(words)) == bytes[..*length];
        prop_assert_eq!(found.clone().filter(is_plain), judged(&bytes).filter(is_plain));
    }

    #[test]
    fn any_bytes_mean_the_same_however_they_are_split(
        pieces in vec(prop_oneof![
            "[*$][0-9]{1,2}\r\n",
            "[*$]-?[0-9a-z]{0,3}\r?\n?",
            "[A-Za-z \"'\\\\]{0,8}",
            "\r\n",
            "PING\r\n",
            "[\\x00-\\x7f]{0,4}",
        ], 0..12),
        cuts in vec(any::<usize>(), 0..20),
    ) {
        let bytes = pieces.concat().into_bytes();
        prop_assert_eq!(arrive(&bytes, &cuts), arrive(&bytes, &[]));
    }

    #[test]
    fn quoted_words_come_out_of_an_inline_request_as_they_went_in(words in vec(vec(any::<u8>(), 0..20), 1..6)) {
        let mut line = Vec::new();
        for word in &words {
            line.push(b'"');
            for byte in word {
                line.extend(format!("\\x{byte:02x}").into_bytes());
            }
            line.extend(b"\" ");
        }
        line.extend(b"\r\n");
        let outcome = arrive(&line, &[]);
        prop_assert_eq!(outcome, Outcome { requests: vec![words], error: None });
    }

    #[test]
    fn what_was_framed_already_is_never_looked_at_again(requests in requests()) {
        // The words of a request are overwritten as soon as the framer has passed them.
        let bytes = encoded(&requests);
        let mut shown = bytes.clone();
        let mut framer = Framer::default();
        let (mut done, mut found) = (0, Vec::new());
        let mut end = 0;
        while end < bytes.len() {
            end += 1;
            shown[end - 1] = bytes[end - 1];
            match framer.next(&shown[done..end], LIMITS) {
                Ok(Some(framed)) => {
                    let words = framer.words(framed, &bytes[done..]);
                    found.push(words.iter().map(<[u8]>::to_vec).collect::<Vec<_>>());
                    done += framed.length();
                    framer.forget();
                }
                Ok(None) => shown[done..done + framer.at].fill(0xee),
                Err(error) => panic!("{error:?}"),
            }
        }
        prop_assert_eq!(found, requests);
    }
}

#[test]
fn a_partial_line_is_searched_only_once() {
    for (start, line_end) in
        [("*11111111111111111111", "\r\n"), ("*1\r\n$11111111111111111111", "\r\n"), ("PING PING", "\n")]
    {
        let mut framer = Framer::default();
        let mut input = start.as_bytes().to_vec();
        for _ in 0..50 {
            assert!(framer.next(&input, LIMITS).expect("not too long yet").is_none());
            // A search that starts over would find a line end in the part that was searched already.
            let seen = input.len();
            let mut changed = input.clone();
            changed.splice(seen - line_end.len()..seen, line_end.bytes());
            assert!(framer.next(&changed, LIMITS).expect("nothing that was searched again").is_none());
            input.extend([b'1'; 10]);
        }
    }
}

#[test]
fn what_a_length_merely_claims_takes_no_memory() {
    let mut framer = Framer::default();
    assert!(framer.next(b"*2147483647\r\n$536870912\r\nx", LIMITS).expect("within the limits").is_none());
    assert!(framer.spans.capacity() < 16, "room for {} words", framer.spans.capacity());
    assert_eq!(framer.needed(), 13 + 12 + (512 << 20) + 2);
}

#[test]
fn memory_that_one_request_needed_is_given_back() {
    let request: Request = std::iter::repeat_n(b"x".to_vec(), 100_000).collect();
    let bytes = encoded(std::slice::from_ref(&request));
    let mut framer = Framer::default();
    assert!(framer.next(&bytes, LIMITS).expect("a request").is_some());
    framer.forget();
    assert!(framer.spans.capacity() <= SPANS_KEPT);
}

#[test]
fn every_limit_holds_to_the_byte() {
    let outcome = |bytes: &[u8], limits| Framer::default().next(bytes, limits).map(|framed| framed.is_some());
    let small = Limits { bulk: 10, authenticated: true };
    assert_eq!(outcome(b"*1\r\n$10\r\n0123456789\r\n", small), Ok(true));
    assert_eq!(outcome(b"*1\r\n$11\r\n", small), Err(ProtocolError::InvalidLength));
    assert_eq!(outcome(b"*2147483647\r\n", small), Ok(false));
    assert_eq!(outcome(b"*2147483648\r\n", small), Err(ProtocolError::InvalidCount));

    let stranger = Limits { bulk: 512 << 20, authenticated: false };
    assert_eq!(outcome(b"*10\r\n$16384\r\n", stranger), Ok(false));
    assert_eq!(outcome(b"*11\r\n", stranger), Err(ProtocolError::UnauthenticatedCount));
    assert_eq!(outcome(b"*1\r\n$16385\r\n", stranger), Err(ProtocolError::UnauthenticatedLength));

    assert_eq!(outcome(&[b'x'; LINE_LIMIT], small), Ok(false));
    assert_eq!(outcome(&[b'x'; LINE_LIMIT + 1], small), Err(ProtocolError::BigInline));
    let count = [b"*".as_slice(), &[b'1'; LINE_LIMIT]].concat();
    assert_eq!(outcome(&count[..LINE_LIMIT], small), Ok(false));
    assert_eq!(outcome(&count, small), Err(ProtocolError::BigCountLine));
    let length = [b"*1\r\n$".as_slice(), &[b'1'; LINE_LIMIT]].concat();
    assert_eq!(outcome(&length[..LINE_LIMIT + 4], small), Ok(false));
    assert_eq!(outcome(&length, small), Err(ProtocolError::BigLengthLine));
}
