//! redouble in front of redis-server, beside the server alone, a plain relay of bytes, and twemproxy.
//!
//! `make bench` runs all of it. `ONLY=load`, `ONLY=idle` or `ONLY=subscriber` runs one part, `ONLY="16 per trip"` the loads with
//! that in their title; `ROUNDS=9` repeats the loads more often, `-- --quick` measures less. twemproxy is measured if `nutcracker` is on the PATH. All are in front of one and the same redis-server. Every round
//! measures each of them in turn, so that drift affects all alike, and medians are printed. Nothing is pinned to a processor:
//! a server, what stands in front of it and the load are three processes.
//!
//! The load comes from `redis-benchmark`. The figure that matters is processor time per request, of the server and of what
//! stands in front of it: with as many processes as processors, throughput and latency follow from it.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

#[path = "support/options.rs"]
#[allow(dead_code, reason = "shared by benchmarks, none of which uses all of it")]
mod options;
#[path = "support/mod.rs"]
mod support;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use options::{is_wanted, redouble, rounds, some};
use support::{Outcome, Process, allow_files, connect, exchange, free_port, median, redis_benchmark, request};

const VALUE: usize = 64;

struct Load {
    title: &'static str,
    requests: u64,
    per_trip: u32,
    clients: u32,
    command: &'static [&'static str],
}

const SET: &[&str] = &["SET", "key:__rand_int__", "{value}"];
const GET: &[&str] = &["GET", "key:__rand_int__"];

const LOADS: &[Load] = &[
    Load { title: "SET, 1 per trip", requests: 100_000, per_trip: 1, clients: 50, command: SET },
    Load { title: "GET, 1 per trip", requests: 100_000, per_trip: 1, clients: 50, command: GET },
    Load { title: "SET, 16 per trip", requests: 800_000, per_trip: 16, clients: 50, command: SET },
    Load { title: "GET, 16 per trip", requests: 800_000, per_trip: 16, clients: 50, command: GET },
    Load { title: "GET, 1 per trip, 1 client", requests: 20_000, per_trip: 1, clients: 1, command: GET },
];

/// The clients that do nothing, if the limit of open files allows them.
const IDLE: usize = 10_000;
/// What is published to a subscriber that does not read.
const PUBLISHED: usize = 1 << 30;
const MESSAGE: usize = 1 << 20;

/// What the load is sent to.
struct Front {
    name: &'static str,
    port: u16,
    /// Nothing, if it is the server.
    process: Option<Process>,
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    if let (Some("relay"), Some(port), Some(server)) = (arguments.next().as_deref(), arguments.next(), arguments.next())
    {
        return relay(port.parse()?, server.parse()?);
    }
    let loads: Vec<&Load> = LOADS.iter().filter(|load| is_wanted("load") || is_wanted(load.title)).collect();
    if !loads.is_empty() {
        compare_loads(&loads)?;
    }
    if is_wanted("idle") {
        compare_idle()?;
    }
    if is_wanted("subscriber") {
        compare_subscribers()?;
    }
    Ok(())
}

/// Copies bytes in both directions between each client and a connection of its own to the server, on one thread.
fn relay(port: u16, server: u16) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
        loop {
            let (mut client, _) = listener.accept().await?;
            client.set_nodelay(true)?;
            tokio::spawn(async move {
                let mut server = tokio::net::TcpStream::connect(("127.0.0.1", server)).await?;
                server.set_nodelay(true)?;
                tokio::io::copy_bidirectional(&mut client, &mut server).await
            });
        }
    })
}

/// A redis-server, and everything that can stand in front of it.
struct Deployment {
    server: Process,
    fronts: Vec<Front>,
    /// Of twemproxy.
    settings: PathBuf,
}

impl Deployment {
    fn start() -> Outcome<Self> {
        let server_port = free_port()?;
        let at = server_port.to_string();
        let redis = ["redis-server", "--port", &at, "--save", "", "--appendonly", "no", "--maxclients", "60000"];
        let server = Process::start(&redis, server_port)?;
        let settings = std::env::temp_dir().join(format!("redouble-twemproxy-{}.yml", std::process::id()));
        let mut deployment = Self { server, fronts: Vec::new(), settings };
        deployment.fronts.push(Front { name: "direct", port: server_port, process: None });

        let this = std::env::current_exe()?.to_string_lossy().into_owned();
        let port = free_port()?;
        deployment.add("relay of bytes", port, &[&this, "relay", &port.to_string(), &at])?;

        if Command::new("nutcracker").arg("--version").stderr(Stdio::null()).status().is_ok() {
            let (port, statistics) = (free_port()?, free_port()?.to_string());
            let pool = format!("listen: 127.0.0.1:{port}\n  redis: true\n  servers:\n   - 127.0.0.1:{at}:1\n");
            fs::write(&deployment.settings, format!("pool:\n  {pool}"))?;
            let path = deployment.settings.to_string_lossy().into_owned();
            let words = ["nutcracker", "-c", &path, "-a", "127.0.0.1", "-s", &statistics, "-o", "/dev/null"];
            deployment.add("twemproxy", port, &[&words[..], &["-p", &format!("{path}.pid")]].concat())?;
        } else {
            println!("twemproxy is not measured: nutcracker is not on the PATH.");
        }
        for (name, settings) in REDOUBLE {
            let port = free_port()?;
            let (url, port_text) = (format!("redis://127.0.0.1:{at}"), port.to_string());
            let words = [redouble(), "--port", &port_text, "--upstream", &url];
            if let Err(error) = deployment.add(name, port, &[&words[..], settings, &["--maxclients", "20000"]].concat())
            {
                println!("{name} is not measured: {error}");
            }
        }
        Ok(deployment)
    }

    fn add(&mut self, name: &'static str, port: u16, words: &[&str]) -> Outcome<()> {
        let process = Process::start(words, port)?;
        self.fronts.push(Front { name, port, process: Some(process) });
        Ok(())
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.settings);
    }
}

/// What redouble is told beside the address of the server.
const REDOUBLE: [(&str, &[&str]); 4] = [
    ("redouble", &[]),
    ("redouble --journal yes", &["--journal", "yes"]),
    ("redouble --audit yes", &["--audit", "yes"]),
    ("redouble --audit yes --upstream-order exact", &["--audit", "yes", "--upstream-order", "exact"]),
];

/// What one load has shown.
#[derive(Clone, Copy, Default)]
struct Seen {
    per_second: f64,
    /// Microseconds of processor time per request.
    front: f64,
    server: f64,
    /// Microseconds from a trip's first byte to its last reply.
    half: f64,
    most: f64,
}

fn compare_loads(loads: &[&Load]) -> Outcome<()> {
    let deployment = Deployment::start()?;
    let rounds = rounds(5);
    for load in loads {
        let mut seen = vec![Vec::new(); deployment.fronts.len()];
        for _ in 0..rounds {
            for (front, seen) in deployment.fronts.iter().zip(&mut seen) {
                seen.push(deployment.take(front, load)?);
            }
        }
        println!("{}, {} connections", load.title, load.clients);
        println!(
            "    {:43} {:>10} {:>5} {:>13} {:>22} {:>8} {:>6} {:>7}",
            "", "requests/s", "of", "lowest to", "CPU µs/request", "both", "p50", "p99"
        );
        println!(
            "    {:43} {:>10} {:>5} {:>13} {:>14} {:>7} {:>8} {:>6} {:>7}",
            "median of all rounds", "", "direct", "highest", "in front", "server", "of direct", "µs", "µs"
        );
        let medians: Vec<Seen> = seen.iter().map(|rounds| medians(rounds)).collect();
        for ((front, rounds), one) in deployment.fronts.iter().zip(&seen).zip(&medians) {
            let base = &medians[0];
            let rates = || rounds.iter().map(|seen| seen.per_second / 1000.0);
            let (least, most) = (rates().fold(f64::MAX, f64::min), rates().fold(0.0, f64::max));
            println!(
                "    {:43} {:10.0} {:5.2} {least:5.0}-{most:4.0} k {:14.2} {:7.2} {:8.2} {:6.0} {:7.0}",
                front.name,
                one.per_second,
                one.per_second / base.per_second,
                one.front,
                one.server,
                (one.front + one.server) / base.server,
                one.half,
                one.most
            );
        }
        print_ratios(&deployment.fronts, &medians);
    }
    Ok(())
}

/// What the proxy adds to a median latency, compared with what a relay adds; and what the journal costs.
fn print_ratios(fronts: &[Front], medians: &[Seen]) {
    let of = |name: &str| fronts.iter().position(|front| front.name == name).map(|at| medians[at]);
    let (Some(relay), Some(redouble), direct) = (of("relay of bytes"), of("redouble"), medians[0]) else { return };
    let added = |one: Seen| one.half - direct.half;
    println!(
        "    added to p50, in what the relay adds: {:.2}; CPU of redouble, in that of the relay: {:.2}",
        added(redouble) / added(relay),
        redouble.front / relay.front
    );
    let whole = |one: Seen| one.front + one.server;
    for name in REDOUBLE.iter().skip(1).map(|(name, _)| *name) {
        if let Some(armed) = of(name) {
            println!(
                "    {name}, in what redouble takes with nothing armed: CPU {:.2}, with the server's {:.2}; p50 {:.2}",
                armed.front / redouble.front,
                whole(armed) / whole(redouble),
                armed.half / redouble.half
            );
        }
    }
}

fn medians(rounds: &[Seen]) -> Seen {
    let of = |figure: fn(&Seen) -> f64| median(rounds.iter().map(figure).collect());
    Seen {
        per_second: of(|seen| seen.per_second),
        front: of(|seen| seen.front),
        server: of(|seen| seen.server),
        half: of(|seen| seen.half),
        most: of(|seen| seen.most),
    }
}

impl Deployment {
    fn take(&self, front: &Front, load: &Load) -> Outcome<Seen> {
        let spent = |process: Option<&Process>| process.map_or(Ok(0.0), Process::processor_seconds);
        let before = (spent(front.process.as_ref())?, spent(Some(&self.server))?);
        let measured = redis_benchmark(
            Command::new("redis-benchmark")
                .args(["-p", &front.port.to_string(), "-n", &some(load.requests).to_string(), "--csv", "-r", "100000"])
                .args(["-c", &load.clients.to_string(), "-P", &load.per_trip.to_string()])
                .args(load.command.iter().map(|word| word.replace("{value}", &"v".repeat(VALUE)))),
        )?;
        let after = (spent(front.process.as_ref())?, spent(Some(&self.server))?);
        let per_request = |seconds: f64| seconds / some(load.requests) as f64 * 1e6;
        Ok(Seen {
            per_second: measured.per_second,
            front: per_request(after.0 - before.0),
            server: per_request(after.1 - before.1),
            half: measured.half,
            most: measured.most,
        })
    }
}

fn compare_idle() -> Outcome<()> {
    // Each front has two sockets of a client, this process one.
    let clients = IDLE.min((allow_files()? as usize - 100) / 2);
    println!("{clients} clients that are idle after one GET, resident memory for each in KB");
    let get = request(&[b"GET", b"nothing"]);
    for index in 0.. {
        // A front of its own, so that nothing is left of the one before.
        let deployment = Deployment::start()?;
        let Some(front) = deployment.fronts.get(index) else { break };
        // Whatever is allocated at the first command is no client's.
        exchange(&mut connect(front.port)?, &get)?;
        let resident = |process: Option<&Process>| process.map_or(Ok(0.0), Process::resident);
        let before = (resident(front.process.as_ref())?, resident(Some(&deployment.server))?);
        let mut idle = Vec::with_capacity(clients);
        for _ in 0..clients {
            let mut client = connect(front.port)?;
            exchange(&mut client, &get)?;
            idle.push(client);
        }
        let after = (resident(front.process.as_ref())?, resident(Some(&deployment.server))?);
        let each = |bytes: f64| bytes / clients as f64 / 1024.0;
        println!(
            "    {:43} {:6.2} in front {:6.2} server",
            front.name,
            each(after.0 - before.0),
            each(after.1 - before.1)
        );
    }
    Ok(())
}

/// One client subscribes and never reads, another publishes, a third measures its own round trips.
fn compare_subscribers() -> Outcome<()> {
    println!("{} MB published to a subscriber that never reads", PUBLISHED >> 20);
    let deployment = Deployment::start()?;
    for front in deployment.fronts.iter().filter(|front| front.name != "twemproxy") {
        let resident = || front.process.as_ref().map_or(Ok(0.0), Process::resident);
        let before = resident()?;
        let quiet = trips(front.port, &AtomicBool::new(false), 2_000)?;
        let mut subscriber = connect(front.port)?;
        exchange(&mut subscriber, &request(&[b"SUBSCRIBE", b"news"]))?;
        let (is_over, mut most, mut closed_after) = (AtomicBool::new(false), before, None);
        let busy = std::thread::scope(|scope| -> Outcome<Vec<f64>> {
            let reader = scope.spawn(|| trips(front.port, &is_over, usize::MAX).map_err(|error| error.to_string()));
            let mut publish = || -> Outcome<()> {
                // Straight to the server, so that this load does not pass the proxy.
                let mut publisher = connect(deployment.fronts[0].port)?;
                let message = request(&[b"PUBLISH", b"news", &vec![b'm'; MESSAGE]]);
                for number in 0..PUBLISHED / MESSAGE {
                    if exchange(&mut publisher, &message)?.starts_with(b":0") && closed_after.is_none() {
                        closed_after = Some(number);
                    }
                    most = resident()?.max(most);
                }
                Ok(())
            };
            let published = publish();
            is_over.store(true, Ordering::Relaxed);
            published?;
            Ok(reader.join().map_err(|_| "the reader has panicked")??)
        })?;
        let closed = closed_after.map_or("never".to_owned(), |messages| format!("after {messages} MB"));
        println!(
            "    {:43} grows by at most {:5.2} MB; the server closes it {closed}; a GET of another client p50 {:.0} µs, \
             before {:.0} µs",
            front.name,
            (most - before) / f64::from(1 << 20),
            median(busy),
            median(quiet)
        );
    }
    Ok(())
}

/// Sends GETs, one after the other, and returns how many microseconds each took.
fn trips(port: u16, is_over: &AtomicBool, most: usize) -> Outcome<Vec<f64>> {
    let mut client = connect(port)?;
    let get = request(&[b"GET", b"nothing"]);
    let mut times = Vec::new();
    while !is_over.load(Ordering::Relaxed) && times.len() < most {
        let began = Instant::now();
        exchange(&mut client, &get)?;
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(times)
}
