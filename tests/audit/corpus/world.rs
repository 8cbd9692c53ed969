//! Clients that share a lock on a real server, by right and wrong algorithms, one step at a time in an order that dice
//! choose; and what the author of all that knows of it.

use std::collections::BTreeSet;

use redouble::internals::{EventKind, Item, journal_of};
use redouble::{Code, Server};

use super::linear::{Op, Operation};
use crate::story::real_micros;
use crate::support::process::ServerProcess;
use crate::support::wire::{Frame, Wire, request};
use crate::support::{Dice, address, spawn_frozen, wait_until};

/// When every history begins, in milliseconds.
const BEGIN: i64 = 1_700_000_000_000;
const LOCK: &str = "lock:orders";
const DATA: &str = "data:orders";
const EXTEND: &str =
    "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end";
const RELEASE: &str = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

/// How a client takes the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// SET NX PX with a token.
    NxPx,
    /// SETNX with a token, then PEXPIRE.
    NxThenExpire,
    /// SET NX, without an expiry.
    Nx,
    /// SETNX with a time, GET, GETSET, as documented.
    Stamp,
    /// SETNX with a time, GET, DEL, SETNX: the famous race.
    StampDel,
}

/// How it releases it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    Script,
    /// WATCH, GET, MULTI, DEL, EXEC.
    Watch,
    Blind,
    GetThenDel,
    /// By the time in its value, as documented.
    ByTime,
    /// It dies instead.
    Never,
}

/// How it extends the lock while it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extend {
    Never,
    Script,
    Blind,
}

/// What it does when the reply to the command that takes the lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterLoss {
    /// It releases what it may have taken.
    Releases,
    GivesUp,
    /// It tries again with the same token.
    TriesAgain,
}

/// What a client does.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    pub take: Take,
    pub release: Release,
    /// It looks at its time before it works and before it releases.
    pub checks: bool,
    /// How long it takes the lock for, in milliseconds, and how many writes its work has.
    pub ttl: i64,
    pub work: usize,
    pub extend: Extend,
    pub after_loss: AfterLoss,
}

impl Program {
    /// One that makes no mistake.
    fn right(dice: &mut Dice) -> Self {
        let ttl = [300, 1000, 3000][dice.below(3)];
        let work = dice.below(4);
        let (take, release) = match dice.below(3) {
            0 => (Take::NxPx, Release::Script),
            1 => (Take::NxPx, Release::Watch),
            _ => (Take::Stamp, Release::ByTime),
        };
        let extend = if take == Take::NxPx { [Extend::Never, Extend::Script][dice.below(2)] } else { Extend::Never };
        Self { take, release, checks: true, ttl, work, extend, after_loss: AfterLoss::Releases }
    }

    fn any(dice: &mut Dice, stamps: bool, is_bare: bool) -> Self {
        let right = Self::right(dice);
        let take = match stamps {
            true => [Take::Stamp, Take::StampDel, Take::StampDel][dice.below(3)],
            // Who takes the lock in two steps and who without an expiry is not to be told apart.
            false => [Take::NxPx, Take::NxPx, if is_bare { Take::Nx } else { Take::NxThenExpire }][dice.below(3)],
        };
        let release = match stamps {
            true => [Release::ByTime, Release::ByTime, Release::Never][dice.below(3)],
            false => {
                [Release::Script, Release::Watch, Release::Blind, Release::GetThenDel, Release::Never][dice.below(5)]
            }
        };
        let extend = match take {
            Take::NxPx => [Extend::Never, Extend::Never, Extend::Script, Extend::Blind][dice.below(4)],
            _ => Extend::Never,
        };
        let after_loss = [AfterLoss::Releases, AfterLoss::GivesUp, AfterLoss::TriesAgain][dice.below(3)];
        Self { take, release, checks: dice.below(2) == 0, extend, after_loss, ..right }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// It was refused, and will look at the time in the lock.
    Refused,
    /// It has read a time that is over.
    Stale,
    /// It has deleted the stale lock.
    Deleted,
    /// Its reply is held back.
    Awaiting {
        called: usize,
        until: i64,
    },
    /// It has the lock without an expiry, and will give it one.
    Bare,
    Holding {
        left: usize,
    },
    /// It has compared the token, and will delete.
    Compared,
    Gone,
}

/// What a client believes.
#[derive(Clone, Copy, Debug)]
struct Belief {
    /// Until when, in milliseconds, by what it knows itself.
    until: Option<i64>,
}

struct Client {
    name: String,
    wire: Wire,
    program: Program,
    phase: Phase,
    token: String,
    belief: Option<Belief>,
    /// It has written the data since it took the lock.
    has_worked: bool,
    /// Whose time was over when it last had the lock and did not release it.
    expired: bool,
}

/// What the server has there.
#[derive(Clone, Debug)]
struct There {
    owner: usize,
    /// Its owner was never told, and has not met it since.
    is_unheard: bool,
    deadline: Option<i64>,
}

/// A history, with what is known of it.
pub struct History {
    pub items: Vec<Item>,
    /// The mistakes that were made.
    pub truth: BTreeSet<Code>,
    /// Whose beliefs began and ended when.
    pub operations: Vec<Operation>,
    /// Somebody wrote for the first time when its lock was lost: that is found only if it comes back.
    pub is_first_write_late: bool,
    /// All programs are right.
    pub is_right: bool,
}

struct World {
    server: Server,
    driver: Wire,
    dice: Dice,
    now: i64,
    step: usize,
    clients: Vec<Client>,
    there: Option<There>,
    truth: BTreeSet<Code>,
    is_first_write_late: bool,
    operations: Vec<Operation>,
    tokens: u64,
    behind: Option<Behind>,
}

/// The real server behind redouble. Its clock cannot be moved, so its keys grow old by command.
struct Behind {
    wire: Wire,
    /// How far the time of the history is ahead of the real one from when on, in microseconds.
    shifts: Vec<(i64, i64)>,
    /// The deadlines that there were, in milliseconds. The time never stops near one of them, where the real time that passes
    /// would decide.
    instants: BTreeSet<i64>,
}

/// Plays the history with this seed.
pub fn history(seed: u64) -> History {
    let server = spawn_frozen();
    assert_eq!(Wire::connect(address(&server)).ask(&format!("REDOUBLE CLOCK SET {BEGIN}")), Frame::status("OK"));
    play(seed, server, None)
}

/// Plays the history with this seed in front of a real server.
pub fn history_in_front_of(seed: u64, redis: &ServerProcess) -> History {
    let server = Server::builder().upstream(redis.url()).spawn().expect("redouble starts");
    let mut wire = Wire::connect(redis.address());
    assert_eq!(wire.ask("FLUSHALL"), Frame::status("OK"));
    let shifts = vec![(0, BEGIN * 1000 - real_micros())];
    play(seed, server, Some(Behind { wire, shifts, instants: BTreeSet::new() }))
}

fn play(seed: u64, server: Server, behind: Option<Behind>) -> History {
    let mut dice = Dice::new(seed);
    let mut driver = Wire::connect(address(&server));
    assert_eq!(driver.ask("REDOUBLE JOURNAL ON"), Frame::status("OK"));
    let is_right = dice.below(4) == 0;
    let stamps = dice.below(2) == 0;
    let is_bare = dice.below(2) == 0;
    let count = 2 + dice.below(4);
    let programs: Vec<Program> = (0..count)
        .map(|_| {
            let mut program = match is_right {
                true => Program::right(&mut dice),
                false => Program::any(&mut dice, stamps, is_bare),
            };
            if is_right {
                // Clients of one lock keep to one way of taking it, and the documented pattern to one time: whoever comes too
                // late with GETSET would cut short the time of whoever has the lock.
                program.ttl = if stamps { 1000 } else { program.ttl };
                (program.take, program.release) = match stamps {
                    true => (Take::Stamp, Release::ByTime),
                    false if program.release == Release::ByTime => (Take::NxPx, Release::Script),
                    false => (Take::NxPx, program.release),
                };
                program.extend = if stamps { Extend::Never } else { program.extend };
            }
            program
        })
        .collect();
    let mut world = World {
        server,
        driver,
        dice,
        now: BEGIN,
        step: 0,
        clients: Vec::new(),
        there: None,
        truth: BTreeSet::new(),
        is_first_write_late: false,
        operations: Vec::new(),
        tokens: seed << 20,
        behind,
    };
    for (number, program) in programs.into_iter().enumerate() {
        let name = format!("C{}", number + 1);
        let wire = world.connect(&name);
        world.clients.push(Client {
            name,
            wire,
            program,
            phase: Phase::Idle,
            token: String::new(),
            belief: None,
            has_worked: false,
            expired: false,
        });
    }
    let steps = 40 + world.dice.below(120);
    for _ in 0..steps {
        world.go();
        world.keep_time();
    }
    world.end();
    if world.behind.is_some() {
        // The last line says when the history ended. Of the embedded server, the moves of its clock say that.
        world.keep_time();
        assert_eq!(world.driver.ask("PING"), Frame::status("PONG"));
    }
    let mut items = journal_of(&world.server);
    world.behind.iter().for_each(|behind| behind.tell_time(&mut items));
    let World { truth, operations, is_first_write_late, .. } = world;
    History { items, truth, operations, is_first_write_late, is_right }
}

/// How many connections have ended.
fn ended(server: &Server) -> usize {
    let is_end = |item: &&Item| matches!(item, Item::Event(event) if event.kind == EventKind::Closed);
    journal_of(server).iter().filter(is_end).count()
}

impl Behind {
    /// Gives the lines the times of the history.
    fn tell_time(&self, items: &mut [Item]) {
        for item in items {
            let (at, real) = match item {
                Item::Command(entry) => (&mut entry.at, entry.real),
                Item::Event(event) => (&mut event.at, event.real),
            };
            let shift = self.shifts.iter().rev().find(|(since, _)| *since <= real);
            *at = real + shift.map_or(0, |(_, shift)| *shift);
        }
    }
}

impl World {
    fn connect(&self, name: &str) -> Wire {
        let mut wire = Wire::connect(address(&self.server));
        assert_eq!(wire.ask(&format!("CLIENT SETNAME {name}")), Frame::status("OK"));
        wire
    }

    fn go(&mut self) {
        self.step += 1;
        if self.dice.below(5) == 0 {
            let by = 1 + self.dice.below(700);
            return self.advance(i64::try_from(by).expect("a small number"));
        }
        let who = self.dice.below(self.clients.len());
        self.act(who);
    }

    fn advance(&mut self, by: i64) {
        match &self.behind {
            None => {
                assert_eq!(self.driver.ask(&format!("REDOUBLE CLOCK ADVANCE {by}ms")), Frame::status("OK"));
                self.now += by;
            }
            Some(behind) => {
                self.now += by;
                while behind.instants.range(self.now - 100..=self.now + 100).next().is_some() {
                    self.now += 200;
                }
            }
        }
        let is_gone =
            self.there.as_ref().is_some_and(|there| there.deadline.is_some_and(|deadline| self.now > deadline));
        if let Some(behind) = self.behind.as_mut().filter(|_| is_gone) {
            behind.wire.ask(&format!("DEL {LOCK}"));
        }
        if let Some(there) = self.there.take_if(|there| there.deadline.is_some_and(|deadline| self.now > deadline))
            && there.is_unheard
        {
            self.truth.insert(Code::LostAndNotReleased);
        }
        for who in 0..self.clients.len() {
            if self.clients[who].belief.is_some_and(|belief| belief.until.is_some_and(|until| self.now > until)) {
                self.clients[who].expired = true;
                self.end_belief(who);
            }
        }
    }

    /// Lets the keys of the real server live as long as in the history.
    fn keep_time(&mut self) {
        let Some(behind) = &mut self.behind else { return };
        let deadline = self.there.as_ref().and_then(|there| there.deadline);
        if let Some(deadline) = deadline {
            behind.wire.ask(&format!("PEXPIRE {LOCK} {}", deadline - self.now));
        }
        let beliefs = self.clients.iter().filter_map(|client| client.belief?.until);
        let stamps = self.clients.iter().filter_map(|client| client.token.parse().ok());
        let awaited = self.clients.iter().filter_map(|client| match client.phase {
            Phase::Awaiting { until, .. } => Some(until),
            _ => None,
        });
        behind.instants.extend(deadline.into_iter().chain(beliefs).chain(stamps).chain(awaited));
        let real = real_micros();
        behind.shifts.push((real, self.now * 1000 - real));
    }

    /// How a pattern names a client. Its number is not the one that a real server behind gives it.
    fn selector(&mut self, who: usize) -> String {
        match self.behind {
            None => format!("client {}", self.clients[who].wire.ask("CLIENT ID").integer()),
            Some(_) => format!("client {}", self.clients[who].name),
        }
    }

    fn end_belief(&mut self, who: usize) {
        if self.clients[who].belief.take().is_some() {
            self.operations.push(Operation { client: who, op: Op::End, call: self.step, ret: self.step });
        }
    }

    fn call(&mut self, who: usize, line: &str) -> Frame {
        let words: Vec<&str> = line.split(' ').collect();
        self.clients[who].wire.call(&words)
    }

    fn owner(&self) -> Option<usize> {
        self.there.as_ref().map(|there| there.owner)
    }

    /// A client has been told that it has the lock.
    fn begin(&mut self, who: usize, until: Option<i64>, called: usize) {
        let others = self.clients.iter().enumerate().filter(|(other, client)| *other != who && client.belief.is_some());
        if others.count() > 0 {
            self.truth.insert(Code::TwoHolders);
        }
        let client = &mut self.clients[who];
        client.belief = Some(Belief { until });
        (client.has_worked, client.expired) = (false, false);
        client.phase = Phase::Holding { left: client.program.work };
        self.operations.push(Operation { client: who, op: Op::Acquire, call: called, ret: self.step });
    }

    fn is_over(&self, who: usize) -> bool {
        self.clients[who].belief.is_none()
    }

    fn act(&mut self, who: usize) {
        match self.clients[who].phase.clone() {
            Phase::Idle => self.take(who),
            Phase::Refused => {
                let value = self.call(who, &format!("GET {LOCK}"));
                let is_stale = matches!(&value, Frame::Bulk(time) if self.is_past(time));
                self.clients[who].phase = if is_stale { Phase::Stale } else { Phase::Idle };
            }
            Phase::Stale => self.take_over(who),
            Phase::Deleted => self.set_nx_time(who),
            Phase::Awaiting { called, until } => {
                self.driver.ask(&format!("REDOUBLE GATE REMOVE held-{who}"));
                let reply = self.clients[who].wire.expect();
                assert_eq!(reply, Frame::status("OK"));
                self.clients[who].phase = Phase::Idle;
                // A client that subtracts what the answer took knows that nothing is left.
                if self.now <= until {
                    self.begin(who, Some(until), called);
                }
            }
            Phase::Bare => {
                let ttl = self.clients[who].program.ttl;
                let until = self.now + ttl;
                let done = self.call(who, &format!("PEXPIRE {LOCK} {ttl}")) == Frame::Integer(1);
                self.truth.insert(Code::ExpiryInSecondStep);
                if self.owner() != Some(who) {
                    // It went away before it had an expiry, which another's lock gets instead.
                    self.truth.insert(Code::NoExpiry);
                    if done {
                        self.truth.insert(Code::ForeignExtension);
                    }
                }
                if let Some(there) = &mut self.there {
                    there.deadline = Some(until);
                }
                if !done {
                    self.end_belief(who);
                    self.clients[who].phase = Phase::Idle;
                    return;
                }
                let client = &mut self.clients[who];
                client.belief = client.belief.map(|_| Belief { until: Some(until) });
                client.phase = Phase::Holding { left: client.program.work };
            }
            Phase::Holding { left: 0 } => self.release(who),
            Phase::Holding { left } => self.work(who, left),
            Phase::Compared => self.delete(who),
            Phase::Gone => {
                // Another process takes its place.
                let name = self.clients[who].name.clone();
                self.clients[who].wire = self.connect(&name);
                self.clients[who].phase = Phase::Idle;
            }
        }
    }

    fn is_past(&self, time: &[u8]) -> bool {
        std::str::from_utf8(time).ok().and_then(|time| time.parse::<i64>().ok()).is_some_and(|time| time < self.now)
    }

    fn take(&mut self, who: usize) {
        let Program { take, ttl, after_loss, .. } = self.clients[who].program;
        if matches!(take, Take::Stamp | Take::StampDel) {
            return self.set_nx_time(who);
        }
        self.tokens += 1;
        let token = format!("{:016x}{:016x}", self.dice.next(), self.tokens);
        self.clients[who].token = token.clone();
        let line = match take {
            Take::NxPx => format!("SET {LOCK} {token} NX PX {ttl}"),
            Take::NxThenExpire => format!("SETNX {LOCK} {token}"),
            _ => format!("SET {LOCK} {token} NX"),
        };
        let is_free = self.there.is_none();
        let deadline = (take == Take::NxPx).then_some(self.now + ttl);
        if take == Take::NxPx && is_free && self.dice.below(12) == 0 {
            return self.lose(who, &line, after_loss, deadline);
        }
        if take == Take::NxPx && is_free && self.dice.below(8) == 0 {
            return self.hold_back(who, &line, self.now + ttl);
        }
        let reply = self.call(who, &line);
        let took = matches!(&reply, Frame::Integer(1) | Frame::Status(_));
        assert_eq!(took, is_free, "{reply:?}");
        self.meet_itself(who);
        if took {
            self.there = Some(There { owner: who, is_unheard: false, deadline });
            self.begin(who, deadline, self.step);
            match take {
                Take::NxThenExpire => self.clients[who].phase = Phase::Bare,
                Take::Nx => {
                    self.truth.insert(Code::NoExpiry);
                }
                _ => {}
            }
        }
    }

    /// The reply to the command that takes the lock is lost.
    fn lose(&mut self, who: usize, line: &str, after_loss: AfterLoss, deadline: Option<i64>) {
        let client = self.selector(who);
        let armed = self.driver.ask(&format!("REDOUBLE FAULT ADD lost {client} times 1 close-after"));
        assert_eq!(armed, Frame::status("OK"));
        let words: Vec<&str> = line.split(' ').collect();
        self.clients[who].wire.send(&request(&words));
        self.clients[who].wire.read_to_end();
        self.driver.ask("REDOUBLE FAULT CLEAR");
        let name = self.clients[who].name.clone();
        self.clients[who].wire = self.connect(&name);
        if after_loss == AfterLoss::Releases {
            let token = self.clients[who].token.clone();
            let released = self.clients[who].wire.call(&["EVAL", RELEASE, "1", LOCK, &token]);
            assert_eq!(released, Frame::Integer(1));
            return;
        }
        self.there = Some(There { owner: who, is_unheard: true, deadline });
        if after_loss == AfterLoss::TriesAgain {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(self.clients[who].wire.call(&words), Frame::NullBulk);
            self.meet_itself(who);
        }
    }

    /// A client is refused by what it has itself without knowing.
    fn meet_itself(&mut self, who: usize) {
        if let Some(there) = self.there.as_mut().filter(|there| there.owner == who && there.is_unheard) {
            there.is_unheard = false;
            self.truth.insert(Code::RefusedByItself);
        }
    }

    /// The reply is on its way for a while.
    fn hold_back(&mut self, who: usize, line: &str, until: i64) {
        let client = self.selector(who);
        let gate = self.driver.ask(&format!("REDOUBLE GATE ADD held-{who} on SET {client} after timeout 1h"));
        assert_eq!(gate, Frame::status("OK"));
        let words: Vec<&str> = line.split(' ').collect();
        self.clients[who].wire.send(&request(&words));
        self.driver.ask(&format!("REDOUBLE GATE WAIT held-{who} 1"));
        self.there = Some(There { owner: who, is_unheard: false, deadline: Some(until) });
        self.clients[who].phase = Phase::Awaiting { called: self.step, until };
    }

    fn set_nx_time(&mut self, who: usize) {
        let until = self.now + self.clients[who].program.ttl;
        let reply = self.call(who, &format!("SETNX {LOCK} {until}"));
        if reply == Frame::Integer(1) {
            self.clients[who].token = until.to_string();
            self.there = Some(There { owner: who, is_unheard: false, deadline: None });
            self.begin(who, Some(until), self.step);
        } else {
            self.clients[who].phase = Phase::Refused;
        }
    }

    fn take_over(&mut self, who: usize) {
        let until = self.now + self.clients[who].program.ttl;
        if self.clients[who].program.take == Take::StampDel {
            self.truth.insert(Code::StaleDeleteRace);
            self.call(who, &format!("DEL {LOCK}"));
            self.there = None;
            self.clients[who].phase = Phase::Deleted;
            return;
        }
        let old = self.call(who, &format!("GETSET {LOCK} {until}"));
        let is_free = match &old {
            Frame::Bulk(time) => self.is_past(time),
            _ => true,
        };
        let owner = if is_free { who } else { self.owner().unwrap_or(who) };
        self.there = Some(There { owner, is_unheard: false, deadline: None });
        self.clients[who].phase = Phase::Idle;
        if is_free {
            self.clients[who].token = until.to_string();
            self.begin(who, Some(until), self.step);
        }
    }

    fn work(&mut self, who: usize, left: usize) {
        if self.clients[who].program.checks && self.is_over(who) {
            // It has noticed in time, and lets it be.
            self.clients[who].phase = Phase::Idle;
            return;
        }
        if self.clients[who].program.extend != Extend::Never && self.dice.below(3) == 0 {
            return self.extend_lock(who);
        }
        let is_lost = self.is_over(who) || self.owner() != Some(who);
        match (is_lost, self.clients[who].has_worked) {
            (true, true) => {
                self.truth.insert(Code::WorkAfterExpiry);
            }
            (true, false) => self.is_first_write_late = true,
            (false, _) => {}
        }
        self.call(who, &format!("SET {DATA} {who}"));
        let client = &mut self.clients[who];
        client.has_worked |= !is_lost;
        client.phase = Phase::Holding { left: left - 1 };
    }

    fn extend_lock(&mut self, who: usize) {
        let Program { extend, ttl, .. } = self.clients[who].program;
        let token = self.clients[who].token.clone();
        let done = match extend {
            Extend::Script => {
                self.clients[who].wire.call(&["EVAL", EXTEND, "1", LOCK, &token, &ttl.to_string()]) == Frame::Integer(1)
            }
            _ => self.call(who, &format!("PEXPIRE {LOCK} {ttl}")) == Frame::Integer(1),
        };
        let until = self.now + ttl;
        if !done {
            if self.clients[who].expired {
                self.truth.insert(Code::LateExtension);
            }
            self.end_belief(who);
            self.clients[who].phase = Phase::Idle;
            return;
        }
        if let Some(there) = &mut self.there {
            there.deadline = Some(until);
        }
        let is_own = self.owner() == Some(who);
        if extend == Extend::Blind {
            self.truth.insert(if is_own { Code::UncheckedExtension } else { Code::ForeignExtension });
        }
        // What the other does not know does not change what it believes.
        if is_own && self.clients[who].belief.is_some() {
            self.clients[who].belief = Some(Belief { until: Some(until) });
        }
    }

    fn release(&mut self, who: usize) {
        let Program { release, checks, .. } = self.clients[who].program;
        if (checks || release == Release::ByTime) && self.is_over(who) {
            self.clients[who].phase = Phase::Idle;
            return;
        }
        let token = self.clients[who].token.clone();
        match release {
            Release::Never => {
                self.clients[who].phase = Phase::Gone;
                let before = ended(&self.server);
                if self.owner() == Some(who) && self.clients[who].belief.is_some() {
                    self.truth.insert(Code::HeldAtDisconnect);
                }
                self.clients[who].wire.finish_sending();
                self.clients[who].wire.read_to_end();
                wait_until("the end of a connection", || ended(&self.server) > before);
                self.end_belief(who);
            }
            Release::Script => {
                let released = self.clients[who].wire.call(&["EVAL", RELEASE, "1", LOCK, &token]);
                self.released(who, released == Frame::Integer(1));
            }
            Release::Watch => {
                self.call(who, &format!("WATCH {LOCK}"));
                let value = self.call(who, &format!("GET {LOCK}"));
                let is_own = value == Frame::bulk(&token);
                if is_own {
                    for line in ["MULTI".to_owned(), format!("DEL {LOCK}"), "EXEC".to_owned()] {
                        self.call(who, &line);
                    }
                } else {
                    self.call(who, "UNWATCH");
                }
                self.watch_released(who, is_own);
            }
            Release::GetThenDel => {
                let value = self.call(who, &format!("GET {LOCK}"));
                if value == Frame::bulk(&token) {
                    self.clients[who].phase = Phase::Compared;
                } else {
                    self.end_belief(who);
                    self.clients[who].phase = Phase::Idle;
                }
            }
            Release::Blind => {
                match self.owner() {
                    Some(owner) if owner == who => {
                        self.truth.insert(Code::UncheckedRelease);
                    }
                    Some(owner) => self.release_another(owner),
                    None if self.clients[who].expired => {
                        self.truth.insert(Code::LateRelease);
                    }
                    None => {}
                }
                self.remove(who);
            }
            Release::ByTime => {
                if let Some(owner) = self.owner().filter(|owner| *owner != who) {
                    self.release_another(owner);
                }
                self.remove(who);
            }
        }
    }

    /// What a script has said.
    fn released(&mut self, who: usize, is_own: bool) {
        if is_own {
            self.there = None;
        } else if self.clients[who].expired {
            self.truth.insert(Code::LateRelease);
        }
        self.end_belief(who);
        self.clients[who].phase = Phase::Idle;
    }

    fn watch_released(&mut self, who: usize, is_own: bool) {
        if is_own {
            self.there = None;
        }
        self.end_belief(who);
        self.clients[who].phase = Phase::Idle;
    }

    /// The second step of a release in two.
    fn delete(&mut self, who: usize) {
        self.truth.insert(Code::GetThenDelete);
        match self.owner() {
            Some(owner) if owner != who => self.release_another(owner),
            None if self.clients[who].expired => {
                self.truth.insert(Code::LateRelease);
            }
            _ => {}
        }
        self.remove(who);
    }

    /// A lock is released that is another's; if that one is there to mind.
    fn release_another(&mut self, owner: usize) {
        if self.clients[owner].phase != Phase::Gone {
            self.truth.insert(Code::ForeignRelease);
        }
    }

    fn remove(&mut self, who: usize) {
        self.call(who, &format!("DEL {LOCK}"));
        self.there = None;
        self.end_belief(who);
        self.clients[who].phase = Phase::Idle;
    }

    /// Whoever still has something to do with the lock comes to an end.
    fn end(&mut self) {
        if self.there.as_ref().is_some_and(|there| there.is_unheard) {
            self.truth.insert(Code::LostAndNotReleased);
        }
        for who in 0..self.clients.len() {
            for _ in 0..100 {
                self.step += 1;
                match self.clients[who].phase {
                    Phase::Idle | Phase::Gone | Phase::Refused | Phase::Stale => break,
                    _ => self.act(who),
                }
            }
        }
    }
}
