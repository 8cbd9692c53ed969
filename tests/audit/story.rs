//! Short stories about locks, played by real clients on servers whose clocks stand.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use redouble::internals::{
    Event, EventKind, Item, Lock, Scope, audit, auditor, command_table, journal_of, journal_since, live_findings,
    now_of,
};
use redouble::{Code, Finding, Profile, Server, World};

use crate::support::wire::{Frame, Wire, request};
use crate::support::{address, behind, is_upstream, profile as profile_of, start, wait_until};

const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const EXTEND: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";

/// The word that stands in the journal where a node is promoted.
const PROMOTED: &str = "(promoted)";

/// What was played, and what the journals say of it.
pub struct Played {
    /// The keys that the story declares to be locks.
    locks: Vec<Vec<u8>>,
    journals: Vec<(u16, Vec<Item>)>,
    /// The lines of the story as they were sent, with the place in the order that each has.
    sent: Vec<(String, u16, u64)>,
}

/// Plays a story, line by line:
///
/// ```text
/// A: SET lock {a} NX PX 1000    the client named A sends this and waits for the reply
/// b: DEL lock                   clients in small letters have no name
/// A@2: SET lock a NX            the same on the second server
/// +2s                           the clocks of all servers move on; `-2s` moves them back
/// lost A: SET lock a NX         the reply is lost, and A's connection with it; it has another one for its next line
/// close A                       A closes its connections
/// restart                       the first server starts anew, empty
/// 30 times +100ms A: SET ...    again and again, with a step of the clock in front of each
/// 9 times A: PING | B: PING     again and again, one after the other
/// pace 1ms                      from here on lines are so far apart in real time
/// silent A: SET lock a NX       A waits for no reply, because it has turned them off
/// A: RELEASE lock {a}           the script that compares the token and deletes the key then; EXTEND lock {a} 1000 is
///                               the one that gives it so many milliseconds more; small letters go, too
/// failover                      the first server is replaced by its replica, which has all keys
/// failover without lock         the same, and the replica has not got this key
/// profile valkey-9.1            on the first line: which servers these are
/// locks lock:*                  at the beginning: the user says that these keys are locks
/// replicas                      at the beginning: the second server is a replica of the first, in the same process; with
///                               `replicas 2` the third one, too
/// hold                          nothing that the first server writes reaches its replicas from here on; `hold 2`: this one
/// cut                           the first server loses its replicas, and still serves who reaches it
/// promote                       a replica takes the place of the first server; `promote 3`: this one
/// back                          the first server takes the place of the second one
/// heal                          links are open again; a server that was cut off finds that it was replaced
/// ```
///
/// While a WAIT waits, the clocks move on to the end of its time.
///
/// Real time is not what it was: the journals are made to say that lines were 5 ms apart, so that a story is always told the
/// same.
///
/// `{s+10}`, `{ms+10}`, `{f+10}` stand for the time on the server's clock that many seconds later, in seconds,
/// milliseconds, and seconds with a fraction; `{a}` and other small letters for 32 random-looking hexadecimal digits,
/// which are the same each time; `raw:{a}` for these as sixteen bytes; `\n` for a line's end.
pub fn play(story: &str) -> Played {
    let mut lines = story.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    let profile = lines.next_if(|line| line.starts_with("profile "));
    let profile = profile.map(|line| profile_of(line.trim_start_matches("profile ")));
    let mut locks = Vec::new();
    while let Some(glob) = lines.next_if(|line| line.starts_with("locks ")) {
        locks.push(glob.trim_start_matches("locks ").as_bytes().to_vec());
    }
    let replicas =
        match lines.next_if(|line| line.starts_with("replicas")).and_then(|line| line.strip_prefix("replicas")) {
            None => 0,
            Some("") => 1,
            Some(count) => count.trim().parse().expect("a number of replicas"),
        };
    let mut stage = Stage {
        profile,
        locks: locks.clone(),
        servers: Vec::new(),
        read: Vec::new(),
        clients: BTreeMap::new(),
        sent: Vec::new(),
        paces: Vec::new(),
        ages: Vec::new(),
        failovers: 0,
    };
    stage.add_server(replicas);
    for line in lines {
        stage.line(line);
    }
    if stage.failovers == 0 && !is_upstream() {
        assert_live_is_the_same(story, &stage.servers, &locks);
        assert_live_is_the_same(story, &stage.servers, &[b"*".to_vec()]);
    }
    let mut journals: Vec<_> = (1..).zip(stage.servers.iter().map(|server| journal_of(server))).collect();
    journals.iter_mut().for_each(|(_, items)| aged(items, &stage.ages));
    if stage.failovers > 0 {
        failed_over(&mut journals[0].1);
    }
    Played { locks, journals: paced(journals, &stage.paces), sent: stage.sent }
}

/// The auditor of servers that run, which goes by the headers of most lines, finds what that of their saved journals finds, and that
/// the same if all lines have the next number: a debug build notes the even ones in short. With a timeline, none is.
fn assert_live_is_the_same(story: &str, servers: &[Server], locks: &[Vec<u8>]) {
    let scope = || Scope { locks: locks.to_vec(), ..Scope::default() };
    let journals: Vec<_> = (1..).zip(servers).map(|(number, server)| (number, journal_of(server))).collect();
    let mut later = journals.clone();
    later.iter_mut().flat_map(|(_, items)| items).for_each(|item| match item {
        Item::Command(entry) => entry.seq += 1,
        Item::Event(event) => event.seq += 1,
    });
    let whole = audit(journals.clone(), auditor(scope(), command_table()).with_timeline());
    let saved = audit(journals, auditor(scope(), command_table()));
    let later = audit(later, auditor(scope(), command_table()));
    let running: Vec<&World> = servers.iter().map(|server| &**server).collect();
    let live = live_findings(&running, scope());
    let told = |findings: &[Arc<Finding>], first: u64| {
        let told = |finding: &Arc<Finding>| {
            let evidence: Vec<_> = finding
                .evidence
                .iter()
                .map(|shown| (shown.source.server, shown.source.seq.saturating_sub(first), shown.source.line.clone()))
                .collect();
            let Finding { severity, code, sentence, times, .. } = &**finding;
            format!("{} {} {sentence} {times} {evidence:?}", severity.name(), code.name())
        };
        findings.iter().map(told).collect::<Vec<_>>()
    };
    let (whole, declared) = (told(whole.findings(), 0), locks.len());
    assert_eq!(told(saved.findings(), 0), whole, "saved, with {declared} declared locks, of\n{story}");
    assert_eq!(told(&live, 0), whole, "live, with {declared} declared locks, of\n{story}");
    assert_eq!(told(later.findings(), 1), whole, "with the next numbers, with {declared} declared locks, of\n{story}");
}

/// Journals whose lines are as far apart in real time as a story says, in the order in which they were written. From the
/// real time that is given with each pace it counts.
fn paced(journals: Vec<(u16, Vec<Item>)>, paces: &[(i64, i64)]) -> Vec<(u16, Vec<Item>)> {
    let real = |item: &Item| match item {
        Item::Command(entry) => entry.real,
        Item::Event(event) => event.real,
    };
    let mut told: Vec<(u16, Vec<Item>)> = journals.iter().map(|(server, _)| (*server, Vec::new())).collect();
    let mut rest: Vec<_> = journals.into_iter().map(|(_, items)| items.into_iter().peekable()).collect();
    let mut now = rest.iter_mut().filter_map(|items| items.peek().map(real)).min().unwrap_or(0);
    while let Some((next, was)) = rest
        .iter_mut()
        .enumerate()
        .filter_map(|(server, items)| Some((server, real(items.peek()?))))
        .min_by_key(|(server, real)| (*real, *server))
    {
        now += paces.iter().rev().find(|(from, _)| *from <= was).map_or(5000, |(_, pace)| *pace);
        let mut item = rest[next].next().expect("it is there");
        match &mut item {
            Item::Command(entry) => {
                entry.real = now;
                // A line's reply has arrived before the next line is sent. On the clock it is as it was: so is the time between
                // the two, which is the same on both.
                entry.sent = entry.sent.map(|sent| now - (was - sent).clamp(0, 1000));
            }
            Item::Event(event) => event.real = now,
        }
        told[next].1.push(item);
    }
    told
}

struct Stage {
    profile: Option<Profile>,
    /// The keys that the story declares to be locks.
    locks: Vec<Vec<u8>>,
    servers: Vec<Server>,
    /// What was read of the journal of each.
    read: Vec<JournalSoFar>,
    clients: BTreeMap<(String, usize), Wire>,
    sent: Vec<(String, u16, u64)>,
    /// Since when lines are how far apart, in microseconds.
    paces: Vec<(i64, i64)>,
    /// In front of redis-server, whose clock nobody moves: since when its keys are how much older than they were, in
    /// microseconds.
    ages: Vec<(i64, i64)>,
    failovers: usize,
}

#[derive(Default)]
struct JournalSoFar {
    /// The index of the first record that was not read.
    next: u64,
    commands: usize,
    /// The number of the last one.
    last: u64,
}

type Order = fn(&Server) -> Result<(), redouble::Error>;

/// What a line does to the first server and its replica.
fn link_order(line: &str) -> Option<Order> {
    match line {
        "hold" => Some(Server::hold_links),
        "cut" => Some(Server::cut_links),
        "heal" => Some(Server::heal_links),
        "promote" => Some(|server| server.fail_over().map(drop)),
        _ => None,
    }
}

/// What a line does to one replica, which is named by its number.
fn order_about_one(line: &str) -> Option<String> {
    let (order, number) = line.split_once(' ')?;
    match order {
        "hold" | "cut" => Some(format!("REDOUBLE LINK 1 {order} {number}")),
        "promote" => Some(format!("REDOUBLE FAILOVER 1 TO {number}")),
        _ => None,
    }
}

trait JournalOn {
    fn journal_on(&self);
}

impl JournalOn for Server {
    fn journal_on(&self) {
        let mut driver = Wire::connect(address(self));
        assert_eq!(driver.ask("REDOUBLE JOURNAL ON"), Frame::status("OK"));
    }
}

impl Stage {
    fn add_server(&mut self, replicas: usize) {
        let builder = self.locks.iter().fold(Server::builder(), |builder, keys| builder.locks(keys.clone()));
        let server = match (self.profile, replicas) {
            (Some(profile), _) => start(builder.compat(profile)),
            (None, 0) => start(builder),
            (None, replicas) => start(builder.replicas(replicas)),
        };
        let replicas = if replicas > 0 { server.replicas() } else { Vec::new() };
        for server in std::iter::once(server).chain(replicas) {
            if !is_upstream() {
                server.freeze();
            }
            server.journal_on();
            self.servers.push(server);
            self.read.push(JournalSoFar::default());
        }
    }

    fn line(&mut self, line: &str) {
        if let Some((count, rest)) = line.split_once(" times ") {
            let count: usize = count.parse().expect("a number of times");
            let (step, rest) = match rest.starts_with('+') {
                true => rest.split_once(' ').map_or((None, rest), |(step, rest)| (Some(step), rest)),
                false => (None, rest),
            };
            for _ in 0..count {
                step.into_iter().chain(rest.split(" | ")).for_each(|line| self.line(line));
            }
        } else if let Some(pace) = line.strip_prefix("pace ") {
            let millis: i64 = pace.trim_end_matches("ms").parse().expect("a pace in milliseconds");
            self.paces.push((real_micros(), millis * 1000));
        } else if let Some(by) = line.strip_prefix(['+', '-']).filter(|_| !line.contains(':')) {
            self.move_clocks(by, line.starts_with('-'));
        } else if let Some(client) = line.strip_prefix("close ") {
            self.close(client);
        } else if let Some(keys) = line.strip_prefix("failover") {
            self.fail_over(line, keys.trim_start().trim_start_matches("without "));
        } else if let Some(order) = link_order(line) {
            order(&self.servers[0]).expect("the first server has a replica");
        } else if line == "back" {
            drop(self.servers[1].fail_over().expect("the first server follows the second one"));
        } else if let Some(order) = order_about_one(line) {
            let mut driver = Wire::connect(address(&self.servers[0]));
            let done = driver.ask(&order);
            assert!(!matches!(done, Frame::Error(_)), "{order}: {done:?}");
        } else if line == "restart" {
            let mut ids = Vec::new();
            for ((_, server), wire) in &mut self.clients {
                ids.extend((*server == 1).then(|| id_of(wire, &self.servers[0])));
            }
            self.servers[0].stop().expect("it runs");
            self.clients.retain(|(_, server), _| *server != 1);
            ids.iter().for_each(|id| until_closed(&self.servers[0], *id));
            self.servers[0].start_empty().expect("it is stopped");
        } else if let Some(rest) = line.strip_prefix("lost ") {
            let (client, command) = rest.split_once(": ").expect("a client and a command");
            self.lose(client, command);
        } else if let Some(rest) = line.strip_prefix("silent ") {
            let (client, command) = rest.split_once(": ").expect("a client and a command");
            self.send(client, command);
            self.note(line, client);
        } else {
            let (client, command) = line.split_once(": ").unwrap_or_else(|| panic!("no line of a story: {line}"));
            let words = self.words(client, command);
            match words[0].eq_ignore_ascii_case(b"WAIT") {
                true => self.wait_for_replicas(client, &words),
                false => drop(self.wire(client).call(&words)),
            }
            self.note(line, client);
        }
    }

    /// Sends a WAIT. If it is not answered at once, its time passes.
    fn wait_for_replicas(&mut self, client: &str, words: &[Vec<u8>]) {
        let before = self.commands_of(client);
        self.wire(client).send(&request(words));
        let mut driver = Wire::connect(address(&self.servers[Self::name(client).1 - 1]));
        let mut is_blocked = || {
            let Frame::Bulk(info) = driver.ask("INFO clients") else { return false };
            String::from_utf8_lossy(&info).contains("blocked_clients:1")
        };
        let mut is_waiting = false;
        wait_until(format_args!("WAIT, blocked or answered"), || {
            is_waiting = is_blocked();
            is_waiting || self.commands_of(client) > before
        });
        if is_waiting {
            let timeout = String::from_utf8_lossy(&words[2]).into_owned();
            self.move_clocks(&format!("{timeout}ms"), false);
        }
        self.wire(client).expect();
    }

    fn move_clocks(&mut self, by: &str, is_back: bool) {
        if is_upstream() {
            let millis = match by.strip_suffix("ms") {
                Some(millis) => millis.parse::<f64>().expect("milliseconds"),
                None => by.trim_end_matches('s').parse::<f64>().expect("seconds") * 1e3,
            };
            let millis = if is_back { -millis as i64 } else { millis as i64 };
            behind().into_iter().for_each(|redis| age_keys(redis, millis));
            self.ages.push((real_micros(), self.age() + millis * 1000));
            return;
        }
        for server in &self.servers {
            let mut driver = Wire::connect(address(server));
            let moved = match is_back {
                false => driver.ask(&format!("REDOUBLE CLOCK ADVANCE {by}")),
                true => {
                    let back: i64 = by.trim_end_matches("ms").parse().expect("back in milliseconds");
                    let to = now_of(server) / 1000 - back;
                    driver.ask(&format!("REDOUBLE CLOCK SET {to}"))
                }
            };
            assert_eq!(moved, Frame::status("OK"), "{by}");
        }
    }

    /// Lets keys disappear without a trace, and marks the place in the journal.
    fn fail_over(&mut self, line: &str, lost: &str) {
        let mut driver = Wire::connect(address(&self.servers[0]));
        if !lost.is_empty() {
            driver.ask("REDOUBLE JOURNAL OFF");
            driver.ask(&format!("DEL {lost}"));
            driver.ask("REDOUBLE JOURNAL ON");
        }
        driver.ask(&format!("ECHO {PROMOTED}"));
        self.failovers += 1;
        self.note(line, "driver");
    }

    fn age(&self) -> i64 {
        self.ages.last().map_or(0, |(_, age)| *age)
    }

    fn name(client: &str) -> (String, usize) {
        match client.split_once('@') {
            Some((name, server)) => (name.to_owned(), server.parse().expect("the number of a server")),
            None => (client.to_owned(), 1),
        }
    }

    fn wire(&mut self, client: &str) -> &mut Wire {
        let (name, number) = Self::name(client);
        while self.servers.len() < number {
            self.add_server(0);
        }
        let server = &self.servers[number - 1];
        self.clients.entry((name.clone(), number)).or_insert_with(|| {
            let mut wire = Wire::connect(address(server));
            if name.starts_with(|first: char| first.is_ascii_uppercase()) {
                assert_eq!(wire.ask(&format!("CLIENT SETNAME {name}")), Frame::status("OK"));
            }
            wire
        })
    }

    fn lose(&mut self, client: &str, command: &str) {
        let words = self.words(client, command);
        let (name, number) = Self::name(client);
        let mut wire = {
            self.wire(client);
            self.clients.remove(&(name, number)).expect("it was just there")
        };
        let id = id_of(&mut wire, &self.servers[number - 1]);
        let mut driver = Wire::connect(address(&self.servers[number - 1]));
        let armed = driver.ask(&format!("REDOUBLE FAULT ADD lost client {id} close-after"));
        assert_eq!(armed, Frame::status("OK"));
        wire.send(&request(&words));
        wire.read_to_end();
        driver.ask("REDOUBLE FAULT CLEAR");
        self.note(&format!("lost {client}: {command}"), client);
        until_closed(&self.servers[number - 1], id);
    }

    fn close(&mut self, client: &str) {
        let wires: Vec<_> = self.clients.keys().filter(|(name, _)| name == client).cloned().collect();
        assert!(!wires.is_empty(), "{client} has no connection");
        for (name, number) in wires {
            let mut wire = self.clients.remove(&(name, number)).expect("it was just there");
            let id = id_of(&mut wire, &self.servers[number - 1]);
            drop(wire);
            until_closed(&self.servers[number - 1], id);
        }
    }

    /// Sends a command that is not replied to, and waits until it was taken in.
    fn send(&mut self, client: &str, command: &str) {
        let words = self.words(client, command);
        let before = self.commands_of(client);
        self.wire(client).send(&request(&words));
        wait_until(format_args!("{command} in the journal"), || self.commands_of(client) > before);
    }

    /// How many commands the server of a client has taken in.
    fn commands_of(&mut self, client: &str) -> usize {
        self.read_on(Self::name(client).1).commands
    }

    /// Takes in what the journal of a server has had since it was read last.
    fn read_on(&mut self, number: usize) -> &JournalSoFar {
        let read = &mut self.read[number - 1];
        let (items, next) = journal_since(&self.servers[number - 1], read.next);
        read.next = next;
        for item in items {
            let Item::Command(entry) = item else { continue };
            read.commands += 1;
            read.last = entry.seq;
        }
        read
    }

    fn note(&mut self, line: &str, client: &str) {
        let number = Self::name(client).1;
        let last = self.read_on(number).last;
        self.sent.push((line.to_owned(), u16::try_from(number).expect("few servers"), last));
    }

    /// The words of a command: quotes hold words together, and times and tokens are put in.
    fn words(&mut self, client: &str, command: &str) -> Vec<Vec<u8>> {
        self.wire(client);
        let now = now_of(&self.servers[Self::name(client).1 - 1]) + self.age();
        let mut words = Vec::new();
        let mut rest = command.trim();
        while !rest.is_empty() {
            let (word, behind) = match rest.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').expect("a closing quote"),
                None => rest.split_once(' ').unwrap_or((rest, "")),
            };
            let word = filled(word, now).replace("\\n", "\n");
            words.push(word.strip_prefix("raw:").map_or_else(|| word.clone().into_bytes(), bytes_of_hex));
            rest = behind.trim_start();
        }
        let script = match words[0].as_slice() {
            b"RELEASE" | b"release" => RELEASE,
            b"EXTEND" | b"extend" => EXTEND,
            _ => return words,
        };
        let eval = ["EVAL", script, "1"].map(|word| word.as_bytes().to_vec());
        words.splice(..1, eval);
        words
    }
}

/// The number that a server's journal has for a connection.
fn id_of(wire: &mut Wire, server: &Server) -> i64 {
    let id = wire.ask("CLIENT ID").integer();
    let entries = journal_of(server).into_iter().rev();
    let asked = entries.filter_map(|item| match item {
        Item::Command(entry) if entry.words == [b"CLIENT".to_vec(), b"ID".to_vec()] => i64::try_from(entry.client).ok(),
        _ => None,
    });
    asked.take(1).next().unwrap_or(id)
}

/// Takes so many milliseconds from what the keys of a server have still to live.
fn age_keys(redis: SocketAddr, millis: i64) {
    let mut wire = Wire::connect(redis);
    for db in 0..16 {
        wire.ask(&format!("SELECT {db}"));
        for key in wire.ask("KEYS *").items() {
            let Frame::Bulk(key) = key else { panic!("a key is text: {key:?}") };
            let left = wire.call(&[b"PTTL", key.as_slice()]).integer();
            if left >= 0 {
                let left = (left - millis).max(0).to_string();
                wire.call(&[b"PEXPIRE", key.as_slice(), left.as_bytes()]);
            }
        }
    }
}

/// Makes the clock of a journal one that was moved when the keys were made older.
fn aged(items: &mut [Item], ages: &[(i64, i64)]) {
    for item in items {
        let (at, real) = match item {
            Item::Command(entry) => (&mut entry.at, entry.real),
            Item::Event(event) => (&mut event.at, event.real),
        };
        *at += ages.iter().rev().find(|(since, _)| *since <= real).map_or(0, |(_, age)| *age);
    }
}

/// Makes a journal one of a deployment: the marks are promotions, and each command came to the master of its time.
fn failed_over(items: &mut [Item]) {
    let node = |number: usize| format!("10.0.0.{number}:6379");
    let mut master = 1;
    for item in items {
        let mark = match item {
            Item::Command(entry) if entry.words.get(1).is_some_and(|word| word == PROMOTED.as_bytes()) => entry,
            Item::Command(entry) => {
                entry.node = Some(node(master));
                continue;
            }
            Item::Event(_) => continue,
        };
        let (seq, at, real) = (mark.seq, mark.at, mark.real);
        let (kind, detail) = (EventKind::Promoted, node(master));
        master += 1;
        let (name, address, node) = (Vec::new(), String::new(), Some(node(master)));
        *item = Item::Event(Event {
            seq,
            at,
            real,
            kind,
            client: 0,
            name,
            address,
            process: None,
            node,
            detail,
            key: None,
            had_by: Vec::new(),
        });
    }
}

/// Waits until the journal of a server has the end of a connection.
pub fn until_closed(server: &Server, id: i64) {
    let is_end = |item: &Item| matches!(item, Item::Event(event) if i64::try_from(event.client) == Ok(id));
    wait_until(format_args!("the end of connection {id}"), || journal_of(server).iter().any(is_end));
}

#[allow(clippy::disallowed_methods, reason = "the journals tell real time")]
pub fn real_micros() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_micros()).expect("not for long")
}

/// A word with times and tokens put in.
fn filled(word: &str, now: i64) -> String {
    let Some((before, rest)) = word.split_once('{') else { return word.to_owned() };
    let Some((inner, behind)) = rest.split_once('}') else { return word.to_owned() };
    let split = inner.find(['+', '-']).unwrap_or(inner.len());
    let (unit, offset) = inner.split_at(split);
    let offset: f64 = if offset.is_empty() { 0.0 } else { offset.parse().expect("seconds") };
    let at = now as f64 / 1e6 + offset;
    let value = match unit {
        "s" => format!("{}", at as i64),
        "ms" => format!("{}", (at * 1e3) as i64),
        "f" => format!("{at:.6}"),
        letters if letters.chars().all(|c| c.is_ascii_lowercase()) => token(letters),
        _ => return word.to_owned(),
    };
    format!("{before}{value}{}", filled(behind, now))
}

fn bytes_of_hex(digits: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// 32 hexadecimal digits that nobody could guess, if they were not made of a seed.
pub fn token(seed: &str) -> String {
    let mut state = seed.bytes().fold(0x9e37_79b9_7f4a_7c15_u64, |state, byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(29)
    });
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    format!("{:016x}{:016x}", next(), next())
}

impl Played {
    /// What the auditor finds.
    pub fn findings(&self) -> Vec<Arc<Finding>> {
        self.findings_in(Scope { locks: self.locks.clone(), ..Scope::default() })
    }

    /// What it finds without a rule.
    pub fn findings_without(&self, code: Code) -> Vec<Arc<Finding>> {
        self.findings_in(Scope { off: vec![code], locks: self.locks.clone(), ..Scope::default() })
    }

    pub fn findings_in(&self, scope: Scope) -> Vec<Arc<Finding>> {
        audit(self.journals.clone(), auditor(scope, command_table())).findings().to_vec()
    }

    /// Why it takes a key for a lock, or does not.
    pub fn why(&self, key: &str) -> String {
        let auditor = audit(self.journals.clone(), auditor(Scope::default(), command_table()));
        auditor.explain_key(key.as_bytes()).iter().map(ToString::to_string).collect()
    }

    /// The locks that somebody holds or waits for at the end.
    pub fn locks_in(&self, scope: Scope) -> Vec<Lock> {
        let mut auditor = audit(self.journals.clone(), auditor(scope, command_table()));
        let end = |server: u16| {
            let (_, items) = self.journals.iter().find(|(number, _)| *number == server).expect("a server of the story");
            items.last().map_or((0, 0), |item| match item {
                Item::Command(entry) => (entry.at, entry.real),
                Item::Event(event) => (event.at, event.real),
            })
        };
        auditor.active_locks(end)
    }

    /// The line of the story that a mark of a finding is about; its command, if it is none of the story's.
    pub fn line_of(&self, server: u16, seq: u64) -> Option<&str> {
        let line = self.sent.iter().find(|(_, number, place)| (*number, *place) == (server, seq));
        line.map(|(line, ..)| line.as_str())
    }
}

/// A mistake, and the same done right.
pub struct Pair {
    pub code: Code,
    /// What happens, as [`play`] has it. Lines that begin with `!` are the evidence: all of them and no others.
    pub wrong: &'static str,
    pub right: &'static str,
}

/// Plays both: the mistake is found with the right evidence, and not without its rule; of the other nothing is said.
#[track_caller]
pub fn judge(pair: &Pair) {
    let code = pair.code;
    let proving: Vec<&str> =
        pair.wrong.lines().map(str::trim).filter_map(|line| line.strip_prefix('!')).map(str::trim).collect();
    let story: String = pair.wrong.lines().map(|line| line.trim().trim_start_matches('!').to_owned() + "\n").collect();
    let played = play(&story);
    let findings = played.findings();
    let told = || findings.iter().map(|finding| shown(&played, finding)).collect::<String>();
    let found = findings.iter().find(|finding| finding.code == code);
    let found = found.unwrap_or_else(|| panic!("no {} in\n{story}\nbut\n{}", code.name(), told()));
    if !proving.is_empty() {
        let evidence: Vec<&str> =
            found.evidence.iter().filter_map(|shown| played.line_of(shown.source.server, shown.source.seq)).collect();
        assert_eq!(evidence, proving, "the evidence of\n{}", shown(&played, found));
    }
    let without = played.findings_without(code);
    assert!(without.iter().all(|finding| finding.code != code), "{} although it is off", code.name());
    let right = play(pair.right);
    let blamed = right.findings();
    let told = blamed.iter().map(|finding| shown(&right, finding)).collect::<String>();
    assert!(blamed.is_empty(), "{}: found in what is right:\n{}\n{told}", code.name(), pair.right);
}

/// What is found of a kind in a story.
pub fn found(code: Code, story: &str) -> Option<Arc<Finding>> {
    play(story).findings().iter().find(|finding| finding.code == code).cloned()
}

/// Plays what is right, or of which nobody can know that it is wrong.
#[track_caller]
pub fn nothing_is_found(story: &str) {
    let played = play(story);
    let told = played.findings().iter().map(|finding| shown(&played, finding)).collect::<String>();
    assert!(told.is_empty(), "found in\n{story}\n{told}");
}

/// A finding as a failing test shows it.
pub fn shown(played: &Played, finding: &Finding) -> String {
    let mut text = format!(
        "{} {} ({} times): {}\n",
        finding.severity.name(),
        finding.code.name(),
        finding.times,
        finding.sentence
    );
    for evidence in &finding.evidence {
        let mark = &evidence.source;
        let line = played.line_of(mark.server, mark.seq).unwrap_or(&mark.line);
        text.push_str(&format!("    {}.{} {line}: {}\n", mark.server, mark.seq, evidence.what));
    }
    text
}
