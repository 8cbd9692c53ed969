//! How clients wait for locks.
//!
//! A client pauses between attempts in real time, whatever the server's clock shows. So pauses are measured in real
//! time. A test that moves the server's clock lets time pass: attempts before and after that are not compared.

use std::sync::Arc;

use super::tokens::is_unique_token;
use super::wording::{key_text, spelled};
use crate::insight::audit::client_identity::SameProgram;
use crate::insight::audit::code::Code;
use crate::insight::audit::finding::{Evidence, JournalRef};
use crate::insight::audit::lock::{HoldStatus, push_exact};
use crate::insight::audit::lock_event::LockEvent;
use crate::insight::audit::rule_context::{FindingDraft, RuleContext};

/// What is remembered of one lock.
#[derive(Clone, Default)]
pub struct WaitingState {
    tries: Vec<Tries>,
    round: Option<Box<Round>>,
    own: Option<Box<Own>>,
}

impl WaitingState {
    /// Whether nothing is remembered.
    pub fn is_initial(&self) -> bool {
        let Self { tries, round, own } = self;
        tries.is_empty() && round.is_none() && own.is_none()
    }
}

/// How many clients' attempts are remembered of each lock.
const MAX_TRIES: usize = 64;

/// The shortest pause between two attempts, in microseconds.
const PAUSE: i64 = 2000;
/// How many attempts without a pause, or within a second, are no storm yet.
pub const MAX_WITHOUT_PAUSE: u64 = 50;
pub const MAX_IN_A_SECOND: u64 = 200;
const SECOND: i64 = 1_000_000;

/// How many equal pauses are no chance, and how many are looked at together.
pub const EQUAL_PAUSES: u32 = 8;
const MAX_PAUSES: u32 = 16;
/// How much equal pauses may differ: their standard deviation as a part of their mean.
const EQUAL: f64 = 0.05;

/// How many rounds in which the same clients come together are no chance, and how many microseconds lie between.
pub const ROUNDS: u32 = 4;
const BETWEEN_ROUNDS: i64 = 10_000;
const MAX_IN_ROUND: usize = 16;

/// The refused attempts of one client.
#[derive(Clone)]
struct Tries {
    client: (u16, u64),
    first: Arc<JournalRef>,
    /// `None` while there is only the first: most clients of most locks try once.
    repeated: Option<Box<Repeated>>,
}

/// The attempts of a client that has tried again.
#[derive(Clone)]
struct Repeated {
    /// The last attempt, on the server's clock and in real time.
    at: i64,
    real: i64,
    /// When it may have taken effect at the earliest, in real time.
    earliest: i64,
    /// The first attempt of those without a pause, and their number.
    hasty: (Arc<JournalRef>, u64),
    /// The first attempt of those within a second, and their number.
    second: (Arc<JournalRef>, u64),
    /// The first attempt of those with equal pauses.
    regular: Arc<JournalRef>,
    pauses: Pauses,
}

impl Repeated {
    fn new(first: &Arc<JournalRef>) -> Self {
        Self {
            at: first.at,
            real: first.real,
            earliest: first.earliest,
            hasty: (Arc::clone(first), 1),
            second: (Arc::clone(first), 1),
            regular: Arc::clone(first),
            pauses: Pauses::default(),
        }
    }
}

impl Tries {
    /// When the last attempt was, in real time.
    fn last(&self) -> i64 {
        self.repeated.as_ref().map_or(self.first.real, |repeated| repeated.real)
    }
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

/// Clients that are refused at nearly the same time.
#[derive(Clone)]
struct Round {
    first: Arc<JournalRef>,
    clients: Vec<u64>,
    /// The clients of each round so far, the number of rounds, and the first attempt of all.
    before: Vec<u64>,
    rounds: u32,
    since: Arc<JournalRef>,
}

/// A holder that its own lock refuses.
#[derive(Clone)]
struct Own {
    token: Box<[u8]>,
    first: Arc<JournalRef>,
    last: Arc<JournalRef>,
    times: u64,
    /// Always over the connection that holds the lock.
    same_connection: bool,
}

/// How often a lock must refuse its holder to count as waiting.
pub const OFTEN_REFUSED: u64 = 3;

pub fn observe(context: &mut RuleContext<'_>, state: &mut WaitingState, event: &LockEvent<'_>) {
    match *event {
        LockEvent::Acquired { .. } => {
            let actor = context.actor.map(|actor| (actor.server, actor.id));
            let waiting = &mut *state;
            waiting.tries.retain(|tries| Some(tries.client) != actor);
            (waiting.own, waiting.round) = (None, None);
        }
        LockEvent::Refused { value, .. } => {
            refused_by_own(context, state, value);
            // Of a journal without real time it is unknown whether a clock was moved.
            if context.collector.has_real_time(context.lock.id.server) {
                tried(context, state);
                come_together(context, state);
            }
        }
        LockEvent::Deleted { .. } | LockEvent::Doubted => state.own = None,
        LockEvent::Expired { hold } => deadlocked(context, state, hold, "until it expired"),
        LockEvent::ConnectionClosed { hold } => deadlocked(context, state, hold, "until its connection ended"),
        LockEvent::HeldAtEnd { hold } => deadlocked(context, state, hold, "until the end"),
        _ => {}
    }
}

/// Whether the server's clock was moved between two attempts: more time passed on it than in real time.
fn is_moved(at: i64, real: i64) -> bool {
    at < 0 || at > real + (real / 10).max(1000)
}

fn tried(context: &mut RuleContext<'_>, state: &mut WaitingState) {
    let Some(actor) = context.actor else { return };
    let client = (actor.server, actor.id);
    let source = context.source.clone();
    let tries = &mut state.tries;
    let Some(known) = tries.iter_mut().find(|tries| tries.client == client) else {
        if tries.len() >= MAX_TRIES {
            // The client with the oldest attempt has given up.
            let oldest = tries.iter().enumerate().min_by_key(|(_, tries)| tries.last()).map(|(id, _)| id);
            oldest.map(|id| tries.swap_remove(id));
        }
        push_exact(tries, Tries { client, first: source, repeated: None });
        return;
    };
    let Tries { first, repeated, .. } = known;
    let known = repeated.get_or_insert_with(|| Box::new(Repeated::new(first)));
    // The longest and the shortest pause that there may have been.
    let (at, real) = (source.at - known.at, source.real - known.earliest);
    let least = source.earliest - known.real;
    (known.at, known.real, known.earliest) = (source.at, source.real, source.earliest);
    let is_moved = is_moved(at, real);

    if is_moved || real >= PAUSE {
        known.hasty = (source.clone(), 0);
    }
    known.hasty.1 += 1;
    if is_moved || source.real - known.second.0.earliest >= SECOND {
        known.second = (source.clone(), 0);
    }
    known.second.1 += 1;
    let (hasty, second) = (known.hasty.clone(), known.second.clone());

    // Pauses that are not known well enough are not compared.
    let is_vague = real - least > real / 50;
    if is_moved || is_vague || real < PAUSE || known.pauses.count >= MAX_PAUSES {
        (known.pauses, known.regular) = (Pauses::default(), source);
    } else {
        known.pauses.add(real);
    }
    let (pauses, regular) = (known.pauses, known.regular.clone());

    if hasty.1 == MAX_WITHOUT_PAUSE + 1 {
        storm(context, &hasty.0, hasty.1);
    } else if second.1 == MAX_IN_A_SECOND + 1 {
        storm(context, &second.0, second.1);
    }
    if pauses.are_equal() {
        in_step(context, state, pauses, &regular);
    }
}

fn storm(context: &mut RuleContext<'_>, first: &JournalRef, times: u64) {
    let key = key_text(context.lock);
    let within = spelled((context.source.real - first.real).max(1000));
    let sentence = format!(
        "{} tried to take `{key}` {times} times within {within} and was refused: the server is kept busy with that",
        first.display_name()
    );
    let evidence = vec![first.shows("was refused"), context.now("was refused again, after all the attempts between")];
    context.report(FindingDraft { code: Code::RetryStorm, severity: None, sentence, evidence, culprit: first.client });
}

/// A client tries at equal distances while another one waits, too.
fn in_step(context: &mut RuleContext<'_>, state: &mut WaitingState, pauses: Pauses, first: &JournalRef) {
    #[expect(clippy::cast_possible_truncation, reason = "a mean of pauses between attempts")]
    let mean = pauses.mean() as i64;
    let since = context.source.real - 2 * mean;
    let is_other = |client: u64| client != first.client;
    let other = context.lock.waiters.iter().find(|waiter| is_other(waiter.client.id) && waiter.last.real >= since);
    let Some(other) = other else { return };
    let key = key_text(context.lock);
    let sentence = format!(
        "{} tried to take `{key}` {} times at equal distances of {} while {} waited for it, too",
        first.display_name(),
        pauses.count + 1,
        spelled(mean),
        other.client.display_name()
    );
    let evidence = vec![
        first.shows("was refused, the first of several times at equal distances"),
        other.last.shows("waits, too"),
        context.now("was refused, the last of these times"),
    ];
    let tries = state.tries.iter_mut().find(|tries| tries.client.1 == first.client);
    if let Some(tries) = tries.and_then(|tries| tries.repeated.as_mut()) {
        (tries.pauses, tries.regular) = (Pauses::default(), context.source.clone());
    }
    // One finding for all who wait in step at this lock: with a culprit for each, forty workers were told the same forty times.
    context.report(FindingDraft { code: Code::RetryInStep, severity: None, sentence, evidence, culprit: 0 });
}

/// Several clients come together repeatedly while the same holder has the lock.
fn come_together(context: &mut RuleContext<'_>, state: &mut WaitingState) {
    let Some(actor) = context.actor else { return };
    let (client, source) = (actor.id, context.source.clone());
    let slot = &mut state.round;
    let Some(round) = slot.as_deref_mut() else {
        let (first, since) = (source.clone(), source);
        let (clients, before) = (vec![client], Vec::new());
        *slot = Some(Box::new(Round { first, clients, before, rounds: 0, since }));
        return;
    };
    let (at, real) = (source.at - round.first.at, source.real - round.first.earliest);
    let least = source.earliest - round.first.real;
    if real < PAUSE && !is_moved(at, real) {
        if !round.clients.contains(&client) && round.clients.len() < MAX_IN_ROUND {
            round.clients.push(client);
        }
        if round.rounds + 1 < ROUNDS || round.clients.len() < 3 || !round.is_as_before() {
            return;
        }
        let round = round.clone();
        state.round = None;
        return report_rounds(context, &round);
    }
    let is_regular = round.clients.len() >= 3 && least >= BETWEEN_ROUNDS && !is_moved(at, real) && round.is_as_before();
    if is_regular {
        round.rounds += 1;
        round.before = std::mem::take(&mut round.clients);
        round.before.sort_unstable();
    } else {
        (round.rounds, round.since) = (0, source.clone());
        round.before.clear();
        round.clients.clear();
    }
    round.first = source;
    round.clients.push(client);
}

impl Round {
    fn is_as_before(&self) -> bool {
        if self.before.is_empty() || self.before.len() != self.clients.len() {
            return self.before.is_empty();
        }
        let mut clients = self.clients.clone();
        clients.sort_unstable();
        self.before == clients
    }
}

fn report_rounds(context: &mut RuleContext<'_>, round: &Round) {
    let key = key_text(context.lock);
    let sentence = format!(
        "{} clients tried to take `{key}` at the same time, {} times one after the other",
        round.clients.len(),
        round.rounds + 1
    );
    let evidence = vec![round.since.shows("began the first round"), context.now("was in the last round, too")];
    context.report(FindingDraft { code: Code::RetryInStep, severity: None, sentence, evidence, culprit: 0 });
}

/// The holder tries to take its lock again.
fn refused_by_own(context: &mut RuleContext<'_>, state: &mut WaitingState, value: &[u8]) {
    let Some(actor) = context.actor else { return };
    let source = context.source.clone();
    let Some(holder) =
        context.lock.holder().filter(|hold| hold.is_certain && hold.client.same_program(actor) == SameProgram::Yes)
    else {
        return;
    };
    let is_same = holder.client.is_same_connection(actor);
    // This is one attempt over several connections to the same server.
    if !is_same && *holder.token == *value && is_unique_token(value) {
        return;
    }
    let token = holder.token.clone();
    let slot = &mut state.own;
    match slot.as_deref_mut().filter(|own| own.token == token) {
        Some(own) => {
            own.times += 1;
            own.same_connection &= is_same;
            own.last = source;
        }
        None => {
            let (first, last) = (source.clone(), source);
            *slot = Some(Box::new(Own { token, first, last, times: 1, same_connection: is_same }));
        }
    }
}

/// A hold ends whose holder waited for its own lock all the time.
fn deadlocked(context: &mut RuleContext<'_>, state: &mut WaitingState, hold: usize, until: &str) {
    let hold = &context.lock.holds[hold];
    let is_its = |own: &Own| own.token == hold.token && own.times >= OFTEN_REFUSED && hold.status == HoldStatus::Held;
    let Some(own) = state.own.take().filter(|own| is_its(own)) else { return };
    let hold = hold.clone();
    let key = key_text(context.lock);
    let client = hold.client.display_name();
    let times = own.times;
    let mut sentence = format!("{client} held `{key}` and tried {times} times to take it again, {until}");
    let shared = if own.same_connection { "connection" } else { "name" };
    sentence.push_str(&format!("; it may be several parts of a program that share the {shared}"));
    let mut evidence: Vec<Evidence> = vec![hold.acquired.shows("took the lock"), own.first.shows("was refused by it")];
    evidence.push(own.last.shows("was refused by it for the last time"));
    context.report(FindingDraft {
        code: Code::SelfDeadlock,
        severity: None,
        sentence,
        evidence,
        culprit: hold.client.id,
    });
}
