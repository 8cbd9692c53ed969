//! How clients wait for locks.
//!
//! A client that pauses between two attempts does so in real time, whatever the server's clock shows, and whoever waits
//! for a message instead makes no attempts. So real time is what pauses are measured in. Where a test moves the server's
//! clock it may well stand for the passing of time, and nobody is blamed for what came between.

use crate::insight::audit::code::Code;
use crate::insight::audit::finding::{Evidence, Mark};
use crate::insight::audit::happening::{Draft, Happening, Scene, spelled};
use crate::insight::audit::lock::{Hold, Same, Standing, put};

use super::ending::{is_telling, name_of};

/// What is remembered of one lock.
#[derive(Clone, Default)]
pub struct Memory {
    tries: Vec<Tries>,
    round: Option<Box<Round>>,
    own: Option<Box<Own>>,
}

/// How many clients' attempts are remembered of each lock.
const MOST_TRIES: usize = 64;

/// Attempts with less than this between them, in microseconds, have no pause.
const PAUSE: i64 = 2000;
/// So many of them in a row, or so many in a second, are a storm.
const MOST_WITHOUT_PAUSE: u64 = 50;
const MOST_IN_A_SECOND: u64 = 200;
const SECOND: i64 = 1_000_000;

/// So many equal pauses are no chance, and there is no use in looking at more than this many together.
const EQUAL_PAUSES: u32 = 8;
const MOST_PAUSES: u32 = 16;
/// How much pauses may differ that are equal: their standard deviation in parts of their mean.
const EQUAL: f64 = 0.05;

/// So many rounds in which the same clients come together are no chance, with so many microseconds between.
const ROUNDS: u32 = 4;
const BETWEEN_ROUNDS: i64 = 10_000;
const MOST_IN_ROUND: usize = 16;

/// The attempts of one client that was refused.
#[derive(Clone)]
struct Tries {
    client: (u16, u64),
    /// When the last one was, on the server's clock and in real time.
    at: i64,
    real: i64,
    /// The first of those without a pause, and how many there were.
    hasty: (Mark, u64),
    /// The first of those within a second.
    second: (Mark, u64),
    /// The first of those with equal pauses.
    regular: Mark,
    pauses: Pauses,
}

#[derive(Clone, Copy, Default)]
struct Pauses {
    count: u32,
    sum: f64,
    squares: f64,
}

impl Pauses {
    fn add(&mut self, micros: i64) {
        #[expect(clippy::cast_precision_loss, reason = "pauses are short")]
        let pause = micros as f64;
        self.count += 1;
        self.sum += pause;
        self.squares += pause * pause;
    }

    fn mean(self) -> f64 {
        self.sum / f64::from(self.count)
    }

    fn are_equal(self) -> bool {
        let mean = self.mean();
        let variance = (self.squares / f64::from(self.count) - mean * mean).max(0.0);
        self.count >= EQUAL_PAUSES && variance.sqrt() < EQUAL * mean
    }
}

/// Clients that were refused at nearly the same time.
#[derive(Clone)]
struct Round {
    first: Mark,
    clients: Vec<u64>,
    /// Those that came together in each round so far, in how many, and the first attempt of all.
    before: Vec<u64>,
    rounds: u32,
    since: Mark,
}

/// A holder that was refused by its own lock.
#[derive(Clone)]
struct Own {
    token: Box<[u8]>,
    first: Mark,
    last: Mark,
    times: u64,
    /// Always over the connection that holds it.
    same_connection: bool,
}

/// How often the holder of a lock must be refused by it to have waited.
const OFTEN: u64 = 3;

pub(super) fn see(scene: &mut Scene<'_>, happening: &Happening<'_>) {
    match *happening {
        Happening::Acquired { .. } => {
            let by = scene.by.map(|by| (by.server, by.client));
            let waiting = &mut scene.lock.memory.waiting;
            waiting.tries.retain(|tries| Some(tries.client) != by);
            (waiting.own, waiting.round) = (None, None);
        }
        Happening::Refused { value, .. } => {
            refused_by_own(scene, value);
            tried(scene);
            come_together(scene);
        }
        Happening::Removed { .. } => scene.lock.memory.waiting.own = None,
        Happening::Expired { hold } => deadlocked(scene, hold, "until it expired"),
        Happening::Closed { hold } => deadlocked(scene, hold, "until its connection ended"),
        Happening::Ended { hold } => deadlocked(scene, hold, "until the end"),
        _ => {}
    }
}

/// Whether the server's clock was moved between two attempts: more time has passed on it than in real time.
fn is_moved(at: i64, real: i64) -> bool {
    at < 0 || at > real + (real / 10).max(1000)
}

fn tried(scene: &mut Scene<'_>) {
    let Some(by) = scene.by else { return };
    let client = (by.server, by.client);
    let mark = scene.mark.clone();
    let tries = &mut scene.lock.memory.waiting.tries;
    let Some(known) = tries.iter_mut().find(|tries| tries.client == client) else {
        if tries.len() >= MOST_TRIES {
            // Who has not tried for longest has given up.
            let oldest = tries.iter().enumerate().min_by_key(|(_, tries)| tries.real).map(|(place, _)| place);
            oldest.map(|place| tries.swap_remove(place));
        }
        let (at, real) = (mark.at, mark.real);
        let (hasty, second) = ((mark.clone(), 1), (mark.clone(), 1));
        let new = Tries { client, at, real, hasty, second, regular: mark, pauses: Pauses::default() };
        put(tries, new);
        return;
    };
    let (at, real) = (mark.at - known.at, mark.real - known.real);
    (known.at, known.real) = (mark.at, mark.real);
    let is_moved = is_moved(at, real);

    if is_moved || real >= PAUSE {
        known.hasty = (mark.clone(), 0);
    }
    known.hasty.1 += 1;
    if is_moved || mark.real - known.second.0.real >= SECOND {
        known.second = (mark.clone(), 0);
    }
    known.second.1 += 1;
    let (hasty, second) = (known.hasty.clone(), known.second.clone());

    if is_moved || real < PAUSE || known.pauses.count >= MOST_PAUSES {
        (known.pauses, known.regular) = (Pauses::default(), mark);
    } else {
        known.pauses.add(real);
    }
    let (pauses, regular) = (known.pauses, known.regular.clone());

    if hasty.1 == MOST_WITHOUT_PAUSE + 1 {
        storm(scene, &hasty.0, hasty.1);
    } else if second.1 == MOST_IN_A_SECOND + 1 {
        storm(scene, &second.0, second.1);
    }
    if pauses.are_equal() {
        in_step(scene, pauses, &regular);
    }
}

fn storm(scene: &mut Scene<'_>, first: &Mark, times: u64) {
    let key = name_of(scene);
    let within = spelled((scene.mark.real - first.real).max(1000));
    let sentence = format!("{} tried to take `{key}` {times} times within {within} and was refused", first.actor());
    let evidence = vec![first.shows("was refused"), scene.now("was refused again, after all the attempts between")];
    scene.tell(Draft { code: Code::RetryStorm, severity: None, sentence, evidence, culprit: first.client });
}

/// A client tries at equal distances while others wait, too.
fn in_step(scene: &mut Scene<'_>, pauses: Pauses, first: &Mark) {
    #[expect(clippy::cast_possible_truncation, reason = "a mean of pauses between marks")]
    let mean = pauses.mean() as i64;
    let since = scene.mark.real - 2 * mean;
    let is_other = |client: u64| client != first.client;
    let other = scene.lock.waiters.iter().find(|waiter| is_other(waiter.who.client) && waiter.last.real >= since);
    let Some(other) = other else { return };
    let key = name_of(scene);
    let sentence = format!(
        "{} tried to take `{key}` {} times at equal distances of {} while {} waited for it, too",
        first.actor(),
        pauses.count + 1,
        spelled(mean),
        other.who.actor()
    );
    let evidence = vec![
        first.shows("was refused, the first of several times at equal distances"),
        other.last.shows("waits, too"),
        scene.now("was refused, the last of these times"),
    ];
    if let Some(tries) = scene.lock.memory.waiting.tries.iter_mut().find(|tries| tries.client.1 == first.client) {
        (tries.pauses, tries.regular) = (Pauses::default(), scene.mark.clone());
    }
    scene.tell(Draft { code: Code::RetryInStep, severity: None, sentence, evidence, culprit: first.client });
}

/// Several clients come at the same time, again and again, while the same holder has the lock.
fn come_together(scene: &mut Scene<'_>) {
    let Some(by) = scene.by else { return };
    let (client, mark) = (by.client, scene.mark.clone());
    let slot = &mut scene.lock.memory.waiting.round;
    let Some(round) = slot.as_deref_mut() else {
        let (first, since) = (mark.clone(), mark);
        let (clients, before) = (vec![client], Vec::new());
        *slot = Some(Box::new(Round { first, clients, before, rounds: 0, since }));
        return;
    };
    let (at, real) = (mark.at - round.first.at, mark.real - round.first.real);
    if real < PAUSE && !is_moved(at, real) {
        if !round.clients.contains(&client) && round.clients.len() < MOST_IN_ROUND {
            round.clients.push(client);
        }
        if round.rounds + 1 < ROUNDS || round.clients.len() < 3 || !round.is_as_before() {
            return;
        }
        let round = round.clone();
        scene.lock.memory.waiting.round = None;
        return told_together(scene, &round);
    }
    let is_regular = round.clients.len() >= 3 && real >= BETWEEN_ROUNDS && !is_moved(at, real) && round.is_as_before();
    if is_regular {
        round.rounds += 1;
        round.before = std::mem::take(&mut round.clients);
        round.before.sort_unstable();
    } else {
        (round.rounds, round.since) = (0, mark.clone());
        round.before.clear();
    }
    (round.first, round.clients) = (mark, vec![client]);
}

impl Round {
    fn is_as_before(&self) -> bool {
        let mut clients = self.clients.clone();
        clients.sort_unstable();
        self.before.is_empty() || self.before == clients
    }
}

fn told_together(scene: &mut Scene<'_>, round: &Round) {
    let key = name_of(scene);
    let sentence = format!(
        "{} clients tried to take `{key}` at the same time, {} times one after the other",
        round.clients.len(),
        round.rounds + 1
    );
    let evidence = vec![round.since.shows("began the first round"), scene.now("was in the last round, too")];
    scene.tell(Draft { code: Code::RetryInStep, severity: None, sentence, evidence, culprit: 0 });
}

/// The holder of a lock tries to take it again.
fn refused_by_own(scene: &mut Scene<'_>, value: &[u8]) {
    let Some(by) = scene.by else { return };
    let mark = scene.mark.clone();
    let Some(holder) = scene.lock.holder().filter(|hold| hold.is_certain && hold.who.same(by) == Same::Yes) else {
        return;
    };
    let is_same = holder.who.is(by);
    // One attempt over several connections to the same server.
    if !is_same && *holder.token == *value && is_telling(value) {
        return;
    }
    let token = holder.token.clone();
    let slot = &mut scene.lock.memory.waiting.own;
    match slot.as_deref_mut().filter(|own| own.token == token) {
        Some(own) => {
            own.times += 1;
            own.same_connection &= is_same;
            own.last = mark;
        }
        None => {
            let (first, last) = (mark.clone(), mark);
            *slot = Some(Box::new(Own { token, first, last, times: 1, same_connection: is_same }));
        }
    }
}

/// The hold of somebody is over, or it is the end, and it has waited for its own lock all the time.
fn deadlocked(scene: &mut Scene<'_>, hold: usize, until: &str) {
    let hold: Hold = scene.lock.holds[hold].clone();
    let is_its = |own: &Own| own.token == hold.token && own.times >= OFTEN && hold.standing == Standing::Held;
    let Some(own) = scene.lock.memory.waiting.own.take().filter(|own| is_its(own)) else { return };
    let key = name_of(scene);
    let who = hold.who.actor();
    let times = own.times;
    let mut sentence = format!("{who} held `{key}` and tried {times} times to take it again, {until}");
    let shared = if own.same_connection { "connection" } else { "name" };
    sentence.push_str(&format!("; it may be several parts of a program that share the {shared}"));
    let mut evidence: Vec<Evidence> = vec![hold.acquired.shows("took the lock"), own.first.shows("was refused by it")];
    evidence.push(own.last.shows("was refused by it for the last time"));
    scene.tell(Draft { code: Code::SelfDeadlock, severity: None, sentence, evidence, culprit: hold.who.client });
}
