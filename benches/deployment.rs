//! redouble in front of a Redis Cluster, beside the Cluster alone.
//!
//! `make bench` runs all of it; `ONLY="3 nodes"` or `ONLY="30 nodes"` one of the two, `ROUNDS=9` repeats the loads more often, `-- --quick`
//! measures less, and the small one only.
//! Nodes are redis-server with Cluster mode on, all on this machine, without replicas. The load comes from `redis-benchmark
//! --cluster`. Every round measures each in turn, so that drift affects all alike, and medians are printed.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

#[path = "support/options.rs"]
#[allow(dead_code, reason = "shared by benchmarks, none of which uses all of it")]
mod options;
#[path = "support/mod.rs"]
mod support;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use options::{is_quick, redouble, rounds, some};
use support::{Outcome, Process, allow_files, connect, exchange, free_port, median, redis_benchmark, request};

struct Load {
    title: &'static str,
    requests: u64,
    per_trip: u32,
    clients: u32,
}

struct Size {
    title: &'static str,
    nodes: usize,
    loads: &'static [Load],
}

const SIZES: &[Size] = &[
    Size {
        title: "3 nodes",
        nodes: 3,
        loads: &[
            Load { title: "1 per trip, 50 connections", requests: 100_000, per_trip: 1, clients: 50 },
            Load { title: "16 per trip, 50 connections", requests: 800_000, per_trip: 16, clients: 50 },
        ],
    },
    Size {
        title: "30 nodes",
        nodes: 30,
        loads: &[
            Load { title: "1 per trip, 1,000 connections", requests: 100_000, per_trip: 1, clients: 1000 },
            Load { title: "16 per trip, 1,000 connections", requests: 800_000, per_trip: 16, clients: 1000 },
        ],
    },
];

/// What redouble is told beside the address of a node.
const REDOUBLE: [(&str, &[&str]); 3] = [
    ("redouble", &[]),
    ("redouble --journal yes", &["--journal", "yes"]),
    ("redouble --audit yes", &["--audit", "yes"]),
];

fn main() -> Outcome<()> {
    allow_files()?;
    let wanted = |size: &&Size| std::env::var("ONLY").map_or(!is_quick() || size.nodes == 3, |only| size.title == only);
    SIZES.iter().filter(wanted).try_for_each(compare)
}

/// A Cluster, removed with its files when it is dropped.
struct Cluster {
    nodes: Vec<Process>,
    ports: Vec<u16>,
    directory: PathBuf,
}

impl Cluster {
    fn start(nodes: usize) -> Outcome<Self> {
        let directory = std::env::temp_dir().join(format!("redouble-cluster-{}-{nodes}", std::process::id()));
        fs::create_dir_all(&directory)?;
        let mut cluster = Self { nodes: Vec::new(), ports: Vec::new(), directory };
        while cluster.nodes.len() < nodes {
            let (port, bus) = (free_port()?, free_port()?);
            let [at, bus] = [port, bus].map(|port| port.to_string());
            let folder = cluster.directory.join(&at);
            fs::create_dir_all(&folder)?;
            let folder = folder.to_string_lossy().into_owned();
            let words =
                ["redis-server", "--port", &at, "--cluster-port", &bus, "--cluster-enabled", "yes", "--dir", &folder];
            let settings =
                ["--save", "", "--appendonly", "no", "--cluster-node-timeout", "15000", "--maxclients", "20000"];
            cluster.nodes.push(Process::start(&[&words[..], &settings[..]].concat(), port)?);
            cluster.ports.push(port);
        }
        let addresses: Vec<String> = cluster.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let created =
            Command::new("redis-cli").args(["--cluster", "create"]).args(&addresses).arg("--cluster-yes").output()?;
        if !created.status.success() {
            return Err(format!("redis-cli: {}", String::from_utf8_lossy(&created.stdout)).into());
        }
        for port in &cluster.ports {
            let began = Instant::now();
            let mut client = connect(*port)?;
            while !exchange(&mut client, &request(&[b"CLUSTER", b"INFO"]))?
                .windows(16)
                .any(|at| at == b"cluster_state:ok")
            {
                if began.elapsed() > Duration::from_secs(20) {
                    return Err("the cluster is not ready after 20 s".into());
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(cluster)
    }

    fn processor_seconds(&self) -> Outcome<f64> {
        self.nodes.iter().map(Process::processor_seconds).sum()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes.clear();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// What the load is sent to.
struct Front {
    name: &'static str,
    port: u16,
    /// Nothing, if it is a node of the Cluster.
    process: Option<Process>,
}

impl Front {
    fn start(name: &'static str, settings: &[&str], cluster: &Cluster) -> Outcome<Self> {
        let port = free_port()?;
        let (url, at) = (format!("redis://127.0.0.1:{}", cluster.ports[0]), port.to_string());
        let words = [redouble(), "--port", &at, "--upstream-cluster", &url, "--maxclients", "20000"];
        Ok(Self { name, port, process: Some(Process::start(&[&words[..], settings].concat(), port)?) })
    }

    fn processor_seconds(&self) -> Outcome<f64> {
        self.process.as_ref().map_or(Ok(0.0), Process::processor_seconds)
    }

    fn resident(&self) -> Outcome<f64> {
        self.process.as_ref().map_or(Ok(0.0), Process::resident)
    }
}

fn compare(size: &Size) -> Outcome<()> {
    let cluster = Cluster::start(size.nodes)?;
    let mut fronts = vec![Front { name: "direct", port: cluster.ports[0], process: None }];
    for (name, settings) in REDOUBLE {
        fronts.push(Front::start(name, settings, &cluster)?);
    }
    for load in size.loads {
        compare_load(size, load, &cluster, &fronts)?;
    }
    print_costs(size, &cluster)
}

/// What one load has shown.
#[derive(Clone, Copy, Default)]
struct Seen {
    per_second: f64,
    /// Microseconds of processor time per request.
    front: f64,
    nodes: f64,
    /// Microseconds from a trip's first byte to its last reply.
    half: f64,
    most: f64,
}

fn compare_load(size: &Size, load: &Load, cluster: &Cluster, fronts: &[Front]) -> Outcome<()> {
    let rounds = rounds(3);
    for command in ["set", "get"] {
        let mut seen = vec![Vec::new(); fronts.len()];
        for _ in 0..rounds {
            for (front, seen) in fronts.iter().zip(&mut seen) {
                seen.push(take(front, cluster, load, command)?);
            }
        }
        println!("{}, {}, {}", size.title, command.to_ascii_uppercase(), load.title);
        println!(
            "    {:25} {:>10} {:>9} {:>18} {:>7} {:>8} {:>8}",
            "", "requests/s", "of direct", "CPU µs: in front", "nodes", "p50 µs", "p99 µs"
        );
        let medians: Vec<Seen> = seen.iter().map(|rounds| medians(rounds)).collect();
        for (front, one) in fronts.iter().zip(&medians) {
            println!(
                "    {:25} {:10.0} {:9.2} {:18.2} {:7.2} {:8.0} {:8.0}",
                front.name,
                one.per_second,
                one.per_second / medians[0].per_second,
                one.front,
                one.nodes,
                one.half,
                one.most
            );
        }
    }
    Ok(())
}

fn medians(rounds: &[Seen]) -> Seen {
    let of = |figure: fn(&Seen) -> f64| median(rounds.iter().map(figure).collect());
    Seen {
        per_second: of(|seen| seen.per_second),
        front: of(|seen| seen.front),
        nodes: of(|seen| seen.nodes),
        half: of(|seen| seen.half),
        most: of(|seen| seen.most),
    }
}

fn take(front: &Front, cluster: &Cluster, load: &Load, command: &str) -> Outcome<Seen> {
    let before = (front.processor_seconds()?, cluster.processor_seconds()?);
    let measured = redis_benchmark(
        Command::new("redis-benchmark")
            .args(["--cluster", "--csv", "-r", "100000", "-d", "64", "-t", command, "-p", &front.port.to_string()])
            .args([
                "-n",
                &some(load.requests).to_string(),
                "-c",
                &load.clients.to_string(),
                "-P",
                &load.per_trip.to_string(),
            ]),
    )?;
    let after = (front.processor_seconds()?, cluster.processor_seconds()?);
    let per_request = |seconds: f64| seconds / some(load.requests) as f64 * 1e6;
    Ok(Seen {
        per_second: measured.per_second,
        front: per_request(after.0 - before.0),
        nodes: per_request(after.1 - before.1),
        half: measured.half,
        most: measured.most,
    })
}

/// The clients that do nothing.
const IDLE: usize = 1000;
const QUIET: Duration = Duration::from_secs(10);

/// What the front costs by itself: for its nodes, while nobody comes, and for clients that do nothing.
fn print_costs(size: &Size, cluster: &Cluster) -> Outcome<()> {
    let front = Front::start("redouble", &[], cluster)?;
    let ports = ports_of(&front)?;
    let (empty, began) = (front.resident()?, front.processor_seconds()?);
    std::thread::sleep(QUIET);
    let quiet = (front.processor_seconds()? - began) / QUIET.as_secs_f64();
    let mut idle = Vec::with_capacity(IDLE);
    for number in 0..IDLE {
        let mut client = connect(ports[number % ports.len()])?;
        exchange(&mut client, support::PING)?;
        idle.push(client);
    }
    let each = (front.resident()? - empty) / IDLE as f64 / 1024.0;
    println!(
        "{}: {:.1} MB resident without clients, {:.1} ms of processor time a second for looking after them, {each:.1} KB for \
         each of {IDLE} idle clients",
        size.title,
        empty / f64::from(1 << 20),
        quiet * 1e3,
    );
    Ok(())
}

/// The local ports of the nodes, as the front tells them.
fn ports_of(front: &Front) -> Outcome<Vec<u16>> {
    let listed = Command::new("redis-cli").args(["-p", &front.port.to_string(), "CLUSTER", "NODES"]).output()?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let port = |line: &str| line.split_whitespace().nth(1)?.split('@').next()?.rsplit(':').next()?.parse().ok();
    let ports: Vec<u16> = text.lines().filter_map(port).collect();
    if ports.is_empty() { Err(format!("CLUSTER NODES said: {text}").into()) } else { Ok(ports) }
}
