//! How long other clients wait while one client does as much at once as it can: the slowest PING from another connection
//! during each attack, beside redis-server.
//!
//! `make bench` runs all of it, `ONLY=keys` the attacks with that in their title, `-- --quick` those with less than
//! a million of something. Every server has one thread for connections,
//! as it has by default. An attack that a server has not answered after a minute is ended there, and the server started anew. It is
//! no timed test: what one request may cost depends on the machine, and most of it on Redis's own promises.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

#[path = "support/options.rs"]
#[allow(dead_code, reason = "shared by benchmarks, none of which uses all of it")]
mod options;
#[path = "support/mod.rs"]
#[allow(dead_code, reason = "shared by benchmarks, none of which uses all of it")]
mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use options::{is_quick, is_wanted, redouble};
use support::{Outcome, PING, Process, allow_files, connect, exchange, free_port, request};

/// After so long an attack is over, answered or not.
const PATIENCE: Duration = Duration::from_secs(60);
/// What no step should take that Redis does at once.
const LONG: Duration = Duration::from_millis(50);
/// Elements that are added with one request, to make a large collection.
const AT_ONCE: usize = 10_000;
const CLIENTS: usize = 5_000;

type Words = Vec<Vec<u8>>;

/// One attack.
struct Attack {
    title: &'static str,
    /// What is there before it, as requests that count for nothing.
    before: fn() -> Vec<Words>,
    /// So many further clients are connected. Each has sent this, and reads nothing.
    crowd: Option<(usize, &'static [&'static str])>,
    /// What is sent in one go.
    requests: fn() -> Vec<Words>,
}

const MILLION: usize = 1_000_000;

const ATTACKS: &[Attack] = &[
    attack("WATCH of 10,000 keys", nothing, || vec![numbered(&["WATCH"], "w", 10_000, &[])]),
    attack("WATCH of 1,000,000 keys", nothing, || vec![numbered(&["WATCH"], "w", MILLION, &[])]),
    attack("EXEC behind WATCH of 10,000 keys", nothing, || {
        vec![numbered(&["WATCH"], "w", 10_000, &[]), words(&["MULTI"]), words(&["EXEC"])]
    }),
    attack("EXEC of 100,000 SETs", nothing, || {
        let sets = (0..100_000).map(|_| words(&["SET", "a", "b"]));
        std::iter::once(words(&["MULTI"])).chain(sets).chain([words(&["EXEC"])]).collect()
    }),
    attack("KEYS without a match, 1,000,000 keys", million_keys, || vec![words(&["KEYS", "nothing*"])]),
    attack("KEYS *, 1,000,000 keys", million_keys, || vec![words(&["KEYS", "*"])]),
    attack("SCAN COUNT 1,000,000", million_keys, || vec![words(&["SCAN", "0", "COUNT", "1000000"])]),
    attack("FLUSHALL of 1,000,000 keys", million_keys, || vec![words(&["FLUSHALL", "SYNC"])]),
    attack("DEL of 1,000,000 keys", million_keys, || vec![numbered(&["DEL"], "key:", MILLION, &[])]),
    attack("UNLINK of 1,000,000 keys", million_keys, || vec![numbered(&["UNLINK"], "key:", MILLION, &[])]),
    attack("FLUSHALL ASYNC of 1,000,000 keys", million_keys, || vec![words(&["FLUSHALL", "ASYNC"])]),
    attack("SWAPDB of 1,000,000 keys", million_keys, || vec![words(&["SWAPDB", "0", "1"])]),
    attack("MGET of 1,000,000 keys", million_keys, || vec![numbered(&["MGET"], "key:", MILLION, &[])]),
    attack("MSET of 500,000 keys", nothing, || vec![numbered(&["MSET"], "key:", MILLION, &[])]),
    attack("DEL of a set of 1,000,000", million_members, || vec![words(&["DEL", "set"])]),
    attack("SET over a set of 1,000,000", million_members, || vec![words(&["SET", "set", "x"])]),
    attack("UNLINK of a set of 1,000,000", million_members, || vec![words(&["UNLINK", "set"])]),
    attack("RENAME over a set of 1,000,000", million_members, || {
        vec![words(&["SET", "other", "x"]), words(&["RENAME", "other", "set"])]
    }),
    attack("ZUNIONSTORE of 1,000,000", million_members, || vec![words(&["ZUNIONSTORE", "other", "1", "set"])]),
    attack("SMEMBERS of 1,000,000", million_members, || vec![words(&["SMEMBERS", "set"])]),
    attack("SADD, 1,000,000 in one pipeline", nothing, || {
        (0..MILLION).map(|number| words(&["SADD", "set", &format!("member:{number}")])).collect()
    }),
    attack("ZPOPMIN, 1,000,000 in one pipeline", million_scores, || vec![words(&["ZPOPMIN", "sorted"]); MILLION]),
    attack("SUNIONSTORE of 1,000,000", million_members, || vec![words(&["SUNIONSTORE", "other", "set"])]),
    attack("SORT of 1,000,000, the first", million_members, || {
        vec![words(&["SORT", "set", "ALPHA", "LIMIT", "0", "1"])]
    }),
    attack("SINTERCARD of one set of 1,000, named 100,000 times", thousand_members, || {
        let names = std::iter::repeat_n(&b"set"[..], 100_000).map(<[u8]>::to_vec);
        vec![words(&["SINTERCARD", "100000"]).into_iter().chain(names).collect()]
    }),
    attack("SDIFF of a set of 1,000,000 and itself", million_members, || vec![words(&["SDIFF", "set", "set"])]),
    attack("EXISTS of 1,000,000 keys that are not there", nothing, || {
        vec![numbered(&["EXISTS"], "key:", MILLION, &[])]
    }),
    attack("FUNCTION LOAD of 50,000 functions", nothing, || {
        let register = |number| format!("redis.register_function('f{number}', function() return 1 end)\n");
        let library: String = std::iter::once("#!lua name=l\n".to_owned()).chain((0..50_000).map(register)).collect();
        vec![words(&["FUNCTION", "LOAD", &library]), words(&["FUNCTION", "FLUSH"])]
    }),
    attack("COPY of a set of 1,000,000", million_members, || vec![words(&["COPY", "set", "other"])]),
    attack("XINFO STREAM FULL of 100,000 entries", stream, || {
        vec![words(&["XINFO", "STREAM", "stream", "FULL", "COUNT", "0"])]
    }),
    attack("SETRANGE at 512 MB", nothing, || vec![words(&["SETRANGE", "s", "536870900", "x"])]),
    attack("SUBSCRIBE to 100,000 channels, and to none", nothing, || {
        vec![numbered(&["SUBSCRIBE"], "channel:", 100_000, &[]), words(&["UNSUBSCRIBE"])]
    }),
    attack("BLPOP of 100,000 keys", nothing, || vec![numbered(&["BLPOP"], "queue:", 100_000, &["0.01"])]),
    Attack {
        crowd: Some((CLIENTS, &["PING"])),
        ..attack("CLIENT LIST of 5,000 clients", nothing, || vec![words(&["CLIENT", "LIST"])])
    },
    Attack {
        crowd: Some((CLIENTS, &["PING"])),
        ..attack("CLIENT KILL of 2,000 ids that 5,000 clients do not have", nothing, || {
            (0..2_000).map(|number| words(&["CLIENT", "KILL", "ID", &format!("{}", 1_000_000_000 + number)])).collect()
        })
    },
    Attack {
        crowd: Some((CLIENTS, &["BLPOP", "queue", "0"])),
        ..attack("RPUSH of 5,000 for 5,000 that wait", nothing, || {
            vec![numbered(&["RPUSH", "queue"], "job:", CLIENTS, &[])]
        })
    },
    Attack {
        crowd: Some((CLIENTS, &["BLPOP", "queue", "0"])),
        ..attack("CLIENT KILL of 5,000 that wait", nothing, || vec![words(&["CLIENT", "KILL", "TYPE", "normal"])])
    },
    Attack {
        crowd: Some((CLIENTS, &["PING"])),
        ..attack("INFO, 5,000 in one pipeline, 5,000 clients", nothing, || vec![words(&["INFO"]); 5_000])
    },
    Attack {
        crowd: Some((50, &["SUBSCRIBE", "channel"])),
        ..attack("PUBLISH of 1 MB, 25 in one pipeline, 50 that read nothing", nothing, || {
            vec![words(&["PUBLISH", "channel", &"m".repeat(1 << 20)]); 25]
        })
    },
    attack("SORT of 1,000, 2,000 in one pipeline", thousand_elements, || {
        vec![words(&["SORT", "list", "ALPHA", "LIMIT", "0", "1"]); 2_000]
    }),
    attack("LRANGE of 100 elements of 1 MB", megabytes, || vec![words(&["LRANGE", "list", "0", "-1"])]),
    attack("GET of 1 MB, 200 in one pipeline", megabyte, || vec![words(&["GET", "bits"]); 200]),
    attack("GET of 400 MB", long_string, || vec![words(&["GET", "long"])]),
    attack("GETDEL of 400 MB", long_string, || vec![words(&["GETDEL", "long"])]),
    attack("BITCOUNT of 1 MB, 3,000 in one pipeline", megabyte, || vec![words(&["BITCOUNT", "bits"]); 3_000]),
    attack("PFCOUNT of 1,000 dense HyperLogLogs", dense_hyperloglogs, || vec![numbered(&["PFCOUNT"], "p", 1_000, &[])]),
    attack("DUMP of a set of 900,000 integers", many_integers, || {
        vec![words(&["DUMP", "set"]), words(&["CONFIG", "SET", "set-max-intset-entries", "512"])]
    }),
    attack("SLOWLOG GET of 200,000 entries", logged, || {
        let settings = words(&["CONFIG", "SET", "slowlog-log-slower-than", "-1"]);
        vec![words(&["SLOWLOG", "GET", "200000"]), settings, words(&["SLOWLOG", "RESET"])]
    }),
    attack("COMMAND DOCS of 5,000 names", nothing, || {
        let names = ["get", "set", "eval", "client|kill", "xadd", "zadd", "setnx", "getset", "del", "pexpire"];
        vec![words(&[&["COMMAND", "DOCS"][..], &names.repeat(500)].concat())]
    }),
    attack("EVAL of a loop of 20,000, 1,000 in one pipeline", nothing, || {
        vec![words(&["EVAL", "for i = 1, 20000 do end return 1", "0"]); 1_000]
    }),
    attack("EVAL of 5,000 SWAPDBs", nothing, || {
        vec![words(&["EVAL", "for i = 1, 5000 do redis.call('SWAPDB', 0, 1) end", "0"])]
    }),
    attack("EVAL of 5,000 SWAPDBs, 100,000 keys", tenth_of_million_keys, || {
        vec![words(&["EVAL", "for i = 1, 5000 do redis.call('SWAPDB', 0, 1) end", "0"])]
    }),
    attack("EVAL of 20,000 FLUSHALLs", nothing, || {
        vec![words(&["EVAL", "for i = 1, 20000 do redis.call('FLUSHALL') end", "0"])]
    }),
    attack("EVAL of 20,000 DBSIZEs, 100,000 keys", tenth_of_million_keys, || {
        vec![words(&["EVAL", "for i = 1, 20000 do redis.call('DBSIZE') end", "0"])]
    }),
    attack("EXEC of 2,000 LATENCY HISTOGRAMs", nothing, || {
        let histogram = words(&["LATENCY", "HISTOGRAM", "get"]);
        std::iter::once(words(&["MULTI"])).chain(vec![histogram; 2_000]).chain([words(&["EXEC"])]).collect()
    }),
    attack("MEMORY PURGE, 500,000 of 1,000,000 keys removed", half_of_million_keys_removed, || {
        vec![words(&["MEMORY", "PURGE"])]
    }),
    attack("SORT ALPHA of 20,000 that begin with the same 2,000 bytes", long_elements, || {
        vec![words(&["SORT", "list", "ALPHA", "LIMIT", "0", "5"])]
    }),
    attack("SORT of 10,000 GET a pattern of 20,000 bytes", nothing, || {
        let pattern = format!("{}*", "x".repeat(20_000));
        let elements = numbered(&["RPUSH", "list"], "", 10_000, &[]);
        vec![elements, words(&["SORT", "list", "BY", "nosort", "GET", &pattern])]
    }),
];

const fn attack(title: &'static str, before: fn() -> Vec<Words>, requests: fn() -> Vec<Words>) -> Attack {
    Attack { title, before, crowd: None, requests }
}

fn words(words: &[&str]) -> Words {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// A request with so many numbered words between others.
fn numbered(first: &[&str], prefix: &str, count: usize, last: &[&str]) -> Words {
    let middle = (0..count).map(|number| format!("{prefix}{number}").into_bytes());
    words(first).into_iter().chain(middle).chain(words(last)).collect()
}

fn nothing() -> Vec<Words> {
    Vec::new()
}

fn tenth_of_million_keys() -> Vec<Words> {
    million_keys().into_iter().take(MILLION / 10 / AT_ONCE).collect()
}

fn million_keys() -> Vec<Words> {
    let step = |from: usize| {
        let pairs = (from..from + AT_ONCE).flat_map(|number| [format!("key:{number}").into_bytes(), b"v".to_vec()]);
        words(&["MSET"]).into_iter().chain(pairs).collect()
    };
    (0..MILLION).step_by(AT_ONCE).map(step).collect()
}

fn half_of_million_keys_removed() -> Vec<Words> {
    let step = |from: usize| {
        let keys = (from..from + AT_ONCE).step_by(2).map(|number| format!("key:{number}").into_bytes());
        words(&["DEL"]).into_iter().chain(keys).collect()
    };
    million_keys().into_iter().chain((0..MILLION).step_by(AT_ONCE).map(step)).collect()
}

fn thousand_elements() -> Vec<Words> {
    vec![numbered(&["RPUSH", "list"], "element", 1_000, &[])]
}

fn long_elements() -> Vec<Words> {
    let prefix = "a".repeat(2_000);
    (0..20).map(|step| numbered(&["RPUSH", "list"], &format!("{prefix}{step}-"), 1_000, &[])).collect()
}

fn thousand_members() -> Vec<Words> {
    vec![numbered(&["SADD", "set"], "member:", 1_000, &[])]
}

fn dense_hyperloglogs() -> Vec<Words> {
    let first = numbered(&["PFADD", "p0"], "e", 50_000, &[]);
    std::iter::once(first).chain((1..1_000).map(|number| words(&["COPY", "p0", &format!("p{number}")]))).collect()
}

fn many_integers() -> Vec<Words> {
    vec![words(&["CONFIG", "SET", "set-max-intset-entries", "1000000"]), numbered(&["SADD", "set"], "", 900_000, &[])]
}

fn logged() -> Vec<Words> {
    let settings = words(&["CONFIG", "SET", "slowlog-max-len", "200000", "slowlog-log-slower-than", "0"]);
    std::iter::once(settings).chain(vec![words(&["SET", "key", "value"]); 200_000]).collect()
}

fn megabyte() -> Vec<Words> {
    vec![words(&["SETBIT", "bits", "8388607", "1"])]
}

fn long_string() -> Vec<Words> {
    vec![words(&["SET", "long", &"l".repeat(400 << 20)])]
}

fn megabytes() -> Vec<Words> {
    let element = "e".repeat(1 << 20);
    vec![words(&["RPUSH", "list", &element]); 100]
}

fn million_members() -> Vec<Words> {
    let step = |from: usize| {
        let members = (from..from + AT_ONCE).map(|number| format!("member:{number}").into_bytes());
        words(&["SADD", "set"]).into_iter().chain(members).collect()
    };
    (0..MILLION).step_by(AT_ONCE).map(step).collect()
}

fn million_scores() -> Vec<Words> {
    million_members().into_iter().chain([words(&["ZUNIONSTORE", "sorted", "1", "set"])]).collect()
}

fn stream() -> Vec<Words> {
    (0..100_000).map(|_| words(&["XADD", "stream", "*", "field", "value"])).collect()
}

fn encoded(requests: &[Words]) -> Vec<u8> {
    let encode = |words: &Words| request(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
    requests.iter().flat_map(encode).collect()
}

/// A server, started anew where it did not come back.
struct Peer {
    name: &'static str,
    program: &'static str,
    port: u16,
    process: Process,
}

impl Peer {
    fn start(name: &'static str, program: &'static str) -> Outcome<Self> {
        let port = free_port()?;
        let number = port.to_string();
        let line = [program, "--port", &number, "--save", "", "--maxclients", "10000"];
        Ok(Self { name, program, port, process: Process::start(&line, port)? })
    }

    /// Starts it anew, empty.
    fn restart(&mut self) -> Outcome<()> {
        *self = Self::start(self.name, self.program)?;
        Ok(())
    }
}

/// What an attack cost.
struct Cost {
    /// Until it was answered; nothing if it was not.
    took: Option<Duration>,
    /// The slowest PING of another client meanwhile.
    ping: Duration,
    processor: f64,
}

fn main() -> Outcome<()> {
    allow_files()?;
    let mut peers = vec![Peer::start("redouble", redouble())?];
    peers.push(Peer::start("redis-server", "redis-server")?);
    println!(
        "| the slowest PING from another connection, in ms | redouble | redis-server | ratio | CPU | redis-server | ratio |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut longer = Vec::new();
    for attack in
        ATTACKS.iter().filter(|attack| is_wanted(attack.title) && (!is_quick() || !attack.title.contains("000,000")))
    {
        let costs: Vec<Cost> = peers.iter_mut().map(|peer| measure(peer, attack)).collect::<Outcome<_>>()?;
        let [ours, theirs] = costs.as_slice() else { continue };
        let shown = |cost: &Cost| match cost.took {
            Some(_) => format!("{:.1}", cost.ping.as_secs_f64() * 1e3),
            None => format!("more than {:.0}", PATIENCE.as_secs_f64() * 1e3),
        };
        let ratio = |ours: f64, theirs: f64| if theirs > 0.0 { format!("{:.2}", ours / theirs) } else { String::new() };
        println!(
            "| {} | {} | {} | {} | {:.0} | {:.0} | {} |",
            attack.title,
            shown(ours),
            shown(theirs),
            ratio(ours.ping.as_secs_f64(), theirs.ping.as_secs_f64()),
            ours.processor * 1e3,
            theirs.processor * 1e3,
            ratio(ours.processor, theirs.processor),
        );
        if ours.ping > LONG && theirs.ping <= LONG && theirs.took.is_some() {
            longer.push(attack.title);
        }
    }
    if is_wanted("SIGTERM") && !is_quick() {
        let took: Vec<f64> = peers.into_iter().map(end_with_keys).collect::<Outcome<_>>()?;
        let [ours, theirs] = took[..] else { return Ok(()) };
        println!();
        println!("From SIGTERM to the end, with 1,000,000 keys: redouble {ours:.0} ms, redis-server {theirs:.0} ms.");
    }
    println!();
    match longer.as_slice() {
        [] => println!("No step takes longer than {} ms that redis-server does in less.", LONG.as_millis()),
        titles => println!("Longer than {} ms here and not there: {}.", LONG.as_millis(), titles.join("; ")),
    }
    Ok(())
}

/// How many milliseconds a server takes to end that has a million keys.
fn end_with_keys(peer: Peer) -> Outcome<f64> {
    let mut client = connect(peer.port)?;
    for step in million_keys().chunks(100) {
        client.write_all(&encoded(step))?;
        let mut replies = BufReader::new(&client);
        step.iter().try_for_each(|_| skip_reply(&mut replies))?;
    }
    Ok(peer.process.end()?.as_secs_f64() * 1e3)
}

fn measure(peer: &mut Peer, attack: &Attack) -> Outcome<Cost> {
    let mut client = connect(peer.port)?;
    exchange(&mut client, &request(&[b"FLUSHALL", b"SYNC"]))?;
    for step in (attack.before)().chunks(100) {
        client.write_all(&encoded(step))?;
        let mut replies = BufReader::new(&client);
        step.iter().try_for_each(|_| skip_reply(&mut replies))?;
    }
    let crowd: Vec<TcpStream> =
        attack.crowd.map_or_else(|| Ok(Vec::new()), |(count, first)| crowd(peer.port, count, first))?;
    let requests = (attack.requests)();
    let bytes = [encoded(&requests), PING.to_vec()].concat();
    drop(requests);

    let (is_over, port) = (Arc::new(AtomicBool::new(false)), peer.port);
    let mut other = connect(port)?;
    exchange(&mut other, PING)?;
    let over = Arc::clone(&is_over);
    let pinging = std::thread::spawn(move || slowest_ping(&mut other, &over));
    let (processor, began) = (peer.process.processor_seconds()?, Instant::now());
    let answered = send_and_read(&client, bytes, attack.title);
    let took = began.elapsed();
    let processor = peer.process.processor_seconds()? - processor;
    is_over.store(true, Ordering::Relaxed);
    let took = answered.is_ok().then_some(took);
    if took.is_none() {
        peer.restart()?;
    }
    let ping = pinging.join().map_err(|_| "the client that sends PING has panicked")?;
    drop(crowd);
    // An attack that makes large values leaves none.
    let mut last = connect(peer.port)?;
    exchange(&mut last, &request(&[b"FLUSHALL", b"SYNC"]))?;
    Ok(Cost { took, ping, processor })
}

/// Sends PING again and again. The longest that an answer took.
fn slowest_ping(client: &mut TcpStream, is_over: &AtomicBool) -> Duration {
    let mut slowest = Duration::ZERO;
    while !is_over.load(Ordering::Relaxed) {
        let began = Instant::now();
        // A server that is started anew answers nobody.
        let is_answered = exchange(client, PING).is_ok();
        slowest = slowest.max(began.elapsed());
        if !is_answered {
            break;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    slowest
}

/// Sends everything and reads all replies, the last of which is that to a PING. CLIENT KILL ends the connection itself.
fn send_and_read(client: &TcpStream, bytes: Vec<u8>, title: &str) -> Outcome<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    let mut writer = client.try_clone()?;
    let sending = std::thread::spawn(move || writer.write_all(&bytes));
    let mut reader = client;
    let (mut last, mut part) = (Vec::new(), vec![0; 1 << 20]);
    while !last.ends_with(b"+PONG\r\n") && !last.ends_with(b"$4\r\npong\r\n$0\r\n\r\n") {
        match reader.read(&mut part) {
            Ok(0) | Err(_) if title.starts_with("CLIENT KILL") => break,
            Ok(0) => return Err("the connection was closed".into()),
            Ok(length) => {
                last.extend_from_slice(&part[..length]);
                last.drain(..last.len().saturating_sub(64));
            }
            Err(error) => {
                let _ = client.shutdown(std::net::Shutdown::Both);
                let _ = sending.join();
                return Err(error.into());
            }
        }
    }
    let _ = sending.join();
    Ok(())
}

fn crowd(port: u16, count: usize, first: &[&str]) -> Outcome<Vec<TcpStream>> {
    let line = encoded(&[words(first)]);
    let join = |_| {
        let mut client = connect(port)?;
        client.write_all(&line)?;
        Ok(client)
    };
    let crowd: Outcome<Vec<TcpStream>> = (0..count).map(join).collect();
    // What they have sent is served before what comes later.
    let mut last = connect(port)?;
    exchange(&mut last, PING)?;
    crowd
}

/// Reads one reply that is no collection.
fn skip_reply(replies: &mut impl BufRead) -> Outcome<()> {
    let mut line = String::new();
    replies.read_line(&mut line)?;
    if let Some(length) = line.strip_prefix('$') {
        let mut rest = vec![0; length.trim().parse::<usize>()? + 2];
        replies.read_exact(&mut rest)?;
    }
    Ok(())
}
