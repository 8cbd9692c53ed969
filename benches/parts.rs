//! Microbenchmarks of the hot path: framing, the ends of replies, the keyspace, and whole commands without a socket.

use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use redis_protocol::{resp2, resp3};
use redouble::Profile;
use redouble::internals::{
    Client, Clock, Engine, Expiry, Fibers, Framer, Instance, Keyspace, Limits, Peer, ReplyScanner, Session, Table,
    all_commands, hash_of,
};

const BATCH: usize = 16;
const KEYS: usize = 100_000;
/// The most bytes that come from a server at once.
const PIECE: usize = 16 * 1024;

fn request(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
    }
    bytes
}

fn pipeline(words: &[&str]) -> Vec<u8> {
    request(words).repeat(BATCH)
}

const LIMITS: Limits = Limits { bulk: 512 << 20, authenticated: true };

fn frame_all(framer: &mut Framer, input: &[u8]) -> usize {
    let mut rest = input;
    let mut requests = 0;
    while let Ok(Some(framed)) = framer.next(rest, LIMITS) {
        black_box(framer.words(framed, rest).len());
        rest = &rest[framed.length()..];
        requests += 1;
    }
    framer.forget();
    requests
}

fn framer(c: &mut Criterion) {
    let value = "v".repeat(64);
    let mut group = c.benchmark_group("framer");
    group.throughput(Throughput::Elements(BATCH as u64));
    let input = pipeline(&["SET", "key:000000000042", &value]);
    let mut framer = Framer::default();
    group.bench_function("16 SET", |b| b.iter(|| assert_eq!(frame_all(&mut framer, black_box(&input)), BATCH)));

    // One byte at a time: the cost per byte must not depend on what arrived before.
    let big = request(&["SET", "key", &"v".repeat(64 * 1024)]);
    group.throughput(Throughput::Bytes(big.len() as u64));
    group.bench_function("64 KiB in pieces of 64 bytes", |b| {
        b.iter(|| {
            let mut framer = Framer::default();
            for end in (64..big.len()).step_by(64) {
                assert!(matches!(framer.next(&big[..end], LIMITS), Ok(None)));
            }
            assert!(matches!(framer.next(&big, LIMITS), Ok(Some(_))));
        });
    });
    group.finish();
}

/// Where the replies of a server end: our scanner, and redis-protocol's decoders. `decode_range` makes no value of a string;
/// `decode_bytes_mut` makes one that shares the memory of the input, which a proxy would have to copy there.
fn replies(c: &mut Criterion) {
    let mut group = c.benchmark_group("replies");
    let bulk = |length: usize| format!("${length}\r\n{}\r\n", "v".repeat(length));
    for (title, reply, count) in [
        ("+OK", "+OK\r\n".to_owned(), BATCH),
        ("64 bytes", bulk(64), BATCH),
        ("an array of 100 strings of 20 bytes", format!("*100\r\n{}", bulk(20).repeat(100)), 1),
        ("64 KiB", bulk(64 * 1024), 1),
    ] {
        let input = reply.repeat(count).into_bytes();
        group.throughput(Throughput::Elements(count as u64));
        let mut scanner = ReplyScanner::default();
        group.bench_function(format!("{count} {title}, our scanner"), |b| {
            b.iter(|| count_ends(count, black_box(&input), |rest| scanner.next(rest).ok()?));
        });
        group.bench_function(format!("{count} {title}, resp2 decode_range"), |b| {
            b.iter(|| count_ends(count, black_box(&input), |rest| Some(resp2::decode::decode_range(rest).ok()??.1)));
        });
        group.bench_function(format!("{count} {title}, resp3 decode_range"), |b| {
            let end = |rest: &[u8]| Some(resp3::decode::complete::decode_range(rest).ok()??.1);
            b.iter(|| count_ends(count, black_box(&input), end));
        });
        let mut buffer = BytesMut::new();
        group.bench_function(format!("{count} {title}, resp3 decode_bytes_mut"), |b| {
            b.iter(|| {
                buffer.extend_from_slice(black_box(&input));
                let mut replies = 0;
                while let Ok(Some(frame)) = resp3::decode::complete::decode_bytes_mut(&mut buffer) {
                    black_box(frame);
                    replies += 1;
                }
                assert_eq!(replies, count);
            });
        });
    }
    // A decoder that is given a part begins again with the next one.
    let whole = format!("*10000\r\n{}", bulk(100).repeat(10_000)).into_bytes();
    let piecewise = |end: &mut dyn FnMut(usize, usize) -> bool| {
        let ends = (0..whole.len()).step_by(PIECE).filter(|at| end(*at, (at + PIECE).min(whole.len()))).count();
        assert_eq!(ends, 1);
    };
    group.throughput(Throughput::Bytes(whole.len() as u64));
    let mut scanner = ReplyScanner::default();
    group.bench_function("1 MB in pieces of 16 KB, our scanner", |b| {
        b.iter(|| piecewise(&mut |from, to| matches!(scanner.next(&whole[from..to]), Ok(Some(_)))));
    });
    group.sample_size(10);
    group.bench_function("1 MB in pieces of 16 KB, resp2 decode_range", |b| {
        b.iter(|| piecewise(&mut |_, to| matches!(resp2::decode::decode_range(&whole[..to]), Ok(Some(_)))));
    });
    group.bench_function("1 MB in pieces of 16 KB, resp3 decode_range", |b| {
        b.iter(|| piecewise(&mut |_, to| matches!(resp3::decode::complete::decode_range(&whole[..to]), Ok(Some(_)))));
    });
    group.finish();
}

fn count_ends(count: usize, input: &[u8], mut end: impl FnMut(&[u8]) -> Option<usize>) {
    let (mut rest, mut replies) = (input, 0);
    while let Some(length) = end(rest) {
        rest = &rest[length..];
        replies += 1;
    }
    assert_eq!(replies, count);
}

fn keyspace(c: &mut Criterion) {
    let clock = Clock::new();
    let keyspace = Keyspace::new(1, &clock);
    let keys: Vec<Vec<u8>> = (0..KEYS).map(|number| format!("key:{number:012}").into_bytes()).collect();
    let write = |key: &[u8]| {
        let mut view = keyspace.lock_key(key, hash_of(key), 0, &clock).unwrap();
        view.set_string(key, &[b'v'; 64], Expiry::Never);
        view.finish();
    };
    keys.iter().for_each(|key| write(key));

    let mut group = c.benchmark_group("keyspace");
    group.throughput(Throughput::Elements(1));
    let mut turn = (0..KEYS).cycle();
    group.bench_function("write", |b| b.iter(|| write(&keys[turn.next().unwrap_or(0)])));
    group.bench_function("read", |b| {
        b.iter(|| {
            let key = &keys[turn.next().unwrap_or(0)];
            let mut view = keyspace.lock_key(key, hash_of(key), 0, &clock).unwrap();
            black_box(view.string(key).is_ok());
            view.finish();
        });
    });
    // Each thread does the same number of writes to keys of its own, in batches as a connection runs them. The time
    // should equal that of one thread.
    for threads in [1, 2] {
        group.throughput(Throughput::Elements(threads as u64));
        group.bench_function(format!("write, disjoint keys, {threads} threads"), |b| {
            b.iter_custom(|rounds| in_parallel(threads, rounds, &keyspace, &keys, &write));
        });
    }
    group.finish();
}

#[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn in_parallel(
    threads: usize,
    rounds: u64,
    keyspace: &Keyspace,
    keys: &[Vec<u8>],
    write: &(impl Fn(&[u8]) + Sync),
) -> Duration {
    let start = Barrier::new(threads + 1);
    thread::scope(|scope| {
        let workers: Vec<_> = keys
            .chunks(keys.len() / threads)
            .take(threads)
            .map(|own| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    let mut keys = own.iter().cycle();
                    for _ in 0..rounds.div_ceil(BATCH as u64) {
                        let batch: [&Vec<u8>; BATCH] = std::array::from_fn(|_| keys.next().unwrap_or(&own[0]));
                        keyspace.fetch_ahead(0, &batch.map(|key| hash_of(key)));
                        batch.iter().for_each(|key| write(key));
                    }
                })
            })
            .collect();
        start.wait();
        let started = Instant::now();
        for worker in workers {
            assert!(worker.join().is_ok());
        }
        started.elapsed()
    })
}

/// A server without sockets.
struct Commands {
    engine: Arc<Engine>,
    session: Box<Session>,
    framer: Framer,
    fibers: Fibers,
    out: Vec<u8>,
}

impl Commands {
    fn new() -> Self {
        let instance = Arc::new(Instance::default());
        let engine = Arc::new(Engine::new(Arc::clone(&instance), Table::new(all_commands(), Profile::default())));
        let peer = Peer::Unix { path: "bench".into(), pid: None };
        let client = Arc::new(Client::new(1, peer, -1, 0));
        let session = Box::new(Session::new(client, instance.acl.default_user(), instance.stats.thread(0)));
        Self { engine, session, framer: Framer::default(), fibers: Fibers::default(), out: Vec::new() }
    }

    fn run(&mut self, input: &[u8]) {
        let Self { engine, session, framer, fibers, out } = self;
        out.clear();
        let Ok(Some(framed)) = framer.next(input, LIMITS) else { return };
        let words = framer.words(framed, input);
        let resolved = engine.resolve(words);
        black_box(engine.execute(session, resolved, words, out, fibers));
        framer.forget();
    }
}

fn dispatch(c: &mut Criterion) {
    let mut commands = Commands::new();
    let mut group = c.benchmark_group("dispatch");
    group.throughput(Throughput::Elements(1));
    for words in [
        &["PING"][..],
        &["SETNX", "lock.foo", "1700000000"],
        &["GETSET", "lock.foo", "1700000000"],
        &["SET", "lock.foo", "token", "NX", "PX", "30000"],
        &["GET", "lock.foo"],
    ] {
        let input = request(words);
        group.bench_function(words.join(" "), |b| b.iter(|| commands.run(&input)));
    }
    group.finish();
}

/// Commands on collections of growing size. O(1) commands should take as long on the largest as on the smallest; the
/// others get slower, more so beyond the size of the processor cache.
fn growth(c: &mut Criterion) {
    let mut commands = Commands::new();
    let mut group = c.benchmark_group("growth");
    group.throughput(Throughput::Elements(1));
    for size in [1_000, 10_000, 100_000, 1_000_000_u64] {
        let (list, sorted) = (format!("list:{size}"), format!("sorted:{size}"));
        let member = |number: u64| format!("element:{number:012}");
        for number in 0..size {
            commands.run(&request(&["RPUSH", &list, &member(number)]));
            commands.run(&request(&["ZADD", &sorted, &scattered(number, size).to_string(), &member(number)]));
        }
        let (push, pop) = (request(&["LPUSH", &list, "element"]), request(&["RPOP", &list]));
        group.bench_function(format!("LPUSH and RPOP, {size}"), |b| {
            b.iter(|| {
                commands.run(&push);
                commands.run(&pop);
            });
        });
        let len = request(&["LLEN", &list]);
        group.bench_function(format!("LLEN, {size}"), |b| b.iter(|| commands.run(&len)));

        let some = || (0..4096).map(|turn| (turn, member(scattered(turn, size))));
        let ranks: Vec<_> = some().map(|(_, member)| request(&["ZRANK", &sorted, &member])).collect();
        let mut turn = ranks.iter().cycle();
        group.bench_function(format!("ZRANK, {size}"), |b| {
            b.iter(|| turn.next().into_iter().for_each(|input| commands.run(input)));
        });
        // Each pass over the members sets another score.
        let scores: Vec<_> = (0..3_u64)
            .flat_map(|round| some().map(move |(turn, member)| (scattered(turn * 3 + round + 7, size), member)))
            .map(|(score, member)| request(&["ZADD", &sorted, &score.to_string(), &member]))
            .collect();
        let mut turn = scores.iter().cycle();
        group.bench_function(format!("ZADD, {size}"), |b| {
            b.iter(|| turn.next().into_iter().for_each(|input| commands.run(input)));
        });
    }
    group.finish();
}

/// A pseudo-random number below `size`.
fn scattered(number: u64, size: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32) % size
}

criterion_group!(parts, framer, replies, keyspace, dispatch, growth);
criterion_main!(parts);
