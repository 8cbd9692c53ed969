//! The protocol on real sockets: split, pipelined, binary, oversized and malformed requests; and RESP3.

use std::io::Write;
use std::thread;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use redis_protocol::resp3;

use redouble::Server;

use crate::support::process::ServerProcess;
use crate::support::wire::{Frame, Wire, request};
use crate::support::{Dice, address, profile, spawn, start};

fn wire(server: &Server) -> Wire {
    Wire::connect(address(server))
}

/// Sends bytes in these pieces and returns everything the server answers until it closes the connection.
fn conversation(address: std::net::SocketAddr, pieces: &[&[u8]]) -> Vec<u8> {
    let mut wire = Wire::connect(address);
    for piece in pieces {
        wire.send(piece);
    }
    wire.finish_sending();
    wire.read_to_end()
}

#[test]
fn requests_may_be_split_anywhere() {
    let server = spawn();
    let mut wire = wire(&server);
    // One byte at a time covers every possible split.
    let bytes = [request(&["SET", "k", "a\r\nb"]), request(&["GET", "k"]), b"PING inline\r\n".to_vec()].concat();
    for byte in &bytes {
        wire.send(std::slice::from_ref(byte));
    }
    assert_eq!(wire.expect(), Frame::status("OK"));
    assert_eq!(wire.expect(), Frame::bulk("a\r\nb"));
    assert_eq!(wire.expect(), Frame::bulk("inline"));
}

#[test]
fn a_request_waits_for_its_last_byte_and_no_longer() {
    let server = spawn();
    let mut slow = wire(&server);
    let mut other = wire(&server);
    let bytes = request(&["SET", "k", "v"]);
    slow.send(&bytes[..bytes.len() - 1]);
    // After two round trips of another client the server has read what the slow client sent.
    other.ask("PING");
    assert_eq!(other.ask("EXISTS k"), Frame::Integer(0));
    slow.send(&bytes[bytes.len() - 1..]);
    assert_eq!(slow.expect(), Frame::status("OK"));
    assert_eq!(other.ask("EXISTS k"), Frame::Integer(1));
}

#[test]
fn thousands_of_pipelined_requests_are_answered_in_order() {
    const REQUESTS: usize = 20_000;
    let server = spawn();
    let mut reader = wire(&server);
    let mut writer = reader.tcp().try_clone().expect("a second handle");
    let writing = thread::spawn(move || {
        let mut bytes = Vec::new();
        for index in 0..REQUESTS {
            bytes.extend(match index % 3 {
                0 => request(&["ECHO", &index.to_string()]),
                1 => request(&["INCR", "count"]),
                _ => format!("ECHO {index}\r\n").into_bytes(),
            });
        }
        writer.write_all(&bytes).expect("the server reads on");
    });
    for index in 0..REQUESTS {
        let expected = match index % 3 {
            1 => Frame::Integer(index as i64 / 3 + 1),
            _ => Frame::bulk(&index.to_string()),
        };
        assert_eq!(reader.expect(), expected);
    }
    writing.join().expect("everything was sent");
}

#[test]
fn every_byte_may_stand_in_keys_and_values() {
    let server = spawn();
    let mut wire = wire(&server);
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(wire.call(&[b"SET".as_slice(), &all, &all]), Frame::status("OK"));
    assert_eq!(wire.call(&[b"GET".as_slice(), &all]), Frame::Bulk(all.clone()));
    assert_eq!(wire.call(&[b"APPEND".as_slice(), &all, b"\r\n"]), Frame::Integer(258));
    assert_eq!(wire.call(&[b"KEYS".as_slice(), b"*"]), Frame::Array(vec![Frame::Bulk(all)]));
}

#[test]
fn values_may_be_large() {
    let server = spawn();
    let mut wire = wire(&server);
    let value: Vec<u8> = (0..48_000_000u32).map(|index| (index % 251) as u8).collect();
    assert_eq!(wire.call(&[b"SET".as_slice(), b"large", &value]), Frame::status("OK"));
    assert_eq!(wire.ask("STRLEN large"), Frame::Integer(value.len() as i64));
    wire.send(&request(&["GET", "large"]));
    let head = format!("${}\r\n", value.len());
    assert_eq!(wire.read_bytes(head.len()), head.as_bytes());
    assert!(wire.read_bytes(value.len()) == value, "the value came back changed");
    assert_eq!(wire.read_bytes(2), b"\r\n");
    assert_eq!(wire.ask("GETRANGE large 251 253"), Frame::bulk("\0\u{1}\u{2}"));
}

/// A very long string stays in the buffer in which it arrived, until it is edited.
#[test]
fn a_very_long_string_can_be_written_edited_and_copied_like_any_other() {
    const LENGTH: usize = 9 << 20;
    let server = spawn();
    let mut wire = wire(&server);
    let is = |wire: &mut Wire, key: &str, wanted: &[u8]| {
        let Frame::Bulk(found) = wire.ask(&format!("GET {key}")) else { panic!("no string {key}") };
        assert!(found == wanted, "the value of {key} is another");
    };
    let [one, other] = [b'1', b'2'].map(|byte| vec![byte; LENGTH]);
    let set = |key: &str, value: &[u8]| request(&[b"SET".as_slice(), key.as_bytes(), value]);
    // Behind the first one stand a whole request and the beginning of another.
    let behind = [set("a", &one), request(&["STRLEN", "a"]), b"*2\r\n$3\r\nG".to_vec()].concat();
    assert!(wire.send(&behind));
    assert_eq!((wire.expect(), wire.expect()), (Frame::status("OK"), Frame::Integer(LENGTH as i64)));
    assert!(wire.send(b"ET\r\n$4\r\nnone\r\n"));
    assert_eq!(wire.expect(), Frame::NullBulk);
    let used = wire.ask("MEMORY USAGE a").integer();
    assert_eq!(wire.ask("COPY a b"), Frame::Integer(1));
    assert_eq!(wire.ask("MEMORY USAGE b").integer(), used);
    assert_eq!(wire.ask("APPEND a x"), Frame::Integer(LENGTH as i64 + 1));
    assert_eq!(wire.ask("SETRANGE b 0 y"), Frame::Integer(LENGTH as i64));
    is(&mut wire, "a", &[one.as_slice(), b"x"].concat());
    is(&mut wire, "b", &[b"y", &one[1..]].concat());
    // Over an edited one, over one that was received, over a list, and not over anything.
    for (key, value) in [("a", &other), ("a", &one), ("list", &other)] {
        wire.ask("RPUSH list x");
        assert!(wire.send(&set(key, value)));
        assert_eq!(wire.expect(), Frame::status("OK"));
        is(&mut wire, key, value);
    }
    assert!(wire.send(&request(&[b"SETNX".as_slice(), b"a", &other])));
    assert_eq!(wire.expect(), Frame::Integer(0));
    assert!(wire.send(&request(&[b"GETSET".as_slice(), b"a", &other])));
    assert!(wire.expect() == Frame::Bulk(one));
    is(&mut wire, "a", &other);
    for (value, old) in [("short", other.as_slice()), ("other", b"short")] {
        assert!(wire.call(&["GETSET", "a", value]) == Frame::Bulk(old.to_vec()));
        is(&mut wire, "a", value.as_bytes());
    }
}

/// Long strings are sent from where the keyspace has them.
#[test]
fn a_long_string_is_sent_as_it_was_when_it_was_asked_for_whatever_becomes_of_its_key() {
    const LENGTH: usize = 3 << 20;
    let server = spawn();
    let mut other = wire(&server);
    let [old, new] = [b'1', b'2'].map(|byte| vec![byte; LENGTH]);
    let edited = [&old[..7], b"xyz".as_slice(), &old[10..]].concat();
    let write = |command: &str, key: &str| request(&[command.as_bytes(), key.as_bytes(), new.as_slice()]);
    let ways: Vec<(Vec<u8>, Option<Vec<u8>>)> = vec![
        (write("SET", "k"), Some(new.clone())),
        (request(&["SET", "k", "short"]), Some(b"short".to_vec())),
        (request(&["APPEND", "k", "x"]), Some([old.as_slice(), b"x"].concat())),
        (request(&["SETRANGE", "k", "7", "xyz"]), Some(edited)),
        (request(&["SETBIT", "k", "7", "0"]), Some([b"0".as_slice(), &old[1..]].concat())),
        (write("GETSET", "k"), Some(new.clone())),
        (request(&["GETDEL", "k"]), None),
        (request(&["SET", "k", "short", "GET"]), Some(b"short".to_vec())),
        (request(&["DEL", "k"]), None),
        (request(&["RENAME", "k", "l"]), None),
        (request(&["COPY", "other", "k", "REPLACE"]), Some(b"short".to_vec())),
        (request(&["FLUSHALL"]), None),
        (request(&["GETEX", "k", "PXAT", "1"]), None),
        (request(&["EVAL", "return redis.call('SET', KEYS[1], 'short')", "1", "k"]), Some(b"short".to_vec())),
    ];
    for (way, wanted) in ways {
        let what = String::from_utf8_lossy(&way[..way.len().min(40)]).into_owned();
        other.ask("SET other short");
        assert!(other.call(&[b"SET".as_slice(), b"k", &old]) == Frame::status("OK"));
        let mut slow = wire(&server);
        assert!(slow.send(&[request(&["GET", "k"]).repeat(3), request(&["SET", "asked", "yes"])].concat()));
        while other.ask("EXISTS asked") == Frame::Integer(0) {}
        assert!(other.send(&way));
        assert!(!other.expect().is_error(), "{what}");
        let now = other.ask("GET k");
        assert!(now == wanted.map_or(Frame::NullBulk, Frame::Bulk), "{what}");
        for _ in 0..3 {
            assert!(slow.expect() == Frame::Bulk(old.clone()), "{what}");
        }
        assert_eq!((slow.expect(), slow.ask("PING")), (Frame::status("OK"), Frame::status("PONG")));
        other.ask("DEL asked");
    }
}

#[test]
fn long_strings_come_in_their_place_among_other_replies() {
    for (protocol, journal) in [("2", "off"), ("3", "off"), ("3", "on")] {
        let server = spawn();
        let (mut wire, mut writer, mut dice) = (wire(&server), wire(&server), Dice::new(42));
        assert!(!wire.ask(&format!("REDOUBLE JOURNAL {journal}")).is_error());
        wire.ask(&format!("HELLO {protocol}"));
        let lengths = [10, 16_383, 16_384, 16_385, 40_000, 300_000, 1 << 20, 2_500_000];
        let value = |length: usize| -> Vec<u8> { (0..length).map(|at| (at * 7 + length) as u8).collect() };
        for length in lengths {
            let key = format!("k{length}");
            assert_eq!(writer.call(&[b"SET".as_slice(), key.as_bytes(), &value(length)]), Frame::status("OK"));
        }
        let bulk = |bytes: &[u8]| [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        for _ in 0..6 {
            let (mut asked, mut wanted) = (Vec::new(), Vec::new());
            for _ in 0..30 {
                let length = lengths[dice.below(lengths.len())];
                let (key, found) = (format!("k{length}"), bulk(&value(length)));
                match dice.below(9) {
                    0 => {
                        asked.extend(request(&["MULTI"]));
                        asked.extend(request(&["GET", &key]).repeat(2));
                        asked.extend(request(&["EXEC"]));
                        wanted.extend([b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n".as_slice(), &found, &found].concat());
                    }
                    1 => {
                        asked.extend(request(&["EVAL", "return redis.call('GET', KEYS[1])", "1", &key]));
                        wanted.extend(found);
                    }
                    2 => {
                        asked.extend(b"CLIENT REPLY SKIP\r\n");
                        asked.extend(request(&["GET", &key]));
                    }
                    3 => {
                        asked.extend(b"CLIENT REPLY OFF\r\n");
                        asked.extend(request(&["GET", &key]));
                        asked.extend(b"CLIENT REPLY ON\r\n");
                        wanted.extend(b"+OK\r\n");
                    }
                    4 => {
                        asked.extend(request(&[b"GETSET".as_slice(), key.as_bytes(), &value(length)]));
                        wanted.extend(found);
                    }
                    5 => {
                        asked.extend(request(&["ECHO", &key]));
                        wanted.extend(bulk(key.as_bytes()));
                    }
                    _ => {
                        asked.extend(request(&["GET", &key]));
                        wanted.extend(found);
                    }
                }
            }
            let mut sender = wire.tcp().try_clone().expect("a second handle");
            let sending = thread::spawn(move || sender.write_all(&asked).expect("the server reads on"));
            let mut read = 0;
            while read < wanted.len() {
                let most = (wanted.len() - read).min(1 + dice.below(500_000));
                assert!(wire.read_bytes(most) == wanted[read..read + most], "other bytes behind {read}");
                read += most;
            }
            sending.join().expect("all was sent");
            assert_eq!(wire.ask("PING"), Frame::status("PONG"));
        }
    }
}

/// Big words are read straight to where they stay, in room whose size depends on how they arrive.
#[test]
fn big_words_arrive_whole_however_they_are_cut_and_whatever_stands_around_them() {
    let server = spawn();
    let mut dice = Dice::new(19);
    let (mut wire, mut other) = (wire(&server), wire(&server));
    let value = |length: usize, seed: usize| -> Vec<u8> { (0..length).map(|at| (at * 7 + seed) as u8).collect() };
    let lengths = [40_000, 32 * 1024, 32 * 1024 - 1, 100_000, 1 << 20, 2_500_000, 100, 33_000, 33_000, 70_000];
    for round in 0..4 {
        let mut bytes = Vec::new();
        for (number, length) in lengths.into_iter().enumerate() {
            let (key, value) = (format!("k{number}").into_bytes(), value(length, number + round));
            // As the last word, with short ones behind it, among others, in a transaction, and behind a command that waits.
            match (number + round) % 5 {
                0 => bytes.extend(request(&[b"SET".as_slice(), key.as_slice(), &value])),
                1 => bytes.extend(request(&[b"SET".as_slice(), key.as_slice(), &value, b"EX", b"100"])),
                2 => bytes.extend(request(&[b"MSET", b"a".as_slice(), &value, key.as_slice(), &value, b"b", &value])),
                3 => {
                    bytes.extend(b"MULTI\r\n");
                    bytes.extend(request(&[b"SET".as_slice(), key.as_slice(), &value]));
                    bytes.extend(b"EXEC\r\n");
                }
                _ => {
                    bytes.extend(b"BLPOP nothing 0.001\r\n");
                    bytes.extend(request(&[b"SET".as_slice(), key.as_slice(), &value]));
                }
            }
            bytes.extend(format!("STRLEN k{number}\r\n").bytes());
        }
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let most = if dice.below(3) == 0 { 2_000_000 } else { 60_000 };
            let piece = rest.len().min(1 + dice.below(most));
            assert!(wire.send(&rest[..piece]));
            rest = &rest[piece..];
            // The server has its turn before the next piece.
            assert_eq!(other.ask("PING"), Frame::status("PONG"));
        }
        let mut seen = Vec::new();
        while seen.len() < lengths.len() {
            if let Frame::Integer(length) = wire.expect() {
                seen.push(length as usize);
            }
        }
        assert_eq!(seen, lengths);
        for (number, length) in lengths.into_iter().enumerate() {
            let Frame::Bulk(found) = other.ask(&format!("GET k{number}")) else { panic!("no value") };
            assert!(found == value(length, number + round), "the value of k{number} came back changed");
        }
    }
}

#[test]
fn a_word_longer_than_proto_max_bulk_len_is_refused() {
    let server = spawn();
    let mut wire = wire(&server);
    assert_eq!(wire.ask("CONFIG SET proto-max-bulk-len 1mb"), Frame::status("OK"));
    let value = vec![b'x'; 1 << 20];
    assert_eq!(wire.call(&[b"SET".as_slice(), b"k", &value]), Frame::status("OK"));
    assert_eq!(wire.ask("APPEND k x"), Frame::error("ERR string exceeds maximum allowed size (proto-max-bulk-len)"));
    wire.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048577\r\n");
    assert_eq!(wire.read_to_end(), b"-ERR Protocol error: invalid bulk length\r\n");
}

#[test]
fn a_request_larger_than_the_query_buffer_closes_the_connection() {
    let server = spawn();
    let mut wire = wire(&server);
    assert_eq!(wire.ask("CONFIG SET client-query-buffer-limit 1mb"), Frame::status("OK"));
    wire.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$8000000\r\n");
    wire.send(&vec![b'x'; 8_000_000]);
    assert!(wire.is_closed());
    let mut wire = self::wire(&server);
    assert_eq!(wire.ask("EXISTS k"), Frame::Integer(0));
}

/// Malformed requests, and the server's last words before it closes the connection.
const MALFORMED: &[(&[u8], &[u8])] = &[
    (b"*1\r\nPING\r\n", b"-ERR Protocol error: expected '$', got 'P'\r\n"),
    (b"*1\r\n*1\r\n", b"-ERR Protocol error: expected '$', got '*'\r\n"),
    (b"*1\r\n\r\n", b"-ERR Protocol error: expected '$', got ' '\r\n"),
    (b"*1\r\n$-1\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
    (b"*1\r\n$x\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
    (b"*1\r\n$536870913\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
    (b"*x\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
    (b"*2147483648\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
    (b"*1\r\n$4\r\nPING\r\n*x\r\n*1\r\n$4\r\nPING\r\n", b"+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n"),
    (b"PING \"\r\n", b"-ERR Protocol error: unbalanced quotes in request\r\n"),
    (b"PING 'a'b\r\n", b"-ERR Protocol error: unbalanced quotes in request\r\n"),
    (b"POST / HTTP/1.1\r\nHost: a\r\n\r\n", b""),
    (b"Host: a\r\n", b""),
    // The security abort drops the replies to earlier commands, too.
    (b"*1\r\n$4\r\nPING\r\nhost: a\r\nPING\r\n", b""),
];

#[test]
fn what_is_no_request_is_refused_word_for_word_and_the_connection_closes() {
    let server = spawn();
    for (bytes, answer) in MALFORMED {
        let mut wire = wire(&server);
        wire.send(bytes);
        // The client keeps its sending side open, so it is the server that closes.
        let got = wire.read_to_end();
        assert_eq!(got, *answer, "{:?}: {:?}", String::from_utf8_lossy(bytes), String::from_utf8_lossy(&got));
    }
    for (bytes, answer) in [
        (vec![b'x'; 70_000], "-ERR Protocol error: too big inline request\r\n"),
        ([b"*", vec![b'1'; 70_000].as_slice()].concat(), "-ERR Protocol error: too big mbulk count string\r\n"),
        ([b"*1\r\n$", vec![b'1'; 70_000].as_slice()].concat(), "-ERR Protocol error: too big bulk count string\r\n"),
    ] {
        let mut wire = wire(&server);
        wire.send(&bytes);
        assert_eq!(String::from_utf8_lossy(&wire.read_to_end()), answer);
    }
}

#[test]
fn a_line_that_does_not_end_in_crlf_is_refused_by_valkey_and_passed_over_by_redis() {
    let refused = "-ERR Protocol error: invalid CRLF in request\r\n";
    for (name, answer) in [("valkey-9.1", refused), ("redis-7.0", "+PONG\r\n")] {
        let server = start(Server::builder().compat(profile(name)));
        for request in ["*1\r\n$4\r\nPINGab", "*1\r\n$4\r\nPING\rb", "*1\r\n$4\rxPING\r\n", "*1\rx$4\r\nPING\r\n"] {
            let mut wire = wire(&server);
            wire.send(request.as_bytes());
            wire.send(b"QUIT\r\n");
            let got = wire.read_to_end();
            assert!(got.starts_with(answer.as_bytes()), "{request:?}: {:?}", String::from_utf8_lossy(&got));
        }
    }
}

/// Fragments of protocol, complete and broken, that make up random conversations.
fn fragments() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(request(&["PING"])),
        2 => Just(request(&["GET", "k"])),
        2 => Just(request(&["SET", "k", "v"])),
        2 => vec(any::<u8>(), 0..8).prop_map(|word| request(&[b"ECHO".as_slice(), &word])),
        2 => vec(vec(any::<u8>(), 0..5), 0..4).prop_map(|words| request(&words)),
        1 => Just(request(&["MULTI"])),
        1 => Just(request(&["EXEC"])),
        1 => Just(request(&["QUIT"])),
        2 => Just(b"PING\r\n".to_vec()),
        2 => Just(b"echo \"a\\x41\" \n".to_vec()),
        1 => "[*$][0-9]{1,2}\r\n".prop_map(String::into_bytes),
        1 => "[*$:+-][-+ ]?[0-9a-z]{0,4}\r?\n?".prop_map(String::into_bytes),
        1 => "[ \"'\\\\a-c\r\n]{0,6}".prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..6),
    ];
    vec(piece, 1..8).prop_map(|pieces| pieces.concat())
}

#[test]
fn whatever_arrives_is_answered_as_redis_answers_it() {
    let redis = ServerProcess::redis(&[]);
    let server = start(Server::builder().compat(profile(crate::support::CHECKED_PROFILE)));
    let config = ProptestConfig {
        cases: 1500,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(fragments in fragments(), cut in any::<prop::sample::Index>())| {
        // FLUSHALL removes what an earlier conversation has written.
        let bytes = [request(&["FLUSHALL"]), fragments].concat();
        let cut = cut.index(bytes.len() + 1);
        let expected = conversation(redis.address(), &[&bytes]);
        for pieces in [&[bytes.as_slice()][..], &[&bytes[..cut], &bytes[cut..]]] {
            let got = conversation(address(&server), pieces);
            prop_assert_eq!(
                String::from_utf8_lossy(&got), String::from_utf8_lossy(&expected), "{:?}", String::from_utf8_lossy(&bytes)
            );
        }
    });
}

#[test]
fn hello_3_switches_to_resp3_and_hello_2_back() {
    let server = start(Server::builder().compat(profile(crate::support::CHECKED_PROFILE)));
    let mut wire = wire(&server);
    assert_eq!(wire.ask("GET missing"), Frame::NullBulk);
    let Frame::Map(hello) = wire.ask("HELLO 3") else { panic!("HELLO 3 answers with a map") };
    assert_eq!(hello[..2], [Frame::bulk("server"), Frame::bulk("redis")]);
    assert_eq!(hello[4..6], [Frame::bulk("proto"), Frame::Integer(3)]);
    assert_eq!(wire.ask("GET missing"), Frame::Null);
    assert_eq!(wire.ask("MGET missing"), Frame::Array(vec![Frame::Null]));
    assert!(matches!(wire.ask("CONFIG GET port"), Frame::Map(_)));
    assert!(matches!(wire.ask("INFO server"), Frame::Verbatim(_)));
    assert!(matches!(wire.ask("HELLO 2"), Frame::Array(_)));
    assert_eq!(wire.ask("GET missing"), Frame::NullBulk);
    assert_eq!(wire.ask("HELLO 4"), Frame::error("NOPROTO unsupported protocol version"));
    assert_eq!(wire.ask("GET missing"), Frame::NullBulk);
}

#[test]
fn what_resp3_clients_get_is_resp3_to_the_last_byte() {
    let server = spawn();
    let mut bytes = Vec::new();
    let commands = [
        "HELLO 3",
        "SET k v",
        "GET k",
        "GET missing",
        "MGET k missing",
        "INCR k",
        "TIME",
        "CONFIG GET *",
        // Histories are sets of arrays, which the decoder cannot hold. These have none.
        "COMMAND DOCS GET STRLEN",
        "COMMAND LIST",
        "INFO",
        "CLIENT LIST",
        "LCS k k IDX",
        "MULTI",
        "GET missing",
        "EXEC",
        "SCAN 0",
        "RESET",
    ];
    for command in commands {
        bytes.extend(request(&command.split(' ').collect::<Vec<_>>()));
    }
    let mut answer = bytes::Bytes::from(conversation(address(&server), &[&bytes]));
    for command in commands {
        let decoded =
            resp3::decode::complete::decode_bytes(&answer).unwrap_or_else(|error| panic!("{command}: {error}"));
        let (_, length) = decoded.unwrap_or_else(|| panic!("{command}: half a reply"));
        answer = answer.slice(length..);
    }
    assert!(answer.is_empty(), "more than was asked for: {answer:?}");
}
