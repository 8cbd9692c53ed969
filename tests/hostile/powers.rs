//! Whoever drives a test makes mistakes, and so do the clients under test: whatever the powers are asked for, and whoever
//! leaves in the middle of it, one RESET puts everything back, nobody stays held, and the server ends at once.

use std::ops::Range;
use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Once, mpsc};
use std::thread;

use crate::support::wire::{Frame, PATIENCE, Silence, Wire, request};
use crate::support::{Dice, address, spawn};
use redouble::{Fault, Pattern, Server, Servers, Verdict};

/// How many panics there have been in the server's own code.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Has panics counted: the event loop catches those of a connection, and only that connection ends.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if info.location().is_none_or(|location| !location.file().starts_with("tests/")) {
                PANICS.fetch_add(1, Ordering::SeqCst);
            }
            usual(info);
        }));
    });
}

/// Fails if something takes longer than a test waits for a reply.
#[track_caller]
fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what}: it never ended"))
}

/// What may stand for a placeholder, good and bad.
const CHOICES: &[(&str, &[&str])] = &[
    ("NAME", &["a", "b", "c", "d"]),
    ("SPACE", &["", "s", "t", "u"]),
    ("KEY", &["k", "l", "m", "stream"]),
    ("GLOB", &["*", "k", "?", "[", "[a-", "\\", "********a", "l*"]),
    ("WHO", &["c1", "c*", "1", "3", "5", "7", "nobody", "0", "99999999999999999999"]),
    (
        "COMMAND",
        &[
            "SET",
            "GET",
            "BLPOP",
            "LPUSH",
            "EXEC",
            "MULTI",
            "EVAL",
            "HELLO",
            "CLIENT",
            "CLIENT|SETINFO",
            "PING",
            "SUBSCRIBE",
            "AUTH",
            "XREAD",
            "SELECT",
            "RESET",
            "QUIT",
            "WATCH",
            "MONITOR",
            "FLUSHALL",
        ],
    ),
    ("BADCOMMAND", &["REDOUBLE", "NOSUCH", "", "CLIENT|NOSUCH", "GATE", "key", "on"]),
    (
        "TIME",
        &[
            "0",
            "1",
            "5",
            "50ms",
            "0.0001s",
            "1.5s",
            "2m",
            "1h",
            "100h",
            "9000000h",
            "18446744073709551615",
            "9e99",
            "-1",
            "",
            "x",
        ],
    ),
    ("SHORT", &["0", "1", "2ms", "0.003s"]),
    (
        "INSTANT",
        &[
            "0",
            "1",
            "1000",
            "1700000000000",
            "4102444800000",
            "2305843009213693",
            "2305843009213694",
            "9223372036854775807",
            "-1",
            "x",
        ],
    ),
    ("COUNT", &["0", "1", "2", "3", "1000", "-1", "18446744073709551615", "18446744073709551616", "x"]),
    ("SECONDS", &["0", "0.001", "0.01", "1", "1000", "1e9"]),
    ("FACTOR", &["1", "0.001", "1000000", "10", "0", "-1", "NaN", "inf"]),
    ("SIDE", &["before", "after", "BEFORE", "timeout"]),
    ("CODE", &["two-holders", "blind-delete", "TWO-HOLDERS", "*", "nosuch", ""]),
    ("SEVERITY", &["error", "warning", "note", "Error", "bad", ""]),
    ("TOKEN", &["1", "a", "v1", "xx1-1-1", ""]),
];

/// Everything that can be asked for, weighted by how often it stands here.
const COMMANDS: &[&str] = &[
    "REDOUBLE CLOCK NOW",
    "REDOUBLE CLOCK INFO",
    "REDOUBLE CLOCK FREEZE",
    "REDOUBLE CLOCK FREEZE %INSTANT",
    "REDOUBLE CLOCK ADVANCE %TIME",
    "REDOUBLE CLOCK ADVANCE %SHORT",
    "REDOUBLE CLOCK ADVANCE %SHORT",
    "REDOUBLE CLOCK SET %INSTANT",
    "REDOUBLE CLOCK SPEED %FACTOR",
    "REDOUBLE CLOCK AUTO",
    "REDOUBLE CLOCK AUTO IDLE %SHORT",
    "REDOUBLE CLOCK RESUME",
    "REDOUBLE FAULT ADD %NAME on %COMMAND error BUSY",
    "REDOUBLE FAULT ADD %NAME on %COMMAND %COMMAND key %GLOB client %WHO db %COUNT nth %COUNT times %COUNT error x",
    "REDOUBLE FAULT ADD %NAME on %COMMAND delay %TIME",
    "REDOUBLE FAULT ADD %NAME on %COMMAND delay %SHORT",
    "REDOUBLE FAULT ADD %NAME on %COMMAND close-before",
    "REDOUBLE FAULT ADD %NAME on %COMMAND close-after",
    "REDOUBLE FAULT ADD %NAME on %COMMAND truncate %COUNT",
    "REDOUBLE FAULT ADD %NAME hang",
    "REDOUBLE FAULT ADD %NAME on %COMMAND hang",
    "REDOUBLE FAULT ADD %NAME drip %COUNT every %TIME",
    "REDOUBLE FAULT ADD %NAME on %COMMAND drip 1 every %SHORT",
    "REDOUBLE FAULT ADD %NAME probability 0.3 seed %COUNT reset",
    "REDOUBLE FAULT ADD %NAME times %COUNT refuse",
    "REDOUBLE FAULT ADD %NAME pause",
    "REDOUBLE FAULT ADD %NAME on %BADCOMMAND hang",
    "REDOUBLE FAULT LIST",
    "REDOUBLE FAULT UNFIRED",
    "REDOUBLE FAULT REMOVE %NAME",
    "REDOUBLE FAULT REMOVE %NAME",
    "REDOUBLE FAULT CLEAR",
    "REDOUBLE GATE ADD %NAME",
    "REDOUBLE GATE ADD %NAME on %COMMAND %SIDE",
    "REDOUBLE GATE ADD %NAME on %COMMAND %COMMAND %SIDE",
    "REDOUBLE GATE ADD %NAME on %COMMAND key %GLOB client %WHO db %COUNT %SIDE timeout %TIME",
    "REDOUBLE GATE ADD %NAME on %COMMAND timeout %SHORT",
    "REDOUBLE GATE ADD %NAME on %BADCOMMAND",
    "REDOUBLE GATE WAIT %NAME",
    "REDOUBLE GATE WAIT %NAME %COUNT %TIME",
    "REDOUBLE GATE WAIT %NAME 1 %SHORT",
    "REDOUBLE GATE OPEN %NAME",
    "REDOUBLE GATE STEP %NAME",
    "REDOUBLE GATE STEP %NAME",
    "REDOUBLE GATE LIST",
    "REDOUBLE GATE REMOVE %NAME",
    "REDOUBLE GATE REMOVE %NAME",
    "REDOUBLE GATE CLEAR",
    "REDOUBLE EXPLORE START settle %SHORT",
    "REDOUBLE EXPLORE START runs %COUNT random %COUNT seed %COUNT settle %SHORT client %GLOB clients %COUNT",
    "REDOUBLE EXPLORE NEXT",
    "REDOUBLE EXPLORE NEXT",
    "REDOUBLE EXPLORE FAILED",
    "REDOUBLE EXPLORE ORDER",
    "REDOUBLE EXPLORE FINDINGS",
    "REDOUBLE EXPLORE REPLAY %TOKEN",
    "REDOUBLE EXPLORE STOP",
    "REDOUBLE SPACE %SPACE",
    "REDOUBLE SPACE %SPACE",
    "REDOUBLE SPACE %SPACE",
    "REDOUBLE SPACE",
    "REDOUBLE SPACES",
    "REDOUBLE SPACES DROP %SPACE",
    "REDOUBLE INSTANCE LIST",
    "REDOUBLE INSTANCE STOP 2",
    "REDOUBLE INSTANCE START 2",
    "REDOUBLE INSTANCE START 2 EMPTY",
    "REDOUBLE INSTANCE PAUSE 2",
    "REDOUBLE INSTANCE PAUSE %COUNT",
    "REDOUBLE INSTANCE RESUME %COUNT",
    "REDOUBLE INSTANCE RESUME 1",
    "REDOUBLE INSTANCE SKEW 2 %TIME",
    "REDOUBLE INSTANCE SKEW 2 -%TIME",
    "REDOUBLE INSTANCE CUT 1 %WHO",
    "REDOUBLE INSTANCE HEAL 1 %WHO",
    "REDOUBLE INSTANCE HEAL 1",
    "REDOUBLE JOURNAL ON",
    "REDOUBLE JOURNAL OFF",
    "REDOUBLE JOURNAL LIST on %COMMAND key %GLOB client %WHO db %COUNT",
    "REDOUBLE JOURNAL LIST",
    "REDOUBLE JOURNAL COUNT on %COMMAND",
    "REDOUBLE JOURNAL AWAIT on %COMMAND %COUNT %TIME",
    "REDOUBLE JOURNAL AWAIT %COUNT %SHORT",
    "REDOUBLE JOURNAL NEAR SET %KEY v",
    "REDOUBLE JOURNAL CLEAR",
    "REDOUBLE AUDIT ON",
    "REDOUBLE AUDIT ON",
    "REDOUBLE AUDIT OFF",
    "REDOUBLE AUDIT INFO",
    "REDOUBLE AUDIT LIST",
    "REDOUBLE AUDIT LIST key %GLOB code %CODE severity %SEVERITY since %COUNT allowed final limit %COUNT",
    "REDOUBLE AUDIT final",
    "REDOUBLE AUDIT COUNT code %CODE final",
    "REDOUBLE AUDIT WAIT severity %SEVERITY %COUNT %TIME",
    "REDOUBLE AUDIT WAIT %COUNT %SHORT",
    "REDOUBLE AUDIT ALLOW %CODE %GLOB known",
    "REDOUBLE AUDIT ALLOW * %GLOB",
    "REDOUBLE AUDIT CLEAR",
    "REDOUBLE LOCKS",
    "REDOUBLE LOCKS key %GLOB",
    "REDOUBLE RESET",
    "REDOUBLE HELP",
    "REDOUBLE",
    "REDOUBLE NOSUCH",
    "SET %KEY v",
    "SET %KEY v PX %COUNT",
    "SET %KEY %TOKEN NX PX %COUNT",
    "SET %KEY %TOKEN NX PXAT %INSTANT GET",
    "SETNX %KEY %INSTANT",
    "GETSET %KEY %INSTANT",
    "EXPIREAT %KEY %INSTANT",
    "EVAL if(redis.call('get',KEYS[1])==ARGV[1])then(redis.call)('del',KEYS[1])end 1 %KEY %TOKEN",
    "SET %KEY v PXAT %INSTANT",
    "PEXPIRE %KEY %COUNT",
    "PEXPIREAT %KEY %INSTANT",
    "GET %KEY",
    "PTTL %KEY",
    "DEL %KEY",
    "LPUSH %KEY v w",
    "BLPOP %KEY %KEY %SECONDS",
    "BLPOP %KEY %SECONDS",
    "BLMOVE %KEY %KEY LEFT RIGHT %SECONDS",
    "XADD stream * f v",
    "XREAD BLOCK %COUNT STREAMS stream $",
    "XGROUP CREATE stream g $ MKSTREAM",
    "XREADGROUP GROUP g c BLOCK 0 STREAMS stream >",
    "WAIT 1 %COUNT",
    "MULTI",
    "MULTI",
    "EXEC",
    "EXEC",
    "DISCARD",
    "WATCH %KEY",
    "SUBSCRIBE c",
    "PSUBSCRIBE *",
    "UNSUBSCRIBE",
    "PUNSUBSCRIBE",
    "PUBLISH c m",
    "HELLO 3",
    "HELLO 2",
    "HELLO 3 AUTH space.%SPACE any",
    "AUTH space.SPACE any",
    "AUTH poor poor",
    "ACL SETUSER poor on >poor ~* &* +@all -redouble",
    "CLIENT SETNAME c1",
    "CLIENT SETNAME c2",
    "CLIENT SETINFO LIB-NAME x",
    "CLIENT PAUSE %COUNT",
    "CLIENT PAUSE %COUNT WRITE",
    "CLIENT UNPAUSE",
    "CLIENT KILL ID %WHO",
    "CLIENT UNBLOCK %WHO",
    "CLIENT UNBLOCK %WHO ERROR",
    "CLIENT REPLY OFF",
    "CLIENT REPLY SKIP",
    "CLIENT REPLY ON",
    "CLIENT TRACKING ON",
    "CLIENT TRACKING OFF",
    "CLIENT LIST",
    "CLIENT NO-TOUCH ON",
    "CONFIG SET timeout %COUNT",
    "CONFIG SET notify-keyspace-events KEA",
    "MONITOR",
    "RESET",
    "QUIT",
    "SELECT 3",
    "SWAPDB 0 3",
    "FLUSHALL",
    "INFO",
    "PING",
    "EVAL return(redis.call('set',KEYS[1],redis.call('time')[1])) 1 %KEY",
    "EVAL return(redis.call('redouble','clock','now')) 0",
    "EVAL return(redis.pcall('lpush',KEYS[1],'v')) 1 %KEY",
    "TIME",
    "OBJECT IDLETIME %KEY",
    "SCRIPT FLUSH",
    "FUNCTION FLUSH",
];

/// One request: mostly as it should be, sometimes with a word too many, too few, or wrong.
fn draw(dice: &mut Dice) -> Vec<u8> {
    let line = COMMANDS[dice.below(COMMANDS.len())];
    let fill = |word: &str, dice: &mut Dice| -> Vec<u8> {
        let Some((before, placeholder)) = word.split_once('%') else { return word.as_bytes().to_vec() };
        let choices = CHOICES.iter().find(|(name, _)| *name == placeholder).expect("a placeholder that there is").1;
        format!("{before}{}", choices[dice.below(choices.len())]).into_bytes()
    };
    let mut words: Vec<Vec<u8>> = line.split(' ').map(|word| fill(word, dice)).collect();
    let at = dice.below(words.len());
    match dice.below(32) {
        0 => drop(words.remove(at)),
        1 => words.insert(at, words[at].clone()),
        2 => {
            let length = dice.below(40);
            words[at] = dice.bytes(length);
        }
        3 => words.truncate(at + 1),
        4 => words[at] = vec![b'x'; 1 << dice.below(18)],
        _ => {}
    }
    if words.is_empty() { request(&["PING"]) } else { request(&words) }
}

/// Reads what has come, so that it is never the test that keeps a server waiting.
fn drain(wire: &mut Wire) {
    let socket = wire.tcp();
    socket.set_nonblocking(true).expect("a socket that does not wait");
    let mut chunk = [0; 16 * 1024];
    while std::io::Read::read(&mut &*socket, &mut chunk).is_ok_and(|read| read > 0) {}
    socket.set_nonblocking(false).expect("a socket that waits");
}

/// Sends whatever there is from a dozen connections that come and go, then puts everything back.
fn rage(seed: u64, threads: usize, steps: usize) {
    count_panics();
    let what = format!("seed {seed}, {threads} threads");
    let servers = Server::builder().port(0).threads(threads).instances(2).spawn_all().expect("two servers");
    let mut dice = Dice::new(seed);
    let mut wires: Vec<Wire> = Vec::new();
    for _ in 0..steps {
        match dice.below(16) {
            0 if wires.len() < 12 => wires.push(Wire::connect(address(&servers[0]))),
            1 if wires.len() > 8 => drop(wires.swap_remove(dice.below(wires.len()))),
            2 if !wires.is_empty() => {
                // Half a request, and away.
                let request = draw(&mut dice);
                let mut wire = wires.swap_remove(dice.below(wires.len()));
                wire.send(&request[..dice.below(request.len())]);
                wire.finish_sending();
            }
            _ if wires.is_empty() => wires.push(Wire::connect(address(&servers[0]))),
            _ => {
                let chosen = dice.below(wires.len());
                let wire = &mut wires[chosen];
                let requests: Vec<u8> = (0..1 + dice.below(3)).flat_map(|_| draw(&mut dice)).collect();
                wire.send(&requests);
                drain(wire);
            }
        }
    }
    // As much as may be in the way: one RESET answers, although everybody is still there.
    let servers = put_back(&what, servers);
    drop(wires);
    let (servers, mut wire) = until_alone(&what, servers);
    assert_eq!(wire.ask("PING"), Frame::status("PONG"), "{what}");
    let info = wire.ask("INFO clients").text();
    assert!(info.contains("blocked_clients:0\r\n") && info.contains("tracking_clients:0\r\n"), "{what}: {info}");
    for empty in ["REDOUBLE GATE LIST", "REDOUBLE FAULT LIST", "KEYS *"] {
        assert_eq!(wire.ask(empty), Frame::Array(vec![]), "{what}: {empty}");
    }
    assert!(wire.ask("REDOUBLE EXPLORE FINDINGS").is_error(), "{what}");
    assert_eq!(wire.ask("REDOUBLE CLOCK ADVANCE 1"), Frame::status("OK"), "{what}");
    drop(wire);
    in_time(&what, move || drop(servers));
    assert_eq!(PANICS.load(Ordering::SeqCst), 0, "{what}");
}

/// A connection that is the only one. What the others had sent behind a command that was held still runs when they are
/// gone, and may close this one, or stop the server.
fn until_alone(what: &str, mut servers: Servers) -> (Servers, Wire) {
    const MOST: usize = 10_000;
    for _ in 0..MOST {
        servers = put_back(what, servers);
        let mut wire = Wire::connect(address(&servers[0]));
        wire.send(b"REDOUBLE INSTANCE LIST\r\nREDOUBLE RESET\r\n");
        match (wire.read(), wire.read()) {
            (Ok(list), Ok(reset)) if reset == Frame::status("OK") => {
                let first = list.items()[0].items();
                let at = first.iter().position(|field| *field == Frame::bulk("clients")).expect("a count");
                if first[at + 1] == Frame::Integer(1) {
                    return (servers, wire);
                }
            }
            (Err(Silence::TooLong), _) | (_, Err(Silence::TooLong)) => panic!("{what}: a RESET that never ended"),
            _ => {}
        }
    }
    panic!("{what}: some connection never ended");
}

/// RESET by hand, which nothing can refuse.
fn put_back(what: &str, servers: Servers) -> Servers {
    in_time(&format!("{what}: a reset"), move || {
        // It may be stopped, and then it is reset all the same.
        for server in servers.iter() {
            let _ = server.start();
            server.reset();
        }
        servers
    })
}

/// The seeds of a run; other ones, or more, by hand: `SEEDS=1000..2000 cargo test --features internals --test hostile powers`.
fn seeds(usual: Range<u64>) -> Range<u64> {
    let Ok(asked) = std::env::var("SEEDS") else { return usual };
    let (from, to) = asked.split_once("..").expect("SEEDS=from..to");
    from.parse().expect("a number")..to.parse().expect("a number")
}

#[test]
fn whatever_is_asked_of_the_powers_one_reset_puts_it_back() {
    seeds(1..5).for_each(|seed| rage(seed, 1, 1500));
}

#[test]
fn and_so_it_does_with_several_threads() {
    seeds(5..9).for_each(|seed| rage(seed, 4, 1500));
}

#[test]
fn ten_thousand_rules_and_gates_are_the_most_and_go_away_at_once() {
    let server = spawn();
    let mut wire = Wire::connect(address(&server));
    for power in ["GATE", "FAULT"] {
        let verdict = if power == "FAULT" { "hang" } else { "after" };
        let add = |n: usize| request(&["REDOUBLE", power, "ADD", &format!("n{n}"), "on", "GETDEL", verdict]);
        for hundred in 0..100 {
            let requests: Vec<u8> = (0..100).flat_map(|n| add(hundred * 100 + n)).collect();
            wire.send(&requests);
            assert!((0..100).all(|_| wire.expect() == Frame::status("OK")));
        }
        wire.send(&add(10_000));
        let kind = power.to_lowercase();
        assert_eq!(
            wire.expect(),
            Frame::error(&format!("ERR there are 10000 {kind}s already, which is the most there can be"))
        );
        assert_eq!(wire.ask(&format!("REDOUBLE {power} LIST")).items().len(), 10_000);
    }
    // None of them is about this.
    assert_eq!(wire.ask("SET lock token"), Frame::status("OK"));
    let mut held = Wire::connect(address(&server));
    held.send(b"GETDEL lock\r\n");
    wire.ask_until("INFO clients", |info| info.contains("blocked_clients:1\r\n"));
    assert_eq!(wire.ask("REDOUBLE RESET"), Frame::status("OK"));
    // It runs before the data go.
    assert_eq!(held.expect(), Frame::bulk("token"));
    assert_eq!(wire.ask("REDOUBLE GATE LIST"), Frame::Array(vec![]));
    assert_eq!(wire.ask("REDOUBLE FAULT LIST"), Frame::Array(vec![]));
}

/// A server on which clients are held in every way there is, and those who drive wait, too.
fn crowded() -> (Server, Vec<Wire>) {
    let server = spawn();
    let mut driver = Wire::connect(address(&server));
    for arm in [
        "GATE ADD before on SET",
        "GATE ADD after on INCR after",
        "FAULT ADD hang on GET hang",
        "FAULT ADD delay on DEL delay 1h",
        "FAULT ADD drip on PING drip 1 every 1h",
    ] {
        assert_eq!(driver.ask(&format!("REDOUBLE {arm}")), Frame::status("OK"), "{arm}");
    }
    let mut wires = Vec::new();
    for line in
        ["SET k v", "INCR n", "GET k", "DEL k", "PING", "BLPOP q 0", "BLPOP q 1000", "XREAD BLOCK 0 STREAMS s $"]
    {
        for _ in 0..10 {
            let mut wire = Wire::connect(address(&server));
            wire.send(format!("{line}\r\n{line}\r\n").as_bytes());
            wires.push(wire);
        }
    }
    for line in ["REDOUBLE GATE WAIT before 99 1h", "REDOUBLE JOURNAL AWAIT 99 1h", "SUBSCRIBE c"] {
        let mut wire = Wire::connect(address(&server));
        wire.send(format!("{line}\r\n").as_bytes());
        wires.push(wire);
    }
    driver.ask_until("INFO clients", |info| info.contains("blocked_clients:81\r\n"));
    wires.push(driver);
    (server, wires)
}

#[test]
fn a_server_ends_with_clients_held_in_every_way() {
    let (server, mut wires) = crowded();
    in_time("the end", move || drop(server));
    assert!(wires.iter_mut().all(Wire::is_closed));
}

#[test]
fn a_reset_frees_clients_held_in_every_way() {
    let (server, mut wires) = crowded();
    let mut driver = wires.pop().expect("the driver");
    assert_eq!(driver.ask("REDOUBLE RESET"), Frame::status("OK"));
    let info = driver.ask("INFO clients").text();
    assert!(info.contains("blocked_clients:0\r\n"), "{info}");
    // Everyone but the last three, who are drivers and listeners, has both replies.
    for wire in &mut wires[..80] {
        wire.expect();
        wire.expect();
    }
    drop(server);
}

#[test]
fn guards_that_outlive_their_server_end_all_the_same() {
    let server = spawn();
    let fault = server.fault(Fault::new("hang", Verdict::Hang).of(Pattern::on("GET"))).expect("a fault");
    let gate = server.gate("gate", Pattern::on("SET")).expect("a gate");
    let mut wires: Vec<Wire> = (0..2).map(|_| Wire::connect(address(&server))).collect();
    wires[0].send(b"SET k v\r\n");
    gate.wait_for(1).expect("it came");
    wires[1].send(b"GET k\r\n");
    in_time("the end", move || drop(server));
    assert!(wires.iter_mut().all(Wire::is_closed));
    in_time("a gate's guard", move || {
        assert!(gate.step().is_err());
        gate.open();
        drop(gate);
    });
    in_time("a fault's guard", move || drop(fault));
}
