//! The programs that use a deployment: each is played on one deployment directly, and on another one through redouble, while
//! nodes fail over and slots move.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use redouble::Server;

use super::front::Front;
use super::packages::{NodePackages, Requirements, folder, node_modules, python};
use super::support::deployments::{Cluster, Node, SLOTS, SentinelSet, slot_of};
use super::support::wire::Wire;
use super::watch::{Seen, Watch};

/// What a program is written in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Python,
    Node,
    /// A part of this binary, run as a process of its own.
    Rust,
}

/// What kind of deployment a program uses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Cluster,
    Sentinel,
}

pub struct Program {
    pub name: &'static str,
    pub language: Language,
    pub kind: Kind,
    /// The protocol that it speaks: 2 or 3.
    pub protocol: &'static str,
}

const fn program(name: &'static str, language: Language, kind: Kind, protocol: &'static str) -> Program {
    Program { name, language, kind, protocol }
}

pub const PROGRAMS: &[Program] = &[
    program("redis_py_cluster", Language::Python, Kind::Cluster, "2"),
    program("redis_py_cluster_asyncio", Language::Python, Kind::Cluster, "3"),
    program("redis_py_sentinel", Language::Python, Kind::Sentinel, "3"),
    program("redis_py_sentinel_asyncio", Language::Python, Kind::Sentinel, "2"),
    program("ioredis_cluster", Language::Node, Kind::Cluster, "2"),
    program("ioredis_sentinel", Language::Node, Kind::Sentinel, "2"),
    program("node_redis_cluster", Language::Node, Kind::Cluster, "3"),
    program("node_redis_sentinel", Language::Node, Kind::Sentinel, "3"),
    program("redis_rs_cluster", Language::Rust, Kind::Cluster, "2"),
    program("redis_rs_cluster_async", Language::Rust, Kind::Cluster, "3"),
    program("redis_rs_sentinel", Language::Rust, Kind::Sentinel, "3"),
    program("redis_cli_cluster", Language::Python, Kind::Cluster, "2"),
];

/// What the Python programs run in.
const PYTHON: Requirements = Requirements { name: "deployments", text: include_str!("python/requirements.txt") };

const NODE: NodePackages = NodePackages {
    name: "deployments",
    package: include_str!("node/package.json"),
    lock: include_str!("node/package-lock.json"),
};

/// The workers of a load, and how many keys each writes: `common.py` says the same.
const WORKERS: usize = 4;
const KEYS: usize = 97;

/// How many slots move under load.
const MOVED_SLOTS: usize = 1_000;

/// How long a program may be silent.
const LONGEST: Duration = Duration::from_secs(120);

/// Installs what a language needs, and says which program runs it.
pub fn install(language: Language) -> Result<PathBuf, String> {
    match language {
        Language::Python => python(PYTHON),
        Language::Node => node_modules(NODE),
        Language::Rust => std::env::current_exe().map_err(|error| error.to_string()),
    }
}

/// The result of a program on one side.
pub struct Outcome {
    /// What it printed of its operations.
    pub transcript: Vec<String>,
    pub written: usize,
    /// Writes whose outcome the program does not know.
    pub unknown: usize,
    /// Writes that were acknowledged and are not there.
    pub lost: Vec<String>,
    /// Writes that are there more than once.
    pub doubled: Vec<String>,
    pub seen: Seen,
    pub log: PathBuf,
}

/// A deployment that a program uses.
enum Deployment {
    Cluster(Cluster),
    Sentinel(SentinelSet),
}

impl Deployment {
    fn start(kind: Kind) -> Self {
        match kind {
            Kind::Cluster => Self::Cluster(Cluster::start(3, 1)),
            Kind::Sentinel => Self::Sentinel(SentinelSet::start()),
        }
    }

    fn nodes(&self) -> Vec<&Node> {
        match self {
            Self::Cluster(cluster) => cluster.nodes.iter().collect(),
            Self::Sentinel(set) => set.all().collect(),
        }
    }

    fn front(&self) -> Front {
        match self {
            Self::Cluster(cluster) => Front::of_cluster(&cluster.nodes[0].address().to_string(), &[]),
            Self::Sentinel(set) => Front::of_sentinels(&set.addresses(), &[]),
        }
    }

    /// Where the master of a key is.
    fn master_of(&self, key: &str) -> SocketAddr {
        let port = match self {
            Self::Sentinel(set) => set.master(),
            Self::Cluster(cluster) => {
                let slot = slot_of(key);
                let masters = cluster.lines();
                masters.iter().find(|line| line.is_master() && line.owns(slot)).expect("a master").port
            }
        };
        self.nodes().iter().find(|node| node.port() == port).expect("it is there").address()
    }

    /// What a program gets to know where it is.
    fn environment(&self) -> Vec<(String, String)> {
        let of = |name: &str, value: String| (name.to_owned(), value);
        match self {
            Self::Cluster(cluster) => vec![
                of("REDIS_URL", format!("redis://{}", cluster.nodes[0].address())),
                of("REDIS_CLUSTER_NODES", cluster.addresses()),
            ],
            Self::Sentinel(set) => vec![
                of("REDIS_URL", format!("redis://{}", set.nodes[0].address())),
                of("REDIS_SENTINELS", set.addresses()),
                of("REDIS_SENTINEL_SERVICE", SentinelSet::SERVICE.to_owned()),
            ],
        }
    }
}

/// Plays a program on a deployment of its own: directly, or through redouble.
pub fn play(program: &Program, through: bool) -> Result<Outcome, String> {
    let installed = install(program.language)?;
    let mut deployment = Deployment::start(program.kind);
    let front = through.then(|| deployment.front());
    let environment = match &front {
        Some(front) => front.environment(),
        None => deployment.environment(),
    };
    let side = if through { "through" } else { "direct" };
    let logs = folder().join("logs").join("deployments");
    fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    let log = logs.join(format!("{}-{side}.log", program.name));
    let mut running = Running::start(program, &installed, environment, &log)?;
    let ports = deployment.nodes().iter().map(|node| node.port()).collect();
    let mut known: Vec<u32> = deployment.nodes().iter().filter_map(|node| node.process()).collect();
    known.push(std::process::id());
    // What a client without a front connects to is a node.
    known.push(front.as_ref().map_or(running.child.id(), Front::process));
    let watch = Watch::start(ports, running.child.id(), known);

    let mut transcript = running.until("-- load")?;
    running.progress(3)?;
    match &mut deployment {
        Deployment::Cluster(cluster) => events_of_cluster(cluster, &mut running)?,
        Deployment::Sentinel(set) => {
            set.kill_master();
            set.until_well(1);
            running.progress(3)?;
            set.fail_over();
        }
    }
    running.progress(3)?;
    let seen = watch.finish();
    running.stop();
    let written = running.until("-- after")?;
    transcript.extend(running.until_end()?);
    let lines = transcript.join("\n");
    fs::write(log.with_extension("txt"), lines).map_err(|error| format!("{}: {error}", log.display()))?;
    let written: Vec<Written> = written.iter().filter_map(|line| Written::parse(line)).collect();
    if written.len() != WORKERS {
        return Err(format!("{} workers tell what they wrote", written.len()));
    }
    let (lost, doubled) = compare_writes(|key| deployment.master_of(key), &written);
    if let Some(front) = &front {
        let mut text = front.log();
        // What happened to the first keys that are not as they should be.
        for key in lost.iter().chain(&doubled).take(5).filter_map(|line| line.split(' ').next()) {
            text.push_str(&front.journal_of(key).join("\n"));
        }
        fs::write(logs.join(format!("{}-redouble.log", program.name)), text).map_err(|error| error.to_string())?;
    }
    let unknown = written.iter().map(|written| written.unknown.len()).sum();
    let written = written.iter().map(|written| written.last).sum();
    Ok(Outcome { transcript, written, unknown, lost, doubled, seen, log })
}

/// Plays a program that uses Sentinels on those of redouble itself, and then compares it with what it does on real ones. Nobody
/// waits there for a master that is gone: the test moves the clock.
pub fn compare_with_own(name: &str) -> Result<(), String> {
    let program = PROGRAMS.iter().find(|program| program.name == name).expect("a program");
    let (own, real) = (play_on_own(program)?, play(program, false)?);
    for (number, (own, real)) in own.transcript.iter().zip(&real.transcript).enumerate() {
        if own != real {
            return Err(format!("line {}, real: {real}\n  own: {own}", number + 1));
        }
    }
    match (own.transcript.len(), real.transcript.len()) {
        (own, real) if own != real => Err(format!("{own} lines on redouble's Sentinels, {real} on real ones")),
        _ if !own.lost.is_empty() || !own.doubled.is_empty() && real.doubled.is_empty() => {
            Err([own.lost, own.doubled].concat().join("; "))
        }
        _ => Ok(()),
    }
}

fn play_on_own(program: &Program) -> Result<Outcome, String> {
    let installed = install(program.language)?;
    let builder = Server::builder().compat("redis-7.0".parse()?).replicas(2).sentinels(3);
    let master = builder.spawn().map_err(|error| error.to_string())?;
    let sentinels = master.sentinels();
    let list = sentinels.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",");
    let environment = vec![
        ("REDIS_URL".to_owned(), master.url()),
        ("REDIS_SENTINELS".to_owned(), list),
        ("REDIS_SENTINEL_SERVICE".to_owned(), SentinelSet::SERVICE.to_owned()),
    ];
    let logs = folder().join("logs").join("deployments");
    fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    let log = logs.join(format!("{}-own.log", program.name));
    let mut running = Running::start(program, &installed, environment, &log)?;
    let mut transcript = running.until("-- load")?;
    running.progress(3)?;
    let named = || {
        let mut sentinel = Wire::connect(sentinels[0]);
        let answer = sentinel.ask(&format!("SENTINEL GET-MASTER-ADDR-BY-NAME {}", SentinelSet::SERVICE));
        let [host, port] = [0, 1].map(|index| answer.items()[index].text());
        format!("{host}:{port}").parse::<SocketAddr>().expect("an address")
    };
    // As on the real side: a write on its way may be lost otherwise.
    let accept = |address: SocketAddr, replicas: u32| {
        Wire::connect(address).ask(&format!("CONFIG SET min-replicas-to-write {replicas}"));
    };
    let first = named();
    accept(first, 100);
    master.stop().map_err(|error| error.to_string())?;
    master.advance(Duration::from_secs(30));
    running.progress(3)?;
    master.start().map_err(|error| error.to_string())?;
    accept(first, 0);
    let second = named();
    accept(second, 100);
    let reply = Wire::connect(sentinels[0]).ask(&format!("SENTINEL FAILOVER {}", SentinelSet::SERVICE));
    if reply.is_error() {
        return Err(format!("SENTINEL FAILOVER: {reply:?}"));
    }
    accept(second, 0);
    running.progress(3)?;
    running.stop();
    let written = running.until("-- after")?;
    transcript.extend(running.until_end()?);
    let lines = transcript.join("\n");
    fs::write(log.with_extension("txt"), lines).map_err(|error| format!("{}: {error}", log.display()))?;
    let written: Vec<Written> = written.iter().filter_map(|line| Written::parse(line)).collect();
    let (lost, doubled) = compare_writes(|_| named(), &written);
    let unknown = written.iter().map(|written| written.unknown.len()).sum();
    let written = written.iter().map(|written| written.last).sum();
    Ok(Outcome { transcript, written, unknown, lost, doubled, seen: Seen::default(), log })
}

/// Slots move, a replica takes over, a master is killed, and slots move again.
fn events_of_cluster(cluster: &mut Cluster, running: &mut Running) -> Result<(), String> {
    let keys = (0..WORKERS).flat_map(|worker| (0..KEYS).map(move |number| format!("w{worker}:{number}")));
    let mut slots: Vec<u16> = keys.map(|key| slot_of(&key)).collect::<BTreeSet<_>>().into_iter().collect();
    let others: Vec<u16> = (0..SLOTS).filter(|slot| !slots.contains(slot)).collect();
    slots.extend(&others[..MOVED_SLOTS - slots.len()]);
    // Each half has slots with keys.
    let (even, odd): (Vec<_>, Vec<_>) = slots.into_iter().enumerate().partition(|(index, _)| index % 2 == 0);
    let [even, odd] = [even, odd].map(|half| half.into_iter().map(|(_, slot)| slot).collect::<Vec<u16>>());
    cluster.move_slots(&even);
    running.progress(2)?;
    let [first, second] = [0, 1].map(|index| cluster.nodes[index].port());
    cluster.fail_over(first);
    running.progress(2)?;
    cluster.kill_master(second);
    running.progress(2)?;
    cluster.move_slots(&odd);
    Ok(())
}

/// A program that runs.
struct Running {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    log: PathBuf,
}

impl Running {
    fn start(
        program: &Program,
        installed: &Path,
        environment: Vec<(String, String)>,
        log: &Path,
    ) -> Result<Self, String> {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/deployments/programs");
        let mut command = match program.language {
            Language::Python => {
                let mut command = Command::new(installed);
                command.arg(programs.join(program.name).with_extension("py")).env("PYTHONDONTWRITEBYTECODE", "1");
                command
            }
            Language::Node => {
                let mut command = Command::new("node");
                command.arg(programs.join(program.name).with_extension("js")).env("NODE_PATH", installed);
                command
            }
            Language::Rust => {
                let mut command = Command::new(installed);
                command.args(["--program", program.name]);
                command
            }
        };
        let errors = fs::File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
        command.envs(environment).env("PROTOCOL", program.protocol);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", program.name))?;
        let (sender, lines) = channel();
        let output = child.stdout.take().expect("piped");
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let input = child.stdin.take();
        Ok(Self { child, input, lines, log: log.to_owned() })
    }

    fn next(&self, awaited: &str) -> Result<String, String> {
        self.lines.recv_timeout(LONGEST).map_err(|error| {
            let said = fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<&str> = said.lines().collect();
            let end = lines[lines.len().saturating_sub(25)..].join("\n");
            format!("no {awaited} of the program: {error}\n{end}")
        })
    }

    /// The lines up to this one, without those that tell progress.
    fn until(&self, last: &str) -> Result<Vec<String>, String> {
        let mut lines = Vec::new();
        loop {
            match self.next(last)? {
                line if line == last => return Ok(lines),
                line if line == "." => {}
                line => lines.push(line),
            }
        }
    }

    /// Waits until the workers have got on a little.
    fn progress(&self, steps: usize) -> Result<(), String> {
        // What they did meanwhile does not count.
        while self.lines.try_recv().is_ok() {}
        for _ in 0..steps {
            self.next("progress")?;
        }
        Ok(())
    }

    /// Ends the load.
    fn stop(&mut self) {
        if let Some(mut input) = self.input.take() {
            let _ = input.write_all(b"stop\n");
        }
    }

    fn until_end(&mut self) -> Result<Vec<String>, String> {
        let mut lines = Vec::new();
        while let Ok(line) = self.next("line") {
            lines.push(line);
        }
        let status = self.child.wait().map_err(|error| error.to_string())?;
        if status.success() {
            Ok(lines)
        } else {
            let said = fs::read_to_string(&self.log).unwrap_or_default();
            Err(format!("the program ended with {status} after {:?}\n{said}", lines.last()))
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a worker wrote: the numbers from 1 to the last one, as far as it knows.
struct Written {
    last: usize,
    unknown: BTreeSet<usize>,
}

impl Written {
    /// Parses `worker 0 200 unknown 7 9`.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("worker ")?.split_whitespace().skip(1);
        let last = words.next()?.parse().ok()?;
        let unknown = words.skip(1).map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(Self { last, unknown })
    }
}

/// Compares what the workers were told with what is there: what is lost, and what is there too often.
fn compare_writes(master_of: impl Fn(&str) -> SocketAddr, written: &[Written]) -> (Vec<String>, Vec<String>) {
    let mut reader = Reader { master_of, wires: BTreeMap::new() };
    let (mut lost, mut doubled) = (Vec::new(), Vec::new());
    for (worker, Written { last, unknown }) in written.iter().enumerate() {
        for remainder in 0..KEYS {
            let key = format!("w{worker}:{remainder}");
            let expected: Vec<usize> = (1..=*last).filter(|number| number % KEYS == remainder).collect();
            let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
            let elements: Vec<usize> = reader.list(&key);
            for number in &elements {
                *counts.entry(*number).or_default() += 1;
            }
            for number in &expected {
                match counts.get(number).copied().unwrap_or(0) {
                    0 if !unknown.contains(number) => lost.push(format!("{key} has not {number}")),
                    0 | 1 => {}
                    count => doubled.push(format!("{key} has {number} {count} times")),
                }
            }
            if let Some(stranger) = counts.keys().find(|number| !expected.contains(number)) {
                doubled.push(format!("{key} has {stranger}, which nobody wrote"));
            }
            let sure = expected.iter().filter(|number| !unknown.contains(number)).count();
            let counted = reader.counter(&format!("n{key}"));
            if counted < sure {
                lost.push(format!("n{key} is {counted} after {sure} acknowledged increments"));
            } else if counted > expected.len() {
                doubled.push(format!("n{key} is {counted} after {} increments", expected.len()));
            }
        }
    }
    (lost, doubled)
}

/// Reads keys from the masters themselves.
struct Reader<M> {
    /// Where the master of a key is.
    master_of: M,
    wires: BTreeMap<SocketAddr, Wire>,
}

impl<M: Fn(&str) -> SocketAddr> Reader<M> {
    fn wire(&mut self, key: &str) -> &mut Wire {
        let address = (self.master_of)(key);
        self.wires.entry(address).or_insert_with(|| Wire::connect(address))
    }

    fn list(&mut self, key: &str) -> Vec<usize> {
        let list = self.wire(key).call(&["LRANGE", key, "0", "-1"]);
        list.items().iter().map(|element| element.text().parse().expect("a number")).collect()
    }

    fn counter(&mut self, key: &str) -> usize {
        // Nothing is there if no increment was acknowledged.
        self.wire(key).call(&["GET", key]).text().parse().unwrap_or(0)
    }
}
