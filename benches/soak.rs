//! A soak: for an hour, clients send broken messages, damaged dumps, long scripts and storms of test powers, while another one
//! works in a space of its own and looks at the server. Fails if the server panics, hangs, grows or gives a wrong answer.
//!
//! `make soak MINUTES=3`, or `cargo bench --features internals --bench soak -- --minutes 3 --seed 7`. Everything is on the
//! loopback interface, and ends by the clock or by the number of requests, whichever comes first.

#![allow(clippy::disallowed_methods, reason = "a soak lasts so long in real time")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redouble::internals::all_commands;
use support::Dice;
use support::process::ServerProcess;
use support::wire::{Frame, Wire, request};

/// The most requests of one kind of client.
const MOST_REQUESTS: u64 = 50_000_000;
/// How long a client waits for replies that may never come.
const SHORT_WAIT: Duration = Duration::from_millis(20);
/// The data may take this much in each world.
const DATA: &str = "64mb";
/// What the memory may grow from the second quarter of the time to the last one: a quarter, and this many bytes.
const SLACK: u64 = 48 << 20;

/// What every client shares.
struct Soak {
    address: SocketAddr,
    is_over: AtomicBool,
    counts: [AtomicU64; 4],
}

const KINDS: [&str; 4] = ["messages", "restores", "scripts", "powers"];

impl Soak {
    /// Whether a client goes on after so many requests.
    fn goes_on(&self, kind: usize) -> bool {
        !self.is_over.load(Ordering::Relaxed) && self.counts[kind].load(Ordering::Relaxed) < MOST_REQUESTS
    }

    fn count(&self, kind: usize, requests: u64) {
        self.counts[kind].fetch_add(requests, Ordering::Relaxed);
    }

    /// A connection that is reset at its end, so that its port is free at once.
    fn connect(&self) -> Option<TcpStream> {
        let stream = TcpStream::connect(self.address).ok()?;
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).ok()?;
        stream.set_read_timeout(Some(SHORT_WAIT)).ok()?;
        stream.set_write_timeout(Some(SHORT_WAIT)).ok()?;
        stream.set_nodelay(true).ok()?;
        Some(stream)
    }

    /// Sends bytes, and reads what comes back in a short time.
    fn send(&self, stream: &mut TcpStream, bytes: &[u8], reply: &mut Vec<u8>) -> bool {
        reply.resize(1 << 16, 0);
        let is_sent = stream.write_all(bytes).is_ok();
        match stream.read(reply) {
            Ok(length) => reply.truncate(length),
            Err(_) => reply.clear(),
        }
        is_sent && !reply.is_empty()
    }
}

// ---- broken messages

const WORDS: &[&str] = &[
    "k",
    "l",
    "0",
    "1",
    "-1",
    "10",
    "3.5",
    "2147483648",
    "9223372036854775807",
    "-9223372036854775808",
    "nan",
    "inf",
    "*",
    "[a-",
    "(1",
    "$",
    "-",
    "+",
    "NX",
    "XX",
    "GET",
    "EX",
    "PX",
    "KEEPTTL",
    "COUNT",
    "MATCH",
    "LIMIT",
    "BY",
    "STORE",
    "WITHSCORES",
    "WEIGHTS",
    "BLOCK",
    "STREAMS",
    "GROUP",
    "MAXLEN",
    "~",
    "=",
    "ID",
    "FIELDS",
    "LEFT",
    "RIGHT",
    "BEFORE",
    "FROMMEMBER",
    "BYRADIUS",
    "m",
    "AND",
    "u8",
    "INCRBY",
    "OVERFLOW",
    "SAT",
    "",
];

fn any_word(dice: &mut Dice) -> Vec<u8> {
    match dice.below(20) {
        0 => {
            let length = dice.below(300);
            dice.bytes(length)
        }
        _ => WORDS[dice.below(WORDS.len())].as_bytes().to_vec(),
    }
}

/// Commands that other tests of the soak need in peace: they hold a thread, or everybody.
const LEFT_OUT: &[&str] = &["REDOUBLE", "SHUTDOWN", "DEBUG", "MONITOR", "REPLICAOF", "SYNC"];

fn send_messages(soak: &Soak, seed: u64) {
    let names: Vec<Vec<&str>> = all_commands()
        .into_iter()
        .filter(|row| !LEFT_OUT.contains(&row.spec.name))
        .flat_map(|row| {
            let subs = row.subcommands.iter().map(|sub| vec![row.spec.name, sub.spec.name]);
            std::iter::once(vec![row.spec.name]).chain(subs).collect::<Vec<_>>()
        })
        .collect();
    let (mut dice, mut reply) = (Dice::new(seed), Vec::new());
    while soak.goes_on(0) {
        let Some(mut stream) = soak.connect() else { continue };
        for _ in 0..20 {
            let mut bytes = Vec::new();
            let batch = dice.below(30) + 1;
            for _ in 0..batch {
                let mut words: Vec<Vec<u8>> =
                    names[dice.below(names.len())].iter().map(|name| name.as_bytes().to_vec()).collect();
                words.extend((0..dice.below(7)).map(|_| any_word(&mut dice)).collect::<Vec<_>>());
                bytes.extend(request(&words));
            }
            if dice.below(3) == 0 {
                for _ in 0..dice.below(6) + 1 {
                    let at = dice.below(bytes.len());
                    match dice.below(4) {
                        0 => bytes[at] ^= 1 << dice.below(8),
                        1 => bytes[at] = dice.bytes(1)[0],
                        2 => drop(bytes.remove(at)),
                        _ => bytes.insert(at, b'\n'),
                    }
                    if bytes.is_empty() {
                        break;
                    }
                }
            }
            soak.count(0, batch as u64);
            if !soak.send(&mut stream, &bytes, &mut reply) {
                break;
            }
        }
    }
}

// ---- damaged dumps

fn send_restores(soak: &Soak, seed: u64) {
    let (mut dice, mut reply) = (Dice::new(seed), Vec::new());
    let mut payloads = Vec::new();
    // In a space of their own, where no power disturbs the making of the dumps.
    let mut wire = Wire::connect(soak.address);
    wire.ask("REDOUBLE SPACE restores");
    for line in [
        "SET a text",
        "SET b 12345",
        "RPUSH c 1 2 three",
        "SADD d 1 2 3",
        "SADD e x y z",
        "HSET f a 1 b 2",
        "ZADD g 1 a 2.5 b",
        "XADD h 1-1 f v",
        "XADD h 2-1 f v g w",
        "XGROUP CREATE h g 0",
        "XREADGROUP GROUP g c COUNT 1 STREAMS h >",
        "PFADD i a b c",
    ] {
        wire.ask(line);
    }
    let long: Vec<String> = (0..400).map(|number| format!("member-{number}")).collect();
    for (command, key) in [("SADD", "j"), ("RPUSH", "k"), ("PFADD", "l")] {
        wire.call(&[&[command, key], &*long.iter().map(String::as_str).collect::<Vec<_>>()].concat());
    }
    for key in "abcdefghijkl".chars() {
        if let Frame::Bulk(payload) = wire.ask(&format!("DUMP {key}")) {
            payloads.push(payload);
        }
    }
    drop(wire);
    while soak.goes_on(1) && !payloads.is_empty() {
        let Some(mut stream) = soak.connect() else { continue };
        soak.send(&mut stream, &request(&["REDOUBLE", "SPACE", "restores"]), &mut reply);
        for _ in 0..200 {
            let mut payload = payloads[dice.below(payloads.len())].clone();
            let body = payload.len() - 8;
            for _ in 0..dice.below(4) + 1 {
                let at = dice.below(body);
                payload[at] = if dice.below(2) == 0 { dice.bytes(1)[0] } else { payload[at] ^ (1 << dice.below(8)) };
            }
            // A checksum of zero is taken as it is, so that the damage is looked at.
            payload[body..].fill(0);
            let restored = request(&[&b"RESTORE"[..], b"r", b"0", &payload, b"REPLACE"]);
            let looked_at = [&b"OBJECT"[..], b"ENCODING", b"r"];
            let bytes =
                [restored, request(&looked_at), request(&[&b"DUMP"[..], b"r"]), request(&[&b"DEL"[..], b"r"])].concat();
            soak.count(1, 1);
            if !soak.send(&mut stream, &bytes, &mut reply) {
                break;
            }
        }
    }
}

// ---- scripts

const SCRIPTS: &[&str] = &[
    "return string.rep('x', @)",
    "local t = {} for i = 1, @ % 100000 do t[i] = {} end return #t",
    "local t = {} table.insert(t, @, 1) return #t",
    "return cjson.encode({[@] = 1, x = {1, 2, 3}})",
    "return cjson.decode(string.rep('[', @ % 5000))",
    "return cmsgpack.unpack(string.rep('\\145', @ % 5000))",
    "return struct.pack('c' .. @ % 1000, 'abc')",
    "return redis.call('SETRANGE', KEYS[1], @ % 1000000, 'x')",
    "return redis.pcall('SET', KEYS[1], @)",
    "return redis.call('RPUSH', KEYS[1], unpack({1, 2, 3}, 1, @ % 4))",
    "redis.log(redis.LOG_DEBUG, string.rep('\\27', @ % 1000)) return 1",
    "local s = string.rep('a', @ % 3000) return string.find(s, '(a*)*b') and 1 or 0",
    "local ok, error = pcall(function() error({err = string.rep('e', @ % 1000)}) end) return error",
    "return loadstring('return ' .. @)()",
    "local c = coroutine.wrap(function() for i = 1, @ % 1000 do coroutine.yield(i) end end) return c()",
    "local function f(n) if n == 0 then return 0 end return 1 + f(n - 1) end return f(@ % 300000)",
    "return redis.sha1hex(string.rep('x', @ % 1000000))",
    "return setmetatable({}, {__index = function(t, k) return @ end}).x",
    "while true do end",
    "while true do pcall(function() while true do end end) end",
    "return {1, {2, {3, {4, '@'}}}, false, {ok = 'fine'}, {err = 'My @'}}",
];

fn send_scripts(soak: &Soak, seed: u64) {
    let (mut dice, mut reply) = (Dice::new(seed), Vec::new());
    while soak.goes_on(2) {
        let Some(mut stream) = soak.connect() else { continue };
        for _ in 0..50 {
            let number = [0, 1, 7, 255, 4096, 65_537, 1 << 20, i64::from(i32::MAX), 1 << 31, -(1 << 31) - 1, 1 << 53];
            let script =
                SCRIPTS[dice.below(SCRIPTS.len())].replace('@', &format!("({})", number[dice.below(number.len())]));
            soak.count(2, 1);
            if !soak.send(&mut stream, &request(&["EVAL", &script, "1", "script"]), &mut reply) {
                break;
            }
        }
        // Whatever still runs.
        if let Some(mut stream) = soak.connect() {
            soak.send(&mut stream, &request(&["SCRIPT", "KILL"]), &mut reply);
        }
    }
}

// ---- test powers

const POWERS: &[&str] = &[
    "FAULT ADD f# on SET HANG",
    "FAULT ADD f# on @write NTH 3 CLOSE-AFTER",
    "FAULT ADD f# on GET DELAY 5ms",
    "FAULT ADD f# on EVAL ERROR OOM",
    "FAULT ADD f# on * RATE 0.01 TRUNCATE 3",
    "FAULT LIST",
    "FAULT CLEAR",
    "GATE ADD g# on SET",
    "GATE ADD g# AFTER on INCR",
    "GATE STEP g#",
    "GATE OPEN g#",
    "GATE LIST",
    "GATE CLEAR",
    "CLOCK FREEZE",
    "CLOCK ADVANCE #s",
    "CLOCK SPEED #",
    "CLOCK AUTO 1ms",
    "CLOCK RUN",
    "CLOCK",
    "JOURNAL LIST LIMIT 50",
    "JOURNAL NEAR SET k #",
    "JOURNAL COUNT on SET",
    "JOURNAL AWAIT on SET key k 1 1ms",
    "JOURNAL CLEAR",
    "AUDIT ON",
    "AUDIT",
    "AUDIT OFF",
    "LOCKS",
    "EXPLORE START RUNS 3 CLIENTS 2",
    "EXPLORE NEXT",
    "EXPLORE ORDER",
    "EXPLORE STOP",
    "SPACE s#",
    "SPACES LIST",
    "SPACES DROP s#",
    "INSTANCE LIST",
    "INSTANCE CUT 1 nobody",
    "INSTANCE HEAL 1",
    "SAVE soak.txt",
    "JOURNAL EXPORT soak.jsonl",
    "RESET",
];

fn send_powers(soak: &Soak, seed: u64) {
    let (mut dice, mut reply) = (Dice::new(seed), Vec::new());
    while soak.goes_on(3) {
        let Some(mut stream) = soak.connect() else { continue };
        for _ in 0..dice.below(30) + 1 {
            let line = POWERS[dice.below(POWERS.len())].replace('#', &dice.below(4).to_string());
            soak.count(3, 1);
            soak.send(
                &mut stream,
                format!("REDOUBLE {line}\r\nINCR counter\r\nSET k v PX 50\r\nGET k\r\n").as_bytes(),
                &mut reply,
            );
        }
        // What one storm has armed does not hold the next one.
        if let Some(mut stream) = soak.connect() {
            soak.send(&mut stream, b"REDOUBLE RESET\r\n", &mut reply);
        }
    }
}

// ---- the client that works, and looks

/// Works in a space of its own, where nobody else is. The error says what is wrong with the server.
struct Observer {
    wire: Wire,
    rounds: u64,
}

impl Observer {
    fn connect(address: SocketAddr) -> Self {
        let mut wire = Wire::connect(address);
        assert_eq!(wire.ask("REDOUBLE SPACE observer"), Frame::status("OK"));
        Self { wire, rounds: 0 }
    }

    fn ask(&mut self, line: &str) -> Result<Frame, String> {
        self.wire.send(format!("{line}\r\n").as_bytes());
        self.wire.read().map_err(|error| format!("{line}: {error}"))
    }

    /// Some commands with known replies.
    fn work(&mut self) -> Result<(), String> {
        self.rounds += 1;
        let number = self.rounds;
        for (line, expected) in [
            (format!("SET lock {number} PX 100000"), Frame::status("OK")),
            ("GET lock".to_owned(), Frame::bulk(&number.to_string())),
            (format!("RPUSH list {number}"), Frame::Integer(1)),
            ("LPOP list".to_owned(), Frame::bulk(&number.to_string())),
            ("INCR rounds".to_owned(), Frame::Integer(number as i64)),
            ("DBSIZE".to_owned(), Frame::Integer(2)),
        ] {
            let reply = self.ask(&line)?;
            if reply != expected {
                return Err(format!("{line}: {reply:?}, and not {expected:?}"));
            }
        }
        Ok(())
    }

    /// The number of panics in the server.
    fn panics(&mut self) -> Result<u64, String> {
        let text = self.ask("INFO redouble")?.text();
        let line = text.lines().find_map(|line| line.strip_prefix("handler_panics:"));
        line.and_then(|count| count.trim().parse().ok()).ok_or_else(|| format!("INFO redouble: {text}"))
    }
}

/// The value of a flag `--name VALUE`.
fn option(name: &str, usual: u64) -> u64 {
    let mut arguments = std::env::args().skip_while(|argument| argument != name).skip(1);
    arguments
        .next()
        .map_or(usual, |value| value.parse().unwrap_or_else(|_| panic!("{name} takes a number, not {value}")))
}

fn mean(values: &[u64]) -> u64 {
    values.iter().sum::<u64>() / (values.len() as u64).max(1)
}

fn run(time: Duration, seed: u64) -> Result<(), String> {
    let folder = std::env::temp_dir().join(format!("redouble-soak-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let dir = folder.to_str().ok_or("a path that is no text")?;
    let server = ["--dir", dir, "--maxmemory", DATA, "--journal", "yes", "--journal-size", "4mb"];
    let limits = ["--gate-timeout", "200ms", "--busy-reply-threshold", "50"];
    let user =
        "--user default on nopass ~* &* +@all -shutdown -config|set -acl|setuser -acl|deluser -client|pause -debug";
    let user: Vec<&str> = user.split(' ').collect();
    let server = ServerProcess::redouble(&[&server[..], &limits, &user].concat());
    let soak =
        Arc::new(Soak { address: server.address(), is_over: AtomicBool::new(false), counts: Default::default() });
    let clients: [fn(&Soak, u64); 4] = [send_messages, send_restores, send_scripts, send_powers];
    let threads: Vec<_> = clients
        .into_iter()
        .zip(seed..)
        .map(|(client, seed)| {
            let soak = Arc::clone(&soak);
            thread::spawn(move || client(&soak, seed))
        })
        .collect();
    let outcome = watch(&server, &soak, time);
    soak.is_over.store(true, Ordering::Relaxed);
    let ended = threads.into_iter().all(|thread| thread.join().is_ok());
    let _ = std::fs::remove_dir_all(&folder);
    outcome?;
    if !ended {
        return Err("a client of the soak has failed".to_owned());
    }
    let begun = Instant::now();
    let told = Command::new("kill").args(["-TERM", &server.id().to_string()]).status();
    told.map_err(|error| error.to_string())?;
    while TcpStream::connect(soak.address).is_ok() {
        if begun.elapsed() > Duration::from_secs(20) {
            return Err("the server does not end when it is told to".to_owned());
        }
        thread::yield_now();
    }
    Ok(())
}

/// Works and looks until the time is up; prints a line now and then.
fn watch(server: &ServerProcess, soak: &Soak, time: Duration) -> Result<(), String> {
    let mut observer = Observer::connect(soak.address);
    let begun = Instant::now();
    let lines = 40;
    let mut resident = Vec::new();
    println!(
        "{:>8} {:>9} {:>12} {:>10} {:>10} {:>10} {:>10} {:>9}",
        "seconds", "RSS in MB", KINDS[0], KINDS[1], KINDS[2], KINDS[3], "rounds", "slowest"
    );
    for line in 1..=lines {
        let until = time * line / lines;
        let mut slowest = Duration::ZERO;
        while begun.elapsed() < until {
            let round = Instant::now();
            observer.work()?;
            slowest = slowest.max(round.elapsed());
        }
        let panics = observer.panics()?;
        let now = server.resident() as u64;
        resident.push(now);
        let counts: Vec<u64> = soak.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        println!(
            "{:>8} {:>9} {:>12} {:>10} {:>10} {:>10} {:>10} {:>7}ms",
            begun.elapsed().as_secs(),
            now >> 20,
            counts[0],
            counts[1],
            counts[2],
            counts[3],
            observer.rounds,
            slowest.as_millis()
        );
        if panics > 0 {
            return Err(format!("the server has panicked {panics} times; its log says where"));
        }
    }
    let quarter = resident.len() / 4;
    let (before, after) = (mean(&resident[quarter..quarter * 2]), mean(&resident[quarter * 3..]));
    if after > before + before / 4 + SLACK {
        return Err(format!("the server grows: from {} to {} MB", before >> 20, after >> 20));
    }
    Ok(())
}

fn main() -> ExitCode {
    let (minutes, seed) = (option("--minutes", 60), option("--seed", 1));
    match run(Duration::from_secs(minutes * 60), seed) {
        Ok(()) => {
            println!("{minutes} minutes with seed {seed}: no panic, no hang, no growth, no wrong answer");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            println!("FAILED with seed {seed}: {reason}");
            ExitCode::FAILURE
        }
    }
}
