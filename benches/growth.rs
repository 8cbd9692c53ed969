//! How the cost of a request grows: with connections, requests per trip, bytes of a value, keys, channels and subscribers,
//! beside the Redis-compatible servers on this machine; and what a second thread brings.
//!
//! `make bench` runs all of it, with the peers of `benches/compare.rs`; `ONLY=keys` the tables with that in their title,
//! `ROUNDS=9` more rounds, `-- --quick` fewer requests. Every round measures each server in turn, so that drift affects all
//! alike; medians are printed.
//!
//! The load is this program: it sends a trip to each of its connections, then reads the replies of each. With two or more
//! processors the servers are pinned to the first and the load to the second, except where threads are compared. CPU is
//! processor time of the server; elapsed time has the load's in it, which is in the last column.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

#[path = "support/options.rs"]
#[allow(dead_code, reason = "shared by benchmarks, none of which uses all of it")]
mod options;
#[path = "support/peers.rs"]
mod peers;
#[path = "support/mod.rs"]
#[allow(dead_code, reason = "shared by benchmarks, none of which uses all of it")]
mod support;

#[path = "support/two_threads.rs"]
mod two_threads;

use std::fs;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use options::{is_quick, is_wanted, rounds, some};
use peers::{Peer, can_pin, others, pin_this_process};
use support::{Outcome, PING, Process, allow_files, connect, exchange, free_port, median, redis_benchmark, request};

/// A connection takes more than one file of some servers.
const MAX_CLIENTS: [&str; 2] = ["--maxclients", "15000"];
/// The bytes of a value, where it is not the value that grows.
const VALUE: usize = 64;
/// The keys, where it is not the keys that grow.
const KEYS: u64 = 100_000;
/// The digits of a number in a key.
const DIGITS: usize = 12;
/// So many requests are sent at once to write keys.
const AT_ONCE: u64 = 1000;

fn main() -> Outcome<()> {
    let files = allow_files()?;
    let mut peers = vec![Peer::redouble("redouble", &MAX_CLIENTS)];
    for mut peer in others()? {
        peer.command.extend(MAX_CLIENTS.map(str::to_owned));
        peers.push(peer);
    }
    let bench = Bench { peers, rounds: rounds(3), files };
    if can_pin() {
        pin_this_process("1");
    }
    bench.connections()?;
    bench.requests_per_trip()?;
    bench.values()?;
    bench.keys()?;
    bench.subscribers()?;
    bench.channels("channels", "SUBSCRIBE", "news:")?;
    bench.channels("patterns", "PSUBSCRIBE", "news:*:")?;
    if can_pin() {
        pin_this_process("0-1");
    }
    bench.threads()?;
    two_threads::compare(if is_quick() { 50 } else { 500 })?;
    Ok(())
}

struct Bench {
    peers: Vec<Peer>,
    rounds: usize,
    /// The limit of open files.
    files: u64,
}

/// What one request cost, in microseconds.
#[derive(Clone, Copy)]
struct Cost {
    cpu: f64,
    elapsed: f64,
    /// Processor time of the load.
    load: f64,
}

/// What a figure ought to do while the size grows.
#[derive(Clone, Copy, PartialEq)]
enum Promise {
    /// It stays, or falls where fixed costs are shared by more.
    Flat,
    /// It is a straight line.
    Line,
}

struct Table {
    title: &'static str,
    /// What grows.
    unit: &'static str,
    promise: Promise,
}

impl Bench {
    /// Measures all servers at each size, and prints a table.
    fn compare(
        &self,
        Table { title, unit, promise }: &Table,
        sizes: &[u64],
        servers: &[Server],
        mut measure: impl FnMut(&Server, u64) -> Outcome<Cost>,
    ) -> Outcome<()> {
        println!("\n{title}: µs of each request\n");
        let (_, others) = self.peers.split_at(1);
        let names = others.iter().map(|peer| format!(" {0} CPU | {0} elapsed | CPU ratio |", peer.name));
        let further = if *promise == Promise::Line { " ns for each further one |" } else { "" };
        println!("| {unit} | redouble CPU | elapsed |{further}{} load CPU |", names.collect::<String>());
        println!("{}", "|---".repeat(4 + others.len() * 3 + usize::from(*promise == Promise::Line)) + "|");
        let mut before: Option<(u64, f64)> = None;
        let mut firsts = Vec::new();
        let mut lasts = Vec::new();
        for &size in sizes {
            let mut seen = vec![Vec::new(); servers.len()];
            for _ in 0..self.rounds {
                for (server, seen) in servers.iter().zip(&mut seen) {
                    seen.push(measure(server, size)?);
                }
            }
            let middle = |rounds: &Vec<Cost>, of: fn(&Cost) -> f64| median(rounds.iter().map(of).collect());
            let cpu: Vec<f64> = seen.iter().map(|rounds| middle(rounds, |cost| cost.cpu)).collect();
            let elapsed: Vec<f64> = seen.iter().map(|rounds| middle(rounds, |cost| cost.elapsed)).collect();
            let load = median(seen.iter().map(|rounds| middle(rounds, |cost| cost.load)).collect());
            print!("| {size} | {:.2} | {:.2} |", cpu[0], elapsed[0]);
            if *promise == Promise::Line {
                match before {
                    Some((smaller, less)) => print!(" {:.2} |", (cpu[0] - less) * 1e3 / (size - smaller) as f64),
                    None => print!(" |"),
                }
            }
            for (cpu_of, elapsed) in cpu.iter().zip(&elapsed).skip(1) {
                print!(" {cpu_of:.2} | {elapsed:.2} | {:.2} |", cpu[0] / cpu_of);
            }
            println!(" {load:.2} |");
            before = Some((size, cpu[0]));
            if firsts.is_empty() {
                firsts.clone_from(&cpu);
            }
            lasts = cpu;
        }
        let growth = self.peers.iter().zip(firsts.iter().zip(&lasts));
        let growth: Vec<String> =
            growth.map(|(peer, (first, last))| format!("{} {:.2}", peer.name, last / first)).collect();
        println!("\nCPU of the last row, divided by that of the first: {}.", growth.join(", "));
        Ok(())
    }

    fn start(&self) -> Outcome<Vec<Server>> {
        self.peers.iter().map(|peer| Server::start(peer, Some(0))).collect()
    }

    fn start_filled(&self) -> Outcome<Vec<Server>> {
        let servers = self.start()?;
        servers.iter().try_for_each(|server| server.fill(0, KEYS, VALUE))?;
        Ok(servers)
    }

    fn connections(&self) -> Outcome<()> {
        let table = Table {
            title: "SET from growing numbers of connections, 1 per trip",
            unit: "connections",
            promise: Promise::Flat,
        };
        if !is_wanted(table.title) {
            return Ok(());
        }
        let servers = self.start_filled()?;
        let possible = |size: &u64| size + 100 < self.files;
        let sizes: Vec<u64> = [1, 10, 100, 1000, 10_000].into_iter().filter(possible).collect();
        self.compare(&table, &sizes, &servers, |server, connections| {
            let requests = if connections == 1 { 20_000 } else { 100_000 };
            server.take(&Load { connections, per_trip: 1, requests: some(requests), ..SET })
        })
    }

    fn requests_per_trip(&self) -> Outcome<()> {
        let table = Table { title: "SETs per trip, 50 connections", unit: "per trip", promise: Promise::Flat };
        if !is_wanted(table.title) {
            return Ok(());
        }
        let servers = self.start_filled()?;
        self.compare(&table, &[1, 4, 16, 64, 250, 1000], &servers, |server, per_trip| {
            let requests = if per_trip < 16 { 150_000 } else { 800_000 };
            server.take(&Load { per_trip, requests: some(requests), ..SET })
        })
    }

    fn values(&self) -> Outcome<()> {
        for (title, is_write) in
            [("SET of values, 10 connections, 1 per trip", true), ("GET of values, 10 connections, 1 per trip", false)]
        {
            if !is_wanted(title) {
                continue;
            }
            let table = Table { title, unit: "bytes of a value", promise: Promise::Line };
            let servers = self.start()?;
            let sizes = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000];
            let mut filled = vec![0; servers.len()];
            self.compare(&table, &sizes, &servers, |server, size| {
                let keys = (100_000_000 / size).clamp(10, 10_000);
                let at = servers.iter().position(|other| other.port == server.port).unwrap_or(0);
                if filled[at] != size {
                    exchange(&mut connect(server.port)?, &request(&[b"FLUSHALL", b"SYNC"]))?;
                    server.fill(0, keys, size as usize)?;
                    filled[at] = size;
                }
                // As many bytes with each size, once they are most of the work.
                let requests = some((400_000_000 / size).clamp(200, 50_000));
                let load = Load { connections: 10, per_trip: 1, requests, keys, value: size as usize, is_write };
                server.take(&load)
            })?;
        }
        Ok(())
    }

    fn keys(&self) -> Outcome<()> {
        const TITLES: [(&str, bool); 2] =
            [("SET of random keys, 16 per trip", true), ("GET of random keys, 16 per trip", false)];
        if !TITLES.iter().any(|(title, _)| is_wanted(title)) {
            return Ok(());
        }
        let sizes: &[u64] = if is_quick() {
            &[1000, 10_000, 100_000, 1_000_000]
        } else {
            &[1000, 10_000, 100_000, 1_000_000, 10_000_000]
        };
        for (title, is_write) in TITLES.into_iter().filter(|(title, _)| is_wanted(title)) {
            let table = Table { title, unit: "keys", promise: Promise::Flat };
            let servers = self.start()?;
            let mut written = vec![0; servers.len()];
            self.compare(&table, sizes, &servers, |server, keys| {
                let at = servers.iter().position(|other| other.port == server.port).unwrap_or(0);
                server.fill(written[at], keys, VALUE)?;
                written[at] = keys.max(written[at]);
                server.take(&Load { keys, is_write, requests: some(800_000), ..SET })
            })?;
        }
        println!("\nReading one random cache line after the other, in as much memory as so many keys take:\n");
        println!("| keys | ns |\n|---|---|");
        for keys in sizes {
            println!("| {keys} | {:.0} |", random_read(*keys as usize * 110));
        }
        Ok(())
    }

    fn subscribers(&self) -> Outcome<()> {
        let table = Table {
            title: "PUBLISH to the subscribers of one channel, 16 per trip",
            unit: "subscribers",
            promise: Promise::Line,
        };
        if !is_wanted(table.title) {
            return Ok(());
        }
        let servers = self.start()?;
        self.compare(&table, &[1, 10, 100, 1000], &servers, |server, subscribers| {
            server.publish(subscribers as usize, some((400_000 / subscribers).clamp(3200, 100_000)))
        })
    }

    /// One client with so many subscriptions, one of which is for the channel that something is published to.
    fn channels(&self, what: &'static str, subscribe: &str, prefix: &str) -> Outcome<()> {
        let (title, promise, sizes): (_, _, &[u64]) = match what {
            "channels" => ("PUBLISH, channels with a subscriber", Promise::Flat, &[1, 100, 10_000, 1_000_000]),
            _ => ("PUBLISH, patterns with a subscriber", Promise::Line, &[1, 10, 100, 1000]),
        };
        if !is_wanted(title) {
            return Ok(());
        }
        let sizes = if is_quick() { &sizes[..3] } else { sizes };
        let servers = self.start()?;
        let mut crowds: Vec<Option<(u64, TcpStream)>> = servers.iter().map(|_| None).collect();
        self.compare(&Table { title, unit: what, promise }, sizes, &servers, |server, size| {
            let at = servers.iter().position(|other| other.port == server.port).unwrap_or(0);
            if crowds[at].as_ref().is_none_or(|(there, _)| *there != size) {
                crowds[at] = None;
                let mut client = connect(server.port)?;
                let mut replies = vec![0; 1 << 20];
                // None of them is for the channel that is published to.
                for first in (1..size).step_by(AT_ONCE as usize) {
                    let numbers = first..(first + AT_ONCE).min(size);
                    let names: Vec<String> = numbers.map(|number| format!("{prefix}{number:012}")).collect();
                    let words: Vec<&[u8]> =
                        std::iter::once(subscribe).chain(names.iter().map(String::as_str)).map(str::as_bytes).collect();
                    client.write_all(&request(&words))?;
                    // Each name is answered with two strings and a number.
                    let mut answered = 0;
                    while answered < names.len() * 2 {
                        let length = client.read(&mut replies)?;
                        answered += replies[..length].iter().filter(|byte| **byte == b'$').count();
                    }
                }
                crowds[at] = Some((size, client));
            }
            server.publish(1, some(if what == "channels" { 100_000 } else { 20_000 }))
        })
    }

    /// One and two threads of each server, while redis-benchmark has the same two processors.
    fn threads(&self) -> Outcome<()> {
        const TITLE: &str =
            "Threads of a server over sockets, redis-benchmark with 2 threads on the same processors, 64 per trip";
        if !is_wanted(TITLE) {
            return Ok(());
        }
        let loads: [(&str, &[&str]); 2] = [
            ("SET", &["SET", "key:__rand_int__", "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv"]),
            ("GET", &["GET", "key:__rand_int__"]),
        ];
        println!("\n{TITLE}\n");
        println!(
            "| | threads | requests/s | of 1 thread | server: processors | load: processors | server CPU µs | load CPU µs | most that 2 processors allow | reached |"
        );
        println!("{}|", "|---".repeat(10));
        for (title, command) in &loads {
            let mut servers = Vec::new();
            for peer in &self.peers {
                for threads in ["1", "2"] {
                    let mut peer = peer.clone();
                    peer.command.extend(["--io-threads", threads].map(str::to_owned));
                    if peer.name == "redis-server" {
                        peer.command.extend(["--io-threads-do-reads", "yes"].map(str::to_owned));
                    }
                    servers.push((threads, Server::start(&peer, None)?, peer.name));
                }
            }
            servers.iter().try_for_each(|(_, server, _)| server.fill(0, KEYS, VALUE))?;
            let mut seen = vec![Vec::new(); servers.len()];
            let requests = some(2_000_000);
            for _ in 0..self.rounds {
                for ((_, server, _), seen) in servers.iter().zip(&mut seen) {
                    seen.push(server.benchmark(requests, command)?);
                }
            }
            let mut alone = 0.0;
            for ((threads, _, name), rounds) in servers.iter().zip(&seen) {
                let [rate, cpu, load] =
                    [0, 1, 2].map(|column| median(rounds.iter().map(|round: &[f64; 3]| round[column]).collect()));
                if *threads == "1" {
                    alone = rate;
                }
                let most = 2e6 / (cpu + load);
                println!(
                    "| {title}, {name} | {threads} | {:.2} M | {:.2} | {:.2} | {:.2} | {cpu:.3} | {load:.3} | {:.2} M | {:.2} |",
                    rate / 1e6,
                    rate / alone,
                    cpu * rate / 1e6,
                    load * rate / 1e6,
                    most / 1e6,
                    rate / most,
                );
            }
        }
        Ok(())
    }
}

/// What a round of requests consists of.
struct Load {
    connections: u64,
    per_trip: u64,
    requests: u64,
    keys: u64,
    value: usize,
    is_write: bool,
}

const SET: Load = Load { connections: 50, per_trip: 16, requests: 0, keys: KEYS, value: VALUE, is_write: true };

struct Server {
    process: Process,
    port: u16,
}

impl Server {
    fn start(peer: &Peer, processor: Option<usize>) -> Outcome<Self> {
        let port = free_port()?;
        let mut words: Vec<String> = match processor {
            Some(processor) if can_pin() => vec!["taskset".to_owned(), "-c".to_owned(), processor.to_string()],
            _ => Vec::new(),
        };
        words.extend(peer.command.iter().map(|word| word.replace("{port}", &port.to_string())));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Ok(Self { process: Process::start(&words, port)?, port })
    }

    /// Processor time so far.
    fn seconds(&self) -> Outcome<f64> {
        nanoseconds(self.process.id()).map_or_else(|| self.process.processor_seconds(), Ok)
    }

    /// A connection that is reset at its end, so that its port is free at once.
    fn connect(&self) -> Outcome<TcpStream> {
        let client = connect(self.port)?;
        socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO))?;
        Ok(client)
    }

    /// Writes the keys from one number to another.
    fn fill(&self, from: u64, to: u64, value: usize) -> Outcome<()> {
        let mut client = self.connect()?;
        let value = vec![b'v'; value];
        let at_once = (4_000_000 / (value.len() as u64 + 100)).clamp(1, AT_ONCE);
        for first in (from..to).step_by(at_once as usize) {
            let numbers = first..(first + at_once).min(to);
            let mut replies = vec![0; 5 * (numbers.end - first) as usize];
            let requests: Vec<u8> =
                numbers.flat_map(|number| request(&[b"SET", key(number).as_bytes(), &value])).collect();
            client.write_all(&requests)?;
            client.read_exact(&mut replies)?;
        }
        Ok(())
    }

    /// Runs a load over keys that exist.
    fn take(&self, load: &Load) -> Outcome<Cost> {
        let value = vec![b'v'; load.value];
        let one = match load.is_write {
            true => request(&[b"SET", key(0).as_bytes(), &value]),
            false => request(&[b"GET", key(0).as_bytes()]),
        };
        let reply = match load.is_write {
            true => "+OK\r\n".len(),
            false => format!("${}\r\n\r\n", load.value).len() + load.value,
        };
        let place = one.windows(DIGITS).position(|at| at == [b'0'; DIGITS]).ok_or("a request without its key")?;
        let mut trip = one.repeat(load.per_trip as usize);
        let mut replies = vec![0; reply * load.per_trip as usize];
        let mut clients: Vec<TcpStream> = (0..load.connections).map(|_| self.connect()).collect::<Outcome<_>>()?;
        // The server has accepted all of them.
        clients.iter_mut().try_for_each(|client| exchange(client, PING).map(drop))?;
        let mut random = 1_u64;
        let rounds = load.requests.div_ceil(load.connections * load.per_trip);
        let meter = Meter::start(self)?;
        for _ in 0..rounds {
            for client in &mut clients {
                for at in (place..trip.len()).step_by(one.len()) {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    write_digits(&mut trip[at..at + DIGITS], (random >> 33) % load.keys);
                }
                client.write_all(&trip)?;
            }
            for client in &mut clients {
                client.read_exact(&mut replies)?;
            }
        }
        meter.stop(rounds * load.connections * load.per_trip)
    }

    /// Publishes to one channel that so many clients have subscribed to.
    fn publish(&self, subscribers: usize, requests: u64) -> Outcome<Cost> {
        const PER_TRIP: usize = 16;
        const CHANNEL: &[u8] = b"news:0";
        let message = b"*3\r\n$7\r\nmessage\r\n$6\r\nnews:0\r\n$8\r\nreleased\r\n";
        let mut readers = Vec::new();
        for _ in 0..subscribers {
            let mut reader = self.connect()?;
            exchange(&mut reader, &request(&[b"SUBSCRIBE", CHANNEL]))?;
            readers.push(reader);
        }
        let mut client = self.connect()?;
        let reply = format!(":{subscribers}\r\n");
        let mut messages = vec![0; message.len() * PER_TRIP];
        let one = request(&[b"PUBLISH", CHANNEL, b"released"]);
        // Those of the last round may be there for a moment.
        loop {
            let answer = exchange(&mut client, &one)?;
            readers.iter_mut().try_for_each(|reader| reader.read_exact(&mut messages[..message.len()]))?;
            if answer == reply.as_bytes() {
                break;
            }
        }
        let mut replies = vec![0; reply.len() * PER_TRIP];
        let (trip, rounds) = (one.repeat(PER_TRIP), requests.div_ceil(PER_TRIP as u64));
        let meter = Meter::start(self)?;
        for _ in 0..rounds {
            client.write_all(&trip)?;
            client.read_exact(&mut replies)?;
            for reader in &mut readers {
                reader.read_exact(&mut messages)?;
            }
        }
        meter.stop(rounds * PER_TRIP as u64)
    }

    /// Runs redis-benchmark. Returns requests per second, and the processor time of the server and of the load for each
    /// request in microseconds.
    fn benchmark(&self, requests: u64, command: &[&str]) -> Outcome<[f64; 3]> {
        let mut benchmark = Command::new("redis-benchmark");
        benchmark.args(["-p", &self.port.to_string(), "-n", &requests.to_string(), "--csv", "-r", &KEYS.to_string()]);
        benchmark.args(["-c", "50", "-P", "64", "--threads", "2"]).args(command);
        let (server, children) = (self.seconds()?, own_seconds()?[1]);
        let measured = redis_benchmark(&mut benchmark)?;
        let spent = [self.seconds()? - server, own_seconds()?[1] - children];
        let [server, load] = spent.map(|seconds| seconds * 1e6 / requests as f64);
        Ok([measured.per_second, server, load])
    }
}

/// From one instant to another: the time of a server and of this process.
struct Meter<'s> {
    server: &'s Server,
    began: Instant,
    cpu: f64,
    load: f64,
}

impl<'s> Meter<'s> {
    fn start(server: &'s Server) -> Outcome<Self> {
        Ok(Self { server, cpu: server.seconds()?, load: own_seconds()?[0], began: Instant::now() })
    }

    fn stop(self, requests: u64) -> Outcome<Cost> {
        let elapsed = self.began.elapsed().as_secs_f64();
        let spent = [self.server.seconds()? - self.cpu, elapsed, own_seconds()?[0] - self.load];
        let [cpu, elapsed, load] = spent.map(|seconds| seconds * 1e6 / requests as f64);
        Ok(Cost { cpu, elapsed, load })
    }
}

/// Processor time of a process's threads in seconds, to the nanosecond, where the kernel says it.
fn nanoseconds(process: u32) -> Option<f64> {
    let mut sum = 0.0;
    for thread in fs::read_dir(format!("/proc/{process}/task")).ok()? {
        let text = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        sum += text.split_whitespace().next()?.parse::<f64>().ok()?;
    }
    Some(sum / 1e9)
}

/// Processor time of this process, and of the processes that it has waited for.
fn own_seconds() -> Outcome<[f64; 2]> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| -> Outcome<f64> { Ok(fields[at].parse::<f64>()? + fields[at + 1].parse::<f64>()?) };
    let own = nanoseconds(std::process::id()).map_or_else(|| ticks(11).map(|ticks| ticks / TICKS_PER_SECOND), Ok)?;
    Ok([own, ticks(13)? / TICKS_PER_SECOND])
}

fn key(number: u64) -> String {
    format!("key:{number:012}")
}

fn write_digits(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Nanoseconds of processor time to read a cache line whose place depends on what the last one said.
fn random_read(bytes: usize) -> f64 {
    const READS: usize = 2_000_000;
    const LINE: usize = 8;
    // Not zero, so that the memory is really there.
    let memory = vec![1_u64; (bytes / 8).next_power_of_two()];
    let lines = memory.len() / LINE;
    let (mut at, mut random) = (0, 1_u64);
    let began = two_threads::thread_seconds();
    for _ in 0..READS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(black_box(memory[at * LINE]));
        at = (random >> 33) as usize & (lines - 1);
    }
    black_box(at);
    (two_threads::thread_seconds() - began) * 1e9 / READS as f64
}
