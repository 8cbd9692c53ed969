//! One thread and two that run commands in an engine without sockets, on keys that only they touch.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use arrayvec::ArrayVec;
use rustix::time::{ClockId, clock_gettime};

use redouble::Profile;
use redouble::internals::{Client, Engine, Fibers, Framer, Instance, Limits, Peer, Session, Table, all_commands};

use super::peers::can_pin;
use super::support::{Outcome, median, request};

const BATCH: usize = 16;
const KEYS: u64 = 100_000;
const BATCHES: u64 = 1000;
/// So often the kinds of runs take turns, because a processor is not always as fast.
const TURNS: usize = 5;
const LIMITS: Limits = Limits { bulk: 512 << 20, authenticated: true };

/// The release script of lock libraries.
const RELEASE: &[u8] =
    br#"if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end"#;

struct Load {
    title: &'static str,
    /// Of each thread in a round, which is shorter than the time that a scheduler gives to a thread.
    requests: usize,
    request: fn(u64) -> Vec<u8>,
}

const VALUE: [u8; 64] = [b'v'; 64];

const LOADS: &[Load] = &[
    Load { title: "SET", requests: 8000, request: |number| request(&[b"SET", &key(number), &VALUE]) },
    Load { title: "GET", requests: 8000, request: |number| request(&[b"GET", &key(number)]) },
    Load {
        title: "SETNX of a key that exists",
        requests: 8000,
        request: |number| request(&[b"SETNX", &key(number), b"1"]),
    },
    Load {
        title: "DEL and SET in turn",
        requests: 8000,
        request: |number| match number % 2 {
            0 => request(&[b"DEL", &key(number)]),
            _ => request(&[b"SET", &key(number - 1), &VALUE]),
        },
    },
    Load {
        title: "MSET of two keys",
        requests: 4000,
        request: |number| request(&[b"MSET", &key(number), &VALUE, &key(number ^ 1), &VALUE]),
    },
    Load {
        title: "EVAL of a release by somebody else",
        requests: 800,
        request: |number| request(&[b"EVAL", RELEASE, b"1", &key(number), b"other"]),
    },
];

fn key(number: u64) -> Vec<u8> {
    format!("key:{number:012}").into_bytes()
}

/// How a load is run.
#[derive(Clone, Copy)]
enum Run {
    OneThread,
    OneEngine,
    /// Two threads with nothing in common: what the machine itself allows.
    EngineEach,
}

/// A round in which a thread had its processor for less of the time does not count: the threads did not run side by side.
const UNDISTURBED: f64 = 0.97;

/// What a thread took for a round, in seconds.
#[derive(Clone, Copy)]
struct Round {
    elapsed: f64,
    cpu: f64,
}

pub fn compare(rounds: usize) -> Outcome<()> {
    const TITLE: &str = "In one process, without sockets: two threads that run commands in batches";
    if !super::is_wanted(TITLE) {
        return Ok(());
    }
    println!("\n{TITLE} of {BATCH}, each on {} keys of its own.", KEYS / 2);
    println!("Medians of those of {rounds} short rounds in which no thread waited for its processor.");
    println!("In the last column, the two have an engine each: what the machine allows.\n");
    println!(
        "| | ns, 1 thread | ns, 2 threads | requests/s, of 1 thread | with an engine each |\n|---|---|---|---|---|"
    );
    let wanted = std::env::var("LOAD").unwrap_or_default();
    for load in LOADS.iter().filter(|load| load.title.contains(&wanted)) {
        let mut seen: [Vec<f64>; 3] = Default::default();
        for _ in 0..TURNS {
            for (run, seen) in [Run::OneThread, Run::OneEngine, Run::EngineEach].into_iter().zip(&mut seen) {
                seen.extend(measure(load, run, rounds.div_ceil(TURNS))?);
            }
        }
        if seen.iter().any(Vec::is_empty) {
            println!("| {} | the machine is too busy |", load.title);
            continue;
        }
        let [one, two, apart] = seen.map(median);
        println!("| {} | {one:.0} | {two:.0} | {:.2} | {:.2} |", load.title, 2.0 * one / two, 2.0 * one / apart);
    }
    Ok(())
}

/// Nanoseconds of each request of a thread, in the rounds that count.
fn measure(load: &Load, run: Run, rounds: usize) -> Outcome<Vec<f64>> {
    let engines = match run {
        Run::EngineEach => vec![engine(), engine()],
        _ => vec![engine()],
    };
    let threads = if matches!(run, Run::OneThread) { 1 } else { 2 };
    let gate = AtomicUsize::new(0);
    let workers = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|number| {
                let (engine, gate) = (Arc::clone(&engines[number % engines.len()]), &gate);
                scope.spawn(move || {
                    let wait = |round: usize| {
                        gate.fetch_add(1, Ordering::AcqRel);
                        for turn in 0_u32.. {
                            match turn {
                                _ if gate.load(Ordering::Acquire) >= threads * (round + 1) => break,
                                0..1000 => std::hint::spin_loop(),
                                _ => thread::yield_now(),
                            }
                        }
                    };
                    work(engine, number, wait, load, rounds)
                })
            })
            .collect();
        let joined = workers.into_iter().map(|worker| worker.join().map_err(|_| "a thread has panicked"));
        joined.collect::<Result<Vec<_>, _>>()
    })?;
    let of_round = |round: usize| {
        let rounds = || workers.iter().map(|rounds| rounds[round]);
        let slowest = rounds().map(|round| round.elapsed).fold(0.0, f64::max);
        rounds().all(|round| round.cpu > round.elapsed * UNDISTURBED).then(|| slowest * 1e9 / load.requests as f64)
    };
    Ok((0..rounds).filter_map(of_round).collect())
}

fn engine() -> Arc<Engine> {
    Arc::new(Engine::new(Arc::new(Instance::default()), Table::new(all_commands(), Profile::default())))
}

/// Writes the keys of a thread, then runs its batches.
fn work(engine: Arc<Engine>, number: usize, wait: impl Fn(usize), load: &Load, rounds: usize) -> Vec<Round> {
    pin_this_thread(number);
    let mut connection = Connection::new(engine, number);
    let (first, keys) = (KEYS / 2 * number as u64, KEYS / 2);
    (first..first + keys).for_each(|key_number| connection.run(&request(&[b"SET", &key(key_number), &VALUE])));
    let mut random = number as u64 + 1;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        first + (random >> 33) % keys
    };
    let alternating = load.title.starts_with("DEL");
    let batches: Vec<Vec<u8>> = (0..BATCHES)
        .map(|_| {
            let mut last = 0;
            let numbers = (0..BATCH).map(|at| {
                last = match (alternating, at % 2) {
                    (true, 0) => next() & !1,
                    (true, _) => last + 1,
                    (false, _) => next(),
                };
                last
            });
            numbers.flat_map(load.request).collect()
        })
        .collect();
    let mut batches = batches.iter().cycle();
    let round = |round| {
        wait(round);
        let (began, cpu) = (Instant::now(), thread_seconds());
        for batch in batches.by_ref().take(load.requests / BATCH) {
            connection.run(batch);
        }
        Round { elapsed: began.elapsed().as_secs_f64(), cpu: thread_seconds() - cpu }
    };
    (0..rounds).map(round).collect()
}

/// Two threads on one processor would never meet.
fn pin_this_thread(number: usize) {
    let Ok(path) = std::fs::read_link("/proc/thread-self") else { return };
    if let Some(thread) = path.file_name().filter(|_| can_pin()) {
        let _ = Command::new("taskset").args(["-pc", &number.to_string()]).arg(thread).stdout(Stdio::null()).status();
    }
}

pub fn thread_seconds() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// What a connection does between its socket's reads and writes.
struct Connection {
    engine: Arc<Engine>,
    session: Box<Session>,
    framer: Framer,
    fibers: Fibers,
    out: Vec<u8>,
}

impl Connection {
    fn new(engine: Arc<Engine>, thread: usize) -> Self {
        let instance = &engine.instance;
        let client = Arc::new(Client::new(1 + thread as u64, Peer::Unix { path: "bench".into(), pid: None }, -1, 0));
        let session = Box::new(Session::new(client, instance.acl.default_user(), instance.stats.thread(thread)));
        Self { engine, session, framer: Framer::default(), fibers: Fibers::default(), out: Vec::new() }
    }

    fn run(&mut self, input: &[u8]) {
        let Self { engine, session, framer, fibers, out } = self;
        out.clear();
        let (mut framed_requests, mut hashes) = (ArrayVec::<_, BATCH>::new(), ArrayVec::<u64, BATCH>::new());
        let mut rest = input;
        while let Ok(Some(framed)) = framer.next(rest, LIMITS) {
            let resolved = engine.resolve(framer.words(framed, rest));
            hashes.extend(resolved.as_ref().ok().and_then(|resolved| resolved.hash()));
            framed_requests.push((framed, resolved));
            rest = &rest[framed.length()..];
        }
        engine.fetch_ahead(session.db, &hashes);
        let mut rest = input;
        for (framed, resolved) in framed_requests {
            let words = framer.words(framed, rest);
            std::hint::black_box(engine.execute(session, resolved, words, out, fibers));
            rest = &rest[framed.length()..];
        }
        engine.end_calls(session, input);
        framer.forget();
    }
}
