//! What the journal, the audit and a replica cost a running server: processor time and time per request, and memory for each
//! tracked lock.
//!
//! The processor time is that of all threads until every request is judged, the time until the last request is answered: the auditor
//! has a thread of its own.
//!
//! `make bench` runs all of it; `ONLY="SETNX"` the loads with that in their title, `ROUNDS=9` more rounds, `-- --quick` fewer
//! requests. Every round starts each server anew and measures them in turn, so that drift affects all alike; medians are
//! printed. Nothing is pinned to a processor. The limits are those that the pages promise.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

#[path = "support/options.rs"]
#[allow(dead_code, reason = "shared by benchmarks, none of which uses all of it")]
mod options;
#[expect(dead_code, reason = "only loads of its own are measured here, on redouble alone")]
#[path = "support/mod.rs"]
mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Instant;

use options::{is_wanted, redouble, rounds, some};
use support::{Outcome, Process, connect, exchange, free_port, median, redis_benchmark, request};

const CLIENTS: usize = 50;
const PER_TRIP: usize = 16;
const MANY: u64 = 100_000;
const FEW: u64 = 100;

/// How the servers differ: what each is told, and what it is measured beside.
const SERVERS: [(&str, &[&str]); 4] = [
    ("neither", &[]),
    ("--journal yes", &["--journal", "yes"]),
    ("--audit yes", &["--audit", "yes"]),
    ("--locks lock*", &["--audit", "yes", "--locks", "lock*"]),
];

/// The release script of lock libraries.
const RELEASE: &str =
    r#"if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end"#;

struct Load {
    title: &'static str,
    requests: u64,
    /// How many times the processor time of an unaudited request an audited one may take.
    limit: f64,
    sent: Sent,
}

enum Sent {
    /// By `redis-benchmark`; the command that fills the keys before, and the one that is measured.
    Benchmark(&'static [&'static str], &'static [&'static str]),
    /// By this program: each client takes locks with SET NX PX, as many as a trip has room for, and releases in its next trip
    /// those that it got. So many locks, and the command that releases them.
    Held(u64, Release),
}

#[derive(Clone, Copy)]
enum Release {
    Script,
    Delex,
    /// Without a look at the token, as many programs do: the audit tells of it.
    Del,
}

const SET: &[&str] = &["SET", "key:__rand_int__", "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv"];
const GET: &[&str] = &["GET", "key:__rand_int__"];
const NOTHING: &[&str] = &["PING"];

const LOADS: &[Load] = &[
    Load { title: "SET", requests: 1_000_000, limit: 1.3, sent: Sent::Benchmark(NOTHING, SET) },
    Load { title: "GET", requests: 1_000_000, limit: 1.3, sent: Sent::Benchmark(SET, GET) },
    Load {
        title: "SETNX of 100,000 locks",
        requests: 1_000_000,
        limit: 2.0,
        sent: Sent::Benchmark(NOTHING, &["SETNX", "lock:__rand_int__", "1700000000"]),
    },
    Load {
        title: "SET NX PX of 100,000 locks that nobody gives back",
        requests: 600_000,
        limit: 2.0,
        sent: Sent::Benchmark(NOTHING, &["SET", "lock:__rand_int__", "token", "NX", "PX", "30000"]),
    },
    Load {
        title: "SETNX of one lock",
        requests: 1_000_000,
        limit: 2.0,
        sent: Sent::Benchmark(NOTHING, &["SETNX", "lock.foo", "1700000000"]),
    },
    Load {
        title: "SET NX PX of 100,000 locks and release by script",
        requests: 800_000,
        limit: 2.0,
        sent: Sent::Held(MANY, Release::Script),
    },
    Load {
        title: "SET NX PX of 100 locks and release by script",
        requests: 800_000,
        limit: 2.0,
        sent: Sent::Held(FEW, Release::Script),
    },
    Load {
        title: "SET NX PX of 100,000 locks and release by DELEX",
        requests: 800_000,
        limit: 2.0,
        sent: Sent::Held(MANY, Release::Delex),
    },
    Load {
        title: "SET NX PX of 100,000 locks and DEL by key alone",
        requests: 800_000,
        limit: 2.0,
        sent: Sent::Held(MANY, Release::Del),
    },
];

fn main() -> Outcome<()> {
    let rounds = rounds(5);
    println!(
        "{PER_TRIP} requests per trip, {CLIENTS} connections: µs/request of the server's processor time, and until answered"
    );
    let [neither, journal, audit, declared] = SERVERS.map(|(title, _)| title);
    println!("    {:50} {neither:>13} {journal:>27} {audit:>27} {declared:>27} {:>8}", "", "at most");
    for load in LOADS.iter().filter(|load| is_wanted(load.title)) {
        let mut seen = [const { Vec::new() }; SERVERS.len()];
        for _ in 0..rounds {
            for ((_, settings), seen) in SERVERS.iter().zip(&mut seen) {
                seen.push(Server::start(settings)?.take(load)?);
            }
        }
        let [plain, others @ ..] = seen.map(Price::median);
        print!("    {:50} {:6.2} {:6.2}", load.title, plain.processor, plain.time);
        for Price { processor, time } in others {
            print!(" {processor:6.2} {:6.2} {time:6.2} {:6.2}", processor / plain.processor, time / plain.time);
        }
        println!(" {:8.1}", load.limit);
    }
    if is_wanted("replica") {
        compare_replica(rounds)?;
    }
    if is_wanted("memory") {
        compare_memory()?;
    }
    Ok(())
}

/// What it costs that a replica in the same process gets everything before each reply.
fn compare_replica(rounds: usize) -> Outcome<()> {
    println!(
        "with a replica in the process: server CPU µs/request {:>29} {:>15} {:>8}",
        "none", "--replicas 1", "at most"
    );
    for load in LOADS.iter().filter(|load| !load.title.contains("one lock") && !load.title.contains("DELEX")) {
        let mut seen = [const { Vec::new() }; 2];
        for _ in 0..rounds {
            for (settings, seen) in [&[][..], &["--replicas", "1"]].into_iter().zip(&mut seen) {
                seen.push(Server::start(settings)?.take(load)?.processor);
            }
        }
        let [alone, followed] = seen.map(median);
        println!("    {:67} {alone:9.2} {followed:9.2} {:5.2} {:8.1}", load.title, followed / alone, 1.4);
    }
    Ok(())
}

/// What the audit keeps of each of many locks.
fn compare_memory() -> Outcome<()> {
    println!("memory for each of {MANY} locks, bytes");
    for (title, trips) in [("held by one client", 1), ("held by one client, and refused to 3 others", 4)] {
        let mut seen = Vec::new();
        for (_, settings) in SERVERS {
            let server = Server::start(settings)?;
            let mut clients: Vec<TcpStream> = (0..trips).map(|_| connect(server.port)).collect::<Outcome<_>>()?;
            // The ring of the journal is used once before.
            let filler = request(&[b"GET", &[b'k'; 1000]]).repeat(PER_TRIP);
            for _ in 0..(80 << 20) / filler.len() {
                converse(&mut clients[0], &filler, PER_TRIP)?;
            }
            let before = server.process.resident()?;
            for (number, client) in (0..).zip(&mut clients) {
                for first in (0..MANY).step_by(PER_TRIP) {
                    let mut bytes = Vec::new();
                    for lock in first..first + PER_TRIP as u64 {
                        let (key, token) = (format!("lock:{lock}"), token(number * MANY + lock));
                        bytes.extend(request(&[b"SET", key.as_bytes(), token.as_bytes(), b"NX", b"PX", b"3600000"]));
                    }
                    converse(client, &bytes, PER_TRIP)?;
                }
            }
            seen.push((server.process.resident()? - before) / MANY as f64);
        }
        println!("    {title:50} {:9.0} {:15.0} {:15.0} {:15.0}", seen[0], seen[1], seen[2], seen[3]);
    }
    Ok(())
}

/// Microseconds per request.
struct Price {
    processor: f64,
    /// Until it is answered.
    time: f64,
}

impl Price {
    /// The medians.
    fn median(of: Vec<Self>) -> Self {
        let (processor, time) = of.into_iter().map(|price| (price.processor, price.time)).unzip();
        Self { processor: median(processor), time: median(time) }
    }
}

struct Server {
    process: Process,
    port: u16,
}

impl Server {
    fn start(settings: &[&str]) -> Outcome<Self> {
        /// A replica listens on the next port, which another program may have.
        const TRIES: usize = 10;
        let start = || {
            let port = free_port()?;
            let text = port.to_string();
            let words = [redouble(), "--port", &text, "--compat", "redis-8.4"];
            Ok(Self { process: Process::start(&[&words[..], settings].concat(), port)?, port })
        };
        (1..TRIES).map(|_| start()).find(Outcome::is_ok).unwrap_or_else(start)
    }

    fn take(&self, load: &Load) -> Outcome<Price> {
        let requests = some(load.requests);
        let (before, began) = match load.sent {
            Sent::Benchmark(filler, command) => {
                self.benchmark(MANY * 5, filler)?;
                let begun = self.begin()?;
                self.benchmark(requests, command)?;
                begun
            }
            Sent::Held(locks, release) => {
                let mut contenders = Contenders::connect(self.port, locks, release)?;
                let begun = self.begin()?;
                contenders.run(requests)?;
                begun
            }
        };
        let time = began.elapsed().as_secs_f64();
        self.catch_up()?;
        let per_request = |seconds: f64| seconds / requests as f64 * 1e6;
        Ok(Price { processor: per_request(self.process.processor_seconds()? - before), time: per_request(time) })
    }

    /// The processor time so far, and the time now.
    fn begin(&self) -> Outcome<(f64, Instant)> {
        self.catch_up()?;
        Ok((self.process.processor_seconds()?, Instant::now()))
    }

    /// Waits until the auditor, if there is one, has judged everything.
    fn catch_up(&self) -> Outcome<()> {
        exchange(&mut connect(self.port)?, &request(&[b"REDOUBLE", b"AUDIT", b"INFO"])).map(drop)
    }

    fn benchmark(&self, requests: u64, command: &[&str]) -> Outcome<()> {
        let mut benchmark = Command::new("redis-benchmark");
        benchmark.args(["-p", &self.port.to_string(), "-n", &requests.to_string(), "--csv", "-r", &MANY.to_string()]);
        benchmark.args(["-c", &CLIENTS.to_string(), "-P", &PER_TRIP.to_string()]).args(command);
        redis_benchmark(&mut benchmark).map(drop)
    }
}

/// Clients that take locks and release them.
struct Contenders {
    clients: Vec<Contender>,
    locks: u64,
    release: Release,
    sha: Vec<u8>,
    random: u64,
}

struct Contender {
    stream: TcpStream,
    /// The locks that it has, with their tokens.
    held: Vec<(String, String)>,
}

impl Contenders {
    fn connect(port: u16, locks: u64, release: Release) -> Outcome<Self> {
        let clients = (0..CLIENTS).map(|_| Ok(Contender { stream: connect(port)?, held: Vec::new() }));
        let mut clients: Vec<Contender> = clients.collect::<Outcome<_>>()?;
        let answer = exchange(&mut clients[0].stream, &request(&[b"SCRIPT", b"LOAD", RELEASE.as_bytes()]))?;
        let sha = answer.split(|byte| *byte == b'\n').nth(1).ok_or("no name for the script")?.trim_ascii_end().to_vec();
        Ok(Self { clients, locks, release, sha, random: 1 })
    }

    fn run(&mut self, requests: u64) -> Outcome<()> {
        for trip in 0..requests / PER_TRIP as u64 {
            let at = (trip % CLIENTS as u64) as usize;
            let mut bytes = Vec::new();
            let released = std::mem::take(&mut self.clients[at].held);
            for (key, token) in &released {
                let (key, token) = (key.as_bytes(), token.as_bytes());
                bytes.extend(match self.release {
                    Release::Script => request(&[b"EVALSHA", &self.sha, b"1", key, token]),
                    Release::Delex => request(&[b"DELEX", key, b"IFEQ", token]),
                    Release::Del => request(&[b"DEL", key]),
                });
            }
            let taken: Vec<(String, String)> = (released.len()..PER_TRIP).map(|_| self.lock()).collect();
            for (key, token) in &taken {
                bytes.extend(request(&[b"SET", key.as_bytes(), token.as_bytes(), b"NX", b"PX", b"30000"]));
            }
            let client = &mut self.clients[at];
            let answers = converse(&mut client.stream, &bytes, PER_TRIP)?;
            let answers: Vec<&[u8]> = answers.split(|byte| *byte == b'\n').collect();
            if let Some(error) = answers.iter().find(|answer| answer.starts_with(b"-")) {
                return Err(String::from_utf8_lossy(error).into_owned().into());
            }
            // Half of a trip is for releases.
            let given = taken.into_iter().zip(&answers[released.len()..]).filter(|(_, answer)| **answer == b"+OK\r");
            client.held = given.map(|(lock, _)| lock).take(PER_TRIP).collect();
        }
        Ok(())
    }

    /// A lock with a token for it, both at random.
    fn lock(&mut self) -> (String, String) {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (format!("lock:{}", (self.random >> 33) % self.locks), token(self.random))
    }
}

/// A token of 128 bits.
fn token(number: u64) -> String {
    format!("{:032x}", u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_0c83_4b2b_5a61))
}

/// Sends requests and reads as many replies, each of one line or empty.
fn converse(stream: &mut TcpStream, bytes: &[u8], replies: usize) -> Outcome<Vec<u8>> {
    stream.write_all(bytes)?;
    let mut answers = Vec::new();
    let mut part = [0; 4096];
    while answers.iter().filter(|byte| **byte == b'\n').count() < replies {
        let length = stream.read(&mut part)?;
        if length == 0 {
            return Err("the connection was closed".into());
        }
        answers.extend_from_slice(&part[..length]);
    }
    Ok(answers)
}
