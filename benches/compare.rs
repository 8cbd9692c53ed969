//! redouble compared with the Redis-compatible servers on this machine.
//!
//! `make bench` compares with whichever of `redis-server` and `valkey-server` are on the PATH; name others with `make
//! bench PEERS='other="/opt/other/server --port {port}"'`. The first peer is the base of the ratios. Every round
//! measures each server in turn, so that drift affects all alike, and medians are printed.
//!
//! The load comes from `redis-benchmark`, or from this program for batches of several commands. With two or more
//! processors the servers are pinned to the first and the load to the second. The figure that matters is the server's
//! own processor time per request: at one request per round trip the load generator limits the throughput.
//!
//! `+OK alone` (on Linux) is this program itself: a loop around epoll that answers +OK to everything. It shows what the kernel
//! takes, whatever a server does.
//!
//! `-- --quick` measures once, with a tenth of the requests; `ROUNDS=9` more often.

#[path = "support/floor.rs"]
mod floor;
#[path = "support/options.rs"]
#[allow(dead_code, reason = "shared by benchmarks, none of which uses all of it")]
mod options;
#[path = "support/peers.rs"]
mod peers;

use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use options::{is_wanted, rounds, some};
use peers::{Peer, can_pin, others, pin_this_process};

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROUNDS: usize = 5;
/// What the server that only answers +OK is called.
const FLOOR: &str = "+OK alone";
const VALUE: usize = 64;
const KEYS: u64 = 1_000_000;
/// Random numbers are below this.
const RANGE: u64 = 100_000;

struct Load {
    title: &'static str,
    requests: u64,
    per_trip: u32,
    clients: u32,
    command: &'static [&'static str],
    /// For commands that remove elements: the command that fills the collection before each round, sent twice as often
    /// and with numbers from a wider range.
    filled_by: Option<&'static [&'static str]>,
}

/// A test that redis-benchmark has as well.
const fn test(title: &'static str, command: &'static [&'static str]) -> Load {
    load(title, 1_000_000, 16, 50, command)
}

/// A test of a command that removes what another command adds.
const fn taking(title: &'static str, command: &'static [&'static str], filler: &'static [&'static str]) -> Load {
    Load { filled_by: Some(filler), ..load(title, 500_000, 16, 50, command) }
}

const fn load(
    title: &'static str,
    requests: u64,
    per_trip: u32,
    clients: u32,
    command: &'static [&'static str],
) -> Load {
    Load { title, requests, per_trip, clients, command, filled_by: None }
}

const LPUSH: &[&str] = &["LPUSH", "mylist", "xxx"];
const SADD: &[&str] = &["SADD", "myset", "element:__rand_int__"];
const ZADD: &[&str] = &["ZADD", "myzset", "__rand_int__", "element:__rand_int__"];

const LOADS: &[Load] = &[
    load("SET, 1 per trip", 200_000, 1, 50, &["SET", "key:__rand_int__", "{value}"]),
    load("GET, 1 per trip", 200_000, 1, 50, &["GET", "key:__rand_int__"]),
    load("SETNX, 1 per trip", 200_000, 1, 50, &["SETNX", "lock:__rand_int__", "1700000000"]),
    load("SET, 16 per trip", 1_500_000, 16, 50, &["SET", "key:__rand_int__", "{value}"]),
    load("GET, 16 per trip", 1_500_000, 16, 50, &["GET", "key:__rand_int__"]),
    load("SET, 64 per trip", 3_000_000, 64, 20, &["SET", "key:__rand_int__", "{value}"]),
    load("SETNX one hot key, 16 per trip", 1_000_000, 16, 50, &["SETNX", "lock.foo", "1700000000"]),
    load("GETSET one hot key, 16 per trip", 1_000_000, 16, 50, &["GETSET", "lock.foo", "1700000000"]),
    // The keys of the rows above.
    load("SCAN of 100,000 keys, 16 per trip", 200_000, 16, 50, &["SCAN", "0"]),
    load("DBSIZE of 100,000 keys, 16 per trip", 100_000, 16, 50, &["DBSIZE"]),
    test("LPUSH, 16 per trip", LPUSH),
    Load { requests: 100_000, ..taking("LRANGE of 100, 16 per trip", &["LRANGE", "mylist", "0", "99"], LPUSH) },
    taking("RPOP, 16 per trip", &["RPOP", "mylist"], LPUSH),
    test("HSET, 16 per trip", &["HSET", "myhash", "element:__rand_int__", "xxx"]),
    test("HGET, 16 per trip", &["HGET", "myhash", "element:__rand_int__"]),
    test("SADD, 16 per trip", SADD),
    taking("SPOP, 16 per trip", &["SPOP", "myset"], SADD),
    test("ZADD, 16 per trip", ZADD),
    taking("ZPOPMIN, 16 per trip", &["ZPOPMIN", "myzset"], ZADD),
    // redis-benchmark's own tests of these commands mostly find no element.
    test("RPOP from nothing, 16 per trip", &["RPOP", "nothing"]),
    test("SPOP from nothing, 16 per trip", &["SPOP", "nothing"]),
    test("ZPOPMIN from nothing, 16 per trip", &["ZPOPMIN", "nothing"]),
];

/// The release script of lock libraries.
const RELEASE: &str =
    r#"if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end"#;
/// Its SHA-1.
const RELEASE_SHA: &str = "{release}";

/// The batch that each client sends repeatedly, in one round trip.
struct Batch {
    title: &'static str,
    /// The system tells user time from its own by samples of some milliseconds: of a second of processor time there are enough
    /// of them for two digits.
    trips: u64,
    /// Repeated up to 16 requests.
    requests: &'static [&'static [&'static str]],
    /// The number of other clients subscribed to channel `news`.
    subscribers: usize,
}

const BATCHES: &[Batch] = &[
    Batch {
        title: "EVALSHA of the release by somebody else, 16 per trip",
        trips: 4000,
        requests: &[&["EVALSHA", RELEASE_SHA, "1", "lock.foo", "other"]],
        subscribers: 0,
    },
    Batch {
        title: "SET NX PX and its release by EVALSHA, 16 per trip",
        trips: 4000,
        requests: &[
            &["SET", "lock.bar", "token", "NX", "PX", "30000"],
            &["EVALSHA", RELEASE_SHA, "1", "lock.bar", "token"],
        ],
        subscribers: 0,
    },
    Batch {
        title: "MULTI, SET, GET, EXEC, 16 per trip",
        trips: 4000,
        requests: &[&["MULTI"], &["SET", "key", "value"], &["GET", "key"], &["EXEC"]],
        subscribers: 0,
    },
    Batch {
        title: "SET of three keys and FLUSHDB, 16 per trip",
        trips: 2000,
        requests: &[&["SET", "a", "1"], &["SET", "b", "2"], &["SET", "c", "3"], &["FLUSHDB"]],
        subscribers: 0,
    },
    Batch {
        title: "PUBLISH to 1 subscriber, 16 per trip",
        trips: 1000,
        requests: &[&["PUBLISH", "news", "released"]],
        subscribers: 1,
    },
    Batch {
        title: "PUBLISH to 50 subscribers, 16 per trip",
        trips: 200,
        requests: &[&["PUBLISH", "news", "released"]],
        subscribers: 50,
    },
];

/// The number of clients that send batches.
const CLIENTS: usize = 50;
const REQUESTS: usize = 16;

fn main() -> Outcome<()> {
    if let [_, flag, port] = std::env::args().collect::<Vec<_>>().as_slice()
        && flag == floor::FLAG
    {
        return floor::serve(port.parse()?);
    }
    let peers = peers()?;
    compare_loads(&peers)?;
    compare_batches(&peers)?;
    if is_wanted("start") {
        compare_start(&peers)?;
    }
    for (title, begin) in BEGINNINGS.iter().filter(|(title, _)| is_wanted(title)) {
        compare_connections(title, begin, &peers)?;
    }
    if is_wanted("memory") {
        compare_memory(&peers)?;
    }
    Ok(())
}

/// The servers to measure: the peers first, redouble last.
fn peers() -> Outcome<Vec<Peer>> {
    let mut peers = others()?;
    peers.push(Peer::redouble("redouble", &[]));
    peers.push(Peer::redouble("redouble --journal yes", &["--journal", "yes"]));
    Ok(peers)
}

/// The same, and on Linux this program as the server that only answers +OK.
fn peers_and_floor(peers: &[Peer]) -> Outcome<Vec<Peer>> {
    let mut peers: Vec<Peer> = peers.to_vec();
    if cfg!(target_os = "linux") {
        let program = std::env::current_exe()?.to_str().ok_or("a path that is no text")?.to_owned();
        let command = vec![program, floor::FLAG.to_owned(), "{port}".to_owned()];
        peers.push(Peer { name: FLOOR.to_owned(), command });
    }
    Ok(peers)
}

fn compare_loads(peers: &[Peer]) -> Outcome<()> {
    let peers = peers_and_floor(peers)?;
    let servers: Vec<Server> = peers.iter().map(|peer| Server::start(peer, Some(0))).collect::<Result<_, _>>()?;
    for load in LOADS.iter().filter(|load| is_wanted(load.title)) {
        let load = Load { requests: some(load.requests), ..*load };
        let mut seen = vec![Vec::new(); servers.len()];
        for _ in 0..rounds(ROUNDS) {
            for (server, seen) in servers.iter().zip(&mut seen) {
                seen.push(server.take(&load)?);
            }
        }
        let columns = ["requests/s", "server CPU µs/request", "of it user's"];
        table(load.title, &columns, &peers, &medians(&seen));
    }
    Ok(())
}

/// The median of each column of each server.
fn medians<const COLUMNS: usize>(seen: &[Vec<[f64; COLUMNS]>]) -> Vec<Vec<f64>> {
    let column = |rounds: &[[f64; COLUMNS]], at: usize| median(rounds.iter().map(|round| round[at]).collect());
    seen.iter().map(|rounds| (0..COLUMNS).map(|at| column(rounds, at)).collect()).collect()
}

fn compare_batches(peers: &[Peer]) -> Outcome<()> {
    pin_this_process("1");
    let peers = peers_and_floor(peers)?;
    let servers: Vec<Server> = peers.iter().map(|peer| Server::start(peer, Some(0))).collect::<Result<_, _>>()?;
    let mut sha = None;
    for server in &servers {
        let mut client = server.connect()?;
        let answer = exchange(&mut client, &request(&["SCRIPT", "LOAD", RELEASE]))?;
        sha = sha.or(answer.lines().nth(1).map(str::to_owned));
        exchange(&mut client, &request(&["SET", "lock.foo", "token"]))?;
    }
    let sha = sha.ok_or("SCRIPT LOAD answers with a name")?;
    for batch in BATCHES.iter().filter(|batch| is_wanted(batch.title)) {
        // It sends no messages.
        let count = peers.iter().filter(|peer| batch.subscribers == 0 || peer.name != FLOOR).count();
        let mut seen = vec![Vec::new(); count];
        for _ in 0..rounds(ROUNDS) {
            for (server, seen) in servers.iter().zip(&mut seen) {
                seen.push(server.take_batch(batch, &sha)?);
            }
        }
        table(batch.title, &["server CPU µs/request", "of it user's"], &peers, &medians(&seen));
    }
    Ok(())
}

fn request(words: &[&str]) -> Vec<u8> {
    let bulks: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{bulks}", words.len()).into_bytes()
}

/// Sends a request and reads the reply that arrives at once.
fn exchange(client: &mut TcpStream, bytes: &[u8]) -> Outcome<String> {
    client.write_all(bytes)?;
    let mut answer = vec![0; 64 * 1024];
    let length = client.read(&mut answer)?;
    answer.truncate(length);
    Ok(String::from_utf8(answer)?)
}

fn compare_start(peers: &[Peer]) -> Outcome<()> {
    let mut seen = vec![Vec::new(); peers.len()];
    for _ in 0..rounds(15) {
        for (peer, seen) in peers.iter().zip(&mut seen) {
            let server = Server::start(peer, None)?;
            // Pages of the program's file are shared with the system's cache, and with other processes of it.
            let [resident, of_its_own] =
                [server.resident()?, server.memory("RssAnon")?].map(|bytes| bytes / 1_048_576.0);
            seen.push([server.started_in.as_secs_f64() * 1e3, resident, of_its_own]);
        }
    }
    table("start", &["exec to PONG, ms", "resident MiB", "of its own"], peers, &medians(&seen));
    Ok(())
}

fn compare_memory(peers: &[Peer]) -> Outcome<()> {
    let values = VALUES.iter().map(|load| (load, "bytes/key"));
    for (&(title, request), unit) in values.chain(ELEMENTS.iter().map(|load| (load, "bytes/element"))) {
        let mut rows = Vec::new();
        for peer in peers {
            let server = Server::start(peer, None)?;
            let empty = server.resident()?;
            server.write(request)?;
            rows.push(vec![(server.resident()? - empty) / some(KEYS) as f64]);
        }
        table(title, &[unit], peers, &rows);
    }
    Ok(())
}

/// What a client sends first, each request answered before the next one, before it closes the connection.
const BEGINNINGS: [(&str, &[&[&str]]); 2] = [
    ("connections of one PING", &[&["PING"]]),
    (
        "connections as client libraries begin them",
        &[
            &["HELLO", "3"],
            &["CLIENT", "SETINFO", "LIB-NAME", "bench"],
            &["CLIENT", "SETINFO", "LIB-VER", "1"],
            &["PING"],
        ],
    ),
];

/// The connections of a round: one after the other, and in a storm.
const CONNECTIONS: usize = 2000;
const STORM: usize = 4;

fn compare_connections(title: &str, begin: &[&[&str]], peers: &[Peer]) -> Outcome<()> {
    pin_this_process("1");
    let peers = peers_and_floor(peers)?;
    let requests: Vec<Vec<u8>> = begin.iter().map(|words| request(words)).collect();
    let servers: Vec<Server> = peers.iter().map(|peer| Server::start(peer, Some(0))).collect::<Result<_, _>>()?;
    let mut seen = vec![Vec::new(); servers.len()];
    for _ in 0..rounds(ROUNDS) {
        for (server, seen) in servers.iter().zip(&mut seen) {
            let alone = server.take_connections(1, &requests, false)?;
            let storm = server.take_connections(STORM, &requests, false)?;
            let reset = server.take_connections(STORM, &requests, true)?;
            seen.push([alone[0], alone[1], storm[0], storm[1], reset[0], reset[1]]);
        }
    }
    let columns =
        ["µs alone", "server CPU µs", "µs in a storm", "server CPU µs", "µs if reset in a storm", "server CPU µs"];
    table(title, &columns, &peers, &medians(&seen));
    Ok(())
}

/// The bytes of a request, made from a number.
type Request = fn(u64) -> Vec<u8>;

/// The commands that write a key of 17 bytes.
const VALUES: [(&str, Request); 8] = [
    ("memory of keys with 64 bytes", |number| request(&["SET", &key(number), &"v".repeat(VALUE)])),
    ("memory of keys with 64 bytes and a deadline", |number| {
        request(&["SET", &key(number), &"v".repeat(VALUE), "PX", &(100_000_000 + number).to_string()])
    }),
    ("memory of hashes of 5 fields", |number| {
        let pairs = (0..5).flat_map(|field| [format!("field{field}"), format!("value:{field:04}")]);
        collection("HSET", number, pairs)
    }),
    ("memory of hashes of 5 fields with values of 100", |number| {
        let pairs = (0..5).flat_map(|field| [format!("field{field}"), format!("{field:0100}")]);
        collection("HSET", number, pairs)
    }),
    ("memory of lists of 10 elements", |number| {
        collection("RPUSH", number, (0..10).map(|element| format!("element:{element:02}")))
    }),
    ("memory of sets of 5 members", |number| {
        collection("SADD", number, (0..5).map(|member| format!("member:{member:02}")))
    }),
    ("memory of sets of 5 members of 100 bytes", |number| {
        collection("SADD", number, (0..5).map(|member| format!("{member:0100}")))
    }),
    ("memory of sorted sets of 5 members", |number| {
        collection("ZADD", number, (0..5).flat_map(|member| [member.to_string(), format!("member:{member:02}")]))
    }),
];

fn key(number: u64) -> String {
    format!("lock:{number:012}")
}

fn collection(command: &str, number: u64, words: impl Iterator<Item = String>) -> Vec<u8> {
    let words: Vec<String> = [command.to_owned(), key(number)].into_iter().chain(words).collect();
    request(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The command that adds an element of 20 bytes to a collection.
const ELEMENTS: [(&str, Request); 4] = [
    ("memory of a list", |number| request(&["RPUSH", "key", &element(number)])),
    ("memory of a hash, values of 3 bytes", |number| request(&["HSET", "key", &element(number), "xxx"])),
    ("memory of a set", |number| request(&["SADD", "key", &element(number)])),
    ("memory of a sorted set", |number| request(&["ZADD", "key", &number.to_string(), &element(number)])),
];

fn element(number: u64) -> String {
    format!("element:{number:012}")
}

fn table(title: &str, columns: &[&str], peers: &[Peer], rows: &[Vec<f64>]) {
    println!("{title}");
    for (peer, row) in peers.iter().zip(rows) {
        print!("    {:14}", peer.name);
        for ((column, value), base) in columns.iter().zip(row).zip(&rows[0]) {
            print!(" {value:12.3} {column} (x{:.2})", value / base);
        }
        println!();
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Prefixes a command with `taskset`, if there are two or more processors.
fn pinned(processor: Option<usize>, program: &str) -> Command {
    match processor {
        Some(processor) if can_pin() => {
            let mut command = Command::new("taskset");
            command.args(["-c", &processor.to_string(), program]);
            command
        }
        _ => Command::new(program),
    }
}

/// Processor time of a server in seconds.
#[derive(Clone, Copy)]
struct Spent {
    user: f64,
    system: f64,
}

impl Spent {
    fn since(self, before: Self) -> Self {
        Self { user: self.user - before.user, system: self.system - before.system }
    }

    /// Microseconds of each request: all, and the user's.
    fn micros_of(self, requests: u64) -> [f64; 2] {
        [self.user + self.system, self.user].map(|seconds| seconds / requests as f64 * 1e6)
    }
}

struct Server {
    process: Child,
    port: u16,
    started_in: Duration,
}

impl Server {
    #[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
    fn start(peer: &Peer, processor: Option<usize>) -> Outcome<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let words: Vec<String> = peer.command.iter().map(|word| word.replace("{port}", &port.to_string())).collect();
        let started = Instant::now();
        let process = pinned(processor, &words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut server = Self { process, port, started_in: Duration::ZERO };
        while server.ping().is_err() {
            if let Some(status) = server.process.try_wait()? {
                return Err(format!("{} ended with {status} before it answered", peer.name).into());
            }
            if started.elapsed() > Duration::from_secs(20) {
                return Err(format!("{} did not answer in 20 s", peer.name).into());
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        server.started_in = started.elapsed();
        Ok(server)
    }

    fn ping(&self) -> Outcome<()> {
        let mut client = TcpStream::connect(("127.0.0.1", self.port))?;
        client.set_read_timeout(Some(Duration::from_secs(1)))?;
        client.write_all(b"*1\r\n$4\r\nPING\r\n")?;
        client.read_exact(&mut [0; 7])?;
        Ok(())
    }

    /// Runs a load. Returns requests per second, and microseconds of the server's processor time per request: all, and the
    /// user's.
    fn take(&self, load: &Load) -> Outcome<[f64; 3]> {
        if let Some(filler) = load.filled_by {
            self.send(&Load { requests: load.requests * 2, command: filler, ..*load }, load.requests * 2)?;
        }
        let before = self.processor_seconds()?;
        let text = self.send(load, RANGE)?;
        let spent = self.processor_seconds()?.since(before);
        let words: Vec<&str> = text.split_whitespace().collect();
        let rate = words.windows(2).rev().find(|pair| pair[1] == "requests").and_then(|pair| pair[0].parse().ok());
        let rate: f64 = rate.ok_or_else(|| format!("redis-benchmark said: {text}"))?;
        let [all, user] = spent.micros_of(load.requests);
        Ok([rate, all, user])
    }

    /// Runs redis-benchmark and returns its output.
    fn send(&self, load: &Load, range: u64) -> Outcome<String> {
        let value = "v".repeat(VALUE);
        let output = pinned(Some(1), "redis-benchmark")
            .args(["-p", &self.port.to_string(), "-n", &load.requests.to_string(), "-q", "-r", &range.to_string()])
            .args(["-c", &load.clients.to_string(), "-P", &load.per_trip.to_string()])
            .args(load.command.iter().map(|word| word.replace("{value}", &value)))
            .output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Lets 50 clients send a batch repeatedly. Returns microseconds of the server's processor time per request: all, and the
    /// user's.
    fn take_batch(&self, batch: &Batch, sha: &str) -> Outcome<[f64; 2]> {
        const MESSAGE: usize = "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$8\r\nreleased\r\n".len();
        let repeats = REQUESTS / batch.requests.len();
        let words = batch.requests.iter().map(|words| words.iter().map(|word| word.replace(RELEASE_SHA, sha)));
        let requests: Vec<u8> = words
            .flat_map(|words| {
                let words: Vec<String> = words.collect();
                request(&words.iter().map(String::as_str).collect::<Vec<_>>())
            })
            .collect::<Vec<_>>()
            .repeat(repeats);
        let mut subscribers = Vec::new();
        for _ in 0..batch.subscribers {
            let mut subscriber = self.connect()?;
            exchange(&mut subscriber, &request(&["SUBSCRIBE", "news"]))?;
            subscribers.push(subscriber);
        }
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| self.connect()).collect::<Result<_, _>>()?;
        // The first client alone finds the length of the replies.
        let mut answer = Vec::new();
        clients[0].write_all(&requests)?;
        clients[0].set_read_timeout(Some(Duration::from_millis(200)))?;
        while let Ok(length) = clients[0].read([0; 4096].as_mut_slice()) {
            answer.resize(answer.len() + length, 0);
        }
        clients[0].set_read_timeout(None)?;
        let mut messages = vec![0; MESSAGE * REQUESTS];
        for subscriber in &mut subscribers {
            subscriber.read_exact(&mut messages)?;
        }
        messages.resize(MESSAGE * REQUESTS * CLIENTS, 0);
        let before = self.processor_seconds()?;
        let trips = some(batch.trips);
        for _ in 0..trips {
            for client in &mut clients {
                client.write_all(&requests)?;
            }
            for client in &mut clients {
                client.read_exact(&mut answer)?;
            }
            for subscriber in &mut subscribers {
                subscriber.read_exact(&mut messages)?;
            }
        }
        Ok(self.processor_seconds()?.since(before).micros_of(trips * (CLIENTS * REQUESTS) as u64))
    }

    /// Opens connections from so many threads at once, sends requests over each, and closes or resets it. Returns
    /// microseconds for each connection, of time and of the server's processor time.
    #[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
    fn take_connections(&self, threads: usize, requests: &[Vec<u8>], reset: bool) -> Outcome<[f64; 2]> {
        let open = || -> std::io::Result<()> {
            for _ in 0..CONNECTIONS / threads {
                let mut client = TcpStream::connect(("127.0.0.1", self.port))?;
                for request in requests {
                    client.write_all(request)?;
                    // Every reply arrives at once.
                    let _ = client.read(&mut [0; 4096])?;
                }
                if reset {
                    socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO))?;
                }
            }
            Ok(())
        };
        let before = self.processor_seconds()?;
        let began = Instant::now();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(open)).collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into())))
        })?;
        let took = began.elapsed().as_secs_f64() / CONNECTIONS as f64 * 1e6;
        Ok([took, self.processor_seconds()?.since(before).micros_of(CONNECTIONS as u64)[0]])
    }

    fn connect(&self) -> Outcome<TcpStream> {
        let client = TcpStream::connect(("127.0.0.1", self.port))?;
        client.set_nodelay(true)?;
        Ok(client)
    }

    fn processor_seconds(&self) -> Outcome<Spent> {
        /// Linux's unit of processor time in `/proc`, on every architecture.
        const TICKS_PER_SECOND: f64 = 100.0;
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let [user, system] =
            [fields[11].parse::<f64>()?, fields[12].parse::<f64>()?].map(|ticks| ticks / TICKS_PER_SECOND);
        Ok(Spent { user, system })
    }

    fn resident(&self) -> Outcome<f64> {
        self.memory("VmRSS")
    }

    /// Memory in bytes, by its name in `/proc/PID/status`.
    fn memory(&self, name: &str) -> Outcome<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find(|line| line.starts_with(name)).ok_or_else(|| format!("no {name}"))?;
        let kilobytes: f64 = line.split_whitespace().nth(1).ok_or_else(|| format!("no figure in {name}"))?.parse()?;
        Ok(kilobytes * 1024.0)
    }

    /// Sends a million requests with a reply of one line each.
    fn write(&self, request: impl Fn(u64) -> Vec<u8>) -> Outcome<()> {
        const AT_ONCE: u64 = 1000;
        let mut client = self.connect()?;
        let mut replies = vec![0; 64 * 1024];
        for first in (0..some(KEYS)).step_by(AT_ONCE as usize) {
            let requests: Vec<u8> = (first..first + AT_ONCE).flat_map(&request).collect();
            client.write_all(&requests)?;
            let mut answered = 0;
            while answered < AT_ONCE as usize {
                let length = client.read(&mut replies)?;
                if length == 0 {
                    return Err("the server has hung up".into());
                }
                answered += replies[..length].iter().filter(|byte| **byte == b'\n').count();
            }
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
