//! Twenty clients work through redouble while their server is killed, stopped, restarted, full and cruel to connections.
//!
//! What becomes of each command is known from three sides: what its client read, what the journal says, and what the
//! server has. The server keeps a log of its data, so that it forgets nothing that it has answered, however it ends.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::upstream::Front;
use crate::support::wire::{Frame, ReadError, Wire, request};
use crate::support::{Dice, wait_until};

const CLIENTS: usize = 20;
const EVENTS: usize = 40;
const MEGABYTE: usize = 1 << 20;
/// How many replies of a megabyte a client asks for at once.
const BIG_REPLIES: usize = 8;

/// A redis-server that comes back with its data and at its address.
struct Mortal {
    folder: std::path::PathBuf,
    address: SocketAddr,
    child: Child,
}

impl Mortal {
    fn start(folder: &Path) -> Self {
        // Below those ports that the system gives to connections: none of redouble's may take it while nobody listens.
        let port = (21_000..32_000).find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok());
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.expect("a free port")));
        let mortal = Self { folder: folder.to_owned(), address, child: Self::spawn(folder, address) };
        mortal.admin();
        mortal
    }

    fn spawn(folder: &Path, address: SocketAddr) -> Child {
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string(), "--save", ""]);
        // A reply goes out once its command is written to the file.
        command.args(["--appendonly", "yes", "--appendfsync", "no", "--client-output-buffer-limit", "normal 1mb 0 0"]);
        command.arg("--dir").arg(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("redis-server starts")
    }

    /// A connection to a server that is up, past redouble.
    fn admin(&self) -> Wire {
        let mut admin = None;
        wait_until("the server to be up", || {
            if std::net::TcpStream::connect(self.address).is_ok() {
                let mut wire = Wire::connect(self.address);
                wire.send(&request(&["PING"]));
                admin = wire.read().is_ok_and(|reply| reply == Frame::status("PONG")).then_some(wire);
            }
            admin.is_some()
        });
        admin.expect("it is up")
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    fn until_ended(&mut self) {
        self.child.wait().expect("its status");
    }

    fn restart(&mut self) {
        self.child = Self::spawn(&self.folder, self.address);
        self.admin();
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a client knows of a command.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen {
    Ran,
    Refused,
    /// It has no reply, or its client has not waited for it.
    Nothing,
}

/// What a client has done: increments of fields that nobody increments twice.
#[derive(Default)]
struct Deeds {
    plain: Vec<Seen>,
    /// The fields of each transaction or script.
    together: Vec<(std::ops::Range<usize>, Seen)>,
    fields: usize,
}

/// What the clients and the one who torments their server know of each other.
#[derive(Default)]
struct Scene {
    is_over: AtomicBool,
    replies: AtomicUsize,
    lost: AtomicUsize,
    /// How many clients wait for a reply.
    waiting: AtomicUsize,
}

impl Scene {
    /// Reads a reply. `None`: the connection is over.
    fn read(&self, wire: &mut Wire) -> Option<Frame> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let read = wire.read();
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        match read {
            Ok(frame) => {
                self.replies.fetch_add(1, Ordering::SeqCst);
                Some(frame)
            }
            Err(ReadError::Closed) => {
                self.lost.fetch_add(1, Ordering::SeqCst);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// A client, until everything is over.
    fn work(&self, address: SocketAddr, number: usize, seed: u64) -> Deeds {
        let mut dice = Dice::new(seed);
        let mut deeds = Deeds::default();
        while !self.is_over.load(Ordering::SeqCst) {
            let mut wire = Wire::connect(address);
            for _ in 0..1 + dice.below(20) {
                if self.is_over.load(Ordering::SeqCst) || self.step(&mut wire, number, &mut dice, &mut deeds).is_none()
                {
                    break;
                }
            }
        }
        deeds
    }

    /// One thing that clients do. `None`: the connection is over.
    fn step(&self, wire: &mut Wire, number: usize, dice: &mut Dice, deeds: &mut Deeds) -> Option<()> {
        let (plain, together) = (format!("plain:{number}"), format!("together:{number}"));
        match dice.below(12) {
            0..=5 => {
                let count = 1 + dice.below(40);
                let first = deeds.plain.len();
                let fields = first..first + count;
                let increment = |field: usize| request(&["HINCRBY", &plain, &field.to_string(), "1"]);
                wire.send(&fields.clone().flat_map(increment).collect::<Vec<u8>>());
                deeds.plain.resize(first + count, Seen::Nothing);
                if dice.below(20) == 0 {
                    // The client is gone before it reads.
                    return None;
                }
                for field in fields {
                    deeds.plain[field] = seen(&self.read(wire)?);
                }
            }
            kind @ 6..=8 => {
                let fields = deeds.fields..deeds.fields + 1 + dice.below(4);
                deeds.fields = fields.end;
                deeds.together.push((fields.clone(), Seen::Nothing));
                let at = deeds.together.len() - 1;
                if kind == 8 {
                    let script = "for f = ARGV[1], ARGV[2] do redis.call('HINCRBY', KEYS[1], f, 1) end return 1";
                    let (first, last) = (fields.start.to_string(), (fields.end - 1).to_string());
                    wire.send(&request(&["EVAL", script, "1", &together, &first, &last]));
                    deeds.together[at].1 = seen(&self.read(wire)?);
                    return Some(());
                }
                let increment = |field: usize| request(&["HINCRBY", &together, &field.to_string(), "1"]);
                let commands: Vec<u8> = fields.clone().flat_map(increment).collect();
                wire.send(&[request(&["MULTI"]), commands, request(&["EXEC"])].concat());
                for _ in 0..fields.len() + 1 {
                    self.read(wire)?;
                }
                deeds.together[at].1 = seen(&self.read(wire)?);
            }
            9 => {
                wire.send(&[request(&["BLPOP", "nothing", "0.05"]), request(&["PING"])].concat());
                self.read(wire)?;
                self.read(wire)?;
            }
            10 => {
                // More than the server keeps for a client.
                wire.send(&request(&["GET", "big"]).repeat(BIG_REPLIES));
                for _ in 0..BIG_REPLIES {
                    self.read(wire)?;
                }
            }
            _ => {
                wire.send(&request(&["SUBSCRIBE", "channel"]));
                self.read(wire)?;
                wire.send(&[request(&["PING"]), request(&["UNSUBSCRIBE"]), request(&["PING"])].concat());
                for _ in 0..3 {
                    self.read(wire)?;
                }
            }
        }
        Some(())
    }

    fn until_more(&self, count: &AtomicUsize, more: usize, what: &str) {
        let before = count.load(Ordering::SeqCst);
        wait_until(format_args!("{more} more {what}"), || count.load(Ordering::SeqCst) >= before + more);
    }

    fn until_all_wait(&self) {
        wait_until("all clients to wait", || self.waiting.load(Ordering::SeqCst) == CLIENTS);
    }

    /// Something bad happens to the server, and passes.
    fn torment(&self, mortal: &mut Mortal, dice: &mut Dice) {
        match dice.below(7) {
            0 => {
                mortal.signal(Signal::KILL);
                mortal.until_ended();
                self.until_more(&self.lost, CLIENTS * 2, "lost connections");
                mortal.restart();
            }
            1 => {
                let mut admin = mortal.admin();
                admin.send(&request(&["SHUTDOWN", "NOSAVE"]));
                mortal.until_ended();
                mortal.restart();
            }
            2 => {
                mortal.signal(Signal::STOP);
                self.until_all_wait();
                mortal.signal(Signal::CONT);
            }
            3 => {
                mortal.signal(Signal::STOP);
                self.until_all_wait();
                mortal.signal(Signal::KILL);
                mortal.until_ended();
                mortal.restart();
            }
            4 => drop(mortal.admin().ask("CLIENT KILL TYPE normal SKIPME yes")),
            5 => {
                let mut admin = mortal.admin();
                admin.ask("CONFIG SET maxclients 1");
                admin.ask("CLIENT KILL TYPE normal SKIPME yes");
                self.until_more(&self.lost, CLIENTS * 2, "lost connections");
                admin.ask("CONFIG SET maxclients 1000");
            }
            _ => drop(mortal.admin().ask("CLIENT PAUSE 30 WRITE")),
        }
    }
}

fn seen(reply: &Frame) -> Seen {
    if reply.is_error() { Seen::Refused } else { Seen::Ran }
}

/// The fields of a hash with their values.
fn hash(admin: &mut Wire, key: &str) -> HashMap<usize, i64> {
    let reply = admin.call(&["HGETALL", key]);
    let number = |frame: &Frame| frame.text().parse::<i64>().expect("a number");
    reply.items().chunks(2).map(|pair| (number(&pair[0]) as usize, number(&pair[1]))).collect()
}

/// The outcomes of the increments that the journal has, by client and field.
fn recorded(front: &Front) -> HashMap<(usize, usize), Vec<String>> {
    let file = front.folder().join("journal.jsonl");
    let exported =
        Wire::connect(front.address()).call(&["REDOUBLE", "JOURNAL", "EXPORT", file.to_str().expect("a text")]);
    assert!(!exported.is_error(), "{exported:?}");
    let mut recorded: HashMap<_, Vec<String>> = HashMap::new();
    for line in std::fs::read_to_string(file).expect("what was exported").lines() {
        let entry: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let words = &entry["command"];
        let Some(client) = words[1].as_str().and_then(|key| key.strip_prefix("plain:")) else { continue };
        let (Ok(client), Some(Ok(field))) = (client.parse(), words[2].as_str().map(str::parse)) else { continue };
        let outcome = entry["outcome"].as_str().expect("an outcome").to_owned();
        recorded.entry((client, field)).or_default().push(outcome);
    }
    recorded
}

#[test]
fn a_server_that_dies_stops_and_throws_clients_out_leaves_no_command_in_a_state_that_nobody_knows() {
    let seed = std::env::var("REDOUBLE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("REDOUBLE_SEED={seed}");
    let folder = std::env::temp_dir().join(format!("redouble-chaos-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut mortal = Mortal::start(&folder);
    mortal.admin().call(&["SET", "big", &"x".repeat(MEGABYTE)]);
    let front = Front::start(
        &[&format!("redis://{}", mortal.address)],
        &["--journal-size", "512mb", "--enable-paths-outside-dir", "yes"],
    );
    let address = front.address();
    let scene = Scene::default();
    let mut dice = Dice::new(seed);
    let seeds: Vec<u64> = (0..CLIENTS).map(|_| dice.next()).collect();
    let deeds: Vec<Deeds> = std::thread::scope(|scope| {
        let clients = seeds.iter().enumerate();
        let scene = &scene;
        let clients: Vec<_> =
            clients.map(|(number, seed)| scope.spawn(move || scene.work(address, number, *seed))).collect();
        let torments = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..EVENTS {
                scene.until_more(&scene.replies, 200, "replies");
                scene.torment(&mut mortal, &mut dice);
            }
            scene.until_more(&scene.replies, 1000, "replies");
        }));
        scene.is_over.store(true, Ordering::SeqCst);
        let deeds = clients.into_iter().map(|client| client.join().expect("each reply came, or its connection ended"));
        let deeds = deeds.collect();
        torments.expect("each event passed");
        deeds
    });
    // After the last event, everything works, and nothing is left of the clients.
    let mut after = Wire::connect(address);
    assert_eq!(after.call(&["HINCRBY", "plain:after", "0", "1"]), Frame::Integer(1));
    drop(after);
    let mut admin = mortal.admin();
    admin.ask_until("CLIENT LIST", |list| list.lines().count() == 1);
    let recorded = recorded(&front);
    let mut counts = [0; 5];
    for (number, deeds) in deeds.iter().enumerate() {
        let values = hash(&mut admin, &format!("plain:{number}"));
        for (field, seen) in deeds.plain.iter().enumerate() {
            let value = values.get(&field).copied().unwrap_or(0);
            let told: Vec<&str> = recorded.get(&(number, field)).into_iter().flatten().map(String::as_str).collect();
            let is_possible = match (seen, &told[..]) {
                (Seen::Ran, ["answered"]) => value == 1,
                // Who is not let in is told so without a look at the command, which may never have been sent.
                (Seen::Refused, ["answered" | "unknown"] | []) => value == 0,
                // Nobody has read the reply: it may be an error.
                (Seen::Nothing, ["answered" | "unknown"]) => value <= 1,
                (Seen::Nothing, []) => value == 0,
                _ => false,
            };
            assert!(
                is_possible,
                "client {number}, field {field}: {seen:?}, recorded as {told:?}, {value} in the server"
            );
            let kind = match (seen, &told[..]) {
                (Seen::Ran, _) => 0,
                (_, ["unknown"]) => 1,
                (Seen::Refused, _) => 2,
                (_, ["answered"]) => 3,
                _ => 4,
            };
            counts[kind] += 1;
        }
        let values = hash(&mut admin, &format!("together:{number}"));
        for (fields, seen) in &deeds.together {
            let values: Vec<i64> = fields.clone().map(|field| values.get(&field).copied().unwrap_or(0)).collect();
            let is_possible = match seen {
                Seen::Ran => values.iter().all(|value| *value == 1),
                Seen::Refused => values.iter().all(|value| *value == 0),
                Seen::Nothing => values.iter().all(|value| *value == values[0] && *value <= 1),
            };
            assert!(is_possible, "client {number}, fields {fields:?} together: {seen:?}, {values:?} in the server");
        }
    }
    let [ran, unknown, refused, unread, unsent] = counts;
    println!("ran {ran}, unknown {unknown}, refused {refused}, answered to nobody {unread}, never sent {unsent}");
    assert!(counts.iter().all(|count| *count > 0), "the seed shows too little: {counts:?}");
    // What is not the journal's is bounded by what the clients have asked for at once, and far from all that passed.
    let info = Wire::connect(address).ask("REDOUBLE JOURNAL INFO");
    let bytes = info.items().chunks(2).find(|pair| pair[0].text() == "bytes").map(|pair| pair[1].integer());
    let allowed =
        usize::try_from(bytes.expect("a number")).expect("not negative") + (CLIENTS * BIG_REPLIES + 32) * MEGABYTE;
    assert!(front.most_resident() < allowed, "{} bytes at most, {allowed} allowed", front.most_resident());
    std::fs::remove_dir_all(&folder).unwrap();
}
